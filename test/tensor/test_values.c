/* What the compositions mean, against plain C. */
#include "front.h"
#include "support/exact.h"
#include "tensor/operands.h"

static tn_ctx c;

static int open_one(void **state) {
  (void)state;
  front_open(&c);
  return 0;
}

static int close_one(void **state) {
  (void)state;
  front_close(&c);
  return 0;
}

/* ---- elementwise ---- */

static double rsqrt_(double x) { return 1 / sqrt(x); }
static double recip_(double x) { return 1 / x; }
static double square_(double x) { return x * x; }
static double sigmoid_(double x) { return 1 / (1 + exp(-x)); }
static double silu_(double x) { return x / (1 + exp(-x)); }
static double softplus_(double x) { return x > 0 ? x + log1p(exp(-x)) : log1p(exp(x)); }
static double relu_(double x) { return x <= 0 ? 0 : x; }
static double gelu_(double x) { return x * erfc(-x / sqrt(2)) / 2; }
static double gelu_tanh_(double x) { return 0.5 * x * (1 + tanh(sqrt(2 / M_PI) * (x + 0.044715 * x * x * x))); }
static double isnan_(double x) { return isnan(x); }
static double isinf_(double x) { return isinf(x) != 0; }
static double isfinite_(double x) { return isfinite(x); }
static double not_(double x) { return x == 0; }

/* What is no op of its own. */
static const struct unary {
  const char *name;
  double (*plain)(double);
  double tol;
} unary[] = {
    {"square", square_, 0},    {"relu", relu_, 0},         {"isnan", isnan_, 0},       {"isinf", isinf_, 0},
    {"isfinite", isfinite_, 0}, {"rsqrt", rsqrt_, 0},      {"recip", recip_, 0},       {"sigmoid", sigmoid_, 1e-15},
    {"silu", silu_, 1e-14},    {"softplus", softplus_, 1e-14}, {"gelu", gelu_, 1e-12}, {"gelu_tanh", gelu_tanh_, 1e-11},
    {"logical_not", not_, 0},
};

static const double points[] = {-3.5, -2.5, -1,  -0.75, -1e-3, -0.0, 0.0,      1e-3,      0.5,
                                1,    1.5,  2.5, 3,     30,    -30,  INFINITY, -INFINITY, NAN};
enum { POINTS = sizeof points / sizeof *points };

static double tolerance(int op) { return tn__ops[op].rounding == RN_LIBRARY ? 1e-15 : 0; }

static bool is_near(double got, double want, double tol) {
  return isnan(want) ? isnan(got) : got == want || fabs(got - want) <= tol * fabs(want);
}

static void check_one(const char *name, tn_tensor *(*fn)(tn_tensor *)) {
  tn_tensor *t = tn_from(&c, TN_F64, DIMS(POINTS), points), *y = fn(t);
  int op = exact_op_of(y, &t, 1);
  size_t u = 0;
  if (op < 0 || !exact_knows(op)) {
    op = -1;
    while (u < sizeof unary / sizeof *unary && strcmp(unary[u].name, name)) u++;
    if (u == sizeof unary / sizeof *unary) fail_msg("tn_%s has no row in this test", name);
  }
  naive_tensor v = front_value(y);
  for (int i = 0; i < POINTS; i++) {
    double x = points[i], got = naive_get(&v, i);
    double want = op < 0 ? unary[u].plain(x) : (double)exact_value(op, (long double)x, 0, 0);
    if (fn == tn_gelu && x == -30) want = 0; /* 1 + erf cancels: the form's known loss */
    if (fn == tn_gelu && x == -INFINITY) want = NAN;
    if (!is_near(got, want, op < 0 ? unary[u].tol : tolerance(op)))
      fail_msg("%s(%g) is %.17g, not %.17g", name, x, got, want);
  }
  naive_free(&v);
}

static void one_operand(void **state) {
  (void)state;
#define ONE(name, classes, ...) \
  if (TN__C_##classes & TN__C_FLOAT) check_one(#name, tn_##name);
#include "tensor/elementwise.def"
}

/* Functions of two that are one op of floats; others: two_operands. */
static void check_two(const char *name, tn_tensor *(*fn)(tn_tensor *, tn_tensor *)) {
  tn_tensor *x[2] = {tn_expand(tn_from(&c, TN_F64, DIMS(POINTS, 1), points), DIMS(POINTS, POINTS)),
                     tn_expand(tn_from(&c, TN_F64, DIMS(1, POINTS), points), DIMS(POINTS, POINTS))},
            *y = fn(x[0], x[1]);
  int op = exact_op_of(y, x, 2);
  if (op < 0 || !exact_knows(op)) return;
  naive_tensor v = front_value(y);
  for (int i = 0; i < POINTS * POINTS; i++) {
    double a = points[i / POINTS], b = points[i % POINTS], got = naive_get(&v, i);
    double want = (double)exact_value(op, (long double)a, (long double)b, 0);
    if (!is_near(got, want, tolerance(op))) fail_msg("%s(%g, %g) is %.17g, not %.17g", name, a, b, got, want);
  }
  naive_free(&v);
}

static void ops_of_two(void **state) {
  (void)state;
#define TWO(name, how, classes, ...) \
  if (TN__C_##classes & TN__C_FLOAT) check_two(#name, tn_##name);
#include "tensor/elementwise.def"
}

static void numbers_of_functions(void **state) {
  (void)state;
  tn_tensor *x = F32(&c, DIMS(5), -200, -1, 0, 2, NAN);
  CHECK(tn_leaky_relu(x, 0.5), DIMS(5), 0, -100, -0.5, 0, 2, NAN);
  CHECK(tn_elu(x, 2), DIMS(5), 1e-6, -2, 2 * expm1(-1), 0, 2, NAN);
  CHECK(tn_clamp(x, -1, 1), DIMS(5), 0, -1, -1, 0, 1, NAN);
  CHECK(tn_clamp(x, -INFINITY, 1), DIMS(5), 0, -200, -1, 0, 1, NAN);
  CHECK(tn_sigmoid(F32(&c, DIMS(2), -80, 200)), DIMS(2), 1e-6, exp(-80.0), 1); /* neither overflows */
  CHECK(tn_softplus(F32(&c, DIMS(3), -80, 200, 0)), DIMS(3), 1e-6, exp(-80.0), 200, log(2));
  CHECK(tn_floor(tn_arange(&c, TN_I32, 0, 3, 1)), DIMS(3), 0, 0, 1, 2);
  CHECK(tn_isnan(tn_arange(&c, TN_I32, 0, 3, 1)), DIMS(3), 0, 0, 0, 0);
  CHECK(tn_bitwise_not(tn_arange(&c, TN_U8, 0, 3, 1)), DIMS(3), 0, 255, 254, 253);
  CHECK(tn_bitcast(F32(&c, DIMS(1), 1), TN_U32), DIMS(1), 0, 0x3f800000);
}

static void two_operands(void **state) {
  (void)state;
  tn_tensor *a = F32(&c, DIMS(2, 1), 6, -7), *b = F32(&c, DIMS(3), 2, -3, 0.5f);
  CHECK(tn_add(a, b), DIMS(2, 3), 0, 8, 3, 6.5, -5, -10, -6.5);
  CHECK(tn_sub(b, a), DIMS(2, 3), 0, -4, -9, -5.5, 9, 4, 7.5);
  CHECK(tn_div(a, b), DIMS(2, 3), 1e-7, 3, -2, 12, -3.5, 7.0 / 3, -14);
  CHECK(tn_floordiv(a, b), DIMS(2, 3), 0, 3, -2, 12, -4, 2, -14);
  CHECK(tn_mod(a, tn_slice(b, 0, 0, 2, 1)), DIMS(2, 2), 0, 0, -0.0, 1, -1);
  CHECK(tn_fmod(a, tn_slice(b, 0, 0, 2, 1)), DIMS(2, 2), 0, 0, 0, -1, -1);
  CHECK(tn_gt(a, b), DIMS(2, 3), 0, 1, 1, 1, 0, 0, 0);
  CHECK(tn_ge(a, a), DIMS(2, 1), 0, 1, 1);
  CHECK(tn_maximum(a, b), DIMS(2, 3), 0, 6, 6, 6, 2, -3, 0.5);
  CHECK(tn_where(tn_lt(a, tn_const(&c, TN_F32, 0)), b, a), DIMS(2, 3), 0, 6, 6, 6, 2, -3, 0.5);
  CHECK(tn_rsub_scalar(b, 1), DIMS(3), 0, -1, 4, 0.5);
  CHECK(tn_rdiv_scalar(b, 1), DIMS(3), 1e-7, 0.5, -1.0 / 3, 2);
  CHECK(tn_pow_scalar(b, 2), DIMS(3), 0, 4, 9, 0.25);
  CHECK(tn_le_scalar(b, 0.5), DIMS(3), 0, 0, 1, 1);
  CHECK(tn_logical_xor(b, tn_zeros(&c, TN_I8, DIMS(3))), DIMS(3), 0, 1, 1, 1);
  tn_tensor *i = tn_arange(&c, TN_I8, -2, 2, 1), *u = tn_arange(&c, TN_U8, 1, 5, 1);
  assert_int_equal(tn_dtype_of(tn_add(i, u)), TN_I16);
  CHECK(tn_mul(i, u), DIMS(4), 0, -2, -2, 0, 4);
  CHECK(tn_shl(u, u), DIMS(4), 0, 2, 8, 24, 64);
  CHECK(tn_shr(i, tn_ones_like(i)), DIMS(4), 0, -1, -1, 0, 0);
  assert_int_equal(tn_dtype_of(tn_add(tn_zeros(&c, TN_F16, SCALAR), tn_zeros(&c, TN_BF16, SCALAR))), TN_F32);
}

/* ---- creation ---- */

static void creation(void **state) {
  (void)state;
  CHECK(tn_arange(&c, TN_I64, 5, -2, -3), DIMS(3), 0, 5, 2, -1);
  CHECK(tn_arange(&c, TN_F32, 0, 1, 0.3), DIMS(4), 1e-7, 0, 0.3, 0.6, 0.9);
  CHECK(tn_arange(&c, TN_F32, 1, 0, 1), DIMS(0), 0, 0);
  CHECK(tn_linspace(&c, TN_F64, -1, 2, 4), DIMS(4), 0, -1, 0, 1, 2);
  CHECK(tn_linspace(&c, TN_F32, 3, 9, 1), DIMS(1), 0, 3);
  CHECK(tn_linspace(&c, TN_F32, 3, 9, 0), DIMS(0), 0, 0);
  CHECK(tn_eye(&c, TN_I8, 2, 3), DIMS(2, 3), 0, 1, 0, 0, 0, 1, 0);
  CHECK(tn_full(&c, TN_F16, DIMS(2), 0.1), DIMS(2), 1e-3, 0.1, 0.1);
  CHECK(tn_scalar(&c, TN_F32, 0.5), SCALAR, 0, 0.5);
  CHECK(tn_full_like(tn_eye(&c, TN_I8, 1, 1), -3), DIMS(1, 1), 0, -3);
  naive_tensor v = front_value(tn_full_i64(&c, TN_U64, SCALAR, -1));
  assert_true(v.bits[0] == UINT64_MAX);
  naive_free(&v);
}

/* ---- reductions ---- */

static void reductions(void **state) {
  (void)state;
  tn_tensor *x = F32(&c, DIMS(2, 3), 1, -2, 3, 4, 5, -6);
  CHECK(tn_sum(x, ALL, false), SCALAR, 0, 5);
  CHECK(tn_sum(x, AXES(1), true), DIMS(2, 1), 0, 2, 3);
  CHECK(tn_sum(x, AXES(-2), false), DIMS(3), 0, 5, 3, -3);
  CHECK(tn_prod(x, AXES(0, 1), true), DIMS(1, 1), 0, 720);
  CHECK(tn_max(x, AXES(0), false), DIMS(3), 0, 4, 5, 3);
  CHECK(tn_min(x, ALL, false), SCALAR, 0, -6);
  CHECK(tn_mean(x, AXES(1), false), DIMS(2), 1e-7, 2.0 / 3, 1);
  CHECK(tn_var(x, AXES(1), 0, false), DIMS(2), 1e-6, 38.0 / 9, 74.0 / 3);
  CHECK(tn_std(x, AXES(1), 1, true), DIMS(2, 1), 1e-6, sqrt(19.0 / 3), sqrt(37));
  CHECK(tn_logsumexp(x, AXES(1), false), DIMS(2), 1e-6, log(exp(1) + exp(-2) + exp(3)), log(exp(4) + exp(5) + exp(-6)));
  CHECK(tn_any(tn_gt_scalar(x, 4), AXES(1), false), DIMS(2), 0, 0, 1);
  CHECK(tn_all(x, ALL, false), SCALAR, 0, 1);
  CHECK(tn_argmax(x, 1, false), DIMS(2), 0, 2, 1);
  CHECK(tn_argmin(x, 0, true), DIMS(1, 3), 0, 0, 0, 1);
  tn_tensor *odd = F32(&c, DIMS(3, 3), 2, 2, 1, 1, NAN, NAN, -INFINITY, -INFINITY, -INFINITY);
  CHECK(tn_argmax(odd, 1, false), DIMS(3), 0, 0, 1, 0); /* first maximum, first NaN */
  CHECK(tn_argmin(odd, 1, false), DIMS(3), 0, 2, 1, 0);
  CHECK(tn_max(odd, AXES(1), false), DIMS(3), 0, 2, NAN, -INFINITY);
  CHECK(tn_logsumexp(F32(&c, DIMS(2, 2), -INFINITY, -INFINITY, 1e30f, INFINITY), AXES(1), false), DIMS(2), 0, -INFINITY,
        INFINITY);
  tn_tensor *none = tn_zeros(&c, TN_F32, DIMS(2, 0));
  CHECK(tn_sum(none, AXES(1), false), DIMS(2), 0, 0, 0);
  CHECK(tn_prod(none, AXES(1), false), DIMS(2), 0, 1, 1);
  CHECK(tn_mean(none, AXES(1), false), DIMS(2), 0, NAN, NAN);
  CHECK(tn_logsumexp(none, AXES(1), false), DIMS(2), 0, -INFINITY, -INFINITY);
  CHECK(tn_any(none, AXES(1), false), DIMS(2), 0, 0, 0);
  CHECK(tn_all(none, AXES(1), false), DIMS(2), 0, 1, 1);
  assert_int_equal(tn_dtype_of(tn_sum(tn_zeros(&c, TN_BOOL, DIMS(2)), ALL, false)), TN_I64);
  assert_int_equal(tn_dtype_of(tn_sum(tn_zeros(&c, TN_U8, DIMS(2)), ALL, false)), TN_U64);
  CHECK(tn_sum(tn_full(&c, TN_I8, DIMS(200), 100), ALL, false), SCALAR, 0, 20000);
  CHECK(tn_sum(tn_full(&c, TN_F16, DIMS(4096), 1), ALL, false), SCALAR, 0, 4096); /* f16 alone would stop at 2048 */
}

/* ---- shapes ---- */

static void python_slices(void **state) {
  (void)state;
  for (int n = 0; n < 5; n++) {
    tn_tensor *x = tn_arange(&c, TN_F64, 0, n, 1);
    for (int start = -7; start <= 7; start++)
      for (int stop = -7; stop <= 7; stop++)
        for (int step = -3; step <= 3; step++) {
          if (!step) continue;
          /* Python's slice.indices() */
          int lo = step < 0 ? -1 : 0, hi = step < 0 ? n - 1 : n;
          int at = start < 0 ? start + n : start, end = stop < 0 ? stop + n : stop;
          at = at < lo ? lo : at > hi ? hi : at;
          end = end < lo ? lo : end > hi ? hi : end;
          double want[8];
          tn_dim count = 0;
          for (int i = at; step > 0 ? i < end : i > end; i += step) want[count++] = i;
          tn_scope(&c) check_values(__FILE__, __LINE__, &c, tn_slice(x, 0, start, stop, step), &count, 1, want, 0);
        }
  }
  tn_tensor *x = tn_arange(&c, TN_F64, 0, 4, 1);
  CHECK(tn_slice(x, 0, INT64_MAX, INT64_MIN, -1), DIMS(4), 0, 3, 2, 1, 0);
  CHECK(tn_slice(x, 0, INT64_MIN, INT64_MAX, INT64_MAX), DIMS(1), 0, 0);
  CHECK(tn_slice(x, 0, INT64_MAX, INT64_MIN, INT64_MIN), DIMS(1), 0, 3);
}

static void symbolic_slices(void **state) {
  (void)state;
  tn_dim n = tn_dim_var(&c, "n", 1, 9);
  tn_tensor *x = tn_expand(tn_zeros(&c, TN_F32, DIMS(1, 2)), DIMS(n, 2));
  assert_int_equal(tn_size(tn_slice(x, 0, 1, INT64_MAX, 1), 0), tn_dim_sub(&c, n, 1));
  assert_int_equal(tn_size(tn_slice(x, 0, INT64_MAX, INT64_MIN, -1), 0), n);
  assert_int_equal(tn_size(tn_select(x, 0, -1), 0), 2);
}

static void symbolic_values(void **state) {
  (void)state;
  tn_dim n = tn_dim_var(&c, "rows", 0, 9); /* bound to 3 */
  tn_tensor *row = F32(&c, DIMS(1, 2), 1, 5), *x = tn_expand(row, DIMS(n, 2));
  CHECK(tn_mean(x, ALL, false), SCALAR, 1e-7, 3);
  CHECK(tn_var(x, ALL, 1, false), SCALAR, 1e-6, 24.0 / 5);
  CHECK(tn_concatenate((tn_tensor *[]){row, x, row}, 3, 0), DIMS(5, 2), 0, 1, 5, 1, 5, 1, 5, 1, 5, 1, 5);
  CHECK(tn_linspace(&c, TN_F32, 0, 1, n), DIMS(3), 0, 0, 0.5, 1);
  CHECK(tn_eye(&c, TN_F32, n, 2), DIMS(3, 2), 0, 1, 0, 0, 1, 0, 0);
  CHECK(tn_slice(tn_eye(&c, TN_F32, n, 2), 0, INT64_MAX, INT64_MIN, -1), DIMS(3, 2), 0, 0, 0, 0, 1, 1, 0);
  CHECK(tn_matmul(x, tn_transpose(x, 0, 1)), DIMS(3, 3), 0, 26, 26, 26, 26, 26, 26, 26, 26, 26);
  CHECK(tn_take_along_axis(x, tn_ones_like(tn_cast(x, TN_I64)), 1), DIMS(3, 2), 0, 5, 5, 5, 5, 5, 5);
  CHECK(tn_cross_entropy(tn_zeros_like(x), tn_zeros(&c, TN_I32, &n, 1)), SCALAR, 1e-6, log(2));
  CHECK(tn_reshape(x, DIMS(2, -1)), DIMS(2, 3), 0, 1, 5, 1, 5, 1, 5);
}

static void movement(void **state) {
  (void)state;
  tn_tensor *x = F32(&c, DIMS(2, 3), 1, 2, 3, 4, 5, 6), *y = F32(&c, DIMS(2, 1), -0.0f, 8);
  CHECK(tn_transpose(x, 0, -1), DIMS(3, 2), 0, 1, 4, 2, 5, 3, 6);
  CHECK(tn_flip(x, AXES(1)), DIMS(2, 3), 0, 3, 2, 1, 6, 5, 4);
  CHECK(tn_reshape(x, DIMS(3, -1)), DIMS(3, 2), 0, 1, 2, 3, 4, 5, 6);
  CHECK(tn_flatten(tn_unsqueeze(x, 0), 0, 1), DIMS(2, 3), 0, 1, 2, 3, 4, 5, 6);
  CHECK(tn_flatten(tn_const(&c, TN_F32, 2), 0, -1), DIMS(1), 0, 2);
  CHECK(tn_squeeze(tn_unsqueeze(x, -1), ALL), DIMS(2, 3), 0, 1, 2, 3, 4, 5, 6);
  CHECK(tn_expand(y, DIMS(2, -1, 2)), DIMS(2, 2, 2), 0, -0.0, -0.0, 8, 8, -0.0, -0.0, 8, 8);
  CHECK(tn_pad(y, (tn_dim[]){0, 1, 1, 0}, 9), DIMS(3, 2), 0, 9, -0.0, 9, 8, 9, 9);
  CHECK(tn_shrink(x, (tn_dim[]){1, 1}, (tn_dim[]){1, 2}), DIMS(1, 2), 0, 5, 6);
  CHECK(tn_concatenate((tn_tensor *[]){x, y, y}, 3, 1), DIMS(2, 5), 0, 1, 2, 3, -0.0, -0.0, 4, 5, 6, 8, 8);
  CHECK(tn_stack((tn_tensor *[]){y, tn_neg(y)}, 2, 1), DIMS(2, 2, 1), 0, -0.0, 0, 8, -8);
  CHECK(tn_tile(y, DIMS(2, 1, 2)), DIMS(2, 2, 2), 0, -0.0, -0.0, 8, 8, -0.0, -0.0, 8, 8);
  CHECK(tn_tile(tn_arange(&c, TN_I8, 0, 2, 1), DIMS(2)), DIMS(4), 0, 0, 1, 0, 1);
  CHECK(tn_repeat(x, 2, 0), DIMS(4, 3), 0, 1, 2, 3, 1, 2, 3, 4, 5, 6, 4, 5, 6);
  CHECK(tn_unfold(tn_arange(&c, TN_I8, 0, 7, 1), 0, 3, 2, 2), DIMS(2, 3), 0, 0, 2, 4, 2, 4, 6);
  CHECK(tn_tril(x, 0), DIMS(2, 3), 0, 1, 0, 0, 4, 5, 0);
  CHECK(tn_triu(x, 1), DIMS(2, 3), 0, 0, 2, 3, 0, 0, 6);
  tn_tensor *part[3];
  assert_int_equal(tn_split(x, 3, 1, part), TN_OK);
  CHECK(part[2], DIMS(2, 1), 0, 3, 6);
  assert_int_equal(tn_split(x, 2, 1, part), TN_ESHAPE);
  tn_clear_error(&c);
}

static void indexing(void **state) {
  (void)state;
  tn_tensor *x = F32(&c, DIMS(2, 3), 1, 2, 3, 4, 5, 6);
  tn_tensor *i = tn_from(&c, TN_I32, DIMS(2, 2), (const int32_t[]){2, 0, -1, 3});
  CHECK(tn_take(x, i, 1), DIMS(2, 2, 2), 0, 3, 1, 0, 0, 6, 4, 0, 0);
  CHECK(tn_embedding(x, tn_from(&c, TN_U8, DIMS(2), (const uint8_t[]){1, 2})), DIMS(2, 3), 0, 4, 5, 6, 0, 0, 0);
  CHECK(tn_take_along_axis(x, i, 1), DIMS(2, 2), 0, 3, 1, 0, 0);
  tn_tensor *j = tn_from(&c, TN_I64, DIMS(1, 3), (const int64_t[]){1, 0, 1});
  CHECK(tn_take_along_axis(x, j, 0), DIMS(1, 3), 0, 4, 2, 6);
  CHECK(tn_scatter_add(x, 0, j, F32(&c, DIMS(1, 3), 10, 20, 30)), DIMS(2, 3), 0, 1, 22, 3, 14, 5, 36);
  CHECK(tn_scatter_add(x, 1, tn_zeros_like(i), F32(&c, DIMS(2, 2), 10, 20, 30, 40)), DIMS(2, 3), 0, 31, 2, 3, 74, 5, 6);
  CHECK(tn_index_add(x, 1, tn_from(&c, TN_I8, DIMS(2), (const int8_t[]){2, 2}), F32(&c, DIMS(2, 2), 10, 20, 30, 40)),
        DIMS(2, 3), 0, 1, 2, 33, 4, 5, 76);
  CHECK(tn_one_hot(i, 3, TN_F32), DIMS(2, 2, 3), 0, 0, 0, 1, 1, 0, 0, 0, 0, 0, 0, 0, 0);
}

/* ---- contractions ---- */

static void products(void **state) {
  (void)state;
  tn_tensor *a = F32(&c, DIMS(2, 3), 1, 2, 3, 4, 5, 6), *v = F32(&c, DIMS(3), 1, -1, 2), *w = F32(&c, DIMS(2), 10, 1);
  tn_tensor *b = tn_reshape(tn_arange(&c, TN_F32, 0, 12, 1), DIMS(2, 3, 2));
  CHECK(tn_matmul(a, v), DIMS(2), 0, 5, 11);
  CHECK(tn_matmul(w, a), DIMS(3), 0, 14, 25, 36);
  CHECK(tn_matmul(v, v), SCALAR, 0, 6);
  CHECK(tn_matmul(a, b), DIMS(2, 2, 2), 0, 16, 22, 34, 49, 52, 58, 124, 139);
  CHECK(tn_matmul(b, a), DIMS(2, 3, 3), 0, 4, 5, 6, 14, 19, 24, 24, 33, 42, 34, 47, 60, 44, 61, 78, 54, 75, 96);
  CHECK(tn_matmul(v, b), DIMS(2, 2), 0, 6, 8, 18, 20);
  CHECK(tn_matmul(b, w), DIMS(2, 3), 0, 1, 23, 45, 67, 89, 111);
  tn_tensor *bt = tn_transpose(b, 1, 2); /* batches broadcast: [2,1,3,2] x [2,2,3] */
  CHECK(tn_slice(tn_flatten(tn_matmul(tn_unsqueeze(b, 1), bt), 0, 3), 0, 9, 18, 1), DIMS(9), 0, 7, 9, 11, 33, 43, 53,
        59, 77, 95);
}

static void einsums(void **state) {
  (void)state;
  tn_tensor *a = F32(&c, DIMS(2, 3), 1, 2, 3, 4, 5, 6), *v = F32(&c, DIMS(3), 1, -1, 2), *w = F32(&c, DIMS(2), 10, 1);
  tn_tensor *sq = F32(&c, DIMS(2, 2), 1, 2, 3, INFINITY),
            *b = tn_reshape(tn_arange(&c, TN_F32, 0, 12, 1), DIMS(2, 3, 2));
#define EINSUM(spec, ...)                                                                                              \
  tn_einsum(spec, (tn_tensor *[]){__VA_ARGS__}, (int)(sizeof((tn_tensor *[]){__VA_ARGS__}) / sizeof(tn_tensor *)))
  CHECK(EINSUM("ij->ji", a), DIMS(3, 2), 0, 1, 4, 2, 5, 3, 6);
  CHECK(EINSUM("ij,j", a, v), DIMS(2), 0, 5, 11);
  CHECK(EINSUM("ij,j->", a, v), SCALAR, 0, 16);
  CHECK(EINSUM(" ij , j -> j i ", a, v), DIMS(3, 2), 0, 1, 4, -2, -5, 6, 12);
  CHECK(EINSUM("i,ij,j", w, a, v), SCALAR, 0, 61);
  CHECK(EINSUM("ii->i", sq), DIMS(2), 0, 1, INFINITY);
  CHECK(EINSUM("ii", tn_eye(&c, TN_F32, 4, 4)), SCALAR, 0, 4);
  CHECK(EINSUM("i,j->ij", w, v), DIMS(2, 3), 0, 10, -10, 20, 1, -1, 2);
  CHECK(EINSUM("...jk,kj->...", b, a), DIMS(2), 0, 65, 191);
  CHECK(EINSUM("...,...", b, tn_reshape(w, DIMS(2, 1, 1))), DIMS(2, 3, 2), 0, 0, 10, 20, 30, 40, 50, 6, 7, 8, 9, 10,
        11);
  CHECK(EINSUM("bij,bik->bjk", b, b), DIMS(2, 2, 2), 0, 20, 26, 26, 35, 200, 224, 224, 251);
  CHECK(EINSUM("bij,ki->jbk", b, a), DIMS(2, 2, 2), 0, 16, 34, 52, 124, 22, 49, 58, 139);
  /* What one operand alone has is summed first, in f32: 257 and 2049 are none of bf16's and f16's numbers. */
  tn_tensor *near = F32(&c, DIMS(2, 2), 256, 1, 256, 0), *far = F32(&c, DIMS(2, 2), 2048, 1, 2048, 0);
  tn_tensor *apart = F32(&c, DIMS(2), 1, -1);
  CHECK(EINSUM("ab,a->", tn_cast(near, TN_BF16), tn_cast(apart, TN_BF16)), SCALAR, 0, 1);
  CHECK(EINSUM("a,ab->", tn_cast(apart, TN_F16), tn_cast(far, TN_F16)), SCALAR, 0, 1);
  assert_int_equal(tn_dtype_of(EINSUM("ab,a->", tn_cast(near, TN_BF16), tn_cast(apart, TN_BF16))), TN_BF16);
}

static void small_products(void **state) {
  (void)state;
  tn_tensor *v = F32(&c, DIMS(3), 1, -1, 2), *w = F32(&c, DIMS(2), 10, 1);
  CHECK(tn_dot(v, v), SCALAR, 0, 6);
  CHECK(tn_outer(w, v), DIMS(2, 3), 0, 10, -10, 20, 1, -1, 2);
  tn_tensor *empty = tn_zeros(&c, TN_F32, DIMS(2, 0));
  CHECK(tn_matmul(empty, tn_transpose(empty, 0, 1)), DIMS(2, 2), 0, 0, 0, 0, 0);
  tn_tensor *i = tn_arange(&c, TN_I8, 0, 3, 1);
  assert_int_equal(tn_dtype_of(tn_dot(i, i)), TN_I8);
  tn_tensor *h = tn_full(&c, TN_F16, DIMS(4096), 1);
  CHECK(tn_dot(h, h), SCALAR, 0, 4096);
}

/* ---- compositions ---- */

static void softmaxes(void **state) {
  (void)state;
  tn_tensor *x = F32(&c, DIMS(3, 2), 1000, 1001, -INFINITY, 0, -INFINITY, -INFINITY);
  double p = 1 / (1 + exp(1));
  CHECK(tn_softmax(x, 1), DIMS(3, 2), 1e-6, p, 1 - p, 0, 1, 0, 0);
  CHECK(tn_log_softmax(x, 1), DIMS(3, 2), 1e-6, log(p), log(1 - p), -INFINITY, 0, -INFINITY, -INFINITY);
  CHECK(tn_softmax(tn_zeros(&c, TN_F16, DIMS(4, 1)), 0), DIMS(4, 1), 0, 0.25, 0.25, 0.25, 0.25);
  CHECK(tn_softmax(tn_zeros(&c, TN_F32, DIMS(0, 2)), 0), DIMS(0, 2), 0, 0);
}

static void norms(void **state) {
  (void)state;
  tn_tensor *x = F32(&c, DIMS(2, 3), 1, 2, 3, 1e4f, 1e4f, 1e4f), *g = F32(&c, DIMS(3), 1, 2, 3),
            *b = F32(&c, DIMS(3), 0, 0, 1);
  double s = 1 / sqrt(2.0 / 3 + 1e-5), r = 1 / sqrt(14.0 / 3 + 1e-5);
  CHECK(tn_layer_norm(x, 1, NULL, NULL, 1e-5), DIMS(2, 3), 1e-6, -s, 0, s, 0, 0, 0);
  CHECK(tn_layer_norm(x, 1, g, b, 1e-5), DIMS(2, 3), 1e-6, -s, 0, 3 * s + 1, 0, 0, 1);
  CHECK(tn_layer_norm(x, 1, NULL, b, 1e-5), DIMS(2, 3), 1e-6, -s, 0, s + 1, 0, 0, 1);
  CHECK(tn_rms_norm(x, 1, g, 1e-5), DIMS(2, 3), 1e-6, r, 4 * r, 9 * r, 1, 2, 3);
  CHECK(tn_layer_norm(tn_cast(x, TN_BF16), 2, NULL, NULL, 0), DIMS(2, 3), 1e-2, -1, -1, -1, 1, 1, 1);
  assert_null(tn_cast(x, (tn_dtype)77));
  assert_null(tn_layer_norm(x, 1, NULL, NULL, 1e-5)); /* an error is pending: the NULL may be what failed */
  tn_clear_error(&c);
}

static void losses(void **state) {
  (void)state;
  tn_tensor *x = F32(&c, DIMS(2, 3), 1, 2, 3, 0, 0, -INFINITY);
  tn_tensor *labels = tn_from(&c, TN_U8, DIMS(2), (const uint8_t[]){2, 0});
  double first = log(exp(1) + exp(2) + exp(3)) - 3, both = (first + log(2)) / 2;
  CHECK(tn_cross_entropy(x, labels), SCALAR, 1e-6, both);
  CHECK(tn_nll_loss(tn_log_softmax(x, 1), labels), SCALAR, 1e-6, both);
  tn_tensor *beyond = tn_from(&c, TN_I32, DIMS(2), (const int32_t[]){2, 3});
  CHECK(tn_cross_entropy(x, beyond), SCALAR, 1e-6, first / 2);
  tn_tensor *row = F32(&c, DIMS(1, 3), 1, 2, 3);
  CHECK(tn_cross_entropy(row, F32(&c, DIMS(1, 3), 0, 0.5f, 0.5f)), SCALAR, 1e-6, first + 0.5);
  tn_tensor *image = tn_reshape(tn_stack((tn_tensor *[]){row, row}, 2, -1), DIMS(1, 3, 2)); /* [N, C, d] */
  CHECK(tn_cross_entropy(image, tn_from(&c, TN_I64, DIMS(1, 2), (const int64_t[]){2, 2})), SCALAR, 1e-6, first);
  CHECK(tn_mse_loss(row, tn_zeros_like(row)), SCALAR, 1e-6, 14.0 / 3);
  CHECK(tn_binary_cross_entropy_with_logits(F32(&c, DIMS(2), 200, -3), F32(&c, DIMS(2), 0, 1)), SCALAR, 1e-6,
        (200 + softplus_(3)) / 2);
}

/* Constants of every dtype and rank, stored or detached. */
static void stored_constants(void **state) {
  (void)state;
  tn_tensor *x = tn_from(&c, TN_I32, DIMS(3), (const int32_t[]){1, 2, 3}), *zero = tn_zeros(&c, TN_I32, DIMS(3));
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) {
    tn_tensor *one = tn_ones(&c, (tn_dtype)dtype, SCALAR);
    CHECK(tn_cast(tn_contiguous(one), TN_F64), SCALAR, 0, 1);
    CHECK(tn_cast(tn_detach(one), TN_F64), SCALAR, 0, 1);
    CHECK(tn_cast(tn_contiguous(tn_ones(&c, (tn_dtype)dtype, DIMS(2))), TN_F64), DIMS(2), 0, 1, 1);
  }
  CHECK(tn_contiguous(tn_mul_scalar(tn_const(&c, TN_I64, 3), 2)), SCALAR, 0, 6);
  CHECK(tn_contiguous(tn_sum(zero, NULL, 0, false)), SCALAR, 0, 0);
  CHECK(tn_add(x, tn_contiguous(tn_select(zero, 0, 0))), DIMS(3), 0, 1, 2, 3);
  CHECK(tn_contiguous(tn_full_i64(&c, TN_U64, SCALAR, 7)), SCALAR, 0, 7);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(one_operand),     cmocka_unit_test(numbers_of_functions),
      cmocka_unit_test(two_operands),    cmocka_unit_test(creation),
      cmocka_unit_test(reductions),      cmocka_unit_test(python_slices),
      cmocka_unit_test(symbolic_slices), cmocka_unit_test(symbolic_values),
      cmocka_unit_test(movement),        cmocka_unit_test(indexing),
      cmocka_unit_test(products),        cmocka_unit_test(small_products),
      cmocka_unit_test(einsums),         cmocka_unit_test(softmaxes),
      cmocka_unit_test(norms),           cmocka_unit_test(losses),
      cmocka_unit_test(stored_constants), cmocka_unit_test(ops_of_two),
  };
  return cmocka_run_group_tests(tests, open_one, close_one);
}
