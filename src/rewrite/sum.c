#include "rewrite/sum.h"
#include "ir/build.h"

enum { MAX_ATOMS = 16, MAX_REPLACED = 16 };

bool tn__sum_read(tn_node *n, tn__sum *s) {
  if (n->dtype != TN__INDEX || n->rank) return false;
  s->n = 0;
  s->k0 = 0;
  for (bool more = true; more;) {
    more = n->op == OP_ADD;
    tn_node *t = more ? n->src[1] : n;
    int64_t k = 1;
    if (tn__const_int(t, &k)) s->k0 = k; /* at most one, the last */
    else {
      if (s->n == TN__MAX_TERMS) return false;
      if (t->op == OP_MUL && tn__const_int(t->src[1], &k)) t = t->src[0];
      s->term[s->n].k = k;
      s->term[s->n++].t = t;
    }
    n = more ? n->src[0] : n;
  }
  for (uint32_t i = 0, j = s->n; i + 1 < j; i++, j--) {
    __typeof__(s->term[0]) t = s->term[i];
    s->term[i] = s->term[j - 1];
    s->term[j - 1] = t;
  }
  return true;
}

tn_node *tn__sum_write(tn_ctx *c, const tn__sum *s) {
  tn_node *sum = NULL;
  for (uint32_t i = 0; i < s->n; i++) {
    tn_node *t = s->term[i].k == 1 ? s->term[i].t : tn__mul(c, s->term[i].t, tn__int(c, s->term[i].k));
    sum = sum ? tn__add(c, sum, t) : t;
  }
  return sum ? tn__add(c, sum, tn__int(c, s->k0)) : tn__int(c, s->k0);
}

static void push(tn__sum *s, int64_t k, tn_node *t) {
  s->term[s->n].k = k;
  s->term[s->n++].t = t;
}

static int64_t floor_mod(int64_t a, int64_t d) { return (a % d + d) % d; } /* d > 0 */

bool tn__sum_split_const(tn_ctx *c, const tn__sum *s, int64_t d, bool all, tn_node **q, tn_node **r) {
  if (d <= 0 || d > INT64_MAX / 2) return false;
  tn__sum a = {.n = 0}, b = {.n = 0};
  for (uint32_t i = 0; i < s->n; i++) {
    int64_t k = s->term[i].k, rest = all || k % d == 0 ? k % d : k;
    if (k != rest) push(&a, (k - rest) / d, s->term[i].t);
    if (rest) push(&b, rest, s->term[i].t);
  }
  b.k0 = floor_mod(s->k0, d);
  a.k0 = s->k0 / d - (s->k0 % d < 0);
  if (!a.n && !a.k0) return false;
  *q = tn__sum_write(c, &a);
  *r = tn__sum_write(c, &b);
  return true;
}

/* A divisor that is no constant: the constructors' exact division decides term by term. */
static bool split_symbolic(tn_ctx *c, const tn__sum *s, tn_node *d, tn_node **q, tn_node **r) {
  if (d->lo <= 0 && d->hi >= 0) return false;
  tn__sum a = {.n = 0}, b = {.k0 = s->k0};
  for (uint32_t i = 0; i < s->n; i++) {
    tn_node *t = tn__mul(c, s->term[i].t, tn__int(c, s->term[i].k)), *x = tn__op2(c, OP_IDIV, t, d);
    if (x->op == OP_IDIV && x->src[0] == t && x->src[1] == d) push(&b, s->term[i].k, s->term[i].t);
    else push(&a, 1, x);
  }
  if (!a.n) return false;
  *q = tn__sum_write(c, &a);
  *r = tn__sum_write(c, &b);
  return true;
}

bool tn__sum_split(tn_ctx *c, tn_node *n, tn_node *d, bool all, tn_node **q, tn_node **r) {
  tn__sum s;
  int64_t k;
  if (!tn__sum_read(n, &s)) return false;
  if (tn__const_int(d, &k)) return tn__sum_split_const(c, &s, k, all, q, r);
  return d->dtype == TN__INDEX && split_symbolic(c, &s, d, q, r);
}

/* ---- bounds ---- */

static uint32_t read_atoms(tn_node *p, tn_node **atom) {
  uint32_t n = 0;
  for (; p->op == OP_MUL && n + 1 < MAX_ATOMS; p = p->src[0]) atom[n++] = p->src[1];
  atom[n++] = p;
  return n;
}

static bool symbolic_range(const tn_node *a) { return a->op == OP_RANGE && !tn__is_const(a->src[0]); }

/* The first range in term t whose extent is no constant, replaced by its greatest value; NULL if there is none, or if
 * the cofactor may be negative, so that the greatest range would not give the greatest product. */
static tn_node *at_greatest(tn_ctx *c, tn_node *t) {
  tn_node *atom[MAX_ATOMS], *cofactor = tn__int(c, 1), *last = NULL;
  uint32_t n = read_atoms(t, atom);
  for (uint32_t i = 0; i < n; i++)
    if (!last && symbolic_range(atom[i])) last = tn__add(c, atom[i]->src[0], tn__int(c, -1));
    else cofactor = tn__mul(c, cofactor, atom[i]);
  return last && cofactor->lo >= 0 ? tn__mul(c, last, cofactor) : NULL;
}

/* A lower bound of d: ranges with negative coefficients stand at extent - 1, and the rest may cancel then. */
static bool at_least(tn_ctx *c, tn_node *d, int64_t bound) {
  for (int step = 0; step < MAX_REPLACED; step++) {
    tn__sum s;
    if (d->lo >= bound) return true;
    if (!tn__sum_read(d, &s)) return false;
    tn_node *next = NULL;
    for (uint32_t i = 0; i < s.n && !next; i++) {
      tn_node *most = s.term[i].k < 0 ? at_greatest(c, s.term[i].t) : NULL;
      if (!most) continue;
      int64_t k = s.term[i].k;
      s.term[i].k = 0;
      next = tn__add(c, tn__sum_write(c, &s), tn__mul(c, most, tn__int(c, k)));
    }
    if (!next) return false;
    d = next;
  }
  return false;
}

static bool has_symbolic_range(tn_node *n) {
  tn_node *atom[MAX_ATOMS];
  for (bool more = true; more; n = n->src[0]) {
    more = n->op == OP_ADD;
    for (uint32_t i = read_atoms(more ? n->src[1] : n, atom); i && i--;)
      if (symbolic_range(atom[i])) return true;
    if (!more) return false;
  }
  return false;
}

bool tn__sum_below(tn_ctx *c, tn_node *a, tn_node *b, int64_t slack) {
  int64_t least;
  if (a->dtype != TN__INDEX || b->dtype != TN__INDEX) return false;
  if (!__builtin_add_overflow(a->hi, slack, &least) && least <= b->lo) return true;
  if (tn__may_wrap(a) || tn__may_wrap(b)) return false;
  if (a->rank || b->rank || (a->hi == INT64_MAX && b->lo == INT64_MIN)) return false;
  /* Against a constant the interval says all, unless a range is bounded by another variable. */
  if ((tn__is_const(a) || tn__is_const(b)) && !has_symbolic_range(a) && !has_symbolic_range(b)) return false;
  return at_least(c, tn__sub(c, b, a), slack);
}
