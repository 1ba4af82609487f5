/* The normal form of index scalars: sizes and index arithmetic.  Private to ir/.  Prefix tn__index_.
 *
 *   sum      = term + term + ... + constant      terms sorted, no two over the same product, the constant last and not
 *            0
 *   term     = product | product * constant      the constant not 0 or 1
 *   product  = atom * atom * ...                 atoms sorted; an atom that is itself a sum has coprime coefficients
 *
 * both as chains that lean left.  So equal sizes are the same node however they were multiplied out: B*64*144,
 * 64*(B*144).  A constant is multiplied into a sum; a sum times something else stays a product.  The order of atoms is
 * structural (names, range numbers, content hashes), so it is the same in every context and survives printing and
 * parsing.
 *
 * Index arithmetic is over unbounded integers, of which a machine's are the last 64 bits; what may have wrapped
 * (tn__may_wrap) is not divided.  Where a constant would leave 64 bits it throws TN_ESHAPE. */
#ifndef TN_IR_INDEX_H
#define TN_IR_INDEX_H
#include "ir/ctx.h"

/* x op y in normal form; NULL where there is nothing to do (op is not one of add, mul, idiv, mod, min, max, or no
 * identity applies). */
tn_node *tn__index_op2(tn_ctx *c, tn__op op, tn_node *x, tn_node *y);
#endif
