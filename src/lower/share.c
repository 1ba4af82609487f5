/* Which loops threads share out, on devices without groups: one that all of a part's stores stand in.  What stands
 * outside of it each slice computes anew.
 *
 *   once(a)         stores of little work that do not stand in loop a do so in its first turn
 *   blocks(a)       elements are shared out by blocks, each of which computes anew what they have in common
 */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  LITTLE = 8, /* a share of the part's work that stores may do in one turn, */
  ANEW = 4,   /* and a share of the elements' work that may be repeated for each block of them */
  ENOUGH = 16, /* turns for threads: more is better, but not at every price */
  MUCH = 1 << 15 /* elements, of all that a part does: less is not worth sharing out */
};

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

/* Of closers in what n is made of, in elements; of reductions alone, or of all */
/* a choice: either is right */
static double work_below(tn__lowering *l, const tn__survey *p, tn_node *n, uint64_t around, bool reductions) {
  tn__nodes below = {0};
  double work = 0;
  uint32_t first;
  tn__topo(l->a, &n, 1, &below);
  for (uint32_t i = 0; i < below.n; i++) {
    const tn_node *x = below.v[i];
    if (!tn__closes(x, &first) || (reductions && x->op != OP_REDUCE)) continue;
    work += tn__volume(p, (tn__free_of(&p->r, x) | tn__own_of(&p->r, x)) & ~around);
  }
  return work;
}

typedef struct sharing {
  tn__lowering *l;
  tn__survey p;
  tn_node *loop[TN__MAX_RANGES]; /* to be shared out as one, outermost first */
  uint32_t n;
} sharing;

/* Stores to buffers, in loops, and nothing that runs along any */
/* a choice: no is right */
static bool are_plain_stores(const tn__survey *p, const tn_node *part) {
  if (p->running || !p->reduces) return false;
  for (uint32_t i = 0; i < part->nsrc; i++)
    if (part->src[i]->op != OP_STORE) return false;
  return true;
}

/* The output loops of all stores that do more than a little */
/* a choice: no is right */
static uint64_t loops_of_much(tn__lowering *l, const tn__survey *p, tn_node *part) {
  double all = work_below(l, p, part, 0, false);
  uint64_t set = p->outputs;
  for (uint32_t i = 0; i < part->nsrc; i++)
    if (work_below(l, p, part->src[i], 0, false) * LITTLE > all) set &= tn__own_of(&p->r, part->src[i]);
  for (uint32_t k = 0; k < p->r.n; k++)
    if (tn__free_of(&p->r, p->r.range[k]) != 1ull << k) set &= ~(1ull << k);
  return set;
}

/* Those in which reductions stand */
static uint64_t loops_of_rows(const tn__survey *p, uint64_t set) {
  uint64_t rows = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE) rows |= tn__free_of(&p->r, p->r.order.v[i]);
  return rows & set;
}

/* Does each store that does not stand in these loops close output loops only? */
static bool may_be_gated(const tn__survey *p, const tn_node *part, uint64_t set) {
  for (uint32_t i = 0; i < part->nsrc; i++) {
    uint64_t own = tn__own_of(&p->r, part->src[i]);
    if ((own & set) != set && (own & ~p->outputs)) return false;
  }
  return true;
}

/* The first turn alone of the loops that a store does not stand in, in all others */
static tn_node *store_once(const sharing *s, tn_node *part) {
  tn_ctx *c = s->l->c;
  tn__nodes old = {0}, new_ = {0};
  for (uint32_t i = 0; i < part->nsrc; i++) {
    tn_node *x = part->src[i], *gate = tn__gate_of(x), *src[2 * TN__MAX_RANGES + 4], *own[TN__MAX_RANGES];
    uint32_t first, m = 3, n = 0;
    tn__closes(x, &first);
    for (uint32_t k = 0; k < s->n; k++) {
      bool stands = false;
      for (uint32_t j = first; j < x->nsrc; j++) stands |= x->src[j] == s->loop[k];
      if (stands) continue;
      tn_node *is_first = tn__op2(c, OP_EQ, s->loop[k], tn__int(c, 0));
      gate = gate ? tn__op2(c, OP_AND, gate, is_first) : is_first;
      own[n++] = s->loop[k];
    }
    if (!n) continue;
    for (uint32_t k = 0; k < m; k++) src[k] = x->src[k];
    src[m++] = gate;
    for (uint32_t k = 0; k < n; k++) src[m++] = own[k];
    for (uint32_t k = first; k < x->nsrc; k++) src[m++] = x->src[k];
    tn__vec_push(s->l->a, &old, x);
    tn__vec_push(s->l->a, &new_, tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = m}));
  }
  return tn__substitute(c, part, old.v, new_.v, old.n);
}

/* Adds a loop of elements, or blocks of it, for `want` turns; how many they are */
static double take_elements(sharing *s, tn_node **part, tn_node *x, double want) {
  int64_t turn = s->l->target->lane_bytes / (int64_t)sizeof(float), by = (int64_t)(tn__extent(x) / want);
  tn_node *cut[2] = {x};
  if (by >= turn) by = (by + turn - 1) / turn * turn;
  if (by > 1) {
    tn__sb_printf(&s->l->note, " blocks(%lld)", tn__id_of(x));
    *part = tn__cut(s->l, *part, x, by, AX_LOOP, AX_LOOP, cut);
  }
  s->loop[s->n++] = cut[0];
  return tn__extent(cut[0]);
}

/* Loops of rows, and then of elements, up to turns enough.  A block of elements is worth computing anew what it has in
 * common with others. */
static tn_node *take_blocks(sharing *s, tn_node *part, uint64_t rows, uint64_t elements) {
  tn_node *x[TN__MAX_RANGES];
  double sums = work_below(s->l, &s->p, part, rows, true),
         most = (work_below(s->l, &s->p, part, rows, false) - sums) / (ANEW * sums + 1),
         want = TN__PARTIALS / tn__volume(&s->p, rows);
  if (most < want) want = most;
  if (want < 2) return part;
  s->n = in_order(&s->p, rows, s->loop);
  uint32_t n = in_order(&s->p, elements, x);
  for (uint32_t i = 0; i < n && want >= 2; i++) want /= take_elements(s, &part, x[i], want);
  return part;
}

/* The longest of loops of rows, for stores to stand in that do not stand in all of these */
static void take_rows(sharing *s, uint64_t rows) {
  tn_node *x[TN__MAX_RANGES];
  uint32_t n = in_order(&s->p, rows, x), longest = 0;
  for (uint32_t i = 1; i < n; i++)
    if (tn__extent(x[i]) > tn__extent(x[longest])) longest = i;
  if (!n || !(rows & ~s->p.common)) return;
  tn__sb_printf(&s->l->note, " once(%lld)", tn__id_of(x[longest]));
  s->loop[s->n++] = x[longest];
}

/* A loop that all stores stand in, where there is none, or one of few turns */
tn_node *tn__share_stores(tn__lowering *l, tn_node *part) {
  sharing s = {.l = l};
  tn_node *one;
  tn__survey_loops(l->c, l->a, part, &s.p);
  if (!are_plain_stores(&s.p, part) || work_below(l, &s.p, part, 0, false) < MUCH) return part;
  uint64_t all = loops_of_much(l, &s.p, part), rows = loops_of_rows(&s.p, all), elements = all & ~rows;
  if (tn__volume(&s.p, s.p.common & rows) >= ENOUGH || !may_be_gated(&s.p, part, all)) return part;
  tn_node *blocks = tn__volume(&s.p, rows) < ENOUGH ? take_blocks(&s, part, rows, elements) : part;
  if (!s.n) take_rows(&s, rows);
  if (blocks == part) return s.n ? store_once(&s, part) : part;
  blocks = store_once(&s, blocks);
  return s.n > 1 ? tn__as_one(l, blocks, s.loop, s.n, AX_GLOBAL, &one)
                 : tn__retype(l->c, blocks, s.loop[0], AX_GLOBAL);
}
