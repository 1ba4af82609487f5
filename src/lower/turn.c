/* What is loaded across the way in which lanes go, for devices whose lanes are those of vectors: it is turned on its
 * way through scratch memory.
 *
 * Copies, and what is computed with them element by element: what is loaded lies along one loop, what is stored along
 * another.
 * Both loops are cut into tiles that a thread's cache holds.  In each tile, what is loaded across is first copied to
 * scratch memory along the way in which it lies, every line once and whole; then it is computed and stored along the
 * other, from there.  A loop of few turns stands whole inside of blocks of the other one, along which the lanes are: so
 * the lines that they use in part are there for its next turn, and scratch memory would gain nothing. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { LINES = 64 }; /* of a block: few enough for threads to share out, and many for each column to pay */

typedef struct turn {
  tn__lowering *l;
  tn__survey p;
  int from, to;             /* ranges: along them lies what is loaded across, and what is stored */
  double bytes;             /* of an element of all that is loaded across */
  int64_t from_side, to_side; /* of a tile */
} turn;

/* May its iterations be shared out in any order, all alike? */
/* a choice: no is right */
static bool is_even(const tn__survey *p, uint32_t j) {
  return (p->common >> j & 1) && tn__axis_of(p->r.range[j]) == AX_LOOP && !tn__bounds_loops(&p->r, j) &&
         !(tn__free_of(&p->r, p->r.range[j]) & ~(1ull << j));
}

/* The range along which everything is stored; -1 */
/* a choice: no is right */
static int stored_along(const tn__survey *p) {
  for (uint32_t j = 0; j < p->r.n; j++) {
    bool all = is_even(p, j);
    for (uint32_t i = 0; i < p->r.order.n && all; i++) {
      const tn_node *n = p->r.order.v[i];
      if (n->op == OP_STORE) all = tn__stride(&p->r, n->src[1], j) == 1;
    }
    if (all) return (int)j;
  }
  return -1;
}

static bool is_across(const tn__survey *p, const tn_node *n, uint32_t from, uint32_t to) {
  if (n->op != OP_LOAD || n->src[0]->op != OP_PARAM) return false;
  int64_t step = tn__stride(&p->r, n->src[1], to);
  return step != 0 && step != 1 && tn__stride(&p->r, n->src[1], from) == 1;
}

/* Element by element, nowhere in place: by another order of its loops it would not read what it wrote. */
/* a choice: no is right */
static bool is_plain(const tn__survey *p) {
  uint64_t all = p->outputs;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_REDUCE || n->op == OP_STOREADD || n->op == OP_LOCAL || n->op == OP_AFTER) return false;
    if (n->op != OP_STORE) continue;
    if (tn__own_of(&p->r, n) != all) return false;
    for (uint32_t k = 0; k < p->r.order.n; k++)
      if (p->r.order.v[k]->op == OP_LOAD && p->r.order.v[k]->src[0] == n->src[0]) return false;
  }
  return true;
}

/* The loop along which most is loaded across, if any is */
/* a choice: no is right */
static bool find(turn *t) {
  const tn__survey *p = &t->p;
  double most = 0;
  t->to = is_plain(p) ? stored_along(p) : -1;
  for (uint32_t j = 0; j < p->r.n && t->to >= 0; j++) {
    double bytes = 0;
    if ((int)j == t->to || !is_even(p, j)) continue;
    for (uint32_t i = 0; i < p->r.order.n; i++)
      if (is_across(p, p->r.order.v[i], j, (uint32_t)t->to)) bytes += (double)tn__size_of(p->r.order.v[i]->dtype);
    if (bytes > most) most = bytes, t->from = (int)j;
  }
  t->bytes = most;
  return most > 0;
}

/* Squares, or as much longer as the other side is shorter than that, of half of what a thread's cache holds: the rest
 * is for lines on their way. */
/* a choice: any is right */
static void find_sides(turn *t) {
  double room = t->l->target->near / 2, from = tn__extent(t->p.r.range[t->from]),
         to = tn__extent(t->p.r.range[t->to]);
  int64_t side = 1;
  while (4 * (double)side * (double)side * t->bytes <= room) side *= 2;
  t->from_side = t->to_side = side;
  while (to < (double)side && 2 * (double)t->from_side * to * t->bytes <= room) t->from_side *= 2;
  while (from < (double)side && 2 * (double)t->to_side * from * t->bytes <= room) t->to_side *= 2;
}

/* The loop inside of a tile, of this axis */
static tn_node *within(turn *t, tn_node **body, tn_node *x, int64_t side, int axis) {
  int64_t size;
  tn_node *cut[2];
  if (tn__const_int(x->src[0], &size) && size <= side) {
    tn_node *whole = tn__range_like(t->l->c, x, x->src[0], axis);
    *body = tn__substitute(t->l->c, *body, &x, &whole, 1);
    return whole;
  }
  *body = tn__cut(t->l, *body, x, side, AX_LOOP, axis, cut);
  return cut[1];
}

/* What is loaded across, from scratch memory that is filled along `from` */
static tn_node *by_tiles(turn *t, tn_node *body, tn_node *from, tn_node *to) {
  tn__nodes old = {0}, new_ = {0};
  tn__survey p;
  tn__survey_loops(t->l->c, t->l->a, body, &p);
  uint32_t i = (uint32_t)tn__range_at(&p.r, from), j = (uint32_t)tn__range_at(&p.r, to);
  for (uint32_t k = 0; k < p.r.order.n; k++) {
    if (!is_across(&p, p.r.order.v[k], i, j)) continue;
    tn__vec_push(t->l->a, &old, p.r.order.v[k]);
    tn__vec_push(t->l->a, &new_, tn__kept_over(t->l, p.r.order.v[k], (tn_node *[]){to, from}, 2));
  }
  return tn__substitute(t->l->c, body, old.v, new_.v, old.n);
}

tn_node *tn__turn(tn__lowering *l, tn_node *body) {
  turn t = {.l = l};
  tn__survey_loops(l->c, l->a, body, &t.p);
  if (l->target->near <= 0 || !find(&t)) return NULL;
  find_sides(&t);
  tn_node *x = t.p.r.range[t.from], *y = t.p.r.range[t.to];
  double few = (double)l->target->lane_bytes / 4 / (double)sizeof(float);
  bool thin = tn__extent(x) < few, flat = tn__extent(y) < few; /* a choice: any is right */
  bool alone = tn__extent(x) <= (double)t.from_side && tn__extent(y) <= (double)t.to_side &&
               !(t.p.outputs & ~(1ull << t.from | 1ull << t.to));
  if (alone || (thin && flat)) return NULL; /* a choice: no is right */
  tn__sb_printf(&l->note, " turn(%lld,%lld)", tn__id_of(x), tn__id_of(y));
  tn_node *from = within(&t, &body, x, t.from_side, flat ? AX_UPCAST : AX_LOOP),
          *to = within(&t, &body, y, t.to_side, flat ? AX_LOOP : AX_UPCAST);
  if (!thin && !flat) body = by_tiles(&t, body, from, to);
  return tn__share_out(l, body, flat ? to : from);
}

/* ---- columns ---- */

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

/* a choice: no is right */
static bool find_lines(columns *k) {
  double most = 1;
  for (uint32_t i = 0; i < k->p.r.order.n; i++)
    if (k->p.r.order.v[i]->op == OP_STOREADD || k->p.r.order.v[i]->op == OP_AFTER) return false;
  for (uint32_t j = 0; j < k->p.r.n; j++) {
    double bytes = 0;
    if (!is_even(&k->p, j) || tn__extent(k->p.r.range[j]) <= most) continue;
    for (uint32_t i = 0; i < k->p.r.order.n; i++)
      if (is_same(k, k->p.r.order.v[i], j)) bytes += bytes_of(k, k->p.r.order.v[i]);
    if (bytes > 0) most = tn__extent(k->p.r.range[j]), k->line = (int)j, k->bytes = bytes;
  }
  return most > 1;
}

/* The load over all that its reductions go through, in the order of lanes */
static tn_node *from_columns(tn__lowering *l, const columns *k, tn_node *n) {
  tn_ctx *c = l->c;
  tn_node *lane = k->p.r.range[k->lane], *old[TN__MAX_RANGES], *own[TN__MAX_RANGES];
  tn_node *from = tn__int(c, 0), *to = from;
  uint32_t count = 0;
  int64_t size = lane->hi + 1;
  for (uint32_t i = 0; i < k->p.r.n; i++) {
    tn_node *x = k->p.r.range[i];
    if (!(reduced_in(k, n) >> i & 1)) continue;
    old[count] = x;
    own[count] = tn__fresh_range(l, x->src[0], AX_REDUCE, ROLE_KEPT);
    from = tn__add(c, tn__mul(c, from, x->src[0]), own[count++]);
    to = tn__add(c, tn__mul(c, to, x->src[0]), x);
    size *= x->hi + 1;
  }
  tn_node *width = tn__int(c, lane->hi + 1), *value = tn__substitute(c, n, old, own, count);
  tn_node *filled = tn__filled(c, tn__scratch(l, n->dtype, size), tn__add(c, tn__mul(c, from, width), lane), value,
                               own, count);
  to = tn__add(c, tn__mul(c, to, width), lane);
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){filled, to}, .nsrc = 2});
}

tn_node *tn__turn_columns(tn__lowering *l, tn_node *body) {
  columns k = {0};
  turn t = {.l = l};
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
  line = within(&t, &body, line, LINES, AX_LOOP);
  return tn__share_out(l, body, line);
}
