/* Conversions of half floats, many at once: of every level of processors, against the scalar evaluator. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backend/cpu/half.h"
#include "backend/cpu/level.h"
#include "ir/eval.h"
#include "support/ctx.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ALL = 1 << 16, AROUND = 7, SPARE = 3 };

static const int dtypes[] = {TN_F16, TN_BF16};
static const char *const levels[] = {"x86-64-v4", "x86-64-v3", "x86-64-v2", "x86-64", "armv8-a", "generic"};

static uint32_t bits_of(float x) {
  uint32_t bits;
  memcpy(&bits, &x, sizeof bits);
  return bits;
}

static float float_of(uint32_t bits) {
  float x;
  memcpy(&x, &bits, sizeof x);
  return x;
}

/* A NaN is any. */
static void check_widened(int dtype, uint16_t from, float got) {
  uint32_t want = (uint32_t)tn__eval_cast(dtype, TN_F32, from);
  if (bits_of(got) == want || (isnan(got) && isnan(float_of(want)))) return;
  fail_msg("%s %04x is %a, not %a", tn_dtype_name((tn_dtype)dtype), from, (double)got, (double)float_of(want));
}

static void check_rounded(int dtype, float from, uint16_t got) {
  uint16_t want = (uint16_t)tn__eval_cast(TN_F32, dtype, bits_of(from));
  bool nan = isnan(from) && isnan(float_of((uint32_t)tn__eval_cast(dtype, TN_F32, got)));
  if (got != want && !nan)
    fail_msg("%a rounds to %04x of %s, not %04x", (double)from, got, tn_dtype_name((tn_dtype)dtype), want);
}

/* All there are */
static void check_all(const tn__half *h, int dtype) {
  uint16_t *half = malloc(ALL * sizeof *half);
  float *whole = malloc(ALL * sizeof *whole);
  assert_true(half && whole);
  for (uint32_t i = 0; i < ALL; i++) half[i] = (uint16_t)i;
  h->widen(whole, half, ALL);
  for (uint32_t i = 0; i < ALL; i++) check_widened(dtype, (uint16_t)i, whole[i]);
  h->round(half, whole, ALL);
  for (uint32_t i = 0; i < ALL; i++) check_rounded(dtype, whole[i], half[i]);
  free(half);
  free(whole);
}

/* Where rounding decides: each of them, half way to the next one, and what is next to these; and others, of every
 * exponent. */
static void check_around(const tn__half *h, int dtype) {
  float *from = malloc(ALL * AROUND * sizeof *from);
  uint16_t *to = malloc(ALL * AROUND * sizeof *to);
  assert_true(from && to);
  for (uint32_t i = 0; i < ALL; i++) {
    uint32_t own = (uint32_t)tn__eval_cast(dtype, TN_F32, i),
             next = (uint32_t)tn__eval_cast(dtype, TN_F32, (i + 1) % ALL);
    uint32_t middle = own + (next - own) / 2;
    if (i % (ALL / 2) == ALL / 2 - 1) middle = own;
    const uint32_t at[AROUND] = {own - 1, own + 1, middle - 1, middle, middle + 1, i * 65537u, i * 2654435761u};
    for (uint32_t k = 0; k < AROUND; k++) from[i * AROUND + k] = float_of(at[k]);
  }
  h->round(to, from, ALL * AROUND);
  for (uint32_t i = 0; i < ALL * AROUND; i++) check_rounded(dtype, from[i], to[i]);
  free(from);
  free(to);
}

/* Few of them, wherever they stand, and no more than those */
static void check_lengths(const tn__half *h, int dtype) {
  for (size_t n = 0; n <= 40; n++)
    for (size_t at = 0; at < SPARE; at++) {
      uint16_t half[64], back[64];
      float whole[64];
      for (size_t i = 0; i < 64; i++) half[i] = (uint16_t)(i * 1009 + 3), back[i] = 0xabcd, whole[i] = 77;
      h->widen(whole + at, half + at, n);
      for (size_t i = 0; i < 64; i++)
        if (i < at || i >= at + n) assert_true(whole[i] == 77);
        else check_widened(dtype, half[i], whole[i]);
      h->round(back + at, whole + at, n);
      for (size_t i = 0; i < 64; i++)
        if (i < at || i >= at + n) assert_int_equal(back[i], 0xabcd);
        else check_rounded(dtype, whole[i], back[i]);
    }
}

typedef struct choice {
  const char *name;
  int bytes;
} choice;

static void choose(tn_ctx *c, void *of) {
  choice *x = of;
  x->bytes = tn__level_choose(c, x->name, "test")->bytes;
}

static void at_all_levels(void **state) {
  tn_ctx ctx;
  const tn__half *last = NULL;
  int different = 0;
  (void)state;
  assert_true(test_ctx_open(&ctx));
  for (size_t l = 0; l < sizeof levels / sizeof *levels; l++) {
    choice x = {.name = levels[l]};
    if (!tn__ctx_run(&ctx, "choose", choose, &x)) continue; /* no level of this machine's */
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
      const tn__half *h = tn__half_of(dtypes[d], x.bytes);
      check_all(h, dtypes[d]);
      check_around(h, dtypes[d]);
      check_lengths(h, dtypes[d]);
      if (d == 0) different += h != last, last = h;
    }
  }
  tn_clear_error(&ctx);
  assert_int_equal(test_ctx_close(&ctx), 0);
#if defined __x86_64__
  assert_int_equal(different, __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") ? 2 : 1);
#else
  assert_int_equal(different, 1);
#endif
}

static void of_others(void **state) {
  (void)state;
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++)
    assert_int_equal(tn__half_of(dtype, 16) != NULL, dtype == TN_F16 || dtype == TN_BF16);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(at_all_levels), cmocka_unit_test(of_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
