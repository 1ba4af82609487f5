/* Sorting and searching, for compositions. */
#ifndef TN_TENSOR_SORT_H
#define TN_TENSOR_SORT_H
#include "device/target.h"
#include "tensor/operands.h"

/* x[R, n] -> i64[R * n]: which element of all rows stands at each place of the sorted ones, as a permutation.  Equal
 * ones keep their order.  Of integers whose interval says that few bits are ever set, few digits are looked at. */
tn_node *tn__sorted_order(tn_ctx *c, tn_node *x, bool down);
/* ... and *sorted, unless it is NULL: [R * n] what stands there, as unsigned integers that are in the order of x's
 * elements, and equal where those are: NaN and NaN, -0 and 0, too */
tn_node *tn__sorted(tn_ctx *c, tn_node *x, bool down, tn_node **sorted);
/* What sorting takes, of keys of so many bits: in multiply-adds of the whole device */
double tn__sort_work(const tn__target *t, double rows, double n, int bits);
/* How many of sorted[n] come before each value, those that equal it among them (right) or not: i64 of values' shape. */
tn_node *tn__places_in(tn_ctx *c, tn_node *sorted, tn_node *values, bool right);
#endif
