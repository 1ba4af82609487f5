/* Stores beside reductions: a kernel that reduces over a row may also store the row's elements, in the loop of the
 * reduction.  That loop then closes both, which works if both nest alike: the reduction stands in exactly the loops the
 * store has around it.  Where they do not (a reduction whose value turned out not to depend on an outer loop; two
 * reductions side by side over the axes of one store), the store gets loops of its own. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

static uint64_t reduce_ranges(const tn__ranges *r) {
  uint64_t set = 0;
  for (uint32_t j = 0; j < r->n; j++)
    if (r->range[j]->ints[0] == AX_REDUCE) set |= 1ull << j;
  return set;
}

/* own(x) inside of y's loops, or y's inside of x's, or the same loops */
/* a choice: no is right */
static bool ordered(const tn__ranges *r, const tn_node *x, const tn_node *y, uint64_t within) {
  uint64_t ox = tn__own_of(r, x) & within, oy = tn__own_of(r, y) & within, fx = tn__free_of(r, x) & within,
           fy = tn__free_of(r, y) & within;
  return (ox == oy && fx == fy) || (fx & (oy | fy)) == (oy | fy) || (fy & (ox | fx)) == (ox | fx);
}

/* Of the loops that x closes, are those of the row the outer ones? */
/* a choice: no is right */
static bool outermost(const tn__ranges *r, const tn_node *x, uint64_t row) {
  bool inner = false;
  for (uint32_t i = 1; i < x->nsrc; i++) {
    bool in_row = row >> tn__range_at(r, x->src[i]) & 1;
    if (in_row && inner) return false;
    inner |= !in_row;
  }
  return true;
}

/* Is it a sum over rows that stands in the rows' own loop in the end (row_sums.c)? */
/* a choice: no is right */
static bool is_held_beside(const tn__ranges *r, const tn_node *sum) {
  for (uint32_t i = 0; i < r->order.n; i++)
    if (r->order.v[i]->op == OP_STORE && r->order.v[i]->src[2] == sum && tn__is_held(r, r->order.v[i])) return true;
  return false;
}

/* a choice: no is right */
static bool nests(const tn__ranges *r, const tn_node *store, uint64_t row) {
  uint64_t around = (tn__own_of(r, store) | tn__free_of(r, store)) & ~row, closed = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *x = r->order.v[i];
    if (x->op != OP_REDUCE || !(tn__own_of(r, x) & row) || is_held_beside(r, x)) continue;
    closed |= tn__own_of(r, x) & row;
    if (!outermost(r, x, row) || (tn__free_of(r, x) & ~row) != around) return false;
    for (uint32_t k = 0; k < i; k++) {
      const tn_node *y = r->order.v[k];
      if (y->op == OP_REDUCE && (tn__own_of(r, y) & row) && !ordered(r, x, y, row)) return false;
    }
  }
  return closed == row || closed == 0;
}

/* The ranges to be renewed below the node: the set, and the loops of reductions inside them. */
static uint64_t with_inner(const tn__ranges *r, tn__arena *a, tn_node *n, uint64_t set) {
  tn__nodes below = {0};
  tn__topo(a, &n, 1, &below);
  for (uint32_t i = below.n; i && i--;) /* users first: outer reductions before those inside */
    if (below.v[i]->op == OP_REDUCE && (tn__free_of(r, below.v[i]) & set)) set |= tn__own_of(r, below.v[i]);
  return set;
}

uint32_t tn__renew_loops(tn__lowering *l, const tn__ranges *r, tn_node *const *node, uint32_t n, uint64_t set,
                         tn_node **from, tn_node **to) {
  uint32_t renewed = 0;
  uint64_t before;
  do {
    before = set;
    for (uint32_t i = 0; i < n; i++) set = with_inner(r, l->a, node[i], set);
  } while (set != before);
  for (uint32_t j = 0; j < r->n; j++) {
    if (!(set >> j & 1)) continue;
    from[renewed] = r->range[j];
    to[renewed++] = tn__fresh_range(l, r->range[j]->src[0], AX_REDUCE, ROLE_APART);
  }
  return renewed;
}

tn_node *tn__separate(tn__lowering *l, tn_node *body) {
  tn_ctx *c = l->c;
  tn__arena *a = l->a;
  tn__ranges r;
  tn__ranges_find(c, a, body, &r);
  uint64_t reduces = reduce_ranges(&r);
  tn__nodes old = {0}, new_ = {0};
  for (uint32_t i = 0; i < r.order.n; i++) {
    tn_node *x = r.order.v[i], *from[TN__MAX_RANGES], *to[TN__MAX_RANGES];
    uint64_t row = tn__own_of(&r, x) & reduces;
    if (x->op != OP_STORE || !row || nests(&r, x, row)) continue;
    uint32_t n = tn__renew_loops(l, &r, &x, 1, row, from, to);
    for (uint32_t j = 0; j < n; j++) tn__sb_printf(&l->note, " separate(%lld)", tn__id_of(from[j]));
    tn__vec_push(a, &old, x);
    tn__vec_push(a, &new_, tn__substitute(c, x, from, to, n));
  }
  return old.n ? tn__substitute(c, body, old.v, new_.v, old.n) : body;
}
