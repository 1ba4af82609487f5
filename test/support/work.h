/* How much kernels compute, counted and not timed: what a graph asks for if each node is computed once, element by
 * element, and what its compiled kernels do.  A reduction that is repeated for each of its readings shows as a power of
 * the size; what fusion repeats on purpose is a small factor. */
#ifndef TEST_SUPPORT_WORK_H
#define TEST_SUPPORT_WORK_H
#include "lower/lower.h"

/* Elements of all nodes, of reductions and products those that go into them. */
double work_of_graph(tn_ctx *c, tn_node *sink);
/* Loads, stores and operations on values */
double work_of_kernel(const tn__kernel *k);
/* Where it is a sum of products: how many are added up, and how many elements are fetched from the caches for that; by
 * tiles once for each tile. */
typedef struct work_products {
  double products, fetched;
} work_products;
work_products work_of_products(const tn__kernel *k);
/* ... of the kernels that device d compiles from now on, which work_taken() gives and forgets; one device at a time,
 * the context closed before the next.  Library calls are not counted. */
void work_watch(tn__device *d);
double work_taken(void);
/* No more than fusion repeats on purpose: the same for a few readers, or a chain of cheap functions again in another
 * loop rather than stored; small graphs are all bounds, gates and conversions. */
bool work_is_fair(double done, double asked);
#endif
