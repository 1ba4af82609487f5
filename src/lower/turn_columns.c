/* What reductions load across the lanes of columns, for devices whose lanes are those of vectors: it is turned once for
 * a block of lines.
 *
 * Columns that are reduced have lanes side by side, and where what they load lies along the reductions, each lane reads
 * a line of its own.  What is the same for all turns of a loop that goes through the columns again is loaded once for a
 * block of these turns, into scratch memory in the order of lanes. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { LINES = 64 }; /* of a block: few enough for threads to share out, and many for each column to pay */

typedef struct columns {
  tn__survey p;
  uint32_t lane;
  int line; /* the loop that goes through the columns again */
  double bytes;
} columns;

static uint64_t reduced_in(const columns *k, const tn_node *n) {
  return tn__free_of(&k->p.r, n) & ~k->p.outputs & ~(1ull << k->lane);
}

/* Is it loaded across the lanes, along reductions of constant length, and the same for all turns of range j? */
/* a choice: no is right */
static bool is_same(const columns *k, const tn_node *n, uint32_t j) {
  if (n->op != OP_LOAD || n->src[0]->op != OP_PARAM || (tn__free_of(&k->p.r, n) >> j & 1)) return false;
  int64_t step = tn__stride(&k->p.r, n->src[1], k->lane);
  uint64_t set = reduced_in(k, n);
  for (uint32_t i = 0; i < k->p.r.n; i++)
    if ((set >> i & 1) && !tn__is_const(k->p.r.range[i]->src[0])) return false;
  return set && step != 0 && step != 1 && step != TN__IRREGULAR;
}

static double bytes_of(const columns *k, const tn_node *n) {
  return tn__volume(&k->p, reduced_in(k, n) | 1ull << k->lane) * (double)tn__size_of(n->dtype);
}

/* Does every reduction run again for each turn of range j?  One that does not stands outside of its loop, which then
 * cannot be around what fills scratch memory. */
static bool is_around_all(const tn__survey *p, uint32_t j) {
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE && !(tn__free_of(&p->r, p->r.order.v[i]) >> j & 1)) return false;
  return true;
}

/* a choice: no is right */
static bool find_lines(columns *k) {
  double most = 1;
  for (uint32_t i = 0; i < k->p.r.order.n; i++)
    if (k->p.r.order.v[i]->op == OP_STOREADD || k->p.r.order.v[i]->op == OP_AFTER) return false;
  for (uint32_t j = 0; j < k->p.r.n; j++) {
    double bytes = 0;
    if (!tn__is_even(&k->p, j) || !is_around_all(&k->p, j) || tn__extent(k->p.r.range[j]) <= most) continue;
    for (uint32_t i = 0; i < k->p.r.order.n; i++)
      if (is_same(k, k->p.r.order.v[i], j)) bytes += bytes_of(k, k->p.r.order.v[i]);
    if (bytes > 0) most = tn__extent(k->p.r.range[j]), k->line = (int)j, k->bytes = bytes;
  }
  return most > 1;
}

/* The load over all that its reductions go through, in the order of lanes */
static tn_node *from_columns(tn__lowering *l, const columns *k, tn_node *n) {
  tn_node *x[TN__MAX_RANGES];
  uint32_t count = 0;
  for (uint32_t i = 0; i < k->p.r.n; i++)
    if (reduced_in(k, n) >> i & 1) x[count++] = k->p.r.range[i];
  return tn__kept_over(l, n, x, count, k->p.r.range[k->lane]);
}

tn_node *tn__turn_columns(tn__lowering *l, tn_node *body) {
  columns k = {0};
  tn__nodes old = {0}, new_ = {0};
  tn__survey_loops(l->c, l->a, body, &k.p);
  while (k.lane < k.p.r.n && tn__axis_of(k.p.r.range[k.lane]) != AX_UPCAST) k.lane++;
  if (k.lane == k.p.r.n || !find_lines(&k) || k.bytes > (double)l->target->kept) return body;
  tn_node *line = k.p.r.range[k.line];
  for (uint32_t i = 0; i < k.p.r.order.n; i++) {
    if (!is_same(&k, k.p.r.order.v[i], (uint32_t)k.line)) continue;
    tn__vec_push(l->a, &old, k.p.r.order.v[i]);
    tn__vec_push(l->a, &new_, from_columns(l, &k, k.p.r.order.v[i]));
  }
  tn__sb_printf(&l->note, " turn(%lld)", tn__id_of(line));
  body = tn__substitute(l->c, body, old.v, new_.v, old.n);
  line = tn__cut_in(l, &body, line, LINES, AX_LOOP);
  return tn__share_out(l, body, line);
}
