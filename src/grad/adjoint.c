/* Adjoints of reductions, movement, gather, scatter and contraction, one row per op; see the table at the end.
 *
 * For a linear op A the gradient is its adjoint A^T, defined by <A x, y> = <x, A^T y> for all x and y; each function
 * states which op that is.  Each is a movement, a sum or a contraction again, so gradients can be differentiated again.
 * EXPAND's adjoint is the only place where the gradient of a broadcast is summed. */
#include "grad/adjoint.h"
#include <string.h>

typedef tn_node *(*adjoint_fn)(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g);

/* ---- helpers ----------------------------------------------------------------------------------------------------- */

tn_node *tn__zeros_like(tn_ctx *c, const tn_node *x) {
  return tn__scalar_to(c, tn__const_num(c, x->dtype, 0), x->dim, x->rank);
}

static bool has_axis(const tn_node *reduce, uint32_t axis) {
  for (uint32_t i = 0; i < reduce->nint; i++)
    if (reduce->ints[i] == (int64_t)axis) return true;
  return false;
}

/* The value of a reduction's shape over x's: the axes that the reduction dropped come back with x's size. */
static tn_node *spread(tn_ctx *c, const tn_node *reduce, const tn_node *x, tn_node *v) {
  tn_node *dim[TN_MAX_RANK], *one = tn__int(c, 1);
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = has_axis(reduce, i) ? one : x->dim[i];
  return tn__expand(c, tn__reshape(c, v, dim, x->rank), x->dim);
}

/* Half floats add up in f32: v in the dtype that sums of v accumulate in. */
static tn_node *widen(tn_ctx *c, tn_node *v) {
  return tn__cast(c, v, tn__dtype_acc(v->dtype));
}

/* dims with axis replaced by the n sizes of `by` */
static uint32_t replace_axis(tn_node *const *dim, uint32_t rank, uint32_t axis, tn_node *const *by, uint32_t n,
                             tn_node **out) {
  memcpy(out, dim, axis * sizeof *out);
  memcpy(out + axis, by, n * sizeof *out);
  memcpy(out + axis + n, dim + axis + 1, (rank - axis - 1) * sizeof *out);
  return rank - 1 + n;
}

static tn_node *pad_axis(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *lo, tn_node *hi) {
  tn_node *lohi[2 * TN_MAX_RANK], *zero = tn__int(c, 0);
  for (uint32_t i = 0; i < 2 * x->rank; i++) lohi[i] = zero;
  lohi[2 * axis] = lo;
  lohi[2 * axis + 1] = hi;
  return tn__pad(c, x, lohi);
}

/* The first n elements along the axis. */
static tn_node *take(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *n) {
  tn_node *begin[TN_MAX_RANK], *size[TN_MAX_RANK], *zero = tn__int(c, 0);
  for (uint32_t i = 0; i < x->rank; i++) {
    begin[i] = zero;
    size[i] = i == axis ? n : x->dim[i];
  }
  return tn__shrink(c, x, begin, size, NULL);
}

/* ---- reductions -------------------------------------------------------------------------------------------------- */

/* <sum x, g> = <x, spread g> */
static tn_node *of_sum(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  return spread(c, n, n->src[0], g);
}

/* Elements that reach the extremum share g equally.  The count is taken in the accumulator's dtype: a half float cannot
 * count far. */
static tn_node *of_extremum(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  tn_node *x = n->src[0];
  tn_node *mask = tn__op2(c, OP_EQ, x, spread(c, n, x, n));
  tn_node *count = tn__reduce(c, OP_SUM, tn__cast(c, mask, tn__dtype_acc(x->dtype)), n->ints, n->nint);
  tn_node *share = tn__cast(c, tn__op2(c, OP_DIV, widen(c, g), count), x->dtype);
  return tn__where(c, mask, spread(c, n, x, share), tn__zeros_like(c, x));
}

/* ---- product
 * ---------------------------------------------------------------------------------------------------------------
 *
 * Each element's gradient is g times the product of the others.  g*out/x would be wrong at zeros, and formulas that
 * count the zeros are right once but constant where they should have a second derivative.  So the products of the
 * others are really formed, from products and multiplications only, which makes every further derivative exact too.  x
 * comes as [kept..., n]. */

/* 0, 1, 2, ... along one axis of a shape */
static tn_node *iota_along(tn_ctx *c, tn_node *const *dim, uint32_t rank, uint32_t axis) {
  tn_node *flat[TN_MAX_RANK], *one = tn__int(c, 1);
  for (uint32_t i = 0; i < rank; i++) flat[i] = i == axis ? dim[i] : one;
  return tn__expand(c, tn__reshape(c, tn__iota(c, dim[axis]), flat, rank), dim);
}

static tn_node *ones_like(tn_ctx *c, const tn_node *x) {
  return tn__scalar_to(c, tn__const_num(c, x->dtype, 1), x->dim, x->rank);
}

/* n is a constant: log2 n levels of pair products up; on the way down each of a pair gets what its pair got times its
 * partner. O(n) work.  (The gradient of a pair's product is one such step and needs no products: this ends.) */
static tn_node *others_by_tree(tn_ctx *c, tn_node *x, tn_node *g, int64_t n) {
  uint32_t axis = x->rank - 1, levels = 0;
  tn_node *pairs[64], *dim[TN_MAX_RANK + 1], *two = tn__int(c, 2), *size = x->dim[axis];
  while (INT64_C(1) << levels < n) levels++;
  int64_t full = INT64_C(1) << levels;
  if (full > n) { /* ones fill up */
    x = pad_axis(c, x, axis, tn__int(c, 0), tn__int(c, full - n));
    tn_node *at = iota_along(c, x->dim, x->rank, axis);
    tn_node *end = tn__scalar_to(c, tn__const_num(c, TN_I64, (double)n), x->dim, x->rank);
    x = tn__where(c, tn__op2(c, OP_LT, at, end), x, ones_like(c, x));
  }
  tn_node *p = x;
  for (uint32_t l = 0; l < levels; l++) {
    uint32_t rank = replace_axis(p->dim, p->rank, axis, (tn_node *[]){tn__int(c, full >> (l + 1)), two}, 2, dim);
    pairs[l] = tn__reshape(c, p, dim, rank);
    if (l + 1 < levels) p = tn__reduce(c, OP_PROD, pairs[l], (int64_t[]){axis + 1}, 1);
  }
  for (uint32_t l = levels; l && l--;) { /* g: [kept..., n >> (l + 1)] */
    uint32_t rank = replace_axis(g->dim, g->rank, axis, (tn_node *[]){g->dim[axis], tn__int(c, 1)}, 2, dim);
    g = tn__expand(c, tn__reshape(c, g, dim, rank), pairs[l]->dim);
    g = tn__mul(c, g, tn__flip(c, pairs[l], (int64_t[]){axis + 1}, 1));
    rank = replace_axis(g->dim, axis + 1, axis, (tn_node *[]){tn__int(c, full >> l)}, 1, dim);
    g = tn__reshape(c, g, dim, rank);
  }
  return take(c, g, axis, size);
}

/* n is symbolic: row i of an n x n table is x with a 1 at i.  O(n^2) work, but no memory once fused. */
static tn_node *others_by_table(tn_ctx *c, tn_node *x, tn_node *g) {
  tn_node *dim[TN_MAX_RANK + 1], *row[TN_MAX_RANK + 1];
  uint32_t axis = x->rank - 1, rank = x->rank + 1;
  memcpy(dim, x->dim, x->rank * sizeof *dim);
  memcpy(row, x->dim, x->rank * sizeof *row);
  dim[rank - 1] = x->dim[axis];
  row[rank - 1] = x->dim[axis];
  row[axis] = tn__int(c, 1);
  tn_node *table = tn__expand(c, tn__reshape(c, x, row, rank), dim);
  tn_node *self = tn__op2(c, OP_EQ, iota_along(c, dim, rank, axis), iota_along(c, dim, rank, axis + 1));
  table = tn__where(c, self, ones_like(c, table), table);
  return tn__mul(c, tn__expand(c, g, x->dim), tn__reduce(c, OP_PROD, table, (int64_t[]){axis + 1}, 1));
}

static tn_node *of_prod(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  tn_node *x = n->src[0], *dim[TN_MAX_RANK + 1], *size = tn__int(c, 1);
  int64_t perm[TN_MAX_RANK], back[TN_MAX_RANK], count;
  uint32_t kept = 0, at = 0;
  for (uint32_t i = 0; i < x->rank; i++)
    if (!has_axis(n, i)) perm[kept++] = i;
  at = kept;
  for (uint32_t i = 0; i < x->rank; i++) {
    if (!has_axis(n, i)) continue;
    perm[at++] = i;
    size = tn__mul(c, size, x->dim[i]);
  }
  for (uint32_t i = 0; i < x->rank; i++) back[perm[i]] = i;
  tn_node *moved = tn__permute(c, x, perm);
  memcpy(dim, moved->dim, kept * sizeof *dim);
  dim[kept] = size;
  tn_node *flat = tn__reshape(c, moved, dim, kept + 1);
  dim[kept] = tn__int(c, 1);
  g = tn__reshape(c, g, dim, kept + 1);
  tn_node *e = tn__const_int(size, &count) ? others_by_tree(c, flat, g, count) : others_by_table(c, flat, g);
  return tn__permute(c, tn__reshape(c, e, moved->dim, moved->rank), back);
}

/* ---- movement ---------------------------------------------------------------------------------------------------- */

/* <reshape x, g> = <x, reshape g> */
static tn_node *of_reshape(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  return tn__reshape(c, g, n->src[0]->dim, n->src[0]->rank);
}

/* <expand x, g> = <x, sum of g over the axes that grew> */
static tn_node *of_expand(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  tn_node *x = n->src[0];
  int64_t axes[TN_MAX_RANK];
  uint32_t grown = 0;
  for (uint32_t i = 0; i < x->rank; i++)
    if (tn__is_int_const(x->dim[i], 1) && !tn__is_int_const(n->dim[i], 1)) axes[grown++] = i;
  tn_node *sum = tn__reduce(c, OP_SUM, widen(c, g), axes, grown);
  return tn__cast(c, tn__reshape(c, sum, x->dim, x->rank), x->dtype);
}

/* <permute x, g> = <x, inverse permute g> */
static tn_node *of_permute(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  int64_t back[TN_MAX_RANK];
  for (uint32_t i = 0; i < n->rank; i++) back[n->ints[i]] = i;
  return tn__permute(c, g, back);
}

/* <pad x, g> = <x, the inside of g> */
static tn_node *of_pad(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  tn_node *begin[TN_MAX_RANK];
  for (uint32_t i = 0; i < n->rank; i++) begin[i] = n->src[1 + 2 * i];
  return tn__shrink(c, g, begin, n->src[0]->dim, NULL);
}

/* <shrink x, g> = <x, g with zeros where elements were left out>: between them for a step (each becomes the first of
 * `step` places, what hangs over the end goes), then around. */
static tn_node *of_shrink(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  tn_node *x = n->src[0], *lohi[2 * TN_MAX_RANK], *dim[TN_MAX_RANK + 1];
  uint32_t rank = x->rank;
  for (uint32_t i = 0; i < rank; i++) {
    tn_node *begin = n->src[1 + i], *rest = tn__sub(c, x->dim[i], begin);
    if (n->ints[i] > 1) {
      tn_node *zero = tn__int(c, 0), *all = tn__mul(c, g->dim[i], tn__int(c, n->ints[i]));
      uint32_t r = replace_axis(g->dim, rank, i, (tn_node *[]){g->dim[i], tn__int(c, 1)}, 2, dim);
      g = pad_axis(c, tn__reshape(c, g, dim, r), i + 1, zero, tn__int(c, n->ints[i] - 1));
      replace_axis(n->dim, rank, i, (tn_node *[]){all}, 1, dim);
      for (uint32_t j = 0; j < i; j++) dim[j] = g->dim[j];
      g = take(c, tn__reshape(c, g, dim, rank), i, tn__op2(c, OP_MIN, all, rest));
    }
    lohi[2 * i] = begin;
    lohi[2 * i + 1] = tn__sub(c, rest, g->dim[i]);
  }
  return tn__pad(c, g, lohi);
}

/* <flip x, g> = <x, flip g> */
static tn_node *of_flip(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  return tn__flip(c, g, n->ints, n->nint);
}

/* <window x, g> = <x, fold g> */
static tn_node *of_window(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  const int64_t *w = n->ints;
  tn_node *x = n->src[0];
  return tn__cast(c, tn__fold(c, widen(c, g), x->dim[w[0]], w[0], w[1], w[2], w[3]), x->dtype);
}

/* <fold x, g> = <x, window g> */
static tn_node *of_fold(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  return tn__window(c, g, n->ints[0], n->ints[1], n->ints[2], n->ints[3]);
}

/* ---- whole tensors ----------------------------------------------------------------------------------------------- */

/* <gather x, g> = <x, g scattered into zeros>; what was read outside was 0, what is added outside is dropped */
static tn_node *of_gather(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k;
  tn_node *x = n->src[0], *wide = widen(c, g);
  tn_node *base = tn__scalar_to(c, tn__const_num(c, wide->dtype, 0), x->dim, x->rank);
  return tn__cast(c, tn__scatter(c, base, n->src[1], wide), x->dtype);
}

/* base + A upd with <A upd, g> = <upd, gather g>; what is greatest, and bits, only schedules ask for */
static tn_node *of_scatter(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  return k == 0 ? g : tn__gather(c, g, n->src[1]);
}

/* [A..., B..., C...] -> [A..., C..., B...], where A and B have na and nb axes */
static tn_node *swap_groups(tn_ctx *c, tn_node *x, int64_t na, int64_t nb) {
  int64_t perm[TN_MAX_RANK], nc = (int64_t)x->rank - na - nb;
  for (int64_t i = 0; i < na; i++) perm[i] = i;
  for (int64_t i = 0; i < nc; i++) perm[na + i] = na + nb + i;
  for (int64_t i = 0; i < nb; i++) perm[na + nc + i] = na + i;
  return tn__permute(c, x, perm);
}

/* With batch index b: <sum_k a[b,m,k] w[b,n,k], g[b,m,n]> = <a, sum_n g[b,m,n] w[b,n,k]> = <w, sum_m g[b,m,n] a[b,m,k]>
 */
static tn_node *of_contract(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  int nb = (int)n->ints[0], nm = (int)n->ints[1], nn = (int)n->ints[2], nk = (int)n->ints[3];
  if (k == 0) return tn__contract(c, g, swap_groups(c, n->src[1], nb, nn), nb, nm, nk, nn);
  return tn__contract(c, swap_groups(c, g, nb, nm), swap_groups(c, n->src[0], nb, nm), nb, nn, nk, nm);
}

static tn_node *of_same(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)c, (void)n, (void)k;
  return g;
}

static tn_node *of_nothing(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)c, (void)n, (void)k, (void)g;
  return NULL;
}

static tn_node *of_either(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  return k ? of_same(c, n, k, g) : NULL;
}

static tn_node *of_assign(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  (void)k, (void)g;
  tn__fail(c, TN_EGRAD,
           "gradient through an assignment to %s: take the gradient before assigning, or with respect to the assigned "
           "tensor itself",
           tn__node_type(n, &c->scratch));
}

static const adjoint_fn adjoints[OP_COUNT] = {
    [OP_SUM] = of_sum,         [OP_PROD] = of_prod,       [OP_RMAX] = of_extremum,     [OP_RMIN] = of_extremum,
    [OP_RESHAPE] = of_reshape, [OP_EXPAND] = of_expand,   [OP_PERMUTE] = of_permute,   [OP_PAD] = of_pad,
    [OP_SHRINK] = of_shrink,   [OP_FLIP] = of_flip,       [OP_WINDOW] = of_window,     [OP_FOLD] = of_fold,
    [OP_GATHER] = of_gather,   [OP_SCATTER] = of_scatter, [OP_CONTRACT] = of_contract, [OP_DETACH] = of_nothing,
    [OP_CONTIG] = of_same,     [OP_ASSIGN] = of_assign,   [OP_PERMUTATION] = of_nothing,
    [OP_DISTINCT] = of_nothing, [OP_SPANS] = of_nothing,   [OP_EITHER] = of_either,
};

tn_node *tn__adjoint(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g) {
  adjoint_fn fn = adjoints[n->op];
  if (!fn) tn__fail(c, TN_EGRAD, "%s of %s has no gradient", tn__ops[n->op].text, tn__node_type(n, &c->scratch));
  return fn(c, n, k, g);
}
