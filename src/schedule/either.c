/* What may be computed in two ways (EITHER) is computed in one of them: the quick one; but where what the other one is
 * made of is there anyway, as for a gradient that goes back by the order in which elements stand, it is that, if then
 * less has to be stored.
 *
 * All that is wanted whichever ways are taken is there from the beginning, and then what those are made of that are
 * taken, one after the other.  Each way is gone through once, but for what is there. */
#include "ir/build.h"
#include "rewrite/rewrite.h"
#include "schedule/schedule.h"

typedef struct ways {
  tn_ctx *c;
  tn__map there;   /* nodes that are wanted in any case */
  tn__nodes found; /* those of two ways among them, in the order in which they were found */
} ways;

static bool is_stored(const tn_node *n) { return n->op == OP_SCATTER || n->op == OP_CONTIG; }

/* n and all below it is wanted. */
static void want(ways *w, tn_node *n) {
  tn__nodes todo = {0};
  tn__arena *a = &w->c->scratch;
  tn__vec_push(a, &todo, n);
  while (todo.n) {
    n = todo.v[--todo.n];
    if (tn__map_getp(&w->there, n)) continue;
    tn__map_putp(&w->there, n, n);
    if (n->op == OP_EITHER) tn__vec_push(a, &w->found, n);
    for (uint32_t s = 0; s < n->nsrc && n->op != OP_EITHER; s++) tn__vec_push(a, &todo, n->src[s]);
  }
}

/* Tensors below n that are sure to be stored for it, as they are not there; in quick ways where there are two */
/* a choice: any is right */
static uint32_t stored_for(const ways *w, tn_node *n) {
  tn__arena *a = &w->c->scratch;
  tn__mark begin = tn__arena_mark(a);
  tn__nodes todo = {0};
  tn__map seen;
  uint32_t stored = 0;
  tn__map_init(&seen, a);
  tn__vec_push(a, &todo, n);
  while (todo.n) {
    n = todo.v[--todo.n];
    if (tn__map_getp(&w->there, n) || tn__map_getp(&seen, n)) continue;
    tn__map_putp(&seen, n, n);
    stored += is_stored(n);
    for (uint32_t s = 0; s < (n->op == OP_EITHER ? 1 : n->nsrc); s++) tn__vec_push(a, &todo, n->src[s]);
  }
  tn__arena_rewind(a, begin);
  return stored;
}

tn_node *tn__schedule_either(tn_ctx *c, tn_node *sink) {
  ways w = {.c = c};
  tn__nodes taken = {0};
  tn__map_init(&w.there, &c->scratch);
  want(&w, sink);
  if (!w.found.n) return sink;
  for (uint32_t i = 0; i < w.found.n; i++) { /* more of them, as ways are taken */
    tn_node *n = w.found.v[i];
    bool there = stored_for(&w, n->src[1]) < stored_for(&w, n->src[0]); /* a choice: either is right */
    tn__vec_push(&c->scratch, &taken, n->src[there]);
    want(&w, n->src[there]);
  }
  for (tn_node *before = NULL; before != sink;) /* once more for those that stand below what was taken */
    before = sink, sink = tn__substitute(c, sink, w.found.v, taken.v, taken.n);
  return sink;
}
