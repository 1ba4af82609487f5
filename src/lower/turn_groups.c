/* What lies across the way in which threads go, for devices with work groups: it is turned on its way through the
 * memory that a group's threads share.
 *
 * Copies, and what is computed element by element: most of what is loaded and stored lies along one loop, along which
 * neighbouring threads go, the rest along another (turn.c finds them).  A thread that went across memory would have of
 * each sector that it asks for one element.
 * Both loops are cut into tiles, one a group's.  What is loaded across is first copied to shared memory by threads that
 * go the way in which it lies; then all is computed along the threads' own way, and stored; what is stored across waits
 * in shared memory, and is copied from there.  A thread has several elements of a tile, all of which are on their way
 * to it at once.  Lines of a tile lie an odd number of words apart, so that threads that go across it ask other banks.
 * A loop that is shorter than a tile is one with the loop by which its lines go on in memory, or has tiles as much
 * longer along the other one.  Places beyond the end do the last one's work, and are not stored.
 *
 * Whether that pays, and by how large tiles, is a variant (variants.c).  Steps noted:
 *   turn(a,b,64x64)  tiles of so many turns of loop a, along which lies what is turned, and of loop b */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

static const double WASTE = 1.25; /* times as many places as there are, of a tile: so many are too many */
enum { FEWEST = 4, MOST = 16 /* elements that a thread has of a tile */, WORD = 4 /* bytes of a bank */ };

typedef struct turn {
  tn__lowering *l;
  tn_ctx *c;
  tn__survey s;
  tn__turned t;
  tn_node *x[2];     /* the loops from and to, */
  int64_t side[2];   /* of a tile along each */
  int64_t threads, own;
  tn_node *block[2]; /* which tile it is */
  tn_node *lane, *number;
} turn;

enum { FROM, TO };

typedef struct place { /* in a tile, along each of the loops */
  tn_node *at[2];
} place;

static int64_t power_above(double v, int64_t most) {
  int64_t p = 1;
  while ((double)p < v && p < most) p *= 2;
  return p;
}

/* Squares for which there is room twice, or as much longer as the other side is shorter than that */
/* a choice: any is right */
static void find_sides(turn *k) {
  const tn__target *t = k->l->target;
  int64_t side = k->l->variant->turn, usual = tn__usual_group(t) < t->group ? tn__usual_group(t) : t->group;
  while (side > 1 && 2 * (double)(side * side) * k->t.bytes > (double)t->kept - k->l->staged) side /= 2;
  double size[2] = {tn__extent(k->x[FROM]), tn__extent(k->x[TO])};
  for (int i = 0; i < 2; i++) k->side[i] = power_above(size[i], side);
  for (int i = 0; i < 2; i++) k->side[i] = power_above(size[i], side * side / k->side[!i]);
  int64_t all = k->side[FROM] * k->side[TO];
  for (k->own = FEWEST; k->own < MOST && all / k->own > usual;) k->own *= 2;
  k->threads = all / k->own;
}

/* How far lines of a tile lie apart that lie along that loop, in elements */
static int64_t pitch_of(const turn *k, int along, int dtype) {
  size_t size = tn__size_of(dtype);
  return k->side[along] + (size < WORD ? (int64_t)(WORD / size) : 1);
}

/* The place of a thread's element where threads go along one of the loops */
static place place_of(const turn *k, int along, tn_node *lane, tn_node *number) {
  tn_ctx *c = k->c;
  tn_node *e = tn__add(c, tn__mul(c, number, tn__int(c, k->threads)), lane), *side = tn__int(c, k->side[along]);
  place p;
  p.at[along] = tn__op2(c, OP_MOD, e, side);
  p.at[!along] = tn__op2(c, OP_IDIV, e, side);
  return p;
}

/* Where in a tile of scratch memory, whose lines lie along that loop */
static tn_node *in_tile(const turn *k, int along, int dtype, const place *p) {
  return tn__add(k->c, tn__mul(k->c, p->at[!along], tn__int(k->c, pitch_of(k, along, dtype))), p->at[along]);
}

static tn_node *tile_of(const turn *k, int along, int dtype) {
  int64_t elements = k->side[!along] * pitch_of(k, along, dtype);
  k->l->staged += (double)elements * (double)tn__size_of(dtype);
  return tn__scratch(k->l, dtype, elements);
}

/* The loops' counters there, or their last ones; gives whether they are within, NULL: all are. */
static tn_node *counters(const turn *k, const place *p, tn_node *out[2]) {
  tn_ctx *c = k->c;
  tn_node *inside = NULL;
  for (int i = 0; i < 2; i++) {
    tn_node *size = k->x[i]->src[0];
    out[i] = tn__add(c, tn__mul(c, k->block[i], tn__int(c, k->side[i])), p->at[i]);
    if (tn__divisible(size, k->side[i])) continue;
    tn_node *there = tn__op2(c, OP_LT, out[i], size);
    inside = inside ? tn__op2(c, OP_AND, inside, there) : there;
    out[i] = tn__op2(c, OP_MIN, out[i], tn__sub(c, size, tn__int(c, 1)));
  }
  return inside;
}

static void fresh_loops(const turn *k, tn__role role, tn_node *own[2]) {
  own[0] = tn__fresh_range(k->l, tn__int(k->c, k->threads), AX_UPCAST, role);
  own[1] = tn__fresh_range(k->l, tn__int(k->c, k->own), AX_UNROLL, role);
}

static tn_node *load_from(tn_ctx *c, tn_node *filled, tn_node *at) {
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){filled, at}, .nsrc = 2});
}

/* What is loaded across, from a tile that threads fill along it */
static tn_node *loaded(const turn *k, tn_node *n) {
  tn_node *own[2], *at[2];
  fresh_loops(k, ROLE_KEPT, own);
  place fill = place_of(k, FROM, own[0], own[1]), use = place_of(k, TO, k->lane, k->number);
  counters(k, &fill, at);
  tn_node *value = tn__substitute(k->c, n, (tn_node **)k->x, at, 2);
  int dtype = value->dtype;
  tn_node *filled = tn__filled(k->c, tile_of(k, FROM, dtype), in_tile(k, FROM, dtype, &fill), value, own, 2);
  return load_from(k->c, filled, in_tile(k, FROM, dtype, &use));
}

/* A store across: of what waits in a tile, by threads that go along it */
static tn_node *stored(const turn *k, tn_node *n) {
  tn_ctx *c = k->c;
  tn_node *own[2], *at[2], *ours[2] = {k->lane, k->number}, *src[TN__MAX_RANGES + 6];
  int dtype = n->src[2]->dtype;
  fresh_loops(k, ROLE_KEPT, own);
  place wait = place_of(k, TO, k->lane, k->number), out = place_of(k, FROM, own[0], own[1]);
  tn_node *inside = counters(k, &out, at);
  tn_node *filled = tn__filled(c, tile_of(k, TO, dtype), in_tile(k, TO, dtype, &wait), n->src[2], ours, 2);
  uint32_t m = 0;
  src[m++] = n->src[0];
  src[m++] = tn__substitute(c, n->src[1], (tn_node **)k->x, at, 2);
  src[m++] = load_from(c, filled, in_tile(k, TO, dtype, &out));
  if (inside) src[m++] = inside;
  for (uint32_t s = 3; s < n->nsrc; s++)
    if (n->src[s] != k->x[FROM] && n->src[s] != k->x[TO]) src[m++] = n->src[s];
  src[m++] = k->block[FROM], src[m++] = k->block[TO], src[m++] = own[0], src[m++] = own[1];
  return tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = m});
}

static tn_node *replace(const turn *k, tn_node *body, tn__op op, tn_node *(*by)(const turn *, tn_node *)) {
  tn__nodes old = {0}, new_ = {0};
  tn__survey s;
  tn__survey_loops(k->c, k->l->a, body, &s);
  tn__turned t = {.from = (uint32_t)tn__range_at(&s.r, k->x[FROM]), .to = (uint32_t)tn__range_at(&s.r, k->x[TO])};
  for (uint32_t i = 0; i < s.r.order.n; i++) {
    if (s.r.order.v[i]->op != op || !tn__is_across(&s, s.r.order.v[i], &t)) continue;
    tn__vec_push(k->l->a, &old, s.r.order.v[i]);
    tn__vec_push(k->l->a, &new_, by(k, s.r.order.v[i]));
  }
  return tn__substitute(k->c, body, old.v, new_.v, old.n);
}

static void begin_loops(turn *k) {
  tn_ctx *c = k->c;
  for (int i = 0; i < 2; i++) {
    tn_node *up = tn__add(c, k->x[i]->src[0], tn__int(c, k->side[i] - 1));
    tn_node *tiles = tn__simplify_index(c, tn__op2(c, OP_IDIV, up, tn__int(c, k->side[i])));
    k->block[i] = tn__range_like(c, k->x[i], tiles, AX_LOOP);
  }
  tn_node *own[2];
  fresh_loops(k, tn__role_of(k->x[TO]), own);
  k->lane = own[0], k->number = own[1];
}

/* ---- short lines ---- */

/* The loop by which what lies along x goes on in memory, where x ends; NULL */
/* a choice: NULL is right */
static tn_node *next_of(const turn *k, const tn_node *x) {
  const tn__ranges *r = &k->s.r;
  uint32_t along = (uint32_t)tn__range_at(r, x);
  int64_t turns;
  if (!tn__const_int(x->src[0], &turns)) return NULL;
  for (uint32_t y = 0; y < r->n; y++) {
    bool goes_on = false, fits = r->range[y] != k->x[FROM] && r->range[y] != k->x[TO] && tn__is_even(&k->s, y);
    for (uint32_t i = 0; i < r->order.n && fits; i++) {
      const tn_node *n = r->order.v[i];
      if (!tn__is_access(n) || n->src[0]->op != OP_PARAM || tn__stride(r, n->src[1], along) != 1) continue;
      int64_t step = tn__stride(r, n->src[1], y);
      goes_on |= step == turns;
      fits = step == turns || step == 0;
    }
    if (fits && goes_on) return r->range[y];
  }
  return NULL;
}

/* A tile would lie beyond the end of lines for the most part, or have few of them side by side: they are one loop with
 * the one by which they go on, and others' places along it are worked out. */
/* a choice: either is right */
static tn_node *join_lines(turn *k, tn_node *body, tn__sb *note) {
  for (int i = 0; i < 2; i++)
    for (int round = 0; round < MOST; round++) {
      double size = tn__extent(k->x[i]), side = k->l->variant->turn;
      tn_node *next = ceil(size / side) * side > WASTE * size ? next_of(k, k->x[i]) : NULL, *one;
      if (!next) break;
      tn__sb_printf(note, " flat(%lld,%lld)", tn__id_of(next), tn__id_of(k->x[i]));
      body = tn__as_one(k->l, body, (tn_node *[]){next, k->x[i]}, 2, AX_LOOP, &one);
      k->x[i] = one;
      tn__survey_loops(k->c, k->l->a, body, &k->s);
    }
  k->t.from = (uint32_t)tn__range_at(&k->s.r, k->x[FROM]), k->t.to = (uint32_t)tn__range_at(&k->s.r, k->x[TO]);
  return body;
}

tn_node *tn__turn_in_groups(tn__lowering *l, tn_node *body, tn__part *out) {
  turn k = {.l = l, .c = l->c};
  tn__sb lines;
  tn__sb_init(&lines, l->a);
  tn__survey_loops(l->c, l->a, body, &k.s);
  if (!l->variant->turn || !tn__turned_find(&k.s, l->target, &k.t) || !tn__are_even(&k.s)) return NULL;
  k.x[FROM] = k.s.r.range[k.t.from], k.x[TO] = k.s.r.range[k.t.to];
  body = join_lines(&k, body, &lines);
  find_sides(&k);
  if (k.threads < l->target->subgroup || k.threads > l->target->group) return NULL; /* a choice: no is right */
  tn__sb_printf(&l->note, "%s turn(%lld,%lld,%lldx%lld) threads(%lld)", tn__sb_str(&lines), tn__id_of(k.x[FROM]),
                tn__id_of(k.x[TO]), (long long)k.side[FROM], (long long)k.side[TO], (long long)k.threads);
  begin_loops(&k);
  body = replace(&k, replace(&k, body, OP_LOAD, loaded), OP_STORE, stored);
  tn_node *at[2], *come[] = {k.block[FROM], k.block[TO], k.lane, k.number};
  place here = place_of(&k, TO, k.lane, k.number);
  tn_node *inside = counters(&k, &here, at);
  body = tn__exchange_ranges(l, body, k.x, at, 2, come, 4);
  if (inside) body = tn__ignore_beyond(l, body, k.lane, inside);
  out->group = (int)k.threads;
  /* along the loop of fewer tiles first: what two of them have in common of a line is soon asked for again */
  bool few = tn__extent(k.block[FROM]) < tn__extent(k.block[TO]); /* a choice: either is right */
  tn_node *order[] = {k.block[few ? TO : FROM], k.block[few ? FROM : TO]};
  return tn__hold_in_blocks(l, tn__make_global(l, tn__simplify_accesses(l->c, l->a, body), order, 2));
}
