/* Places of extremes in long rows, of lengths around those at which another way of computing begins, against a loop of
 * C; on the device that $TENET_DEVICE names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include "tenet/tenet.h"
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 1 << 17, ROWS = 2, MOST_COLUMNS = 3 };
static tn_ctx *ctx;
static float *numbers;

static int open_ctx(void **state) {
  (void)state;
  ctx = tn_ctx_open(&(tn_options){.quiet = 1});
  numbers = malloc(sizeof *numbers * LONGEST);
  return ctx && numbers ? 0 : 1;
}

static int close_ctx(void **state) {
  (void)state;
  free(numbers);
  tn_ctx_close(ctx);
  return 0;
}

static uint64_t seed = 20261124;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

static bool is_better(float x, float y, bool most) { return y == y && (x != x || (most ? x > y : x < y)); }

/* Of column b of row a of numbers[ROWS, n, columns] */
static int64_t place_in(int64_t n, int64_t columns, int64_t a, int64_t b, bool most) {
  int64_t best = 0;
  for (int64_t i = 1; i < n; i++)
    if (is_better(numbers[(a * n + i) * columns + b], numbers[(a * n + best) * columns + b], most)) best = i;
  return best;
}

static void check(int64_t n, int64_t columns) {
  tn_scope(ctx) {
    tn_tensor *x = tn_from(ctx, TN_F32, (tn_dim[]){ROWS, n, columns}, 3, numbers);
    for (int most = 0; most < 2; most++) {
      int64_t found[ROWS * MOST_COLUMNS];
      tn_tensor *at = most ? tn_argmax(x, 1, false) : tn_argmin(x, 1, false);
      assert_int_equal(tn_read(at, found, sizeof *found * (size_t)(ROWS * columns)), TN_OK);
      for (int64_t i = 0; i < ROWS * columns; i++)
        assert_int_equal(found[i], place_in(n, columns, i / columns, i % columns, most));
    }
  }
}

static void test_long_rows(void **state) {
  (void)state;
  static const int64_t lengths[] = {16383, 16384, 16385, 20480, 20481, 21844};
  for (size_t k = 0; k < sizeof lengths / sizeof *lengths; k++)
    for (int64_t columns = 1; columns <= MOST_COLUMNS; columns += 2) {
      int64_t n = lengths[k], all = ROWS * n * columns;
      assert_true(all <= LONGEST);
      for (int64_t i = 0; i < all; i++) numbers[i] = (float)(below(500) - 250); /* many are equal */
      check(n, columns);
      numbers[all - 1] = 1e9f;                 /* the last one of the last block, */
      numbers[n * columns - columns] = -1e9f;
      check(n, columns);
      numbers[all - 1] = -INFINITY;            /* nothing but what fills that block up, */
      for (int64_t i = 0; i < n; i++) numbers[i * columns] = i & 1 ? INFINITY : -INFINITY;
      check(n, columns);
      numbers[n / 2 * columns] = numbers[(n - 1) * columns] = NAN; /* the first NaN */
      check(n, columns);
    }
}

/* What fills up the last block is an integer's least, or greatest: it is not found in place of one that is there. */
static void test_integers(void **state) {
  (void)state;
  enum { N = 16400 };
  int32_t *x = (int32_t *)numbers;
  tn_scope(ctx) {
    for (int i = 0; i < N; i++) x[i] = i == N - 1 ? INT32_MIN : INT32_MIN + (i > N - 30);
    tn_tensor *t = tn_from(ctx, TN_I32, (tn_dim[]){N}, 1, x);
    int64_t most, least;
    assert_int_equal(tn_read(tn_argmax(t, 0, false), &most, sizeof most), TN_OK);
    assert_int_equal(tn_read(tn_argmin(t, 0, false), &least, sizeof least), TN_OK);
    assert_int_equal(most, N - 29);
    assert_int_equal(least, 0);
  }
}

/* Many columns beside each other, on devices with work groups: by words of a key and a place, of 32
 * bits and of 64.  Equal ones, zeros of either sign, infinities, NaN of either sign; the last column is none. */
static void columns_of(tn_ctx *c, int dtype, bool computed) {
  enum { N = 21, COLUMNS = 8200 };
  static float x[N][COLUMNS];
  static int64_t found[COLUMNS];
  const float odd[] = {0, -0.0f, INFINITY, -INFINITY, NAN, -NAN, 1, -1};
  for (int i = 0; i < N; i++)
    for (int k = 0; k < COLUMNS; k++) {
      float v = (float)(below(7) - 3);
      if (dtype == TN_U8) v = v < 0 ? 255 + v : v;
      if (dtype != TN_U8 && dtype != TN_I32 && below(3) == 0) v = odd[below(sizeof odd / sizeof *odd)];
      x[i][k] = k == COLUMNS - 1 ? 2 : v;
    }
  tn_scope(c) {
    tn_tensor *t = tn_cast(tn_from(c, TN_F32, (tn_dim[]){N, COLUMNS}, 2, x), (tn_dtype)dtype);
    if (!computed) t = tn_contiguous(t);
    for (int most = 0; most < 2; most++) {
      tn_tensor *at = most ? tn_argmax(t, 0, false) : tn_argmin(t, 0, false);
      char *text = tn_explain_string(&at, 1);
      assert_non_null(text);
      assert_int_equal(strstr(text, "reduce u") != NULL, dtype != TN_F64); /* f64 has no words */
      tn_string_free(text);
      assert_int_equal(tn_read(at, found, sizeof found), TN_OK);
      for (int k = 0; k < COLUMNS; k++) {
        int best = 0;
        for (int i = 1; i < N; i++)
          if (is_better(x[i][k], x[best][k], most)) best = i;
        assert_int_equal(found[k], best);
      }
    }
  }
}

static void test_columns(void **state) {
  static const int dtypes[] = {TN_F32, TN_BF16, TN_F16, TN_I32, TN_U8, TN_F64};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:opencl", .quiet = 1});
  (void)state;
  assert_non_null(c);
  for (size_t i = 0; i < sizeof dtypes / sizeof *dtypes; i++) columns_of(c, dtypes[i], i % 2);
  tn_ctx_close(c);
}

/* Of one element each it is 0, whatever that is: nothing is read. */
static void test_one(void **state) {
  const float x[3] = {NAN, -INFINITY, 1};
  int64_t found[3] = {1, 1, 1};
  (void)state;
  tn_scope(ctx) {
    tn_tensor *at = tn_argmin(tn_from(ctx, TN_F32, (tn_dim[]){3, 1}, 2, x), 1, false);
    char *text = tn_explain_string(&at, 1);
    assert_non_null(text);
    assert_null(strstr(text, "load f32"));
    tn_string_free(text);
    assert_int_equal(tn_read(at, found, sizeof found), TN_OK);
    for (int i = 0; i < 3; i++) assert_int_equal(found[i], 0);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_long_rows, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_integers, open_ctx, close_ctx),
      cmocka_unit_test(test_columns),
      cmocka_unit_test_setup_teardown(test_one, open_ctx, close_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
