/* That nothing was left out: every row of every table makes the statements that rows of its table are to make. A row of
 * which an exporter could say nothing would else be executed and never proved. */
#include "prove/prove.h"
#include <string.h>

/* What a row of the table needs at least. */
static const struct {
  const char *table;
  bool smt, coq, here;
  const char *lacking;
} needs[] = {
    {"lemmas", true, false, false, "this row makes no statement that a solver decides"},
    {"index", true, true, false, "a row of this table is for two provers, SMT and Coq"},
    {"simplify", false, false, false, "this row makes no statement"},
    {"float", false, true, true, "this row needs a proof over the reals and a counterexample in floats"},
    {"harmless", true, false, false, "this row makes no statement that a solver decides"},
    {"ops", true, false, false, "this claim makes no statement that a solver decides"},
    {"gradient", false, false, false, "this row makes no statement"},
};

static void row(tn__proofs *p, const char *name, size_t need) {
  bool any = false, smt = false, coq = false, here = false;
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *k = &p->claims.v[i];
    if (k->kind == TK_SUPPORT || strcmp(k->rule, name)) continue;
    any = true;
    smt |= k->tool == TT_SMT || k->tool == TT_SMT_FLOAT;
    coq |= k->tool == TT_COQ;
    here |= k->tool == TT_HERE;
  }
  if (any && smt >= needs[need].smt && coq >= needs[need].coq && here >= needs[need].here) return;
  tn__prove_held(p, name, "statements", TK_PROVED, "its form", false, needs[need].lacking);
}

void tn__export_complete(tn__proofs *p) {
  for (size_t k = 0; k < sizeof needs / sizeof *needs; k++) {
    const tn__ruleset *s = tn__rules_get(p->c, needs[k].table);
    for (uint32_t i = 0; i < s->n; i++) {
      tn__sb name;
      tn__sb_init(&name, p->a);
      tn__sb_printf(&name, "%s.%s", s->name, s->rule[i].name);
      if (tn__prove_wants(p, tn__sb_str(&name))) row(p, tn__sb_str(&name), k);
    }
  }
}
