/* Loops that a thread of a group goes through turn by turn, waiting for memory in each: several turns at once, so that
 * what they load is on its way together.
 *
 * Needs a part that is shared out, of which each thread reduces what is its own.  The innermost loop of such a
 * reduction becomes one of as many turns fewer, around turns that are unrolled.  What is beyond the end loads the last
 * element once more, and adds nothing; where threads have neighbours, these are at once already.  A thread's own short
 * row, as it is stored, has as many turns at once as are one access: each turn by itself would go out as a part of a
 * sector, which no cache puts together again.
 *
 * Steps noted: several(a,n): n turns of loop a. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { BYTES = 32 /* of an element's kind that a thread asks for at once, */, MOST = 8 /* and turns */ };

int64_t tn__turns_at_once(const tn_node *size, int64_t lanes, size_t bytes) {
  int64_t most = BYTES / (int64_t)bytes < MOST ? BYTES / (int64_t)bytes : MOST;
  int64_t all = (size->hi + lanes - 1) / lanes, rounds = most > 1 ? (all + most - 1) / most : all;
  /* a window of few more terms is taken whole: of each term it is then known whether it lies within the image */
  if (lanes == 1 && tn__is_const(size) && all > 0 && all < 2 * most) return all;
  for (int64_t n = most; 2 * n > most && n > 1; n--) /* none is beyond the end */
    if (tn__divisible(size, n * lanes)) return n;
  return size->lo < 1 || rounds < 1 ? 1 : (all + rounds - 1) / rounds;
}

/* Size of the largest elements that the reductions over range k load in each turn, each thread its own; 0: there are
 * none, or it is no loop that threads go through alone. */
/* a choice: 0 is right */
static size_t asked_in(const tn__ranges *r, uint32_t k) {
  uint64_t at = 1ull << k, neighbours = 0;
  size_t bytes = 0;
  for (uint32_t i = 0; i < r->n; i++) neighbours |= tn__axis_of(r->range[i]) == AX_UNROLL ? 1ull << i : 0;
  if (tn__axis_of(r->range[k]) != AX_REDUCE || tn__bounds_loops(r, k)) return 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    uint64_t own = tn__own_of(r, n), free = tn__free_of(r, n);
    if (!((own | free) & at)) continue;
    if ((own | free) & neighbours || (own && !(own & at))) return 0;
    if (own && (n->op != OP_REDUCE || n->src[n->nsrc - 1] != r->range[k])) return 0;
    if (!tn__is_access(n)) continue;
    if (tn__buffer_of(n)->op != OP_PARAM) return 0;
    size_t size = tn__size_of(n->dtype);
    if (n->op == OP_LOAD && (tn__free_of(r, n->src[1]) & at) && size > bytes) bytes = size;
  }
  return bytes;
}

/* Turns of loop k that are one access wherever something is stored in it: of elements side by side, that begin at
 * multiples of as many.  1: there are none, or others than stores close the loop, or a reduction stands in it. */
/* a choice: 1 is right */
static int64_t stored_in(const tn__lowering *l, const tn__ranges *r, uint32_t k) {
  tn_node *x = r->range[k];
  uint64_t at = 1ull << k, neighbours = 0;
  size_t bytes = 0;
  if (tn__axis_of(x) != AX_LOOP || tn__bounds_loops(r, k) || !l->target->access) return 1;
  for (uint32_t i = 0; i < r->n; i++) neighbours |= tn__axis_of(r->range[i]) == AX_UNROLL ? 1ull << i : 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    uint64_t own = tn__own_of(r, n), free = tn__free_of(r, n);
    if (!((own | free) & at)) continue;
    if ((own | free) & neighbours || (own && !(own & at))) return 1;
    if (own && (n->op != OP_STORE || n->src[n->nsrc - 1] != x)) return 1;
    if (!tn__is_access(n)) continue;
    if (tn__buffer_of(n)->op != OP_PARAM) return 1;
    if (tn__size_of(tn__buffer_of(n)->dtype) > bytes) bytes = tn__size_of(tn__buffer_of(n)->dtype);
  }
  int64_t most = bytes ? l->target->access / (int64_t)bytes : 1;
  for (int64_t n = most < MOST ? most : MOST; n > 1; n /= 2) {
    bool whole = tn__divisible(x->src[0], n);
    for (uint32_t i = 0; i < r->order.n && whole; i++) {
      const tn_node *y = r->order.v[i];
      if (y->op != OP_STORE || !(tn__own_of(r, y) & at)) continue;
      tn_node *gate = tn__gate_of(y), *first = tn__simplify_index(l->c, tn__sub(l->c, y->src[1], x));
      whole = tn__stride(r, y->src[1], k) == 1 && tn__divisible(first, n) && !(gate && (tn__free_of(r, gate) & at));
    }
    if (whole) return n;
  }
  return 1;
}

static tn_node *cut(tn__lowering *l, tn_node *body, tn_node *x, tn_node *number) {
  tn_ctx *c = l->c;
  int64_t n = number->hi + 1;
  tn_node *size = x->src[0], *by = tn__int(c, n), *up = tn__add(c, size, tn__int(c, n - 1));
  tn_node *turn = tn__range_like(c, x, tn__simplify_index(c, tn__op2(c, OP_IDIV, up, by)), tn__axis_of(x));
  tn_node *place = tn__add(c, tn__mul(c, turn, by), number), *at = place;
  bool fits = tn__divisible(size, n);
  if (!fits) at = tn__op2(c, OP_MIN, place, tn__sub(c, size, tn__int(c, 1)));
  body = tn__exchange_ranges(l, body, &x, &at, 1, (tn_node *[]){turn, number}, 2);
  if (!fits) body = tn__ignore_beyond(l, body, number, tn__op2(c, OP_LT, place, size));
  return tn__simplify_accesses(c, l->a, body);
}

/* Is all that is reduced over this range, or stored, the threads' own, also as its places are written now? */
static bool is_of_lanes(const tn__ranges *r, const tn_node *range) {
  uint64_t lanes = 0, at = 1ull << tn__range_at(r, range);
  for (uint32_t i = 0; i < r->n; i++) lanes |= tn__axis_of(r->range[i]) == AX_UPCAST ? 1ull << i : 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    if ((tn__own_of(r, n) & at) && !(tn__free_of(r, n->src[n->op == OP_STORE]) & lanes)) return false;
  }
  return true;
}

tn_node *tn__at_once(tn__lowering *l, tn_node *body) {
  tn__ranges r, then;
  tn__ranges_find(l->c, l->a, body, &r);
  for (uint32_t k = 0; k < r.n && l->c->mode != TN_MODE_STRICT;) {
    size_t bytes = asked_in(&r, k);
    tn_node *x = r.range[k++];
    int64_t n = bytes ? tn__turns_at_once(x->src[0], 1, bytes) : stored_in(l, &r, k - 1);
    if (n < 2) continue;
    tn_node *number = tn__fresh_range(l, tn__int(l->c, n), AX_UNROLL, tn__role_of(x));
    tn_node *several = cut(l, body, x, number);
    tn__ranges_find(l->c, l->a, several, &then);
    if (!is_of_lanes(&then, number)) continue;
    tn__sb_printf(&l->note, " several(%lld,%lld)", tn__id_of(x), (long long)n);
    body = several;
    r = then;
    k = 0; /* they are numbered anew */
  }
  return body;
}
