/* How values lie in memory.  A matrix product leaves its result with the channels last; a permute after it costs
 * nothing as long as what follows is stored in that order too.  So every node has a natural order of its axes, that of
 * what it is computed from, and temporaries are stored in it.  It is an estimate: a wrong one costs time, never
 * correctness. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include <math.h>

enum { FEW_UPDATES = 2 }; /* elements for each that is scattered: added one by one, they take less than to turn all */

/* a choice: either is right */
static void row_major(const tn_node *n, double *stride) {
  double s = 1;
  for (uint32_t i = n->rank; i && i--;) {
    stride[i] = s;
    s *= (double)tn__size_guess(n->dim[i]);
  }
}

/* Axes of a reshape that pass through alone keep their stride; an axis that is split spreads it.  Anything else starts
 * anew. */
/* a choice: either is right */
static void through_reshape(const tn_node *n, const double *from, double *stride) {
  const tn_node *x = n->src[0];
  row_major(n, stride);
  double p = 1, q = 1, scale = 1;
  uint32_t j = x->rank;
  for (uint32_t i = n->rank; i && i--;) { /* from the right: j is the source axis that i is part of */
    while (j > 0 && q <= p) {
      j--;
      scale = from[j] / q;
      q *= (double)tn__size_guess(x->dim[j]);
    }
    stride[i] = p * scale;
    p *= (double)tn__size_guess(n->dim[i]);
  }
}

/* What is gathered lies as its operand does: the indices' axes, the last of them innermost, stand where the axis does
 * along which it is gathered, and axes outside of that are further apart by as much as the indices are more. */
/* a choice: either is right */
static void through_gather(const tn_node *n, const double *from, double *stride) {
  const tn_node *x = n->src[0], *idx = n->src[1];
  double more = tn__numel_guess(idx) / fmax(1, (double)tn__size_guess(x->dim[0])), s = from[0];
  for (uint32_t i = idx->rank; i && i--;) {
    stride[i] = s;
    s *= (double)tn__size_guess(n->dim[i]);
  }
  for (uint32_t i = 1; i < x->rank; i++) stride[idx->rank + i - 1] = from[i] > from[0] ? from[i] * more : from[i];
}

/* A scatter lies as what it begins with does; where that is one number, as what is scattered: places, where the
 * innermost of the updates' axes is, and all others. */
/* a choice: either is right */
static void through_scatter(const tn_node *n, const double *base, const double *updates, double *stride) {
  bool over_number = tn__is_over_number(n);
  uint32_t axes = n->src[1]->rank;
  for (uint32_t i = 0; i < n->rank; i++) stride[i] = over_number ? updates[axes + i - 1] : base[i];
}

/* The source whose layout an elementwise node takes over: the one that is read in full. */
/* a choice: either is right */
static const double *leading(tn__fuse *f, const tn_node *n) {
  const double *best = NULL;
  double most = -1;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const tn__info *in = tn__info_of(f, n->src[i]);
    double score = 0;
    if (!in || !in->stride || n->src[i]->rank != n->rank) continue;
    for (uint32_t a = 0; a < n->rank; a++) score += in->stride[a] > 0 && !tn__is_int_const(n->dim[a], 1);
    if (score > most) most = score, best = in->stride;
  }
  return best;
}

/* a choice: either is right */
static void natural(tn__fuse *f, tn_node *n, double *stride) {
  const tn__info *in = n->nsrc ? tn__info_of(f, n->src[0]) : NULL;
  const double *from = in ? in->stride : NULL;
  const tn__conv *conv = tn__info_of(f, n)->conv;
  row_major(n, stride);
  if (conv) {
    tn__conv_strides(conv, n, stride);
    return;
  }
  if (tn__is_elementwise(n)) {
    const double *lead = leading(f, n);
    for (uint32_t i = 0; lead && i < n->rank; i++) stride[i] = lead[i];
    return;
  }
  if (!from) return;
  const tn_node *x = n->src[0];
  switch (n->op) {
  case OP_RESHAPE: through_reshape(n, from, stride); break;
  case OP_GATHER: through_gather(n, from, stride); break;
  case OP_SCATTER:
    if (tn__scatter_lies_free(f, n)) through_scatter(n, from, tn__info_of(f, n->src[2])->stride, stride);
    break;
  case OP_EXPAND:
    for (uint32_t i = 0; i < n->rank; i++) stride[i] = x->dim[i] == n->dim[i] ? from[i] : 0;
    break;
  case OP_PERMUTE:
    for (uint32_t i = 0; i < n->rank; i++) stride[i] = from[n->ints[i]];
    break;
  case OP_SUM: case OP_PROD: case OP_RMAX: case OP_RMIN:
    for (uint32_t i = 0, a = 0, o = 0; i < x->rank; i++) {
      if (a < n->nint && n->ints[a] == i) a++;
      else stride[o++] = from[i];
    }
    break;
  case OP_WINDOW:
    for (uint32_t i = 0, j = 0; i < x->rank; i++) {
      stride[j++] = from[i] * (i == n->ints[0] ? (double)n->ints[2] : 1);
      if (i == n->ints[0]) stride[j++] = from[i] * (double)n->ints[3];
    }
    break;
  case OP_FOLD:
    for (uint32_t i = 0; i < n->rank; i++) stride[i] = from[i > n->ints[0] ? i + 1 : i];
    break;
  case OP_PAD: case OP_SHRINK: case OP_FLIP: case OP_DETACH: case OP_CONTIG: case OP_PERMUTATION: case OP_DISTINCT:
  case OP_SPANS:
    for (uint32_t i = 0; i < n->rank && !tn__info_of(f, n)->turned; i++) stride[i] = from[i];
    break;
  default: break;
  }
}

void tn__layout_find(tn__fuse *f) {
  for (uint32_t i = 0; i < f->order.n; i++) {
    tn_node *n = f->order.v[i];
    f->info[i].stride = tn__arena_alloc(f->a, (n->rank + 1u) * sizeof(double));
    natural(f, n, f->info[i].stride);
  }
}

/* Axes by falling stride; ties and broadcast axes in their own order */
/* a choice: either is right */
void tn__layout_sort(const double *stride, uint8_t *axis, uint32_t n) {
  for (uint32_t i = 1; i < n; i++)
    for (uint32_t j = i; j > 0 && stride[axis[j]] > stride[axis[j - 1]] && stride[axis[j - 1]] > 0; j--) {
      uint8_t t = axis[j];
      axis[j] = axis[j - 1];
      axis[j - 1] = t;
    }
}

bool tn__scatter_lies_free(const tn__fuse *f, const tn_node *n) {
  bool few = n->op == OP_SCATTER && FEW_UPDATES * tn__numel_guess(n->src[2]) <= tn__numel_guess(n);
  return few && n->src[1]->rank > 0 && !f->dev->target.group && !tn__is_placed(n);
}

/* Fixes how n is stored: in its natural order, or row-major. */
void tn__layout_fix(tn__fuse *f, tn_node *n, bool as_written) {
  tn__info *in = tn__info_of(f, n);
  if (in->axis) return;
  in->axis = tn__arena_alloc(f->a, n->rank + 1u);
  for (uint32_t i = 0; i < n->rank; i++) in->axis[i] = (uint8_t)i;
  bool free = n->op == OP_SCATTER   ? tn__scatter_lies_free(f, n)
              : n->op == OP_CONTRACT ? in->conv != NULL
                                     : n->op != OP_PARAM;
  if (!as_written && free && in->out < 0)
    tn__layout_sort(in->stride, in->axis, n->rank);
}

void tn__layout_turn(tn__fuse *f, const tn_node *permute) {
  tn__info *in = tn__info_of(f, permute->src[0]);
  in->axis = tn__arena_alloc(f->a, permute->rank + 1u);
  for (uint32_t i = 0; i < permute->rank; i++) in->axis[i] = (uint8_t)permute->ints[i];
}

tn_node *tn__layout_at(tn__fuse *f, tn_node *n, tn_node *const *idx) {
  tn_node *dim[TN_MAX_RANK], *at[TN_MAX_RANK];
  const tn__info *in = tn__info_of(f, n);
  for (uint32_t i = 0; i < n->rank; i++) {
    uint32_t a = in->axis ? in->axis[i] : i;
    dim[i] = n->dim[a];
    at[i] = idx[a];
  }
  return tn__index_flat(f->c, dim, at, n->rank);
}

/* ---- contractions ---- */

static bool sorted(const uint8_t *axis, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (axis[i] != i) return false;
  return true;
}

/* The operand with its groups' axes reordered: rows by `ro` (nr of them), contracted ones by `ko`. */
static tn_node *reorder(tn_ctx *c, tn_node *x, uint32_t nb, const uint8_t *ro, uint32_t nr, const uint8_t *ko,
                        uint32_t nk) {
  int64_t perm[TN_MAX_RANK];
  for (uint32_t i = 0; i < nb; i++) perm[i] = i;
  for (uint32_t i = 0; i < nr; i++) perm[nb + i] = nb + ro[i];
  for (uint32_t i = 0; i < nk; i++) perm[nb + nr + i] = nb + nr + ko[i];
  return tn__permute(c, x, perm);
}

/* a choice: either is right */
static void order_group(const double *stride, uint8_t *axis, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) axis[i] = (uint8_t)i;
  tn__layout_sort(stride, axis, n);
}

/* Which nodes are wanted by a fold, by the first of their users or through permutes?  Their window offsets are better
 * further out than their channels. */
/* a choice: either is right */
static bool *find_folded(tn__fuse *f) {
  bool *folded = tn__arena_zalloc(f->a, f->order.n + 1);
  for (uint32_t i = f->order.n; i && i--;) { /* users first; of several the first in the order has the last word */
    const tn_node *u = f->order.v[i];
    uint64_t at;
    if ((u->op == OP_FOLD || u->op == OP_PERMUTE) && tn__map_get(&f->index, (uint64_t)(uintptr_t)u->src[0], &at))
      folded[at] = u->op == OP_FOLD || folded[i];
  }
  return folded;
}

/* Is there a group of several axes? */
static bool has_orders(const tn_node *n) { return n->ints[1] > 1 || n->ints[2] > 1 || n->ints[3] > 1; }

/* A contraction whose groups run in the order in which its larger operand lies, so that each group is one run of
 * memory; a permute gives the axes back their places.  x and y stand in for its operands now. */
static tn_node *order_axes(tn__fuse *f, tn_node *n, tn_node *x, tn_node *y, bool folded) {
  tn_ctx *c = f->c;
  uint32_t nb = (uint32_t)n->ints[0], nm = (uint32_t)n->ints[1], nn = (uint32_t)n->ints[2], nk = (uint32_t)n->ints[3];
  tn_node *a = n->src[0], *b = n->src[1];
  const double *sa = tn__info_of(f, a)->stride, *sb = tn__info_of(f, b)->stride;
  uint8_t m[TN_MAX_RANK], k[TN_MAX_RANK], r[TN_MAX_RANK];
  order_group(sa + nb, m, nm);
  order_group(sb + nb, r, nn);
  bool lead_a = tn__numel_guess(a) >= tn__numel_guess(b);
  order_group(lead_a ? sa + nb + nm : sb + nb + nn, k, nk);
  if (nn == 3 && sorted(r, nn) && folded) r[0] = 1, r[1] = 2, r[2] = 0; /* (channel, row, column) */
  tn_node *z = tn__contract(c, reorder(c, x, nb, m, nm, k, nk), reorder(c, y, nb, r, nn, k, nk), (int)nb, (int)nm,
                            (int)nn, (int)nk);
  int64_t back[TN_MAX_RANK];
  for (uint32_t i = 0; i < nb; i++) back[i] = i;
  for (uint32_t i = 0; i < nm; i++) back[nb + m[i]] = nb + i;
  for (uint32_t i = 0; i < nn; i++) back[nb + nm + r[i]] = nb + nm + i;
  return tn__permute(c, z, back);
}

tn_node *tn__made_again(tn__fuse *f, tn_node *n, tn_node *const *now, tn_node **src) {
  bool changed = false;
  for (uint32_t k = 0; k < n->nsrc; k++) {
    const tn__info *in = tn__info_of(f, n->src[k]);
    src[k] = in ? now[in - f->info] : n->src[k];
    changed |= src[k] != n->src[k];
  }
  return changed ? tn__node_with(f->c, n, src) : n;
}

/* Every contraction reordered, and what is made of them made again.  Decided by the graph that was surveyed. */
tn_node *tn__layout_contract(tn__fuse *f) {
  const bool *folded = find_folded(f);
  tn_node **now = tn__arena_alloc(f->a, (f->order.n + 1) * sizeof *now);
  for (uint32_t i = 0; i < f->order.n; i++) {
    tn_node *n = f->order.v[i], **src = tn__arena_alloc(f->a, (n->nsrc + 1) * sizeof *src);
    now[i] = tn__made_again(f, n, now, src);
    if (n->op == OP_CONTRACT && has_orders(n) && tn__gemm_is_called(f, n))
      now[i] = order_axes(f, n, src[0], src[1], folded[i]);
  }
  tn_node *sink = now[f->order.n - 1];
  return sink == f->sink ? sink : tn__simplify_graph(f->c, sink);
}
