/* How far a number of a numeric world (value.h) may be from the one that another right program computes, since it folds
 * constants which the graph rounds one by one, or takes sums in another order.  Prefix tn__rounding_.
 *
 * A constant may be off by a rounding of its dtype, and so may whatever is made of constants alone; other steps round
 * as doubles do.  From there on each step is worked out at the ends of its operands' ranges, too: how far the result
 * moves is how far it may be off.  What is no float is off by nothing, or by INFINITY: it may be anything, as may a
 * float that a comparison too close to call has chosen. */
#ifndef TN_VERIFY_ROUNDING_H
#define TN_VERIFY_ROUNDING_H
#include "verify/value.h"

float tn__rounding_of_constant(int dtype, double d);
/* What is brought to the dtype, or to a multiple of its least number */
float tn__rounding_to(int dtype, double d);
/* Of y = op(x); operands and y are as in a numeric world. */
float tn__rounding_of(int op, int dtype, int sdtype, const tn__val *x, uint32_t n, tn__val y);
#endif
