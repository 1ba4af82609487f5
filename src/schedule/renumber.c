/* Kernels of one form as one body: what the schedule has numbered from kernel to kernel starts anew in each. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include <stdlib.h>

static int by_number(const void *x, const void *y) {
  int64_t a = (*(tn_node *const *)x)->ints[1], b = (*(tn_node *const *)y)->ints[1];
  return a < b ? -1 : a > b;
}

tn_node *tn__renumber(tn_ctx *c, tn_node *body) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(&c->scratch, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    if (n->op == OP_RANGE && n->ints[1] >= TN__R_FIRST && n->ints[1] < TN__R_BESIDE)
      tn__vec_push(&c->scratch, &old, all.v[i]);
  }
  if (!old.n) return body;
  qsort(old.v, old.n, sizeof *old.v, by_number);
  for (uint32_t i = 0, number = 0; i < old.n; i++) {
    number += i && old.v[i]->ints[1] != old.v[i - 1]->ints[1];
    tn_node *fresh = tn__range(c, old.v[i]->src[0], (int)old.v[i]->ints[0], TN__R_FIRST + number);
    tn__vec_push(&c->scratch, &new_, fresh);
  }
  return tn__substitute(c, body, old.v, new_.v, old.n);
}
