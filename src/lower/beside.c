/* Stores that go through the same elements as a reduction beside them, in loops of their own: they go along in the
 * reduction's loop, so that what both load is loaded once, and what both compute of it is computed once.
 *
 * Needs a body for groups, whose threads would go through both loops one after the other.  What a store and a reduction
 * have in common is seen by what they load once they share a loop.  That loop then closes both, and both nest alike
 * (separate.c).
 *
 * Steps noted: beside(a,b): stores that closed a close b. */
#include "lower/lower.h"
#include "rewrite/rewrite.h"

/* The loops that all reductions over range k stand in, if they close nothing but it and are made of no others; and no
 * loop's length hangs on another */
/* a choice: no is right */
static bool is_plain(const tn__ranges *r, uint32_t k, uint64_t *around) {
  uint32_t count = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    uint64_t own = tn__own_of(r, n);
    if (!(own >> k & 1)) continue;
    if (n->op == OP_STORE) continue; /* which goes along already */
    if (n->op != OP_REDUCE || n->nsrc != 2 || tn__level_of(r, n->src[0])) return false;
    if (count++ && tn__free_of(r, n) != *around) return false;
    *around = tn__free_of(r, n);
  }
  for (uint32_t j = 0; j < r->n; j++) /* its length, and those of others, are their own */
    if (tn__free_of(r, r->range[j]) != 1ull << j) return false;
  return count > 0;
}

/* The loop that a store of elements has in place of range k */
/* a choice: no is right */
static int in_place_of(const tn__ranges *r, const tn_node *store, uint32_t k, uint64_t around) {
  uint64_t own = tn__own_of(r, store), left = own & ~around;
  if (store->op != OP_STORE || store->src[0]->op != OP_PARAM || tn__gate_of(store)) return -1;
  if (tn__free_of(r, store) || tn__level_of(r, store->src[1]) || tn__level_of(r, store->src[2])) return -1;
  if ((around & ~own) || !left || (left & (left - 1))) return -1;
  for (uint32_t j = 0; j < r->n; j++)
    if ((left >> j & 1) && tn__axis_of(r->range[j]) == AX_LOOP && r->range[j]->src[0] == r->range[k]->src[0])
      return (int)j;
  return -1;
}

/* Do the store and some reduction over range k load the same in its turns? */
/* a choice: no is right */
static bool load_the_same(tn__arena *a, const tn__ranges *r, tn_node *store, const tn_node *range) {
  tn__nodes below = {0};
  tn__topo(a, &store, 1, &below);
  for (uint32_t i = 0; i < below.n; i++) {
    const tn_node *n = below.v[i];
    int at = tn__range_at(r, range);
    if (n->op == OP_LOAD && (tn__free_of(r, n) >> at & 1)) return true; /* as it stands in the body */
  }
  return false;
}

tn_node *tn__go_beside(tn__lowering *l, tn_node *body) {
  tn__survey s;
  tn__survey_loops(l->c, l->a, body, &s);
  if (tn__reads_results(&s)) return body;
  tn__ranges r = s.r;
  for (uint32_t k = 0; k < r.n; k++) {
    uint64_t around;
    tn_node *range = r.range[k];
    if (tn__axis_of(range) != AX_REDUCE || !is_plain(&r, k, &around)) continue;
    for (uint32_t i = 0; i < body->nsrc; i++) {
      tn_node *store = body->src[i];
      int j = in_place_of(&r, store, k, around);
      if (j < 0) continue;
      tn_node *own = r.range[j], *moved = tn__substitute(l->c, store, &own, &range, 1);
      if (!load_the_same(l->a, &r, moved, range)) continue;
      tn__sb_printf(&l->note, " beside(%lld,%lld)", tn__id_of(own), tn__id_of(range));
      body = tn__substitute(l->c, body, &store, &moved, 1);
      tn__ranges_find(l->c, l->a, body, &r);
      k = (uint32_t)tn__range_at(&r, range);
      if (!is_plain(&r, k, &around)) break;
    }
  }
  return body;
}
