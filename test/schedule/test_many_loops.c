/* Graphs that would need more loops in one kernel than lowering takes (TN__MAX_RANGES) are cut into more kernels, and
 * never refused: drawn tensors of 12 axes, summed over some of them again and again, with gradients. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANK = 12, DRAWS = 24, MOST = 16, STEPS = 9 };

static uint64_t random_state;

static uint32_t draw(uint32_t n) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(random_state >> 33) % n;
}

/* Some axes, at least one; often nearly all */
static int draw_axes(int *axis) {
  uint32_t of = 2 + 20 * draw(2);
  int n = 0;
  for (int i = 0; i < RANK; i++)
    if (draw(of)) axis[n++] = i;
  if (!n) axis[n++] = (int)draw(RANK);
  return n;
}

static tn_tensor *step(tn_tensor *x, tn_tensor *before) {
  int axis[RANK], n = draw_axes(axis), order[RANK];
  switch (draw(7)) {
  case 0: return tn_sub(x, tn_mean(x, axis, n, true));
  case 1: return tn_div(tn_exp(tn_tanh(x)), tn_add_scalar(tn_sum(tn_square(x), axis, n, true), 1));
  case 2: return tn_softmax(x, (int)draw(RANK));
  case 3: return tn_tanh(tn_mul(x, tn_sum(tn_mul(x, before), axis, n, true)));
  case 4:
    for (int i = 0; i < RANK; i++) order[i] = (i + 5) % RANK; /* all axes have one size */
    return tn_add(tn_permute(x, order, RANK), tn_mean(before, axis, n, true));
  case 5: return tn_add(x, tn_log_softmax(before, (int)draw(RANK)));
  default: return tn_mul(tn_tanh(x), tn_mean(before, axis, n, true));
  }
}

/* The graph of a seed: its elements, as read; their number */
static size_t compute(const char *device, uint64_t seed, bool gradient, float *out) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  float data[1 << RANK];
  tn_dim dim[RANK];
  assert_non_null(c);
  random_state = seed;
  for (int i = 0; i < RANK; i++) dim[i] = 2;
  for (int i = 0; i < 1 << RANK; i++) data[i] = (float)draw(1000) / 500 - 1;
  tn_tensor *x = tn_from(c, TN_F32, dim, RANK, data), *y = x, *before = x, *g = NULL;
  for (int i = 0; i < STEPS; i++) {
    tn_tensor *next = step(y, before);
    before = y;
    y = next;
  }
  int axis[RANK], n = draw_axes(axis);
  tn_tensor *last = tn_sum(tn_tanh(y), axis, n, false);
  if (gradient && tn_grad(tn_sum(last, NULL, 0, false), 1, &x, &g)) fail_msg("%s", tn_last_error(c)->text);
  tn_tensor *read = gradient ? g : last;
  size_t count = (size_t)tn_numel(read);
  if (tn_read(read, out, count * sizeof *out))
    fail_msg("%s, seed %llu: %s", device, (unsigned long long)seed, tn_last_error(c)->text);
  tn_ctx_close(c);
  return count;
}

static void none_is_refused(void **state) {
  static const char *const device[] = {"ref:cpu", "ref:sm_90", "ref:opencl", "cpu"};
  static float want[1 << RANK], got[1 << RANK];
  unsigned long seen = 0;
  (void)state;
  for (uint64_t seed = 0; seed < DRAWS; seed++) {
    if (!is_taken(&seen)) continue;
    size_t n = compute("ref", seed, seed % 2, want);
    const char *on = device[seed % (sizeof device / sizeof *device)];
    assert_int_equal(compute(on, seed, seed % 2, got), n);
    for (size_t i = 0; i < n; i++)
      if (!(fabsf(got[i] - want[i]) <= 2e-3f * (1 + fabsf(want[i]))) && !(isnan(got[i]) && isnan(want[i])))
        fail_msg("%s, seed %llu: element %zu is %g, not %g", on, (unsigned long long)seed, i, got[i], want[i]);
  }
}

/* Sums beside each other, over all axes: by their loops they are too many for one kernel. */
static void sums_beside_each_other(void **state) {
  static const char *const device[] = {"ref", "ref:cpu", "ref:sm_90", "ref:opencl", "cpu"};
  (void)state;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = device[d], .quiet = 1});
    tn_dim dim[RANK];
    double got, want = 0;
    tn_program_info info;
    for (int i = 0; i < RANK; i++) dim[i] = 2;
    tn_tensor *x = tn_full(c, TN_F64, dim, RANK, 1), *sum = tn_zeros(c, TN_F64, dim, RANK);
    assert_int_equal(tn_realize(&x, 1), TN_OK);
    for (int i = 0; i < MOST; i++) {
      int axis[RANK], n = 0;
      for (int k = 0; k < RANK; k++) axis[n++] = k;
      sum = tn_add(sum, tn_sum(tn_tanh(tn_mul_scalar(x, 0.1 * (i + 1))), axis, n, true));
      want += tanh(0.1 * (i + 1)) * (double)(1 << n);
    }
    tn_tensor *mean = tn_mean(sum, NULL, 0, false);
    assert_int_equal(tn_get_info(&mean, 1, &info), TN_OK);
    if (info.kernels < 2 || info.kernels > MOST + 2) fail_msg("%s: %d kernels", device[d], (int)info.kernels);
    assert_int_equal(tn_item(mean, &got), TN_OK);
    if (!(fabs(got - want) < 1e-12 * want)) fail_msg("%s: %g, not %g", device[d], got, want);
    tn_ctx_close(c);
  }
}

/* Sums of sums: each opens its loops inside the one before, until a kernel has enough. */
static void nested_sums(void **state) {
  static const char *const device[] = {"ref", "ref:cpu", "ref:sm_90", "ref:opencl"};
  (void)state;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = device[d], .quiet = 1});
    tn_dim dim[RANK];
    int axis[RANK - 1];
    double v;
    tn_program_info info;
    for (int i = 0; i < RANK; i++) dim[i] = i < 3 ? 3 : 1 + i % 2;
    for (int i = 0; i < RANK - 1; i++) axis[i] = i;
    tn_tensor *x = tn_full(c, TN_F64, dim, RANK, 1);
    assert_int_equal(tn_realize(&x, 1), TN_OK);
    for (int i = 0; i < MOST; i++) x = tn_sub(x, tn_mul_scalar(tn_mean(tn_square(x), axis, RANK - 1, true), 0.5));
    tn_tensor *mean = tn_mean(x, NULL, 0, false);
    assert_int_equal(tn_get_info(&mean, 1, &info), TN_OK);
    int least = strstr(device[d], "sm_") ? 1 : 2; /* there they are stages of one launch */
    if (info.kernels < least || info.kernels > MOST + 2) fail_msg("%s: %d kernels", device[d], (int)info.kernels);
    assert_int_equal(tn_item(mean, &v), TN_OK);
    double want = 1;
    for (int i = 0; i < MOST; i++) want -= 0.5 * want * want;
    if (!(fabs(v - want) < 1e-12)) fail_msg("%s: %g, not %g", device[d], v, want);
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(none_is_refused), cmocka_unit_test(sums_beside_each_other),
                                     cmocka_unit_test(nested_sums)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
