/* Terms: how a value came about, recorded only to tell a difference.  Hash-consed; sources have smaller numbers.
 * Prefix tn__term. */
#ifndef TN_VERIFY_TERM_H
#define TN_VERIFY_TERM_H
#include "base/sb.h"
#include "ir/node.h"

typedef struct tn__term_node {
  uint8_t op, dtype, n;
  uint32_t src[3];
  uint64_t a, b; /* of leaves: PARAM: slot and element; CONST: bits */
} tn__term_node;

typedef struct tn__terms {
  tn__arena *arena;
  tn__map known;
  tn__vec(tn__term_node) v; /* 0: one of the many that were not recorded */
} tn__terms;

void tn__terms_open(tn__arena *a, tn__terms *t);
uint32_t tn__term_leaf(tn__terms *t, int op, int dtype, uint64_t a, uint64_t b);
uint32_t tn__term_of(tn__terms *t, int op, int dtype, const uint32_t *src, uint32_t n);
/* got - want as a polynomial over atoms, what both have in common gone, shortly; both as they are where there is no
 * such form.  Inputs are written p<slot>[<element>]. */
void tn__term_difference(const tn__terms *t, uint32_t want, uint32_t got, tn__sb *out);
#endif
