/* Checked arguments, broadcasting, promotion: what every part of the front end needs. */
#include "tensor/operands.h"
#include "base/sb.h"
#include "ir/eval.h"
#include "ir/text.h"

/* ---- messages ---- */

const char *tn__text(tn_ctx *c, const tn_node *x) { return tn__node_type(x, &c->scratch); }

const char *tn__dims_text(tn_ctx *c, tn_node *const *d, uint32_t rank) {
  tn__sb b;
  tn__sb_init(&b, &c->scratch);
  tn__sb_putc(&b, '[');
  for (uint32_t i = 0; i < rank; i++) {
    if (i) tn__sb_putc(&b, ',');
    tn__print_expr(&b, d[i]);
  }
  tn__sb_putc(&b, ']');
  return tn__sb_str(&b);
}

/* ---- arguments ---- */

void tn__check_dtype(tn_ctx *c, int dtype) {
  if (dtype < 0 || dtype >= TN_DTYPE_COUNT) tn__fail(c, TN_EDTYPE, "unknown dtype %d", dtype);
}

void tn__shape_in(tn_ctx *c, const tn_dim *shape, int rank, tn__dims *out) {
  if (rank < 0 || rank > TN_MAX_RANK) tn__fail(c, TN_ESHAPE, "rank %d is outside 0..%d", rank, TN_MAX_RANK);
  if (rank && !shape) tn__fail(c, TN_EINVAL, "the shape is NULL but its rank is %d", rank);
  out->rank = (uint32_t)rank;
  for (int i = 0; i < rank; i++) out->d[i] = tn__dim_in(c, shape[i]);
}

uint32_t tn__axis(tn_ctx *c, int axis, uint32_t rank) {
  int r = (int)rank;
  if (axis < -r || axis >= r) tn__fail(c, TN_EINVAL, "axis %d is out of range for rank %d", axis, r);
  return (uint32_t)(axis < 0 ? axis + r : axis);
}

uint32_t tn__axes(tn_ctx *c, const int *axes, int n, uint32_t rank, int64_t *out) {
  if (n < 0 || (n > 0 && !axes)) tn__fail(c, TN_EINVAL, "axes is NULL but their number is %d", n);
  bool named[TN_MAX_RANK] = {false};
  bool all = n == 0 && !axes;
  for (int i = 0; i < n; i++) {
    uint32_t a = tn__axis(c, axes[i], rank);
    if (named[a]) tn__fail(c, TN_EINVAL, "axis %d is named twice", axes[i]);
    named[a] = true;
  }
  uint32_t count = 0;
  for (uint32_t a = 0; a < rank; a++)
    if (all || named[a]) out[count++] = a;
  return count;
}

void tn__want(tn_ctx *c, const tn_node *x, int classes) {
  if (tn__dtypes[x->dtype].cls & classes) return;
  const char *what = classes == TN__C_FLOAT ? "floats"
                     : classes == TN__C_INT ? "integers"
                     : classes == TN__C_BITS ? "integers or bool"
                     : classes == TN__C_BOOL ? "bool"
                                             : "numbers";
  tn__fail(c, TN_EDTYPE, "needs %s, not %s: convert with tn_cast", what, tn__text(c, x));
}

/* ---- constants ---- */

bool tn__fits(int dtype, double v) {
  if (tn__is_float(dtype)) return true;
  double limit = dtype == TN_I64 ? 0x1p63 : 0x1p64; /* which saturate to numbers that read back as the limit */
  return v < limit && tn__eval_to_double(dtype, tn__eval_from_double(dtype, v)) == v;
}

tn_node *tn__literal(tn_ctx *c, int dtype, double v) {
  if (!tn__fits(dtype, v))
    tn__fail(c, TN_EDTYPE, "the number %g does not fit %s: convert the tensor with tn_cast", v, tn__dtypes[dtype].name);
  return tn__const_num(c, dtype, v);
}

tn_node *tn__literal_like(tn_ctx *c, tn_node *x, double v) {
  return tn__scalar_to(c, tn__literal(c, x->dtype, v), x->dim, x->rank);
}

tn_node *tn__dim_value(tn_ctx *c, tn_node *dim, int dtype) {
  int64_t v;
  if (!tn__const_int(dim, &v)) return tn__cast(c, dim, dtype);
  return tn__is_float(dtype) ? tn__const_num(c, dtype, (double)v) : tn__const_bits(c, dtype, (uint64_t)v);
}

tn__dims tn__dims_of(const tn_node *x) {
  tn__dims s = {.rank = x->rank};
  for (uint32_t i = 0; i < x->rank; i++) s.d[i] = x->dim[i];
  return s;
}

tn_node *tn__place(tn_ctx *c, const tn__dims *shape, uint32_t axis) {
  tn__dims line = {.rank = shape->rank};
  for (uint32_t i = 0; i < line.rank; i++) line.d[i] = i == axis ? shape->d[axis] : tn__int(c, 1);
  tn_node *x = tn__reshape(c, tn__iota(c, shape->d[axis]), line.d, line.rank);
  return tn__expand(c, x, shape->d);
}

/* ---- promotion and broadcasting ---- */

void tn__promote(tn_ctx *c, tn_node **x, int n) {
  int dt = n ? x[0]->dtype : TN_F32;
  for (int i = 1; i < n; i++) {
    int p = tn__dtype_promote(dt, x[i]->dtype);
    if (p < 0)
      tn__fail(c, TN_EDTYPE, "dtypes %s and %s have no common dtype: convert one with tn_cast", tn__dtypes[dt].name,
               tn__dtypes[x[i]->dtype].name);
    dt = p;
  }
  for (int i = 0; i < n; i++) x[i] = tn__cast(c, x[i], dt);
}

/* x with axes of size 1 in front, up to rank. */
static tn_node *raise(tn_ctx *c, tn_node *x, uint32_t rank) {
  tn__dims s = {.rank = rank};
  uint32_t lead = rank - x->rank;
  for (uint32_t i = 0; i < rank; i++) s.d[i] = i < lead ? tn__int(c, 1) : x->dim[i - lead];
  return tn__reshape(c, x, s.d, rank);
}

/* x broadcast to a shape; NULL if it certainly does not fit. */
static tn_node *spread(tn_ctx *c, tn_node *x, const tn__dims *to) {
  tn_node *dim[TN_MAX_RANK];
  if (x->rank > to->rank) return NULL;
  for (uint32_t i = 0; i < x->rank; i++)
    dim[i] = tn__is_int_const(x->dim[i], 1) ? x->dim[i] : to->d[to->rank - x->rank + i];
  x = tn__taken_as(c, x, dim, x->rank);
  return x ? tn__expand(c, raise(c, x, to->rank), to->d) : NULL;
}

tn_node *tn__spread(tn_ctx *c, tn_node *x, const tn__dims *to) {
  tn_node *y = spread(c, x, to);
  if (!y) tn__fail(c, TN_ESHAPE, "%s does not broadcast to %s", tn__text(c, x), tn__dims_text(c, to->d, to->rank));
  return y;
}

void tn__broadcast(tn_ctx *c, tn_node **x, int n) {
  tn__dims to = {0};
  for (int i = 0; i < n; i++)
    if (x[i]->rank > to.rank) to.rank = x[i]->rank;
  for (uint32_t a = 0; a < to.rank; a++) {
    to.d[a] = NULL;
    const tn_node *owner = NULL; /* whose size it is, for the message */
    for (int i = 0; i < n; i++) {
      uint32_t lead = to.rank - x[i]->rank;
      if (a < lead) continue;
      tn_node *d = x[i]->dim[a - lead];
      if (!to.d[a] || tn__is_int_const(to.d[a], 1)) {
        to.d[a] = d;
        owner = x[i];
      } else if (!tn__is_int_const(d, 1) && !(to.d[a] = tn__size_common(c, to.d[a], d))) {
        tn__fail(c, TN_ESHAPE, "shapes of %s and %s do not broadcast: they differ at axis %d from the end",
                 tn__text(c, owner), tn__text(c, x[i]), (int)(to.rank - a));
      }
    }
  }
  for (int i = 0; i < n; i++) x[i] = tn__spread(c, x[i], &to);
}

tn_node *tn__bcast2(tn_ctx *c, tn__op op, tn_node *x, tn_node *y) {
  tn_node *v[2] = {x, y};
  tn__broadcast(c, v, 2);
  return tn__op2(c, op, v[0], v[1]);
}

tn_node *tn__op2_num(tn_ctx *c, tn__op op, tn_node *x, double v) {
  return tn__op2(c, op, x, tn__literal_like(c, x, v));
}
tn_node *tn__num_op2(tn_ctx *c, tn__op op, double v, tn_node *x) {
  return tn__op2(c, op, tn__literal_like(c, x, v), x);
}

tn_node *tn__op2_bits(tn_ctx *c, tn__op op, tn_node *x, uint64_t bits) {
  return tn__op2(c, op, x, tn__scalar_to(c, tn__const_bits(c, x->dtype, bits), x->dim, x->rank));
}

/* ---- movements by name ---- */

tn_node *tn__split_axis(tn_ctx *c, tn_node *x, uint32_t axis, const tn__dims *into) {
  tn__dims s = {0};
  if (x->rank - 1 + into->rank > TN_MAX_RANK)
    tn__fail(c, TN_ESHAPE, "the result of %s would have more than %d axes", tn__text(c, x), TN_MAX_RANK);
  for (uint32_t i = 0; i < x->rank; i++) {
    if (i != axis) s.d[s.rank++] = x->dim[i];
    else
      for (uint32_t j = 0; j < into->rank; j++) s.d[s.rank++] = into->d[j];
  }
  return tn__reshape(c, x, s.d, s.rank);
}

tn_node *tn__add_axis(tn_ctx *c, tn_node *x, uint32_t axis) {
  tn__dims s = {0};
  if (x->rank == TN_MAX_RANK)
    tn__fail(c, TN_ESHAPE, "the result of %s would have more than %d axes", tn__text(c, x), TN_MAX_RANK);
  for (uint32_t i = 0; i <= x->rank; i++) {
    if (i == axis) s.d[s.rank++] = tn__int(c, 1);
    if (i < x->rank) s.d[s.rank++] = x->dim[i];
  }
  return tn__reshape(c, x, s.d, s.rank);
}

tn_node *tn__drop_axis(tn_ctx *c, tn_node *x, uint32_t axis) {
  return tn__split_axis(c, x, axis, &(tn__dims){0});
}

tn_node *tn__merge_axes(tn_ctx *c, tn_node *x, uint32_t first, uint32_t n) {
  tn__dims s = {0};
  tn_node *size = tn__int(c, 1);
  for (uint32_t i = 0; i < n; i++) size = tn__mul(c, size, x->dim[first + i]);
  for (uint32_t i = 0; i < first; i++) s.d[s.rank++] = x->dim[i];
  if (s.rank == TN_MAX_RANK)
    tn__fail(c, TN_ESHAPE, "the result of %s would have more than %d axes", tn__text(c, x), TN_MAX_RANK);
  s.d[s.rank++] = size;
  for (uint32_t i = first + n; i < x->rank; i++) s.d[s.rank++] = x->dim[i];
  return tn__reshape(c, x, s.d, s.rank);
}

tn_node *tn__move_axis(tn_ctx *c, tn_node *x, uint32_t from, uint32_t to) {
  int64_t perm[TN_MAX_RANK];
  for (uint32_t i = 0, j = 0; i < x->rank; i++) {
    if (j == from) j++;
    perm[i] = i == to ? from : j++;
  }
  return tn__permute(c, x, perm);
}

tn_node *tn__moves_replay(tn_ctx *c, tn_node *top, const tn_node *from, tn_node *over) {
  tn__vec(tn_node *) chain = {0};
  for (tn_node *n = top; n != from; n = n->src[0]) tn__vec_push(&c->scratch, &chain, n);
  for (uint32_t i = chain.n; i && i--;) {
    tn_node *n = chain.v[i];
    tn_node **src = tn__arena_dup(&c->scratch, n->src, n->nsrc * sizeof *src);
    src[0] = over;
    over = tn__node_with(c, n, src);
  }
  return over;
}
