/* The numbers of a body's loops.
 *
 * Needs a body as it was emitted, whose ranges have the numbers that they were planned with (fuse.h): these say in
 * which order they were opened, and follow from where the kernel stands in its schedule.  Gives the body with ranges
 * numbered from 0, in the same order, and what else is to be replaced, in one go: kernels
 * that do the same become the same node, and compile once.  Breaks nothing. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include <stdlib.h>

/* Where two bodies came together, a number may stand twice. */
static int by_number(const void *x, const void *y) {
  const tn_node *a = *(tn_node *const *)x, *b = *(tn_node *const *)y;
  const int64_t of[2][3] = {{a->ints[RANGE_ID], a->ints[RANGE_AXIS], (int64_t)a->serial},
                            {b->ints[RANGE_ID], b->ints[RANGE_AXIS], (int64_t)b->serial}};
  for (int i = 0; i < 3; i++)
    if (of[0][i] != of[1][i]) return of[0][i] < of[1][i] ? -1 : 1;
  return 0;
}

tn_node *tn__renumber(tn_ctx *c, tn_node *body, tn__nodes *old, tn__nodes *new_) {
  tn__arena *a = &c->scratch;
  tn__nodes all = {0}, ranges = {0};
  bool same = !old->n;
  tn__topo(a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_RANGE) tn__vec_push(a, &ranges, all.v[i]);
  if (ranges.n) qsort(ranges.v, ranges.n, sizeof *ranges.v, by_number);
  for (uint32_t i = 0; i < ranges.n; i++) {
    const int64_t *x = ranges.v[i]->ints;
    tn_node *y = tn__range(c, ranges.v[i]->src[0], (int)x[RANGE_AXIS], (tn__role)x[RANGE_ROLE], i);
    same &= y == ranges.v[i];
    tn__vec_push(a, old, ranges.v[i]);
    tn__vec_push(a, new_, y);
  }
  return same ? body : tn__substitute(c, body, old->v, new_->v, old->n);
}
