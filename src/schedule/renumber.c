/* The numbers of a body's loops.
 *
 * Needs a body as it was emitted, whose ranges have the numbers that they were planned with (fuse.h): these say in
 * which order they were opened, and follow from where the kernel stands in its schedule.  Gives the body with ranges
 * numbered from 0, in the same order: kernels that do the same become the same node, and compile once.  Breaks
 * nothing. */
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

tn_node *tn__renumber(tn_ctx *c, tn_node *body) {
  tn__arena *a = &c->scratch;
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_RANGE) tn__vec_push(a, &old, all.v[i]);
  if (old.n) qsort(old.v, old.n, sizeof *old.v, by_number);
  for (uint32_t i = 0; i < old.n; i++) {
    const int64_t *x = old.v[i]->ints;
    tn_node *y = tn__range(c, old.v[i]->src[0], (int)x[RANGE_AXIS], (tn__role)x[RANGE_ROLE], i);
    tn__vec_push(a, &new_, y);
  }
  return tn__substitute(c, body, old.v, new_.v, old.n);
}
