/* Rules are data.  A table (rules/NAME.rules) is text, built into the library; a row has a name, a left side, a right
 * side, conditions and the mode in which it holds.  No row names a C function: conditions and right-side functions come
 * from a closed list.  The table language is described in rules/README.md.  Prefix tn__rewrite_, tn__rules_. */
#ifndef TN_REWRITE_REWRITE_H
#define TN_REWRITE_REWRITE_H
#include "ir/ctx.h"

typedef struct tn__ruleset tn__ruleset;

/* Parsed on first use and kept by the context.  Names: "index" (integer and size arithmetic), "simplify" (exact on all
 * dtypes that the row allows), "float" (rows with a mode: fast only), "gradient".  Throws TN_EFORMAT (a bug in a
 * built-in table). */
tn__ruleset *tn__rules_get(tn_ctx *c, const char *name);
/* for tests and tools; lives as long as the context */
tn__ruleset *tn__rules_parse(tn_ctx *c, const char *name, const char *text);

/* Rewrites root bottom-up to a fixpoint with all rows of the sets that hold in the context's mode, folding constants
 * through eval; a parent is tried again when a child changed.  dtype and shape of every rewritten node stay the same
 * (checked). A step limit throws, naming the rules that cycle.  Memoised per call; iterative.  What says which buffer,
 * loop or shape a node is (dims, pad and shrink bounds, extents of ranges, sizes of buffers) is not entered: simplify
 * those when you make them. */
tn_node *tn__rewrite(tn_ctx *c, tn_node *root, tn__ruleset *const *sets, uint32_t nsets);
/* Index expressions: the "index" set. */
tn_node *tn__simplify_index(tn_ctx *c, tn_node *n);
/* Several at once, in place: what they have in common is gone through once.  None is a range, or has no sources. */
void tn__simplify_indices(tn_ctx *c, tn_node **x, uint32_t n);
/* No rows: what is computed of constants alone becomes one.  No compiler sees such a thing of a graph's kernels, nor
 * decides what it is: PoCL 3.1 makes anything of floor, ceil and trunc of a NaN that it knows beforehand. */
tn_node *tn__fold_constants(tn_ctx *c, tn_node *n);
/* The tensor graph before scheduling: "index" and "simplify", and "float" in mode fast. */
tn_node *tn__simplify_graph(tn_ctx *c, tn_node *root);

/* Replaces nodes: old[i] by new[i] wherever they stand below root. Sources are rebuilt bottom-up, each node once. */
tn_node *tn__substitute(tn_ctx *c, tn_node *root, tn_node *const *old, tn_node *const *new_, uint32_t n);

/* Frees the tables, at the context's end. */
void tn__rules_close(tn_ctx *c);

/* Hits per rule since the context opened. */
uint32_t tn__rules_count(const tn__ruleset *s);
const char *tn__rules_name(const tn__ruleset *s, uint32_t i);
uint64_t tn__rules_hits(const tn__ruleset *s, uint32_t i);
/* Gradient rows: instantiates the right side of `op`'s row for source k with x, y, z = the node's sources, out = the
 * node itself and g = the gradient that arrives; NULL if the row says zero; throws TN_EGRAD naming the op if it is
 * forbidden or has no row. */
tn_node *tn__rules_gradient(tn_ctx *c, tn_node *node, uint32_t k, tn_node *g);
bool tn__rules_no_gradient(tn_ctx *c, tn__op op, uint32_t k); /* does its row say zero? */
#endif
