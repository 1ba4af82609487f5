/* What is chosen of a line, brought to its front, for compositions. */
#ifndef TN_TENSOR_PARTITION_H
#define TN_TENSOR_PARTITION_H
#include "tensor/operands.h"

/* The elements of a line in whole blocks: those that are chosen, then the others. */
typedef struct tn__partition {
  tn_node *is;     /* bool[m]: is it one that was chosen? */
  tn_node *number; /* i32 or i64[m]: where it stood, of those that were */
  tn_node *count;  /* i32 or i64, of rank 0: how many were */
  tn_node *place;  /* [m]: where it goes, a permutation: chosen ones, as they stood, before all others */
} tn__partition;

/* Of chosen, bool[n]; those that fill up the last block are not.  False: on this device, or of a line of this length,
 * that is not how it is done. */
bool tn__partition_line(tn_ctx *c, tn_node *chosen, tn__partition *out);
/* x[m], one for each, at its place, of the first `most` of them, most <= n */
tn_node *tn__partitioned(tn_ctx *c, const tn__partition *p, tn_node *x, tn_node *most);
#endif
