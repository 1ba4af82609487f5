/* tn_grad, tn_vjp and tn_jvp through the public interface. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "support/device.h"
#include "tenet/grad.h"
#include "tenet/tensor.h"
#include <math.h>
#include <string.h>

static tn_ctx *ctx;

static int open_ctx(void **state) {
  (void)state;
  tn_options opt = {.device = device_or("ref"), .quiet = 1};
  return (ctx = tn_ctx_open(&opt)) ? 0 : -1;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(ctx);
  return 0;
}

static tn_tensor *vector(const double *v, tn_dim n) { return tn_from(ctx, TN_F64, &n, 1, v); }

static void expect(tn_tensor *t, const double *want, int n) {
  double got[8] = {0};
  if (!t || tn_read(t, got, (size_t)n * sizeof *got)) fail_msg("%s", tn_last_error(ctx)->text);
  for (int i = 0; i < n; i++)
    if (!(fabs(got[i] - want[i]) <= 1e-12)) fail_msg("element %d is %.15g, not %.15g", i, got[i], want[i]);
}

static void expect_error(tn_status got, tn_status want, const char *part) {
  assert_int_equal(got, want);
  if (!strstr(tn_last_error(ctx)->text, part)) fail_msg("wanted '%s' in '%s'", part, tn_last_error(ctx)->text);
  tn_clear_error(ctx);
}

static void test_first_and_second(void **state) {
  (void)state;
  tn_tensor *x = vector((double[]){1, 2, 3}, 3), *g, *h;
  tn_tensor *loss = tn_sum(tn_mul(x, tn_mul(x, x)), NULL, 0, false);
  assert_int_equal(tn_grad(loss, 1, &x, &g), TN_OK);
  assert_int_equal(tn_grad(tn_sum(g, NULL, 0, false), 1, &x, &h), TN_OK);
  expect(g, (double[]){3, 12, 27}, 3);
  expect(h, (double[]){6, 12, 18}, 3);
}

static void test_vjp_and_jvp(void **state) {
  (void)state;
  tn_tensor *x = vector((double[]){1, 2}, 2), *y = vector((double[]){3, 5}, 2), *v = vector((double[]){10, 100}, 2),
            *g[2], *d;
  tn_tensor *z = tn_mul(x, tn_mul(y, y));
  assert_int_equal(tn_vjp(z, v, 2, (tn_tensor *[]){x, y}, g), TN_OK);
  assert_int_equal(tn_jvp(z, 2, (tn_tensor *[]){x, y}, (tn_tensor *[]){v, v}, &d), TN_OK);
  expect(g[0], (double[]){90, 2500}, 2);
  expect(g[1], (double[]){60, 2000}, 2);
  expect(d, (double[]){150, 4500}, 2);
}

static void test_after_assignment(void **state) {
  (void)state;
  tn_tensor *w = vector((double[]){1, 2}, 2), *g;
  for (int step = 0; step < 3; step++) {
    assert_int_equal(tn_grad(tn_sum(tn_mul(w, w), NULL, 0, false), 1, &w, &g), TN_OK);
    assert_int_equal(tn_assign(w, tn_sub(w, g)), TN_OK); /* w - 2w */
  }
  expect(w, (double[]){-1, -2}, 2);
  tn_tensor *x = vector((double[]){1, 2}, 2);
  assert_int_equal(tn_assign(w, tn_mul(x, x)), TN_OK);
  expect_error(tn_grad(tn_sum(w, NULL, 0, false), 1, &x, &g), TN_EGRAD, "gradient through an assignment");
}

static void test_errors(void **state) {
  (void)state;
  tn_tensor *x = vector((double[]){1, 2}, 2), *z = vector((double[]){1, 2}, 2), *loss = tn_sum(x, NULL, 0, false),
            *g = x, *none = NULL;
  expect_error(tn_grad(tn_neg(x), 1, &x, &g), TN_EGRAD, "tn_grad: the loss is f64[2], not a float scalar");
  assert_null(g);
  expect_error(tn_grad(loss, 1, &z, &g), TN_EGRAD, "wrt[0], f64[2], does not influence");
  expect_error(tn_grad(loss, 1, &none, &g), TN_EINVAL, "NULL");
  expect_error(tn_vjp(x, loss, 1, &x, &g), TN_ESHAPE, "f64");
  expect_error(tn_jvp(loss, 1, &x, &loss, &g), TN_ESHAPE, "direction");
  assert_int_equal(tn_grad(NULL, 0, NULL, NULL), TN_EINVAL);
  assert_int_equal(tn_realize(&loss, 1), TN_OK);
  expect_error(tn_grad(loss, 1, &x, &g), TN_EGRAD, "realised before");
  assert_int_equal(tn_grad(tn_sum(x, NULL, 0, false), 1, &x, &g), TN_OK); /* the context still works */
  expect(g, (double[]){1, 1}, 2);
}

static tn_tensor *sum(tn_tensor *t) { return tn_sum(t, NULL, 0, false); }
static void realise(tn_tensor *t) { assert_int_equal(tn_realize(&t, 1), TN_OK); }

/* A value that was realised between has lost its way back: a gradient that would go there is an error, and never one
 * without that part. */
static void test_cut(void **state) {
  static const char lost[] = "tn_grad: wrt[0], f64[2], influences the result through f64[2], which was realised before "
                             "(or read, or printed) and no longer knows how "
                             "it was made: take gradients first, or tn_detach it";
  (void)state;
  tn_tensor *x = vector((double[]){1, 2}, 2), *far = vector((double[]){5, 6}, 2), *h = tn_mul(x, x),
            *other = tn_neg(far), *g, *both[2];
  assert_int_equal(tn_realize((tn_tensor *[]){h, other}, 2), TN_OK);
  expect_error(tn_grad(sum(tn_mul(h, x)), 1, &x, &g), TN_EGRAD, lost);
  assert_null(g);
  expect_error(tn_grad(sum(h), 1, &x, &g), TN_EGRAD, lost);
  expect_error(tn_jvp(tn_mul(h, x), 1, &x, &far, &g), TN_EGRAD, strstr(lost, "wrt"));
  assert_int_equal(tn_grad(sum(tn_mul(tn_detach(h), x)), 1, &x, &g), TN_OK); /* meant so */
  expect(g, (double[]){1, 4}, 2);
  assert_int_equal(tn_grad(sum(tn_mul(h, x)), 2, (tn_tensor *[]){x, h}, both), TN_OK); /* asked for, it is a leaf */
  expect(both[0], (double[]){1, 4}, 2);
  expect(both[1], (double[]){1, 2}, 2);
  assert_int_equal(tn_grad(sum(tn_mul(other, x)), 1, &x, &g), TN_OK); /* realised beside it, of something else */
  expect(g, (double[]){-5, -6}, 2);
  tn_tensor *next = tn_exp(tn_add(h, other)), *steps = tn_floor(h), *which = tn_argmax(tn_neg(h), 0, true);
  realise(next), realise(steps), realise(which);
  expect_error(tn_grad(sum(tn_mul(next, x)), 1, &x, &g), TN_EGRAD, lost); /* over two of them */
  /* through which none would flow */
  assert_int_equal(tn_grad(sum(tn_mul(tn_mul(steps, tn_cast(which, TN_F64)), x)), 1, &x, &g), TN_OK);
  expect(g, (double[]){0, 0}, 2);
  tn_tensor *state_of = vector((double[]){1, 1}, 2);
  assert_int_equal(tn_assign(state_of, tn_add(state_of, x)), TN_OK); /* what is assigned is a leaf */
  realise(state_of);
  assert_int_equal(tn_grad(sum(tn_mul(state_of, x)), 1, &x, &g), TN_OK);
  expect(g, (double[]){2, 3}, 2);
  assert_int_equal(tn_write(x, (double[]){3, 4}, 16), TN_OK); /* another x from now on */
  assert_int_equal(tn_grad(sum(tn_mul(h, x)), 1, &x, &g), TN_OK);
  expect(g, (double[]){1, 4}, 2);
}

/* What is kept of where values came from goes with them. */
static void test_long_chain(void **state) {
  (void)state;
  tn_stats early = {0}, late;
  tn_tensor *x = vector((double[]){.5, .25}, 2), *h = tn_keep(vector((double[]){1, 2}, 2)), *g;
  for (int i = 0; i < 6000; i++)
    tn_scope(ctx) {
      tn_tensor *next = tn_add(tn_mul(h, x), x);
      realise(next);
      tn_release(h);
      h = tn_keep(next);
      tn_ctx_stats(ctx, i <= 2000 ? &early : &late);
    }
  assert_int_equal(early.heap_bytes, late.heap_bytes);
  expect_error(tn_grad(sum(tn_mul(h, x)), 1, &x, &g), TN_EGRAD, "realised before");
  tn_release(h);
}

/* Bits of a float that come back as a float, or as a number made of them, are an error; detached they are constants, as
 * indices are. */
static void test_bits(void **state) {
  (void)state;
  tn_tensor *x = vector((double[]){1, 2}, 2), *g;
  tn_tensor *there = tn_bitcast(tn_mul(x, x), TN_I64), *back = tn_bitcast(there, TN_F64);
  expect_error(tn_grad(tn_sum(back, NULL, 0, false), 1, &x, &g), TN_EGRAD, "tn_grad: bitcast has no gradient");
  expect_error(tn_grad(tn_sum(tn_mul(x, tn_cast(there, TN_F64)), NULL, 0, false), 1, &x, &g), TN_EGRAD,
               "tn_grad: bitcast has no gradient");
  tn_tensor *fixed = tn_bitcast(tn_bitcast(tn_detach(x), TN_I64), TN_F64);
  assert_int_equal(tn_grad(tn_sum(tn_mul(x, fixed), NULL, 0, false), 1, &x, &g), TN_OK);
  expect(g, (double[]){1, 2}, 2);
  tn_tensor *at = tn_argmax(x, 0, true), *most = tn_take(tn_mul(x, x), at, 0),
            *whole = tn_cast(tn_cast(x, TN_I64), TN_F64);
  assert_int_equal(tn_grad(tn_sum(tn_mul(most, whole), NULL, 0, false), 1, &x, &g), TN_OK);
  expect(g, (double[]){0, 12}, 2); /* 2 x (1 + 2) where x is greatest */
}

/* More operands than fit the small list. */
static void test_many(void **state) {
  (void)state;
  tn_tensor *x[100], *g[100], *sum = NULL;
  for (int i = 0; i < 100; i++) {
    x[i] = vector((double[]){i, 1}, 2);
    tn_tensor *part = tn_mul(x[i], x[i]);
    sum = sum ? tn_add(sum, part) : part;
  }
  assert_int_equal(tn_grad(tn_sum(sum, NULL, 0, false), 100, x, g), TN_OK);
  for (int i = 0; i < 100; i++) expect(g[i], (double[]){2.0 * i, 2}, 2);
}

/* ---- what the front end composes, against central differences, twice ---- */

enum { ROWS = 2, COLS = 4, ALL = ROWS * COLS };

static tn_tensor *softmax(tn_tensor *x) { return tn_softmax(x, 1); }
static tn_tensor *log_softmax(tn_tensor *x) { return tn_log_softmax(x, 1); }
static tn_tensor *logsumexp(tn_tensor *x) { return tn_logsumexp(x, (int[]){1}, 1, true); }
static tn_tensor *variance(tn_tensor *x) { return tn_var(x, (int[]){1}, 1, 1, true); }
static tn_tensor *layer_norm(tn_tensor *x) { return tn_layer_norm(x, 1, NULL, NULL, 1e-5); }
static tn_tensor *gram(tn_tensor *x) { return tn_matmul(x, tn_permute(x, (int[]){1, 0}, 2)); }
static tn_tensor *(*const composed[])(tn_tensor *) = {
    tn_square, tn_relu,      tn_rsqrt, tn_recip, tn_sigmoid,  tn_silu,   tn_softplus, tn_gelu,
    tn_gelu_tanh, softmax, log_softmax, logsumexp, variance, layer_norm, gram,
};

static tn_tensor *total(tn_tensor *t) { return tn_sum(tn_mul(t, tn_sin(t)), NULL, 0, false); }

static double value(tn_tensor *scalar) {
  double v = NAN;
  if (tn_item(scalar, &v)) fail_msg("%s", tn_last_error(ctx)->text);
  return v;
}

/* order 1: L(x) = total(f(x)); order 2: L(x) = total(gradient of that) */
static double loss_at(size_t f, int order, const double *v, double *gradient) {
  double l = NAN;
  tn_scope(ctx) {
    tn_tensor *x = tn_from(ctx, TN_F64, (tn_dim[]){ROWS, COLS}, 2, v), *loss = total(composed[f](x)), *g = NULL;
    tn_status status = TN_OK;
    if (order == 2) {
      status = tn_grad(loss, 1, &x, &g);
      loss = tn_add(total(g), tn_sum(x, NULL, 0, false)); /* x: so that it has an influence */
    }
    if (gradient && !status) status = tn_grad(loss, 1, &x, &g);
    if (status) fail_msg("function %d: %s", (int)f, tn_last_error(ctx)->text);
    if (gradient) assert_int_equal(tn_read(g, gradient, ALL * sizeof *gradient), TN_OK);
    l = value(loss);
  }
  return l;
}

static void test_compositions(void **state) {
  (void)state;
  for (size_t f = 0; f < sizeof composed / sizeof *composed; f++) {
    for (int order = 1; order <= 2; order++) {
      double x[ALL], g[ALL], h = 6e-6;
      for (int i = 0; i < ALL; i++) x[i] = 0.3 + 0.17 * ((i * 5) % ALL);
      loss_at(f, order, x, g);
      for (int i = 0; i < ALL; i++) {
        double old = x[i], up, down;
        x[i] = old + h;
        up = loss_at(f, order, x, NULL);
        x[i] = old - h;
        down = loss_at(f, order, x, NULL);
        x[i] = old;
        double slope = (up - down) / (2 * h);
        if (!(fabs(g[i] - slope) <= (order == 1 ? 1e-6 : 1e-5) * fmax(1, fabs(slope))))
          fail_msg("function %d, order %d, element %d: %.12g, by differences %.12g", (int)f, order, i, g[i], slope);
      }
    }
  }
}

/* A program's own running product is made of the same nodes as tn_cumprod's; it may ask for gradients of those between
 * the product and the row, too.  Long rows hand their gradient down another way. */
enum { LONGEST = 70 };

static void test_inside_of_products(void **state) {
  static const tn_dim lengths[] = {64, 65, LONGEST};
  static double x[LONGEST], got[3][LONGEST * LONGEST];
  (void)state;
  for (int i = 0; i < LONGEST; i++) x[i] = 0.9 + 0.003 * i;
  for (size_t l = 0; l < sizeof lengths / sizeof *lengths; l++) {
    tn_dim n = lengths[l], square[] = {n, n}, line[] = {1, n}, column[] = {n, 1};
    tn_tensor *place = tn_arange(ctx, TN_I64, 0, (double)n, 1);
    tn_tensor *own = tn_cast(tn_expand(tn_reshape(place, column, 2), square, 2), TN_I32);
    tn_tensor *other = tn_cast(tn_expand(tn_reshape(place, line, 2), square, 2), TN_I32);
    tn_tensor *v = vector(x, n), *row = tn_expand(tn_reshape(v, line, 2), square, 2), *g[3];
    tn_tensor *chosen = tn_where(tn_le(other, own), row, tn_full(ctx, TN_F64, square, 2, 1));
    tn_tensor *loss = tn_sum(tn_prod(chosen, (int[]){1}, 1, false), NULL, 0, false);
    assert_int_equal(tn_grad(tn_add(loss, tn_sum(chosen, NULL, 0, false)), 1, &chosen, &g[0]), TN_OK);
    assert_int_equal(tn_grad(loss, 1, &row, &g[1]), TN_OK);
    assert_int_equal(tn_grad(loss, 1, &v, &g[2]), TN_OK);
    for (int k = 0; k < 3; k++)
      assert_int_equal(tn_read(g[k], got[k], (size_t)(k < 2 ? n * n : n) * sizeof **got), TN_OK);
    double product = 1, sum[LONGEST] = {0};
    for (tn_dim i = 0; i < n; i++) {
      product *= x[i];
      for (tn_dim j = 0; j < n; j++) {
        double part = j <= i ? product / x[j] : product, to_row = j <= i ? part : 0;
        assert_true(fabs(got[0][i * n + j] - part - 1) < 1e-9 && fabs(got[1][i * n + j] - to_row) < 1e-9);
        sum[j] += to_row;
      }
    }
    for (tn_dim j = 0; j < n; j++) assert_true(fabs(got[2][j] - sum[j]) < 1e-9);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_first_and_second, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_vjp_and_jvp, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_after_assignment, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_errors, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_cut, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_long_chain, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_bits, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_many, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_compositions, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_inside_of_products, open_ctx, close_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
