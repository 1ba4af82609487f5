/* Memory that threads of a group reach together, between barriers where these order it: a check of linear programs by
 * their form, for all sizes and inputs.  Prefix tn__barriers_. */
#ifndef TN_VERIFY_BARRIERS_H
#define TN_VERIFY_BARRIERS_H
#include "lower/kernel.h"

/* NULL, or in scratch what is wrong: an access to a LOCAL that a group shares which another one, with a store among the
 * two, or the same one in another turn of a loop, may reach by another thread with no barrier between them; so of a
 * load and a store of one buffer, and, of a program, of two stores, where barriers do not count: they order shared
 * memory alone.  Threads that count in step one after the other (tn__is_in_step) are as one.  Two accesses are one
 * thread's if both are stores outside of lane loops, if their indices are the same
 * of their threads and tell the thread, or if trying all turns finds no place where two threads meet: where counters
 * alone tell index and gate, and turns are few.  What is not seen to be one thread's is refused.  A program is checked
 * as it was written, also where a device takes one loop over threads after the other. */
const char *tn__barriers_check(tn_ctx *c, const tn__kernel *k, uint32_t part);

/* So of two groups, for which there are no barriers, in a buffer that a program writes: two accesses are one group's if
 * each group has a part of the buffer for both, or if trying all turns finds no place where two groups meet. */
const char *tn__barriers_groups(tn_ctx *c, const tn__kernel *k, uint32_t part);
#endif
