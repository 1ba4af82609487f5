/* Loops of reductions in the order in which memory lies.
 *
 * A reduction over several axes has its loops as they are written.  Of a tensor that is viewed in another order the
 * innermost of these may take steps of megabytes, though elements that are reduced, too, lie side by side: whatever
 * then takes the loops for one, gives blocks of them to groups or their innermost turns to lanes, jumps with each
 * element.  So outermost stands the loop that steps furthest in what is loaded most of.
 *
 * Sums are then added up in another order, the same on each device of its kind; not in mode strict, which keeps what is
 * written.  Steps noted:
 *   order(a,b)  the loops of reductions, outermost first */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <stdlib.h>

/* May reductions over the loops of the set have them in any order?  Nothing else runs over some of them, and none
 * bounds another. */
/* a choice: no is right */
static bool may_be_ordered(const tn__ranges *r, uint64_t set) {
  if (!(set & (set - 1)) || tn__stands_between(r, set)) return false;
  for (uint32_t k = 0; k < r->n; k++)
    if ((set >> k & 1) && (tn__bounds_loops(r, k) || tn__axis_of(r->range[k]) != AX_REDUCE)) return false;
  for (uint32_t i = 0; i < r->order.n; i++) {
    uint64_t own = tn__own_of(r, r->order.v[i]);
    if ((own & set) && (own != set || r->order.v[i]->op != OP_REDUCE)) return false;
  }
  return true;
}

/* Of the loads that hang on all loops of the set, and step along each of them, the one of the most bytes; NULL */
/* a choice: any is right */
static const tn_node *heaviest(const tn__survey *p, uint64_t set) {
  const tn_node *best = NULL;
  double most = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op != OP_LOAD || n->src[0]->op != OP_PARAM || (set & ~tn__free_of(&p->r, n->src[1]))) continue;
    double bytes = tn__volume(p, tn__free_of(&p->r, n->src[1])) * (double)tn__size_of(n->dtype);
    bool steps = true;
    for (uint32_t k = 0; k < p->r.n; k++)
      steps &= !(set >> k & 1) || tn__stride(&p->r, n->src[1], k) != TN__IRREGULAR;
    if (steps && bytes > most) best = n, most = bytes;
  }
  return best;
}

static int64_t step_of(const tn__survey *p, const tn_node *load, const tn_node *range) {
  return llabs(tn__stride(&p->r, load->src[1], (uint32_t)tn__range_at(&p->r, range)));
}

/* The reduction with its loops by falling steps of the load; those of equal steps stay as they are. */
static tn_node *ordered(tn_ctx *c, const tn__survey *p, tn_node *n, const tn_node *load) {
  tn_node *src[TN__MAX_RANGES + 1] = {n->src[0]};
  for (uint32_t s = 1; s < n->nsrc; s++) {
    uint32_t at = s;
    for (; at > 1 && step_of(p, load, src[at - 1]) < step_of(p, load, n->src[s]); at--) src[at] = src[at - 1];
    src[at] = n->src[s];
  }
  return tn__node_with(c, n, src);
}

/* All reductions that run over the same loops as one does whose loops lie otherwise; false: there is none. */
static bool order(tn__lowering *l, tn_node **body) {
  tn__survey p;
  tn__nodes old = {0}, new_ = {0};
  uint64_t set = 0;
  const tn_node *load = NULL;
  tn__survey_loops(l->c, l->a, *body, &p);
  for (uint32_t i = 0; i < p.r.order.n; i++) {
    tn_node *n = p.r.order.v[i];
    uint64_t own = n->op == OP_REDUCE ? tn__own_of(&p.r, n) : 0;
    if (!own || (set && own != set)) continue;
    if (!set) load = may_be_ordered(&p.r, own) ? heaviest(&p, own) : NULL;
    tn_node *now = load ? ordered(l->c, &p, n, load) : n;
    if (now == n) continue;
    set = own;
    tn__vec_push(l->a, &old, n);
    tn__vec_push(l->a, &new_, now);
  }
  for (uint32_t s = 1; set && s < new_.v[0]->nsrc; s++)
    tn__sb_printf(&l->note, "%s%lld", s == 1 ? " order(" : ",", tn__id_of(new_.v[0]->src[s]));
  if (set) tn__sb_putc(&l->note, ')');
  *body = tn__substitute(l->c, *body, old.v, new_.v, old.n);
  return set;
}

tn_node *tn__order_loops(tn__lowering *l, tn_node *body) {
  while (order(l, &body)) continue;
  return body;
}
