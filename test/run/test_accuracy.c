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
#include "ir/math_c.inc"
#include "ir/math.inc"
#include "support/device.h"
#include "support/exact.h"
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
  tn_tensor *(*two)(tn_tensor *, tn_tensor *);
  int op;              /* it is; -1: it is made of several, each of which rounds, and */
  wide (*want)(wide);
  double bound;        /* ... of f32 and f64 */
  double lo, hi;       /* ... where that holds; equal: everywhere */
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

static const function compositions[] = {
    {"relu", tn_relu, NULL, -1, relu, 0, 0, 0},
    {"square", tn_square, NULL, -1, square, 0.5, 0, 0},
    {"recip", tn_recip, NULL, -1, recip, 0.5, 0, 0},
    {"rsqrt", tn_rsqrt, NULL, -1, rsqrt, 1.5, 0, 0},
    {"sigmoid", tn_sigmoid, NULL, -1, sigmoid, 2.5, -8, 40},
    {"silu", tn_silu, NULL, -1, silu, 3.5, -8, 40},
    {"softplus", tn_softplus, NULL, -1, softplus, 2, -8, 40},
    {"gelu", tn_gelu, NULL, -1, gelu, 5, -1, 10},
};
enum { COMPOSITIONS = sizeof compositions / sizeof *compositions };

/* The public functions that are one op of floats, as ir/ops.def says what that is, and the compositions. */
static function functions[OP_COUNT + COMPOSITIONS];
static int N;

static void find_functions(tn_ctx *c) {
  static const function all[] = {
#define ONE(name, ...) {#name, tn_##name, NULL, -1, NULL, 0, 0, 0},
#define TWO(name, ...) {#name, NULL, tn_##name, -1, NULL, 0, 0, 0},
#include "tensor/elementwise.def"
  };
  bool found[OP_COUNT] = {false};
  N = COMPOSITIONS;
  memcpy(functions, compositions, sizeof compositions);
  tn_scope(c) {
    tn_tensor *x[2] = {tn_zeros(c, TN_F32, NULL, 0), tn_ones(c, TN_F32, NULL, 0)};
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
      tn_tensor *y = all[i].one ? all[i].one(x[0]) : all[i].two(x[0], x[1]);
      int op = exact_op_of(y, x, all[i].one ? 1 : 2);
      if (op < 0 || found[op] || !exact_is_function(op, all[i].one ? 1 : 2)) continue;
      found[op] = true;
      functions[N] = all[i];
      functions[N++].op = op;
    }
  }
  tn_clear_error(c); /* some take no floats */
  for (int op = 0; op < OP_COUNT; op++)
    if ((exact_is_function(op, 1) || exact_is_function(op, 2)) && !found[op])
      fail_msg("no public function is the op %s", tn__ops[op].text);
}

static wide right(const function *fn, double x, double y) {
  return fn->op < 0 ? fn->want((wide)x) : exact_value(fn->op, (wide)x, (wide)y, 0);
}

/* Units of the last place, of f32 or (twice as long) f64: f32's functions are those of ir/math.inc, f64's the device's
 * library's. */
static double bound_of(const function *fn, bool twice) {
  static const double of_f32[OP_COUNT] = {
#define ROW(op, name, bound) [OP_##op] = (bound),
      TN_MATH_1(ROW) TN_MATH_2(ROW)};
  static const double otherwise[] = {[RN_EXACT] = 0, [RN_ROUNDED] = 0.5};
  const char *device = device_or("cpu");
  if (fn->op < 0) return fn->bound;
  const tn__op_info *op = &tn__ops[fn->op];
  if (op->rounding != RN_LIBRARY) return otherwise[op->rounding];
  if (!twice) return of_f32[fn->op];
  return op->library[!strncmp(device, "cuda", 4) ? LB_CUDA : !strncmp(device, "opencl", 6) ? LB_OPENCL : LB_C];
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

/* widens: the device has its own way to make f32 of halves, in which a NaN may lose its sign. */
static bool within_bound(const trial *t, const function *fn, bool near, bool widens) {
  const format *f = t->f;
  bool narrow = f->narrow > 0;
  double full = bound_of(fn, f->dtype == TN_F64), bound = full, worst = 0;
  uint32_t at = 0;
  bool driver = f->dtype == TN_F64 && !strncmp(device_or(""), "opencl", 6); /* its functions may flush subnormals */
  int steps = fn->lo < fn->hi || fn->one == tn_rsqrt ? 3 : 1; /* of a composition, that may be near each */
  if (narrow && full > 0) bound = 0.5 + (near ? f->near * steps : f->narrow * (full > 0.5)); /* f32's, rounded */
  for (uint32_t i = 0; i < t->n; i++) {
    double x = number(f, t->x, i);
    if (fn->lo < fn->hi && !(x >= fn->lo && x <= fn->hi)) continue;
    if (driver && x != 0 && fabs(x) < DBL_MIN) continue;
    if (widens && fn->two == tn_copysign && isnan(number(f, t->y, i))) continue;
    double e = error_in_ulps(f, number(f, t->got, i), right(fn, x, number(f, t->y, i)));
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
  bool cuda = strncmp(device, "cuda", 4) == 0, opencl = strncmp(device, "opencl", 6) == 0;
  int bad = 0;
  assert_non_null(c);
  find_functions(c);
  for (size_t k = 0; k < sizeof formats / sizeof *formats; k++) tn_scope(c) {
      enum { MOST_FUNCTIONS = sizeof functions / sizeof *functions };
      trial t = {.f = &formats[k]};
      tn_tensor *out[MOST_FUNCTIONS], *cast[MOST_FUNCTIONS], *list[2 * MOST_FUNCTIONS];
      bool narrow = t.f->narrow > 0, widens = narrow && (cuda || (opencl && t.f->dtype == TN_F16));
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
        bad += !within_bound(&t, &functions[i], cuda && narrow, widens);
        if (!narrow) continue;
        assert_int_equal(tn_read(cast[i], t.got, t.n * tn__size_of(t.f->dtype)), TN_OK);
        bad += !within_bound(&t, &functions[i], cuda, widens);
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

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_one), cmocka_unit_test(test_two)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
