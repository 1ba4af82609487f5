/* Convolutions on the CPU by products of blocks: of every kind and dtype, against their definition. */
#include "backend/cpu/cpu.h"
#include "ir/eval.h"
#include "support/alone.h"
#include "support/ctx.h"
#include <cmocka.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

typedef struct fixture {
  tn_ctx c;
  tn__device *d;
  int threads;
} fixture;

static void open_all(void *arg) {
  fixture *f = arg;
  f->c.opt.quiet = 1;
  f->c.opt.cc = "";
  tn__devices_open(&f->c);
  tn__cache_open(&f->c.cache, &f->c.mem, "");
  f->c.pool = tn__pool_open(&f->c.mem, f->threads);
  tn__cpu_open(&f->c);
  f->d = tn__device_get(&f->c, 0);
}

static void open_cpu(fixture *f, int threads) {
  tn_status status;
  memset(f, 0, sizeof *f);
  f->threads = threads;
  assert_true(test_ctx_open(&f->c));
  assert_true(tn__mem_try(&f->c.mem, open_all, f, &status));
}

static void close_cpu(fixture *f) {
  tn__devices_close(&f->c);
  tn__pool_close(f->c.pool);
  tn__cache_close(&f->c.cache);
  assert_int_equal(test_ctx_close(&f->c), 0);
}

static const int floats[] = {TN_F32, TN_F16, TN_BF16};
enum { FLOATS = 3, GUARD = 64 };

static int64_t count(const tn__conv_call *v, int o) {
  int64_t n = 1;
  for (int i = 0; i < 4; i++) n *= v->size[tn__conv_dims[o][i]];
  return n;
}

/* Sums of few of them are exact in every dtype. */
static double number(int64_t i, int o) {
  return (double)(((uint64_t)i * 2654435761u >> 9) % 7 + (uint64_t)o) / 4 - 1;
}
static double small(int64_t i, int o) {
  return (double)((((uint64_t)i + 7919 * (uint64_t)o) * 2654435761u >> 9) % 3) - 1;
}

/* How many elements of operand o lie between neighbours of each dimension: places are linear in what they are of. */
static void steps(const tn__conv_call *v, int o, int64_t *step) {
  for (int d = 0; d < CONV_DIMS; d++) {
    int64_t at[CONV_DIMS] = {0};
    at[d] = 1;
    step[d] = tn__conv_place(v, o, at);
  }
}

/* Every product of an image's and a filter's element goes to its place, or its adjoint.  Around images are zeros, which
 * make NaN of infinities, too; what would come back to them goes nowhere. */
TEST_ALONE static void by_definition(const tn__conv_call *v, double *const *x) {
  int o = (int)v->kind, a = (o + 1) % 3, b = (o + 2) % 3;
  int64_t at[CONV_DIMS], step[3][CONV_DIMS], from[3], filters = v->size[CONV_K];
  for (int i = 0; i < 3; i++) steps(v, i, step[i]);
#define EACH(D) for (at[D] = 0; at[D] < v->size[D]; at[D]++)
  EACH(CONV_P) EACH(CONV_R) EACH(CONV_Q) EACH(CONV_S) {
    at[CONV_H] = at[CONV_P] * v->stride[0] + at[CONV_R] * v->dilation[0] - v->pad[0];
    at[CONV_W] = at[CONV_Q] * v->stride[1] + at[CONV_S] * v->dilation[1] - v->pad[1];
    bool inside = at[CONV_H] >= 0 && at[CONV_H] < v->size[CONV_H] && at[CONV_W] >= 0 && at[CONV_W] < v->size[CONV_W];
    if (!inside && o == CONV_DATA) continue;
    bool no_a = a == CONV_DATA && !inside, no_b = b == CONV_DATA && !inside;
    at[CONV_K] = 0;
    EACH(CONV_N) EACH(CONV_C) {
      for (int i = 0; i < 3; i++) {
        from[i] = 0;
        for (int d = 0; d < CONV_DIMS; d++) from[i] += at[d] * step[i][d];
      }
      for (int64_t k = 0; k < filters; k++) {
        double p = no_a ? 0 : x[a][from[a] + k * step[a][CONV_K]], q = no_b ? 0 : x[b][from[b] + k * step[b][CONV_K]];
        x[o][from[o] + k * step[o][CONV_K]] += p * q;
      }
    }
  }
#undef EACH
}

static void fill(int dtype, char *to, int64_t n, const double *from) {
  for (int64_t i = 0; i < n; i++)
    tn__eval_store(dtype, to + (size_t)i * tn__size_of(dtype), tn__eval_from_double(dtype, from[i]));
}

static void check(tn__device *d, tn__conv_call v, bool infinite) {
  double *x[3];
  char *mem[3];
  size_t size = tn__size_of(v.dtype);
  int64_t n = count(&v, (int)v.kind);
  for (int o = 0; o < 3; o++) {
    int64_t m = count(&v, o);
    x[o] = calloc((size_t)m + 1, sizeof(double));
    mem[o] = malloc((size_t)m * size + 2 * GUARD);
    memset(mem[o], 0x5a, (size_t)m * size + 2 * GUARD);
    v.operand[o] = mem[o] + GUARD;
    for (int64_t i = 0; i < m; i++) x[o][i] = size > 2 ? number(i, o) : small(i, o);
    /* of what is multiplied with images, one is infinite */
    if (infinite && m && o != CONV_DATA) x[o][n % m] = INFINITY;
    /* what stands in the result is not read */
    if (o != (int)v.kind) fill(v.dtype, v.operand[o], m, x[o]);
    for (int64_t i = 0; i < m && o == (int)v.kind; i++) x[o][i] = 0;
    for (int64_t i = 0; i < m && o == (int)v.kind; i++)
      tn__eval_store(v.dtype, mem[o] + GUARD + (size_t)i * size, tn__eval_from_double(v.dtype, NAN));
  }
  by_definition(&v, x);
  assert_int_equal(d->ops->conv(d, &v), TN_OK);
  char *want = malloc((size_t)n * size + 1);
  fill(v.dtype, want, n, x[v.kind]);
  for (int64_t i = 0; i < n; i++) {
    double has = tn__eval_to_double(v.dtype, tn__eval_load(v.dtype, mem[v.kind] + GUARD + (size_t)i * size)),
           should = tn__eval_to_double(v.dtype, tn__eval_load(v.dtype, want + (size_t)i * size));
    if (has != should && !(isnan(has) && isnan(should)))
      fail_msg("%s kind %d: element %lld is %g, not %g; sizes %lld %lld %lld %lld %lld %lld %lld %lld %lld, "
               "stride %lld %lld pad %lld %lld dilation %lld %lld",
               tn_dtype_name((tn_dtype)v.dtype), (int)v.kind, (long long)i, has, should, (long long)v.size[0],
               (long long)v.size[1], (long long)v.size[2], (long long)v.size[3], (long long)v.size[4],
               (long long)v.size[5], (long long)v.size[6], (long long)v.size[7], (long long)v.size[8],
               (long long)v.stride[0], (long long)v.stride[1], (long long)v.pad[0], (long long)v.pad[1],
               (long long)v.dilation[0], (long long)v.dilation[1]);
  }
  for (int o = 0; o < 3; o++) {
    for (int i = 0; i < GUARD; i++)
      assert_true(mem[o][i] == 0x5a && mem[o][GUARD + (size_t)count(&v, o) * size + (size_t)i] == 0x5a);
    free(x[o]), free(mem[o]);
  }
  free(want);
}

static void check_all(tn__device *d, tn__conv_call v) {
  for (int i = 0; i < 3 * FLOATS; i++) {
    v.kind = (tn__conv_kind)(i % 3);
    v.dtype = floats[i / 3 % FLOATS];
    check(d, v, false);
    if (v.dtype == TN_F32) check(d, v, true);
  }
}

static int64_t places(const tn__conv_call *v, int i) {
  int64_t room = v->size[CONV_H + i] + 2 * v->pad[i] - (v->size[CONV_R + i] - 1) * v->dilation[i] - 1;
  return room < 0 ? 0 : room / v->stride[i] + 1;
}

static uint64_t dice;
static int64_t draw(int64_t lo, int64_t hi) {
  dice = dice * 6364136223846793005u + 1442695040888963407u;
  return lo + (int64_t)((dice >> 33) % (uint64_t)(hi - lo + 1));
}

/* Small ones of any sizes, what is summed over nothing and what has no elements among them */
static void test_drawn(void **state) {
  (void)state;
  for (int threads = 1; threads <= 3; threads += 2) {
    fixture f;
    open_cpu(&f, threads);
    dice = 7 + (uint64_t)threads;
    if (!f.d->ops->has_conv(f.d, TN_F32)) skip();
    for (int i = 0; i < 400; i++) {
      tn__conv_call v = {
          .size = {draw(0, 9) ? draw(1, 5) : 0, draw(0, 9) ? draw(1, 6) : 0, draw(0, 9) ? draw(1, 6) : 0}};
      for (int a = 0; a < 2; a++) {
        v.size[CONV_H + a] = draw(0, 9) ? draw(1, 14) : draw(0, 40);
        v.size[CONV_R + a] = draw(1, 4);
        v.stride[a] = draw(1, 4), v.pad[a] = draw(0, 3) * draw(0, 2), v.dilation[a] = draw(1, 4);
        v.size[CONV_P + a] = places(&v, a);
      }
      v.kind = (tn__conv_kind)(i % 3), v.dtype = floats[draw(0, FLOATS - 1)];
      check(f.d, v, draw(0, 4) == 0);
    }
    close_cpu(&f);
  }
}

/* More of each dimension than what a block has of it */
static void test_blocks(void **state) {
  static const tn__conv_call calls[] = {
      {.size = {2, 70, 3, 7, 9, 7, 9, 3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}},
      {.size = {3, 3, 270, 9, 6, 5, 3, 2, 3}, .stride = {2, 2}, .pad = {1, 1}, .dilation = {2, 1}},
      {.size = {1, 2, 3, 1, 2300, 1, 2301, 1, 4}, .stride = {1, 1}, .pad = {0, 2}, .dilation = {1, 1}},
      {.size = {1, 2, 3, 70, 70, 70, 70, 3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}},
      {.size = {1, 2, 70, 1, 2300, 1, 2301, 1, 4}, .stride = {1, 1}, .pad = {0, 2}, .dilation = {1, 1}},
      {.size = {170, 3, 5, 4, 4, 4, 4, 3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}},
      {.size = {1, 70, 430, 3, 3, 3, 3, 3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}},
      {.size = {1, 2, 270, 16, 16, 16, 16, 3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}},
      {.size = {130, 9, 17, 6, 6, 3, 3, 3, 3}, .stride = {2, 2}, .pad = {2, 2}, .dilation = {2, 2}},
      {.size = {3, 5, 20, 60, 1, 60, 1, 3, 7}, .stride = {1, 1}, .pad = {1, 3}, .dilation = {1, 1}},
      {.size = {1, 1, 1, 40, 50, 11, 16, 30, 35}, .stride = {1, 1}, .pad = {0, 0}, .dilation = {1, 1}},
      {.size = {1, 1, 2, 400, 300, 400, 300, 3, 1}, .stride = {1, 1}, .pad = {1, 0}, .dilation = {1, 1}},
      {.size = {1, 1, 2, 2, 70000, 2, 34999, 1, 3}, .stride = {1, 2}, .pad = {0, 0}, .dilation = {1, 1}},
      {.size = {1, 70000, 1, 1, 2, 1, 1, 1, 2}, .stride = {1, 1}, .pad = {0, 0}, .dilation = {1, 1}},
      {.size = {2, 2, 2, 2, 2, 2, 2, 5, 5}, .stride = {3, 3}, .pad = {7, 7}, .dilation = {3, 3}}};
  (void)state;
  for (int threads = 1; threads <= 5; threads += 2) {
    fixture f;
    open_cpu(&f, threads);
    if (!f.d->ops->has_conv(f.d, TN_BF16)) skip();
    for (size_t i = 0; i < sizeof calls / sizeof *calls; i++) check_all(f.d, calls[i]);
    close_cpu(&f);
  }
}

/* Images' gradients at enough places for what came back to be convolved: filters in pieces, images in pieces, padding
 * as wide as windows and wider.  Infinite filters must not meet the zeros around. */
static void test_turned(void **state) {
  static const tn__conv_call calls[] = {
      {.size = {2, 9, 3, 14, 12, 18, 16, 3, 3}, .stride = {1, 1}, .pad = {3, 3}, .dilation = {1, 1}},
      {.size = {3, 4, 5, 13, 9, 7, 15, 3, 2}, .stride = {1, 1}, .pad = {0, 4}, .dilation = {3, 2}},
      {.size = {1, 129, 256, 1, 256, 1, 255, 1, 2}, .stride = {1, 1}, .pad = {0, 0}, .dilation = {1, 1}},
      {.size = {2, 40, 60, 12, 12, 12, 12, 3, 3}, .stride = {1, 1}, .pad = {1, 1}, .dilation = {1, 1}},
      {.size = {1, 2, 1, 1, 2300, 1, 2302, 1, 3}, .stride = {1, 1}, .pad = {0, 2}, .dilation = {1, 1}},
      {.size = {300, 3, 2, 4, 1, 1, 1, 4, 1}, .stride = {5, 1}, .pad = {0, 0}, .dilation = {1, 1}}};
  (void)state;
  for (int threads = 1; threads <= 3; threads += 2) {
    fixture f;
    open_cpu(&f, threads);
    if (!f.d->ops->has_conv(f.d, TN_BF16)) skip();
    for (size_t i = 0; i < 2 * FLOATS * sizeof calls / sizeof *calls; i++) {
      tn__conv_call v = calls[i / (2 * FLOATS)];
      v.kind = CONV_DATA, v.dtype = floats[i / 2 % FLOATS];
      check(f.d, v, i % 2);
    }
    close_cpu(&f);
  }
}

/* Neither are what is no float convolved, nor sizes that are no int's. */
static void test_refusals(void **state) {
  fixture f;
  (void)state;
  open_cpu(&f, 1);
  assert_false(f.d->ops->has_conv(f.d, TN_I32));
  assert_false(f.d->ops->has_conv(f.d, TN_F64));
  if (!f.d->ops->has_conv(f.d, TN_F32)) skip();
  tn__conv_call v = {.dtype = TN_F32,
                     .kind = CONV_FORWARD,
                     .size = {1, 1, 1, (int64_t)1 << 16, (int64_t)1 << 15, (int64_t)1 << 16, (int64_t)1 << 15, 1, 1},
                     .stride = {1, 1},
                     .dilation = {1, 1}};
  assert_int_equal(f.d->ops->conv(f.d, &v), TN_ENOTSUP);
  assert_non_null(strstr(tn_last_error(&f.c)->text, "2147483648 places"));
  tn_clear_error(&f.c);
  v.channels_last = true;
  assert_int_equal(f.d->ops->conv(f.d, &v), TN_ENOTSUP);
  assert_non_null(strstr(tn_last_error(&f.c)->text, "channels are last"));
  close_cpu(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_drawn), cmocka_unit_test(test_blocks),
                                     cmocka_unit_test(test_turned), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
