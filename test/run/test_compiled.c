/* Graphs whose generated kernels a C compiler once got wrong, or that crashed, at many sizes, against plain C or the
 * interpreter.  Many graphs make one schedule, for a compiler takes as long to start as it works on a kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define PADS(...) ((const tn_dim[]){__VA_ARGS__})

enum { BATCH = 64 };

static tn_ctx *c;
static unsigned long seen, turn;

static int open_ctx(void **state) {
  (void)state;
  c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
  return c ? 0 : -1;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(c);
  return 0;
}

/* Other devices' compilers never saw what these graphs are about: some of many cases will do. */
static bool is_mine(void) { return (!strcmp(device_or("cpu"), "cpu") || turn++ % 10 == 0) && is_taken(&seen); }

static void realize(tn_tensor **t, int n) {
  if (n && tn_realize(t, n) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
}

static void *values_of(tn_tensor *t) {
  void *v = malloc(tn_nbytes(t) + 1);
  if (tn_read(t, v, tn_nbytes(t)) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  return v;
}

/* ---- cells that are apart ---- */

/* Rows of n numbers, each so many cells behind the one before; the last cell of a row is its last number. */
typedef struct apart {
  tn_dtype dtype;
  int n, step;
} apart;

static tn_tensor *numbers_apart(const apart *a) {
  int row = (a->n - 1) * abs(a->step) + 1;
  tn_tensor *x = tn_cast(tn_reshape(tn_arange(c, TN_I32, 1, 3 * row + 1, 1), DIMS(3, row)), a->dtype);
  realize(&x, 1);
  return tn_neg(a->step < 0 ? tn_flip(x, (const int[]){1}, 1) : tn_slice(x, 1, 0, row, a->step));
}

static void check_apart(tn_tensor *t, const apart *a) {
  double *v = values_of(tn_cast(t, TN_F64));
  int row = (a->n - 1) * abs(a->step) + 1;
  for (int i = 0; i < 3 * a->n; i++) {
    int at = a->step < 0 ? a->n - 1 - i % a->n : i % a->n * a->step;
    double want = -(i / a->n * row + at + 1);
    if (v[i] != want) fail_msg("%d %d apart, dtype %d: [%d] is %g, not %g", a->n, a->step, a->dtype, i, v[i], want);
  }
  free(v);
}

static void apart_sweep(void **state) {
  (void)state;
  static const tn_dtype dtypes[] = {TN_F32, TN_F64, TN_I16, TN_F16};
  static const int steps[] = {2, 3, 4, -1};
  tn_tensor *t[BATCH];
  apart of[BATCH];
  int n = 0;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (size_t s = 0; s < sizeof steps / sizeof *steps; s++)
      for (int count = 1; count <= 19; count++) {
        if (!is_mine()) continue;
        of[n] = (apart){dtypes[d], count, steps[s]};
        t[n] = numbers_apart(&of[n]);
        if (++n < BATCH) continue;
        realize(t, n);
        while (n) n--, check_apart(t[n], &of[n]);
      }
  realize(t, n);
  while (n) n--, check_apart(t[n], &of[n]);
}

/* ---- padded rows ---- */

/* The first row, 300 rows that count from 1, the last row */
static void check_counting(tn_tensor *t, double outside, const char *what) {
  double *v = values_of(tn_cast(t, TN_F64));
  for (int i = 0; i < 604; i++) {
    double want = i < 2 || i >= 602 ? outside : i - 1;
    if (v[i] != want) fail_msg("%s: [%d,%d] is %g, not %g", what, i / 2, i % 2, v[i], want);
  }
  free(v);
}

static tn_tensor *counting(tn_dtype t) {
  tn_tensor *x = tn_reshape(tn_arange(c, t, 1, 601, 1), DIMS(300, 2));
  realize(&x, 1);
  return x;
}

static void pad_wrong(void **state) {
  (void)state;
  tn_scope(c) {
    tn_tensor *y = tn_pad(counting(TN_F64), PADS(1, 1, 0, 0), 1);
    realize(&y, 1);
    check_counting(y, 1, "pad");
  }
}

static void grad_slice_wrong(void **state) {
  (void)state;
  tn_scope(c) {
    tn_tensor *x = tn_ones(c, TN_F32, DIMS(302, 2)), *w = counting(TN_F32), *g = NULL;
    realize(&x, 1);
    assert_int_equal(tn_grad(tn_sum(tn_mul(w, tn_slice(x, 0, 1, -1, 1)), NULL, 0, false), 1, &x, &g), TN_OK);
    realize(&g, 1);
    check_counting(g, 0, "gradient of a slice");
  }
}

/* x of ROWS rows with a row of ones in front and one behind: padded, joined, or padded with columns, too */
enum { ROWS = 150, LONGEST = 40, PAD_ROWS = 0, JOIN_ROWS, PAD_BOTH, WAYS };

static tn_tensor *framed(tn_tensor *flat, tn_tensor *ones, int way, int n) {
  tn_tensor *x = tn_reshape(tn_slice(flat, 0, 0, ROWS * n, 1), DIMS(ROWS, n));
  tn_tensor *one = tn_reshape(tn_slice(ones, 0, 0, n, 1), DIMS(1, n));
  if (way == PAD_ROWS) return tn_pad(x, PADS(1, 1, 0, 0), 1);
  if (way == JOIN_ROWS) return tn_concatenate((tn_tensor *[]){one, x, one}, 3, 0);
  return tn_pad(x, PADS(1, 1, 1, 2), 1);
}

/* cell: of the numbers from 0 to 99, as they stand in memory */
static void check_framed(tn_tensor *t, const char *cell, int way, int n) {
  tn_dtype dtype = tn_dtype_of(t);
  size_t size = tn_nbytes(t) / (size_t)tn_numel(t);
  int before = way == PAD_BOTH, columns = before ? n + 3 : n;
  char *v = values_of(t);
  for (int i = 0; i < ROWS + 2; i++)
    for (int j = 0; j < columns; j++) {
      int k = j - before, inside = i > 0 && i <= ROWS && k >= 0 && k < n, want = inside ? ((i - 1) * n + k) % 100 : 1;
      if (memcmp(v + (size_t)(i * columns + j) * size, cell + (size_t)want * size, size))
        fail_msg("%s, rows of %d, way %d: element [%d,%d] is not %d", tn_dtype_name(dtype), n, way, i, j, want);
    }
  free(v);
}

static void pad_sweep(void **state) {
  (void)state;
  for (tn_dtype t = TN_I8; t < TN_DTYPE_COUNT; t++) tn_scope(c) {
      tn_tensor *flat = tn_cast(tn_mod_scalar(tn_arange(c, TN_I64, 0, ROWS * LONGEST, 1), 100), t), *y[BATCH];
      tn_tensor *ones = tn_ones(c, t, DIMS(LONGEST));
      int n = 0, length[BATCH];
      realize(&flat, 1);
      realize(&ones, 1);
      for (int k = 1; k <= LONGEST; k++)
        if (is_mine()) length[n] = k, y[n++] = framed(flat, ones, (k + (int)t) % WAYS, k);
      realize(y, n);
      char *cell = values_of(flat);
      for (int i = 0; i < n; i++) check_framed(y[i], cell, (length[i] + (int)t) % WAYS, length[i]);
      free(cell);
    }
}

/* ---- sums of padded rows ---- */

/* x[b,e,h,w] with a line of zeros above, or below, and a column of ones on the right, summed over b: masked loads in
 * short loops. */
typedef struct padded {
  int64_t b, e, h, w;
  bool below, twice;
} padded;

static float element(int64_t i) { return (float)(i % 17 + 1); }

static tn_tensor *padded_sum(const padded *p) {
  int64_t n = p->b * p->e * p->h * p->w;
  float *x = malloc((size_t)n * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = element(i);
  tn_tensor *t = tn_from(c, TN_F32, DIMS(p->b, p->e, p->h, p->w), x);
  free(x);
  if (p->twice) t = tn_mul_scalar(t, 2);
  t = tn_pad(t, PADS(0, 0, 0, 0, !p->below, p->below, 0, 0), 0);
  return tn_sum(tn_pad(t, PADS(0, 0, 0, 0, 0, 0, 0, 1), 1), (const int[]){0}, 1, false);
}

static void check_padded_sum(tn_tensor *t, const padded *p) {
  float *y = values_of(t);
  for (int64_t k = 0; k < p->e; k++)
    for (int64_t i = 0; i <= p->h; i++)
      for (int64_t j = 0; j <= p->w; j++) {
        int64_t row = p->below ? i : i - 1;
        bool inside = j < p->w && row >= 0 && row < p->h;
        float want = j == p->w ? (float)p->b : 0;
        for (int64_t b = 0; b < p->b && inside; b++)
          want += element(((b * p->e + k) * p->h + row) * p->w + j) * (p->twice ? 2 : 1);
        if (y[(k * (p->h + 1) + i) * (p->w + 1) + j] != want)
          fail_msg("%dx%dx%dx%d: element %d,%d,%d", (int)p->b, (int)p->e, (int)p->h, (int)p->w, (int)k, (int)i, (int)j);
      }
  free(y);
}

static void padded_sum_segv(void **state) {
  (void)state;
  for (int way = 0; way < 16; way++) tn_scope(c) {
      padded p[BATCH];
      tn_tensor *y[BATCH];
      int n = 0;
      for (int64_t h = 2; h < 8; h++)
        for (int64_t w = 2; w < 10; w++) {
          padded q = {.b = way & 1 ? 3 : 2, .e = way & 2 ? 6 : 1, .h = h, .w = w, .below = way & 4, .twice = way & 8};
          if ((h + w) % 2 == (way & 1) && is_mine()) p[n] = q, y[n++] = padded_sum(&q);
        }
      realize(y, n);
      for (int i = 0; i < n; i++) check_padded_sum(y[i], &p[i]);
    }
}

/* ---- everyday graphs of small matrices ---- */

static tn_tensor *gradient(tn_tensor *y, tn_tensor *x) {
  tn_tensor *g = NULL;
  if (tn_grad(tn_sum(tn_square(y), NULL, 0, false), 1, &x, &g) != TN_OK) return NULL;
  return g;
}
static tn_tensor *rows_sum(tn_tensor *x) { return tn_sum(x, (const int[]){0}, 1, false); }
static tn_tensor *plane(tn_tensor *x) { return tn_reshape(x, DIMS(1, 1, tn_size(x, 0), tn_size(x, 1))); }

static tn_tensor *sum_of_rows(tn_tensor *x) { return rows_sum(x); }
static tn_tensor *sum_of_relu(tn_tensor *x) { return rows_sum(tn_relu(x)); }
static tn_tensor *softmax_of_columns(tn_tensor *x) { return tn_softmax(x, 0); }
static tn_tensor *softmax_of_rows(tn_tensor *x) { return tn_softmax(x, 1); }
static tn_tensor *sum_of_pad(tn_tensor *x) { return rows_sum(tn_pad(x, PADS(0, 0, 1, 1), 0)); }
static tn_tensor *sum_of_two_pads(tn_tensor *x) {
  return rows_sum(tn_pad(tn_pad(x, PADS(0, 0, 0, 1), 1), PADS(1, 0, 0, 0), 0));
}
static tn_tensor *gradient_of_slice(tn_tensor *x) { return gradient(tn_slice(x, 1, 1, INT64_MAX, 1), x); }
static tn_tensor *gradient_of_difference(tn_tensor *x) {
  return gradient(tn_sub(tn_slice(x, 0, 1, INT64_MAX, 1), tn_slice(x, 0, 0, -1, 1)), x);
}
static tn_tensor *joined(tn_tensor *x) { return tn_concatenate((tn_tensor *[]){x, tn_neg(x), x}, 3, 1); }
static tn_tensor *sum_of_joined(tn_tensor *x) { return rows_sum(joined(x)); }
static tn_tensor *gradient_of_unfold(tn_tensor *x) { return gradient(tn_unfold(x, 1, 2, 1, 1), x); }
static tn_tensor *max_pool(tn_tensor *x) {
  return tn_max_pool2d(plane(x), 2, 2, &(tn_pool2d_options){.padding = {1, 1}, .stride = {1, 1}});
}
static tn_tensor *gradient_of_conv(tn_tensor *x) {
  tn_tensor *w = tn_reshape(tn_arange(tn_ctx_of(x), TN_F32, 0, 9, 1), DIMS(1, 1, 3, 3));
  return gradient(tn_conv2d(plane(x), w, NULL, &(tn_conv2d_options){.padding = {1, 1}}), x);
}
static tn_tensor *gradient_of_avg_pool(tn_tensor *x) {
  return gradient(tn_avg_pool2d(plane(x), 2, 2, &(tn_pool2d_options){.padding = {1, 1}, .stride = {1, 1}}), x);
}
static tn_tensor *variance(tn_tensor *x) { return tn_var(x, (const int[]){0}, 1, 1, false); }
static tn_tensor *triangle_product(tn_tensor *x) {
  tn_dim n = tn_size(x, 0);
  return tn_matmul(tn_tril(tn_ones(tn_ctx_of(x), TN_F32, DIMS(n, n)), 0), x);
}

static const struct {
  const char *name;
  tn_tensor *(*of)(tn_tensor *);
} everyday[] = {
    {"sum of rows", sum_of_rows},
    {"sum of relu", sum_of_relu},
    {"softmax of columns", softmax_of_columns},
    {"softmax of rows", softmax_of_rows},
    {"sum of a pad", sum_of_pad},
    {"sum of two pads", sum_of_two_pads},
    {"gradient of a slice", gradient_of_slice},
    {"gradient of a difference", gradient_of_difference},
    {"joined", joined},
    {"sum of joined", sum_of_joined},
    {"gradient of unfold", gradient_of_unfold},
    {"max_pool2d", max_pool},
    {"gradient of conv2d", gradient_of_conv},
    {"gradient of avg_pool2d", gradient_of_avg_pool},
    {"variance", variance},
    {"product with a triangle", triangle_product},
};

typedef struct matrix {
  int rows, columns;
} matrix;

static tn_tensor *small_matrix(tn_ctx *of, matrix m) {
  float v[130 * 19];
  for (int i = 0; i < m.rows * m.columns; i++) v[i] = (float)(i % 13) - 6;
  return tn_from(of, TN_F32, DIMS(m.rows, m.columns), v);
}

static void check_close(tn_tensor *got, tn_tensor *want, const char *name, matrix m) {
  float *x = values_of(got), *y = values_of(want), most = 1e-6f;
  int64_t n = tn_numel(want);
  for (int64_t i = 0; i < n; i++) most = fmaxf(most, fabsf(y[i]));
  for (int64_t i = 0; i < n; i++)
    if (!(fabsf(x[i] - y[i]) <= 1e-4f * most))
      fail_msg("%s of %dx%d: element %d is %g, not %g", name, m.rows, m.columns, (int)i, (double)x[i], (double)y[i]);
  free(x);
  free(y);
}

static void check_everyday(tn_ctx *ref, size_t g) {
  static const int rows[] = {2, 5, 130};
  tn_tensor *x[BATCH], *y[BATCH];
  matrix m[BATCH];
  int n = 0;
  for (int i = 0; i < 3; i++)
    for (int columns = 2; columns < 20; columns++) {
      if ((columns + (int)g) % 2 == i % 2 || !is_mine()) continue;
      m[n] = (matrix){rows[i], columns};
      x[n] = everyday[g].of(small_matrix(c, m[n]));
      y[n] = everyday[g].of(small_matrix(ref, m[n]));
      n++;
    }
  realize(x, n);
  if (n && tn_realize(y, n) != TN_OK) fail_msg("%s", tn_last_error(ref)->text);
  for (int i = 0; i < n; i++) check_close(x[i], y[i], everyday[g].name, m[i]);
}

static void segv_sweep(void **state) {
  (void)state;
  tn_ctx *ref = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(ref);
  for (size_t g = 0; g < sizeof everyday / sizeof *everyday; g++)
    tn_scope(ref)
      tn_scope(c) check_everyday(ref, g);
  tn_ctx_close(ref);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(apart_sweep, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(pad_wrong, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(grad_slice_wrong, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(pad_sweep, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(padded_sum_segv, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(segv_sweep, open_ctx, close_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
