/* Scatters to places that are all different. */
#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

static const tn_node *number_of(const tn_node *x) {
  while (tn__ops[x->op].group == G_MOVE && x->op != OP_PAD && x->op != OP_FOLD) x = x->src[0];
  return x;
}

bool tn__is_over_number(const tn_node *n) { return number_of(n->src[0])->op == OP_CONST; }

/* Every place must be met, since what none goes to would keep what memory held; of a permutation of more places than
 * there are, those beyond are left out. */
bool tn__is_placed(const tn_node *n) {
  if (n->op == OP_SCATTER && tn__combines_by(n) != OP_ADD) return false;
  const tn_node *to = n->op == OP_SCATTER ? n->src[1] : NULL;
  if (!to || to->op != OP_PERMUTATION || n->rank != 1 || to->rank != 1 || !tn__is_over_number(n)) return false;
  return to->dim[0] == n->dim[0] || n->dim[0]->hi <= to->dim[0]->lo;
}

/* The spans of which the node looks up where one begins that has an end; NULL: it is none such */
/* a choice: no is right */
static const tn_node *looked_up(const tn_node *x) {
  const tn_node *from = x->op == OP_GATHER ? x->src[0] : NULL;
  if (!from || from->op != OP_SPANS || from->rank != 1 || x->src[1]->lo < 0) return NULL;
  return x->src[1]->hi < from->dim[0]->lo - 1 ? from : NULL;
}

const tn_node *tn__spans_of(const tn__target *t, const tn_node *n) {
  enum { MOST_TERMS = 16 };
  const tn_node *todo[MOST_TERMS + 1] = {n}, *found = NULL;
  uint32_t left = t->group && n->op == OP_PERMUTATION, looked = 0;
  if (left) todo[0] = n->src[0];
  while (left && looked++ < MOST_TERMS) {
    const tn_node *x = todo[--left];
    while (x->op == OP_RESHAPE || (x->op == OP_CAST && x->dtype == TN_I64)) x = x->src[0];
    const tn_node *from = looked_up(x);
    if (from && found) return NULL;
    if (from) found = from;
    for (int i = 0; i < 2 && x->op == OP_ADD && x->dtype == TN_I64 && left < MOST_TERMS; i++) todo[left++] = x->src[i];
  }
  return found;
}

/* Of a single place the index says nothing: it is always that one.  Vectors would have to add lane by lane anyway. */
bool tn__has_own_places(const tn__target *t, const tn_node *n) {
  if (n->op != OP_SCATTER || tn__combines_by(n) != OP_ADD) return false;
  return t->group && n->src[1]->op == OP_DISTINCT && n->dim[0]->lo > 1;
}

static bool is_number(const tn_node *x, double v) {
  const tn_node *number = number_of(x);
  return number->op == OP_CONST && (uint64_t)number->ints[0] == tn__eval_from_double(number->dtype, v);
}

/* What x is at its first axis' places, which is the same along all others */
static const tn_node *of_places(const tn_node *x) {
  while (x->op == OP_EXPAND || x->op == OP_RESHAPE) {
    const tn_node *y = x->src[0];
    if (!x->rank || !y->rank || x->dim[0] != y->dim[0]) break;
    for (uint32_t i = 1; i < y->rank; i++)
      if (!tn__is_int_const(y->dim[i], 1)) return x;
    x = y;
  }
  return x;
}

/* Does it tell to which places a scatter's updates go, which are all different: how many of them is not 0? */
static bool tells_places(const tn_node *x, const tn_node *to) {
  const tn_node *asked = of_places(x), *count = asked->op == OP_NE ? of_places(asked->src[0]) : asked;
  return asked->op == OP_NE && is_number(asked->src[1], 0) && count->op == OP_SCATTER && count->rank == 1 &&
         to->rank == 1 && tn__combines_by(count) == OP_ADD && count->src[1] == to && is_number(count->src[0], 0) &&
         is_number(count->src[2], 1);
}

bool tn__is_covered(const tn__target *t, const tn_node *n) {
  if (!tn__has_own_places(t, n) || n->src[2]->dtype != n->dtype || !tn__is_float(n->dtype)) return false;
  const tn_node *base = n->src[0];
  return base->op == OP_WHERE && is_number(base->src[1], -0.0) && tells_places(base->src[0], n->src[1]);
}

tn_node *tn__added_to_number(tn_ctx *c, const tn_node *n, tn_node *x) {
  const tn_node *number = number_of(n->src[0]);
  uint64_t none = tn__is_float(number->dtype) ? tn__eval_from_double(number->dtype, -0.0) : 0;
  if (number->dtype == x->dtype && (uint64_t)number->ints[0] == none) return x;
  return tn__add(c, tn__const_bits(c, number->dtype, (uint64_t)number->ints[0]), x);
}

/* What the places of a scatter are, but for moves and conversions */
static const tn_node *sent_to(const tn_node *n) {
  const tn_node *x = n->src[1];
  while (x->op == OP_CAST || tn__ops[x->op].group == G_MOVE) x = x->src[0];
  return x;
}

/* a choice: any is right */
tn_node *tn__schedule_orders(tn_ctx *c, tn_node *sink, const tn__target *t) {
  tn_node *given = sink;
  for (bool more = t->group; more;) { /* what one is made of may be made of others */
    tn__nodes all = {0};
    tn__map sends;
    tn_node *order = NULL;
    tn__map_init(&sends, &c->scratch);
    tn__topo(&c->scratch, &sink, 1, &all);
    for (uint32_t i = 0; i < all.n; i++)
      if (all.v[i]->op == OP_SCATTER) tn__map_put(&sends, (uintptr_t)sent_to(all.v[i]), 1);
    for (uint32_t i = 0; i < all.n && !order; i++)
      if (all.v[i]->op == OP_PERMUTATION && !tn__map_get(&sends, (uintptr_t)all.v[i], NULL)) order = all.v[i];
    more = order;
    if (more) sink = tn__substitute(c, sink, &order, &order->src[0], 1);
  }
  return sink == given ? sink : tn__simplify_graph(c, sink);
}
