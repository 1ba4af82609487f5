/* What each stage may emit, checked at its border.  Prefix tn__spec_. */
#ifndef TN_IR_SPEC_H
#define TN_IR_SPEC_H
#include "ir/ctx.h"

/* What their messages begin with; of a text of the user's it is not so (run/sections.c). */
#define TN__SPEC_FAULT "internal error: "

/* Throws (an internal error: the node is printed) if a node reachable from root is not allowed in the phase: op not
 * listed for it, wrong source kinds, index dtype where a value must stand, a value stored or accumulated as of another
 * dtype, a STORE outside a SINK or AFTER, and so on. */
void tn__spec_tensor(tn_ctx *c, tn_node *root);
void tn__spec_kernel(tn_ctx *c, tn_node *root);
void tn__spec_schedule(tn_ctx *c, tn_node *root);
void tn__spec_linear(tn_ctx *c, tn_node *const *ins, uint32_t n);
void tn__spec_program(tn_ctx *c, tn_node *root); /* a linear program as a SINK of its instructions, in order */
#endif
