/* Sums of which one term counts: over x, of what is 0 but where x is a given number.  Labels are compared so with all
 * classes.  The term is taken by its number instead, and the loop goes.
 *
 *   pick(x)     the sum over x < n of (x == e ? v(x) : 0), where e does not hang on x, is 0 <= e < n ? v(e) : 0
 *
 * All other terms are zeros, whatever v is there: so the sum is the same in every order.  0 is added, for a sum is no
 * -0. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

typedef struct choice { /* the sum over `range` of range == number ? value : zero */
  tn_node *sum, *range, *number, *value, *zero;
} choice;

/* The loop that x counts, as any type that holds all its numbers; NULL: none */
/* a choice: no is right */
static tn_node *counted_by(tn_node *x) {
  tn_node *range = x->op == OP_CAST ? x->src[0] : x;
  if (range->op != OP_RANGE || tn__axis_of(range) != AX_REDUCE || range->src[0]->lo < 1 || !tn__is_int(x->dtype))
    return NULL;
  int bits = 8 * (int)tn__size_of(x->dtype) - tn__dtypes[x->dtype].is_signed;
  return x == range || bits >= 63 || range->hi >> bits == 0 ? range : NULL;
}

/* Is anything closed for each turn of the loop below the value?  Then its loops stand in this one, and nowhere else. */
/* a choice: yes is right */
static bool closes_within(tn__arena *a, const tn__ranges *r, tn_node *value, int at) {
  tn__nodes below = {0};
  uint32_t first;
  tn__topo(a, &value, 1, &below);
  for (uint32_t i = 0; i < below.n; i++)
    if (tn__closes(below.v[i], &first) && (tn__free_of(r, below.v[i]) >> at & 1)) return true;
  return false;
}

/* Does r sum up what one turn of a loop of its own chooses? */
/* a choice: no is right */
static bool chooses(tn__arena *a, const tn__ranges *r, tn_node *sum, choice *out) {
  if (sum->op != OP_REDUCE || sum->ints[0] != OP_ADD) return false;
  tn_node *where = sum->src[0];
  if (where->op != OP_WHERE || where->src[0]->op != OP_EQ || !tn__is_const(where->src[2]) || where->src[2]->ints[0])
    return false;
  for (int side = 0; side < 2; side++) {
    tn_node *range = counted_by(where->src[0]->src[side]), *number = where->src[0]->src[!side];
    int at = range ? tn__range_at(r, range) : -1;
    if (at < 0 || !(tn__own_of(r, sum) >> at & 1) || (tn__free_of(r, number) >> at & 1) ||
        tn__bounds_loops(r, (uint32_t)at) || closes_within(a, r, where->src[1], at))
      continue;
    *out = (choice){sum, range, number, where->src[1], where->src[2]};
    return true;
  }
  return false;
}

static tn_node *taken(tn_ctx *c, const choice *x) {
  tn_node *at = tn__cast(c, x->number, TN__INDEX), *zero = tn__int(c, 0), *size = x->range->src[0], *range = x->range;
  tn_node *safe = tn__op2(c, OP_MAX, tn__op2(c, OP_MIN, at, tn__add(c, size, tn__int(c, -1))), zero);
  tn_node *inside = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, at), tn__op2(c, OP_LT, at, size));
  tn_node *value = tn__where(c, inside, tn__substitute(c, x->value, &range, &safe, 1), x->zero);
  tn_node *src[TN__MAX_RANGES + 1] = {value};
  uint32_t n = 1;
  for (uint32_t s = 1; s < x->sum->nsrc; s++)
    if (x->sum->src[s] != range) src[n++] = x->sum->src[s];
  if (n == 1) return tn__add(c, value, x->zero);
  return tn__node_make(c, &(tn__make){.op = OP_REDUCE, .src = src, .nsrc = n, .ints = x->sum->ints, .nint = 2});
}

tn_node *tn__pick(tn__lowering *l, tn_node *body) {
  for (;;) {
    tn__ranges r;
    choice x;
    uint32_t i = 0;
    tn__ranges_find(l->c, l->a, body, &r);
    while (i < r.order.n && !chooses(l->a, &r, r.order.v[i], &x)) i++;
    if (i == r.order.n) return body;
    tn_node *by = taken(l->c, &x);
    tn__sb_printf(&l->note, " pick(%lld)", tn__id_of(x.range));
    body = tn__substitute(l->c, body, &x.sum, &by, 1);
  }
}
