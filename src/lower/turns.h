/* How many groups a part wants, worked out by the host at each launch: the extent of its AX_GLOBAL range, which may depend on sizes.
 * Prefix tn__turns_. */
#ifndef TN_LOWER_TURNS_H
#define TN_LOWER_TURNS_H
#include "lower/kernel.h"

typedef struct tn__turns {
  const struct tn__turns_step *step; /* the last one is the extent */
  uint64_t *value;                   /* of each step */
  uint32_t n;                        /* 0: one turn */
} tn__turns;

/* In `keep`; throws. */
tn__turns tn__turns_make(tn_ctx *c, tn__arena *keep, const tn__kernel *k, const tn__part *part);
/* For these values of the kernel's variables; allocates nothing. */
int64_t tn__turns_of(const tn__turns *t, const int64_t *var);
#endif
