/* The normal form of index scalars: equal sizes are the same node. */
#include "support/ctx.h"
#include "ir/eval.h"
#include "ir/text.h"
#include <setjmp.h>
#include <stdarg.h>
#include <string.h>

#include <cmocka.h>

static tn_ctx ctx;
static tn_ctx *const c = &ctx;

static int setup(void **state) {
  (void)state;
  return !test_ctx_open(c);
}

static int teardown(void **state) {
  (void)state;
  return test_ctx_close(c) != 0;
}

#define I(v) tn__int(c, v)
#define ADD(x, y) tn__add(c, x, y)
#define MUL(x, y) tn__mul(c, x, y)
#define IDIV(x, y) tn__op2(c, OP_IDIV, x, y)
#define MOD(x, y) tn__op2(c, OP_MOD, x, y)

/* Runs the body of a test where errors are caught; the checks stand inside, so a longjmp out of them is the test's
 * failure. */
static void in_run(void (*body)(tn_ctx *, void *)) {
  bool ok = tn__ctx_run(c, "test", body, NULL);
  if (!ok) print_error("%s\n", tn_last_error(c)->text);
  assert_true(ok);
}

static void constants(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  assert_ptr_equal(ADD(I(2), I(3)), I(5));
  assert_ptr_equal(MUL(I(64), I(144)), I(9216));
  assert_ptr_equal(IDIV(I(-7), I(2)), I(-4));
  assert_ptr_equal(MOD(I(-7), I(2)), I(1));
  assert_ptr_equal(IDIV(I(7), I(0)), I(0));
  assert_ptr_equal(MOD(I(7), I(0)), I(7));
  assert_ptr_equal(tn__neg(c, I(5)), I(-5));
  assert_ptr_equal(tn__op2(c, OP_MAX, I(5), I(7)), I(7));
  assert_ptr_equal(tn__op2(c, OP_LT, I(5), I(7)), tn__const_bits(c, TN_BOOL, 1));
}

static void products(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *B = tn__var(c, "B", 1, 512), *T = tn__var(c, "T", 1, 512), *want = MUL(B, I(64 * 144));
  assert_ptr_equal(MUL(MUL(B, I(64)), I(144)), want);
  assert_ptr_equal(MUL(MUL(I(64), B), I(144)), want);
  assert_ptr_equal(MUL(I(64), MUL(I(144), B)), want);
  assert_ptr_equal(MUL(B, T), MUL(T, B));
  assert_ptr_equal(MUL(MUL(B, T), MUL(B, I(3))), MUL(I(3), MUL(T, MUL(B, B))));
  assert_ptr_not_equal(MUL(B, T), MUL(B, B));
  assert_ptr_equal(MUL(B, I(1)), B);
  assert_ptr_equal(MUL(I(1), B), B);
  assert_ptr_equal(MUL(B, I(0)), I(0));
  assert_ptr_equal(MUL(I(0), B), I(0));
  assert_int_equal(want->lo, 9216);
  assert_int_equal(want->hi, 512 * 9216);
}

static void sums(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *B = tn__var(c, "B", 1, 512), *T = tn__var(c, "T", 1, 512);
  assert_ptr_equal(ADD(B, I(0)), B);
  assert_ptr_equal(ADD(I(0), B), B);
  assert_ptr_equal(ADD(B, B), MUL(B, I(2)));
  assert_ptr_equal(ADD(ADD(B, I(3)), ADD(T, I(4))), ADD(ADD(T, I(7)), B));
  assert_ptr_equal(tn__sub(c, B, B), I(0));
  assert_ptr_equal(tn__sub(c, ADD(B, T), T), B);
  assert_ptr_equal(ADD(MUL(B, T), MUL(T, B)), MUL(I(2), MUL(B, T)));
  assert_ptr_equal(MUL(ADD(B, I(2)), I(3)), ADD(MUL(B, I(3)), I(6)));
  assert_ptr_equal(tn__neg(c, ADD(B, I(2))), ADD(I(-2), MUL(B, I(-1))));
  assert_ptr_not_equal(ADD(B, I(1)), ADD(B, I(2)));
}

static void sums_in_products(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *N = tn__var(c, "N", 1, 512), *M = tn__var(c, "M", 1, 512), *n2 = ADD(N, I(2)), *m3 = ADD(M, I(3));
  assert_ptr_equal(MUL(MUL(n2, I(64)), M), MUL(MUL(n2, M), I(64)));
  assert_ptr_equal(MUL(MUL(n2, I(6)), MUL(m3, I(10))), MUL(I(60), MUL(m3, n2)));
  assert_ptr_equal(MUL(tn__neg(c, n2), M), tn__neg(c, MUL(M, n2)));
  assert_ptr_equal(MUL(n2, n2), MUL(n2, ADD(I(2), N)));
}

static void quotients(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *B = tn__var(c, "B", 1, 512), *Z = tn__var(c, "Z", 0, 512), *T = tn__var(c, "T", 1, 9);
  assert_ptr_equal(IDIV(B, I(1)), B);
  assert_ptr_equal(MOD(B, I(1)), I(0));
  assert_ptr_equal(IDIV(MUL(B, I(64)), I(16)), MUL(B, I(4)));
  assert_ptr_equal(MOD(MUL(B, I(64)), I(16)), I(0));
  assert_ptr_equal(IDIV(ADD(MUL(B, I(64)), I(32)), I(16)), ADD(MUL(B, I(4)), I(2)));
  assert_ptr_equal(IDIV(MUL(B, I(64)), B), I(64));
  assert_ptr_equal(IDIV(MUL(MUL(B, T), I(64)), MUL(T, I(8))), MUL(B, I(8)));
  assert_ptr_equal(IDIV(ADD(MUL(B, T), MUL(T, I(3))), T), ADD(B, I(3)));
  assert_ptr_equal(IDIV(ADD(B, I(1)), ADD(B, I(1))), I(1));
  assert_ptr_equal(IDIV(MUL(ADD(B, I(1)), T), T), ADD(B, I(1)));
  assert_ptr_equal(IDIV(I(0), B), I(0));
  assert_ptr_equal(IDIV(B, I(-1)), tn__neg(c, B));
  /* not exact, or by something that may be 0: left alone */
  assert_int_equal(IDIV(ADD(MUL(B, I(64)), I(3)), I(16))->op, OP_IDIV);
  assert_int_equal(IDIV(MUL(Z, I(64)), Z)->op, OP_IDIV);
  assert_int_equal(MOD(MUL(Z, I(64)), Z)->op, OP_MOD);
  assert_int_equal(IDIV(B, T)->op, OP_IDIV);
  assert_int_equal(IDIV(B, I(0))->op, OP_IDIV);
}

static void bounds_decide(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *B = tn__var(c, "B", 1, 512);
  assert_ptr_equal(tn__op2(c, OP_MAX, B, I(1)), B);
  assert_ptr_equal(tn__op2(c, OP_MIN, B, I(512)), B);
  assert_ptr_equal(tn__op2(c, OP_MIN, I(0), B), I(0));
  assert_ptr_equal(tn__op2(c, OP_MAX, B, B), B);
  assert_int_equal(tn__op2(c, OP_MAX, B, I(2))->op, OP_MAX);
  assert_int_equal(tn__op2(c, OP_MIN, B, I(511))->op, OP_MIN);
}

static const char *expr(tn_node *n) {
  tn__sb b;
  tn__sb_init(&b, &c->scratch);
  tn__print_expr(&b, n);
  return tn__sb_str(&b);
}

static void order_is_structural(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  /* made in the wrong order on purpose */
  tn_node *r1 = tn__range(c, I(32), AX_LOOP, ROLE_OUTPUT, 1), *r0 = tn__range(c, I(8), AX_LOOP, ROLE_OUTPUT, 0);
  tn_node *T = tn__var(c, "T", 1, 9), *B = tn__var(c, "B", 1, 9);
  assert_string_equal(expr(ADD(r1, MUL(r0, I(32)))), "r0*32 + r1");
  assert_string_equal(expr(ADD(I(5), ADD(r1, r0))), "r0 + r1 + 5");
  assert_string_equal(expr(MUL(T, B)), "B*T");
  assert_string_equal(expr(ADD(T, MUL(r0, MUL(I(2), B)))), "T + B*r0*2");
}

static void substituted_sizes_fold(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *B = tn__var(c, "B", 1, 512), *e = MUL(B, I(64)), *seven[] = {I(7), I(64)};
  assert_ptr_equal(tn__node_with(c, e, seven), I(448));
}

/* Every pair of expressions over two variables, built by chance: equal nodes have equal values, and the value is right.
 */
static uint32_t chance_state = 12345;
static uint32_t chance(uint32_t n) {
  chance_state = chance_state * 1664525u + 1013904223u;
  return (chance_state >> 16) % n;
}

static void values_survive(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  enum { EXPRS = 400 };
  tn_node *var[] = {tn__var(c, "B", -5, 5), tn__var(c, "T", 0, 5)}, *e[EXPRS];
  static const int64_t points[][2] = {{0, 0}, {1, 0}, {-5, 5}, {3, 2}, {2, 3}, {5, 1}};
  enum { POINTS = sizeof points / sizeof *points };
  int64_t v[EXPRS][POINTS];
  for (uint32_t i = 0; i < EXPRS; i++) {
    tn__op op = ((const tn__op[]){OP_ADD, OP_MUL, OP_ADD, OP_IDIV, OP_MOD, OP_MIN, OP_MAX})[chance(7)];
    uint32_t a = i < 8 ? 0 : chance(i), b = i < 8 ? 0 : chance(i);
    bool large = i >= 8 && (e[a]->hi > 1 << 20 || e[b]->hi > 1 << 20 || e[a]->lo < -(1 << 20) || e[b]->lo < -(1 << 20));
    if (i < 2) e[i] = var[i];
    else if (i < 8 || large) e[i] = I((int64_t)chance(9) - 4);
    else e[i] = tn__op2(c, op, e[a], e[b]);
    for (uint32_t p = 0; p < POINTS; p++) {
      int64_t k;
      uint64_t arg[2];
      if (i < 2) v[i][p] = points[p][i];
      else if (i < 8 || large) v[i][p] = tn__const_int(e[i], &k) ? k : 0;
      else {
        arg[0] = (uint64_t)v[a][p], arg[1] = (uint64_t)v[b][p];
        v[i][p] = (int64_t)tn__eval((int)op, TN__INDEX, TN__INDEX, arg);
      }
      tn__env env = {var, points[p], 2};
      assert_int_equal(tn__eval_index(e[i], &env, &c->scratch), v[i][p]);
      assert_true(e[i]->lo <= v[i][p] && v[i][p] <= e[i]->hi);
    }
  }
}

static void long_sum(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  enum { N = 60 }; /* more than the lists hold in the frame */
  tn_node *up = I(0), *down = I(0), *p = I(1), *q = I(1);
  for (int i = 0; i < N; i++) {
    up = ADD(up, tn__range(c, I(4), AX_LOOP, ROLE_OUTPUT, i));
    down = ADD(down, tn__range(c, I(4), AX_LOOP, ROLE_OUTPUT, N - 1 - i));
    p = MUL(p, tn__range(c, I(2), AX_LOOP, ROLE_OUTPUT, i));
    q = MUL(q, tn__range(c, I(2), AX_LOOP, ROLE_OUTPUT, N - 1 - i));
  }
  assert_ptr_equal(up, down);
  assert_ptr_equal(p, q);
  assert_ptr_equal(tn__sub(c, up, down), I(0));
}

/* i64 holds any index; what else one is cast to may not. */
static void cast_and_back(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *n = tn__range(c, I(7), AX_LOOP, ROLE_OUTPUT, 0);
  assert_ptr_equal(tn__cast(c, tn__cast(c, n, TN_I64), TN__INDEX), n);
  assert_ptr_not_equal(tn__cast(c, tn__cast(c, n, TN_I32), TN__INDEX), n);
}

#define IN_RUN(name)                                                                                                   \
  static void test_##name(void **state) {                                                                              \
    (void)state;                                                                                                       \
    in_run(name);                                                                                                      \
  }
IN_RUN(constants)
IN_RUN(products)
IN_RUN(sums)
IN_RUN(sums_in_products)
IN_RUN(quotients)
IN_RUN(bounds_decide)
IN_RUN(order_is_structural)
IN_RUN(substituted_sizes_fold)
IN_RUN(values_survive)
IN_RUN(long_sum)
IN_RUN(cast_and_back)

static void too_large(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  MUL(MUL(tn__var(c, "B", 1, 2), I(INT64_MAX / 2)), I(3));
}

static void test_overflow_is_an_error(void **state) {
  (void)state;
  assert_false(tn__ctx_run(c, "tn_numel", too_large, NULL));
  assert_int_equal(tn_last_error(c)->status, TN_ESHAPE);
  assert_string_equal(tn_last_error(c)->text, "tn_numel: a size or an index does not fit in 64 bits");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
  const struct CMUnitTest tests[] = {T(constants),     T(products),      T(sums),
                                     T(sums_in_products), T(quotients),  T(bounds_decide),
                                     T(order_is_structural), T(substituted_sizes_fold), T(values_survive),
                                     T(long_sum),      T(cast_and_back), T(overflow_is_an_error)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
