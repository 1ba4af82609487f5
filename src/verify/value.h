/* The values of translation validation: what a program computes, when its floats are real numbers that nobody knows.
 * Prefix tn__val_, tn__world.
 *
 * A world gives every input element a value and every function a meaning.  Integers, bools and float constants are what
 * they are: bits, and tn__eval computes with them.  Any other float is an unknown, and stands in a finite field (2^64 -
 * 2^32 + 1) at a point that was drawn for it: sums, products, quotients and negations are those of the field, so that
 * two expressions which are equal as polynomials (or fractions) have one value, and two of degree d which are not
 * differ but for d chances in 2^63.  A fingerprint of the normal form, in one word, whatever its length.  What else is
 * claimed to hold over the reals is built into the meaning of the functions:
 *
 *   order       min, max, abs, sign, comparisons: one total order, reversed by negation, in which constants have their
 *               own places; so max and min are commutative, associative, idempotent, absorbing; and each comparison
 *               goes the way that a coin of the world fell
 *   inverse     log(exp(x)) = x; x / y * y = x; bits that a float was cast to are cast back to it
 *   rounding    floor, ceil, round, trunc are idempotent; between float types a cast changes nothing
 *   limits      an unknown is finite, and not zero: x + inf = inf, x / inf = 0, x * 0 = 0
 *
 * All other functions are only functions: equal arguments, equal results.  Constants round as tn__eval rounds, except
 * in sums: those are exact. `rounded` tells that a sum would have rounded, or a value of bf16 that kernels keep in f32
 * did, or that the graph divides by 0 in mode fast: another constant would be right, too; or that unknowns moved as
 * bits are more than their dtype has patterns for.
 *
 * In odd worlds inputs come from a pool of few values, with 0 and 1 among them, so that comparisons for equality and
 * the ends of ranges are met; integers are sizes and their neighbours, too, so that indices are the first ones outside.
 * `plain`: without floats that are 0 or 1, for programs that divide by 0 there, which leaves nothing to compare.
 *
 * A numeric world is for programs whose constants were rounded on one side only, so that the field tells them apart:
 * there all floats are doubles, whatever their dtype, nothing rounds to less, and each value knows how far it may be
 * off for such a rounding (rounding.h).
 *
 * An exact world is for mode strict: there floats are bits of their dtype, tn__eval computes with them, and sums are
 * taken in the order in which they are collected. Another order of a sum and another rounding are other bits.
 */
#ifndef TN_VERIFY_VALUE_H
#define TN_VERIFY_VALUE_H
#include "ir/ctx.h"
#include "verify/term.h"

typedef enum tn__val_kind {
  TN__VAL_NONE, /* memory that nobody wrote, and what is computed from it */
  TN__VAL_BITS, /* v: a scalar as tn__eval wants it */
  TN__VAL_REAL  /* v: an element of the field */
} tn__val_kind;

typedef struct tn__val {
  uint64_t v;
  union {
    uint32_t term;     /* where the world records terms */
    float off;         /* in a numeric world: how far it may be off (rounding.h) */
  };
  uint8_t kind, dtype; /* dtype: in memory only */
  bool constant;       /* in a numeric world: made of constants alone, or a rule may have found that it is one */
} tn__val;

typedef struct tn__world {
  tn_ctx *c;
  uint64_t seed;
  bool numeric, exact, plain, rounded;
  bool unkept;         /* places that the graph says differ did not, as inputs were drawn */
  tn__terms *terms;    /* NULL: not recorded */
  const int64_t *size; /* the program's sizes, which integers meet in odd worlds, and their neighbours */
  uint32_t nsize;
  tn__map places;      /* inputs that are said to differ from each other: slot -> how many they are, which they count */
  tn__map log_of;      /* exp(x) -> x */
  tn__map whole;       /* floor(x), ... -> a set of the functions that leave it */
  tn__map float_of;    /* bits that a float was cast to -> it */
} tn__world;

void tn__world_open(tn_ctx *c, uint32_t number, tn__terms *terms, tn__world *out);
double tn__val_number(tn__val x); /* of a float in a numeric world */

tn__val tn__val_bits(tn__world *w, int dtype, uint64_t bits);
tn__val tn__val_input(tn__world *w, int dtype, int64_t slot, int64_t element);
/* dtype, sdtype: as for tn__eval. */
tn__val tn__val_eval(tn__world *w, int op, int dtype, int sdtype, const tn__val *arg);
/* x op y in a sum, product, least or greatest over many, whose order is free; and x * y as a term of one. */
tn__val tn__val_collect(tn__world *w, int op, int dtype, tn__val x, tn__val y);
/* `to` with a value added, or combined otherwise, both of any dtypes for which that may be (tn__is_addable).  Whole
 * numbers that are sums of unknowns are elements of the field, as floats are, and are cast to them: what comes of the
 * sum is as far as the field tells, how it is rounded is not.  Such a number is nothing else: only sums of it, and
 * casts to floats, mean anything.
 * */
tn__val tn__val_combined(tn__world *w, int by, int dtype, int vdtype, tn__val to, tn__val x);
uint32_t tn__val_term(tn__world *w, int dtype, tn__val x); /* as recorded */
/* Equal, as far as this world can tell?  Never for TN__VAL_NONE. */
bool tn__val_same(int dtype, tn__val x, tn__val y);
#endif
