/* Are accesses within their buffers, for all values and sizes?  By intervals, and what gates say of them; and what
 * those do not tell, as statements for an SMT solver (tools/check-verify asks one).  Prefix tn__bounds_. */
#ifndef TN_VERIFY_BOUNDS_H
#define TN_VERIFY_BOUNDS_H
#include "ir/constraint.h"
#include "lower/kernel.h"

typedef struct tn__bounds {
  tn_node *const *size; /* elements of the kernel's buffers 0..nbuf-1 */
  uint32_t nbuf;
  const tn__constraint_list *needs; /* of the symbolic sizes; NULL: none */
} tn__bounds;

/* Counts the loads and stores of a kernel, and those that are proved; of each other one a line goes to `open`: an
 * SMT-LIB script that is unsatisfiable if the access stays within.  There, integers are unbounded, but for sums and
 * products of what is loaded, which wrap; and memory may hold anything that the kernel does not rule out (REQUIRE).
 * NULL, or in scratch which address is made of what is loaded and is not bounded on both sides: nothing is taken for
 * granted of memory in silence, so such an address is cut, gated, or required to be in a range, which is seen by its
 * form. */
const char *tn__bounds_prove(tn_ctx *c, const tn__kernel *k, const tn__bounds *b, uint32_t *accesses, uint32_t *proved,
                             tn__sb *open);
/* Are all accesses of k's body proved, as it was before it was lowered?  No loop has been cut into blocks there. */
bool tn__bounds_prove_body(tn_ctx *c, const tn__kernel *k, tn_node *body, const tn__bounds *b);
/* A line that is unsatisfiable if what `around` says cannot be: loops none of which is empty, and conditions. */
void tn__bounds_state(tn_ctx *c, const tn__kernel *k, const tn__nodes *around, const tn__constraint_list *needs,
                      tn__sb *out);
#endif
