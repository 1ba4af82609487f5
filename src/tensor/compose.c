/* Softmax, norms and losses, made of the rest.  All work in the dtype in which sums accumulate, and give the operand's.
 */
#include "tensor/operands.h"
#include <math.h>

static tn_node *float_operand(tn_ctx *c, tn_node *x) {
  tn__want(c, x, TN__C_FLOAT);
  return tn__acc(c, x);
}

/* ---- softmax ---- */

/* A row of only -inf: shifted by 0 instead of by its maximum, and divided by 1 instead of by a sum of 0.  The maximum
 * passes no gradient: the result does not depend on it. */
typedef struct softmax_parts {
  tn_node *shifted, *exp, *sum; /* x - max; its exp; the sum of that over the axis, which stays with size 1 */
} softmax_parts;

static softmax_parts take_apart(tn_ctx *c, tn_node *x, int64_t axis) {
  softmax_parts p;
  tn_node *max = tn__op1(c, OP_DETACH, tn__reduce_keep(c, OP_RMAX, x, &axis, 1, true));
  tn_node *nothing = tn__op2_num(c, OP_EQ, max, -INFINITY);
  p.shifted = tn__bsub(c, x, tn__where(c, nothing, tn__literal_like(c, max, 0), max));
  p.exp = tn__op1(c, OP_EXP, p.shifted);
  tn_node *sum = tn__reduce_keep(c, OP_SUM, p.exp, &axis, 1, true);
  p.sum = tn__where(c, nothing, tn__literal_like(c, sum, 1), sum);
  return p;
}

static tn_node *softmax_of(tn_ctx *c, tn_node *x, int64_t axis) {
  if (tn__is_empty(x, &axis, 1)) return x;
  softmax_parts p = take_apart(c, x, axis);
  return tn__bcast2(c, OP_DIV, p.exp, p.sum);
}

static tn_node *log_softmax_of(tn_ctx *c, tn_node *x, int64_t axis) {
  if (tn__is_empty(x, &axis, 1)) return x;
  softmax_parts p = take_apart(c, x, axis);
  return tn__bsub(c, p.shifted, tn__op1(c, OP_LOG, p.sum));
}

static tn_node *softmax(tn_ctx *c, tn__call *k) { /* i: axis, log? */
  tn_node *x = float_operand(c, k->x[0]);
  int64_t axis = tn__axis(c, (int)k->i[0], x->rank);
  return tn__cast(c, k->i[1] ? log_softmax_of(c, x, axis) : softmax_of(c, x, axis), k->x[0]->dtype);
}

tn_tensor *tn_softmax(tn_tensor *t, int axis) {
  return tn__build(&(tn__call){.name = "tn_softmax", .fn = softmax, .in = &t, .nin = 1, .i = {axis, 0}});
}
tn_tensor *tn_log_softmax(tn_tensor *t, int axis) {
  return tn__build(&(tn__call){.name = "tn_log_softmax", .fn = softmax, .in = &t, .nin = 1, .i = {axis, 1}});
}

/* ---- norms.  i: naxes, centre?, gamma?, beta?; f: eps ---- */

static tn_node *affine(tn_ctx *c, tn__op op, tn_node *y, tn_node *weight) {
  tn__want(c, weight, TN__C_FLOAT);
  tn__dims to = tn__dims_of(y);
  return tn__op2(c, op, y, tn__spread(c, tn__cast(c, weight, y->dtype), &to));
}

static tn_node *norm(tn_ctx *c, tn__call *k) {
  tn_node *x = float_operand(c, k->x[0]);
  int64_t n = k->i[0], axes[TN_MAX_RANK];
  if (n < 1 || n > x->rank)
    tn__fail(c, TN_EINVAL, "%lld axes are to be normalised in %s", (long long)n, tn__text(c, x));
  for (int64_t i = 0; i < n; i++) axes[i] = x->rank - n + i;
  if (k->i[1]) x = tn__bsub(c, x, tn__mean_axes(c, x, axes, (uint32_t)n, true));
  tn_node *var = tn__mean_axes(c, tn__mul(c, x, x), axes, (uint32_t)n, true);
  tn_node *scale = tn__num_op2(c, OP_DIV, 1, tn__op1(c, OP_SQRT, tn__op2_num(c, OP_ADD, var, k->f[0])));
  tn_node *y = tn__bcast2(c, OP_MUL, x, scale);
  if (k->i[2]) y = affine(c, OP_MUL, y, k->x[1]);
  if (k->i[3]) y = affine(c, OP_ADD, y, k->x[k->i[2] ? 2 : 1]);
  return tn__cast(c, y, k->x[0]->dtype);
}

/* Weights that are NULL are left out, unless an error is pending: then they are what failed. */
static tn_tensor *norm_call(const char *name, tn_tensor *x, int naxes, bool centre, tn_tensor *gamma, tn_tensor *beta,
                            double eps) {
  tn_ctx *c = tn_ctx_of(x);
  if (c && c->err.status && (!gamma || (centre && !beta))) return NULL;
  tn_tensor *in[3] = {x};
  int n = 1;
  if (gamma) in[n++] = gamma;
  if (beta) in[n++] = beta;
  return tn__build(&(tn__call){
      .name = name, .fn = norm, .in = in, .nin = n, .i = {naxes, centre, gamma != NULL, beta != NULL}, .f = {eps}});
}

tn_tensor *tn_layer_norm(tn_tensor *x, int naxes, tn_tensor *gamma, tn_tensor *beta, double eps) {
  return norm_call("tn_layer_norm", x, naxes, true, gamma, beta, eps);
}
tn_tensor *tn_rms_norm(tn_tensor *x, int naxes, tn_tensor *gamma, double eps) {
  return norm_call("tn_rms_norm", x, naxes, false, gamma, NULL, eps);
}

/* ---- losses ---- */

static tn_node *mean_of_all(tn_ctx *c, tn_node *x) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = tn__axes(c, NULL, 0, x->rank, axes);
  return tn__mean_axes(c, x, axes, n, false);
}

static uint32_t class_axis(const tn_node *x) { return x->rank > 1 ? 1 : 0; }

/* logp at each label, 0 where the label is no class: by comparing places, which fuses, where a gather would not. */
static tn_node *pick(tn_ctx *c, tn_node *logp, tn_node *labels, const tn_node *shown) {
  uint32_t axis = class_axis(logp);
  tn__dims want = {0};
  for (uint32_t i = 0; i < logp->rank; i++)
    if (i != axis) want.d[want.rank++] = logp->dim[i];
  tn_node *fitted = tn__taken_as(c, labels, want.d, want.rank);
  if (!fitted)
    tn__fail(c, TN_ESHAPE, "labels %s do not fit %s: they have its shape without axis %d", tn__text(c, labels),
             tn__text(c, shown), (int)axis);
  tn__dims shape = tn__dims_of(logp);
  tn_node *label = tn__expand(c, tn__add_axis(c, tn__cast(c, fitted, TN_I64), axis), logp->dim);
  tn_node *hit = tn__op2(c, OP_EQ, tn__place(c, &shape, axis), label);
  int64_t summed = axis;
  return tn__reduce_keep(c, OP_SUM, tn__where(c, hit, logp, tn__literal_like(c, logp, 0)), &summed, 1, false);
}

static void want_classes(tn_ctx *c, const tn_node *x) {
  if (!x->rank) tn__fail(c, TN_ESHAPE, "%s has no axis of classes", tn__text(c, x));
}

static tn_node *class_loss(tn_ctx *c, tn__call *k) { /* i: are they logits? */
  tn_node *x = float_operand(c, k->x[0]), *labels = k->x[1], *picked;
  want_classes(c, x);
  int64_t axis = class_axis(x);
  if (k->i[0]) x = log_softmax_of(c, x, axis);
  if (k->i[0] && tn__is_float(labels->dtype)) {
    labels = tn__taken_as(c, labels, x->dim, x->rank);
    if (!labels)
      tn__fail(c, TN_ESHAPE, "probabilities %s have not the shape of %s", tn__text(c, k->x[1]), tn__text(c, k->x[0]));
    picked = tn__reduce_keep(c, OP_SUM, tn__mul(c, tn__cast(c, labels, x->dtype), x), &axis, 1, false);
  } else {
    if (!tn__is_int(labels->dtype))
      tn__fail(c, TN_EDTYPE, "labels must be integer classes, not %s", tn__text(c, labels));
    labels = tn__check_index(c, k->name, labels, x, class_axis(x));
    picked = pick(c, x, labels, k->x[0]);
  }
  return tn__cast(c, tn__neg(c, mean_of_all(c, picked)), k->x[0]->dtype);
}

/* The operands of a loss between two tensors: one dtype, one shape, in the dtype of sums.  Returns the dtype of the
 * result. */
static int pair(tn_ctx *c, const tn__call *k, tn_node **v) {
  v[0] = k->x[0];
  v[1] = k->x[1];
  tn__promote(c, v, 2);
  tn__want(c, v[0], TN__C_FLOAT);
  int dtype = v[0]->dtype;
  tn__broadcast(c, v, 2);
  for (int i = 0; i < 2; i++) v[i] = tn__acc(c, v[i]);
  return dtype;
}

static tn_node *mse(tn_ctx *c, tn__call *k) {
  tn_node *v[2];
  int dtype = pair(c, k, v);
  tn_node *d = tn__sub(c, v[0], v[1]);
  return tn__cast(c, mean_of_all(c, tn__mul(c, d, d)), dtype);
}

/* -(y*log(sigmoid(x)) + (1-y)*log(1-sigmoid(x))) = softplus(x) - x*y */
static tn_node *bce(tn_ctx *c, tn__call *k) {
  tn_node *v[2];
  int dtype = pair(c, k, v);
  tn_node *loss = tn__sub(c, tn__softplus_of(c, v[0]), tn__mul(c, v[0], v[1]));
  return tn__cast(c, mean_of_all(c, loss), dtype);
}

#define LOSS(name_, builder, first, second, logits)                                                                    \
  tn_tensor *tn_##name_(tn_tensor *first, tn_tensor *second) {                                                         \
    tn_tensor *in[2] = {first, second};                                                                                \
    return tn__build(&(tn__call){.name = "tn_" #name_, .fn = builder, .in = in, .nin = 2, .i = {logits}});             \
  }
LOSS(cross_entropy, class_loss, logits, labels, 1)
LOSS(nll_loss, class_loss, logp, labels, 0)
LOSS(mse_loss, mse, a, b, 0)
LOSS(binary_cross_entropy_with_logits, bce, x, y, 0)
