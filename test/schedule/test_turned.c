/* Operands that lie across what is reduced beside what lies along it: they are copied by tiles where that is predicted
 * to take less, and nothing is copied where all lies the same way. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "support/device.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include <math.h>
#include <string.h>

enum { MOST = 1 << 17, DRAWS = 4 };

#define OK(x) check_ok(c, x, __LINE__)

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}

/* A function of a softmax along the last axis of [a,b,n], which stands in memory as [n,a,b], with its gradient: what is
 * summed up for that is stored by rows. */
static tn_tensor *gradient(tn_tensor *x, tn_tensor *dy, tn_tensor **y) {
  tn_tensor *rows = tn_permute(x, (int[]){1, 2, 0}, 3), *dx = NULL;
  *y = tn_silu(tn_softmax(rows, -1));
  return tn_vjp(*y, dy, 1, &rows, &dx) == TN_OK ? dx : NULL;
}

/* Of x / (1 + exp(-x)) */
static double slope(double x) {
  double s = 1 / (1 + exp(-x));
  return s * (1 + x * (1 - s));
}

/* Does the plan have more buffers of so many elements than it is given and gives? */
static bool has_copy(const char *text, const char *dtype, tn_dim elements, int given) {
  char buffer[64];
  snprintf(buffer, sizeof buffer, "= buffer %s %lld ", dtype, (long long)elements);
  for (text = strstr(text, "# schedule"); (text = strstr(text, buffer)); text++) given--;
  return given < 0;
}

enum { GRADIENT, GREATEST, ROWS_ALONG };
typedef struct way {
  int way;
  tn_dim a, b, n;
  bool copied;
} way;

static void expect_ways(const char *device, const way *rows, size_t n_rows) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < n_rows; i++) tn_scope(c) {
      tn_dim a = rows[i].a, b = rows[i].b, n = rows[i].n;
      bool along = rows[i].way == ROWS_ALONG;
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = tn_program_input(p, "x", TN_BF16, along ? (tn_dim[]){a, b, n} : (tn_dim[]){n, a, b}, 3),
                *dy = tn_program_input(p, "dy", TN_BF16, (tn_dim[]){a, b, n}, 3), *made, *y = NULL;
      if (rows[i].way == GRADIENT) made = gradient(x, dy, &y);
      else made = tn_max(along ? tn_mul(x, dy) : tn_permute(x, (int[]){1, 2, 0}, 3), (int[]){2}, 1, false);
      assert_non_null(made);
      OK(tn_program_output(p, "made", made));
      if (y) OK(tn_program_output(p, "y", y));
      OK(tn_program_end(p));
      char *text = tn_program_explain_string(p);
      if (has_copy(text, "bf16", a * b * n, rows[i].way == GRADIENT ? 4 : 1 + (rows[i].way == ROWS_ALONG)) !=
          rows[i].copied)
        fail_msg("row %zu: %s", i, text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* Long rows of both kinds, rows that all lie across, and none that does */
static void test_way(void **state) {
  static const way groups[] = {{GRADIENT, 3, 72, 524288, true},    {GRADIENT, 5, 131, 70001, true},
                               {GREATEST, 3, 72, 524288, false},   {GREATEST, 40, 100, 3001, false},
                               {ROWS_ALONG, 3, 72, 524288, false}, {GRADIENT, 3, 5, 7, false}};
  static const way lanes[] = {{GRADIENT, 4, 128, 4096, true},   {GRADIENT, 3, 5, 100003, true},
                              {GREATEST, 4, 128, 4096, false},  {ROWS_ALONG, 4, 128, 4096, false},
                              {GRADIENT, 100, 200, 37, false},  {GREATEST, 1, 1, 100003, false}};
  (void)state;
  expect_ways("ref:sm_90", groups, sizeof groups / sizeof *groups);
  expect_ways("ref:cpu", lanes, sizeof lanes / sizeof *lanes);
}

/* Drawn sizes, where launches take no time, so that copies are made; against formulas */
static void expect_values(const char *device) {
  static float x[MOST], dy[MOST], got[MOST], values[MOST];
  graph_dice dice = {.state = 20261129};
  int copied = 0;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  tn__device_get(c, 0)->target.launch = 1e-15f;
  for (int draw = 0; draw < DRAWS; draw++) tn_scope(c) {
      tn_dim a = 1 + graph_roll(&dice, 3), b = 9 + graph_roll(&dice, 40), n = (tn_dim)(MOST * 0.99) / (a * b);
      tn_dim all = a * b * n;
      for (tn_dim i = 0; i < all; i++)
        x[i] = (float)graph_roll(&dice, 9) / 8, dy[i] = (float)graph_roll(&dice, 17) / 8 - 1;
      tn_tensor *from = tn_from(c, TN_F32, (tn_dim[]){n, a, b}, 3, x),
                *up = tn_from(c, TN_F32, (tn_dim[]){a, b, n}, 3, dy), *y, *dx = gradient(from, up, &y);
      assert_non_null(dx);
      char *text = tn_explain_string((tn_tensor *[]){dx, y}, 2);
      copied += has_copy(text, "f32", all, 4);
      tn_string_free(text);
      OK(tn_read(dx, got, (size_t)all * sizeof *got));
      OK(tn_read(y, values, (size_t)all * sizeof *values));
      for (tn_dim r = 0; r < a * b; r++) {
        double sum = 0, with = 0;
        for (tn_dim k = 0; k < n; k++) sum += exp((double)x[k * a * b + r]);
        for (tn_dim k = 0; k < n; k++) {
          double part = exp((double)x[k * a * b + r]) / sum;
          with += part * slope(part) * (double)dy[r * n + k];
        }
        for (tn_dim k = 0; k < n; k++) {
          double part = exp((double)x[k * a * b + r]) / sum, want = part * (slope(part) * (double)dy[r * n + k] - with);
          double off = fabs((double)got[r * n + k] - want), value = part / (1 + exp(-part));
          if (off > 2e-5 * part || fabs((double)values[r * n + k] - value) > 2e-5 * value)
            fail_msg("draw %d, row %lld: element %lld is off by %g", draw, (long long)r, (long long)k, off);
        }
      }
    }
  assert_in_range(copied, 1, DRAWS);
  tn_ctx_close(c);
}

static void test_values(void **state) {
  (void)state;
  expect_values("ref:sm_90");
  expect_values("cpu");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_way), cmocka_unit_test(test_values)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
