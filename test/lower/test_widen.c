/* bf16 between loads and stores: as precise as f32 where values are continuous, rounded where they jump, where the
 * graph says so, and in mode strict. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <math.h>
#include <string.h>

enum { N = 4096 };

typedef tn_tensor *formula(tn_tensor *x);

/* constants that bf16 has */
static tn_tensor *gate(tn_tensor *x) {
  return tn_add_scalar(tn_silu(tn_mul_scalar(tn_add_scalar(x, 0.3125), 3.75)), -0.125);
}
static tn_tensor *chain(tn_tensor *x) {
  return tn_div(tn_exp(tn_sin(tn_add_scalar(x, 0.3125))), tn_sqrt(tn_add_scalar(tn_mul(x, x), 1.75)));
}
static tn_tensor *steps(tn_tensor *x) { return tn_floor(tn_mul_scalar(x, 1.0 / 3)); }
static tn_tensor *compared(tn_tensor *x) {
  return tn_cast(tn_lt(tn_mul_scalar(x, 1.0 / 3), tn_mul_scalar(x, 0.3330078125)), tn_dtype_of(x));
}
static tn_tensor *cast(tn_tensor *x) {
  return tn_mul_scalar(tn_cast(tn_mul_scalar(tn_cast(x, TN_F32), 1.0 / 3), TN_BF16), 3);
}

/* In `dtype` from the same numbers; as f32. */
static void compute(formula *f, tn_dtype dtype, tn_mode mode, const char *device, float *out) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .mode = mode, .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *x = tn_cast(tn_uniform(c, TN_BF16, &(tn_dim){N}, 1, -4, 4), dtype);
    tn_realize(&x, 1);
    tn_tensor *y = f(x);
    tn_realize(&y, 1);
    assert_int_equal(tn_read(tn_cast(y, TN_F32), out, N * sizeof *out), TN_OK);
  }
  tn_ctx_close(c);
}

static float as_bf16(float x) { /* halves to even; no NaN here */
  uint32_t bits;
  memcpy(&bits, &x, 4);
  bits = (bits + 0x7fff + (bits >> 16 & 1)) & 0xffff0000u;
  memcpy(&x, &bits, 4);
  return x;
}

static int differing(const float *x, const float *y, bool round) {
  int n = 0;
  for (int i = 0; i < N; i++) n += x[i] != (round ? as_bf16(y[i]) : y[i]);
  return n;
}

static const char *const devices[] = {"cpu", "ref", "ref:sm_90", "ref:opencl"};

/* What f32 gives, rounded once; strict rounds after every function, and shows it. */
static void test_continuous(void **state) {
  (void)state;
  static formula *const formulas[] = {gate, chain};
  static float narrow[N], wide[N], strict[N];
  for (int i = 0; i < 2; i++) {
    compute(formulas[i], TN_F32, TN_MODE_STRICT, "ref", wide);
    compute(formulas[i], TN_BF16, TN_MODE_STRICT, "ref", strict);
    assert_true(differing(strict, wide, true) > N / 100);
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
      compute(formulas[i], TN_BF16, TN_MODE_DEFAULT, devices[d], narrow);
      int off = differing(narrow, wide, true);
      if (off) fail_msg("%s, formula %d: %d of %d are not f32's", devices[d], i, off, N);
    }
  }
}

/* What jumps, and what is cast, is as in mode strict. */
static void test_jumps(void **state) {
  (void)state;
  static formula *const formulas[] = {steps, compared, cast};
  static float some[N], strict[N];
  for (int i = 0; i < 3; i++) {
    compute(formulas[i], TN_BF16, TN_MODE_STRICT, "ref", strict);
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
      compute(formulas[i], TN_BF16, TN_MODE_DEFAULT, devices[d], some);
      if (differing(some, strict, false)) fail_msg("%s, formula %d is not as in mode strict", devices[d], i);
    }
  }
}

/* f16 has fewer exponents: what is infinite on the way stays so. */
static tn_tensor *beyond(tn_tensor *x) {
  return tn_div_scalar(tn_mul_scalar(tn_add_scalar(tn_mul(x, x), 1), 60000), 60000);
}

static void test_half(void **state) {
  (void)state;
  static float some[N], strict[N];
  compute(beyond, TN_F16, TN_MODE_STRICT, "ref", strict);
  compute(beyond, TN_F16, TN_MODE_DEFAULT, "cpu", some);
  assert_int_equal(differing(some, strict, false), 0);
  int infinite = 0;
  for (int i = 0; i < N; i++) infinite += isinf(some[i]);
  assert_true(infinite > N / 2);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_continuous), cmocka_unit_test(test_jumps),
                                     cmocka_unit_test(test_half)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
