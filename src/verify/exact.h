/* Values as a kernel computes them, every step counted: for comparing two forms of one kernel, which must take the same
 * steps.  Prefix tn__exact_.
 *
 * Integers and bools are what they are, bits, and so are float constants.  Any other float is known only by how it came
 * about: a token, a hash of the function and of its arguments, so that equal tokens mean the same operations on the
 * same values, rounding included; only the order of two summands or factors is not told.  Values of f16 and bf16 are
 * f32 values that have been rounded, as in printed kernels: a token's last bits say so, and rounding it again leaves
 * it.
 *
 * What a token decides (a comparison, a cast to an integer, its bits) is drawn from it. */
#ifndef TN_VERIFY_EXACT_H
#define TN_VERIFY_EXACT_H
#include "ir/node.h"

typedef enum tn__exact_kind {
  TN__EXACT_NONE,  /* memory that nobody wrote, and what is computed from it */
  TN__EXACT_INT,   /* v: a scalar as tn__eval wants it; of: the token whose bits it is, else 0 */
  TN__EXACT_CONST, /* v: bits of an f32 or f64 */
  TN__EXACT_FLOAT, /* v: a token */
  TN__EXACT_PLACE  /* v: byte offset in the object number `of` */
} tn__exact_kind;

typedef struct tn__exact {
  uint64_t v, of;
  uint8_t kind;
  bool near; /* right to 2^-16 only: it may come to nothing but f16 and bf16 */
  uint8_t by; /* the op that it comes of at once */
} tn__exact;

tn__exact tn__exact_int(uint64_t v);
/* A float constant of the dtype by its bits; f16 and bf16 become f32. */
tn__exact tn__exact_const(int dtype, uint64_t bits);
/* What stands in memory that a kernel is given.  of: integers that it may hold, with their neighbours.  By even seeds
 * some slots hold nothing but the least integer, or the greatest: what reductions begin with is told apart then. */
tn__exact tn__exact_input(uint64_t seed, int dtype, uint64_t slot, int64_t element, const int64_t *of, uint32_t n);

/* The value of an op of the kernel language; dtypes as for tn__eval. */
tn__exact tn__exact_eval(int op, int dtype, int sdtype, const tn__exact *x);
tn__exact tn__exact_round(int dtype, tn__exact x);        /* an f32 to f16 or bf16 */
tn__exact tn__exact_bits(int dtype, tn__exact x);         /* a float's, as an unsigned integer */
tn__exact tn__exact_of_bits(int dtype, tn__exact x);
tn__exact tn__exact_as_near(int op, tn__exact x);         /* the same, from a function that is right to 2^-16 */
bool tn__exact_same(tn__exact x, tn__exact y);
#endif
