/* Where a graph of movement ops and sums reads its leaf, by the index arithmetic with which kernels read
 * (schedule/index.c).  Prefix tn__adjoint_. */
#ifndef TN_PROVE_ADJOINT_READ_H
#define TN_PROVE_ADJOINT_READ_H
#include "ir/build.h"

enum { TN__OF_SUM = 1000 }; /* RANGEs numbered from here on are summed over; those below are axes of the result */

typedef struct tn__reading {
  tn_node *dim[TN_MAX_RANK], *range[TN_MAX_RANK]; /* of the result */
  uint32_t rank;
  tn_node *place[TN_MAX_RANK + 1], *gate; /* in the leaf; gate NULL: everywhere */
  uint32_t places;
  tn_node *sum[TN_MAX_RANK], *extent[TN_MAX_RANK]; /* ranges summed over */
  uint32_t sums;
} tn__reading;

/* An op and its adjoint: one of them sums, or neither. */
typedef struct tn__readings {
  tn__reading one, many; /* the one that does not; the other */
  bool adjoint_is_one;
} tn__readings;

/* The node that is no movement (or a FOLD, which sums) where element `place` of n is read, under `gate`; both are in
 * and out. */
tn_node *tn__adjoint_follow(tn_ctx *c, tn_node *n, tn_node **place, tn_node **gate);
tn__reading tn__adjoint_read(tn_ctx *c, tn_node *root, const tn_node *leaf);
/* Of `out` over its leaf x, and of what the engine builds as the adjoint of the op between them (of nothing, if out is
 * x). */
tn__readings tn__adjoint_readings(tn_ctx *c, tn_node *out, const tn_node *x);
#endif
