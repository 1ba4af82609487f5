/* Adjoints of the linear tensor ops, and of products and extrema.  Prefix tn__adjoint. */
#ifndef TN_GRAD_ADJOINT_H
#define TN_GRAD_ADJOINT_H
#include "ir/build.h"

/* What flows from node n, where g arrives, to its source k (a float), in the source's shape and dtype.  NULL: nothing
 * does. Throws TN_EGRAD for an op through which no gradient may go or whose adjoint is not known. */
tn_node *tn__adjoint(tn_ctx *c, tn_node *n, uint32_t k, tn_node *g);
tn_node *tn__zeros_like(tn_ctx *c, const tn_node *x);
#endif
