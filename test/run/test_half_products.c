/* Products of half floats as tensors: sums of f32 that are rounded once, whichever way operands lie and however many
 * threads there are.  The order of a sum hangs on the tile of the result that it is in, so that the number of threads
 * says what rounding leaves; but it is the same in every run. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backend/cpu/cpu.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <string.h>

enum { MOST = 1 << 18 };

typedef struct form { /* how an operand comes to be a matrix, or several */
  bool turned, shared;
} form;

typedef enum terms {
  EXACT,  /* their sums are the same in any order */
  CANCEL, /* all that is left of them is what rounding leaves, of which half floats show the first digits */
} terms;

static uint32_t mixed(int64_t i) {
  uint32_t x = (uint32_t)i * 2654435761u + 12345;
  x = (x ^ x >> 15) * 2246822519u;
  return (x ^ x >> 13) * 3266489917u ^ x >> 16;
}

/* Of a row of the left operand, or a column of the right one, what stands at step k of `steps`; a bf16 each.  Of terms
 * that cancel, those of the second half of steps are those of the first in another order, with the other sign on the
 * left. */
static float element(terms t, bool left, int64_t line, int64_t k, int64_t steps) {
  int64_t half = steps / 2;
  if (t == EXACT) return (float)((line * 37 + k * 11 + line * k / 13) % 29 - 14) / 8;
  if (k == 2 * half) return 0;
  uint32_t x = mixed(line * half + (k < half ? k : steps - 1 - steps % 2 - k));
  float v = ldexpf((float)(128 + x % 128), (int)(x >> 8) % 8 - 8);
  return (x >> 20 & 1) != (left && k >= half) ? -v : v;
}

/* [batch, rows, cols], of what stands in memory turned, or once for the whole batch */
static tn_tensor *operand(tn_ctx *c, tn_dtype dtype, terms t, bool left, form f, int64_t batch, int64_t rows,
                          int64_t cols, float *value) {
  static float all[MOST];
  int64_t n = f.shared ? 1 : batch, lines = left ? rows : cols, steps = left ? cols : rows;
  for (int64_t b = 0; b < batch; b++)
    for (int64_t i = 0; i < rows; i++)
      for (int64_t j = 0; j < cols; j++) {
        int64_t own = f.shared ? 0 : b, at = own * rows * cols + (f.turned ? j * rows + i : i * cols + j);
        all[at] = element(t, left, own * lines + (left ? i : j), left ? j : i, steps);
        value[(b * rows + i) * cols + j] = all[at];
      }
  tn_dim stored[] = {n, f.turned ? cols : rows, f.turned ? rows : cols}, whole[] = {batch, rows, cols};
  tn_tensor *x = tn_cast(tn_from(c, TN_F32, stored, 3, all), dtype);
  if (f.turned) x = tn_permute(x, (int[]){0, 2, 1}, 3);
  return f.shared ? tn_expand(x, whole, 3) : x;
}

static const struct size {
  int64_t batch, m, n, k;
} sizes[] = {{1, 37, 41, 53},  {3, 40, 33, 17},  {1, 1, 70, 90},    {1, 70, 1, 90}, {2, 1, 1, 700},
             {1, 64, 48, 400}, {1, 357, 361, 8}, {1, 357, 361, 400}, {5, 9, 8, 30},  {2, 16, 16, 0}};

static void multiply(int threads, tn_dtype dtype, terms t, const struct size *s, int forms, float *got) {
  static float a[MOST], b[MOST];
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .threads = threads, .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *x = operand(c, dtype, t, true, (form){forms & 1, forms & 2}, s->batch, s->m, s->k, a),
              *y = operand(c, dtype, t, false, (form){forms & 4, forms & 8}, s->batch, s->k, s->n, b);
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
  unsigned long seen = 0;
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int forms = 0; forms < 16; forms++) {
      if (sizes[s].m * sizes[s].n * sizes[s].k > 1 << 22 && forms % 5) continue;
      if (!is_taken(&seen)) continue;
      tn_dtype dtype = (forms + (int)s) % 2 ? TN_F16 : TN_BF16;
      multiply(1, dtype, EXACT, &sizes[s], forms, one);
      multiply(3, dtype, EXACT, &sizes[s], forms, several);
      assert_memory_equal(one, several, (size_t)(sizes[s].batch * sizes[s].m * sizes[s].n) * sizeof *one);
    }
}

static void test_same_every_time(void **state) {
  static float once[MOST], again[MOST];
  static const int threads[] = {1, 3, 16};
  int left = 0;
  (void)state;
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t t = 0; t < sizeof threads / sizeof *threads; t++) {
      int64_t n = sizes[s].batch * sizes[s].m * sizes[s].n;
      tn_dtype dtype = (t + s) % 2 ? TN_F16 : TN_BF16;
      int forms = (int)(s * 7 + t * 5) % 16;
      multiply(threads[t], dtype, CANCEL, &sizes[s], forms, once);
      multiply(threads[t], dtype, CANCEL, &sizes[s], forms, again);
      if (memcmp(once, again, (size_t)n * sizeof *once)) fail_msg("row %zu, %d threads: other bits", s, threads[t]);
      for (int64_t e = 0; e < n; e++) left += once[e] != 0;
    }
  assert_true(left > 1000); /* so there is something to see */
}

/* Thin ones are own kernels', others the library's, which has them all where there is no compiler. */
static void test_who_computes(void **state) {
  static const float zeros[300 * 300];
  static const struct {
    int64_t m, n, k;
    bool library, interpreted;
  } rows[] = {{64, 64, 64, true, true},     {300, 8, 27, true, true},   {300, 1, 300, false, true},
              {3, 300, 300, false, true},   {300, 300, 4, false, true}, {7, 8, 9, false, false}};
  (void)state;
  for (size_t i = 0; i < 2 * sizeof rows / sizeof *rows; i++) {
    size_t r = i / 2;
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .cc = i % 2 ? "" : NULL, .quiet = 1});
    assert_non_null(c);
    tn_dim x[] = {rows[r].m, rows[r].k}, y[] = {rows[r].k, rows[r].n};
    tn_scope(c) {
      tn_tensor *z = tn_matmul(tn_cast(tn_from(c, TN_F32, x, 2, zeros), TN_BF16),
                               tn_cast(tn_from(c, TN_F32, y, 2, zeros), TN_BF16));
      char *text = tn_explain_string(&z, 1);
      assert_non_null(text);
      if ((strstr(text, "gemm") != NULL) != (i % 2 ? rows[r].interpreted : rows[r].library))
        fail_msg("row %zu: %s", r, text);
      tn_string_free(text);
    }
    /* the library's room is made for those that it gets */
    bool called = i % 2 ? rows[r].interpreted : rows[r].library;
    if (!called) assert_null(tn__cpu_scratch(tn__device_get(c, 0), 0));
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_values), cmocka_unit_test(test_same_every_time),
                                     cmocka_unit_test(test_who_computes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
