/* Where extremes are, for other compositions: tensor/argmax.c */
#ifndef TN_TENSOR_ARGMAX_H
#define TN_TENSOR_ARGMAX_H
#include "tensor/operands.h"

/* x[A, n, B] -> i64[A, 1, B]: the first place along n where the extreme stands, of op RMAX or RMIN.  NaN is one. */
tn_node *tn__place_along(tn_ctx *c, tn__op op, tn_node *x);
#endif
