/* Adjoints of movement ops and sums as theorems for Coq, in the names of proofs/coq/Adjoint.v.  Prefix tn__adjoint_.
 *
 * For each op and rank a small graph with symbolic sizes is made, and the engine's own adjoint of it.  Both are followed to their leaf by the
 * index arithmetic with which kernels read (schedule/index.c): where each element is read, under which condition, summed over what.  That is what is
 * printed.  Strides, dilations and window sizes are integers in the graph: they are made large and unlike, and printed as variables where
 * they show; a second graph with others must print the same text. */
#ifndef TN_PROVE_ADJOINT_COQ_H
#define TN_PROVE_ADJOINT_COQ_H
#include "base/sb.h"
#include "ir/ctx.h"

typedef struct tn__pairing {
  const char *op, *part, *name, *statement; /* statement NULL: the name is of a theorem in Adjoint.v, for any rank */
} tn__pairing;

/* Ranks 1 to `ranks`. In `a`. */
uint32_t tn__adjoint_pairings(tn_ctx *c, tn__arena *a, uint32_t ranks, tn__pairing **out);
#endif
