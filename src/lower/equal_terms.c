/* Reductions of terms that are all the same along a loop, as along an axis that was repeated: such a sum is a product
 * with their number, and the largest of them is any one.  Terms that are each added to itself, as the gradient of a
 * square is, are summed up once and doubled behind the loop; so is a sum of negated terms negated there.
 *
 * The loop goes from the whole body or stays.  What else closes it goes through its turns anyway, as a store of the
 * terms themselves does, and stands in the reduction's loops: in fewer of them both would no longer nest alike. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <string.h>

/* May a sum of this dtype be a product with a number of this size?  Those of narrow floats do not hold large ones. */
/* a choice: no is right */
static bool multiplies(int dtype) {
  return dtype == TN_F32 || dtype == TN_F64 || (!tn__is_float(dtype) && dtype != TN_BOOL);
}

/* Does n reduce terms that are the same along its loop `range`, and is their number all that matters of it? */
/* a choice: no is right */
static bool may_leave(const tn__ranges *r, const tn_node *n, const tn_node *range) {
  if (n->op != OP_REDUCE || range->src[0]->lo < 1) return false; /* of nothing it is something else */
  uint64_t at = 1ull << tn__range_at(r, range);
  for (uint32_t s = 0; s < n->nsrc; s++)
    if (n->src[s] != range && (tn__free_of(r, n->src[s]) & at)) return false;
  switch (n->ints[0]) {
  case OP_MAX: case OP_MIN: case OP_AND: case OP_OR: return true;
  case OP_ADD: return multiplies(n->dtype);
  default: return false;
  }
}

/* The loops that something closes which needs their turns */
static uint64_t loops_that_stay(const tn__ranges *r) {
  uint64_t stay = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    uint32_t first;
    if (!tn__closes(n, &first)) continue;
    for (uint32_t s = first; s < n->nsrc; s++)
      if (!may_leave(r, n, n->src[s])) stay |= 1ull << tn__range_at(r, n->src[s]);
  }
  return stay;
}

/* The reduction n without its loops that do not stay, NULL if all do */
static tn_node *shorter(tn__lowering *l, const tn__ranges *r, tn_node *n, uint64_t stay) {
  tn_ctx *c = l->c;
  tn_node **src = tn__arena_alloc(l->a, n->nsrc * sizeof *src), *times = NULL;
  src[0] = n->src[0];
  uint32_t kept = 1;
  for (uint32_t s = 1; s < n->nsrc; s++) {
    tn_node *range = n->src[s];
    if (stay >> tn__range_at(r, range) & 1) {
      src[kept++] = range;
      continue;
    }
    times = times ? tn__mul(c, times, range->src[0]) : range->src[0];
    tn__sb_printf(&l->note, " alike(%lld)", tn__id_of(range));
  }
  if (!times) return NULL;
  tn_node *one = kept == 1 ? src[0]
                           : tn__node_make(c, &(tn__make){.op = OP_REDUCE, .src = src, .nsrc = kept, .ints = n->ints,
                                                          .nint = n->nint});
  if (n->ints[0] != OP_ADD) return one;
  tn_node *sum = tn__mul(c, one, tn__cast(c, times, n->dtype));
  return tn__add(c, tn__const_num(c, n->dtype, 0), sum); /* a sum of zeros is +0 */
}

/* A sum of doubled or negated terms as the doubled or negated sum, NULL if it is none: both are exact, but
 * for terms that are beyond the largest number only when they are doubled. */
static tn_node *outside(tn__lowering *l, tn_node *n) {
  tn_ctx *c = l->c;
  tn_node *term = n->src[0];
  bool doubles = term->op == OP_ADD && term->src[0] == term->src[1], negates = term->op == OP_NEG;
  if (n->ints[0] != OP_ADD || term->dtype != n->dtype || !tn__is_float(n->dtype) || (!doubles && !negates)) return NULL;
  if (!multiplies(n->dtype)) return NULL; /* twice a sum of narrow floats may be too large */
  tn_node **src = tn__arena_alloc(l->a, n->nsrc * sizeof *src);
  memcpy(src, n->src, n->nsrc * sizeof *src);
  src[0] = term->src[0];
  tn_node *sum = tn__node_with(c, n, src);
  tn__sb_printf(&l->note, " outside(%s)", tn__ops[term->op].text);
  if (doubles) return tn__add(c, sum, sum);
  return tn__add(c, tn__const_num(c, n->dtype, 0), tn__neg(c, sum)); /* a sum of zeros is +0 */
}

tn_node *tn__leave_equal_terms(tn__lowering *l, tn_node *body) {
  for (;;) {
    tn__ranges r;
    tn_node *old = NULL, *new_ = NULL;
    tn__ranges_find(l->c, l->a, body, &r);
    uint64_t stay = loops_that_stay(&r);
    for (uint32_t i = 0; i < r.order.n && !new_; i++) {
      old = r.order.v[i];
      if (old->op != OP_REDUCE) continue;
      new_ = shorter(l, &r, old, stay);
      if (!new_) new_ = outside(l, old);
    }
    if (!new_) return body;
    body = tn__substitute(l->c, body, &old, &new_, 1);
  }
}
