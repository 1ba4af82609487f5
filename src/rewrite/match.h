/* One row against one node, and the node that the row puts there.  Prefix tn__match_. */
#ifndef TN_REWRITE_MATCH_H
#define TN_REWRITE_MATCH_H
#include "rewrite/table.h"

typedef struct tn__match {
  tn_ctx *c;
  const tn__rule *rule;
  tn_node *root;
  tn_node *bound[TN__MAX_SLOTS]; /* an argument variable is bound to the node whose argument it is */
} tn__match;

/* True if the row's pattern matches `root` and its conditions hold; the variables are bound then. */
bool tn__match_root(tn__match *m);
/* The right side; NULL if a computation overflows, or an operand may where the row says (fits), so that the row does
 * not apply. */
tn_node *tn__instantiate(tn__match *m);

/* The integer that a #function, number or constant variable stands for; false: it is none, or it overflows. */
bool tn__match_int(const tn__match *m, const tn__term *t, int64_t *v);
/* The scalar constant that n is, seen through reshape and expand; else NULL. */
tn_node *tn__splat(tn_node *n);
/* An op over sources of fitting dtypes, by the constructors, so that index arithmetic keeps its normal form. */
tn_node *tn__build_op(tn_ctx *c, int op, tn_node *const *kid, int dtype);

/* argfn.c: arguments of movements and reductions: the sources after the first, and the integers. */
typedef struct tn__argval {
  tn_node **tail;
  uint32_t ntail;
  const int64_t *ints;
  uint32_t nint;
} tn__argval;
tn__argval tn__argval_of(const tn_node *n);
tn__argval tn__argfn_apply(tn_ctx *c, tn__argfn fn, const tn__argval *a, const tn__argval *b);
/* The predicates IDENTITY, ZEROS, EMPTY, UNDOES; x only for UNDOES. */
bool tn__argpred(tn__cond_kind kind, const tn__argval *a, const tn__argval *b, const tn_node *x);
#endif
