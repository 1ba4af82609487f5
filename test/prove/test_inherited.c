/* The unsound rules of the project that Tenet follows, by the names of its inventory: X8, X14, X15 and table 3.1.  Each
 * is given as a row to the solvers or to the evaluator, which refute it with values; of each the corrected form stands
 * in Tenet's tables and is proved. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/eval.h"
#include "prove/prove.h"
#include "support/ctx.h"
#include "support/provers.h"
#include "support/rows.h"
#include "support/slopes.h"

static tn_ctx c;

static int begin(void **state) {
  (void)state;
  return test_ctx_open(&c) ? 0 : 1;
}

static int end(void **state) {
  (void)state;
  tn__rules_close(&c);
  return test_ctx_close(&c) != 0;
}

static void in_run(void (*fn)(tn_ctx *, void *), void *arg) {
  if (!tn__ctx_run(&c, "test", fn, arg)) fail_msg("%s", c.err_text);
}

/* ---- rewrites: X8 ---- */

static const struct {
  const char *name, *wrong, *right; /* right: a row of Tenet's, "table.row" */
} rewrites[] = {
    {"X8: x*0 -> 0 forgets NaN, infinities and -0", "rule x8_mul_zero (mul x 0) -> 0 when x:float",
     "simplify.mul_zero"},
    {"X8: 0*x -> 0", "rule x8_zero_mul (mul 0 x) -> 0 when x:float", "simplify.mul_zero"},
    {"X8: x+0 -> x loses the sign of -0", "rule x8_add_zero (add x 0) -> x when x:float", "simplify.add_zero"},
    {"X8: 0+x -> x", "rule x8_zero_add (add 0 x) -> x when x:float", "simplify.add_minus_zero"},
    {"3.1: g*x/y^2 for g*(x/y)/y", "rule t31_div (div (mul x z) (mul y y)) -> (mul (div z y) (div x y)) when x:float",
     "gradient.div.y"},
};
enum { REWRITES = sizeof rewrites / sizeof *rewrites };

static void evaluated(void **state) {
  (void)state;
  for (int i = 0; i < REWRITES; i++) {
    row_verdict v = row_try(&c, rewrites[i].wrong, strlen(rewrites[i].wrong), false, true);
    if (!v.sound || !v.fired || v.held) fail_msg("%s: not refuted", rewrites[i].name);
  }
}

/* The wrong rows at f32, a model wanted; and the claims of the corrected ones. */
static void ask(tn_ctx *k, void *arg) {
  tn__cache none = {0};
  tn__proofs *p = tn__prove_collect(k, "nothing");
  bool *missing = arg;
  p->only = NULL;
  for (int i = 0; i < REWRITES; i++) {
    const tn__ruleset *s = tn__rules_parse(k, "inherited", rewrites[i].wrong);
    tn__typing t;
    assert_true(tn__typing_infer(&s->rule[0], &t));
    for (bool more = tn__typing_first(&s->rule[0], &t); more; more = tn__typing_next(&s->rule[0], &t))
      if (!strcmp(tn__typing_name(&t, p->a), "f32"))
        tn__prove_smt(p, rewrites[i].name, "f32", TK_SUPPORT, TT_SMT_FLOAT, true,
                      tn__smt_query(p, s, &s->rule[0], &t, false));
  }
  assert_int_equal(p->claims.n, REWRITES);
  for (int i = 0; i < REWRITES; i++) {
    const tn__proofs *right = tn__prove_collect(k, rewrites[i].right);
    assert_true(right->claims.n > 0);
    for (uint32_t j = 0; j < right->claims.n; j++)
      if (right->claims.v[j].tool == TT_SMT || right->claims.v[j].tool == TT_SMT_FLOAT)
        tn__vec_push(p->a, &p->claims, right->claims.v[j]);
  }
  tn__prove_run(p, &(tn__prove_how){.dir = "/nowhere", .cache = &none, .jobs = 2});
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *q = &p->claims.v[i];
    if (q->tool == TT_COQ) continue;
    *missing |= q->outcome == TO_NO_TOOL;
    if (q->outcome != TO_HOLDS && q->outcome != TO_NO_TOOL) fail_msg("%s, %s: %s", q->rule, q->part, q->witness);
    if (q->sat && q->outcome == TO_HOLDS) print_message("%s: refuted by %s at %s\n", q->rule, q->by, q->witness);
    if (q->sat && q->outcome == TO_HOLDS) assert_non_null(strstr(q->witness, "x"));
  }
}

static void proved(void **state) {
  (void)state;
  bool missing = false;
  in_run(ask, &missing);
  if (missing) provers_are_missing();
}

/* ---- slopes: X14, and rows of 3.1 that claim too much ---- */

static double evaluate(const tn__term *t, int dtype, const double *v) {
  uint64_t arg[3] = {0};
  if (t->form == TF_VAR) return v[t->slot];
  if (t->form == TF_NUM) return t->num;
  for (uint32_t i = 0; i < t->nkid; i++) {
    bool mask = t->what == OP_WHERE && i == 0;
    arg[i] = tn__eval_from_double(mask ? TN_BOOL : dtype, evaluate(t->kid[i], dtype, v));
  }
  int result = t->what >= OP_LT && t->what <= OP_NE ? TN_BOOL : dtype;
  return tn__eval_to_double(result, tn__eval(t->what, result, dtype, arg));
}

static const struct {
  const char *name, *wrong, *right;
  double at;
} slopes[] = {
    {"X14, 3.1: ln 2 = 0.693147 in exp2", "grad exp2 x -> (mul (mul g out) 0.693147)", "exp2.x", 1},
    {"X14, 3.1: ln 2 = 0.693147 in log2", "grad log2 x -> (div g (mul x 0.693147)) domain x>0", "log2.x", 1},
    {"X14, 3.1: pi/2 = 1.5707963 in sin", "grad sin x -> (mul g (sin (add x 1.5707963)))", "sin.x", 1.5},
};

static const tn__rule *gradient_row(const char *name) {
  const tn__ruleset *s = tn__rules_get(&c, "gradient");
  for (uint32_t i = 0; i < s->n; i++)
    if (!strcmp(s->rule[i].name, name)) return &s->rule[i];
  fail_msg("there is no row %s", name);
  return NULL;
}

static void is_claimed(const char *name) {
  const tn__proofs *p = tn__prove_collect(&c, name);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->claims.n; i++) n += p->claims.v[i].tool == TT_COQ; /* make prove has them checked */
  if (!n) fail_msg("Coq proves nothing of %s", name);
}

static double value(int op, double x) {
  uint64_t arg[3] = {tn__eval_from_double(TN_F64, x)};
  return tn__eval_to_double(TN_F64, tn__eval(op, TN_F64, TN_F64, arg));
}

/* The slope at x, to eleven digits: differences at two distances, of which the first errors cancel. */
static double slope(int op, double x) {
  const double h = 1e-3;
  return (8 * (value(op, x + h / 2) - value(op, x - h / 2)) - (value(op, x + h) - value(op, x - h))) / (6 * h);
}

static double error_of(const tn__rule *r, double x) {
  const double v[] = {[GRAD_X] = x, [GRAD_Y] = 0, [GRAD_OUT] = value(r->op, x), [GRAD_G] = 1};
  return fabs(evaluate(r->rhs, TN_F64, v) - slope(r->op, x));
}

static void differences(tn_ctx *k, void *arg) {
  (void)arg;
  for (size_t i = 0; i < sizeof slopes / sizeof *slopes; i++) {
    double wrong = error_of(&tn__rules_parse(k, "inherited", slopes[i].wrong)->rule[0], slopes[i].at),
           right = error_of(gradient_row(slopes[i].right), slopes[i].at);
    print_message("%s: at x = %g off by %.3g; by %.1g as it is now\n", slopes[i].name, slopes[i].at, wrong, right);
    assert_true(wrong > 1e-9);
    assert_true(right < 2e-11);
    char claim[64];
    snprintf(claim, sizeof claim, "gradient.%s", slopes[i].right);
    is_claimed(claim);
  }
  /* 3.1: sqrt has no slope at 0 */
  slope_verdict v = slope_try(k, &tn__rules_parse(k, "inherited", "grad sqrt x -> (div g (mul 2 out))")->rule[0]);
  assert_false(v.held);
  assert_true(v.witness.at[0] <= 0);
  assert_true(slope_try(k, gradient_row("sqrt.x")).held);
  is_claimed("gradient.sqrt.x");
}
static void wrong_slopes(void **state) { (void)state, in_run(differences, NULL); }

/* ---- ties: X15 ---- */

/* What flows back to x and y together where both are the maximum. */
static double at_tie(const tn__rule *x, const tn__rule *y) {
  const double v[] = {[GRAD_X] = 3, [GRAD_Y] = 3, [GRAD_OUT] = 3, [GRAD_G] = 1};
  return evaluate(x->rhs, TN_F64, v) + evaluate(y->rhs, TN_F64, v);
}

static void both_sides(tn_ctx *k, void *arg) {
  (void)arg;
  const tn__ruleset *s =
      tn__rules_parse(k, "inherited", "grad max x -> (where (le y x) g 0)\ngrad max y -> (where (le x y) g 0)");
  assert_true(at_tie(&s->rule[0], &s->rule[1]) == 2); /* x15: max(x, x) has slope 1, not 2 */
  assert_true(at_tie(gradient_row("max.x"), gradient_row("max.y")) == 1);
  is_claimed("gradient.max.x"); /* the tie is one of its statements */
  is_claimed("adjoint.rmax");   /* of n elements those that tie share in proportions that add up to 1 */
}
static void ties(void **state) { (void)state, in_run(both_sides, NULL); }

/* ---- the rest of 3.1: what was missing, and adjoints that were none ---- */

/* <A x, y> = <x, A' y> where A repeats one element n times: the transpose sums (3.1: expand's and add's did not where
 * the rank grew). */
static void repeated(tn_ctx *k, void *arg) {
  (void)k, (void)arg;
  const double x = 2, y[] = {3, 5, 7};
  double left = 0, sum = 0;
  for (int i = 0; i < 3; i++) left += x * y[i], sum += y[i];
  assert_true(left == x * sum && left != x * y[0]);
  is_claimed("adjoint.expand");
  is_claimed("adjoint.contract"); /* 3.1: the batch axes of a product were not summed */
  is_claimed("adjoint.rmin");     /* 3.1: missing */
  static const char *const missing[] = {"max.x", "min.y", "lt.x", "eq.x", "cast.x"};
  for (size_t i = 0; i < sizeof missing / sizeof *missing; i++)
    assert_int_equal(gradient_row(missing[i])->verdict == TV_FORBIDDEN, 0);
}
static void others(void **state) { (void)state, in_run(repeated, NULL); }

/* -x g/y^2 is right over the reals, and 0 where y^2 overflows: Tenet's row divides twice. */
static void overflowing(tn_ctx *k, void *arg) {
  (void)arg;
  const double x = 1e30, y = 1e30;
  const double v[] = {[GRAD_X] = x, [GRAD_Y] = y, [GRAD_OUT] = 1, [GRAD_G] = 1};
  const tn__ruleset *s = tn__rules_parse(k, "inherited", "grad div y -> (neg (div (mul x g) (mul y y))) domain y!=0");
  assert_true(slope_try(k, &s->rule[0]).held);
  assert_true(evaluate(s->rule[0].rhs, TN_F32, v) == 0);
  assert_true(fabs(evaluate(gradient_row("div.y")->rhs, TN_F32, v) * y + 1) < 1e-6);
  is_claimed("gradient.div.y");
}
static void overflow(void **state) { (void)state, in_run(overflowing, NULL); }

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(evaluated),    cmocka_unit_test(proved),
                                     cmocka_unit_test(wrong_slopes), cmocka_unit_test(ties),
                                     cmocka_unit_test(others),       cmocka_unit_test(overflow)};
  return cmocka_run_group_tests(tests, begin, end);
}
