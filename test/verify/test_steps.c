/* What checks take of a linear program is linear in its length, and of nested loops no more than quadratic in their
 * depth: it is counted, not timed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include "support/ctx.h"
#include "support/linear.h"
#include "support/steps.h"
#include "verify/barriers.h"

enum { FEW = 15, TIMES = 8, MOST = 9 };

typedef struct counting {
  int phases;
  uint64_t steps;
} counting;

/* The threads store, and wait for each other, so many times. */
static void check_phases(tn_ctx *c, void *arg) {
  counting *q = arg;
  lin *l = lin_new(c, "phases");
  tn_node *mem = lin_local(l, TN_F32, 32), *value = tn__const_num(c, TN_F32, 1);
  l->k.part[0].group = 32;
  for (int i = 0; i < q->phases; i++) {
    tn_node *lane = lin_range(l, tn__int(c, 32), AX_UPCAST, i);
    lin_store(l, OP_STORE, mem, lane, value, NULL);
    lin_end(l, lane);
    lin_barrier(l, i);
  }
  uint64_t from = steps_taken;
  const char *wrong = tn__barriers_check(c, &l->k, 0);
  q->steps = steps_taken - from;
  if (wrong) fail_msg("%s", wrong);
}

static void barriers(void **state) {
  counting few = {.phases = FEW}, many = {.phases = FEW * TIMES};
  struct tn_ctx c;
  (void)state;
  assert_true(test_ctx_open(&c));
  assert_true(tn__ctx_run(&c, "check_phases", check_phases, &few));
  assert_true(tn__ctx_run(&c, "check_phases", check_phases, &many));
  tn__rules_close(&c);
  assert_int_equal(test_ctx_close(&c), 0);
  assert_true(few.steps > FEW);
  if (many.steps > few.steps * MOST)
    fail_msg("%d phases take %llu steps, %d take %llu", few.phases, (unsigned long long)few.steps, many.phases,
             (unsigned long long)many.steps);
}

/* The threads store within so many loops, one in another, and wait at the end of the innermost. */
static void check_nest(tn_ctx *c, void *arg) {
  counting *q = arg;
  lin *l = lin_new(c, "nest");
  tn_node *mem = lin_local(l, TN_F32, 32), *value = tn__const_num(c, TN_F32, 1), *loop[FEW * TIMES];
  l->k.part[0].group = 32;
  for (int i = 0; i < q->phases; i++) loop[i] = lin_range(l, tn__int(c, 2), AX_LOOP, i);
  tn_node *lane = lin_range(l, tn__int(c, 32), AX_UPCAST, q->phases);
  lin_store(l, OP_STORE, mem, lane, value, NULL);
  lin_end(l, lane);
  for (int i = q->phases; i-- > 0;) lin_end(l, loop[i]);
  uint64_t from = steps_taken;
  const char *wrong = tn__barriers_check(c, &l->k, 0);
  q->steps = steps_taken - from;
  if (wrong) fail_msg("%s", wrong);
}

/* Each loop is walked about as many times as there are loops around it, and is as long as what is in it. */
static void nests(void **state) {
  counting few = {.phases = FEW}, many = {.phases = FEW * TIMES};
  struct tn_ctx c;
  (void)state;
  assert_true(test_ctx_open(&c));
  assert_true(tn__ctx_run(&c, "check_nest", check_nest, &few));
  assert_true(tn__ctx_run(&c, "check_nest", check_nest, &many));
  tn__rules_close(&c);
  assert_int_equal(test_ctx_close(&c), 0);
  if (many.steps > few.steps * MOST * MOST)
    fail_msg("%d loops take %llu steps, %d take %llu", few.phases, (unsigned long long)few.steps, many.phases,
             (unsigned long long)many.steps);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(barriers), cmocka_unit_test(nests)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
