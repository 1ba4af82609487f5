/* A loop of a body is closed in one place: two closers that want it under different loops are an error, never a
 * kernel. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdio.h>
#include <string.h>

/* out[i] = sum_j p[j] + sum_j q[I(i), j], both sums in the loop j of that name */
#define BODY(j) \
  "%1 = param f32[8] 8 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = param f32[4] 4 {1 -1}\n" \
  "%4 = range index 4 {reduce 1 reduction}\n%5 = load f32 %3 %4\n%6 = reduce f32 %5 %4 {add 1}\n" \
  "%7 = param f32[32] 32 {2 -1}\n%8 = range index 4 {reduce " j " reduction}\n%9 = mul index %2 4\n" \
  "%10 = add index %9 %8\n%11 = load f32 %7 %10\n%12 = reduce f32 %11 %8 {add 1}\n%13 = add f32 %6 %12\n" \
  "%14 = store void %1 %2 %13 %2\n%15 = sink void %14 {\"kernel\"}\n"

static void explain(const char *device, tn_mode mode, const char *text, const char *objection) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .mode = mode, .quiet = 1});
  assert_non_null(c);
  char *out = tn_explain_text_string(c, text);
  if (!objection != (out != NULL))
    fail_msg("%s, mode %d: %s", device, (int)mode, out ? "accepted" : tn_last_error(c)->text);
  if (objection && !strstr(tn_last_error(c)->text, objection)) fail_msg("%s", tn_last_error(c)->text);
  tn_string_free(out);
  tn_ctx_close(c);
}

static void one_place(void **s) {
  static const char *const device[] = {"ref", "cpu", "ref:cpu", "ref:sm_90", "ref:opencl"};
  (void)s;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++)
    for (int mode = TN_MODE_DEFAULT; mode <= TN_MODE_STRICT; mode++) {
      explain(device[d], (tn_mode)mode, BODY("2"), NULL);
      explain(device[d], (tn_mode)mode, BODY("1"), "is closed in two places");
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(one_place)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
