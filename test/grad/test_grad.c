/* Gradients against central differences in f64, second derivatives against differences of the first, forward mode
 * against reverse, and the exact values at kinks, ties and zeros.  Graphs are evaluated by the naive oracle, and by the
 * device that $TENET_DEVICE names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "grad/adjoint.h"
#include "grad/grad_pass.h"
#include "ir/eval.h"
#include "ir/shape.h"
#include "support/ctx.h"
#include "support/elsewhere.h"
#include "support/slopes.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- a world of f64 inputs ---- */

enum { MAX_LEAVES = 16 };
static tn_ctx ctx;
static naive_bind binds[MAX_LEAVES];
static double *data[MAX_LEAVES];
static int64_t count[MAX_LEAVES];
static uint32_t nleaves;
static uint64_t seed;
static uint8_t covered[OP_COUNT]; /* ops that a check by differences went through */

static int open_ctx(void **state) {
  (void)state;
  nleaves = 0;
  seed = 12345;
  return test_ctx_open(&ctx) ? 0 : -1;
}

static int close_ctx(void **state) {
  (void)state;
  for (uint32_t i = 0; i < nleaves; i++) free(data[i]);
  tn__rules_close(&ctx);
  return test_ctx_close(&ctx) == 0 ? 0 : -1;
}

static double uniform(double lo, double hi) {
  seed = tn__hash_mix(seed, 99);
  return lo + (hi - lo) * (double)(seed >> 11) / 9007199254740992.0;
}

static uint32_t below(uint32_t n) { return (uint32_t)uniform(0, n); }

static tn_node *leaf(uint32_t rank, tn_node *const *dims, int64_t n) {
  assert_true(nleaves < MAX_LEAVES);
  tn_node *x = tn__storage(&ctx, TN_F64, nleaves + 1, 0, dims, rank);
  data[nleaves] = calloc((size_t)n + 1, sizeof(double));
  count[nleaves] = n;
  binds[nleaves] = (naive_bind){x, data[nleaves]};
  nleaves++;
  return x;
}

typedef struct shape {
  uint32_t rank;
  int64_t d[4];
} shape;

static uint32_t to_dims(const shape *s, tn_node **dims) {
  for (uint32_t i = 0; i < s->rank; i++) dims[i] = tn__int(&ctx, s->d[i]);
  return s->rank;
}

static tn_node *input(shape s, double lo, double hi) {
  tn_node *dims[4] = {0};
  int64_t n = 1;
  for (uint32_t i = 0; i < s.rank; i++) n *= s.d[i];
  tn_node *x = leaf(to_dims(&s, dims), dims, n);
  for (int64_t i = 0; i < n; i++) data[nleaves - 1][i] = uniform(lo, hi);
  return x;
}

static tn_node *given(shape s, const double *v) {
  tn_node *x = input(s, 0, 1);
  if (count[nleaves - 1]) memcpy(data[nleaves - 1], v, (size_t)count[nleaves - 1] * sizeof *v);
  return x;
}

static tn_node *to(tn_node *x, shape s) {
  tn_node *dims[4];
  to_dims(&s, dims);
  return tn__expand(&ctx, x, dims);
}

static tn_node *dot(tn_node *a, tn_node *b) {
  int64_t axes[TN_MAX_RANK];
  for (uint32_t i = 0; i < a->rank; i++) axes[i] = i;
  return tn__reduce(&ctx, OP_SUM, tn__mul(&ctx, a, b), axes, a->rank);
}

static double scalar_of(tn_node *n) {
  naive_tensor t;
  naive_eval(&n, 1, binds, nleaves, &t);
  assert_int_equal(t.n, 1);
  double v = naive_get(&t, 0);
  naive_free(&t);
  return v;
}

/* ---- calls that may fail ---- */

typedef struct job {
  tn_node *y, *dy, **x, **g;
  uint32_t n;
} job;

static void vjp_job(tn_ctx *c, void *arg) {
  job *j = arg;
  tn__vjp(c, j->y, j->dy, j->x, j->n, j->g);
}

static tn_status try_vjp(tn_node *y, tn_node *dy, tn_node **x, uint32_t n, tn_node **g) {
  job j = {y, dy, x, g, n};
  tn_clear_error(&ctx);
  ctx.depth++; /* keeps the nodes */
  tn__ctx_run(&ctx, "", vjp_job, &j);
  ctx.depth--;
  return tn_last_error(&ctx)->status;
}

static void vjp(tn_node *y, tn_node *dy, tn_node **x, uint32_t n, tn_node **g) {
  if (try_vjp(y, dy, x, n, g)) fail_msg("%s", tn_last_error(&ctx)->text);
}

static void expect_failure(tn_node *y, tn_node *x, const char *part) {
  tn_node *g, *dy = tn__scalar_to(&ctx, tn__const_num(&ctx, y->dtype, 1), y->dim, y->rank);
  assert_int_equal(try_vjp(y, dy, &x, 1, &g), TN_EGRAD);
  if (!strstr(tn_last_error(&ctx)->text, part)) fail_msg("wanted '%s' in '%s'", part, tn_last_error(&ctx)->text);
  tn_clear_error(&ctx);
}

/* ---- the check of DESIGN 12(e) ---- */

/* |<g, v> - (L(x + hv) - L(x - hv))/2h| along v, which moves leaf k. */
static void check_along(const char *what, tn_node *loss, uint32_t k, const naive_tensor *g, const double *v,
                        double bound) {
  double inner = 0, norm_g = 0, norm_v = 0, largest = 1, *x = data[k], *old;
  int64_t n = count[k];
  old = malloc((size_t)n * sizeof *old + 1);
  memcpy(old, x, (size_t)n * sizeof *old);
  for (int64_t i = 0; i < n; i++) {
    inner += naive_get(g, i) * v[i];
    norm_g += naive_get(g, i) * naive_get(g, i);
    norm_v += v[i] * v[i];
    largest = fmax(largest, fabs(x[i]));
  }
  double h = cbrt(DBL_EPSILON) * largest, at = scalar_of(loss);
  for (int64_t i = 0; i < n; i++) x[i] = old[i] + h * v[i];
  double up = scalar_of(loss);
  for (int64_t i = 0; i < n; i++) x[i] = old[i] - h * v[i];
  double down = scalar_of(loss);
  memcpy(x, old, (size_t)n * sizeof *old);
  free(old);
  double slope = (up - down) / (2 * h), scale = fmax(1, fmax(fabs(at), sqrt(norm_g * norm_v)));
  if (!(fabs(inner - slope) <= bound * scale))
    fail_msg("%s: leaf %u: gradient %.12g, difference %.12g", what, k, inner, slope);
}

static void check_leaf(const char *what, tn_node *loss, uint32_t k, tn_node *grad, double bound) {
  naive_tensor g;
  int64_t n = count[k];
  elsewhere_eval(&ctx, grad, binds, nleaves, &g);
  assert_int_equal(g.n, n);
  double *v = calloc((size_t)n + 1, sizeof *v);
  for (int64_t i = 0; i < n && n <= 40; i++) {
    v[i] = 1;
    check_along(what, loss, k, &g, v, bound);
    v[i] = 0;
  }
  for (int64_t i = 0; i < n; i++) v[i] = uniform(-1, 1) / sqrt((double)n);
  if (n) check_along(what, loss, k, &g, v, bound);
  free(v);
  naive_free(&g);
}

static void cover(tn_node *y) {
  tn__nodes order = {0};
  tn__topo(&ctx.scratch, &y, 1, &order);
  for (uint32_t i = 0; i < order.n; i++) covered[order.v[i]->op] = 1;
}

static shape shape_of(const tn_node *x) {
  shape s = {.rank = x->rank};
  for (uint32_t i = 0; i < x->rank; i++) s.d[i] = x->dim[i]->ints[0];
  return s;
}

/* First and second derivatives of y by all leaves made so far, and forward mode. */
static void check_gradient(const char *what, tn_node *y) {
  uint32_t n = nleaves;
  tn_node *x[MAX_LEAVES], *g[MAX_LEAVES], *v[MAX_LEAVES], *h[MAX_LEAVES];
  cover(y);
  for (uint32_t i = 0; i < n; i++) x[i] = (tn_node *)(uintptr_t)binds[i].leaf;
  tn_node *weight = input(shape_of(y), -1, 1), *loss = dot(y, weight);
  vjp(y, weight, x, n, g);
  tn_node *along = NULL;
  for (uint32_t i = 0; i < n; i++) {
    assert_true(g[i]->dtype == x[i]->dtype && g[i]->rank == x[i]->rank &&
                tn__dims_equal(&ctx, g[i]->dim, x[i]->dim, x[i]->rank));
    check_leaf(what, loss, i, g[i], 1e-6);
    v[i] = input(shape_of(x[i]), -1, 1);
    /* x*v: so that each x has an influence */
    tn_node *part = dot(tn__add(&ctx, g[i], tn__mul(&ctx, x[i], v[i])), v[i]);
    along = along ? tn__add(&ctx, along, part) : part;
  }
  double forward = scalar_of(dot(tn__jvp(&ctx, y, x, v, n), weight)), backward = 0;
  for (uint32_t i = 0; i < n; i++) backward += scalar_of(dot(g[i], v[i]));
  if (!(fabs(forward - backward) <= 1e-9 * fmax(1, fabs(backward))))
    fail_msg("%s: forward %.12g, backward %.12g", what, forward, backward);
  vjp(along, tn__const_num(&ctx, TN_F64, 1), x, n, h);
  for (uint32_t i = 0; i < n; i++) check_leaf(what, along, i, h[i], 1e-5);
  for (uint32_t i = 0; i < nleaves; i++) free(data[i]);
  nleaves = 0;
}

static void expect_values(const char *what, tn_node *g, const double *want, int64_t n) {
  naive_tensor t;
  elsewhere_eval(&ctx, g, binds, nleaves, &t);
  assert_int_equal(t.n, n);
  for (int64_t i = 0; i < n; i++) {
    double v = naive_get(&t, i);
    if (v != want[i] && !(isnan(v) && isnan(want[i])))
      fail_msg("%s: element %d is %.17g, not %.17g", what, (int)i, v, want[i]);
  }
  naive_free(&t);
}

/* ---- scalar functions ---- */

/* One op, of one source or two that broadcast to the shape, where its rows say that it is smooth. */
static void check_function(tn__op op, shape out) {
  uint32_t n = tn__ops[op].max_src;
  double lo[2], hi[2];
  tn_node *x[2];
  if (!slope_box(&ctx, (int)op, &seed, lo, hi)) fail_msg("no place was found where %s is smooth", tn__ops[op].text);
  shape s[2] = {out, out};
  for (uint32_t a = 0; a < out.rank; a++) { /* each side broadcasts along some axes */
    if (below(2)) s[0].d[a] = 1;
    else if (below(2)) s[1].d[a] = 1;
  }
  for (uint32_t k = 0; k < n; k++) x[k] = to(input(s[k], lo[k], hi[k]), out);
  check_gradient(tn__ops[op].text, n == 1 ? tn__op1(&ctx, op, x[0]) : tn__op2(&ctx, op, x[0], x[1]));
}

static void test_functions(void **state) {
  (void)state;
  static const shape out[] = {{0, {0}}, {1, {1}}, {1, {7}}, {2, {3, 5}}, {2, {0, 3}}, {3, {2, 1, 3}}};
  int tried = 0;
  for (int op = 0; op < OP_COUNT; op++) {
    bool scalar = tn__ops[op].group == G_UNARY || tn__ops[op].group == G_BINARY;
    if (!scalar || !tn__op_takes(op, TN_F64) || tn__ops[op].dtype_rule == DT_BOOL) continue;
    for (size_t k = 0; k < sizeof out / sizeof *out; k++) check_function((tn__op)op, out[k]);
    for (int k = 0; k < 8; k++) check_function((tn__op)op, out[1]); /* on many sides of kinks and poles */
    tried++;
  }
  assert_true(tried >= 40);
}

static void test_where_fma_cast(void **state) {
  (void)state;
  shape s = {2, {3, 4}};
  tn_node *x = input(s, -1, 1), *y = input(s, -1, 1), *z = input(s, -1, 1);
  tn_node *mask = tn__op2(&ctx, OP_LT, tn__op1(&ctx, OP_ABS, x), tn__op1(&ctx, OP_ABS, y));
  check_gradient("where", tn__where(&ctx, mask, tn__mul(&ctx, x, x), tn__mul(&ctx, z, y)));
  x = input(s, -1, 1), y = input(s, -1, 1), z = input(s, -1, 1);
  check_gradient("fma", tn__op3(&ctx, OP_FMA, x, y, tn__mul(&ctx, z, z)));
  x = input(s, -1, 1);
  tn_node *g, *half = tn__cast(&ctx, x, TN_F16),
              *dy = tn__cast(&ctx, tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F32, 0.5), x->dim, 2), TN_F16);
  vjp(half, dy, &x, 1, &g);
  assert_int_equal(g->dtype, TN_F64);
  expect_values("cast", dot(g, g), (double[]){3}, 1);
}

/* Every scalar op has a verdict for every source. */
static void verdict_job(tn_ctx *c, void *arg) {
  job *j = arg;
  j->g[0] = tn__rules_gradient(c, j->y, j->n, j->dy);
}

static void test_every_scalar_op_has_a_row(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *x = tn__cast(c, input((shape){1, {3}}, 1, 2), TN_F32), *b = tn__op2(c, OP_LT, x, x),
          *i = tn__cast(c, x, TN_I32);
  tn_node *w = tn__cast(c, x, TN_U64), *of[] = {x, i, b, w}, *g;
  for (int op = 0; op < OP_COUNT; op++) {
    if (tn__ops[op].group < G_UNARY || tn__ops[op].group > G_CAST) continue;
    for (uint32_t k = 0; k < tn__ops[op].max_src; k++) {
      bool integer = !tn__op_takes(op, TN_F32);
      tn_node *s = op == OP_PHILOX ? of[3] : integer ? of[1] : of[0], *src[] = {op == OP_WHERE ? b : s, s, s};
      tn__make m = {.op = (tn__op)op,
                    .src = src,
                    .nsrc = tn__ops[op].max_src,
                    .dtype = op == OP_PHILOX || op == OP_BITCAST ? TN_U32 : TN_F64};
      job j = {.y = tn__node_make(c, &m), .dy = x, .g = &g, .n = k};
      tn_clear_error(c);
      ctx.depth++;
      bool good = tn__ctx_run(c, "", verdict_job, &j);
      ctx.depth--;
      if (!good && !strstr(tn_last_error(c)->text, "has no gradient: ")) fail_msg("%s", tn_last_error(c)->text);
      if (good && g) assert_true(g->rank == 1 && g->dtype == TN_F32);
    }
  }
  tn_clear_error(c);
}

/* ---- kinks, zeros and poles by exact values ---- */

static void test_exact_values(void **state) {
  (void)state;
  const double inf = INFINITY, nan_ = NAN;
  static const double e1 = 2.718281828459045;
  const struct {
    tn__op op;
    double x, y, dx, dy;
  } rows[] = {
      {OP_ABS, 0, 0, 0, 0},         {OP_ABS, -3, 0, -1, 0},    {OP_SIGN, 0, 0, 0, 0},
      {OP_SQRT, 0, 0, inf, 0},      {OP_MAX, 2, 2, 0.5, 0.5},  {OP_MIN, 2, 2, 0.5, 0.5},
      {OP_MAX, 3, 2, 1, 0},         {OP_MIN, 3, 2, 0, 1},      {OP_MAX, -0.0, 0, 0.5, 0.5},
      {OP_POW, -2, 3, 12, nan_},    {OP_POW, -2, 2, -4, nan_}, {OP_POW, 0, 0, 0, 0},
      {OP_POW, 0, 1, 1, 0},         {OP_POW, 0, 2, 0, 0},      {OP_POW, 5, 0, 0, 1.6094379124341003},
      {OP_POW, -2, 0, 0, nan_},     {OP_POW, e1, 1, 1, e1},    {OP_POW, 0, 0.5, inf, 0},
      {OP_DIV, 1, -2, -0.5, -0.25}, {OP_LOG, 0, 0, inf, 0},    {OP_FLOOR, 2, 0, 0, 0},
      {OP_ROUND, 0.5, 0, 0, 0},     {OP_MOD, -7, 3, 1, 3},     {OP_FMOD, -7, 3, 1, 2},
      {OP_MOD, 7, -3, 1, 3},        {OP_FMOD, 7, -3, 1, 2},    {OP_ATAN2, 0, 1, 1, -0.0},
      {OP_ATAN2, 1, 0, 0, -1},      {OP_TANH, 0, 0, 1, 0},     {OP_IDIV, 7, 2, 0, 0},
      {OP_ASIN, 1, 0, inf, 0},      {OP_ACOS, -1, 0, -inf, 0}, {OP_ACOSH, 1, 0, inf, 0},
      {OP_ATANH, 1, 0, inf, 0},     {OP_ATANH, 0, 0, 1, 0},    {OP_ASINH, 0, 0, 1, 0},
      {OP_HYPOT, 3, 4, 0.6, 0.8},   {OP_HYPOT, 0, 0, 0, 0},    {OP_COPYSIGN, 3, -2, -1, 0},
      {OP_COPYSIGN, -3, -2, 1, 0},  {OP_COPYSIGN, 0, 1, 0, 0}, {OP_COPYSIGN, 2, -0.0, -1, 0},
      {OP_CBRT, 0, 0, inf, 0},      {OP_CBRT, -0.0, 0, inf, 0}, {OP_CBRT, -8, 0, 1.0 / 12, 0},
      {OP_CBRT, inf, 0, 0, 0},      {OP_FDIM, 3, 2, 1, -1},    {OP_FDIM, 2, 3, 0, 0},
      {OP_FDIM, 2, 2, 0, 0},        {OP_FDIM, 0, -0.0, 0, 0},  {OP_FDIM, inf, inf, 0, 0},
      {OP_FDIM, -inf, -inf, 0, 0},  {OP_FDIM, inf, -inf, 1, -1},
  };
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    bool unary = tn__ops[rows[i].op].group == G_UNARY;
    tn_node *x[] = {given((shape){0, {0}}, &rows[i].x), given((shape){0, {0}}, &rows[i].y)}, *g[2];
    tn_node *y = unary ? tn__op1(&ctx, rows[i].op, x[0]) : tn__op2(&ctx, rows[i].op, x[0], x[1]);
    char what[64];
    snprintf(what, sizeof what, "row %d, %s", (int)i, tn__ops[rows[i].op].text);
    vjp(y, tn__const_num(&ctx, TN_F64, 1), x, unary ? 1 : 2, g);
    expect_values(what, g[0], &rows[i].dx, 1);
    if (!unary) expect_values(what, g[1], &rows[i].dy, 1);
    for (uint32_t k = 0; k < nleaves; k++) free(data[k]);
    nleaves = 0;
  }
}

/* The branch not taken has an infinite slope; none of it comes through. */
static void test_where_keeps_nan_out(void **state) {
  (void)state;
  tn_node *x = given((shape){1, {3}}, (double[]){0, 4, -1}), *g;
  tn_node *zero = tn__zeros_like(&ctx, x), *one = tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F64, 1), x->dim, 1);
  tn_node *safe = tn__where(&ctx, tn__op2(&ctx, OP_LT, zero, x), x, one);
  tn_node *y = tn__where(&ctx, tn__op2(&ctx, OP_LT, zero, x), tn__op1(&ctx, OP_SQRT, safe), zero);
  vjp(y, one, &x, 1, &g);
  expect_values("where", g, (double[]){0, 0.25, 0}, 3);
}

static void test_pow_at_zero_twice(void **state) {
  (void)state;
  tn_node *x = given((shape){1, {3}}, (double[]){0, 0, 0}), *y = given((shape){1, {3}}, (double[]){0, 1, 2}), *g, *h;
  tn_node *one = tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F64, 1), x->dim, 1);
  vjp(tn__op2(&ctx, OP_POW, x, y), one, &x, 1, &g);
  expect_values("pow", g, (double[]){0, 1, 0}, 3);
  vjp(g, one, &x, 1, &h);
  expect_values("pow twice", h, (double[]){0, 0, 2}, 3);
}

/* ---- reductions ---- */

static void test_reductions(void **state) {
  (void)state;
  static const shape shapes[] = {{1, {7}}, {2, {3, 5}}, {3, {2, 3, 4}}, {2, {1, 1}}, {3, {3, 1, 2}}};
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    for (uint32_t mask = 1; mask < 1u << shapes[i].rank; mask++) {
      int64_t axes[4];
      uint32_t n = 0;
      for (uint32_t a = 0; a < shapes[i].rank; a++)
        if (mask >> a & 1) axes[n++] = a;
      for (tn__op op = OP_SUM; op <= OP_RMIN; op++) {
        tn_node *x = input(shapes[i], 0.5, 1.5);
        if (op >= OP_RMAX) /* spread out, so that no step of a difference changes the order */
          for (int64_t k = 0; k < count[0]; k++) data[0][k] = (double)(k * 7 % 31) + uniform(0, 0.5);
        check_gradient(tn__ops[op].text, tn__reduce(&ctx, op, tn__mul(&ctx, x, x), axes, n));
      }
    }
  }
  check_gradient("empty sum", tn__reduce(&ctx, OP_SUM, input((shape){2, {3, 0}}, 0, 1), (int64_t[]){1}, 1));
  check_gradient("empty product", tn__reduce(&ctx, OP_PROD, input((shape){2, {3, 0}}, 0, 1), (int64_t[]){1}, 1));
}

static void test_ties(void **state) {
  (void)state;
  tn_node *x = given((shape){2, {2, 4}}, (double[]){1, 3, 3, 3, 2, 2, 5, 5}), *g;
  tn_node *dy = given((shape){1, {2}}, (double[]){6, 1});
  vjp(tn__reduce(&ctx, OP_RMAX, x, (int64_t[]){1}, 1), dy, &x, 1, &g);
  expect_values("max", g, (double[]){0, 2, 2, 2, 0, 0, 0.5, 0.5}, 8);
  vjp(tn__reduce(&ctx, OP_RMIN, x, (int64_t[]){1}, 1), dy, &x, 1, &g);
  expect_values("min", g, (double[]){6, 0, 0, 0, 0.5, 0.5, 0, 0}, 8);
}

/* Zeros: none, one, two; the gradient and its own gradient. */
static void test_product_with_zeros(void **state) {
  (void)state;
  tn_node *x = given((shape){2, {3, 3}}, (double[]){2, 3, 5, 0, 3, 5, 0, 0, 5}), *g;
  tn_node *y = tn__reduce(&ctx, OP_PROD, x, (int64_t[]){1}, 1);
  vjp(y, tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F64, 1), y->dim, 1), &x, 1, &g);
  expect_values("prod", g, (double[]){15, 10, 6, 15, 0, 0, 0, 0, 0}, 9);
  check_gradient("prod with zeros", y);
}

/* ---- movement and whole tensors ---- */

static tn_node *ints(const int64_t *v, int64_t n) { /* a constant i64 vector, out of what a graph can hold */
  tn_node *at = tn__iota(&ctx, tn__int(&ctx, n)), *r = tn__zeros_like(&ctx, at);
  for (int64_t i = 0; i < n; i++) {
    tn_node *is = tn__op2(&ctx, OP_EQ, at, tn__scalar_to(&ctx, tn__const_num(&ctx, TN_I64, (double)i), at->dim, 1));
    r = tn__where(&ctx, is, tn__scalar_to(&ctx, tn__const_num(&ctx, TN_I64, (double)v[i]), at->dim, 1), r);
  }
  return r;
}

static tn_node *square(tn_node *x) { return tn__mul(&ctx, x, x); }

static void test_movement(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  shape s = {3, {2, 3, 4}};
#define N(v) tn__int(c, v)
  check_gradient("reshape", square(tn__reshape(c, input(s, -1, 1), (tn_node *[]){N(6), N(4)}, 2)));
  check_gradient("expand", square(to(input((shape){3, {1, 3, 1}}, -1, 1), s)));
  check_gradient("expand to nothing", square(to(input((shape){2, {1, 3}}, -1, 1), (shape){2, {0, 3}})));
  check_gradient("permute", square(tn__permute(c, input(s, -1, 1), (int64_t[]){2, 0, 1})));
  check_gradient("pad", square(tn__pad(c, input(s, -1, 1), (tn_node *[]){N(1), N(0), N(0), N(2), N(3), N(1)})));
  check_gradient("shrink", square(tn__shrink(c, input(s, -1, 1), (tn_node *[]){N(1), N(0), N(1)},
                                             (tn_node *[]){N(1), N(3), N(2)}, NULL)));
  check_gradient("flip", square(tn__flip(c, input(s, -1, 1), (int64_t[]){0, 2}, 2)));
  for (int64_t step = 1; step < 5; step++)
    for (int64_t begin = 0; begin < 3; begin++)
      for (int64_t size = 0; begin + (size - 1) * step < 7; size++)
        check_gradient("strided shrink",
                       square(tn__shrink(c, input((shape){2, {7, 2}}, -1, 1), (tn_node *[]){N(begin), N(0)},
                                         (tn_node *[]){N(size), N(1)}, (int64_t[]){step, step})));
  for (int64_t stride = 1; stride < 4; stride++)
    for (int64_t dilation = 1; dilation < 3; dilation++) {
      tn_node *w = tn__window(c, input((shape){3, {2, 8, 3}}, -1, 1), 1, 3, stride, dilation);
      check_gradient("window", square(w));
      tn_node *g = input(shape_of(w), -1, 1);
      check_gradient("fold", square(tn__fold(c, g, N(8), 1, 3, stride, dilation)));
    }
}

static void test_whole_tensors(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  int64_t at[] = {2, 0, 2, 7, -1}; /* twice the same; outside on both sides */
  tn_node *idx = ints(at, 5);
  check_gradient("gather", square(tn__gather(c, input((shape){2, {4, 3}}, -1, 1), idx)));
  tn_node *turned = tn__op1(c, OP_PERMUTATION, ints((int64_t[]){2, 0, 3, 1}, 4));
  check_gradient("permutation", square(tn__gather(c, input((shape){2, {4, 3}}, -1, 1), turned)));
  tn_node *apart = tn__op1(c, OP_DISTINCT, ints((int64_t[]){2, -1, 3, 9}, 4));
  check_gradient("distinct", square(tn__gather(c, input((shape){2, {4, 3}}, -1, 1), apart)));
  tn_node *spans = tn__op1(c, OP_SPANS, ints((int64_t[]){-1, 2, 2, 3}, 4));
  check_gradient("spans", square(tn__gather(c, input((shape){2, {4, 3}}, -1, 1), spans)));
  tn_node *same = square(input((shape){2, {4, 3}}, -1, 1));
  check_gradient("either", tn__op2(c, OP_EITHER, tn__op1(c, OP_DETACH, same), same));
  tn_node *base = input((shape){2, {4, 3}}, -1, 1);
  check_gradient("scatter", square(tn__scatter(c, square(base), idx, square(input((shape){2, {5, 3}}, -1, 1)))));
  for (int mask = 0; mask < 16; mask++) { /* groups of one or two axes, of none */
    int64_t size[] = {2, 3, 2, 4};
    int group[4];
    shape a = {0, {0}}, b = {0, {0}};
    for (int i = 0; i < 4; i++) {
      group[i] = mask >> i & 1;
      if (i != 2 && group[i]) a.d[a.rank++] = size[i];
      if (i != 1 && group[i]) b.d[b.rank++] = size[i];
    }
    tn_node *x = input(a, -1, 1), *y = input(b, -1, 1);
    check_gradient("contract", square(tn__contract(c, x, y, group[0], group[1], group[2], group[3])));
  }
  tn_node *x = input((shape){4, {2, 3, 2, 2}}, -1, 1), *y = input((shape){3, {4, 2, 2}}, -1, 1);
  check_gradient("contract over two axes", square(tn__contract(c, x, y, 0, 2, 1, 2)));
  x = input((shape){2, {3, 0}}, -1, 1), y = input((shape){2, {2, 0}}, -1, 1);
  check_gradient("contract over nothing", square(tn__contract(c, x, y, 0, 1, 1, 1)));
  x = input((shape){1, {3}}, -1, 1);
  check_gradient("contig", square(tn__node_make(c, &(tn__make){.op = OP_CONTIG, .src = &x, .nsrc = 1})));
}

static void test_every_tensor_op_is_covered(void **state) {
  (void)state;
  for (int op = 0; op < OP_COUNT; op++) {
    const tn__op_info *info = &tn__ops[op];
    if (!(info->phases & PH_T) || info->group < G_REDUCE || info->group > G_MIX) continue;
    if (op == OP_SINK || op == OP_DETACH || op == OP_ASSIGN) continue; /* no value; test_detach; test_errors */
    if (!covered[op]) fail_msg("no check by differences went through %s", info->text);
  }
}

/* ---- the pass ---- */

static tn_node *keep_rows(tn_node *x, tn__op op) { /* a reduction over the last axis, spread again */
  tn_node *dim[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i + 1 == x->rank ? tn__int(&ctx, 1) : x->dim[i];
  return tn__expand(&ctx, tn__reshape(&ctx, tn__reduce(&ctx, op, x, (int64_t[]){x->rank - 1}, 1), dim, x->rank),
                    x->dim);
}

static void test_compositions(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *x = input((shape){2, {3, 5}}, -1, 1);
  tn_node *e = tn__op1(c, OP_EXP, tn__sub(c, x, keep_rows(x, OP_RMAX)));
  check_gradient("softmax", tn__op2(c, OP_DIV, e, keep_rows(e, OP_SUM)));
  x = input((shape){2, {3, 5}}, -1, 1);
  tn_node *fifth = tn__scalar_to(c, tn__const_num(c, TN_F64, 0.2), x->dim, 2),
          *tiny = tn__scalar_to(c, tn__const_num(c, TN_F64, 1e-5), x->dim, 2);
  tn_node *centred = tn__sub(c, x, tn__mul(c, keep_rows(x, OP_SUM), fifth));
  tn_node *variance = tn__add(c, tn__mul(c, keep_rows(square(centred), OP_SUM), fifth), tiny);
  check_gradient("layer norm", tn__op2(c, OP_DIV, centred, tn__op1(c, OP_SQRT, variance)));
  x = input((shape){2, {3, 5}}, -1, 1);
  tn_node *w = input((shape){2, {4, 5}}, -1, 1);
  tn_node *y = tn__op1(c, OP_TANH, tn__contract(c, x, w, 0, 1, 1, 1));
  check_gradient("used three times", tn__add(c, tn__mul(c, y, y), y));
}

static void test_detach_and_steps_give_zero(void **state) {
  (void)state;
  tn_node *x = input((shape){1, {3}}, -1, 1), *g, *h;
  tn_node *one = tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F64, 1), x->dim, 1), *d = tn__op1(&ctx, OP_DETACH, x);
  vjp(tn__mul(&ctx, x, d), one, &x, 1, &g);
  assert_ptr_equal(g, tn__mul(&ctx, one, d));
  vjp(d, one, &x, 1, &g);
  expect_values("detach", g, (double[]){0, 0, 0}, 3);
  vjp(tn__op1(&ctx, OP_FLOOR, x), one, &x, 1, &g);
  expect_values("floor", g, (double[]){0, 0, 0}, 3);
  vjp(tn__cast(&ctx, tn__cast(&ctx, x, TN_I32), TN_F64), one, &x, 1, &g);
  expect_values("through integers", g, (double[]){0, 0, 0}, 3);
  vjp(tn__neg(&ctx, x), one, &x, 1, &g);
  vjp(tn__mul(&ctx, g, x), one, &x, 1, &h); /* a gradient that is constant is a constant */
  expect_values("twice", h, (double[]){-1, -1, -1}, 3);
}

static void test_inner_node_and_both(void **state) {
  (void)state;
  tn_node *x = given((shape){1, {2}}, (double[]){3, 5}), *h = square(x), *y = square(h);
  tn_node *one = tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F64, 1), x->dim, 1), *g[2];
  vjp(y, one, (tn_node *[]){h, x}, 2, g);
  expect_values("by the square", g[0], (double[]){18, 50}, 2);
  expect_values("by x, through it", g[1], (double[]){108, 500}, 2);
  vjp(y, one, &y, 1, g);
  assert_ptr_equal(g[0], one);
}

/* Off the paths from y to x nothing is built: an op without a gradient there does no harm. */
static void test_only_along_paths(void **state) {
  (void)state;
  tn_node *x = input((shape){1, {2}}, 0, 1), *z = input((shape){1, {2}}, 0, 1), *g;
  tn_node *bits = tn__bitcast(&ctx, tn__bitcast(&ctx, z, TN_I64), TN_F64);
  tn_node *one = tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F64, 1), x->dim, 1);
  vjp(tn__mul(&ctx, x, bits), one, &x, 1, &g);
  assert_ptr_equal(g, tn__mul(&ctx, one, bits));
}

static void test_errors(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *x = input((shape){1, {2}}, 0, 1), *z = input((shape){1, {2}}, 0, 1), *g, *one;
  one = tn__scalar_to(c, tn__const_num(c, TN_F64, 1), x->dim, 1);
  expect_failure(tn__neg(c, x), z, "wrt[0], f64[2], does not influence");
  expect_failure(x, tn__cast(c, x, TN_I32), "only float tensors");
  tn_node *bits = tn__node_make(c, &(tn__make){.op = OP_BITCAST, .dtype = TN_F64, .src = &x, .nsrc = 1});
  expect_failure(bits, x, "bitcast has no gradient: a reinterpreted");
  expect_failure(tn__bitcast(c, tn__bitcast(c, square(x), TN_I64), TN_F64), x,
                 "bitcast has no gradient: a reinterpreted");
  expect_failure(tn__mul(c, x, tn__cast(c, tn__bitcast(c, x, TN_I64), TN_F64)), x,
                 "bitcast has no gradient: a reinterpreted");
  expect_failure(tn__cast(c, x, TN_I64), x, "not of a float dtype");
  assert_int_equal(try_vjp(x, tn__cast(c, one, TN_F32), &x, 1, &g), TN_EDTYPE);
  assert_int_equal(try_vjp(x, tn__const_num(c, TN_F64, 1), &x, 1, &g), TN_ESHAPE);
  tn_node *assign = tn__node_make(c, &(tn__make){.op = OP_ASSIGN, .src = (tn_node *[]){z, square(x)}, .nsrc = 2});
  expect_failure(square(assign), x, "gradient through an assignment");
  vjp(square(assign), one, &assign, 1, &g);
  tn_node *both[2], *twice = tn__add(c, square(assign), assign);
  assert_int_equal(try_vjp(twice, one, (tn_node *[]){assign, x}, 2, both), TN_EGRAD); /* x lies behind the assignment */
  vjp(tn__mul(c, assign, x), one, (tn_node *[]){assign, x}, 2, both);
  assert_ptr_equal(both[0], tn__mul(c, one, x));
  assert_ptr_equal(both[1], tn__mul(c, one, assign));
}

static void test_symbolic_product(void **state) {
  (void)state;
  tn_node *n = tn__var(&ctx, "N", 0, 9), *x = leaf(1, &n, 9), *g;
  int64_t size = 4;
  memcpy(data[0], (double[]){2, 0, 3, 5}, 4 * sizeof(double));
  binds[nleaves++] = (naive_bind){n, &size};
  data[1] = NULL;
  vjp(tn__reduce(&ctx, OP_PROD, x, (int64_t[]){0}, 1), tn__const_num(&ctx, TN_F64, 1), &x, 1, &g);
  expect_values("prod", g, (double[]){0, 30, 0, 0}, 4);
  tn_node *begin = tn__int(&ctx, 0),
          *some = tn__op2(&ctx, OP_IDIV, tn__add(&ctx, n, tn__int(&ctx, 2)), tn__int(&ctx, 3));
  tn_node *y = tn__shrink(&ctx, x, &begin, &some, (int64_t[]){3});
  vjp(y, tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F64, 1), y->dim, 1), &x, 1, &g);
  expect_values("shrink", g, (double[]){1, 0, 0, 1}, 4);
}

/* f16 gradients add up in f32: 3000 ones are 3000, where f16 would stop at 2048. */
static void test_half_sums(void **state) {
  (void)state;
  tn_node *x = tn__cast(&ctx, input((shape){1, {1}}, 1, 1), TN_F16), *g;
  tn_node *y = to(x, (shape){1, {3000}});
  vjp(y, tn__scalar_to(&ctx, tn__const_num(&ctx, TN_F16, 1), y->dim, 1), &x, 1, &g);
  assert_int_equal(g->dtype, TN_F16);
  expect_values("expand", g, (double[]){3000}, 1);
}

static void test_deep_chain(void **state) {
  (void)state;
  tn_node *x = given((shape){0, {0}}, (double[]){1}), *y = x, *g;
  for (int i = 0; i < 100000; i++) y = tn__neg(&ctx, y);
  vjp(y, tn__const_num(&ctx, TN_F64, 1), &x, 1, &g);
  expect_values("deep", g, (double[]){1}, 1);
}

static void memory_job(tn_ctx *c, void *arg) {
  job *j = arg;
  tn_node *dim = tn__int(c, 3), *x = tn__storage(c, TN_F64, 1, 0, &dim, 1), *y = x;
  for (int i = 0; i < 20; i++) y = tn__op1(c, i & 1 ? OP_SIN : OP_EXP, y);
  tn__vjp(c, tn__reduce(c, OP_PROD, y, (int64_t[]){0}, 1), tn__const_num(c, TN_F64, 1), &x, 1, j->g);
}

/* Memory runs out at each allocation in turn; nothing leaks (the teardown looks). */
static void test_out_of_memory(void **state) {
  (void)state;
  tn_node *g;
  job j = {.g = &g};
  for (int64_t n = 1;; n++) {
    ctx.mem.fail_at = ctx.mem.count + n;
    bool good = tn__ctx_run(&ctx, "", memory_job, &j);
    ctx.mem.fail_at = 0;
    if (good) break;
    assert_int_equal(tn_last_error(&ctx)->status, TN_ENOMEM);
    tn_clear_error(&ctx);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
#define TEST(f) cmocka_unit_test_setup_teardown(f, open_ctx, close_ctx)
      TEST(test_functions),
      TEST(test_where_fma_cast),
      TEST(test_every_scalar_op_has_a_row),
      TEST(test_exact_values),
      TEST(test_where_keeps_nan_out),
      TEST(test_pow_at_zero_twice),
      TEST(test_reductions),
      TEST(test_ties),
      TEST(test_product_with_zeros),
      TEST(test_movement),
      TEST(test_whole_tensors),
      TEST(test_every_tensor_op_is_covered),
      TEST(test_compositions),
      TEST(test_detach_and_steps_give_zero),
      TEST(test_inner_node_and_both),
      TEST(test_only_along_paths),
      TEST(test_errors),
      TEST(test_symbolic_product),
      TEST(test_half_sums),
      TEST(test_deep_chain),
      TEST(test_out_of_memory),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
