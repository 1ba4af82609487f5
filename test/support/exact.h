/* What ops are of numbers, as column VALUE of ir/ops.def says it: in long double, which evaluator and kernels know
 * nothing of. */
#ifndef TEST_SUPPORT_EXACT_H
#define TEST_SUPPORT_EXACT_H
#include "ir/node.h"
#include "tenet/tensor.h"

/* Does the column say it?  Where an op has tests of its own, or takes no floats, it does not. */
bool exact_knows(int op);
/* Of a comparison: 0 or 1. */
long double exact_value(int op, long double x, long double y, long double z);

/* The op that y is, being one op of x[0..n-1] in this order; else -1. */
int exact_op_of(const tn_tensor *y, tn_tensor *const *x, uint32_t n);

/* Ops of n operands that take floats and give floats, and are known. */
bool exact_is_function(int op, uint32_t n);
#endif
