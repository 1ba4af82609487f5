/* The context's random state, for realise and for program capture.  Prefix tn__random_. */
#ifndef TN_TENSOR_RANDOM_H
#define TN_TENSOR_RANDOM_H
#include "tensor/operands.h"

/* Before a schedule is made from user tensors: if random tensors were made since the state was written, later ones
 * refer to a fresh storage {seed, calls} instead.  Their graphs then look the same each step, and share one schedule.
 */
void tn__random_flush(tn_ctx *c);
/* The STORAGE u64[2] = {seed, calls}, of no device, that random tensors refer to now; *ahead: how many were made from
 * it (may be NULL). */
tn_node *tn__random_state(tn_ctx *c, uint64_t *ahead);
/* Later random tensors refer to this storage, which holds {the present seed, calls}. */
void tn__random_set_state(tn_ctx *c, tn_node *state, uint64_t calls);

/* One random tensor each, as the public functions of these names. */
tn_node *tn__random_uniform(tn_ctx *c, int dtype, const tn__dims *shape, double lo, double hi);
tn_node *tn__random_normal(tn_ctx *c, int dtype, const tn__dims *shape, double mean, double std);
tn_node *tn__random_bernoulli(tn_ctx *c, const tn__dims *shape, double p);
#endif
