/* Shorter functions for half floats (ir/near_cuda.inc), on a processor that is as wrong as the one they are for may be:
 * to 2^-16, with all that is no number as it must be. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <math.h>
#include <stdbool.h>
#include <stdio.h>
#include <string.h>

typedef float f32;
typedef uint32_t u32;
#define TN_FN static
#define TN_INF INFINITY
#define TN_LN2 0x1.62e43p-1f
#define TN_LOG10_2 0x1.344p-2f
#define TN_LOG10_2_LOW 0x1.3509f8p-18f
#define TN_LOG2E 0x1.715476p+0f
#define TN_HALF_PI 0x1.921fb6p+0f
#define TN_HALF_PI_LOW -0x1.777a5cp-25f
#define TN_MAGIC 0x1.8p23f

/* How far the processor is off, in parts of what its definition allows: -1, 0 or 1 */
static float off;
static f32 wrong(double x, double by) { return (f32)(x * (1 + (double)off * by)); }
static f32 tn_hard_exp2(f32 x) { return wrong(exp2((double)x), 0x1p-22); }
static f32 tn_hard_exp2_flush(f32 x) { return x < -126 ? 0 : tn_hard_exp2(x); }
static f32 tn_hard_log2(f32 x) { /* near 1 it is the difference that has a bound */
  double y = log2((double)x);
  return x > 0.5f && x < 2 ? (f32)(y + (double)off * 0x1p-22) : wrong(y, 0x1p-22);
}
static f32 tn_hard_sqrt(f32 x) { return wrong(sqrt((double)x), 0x1p-23); }
static f32 tn_hard_reciprocal(f32 x) { return wrong(1 / (double)x, 0x1p-23); }
static f32 tn_hard_div(f32 x, f32 y) { return wrong((double)x / (double)y, 0x1p-22); }
static f32 tn_fma_f32(f32 x, f32 y, f32 z) { return fmaf(x, y, z); }
static f32 tn_sin_f32(f32 x) { return (f32)sin((double)x); }
static f32 tn_cos_f32(f32 x) { return (f32)cos((double)x); }
static u32 tn_f32_bits(f32 x) {
  u32 bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}
static f32 tn_f32_of(u32 bits) {
  f32 x;
  memcpy(&x, &bits, sizeof x);
  return x;
}
#include "ir/near_cuda.inc"

static const struct {
  const char *name;
  f32 (*near)(f32 x);
  double (*exact)(double x);
} functions[] = {
#define ROW(name) {#name, tn_near_##name, name}
    ROW(exp),  ROW(exp2),  ROW(expm1), ROW(tanh), ROW(log),  ROW(log2), ROW(log10), ROW(log1p), ROW(sinh), ROW(cosh),
    ROW(sqrt), ROW(asinh), ROW(acosh), ROW(atanh), ROW(atan), ROW(erf),  ROW(sin),   ROW(cos)};

static const double LEAST = 0x1p-126; /* of what is smaller, halves have few bits or none */

/* To 2^-16 of it, or of the least normal number; what overflows may be the largest, or infinite. */
static bool agrees(f32 got, double want) {
  if (isnan(want)) return isnan(got);
  if (isinf((f32)want)) return (double)got == want || fabs((double)got) > 0x1.fffp127;
  if (!isfinite(got)) return fabs(want) > 0x1.fffp127;
  if (!signbit(got) != !signbit(want)) return false;
  return fabs((double)got - want) <= 0x1p-16 * fmax(fabs(want), LEAST);
}

/* All that a bf16 is, with some bits behind it: 0, 1 and those of a half float */
static f32 number(u32 i) { return tn_f32_of(i << 13); }
enum { NUMBERS = 1 << 19 };

static void of_one(void **state) {
  (void)state;
  for (size_t f = 0; f < sizeof functions / sizeof *functions; f++)
    for (off = -1; off <= 1; off++)
      for (u32 i = 0; i < NUMBERS; i++) {
        f32 x = number(i), got = functions[f].near(x);
        double want = functions[f].exact((double)x);
        if (!agrees(got, want)) fail_msg("%s(%a), off by %g: %a, not %a", functions[f].name, (double)x, (double)off,
                                         (double)got, want);
      }
}

static void of_two(void **state) {
  (void)state;
  for (off = -1; off <= 1; off++)
    for (u32 i = 0; i < NUMBERS; i += 577)
      for (u32 k = 0; k < NUMBERS; k += 599) {
        f32 y = number(i), x = number(k);
        if (!agrees(tn_near_atan2(y, x), atan2((double)y, (double)x)))
          fail_msg("atan2(%a, %a): %a", (double)y, (double)x, (double)tn_near_atan2(y, x));
        if (!agrees(tn_near_div(y, x), (double)y / (double)x)) fail_msg("%a / %a", (double)y, (double)x);
      }
  static const f32 special[] = {0, -0.0f, 1, -1, INFINITY, -INFINITY, NAN};
  enum { SPECIALS = sizeof special / sizeof *special };
  for (int i = 0; i < SPECIALS * SPECIALS; i++) {
    f32 y = special[i / SPECIALS], x = special[i % SPECIALS];
    if (!agrees(tn_near_atan2(y, x), atan2((double)y, (double)x))) fail_msg("atan2(%a, %a)", (double)y, (double)x);
  }
}

/* The nearest f16, of halves the even one */
static double half_of(double x) {
  int e = x != 0 && isfinite(x) ? ilogb(x) : 0;
  double unit = ldexp(1, (e > -14 ? e : -14) - 10), y = isfinite(x) ? nearbyint(x / unit) * unit : x;
  return fabs(y) > 65504 ? copysign((double)INFINITY, y) : y == 0 ? copysign(0.0, x) : y;
}

static f32 half(u32 bits) {
  int e = bits >> 10 & 31, m = bits & 1023;
  double x = e == 31 ? m ? (double)NAN : (double)INFINITY : e ? ldexp(1024 + m, e - 25) : ldexp(m, -24);
  return (f32)(bits >> 15 ? -x : x);
}

static void check_quotient(u32 i, u32 k) {
  f32 x = half(i), y = half(k), got = tn_quotient_f16(x, y);
  double want = half_of((double)x / (double)y), is = half_of((double)got);
  if (isnan(want) ? !isnan(got) : is != want || !signbit(is) != !signbit(want))
    fail_msg("%a / %a, off by %g: %a", (double)x, (double)y, (double)off, (double)got);
}

/* Rounded as the quotient is: of all significands, and of a sample of all there are */
static void of_halves(void **state) {
  static const u32 special[] = {0, 1, 0x3ff, 0x400, 0x3c00, 0x7bff, 0x7c00, 0x7e00};
  enum { SPECIALS = sizeof special / sizeof *special };
  (void)state;
  for (off = -1; off <= 1; off++) {
    for (u32 i = 0x3c00; i < 0x4000; i++)
      for (u32 k = 0x3c00; k < 0x4000; k++) check_quotient(i, k);
    for (u32 i = 0; i < 1 << 16; i += 97)
      for (u32 k = 0; k < 1 << 16; k += 101) check_quotient(i, k);
    for (u32 i = 0; i < 4 * SPECIALS * SPECIALS; i++)
      check_quotient(special[i / 4 % SPECIALS] | (i & 1) << 15, special[i / 4 / SPECIALS] | (i & 2) << 14);
  }
}

/* What is divided by a power of two is multiplied by its inverse, where both are far from the ends of the exponents. */
static void of_powers(void **state) {
  (void)state;
  for (int e = -149; e <= 128; e++)
    for (int sign = -1; sign <= 1; sign += 2) {
      f32 y = ldexpf((f32)sign, e), r = tn_inverse_of_power(y);
      if (e < -100 || e > 100 ? r != 0 : r == 0 || r * y != 1 || tn_f32_bits(r) != tn_f32_bits(1 / y))
        fail_msg("1 / %a is not %a", (double)y, (double)r);
      f32 next = nextafterf(y, 0);
      if (tn_inverse_of_power(next) != 0) fail_msg("%a is a power of two", (double)next);
    }
  if (tn_inverse_of_power(0) != 0 || tn_inverse_of_power(3) != 0 || tn_inverse_of_power(NAN) != 0)
    fail_msg("0, 3 or NaN is a power of two");
}

/* As hyperbolic tangents divide (math.inc): e, or -2, by e + 2 */
static void check_ratio(f32 e) {
  f32 y = e + 2, x[] = {e, -2.0f};
  for (int i = 0; i < 2; i++) {
    f32 got = tn_ratio_f32(x[i], y), want = x[i] / y;
    if (x[i] < 4 && tn_f32_bits(got) != tn_f32_bits(want))
      fail_msg("%a / %a, off by %g: %a, not %a", (double)x[i], (double)y, (double)off, (double)got, (double)want);
  }
}

static void of_ratios(void **state) {
  (void)state;
  for (off = -1; off <= 1; off++) {
    for (u32 i = tn_f32_bits(0x1p-26f); i < tn_f32_bits(4.0f); i += 7) check_ratio(tn_f32_of(i));
    for (u32 i = 0; i < tn_f32_bits(0x1p59f); i += 331) check_ratio(tn_f32_of(i));
    for (u32 i = 0; i < 1 << 12; i++) check_ratio(tn_f32_of(i));
    if (!isnan(tn_ratio_f32(NAN, NAN))) fail_msg("a ratio of NaN is none");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(of_one), cmocka_unit_test(of_two), cmocka_unit_test(of_halves),
                                     cmocka_unit_test(of_powers), cmocka_unit_test(of_ratios)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
