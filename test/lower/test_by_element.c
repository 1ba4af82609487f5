/* Values of rows that a kernel stores beside the rows' elements, where nothing is reduced: a GPU's threads share out
 * the elements and not the rows, or groups go through rows.  Results are what the graph says either way, of rows of
 * any length, of none as well. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "support/coverage.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const devices[] = {"ref:sm_80", "ref:sm_90", "ref:opencl"};

/* by: the mapping that is taken, NULL: the one that is predicted to be best; once: is the step of that name taken? */
static void check(const char *device, const char *by, const char *text, bool once) {
  char why[512], step[64];
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = "strict"});
  assert_non_null(c);
  if (by) tn__device_get(c, 0)->usual = tn__variant_find(by);
  coverage_watch(tn__device_get(c, 0));
  snprintf(step, sizeof step, "%s:once", device);
  uint64_t before = coverage_of("step", step);
  graph g;
  if (!graph_parse(c, text, 1, true, &g)) fail_msg("%s\n%s", tn_last_error(c)->text, text);
  if (!graph_agrees_always(c, &g, why, sizeof why)) fail_msg("%s, %s: %s\n%s", device, by ? by : "any", why, text);
  graph_free(c, &g);
  tn_ctx_close(c);
  assert_int_equal(coverage_of("step", step) > before, once);
}

/* exp(a) of each row, and that times each element of the row */
static void values_of_rows(void **state) {
  static const struct {
    const char *dtype;
    int rows, row;
    const char *by;
    bool once;
  } of[] = {
      {"f32", 45, 2047, NULL, true},      {"f32", 67, 16, NULL, true},  {"f16", 33, 1031, NULL, true},
      {"bf16", 70, 9, NULL, true},      {"f64", 40, 5, NULL, true},   {"f32", 300, 4, NULL, false},
      {"f32", 45, 2047, "team 32", false}, {"f16", 33, 67, "team 16", false},
  };
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[512];
    const char *t = of[i].dtype;
    int n = of[i].rows, m = of[i].row;
    snprintf(text, sizeof text,
             "%%1 = param %s[%d,1] %d 1 {0 0}\n%%2 = tanh %s[%d,1] %%1\n%%3 = exp %s[%d,1] %%2\n"
             "%%4 = param %s[%d,%d] %d %d {1 0}\n%%5 = expand %s[%d,%d] %%3 %d %d\n%%6 = mul %s[%d,%d] %%4 %%5\n"
             "%%7 = sink void %%3 %%6 {\"outputs\"}\n",
             t, n, n, t, n, t, n, t, n, m, n, m, t, n, m, n, m, t, n, m);
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) check(devices[d], of[i].by, text, of[i].once);
  }
}

/* Of two axes, and of one of them, and of each element */
static void two_levels(void **state) {
  static const char text[] = "%1 = param f32[35,1,1] 35 1 1 {0 0}\n"
                             "%2 = tanh f32[35,1,1] %1\n"
                             "%3 = exp f32[35,1,1] %2\n"
                             "%4 = param f32[35,6,1] 35 6 1 {1 0}\n"
                             "%5 = expand f32[35,6,1] %3 35 6 1\n"
                             "%6 = mul f32[35,6,1] %4 %5\n"
                             "%7 = exp f32[35,6,1] %6\n"
                             "%8 = expand f32[35,6,23] %7 35 6 23\n"
                             "%9 = param f32[35,6,23] 35 6 23 {2 0}\n"
                             "%10 = add f32[35,6,23] %8 %9\n"
                             "%11 = sink void %3 %7 %10 {\"outputs\"}\n";
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) check(devices[d], NULL, text, true);
  check("ref:sm_90", "team 16", text, false);
}

/* Rows that may be of no elements still have their values. */
static void rows_of_none(void **state) {
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d], .quiet = 1, .verify = "strict"});
    assert_non_null(c);
    tn_scope(c) {
      float a[40], b[40 * 12], e[40], y[40 * 12];
      for (int i = 0; i < 40; i++) a[i] = (float)(i % 7);
      for (int i = 0; i < 40 * 12; i++) b[i] = (float)(i % 5);
      tn_program *p = tn_program_begin(c);
      tn_dim m = tn_dim_var(c, "M", 0, 400);
      tn_tensor *value = tn_square(tn_program_input(p, "a", TN_F32, (tn_dim[]){40, 1}, 2));
      tn_tensor *of_each = tn_mul(value, tn_program_input(p, "b", TN_F32, (tn_dim[]){40, m}, 2));
      assert_int_equal(tn_program_output(p, "e", value), TN_OK);
      assert_int_equal(tn_program_output(p, "y", of_each), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      assert_int_equal(tn_program_write(p, "a", (tn_dim[]){40, 1}, 2, a, sizeof a), TN_OK);
      for (tn_dim row = 0; row <= 12; row += 6) {
        size_t bytes = (size_t)(40 * row) * sizeof *b;
        memset(e, 0xff, sizeof e);
        assert_int_equal(tn_program_write(p, "b", (tn_dim[]){40, row}, 2, b, bytes), TN_OK);
        assert_int_equal(tn_program_run(p), TN_OK);
        assert_int_equal(tn_program_read(p, "e", e, sizeof e), TN_OK);
        assert_int_equal(tn_program_read(p, "y", y, bytes), TN_OK);
        for (int i = 0; i < 40; i++) assert_true(e[i] == a[i] * a[i]);
        for (int i = 0; i < 40 * (int)row; i++) assert_true(y[i] == b[i] * e[i / (int)row]);
      }
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values_of_rows),
      cmocka_unit_test(two_levels),
      cmocka_unit_test(rows_of_none),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
