/* Sums of exponentials over rows that no group keeps: read once where groups are, with the values of two readings. */
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

#define OK(x) check_ok(c, x, __LINE__)

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}

static double drawn(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (double)(int32_t)(*state >> 33) / 1073741824.0 - 1;
}

/* Element i of a row of n: about 0; more from block to block, so that their greatest lie far apart, or not far; nothing
 * in the first half, and little that is far below 0 in the other; nothing; something infinite; no number */
static double plain(int64_t i, int64_t n, double r) { return (void)i, (void)n, 5 * r; }
static double rising(int64_t i, int64_t n, double r) { return 3000 * (double)i / (double)n + r; }
static double slow(int64_t i, int64_t n, double r) { return 10 * (double)i / (double)n + r - 10; }
static double half(int64_t i, int64_t n, double r) { return 2 * i < n ? -INFINITY : r - 200; }
static double none(int64_t i, int64_t n, double r) { return (void)i, (void)n, (void)r, -INFINITY; }
static double endless(int64_t i, int64_t n, double r) { return i == n / 3 ? INFINITY : r; }
static double unknown(int64_t i, int64_t n, double r) { return i == n - 1 ? NAN : r; }

static const char GROUPS[] = "ref:opencl"; /* has few units, for which few blocks are enough */
enum { WHOLE = 1 << 15, ROWS = 2 };

typedef struct scene {
  const char *name;
  double (*value[ROWS])(int64_t i, int64_t n, double r);
  tn_dim row;
  enum { LOG_SUM_EXP, SOFTMAX, OTHER, BARE } what; /* the sums of exp(x + the greatest), exp(x - the greatest) */
  int kernels;  /* on GROUPS: one reads, one joins what it found; softmax joins one by one, and reads again */
} scene;

static const scene scenes[] = {
    {"log-sum-exp", {plain, rising}, 5 * WHOLE, LOG_SUM_EXP, 2},
    {"something left over", {rising, half}, 5 * WHOLE - 5, LOG_SUM_EXP, 2},
    {"nothing", {none, half}, 5 * WHOLE, LOG_SUM_EXP, 2},
    {"infinite", {endless, unknown}, 5 * WHOLE, LOG_SUM_EXP, 2},
    {"softmax", {rising, half}, 5 * WHOLE, SOFTMAX, 4},
    {"softmax, something left over", {half, rising}, 5 * WHOLE - 5, SOFTMAX, 4},
    {"softmax of nothing", {none, plain}, 5 * WHOLE, SOFTMAX, 4},
    {"softmax, infinite", {endless, unknown}, 5 * WHOLE, SOFTMAX, 4},
    {"kept", {plain, half}, WHOLE, LOG_SUM_EXP, 1},
    {"other exponentials", {slow, slow}, 5 * WHOLE, OTHER, 2},
    {"-inf is taken off, too", {half, none}, 5 * WHOLE, BARE, 2},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

static double greatest(const float *x, int64_t n) {
  double most = -INFINITY;
  for (int64_t i = 0; i < n; i++) most = x[i] > most || x[i] != x[i] ? (double)x[i] : most;
  return most;
}

static bool is_near(double is, double should) {
  return is == should || (isnan(is) && isnan(should)) || fabs(is - should) <= 4e-6 * fmax(fabs(should), 1e-6);
}

static void judge(const scene *s, const float *x, const float *y) {
  double most = greatest(x, s->row), sum = 0;
  double off = most > -INFINITY && (s->what == SOFTMAX || most < INFINITY) ? most : 0;
  if (s->what == OTHER || s->what == BARE) off = s->what == BARE ? most : -most;
  for (int64_t i = 0; i < s->row; i++) sum += exp(x[i] - off);
  double one = s->what == OTHER || s->what == BARE ? sum : log(sum) + off;
  if (s->what != SOFTMAX && !is_near(y[0], one))
    fail_msg("%s: %.9g, should be %.9g", s->name, (double)y[0], one);
  for (int64_t i = 0; i < s->row && s->what == SOFTMAX; i++) {
    double should = exp(x[i] - off) / (sum > 0 || sum != sum ? sum : 1);
    if (!is_near(y[i], should))
      fail_msg("%s: element %lld is %.9g, should be %.9g", s->name, (long long)i, (double)y[i], should);
  }
}

static void compute(const scene *s, const char *device, float *x, float *y) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    int axis = 1;
    tn_dim shape[] = {ROWS, s->row};
    tn_program_info info;
    tn_program *p = tn_program_begin(c);
    tn_tensor *in = tn_program_input(p, "x", TN_F32, shape, 2);
    tn_tensor *most = tn_max(in, &axis, 1, true);
    tn_tensor *other = tn_exp(s->what == BARE ? tn_sub(in, most) : tn_add(in, most));
    tn_tensor *out = s->what == SOFTMAX       ? tn_softmax(in, axis)
                     : s->what == LOG_SUM_EXP ? tn_logsumexp(in, &axis, 1, false)
                                              : tn_sum(other, &axis, 1, false);
    OK(tn_program_output(p, "y", out));
    OK(tn_program_end(p));
    OK(tn_program_get_info(p, &info));
    if (!strcmp(device, GROUPS) && info.kernels != s->kernels)
      fail_msg("%s: %d kernels, should be %d", s->name, info.kernels, s->kernels);
    OK(tn_program_write(p, "x", shape, 2, x, (size_t)(ROWS * s->row) * sizeof *x));
    OK(tn_program_run(p));
    OK(tn_program_read(p, "y", y, tn_nbytes(tn_program_result(p, "y"))));
  }
  tn_ctx_close(c);
}

static void test_values(void **state) {
  (void)state;
  for (int k = 0; k < SCENES; k++) {
    const scene *s = &scenes[k];
    uint64_t at = (uint64_t)k + 1;
    float *x = malloc((size_t)(ROWS * s->row) * sizeof *x), *y = malloc((size_t)(ROWS * s->row) * sizeof *y);
    for (int64_t i = 0; i < ROWS * s->row; i++) x[i] = (float)s->value[i / s->row](i % s->row, s->row, drawn(&at));
    compute(s, device_or(GROUPS), x, y);
    for (int64_t r = 0; r < ROWS; r++) judge(s, x + r * s->row, y + r * (s->what == SOFTMAX ? s->row : 1));
    free(x), free(y);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
