/* Rows sorted by merges, on devices of groups.
 *
 * Rows are cut into runs of a few elements, in which each counts those that come before it.  Then some runs that lie
 * side by side at a time become one, until a row is one run.  An element's place in the merged run is its place in its
 * own run, and of each other one how many come before it, which a search by halves finds.  The searches of one element
 * wait for nothing of each other, so that their loads are on their way at the same time; neighbours look at nearly the
 * same places, and what they find is stored nearly side by side.  So a merge is two kernels, that finds places and that
 * stores, where a pass by radix is seven; but it takes as many steps as the logarithm of a run has, so that rows of
 * millions of short keys are better sorted by radix.  Of equal ones those of an earlier run come first, so the order is
 * stable.
 *
 * Rows are filled up to as many runs as all levels merge, which are of any length, so that there is little to fill up
 * and no search has to ask where a row ends. */
#include "tensor/merge.h"
#include "tensor/sort.h"
#include <math.h>

enum {
  LEAST_RUN = 16,
  MOST_RUN = 64,
  LEAST_WAYS = 4,
  MOST_WAYS = 8,
  COUNT_LAUNCHES = 3, /* keys, places in runs, and what goes to them */
  LEAST_SEARCHED = 2, /* waits for memory that a merge has beside those of its search */
  NEAR_LOADS = 4,     /* so many of what is cached, one after the other, in the time that memory takes for one */
  PLACED_STEPS = 150, /* multiply-adds in the time that an element takes to be stored at its place, in a cache */
  FAR_STEPS = 2,      /* times as long in memory */
  /* A kernel holds the nodes of a graph up to a number (schedule/fuse.h), beyond which it is cut: a search has so many
   * of its own, and for each step; so many do all searches share for each step. */
  MOST_NODES = 290,
  NODES = 20,
  STEP_NODES = 4
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

/* Runs that are merged at once: so many, unless fewer are left, or a kernel holds less. */
/* a choice: any is right */
static int ways_of(int most, double run, double left) {
  int ways = 2, steps = steps_of(run);
  while (ways < most && ways < left && ways * (NODES + STEP_NODES * steps) + STEP_NODES * steps <= MOST_NODES) ways++;
  return ways;
}

/* Of runs that are no longer than this */
/* a choice: any is right */
static tn__merges merges_of(double n, int64_t most_run, int ways) {
  tn__merges by = {0};
  double run = (double)most_run, merged = 1;
  while (run < n && by.levels < TN__MERGE_LEVELS) {
    int w = by.ways[by.levels++] = ways_of(ways, run, n / run);
    run *= w, merged *= w;
  }
  by.run = run < n ? 0 : (int64_t)ceil(n / merged);
  return by;
}

int64_t tn__merged_length(tn__merges by) {
  int64_t n = by.run;
  for (int i = 0; i < by.levels; i++) n *= by.ways[i];
  return n;
}

/* a choice: either is right */
static double work_of(const tn__target *t, tn__merges by, double rows, int bits) {
  double ask = tn__sort_ask(t), launch = tn__sort_launch(t), all = rows * (double)tn__merged_length(by);
  double wait = (double)t->latency * (double)t->rate * t->units / NEAR_LOADS, run = (double)by.run;
  int arrays = bits > 64 ? 2 : 1;
  double placed = arrays * PLACED_STEPS * (tn__is_far(t, all, bits) ? FAR_STEPS : 1);
  double work = COUNT_LAUNCHES * launch + all * (run * ask + placed);
  for (int i = 0; i < by.levels; run *= by.ways[i++]) {
    int steps = steps_of(run);
    work += (1 + arrays) * launch;
    work += fmax((steps + LEAST_SEARCHED) * wait, all * ((by.ways[i] - 1) * steps * ask + placed));
  }
  return work;
}

/* a choice: any is right */
tn__merges tn__best_merges(const tn__target *t, double rows, double n, int bits, bool numbered, double *work) {
  tn__merges best = {0};
  *work = INFINITY;
  if (numbered) bits += (int)log2(n + MOST_RUN) + 1;
  for (int64_t run = LEAST_RUN; t->group && run <= MOST_RUN; run *= 2)
    for (int ways = LEAST_WAYS; ways <= MOST_WAYS; ways++) {
      tn__merges by = merges_of(n, run, ways);
      double one = by.run ? work_of(t, by, rows, bits) : INFINITY;
      if (one < *work) *work = one, best = by;
    }
  return best;
}

/* Runs of key[1, N], all rows one after the other, some of which become one. */
typedef struct level {
  tn_node *key, *place; /* of each element */
  int64_t run;
  int ways;
} level;

/* How many elements of the run that begins at `from` are below `key`: of what is left of it, either the first half is,
 * or the rest need not be looked at. */
static tn_node *below(tn_ctx *c, const level *l, tn_node *from, tn_node *key) {
  tn_node *at = from, *all = tn__merge_axes(c, l->key, 0, 2), *size = all->dim[0];
  for (int64_t left = l->run, step = 0; left; left -= step) {
    step = left > 1 ? left / 2 : 1;
    tn_node *behind = tn__int(c, step - 1);
    tn_node *last = tn__shrink(c, all, &behind, (tn_node *[]){tn__sub(c, size, behind)}, NULL);
    tn_node *is_below = tn__op2(c, OP_LT, tn__gather(c, last, at), key);
    at = tn__where(c, is_below, tn__op2_num(c, OP_ADD, at, (double)step), at);
  }
  return tn__sub(c, at, from);
}

/* Which run an element is in, of those that become one. */
typedef struct own_run {
  tn_node *group, *number;
} own_run;

/* How many elements of another run come before each: of the run that stands `other` runs behind its own, counted round
 * the group.  Equal ones come before it if their run does: then what is below the next greater key is counted. */
static tn_node *before_of(tn_ctx *c, const level *l, own_run own, int other, bool distinct) {
  tn_node *run = tn__op2_num(c, OP_MOD, tn__op2_num(c, OP_ADD, own.number, other), l->ways);
  tn_node *from = tn__add(c, tn__op2_num(c, OP_MUL, own.group, l->ways), run);
  from = tn__op2_num(c, OP_MUL, from, (double)l->run);
  if (distinct) return below(c, l, from, l->key);
  tn_node *is_before = tn__op2(c, OP_LT, run, own.number);
  tn_node *next = tn__add(c, l->key, tn__cast(c, is_before, l->key->dtype));
  tn_node *is_all = tn__op2(c, OP_LT, next, l->key); /* there is no next one */
  return tn__where(c, is_all, tn__literal_like(c, from, (double)l->run), below(c, l, from, next));
}

/* Where each goes: i32 or i64 [1, N] */
static tn_node *places_of(tn_ctx *c, const level *l, bool distinct) {
  double size = (double)l->run;
  tn_node *run = tn__op2_num(c, OP_IDIV, l->place, size);
  own_run own = {tn__op2_num(c, OP_IDIV, run, l->ways), tn__op2_num(c, OP_MOD, run, l->ways)};
  tn_node *first = tn__op2_num(c, OP_MUL, own.group, size * l->ways);
  tn_node *place = tn__add(c, first, tn__op2_num(c, OP_MOD, l->place, size));
  for (int i = 1; i < l->ways; i++) place = tn__add(c, place, before_of(c, l, own, i, distinct));
  return place;
}

static void put_in_place(tn_ctx *c, tn__merged *x, tn_node *in_row, int counter) {
  tn_node *places = tn__places_of(c, in_row, counter);
  x->key = tn__placed(c, x->key, places);
  if (x->order) x->order = tn__placed(c, x->order, places);
}

static void reshape(tn_ctx *c, tn__merged *x, tn_node *rows, tn_node *n) {
  tn_node *shape[] = {rows, n};
  x->key = tn__reshape(c, x->key, shape, 2);
  if (x->order) x->order = tn__reshape(c, x->order, shape, 2);
}

void tn__merge_rows(tn_ctx *c, tn__merges by, tn__merged *x) {
  tn_node *rows = x->key->dim[0], *m = x->key->dim[1], *all = tn__numel(c, x->key), *run = tn__int(c, by.run);
  int counter = all->hi <= INT32_MAX ? TN_I32 : TN_I64;
  reshape(c, x, tn__op2(c, OP_IDIV, all, run), run);
  tn__dims shape = tn__dims_of(x->key);
  tn_node *number = x->distinct ? NULL : tn__cast(c, tn__place(c, &shape, 1), TN_I32);
  put_in_place(c, x, tn__places_by_counting(c, x->key, number), counter);
  reshape(c, x, tn__int(c, 1), all);
  shape = tn__dims_of(x->key);
  level l = {.run = by.run, .place = tn__cast(c, tn__place(c, &shape, 1), counter)};
  for (int i = 0; i < by.levels; i++, l.run *= l.ways) {
    l.ways = by.ways[i];
    l.key = x->key;
    put_in_place(c, x, places_of(c, &l, x->distinct), counter);
  }
  reshape(c, x, rows, m);
}
