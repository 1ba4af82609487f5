/* Which contractions go to the library's matrix product, and how their operands lie in memory. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

/* A group of axes read as one: its size and its stride in the base's memory. */
typedef struct axis {
  tn_node *size, *stride;
} axis;

/* Axes lo..lo+n-1 as one; false if their strides do not chain */
/* a choice: no is right */
static bool collapse(tn_ctx *c, tn_node *const *dim, tn_node *const *coef, uint32_t n, axis *out) {
  out->size = tn__int(c, 1);
  out->stride = NULL;
  for (uint32_t i = n; i && i--;) {
    if (tn__is_int_const(dim[i], 1)) continue;
    if (out->stride && coef[i] != tn__simplify_index(c, tn__mul(c, out->stride, out->size))) return false;
    if (!out->stride) out->stride = coef[i];
    out->size = tn__mul(c, out->size, dim[i]);
  }
  if (!out->stride) out->stride = tn__int(c, 0); /* size 1: any stride will do */
  return true;
}

/* a choice: no is right */
static bool at_least(tn_node *ld, tn_node *size) {
  return ld == size || ld->lo >= size->hi || (ld->lo >= 1 && !tn__is_const(ld));
}

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

typedef struct view { /* an operand [batch, rows, k] over a base that stands in memory */
  uint32_t nb, nr;
  tn_node *r[TN_MAX_RANK];       /* a range for each of its axes */
  tn_node *idx[TN_MAX_RANK + 1]; /* where the base is read */
} view;

static bool fits(tn__fuse *f, tn_node *x, tn_node *base, const view *v, struct tn__gemm_operand *o) {
  axis b, rows, k;
  tn_node *coef[TN_MAX_RANK];
  uint32_t nk = x->rank - v->nb - v->nr;
  bool ok = tn__index_affine(f->c, tn__layout_at(f, base, v->idx), v->r, x->rank, coef, &o->offset) &&
            collapse(f->c, x->dim, coef, v->nb, &b) && collapse(f->c, x->dim + v->nb, coef + v->nb, v->nr, &rows) &&
            collapse(f->c, x->dim + v->nb + v->nr, coef + v->nb + v->nr, nk, &k) && matrix(rows, k, o);
  o->base = base;
  if (ok) o->batch_stride = b.stride;
  return ok;
}

/* Can the base be stored so that the operand is a view of it?  As it is stored already, in its natural order, or
 * row-major. */
/* a choice: no is right */
static bool fits_somehow(tn__fuse *f, tn_node *x, tn_node *base, const view *v, struct tn__gemm_operand *o) {
  tn__info *in = tn__info_of(f, base);
  if (in->axis || base->op == OP_PARAM) return fits(f, x, base, v, o);
  for (int as_written = 0; as_written < 2; as_written++) {
    in->axis = NULL;
    tn__layout_fix(f, base, as_written);
    if (fits(f, x, base, v, o)) return true;
  }
  in->axis = NULL;
  return false;
}

/* The base in an order made for this operand: its groups one after the other, the one with the finest axis last. */
/* a choice: no is right */
static bool fits_by_order(tn__fuse *f, tn_node *x, tn_node *base, const view *v, struct tn__gemm_operand *o) {
  tn__info *in = tn__info_of(f, base);
  const double *stride = tn__info_of(f, x)->stride;
  uint32_t nb = v->nb, nr = v->nr, at = 0, finest = 0;
  if (in->axis || in->out >= 0 || base->rank != x->rank) return false;
  for (uint32_t i = 0; i < x->rank; i++)
    if (stride[i] > 0 && stride[i] < stride[finest]) finest = i;
  uint8_t *order = tn__arena_alloc(f->a, base->rank + 1u);
  for (int group = 0; group < 3; group++) {
    bool rows_last = finest >= nb && finest < nb + nr;
    int g = group == 0 ? 0 : (group == 1) != rows_last ? 1 : 2;
    uint32_t lo = g == 0 ? 0 : g == 1 ? nb : nb + nr, hi = g == 0 ? nb : g == 1 ? nb + nr : x->rank;
    for (uint32_t i = lo; i < hi; i++)
      for (uint32_t a = 0; a < base->rank; a++)
        if (v->idx[a] == v->r[i] && v->r[i]->op == OP_RANGE) order[at++] = (uint8_t)a;
  }
  for (uint32_t a = 0; a < base->rank; a++)
    if (v->idx[a]->op != OP_RANGE) order[at++] = (uint8_t)a; /* axes of size 1 */
  if (at != base->rank) return false;
  in->axis = order;
  if (fits(f, x, base, v, o)) return true;
  in->axis = NULL;
  return false;
}

/* The operand as a view of something in memory: of the node under all its movement ops; or of a window of it, stored as
 * a matrix; or of the operand itself.  False if none of these is, or can be stored as, a matrix. */
/* a choice: no is right */
static bool operand(tn__fuse *f, tn_node *x, uint32_t nb, uint32_t nr, struct tn__gemm_operand *o) {
  tn_ctx *c = f->c;
  tn_node *next[TN_MAX_RANK + 1], *gate = NULL, *y = x;
  view v = {.nb = nb, .nr = nr}, under;
  for (uint32_t i = 0; i < x->rank; i++)
    v.idx[i] = v.r[i] = tn__axis_loop(c, x, i);
  under = v;
  bool permuting = true;
  tn_node *permuted = x;
  view at_permuted = v;
  while (tn__ops[y->op].group == G_MOVE && y->op != OP_FOLD && !gate) {
    if (permuting && y->op != OP_PERMUTE) permuting = false, permuted = y, at_permuted = under;
    if (tn__info_of(f, y)->must && fits_somehow(f, x, y, &under, o)) return true;
    tn__index_through(c, y, under.idx, next, &gate);
    y = y->src[0];
    for (uint32_t i = 0; i < y->rank; i++) under.idx[i] = next[i];
  }
  return (!gate && y != x && fits_somehow(f, x, y, &under, o)) ||
         (permuted != x && fits_by_order(f, x, permuted, &at_permuted, o)) || fits_somehow(f, x, x, &v, o);
}

static tn_node *product(tn_ctx *c, tn_node *const *dim, uint32_t n) {
  tn_node *p = tn__int(c, 1);
  for (uint32_t i = 0; i < n; i++) p = tn__mul(c, p, dim[i]);
  return p;
}

/* The first to ask waits for the library to be loaded, which may take longer than all else: asked last. */
bool tn__gemm_has_library(const tn__fuse *f, int dtype) {
  if (f->c->mode == TN_MODE_STRICT || f->c->opt.no_library) return false;
  return f->dev->ops->has_gemm && f->dev->ops->has_gemm(f->dev, dtype);
}

/* The library writes its result row-major; a convolution's may already have been promised in another order. */
/* a choice: no is right */
static bool is_row_major(const tn_node *n, const tn__info *in) {
  for (uint32_t i = 0; in->axis && i < n->rank; i++)
    if (in->axis[i] != i) return false;
  return true;
}

/* a choice: either is right */
static bool tiles_fit(const tn__fuse *f, const tn__gemm *g) {
  tn__product_size p = {.batch = (double)tn__size_guess(g->batch), .dtype = g->dtype};
  return tn__const_int(g->m, &p.rows) && tn__const_int(g->n, &p.cols) && tn__const_int(g->k, &p.steps) &&
         tn__target_fits(&f->dev->target, &p);
}

/* An operand of an own kernel that may lie as it likes: what is below all movement stands in memory. */
static void operand_anyhow(tn__fuse *f, tn_node *x) {
  while (tn__ops[x->op].group == G_MOVE && x->op != OP_FOLD && !tn__info_of(f, x)->must) x = x->src[0];
  tn__info_of(f, x)->must = true;
}

tn__gemm tn__gemm_sizes(tn_ctx *c, const tn_node *n) {
  uint32_t nb = (uint32_t)n->ints[0], nm = (uint32_t)n->ints[1], nn = (uint32_t)n->ints[2];
  const tn_node *a = n->src[0];
  return (tn__gemm){.dtype = n->dtype,
                    .batch = product(c, n->dim, nb),
                    .m = product(c, n->dim + nb, nm),
                    .n = product(c, n->dim + nb + nm, nn),
                    .k = product(c, a->dim + nb + nm, a->rank - nb - nm)};
}

static double work_of(const tn__gemm *g) {
  return (double)tn__size_guess(g->m) * (double)tn__size_guess(g->n) * (double)tn__size_guess(g->k);
}

/* Processors' products of so few steps are memory's, of which own loops, fused with what comes after, take less (on two
 * threads a half to a sixth of OpenBLAS's time; of 16 steps between a half and three times). */
enum { FEW_STEPS = 8 };

/* a choice: either is right */
bool tn__gemm_is_brief(const tn__fuse *f, tn_node *steps) {
  bool processor = !f->dev->target.group && !f->dev->target.interprets;
  return processor && tn__is_const(steps) && tn__size_guess(steps) <= FEW_STEPS;
}

/* Is a call, and what converting comes to, worth it? */
/* a choice: either is right */
static bool pays(const tn__fuse *f, const tn__gemm *g) {
  if (tn__gemm_is_brief(f, g->k)) return false;
  tn__product_size guess = {.rows = tn__size_guess(g->m), .cols = tn__size_guess(g->n), .steps = tn__size_guess(g->k),
                            .dtype = g->dtype};
  return work_of(g) >= TN__LEAST_CALL && !tn__target_widens_in_vain(&f->dev->target, &guess);
}

bool tn__gemm_is_called(const tn__fuse *f, const tn_node *n) {
  tn__gemm g = tn__gemm_sizes(f->c, n);
  return pays(f, &g) && tn__gemm_has_library(f, n->dtype);
}

/* Why an own kernel may compute it, and whether one does */
typedef struct kernels {
  bool little, narrow, own;
} kernels;

/* Own kernels are fused with what comes after: little work saves a launch, few steps the product's way through memory.
 * Few rows or columns wait for memory only, but not by libraries, which do more of them (cuBLAS takes 79 us for 16 x
 * 4096 x 4096 on an H200, own tiles 27; as long for 32). */
static kernels by_kernels(tn__fuse *f, const tn_node *n, const tn__gemm *g) {
  const tn__target *t = &f->dev->target;
  bool known = t->ntiles && n->dtype == TN_F32 && tn__is_const(g->m) && tn__is_const(g->n) && tn__is_const(g->k),
       shallow = tn__info_of(f, n)->out < 0 && tn__target_is_shallow(t, (double)tn__size_guess(g->k));
  kernels k = {.little = work_of(g) * (double)tn__size_guess(g->batch) <= tn__target_launch_work(t),
               .narrow = tn__is_int_const(g->batch, 1) &&
                         (tn__target_is_narrow(t, (double)tn__size_guess(g->m)) ||
                          tn__target_is_narrow(t, (double)tn__size_guess(g->n)))};
  k.own = (known && (k.little || k.narrow || (shallow && tiles_fit(f, g)))) || !tn__gemm_has_library(f, n->dtype);
  return k;
}

bool tn__gemm_is_left(tn__fuse *f, const tn_node *n) {
  tn__gemm g = tn__gemm_sizes(f->c, n);
  return tn__gemm_is_called(f, n) && !by_kernels(f, n, &g).own;
}

const tn__gemm *tn__gemm_plan(tn__fuse *f, tn_node *n) {
  if (f->c->mode == TN_MODE_STRICT || !is_row_major(n, tn__info_of(f, n))) return NULL;
  uint32_t nb = (uint32_t)n->ints[0], nm = (uint32_t)n->ints[1], nn = (uint32_t)n->ints[2];
  tn_node *a = n->src[0], *b = n->src[1];
  tn__gemm g = tn__gemm_sizes(f->c, n);
  if (!pays(f, &g)) return NULL; /* a choice: either is right */
  if (!f->dev->target.ntiles && !tn__gemm_has_library(f, n->dtype)) return NULL;
  const kernels k = by_kernels(f, n, &g);
  if (k.own && !tiles_fit(f, &g) && (k.little || !k.narrow)) return NULL; /* a choice: either is right */
  /* operands are matrices in memory, copied if need be; or are read as they lie */
  bool as_matrices = !k.own || k.little || n->dtype != TN_F32;
  if (!as_matrices || !operand(f, a, nb, nm, &g.a) || !operand(f, b, nb, nn, &g.b)) { /* a choice: either is right */
    operand_anyhow(f, a);
    operand_anyhow(f, b);
    return NULL;
  }
  tn__info_of(f, g.a.base)->must = true;
  tn__info_of(f, g.b.base)->must = true;
  return k.own ? NULL : tn__arena_dup(f->a, &g, sizeof g);
}
