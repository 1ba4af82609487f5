/* The first few of rows: by counting, by a tree of blocks, and by sorting them, against what a few lines of C say; on
 * the device that $TENET_DEVICE names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include "device/device.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <cmocka.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { ROOM = 9000 };
static tn_ctx *ctx;
static unsigned long cases;

static int open_ctx(void **state) {
  (void)state;
  ctx = tn_ctx_open(&(tn_options){.quiet = 1});
  return ctx ? 0 : 1;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(ctx);
  return 0;
}

static void check_ok(tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(ctx)->text);
}
#define CHECK(call) check_ok(call, __LINE__)

static uint64_t seed = 20261129;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* Few values, so that many are equal, which every dtype holds that is not bool */
static float any_of(tn_dtype dtype) {
  static const float odd[] = {NAN, -0.0f, 0.0f, INFINITY, -INFINITY};
  bool real = dtype >= TN_F16, negative = real || (dtype >= TN_I8 && dtype <= TN_I64);
  if (real && !below(8)) return odd[below(5)];
  return dtype == TN_BOOL ? (float)below(2) : (float)(below(90) - (negative ? 45 : 0));
}

static bool is_less(float x, float y) { return x < y || (x == x && y != y); }

/* Does the one at i stand before the one at j? */
static bool stands_first(const float *x, int64_t step, bool down, int64_t i, int64_t j) {
  float a = x[i * step], b = x[j * step];
  if (is_less(a, b)) return !down;
  if (is_less(b, a)) return down;
  return i < j;
}

/* Row by row each element goes behind those that stand before it. */
static void put_in_order(const float *x, int64_t step, int64_t n, bool down, int64_t *place) {
  for (int64_t i = 0; i < n; i++) {
    int64_t at = i;
    for (; at && stands_first(x, step, down, i, place[at - 1]); at--) place[at] = place[at - 1];
    place[at] = i;
  }
}

typedef struct rows {
  tn_dim shape[3]; /* along the one in the middle */
} rows;

static void expect_first(const rows *r, tn_dtype dtype, int64_t k, bool down) {
  static float x[ROOM], value[ROOM];
  static int64_t place[ROOM], want[ROOM];
  int64_t n = r->shape[1], inner = r->shape[2], all = r->shape[0] * n * inner, lines = r->shape[0] * inner;
  for (int64_t i = 0; i < all; i++) x[i] = any_of(dtype);
  tn_scope(ctx) {
    tn_tensor *t = tn_cast(tn_from(ctx, TN_F32, r->shape, 3, x), dtype), *values, *places;
    CHECK(tn_topk(t, k, 1, down, &values, &places));
    CHECK(tn_read(tn_cast(values, TN_F32), value, (size_t)(lines * k) * sizeof *value));
    CHECK(tn_read(places, place, (size_t)(lines * k) * sizeof *place));
    for (int64_t line = 0; line < lines; line++) {
      const float *from = &x[line / inner * n * inner + line % inner];
      put_in_order(from, inner, n, down, want);
      for (int64_t j = 0; j < k; j++) {
        int64_t at = (line / inner * k + j) * inner + line % inner;
        if (place[at] != want[j])
          fail_msg("%s[%d,%d,%d], %d of them%s: line %d, %d: %d, not %d", tn_dtype_name(dtype), (int)r->shape[0],
                   (int)n, (int)inner, (int)k, down ? ", down" : "", (int)line, (int)j, (int)place[at], (int)want[j]);
        assert_memory_equal(&value[at], &from[want[j] * inner], sizeof *value);
      }
    }
  }
}

/* Lengths around those of whole blocks, and of vectors; one of them, all of them, and all but one.  Each dtype has some
 * of these. */
static void the_first_of_rows(void **state) {
  (void)state;
  static const rows of[] = {{{60, 101, 1}}, {{2, 37, 1}}, {{5, 64, 2}}, {{1, 129, 17}}, {{1, 300, 1}}, {{3, 1, 2}}};
  static const int64_t some[] = {8, 3, -1, 21, 1, -2, 2}; /* from the end: all of them, and so on */
  enum { SHAPES = sizeof of / sizeof *of, SOME = sizeof some / sizeof *some, EVERY = 11 };
  for (int i = 0; i < SHAPES * SOME * (TN_F64 + 1); i += EVERY) {
    int64_t n = of[i % SHAPES].shape[1], k = some[i / SHAPES % SOME];
    if (k < 0) k += n + 1;
    if (k <= n && is_taken(&cases)) expect_first(&of[i % SHAPES], (tn_dtype)(i / SHAPES / SOME), k, i % 4 < 2);
  }
}

static void there_may_be_none(void **state) {
  (void)state;
  static const rows of[] = {{{0, 40, 3}}, {{2, 40, 0}}, {{2, 0, 3}}, {{2, 40, 3}}};
  for (size_t s = 0; s < sizeof of / sizeof *of; s++)
    for (int64_t k = 0; k <= 8; k += 8)
      if ((s < 2 || !k) && is_taken(&cases)) expect_first(&of[s], TN_BF16, k, k > 0);
}

/* A few of rows of some hundred, many or across memory, are chosen block by block, not sorted; most of a row is sorted.
 * Nothing is computed. */
static void few_are_not_sorted(void **state) {
  static const struct {
    tn_dtype dtype;
    tn_dim shape[2];
    int axis;
    tn_dim some;
    bool sorts;
  } of[] = {{TN_BF16, {4096, 500}, 1, 32, false}, {TN_F32, {4096, 500}, 1, 32, false},
            {TN_I64, {4096, 500}, 1, 32, false},  {TN_BF16, {500, 4096}, 0, 32, false},
            {TN_U8, {500, 4096}, 0, 4, false},    {TN_F32, {8, 100000}, 1, 64, false},
            {TN_BF16, {4096, 500}, 1, 400, true}, {TN_F32, {100, 8192}, 1, 4096, true}};
  (void)state;
  unsigned long seen = 0;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!is_taken(&seen)) continue;
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:cpu", .quiet = 1, .verify = "off"});
    assert_non_null(c);
    void *zeros = calloc((size_t)(of[i].shape[0] * of[i].shape[1]), sizeof(int64_t)); /* nobody knows of them */
    assert_non_null(zeros);
    tn_tensor *both[2];
    tn_tensor *x = tn_from(c, of[i].dtype, of[i].shape, 2, zeros);
    assert_int_equal(tn_topk(x, of[i].some, of[i].axis, true, &both[0], &both[1]), TN_OK);
    free(zeros);
    char *text = tn_explain_string(both, 2);
    assert_non_null(text);
    bool sorts = strstr(text, "tally(") != NULL; /* of digits */
    tn_string_free(text);
    if (sorts != of[i].sorts) fail_msg("case %d: %s", (int)i, sorts ? "rows are sorted" : "rows are not sorted");
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(the_first_of_rows),
      cmocka_unit_test(there_may_be_none),
      cmocka_unit_test(few_are_not_sorted),
  };
  return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
