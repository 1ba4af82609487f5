/* What theorems may stand on: Coq's classical reals and functional extensionality, which is one of their axioms; each
 * by its name and its type, as Print Assumptions gives them with Printing All. */
#include "prove/prove.h"
#include <string.h>

static const struct {
  const char *name, *type;
} allowed[] = {
    {"ClassicalDedekindReals.sig_not_dec", "forall P : Prop, sumbool (not (not P)) (not P)"},
    {"ClassicalDedekindReals.sig_forall_dec",
     "forall (P : forall _ : nat, Prop) (_ : forall n : nat, sumbool (P n) (not (P n))), sumor (@sig nat (fun n : nat "
     "=> not (P n))) (forall n : nat, P n)"},
    {"FunctionalExtensionality.functional_extensionality_dep",
     "forall (A : Type) (B : forall _ : A, Type) (f g : forall x : A, B x) (_ : forall x : A, @eq (B x) (f x) (g x)), "
     "@eq (forall x : A, B x) f g"},
    {"Classical_Prop.classic", "forall P : Prop, or P (not P)"},
};

const char tn__prove_axiom_checks[] =
    "Require Coq.Logic.Classical_Prop Coq.Logic.FunctionalExtensionality Coq.Reals.ClassicalDedekindReals.\n"
    "Definition axiom_1 : @ClassicalDedekindReals.sig_not_dec = @Coq.Reals.ClassicalDedekindReals.sig_not_dec := "
    "eq_refl.\n"
    "Definition axiom_2 : @ClassicalDedekindReals.sig_forall_dec = @Coq.Reals.ClassicalDedekindReals.sig_forall_dec := "
    "eq_refl.\n"
    "Definition axiom_3 : @FunctionalExtensionality.functional_extensionality_dep = "
    "@Coq.Logic.FunctionalExtensionality.functional_extensionality_dep := eq_refl.\n"
    "Definition axiom_4 : @Classical_Prop.classic = @Coq.Logic.Classical_Prop.classic := eq_refl.\n";

static bool starts(const char **s, const char *word) {
  size_t n = strlen(word);
  if (strncmp(*s, word, n)) return false;
  *s += n;
  return true;
}

/* A line "NAME : TYPE" that is allowed: its name; else NULL. */
static const char *axiom(const char **s) {
  for (size_t i = 0; i < sizeof allowed / sizeof *allowed; i++) {
    const char *at = *s;
    if (!starts(&at, allowed[i].name) || !starts(&at, " : ") || !starts(&at, allowed[i].type) || !starts(&at, "\n"))
      continue;
    *s = at;
    return allowed[i].name;
  }
  return NULL;
}

const char *tn__prove_assumptions(tn__arena *a, const char *said, const char **fault) {
  tn__sb b;
  const char *s = said, *name;
  tn__sb_init(&b, a);
  *fault = NULL;
  if (starts(&s, "Closed under the global context\n") && !*s) return "";
  if (starts(&s, "Axioms:\n"))
    while ((name = axiom(&s))) tn__sb_printf(&b, "%s%s", b.n ? ", " : "", name);
  if (*s || !b.n) {
    tn__sb wrong;
    tn__sb_init(&wrong, a);
    tn__sb_printf(&wrong, "it stands on what is not allowed: %.*s", (int)strcspn(s, "\n"), s);
    *fault = tn__sb_str(&wrong);
  }
  return tn__sb_str(&b);
}
