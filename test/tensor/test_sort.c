/* Running sums, sorts and searches against what a few lines of C say, on rows of lengths that are drawn around those at
 * which another way of computing begins; on the device that $TENET_DEVICE names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include "device/device.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <cmocka.h>
#include <stdlib.h>
#include <math.h>
#include <string.h>

enum { ROOM = 2400 };
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

static uint64_t seed = 20261124;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

static const int64_t lengths[] = {0, 1, 2, 15, 16, 17, 64, 257, 511, 513, 1025, 2311};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

static bool is_validated(void) { return ctx->opt.verify != NULL; }

/* Validation evaluates each comparison of a sort, and of running sums, whose graphs compare all with all: of long rows
 * they are more than it takes. */
static int64_t length_of(int l) {
  enum { LONGEST_VALIDATED = 520 };
  return is_validated() && lengths[l] > LONGEST_VALIDATED ? LONGEST_VALIDATED : lengths[l];
}

static void check_ok(tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(ctx)->text);
}
#define CHECK(call) check_ok(call, __LINE__)

/* Few values, so that many are equal; NaN, both zeros and both infinities among them. */
static float any_float(void) {
  static const float odd[] = {NAN, -0.0f, 0.0f, INFINITY, -INFINITY};
  return below(8) ? (float)(below(40) - 20) : odd[below(5)];
}

static bool comes_before(float x, float y) {
  return x < y || (x == x && y != y);
}

static void expect_order(const float *x, int64_t n, bool down, const float *sorted, const int64_t *place) {
  bool seen[ROOM] = {false};
  for (int64_t i = 0; i < n; i++) {
    assert_in_range(place[i], 0, n - 1);
    assert_false(seen[place[i]]);
    seen[place[i]] = true;
    assert_memory_equal(&sorted[i], &x[place[i]], sizeof *x);
    if (!i) continue;
    float a = x[place[i - 1]], b = x[place[i]];
    assert_false(down ? comes_before(a, b) : comes_before(b, a));
    if (!comes_before(a, b) && !comes_before(b, a)) assert_true(place[i - 1] < place[i]);
  }
}

static void floats_are_sorted(void **state) {
  (void)state;
  float x[ROOM], sorted[ROOM];
  int64_t place[ROOM];
  for (int l = 0; l < LENGTHS; l++)
    for (int down = 0; down < 2; down++) {
      if (!is_taken(&cases)) continue;
      tn_scope(ctx) {
        int64_t n = length_of(l);
        for (int64_t i = 0; i < n; i++) x[i] = any_float();
        tn_tensor *t = tn_from(ctx, TN_F32, &n, 1, x);
        CHECK(tn_read(tn_sort(t, 0, down), sorted, (size_t)n * sizeof *sorted));
        CHECK(tn_read(tn_argsort(t, 0, down), place, (size_t)n * sizeof *place));
        expect_order(x, n, down, sorted, place);
      }
    }
}

/* Of every other dtype: rows apart, along an axis in the middle */
static void integers_are_sorted(void **state) {
  (void)state;
  static const tn_dtype all[] = {TN_BOOL, TN_I8, TN_U8, TN_I16, TN_U32, TN_I64, TN_U64, TN_F16, TN_BF16, TN_F64};
  const tn_dim shape[] = {2, 300, 2};
  int64_t x[1200], y[1200];
  for (size_t d = 0; d < sizeof all / sizeof *all; d++) {
    if (!is_taken(&cases)) continue;
    tn_scope(ctx) {
      for (int i = 0; i < 1200; i++) x[i] = all[d] == TN_BOOL ? below(2) : below(50);
      tn_tensor *t = tn_sort(tn_cast(tn_from(ctx, TN_I64, shape, 3, x), all[d]), 1, false);
      CHECK(tn_read(tn_cast(t, TN_I64), y, sizeof y));
      for (int a = 0; a < 2; a++)
        for (int b = 0; b < 2; b++) {
          int count[50] = {0};
          for (int i = 0; i < 300; i++) count[x[(a * 300 + i) * 2 + b]]++, count[y[(a * 300 + i) * 2 + b]]--;
          for (int i = 1; i < 300; i++) assert_true(y[(a * 300 + i - 1) * 2 + b] <= y[(a * 300 + i) * 2 + b]);
          for (int i = 0; i < 50; i++) assert_int_equal(count[i], 0);
        }
    }
  }
}

/* Keys beside which no word has room for a number, from one end to the other; so many equal ones that order shows. */
static void wide_keys_are_ordered(void **state) {
  (void)state;
  static const int64_t ends[] = {INT64_MIN, INT64_MAX, 0, -1};
  static const tn_dim shapes[][2] = {{1, 517}, {3, 131}, {2, 64}};
  static int64_t x[ROOM], place[ROOM];
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int down = 0; down < 2; down++) {
      if (!is_taken(&cases)) continue;
      const int64_t rows = shapes[s][0], n = shapes[s][1];
      for (int64_t i = 0; i < rows * n; i++) x[i] = below(3) ? below(9) - 4 : ends[below(4)];
      tn_scope(ctx) {
        tn_tensor *t = tn_from(ctx, TN_I64, shapes[s], 2, x);
        CHECK(tn_read(tn_argsort(t, 1, down), place, (size_t)(rows * n) * sizeof *place));
      }
      for (int64_t r = 0; r < rows; r++)
        for (int64_t i = 0; i < n; i++) {
          const int64_t *row = &x[r * n], at = place[r * n + i];
          assert_in_range(at, 0, n - 1);
          if (!i) continue;
          int64_t last = place[r * n + i - 1];
          bool rises = down ? row[last] > row[at] : row[last] < row[at];
          if (!rises && (row[last] != row[at] || last >= at)) fail_msg("row %d, %d", (int)r, (int)i);
        }
    }
}

/* So many that a row has several blocks, whose last one is filled up: in words with their numbers, beside them, and of
 * dtypes that digits do not divide.  What is so long can not be compared with its graph. */
static void many_are_ordered(void **state) {
  (void)state;
  enum { MANY = 40011 };
  static const tn_dtype all[] = {TN_I64, TN_F32, TN_I16};
  static int64_t x[MANY], place[MANY], sorted[MANY];
  const tn_dim n = MANY;
  tn_ctx *usual = ctx;
  ctx = tn_ctx_open(&(tn_options){.device = tn__device_get(usual, 0)->name, .quiet = 1, .verify = "off"});
  assert_non_null(ctx);
  for (size_t d = 0; d < sizeof all / sizeof *all; d++) {
    if (!is_taken(&cases)) continue;
    for (int64_t i = 0; i < n; i++) x[i] = below(3) ? below(9000) - 4000 : -below(3);
    if (all[d] == TN_I64)
      for (int64_t i = 0; i < n; i += 7) x[i] *= INT64_MAX / 9000;
    tn_scope(ctx) {
      tn_tensor *t = tn_cast(tn_from(ctx, TN_I64, &n, 1, x), all[d]);
      CHECK(tn_read(tn_argsort(t, 0, d & 1), place, sizeof place));
      CHECK(tn_read(tn_cast(tn_sort(t, 0, d & 1), TN_I64), sorted, sizeof sorted));
    }
    for (int64_t i = 0; i < n; i++) {
      assert_in_range(place[i], 0, n - 1);
      if (sorted[i] != x[place[i]]) fail_msg("%d of dtype %d", (int)i, (int)all[d]);
      if (!i) continue;
      int64_t a = x[place[i - 1]], b = x[place[i]];
      if ((d & 1) ? a < b : a > b) fail_msg("%d of dtype %d", (int)i, (int)all[d]);
      if (a == b && place[i - 1] >= place[i]) fail_msg("%d of dtype %d", (int)i, (int)all[d]);
    }
  }
  tn_ctx_close(ctx);
  ctx = usual;
}

static void gradient_goes_back_where_elements_stood(void **state) {
  (void)state;
  enum { N = 700 };
  const tn_dim n = N;
  float x[N], w[N], g[N];
  int64_t place[N];
  for (int i = 0; i < N; i++) x[i] = (float)below(100), w[i] = (float)below(1000);
  tn_scope(ctx) {
    tn_tensor *t = tn_from(ctx, TN_F32, &n, 1, x), *weight = tn_from(ctx, TN_F32, &n, 1, w), *grad = NULL;
    tn_tensor *loss = tn_sum(tn_mul(tn_sort(t, 0, false), weight), NULL, 0, false);
    CHECK(tn_grad(loss, 1, &t, &grad));
    CHECK(tn_read(grad, g, sizeof g));
    CHECK(tn_read(tn_argsort(t, 0, false), place, sizeof place));
    for (int i = 0; i < N; i++) assert_float_equal(g[place[i]], w[i], 0);
  }
}

static void sums_run(void **state) {
  (void)state;
  int32_t x[ROOM];
  int64_t sum[ROOM], product[ROOM], total, all;
  for (int l = 0; l < LENGTHS; l++) {
    if (!is_taken(&cases)) continue;
    tn_scope(ctx) {
      int64_t n = length_of(l);
      for (int64_t i = 0; i < n; i++) x[i] = (int32_t)below(3) * 2 - 1;
      tn_tensor *t = tn_from(ctx, TN_I32, &n, 1, x);
      CHECK(tn_read(tn_cumsum(t, 0), sum, (size_t)n * sizeof *sum));
      CHECK(tn_read(tn_cumprod(t, 0), product, (size_t)n * sizeof *product));
      total = 0, all = 1;
      for (int64_t i = 0; i < n; i++) {
        total += x[i];
        all = (int64_t)((uint64_t)all * (uint64_t)(int64_t)x[i]);
        assert_int_equal(sum[i], total);
        assert_int_equal(product[i], all);
      }
    }
  }
}

static void running_sums_have_gradients(void **state) {
  (void)state;
  enum { N = 50 };
  const tn_dim n = N;
  float x[N], w[N], g[N], after = 0;
  for (int i = 0; i < N; i++) x[i] = 1 + (float)below(4) / 4, w[i] = (float)below(9);
  tn_scope(ctx) {
    tn_tensor *t = tn_from(ctx, TN_F32, &n, 1, x), *weight = tn_from(ctx, TN_F32, &n, 1, w), *grad = NULL;
    CHECK(tn_grad(tn_sum(tn_mul(tn_cumsum(t, 0), weight), NULL, 0, false), 1, &t, &grad));
    CHECK(tn_read(grad, g, sizeof g));
    for (int i = N; i--;) {
      after += w[i];
      assert_float_equal(g[i], after, 0);
    }
  }
}

/* Along either axis, from the begin and, as gradients do, from the end; of elements that vectors hold evenly, or not */
static void rows_of_sums_run(void **state) {
  (void)state;
  static const tn_dim shapes[][2] = {{70, 33}, {2, 1040}, {130, 16}, {1100, 2}, {1, 2311}, {65, 32}};
  static float x[ROOM], w[ROOM], sum[ROOM], g[ROOM];
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int axis = 0; axis < 2; axis++) {
      if (!is_taken(&cases)) continue;
      tn_scope(ctx) {
        const tn_dim *shape = shapes[s];
        int64_t n = shape[axis], step = axis ? 1 : shape[1], all = shape[0] * shape[1];
        for (int64_t i = 0; i < all; i++) x[i] = (float)(below(7) - 3), w[i] = (float)below(5);
        tn_tensor *t = tn_from(ctx, TN_F32, shape, 2, x), *weight = tn_from(ctx, TN_F32, shape, 2, w), *grad = NULL;
        tn_tensor *y = tn_cumsum(tn_cast(t, TN_F16), axis);
        CHECK(tn_read(tn_cast(y, TN_F32), sum, (size_t)all * sizeof *sum));
        CHECK(tn_grad(tn_sum(tn_mul(tn_cumsum(t, axis), weight), NULL, 0, false), 1, &t, &grad));
        CHECK(tn_read(grad, g, (size_t)all * sizeof *g));
        for (int64_t i = 0; i < all; i++) {
          bool first = i / step % n == 0, last = i / step % n == n - 1;
          assert_float_equal(sum[i], x[i] + (first ? 0 : sum[i - step]), 0);
          if (!last) assert_float_equal(g[i], w[i] + g[i + step], 0);
          else assert_float_equal(g[i], w[i], 0);
        }
      }
    }
}

static void places_are_found(void **state) {
  (void)state;
  enum { M = 40 };
  const tn_dim m = M;
  int64_t x[ROOM], v[M], place[M];
  for (int l = 0; l < LENGTHS; l++)
    for (int right = 0; right < 2; right++) {
      if (!is_taken(&cases)) continue;
      tn_scope(ctx) {
        int64_t n = lengths[l];
        for (int64_t i = 0; i < n; i++) x[i] = (i ? x[i - 1] : -50) + below(3) * below(2);
        for (int i = 0; i < M; i++) v[i] = n ? x[below(n)] + below(3) - 1 : 0;
        tn_tensor *t = tn_from(ctx, TN_I64, &n, 1, x), *values = tn_from(ctx, TN_I64, &m, 1, v);
        CHECK(tn_read(tn_searchsorted(t, values, right), place, sizeof place));
        for (int i = 0; i < M; i++) {
          int64_t before = 0;
          for (int64_t j = 0; j < n; j++) before += right ? x[j] <= v[i] : x[j] < v[i];
          assert_int_equal(place[i], before);
        }
      }
    }
}

static void classes_are_counted(void **state) {
  (void)state;
  static const int64_t classes[] = {0, 1, 64, 65, 1000};
  int32_t x[ROOM];
  int64_t got[1000], want[1000];
  for (int k = 0; k < 5; k++)
    for (int l = 0; l < LENGTHS; l++) {
      if (!is_taken(&cases)) continue;
      tn_scope(ctx) {
        int64_t n = lengths[l];
        memset(want, 0, sizeof want);
        for (int64_t i = 0; i < n; i++) {
          x[i] = (int32_t)(below(classes[k] + 4) - 2); /* some are none of the classes */
          if (x[i] >= 0 && x[i] < classes[k]) want[x[i]]++;
        }
        CHECK(tn_read(tn_bincount(tn_from(ctx, TN_I32, &n, 1, x), classes[k]), got, (size_t)classes[k] * sizeof *got));
        assert_memory_equal(got, want, (size_t)classes[k] * sizeof *got);
      }
    }
}

/* By whatever way they are found they are the first of the sorted ones, equal ones in their order. */
static void the_greatest_are_chosen(void **state) {
  (void)state;
  static const struct {
    tn_dim shape[3];
    int axis;
  } of[] = {{{1, 1, 700}, 2}, {{3, 300, 1}, 1}, {{2, 257, 3}, -2}, {{40, 2, 5}, 0}};
  static const tn_dim some[] = {0, 7, 40};
  float x[ROOM * 2], value[ROOM], all[ROOM * 2];
  int64_t place[ROOM], every[ROOM * 2];
  for (int s = 0; s < 4; s++)
    for (int k = 0; k < 3; k++)
      for (int down = 0; down < 2; down++) {
        if (!is_taken(&cases)) continue;
        tn_scope(ctx) {
          int axis = of[s].axis < 0 ? of[s].axis + 3 : of[s].axis;
          int64_t n = of[s].shape[axis], rows = of[s].shape[0] * of[s].shape[1] * of[s].shape[2] / n, inner = 1;
          for (int a = axis + 1; a < 3; a++) inner *= of[s].shape[a];
          for (int64_t i = 0; i < rows * n; i++) x[i] = any_float();
          tn_tensor *t = tn_from(ctx, TN_F32, of[s].shape, 3, x), *values, *places;
          CHECK(tn_topk(t, some[k], of[s].axis, down, &values, &places));
          CHECK(tn_read(values, value, (size_t)(rows * some[k]) * sizeof *value));
          CHECK(tn_read(places, place, (size_t)(rows * some[k]) * sizeof *place));
          CHECK(tn_read(tn_sort(t, axis, down), all, (size_t)(rows * n) * sizeof *all));
          CHECK(tn_read(tn_argsort(t, axis, down), every, (size_t)(rows * n) * sizeof *every));
          for (int64_t i = 0; i < rows * some[k]; i++) {
            int64_t row = i / (inner * some[k]), at = i / inner % some[k], from = (row * n + at) * inner + i % inner;
            assert_memory_equal(&value[i], &all[from], sizeof *value);
            assert_int_equal(place[i], every[from]);
          }
        }
      }
}

/* Of every other dtype, at both ends of what it holds: what fills up blocks is none of them. */
static void the_first_of_every_dtype(void **state) {
  (void)state;
  static const tn_dtype all[] = {TN_BOOL, TN_I8, TN_U8, TN_I16, TN_U32, TN_I64, TN_U64, TN_F16, TN_BF16, TN_F64};
  enum { N = 333, K = 5 };
  int64_t x[N], place[K];
  for (size_t d = 0; d < sizeof all / sizeof *all; d++)
    for (int down = 0; down < 2; down++) {
      if (!is_taken(&cases)) continue;
      tn_scope(ctx) {
        bool end = tn_dtype_size(all[d]) == 8 && all[d] != TN_F64;
        for (int i = 0; i < N; i++) x[i] = end ? (down ? INT64_MIN : INT64_MAX) : down ? 0 : 1;
        if (all[d] == TN_U64 && down) memset(x, 0, sizeof x);
        if (all[d] == TN_U64 && !down) memset(x, -1, sizeof x);
        tn_tensor *t = tn_cast(tn_from(ctx, TN_I64, &(tn_dim){N}, 1, x), all[d]), *values, *places;
        if (all[d] == TN_U64) t = tn_from(ctx, TN_U64, &(tn_dim){N}, 1, x);
        CHECK(tn_topk(t, K, 0, down, &values, &places));
        CHECK(tn_read(places, place, sizeof place));
        for (int i = 0; i < K; i++) assert_int_equal(place[i], i);
      }
    }
}

/* Rows so long that blocks of blocks are asked first: keys that a word of 32 or 64 bits holds with their places, and
 * those that none does; so many equal ones that places decide; lengths that whole blocks are and are not. */
static void the_first_of_long_rows(void **state) {
  (void)state;
  static const tn_dtype all[] = {TN_BOOL, TN_U8, TN_I16, TN_I32, TN_I64, TN_U64, TN_BF16, TN_F32, TN_F64};
  enum { LONG = 8192, ROWS = 2, MOST = 9 };
  static float x[ROWS * LONG], value[ROWS * MOST];
  int64_t place[ROWS * MOST];
  for (size_t d = 0; d < sizeof all / sizeof *all; d++)
    for (int down = 0; down < 2; down++) {
      if (!is_taken(&cases)) continue;
      const int64_t whole = is_validated() ? LONG / 8 : LONG; /* element by element it would take too long */
      const int64_t n = d % 2 == (size_t)down ? whole : whole - 93, k = down ? 2 : MOST;
      bool real = all[d] >= TN_F16, negative = real || all[d] == TN_I16 || all[d] == TN_I32 || all[d] == TN_I64;
      for (int64_t i = 0; i < ROWS * n; i++) {
        x[i] = real ? any_float() : (float)(below(all[d] == TN_BOOL ? 2 : 11) - (negative ? 5 : 0));
        if (!down && d % 3 && below(50)) x[i] = 5; /* few go before the most */
      }
      tn_scope(ctx) {
        tn_tensor *t = tn_cast(tn_from(ctx, TN_F32, (tn_dim[]){ROWS, n}, 2, x), all[d]), *values, *places;
        CHECK(tn_topk(t, k, 1, down, &values, &places));
        CHECK(tn_read(places, place, (size_t)(ROWS * k) * sizeof *place));
        CHECK(tn_read(tn_cast(values, TN_F32), value, (size_t)(ROWS * k) * sizeof *value));
        for (int64_t r = 0; r < ROWS; r++)
          for (int64_t j = 0, last = -1; j < k; j++) {
            const float *row = &x[r * n];
            int64_t best = -1;
            for (int64_t i = 0; i < n; i++) { /* the first of those behind the last one that was taken */
              bool behind = last < 0 || (down ? comes_before(row[i], row[last]) : comes_before(row[last], row[i])) ||
                            (!comes_before(row[i], row[last]) && !comes_before(row[last], row[i]) && i > last);
              bool before = best < 0 || (down ? comes_before(row[best], row[i]) : comes_before(row[i], row[best]));
              if (behind && before) best = i;
            }
            last = best;
            if (place[r * k + j] != best) fail_msg("dtype %d, row %d, %d", (int)all[d], (int)r, (int)j);
            assert_memory_equal(&value[r * k + j], &row[best], sizeof *value);
          }
      }
    }
}

/* Of rows of one the first is that one, which nobody looks up. */
static void rows_of_one_stand(void **state) {
  (void)state;
  const float x[] = {3, -0.0f, NAN, 0, 7, -2};
  float value[6];
  int64_t place[6];
  for (int down = 0; down < 2; down++)
    tn_scope(ctx) {
      tn_tensor *t = tn_from(ctx, TN_F32, (tn_dim[]){2, 1, 3}, 3, x), *values, *places;
      CHECK(tn_topk(t, 1, 1, down, &values, &places));
      char *text = tn_explain_string((tn_tensor *[]){values, places}, 2);
      assert_non_null(text);
      if (strstr(text, " gather ")) fail_msg("looked up in\n%s", text);
      free(text);
      CHECK(tn_read(values, value, sizeof value));
      CHECK(tn_read(places, place, sizeof place));
      assert_memory_equal(value, x, sizeof x);
      for (int i = 0; i < 6; i++) assert_int_equal(place[i], 0);
    }
}

static void gradient_goes_to_those_that_are_chosen(void **state) {
  (void)state;
  enum { N = 900, K = 3 };
  float x[N], g[N];
  int64_t place[K];
  for (int i = 0; i < N; i++) x[i] = (float)below(20);
  tn_scope(ctx) {
    tn_tensor *t = tn_from(ctx, TN_F32, &(tn_dim){N}, 1, x), *values, *places, *grad;
    CHECK(tn_topk(t, K, 0, true, &values, &places));
    tn_tensor *weight = tn_from(ctx, TN_F32, &(tn_dim){K}, 1, (float[]){1, 2, 3});
    CHECK(tn_grad(tn_sum(tn_mul(values, weight), NULL, 0, false), 1, &t, &grad));
    CHECK(tn_read(grad, g, sizeof g));
    CHECK(tn_read(places, place, sizeof place));
    for (int i = 0; i < K; i++) {
      assert_float_equal(g[place[i]], i + 1, 0);
      g[place[i]] = 0;
    }
    for (int i = 0; i < N; i++) assert_float_equal(g[i], 0, 0);
  }
}

/* ---- symbolic sizes ---- */

static tn_program *record(tn_dim n, tn_dim classes) {
  static const char *const names[] = {"sorted", "order", "best", "where", "sum", "place", "count"};
  tn_tensor *out[7];
  tn_program *p = tn_program_begin(ctx);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, &n, 1);
  out[0] = tn_sort(x, 0, false);
  out[1] = tn_argsort(x, -1, true);
  CHECK(tn_topk(x, tn_dim_min(ctx, n, 3), 0, false, &out[2], &out[3]));
  out[4] = tn_cumsum(x, 0);
  out[5] = tn_searchsorted(out[0], x, false);
  out[6] = tn_bincount(tn_cast(x, TN_I16), classes);
  for (int i = 0; i < 7; i++) CHECK(tn_program_output(p, names[i], out[i]));
  CHECK(tn_program_end(p));
  return p;
}

static void expect_all(tn_program *p, const float *x, int64_t n, int64_t classes) {
  float sorted[ROOM], best[3], sum[ROOM], total = 0;
  int64_t order[ROOM], where[3], place[ROOM], count[ROOM], some = n < 3 ? n : 3;
  CHECK(tn_program_read(p, "sorted", sorted, (size_t)n * sizeof *sorted));
  CHECK(tn_program_read(p, "order", order, (size_t)n * sizeof *order));
  CHECK(tn_program_read(p, "best", best, (size_t)some * sizeof *best));
  CHECK(tn_program_read(p, "where", where, (size_t)some * sizeof *where));
  CHECK(tn_program_read(p, "sum", sum, (size_t)n * sizeof *sum));
  CHECK(tn_program_read(p, "place", place, (size_t)n * sizeof *place));
  CHECK(tn_program_read(p, "count", count, (size_t)classes * sizeof *count));
  for (int64_t i = 0; i < n; i++) {
    total += x[i];
    assert_float_equal(sum[i], total, 0);
    assert_float_equal(sorted[place[i]], x[i], 0);
    assert_true(!i || sorted[i - 1] <= sorted[i]);
    assert_float_equal(x[order[i]], sorted[n - 1 - i], 0);
    if (i < some) assert_true(best[i] == sorted[i] && best[i] == x[where[i]]);
    if (x[i] < (float)classes) count[(int)x[i]]--;
  }
  for (int64_t i = 0; i < classes; i++) assert_int_equal(count[i], 0);
}

static void sizes_may_be_symbolic(void **state) {
  (void)state;
  static const struct {
    const char *name;
    int64_t least, most, n[4];
  } sizes[] = {{"N", 0, 40, {0, 1, 17, 40}}, {"M", 5, 2311, {5, 64, 1000, 2311}}};
  float x[ROOM];
  for (int s = 0; s < 2; s++)
    for (int few = 0; few < 2; few++) {
      if (!is_taken(&cases)) continue;
      tn_scope(ctx) {
        tn_dim n = tn_dim_var(ctx, sizes[s].name, sizes[s].least, sizes[s].most);
        tn_program *p = record(n, few ? tn_dim_div(ctx, n, 5) : n);
        for (int k = 0; k < 4; k++) {
          for (int64_t i = 0; i < sizes[s].n[k]; i++) x[i] = (float)below(50);
          CHECK(tn_program_write(p, "x", &sizes[s].n[k], 1, x, (size_t)sizes[s].n[k] * sizeof *x));
          CHECK(tn_program_run(p));
          expect_all(p, x, sizes[s].n[k], few ? sizes[s].n[k] / 5 : sizes[s].n[k]);
        }
        tn_program_close(p);
      }
    }
}

/* As many rows as a size says, none too, of a length that is merged on devices of groups */
static void rows_may_be_none(void **state) {
  (void)state;
  enum { LONGEST = 1000, ROWS = 2 };
  static float x[ROWS * LONGEST], y[ROWS * LONGEST];
  const tn_dim length = is_validated() ? 700 : LONGEST;
  for (tn_dim i = 0; i < ROWS * length; i++) x[i] = (float)below(300);
  for (tn_dim least = 0; least < 2; least++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_dim rows = tn_dim_var(c, "B", least, 64);
      tn_program *p = tn_program_begin(c);
      tn_tensor *t = tn_program_input(p, "x", TN_F32, (tn_dim[]){rows, length}, 2);
      assert_int_equal(tn_program_output(p, "y", tn_sort(t, 1, false)), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      for (tn_dim n = least; n <= ROWS; n += ROWS - least) {
        const size_t bytes = (size_t)(n * length) * sizeof *x;
        assert_int_equal(tn_program_write(p, "x", (tn_dim[]){n, length}, 2, x, bytes), TN_OK);
        if (tn_program_run(p) != TN_OK) fail_msg("%d rows: %s", (int)n, tn_last_error(c)->text);
        assert_int_equal(tn_program_read(p, "y", y, bytes), TN_OK);
        for (tn_dim r = 0; r < n; r++) {
          float sum = x[r * length], of = y[r * length];
          for (tn_dim i = 1; i < length; i++) {
            assert_true(y[r * length + i - 1] <= y[r * length + i]);
            sum += x[r * length + i], of += y[r * length + i];
          }
          assert_float_equal(of, sum, 0); /* whole numbers */
        }
      }
      tn_program_close(p);
    }
    tn_ctx_close(c);
  }
}

/* What a size is not big enough for is told when it is bound. */
static void sizes_that_do_not_do_are_told(void **state) {
  (void)state;
  static const float x[8] = {3, 1, 2, 0, 5, 4, 7, 6};
  tn_scope(ctx) {
    tn_dim n = tn_dim_var(ctx, "N", 0, 40);
    tn_tensor *values, *places;
    tn_program *p = tn_program_begin(ctx);
    tn_tensor *t = tn_program_input(p, "x", TN_F32, &n, 1);
    CHECK(tn_topk(t, 3, 0, true, &values, &places));
    CHECK(tn_program_output(p, "values", values));
    CHECK(tn_program_output(p, "count", tn_bincount(tn_cast(t, TN_I32), tn_dim_sub(ctx, n, 3))));
    CHECK(tn_program_end(p));
    for (tn_dim k = 2; k <= 3; k++) {
      CHECK(tn_program_write(p, "x", &k, 1, x, (size_t)k * sizeof *x));
      assert_int_equal(tn_program_run(p), k < 3 ? TN_EBOUND : TN_OK);
      tn_clear_error(ctx);
    }
    tn_program_close(p);
  }
}

/* Nothing is computed: what chooses a way counts elements, as many as there may be. */
static void the_first_of_any_number(void **state) {
  (void)state;
  static const tn_dim of[][2] = {{INT64_MAX, 2}, {(tn_dim)1 << 52, (tn_dim)1 << 51}, {((tn_dim)1 << 40) + 1, 64}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++)
    tn_scope(ctx) {
      tn_tensor *t = tn_full(ctx, TN_F32, &of[i][0], 1, 1), *values = NULL, *places;
      assert_non_null(t);
      if (tn_topk(t, of[i][1], 0, true, &values, &places) == TN_OK) assert_int_equal(tn_size(values, 0), of[i][1]);
      else assert_non_null(strstr(tn_last_error(ctx)->text, "topk"));
      tn_clear_error(ctx);
    }
}

static void misuse_is_told(void **state) {
  (void)state;
  tn_scope(ctx) {
    const tn_dim shape[] = {3, 5};
    tn_tensor *t = tn_zeros(ctx, TN_F32, shape, 2), *values, *places;
    assert_int_equal(tn_topk(t, 6, 1, true, &values, &places), TN_ESHAPE);
    tn_clear_error(ctx);
    assert_int_equal(tn_topk(t, 2, 1, true, NULL, &places), TN_EINVAL);
    tn_clear_error(ctx);
    assert_null(tn_sort(t, 2, false));
    tn_clear_error(ctx);
    assert_null(tn_searchsorted(t, t, false));
    assert_int_equal(tn_last_error(ctx)->status, TN_ESHAPE);
    tn_clear_error(ctx);
    assert_null(tn_bincount(t, 3));
    assert_int_equal(tn_last_error(ctx)->status, TN_EDTYPE);
    tn_clear_error(ctx);
  }
}

/* On devices of groups, as if kernels started at once and few threads were enough: so few elements are done as many
 * otherwise, sorted by digits, or by merges if loads do not wait, and summed up along neighbours. */
static void few_are_done_as_many(void **state) {
  static const struct {
    const char *device;
    bool waits;
  } as[] = {{"ref:sm_90", true}, {"ref:sm_90", false}, {"ref:opencl", true}};
  static void (*const all[])(void **) = {
      floats_are_sorted,     wide_keys_are_ordered,   integers_are_sorted, gradient_goes_back_where_elements_stood,
      sizes_may_be_symbolic, the_greatest_are_chosen, sums_run,            rows_of_sums_run,
  };
  tn_ctx *usual = ctx;
  unsigned long seen = 0;
  for (size_t d = 0; d < sizeof as / sizeof *as; d++) {
    ctx = tn_ctx_open(&(tn_options){.device = as[d].device, .quiet = 1});
    assert_non_null(ctx);
    tn__target *t = &tn__device_get(ctx, 0)->target;
    t->launch = 1e-15f;
    t->units = 1;
    if (!as[d].waits) t->latency = 0;
    size_t n = as[d].waits ? sizeof all / sizeof *all : 3; /* those that sort whole rows of known lengths */
    bool few = d == 2 || is_validated(); /* the last one differs little; validation takes long */
    for (size_t i = 0; i < n; i += few ? 4 : 1)
      if (is_taken(&seen)) all[i](state);
    tn_ctx_close(ctx);
  }
  ctx = usual;
}

/* Each way of sorting where it takes least, which the kernels tell: counting takes fewer than merges, and these fewer
 * than passes over digits that words count; by tables, blocks send what they have put in order.  Nothing is computed,
 * and what is so long can not be compared either. */
static void each_way_sorts(void **state) {
  static const struct {
    const char *device;
    tn_dim rows, length;
    int least, most;
    tn_dtype dtype;
    bool values, sends; /* values: and not which stands where */
  } of[] = {{"ref:sm_90", 1, 100, 1, 2, TN_F32, false, false},         /* each asks all others, */
            {"ref:sm_90", 1, 30000, 8, 18, TN_F32, false, false},      /* runs are merged, */
            {"ref:sm_90", 5000, 1024, 4, 9, TN_F32, false, false},     /* of short rows, too, */
            {"ref:sm_90", 5000, 1024, 9, 9, TN_F32, true, false},      /* whose order the last alone asks for, */
            {"ref:sm_90", 1, 1 << 20, 13, 20, TN_I64, false, false},   /* and where numbers go beside keys; */
            {"ref:sm_90", 1, 1 << 20, 16, 28, TN_F32, false, true},    /* digits are counted in tables, */
            {"ref:sm_90", 1, 1 << 19, 16, 28, TN_F32, false, true},    /* as soon as passes are few, */
            {"ref:sm_90", 16, 1 << 16, 16, 28, TN_F32, false, true},   /* of several rows, too, */
            {"ref:sm_90", 1, 5436256, 32, 50, TN_I64, true, true},     /* and by many passes where searches are far; */
            {"ref:sm_90", 1, 1 << 22, 32, 36, TN_I64, false, true},    /* so are keys and the numbers beside; */
            {"ref:opencl", 1, 1 << 20, 30, 60, TN_F32, false, false},  /* or, without room for these, by words, */
            {"ref:cpu", 1, 40000, 15, 25, TN_F32, false, false}};      /* or in tables of another kind */
  (void)state;
  unsigned long seen = 0;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    if (!is_taken(&seen)) continue;
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = of[i].device, .quiet = 1, .verify = "off"});
    assert_non_null(c);
    void *zeros = calloc((size_t)(of[i].rows * of[i].length), sizeof(int64_t)); /* in memory: nobody knows of them */
    assert_non_null(zeros);
    tn_tensor *x = tn_from(c, of[i].dtype, (tn_dim[]){of[i].rows, of[i].length}, 2, zeros);
    free(zeros);
    tn_tensor *sorted = of[i].values ? tn_sort(x, 1, false) : tn_argsort(x, 1, false);
    tn_program_info info;
    assert_int_equal(tn_get_info(&sorted, 1, &info), TN_OK);
    char *text = tn_explain_string(&sorted, 1);
    assert_non_null(text);
    bool sends = strstr(text, " sends(") != NULL;
    free(text);
    if (info.kernels < of[i].least || info.kernels > of[i].most || sends != of[i].sends)
      fail_msg("%s, %d rows of %d: %d kernels, %s", of[i].device, (int)of[i].rows, (int)of[i].length, info.kernels,
               sends ? "which send" : "none sends");
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(floats_are_sorted),
      cmocka_unit_test(integers_are_sorted),
      cmocka_unit_test(wide_keys_are_ordered),
      cmocka_unit_test(many_are_ordered),
      cmocka_unit_test(sums_run),
      cmocka_unit_test(rows_of_sums_run),
      cmocka_unit_test(gradient_goes_back_where_elements_stood),
      cmocka_unit_test(places_are_found),
      cmocka_unit_test(running_sums_have_gradients),
      cmocka_unit_test(classes_are_counted),
      cmocka_unit_test(the_greatest_are_chosen),
      cmocka_unit_test(the_first_of_every_dtype),
      cmocka_unit_test(the_first_of_long_rows),
      cmocka_unit_test(rows_of_one_stand),
      cmocka_unit_test(gradient_goes_to_those_that_are_chosen),
      cmocka_unit_test(sizes_may_be_symbolic),
      cmocka_unit_test(rows_may_be_none),
      cmocka_unit_test(sizes_that_do_not_do_are_told),
      cmocka_unit_test(the_first_of_any_number),
      cmocka_unit_test(misuse_is_told),
      cmocka_unit_test(few_are_done_as_many),
      cmocka_unit_test(each_way_sorts),
  };
  return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
