/* The scalar evaluator against independent oracles: wide integers, brute-force rounding, the C library in double. */
#include "ir/eval.h"
#include "ir/shape.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

#include "ir/math_c.inc"
#include "ir/math.inc"
#include "support/exact.h"

__extension__ typedef __int128 wide;
static const int ints[] = {TN_I8, TN_I16, TN_I32, TN_I64, TN_U8, TN_U16, TN_U32, TN_U64, TN__INDEX};
enum { INTS = sizeof ints / sizeof *ints };

static int width(int dt) { return 8 * (int)tn__size_of(dt); }
static wide value(int dt, u64 bits) { return tn__dtypes[dt].is_signed ? (wide)(i64)bits : (wide)bits; }
/* The representation of an integer modulo 2^width. */
static u64 wrapped(int dt, wide v) {
  wide m = (wide)1 << width(dt), r = v % m;
  if (r < 0) r += m;
  if (tn__dtypes[dt].is_signed && r >= m / 2) r -= m;
  return (u64)r;
}

/* ---- every op has its case ---- */

static void test_every_op(void **state) {
  (void)state;
  for (int op = 0; op < OP_COUNT; op++) {
    int group = tn__ops[op].group;
    if (group < G_UNARY || group > G_CAST) continue;
    for (int dt = 0; dt < TN__VOID; dt++)
      if (tn__op_takes(op, dt)) {
        if (!tn__eval_defined(op, dt)) fail_msg("%s of %s has no case", tn__ops[op].text, tn__dtypes[dt].name);
        tn__eval(op, tn__ops[op].dtype_rule == DT_BOOL ? TN_BOOL : dt, dt, (u64[]){1, 1, 1});
      }
  }
  assert_false(tn__eval_defined(OP_EXP, TN_I32));
  assert_false(tn__eval_defined(OP_SUM, TN_F32));
}

/* ---- integers ---- */

static wide floor_quotient(wide a, wide b) {
  wide q = a / b;
  while (b > 0 ? q * b > a : q * b < a) q--;
  return q;
}

static wide integer_power(int dt, wide a, wide n) {
  if (n < 0) return a == 1 ? 1 : a == -1 ? (n % 2 ? -1 : 1) : 0;
  wide r = 1;
  for (wide k = 0; k < n; k++) r = value(dt, wrapped(dt, (wide)((u64)r * (u64)a)));
  return r;
}

static wide shifted(int dt, wide a, u64 count, bool left) {
  u64 n = dt == TN_I64 || dt == TN_U64 || dt == TN__INDEX ? count : count & (((u64)1 << width(dt)) - 1);
  if (n >= (u64)width(dt)) return left ? 0 : a < 0 ? -1 : 0;
  return left ? a * ((wide)1 << n) : floor_quotient(a, (wide)1 << n);
}

/* What op gives on integers; false for ops that are not tried here. */
static bool oracle(int op, int dt, u64 x, u64 y, wide *r) {
  wide a = value(dt, x), b = value(dt, y);
  switch (op) {
  case OP_NEG: *r = -a; return true;
  case OP_ABS: *r = a < 0 ? -a : a; return true;
  case OP_SIGN: *r = a > 0 ? 1 : a < 0 ? -1 : 0; return true;
  case OP_NOT: *r = -1 - a; return true;
  case OP_ADD: *r = a + b; return true;
  case OP_MUL: *r = (wide)((__extension__ (unsigned __int128)a) * (__extension__ (unsigned __int128)b)); return true;
  case OP_IDIV: *r = b ? floor_quotient(a, b) : 0; return true;
  case OP_MOD: *r = b ? a - b * floor_quotient(a, b) : a; return true;
  case OP_FMOD: *r = b ? a % b : 0; return true;
  case OP_POW: *r = b < 300 ? integer_power(dt, a, b) : 0; return b < 300;
  case OP_MIN: *r = a < b ? a : b; return true;
  case OP_MAX: *r = a > b ? a : b; return true;
  case OP_AND: *r = a & b; return true;
  case OP_OR: *r = a | b; return true;
  case OP_XOR: *r = a ^ b; return true;
  case OP_SHL: *r = shifted(dt, a, y, true); return true;
  case OP_SHR: *r = shifted(dt, a, y, false); return true;
  case OP_LT: *r = a < b; return true;
  case OP_LE: *r = a <= b; return true;
  case OP_EQ: *r = a == b; return true;
  case OP_NE: *r = a != b; return true;
  default: return false;
  }
}

static void check_ints(int dt, u64 x, u64 y) {
  for (int op = OP_NEG; op <= OP_NE; op++) {
    wide want;
    if (!oracle(op, dt, x, y, &want)) continue;
    bool is_bool = tn__ops[op].dtype_rule == DT_BOOL;
    u64 got = tn__eval(op, is_bool ? TN_BOOL : dt, dt, (u64[]){x, y}),
        expected = is_bool ? want != 0 : wrapped(dt, want);
    if (got != expected)
      fail_msg("%s of %s %ld, %ld: %ld, not %ld", tn__ops[op].text, tn__dtypes[dt].name, (i64)x, (i64)y, (i64)got,
               (i64)expected);
  }
}

static void test_narrow_integers(void **state) {
  (void)state;
  for (u64 x = 0; x < 256; x++)
    for (u64 y = 0; y < 256; y++) {
      check_ints(TN_U8, x, y);
      check_ints(TN_I8, wrapped(TN_I8, (wide)x), wrapped(TN_I8, (wide)y));
    }
}

static u64 random_state = 7;
static u64 random_bits(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return random_state ^ random_state >> 29;
}

static u64 edge(int dt, u32 i) {
  static const i64 near[] = {0, 1, -1, 2, -2, 3, 7, -7, 8, 31, 32, 33, 63, 64, 65};
  enum { NEAR = sizeof near / sizeof *near };
  wide top = (wide)1 << (width(dt) - 1);
  if (i < NEAR) return wrapped(dt, near[i]);
  wide far[] = {top - 1, top, top + 1, -top, 2 * top - 1, top / 2};
  return i < NEAR + 6 ? wrapped(dt, far[i - NEAR]) : tn__eval_cast(TN_I64, dt, random_bits());
}

static void test_wide_integers(void **state) {
  (void)state;
  for (int d = 0; d < INTS; d++)
    for (u32 i = 0; i < 60; i++)
      for (u32 j = 0; j < 60; j++) check_ints(ints[d], edge(ints[d], i), edge(ints[d], j));
}

static void test_bool(void **state) {
  (void)state;
  /* op, results for (0,0) (0,1) (1,0) (1,1) */
  static const u64 table[][5] = {
      {OP_ADD, 0, 1, 1, 1},  {OP_MUL, 0, 0, 0, 1}, {OP_NEG, 0, 0, 1, 1}, {OP_ABS, 0, 0, 1, 1}, {OP_SIGN, 0, 0, 1, 1},
      {OP_NOT, 1, 1, 0, 0},  {OP_AND, 0, 0, 0, 1}, {OP_OR, 0, 1, 1, 1},  {OP_XOR, 0, 1, 1, 0}, {OP_MIN, 0, 0, 0, 1},
      {OP_MAX, 0, 1, 1, 1},  {OP_LT, 0, 1, 0, 0},  {OP_LE, 1, 1, 0, 1},  {OP_EQ, 1, 0, 0, 1},  {OP_NE, 0, 1, 1, 0},
      {OP_IDIV, 0, 0, 0, 1}, {OP_MOD, 0, 0, 1, 0}, {OP_POW, 1, 0, 1, 1}, {OP_FMOD, 0, 0, 0, 0}};
  for (size_t k = 0; k < sizeof table / sizeof *table; k++)
    for (u64 i = 0; i < 4; i++)
      assert_int_equal(tn__eval((int)table[k][0], TN_BOOL, TN_BOOL, (u64[]){i >> 1, i & 1}), table[k][1 + i]);
}

/* ---- f16 and bf16 ---- */

/* An f16 or bf16 by its definition. */
static f64 half_value(int dt, u32 h) {
  int fraction_bits = dt == TN_F16 ? 10 : 7, bias = dt == TN_F16 ? 15 : 127, top = 2 * bias + 1;
  int exponent = (int)(h >> fraction_bits) & top;
  f64 fraction = (f64)(h & ((1u << fraction_bits) - 1)), sign = h >> 15 ? -1 : 1;
  if (exponent == top) return fraction != 0 ? NAN : sign * INFINITY;
  return sign *
         ldexp(exponent ? fraction + (1 << fraction_bits) : fraction, (exponent ? exponent : 1) - bias - fraction_bits);
}

static void test_half_conversions(void **state) {
  (void)state;
  for (int dt = TN_F16; dt <= TN_BF16; dt++)
    for (u32 h = 0; h < 65536; h++) {
      f64 v = half_value(dt, h);
      if (isnan(v)) {
        assert_true(isnan(tn__eval_to_double(dt, h)));
        assert_int_equal(tn__eval(OP_NEG, dt, dt, (u64[]){h}), h ^ 0x8000); /* the payload passes through */
        continue;
      }
      f64 got = tn__eval_to_double(dt, h);
      assert_memory_equal(&got, &v, sizeof v);
      assert_int_equal(tn__eval_from_double(dt, v), h);
      assert_int_equal(tn__eval_cast(TN_F32, dt, tn_f32_bits((f32)v)), h);
      f64 next = half_value(dt, h + 1); /* away from 0 */
      if (isinf(v) || (h & 0x7fff) == 0x7fff) continue;
      if (isinf(next)) next = copysign(dt == TN_F16 ? 0x1p16 : 0x1p128, v); /* where the next number would be */
      f64 middle = (v + next) / 2;
      assert_int_equal(tn__eval_from_double(dt, middle), h + (h & 1));
      /* rounded once: f32 does not see the difference */
      assert_int_equal(tn__eval_from_double(dt, nextafter(middle, v)), h);
      assert_int_equal(tn__eval_from_double(dt, nextafter(middle, next)), h + 1);
      assert_int_equal(tn__eval_cast(TN_F32, dt, tn_f32_bits((f32)middle)), h + (h & 1));
      assert_int_equal(tn__eval_cast(TN_F32, dt, tn_f32_bits(nextafterf((f32)middle, (f32)v))), h);
    }
}

static void test_half_functions(void **state) {
  (void)state;
  for (int dt = TN_F16; dt <= TN_BF16; dt++)
    for (int op = 0; op < OP_COUNT; op++)
      for (u32 h = 0; h < 65536 && exact_is_function(op, 1); h++) {
        f64 x = half_value(dt, h), r = (f64)exact_value(op, (long double)x, 0, 0);
        u64 got = tn__eval(op, dt, dt, (u64[]){h}), want = tn__eval_from_double(dt, r);
        f64 y = tn__eval_to_double(dt, got);
        if (got == want || (isnan(r) && isnan(y))) continue;
        /* the other neighbour, if r is within the error of f32 of the middle */
        f64 middle = (y + tn__eval_to_double(dt, want)) / 2;
        if (!(fabs(r - middle) <= 4 * 0x1p-24 * fabs(r)) || (got != want + 1 && got + 1 != want))
          fail_msg("%s of %s %a: %a, not %a", tn__ops[op].text, tn__dtypes[dt].name, x, y, r);
      }
}

static void test_fma_rounds_once(void **state) {
  (void)state;
  for (int dt = TN_F16; dt <= TN_BF16; dt++)
    for (u32 i = 0; i < 400000; i++) {
      u64 a[3] = {random_bits() & 0xffff, random_bits() & 0xffff, random_bits() & 0xffff};
      long double x = half_value(dt, (u32)a[0]), y = half_value(dt, (u32)a[1]), z = half_value(dt, (u32)a[2]),
                  s = x * y + z;
      long double e = x * y - s + z; /* what s lost; exact where it matters, as the operands are short */
      f64 d = (f64)s;
      if (isnan(d) || fabs(d) > 0x1p120 || fabs(d) < 0x1p-100) continue;
      if ((long double)d != s || e != 0) { /* to odd */
        long double rest = s - (long double)d + e;
        if ((rest > 0) != (d > 0)) d = nextafter(d, 0);
        d = tn_f64_of(tn_f64_bits(d) | 1);
      }
      assert_int_equal(tn__eval(OP_FMA, dt, dt, a), tn__eval_from_double(dt, d));
    }
  /* 1 + 2^-8 is a tie in bf16; the addend, far below f32's and f64's last place, breaks it. */
  u64 one = 0x3f80, tie = tn__eval_from_double(TN_BF16, 0x1p-8), tiny = tn__eval_from_double(TN_BF16, 0x1p-100);
  u64 half_step = tn__eval(OP_FMA, TN_BF16, TN_BF16, (u64[]){tie, one, one});
  assert_int_equal(half_step, one);
  /* 1.12890625: a tie */
  u64 factor = tn__eval_from_double(TN_BF16, 1.0625), other = tn__eval_from_double(TN_BF16, 1.0625);
  u64 down = tn__eval(OP_FMA, TN_BF16, TN_BF16, (u64[]){factor, other, tiny | 0x8000}),
      up = tn__eval(OP_FMA, TN_BF16, TN_BF16, (u64[]){factor, other, tiny});
  assert_int_equal(up, down + 1);
}

/* ---- f32 and f64 ---- */

static const f64 edges[] = {0.0,
                            -0.0,
                            1,
                            -1,
                            0.5,
                            -0.5,
                            1.5,
                            2.5,
                            -2.5,
                            3,
                            -3,
                            7,
                            1e-3,
                            0x1p-149,
                            -0x1p-149,
                            0x1p-126,
                            0x1.fffffep127,
                            -0x1.fffffep127,
                            0x1p23,
                            0x1p24,
                            1e10,
                            INFINITY,
                            -INFINITY,
                            NAN};
enum { EDGES = sizeof edges / sizeof *edges };

/* By way of long double, which rounds twice; of these edges nothing lies midway between two values of f64. */
static void check_binary(int op) {
  for (int i = 0; i < EDGES; i++)
    for (int j = 0; j < EDGES; j++)
      for (int dt = TN_F32; dt <= TN_F64; dt++) {
        f64 a = dt == TN_F32 ? (f64)(f32)edges[i] : edges[i], b = dt == TN_F32 ? (f64)(f32)edges[j] : edges[j];
        u64 got = tn__eval(op, dt, dt, (u64[]){tn__eval_from_double(dt, a), tn__eval_from_double(dt, b)});
        f64 y = tn__eval_to_double(dt, got), want = (f64)exact_value(op, (long double)a, (long double)b, 0);
        if (dt == TN_F32) want = (f64)(f32)want;
        if (isnan(want) && isnan(y)) continue;
        if (memcmp(&y, &want, sizeof y))
          fail_msg("%s(%a, %a) in %s: %a, not %a", tn__ops[op].text, a, b, tn__dtypes[dt].name, y, want);
      }
}

static void test_float_binaries(void **state) {
  (void)state;
  for (int op = 0; op < OP_COUNT; op++)
    if (exact_is_function(op, 2) && tn__ops[op].rounding != RN_LIBRARY) check_binary(op);
  for (int i = 0; i < EDGES; i++)
    for (int j = 0; j < EDGES; j++)
      for (int dt = TN_F32; dt <= TN_F64; dt++) {
        u64 a[2] = {tn__eval_from_double(dt, edges[i]), tn__eval_from_double(dt, edges[j])};
        assert_int_equal(tn__eval(OP_LT, TN_BOOL, dt, a), edges[i] < edges[j]);
        assert_int_equal(tn__eval(OP_LE, TN_BOOL, dt, a), edges[i] <= edges[j]);
        assert_int_equal(tn__eval(OP_EQ, TN_BOOL, dt, a), edges[i] == edges[j]);
        assert_int_equal(tn__eval(OP_NE, TN_BOOL, dt, a), edges[i] != edges[j]);
      }
}

/* ---- floor division: the one that belongs to the remainder ---- */

static void check_floor_division(int dt, f64 x, f64 y, f64 want) {
  u64 a[2] = {tn__eval_from_double(dt, x), tn__eval_from_double(dt, y)};
  f64 q = tn__eval_to_double(dt, tn__eval(OP_IDIV, dt, dt, a));
  if (isnan(want) ? !isnan(q) : tn_f64_bits(q) != tn_f64_bits(want))
    fail_msg("%a idiv %a in %s: %a, not %a", x, y, tn__dtypes[dt].name, q, want);
}

/* As Python has them. */
static void test_floor_division(void **state) {
  (void)state;
  const f64 inf = INFINITY;
  const struct {
    f64 x, y, q;
  } rows[] = {{1, 0.1, 9},      {-1, 0.1, -10}, {1, -0.1, -10}, {-1, -0.1, 9},   {6, 0.1, 59},     {0.3, 0.1, 2},
              {0.5, 0.1, 4},    {7, 2, 3},      {-7, 2, -4},    {7, -2, -4},     {-7, -2, 3},      {0.0, 3, 0.0},
              {-0.0, 3, -0.0},  {0.0, -3, -0.0}, {2, 3, 0.0},   {-2, -3, 0.0},   {2, -3, -1},      {1, inf, 0.0},
              {-1, inf, -1},    {1, -inf, -1},  {-1, -inf, 0.0}, {inf, 1, NAN},  {-inf, 2, NAN},   {inf, inf, NAN},
              {1, 0.0, inf},    {1, -0.0, -inf}, {-1, 0.0, -inf}, {0.0, 0.0, NAN}, {NAN, 1, NAN},   {1, NAN, NAN},
              {inf, 0.0, inf},  {0x1p-1074, 1, 0.0}, {-0x1p-1074, 1, -1}, {0x1p-1074, 0x1p-1074, 1},
              {1e300, 1e-10, INFINITY}, {0x1p60, 3, 0x1.5555555555555p58}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    check_floor_division(TN_F64, rows[i].x, rows[i].y, rows[i].q);
  check_floor_division(TN_F32, (f64)1.0f, (f64)0.1f, 9);
  check_floor_division(TN_F32, (f64)0.6f, (f64)0.2f, 3); /* 0.6f is above three times 0.2f */
  check_floor_division(TN_F16, 1, (f64)(tn_f16_of(tn_f16_bits(0.1f))), 10); /* there 0.1 is less than a tenth */
}

/* x = q y + (x mod y) exactly, wherever q is small enough for that: of all floats, and of quotients near whole ones. */
static void test_floor_division_and_remainder(void **state) {
  (void)state;
  for (u32 i = 0; i < 400000; i++) {
    f32 x = tn_f32_of((u32)random_bits()), y = tn_f32_of((u32)random_bits());
    if (i & 1) x = y * (f32)((int)(random_bits() % 2000) - 1000);
    if (i & 2) y = tn_f32_of((tn_f32_bits(x) & 0xff000000u) | ((u32)random_bits() & 0xffffffu));
    long double r = fmodl(x, y);
    if (r != 0 && (r < 0) != (y < 0)) r += y;
    long double q = ((long double)x - r) / y; /* whole; two roundings in f32 are off by less than a half below 2^21 */
    if (!isfinite(x) || !isfinite(y) || y == 0 || fabsl(q) > 0x1p21l) continue;
    f64 got = tn__eval_to_double(TN_F32, tn__eval(OP_IDIV, TN_F32, TN_F32, (u64[]){tn_f32_bits(x), tn_f32_bits(y)}));
    if (got != (f64)rintl(q)) fail_msg("%a idiv %a: %a, not %a", (f64)x, (f64)y, got, (f64)rintl(q));
  }
}

static bool is_near(f64 y, f64 want) { /* the same to two units of the last place */
  u64 a = tn_f64_bits(y), b = tn_f64_bits(want);
  return (a > b ? a - b : b - a) <= 2;
}

/* Of f64: the C library's functions, or nearly those, and what rounds once or not at all. */
static void check_unary(int op, f64 x) {
  static const bool own[OP_COUNT] = {
#define OWN(op, name, bound) [OP_##op] = true,
      TN_MATH_TWICE(OWN)};
  static f64 (*const library[OP_COUNT])(f64) = {
#define ROW(op, name, bound) [OP_##op] = name,
      TN_MATH_1(ROW)};
  f64 y = tn__eval_to_double(TN_F64, tn__eval(op, TN_F64, TN_F64, (u64[]){tn_f64_bits(x)})),
      want = library[op] ? library[op](x) : (f64)exact_value(op, (long double)x, 0, 0);
  if (isnan(want) ? !isnan(y) : own[op] ? !is_near(y, want) : tn_f64_bits(y) != tn_f64_bits(want))
    fail_msg("%s(%a): %a, not %a", tn__ops[op].text, x, y, want);
}

static void test_float_unaries(void **state) {
  (void)state;
  for (int i = 0; i < EDGES; i++) {
    f64 x = edges[i];
    for (int op = 0; op < OP_COUNT; op++)
      if (exact_is_function(op, 1)) check_unary(op, x);
    for (int dt = TN_F32; dt <= TN_F64; dt++) {
      u64 bits = tn__eval_from_double(dt, x), s = tn__eval(OP_SIGN, dt, dt, &bits);
      assert_int_equal(s, isnan(x) || x == 0 ? bits : tn__eval_from_double(dt, x > 0 ? 1 : -1));
      assert_int_equal(tn__eval(OP_NEG, dt, dt, &bits), bits ^ (u64)1 << (width(dt) - 1));
    }
    f32 narrow = (f32)x;
    u64 bits = tn_f32_bits(narrow);
    if (!isnan(x)) {
      assert_int_equal(tn__eval(OP_ROUND, TN_F32, TN_F32, &bits), tn_f32_bits(rintf(narrow)));
      assert_int_equal(tn__eval(OP_FLOOR, TN_F32, TN_F32, &bits), tn_f32_bits(floorf(narrow)));
    }
  }
  u64 fused[] = {tn_f32_bits(0x1.000002p0f), tn_f32_bits(0x1.000002p0f), tn_f32_bits(-0x1.000004p0f)};
  assert_int_equal(tn__eval(OP_FMA, TN_F32, TN_F32, fused), tn_f32_bits(0x1p-46f));
}

/* ---- casts ---- */

static void test_float_to_int(void **state) {
  (void)state;
  for (int d = 0; d < INTS; d++) {
    int dt = ints[d], bits = width(dt) - tn__dtypes[dt].is_signed;
    f64 end = ldexp(1, bits);
    u64 most = wrapped(dt, ((wide)1 << bits) - 1),
        least = tn__dtypes[dt].is_signed ? wrapped(dt, -((wide)1 << bits)) : 0;
    for (int from = TN_F32; from <= TN_F64; from++) {
#define CAST(v) tn__eval_cast(from, dt, tn__eval_from_double(from, v))
      assert_int_equal(CAST(NAN), 0);
      assert_int_equal(CAST(INFINITY), most);
      assert_int_equal(CAST(-INFINITY), least);
      assert_int_equal(CAST(end), most);
      assert_int_equal(CAST(-end), least);
      assert_int_equal(CAST(end * 4), most);
      assert_int_equal(CAST(-end * 4), least);
      assert_int_equal(CAST(2.9), 2);
      assert_int_equal(CAST(-0.9), 0);
      assert_int_equal(CAST(-2.9), tn__dtypes[dt].is_signed ? (u64)-2 : 0);
      f64 below = from == TN_F32 ? (f64)nextafterf((f32)end, 0) : nextafter(end, 0);
      assert_int_equal(CAST(below), wrapped(dt, (wide)below));
    }
  }
  assert_int_equal(tn__eval_cast(TN_F32, TN_BOOL, tn_f32_bits(NAN)), 1);
  assert_int_equal(tn__eval_cast(TN_F32, TN_BOOL, tn_f32_bits(-0.0f)), 0);
  assert_int_equal(tn__eval_cast(TN_F32, TN_BOOL, tn_f32_bits(0x1p-149f)), 1);
}

/* Rounds an integer to `digits` significant bits, half to even. */
static f64 rounded(wide v, int digits) {
  wide a = v < 0 ? -v : v, step = 1;
  while (a / step >= (wide)1 << digits) step *= 2;
  wide q = a / step, rest = a % step * 2;
  q += rest > step || (rest == step && q % 2);
  return (v < 0 ? -1 : 1) * (f64)q * (f64)step;
}

static void test_int_to_float(void **state) {
  (void)state;
  for (int d = 0; d < INTS; d++)
    for (u32 i = 0; i < 20000; i++) {
      int dt = ints[d];
      u64 bits = edge(dt, i);
      if (i & 1) bits = tn__eval_cast(TN_I64, dt, (bits & ~(u64)0xffff) | (random_bits() & 3)); /* near ties */
      for (int to = TN_F16; to <= TN_F64; to++) {
        f64 want = rounded(value(dt, bits), tn__dtypes[to].mant),
            got = tn__eval_to_double(to, tn__eval_cast(dt, to, bits));
        if (to == TN_F16 && fabs(want) > 65504) want = copysign(INFINITY, want);
        if (got != want)
          fail_msg("%s of %s %ld: %a, not %a", tn__dtypes[to].name, tn__dtypes[dt].name, (i64)bits, got, want);
      }
      for (int k = 0; k < INTS; k++)
        assert_int_equal(tn__eval_cast(dt, ints[k], bits), wrapped(ints[k], value(dt, bits)));
      assert_int_equal(tn__eval_cast(dt, TN_BOOL, bits), bits != 0);
    }
}

/* ---- the rest ---- */

static void test_philox(void **state) {
  (void)state;
  /* known answers published with Random123 */
  static const u32 kat[3][10] = {{0, 0, 0, 0, 0, 0, 0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8},
                                 {~0u, ~0u, ~0u, ~0u, ~0u, ~0u, 0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd},
                                 {0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344, 0xa4093822, 0x299f31d0, 0xd16cfe09,
                                  0x94fdcceb, 0x5001e420, 0x24126ea1}};
  for (int k = 0; k < 3; k++)
    for (u32 w = 0; w < 4; w++) {
      const u32 *v = kat[k];
      assert_int_equal(tn_philox4x32_u32(v[0], v[1], v[2], v[3], v[4], v[5], w), v[6 + w]);
    }
  u64 element = 0x123456789abcdef3, key = 0xfedcba9876543210, counter = 0x0f1e2d3c4b5a6978;
  assert_int_equal(
      tn__eval(OP_PHILOX, TN_U32, TN_U64, (u64[]){element, key, counter}),
      tn_philox4x32_u32((u32)(element >> 2), (u32)(element >> 34), 0x4b5a6978, 0x0f1e2d3c, 0x76543210, 0xfedcba98, 3));
}

static void test_memory(void **state) {
  (void)state;
  for (int dt = 0; dt < TN__VOID; dt++)
    for (int i = 0; i < 100; i++) {
      unsigned char cell[10];
      u64 bits = tn__is_float(dt) ? random_bits() >> (64 - width(dt)) : tn__eval_cast(TN_I64, dt, random_bits());
      memset(cell, 0xa5, sizeof cell);
      tn__eval_store(dt, cell + 1, bits);
      assert_int_equal(tn__eval_load(dt, cell + 1), bits);
      assert_int_equal(cell[0], 0xa5);
      assert_int_equal(cell[1 + tn__size_of(dt)], 0xa5);
    }
}

static void test_reduce_init(void **state) {
  (void)state;
  assert_int_equal(tn__eval_reduce_init(OP_ADD, TN_F32), 0);
  assert_int_equal(tn__eval_reduce_init(OP_MUL, TN_F16), 0x3c00);
  assert_int_equal(tn__eval_reduce_init(OP_MAX, TN_F32), tn_f32_bits(-INFINITY));
  assert_int_equal(tn__eval_reduce_init(OP_MIN, TN_BF16), 0x7f80);
  assert_int_equal(tn__eval_reduce_init(OP_MAX, TN_I8), (u64)-128);
  assert_int_equal(tn__eval_reduce_init(OP_MIN, TN_I64), INT64_MAX);
  assert_int_equal(tn__eval_reduce_init(OP_MIN, TN_U64), UINT64_MAX);
  assert_int_equal(tn__eval_reduce_init(OP_MAX, TN_U16), 0);
  assert_int_equal(tn__eval_reduce_init(OP_MIN, TN_BOOL), 1);
  assert_int_equal(tn__eval_reduce_init(OP_MAX, TN_BOOL), 0);
}

static void test_bitcast_and_where(void **state) {
  (void)state;
  assert_int_equal(tn__eval(OP_BITCAST, TN_I32, TN_F32, (u64[]){tn_f32_bits(-0.0f)}), (u64)INT32_MIN);
  assert_int_equal(tn__eval(OP_BITCAST, TN_F32, TN_I32, (u64[]){(u64)INT32_MIN}), 0x80000000u);
  assert_int_equal(tn__eval(OP_BITCAST, TN_U8, TN_I8, (u64[]){(u64)-1}), 255);
  u64 nan = 0x7f800001; /* a signalling NaN passes through */
  assert_int_equal(tn__eval(OP_WHERE, TN_F32, TN_F32, (u64[]){1, nan, 0}), nan);
  assert_int_equal(tn__eval(OP_WHERE, TN_F32, TN_F32, (u64[]){0, nan, 5}), 5);
}

/* (n + r) * 3 idiv 4, and a chain that is too deep for recursion */
static void test_index(void **state) {
  (void)state;
  tn__mem mem = {0};
  tn__arena a;
  tn__arena_init(&a, &mem);
  enum { DEEP = 300000 };
  tn_node *n = tn__arena_zalloc(&a, (DEEP + 8) * sizeof *n), **src = tn__arena_alloc(&a, 2 * (DEEP + 8) * sizeof *src);
  const int64_t three = 3, four = 4;
  for (int i = 0; i < DEEP + 8; i++) {
    n[i] = (tn_node){.op = OP_ADD, .dtype = TN__INDEX, .nsrc = 2, .src = src + 2 * i};
    src[2 * i] = i ? &n[i - 1] : n, src[2 * i + 1] = n;
  }
  n[0] = (tn_node){.op = OP_VAR, .dtype = TN__INDEX};
  n[1] = (tn_node){.op = OP_RANGE, .dtype = TN__INDEX, .nsrc = 1, .src = src}; /* its extent is not looked at */
  n[2] = (tn_node){.op = OP_CONST, .dtype = TN__INDEX, .ints = &three};
  n[3] = (tn_node){.op = OP_CONST, .dtype = TN__INDEX, .ints = &four};
  src[8] = &n[0], src[9] = &n[1];
  n[5].op = OP_MUL, src[10] = &n[4], src[11] = &n[2];
  n[6].op = OP_IDIV, src[12] = &n[5], src[13] = &n[3];
  tn__env env = {(tn_node *[]){&n[0], &n[1]}, (int64_t[]){-9, 2}, 2};
  assert_int_equal(tn__eval_index(&n[6], &env, &a), -6);
  assert_int_equal(tn__eval_index(&n[DEEP + 6], &env, &a), -6 - 9 * (int64_t)DEEP);
  tn__arena_free(&a);
  assert_int_equal(mem.live, 0);
}

static void test_dtypes(void **state) {
  (void)state;
  static const int promote[][3] = {{TN_U8, TN_U8, TN_U8},
                                   {TN_U8, TN_U16, TN_U16},
                                   {TN_I8, TN_U8, TN_I16},
                                   {TN_I8, TN_U16, TN_I32},
                                   {TN_I8, TN_U32, TN_I64},
                                   {TN_I32, TN_U8, TN_I32},
                                   {TN_I64, TN_U32, TN_I64},
                                   {TN_U64, TN_I8, -1},
                                   {TN_U64, TN_U8, TN_U64},
                                   {TN_F16, TN_F32, TN_F32},
                                   {TN_F16, TN_BF16, TN_F32},
                                   {TN_BF16, TN_F64, TN_F64},
                                   {TN_BOOL, TN_BOOL, TN_BOOL},
                                   {TN_BOOL, TN_I8, -1},
                                   {TN_I32, TN_F32, -1},
                                   {TN__INDEX, TN_I64, -1},
                                   {TN__INDEX, TN__INDEX, TN__INDEX},
                                   {TN__VOID, TN__VOID, -1}};
  for (size_t i = 0; i < sizeof promote / sizeof *promote; i++) {
    assert_int_equal(tn__dtype_promote(promote[i][0], promote[i][1]), promote[i][2]);
    assert_int_equal(tn__dtype_promote(promote[i][1], promote[i][0]), promote[i][2]);
  }
  for (int dt = 0; dt < TN__DTYPE_ALL; dt++)
    assert_int_equal(tn__dtype_parse(tn__dtypes[dt].name, strlen(tn__dtypes[dt].name)), dt);
  assert_int_equal(tn__dtype_parse("f3", 2), -1);
  assert_string_equal(tn_dtype_name(TN_BF16), "bf16");
  assert_string_equal(tn_dtype_name((tn_dtype)99), "?");
  assert_int_equal(tn_dtype_size(TN_F16), 2);
  assert_int_equal(tn_dtype_size((tn_dtype)99), 0);
  assert_int_equal(tn__dtype_acc(TN_F16), TN_F32);
  assert_int_equal(tn__dtype_acc(TN_I8), TN_I8);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_every_op),
                                     cmocka_unit_test(test_narrow_integers),
                                     cmocka_unit_test(test_wide_integers),
                                     cmocka_unit_test(test_bool),
                                     cmocka_unit_test(test_half_conversions),
                                     cmocka_unit_test(test_half_functions),
                                     cmocka_unit_test(test_fma_rounds_once),
                                     cmocka_unit_test(test_float_binaries),
                                     cmocka_unit_test(test_floor_division),
                                     cmocka_unit_test(test_floor_division_and_remainder),
                                     cmocka_unit_test(test_float_unaries),
                                     cmocka_unit_test(test_float_to_int),
                                     cmocka_unit_test(test_int_to_float),
                                     cmocka_unit_test(test_philox),
                                     cmocka_unit_test(test_memory),
                                     cmocka_unit_test(test_reduce_init),
                                     cmocka_unit_test(test_bitcast_and_where),
                                     cmocka_unit_test(test_index),
                                     cmocka_unit_test(test_dtypes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
