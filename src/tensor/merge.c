/* Rows sorted by merges, on devices of groups.
 *
 * Rows are cut into runs of a few elements, in which each counts those that come before it.  Then two runs that lie
 * side by side at a time become one, until a row is one run.  A thread stores a few neighbours of the merged run: a
 * search by halves finds where those before them end in either run, and as many elements of each as follow there are
 * put in order in registers.  So a merge is one kernel that reads and stores in order, where a pass by radix is seven,
 * one of which scatters; but it takes as many steps as the logarithm of a run has, and there are as many merges as that
 * of a row, so that rows of millions of short keys are better sorted by radix.  (Green, McColl, Bader, GPU merge path,
 * 2012.)  Of equal ones those of an earlier run come first, so the order is stable.
 *
 * Rows are filled up to as many runs as all levels merge, which are of any even length, so that there is little to fill
 * up and no search has to ask where a row ends. */
#include "tensor/merge.h"
#include "tensor/sort.h"
#include <math.h>

enum {
  LEAST_RUN = 8,
  MOST_RUN = 32,      /* longer ones share rows of others, which is slower */
  NEAR = 4,           /* elements that a thread merges after one search: what it stores at once, or twice that */
  COUNT_LAUNCHES = 3, /* keys, places in runs, and what goes to them */
  LEAST_SEARCHED = 2, /* waits for memory that a merge has beside those of its search */
  NEAR_LOADS = 4,     /* so many of what is cached, one after the other, in the time that memory takes for one */
  SHARED_ASKS = 2,    /* elements that ask the same others share loads: an ask takes so many times less */
  PLACED_STEPS = 300, /* multiply-adds in the time that an element takes to be stored at its place, */
  MOVED_STEPS = 110,  /* or to be read and stored where it stands; */
  FAR_STEPS = 2,      /* in memory times as long, at first: a level reads what caches still have of the last one */
  CLOSE_RUN = 2048,   /* runs of which a unit's cache has those that its threads search; of longer ones a step is */
  FAR_SEARCH = 3,     /* so many multiply-adds for each byte of a key: each thread has a sector of its own */
  MOST_LEVELS = 32,
  /* of a search, for what it finds to be merged in the same kernel (schedule/fuse.h), keys alone or places, too */
  MOST_STEPS = 22,
  MOST_STEPS_PLACED = 18
};

/* a choice: either is right */
bool tn__is_far(const tn__target *t, double count, int bits) {
  double bytes = bits <= 32 ? 4 : bits <= 64 ? 8 : 12; /* in one word, or a key and a number beside it */
  return t->far > 0 && 2 * count * bytes > t->far;
}

/* What is left is halved, until it is one element. */
static int steps_of(double run) {
  int steps = 1;
  for (; run > 1; run -= floor(run / 2)) steps++;
  return steps;
}

int64_t tn__merged_length(tn__merges by) { return by.run << by.levels; }

/* a choice: either is right */
static double work_of(const tn__target *t, tn__merges by, double rows, int bits) {
  double ask = tn__sort_ask(t), launch = tn__sort_launch(t), all = rows * (double)tn__merged_length(by);
  double wait = (double)t->latency * (double)t->rate * t->units / NEAR_LOADS, run = (double)by.run;
  int arrays = bits > 64 ? 2 : 1, close = steps_of(CLOSE_RUN);
  double moved = arrays * MOVED_STEPS, first = tn__is_far(t, all, bits) ? FAR_STEPS * moved : moved;
  double far_step = FAR_SEARCH * (double)(bits > 32 ? sizeof(uint64_t) : sizeof(uint32_t));
  double work = COUNT_LAUNCHES * launch + all * (run * ask / SHARED_ASKS + arrays * PLACED_STEPS + first);
  for (int i = 0; i < by.levels; i++, run *= 2) {
    int steps = steps_of(run), far = steps > close ? steps - close : 0;
    double searched = 2 * (steps - far + NEAR) * ask / NEAR + far * fmax(far_step, 2 * ask / NEAR);
    work += launch + fmax((steps + LEAST_SEARCHED) * wait, all * (searched + moved));
  }
  return work;
}

/* a choice: any is right */
tn__merges tn__best_merges(const tn__target *t, double rows, double n, int bits, bool numbered, double *work) {
  tn__merges best = {0};
  *work = INFINITY;
  if (numbered) bits += (int)log2(n + MOST_RUN) + 1;
  for (int levels = 1; t->group && levels < MOST_LEVELS; levels++) {
    double run = 2 * ceil(n / (double)(2ll << levels)); /* of two runs each thread takes NEAR elements */
    if (run > MOST_RUN) continue;
    tn__merges by = {.run = (int64_t)run, .levels = levels};
    double one = work_of(t, by, rows, bits);
    if (one < *work) *work = one, best = by;
    if (run <= LEAST_RUN) break;
  }
  return best;
}

/* Two runs of `run` elements each become one, of all rows one after the other: [N]. */
typedef struct level {
  tn__merged of;
  int64_t run;
  int counter; /* dtype of places */
} level;

/* Keys, and beside them where each stands, where equal keys are not the same elements; else NULL */
typedef struct elements {
  tn_node *key, *place;
} elements;

static tn_node *plus(tn_ctx *c, tn_node *x, int64_t k) { return k ? tn__op2_num(c, OP_ADD, x, (double)k) : x; }

/* Does x come before y?  Of equal keys the one that stands first does. */
static tn_node *comes_before(tn_ctx *c, const elements *x, const elements *y) {
  tn_node *is_less = tn__op2(c, OP_LT, x->key, y->key);
  if (!x->place) return is_less;
  tn_node *is_earlier = tn__op2(c, OP_AND, tn__op2(c, OP_EQ, x->key, y->key), tn__op2(c, OP_LT, x->place, y->place));
  return tn__op2(c, OP_OR, is_less, is_earlier);
}

static elements chosen(tn_ctx *c, tn_node *is_first, const elements *x, const elements *y) {
  elements of = {.key = tn__where(c, is_first, x->key, y->key)};
  if (x->place) of.place = tn__where(c, is_first, x->place, y->place);
  return of;
}

/* Where the first of two runs begins */
static tn_node *pair_of(tn_ctx *c, const level *l, tn_node *head) {
  double size = 2.0 * (double)l->run;
  return tn__op2_num(c, OP_MUL, tn__op2_num(c, OP_IDIV, head, size), size);
}

static tn_node *greatest(tn_ctx *c, int dtype, const tn_node *like) {
  return tn__scalar_to(c, tn__const_num(c, dtype, INFINITY), like->dim, like->rank);
}

/* Which elements of the earlier run, and of the other one, are the first that do not stand before each head of a merged
 * run.  As many of the earlier one do as are no greater than what stands as far before the head in the other one.  What
 * is left is halved; neither end leaves the array, as intervals tell. */
static void find(tn_ctx *c, const level *l, tn_node *head, tn_node **a, tn_node **b) {
  tn_node *pair = pair_of(c, l, head), *in_pair = tn__op2_num(c, OP_MOD, head, 2.0 * (double)l->run);
  tn_node *most = tn__op2(c, OP_MIN, in_pair, tn__literal_like(c, head, (double)l->run));
  tn_node *least = tn__op2(c, OP_MAX, plus(c, in_pair, -l->run), tn__literal_like(c, head, 0));
  tn_node *end = tn__add(c, pair, most), *last = plus(c, end, -1);
  tn_node *taken = plus(c, tn__add(c, pair, least), -1), *other = plus(c, end, l->run);
  for (int64_t left = l->run, step = 0; left; left -= step) {
    step = left > 1 ? left / 2 : 1;
    tn_node *next = plus(c, taken, step), *back = plus(c, other, -step);
    tn_node *is_before = tn__op2(c, OP_LE, tn__gather(c, l->of.key, next), tn__gather(c, l->of.key, back));
    is_before = tn__op2(c, OP_AND, is_before, tn__op2(c, OP_LE, next, last));
    taken = tn__where(c, is_before, next, taken);
    other = tn__where(c, is_before, back, other);
  }
  *a = plus(c, taken, 1);
  *b = other;
}

/* The element at each of these places, or what comes last where it is none of its run, which ends there */
static elements at(tn_ctx *c, const level *l, tn_node *place, tn_node *end) {
  elements of = {0};
  tn_node *is_in = tn__op2(c, OP_LT, place, end), *in_run = tn__op2(c, OP_MIN, place, plus(c, end, -1));
  of.key = tn__where(c, is_in, tn__gather(c, l->of.key, in_run), greatest(c, l->of.key->dtype, place));
  if (l->of.order) of.place = tn__where(c, is_in, place, greatest(c, place->dtype, place));
  return of;
}

static void put_in_order(tn_ctx *c, elements *x, elements *y) {
  tn_node *is_after = comes_before(c, y, x);
  elements first = chosen(c, is_after, y, x);
  *y = chosen(c, is_after, x, y);
  *x = first;
}

/* The first NEAR of two rows in order: the i-th of one or the last but i of the other, whichever comes first.  They
 * rise and then fall, or the other way round, and are put in order by comparing those that are half as far apart each
 * time. (Batcher, Sorting networks and their applications, 1968.) */
static void first_of_both(tn_ctx *c, const elements *x, const elements *y, elements *out) {
  for (int i = 0; i < NEAR; i++) {
    const elements *other = &y[NEAR - 1 - i];
    out[i] = chosen(c, comes_before(c, other, &x[i]), other, &x[i]);
  }
  for (int apart = NEAR / 2; apart; apart /= 2)
    for (int i = 0; i < NEAR; i++)
      if (!(i & apart)) put_in_order(c, &out[i], &out[i + apart]);
}

/* x[i] of [Q] -> [Q, NEAR], which a thread stores side by side.  It is chosen by number, and not joined: all that it is
 * made of a thread works out once. */
static tn_node *side_by_side(tn_ctx *c, tn_node *const *x) {
  tn__dims shape = {.rank = 2, .d = {x[0]->dim[0], tn__int(c, NEAR)}};
  tn_node *number = tn__cast(c, tn__place(c, &shape, 1), TN_I32), *of = NULL;
  for (int i = NEAR; i--;) {
    tn_node *one = tn__expand(c, tn__add_axis(c, x[i], 1), shape.d);
    of = of ? tn__where(c, tn__op2(c, OP_EQ, number, tn__literal_like(c, number, i)), one, of) : one;
  }
  return of;
}

/* Runs, two of which become one: [Q, NEAR] of keys, or, where numbers stand beside them, of where each comes from */
static tn_node *merged(tn_ctx *c, const level *l) {
  elements x[NEAR], y[NEAR], first[NEAR];
  tn_node *found[NEAR];
  tn__dims each = {.rank = 1, .d = {tn__op2(c, OP_IDIV, l->of.key->dim[0], tn__int(c, NEAR))}};
  tn_node *head = tn__op2_num(c, OP_MUL, tn__cast(c, tn__place(c, &each, 0), l->counter), NEAR);
  tn_node *pair = pair_of(c, l, head), *end = plus(c, pair, l->run), *a, *b;
  find(c, l, head, &a, &b);
  if (steps_of((double)l->run) > (l->of.order ? MOST_STEPS_PLACED : MOST_STEPS)) {
    a = tn__op1(c, OP_CONTIG, a);
    b = tn__add(c, end, tn__sub(c, head, a)); /* as many of both runs stand before the head as it says */
  }
  for (int i = 0; i < NEAR; i++) {
    x[i] = at(c, l, plus(c, a, i), end);
    y[i] = at(c, l, plus(c, b, i), plus(c, end, l->run));
  }
  first_of_both(c, x, y, first);
  for (int i = 0; i < NEAR; i++) found[i] = l->of.order ? first[i].place : first[i].key;
  return side_by_side(c, found);
}

static tn_node *in_a_row(tn_ctx *c, tn_node *x, tn_node *const *n) {
  return tn__reshape(c, tn__op1(c, OP_CONTIG, x), n, 1);
}

static void merge(tn_ctx *c, const level *l, tn__merged *x) {
  tn_node *found = merged(c, l), *const *n = l->of.key->dim;
  x->key = in_a_row(c, x->order ? tn__gather(c, l->of.key, found) : found, n);
  if (x->order) x->order = in_a_row(c, tn__gather(c, l->of.order, found), n);
}

static void put_in_place(tn_ctx *c, tn__merged *x, tn_node *in_row, int counter) {
  tn_node *places = tn__places_of(c, in_row, counter);
  x->key = tn__placed(c, x->key, places);
  if (x->order) x->order = tn__placed(c, x->order, places);
}

static void reshape(tn_ctx *c, tn__merged *x, tn_node *const *shape, uint32_t rank) {
  x->key = tn__reshape(c, x->key, shape, rank);
  if (x->order) x->order = tn__reshape(c, x->order, shape, rank);
}

void tn__merge_rows(tn_ctx *c, tn__merges by, tn__merged *x) {
  tn_node *whole[] = {x->key->dim[0], x->key->dim[1]}, *all = tn__numel(c, x->key), *run = tn__int(c, by.run);
  level l = {.run = by.run, .counter = all->hi <= INT32_MAX - NEAR ? TN_I32 : TN_I64};
  reshape(c, x, (tn_node *[]){tn__op2(c, OP_IDIV, all, run), run}, 2);
  tn__dims shape = tn__dims_of(x->key);
  tn_node *number = x->distinct ? NULL : tn__cast(c, tn__place(c, &shape, 1), TN_I32);
  put_in_place(c, x, tn__places_by_counting(c, x->key, number), l.counter);
  reshape(c, x, &all, 1);
  for (int i = 0; i < by.levels; i++, l.run *= 2) {
    l.of = *x;
    merge(c, &l, x);
  }
  reshape(c, x, whole, 2);
}
