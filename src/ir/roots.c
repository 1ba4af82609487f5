#include "ir/roots.h"
#include "ir/build.h"

void tn__roots_init(tn_ctx *c, tn__roots *r) {
  *r = (tn__roots){0};
  tn__map_init(&r->last, &c->scratch);
}

void tn__roots_avoid(tn__roots *r, tn_node *n) {
  if (!tn__map_getp(&r->last, n)) tn__map_putp(&r->last, n, n);
}

uint32_t tn__roots_add(tn_ctx *c, tn__roots *r, tn_node *n) {
  tn_node *own = n;
  for (tn_node *last; (last = tn__map_getp(&r->last, own));) own = tn__op1(c, OP_CONTIG, last);
  tn__map_putp(&r->last, own, own);
  if (own != n) tn__map_putp(&r->last, n, own);
  tn__vec_push(&c->scratch, &r->node, own);
  return r->node.n - 1;
}

uint32_t tn__roots_put(tn_ctx *c, tn__roots *r, tn_node *n) {
  tn__roots_avoid(r, n);
  tn__vec_push(&c->scratch, &r->node, n);
  return r->node.n - 1;
}

tn_node *tn__roots_value(tn__map *known, tn_node *n) {
  tn_node *end = n, *value = NULL;
  while (end->op == OP_CONTIG && !(value = tn__map_getp(known, end))) end = end->src[0];
  if (!value) value = end;
  for (; n != end; n = n->src[0]) tn__map_putp(known, n, value);
  return value;
}
