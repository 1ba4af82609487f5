/* More than one device in a context: random tensors go where the others are, values of each device are computed there,
 * mixing is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
enum { N = 40 };

static tn_ctx *open_both(void) { /* cpu is the default, ref the other */
  tn_ctx *c =
      tn_ctx_open(&(tn_options){.device = "cpu", .threads = 1, .cc = "", .cache_dir = "", .seed = 3, .quiet = 1});
  assert_non_null(c);
  return c;
}

static void ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}
#define OK(x) ok(c, x, __LINE__)

static void refused(tn_ctx *c, bool failed, tn_status status, const char *text, int line) {
  if (!failed || tn_last_error(c)->status != status || strcmp(tn_last_error(c)->text, text))
    fail_msg("line %d: %s: %s", line, tn_status_name(tn_last_error(c)->status), tn_last_error(c)->text);
  tn_clear_error(c);
}
#define WRONG(failed, status, text) refused(c, failed, status, text, __LINE__)

static tn_tensor *ones_on(tn_ctx *c, const char *device) {
  float v[N];
  for (int i = 0; i < N; i++) v[i] = 1;
  return tn_to(tn_from(c, TN_F32, DIMS(N), v), device);
}

/* Every kind of random tensor, added up on the device of x. */
static tn_tensor *noisy(tn_ctx *c, tn_tensor *x) {
  x = tn_add(x, tn_uniform(c, TN_F32, DIMS(N), 0, 1));
  x = tn_add(x, tn_normal(c, TN_F32, DIMS(N), 0, 1));
  x = tn_add(x, tn_cast(tn_randint(c, TN_I32, DIMS(N), 0, 100), TN_F32));
  x = tn_add(x, tn_cast(tn_rand_bits(c, DIMS(N)), TN_F32));
  x = tn_where(tn_bernoulli(c, DIMS(N), 0.5), x, tn_neg(x));
  return tn_dropout(x, 0.25, true);
}

static void random_goes_along(void **state) {
  static const char *device[] = {"cpu", "ref"};
  float got[2][N], later[2][N];
  uint64_t calls[2];
  (void)state;
  tn_ctx *c = open_both();
  for (int i = 0; i < 2; i++) tn_scope(c) {
    OK(tn_manual_seed(c, 11));
    tn_tensor *x = ones_on(c, device[i]), *first = noisy(c, x), *second = noisy(c, x), *g;
    assert_string_equal(tn_device_of(first), device[i]);
    OK(tn_grad(tn_sum(second, NULL, 0, false), 1, &x, &g));
    OK(tn_read(second, later[i], sizeof later[i]));
    OK(tn_read(first, got[i], sizeof got[i]));
    OK(tn_realize(&g, 1));
    assert_string_equal(tn_device_of(first), device[i]);
    OK(tn_rng_get_state(c, NULL, &calls[i]));
  }
  assert_memory_equal(got[0], got[1], sizeof got[0]); /* the same stream everywhere */
  assert_memory_equal(later[0], later[1], sizeof later[0]);
  assert_memory_not_equal(got[0], later[0], sizeof got[0]);
  assert_true(calls[0] == 12 && calls[1] == 12);
  tn_ctx_close(c);
}

static void program_elsewhere(void **state) {
  float want[3][N], got[N], w[N];
  (void)state;
  tn_ctx *c = open_both();
  tn_scope(c) {
    tn_tensor *x = ones_on(c, "ref");
    OK(tn_manual_seed(c, 5));
    for (int i = 0; i < 3; i++) OK(tn_read(noisy(c, x), want[i], sizeof want[i]));
    OK(tn_manual_seed(c, 5));
    tn_program *p = tn_program_begin(c);
    tn_tensor *y = noisy(c, x);
    OK(tn_program_output(p, "y", y));
    OK(tn_assign(x, tn_mul_scalar(x, 1)));
    OK(tn_program_end(p));
    for (int i = 0; i < 3; i++) {
      OK(tn_program_run(p));
      OK(tn_program_read(p, "y", got, sizeof got));
      assert_memory_equal(got, want[i], sizeof got);
      assert_string_equal(tn_device_of(tn_program_result(p, "y")), "ref");
    }
    OK(tn_read(x, w, sizeof w));
    assert_true(w[0] == 1 && w[N - 1] == 1);
    OK(tn_rng_set_state(c, 5, 6)); /* and from the middle, now on the default device */
    OK(tn_read(noisy(c, ones_on(c, "cpu")), got, sizeof got));
    assert_memory_equal(got, want[1], sizeof got);
  }
  tn_ctx_close(c);
}

static void each_on_its_own(void **state) {
  (void)state;
  tn_ctx *c = open_both();
  tn_scope(c) {
    float v[N];
    tn_tensor *t[] = {tn_neg(ones_on(c, "ref")), tn_neg(ones_on(c, "cpu")), tn_zeros(c, TN_F32, DIMS(N)), NULL};
    t[3] = t[0];
    OK(tn_realize(t, 4));
    assert_string_equal(tn_device_of(t[0]), "ref");
    assert_string_equal(tn_device_of(t[1]), "cpu");
    assert_string_equal(tn_device_of(t[2]), "cpu");
    for (int i = 0; i < 4; i++) {
      OK(tn_read(t[i], v, sizeof v));
      assert_true(v[N - 1] == (i == 2 ? 0 : -1));
    }
  }
  tn_ctx_close(c);
}

static void mixing(void **state) {
  (void)state;
  tn_ctx *c = open_both();
  tn_tensor *here = ones_on(c, "cpu"), *there = ones_on(c, "ref"), *both[] = {tn_neg(here), tn_neg(there)};
  WRONG(!tn_add(here, there), TN_EDEVICE,
        "tn_add: tensor argument 2 is on ref, an earlier one on cpu: move one with tn_to");
  WRONG(tn_explain(both, 2, stderr), TN_EDEVICE,
        "tn_explain: values on cpu and on ref cannot be computed as one: move them with tn_to");
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(N));
  OK(tn_program_output(p, "y", tn_neg(x)));
  OK(tn_assign(there, tn_neg(there)));
  WRONG(tn_program_end(p), TN_EDEVICE,
        "tn_program_end: values on cpu and on ref cannot be computed as one: move them with tn_to");
  p = tn_program_begin(c);
  x = tn_program_input(p, "x", TN_F32, DIMS(N));
  OK(tn_program_output(p, "y", tn_neg(x)));
  OK(tn_program_end(p));
  WRONG(tn_program_bind(p, "x", there), TN_EDEVICE,
        "tn_program_bind: input 'x' is on cpu, not on ref: move the value with tn_to");
  OK(tn_program_bind(p, "x", here));
  OK(tn_program_run(p));
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(random_goes_along),
      cmocka_unit_test(program_elsewhere),
      cmocka_unit_test(each_on_its_own),
      cmocka_unit_test(mixing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
