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
#include "schedule/blocks.h"
#include "tensor/operands.h"

typedef struct moments {
  tn_node *x, *less;     /* the squares are of x + less; less is the same in all places that are summed up */
  tn_node *sum, *square; /* the sums of x, which `less` is made of, and of the squares */
} moments;

/* a choice: no is right */
static bool find_moments(tn_ctx *c, const tn__target *t, tn_node *n, moments *m) {
  const tn_node *d = n->op == OP_SUM && n->src[0]->op == OP_MUL ? n->src[0]->src[0] : NULL;
  if (!d || n->src[0]->src[1] != d || d->op != OP_ADD) return false;
  if (!tn__is_float(d->dtype) || !tn__rows_are_long(c, t, n)) return false;
  for (int side = 0; side < 2; side++) {
    *m = (moments){.x = d->src[side], .less = d->src[!side], .square = n};
    if (tn__is_spread_along(m->less, n) && (m->sum = tn__reduction_below(c, OP_SUM, m->less, m->x, n))) return true;
  }
  return false;
}

static tn_node *square_of(tn_ctx *c, tn_node *x) { return tn__mul(c, x, x); }

/* What replaces m->sum and m->square */
static void read_once(tn_ctx *c, const moments *m, tn_node *by[2]) {
  tn__row_blocks b = tn__row_blocks_of(m->sum);
  tn_node *x = tn__in_row_blocks(c, &b, m->x), *sum = tn__of_row_blocks(c, &b, OP_SUM, x);
  double n = tn__block_elements(&b, x);
  tn_node *mean = tn__op2_num(c, OP_DIV, sum, n);
  tn_node *off = tn__sub(c, x, tn__at_block_elements(c, &b, mean, x));
  tn_node *squares = tn__of_row_blocks(c, &b, OP_SUM, square_of(c, off)), *left = tn__of_row_blocks(c, &b, OP_SUM, off);
  tn_node *tail = tn__behind_row_blocks(c, &b, m->x);
  by[0] = tn__join_row_blocks(c, &b, OP_SUM, sum);
  if (tail) by[0] = tn__add(c, by[0], tn__reduce(c, OP_SUM, tail, m->sum->ints, m->sum->nint));
  tn_node *old = m->sum, *less = tn__substitute(c, m->less, &old, by, 1);
  /* means lie close to each other: their difference is exact, and what is left counts beside it */
  tn_node *apart = tn__add(c, mean, tn__at_row_blocks(c, &b, less, mean));
  apart = tn__add(c, apart, tn__op2_num(c, OP_DIV, left, n));
  by[1] = tn__join_row_blocks(c, &b, OP_SUM, tn__add(c, squares, tn__op2_num(c, OP_MUL, square_of(c, apart), n)));
  if (!tail) return;
  tn_node *about = tn__add(c, tail, tn__behind_row_blocks(c, &b, less));
  by[1] = tn__add(c, by[1], tn__reduce(c, OP_SUM, square_of(c, about), m->sum->ints, m->sum->nint));
}

static bool found(tn_ctx *c, const tn__target *t, const tn__nodes *all, tn_node *n, tn_node *old[2], tn_node *by[2]) {
  moments m;
  if (!find_moments(c, t, n, &m)) return false;
  old[0] = m.sum, old[1] = m.square;
  read_once(c, &m, by);
  if (tn__row_goes_on(c, all, m.square, m.square->src[0]->src[0])) by[1] = tn__op1(c, OP_CONTIG, by[1]);
  return true;
}

tn_node *tn__schedule_moments(tn_ctx *c, tn_node *sink, const tn__target *t) {
  return tn__each_by_row_blocks(c, sink, t, found);
}
