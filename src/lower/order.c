/* Loops of reductions in the order in which memory lies.
 *
 * A reduction over several axes has its loops as they are written.  Of a tensor that is viewed in another order the
 * innermost of these may take steps of megabytes, though elements that are reduced, too, lie side by side: whatever
 * then takes the loops for one, gives blocks of them to groups or their innermost turns to lanes, jumps with each
 * element.  So outermost stands the loop that steps furthest in what is loaded most of.
 *
 * A loop may stand for several axes, as reshapes make it: what is loaded then lies by its counter's quotients and
 * remainders.  It becomes a loop for each of them where these are not in the order of memory.
 *
 * Sums are then added up in another order, the same on each device of its kind; not in mode strict, which keeps what is
 * written.  Steps noted:
 *   digits(a)   loop a as several
 *   order(a,b)  the loops of reductions, outermost first */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <stdlib.h>

/* May reductions over the loops of the set have them in any order?  Nothing else runs over some of them, and none
 * bounds another. */
/* a choice: no is right */
static bool may_be_ordered(const tn__ranges *r, uint64_t set) {
  if (__builtin_popcountll(set) < 2 || tn__stands_between(r, set)) return false;
  for (uint32_t k = 0; k < r->n; k++)
    if ((set >> k & 1) && (tn__bounds_loops(r, k) || tn__axis_of(r->range[k]) != AX_REDUCE)) return false;
  for (uint32_t i = 0; i < r->order.n; i++) {
    uint64_t own = tn__own_of(r, r->order.v[i]);
    if ((own & set) && (own != set || r->order.v[i]->op != OP_REDUCE)) return false;
  }
  return true;
}

/* Of the loads that hang on all loops of the set, the one of the most bytes; even: of those that step along each of
 * them; NULL */
/* a choice: any is right */
static const tn_node *heaviest(const tn__survey *p, uint64_t set, bool even) {
  const tn_node *best = NULL;
  double most = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op != OP_LOAD || n->src[0]->op != OP_PARAM || (set & ~tn__free_of(&p->r, n->src[1]))) continue;
    double bytes = tn__volume(p, tn__free_of(&p->r, n->src[1])) * (double)tn__size_of(n->dtype);
    bool steps = true;
    for (uint32_t k = 0; k < p->r.n && even; k++)
      steps &= !(set >> k & 1) || tn__stride(&p->r, n->src[1], k) != TN__IRREGULAR;
    if (steps && bytes > most) best = n, most = bytes;
  }
  return best;
}

int64_t tn__step_of(const tn__survey *p, const tn_node *access, const tn_node *range) {
  int64_t step = tn__stride(&p->r, access->src[1], (uint32_t)tn__range_at(&p->r, range));
  return step == TN__IRREGULAR ? 0 : llabs(step);
}

/* Those of equal steps stay as they are. */
static void sort(const tn__survey *p, const tn_node *load, tn_node **x, uint32_t n) {
  for (uint32_t i = 1; load && i < n; i++) {
    tn_node *next = x[i];
    uint32_t at = i;
    for (; at && tn__step_of(p, load, x[at - 1]) < tn__step_of(p, load, next); at--) x[at] = x[at - 1];
    x[at] = next;
  }
}

uint32_t tn__as_memory_lies(const tn__survey *p, uint64_t set, tn_node **x) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < p->r.order.n && !n; i++) { /* reductions nest as they say, outputs by their ids */
    const tn_node *r = p->r.order.v[i];
    for (uint32_t s = 1; r->op == OP_REDUCE && tn__own_of(&p->r, r) == set && s < r->nsrc; s++) x[n++] = r->src[s];
  }
  for (uint32_t k = 0, reduces = n; k < p->r.n && !reduces; k++) {
    if (!(set >> k & 1)) continue;
    uint32_t at = n++;
    for (; at && tn__id_of(x[at - 1]) > tn__id_of(p->r.range[k]); at--) x[at] = x[at - 1];
    x[at] = p->r.range[k];
  }
  sort(p, heaviest(p, set, true), x, n);
  return n;
}

/* The reduction with its loops as what is loaded lies */
static tn_node *ordered(tn_ctx *c, const tn__survey *p, tn_node *n, const tn_node *load) {
  tn_node *src[TN__MAX_RANGES + 1];
  for (uint32_t s = 0; s < n->nsrc; s++) src[s] = n->src[s];
  sort(p, load, src + 1, n->nsrc - 1);
  return tn__node_with(c, n, src);
}

/* The least number by which an index divides the counter of range k, and which divides its length; 0 */
/* a choice: no is right */
static int64_t divisor_of(tn__lowering *l, const tn__ranges *r, tn_node *index, const tn_node *range) {
  tn__nodes all = {0};
  int64_t least = 0, by, size;
  if (!tn__const_int(range->src[0], &size)) return 0;
  tn__topo(l->a, &index, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    if (n->op == OP_LOAD && (tn__free_of(r, n) >> tn__range_at(r, range) & 1)) return 0; /* it lies anywhere */
    bool digit = (n->op == OP_IDIV || n->op == OP_MOD) && n->src[0] == range && tn__const_int(n->src[1], &by);
    if (digit && by > 1 && by < size && size % by == 0 && (!least || by < least)) least = by;
  }
  return least;
}

/* May range k be several loops?  Reductions alone close it. */
/* a choice: no is right */
static bool may_be_cut(const tn__ranges *r, uint32_t k) {
  for (uint32_t i = 0; i < r->order.n; i++)
    if ((tn__own_of(r, r->order.v[i]) >> k & 1) && r->order.v[i]->op != OP_REDUCE) return false;
  return tn__axis_of(r->range[k]) == AX_REDUCE && !tn__bounds_loops(r, k);
}

/* Loop x as one for each digit of its counter that the heaviest load along it has, if memory has these in another
 * order; NULL */
static tn_node *by_digits(tn__lowering *l, tn_node *body, tn_node *x) {
  tn_node *digit[TN__MAX_RANGES], *cut[2];
  uint32_t n = 0;
  for (digit[n++] = x;;) { /* the outermost last */
    tn__survey p;
    tn__survey_loops(l->c, l->a, body, &p);
    int at = tn__range_at(&p.r, digit[n - 1]);
    const tn_node *load = at < 0 ? NULL : heaviest(&p, 1ull << at, false);
    if (!load || !may_be_cut(&p.r, (uint32_t)at)) return NULL;
    if (tn__stride(&p.r, load->src[1], (uint32_t)at) != TN__IRREGULAR) {
      bool differs = false;
      for (uint32_t i = 1; i < n; i++) differs |= tn__step_of(&p, load, digit[i]) < tn__step_of(&p, load, digit[i - 1]);
      return differs ? body : NULL;
    }
    int64_t by = divisor_of(l, &p.r, load->src[1], digit[n - 1]);
    if (!by) return NULL;
    body = tn__simplify_accesses(l->c, l->a, tn__cut(l, body, digit[n - 1], by, AX_REDUCE, AX_REDUCE, cut));
    digit[n - 1] = cut[1], digit[n++] = cut[0];
  }
}

static tn_node *all_by_digits(tn__lowering *l, tn_node *body) {
  tn__ranges r;
  tn__ranges_find(l->c, l->a, body, &r);
  for (uint32_t k = 0; k < r.n;) {
    int64_t ids = l->next_range;
    tn_node *x = r.range[k++], *several = by_digits(l, body, x);
    if (!several) {
      l->next_range = ids;
      continue;
    }
    tn__sb_printf(&l->note, " digits(%lld)", tn__id_of(x));
    tn__ranges_find(l->c, l->a, body = several, &r);
    k = 0;
  }
  return body;
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
    if (!set) load = may_be_ordered(&p.r, own) ? heaviest(&p, own, true) : NULL;
    tn_node *now = load ? ordered(l->c, &p, n, load) : n;
    if (now == n) continue;
    set = own;
    tn__vec_push(l->a, &old, n);
    tn__vec_push(l->a, &new_, now);
  }
  for (uint32_t s = 1; set && s < new_.v[0]->nsrc; s++)
    tn__sb_printf(&l->note, "%s%lld", s > 1 ? "," : " order(", tn__id_of(new_.v[0]->src[s]));
  if (set) tn__sb_putc(&l->note, ')');
  *body = tn__substitute(l->c, *body, old.v, new_.v, old.n);
  return set;
}

tn_node *tn__order_loops(tn__lowering *l, tn_node *body) {
  body = all_by_digits(l, body);
  while (order(l, &body)) continue;
  return body;
}
