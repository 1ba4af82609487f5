/* Several outputs at a time, for devices whose lanes are those of vectors: a sum that loads vectors which are the same
 * for all turns of an output's loop goes through several of these at once, each with an accumulator of its own, and
 * loads what they share once.  Distances of all pairs of rows, and products without a library, would fetch all of one
 * operand for each row of the other.
 *
 * Where sums run along the lanes, and the turns of two outputs' loops each share what hangs on the other, it does so
 * along both: a patch of sums, each with one vector of accumulators at most levels, which loads a vector of each row
 * and each column for a term of all of them.  That pays however near the rows are: a processor does a difference and a
 * multiply-add in one cycle, and loads no more than two vectors in it, or one that lies in two of memory's lines, as
 * most of an odd row do.
 *
 * The outputs stand as stores beside each other that share all loops; those beyond the last one compute it once more,
 * and do not store it.  Each is computed as it would be alone in as many lanes, to the bit. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

enum {
  TOGETHER = 4,
  FEWEST = 4 * TOGETHER,
  FEWEST_TERMS = 16,     /* of a sum: of fewer, to end it takes longer than to load them */
  SHARED_BYTES = 4096,   /* that are loaded once instead, at least */
  PATCH_TERMS = 1 << 14, /* of all sums, that are worth the text of a patch */
  CHEAP_TERM = 8,        /* the most work of one that waits for its loads */
  LINES = 64             /* for which a block of columns is turned (turn_columns.c) */
};

/* Of a sum in lanes along its terms, in cycles: what its lanes have found is brought together.  Of sums in lanes beside
 * each other: an element of a column is turned; and times as long where not all have whole lanes, which is asked at
 * each term. */
static const double MEETING = 5, TURNED = 0.4, ASKED = 1.25;

/* The only sum of a body with one store, which is made of no other; NULL */
/* a choice: no is right */
static const tn_node *only_sum(const tn__survey *p) {
  const tn_node *sum = NULL, *body = p->r.order.v[p->r.order.n - 1];
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

/* May several turns of loop k be taken at once?  Its length may hang on loops around it alone. */
/* a choice: no is right */
static bool may_be_jammed(const tn__survey *p, const tn_node *sum, uint32_t k) {
  const tn_node *x = p->r.range[k];
  bool may = (p->common >> k & 1) && (tn__free_of(&p->r, sum) >> k & 1) && tn__axis_of(x) == AX_LOOP;
  for (uint32_t j = 0; j < p->r.n && may; j++) {
    bool hangs = tn__free_of(&p->r, x->src[0]) >> j & 1;
    may = !hangs || (p->common >> j & 1) || tn__axis_of(p->r.range[j]) == AX_GLOBAL;
  }
  return may && tn__extent(x) > 1 && !tn__bounds_loops(&p->r, k);
}

/* The output whose turns share most, or -1 */
/* a choice: no is right */
static int find_output(double near, const tn__survey *p, const tn_node *sum) {
  double most = SHARED_BYTES;
  int best = -1;
  if (tn__volume(p, tn__own_of(&p->r, sum)) < FEWEST_TERMS) return -1;
  for (uint32_t k = 0; k < p->r.n; k++) {
    if (!may_be_jammed(p, sum, k) || tn__extent(p->r.range[k]) < FEWEST) continue;
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

/* The outputs' loops that several turns are taken of at once, and how many of each, 1 where there is no such loop */
typedef struct jammed {
  uint32_t loop[2];
  int64_t turns[2];
} jammed;

/* As many turns of a patch as leave no more than a fourth of the work to those beyond the last one */
/* a choice: any is right */
static int64_t turns_for(const tn_node *x) {
  double size = tn__extent(x), n = TOGETHER;
  while (n > 1 && ceil(size / n) * n * TOGETHER > size * (TOGETHER + 1)) n--;
  return (int64_t)n;
}

/* Loads for a term of the sum, where so many turns of two loops share them; 0: it has none that hang on one of them,
 * none that hang on the other, or some that hang on both */
/* a choice: either is right */
static double loads_of_term(const tn__survey *p, const tn_node *sum, const jammed *of) {
  double loads = 0;
  bool hangs[2] = {false, false};
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t free = tn__free_of(&p->r, n);
    if (n->op != OP_LOAD || !(free & tn__own_of(&p->r, sum))) continue;
    bool on[2] = {free >> of->loop[0] & 1, free >> of->loop[1] & 1};
    if (on[0] && on[1]) return 0;
    hangs[0] |= on[0], hangs[1] |= on[1];
    loads += 1 / ((on[0] ? 1 : (double)of->turns[0]) * (on[1] ? 1 : (double)of->turns[1]));
  }
  return hangs[0] && hangs[1] ? loads : 0;
}

/* Is what is done for a term of the sum so little that it waits for its loads? */
/* a choice: either is right */
static bool is_cheap(const tn__survey *p, const tn_node *sum) {
  double work = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    bool of_term = tn__is_elementwise(n) && n->dtype != TN__INDEX && (tn__free_of(&p->r, n) & tn__own_of(&p->r, sum));
    if (of_term) work += tn__ops[n->op].cost;
  }
  return work <= CHEAP_TERM;
}

/* The two loops whose turns share most of what the sum loads */
/* a choice: no is right */
static bool find_pairs(const tn__survey *p, const tn_node *sum, jammed *out) {
  double least = 0;
  for (uint32_t a = 0; a < p->r.n; a++) {
    if (!may_be_jammed(p, sum, a)) continue;
    for (uint32_t b = a + 1; b < p->r.n; b++) {
      if (!may_be_jammed(p, sum, b)) continue;
      jammed of = {{a, b}, {turns_for(p->r.range[a]), turns_for(p->r.range[b])}};
      double loads = loads_of_term(p, sum, &of);
      if (loads > 0 && (least == 0 || loads < least)) least = loads, *out = of;
    }
  }
  return least > 0;
}

/* a choice: no is right */
static bool find_patch(const tn__survey *p, const tn_node *sum, jammed *out) {
  uint64_t own = tn__own_of(&p->r, sum), lanes = 0;
  for (uint32_t k = 0; k < p->r.n; k++)
    if (tn__axis_of(p->r.range[k]) == AX_UPCAST) lanes |= 1ull << k;
  bool along = (own & lanes) && (own & ~lanes), much = tn__volume(p, tn__free_of(&p->r, sum) | own) >= PATCH_TERMS;
  return along && much && !keeps_rows(p) && is_cheap(p, sum) && find_pairs(p, sum, out);
}

/* Those of columns share what they load with few others: one loop is enough. */
/* a choice: no is right */
static jammed find_outputs(const tn__lowering *l, const tn__survey *p) {
  const tn_node *sum = only_sum(p);
  jammed of = {{0, 0}, {1, 1}};
  if (!sum || find_patch(p, sum, &of)) return of;
  int one = find_output(l->target->near, p, sum);
  if (one >= 0 && has_room(l, p, (uint32_t)one)) of = (jammed){{(uint32_t)one, 0}, {TOGETHER, 1}};
  return of;
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
static tn_node *several(tn__lowering *l, tn_node *body, tn_node *x, int64_t turns) {
  tn_ctx *c = l->c;
  tn__survey p;
  tn__nodes store = {0};
  tn__survey_loops(c, l->a, body, &p);
  tn_node *size = x->src[0], *up = tn__add(c, size, tn__int(c, turns - 1));
  int64_t known = 0, left = tn__const_int(size, &known) ? known % turns : tn__divisible(size, turns) ? 0 : 1;
  tn__sb_printf(&l->note, " jam(%lld,%lld)", tn__id_of(x), (long long)turns);
  tn_node *outer = tn__range_like(c, x, tn__simplify_index(c, tn__op2(c, OP_IDIV, up, tn__int(c, turns))), AX_LOOP);
  for (int64_t i = 0; i < turns; i++) {
    tn_node *at = tn__add(c, tn__mul(c, outer, tn__int(c, turns)), tn__int(c, i));
    bool beyond = left && i >= left; /* in the last turn of the outer loop */
    tn_node *last = beyond ? tn__op2(c, OP_MIN, at, tn__add(c, size, tn__int(c, -1))) : at;
    tn_node *all = body_at(l, &p, body, x, last, outer, !i);
    for (uint32_t s = 0; s < all->nsrc; s++)
      tn__vec_push(l->a, &store, beyond ? gated(c, all->src[s], tn__op2(c, OP_LT, at, size)) : all->src[s]);
  }
  return tn__sink(c, store.v, store.n, body->name);
}

/* Is all that hangs on loop j turned, if the turns of `line` go through it again? */
/* a choice: no is right */
static bool is_turned(const tn__survey *p, const tn_node *sum, uint32_t j, uint32_t line) {
  uint64_t own = tn__own_of(&p->r, sum);
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((own >> k & 1) && !tn__is_const(p->r.range[k]->src[0])) return false;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    int64_t step = tn__is_access(n) ? tn__stride(&p->r, n->src[1], j) : 0;
    if (n->op == OP_STORE && step != 1) return false;
    if (n->op == OP_LOAD && (n->src[0]->op != OP_PARAM || step == TN__IRREGULAR)) return false;
  }
  return tn__is_even(p, line);
}

/* a choice: any is right */
int tn__columns_of_pairs(const tn__lowering *l, const tn__survey *p, uint64_t columns) {
  const tn_node *sum = only_sum(p);
  jammed of;
  if (!sum || !find_pairs(p, sum, &of)) return -1;
  double size = (double)tn__size_of(sum->dtype), lanes = l->target->lane_bytes / fmax(size, sizeof(float));
  double terms = tn__volume(p, tn__own_of(&p->r, sum)), vector = lanes / 2;
  double least = ceil(terms / vector) + MEETING;
  int best = -1;
  if (terms * l->target->lane_bytes > (double)l->target->near) return -1;
  for (int s = 0; s < 2; s++) {
    uint32_t j = of.loop[s], line = of.loop[!s];
    double outputs = tn__extent(p->r.range[j]), lines = tn__extent(p->r.range[line]);
    double filled = ceil(outputs / lanes) * lanes / outputs, turned = TURNED * terms / fmin(lines, LINES);
    double across = terms / vector * filled * (filled > 1 ? ASKED : 1) + turned;
    if (!(columns >> j & 1) || lines < FEWEST || across >= least || !is_turned(p, sum, j, line)) continue;
    least = across, best = (int)j;
  }
  return best;
}

/* a choice: any is right */
int64_t tn__patch_of_sums(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  jammed of = find_outputs(l, &p);
  return of.turns[1] > 1 ? of.turns[0] * of.turns[1] : 0;
}

tn_node *tn__jam(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  jammed of = find_outputs(l, &p);
  for (int s = 0; s < 2; s++)
    if (of.turns[s] > 1) body = several(l, body, p.r.range[of.loop[s]], of.turns[s]);
  return body;
}
