/* Equal steps of a schedule share one kernel, each over its own buffers and its own partial results. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

enum { N = 24, STEPS = 300 };

static tn_ctx *open_on(const char *device) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  return c;
}

static uint64_t kernels_of(tn_ctx *c) {
  tn_stats s;
  tn_ctx_stats(c, &s);
  return s.kernels_compiled + s.kernels_cached;
}

/* x = 0.5 x + mean(tanh x), over and over */
static tn_tensor *unrolled(tn_tensor *x, int steps) {
  for (int i = 0; i < steps; i++) {
    tn_tensor *mean = tn_mean(tn_tanh(x), NULL, 0, false);
    x = tn_contiguous(tn_add(tn_mul_scalar(x, 0.5), mean));
  }
  return x;
}

static void steps(void **state) {
  static const char *const device[] = {"cpu", "ref", "ref:sm_90"};
  double want[N], start[N];
  (void)state;
  for (int i = 0; i < N; i++) want[i] = start[i] = i / 8.0 - 1;
  for (int s = 0; s < STEPS; s++) {
    double mean = 0;
    for (int i = 0; i < N; i++) mean += tanh(want[i]) / N;
    for (int i = 0; i < N; i++) want[i] = want[i] / 2 + mean;
  }
  for (size_t d = 0; d < sizeof device / sizeof *device; d++) {
    tn_ctx *c = open_on(device[d]);
    double got[N];
    tn_program_info info;
    tn_tensor *x = unrolled(tn_from(c, TN_F64, DIMS(N), start), STEPS);
    assert_int_equal(tn_get_info(&x, 1, &info), TN_OK);
    if (tn_read(x, got, sizeof got)) fail_msg("%s", tn_last_error(c)->text);
    for (int i = 0; i < N; i++)
      if (!(fabs(got[i] - want[i]) < 1e-12)) fail_msg("%s: element %d is %g, not %g", device[d], i, got[i], want[i]);
    if (!d && (uint64_t)info.kernels < 10 * kernels_of(c)) /* runs, and texts that were compiled */
      fail_msg("%d kernels run, %d are different", info.kernels, (int)kernels_of(c));
    tn_ctx_close(c);
  }
}

/* Sums so long that each is made of partial results, which stand beside the others'. */
static void partial_results(void **state) {
  enum { ROWS = 5, LONG = 1 << 17 };
  (void)state;
  tn_ctx *c = open_on("cpu");
  tn_tensor *x[ROWS], *sum[ROWS];
  for (int i = 0; i < ROWS; i++) {
    x[i] = tn_full(c, TN_F32, DIMS(LONG), i + 1);
    assert_int_equal(tn_realize(&x[i], 1), TN_OK);
    sum[i] = tn_contiguous(tn_sum(x[i], NULL, 0, false));
  }
  uint64_t before = kernels_of(c);
  assert_int_equal(tn_realize(sum, ROWS), TN_OK);
  assert_int_equal(kernels_of(c) - before, 1);
  for (int i = 0; i < ROWS; i++) {
    double v;
    assert_int_equal(tn_item(sum[i], &v), TN_OK);
    assert_true(v == (double)LONG * (i + 1));
  }
  tn_ctx_close(c);
}

/* What differs in a constant, a size or a dtype is another kernel. */
static void others(void **state) {
  (void)state;
  tn_ctx *c = open_on("cpu");
  tn_tensor *x = tn_from(c, TN_F32, DIMS(3), (const float[]){1, 2, 3});
  tn_tensor *y = tn_from(c, TN_F32, DIMS(2), (const float[]){4, 5}), *plus_one = tn_add_scalar(x, 1);
  tn_tensor *out[] = {plus_one, tn_add_scalar(x, 2), tn_add_scalar(y, 1), tn_cast(plus_one, TN_F64)};
  float three[3], two[2];
  double wide[3];
  for (int i = 0; i < 4; i++) out[i] = tn_contiguous(out[i]);
  assert_int_equal(tn_realize(out, 4), TN_OK);
  assert_int_equal(tn_read(out[0], three, sizeof three), TN_OK);
  assert_memory_equal(three, ((float[]){2, 3, 4}), sizeof three);
  assert_int_equal(tn_read(out[1], three, sizeof three), TN_OK);
  assert_memory_equal(three, ((float[]){3, 4, 5}), sizeof three);
  assert_int_equal(tn_read(out[2], two, sizeof two), TN_OK);
  assert_memory_equal(two, ((float[]){5, 6}), sizeof two);
  assert_int_equal(tn_read(out[3], wide, sizeof wide), TN_OK);
  assert_memory_equal(wide, ((double[]){2, 3, 4}), sizeof wide);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps), cmocka_unit_test(partial_results), cmocka_unit_test(others),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
