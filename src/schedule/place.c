/* Scatters to places that are all different. */
#include "schedule/fuse.h"

static const tn_node *number_of(const tn_node *x) {
  while (tn__ops[x->op].group == G_MOVE && x->op != OP_PAD && x->op != OP_FOLD) x = x->src[0];
  return x;
}

bool tn__is_over_number(const tn_node *n) { return number_of(n->src[0])->op == OP_CONST; }

/* Every place must be met, since what none goes to would keep what memory held. */
bool tn__is_placed(const tn_node *n) {
  const tn_node *to = n->op == OP_SCATTER ? n->src[1] : NULL;
  return to && to->op == OP_PERMUTATION && n->rank == 1 && to->rank == 1 && to->dim[0] == n->dim[0] &&
         tn__is_over_number(n);
}

/* Of a single place the index says nothing: it is always that one.  Vectors would have to add lane by lane anyway. */
bool tn__has_own_places(const tn__target *t, const tn_node *n) {
  return t->group && n->op == OP_SCATTER && n->src[1]->op == OP_DISTINCT && n->dim[0]->lo > 1;
}

tn_node *tn__placed_over(tn_ctx *c, const tn_node *n) {
  const tn_node *x = number_of(n->src[0]);
  return tn__const_bits(c, x->dtype, (uint64_t)x->ints[0]);
}
