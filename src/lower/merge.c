/* Two loops as one, where everything walks through both as through one.
 *
 * Short rows that go on in memory, as those of a few channels, are one loop but for what is the same in each of them: a
 * bias, a scale.  On devices whose lanes are those of vectors that stands in scratch memory as often as it takes for
 * whole vectors, and blocks of rows are gone through as one loop (`repeat`).  Where it is the rows that differ by it,
 * as the few places of each channel do, it stands there once for each element of them all (`spread`).  Where rows are
 * shorter yet, or what is computed in them hangs on which row it is, they are one loop whose elements work that out,
 * and what does not lie along memory each fetches for itself (`fetch`). */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

enum {
  COPIES = 128,      /* elements of all copies of a row, about: many for each vector, and few to fill */
  MIN_BLOCKS = 4,    /* of copies: fewer would not pay for these */
  MIN_SPREAD = 64,   /* uses of what is spread: each thread fills it some times */
  SPREAD_SHARE = 4,  /* of what a thread caches for itself, in all */
  PLACE = 6          /* additions that a quotient, or a remainder, takes of a counter */
};

/* The ranges on which nodes hang otherwise than by what is loaded there: an index from memory hangs on where it was. */
static tn__ranges outside_of_loads(tn__arena *a, const tn__ranges *r) {
  tn__ranges direct = *r;
  direct.free = tn__arena_alloc(a, r->order.n * sizeof *direct.free);
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    uint64_t set = n->op == OP_RANGE ? tn__free_of(r, n) : 0;
    bool loaded = n->op == OP_LOAD && n->src[0]->op == OP_PARAM;
    for (uint32_t s = 0; s < n->nsrc && !loaded; s++) set |= tn__free_of(&direct, n->src[s]);
    direct.free[i] = set;
  }
  return direct;
}

/* What makes other loops worth having: counts of work are no better than that */
static const double GAIN = 1.25;

/* Does an index step through range a as through whole turns of b? */
/* a choice: no is right */
static bool steps_through(const tn__ranges *r, const tn_node *x, uint32_t a, uint32_t b, int64_t turn) {
  int64_t sa = tn__stride(r, x, a), sb = tn__stride(r, x, b), by;
  return sa != TN__IRREGULAR && sb != TN__IRREGULAR && !__builtin_mul_overflow(sb, turn, &by) && sa == by;
}

/* May range b (inner) swallow range a (outer)?  Every access must step through a as through whole turns of b, and so
 * must whatever else looks at them, as the number of a random element does; but for the values in `apart`. */
/* a choice: no is right */
static bool mergeable(const tn__ranges *r, const tn__ranges *direct, uint32_t a, uint32_t b, const tn__map *apart) {
  int64_t turn;
  if (!tn__const_int(r->range[b]->src[0], &turn)) return false;
  uint64_t both = 1ull << a | 1ull << b;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    uint64_t own = tn__own_of(r, n) & both;
    if (own && own != both) return false;
    if (apart && tn__map_getp(apart, n)) continue;
    uint32_t first = n->nsrc;
    tn__closes(n, &first);
    for (uint32_t s = 0; s < n->nsrc; s++) {
      const tn_node *x = n->src[s];
      if (!(tn__free_of(r, x) & both)) continue;
      if (tn__is_access(n) && s == 1) {
        if (!steps_through(direct, x, a, b, turn)) return false;
        continue;
      }
      bool closing = tn__closes(n, &first) && s >= first && x->op == OP_RANGE;
      bool value = !closing && x->dtype == TN__INDEX && n->dtype != TN__INDEX;
      if (value && !steps_through(direct, x, a, b, turn)) return false;
      bool gates = tn__is_access(n) && x == tn__gate_of(n);
      if (gates && (tn__free_of(direct, x) & both)) return false; /* it looks at them */
    }
  }
  return true;
}

static tn_node *drop_range(tn_ctx *c, const tn__ranges *r, tn_node *body, tn_node *gone) {
  tn__nodes old = {0}, new_ = {0};
  for (uint32_t i = 0; i < r->order.n; i++) {
    tn_node *n = r->order.v[i];
    uint32_t first, m;
    if (!tn__closes(n, &first)) continue;
    tn_node *src[TN__MAX_RANGES + 4];
    for (uint32_t s = m = 0; s < n->nsrc; s++)
      if (s < first || n->src[s] != gone) src[m++] = n->src[s];
    if (m == n->nsrc) continue;
    tn__vec_push(&c->scratch, &old, n);
    tn_node *shorter = tn__node_make(
        c, &(tn__make){.op = n->op, .dtype = n->dtype, .src = src, .nsrc = m, .ints = n->ints, .nint = n->nint});
    tn__vec_push(&c->scratch, &new_, shorter);
  }
  return tn__substitute(c, body, old.v, new_.v, old.n);
}

/* One merge; false when there is none left. */
static bool merge(tn__lowering *l, tn_node **body) {
  tn_ctx *c = l->c;
  tn__ranges r;
  tn__ranges_find(c, l->a, *body, &r);
  tn__ranges direct = outside_of_loads(l->a, &r);
  for (uint32_t i = 0; i < r.n; i++)
    for (uint32_t j = 0; j < r.n; j++) {
      if (i == j || tn__axis_of(r.range[i]) != tn__axis_of(r.range[j]) || !mergeable(&r, &direct, i, j, NULL)) continue;
      tn_node *x = r.range[i], *y = r.range[j], *zero = tn__int(c, 0);
      tn_node *flat = tn__range_like(c, y, tn__mul(c, x->src[0], y->src[0]), tn__axis_of(y));
      tn__sb_printf(&l->note, " merge(%lld,%lld)", tn__id_of(x), tn__id_of(y));
      /* the outer range vanishes from the closers, then from the indices; the inner one takes over both extents */
      tn_node *mark = tn__range(c, x->src[0], tn__axis_of(x), ROLE_MARK, l->next_range);
      *body = tn__substitute(c, *body, &x, &mark, 1);
      tn__ranges_find(c, l->a, *body, &r);
      *body = drop_range(c, &r, *body, mark);
      *body = tn__substitute(c, *body, (tn_node *[]){mark, y}, (tn_node *[]){zero, flat}, 2);
      return true;
    }
  return false;
}

tn_node *tn__merge_loops(tn__lowering *l, tn_node *body) {
  while (merge(l, &body)) continue;
  return body;
}

/* ---- short rows ---- */

typedef struct rows {
  tn__lowering *l;
  tn__survey p;
  uint32_t outer, inner;
  int64_t length;
  /* Is n a value that may differ from what steps through both loops as through one? */
  bool (*apart)(const struct rows *w, const tn_node *n);
  bool once; /* it is kept for all turns of other loops, not anew in each of them */
} rows;

/* The same in all turns of the outer loop, but not of the inner one */
static bool is_alike(const rows *w, const tn_node *n) {
  uint64_t free = tn__free_of(&w->p.r, n);
  return n->dtype != TN__INDEX && (free >> w->inner & 1) && !(free >> w->outer & 1);
}

/* The same in all turns of the inner loop, and of so many outputs that it pays to keep it for these, but not of the
 * outer one */
/* a choice: no is right */
static bool is_spread(const rows *w, const tn_node *n) {
  const tn__survey *p = &w->p;
  uint64_t free = tn__free_of(&p->r, n), kept = free | 1ull << w->inner;
  if (n->dtype == TN__INDEX || !(free >> w->outer & 1) || (free >> w->inner & 1) || tn__level_of(&p->r, n))
    return false;
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((free >> k & 1) && !tn__is_const(p->r.range[k]->src[0])) return false;
  return tn__volume(p, p->outputs & ~kept) >= MIN_SPREAD;
}

/* Elements of the widest type in a vector: lanes are enough for two (lane_bytes) */
/* a choice: any is right */
static int64_t vector_of(const rows *w) {
  size_t size = sizeof(float);
  for (uint32_t i = 0; i < w->p.r.order.n; i++) {
    const tn_node *n = w->p.r.order.v[i];
    bool value = n->dtype != TN__INDEX && n->dtype < TN_DTYPE_COUNT;
    if (value && tn__size_of(n->dtype) > size) size = tn__size_of(n->dtype);
  }
  return w->l->target->lane_bytes / 2 / (int64_t)size;
}

/* Rows along memory that leave many lanes of their last vectors empty */
/* a choice: no is right */
static bool are_short(rows *w, uint32_t outer, uint32_t inner) {
  const tn__ranges *r = &w->p.r;
  if (outer == inner || tn__axis_of(r->range[outer]) != tn__axis_of(r->range[inner])) return false;
  if (!tn__const_int(r->range[inner]->src[0], &w->length) || tn__bounds_loops(r, outer) || tn__bounds_loops(r, inner))
    return false;
  int64_t vector = vector_of(w), vectors = (w->length + vector - 1) / vector, lanes = vectors * vector;
  w->outer = outer, w->inner = inner;
  return w->length > 1 && w->length <= COPIES / 2 && 5 * w->length <= 4 * lanes && tn__walk_score(&w->p, inner) > 0;
}

/* ... and go on as one */
/* a choice: no is right */
static bool are_rows(rows *w, uint32_t outer, uint32_t inner) {
  const tn__ranges *r = &w->p.r;
  tn__map apart;
  if (!are_short(w, outer, inner)) return false;
  tn__map_init(&apart, w->l->a);
  for (uint32_t i = 0; i < r->order.n; i++)
    if (w->apart(w, r->order.v[i])) tn__map_putp(&apart, r->order.v[i], r->order.v[i]);
  tn__ranges direct = outside_of_loads(w->l->a, r);
  return mergeable(r, &direct, outer, inner, &apart);
}

/* What is apart and meets what is not */
static tn__nodes list_kept(const rows *w) {
  const tn__ranges *r = &w->p.r;
  tn__nodes out = {0};
  tn__map seen;
  tn__map_init(&seen, w->l->a);
  for (uint32_t i = 0; i < r->order.n; i++)
    for (uint32_t s = 0; s < r->order.v[i]->nsrc; s++) {
      tn_node *n = r->order.v[i], *from = n->src[s];
      if (n->dtype == TN__INDEX || w->apart(w, n) || !w->apart(w, from) || tn__map_getp(&seen, from)) continue;
      tn__map_putp(&seen, from, from);
      tn__vec_push(w->l->a, &out, from);
    }
  return out;
}

/* That stands in scratch memory, for each turn of these two loops, and of others if it is kept once for all of them. */
static tn_node *keep_apart(const rows *w, tn_node *body) {
  const tn__ranges *r = &w->p.r;
  tn__nodes old = list_kept(w), new_ = {0};
  for (uint32_t i = 0; i < old.n; i++) {
    tn_node *x[TN__MAX_RANGES];
    uint32_t count = 0;
    for (uint32_t k = 0; k < r->n && w->once; k++)
      if ((tn__free_of(r, old.v[i]) >> k & 1) && k != w->outer && k != w->inner) x[count++] = r->range[k];
    x[count++] = r->range[w->outer];
    x[count++] = r->range[w->inner];
    tn__vec_push(w->l->a, &new_, tn__kept_over(w->l, old.v[i], x, count, NULL));
  }
  return tn__substitute(w->l->c, body, old.v, new_.v, old.n);
}

/* ---- repeat ---- */

/* How many copies fill vectors, if there are blocks enough for these; 0 */
/* a choice: no is right */
static int64_t count_copies(const rows *w) {
  int64_t vector = vector_of(w), copies = (COPIES / w->length + vector - 1) / vector * vector;
  return tn__extent(w->p.r.range[w->outer]) >= (double)(MIN_BLOCKS * copies) ? copies : 0;
}

/* a choice: no is right */
static int64_t find_copies(rows *w) {
  for (uint32_t i = 0; i < w->p.r.n; i++)
    for (uint32_t j = 0; j < w->p.r.n; j++)
      if (tn__axis_of(w->p.r.range[i]) == AX_LOOP && are_rows(w, i, j)) return count_copies(w);
  return 0;
}

tn_node *tn__repeat(tn__lowering *l, tn_node *body) {
  rows w = {.l = l, .apart = is_alike};
  tn_node *cut[2], *one;
  tn__survey_loops(l->c, l->a, body, &w.p);
  int64_t copies = tn__is_by_element(&w.p) ? find_copies(&w) : 0;
  if (!copies) return NULL;
  tn_node *turns = w.p.r.range[w.outer], *x = w.p.r.range[w.inner];
  tn__sb_printf(&l->note, " repeat(%lld,%lld)", tn__id_of(turns), tn__id_of(x));
  body = tn__cut(l, body, turns, copies, AX_LOOP, AX_LOOP, cut);
  tn__survey_loops(l->c, l->a, body, &w.p);
  w.outer = (uint32_t)tn__range_at(&w.p.r, cut[1]), w.inner = (uint32_t)tn__range_at(&w.p.r, x);
  body = keep_apart(&w, body);
  body = tn__as_one(l, body, (tn_node *[]){cut[1], x}, 2, AX_UPCAST, &one);
  return tn__share_out(l, body, NULL);
}

/* ---- spread ---- */

/* Nowhere in place: what is kept is loaded before anything is stored. */
/* a choice: no is right */
static bool may_load_before(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_STOREADD || n->op == OP_LOCAL || n->op == OP_AFTER) return false;
  }
  return !tn__reads_results(p);
}

/* Does all that is kept leave room for what passes? */
/* a choice: no is right */
static bool has_room(const rows *w) {
  tn__nodes kept = list_kept(w);
  double bytes = 0;
  for (uint32_t i = 0; i < kept.n; i++)
    bytes += tn__volume(&w->p, tn__free_of(&w->p.r, kept.v[i]) | 1ull << w->inner) *
             (double)tn__size_of(kept.v[i]->dtype);
  return bytes * SPREAD_SHARE <= w->l->target->near;
}

/* a choice: no is right */
static bool find_spread(rows *w) {
  for (uint32_t i = 0; i < w->p.r.n; i++)
    for (uint32_t j = 0; j < w->p.r.n; j++) {
      int axis = tn__axis_of(w->p.r.range[i]);
      if ((axis == AX_LOOP || axis == AX_REDUCE) && tn__is_const(w->p.r.range[i]->src[0]) && are_rows(w, i, j) &&
          has_room(w))
        return true;
    }
  return false;
}

tn_node *tn__spread_rows(tn__lowering *l, tn_node *body) {
  rows w = {.l = l, .apart = is_spread, .once = true};
  tn_node *one;
  tn__survey_loops(l->c, l->a, body, &w.p);
  if (!may_load_before(&w.p) || !find_spread(&w)) return body;
  tn_node *turns = w.p.r.range[w.outer], *x = w.p.r.range[w.inner];
  tn__sb_printf(&l->note, " spread(%lld,%lld)", tn__id_of(turns), tn__id_of(x));
  return tn__as_one(l, keep_apart(&w, body), (tn_node *[]){turns, x}, 2, tn__axis_of(x), &one);
}

/* ---- fetch ---- */

/* Is it loaded, or stored, element by element: in rows, or in the one loop of them all? */
/* a choice: any is right */
static bool is_fetched(const rows *w, const tn_node *n, bool as_one) {
  if (!tn__is_access(n)) return false;
  const tn_node *at = n->src[1];
  int64_t step = tn__stride(&w->p.r, at, w->inner);
  bool alike = !(tn__free_of(&w->p.r, at) >> w->outer & 1) && !step;
  return !alike && (as_one ? step != 1 || !steps_through(&w->p.r, at, w->outer, w->inner, w->length) : step & ~1ll);
}

/* Does it look at which row it is, or where in its row, otherwise than by walking along all rows, or comparing rows? */
/* a choice: any is right */
static bool asks_for_place(const rows *w, const tn_node *n) {
  uint64_t both = 1ull << w->outer | 1ull << w->inner;
  bool compares = (n->op == OP_LT || n->op == OP_LE) && !(tn__free_of(&w->p.r, n) >> w->inner & 1);
  uint32_t first = n->nsrc;
  if (!tn__closes(n, &first)) first = n->nsrc;
  for (uint32_t s = 0; s < first && n->dtype != TN__INDEX && !compares; s++) {
    const tn_node *x = n->src[s];
    bool index = x->dtype == TN__INDEX && (tn__free_of(&w->p.r, x) & both);
    if (index && !steps_through(&w->p.r, x, w->outer, w->inner, w->length)) return true;
  }
  return false;
}

/* What an element of a row takes: of rows whose vectors are full in part, or of one loop, in which some of what it
 * needs is fetched by itself */
/* a choice: any is right */
static double work_of_element(const rows *w, bool as_one) {
  double vector = (double)vector_of(w), length = (double)w->length, vectors = ceil(length / vector), work = 0;
  bool asks = false;
  for (uint32_t i = 0; i < w->p.r.order.n; i++) {
    const tn_node *n = w->p.r.order.v[i];
    uint64_t set = tn__free_of(&w->p.r, n) | tn__own_of(&w->p.r, n);
    bool in_row = set >> w->inner & 1, of_row = set >> w->outer & 1;
    if (n->dtype == TN__INDEX || n->op == OP_SINK || (!in_row && !of_row)) continue;
    double cost = tn__ops[n->op].cost;
    asks |= asks_for_place(w, n);
    work += as_one ? cost / vector : cost * (in_row ? vectors : 1) / length;
    if ((in_row || as_one) && is_fetched(w, n, as_one)) work += TN__FETCHED;
  }
  return asks && as_one ? work + 2 * PLACE / vector : work;
}

/* a choice: no is right */
static bool find_fetched(rows *w) {
  for (uint32_t i = 0; i < w->p.r.n; i++)
    for (uint32_t j = 0; j < w->p.r.n; j++)
      if (tn__is_even(&w->p, i) && tn__is_even(&w->p, j) && are_short(w, i, j) &&
          work_of_element(w, true) * GAIN < work_of_element(w, false))
        return true;
  return false;
}

tn_node *tn__fetch(tn__lowering *l, tn_node *body, tn_node **one) {
  for (;;) {
    rows w = {.l = l};
    tn__survey_loops(l->c, l->a, body, &w.p);
    if (!tn__is_by_element(&w.p) || !find_fetched(&w)) return body;
    tn_node *turns = w.p.r.range[w.outer], *x = w.p.r.range[w.inner];
    tn__sb_printf(&l->note, " fetch(%lld,%lld)", tn__id_of(turns), tn__id_of(x));
    body = tn__as_one(l, body, (tn_node *[]){turns, x}, 2, AX_LOOP, one);
  }
}
