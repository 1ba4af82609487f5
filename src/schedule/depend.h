/* Which kernel reads what which other one writes, once that is decided.  Prefix tn__depends_.
 *
 * Kernels stand in an order in which each comes behind all that it reads from: a search for a dependence looks only at
 * those between the two, and two that become one move only what stands between them.  So kernels that read the same
 * are compared in a time that does not grow with the schedule. */
#ifndef TN_SCHEDULE_DEPEND_H
#define TN_SCHEDULE_DEPEND_H
#include "schedule/fuse.h"

typedef struct tn__depends {
  tn__vec(tn__numbers) loads; /* by kernel: positions of the nodes that it reads from memory */
  tn__vec(int) order;         /* kernels; -1: it has joined another */
  tn__numbers place;          /* by kernel: where it stands in `order` */
  tn__numbers mark;           /* by kernel: the last tn__depends_mark that found it */
  uint32_t marks;
} tn__depends;

void tn__depends_find(tn__fuse *f, tn__depends *d);
/* Does kernel `of` need, directly or not, something that kernel `on` writes?  What it reads itself of kernel `but` does
 * not count.  A search that takes too long says yes: kernels then stay apart. */
bool tn__depends_on(tn__fuse *f, const tn__depends *d, int of, int on, int but);
/* For kernel k and many others, all from place `from` to place `to`, k's own among them: afterwards tn__depends_marked
 * says whether k needs kernel j or j needs k; also yes if they stand too far from each other to look. */
void tn__depends_mark(tn__fuse *f, tn__depends *d, int k, uint32_t from, uint32_t to);
bool tn__depends_marked(const tn__depends *d, int k, int j);
/* Kernels a and b become `now`: it is a, or new.  They do not need each other, but that b may read what a stores, which
 * is then among what `now` loads.  To be called while each still has what
 * it writes. */
void tn__depends_join(tn__fuse *f, tn__depends *d, int a, int b, int now);
#endif
