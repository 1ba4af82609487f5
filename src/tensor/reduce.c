/* Reductions. */
#include "tensor/operands.h"
#include <math.h>

/* ---- on nodes ---- */

bool tn__is_empty(const tn_node *x, const int64_t *axes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (tn__is_int_const(x->dim[axes[i]], 0)) return true;
  return false;
}

static tn_node *with_axes_of_one(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) x = tn__add_axis(c, x, (uint32_t)axes[i]); /* ascending: each finds its place */
  return x;
}

static tn_node *without_axes_of_one(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n) {
  for (uint32_t i = n; i && i--;) x = tn__drop_axis(c, x, (uint32_t)axes[i]);
  return x;
}

/* What sums, products, maxima and minima make of one element is that: along axes of one nothing is reduced.  Sums begin
 * with 0, which makes 0 of -0. */
tn_node *tn__reduce_keep(tn_ctx *c, tn__op op, tn_node *x, const int64_t *axes, uint32_t n, bool keepdim) {
  bool single = true;
  for (uint32_t i = 0; i < n; i++) single &= tn__is_int_const(x->dim[axes[i]], 1);
  if (single && n && op == OP_SUM && tn__is_float(x->dtype)) x = tn__op2_num(c, OP_ADD, x, 0);
  if (single && keepdim) return x;
  tn_node *r = single ? without_axes_of_one(c, x, axes, n) : tn__reduce(c, op, x, axes, n);
  return keepdim ? with_axes_of_one(c, r, axes, n) : r;
}

tn_node *tn__acc(tn_ctx *c, tn_node *x) { return tn__cast(c, x, tn__dtype_acc(x->dtype)); }

tn_node *tn__sum_axes(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n, bool keepdim) {
  return tn__cast(c, tn__reduce_keep(c, OP_SUM, tn__acc(c, x), axes, n, keepdim), x->dtype);
}

/* x divided by the number of elements on the axes, less `correction`, at least 0. */
static tn_node *over_count(tn_ctx *c, tn_node *x, const tn_node *counted, const int64_t *axes, uint32_t n,
                           double correction) {
  tn_node *count = tn__int(c, 1), *value;
  for (uint32_t i = 0; i < n; i++) count = tn__mul(c, count, counted->dim[axes[i]]);
  int64_t known;
  if (tn__const_int(count, &known)) {
    value = tn__const_num(c, x->dtype, fmax((double)known - correction, 0));
  } else {
    value = tn__dim_value(c, count, x->dtype);
    if (correction != 0)
      value = tn__op2_num(c, OP_MAX, tn__op2_num(c, OP_ADD, value, -correction), 0);
  }
  return tn__op2(c, OP_DIV, x, tn__scalar_to(c, value, x->dim, x->rank));
}

tn_node *tn__mean_axes(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n, bool keepdim) {
  tn_node *sum = tn__reduce_keep(c, OP_SUM, tn__acc(c, x), axes, n, keepdim);
  return tn__cast(c, over_count(c, sum, x, axes, n, 0), x->dtype);
}

tn_node *tn__finite_or_zero(tn_ctx *c, tn_node *x) {
  tn_node *finite = tn__op2_num(c, OP_LT, tn__op1(c, OP_ABS, x), INFINITY);
  return tn__where(c, finite, x, tn__literal_like(c, x, 0));
}

/* ---- builders.  p, i[0]: axes; i[1]: keepdim; i[2], f[0]: their own ---- */

typedef struct plan {
  tn_node *x;
  int64_t axes[TN_MAX_RANK];
  uint32_t n;
  bool keepdim;
} plan;

static plan prepare(tn_ctx *c, const tn__call *k, int classes) {
  plan p = {.x = k->x[0], .keepdim = k->i[1] != 0};
  tn__want(c, p.x, classes);
  p.n = tn__axes(c, k->p, (int)k->i[0], p.x->rank, p.axes);
  return p;
}

int tn__widened(int dtype) {
  if (tn__is_float(dtype)) return dtype;
  return tn__is_int(dtype) && !tn__dtypes[dtype].is_signed ? TN_U64 : TN_I64;
}

static tn_node *total(tn_ctx *c, tn__call *k) { /* sum, prod: i[2] */
  plan p = prepare(c, k, TN__C_ANY);
  tn_node *x = tn__cast(c, tn__acc(c, p.x), tn__widened(tn__dtype_acc(p.x->dtype)));
  x = tn__reduce_keep(c, (tn__op)k->i[2], x, p.axes, p.n, p.keepdim);
  return tn__cast(c, x, tn__widened(p.x->dtype));
}

tn_node *tn__not_empty(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n) {
  if (tn__is_empty(x, axes, n)) tn__fail(c, TN_ESHAPE, "nothing to choose from in %s", tn__text(c, x));
  for (uint32_t i = 0; i < n; i++) {
    tn_node *size = x->dim[axes[i]];
    if (size->lo < 1) x = tn__axis_as(c, x, (uint32_t)axes[i], tn__op2(c, OP_MAX, size, tn__int(c, 1)));
  }
  return x;
}

static tn_node *extreme(tn_ctx *c, tn__call *k) { /* max, min: i[2] */
  plan p = prepare(c, k, TN__C_ANY);
  return tn__reduce_keep(c, (tn__op)k->i[2], tn__not_empty(c, p.x, p.axes, p.n), p.axes, p.n, p.keepdim);
}

static tn_node *truth(tn_ctx *c, tn__call *k) { /* any, all: on bool, sum is or and product is and */
  plan p = prepare(c, k, TN__C_ANY);
  return tn__reduce_keep(c, (tn__op)k->i[2], tn__cast(c, p.x, TN_BOOL), p.axes, p.n, p.keepdim);
}

static tn_node *mean(tn_ctx *c, tn__call *k) {
  plan p = prepare(c, k, TN__C_FLOAT);
  return tn__mean_axes(c, p.x, p.axes, p.n, p.keepdim);
}

static tn_node *spread_of_values(tn_ctx *c, tn__call *k) { /* var; std if i[2] */
  plan p = prepare(c, k, TN__C_FLOAT);
  tn_node *x = tn__acc(c, p.x);
  tn_node *d = tn__bsub(c, x, tn__mean_axes(c, x, p.axes, p.n, true));
  tn_node *sum = tn__reduce_keep(c, OP_SUM, tn__mul(c, d, d), p.axes, p.n, p.keepdim);
  tn_node *var = over_count(c, sum, p.x, p.axes, p.n, k->f[0]);
  return tn__cast(c, k->i[2] ? tn__op1(c, OP_SQRT, var) : var, p.x->dtype);
}

static tn_node *logsumexp(tn_ctx *c, tn__call *k) {
  plan p = prepare(c, k, TN__C_FLOAT);
  tn_node *x = tn__acc(c, p.x), *shift = NULL;
  if (!tn__is_empty(x, p.axes, p.n)) { /* of nothing there is no maximum, and the sum alone gives ln 0 */
    tn_node *m = tn__op1(c, OP_DETACH, tn__reduce_keep(c, OP_RMAX, x, p.axes, p.n, true));
    shift = tn__finite_or_zero(c, m);
    x = tn__bsub(c, x, shift);
  }
  tn_node *sum = tn__op1(c, OP_LOG, tn__reduce_keep(c, OP_SUM, tn__op1(c, OP_EXP, x), p.axes, p.n, p.keepdim));
  if (shift) sum = tn__add(c, sum, tn__reshape(c, shift, sum->dim, sum->rank));
  return tn__cast(c, sum, p.x->dtype);
}

/* ---- the public functions ---- */

#define REDUCE(name_, builder, which)                                                                                  \
  tn_tensor *name_(tn_tensor *t, const int *axes, int naxes, bool keepdim) {                                           \
    return tn__build(&(tn__call){.name = #name_, .fn = builder, .in = &t, .nin = 1, .p = axes,                         \
                                 .i = {naxes, keepdim, which}});                                                       \
  }
REDUCE(tn_sum, total, OP_SUM)
REDUCE(tn_prod, total, OP_PROD)
REDUCE(tn_max, extreme, OP_RMAX)
REDUCE(tn_min, extreme, OP_RMIN)
REDUCE(tn_mean, mean, 0)
REDUCE(tn_logsumexp, logsumexp, 0)
REDUCE(tn_any, truth, OP_SUM)
REDUCE(tn_all, truth, OP_PROD)

#define SPREAD(name_, root)                                                                                            \
  tn_tensor *name_(tn_tensor *t, const int *axes, int naxes, double correction, bool keepdim) {                        \
    return tn__build(&(tn__call){.name = #name_, .fn = spread_of_values, .in = &t, .nin = 1, .p = axes,                \
                                 .i = {naxes, keepdim, root}, .f[0] = correction});                                    \
  }
SPREAD(tn_var, 0)
SPREAD(tn_std, 1)
