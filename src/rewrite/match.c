/* Matching by backtracking over a list of goals, "this term must match that node".  A goal that can be met in several
 * ways (either order of a commutative op, any term of a sum) tries each with all goals after it, and the conditions
 * come last.  The recursion is as deep as the pattern is large; the graph's depth does not matter. */
#include "rewrite/match.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "rewrite/sum.h"
#include <math.h>
#include <string.h>

typedef struct goal {
  const tn__term *t;
  tn_node *n;
  const struct goal *next;
} goal;

static bool solve(tn__match *m, const goal *g);

tn_node *tn__splat(tn_node *n) {
  while (n->op == OP_RESHAPE || n->op == OP_EXPAND) n = n->src[0];
  return n->op == OP_CONST ? n : NULL;
}

/* ---- integers and conditions ---- */

bool tn__match_int(const tn__match *m, const tn__term *t, int64_t *v) {
  if (t->form == TF_NUM) return *v = t->inum, t->whole;
  if (t->form == TF_VAR) {
    tn_node *n = m->bound[t->slot] ? tn__splat(m->bound[t->slot]) : NULL;
    return n && tn__const_int(n, v);
  }
  if (t->form != TF_FN) return false;
  if (t->what == FN_LO || t->what == FN_HI) {
    tn_node *n = t->kid[0]->form == TF_VAR ? m->bound[t->kid[0]->slot] : NULL;
    if (!n || !tn__is_int(n->dtype)) return false;
    *v = t->what == FN_LO ? n->lo : n->hi;
    return *v != INT64_MIN && *v != INT64_MAX; /* those stand for "not known" */
  }
  int64_t a = 0, b = 0;
  for (int i = 0; i < t->nkid; i++)
    if (!tn__match_int(m, t->kid[i], i ? &b : &a)) return false;
  return tn__table_fn((tn__fn)t->what, a, b, v);
}

/* An operand of a comparison as a node. */
static tn_node *operand(tn__match *m, const tn__term *t) {
  int64_t v;
  if (t->form == TF_VAR && m->bound[t->slot]->op != OP_CONST) return m->bound[t->slot];
  return tn__match_int(m, t, &v) ? tn__int(m->c, v) : NULL;
}

static bool compare_ints(tn__cond_kind kind, int64_t a, int64_t b) {
  switch (kind) {
  case TC_LT: return a < b;
  case TC_LE: return a <= b;
  case TC_EQ: return a == b;
  case TC_NE: return a != b;
  case TC_GT: return a > b;
  default: return a >= b;
  }
}

/* Conditions between terms are about integers without bounds: what stands in them is of dtype index. */
static bool of_index(const tn__match *m, const tn__term *t) {
  if (t->form == TF_VAR) return m->bound[t->slot]->dtype == TN__INDEX;
  for (int i = 0; i < t->nkid; i++)
    if (!of_index(m, t->kid[i])) return false;
  return true;
}

static bool compare(tn__match *m, const tn__cond *d) {
  int64_t x, y;
  if (tn__table_about_index(d) && !(of_index(m, d->arg[0]) && of_index(m, d->arg[1]))) return false;
  if (tn__match_int(m, d->arg[0], &x) && tn__match_int(m, d->arg[1], &y)) return compare_ints(d->kind, x, y);
  tn_node *a = operand(m, d->arg[0]), *b = operand(m, d->arg[1]);
  if (!a || !b) return false;
  switch (d->kind) {
  case TC_LT: return tn__sum_below(m->c, a, b, 1);
  case TC_LE: return tn__sum_below(m->c, a, b, 0);
  case TC_GT: return tn__sum_below(m->c, b, a, 1);
  case TC_GE: return tn__sum_below(m->c, b, a, 0);
  case TC_NE: return tn__sum_below(m->c, a, b, 1) || tn__sum_below(m->c, b, a, 1);
  default: return a == b;
  }
}

static tn__argval argval(const tn__match *m, const tn__term *t) { return tn__argval_of(m->bound[t->slot]); }

static bool holds(tn__match *m, const tn__cond *d) {
  int64_t a, b;
  const tn_node *x;
  tn__argval s, t = {0};
  switch (d->kind) {
  case TC_DIVIDES:
    return of_index(m, d->arg[0]) && of_index(m, d->arg[1]) && tn__match_int(m, d->arg[0], &a) &&
           tn__match_int(m, d->arg[1], &b) && a != 0 && a != -1 && b % a == 0;
  case TC_EXACT_CAST: return tn__table_exact_cast(m->bound[d->arg[0]->slot]->dtype, m->bound[d->arg[1]->slot]->dtype);
  case TC_FITS: return true; /* seen when the right side is built */
  case TC_SAME_SHAPE:
    x = m->bound[d->arg[0]->slot];
    return x->rank == m->root->rank && tn__dims_equal(m->c, x->dim, m->root->dim, x->rank);
  case TC_IDENTITY:
  case TC_ZEROS:
  case TC_EMPTY:
  case TC_UNDOES:
    s = argval(m, d->arg[0]);
    if (d->kind == TC_UNDOES) t = argval(m, d->arg[1]);
    return tn__argpred(d->kind, &s, &t, d->kind == TC_UNDOES ? m->bound[d->arg[2]->slot] : NULL);
  default: return compare(m, d);
  }
}

/* ---- patterns ---- */

static bool same(const tn__match *m, int slot, tn_node *a, tn_node *b) {
  return a == b || (m->rule->is_const[slot] && tn__splat(a) == tn__splat(b));
}

/* Binds, solves the rest, and takes the binding back if that fails. */
static bool bind(tn__match *m, const tn__term *var, tn_node *n, const goal *rest) {
  int slot = var->slot;
  if (m->bound[slot]) return same(m, slot, m->bound[slot], n) && solve(m, rest);
  if (m->rule->is_const[slot] && !tn__splat(n)) return false;
  if (!tn__table_class_ok(m->rule->cls[slot], n->dtype)) return false;
  m->bound[slot] = n;
  if (solve(m, rest)) return true;
  m->bound[slot] = NULL;
  return false;
}

static bool is_number(const tn__term *num, tn_node *n) {
  n = tn__splat(n);
  if (!n || n->dtype == TN__VOID) return false;
  uint64_t bits;
  if (isnan(num->num)) return tn__is_float(n->dtype) && isnan(tn__eval_to_double(n->dtype, (uint64_t)n->ints[0]));
  return tn__table_bits(num, n->dtype, &bits) && (uint64_t)n->ints[0] == bits;
}

static bool is_sum_form(const tn__term *t) { return t->form >= TF_SPLIT && t->form <= TF_PICK; }

/* The sources as goals, sum forms last: their divisors are bound by then. */
static bool solve_kids(tn__match *m, const tn__term *t, tn_node *n, bool swap, const goal *rest) {
  goal g[3];
  uint32_t count = tn__ops[n->op].group == G_MOVE || tn__ops[n->op].group == G_REDUCE ? 1 : t->nkid;
  for (uint32_t i = 0; i < count; i++) {
    const tn_node *x = n->src[swap ? 1 - i : i];
    /* a constant has no term to pick: seen here, before the other sum is taken apart */
    if (t->kid[i]->form == TF_PICK && tn__is_const(x)) return false;
    /* the row is about the sum or product that it is over the integers */
    if (tn__table_exact_op(t->what) && t->kid[i]->form != TF_VAR && tn__may_wrap(x)) return false;
  }
  for (int late = 1; late >= 0; late--)
    for (uint32_t i = count; i && i--;)
      if (is_sum_form(t->kid[i]) == late) {
        g[i] = (goal){t->kid[i], n->src[swap ? 1 - i : i], rest};
        rest = &g[i];
      }
  return solve(m, rest);
}

static bool solve_op(tn__match *m, const tn__term *t, tn_node *n, const goal *rest) {
  if (n->op != t->what) return false;
  const tn__op_info *op = &tn__ops[n->op];
  if (op->group == G_MOVE || op->group == G_REDUCE) { /* the argument first: it always binds */
    goal x = {t->kid[0], n->src[0], rest};
    m->bound[t->kid[1]->slot] = n;
    return solve(m, &x);
  }
  if (solve_kids(m, t, n, false, rest)) return true;
  bool comm = t->nkid == 2 && (op->comm & tn__dtypes[n->src[0]->dtype].cls);
  return comm && n->src[0] != n->src[1] && solve_kids(m, t, n, true, rest);
}

static bool solve_pair(tn__match *m, const tn__term *t, tn_node *q, tn_node *r, const goal *rest) {
  goal second = {t->kid[t->nkid - 1], r, rest}, first = {t->kid[t->nkid - 2], q, &second};
  return solve(m, &first);
}

static bool solve_split(tn__match *m, const tn__term *t, tn_node *n, const goal *rest) {
  tn_node *d = operand(m, t->kid[0]), *q, *r;
  return d && tn__sum_split(m->c, n, d, t->form == TF_SPLIT_ALL, &q, &r) && solve_pair(m, t, q, r, rest);
}

static bool solve_parts(tn__match *m, const tn__term *t, tn_node *n, const goal *rest) {
  tn__sum s;
  int64_t d, g, last = INT64_MAX;
  if (!tn__match_int(m, t->kid[0], &d) || !tn__sum_read(n, &s)) return false;
  for (;; last = g) { /* the greatest divisor below the last one tried */
    g = 1;
    for (uint32_t i = 0; i < s.n; i++) {
      int64_t k;
      if (tn__table_fn(FN_GCD, s.term[i].k, d, &k) && k > g && k < last) g = k;
    }
    if (g == 1) return false;
    tn_node *q, *r;
    if (!tn__sum_split_const(m->c, &s, g, false, &q, &r)) continue;
    goal second = {t->kid[3], r, rest}, first = {t->kid[2], q, &second};
    if (bind(m, t->kid[1], tn__int(m->c, g), &first)) return true;
  }
}

static bool solve_pick(tn__match *m, const tn__term *t, tn_node *n, const goal *rest) {
  tn__sum s;
  if (!tn__sum_read(n, &s)) return false;
  for (uint32_t i = 0; i < s.n; i++) {
    int64_t k = s.term[i].k;
    tn_node *x = s.term[i].t;
    if (t->kid[1]->form == TF_OP && t->kid[1]->what != x->op) continue;
    s.term[i].k = 0;
    tn_node *r = tn__sum_write(m->c, &s);
    s.term[i].k = k;
    goal third = {t->kid[2], r, rest}, second = {t->kid[1], x, &third}, first = {t->kid[0], tn__int(m->c, k), &second};
    if (solve(m, &first)) return true;
  }
  return false;
}

static bool solve(tn__match *m, const goal *g) {
  if (!g) {
    for (uint32_t i = 0; i < m->rule->ncond; i++)
      if (!holds(m, &m->rule->cond[i])) return false;
    return true;
  }
  const tn__term *t = g->t;
  switch (t->form) {
  case TF_VAR: return bind(m, t, g->n, g->next);
  case TF_NUM: return is_number(t, g->n) && solve(m, g->next);
  case TF_OP: return solve_op(m, t, g->n, g->next);
  case TF_AS: {
    goal inner = {t->kid[1], g->n, g->next};
    return bind(m, t->kid[0], g->n, &inner);
  }
  case TF_SPLIT:
  case TF_SPLIT_ALL: return solve_split(m, t, g->n, g->next);
  case TF_PARTS: return solve_parts(m, t, g->n, g->next);
  case TF_PICK: return solve_pick(m, t, g->n, g->next);
  default: return false;
  }
}

bool tn__match_root(tn__match *m) {
  memset(m->bound, 0, sizeof m->bound);
  goal g = {m->rule->lhs, m->root, NULL};
  if (m->rule->mode == TN_MODE_FAST && !tn__is_float(m->root->dtype)) return false; /* it is proved of numbers only */
  return solve(m, &g);
}
