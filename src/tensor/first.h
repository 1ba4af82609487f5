/* The first few of rows, for compositions. */
#ifndef TN_TENSOR_FIRST_H
#define TN_TENSOR_FIRST_H
#include "tensor/sort.h"

/* keys[R, n], of sizes that are known, some of n, n > 0 -> i64[R, some]: which of its row come first, in order, the
 * rest of it not sorted: equal ones keep their order.  NULL: that takes more than so much work, in multiply-adds of the
 * whole device. */
tn_node *tn__first_places(tn_ctx *c, const tn__keys *k, int64_t some, double most_work);
#endif
