/* Products of half floats as tensors: sums of f32 that are rounded once, whichever way operands lie and however many
 * threads there are. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <math.h>
#include <string.h>

enum { MOST = 1 << 18 };

typedef struct form { /* how an operand comes to be a matrix, or several */
  bool turned, shared;
} form;

/* [batch, rows, cols], of what stands in memory turned, or once for the whole batch */
static tn_tensor *operand(tn_ctx *c, tn_dtype dtype, form f, int64_t batch, int64_t rows, int64_t cols, float *value) {
  static float all[MOST];
  int64_t n = f.shared ? 1 : batch;
  for (int64_t i = 0; i < n * rows * cols; i++) all[i] = (float)((i * 37 + i / 13) % 29 - 14) / 8; /* a bf16 each */
  tn_dim stored[] = {n, f.turned ? cols : rows, f.turned ? rows : cols}, whole[] = {batch, rows, cols};
  tn_tensor *x = tn_cast(tn_from(c, TN_F32, stored, 3, all), dtype);
  if (f.turned) x = tn_permute(x, (int[]){0, 2, 1}, 3);
  for (int64_t b = 0; b < batch; b++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < cols; j++)
        value[(b * rows + i) * cols + j] =
            all[(f.shared ? 0 : b) * rows * cols + (f.turned ? j * rows + i : i * cols + j)];
  return f.shared ? tn_expand(x, whole, 3) : x;
}

static const struct size {
  int64_t batch, m, n, k;
} sizes[] = {{1, 37, 41, 53},  {3, 40, 33, 17},  {1, 1, 70, 90},    {1, 70, 1, 90}, {2, 1, 1, 700},
             {1, 64, 48, 400}, {1, 357, 361, 8}, {1, 357, 361, 400}, {5, 9, 8, 30},  {2, 16, 16, 0}};

static void multiply(int threads, tn_dtype dtype, const struct size *s, int forms, float *got) {
  static float a[MOST], b[MOST];
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .threads = threads, .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *x = operand(c, dtype, (form){forms & 1, forms & 2}, s->batch, s->m, s->k, a),
              *y = operand(c, dtype, (form){forms & 4, forms & 8}, s->batch, s->k, s->n, b);
    tn_tensor *z = tn_cast(tn_matmul(x, y), TN_F32);
    if (tn_read(z, got, (size_t)(s->batch * s->m * s->n) * sizeof *got)) fail_msg("%s", tn_last_error(c)->text);
  }
  tn_ctx_close(c);
  double step = dtype == TN_F16 ? 0x1p-11 : 0x1p-8;
  for (int64_t e = 0; e < s->batch * s->m * s->n; e++) {
    double sum = 0, size = 0;
    for (int64_t k = 0; k < s->k; k++) {
      double term = (double)a[e / s->n * s->k + k] * (double)b[(e / (s->m * s->n) * s->k + k) * s->n + e % s->n];
      sum += term, size += fabs(term);
    }
    /* half a step of rounding, and what sums of f32 may be off */
    if (!(fabs((double)got[e] - sum) <= step * fabs(sum) + 0x1p-20 * size))
      fail_msg("%s %lldx%lldx%lldx%lld, form %d: element %lld is %g, not %g", tn_dtype_name(dtype), (long long)s->batch,
               (long long)s->m, (long long)s->n, (long long)s->k, forms, (long long)e, (double)got[e], sum);
  }
}

static void test_values(void **state) {
  static float one[MOST], several[MOST];
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int forms = 0; forms < 16; forms++) {
      if (sizes[s].m * sizes[s].n * sizes[s].k > 1 << 22 && forms % 5) continue;
      tn_dtype dtype = (forms + (int)s) % 2 ? TN_F16 : TN_BF16;
      multiply(1, dtype, &sizes[s], forms, one);
      multiply(3, dtype, &sizes[s], forms, several);
      assert_memory_equal(one, several, (size_t)(sizes[s].batch * sizes[s].m * sizes[s].n) * sizeof *one);
    }
}

/* Thin ones are own kernels', others the library's. */
static void test_who_computes(void **state) {
  static const float zeros[300 * 300];
  static const struct {
    int64_t m, n, k;
    bool library;
  } rows[] = {{64, 64, 64, true},
              {300, 8, 27, true},
              {300, 1, 300, false},
              {3, 300, 300, false},
              {300, 300, 4, false}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .quiet = 1});
    assert_non_null(c);
    tn_dim x[] = {rows[i].m, rows[i].k}, y[] = {rows[i].k, rows[i].n};
    tn_scope(c) {
      tn_tensor *z = tn_matmul(tn_cast(tn_from(c, TN_F32, x, 2, zeros), TN_BF16),
                               tn_cast(tn_from(c, TN_F32, y, 2, zeros), TN_BF16));
      char *text = tn_explain_string(&z, 1);
      assert_non_null(text);
      if ((strstr(text, "gemm") != NULL) != rows[i].library) fail_msg("row %zu: %s", i, text);
      tn_string_free(text);
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_who_computes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
