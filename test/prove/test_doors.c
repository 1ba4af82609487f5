/* Ways to have something accepted that is not proved, each refused: proof text that says more than a proof, axioms,
 * rows that state nothing or too little, literals read in two ways, solvers that say more than a verdict.  No Coq runs
 * here; test_doors_slow shows that it refuses the same, should the reader of proof text be passed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/build.h"
#include "ir/eval.h"
#include "prove/prove.h"
#include "rewrite/match.h"
#include "support/files.h"
#include "support/in_ctx.h"
#include <sys/stat.h>

/* ---- proof text ---- */

static void proof_text_is_one_script(void **state) {
  (void)state;
  static const char *const good[] = {
      "slope_row.",
      "intros. apply Z.mod_small. lia.",
      "intros x y.\n  - now rewrite (mod_def x y).\n  - { ring. }",
      "first [lra | (intro; nra)].",
      "set (h := 1). exists (1 / 2), 3. met_row.",
  };
  static const char *const bad[][2] = {
      {"", "has a sentence"},
      {"  ", "has a sentence"},
      {"lra", "does not end"},
      {"(lra.", "inside brackets"},
      {"lra).", "closes nothing"},
      {"Abort. Theorem grad_tanh_x : True. exact I.", "closes, opens"},
      {"exact I. Qed. Theorem other : True. exact I.", "closes, opens"},
      {"Admitted. Lemma l : True. exact I.", "closes, opens"},
      {"intros. admit.", "leaves open"},
      {"intros; give_up.", "leaves open"},
      {"intros. Defined. Goal True. trivial.", "closes, opens"},
      {"Unset Guard Checking. trivial.", "closes, opens"},
      {"Set Universe Polymorphism. trivial.", "begins with a tactic"},
      {"#[bypass_check(guard)] Fixpoint f (n : nat) : False := f n. destruct (f 0).", "begins with a tactic"},
      {"Declare ML Module \"evil\".", "string"},
      {"Load evil.", "begins with a tactic"},
      {"Notation \"x = y\" := True. trivial.", "string"},
      {"Ltac lra := idtac. lra.", "begins with a tactic"},
      {"Hint Resolve evil. auto.", "begins with a tactic"},
      {"Time lra.", "begins with a tactic"},
      {"Fail lra.", "begins with a tactic"},
      {"1: lra.", "begins with a tactic"},
      {"all: lra.", "bullets and braces"},
      {"intros. { Restart. }", "begins with a tactic"},
      {"- Undo.", "begins with a tactic"},
      {"+ * - Show.", "begins with a tactic"},
      {"1: { Show. }", "begins with a tactic"},
      {"idtac {Show. }.", "brace"},
      {"(* . *) lra.", "comment"},
      {"lra. (* Qed. *)", "comment"},
      {"lra *).", "comment"},
      {"idtac \"Qed.\".", "string"},
      {"lra...", "one full stop"},
      {"lra\xc2\xa0.", "ASCII"},
      {"lr\xd0\xb0.", "ASCII"},
      {"lra.\x01", "ASCII"},
  };
  for (size_t i = 0; i < sizeof good / sizeof *good; i++)
    if (tn__prove_script_fault(good[i])) fail_msg("%s: %s", good[i], tn__prove_script_fault(good[i]));
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    const char *fault = tn__prove_script_fault(bad[i][0]);
    if (!fault) fail_msg("taken for a proof: %s", bad[i][0]);
    if (!strstr(fault, bad[i][1])) fail_msg("%s: %s", bad[i][0], fault);
  }
}

/* ---- axioms ---- */

static void axioms(tn_ctx *c, void *arg) {
  (void)arg;
  static const char good[] = "Axioms:\nClassical_Prop.classic : forall P : Prop, or P (not P)\n"
                             "ClassicalDedekindReals.sig_not_dec : forall P : Prop, sumbool (not (not P)) (not P)\n";
  static const char *const bad[] = {
      "",
      "Axioms:\n",
      "Closed under the global context\nAxioms:\nfoo : False\n",
      "Closed under the global context",
      "Axioms:\nfoo : False\n",
      "Axioms:\nClassical_Prop.classic : forall P : Prop, P\n",
      "Axioms:\nclassic : forall P : Prop, or P (not P)\n",
      "Axioms:\nTenet.Classical_Prop.classic : forall P : Prop, or P (not P)\n",
      "Axioms:\nClassical_Prop.classic : forall P : Prop, or P (not P)",
      "Axioms:\nClassical_Prop.classic : forall P : Prop, or P (not P)\nf is assumed to be guarded.\n",
      "Axioms:\nt is assumed to be positive.\n",
      "Axioms:\nx relies on an unsafe universe hierarchy.\n",
      "1 subgoal\nAxioms:\nClassical_Prop.classic : forall P : Prop, or P (not P)\n",
  };
  const char *fault;
  assert_string_equal(tn__prove_assumptions(&c->scratch, "Closed under the global context\n", &fault), "");
  assert_null(fault);
  assert_string_equal(tn__prove_assumptions(&c->scratch, good, &fault),
                      "Classical_Prop.classic, ClassicalDedekindReals.sig_not_dec");
  assert_null(fault);
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    tn__prove_assumptions(&c->scratch, bad[i], &fault);
    if (!fault) fail_msg("allowed: %s", bad[i]);
  }
}
static void axioms_are_known_by_name_and_type(void **state) { (void)state, test_in_ctx(axioms, NULL); }

/* ---- rows ---- */

typedef struct door {
  const char *table, *rows, *claim, *why; /* why: what is said of the claim, which fails */
} door;

static void no_way(tn_ctx *c, void *arg) {
  const door *d = arg;
  tn__rules_parse(c, d->table, d->rows);
  tn__proofs *p = tn__prove_collect(c, d->claim);
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *k = &p->claims.v[i];
    if (k->outcome == TO_FAILS && strstr(k->witness, d->why)) return;
  }
  fail_msg("%s: nothing of this row fails before a prover is asked", d->rows);
}

static void rows_that_state_too_little(void **state) {
  (void)state;
  static const door doors[] = {
      {"simplify", "rule a (xor x y) -> x when x:index", "simplify.a", "cannot be stated"},
      {"simplify", "rule a (bitcast x) -> x when x:index", "simplify.a", "no statement"},
      {"simplify", "rule a (add x 0.3) -> x when x:int", "simplify.a", "no statement"},
      {"simplify", "rule a (add x -0.5) -> x when x:int", "simplify.a", "no statement"},
      {"simplify", "rule a (add x inf) -> x when x:int", "simplify.a", "no statement"},
      {"simplify", "rule a (mul x 300) -> x when x:bool", "simplify.a", "no statement"},
      {"simplify", "rule a (and x y) -> x when x:float", "simplify.a", "no statement"},
      {"simplify", "rule a (pad 1 p) -> 1", "simplify.a", "no statement"},
      {"simplify", "rule a (gather x y) -> x", "simplify.a", "no statement"},
      {"index", "rule a (neg (bitcast x)) -> x when x:index", "index.a", ""},
      {"lemmas", "rule a (flip x p) -> x when (empty p)", "lemmas.a", "statement"},
      {"float", "rule a (add x 0) -> x when x:float", "float.a", "over the reals"},
      {"float", "rule a (add (cast (add x y)) z) -> z mode fast", "float.a", "others"},
      {"float", "rule a (where p x x) -> x mode fast", "float.a", ""},
      {"gradient", "grad abs x -> g domain x>0 x<0", "gradient.abs.x", "no point"},
      {"gradient", "grad tanh x -> g proof \"Abort. Theorem grad_tanh_x : True. exact I.\"", "gradient.tanh.x",
       "closes"},
      {"gradient", "grad max x -> g domain x>y kink x=y\ngrad max y -> zero domain x<y", "gradient.max.x", "together"},
  };
  for (size_t i = 0; i < sizeof doors / sizeof *doors; i++)
    test_in_ctx(no_way, (void *)(uintptr_t)&doors[i]);
}

/* Texts that are no table, or statements that are none. */
static void parse(tn_ctx *c, void *arg) {
  const door *d = arg;
  tn__rules_parse(c, d->table, d->rows);
  if (d->claim) tn__prove_collect(c, d->claim);
}

static void refused(const door *d) {
  tn_ctx c;
  assert_true(test_ctx_open(&c));
  if (tn__ctx_run(&c, "test", parse, (void *)(uintptr_t)d)) fail_msg("taken for a table: %s", d->rows);
  if (!strstr(c.err_text, d->why)) fail_msg("%s: %s", d->rows, c.err_text);
  tn__rules_close(&c);
  assert_int_equal(test_ctx_close(&c), 0);
}

static void rows_that_are_none(void **state) {
  (void)state;
  static const door doors[] = {
      /* names that are printed beside others */
      {"index", "rule a (add x lo_x) -> (add x (#lo x))", NULL, "a variable is a letter"},
      {"index", "rule a (add x H1) -> x", NULL, "a variable is a letter"},
      {"index", "rule a.b (add x 0) -> x", NULL, "a row's name"},
      {"index", "rule A (add x 0) -> x", NULL, "a row's name"},
      {"index", "rule a (add x 0) -> x\nrule a (mul x 1) -> x", NULL, "earlier"},
      /* what is assumed is nearly always so */
      {"float", "rule a (add x x) -> x assume x=0 mode fast", NULL, "may assume"},
      {"float", "rule a (add x x) -> x assume x!=x mode fast", NULL, "may assume"},
      {"float", "rule a (add x x) -> x assume 0!=0 mode fast", NULL, "may assume"},
      {"float", "rule a (add x x) -> x assume x<0 mode fast", NULL, "may assume"},
      {"index", "rule a (mul x c) -> x when c=0.5", NULL, "integers"},
      {"simplify", "rule a (add x 0x10) -> x", NULL, "not a number"},
      {"simplify", "rule a (add x 1e3) -> x", NULL, "not a number"},
      {"simplify", "rule a (add x -nan) -> x", NULL, "not a number"},
      {"simplify", "rule a (add x 1.) -> x", NULL, "not a number"},
      {"gradient", "defined sqrt on x>=0 defined sqrt on x>1", NULL, "earlier"},
      {"gradient", "defined sqrt", NULL, "on what"},
      {"gradient", "defined sqrt on y>0", NULL, "does not bind"},
      /* nothing follows by what is true of the reals only, or of other dtypes */
      {"index", "rule a (add x 0) -> x mode fast\nrule b (add x y) -> x when x:index by (a x)", "index.b",
       "follows by it"},
      {"index", "rule a (xor x 0) -> x when x:bool\nrule b (add x y) -> x when x:index by (a x)", "index.b",
       "follows by it"},
  };
  for (size_t i = 0; i < sizeof doors / sizeof *doors; i++) refused(&doors[i]);
}

/* ---- literals ---- */

static const double values[] = {0, -0.0, 1, -1, 2, 255, 300, -5, 0.5, -0.5, 0.1, 1e30};
static const char *const literals[] = {"0",   "-0.0", "1",    "-1",  "2",    "255", "300", "-5",
                                       "0.5", "-0.5", "0.25", "inf", "-inf", "nan", "65504", "65505"};

static tn_node *unknown(tn_ctx *c, int dtype) {
  return tn__node_make(c, &(tn__make){.op = OP_PARAM, .dtype = dtype, .ints = (int64_t[]){0, 0}, .nint = 2});
}

/* The value that the literal has in the dtype, by what rules/README.md says. */
static bool has_value(const char *literal, int dtype, double v) {
  double want = strtod(literal, NULL);
  if (!strcmp(literal, "-1") && !tn__is_float(dtype) && !tn__dtypes[dtype].is_signed)
    want = tn__eval_to_double(dtype, tn__eval_cast(TN_I64, dtype, ~UINT64_C(0)));
  bool zero = tn__is_float(dtype) && !(v < 0) && !(v > 0);
  return !(v < want) && !(v > want) && !isnan(want) && (!zero || !signbit(v) == !signbit(want));
}

static bool provers_read(const tn__rule *r, int dtype) {
  tn__typing t;
  if (!tn__typing_infer(r, &t)) return false;
  for (bool more = tn__typing_first(r, &t); more; more = tn__typing_next(r, &t))
    if (tn__typing_of(&t, r->lhs) == dtype) return true;
  return false;
}

/* A literal matches exactly the constants that have its value, and is written as that; the provers read the same. */
static uint32_t read_literal(tn_ctx *c, const char *literal, int d) {
  char row[80];
  uint32_t matched = 0;
  uint64_t bits;
  snprintf(row, sizeof row, "rule a (add x %s) -> %s", literal, literal);
  const tn__rule *r = &tn__rules_parse(c, "literal", row)->rule[0];
  for (size_t k = 0; k < sizeof values / sizeof *values; k++) {
    bits = tn__eval_from_double(d, values[k]);
    tn_node *sum[2] = {unknown(c, d), tn__const_bits(c, d, bits)};
    tn__match m = {.c = c, .rule = r, .root = tn__node_make(c, &(tn__make){.op = OP_ADD, .src = sum, .nsrc = 2})};
    double v = tn__eval_to_double(d, bits);
    bool matches = tn__match_root(&m);
    if (matches != has_value(literal, d, v))
      fail_msg("%s in %s: %g %s", literal, tn__dtypes[d].name, v, matches ? "matches" : "does not match");
    const tn_node *to = matches ? tn__instantiate(&m) : NULL;
    if (matches && (uint64_t)to->ints[0] != bits)
      fail_msg("%s in %s is written otherwise", literal, tn__dtypes[d].name);
    matched += matches;
  }
  if (provers_read(r, d) != tn__table_bits(r->lhs->kid[1], d, &bits))
    fail_msg("%s in %s: the provers read it otherwise", literal, tn__dtypes[d].name);
  return matched;
}

static void read_literals(tn_ctx *c, void *arg) {
  (void)arg;
  uint32_t matched = 0;
  for (size_t i = 0; i < sizeof literals / sizeof *literals; i++)
    for (int d = 0; d <= TN__INDEX; d++) matched += read_literal(c, literals[i], d);
  assert_true(matched > 60);
}
static void literals_have_one_reading(void **state) { (void)state, test_in_ctx(read_literals, NULL); }

/* A row of mode fast is applied to floats only: of other dtypes nothing is proved. */
static void fast_floats(tn_ctx *c, void *arg) {
  (void)arg;
  const tn__rule *r = &tn__rules_parse(c, "fast", "rule a (add x x) -> x mode fast")->rule[0];
  for (int d = 0; d <= TN__INDEX; d++) {
    tn_node *x = unknown(c, d);
    tn_node *two[2] = {x, x};
    tn__match m = {.c = c, .rule = r, .root = tn__node_make(c, &(tn__make){.op = OP_ADD, .src = two, .nsrc = 2})};
    assert_int_equal(tn__match_root(&m), tn__is_float(d));
  }
}
static void fast_rows_are_about_floats(void **state) { (void)state, test_in_ctx(fast_floats, NULL); }

/* ---- solvers ---- */

/* A z3 of the tests that answers so; the claims that hold then. */
typedef struct answer {
  const char *script;
  bool holds;
} answer;

static void ask(tn_ctx *c, void *arg) {
  const answer *a = arg;
  char text[400];
  int n = snprintf(text, sizeof text,
                   "#!/bin/sh\n[ \"$1\" = --version ] && { echo 'Z3 version 4.8.12 - 64 bit'; exit; }\n%s\n",
                   a->script);
  assert_int_equal(chmod(test_write_file("z3", text, (size_t)n), 0755), 0);
  tn__cache none = {0};
  tn__proofs *p = tn__prove_collect(c, "simplify.xor_zero");
  char *old = strdup(getenv("PATH"));
  setenv("PATH", test_path(""), 1);
  tn__prove_run(p, &(tn__prove_how){.dir = "/nowhere", .cache = &none, .jobs = 2});
  setenv("PATH", old, 1);
  free(old);
  uint32_t asked = 0;
  for (uint32_t i = 0; i < p->claims.n; i++) {
    if (p->claims.v[i].tool == TT_COQ) continue;
    asked++;
    if ((p->claims.v[i].outcome == TO_HOLDS) != a->holds) fail_msg("a solver that says %s", a->script);
  }
  assert_true(asked >= 4);
}

static void solvers_give_one_verdict(void **state) {
  (void)state;
  static const answer answers[] = {
      {"echo unsat", true},
      {"echo unsat; echo '(error \"line 9 column 2: model is not available\")'; exit 1", true},
      {"echo sat; echo '((x 0))'", false},
      {"echo unknown", false},
      {"echo '(error \"line 1: unknown constant\")'; echo unsat", false},
      {"echo unsat; echo '(error \"line 9: unknown constant\")'", false},
      {"echo unsat; echo sat", false},
      {"echo unsat; echo unsat", false},
      {"echo 'unsat '", false},
      {"echo unsatisfiable", false},
      {"echo unsat; kill -9 $$", false},
      {"printf unsat", false},
      {"true", false},
  };
  for (size_t i = 0; i < sizeof answers / sizeof *answers; i++)
    test_in_ctx(ask, (void *)(uintptr_t)&answers[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(proof_text_is_one_script),   cmocka_unit_test(axioms_are_known_by_name_and_type),
      cmocka_unit_test(rows_that_state_too_little), cmocka_unit_test(rows_that_are_none),
      cmocka_unit_test(literals_have_one_reading),  cmocka_unit_test(fast_rows_are_about_floats),
      cmocka_unit_test(solvers_give_one_verdict),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
