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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(streams_do_not_depend_on_flushes),
      cmocka_unit_test(flushed_graphs_are_alike),
      cmocka_unit_test(distributions),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
