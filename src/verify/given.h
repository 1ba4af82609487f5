/* What is known where an access is done, since its gate holds.  Prefix tn__given_. */
#ifndef TN_VERIFY_GIVEN_H
#define TN_VERIFY_GIVEN_H
#include "ir/ctx.h"

typedef struct tn__given {
  tn__map conditions; /* what the gate is made of */
  tn__nodes positive; /* differences of indices that are not negative, in normal form */
} tn__given;

void tn__given_find(tn_ctx *c, tn_node *gate, tn__given *out); /* gate: NULL if there is none */
bool tn__given_holds(tn_ctx *c, const tn__given *g, tn_node *condition); /* false: that is not known; so below */
bool tn__given_positive(tn_ctx *c, const tn__given *g, tn_node *index);  /* index >= 0 */
#endif
