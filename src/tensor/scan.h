/* Running sums and what they are made of, for compositions. */
#ifndef TN_TENSOR_SCAN_H
#define TN_TENSOR_SCAN_H
#include "tensor/operands.h"

/* The axis becomes two: blocks of so many elements, and the elements of a block; zeros fill the last one. */
tn_node *tn__in_blocks(tn_ctx *c, tn_node *x, uint32_t axis, int64_t size);
tn_node *tn__first_of(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *n); /* the first n along the axis */
tn_node *tn__of_before(tn_ctx *c, tn_node *x); /* x[n, ...] with 0 first, without the last */
/* x, stored in this shape where lanes are those of vectors and there is little beside the axis that they could go
 * along: what goes through merged axes would be computed one by one. */
tn_node *tn__along(tn_ctx *c, tn_node *x, uint32_t axis);
/* op (SUM, PROD) over those that stand before each element along the axis, itself among them or not.  within_blocks:
 * element by element, for short axes. */
tn_node *tn__within_blocks(tn_ctx *c, tn__op op, tn_node *x, uint32_t axis, bool exclusive);
/* What n is the running product of, which has one element along an axis of its own; NULL: n is none, or a short one.
 * product_by_blocks: n made of `each` in its place, by blocks of few elements. */
tn_node *tn__row_of_product(tn_ctx *c, tn_node *n);
tn_node *tn__product_by_blocks(tn_ctx *c, tn_node *n, tn_node *each);
tn_node *tn__scan(tn_ctx *c, tn__op op, tn_node *x, uint32_t axis, bool exclusive);
/* Running sums of integers, to be stored: on processors a thread goes along a row, or long blocks of it.  They are for
 * those who ask at places, or for several: a sum over all of them alone would work each out anew. */
tn_node *tn__counts_along(tn_ctx *c, tn_node *x, uint32_t axis, bool exclusive);
#endif
