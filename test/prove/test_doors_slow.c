/* What the reader of proof text refuses, Coq's second look refuses as well: files whose theorems are false, by all ways
 * of Coq to have them accepted, and one whose theorem is true.  Skipped where there is no Coq (with
 * TENET_PROVERS=required it fails there). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/child.h"
#include "prove/prove.h"
#include "support/files.h"
#include "support/in_ctx.h"

#define FALSEHOOD "forall x : R, x = x + 1"

/* The text that the file has in place of a theorem with its proof; @ is the theorem's name. */
static const char *const doors[] = {
    "Theorem @ : True. Proof. exact I. Qed.",
    "Theorem @ : " FALSEHOOD ". Abort. Theorem @ : forall x : R, x = x. Proof. trivial. Qed.",
    "Axiom a : forall P : Prop, P. Theorem @ : " FALSEHOOD ". Proof. intros. apply a. Qed.",
    "Parameter a : False. Theorem @ : " FALSEHOOD ". Proof. destruct a. Qed.",
    "Theorem @ : " FALSEHOOD ". Proof. Admitted.",
    "Theorem @ : " FALSEHOOD ". Proof. intros. admit. Admitted.",
    "Unset Guard Checking. Fixpoint f (n : nat) : False := f n. Set Guard Checking. Theorem @ : " FALSEHOOD
    ". Proof. destruct (f 0%nat). Qed.",
    "#[bypass_check(guard)] Fixpoint f (n : nat) : False := f n. Theorem @ : " FALSEHOOD
    ". Proof. destruct (f 0%nat). Qed.",
    "Unset Positivity Checking. Inductive t := c : (t -> False) -> t. Definition bad (x : t) : False := match x with "
    "c f => f x end. Theorem @ : " FALSEHOOD ". Proof. destruct (bad (c bad)). Qed.",
    "Notation \"x = y\" := True. Theorem @ : " FALSEHOOD ". Proof. exact (fun _ => I). Qed.",
    "Definition Rplus (x y : R) := x. Infix \"+\" := Rplus. Theorem @ : " FALSEHOOD ". Proof. reflexivity. Qed.",
    "Definition R := unit. Theorem @ : forall x : R, x = x. Proof. trivial. Qed.",
    "Module Classical_Prop. Axiom classic : forall P : Prop, P. End Classical_Prop. Theorem @ : " FALSEHOOD
    ". Proof. intros. apply Classical_Prop.classic. Qed.",
    "Section S. Hypothesis h : False. Theorem @ : " FALSEHOOD ". Proof. destruct h. Qed. End S.",
};
enum { DOORS = sizeof doors / sizeof *doors };

static void install(tn__proofs *p, const char *name, const char *statement, const char *door) {
  tn__theory *f = tn__prove_file(p, name, "From Coq Require Import Reals.\nOpen Scope R_scope.\n");
  tn__prove_coq(p, name, "R", TK_PROVED, f, name, statement, "trivial.");
  if (!door) return;
  tn__sb_init(&f->theorems, p->a);
  for (; *door; door++) {
    if (*door == '@') tn__sb_puts(&f->theorems, name);
    else tn__sb_putc(&f->theorems, *door);
  }
}

static void try_doors(tn_ctx *c, void *arg) {
  (void)arg;
  tn__cache none = {0};
  tn__proofs *p = tn__prove_collect(c, "nothing");
  p->only = NULL;
  p->theories.n = 0; /* those written by hand, which take long to compile, have no part in it */
  install(p, "control", "forall x : R, x = x", NULL);
  for (int i = 0; i < DOORS; i++) {
    char name[32];
    snprintf(name, sizeof name, "door_%d", i);
    install(p, tn__arena_strdup(p->a, name), FALSEHOOD, doors[i]);
  }
  test_write_file("none", "", 0);
  tn__prove_run(p, &(tn__prove_how){.dir = test_path(""), .cache = &none, .jobs = 2});
  assert_int_equal(p->claims.n, DOORS + 1);
  assert_int_equal(p->claims.v[0].outcome, TO_HOLDS);
  for (uint32_t i = 1; i <= DOORS; i++)
    if (p->claims.v[i].outcome == TO_HOLDS) fail_msg("proved: %s", doors[i - 1]);
  print_message("%d ways refused\n", DOORS);
}

static void nothing_false_is_proved(void **state) {
  (void)state;
  char path[4096];
  const char *provers = getenv("TENET_PROVERS");
  if (!tn__child_find("coqc", path, sizeof path)) {
    if (provers && !strcmp(provers, "required")) fail_msg("coqc is not installed");
    skip();
  }
  test_in_ctx(try_doors, NULL);
  test_remove_files();
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_false_is_proved)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
