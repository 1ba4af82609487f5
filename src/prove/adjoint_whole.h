/* Ops whose adjoints are theorems about any rank (proofs/coq/Adjoint.v): that the engine builds what the theorems are
 * about, for every rank, choice of axes and grouping of axes that there is up to a rank.  Prefix tn__adjoint_. */
#ifndef TN_PROVE_ADJOINT_WHOLE_H
#define TN_PROVE_ADJOINT_WHOLE_H
#include "ir/build.h"

typedef struct tn__whole_op {
  const char *op, *part, *over; /* what is claimed; what is tried */
  /* how many there were; throws for the first that is another graph, naming it */
  uint32_t (*check)(tn_ctx *c, const char *op);
} tn__whole_op;
extern const tn__whole_op tn__whole_ops[];
extern const uint32_t tn__whole_nops;

/* adjoint_tree.c: products over an axis of constant size, whose gradient is a tree of pairs. */
uint32_t tn__tree_check(tn_ctx *c, const char *op);
#endif
