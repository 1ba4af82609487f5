/* Stores of elements that a sum goes through anyway: they go along in its loop, and what both are made of is loaded and
 * computed once.
 *
 *   stores(a,b)     those of loop a stand in loop b of a reduction
 *
 * As where a function's gradient is stored for each element and summed up for what was spread over an axis.  Both have
 * the same outputs around them (separate.c), so whoever has a turn of those has both already; only the order changes in
 * which a thread goes through them. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { MOST_OF = 2 /* one in so many multiply-adds and loads of the sum must be the stores' as well, at least */ };

/* A sum's loops in place of the stores' */
typedef struct pair {
  uint64_t outputs;       /* around both */
  uint64_t own, of_stores;
  tn_node *from[TN__MAX_RANGES], *to[TN__MAX_RANGES];
  uint32_t n;
} pair;

static int count(uint64_t set) { return __builtin_popcountll(set); }

static bool all_are(const tn__ranges *r, uint64_t set, int axis, tn__role role) {
  for (uint32_t k = 0; k < r->n; k++)
    if ((set >> k & 1) && (tn__axis_of(r->range[k]) != axis || tn__role_of(r->range[k]) != role)) return false;
  return true;
}

static bool is_of(const tn__ranges *r, uint64_t set, const tn_node *n) {
  return n->op == OP_RANGE && (set >> tn__range_at(r, n) & 1);
}

/* The sum's loops and the store's others, one for one */
/* a choice: no is right */
static bool match(const tn__survey *s, const tn_node *sum, const tn_node *store, pair *p) {
  const tn__ranges *r = &s->r;
  uint64_t own = tn__own_of(r, store);
  *p = (pair){.outputs = tn__free_of(r, sum), .own = tn__own_of(r, sum)};
  p->of_stores = own & ~p->outputs;
  if (tn__level_of(r, sum) != 1 || tn__level_of(r, store) != 1 || (p->outputs & ~own) || !p->outputs ||
      count(p->of_stores) != count(p->own) || !all_are(r, p->own, AX_REDUCE, ROLE_REDUCTION) ||
      !all_are(r, own, AX_LOOP, ROLE_OUTPUT))
    return false;
  for (uint32_t i = 1, k = 3; i < sum->nsrc; i++, k++) { /* of both, in the order of their axes */
    while (k < store->nsrc && !is_of(r, p->of_stores, store->src[k])) k++;
    if (k == store->nsrc || store->src[k]->src[0] != sum->src[i]->src[0]) return false;
    p->from[p->n] = store->src[k];
    p->to[p->n++] = sum->src[i];
  }
  return true;
}

/* Does nothing else close these loops, and does nothing stand in them by its length? */
/* a choice: no is right */
static bool are_alone(const tn__survey *s, const pair *p) {
  uint64_t both = p->own | p->of_stores;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    uint64_t own = tn__own_of(&s->r, n);
    if (n->op == OP_RUNNING || n->op == OP_STOREADD || n->op == OP_LOCAL) return false;
    if (!(own & both)) continue;
    if (tn__level_of(&s->r, n) != 1) return false;
    bool sum = n->op == OP_REDUCE && own == p->own && tn__free_of(&s->r, n) == p->outputs,
         store = n->op == OP_STORE && own == (p->of_stores | p->outputs);
    if (!sum && !store) return false;
  }
  for (uint32_t k = 0; k < s->r.n; k++)
    if ((both >> k & 1) && tn__bounds_loops(&s->r, k)) return false;
  return true;
}

/* What is done in all of these loops, in multiply-adds and loads */
/* a choice: either is right */
static double work_in(const tn__ranges *r, uint64_t loops) {
  double work = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    if (n->dtype == TN__INDEX || (tn__free_of(r, n) & loops) != loops) continue;
    work += n->op == OP_LOAD ? 1 : tn__ops[n->op].cost;
  }
  return work;
}

/* The stores along with the sum; NULL: they have too little in common */
/* a choice: no is right */
static tn_node *moved(tn__lowering *l, const tn__survey *s, tn_node *body, const pair *p) {
  tn__ranges r;
  tn_node *new_ = tn__simplify_accesses(l->c, l->a, tn__substitute(l->c, body, p->from, p->to, p->n));
  tn__ranges_find(l->c, l->a, new_, &r);
  uint64_t own = 0;
  for (uint32_t i = 0; i < p->n; i++) own |= 1ull << tn__range_at(&r, p->to[i]);
  double sums = work_in(&s->r, p->own), before = sums + work_in(&s->r, p->of_stores), after = work_in(&r, own);
  return (before - after) * MOST_OF >= sums ? new_ : NULL;
}

tn_node *tn__store_along(tn__lowering *l, tn_node *body) {
  tn__survey s;
  tn__survey_loops(l->c, l->a, body, &s);
  if (!s.reduces || tn__reads_results(&s)) return body;
  for (uint32_t i = 0; i < s.r.order.n; i++) {
    tn_node *sum = s.r.order.v[i];
    for (uint32_t k = 0; sum->op == OP_REDUCE && k < body->nsrc; k++) {
      pair p;
      if (body->src[k]->op != OP_STORE || !match(&s, sum, body->src[k], &p) || !are_alone(&s, &p)) continue;
      tn_node *new_ = moved(l, &s, body, &p);
      if (!new_) continue;
      for (uint32_t j = 0; j < p.n; j++)
        tn__sb_printf(&l->note, " stores(%lld,%lld)", tn__id_of(p.from[j]), tn__id_of(p.to[j]));
      return new_;
    }
  }
  return body;
}
