/* The oracle: evaluates a tensor graph node by node, each op by its definition over whole row-major arrays.  It shares
 * nothing with schedule and lower, only the scalar evaluator of ir/eval.h, so what it and a compiled graph agree on is
 * no common mistake.
 *
 * Every op rounds to its dtype; reductions run in row-major order of the reduced elements, each step rounding to the
 * op's dtype; contractions of f16 and bf16 multiply and add in f32 and round once; FOLD adds in row-major order of its
 * source. */
#ifndef TEST_SUPPORT_NAIVE_H
#define TEST_SUPPORT_NAIVE_H
#include "ir/ctx.h"

typedef struct naive_tensor {
  int dtype;
  uint32_t rank;
  int64_t dim[TN_MAX_RANK], n; /* sizes, their product */
  uint64_t *bits;              /* n elements in the form of ir/eval.h */
  /* what else the elements may be: NULL, or for each how far it reaches (doubles, by their bits) and a naive_state */
  uint64_t *plane[3];
} naive_tensor;
enum { NAIVE_LO, NAIVE_HI, NAIVE_STATE, NAIVE_PLANES };
/* The bits and nothing else; lo .. hi; so, or NaN.  (A plane that moves brings zeros where there was nothing.) */
typedef enum naive_state { NAIVE_SURE, NAIVE_WITHIN, NAIVE_OR_NAN } naive_state;

/* What a leaf holds.  STORAGE and PARAM: its elements in memory form.  VAR: an int64_t. */
typedef struct naive_bind {
  const tn_node *leaf;
  const void *data;
} naive_bind;

/* Told of each node but movements once its bits are there: may give it planes by naive_planes().  x: its sources. */
typedef struct naive_machine naive_machine;
typedef struct naive_watch {
  void (*look)(struct naive_watch *w, naive_machine *m, const tn_node *n, naive_tensor *const *x, naive_tensor *t);
} naive_watch;
void naive_planes(naive_tensor *t);
/* Evaluates `as` (a node like n, perhaps of another op) in f64 with these arrays for the elements of n's sources (NULL:
 * as they are), into t->n doubles. */
void naive_again(naive_machine *m, const tn_node *n, tn__op as, double *const *x, const naive_tensor *t, double *out);
/* Evaluates n itself with these bits for the elements of its sources (NULL: as they are), into t->n of them. */
void naive_with(naive_machine *m, const tn_node *n, uint64_t *const *x, const naive_tensor *t, uint64_t *out);
/* naive_eval with somebody who looks on. */
void naive_eval_watched(tn_node *const *root, uint32_t nroot, const naive_bind *bind, uint32_t nbind, naive_tensor *out,
                        naive_watch *watch);

/* Fills out[i] for root[i]; naive_free() each.  A leaf without binding, or a graph that breaks its own shapes, aborts
 * with a message. */
void naive_eval(tn_node *const *root, uint32_t nroot, const naive_bind *bind, uint32_t nbind, naive_tensor *out);
void naive_free(naive_tensor *t);
double naive_get(const naive_tensor *t, int64_t i); /* the value, exact but for large 64-bit integers */
#endif
