/* What is printed for Coq is what the tables say: every theorem about a row is read back, hypotheses and both sides, and compared with the row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prove/prove.h"
#include "support/ctx.h"
#include "support/sexpr.h"

/* ---- terms ---- */

static bool same(const tn__rule *r, const expr *e, const tn__term *t);

/* As the table spells it; what Coq has taken has a stroke behind it. */
static bool spelled(const expr *e, const char *name) {
  size_t n = strlen(name);
  return e->s && e->n >= n && !memcmp(e->s, name, n) && (e->n == n || (e->n == n + 1 && e->s[n] == '_'));
}

/* 3, (-3), (num M (3)), true; the words of movement for a zero. */
static bool is_number(const expr *e, const tn__term *t) {
  if (head_is(e, "splat")) return t->inum == 0 && atom_is(e->kid[1], "zero");
  if (head_is(e, "num") && atom_is(e->kid[1], "M")) e = e->kid[2];
  if (!e->s && e->nkid == 1) e = e->kid[0];
  if (atom_is(e, "true") || atom_is(e, "false")) return t->inum == atom_is(e, "true");
  return e->s && isdigit((unsigned char)e->s[*e->s == '-']) && t->num == (double)t->inum && strtoll(e->s, NULL, 10) == t->inum;
}

static bool is_sum(const tn__rule *r, const expr *e, const tn__term *k, const tn__term *x, const tn__term *rest) {
  return head_is(e, "add") && head_is(e->kid[1], "mul") && same(r, e->kid[1]->kid[1], x) && same(r, e->kid[1]->kid[2], k) && same(r, e->kid[2], rest);
}

/* (head word ... kid ...): the words say where, or of what, and are not the row's. */
static bool is_call(const tn__rule *r, const expr *e, const tn__term *t, const char *name) {
  static const struct {
    const char *head, *words, *name;
  } with_words[] = {{"pad", "zero rank", "pad"}, {"reduce", "rank sum", "sum"}, {"reduce", "rank prod", "prod"}, {"reduce", "rank rmax", "rmax"}, {"reduce", "rank rmin", "rmin"}};
  int at = 1;
  if (e->s || e->nkid < 2) return false;
  bool named = spelled(e->kid[0], name);
  for (size_t i = 0; i < sizeof with_words / sizeof *with_words; i++) {
    const char *second = strchr(with_words[i].words, ' ') + 1;
    if (strcmp(with_words[i].name, name) || !atom_is(e->kid[0], with_words[i].head) || e->nkid < 3 || !atom_is(e->kid[2], second)) continue;
    named = true, at = 3;
  }
  if (atom_is(e->kid[1], "M")) at = 2;
  if (!named || e->nkid != t->nkid + at) return false;
  for (int i = 0; i < t->nkid; i++)
    if (!same(r, e->kid[at + i], t->kid[i])) return false;
  return true;
}

static bool is_extreme(const tn__rule *r, const expr *e, const tn__term *t) {
  const char *slot = r->slot[t->kid[0]->slot];
  return e->s && e->n == 3 + strlen(slot) && !memcmp(e->s, t->what == FN_LO ? "lo_" : "hi_", 3) && !memcmp(e->s + 3, slot, strlen(slot));
}

static bool same(const tn__rule *r, const expr *e, const tn__term *t) {
  switch (t->form) {
  case TF_VAR: return atom_is(e, r->slot[t->slot]) || ((head_is(e, "splat") || head_is(e, "flat_splat")) && r->is_const[t->slot] && atom_is(e->kid[1], r->slot[t->slot]));
  case TF_NUM: return is_number(e, t);
  case TF_OP: return is_call(r, e, t, tn__ops[t->what].text);
  case TF_ARGFN: return is_call(r, e, t, tn__argfn_names[t->what]);
  case TF_FN: return t->what == FN_LO || t->what == FN_HI ? is_extreme(r, e, t) : is_call(r, e, t, tn__fn_names[t->what] + 1); /* without # */
  case TF_SPLIT:
  case TF_SPLIT_ALL:
  case TF_PICK: return is_sum(r, e, t->kid[0], t->kid[1], t->kid[2]);
  case TF_PARTS: return is_sum(r, e, t->kid[1], t->kid[2], t->kid[3]);
  default: return false;
  }
}

/* ---- hypotheses ---- */

/* x relation y; or by divides y (relation NULL).  NULL: the number `number`. */
typedef struct fact {
  const tn__term *x, *y;
  const char *relation;
} fact;
typedef struct facts {
  fact v[32];
  int n;
} facts;
static const tn__term zero = {.form = TF_NUM}, one = {.form = TF_NUM, .num = 1, .inum = 1};

static void add(facts *f, const tn__term *x, const char *relation, const tn__term *y) {
  if (f->n == 32) fail_msg("too many hypotheses");
  f->v[f->n++] = (fact){x, y, relation};
}

/* What README.md says of the forms of a pattern. */
static void of_pattern(facts *f, const tn__rule *r, const tn__term *t) {
  const tn__term *d = t->nkid ? t->kid[0] : NULL;
  bool constant = d && (d->form == TF_NUM || (d->form == TF_VAR && r->is_const[d->slot]));
  if (t->form == TF_PARTS) add(f, &one, "<", t->kid[1]), add(f, t->kid[1], NULL, d);
  if (t->form == TF_SPLIT || t->form == TF_SPLIT_ALL) add(f, d, constant ? ">" : "<>", &zero);
  for (int i = 0; i < t->nkid; i++) of_pattern(f, r, t->kid[i]);
}

/* A row whose computation divides by 0 does not apply. */
static void of_functions(facts *f, const tn__term *t) {
  if (t->form == TF_FN && (t->what == FN_IDIV || t->what == FN_MOD || t->what == FN_CEILDIV)) add(f, t->kid[1], "<>", &zero);
  for (int i = 0; i < t->nkid; i++) of_functions(f, t->kid[i]);
}

static void of_row(facts *f, const tn__rule *r) {
  static const char *const relations[] = {[TC_LT] = "<", [TC_LE] = "<=", [TC_EQ] = "=", [TC_NE] = "<>", [TC_GT] = ">", [TC_GE] = ">="};
  of_pattern(f, r, r->lhs);
  of_functions(f, r->rhs);
  for (uint32_t i = 0; i < r->ncond + r->nassume; i++) {
    const tn__cond *d = &r->cond[i];
    if (d->kind <= TC_GE) add(f, d->arg[0], relations[d->kind], d->arg[1]);
    if (d->kind == TC_DIVIDES) add(f, d->arg[0], "<>", &zero), add(f, d->arg[0], NULL, d->arg[1]);
    for (int k = 0; k < tn__cond_args[d->kind]; k++) of_functions(f, d->arg[k]);
  }
}

/* (name : x relation y) */
static bool says(const tn__rule *r, const expr *h, const fact *f) {
  if (h->nkid != 5) return false;
  if (f->relation) return same(r, h->kid[2], f->x) && atom_is(h->kid[3], f->relation) && same(r, h->kid[4], f->y);
  return head_is(h->kid[2], "mod_") && same(r, h->kid[2]->kid[1], f->y) && same(r, h->kid[2]->kid[2], f->x) && atom_is(h->kid[3], "=") && atom_is(h->kid[4], "0");
}

static bool is_slot(const tn__rule *r, const expr *e) {
  for (uint32_t i = 0; i < r->nslot; i++)
    if (atom_is(e, r->slot[i])) return true;
  return false;
}

/* (V0 : is_value M x), (L0 : lo_x <= x), (U0 : x <= hi_x) */
static bool says_range(const tn__rule *r, const expr *h) {
  if (h->nkid != 5) return false;
  if (*h->kid[0]->s == 'V') return atom_is(h->kid[2], "is_value") && atom_is(h->kid[3], "M") && is_slot(r, h->kid[4]);
  const expr *x = h->kid[*h->kid[0]->s == 'L' ? 4 : 2], *end = h->kid[*h->kid[0]->s == 'L' ? 2 : 4];
  return strchr("LU", *h->kid[0]->s) && is_slot(r, x) && atom_is(h->kid[3], "<=") && end->s && end->n == x->n + 3 &&
         !memcmp(end->s, *h->kid[0]->s == 'L' ? "lo_" : "hi_", 3) && !memcmp(end->s + 3, x->s, x->n);
}

/* ---- theorems ---- */

/* Of movement: what its predicates and shapes say are whole functions, of which only the row's sides are compared. */
static bool moves(const tn__rule *r, const char *theorem) {
  bool predicates = strstr(theorem, "legal_");
  for (uint32_t i = 0; i < r->ncond; i++) predicates |= r->cond[i].kind > TC_DIVIDES && r->cond[i].kind != TC_FITS;
  return predicates;
}

static bool reads_back(tn_ctx *c, const tn__rule *r, const char *theorem) {
  const char *at = strstr(theorem, " : forall "), *end = strstr(theorem, ".\nProof. ");
  facts f = {.n = 0};
  bool met[32] = {0};
  if (!at || !end) return false;
  of_row(&f, r);
  char *text = tn__arena_strdup(&c->scratch, at + strlen(" : forall "));
  text[end - at - (ptrdiff_t)strlen(" : forall ")] = 0;
  const char *s = text;
  for (; *s != ','; s += strspn(s, " ")) {
    if (*s != '(') return false;
    const expr *h = read_expr(c, &s);
    if (h->nkid < 3 || (*h->kid[0]->s != 'H' && !(strchr("VLU", *h->kid[0]->s) && h->kid[0]->n > 1 && isdigit((unsigned char)h->kid[0]->s[1])))) continue; /* variables */
    bool known = *h->kid[0]->s != 'H' && says_range(r, h);
    for (int i = 0; i < f.n; i++)
      if (says(r, h, &f.v[i])) known = met[i] = true;
    if (!known && !moves(r, theorem)) return false; /* nothing may be assumed that the row does not say */
  }
  for (int i = 0; i < f.n; i++)
    if (!met[i]) return false;
  s++;
  const expr *left = read_expr(c, &s);
  if (atom_is(left, "same") || atom_is(left, "flat_same")) return same(r, read_expr(c, &s), r->lhs) && same(r, read_expr(c, &s), r->rhs);
  const expr *equal = read_expr(c, &s), *right = read_expr(c, &s);
  return atom_is(equal, "=") && same(r, left, r->lhs) && same(r, right, r->rhs);
}

static const tn__rule *row_of(tn_ctx *c, const char *claim) {
  static const char *const tables[] = {"index", "simplify", "float", "lemmas", "ops"};
  const char *dot = strchr(claim, '.');
  for (size_t k = 0; k < sizeof tables / sizeof *tables; k++) {
    if (strlen(tables[k]) != (size_t)(dot - claim) || strncmp(tables[k], claim, strlen(tables[k]))) continue;
    const tn__ruleset *s = tn__rules_get(c, tables[k]);
    for (uint32_t i = 0; i < s->n; i++)
      if (!strcmp(s->rule[i].name, dot + 1)) return &s->rule[i];
  }
  return NULL;
}

static const char *theorem_of(const tn__proofs *p, const char *rule) {
  for (uint32_t i = 0; i < p->claims.n; i++)
    if (p->claims.v[i].tool == TT_COQ && !strcmp(p->claims.v[i].rule, rule)) return p->claims.v[i].text;
  fail_msg("no theorem about %s", rule);
  return NULL;
}

static void wrong_texts(tn_ctx *c, const tn__proofs *p) {
  static const struct {
    const char *rule, *other; /* another row, which is not what is printed */
  } others[] = {
      {"index.idiv_small", "rule a (idiv x y) -> 0 when x:index 0<=x x<=y"},
      {"index.idiv_small", "rule a (idiv x y) -> 0 when x:index 0<=x"},
      {"index.idiv_small", "rule a (idiv x y) -> 0 when x:index 0<=x x<y 0<y"},
      {"index.idiv_small", "rule a (idiv y x) -> 0 when x:index 0<=x x<y"},
      {"index.idiv_small", "rule a (mod x y) -> 0 when x:index 0<=x x<y"},
      {"index.idiv_small", "rule a (idiv x y) -> 1 when x:index 0<=x x<y"},
      {"index.mod_mod", "rule a (mod (pick k (mod x c1) y) c) -> (mod (add (mul x k) y) c1) when x:index (divides c (#mul k c1)) (fits)"},
      {"index.mod_mod", "rule a (mod (pick k (mod x c1) y) c) -> (mod (add (mul x k) y) c) when x:index (divides c1 (#mul k c)) (fits)"},
      {"simplify.permute_permute", "rule a (permute (permute x p) q) -> (permute x (compose q p))"},
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const tn__ruleset *s = tn__rules_parse(c, "other", others[i].other);
    if (reads_back(c, &s->rule[0], theorem_of(p, others[i].rule))) fail_msg("the theorem of %s is taken for: %s", others[i].rule, others[i].other);
  }
}

static void read_all(tn_ctx *c, void *arg) {
  (void)arg;
  tn__proofs *p = tn__prove_collect(c, NULL);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *k = &p->claims.v[i];
    const tn__rule *r = k->tool == TT_COQ ? row_of(c, k->rule) : NULL;
    if (!r) continue; /* gradients and adjoints: test_gradient, test_adjoint */
    if (!reads_back(c, r, k->text)) fail_msg("what is printed of %s is not the row:\n%s", k->rule, k->text);
    n++;
  }
  print_message("%u theorems\n", n);
  assert_true(n > 100);
  wrong_texts(c, p);
}

static void printed_theorems_are_read_back(void **state) {
  (void)state;
  tn_ctx c;
  assert_true(test_ctx_open(&c));
  if (!tn__ctx_run(&c, "test", read_all, NULL)) fail_msg("%s", c.err_text);
  tn__rules_close(&c);
  assert_int_equal(test_ctx_close(&c), 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(printed_theorems_are_read_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
