/* What a graph's results may be.  In mode strict the bits that naive.h gives, and nothing else.  In mode default a sum
 * may run in any order with fused products (docs/environment.md), but not what a scatter adds; values of bf16 may stay
 * f32 between functions, and are summed in it (lower/widen.c); devices may compute functions of f64 by a library of
 * their own, and what follows a product of bf16 or f16 by one that rounds once, at the end.  So each element has a
 * range, worked out along with its bits: where every order gives the same (small integers, say) and nothing else is
 * loose it is the bits still; of a function it is what the function makes of its operands' ranges; what jumps inside of
 * a range, or reads a place that is not sure, may be anything. */
#ifndef TEST_SUPPORT_BOUNDS_H
#define TEST_SUPPORT_BOUNDS_H
#include "support/naive.h"

/* As naive_eval, with planes where elements are not sure.  slack: what a vendor's functions of f64, wherever they
 * stand, may come to: a share of the value, or of 1. */
void bounds_eval(tn_ctx *c, tn_node *const *root, uint32_t nroot, const naive_bind *bind, uint32_t nbind, double slack,
                 naive_tensor *out);
/* May element i be `got`, as stored in memory? */
bool bounds_allow(const tn_node *n, const naive_tensor *want, int64_t i, uint64_t got);
/* Where values of the function n, of operands of `dtype`, may lie, while operand k lies in lo[k]..hi[k]: to[0]..to[1].
 */
void bounds_follow(const tn_node *n, int dtype, const double *lo, const double *hi, double *to);
/* How much was asked of elements: the bits, a range, nothing. */
typedef struct bounds_tally {
  uint64_t sure, within, any;
} bounds_tally;
void bounds_count(const naive_tensor *t, bounds_tally *tally);
#endif
