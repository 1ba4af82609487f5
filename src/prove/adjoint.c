/* Adjoints and the reverse pass as claims: pairs printed from what the engine builds (adjoint_coq.c), and theorems of Adjoint.v and Reverse.v. */
#include "prove/adjoint_coq.h"
#include "prove/prove.h"

enum { FILES = 4, RANKS = 8 }; /* files are compiled side by side */

static const char *joined(tn__arena *a, const char *prefix, const char *name) {
  tn__sb b;
  tn__sb_init(&b, a);
  tn__sb_printf(&b, "%s.%s", prefix, name);
  return tn__sb_str(&b);
}

void tn__export_adjoint(tn__proofs *p) {
  static const char *const names[FILES] = {"Adjoint1", "Adjoint2", "Adjoint3", "Adjoint4"};
  static const char *const reverse[][2] = {
      {"transpose", "transposed"}, {"reverse_along_curves", "along curves"}, {"reverse_mode_correct", "partial derivatives"},
      {"elementwise_correct", "elementwise ops"}, {"linear_correct", "linear ops"}, {"contract_correct", "contraction"},
  };
  tn__theory *file[FILES];
  tn__pairing *t;
  uint32_t n = tn__adjoint_pairings(p->c, p->a, RANKS, &t), at = 0;
  for (int i = 0; i < FILES; i++)
    file[i] = tn__prove_file(p, names[i], "From Coq Require Import ZArith List Bool Lia.\nFrom Tenet Require Import Adjoint.\nImport ListNotations.\nOpen Scope Z_scope.\n");
  for (uint32_t i = 0; i < n; i++) {
    const char *rule = joined(p->a, "adjoint", t[i].op);
    if (t[i].statement) tn__prove_coq(p, rule, t[i].part, TK_ADJOINT, file[at++ % FILES], t[i].name, t[i].statement, "adjoint_places.");
    else tn__prove_theorem(p, rule, t[i].part, TK_ADJOINT, "Adjoint", t[i].name);
  }
  for (size_t i = 0; i < sizeof reverse / sizeof *reverse; i++) tn__prove_theorem(p, "gradient.reverse_pass", reverse[i][1], TK_GRADIENT, "Reverse", reverse[i][0]);
}
