/* The scalar evaluator: one row of functions per op, one column per class of dtype.
 *
 * Integers are evaluated in 64 bits and wrapped to their width afterwards.  That is exact for every op: sums, products
 * and powers are so modulo 2^64, quotients and comparisons see the extended value itself, and a shift count beyond the
 * narrow width only has to move everything out.  An op that does the same to signed and unsigned operands has no signed
 * cell.  bool is an unsigned integer whose results are compared with 0.  f16 and bf16 are f32, rounded once; only fma
 * has cells of its own, for its one rounding. */
#include "ir/eval.h"
#include "ir/math_c.inc"
#include "ir/math.inc"
#include "ir/math_f64.inc"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the functions ---- */

#define X (a[0])
#define Y (a[1])
#define Z (a[2])
#define DEFINE(type, name, value)                                                                                      \
  static type name##_##type(const type *a) { return value; }
#define FLOATS(name, ...)                                                                                              \
  DEFINE(f32, name, tn_##name##_f32(__VA_ARGS__))                                                                      \
  DEFINE(f64, name, tn_##name##_f64(__VA_ARGS__))
#define FLOAT_OP(name, value)                                                                                          \
  DEFINE(f32, name, value)                                                                                             \
  DEFINE(f64, name, value)
#define INTEGERS(name, value)                                                                                          \
  DEFINE(i64, name, value)                                                                                             \
  DEFINE(u64, name, value)

/* Of math.inc: one case for each function of its lists. */
#define CASE_1(op, name, ...) FLOATS(name, X)
#define CASE_2(op, name, ...) FLOATS(name, X, Y)
TN_MATH_1(CASE_1)
TN_MATH_2(CASE_2)
TN_BASIC_1(CASE_1)
TN_BASIC_2(CASE_2)
FLOATS(copysign, X, Y)
FLOATS(fma, X, Y, Z)
FLOAT_OP(neg, -X)
FLOAT_OP(add, X + Y)
FLOAT_OP(mul, X *Y)
FLOAT_OP(div, X / Y)

/* x / -1 is left to negation: the least value divided by -1 traps on some machines. */
static i64 rem_i64(i64 x, i64 y) { return y == 0 || y == -1 ? 0 : x % y; }
static i64 floor_div(i64 x, i64 y) {
  if (y == 0) return 0;
  if (y == -1) return (i64)(0 - (u64)x);
  return x / y - (x % y != 0 && (x < 0) != (y < 0));
}
static i64 floor_mod(i64 x, i64 y) {
  if (y == 0) return x; /* so that x = (x idiv y) * y + x mod y holds for every y */
  i64 r = rem_i64(x, y);
  return r != 0 && (r < 0) != (y < 0) ? r + y : r;
}

static u64 power(u64 x, u64 n) {
  u64 r = 1;
  for (; n; n >>= 1, x *= x)
    if (n & 1) r *= x;
  return r;
}
static i64 signed_power(i64 x, i64 n) {
  if (n >= 0) return (i64)power((u64)x, (u64)n);
  return x == 1 || (x == -1 && n % 2 == 0) ? 1 : x == -1 ? -1 : 0; /* 1 / x^-n toward 0 */
}

DEFINE(u64, neg, 0 - X)
DEFINE(u64, not, ~X)
DEFINE(u64, add, X + Y)
DEFINE(u64, mul, X *Y)
DEFINE(u64, and, X &Y)
DEFINE(u64, or, X | Y)
DEFINE(u64, xor, X ^ Y)
DEFINE(u64, shl, Y < 64 ? X << Y : 0)
DEFINE(u64, fma, X *Y + Z)
DEFINE(u64, abs, X)
DEFINE(u64, sign, X != 0)
DEFINE(u64, idiv, Y ? X / Y : 0)
DEFINE(u64, mod, Y ? X % Y : X)
DEFINE(u64, fmod, Y ? X % Y : 0)
DEFINE(u64, pow, power(X, Y))
DEFINE(u64, shr, Y < 64 ? X >> Y : 0)
DEFINE(u64, philox, tn_philox_u64(X, Y, Z))
DEFINE(i64, abs, X < 0 ? (i64)(0 - (u64)X) : X)
DEFINE(i64, sign, (X > 0) - (X < 0))
DEFINE(i64, idiv, floor_div(X, Y))
DEFINE(i64, mod, floor_mod(X, Y))
DEFINE(i64, fmod, rem_i64(X, Y))
DEFINE(i64, pow, signed_power(X, Y))
DEFINE(i64, shr, (u64)Y < 64 ? X >> Y : X >> 63)
INTEGERS(min, X < Y ? X : Y)
INTEGERS(max, X > Y ? X : Y)

/* Comparisons: f64 holds every smaller float exactly. */
#define COMPARISON(name, op)                                                                                           \
  static u64 name##_i64(const i64 *a) { return X op Y; }                                                               \
  static u64 name##_u64(const u64 *a) { return X op Y; }                                                               \
  static u64 name##_f64(const f64 *a) { return X op Y; }
COMPARISON(lt, <)
COMPARISON(le, <=)
COMPARISON(eq, ==)
COMPARISON(ne, !=)

/* ---- the tables ---- */

typedef struct row {
  f32 (*f32)(const f32 *a);
  f64 (*f64)(const f64 *a);
  u64 (*u64)(const u64 *a);
  i64 (*i64)(const i64 *a); /* NULL: as u64 */
} row;

#define FLOAT(op, name, ...) [OP_##op].f32 = name##_f32, [OP_##op].f64 = name##_f64,
#define UINT(op, name) [OP_##op].u64 = name##_u64,
#define INT(op, name) [OP_##op].u64 = name##_u64, [OP_##op].i64 = name##_i64,
static const row rows[OP_COUNT] = {
    TN_MATH_1(FLOAT) TN_MATH_2(FLOAT) TN_BASIC_1(FLOAT) TN_BASIC_2(FLOAT)
    FLOAT(NEG, neg) FLOAT(ADD, add) FLOAT(MUL, mul) FLOAT(DIV, div) FLOAT(FMA, fma) FLOAT(COPYSIGN, copysign)
    UINT(NEG, neg) UINT(NOT, not) UINT(ADD, add) UINT(MUL, mul) UINT(FMA, fma) UINT(PHILOX, philox)
    UINT(AND, and) UINT(OR, or) UINT(XOR, xor) UINT(SHL, shl) INT(SHR, shr)
    INT(ABS, abs) INT(SIGN, sign) INT(IDIV, idiv) INT(MOD, mod) INT(FMOD, fmod) INT(POW, pow)
    INT(MIN, min) INT(MAX, max)
};

typedef struct comparison {
  u64 (*f64)(const f64 *a);
  u64 (*u64)(const u64 *a);
  u64 (*i64)(const i64 *a);
} comparison;
static const comparison comparisons[OP_COUNT] = {
    [OP_LT] = {lt_f64, lt_u64, lt_i64},
    [OP_LE] = {le_f64, le_u64, le_i64},
    [OP_EQ] = {eq_f64, eq_u64, eq_i64},
    [OP_NE] = {ne_f64, ne_u64, ne_i64},
};

bool tn__eval_defined(int op, int sdtype) {
  const row *r = &rows[op];
  if (op == OP_WHERE || op == OP_CAST || op == OP_BITCAST || comparisons[op].f64) return true;
  return tn__is_float(sdtype) ? r->f32 && r->f64 : r->u64 != NULL;
}

/* ---- representation ---- */

/* To the dtype's width, extended to 64 bits again. */
static u64 wrap(int dtype, u64 v) {
  unsigned shift = 64 - 8 * (unsigned)tn__size_of(dtype);
  if (dtype == TN_BOOL) return v != 0;
  return tn__dtypes[dtype].is_signed && !tn__is_float(dtype) ? (u64)((i64)(v << shift) >> shift) : v << shift >> shift;
}

static f32 decode_f32(int dtype, u64 bits) { /* f16, bf16, f32 */
  u32 low = (u32)bits;
  return dtype == TN_F16 ? tn_f16_of(low) : dtype == TN_BF16 ? tn_bf16_of(low) : tn_f32_of(low);
}

static u64 encode_f32(int dtype, f32 v) {
  return dtype == TN_F16 ? tn_f16_bits(v) : dtype == TN_BF16 ? tn_bf16_bits(v) : tn_f32_bits(v);
}

static u64 saturate(int dtype, f64 v) {
  unsigned bits = 8 * (unsigned)tn__size_of(dtype) - tn__dtypes[dtype].is_signed;
  u64 most = ~(u64)0 >> (64 - bits);
  f64 end = (f64)(1ul << (bits - 1)) * 2;
  if (v != v) return 0;
  if (v >= end) return most;
  if (tn__dtypes[dtype].is_signed) return v <= -end ? ~most : (u64)(i64)v;
  return v <= 0 ? 0 : (u64)v;
}

double tn__eval_to_double(int dtype, uint64_t bits) {
  if (dtype == TN_F64) return tn_f64_of(bits);
  if (tn__is_float(dtype)) return (f64)decode_f32(dtype, bits);
  return tn__dtypes[dtype].is_signed ? (f64)(i64)bits : (f64)bits;
}

uint64_t tn__eval_from_double(int dtype, double v) {
  if (dtype == TN_F64) return tn_f64_bits(v);
  if (dtype == TN_F32) return tn_f32_bits((f32)v);
  if (tn__is_float(dtype)) return encode_f32(dtype, tn_odd_f32(v));
  return dtype == TN_BOOL ? v != 0 : saturate(dtype, v);
}

uint64_t tn__eval_cast(int from, int to, uint64_t bits) {
  bool is_signed = tn__dtypes[from].is_signed;
  if (from == to) return bits;
  if (tn__is_float(from)) return tn__eval_from_double(to, tn__eval_to_double(from, bits));
  if (!tn__is_float(to)) return wrap(to, bits);
  if (to == TN_F64) return tn_f64_bits(is_signed ? (f64)(i64)bits : (f64)bits);
  if (to == TN_F32) return tn_f32_bits(is_signed ? (f32)(i64)bits : (f32)bits);
  f32 half = to == TN_F16 ? (is_signed ? tn_i64_to_f16((i64)bits) : tn_u64_to_f16(bits))
                          : (is_signed ? tn_i64_to_bf16((i64)bits) : tn_u64_to_bf16(bits));
  return encode_f32(to, half);
}

/* In memory elements are little-endian, as on every machine there is code for. */
uint64_t tn__eval_load(int dtype, const void *p) {
  u64 bits = 0;
  memcpy(&bits, p, tn__size_of(dtype));
  return wrap(dtype, bits);
}

void tn__eval_store(int dtype, void *p, uint64_t bits) { memcpy(p, &bits, tn__size_of(dtype)); }

/* ---- evaluation ---- */

static _Noreturn void missing(int op, int sdtype) {
  fprintf(stderr, "tenet: internal error: %s of %s has no value\n", tn__ops[op].text, tn__dtypes[sdtype].name);
  abort();
}

static u64 eval_float(int op, int dtype, uint32_t n, const u64 *arg) {
  const row *r = &rows[op];
  f64 wide[3] = {0};
  f32 a[3] = {0};
  for (uint32_t i = 0; i < n; i++) {
    if (dtype == TN_F64) wide[i] = tn_f64_of(arg[i]);
    else a[i] = decode_f32(dtype, arg[i]);
  }
  if (dtype == TN_F64) return tn_f64_bits(r->f64(wide));
  if (op == OP_FMA && dtype == TN_F16) return tn_f16_bits(tn_fma_f16(a[0], a[1], a[2]));
  if (op == OP_FMA && dtype == TN_BF16) return tn_bf16_bits(tn_fma_bf16(a[0], a[1], a[2]));
  return encode_f32(dtype, r->f32(a));
}

static u64 compare(int op, int sdtype, const u64 *arg) {
  const comparison *c = &comparisons[op];
  if (tn__is_float(sdtype))
    return c->f64((f64[]){tn__eval_to_double(sdtype, arg[0]), tn__eval_to_double(sdtype, arg[1])});
  return tn__dtypes[sdtype].is_signed ? c->i64((const i64 *)arg) : c->u64((const u64 *)arg);
}

uint64_t tn__eval(int op, int dtype, int sdtype, const uint64_t *arg) {
  if (op == OP_WHERE) return arg[0] ? arg[1] : arg[2];
  if (op == OP_CAST) return tn__eval_cast(sdtype, dtype, arg[0]);
  if (op == OP_BITCAST) return wrap(dtype, arg[0]);
  if (comparisons[op].f64) return compare(op, sdtype, arg);
  const row *r = &rows[op];
  bool is_float = tn__is_float(sdtype);
  if (is_float ? !r->f32 || !r->f64 : !r->u64) missing(op, sdtype);
  if (is_float) return eval_float(op, sdtype, tn__ops[op].max_src, arg);
  if (op == OP_NOT && dtype == TN_BOOL) return !arg[0];
  return wrap(dtype, tn__dtypes[sdtype].is_signed && r->i64 ? (u64)r->i64((const i64 *)arg) : r->u64(arg));
}

uint64_t tn__eval_combined(int by, int dtype, int vdtype, uint64_t to, uint64_t value) {
  int as = tn__is_added_wide(dtype, vdtype) ? vdtype : dtype;
  u64 arg[3] = {tn__eval_cast(dtype, as, to), tn__eval_cast(vdtype, as, value)};
  return tn__eval_cast(as, dtype, tn__eval(by, as, as, arg));
}

uint64_t tn__eval_reduce_init(int op, int dtype) {
  if (dtype == TN_BOOL) return op == OP_MUL || op == OP_MIN;
  if (op == OP_ADD || op == OP_MUL) return tn__eval_from_double(dtype, op == OP_MUL);
  return tn__eval_from_double(dtype, op == OP_MAX ? -(f64)TN_INF : (f64)TN_INF);
}

/* ---- index expressions ---- */

static bool bound(const tn__env *env, tn_node *n, u64 *v) {
  for (uint32_t i = 0; i < env->n; i++)
    if (env->key[i] == n) {
      *v = (u64)env->val[i];
      return true;
    }
  if (n->op == OP_CONST) *v = (u64)n->ints[0];
  return n->op == OP_CONST;
}

int64_t tn__eval_index(tn_node *root, const tn__env *env, tn__arena *a) {
  tn__vec(tn_node *) stack = {0};
  tn__map value;
  u64 v = 0, arg[3];
  tn__map_init(&value, a);
  tn__vec_push(a, &stack, root);
  while (stack.n) {
    tn_node *n = stack.v[stack.n - 1];
    uint32_t waiting = 0;
    if (tn__map_get(&value, (uintptr_t)n, &v)) {
      stack.n--;
      continue;
    }
    if (!bound(env, n, &v)) {
      if (!tn__is_elementwise(n)) missing(n->op, n->dtype);
      for (uint32_t i = 0; i < n->nsrc; i++)
        if (!tn__map_get(&value, (uintptr_t)n->src[i], &arg[i])) {
          tn__vec_push(a, &stack, n->src[i]);
          waiting++;
        }
      if (waiting) continue;
      v = tn__eval(n->op, n->dtype, n->src[n->op == OP_WHERE ? 1 : 0]->dtype, arg);
    }
    tn__map_put(&value, (uintptr_t)n, v);
    stack.n--;
  }
  tn__map_get(&value, (uintptr_t)root, &v);
  return (int64_t)v;
}
