/* What Coq is given about gradient rows is what the table says: of every row the statements that it makes are listed
 * here once more, from the row alone, each theorem is read back word by word, and the two lists have to pair off. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/shape.h"
#include "prove/prove.h"
#include "support/in_ctx.h"
#include "support/sexpr.h"

/* ---- what the rows say ---- */

typedef enum kind { SLOPE, KINK, JOINT, TIE, NO_SLOPE, COVERS, MET, REFUSED } kind;
static const char *const parts[] = {"slope", "kink", "joint", "tie", "no slope", "covers", "met", "refused"};

typedef struct saying {
  kind kind;
  const tn__rule *x, *y;     /* the row; of two sources: their rows */
  const tn__clause *clause;  /* of x; NULL: everywhere */
  uint32_t printed;
} saying;
typedef struct sayings {
  saying v[400];
  uint32_t n;
} sayings;

static saying *add(sayings *all, kind k, const tn__rule *x, const tn__rule *y, const tn__clause *q) {
  if (all->n == sizeof all->v / sizeof *all->v) fail_msg("too many sayings");
  all->v[all->n] = (saying){k, x, y, q, 0};
  return &all->v[all->n++];
}

/* Sources that are integers, truth values or bits have no slope. */
static bool is_real(const tn__rule *r) {
  int rule = tn__ops[r->op].dtype_rule;
  return rule != DT_INT && rule != DT_LOGIC && r->op != OP_PHILOX && !(r->op == OP_WHERE && r->src == 0);
}

static const tn__ruleset *table; /* says where ops are defined */

static void of_row(sayings *all, const tn__rule *r) {
  uint32_t domains = 0;
  if (r->verdict == TV_FORBIDDEN || !is_real(r)) {
    add(all, r->verdict == TV_FORBIDDEN ? REFUSED : NO_SLOPE, r, NULL, NULL);
    return;
  }
  for (uint32_t i = 0; i < r->nclause; i++) {
    bool bare = r->clause[i].bare;
    if (!bare) add(all, r->clause[i].kink ? KINK : SLOPE, r, NULL, &r->clause[i]);
    add(all, MET, r, NULL, &r->clause[i]);
    domains += !r->clause[i].kink && !bare;
  }
  if (!domains) add(all, SLOPE, r, NULL, NULL);
  else add(all, COVERS, r, NULL, NULL);
}

static bool same_term(const tn__term *x, const tn__term *y) {
  if (x->form != y->form || x->what != y->what || x->slot != y->slot || x->nkid != y->nkid || x->num < y->num ||
      x->num > y->num || !x->exact != !y->exact)
    return false;
  for (uint32_t i = 0; i < x->nkid; i++)
    if (!same_term(x->kid[i], y->kid[i])) return false;
  return !x->exact || !strcmp(x->exact, y->exact);
}

static bool same_clause(const tn__rule *r, const tn__clause *q, const tn__rule *s, const tn__clause *w) {
  if (q->bare || w->bare || q->kink != w->kink || q->n != w->n) return false;
  for (uint32_t i = 0; i < q->n; i++) {
    const tn__cond *c = &r->cond[q->first + i], *d = &s->cond[w->first + i];
    if (c->kind != d->kind) return false;
    for (int k = 0; k < tn__cond_args[c->kind]; k++)
      if (!same_term(c->arg[k], d->arg[k])) return false;
  }
  return true;
}

/* Two rows of an op of two sources (of `where`: of its branches) are a differential where both hold.  At a kink they
 * share a slope of 1 if the op of two equal values is that value. */
static void of_rows(sayings *all, const tn__rule *r, const tn__rule *s) {
  uint32_t joint = 0;
  if (!r->nclause && !s->nclause) add(all, JOINT, r, s, NULL), joint++;
  for (uint32_t i = 0; i < r->nclause; i++)
    for (uint32_t j = 0; j < s->nclause; j++)
      if (same_clause(r, &r->clause[i], s, &s->clause[j]) && (!r->clause[i].kink || tn__ops[r->op].idem))
        joint += add(all, r->clause[i].kink ? TIE : JOINT, r, s, &r->clause[i])->kind == JOINT;
  if (!joint) fail_msg("%s and %s hold nowhere together", r->name, s->name);
}

static void of_table(sayings *all, const tn__ruleset *s) {
  for (uint32_t i = 0; i < s->n; i++) of_row(all, &s->rule[i]);
  for (uint32_t i = 0; i < s->n; i++)
    for (uint32_t j = 0; j < s->n; j++) {
      const tn__rule *x = &s->rule[i], *y = &s->rule[j];
      uint32_t sources = x->op == OP_WHERE ? 2 : tn__ops[x->op].max_src;
      if (x->op == y->op && sources == 2 && x->src + 1 == y->src && is_real(x)) of_rows(all, x, y);
    }
}

/* ---- terms ---- */

static const char *const sources[] = {"x", "y", "z"};

typedef struct reader {
  const expr **at;
  const tn__rule *r;
  const char *g;
} reader;

static const expr *next(reader *t) {
  static const expr end;
  return *t->at ? *t->at++ : &end;
}
static bool word(reader *t, const char *s) { return atom_is(next(t), s); }

static bool whole(const expr *e, double *v) {
  char text[400], again[400];
  if (!e->s || e->n >= sizeof text) return false;
  snprintf(text, sizeof text, "%.*s", (int)e->n, e->s);
  *v = strtod(text, NULL);
  snprintf(again, sizeof again, "%.0f", *v);
  return !strcmp(text, again); /* nothing was lost in reading it */
}

/* 3, (-3), (3 / 4): by powers of 2 only, so that dividing is exact; c_ln2. */
static bool is_number(const expr *e, const tn__term *n) {
  double v, by = 1;
  if (n->exact)
    return e->s && e->n == 2 + strlen(n->exact) && !memcmp(e->s, "c_", 2) && !memcmp(e->s + 2, n->exact, e->n - 2);
  bool fraction = !e->s && e->nkid == 3;
  if (fraction && !(atom_is(e->kid[1], "/") && whole(e->kid[2], &by))) return false;
  for (double b = by; b > 1; b /= 2)
    if (fmod(b, 2) > 0) return false;
  if (!e->s && !fraction && e->nkid != 1) return false;
  return by >= 1 && whole(e->s ? e : e->kid[0], &v) && (e->s || fraction || v < 0) && !(v / by < n->num) &&
         !(v / by > n->num);
}

static bool is_op(const expr *e, int op, uint32_t n) {
  const char *text = tn__ops[op].text;
  if (e->s || e->nkid != (int)n + 1 || !e->kid[0]->s) return false;
  return e->kid[0]->n == 2 + strlen(text) && !memcmp(e->kid[0]->s, "o_", 2) &&
         !memcmp(e->kid[0]->s + 2, text, strlen(text));
}

static bool is_applied(const reader *t, const expr *e) {
  uint32_t n = tn__ops[t->r->op].max_src;
  if (!is_op(e, t->r->op, n)) return false;
  for (uint32_t i = 0; i < n; i++)
    if (!atom_is(e->kid[1 + i], sources[i])) return false;
  return true;
}

static bool is_term(const reader *t, const expr *e, const tn__term *x) {
  switch (x->form) {
  case TF_NUM: return is_number(e, x);
  case TF_CAST_LIKE: return is_term(t, e, x->kid[1]); /* of a real number: itself */
  case TF_VAR: return x->slot == GRAD_OUT ? is_applied(t, e) : atom_is(e, x->slot == GRAD_G ? t->g : sources[x->slot]);
  case TF_OP:
    if (!is_op(e, x->what, x->nkid)) return false;
    for (uint32_t i = 0; i < x->nkid; i++)
      if (!is_term(t, e->kid[1 + i], x->kid[i])) return false;
    return true;
  default: return false;
  }
}

static bool is_value(reader *t, const tn__rule *r) {
  t->r = r;
  return r->verdict == TV_ZERO ? word(t, "0") : is_term(t, next(t), r->rhs);
}

/* The op; where it gives a truth value, as a number. */
static bool is_function(const reader *t, const expr *e) {
  bool truth = t->r->op == OP_LT || t->r->op == OP_LE || t->r->op == OP_EQ || t->r->op == OP_NE;
  if (truth && !(head_is(e, "truth") && e->nkid == 2)) return false;
  return is_applied(t, truth ? e->kid[1] : e);
}

/* ---- statements ---- */

static bool is_binder(const expr *e, const char *name, const char *type) {
  return !e->s && e->nkid == 3 && atom_is(e->kid[0], name) && atom_is(e->kid[1], ":") && atom_is(e->kid[2], type);
}

static bool binders(reader *t, bool with_g) {
  if (!word(t, "forall")) return false;
  for (uint32_t i = 0; i < tn__ops[t->r->op].max_src; i++)
    if (!is_binder(next(t), sources[i], t->r->op == OP_WHERE && i == 0 ? "bool" : "R")) return false;
  return (!with_g || is_binder(next(t), "g", "R")) && word(t, ",");
}

static bool condition(reader *t, const tn__cond *d) {
  static const struct {
    const char *text;
    bool turned; /* x > y is y < x */
  } relations[] = {[TC_LT] = {"<", false},  [TC_LE] = {"<=", false}, [TC_EQ] = {"=", false},
                   [TC_NE] = {"<>", false}, [TC_GT] = {"<", true},   [TC_GE] = {"<=", true}};
  if (d->kind == TC_WHOLE || d->kind == TC_FRACTION)
    return word(t, d->kind == TC_WHOLE ? "whole" : "fraction") && is_term(t, next(t), d->arg[0]);
  if (d->kind > TC_GE) return false;
  bool turned = relations[d->kind].turned;
  return is_term(t, next(t), d->arg[turned]) && word(t, relations[d->kind].text) &&
         is_term(t, next(t), d->arg[!turned]);
}

static bool hypothesis(reader *t, const tn__cond *d) { return condition(t, d) && word(t, "->"); }

static bool all_of(reader *t, const tn__rule *r, const tn__clause *q) {
  for (uint32_t i = 0; i < q->n; i++)
    if ((i && !word(t, "/\\")) || !condition(t, &r->cond[q->first + i])) return false;
  return true;
}

/* (clause) \/ (clause) ... */
static bool one_of(reader *t, const tn__rule *r) {
  for (uint32_t i = 0; i < r->nclause; i++) {
    if (i && !word(t, "\\/")) return false;
    const expr *e = next(t), *kid[MAX_EXPR + 1] = {0};
    for (int k = 0; k < e->nkid; k++) kid[k] = e->kid[k];
    reader inside = {.at = kid, .r = t->r, .g = t->g};
    if (e->s || !all_of(&inside, r, &r->clause[i]) || *inside.at) return false;
  }
  return true;
}

static bool covers(reader *t, const saying *k) {
  const tn__rule *defined = table->defined[k->x->op];
  return (!defined || (one_of(t, defined) && word(t, "->"))) && one_of(t, k->x);
}

static bool met(reader *t, const saying *k) {
  for (uint32_t i = 0; i < tn__ops[k->x->op].max_src; i++)
    if (!word(t, "exists") || !word(t, sources[i]) || !word(t, ":") || !word(t, "R,")) return false;
  return all_of(t, k->x, k->clause);
}

static bool hypotheses(reader *t, const saying *k) {
  for (uint32_t i = 0; k->clause && i < k->clause->n; i++)
    if (!hypothesis(t, &k->x->cond[k->clause->first + i])) return false;
  return k->kind != KINK || (word(t, "g") && word(t, "<>") && word(t, "0") && word(t, "->"));
}

/* fun x => g * op x y */
static bool one_slope(reader *t, const saying *k) {
  const char *v = sources[k->x->src];
  if (!word(t, k->kind == KINK ? "between_slopes" : "is_derive")) return false;
  const expr *f = next(t);
  return !f->s && f->nkid == 6 && atom_is(f->kid[0], "fun") && atom_is(f->kid[1], v) && atom_is(f->kid[2], "=>") &&
         atom_is(f->kid[3], "g") && atom_is(f->kid[4], "*") && is_function(t, f->kid[5]) && word(t, v) &&
         is_value(t, k->x);
}

/* fun x y => op x y, at x y */
static bool differential(reader *t, const saying *k) {
  const char *v = sources[k->x->src], *w = sources[k->y->src];
  if (!word(t, "diff2")) return false;
  const expr *f = next(t);
  return !f->s && f->nkid == 5 && atom_is(f->kid[0], "fun") && atom_is(f->kid[1], v) && atom_is(f->kid[2], w) &&
         atom_is(f->kid[3], "=>") && is_function(t, f->kid[4]) && word(t, v) && word(t, w) && is_value(t, k->x) &&
         is_value(t, k->y);
}

/* (cons false (* f16 *) (cons ... (nil))): may the source be of this dtype? */
static bool nothing_to_differentiate(reader *t) {
  static const char *const floats[] = {"f16", "bf16", "f32", "f64"};
  if (!word(t, "no_slope")) return false;
  const expr *e = next(t);
  for (int i = 0; i < 4; i++, e = e->kid[3])
    if (e->s || e->nkid != 4 || !atom_is(e->kid[0], "cons") || !atom_is(e->kid[1], "false") || e->kid[2]->nkid != 3 ||
        !atom_is(e->kid[2]->kid[1], floats[i]))
      return false;
  return head_is(e, "nil") && e->nkid == 1;
}

static bool reads_back(tn_ctx *c, const saying *k, const char *theorem) {
  reader t = {.at = read_statement(c, theorem), .r = k->x, .g = k->kind == JOINT || k->kind == TIE ? "1" : "g"};
  bool one = k->kind == SLOPE || k->kind == KINK, two = k->kind == JOINT || k->kind == TIE, same = false;
  if (!t.at || k->kind == REFUSED || ((one || two) && !(binders(&t, one) && hypotheses(&t, k)))) return false;
  if (k->kind == COVERS) return binders(&t, false) && covers(&t, k) && !*t.at;
  if (k->kind == MET) return met(&t, k) && !*t.at;
  if (one) same = one_slope(&t, k);
  else if (k->kind == JOINT) same = differential(&t, k);
  else if (k->kind == TIE) same = word(&t, "convex") && is_value(&t, k->x) && is_value(&t, k->y);
  else same = nothing_to_differentiate(&t);
  return same && !*t.at;
}

/* ---- the test ---- */

static saying *said(tn_ctx *c, sayings *all, const tn__claim *claim) {
  for (uint32_t i = 0; i < all->n; i++) {
    saying *k = &all->v[i];
    bool about = !strcmp(claim->part, parts[k->kind]) && !strcmp(claim->rule + strlen("gradient."), k->x->name);
    if (!about || k->printed) continue;
    if (claim->tool == TT_COQ ? reads_back(c, k, claim->text) : k->kind == REFUSED) return k;
  }
  return NULL;
}

static const struct {
  const char *theorem, *from, *to;
} wrong_texts[] = {
    {"grad_exp_x", "(x : R)", "(x : bool)"},
    {"grad_exp_x", "(x : R) (g : R)", "(g : R) (x : R)"},
    {"grad_exp_x", "(g : R)", "(g : R) (H : False)"},
    {"grad_exp_x", ", is_derive", ", x < x -> is_derive"},
    {"grad_exp_x", "is_derive", "between_slopes"},
    {"grad_exp_x", "g * (o_exp x)", "(o_exp x)"},
    {"grad_exp_x", "g * (o_exp x)", "g + (o_exp x)"},
    {"grad_exp_x", "g * (o_exp x)", "g * (o_exp2 x)"},
    {"grad_exp_x", "fun x", "fun g"},
    {"grad_exp_x", ") x (o_mul", ") g (o_mul"},
    {"grad_exp_x", "(o_mul g", "(o_add g"},
    {"grad_exp_x", "(o_mul g (o_exp x))", "(o_mul (o_exp x) g)"},
    {"grad_exp_x", "(o_mul g (o_exp x))", "(o_mul g (o_exp x)) -> True"},
    {"grad_exp_x", "(o_mul g (o_exp x))", ""},
    {"grad_exp2_x", "c_ln2", "c_log2e"},
    {"grad_exp2_x", "c_ln2", "1"},
    {"grad_sqrt_x", "(1 / 2)", "(1 / 4)"},
    {"grad_sqrt_x", "(1 / 2)", "(1 / 3)"},
    {"grad_sqrt_x", "(1 / 2)", "(-1 / 2)"},
    {"grad_sqrt_x", "(1 / 2)", "(2 / 1)"},
    {"grad_sqrt_x", "0 < x -> ", ""},
    {"grad_sqrt_x", "0 < x", "0 <= x"},
    {"grad_sqrt_x", "0 < x", "x < 0"},
    {"grad_sqrt_x", "0 < x", "0 < g"},
    {"grad_log1p_x", "(-1) <", "1 <"},
    {"grad_log1p_x", "(-1) <", "(-2) <"},
    {"grad_floor_x", "fraction x", "whole x"},
    {"grad_floor_x", "x 0", "x 1"},
    {"grad_div_x", "y <> 0", "x <> 0"},
    {"grad_div_x", "y <> 0", "y = 0"},
    {"grad_div_x", "o_div x y", "o_div y x"},
    {"grad_mod_x", "(o_div x y)", "(o_div y x)"},
    {"grad_lt_y", "(truth (o_lt x y))", "(o_lt x y)"},
    {"grad_lt_y", "x <> y", "y <> x"},
    {"grad_lt_y", "fun y", "fun x"},
    {"grad_where_y", "(x : bool)", "(x : R)"},
    {"grad_where_y", "o_where x g 0", "o_where x 0 g"},
    {"grad_pow_x_2", "whole y -> ", ""},
    {"grad_pow_x_2", "x <> 0 -> ", ""},
    {"grad_pow_x_3", "1 <= y", "0 <= y"},
    {"grad_abs_x_kink", "x = 0 -> ", ""},
    {"grad_abs_x_kink", "g <> 0 -> ", ""},
    {"grad_abs_x_kink", "between_slopes", "is_derive"},
    {"grad_max_tie", "convex", "diff2"},
    {"grad_max_tie", "x = y", "x <> y"},
    {"grad_max_tie", "(o_where (o_lt y x) 1 0)", "(o_where (o_lt x y) 1 0)"},
    {"grad_max_tie", "(o_mul 1 (1 / 2))", "(o_mul g (1 / 2))"},
    {"grad_sqrt_x_covers", "(0 <= x) -> ", ""},
    {"grad_sqrt_x_covers", "(0 <= x)", "(0 < x)"},
    {"grad_sqrt_x_covers", "(0 < x) \\/ (x = 0)", "(0 < x)"},
    {"grad_sqrt_x_covers", "(0 < x) \\/ (x = 0)", "(0 < x) \\/ (x = 0) \\/ (x = 1)"},
    {"grad_pow_x_covers", "whole y /\\ 1 <= y", "whole y"},
    {"grad_pow_x_met_2", "x <> 0 /\\ whole y", "whole y"},
    {"grad_pow_x_met_2", "exists x", "exists g"},
    {"grad_mul_joint", "(o_mul 1 y) (o_mul 1 x)", "(o_mul 1 x) (o_mul 1 y)"},
    {"grad_mul_joint", ") x y (", ") y x ("},
    {"grad_mul_joint", "fun x y", "fun y x"},
    {"grad_mul_joint", "diff2", "convex"},
    {"grad_xor_x", "false (* f32 *)", "true (* f32 *)"},
    {"grad_xor_x", "cons false (* f64 *) (nil)", "nil"},
};

static uint32_t refuses_others(tn_ctx *c, const tn__claim *claim, const saying *k) {
  uint32_t tried = 0;
  for (size_t i = 0; i < sizeof wrong_texts / sizeof *wrong_texts; i++) {
    if (strcmp(claim->name, wrong_texts[i].theorem)) continue;
    const char *text = altered_statement(c, claim->text, wrong_texts[i].from, wrong_texts[i].to);
    if (!text) fail_msg("%s does not say %s:\n%s", claim->name, wrong_texts[i].from, claim->text);
    if (reads_back(c, k, text)) fail_msg("taken for the row %s:\n%s", k->x->name, text);
    tried++;
  }
  return tried;
}

static void read_all(tn_ctx *c, void *arg) {
  (void)arg;
  sayings *all = tn__arena_zalloc(&c->scratch, sizeof *all);
  tn__proofs *p = tn__prove_collect(c, NULL);
  uint32_t refused = 0, theorems = 0;
  table = tn__rules_get(c, "gradient");
  of_table(all, table);
  for (uint32_t i = 0; i < p->claims.n; i++) {
    const tn__claim *claim = &p->claims.v[i];
    /* Reverse.v: about no row */
    bool by_hand = claim->tool == TT_COQ && !claim->statement;
    if (strncmp(claim->rule, "gradient.", strlen("gradient.")) || by_hand) continue;
    saying *k = said(c, all, claim);
    if (!k)
      fail_msg("what is printed of %s is nothing that the row says:\n%s", claim->rule,
               claim->text ? claim->text : claim->witness);
    k->printed++;
    theorems += claim->tool == TT_COQ;
    if (claim->tool == TT_COQ) refused += refuses_others(c, claim, k);
  }
  for (uint32_t i = 0; i < all->n; i++)
    if (!all->v[i].printed) fail_msg("nothing is printed of %s, %s", all->v[i].x->name, parts[all->v[i].kind]);
  print_message("%u theorems; %u altered texts refused\n", theorems, refused);
  assert_true(theorems > 90);
  assert_int_equal(refused, sizeof wrong_texts / sizeof *wrong_texts);
}

static void printed_gradients_are_read_back(void **state) {
  (void)state;
  test_in_ctx(read_all, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(printed_gradients_are_read_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
