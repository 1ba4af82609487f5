#include "prove/prove.h"
#include "tenet_embed.h"
#include <string.h>

const char *const tn__kind_names[TK_COUNT] = {
#define KIND_NAME(name, text) text,
    TN__KINDS(KIND_NAME)
#undef KIND_NAME
};

/* In order of dependence. */
static const struct {
  const char *name, *text;
} written[] = {
    {"Ops", tn__embed_Ops_v},
    {"Index", tn__embed_Index_v},
    {"Normal", tn__embed_Normal_v},
    {"Modular", tn__embed_Modular_v},
    {"RealRules", tn__embed_RealRules_v},
    {"Movement", tn__embed_Movement_v},
    {"Elements", tn__embed_Elements_v},
    {"Adjoint", tn__embed_Adjoint_v},
    {"Reverse", tn__embed_Reverse_v},
};

static void (*const exporters[])(tn__proofs *p) = {
    tn__export_rows,     tn__export_intervals, tn__export_elements, tn__export_normal,  tn__export_coq,
    tn__export_movement, tn__export_gradient,  tn__export_adjoint,  tn__export_complete};

bool tn__prove_wants(const tn__proofs *p, const char *rule) {
  if (!p->only || !strcmp(p->only, rule)) return true;
  const char *dot = strchr(rule, '.');
  return dot && !strcmp(p->only, dot + 1);
}

static tn__claim *add(tn__proofs *p, tn__claim c) {
  if (!tn__prove_wants(p, c.rule)) return NULL;
  tn__vec_push(p->a, &p->claims, c);
  return &p->claims.v[p->claims.n - 1];
}

void tn__prove_smt(tn__proofs *p, const char *rule, const char *part, tn__kind kind, tn__tool tool, bool sat,
                   const char *query) {
  add(p, (tn__claim){.rule = rule, .part = part, .kind = kind, .tool = tool, .sat = sat, .text = query});
}

void tn__prove_held(tn__proofs *p, const char *rule, const char *part, tn__kind kind, const char *by, bool holds,
                    const char *witness) {
  add(p, (tn__claim){.rule = rule,
                     .part = part,
                     .kind = kind,
                     .tool = TT_HERE,
                     .by = by,
                     .witness = witness,
                     .outcome = holds ? TO_HOLDS : TO_FAILS});
}

void tn__prove_later(tn__proofs *p, const char *rule, const char *part, tn__kind kind, const char *by,
                     const char *(*decide)(tn_ctx *c, const void *of), const void *of) {
  add(p, (tn__claim){.rule = rule, .part = part, .kind = kind, .tool = TT_HERE, .by = by, .decide = decide, .of = of});
}

static tn__theory *add_theory(tn__proofs *p, const char *name, const char *header, bool generated) {
  tn__theory *t = tn__arena_zalloc(p->a, sizeof *t);
  *t = (tn__theory){.name = name, .header = header, .generated = generated};
  tn__sb_init(&t->theorems, p->a);
  tn__vec_push(p->a, &p->theories, t);
  return t;
}

tn__theory *tn__prove_file(tn__proofs *p, const char *name, const char *header) {
  return add_theory(p, name, header, true);
}

/* Names of rules have dots, of theorems none. */
static const char *identifier(tn__proofs *p, const char *name) {
  char *s = tn__arena_strdup(p->a, name);
  for (char *c = s; *c; c++)
    if (*c == '.') *c = '_';
  return s;
}

void tn__prove_coq(tn__proofs *p, const char *rule, const char *part, tn__kind kind, tn__theory *file, const char *name,
                   const char *statement, const char *proof) {
  if (!tn__prove_wants(p, rule)) return;
  const char *fault = tn__prove_script_fault(proof);
  tn__sb b;
  if (fault) {
    tn__prove_held(p, rule, part, kind, "its text", false, fault);
    return;
  }
  name = identifier(p, name);
  tn__sb_init(&b, p->a);
  tn__sb_printf(&b, "Theorem %s : %s.\nProof. %s Qed.\n", name, statement, proof);
  tn__sb_puts(&file->theorems, tn__sb_str(&b));
  add(p, (tn__claim){.rule = rule,
                     .part = part,
                     .kind = kind,
                     .tool = TT_COQ,
                     .text = tn__sb_str(&b),
                     .name = name,
                     .statement = statement,
                     .file = file});
}

void tn__prove_theorem(tn__proofs *p, const char *rule, const char *part, tn__kind kind, const char *theory,
                       const char *name) {
  tn__sb header, file;
  tn__theory *f = NULL;
  tn__sb_init(&header, p->a), tn__sb_init(&file, p->a);
  tn__sb_printf(&header, "From Tenet Require Import %s.\n", theory);
  tn__sb_printf(&file, "%s_check", theory);
  if (!tn__prove_wants(p, rule)) return;
  for (uint32_t i = 0; i < p->theories.n; i++)
    if (!strcmp(p->theories.v[i]->name, tn__sb_str(&file))) f = p->theories.v[i];
  if (!f) f = tn__prove_file(p, tn__sb_str(&file), tn__sb_str(&header));
  tn__sb b;
  tn__sb_init(&b, p->a);
  tn__sb_printf(&b, "(* %s.%s *)\n", theory, name);
  add(p,
      (tn__claim){
          .rule = rule, .part = part, .kind = kind, .tool = TT_COQ, .text = tn__sb_str(&b), .name = name, .file = f});
}

uint64_t tn__prove_table_hash(tn_ctx *c) {
  static const char *const tables[] = {"index", "simplify", "float", "gradient"};
  uint64_t h = 0;
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) {
    const tn__ruleset *s = tn__rules_get(c, tables[i]);
    h = tn__hash_bytes(s->text, strlen(s->text), h);
  }
  return tn__interval_table_hash(h);
}

const char *tn__prove_file_text(tn__proofs *p, const tn__theory *t) {
  tn__sb b;
  if (!t->generated) return t->header;
  tn__sb_init(&b, p->a);
  tn__sb_printf(&b, "(* Printed by tenet export from the rule tables, hash %016llx. *)\n%s\n%s",
                (unsigned long long)tn__prove_table_hash(p->c), t->header, t->theorems.n ? t->theorems.s : "");
  return tn__sb_str(&b);
}

/* In a module, so that Coq prints names as they are before anything is imported.  What all theorems stand on is asked
 * at once: it takes a second each time. */
const char *tn__prove_stated_text(tn__proofs *p, const tn__theory *t) {
  tn__sb b, all;
  tn__sb_init(&b, p->a), tn__sb_init(&all, p->a);
  if (t->theorems.n) tn__sb_printf(&b, "Require Tenet.%s.\n", t->name);
  tn__sb_printf(&b, "Module Stated.\n%s", t->header);
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *k = &p->claims.v[i];
    if (k->file != t) continue;
    if (k->statement)
      tn__sb_printf(&b, "Definition %s : %s := @Tenet.%s.%s.\n", k->name, k->statement, t->name, k->name);
    tn__sb_printf(&all, ", @%s", k->name);
  }
  tn__sb_printf(&b, "Definition all_of_them := (I%s).\nEnd Stated.\n%s", tn__sb_str(&all), tn__prove_axiom_checks);
  tn__sb_puts(&b, "Set Printing All.\nSet Printing Width 1000000.\nSet Printing Depth 1000000.\n"
                  "Print Assumptions Stated.all_of_them.\n");
  return tn__sb_str(&b);
}

tn__proofs *tn__prove_collect(tn_ctx *c, const char *only) {
  tn__proofs *p = tn__arena_zalloc(&c->scratch, sizeof *p);
  *p = (tn__proofs){.c = c, .a = &c->scratch, .only = only};
  for (size_t i = 0; i < sizeof written / sizeof *written; i++) add_theory(p, written[i].name, written[i].text, false);
  for (size_t i = 0; i < sizeof exporters / sizeof *exporters; i++) exporters[i](p);
  return p;
}
