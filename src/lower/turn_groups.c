/* What lies across the way in which threads go, for devices with work groups: it is turned on its way through the
 * memory that a group's threads share.
 *
 * Copies, and what is computed element by element: most of what is loaded and stored lies along one loop, along which
 * neighbouring threads go, the rest along another (turn.c finds them).  A thread that went across memory would have of
 * each sector that it asks for one element.
 * Both loops are cut into tiles, one a group's.  What is loaded across is first copied to shared memory by threads that
 * go the way in which it lies; then all is computed along the threads' own way, and stored; what is stored across waits
 * in shared memory, and is copied from there.  A thread has several elements of a tile, all of which are on their way
 * to it at once.  Lines of a tile lie apart by so much more than the banks that threads that go across it ask others.
 * Elements that are smaller than a word are loaded and stored by words of neighbours where lines begin at words: a
 * thread then reads its neighbours across out of several lines.  Lines that a thread has the first of its neighbours
 * in lie side by side in the tile, then those of the second: so threads that go across it still ask other banks.
 * A loop that is shorter than a tile, or of lines that end within words, is one with the loop by which its lines go on
 * in memory, or has tiles as much longer along the other one.  Places beyond the end do others' work, and are not
 * stored.
 * What else is loaded, along the threads' own way or the same for many of them, is asked for while the tile is: a
 * thread has it in registers.  Behind the barrier it would wait for memory once more, and for each element anew, as for
 * all that a compiler sees it might load what the element before it stores.
 *
 * Whether that pays, and by how large tiles, is a variant (variants.c).  Steps noted:
 *   turn(a,b,64x64)  tiles of so many turns of loop a, along which lies what is turned, and of loop b
 *   pack(a,2)        so many neighbours along loop a are accessed at once
 *   ahead(n)         so many loads stand in front of the tile's use */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

static const double WASTE = 1.25;     /* times as many places as there are, of a tile: so many are too many, */
static const double SOME_WASTE = 1.1; /* and so many are worth narrower tiles */
static const double MUCH_LESS = 8; /* what is so much less than most of what lies along a loop may go by elements */
enum {
  FEWEST = 4, MOST = 16, /* elements that a thread has of a tile */
  WORD = 4,              /* bytes of a bank */
  AHEAD = 16,            /* words that a thread holds of what is loaded ahead, at most */
  FEW = 16,              /* words that compilers load at once without being told how many registers they have, */
  OTHER_REGISTERS = 32   /* and what a thread has beside them */
};

typedef struct own_loops { /* in which a thread goes through what it has of a tile */
  tn_node *x[3]; /* lane, number, neighbour */
  uint32_t n;
} own_loops;

typedef struct turn {
  tn__lowering *l;
  tn_ctx *c;
  tn__survey s;
  tn__turned t;
  tn_node *x[2];     /* the loops from and to, */
  int64_t side[2];   /* of a tile along each */
  int64_t word[2];   /* neighbours along each that are accessed at once */
  int64_t threads, own;
  tn_node *block[2]; /* which tile it is */
  own_loops here;    /* of what is computed */
  int64_t ahead;     /* words that a thread holds of what is loaded ahead */
} turn;

enum { FROM, TO };

/* In a tile, where threads go along one of the loops: which word of which line, and which of the word's neighbours */
typedef struct place {
  int along;
  tn_node *word, *line, *by; /* by: NULL, words are elements */
} place;

static int64_t power_above(double v, int64_t most) {
  int64_t p = 1;
  while ((double)p < v && p < most) p *= 2;
  return p;
}

/* How many times as many places as there are tiles of so long a side have */
/* a choice: any is right */
static double waste_of(double size, double side) { return ceil(size / side) * side / size; }

/* Squares for which there is room twice, or as much longer as the other side is shorter than that, or is where half of
 * it leaves nothing over */
/* a choice: any is right */
static void find_sides(turn *k) {
  const tn__target *t = k->l->target;
  int64_t side = k->l->variant->turn, usual = tn__usual_group(t) < t->group ? tn__usual_group(t) : t->group;
  double room = fmin((double)t->kept - k->l->staged, tn__room_left(k->l));
  while (side > 1 && 2 * (double)(side * side) * k->t.bytes > room) side /= 2;
  double size[2] = {tn__extent(k->x[FROM]), tn__extent(k->x[TO])};
  for (int i = 0; i < 2; i++) k->side[i] = power_above(size[i], side);
  for (int i = 0; i < 2; i++) k->side[i] = power_above(size[i], side * side / k->side[!i]);
  for (int i = 0; i < 2; i++)
    if (waste_of(size[i], (double)k->side[i]) > SOME_WASTE && tn__divisible(k->x[i]->src[0], k->side[i] / 2) &&
        k->side[i] > FEWEST && 2 * (double)k->side[!i] <= size[!i])
      k->side[i] /= 2, k->side[!i] *= 2;
  int64_t all = k->side[FROM] * k->side[TO];
  for (k->own = FEWEST; k->own < MOST && all / k->own > usual;) k->own *= 2;
  k->threads = all / k->own;
}

/* How far lines of a tile lie apart that lie along that loop, in elements: a word more than they are long, or as much
 * as threads in step that go across it have along it, where lines are fewer than those */
static int64_t pitch_of(const turn *k, int along, int dtype) {
  int64_t size = (int64_t)tn__size_of(dtype), word = size < WORD ? WORD / size : 1;
  int64_t beside = k->l->target->subgroup / (k->side[!along] / k->word[!along]);
  return k->side[along] + (beside > word ? beside : word);
}

static place place_of(const turn *k, int along, const own_loops *own) {
  tn_ctx *c = k->c;
  tn_node *e = tn__add(c, tn__mul(c, own->x[1], tn__int(c, k->threads)), own->x[0]);
  tn_node *words = tn__int(c, k->side[along] / k->word[along]);
  return (place){.along = along,
                 .word = tn__op2(c, OP_MOD, e, words),
                 .line = tn__op2(c, OP_IDIV, e, words),
                 .by = own->n > 2 ? own->x[2] : NULL};
}

/* n * each + by */
static tn_node *neighbour(const turn *k, tn_node *n, int64_t each, tn_node *by) {
  tn_node *first = tn__mul(k->c, n, tn__int(k->c, each));
  return by ? tn__add(k->c, first, by) : first;
}

/* Where in a tile of scratch memory, whose lines lie along that loop */
static tn_node *in_tile(const turn *k, int along, int dtype, const place *p) {
  tn_ctx *c = k->c;
  int64_t each = k->word[!along];
  tn_node *apart = tn__int(c, k->side[!along] / each), *in_line, *first, *by;
  if (p->along == along) {
    in_line = neighbour(k, p->word, k->word[along], p->by);
    first = tn__op2(c, OP_IDIV, p->line, tn__int(c, each)), by = tn__op2(c, OP_MOD, p->line, tn__int(c, each));
  } else {
    in_line = p->line, first = p->word, by = p->by ? p->by : tn__int(c, 0);
  }
  tn_node *line = tn__add(c, tn__mul(c, by, apart), first);
  return tn__add(c, tn__mul(c, line, tn__int(c, pitch_of(k, along, dtype))), in_line);
}

static tn_node *tile_of(const turn *k, int along, int dtype) {
  int64_t elements = k->side[!along] * pitch_of(k, along, dtype);
  k->l->staged += (double)elements * (double)tn__size_of(dtype);
  return tn__scratch(k->l, dtype, elements);
}

/* The loop's counter in words of `each`, at that word of the block's tile.  The last tile begins before it would, so as
 * to end where the loop ends: then places need no bound each, and what is known of one is known of all, but for a
 * number that is added.  What another tile has, too, is not the last one's to store.  Where the loop is shorter than a
 * tile, or nobody knows, places beyond its end are its last one.  *inside: is it there? */
static tn_node *counter(const turn *k, int i, int64_t each, tn_node *word, tn_node **inside) {
  tn_ctx *c = k->c;
  tn_node *size = tn__simplify_index(c, tn__op2(c, OP_IDIV, k->x[i]->src[0], tn__int(c, each))), *there;
  tn_node *first = tn__mul(c, k->block[i], tn__int(c, k->side[i] / each)), *at = tn__add(c, first, word);
  int64_t turns;
  if (tn__divisible(k->x[i]->src[0], k->side[i])) return at;
  if (tn__const_int(size, &turns) && turns > k->side[i] / each) {
    at = tn__add(c, tn__op2(c, OP_MIN, first, tn__int(c, turns - k->side[i] / each)), word);
    there = tn__op2(c, OP_LE, first, at);
  } else {
    there = tn__op2(c, OP_LT, at, size);
    at = tn__op2(c, OP_MIN, at, tn__sub(c, size, tn__int(c, 1)));
  }
  *inside = *inside ? tn__op2(c, OP_AND, *inside, there) : there;
  return at;
}

/* The loops' counters there; gives whether they are within, and no other tile's, NULL: all are. */
static tn_node *counters(const turn *k, const place *p, tn_node *out[2]) {
  tn_node *inside = NULL;
  for (int i = 0; i < 2; i++) {
    int64_t each = i == p->along ? k->word[i] : 1;
    tn_node *at = counter(k, i, each, i == p->along ? p->word : p->line, &inside);
    out[i] = neighbour(k, at, each, i == p->along ? p->by : NULL);
  }
  return inside;
}

static own_loops fresh_loops(const turn *k, tn__role role, int along) {
  own_loops own = {.n = 2};
  own.x[0] = tn__fresh_range(k->l, tn__int(k->c, k->threads), AX_UPCAST, role);
  own.x[1] = tn__fresh_range(k->l, tn__int(k->c, k->own / k->word[along]), AX_UNROLL, role);
  if (k->word[along] > 1) own.x[own.n++] = tn__fresh_range(k->l, tn__int(k->c, k->word[along]), AX_UNROLL, role);
  return own;
}

static tn_node *load_from(tn_ctx *c, tn_node *filled, tn_node *at) {
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){filled, at}, .nsrc = 2});
}

/* What is loaded across, from a tile that threads fill along it */
static tn_node *loaded(const turn *k, tn_node *n) {
  own_loops own = fresh_loops(k, ROLE_KEPT, FROM);
  tn_node *at[2];
  place fill = place_of(k, FROM, &own), use = place_of(k, TO, &k->here);
  counters(k, &fill, at);
  tn_node *value = tn__substitute(k->c, n, (tn_node **)k->x, at, 2);
  int dtype = value->dtype;
  tn_node *filled = tn__filled(k->c, tile_of(k, FROM, dtype), in_tile(k, FROM, dtype, &fill), value, own.x, own.n);
  return load_from(k->c, filled, in_tile(k, FROM, dtype, &use));
}

/* A store across: of what waits in a tile, by threads that go along it */
static tn_node *stored(const turn *k, tn_node *n) {
  tn_ctx *c = k->c;
  own_loops own = fresh_loops(k, ROLE_KEPT, FROM);
  tn_node *at[2], *src[TN__MAX_RANGES + 7];
  int dtype = n->src[2]->dtype;
  place wait = place_of(k, TO, &k->here), out = place_of(k, FROM, &own);
  tn_node *inside = counters(k, &out, at);
  tn_node *filled = tn__filled(c, tile_of(k, TO, dtype), in_tile(k, TO, dtype, &wait), n->src[2], k->here.x, k->here.n);
  uint32_t m = 0;
  src[m++] = n->src[0];
  src[m++] = tn__substitute(c, n->src[1], (tn_node **)k->x, at, 2);
  src[m++] = load_from(c, filled, in_tile(k, TO, dtype, &out));
  if (inside) src[m++] = inside;
  for (uint32_t s = 3; s < n->nsrc; s++)
    if (n->src[s] != k->x[FROM] && n->src[s] != k->x[TO]) src[m++] = n->src[s];
  src[m++] = k->block[FROM], src[m++] = k->block[TO];
  for (uint32_t i = 0; i < own.n; i++) src[m++] = own.x[i];
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

/* ---- what is loaded ahead ---- */

/* The element of these own loops, of which only those that `of` has a bit for tell elements apart: of the form that
 * kernel.h asks for. */
static tn_node *slot(const turn *k, const own_loops *own, uint32_t of) {
  tn_ctx *c = k->c;
  tn_node *number = tn__int(c, 0), *src[2];
  for (uint32_t i = 1; i < own->n; i++)
    if (of >> i & 1) number = tn__add(c, tn__mul(c, number, tn__int(c, own->x[i]->hi + 1)), own->x[i]);
  src[0] = number, src[1] = tn__int(c, k->threads);
  src[0] = tn__node_make(c, &(tn__make){.op = OP_MUL, .dtype = TN__INDEX, .src = src, .nsrc = 2});
  src[1] = own->x[0];
  return tn__node_make(c, &(tn__make){.op = OP_ADD, .dtype = TN__INDEX, .src = src, .nsrc = 2});
}

/* Is it loaded from a place that is made of counters alone, of the tile's? */
/* a choice: no is right */
static bool is_placed(const turn *k, const tn_node *n) {
  tn__nodes all = {0};
  bool in_tile = false;
  if (n->op != OP_LOAD || n->src[0]->op != OP_PARAM) return false;
  tn_node *at[2] = {n->src[1], tn__gate_of(n)};
  tn__topo(k->l->a, at, at[1] ? 2 : 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (tn__is_access(all.v[i])) return false;
    in_tile |= all.v[i] == k->x[FROM] || all.v[i] == k->x[TO];
  }
  return in_tile;
}

/* Which of the own loops its place hangs on, a bit for each */
static uint32_t hangs_on(const turn *k, const tn_node *n, const own_loops *own) {
  tn__nodes all = {0};
  tn_node *at[2] = {tn__simplify_index(k->c, n->src[1]), tn__gate_of(n)};
  uint32_t set = 0;
  if (at[1]) at[1] = tn__simplify_index(k->c, at[1]);
  tn__topo(k->l->a, at, at[1] ? 2 : 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    for (uint32_t x = 0; x < own->n; x++) set |= all.v[i] == own->x[x] ? 1u << x : 0;
  return set;
}

/* The load n of what is computed, from registers that were filled before; NULL: there are not so many. */
/* a choice: NULL is right */
static tn_node *loaded_ahead(turn *k, tn_node *n) {
  tn_ctx *c = k->c;
  own_loops own = fresh_loops(k, ROLE_KEPT, TO);
  tn_node *at[2], *order[3] = {own.x[0]};
  place there = place_of(k, TO, &own);
  counters(k, &there, at);
  tn_node *value = tn__substitute(c, n, (tn_node **)k->x, at, 2);
  uint32_t of = hangs_on(k, value, &own), m = 1;
  int64_t elements = 1, size = (int64_t)tn__size_of(n->dtype);
  for (uint32_t i = 1; i < own.n; i++)
    if (of >> i & 1) elements *= own.x[i]->hi + 1, order[m++] = own.x[i];
  int64_t words = elements * (size > WORD ? size / WORD : 1);
  if (k->ahead + words > AHEAD) return NULL;
  k->ahead += words;
  tn_node *local = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                                .dtype = n->dtype,
                                                .src = (tn_node *[]){tn__int(c, elements * k->threads)},
                                                .nsrc = 1,
                                                .ints = (int64_t[]){k->l->next_local++, k->threads},
                                                .nint = 2,
                                                .device = -1});
  return load_from(c, tn__filled(c, local, slot(k, &own, of), value, order, m), slot(k, &k->here, of));
}

static tn_node *load_ahead(turn *k, tn_node *body) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(k->l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *held = is_placed(k, all.v[i]) ? loaded_ahead(k, all.v[i]) : NULL;
    if (!held) continue;
    tn__vec_push(k->l->a, &old, all.v[i]);
    tn__vec_push(k->l->a, &new_, held);
  }
  if (old.n) tn__sb_printf(&k->l->note, " ahead(%u)", old.n);
  return tn__substitute(k->c, body, old.v, new_.v, old.n);
}

/* Groups that are to have room in a unit, for a compiler to share out registers: so many that threads can ask for all
 * that they load at once, which has a place for each where lines may end within a tile.  0: it may as it likes, which
 * does for few, or where the device is not full of groups. */
/* a choice: any is right */
static int room_beside(const turn *k) {
  const tn__target *t = k->l->target;
  int64_t each = (int64_t)k->t.bytes * k->word[FROM], words = k->own / k->word[FROM] * (each > WORD ? each / WORD : 1);
  bool bounded = tn__extent(k->x[TO]) < (double)k->side[TO];
  words += k->ahead + (bounded ? k->own / k->word[FROM] : 0);
  int64_t room = (int64_t)(t->registers / sizeof(float)) / (k->threads * (OTHER_REGISTERS + words));
  double tiles = tn__extent(k->block[FROM]) * tn__extent(k->block[TO]);
  return words > FEW && room > 0 && tiles > (double)(room * t->units) ? (int)room : 0;
}

static void begin_loops(turn *k) {
  tn_ctx *c = k->c;
  for (int i = 0; i < 2; i++) {
    tn_node *up = tn__add(c, k->x[i]->src[0], tn__int(c, k->side[i] - 1));
    tn_node *tiles = tn__simplify_index(c, tn__op2(c, OP_IDIV, up, tn__int(c, k->side[i])));
    k->block[i] = tn__range_like(c, k->x[i], tiles, AX_LOOP);
  }
  k->here = fresh_loops(k, tn__role_of(k->x[TO]), TO);
}

/* ---- words of neighbours ---- */

static size_t size_of(const tn_node *access) {
  return tn__size_of(access->op == OP_LOAD ? access->dtype : access->src[2]->dtype);
}

/* Does it count for what neighbours along that loop are, 0 or 1, and in bytes of memory?  What is turned for FROM, what
 * else lies along it for TO. */
static double counts_along(const turn *k, int i, const tn_node *n) {
  const tn__ranges *r = &k->s.r;
  if (!tn__is_access(n) || n->src[0]->op != OP_PARAM || tn__is_across(&k->s, n, &k->t) != (i == FROM)) return 0;
  uint64_t free = tn__free_of(r, n->src[1]);
  return free >> tn__range_at(r, k->x[i]) & 1 ? tn__volume(&k->s, free) * (double)size_of(n) : 0;
}

/* Neighbours along loop i of which all that counts accesses a word, or several, at once, as far as it lies along it;
 * `starts` asks whether lines begin at words, too. */
/* a choice: 1 is right */
static int64_t word_of(const turn *k, int i, bool starts) {
  const tn__ranges *r = &k->s.r;
  uint32_t x = (uint32_t)tn__range_at(r, k->x[i]);
  double most = 0;
  for (uint32_t j = 0; j < r->order.n; j++) most = fmax(most, counts_along(k, i, r->order.v[j]));
  int64_t n = most > 0 ? WORD : 1;
  for (uint32_t j = 0; j < r->order.n; j++) {
    tn_node *a = r->order.v[j], *gate;
    if (counts_along(k, i, a) * MUCH_LESS <= most) continue;
    n = n < WORD / (int64_t)size_of(a) ? n : WORD / (int64_t)size_of(a);
    gate = tn__gate_of(a);
    if (tn__stride(r, a->src[1], x) != 1 || (gate && tn__free_of(r, gate) >> x & 1)) return 1;
    tn_node *first = starts ? tn__simplify_index(k->c, tn__sub(k->c, a->src[1], k->x[i])) : NULL;
    while (n > 1 && first && !tn__divisible(first, n)) n /= 2;
  }
  while (n > 1 && starts && !tn__divisible(k->x[i]->src[0], n)) n /= 2;
  return n > 1 ? n : 1;
}

static void find_words(turn *k) {
  for (int i = 0; i < 2; i++) {
    k->word[i] = word_of(k, i, true);
    while (k->word[i] > 1 && (k->word[i] >= k->own || k->word[i] > k->side[i])) k->word[i] /= 2;
  }
}

/* ---- short lines ---- */

/* A tile would lie beyond the end of lines for the most part, or have few of them side by side: they are one loop with
 * the one by which they go on, and others' places along it are worked out. */
/* a choice: either is right */
static tn_node *join_lines(turn *k, tn_node *body, tn__sb *note) {
  for (int pass = 0; pass < 4; pass++) /* short ones first: the other one could do with half words */
    for (int round = 0; round < MOST; round++) {
      int i = pass % 2;
      double size = tn__extent(k->x[i]), side = k->l->variant->turn;
      int64_t word = word_of(k, i, false);
      bool wastes = waste_of(size, side) > WASTE;
      bool odd = pass > 1 && !tn__divisible(k->x[i]->src[0], word);
      uint32_t along = i == FROM ? k->t.from : k->t.to;
      tn_node *next = wastes || odd ? tn__next_of_lines(&k->s, &k->t, along) : NULL, *one;
      if (!next || (!wastes && !tn__divisible(next->src[0], word))) break;
      tn__sb_printf(note, " flat(%lld,%lld)", tn__id_of(next), tn__id_of(k->x[i]));
      body = tn__as_one(k->l, body, (tn_node *[]){next, k->x[i]}, 2, AX_LOOP, &one);
      body = tn__simplify_accesses(k->c, k->l->a, body); /* for strides along the one to be seen */
      k->x[i] = one;
      tn__survey_loops(k->c, k->l->a, body, &k->s);
      k->t.from = (uint32_t)tn__range_at(&k->s.r, k->x[FROM]), k->t.to = (uint32_t)tn__range_at(&k->s.r, k->x[TO]);
    }
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
  find_words(&k);
  if (k.threads < l->target->subgroup || k.threads > l->target->group) return NULL; /* a choice: no is right */
  tn__sb_printf(&l->note, "%s turn(%lld,%lld,%lldx%lld) threads(%lld)", tn__sb_str(&lines), tn__id_of(k.x[FROM]),
                tn__id_of(k.x[TO]), (long long)k.side[FROM], (long long)k.side[TO], (long long)k.threads);
  for (int i = 0; i < 2; i++)
    if (k.word[i] > 1) tn__sb_printf(&l->note, " pack(%lld,%lld)", tn__id_of(k.x[i]), (long long)k.word[i]);
  begin_loops(&k);
  body = load_ahead(&k, replace(&k, replace(&k, body, OP_LOAD, loaded), OP_STORE, stored));
  tn_node *at[2], *come[5] = {k.block[FROM], k.block[TO]};
  memcpy(come + 2, k.here.x, k.here.n * sizeof *come);
  place here = place_of(&k, TO, &k.here);
  tn_node *inside = counters(&k, &here, at);
  body = tn__exchange_ranges(l, body, k.x, at, 2, come, 2 + k.here.n);
  if (inside) body = tn__ignore_beyond(l, body, k.here.x[0], inside);
  out->group = (int)k.threads, out->beside = room_beside(&k);
  /* along the loop of fewer tiles first: what two of them have in common of a line is soon asked for again */
  bool few = tn__extent(k.block[FROM]) < tn__extent(k.block[TO]); /* a choice: either is right */
  tn_node *order[] = {k.block[few ? TO : FROM], k.block[few ? FROM : TO]};
  body = tn__make_global(l, tn__simplify_accesses(l->c, l->a, body), order, 2);
  return tn__show_neighbours(l->c, l->a, tn__hold_in_blocks(l, body));
}
