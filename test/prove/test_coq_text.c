/* What is printed for Coq is what the tables say: every theorem about a row is read back, hypotheses and both sides,
 * and compared with the row. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "prove/prove.h"
#include "support/in_ctx.h"
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
  return e->s && isdigit((unsigned char)e->s[*e->s == '-']) && t->whole &&
         strtoll(e->s, NULL, 10) == t->inum;
}

static bool is_sum(const tn__rule *r, const expr *e, const tn__term *k, const tn__term *x, const tn__term *rest) {
  return head_is(e, "add") && head_is(e->kid[1], "mul") && same(r, e->kid[1]->kid[1], x) &&
         same(r, e->kid[1]->kid[2], k) && same(r, e->kid[2], rest);
}

/* (head word ... kid ...): the words say where, or of what, and are not the row's. */
static bool is_call(const tn__rule *r, const expr *e, const tn__term *t, const char *name) {
  static const struct {
    const char *head, *words, *name;
  } with_words[] = {{"pad", "zero rank", "pad"},
                    {"reduce", "rank sum", "sum"},
                    {"reduce", "rank prod", "prod"},
                    {"reduce", "rank rmax", "rmax"},
                    {"reduce", "rank rmin", "rmin"}};
  int at = 1;
  if (e->s || e->nkid < 2) return false;
  bool named = spelled(e->kid[0], name);
  for (size_t i = 0; i < sizeof with_words / sizeof *with_words; i++) {
    const char *second = strchr(with_words[i].words, ' ') + 1;
    if (strcmp(with_words[i].name, name) || !atom_is(e->kid[0], with_words[i].head) || e->nkid < 3 ||
        !atom_is(e->kid[2], second))
      continue;
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
  return e->s && e->n == 3 + strlen(slot) && !memcmp(e->s, t->what == FN_LO ? "lo_" : "hi_", 3) &&
         !memcmp(e->s + 3, slot, strlen(slot));
}

static bool same(const tn__rule *r, const expr *e, const tn__term *t) {
  switch (t->form) {
  case TF_VAR:
    return atom_is(e, r->slot[t->slot]) || ((head_is(e, "splat") || head_is(e, "flat_splat")) && r->is_const[t->slot] &&
                                            atom_is(e->kid[1], r->slot[t->slot]));
  case TF_NUM: return is_number(e, t);
  case TF_OP: return is_call(r, e, t, tn__ops[t->what].text);
  case TF_ARGFN: return is_call(r, e, t, tn__argfn_names[t->what]);
  /* without # */
  case TF_FN:
    return t->what == FN_LO || t->what == FN_HI ? is_extreme(r, e, t) : is_call(r, e, t, tn__fn_names[t->what] + 1);
  case TF_SPLIT:
  case TF_SPLIT_ALL:
  case TF_PICK: return is_sum(r, e, t->kid[0], t->kid[1], t->kid[2]);
  case TF_PARTS: return is_sum(r, e, t->kid[1], t->kid[2], t->kid[3]);
  default: return false;
  }
}

/* ---- hypotheses ---- */

/* x relation y; or by divides y (relation NULL); or that an argument is legal, or a predicate of the row. */
typedef struct fact {
  const tn__term *x, *y;
  const char *relation;
  const tn__term *legal;
  const tn__cond *predicate;
} fact;
typedef struct facts {
  fact v[32];
  int n;
} facts;
static const tn__term zero = {.form = TF_NUM, .whole = true},
                      one = {.form = TF_NUM, .num = 1, .whole = true, .inum = 1};

static void add_fact(facts *f, fact v) {
  if (f->n == 32) fail_msg("too many hypotheses");
  f->v[f->n++] = v;
}
static void add(facts *f, const tn__term *x, const char *relation, const tn__term *y) {
  add_fact(f, (fact){.x = x, .relation = relation, .y = y});
}

/* Movement: how an argument is called, and what the shape rules demand of it: (L1 : legal_part s (dim x)). */
static const struct {
  const char *type, *legal;
  bool of_source, source_first;
} arguments[OP_COUNT] = {
    [OP_RESHAPE] = {.type = "list Z"},
    [OP_EXPAND] = {"index", "legal_expand", true, true},
    [OP_PERMUTE] = {.type = "perm"},
    [OP_PAD] = {"pads", "legal_pads", false, false},
    [OP_SHRINK] = {"part", "legal_part", true, false},
    [OP_FLIP] = {.type = "axes"},
    [OP_SUM] = {.type = "axes"},
    [OP_PROD] = {.type = "axes"},
    [OP_RMAX] = {.type = "axes"},
    [OP_RMIN] = {.type = "axes"},
};
static bool is_movement(const tn__rule *r) { return tn__ops[r->op].group >= G_REDUCE; }

/* What README.md says of the forms of a pattern. */
static void of_pattern(facts *f, const tn__rule *r, const tn__term *t) {
  const tn__term *d = t->nkid ? t->kid[0] : NULL;
  bool constant = d && (d->form == TF_NUM || (d->form == TF_VAR && r->is_const[d->slot]));
  if (t->form == TF_PARTS) add(f, &one, "<", t->kid[1]), add(f, t->kid[1], NULL, d);
  if (t->form == TF_SPLIT || t->form == TF_SPLIT_ALL) add(f, d, constant ? ">" : "<>", &zero);
  if (t->form == TF_OP && arguments[t->what].legal) add_fact(f, (fact){.legal = t});
  for (int i = 0; i < t->nkid; i++) of_pattern(f, r, t->kid[i]);
}

/* A row whose computation divides by 0 does not apply. */
static void of_functions(facts *f, const tn__term *t) {
  if (t->form == TF_FN && (t->what == FN_IDIV || t->what == FN_MOD || t->what == FN_CEILDIV))
    add(f, t->kid[1], "<>", &zero);
  for (int i = 0; i < t->nkid; i++) of_functions(f, t->kid[i]);
}

static void of_row(facts *f, const tn__rule *r) {
  static const char *const relations[] = {
      [TC_LT] = "<", [TC_LE] = "<=", [TC_EQ] = "=", [TC_NE] = "<>", [TC_GT] = ">", [TC_GE] = ">="};
  of_pattern(f, r, r->lhs);
  of_functions(f, r->rhs);
  for (uint32_t i = 0; i < r->ncond + r->nassume; i++) {
    const tn__cond *d = &r->cond[i];
    if (d->kind <= TC_GE) add(f, d->arg[0], relations[d->kind], d->arg[1]);
    else if (d->kind == TC_DIVIDES) add(f, d->arg[0], "<>", &zero), add(f, d->arg[0], NULL, d->arg[1]);
    else if (d->kind != TC_FITS) add_fact(f, (fact){.predicate = d}); /* (fits) is about 64 bits: test_prove */
    for (int k = 0; k < tn__cond_args[d->kind]; k++) of_functions(f, d->arg[k]);
  }
}

static bool says_legal(const tn__rule *r, const expr *h, const tn__term *t) {
  bool of_source = arguments[t->what].of_source, source_first = arguments[t->what].source_first;
  if (h->nkid != 4 + of_source || !atom_is(h->kid[2], arguments[t->what].legal) ||
      !same(r, h->kid[3 + source_first], t->kid[1]))
    return false;
  const expr *d = of_source ? h->kid[4 - source_first] : NULL;
  return !d || (head_is(d, "dim") && d->nkid == 2 && same(r, d->kid[1], t->kid[0]));
}

/* The words from h->kid[at] on; %: the variable v. */
static bool are_words(const tn__rule *r, const expr *h, int at, const char *words, const tn__term *v,
                      const tn__term *w) {
  for (const char *s = words; *s; s += strcspn(s, " "), s += *s == ' ', at++) {
    char text[32];
    snprintf(text, sizeof text, "%.*s", (int)strcspn(s, " "), s);
    if (at >= h->nkid || !(*s == '%' ? same(r, h->kid[at], s[1] == '1' ? v : w) : atom_is(h->kid[at], text)))
      return false;
  }
  return at == h->nkid;
}

/* A shape that is the root's, which an argument gives; else the predicate by name, of variables. */
static bool says_predicate(const tn__rule *r, const expr *h, const tn__cond *d) {
  if (d->kind != TC_SAME_SHAPE) {
    int n = tn__cond_args[d->kind];
    if (h->nkid != 3 + n || !atom_is(h->kid[2], tn__cond_names[d->kind])) return false;
    for (int i = 0; i < n; i++)
      if (!same(r, h->kid[3 + i], d->arg[i])) return false;
    return true;
  }
  const char *words = r->op == OP_RESHAPE  ? "%1 = dims V %2"
                      : r->op == OP_SHRINK ? "forall k, size %1 k = dim %2 k"
                      : r->op == OP_EXPAND ? "forall k, %1 k = dim %2 k"
                                           : NULL;
  return words && are_words(r, h, 2, words, r->lhs->kid[1], d->arg[0]);
}

/* (name : x relation y) */
static bool says(const tn__rule *r, const expr *h, const fact *f) {
  if (f->legal) return says_legal(r, h, f->legal);
  if (f->predicate) return says_predicate(r, h, f->predicate);
  if (h->nkid != 5) return false;
  if (f->relation) return same(r, h->kid[2], f->x) && atom_is(h->kid[3], f->relation) && same(r, h->kid[4], f->y);
  return head_is(h->kid[2], "mod_") && same(r, h->kid[2]->kid[1], f->y) && same(r, h->kid[2]->kid[2], f->x) &&
         atom_is(h->kid[3], "=") && atom_is(h->kid[4], "0");
}

static bool is_slot(const tn__rule *r, const expr *e) {
  for (uint32_t i = 0; i < r->nslot; i++)
    if (atom_is(e, r->slot[i])) return true;
  return false;
}

static bool is_end(const expr *e, const char *lo_or_hi, const expr *x) {
  return e->s && x->s && e->n == x->n + 3 && !memcmp(e->s, lo_or_hi, 3) && !memcmp(e->s + 3, x->s, x->n);
}

/* (V0 : is_value M x), (L0 : lo_x <= x), (U0 : x <= hi_x) */
static bool says_range(const tn__rule *r, const expr *h) {
  if (h->nkid != 5) return false;
  if (atom_is(h->kid[2], "is_value")) return atom_is(h->kid[3], "M") && is_slot(r, h->kid[4]);
  bool lower = is_slot(r, h->kid[4]);
  return atom_is(h->kid[3], "<=") &&
         (lower ? is_end(h->kid[2], "lo_", h->kid[4]) : is_slot(r, h->kid[2]) && is_end(h->kid[4], "hi_", h->kid[2]));
}

/* ---- variables ---- */

/* (M x y lo_x hi_x : Z) */
static const expr **numbers(const tn__rule *r, const expr **e, bool real) {
  const expr *b = *e;
  if (!b || b->s) return NULL;
  int at = b->nkid && atom_is(b->kid[0], "M");
  for (uint32_t i = 0; i < r->nslot; i++, at++)
    if (at >= b->nkid || !atom_is(b->kid[at], r->slot[i])) return NULL;
  for (uint32_t i = 0; i < r->nslot; i++) {
    const expr x = {.s = r->slot[i], .n = strlen(r->slot[i])};
    if (at + 1 < b->nkid && is_end(b->kid[at], "lo_", &x) && is_end(b->kid[at + 1], "hi_", &x)) at += 2;
  }
  return at + 2 == b->nkid && atom_is(b->kid[at], ":") && atom_is(b->kid[at + 1], real ? "R" : "Z") ? e + 1 : NULL;
}

static const char *type_of(const tn__rule *r, uint32_t slot, const tn__term *t) {
  if (t->form == TF_VAR && t->slot == slot)
    return r->is_const[slot] ? "V" : r->op == OP_RESHAPE ? "flat V" : "tensor V";
  if (t->form != TF_OP) return NULL;
  const char *type = type_of(r, slot, t->kid[0]);
  return type || t->nkid < 2 ? type : t->kid[1]->slot == slot ? arguments[t->what].type : NULL;
}

/* (V : Type) (zero : V) (rank : nat) (sum prod rmax rmin : ...), and (x : tensor V) (s : part) */
static const expr **tensors(const tn__rule *r, const expr **e) {
  static const char *const before[] = {"V : Type", "zero : V", "rank : nat",
                                       "sum prod rmax rmin : tensor V -> nat -> tensor V"};
  char words[80];
  for (uint32_t i = 0; i < 4 + r->nslot; i++, e++) {
    if (i >= 4) snprintf(words, sizeof words, "%s : %s", r->slot[i - 4], type_of(r, i - 4, r->lhs));
    if (!*e || (*e)->s || !are_words(r, *e, 0, i < 4 ? before[i] : words, NULL, NULL)) return NULL;
  }
  return e;
}

/* ---- theorems ---- */

static bool reads_back(tn_ctx *c, const tn__rule *r, const char *theorem) {
  const expr **e = read_statement(c, theorem);
  facts f = {.n = 0};
  bool met[32] = {0};
  if (!e || !*e || !atom_is(*e++, "forall")) return false;
  of_row(&f, r);
  e = is_movement(r) ? tensors(r, e) : numbers(r, e, r->mode == TN_MODE_FAST);
  for (; e && *e && !(*e)->s; e++) {
    const expr *h = *e;
    bool known = h->nkid > 3 && h->kid[0]->s && atom_is(h->kid[1], ":") && says_range(r, h);
    for (int i = 0; i < f.n && h->nkid > 3; i++)
      if (says(r, h, &f.v[i])) known = met[i] = true;
    if (!known) return false; /* nothing may be assumed that the row does not say */
  }
  for (int i = 0; i < f.n; i++)
    if (!met[i]) return false;
  if (!e || !*e || !atom_is(*e++, ",")) return false;
  if (!e[0] || !e[1] || !e[2] || e[3]) return false;
  if (is_movement(r))
    return atom_is(e[0], r->op == OP_RESHAPE ? "flat_same" : "same") && same(r, e[1], r->lhs) && same(r, e[2], r->rhs);
  return same(r, e[0], r->lhs) && atom_is(e[1], "=") && same(r, e[2], r->rhs);
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
      {"index.mod_mod", "rule a (mod (pick k (mod x c1) y) c) -> (mod (add (mul x k) y) c1) when x:index (divides c "
                        "(#mul k c1)) (fits)"},
      {"index.mod_mod",
       "rule a (mod (pick k (mod x c1) y) c) -> (mod (add (mul x k) y) c) when x:index (divides c1 (#mul k c)) (fits)"},
      {"simplify.permute_permute", "rule a (permute (permute x p) q) -> (permute x (compose q p))"},
      {"simplify.permute_same", "rule a (permute x p) -> x"},
      {"simplify.pad_pad", "rule a (pad (pad x p) q) -> (pad x (padsum q p))"},
      {"simplify.pad_pad", "rule a (pad (pad x q) p) -> (pad x (padsum p q))"},
      {"simplify.pad_none", "rule a (pad x p) -> x"},
      {"simplify.shrink_pad", "rule a (shrink (pad x p) s) -> x"},
      {"simplify.sum_none", "rule a (sum x a) -> x"},
  };
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    const tn__ruleset *s = tn__rules_parse(c, "other", others[i].other);
    if (reads_back(c, &s->rule[0], theorem_of(p, others[i].rule)))
      fail_msg("the theorem of %s is taken for: %s", others[i].rule, others[i].other);
  }
}

/* Hypotheses and types of which no row can say anything else. */
static void altered_texts(tn_ctx *c, const tn__proofs *p) {
  static const struct {
    const char *rule, *from, *to;
  } texts[] = {
      {"index.idiv_small", "(x y : Z)", "(x y z : Z)"},
      {"index.idiv_small", "(x y : Z)", "(x y : R)"},
      {"index.idiv_small", "(x y : Z)", "(x y : Z) (z : False)"},
      {"index.idiv_small", ", (idiv", ", x = y -> (idiv"},
      {"index.idiv_small", "= 0", "= 0 \\/ True"},
      {"simplify.expand_same", "(x : tensor V)", "(x : flat V)"},
      {"simplify.expand_same", "(s : index)", "(s : perm)"},
      {"simplify.expand_same", "(rank : nat)", "(rank : False)"},
      {"simplify.expand_same", "legal_expand (dim x) s", "legal_expand s (dim x)"},
      {"simplify.expand_same", "s k = dim x k", "size s k = dim x k"},
      {"simplify.expand_same", "forall k, s k = dim x k", "forall k, s k = dim s k"},
      {"simplify.expand_same", " (H1 : forall k, s k = dim x k)", ""},
      {"simplify.expand_expand", " (L1 : legal_expand (dim x) s)", ""},
      {"simplify.expand_expand", "(dim (expand x s)) t", "(dim x) t"},
      {"simplify.shrink_none", "size s k", "begin s k"},
      {"simplify.shrink_none", "legal_part s (dim x)", "legal_part s (dim s)"},
      {"simplify.shrink_pad", "undoes s p x", "undoes s p s"},
      {"simplify.pad_pad", "legal_pads q", "legal_pads p"},
      {"simplify.pad_pad", "legal_pads q", "zeros q"},
      {"simplify.reshape_same", "flat_same", "same"},
      {"simplify.reshape_same", "dims V x", "dims V s"},
  };
  for (size_t i = 0; i < sizeof texts / sizeof *texts; i++) {
    const char *text = altered_statement(c, theorem_of(p, texts[i].rule), texts[i].from, texts[i].to);
    if (!text) fail_msg("%s does not say %s", texts[i].rule, texts[i].from);
    if (reads_back(c, row_of(c, texts[i].rule), text)) fail_msg("taken for %s:\n%s", texts[i].rule, text);
  }
}

static void read_all(tn_ctx *c, void *arg) {
  (void)arg;
  tn__proofs *p = tn__prove_collect(c, NULL);
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *k = &p->claims.v[i];
    const tn__rule *r = k->tool == TT_COQ ? row_of(c, k->rule) : NULL;
    if (!r) continue; /* gradients and adjoints: test_gradient_text, test_adjoint_text */
    if (!reads_back(c, r, k->text)) fail_msg("what is printed of %s is not the row:\n%s", k->rule, k->text);
    n++;
  }
  print_message("%u theorems\n", n);
  assert_true(n > 100);
  wrong_texts(c, p);
  altered_texts(c, p);
}

static void printed_theorems_are_read_back(void **state) {
  (void)state;
  test_in_ctx(read_all, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(printed_theorems_are_read_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
