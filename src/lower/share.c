/* Which loops threads share out, on devices without groups: one that all of a part's stores stand in.  What stands
 * outside of it each slice computes anew.
 *
 *   once(a)         stores of little work that do not stand in loop a do so in its first turn
 */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { LITTLE = 8 /* a share of a part's work that stores may do in one turn */ };

/* The loops that all stores and reductions stand in, whose lengths hang on no other */
static uint64_t loops_of_all(const tn__survey *p) {
  uint64_t shared = p->common;
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE) shared &= tn__free_of(&p->r, p->r.order.v[i]);
  for (uint32_t k = 0; k < p->r.n; k++)
    if (tn__free_of(&p->r, p->r.range[k]) != 1ull << k) shared &= ~(1ull << k);
  return shared;
}

/* The loops in the order in which stores go through memory; how many */
static uint32_t in_order(const tn__survey *p, uint64_t set, tn_node **x) {
  uint32_t n = 0;
  for (uint32_t k = 0; k < p->r.n; k++) {
    if (!(set >> k & 1)) continue;
    uint32_t at = n++;
    for (; at && tn__id_of(x[at - 1]) > tn__id_of(p->r.range[k]); at--) x[at] = x[at - 1];
    x[at] = p->r.range[k];
  }
  return n;
}

/* The outer ones, as many as give each thread a few turns, or all that stand around `inner` */
tn_node *tn__share_out(tn__lowering *l, tn_node *body, const tn_node *inner) {
  tn_node *x[TN__MAX_RANGES], *one;
  uint32_t outer = 0;
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  uint64_t shared = loops_of_all(&p);
  int at = inner ? tn__range_at(&p.r, inner) : -1;
  if (at >= 0) shared &= ~(1ull << at);
  uint32_t n = in_order(&p, shared, x);
  for (double turns = 1; outer < n && (inner || turns < TN__PARTIALS); outer++) turns *= tn__extent(x[outer]);
  if (outer > 1) return tn__as_one(l, body, x, outer, AX_GLOBAL, &one);
  return outer ? tn__retype(l->c, body, x[0], AX_GLOBAL) : body;
}

/* Reductions of many outputs, none of whose loops is long enough for the threads */
/* a choice: either is right */
tn_node *tn__share_rows(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  uint64_t shared = loops_of_all(&p);
  double longest = 1;
  for (uint32_t k = 0; k < p.r.n; k++)
    if ((shared >> k & 1) && tn__extent(p.r.range[k]) > longest) longest = tn__extent(p.r.range[k]);
  return longest < TN__PARTIALS && tn__volume(&p, shared) >= TN__PARTIALS ? tn__share_out(l, body, NULL) : body;
}

/* ---- stores that have no loop in common ---- */

/* Of closers in what n is made of, in elements */
/* a choice: either is right */
static double work_below(tn__lowering *l, const tn__survey *p, tn_node *n) {
  tn__nodes below = {0};
  double work = 0;
  uint32_t first;
  tn__topo(l->a, &n, 1, &below);
  for (uint32_t i = 0; i < below.n; i++) {
    const tn_node *x = below.v[i];
    if (tn__closes(x, &first)) work += tn__volume(p, tn__free_of(&p->r, x) | tn__own_of(&p->r, x));
  }
  return work;
}

/* Stores to buffers, in loops, and nothing that runs along any */
/* a choice: no is right */
static bool are_plain_stores(const tn__survey *p, const tn_node *part) {
  for (uint32_t i = 0; i < part->nsrc; i++)
    if (part->src[i]->op != OP_STORE) return false;
  return p->reduces && !p->running;
}

/* The longest loop of outputs, which has a turn, that all stores stand in which do more than a little; NULL */
/* a choice: no is right */
static tn_node *loop_of_much(tn__lowering *l, const tn__survey *p, tn_node *part) {
  double all = work_below(l, p, part);
  uint64_t set = p->outputs;
  tn_node *longest = NULL;
  for (uint32_t i = 0; i < part->nsrc; i++)
    if (work_below(l, p, part->src[i]) * LITTLE > all) set &= tn__own_of(&p->r, part->src[i]);
  for (uint32_t k = 0; k < p->r.n; k++) {
    tn_node *x = p->r.range[k];
    bool even = tn__free_of(&p->r, x) == 1ull << k && !tn__bounds_loops(&p->r, k) && x->src[0]->lo > 0;
    if ((set >> k & 1) && even && (!longest || tn__extent(x) > tn__extent(longest))) longest = x;
  }
  return longest;
}

/* The store in the first turn of loop x alone */
static tn_node *in_first_turn(tn_ctx *c, const tn_node *store, tn_node *x) {
  tn_node *src[TN__MAX_RANGES + 5], *gate = tn__gate_of(store), *is_first = tn__op2(c, OP_EQ, x, tn__int(c, 0));
  uint32_t first, m = 3;
  tn__closes(store, &first);
  for (uint32_t s = 0; s < m; s++) src[s] = store->src[s];
  src[m++] = gate ? tn__op2(c, OP_AND, gate, is_first) : is_first;
  src[m++] = x;
  for (uint32_t s = first; s < store->nsrc; s++) src[m++] = store->src[s];
  return tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = m});
}

/* Stores of little work, that stand in loops of their own or in none, in the first turn of the others' loop */
tn_node *tn__share_stores(tn__lowering *l, tn_node *part) {
  tn__survey p;
  tn__nodes old = {0}, new_ = {0};
  tn__survey_loops(l->c, l->a, part, &p);
  tn_node *x = !p.common && are_plain_stores(&p, part) ? loop_of_much(l, &p, part) : NULL;
  for (uint32_t i = 0; i < part->nsrc && x; i++) {
    uint64_t own = tn__own_of(&p.r, part->src[i]);
    if (own >> tn__range_at(&p.r, x) & 1) continue;
    if (own & ~p.outputs) return part; /* what a reduction's loop closes, too, stands where that does */
    tn__vec_push(l->a, &old, part->src[i]);
    tn__vec_push(l->a, &new_, in_first_turn(l->c, part->src[i], x));
  }
  if (x) tn__sb_printf(&l->note, " once(%lld)", tn__id_of(x));
  return tn__substitute(l->c, part, old.v, new_.v, old.n);
}
