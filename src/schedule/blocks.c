#include "schedule/blocks.h"
#include "rewrite/rewrite.h"
#include "tensor/operands.h"

enum {
  BLOCK = 1 << 13,    /* elements, at most: an eighth of a unit's registers, so that others load while one computes */
  PARTS = 64,         /* of a block, of which blocks may have fewer: as many as leave least over */
  GROUPS_OF_UNIT = 4
};

static bool same_axes(const tn_node *a, const tn_node *b) {
  bool same = a->nint == b->nint;
  for (uint32_t i = 0; same && i < a->nint; i++) same = a->ints[i] == b->ints[i];
  return same;
}

bool tn__is_spread_along(const tn_node *x, const tn_node *n) {
  while (tn__is_elementwise(x) && x->nsrc == 1) x = x->src[0];
  if (x->op != OP_EXPAND) return false;
  for (uint32_t i = 0; i < n->nint; i++)
    if (!tn__is_int_const(x->src[0]->dim[n->ints[i]], 1)) return false;
  return true;
}

tn_node *tn__reduction_below(tn_ctx *c, tn__op op, tn_node *from, const tn_node *x, const tn_node *n) {
  tn__nodes open = {0};
  tn__map seen;
  tn__map_init(&seen, &c->scratch);
  tn__vec_push(&c->scratch, &open, from);
  while (open.n) {
    tn_node *y = open.v[--open.n];
    if (y->op == op && y->src[0] == x && same_axes(y, n)) return y;
    if (tn__map_getp(&seen, y) || tn__ops[y->op].group == G_REDUCE) continue;
    tn__map_putp(&seen, y, y);
    for (uint32_t s = 0; s < y->nsrc; s++) tn__vec_push(&c->scratch, &open, y->src[s]);
  }
  return NULL;
}

static bool are_known(const tn_node *x) {
  int64_t size;
  for (uint32_t i = 0; i < x->rank; i++)
    if (!tn__const_int(x->dim[i], &size)) return false;
  return true;
}

/* Is x loaded in another order than it has here?  Then blocks of its last axes are no blocks of memory.  Looked at is
 * what is made of single elements, and of as many: all else is stored, or repeated. */
/* a choice: either is right */
static bool is_permuted(tn_ctx *c, tn_node *x) {
  tn__nodes open = {0};
  tn__map seen;
  tn__map_init(&seen, &c->scratch);
  tn__vec_push(&c->scratch, &open, x);
  while (open.n) {
    tn_node *n = open.v[--open.n];
    bool view = n->op == OP_RESHAPE || n->op == OP_SHRINK || n->op == OP_FLIP || n->op == OP_DETACH;
    if (n->op == OP_PERMUTE) return true;
    if (!view && !tn__is_elementwise(n)) continue;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      tn_node *from = n->src[s];
      if (tn__map_getp(&seen, from) || tn__numel_guess(from) < tn__numel_guess(x)) continue;
      tn__map_putp(&seen, from, from);
      tn__vec_push(&c->scratch, &open, from);
    }
  }
  return false;
}

/* a choice: either is right */
bool tn__rows_are_long(tn_ctx *c, const tn__target *t, const tn_node *n) {
  const tn_node *x = n->src[0];
  if (x->rank >= TN_MAX_RANK || !are_known(x)) return false;
  double row = 1, all = tn__numel_guess(x);
  for (uint32_t i = 0; i < n->nint; i++) row *= (double)x->dim[n->ints[i]]->hi;
  return n->ints[n->nint - 1] == x->rank - 1 && !tn__row_is_kept(t, row) && !tn__launches_decide(t, all) &&
         all >= (double)BLOCK * GROUPS_OF_UNIT * t->units && !is_permuted(c, n->src[0]);
}

/* a choice: either is right */
bool tn__row_goes_on(tn_ctx *c, const tn__nodes *all, const tn_node *reduction, const tn_node *off) {
  const tn_node *inside = reduction->src[0];
  tn__map above;
  double elements = tn__numel_guess(inside);
  tn__map_init(&above, &c->scratch);
  for (uint32_t i = 0; i < all->n; i++) {
    tn_node *n = all->v[i];
    bool is = n == off || n == reduction;
    for (uint32_t s = 0; s < n->nsrc && n != inside; s++) is |= tn__map_getp(&above, n->src[s]) != NULL;
    if (is && n != off && n->op != OP_SINK && tn__numel_guess(n) >= elements) return true;
    if (is) tn__map_putp(&above, n, n);
  }
  return false;
}

/* a choice: any is right */
tn__row_blocks tn__row_blocks_of(const tn_node *sum) {
  const tn_node *x = sum->src[0];
  int64_t inside = 1;
  uint32_t i = sum->nint - 1;
  for (; i && inside * x->dim[sum->ints[i]]->hi <= BLOCK; i--) inside *= x->dim[sum->ints[i]]->hi;
  int64_t size = x->dim[sum->ints[i]]->hi, most = BLOCK / inside < size ? BLOCK / inside : size, part = 1;
  while (2 * part * PARTS <= most) part *= 2; /* accesses of several elements at once begin where blocks do */
  tn__row_blocks b = {.reduction = sum, .axis = (uint32_t)sum->ints[i], .length = most};
  for (int64_t n = most / part * part; 2 * n > most; n -= part)
    if (size % n < size % b.length) b.length = n;
  b.count = size / b.length;
  b.rest = size % b.length;
  return b;
}

/* So many of x along the axis, from `first` on */
static tn_node *span_of(tn_ctx *c, tn_node *x, uint32_t axis, int64_t first, int64_t n) {
  tn_node *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    begin[i] = tn__int(c, i == axis ? first : 0);
    size[i] = i == axis ? tn__int(c, n) : x->dim[i];
  }
  return tn__shrink(c, x, begin, size, NULL);
}

tn_node *tn__in_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn_node *x) {
  tn__dims into = {.rank = 2, .d = {tn__int(c, b->count), tn__int(c, b->length)}};
  return tn__split_axis(c, span_of(c, x, b->axis, 0, b->count * b->length), b->axis, &into);
}

tn_node *tn__behind_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn_node *x) {
  return b->rest ? span_of(c, x, b->axis, b->count * b->length, b->rest) : NULL;
}

/* The axes of x in blocks that a block has for itself, or, outer, those that blocks are joined along */
static uint32_t axes_of(const tn__row_blocks *b, bool outer, int64_t *axes) {
  const tn_node *sum = b->reduction;
  uint32_t n = 0;
  if (!outer) axes[n++] = b->axis + 1;
  for (uint32_t i = 0; i < sum->nint; i++) {
    if (outer && sum->ints[i] <= b->axis) axes[n++] = sum->ints[i];
    if (!outer && sum->ints[i] > b->axis) axes[n++] = sum->ints[i] + 1;
  }
  return n;
}

double tn__block_elements(const tn__row_blocks *b, const tn_node *in_blocks) {
  double n = 1;
  int64_t axes[TN_MAX_RANK];
  for (uint32_t i = axes_of(b, false, axes); i && i--;) n *= (double)in_blocks->dim[axes[i]]->hi;
  return n;
}

tn_node *tn__of_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn__op op, tn_node *x) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = axes_of(b, false, axes);
  return tn__reduce(c, op, x, axes, n);
}

tn_node *tn__join_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn__op op, tn_node *each) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = axes_of(b, true, axes);
  return tn__reduce(c, op, each, axes, n);
}

tn_node *tn__at_block_elements(tn_ctx *c, const tn__row_blocks *b, tn_node *each, const tn_node *elements) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = axes_of(b, false, axes);
  for (uint32_t i = 0; i < n; i++) each = tn__add_axis(c, each, (uint32_t)axes[i]);
  return tn__expand(c, each, elements->dim);
}

tn_node *tn__at_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn_node *row, const tn_node *each) {
  const tn_node *sum = b->reduction;
  for (uint32_t i = 0; i < sum->nint; i++) row = span_of(c, row, (uint32_t)sum->ints[i], 0, 1);
  for (uint32_t i = sum->nint; i && i--;)
    if (sum->ints[i] > b->axis) row = tn__drop_axis(c, row, (uint32_t)sum->ints[i]);
  return tn__expand(c, row, each->dim);
}

tn_node *tn__each_by_row_blocks(tn_ctx *c, tn_node *sink, const tn__target *t, tn__by_row_blocks *found) {
  tn_node *given = sink;
  if (!t->group || c->mode == TN_MODE_STRICT) return sink;
  for (bool more = true; more;) {
    tn__nodes all = {0};
    more = false;
    tn__topo(&c->scratch, &sink, 1, &all);
    for (uint32_t i = 0; i < all.n && !more; i++) {
      tn_node *old[2], *by[2];
      if ((more = found(c, t, &all, all.v[i], old, by))) sink = tn__substitute(c, sink, old, by, 2);
    }
  }
  return sink == given ? sink : tn__schedule_prune(c, tn__simplify_graph(c, sink));
}
