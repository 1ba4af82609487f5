/* The f32 elementary functions against the C library's in double: error bounds and special values.  Of each function of
 * one argument some millions of inputs, every sign and exponent among them; run/test_every_input tries all 2^32. */
#include "ir/math_c.inc"
#include "ir/math.inc"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "support/files.h"
#include "support/ulps.h"

typedef struct unary {
  const char *name;
  f32 (*f)(f32);
  f64 (*exact)(f64);
  f64 bound;
} unary;
static const unary unaries[] = {
#define ROW(op, name, bound) {#name, tn_##name##_f32, name, bound},
    TN_MATH_1(ROW)};

typedef struct binary {
  const char *name;
  f32 (*f)(f32, f32);
  f64 (*exact)(f64, f64);
  f64 bound;
} binary;
static const binary binaries[] = {TN_MATH_2(ROW)};
enum { UNARIES = sizeof unaries / sizeof *unaries, BINARIES = sizeof binaries / sizeof *binaries };

static void test_unaries(void **state) {
  (void)state;
  int bad = 0;
  const uint64_t step = 2039; /* prime, so that all low bits occur */
  for (int k = 0; k < UNARIES; k++) {
    f64 worst = 0;
    f32 at = 0;
    for (uint64_t i = 0; i <= UINT32_MAX; i += step) {
      f32 x = tn_f32_of((u32)i);
      f64 e = error_in_ulps(unaries[k].f(x), unaries[k].exact((f64)x));
      if (e > worst) worst = e, at = x;
    }
    printf("%-6s %.3f ulp at %a\n", unaries[k].name, worst, (f64)at);
    fflush(stdout);
    if (!(worst <= unaries[k].bound)) {
      print_error("%s(%a) = %a: %g ulp is above the bound %g\n", unaries[k].name, (f64)at, (f64)unaries[k].f(at), worst,
                  unaries[k].bound);
      bad++;
    }
  }
  assert_int_equal(bad, 0);
}

/* Floats where something changes: the ends, powers of two and multiples of pi/2 with their neighbours. */
static u32 edges(f32 *out) {
  static const f32 base[] = {0,
                             0x1p-149f,
                             0x1p-126f,
                             0.5f,
                             1,
                             2,
                             3,
                             1.5f,
                             2.5f,
                             0x1.fffffep127f,
                             88.7228394f,
                             -103.97f,
                             9.01f,
                             3.95f,
                             0.55f,
                             0x1.921fb6p+0f,
                             0x1p23f,
                             0x1p24f,
                             0x1p50f,
                             0x1p77f,
                             0x1p103f,
                             0x1.6a09e6p-1f,
                             0x1.6a09e6p+0f,
                             16367173 * 0x1p72f};
  u32 n = 0;
  for (u32 i = 0; i < sizeof base / sizeof *base; i++)
    for (int sign = 0; sign < 2; sign++)
      for (int d = -1; d < 2; d++) {
        if (base[i] == 0 && d) continue;
        f32 x = d ? nextafterf(base[i], d < 0 ? -INFINITY : INFINITY) : base[i];
        out[n++] = sign ? -x : x;
      }
  out[n++] = NAN;
  out[n++] = INFINITY;
  out[n++] = -INFINITY;
  return n;
}

static void test_edges(void **state) {
  (void)state;
  static f32 x[256];
  u32 n = edges(x);
  for (int k = 0; k < UNARIES; k++)
    for (u32 i = 0; i < n; i++) {
      f64 e = error_in_ulps(unaries[k].f(x[i]), unaries[k].exact((f64)x[i]));
      if (e > unaries[k].bound) fail_msg("%s(%a) = %a: %g ulp", unaries[k].name, (f64)x[i], (f64)unaries[k].f(x[i]), e);
    }
  for (int k = 0; k < BINARIES; k++)
    for (u32 i = 0; i < n; i++)
      for (u32 j = 0; j < n; j++) {
        f64 e = error_in_ulps(binaries[k].f(x[i], x[j]), binaries[k].exact((f64)x[i], (f64)x[j]));
        if (e > binaries[k].bound)
          fail_msg("%s(%a, %a) = %a: %g ulp", binaries[k].name, (f64)x[i], (f64)x[j], (f64)binaries[k].f(x[i], x[j]),
                   e);
      }
}

static u64 random_state = 1;
static u32 random_bits(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (u32)(random_state >> 32);
}

/* Arguments from all floats, and from where results are neither 0 nor infinite. */
static void test_binaries(void **state) {
  (void)state;
  for (int k = 0; k < BINARIES; k++) {
    f64 worst = 0;
    f32 at[2] = {0};
    for (u32 i = 0; i < 2000000; i++) {
      u32 u = random_bits(), v = random_bits();
      f32 x = tn_f32_of(i & 1 ? u : (u & 0x3ffffffu) + 0x3e000000u),
          y = tn_f32_of(i & 2 ? v : (v & 0x87ffffffu) + 0x3d000000u);
      f64 e = error_in_ulps(binaries[k].f(x, y), binaries[k].exact((f64)x, (f64)y));
      if (e > worst) worst = e, at[0] = x, at[1] = y;
    }
    printf("%-6s %.3f ulp at %a, %a\n", binaries[k].name, worst, (f64)at[0], (f64)at[1]);
    if (worst > binaries[k].bound)
      fail_msg("%s(%a, %a): %g ulp is above the bound %g", binaries[k].name, (f64)at[0], (f64)at[1], worst,
               binaries[k].bound);
  }
}

/* The whole range of sin is worth only as much as its worst cases: floats nearest to a multiple of pi/2, by a search
 * over all exponents. */
static void test_reduction(void **state) {
  (void)state;
  for (int e = 1; e < 128; e++) {
    f64 least = 1;
    f32 worst = 0;
    for (u32 i = 0; i < 1u << 15; i++) {
      f32 x = ldexpf((f32)(0x800000u | (random_bits() >> 9)), e - 23);
      f64 c = fmin(fabs(sin((f64)x)), fabs(cos((f64)x)));
      if (c < least) least = c, worst = x;
    }
    for (int k = 0; k < UNARIES; k++) {
      f64 ulps = error_in_ulps(unaries[k].f(worst), unaries[k].exact((f64)worst));
      if (ulps > unaries[k].bound) fail_msg("%s(%a): %g ulp", unaries[k].name, (f64)worst, ulps);
    }
  }
}

/* What rules rely on: to the power of 0 and of 1, bit for bit. */
static void test_units_of_pow(void **state) {
  (void)state;
  const uint64_t step = 2039;
  for (uint64_t i = 0; i <= UINT32_MAX; i += step) {
    f32 x = tn_f32_of((u32)i), one = tn_pow_f32(x, 1.0f);
    f64 d = tn_f64_of(i * 0x9e3779b97f4a7c15u), d_one = tn_pow_f64(d, 1.0);
    if (!(tn_pow_f32(x, 0.0f) == 1.0f) || !(tn_pow_f32(x, -0.0f) == 1.0f) || !(tn_pow_f64(d, 0.0) == 1.0) ||
        !(tn_pow_f64(d, -0.0) == 1.0))
      fail_msg("to the 0: %a, %a", (f64)x, d);
    if (x == x && tn_f32_bits(one) != tn_f32_bits(x)) fail_msg("%a to the 1 is %a", (f64)x, (f64)one);
    if (d == d && tn_f64_bits(d_one) != tn_f64_bits(d)) fail_msg("%a to the 1 is %a", d, d_one);
  }
  for (u32 h = 0; h < 1u << 16; h++) {
    f32 x = tn_f16_of(h), y = tn_bf16_of(h);
    if (x == x && tn_f16_bits(tn_pow_f32(x, 1.0f)) != h) fail_msg("%a to the 1 in f16", (f64)x);
    if (y == y && tn_bf16_bits(tn_pow_f32(y, 1.0f)) != h) fail_msg("%a to the 1 in bf16", (f64)y);
  }
}

/* docs/trust.md states every bound, as "name bound" in a list. */
static void test_docs(void **state) {
  static const struct {
    const char *name;
    f64 bound;
  } rows[] = {
#define NAMED(op, name, bound) {#name, bound},
      TN_MATH_1(NAMED) TN_MATH_2(NAMED)};
  const char *tests = getenv("TENET_TEST_DATA");
  char path[1000], want[40];
  size_t n = 0;
  (void)state;
  if (!tests) skip();
  snprintf(path, sizeof path, "%s/../docs/trust.md", tests);
  char *text = test_read_file(path, &n);
  assert_non_null(text);
  text[n] = 0;
  for (char *s = text; *s; s++)
    if (*s == '\n') *s = ' ';
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    snprintf(want, sizeof want, " %s %.1f", rows[i].name, rows[i].bound);
    if (!strstr(text, want)) fail_msg("docs/trust.md does not say:%s", want);
  }
  free(text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_docs), cmocka_unit_test(test_unaries),
                                     cmocka_unit_test(test_edges), cmocka_unit_test(test_binaries),
                                     cmocka_unit_test(test_reduction),
                                     cmocka_unit_test(test_units_of_pow)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
