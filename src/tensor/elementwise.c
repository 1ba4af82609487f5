/* Elementwise functions: one line each, here and in elementwise.def, which says what dtypes the function takes and what
 * it is made of. */
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

/* UNARY(name, dtypes it takes, what it is) defines tn_<name>. */
#define UNARY(name_, classes, value)                                                                                   \
  static tn_node *build_##name_(tn_ctx *c, tn__call *k) {                                                              \
    tn_node *x = k->x[0];                                                                                              \
    tn__want(c, x, TN__C_##classes);                                                                                   \
    return value;                                                                                                      \
  }                                                                                                                    \
  tn_tensor *tn_##name_(tn_tensor *t) {                                                                                \
    return tn__build(&(tn__call){.name = "tn_" #name_, .fn = build_##name_, .in = &t, .nin = 1});                      \
  }

#define ONE UNARY
#include "tensor/elementwise.def"
UNARY(detach, ANY, O1(DETACH, x))
UNARY(contiguous, ANY, O1(CONTIG, x))

/* The same with one number, s. */
#define UNARY_NUMBER(name_, classes, value)                                                                            \
  static tn_node *build_##name_(tn_ctx *c, tn__call *k) {                                                              \
    tn_node *x = k->x[0];                                                                                              \
    double s = k->f[0];                                                                                                \
    tn__want(c, x, TN__C_##classes);                                                                                   \
    return value;                                                                                                      \
  }                                                                                                                    \
  tn_tensor *tn_##name_(tn_tensor *t, double s) {                                                                      \
    return tn__build(&(tn__call){.name = "tn_" #name_, .fn = build_##name_, .in = &t, .nin = 1, .f[0] = s});           \
  }

UNARY_NUMBER(leaky_relu, FLOAT, tn__where(c, NO(LT, 0, x), x, ON(MUL, x, s)))
UNARY_NUMBER(elu, FLOAT, elu(c, x, s))

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

/* BINARY(name, joining, dtypes, hint for integers, what it is) defines tn_<name>. */
#define BINARY(name_, how, classes, hint, value)                                                                       \
  static tn_node *build_##name_(tn_ctx *c, tn__call *k) {                                                              \
    tn_node *v[2];                                                                                                     \
    join(c, k, how, TN__C_##classes, hint, v);                                                                         \
    tn_node *x = v[0], *y = v[1];                                                                                      \
    return value;                                                                                                      \
  }                                                                                                                    \
  tn_tensor *tn_##name_(tn_tensor *a, tn_tensor *b) {                                                                  \
    tn_tensor *in[2] = {a, b};                                                                                         \
    return tn__build(&(tn__call){.name = "tn_" #name_, .fn = build_##name_, .in = in, .nin = 2});                      \
  }

#define TWO BINARY
#include "tensor/elementwise.def"

/* SCALAR(name, the function of two tensors, side of the number) */
#define SCALAR(name_, builder, side)                                                                                   \
  tn_tensor *tn_##name_(tn_tensor *t, double s) {                                                                      \
    return tn__build(&(tn__call){.name = "tn_" #name_, .fn = build_##builder, .in = &t, .nin = 1,                      \
                                 .i[0] = NUMBER_##side, .f[0] = s});                                                   \
  }

SCALAR(add_scalar, add, RIGHT)
SCALAR(sub_scalar, sub, RIGHT)
SCALAR(rsub_scalar, sub, LEFT)
SCALAR(mul_scalar, mul, RIGHT)
SCALAR(div_scalar, div, RIGHT)
SCALAR(rdiv_scalar, div, LEFT)
SCALAR(floordiv_scalar, floordiv, RIGHT)
SCALAR(mod_scalar, mod, RIGHT)
SCALAR(pow_scalar, pow, RIGHT)
SCALAR(maximum_scalar, maximum, RIGHT)
SCALAR(minimum_scalar, minimum, RIGHT)
SCALAR(eq_scalar, eq, RIGHT)
SCALAR(ne_scalar, ne, RIGHT)
SCALAR(lt_scalar, lt, RIGHT)
SCALAR(le_scalar, le, RIGHT)
SCALAR(gt_scalar, gt, RIGHT)
SCALAR(ge_scalar, ge, RIGHT)

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
