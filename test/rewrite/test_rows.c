/* Every row of the tables is a true statement, and fires. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "rewrite/table.h"
#include "support/ctx.h"
#include "support/rows.h"

static void every_row(const char *table, const char *text, bool hold) {
  tn_ctx c;
  assert_true(test_ctx_open(&c));
  c.mode = TN_MODE_FAST;
  tn__ruleset *s = text ? tn__rules_parse(&c, table, text) : tn__rules_get(&c, table);
  int wrong = 0;
  for (uint32_t i = 0; i < s->n; i++) {
    const tn__rule *r = &s->rule[i];
    row_verdict v = row_try(&c, r->text, r->len, !strcmp(table, "index"), !hold);
    if (!v.sound) fail_msg("%s: %s", r->name, c.err_text);
    if (!v.fired) print_error("row %s never fired\n", r->name);
    else if (v.held != hold) print_error("row %s %s\n", r->name, hold ? "is false" : "is false and was not found out");
    wrong += !v.fired || v.held != hold;
  }
  tn__rules_close(&c);
  assert_int_equal(wrong, 0);
  assert_int_equal(test_ctx_close(&c), 0);
}

static void index_rows(void **state) { (void)state, every_row("index", NULL, true); }
static void simplify_rows(void **state) { (void)state, every_row("simplify", NULL, true); }
static void float_rows(void **state) { (void)state, every_row("float", NULL, true); }

/* The test of the test: rows that are almost true. */
static void false_index_rows(void **state) {
  (void)state;
  every_row("index",
            "rule a (idiv (parts c g q r) c) -> (idiv q (#idiv c g)) when c>0 0<=r\n"
            "rule b (idiv (split y q r) y) -> q when y:index y!=0\n"
            "rule c (mod (pick k (mod x c1) y) c) -> (mod (add (mul x k) y) c) when x:index\n"
            "rule d (mod (mod x c1) c) -> (mod x c) when x:index (divides c1 c)\n"
            "rule e (lt (parts 0 g q 0) c) -> (lt q (#idiv c g))\n"
            "rule f (idiv x c) -> 0 when x:index 0<=x x<=c\n"
            "rule g (pick k (mod x c) (pick k1 (idiv x c) y)) -> (add (mul x k) y) when x:index c!=0\n"
            "rule h (and (lt c1 x) (lt x c2)) -> 0 when x:index c2<=(#add c1 2)\n"
            "rule i (lt (mul x c1) c2) -> (lt (mul x (#neg c1)) (#neg c2)) when x:index c1<0\n",
            false);
}

static void false_rows(void **state) {
  (void)state;
  every_row("false",
            "rule a (add x 0) -> x when x:float\n"
            "rule b (mul x 0) -> 0 when x:float\n"
            "rule c (lt x y) -> (not (le y x)) when x:float\n"
            "rule d (eq x x) -> 1\n"
            "rule e (abs (neg x)) -> (abs x)\n"
            "rule f (cast (cast x)) -> (cast x)\n"
            "rule g (flip (flip x a) b) -> (flip x b)\n"
            "rule h (shrink (flip x a) s) -> (shrink x s)\n"
            "rule i (div (mul x y) y) -> x when x:float\n"
            "rule j (where p x y) -> y\n",
            false);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(index_rows),       cmocka_unit_test(simplify_rows), cmocka_unit_test(float_rows),
      cmocka_unit_test(false_index_rows), cmocka_unit_test(false_rows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
