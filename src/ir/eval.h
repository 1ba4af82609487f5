/* The one scalar evaluator: what every op means on every input.  Prefix tn__eval_.  Constant folding, the ref device,
 * the simulator and the tests all use it.
 *
 * A scalar travels as 64 bits: integers sign- or zero-extended to 64 by their signedness, bool 0 or 1, floats as their
 * own bit pattern in the low bits.  NaN results are the dtype's canonical quiet NaN only where the operation makes one;
 * operations that pass a value through keep its bits.
 *
 * Totality: integers wrap; x idiv 0 = 0, x mod 0 = x, MIN idiv -1 wraps; idiv and mod floor; shift counts >= width give
 * 0 or the sign fill; float to integer saturates and NaN gives 0; min and max propagate NaN and order -0 < +0. f16 and
 * bf16 compute in f32 and round once, but for fma, which is exact until it rounds.  The elementary functions of f32 are
 * those of ir/math.inc, the very text that is compiled into kernels, so the two agree bit for bit; those of f64 are of
 * ir/math_f64.inc, as those of the CPU's kernels, or the C library's. */
#ifndef TN_IR_EVAL_H
#define TN_IR_EVAL_H
#include "ir/node.h"

/* dtype: of the result; sdtype: of the first source that is not WHERE's condition (they differ for comparisons and
 * casts). */
uint64_t tn__eval(int op, int dtype, int sdtype, const uint64_t *arg);
/* false where the op takes no operands of that dtype; tn__eval then aborts */
bool tn__eval_defined(int op, int sdtype);
uint64_t tn__eval_cast(int from, int to, uint64_t bits);
double tn__eval_to_double(int dtype, uint64_t bits);   /* exact, but for 64-bit integers, which round */
uint64_t tn__eval_from_double(int dtype, double v);    /* floats round to nearest even; ints saturate, NaN gives 0 */
uint64_t tn__eval_load(int dtype, const void *p);      /* an element from memory */
void tn__eval_store(int dtype, void *p, uint64_t bits);
/* Evaluates an index expression (over CONST, VAR, RANGE and integer ops) with `env` giving VARs and RANGEs; iterative.
 */
typedef struct tn__env {
  tn_node *const *key;
  const int64_t *val;
  uint32_t n;
} tn__env;
int64_t tn__eval_index(tn_node *n, const tn__env *env, tn__arena *a);
/* The value that starts a reduction: 0, 1, -inf or the dtype's least for MAX, +inf or greatest for MIN. */
/* `to` with a value of another dtype added, where that may be (tn__is_addable) */
uint64_t tn__eval_combined(int by, int dtype, int vdtype, uint64_t to, uint64_t value);
uint64_t tn__eval_reduce_init(int op /* OP_ADD, OP_MUL, OP_MAX, OP_MIN */, int dtype);
/* Where a row of intervals.def holds. */
enum { TI_NUMBER, TI_TRUTH, TI_BELOW, TI_ZERO, TI_ABOVE, TI_BITS, TI_COUNT };
/* interval.c: bounds of an integer or bool node's elements from its sources' bounds; the full range where nothing is
 * known. */
void tn__interval(const tn_node *n, int64_t *lo, int64_t *hi);
/* The same where n's first three sources lie in lo..hi.  False: it may be beyond the dtype, and the range is full. */
bool tn__interval_from(const tn_node *n, const int64_t *lo, const int64_t *hi, int64_t *from, int64_t *to);

/* |v|, also of the least */
static inline uint64_t tn__magnitude(int64_t v) { return v < 0 ? (uint64_t)-(v + 1) + 1 : (uint64_t)v; }

/* The greatest common divisor; of 0 and x it is x. */
static inline uint64_t tn__gcd(uint64_t a, uint64_t b) {
  while (b) {
    uint64_t r = a % b;
    a = b;
    b = r;
  }
  return a;
}
#endif
