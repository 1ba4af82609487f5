/* A sum up to each turn of a long loop, by the threads of a group.
 *
 * Needs a body of such a loop, `turn`, and of others around it, all of which every store closes.  The sum's own loop is
 * `term`; other sums are the same for all turns, and the threads share out their terms.  Gives a body whose turns are
 * lanes times neighbours (see lower/kernel.h), in three steps:
 *
 *   each thread sums up its neighbours one after the other, and keeps what it has at each;
 *   what each has at its last one stands in shared memory, in lines of some threads, along each of which one of them
 *   sums up;
 *   each adds up the lines before its own, and what its own line has before itself, and adds that to all it kept.
 *
 * So all of a group wait for each other as often as there are steps, however many they are, and the order of additions
 * is a fixed one.  Short loops take few threads each: a group goes along several of them side by side.  Where what is
 * stored lies across the turns (columns), loops beside each other are the group's lanes next to each other, so that
 * these access memory as it lies; there is no wide access along the turns then, and neighbours may be any number.  Sums
 * from the end on number threads, and their neighbours, from the last one.  What lies beyond the last turn is neither
 * loaded nor stored, and counts for none.
 *
 * Rows that are not made of wide accesses (of odd lengths, or what begins anywhere), and columns too few beside each
 * other to fill what memory gives at once, lie in one piece in memory all the same: a group fetches all of its elements
 * as they lie there, into shared memory, where threads find their neighbours and leave what they have summed up; then
 * all is stored as it lies.  Neighbours are odd in number there, for threads in step to begin in banks of their own,
 * and rows that are whole wide elements lie an odd number of these apart.
 *
 * What the terms are made of, and what is stored, too, a thread keeps, but for what it fetches so: a second time each
 * of its neighbours would come from where the cache has long had others (i64 of which some are chosen, a second reading
 * by a thread's 128 bytes: 229 us of 33 million on an H200, where one reading takes 100).
 *
 * Steps noted: scan(a,TxN): loop a by T threads, N neighbours each; beside(Q): Q such loops in a group; across(Q): so,
 * of columns; fetched(W): by way of shared memory, W elements at a time; fetched(W,G): so, with G places behind each
 * row; keeps(K): K values beside the sums. */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  FEWEST_OWN = 4,      /* neighbours of a thread, if memory has them side by side: one wide access */
  SHARED_LOADS = 8,    /* loads from shared memory in the time in which memory gives an element, or less */
  WANTED_OWN = 12,     /* at least, of what a group fetches as it lies: less than twice as many */
  USUAL_THREADS = 256, /* more only for what these have no room for */
  MOST_AGAIN = 4,      /* values that threads keep beside their sums, */
  SHARE_OF_AGAIN = 4,  /* in so much of the registers of a unit */
  SHORT_LINE = 16,     /* up to so many threads are one line */
  MUCH_MADE = 64,      /* instructions of an element */
  STEPS_OF_GROUP = 4   /* times as many threads as run in step, of loops side by side */
};

typedef struct scan {
  tn__lowering *l;
  tn_ctx *c;
  const tn__run *of;
  tn_node *value;                    /* of->value, with what its sums are of shared out */
  int64_t turns, threads, own, line; /* of a loop: threads, neighbours of each, threads of a line */
  int64_t beside;                    /* loops that a group goes along at once */
  int64_t movers;                    /* threads that share out the elements as memory has them */
  bool across;                       /* which are its lanes next to each other */
  tn__op by;
  tn_node *nothing;                  /* what changes no sum */
  tn_node *gone[TN__MAX_RANGES];     /* the loops that lanes and neighbours stand for, the turn's last */
  uint32_t ngone;
  tn_node *rows, *block;             /* how many those around the turn's are in all; blocks of them, NULL: no such */
  int64_t wide;                      /* elements that a group fetches at a time as memory has them; 0: it does not */
  int64_t columns;                   /* ... of so many that lie beside each other */
  int64_t gap;                       /* ... and so many places behind each row */
  tn_node *room, *fetched;           /* where to; with all in it */
  tn_node *again[MOST_AGAIN];        /* what the body and the terms both make of what is loaded, for a lane and its */
  tn_node *known[MOST_AGAIN];        /* neighbour; in registers, since the terms were summed up */
  tn_node *own_loops[2];             /* that lane, and its neighbour */
  uint32_t nagain;
} scan;

static int64_t power_above(int64_t v) {
  int64_t p = 1;
  while (p < v) p *= 2;
  return p;
}

/* How many neighbours all accesses along the turn, or the term, or all stores, have at multiples of as many */
/* a choice: any is right */
static int64_t neighbours_of(const scan *s, const tn__survey *v, bool stores) {
  int64_t n = TN__SCAN_OWN;
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    const tn_node *x = v->r.order.v[i];
    if (stores && x->op != OP_STORE) continue;
    for (int k = 0; k < 2 && tn__is_access(x); k++) {
      tn_node *range = k ? s->of->term : s->of->turn;
      int64_t stride = tn__stride(&v->r, x->src[1], (uint32_t)tn__range_at(&v->r, range));
      if (stride != 1 && stride != -1) continue;
      tn_node *zero = tn__int(s->c, 0), *base = tn__substitute(s->c, x->src[1], &range, &zero, 1);
      base = tn__simplify_index(s->c, base);
      while (n > 1 && !tn__divisible(base, n)) n /= 2;
    }
  }
  return n;
}

/* Threads of a line: one line of few, else about as many as there are lines */
/* a choice: any power of two up to their number is right */
static int64_t line_for(int64_t threads) {
  int64_t line = 1;
  while (line < threads && (line < SHORT_LINE || line * line < threads)) line *= 2;
  return line;
}

/* Are a thread's neighbours enough for what it loads of others' sums to take no longer than memory does? */
/* a choice: either is right */
static bool are_enough(const scan *s, int64_t own) {
  int64_t threads = power_above((s->turns + own - 1) / own), line = line_for(threads);
  return line + threads / line <= SHARED_LOADS * (own + 1);
}

/* Neighbours of a thread: as many as leave work to a usual group and lie so, or more where it must have more */
/* a choice: any power of two is right */
static int64_t own_of(const scan *s, const tn__survey *v, int64_t most) {
  int64_t usual = USUAL_THREADS < most ? USUAL_THREADS : most;
  int64_t there = neighbours_of(s, v, false), want = power_above((s->turns + usual - 1) / usual), own;
  if (want < FEWEST_OWN) want = FEWEST_OWN;
  own = want < there ? want : there;
  while (own < TN__SCAN_OWN && !are_enough(s, own)) own *= 2;
  return own;
}

/* Does a device take longer to start a group than memory does to give and take its elements? */
/* a choice: either is right */
static bool starts_longer(const scan *s, int64_t elements) {
  const tn__target *t = s->l->target;
  double moved = 2.0 * (double)elements * (double)tn__size_of(s->nothing->dtype);
  double memory = (double)t->rate * t->units / (double)t->balance * sizeof(float);
  return moved < (double)t->start * memory;
}

/* Loops that a group goes along: at least as many threads as run in step, and several times as many of many loops, or a
 * usual group's if memory has their elements sooner than groups are started */
/* a choice: any power of two is right */
static int64_t beside_of(const scan *s, double rows) {
  const tn__target *t = s->l->target;
  int64_t n = 1, many = STEPS_OF_GROUP * t->subgroup;
  for (bool more = rows > 1; more;) {
    bool much = s->threads * n < many || (s->threads * n < USUAL_THREADS && starts_longer(s, s->turns * n));
    more = much && (s->threads * n < t->subgroup || rows > 2.0 * (double)n * t->units);
    if (more) n *= 2;
  }
  return n;
}

/* Threads for loops of so many neighbours each */
static int64_t threads_for(const scan *s, int64_t own) { return power_above((s->turns + own - 1) / own); }

/* Are the turns of columns that lie beside each other a multiple of so many elements apart? */
/* a choice: either is right */
static bool turns_lie_at(const scan *s, const tn__survey *v, const tn_node *columns, int64_t wide) {
  uint32_t turn = (uint32_t)tn__range_at(&v->r, s->of->turn), column = (uint32_t)tn__range_at(&v->r, columns);
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    const tn_node *x = v->r.order.v[i];
    if (tn__is_access(x) && tn__stride(&v->r, x->src[1], column) == 1 && tn__stride(&v->r, x->src[1], turn) % wide)
      return false;
  }
  return true;
}

/* Columns side by side are as many as lie in what memory gives at once, or all that there are; and twice as many where
 * these do not begin where that does, so that two groups would ask for it.  Neighbours are as few as a usual group can
 * have, or, of longer loops, as many as leave room for two groups in a unit, one of which loads while the other stores.
 * Only if threads cannot hold all, columns are fewer. */
static void choose_columns(scan *s, const tn__survey *v, double rows, const tn_node *columns, size_t stored) {
  const tn__target *t = s->l->target;
  int64_t most = power_above(t->group / 2 + 1), usual = USUAL_THREADS < most ? USUAL_THREADS : most;
  int64_t own = FEWEST_OWN, wide = tn__scan_columns(t, stored, columns->hi + 1);
  if (2 * wide <= columns->hi + 1 && !turns_lie_at(s, v, columns, wide)) wide *= 2;
  int64_t largest = tn__scan_tile(t, tn__size_of(s->nothing->dtype)) / most;
  while (own * most < s->turns) own *= 2;
  while (own < TN__SCAN_OWN && (threads_for(s, own) * wide > usual || !are_enough(s, own))) own *= 2;
  while (own < largest && threads_for(s, own) * wide > most / 2) own *= 2;
  s->threads = threads_for(s, own);
  s->own = (s->turns + s->threads - 1) / s->threads;
  s->beside = wide;
  if (s->threads < t->subgroup || s->threads * wide > most) { /* groups are made of whole steps of threads */
    s->beside = power_above(wide);
    while (s->threads * s->beside > most) s->beside /= 2;
    while (s->threads * s->beside < usual && rows > 2.0 * (double)s->beside * t->units) s->beside *= 2;
    while (s->threads * s->beside < t->subgroup) s->beside *= 2;
  }
  s->line = line_for(s->threads);
}

/* Threads and lines are powers of two, so that lines and loops begin at lanes that they divide; so is all else but what
 * fetched rows have (choose_fetched). */
static void choose_sizes(scan *s, const tn__survey *v, double rows) {
  int64_t most = power_above(s->l->target->group / 2 + 1);
  s->own = own_of(s, v, most);
  while (s->own * most < s->turns) s->own *= 2;
  s->threads = power_above((s->turns + s->own - 1) / s->own);
  s->beside = beside_of(s, rows);
  while (s->threads * s->beside > most) s->beside /= 2;
  if (s->threads * s->beside < s->l->target->subgroup) s->threads = s->l->target->subgroup / s->beside;
  s->line = line_for(s->threads);
}

static int64_t group_of(const scan *s) { return s->threads * s->beside; }
static int64_t elements_of(const scan *s) { return s->turns * s->beside; }
/* With places for neighbours beyond the last turn, which are neither loaded nor stored: none lies beyond the end. */
static int64_t room_of(const scan *s) {
  return elements_of(s) + (s->threads * s->own - s->turns) * s->columns + s->beside / s->columns * s->gap;
}
static int64_t lines_of(const scan *s) { return s->threads / s->line; }

static tn_node *lanes(scan *s, int64_t n) { return tn__fresh_range(s->l, tn__int(s->c, n), AX_UPCAST, ROLE_KEPT); }
static tn_node *neighbours(scan *s) { return tn__fresh_range(s->l, tn__int(s->c, s->own), AX_UNROLL, ROLE_KEPT); }

static tn_node *load(scan *s, tn_node *from, tn_node *at) {
  return tn__node_make(s->c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){from, at}, .nsrc = 2});
}

/* ---- what a thread keeps ---- */

static tn_node *registers(scan *s, int dtype) {
  return tn__node_make(s->c, &(tn__make){.op = OP_LOCAL,
                                         .dtype = dtype,
                                         .src = (tn_node *[]){tn__int(s->c, s->own * group_of(s))},
                                         .nsrc = 1,
                                         .ints = (int64_t[]){s->l->next_local++, group_of(s)},
                                         .nint = 2,
                                         .device = -1});
}

/* A thread's element of them: of the form that kernel.h asks for */
static tn_node *slot(scan *s, tn_node *number, tn_node *lane) {
  tn_node *threads = tn__int(s->c, group_of(s));
  tn_node *start = tn__node_make(
      s->c, &(tn__make){.op = OP_MUL, .dtype = TN__INDEX, .src = (tn_node *[]){number, threads}, .nsrc = 2});
  return tn__node_make(s->c,
                       &(tn__make){.op = OP_ADD, .dtype = TN__INDEX, .src = (tn_node *[]){start, lane}, .nsrc = 2});
}

static tn_node *from_end(scan *s, tn_node *x, int64_t n) { return tn__sub(s->c, tn__int(s->c, n - 1), x); }

/* The quotient and the remainder by `by`, of a number below `all` */
static tn_node *over(scan *s, tn_node *x, int64_t by, int64_t all) {
  return by == all ? tn__int(s->c, 0) : by == 1 ? x : tn__op2(s->c, OP_IDIV, x, tn__int(s->c, by));
}
static tn_node *rest(scan *s, tn_node *x, int64_t by, int64_t all) {
  return by == all ? x : by == 1 ? tn__int(s->c, 0) : tn__op2(s->c, OP_MOD, x, tn__int(s->c, by));
}

static tn_node *row_of(scan *s, tn_node *lane) {
  return s->across ? rest(s, lane, s->beside, group_of(s)) : over(s, lane, s->threads, group_of(s));
}
static tn_node *thread_of(scan *s, tn_node *lane) {
  return s->across ? over(s, lane, s->beside, group_of(s)) : rest(s, lane, s->threads, group_of(s));
}

static tn_node *turn_at(scan *s, tn_node *lane, tn_node *by) {
  return tn__add(s->c, tn__mul(s->c, thread_of(s, lane), tn__int(s->c, s->own)), by);
}

/* Which of all loops along which threads sum up the lane is for; the last block may have some beyond the end. */
static tn_node *row_at(scan *s, tn_node *lane) {
  return tn__add(s->c, tn__mul(s->c, s->block, tn__int(s->c, s->beside)), row_of(s, lane));
}

/* The counters of all loops that are gone, for a lane and its neighbour */
static void counters(scan *s, tn_node *lane, tn_node *by, tn_node **at) {
  uint32_t n = s->ngone - 1;
  at[n] = turn_at(s, lane, by);
  tn_node *left = n ? row_at(s, lane) : NULL;
  if (n && !tn__divisible(s->rows, s->beside)) /* beyond the end the last one's work is done again */
    left = tn__op2(s->c, OP_MIN, left, tn__sub(s->c, s->rows, tn__int(s->c, 1)));
  while (n) {
    tn_node *size = s->gone[--n]->src[0];
    at[n] = n ? tn__op2(s->c, OP_MOD, left, size) : left;
    left = tn__op2(s->c, OP_IDIV, left, size);
  }
}

/* Nothing is loaded or stored beyond the last turn.  What is the same for all neighbours is there where the first of
 * them is. */
static tn_node *gate_end(scan *s, tn_node *body, tn_node *lane, tn_node *by) {
  tn_ctx *c = s->c;
  tn_node *end = tn__int(c, s->turns), *first = turn_at(s, lane, tn__int(c, 0)), *each = turn_at(s, lane, by);
  tn__ranges r;
  tn__ranges_find(c, s->l->a, body, &r);
  if (tn__range_at(&r, lane) >= 0)
    body = tn__gate_accesses(s->l, body, tn__op2(c, OP_LT, first, end), lane, by);
  if (tn__range_at(&r, by) >= 0) body = tn__gate_accesses(s->l, body, tn__op2(c, OP_LT, each, end), by, NULL);
  return body;
}

/* ---- elements as memory has them ---- */

/* A group's elements, shared out: `take` of so many wide ones for each thread, of neighbours `by` (NULL: one) */
typedef struct flat {
  tn_node *own[3], *lane, *take, *by; /* own: those that there are */
  uint32_t n;
  tn_node *place, *inside;            /* among the group's; NULL: all of them are there */
  tn_node *in_room;                   /* where the group has it */
} flat;

static tn_node *times(scan *s, tn_node *x, int64_t by) { return tn__mul(s->c, x, tn__int(s->c, by)); }

/* Elements of a row, its columns beside each other */
static int64_t row_length(const scan *s) { return s->turns * s->columns; }

/* So many of the group's elements are there: the last group may have fewer. */
static tn_node *end_of_elements(scan *s) {
  tn_ctx *c = s->c;
  tn_node *all = tn__int(c, elements_of(s));
  if (!s->block || tn__divisible(s->rows, s->beside)) return all;
  tn_node *rest = tn__sub(c, times(s, s->rows, s->turns), times(s, s->block, elements_of(s)));
  return tn__op2(c, OP_MIN, all, tn__simplify_index(c, rest));
}

static flat flat_of(scan *s, tn__role role) {
  tn_ctx *c = s->c;
  int64_t at_once = s->movers * s->wide, takes = (elements_of(s) + at_once - 1) / at_once;
  flat f = {.lane = tn__fresh_range(s->l, tn__int(c, s->movers), AX_UPCAST, role)};
  f.own[f.n++] = f.lane;
  tn_node *pack = f.lane;
  if (takes > 1) {
    f.own[f.n++] = f.take = tn__fresh_range(s->l, tn__int(c, takes), AX_UNROLL, role);
    pack = tn__add(c, times(s, f.take, s->movers), f.lane);
  }
  tn_node *first = f.place = times(s, pack, s->wide);
  if (s->wide > 1) {
    f.own[f.n++] = f.by = tn__fresh_range(s->l, tn__int(c, s->wide), AX_UNROLL, role);
    f.place = tn__add(c, first, f.by);
  }
  tn_node *row = s->gap ? tn__op2(c, OP_IDIV, pack, tn__int(c, row_length(s) / s->wide)) : tn__int(c, 0);
  f.in_room = tn__simplify_index(c, tn__add(c, f.place, times(s, row, s->gap)));
  bool part = s->block && !tn__divisible(s->rows, s->beside); /* of a wide one, too, of the last group? */
  bool each = part && !tn__divisible(times(s, s->rows, s->turns), s->wide);
  if (part || takes * at_once > elements_of(s))
    f.inside = tn__op2(c, OP_LT, each ? f.place : first, end_of_elements(s));
  return f;
}

/* Stand for an element of the group's, and for one of all that there are, until what is made of their numbers is as
 * simple as it can be: memory has all of several rows one behind the other.  Of one row in a group its number is the
 * block's, which is the same for all threads. */
typedef struct element {
  tn_node *of_group, *of_all, *at; /* of_all: NULL where a group has one row; where it is, by the group's */
} element;

static element any_element(scan *s) {
  tn_ctx *c = s->c;
  tn__role role = tn__role_of(s->of->turn);
  element x = {.of_group = tn__fresh_range(s->l, tn__int(c, elements_of(s)), AX_LOOP, role)};
  if (s->beside == s->columns) return x;
  x.of_all = tn__fresh_range(s->l, tn__simplify_index(c, times(s, s->rows, s->turns)), AX_LOOP, role);
  x.at = tn__add(c, times(s, s->block, elements_of(s)), x.of_group);
  return x;
}

/* The counters of all loops that are gone, for an element */
static void counters_of_element(scan *s, const element *x, tn_node **at) {
  tn_ctx *c = s->c;
  uint32_t n = s->ngone - 1;
  tn_node *turns = tn__int(c, s->turns), *columns = tn__int(c, s->columns), *left = x->of_all ? x->of_all : x->of_group;
  if (s->columns > 1) {
    at[n - 1] = tn__op2(c, OP_MOD, left, columns);
    left = tn__op2(c, OP_IDIV, left, columns);
  }
  at[n] = x->of_all ? tn__op2(c, OP_MOD, left, turns) : left;
  left = x->of_all ? tn__op2(c, OP_IDIV, left, turns) : s->block;
  for (n -= s->columns > 1; n;) {
    tn_node *size = s->gone[--n]->src[0];
    at[n] = n ? tn__op2(c, OP_MOD, left, size) : left;
    left = n ? tn__op2(c, OP_IDIV, left, size) : NULL;
  }
}

/* Nothing is loaded or stored beyond the last element.  What is the same for all threads is there where the first of
 * them has one. */
static tn_node *gate_flat(scan *s, tn_node *body, const flat *f) {
  tn_ctx *c = s->c;
  if (!f->inside) return body;
  tn__ranges r;
  tn__ranges_find(c, s->l->a, body, &r);
  bool lane = tn__range_at(&r, f->lane) >= 0, take = f->take && tn__range_at(&r, f->take) >= 0;
  if (take) {
    tn_node *first = tn__op2(c, OP_LT, times(s, f->take, s->movers * s->wide), end_of_elements(s));
    body = tn__gate_accesses(s->l, body, first, f->take, lane ? f->lane : NULL);
  }
  return lane ? tn__gate_accesses(s->l, body, f->inside, f->lane, NULL) : body;
}

/* All terms of the group's rows, where they are to be summed up */
static void fetch(scan *s) {
  tn_ctx *c = s->c;
  flat f = flat_of(s, ROLE_KEPT);
  element x = any_element(s);
  tn_node *at[TN__MAX_RANGES], *from[TN__MAX_RANGES], *src[7];
  counters_of_element(s, &x, at);
  memcpy(from, s->gone, s->ngone * sizeof *from);
  from[s->ngone - 1] = s->of->term;
  tn_node *value = tn__simplify_accesses(c, s->l->a, tn__substitute(c, s->value, from, at, s->ngone));
  if (x.of_all) value = tn__simplify_accesses(c, s->l->a, tn__substitute(c, value, &x.of_all, &x.at, 1));
  value = tn__simplify_accesses(c, s->l->a, tn__substitute(c, value, &x.of_group, &f.place, 1));
  value = gate_flat(s, value, &f);
  s->room = tn__scratch(s->l, value->dtype, room_of(s));
  uint32_t n = 0;
  src[n++] = s->room, src[n++] = f.in_room, src[n++] = value;
  if (f.inside) src[n++] = f.inside;
  for (uint32_t i = 0; i < f.n; i++) src[n++] = f.own[i];
  s->fetched = tn__behind(c, s->room, tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = n}));
}

/* Where a thread's neighbour stands there */
static tn_node *place_at(scan *s, tn_node *lane, tn_node *by) {
  tn_ctx *c = s->c;
  tn_node *line = row_of(s, lane), *row = over(s, line, s->columns, s->beside), *turn = turn_at(s, lane, by);
  tn_node *at = tn__add(c, times(s, row, row_length(s) + s->gap), times(s, turn, s->columns));
  return tn__simplify_index(c, tn__add(c, at, rest(s, line, s->columns, s->beside)));
}

/* ... and whether it is there; NULL: it is */
static tn_node *is_there(scan *s, tn_node *lane, tn_node *by) {
  tn_ctx *c = s->c;
  tn_node *turn = NULL, *row = NULL;
  if (s->own * s->threads > s->turns) turn = tn__op2(c, OP_LT, turn_at(s, lane, by), tn__int(c, s->turns));
  if (s->block && !tn__divisible(s->rows, s->beside)) row = tn__op2(c, OP_LT, row_at(s, lane), s->rows);
  return turn && row ? tn__op2(c, OP_AND, turn, row) : turn ? turn : row;
}

static tn_node *load_if(scan *s, tn_node *from, tn_node *at, tn_node *gate) {
  tn_node *src[3] = {from, at, gate};
  return tn__node_make(s->c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = gate ? 3 : 2});
}

/* What each thread has made of its neighbours, `all`, in their places; then the body over all elements as they lie */
static tn_node *over_elements(scan *s, tn_node *body, tn_node *all, tn_node *lane, tn_node *by) {
  tn_ctx *c = s->c;
  tn_node *at[TN__MAX_RANGES], *gate = is_there(s, lane, by), *src[6] = {s->fetched, place_at(s, lane, by), all, gate};
  uint32_t n = gate ? 4 : 3;
  src[n++] = lane, src[n++] = by;
  tn_node *done = tn__behind(c, s->room, tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = n}));
  flat f = flat_of(s, tn__role_of(s->of->turn));
  element x = any_element(s);
  tn_node *come[2] = {x.of_group, s->block}, **first = x.of_all ? &x.of_all : come;
  uint32_t ncome = s->block ? 2 : 1;
  counters_of_element(s, &x, at);
  body = tn__exchange_ranges(s->l, body, s->gone, at, s->ngone, first, x.of_all ? 1 : ncome);
  body = tn__simplify_accesses(c, s->l->a, body);
  if (x.of_all)
    body = tn__simplify_accesses(c, s->l->a, tn__exchange_ranges(s->l, body, first, &x.at, 1, come, ncome));
  body = tn__simplify_accesses(c, s->l->a, tn__exchange_ranges(s->l, body, come, &f.place, 1, f.own, f.n));
  body = gate_flat(s, body, &f);
  tn_node *sum = tn__sum_over(s->l, body, s->of->term), *each = load_if(s, done, f.in_room, f.inside);
  return tn__substitute(c, body, &sum, &each, 1);
}

/* The term's value for a thread's neighbour.  Beyond the last turn nothing is loaded, and from the end on, where that
 * comes first, nothing counts. */
static tn_node *value_at(scan *s, tn_node *lane, tn_node *by) {
  tn_node *at[TN__MAX_RANGES], *from[TN__MAX_RANGES];
  if (s->wide) {
    tn_node *gate = is_there(s, lane, by), *value = load_if(s, s->fetched, place_at(s, lane, by), gate);
    return gate && s->of->back ? tn__where(s->c, gate, value, s->nothing) : value;
  }
  counters(s, lane, by, at);
  memcpy(from, s->gone, s->ngone * sizeof *from);
  from[s->ngone - 1] = s->of->term;
  tn_node *value = tn__substitute(s->c, s->value, from, at, s->ngone);
  value = tn__simplify_accesses(s->c, s->l->a, value);
  if (s->own * s->threads == s->turns) return value;
  value = gate_end(s, value, lane, by);
  tn_node *inside = tn__op2(s->c, OP_LT, at[s->ngone - 1], tn__int(s->c, s->turns));
  return s->of->back ? tn__where(s->c, inside, value, s->nothing) : value;
}

/* Does a node load something, and is it made of nothing that threads do together? */
static void mark_loads(const tn__nodes *all, tn__map *loads, tn__map *together) {
  for (uint32_t i = 0; i < all->n; i++) {
    tn_node *n = all->v[i];
    bool own = n->op == OP_LOAD, other = n->op == OP_REDUCE || n->op == OP_RUNNING || n->op == OP_LOCAL ||
                                         n->op == OP_STORE || n->op == OP_AFTER;
    for (uint32_t k = 0; k < n->nsrc; k++) {
      own |= tn__map_getp(loads, n->src[k]) != NULL;
      other |= tn__map_getp(together, n->src[k]) != NULL;
    }
    if (own) tn__map_putp(loads, n, n);
    if (other) tn__map_putp(together, n, n);
  }
}

/* a choice: either is right */
static bool has_room_again(const scan *s, int dtype) {
  const tn__target *t = s->l->target;
  size_t words = (tn__size_of(dtype) + sizeof(uint32_t) - 1) / sizeof(uint32_t) * (size_t)s->own;
  for (uint32_t i = 0; i < s->nagain; i++)
    words += (tn__size_of(s->again[i]->dtype) + sizeof(uint32_t) - 1) / sizeof(uint32_t) * (size_t)s->own;
  size_t room =
      t->registers ? (size_t)t->registers / sizeof(uint32_t) / SHARE_OF_AGAIN / (size_t)group_of(s) : TN__SCAN_OWN;
  return s->nagain < MOST_AGAIN && words <= room;
}

/* What of the body, over a lane and its neighbour, is made of what its terms load: it would be loaded twice, each time
 * by accesses that each touch as many lines as threads. */
/* a choice: any of what both have is right */
static void find_again(scan *s, tn_node *body, tn_node *lane, tn_node *by) {
  tn_node *value = value_at(s, lane, by);
  tn__nodes of_value = {0}, all = {0};
  tn__map in_value, loads, together, hangs;
  tn__map *maps[] = {&in_value, &loads, &together, &hangs};
  for (int i = 0; i < 4; i++) tn__map_init(maps[i], s->l->a);
  tn__topo(s->l->a, &value, 1, &of_value);
  tn__topo(s->l->a, &body, 1, &all);
  mark_loads(&of_value, &loads, &together);
  for (uint32_t i = 0; i < of_value.n; i++) {
    tn_node *n = of_value.v[i];
    bool moves = n == by;
    for (uint32_t k = 0; k < n->nsrc; k++) moves |= tn__map_getp(&hangs, n->src[k]) != NULL;
    if (moves) tn__map_putp(&hangs, n, n);
    tn__map_putp(&in_value, n, n);
  }
  for (uint32_t i = 0; i < all.n; i++) {
    if (tn__map_getp(&in_value, all.v[i])) continue;
    for (uint32_t k = 0; k < all.v[i]->nsrc; k++) {
      tn_node *x = all.v[i]->src[k];
      bool known = !tn__map_getp(&loads, x) || tn__map_getp(&together, x) || !tn__map_getp(&hangs, x);
      for (uint32_t j = 0; j < s->nagain; j++) known |= s->again[j] == x;
      if (!known && x->dtype != TN__INDEX && has_room_again(s, x->dtype)) s->again[s->nagain++] = x;
    }
  }
}

/* What each thread has of its neighbours, in registers; and what else it has to keep of them, in the same loops.  lane,
 * by: which neighbour of whom the loops are at. */
static tn_node *fill(scan *s, tn_node *at, tn_node *value, tn_node *const *own, tn_node *lane, tn_node *by) {
  tn_ctx *c = s->c;
  tn_node *local[1 + MOST_AGAIN], *src[2 + MOST_AGAIN];
  uint32_t n = 1 + s->nagain;
  for (uint32_t i = 0; i < n; i++) {
    tn_node *x = value, *place = i ? slot(s, by, lane) : at;
    if (i) x = tn__substitute(c, s->again[i - 1], s->own_loops, (tn_node *[]){lane, by}, 2);
    local[i] = registers(s, x->dtype);
    tn_node *store[] = {local[i], place, x, own[0], own[1]};
    src[1 + i] = tn__node_make(c, &(tn__make){.op = OP_STORE, .src = store, .nsrc = 5});
  }
  for (uint32_t i = 0; i < n; i++) {
    src[0] = local[i];
    local[i] = tn__node_make(c, &(tn__make){.op = OP_AFTER, .src = src, .nsrc = 1 + n});
    if (i) s->known[i - 1] = local[i];
  }
  return local[0];
}

/* All values up to each of the thread's neighbours, itself among them, in the order in which they lie in memory */
static tn_node *summed_up(scan *s) {
  tn_node *lane = lanes(s, group_of(s)), *by = neighbours(s), *own[2] = {lane, by};
  tn_node *place = s->of->back && s->wide ? from_end(s, by, s->own) : by;
  tn_node *value = value_at(s, lane, place), *at = slot(s, place, lane);
  if (s->of->back && !s->wide) { /* these are loaded forwards, as memory wants it */
    tn_node *kept = fill(s, at, value, own, lane, by);
    own[0] = lane = lanes(s, group_of(s)), own[1] = by = neighbours(s);
    at = slot(s, from_end(s, by, s->own), lane);
    value = load(s, kept, at);
  }
  int64_t combine = (int64_t)s->by;
  tn_node *sum = tn__node_make(s->c, &(tn__make){.op = OP_RUNNING, .src = (tn_node *[]){value, by}, .nsrc = 2,
                                                 .ints = &combine, .nint = 1});
  if (!s->of->back) return fill(s, at, sum, own, lane, by);
  return tn__filled(s->c, registers(s, s->nothing->dtype), at, sum, own, 2);
}

/* ---- what threads tell each other ---- */

/* A line's threads lie one element further than the line before them ends, for lines to begin in other banks. */
static tn_node *in_line(scan *s, tn_node *line, tn_node *thread) {
  return tn__add(s->c, tn__mul(s->c, line, tn__int(s->c, s->line + 1)), thread);
}

/* The thread's number among those of its loop, which is that in the order of additions */
static tn_node *number_of(scan *s, tn_node *lane) {
  tn_node *thread = thread_of(s, lane);
  return s->of->back ? from_end(s, thread, s->threads) : thread;
}

/* The line of its loop that it stands in, the first one of that loop, and its place in it */
static tn_node *line_of(scan *s, tn_node *n) { return over(s, n, s->line, s->threads); }
static tn_node *first_line(scan *s, tn_node *lane) {
  return tn__mul(s->c, row_of(s, lane), tn__int(s->c, lines_of(s)));
}
static tn_node *place_of(scan *s, tn_node *n) { return rest(s, n, s->line, s->threads); }

static tn_node *totals(scan *s, tn_node *kept) {
  tn_node *lane = lanes(s, group_of(s)), *number = number_of(s, lane);
  tn_node *total = load(s, kept, slot(s, tn__int(s->c, s->of->back ? 0 : s->own - 1), lane));
  tn_node *room = tn__scratch(s->l, total->dtype, s->beside * lines_of(s) * (s->line + 1));
  tn_node *line = tn__add(s->c, first_line(s, lane), line_of(s, number));
  tn_node *at = in_line(s, line, place_of(s, number));
  return tn__filled(s->c, room, tn__simplify_index(s->c, at), total, &lane, 1);
}

static tn_node *sum_of(scan *s, tn_node *value, tn_node *range) {
  int64_t ints[2] = {(int64_t)s->by, 0};
  return tn__node_make(s->c, &(tn__make){.op = OP_REDUCE, .src = (tn_node *[]){value, range}, .nsrc = 2, .ints = ints,
                                         .nint = 2});
}

static tn_node *terms(scan *s, int64_t n) { return tn__fresh_range(s->l, tn__int(s->c, n), AX_REDUCE, ROLE_APART); }

/* Of each line the sums up to each of its threads, in the order of additions */
static tn_node *along_lines(scan *s, tn_node *total) {
  tn_node *own[2] = {lanes(s, s->beside * lines_of(s)),
                     tn__fresh_range(s->l, tn__int(s->c, s->line), AX_UNROLL, ROLE_KEPT)};
  tn_node *at = in_line(s, own[0], own[1]), *src[2] = {load(s, total, at), own[1]};
  int64_t combine = (int64_t)s->by;
  tn_node *sum = tn__node_make(s->c, &(tn__make){.op = OP_RUNNING, .src = src, .nsrc = 2, .ints = &combine, .nint = 1});
  tn_node *store[] = {total, at, sum, own[0], own[1]};
  return tn__behind(s->c, total->src[0], tn__node_make(s->c, &(tn__make){.op = OP_STORE, .src = store, .nsrc = 5}));
}

/* Of the first n, those before number `end` */
static tn_node *sum_before(scan *s, tn_node *value, tn_node *range, tn_node *end) {
  return sum_of(s, tn__where(s->c, tn__op2(s->c, OP_LT, range, end), value, s->nothing), range);
}

/* All that stands before the thread's own: lines before its own, and those of its line before it; the last line stands
 * before none.  One line's threads add up what is before them each for itself. */
static tn_node *before(scan *s, tn_node *total, tn_node *lane) {
  tn_ctx *c = s->c;
  if (s->threads == 1) return s->nothing;
  tn_node *number = number_of(s, lane), *own = line_of(s, number), *place = place_of(s, number),
          *first = first_line(s, lane);
  if (lines_of(s) == 1) {
    tn_node *thread = terms(s, s->line - 1), *at = tn__simplify_index(c, in_line(s, first, thread));
    return sum_before(s, load(s, total, at), thread, place);
  }
  tn_node *sums = along_lines(s, total), *zero = tn__int(c, 0), *line = terms(s, lines_of(s) - 1);
  tn_node *last = tn__op2(c, OP_MAX, tn__sub(c, place, tn__int(c, 1)), zero);
  tn_node *at = tn__simplify_index(c, in_line(s, tn__add(c, first, own), last));
  tn_node *near = tn__where(c, tn__op2(c, OP_LT, zero, place), load(s, sums, at), s->nothing);
  at = tn__simplify_index(c, in_line(s, tn__add(c, first, line), tn__int(c, s->line - 1)));
  return tn__op2(c, s->by, sum_before(s, load(s, sums, at), line, own), near);
}

/* What the thread has up to its neighbour, or before it */
static tn_node *own_part(scan *s, tn_node *kept, tn_node *lane, tn_node *by) {
  if (!s->of->beside) return load(s, kept, slot(s, by, lane));
  tn_node *zero = tn__int(s->c, 0), *last = tn__int(s->c, s->own - 1), *one = tn__int(s->c, 1);
  tn_node *other = s->of->back ? tn__op2(s->c, OP_MIN, tn__add(s->c, by, one), last)
                               : tn__op2(s->c, OP_MAX, tn__sub(s->c, by, one), zero);
  tn_node *any = s->of->back ? tn__op2(s->c, OP_LT, by, last) : tn__op2(s->c, OP_LT, zero, by);
  return tn__where(s->c, any, load(s, kept, slot(s, other, lane)), s->nothing);
}

/* ---- a body ---- */

/* May the threads share out its terms, all of them together? */
/* a choice: no is right */
static bool is_shared(const scan *s, const tn__survey *v, const tn_node *sum) {
  uint64_t free = tn__free_of(&v->r, sum), turn = 1ull << tn__range_at(&v->r, s->of->turn);
  uint32_t own = (uint32_t)tn__range_at(&v->r, sum->src[1]);
  return sum->nsrc == 2 && !(free & ~(v->outputs & ~turn)) && tn__is_const(sum->src[1]->src[0]) &&
         tn__axis_of(sum->src[1]) == AX_REDUCE && !tn__bounds_loops(&v->r, own) && sum->src[1] != s->of->term;
}

/* Do all stores go through the same loops, on all of which the sum hangs, and are others shared out? */
/* a choice: no is right */
static bool is_possible(const scan *s, const tn__survey *v) {
  uint64_t turn = 1ull << tn__range_at(&v->r, s->of->turn);
  if (v->common != v->outputs || !(v->common & turn) || v->running) return false;
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    const tn_node *n = v->r.order.v[i];
    if (n->op == OP_LOCAL || n->op == OP_STOREADD || n->op == OP_AFTER) return false;
    if (n->op == OP_REDUCE && n != s->of->sum && !is_shared(s, v, n)) return false;
    if (n == s->of->sum && (v->outputs & ~tn__free_of(&v->r, n))) return false;
  }
  for (uint32_t k = 0; k < v->r.n; k++)
    if (tn__axis_of(v->r.range[k]) == AX_GLOBAL || ((v->outputs >> k & 1) && tn__bounds_loops(&v->r, k))) return false;
  return true;
}

/* The terms of other sums, a turn for each of the threads: beyond the last one they add nothing.  Of columns each
 * thread has its own, which are few. */
static tn_node *share_out(scan *s, const tn__survey *v, tn_node *body) {
  tn_ctx *c = s->c;
  if (s->across) return body;
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    tn_node *n = v->r.order.v[i], *x = n->op == OP_REDUCE && n != s->of->sum ? n->src[1] : NULL, *cut[2];
    if (!x) continue;
    int64_t all = x->hi + 1, by = s->threads < power_above(all) ? s->threads : power_above(all);
    cut[0] = tn__range_like(c, x, tn__int(c, (all + by - 1) / by), AX_REDUCE);
    cut[1] = tn__fresh_range(s->l, tn__int(c, by), AX_UPCAST, tn__role_of(x));
    tn_node *at = tn__add(c, tn__mul(c, cut[0], tn__int(c, by)), cut[1]), *inside = tn__op2(c, OP_LT, at, x->src[0]);
    if (all % by) at = tn__op2(c, OP_MIN, at, tn__int(c, all - 1));
    tn_node **both[] = {&body, &s->value}; /* which may have the same sums */
    for (int k = 0; k < 2; k++) {
      *both[k] = tn__exchange_ranges(s->l, *both[k], &x, &at, 1, cut, 2);
      if (all % by) *both[k] = tn__ignore_beyond(s->l, *both[k], cut[1], inside);
    }
  }
  return body;
}

/* The loop around along which what is stored lies side by side in memory, and not along the turns; NULL: none.
 * *stored: the size of an element. */
/* a choice: any is right */
static tn_node *columns_of(const scan *s, const tn__survey *v, uint64_t around, size_t *stored) {
  tn_node *columns = NULL;
  uint32_t turn = (uint32_t)tn__range_at(&v->r, s->of->turn);
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    const tn_node *x = v->r.order.v[i];
    if (x->op != OP_STORE) continue;
    int64_t along = tn__stride(&v->r, x->src[1], turn);
    if (along == 1 || along == -1) return NULL;
    size_t size = tn__size_of(x->src[0]->dtype);
    if (!*stored || size < *stored) *stored = size;
    for (uint32_t k = 0; k < v->r.n; k++)
      if ((around >> k & 1) && tn__stride(&v->r, x->src[1], k) == 1 && tn__is_const(v->r.range[k]->src[0]))
        columns = v->r.range[k];
  }
  return columns;
}

/* ---- elements as memory has them: when ---- */

/* Do accesses of all elements lie one behind the other so, so many at a time? */
/* a choice: either is right */
static bool lies_flat(scan *s, const tn__survey *v) {
  tn_ctx *c = s->c;
  tn_node *at[TN__MAX_RANGES + 1], *from[TN__MAX_RANGES + 1], *zero = tn__int(c, 0);
  element one = any_element(s);
  uint64_t gone = 0;
  counters_of_element(s, &one, at);
  memcpy(from, s->gone, s->ngone * sizeof *from);
  at[s->ngone] = at[s->ngone - 1], from[s->ngone] = s->of->term;
  for (uint32_t k = 0; k + 1 < s->ngone; k++) gone |= 1ull << tn__range_at(&v->r, s->gone[k]);
  for (uint32_t i = 0; i < v->r.order.n; i++) {
    const tn_node *x = v->r.order.v[i];
    if (!tn__is_access(x) || (tn__free_of(&v->r, x->src[1]) & gone) != gone) continue;
    tn_node *index = tn__simplify_index(c, tn__substitute(c, x->src[1], from, at, s->ngone + 1));
    if (one.of_all) index = tn__simplify_index(c, tn__substitute(c, index, &one.of_all, &one.at, 1));
    tn_node *base = tn__simplify_index(c, tn__substitute(c, index, &one.of_group, &zero, 1));
    if (tn__simplify_index(c, tn__sub(c, index, base)) != one.of_group || !tn__divisible(base, s->wide)) return false;
  }
  return true;
}

/* Places behind each row: where rows lie an even number of wide elements apart, most threads in step would ask the same
 * banks. */
static int64_t gap_of(const scan *s) {
  bool whole = row_length(s) % s->wide == 0, even = row_length(s) / s->wide % 2 == 0;
  return s->wide > 1 && s->beside > s->columns && whole && even ? s->wide : 0;
}

/* Threads of about as many neighbours as leave work to all units; then as many rows as make whole wide elements, and
 * groups of a usual size, or of more than takes as long to start; `alone`: one row.  What shared memory has no room for
 * does not go so. */
/* a choice: no is right */
static bool choose_fetched(scan *s, double rows, int64_t columns, bool alone) {
  const tn__target *t = s->l->target;
  size_t size = tn__size_of(s->nothing->dtype);
  int64_t most = power_above(t->group / 2 + 1), want = WANTED_OWN, most_lines = most / columns;
  if (rows * (double)s->turns < (double)TN__SCAN_OWN * t->units * t->unit_threads / 2) want = FEWEST_OWN;
  for (s->threads = 1; s->threads * 2 * want <= s->turns;) s->threads *= 2;
  while (s->threads > most_lines) s->threads /= 2;
  if (s->threads < 1) return false;
  int64_t side = 1, row = s->turns * columns;
  while (s->threads * side * columns % t->subgroup) side *= 2;
  if (alone) s->threads *= side, side = 1;
  s->own = (s->turns + s->threads - 1) / s->threads;
  if (s->threads > 1) s->own += !(s->own % 2);
  s->wide = t->access / (int64_t)size > 1 ? t->access / (int64_t)size : 1;
  for (bool more = !alone; more;) {
    more = (side < s->wide && row * side % s->wide) || s->threads * side * columns < STEPS_OF_GROUP * t->subgroup ||
           starts_longer(s, row * side);
    more &= rows > 2.0 * (double)(side * columns) * t->units && s->threads * side * columns <= most / 2 &&
            (size_t)(3 * row * side) * size <= t->shared;
    if (more) side *= 2;
  }
  while (s->wide > 1 && row * side % s->wide) s->wide /= 2;
  s->beside = side * columns;
  s->columns = columns;
  s->line = line_for(s->threads);
  s->gap = gap_of(s);
  return s->own <= 2 * TN__SCAN_OWN + 1 && group_of(s) <= most && group_of(s) % t->subgroup == 0 &&
         (size_t)(room_of(s) + group_of(s) * 2) * size <= t->shared;
}

/* Is it worth while?  Rows along which nothing is stored by wide accesses, or columns that are fewer than memory gives
 * at once. */
/* a choice: either is right */
static bool may_fetch(const scan *s, const tn__survey *v, const tn_node *columns, size_t stored) {
  if (columns) return columns->hi + 1 < tn__scan_columns(s->l->target, stored, INT32_MAX);
  return neighbours_of(s, v, true) < FEWEST_OWN;
}

/* What is loaded to be summed up, and made of the sums, more threads than go along rows may share out, where much is
 * done for each element, and groups are too few for a device's threads: as many as leave each a wide element.  Not
 * where threads that run in step tell each other other sums. */
/* a choice: any power of two from the group's on is right */
static int64_t movers_of(const scan *s, const tn__survey *v) {
  const tn__target *t = s->l->target;
  int64_t n = group_of(s), packs = (elements_of(s) + s->wide - 1) / s->wide, most = power_above(t->group / 2 + 1);
  double groups = s->block ? (double)s->block->hi + 1 : 1, all = (double)t->units * t->unit_threads, work = 0;
  for (uint32_t i = 0; i < v->r.order.n; i++)
    if (v->r.order.v[i]->dtype != TN__INDEX) work += tn__instructions(v->r.order.v[i], false);
  while (work >= MUCH_MADE && n < packs && n < USUAL_THREADS && n < most && 2.0 * (double)n * groups <= all) n *= 2;
  return n;
}

/* In the order of loops, columns last */
static bool comes_before(const tn_node *x, const tn_node *other, const tn_node *columns) {
  return other == columns || (x != columns && tn__id_of(x) < tn__id_of(other));
}

/* The loops around the turn's become one, of which a group may have several turns side by side; columns turn
 * fastest. */
static void take_rows(scan *s, const tn__survey *v) {
  tn_ctx *c = s->c;
  int64_t others = 0; /* which are the same for all threads of a group only if it goes along one loop */
  for (uint32_t i = 0; i < v->r.order.n; i++)
    if (v->r.order.v[i]->op == OP_REDUCE && v->r.order.v[i] != s->of->sum && v->r.order.v[i]->src[1]->hi >= others)
      others = v->r.order.v[i]->src[1]->hi + 1;
  uint64_t around = v->outputs & ~(1ull << tn__range_at(&v->r, s->of->turn));
  size_t stored = 0;
  tn_node *columns = others > TN__THREADS_TURNS ? NULL : columns_of(s, v, around, &stored);
  s->across = columns != NULL;
  if (columns) choose_columns(s, v, tn__volume(v, around), columns, stored);
  else choose_sizes(s, v, others ? 1 : tn__volume(v, around));
  scan usual = *s;
  bool fetches = !(columns && others) && (s->of->fetched || may_fetch(s, v, columns, stored)) &&
                 choose_fetched(s, tn__volume(v, around), columns ? columns->hi + 1 : 1, others > 0 || !around);
  if (!fetches) *s = usual;
  s->rows = tn__int(c, 1);
  for (uint32_t k = 0; k < v->r.n; k++) {
    if (!(around >> k & 1)) continue;
    uint32_t at = s->ngone++;
    for (; at && comes_before(v->r.range[k], s->gone[at - 1], columns); at--) s->gone[at] = s->gone[at - 1];
    s->gone[at] = v->r.range[k];
    s->rows = tn__simplify_index(c, tn__mul(c, s->rows, v->r.range[k]->src[0]));
  }
  if (s->ngone) {
    tn_node *up = tn__add(c, s->rows, tn__int(c, s->beside - 1)), *by = tn__int(c, s->beside);
    s->block = tn__fresh_range(s->l, tn__simplify_index(c, tn__op2(c, OP_IDIV, up, by)), AX_LOOP,
                               tn__role_of(s->gone[0]));
  }
  s->gone[s->ngone++] = s->of->turn;
  while (s->wide > 1 && !lies_flat(s, v)) s->wide /= 2;
  s->movers = s->wide && !others ? movers_of(s, v) : group_of(s);
}

/* The body over lanes and neighbours; what lies beyond the end is left alone. */
static tn_node *over_lanes(scan *s, tn_node *body, tn_node *lane, tn_node *by) {
  tn_ctx *c = s->c;
  tn_node *at[TN__MAX_RANGES], *come[3] = {lane, by, s->block};
  counters(s, lane, by, at);
  body = tn__exchange_ranges(s->l, body, s->gone, at, s->ngone, come, s->block ? 3 : 2);
  body = tn__simplify_accesses(c, s->l->a, body);
  if (s->own * s->threads > s->turns) body = gate_end(s, body, lane, by);
  if (!s->block || tn__divisible(s->rows, s->beside)) return body;
  return tn__ignore_beyond(s->l, body, lane, tn__op2(c, OP_LT, row_at(s, lane), s->rows));
}

tn_node *tn__run_in_group(tn__lowering *l, tn_node *body, const tn__run *of) {
  tn_ctx *c = l->c;
  scan s = {.l = l, .c = c, .of = of, .value = of->value, .by = (tn__op)of->sum->ints[0], .turns = of->turn->hi + 1};
  tn__survey v;
  tn__survey_loops(c, l->a, body, &v);
  if (!tn__is_const(of->turn->src[0]) || of->turn->hi != of->term->hi || s.turns > tn__scan_turns(l->target) ||
      !is_possible(&s, &v))
    return NULL;
  s.nothing = tn__const_bits(c, of->sum->dtype, tn__eval_reduce_init((int)s.by, of->sum->dtype));
  take_rows(&s, &v);
  if (of->fetched && !s.wide) return NULL;
  tn__sb_printf(&l->note, " scan(%lld,%lldx%lld)", tn__id_of(of->turn), (long long)s.threads, (long long)s.own);
  if (s.beside > 1) tn__sb_printf(&l->note, " %s(%lld)", s.across ? "across" : "beside", (long long)s.beside);
  body = share_out(&s, &v, body);
  if (s.wide) {
    tn__sb_printf(&l->note, " fetched(%lld", (long long)s.wide);
    if (s.gap) tn__sb_printf(&l->note, ",%lld", (long long)s.gap);
    tn__sb_puts(&l->note, ")");
    fetch(&s);
  }
  tn__role role = s.wide ? ROLE_KEPT : tn__role_of(of->turn);
  tn_node *lane = tn__fresh_range(l, tn__int(c, group_of(&s)), AX_UPCAST, role),
          *by = tn__fresh_range(l, tn__int(c, s.own), AX_UNROLL, role);
  if (!s.wide) {
    body = over_lanes(&s, body, lane, by);
    s.own_loops[0] = lane, s.own_loops[1] = by;
    find_again(&s, body, lane, by);
    if (s.nagain) tn__sb_printf(&l->note, " keeps(%u)", s.nagain);
  }
  tn_node *sum = tn__sum_over(s.l, body, s.of->term), *kept = summed_up(&s);
  tn_node *all = tn__op2(c, s.by, before(&s, totals(&s, kept), lane), own_part(&s, kept, lane, by));
  l->threads = (int)s.movers;
  if (s.wide) return over_elements(&s, body, all, lane, by);
  tn_node *from[1 + MOST_AGAIN] = {sum}, *to[1 + MOST_AGAIN] = {all};
  for (uint32_t i = 0; i < s.nagain; i++)
    from[1 + i] = s.again[i], to[1 + i] = load(&s, s.known[i], slot(&s, by, lane));
  return tn__substitute(c, body, from, to, 1 + s.nagain);
}
