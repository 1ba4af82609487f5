#include "verify/value.h"
#include "ir/eval.h"
#include "verify/rounding.h"
#include <math.h>

/* ---- the field of p = 2^64 - 2^32 + 1 elements ---- */

#define P 0xffffffff00000001u
#define CARRY 0xffffffffu /* 2^64 mod p */

static uint64_t add(uint64_t x, uint64_t y) {
  uint64_t s = x + y;
  if (s < x) s += CARRY;
  return s >= P ? s - P : s;
}

static uint64_t negative(uint64_t x) { return x ? P - x : 0; }

static uint64_t mul(uint64_t x, uint64_t y) {
  unsigned __int128 wide = (unsigned __int128)x * y;
  uint64_t lo = (uint64_t)wide, hi = (uint64_t)(wide >> 64), top = hi >> 32, mid = (hi & CARRY) * CARRY; /* 2^96 = -1 */
  uint64_t r = lo - top;
  if (lo < top) r -= CARRY;
  uint64_t s = r + mid;
  if (s < mid) s += CARRY;
  return s >= P ? s - P : s;
}

static uint64_t power(uint64_t x, uint64_t n) {
  uint64_t r = 1;
  for (; n; n >>= 1, x = mul(x, x))
    if (n & 1) r = mul(r, x);
  return r;
}

static uint64_t inverse(uint64_t x) { return power(x, P - 2); }

/* A finite double is m * 2^e.  2^192 = 1. */
static uint64_t of_double(double d) {
  int e;
  double m = frexp(fabs(d), &e);
  if (m == 0) return 0;
  uint64_t r = mul((uint64_t)ldexp(m, 53), power(2, (uint64_t)((e - 53) % 192 + 192) % 192));
  return signbit(d) ? negative(r) : r;
}

static uint64_t point(const tn__world *w, uint64_t a, uint64_t b) {
  uint64_t h = tn__hash_mix(tn__hash_mix(w->seed, a), b);
  return h >= P ? h - P : h;
}

/* ---- values ---- */

static bool is_odd(const tn__world *w) { return w->seed & 1; }

static tn__val leaf(tn__world *w, tn__val_kind kind, uint64_t v, int op, int dtype, uint64_t a, uint64_t b) {
  return (tn__val){.v = v, .kind = (uint8_t)kind, .term = w->terms ? tn__term_leaf(w->terms, op, dtype, a, b) : 0};
}

static tn__val number(double d) {
  return (tn__val){.v = tn__eval_from_double(TN_F64, d), .kind = TN__VAL_BITS};
}

double tn__val_number(tn__val x) { return tn__eval_to_double(TN_F64, x.v); }

static tn__val number_constant(int dtype, uint64_t bits) {
  tn__val x = {.v = bits, .kind = TN__VAL_BITS};
  if (tn__is_float(dtype)) x = number(tn__eval_to_double(dtype, bits));
  if (tn__is_float(dtype)) x.off = tn__rounding_of_constant(dtype, tn__val_number(x));
  x.constant = true;
  return x;
}

tn__val tn__val_bits(tn__world *w, int dtype, uint64_t bits) {
  if (w->numeric) return number_constant(dtype, bits);
  return leaf(w, TN__VAL_BITS, bits, OP_CONST, dtype, bits, 0);
}

/* What the field can tell as constants are constants: 0, 1 and -1. */
static tn__val real(int dtype, uint64_t v) {
  double d = v == 0 ? 0 : v == 1 ? 1 : -1;
  if (v == 0 || v == 1 || v == P - 1) return (tn__val){.v = tn__eval_from_double(dtype, d), .kind = TN__VAL_BITS};
  return (tn__val){.v = v, .kind = TN__VAL_REAL};
}

static double constant(int dtype, tn__val x) { return tn__eval_to_double(dtype, x.v); }

/* An unknown, or a constant that is a number. */
static bool is_number(int dtype, tn__val x) { return x.kind == TN__VAL_REAL || isfinite(constant(dtype, x)); }

static uint64_t of_integer(uint64_t v) { return v >> 63 ? negative(-v % P) : v % P; }

static uint64_t element(int dtype, tn__val x) {
  if (x.kind == TN__VAL_REAL) return x.v;
  return dtype == TN_I64 ? of_integer(x.v) : of_double(constant(dtype, x));
}

/* Its place in the order. */
static double place(const tn__world *w, int dtype, tn__val x) {
  if (x.kind == TN__VAL_BITS) return constant(dtype, x);
  uint64_t size = x.v > P / 2 ? P - x.v : x.v, h = tn__hash_mix(w->seed, size);
  double d = exp2((double)(h >> 11) * 0x1p-53 * 6 - 3);
  return x.v > P / 2 ? -d : d;
}

/* ---- worlds ---- */

void tn__world_open(tn_ctx *c, uint32_t number, tn__terms *terms, tn__world *out) {
  *out = (tn__world){.c = c, .seed = tn__hash_mix(0x7e4e7, number) << 1 | (number & 1), .terms = terms};
  tn__map_init(&out->places, &c->scratch);
  tn__map_init(&out->log_of, &c->scratch);
  tn__map_init(&out->whole, &c->scratch);
  tn__map_init(&out->float_of, &c->scratch);
}

static uint64_t input_bits(const tn__world *w, int dtype, uint64_t h, int64_t slot, int64_t at) {
  static const int8_t pool[] = {0, 1, 2, 3, 4, 5, 6, -1};
  uint64_t v = (uint64_t)pool[h % 8], n;
  if (tn__map_get(&w->places, (uint64_t)slot, &n) && n)
    return tn__eval_cast(TN_I64, dtype, ((uint64_t)at + w->seed % n) % n);
  if (dtype == TN_BOOL) return h & 1;
  if (is_odd(w) && (h >> 8 & 3) == 3) v = h >> 9 | h << 55; /* any */
  if (is_odd(w) && (h >> 8 & 3) == 1 && w->nsize) v = (uint64_t)w->size[(h >> 10) % w->nsize] + (h >> 40) % 3 - 1;
  return tn__eval_cast(TN_I64, dtype, v);
}

/* A number of either sign that is neither large nor small; in odd worlds one of few. */
static double draw(const tn__world *w, uint64_t h) {
  double size = 0.5 + 1.5 * (double)(is_odd(w) ? h >> 3 & 7 : h >> 12) / (is_odd(w) ? 8 : 0x1p52);
  return h & 1 ? -size : size;
}

tn__val tn__val_input(tn__world *w, int dtype, int64_t slot, int64_t at) {
  uint64_t h = point(w, (uint64_t)slot, (uint64_t)at);
  if (!tn__is_float(dtype))
    return leaf(w, TN__VAL_BITS, input_bits(w, dtype, h, slot, at), OP_PARAM, dtype, (uint64_t)slot, (uint64_t)at);
  if (w->exact) return (tn__val){.v = tn__eval_from_double(dtype, draw(w, h)), .kind = TN__VAL_BITS};
  bool known = is_odd(w) && !w->plain && h % 8 < 2;
  if (w->numeric) return number(known ? (double)(h % 8) : draw(w, h));
  tn__val x = {.v = h, .kind = TN__VAL_REAL};
  if (is_odd(w) && h % 8 < 6)
    x = known ? real(dtype, h % 8) : (tn__val){.v = point(w, UINT64_MAX, h % 8), .kind = TN__VAL_REAL};
  if (w->terms) x.term = tn__term_leaf(w->terms, OP_PARAM, dtype, (uint64_t)slot, (uint64_t)at);
  return x;
}

/* ---- functions of unknowns ---- */

/* A constant with which x behaves alike where the other operand is infinite, or zero. */
static uint64_t stand_in(const tn__world *w, int dtype, tn__val x) {
  return x.kind == TN__VAL_BITS ? x.v : tn__eval_from_double(dtype, place(w, dtype, x) < 0 ? -1 : 1);
}

static tn__val at_limit(const tn__world *w, int op, int dtype, const tn__val *x) {
  uint64_t arg[3] = {stand_in(w, dtype, x[0]), stand_in(w, dtype, x[1])};
  return (tn__val){.v = tn__eval(op, dtype, dtype, arg), .kind = TN__VAL_BITS};
}

static tn__val arithmetic(const tn__world *w, int op, int dtype, const tn__val *x) {
  if (!is_number(dtype, x[0]) || !is_number(dtype, x[1])) return at_limit(w, op, dtype, x);
  uint64_t a = element(dtype, x[0]), b = element(dtype, x[1]);
  if (op == OP_DIV && b == 0) return at_limit(w, op, dtype, x);
  return real(dtype, op == OP_ADD ? add(a, b) : mul(a, op == OP_DIV ? inverse(b) : b));
}

static tn__val negate(const tn__world *w, int op, int dtype, const tn__val *x) {
  (void)w, (void)op;
  return real(dtype, negative(x[0].v));
}

static tn__val absolute(const tn__world *w, int op, int dtype, const tn__val *x) {
  return place(w, dtype, x[0]) < 0 ? negate(w, op, dtype, x) : x[0];
}

static tn__val sign(const tn__world *w, int op, int dtype, const tn__val *x) {
  (void)op;
  return (tn__val){.v = tn__eval_from_double(dtype, place(w, dtype, x[0]) < 0 ? -1 : 1), .kind = TN__VAL_BITS};
}

static bool are_equal(int dtype, const tn__val *x) {
  return is_number(dtype, x[0]) && is_number(dtype, x[1]) && element(dtype, x[0]) == element(dtype, x[1]);
}

static tn__val choose(const tn__world *w, int op, int dtype, const tn__val *x) {
  double a = place(w, dtype, x[0]), b = place(w, dtype, x[1]);
  if (isnan(a) || isnan(b)) return x[!isnan(a)];
  return x[op == OP_MIN ? a > b : a < b];
}

static tn__val fused(const tn__world *w, int op, int dtype, const tn__val *x) {
  (void)op;
  return arithmetic(w, OP_ADD, dtype, (tn__val[]){arithmetic(w, OP_MUL, dtype, x), x[2]});
}

typedef tn__val (*meaning)(const tn__world *w, int op, int dtype, const tn__val *x);
static const meaning meanings[OP_COUNT] = {
    [OP_NEG] = negate,     [OP_ABS] = absolute,   [OP_SIGN] = sign,  [OP_ADD] = arithmetic, [OP_MUL] = arithmetic,
    [OP_DIV] = arithmetic, [OP_MIN] = choose,     [OP_MAX] = choose, [OP_FMA] = fused,
};

/* Only a function: of f64, or of any shorter type, since bf16 may be computed in f32. */
static tn__val atom(tn__world *w, int op, int dtype, const tn__val *x, uint32_t n) {
  uint64_t h = tn__hash_mix((uint64_t)op * 2 + (dtype == TN_F64), n), known = 0;
  bool rounds = op == OP_FLOOR || op == OP_CEIL || op == OP_ROUND || op == OP_TRUNC;
  if (op == OP_POW && x[1].kind == TN__VAL_BITS && constant(dtype, x[1]) == 0) return real(dtype, 1);
  if (op == OP_POW && x[1].kind == TN__VAL_BITS && constant(dtype, x[1]) == 1) return x[0];
  if (op == OP_LOG && tn__map_get(&w->log_of, x[0].v, &known)) return (tn__val){.v = known, .kind = TN__VAL_REAL};
  if (rounds && tn__map_get(&w->whole, x[0].v, &known) && (known & 1ull << op)) return x[0];
  for (uint32_t i = 0; i < n; i++)
    h = tn__hash_mix(h, is_number(dtype, x[i]) ? element(dtype, x[i]) : UINT64_MAX - (constant(dtype, x[i]) > 0));
  tn__val y = {.v = point(w, h, 0), .kind = TN__VAL_REAL};
  if (op == OP_EXP) tn__map_put(&w->log_of, y.v, x[0].v);
  if (rounds) tn__map_put(&w->whole, y.v, 1ull << op);
  return y;
}

static tn__val compare(const tn__world *w, int op, int dtype, const tn__val *x) {
  double a = place(w, dtype, x[0]), b = are_equal(dtype, x) ? a : place(w, dtype, x[1]);
  uint64_t arg[2] = {tn__eval_from_double(TN_F64, a), tn__eval_from_double(TN_F64, b)};
  return (tn__val){.v = tn__eval(op, TN_BOOL, TN_F64, arg), .kind = TN__VAL_BITS};
}

static uint64_t bits_key(int dtype, uint64_t bits) { return tn__hash_mix(bits, tn__size_of(dtype)); }

enum { DRAWS = 16 }; /* for an unknown, as long as others have what is drawn */

/* An unknown's bits are drawn: those of no constant that the field tells, and none twice.  They are the same each time,
 * since what they stand for is kept.  Where none are left to be found, nothing is sure. */
static uint64_t bits_of(tn__world *w, int dtype, int sdtype, uint64_t x) {
  uint64_t bits = 0, taken;
  for (uint64_t draw = 0; draw < DRAWS; draw++) {
    uint64_t drawn = tn__eval(OP_BITCAST, sdtype, sdtype, (uint64_t[]){tn__hash_mix(w->seed + draw, x)});
    double d = tn__eval_to_double(sdtype, drawn);
    bits = tn__eval(OP_BITCAST, dtype, sdtype, &drawn);
    if (!isfinite(d) || d == 0 || fabs(d) == 1) continue;
    if (!tn__map_get(&w->float_of, bits_key(dtype, bits), &taken)) {
      tn__map_put(&w->float_of, bits_key(dtype, bits), x);
      return bits;
    }
    if (taken == x) return bits;
  }
  w->rounded = true;
  return bits;
}

static tn__val convert(tn__world *w, int op, int dtype, int sdtype, tn__val x) {
  if (op == OP_CAST && tn__is_float(dtype)) return x;
  if (op == OP_CAST)
    return (tn__val){.v = dtype == TN_BOOL ? 1 : tn__eval_from_double(dtype, place(w, sdtype, x)),
                     .kind = TN__VAL_BITS};
  uint64_t bits = bits_of(w, dtype, sdtype, x.v);
  return tn__is_float(dtype) ? x : (tn__val){.v = bits, .kind = TN__VAL_BITS};
}

/* A constant of bf16 may be kept in f32 (lower/widen.c): is it the same there? */
static bool is_short(int op, const uint64_t *x, uint32_t n, uint64_t y) {
  uint64_t wide[3] = {0};
  for (uint32_t i = 0; i < n; i++) wide[i] = tn__eval_cast(TN_BF16, TN_F32, x[i]);
  return tn__eval(op, TN_F32, TN_F32, wide) == tn__eval_cast(TN_BF16, TN_F32, y);
}

static tn__val of_bits(tn__world *w, int op, int dtype, int sdtype, const tn__val *x, uint32_t n) {
  uint64_t arg[3] = {0}, known;
  for (uint32_t i = 0; i < n; i++) arg[i] = x[i].v;
  if (op == OP_BITCAST && tn__is_float(dtype) && tn__map_get(&w->float_of, bits_key(sdtype, arg[0]), &known))
    return real(dtype, known);
  tn__val y = {.v = tn__eval(op, dtype, sdtype, arg), .kind = TN__VAL_BITS};
  if (dtype == TN_BF16 && sdtype == TN_BF16 && w->c->mode != TN_MODE_STRICT && !is_short(op, arg, n, y.v))
    w->rounded = true;
  return y;
}

static tn__val evaluate(tn__world *w, int op, int dtype, int sdtype, const tn__val *x, uint32_t n) {
  bool known = true;
  for (uint32_t i = 0; i < n; i++) {
    if (x[i].kind == TN__VAL_NONE) return x[i];
    known &= x[i].kind == TN__VAL_BITS;
  }
  if (known) return of_bits(w, op, dtype, sdtype, x, n);
  if (op == OP_CAST || op == OP_BITCAST) return convert(w, op, dtype, sdtype, x[0]);
  if (dtype == TN_BOOL) return compare(w, op, sdtype, x);
  return meanings[op] ? meanings[op](w, op, dtype, x) : atom(w, op, dtype, x, n);
}

/* What an integer came from says less than what it is. */
uint32_t tn__val_term(tn__world *w, int dtype, tn__val x) {
  bool plain = x.kind == TN__VAL_BITS && (!tn__is_float(dtype) || w->terms->v.v[x.term].op == OP_CONST);
  return plain ? tn__term_leaf(w->terms, OP_CONST, dtype, x.v, 0) : x.term;
}

static tn__val record(tn__world *w, int op, int dtype, int sdtype, const tn__val *x, uint32_t n, tn__val y) {
  uint32_t arg[3] = {0};
  for (uint32_t i = 0; i < n; i++) arg[i] = tn__val_term(w, sdtype, x[i]);
  y.term = tn__term_of(w->terms, op, dtype, arg, n);
  return y;
}

/* What most steps are: sums and products of unknowns, and of indices.  False: it is none of these. */
static bool evaluate_usual(int op, int dtype, const tn__val *x, tn__val *y) {
  if ((op != OP_ADD && op != OP_MUL) || x[0].kind != x[1].kind) return false;
  if (x[0].kind == TN__VAL_REAL) {
    uint64_t v = (op == OP_ADD ? add : mul)(x[0].v, x[1].v);
    if (v < 2 || v == P - 1) return false;
    *y = (tn__val){.v = v, .kind = TN__VAL_REAL};
    return true;
  }
  if (dtype != TN__INDEX || x[0].kind != TN__VAL_BITS) return false;
  *y = (tn__val){.v = op == OP_ADD ? x[0].v + x[1].v : x[0].v * x[1].v, .kind = TN__VAL_BITS};
  return true;
}

static int numeric_dtype(int dtype) { return tn__is_float(dtype) ? TN_F64 : dtype; }

static tn__val number_of(int op, int dtype, int sdtype, const tn__val *x, uint64_t *arg) {
  if (op != OP_BITCAST)
    return (tn__val){.v = tn__eval(op, numeric_dtype(dtype), numeric_dtype(sdtype), arg), .kind = TN__VAL_BITS};
  if (tn__is_float(sdtype)) arg[0] = tn__eval_from_double(sdtype, tn__val_number(x[0]));
  uint64_t bits = tn__eval(op, dtype, sdtype, arg);
  return tn__is_float(dtype) ? number(tn__eval_to_double(dtype, bits)) : (tn__val){.v = bits, .kind = TN__VAL_BITS};
}

/* Rules find constants where none were (x / x is 1, the greatest of sin x and 2 is 2), and go on from there: what is
 * whole, or one of the operands that is a constant, may be one. */
static bool is_simple(const tn__val *x, uint32_t n, double y) {
  bool simple = y == rint(y);
  for (uint32_t i = 0; i < n; i++) simple |= x[i].constant && y == tn__val_number(x[i]);
  return simple;
}

/* In a numeric world all is known. */
static tn__val evaluate_numbers(int op, int dtype, int sdtype, const tn__val *x, uint32_t n) {
  uint64_t arg[3] = {0};
  bool constant = true;
  for (uint32_t i = 0; i < n; i++) {
    if (x[i].kind == TN__VAL_NONE) return x[i];
    arg[i] = x[i].v;
    constant &= x[i].constant;
  }
  tn__val y = number_of(op, dtype, sdtype, x, arg);
  y.constant = constant || (tn__is_float(dtype) && is_simple(x, n, tn__val_number(y)));
  y.off = tn__rounding_of(op, dtype, sdtype, x, n, y);
  return y;
}

/* Which one it is may be too close to call. */
static tn__val choose_number(const tn__val *x) {
  tn__val y = x[x[0].v ? 1 : 2];
  if (x[0].off > 0 && x[1].v != x[2].v) y.off = INFINITY;
  return y;
}

tn__val tn__val_eval(tn__world *w, int op, int dtype, int sdtype, const tn__val *x) {
  uint32_t n = tn__ops[op].max_src;
  tn__val usual;
  if (w->numeric && op != OP_WHERE) return evaluate_numbers(op, dtype, sdtype, x, n);
  if (!w->terms && evaluate_usual(op, dtype, x, &usual)) return usual;
  if (op == OP_WHERE && x[0].kind == TN__VAL_NONE) return x[0];
  if (op == OP_WHERE) return w->numeric ? choose_number(x) : x[x[0].v ? 1 : 2];
  tn__val y = evaluate(w, op, dtype, sdtype, x, n);
  y.dtype = 0;
  return w->terms ? record(w, op, dtype, sdtype, x, n, y) : y;
}

tn__val tn__val_collect(tn__world *w, int op, int dtype, tn__val x, tn__val y) {
  tn__val arg[2] = {x, y}, z = tn__val_eval(w, op, dtype, dtype, arg);
  if (w->numeric || w->exact || (op != OP_ADD && op != OP_MUL) || !tn__is_float(dtype)) return z;
  if (z.kind != TN__VAL_BITS || x.kind != TN__VAL_BITS || y.kind != TN__VAL_BITS) return z;
  if (!is_number(dtype, x) || !is_number(dtype, y)) return z;
  uint64_t exact = (op == OP_ADD ? add : mul)(element(dtype, x), element(dtype, y));
  if (is_number(dtype, z) && element(dtype, z) == exact) return z;
  uint32_t term = z.term;
  w->rounded = true;
  z = real(dtype, exact);
  z.term = term;
  return z;
}

static tn__val counted(tn__world *w, tn__val x) {
  if (x.kind == TN__VAL_REAL) return x;
  tn__val y = tn__val_eval(w, OP_CAST, TN_I64, TN_F32, &x);
  bool whole = x.kind != TN__VAL_BITS || w->numeric || tn__eval_cast(TN_I64, TN_F32, y.v) == x.v;
  w->rounded |= !whole && constant(TN_F32, x) != 0;
  return y;
}

tn__val tn__val_combined(tn__world *w, int by, int dtype, int vdtype, tn__val to, tn__val x) {
  if (by != OP_ADD) return tn__val_collect(w, by, dtype, to, x);
  if (tn__is_counted(dtype, vdtype)) x = counted(w, x);
  if (!tn__is_added_wide(dtype, vdtype)) return tn__val_collect(w, OP_ADD, dtype, to, x);
  tn__val sum = tn__val_collect(w, OP_ADD, vdtype, tn__val_eval(w, OP_CAST, vdtype, dtype, &to), x);
  return tn__val_eval(w, OP_CAST, dtype, vdtype, &sum);
}

bool tn__val_same(int dtype, tn__val x, tn__val y) {
  if (x.kind == TN__VAL_NONE || y.kind == TN__VAL_NONE) return false;
  if (x.kind == y.kind && x.v == y.v) return true;
  if (!tn__is_float(dtype)) return false;
  if (is_number(dtype, x) && is_number(dtype, y)) return element(dtype, x) == element(dtype, y);
  return x.kind == y.kind && isnan(constant(dtype, x)) && isnan(constant(dtype, y));
}
