/* Reductions of terms that are all the same along a loop, as along an axis that was repeated: such a sum is a product
 * with their number, and the largest of them is any one.  The loop goes. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

/* May a sum of this dtype be a product with a number of this size?  Those of narrow floats do not hold large ones. */
/* a choice: no is right */
static bool multiplies(int dtype) {
  return dtype == TN_F32 || dtype == TN_F64 || (!tn__is_float(dtype) && dtype != TN_BOOL);
}

/* a choice: no is right */
static bool may_leave(const tn_node *n, const tn_node *range) {
  if (range->src[0]->lo < 1) return false; /* of nothing it is something else */
  switch (n->ints[0]) {
  case OP_MAX: case OP_MIN: case OP_AND: case OP_OR: return true;
  case OP_ADD: return multiplies(n->dtype);
  default: return false;
  }
}

/* n without the loops that its terms do not differ in, NULL if there are none */
static tn_node *shorter(tn__lowering *l, const tn__ranges *r, tn_node *n) {
  tn_ctx *c = l->c;
  tn_node **src = tn__arena_alloc(l->a, n->nsrc * sizeof *src), *times = NULL;
  src[0] = n->src[0];
  uint32_t kept = 1;
  for (uint32_t s = 1; s < n->nsrc; s++) {
    tn_node *range = n->src[s];
    if ((tn__free_of(r, n->src[0]) >> tn__range_at(r, range) & 1) || !may_leave(n, range)) {
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

tn_node *tn__leave_equal_terms(tn__lowering *l, tn_node *body) {
  for (;;) {
    tn__ranges r;
    tn_node *old = NULL, *new_ = NULL;
    tn__ranges_find(l->c, l->a, body, &r);
    for (uint32_t i = 0; i < r.order.n && !new_; i++) {
      old = r.order.v[i];
      if (old->op == OP_REDUCE) new_ = shorter(l, &r, old);
    }
    if (!new_) return body;
    body = tn__substitute(l->c, body, &old, &new_, 1);
  }
}
