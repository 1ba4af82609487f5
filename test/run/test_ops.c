/* Every scalar op on every dtype it is defined for, every cast, the reductions and the movements: on each device, against the node-by-node
 * oracle; and the functions of tensor.h against the C library in double. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/eval.h"
#include "support/device.h"
#include "support/graph.h"
#include "support/naive.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- all ops, by the oracle -------------------------------------------------------------------------------------------------- */

typedef struct walk {
  tn_ctx *c;
  int dtype;
  int shape;
  graph g;
  tn_node *out[256];
  uint32_t n;
} walk;

static const int64_t shapes[][2] = {{5, 7}, {1, 1}, {0, 3}, {3, 33}, {2, 64}};

/* An operand of the shape: 0 as it is, 1 broadcast along the first axis, 2 transposed and flipped. */
static tn_node *operand(walk *w, int dtype, int way) {
  tn_ctx *c = w->c;
  tn_node *dim[2] = {tn__int(c, shapes[w->shape][0]), tn__int(c, shapes[w->shape][1])};
  tn_node *have[2] = {way == 1 ? tn__int(c, 1) : dim[way == 2], dim[way != 2]};
  graph_dice d = {.state = (uint64_t)(dtype * 16 + way + 1) << 20};
  tn_node *x = graph_leaf(c, &w->g, &d, dtype, have, 2, false);
  if (way == 1) return tn__expand(c, x, dim);
  if (way == 2) return tn__flip(c, tn__permute(c, x, (int64_t[]){1, 0}), (int64_t[]){0, 1}, 2);
  return x;
}

static void try_op(tn_ctx *c, void *arg) {
  walk *w = ((walk **)arg)[0];
  int op = *((int **)arg)[1];
  tn_node **x = ((tn_node ***)arg)[2], *y = NULL;
  if (tn__ops[op].group == G_UNARY) y = tn__op1(c, (tn__op)op, x[0]);
  if (tn__ops[op].group == G_BINARY) y = tn__op2(c, (tn__op)op, x[1], x[2]);
  if (op == OP_WHERE) y = tn__where(c, x[3], x[1], x[2]);
  if (op == OP_FMA) y = tn__op3(c, OP_FMA, x[0], x[1], x[2]);
  if (y) w->out[w->n++] = y;
}

static void build_scalar(tn_ctx *c, void *arg) {
  walk *w = arg;
  tn_node *x[4] = {operand(w, w->dtype, 0), operand(w, w->dtype, 1), operand(w, w->dtype, 2), operand(w, TN_BOOL, 1)};
  for (int op = 0; op < OP_COUNT; op++) {
    if (!tn__is_elementwise(&(tn_node){.op = (uint8_t)op}) || tn__ops[op].group == G_CAST || !tn__eval_defined(op, w->dtype)) continue;
    void *job[] = {w, &op, x};
    tn__ctx_run(c, "op", try_op, job); /* what the IR refuses for this dtype is left out */
    tn_clear_error(c);
  }
  for (int to = 0; to < TN_DTYPE_COUNT; to++) {
    if (to != w->dtype) w->out[w->n++] = tn__cast(c, x[2], to);
    bool bits = to != w->dtype && to != TN_BOOL && w->dtype != TN_BOOL && tn__size_of(to) == tn__size_of(w->dtype);
    if (bits) w->out[w->n++] = tn__bitcast(c, x[0], to);
  }
  w->g.sink = tn__node_keep(tn__sink(c, w->out, w->n, "outputs"));
}

/* Reductions of integers, and of floats in mode strict, are exact to the bit; movements always. */
static void build_whole(tn_ctx *c, void *arg) {
  walk *w = arg;
  tn_node *x = operand(w, w->dtype, 0), *y = operand(w, w->dtype, 2), *p = operand(w, w->dtype, 1);
  int64_t one = 1, zero = 0, both[2] = {0, 1};
  bool empty = shapes[w->shape][0] == 0;
  for (int op = OP_SUM; op <= OP_RMIN; op++) {
    if (w->dtype == TN_BOOL && (op == OP_SUM || op == OP_PROD)) continue;
    w->out[w->n++] = tn__reduce(c, (tn__op)op, y, &one, 1);
    if (empty && op >= OP_RMAX) continue;
    w->out[w->n++] = tn__reduce(c, (tn__op)op, x, &zero, 1);
    w->out[w->n++] = tn__reduce(c, (tn__op)op, p, both, 2);
  }
  tn_node *rows = x->dim[0], *cols = x->dim[1], *none = tn__int(c, 0);
  w->out[w->n++] = tn__pad(c, y, (tn_node *[]){none, tn__int(c, 2), tn__int(c, 1), none});
  w->out[w->n++] = tn__shrink(c, y, (tn_node *[]){none, none}, (tn_node *[]){rows, tn__int(c, (cols->ints[0] + 1) / 2)}, (int64_t[]){1, 2});
  w->out[w->n++] = tn__window(c, y, 1, 1 + (cols->ints[0] > 2), 1, 2);
  w->out[w->n++] = tn__reshape(c, y, (tn_node *[]){cols, rows}, 2);
  tn_node *idx = operand(w, TN_I32, 0);
  w->out[w->n++] = tn__gather(c, y, idx);
  if (w->dtype != TN_BOOL) {
    tn_node *shape[3] = {rows, cols, cols}, *u = tn__expand(c, tn__reshape(c, p, (tn_node *[]){rows, tn__int(c, 1), cols}, 3), shape);
    w->out[w->n++] = tn__scatter(c, x, idx, u);
    if (!empty) w->out[w->n++] = tn__fold(c, x, tn__int(c, (rows->ints[0] - 1) * 2 + cols->ints[0] + 1), 0, cols->ints[0], 2, 1);
    w->out[w->n++] = tn__contract(c, x, y, 0, 1, 1, 1);
    w->out[w->n++] = tn__contract(c, x, y, 1, 0, 0, 1);
  }
  w->g.sink = tn__node_keep(tn__sink(c, w->out, w->n, "outputs"));
}

static void each(const char *device, void (*build)(tn_ctx *, void *), tn_mode mode, int first, int last) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or(device), .mode = mode, .quiet = 1});
  assert_non_null(c);
  int bad = 0;
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++)
    for (int shape = first; shape <= last; shape++) {
      walk w = {.c = c, .dtype = dtype, .shape = shape};
      char why[512];
      if (build == build_whole && shapes[shape][0] == 0 && tn__is_float(dtype)) continue;
      if (!tn__ctx_run(c, "build", build, &w)) fail_msg("%s", tn_last_error(c)->text);
      if (!graph_agrees(c, &w.g, why, sizeof why)) fprintf(stderr, "%s, %s, shape %d: %s\n", device, tn_dtype_name((tn_dtype)dtype), shape, why), bad++;
      graph_free(c, &w.g);
    }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

static void scalar_ref(void **s) {
  (void)s;
  each("ref", build_scalar, TN_MODE_STRICT, 0, 4);
}
static void scalar_cpu(void **s) {
  (void)s;
  each("cpu", build_scalar, TN_MODE_DEFAULT, 3, 3);
}
static void whole_ref(void **s) {
  (void)s;
  each("ref", build_whole, TN_MODE_STRICT, 0, 4);
}
static void whole_cpu(void **s) {
  (void)s;
  each("cpu", build_whole, TN_MODE_STRICT, 0, 0);
  each("cpu", build_whole, TN_MODE_STRICT, 2, 2);
}

/* ---- functions of one argument, by the C library ----------------------------------------------------------------------------- */

static double rsqrt(double x) { return 1 / sqrt(x); }
static double recip(double x) { return 1 / x; }
static double square(double x) { return x * x; }
static double sigmoid(double x) { return 1 / (1 + exp(-x)); }
static double silu(double x) { return x / (1 + exp(-x)); }
static double softplus(double x) { return fmax(x, 0) + log1p(exp(-fabs(x))); }
static double gelu(double x) { return 0.5 * x * erfc(-x * M_SQRT1_2); }
static double relu(double x) { return x <= 0 ? 0 : x; }
static double sign(double x) { return (x > 0) - (x < 0); }
static double negate(double x) { return -x; }

typedef struct unary {
  const char *name;
  tn_tensor *(*fn)(tn_tensor *);
  double (*want)(double);
  double lo, hi, ulps; /* compositions: relative to the larger of result and argument, as their formulas round */
} unary;

static const unary table[] = {
    {"abs", tn_abs, fabs, -1e30, 1e30, 0},      {"sign", tn_sign, sign, -9, 9, 0},           {"neg", tn_neg, negate, -1e30, 1e30, 0},
    {"square", tn_square, square, -1e10, 1e10, 0.5}, {"relu", tn_relu, relu, -9, 9, 0},       {"floor", tn_floor, floor, -1e5, 1e5, 0},
    {"ceil", tn_ceil, ceil, -1e5, 1e5, 0},      {"round", tn_round, rint, -1e5, 1e5, 0},     {"trunc", tn_trunc, trunc, -1e5, 1e5, 0},
    {"sqrt", tn_sqrt, sqrt, 0, 1e30, 0.5},      {"rsqrt", tn_rsqrt, rsqrt, 1e-20, 1e30, 1.5}, {"recip", tn_recip, recip, -100, 100, 0.5},
    {"exp", tn_exp, exp, -87, 88, 2},           {"exp2", tn_exp2, exp2, -120, 120, 2},       {"expm1", tn_expm1, expm1, -20, 80, 2},
    {"log", tn_log, log, 1e-30, 1e30, 2},       {"log2", tn_log2, log2, 1e-30, 1e30, 2},     {"log1p", tn_log1p, log1p, -0.99, 1e10, 2},
    {"sin", tn_sin, sin, -100, 100, 2},         {"cos", tn_cos, cos, -100, 100, 2},          {"tan", tn_tan, tan, -100, 100, 4},
    {"tanh", tn_tanh, tanh, -20, 20, 3},        {"erf", tn_erf, erf, -6, 6, 3},              {"sigmoid", tn_sigmoid, sigmoid, -40, 40, 5},
    {"silu", tn_silu, silu, -40, 40, 6},        {"softplus", tn_softplus, softplus, -40, 40, 6}, {"gelu", tn_gelu, gelu, -1, 10, 20},
};
enum { UNARIES = sizeof table / sizeof *table, POINTS = 1001 };

/* Steps of the dtype between the result and the true value of the rounded argument. */
static double ulps(int dtype, double got, double want) {
  if (isnan(want) || isnan(got)) return isnan(want) && isnan(got) ? 0 : INFINITY;
  if (got == want) return 0;
  int e;
  frexp(want, &e);
  int least = dtype == TN_F16 ? -14 : dtype == TN_F64 ? -1022 : -126;
  if (e - 1 < least) e = least + 1;
  return fabs(got - want) / ldexp(1, e - tn__dtypes[dtype].mant);
}

static void check_unary(tn_ctx *c, int dtype, double extra) {
  tn_tensor *in[UNARIES], *out[UNARIES];
  char *data[UNARIES];
  size_t size = tn__size_of(dtype);
  int bad = 0;
  for (int f = 0; f < UNARIES; f++) {
    data[f] = malloc(POINTS * size);
    for (int i = 0; i < POINTS; i++) {
      double t = i / (double)(POINTS - 1), lo = table[f].lo, hi = table[f].hi, top = dtype == TN_F16 ? 11 : 88;
      if (dtype == TN_F16 && hi > top && hi > 1000) hi = 30000, lo = lo > 0 ? 1e-3 : lo < -1000 ? -30000 : lo;
      double x = lo > 0 && hi / lo > 1e6 ? exp(log(lo) + t * (log(hi) - log(lo))) : lo + t * (hi - lo);
      tn__eval_store(dtype, data[f] + (size_t)i * size, tn__eval_from_double(dtype, x));
    }
    in[f] = tn_from(c, (tn_dtype)dtype, (tn_dim[]){POINTS}, 1, data[f]);
    out[f] = table[f].fn(in[f]);
    if (!out[f]) fail_msg("%s: %s", table[f].name, tn_last_error(c)->text);
  }
  assert_int_equal(tn_realize(out, UNARIES), TN_OK);
  for (int f = 0; f < UNARIES; f++) {
    char got[POINTS * 8];
    double worst = 0, at = 0;
    assert_int_equal(tn_read(out[f], got, POINTS * size), TN_OK);
    for (int i = 0; i < POINTS; i++) {
      double x = tn__eval_to_double(dtype, tn__eval_load(dtype, data[f] + (size_t)i * size)), want = table[f].want(x);
      double g = tn__eval_to_double(dtype, tn__eval_load(dtype, got + (size_t)i * size));
      double rounded = tn__eval_to_double(dtype, tn__eval_from_double(dtype, want));
      if (isinf(rounded) && g == rounded) continue;
      double u = ulps(dtype, g, want);
      if (u > worst) worst = u, at = x;
    }
    if (worst > table[f].ulps + 1e-9 + extra) fprintf(stderr, "%s of %s: %.3g ulps at %.17g, at most %.3g\n", table[f].name, tn_dtype_name((tn_dtype)dtype), worst, at, table[f].ulps + extra), bad++;
    free(data[f]);
  }
  assert_int_equal(bad, 0);
}

static void library(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .mode = TN_MODE_DEFAULT, .quiet = 1});
  tn_scope(c) check_unary(c, TN_F32, 0);
  tn_scope(c) check_unary(c, TN_F64, 0.5);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(scalar_ref), cmocka_unit_test(scalar_cpu), cmocka_unit_test(whole_ref), cmocka_unit_test(whole_cpu),
                                     cmocka_unit_test(library)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
