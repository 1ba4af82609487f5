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

/* f32 as it is: a cast is another kernel to compile. */
static void same(tn_tensor *t, const double *want, const char *what, long n, long k) {
  bool narrow = tn_dtype_of(t) == TN_F32;
  tn_tensor *read = narrow ? t : tn_cast(t, TN_F64);
  void *got = malloc(tn_nbytes(read) + 1);
  if (tn_read(read, got, tn_nbytes(read)) != TN_OK) fail_msg("%s: %s", what, tn_last_error(c)->text);
  for (int64_t i = 0; i < tn_numel(t); i++) {
    double x = narrow ? (double)((float *)got)[i] : ((double *)got)[i];
    if (x != want[i])
      fail_msg("%s, %s, %ld updates of %ld places: element %ld is %g, not %g", what, tn_dtype_name(tn_dtype_of(t)), n,
               k, (long)i, x, want[i]);
  }
  free(got);
}

enum { MOST = 5000, ACROSS = 4, VERY_MANY = 50000 };
static const long sizes[] = {1, 2, 3, 7, 31, 33, 63, 64, 65, 100, 128, 255, 257, 1000, 2049, MOST};
static int64_t idx[VERY_MANY];
static double upd[VERY_MANY * ACROSS], want[MOST * ACROSS];

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

static void count_ones(tn_dtype t, long n, long k) {
  tn_scope(c) {
    fill(TURNS, n, k);
    for (long i = 0; i < k; i++) want[i] = (double)n / (double)k;
    tn_tensor *at = tn_from(c, TN_I64, (tn_dim[]){n}, 1, idx), *ones = tn_ones(c, t, (tn_dim[]){n}, 1);
    tn_tensor *base = tn_zeros(c, t, (tn_dim[]){k}, 1);
    same(tn_scatter_add(base, 0, at, ones), want, "scatter_add of ones", n, k);
    same(tn_index_add(base, 0, at, ones), want, "index_add of ones", n, k);
  }
}

static void ones(void) {
  for (size_t t = 0; t < DTYPES; t++) {
    bool short_sums = dtypes[t] == TN_BF16;
    count_ones(dtypes[t], 1000, short_sums ? 20 : 10);
    if (!short_sums) count_ones(dtypes[t], VERY_MANY, 10);
  }
}
static void scatter_add_wrong(void **arg) {
  (void)arg;
  in_all_modes(ones);
}

/* Rows of three, vectors, and gradients of takes, which add up the same: in every dtype, with indices of both widths */
static void all_dtypes(void) {
  enum { N = 1000, K = 37, D = 3 };
  for (tn_dtype t = TN_I8; t < TN_DTYPE_COUNT; t++)
    for (int wide = 0; wide < 2; wide++) {
      if (turn++ % 3 || !is_taken(&taken)) continue; /* each in one of the modes */
      tn_scope(c) {
        double rows[K * D] = {0};
        fill(DRAWN, N, K);
        for (int i = 0; i < N; i++) {
          want[idx[i]]++;
          for (int d = 0; d < D; d++) rows[idx[i] * D + d]++;
        }
        tn_tensor *at = tn_cast(tn_from(c, TN_I64, (tn_dim[]){N}, 1, idx), wide ? TN_I64 : TN_I32), *g[2];
        tn_tensor *x[] = {tn_zeros(c, t, (tn_dim[]){K}, 1), tn_zeros(c, t, (tn_dim[]){K, D}, 2)};
        same(tn_scatter_add(x[0], 0, at, tn_ones(c, t, (tn_dim[]){N}, 1)), want, "scatter_add", N, K);
        same(tn_index_add(x[1], 0, at, tn_ones(c, t, (tn_dim[]){N, D}, 2)), rows, "index_add of rows", N, K);
        if (t < TN_F16) continue; /* has no gradients */
        tn_tensor *few = tn_take(x[0], at, 0), *many = tn_take(x[1], at, 0);
        tn_tensor *sum = tn_add(tn_sum(few, NULL, 0, false), tn_sum(many, NULL, 0, false));
        if (tn_grad(sum, 2, x, g) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
        same(g[0], want, "gradient of take", N, K);
        same(g[1], rows, "gradient of take of rows", N, K);
      }
    }
}
static void scatter_add_dtypes(void **arg) {
  (void)arg;
  in_all_modes(all_dtypes);
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

/* Integers, of which GPUs add up those of a group in its shared memory, if they are many for the places */
static void few_places(void) {
  static const long n[] = {2049, VERY_MANY - 3, VERY_MANY}, k[] = {70, 300, 1001};
  for (size_t s = 0; s < sizeof n / sizeof *n; s++) {
    if (!is_taken(&taken)) continue;
    tn_scope(c) {
      fill(s == 1 ? SOME_OUTSIDE : DRAWN, n[s], k[s]);
      for (long i = 0; i < k[s]; i++) want[i] = 3;
      for (long i = 0; i < n[s]; i++)
        if (idx[i] >= 0) want[idx[i]] += upd[i];
      tn_tensor *at = tn_from(c, TN_I64, (tn_dim[]){n[s]}, 1, idx), *u = from(TN_I32, upd, (tn_dim[]){n[s]}, 1);
      same(tn_index_add(tn_full(c, TN_I32, (tn_dim[]){k[s]}, 1, 3), 0, at, u), want, "index_add", n[s], k[s]);
    }
  }
}
static void test_few_places(void **arg) {
  (void)arg;
  in_all_modes(few_places);
}

/* Updates of which there are few for the places, all of one: their sum is beyond an f16, and what it gives is not. */
static void test_wide_sums(void **arg) {
  (void)arg;
  enum { PLACES = 20000, UPDATES = 700, AT = 5 };
  if (!is_mine()) return;
  c = tn_ctx_open(&(tn_options){.quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_dim places = PLACES, updates = UPDATES;
    tn_tensor *at = tn_full(c, TN_I64, &updates, 1, AT), *u = tn_full(c, TN_F16, &updates, 1, 100);
    tn_tensor *none = tn_full(c, TN_F16, &places, 1, -60000), *all[] = {at, u, none};
    assert_int_equal(tn_realize(all, 3), TN_OK);
    float got[PLACES];
    tn_tensor *sum = tn_cast(tn_index_add(none, 0, at, u), TN_F32);
    assert_int_equal(tn_read(sum, got, sizeof got), TN_OK);
    assert_float_equal(got[AT], 10000, UPDATES * 16); /* each addition may round, to multiples of 32 */
    assert_float_equal(got[AT + 1], -60000, 16);
  }
  tn_ctx_close(c);
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

static void sum_of_parts(void) {
  enum { PICKS = 70, CELLS = 64, PARTS = 3 };
  tn_scope(c) {
    memset(want, 0, sizeof want);
    for (int i = 0; i < PICKS; i++) want[idx[i] = (i * 7 + i / 5) % 13] += PARTS;
    tn_tensor *parts = tn_ones(c, TN_F32, (tn_dim[]){PARTS, PICKS}, 2);
    if (tn_realize(&parts, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
    same(tn_index_add(tn_zeros(c, TN_F32, (tn_dim[]){CELLS}, 1), 0, tn_from(c, TN_I64, (tn_dim[]){PICKS}, 1, idx),
                      tn_sum(parts, (const int[]){0}, 1, false)),
         want, "index_add of sums", PICKS, CELLS);
  }
}
static void scatter_of_sum(void **arg) {
  (void)arg;
  in_all_modes(sum_of_parts);
}

/* ---- gradients of takes: that of sum(take(x, i)) counts how often each place is taken ---- */

typedef struct take_case {
  long n, m, k; /* what is taken from, across, how many */
  int axis;
  bool along, chained; /* chained: behind a function of what is taken */
  double *want;
  tn_tensor *gradient;
} take_case;

static const long take_sizes[] = {1, 2, 3, 5, 33, 64, 100, 300, MOST};

static bool draw_take(take_case *t) {
  enum { FEW = sizeof take_sizes / sizeof *take_sizes };
  *t = (take_case){.n = take_sizes[draw(FEW)], .m = take_sizes[draw(FEW)], .k = take_sizes[draw(FEW)]};
  uint32_t form = draw(8);
  t->axis = form & 1;
  t->along = form >> 1 & 1;
  t->chained = form >> 2 & 1;
  return t->n * t->m <= MOST * ACROSS && (t->along ? t->m * t->k : t->k) <= VERY_MANY;
}

static tn_tensor *take_from(const take_case *t, tn_tensor *x) {
  long n = t->along ? t->m * t->k : t->k;
  for (long i = 0; i < n; i++) idx[i] = draw((uint32_t)t->n);
  for (long r = 0; r < t->m; r++)
    for (long i = 0; i < t->k; i++) {
      int64_t at = t->along ? idx[t->axis ? r * t->k + i : i * t->m + r] : idx[i];
      t->want[t->axis ? r * t->n + at : at * t->m + r] += t->chained ? 4 : 1;
    }
  if (!t->along) return tn_take(x, tn_from(c, TN_I64, (tn_dim[]){t->k}, 1, idx), t->axis);
  tn_dim shape[] = {t->axis ? t->m : t->k, t->axis ? t->k : t->m};
  return tn_take_along_axis(x, tn_from(c, TN_I64, shape, 2, idx), t->axis);
}

static void differentiate(take_case *t) {
  float *zero = calloc((size_t)(t->n * t->m), sizeof *zero);
  tn_tensor *x = tn_from(c, TN_F32, t->axis ? (tn_dim[]){t->m, t->n} : (tn_dim[]){t->n, t->m}, 2, zero);
  t->want = calloc((size_t)(t->n * t->m), sizeof *t->want);
  tn_tensor *y = take_from(t, x);
  if (t->chained) y = tn_square(tn_add_scalar(y, 2));
  if (tn_grad(tn_sum(y, NULL, 0, false), 1, &x, &t->gradient) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  free(zero);
}

/* Many in one schedule: a compiler takes as long to start as it works on a kernel. */
static void takes(void) {
  enum { TRIES = 160 };
  take_case t[TRIES];
  tn_tensor *g[TRIES];
  int n = 0;
  tn_scope(c) {
    for (int i = 0; i < TRIES; i++) {
      if (!draw_take(&t[n]) || !is_taken(&taken)) continue;
      differentiate(&t[n]);
      g[n] = t[n].gradient;
      n++;
    }
    if (n && tn_realize(g, n) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
    for (int i = 0; i < n; i++) {
      same(g[i], t[i].want, t[i].along ? "gradient of take_along_axis" : "gradient of take", t[i].k, t[i].n);
      free(t[i].want);
    }
  }
}
static void take_gradient_sweep(void **arg) {
  (void)arg;
  in_all_modes(takes);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scatter_add_wrong),     cmocka_unit_test(scatter_add_dtypes),
      cmocka_unit_test(test_sizes_and_dtypes), cmocka_unit_test(test_ranks),
      cmocka_unit_test(scatter_of_sum),        cmocka_unit_test(test_updates_that_are_sums),
      cmocka_unit_test(take_gradient_sweep),   cmocka_unit_test(test_wide_sums),
      cmocka_unit_test(test_few_places),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
