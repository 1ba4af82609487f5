/* Operands that lie across what is reduced, on devices with work groups: the same graph, where they are copied to lie
 * along it.
 *
 * Threads that go along a row which lies across memory have one element of each sector that they ask for; threads that
 * go across rows have that of all that lies along them.  So where a reduction reads or stores both kinds, one of them
 * takes many times as long as its bytes.  A copy by tiles (lower/turn_groups.c) takes as long as twice these, once for
 * all kernels.  Whether that is less is said by what both plans are predicted to take (run/compile.c). */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

enum { LEAST = 1 << 16 }; /* elements: fewer are in a cache when they are asked for again */

/* Is it a tensor that stands in memory, with its axes in another order, and has elements enough? */
/* a choice: no is right */
static bool lies_across(const tn_node *n) {
  if (n->op != OP_PERMUTE || tn__numel_guess(n) < LEAST) return false;
  const tn_node *from = n->src[0];
  while (from->op == OP_RESHAPE) from = from->src[0];
  return from->op == OP_PARAM;
}

/* Those that reductions are made of, element by element */
static tn__nodes below_reductions(tn_ctx *c, tn_node *sink) {
  tn__arena *a = &c->scratch;
  tn__nodes order = {0}, todo = {0}, found = {0};
  tn__map seen;
  tn__map_init(&seen, a);
  tn__topo(a, &sink, 1, &order);
  for (uint32_t i = 0; i < order.n; i++)
    if (tn__ops[order.v[i]->op].group == G_REDUCE) tn__vec_push(a, &todo, order.v[i]->src[0]);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    if (tn__map_getp(&seen, n)) continue;
    tn__map_putp(&seen, n, n);
    if (lies_across(n)) tn__vec_push(a, &found, n);
    if (!tn__is_elementwise(n) && tn__ops[n->op].group != G_MOVE) continue;
    for (uint32_t s = 0; s < n->nsrc; s++) tn__vec_push(a, &todo, n->src[s]);
  }
  return found;
}

tn_node *tn__schedule_turned(tn_ctx *c, tn_node *sink, const tn__target *t, tn__nodes *copies) {
  *copies = (tn__nodes){0};
  if (!t->group) return sink;
  tn__nodes old = below_reductions(c, sink);
  for (uint32_t i = 0; i < old.n; i++) tn__vec_push(&c->scratch, copies, tn__op1(c, OP_CONTIG, old.v[i]));
  return old.n ? tn__substitute(c, sink, old.v, copies->v, old.n) : sink;
}
