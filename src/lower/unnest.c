/* The largest of what are each the largest of something is the largest of all: one reduction, for devices with work
 * groups.
 *
 * Windows of several axes whose depth is gone through apart are such, with choices between the two: what lies outside
 * of the image is a constant, and so the largest of that constant.  As two, loops run in the order in which they were
 * written, and a thread asks for neighbours in turns that lie far apart, by when their sector is no longer near.  The
 * loops of one may run in any order: as memory lies (order.c).
 *
 * Sums stay as they are: in another order they are rounded otherwise.  So do variants by which threads share a window:
 * they go along its outer loops at once as it is.  Steps noted:
 *   unnest(a,b)  the loops of two reductions, outermost first */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

/* Of a choice between a constant and something, that; NULL: it is no such choice. */
static tn_node *chosen(const tn_node *x) {
  bool first = x->op == OP_WHERE && tn__is_const(x->src[1]);
  return x->op == OP_WHERE && first != tn__is_const(x->src[2]) ? x->src[1 + first] : NULL;
}

/* Is every loop of n closed by n alone, at least once gone through, and no other's bound? */
/* a choice: no is right */
static bool has_own_loops(const tn__ranges *r, const tn_node *n) {
  uint64_t own = tn__own_of(r, n);
  for (uint32_t i = 0; i < r->order.n; i++)
    if (r->order.v[i] != n && (tn__own_of(r, r->order.v[i]) & own)) return false;
  for (uint32_t k = 0; k < r->n; k++)
    if ((own >> k & 1) && (r->range[k]->src[0]->lo < 1 || tn__bounds_loops(r, k))) return false;
  return true;
}

static bool is_used_once(const tn__ranges *r, const tn_node *x) {
  uint32_t uses = 0;
  for (uint32_t i = 0; i < r->order.n; i++)
    for (uint32_t s = 0; s < r->order.v[i]->nsrc; s++) uses += r->order.v[i]->src[s] == x;
  return uses == 1;
}

/* Of a largest, or least, n the reduction in it that is one, too, of which its values are made; NULL: there is none.
 * That hangs on each turn of n's loops: what it is made of is gone through as often as before. */
/* a choice: no is right */
static tn_node *inner_of(const tn__ranges *r, tn_node *n) {
  if (n->op != OP_REDUCE || (n->ints[0] != OP_MAX && n->ints[0] != OP_MIN)) return NULL;
  tn_node *inner = n->src[0];
  while (is_used_once(r, inner) && chosen(inner)) inner = chosen(inner);
  bool fits = inner->op == OP_REDUCE && inner->ints[0] == n->ints[0] && is_used_once(r, inner);
  bool hangs = fits && !(tn__own_of(r, n) & ~tn__free_of(r, inner));
  return hangs && has_own_loops(r, n) && has_own_loops(r, inner) ? inner : NULL;
}

static tn_node *as_one(tn__lowering *l, tn_node *outer, tn_node *inner) {
  tn_node *src[TN__MAX_RANGES + 1] = {tn__substitute(l->c, outer->src[0], &inner, &inner->src[0], 1)};
  uint32_t n = 1;
  for (int of = 0; of < 2; of++) {
    const tn_node *x = of ? inner : outer;
    for (uint32_t s = 1; s < x->nsrc; s++) src[n++] = x->src[s];
  }
  for (uint32_t s = 1; s < n; s++)
    tn__sb_printf(&l->note, "%s%lld", s == 1 ? " unnest(" : ",", tn__id_of(src[s]));
  tn__sb_puts(&l->note, ")");
  return tn__node_make(l->c, &(tn__make){.op = OP_REDUCE, .src = src, .nsrc = n, .ints = outer->ints, .nint = 2});
}

tn_node *tn__unnest(tn__lowering *l, tn_node *body) {
  for (;;) {
    tn__ranges r;
    tn_node *outer = NULL, *inner = NULL;
    tn__ranges_find(l->c, l->a, body, &r);
    for (uint32_t i = 0; i < r.order.n && !inner; i++) inner = inner_of(&r, outer = r.order.v[i]);
    if (!inner) return body;
    tn_node *one = as_one(l, outer, inner);
    body = tn__substitute(l->c, body, &outer, &one, 1);
  }
}
