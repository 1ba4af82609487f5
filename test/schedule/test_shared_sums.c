/* Norms of rows that no group keeps, with gradients: their sums are made of sums that one reading finds, and come as
 * near as those that are taken one by one. */
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

static const char GROUPS[] = "ref:opencl"; /* a unit keeps 65536 elements */

typedef struct scene {
  const char *name;
  tn_dim n, c, k; /* the shape; c has weights */
  bool group;     /* rows are over c and k, else over n and k */
  bool silu;
  bool weighted;  /* weights have gradients */
  int kernels;    /* on GROUPS; -1: any */
} scene;

static const scene scenes[] = {
    {"batch", 2, 3, 45000, false, false, true, 5},
    {"batch, a function behind it", 3, 2, 23333, false, true, true, 5},
    {"group", 2, 64, 1200, true, true, true, 7},
    {"group, rows that groups keep, but weights'", 221, 3, 300, true, false, true, 5},
    {"rows alone", 2, 2, 33333, true, false, false, 3},
    {"kept", 2, 3, 1000, false, false, true, 5},
};
enum { SCENES = sizeof scenes / sizeof *scenes, X = 0, W, B, DY, INPUTS, OUTPUTS = 4 };

/* What is computed: y, and the gradients of x, w and b */
typedef struct results {
  double *v[OUTPUTS];
} results;

static int64_t given(const scene *s, int i) { return i == W || i == B ? s->c : s->n * s->c * s->k; }
static int64_t made(const scene *s, int i) { return i >= 2 ? s->c : s->n * s->c * s->k; }

static results make_results(const scene *s) {
  results r;
  for (int i = 0; i < OUTPUTS; i++) r.v[i] = calloc((size_t)made(s, i), sizeof(double));
  return r;
}

static int64_t row_of(const scene *s, int64_t at) { return s->group ? at / (s->c * s->k) : at / s->k % s->c; }

/* In doubles, as formulas say */
static results judge(const scene *s, float *const *in) {
  int64_t n = given(s, X), rows = s->group ? s->n : s->c;
  double *mean = calloc((size_t)rows, sizeof *mean), *var = calloc((size_t)rows, sizeof *var);
  double *a = calloc((size_t)rows, sizeof *a), *b = calloc((size_t)rows, sizeof *b), size = (double)(n / rows);
  results r = make_results(s);
  for (int64_t i = 0; i < n; i++) mean[row_of(s, i)] += in[X][i] / size;
  for (int64_t i = 0; i < n; i++) var[row_of(s, i)] += pow(in[X][i] - mean[row_of(s, i)], 2) / size;
  double *dz = calloc((size_t)n, sizeof *dz);
  for (int64_t i = 0; i < n; i++) {
    int64_t row = row_of(s, i), c = i / s->k % s->c;
    double off = (in[X][i] - mean[row]) / sqrt(var[row] + 1e-5), z = off * in[W][c] + in[B][c];
    double sigmoid = 1 / (1 + exp(-z));
    r.v[0][i] = s->silu ? z * sigmoid : z;
    dz[i] = in[DY][i] * (s->silu ? sigmoid * (1 + z * (1 - sigmoid)) : 1);
    r.v[2][c] += dz[i] * off;
    r.v[3][c] += dz[i];
    a[row] += dz[i] * in[W][c] / size;
    b[row] += dz[i] * in[W][c] * off / size;
  }
  for (int64_t i = 0; i < n; i++) {
    int64_t row = row_of(s, i);
    double scale = 1 / sqrt(var[row] + 1e-5), off = (in[X][i] - mean[row]) * scale;
    r.v[1][i] = scale * (dz[i] * in[W][i / s->k % s->c] - a[row] - off * b[row]);
  }
  free(mean), free(var), free(a), free(b), free(dz);
  return r;
}

static tn_tensor *norm(const scene *s, tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  tn_dim flat[] = {s->n, s->c * s->k}, shape[] = {s->n, s->c, s->k};
  int row = 1, columns[] = {0, 2};
  tn_tensor *rows = s->group ? tn_reshape(x, flat, 2) : x;
  const int *axes = s->group ? &row : columns;
  int n = s->group ? 1 : 2;
  tn_tensor *off = tn_sub(rows, tn_mean(rows, axes, n, true));
  tn_tensor *var = tn_mean(tn_mul(off, off), axes, n, true);
  tn_tensor *y = tn_div(off, tn_sqrt(tn_add_scalar(var, 1e-5)));
  y = tn_add(tn_mul(s->group ? tn_reshape(y, shape, 3) : y, w), b);
  return s->silu ? tn_silu(y) : y;
}

static int run(const scene *s, const char *device, float *const *in, results *out) {
  static const char *const inputs[] = {"x", "w", "b", "dy"}, *const outputs[] = {"y", "dx", "dw", "db"};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  tn_program_info info;
  assert_non_null(c);
  tn_scope(c) {
    tn_dim shape[] = {s->n, s->c, s->k}, few[] = {1, s->c, 1};
    int count = s->weighted ? OUTPUTS : 2;
    tn_program *p = tn_program_begin(c);
    tn_tensor *t[INPUTS], *result[OUTPUTS];
    for (int i = 0; i < INPUTS; i++) t[i] = tn_program_input(p, inputs[i], TN_F32, i == W || i == B ? few : shape, 3);
    result[0] = norm(s, t[X], t[W], t[B]);
    OK(tn_vjp(result[0], t[DY], count - 1, t, result + 1));
    for (int i = 0; i < count; i++) OK(tn_program_output(p, outputs[i], result[i]));
    OK(tn_program_end(p));
    OK(tn_program_get_info(p, &info));
    for (int i = 0; i < INPUTS; i++) {
      const tn_dim *dim = i == W || i == B ? few : shape;
      OK(tn_program_write(p, inputs[i], dim, 3, in[i], (size_t)given(s, i) * sizeof(float)));
    }
    OK(tn_program_run(p));
    for (int i = 0; i < count; i++) {
      float *v = malloc((size_t)made(s, i) * sizeof *v);
      OK(tn_program_read(p, outputs[i], v, (size_t)made(s, i) * sizeof *v));
      for (int64_t k = 0; k < made(s, i); k++) out->v[i][k] = v[k];
      free(v);
    }
  }
  tn_ctx_close(c);
  return info.kernels;
}

static void compare(const scene *s, const char *device) {
  static const char *const what[] = {"y", "dx", "dw", "db"};
  uint64_t state = 7;
  float *in[INPUTS];
  for (int i = 0; i < INPUTS; i++) {
    in[i] = malloc((size_t)given(s, i) * sizeof(float));
    for (int64_t k = 0; k < given(s, i); k++) in[i][k] = (float)(drawn(&state) + (i == X ? 3 : i == W ? 2 : 0));
  }
  results should = judge(s, in), is = make_results(s);
  int kernels = run(s, device, in, &is);
  if (!strcmp(device, GROUPS) && s->kernels >= 0 && kernels != s->kernels)
    fail_msg("%s: %d kernels, should be %d", s->name, kernels, s->kernels);
  for (int i = 0; i < (s->weighted ? OUTPUTS : 2); i++) {
    double most = 0;
    for (int64_t k = 0; k < made(s, i); k++) most = fmax(most, fabs(should.v[i][k]));
    for (int64_t k = 0; k < made(s, i); k++)
      if (!(fabs(is.v[i][k] - should.v[i][k]) <= 2e-5 * most))
        fail_msg("%s: %s[%lld] is %.9g, should be %.9g", s->name, what[i], (long long)k, is.v[i][k], should.v[i][k]);
  }
  for (int i = 0; i < OUTPUTS; i++) free(should.v[i]), free(is.v[i]);
  for (int i = 0; i < INPUTS; i++) free(in[i]);
}

static void test_norms(void **state) {
  (void)state;
  for (int i = 0; i < SCENES; i++) compare(&scenes[i], device_or(GROUPS));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
