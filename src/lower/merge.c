/* Two loops as one, where everything walks through both as through one.
 *
 * Short rows that go on in memory, as those of a few channels, are one loop but for what is the same in each of them: a
 * bias, a scale.  On devices whose lanes are those of vectors that stands in scratch memory as often as it takes for
 * whole vectors, and blocks of rows are gone through as one loop (`repeat`). */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  COPIES = 128,    /* elements of all copies of a row, about: many for each vector, and few to fill */
  MIN_BLOCKS = 4   /* of copies: fewer would not pay for these */
};

/* Does an index step through range a as through whole turns of b? */
/* a choice: no is right */
static bool steps_through(const tn__ranges *r, const tn_node *x, uint32_t a, uint32_t b, int64_t turn) {
  int64_t sa = tn__stride(r, x, a), sb = tn__stride(r, x, b), by;
  return sa != TN__IRREGULAR && sb != TN__IRREGULAR && !__builtin_mul_overflow(sb, turn, &by) && sa == by;
}

/* Is n a value that is the same in all turns of range a, but not of b? */
static bool is_alike(const tn__ranges *r, const tn_node *n, uint32_t a, uint32_t b) {
  uint64_t free = tn__free_of(r, n);
  return n->dtype != TN__INDEX && (free >> b & 1) && !(free >> a & 1);
}

/* May range b (inner) swallow range a (outer)?  Every access must step through a as through whole turns of b, and so
 * must whatever else looks at them, as the number of a random element does.  `alike`: but for what is alike, where that
 * is a value. */
/* a choice: no is right */
static bool mergeable(const tn__ranges *r, uint32_t a, uint32_t b, bool alike) {
  int64_t turn;
  if (!tn__const_int(r->range[b]->src[0], &turn)) return false;
  uint64_t both = 1ull << a | 1ull << b;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    uint64_t own = tn__own_of(r, n) & both;
    if (own && own != both) return false;
    if (alike && is_alike(r, n, a, b)) continue;
    uint32_t first = n->nsrc;
    tn__closes(n, &first);
    for (uint32_t s = 0; s < n->nsrc; s++) {
      const tn_node *x = n->src[s];
      if (!(tn__free_of(r, x) & both)) continue;
      if (tn__is_access(n) && s == 1) {
        if (!steps_through(r, x, a, b, turn)) return false;
        continue;
      }
      bool closing = tn__closes(n, &first) && s >= first && x->op == OP_RANGE;
      bool value = !closing && x->dtype == TN__INDEX && n->dtype != TN__INDEX;
      if (value && !steps_through(r, x, a, b, turn)) return false;
      if (tn__is_access(n) && x == tn__gate_of(n)) return false; /* a gate looks at them */
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
  for (uint32_t i = 0; i < r.n; i++)
    for (uint32_t j = 0; j < r.n; j++) {
      if (i == j || tn__axis_of(r.range[i]) != tn__axis_of(r.range[j]) || !mergeable(&r, i, j, false)) continue;
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

/* ---- repeat ---- */

typedef struct rows {
  tn__lowering *l;
  tn__survey p;
  uint32_t outer, inner;
  int64_t length, copies;
} rows;

/* Element by element, and nothing kept */
/* a choice: no is right */
static bool is_plain(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_REDUCE || n->op == OP_STOREADD || n->op == OP_LOCAL || n->op == OP_AFTER) return false;
    if (n->op == OP_STORE && tn__own_of(&p->r, n) != p->outputs) return false;
  }
  return true;
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

/* Rows that leave many lanes of their last vectors empty, and how many copies fill them */
/* a choice: no is right */
static bool find_rows(rows *w) {
  const tn__survey *p = &w->p;
  for (uint32_t i = 0; i < p->r.n; i++)
    for (uint32_t j = 0; j < p->r.n; j++) {
      const tn_node *x = p->r.range[j];
      if (i == j || tn__axis_of(p->r.range[i]) != AX_LOOP || tn__axis_of(x) != AX_LOOP) continue;
      if (!tn__const_int(x->src[0], &w->length) || tn__bounds_loops(&p->r, i) || tn__bounds_loops(&p->r, j)) continue;
      int64_t vector = vector_of(w), vectors = (w->length + vector - 1) / vector, lanes = vectors * vector;
      if (w->length < 2 || w->length > COPIES / 2 || 5 * w->length > 4 * lanes) continue;
      if (!mergeable(&p->r, i, j, true)) continue;
      w->copies = (COPIES / w->length + vector - 1) / vector * vector;
      w->outer = i, w->inner = j;
      return tn__extent(p->r.range[i]) >= (double)(MIN_BLOCKS * w->copies);
    }
  return false;
}

/* What is alike, as it stands in scratch memory once for each of the copies; x: the row's element, of turn `turn` */
static tn_node *from_copies(const rows *w, tn_node *n, tn_node *turn, tn_node *x) {
  tn__lowering *l = w->l;
  tn_ctx *c = l->c;
  tn_node *copy = tn__fresh_range(l, tn__int(c, w->copies), AX_REDUCE, ROLE_KEPT),
          *lane = tn__fresh_range(l, x->src[0], AX_UPCAST, ROLE_KEPT), *length = tn__int(c, w->length);
  tn_node *value = tn__substitute(c, n, &x, &lane, 1), *at = tn__add(c, tn__mul(c, copy, length), lane);
  tn_node *filled =
      tn__filled(c, tn__scratch(l, n->dtype, w->copies * w->length), at, value, (tn_node *[]){copy, lane}, 2);
  at = tn__add(c, tn__mul(c, turn, length), x);
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){filled, at}, .nsrc = 2});
}

/* What is alike and meets what is not stands in scratch memory. */
static tn_node *by_copies(const rows *w, tn_node *body, tn_node *turn, tn_node *x) {
  tn__nodes old = {0}, new_ = {0};
  tn__ranges r;
  tn__map seen;
  tn__map_init(&seen, w->l->a);
  tn__ranges_find(w->l->c, w->l->a, body, &r);
  uint32_t a = (uint32_t)tn__range_at(&r, turn), b = (uint32_t)tn__range_at(&r, x);
  for (uint32_t i = 0; i < r.order.n; i++)
    for (uint32_t s = 0; s < r.order.v[i]->nsrc; s++) {
      tn_node *n = r.order.v[i], *from = n->src[s];
      if (is_alike(&r, n, a, b) || n->dtype == TN__INDEX || !is_alike(&r, from, a, b)) continue;
      if (tn__map_getp(&seen, from)) continue;
      tn__map_putp(&seen, from, from);
      tn__vec_push(w->l->a, &old, from);
      tn__vec_push(w->l->a, &new_, from_copies(w, from, turn, x));
    }
  return tn__substitute(w->l->c, body, old.v, new_.v, old.n);
}

tn_node *tn__repeat(tn__lowering *l, tn_node *body) {
  rows w = {.l = l};
  tn_node *cut[2], *one;
  tn__survey_loops(l->c, l->a, body, &w.p);
  if (!is_plain(&w.p) || !find_rows(&w)) return NULL;
  tn_node *turns = w.p.r.range[w.outer], *x = w.p.r.range[w.inner];
  tn__sb_printf(&l->note, " repeat(%lld,%lld)", tn__id_of(turns), tn__id_of(x));
  body = tn__cut(l, body, turns, w.copies, AX_LOOP, AX_LOOP, cut);
  body = by_copies(&w, body, cut[1], x);
  body = tn__as_one(l, body, (tn_node *[]){cut[1], x}, 2, AX_UPCAST, &one);
  return tn__share_out(l, body, NULL);
}
