/* Random numbers as kernels draw them: four neighbours of a thread share one block of Philox, two normal numbers one
 * logarithm and one root, by the kernels' text; and wherever an element stands, it is what (seed, tensor, element)
 * say, bit for bit. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/eval.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
enum { N = 1000, SEED = 7, CALLS = 3 };

static tn_ctx *open_on(const char *device) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .threads = 2, .seed = SEED, .quiet = 1});
  assert_non_null(c);
  assert_int_equal(tn_rng_set_state(c, SEED, CALLS), TN_OK);
  return c;
}

static void ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}
#define OK(x) ok(c, x, __LINE__)

static uint32_t word(uint64_t element) {
  return (uint32_t)tn__eval(OP_PHILOX, TN_U32, TN_U64, (const uint64_t[]){element, SEED, CALLS});
}

/* ---- values ---- */

/* Elements from + step * i, as views of a tensor of 4 N + 3, taken before anything is computed */
static void words_of_views(void **state) {
  static const struct {
    int64_t from, step, n;
  } views[] = {{0, 1, N}, {1, 1, N}, {3, 1, 8}, {2, 1, 1}, {0, 2, N}, {5, 3, N}, {4 * N + 2, -1, N}, {7, 1, 0}};
  uint32_t got[N + 1];
  (void)state;
  for (size_t v = 0; v < sizeof views / sizeof *views; v++) {
    tn_ctx *c = open_on(device_or("cpu"));
    int64_t from = views[v].from, step = views[v].step, n = views[v].n;
    tn_scope(c) {
      tn_tensor *x = tn_rand_bits(c, DIMS(4 * N + 3));
      if (step < 0) x = tn_flip(x, (const int[]){0}, 1), from = 0, step = 1;
      x = tn_slice(x, 0, from, from + n * step, step);
      OK(tn_read(x, got, (size_t)n * sizeof *got));
    }
    for (int64_t i = 0; i < n; i++)
      if (got[i] != word((uint64_t)(views[v].from + views[v].step * i)))
        fail_msg("view %d: element %d is not what it is elsewhere", (int)v, (int)i);
    tn_ctx_close(c);
  }
}

/* The first n elements are the same, whatever n is: by the interpreter, one after the other, and by the device. */
static void sizes(void **state) {
  static const int64_t n[] = {0, 1, 2, 3, 4, 5, 7, 8, 31, 64, 257, 999, N};
  static float want[N], got[N];
  (void)state;
  for (int kind = 0; kind < 3; kind++)
    for (size_t k = sizeof n / sizeof *n; k && k--;) {
      tn_ctx *c = open_on(n[k] == N ? "ref" : device_or("cpu"));
      tn_scope(c) {
        tn_tensor *x = tn_normal(c, TN_F32, DIMS(n[k]), 1, 2);
        if (kind == 1) x = tn_uniform(c, TN_F32, DIMS(n[k]), 1, 2);
        if (kind == 2) x = tn_dropout(tn_full(c, TN_F32, DIMS(n[k]), 3), 0.25, true);
        OK(tn_read(x, n[k] == N ? want : got, (size_t)n[k] * sizeof *got));
      }
      if (n[k] < N) assert_memory_equal(got, want, (size_t)n[k] * sizeof *got);
      tn_ctx_close(c);
    }
}

/* ---- texts ---- */

static int count(const char *text, const char *end, const char *what) {
  int n = 0;
  while ((text = strstr(text, what)) && text < end) n++, text++;
  return n;
}

enum { UNIFORM, NORMAL, HALVES, COINS, DROPOUT, PASSED_BACK, TABLE, PAIRS, PAIRS_ONLY };

static tn_tensor *drawn(tn_ctx *c, int kind, tn_dim n) {
  tn_tensor *x = tn_linspace(c, TN_F32, 0, 1, n), *y, *g;
  switch (kind) {
  case TABLE: return tn_normal(c, TN_F32, DIMS(n / 4096 / 5, 5, 4096), 1, 2); /* its axes are one loop */
  case PAIRS: return tn_uniform(c, TN_F32, DIMS(n / 26, 26), 0, 1); /* four of all, across the ends of rows */
  case PAIRS_ONLY: /* rows of what is loaded lie apart */
    OK(tn_realize(&x, 1));
    x = tn_slice(tn_reshape(tn_slice(x, 0, 0, n / 28 * 28, 1), DIMS(n / 28, 28)), 1, 0, 26, 1);
    return tn_add(tn_uniform(c, TN_F32, DIMS(n / 28, 26), 0, 1), x);
  case UNIFORM: return tn_uniform(c, TN_F32, &n, 1, -1, 1);
  case NORMAL: return tn_normal(c, TN_F32, &n, 1, 1, 2);
  case HALVES: return tn_normal(c, TN_BF16, &n, 1, 1, 2);
  case COINS: return tn_bernoulli(c, &n, 1, 0.25);
  case DROPOUT: return tn_dropout(x, 0.25, true);
  default:
    y = tn_sum(tn_mul(tn_dropout(x, 0.25, true), x), NULL, 0, false);
    OK(tn_grad(y, 1, &x, &g));
    return g;
  }
}

/* In front of the neighbours' loop a thread draws the words, all of as few blocks as hold them; in it there is none. */
static void neighbours_share(void **state) {
  static const struct {
    int kind, neighbours, logs;
  } cases[] = {{UNIFORM, 4, 0}, {NORMAL, 4, 2},      {HALVES, 8, 4}, {COINS, 16, 0},
               {DROPOUT, 4, 0}, {PASSED_BACK, 4, 0}, {TABLE, 4, 2},
               {PAIRS, 4, 0},   {PAIRS_ONLY, 2, 0}};
  (void)state;
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    tn_ctx *c = open_on("ref:sm_90");
    tn_scope(c) {
      tn_tensor *x = drawn(c, cases[k].kind, 1 << 21);
      char *all = tn_explain_string(&x, 1);
      assert_non_null(all);
      const char *text = strstr(all, "__global__ void"), *loop, *end;
      for (const char *next; (next = strstr(text + 1, "__global__ void"));) text = next;
      assert_non_null(strstr(all, "draws("));
      loop = strstr(text, "#pragma unroll");
      assert_non_null(loop);
      end = text + strlen(text);
      assert_int_equal(count(text, loop, "tn_philox_u64("), cases[k].neighbours);
      assert_int_equal(count(loop, end, "tn_philox_u64("), 0);
      /* blocks are constants behind the first, and words constants of their block that carry nothing into it */
      for (int i = 1; i < cases[k].neighbours; i++) {
        char step[32];
        int want = i < 4 ? (cases[k].neighbours + 3) / 4 : i % 4 == 0;
        snprintf(step, sizeof step, i < 4 ? "| %dul)" : "+ (u64)%dul)", i);
        if (count(text, loop, step) != want)
          fail_msg("case %d: %d of %s in\n%s", (int)k, count(text, loop, step), step, text);
      }
      const char *log = cases[k].kind == HALVES ? "tn_near_log(" : "tn_log_f32(";
      assert_int_equal(count(text, loop, log), cases[k].logs);
      assert_int_equal(count(text, loop, "sqrt"), cases[k].logs);
      assert_int_equal(count(loop, end, log), 0);
      tn_string_free(all);
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(words_of_views), cmocka_unit_test(sizes),
                                     cmocka_unit_test(neighbours_share)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
