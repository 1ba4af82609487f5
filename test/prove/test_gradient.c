/* Gradient rows against differences, the statements that are printed of them, and mistakes: each must show in numbers.
 * `test_prove_gradient FILE` writes for Coq that the theorems of no wrong row close (tools/prove-coq compiles
 * it). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <stdio.h>
#include <string.h>

#include "prove/gradient_coq.h"
#include "support/ctx.h"
#include "support/slopes.h"

static tn_ctx ctx;
static tn__arena arena;
static tn__ruleset *table;

static int begin(void **state) {
  (void)state;
  if (!test_ctx_open(&ctx)) return -1;
  tn__arena_init(&arena, &ctx.mem);
  table = tn__rules_get(&ctx, "gradient");
  return 0;
}

static int end(void **state) {
  (void)state;
  tn__arena_free(&arena);
  tn__rules_close(&ctx);
  return test_ctx_close(&ctx) == 0 ? 0 : -1;
}

/* Of this row alone. */
static uint32_t theorems_of(const tn__rule *r, tn__theorem **t) {
  tn__ruleset one = *table;
  one.rule = (tn__rule *)r, one.n = 1;
  return tn__gradient_theorems(&ctx, &arena, &one, t);
}

static bool has_statement(const tn__rule *r, tn__theorem_kind kind) {
  tn__theorem *t;
  uint32_t n = theorems_of(r, &t);
  for (uint32_t i = 0; i < n; i++)
    if (t[i].kind == kind) return true;
  return false;
}

/* ---- numbers ---- */

static void rows_hold(void **state) {
  (void)state;
  for (uint32_t i = 0; i < table->n; i++) {
    const tn__rule *r = &table->rule[i];
    if (!has_statement(r, TH_SLOPE)) continue;
    slope_verdict v = slope_try(&ctx, r);
    const slope_witness *w = &v.witness;
    if (!v.held)
      fail_msg("%s, clause %u at %g %g %g: %g; to the left %g, to the right %g", r->name, w->clause, w->at[0], w->at[1],
               w->at[2], w->row, w->left, w->right);
    if (v.empty) fail_msg("%s: a clause holds nowhere", r->name);
  }
}

static void mistakes_show(void **state) {
  (void)state;
  uint32_t made = 0, survived = 0;
  for (uint32_t i = 0; i < table->n; i++) {
    if (!has_statement(&table->rule[i], TH_SLOPE)) continue;
    tn__rule *m;
    const char *const *what;
    uint32_t n = slope_mutants(&arena, &table->rule[i], &m, &what);
    for (uint32_t j = 0; j < n; j++) {
      made++;
      if (!slope_try(&ctx, &m[j]).held) continue;
      print_error("not noticed: in %s, %s\n", m[j].name, what[j]);
      survived++;
    }
  }
  print_message("%u mistakes, %u not noticed\n", made, survived);
  assert_int_equal(survived, 0);
  assert_true(made > 500); /* docs/trust.md states it */
}

/* ---- statements ---- */

static const tn__theorem *theorem(const tn__theorem *t, uint32_t n, const char *name) {
  for (uint32_t i = 0; i < n; i++)
    if (!strcmp(t[i].name, name)) return &t[i];
  fail_msg("no theorem %s", name);
  return NULL;
}

static void statements(void **state) {
  (void)state;
  static const struct {
    const char *name;
    tn__theorem_kind kind;
    const char *statement;
  } want[] = {
      {"grad_neg_x", TH_SLOPE, "forall (x : R) (g : R), is_derive (fun x => g * (o_neg x)) x (o_neg g)"},
      {"grad_exp_x", TH_SLOPE, "forall (x : R) (g : R), is_derive (fun x => g * (o_exp x)) x (o_mul g (o_exp x))"},
      {"grad_log1p_x", TH_SLOPE,
       "forall (x : R) (g : R), (-1) < x -> is_derive (fun x => g * (o_log1p x)) x (o_div g (o_add x 1))"},
      {"grad_lt_y", TH_SLOPE,
       "forall (x : R) (y : R) (g : R), x <> y -> is_derive (fun y => g * (truth (o_lt x y))) y 0"},
      {"grad_abs_x_kink", TH_KINK,
       "forall (x : R) (g : R), x = 0 -> g <> 0 -> between_slopes (fun x => g * (o_abs x)) x (o_mul g (o_sign x))"},
      {"grad_max_tie", TH_TIE,
       "forall (x : R) (y : R), x = y -> convex (o_where (o_eq x y) (o_mul 1 (1 / 2)) (o_where (o_lt y x) 1 0)) "
       "(o_where (o_eq x y) (o_mul 1 (1 / 2)) (o_where (o_lt x y) 1 0))"},
      {"grad_div_joint", TH_JOINT,
       "forall (x : R) (y : R), y <> 0 -> diff2 (fun x y => (o_div x y)) x y (o_div 1 y) (o_neg (o_mul (o_div 1 y) "
       "(o_div x y)))"},
      {"grad_where_y", TH_SLOPE,
       "forall (x : bool) (y : R) (z : R) (g : R), is_derive (fun y => g * (o_where x y z)) y (o_where x g 0)"},
      {"grad_where_x", TH_NO_SLOPE, NULL},
      {"grad_xor_x", TH_NO_SLOPE, NULL},
      {"grad_bitcast_x", TH_REFUSED, NULL},
      {"grad_pow_x_4", TH_SLOPE, NULL},
  };
  tn__theorem *t;
  uint32_t n = tn__gradient_theorems(&ctx, &arena, table, &t);
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    const tn__theorem *found = theorem(t, n, want[i].name);
    assert_int_equal(found->kind, want[i].kind);
    if (want[i].statement) assert_string_equal(found->statement, want[i].statement);
  }
  uint32_t covered = 0; /* every row has a statement, but for those that are refused */
  for (uint32_t i = 0; i < table->n; i++)
    for (uint32_t j = 0; j < n; j++)
      if (t[j].rule == &table->rule[i]) {
        covered++;
        break;
      }
  assert_int_equal(covered, table->n);
}

/* ---- for Coq ---- */

/* Its sentences as one tactic. */
static void write_tactic(FILE *f, const char *proof) {
  for (const char *s = proof; s[1]; s++) fputc(*s == '.' && s[1] == ' ' ? ';' : *s, f);
}

/* That all statements of the row close, or (wrong) that they do not. */
static void write_attempt(FILE *f, const tn__rule *r, const char *what, bool wrong) {
  tn__theorem *t;
  uint32_t n = theorems_of(r, &t);
  for (uint32_t k = 0; k < n; k++)
    if (!t[k].statement) { /* refused before Coq is asked */
      fprintf(f, "(* %s: %s; %s *)\n", r->name, what, t[k].proof);
      return;
    }
  fprintf(f, "(* %s: %s *)\nGoal ", r->name, what);
  for (uint32_t k = 0; k < n; k++) fprintf(f, "%s(%s)", k ? " /\\ " : "", t[k].statement);
  fprintf(f, ".\nProof. %s(timeout 20 solve [", wrong ? "Fail " : "");
  for (uint32_t k = 0; k < n; k++) {
    if (k + 1 < n) fputs("split; [solve [", f);
    write_tactic(f, t[k].proof);
    if (k + 1 < n) fputs("] | ", f);
  }
  for (uint32_t k = 1; k < n; k++) fputc(']', f);
  fprintf(f, "]). Abort.\n");
}

static void write_mutants(FILE *f, const tn__rule *r) {
  tn__rule *m;
  const char *const *what;
  uint32_t n = slope_mutants(&arena, r, &m, &what);
  write_attempt(f, r, "as it is", false);
  for (uint32_t j = 0; j < n; j++) write_attempt(f, &m[j], what[j], true);
}

static int write_file(const char *path) {
  FILE *f = fopen(path, "w");
  if (!f || begin(NULL)) return 1;
  fputs("From Coq Require Import Reals Lra.\nFrom Coquelicot Require Import Coquelicot.\nFrom Tenet Require Import "
        "Ops.\nOpen Scope R_scope.\n",
        f);
  for (uint32_t i = 0; i < table->n; i++)
    if (has_statement(&table->rule[i], TH_SLOPE)) write_mutants(f, &table->rule[i]);
  return fclose(f) || end(NULL);
}

int main(int argc, char **argv) {
  if (argc == 2) return write_file(argv[1]);
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_hold), cmocka_unit_test(mistakes_show),
                                     cmocka_unit_test(statements)};
  return cmocka_run_group_tests(tests, begin, end);
}
