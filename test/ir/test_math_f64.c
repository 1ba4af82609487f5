/* The f64 elementary functions that are own text (ir/math_f64.inc) against the C library's in long double: the bounds
 * of ir/ops.def, special values, signs, and the reduction of huge arguments against numbers of more digits. */
#include "ir/math_c.inc"
#include "ir/math.inc"
#include "ir/math_f64.inc"
#include "ir/node.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include "support/exact.h"
#include "support/files.h"

typedef long double wide;

typedef struct function {
  const char *name;
  f64 (*f)(f64);
  int op;
} function;
static const function functions[] = {
#define ROW(op, name, bound) {#name, tn_##name##_f64, OP_##op},
    TN_MATH_TWICE(ROW)};
enum { FUNCTIONS = sizeof functions / sizeof *functions, EACH = 20000 };

static f64 bound_of(const function *f) { return tn__ops[f->op].library[LB_C]; }
static f64 with_sign(f64 x, bool negative) { return negative ? -x : x; }

/* Units of the last place of `want`, as far as it has one; infinite where only one is NaN, infinite or of that sign. */
static f64 ulps(f64 got, wide want) {
  int e;
  if (isnan(want)) return isnan(got) ? 0 : HUGE_VAL;
  if (isnan(got) || !signbit(want) != !signbit(got)) return HUGE_VAL;
  if (isinf(want) || want == 0) return (wide)got == want ? 0 : HUGE_VAL;
  wide end = ldexpl(1, 1024);
  if (isinf(got) && fabsl(want) >= end - ldexpl(1, 970)) return 0;
  frexpl(want, &e);
  wide off = (isinf(got) ? copysignl(end, want) : (wide)got) - want;
  return (f64)(fabsl(off) / ldexpl(1, e - 53 < -1074 ? -1074 : e - 53));
}

/* docs/trust.md states every bound, as "name bound" in the last of its lists. */
static void test_docs(void **state) {
  const char *tests = getenv("TENET_TEST_DATA");
  char path[1000], want[40];
  size_t n = 0;
  (void)state;
  if (!tests) skip();
  snprintf(path, sizeof path, "%s/../docs/trust.md", tests);
  char *text = test_read_file(path, &n);
  assert_non_null(text);
  text[n] = 0;
  const char *list = strstr(text, "math_f64.inc");
  assert_non_null(list);
  for (char *s = text; *s; s++)
    if (*s == '\n') *s = ' ';
  for (int k = 0; k < FUNCTIONS; k++) {
    snprintf(want, sizeof want, " %s %.1f", functions[k].name, bound_of(&functions[k]));
    if (!strstr(list, want)) fail_msg("docs/trust.md does not say of f64:%s", want);
  }
  free(text);
}

static f64 error_at(const function *f, f64 x) { return ulps(f->f(x), exact_value(f->op, (wide)x, 0, 0)); }

static u64 random_state = 1;
static u64 roll(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return random_state >> 11;
}

/* Any bits; up to 1, 8 and 800; near 1; of any size down to 2^-63 and up to 2^31; next to multiples of pi/2 */
enum { ANY, UNIT, SOME, MANY, NEAR_ONE, SMALL, LARGE, TURNS, REGIONS };
static f64 draw(int region) {
  f64 u = (f64)roll() * 0x1p-53, s = roll() & 1 ? 1 : -1;
  switch (region) {
  case ANY: return tn_f64_of(roll() << 32 ^ roll());
  case UNIT: return s * u;
  case SOME: return s * u * 8;
  case MANY: return s * u * 800;
  case NEAR_ONE: return 1 + s * ldexp(u, -(int)(roll() % 40));
  case SMALL: return s * ldexp(u, -(int)(roll() % 64));
  case LARGE: return s * ldexp(1 + u, (int)(roll() % 31));
  default: {
    f64 x = (f64)(floorl(ldexpl(u, (int)(roll() % 50))) * 1.570796326794896619231321691639751442L);
    return s * (roll() & 1 ? nextafter(x, INFINITY) : x);
  }
  }
}

static void test_bounds(void **state) {
  (void)state;
  int bad = 0;
  for (int k = 0; k < FUNCTIONS; k++) {
    f64 worst = 0, at = 0;
    for (int region = 0; region < REGIONS; region++)
      for (int i = 0; i < EACH; i++) {
        f64 x = draw(region), e = error_at(&functions[k], x);
        if (e > worst) worst = e, at = x;
      }
    printf("%-6s %.3f of %.2f ulp at %a\n", functions[k].name, worst, bound_of(&functions[k]), at);
    bad += !(worst <= bound_of(&functions[k]));
  }
  assert_int_equal(bad, 0);
}

/* Where something changes, with their neighbours. */
static void test_edges(void **state) {
  static const f64 base[] = {0, 0x1p-1074, 0x1p-1023, 0x1p-1022, 0x1p-54, 0x1p-53, 0.5, 1, 2, 0x1.fffffffffffffp1023,
                             709.782712893384, 745.1332191019411, 745.2, 708.396418532264, 710, 746, 1022, 1023, 1024,
                             1025, 1074, 1075, 1076, 37, 38, 40, 5.93, 6, 19, 22, 0x1p30, 0x1p52, 0x1p53, 0x1p54,
                             0x1p64, 0.34657359027997264, 0.7853981633974483, 1.5707963267948966, 3.141592653589793,
                             0x1.6a09e667f3bcdp-1, 0x1.6a09e667f3bcdp+0, -0.29289321881345254, 0.41421356237309515};
  (void)state;
  for (int k = 0; k < FUNCTIONS; k++) {
    const function *f = &functions[k];
    for (size_t i = 0; i < sizeof base / sizeof *base; i++)
      for (int j = 0; j < 6; j++) {
        f64 x = with_sign(base[i], j & 1), y = j < 2 ? x : nextafter(x, j < 4 ? -INFINITY : INFINITY);
        f64 e = error_at(f, y);
        if (!(e <= bound_of(f))) fail_msg("%s(%a) = %a: %g ulp", f->name, y, f->f(y), e);
      }
    assert_true(isnan(f->f(NAN)) && isnan(f->f(-NAN)));
    for (int j = 0; j < 2; j++) assert_true(error_at(f, j ? -INFINITY : INFINITY) == 0);
  }
}

/* Odd and even functions are so to the bit. */
static void test_signs(void **state) {
  (void)state;
  for (int i = 0; i < REGIONS * EACH / 10; i++) {
    f64 x = draw(i % REGIONS);
    if (isnan(x) || isinf(x)) continue;
    assert_true(tn_sin_f64(-x) == -tn_sin_f64(x) && tn_cos_f64(-x) == tn_cos_f64(x));
    assert_true(tn_tanh_f64(-x) == -tn_tanh_f64(x) && tn_erf_f64(-x) == -tn_erf_f64(x));
  }
}

/* Computed with 3000 bits.  The first is the double that is nearest to a multiple of pi/2, for its size. */
static void test_reduction(void **state) {
  static const struct {
    f64 x;
    wide sin, cos;
  } rows[] = {{0x1.6ac5b262ca1ffp+849, 1.0L, -4.687165924254627611122583e-19L},
              {0x1.fffffffffffffp+1023, 0.004961954789184061790502671L, -0.9999876894265599374648701L},
              {0x1p+1023, 0.5631277798508840134529434L, -0.8263698346141479945007857L},
              {0x1.921fb54442d18p+30, -6.574772439361198489570429e-8L, 0.9999999999999978386183685L},
              {0x1p+30, -0.6173264150460421707542164L, 0.7867071229411881196182997L},
              {0x1.5fdbbe9bba774p+30, -0.0000002959478379459687081266816L, 0.9999999999999562074386076L},
              {0x1.921fb54442d18p+1, 1.224646799147353177226066e-16L, -1.0L},
              {0x1p+100, -0.8721836054182673097807198L, 0.4891786569747214499057893L},
              {0x1.921fb54442d18p+600, 0.9441919329221462049653444L, 0.3293958011340480967853691L}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    f64 x = rows[i].x, s = ulps(tn_sin_f64(x), rows[i].sin), c = ulps(tn_cos_f64(x), rows[i].cos);
    if (!(s <= 0.8) || !(c <= 0.8)) fail_msg("of %a: sin %g ulp, cos %g ulp", x, s, c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_docs), cmocka_unit_test(test_bounds),
                                     cmocka_unit_test(test_edges), cmocka_unit_test(test_signs),
                                     cmocka_unit_test(test_reduction)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
