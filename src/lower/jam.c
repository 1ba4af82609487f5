/* Several outputs at a time, for devices whose lanes are those of vectors: a sum that loads vectors which are the same
 * for all turns of an output's loop goes through several of these at once, each with an accumulator of its own, and
 * loads what they share once.  Distances of all pairs of rows, and products without a library, would fetch all of one
 * operand for each row of the other.  Where sums run along the lanes and both operands would come from further away
 * than a thread's nearest cache, it does so along a second output's loop, too: a patch of sums, each with one vector of
 * accumulators at most levels, which loads a vector of each row and each column for a term of all of them.
 *
 * The outputs stand as stores beside each other that share all loops; those beyond the last one compute it once more,
 * and do not store it.  Each is computed as it would be alone in as many lanes, to the bit. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { TOGETHER = 4, FEWEST = 4 * TOGETHER, SHARED_BYTES = 4096 /* that are loaded once instead, at least */ };

/* The only sum of a body with one store, which is made of no other; NULL */
/* a choice: no is right */
static const tn_node *only_sum(const tn__survey *p, const tn_node *body) {
  const tn_node *sum = NULL;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_STOREADD || (n->op == OP_REDUCE && sum)) return NULL;
    if (n->op == OP_REDUCE) sum = n;
  }
  return body->nsrc == 1 && body->src[0]->op == OP_STORE && !tn__gate_of(body->src[0]) ? sum : NULL;
}

/* The outputs' loops inside of that of output y: they nest in the order of their ids (linearise.c). */
/* a choice: either is right */
static uint64_t inside_of(const tn__survey *p, uint32_t y) {
  uint64_t set = 0;
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((p->common >> k & 1) && tn__id_of(p->r.range[k]) > tn__id_of(p->r.range[y])) set |= 1ull << k;
  return set;
}

/* Bytes of vectors that the sum loads, over again for each turn of output y.  Of rows along which the lanes are, those
 * that a thread's nearest cache still holds at the next turn come as fast as the sums go on. */
/* a choice: either is right */
static double shared_bytes(double near, const tn__survey *p, const tn_node *sum, uint32_t y) {
  uint64_t own = tn__own_of(&p->r, sum), inside = inside_of(p, y);
  double bytes = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t free = tn__free_of(&p->r, n), lanes = 0;
    for (uint32_t k = 0; k < p->r.n; k++)
      if (tn__axis_of(p->r.range[k]) == AX_UPCAST) lanes |= 1ull << k;
    double size = (double)tn__size_of(n->dtype), row = tn__volume(p, free & (own | inside)) * size;
    if (n->op != OP_LOAD || (free >> y & 1) || !(free & lanes) || !(free & own & ~lanes)) continue;
    if ((own & lanes) && row <= near) continue;
    bytes += tn__volume(p, free) * size;
  }
  return bytes;
}

/* Of the outputs' loops but for `other` */
/* a choice: no is right */
static int find_output(double near, const tn__survey *p, const tn_node *sum, int other) {
  double most = SHARED_BYTES;
  int best = -1;
  for (uint32_t k = 0; k < p->r.n; k++) {
    const tn_node *x = p->r.range[k];
    bool whole = (p->common >> k & 1) && (tn__free_of(&p->r, sum) >> k & 1) && tn__axis_of(x) == AX_LOOP;
    if (!whole || !tn__is_const(x->src[0]) || tn__extent(x) < FEWEST || tn__bounds_loops(&p->r, k)) continue;
    if ((int)k == other) continue;
    double bytes = shared_bytes(near, p, sum, k);
    if (bytes > most) most = bytes, best = (int)k;
  }
  return best;
}

/* Do as many rows of scratch memory as outputs are taken fit where one did? */
/* a choice: either is right */
static bool has_room(const tn__lowering *l, const tn__survey *p, uint32_t y) {
  double bytes = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_AFTER && n->src[0]->op == OP_LOCAL && (tn__free_of(&p->r, n) >> y & 1))
      bytes += (double)n->src[0]->src[0]->hi * (double)tn__size_of(n->dtype);
  }
  return TOGETHER * bytes <= (double)l->target->kept;
}

/* Does it keep rows in scratch memory? */
/* a choice: yes is right */
static bool keeps_rows(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_LOCAL) return true;
  return false;
}

/* The outputs that several are computed of at once, the second -1 where one is enough */
typedef struct jammed {
  int first, second;
} jammed;

/* A second one only where the sum has the lanes: those of columns share what they load with few others. */
/* a choice: no is right */
static jammed find_outputs(const tn__lowering *l, const tn__survey *p, const tn_node *body) {
  const tn_node *sum = only_sum(p, body);
  jammed out = {-1, -1};
  out.first = sum ? find_output(l->target->near, p, sum, -1) : -1;
  if (out.first < 0 || !has_room(l, p, (uint32_t)out.first)) return (jammed){-1, -1};
  bool along = false;
  for (uint32_t k = 0; k < p->r.n; k++)
    along |= (tn__own_of(&p->r, sum) >> k & 1) && tn__axis_of(p->r.range[k]) == AX_UPCAST;
  if (along && !keeps_rows(p)) out.second = find_output(l->target->near / TOGETHER, p, sum, out.first);
  return out;
}

/* The body at place `at` of the output, over its own rows of scratch memory where they are not the same for all */
static tn_node *body_at(tn__lowering *l, const tn__survey *p, tn_node *body, tn_node *x, tn_node *at, tn_node *outer,
                        bool first) {
  tn__nodes old = {0}, new_ = {0};
  uint32_t y = (uint32_t)tn__range_at(&p->r, x);
  for (uint32_t i = 0; i < p->r.order.n && !first; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op != OP_AFTER || n->src[0]->op != OP_LOCAL || !(tn__free_of(&p->r, n) >> y & 1)) continue;
    tn__vec_push(l->a, &old, n->src[0]);
    tn__vec_push(l->a, &new_, tn__scratch(l, n->dtype, n->src[0]->src[0]->hi));
  }
  body = tn__substitute(l->c, body, old.v, new_.v, old.n);
  return tn__exchange_ranges(l, body, &x, &at, 1, &outer, 1);
}

static tn_node *gated(tn_ctx *c, tn_node *store, tn_node *gate) {
  tn_node *src[TN__MAX_RANGES + 4] = {store->src[0], store->src[1], store->src[2], gate}, *old = tn__gate_of(store);
  uint32_t m = 4;
  if (old) src[3] = tn__op2(c, OP_AND, old, gate);
  for (uint32_t s = old ? 4 : 3; s < store->nsrc; s++) src[m++] = store->src[s];
  return tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = m});
}

/* Several turns of output x at once */
static tn_node *several(tn__lowering *l, tn_node *body, tn_node *x) {
  tn_ctx *c = l->c;
  tn__survey p;
  tn__nodes store = {0};
  tn__survey_loops(c, l->a, body, &p);
  int64_t size = x->hi + 1;
  tn__sb_printf(&l->note, " jam(%lld,%d)", tn__id_of(x), TOGETHER);
  tn_node *outer = tn__range_like(c, x, tn__int(c, (size + TOGETHER - 1) / TOGETHER), AX_LOOP);
  for (int i = 0; i < TOGETHER; i++) {
    tn_node *at = tn__add(c, tn__mul(c, outer, tn__int(c, TOGETHER)), tn__int(c, i)), *end = tn__int(c, size);
    bool beyond = size % TOGETHER && i >= size % TOGETHER;
    tn_node *last = beyond ? tn__op2(c, OP_MIN, at, tn__int(c, size - 1)) : at;
    tn_node *all = body_at(l, &p, body, x, last, outer, !i);
    for (uint32_t s = 0; s < all->nsrc; s++)
      tn__vec_push(l->a, &store, beyond ? gated(c, all->src[s], tn__op2(c, OP_LT, at, end)) : all->src[s]);
  }
  return tn__sink(c, store.v, store.n, body->name);
}

/* a choice: no is right */
bool tn__jams_twice(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  return find_outputs(l, &p, body).second >= 0;
}

tn_node *tn__jam(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  jammed of = find_outputs(l, &p, body);
  if (of.first >= 0) body = several(l, body, p.r.range[of.first]);
  return of.second >= 0 ? several(l, body, p.r.range[of.second]) : body;
}
