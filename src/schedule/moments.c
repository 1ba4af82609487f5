/* Sums of squares about a mean, read once: on devices with work groups, of rows that no group keeps.
 *
 * The mean is known when a row has been read, so that the squares about it read the row again; of a row that is too
 * long for a group's registers that is memory.  Blocks of it are not too long: a group adds up a block, then the
 * squares about the block's own mean, and what is known of all blocks is joined (Chan, Golub and LeVeque, 1983):
 *
 *   sum (x - m)^2  =  over all blocks the sum of  M + n (p - m + r / n)^2,  p: about the block's mean
 *                     where  M = sum (x - p)^2  and  r = sum (x - p), of the n elements of the block
 *
 * r would be 0 but for the rounding of p, which would otherwise count as much as the blocks' means are off m.  So what
 * is rounded is squared, as when all is read twice, and nothing is ever subtracted from a sum of squares.  What is left
 * over of a row behind its last whole block is read twice: it is less than a block. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include "tensor/operands.h"

enum {
  BLOCK = 1 << 13,    /* elements, at most: an eighth of a unit's registers, so that others load while one computes */
  PARTS = 64,         /* of a block, of which blocks may have fewer: as many as leave least over */
  GROUPS_OF_UNIT = 4
};

typedef struct moments {
  tn_node *x, *less;     /* the squares are of x + less; less is the same in all places that are summed up */
  tn_node *sum, *square; /* the sums of x, which `less` is made of, and of the squares */
} moments;

/* ---- finding them ---- */

static bool same_axes(const tn_node *a, const tn_node *b) {
  bool same = a->nint == b->nint;
  for (uint32_t i = 0; same && i < a->nint; i++) same = a->ints[i] == b->ints[i];
  return same;
}

/* Is x, or what it is made of alone (the mean, less its sign), spread along all the axes that n sums up? */
static bool is_spread_along(const tn_node *x, const tn_node *n) {
  while (tn__is_elementwise(x) && x->nsrc == 1) x = x->src[0];
  if (x->op != OP_EXPAND) return false;
  for (uint32_t i = 0; i < n->nint; i++)
    if (!tn__is_int_const(x->src[0]->dim[n->ints[i]], 1)) return false;
  return true;
}

/* The sum of x over the axes that n sums up, if it is what `from` is made of; NULL */
static tn_node *sum_below(tn_ctx *c, tn_node *from, const tn_node *x, const tn_node *n) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &from, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_SUM && all.v[i]->src[0] == x && same_axes(all.v[i], n)) return all.v[i];
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

/* Are rows too long for a group, and does memory take longer for all of them than launches, of blocks enough for all
 * units?  A row's elements lie along memory. */
/* a choice: either is right */
static bool are_long(tn_ctx *c, const tn__target *t, const tn_node *n) {
  const tn_node *x = n->src[0];
  double row = 1, all = tn__numel_guess(x);
  for (uint32_t i = 0; i < n->nint; i++) row *= (double)x->dim[n->ints[i]]->hi;
  return n->ints[n->nint - 1] == x->rank - 1 && !tn__row_is_kept(t, row) && !tn__launches_decide(t, all) &&
         all >= (double)BLOCK * GROUPS_OF_UNIT * t->units && !is_permuted(c, n->src[0]);
}

/* a choice: no is right */
static bool find_moments(tn_ctx *c, const tn__target *t, tn_node *n, moments *m) {
  const tn_node *d = n->op == OP_SUM && n->src[0]->op == OP_MUL ? n->src[0]->src[0] : NULL;
  if (!d || n->src[0]->src[1] != d || d->op != OP_ADD || d->rank >= TN_MAX_RANK) return false;
  if (!tn__is_float(d->dtype) || !are_known(d) || !are_long(c, t, n)) return false;
  for (int side = 0; side < 2; side++) {
    *m = (moments){.x = d->src[side], .less = d->src[!side], .square = n};
    if (is_spread_along(m->less, n) && (m->sum = sum_below(c, m->less, m->x, n))) return true;
  }
  return false;
}

/* ---- blocks ---- */

/* Of the axes that are summed up those inside of `axis` are whole in a block, and of it so many at a time. */
typedef struct blocks {
  uint32_t axis;
  int64_t length, count, rest;
} blocks;

/* a choice: any is right */
static blocks cut_blocks(const tn_node *sum) {
  const tn_node *x = sum->src[0];
  int64_t inside = 1;
  uint32_t i = sum->nint - 1;
  for (; i && inside * x->dim[sum->ints[i]]->hi <= BLOCK; i--) inside *= x->dim[sum->ints[i]]->hi;
  int64_t size = x->dim[sum->ints[i]]->hi, most = BLOCK / inside < size ? BLOCK / inside : size, part = 1;
  while (2 * part * PARTS <= most) part *= 2; /* accesses of several elements at once begin where blocks do */
  blocks b = {.axis = (uint32_t)sum->ints[i], .length = most};
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

/* x in blocks: one more axis behind that which is cut */
static tn_node *in_blocks(tn_ctx *c, const blocks *b, tn_node *x) {
  tn__dims into = {.rank = 2, .d = {tn__int(c, b->count), tn__int(c, b->length)}};
  return tn__split_axis(c, span_of(c, x, b->axis, 0, b->count * b->length), b->axis, &into);
}

/* The axes of in_blocks that a block has for itself, or, outer, those that blocks are joined along */
static uint32_t axes_of(const blocks *b, const tn_node *sum, bool outer, int64_t *axes) {
  uint32_t n = 0;
  if (!outer) axes[n++] = b->axis + 1;
  for (uint32_t i = 0; i < sum->nint; i++) {
    if (outer && sum->ints[i] <= b->axis) axes[n++] = sum->ints[i];
    if (!outer && sum->ints[i] > b->axis) axes[n++] = sum->ints[i] + 1;
  }
  return n;
}

static tn_node *square_of(tn_ctx *c, tn_node *x) { return tn__mul(c, x, x); }

static tn_node *of_blocks(tn_ctx *c, const blocks *b, const tn_node *sum, tn_node *x) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = axes_of(b, sum, false, axes);
  return tn__reduce(c, OP_SUM, x, axes, n);
}

static tn_node *join(tn_ctx *c, const blocks *b, const tn_node *sum, tn_node *each) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = axes_of(b, sum, true, axes);
  return tn__reduce(c, OP_SUM, each, axes, n);
}

/* What each block has, at each of its elements */
static tn_node *at_elements(tn_ctx *c, const blocks *b, const tn_node *sum, tn_node *each, const tn_node *elements) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = axes_of(b, sum, false, axes);
  for (uint32_t i = 0; i < n; i++) each = tn__add_axis(c, each, (uint32_t)axes[i]);
  return tn__expand(c, each, elements->dim);
}

/* What is the same for all of a row, at each of its blocks */
static tn_node *at_blocks(tn_ctx *c, const blocks *b, const tn_node *sum, tn_node *row, const tn_node *each) {
  for (uint32_t i = 0; i < sum->nint; i++) row = span_of(c, row, (uint32_t)sum->ints[i], 0, 1);
  for (uint32_t i = sum->nint; i && i--;)
    if (sum->ints[i] > b->axis) row = tn__drop_axis(c, row, (uint32_t)sum->ints[i]);
  return tn__expand(c, row, each->dim);
}

/* Does anything go through the rows once more, with what comes of their squares?  Then these are stored, or a group
 * that joins blocks would go on with their row, alone. */
/* a choice: either is right */
static bool goes_on(tn_ctx *c, const tn__nodes *all, const moments *m) {
  tn__map above;
  const tn_node *squares = m->square->src[0], *off = squares->src[0];
  double elements = tn__numel_guess(m->x);
  tn__map_init(&above, &c->scratch);
  for (uint32_t i = 0; i < all->n; i++) {
    tn_node *n = all->v[i];
    bool is = n == off || n == m->square;
    for (uint32_t s = 0; s < n->nsrc && n != squares; s++) is |= tn__map_getp(&above, n->src[s]) != NULL;
    if (is && n != off && n->op != OP_SINK && tn__numel_guess(n) >= elements) return true;
    if (is) tn__map_putp(&above, n, n);
  }
  return false;
}

/* What replaces m->sum and m->square */
static void read_once(tn_ctx *c, const moments *m, tn_node *by[2]) {
  blocks b = cut_blocks(m->sum);
  tn_node *x = in_blocks(c, &b, m->x), *sum = of_blocks(c, &b, m->sum, x);
  double n = 1;
  int64_t axes[TN_MAX_RANK];
  for (uint32_t i = axes_of(&b, m->sum, false, axes); i && i--;) n *= (double)x->dim[axes[i]]->hi;
  tn_node *mean = tn__op2_num(c, OP_DIV, sum, n);
  tn_node *off = tn__sub(c, x, at_elements(c, &b, m->sum, mean, x));
  tn_node *squares = of_blocks(c, &b, m->sum, square_of(c, off)), *left = of_blocks(c, &b, m->sum, off);
  tn_node *tail = b.rest ? span_of(c, m->x, b.axis, b.count * b.length, b.rest) : NULL;
  by[0] = join(c, &b, m->sum, sum);
  if (tail) by[0] = tn__add(c, by[0], tn__reduce(c, OP_SUM, tail, m->sum->ints, m->sum->nint));
  tn_node *old = m->sum, *less = tn__substitute(c, m->less, &old, by, 1);
  /* means lie close to each other: their difference is exact, and what is left counts beside it */
  tn_node *apart = tn__add(c, mean, at_blocks(c, &b, m->sum, less, mean));
  apart = tn__add(c, apart, tn__op2_num(c, OP_DIV, left, n));
  by[1] = join(c, &b, m->sum, tn__add(c, squares, tn__op2_num(c, OP_MUL, square_of(c, apart), n)));
  if (!tail) return;
  tn_node *about = tn__add(c, tail, span_of(c, less, b.axis, 0, b.rest));
  by[1] = tn__add(c, by[1], tn__reduce(c, OP_SUM, square_of(c, about), m->sum->ints, m->sum->nint));
}

tn_node *tn__schedule_moments(tn_ctx *c, tn_node *sink, const tn__target *t) {
  tn_node *given = sink;
  if (!t->group || c->mode == TN_MODE_STRICT) return sink;
  for (bool found = true; found;) {
    tn__nodes all = {0};
    found = false;
    tn__topo(&c->scratch, &sink, 1, &all);
    for (uint32_t i = 0; i < all.n && !found; i++) {
      moments m;
      if (!(found = find_moments(c, t, all.v[i], &m))) continue;
      tn_node *old[2] = {m.sum, m.square}, *by[2];
      read_once(c, &m, by);
      if (goes_on(c, &all, &m)) by[1] = tn__op1(c, OP_CONTIG, by[1]);
      sink = tn__substitute(c, sink, old, by, 2);
    }
  }
  return sink == given ? sink : tn__schedule_prune(c, tn__simplify_graph(c, sink));
}
