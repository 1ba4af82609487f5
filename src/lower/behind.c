/* What is stored behind reductions, of columns say, for devices whose lanes are those of vectors: the values of a
 * column are worked out once for all of its elements, and few columns' elements are shared out by blocks.
 *
 *   column(op)      a value that is the same for all elements of a lane's column stands in scratch memory
 *   blocks(a,n)     threads share out n blocks of loop a, each of which makes what stands outside of it anew
 *
 * Lanes are of vector loops: what is computed in one is written out for each loop over lanes that wants it, so that a
 * logarithm of each column's sum would be taken anew for each element. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

enum {
  THREADS = 16, /* that are assumed: the mapping does not hang on how many there are */
  LEAST_WORK = 40000, /* additions, for waking two of them */
  MUCH_AGAIN = 4, /* a share of all work that may be done again: were there fewer threads, it would not pay */
  DEAR = 4        /* additions that are worth a load for each element */
};
/* What is worth more loops: counts of work are no better than that */
static const double GAIN = 1.25;

/* The loops of stores that nothing which is reduced hangs on, and no length of another loop */
static uint64_t loops_behind(const tn__survey *p) {
  uint64_t set = p->outputs;
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_REDUCE) set &= ~tn__free_of(&p->r, p->r.order.v[i]);
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((set >> k & 1) && (tn__bounds_loops(&p->r, k) || tn__free_of(&p->r, p->r.range[k]) != 1ull << k))
      set &= ~(1ull << k);
  return set;
}

/* Stores to buffers alone, nothing that runs along loops, and nothing that is read where it is stored */
/* a choice: no is right */
static bool are_plain(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++)
    if (p->r.order.v[i]->op == OP_STOREADD || p->r.order.v[i]->op == OP_RUNNING) return false;
  return p->reduces && !tn__reads_results(p);
}

/* ---- the values of columns ---- */

/* The loop over lanes that all stores stand in, none of which is without a loop of the set; -1 */
/* a choice: no is right */
static int lane_of(const tn__survey *p, const tn_node *part, uint64_t behind) {
  uint64_t lanes = ~0ull;
  for (uint32_t i = 0; i < part->nsrc; i++) {
    uint64_t own = tn__own_of(&p->r, part->src[i]);
    if (part->src[i]->op != OP_STORE || !(own & behind)) return -1;
    lanes &= own;
  }
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((lanes >> k & 1) && tn__axis_of(p->r.range[k]) == AX_UPCAST) return (int)k;
  return -1;
}

typedef struct kept {
  tn__nodes value;
  double cost; /* of what is worked out again and again, for an element */
} kept;

/* Is n a value of a lane's column? */
static bool is_of_column(const tn__survey *p, const tn_node *n, int lane, uint64_t behind) {
  uint64_t free = tn__free_of(&p->r, n);
  bool value = n->op != OP_AFTER && n->dtype != TN__INDEX && n->dtype < TN_DTYPE_COUNT;
  return value && (free >> lane & 1) && !(free & behind);
}

/* What is worked out of a column's values once they are reduced or loaded: marks that are not to be counted again */
static double cost_of(tn__arena *a, const tn__survey *p, const tn_node *value, int lane, uint64_t behind,
                      tn__map *seen) {
  struct {
    const tn_node **v;
    uint32_t n, cap;
  } todo = {0};
  double cost = 0;
  tn__vec_push(a, &todo, value);
  while (todo.n) {
    const tn_node *n = todo.v[--todo.n];
    bool made = n->op != OP_REDUCE && n->op != OP_LOAD && is_of_column(p, n, lane, behind);
    if (!made || tn__map_getp(seen, n)) continue;
    tn__map_putp(seen, n, (tn_node *)n);
    cost += tn__ops[n->op].cost;
    for (uint32_t s = 0; s < n->nsrc; s++) tn__vec_push(a, &todo, n->src[s]);
  }
  return cost;
}

/* Values of columns that elements are made of, or that are stored for each of them */
static kept find_kept(tn__arena *a, const tn__survey *p, int lane, uint64_t behind) {
  kept out = {0};
  tn__map listed, seen;
  tn__map_init(&listed, a);
  tn__map_init(&seen, a);
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    bool store = n->op == OP_STORE && tn__buffer_of(n)->op != OP_LOCAL;
    if (!store && !(tn__free_of(&p->r, n) & behind)) continue;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      tn_node *x = n->src[s];
      bool made = x->op != OP_LOAD && x->op != OP_REDUCE; /* else it is at hand */
      if (!made || !is_of_column(p, x, lane, behind) || tn__map_getp(&listed, x)) continue;
      tn__map_putp(&listed, x, x);
      tn__vec_push(a, &out.value, x);
      out.cost += cost_of(a, p, x, lane, behind, &seen);
    }
  }
  return out;
}

/* In scratch memory, each lane its own */
static tn_node *keep(tn__lowering *l, tn_node *part, tn_node *lane, const tn__nodes *value) {
  tn__nodes new_ = {0};
  for (uint32_t i = 0; i < value->n; i++) {
    tn_node *x = value->v[i], *filled = tn__filled(l->c, tn__scratch(l, x->dtype, lane->hi + 1), lane, x, NULL, 0);
    tn__sb_printf(&l->note, " column(%s)", tn__ops[x->op].text);
    tn__vec_push(l->a, &new_, tn__node_make(l->c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){filled, lane},
                                                               .nsrc = 2}));
  }
  return tn__substitute(l->c, part, value->v, new_.v, value->n);
}

tn_node *tn__once_for_columns(tn__lowering *l, tn_node *part) {
  tn__survey p;
  tn__survey_loops(l->c, l->a, part, &p);
  uint64_t behind = loops_behind(&p);
  int lane = are_plain(&p) && behind ? lane_of(&p, part, behind) : -1;
  if (lane < 0) return part;
  kept k = find_kept(l->a, &p, lane, behind);
  return k.cost >= DEAR ? keep(l, part, p.r.range[lane], &k.value) : part;
}

/* ---- blocks of elements ---- */

/* The longest of these loops that all stores to buffers stand in, and nothing else; -1 */
static int loop_behind(const tn__survey *p) {
  uint64_t set = loops_behind(p) & p->common;
  int best = -1;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_STORE && tn__buffer_of(n)->op == OP_LOCAL)
      set &= ~(tn__own_of(&p->r, n) | tn__free_of(&p->r, n));
  }
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((set >> k & 1) && tn__axis_of(p->r.range[k]) == AX_LOOP && tn__is_const(p->r.range[k]->src[0]) &&
        (best < 0 || tn__extent(p->r.range[k]) > tn__extent(p->r.range[best])))
      best = (int)k;
  return best;
}

/* Additions, of what hangs on loop k and of all else */
/* a choice: any is right */
static void work_of(const tn__survey *p, uint32_t k, double *inside, double *outside) {
  *inside = *outside = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    uint64_t free = tn__free_of(&p->r, n);
    double work = n->dtype == TN__INDEX ? 0 : tn__ops[n->op].cost * tn__volume(p, free);
    *(free >> k & 1 ? inside : outside) += work;
  }
}

/* How many blocks threads share out in the least time, if that is less than without them; 1 */
/* a choice: either is right */
static double count_blocks(const tn__survey *p, uint32_t k, double columns) {
  double inside, outside, size = tn__extent(p->r.range[k]), best = 1, least = INFINITY;
  work_of(p, k, &inside, &outside);
  if (inside < LEAST_WORK) return 1;
  for (double n = 1; n <= size && n * columns <= 4 * THREADS; n *= 2) {
    double turns = ceil(n * columns / THREADS), time = turns * (outside + inside / n) / columns;
    if (outside * (n - 1) * MUCH_AGAIN > outside + inside) break;
    if (n == 1) least = time / GAIN;
    else if (time < least) least = time, best = n;
  }
  return best;
}

tn_node *tn__share_behind(tn__lowering *l, tn_node *part) {
  tn__survey p;
  tn_node *x[TN__MAX_RANGES], *cut[2], *one;
  uint32_t n = 1;
  tn__survey_loops(l->c, l->a, part, &p);
  int k = are_plain(&p) ? loop_behind(&p) : -1;
  if (k < 0) return part;
  uint64_t rest = p.common & ~loops_behind(&p); /* what is reduced hangs on these */
  for (uint32_t i = 0; i < p.r.n; i++) {
    if (tn__axis_of(p.r.range[i]) == AX_GLOBAL) return part;
    if (!(rest >> i & 1)) continue;
    if (tn__free_of(&p.r, p.r.range[i]) != 1ull << i || !tn__is_const(p.r.range[i]->src[0])) return part;
    x[n++] = p.r.range[i];
  }
  double blocks = count_blocks(&p, (uint32_t)k, tn__volume(&p, rest)), size = tn__extent(p.r.range[k]);
  if (blocks < 2) return part;
  tn__sb_printf(&l->note, " blocks(%lld,%.0f)", tn__id_of(p.r.range[k]), blocks);
  part = tn__cut(l, part, p.r.range[k], (int64_t)ceil(size / blocks), AX_LOOP, AX_LOOP, cut);
  x[0] = cut[0];
  return n > 1 ? tn__as_one(l, part, x, n, AX_GLOBAL, &one) : tn__retype(l->c, part, cut[0], AX_GLOBAL);
}
