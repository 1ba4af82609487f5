/* Elementwise functions: one line each, which says what dtypes the function takes and what it is made of. */
#include "tensor/operands.h"
#include <math.h>

/* Shorthands for the rows: every node below has x's shape. */
#define O1(op, x) tn__op1(c, OP_##op, x)
#define O2(op, x, y) tn__op2(c, OP_##op, x, y)
#define ON(op, x, number) tn__op2_num(c, OP_##op, x, number)
#define NO(op, number, x) tn__num_op2(c, OP_##op, number, x)
#define NUM(x, number) tn__literal_like(c, x, number)

/* ---- one operand ---- */

static tn_node *truth(tn_ctx *c, tn_node *x) { return tn__cast(c, x, TN_BOOL); }

static bool is_whole(const tn_node *x) { return !tn__is_float(x->dtype); }

/* A test on floats, whose answer for integers is known. */
static tn_node *all_of(tn_ctx *c, tn_node *x, bool value) {
  return tn__scalar_to(c, tn__const_bits(c, TN_BOOL, value), x->dim, x->rank);
}

/* -|x|, with the derivative of -x at 0 (that of |x| would be 0 there, and spoil what is built on it). */
static tn_node *minus_abs(tn_ctx *c, tn_node *x) {
  return tn__where(c, ON(LT, x, 0), x, O1(NEG, x));
}

/* exp(-|x|) never overflows, nor does anything in the derivatives. */
static tn_node *sigmoid(tn_ctx *c, tn_node *x) {
  tn_node *e = O1(EXP, minus_abs(c, x));
  return O2(DIV, tn__where(c, ON(LT, x, 0), e, NUM(x, 1)), ON(ADD, e, 1));
}

static tn_node *rsqrt(tn_ctx *c, tn_node *x) { return NO(DIV, 1, O1(SQRT, x)); }
static tn_node *silu(tn_ctx *c, tn_node *x) { return tn__mul(c, x, sigmoid(c, x)); }

static tn_node *softplus(tn_ctx *c, tn_node *x) {
  tn_node *positive = tn__where(c, ON(LT, x, 0), NUM(x, 0), x);
  return tn__add(c, positive, O1(LOG1P, O1(EXP, minus_abs(c, x))));
}

static tn_node *gelu(tn_ctx *c, tn_node *x) {
  tn_node *phi = ON(ADD, O1(ERF, ON(MUL, x, 0.70710678118654752440)), 1); /* 1/sqrt(2) */
  return tn__mul(c, ON(MUL, x, 0.5), phi);
}

static tn_node *gelu_tanh(tn_ctx *c, tn_node *x) {
  tn_node *cubic = tn__add(c, x, ON(MUL, tn__mul(c, tn__mul(c, x, x), x), 0.044715));
  tn_node *phi = ON(ADD, O1(TANH, ON(MUL, cubic, 0.79788456080286535588)), 1); /* sqrt(2/pi) */
  return tn__mul(c, ON(MUL, x, 0.5), phi);
}

/* In f32, and rounded once: their constants have more bits than bf16 and f16 hold. */
#define IN_ACC(f) tn__cast(c, f(c, tn__acc(c, x)), x->dtype)
/* So of f16.  bf16 stays f32 from function to function by itself (lower/widen.c), and a cast would round it. */
#define IN_ONE(f) (x->dtype == TN_F16 ? IN_ACC(f) : f(c, x))
tn_node *tn__gelu_tanh_of(tn_ctx *c, tn_node *x) { return IN_ACC(gelu_tanh); }
tn_node *tn__softplus_of(tn_ctx *c, tn_node *x) { return IN_ACC(softplus); }
tn_node *tn__relu_of(tn_ctx *c, tn_node *x) { return tn__where(c, ON(LE, x, 0), NUM(x, 0), x); }

/* The unused branch must not overflow either, or its derivative would be 0*inf. */
static tn_node *elu(tn_ctx *c, tn_node *x, double alpha) {
  tn_node *positive = NO(LT, 0, x);
  tn_node *low = ON(MUL, O1(EXPM1, tn__where(c, positive, NUM(x, 0), x)), alpha);
  return tn__where(c, positive, x, low);
}

#define WHOLE(x, otherwise) (is_whole(x) ? (x) : (otherwise))

/* UNARY(name, dtypes it takes, what it is) defines the public function of that name. */
#define UNARY(name_, classes, value)                                                                                   \
  static tn_node *build_##name_(tn_ctx *c, tn__call *k) {                                                              \
    tn_node *x = k->x[0];                                                                                              \
    tn__want(c, x, TN__C_##classes);                                                                                   \
    return value;                                                                                                      \
  }                                                                                                                    \
  tn_tensor *name_(tn_tensor *t) {                                                                                     \
    return tn__build(&(tn__call){.name = #name_, .fn = build_##name_, .in = &t, .nin = 1});                            \
  }

UNARY(tn_abs, NUM, O1(ABS, x))
UNARY(tn_sign, NUM, O1(SIGN, x))
UNARY(tn_neg, NUM, O1(NEG, x))
UNARY(tn_square, NUM, O2(MUL, x, x))
UNARY(tn_relu, NUM, tn__relu_of(c, x))
UNARY(tn_floor, NUM, WHOLE(x, O1(FLOOR, x)))
UNARY(tn_ceil, NUM, WHOLE(x, O1(CEIL, x)))
UNARY(tn_round, NUM, WHOLE(x, O1(ROUND, x)))
UNARY(tn_trunc, NUM, WHOLE(x, O1(TRUNC, x)))
UNARY(tn_isnan, NUM, is_whole(x) ? all_of(c, x, false) : O2(NE, x, x))
UNARY(tn_isinf, NUM, is_whole(x) ? all_of(c, x, false) : ON(EQ, O1(ABS, x), INFINITY))
UNARY(tn_isfinite, NUM, is_whole(x) ? all_of(c, x, true) : ON(LT, O1(ABS, x), INFINITY))
UNARY(tn_sqrt, FLOAT, O1(SQRT, x))
UNARY(tn_rsqrt, FLOAT, IN_ONE(rsqrt))
UNARY(tn_recip, FLOAT, NO(DIV, 1, x))
UNARY(tn_exp, FLOAT, O1(EXP, x))
UNARY(tn_exp2, FLOAT, O1(EXP2, x))
UNARY(tn_expm1, FLOAT, O1(EXPM1, x))
UNARY(tn_log, FLOAT, O1(LOG, x))
UNARY(tn_log2, FLOAT, O1(LOG2, x))
UNARY(tn_log10, FLOAT, O1(LOG10, x))
UNARY(tn_log1p, FLOAT, O1(LOG1P, x))
UNARY(tn_sin, FLOAT, O1(SIN, x))
UNARY(tn_cos, FLOAT, O1(COS, x))
UNARY(tn_tan, FLOAT, O1(TAN, x))
UNARY(tn_asin, FLOAT, O1(ASIN, x))
UNARY(tn_acos, FLOAT, O1(ACOS, x))
UNARY(tn_atan, FLOAT, O1(ATAN, x))
UNARY(tn_sinh, FLOAT, O1(SINH, x))
UNARY(tn_cosh, FLOAT, O1(COSH, x))
UNARY(tn_tanh, FLOAT, O1(TANH, x))
UNARY(tn_asinh, FLOAT, O1(ASINH, x))
UNARY(tn_acosh, FLOAT, O1(ACOSH, x))
UNARY(tn_atanh, FLOAT, O1(ATANH, x))
UNARY(tn_erf, FLOAT, O1(ERF, x))
UNARY(tn_erfc, FLOAT, O1(ERFC, x))
UNARY(tn_sigmoid, FLOAT, IN_ONE(sigmoid))
UNARY(tn_silu, FLOAT, IN_ONE(silu))
UNARY(tn_softplus, FLOAT, tn__softplus_of(c, x))
UNARY(tn_gelu, FLOAT, IN_ACC(gelu))
UNARY(tn_gelu_tanh, FLOAT, tn__gelu_tanh_of(c, x))
UNARY(tn_logical_not, ANY, O1(NOT, truth(c, x)))
UNARY(tn_bitwise_not, BITS, O1(NOT, x))
UNARY(tn_detach, ANY, O1(DETACH, x))
UNARY(tn_contiguous, ANY, O1(CONTIG, x))

/* The same with one number, s. */
#define UNARY_NUMBER(name_, classes, value)                                                                            \
  static tn_node *build_##name_(tn_ctx *c, tn__call *k) {                                                              \
    tn_node *x = k->x[0];                                                                                              \
    double s = k->f[0];                                                                                                \
    tn__want(c, x, TN__C_##classes);                                                                                   \
    return value;                                                                                                      \
  }                                                                                                                    \
  tn_tensor *name_(tn_tensor *t, double s) {                                                                           \
    return tn__build(&(tn__call){.name = #name_, .fn = build_##name_, .in = &t, .nin = 1, .f[0] = s});                 \
  }

UNARY_NUMBER(tn_leaky_relu, FLOAT, tn__where(c, NO(LT, 0, x), x, ON(MUL, x, s)))
UNARY_NUMBER(tn_elu, FLOAT, elu(c, x, s))

/* ---- two operands ---- */

/* How the operands become one dtype. */
typedef enum joining { PROMOTE, TRUTH } joining;

/* i[0] of calls with one tensor and one number: the side where the number stands. */
enum { NUMBER_RIGHT = 1, NUMBER_LEFT = 2 };

/* Puts the operands into x: one dtype, one shape. */
static void join(tn_ctx *c, tn__call *k, joining how, int classes, const char *hint, tn_node **x) {
  if (k->nin == 1) {
    int side = k->i[0] == NUMBER_LEFT ? 0 : 1;
    x[1 - side] = k->x[0];
    x[side] = tn__literal(c, k->x[0]->dtype, k->f[0]);
  } else {
    x[0] = k->x[0];
    x[1] = k->x[1];
  }
  if (how == TRUTH)
    for (int i = 0; i < 2; i++) x[i] = truth(c, x[i]);
  else
    tn__promote(c, x, 2);
  if (hint && is_whole(x[0])) tn__fail(c, TN_EDTYPE, "needs floats, not %s: %s", tn__dtypes[x[0]->dtype].name, hint);
  tn__want(c, x[0], classes);
  tn__broadcast(c, x, 2);
}

/* BINARY(name, joining, dtypes, hint for integers, what it is) defines the public function of that name. */
#define BINARY(name_, how, classes, hint, value)                                                                       \
  static tn_node *build_##name_(tn_ctx *c, tn__call *k) {                                                              \
    tn_node *v[2];                                                                                                     \
    join(c, k, how, TN__C_##classes, hint, v);                                                                         \
    tn_node *x = v[0], *y = v[1];                                                                                      \
    return value;                                                                                                      \
  }                                                                                                                    \
  tn_tensor *name_(tn_tensor *a, tn_tensor *b) {                                                                       \
    return tn__build(&(tn__call){.name = #name_, .fn = build_##name_, .in = (tn_tensor *[]){a, b}, .nin = 2});         \
  }

BINARY(tn_add, PROMOTE, ANY, NULL, O2(ADD, x, y))
BINARY(tn_sub, PROMOTE, NUM, NULL, tn__sub(c, x, y))
BINARY(tn_mul, PROMOTE, ANY, NULL, O2(MUL, x, y))
BINARY(tn_div, PROMOTE, FLOAT, "use tn_floordiv, or convert with tn_cast", O2(DIV, x, y))
BINARY(tn_floordiv, PROMOTE, NUM, NULL, O2(IDIV, x, y))
BINARY(tn_mod, PROMOTE, NUM, NULL, O2(MOD, x, y))
BINARY(tn_fmod, PROMOTE, NUM, NULL, O2(FMOD, x, y))
BINARY(tn_pow, PROMOTE, NUM, NULL, O2(POW, x, y))
BINARY(tn_maximum, PROMOTE, ANY, NULL, O2(MAX, x, y))
BINARY(tn_minimum, PROMOTE, ANY, NULL, O2(MIN, x, y))
BINARY(tn_atan2, PROMOTE, FLOAT, NULL, O2(ATAN2, x, y))
BINARY(tn_hypot, PROMOTE, FLOAT, NULL, O2(HYPOT, x, y))
BINARY(tn_copysign, PROMOTE, FLOAT, NULL, O2(COPYSIGN, x, y))
BINARY(tn_eq, PROMOTE, ANY, NULL, O2(EQ, x, y))
BINARY(tn_ne, PROMOTE, ANY, NULL, O2(NE, x, y))
BINARY(tn_lt, PROMOTE, ANY, NULL, O2(LT, x, y))
BINARY(tn_le, PROMOTE, ANY, NULL, O2(LE, x, y))
BINARY(tn_gt, PROMOTE, ANY, NULL, O2(LT, y, x))
BINARY(tn_ge, PROMOTE, ANY, NULL, O2(LE, y, x))
BINARY(tn_logical_and, TRUTH, ANY, NULL, O2(AND, x, y))
BINARY(tn_logical_or, TRUTH, ANY, NULL, O2(OR, x, y))
BINARY(tn_logical_xor, TRUTH, ANY, NULL, O2(XOR, x, y))
BINARY(tn_bitwise_and, PROMOTE, BITS, NULL, O2(AND, x, y))
BINARY(tn_bitwise_or, PROMOTE, BITS, NULL, O2(OR, x, y))
BINARY(tn_bitwise_xor, PROMOTE, BITS, NULL, O2(XOR, x, y))
BINARY(tn_shl, PROMOTE, INT, NULL, O2(SHL, x, y))
BINARY(tn_shr, PROMOTE, INT, NULL, O2(SHR, x, y))

/* SCALAR(name, the function of two tensors, side of the number) */
#define SCALAR(name_, builder, side)                                                                                   \
  tn_tensor *name_(tn_tensor *t, double s) {                                                                           \
    return tn__build(&(tn__call){.name = #name_, .fn = build_##builder, .in = &t, .nin = 1,                            \
                                 .i[0] = NUMBER_##side, .f[0] = s});                                                   \
  }

SCALAR(tn_add_scalar, tn_add, RIGHT)
SCALAR(tn_sub_scalar, tn_sub, RIGHT)
SCALAR(tn_rsub_scalar, tn_sub, LEFT)
SCALAR(tn_mul_scalar, tn_mul, RIGHT)
SCALAR(tn_div_scalar, tn_div, RIGHT)
SCALAR(tn_rdiv_scalar, tn_div, LEFT)
SCALAR(tn_floordiv_scalar, tn_floordiv, RIGHT)
SCALAR(tn_mod_scalar, tn_mod, RIGHT)
SCALAR(tn_pow_scalar, tn_pow, RIGHT)
SCALAR(tn_maximum_scalar, tn_maximum, RIGHT)
SCALAR(tn_minimum_scalar, tn_minimum, RIGHT)
SCALAR(tn_eq_scalar, tn_eq, RIGHT)
SCALAR(tn_ne_scalar, tn_ne, RIGHT)
SCALAR(tn_lt_scalar, tn_lt, RIGHT)
SCALAR(tn_le_scalar, tn_le, RIGHT)
SCALAR(tn_gt_scalar, tn_gt, RIGHT)
SCALAR(tn_ge_scalar, tn_ge, RIGHT)

/* ---- the rest ---- */

static tn_node *choose(tn_ctx *c, tn_node **v) {
  if (v[0]->dtype != TN_BOOL)
    tn__fail(c, TN_EDTYPE, "the condition must be bool, not %s: compare, or convert with tn_cast", tn__text(c, v[0]));
  tn__promote(c, v + 1, 2);
  tn__broadcast(c, v, 3);
  return tn__where(c, v[0], v[1], v[2]);
}

static tn_node *where(tn_ctx *c, tn__call *k) { return choose(c, (tn_node *[]){k->x[0], k->x[1], k->x[2]}); }

tn_tensor *tn_where(tn_tensor *cond, tn_tensor *a, tn_tensor *b) {
  return tn__build(&(tn__call){.name = "tn_where", .fn = where, .in = (tn_tensor *[]){cond, a, b}, .nin = 3});
}

/* i: which of the two are numbers, 1 the first, 2 the second; f: they */
static tn_node *where_numbers(tn_ctx *c, tn__call *k) {
  bool both = k->i[0] == 3;
  int dtype = both ? (int)k->i[1] : k->x[1]->dtype;
  tn_node *v[3] = {k->x[0], NULL, NULL};
  if (both) tn__check_dtype(c, dtype);
  for (int side = 0; side < 2; side++)
    v[1 + side] = k->i[0] >> side & 1 ? tn__literal(c, dtype, k->f[side]) : k->x[1];
  return choose(c, v);
}

tn_tensor *tn_where_scalar(tn_tensor *cond, tn_tensor *a, double s) {
  tn_tensor *in[2] = {cond, a};
  return tn__build(&(tn__call){
      .name = "tn_where_scalar", .fn = where_numbers, .in = in, .nin = 2, .i = {2}, .f = {0, s}});
}

tn_tensor *tn_rwhere_scalar(tn_tensor *cond, double s, tn_tensor *b) {
  tn_tensor *in[2] = {cond, b};
  return tn__build(
      &(tn__call){.name = "tn_rwhere_scalar", .fn = where_numbers, .in = in, .nin = 2, .i = {1}, .f = {s}});
}

tn_tensor *tn_where_scalars(tn_tensor *cond, tn_dtype dtype, double s, double r) {
  return tn__build(&(tn__call){.name = "tn_where_scalars",
                               .fn = where_numbers,
                               .in = &cond,
                               .nin = 1,
                               .i = {3, (int64_t)dtype},
                               .f = {s, r}});
}

static tn_node *clamp(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  double lo = k->f[0], hi = k->f[1];
  tn__want(c, x, TN__C_NUM);
  if (!(lo <= hi)) tn__fail(c, TN_EINVAL, "bounds %g and %g are not lo <= hi", lo, hi);
  if (lo != -INFINITY) x = ON(MAX, x, lo);
  if (hi != INFINITY) x = ON(MIN, x, hi);
  return x;
}

tn_tensor *tn_clamp(tn_tensor *t, double lo, double hi) {
  return tn__build(&(tn__call){.name = "tn_clamp", .fn = clamp, .in = &t, .nin = 1, .f = {lo, hi}});
}

static tn_node *cast(tn_ctx *c, tn__call *k) {
  tn__check_dtype(c, (int)k->i[0]);
  return tn__cast(c, k->x[0], (int)k->i[0]);
}

tn_tensor *tn_cast(tn_tensor *t, tn_dtype dtype) {
  return tn__build(&(tn__call){.name = "tn_cast", .fn = cast, .in = &t, .nin = 1, .i[0] = (int64_t)dtype});
}

static tn_node *bitcast(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  int to = (int)k->i[0];
  tn__check_dtype(c, to);
  if (tn__size_of(to) != tn__size_of(x->dtype) || (to != x->dtype && (to == TN_BOOL || x->dtype == TN_BOOL)))
    tn__fail(c, TN_EDTYPE, "the bits of %s are no %s", tn__text(c, x), tn__dtypes[to].name);
  return tn__bitcast(c, x, to);
}

tn_tensor *tn_bitcast(tn_tensor *t, tn_dtype dtype) {
  return tn__build(&(tn__call){.name = "tn_bitcast", .fn = bitcast, .in = &t, .nin = 1, .i[0] = (int64_t)dtype});
}
