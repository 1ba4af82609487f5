/* Outputs of one graph, each a node of its own: one that is there already is copied, in a time that does not hang on
 * how many copies there are.  Prefix tn__roots_. */
#ifndef TN_IR_ROOTS_H
#define TN_IR_ROOTS_H
#include "ir/ctx.h"

typedef struct tn__roots { /* each of a plan's outputs is a node of its own */
  tn__nodes node;
  tn__map last; /* by a node that is among them: itself, or the last copy of it */
} tn__roots;

void tn__roots_init(tn_ctx *c, tn__roots *r);
void tn__roots_avoid(tn__roots *r, tn_node *n); /* n itself is to be no output, if it is none yet */
/* The number of n, or of a copy of it if it is there: equal values of two outputs stand in two places. */
uint32_t tn__roots_add(tn_ctx *c, tn__roots *r, tn_node *n);
/* So, of n itself, be it there or not: they may stand in one place. */
uint32_t tn__roots_put(tn_ctx *c, tn__roots *r, tn_node *n);
/* What n is a copy of, or n.  known: an empty map at first, of the same nodes: of all together it takes linear time. */
tn_node *tn__roots_value(tn__map *known, tn_node *n);
#endif
