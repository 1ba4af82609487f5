#include "prove/gradient_coq.h"
#include <math.h>
#include <string.h>

#include "ir/eval.h"
#include "ir/shape.h"

const char *const tn__theorem_kinds[] = {"slope", "kink", "joint", "tie",     "no slope",
                                         "covers", "met",   "refused", "lacking"};

typedef struct printer {
  tn_ctx *c;
  tn__sb *out;
  const tn__rule *rule;
  const char *g; /* what stands for the arriving gradient */
} printer;

enum { MAX_SOURCES = 3 };
static const char *const sources[MAX_SOURCES] = {"x", "y", "z"};

/* ---- terms ------------------------------------------------------------------------------------------------------- */

/* A double is a whole number over a power of 2: printed as that, so that Coq reads the very same number. */
static void number(const printer *p, const tn__term *t) {
  enum { SMALLEST = 1074 };
  if (t->exact) {
    tn__sb_printf(p->out, "c_%s", t->exact);
    return;
  }
  if (!isfinite(t->num)) tn__fail(p->c, TN_EFORMAT, "gradient row %s: a real number is finite", p->rule->name);
  double v = t->num;
  int shift = 0;
  while (v != floor(v) && shift < SMALLEST) v *= 2, shift++;
  if (shift) tn__sb_printf(p->out, "(%.0f / %.0f)", v, ldexp(1, shift));
  else tn__sb_printf(p->out, v < 0 ? "(%.0f)" : "%.0f", v == 0 ? 0 : v);
}

static void applied(const printer *p, const char *op) {
  tn__sb_printf(p->out, "(o_%s", op);
  for (uint32_t i = 0; i < tn__ops[p->rule->op].max_src; i++) tn__sb_printf(p->out, " %s", sources[i]);
  tn__sb_putc(p->out, ')');
}

static void term(const printer *p, const tn__term *t) {
  switch (t->form) {
  case TF_VAR:
    if (t->slot == GRAD_OUT) applied(p, tn__ops[p->rule->op].text);
    else tn__sb_puts(p->out, t->slot == GRAD_G ? p->g : p->rule->slot[t->slot]);
    return;
  case TF_NUM: number(p, t); return;
  case TF_CAST_LIKE: term(p, t->kid[1]); return; /* of a real number: itself */
  case TF_OP:
    tn__sb_printf(p->out, "(o_%s", tn__ops[t->what].text);
    for (uint32_t i = 0; i < t->nkid; i++) {
      tn__sb_putc(p->out, ' ');
      term(p, t->kid[i]);
    }
    tn__sb_putc(p->out, ')');
    return;
  default:
    tn__fail(p->c, TN_EFORMAT, "gradient row %s: %s has no meaning over the reals", p->rule->name,
             tn__form_names[t->form]);
  }
}

/* What the row says flows back. */
static void value(const printer *p) {
  if (p->rule->verdict == TV_ZERO) tn__sb_putc(p->out, '0');
  else term(p, p->rule->rhs);
}

/* ---- statements -------------------------------------------------------------------------------------------------- */

static void condition(const printer *p, const tn__cond *d) {
  static const char *const spelling[] = {
      [TC_LT] = "<", [TC_LE] = "<=", [TC_EQ] = "=", [TC_NE] = "<>", [TC_GT] = "<", [TC_GE] = "<="};
  bool compares = d->kind <= TC_GE, turned = d->kind == TC_GT || d->kind == TC_GE;
  if (compares) {
    term(p, d->arg[turned]);
    tn__sb_printf(p->out, " %s ", spelling[d->kind]);
  } else tn__sb_printf(p->out, "%s ", tn__cond_names[d->kind]);
  term(p, d->arg[compares && !turned]);
}

static void hypotheses(const printer *p, const tn__clause *q) {
  for (uint32_t i = 0; q && i < q->n; i++) {
    condition(p, &p->rule->cond[q->first + i]);
    tn__sb_puts(p->out, " -> ");
  }
}

static void conjunction(const printer *p, const tn__clause *q) {
  if (!q->n) tn__sb_puts(p->out, "True");
  for (uint32_t i = 0; i < q->n; i++) {
    if (i) tn__sb_puts(p->out, " /\\ ");
    condition(p, &p->rule->cond[q->first + i]);
  }
}

static void disjunction(const printer *p) {
  for (uint32_t i = 0; i < p->rule->nclause; i++) {
    tn__sb_puts(p->out, i ? " \\/ (" : "(");
    conjunction(p, &p->rule->clause[i]);
    tn__sb_putc(p->out, ')');
  }
}

/* May source k be a float? */
static bool takes(const tn__rule *r, uint32_t k, int dtype) {
  return !(r->op == OP_WHERE && k == 0) && tn__eval_defined(r->op, dtype);
}

static bool has_slope(const tn__rule *r) {
  for (int d = 0; d < TN_DTYPE_COUNT; d++)
    if (tn__is_float(d) && takes(r, r->src, d)) return true;
  return false;
}

static void quantify(const printer *p, bool with_g) {
  tn__sb_puts(p->out, "forall");
  for (uint32_t i = 0; i < tn__ops[p->rule->op].max_src; i++)
    tn__sb_printf(p->out, " (%s : %s)", sources[i], p->rule->op == OP_WHERE && i == 0 ? "bool" : "R");
  tn__sb_puts(p->out, with_g ? " (g : R), " : ", ");
}

/* The op as a real function: a comparison's truth counts as 0 or 1. */
static void function(const printer *p) {
  const tn__op_info *op = &tn__ops[p->rule->op];
  bool truth = op->dtype_rule == DT_BOOL;
  if (truth) tn__sb_puts(p->out, "(truth ");
  applied(p, op->text);
  if (truth) tn__sb_putc(p->out, ')');
}

static const char *finish(tn__arena *a, tn__sb *b) { return tn__arena_strdup(a, tn__sb_str(b)); }

static const char *named(tn__arena *a, const tn__rule *r, const char *suffix, uint32_t number) {
  tn__sb b;
  tn__sb_init(&b, a);
  tn__sb_printf(&b, "grad_%s", tn__ops[r->op].text);
  if (!suffix || !strcmp(suffix, "kink")) tn__sb_printf(&b, "_%s", sources[r->src]);
  if (suffix) tn__sb_printf(&b, "_%s", suffix);
  if (number) tn__sb_printf(&b, "_%u", number + 1);
  return tn__sb_str(&b);
}

static tn__theorem of_clause(tn_ctx *c, tn__arena *a, const tn__rule *r, const tn__clause *q, uint32_t number) {
  bool kink = q && q->kink;
  tn__sb b;
  tn__sb_init(&b, a);
  printer p = {.c = c, .out = &b, .rule = r, .g = "g"};
  quantify(&p, true);
  hypotheses(&p, q);
  if (kink) tn__sb_puts(&b, "g <> 0 -> ");
  const char *v = sources[r->src];
  tn__sb_printf(&b, "%s (fun %s => g * ", kink ? "between_slopes" : "is_derive", v);
  function(&p);
  tn__sb_printf(&b, ") %s ", v);
  value(&p);
  return (tn__theorem){kink ? TH_KINK : TH_SLOPE, r, named(a, r, kink ? "kink" : NULL, number), finish(a, &b),
                       r->proof ? r->proof : kink ? "kink_row." : "slope_row."};
}

static tn__theorem of_no_slope(tn__arena *a, const tn__rule *r) {
  tn__sb b;
  tn__sb_init(&b, a);
  tn__sb_puts(&b, "no_slope (");
  for (int d = 0; d < TN_DTYPE_COUNT; d++)
    if (tn__is_float(d))
      tn__sb_printf(&b, "cons %s (* %s *) (", takes(r, r->src, d) ? "true" : "false", tn__dtypes[d].name);
  tn__sb_puts(&b, "nil");
  for (int d = 0; d < TN_DTYPE_COUNT; d++)
    if (tn__is_float(d)) tn__sb_putc(&b, ')');
  tn__sb_putc(&b, ')');
  return (tn__theorem){TH_NO_SLOPE, r, named(a, r, NULL, 0), finish(a, &b), "no_slope_row."};
}

/* Where the op is defined over the reals, one of the row's clauses holds. */
static tn__theorem of_cover(tn_ctx *c, tn__arena *a, const tn__rule *r, const tn__rule *defined) {
  tn__sb b;
  tn__sb_init(&b, a);
  printer p = {.c = c, .out = &b, .rule = r, .g = "g"};
  quantify(&p, false);
  if (defined) {
    p.rule = defined;
    disjunction(&p);
    tn__sb_puts(&b, " -> ");
    p.rule = r;
  }
  disjunction(&p);
  tn__sb name;
  tn__sb_init(&name, a);
  tn__sb_printf(&name, "%s_covers", named(a, r, NULL, 0));
  return (tn__theorem){TH_COVERS, r, tn__sb_str(&name), finish(a, &b), "cover_row."};
}

/* ---- points at which clauses hold ---- */

/* A condition's term in f64; its truth values only choose. */
static double value_at(const tn__term *t, const double *at) {
  uint64_t arg[MAX_SOURCES] = {0};
  if (t->form == TF_VAR) return at[t->slot];
  if (t->form == TF_NUM) return t->num;
  for (uint32_t i = 0; i < t->nkid && i < MAX_SOURCES; i++)
    arg[i] = tn__eval_from_double(TN_F64, value_at(t->kid[i], at));
  return tn__eval_to_double(TN_F64, tn__eval(t->what, TN_F64, TN_F64, arg));
}

static bool holds_at(const tn__cond *d, const double *at) {
  double x = value_at(d->arg[0], at), y = d->kind <= TC_GE ? value_at(d->arg[1], at) : 0;
  switch (d->kind) {
  case TC_LT: return x < y;
  case TC_LE: return x <= y;
  case TC_EQ: return x <= y && y <= x;
  case TC_NE: return x < y || y < x;
  case TC_GT: return y < x;
  case TC_GE: return y <= x;
  case TC_WHOLE: return isfinite(x) && x <= floor(x);
  default: return isfinite(x) && floor(x) < x;
  }
}

/* Points of few digits, halves among them, so that Coq sees at once that a clause holds there. */
static bool find_point(const tn__rule *r, const tn__clause *q, double *at) {
  static const double tries[] = {0, 1, 0.5, -1, -0.5, 2, -2, 3};
  enum { TRIES = sizeof tries / sizeof *tries };
  uint32_t n = tn__ops[r->op].max_src, total = 1;
  for (uint32_t k = 0; k < n; k++) total *= TRIES;
  for (uint32_t i = 0; i < total; i++) {
    bool holds = true;
    for (uint32_t k = 0, rest = i; k < n; k++, rest /= TRIES) at[k] = tries[rest % TRIES];
    for (uint32_t k = 0; k < q->n && holds; k++) holds = holds_at(&r->cond[q->first + k], at);
    if (holds) return true;
  }
  return false;
}

static tn__theorem lacking(const tn__rule *r, const char *what) {
  return (tn__theorem){TH_LACKING, r, r->name, NULL, what};
}

static tn__theorem of_met(tn_ctx *c, tn__arena *a, const tn__rule *r, uint32_t clause) {
  const tn__clause *q = &r->clause[clause];
  double at[MAX_SOURCES];
  tn__sb b, proof, name;
  tn__sb_init(&b, a), tn__sb_init(&proof, a), tn__sb_init(&name, a);
  if (!find_point(r, q, at)) return lacking(r, "no point is found at which a clause of this row holds");
  printer p = {.c = c, .out = &b, .rule = r, .g = "g"}, in_proof = {.c = c, .out = &proof, .rule = r};
  for (uint32_t i = 0; i < tn__ops[r->op].max_src; i++) {
    tn__sb_printf(&b, "exists %s : R, ", sources[i]);
    tn__sb_puts(&proof, i ? ", " : "exists ");
    number(&in_proof, &(tn__term){.form = TF_NUM, .num = at[i]});
  }
  conjunction(&p, q);
  tn__sb_puts(&proof, ". met_row.");
  tn__sb_printf(&name, "%s_met_%u", named(a, r, NULL, 0), clause + 1);
  return (tn__theorem){TH_MET, r, tn__sb_str(&name), finish(a, &b), finish(a, &proof)};
}

/* The two rows of an op of two sources (of `where`: its branches), on a clause that both have. */
static tn__theorem of_pair(tn_ctx *c, tn__arena *a, const tn__rule *r, const tn__rule *s, const tn__clause *q,
                           uint32_t number) {
  bool tie = q && q->kink;
  const char *x = sources[r->src], *y = sources[s->src];
  tn__sb b;
  tn__sb_init(&b, a);
  printer p = {.c = c, .out = &b, .rule = r, .g = "1"};
  quantify(&p, false);
  hypotheses(&p, q);
  if (!tie) {
    tn__sb_printf(&b, "diff2 (fun %s %s => ", x, y);
    function(&p);
    tn__sb_printf(&b, ") %s %s ", x, y);
  } else tn__sb_puts(&b, "convex ");
  value(&p);
  tn__sb_putc(&b, ' ');
  p.rule = s;
  value(&p);
  return (tn__theorem){tie ? TH_TIE : TH_JOINT, r, named(a, r, tie ? "tie" : "joint", number), finish(a, &b),
                       tie ? "convex_row." : "joint_row."};
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

typedef tn__vec(tn__theorem) theorems;

static const char *text_of(tn_ctx *c, tn__arena *a, const tn__rule *r, const tn__clause *q) {
  tn__sb b;
  tn__sb_init(&b, a);
  hypotheses(&(printer){.c = c, .out = &b, .rule = r, .g = "g"}, q);
  return tn__sb_str(&b);
}

static void row(tn_ctx *c, tn__arena *a, const tn__rule *r, const tn__rule *defined, theorems *out) {
  uint32_t plain = 0, kinks = 0;
  for (uint32_t i = 0; i < r->nclause; i++) plain += !r->clause[i].kink && !r->clause[i].bare;
  if (r->verdict == TV_FORBIDDEN)
    tn__vec_push(a, out, ((tn__theorem){TH_REFUSED, r, named(a, r, NULL, 0), NULL, NULL}));
  else if (!has_slope(r)) tn__vec_push(a, out, of_no_slope(a, r));
  else {
    if (!plain) tn__vec_push(a, out, of_clause(c, a, r, NULL, 0));
    else tn__vec_push(a, out, of_cover(c, a, r, defined));
    plain = 0;
    for (uint32_t i = 0; i < r->nclause; i++) {
      const tn__clause *q = &r->clause[i];
      tn__vec_push(a, out, of_met(c, a, r, i));
      if (!q->bare) tn__vec_push(a, out, of_clause(c, a, r, q, q->kink ? kinks++ : plain++));
    }
  }
}

static void pair(tn_ctx *c, tn__arena *a, const tn__rule *r, const tn__rule *s, theorems *out) {
  uint32_t joints = 0, ties = 0;
  if (!r->nclause && !s->nclause) tn__vec_push(a, out, of_pair(c, a, r, s, NULL, 0));
  for (uint32_t i = 0; i < r->nclause; i++)
    for (uint32_t j = 0; j < s->nclause; j++) {
      const tn__clause *q = &r->clause[i], *w = &s->clause[j];
      if (q->kink && !tn__ops[r->op].idem) continue; /* where f(x, x) = x, the two share its slope of 1 */
      if (q->bare || w->bare || q->kink != w->kink || strcmp(text_of(c, a, r, q), text_of(c, a, s, w))) continue;
      tn__vec_push(a, out, of_pair(c, a, r, s, q, q->kink ? ties++ : joints++));
    }
  if (!joints && (r->nclause || s->nclause))
    tn__vec_push(a, out, lacking(r, "this row and that of the other source hold nowhere together"));
}

static bool is_pair(const tn__rule *r, const tn__rule *s) {
  uint32_t first = r->op == OP_WHERE;
  return r->op == s->op && tn__ops[r->op].max_src == first + 2 && r->src == first && s->src == first + 1 &&
         has_slope(r);
}

uint32_t tn__gradient_theorems(tn_ctx *c, tn__arena *a, const tn__ruleset *s, tn__theorem **out) {
  theorems all = {0};
  for (uint32_t i = 0; i < s->n; i++)
    if (s->rule[i].verdict != TV_RULE) row(c, a, &s->rule[i], s->defined[s->rule[i].op], &all);
  for (uint32_t i = 0; i < s->n; i++)
    for (uint32_t j = 0; j < s->n; j++)
      if (s->rule[i].verdict != TV_RULE && s->rule[j].verdict != TV_RULE && is_pair(&s->rule[i], &s->rule[j]))
        pair(c, a, &s->rule[i], &s->rule[j], &all);
  *out = all.v;
  return all.n;
}
