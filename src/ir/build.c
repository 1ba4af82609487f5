/* Constructors.  They fill a tn__make; the checks are in shape.c.  What they simplify is only what keeps sizes literal
 * and graphs free of steps that do nothing. */
#include "ir/build.h"
#include "ir/eval.h"
#include "ir/index.h"
#include <stdio.h>

/* ---- leaves ---- */

tn_node *tn__const_bits(tn_ctx *c, int dtype, uint64_t bits) {
  if (tn__is_int(dtype)) bits = tn__eval_cast(TN_I64, dtype, bits);
  else if (!tn__is_float(dtype)) bits = bits != 0;
  else if (tn__size_of(dtype) < sizeof bits) bits &= (UINT64_C(1) << tn__size_of(dtype) * 8) - 1;
  int64_t v = (int64_t)bits;
  return tn__node_make(c, &(tn__make){.op = OP_CONST, .dtype = dtype, .ints = &v, .nint = 1});
}

tn_node *tn__const_num(tn_ctx *c, int dtype, double v) {
  return tn__const_bits(c, dtype, tn__eval_from_double(dtype, v));
}
tn_node *tn__int(tn_ctx *c, int64_t v) { return tn__const_bits(c, TN__INDEX, (uint64_t)v); }

tn_node *tn__var(tn_ctx *c, const char *name, int64_t lo, int64_t hi) {
  int64_t ints[] = {lo, hi};
  return tn__node_make(c, &(tn__make){.op = OP_VAR, .dtype = TN__INDEX, .name = name, .ints = ints, .nint = 2});
}

tn_node *tn__stand_in(tn_ctx *c, const char *what, uint64_t number, int64_t lo, int64_t hi) {
  char name[40];
  snprintf(name, sizeof name, "%c%s%llu", TN__STAND_IN, what, (unsigned long long)number);
  return tn__var(c, name, lo, hi);
}

tn_node *tn__datum(tn_ctx *c, int64_t number, int64_t hi) {
  int64_t ints[] = {number, hi};
  return tn__node_make(c, &(tn__make){.op = OP_DATUM, .dtype = TN__INDEX, .ints = ints, .nint = 2});
}

static tn_node *memory(tn_ctx *c, tn__op op, int dtype, int64_t id, int device, tn_node *const *dims, uint32_t rank) {
  int64_t ints[] = {id, device};
  return tn__node_make(
      c, &(tn__make){.op = op, .dtype = dtype, .src = dims, .nsrc = rank, .ints = ints, .nint = 2, .device = device});
}

tn_node *tn__storage(tn_ctx *c, int dtype, int64_t id, int device, tn_node *const *dims, uint32_t rank) {
  return memory(c, OP_STORAGE, dtype, id, device, dims, rank);
}

tn_node *tn__param(tn_ctx *c, int dtype, int64_t slot, int device, tn_node *const *dims, uint32_t rank) {
  return memory(c, OP_PARAM, dtype, slot, device, dims, rank);
}

tn_node *tn__iota(tn_ctx *c, tn_node *n) {
  return tn__node_make(c, &(tn__make){.op = OP_IOTA, .dtype = TN_I64, .src = &n, .nsrc = 1});
}

/* ---- scalar functions ---- */

static bool foldable(const tn_node *n) { return tn__is_const(n) && !tn__is_float(n->dtype); }

/* An op of the scalar groups is evaluated where all sources are constants, but not floats. */
static tn_node *scalar_op(tn_ctx *c, tn__op op, tn_node *const *src, uint32_t n) {
  tn_node *made = tn__node_make(c, &(tn__make){.op = op, .src = src, .nsrc = n});
  uint64_t arg[3];
  if (!tn__is_elementwise(made)) return made;
  for (uint32_t i = 0; i < n; i++) {
    if (!foldable(src[i])) return made;
    arg[i] = (uint64_t)src[i]->ints[0];
  }
  return tn__const_bits(c, made->dtype, tn__eval((int)op, made->dtype, src[op == OP_WHERE ? 1 : 0]->dtype, arg));
}

static bool is_index(const tn_node *n) { return n->dtype == TN__INDEX && n->rank == 0; }

tn_node *tn__op1(tn_ctx *c, tn__op op, tn_node *x) {
  if (op == OP_NEG && is_index(x)) return tn__mul(c, x, tn__int(c, -1));
  return scalar_op(c, op, &x, 1);
}

tn_node *tn__op2(tn_ctx *c, tn__op op, tn_node *x, tn_node *y) {
  if (is_index(x) && is_index(y)) {
    tn_node *r = tn__index_op2(c, op, x, y);
    if (r) return r;
  }
  tn_node *src[] = {x, y};
  return scalar_op(c, op, src, 2);
}

tn_node *tn__op3(tn_ctx *c, tn__op op, tn_node *x, tn_node *y, tn_node *z) {
  tn_node *src[] = {x, y, z};
  return scalar_op(c, op, src, 3);
}

tn_node *tn__sub(tn_ctx *c, tn_node *x, tn_node *y) { return tn__add(c, x, tn__neg(c, y)); }

tn_node *tn__cast(tn_ctx *c, tn_node *x, int dtype) {
  if (x->dtype == dtype) return x;
  if (dtype == TN__INDEX && x->op == OP_CAST && x->dtype == TN_I64 && x->src[0]->dtype == dtype) return x->src[0];
  if (foldable(x) && dtype >= 0 && dtype < TN__VOID)
    return tn__const_bits(c, dtype, tn__eval_cast(x->dtype, dtype, (uint64_t)x->ints[0]));
  return tn__node_make(c, &(tn__make){.op = OP_CAST, .dtype = dtype, .src = &x, .nsrc = 1});
}

tn_node *tn__bitcast(tn_ctx *c, tn_node *x, int dtype) {
  if (x->dtype == dtype) return x;
  return tn__node_make(c, &(tn__make){.op = OP_BITCAST, .dtype = dtype, .src = &x, .nsrc = 1});
}

/* ---- tensor ops ---- */

static tn_node *over_axes(tn_ctx *c, tn__op op, tn_node *x, const int64_t *ints, uint32_t n) {
  return tn__node_make(c, &(tn__make){.op = op, .src = &x, .nsrc = 1, .ints = ints, .nint = n});
}

/* An op whose sources are x and a list of sizes. */
static tn_node *with_sizes(tn_ctx *c, tn__op op, tn_node *x, tn_node *const *size, uint32_t n, const int64_t *ints,
                           uint32_t nint) {
  tn_node **src = tn__alloc(c, (n + 1) * sizeof *src);
  src[0] = x;
  for (uint32_t i = 0; i < n; i++) src[i + 1] = size[i];
  return tn__node_make(c, &(tn__make){.op = op, .src = src, .nsrc = n + 1, .ints = ints, .nint = nint});
}

static bool all_zero(tn_node *const *v, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (!tn__is_int_const(v[i], 0)) return false;
  return true;
}

tn_node *tn__reduce(tn_ctx *c, tn__op op, tn_node *x, const int64_t *axes, uint32_t n) {
  return n ? over_axes(c, op, x, axes, n) : x;
}

tn_node *tn__reshape(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank) {
  if (rank == x->rank && tn__dims_equal(c, x->dim, dims, rank)) return x;
  return with_sizes(c, OP_RESHAPE, x, dims, rank, NULL, 0);
}

tn_node *tn__expand(tn_ctx *c, tn_node *x, tn_node *const *dims) {
  if (tn__dims_equal(c, x->dim, dims, x->rank)) return x;
  return with_sizes(c, OP_EXPAND, x, dims, x->rank, NULL, 0);
}

tn_node *tn__permute(tn_ctx *c, tn_node *x, const int64_t *perm) {
  bool same = true;
  for (uint32_t i = 0; i < x->rank; i++) same &= perm[i] == (int64_t)i;
  return same ? x : over_axes(c, OP_PERMUTE, x, perm, x->rank);
}

tn_node *tn__pad(tn_ctx *c, tn_node *x, tn_node *const *lohi) {
  return all_zero(lohi, 2u * x->rank) ? x : with_sizes(c, OP_PAD, x, lohi, 2u * x->rank, NULL, 0);
}

tn_node *tn__shrink(tn_ctx *c, tn_node *x, tn_node *const *begin, tn_node *const *size, const int64_t *step) {
  tn_node *list[2 * TN_MAX_RANK];
  int64_t steps[TN_MAX_RANK];
  /* whatever the steps, they are 1 or unused */
  if (all_zero(begin, x->rank) && tn__dims_equal(c, x->dim, size, x->rank)) return x;
  for (uint32_t i = 0; i < x->rank; i++) {
    list[i] = begin[i];
    list[x->rank + i] = size[i];
    steps[i] = step ? step[i] : 1;
  }
  return with_sizes(c, OP_SHRINK, x, list, 2u * x->rank, steps, x->rank);
}

tn_node *tn__flip(tn_ctx *c, tn_node *x, const int64_t *axes, uint32_t n) {
  return n ? over_axes(c, OP_FLIP, x, axes, n) : x;
}

tn_node *tn__window(tn_ctx *c, tn_node *x, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  int64_t ints[] = {axis, size, stride, dilation};
  return over_axes(c, OP_WINDOW, x, ints, 4);
}

tn_node *tn__fold(tn_ctx *c, tn_node *g, tn_node *n, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  int64_t ints[] = {axis, size, stride, dilation};
  return with_sizes(c, OP_FOLD, g, &n, 1, ints, 4);
}

tn_node *tn__gather(tn_ctx *c, tn_node *x, tn_node *idx) {
  tn_node *src[] = {x, idx};
  return tn__node_make(c, &(tn__make){.op = OP_GATHER, .src = src, .nsrc = 2});
}

tn_node *tn__scatter(tn_ctx *c, tn_node *base, tn_node *idx, tn_node *upd) {
  tn_node *src[] = {base, idx, upd};
  return tn__node_make(c, &(tn__make){.op = OP_SCATTER, .src = src, .nsrc = 3});
}

tn_node *tn__scatter_by(tn_ctx *c, tn__op op, tn_node *base, tn_node *idx, tn_node *upd) {
  tn_node *src[] = {base, idx, upd};
  int64_t by = op;
  return tn__node_make(c, &(tn__make){.op = OP_SCATTER, .src = src, .nsrc = 3, .ints = &by, .nint = 1});
}

tn_node *tn__contract(tn_ctx *c, tn_node *a, tn_node *b, int nb, int nm, int nn, int nk) {
  tn_node *src[] = {a, b};
  int64_t ints[] = {nb, nm, nn, nk};
  return tn__node_make(c, &(tn__make){.op = OP_CONTRACT, .src = src, .nsrc = 2, .ints = ints, .nint = 4});
}

tn_node *tn__scalar_to(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank) {
  tn_node *ones[TN_MAX_RANK];
  if (rank > TN_MAX_RANK) return tn__reshape(c, x, dims, rank); /* which says what is wrong */
  for (uint32_t i = 0; i < rank; i++) ones[i] = tn__int(c, 1);
  return tn__expand(c, tn__reshape(c, x, ones, rank), dims);
}

tn_node *tn__sink(tn_ctx *c, tn_node *const *src, uint32_t n, const char *name) {
  return tn__node_make(c, &(tn__make){.op = OP_SINK, .src = src, .nsrc = n, .name = name});
}

tn_node *tn__list(tn_ctx *c, tn_node *const *src, uint32_t n) {
  return tn__node_make(c, &(tn__make){.op = OP_LIST, .src = src, .nsrc = n});
}

/* ---- kernel ---- */

tn_node *tn__range(tn_ctx *c, tn_node *extent, int axis, tn__role role, int64_t id) {
  int64_t ints[RANGE_INTS] = {[RANGE_AXIS] = axis, [RANGE_ID] = id, [RANGE_ROLE] = role};
  return tn__node_make(
      c, &(tn__make){.op = OP_RANGE, .dtype = TN__INDEX, .src = &extent, .nsrc = 1, .ints = ints, .nint = RANGE_INTS});
}
