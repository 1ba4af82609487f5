/* Values that other systems' tests state, by the rows of the inventory in which they are listed: Y1, Y2, Y7 to Y9, Y17
 * and Y19.  What those only compare with a reference is compared with loops here. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static tn_ctx *ctx;

static int open_ctx(void **state) {
  (void)state;
  ctx = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
  return ctx == NULL;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(ctx);
  return 0;
}

#define SHAPE(...) (tn_dim[]){__VA_ARGS__}, (int)(sizeof((tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define VALUES(...) (float[]){__VA_ARGS__}

/* from, from+1, ... */
static tn_tensor *counted(double from, const tn_dim *shape, int rank) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  return tn_reshape(tn_arange(ctx, TN_F32, from, from + (double)n, 1), shape, rank);
}

/* Small numbers without a pattern. */
static float drawn(int64_t i) { return (float)((i * 7919 + 13) % 101 - 50) / 64; }

static float *numbers(int64_t n, int64_t from) {
  float *v = malloc((size_t)(n + 1) * sizeof *v);
  for (int64_t i = 0; i < n; i++) v[i] = drawn(from + i);
  return v;
}

static void expect(tn_tensor *t, int64_t n, const float *want, double bound) {
  float *got = malloc((size_t)(n + 1) * sizeof *got);
  if (!t || tn_numel(t) != n) fail_msg("%d elements, not %d: %s", (int)tn_numel(t), (int)n, tn_last_error(ctx)->text);
  if (tn_read(t, got, (size_t)n * sizeof *got) != TN_OK) fail_msg("%s", tn_last_error(ctx)->text);
  for (int64_t i = 0; i < n; i++)
    if (!(fabs((double)got[i] - (double)want[i]) <= bound * fmax(1, fabs((double)want[i]))))
      fail_msg("element %d: %.9g, not %.9g", (int)i, (double)got[i], (double)want[i]);
  free(got);
}
#define EXPECT(t, bound, ...)                                                                                          \
  expect(t, (int64_t)(sizeof(VALUES(__VA_ARGS__)) / sizeof(float)), VALUES(__VA_ARGS__), bound)

static tn_tensor *from(const float *v, const tn_dim *shape, int rank) { return tn_from(ctx, TN_F32, shape, rank, v); }

/* ---- Y1: fused kernels ---- */

static tn_tensor *gradient(tn_tensor *y, tn_tensor *dy, tn_tensor *x) {
  tn_tensor *g = NULL;
  if (tn_vjp(y, dy, 1, &x, &g) != TN_OK) fail_msg("%s", tn_last_error(ctx)->text);
  return g;
}

static void y1_fused_kernels(void **state) {
  (void)state;
  tn_scope(ctx) {
    tn_tensor *a = counted(1, SHAPE(2, 3)), *b = counted(1, SHAPE(3, 2)), *x = counted(1, SHAPE(8));
    EXPECT(tn_relu(tn_add(tn_matmul(a, b), from(VALUES(-100, 1), SHAPE(2)))), 0, 0, 29, 0, 65);
    EXPECT(tn_relu(tn_add(x, x)), 0, 2, 4, 6, 8, 10, 12, 14, 16);
    EXPECT(tn_relu(tn_add(from(VALUES(1, -2, 3, -4, 5, -6), SHAPE(2, 3)), from(VALUES(0, 10, -10), SHAPE(3)))), 0, 1, 8,
           0, 0, 15, 0);
    EXPECT(tn_layer_norm(from(VALUES(1, 2, 3, 4), SHAPE(1, 4)), 1, NULL, NULL, 1e-5), 1e-5, -1.3416354f, -0.4472118f,
           0.4472118f, 1.3416354f);
    EXPECT(tn_gelu(tn_add(from(VALUES(0, -2, 1), SHAPE(3)), from(VALUES(1, 1, 1), SHAPE(3)))), 1e-5, 0.8413447f,
           -0.1586553f, 1.9544997f);
    EXPECT(tn_avg_pool2d(counted(1, SHAPE(1, 1, 4, 4)), 2, 2, NULL), 0, 3.5f, 5.5f, 11.5f, 13.5f);
    /* attention of two rows: the weights of each are 1/(1+e^d), d the difference of its scores */
    tn_tensor *q = from(VALUES(1, 0, 0, 1), SHAPE(2, 2)), *v = counted(1, SHAPE(2, 2));
    float near = 1 / (1 + expf(-1 / sqrtf(2)));
    tn_tensor *s = tn_mul_scalar(tn_matmul(q, tn_transpose(q, 0, 1)), 1 / sqrt(2.0));
    EXPECT(tn_matmul(tn_softmax(s, 1), v), 1e-5, near + 3 * (1 - near), 2 * near + 4 * (1 - near), 1 - near + 3 * near,
           2 * (1 - near) + 4 * near);
    /* normalised over a batch of one channel */
    tn_tensor *image = counted(1, SHAPE(1, 1, 2, 2)), *mean = tn_mean(image, (int[]){0, 2, 3}, 3, true);
    tn_tensor *var = tn_var(image, (int[]){0, 2, 3}, 3, 0, true);
    EXPECT(tn_div(tn_sub(image, mean), tn_sqrt(tn_add_scalar(var, 1e-5))), 1e-5, -1.3416354f, -0.4472118f, 0.4472118f,
           1.3416354f);
    tn_tensor *steps = from(VALUES(-2, -1, 0, 1, 2, 3), SHAPE(6)), *ones = tn_ones_like(steps);
    EXPECT(gradient(tn_relu(steps), ones, steps), 0, 0, 0, 0, 1, 1, 1);
    tn_tensor *m = counted(1, SHAPE(4)), *n = counted(5, SHAPE(4)), *one = tn_ones_like(m);
    EXPECT(gradient(tn_mul(m, n), one, m), 0, 5, 6, 7, 8);
    EXPECT(gradient(tn_mul(m, n), one, n), 0, 1, 2, 3, 4);
    float slope[6];
    for (int i = 0; i < 6; i++) { /* of x Phi(x): Phi(x) + x phi(x) */
      double z = i - 2;
      slope[i] = (float)(0.5 * erfc(-z / sqrt(2)) + z * exp(-z * z / 2) / sqrt(2 * M_PI));
    }
    expect(gradient(tn_gelu(steps), ones, steps), 6, slope, 1e-5);
    float p[4], total = 0, dot = 0, down[4];
    for (int i = 0; i < 4; i++) total += expf((float)i);
    for (int i = 0; i < 4; i++) p[i] = expf((float)i) / total, dot += p[i] * (float)(i + 5);
    for (int i = 0; i < 4; i++) down[i] = p[i] * ((float)(i + 5) - dot);
    expect(gradient(tn_softmax(m, 0), n, m), 4, down, 1e-5);
  }
}

/* ---- Y2: views; strides and offsets are what the elements say ---- */

static void y2_views(void **state) {
  (void)state;
  tn_scope(ctx) {
    tn_tensor *flat = counted(0, SHAPE(3, 4)), *cube = counted(0, SHAPE(2, 3, 4)),
              *four = counted(0, SHAPE(2, 3, 4, 5));
    double v;
    EXPECT(tn_slice(tn_slice(flat, 0, 1, 3, 1), 1, 2, 4, 1), 0, 6, 7, 10, 11);  /* begins at 6, strides 4 and 1 */
    EXPECT(tn_slice(flat, 1, 2, 4, 1), 0, 2, 3, 6, 7, 10, 11);                  /* begins at 2 */
    EXPECT(tn_transpose(flat, 0, 1), 0, 0, 4, 8, 1, 5, 9, 2, 6, 10, 3, 7, 11);
    tn_tensor *turned = tn_permute(cube, (int[]){2, 0, 1}, 3);
    assert_int_equal(tn_size(turned, 0), 4);
    assert_int_equal(tn_size(turned, 1), 2);
    assert_int_equal(tn_size(turned, 2), 3);
    float want[24];
    for (int i = 0; i < 24; i++) want[i] = (float)(i / 6 * 1 + i / 3 % 2 * 12 + i % 3 * 4);
    expect(turned, 24, want, 0);
    assert_int_equal(tn_numel(counted(0, SHAPE(3, 4, 5))), 60);
    tn_item(tn_select(tn_select(flat, 0, 1), 0, 2), &v);
    assert_true(v == 6);
    tn_item(tn_select(tn_select(tn_select(tn_select(four, 0, 1), 0, 1), 0, 1), 0, 1), &v);
    assert_true(v == 60 + 20 + 5 + 1);
    tn_tensor *a = counted(1, SHAPE(2, 3)), *b = counted(1, SHAPE(3, 2));
    tn_tensor *at = from(VALUES(1, 4, 2, 5, 3, 6), SHAPE(3, 2)), *bt = from(VALUES(1, 3, 5, 2, 4, 6), SHAPE(2, 3));
    EXPECT(tn_matmul(a, b), 0, 22, 28, 49, 64);
    EXPECT(tn_matmul(a, tn_transpose(bt, 0, 1)), 0, 22, 28, 49, 64);
    EXPECT(tn_matmul(tn_transpose(at, 0, 1), b), 0, 22, 28, 49, 64);
    tn_tensor *i = tn_eye(ctx, TN_F32, 2, 2);
    EXPECT(gradient(tn_matmul(a, b), i, a), 0, 1, 3, 5, 2, 4, 6);
    EXPECT(gradient(tn_matmul(a, b), i, b), 0, 1, 4, 2, 5, 3, 6);
  }
}

/* ---- Y7: attention ---- */

static void check_attention(int64_t rows, int64_t width, bool causal, bool of_ones) {
  float *in[3], *want = malloc((size_t)(rows * width) * sizeof *want);
  tn_tensor *t[3];
  for (int k = 0; k < 3; k++) {
    in[k] = numbers(rows * width, 1000 * k);
    for (int64_t i = 0; of_ones && i < rows * width; i++) in[k][i] = 1;
    t[k] = from(in[k], SHAPE(rows, width));
  }
  double scale = 1 / sqrt((double)width);
  for (int64_t i = 0; i < rows; i++) {
    double weight[64], total = 0;
    int64_t last = causal ? i + 1 : rows;
    for (int64_t j = 0; j < last; j++) {
      double dot = 0;
      for (int64_t d = 0; d < width; d++) dot += (double)in[0][i * width + d] * (double)in[1][j * width + d];
      total += weight[j] = exp(dot * scale);
    }
    for (int64_t d = 0; d < width; d++) {
      double sum = 0;
      for (int64_t j = 0; j < last; j++) sum += weight[j] / total * (double)in[2][j * width + d];
      want[i * width + d] = (float)sum;
    }
  }
  tn_tensor *s = tn_mul_scalar(tn_matmul(t[0], tn_transpose(t[1], 0, 1)), scale);
  tn_tensor *seen = tn_gt_scalar(tn_tril(tn_ones(ctx, TN_F32, (tn_dim[]){rows, rows}, 2), 0), 0);
  if (causal) s = tn_where(seen, s, tn_full_like(s, -INFINITY));
  expect(tn_matmul(tn_softmax(s, 1), t[2]), rows * width, want, 1e-5);
  for (int k = 0; k < 3; k++) free(in[k]);
  free(want);
}

static void y7_attention(void **state) {
  (void)state;
  tn_scope(ctx) {
    check_attention(4, 8, false, true);
    check_attention(16, 32, false, false);
    check_attention(8, 16, true, false);
    float *v = numbers(32 * 64, 3), ones[32];
    for (int i = 0; i < 32; i++) ones[i] = 1;
    expect(tn_sum(tn_softmax(from(v, SHAPE(32, 64)), 1), (int[]){1}, 1, false), 32, ones, 1e-5);
    free(v);
  }
}

/* ---- Y8: convolutions and pools ---- */

static void check_convolution(int64_t side, int64_t in, int64_t out, int64_t filter, int64_t pad) {
  int64_t places = side + 2 * pad - filter + 1;
  float *x = numbers(in * side * side, 5), *w = numbers(out * in * filter * filter, 11), *b = numbers(out, 7),
        *want = malloc((size_t)(out * places * places) * sizeof *want);
  for (int64_t o = 0; o < out; o++)
    for (int64_t i = 0; i < places * places; i++) {
      float sum = b[o];
      for (int64_t c = 0; c < in; c++)
        for (int64_t k = 0; k < filter * filter; k++) {
          int64_t row = i / places + k / filter - pad, col = i % places + k % filter - pad;
          if (row < 0 || col < 0 || row >= side || col >= side) continue;
          sum += x[(c * side + row) * side + col] * w[(o * in + c) * filter * filter + k];
        }
      want[o * places * places + i] = sum;
    }
  tn_tensor *y = tn_conv2d(from(x, SHAPE(1, in, side, side)), from(w, SHAPE(out, in, filter, filter)),
                           from(b, SHAPE(out)), &(tn_conv2d_options){.padding = {pad, pad}});
  expect(y, out * places * places, want, 1e-4);
  free(x), free(w), free(b), free(want);
}

static void y8_convolutions(void **state) {
  (void)state;
  tn_scope(ctx) {
    check_convolution(28, 1, 32, 3, 1);
    check_convolution(28, 1, 8, 5, 0);
    check_convolution(14, 16, 24, 3, 1);
    check_convolution(56, 16, 16, 3, 1);
    check_convolution(224, 3, 64, 3, 1);
    tn_tensor *image = counted(1, SHAPE(1, 2, 4, 4));
    EXPECT(tn_max_pool2d(image, 2, 2, NULL), 0, 6, 8, 14, 16, 22, 24, 30, 32);
    EXPECT(tn_avg_pool2d(image, 2, 2, NULL), 0, 3.5f, 5.5f, 11.5f, 13.5f, 19.5f, 21.5f, 27.5f, 29.5f);
    EXPECT(tn_mean(image, (int[]){2, 3}, 2, false), 0, 8.5f, 24.5f);
    float want[32]; /* each channel's 16 numbers lie alike about their mean */
    for (int i = 0; i < 32; i++) want[i] = (float)((i % 16 - 7.5) / sqrt(21.25 + 1e-5));
    tn_tensor *mean = tn_mean(image, (int[]){0, 2, 3}, 3, true), *var = tn_var(image, (int[]){0, 2, 3}, 3, 0, true);
    expect(tn_div(tn_sub(image, mean), tn_sqrt(tn_add_scalar(var, 1e-5))), 32, want, 1e-5);
  }
}

/* ---- Y9: long vectors ---- */

static double value_of(tn_tensor *t) {
  double v = NAN;
  if (tn_item(t, &v) != TN_OK) fail_msg("%s", tn_last_error(ctx)->text);
  return v;
}

static void y9_long_vectors(void **state) {
  (void)state;
  tn_scope(ctx) {
    tn_dim n = 10000;
    tn_tensor *x = tn_arange(ctx, TN_F64, 1, 1e6 + 1, 1), *y = tn_arange(ctx, TN_F64, 1, 10001, 1);
    assert_true(value_of(tn_sum(x, NULL, 0, false)) == 1e6 * (1e6 + 1) / 2);
    assert_true(value_of(tn_dot(y, tn_full(ctx, TN_F64, &n, 1, 2))) == 1e4 * (1e4 + 1));
    double squares = 1e4 * (1e4 + 1) * (2e4 + 1) / 6;
    assert_true(fabs(value_of(tn_sqrt(tn_sum(tn_square(y), NULL, 0, false))) - sqrt(squares)) <= 1e-9 * sqrt(squares));
    assert_true(value_of(tn_sum(tn_abs(tn_neg(y)), NULL, 0, false)) == 1e4 * (1e4 + 1) / 2);
    tn_tensor *ones = tn_full(ctx, TN_F64, &n, 1, 1), *tens = tn_full(ctx, TN_F64, &n, 1, 10);
    assert_true(value_of(tn_sum(tn_add(tn_mul_scalar(ones, 3), tens), NULL, 0, false)) == 13.0 * 10000);
    assert_true(value_of(tn_sum(tn_mul_scalar(y, 0.5), NULL, 0, false)) == 1e4 * (1e4 + 1) / 4);
    assert_true(value_of(tn_sum(tn_full(ctx, TN_F64, (tn_dim[]){5000}, 1, 7.5), NULL, 0, false)) == 37500);
  }
}

/* ---- Y17: derivatives, as numbers; and a minimiser that lives on them ---- */

static void derivative(tn_tensor *(*f)(tn_tensor *), const double *x, int64_t n, const double *want) {
  tn_tensor *t = tn_from(ctx, TN_F64, &n, 1, x), *y = f(t), *g = gradient(y, tn_ones_like(y), t);
  double got[16];
  assert_int_equal(tn_read(g, got, (size_t)n * sizeof *got), TN_OK);
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(got[i] - want[i]) <= 1e-12 * fmax(1, fabs(want[i]))))
      fail_msg("derivative %d: %.17g, not %.17g", (int)i, got[i], want[i]);
}

static tn_tensor *squared_norm(tn_tensor *x) { return tn_dot(x, x); }
static tn_tensor *norm(tn_tensor *x) { return tn_sqrt(tn_dot(x, x)); }
static tn_tensor *exp_sin(tn_tensor *x) { return tn_exp(tn_sin(x)); }
static tn_tensor *quotient(tn_tensor *x) { return tn_div(x, tn_add_scalar(tn_square(x), 1)); }

static tn_tensor *loop(tn_tensor *x) { /* x to the 5th, factor by factor */
  tn_tensor *y = x;
  for (int i = 0; i < 4; i++) y = tn_mul(y, x);
  return y;
}

static tn_tensor *fold_left(tn_tensor *x) { /* ((x0*2 + x1)*2 + x2)*2 + x3 */
  tn_tensor *y = tn_zeros(ctx, TN_F64, NULL, 0);
  for (int i = 0; i < 4; i++) y = tn_add(tn_mul_scalar(y, 2), tn_select(x, 0, i));
  return y;
}

static tn_tensor *rosenbrock(tn_tensor *x) {
  tn_tensor *a = tn_select(x, 0, 0), *b = tn_select(x, 0, 1);
  return tn_add(tn_square(tn_rsub_scalar(a, 1)), tn_mul_scalar(tn_square(tn_sub(b, tn_square(a))), 100));
}

static double slope_at(const double *x, double *g) {
  double y = NAN;
  tn_scope(ctx) {
    tn_tensor *t = tn_from(ctx, TN_F64, (tn_dim[]){2}, 1, x), *f = rosenbrock(t), *d = gradient(f, tn_ones_like(f), t);
    tn_item(f, &y);
    tn_read(d, g, 2 * sizeof *g);
  }
  return y;
}

/* Broyden, Fletcher, Goldfarb and Shanno, with steps halved until they lead down enough. */
static void minimise(double *x) {
  double h[4] = {1, 0, 0, 1}, g[2], y = slope_at(x, g);
  for (int i = 0; i < 100 && hypot(g[0], g[1]) > 1e-10; i++) {
    double p[2] = {-h[0] * g[0] - h[1] * g[1], -h[2] * g[0] - h[3] * g[1]}, step = 2, next[2], to[2], at;
    double down = p[0] * g[0] + p[1] * g[1];
    do {
      step /= 2;
      next[0] = x[0] + step * p[0], next[1] = x[1] + step * p[1];
      at = slope_at(next, to);
    } while (!(at <= y + 1e-4 * step * down) && step > 1e-12);
    double s[2] = {next[0] - x[0], next[1] - x[1]}, d[2] = {to[0] - g[0], to[1] - g[1]}, sd = s[0] * d[0] + s[1] * d[1];
    if (sd > 0) { /* h = (1 - s d'/sd) h (1 - d s'/sd) + s s'/sd */
      double hd[2] = {h[0] * d[0] + h[1] * d[1], h[2] * d[0] + h[3] * d[1]}, dhd = d[0] * hd[0] + d[1] * hd[1];
      for (int k = 0; k < 4; k++)
        h[k] += (1 + dhd / sd) * s[k / 2] * s[k % 2] / sd - (s[k / 2] * hd[k % 2] + hd[k / 2] * s[k % 2]) / sd;
    }
    memcpy(x, next, sizeof next);
    memcpy(g, to, sizeof to);
    y = at;
  }
}

static void y17_derivatives(void **state) {
  (void)state;
  const double x[] = {1, -2, 0.5, 3};
  double want[4], length = sqrt(1 + 4 + 0.25 + 9), at[2] = {-1.2, 1};
  tn_scope(ctx) {
    for (int i = 0; i < 4; i++) want[i] = 2 * x[i];
    derivative(squared_norm, x, 4, want);
    derivative(tn_square, x, 4, want);
    for (int i = 0; i < 4; i++) want[i] = x[i] / length;
    derivative(norm, x, 4, want);
    for (int i = 0; i < 4; i++) want[i] = cos(x[i]) * exp(sin(x[i]));
    derivative(exp_sin, x, 4, want);
    for (int i = 0; i < 4; i++) want[i] = (1 - x[i] * x[i]) / pow(1 + x[i] * x[i], 2);
    derivative(quotient, x, 4, want);
    for (int i = 0; i < 4; i++) want[i] = 5 * pow(x[i], 4);
    derivative(loop, x, 4, want);
    derivative(fold_left, x, 4, (double[]){8, 4, 2, 1});
    derivative(rosenbrock, (double[]){-1.2, 1}, 2, (double[]){-215.6, -88});
  }
  minimise(at);
  assert_true(fabs(at[0] - 1) < 1e-8 && fabs(at[1] - 1) < 1e-8);
}

/* ---- Y19: bytes of results ---- */

static void y19_bytes(void **state) {
  (void)state;
  tn_scope(ctx) {
    tn_tensor *ones = tn_ones(ctx, TN_F32, (tn_dim[]){1024}, 1);
    uint32_t bits = 0, pattern = 0x3f3f3f3f;
    assert_int_equal(tn_read(tn_dot(ones, ones), &bits, sizeof bits), TN_OK);
    assert_int_equal(bits, 0x44800000); /* 1024 */
    double v = value_of(tn_bitcast(tn_from(ctx, TN_U32, NULL, 0, &pattern), TN_F32));
    assert_true(fabs(v - 0.747) < 1e-3);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(y1_fused_kernels), cmocka_unit_test(y2_views),
                                     cmocka_unit_test(y7_attention),     cmocka_unit_test(y8_convolutions),
                                     cmocka_unit_test(y9_long_vectors),  cmocka_unit_test(y17_derivatives),
                                     cmocka_unit_test(y19_bytes)};
  return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
