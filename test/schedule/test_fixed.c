/* Sums by index in fixed point (schedule/fixed.c): exact until they are floats again, the same in any order of the
 * updates and on every device, and what floats give where an update is not finite. */
#include "device/device.h"
#include "schedule/schedule.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

/* So many that asking takes longer, and that sorting has more kernels */
enum { PLACES = 1500, UPDATES = 5000 };

typedef struct sums {
  tn_dtype dtype;
  int64_t to[UPDATES]; /* -1: nowhere */
  float base[PLACES], upd[UPDATES], got[PLACES];
} sums;

static uint64_t seed;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

static void clear(sums *x, tn_dtype dtype) {
  *x = (sums){.dtype = dtype};
  for (int i = 0; i < UPDATES; i++) x->to[i] = -1;
}

static tn_tensor *from(tn_ctx *c, const sums *x, const float *v, tn_dim n) {
  tn_tensor *t = tn_from(c, TN_F32, &n, 1, v);
  return x->dtype == TN_F32 ? t : tn_cast(t, x->dtype);
}

static void add_on(const char *device, sums *x) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *to = tn_from(c, TN_I64, (tn_dim[]){UPDATES}, 1, x->to);
    tn_tensor *sum = tn_scatter_add(from(c, x, x->base, PLACES), 0, to, from(c, x, x->upd, UPDATES));
    if (tn_read(tn_cast(sum, TN_F32), x->got, sizeof x->got) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  }
  tn_ctx_close(c);
}

static void expect(const sums *x, int place, double want, double room) {
  double got = (double)x->got[place];
  bool same = isnan(want) ? isnan(got) : got == (double)(float)want && !signbit(got) == !signbit(want);
  same |= fabs(got - want) <= room;
  if (!same) fail_msg("%s, place %d: %.9g, not %.9g", tn_dtype_name(x->dtype), place, got, want);
}

/* What goes to each place, and what comes of it; repeat: the first of them so many times */
static const struct {
  tn_dtype dtype;
  int repeat;
  double base, upd[4], want;
} rows[] = {
    {TN_F32, 0, 3, {0}, 3},
    {TN_F32, 0, 0, {1e30, 1e-30, -1e30, 0}, 1e-30},
    {TN_F32, 0, 0, {0x1p41, 0x1p0, -0x1p41, 0}, 1},
    {TN_F32, 0, 1, {0x1p127, 0x1p-149, -0x1p127, -1}, 0},
    {TN_F32, 0, 0, {0x1p-149, 0x1p-149, 0x1p-149, 0}, 3 * 0x1p-149},
    {TN_F32, 0, 0, {0x1.fffffep127, 0x1.fffffep127, -0x1.fffffep127, 0}, 0x1.fffffep127},
    {TN_F32, 0, 0, {0x1.fffffep127, 0x1.fffffep127, 0, 0}, INFINITY},
    {TN_F32, 1000, 0, {0x1.000002p0, 0, 0, 0}, 1000 * 0x1.000002p0},
    {TN_F32, 1000, 0, {-0x1.fffffep-30, 0, 0, 0}, -1000 * 0x1.fffffep-30},
    {TN_F32, 1000, 0, {0x1p-149, 0, 0, 0}, 1000 * 0x1p-149},
    {TN_F32, 0, 0, {INFINITY, -1e38, 0, 0}, INFINITY},
    {TN_F32, 0, 7, {-INFINITY, 1e38, 5, 0}, -INFINITY},
    {TN_F32, 0, 0, {INFINITY, -INFINITY, 0, 0}, NAN},
    {TN_F32, 0, 0, {NAN, 1, 0, 0}, NAN},
    {TN_F32, 300, 0, {NAN, 0, 0, 0}, NAN},
    {TN_F32, 300, 0, {INFINITY, 0, 0, 0}, INFINITY},
    {TN_F32, 300, 0, {-INFINITY, 0, 0, 0}, -INFINITY},
    {TN_F32, 0, 0, {-0.0, 0, 0, 0}, 0},
    {TN_F16, 0, 0, {65504, 0x1p-24, -65504, 0}, 0x1p-24},
    {TN_F16, 1000, 1, {0x1p-24, 0, 0, 0}, 1},
    {TN_F16, 1000, 0, {0x1p-24, 0, 0, 0}, 1000 * 0x1p-24},
    {TN_F16, 0, 0, {65504, 65504, 0, 0}, INFINITY},
    {TN_F16, 0, 0, {65504, 65504, -65504, 0}, 65504},
    {TN_F16, 0, 1, {INFINITY, 1, 0, 0}, INFINITY},
    {TN_F16, 0, 1, {-INFINITY, 1, 0, 0}, -INFINITY},
    {TN_F16, 0, 0, {-INFINITY, INFINITY, 1, 0}, NAN},
    {TN_F16, 300, 0, {NAN, 1, 0, 0}, NAN},
    {TN_F16, 300, 0, {INFINITY, 1, 0, 0}, INFINITY},
    {TN_BF16, 0, 0, {0x1p127, 0x1p-133, -0x1p127, 0}, 0x1p-133},
    {TN_BF16, 1000, 0, {0x1.02p-60, 0, 0, 0}, 0x1.f8p-51},
    {TN_BF16, 0, 0, {NAN, 1, 0, 0}, NAN},
};
enum { ROWS = sizeof rows / sizeof *rows };

static int place_of(size_t row) { return (int)(row * 77 % PLACES); }

static void fill(sums *x, tn_dtype dtype) {
  int n = 0;
  clear(x, dtype);
  for (size_t r = 0; r < ROWS; r++) {
    if (rows[r].dtype != dtype) continue;
    x->base[place_of(r)] = (float)rows[r].base;
    for (int k = rows[r].repeat ? 1 - rows[r].repeat : 0; k < 4; k++) {
      assert_true(n < UPDATES);
      x->to[n] = place_of(r);
      x->upd[n++] = (float)rows[r].upd[k > 0 ? k : 0];
    }
  }
}

/* A rounding of f32 */
static double near(double x) { return isfinite(x) ? 0x1p-23 * fabs(x) : 0; }

static void test_rows(void **s) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
  static sums x;
  (void)s;
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
    fill(&x, dtypes[t]);
    add_on("ref:sm_90", &x);
    for (size_t r = 0; r < ROWS; r++)
      if (rows[r].dtype == dtypes[t]) expect(&x, place_of(r), rows[r].want, rows[r].repeat ? near(rows[r].want) : 0);
  }
}

static float power(int64_t e) { return (float)ldexp(1, (int)e); }

/* Of all sizes, whose sums are less than they are, and many of them at some places */
static void draw(sums *x, tn_dtype dtype) {
  int64_t reach = dtype == TN_F16 ? 14 : 100;
  clear(x, dtype);
  for (int i = 0; i < PLACES; i++) x->base[i] = (float)(below(200) - 100);
  for (int i = 0; i < UPDATES; i++) {
    x->to[i] = below(3) ? below(PLACES + 6) - 3 : below(3);
    x->upd[i] = (float)(below(200) - 100) / 100 * power(below(3) ? below(2 * reach) - reach : 0);
  }
}

static void turn_round(sums *x) {
  for (int i = 0, j = UPDATES - 1; i < j; i++, j--) {
    int64_t to = x->to[i];
    float upd = x->upd[i];
    x->to[i] = x->to[j], x->upd[i] = x->upd[j];
    x->to[j] = to, x->upd[j] = upd;
  }
}

static void test_any_order(void **s) {
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
  static sums x, other;
  static double sum[PLACES], sizes[PLACES];
  (void)s;
  for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++) {
    double unit = dtypes[t] == TN_F32 ? 0x1p-22 : dtypes[t] == TN_F16 ? 0x1p-9 : 0x1p-6;
    seed = t;
    draw(&x, dtypes[t]);
    other = x;
    turn_round(&other);
    add_on("ref:sm_90", &x);
    add_on("ref:sm_80", &other);
    if (memcmp(x.got, other.got, sizeof x.got)) fail_msg("%s: another order, another sum", tn_dtype_name(dtypes[t]));
    for (int i = 0; i < PLACES; i++) sum[i] = (double)x.base[i], sizes[i] = fabs(sum[i]);
    for (int i = 0; i < UPDATES; i++) {
      if (x.to[i] < 0 || x.to[i] >= PLACES) continue;
      sum[x.to[i]] += (double)x.upd[i];
      sizes[x.to[i]] += fabs((double)x.upd[i]);
    }
    for (int i = 0; i < PLACES; i++) expect(&x, i, sum[i], unit * sizes[i]);
  }
}

/* What is taken from places has a gradient that is added up there; so is that of halves, which are summed up as f32. */
static void test_gradient(void **s) {
  static sums x, taken;
  (void)s;
  for (int half = 0; half < 2; half++) {
    draw(&x, half ? TN_F16 : TN_F32);
    memset(x.base, 0, sizeof x.base);
    taken = x;
    add_on("ref:sm_90", &x);
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_tensor *from_these = from(c, &x, x.base, PLACES), *to = tn_from(c, TN_I64, (tn_dim[]){UPDATES}, 1, x.to), *g;
      tn_tensor *loss = tn_sum(tn_mul(tn_take(from_these, to, 0), from(c, &x, x.upd, UPDATES)), NULL, 0, false);
      assert_int_equal(tn_grad(loss, 1, &from_these, &g), TN_OK);
      assert_int_equal(tn_read(tn_cast(g, TN_F32), taken.got, sizeof taken.got), TN_OK);
    }
    tn_ctx_close(c);
    for (int i = 0; i < PLACES; i++) expect(&taken, i, (double)x.got[i], 0);
  }
}

/* Words are cleared and added to, and made floats: two kernels, the first of two parts; without additions of 64 bits,
 * or of f64, others. */
static void test_text(void **s) {
  static const struct {
    const char *device;
    tn_dtype dtype;
    bool fixed;
  } programs[] = {{"ref:sm_90", TN_F32, true}, {"ref:sm_90", TN_F16, true}, {"ref:sm_90", TN_F64, false},
                  {"ref:opencl", TN_F32, false}};
  (void)s;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = programs[i].device, .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", programs[i].dtype, (tn_dim[]){PLACES}, 1),
                *to = tn_program_input(p, "to", TN_I64, (tn_dim[]){UPDATES}, 1),
                *upd = tn_program_input(p, "upd", programs[i].dtype, (tn_dim[]){UPDATES}, 1);
      assert_int_equal(tn_program_output(p, "sum", tn_index_add(base, 0, to, upd)), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p), *at = text;
      int calls = 0;
      assert_non_null(text);
      while ((at = strstr(at, "call void "))) at++, calls++;
      if ((strstr(text, "tn_add_at_i64(&b0[") != NULL) != programs[i].fixed || (programs[i].fixed && calls != 2))
        fail_msg("program %zu: %d kernels:\n%s", i, calls, text);
      tn_string_free(text);
    }
    tn_ctx_close(c);
  }
}

/* Rows of few numbers are added number by number, also as the gradient of rows that are taken; what goes to no place
 * goes to none of another row.  Rows of many are sorted. */
static void test_rows_of_numbers(void **s) {
  enum { WIDEST = 512, FEW_WIDE = 8, TO_ROWS = PLACES, ROW_UPDATES = UPDATES };
  static const struct {
    tn_dim shape[2];
    bool fixed;
  } shapes[] = {{{2, 2}, true}, {{1, 2}, true}, {{3, 1}, true}, {{1, 1}, true}, {{1, 8}, true}, {{4, 128}, false}};
  static float base[TO_ROWS * WIDEST], upd[ROW_UPDATES * FEW_WIDE], got[2][TO_ROWS * WIDEST];
  static double want[2][TO_ROWS * WIDEST];
  static int64_t to[ROW_UPDATES];
  (void)s;
  for (size_t r = 0; r < sizeof shapes / sizeof *shapes; r++) {
    const tn_dim *shape = shapes[r].shape, width = shape[0] * shape[1], all = TO_ROWS * width;
    tn_dim n = shapes[r].fixed ? ROW_UPDATES : 40;
    tn_dim size[] = {TO_ROWS, shape[0], shape[1]}, updates[] = {n, size[1], size[2]};
    for (tn_dim i = 0; i < all; i++) base[i] = (float)(below(200) - 100), want[0][i] = (double)base[i], want[1][i] = 0;
    for (tn_dim k = 0; k < n; k++) {
      /* twice or four times the last two are within the places */
      const int64_t rare[] = {TO_ROWS - 1, INT64_MIN + 5, ((int64_t)1 << 62) + 5};
      to[k] = below(4) ? below(TO_ROWS + 6) - 3 : rare[below(3)];
      for (tn_dim j = 0; j < width; j++) {
        float x = upd[k * width + j] = (float)(below(200) - 100) * (below(2) ? 0x1p-6f : 1); /* sums are exact */
        for (int g = 0; g < 2 && to[k] >= 0 && to[k] < TO_ROWS; g++) want[g][to[k] * width + j] += (double)x;
      }
    }
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "strict"});
    assert_non_null(c);
    tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = tn_program_input(p, "x", TN_F32, size, 3), *at = tn_program_input(p, "at", TN_I64, &n, 1),
                *u = tn_program_input(p, "u", TN_F32, updates, 3), *g;
      assert_int_equal(tn_program_output(p, "sum", tn_index_add(x, 0, at, u)), TN_OK);
      assert_int_equal(tn_vjp(tn_take(x, at, 0), u, 1, &x, &g), TN_OK);
      assert_int_equal(tn_program_output(p, "gradient", g), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      if ((strstr(text, "tn_add_at_i64(&b0[") != NULL) != shapes[r].fixed) fail_msg("row %zu:\n%s", r, text);
      tn_string_free(text);
      assert_int_equal(tn_program_bind(p, "x", tn_from(c, TN_F32, size, 3, base)), TN_OK);
      assert_int_equal(tn_program_bind(p, "at", tn_from(c, TN_I64, &n, 1, to)), TN_OK);
      assert_int_equal(tn_program_bind(p, "u", tn_from(c, TN_F32, updates, 3, upd)), TN_OK);
      assert_int_equal(tn_program_run(p), TN_OK);
      for (int k = 0; k < 2; k++) {
        tn_tensor *y = tn_program_result(p, k ? "gradient" : "sum");
        if (tn_read(y, got[k], (size_t)all * sizeof(float)) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
        for (tn_dim i = 0; i < all; i++)
          if ((double)got[k][i] != want[k][i])
            fail_msg("row %zu, %d, element %lld: %g, not %g", r, k, (long long)i, (double)got[k][i], want[k][i]);
      }
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_any_order),
                                     cmocka_unit_test(test_gradient), cmocka_unit_test(test_text),
                                     cmocka_unit_test(test_rows_of_numbers)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
