/* What a graph's bf16 results may be in mode default, where a kernel may keep values in f32 from function to function
 * (lower/widen.c). */
#ifndef TEST_SUPPORT_ENCLOSE_H
#define TEST_SUPPORT_ENCLOSE_H
#include "ir/ctx.h"

/* Can its result differ with what was rounded before?  Such bf16 nodes may only be outputs or the sources of such
 * nodes. */
bool is_loose(const tn_node *n);
/* Two f32 nodes between which the loose node n lies, whichever of the operations below it round to bf16.  Both NaN: so
 * is n.  The wrong way round: nothing is known, n may be NaN, too. */
void enclose(tn_ctx *c, tn_node *n, tn_node **lo, tn_node **hi);
#endif
