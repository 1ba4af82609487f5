/* One writer of each place: do turns that may run at once (slices, lanes, threads, neighbours) store to places of their
 * own, for all values and sizes?  Prefix tn__writers_.
 *
 * Decided by the form of the address, else by trying all turns where they are few; what neither tells is a statement
 * for an SMT solver.  That two turns meet is found by trying, also where there are too many for all. */
#ifndef TN_VERIFY_WRITERS_H
#define TN_VERIFY_WRITERS_H
#include "ir/constraint.h"
#include "lower/kernel.h"

typedef struct tn__writers { /* stores, each once for every loop around it whose turns may run at once */
  uint32_t stores, by_form, by_trying; /* the rest is left to a solver */
} tn__writers;

/* Of an index in a part: are the counters of `lanes` equal wherever the addresses are, in whatever turns of the other
 * loops of a group, and of the groups' loop unless it is in one turn?  By form: false may only mean that it is not
 * known. */
bool tn__writers_tell(tn_ctx *c, const tn__kernel *k, uint32_t part, tn_node *index, tn_node *lanes, bool one_group);

/* No value of the one index is one of the other, in any turns: they lie apart, or do but for multiples of what a loop
 * moves both by.  By form. */
bool tn__writers_lie_apart(tn_ctx *c, tn_node *x, tn_node *y);

/* Of a store: do turns of the loop around it, open->v[loop], that may run at once store to places of their own?  By
 * form, so. */
bool tn__writers_apart(tn_ctx *c, const tn__kernel *k, uint32_t part, uint32_t at, const tn__nodes *open,
                       uint32_t loop);

/* Adds to the counts; NULL, or in scratch which turns store to one place.  `open`: a line for each store that is left,
 * as bounds.h says. */
const char *tn__writers_prove(tn_ctx *c, const tn__kernel *k, const tn__constraint_list *needs, tn__writers *count,
                              tn__sb *open);

/* Of a body: does each of its stores, whatever is made of its loops, go to places of its own in each turn of those that
 * have no order?  By form.  k: the kernel made of it, which has what is required. */
bool tn__writers_told(tn_ctx *c, const tn__kernel *k, tn_node *body);

/* Of a body: a load of a buffer of which something may have stored the element by then, or not yet: it is not the one
 * that its own turn stores, or not for that store alone; NULL: there is none, by form.  What is loaded after a store is
 * AFTER it. */
const tn_node *tn__writers_loaded(tn_ctx *c, tn_node *body);

/* Of a body: a store to an element to which another one may store, too; NULL: there is none, by form. */
const tn_node *tn__writers_twice(tn_ctx *c, tn_node *body);
#endif
