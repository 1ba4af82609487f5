/* Reverse mode, graph to graph.  Prefix tn__grad_. */
#ifndef TN_GRAD_GRAD_PASS_H
#define TN_GRAD_GRAD_PASS_H
#include "rewrite/rewrite.h"

/* g[i] = sum over the elements of y of dy * d y / d x[i], as a graph of x[i]'s shape and dtype.  dy has y's shape.  An
 * x[i] that y does not depend on is an error (TN_EGRAD).  x[i] may be any node of the graph.  Where one x is made from
 * another, the other's gradient counts that way too; only an assignment is a leaf when it is itself an x, and an error
 * (TN_EGRAD) anywhere else on a path. A gradient that detached, integer or piecewise constant nodes keep from an x is
 * zero; a bitcast of what carries one is an error (TN_EGRAD). */
void tn__vjp(tn_ctx *c, tn_node *y, tn_node *dy, tn_node *const *x, uint32_t n, tn_node **g);
/* Forward mode: sum over i of d y / d x[i] * v[i], of y's shape and dtype.  Errors as above. */
tn_node *tn__jvp(tn_ctx *c, tn_node *y, tn_node *const *x, tn_node *const *v, uint32_t n);
/* The STORAGEs and PARAMs that a gradient of each root would reach, each once; in c->scratch. */
void tn__grad_leaves(tn_ctx *c, tn_node *const *root, uint32_t n, tn__nodes *leaf);
#endif
