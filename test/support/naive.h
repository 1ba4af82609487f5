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
} naive_tensor;

/* What a leaf holds.  STORAGE and PARAM: its elements in memory form.  VAR: an int64_t. */
typedef struct naive_bind {
  const tn_node *leaf;
  const void *data;
} naive_bind;

/* Fills out[i] for root[i]; naive_free() each.  A leaf without binding, or a graph that breaks its own shapes, aborts
 * with a message. */
void naive_eval(tn_node *const *root, uint32_t nroot, const naive_bind *bind, uint32_t nbind, naive_tensor *out);
void naive_free(naive_tensor *t);
double naive_get(const naive_tensor *t, int64_t i); /* the value, exact but for large 64-bit integers */
#endif
