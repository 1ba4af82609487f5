/* Updates of a scatter in order of place.  Prefix tn__. */
#ifndef TN_SCHEDULE_ORDERED_H
#define TN_SCHEDULE_ORDERED_H
#include "device/target.h"
#include "ir/build.h"

typedef struct tn__ordered {
  tn_node *number, *order; /* [n] in order; which update each one is, */
  tn_node *along;          /* or, if that is NULL, what it is: these went along */
} tn__ordered;

/* number[n], each of which is above 0 and at most `most`, equal ones as they stand; along: NULL, or what is to come
 * with them, [n], if that is quicker than to say which each one is */
tn__ordered tn__in_order(tn_ctx *c, const tn__target *t, tn_node *number, int64_t most, tn_node *along);
/* Do single numbers of so many bits come with them? */
bool tn__order_takes_along(const tn__target *t, int64_t places, double n, int bits);
/* What that takes, in multiply-adds, of n updates of so many places */
double tn__order_work(const tn__target *t, int64_t places, double n);

/* What scatters are made of besides: x along axes that follow its own */
tn_node *tn__over(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank);
/* x, which many ask for, in memory: where it stands there, moved or converted, as it is */
tn_node *tn__in_memory(tn_ctx *c, tn_node *x);
int tn__narrow(int64_t most);              /* the dtype of numbers of at most so many */
double tn__move_work(const tn__target *t); /* to read or write an element of f32 */
#endif
