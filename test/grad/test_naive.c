/* The oracle itself: every whole-tensor op on numbers worked out by hand, and its speed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "support/ctx.h"
#include "support/naive.h"
#include <time.h>

static tn_ctx ctx;
static naive_bind binds[8];
static uint32_t nbinds;

static int open_ctx(void **state) {
  (void)state;
  nbinds = 0;
  return test_ctx_open(&ctx) ? 0 : -1;
}

static int close_ctx(void **state) {
  (void)state;
  return test_ctx_close(&ctx) == 0 ? 0 : -1;
}

#define N(v) tn__int(&ctx, v)
#define LIST(...) (tn_node *[]){__VA_ARGS__}
#define INTS(...) (int64_t[]){__VA_ARGS__}

static tn_node *input(int dtype, const void *data, uint32_t rank, tn_node *const *dims) {
  tn_node *x = tn__storage(&ctx, dtype, nbinds + 1, 0, dims, rank);
  binds[nbinds++] = (naive_bind){x, data};
  return x;
}

static void expect(tn_node *n, uint32_t count, const double *want) {
  naive_tensor t;
  naive_eval(&n, 1, binds, nbinds, &t);
  assert_int_equal(t.n, count);
  for (uint32_t i = 0; i < count; i++)
    if (naive_get(&t, i) != want[i])
      fail_msg("%s: element %u is %g, not %g", tn__ops[n->op].text, i, naive_get(&t, i), want[i]);
  naive_free(&t);
}
#define EXPECT(node, ...)                                                                                              \
  expect(node, (uint32_t)(sizeof(double[]){__VA_ARGS__} / sizeof(double)), (double[]){__VA_ARGS__})

static const double six[] = {1, 2, 3, 4, 5, 6};

static void test_movement(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *x = input(TN_F64, six, 2, LIST(N(2), N(3))), *line = input(TN_F64, six, 1, LIST(N(6))),
          *col = input(TN_F64, six, 2, LIST(N(2), N(1)));
  EXPECT(tn__reshape(c, x, LIST(N(3), N(2)), 2), 1, 2, 3, 4, 5, 6);
  EXPECT(tn__expand(c, col, LIST(N(2), N(3))), 1, 1, 1, 2, 2, 2);
  EXPECT(tn__permute(c, x, INTS(1, 0)), 1, 4, 2, 5, 3, 6);
  EXPECT(tn__pad(c, x, LIST(N(1), N(0), N(0), N(1))), 0, 0, 0, 0, 1, 2, 3, 0, 4, 5, 6, 0);
  EXPECT(tn__shrink(c, x, LIST(N(0), N(1)), LIST(N(2), N(2)), NULL), 2, 3, 5, 6);
  EXPECT(tn__shrink(c, line, LIST(N(1)), LIST(N(3)), INTS(2)), 2, 4, 6);
  EXPECT(tn__flip(c, x, INTS(1), 1), 3, 2, 1, 6, 5, 4);
  EXPECT(tn__flip(c, x, INTS(0, 1), 2), 6, 5, 4, 3, 2, 1);
  tn_node *w = tn__window(c, line, 0, 2, 1, 3), *rows = tn__window(c, x, 0, 2, 1, 1);
  EXPECT(w, 1, 4, 2, 5, 3, 6);
  EXPECT(tn__window(c, line, 0, 3, 2, 1), 1, 2, 3, 3, 4, 5);
  EXPECT(rows, 1, 2, 3, 4, 5, 6);
  EXPECT(tn__fold(c, tn__window(c, line, 0, 3, 2, 1), N(6), 0, 3, 2, 1), 1, 2, 6, 4, 5, 0);
  EXPECT(tn__fold(c, rows, N(2), 0, 2, 1, 1), 1, 2, 3, 4, 5, 6);
  EXPECT(tn__op1(c, OP_DETACH, x), 1, 2, 3, 4, 5, 6);
  EXPECT(tn__node_make(c, &(tn__make){.op = OP_ASSIGN, .src = LIST(x, tn__neg(c, x)), .nsrc = 2}), -1, -2, -3, -4, -5,
         -6);
}

static void test_reductions(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *x = input(TN_F64, six, 2, LIST(N(2), N(3))), *none = input(TN_F64, six, 2, LIST(N(2), N(0)));
  EXPECT(tn__reduce(c, OP_SUM, x, INTS(0), 1), 5, 7, 9);
  EXPECT(tn__reduce(c, OP_SUM, x, INTS(1), 1), 6, 15);
  EXPECT(tn__reduce(c, OP_PROD, x, INTS(0, 1), 2), 720);
  EXPECT(tn__reduce(c, OP_RMAX, x, INTS(0), 1), 4, 5, 6);
  EXPECT(tn__reduce(c, OP_RMIN, x, INTS(1), 1), 1, 4);
  EXPECT(tn__reduce(c, OP_SUM, none, INTS(1), 1), 0, 0);
  EXPECT(tn__reduce(c, OP_PROD, none, INTS(1), 1), 1, 1);
}

static void test_whole_tensors(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *x = input(TN_F64, six, 2, LIST(N(3), N(2))), *y = input(TN_F64, six, 2, LIST(N(1), N(2)));
  tn_node *idx = input(TN_I32, (int32_t[]){2, -1, 2, 3}, 1, LIST(N(4)));
  EXPECT(tn__gather(c, x, idx), 5, 6, 0, 0, 5, 6, 0, 0);
  EXPECT(tn__scatter(c, x, idx, tn__gather(c, x, idx)), 1, 2, 3, 4, 15, 18);
  EXPECT(tn__contract(c, x, y, 0, 1, 1, 1), 5, 11, 17);
  tn_node *m = input(TN_F64, six, 2, LIST(N(2), N(3)));
  EXPECT(tn__contract(c, m, m, 1, 0, 0, 1), 14, 77);          /* batched dot products */
  EXPECT(tn__contract(c, m, m, 0, 1, 1, 1), 14, 32, 32, 77);
  EXPECT(tn__iota(c, N(4)), 0, 1, 2, 3);
  tn_node *half = tn__cast(
      c, tn__expand(c, tn__cast(c, tn__reshape(c, tn__const_num(c, TN_F64, 2049), LIST(N(1)), 1), TN_F32), LIST(N(2))),
      TN_F16);
  tn_node *ones = tn__scalar_to(c, tn__const_num(c, TN_F16, 1), half->dim, 1);
  EXPECT(tn__contract(c, half, ones, 0, 0, 0, 1), 4096); /* 2049 rounds to 2048 in f16 */
}

static void test_symbolic(void **state) {
  (void)state;
  tn_node *n = tn__var(&ctx, "N", 1, 9), *x = input(TN_F64, six, 1, &n);
  int64_t size = 4;
  binds[nbinds++] = (naive_bind){n, &size};
  EXPECT(tn__neg(&ctx, x), -1, -2, -3, -4);
  EXPECT(tn__cast(&ctx, tn__mul(&ctx, n, N(3)), TN_F32), 12);
  EXPECT(tn__iota(&ctx, tn__add(&ctx, n, N(-1))), 0, 1, 2);
}

/* 100 nodes over 100,000 elements. */
static void test_speed(void **state) {
  (void)state;
  tn_node *dim = N(100000), *x = tn__cast(&ctx, tn__iota(&ctx, dim), TN_F32), *y = x;
  for (int i = 0; i < 100; i++) y = tn__op2(&ctx, i & 1 ? OP_ADD : OP_MUL, y, x);
  naive_tensor t;
  clock_t start = clock();
  naive_eval(&y, 1, NULL, 0, &t);
  double seconds = (double)(clock() - start) / CLOCKS_PER_SEC;
  print_message("100 x 100000: %.3f s\n", seconds);
  naive_free(&t);
  assert_true(seconds < 5); /* sanitizers included; 0.2 s as it is meant to run */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_movement, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_reductions, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_whole_tensors, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_symbolic, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_speed, open_ctx, close_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
