/* tenet prove: the rules and what proves them; tenet export: the statements themselves. */
#include "cli/args.h"
#include "cli/commands.h"
#include "prove/prove.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

typedef struct options {
  const char *rule, *out;
  bool list, doc, smt2, coq;
  int64_t jobs;
  tn_ctx *ctx;
  int code;
} options;

#define AT(field) offsetof(options, field)
static const tn__arg_spec prove_specs[] = {
    {"--rule", ARG_TEXT, AT(rule), 0, 0, "NAME", "this rule only: statements, proofs, counterexamples"},
    {"--list", ARG_FLAG, AT(list), 0, 0, "", "what there is to prove, without proving it"},
    {"--doc", ARG_FLAG, AT(doc), 0, 0, "", "the table as the page docs/rules.md"},
    {"--out", ARG_TEXT, AT(out), 0, 0, "DIR", "where Coq works and verdicts are kept (else the kernel cache)"},
    {"--jobs", ARG_NUMBER, AT(jobs), 1, 64, "N", "provers at once"},
};
static const tn__arg_spec export_specs[] = {
    {"--smt2", ARG_FLAG, AT(smt2), 0, 0, "", "as SMT-LIB queries"},
    {"--coq", ARG_FLAG, AT(coq), 0, 0, "", "as Coq files"},
    {"--rule", ARG_TEXT, AT(rule), 0, 0, "NAME", "of this rule only"},
};
enum {
  PROVE_SPECS = sizeof prove_specs / sizeof *prove_specs,
  EXPORT_SPECS = sizeof export_specs / sizeof *export_specs
};

/* ---- one row of the table: all claims of a rule ---- */

typedef struct summary {
  const char *rule;
  tn__kind kind;
  tn__outcome outcome; /* the worst */
  uint32_t claims, held;
  int64_t ms;
  bool smt, coq, here;
} summary;

static void add_claim(summary *s, const tn__claim *c) {
  s->claims++;
  s->ms += c->ms;
  if (c->kind > s->kind) s->kind = c->kind;
  if (c->outcome == TO_HOLDS) s->held++;
  else if (s->outcome <= TO_HOLDS || c->outcome == TO_FAILS) s->outcome = c->outcome;
  s->smt |= c->tool == TT_SMT || c->tool == TT_SMT_FLOAT;
  s->coq |= c->tool == TT_COQ;
  s->here |= c->tool == TT_HERE;
}

/* Claims of a rule need not stand together: different exporters add them. */
static uint32_t summarise(tn__proofs *p, summary **out) {
  tn__map at;
  tn__vec(summary) rows = {0};
  tn__map_init(&at, p->a);
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *c = &p->claims.v[i];
    uint64_t key = tn__hash_bytes(c->rule, strlen(c->rule), 1), where;
    if (!tn__map_get(&at, key, &where)) {
      where = rows.n;
      tn__map_put(&at, key, where);
      tn__vec_push(p->a, &rows, ((summary){.rule = c->rule, .outcome = TO_HOLDS}));
    }
    add_claim(&rows.v[where], c);
  }
  *out = rows.v;
  return rows.n;
}

static const char *const outcome_names[] = {
    [TO_NONE] = "-", [TO_HOLDS] = "", [TO_FAILS] = "FAILS", [TO_UNKNOWN] = "UNKNOWN", [TO_NO_TOOL] = "no prover"};

static const char *verdict(const summary *s) {
  return s->outcome == TO_HOLDS ? tn__kind_names[s->kind] : outcome_names[s->outcome];
}

static const char *provers(const summary *s, char *b, size_t n) {
  snprintf(b, n, "%s%s%s", s->smt ? "SMT " : "", s->coq ? "Coq " : "", s->here ? "evaluation " : "");
  if (*b) b[strlen(b) - 1] = 0;
  return b;
}

static void print_table(const summary *row, uint32_t n, bool listing) {
  char by[64];
  printf("%-32s %-10s %7s  %-18s %7s\n", "rule", "class", "claims", "by", "s");
  for (uint32_t i = 0; i < n; i++)
    printf("%-32s %-10s %3u/%-3u  %-18s %7.2f\n", row[i].rule, listing ? tn__kind_names[row[i].kind] : verdict(&row[i]),
           row[i].held, row[i].claims, provers(&row[i], by, sizeof by), (double)row[i].ms / 1000);
}

static void print_page(const tn__proofs *p, const summary *row, uint32_t n) {
  char by[64];
  printf("# Rules and their proofs\n\nWritten by `tenet prove --doc`; the rule tables' hash is %016llx, the verdicts "
         "are those of %s. What the classes mean and what has to be "
         "believed: [trust.md](trust.md).\n\n| rule | class | statements | by |\n| --- | --- | --- | --- |\n",
         (unsigned long long)tn__prove_table_hash(p->c), p->provers ? p->provers : "nobody");
  for (uint32_t i = 0; i < n; i++)
    printf("| %s | %s | %u | %s |\n", row[i].rule, verdict(&row[i]), row[i].claims, provers(&row[i], by, sizeof by));
}

static void print_claims(tn__proofs *p) {
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *c = &p->claims.v[i];
    printf("== %s, %s: %s%s by %s, %lld ms%s\n", c->rule, c->part,
           c->outcome == TO_HOLDS ? tn__kind_names[c->kind] : outcome_names[c->outcome],
           c->sat ? " (a model is wanted)" : "", c->by ? c->by : "-", (long long)c->ms,
           c->cached ? ", from the cache" : "");
    if (c->text) printf("%s", c->text);
    if (c->witness && *c->witness) printf("-- %s\n", c->witness);
  }
}

static void print_failures(FILE *to, tn__proofs *p) {
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *c = &p->claims.v[i];
    if (c->outcome == TO_HOLDS) continue;
    fprintf(to, "%s, %s: %s by %s: %.300s\n", c->rule, c->part, outcome_names[c->outcome], c->by ? c->by : "-",
            c->witness ? c->witness : "");
  }
}

static void print_totals(FILE *to, const tn__proofs *p, const summary *row, uint32_t n) {
  uint32_t of[TK_COUNT] = {0}, open = 0, cached = 0, coq = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (row[i].outcome == TO_HOLDS) of[row[i].kind]++;
    else open++;
  }
  for (uint32_t i = 0; i < p->claims.n; i++) cached += p->claims.v[i].cached, coq += p->claims.v[i].tool == TT_COQ;
  fprintf(to, "%u rules, %u statements (%u theorems of Coq; %u verdicts from the cache):", n, p->claims.n, coq, cached);
  for (int k = 0; k < TK_COUNT; k++)
    if (of[k]) fprintf(to, " %u %s", of[k], tn__kind_names[k]);
  fprintf(to, "; %u without a verdict or false; by %s\n", open, p->provers);
}

/* ---- the commands ---- */

static void prove(tn_ctx *c, void *arg) {
  options *o = arg;
  tn__proofs *p = tn__prove_collect(c, o->rule);
  tn__prove_how how = {.cache = &c->cache, .jobs = o->jobs ? (int)o->jobs : tn__pool_cores()};
  char dir[] = "/tmp/tenet-prove-XXXXXX";
  tn__cache own;
  summary *row;
  if (o->rule && !p->claims.n) tn__fail(c, TN_EINVAL, "there is no rule '%s'; tenet prove --list names them", o->rule);
  if (o->out && mkdir(o->out, 0777) && access(o->out, W_OK)) tn__fail(c, TN_EIO, "%s cannot be written", o->out);
  how.dir = o->out ? o->out : mkdtemp(dir);
  if (!how.dir) tn__fail(c, TN_EIO, "no directory can be made in /tmp");
  if (o->out) {
    tn__sb b;
    tn__sb_init(&b, &c->scratch);
    tn__sb_printf(&b, "%s/verdicts", o->out);
    tn__cache_open(&own, &c->mem, tn__sb_str(&b));
    how.cache = &own;
  }
  if (!o->list) tn__prove_run(p, &how);
  if (o->out) tn__cache_close(&own);
  uint32_t n = summarise(p, &row);
  if (o->doc) print_page(p, row, n);
  else if (o->rule) print_claims(p);
  else print_table(row, n, o->list);
  FILE *to = o->doc ? stderr : stdout; /* beside the page */
  if (!o->list) print_failures(to, p), print_totals(to, p, row, n);
  for (uint32_t i = 0; i < n && !o->list; i++) o->code |= row[i].outcome != TO_HOLDS;
}

static void export(tn_ctx *c, void *arg) {
  options *o = arg;
  tn__proofs *p = tn__prove_collect(c, o->rule);
  for (uint32_t i = 0; i < p->claims.n && o->smt2; i++) {
    const tn__claim *k = &p->claims.v[i];
    if (k->tool == TT_SMT || k->tool == TT_SMT_FLOAT)
      printf("; %s, %s: %s\n%s(reset)\n\n", k->rule, k->part, k->sat ? "sat" : "unsat", k->text);
  }
  for (uint32_t i = 0; i < p->theories.n && o->coq; i++)
    if (p->theories.v[i]->generated)
      printf("(* %s.v *)\n%s\n", p->theories.v[i]->name, tn__prove_file_text(p, p->theories.v[i]));
}

static int run_command(int argc, char **argv, const tn__arg_spec *specs, size_t n, void (*command)(tn_ctx *, void *)) {
  options o = {0};
  const char *words[1];
  int nwords;
  if (!tn__args_parse(argc, argv, specs, n, &o, words, 0, &nwords)) return 2;
  if (command == export && o.smt2 == o.coq) {
    fprintf(stderr, "tenet: export takes --smt2 or --coq\n");
    return 2;
  }
  tn_ctx *ctx = tn_ctx_open(&(tn_options){.device = "ref"});
  if (!ctx) return 1;
  if (!tn__ctx_run(ctx, "prove", command, &o)) o.code = tn__command_failed(ctx, NULL);
  tn_ctx_close(ctx);
  return o.code;
}

int tn__command_prove(int argc, char **argv) { return run_command(argc, argv, prove_specs, PROVE_SPECS, prove); }
int tn__command_export(int argc, char **argv) { return run_command(argc, argv, export_specs, EXPORT_SPECS, export); }
void tn__command_prove_help(void) { tn__args_help(prove_specs, PROVE_SPECS); }
void tn__command_export_help(void) { tn__args_help(export_specs, EXPORT_SPECS); }
