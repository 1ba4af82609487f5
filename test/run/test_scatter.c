/* Sums by index, where several updates meet at one place: tn_scatter_add, tn_index_add and the gradients of tn_take and
 * tn_take_along_axis, against loops on the host.  All numbers are small integers, so that sums are exact in any order,
 * and a lost update shows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"

static const tn_mode modes[] = {TN_MODE_DEFAULT, TN_MODE_STRICT, TN_MODE_FAST};
static tn_ctx *c;
static unsigned long taken, turn;
static uint32_t state;

static uint32_t draw(uint32_t n) { return (state = state * 1664525u + 1013904223u) / 256 % n; }

static void in_all_modes(void (*body)(void)) {
  for (size_t m = 0; m < sizeof modes / sizeof *modes; m++) {
    c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .mode = modes[m], .quiet = 1});
    assert_non_null(c);
    state = (uint32_t)m;
    turn = m;
    body();
    tn_ctx_close(c);
  }
}

static void same(tn_tensor *t, const double *want, const char *what, long n, long k) {
  tn_tensor *wide = tn_cast(t, TN_F64);
  double *got = malloc(tn_nbytes(wide) + 1);
  if (tn_read(wide, got, tn_nbytes(wide)) != TN_OK) fail_msg("%s: %s", what, tn_last_error(c)->text);
  for (size_t i = 0; i < tn_nbytes(wide) / sizeof *got; i++)
    if (got[i] != want[i])
      fail_msg("%s, %s, %ld updates of %ld places: element %zu is %g, not %g", what,
               tn_dtype_name(tn_dtype_of(t)), n, k, i, got[i], want[i]);
  free(got);
}

enum { MOST = 5000, ACROSS = 4 };
static const long sizes[] = {1, 2, 3, 7, 31, 33, 63, 64, 65, 100, 128, 255, 257, 1000, 2049, MOST};
static int64_t idx[MOST];
static double upd[MOST * ACROSS], want[MOST * ACROSS];

typedef enum pattern { TURNS, DRAWN, ONE_PLACE, SOME_OUTSIDE, PATTERNS } pattern;

/* Every case is a kernel to compile: each mode takes a few of them. */
static bool is_mine(void) { return turn++ % 5 == 0 && is_taken(&taken); }

static void fill(pattern p, long n, long k) {
  for (long i = 0; i < n; i++)
    idx[i] = p == TURNS ? i % k : p == ONE_PLACE ? k / 2 : draw((uint32_t)k);
  for (long i = 0; i < n && p == SOME_OUTSIDE; i += 3) idx[i] -= k;
  for (long i = 0; i < n * ACROSS; i++) upd[i] = draw(3);
  memset(want, 0, sizeof want);
}

static const tn_dtype dtypes[] = {TN_F32, TN_I32, TN_I64, TN_BF16, TN_F64};
enum { DTYPES = sizeof dtypes / sizeof *dtypes };

/* bf16 counts to 256; its results are small enough if places are many */
static long places(tn_dtype t, long n, size_t which) {
  static const long few[] = {1, 10, 37};
  return t == TN_BF16 ? n / 20 + 1 : few[which % 3];
}

static tn_tensor *from(tn_dtype t, const double *x, const tn_dim *dim, int rank) {
  return tn_cast(tn_from(c, TN_F64, dim, rank, x), t);
}

static void thousand_ones(void) {
  for (size_t t = 0; t < DTYPES; t++) tn_scope(c) {
      enum { N = 1000, K = 10 };
      long k = dtypes[t] == TN_BF16 ? 2 * K : K;
      fill(TURNS, N, k);
      for (long i = 0; i < k; i++) want[i] = (double)N / (double)k;
      tn_tensor *at = tn_from(c, TN_I64, (tn_dim[]){N}, 1, idx), *ones = tn_ones(c, dtypes[t], (tn_dim[]){N}, 1);
      tn_tensor *base = tn_zeros(c, dtypes[t], (tn_dim[]){k}, 1);
      same(tn_scatter_add(base, 0, at, ones), want, "scatter_add of ones", N, k);
      same(tn_index_add(base, 0, at, ones), want, "index_add of ones", N, k);
    }
}
static void test_a_thousand_ones(void **arg) {
  (void)arg;
  in_all_modes(thousand_ones);
}

static void vectors(void) {
  for (size_t t = 0; t < DTYPES; t++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      pattern p = (pattern)((s + t) % PATTERNS);
      long n = sizes[s], k = places(dtypes[t], n, s);
      if (dtypes[t] == TN_BF16 && p == ONE_PLACE) p = DRAWN;
      if (!is_mine()) continue;
      tn_scope(c) {
        fill(p, n, k);
        for (long i = 0; i < n; i++)
          if (idx[i] >= 0) want[idx[i]] += upd[i];
        tn_tensor *at = tn_from(c, TN_I64, (tn_dim[]){n}, 1, idx), *u = from(dtypes[t], upd, (tn_dim[]){n}, 1),
                  *base = tn_zeros(c, dtypes[t], (tn_dim[]){k}, 1);
        same(tn_scatter_add(base, 0, at, u), want, "scatter_add", n, k);
        same(tn_index_add(base, 0, at, u), want, "index_add", n, k);
      }
    }
}
static void test_sizes_and_dtypes(void **arg) {
  (void)arg;
  in_all_modes(vectors);
}

/* Rows, columns, and the middle axis of three; a base that is not 0. */
static void ranks(void) {
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    long n = sizes[s], k = places(TN_F32, n, s);
    if (!is_mine()) continue;
    tn_scope(c) {
      fill(DRAWN, n, k);
      for (long i = 0; i < k * ACROSS; i++) want[i] = 1;
      for (long i = 0; i < n * ACROSS; i++) want[idx[i / ACROSS] * ACROSS + i % ACROSS] += upd[i];
      tn_tensor *at = tn_from(c, TN_I64, (tn_dim[]){n}, 1, idx), *u = from(TN_F32, upd, (tn_dim[]){n, ACROSS}, 2),
                *base = tn_ones(c, TN_F32, (tn_dim[]){k, ACROSS}, 2);
      same(tn_index_add(base, 0, at, u), want, "index_add of rows", n, k);
      tn_tensor *back = tn_index_add(tn_transpose(base, 0, 1), 1, at, tn_transpose(u, 0, 1));
      same(tn_transpose(back, 0, 1), want, "index_add of columns", n, k);
      tn_tensor *three = tn_index_add(tn_reshape(tn_ones(c, TN_F32, (tn_dim[]){2 * k, 2}, 2), (tn_dim[]){2, k, 2}, 3),
                                      1, at, tn_permute(tn_reshape(u, (tn_dim[]){n, 2, 2}, 3), (int[]){1, 0, 2}, 3));
      same(tn_permute(three, (int[]){1, 0, 2}, 3), want, "index_add along the middle axis", n, k);
      same(tn_scatter_add(base, 0, tn_expand(tn_reshape(at, (tn_dim[]){n, 1}, 2), (tn_dim[]){n, ACROSS}, 2), u), want,
           "scatter_add along rows", n, k);
    }
  }
}
static void test_ranks(void **arg) {
  (void)arg;
  in_all_modes(ranks);
}

/* Updates that are sums themselves, of few and of many */
static void sums(void) {
  static const long parts[] = {3, 100};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (size_t q = 0; q < 2; q++) {
      long n = sizes[s], k = places(TN_F32, n, s + 1);
      if (n * parts[q] > 1 << 17 || !is_mine()) continue;
      tn_scope(c) {
        fill(s % 2 ? DRAWN : TURNS, n, k);
        for (long i = 0; i < n; i++) want[idx[i]] += (double)parts[q];
        tn_tensor *at = tn_from(c, TN_I64, (tn_dim[]){n}, 1, idx);
        tn_tensor *ones = tn_ones(c, TN_F32, (tn_dim[]){parts[q], n}, 2), *base = tn_zeros(c, TN_F32, (tn_dim[]){k}, 1);
        if (tn_realize(&ones, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
        tn_tensor *u = tn_sum(ones, (const int[]){0}, 1, false);
        same(tn_index_add(base, 0, at, u), want, "index_add of sums", n, k);
        for (long i = 0; i < k; i++) want[i] *= 2;
        same(tn_scatter_add(base, 0, at, tn_add(u, u)), want, "scatter_add of twice a sum", n, k);
      }
    }
}
static void test_updates_that_are_sums(void **arg) {
  (void)arg;
  in_all_modes(sums);
}

/* The gradient of sum(take(x, i)) counts how often each place is taken; chained: behind a function of what is taken. */
static void check_take(long n, long m, long k, int axis, bool along, bool chained) {
  long ni = along ? m * k : k;
  if (ni > MOST || n * m > MOST * ACROSS) return;
  for (long i = 0; i < ni; i++) idx[i] = draw((uint32_t)n);
  memset(want, 0, sizeof want);
  for (long r = 0; r < m; r++)
    for (long i = 0; i < k; i++) {
      int64_t at = along ? idx[axis ? r * k + i : i * m + r] : idx[i];
      want[axis ? r * n + at : at * m + r] += chained ? 4 : 1;
    }
  tn_scope(c) {
    tn_tensor *x = tn_zeros(c, TN_F32, axis ? (tn_dim[]){m, n} : (tn_dim[]){n, m}, 2), *g = NULL;
    tn_tensor *at = along ? tn_from(c, TN_I64, axis ? (tn_dim[]){m, k} : (tn_dim[]){k, m}, 2, idx)
                          : tn_from(c, TN_I64, (tn_dim[]){k}, 1, idx);
    if (tn_realize(&x, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
    tn_tensor *y = along ? tn_take_along_axis(x, at, axis) : tn_take(x, at, axis);
    if (chained) y = tn_square(tn_add_scalar(y, 2));
    if (tn_grad(tn_sum(y, NULL, 0, false), 1, &x, &g) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
    same(g, want, along ? "gradient of take_along_axis" : "gradient of take", k, n);
  }
}

static void takes(void) {
  static const long few[] = {1, 2, 3, 5, 33, 64, 100, 300, MOST};
  enum { FEW = sizeof few / sizeof *few, TRIES = 24 };
  for (int i = 0; i < TRIES; i++) {
    long n = few[draw(FEW)], m = few[draw(FEW)], k = few[draw(FEW)];
    uint32_t form = draw(8);
    if (is_taken(&taken)) check_take(n, m, k, form & 1, form >> 1 & 1, form >> 2 & 1);
  }
}
static void test_gradients_of_takes(void **arg) {
  (void)arg;
  in_all_modes(takes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_a_thousand_ones), cmocka_unit_test(test_sizes_and_dtypes),
      cmocka_unit_test(test_ranks),           cmocka_unit_test(test_updates_that_are_sums),
      cmocka_unit_test(test_gradients_of_takes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
