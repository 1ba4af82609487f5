/* What may be computed in two ways (EITHER) is computed in one of them: the quick one; but where what the other one is
 * made of is there anyway, as for a gradient that goes back by the order in which elements stand, it is taken as well,
 * if then less has to be stored. */
#include "ir/build.h"
#include "rewrite/rewrite.h"
#include "schedule/schedule.h"

/* The first one below which there is no other */
static tn_node *first_either(tn_ctx *c, tn_node *sink) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_EITHER) return all.v[i];
  return NULL;
}

static tn_node *with(tn_ctx *c, tn_node *sink, tn_node *either, uint32_t which) {
  return tn__substitute(c, sink, &either, &either->src[which], 1);
}

static tn_node *quick_from_here(tn_ctx *c, tn_node *sink) {
  for (tn_node *n; (n = first_either(c, sink));) sink = with(c, sink, n, 0);
  return sink;
}

/* Tensors that are sure to be stored */
static uint32_t stored(tn_ctx *c, tn_node *sink) {
  tn__nodes all = {0};
  uint32_t n = 0;
  tn__topo(&c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) n += all.v[i]->op == OP_SCATTER || all.v[i]->op == OP_CONTIG;
  return n;
}

/* a choice: either is right */
tn_node *tn__schedule_either(tn_ctx *c, tn_node *sink) {
  for (tn_node *n; (n = first_either(c, sink));) {
    tn_node *quick = with(c, sink, n, 0), *other = with(c, sink, n, 1);
    bool there = stored(c, quick_from_here(c, other)) < stored(c, quick_from_here(c, quick));
    sink = there ? other : quick;
  }
  return sink;
}
