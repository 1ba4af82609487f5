/* What a graph needs of its symbolic sizes beyond their bounds.  Prefix tn__constraint.
 *
 * A shape rule rejects what can never be and lets pass what may be: a size that is negative for some values of its
 * variables, a slice that ends within its axis for some only, a window that fits for some only, two sizes that are
 * equal for some only (a reshape between them says where: tn__axis_as).  What was let pass follows from the graph
 * alone; here it is collected, to be checked by whoever binds the variables. */
#ifndef TN_IR_CONSTRAINT_H
#define TN_IR_CONSTRAINT_H
#include "ir/ctx.h"
#include "ir/eval.h"

typedef struct tn__constraint {
  tn_node *left, *right; /* index expressions: left <= right, */
  bool equal;            /* or left = right */
  tn_node *of;           /* the node that needs it */
  tn_node *user;         /* where that is a reshape between sizes: what computes with it; NULL: nothing */
} tn__constraint;

typedef tn__vec(tn__constraint) tn__constraint_list;

/* In the order of the graph; the list is allocated in `a`.  left and right may be new nodes. */
void tn__constraints_find(tn_ctx *c, tn__arena *a, tn_node *root, tn__constraint_list *out);
/* Throws TN_EBOUND, naming op, sizes and values, for the first that does not hold. */
void tn__constraints_check(tn_ctx *c, const tn__constraint_list *list, const tn__env *env);
#endif
