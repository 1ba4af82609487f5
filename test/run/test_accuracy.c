/* The functions of floats, on the cpu device unless $TENET_DEVICE names another, against the C library in long double:
 * how many units of its last place a result may be away, by dtype; of f16 and bf16 also what is computed in f32 and
 * then cast.  Of f16 and bf16 every input is tried, of f32 and f64 as many from all over their range and as many again
 * of ordinary size; of pairs, as many at random. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/eval.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <float.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef long double wide;

enum { ALL = 1 << 16, MOST = 2 * ALL };

typedef struct format { /* a float dtype: bits of the mantissa, exponents of the least unit and of what overflows */
  int dtype, mant, least, over;
  double narrow; /* what an f32 error of some units is here, besides rounding; f32 and f64: 0 */
  /* ... an error of 2^-16, which CUDA's functions may have where nothing but f16 or bf16 comes of their results */
  double near;
} format;

static const format formats[] = {{TN_F16, 11, -24, 16, 0x1p-10, 0x1p-5},
                                 {TN_BF16, 8, -133, 128, 0x1p-13, 0x1p-8},
                                 {TN_F32, 24, -149, 128, 0, 0},
                                 {TN_F64, 53, -1074, 1024, 0, 0}};

typedef struct function {
  const char *name;
  tn_tensor *(*one)(tn_tensor *);
  wide (*want)(wide);
  tn_tensor *(*two)(tn_tensor *, tn_tensor *);
  wide (*want_two)(wide, wide);
  /* f32; f64; f16 and bf16, where 0 stands for an f32 value that is rounded; f64 on CUDA, if another: NVIDIA's (CUDA
   * C++ Programming Guide), from the rounded result, and half a unit */
  double bound[4];
  double lo, hi;    /* compositions: where the bound holds; equal: everywhere */
} function;

/* ---- what is right ----------------------------------------------------------------------------------------------- */

static wide rsqrt(wide x) { return 1 / sqrtl(x); }
static wide recip(wide x) { return 1 / x; }
static wide square(wide x) { return x * x; }
static wide sigmoid(wide x) { return 1 / (1 + expl(-x)); }
static wide silu(wide x) { return x / (1 + expl(-x)); }
static wide softplus(wide x) { return fmaxl(x, 0) + log1pl(expl(-fabsl(x))); }
static wide gelu(wide x) { return x * erfcl(-x * sqrtl(0.5L)) / 2; }
static wide relu(wide x) { return x <= 0 ? 0 : x; }
static wide sign(wide x) { return x > 0 ? 1 : x < 0 ? -1 : x; }
static wide negate(wide x) { return -x; }
static wide sum(wide x, wide y) { return x + y; }
static wide difference(wide x, wide y) { return x - y; }
static wide product(wide x, wide y) { return x * y; }
static wide quotient(wide x, wide y) { return x / y; }
static wide modulo(wide x, wide y) {
  wide r = fmodl(x, y);
  return r == 0 ? copysignl(r, y) : (r < 0) != (y < 0) ? r + y : r;
}
static wide larger(wide x, wide y) {
  return isnan(x) || isnan(y) ? NAN : x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}
static wide smaller(wide x, wide y) { return -larger(-x, -y); }

#define ONE(name, want, ...) {#name, tn_##name, want, NULL, NULL, __VA_ARGS__}
#define TWO(name, want, ...) {#name, NULL, NULL, tn_##name, want, __VA_ARGS__}
#define EXACT {0, 0, 0}, 0, 0
#define ROUNDED {0.5, 0.5}, 0, 0

static const function functions[] = {
    ONE(abs, fabsl, EXACT),
    ONE(sign, sign, EXACT),
    ONE(neg, negate, EXACT),
    ONE(relu, relu, EXACT),
    ONE(floor, floorl, ROUNDED),
    ONE(ceil, ceill, ROUNDED),
    ONE(round, rintl, ROUNDED),
    ONE(trunc, truncl, ROUNDED),
    ONE(square, square, ROUNDED),
    ONE(sqrt, sqrtl, ROUNDED),
    ONE(recip, recip, ROUNDED),
    /* f32: the bounds of ir/math.inc; f64: the C library's */
    ONE(exp, expl, {1.1, 1, 0, 1.5}, 0, 0),
    ONE(exp2, exp2l, {0.9, 1, 0, 1.5}, 0, 0),
    ONE(expm1, expm1l, {1.7, 1, 0, 1.5}, 0, 0),
    ONE(log, logl, {0.9, 1, 0, 1.5}, 0, 0),
    ONE(log2, log2l, {1.0, 1, 0, 1.5}, 0, 0),
    ONE(log1p, log1pl, {1.5, 1, 0, 1.5}, 0, 0),
    ONE(sin, sinl, {1.7, 1, 0, 2.5}, 0, 0),
    ONE(cos, cosl, {1.7, 1, 0, 2.5}, 0, 0),
    ONE(tan, tanl, {3.9, 1, 0, 2.5}, 0, 0),
    ONE(tanh, tanhl, {2.6, 2.2}, 0, 0),
    ONE(erf, erfl, {3.0, 1.2, 0, 2.5}, 0, 0),
    ONE(erfc, erfcl, {3.3, 5, 0, 5.5}, 0, 0),
    ONE(log10, log10l, {1.2, 2, 0, 1.5}, 0, 0),
    ONE(asin, asinl, {3, 1, 0, 2.5}, 0, 0),
    ONE(acos, acosl, {3, 1, 0, 2.5}, 0, 0),
    ONE(atan, atanl, {3, 1, 0, 2.5}, 0, 0),
    ONE(sinh, sinhl, {3, 2, 0, 2.5}, 0, 0),
    ONE(cosh, coshl, {3, 2, 0, 1.5}, 0, 0),
    ONE(asinh, asinhl, {3, 2, 0, 3.5}, 0, 0),
    ONE(acosh, acoshl, {3, 3, 0, 3.5}, 0, 0),
    ONE(atanh, atanhl, {3, 2, 0, 2.5}, 0, 0),
    /* compositions: every step rounds */
    ONE(rsqrt, rsqrt, {1.5, 1.5, 0}, 0, 0),
    ONE(sigmoid, sigmoid, {2.5, 2.5, 0}, -8, 40),
    ONE(silu, silu, {3.5, 3.5, 0}, -8, 40),
    ONE(softplus, softplus, {2, 2, 0}, -8, 40),
    ONE(gelu, gelu, {5, 5, 0}, -1, 10),
    TWO(add, sum, ROUNDED),
    TWO(sub, difference, ROUNDED),
    TWO(mul, product, ROUNDED),
    TWO(div, quotient, ROUNDED),
    TWO(fmod, fmodl, ROUNDED),
    TWO(mod, modulo, ROUNDED),
    TWO(maximum, larger, EXACT),
    TWO(minimum, smaller, EXACT),
    TWO(pow, powl, {1.0, 1, 0, 2.5}, 0, 0),
    TWO(atan2, atan2l, {2.5, 1, 0, 2.5}, 0, 0),
    TWO(hypot, hypotl, {1.1, 1, 0, 2.5}, 0, 0),
    TWO(copysign, copysignl, EXACT),
};
enum { N = sizeof functions / sizeof *functions };

/* f64 on OpenCL, if another: what a driver's functions may err by (OpenCL 1.2, table 7.2). */
static const struct {
  const char *name;
  double bound;
} opencl_f64[] = {{"exp", 3}, {"exp2", 3}, {"expm1", 3}, {"log", 3},  {"log2", 3}, {"log1p", 2}, {"sin", 4},
                  {"cos", 4}, {"tan", 5},  {"tanh", 5},  {"erf", 16}, {"pow", 16}, {"atan2", 6},
                  {"erfc", 16}, {"log10", 3}, {"asin", 4},  {"acos", 4},  {"atan", 5}, {"sinh", 4},  {"cosh", 4},
                  {"asinh", 4}, {"acosh", 4}, {"atanh", 5}, {"hypot", 4}};

static double opencl_bound(const char *name, double otherwise) {
  for (size_t i = 0; i < sizeof opencl_f64 / sizeof *opencl_f64; i++)
    if (!strcmp(name, opencl_f64[i].name)) return opencl_f64[i].bound;
  return otherwise;
}

/* |got - want| in units of the last place of `want`: infinite where only one is NaN, infinite or of that sign. */
static double error_in_ulps(const format *f, double got, wide want) {
  int e;
  if (isnan(want)) return isnan(got) ? 0 : HUGE_VAL;
  if (isnan(got) || !signbit(want) != !signbit(got)) return HUGE_VAL;
  if (isinf(want) || want == 0) return (wide)got == want ? 0 : HUGE_VAL;
  wide end = ldexpl(1, f->over);
  if (isinf(got) && fabsl(want) >= end - ldexpl(1, f->over - f->mant - 1)) return 0;
  frexpl(want, &e);
  int unit = e - f->mant < f->least ? f->least : e - f->mant;
  return (double)(fabsl((isinf(got) ? copysignl(end, want) : (wide)got) - want) / ldexpl(1, unit));
}

/* ---- inputs ------------------------------------------------------------------------------------------------------ */

static uint64_t random_state;
static uint64_t roll(void) {
  random_state = random_state * 6364136223846793005u + 1442695040888963407u;
  return random_state >> 11;
}

static uint64_t anything(const format *f) {
  uint64_t bits = roll() << 32 ^ roll();
  return f->dtype == TN_F64 ? bits : bits & ((1ull << 8 * tn__size_of(f->dtype)) - 1);
}

static uint64_t ordinary(const format *f) {
  return tn__eval_from_double(
      f->dtype, ldexp((double)(int64_t)(roll() % (1ull << 53)) * (roll() & 1 ? 1 : -1), -53 + (int)(roll() % 12) - 5));
}

/* The i-th value of the first operand, and of the second. */
static uint64_t first_input(const format *f, uint32_t i, bool pairs) {
  if (i >= ALL) return ordinary(f);
  if (f->mant > 11)
    return f->dtype == TN_F32 ? (uint64_t)i << 16 | (roll() & 0xffff) : (uint64_t)i << 48 | (roll() & 0xffffffffffff);
  return pairs ? anything(f) : i;
}

/* Ends of domains, zeros, infinities, the least and the greatest; of pairs, each with each. */
static void put_edges(const format *f, char *x, char *y, bool pairs) {
  const double e = ldexp(1, f->least), one = ldexp(1, -f->mant), most = ldexp(1 - one, f->over);
  const double edges[] = {0,    -0.0, 1,     -1,       0.5,       -0.5, 1 + 2 * one, 1 - one, -1 - 2 * one, one - 1, e,
                          -e,   most, -most, INFINITY, -INFINITY, NAN};
  enum { EDGES = sizeof edges / sizeof *edges };
  size_t size = tn__size_of(f->dtype);
  for (uint32_t i = 0; i < (pairs ? EDGES * EDGES : EDGES); i++) {
    tn__eval_store(f->dtype, x + i * size, tn__eval_from_double(f->dtype, edges[i % EDGES]));
    tn__eval_store(f->dtype, y + i * size, tn__eval_from_double(f->dtype, edges[i / EDGES]));
  }
}

static double number(const format *f, const char *data, uint32_t i) {
  size_t size = tn__size_of(f->dtype);
  return tn__eval_to_double(f->dtype, tn__eval_load(f->dtype, data + i * size));
}

/* ---- the test ---------------------------------------------------------------------------------------------------- */

typedef struct trial {
  const format *f;
  char *x, *y, *got;
  uint32_t n;
} trial;

static void draw(trial *t, bool pairs) {
  size_t size = tn__size_of(t->f->dtype);
  t->n = pairs || t->f->mant > 11 ? MOST : ALL;
  t->x = malloc(t->n * size), t->y = malloc(t->n * size), t->got = malloc(t->n * size);
  assert_true(t->x && t->y && t->got);
  random_state = (uint64_t)t->f->dtype;
  for (uint32_t i = 0; i < t->n; i++) {
    tn__eval_store(t->f->dtype, t->x + i * size, first_input(t->f, i, pairs));
    tn__eval_store(t->f->dtype, t->y + i * size, i < ALL ? anything(t->f) : ordinary(t->f));
  }
  if (t->n > ALL) put_edges(t->f, t->x + ALL * size, t->y + ALL * size, pairs); /* else every input is there */
}

static bool within_bound(const trial *t, const function *fn, bool near, bool cuda) {
  const format *f = t->f;
  bool narrow = f->narrow > 0;
  double bound = fn->bound[narrow ? 2 : f->dtype == TN_F64], worst = 0;
  uint32_t at = 0;
  if (f->dtype == TN_F64 && cuda && fn->bound[3] > 0) bound = fn->bound[3];
  bool driver = f->dtype == TN_F64 && !strncmp(device_or(""), "opencl", 6); /* its functions may flush subnormals */
  if (driver) bound = opencl_bound(fn->name, bound);
  int steps = fn->lo < fn->hi || fn->one == tn_rsqrt ? 3 : 1; /* of a composition, that may be near each */
  if (narrow && bound == 0 && fn->bound[0] > 0)
    bound = 0.5 + (near ? f->near * steps : f->narrow * (fn->bound[0] > 0.5));
  for (uint32_t i = 0; i < t->n; i++) {
    double x = number(f, t->x, i);
    if (fn->lo < fn->hi && !(x >= fn->lo && x <= fn->hi)) continue;
    if (driver && x != 0 && fabs(x) < DBL_MIN) continue;
    if (cuda && narrow && fn->two == tn_copysign && isnan(number(f, t->y, i))) continue; /* a widened NaN's sign */
    wide want = fn->one ? fn->want((wide)x) : fn->want_two((wide)x, (wide)number(f, t->y, i));
    double e = error_in_ulps(f, number(f, t->got, i), want);
    if (e > worst) worst = e, at = i;
  }
  printf("%-5s %-9s %.4f of %.4f at %a, %a: %a\n", tn_dtype_name((tn_dtype)f->dtype), fn->name, worst, bound,
         number(f, t->x, at), number(f, t->y, at), number(f, t->got, at));
  return worst <= bound + (f->dtype == TN_F64 && bound > 0 ? 1e-3 : 0); /* there the reference rounds, too */
}

static tn_tensor *apply(const function *fn, tn_tensor *x, tn_tensor *y) { return fn->one ? fn->one(x) : fn->two(x, y); }
static tn_tensor *by_f32(const function *fn, tn_tensor *x, tn_tensor *y) {
  return tn_cast(apply(fn, tn_cast(x, TN_F32), tn_cast(y, TN_F32)), tn_dtype_of(x));
}

static void try_all(bool pairs) {
  const char *device = device_or("cpu");
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  bool cuda = strncmp(device, "cuda", 4) == 0;
  int bad = 0;
  assert_non_null(c);
  for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) tn_scope(c) {
      trial t = {.f = &formats[k]};
      tn_tensor *out[N], *cast[N], *list[2 * N];
      bool narrow = t.f->narrow > 0;
      int n = 0;
      draw(&t, pairs);
      tn_tensor *x = tn_from(c, (tn_dtype)t.f->dtype, (tn_dim[]){t.n}, 1, t.x),
                *y = tn_from(c, (tn_dtype)t.f->dtype, (tn_dim[]){t.n}, 1, t.y);
      for (int i = 0; i < N; i++)
        if (pairs == (functions[i].two != NULL)) {
          list[n++] = out[i] = apply(&functions[i], x, y);
          if (narrow) list[n++] = cast[i] = by_f32(&functions[i], x, y);
        }
      assert_int_equal(tn_realize(list, n), TN_OK);
      for (int i = 0; i < N; i++) {
        if (pairs != (functions[i].two != NULL)) continue;
        assert_int_equal(tn_read(out[i], t.got, t.n * tn__size_of(t.f->dtype)), TN_OK);
        bad += !within_bound(&t, &functions[i], cuda && t.f->dtype == TN_BF16, cuda);
        if (!narrow) continue;
        assert_int_equal(tn_read(cast[i], t.got, t.n * tn__size_of(t.f->dtype)), TN_OK);
        bad += !within_bound(&t, &functions[i], cuda, cuda);
      }
      free(t.x), free(t.y), free(t.got);
    }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

static void test_one(void **s) {
  (void)s;
  try_all(false);
}
static void test_two(void **s) {
  (void)s;
  try_all(true);
}

/* A function that rounds is asked how. */
static void test_no_function_is_left_out(void **s) {
  (void)s;
  for (int op = 0; op < OP_COUNT; op++) {
    int i = 0;
    if (tn__ops[op].rounding != RN_LIBRARY) continue;
    while (i < N && strcmp(functions[i].name, tn__ops[op].text)) i++;
    if (i == N) fail_msg("%s is not among these functions", tn__ops[op].text);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one), cmocka_unit_test(test_two),
                                     cmocka_unit_test(test_no_function_is_left_out)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
