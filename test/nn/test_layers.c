/* Layers against loops that follow their definitions, and what they refuse. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

static tn_ctx *ctx;

static int open_ctx(void **state) {
  (void)state;
  ctx = tn_ctx_open(&(tn_options){.quiet = 1});
  return ctx == NULL;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(ctx);
  return 0;
}

static void check_error(const tn_tensor *t, tn_status status, const char *words) {
  assert_null(t);
  assert_int_equal(tn_last_error(ctx)->status, status);
  if (!strstr(tn_last_error(ctx)->text, words)) fail_msg("'%s' does not say '%s'", tn_last_error(ctx)->text, words);
  tn_clear_error(ctx);
}

/* Small numbers that are sums of few powers of two, so that products and sums are exact in any order. */
static double *numbers(int64_t n, unsigned salt) {
  double *x = malloc((size_t)(n + 1) * sizeof *x);
  for (int64_t i = 0; i < n; i++) x[i] = (double)((i * 7919 + salt * 104729u) % 33 - 16) / 8;
  return x;
}

static tn_tensor *tensor(const double *x, const tn_dim *shape, int rank) {
  return tn_from(ctx, TN_F64, shape, rank, x);
}

static void check_values(tn_tensor *t, const tn_dim *shape, int rank, const double *want) {
  int64_t n = 1;
  if (!t) fail_msg("%s", tn_last_error(ctx)->text);
  assert_int_equal(tn_rank(t), rank);
  for (int i = 0; i < rank; i++) {
    assert_int_equal(tn_size(t, i), shape[i]);
    n *= shape[i];
  }
  double *got = malloc((size_t)n * sizeof *got + 1);
  assert_int_equal(tn_read(t, got, (size_t)n * sizeof *got), TN_OK);
  for (int64_t i = 0; i < n; i++)
    if (!(fabs(got[i] - want[i]) <= 1e-12 * (1 + fabs(want[i]))) && got[i] != want[i])
      fail_msg("element %ld is %g, not %g", (long)i, got[i], want[i]);
  free(got);
}

/* ---- the oracles ---- */

typedef struct geometry {
  int64_t n, c, h, w, o, kh, kw, groups;
  tn_conv2d_options opt;
} geometry;

static int64_t or1(int64_t v) { return v ? v : 1; }
static int64_t places(int64_t n, int64_t k, int64_t stride, int64_t pad, int64_t dilation) {
  return (n + 2 * pad - dilation * (k - 1) - 1) / stride + 1;
}

static void conv_by_loops(const geometry *g, const double *x, const double *w, const double *b, double *out) {
  const int64_t *s = g->opt.stride, *p = g->opt.padding, *d = g->opt.dilation, groups = or1(g->opt.groups);
  int64_t oh = places(g->h, g->kh, or1(s[0]), p[0], or1(d[0])), ow = places(g->w, g->kw, or1(s[1]), p[1], or1(d[1]));
  int64_t ci = g->c / groups, co = g->o / groups;
  for (int64_t n = 0; n < g->n; n++)
    for (int64_t o = 0; o < g->o; o++)
      for (int64_t i = 0; i < oh; i++)
        for (int64_t j = 0; j < ow; j++) {
          double sum = b ? b[o] : 0;
          for (int64_t c = 0; c < ci; c++)
            for (int64_t u = 0; u < g->kh; u++)
              for (int64_t v = 0; v < g->kw; v++) {
                int64_t y = i * or1(s[0]) + u * or1(d[0]) - p[0], z = j * or1(s[1]) + v * or1(d[1]) - p[1];
                if (y < 0 || y >= g->h || z < 0 || z >= g->w) continue;
                sum +=
                    x[((n * g->c + o / co * ci + c) * g->h + y) * g->w + z] * w[((o * ci + c) * g->kh + u) * g->kw + v];
              }
          out[((n * g->o + o) * oh + i) * ow + j] = sum;
        }
}

static const geometry geometries[] = {
    {1, 1, 5, 5, 1, 3, 3, 1, {{0}, {0}, {0}, 0}},
    {2, 3, 7, 6, 4, 3, 2, 1, {{0}, {0}, {0}, 0}},
    {2, 3, 7, 6, 4, 3, 2, 1, {{2, 3}, {0}, {0}, 0}},
    {2, 3, 7, 6, 4, 3, 2, 1, {{1, 2}, {2, 1}, {0}, 0}},
    {1, 2, 9, 8, 3, 3, 2, 1, {{2, 1}, {1, 3}, {2, 3}, 1}},
    {2, 6, 5, 6, 4, 3, 3, 1, {{1, 1}, {1, 1}, {1, 1}, 2}},
    {3, 4, 6, 5, 8, 2, 3, 1, {{2, 1}, {0, 1}, {1, 2}, 4}},
    {2, 5, 3, 3, 7, 1, 1, 1, {{0}, {0}, {0}, 0}},
    {1, 3, 3, 4, 2, 3, 4, 1, {{0}, {0}, {0}, 0}},
    {1, 2, 6, 6, 2, 2, 2, 1, {{2, 2}, {0}, {0}, 0}},
    {1, 2, 7, 7, 2, 2, 2, 1, {{2, 2}, {0}, {0}, 0}},
};

static void conv2d_is_its_definition(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++) {
    const geometry *g = &geometries[i];
    const tn_conv2d_options *o = &g->opt;
    int64_t ci = g->c / or1(o->groups);
    int64_t oh = places(g->h, g->kh, or1(o->stride[0]), o->padding[0], or1(o->dilation[0]));
    int64_t ow = places(g->w, g->kw, or1(o->stride[1]), o->padding[1], or1(o->dilation[1]));
    const tn_dim sx[] = {g->n, g->c, g->h, g->w}, sw[] = {g->o, ci, g->kh, g->kw}, sb[] = {g->o},
                 so[] = {g->n, g->o, oh, ow};
    double *x = numbers(g->n * g->c * g->h * g->w, 1), *w = numbers(g->o * ci * g->kh * g->kw, 2),
           *b = numbers(g->o, 3);
    double *want = malloc((size_t)(g->n * g->o * oh * ow) * sizeof *want);
    tn_scope(ctx) {
      tn_tensor *tx = tensor(x, sx, 4), *tw = tensor(w, sw, 4), *tb = tensor(b, sb, 1);
      conv_by_loops(g, x, w, b, want);
      check_values(tn_conv2d(tx, tw, tb, o), so, 4, want);
      conv_by_loops(g, x, w, NULL, want);
      check_values(tn_conv2d(tx, tw, NULL, o), so, 4, want);
    }
    free(x), free(w), free(b), free(want);
  }
}

/* <dy, conv(x + dx)> - <dy, conv(x)> = <grad_x, dx>, exactly, as a convolution is linear in x; and the same for w. */
static void conv2d_gradients_are_adjoint(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++) {
    const geometry *g = &geometries[i];
    int64_t ci = g->c / or1(g->opt.groups);
    const tn_dim sx[] = {g->n, g->c, g->h, g->w}, sw[] = {g->o, ci, g->kh, g->kw};
    double *x = numbers(g->n * g->c * g->h * g->w, 1), *dx = numbers(g->n * g->c * g->h * g->w, 4);
    double *w = numbers(g->o * ci * g->kh * g->kw, 2), *dw = numbers(g->o * ci * g->kh * g->kw, 5);
    tn_scope(ctx) {
      tn_tensor *in[] = {tensor(x, sx, 4), tensor(w, sw, 4)}, *step[] = {tensor(dx, sx, 4), tensor(dw, sw, 4)},
                *grad[2];
      tn_tensor *y = tn_conv2d(in[0], in[1], NULL, &g->opt);
      tn_dim sy[4];
      tn_shape(y, sy);
      double *dy = numbers(tn_numel(y), 6);
      tn_tensor *up = tensor(dy, sy, 4);
      assert_int_equal(tn_vjp(y, up, 2, in, grad), TN_OK);
      for (int k = 0; k < 2; k++) {
        double got, want;
        tn_tensor *moved = k ? tn_conv2d(in[0], step[1], NULL, &g->opt) : tn_conv2d(step[0], in[1], NULL, &g->opt);
        assert_int_equal(tn_item(tn_sum(tn_mul(moved, up), NULL, 0, false), &want), TN_OK);
        assert_int_equal(tn_item(tn_sum(tn_mul(grad[k], step[k]), NULL, 0, false), &got), TN_OK);
        if (fabs(got - want) > 1e-10 * (1 + fabs(want)))
          fail_msg("geometry %zu, gradient %d: %g, not %g", i, k, got, want);
      }
      free(dy);
    }
    free(x), free(dx), free(w), free(dw);
  }
}

static void pooling_is_its_definition(void **state) {
  (void)state;
  static const struct { int64_t h, w, kh, kw; tn_pool2d_options opt; } cases[] = {
      {6, 4, 2, 2, {{0}, {0}, {0}}},      {7, 5, 2, 2, {{0}, {0}, {0}}},       {7, 5, 3, 2, {{1, 2}, {0}, {0}}},
      {6, 7, 3, 3, {{2, 2}, {1, 1}, {0}}}, {9, 9, 2, 3, {{2, 1}, {1, 0}, {3, 2}}}, {3, 3, 3, 3, {{0}, {0}, {0}}},
  };
  enum { N = 2, C = 3 };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    int64_t h = cases[i].h, w = cases[i].w, k[] = {cases[i].kh, cases[i].kw}, s[2], p[2], d[2], o[2];
    for (int a = 0; a < 2; a++) {
      s[a] = cases[i].opt.stride[a] ? cases[i].opt.stride[a] : k[a];
      p[a] = cases[i].opt.padding[a];
      d[a] = or1(cases[i].opt.dilation[a]);
      o[a] = places(a ? w : h, k[a], s[a], p[a], d[a]);
    }
    double *x = numbers(N * C * h * w, 9), *most = malloc(sizeof(double) * (size_t)(N * C * o[0] * o[1])),
           *mean = malloc(sizeof(double) * (size_t)(N * C * o[0] * o[1]));
    for (int64_t q = 0; q < N * C * o[0] * o[1]; q++) {
      int64_t plane = q / (o[0] * o[1]), y = q / o[1] % o[0], z = q % o[1];
      most[q] = -INFINITY, mean[q] = 0;
      for (int64_t u = 0; u < k[0]; u++)
        for (int64_t v = 0; v < k[1]; v++) {
          int64_t yy = y * s[0] + u * d[0] - p[0], zz = z * s[1] + v * d[1] - p[1];
          if (yy < 0 || yy >= h || zz < 0 || zz >= w) continue;
          double e = x[(plane * h + yy) * w + zz];
          most[q] = fmax(most[q], e);
          mean[q] += e / (double)(k[0] * k[1]);
        }
    }
    tn_scope(ctx) {
      const tn_dim sx[] = {N, C, h, w}, so[] = {N, C, o[0], o[1]};
      tn_tensor *t = tensor(x, sx, 4);
      check_values(tn_max_pool2d(t, k[0], k[1], &cases[i].opt), so, 4, most);
      check_values(tn_avg_pool2d(t, k[0], k[1], &cases[i].opt), so, 4, mean);
    }
    free(x), free(most), free(mean);
  }
}

static void linear_is_its_definition(void **state) {
  (void)state;
  double *x = numbers(2 * 3 * 5, 1), *w = numbers(4 * 5, 2), *b = numbers(4, 3), want[2 * 3 * 4];
  for (int i = 0; i < 6; i++)
    for (int o = 0; o < 4; o++) {
      want[i * 4 + o] = b[o];
      for (int k = 0; k < 5; k++) want[i * 4 + o] += x[i * 5 + k] * w[o * 5 + k];
    }
  tn_scope(ctx) {
    tn_tensor *tw = tensor(w, (tn_dim[]){4, 5}, 2), *tb = tensor(b, (tn_dim[]){4}, 1);
    check_values(tn_linear(tensor(x, (tn_dim[]){2, 3, 5}, 3), tw, tb), (tn_dim[]){2, 3, 4}, 3, want);
    check_values(tn_linear(tensor(x, (tn_dim[]){5}, 1), tw, tb), (tn_dim[]){4}, 1, want);
    int32_t whole[4]; /* 1 x 5 ones times 4 x 5 twos, and one */
    tn_tensor *ones = tn_ones(ctx, TN_I32, (tn_dim[]){5}, 1), *twos = tn_full(ctx, TN_I32, (tn_dim[]){4, 5}, 2, 2);
    tn_tensor *y = tn_linear(ones, twos, tn_ones(ctx, TN_I32, (tn_dim[]){4}, 1));
    assert_int_equal(tn_read(y, whole, sizeof whole), TN_OK);
    for (int i = 0; i < 4; i++) assert_int_equal(whole[i], 11);
  }
  free(x), free(w), free(b);
}

static void dropout_drops_and_scales(void **state) {
  (void)state;
  enum { N = 20000 };
  static float y[N];
  tn_scope(ctx) {
    tn_tensor *x = tn_ones(ctx, TN_F32, (tn_dim[]){N}, 1);
    assert_ptr_equal(tn_dropout(x, 0.5, false), x);
    assert_ptr_equal(tn_dropout(x, 0, true), x);
    assert_int_equal(tn_read(tn_dropout(x, 1, true), y, sizeof y), TN_OK);
    for (int i = 0; i < N; i++) assert_true(y[i] == 0);
    tn_tensor *d = tn_dropout(x, 0.25, true);
    assert_int_equal(tn_read(d, y, sizeof y), TN_OK);
    int zeros = 0;
    for (int i = 0; i < N; i++) {
      assert_true(y[i] == 0 || fabsf(y[i] - 1 / 0.75f) < 1e-6f);
      zeros += y[i] == 0;
    }
    assert_true(abs(zeros - N / 4) < 5 * 61); /* five deviations */
    tn_tensor *inf = tn_full(ctx, TN_F32, (tn_dim[]){N}, 1, INFINITY);
    for (int half = 0; half < 2; half++) { /* what is dropped is 0, whatever it was */
      assert_int_equal(tn_read(tn_dropout(inf, half ? 0.5 : 1, true), y, sizeof y), TN_OK);
      for (int i = 0; i < N; i++) assert_true(y[i] == 0 || (half && isinf(y[i])));
    }
    check_error(tn_dropout(tn_ones(ctx, TN_I32, (tn_dim[]){4}, 1), 0.5, true), TN_EDTYPE, "i32");
    check_error(tn_dropout(x, 1.5, true), TN_EINVAL, "1.5");
    check_error(tn_dropout(x, NAN, true), TN_EINVAL, "nan");
  }
}

static void initialisers_have_their_spread(void **state) {
  (void)state;
  const tn_dim shape[] = {64, 32, 3, 5};
  enum { N = 64 * 32 * 15 };
  static float y[N];
  static const struct {
    tn_tensor *(*make)(tn_ctx *, tn_dtype, const tn_dim *, int, double);
    double parameter, variance;
    bool uniform;
  } cases[] = {
      {tn_kaiming_uniform, 0, 2. / 480, true},
      {tn_kaiming_uniform, 2, 2. / 5 / 480, true},
      {tn_kaiming_normal, 0, 2. / 480, false},
      {tn_xavier_uniform, 1, 2. / (480 + 960), true},
      {tn_xavier_normal, 3, 9 * 2. / (480 + 960), false},
  };
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++)
    tn_scope(ctx) {
      double sum = 0, squares = 0, bound = sqrt(3 * cases[k].variance), most = 0;
      assert_int_equal(tn_read(cases[k].make(ctx, TN_F32, shape, 4, cases[k].parameter), y, sizeof y), TN_OK);
      for (int i = 0; i < N; i++) sum += y[i], squares += (double)y[i] * y[i], most = fmax(most, fabs((double)y[i]));
      assert_true(fabs(sum / N) < 5 * sqrt(cases[k].variance / N));
      assert_true(fabs(squares / N / cases[k].variance - 1) < 5 * sqrt(2. / N));
      if (cases[k].uniform) assert_true(most <= bound * 1.000001 && most > bound * .99);
      else assert_true(most > bound);
    }
  check_error(tn_kaiming_uniform(ctx, TN_F32, shape, 1, 0), TN_ESHAPE, "two plain sizes");
  tn_tensor *empty = tn_kaiming_uniform(ctx, TN_F32, (tn_dim[]){3, 0}, 2, 0);
  assert_non_null(empty);
}

static void shapes_are_checked(void **state) {
  (void)state;
  tn_scope(ctx) {
    tn_tensor *x = tn_zeros(ctx, TN_F32, (tn_dim[]){2, 4, 5, 5}, 4),
              *w = tn_zeros(ctx, TN_F32, (tn_dim[]){6, 4, 3, 3}, 4);
    tn_tensor *b = tn_zeros(ctx, TN_F32, (tn_dim[]){5}, 1), *half = tn_zeros(ctx, TN_F16, (tn_dim[]){6, 4, 3, 3}, 4);
    tn_tensor *i = tn_zeros(ctx, TN_I32, (tn_dim[]){2, 4, 5, 5}, 4), *row = tn_zeros(ctx, TN_F32, (tn_dim[]){3, 7}, 2);
    check_error(tn_conv2d(x, w, b, NULL), TN_ESHAPE, "bias f32[5]");
    check_error(tn_conv2d(row, w, NULL, NULL), TN_ESHAPE, "(N, C, H, W)");
    check_error(tn_conv2d(x, row, NULL, NULL), TN_ESHAPE, "weight f32[3,7]");
    check_error(tn_conv2d(x, half, NULL, NULL), TN_EDTYPE, "tn_cast");
    check_error(tn_conv2d(i, w, NULL, NULL), TN_EDTYPE, "floats");
    check_error(tn_conv2d(x, w, NULL, &(tn_conv2d_options){.groups = 2}), TN_ESHAPE, "must be 2");
    check_error(tn_conv2d(x, w, NULL, &(tn_conv2d_options){.groups = 4}), TN_EINVAL, "4 groups");
    check_error(tn_conv2d(x, w, NULL, &(tn_conv2d_options){.groups = -1}), TN_EINVAL, "groups");
    check_error(tn_conv2d(x, w, NULL, &(tn_conv2d_options){.dilation = {3, 1}}), TN_ESHAPE, "spans 7");
    check_error(tn_conv2d(x, w, NULL, &(tn_conv2d_options){.padding = {-1, 0}}), TN_EINVAL, "padding");
    check_error(tn_conv2d(x, NULL, NULL, NULL), TN_EINVAL, "NULL");
    check_error(tn_max_pool2d(x, 6, 1, NULL), TN_ESHAPE, "spans 6");
    check_error(tn_max_pool2d(x, 0, 1, NULL), TN_EINVAL, "at least 1");
    check_error(tn_avg_pool2d(row, 2, 2, NULL), TN_ESHAPE, "(N, C, H, W)");
    check_error(tn_linear(row, tn_zeros(ctx, TN_F32, (tn_dim[]){4, 6}, 2), NULL), TN_ESHAPE, "f32[4,6]");
    check_error(tn_linear(row, b, NULL), TN_ESHAPE, "(out, in)");
    check_error(tn_linear(row, tn_zeros(ctx, TN_I32, (tn_dim[]){4, 7}, 2), NULL), TN_EDTYPE, "differ in dtype");
    check_error(tn_linear(tn_cast(row, TN_BOOL), tn_zeros(ctx, TN_BOOL, (tn_dim[]){4, 7}, 2), NULL), TN_EDTYPE, "bool");
    /* a bias that could not be made is not the same as none */
    tn_tensor *w7 = tn_zeros(ctx, TN_F32, (tn_dim[]){4, 7}, 2);
    tn_tensor *failed = tn_add(row, b);
    assert_null(failed);
    assert_null(tn_linear(row, w7, failed));
    tn_clear_error(ctx);
    assert_non_null(tn_linear(row, w7, NULL));
  }
}

static void params_keep_order_and_names(void **state) {
  (void)state;
  tn_params *p = tn_params_open(ctx);
  tn_scope(ctx) {
    tn_tensor *a = tn_scalar(ctx, TN_F32, 1), *b = tn_scalar(ctx, TN_F32, 2);
    assert_ptr_equal(tn_params_add(p, "z", a), a);
    assert_ptr_equal(tn_params_add(p, "a", b), b);
    check_error(tn_params_add(p, "z", b), TN_EINVAL, "'z' already");
    check_error(tn_params_add(p, "", b), TN_EINVAL, "name");
    check_error(tn_params_add(p, "c", NULL), TN_EINVAL, "NULL");
  }
  double v;
  assert_int_equal(tn_params_count(p), 2);
  assert_string_equal(tn_params_names(p)[0], "z");
  assert_int_equal(tn_item(tn_params_get(p, "a"), &v), TN_OK); /* outlived its scope */
  assert_true(v == 2);
  assert_null(tn_params_get(p, "b"));
  tn_params_close(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(conv2d_is_its_definition),  cmocka_unit_test(conv2d_gradients_are_adjoint),
      cmocka_unit_test(pooling_is_its_definition), cmocka_unit_test(linear_is_its_definition),
      cmocka_unit_test(dropout_drops_and_scales),  cmocka_unit_test(initialisers_have_their_spread),
      cmocka_unit_test(shapes_are_checked),        cmocka_unit_test(params_keep_order_and_names),
  };
  return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
