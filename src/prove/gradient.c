/* Gradient rows as claims: the theorems of gradient_coq.c, a few files of them, so that they are checked side by side.
 */
#include "prove/gradient_coq.h"
#include "prove/prove.h"
#include <string.h>

enum { FILES = 2 };

void tn__export_gradient(tn__proofs *p) {
  static const char *const names[FILES] = {"Gradient1", "Gradient2"};
  tn__theory *file[FILES];
  tn__theorem *t;
  uint32_t n = tn__gradient_theorems(p->c, p->a, tn__rules_get(p->c, "gradient"), &t);
  for (int i = 0; i < FILES; i++)
    file[i] = tn__prove_file(p, names[i],
                             "From Coq Require Import Reals Lra.\nFrom Coquelicot Require Import Coquelicot.\nFrom "
                             "Tenet Require Import Ops.\nOpen Scope R_scope.\n");
  for (uint32_t i = 0; i < n; i++) {
    tn__sb rule;
    tn__sb_init(&rule, p->a);
    tn__sb_printf(&rule, "gradient.%s", t[i].rule->name);
    const char *name = tn__sb_str(&rule), *part = tn__theorem_kinds[t[i].kind];
    if (t[i].statement)
      tn__prove_coq(p, name, part, TK_GRADIENT, file[i * FILES / n], t[i].name, t[i].statement, t[i].proof);
    else if (t[i].kind == TH_LACKING) tn__prove_held(p, name, part, TK_GRADIENT, "its text", false, t[i].proof);
    else
      tn__prove_held(p, name, part, TK_GRADIENT, "its text", true,
                     t[i].kind == TH_REFUSED ? "differentiating it is an error" : "its source is never a float");
  }
}
