/* What is printed of adjoints: all ops and ranks, the places that the engine reads at, strides as variables. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <string.h>

#include "prove/adjoint_coq.h"
#include "rewrite/rewrite.h"
#include "support/ctx.h"

static tn_ctx ctx;
static tn__pairing *pairing;
static uint32_t count;

static void collect(void *ranks) { count = tn__adjoint_pairings(&ctx, &ctx.scratch, *(uint32_t *)ranks, &pairing); }

static void run(uint32_t ranks) {
  tn_status status;
  assert_true(test_ctx_open(&ctx));
  if (!tn__mem_try(&ctx.mem, collect, &ranks, &status)) fail_msg("%s", tn_last_error(&ctx)->text);
}

static const char *statement(const char *name) {
  for (uint32_t i = 0; i < count; i++)
    if (!strcmp(pairing[i].name, name)) return pairing[i].statement;
  fail_msg("no pairing %s", name);
  return NULL;
}

static void close_ctx(void) {
  tn__rules_close(&ctx);
  assert_int_equal(test_ctx_close(&ctx), 0);
}

static void texts(void **state) {
  (void)state;
  run(1);
  assert_string_equal(statement("adjoint_flip_1"),
                      "forall n0, (0 < n0)%Z -> adjoint_pair [n0] [n0] [] (fun i => match i with [i0] => true | _ => false end)%bool "
                      "(fun i => match i with [i0] => [((n0 + (i0 * (-1))) + (-1))] | _ => [] end) "
                      "(fun i o => match i, o with [i0], [] => true | _, _ => false end)%bool "
                      "(fun i o => match i, o with [i0], [] => [((n0 + (i0 * (-1))) + (-1))] | _, _ => [] end) (fun i => match i with [i0] => [] | _ => [] end)");
  /* a window reads at place * stride + offset * dilation; its adjoint sums over the offsets, where the stride divides */
  const char *window = statement("adjoint_window_1");
  assert_non_null(strstr(window, "[i0; i1] => [((i0 * (s)) + (i1 * (d)))]"));
  assert_non_null(strstr(window, "mod (s)) =? (0))"));
  assert_non_null(strstr(window, "adjoint_pair [((n0 + (-1 + s - d * (k - 1))) / (s)); (k)] [n0] [(k)]"));
  assert_null(statement("adjoint_reshape")); /* a theorem for any rank */
  close_ctx();
}

static void all_ranks(void **state) {
  (void)state;
  enum { RANKS = 8 };
  run(RANKS);
  uint32_t printed = 0;
  for (uint32_t i = 0; i < count; i++) printed += pairing[i].statement != NULL;
  assert_int_equal(printed, 9 * RANKS - 1); /* no permutation of one axis */
  close_ctx();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts), cmocka_unit_test(all_ranks)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
