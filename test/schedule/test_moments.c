/* Variances of rows that no group keeps: read once where groups are, and as near as two readings come. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/ctx.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
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

/* Element i of n: about 0; far from it, where squares less the mean's square would be noise; so, blocks having means of
 * their own, which what is rounded in these would be multiplied with; all the same */
static double plain(int64_t i, int64_t n, double r) { return (void)i, (void)n, r; }
static double far_off(int64_t i, int64_t n, double r) { return (void)i, (void)n, 4096 + r; }
static double rising(int64_t i, int64_t n, double r) { return (1 << 20) + 1000.0 * (double)i / (double)n + r; }
static double equal(int64_t i, int64_t n, double r) { return (void)i, (void)n, (void)r, 0.1; }

static const char GROUPS[] = "ref:opencl"; /* has few units, for which few blocks are enough */

typedef struct scene {
  const char *name;
  double (*value)(int64_t i, int64_t n, double r);
  tn_dim shape[3];
  int axes[2], naxes;
  int kernels; /* on GROUPS; -1: any */
  double within; /* of the greatest variance, relative */
  enum { AS_IT_IS, STORED } given; /* stored: what is permuted, in memory of its own */
} scene;

enum { WHOLE = 1 << 15 };
static const scene scenes[] = {
    {"one row", plain, {1, 1, 9 * WHOLE}, {2}, 1, 2, 1e-6, AS_IT_IS},
    {"far from zero", far_off, {1, 1, 9 * WHOLE}, {2}, 1, 2, 1e-5, AS_IT_IS},
    {"rising", rising, {1, 1, 9 * WHOLE}, {2}, 1, 2, 4e-6, AS_IT_IS},
    {"equal", equal, {1, 1, 9 * WHOLE}, {2}, 1, 2, 0, AS_IT_IS},
    {"something left over", plain, {1, 1, 9 * WHOLE + 77}, {2}, 1, 2, 1e-6, AS_IT_IS},
    {"two rows", far_off, {1, 2, 5 * WHOLE - 5}, {2}, 1, 2, 1e-5, AS_IT_IS},
    {"images", plain, {43, 2, 3501}, {0, 2}, 2, 2, 1e-6, AS_IT_IS},
    {"lines", rising, {900, 2, 167}, {0, 2}, 2, 2, 4e-6, AS_IT_IS},
    {"kept", plain, {1, 9, 1 << 15}, {2}, 1, 1, 1e-6, AS_IT_IS},
    {"columns", plain, {5 * WHOLE, 1, 2}, {0}, 1, -1, 1e-6, AS_IT_IS},
    {"stored so before", plain, {1, 2, 5 * WHOLE - 5}, {2}, 1, 3, 1e-6, STORED},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

static bool reduced(const scene *s, int axis) { return s->axes[0] == axis || (s->naxes > 1 && s->axes[1] == axis); }

/* Which result element [i, j, k] is part of, and how many there are */
static int64_t row_of(const scene *s, int64_t i, int64_t j, int64_t k) {
  int64_t at = reduced(s, 0) ? 0 : i;
  at = reduced(s, 1) ? at : at * s->shape[1] + j;
  return reduced(s, 2) ? at : at * s->shape[2] + k;
}
static int64_t rows_of(const scene *s) { return row_of(s, s->shape[0] - 1, s->shape[1] - 1, s->shape[2] - 1) + 1; }

/* Variances in doubles, by two readings */
static void judge(const scene *s, const float *x, double *mean, double *var) {
  int64_t rows = rows_of(s);
  double n = (double)(s->shape[0] * s->shape[1] * s->shape[2] / rows);
  for (int64_t r = 0; r < rows; r++) mean[r] = var[r] = 0;
  for (int squares = 0; squares < 2; squares++)
    for (int64_t i = 0, at = 0; i < s->shape[0]; i++)
      for (int64_t j = 0; j < s->shape[1]; j++)
        for (int64_t k = 0; k < s->shape[2]; k++, at++) {
          int64_t r = row_of(s, i, j, k);
          double d = x[at] - mean[r];
          if (squares) var[r] += d * d / n;
          else var[r] += x[at] / n;
          if (!squares && at == s->shape[0] * s->shape[1] * s->shape[2] - 1)
            for (r = 0; r < rows; r++) mean[r] = var[r], var[r] = 0;
        }
}

typedef struct results {
  float *var, *mean, *norm;
  int kernels;
} results;

static float *values_of(tn_program *p, tn_ctx *c, const char *name) {
  size_t bytes = tn_nbytes(tn_program_result(p, name));
  float *v = malloc(bytes);
  OK(tn_program_read(p, name, v, bytes));
  return v;
}

/* x with its axes the other way round */
static float *turned(const scene *s, const float *x) {
  const tn_dim *n = s->shape;
  float *y = malloc((size_t)(n[0] * n[1] * n[2]) * sizeof *y);
  for (int64_t i = 0, at = 0; i < n[0]; i++)
    for (int64_t j = 0; j < n[1]; j++)
      for (int64_t k = 0; k < n[2]; k++, at++) y[(k * n[1] + j) * n[0] + i] = x[at];
  return y;
}

/* with: what is asked for beside the variance: nothing, the mean, or the row less its mean over the deviation */
static results run(const scene *s, const char *device, int with, const float *x) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  results r = {0};
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_dim other[] = {s->shape[2], s->shape[1], s->shape[0]};
    const tn_dim *shape = s->given ? other : s->shape;
    tn_tensor *in = tn_program_input(p, "x", TN_F32, shape, 3);
    if (s->given) in = tn_contiguous(tn_permute(in, (int[]){2, 1, 0}, 3));
    tn_tensor *mean = tn_mean(in, s->axes, s->naxes, true);
    tn_tensor *var = tn_var(in, s->axes, s->naxes, 0, true);
    if (with < 2) OK(tn_program_output(p, "var", var));
    if (with == 1) OK(tn_program_output(p, "mean", mean));
    if (with == 2) OK(tn_program_output(p, "norm", tn_div(tn_sub(in, mean), tn_sqrt(tn_add_scalar(var, 1)))));
    OK(tn_program_end(p));
    tn_program_info info;
    OK(tn_program_get_info(p, &info));
    r.kernels = info.kernels;
    float *data = s->given ? turned(s, x) : NULL;
    OK(tn_program_write(p, "x", shape, 3, data ? data : x, (size_t)(shape[0] * shape[1] * shape[2]) * sizeof *x));
    free(data);
    OK(tn_program_run(p));
    if (with < 2) r.var = values_of(p, c, "var");
    if (with == 1) r.mean = values_of(p, c, "mean");
    if (with == 2) r.norm = values_of(p, c, "norm");
  }
  tn_ctx_close(c);
  return r;
}

/* One kernel reads, and one joins what it found; where results go on to the elements, one more reads again. */
static void check_kernels(const scene *s, int with, int kernels) {
  int should = s->kernels + (with == 2 && s->kernels > 1);
  if (s->kernels > 0 && kernels != should)
    fail_msg("%s, %d: %d kernels, should be %d", s->name, with, kernels, should);
}

static void compare(const scene *s, const char *device, int with, int number) {
  int64_t n = s->shape[0] * s->shape[1] * s->shape[2], rows = rows_of(s);
  float *x = malloc((size_t)n * sizeof *x);
  double *mean = malloc((size_t)rows * sizeof *mean), *var = malloc((size_t)rows * sizeof *var), most = 0;
  uint64_t state = (uint64_t)number + 1;
  for (int64_t i = 0; i < n; i++) x[i] = (float)s->value(i, n, drawn(&state));
  judge(s, x, mean, var);
  results r = run(s, device, with, x);
  if (!strcmp(device, GROUPS)) check_kernels(s, with, r.kernels);
  for (int64_t i = 0; i < rows; i++) most = fmax(most, var[i]);
  for (int64_t i = 0; i < rows && r.var; i++) {
    double off = fabs(r.var[i] - var[i]);
    if (!(off <= s->within * most + 1e-12) || r.var[i] < 0)
      fail_msg("%s on %s: %.9g should be %.9g, is off by %.3g of it", s->name, device, (double)r.var[i], var[i],
               off / most);
    if (r.mean && !(fabs(r.mean[i] - mean[i]) <= 1e-6 * fabs(mean[i]) + 1e-5)) fail_msg("%s: mean", s->name);
  }
  for (int64_t i = 0, at = 0; i < s->shape[0] && r.norm; i++)
    for (int64_t j = 0; j < s->shape[1]; j++)
      for (int64_t k = 0; k < s->shape[2]; k++, at++) {
        int64_t row = row_of(s, i, j, k);
        double should = (x[at] - mean[row]) / sqrt(var[row] + 1);
        if (!(fabs(r.norm[at] - should) <= 1e-3)) fail_msg("%s: norm at %lld", s->name, (long long)at);
      }
  free(x), free(mean), free(var), free(r.var), free(r.mean), free(r.norm);
}

static void test_values(void **state) {
  (void)state;
  for (int i = 0; i < SCENES; i++) compare(&scenes[i], device_or(GROUPS), i % 3, i);
  compare(&scenes[2], device_or(GROUPS), 0, SCENES);
  compare(&scenes[7], device_or(GROUPS), 0, SCENES + 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
