/* What may run at once must not meet: a check of linear programs by their form, for all sizes and inputs at once.
 * verify/machine.h and the interpreter find by running what this cannot see, such as threads
 * that meet in buffers. */
#ifndef TN_VERIFY_CONCURRENCY_H
#define TN_VERIFY_CONCURRENCY_H
#include "lower/kernel.h"

/* NULL, or what is wrong, in scratch:
 *
 *   a store to one place by all turns of a range that may run at once (AX_GLOBAL, AX_UPCAST, AX_UNROLL), or to a place
 *   that hangs on its counter only through memory, so that turns may meet, unless what is required of that memory
 *   (REQUIRE) keeps them apart;
 *   an accumulator of one cell that the lanes of a vector loop around it set;
 *   memory that a group shares, reached by several threads with no barrier between (barriers.h);
 *   a slot of a buffer that one of the parts of a launch stores to and another one accesses;
 *   a stage in which threads meet and which has fewer threads than its launch, or a part of another kind among stages;
 *   a barrier where not all threads of a group pass; more lanes than threads; lanes in lanes; slices that are not
 *   outermost */
const char *tn__concurrency_check(tn_ctx *c, const tn__kernel *k);
#endif
