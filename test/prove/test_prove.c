/* What is sent to the provers is what the tables say, all of it, and the page says so.  No prover runs here: `make
 * prove` does that. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prove/prove.h"
#include "support/in_ctx.h"
#include "support/files.h"
#include "support/sexpr.h"
#include <sys/stat.h>

static const char *const tables[] = {"index", "simplify", "float", "gradient", "lemmas", "harmless", "ops"};
enum { TABLES = sizeof tables / sizeof *tables };

static const tn__rule *row_of(tn_ctx *c, const char *claim) {
  const char *dot = strchr(claim, '.');
  for (int k = 0; k < TABLES; k++) {
    if (strlen(tables[k]) != (size_t)(dot - claim) || strncmp(tables[k], claim, strlen(tables[k]))) continue;
    const tn__ruleset *s = tn__rules_get(c, tables[k]);
    for (uint32_t i = 0; i < s->n; i++)
      if (!strcmp(s->rule[i].name, dot + 1)) return &s->rule[i];
  }
  return NULL;
}

static uint32_t claims_about(const tn__proofs *p, const char *table, const char *row, tn__tool tool) {
  char name[128];
  uint32_t n = 0;
  snprintf(name, sizeof name, "%s.%s", table, row);
  for (uint32_t i = 0; i < p->claims.n; i++) n += !strcmp(p->claims.v[i].rule, name) && p->claims.v[i].tool == tool;
  return n;
}

static void all_rows(tn_ctx *c, void *arg) {
  (void)arg;
  tn__proofs *p = tn__prove_collect(c, NULL);
  for (int k = 0; k < TABLES; k++) {
    const tn__ruleset *s = tn__rules_get(c, tables[k]);
    for (uint32_t i = 0; i < s->n; i++) {
      const char *row = s->rule[i].name;
      uint32_t smt = claims_about(p, tables[k], row, TT_SMT) + claims_about(p, tables[k], row, TT_SMT_FLOAT);
      uint32_t coq = claims_about(p, tables[k], row, TT_COQ), here = claims_about(p, tables[k], row, TT_HERE);
      if (!smt && !coq && !here) fail_msg("nothing is claimed of %s.%s", tables[k], row);
      if (!strcmp(tables[k], "index") && (!smt || coq != 1)) fail_msg("index.%s is for two provers", row);
      if (!strcmp(tables[k], "float") && (!here || coq != 1))
        fail_msg("float.%s needs a proof over the reals and a counterexample", row);
    }
  }
  for (uint32_t i = 0; i < p->claims.n; i++)
    if (p->claims.v[i].outcome == TO_FAILS)
      fail_msg("%s, %s: %s", p->claims.v[i].rule, p->claims.v[i].part, p->claims.v[i].witness);
}
static void every_row_is_claimed(void **state) { (void)state, test_in_ctx(all_rows, NULL); }

/* ---- reading back what is printed ---- */

/* (op.dtype ...) */
static bool is_op(const expr *e, int op) {
  size_t n = strlen(tn__ops[op].text);
  return !e->s && e->nkid && e->kid[0]->s && e->kid[0]->n > n && !memcmp(e->kid[0]->s, tn__ops[op].text, n) &&
         e->kid[0]->s[n] == '.';
}

/* The bits of a literal, and its dtypes as a mask. */
static uint64_t literal(const expr *e, uint32_t *dtypes) {
  static const struct {
    unsigned significand, dtype;
  } formats[] = {{11, TN_F16}, {8, TN_BF16}, {24, TN_F32}, {53, TN_F64}};
  *dtypes = 0;
  if (e->s) {
    *dtypes = atom_is(e, "true") || atom_is(e, "false") ? 1u << TN_BOOL
              : isdigit((unsigned char)*e->s)           ? 1u << TN__INDEX
                                                        : 0;
    return atom_is(e, "true") ? 1 : strtoull(e->s, NULL, 10);
  }
  if (head_is(e, "-") && e->nkid == 2) {
    *dtypes = 1u << TN__INDEX;
    return 0 - strtoull(e->kid[1]->s, NULL, 10);
  }
  if (head_is(e, "_")) {
    for (unsigned d = 0; d < TN_DTYPE_COUNT; d++)
      if (tn__is_int((int)d) && 8 * tn__size_of((int)d) == strtoull(e->kid[2]->s, NULL, 10)) *dtypes |= 1u << d;
    return strtoull(e->kid[1]->s + 2, NULL, 10);
  }
  if (e->nkid != 2 || e->kid[0]->s) return 0;
  for (size_t i = 0; i < sizeof formats / sizeof *formats; i++)
    if (strtoull(e->kid[0]->kid[3]->s, NULL, 10) == formats[i].significand) *dtypes = 1u << formats[i].dtype;
  return strtoull(e->kid[1]->kid[1]->s + 2, NULL, 10);
}

static bool is_number(const expr *e, const tn__term *t) {
  uint32_t dtypes;
  uint64_t bits = literal(e, &dtypes);
  for (int d = 0; d <= TN__INDEX; d++) {
    unsigned width = 8 * (unsigned)tn__size_of(d);
    uint64_t mask = width < 64 ? (UINT64_C(1) << width) - 1 : ~UINT64_C(0);
    uint64_t read;
    if ((dtypes >> d & 1) && tn__table_bits(t, d, &read) && (read & mask) == bits) return true;
  }
  return false;
}

static bool same(const tn__rule *r, const expr *e, const tn__term *t);

static bool is_sum(const tn__rule *r, const expr *e, const tn__term *k, const tn__term *x, const tn__term *rest) {
  return head_is(e, "+") && head_is(e->kid[1], "*") && same(r, e->kid[1]->kid[1], x) && same(r, e->kid[1]->kid[2], k) &&
         same(r, e->kid[2], rest);
}

static bool is_power(const tn__rule *r, const expr *e, const tn__term *t) {
  int64_t n = t->kid[1]->inum;
  if (n == 1 && same(r, e, t->kid[0])) return true; /* of floats */
  for (; n > 0 && is_op(e, OP_MUL); n--, e = e->kid[2])
    if (!same(r, e->kid[1], t->kid[0])) return false;
  return n == 0 && is_number(e, &(tn__term){.form = TF_NUM, .num = 1, .whole = true, .inum = 1});
}

static bool is_fn(const tn__rule *r, const expr *e, const tn__term *t) {
  static const char *const heads[FN_COUNT] = {
      [FN_ADD] = "+",           [FN_SUB] = "-",         [FN_MUL] = "*",
      [FN_NEG] = "-",           [FN_MIN] = "min.index", [FN_MAX] = "max.index",
      [FN_IDIV] = "idiv.index", [FN_MOD] = "mod.index", [FN_CEILDIV] = "ceildiv"};
  if (t->what == FN_LO || t->what == FN_HI)
    return e->s && !strncmp(e->s, t->what == FN_LO ? "lo_" : "hi_", 3) &&
           !strncmp(e->s + 3, r->slot[t->kid[0]->slot], e->n - 3);
  if (!heads[t->what] || !head_is(e, heads[t->what]) || e->nkid != t->nkid + 1) return false;
  for (int i = 0; i < t->nkid; i++)
    if (!same(r, e->kid[i + 1], t->kid[i])) return false;
  return true;
}

static bool same(const tn__rule *r, const expr *e, const tn__term *t) {
  switch (t->form) {
  case TF_VAR: return atom_is(e, r->slot[t->slot]);
  case TF_NUM: return is_number(e, t);
  case TF_AS: return same(r, e, t->kid[1]);
  case TF_FN: return is_fn(r, e, t);
  case TF_SPLIT:
  case TF_SPLIT_ALL:
  case TF_PICK: return is_sum(r, e, t->kid[0], t->kid[1], t->kid[2]);
  case TF_PARTS: return is_sum(r, e, t->kid[1], t->kid[2], t->kid[3]);
  default: break;
  }
  if (t->form == TF_OP && t->what == OP_POW) return is_power(r, e, t);
  if (t->form != TF_OP || !is_op(e, t->what) || e->nkid != t->nkid + 1) return false;
  for (int i = 0; i < t->nkid; i++)
    if (!same(r, e->kid[i + 1], t->kid[i])) return false;
  return true;
}

/* Where the query says that the sides differ. */
static bool reads_back(tn_ctx *c, const tn__rule *r, const char *query) {
  const char *s = strstr(query, "\n(assert (not (= "), *next;
  while (s && (next = strstr(s + 1, "\n(assert (not (= "))) s = next;
  if (!s) return false;
  expr *e = read_expr(c, &s);
  e = e->kid[1]->kid[1];
  return e->nkid == 3 && same(r, e->kid[1], r->lhs) && same(r, e->kid[2], r->rhs);
}

/* The (fits x) from e->kid[*at] on are what divisions, comparisons, min and max of t take. */
static bool are_operands(const tn__rule *r, const expr *e, const tn__term *t, bool operand, int *at) {
  if (operand && t->form != TF_NUM && t->form != TF_FN) {
    const expr *x = *at < e->nkid ? e->kid[*at] : NULL;
    if (!x || !head_is(x, "fits") || !same(r, x->kid[1], t)) return false;
    ++*at;
  }
  for (int i = 0; i < t->nkid; i++)
    if (!are_operands(r, e, t->kid[i], t->form == TF_OP && tn__table_exact_op(t->what), at)) return false;
  return true;
}

static bool width_reads_back(tn_ctx *c, const tn__rule *r, const char *query) {
  const char *s = strstr(query, "\n(assert (not (and true ");
  if (!s) return false;
  const expr *e = read_expr(c, &s)->kid[1]->kid[1];
  int at = 2;
  return are_operands(r, e, r->rhs, false, &at) && at == e->nkid &&
         (r->fits == !!strstr(query, "; the engine's check"));
}

static void read_all(tn_ctx *c, void *arg) {
  (void)arg;
  tn__proofs *p = tn__prove_collect(c, NULL);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *k = &p->claims.v[i];
    if ((k->tool != TT_SMT && k->tool != TT_SMT_FLOAT) || k->sat || !strncmp(k->rule, "interval.", 9)) continue;
    const tn__rule *r = row_of(c, k->rule);
    if (!r) fail_msg("%s is no row", k->rule);
    bool width = !strcmp(k->part, "64 bits");
    if (width ? !width_reads_back(c, r, k->text) : !reads_back(c, r, k->text))
      fail_msg("what is printed of %s is not the row:\n%s", k->rule, k->text);
    n++;
  }
  assert_true(n > 1500);
  /* The test of the test: another row is not read. */
  const tn__ruleset *s = tn__rules_parse(
      c, "other",
      "rule a (add x 0) -> 0 when x:int\nrule b (add x 1) -> x when x:int\nrule c (mul x 0) -> x when x:int\n"
      "rule d (add 0 x) -> x when x:int\nrule e (add x 0) -> x when x:int");
  const char *query = NULL;
  for (uint32_t i = 0; i < p->claims.n && !query; i++)
    if (!strcmp(p->claims.v[i].rule, "simplify.add_zero")) query = p->claims.v[i].text;
  for (uint32_t i = 0; i < 5; i++) assert_int_equal(reads_back(c, &s->rule[i], query), i == 4);
}
static void printed_rows_are_read_back(void **state) { (void)state, test_in_ctx(read_all, NULL); }

/* ---- the rows of intervals.def ---- */

static const struct {
  int op;
  const char *where, *lower, *upper, *element;
} intervals[] = {
#define TEXT(...) #__VA_ARGS__
#define INTERVAL(op, where, lower, upper) {OP_##op, #where, TEXT(lower), TEXT(upper), NULL},
#define TENSOR(op, element, lower, upper) {OP_##op, "TENSOR", TEXT(lower), TEXT(upper), TEXT(element)},
#define STEP(op, formula)
#include "ir/intervals.def"
};
enum { INTERVALS = sizeof intervals / sizeof *intervals };

/* As the C that it was: (f x y) is f(x, y). */
static void write_c(tn__sb *b, const expr *e) {
  if (e->s) tn__sb_printf(b, "%.*s", (int)e->n, e->s);
  else if (head_is(e, "_")) tn__sb_printf(b, "%.*s", (int)e->kid[1]->n - 2, e->kid[1]->s + 2); /* (_ bv7 18) */
  else {
    write_c(b, e->kid[0]);
    for (int i = 1; i < e->nkid; i++) tn__sb_puts(b, i > 1 ? "," : "("), write_c(b, e->kid[i]);
    tn__sb_putc(b, ')');
  }
}

static bool same_but_spaces(const char *x, const char *y) {
  for (;; x++, y++) {
    x += strspn(x, " "), y += strspn(y, " ");
    if (*x != *y) return false;
    if (!*x) return true;
  }
}

static bool defines(tn_ctx *c, const char *query, const char *name, const char *formula) {
  char head[32];
  tn__sb b;
  snprintf(head, sizeof head, "(define-fun %s ", name);
  const char *s = strstr(query, head);
  if (!s) return false;
  tn__sb_init(&b, &c->scratch);
  write_c(&b, read_expr(c, &s)->kid[4]);
  return same_but_spaces(tn__sb_str(&b), formula);
}

/* Coq's names have _ where the rows have a dot. */
static bool next_is(tn_ctx *c, const char **s, const char *formula) {
  tn__sb b;
  tn__sb_init(&b, &c->scratch);
  write_c(&b, read_expr(c, s));
  for (char *at = b.s; at && *at; at++)
    if (*at == '_') *at = '.';
  return same_but_spaces(tn__sb_str(&b), formula);
}

/* What Coq is asked of elements: ... at_ (result) i = ELEMENT /\ between LOWER UPPER (at_ (result) i). */
static bool says_elements(tn_ctx *c, const char *theorem, const char *element, const char *lower, const char *upper) {
  static const char is[] = ") i = ", and[] = " /\\ between ";
  const char *s = strstr(theorem, is);
  if (!s || !element) return false;
  s += strlen(is);
  if (!next_is(c, &s, element) || strncmp(s, and, strlen(and))) return false;
  s += strlen(and);
  return next_is(c, &s, lower) && next_is(c, &s, upper) && !strncmp(s, " (at_ (", 7);
}

static void read_intervals(tn_ctx *c, void *arg) {
  (void)arg;
  tn__proofs *p = tn__prove_collect(c, NULL);
  for (int i = 0; i < INTERVALS; i++) {
    char name[64];
    bool part = strcmp(intervals[i].where, "NUMBER") && strcmp(intervals[i].where, "TENSOR") &&
                strcmp(intervals[i].where, "BITS");
    uint32_t n = 0, elements = 0;
    snprintf(name, sizeof name, "interval.%s%s%s", tn__ops[intervals[i].op].text, part ? "_" : "",
             part ? intervals[i].where : "");
    for (char *s = name; *s; s++) *s = (char)tolower((unsigned char)*s);
    for (uint32_t k = 0; k < p->claims.n; k++) {
      const char *query = p->claims.v[k].text;
      if (strcmp(p->claims.v[k].rule, name)) continue;
      n++;
      if (p->claims.v[k].tool == TT_COQ) {
        elements++;
        if (!says_elements(c, query, intervals[i].element, intervals[i].lower, intervals[i].upper))
          fail_msg("what is printed of %s is not the row:\n%s", name, query);
        assert_false(says_elements(c, query, "0", intervals[i].lower, intervals[i].upper));
        assert_false(says_elements(c, query, intervals[i].element, intervals[i].upper, intervals[i].lower));
        continue;
      }
      if (!defines(c, query, "lower", intervals[i].lower) || !defines(c, query, "upper", intervals[i].upper))
        fail_msg("what is printed of %s is not the row:\n%s", name, query);
      /* the test of the test */
      if (!strcmp(name, "interval.add")) assert_false(defines(c, query, "lower", "plus(a.lo, b.hi)"));
    }
    if (!n || elements != !!intervals[i].element) fail_msg("too little is claimed of %s", name);
  }
}
static void printed_intervals_are_read_back(void **state) { (void)state, test_in_ctx(read_intervals, NULL); }

/* ---- the page ---- */

static char *read_page(tn_ctx *c, size_t room) {
  char path[4096], *text = tn__alloc(c, room);
  const char *tests = getenv("TENET_TEST_DATA");
  snprintf(path, sizeof path, "%s/../docs/rules.md", tests ? tests : "test");
  FILE *f = fopen(path, "r");
  if (!f) fail_msg("%s cannot be read", path);
  size_t n = fread(text, 1, room - 1, f);
  fclose(f);
  text[n] = 0;
  return text;
}

static void page(tn_ctx *c, void *arg) {
  (void)arg;
  tn__proofs *p = tn__prove_collect(c, NULL);
  const char *text = read_page(c, 1 << 20);
  char line[200];
  snprintf(line, sizeof line, "hash is %016llx", (unsigned long long)tn__prove_table_hash(c));
  if (!strstr(text, line)) fail_msg("docs/rules.md is not current: make prove-doc");
  uint32_t rules = 0, lines = 0;
  for (uint32_t i = 0; i < p->claims.n; i++) {
    uint32_t n = 0;
    bool first = true;
    for (uint32_t j = 0; j < p->claims.n; j++) {
      bool about = !strcmp(p->claims.v[j].rule, p->claims.v[i].rule);
      n += about;
      first = first && !(about && j < i);
    }
    if (!first) continue;
    rules++;
    snprintf(line, sizeof line, "\n| %s | ", p->claims.v[i].rule);
    const char *at = strstr(text, line);
    snprintf(line, sizeof line, " | %u | ", n);
    if (!at || !strstr(at, line) || strstr(at, line) > strchr(at + 1, '\n'))
      fail_msg("docs/rules.md is not current: %s", p->claims.v[i].rule);
  }
  for (const char *s = text; (s = strstr(s, "\n| ")); s++) lines++;
  assert_int_equal(lines, rules + 2); /* the head, and the rule below it */
  assert_null(strstr(text, "UNKNOWN"));
  assert_null(strstr(text, "FAILS"));
}
static void page_is_current(void **state) { (void)state, test_in_ctx(page, NULL); }

/* ---- without provers ---- */

static void nobody(tn_ctx *c, void *arg) {
  (void)arg;
  tn__proofs *p = tn__prove_collect(c, "index.idiv_small");
  tn__cache none = {0};
  assert_true(p->claims.n >= 3);
  setenv("PATH", "/nowhere", 1);
  tn__prove_run(p, &(tn__prove_how){.dir = "/nowhere", .cache = &none, .jobs = 2});
  for (uint32_t i = 0; i < p->claims.n; i++) {
    if (p->claims.v[i].tool == TT_HERE) continue; /* needs nobody */
    assert_int_equal(p->claims.v[i].outcome, TO_NO_TOOL);
    assert_non_null(strstr(p->claims.v[i].witness, "installed"));
  }
}
static void provers_may_be_missing(void **state) { (void)state, test_in_ctx(nobody, NULL); }

/* ---- versions ---- */

/* A solver of that version, which finds every statement true. */
static void install(const char *version) {
  char text[200];
  int n = snprintf(
      text, sizeof text,
      "#!/bin/sh\n[ \"$1\" = --version ] && echo 'Z3 version %s - 64 bit' || { cat >/dev/null; echo unsat; }\n",
      version);
  assert_int_equal(chmod(test_write_file("z3", text, (size_t)n), 0755), 0);
}

/* How many verdicts came from the cache. */
static uint32_t ask(tn_ctx *c, tn__cache *cache, const char *provers) {
  tn__proofs *p = tn__prove_collect(c, "simplify.add_commute");
  uint32_t n = 0;
  tn__prove_run(p, &(tn__prove_how){.dir = "/nowhere", .cache = cache, .jobs = 2});
  assert_string_equal(p->provers, provers);
  for (uint32_t i = 0; i < p->claims.n; i++) n += p->claims.v[i].cached;
  return n;
}

static void other_versions(tn_ctx *c, void *arg) {
  (void)arg;
  tn__cache cache;
  char path[400];
  const char *dir = test_path("verdicts"), *before = getenv("PATH");
  snprintf(path, sizeof path, "%.*s:/usr/bin:/bin", (int)(strrchr(dir, '/') - dir), dir);
  char *old = strdup(before);
  tn__cache_open(&cache, &c->mem, dir);
  install("4.8.12");
  setenv("PATH", path, 1);
  tn__proofs *all = tn__prove_collect(c, "simplify.add_commute");
  uint32_t n = 0;
  for (uint32_t i = 0; i < all->claims.n; i++) n += all->claims.v[i].tool != TT_COQ && all->claims.v[i].tool != TT_HERE;
  assert_true(n > 5);
  const char *rest = "";
  tn__proofs *p = tn__prove_collect(c, "nothing");
  tn__prove_run(p, &(tn__prove_how){.dir = "/nowhere", .cache = &cache, .jobs = 1});
  if (strchr(p->provers, ',')) rest = strchr(p->provers, ','); /* installed ones */
  snprintf(path, sizeof path, "z3 4.8.12%s", rest);
  ask(c, &cache, path);
  assert_true(ask(c, &cache, path) >= n);
  install("9.9");
  snprintf(path, sizeof path, "z3 9.9%s", rest);
  assert_int_equal(ask(c, &cache, path), 0); /* another one is asked again */
  setenv("PATH", old, 1);
  free(old);
  tn__cache_close(&cache);
}
static void verdicts_are_those_of_a_version(void **state) { (void)state, test_in_ctx(other_versions, NULL); }

static void round_about(tn_ctx *c, void *arg) {
  (void)arg;
  const tn__ruleset *s = tn__rules_parse(
      c, "circle",
      "rule a (add x y) -> (add y x) when x:index by (b x y)\nrule b (add x y) -> (add y x) when x:index by (a x y)\n");
  tn__proofs *p = tn__prove_collect(c, "nothing");
  tn__typing t;
  assert_true(tn__typing_infer(&s->rule[0], &t) && tn__typing_first(&s->rule[0], &t));
  tn__smt_query(p, s, &s->rule[0], &t, false);
}

static void no_row_follows_by_itself(void **state) {
  (void)state;
  tn_ctx c;
  assert_true(test_ctx_open(&c));
  assert_false(tn__ctx_run(&c, "test", round_about, NULL));
  assert_non_null(strstr(c.err_text, "circle"));
  tn__rules_close(&c);
  assert_int_equal(test_ctx_close(&c), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(every_row_is_claimed),     cmocka_unit_test(printed_rows_are_read_back),
      cmocka_unit_test(page_is_current),          cmocka_unit_test(printed_intervals_are_read_back),
      cmocka_unit_test(no_row_follows_by_itself), cmocka_unit_test(verdicts_are_those_of_a_version),
      cmocka_unit_test(provers_may_be_missing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
