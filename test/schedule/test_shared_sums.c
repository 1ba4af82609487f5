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

/* A unit keeps 65536 elements.  A launch takes no time on one, longer than all that is added up here on the other. */
static const char GROUPS[] = "ref:opencl", LAUNCHES[] = "ref:sm_90", SLICES[] = "ref:cpu";

typedef struct scene {
  const char *name;
  tn_dim n, c, k; /* the shape; c has weights */
  bool group;     /* rows are over c and k, else over n and k */
  bool silu;
  bool weighted;  /* weights have gradients */
  int kernels, parts;         /* on GROUPS; of them, which are a launch each, on LAUNCHES; -1: any */
  double mean, apart, spread; /* of x: that of the first channel, from each to the next, about it */
  tn_dtype dtype;             /* of x, which is made f32 */
  int slices;                 /* kernels on SLICES, where it runs if that is not -1 */
} scene;

static const scene scenes[] = {
    {"batch", 2, 3, 45000, false, false, true, 5, 5, 3, 0, 1, TN_F32, -1},
    {"batch, a function behind it", 3, 2, 23333, false, true, true, 5, 7, 3, 0, 1, TN_F32, -1},
    {"group", 2, 64, 1200, true, true, true, 7, -1, 3, 0, 1, TN_F32, -1},
    {"group, far from zero", 3, 5, 14001, true, false, true, 5, 6, 1e4, 0, 0.5, TN_F32, -1},
    {"group, channels far from each other", 3, 5, 14001, true, false, true, 5, 6, -2000, 1000, 1, TN_F32, -1},
    {"group of f16", 3, 5, 14001, true, false, true, 5, 6, 500, 8, 16, TN_F16, -1},
    {"group of bf16", 2, 7, 10007, true, false, true, 5, 6, 50, -2, 16, TN_BF16, -1},
    {"group, rows that groups keep, but weights'", 221, 3, 300, true, false, true, 5, 3, 3, 0, 1, TN_F32, -1},
    {"rows alone", 2, 2, 33333, true, false, false, 3, 6, 3, 0, 1, TN_F32, -1},
    {"group, one sample", 1, 3, 140001, true, false, true, -1, -1, 3, 0, 1, TN_F32, 7},
    {"kept", 2, 3, 1000, false, false, true, 5, 1, 3, 0, 1, TN_F32, -1},
};
enum { SCENES = sizeof scenes / sizeof *scenes, DRAWN = 6, X = 0, W, B, DY, INPUTS, OUTPUTS = 4 };

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

/* What its kernels consist of */
static int parts_of(tn_ctx *c, const tn_program *p) {
  char *text = tn_program_explain_string(p);
  int n = 0;
  if (!text) fail_msg("%s", tn_last_error(c)->text);
  for (const char *at = text; at && (at = strstr(at, "{\"part\"}")); at++) n++;
  tn_string_free(text);
  return n;
}

static int run(const scene *s, const char *device, float *const *in, results *out) {
  static const char *const inputs[] = {"x", "w", "b", "dy"}, *const outputs[] = {"y", "dx", "dw", "db"};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  tn_program_info info;
  int planned = 0;
  assert_non_null(c);
  tn_scope(c) {
    tn_dim shape[] = {s->n, s->c, s->k}, few[] = {1, s->c, 1};
    int count = s->weighted ? OUTPUTS : 2;
    tn_program *p = tn_program_begin(c);
    tn_tensor *t[INPUTS], *result[OUTPUTS];
    for (int i = 0; i < INPUTS; i++) t[i] = tn_program_input(p, inputs[i], TN_F32, i == W || i == B ? few : shape, 3);
    result[0] = norm(s, tn_cast(tn_cast(t[X], s->dtype), TN_F32), t[W], t[B]);
    OK(tn_vjp(result[0], t[DY], count - 1, t, result + 1));
    for (int i = 0; i < count; i++) OK(tn_program_output(p, outputs[i], result[i]));
    OK(tn_program_end(p));
    OK(tn_program_get_info(p, &info));
    planned = strcmp(device, LAUNCHES) ? info.kernels : parts_of(c, p);
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
  return planned;
}

/* Element k of input i; of x such as f16 and bf16 hold, too */
static float value_of(const scene *s, int i, int64_t k, double r) {
  double x = s->mean + s->apart * (double)(k / s->k % s->c) + s->spread * r;
  if (i == X) return (float)(s->dtype == TN_F32 ? x : rint(2 * x) / 2);
  return (float)(r + (i == W ? 2 : 0));
}

/* Sums of f32, and a mean that is rounded to f32, off by some of its last bits: so are elements less that, of how far
 * they lie apart.  The gradient of x is of its dtype. */
static double within(const scene *s, int output) {
  double most = fmax(fabs(s->mean), fabs(s->mean + s->apart * (double)s->c));
  double rounded = output != 1 || s->dtype == TN_F32 ? 0 : ldexp(1, s->dtype == TN_F16 ? -11 : -8);
  return 2e-5 + 8 * most / s->spread * ldexp(1, -24) + rounded;
}

static void compare(const scene *s, const char *device) {
  static const char *const what[] = {"y", "dx", "dw", "db"};
  uint64_t state = 7;
  float *in[INPUTS];
  for (int i = 0; i < INPUTS; i++) {
    in[i] = malloc((size_t)given(s, i) * sizeof(float));
    for (int64_t k = 0; k < given(s, i); k++) in[i][k] = value_of(s, i, k, drawn(&state));
  }
  results should = judge(s, in), is = make_results(s);
  int is_planned = run(s, device, in, &is);
  int planned = !strcmp(device, GROUPS)     ? s->kernels
                : !strcmp(device, LAUNCHES) ? s->parts
                : !strcmp(device, SLICES)   ? s->slices
                                            : -1;
  if (planned >= 0 && is_planned != planned)
    fail_msg("%s: %d kernels on %s, should be %d", s->name, is_planned, device, planned);
  for (int i = 0; i < (s->weighted ? OUTPUTS : 2); i++) {
    double most = 0;
    for (int64_t k = 0; k < made(s, i); k++) most = fmax(most, fabs(should.v[i][k]));
    for (int64_t k = 0; k < made(s, i); k++)
      if (!(fabs(is.v[i][k] - should.v[i][k]) <= within(s, i) * most))
        fail_msg("%s, %s: %s[%lld] is %.9g, should be %.9g", s->name, device, what[i], (long long)k, is.v[i][k],
                 should.v[i][k]);
  }
  for (int i = 0; i < OUTPUTS; i++) free(should.v[i]), free(is.v[i]);
  for (int i = 0; i < INPUTS; i++) free(in[i]);
}

static void test_norms(void **state) {
  (void)state;
  for (int i = 0; i < SCENES; i++) compare(&scenes[i], device_or(GROUPS));
  for (int i = 0; i < SCENES; i++) compare(&scenes[i], device_or(LAUNCHES));
  for (int i = 0; i < SCENES; i++)
    if (scenes[i].slices >= 0) compare(&scenes[i], device_or(SLICES));
}

static int64_t below(uint64_t *state, int64_t n) { return (int64_t)((drawn(state) + 1) / 2 * (double)n) % n; }

static void drawn_norms(void **state) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F32, TN_F16, TN_BF16};
  uint64_t seed = 20261129;
  (void)state;
  for (int i = 0; i < DRAWN; i++) {
    scene s = {.name = "drawn", .kernels = -1, .parts = -1, .slices = -1, .weighted = true, .mean = 100 * drawn(&seed)};
    s.n = 1 + below(&seed, 4);
    s.c = 1 + below(&seed, 9);
    s.group = below(&seed, 3) > 0;
    s.silu = below(&seed, 2) > 0;
    s.k = (66000 + below(&seed, 9000)) / (s.group ? s.c : s.n);
    s.apart = 4 * drawn(&seed);
    s.spread = 8 + 8 * drawn(&seed);
    s.dtype = dtypes[below(&seed, 4)];
    compare(&s, device_or(i % 2 ? GROUPS : LAUNCHES));
  }
}

/* Sums of rows less their means, and of these by channels.  That of the rows is what the means' last bits, and those of
 * the terms, make of nothing: as a sum less so many times the mean it would be off by the last bits of that. */
static void less_means(const char *device, int64_t n, int64_t channels, int64_t size) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  int64_t row = channels * size;
  float *x = malloc((size_t)(n * row) * sizeof *x), mean[8], sum[8], by[8];
  uint64_t state = 99;
  assert_true(c && n <= 8 && channels <= 8);
  for (int64_t i = 0; i < n * row; i++) x[i] = (float)(1e4 + drawn(&state));
  tn_scope(c) {
    tn_dim flat[] = {n, row}, shape[] = {n, channels, size};
    tn_program *p = tn_program_begin(c);
    tn_tensor *rows = tn_program_input(p, "x", TN_F32, flat, 2), *m = tn_mean(rows, (int[]){1}, 1, true);
    tn_tensor *off = tn_sub(rows, m);
    OK(tn_program_output(p, "mean", m));
    OK(tn_program_output(p, "sum", tn_sum(off, (int[]){1}, 1, false)));
    OK(tn_program_output(p, "by", tn_sum(tn_reshape(off, shape, 3), (int[]){0, 2}, 2, false)));
    OK(tn_program_end(p));
    OK(tn_program_write(p, "x", flat, 2, x, (size_t)(n * row) * sizeof *x));
    OK(tn_program_run(p));
    OK(tn_program_read(p, "mean", mean, (size_t)n * sizeof *mean));
    OK(tn_program_read(p, "sum", sum, (size_t)n * sizeof *sum));
    OK(tn_program_read(p, "by", by, (size_t)channels * sizeof *by));
  }
  double should[8] = {0}, should_by[8] = {0}, all = 0;
  for (int64_t i = 0; i < n * row; i++) {
    double off = (double)x[i] - mean[i / row];
    should[i / row] += off;
    should_by[i / size % channels] += off;
    all += fabs(off) / (double)n;
  }
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(sum[i] - should[i]) <= 1e-6 * all))
      fail_msg("%s: row %d: %g, should be %g", device, (int)i, sum[i], should[i]);
  for (int64_t i = 0; i < channels; i++)
    if (!(fabs(by[i] - should_by[i]) <= 1e-6 * all))
      fail_msg("%s: channel %d: %g, should be %g", device, (int)i, by[i], should_by[i]);
  free(x);
  tn_ctx_close(c);
}

static void rows_less_their_means(void **state) {
  (void)state;
  less_means(device_or(GROUPS), 3, 5, 14001);
  less_means(device_or(LAUNCHES), 3, 5, 14001);
  less_means(device_or(LAUNCHES), 2, 1, 70001);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_norms), cmocka_unit_test(drawn_norms),
                                    cmocka_unit_test(rows_less_their_means)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
