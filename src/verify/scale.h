/* A smaller twin of a program that is too large to be compared.  Prefix tn__scale_. */
#ifndef TN_VERIFY_SCALE_H
#define TN_VERIFY_SCALE_H
#include "ir/build.h"
#include "ir/eval.h"

/* The same graph with smaller sizes beside those in `env`, small enough; what became of which size goes to `note`.
 * Sizes that belong together (axes.h) shrink together, the longest first, and only as far as need be.  A size keeps its
 * remainder modulo 64, else 16, else 4, else 2, and is more than that: what is cut into blocks has whole ones, and the
 * same rest.  NULL: none is small enough. */
tn_node *tn__scale_down(tn_ctx *c, tn_node *graph, const tn__env *env, tn__sb *note);
#endif
