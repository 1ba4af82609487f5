/* Rows with infinities: what a mask of -inf leaves is as if the rest were not there, in values and in gradients.  The
 * numbers are by hand; they are what PyTorch and JAX give, too, where nothing else is said. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>

enum { ROWS = 3, COLS = 3 };
#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static const double inf = INFINITY;
static tn_ctx *c;

static void check_row(tn_tensor *t, int row, const double *want, int n, int line) {
  double got[ROWS * COLS];
  tn_tensor *wide = tn_cast(t, TN_F64);
  if (tn_read(wide, got, tn_nbytes(wide)) != TN_OK) fail_msg("line %d: %s", line, tn_last_error(c)->text);
  double tol = tn_dtype_of(t) == TN_F64 ? 1e-12 : tn_dtype_of(t) == TN_F32 ? 1e-6 : 1e-2;
  for (int i = 0; i < n; i++) {
    double g = got[row * n + i], w = want[i];
    bool good = isnan(w) ? isnan(g) : g == w || fabs(g - w) <= tol;
    if (!good)
      fail_msg("line %d, %s: element %d of row %d is %.9g, not %.9g", line, tn_dtype_name(tn_dtype_of(t)), i, row, g,
               w);
  }
}
#define ROW(t, row, ...)                                                                                               \
  check_row(t, row, (const double[]){__VA_ARGS__}, sizeof((const double[]){__VA_ARGS__}) / sizeof(double), __LINE__)

/* d sum(y * w) / dx */
static tn_tensor *slope(tn_tensor *y, tn_tensor *w, tn_tensor *x) {
  tn_tensor *g = NULL;
  if (tn_vjp(y, w, 1, &x, &g) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  return g;
}

static const int last[] = {1};

static void rows(tn_dtype dtype) {
  double log3 = log(3), log4 = log(4);
  tn_tensor *x =
      tn_cast(tn_from(c, TN_F64, DIMS(ROWS, COLS), (double[]){0, -inf, log3, -inf, -inf, 5, -inf, -inf, -inf}), dtype);
  tn_tensor *w = tn_cast(tn_from(c, TN_F64, DIMS(ROWS, COLS), (double[]){1, 2, 5, 1, 2, 5, 1, 2, 5}), dtype);
  tn_tensor *one = tn_ones(c, dtype, DIMS(ROWS)), *y;
  if (tn_realize((tn_tensor *[]){x, w}, 2) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  y = tn_softmax(x, 1);
  ROW(y, 0, .25, 0, .75);
  ROW(y, 1, 0, 0, 1);
  ROW(y, 2, 0, 0, 0); /* PyTorch and JAX: NaN */
  y = slope(y, w, x); /* s * (w - sum(s * w)) */
  ROW(y, 0, -.75, 0, .75);
  ROW(y, 1, 0, 0, 0);
  ROW(y, 2, 0, 0, 0); /* NaN there */
  y = tn_log_softmax(x, 1);
  ROW(y, 0, -log4, -inf, log3 - log4);
  ROW(y, 1, -inf, -inf, 0);
  ROW(y, 2, -inf, -inf, -inf); /* NaN there */
  y = slope(y, w, x); /* w - s * sum(w) */
  ROW(y, 0, 1 - 2, 2, 5 - 6);
  ROW(y, 1, 1, 2, 5 - 8);
  ROW(y, 2, 1, 2, 5); /* as if of nothing but itself; NaN there */
  y = tn_logsumexp(x, last, 1, false);
  ROW(tn_reshape(y, DIMS(ROWS, 1)), 0, log4);
  ROW(tn_reshape(y, DIMS(ROWS, 1)), 1, 5);
  ROW(tn_reshape(y, DIMS(ROWS, 1)), 2, -inf);
  y = slope(y, one, x);
  ROW(y, 0, .25, 0, .75);
  ROW(y, 1, 0, 0, 1);
  ROW(y, 2, NAN, NAN, NAN); /* and there */
}

static void masked_rows(void **state) {
  static const tn_dtype dtypes[] = {TN_F64, TN_F32, TN_F16, TN_BF16};
  (void)state;
  for (int i = 0; i < 4; i++) tn_scope(c) rows(dtypes[i]);
}

/* softmax(q k + mask) v: the gradients of q, k and v are those of the keys that are seen, alone. */
static void attention(void **state) {
  enum { T = 5, SEEN = 3, D = 4 };
  static const tn_dtype dtypes[] = {TN_F64, TN_F32};
  double data[3][T * D], bias[T];
  (void)state;
  for (int i = 0; i < T; i++) bias[i] = i < SEEN ? 0 : -inf;
  for (int o = 0; o < 3; o++)
    for (int i = 0; i < T * D; i++) data[o][i] = sin(1 + i * (o + 2));
  for (int dt = 0; dt < 2; dt++)
    tn_scope(c) {
      tn_tensor *g[2][3];
      for (int whole = 0; whole < 2; whole++) {
        int64_t keys = whole ? T : SEEN;
        tn_tensor *in[3];
        for (int o = 0; o < 3; o++) in[o] = tn_cast(tn_from(c, TN_F64, DIMS(o ? keys : T, D), data[o]), dtypes[dt]);
        assert_int_equal(tn_realize(in, 3), TN_OK);
        tn_tensor *score = tn_matmul(in[0], tn_transpose(in[1], 0, 1));
        if (whole) score = tn_add(score, tn_cast(tn_from(c, TN_F64, DIMS(T), bias), dtypes[dt]));
        tn_tensor *loss = tn_sum(tn_square(tn_matmul(tn_softmax(score, 1), in[2])), NULL, 0, false);
        assert_int_equal(tn_grad(loss, 3, in, g[whole]), TN_OK);
      }
      for (int o = 0; o < 3; o++) {
        double want[T * D] = {0}, got[T * D];
        tn_tensor *few = tn_cast(g[0][o], TN_F64), *all = tn_cast(g[1][o], TN_F64);
        assert_int_equal(tn_read(few, want, tn_nbytes(few)), TN_OK);
        assert_int_equal(tn_read(all, got, tn_nbytes(all)), TN_OK);
        for (int i = 0; i < T * D; i++)
          if (!(fabs(got[i] - want[i]) <= (dt ? 1e-5 : 1e-13)))
            fail_msg("gradient %d, element %d: %.9g, not %.9g", o, i, got[i], want[i]);
      }
    }
}

/* A class that is ruled out by -inf costs nothing and gets no gradient. */
static void cross_entropy(void **state) {
  (void)state;
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 3), (float[]){0, -INFINITY, logf(3), 1, 1, -INFINITY});
  tn_tensor *loss = tn_cross_entropy(x, tn_from(c, TN_I64, DIMS(2), (int64_t[]){2, 0})), *g;
  assert_int_equal(tn_grad(loss, 1, &x, &g), TN_OK);
  ROW(tn_reshape(loss, DIMS(1, 1)), 0, (log(4.0 / 3) + log(2)) / 2);
  ROW(g, 0, .125, 0, -.125);
  ROW(g, 1, -.25, .25, 0);
}

/* x*sigmoid(x) and x*Phi(x) are inf*0 at -inf: NaN, as there. */
static void gates(void **state) {
  (void)state;
  tn_tensor *x = tn_from(c, TN_F32, DIMS(1, 3), (float[]){-INFINITY, 0, INFINITY});
  ROW(tn_silu(x), 0, NAN, 0, inf);
  ROW(tn_gelu(x), 0, NAN, 0, inf);
  ROW(tn_relu(x), 0, 0, 0, inf);
  ROW(tn_sigmoid(x), 0, 0, .5, 1);
  ROW(tn_softplus(x), 0, 0, log(2), inf);
}

static int open_ctx(void **state) {
  (void)state;
  c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .threads = 1, .quiet = 1});
  return c ? 0 : -1;
}
static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(c);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(masked_rows), cmocka_unit_test(attention),
                                     cmocka_unit_test(cross_entropy), cmocka_unit_test(gates)};
  return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
