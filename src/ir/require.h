/* What a kernel requires of its buffers: a REQUIRE in words, and whether memory is so.  Prefix tn__require_. */
#ifndef TN_IR_REQUIRE_H
#define TN_IR_REQUIRE_H
#include "ir/ctx.h"

void tn__require_print(tn__sb *out, const tn_node *require); /* "b1 distinct", "b2 in 0 n" */
/* NULL if n elements of the buffer's dtype are so; else which are not, in `a`.  lo, hi: the values of its sizes, where
 * it has any.  May throw for lack of memory. */
const char *tn__require_fault(tn__arena *a, const tn_node *require, const void *mem, size_t n, int64_t lo, int64_t hi);
#endif
