/* tn_explain's text replays: from each of its stages on it gives the same text again; what is wrong in it is told, and
 * nothing crashes. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static tn_ctx *open_on(const char *device) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .threads = 1, .cc = "", .cache_dir = "", .quiet = 1});
  assert_non_null(c);
  return c;
}

/* A product, a row reduction, random numbers and constants. */
static int make(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = tn_uniform(c, TN_F32, DIMS(6, 40), -1, 1), *w = tn_uniform(c, TN_F32, DIMS(40, 50), -1, 1);
  assert_int_equal(tn_realize((tn_tensor *[]){x, w}, 2), TN_OK);
  out[0] = tn_softmax(tn_matmul(x, w), 1);
  out[1] = tn_dropout(tn_exp(x), 0.5, true);
  return 2;
}

static char *explain(tn_tensor *const *t, int n) {
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  if (tn_explain(t, n, f) != TN_OK) fail_msg("%s", tn_last_error(tn_ctx_of(t[0]))->text);
  fclose(f);
  return text;
}

/* NULL on an error. */
static char *again(tn_ctx *c, const char *from) {
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  tn_status s = tn_explain_text(c, from, f);
  fclose(f);
  if (s == TN_OK) return text;
  if (s != tn_last_error(c)->status || !*tn_last_error(c)->text)
    fail_msg("%s: %s", tn_status_name(s), tn_last_error(c)->text);
  free(text);
  return NULL;
}

static void check_same(tn_ctx *c, const char *text) {
  char *got = again(c, text);
  if (!got) fail_msg("%s", tn_last_error(c)->text);
  assert_string_equal(got, text);
  free(got);
}

static void stages(void **state) {
  static const char *device[] = {"cpu", "ref"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    tn_ctx *c = open_on(device[i]), *fresh = open_on(device[i]);
    tn_tensor *out[2];
    char *text = explain(out, make(c, out));
    check_same(fresh, text);
    check_same(c, text); /* with its schedule in the cache, too */
    check_same(fresh, strstr(text, "# schedule\n"));
    tn_ctx_close(fresh);
    tn_ctx_close(c);
    free(text);
  }
}

static void program(void **state) {
  (void)state;
  tn_ctx *c = open_on("cpu"), *fresh = open_on("cpu");
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(tn_dim_var(c, "B", 1, 64), 30));
  tn_tensor *w = tn_from(c, TN_F32, DIMS(1), &(float){2});
  assert_int_equal(tn_assign(w, tn_mul(w, tn_mean(x, NULL, 0, false))), TN_OK);
  assert_int_equal(tn_program_output(p, "y", tn_layer_norm(x, 1, NULL, NULL, 1e-5)), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  assert_int_equal(tn_program_explain(p, f), TN_OK);
  fclose(f);
  check_same(fresh, text);
  tn_ctx_close(fresh);
  tn_ctx_close(c);
  free(text);
}

/* Values whose kernels keep rows in scratch memory, sum in parts, share groups, multiply by tiles. */
static tn_tensor *make_one(tn_ctx *c, int which, tn_tensor **gradient) {
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 3), (const float[]){1, 2, 3, 4, 5, 6}), *y = NULL;
  switch (which) {
  case 0: return tn_softmax(x, 1);
  case 1: return tn_layer_norm(x, 1, NULL, NULL, 1e-5);
  case 2: return tn_var(x, (const int[]){1}, 1, 1, false);
  case 3: return tn_sum(tn_softmax(tn_pad(x, (const tn_dim[]){1, 1, 0, 2}, 1), 1), NULL, 0, false);
  case 4: return tn_sum(tn_ones(c, TN_F32, DIMS(3, 70000)), (const int[]){1}, 1, false);
  case 5: return tn_matmul(tn_ones(c, TN_F32, DIMS(128, 64)), tn_exp(tn_ones(c, TN_F32, DIMS(64, 128))));
  case 6: return tn_sum(tn_exp(tn_ones(c, TN_F32, DIMS(5000, 40))), (const int[]){0}, 1, false);
  case 7: return tn_take(x, tn_from(c, TN_I64, DIMS(4), (const int64_t[]){1, 0, 1, 7}), 0);
  case 8: y = tn_sum(tn_square(tn_take(x, tn_ones(c, TN_I64, DIMS(70)), 0)), NULL, 0, false); break;
  case 9: y = tn_sum(tn_square(tn_softmax(x, 1)), NULL, 0, false); break;
  default: return NULL;
  }
  assert_int_equal(tn_grad(y, 1, &x, gradient), TN_OK);
  return y;
}

/* On compiling devices, too: what kernels are there, their printed form replays. */
static void devices(void **state) {
  static const char *const device[] = {"cpu", "ref:cpu", "ref:sm_90", "ref:opencl", "ref"};
  (void)state;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = device[d], .quiet = 1});
    tn_tensor *out[2] = {NULL};
    assert_non_null(c);
    for (int which = 0; (out[0] = make_one(c, which, &out[1])); which++, out[1] = NULL) {
      char *text = explain(out, out[1] ? 2 : 1);
      check_same(c, text);
      check_same(c, strstr(text, "# schedule\n"));
      free(text);
    }
    tn_ctx_close(c);
  }
}

/* Which rules of mode fast took part; the other modes have none. */
static void rules(void **state) {
  static const struct {
    tn_mode mode;
    const char *says;
  } rows[] = {{TN_MODE_STRICT, ": none\n"},
              {TN_MODE_DEFAULT, ": none\n"},
              {TN_MODE_FAST, ": fast_add_zero, fast_mul_zero, fast_log_exp\n"}};
  static const char head[] = "\n# rules that hold over the reals only";
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .mode = rows[i].mode, .quiet = 1});
    tn_tensor *x = tn_from(c, TN_F32, DIMS(2), (float[]){1, 2}), *y = tn_add(tn_mul_scalar(x, 0), tn_log(tn_exp(x)));
    for (int again = 0; again < 2; again++) { /* from the cache, too */
      char *text = explain(&y, 1), *at = strstr(text, head);
      assert_non_null(at);
      if (strncmp(at + strlen(head), rows[i].says, strlen(rows[i].says)))
        fail_msg("mode %d: %s", (int)rows[i].mode, at);
      check_same(c, text);
      free(text);
    }
    tn_tensor *plain = tn_exp(x); /* what fired for another graph is not told here */
    char *text = explain(&plain, 1);
    assert_non_null(strstr(text, "reals only: none\n"));
    free(text);
    tn_ctx_close(c);
  }
}

static const char kernel[] = "# kernel\n"
                             "%1 = param f32[8] 8 {0 -1}\n"
                             "%2 = range index 8 {loop 0 output}\n"
                             "%3 = param f32[8] 8 {1 -1}\n"
                             "%4 = load f32 %3 %2\n"
                             "%5 = exp f32 %4\n"
                             "%6 = store void %1 %2 %5 %2\n"
                             "%7 = sink void %6 {\"kernel\"}\n";

static void one_kernel(void **state) {
  (void)state;
  tn_ctx *c = open_on("cpu");
  char *got = again(c, kernel);
  if (!got) fail_msg("%s", tn_last_error(c)->text);
  assert_memory_equal(got, kernel, sizeof kernel - 1);
  assert_non_null(strstr(got, "# kernels, optimised\n# k0_8:"));
  assert_non_null(strstr(got, "# source\n"));
  free(got);
  got = again(c, "%1 = param f32[2] 2 {0 0}\n%2 = exp f32[2] %1\n"); /* a graph need not have its sink */
  assert_non_null(got);
  assert_non_null(
      strstr(got, "= sink void %2 {\"outputs\"}\n\n# rules that hold over the reals only: none\n\n# schedule\n"));
  free(got);
  tn_ctx_close(c);
}

/* Two sums over rows, with loops of these numbers */
static char *two_sums(tn_ctx *c, int row, int column, int second) {
  char text[1024];
  snprintf(text, sizeof text,
           "%%1 = param f32[200] 200 {0 -1}\n%%2 = range index 200 {loop %d output}\n"
           "%%3 = param f32[80000] 80000 {1 -1}\n"
           "%%4 = range index 400 {reduce %d reduction}\n%%5 = mul index %%2 400\n%%6 = add index %%5 %%4\n"
           "%%7 = load f32 %%3 %%6\n%%8 = reduce f32 %%7 %%4 {max 1}\n%%9 = range index 400 {reduce %d reduction}\n"
           "%%10 = add index %%5 %%9\n%%11 = load f32 %%3 %%10\n%%12 = sub f32 %%11 %%8\n"
           "%%13 = reduce f32 %%12 %%9 {add 1}\n%%14 = store void %%1 %%2 %%13 %%2\n"
           "%%15 = sink void %%14 {\"kernel\"}\n",
           row, column, second);
  char *at = strstr(text, "sub f32 %11 %8"); /* there is no such op */
  assert_non_null(at);
  memcpy(at, "mul", 3);
  return again(c, text);
}

/* The number of a loop is a name: no pass reads more from it than an order. */
static void loop_numbers(void **state) {
  static const int from[] = {1, 97, 4990, 5000, 5063, 11999, 12000, 15000, 20000, 29999, 30000, 34000, 35500, 36000,
                             39998, 40000, 50000, 70000, INT32_MAX - 3};
  static const char *const device[] = {"cpu", "ref:sm_90", "ref:opencl"};
  (void)state;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++) {
    tn_ctx *c = open_on(device[d]);
    char *first = two_sums(c, 0, 1, 2);
    if (!first) fail_msg("%s", tn_last_error(c)->text);
    const char *code = strstr(first, "_0(");
    assert_non_null(code);
    for (size_t i = 0; i < sizeof from / sizeof *from; i++) {
      char *other = two_sums(c, from[i], from[i] + 1, from[i] + 2);
      if (!other) fail_msg("%s, from %d: %s", device[d], from[i], tn_last_error(c)->text);
      const char *its = strstr(other, "_0(");
      if (!its || strcmp(code, its)) fail_msg("%s, from %d: another kernel", device[d], from[i]);
      free(other);
    }
    free(first);
    tn_ctx_close(c);
  }
}

static void refused(void **state) {
  static const struct {
    const char *text, *why;
  } bad[] = {
      {"", "the text holds no node"},
      {"# only a comment\n\n", "the text holds no node"},
      {"hello\n", "line 1, column 1"},
      {"%1 = param f32[2] 2 {0 0}\n%2 = exp f32[2] %9\n", "line 2, column 17"},
      {"\n# graph\n%1 = param f32[2] 2 {0 0}\n%2 = exp f32[3] %1\n", "line 4, column 10: the type is f32[2]"},
      {"%1 = param f32[2] 2 {0 0}\n%2 = sink void %1 {\"outputs\"}\n\n%1 = what f32 7\n", "line 4"},
      {"%1 = sink void {\"outputs\"}\n", "line 1: the graph has no outputs"},
      {"%1 = param f32[2] 2 {0 0}\n%2 = sink void %1 {\"else\"}\n",
       "line 2: the root is neither a graph's, nor a schedule's, nor a kernel's"},
      {"%1 = range index 2 {loop 0 output}\n"
       "%2 = param f32[2] 2 {0 0}\n%3 = load f32 %2 %1\n%4 = sink void %3 {\"outputs\"}\n",
       "line 4: no graph: "},
      {"%1 = param f32[2] 2 {0 -1}\n%2 = range index 2 {loop 0 output}\n"
       "%3 = const f32 {1.0}\n%4 = store void %1 %2 %3 %2\n%5 "
       "= sink void %4 {\"part\"}\n",
       "line 5: the kernel is optimised already"},
      {"%1 = param f32[2] 2 {0 -1}\n%2 = range index 2 {upcast 0 output}\n"
       "%3 = const f32 {1.0}\n%4 = store void %1 %2 %3 "
       "%2\n%5 = sink void %4 {\"kernel\"}\n",
       "line 2: no kernel of a schedule has such a range"},
      {"%1 = param f32[2] 2 {-7 -1}\n%2 = range index 2 {loop 0 output}\n"
       "%3 = const f32 {1.0}\n%4 = store void %1 %2 %3 "
       "%2\n%5 = sink void %4 {\"kernel\"}\n",
       "number -7"},
      {"%1 = param f32[2] 2 {0 77}\n%2 = exp f32[2] %1\n%3 = sink void %2 {\"outputs\"}\n", "no device number 77"},
  };
  (void)state;
  tn_ctx *c = open_on("cpu");
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    char *got = again(c, bad[i].text);
    if (got || !strstr(tn_last_error(c)->text, bad[i].why))
      fail_msg("%s gives %s", bad[i].text, got ? got : tn_last_error(c)->text);
    tn_clear_error(c);
  }
  assert_int_equal(tn_explain_text(c, NULL, stderr), TN_EINVAL);
  tn_tensor *x = tn_ones(c, TN_F32, DIMS(2));
  assert_int_equal(tn_read(x, (float[2]){0}, 8), TN_OK); /* the context still works */
  tn_ctx_close(c);
}

/* Any line left out, repeated, or with one character changed: the same text, an error, or another text; never a crash.
 */
static void damaged(void **state) {
  (void)state;
  tn_ctx *c = open_on("cpu");
  tn_tensor *out[2];
  char *whole = explain(out, make(c, out)), *source = strstr(whole, "# source\n");
  const char *from[] = {whole, strstr(whole, "# schedule\n"), kernel};
  unsigned seed = 1;
  *source = 0;
  for (int k = 0; k < 3; k++) {
    size_t n = strlen(from[k]);
    char *text = malloc(2 * n + 1);
    assert_non_null(text);
    for (int round = 0; round < 300; round++) {
      size_t at = (seed = seed * 1103515245u + 12345u) / 65536u % n, end = at + strcspn(from[k] + at, "\n");
      memcpy(text, from[k], n + 1);
      if (round % 3 == 0) memmove(text + at, text + end, n - end + 1);
      else if (round % 3 == 1) memmove(text + end, text + at, n - at + 1);
      else text[at] = "0123456789%[]{} -xa"[(seed = seed * 1103515245u + 12345u) / 65536u % 19];
      tn_clear_error(c);
      free(again(c, text));
    }
    free(text);
  }
  free(whole);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(stages),  cmocka_unit_test(devices), cmocka_unit_test(program),
      cmocka_unit_test(one_kernel), cmocka_unit_test(rules),
      cmocka_unit_test(loop_numbers), cmocka_unit_test(refused), cmocka_unit_test(damaged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
