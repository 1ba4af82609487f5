/* What is known where an access is done, since its gate holds.  Prefix tn__given_.
 *
 * Indices are compared as sums of terms over the integers, while a machine's wrap.  Of sizes and counters that makes no
 * difference: a buffer that they count fits in memory.  Of numbers that are loaded it does: a sum or product of them is
 * taken apart only if, with what bounds them, it cannot wrap; else it stands for itself. */
#ifndef TN_VERIFY_GIVEN_H
#define TN_VERIFY_GIVEN_H
#include "lower/kernel.h"

typedef struct tn__given {
  const tn__kernel *kernel; /* what it requires bounds what is loaded; NULL: nothing is required */
  tn__map conditions;       /* what the gate is made of */
  tn__nodes positive;       /* differences of indices that are not negative, in normal form, exact as below */
  tn__map limit;            /* node -> of `span`: what the gate compares it with bounds it */
  tn__map known;            /* node -> of `fact` */
} tn__given;

void tn__given_find(tn_ctx *c, const tn__kernel *k, tn_node *gate, tn__given *out); /* k, gate: NULL if there is none */
/* And what n's loops say: a counter is below its extent, and below each of those that this is the least of. */
void tn__given_loops(tn_ctx *c, tn__given *g, tn_node *n);
bool tn__given_holds(tn_ctx *c, const tn__given *g, tn_node *condition); /* false: that is not known; so below */
bool tn__given_positive(tn_ctx *c, const tn__given *g, tn_node *index);  /* index >= 0, of an exact one */

/* x - y, both exact, in which equal terms are added up wherever they stand */
tn_node *tn__given_difference(tn_ctx *c, tn_node *x, tn_node *y);

/* n, with a variable for each sum and product that may wrap: its terms may be moved about now. */
tn_node *tn__given_exact(tn_ctx *c, tn__given *g, tn_node *n);
/* n, of such, with a variable for each number that is loaded, in the bounds that are known of it here: elsewhere a
 * node's interval is what its form says, wherever it stands. */
tn_node *tn__given_bounded(tn_ctx *c, tn__given *g, tn_node *n);
/* Where n's value lies.  Of indices that hang on nothing but sizes and counters it is that of the node. */
void tn__given_range(tn_ctx *c, tn__given *g, tn_node *n, int64_t *lo, int64_t *hi);

static inline bool tn__given_is_data(const tn_node *n) {
  return n->op == OP_LOAD || n->op == OP_GETACC || n->op == OP_DATUM;
}
/* Of a sum, a product or a negative: may it be beyond 64 bits, where the sources lie so? */
bool tn__given_wraps(const tn_node *n, const int64_t *lo, const int64_t *hi);
#endif
