#include "support/slopes.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "ir/eval.h"

/* ---- a row's value ----------------------------------------------------------------------------------------------- */

typedef struct point {
  tn_ctx *c;
  const tn__rule *rule;
  double at[3], g;
} point;

static uint64_t bits(double v) { return tn__eval_from_double(TN_F64, v); }
static double number(uint64_t b) { return tn__eval_to_double(TN_F64, b); }

/* The op at the point, one source moved by h; a truth value counts as 0 or 1. */
static double op_at(const point *p, double h) {
  const tn__rule *r = p->rule;
  bool compares = r->op == OP_LT || r->op == OP_LE || r->op == OP_EQ || r->op == OP_NE;
  uint64_t arg[3];
  for (uint32_t k = 0; k < 3; k++) {
    double v = p->at[k] + (k == r->src ? h : 0);
    arg[k] = r->op == OP_WHERE && k == 0 ? p->at[0] > 0 : bits(v);
  }
  uint64_t v = r->op == OP_CAST ? arg[0] : tn__eval(r->op, compares ? TN_BOOL : TN_F64, TN_F64, arg);
  return compares ? (double)v : number(v);
}

static uint64_t term_at(const point *p, const tn__term *t, int *dtype) {
  uint64_t arg[3] = {0};
  int kind = TN_F64;
  *dtype = TN_F64;
  switch (t->form) {
  case TF_NUM: return bits(t->num);
  case TF_CAST_LIKE: return term_at(p, t->kid[1], dtype);
  case TF_VAR:
    if (t->slot == GRAD_OUT) return bits(op_at(p, 0));
    if (t->slot == GRAD_G) return bits(p->g);
    if (p->rule->op != OP_WHERE || t->slot != GRAD_X) return bits(p->at[t->slot]);
    *dtype = TN_BOOL;
    return p->at[0] > 0;
  default: break;
  }
  for (uint32_t i = t->nkid; i-- > 0;) arg[i] = term_at(p, t->kid[i], &kind); /* ends with kid 0's dtype */
  if (t->what == OP_WHERE) kind = TN_F64;
  bool truth = t->what == OP_LT || t->what == OP_LE || t->what == OP_EQ || t->what == OP_NE || kind == TN_BOOL;
  *dtype = truth ? TN_BOOL : TN_F64;
  return tn__eval(t->what, *dtype, kind, arg);
}

static double value_at(const point *p, const tn__term *t) {
  int dtype;
  return number(term_at(p, t, &dtype));
}

static double row_at(const point *p) { return p->rule->rhs ? value_at(p, p->rule->rhs) : 0; }

/* ---- clauses ----------------------------------------------------------------------------------------------------- */

static bool condition_at(const point *p, const tn__cond *d) {
  const double close = 1e-9; /* pi/2 is not quite a double */
  double a = value_at(p, d->arg[0]), b = d->kind <= TC_GE ? value_at(p, d->arg[1]) : 0;
  switch (d->kind) {
  case TC_LT: return a < b - close;
  case TC_LE: return a <= b;
  case TC_GT: return a > b + close;
  case TC_GE: return a >= b;
  case TC_EQ: return fabs(a - b) <= close;
  case TC_NE: return fabs(a - b) > close;
  case TC_WHOLE: return fabs(a - rint(a)) <= close;
  default: return isfinite(a) && fabs(a - rint(a)) > close;
  }
}

static bool near(double a, double b) {
  return isfinite(a) && isfinite(b) && fabs(a - b) <= 1e-4 * (1 + fabs(a) + fabs(b));
}

/* Does the row hold at the point, on a clause that is a kink or not? */
static bool holds_at(const point *p, bool kink, slope_witness *w) {
  const double h = 1e-6;
  double f = op_at(p, 0);
  *w = (slope_witness){.at = {p->at[0], p->at[1], p->at[2]}, .g = p->g, .row = row_at(p)};
  w->left = p->g * (f - op_at(p, -h)) / h;
  w->right = p->g * (op_at(p, h) - f) / h;
  if (!kink) return near(w->row, w->left) && near(w->row, w->right);
  double lo = fmin(w->left, w->right), hi = fmax(w->left, w->right);
  return lo < hi - 1e-4 && lo - 1e-6 <= w->row && w->row <= hi + 1e-6;
}

static const double grid[] = {-3, -2.5, -2, -1.25, -1, -0.7, -0.5, 0, 0.3, 0.5, 1, 1.5, 1.5707963267948966, 2, 2.75, 3};
enum { GRID = sizeof grid / sizeof *grid };

static bool inside(const point *p, const tn__rule *r, const tn__clause *q) {
  for (uint32_t j = 0; q && j < q->n; j++)
    if (!condition_at(p, &r->cond[q->first + j])) return false;
  return true;
}

static bool inside_one(const point *p, const tn__rule *r) {
  for (uint32_t i = 0; i < r->nclause; i++)
    if (inside(p, r, &r->clause[i])) return true;
  return false;
}

/* To one side of the point, along one source, there is no slope: quotients grow without bound, or there is no value. */
static bool steep(point p, uint32_t source) {
  tn__rule along = *p.rule;
  along.src = source;
  p.rule = &along;
  for (double side = -1; side < 2; side += 2) {
    double far = fabs(op_at(&p, side * 1e-3) - op_at(&p, 0)) / 1e-3,
           close = fabs(op_at(&p, side * 1e-7) - op_at(&p, 0)) / 1e-7;
    if (!isfinite(far) || !isfinite(close) || close > 5 * far + 1) return true;
  }
  return false;
}

static bool bare_at(const point *p, slope_witness *w) {
  *w = (slope_witness){.at = {p->at[0], p->at[1], p->at[2]}, .g = p->g};
  for (uint32_t k = 0; k < tn__ops[p->rule->op].max_src; k++)
    if (steep(*p, k)) return true;
  return false;
}

static void try_clause(tn_ctx *c, const tn__rule *r, uint32_t number_, const tn__clause *q, slope_verdict *v) {
  uint32_t n = tn__ops[r->op].max_src, points = 0, total = 1;
  for (uint32_t k = 0; k < n; k++) total *= GRID;
  for (uint32_t i = 0; i < total; i++) {
    point p = {.c = c, .rule = r, .g = i % 2 ? 1 : -2};
    for (uint32_t k = 0, rest = i; k < n; k++, rest /= GRID) p.at[k] = grid[rest % GRID];
    if (!inside(&p, r, q)) continue;
    slope_witness w;
    points++;
    bool held = q && q->bare ? bare_at(&p, &w) : holds_at(&p, q && q->kink, &w);
    if (v->held && !held) v->held = false, v->witness = w, v->witness.clause = number_;
  }
  v->points += points;
  v->empty += !points;
}

/* Where the op is defined, as the table says it, some clause of the row holds; and the op has values there and nowhere
 * else. */
static void try_cover(tn_ctx *c, const tn__rule *r, slope_verdict *v) {
  const tn__rule *defined = tn__rules_get(c, "gradient")->defined[r->op];
  uint32_t n = tn__ops[r->op].max_src, total = 1;
  for (uint32_t k = 0; k < n; k++) total *= GRID;
  for (uint32_t i = 0; i < total && v->held; i++) {
    point p = {.c = c, .rule = r, .g = 1};
    for (uint32_t k = 0, rest = i; k < n; k++, rest /= GRID) p.at[k] = grid[rest % GRID];
    bool there = !defined || inside_one(&p, defined), value = isfinite(op_at(&p, 0));
    bool pole = there != value && r->op == OP_TAN; /* pi/2 is not quite a double */
    if ((there && !inside_one(&p, r)) || (there != value && !pole))
      *v = (slope_verdict){.witness = {.at = {p.at[0], p.at[1], p.at[2]}, .clause = r->nclause}};
  }
}

slope_verdict slope_try(tn_ctx *c, const tn__rule *r) {
  slope_verdict v = {.held = true};
  uint32_t plain = 0;
  for (uint32_t i = 0; i < r->nclause; i++) {
    plain += !r->clause[i].kink && !r->clause[i].bare;
    try_clause(c, r, i, &r->clause[i], &v);
  }
  if (!plain) try_clause(c, r, r->nclause, NULL, &v);
  else try_cover(c, r, &v);
  return v;
}

/* ---- boxes ------------------------------------------------------------------------------------------------------- */

enum { STEPS = 5 }; /* points of a box, along each source */

typedef struct box {
  point at[STEPS * STEPS];
  uint32_t n;
} box;

/* Which side of a condition's border the point is on: +-1, +-2, ...; 0 on it or close. */
static int64_t side_of(const point *p, const tn__cond *d) {
  const double margin = 0.1;
  double a = value_at(p, d->arg[0]), by = d->kind <= TC_GE ? a - value_at(p, d->arg[1]) : a - rint(a);
  if (!(fabs(by) >= margin)) return 0;
  return d->kind <= TC_GE ? (by < 0 ? -1 : 1) : 1 + (int64_t)fabs(floor(a)) * 2 + (a < 0);
}

/* Does the condition hold on the whole box, on one side of its border? */
static bool holds_on(const box *b, const tn__cond *d) {
  int64_t side = side_of(&b->at[0], d);
  if (!side || d->kind == TC_EQ || d->kind == TC_WHOLE) return false;
  for (uint32_t i = 0; i < b->n; i++)
    if (side_of(&b->at[i], d) != side || !condition_at(&b->at[i], d)) return false;
  return true;
}

static bool is_smooth(box *b, const tn__rule *r) {
  uint32_t plain = 0;
  for (uint32_t i = 0; i < b->n; i++) b->at[i].rule = r;
  for (uint32_t i = 0; i < r->nclause; i++) {
    const tn__clause *q = &r->clause[i];
    uint32_t held = 0;
    if (q->kink || q->bare) continue;
    plain++;
    while (held < q->n && holds_on(b, &r->cond[q->first + held])) held++;
    if (held == q->n) return true;
  }
  return !plain;
}

static double roll(uint64_t *seed, double lo, double hi) {
  *seed = tn__hash_mix(*seed, 77);
  return lo + (hi - lo) * (double)(*seed >> 11) / 9007199254740992.0;
}

bool slope_box(tn_ctx *c, int op, uint64_t *seed, double *lo, double *hi) {
  const tn__ruleset *table = tn__rules_get(c, "gradient");
  uint32_t n = tn__ops[op].max_src;
  for (int attempt = 0; attempt < 1000; attempt++) {
    box b = {.n = n == 1 ? STEPS : STEPS * STEPS};
    bool smooth = true;
    for (uint32_t k = 0; k < n; k++) {
      lo[k] = roll(seed, -3.5, 3);
      hi[k] = lo[k] + roll(seed, 0.1, 0.5);
    }
    for (uint32_t i = 0; i < b.n; i++) {
      b.at[i] = (point){.c = c, .g = 1};
      for (uint32_t k = 0, rest = i; k < n; k++, rest /= STEPS)
        b.at[i].at[k] = lo[k] + (hi[k] - lo[k]) * (rest % STEPS) / (STEPS - 1);
    }
    for (uint32_t i = 0; i < table->n && smooth; i++)
      if (table->rule[i].op == op) smooth = is_smooth(&b, &table->rule[i]);
    if (smooth) return true;
  }
  return false;
}

/* ---- mistakes ---------------------------------------------------------------------------------------------------- */

typedef struct breeding {
  tn__arena *a;
  tn__vec(tn__rule) rule;
  tn__vec(const char *) what;
} breeding;

static tn__rule *born(breeding *b, const tn__rule *r, const char *what, const char *detail) {
  char text[80];
  snprintf(text, sizeof text, detail ? "%s %s" : "%s", what, detail);
  tn__vec_push(b->a, &b->rule, *r);
  tn__vec_push(b->a, &b->what, (const char *)tn__arena_strdup(b->a, text));
  return &b->rule.v[b->rule.n - 1];
}

static tn__term *leaf(breeding *b, tn__form form, uint32_t slot, double num) {
  tn__term t = {.form = (uint8_t)form, .slot = (uint8_t)slot, .num = num, .whole = true, .inum = (int64_t)num};
  return tn__arena_dup(b->a, &t, sizeof t);
}

static tn__term *node(breeding *b, int op, tn__term *x, tn__term *y) {
  return tn__arena_dup(b->a, &(tn__term){.form = TF_OP, .what = (uint8_t)op, .nkid = y ? 2 : 1, .kid = {x, y}},
                       sizeof(tn__term));
}

static void wrong_values(breeding *b, const tn__rule *r) {
  if (!r->rhs) {
    tn__rule *m = born(b, r, "g for zero", NULL);
    m->verdict = TV_GRAD, m->rhs = leaf(b, TF_VAR, GRAD_G, 0);
    return;
  }
  born(b, r, "sign", NULL)->rhs = node(b, OP_NEG, r->rhs, NULL);
  born(b, r, "factor 2", NULL)->rhs = node(b, OP_MUL, leaf(b, TF_NUM, 0, 2), r->rhs);
  born(b, r, "plus 1", NULL)->rhs = node(b, OP_ADD, r->rhs, leaf(b, TF_NUM, 0, 1));
  tn__rule *m = born(b, r, "zero", NULL);
  m->verdict = TV_ZERO, m->rhs = NULL;
}

/* A copy of the template in which two kids of `at` have changed places. */
static tn__term *swapped(breeding *b, const tn__term *t, const tn__term *at, uint32_t i) {
  tn__term *copy = tn__arena_dup(b->a, t, sizeof *t);
  for (uint32_t k = 0; k < t->nkid; k++) copy->kid[k] = swapped(b, t->kid[k], at, i);
  if (t == at) {
    tn__term *first = copy->kid[i];
    copy->kid[i] = copy->kid[i + 1];
    copy->kid[i + 1] = first;
  }
  return copy;
}

static void wrong_orders(breeding *b, const tn__rule *r, const tn__term *t) {
  if (!t) return;
  if (t->form == TF_OP && t->what == OP_WHERE) born(b, r, "other branch", NULL)->rhs = swapped(b, r->rhs, t, 1);
  else if (t->form == TF_OP && t->nkid == 2 && !(tn__ops[t->what].comm & TN__C_FLOAT) &&
           !(tn__ops[t->what].comm & TN__C_BOOL) && t->what != OP_HYPOT) /* symmetric, though no claim says so */
    born(b, r, "operands swapped of", tn__ops[t->what].text)->rhs = swapped(b, r->rhs, t, 0);
  for (uint32_t k = 0; k < t->nkid; k++) wrong_orders(b, r, t->kid[k]);
}

static void lose_clause(breeding *b, const tn__rule *r, uint32_t i, const char *text) {
  tn__rule *m = born(b, r, "lost: clause", text);
  m->clause[i] = m->clause[--m->nclause];
}

/* The bounds of clause i one farther in, each by itself. */
static void narrow(breeding *b, const tn__rule *r, uint32_t i) {
  char text[40];
  for (uint32_t j = r->clause[i].first; j < r->clause[i].first + r->clause[i].n; j++) {
    const tn__cond *d = &r->cond[j];
    if (d->kind > TC_GE || d->arg[1]->form != TF_NUM) continue;
    double by = d->kind == TC_LT || d->kind == TC_LE ? -1 : 1;
    snprintf(text, sizeof text, "%u of clause %u", j - r->clause[i].first + 1, i + 1);
    born(b, r, "narrowed: bound", text)->cond[j].arg[1] = leaf(b, TF_NUM, 0, d->arg[1]->num + by);
  }
}

static void wrong_clauses(breeding *b, const tn__rule *r) {
  char text[40];
  for (uint32_t i = 0; i < r->nclause; i++) {
    tn__clause q = r->clause[i];
    snprintf(text, sizeof text, "%u", i + 1);
    lose_clause(b, r, i, text);
    narrow(b, r, i);
    for (uint32_t j = 0; j < q.n; j++) {
      snprintf(text, sizeof text, "%u of clause %u", j + 1, i + 1);
      if (q.bare) continue; /* more points of which nothing is said: seen in numbers, but no false theorem */
      /* What is said of copysign by x at y = 0 is true of every y: the clause is there to cover the rest. */
      if (r->op == OP_COPYSIGN && r->src == 0 && q.n == 2 && j == 1) continue;
      tn__rule *m = born(b, r, "dropped: condition", text);
      if (--m->clause[i].n > j) m->cond[q.first + j] = r->cond[q.first + q.n - 1];
    }
    if (q.kink) born(b, r, "kink included", NULL)->clause[i].kink = false;
  }
}

uint32_t slope_mutants(tn__arena *a, const tn__rule *r, tn__rule **out, const char *const **what) {
  breeding b = {.a = a};
  wrong_values(&b, r);
  wrong_orders(&b, r, r->rhs);
  wrong_clauses(&b, r);
  *out = b.rule.v;
  *what = b.what.v;
  return b.rule.n;
}
