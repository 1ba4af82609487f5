/* Random tensors: the n-th one depends on seed, n and element only; and they have the distribution they say. */
#include "front.h"
#include "tensor/random.h"

static void flush_fn(tn_ctx *c, void *arg) {
  (void)arg;
  tn__random_flush(c);
}

static void flush(tn_ctx *c) { assert_true(tn__ctx_run(c, "flush", flush_fn, NULL)); }

enum { DRAWS = 4, N = 5 };

/* Draws with a flush before draw i where bit i of `flushes` is set. */
static void draw(tn_ctx *c, unsigned flushes, double out[DRAWS * N]) {
  tn_manual_seed(c, 42);
  for (unsigned d = 0; d < DRAWS; d++) {
    if (flushes >> d & 1) flush(c);
    naive_tensor v = front_value(tn_rand_bits(c, DIMS(N)));
    for (int i = 0; i < N; i++) out[d * N + (unsigned)i] = naive_get(&v, i);
    naive_free(&v);
  }
}

static void streams_do_not_depend_on_flushes(void **state) {
  (void)state;
  tn_ctx c;
  double want[DRAWS * N], got[DRAWS * N];
  front_open(&c);
  draw(&c, 0, want);
  for (int i = 0; i < DRAWS * N; i++)
    for (int j = 0; j < i; j++) assert_true(want[i] != want[j]); /* no two streams or elements alike (for this seed) */
  for (unsigned flushes = 1; flushes < 1u << DRAWS; flushes++) {
    draw(&c, flushes, got);
    assert_memory_equal(got, want, sizeof got);
  }
  uint64_t seed, calls;
  assert_int_equal(tn_rng_get_state(&c, &seed, &calls), TN_OK);
  assert_true(seed == 42 && calls == DRAWS);
  assert_int_equal(tn_rng_set_state(&c, 42, 2), TN_OK); /* resume after the second */
  naive_tensor v = front_value(tn_rand_bits(&c, DIMS(N)));
  for (int i = 0; i < N; i++) assert_true(naive_get(&v, i) == want[2 * N + i]);
  naive_free(&v);
  front_close(&c);
}

static void flushed_graphs_are_alike(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_uniform(&c, TN_F32, DIMS(4), 0, 1);
  uint64_t ahead;
  tn_node *first = tn__random_state(&c, &ahead);
  assert_int_equal(ahead, 1);
  flush(&c);
  assert_true(tn__random_state(&c, &ahead) != first);
  assert_int_equal(ahead, 0);
  front_close(&c);
}

/* Known answers of Philox4x32-10 are tested where it is defined; here only that words are taken in order and bounds
 * kept. */
static void moments(tn_tensor *t, double *mean, double *var, double *lo, double *hi) {
  naive_tensor v = front_value(t);
  double s = 0, q = 0;
  *lo = INFINITY, *hi = -INFINITY;
  for (int64_t i = 0; i < v.n; i++) {
    double x = naive_get(&v, i);
    s += x, q += x * x, *lo = fmin(*lo, x), *hi = fmax(*hi, x);
  }
  *mean = s / (double)v.n, *var = q / (double)v.n - *mean * *mean;
  naive_free(&v);
}

static void distributions(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  enum { M = 20000 };
  double mean, var, lo, hi;
  for (int f = 0; f < 2; f++) {
    tn_dtype dt = f ? TN_F64 : TN_F32;
    moments(tn_uniform(&c, dt, DIMS(M), -2, 4), &mean, &var, &lo, &hi);
    assert_true(lo >= -2 && lo < -1.99 && hi < 4 && hi > 3.99 && fabs(mean - 1) < 0.05 && fabs(var - 3) < 0.1);
    moments(tn_normal(&c, dt, DIMS(M), 1, 2), &mean, &var, &lo, &hi);
    assert_true(lo < -5 && hi > 7 && isfinite(hi) && fabs(mean - 1) < 0.06 && fabs(var - 4) < 0.2);
  }
  moments(tn_randint(&c, TN_I8, DIMS(M), -3, 4), &mean, &var, &lo, &hi);
  assert_true(lo == -3 && hi == 3 && fabs(mean) < 0.06 && fabs(var - 4) < 0.1);
  moments(tn_randint(&c, TN_I64, DIMS(M), INT64_C(1) << 33, (INT64_C(1) << 33) + (INT64_C(1) << 32)), &mean, &var, &lo,
          &hi);
  assert_true(lo >= 0x1p33 && hi < 0x1p33 + 0x1p32 && hi > 0x1p33 + 0x1.fp31);
  moments(tn_cast(tn_bernoulli(&c, DIMS(M), 0.3), TN_F32), &mean, &var, &lo, &hi);
  assert_true(lo == 0 && hi == 1 && fabs(mean - 0.3) < 0.02);
  moments(tn_cast(tn_bernoulli(&c, DIMS(100), 1), TN_F32), &mean, &var, &lo, &hi);
  assert_true(lo == 1);
  front_close(&c);
}

/* Both numbers of each pair are those that Box and Muller make of its two words, or of its four in f64; the last pair
 * may lack one. */
static void normals_come_in_pairs(void **state) {
  (void)state;
  enum { M = 4001 };
  tn_ctx c;
  front_open(&c);
  for (int f64 = 0; f64 < 2; f64++) {
    tn_manual_seed(&c, 5);
    naive_tensor w = front_value(tn_rand_bits(&c, DIMS(f64 ? 2 * M + 2 : M + 1)));
    tn_manual_seed(&c, 5);
    naive_tensor x = front_value(tn_normal(&c, f64 ? TN_F64 : TN_F32, DIMS(M), 0, 1));
    for (int64_t i = 0; i < M; i++) {
      int64_t at = i / 2 * (f64 ? 4 : 2);
      double u[2];
      for (int k = 0; k < 2; k++)
        u[k] = f64 ? floor((naive_get(&w, at + 2 * k) * 0x1p32 + naive_get(&w, at + 2 * k + 1)) * 0x1p-11) * 0x1p-53
                   : naive_get(&w, at + k) * 0x1p-32;
      u[0] = f64 ? u[0] + 0x1p-53 : (floor(u[0] * 0x1p24) + 1) * 0x1p-24;
      double radius = sqrt(-2 * log(u[0])), turn = 6.283185307179586477 * u[1],
             want = radius * (i % 2 ? cos(turn) : sin(turn)), got = naive_get(&x, i);
      if (fabs(got - want) > (f64 ? 1e-12 : 1e-6) * (0.1 + fabs(want)))
        fail_msg("f%d: element %d is %.17g, not %.17g", f64 ? 64 : 32, (int)i, got, want);
    }
    naive_free(&w);
    naive_free(&x);
  }
  front_close(&c);
}

/* Mean of f(x[i]) g(x[i + by]) over elements i = first, first + step, ... */
static double product_mean(const naive_tensor *x, int64_t first, int64_t step, int64_t by, bool squares) {
  double sum = 0;
  int64_t n = 0;
  for (int64_t i = first; i + by < x->n; i += step, n++) {
    double a = naive_get(x, i), b = naive_get(x, i + by);
    sum += squares ? (a * a - 1) * (b * b - 1) : a * b;
  }
  return sum / (double)n;
}

/* Moments, and what elements that share a block might have to do with each other, within five standard deviations. */
static void neighbours_are_independent(void **state) {
  (void)state;
  enum { M = 60000 };
  tn_ctx c;
  front_open(&c);
  tn_manual_seed(&c, 1);
  naive_tensor x = front_value(tn_normal(&c, TN_F32, DIMS(M), 0, 1));
  double sigma = 5 / sqrt(M), mean[4] = {0};
  for (int64_t i = 0; i < M; i++) {
    double a = naive_get(&x, i);
    mean[0] += a / M, mean[1] += a * a / M, mean[2] += a * a * a / M, mean[3] += a * a * a * a / M;
  }
  /* of x^k the variance is (2k)!/(2^k k!) - (mean of x^k)^2 */
  assert_true(fabs(mean[0]) < sigma && fabs(mean[1] - 1) < sigma * sqrt(2) && fabs(mean[2]) < sigma * sqrt(15) &&
              fabs(mean[3] - 3) < sigma * sqrt(96));
  for (int64_t by = 1; by <= 8; by++)
    for (int64_t first = 0; first < 4; first++)
      for (int s = 0; s < 2; s++) assert_true(fabs(product_mean(&x, first, 4, by, s)) < 2 * sigma * (s ? 2 : 1));
  naive_free(&x);
  naive_tensor u = front_value(tn_uniform(&c, TN_F32, DIMS(M), -sqrt(3), sqrt(3)));
  for (int64_t by = 1; by <= 8; by++)
    for (int64_t first = 0; first < 4; first++) assert_true(fabs(product_mean(&u, first, 4, by, false)) < 2 * sigma);
  naive_free(&u);
  front_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_do_not_depend_on_flushes),
      cmocka_unit_test(flushed_graphs_are_alike),
      cmocka_unit_test(distributions),
      cmocka_unit_test(normals_come_in_pairs),
      cmocka_unit_test(neighbours_are_independent),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
