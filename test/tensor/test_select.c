/* Distinct elements and places of what is not zero against what a few lines of C say: room for fewer and for more than
 * there are, exactly as many; on the device that $TENET_DEVICE names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include "device/device.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include <cmocka.h>
#include <math.h>
#include <string.h>

enum { ROOM = 1100 };
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

static uint64_t seed = 20261125;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

static void check_ok(tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(ctx)->text);
}
#define CHECK(call) check_ok(call, __LINE__)
#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static void check_wrong(bool failed, tn_status status, const char *text, int line) {
  const tn_error *e = tn_last_error(ctx);
  if (!failed || e->status != status || !strstr(e->text, text))
    fail_msg("line %d: %s %s: %s", line, failed ? "failed" : "did not fail", tn_status_name(e->status), e->text);
  tn_clear_error(ctx);
}
#define WRONG(failed, status, text) check_wrong(failed, status, text, __LINE__)

/* ---- what it should be ---- */

typedef struct runs {
  int64_t n, first[ROOM], often[ROOM], number[ROOM]; /* of each: where it first stands; of each element: which it is */
} runs;

static bool comes_before(float x, float y) {
  return x < y || (x == x && y != y);
}

static void find(const float *x, int64_t n, runs *r) {
  memset(r, 0, sizeof *r);
  for (int64_t i = 0; i < n; i++) {
    int64_t k = 0;
    while (k < r->n && comes_before(x[r->first[k]], x[i])) k++;
    if (k == r->n || comes_before(x[i], x[r->first[k]])) {
      memmove(r->first + k + 1, r->first + k, (size_t)(r->n - k) * sizeof *r->first);
      memmove(r->often + k + 1, r->often + k, (size_t)(r->n - k) * sizeof *r->often);
      for (int64_t j = 0; j < i; j++) r->number[j] += r->number[j] >= k;
      r->first[k] = i;
      r->often[k] = 0;
      r->n++;
    }
    r->often[k]++;
    r->number[i] = k;
  }
}

/* Few values, so that many are equal; NaNs of several bits, both zeros and both infinities among them. */
static float any_float(void) {
  static const float odd[] = {NAN, -NAN, -0.0f, 0.0f, INFINITY, -INFINITY};
  return below(6) ? (float)(below(60) - 30) : odd[below(6)];
}

static const int64_t lengths[] = {0, 1, 2, 17, 300, 500};
enum { LENGTHS = sizeof lengths / sizeof *lengths };

/* ---- distinct elements ---- */

static void expect_first(const runs *r, const float *x, int64_t most, const float *value, const int64_t *often) {
  for (int64_t k = 0; k < most; k++) {
    const float fill = -77;
    assert_memory_equal(&value[k], k < r->n ? &x[r->first[k]] : &fill, sizeof fill);
    assert_int_equal(often[k], k < r->n ? r->often[k] : 0);
  }
}

static void distinct_elements_are_found(void **state) {
  (void)state;
  static runs r;
  float x[ROOM], value[ROOM];
  int64_t often[ROOM], number[ROOM], count;
  for (int l = 0; l < LENGTHS; l++) {
    int64_t n = lengths[l];
    for (int64_t i = 0; i < n; i++) x[i] = any_float();
    find(x, n, &r);
    const int64_t rooms[] = {0, 1, r.n, r.n + 1, n + 5};
    for (int m = 0; m < 5; m++) {
      if (!is_taken(&cases)) continue;
      tn_scope(ctx) {
        tn_tensor *t = tn_from(ctx, TN_F32, DIMS(n), x), *all[4];
        CHECK(tn_unique(t, rooms[m], -77, &all[0], &all[1], &all[2], &all[3]));
        CHECK(tn_realize(all, 4));
        CHECK(tn_read(all[0], value, (size_t)rooms[m] * sizeof *value));
        CHECK(tn_read(all[1], &count, sizeof count));
        CHECK(tn_read(all[2], number, (size_t)n * sizeof *number));
        CHECK(tn_read(all[3], often, (size_t)rooms[m] * sizeof *often));
        assert_int_equal(count, r.n);
        assert_memory_equal(number, r.number, (size_t)n * sizeof *number);
        expect_first(&r, x, rooms[m], value, often);
      }
    }
  }
}

static void exactly_so_many_distinct_ones(void **state) {
  (void)state;
  static runs r;
  float x[ROOM], value[ROOM];
  int64_t often[ROOM], number[ROOM];
  for (int l = 0; l < LENGTHS; l++) {
    if (!is_taken(&cases)) continue;
    tn_scope(ctx) {
      int64_t n = lengths[l];
      for (int64_t i = 0; i < n; i++) x[i] = any_float();
      find(x, n, &r);
      tn_tensor *values, *inverse, *counts;
      CHECK(tn_unique_now(tn_from(ctx, TN_F32, DIMS(n), x), &values, &inverse, &counts));
      assert_int_equal(tn_numel(values), r.n);
      CHECK(tn_read(values, value, (size_t)r.n * sizeof *value));
      CHECK(tn_read(inverse, number, (size_t)n * sizeof *number));
      CHECK(tn_read(counts, often, (size_t)r.n * sizeof *often));
      assert_memory_equal(number, r.number, (size_t)n * sizeof *number);
      expect_first(&r, x, r.n, value, often);
    }
  }
}

/* As i64, whose order is that of every dtype's values here; at both ends of what the integers hold. */
static void every_dtype_has_distinct_elements(void **state) {
  (void)state;
  static const tn_dtype all[] = {TN_BOOL, TN_I8,  TN_I16, TN_I32,  TN_I64, TN_U8, TN_U16,
                                 TN_U32,  TN_U64, TN_F16, TN_BF16, TN_F32, TN_F64};
  int64_t x[60], y[9], n, of[60];
  for (size_t d = 0; d < sizeof all / sizeof *all; d++) {
    if (!is_taken(&cases)) continue;
    tn_scope(ctx) {
      for (int i = 0; i < 60; i++) x[i] = all[d] == TN_BOOL ? 1 : below(7);
      tn_tensor *t = tn_cast(tn_from(ctx, TN_I64, DIMS(3, 5, 4), x), all[d]), *values, *count, *inverse;
      CHECK(tn_unique(tn_permute(t, (const int[]){2, 0, 1}, 3), 9, 1, &values, &count, &inverse, NULL));
      CHECK(tn_read(count, &n, sizeof n));
      CHECK(tn_read(tn_cast(values, TN_I64), y, sizeof y));
      CHECK(tn_read(tn_permute(inverse, (const int[]){1, 2, 0}, 3), of, sizeof of));
      assert_int_equal(n, all[d] == TN_BOOL ? 1 : 7);
      for (int64_t k = 1; k < n; k++) assert_true(y[k - 1] < y[k]);
      for (int i = 0; i < 60; i++) assert_int_equal(y[of[i]], x[i]);
    }
  }
  static const int64_t ends[] = {INT64_MAX, INT64_MIN, -1, 0, INT64_MIN, INT64_MAX},
                       ascending[] = {INT64_MIN, -1, 0, INT64_MAX}, unsigned_[] = {0, INT64_MAX, INT64_MIN, -1};
  for (int u = 0; u < 2; u++) tn_scope(ctx) {
      tn_tensor *values, *t = tn_from(ctx, u ? TN_U64 : TN_I64, DIMS(6), ends);
      CHECK(tn_unique_now(t, &values, NULL, NULL));
      assert_int_equal(tn_numel(values), 4);
      CHECK(tn_read(values, y, 32));
      assert_memory_equal(y, u ? unsigned_ : ascending, 32);
    }
}

static void gradient_goes_to_the_first_of_the_equal(void **state) {
  (void)state;
  static const float x[] = {3, 1, 3, 2, 1, 3}, w[] = {10, 20, 30}, want[] = {30, 10, 0, 20, 0, 0};
  float g[6];
  for (int now = 0; now < 2; now++) tn_scope(ctx) {
      tn_tensor *t = tn_from(ctx, TN_F32, DIMS(2, 3), x), *weight = tn_from(ctx, TN_F32, DIMS(3), w), *grad, *values;
      tn_tensor *half = tn_mul_scalar(t, 0.5);
      CHECK(now ? tn_unique_now(half, &values, NULL, NULL) : tn_unique(half, 5, 0, &values, NULL, NULL, NULL));
      if (!now) weight = tn_pad(weight, (const tn_dim[]){0, 2}, 100);
      CHECK(tn_grad(tn_sum(tn_mul(values, weight), NULL, 0, false), 1, &t, &grad));
      CHECK(tn_read(grad, g, sizeof g));
      for (int i = 0; i < 6; i++) assert_float_equal(g[i], want[i] / 2, 0);
    }
}

/* ---- what is not zero ---- */

static void places_of_what_is_not_zero(void **state) {
  (void)state;
  static const struct {
    int rank;
    tn_dim size[3];
  } shapes[] = {{0, {0}}, {1, {0}}, {1, {1}}, {1, {700}}, {2, {3, 0}}, {2, {9, 13}}, {3, {1, 1, 1}}, {3, {4, 5, 6}}};
  float x[ROOM];
  int64_t place[3 * ROOM], want[3 * ROOM], count;
  for (size_t s = 0; s < sizeof shapes / sizeof *shapes; s++)
    for (int more = 0; more < 3; more++) {
      if (!is_taken(&cases)) continue;
      tn_scope(ctx) {
        int rank = shapes[s].rank;
        tn_tensor *t = tn_zeros(ctx, TN_F32, shapes[s].size, rank), *places, *number;
        int64_t n = tn_numel(t), there = 0;
        for (int64_t i = 0; i < n; i++) {
          x[i] = below(3) ? any_float() : 0;
          if (x[i] == 0) continue;
          int64_t rest = i;
          for (int a = rank; a--;) want[there * rank + a] = rest % shapes[s].size[a], rest /= shapes[s].size[a];
          there++;
        }
        t = tn_from(ctx, TN_F32, shapes[s].size, rank, x);
        int64_t room = more ? there + more - 1 : there / 2;
        CHECK(tn_nonzero(t, room, -5, &places, &number));
        CHECK(tn_read(number, &count, sizeof count));
        CHECK(tn_read(places, place, (size_t)(room * rank) * sizeof *place));
        assert_int_equal(count, there);
        for (int64_t i = there * rank; i < room * rank; i++) want[i] = -5;
        assert_memory_equal(place, want, (size_t)(room * rank) * sizeof *place);
        places = tn_nonzero_now(t);
        assert_int_equal(tn_rank(places), 2);
        assert_int_equal(tn_size(places, 0), there);
        assert_int_equal(tn_size(places, 1), rank);
        CHECK(tn_read(places, place, (size_t)(there * rank) * sizeof *place));
        assert_memory_equal(place, want, (size_t)(there * rank) * sizeof *place);
      }
    }
}

/* ---- symbolic sizes ---- */

static tn_program *record(tn_dim n, tn_dim room) {
  static const char *const names[] = {"values", "count", "inverse", "counts", "places", "number"};
  tn_tensor *out[6];
  tn_program *p = tn_program_begin(ctx);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(n, 2));
  CHECK(tn_unique(x, room, -77, &out[0], &out[1], &out[2], &out[3]));
  CHECK(tn_nonzero(x, room, -5, &out[4], &out[5]));
  for (int i = 0; i < 6; i++) CHECK(tn_program_output(p, names[i], out[i]));
  CHECK(tn_program_end(p));
  return p;
}

static void sizes_may_be_symbolic(void **state) {
  (void)state;
  static runs r;
  float x[80], value[80];
  int64_t often[80], number[80], place[160], count;
  tn_dim n = tn_dim_var(ctx, "N", 0, 40);
  for (int all = 0; all < 2; all++) tn_scope(ctx) {
      tn_program *p = record(n, all ? tn_dim_mul(ctx, n, 2) : 6);
      for (int64_t rows = 0; rows <= 40; rows += 1 + rows / 2) {
        int64_t room = all ? 2 * rows : 6, there = 0;
        for (int i = 0; i < 80; i++) x[i] = below(2) ? any_float() : 0;
        find(x, 2 * rows, &r);
        CHECK(tn_program_write(p, "x", DIMS(rows, 2), x, (size_t)rows * 8));
        CHECK(tn_program_run(p));
        CHECK(tn_program_read(p, "values", value, (size_t)room * 4));
        CHECK(tn_program_read(p, "count", &count, 8));
        CHECK(tn_program_read(p, "inverse", number, (size_t)rows * 16));
        CHECK(tn_program_read(p, "counts", often, (size_t)room * 8));
        CHECK(tn_program_read(p, "places", place, (size_t)room * 16));
        assert_int_equal(count, r.n);
        assert_memory_equal(number, r.number, (size_t)rows * 16);
        expect_first(&r, x, room, value, often);
        CHECK(tn_program_read(p, "number", &count, 8));
        for (int64_t i = 0; i < 2 * rows; i++) {
          if (x[i] == 0) continue;
          if (there < room) assert_int_equal(2 * place[2 * there] + place[2 * there + 1], i);
          there++;
        }
        assert_int_equal(count, there);
        for (int64_t i = 2 * there; i < 2 * room; i++) assert_int_equal(place[i], -5);
      }
      tn_program_close(p);
    }
}

/* ---- misuse ---- */

static void misuse_is_told(void **state) {
  (void)state;
  tn_scope(ctx) {
    tn_tensor *t = tn_zeros(ctx, TN_I8, DIMS(2, 3)), *out = t, *other = t;
    WRONG(tn_unique(t, 2, 0, NULL, NULL, NULL, NULL), TN_EINVAL, "there is no place for a result: all are NULL");
    WRONG(tn_nonzero(t, 2, 0, NULL, NULL), TN_EINVAL, "there is no place for a result: all are NULL");
    WRONG(tn_unique_now(t, NULL, NULL, NULL), TN_EINVAL, "there is no place for a result: all are NULL");
    WRONG(tn_unique(t, -1, 0, &out, NULL, NULL, NULL), TN_EINVAL, "tn_unique: -1 is not a size");
    WRONG(tn_nonzero(t, -1, 0, NULL, &out), TN_EINVAL, "tn_nonzero: -1 is not a size");
    WRONG(tn_unique(t, 2, 128, NULL, &out, NULL, NULL), TN_EDTYPE, "tn_unique: the number 128 does not fit i8");
    WRONG(tn_unique(NULL, 2, 0, &out, NULL, NULL, NULL), TN_OK, "");
    assert_ptr_equal(out, t); /* an error leaves what is there */
    tn_program *p = tn_program_begin(ctx);
    WRONG(tn_unique_now(t, &out, NULL, &other), TN_ESTATE, "tn_unique_now: values cannot be read");
    WRONG(!tn_nonzero_now(t), TN_ESTATE, "tn_nonzero_now: values cannot be read");
    assert_ptr_equal(out, t);
    assert_ptr_equal(other, t);
    tn_program_close(p);
    tn_tensor *open = tn_zeros(ctx, TN_I8, DIMS(tn_dim_var(ctx, "N", 0, 40)));
    WRONG(tn_unique_now(open, &out, NULL, NULL), TN_EBOUND, "tn_unique_now: size N has no value");
    WRONG(!tn_nonzero_now(open), TN_EBOUND, "tn_nonzero_now: size N has no value");
    tn_release(t);
    CHECK(tn_scope_begin(ctx));
    CHECK(tn_scope_end(ctx));
    WRONG(!tn_nonzero_now(t), TN_EINVAL, "has ended");
  }
}

/* What lies between is gone when the result is. */
static void nothing_stays_behind(void **state) {
  (void)state;
  tn_stats before, after;
  tn_scope(ctx) {
    tn_tensor *t = tn_arange(ctx, TN_I32, 0, 50, 1), *values;
    CHECK(tn_realize(&t, 1));
    tn_ctx_stats(ctx, &before);
    CHECK(tn_unique_now(t, &values, NULL, NULL));
    CHECK(tn_realize(&values, 1));
    CHECK(tn_scope_begin(ctx)); /* what was given back takes effect with the next call */
    CHECK(tn_scope_end(ctx));
    tn_ctx_stats(ctx, &after);
    assert_int_equal(after.handles_live, before.handles_live + 1);
  }
}

static void nor_when_it_fails(void **state) {
  (void)state;
  tn_stats before, after;
  tn_scope(ctx) {
    tn_dim some = tn_dim_var(ctx, "some", 0, 9);
    tn_tensor *t = tn_zeros(ctx, TN_F32, &some, 1), *values, *inverse;
    tn_ctx_stats(ctx, &before);
    for (int i = 0; i < 3; i++) {
      assert_int_not_equal(tn_unique_now(t, &values, &inverse, NULL), TN_OK);
      assert_null(tn_nonzero_now(t));
      tn_clear_error(ctx);
    }
    CHECK(tn_scope_begin(ctx));
    CHECK(tn_scope_end(ctx));
    tn_ctx_stats(ctx, &after);
    assert_int_equal(after.handles_live, before.handles_live);
  }
}

/* Counts stand in memory when places are looked for: as validation draws them, they make no places that differ, which
 * says nothing of the schedule. */
static void validation_has_no_say(void **state) {
  tn_ctx *usual = ctx;
  ctx = tn_ctx_open(&(tn_options){.device = "ref:opencl", .quiet = 1, .verify = "1"});
  assert_non_null(ctx);
  exactly_so_many_distinct_ones(state);
  tn_ctx_close(ctx);
  ctx = usual;
}

/* Of many elements those that are chosen come to the front block by block, and what is left goes behind them: of lines
 * that blocks divide, or do not, of which none, some or all are chosen, with room for all or for some; each schedule is
 * compared with its graph. */
static void chosen_ones_come_to_the_front(void **state) {
  (void)state;
  enum { MANY = 128 * 130, KINDS = 4 };
  static const tn_dim size[][2] = {{1, (1 << 14) + 131}, {1, 1 << 14}, {128, 130}};
  static int32_t x[MANY];
  static int64_t place[2 * MANY], want[2 * MANY];
  const char *verify = is_sampled() ? "off" : "1";
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = verify});
  assert_non_null(c);
  unsigned long seen = 0;
  for (int s = 0; s < 3; s++)
    for (int kind = 0; kind < KINDS; kind++) tn_scope(c) {
        if (!is_taken(&seen)) continue;
        int rank = size[s][0] > 1 ? 2 : 1;
        tn_dim n = size[s][0] * size[s][1], room = kind < 2 ? n : n / 2, there = 0;
        for (tn_dim i = 0; i < 2 * n; i++) want[i] = -5;
        for (tn_dim i = 0; i < n; i++) {
          x[i] = kind == 0 ? below(3) != 0 : kind == 1 ? i / 300 % 2 : kind == 2;
          if (!x[i] || there == room) continue;
          if (rank > 1) want[there * rank] = i / size[s][1];
          want[there++ * rank + rank - 1] = i % size[s][1];
        }
        tn_tensor *t = tn_from(c, TN_I32, size[s] + 2 - rank, rank, x), *places;
        assert_int_equal(tn_nonzero(t, room, -5, &places, NULL), TN_OK);
        assert_int_equal(tn_read(places, place, (size_t)(room * rank) * sizeof *place), TN_OK);
        for (tn_dim i = 0; i < room * rank; i++)
          if (place[i] != want[i])
            fail_msg("size %d, kind %d: number %lld is %lld, not %lld", s, kind, (long long)i, (long long)place[i],
                     (long long)want[i]);
      }
  tn_ctx_close(c);
}

/* So do distinct values, of integers by the keys that were sorted, and of floats by where they stood; and how many
 * there are is known by then. */
static void distinct_values_come_to_the_front(void **state) {
  (void)state;
  enum { MANY = (1 << 14) + 77, LARGEST = 9000 };
  static const tn_dtype all[] = {TN_I32, TN_F32};
  static double x[MANY], value[MANY];
  static bool there[LARGEST];
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  assert_non_null(c);
  unsigned long seen = 0;
  for (int d = 0; d < 2; d++) tn_scope(c) {
      if (!is_taken(&seen)) continue;
      const tn_dim n = MANY, room = MANY / 2;
      memset(there, 0, sizeof there);
      for (tn_dim i = 0; i < n; i++) there[(int)(x[i] = (double)below(LARGEST))] = true;
      tn_tensor *t = tn_cast(tn_from(c, TN_F64, &n, 1, x), all[d]), *values, *count;
      assert_int_equal(tn_realize(&t, 1), TN_OK);
      assert_int_equal(tn_unique(t, room, -1, &values, &count, NULL, NULL), TN_OK);
      int64_t number, want = 0;
      assert_int_equal(tn_read(count, &number, sizeof number), TN_OK);
      assert_int_equal(tn_read(tn_cast(values, TN_F64), value, sizeof *value * (size_t)room), TN_OK);
      for (int v = 0; v < LARGEST; v++)
        if (there[v] && want < room && value[want++] != v) fail_msg("value %lld is not %d", (long long)want - 1, v);
      assert_int_equal(number, want);
      assert_true(want < room);
      for (tn_dim i = want; i < room; i++) assert_float_equal(value[i], -1, 0);
    }
  tn_ctx_close(c);
}

static char *explained_places(tn_ctx *c, tn_dim n, tn_dim room) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_I64, &n, 1), *places;
  assert_int_equal(tn_nonzero(x, room, -1, &places, NULL), TN_OK);
  assert_int_equal(tn_program_output(p, "places", places), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  char *text = tn_program_explain_string(p);
  assert_non_null(text);
  return text;
}

/* Places along one axis go to the result itself, and no pass follows: what is chosen comes to its front, or, where
 * there is more room, is told its place, by numbers of 32 bits where these do.  Nothing is computed,
 * so nothing is validated. */
static void places_are_told_to_the_result(void **state) {
  (void)state;
  const tn_dim n = 1 << 20;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  assert_non_null(c);
  for (int more = 0; more < 2; more++) tn_scope(c) {
      char *text = explained_places(c, n, n + more);
      const char *kernel = more ? "_alone_0(i64 *__restrict__ b0, const i32 *__restrict__ b1) {"
                                : "(i64 *__restrict__ b0, const i32 *__restrict__ b1, const u16 *__restrict__ b2) {";
      if (!strstr(text, kernel)) fail_msg("told otherwise:\n%s", text);
      if (strstr(text, "= mod u32 ")) fail_msg("places are divided");
      if (!more && !strstr(text, " sends(")) fail_msg("not put in order before");
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* Integers that are sorted by their digits stand in memory but for their signs: no kernel only turns these back.
 * Nothing is computed here, either. */
static void what_is_sorted_is_not_copied(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_I64, DIMS(1 << 22)), *values;
    assert_int_equal(tn_unique(x, 1024, -1, &values, NULL, NULL, NULL), TN_OK);
    assert_int_equal(tn_program_output(p, "values", values), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    assert_non_null(text);
    if (!strstr(text, " sends(")) fail_msg("sorted otherwise");
    if (strstr(text, "(i64 *__restrict__ b0, const u64 *__restrict__ b1) {")) fail_msg("what is sorted is copied");
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* Each value's goes to the first element that has it. */
static void expect_gradient(tn_ctx *c, const runs *r, tn_tensor *x, tn_tensor *values) {
  float weight[ROOM], got[ROOM], want[ROOM] = {0};
  for (int64_t k = 0; k < r->n; k++) want[r->first[k]] = weight[k] = (float)(k + 1);
  tn_tensor *loss = tn_sum(tn_mul(values, tn_from(c, TN_F32, DIMS(r->n), weight)), NULL, 0, false), *grad;
  if (tn_grad(loss, 1, &x, &grad)) fail_msg("%s", tn_last_error(c)->text);
  assert_int_equal(tn_read(grad, got, (size_t)tn_size(x, 0) * sizeof *got), TN_OK);
  for (int64_t i = 0; i < tn_size(x, 0); i++) assert_float_equal(got[i], want[i], 0);
}

/* Where no order is asked for floats are sorted without saying which each one is; of what is equal, 0 and -0 and all
 * NaN, the first one's bits are looked for. */
static void keys_say_what_they_are(void **state) {
  static const char *const devices[] = {"ref:sm_90", "ref:opencl", "cpu"};
  static const int64_t sizes[] = {1, 40, ROOM};
  static runs r;
  float x[ROOM], value[ROOM];
  int64_t often[ROOM];
  unsigned long seen = 0;
  (void)state;
  for (size_t k = 0; k < 3 * sizeof devices / sizeof *devices; k++) {
    if (!is_taken(&seen)) continue;
    int64_t n = sizes[k % 3];
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[k / 3], .quiet = 1});
    assert_non_null(c);
    if (k / 3 < 2) tn__device_get(c, 0)->target.launch = 1e-15f;
    for (int draw = 0; draw < 4; draw++) {
      for (int64_t i = 0; i < n; i++) x[i] = draw < 3 ? any_float() : 7;
      find(x, n, &r);
      tn_scope(c) {
        tn_tensor *t = tn_from(c, TN_F32, DIMS(n), x), *values, *counts;
        assert_int_equal(tn_unique(t, r.n + draw, -77, &values, NULL, NULL, draw ? &counts : NULL), TN_OK);
        if (!draw) expect_gradient(c, &r, t, values);
        assert_int_equal(tn_read(values, value, (size_t)(r.n + draw) * sizeof *value), TN_OK);
        memcpy(often, r.often, (size_t)r.n * sizeof *often);
        for (int64_t i = r.n; i < r.n + draw; i++) often[i] = 0;
        if (draw) assert_int_equal(tn_read(counts, often, (size_t)(r.n + draw) * sizeof *often), TN_OK);
      }
      expect_first(&r, x, r.n + draw, value, often);
    }
    tn_ctx_close(c);
  }
}

/* Passes then move keys alone, which the first one makes of what it loads.  Where a gradient goes back by the order, it
 * is sorted once, by both. */
static void keys_alone_are_sorted(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  assert_non_null(c);
  for (int graded = 0; graded < 2; graded++) tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS((1 << 24) - 5)), *values, *grad;
      assert_int_equal(tn_unique(x, 1 << 24, -1, &values, NULL, NULL, NULL), TN_OK);
      assert_int_equal(tn_program_output(p, "values", values), TN_OK);
      if (graded) {
        if (tn_grad(tn_sum(tn_square(values), NULL, 0, false), 1, &x, &grad)) fail_msg("%s", tn_last_error(c)->text);
        assert_int_equal(tn_program_output(p, "grad", grad), TN_OK);
      }
      if (tn_program_end(p)) fail_msg("%s", tn_last_error(c)->text);
      char *text = tn_program_explain_string(p);
      assert_non_null(text);
      int numbered = 0, alone = 0;
      for (const char *at = text; (at = strstr(at, " = buffer u64 16777216 ")); at++) numbered++;
      for (const char *at = text; (at = strstr(at, " = buffer u32 16777216 ")); at++) alone++;
      if (numbered != (graded ? 4 : 0) || (graded ? alone > 3 : alone != 4))
        fail_msg("%d passes with numbers and %d without:\n%s", numbered, alone, text);
      tn_string_free(text);
      tn_program_close(p);
    }
  tn_ctx_close(c);
}

/* Where values are brought to the front the gradient is looked up by the places that these were sent to. */
static void gradient_of_those_in_front(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(1 << 24)), *values, *grad;
    assert_int_equal(tn_unique(x, 1 << 24, -1, &values, NULL, NULL, NULL), TN_OK);
    assert_int_equal(tn_program_output(p, "values", values), TN_OK);
    if (tn_grad(tn_sum(tn_square(values), NULL, 0, false), 1, &x, &grad)) fail_msg("%s", tn_last_error(c)->text);
    assert_int_equal(tn_program_output(p, "grad", grad), TN_OK);
    if (tn_program_end(p)) fail_msg("%s", tn_last_error(c)->text);
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(distinct_elements_are_found),
      cmocka_unit_test(exactly_so_many_distinct_ones),
      cmocka_unit_test(validation_has_no_say),
      cmocka_unit_test(every_dtype_has_distinct_elements),
      cmocka_unit_test(gradient_goes_to_the_first_of_the_equal),
      cmocka_unit_test(places_of_what_is_not_zero),
      cmocka_unit_test(chosen_ones_come_to_the_front),
      cmocka_unit_test(distinct_values_come_to_the_front),
      cmocka_unit_test(places_are_told_to_the_result),
      cmocka_unit_test(what_is_sorted_is_not_copied),
      cmocka_unit_test(keys_say_what_they_are),
      cmocka_unit_test(keys_alone_are_sorted),
      cmocka_unit_test(gradient_of_those_in_front),
      cmocka_unit_test(sizes_may_be_symbolic),
      cmocka_unit_test(misuse_is_told),
      cmocka_unit_test(nothing_stays_behind),
      cmocka_unit_test(nor_when_it_fails),
  };
  return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
