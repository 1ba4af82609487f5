/* Which elements are chosen, for compositions that give the chosen ones: tensor/select.c, and run/select.c, which
 * computes this much, reads how many there are, and makes the rest of it. */
#ifndef TN_TENSOR_SELECT_H
#define TN_TENSOR_SELECT_H
#include "tensor/operands.h"

typedef struct tn__chosen {
  tn_node *order;  /* [n], a permutation: which element stands at each place; NULL: they stand as they are, or */
  tn_node *sorted; /* [n]: as this says; of floats both say so, but only the order has their gradient */
  tn_node *is;     /* bool[n]: is it chosen?  NULL: as upto tells */
  bool front;      /* what is chosen is asked for, and how many are, but not which one each is: it comes to the front */
  tn_node *upto;   /* i32 or i64[n]: how many of those up to each place are chosen, itself among them */
} tn__chosen;

/* Of all elements, sorted, the first of each run of equal ones.  NaN equals NaN, and -0 equals 0.  ordered: it is asked
 * which element stands where. */
tn__chosen tn__choose_distinct(tn_ctx *c, tn_node *x, bool ordered);
tn__chosen tn__choose_nonzero(tn_ctx *c, tn_node *x);
tn_node *tn__chosen_count(tn_ctx *c, const tn__chosen *k); /* i64, of rank 0 */

/* Of the first `most`, in what x has been chosen from; what is beyond the chosen is `fill`, or counts 0. */
tn_node *tn__distinct_values(tn_ctx *c, const tn__chosen *k, tn_node *x, tn_node *most, double fill);
tn_node *tn__distinct_counts(tn_ctx *c, const tn__chosen *k, tn_node *most);    /* i64: how often each stands in x */
tn_node *tn__distinct_inverse(tn_ctx *c, const tn__chosen *k, tn_node *x);      /* i64, x's shape: which it is */
tn_node *tn__nonzero_places(tn_ctx *c, const tn__chosen *k, tn_node *x, tn_node *most, int64_t fill); /* [most, rank] */
#endif
