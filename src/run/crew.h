/* Launches of several kernels: which items of a schedule go together, and what is run of them.  Prefix tn__crew_. */
#ifndef TN_RUN_CREW_H
#define TN_RUN_CREW_H
#include "lower/lower.h"

typedef struct tn__lowered { /* a schedule's items, in order, with their kernels */
  const tn__target *target;
  const tn__item *item;
  const int *kernel_of; /* by item: index of its kernel; -1: a library's call */
  uint32_t n, nbuf;     /* items; buffers of the schedule */
  tn__kernel *const *kernel;
  uint32_t nkernel;
} tn__lowered;

typedef struct tn__crew { /* items that are one, in the place of the first; n is 1 for most */
  uint32_t item[TN__MAX_PARTS], n;
  int threads; /* of the block that goes through them one after the other; 0: they are abreast */
} tn__crew;
typedef tn__vec(tn__crew) tn__crews;

/* In scratch.  Each item is in one.  In their order every crew finds written what it reads.
 * stages.c: dependent items that are stages of one block; abreast.c: independent ones */
tn__crews tn__crew_stages(tn_ctx *c, const tn__lowered *l);
tn__crews tn__crew_abreast(tn_ctx *c, const tn__lowered *l);
/* How items become crews, in order: each way of what those before it left. */
extern tn__crews (*const tn__crew_ways[])(tn_ctx *c, const tn__lowered *l);
enum { TN__CREW_WAYS = 2 };

/* crew.c: what several are: an item over all their buffers, in `keep`, which has no body; and its kernel, in scratch */
tn__item tn__crew_item(tn__arena *keep, const tn__lowered *l, const tn__crew *w);
tn__kernel *tn__crew_kernel(tn_ctx *c, const tn__lowered *l, const tn__crew *w, uint32_t index);
/* ... the kernels of its items; and do two crews make the same kernel? */
void tn__crew_kernels(const tn__lowered *l, const tn__crew *w, tn__kernel **out);
bool tn__crew_same(tn_ctx *c, const tn__lowered *l, const tn__crew *x, const tn__crew *y);

/* launches.c: the same, where launches of one kernel that wait for different things are items of their own, side by
 * side, and their kernels behind all others; items in `keep`, all else in scratch */
tn__lowered tn__part_launches(tn_ctx *c, tn__arena *keep, const tn__lowered *l);
#endif
