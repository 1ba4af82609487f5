#include "verify/given.h"
#include "ir/build.h"
#include "rewrite/rewrite.h"

static void add_difference(tn_ctx *c, tn__given *g, tn_node *more, tn_node *less, bool strictly) {
  tn_node *d = tn__sub(c, more, less);
  if (strictly) d = tn__add(c, d, tn__int(c, -1));
  tn__vec_push(&c->scratch, &g->positive, tn__simplify_index(c, d));
}

void tn__given_find(tn_ctx *c, tn_node *gate, tn__given *out) {
  tn__nodes todo = {0};
  *out = (tn__given){.positive = {0}};
  tn__map_init(&out->conditions, &c->scratch);
  if (gate) tn__vec_push(&c->scratch, &todo, gate);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    tn__map_putp(&out->conditions, n, n);
    for (uint32_t s = 0; n->op == OP_AND && s < 2; s++) tn__vec_push(&c->scratch, &todo, n->src[s]);
    bool no = n->op == OP_NOT; /* not x < y: y <= x */
    if (no) n = n->src[0];
    if ((n->op == OP_LT || n->op == OP_LE) && n->src[0]->dtype == TN__INDEX)
      add_difference(c, out, n->src[!no], n->src[no], (n->op == OP_LT) != no);
  }
}

bool tn__given_holds(tn_ctx *c, const tn__given *g, tn_node *condition) {
  tn__nodes todo = {0};
  tn__vec_push(&c->scratch, &todo, condition);
  while (todo.n) {
    const tn_node *n = todo.v[--todo.n];
    if (tn__map_getp(&g->conditions, n)) continue;
    if (n->op != OP_AND) return false;
    for (uint32_t s = 0; s < 2; s++) tn__vec_push(&c->scratch, &todo, n->src[s]);
  }
  return true;
}

bool tn__given_positive(tn_ctx *c, const tn__given *g, tn_node *index) {
  if (index->lo >= 0 || tn__simplify_index(c, index)->lo >= 0) return true;
  for (uint32_t i = 0; i < g->positive.n; i++)
    if (tn__simplify_index(c, tn__sub(c, index, g->positive.v[i]))->lo >= 0) return true;
  return false;
}
