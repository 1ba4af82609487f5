/* What a program needs of its symbolic sizes beyond their bounds is checked when they are bound, and told; and inputs without a value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
enum { MOST = 16 };

static tn_ctx *c;
static tn_dim N, M;

static int open_ctx(void **state) {
  (void)state;
  c = tn_ctx_open(&(tn_options){.device = "ref", .threads = 1, .cache_dir = "", .quiet = 1});
  N = tn_dim_var(c, "N", 0, MOST);
  M = tn_dim_var(c, "M", 0, MOST);
  return c ? 0 : -1;
}
static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(c);
  return 0;
}

static void check_ok(tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}
#define OK(x) check_ok(x, __LINE__)

static void check_wrong(tn_status s, tn_status want, const char *text, int line) {
  if (s != want || strcmp(tn_last_error(c)->text, text)) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
  tn_clear_error(c);
}
#define WRONG(x, status, text) check_wrong(x, status, text, __LINE__)

static float data[MOST];

static tn_status run(tn_program *p, int64_t n, int64_t m) {
  OK(tn_program_write(p, "x", &(tn_dim){n}, 1, data, (size_t)n * 4));
  if (m >= 0) OK(tn_program_write(p, "y", &(tn_dim){m}, 1, data, (size_t)m * 4));
  return tn_program_run(p);
}

typedef tn_tensor *(*make_fn)(tn_tensor *x, tn_tensor *y);

static tn_program *record(make_fn make, bool two) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, &N, 1), *y = two ? tn_program_input(p, "y", TN_F32, &M, 1) : NULL;
  OK(tn_program_output(p, "out", make(x, y)));
  OK(tn_program_end(p));
  return p;
}

static tn_tensor *middle(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_neg(tn_shrink(x, (tn_dim[]){2}, (tn_dim[]){3}));
}
static tn_tensor *shorter(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_neg(tn_shrink(x, (tn_dim[]){0}, (tn_dim[]){tn_dim_sub(c, N, 5)}));
}
static tn_tensor *within(tn_tensor *x, tn_tensor *y) { return tn_add(tn_shrink(x, (tn_dim[]){0}, (tn_dim[]){M}), y); }
static tn_tensor *padded(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_pad(x, (tn_dim[]){0, tn_dim_sub(c, 10, N)}, 1);
}
static tn_tensor *filled(tn_tensor *x, tn_tensor *y) {
  return tn_add(tn_sum(x, NULL, 0, false), tn_sum(tn_add(tn_ones(c, TN_F32, DIMS(tn_dim_sub(c, N, M))), tn_sum(y, NULL, 0, false)), NULL, 0, false));
}
static tn_tensor *last(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_slice(x, 0, -3, INT64_MAX, 1);
}

static void slices(void **state) {
  float out[MOST];
  (void)state;
  for (int i = 0; i < MOST; i++) data[i] = (float)i;
  tn_program *p = record(middle, false);
  OK(run(p, 5, -1)); /* the last that fits */
  OK(tn_program_read(p, "out", out, 12));
  assert_true(out[0] == -2 && out[2] == -4);
  WRONG(run(p, 4, -1), TN_EBOUND, "tn_program_run: shrink f32[3] of f32[N] needs 5 <= N (4); bound are N = 4");
  WRONG(tn_program_run(p), TN_EBOUND, "tn_program_run: shrink f32[3] of f32[N] needs 5 <= N (4); bound are N = 4");
  OK(run(p, 16, -1));
  p = record(shorter, false);
  OK(run(p, 5, -1));
  OK(tn_program_read(p, "out", out, 0));
  OK(run(p, 6, -1));
  OK(tn_program_read(p, "out", out, 4));
  WRONG(run(p, 4, -1), TN_EBOUND, "tn_program_run: shrink f32[N - 5] of f32[N] needs 0 <= N - 5 (-1); bound are N = 4");
  p = record(within, true);
  OK(run(p, 7, 7));
  OK(tn_program_read(p, "out", out, 28));
  assert_true(out[6] == 12);
  OK(run(p, 7, 0));
  WRONG(run(p, 6, 7), TN_EBOUND, "tn_program_run: shrink f32[M] of f32[N] needs M (7) <= N (6); bound are N = 6, M = 7");
  p = record(last, false); /* clamped, as in Python: nothing to be needed */
  for (int64_t n = 0; n <= MOST; n++) OK(run(p, n, -1));
}

static void amounts(void **state) {
  float out[MOST];
  (void)state;
  tn_program *p = record(padded, false);
  OK(run(p, 10, -1));
  OK(run(p, 3, -1));
  OK(tn_program_read(p, "out", out, 40));
  assert_true(out[2] == 2 && out[3] == 1 && out[9] == 1);
  assert_int_equal(run(p, 11, -1), TN_EBOUND);
  assert_non_null(strstr(tn_last_error(c)->text, "bound are N = 11"));
  tn_clear_error(c);
  p = record(filled, true);
  OK(run(p, 3, 3));
  OK(run(p, 4, 2));
  assert_int_equal(run(p, 3, 4), TN_EBOUND);
  assert_non_null(strstr(tn_last_error(c)->text, "bound are"));
  tn_clear_error(c);
}

/* A refused value does not leave the one before it in place. */
static void refused_values(void **state) {
  (void)state;
  tn_program *p = record(middle, false);
  tn_tensor *good = tn_from(c, TN_F32, DIMS(6), data), *bad = tn_from(c, TN_I32, DIMS(6), data);
  WRONG(tn_program_run(p), TN_ESTATE, "tn_program_run: input 'x' has not been bound");
  OK(run(p, 6, -1));
  assert_int_equal(tn_program_write(p, "x", DIMS(MOST + 1), data, 4), TN_EBOUND);
  tn_clear_error(c);
  WRONG(tn_program_run(p), TN_ESTATE, "tn_program_run: input 'x' has no value: the last one was refused");
  OK(tn_program_bind(p, "x", good));
  OK(tn_program_run(p));
  assert_int_equal(tn_program_bind(p, "x", bad), TN_EDTYPE);
  tn_clear_error(c);
  WRONG(tn_program_run(p), TN_ESTATE, "tn_program_run: input 'x' has no value: the last one was refused");
  assert_int_equal(tn_program_write(p, "z", DIMS(6), data, 24), TN_EINVAL); /* another's name does it no harm */
  tn_clear_error(c);
  OK(run(p, 6, -1));
  assert_int_equal(tn_program_bind(p, "z", good), TN_EINVAL);
  tn_clear_error(c);
  OK(tn_program_run(p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(slices, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(amounts, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(refused_values, open_ctx, close_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
