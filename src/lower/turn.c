/* What lies across the way in which lanes go, for devices whose lanes are those of vectors: it is turned on its way
 * through scratch memory.
 *
 * Copies, and what is computed element by element: most of what is loaded and stored lies along one loop, which has
 * the lanes, the rest along another.  Both loops are cut into tiles that a thread's cache holds.  In each tile, what
 * is loaded across is first copied to scratch memory along the way in which it lies, every line once and whole; then
 * all is computed along the lanes, and what is stored along them is stored; what is stored across waits in scratch
 * memory, and is copied from there along the way in which it lies.  A copy alone needs no scratch memory: its tiles
 * are turned on their way from line to line (render/turned.c).  A loop of few turns, or of so many that blocks of
 * lanes would be half empty, is one with the loop by which its lines go on, if there is one.  Else it stands whole
 * inside of blocks of the other one, along which the lanes are: so the lines that they use in part are there for its
 * next turn, and scratch memory gains nothing, but where what is computed is woven into one line.
 *
 * Rows that all lie along one loop, but follow each other along another one where they are stored than where they are
 * loaded, go by tiles of these two, if they are shorter than a few lines of a cache.
 *
 * Rows that something runs along, a few turns each, as scans' blocks are: each turn waits for the one before, but not
 * for those of other rows. So lanes are rows, and what lies along rows is turned on its way, as above. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>
#include <stdlib.h>

enum {
  ACROSS = 2,      /* what an element costs that lies across, */
  STORED = 3,      /* ... where it is stored: all lanes wait for it before any of it goes out, */
  ASTRAY = 16,     /* and what a step costs that is as long, or longer: an element of a line without the others, */
  UNEVEN = 8,      /* what lies across in lines of which registers turn no blocks, as they are not equally far apart, */
  NEAR = 2,        /* but for what a thread's cache holds all of */
  CROWDED = 1024,  /* bytes: lines a multiple of that apart share the few places of a cache where they may be, */
  LITTLE_WORK = 4, /* for each element of a row, in additions, */
  SHORT_ROW = 256, /* bytes, of all that is made of a row, */
  LEAST_ROWS = 512, /* and so many at a time: the lines of fewer are there anyway until they are used whole */
  LEAST_TURNS = 5, /* of rows that are run along in lanes, each its own: four are computed sooner than turned, */
  MOST_TURNS = 64  /* and tiles are to be near */
};

static const double WASTE = 1.25; /* times as many lanes in blocks as elements in a line are too many */

typedef struct turn {
  tn__lowering *l;
  tn__survey p;
  tn__turned t;
  int64_t from_side, to_side; /* of a tile */
} turn;

/* May a store wait until its tile is computed?  What fills the tile has to stand in the loops of the other stores: in
 * all that its value hangs on, and in no others. */
static bool may_wait(const tn__survey *p, const tn_node *store) {
  return !tn__gate_of(store) && tn__free_of(&p->r, store->src[2]) == tn__own_of(&p->r, store);
}

bool tn__is_across(const tn__survey *p, const tn_node *n, const tn__turned *t) {
  if (!tn__is_access(n) || n->src[0]->op != OP_PARAM) return false;
  int64_t step = tn__stride(&p->r, n->src[1], t->to);
  return step != 0 && step != 1 && tn__stride(&p->r, n->src[1], t->from) == 1 && (n->op == OP_LOAD || may_wait(p, n));
}

/* Does a thread's cache hold all that could be loaded from there? */
/* a choice: either is right */
static bool is_near(const tn__target *target, const tn_node *load) {
  int64_t most = load->src[0]->op == OP_PARAM ? load->src[0]->src[0]->hi : 0;
  return (double)most * (double)tn__size_of(load->dtype) <= target->near / 2;
}

/* What an element costs beyond what lanes along `to` load and store as it lies, and how many bytes of it lie across, in
 * tiles whose lines lie along `from`.  Infinite where a store would lie along neither. */
/* a choice: any is right */
static double cost_of(const tn__survey *p, const tn__target *target, tn__turned *t) {
  double cost = t->bytes = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!tn__is_access(n)) continue;
    bool store = n->op == OP_STORE;
    int64_t step = tn__stride(&p->r, n->src[1], t->to);
    if (tn__is_across(p, n, t)) {
      bool uneven = step == TN__IRREGULAR && !target->group;
      cost += uneven ? UNEVEN : store ? STORED : ACROSS;
      t->bytes += (double)tn__size_of(store ? n->src[2]->dtype : n->dtype);
    } else if (step != 1 && store) {
      return INFINITY;
    } else if (step < -1 || step > 1) {
      double lost = step > -ASTRAY && step < ASTRAY ? (double)llabs(step) : ASTRAY;
      cost += lost > NEAR && is_near(target, n) ? NEAR : lost;
    }
  }
  return cost;
}

/* a choice: no is right */
bool tn__turned_find(const tn__survey *p, const tn__target *target, tn__turned *t) {
  double least = INFINITY;
  *t = (tn__turned){0};
  /* by another order of its loops it would not read what it wrote */
  if (!tn__is_by_element(p) || tn__reads_results(p)) return false;
  for (uint32_t k = 0; k < p->r.n * p->r.n; k++) {
    tn__turned x = {.to = k / p->r.n, .from = k % p->r.n};
    if (x.from == x.to || !tn__is_even(p, x.to) || !tn__is_even(p, x.from)) continue;
    double cost = cost_of(p, target, &x);
    if (cost < least) least = cost, *t = x;
  }
  return t->bytes > 0;
}

/* Squares, or as much longer as the other side is shorter than that, of half of what a thread's cache holds: the rest
 * is for lines on their way. */
/* a choice: any is right */
static void find_sides(turn *t) {
  double room = t->l->target->near / 2, from = tn__extent(t->p.r.range[t->t.from]),
         to = tn__extent(t->p.r.range[t->t.to]);
  int64_t side = 1;
  while (4 * (double)side * (double)side * t->t.bytes <= room) side *= 2;
  t->from_side = t->to_side = side;
  while (to < (double)side && 2 * (double)t->from_side * to * t->t.bytes <= room) t->from_side *= 2;
  while (from < (double)side && 2 * (double)t->to_side * from * t->t.bytes <= room) t->to_side *= 2;
}

/* A tile in scratch memory, whose lines lie along `to` */
typedef struct tile {
  tn_ctx *c;
  tn_node *local, *width;
} tile;

static tile make_tile(tn__lowering *l, int dtype, const tn_node *from, const tn_node *to) {
  return (tile){l->c, tn__scratch(l, dtype, (from->hi + 1) * (to->hi + 1)), tn__int(l->c, to->hi + 1)};
}

static tn_node *place_in(const tile *t, tn_node *from, tn_node *to) {
  return tn__add(t->c, tn__mul(t->c, from, t->width), to);
}

static tn_node *load_from(const tile *t, tn_node *filled, tn_node *from, tn_node *to) {
  tn_node *src[] = {filled, place_in(t, from, to)};
  return tn__node_make(t->c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = 2});
}

/* Does it have less turns than vectors have lanes? */
/* a choice: any is right */
static bool is_few(const tn__lowering *l, const tn_node *range) {
  return tn__extent(range) < (double)l->target->lane_bytes / 4 / (double)sizeof(float);
}

/* A load or a store across: along loops of its own, in which lanes go along `from`; the other side of the tile is along
 * those of all others.  So the tile is filled across, or read so, by nothing but a copy, which is turned in registers
 * (render/turned.c). */
static tn_node *turned(tn__lowering *l, tn_node *n, tn_node *from, tn_node *to) {
  bool few = is_few(l, from); /* lanes go along the longer one */
  tn_node *y = tn__fresh_range(l, to->src[0], few ? AX_UPCAST : AX_REDUCE, ROLE_KEPT),
          *x = tn__fresh_range(l, from->src[0], few ? AX_REDUCE : AX_UPCAST, ROLE_KEPT);
  tn_node *own[] = {few ? x : y, few ? y : x}, *place[] = {y, x}, *old[] = {to, from};
  tn_node *value = n->op == OP_LOAD ? n : n->src[2], *at = tn__substitute(l->c, n->src[1], old, place, 2);
  tile t = make_tile(l, value->dtype, from, to);
  if (n->op == OP_LOAD) {
    tn_node *copied = tn__substitute(l->c, n, old, place, 2);
    return load_from(&t, tn__filled(l->c, t.local, place_in(&t, x, y), copied, own, 2), from, to);
  }
  tn_node *filled = tn__filled(l->c, t.local, place_in(&t, from, to), value, (tn_node *[]){from, to}, 2);
  tn_node *src[TN__MAX_RANGES + 3] = {n->src[0], at, load_from(&t, filled, x, y)};
  uint32_t m = 3;
  for (uint32_t s = 3; s < n->nsrc; s++)
    if (n->src[s] != from && n->src[s] != to) src[m++] = n->src[s];
  src[m++] = own[0], src[m++] = own[1];
  return tn__node_make(l->c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = m});
}

/* Are the lines that an access goes along, either way, equally far apart? */
static bool is_regular(const turn *t, const tn_node *n) {
  return tn__stride(&t->p.r, n->src[1], t->t.from) != TN__IRREGULAR &&
         tn__stride(&t->p.r, n->src[1], t->t.to) != TN__IRREGULAR;
}

/* Are lines that an access goes along in pieces so far apart that a cache has room for a few of them alone?  It loses
 * them before their next piece.  Of larger elements a block's pieces are whole lines of a cache. */
/* a choice: either is right */
static bool is_crowded(const turn *t, const tn_node *n) {
  size_t size = tn__size_of(n->src[0]->dtype);
  uint32_t across = tn__stride(&t->p.r, n->src[1], t->t.from) == 1 ? t->t.to : t->t.from;
  return size < sizeof(float) && tn__stride(&t->p.r, n->src[1], across) * (int64_t)size % CROWDED == 0;
}

/* Is a copy all there is to do?  It is turned in registers as it is, where lines are there as long as it goes along
 * them. */
static bool is_copy(const turn *t) {
  const tn_node *load = NULL;
  uint32_t accesses = 0;
  for (uint32_t i = 0; i < t->p.r.order.n; i++) {
    const tn_node *n = t->p.r.order.v[i];
    accesses += tn__is_access(n);
    if (tn__is_access(n) && (!is_regular(t, n) || is_crowded(t, n))) return false;
    if (n->op == OP_STORE && !tn__gate_of(n)) load = n->src[2];
  }
  return accesses == 2 && load && tn__is_across(&t->p, load, &t->t) && !tn__gate_of(load);
}

/* The range of this id, whose length may be written otherwise by now */
static uint32_t again(const tn__survey *p, const tn_node *x) {
  uint32_t j = 0;
  while (tn__id_of(p->r.range[j]) != tn__id_of(x)) j++;
  return j;
}

static tn_node *by_tiles(tn__lowering *l, tn_node *body, const tn_node *from, const tn_node *to) {
  static const tn__op turns[] = {OP_LOAD, OP_STORE}; /* stores' values are made of what is loaded */
  for (int k = 0; k < 2; k++) {
    tn__nodes old = {0}, new_ = {0};
    tn__survey p;
    tn__survey_loops(l->c, l->a, body, &p);
    tn__turned t = {.from = again(&p, from), .to = again(&p, to)};
    for (uint32_t at = 0; at < p.r.order.n; at++) {
      if (p.r.order.v[at]->op != turns[k] || !tn__is_across(&p, p.r.order.v[at], &t)) continue;
      tn__vec_push(l->a, &old, p.r.order.v[at]);
      tn__vec_push(l->a, &new_, turned(l, p.r.order.v[at], p.r.range[t.from], p.r.range[t.to]));
    }
    body = tn__substitute(l->c, body, old.v, new_.v, old.n);
  }
  return body;
}

/* a choice: NULL is right */
tn_node *tn__next_of_lines(const tn__survey *p, const tn__turned *t, uint32_t along) {
  const tn__ranges *r = &p->r;
  int64_t turns;
  if (!tn__const_int(r->range[along]->src[0], &turns)) return NULL;
  for (uint32_t y = 0; y < r->n; y++) {
    bool goes_on = false, fits = y != t->from && y != t->to && tn__is_even(p, y);
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

static bool is_short(const turn *t, uint32_t at) { return is_few(t->l, t->p.r.range[at]); }

/* Lanes of the blocks that a line is cut into, for each of its elements: those of the last one are empty in part. */
/* a choice: any is right */
static double waste_of(const turn *t, uint32_t at) {
  double size = fmax((double)sizeof(float), t->t.bytes), lanes = floor((double)t->l->target->lane_bytes / 2 / size),
         extent = tn__extent(t->p.r.range[at]);
  return ceil(extent / lanes) * lanes / extent;
}

/* The one of the two loops of which blocks are the emptiest, or which has none of its own, and that goes on by *next,
 * where the other one is long enough.  None but `one`, NULL: either: of two such loops lines would begin nowhere
 * evenly. */
/* a choice: -1 is right */
static int wasteful(const turn *t, const tn_node *one, tn_node **next) {
  const uint32_t both[] = {t->t.from, t->t.to};
  bool first = waste_of(t, both[0]) < waste_of(t, both[1]);
  for (int i = 0; i < 2; i++) {
    uint32_t x = both[i ^ first];
    bool wastes = is_short(t, x) || waste_of(t, x) > WASTE,
         fits = (!one || t->p.r.range[x] == one) && !is_short(t, both[!(i ^ first)]);
    if (wastes && fits && (*next = tn__next_of_lines(&t->p, &t->t, x))) return (int)x;
  }
  return -1;
}

/* Lines that leave much of their blocks empty are one loop with the one by which they go on, if that makes them long
 * enough.  Where the other lines begin, along it, is worked out. */
/* a choice: either is right */
static bool find_loops(turn *t, tn_node **body, tn__sb *note) {
  tn_node *as_it_was = *body, *next, *one = NULL;
  for (int x;;) {
    tn__survey_loops(t->l->c, t->l->a, *body, &t->p);
    if (!tn__turned_find(&t->p, t->l->target, &t->t)) return false;
    x = wasteful(t, one, &next);
    if (x < 0) break;
    tn__sb_printf(note, " flat(%lld,%lld)", tn__id_of(next), tn__id_of(t->p.r.range[x]));
    *body = tn__as_one(t->l, *body, (tn_node *[]){next, t->p.r.range[x]}, 2, AX_LOOP, &one);
  }
  if (!one || !is_few(t->l, one)) return true;
  *body = as_it_was;
  tn__sb_init(note, t->l->a);
  tn__survey_loops(t->l->c, t->l->a, *body, &t->p);
  return tn__turned_find(&t->p, t->l->target, &t->t);
}

/* Is a line of what is stored woven of a few, along which all else lies?  Then lanes go along these. */
/* a choice: no is right */
static bool is_woven(turn *t, uint32_t few, uint32_t many) {
  tn__turned x = {.from = few, .to = many, .bytes = t->t.bytes};
  bool some = false;
  for (uint32_t i = 0; i < t->p.r.order.n; i++) {
    const tn_node *n = t->p.r.order.v[i];
    if (!tn__is_access(n)) continue;
    int64_t step = tn__stride(&t->p.r, n->src[1], many);
    bool woven = n->op == OP_STORE && tn__is_across(&t->p, n, &x) && tn__is_int_const(t->p.r.range[few]->src[0], step);
    if (!woven && step != 0 && step != 1) return false;
    some |= woven;
  }
  if (some) t->t = x;
  return some;
}

/* ---- rows of few bytes ---- */

/* The loop along which rows of n elements, along k, follow each other where they are stored, if all stores agree, or
 * where something is loaded that lies otherwise than by `stored`; -1 */
/* a choice: -1 is right */
static int next_row(const tn__survey *p, uint32_t k, int64_t n, int stored) {
  const tn__ranges *r = &p->r;
  for (uint32_t y = 0; y < r->n; y++) {
    bool goes_on = false, fits = y != k && (int)y != stored && tn__is_even(p, y);
    for (uint32_t i = 0; i < r->order.n && fits; i++) {
      const tn_node *x = r->order.v[i];
      if (!tn__is_access(x) || (x->op == OP_STORE) != (stored < 0)) continue;
      bool along = tn__stride(r, x->src[1], y) == n;
      goes_on |= along && (stored < 0 || tn__stride(r, x->src[1], (uint32_t)stored) != n);
      fits = along || stored >= 0;
    }
    if (fits && goes_on) return (int)y;
  }
  return -1;
}

/* Do all accesses lie along k, and is little done to what is loaded?  Of rows that are computed empty lanes count.  The
 * bytes of what is accessed for an element; 0: no */
/* a choice: 0 is right */
static double along_rows(const tn__survey *p, uint32_t k) {
  double bytes = 0, work = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *x = p->r.order.v[i];
    if (tn__is_elementwise(x) && x->dtype != TN__INDEX) work += tn__ops[x->op].cost;
    if (work > LITTLE_WORK) return 0;
    if (!tn__is_access(x)) continue;
    int64_t step = tn__stride(&p->r, x->src[1], k);
    if (step != 1 && (step || x->op == OP_STORE)) return 0;
    bytes += (double)tn__size_of(x->src[0]->dtype);
  }
  return bytes;
}

/* Those two loops inside of all others but the one along rows, *inside being them from now on */
static tn_node *go_inside(turn *t, tn_node *body, const tn_node *row, tn_node **inside) {
  tn_node *x[TN__MAX_RANGES], *fresh[TN__MAX_RANGES];
  uint32_t n = 0;
  for (uint32_t k = 0; k < t->p.r.n; k++) {
    tn_node *y = t->p.r.range[k];
    if (y != row && y != inside[0] && y != inside[1]) x[n++] = y;
  }
  for (uint32_t k = 0; k < 2; k++) x[n++] = inside[k];
  for (uint32_t k = 0; k < n; k++) fresh[k] = tn__fresh_range(t->l, x[k]->src[0], AX_LOOP, tn__role_of(x[k]));
  inside[0] = fresh[n - 2], inside[1] = fresh[n - 1];
  return tn__exchange_ranges(t->l, body, x, fresh, n, fresh, n);
}

/* All loops around these two for threads to share */
static tn_node *share_around(tn__lowering *l, tn_node *body, tn_node *const *inside) {
  tn_node *x[TN__MAX_RANGES], *one;
  uint32_t n = 0;
  tn__survey p;
  tn__survey_loops(l->c, l->a, body, &p);
  for (uint32_t k = 0; k < p.r.n; k++) {
    bool in = tn__id_of(p.r.range[k]) == tn__id_of(inside[0]) || tn__id_of(p.r.range[k]) == tn__id_of(inside[1]);
    if (!in && tn__axis_of(p.r.range[k]) == AX_LOOP) x[n++] = p.r.range[k];
  }
  return n > 1 ? tn__as_one(l, body, x, n, AX_GLOBAL, &one) : tn__retype(l->c, body, x[0], AX_GLOBAL);
}

/* Loops of rows along k: of the tile's, *inside, the one along which they follow each other where they are stored comes
 * first.  False: there are none, or all rows are one tile. */
/* a choice: no is right */
static bool find_rows(turn *t, uint32_t k, tn_node **inside) {
  const tn__survey *p = &t->p;
  int64_t n;
  double bytes = tn__is_even(p, k) ? along_rows(p, k) : 0;
  if (bytes <= 0 || !tn__const_int(p->r.range[k]->src[0], &n) || n < 2 || (double)n * bytes > SHORT_ROW) return false;
  int to = next_row(p, k, n, -1), from = to < 0 ? -1 : next_row(p, k, n, to);
  if (from < 0 || tn__extent(p->r.range[to]) < LEAST_ROWS) return false;
  t->t = (tn__turned){.from = (uint32_t)from, .to = (uint32_t)to, .bytes = (double)n * bytes};
  find_sides(t);
  inside[0] = p->r.range[to], inside[1] = p->r.range[from];
  bool others = p->outputs & ~(1ull << to | 1ull << from | 1ull << k);
  return others || tn__extent(inside[0]) > (double)t->to_side || tn__extent(inside[1]) > (double)t->from_side;
}

/* Rows that are shorter than a few lines of a cache, and of which others are neighbours where they are stored than were
 * where they are loaded, go by tiles of both: so lines are used whole as long as they are there. */
/* a choice: NULL is right */
static tn_node *turn_rows(turn *t, tn_node *body) {
  tn__lowering *l = t->l;
  tn_node *inside[2] = {NULL, NULL};
  uint32_t k = 0;
  tn__survey_loops(l->c, l->a, body, &t->p);
  if (!tn__is_by_element(&t->p) || tn__reads_results(&t->p) || !tn__are_even(&t->p)) return NULL;
  while (k < t->p.r.n && !find_rows(t, k, inside)) k++;
  if (k == t->p.r.n) return NULL;
  tn_node *row = t->p.r.range[k];
  tn__sb_printf(&l->note, " rows(%lld,%lld,%lld)", tn__id_of(inside[1]), tn__id_of(inside[0]), tn__id_of(row));
  body = go_inside(t, body, row, inside);
  inside[0] = tn__cut_in(l, &body, inside[0], t->to_side, AX_LOOP);
  inside[1] = tn__cut_in(l, &body, inside[1], t->from_side, AX_LOOP);
  return share_around(l, tn__retype(l->c, body, row, AX_UPCAST), inside);
}

tn_node *tn__turn(tn__lowering *l, tn_node *body) {
  turn t = {.l = l};
  tn__sb lines;
  tn__sb_init(&lines, l->a);
  tn_node *rows = l->target->near > 0 ? turn_rows(&t, body) : NULL;
  if (rows) return rows;
  if (l->target->near <= 0 || !find_loops(&t, &body, &lines)) return NULL;
  bool thin = is_short(&t, t.t.from), flat = is_short(&t, t.t.to), copy = is_copy(&t);
  if (!copy && thin != flat && is_woven(&t, thin ? t.t.from : t.t.to, thin ? t.t.to : t.t.from)) thin = flat = false;
  find_sides(&t);
  tn_node *x = t.p.r.range[t.t.from], *y = t.p.r.range[t.t.to];
  bool alone = !lines.n && tn__extent(x) <= (double)t.from_side && tn__extent(y) <= (double)t.to_side &&
               !(t.p.outputs & ~(1ull << t.t.from | 1ull << t.t.to));
  if (alone || (thin && flat)) return NULL; /* a choice: no is right */
  tn__sb_printf(&l->note, "%s turn(%lld,%lld)", tn__sb_str(&lines), tn__id_of(x), tn__id_of(y));
  tn_node *from = tn__cut_in(l, &body, x, t.from_side, flat ? AX_UPCAST : AX_LOOP),
          *to = tn__cut_in(l, &body, y, t.to_side, flat ? AX_LOOP : AX_UPCAST);
  body = tn__share_out(l, body, flat ? to : from);
  return thin || flat || copy ? body : by_tiles(l, body, from, to);
}

/* Do all stores stand in all loops, and is there nothing that closes one but what runs along this? */
static bool is_along(const tn__survey *p, uint32_t along) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_REDUCE || n->op == OP_STOREADD || n->op == OP_LOCAL || n->op == OP_AFTER) return false;
    if (n->op == OP_STORE && tn__own_of(&p->r, n) != (p->outputs | 1ull << along)) return false;
  }
  return !tn__reads_results(p);
}

/* How far apart rows lie that lanes would have, where they lie farthest; INT64_MAX where something lies otherwise: what
 * changes along rows has to lie along them. */
static int64_t farthest(const tn__survey *p, const tn__turned *t) {
  int64_t most = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!tn__is_access(n)) continue;
    if (tn__is_across(p, n, t)) {
      int64_t step = llabs(tn__stride(&p->r, n->src[1], t->to));
      most = step > most ? step : most;
    } else if (n->op == OP_STORE || (tn__free_of(&p->r, n) >> t->from & 1)) {
      return INT64_MAX;
    }
  }
  return most;
}

/* The loop that all that runs along one runs along, and which lies along memory: rows of a few turns, many of them */
/* a choice: no is right */
static bool runs_along_memory(const tn__survey *p, const tn__target *target, tn__turned *t) {
  const tn_node *along = NULL;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op != OP_RUNNING) continue;
    if (n->nsrc > 2 || (along && n->src[1] != along)) return false;
    along = n->src[1];
  }
  if (!along || !tn__is_const(along->src[0])) return false;
  if (tn__extent(along) < LEAST_TURNS || tn__extent(along) > MOST_TURNS) return false; /* a choice: no is right */
  t->from = (uint32_t)tn__range_at(&p->r, along);
  if (!is_along(p, t->from)) return false;
  double few = (double)target->lane_bytes / 2 / (double)sizeof(float); /* one vector: accumulators are two */
  int64_t least = INT64_MAX;
  tn__turned x = *t;
  for (x.to = 0; x.to < p->r.n; x.to++) {
    if (!tn__is_even(p, x.to) || tn__extent(p->r.range[x.to]) < few) continue; /* a choice: no is right */
    int64_t step = farthest(p, &x);
    if (step < least) least = step, *t = x;
  }
  return least < INT64_MAX;
}

/* Rows that are run along, few turns each: lanes are rows, a vector of them at a time, whose elements are turned. */
tn_node *tn__turn_runs(tn__lowering *l, tn_node *body) {
  tn__survey p;
  tn__turned t = {0};
  tn__survey_loops(l->c, l->a, body, &p);
  if (l->target->near <= 0 || !runs_along_memory(&p, l->target, &t)) return NULL;
  tn_node *from = p.r.range[t.from], *y = p.r.range[t.to];
  tn__sb_printf(&l->note, " runs(%lld,%lld)", tn__id_of(from), tn__id_of(y));
  tn_node *to = tn__cut_in(l, &body, y, l->target->lane_bytes / (int64_t)sizeof(float), AX_UPCAST);
  return by_tiles(l, tn__share_out(l, body, to), from, to);
}
