/* Does a kernel say of itself what its instructions do?  Launchers, interpreters and checks go by what it says.  Prefix
 * tn__facts_. */
#ifndef TN_VERIFY_FACTS_H
#define TN_VERIFY_FACTS_H
#include "device/target.h"
#include "lower/kernel.h"

/* NULL, or what is wrong, in `a`:
 *
 *   a buffer of another dtype, or one that is stored to and not said to be, or the other way round
 *   a symbolic size that is not passed
 *   something that is required of a buffer which it stores to, but in stages before all that load from it
 *   scratch that overlaps, or reaches beyond what is asked for
 *   a part whose sliced loop is another one
 *   a group with more threads, or more shared memory, than the target has */
const char *tn__facts_check(tn__arena *a, const tn__kernel *k, const tn__target *target);
#endif
