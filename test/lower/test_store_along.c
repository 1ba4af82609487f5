/* Elements that are stored beside sums over them: in the sums' loop, on devices with work groups, where both are made
 * of the same (lower/store_along.c); to the bit what plain loops give.  All numbers are small and whole. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct shape {
  long long outer, summed, inner;
  bool backwards, goes_along; /* the sum goes through the elements the other way round */
} shape;

static const shape shapes[] = {
    {5, 83, 64, false, true},  {1, 300, 41, false, true}, {3, 7, 4100, false, true}, {41, 300, 1, false, true},
    {2, 9001, 3, false, true}, {700, 2, 33, false, true}, {5, 83, 64, true, false},  {1, 300, 41, true, false},
};

/* e[i, j, k] = x[i, j, k]^2 + b[k], and s[i, k] = the sum over j of e x */
static void body_of(const shape *s, char *text, size_t room) {
  long long all = s->outer * s->summed * s->inner, line = s->summed * s->inner, step = s->inner;
  int n = snprintf(
      text, room,
      "%%1 = param f32[%lld] %lld {0 -1}\n%%2 = range index %lld {loop 0 output}\n"
      "%%3 = range index %lld {loop 1 output}\n%%4 = range index %lld {loop 2 output}\n%%5 = mul index %%2 %lld\n"
      "%%6 = mul index %%3 %lld\n%%7 = add index %%5 %%6\n%%8 = add index %%7 %%4\n"
      "%%9 = param f32[%lld] %lld {2 -1}\n%%10 = load f32 %%9 %%8\n%%11 = mul f32 %%10 %%10\n"
      "%%12 = param f32[%lld] %lld {3 -1}\n%%13 = load f32 %%12 %%4\n%%14 = add f32 %%11 %%13\n"
      "%%15 = store void %%1 %%8 %%14 %%2 %%3 %%4\n%%16 = param f32[%lld] %lld {1 -1}\n"
      "%%17 = range index %lld {reduce 3 reduction}\n%%18 = mul index %%17 %lld\n%%19 = add index %%18 %lld\n"
      "%%20 = add index %%19 %%5\n%%21 = add index %%20 %%4\n%%22 = load f32 %%9 %%21\n%%23 = mul f32 %%22 %%22\n"
      "%%24 = add f32 %%23 %%13\n%%25 = mul f32 %%24 %%22\n%%26 = reduce f32 %%25 %%17 {add 1}\n"
      "%%27 = mul index %%2 %lld\n%%28 = add index %%27 %%4\n%%29 = store void %%16 %%28 %%26 %%2 %%4\n"
      "%%30 = sink void %%15 %%29 {\"kernel\"}\n",
      all, all, s->outer, s->summed, s->inner, line, step, all, all, s->inner, s->inner, s->outer * s->inner,
      s->outer * s->inner, s->summed, s->backwards ? -step : step, s->backwards ? line - step : 0, s->inner);
  assert_true(n > 0 && (size_t)n < room);
}

static tn_tensor *numbers(tn_ctx *c, long long n, double by) {
  return tn_cast(tn_sub_scalar(tn_mod_scalar(tn_arange(c, TN_I64, 0, (double)n, 1), by), 2), TN_F32);
}

/* Both results, one behind the other */
static float *results(const char *device, const shape *s) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = "strict"});
  long long all = s->outer * s->summed * s->inner, sums = s->outer * s->inner;
  float *got = malloc((size_t)(all + sums) * sizeof *got);
  char text[2000];
  assert_non_null(got);
  assert_non_null(c);
  body_of(s, text, sizeof text);
  tn_scope(c) {
    tn_tensor *in[] = {NULL, NULL, numbers(c, all, 5), numbers(c, s->inner, 3)}, *out[2];
    if (tn_run_text(c, text, 4, in, 2, out) != 2) fail_msg("%s: %s\n%s", device, tn_last_error(c)->text, text);
    assert_int_equal(tn_read(out[0], got, (size_t)all * sizeof *got), TN_OK);
    assert_int_equal(tn_read(out[1], got + all, (size_t)sums * sizeof *got), TN_OK);
  }
  char *steps = tn_explain_text_string(c, text);
  assert_non_null(steps);
  if (strcmp(device, "ref") && !strstr(steps, " stores(1,3)") == s->goes_along)
    fail_msg("%s, %lld x %lld x %lld:\n%s", device, s->outer, s->summed, s->inner, strstr(steps, "# k"));
  tn_string_free(steps);
  tn_ctx_close(c);
  return got;
}

static void as_plain_loops(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    const shape *s = &shapes[i];
    float *want = results("ref", s);
    for (int d = 0; d < 2; d++) {
      const char *device = d ? "ref:opencl" : "ref:sm_90";
      float *got = results(device, s);
      if (memcmp(got, want, (size_t)(s->outer * (s->summed + 1) * s->inner) * sizeof *got))
        fail_msg("%s, %lld x %lld x %lld: other bits", device, s->outer, s->summed, s->inner);
      free(got);
    }
    free(want);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_plain_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
