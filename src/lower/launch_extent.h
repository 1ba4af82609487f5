/* How many groups a part wants, worked out by the host at each launch: the extent of its AX_GLOBAL range, which may
 * depend on sizes. Prefix tn__launch_extent_. */
#ifndef TN_LOWER_LAUNCH_EXTENT_H
#define TN_LOWER_LAUNCH_EXTENT_H
#include "lower/kernel.h"

typedef struct tn__launch_extent {
  const struct tn__launch_extent_step *step; /* the last one is the extent */
  uint64_t *value;                   /* of each step */
  uint32_t n;                        /* 0: one turn */
} tn__launch_extent;

/* In `keep`; throws. */
tn__launch_extent tn__launch_extent_make(tn_ctx *c, tn__arena *keep, const tn__kernel *k, const tn__part *part);
/* The blocks that are started for a part whose number of groups is a constant; 0: it is none. */
int64_t tn__fixed_blocks(const tn__part *part);
/* For these values of the kernel's variables; allocates nothing. */
int64_t tn__launch_extent_of(const tn__launch_extent *t, const int64_t *var);
#endif
