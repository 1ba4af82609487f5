/* Sums of exponentials about a row's greatest element, read once: on devices with work groups, of rows that no group
 * keeps (softmax, log-sum-exp).
 *
 * The greatest element is known when a row has been read, so that the exponentials read it again.  Blocks of it are not
 * too long (blocks.h): a group finds a block's greatest, then sums up the block's exponentials about that, and what is
 * known of all blocks is joined:
 *
 *   sum exp(x - m)  =  over all blocks the sum of  exp(p - m) sum exp(x - p)     p: the block's greatest
 *
 * What is taken off is what the graph makes of the greatest element: 0 where that is not finite, as softmax has it.  A
 * block of -inf alone then takes off 0, though its row may not: its sum is 0, and a factor of more than 1, perhaps
 * infinite, could only make it no number. */
#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include "schedule/blocks.h"
#include "tensor/operands.h"
#include <math.h>

typedef struct exponentials {
  tn_node *x, *less;  /* the exponentials are of x + less; less is the same in all places that are summed up */
  tn_node *most, *sum; /* the greatest of x, which `less` is made of, and the sum of the exponentials */
} exponentials;

/* Behind what moves it, and spreads it */
static const tn_node *moved(const tn_node *x) {
  while (x->op == OP_RESHAPE || x->op == OP_EXPAND || x->op == OP_DETACH) x = x->src[0];
  return x;
}

static bool is_number(const tn_node *x, double v) {
  x = moved(x);
  return x->op == OP_CONST && tn__is_float(x->dtype) && tn__eval_to_double(x->dtype, (uint64_t)x->ints[0]) == v;
}

/* Does `less` take off `most`, but 0 where that is not finite?  Of anything else exponentials of blocks might be more
 * than those of the row, and a block's factor more than 1; and a block of -inf alone would give what is no number. */
static bool takes_off(const tn_node *less, const tn_node *most) {
  const tn_node *x = moved(less), *when;
  if (x->op != OP_NEG) return false;
  x = moved(x->src[0]);
  if (x->op != OP_WHERE) return false;
  when = moved(x->src[0]);
  if (when->op == OP_EQ && is_number(when->src[1], -INFINITY))
    return moved(when->src[0]) == most && is_number(x->src[1], 0) && moved(x->src[2]) == most;
  if (when->op != OP_LT || !is_number(when->src[1], INFINITY) || moved(when->src[0])->op != OP_ABS) return false;
  return moved(moved(when->src[0])->src[0]) == most && moved(x->src[1]) == most && is_number(x->src[2], 0);
}

/* So taken off of others in place of `most`: a few operations (takes_off) */
static tn_node *taken_off(tn_ctx *c, tn_node *x, const tn_node *most, tn_node *by) {
  tn_node *src[3];
  while (x != most && (x->op == OP_RESHAPE || x->op == OP_EXPAND || x->op == OP_DETACH)) x = x->src[0];
  if (x == most) return by;
  if (x->op == OP_CONST) return tn__scalar_to(c, x, by->dim, by->rank);
  for (uint32_t i = 0; i < x->nsrc; i++) src[i] = taken_off(c, x->src[i], most, by);
  return x->nsrc == 1   ? tn__op1(c, (tn__op)x->op, src[0])
         : x->nsrc == 2 ? tn__op2(c, (tn__op)x->op, src[0], src[1])
                        : tn__op3(c, (tn__op)x->op, src[0], src[1], src[2]);
}

/* a choice: no is right */
static bool find(tn_ctx *c, const tn__target *t, tn_node *n, exponentials *e) {
  tn_node *d = n->op == OP_SUM && n->src[0]->op == OP_EXP ? n->src[0]->src[0] : NULL;
  if (!d || d->op != OP_ADD || tn__dtype_acc(d->dtype) != d->dtype || !tn__rows_are_long(c, t, n)) return false;
  for (int side = 0; side < 2; side++) {
    *e = (exponentials){.x = d->src[side], .less = d->src[!side], .sum = n};
    if (!tn__is_spread_along(e->less, n)) continue;
    e->most = tn__reduction_below(c, OP_RMAX, e->less, e->x, n);
    if (e->most && takes_off(e->less, e->most)) return true;
  }
  return false;
}

static tn_node *sum_of(tn_ctx *c, const exponentials *e, tn_node *x, tn_node *less) {
  return tn__reduce(c, OP_SUM, tn__op1(c, OP_EXP, tn__add(c, x, less)), e->sum->ints, e->sum->nint);
}

/* What replaces e->most and e->sum */
static void read_once(tn_ctx *c, const exponentials *e, tn_node *by[2]) {
  tn__row_blocks b = tn__row_blocks_of(e->sum);
  tn_node *x = tn__in_row_blocks(c, &b, e->x), *tail = tn__behind_row_blocks(c, &b, e->x);
  tn_node *most = tn__of_row_blocks(c, &b, OP_RMAX, x), *less = taken_off(c, e->less, e->most, most);
  tn_node *each = tn__op1(c, OP_EXP, tn__add(c, x, tn__at_block_elements(c, &b, less, x)));
  each = tn__of_row_blocks(c, &b, OP_SUM, each);
  by[0] = tn__join_row_blocks(c, &b, OP_RMAX, most);
  if (tail) by[0] = tn__op2(c, OP_MAX, by[0], tn__reduce(c, OP_RMAX, tail, e->most->ints, e->most->nint));
  tn_node *old = e->most, *of_row = tn__substitute(c, e->less, &old, by, 1);
  tn_node *apart = tn__sub(c, tn__at_row_blocks(c, &b, of_row, less), less);
  apart = tn__op2_num(c, OP_MIN, apart, 0);
  by[1] = tn__join_row_blocks(c, &b, OP_SUM, tn__mul(c, each, tn__op1(c, OP_EXP, apart)));
  if (tail) by[1] = tn__add(c, by[1], sum_of(c, e, tail, tn__behind_row_blocks(c, &b, of_row)));
}

static bool found(tn_ctx *c, const tn__target *t, const tn__nodes *all, tn_node *n, tn_node *old[2], tn_node *by[2]) {
  exponentials e;
  if (!find(c, t, n, &e)) return false;
  old[0] = e.most, old[1] = e.sum;
  read_once(c, &e, by);
  if (tn__row_goes_on(c, all, e.sum, e.sum->src[0]->src[0]))
    for (int k = 0; k < 2; k++) by[k] = tn__op1(c, OP_CONTIG, by[k]);
  return true;
}

tn_node *tn__schedule_exponentials(tn_ctx *c, tn_node *sink, const tn__target *t) {
  return tn__each_by_row_blocks(c, sink, t, found);
}
