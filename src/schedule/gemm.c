/* Which contractions go to the library's matrix product, and how their operands lie in memory. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

/* A group of axes read as one: its size and its stride in the base's memory. */
typedef struct axis {
  tn_node *size, *stride;
} axis;

/* flat as offset + sum coef[i] * r[i]; false if it is not of that form */
static bool affine(tn_ctx *c, tn_node *flat, tn_node *const *r, uint32_t n, tn_node **coef, tn_node **offset) {
  tn_node *zero = tn__int(c, 0), *one = tn__int(c, 1), *at[TN_MAX_RANK], *old[TN_MAX_RANK];
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    if (r[i]->op == OP_RANGE) old[m] = r[i], at[m++] = zero;
  *offset = tn__simplify_index(c, tn__substitute(c, flat, old, at, m));
  tn_node *sum = *offset;
  for (uint32_t i = 0, j = 0; i < n; i++) {
    coef[i] = zero;
    if (r[i]->op != OP_RANGE) continue;
    at[j] = one;
    coef[i] = tn__simplify_index(c, tn__sub(c, tn__substitute(c, flat, old, at, m), *offset));
    at[j++] = zero;
    sum = tn__add(c, sum, tn__mul(c, r[i], coef[i]));
  }
  return tn__simplify_index(c, tn__sub(c, sum, flat)) == zero;
}

/* Axes lo..lo+n-1 as one; false if their strides do not chain */
static bool collapse(tn_ctx *c, tn_node *const *dim, tn_node *const *coef, uint32_t n, axis *out) {
  out->size = tn__int(c, 1);
  out->stride = NULL;
  for (uint32_t i = n; i-- > 0;) {
    if (tn__is_int_const(dim[i], 1)) continue;
    if (out->stride && coef[i] != tn__simplify_index(c, tn__mul(c, out->stride, out->size))) return false;
    if (!out->stride) out->stride = coef[i];
    out->size = tn__mul(c, out->size, dim[i]);
  }
  if (!out->stride) out->stride = tn__int(c, 0); /* size 1: any stride will do */
  return true;
}

static bool at_least(tn_node *ld, tn_node *size) { return ld->lo >= size->hi || (ld->lo >= 1 && !tn__is_const(ld)); }

/* Can a [rows, cols] matrix with these strides be handed over, as it is or transposed? */
static bool matrix(axis rows, axis cols, struct tn__gemm_operand *o) {
  bool one_row = tn__is_int_const(rows.size, 1), one_col = tn__is_int_const(cols.size, 1);
  if (one_col || tn__is_int_const(cols.stride, 1)) {
    o->trans = false;
    o->ld = one_row ? cols.size : rows.stride;
    if (one_col && tn__is_int_const(rows.stride, 0) && !one_row) return false;
    if (at_least(o->ld, cols.size)) return true;
  }
  if (one_row || tn__is_int_const(rows.stride, 1)) {
    o->trans = true;
    o->ld = one_col ? rows.size : cols.stride;
    return at_least(o->ld, rows.size);
  }
  return false;
}

/* The operand [batch, rows, k] of a contraction as a view of something in memory: of the node under its movement ops, or of the
 * operand itself where they cannot be folded. */
static void operand(tn__fuse *f, tn_node *x, uint32_t nb, uint32_t nr, struct tn__gemm_operand *o) {
  tn_ctx *c = f->c;
  tn_node *r[TN_MAX_RANK], *idx[TN_MAX_RANK + 1], *next[TN_MAX_RANK + 1], *coef[TN_MAX_RANK], *gate = NULL, *y = x;
  for (uint32_t i = 0; i < x->rank; i++)
    idx[i] = r[i] = tn__is_int_const(x->dim[i], 1) ? tn__int(c, 0) : tn__range(c, x->dim[i], AX_LOOP, i);
  while (tn__ops[y->op].group == G_MOVE && y->op != OP_FOLD && !tn__info_of(f, y)->must && !gate) {
    tn__index_through(c, y, idx, next, &gate);
    y = y->src[0];
    for (uint32_t i = 0; i < y->rank; i++) idx[i] = next[i];
  }
  for (int attempt = 0; attempt < 2; attempt++) {
    axis b, rows, k;
    tn_node *flat = attempt ? tn__index_flat(c, x->dim, r, x->rank) : tn__index_flat(c, y->dim, idx, y->rank);
    if ((attempt || !gate) && affine(c, flat, r, x->rank, coef, &o->offset) && collapse(c, x->dim, coef, nb, &b) &&
        collapse(c, x->dim + nb, coef + nb, nr, &rows) && collapse(c, x->dim + nb + nr, coef + nb + nr, x->rank - nb - nr, &k) &&
        matrix(rows, k, o)) {
      o->base = attempt ? x : y;
      o->batch_stride = b.stride;
      return;
    }
  }
  tn__fail(c, TN_ENOTSUP, "contraction operand has no matrix form");
}

static tn_node *product(tn_ctx *c, tn_node *const *dim, uint32_t n) {
  tn_node *p = tn__int(c, 1);
  for (uint32_t i = 0; i < n; i++) p = tn__mul(c, p, dim[i]);
  return p;
}

const tn__gemm *tn__gemm_plan(tn__fuse *f, tn_node *n) {
  if (!f->dev->has_gemm || f->c->mode == TN_MODE_STRICT || (n->dtype != TN_F32 && n->dtype != TN_F64)) return NULL;
  uint32_t nb = (uint32_t)n->ints[0], nm = (uint32_t)n->ints[1], nn = (uint32_t)n->ints[2];
  tn_node *a = n->src[0], *b = n->src[1];
  tn__gemm g = {.dtype = n->dtype,
                .batch = product(f->c, n->dim, nb),
                .m = product(f->c, n->dim + nb, nm),
                .n = product(f->c, n->dim + nb + nm, nn),
                .k = product(f->c, a->dim + nb + nm, a->rank - nb - nm)};
  double work = (double)tn__size_guess(g.m) * (double)tn__size_guess(g.n) * (double)tn__size_guess(g.k);
  if (work < 512) return NULL;
  operand(f, a, nb, nm, &g.a);
  operand(f, b, nb, nn, &g.b);
  tn__info_of(f, g.a.base)->must = true;
  tn__info_of(f, g.b.base)->must = true;
  return tn__arena_dup(f->a, &g, sizeof g);
}
