/* Which loops threads share out, on devices without groups: one that all of a part's stores stand in.  What stands
 * outside of it each slice computes anew.
 *
 *   once(a)         stores of little work that do not stand in loop a do so in its first turn; on all devices, if it is
 *                   the loop over blocks of the rows that they are of; of groups' threads, if it goes through rows'
 *                   elements, of which nothing is reduced
 */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  LITTLE = 8,    /* a share of a part's work that stores may do in one turn, or reductions in all of them */
  FEW_BEHIND = 4 /* elements of a row that are one thread's, whose value it then has for all of them */
};

/* The loops that all stores stand in, whose lengths hang on no other */
static uint64_t loops_of_stores(const tn__survey *p) {
  uint64_t set = p->common;
  for (uint32_t k = 0; k < p->r.n; k++)
    if (tn__free_of(&p->r, p->r.range[k]) != 1ull << k) set &= ~(1ull << k);
  return set;
}

/* Loops of the set in the order in which stores go through memory, as many as give each thread a few turns; how many.
 * They leave it. */
static uint32_t take_outer(const tn__survey *p, uint64_t *set, bool all, tn_node **x) {
  uint32_t n = 0, outer = 0;
  for (uint32_t k = 0; k < p->r.n; k++) {
    if (!(*set >> k & 1)) continue;
    uint32_t at = n++;
    for (; at && tn__id_of(x[at - 1]) > tn__id_of(p->r.range[k]); at--) x[at] = x[at - 1];
    x[at] = p->r.range[k];
  }
  for (double turns = 1; outer < n && (all || turns < TN__PARTIALS); outer++) {
    turns *= tn__extent(x[outer]);
    *set &= ~(1ull << tn__range_at(&p->r, x[outer]));
  }
  return outer;
}

/* A reduction that does not stand in all of these loops, and is more than a little work if each turn of them has it, as
 * the sums of blocks are not; NULL: there is none */
/* a choice: either is right */
static const tn_node *reduced_again(const tn__survey *p, uint64_t loops) {
  double little = tn__closed_work(p) / LITTLE;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t free = tn__free_of(&p->r, n);
    if (n->op == OP_REDUCE && (loops & ~free) && tn__volume(p, loops | free | tn__own_of(&p->r, n)) > little) return n;
  }
  return NULL;
}

/* The outer loops of a part, as many as give each thread a few turns, or all that stand around `inner` */
static uint32_t loops_to_share(const tn__survey *p, const tn_node *inner, tn_node **x) {
  uint64_t set = loops_of_stores(p);
  if (inner) set &= ~(1ull << tn__range_at(&p->r, inner));
  for (;;) {
    uint64_t left = set;
    uint32_t n = take_outer(p, &left, inner != NULL, x);
    const tn_node *again = reduced_again(p, set & ~left);
    if (!again) return n;
    set &= tn__free_of(&p->r, again);
  }
}

tn_node *tn__share_out(tn__lowering *l, tn_node *body, const tn_node *inner) {
  tn_node *x[TN__MAX_RANGES], *one;
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  uint32_t n = loops_to_share(&p, inner, x);
  if (n > 1) return tn__as_one(l, body, x, n, AX_GLOBAL, &one);
  return n ? tn__retype(l->c, body, x[0], AX_GLOBAL) : body;
}

/* Reductions of many outputs, where no loop that all stand in is long enough for the threads */
/* a choice: either is right */
tn_node *tn__share_rows(tn__lowering *l, tn_node *body) {
  tn_node *x[TN__MAX_RANGES];
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  uint64_t of_all = loops_of_stores(&p);
  double longest = 1, turns = 1;
  for (uint32_t i = 0; i < p.r.order.n; i++)
    if (p.r.order.v[i]->op == OP_REDUCE) of_all &= tn__free_of(&p.r, p.r.order.v[i]);
  for (uint32_t k = 0; k < p.r.n; k++)
    if ((of_all >> k & 1) && tn__extent(p.r.range[k]) > longest) longest = tn__extent(p.r.range[k]);
  for (uint32_t n = loops_to_share(&p, NULL, x); n; n--) turns *= tn__extent(x[n - 1]);
  return longest < TN__PARTIALS && turns >= TN__PARTIALS ? tn__share_out(l, body, NULL) : body;
}

/* a choice: either is right */
tn_node *tn__share_blocks(tn__lowering *l, tn_node *body) {
  tn__survey p;
  bool blocks = false;
  tn__survey_loops(l->c, l->a, body, &p);
  for (uint32_t k = 0; k < p.r.n; k++) {
    if (tn__axis_of(p.r.range[k]) == AX_GLOBAL) return body; /* it is shared out */
    blocks |= (p.common >> k & 1) && tn__role_of(p.r.range[k]) == ROLE_BLOCK;
  }
  return blocks ? tn__share_rows(l, body) : body;
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

/* The store in the first turn of loop x alone, around those that it has or, `inside`, within these */
static tn_node *in_first_turn(tn_ctx *c, const tn_node *store, tn_node *x, bool inside) {
  tn_node *src[TN__MAX_RANGES + 5], *gate = tn__gate_of(store), *is_first = tn__op2(c, OP_EQ, x, tn__int(c, 0));
  uint32_t first, m = 3;
  tn__closes(store, &first);
  for (uint32_t s = 0; s < m; s++) src[s] = store->src[s];
  src[m++] = gate ? tn__op2(c, OP_AND, gate, is_first) : is_first;
  if (!inside) src[m++] = x;
  for (uint32_t s = first; s < store->nsrc; s++) src[m++] = store->src[s];
  if (inside) src[m++] = x;
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
    tn__vec_push(l->a, &new_, in_first_turn(l->c, part->src[i], x, false));
  }
  if (x) tn__sb_printf(&l->note, " once(%lld)", tn__id_of(x));
  return tn__substitute(l->c, part, old.v, new_.v, old.n);
}

/* ---- rows cut into blocks ---- */

/* The loop over blocks that some of a part's stores stand in; NULL: none, or several.  *row: the loops that all of
 * these stand in. */
/* a choice: no is right */
static tn_node *block_of(const tn__survey *p, const tn_node *part, uint64_t *row) {
  tn_node *found = NULL;
  *row = 0;
  for (uint32_t k = 0; k < p->r.n; k++) {
    uint64_t common = ~0ull;
    for (uint32_t i = 0; i < part->nsrc; i++) {
      uint64_t own = tn__own_of(&p->r, part->src[i]);
      if (own >> k & 1) common &= own;
    }
    if (common == ~0ull || tn__role_of(p->r.range[k]) != ROLE_BLOCK) continue;
    if (found) return NULL;
    found = p->r.range[k];
    *row = common;
  }
  return found;
}

/* Is nothing reduced for n but what blocks have left?  Each block may do that again. */
/* a choice: no is right */
static bool sums_blocks_alone(tn__lowering *l, tn_node *n) {
  tn__nodes below = {0};
  tn__topo(l->a, &n, 1, &below);
  for (uint32_t i = 0; i < below.n; i++)
    if (below.v[i]->op == OP_REDUCE && tn__role_of(below.v[i]->src[1]) != ROLE_BLOCK_SUM) return false;
  return true;
}

tn_node *tn__store_once(tn__lowering *l, tn_node *part) {
  tn__survey p;
  tn__nodes old = {0}, new_ = {0};
  uint64_t row;
  tn__survey_loops(l->c, l->a, part, &p);
  tn_node *block = block_of(&p, part, &row);
  for (uint32_t i = 0; i < part->nsrc && block; i++) {
    tn_node *x = part->src[i];
    uint64_t own = tn__own_of(&p.r, x);
    bool within = own >> tn__range_at(&p.r, block) & 1, of_row = !(own & ~row);
    if (within || !of_row || x->op != OP_STORE || !sums_blocks_alone(l, x)) continue;
    tn__vec_push(l->a, &old, x);
    tn__vec_push(l->a, &new_, in_first_turn(l->c, x, block, false));
  }
  if (old.n) tn__sb_printf(&l->note, " once(%lld)", tn__id_of(block));
  return tn__substitute(l->c, part, old.v, new_.v, old.n);
}

/* ---- values of rows beside their elements ---- */

/* Of stores alone, the one that stands in all loops of outputs, if each of these has a turn, and none hangs on another;
 * NULL */
/* a choice: no is right */
static const tn_node *of_elements(const tn__survey *p, const tn_node *part) {
  const tn_node *all = NULL;
  for (uint32_t i = 0; i < part->nsrc; i++) {
    const tn_node *n = part->src[i];
    if (n->op != OP_STORE || (tn__own_of(&p->r, n) & ~p->outputs)) return NULL;
    if (tn__own_of(&p->r, n) == p->outputs) all = n;
  }
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((p->outputs >> k & 1) && (tn__free_of(&p->r, p->r.range[k]) != 1ull << k || p->r.range[k]->src[0]->lo <= 0))
      return NULL;
  return p->reduces || p->running ? NULL : all;
}

tn_node *tn__store_by_element(tn__lowering *l, tn_node *part) {
  tn__survey p;
  tn__nodes old = {0}, new_ = {0};
  uint32_t first;
  uint64_t once = 0;
  tn__survey_loops(l->c, l->a, part, &p);
  const tn_node *all = of_elements(&p, part);
  for (uint32_t i = 0; i < part->nsrc && all; i++) {
    tn_node *n = part->src[i];
    uint64_t others = p.outputs & ~tn__own_of(&p.r, n);
    if (tn__volume(&p, others) <= FEW_BEHIND) continue; /* a choice: either is right */
    tn__vec_push(l->a, &old, n);
    tn__closes(all, &first);
    for (uint32_t s = first; s < all->nsrc; s++)
      if (others >> tn__range_at(&p.r, all->src[s]) & 1) n = in_first_turn(l->c, n, all->src[s], true);
    tn__vec_push(l->a, &new_, n);
    once |= others;
  }
  for (uint32_t k = 0; k < p.r.n; k++)
    if (once >> k & 1) tn__sb_printf(&l->note, " once(%lld)", tn__id_of(p.r.range[k]));
  return tn__substitute(l->c, part, old.v, new_.v, old.n);
}
