/* Adjoints of the linear tensor ops, and of products and extrema.  Prefix tn__adjoint. */
#ifndef TN_GRAD_ADJOINT_H
#define TN_GRAD_ADJOINT_H
#include "ir/build.h"

/* What flows from node n, where g arrives, to its source k (a float), in the source's shape and dtype.  NULL: nothing
 * does. Throws TN_EGRAD for an op through which no gradient may go or whose adjoint is not known. */
tn_node *tn__adjoint(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g);
tn_node *tn__zeros_like(tn_ctx *c, const tn_node *x);

/* ---- slices.c ---- */

typedef struct tn__slice { /* elements begin .. end - 1 along one axis of a tensor, all of the other axes */
  const tn_node *slice;    /* the SHRINK */
  tn_node *g;              /* the gradient that arrived there */
  uint32_t axis;
  int64_t begin, end;
} tn__slice;

/* Is n one?  Then *out is it, with g. */
bool tn__slice_of(const tn_node *n, tn_node *g, tn__slice *out);
/* The gradient of x from all these slices of it, which are put in order. */
tn_node *tn__gradient_of_slices(tn_ctx *c, tn_node *x, tn__slice *s, uint32_t n);
#endif
