/* Scatters for devices whose threads run at once.  Integers are added at once, too, where the device can do that and
 * places are not few: in any order they give the same sum.  Added up one after the other, as they are written, others
 * would leave such a device to one thread.  Few are summed up place by place: each place asks all of them, or, where
 * there are fewer of them than places, each of them asks all others, and the first of those that go to one place takes
 * their sum there; along an axis only those of its own line are asked.  Of many, those that go to one place are brought
 * together by sorting: they are a run then, and its sum is made of sums of blocks.  Single numbers are added at once as
 * integers are, in fixed point, where that takes less (fixed.c, scaled.c), by rank where places are many (ranked.c),
 * and so are rows of few, number by number.
 *
 * A block gives the sum of the run that it ends in, as far as it is in the block; such sums, a run of the same number
 * each, are summed up along runs by the same rule.  So what a place gets is the sum of its elements in the block in
 * which its run ends, and of the run before that block.  Where there are fewer updates than places, runs look for their
 * places, and not places for their runs.
 *
 * Updates may be rows of many elements: which of them a sum is made of is worked out once for a row, and nothing is
 * loaded of those that are not in it.  Narrow rows, if they are many, are moved to where they stand in order first: a
 * thread then loads all of a block, which lie side by side, and asks none of them where it is. */
#include "rewrite/rewrite.h"
#include "schedule/fixed.h"
#include "schedule/fuse.h"
#include "schedule/ordered.h"
#include "tensor/scan.h"
#include "tensor/sort.h"
#include <math.h>

enum {
  FIRST_BLOCK = 8,    /* elements of a block: each place looks at as many; */
  NEXT_BLOCK = 32,    /* of one of sums of blocks, which are fewer; */
  LONG = 16,          /* of so many of these one more is not much */
  FEW_PLACES = 64,    /* at which additions would wait for each other */
  RUN_LAUNCHES = 8,   /* kernels of sums of runs, */
  RUN_STEPS = 32,     /* and multiply-adds in the time that an element of a row is in them, */
  RUN_MOVES = 24,     /* or f32 moved in that of a single number, */
  RUN_GATHER = 9,     /* and where it does not come with its place, too */
  ASK_LAUNCHES = 2,   /* kernels where updates ask each other, beside those where places ask; */
  ASK_STEPS = 4,      /* multiply-adds in the time that one is asked: load, compare, choose, add; */
  ASK_WAITS = 40,     /* so, of a device that says what a launch takes: loads are waited for (20 to 140 measured); */
  FEW_THREADS = 4,    /* of a narrow row; those of others are told what its sum is made of */
  LEVEL_STEPS = 40,   /* for which blocks' sums are made of those of longer blocks */
  LONG_ROW = 1024,
  FIND_WAITS = 20, /* or where neighbours look for theirs by halves, who all come at once; */
  FLAT_MOVES = 6,  /* f32 moved where an update of a line is said where it goes: 8 bytes are stored, and read twice */
  MUCH_ASKED = 4,  /* launches in whose time is asked so much that what is asked for is worked out before */
  OWN_STEPS = 16,  /* multiply-adds in the time that an owner of places asks whether an update is his; */
  OWN_ASKED = 8,   /* so many each of its threads asks before anybody waits, */
  OWN_LOADED = 16, /* rows that are on their way together; */
  OWN_MOST = 1 << 15 /* updates: if all go to one place, a group adds them alone, OWN_LOADED in the time of one load */
};

static double most(const tn_node *size) { return (double)size->hi; }

static double most_of(const tn_node *x) {
  double all = 1;
  for (uint32_t i = 0; i < x->rank; i++) all *= most(x->dim[i]);
  return all;
}

/* Element `at` along an axis, which goes */
static tn_node *element_of(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *at) {
  tn_node *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) begin[i] = tn__int(c, 0), size[i] = x->dim[i];
  begin[axis] = at;
  size[axis] = tn__int(c, 1);
  return tn__drop_axis(c, tn__shrink(c, x, begin, size, NULL), axis);
}

/* [n, ...] -> along the axis, one for each block: its last element */
static tn_node *last_of_blocks(tn_ctx *c, tn_node *x, uint32_t axis) {
  return element_of(c, x, axis, tn__add(c, x->dim[axis], tn__int(c, -1)));
}

/* values[k, n, r] where `taken`[k, n], else 0 */
static tn_node *where_taken(tn_ctx *c, tn_node *taken, tn_node *values) {
  taken = tn__expand(c, tn__add_axis(c, taken, values->rank - 1u), values->dim);
  return tn__where(c, taken, values, tn__literal_like(c, values, 0));
}

/* ... where those of number[k, n] equal to[k, 1] */
static tn_node *where_equal(tn_ctx *c, tn_node *number, tn_node *to, tn_node *values) {
  return where_taken(c, tn__bcast2(c, OP_EQ, number, to), values);
}

/* Of blocks number[B, n] and values[B, n, r]: the sum of the run that each ends in, within the block */
static tn_node *sum_at_end(tn_ctx *c, tn_node *number, tn_node *values) {
  tn_node *last = tn__add_axis(c, last_of_blocks(c, number, 1), 1);
  return tn__reduce(c, OP_SUM, where_equal(c, number, last, values), (int64_t[]){1}, 1);
}

/* The sums up to each element of its run, of elements number[n], values[n, r], runs of equal numbers, none 0: [n, r] */
static tn_node *run_sums(tn_ctx *c, tn_node *number, tn_node *values) {
  tn_node *n = number->dim[0], *width = values->dim[1];
  bool one = n->hi <= NEXT_BLOCK;
  tn_node *numbers = one ? tn__add_axis(c, number, 0) : tn__in_blocks(c, number, 0, NEXT_BLOCK);
  tn_node *blocks = one ? tn__add_axis(c, values, 0) : tn__in_blocks(c, values, 0, NEXT_BLOCK);
  tn__dims pairs = {.rank = 3, .d = {numbers->dim[0], numbers->dim[1], numbers->dim[1]}};
  tn_node *own = tn__expand(c, tn__add_axis(c, numbers, 2), pairs.d),
          *other = tn__expand(c, tn__add_axis(c, numbers, 1), pairs.d);
  tn_node *sooner = tn__op2(c, OP_LE, tn__place(c, &pairs, 2), tn__place(c, &pairs, 1));
  tn_node *joins = tn__op2(c, OP_AND, tn__op2(c, OP_EQ, own, other), sooner);
  tn_node *wide[] = {pairs.d[0], pairs.d[1], pairs.d[2], width};
  tn_node *each = tn__expand(c, tn__add_axis(c, blocks, 1), wide);
  joins = tn__expand(c, tn__add_axis(c, joins, 3), wide);
  tn_node *sum = tn__reduce(c, OP_SUM, tn__where(c, joins, each, tn__literal_like(c, each, 0)), (int64_t[]){2}, 1);
  if (!one) {
    tn_node *ends = last_of_blocks(c, numbers, 1);
    tn_node *before = tn__of_before(c, run_sums(c, ends, sum_at_end(c, numbers, blocks)));
    before = tn__expand(c, tn__add_axis(c, before, 1), blocks->dim);
    sum = tn__add(c, sum, where_equal(c, numbers, tn__add_axis(c, tn__of_before(c, ends), 1), before));
  }
  return tn__first_of(c, tn__merge_axes(c, sum, 0, 2), 0, n);
}

/* upd[n, r], and which of them, as far as the condition holds: else none, of which nothing is loaded */
static tn_node *those_of(tn_ctx *c, tn_node *upd, tn_node *condition, tn_node *which) {
  return tn__gather(c, upd, tn__where(c, condition, which, tn__literal_like(c, which, -1)));
}

/* idx[n], upd[n, r], asker[k] -> [k, r]: for each asker's place, the sum of those that go there */
static tn_node *sum_by_asking(tn_ctx *c, tn_node *asker, tn_node *idx, tn_node *upd) {
  tn__dims all = {.rank = 2, .d = {asker->dim[0], upd->dim[0]}};
  tn_node *goes = tn__op2(c, OP_EQ, tn__over(c, tn__add_axis(c, idx, 0), all.d, 2), tn__over(c, asker, all.d, 2));
  return tn__reduce(c, OP_SUM, those_of(c, upd, goes, tn__place(c, &all, 1)), (int64_t[]){1}, 1);
}

/* Each place asks all, which are worked out for each, or before. */
static tn_node *by_asking(tn_ctx *c, tn_node *places, tn_node *idx, tn_node *upd, bool before) {
  tn__dims line = {.rank = 1, .d = {places}};
  if (before) idx = tn__in_memory(c, idx), upd = tn__in_memory(c, upd);
  return sum_by_asking(c, tn__place(c, &line, 0), idx, upd);
}

/* Which place of a line each update goes to, as a number that is compared as often as lines have places: in memory if
 * it is to be worked out `before`. */
static tn_node *line_number(tn_ctx *c, const tn__lines *l, bool before) {
  int64_t highest = l->number->hi > l->places ? l->number->hi : l->places;
  tn_node *number = tn__cast(c, l->number, l->number->lo < INT32_MIN ? TN_I64 : tn__narrow(highest));
  return before ? tn__in_memory(c, number) : number;
}

/* Each place of a line asks the updates of that line, which lie as it does: [outer, places, inner] */
static tn_node *sums_of_lines(tn_ctx *c, const tn__lines *l, tn_node *number, tn_node *upd) {
  tn__dims line = {.rank = 3, .d = {tn__int(c, l->outer), tn__int(c, l->updates), tn__int(c, l->inner)}};
  tn__dims all = {.rank = 4, .d = {line.d[0], tn__int(c, l->places), line.d[1], line.d[2]}};
  tn_node *own = tn__cast(c, tn__place(c, &all, 1), number->dtype);
  number = tn__add_axis(c, tn__reshape(c, number, line.d, 3), 1);
  number = tn__expand(c, number, all.d);
  upd = tn__reshape(c, tn__acc(c, upd), line.d, 3);
  upd = tn__expand(c, tn__add_axis(c, upd, 1), all.d);
  tn_node *goes = tn__where(c, tn__op2(c, OP_EQ, number, own), upd, tn__literal_like(c, upd, 0));
  return tn__reduce(c, OP_SUM, goes, (int64_t[]){2}, 1);
}

/* So by each for itself: [places] */
static tn_node *by_asking_lines(tn_ctx *c, const tn__lines *l, tn_node *upd, bool before) {
  tn_node *sum = sums_of_lines(c, l, line_number(c, l, before), before ? tn__in_memory(c, upd) : upd);
  tn_node *places = tn__numel(c, sum);
  return tn__reshape(c, sum, &places, 1);
}

static bool is_zero(const tn_node *x) {
  while (tn__ops[x->op].group == G_MOVE) x = x->src[0];
  return x->op == OP_CONST && x->ints[0] == 0;
}

/* The one sum that is added to an element of the base: to half floats as it is, which rounds once; to zeros it may be
 * rounded before. */
static tn_node *to_be_added(tn_ctx *c, const tn_node *base, tn_node *sum) {
  return tn__is_added_wide(base->dtype, sum->dtype) && !is_zero(base) ? sum : tn__cast(c, sum, base->dtype);
}

/* base[places, ...] with sum[n, ...] added at idx[n] by those that have none of theirs `before` them: the first that
 * goes to a place takes all sums of it there; the others go nowhere, each to a place of its own, as do those that were
 * to go nowhere. */
static tn_node *firsts_add(tn_ctx *c, tn_node *base, tn_node *idx, tn_node *before, tn_node *sum) {
  tn__dims line = {.rank = 1, .d = {idx->dim[0]}};
  tn_node *first = tn__op2(c, OP_EQ, before, tn__literal_like(c, before, 0)), *k = tn__place(c, &line, 0);
  tn_node *inside = tn__op2(c, OP_LE, tn__literal_like(c, idx, 0), idx), *next = tn__op2_num(c, OP_ADD, k, 1);
  tn_node *takes = tn__op2(c, OP_AND, first, inside), *nowhere = tn__op2_num(c, OP_MUL, next, -1);
  tn_node *place = tn__op1(c, OP_DISTINCT, tn__where(c, takes, idx, nowhere)), *dims[TN_MAX_RANK];
  for (uint32_t i = 0; i < base->rank; i++) dims[i] = i ? base->dim[i] : line.d[0];
  return tn__scatter(c, base, place, to_be_added(c, base, tn__reshape(c, sum, dims, base->rank)));
}

/* How many of each one's equals come before it: axes `own` and `other` are those who ask and are asked. */
static tn_node *equals_before(tn_ctx *c, tn_node *equal, uint32_t own, uint32_t other) {
  tn__dims pairs = tn__dims_of(equal);
  tn_node *sooner = tn__op2(c, OP_LT, tn__place(c, &pairs, other), tn__place(c, &pairs, own));
  tn_node *before = tn__cast(c, tn__op2(c, OP_AND, equal, sooner), TN_I64);
  return tn__reduce(c, OP_SUM, before, (int64_t[]){other}, 1);
}

/* base[places, ...] with upd[n, r] added at idx[n]: each asks all others. */
static tn_node *by_asking_others(tn_ctx *c, tn_node *base, tn_node *idx, tn_node *upd) {
  tn__dims pairs = {.rank = 2, .d = {idx->dim[0], idx->dim[0]}};
  idx = tn__in_memory(c, idx);
  tn_node *sum = sum_by_asking(c, idx, idx, tn__in_memory(c, upd));
  /* of single numbers beside the count of those before: while the base is copied, not behind that */
  if (upd->dim[1]->hi <= 1) sum = tn__op1(c, OP_CONTIG, sum);
  tn_node *equal = tn__op2(c, OP_EQ, tn__over(c, tn__add_axis(c, idx, 0), pairs.d, 2), tn__over(c, idx, pairs.d, 2));
  return firsts_add(c, base, idx, equals_before(c, equal, 0, 1), sum);
}

/* base[places] with updates of lines added: each asks those of its own line. */
static tn_node *by_asking_others_of_lines(tn_ctx *c, tn_node *base, const tn__lines *l, tn_node *idx, tn_node *upd) {
  tn__dims line = {.rank = 3, .d = {tn__int(c, l->outer), tn__int(c, l->updates), tn__int(c, l->inner)}};
  tn__dims pairs = {.rank = 4, .d = {line.d[0], line.d[1], line.d[1], line.d[2]}};
  tn_node *number = tn__reshape(c, line_number(c, l, true), line.d, 3), *count = idx->dim[0];
  tn_node *own = tn__expand(c, tn__add_axis(c, number, 2), pairs.d);
  tn_node *equal = tn__op2(c, OP_EQ, tn__expand(c, tn__add_axis(c, number, 1), pairs.d), own);
  upd = tn__reshape(c, tn__acc(c, tn__in_memory(c, upd)), line.d, 3);
  upd = tn__expand(c, tn__add_axis(c, upd, 1), pairs.d);
  tn_node *sum = tn__where(c, equal, upd, tn__literal_like(c, upd, 0));
  sum = tn__op1(c, OP_CONTIG, tn__reshape(c, tn__reduce(c, OP_SUM, sum, (int64_t[]){2}, 1), &count, 1));
  return firsts_add(c, base, idx, tn__reshape(c, equals_before(c, equal, 1, 2), &count, 1), sum);
}

typedef struct runs {
  tn__ordered in;  /* updates in order of places, which are numbers from 1 on; those that go nowhere come last */
  tn_node *upd;    /* [n, r], in the order given, or, if they have been moved, in that of places */
  tn_node *before; /* [blocks, r] of FIRST_BLOCK: the sum of the run that goes on behind it, all of it so far */
  bool is_moved;
  bool is_told; /* what is worked out once for a row is stored */
} runs;

/* Threads that have a row of so many f32, neighbours that are fetched at once a thread each */
static double threads_of_row(const tn__target *t, const tn_node *upd) {
  double width = most(upd->dim[1]), together = 1;
  while (2 * together * (double)sizeof(float) <= (double)t->access && fmod(width, 2 * together) <= 0) together *= 2;
  return width / together;
}

/* Narrow rows, of which a thread has one, or nearly, are sooner moved to where they stand in order.  Where they are
 * gathered one after the other, threads in step wait for each turn, since some of them want it. */
/* a choice: either is right */
static bool is_sooner_moved(const tn__target *t, double n, double threads, double width) {
  double waits = FIRST_BLOCK * (t->launch > 0 ? ASK_WAITS : ASK_STEPS) * threads;
  return threads <= FEW_THREADS && n * (waits - 2 * tn__move_work(t) * width) > tn__target_launch_guess(t);
}

/* x as narrow as it is given, before it is widened to be summed up */
static tn_node *as_given(tn_node *x) {
  return x->op == OP_CAST && tn__dtype_acc(x->src[0]->dtype) == x->dtype ? x->src[0] : x;
}

/* Updates, of single numbers, filled up to n: they may go where they stand in order while they are put in order.  NULL:
 * they are rows, or nobody knows how many. */
static tn_node *along_of(tn_ctx *c, tn_node *upd, tn_node *n) {
  if (!tn__is_int_const(upd->dim[1], 1) || !tn__is_const(upd->dim[0]) || !tn__is_const(n)) return NULL;
  tn_node *end[] = {tn__int(c, 0), tn__sub(c, n, upd->dim[0])};
  return tn__pad(c, tn__drop_axis(c, tn__in_memory(c, as_given(upd)), 1), end);
}

/* upd[n, r] in the order of places, to be stored as narrow as it is given */
static tn_node *moved(tn_ctx *c, tn_node *upd, const tn__ordered *in) {
  tn_node *all = in->along ? tn__add_axis(c, in->along, 1)
                           : tn__op1(c, OP_CONTIG, tn__gather(c, as_given(upd), in->order));
  return tn__cast(c, all, upd->dtype);
}

/* idx[n], filled up to whole blocks, and, if it is long, to whole blocks of these, by what goes nowhere: then no block
 * has an end of its own. */
static tn_node *in_whole_blocks(tn_ctx *c, tn_node *idx) {
  int64_t n = idx->dim[0]->hi, longer = FIRST_BLOCK * NEXT_BLOCK, size = n / longer >= LONG ? longer : FIRST_BLOCK;
  tn_node *whole = tn__merge_axes(c, tn__in_blocks(c, idx, 0, size), 0, 2);
  if (whole->dim[0] == idx->dim[0]) return idx;
  tn__dims line = {.rank = 1, .d = {whole->dim[0]}};
  tn_node *end = tn__scalar_to(c, tn__dim_value(c, idx->dim[0], TN_I64), line.d, 1);
  return tn__where(c, tn__op2(c, OP_LT, tn__place(c, &line, 0), end), whole, tn__literal_like(c, whole, -1));
}

/* x[n, ...] -> for each, those of its own block: [n, FIRST_BLOCK, ...] */
static tn_node *of_own_block(tn_ctx *c, tn_node *x) {
  tn_node *blocks = tn__in_blocks(c, x, 0, FIRST_BLOCK), *dims[TN_MAX_RANK] = {blocks->dim[0], blocks->dim[1]};
  for (uint32_t i = 1; i < blocks->rank; i++) dims[i + 1] = blocks->dim[i];
  blocks = tn__expand(c, tn__add_axis(c, blocks, 1), dims);
  return tn__first_of(c, tn__merge_axes(c, blocks, 0, 2), 0, x->dim[0]);
}

/* Of blocks: the sums of runs that go on behind their block, within it; else 0 */
static tn_node *sums_that_go_on(tn_ctx *c, const runs *s) {
  tn_node *number = tn__in_blocks(c, s->in.number, 0, FIRST_BLOCK), *own;
  tn__dims line = {.rank = 1, .d = {number->dim[0]}};
  tn_node *last = last_of_blocks(c, number, 1), *next = tn__op2_num(c, OP_ADD, tn__place(c, &line, 0), 1);
  /* behind the last one stands 0, as in what fills that one up: what it sums up is never asked for */
  next = tn__gather(c, s->in.number, tn__op2_num(c, OP_MUL, next, FIRST_BLOCK));
  tn_node *goes_on = tn__op2(c, OP_EQ, tn__over(c, next, number->dim, 2), number);
  tn_node *is_own = tn__op2(c, OP_AND, goes_on, tn__op2(c, OP_EQ, tn__over(c, last, number->dim, 2), number));
  if (s->is_moved) own = where_taken(c, is_own, tn__in_blocks(c, s->upd, 0, FIRST_BLOCK));
  else own = those_of(c, s->upd, is_own, tn__in_blocks(c, s->in.order, 0, FIRST_BLOCK));
  return tn__reduce(c, OP_SUM, own, (int64_t[]){1}, 1);
}

/* Is the sum of the run before each block stored, or made of those of blocks of blocks by each of so many that ask, of
 * narrow rows?  Those who have wider ones wait for memory meanwhile. */
/* a choice: either is right */
static bool is_before_stored(const tn__target *t, double askers, double blocks, double width) {
  double levels = 0;
  for (double left = blocks; left > NEXT_BLOCK; left /= NEXT_BLOCK) levels++;
  double stored = tn__target_launch_guess(t) + 2 * tn__move_work(t) * blocks * width;
  return levels * LEVEL_STEPS * (askers - blocks) > stored;
}

static runs runs_of(tn_ctx *c, const tn__target *t, tn_node *places, tn_node *idx, tn_node *upd) {
  double threads = threads_of_row(t, upd);
  runs s = {.upd = upd, .is_told = threads > FEW_THREADS};
  s.is_moved = is_sooner_moved(t, most(idx->dim[0]), threads, most(upd->dim[1]));
  idx = in_whole_blocks(c, idx);
  tn_node *end = tn__scalar_to(c, tn__dim_value(c, places, TN_I64), idx->dim, 1), *zero = tn__literal_like(c, idx, 0);
  tn_node *inside = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, idx), tn__op2(c, OP_LT, idx, end));
  tn_node *number = tn__op2(c, OP_MIN, tn__where(c, inside, idx, end), tn__literal_like(c, idx, (double)places->hi));
  number = tn__op2_num(c, OP_ADD, tn__op2(c, OP_MAX, number, zero), 1);
  int64_t last = places->hi < INT64_MAX ? places->hi + 1 : INT64_MAX;
  tn_node *along = s.is_moved ? along_of(c, upd, idx->dim[0]) : NULL;
  s.in = tn__in_order(c, t, tn__cast(c, number, tn__narrow(last)), last, along);
  if (s.is_moved) s.upd = moved(c, upd, &s.in);
  tn_node *blocks = tn__in_blocks(c, s.in.number, 0, FIRST_BLOCK);
  s.before = run_sums(c, last_of_blocks(c, blocks, 1), sums_that_go_on(c, &s));
  if (s.is_moved && is_before_stored(t, most(idx->dim[0]) * threads, most(blocks->dim[0]), most(upd->dim[1])))
    s.before = tn__op1(c, OP_CONTIG, s.before);
  return s;
}

/* What a run's sum is made of, where it ends: updates of the block there, [k, FIRST_BLOCK, r], and a block before it,
 * [k]; -1: none. */
typedef struct ending {
  tn_node *own, *block;
} ending;

static tn_node *sum_of(tn_ctx *c, const runs *s, const ending *e) { /* [k, r] */
  tn_node *block = tn__cast(c, e->block, tn__narrow(s->in.number->dim[0]->hi));
  return tn__add(c, tn__gather(c, s->before, block), tn__reduce(c, OP_SUM, e->own, (int64_t[]){1}, 1));
}

/* Of runs of those from one up to the other, from[k] <= to[k] */
static ending ending_between(tn_ctx *c, const runs *s, tn_node *from, tn_node *to) {
  ending e;
  tn__dims all = {.rank = 2, .d = {to->dim[0], tn__int(c, FIRST_BLOCK)}};
  tn_node *block = tn__op2(c, OP_IDIV, tn__op2_num(c, OP_ADD, to, -1), tn__literal_like(c, to, FIRST_BLOCK));
  tn_node *begin = tn__op2_num(c, OP_MUL, block, FIRST_BLOCK);
  tn_node *at = tn__add(c, tn__over(c, begin, all.d, 2), tn__cast(c, tn__place(c, &all, 1), to->dtype));
  tn_node *is_own = tn__op2(c, OP_LE, tn__over(c, from, all.d, 2), at);
  is_own = tn__op2(c, OP_AND, is_own, tn__op2(c, OP_LT, at, tn__over(c, to, all.d, 2)));
  if (!s->is_moved) at = tn__gather(c, s->in.order, tn__where(c, is_own, at, tn__literal_like(c, at, -1)));
  e.own = those_of(c, s->upd, is_own, at);
  tn_node *goes_back = tn__op2(c, OP_AND, tn__op2(c, OP_LT, from, to), tn__op2(c, OP_LT, from, begin));
  e.block = tn__where(c, goes_back, tn__op2_num(c, OP_ADD, block, -1), tn__literal_like(c, block, -1));
  return e;
}

/* x as a number that is stored */
static tn_node *told(tn_ctx *c, const runs *s, tn_node *x) {
  return tn__op1(c, OP_CONTIG, tn__cast(c, x, tn__narrow(s->in.number->dim[0]->hi)));
}

/* Of the runs that end at those of number[n] for which `ends` holds; of the others nothing.  In the block of an end all
 * that have its number stand before it.  Rows that have been moved lie beside each other, and those of a block are
 * asked for their number; of others it is said once for the row where in the block, or before it, the run begins. */
static ending ending_at(tn_ctx *c, const runs *s, tn_node *ends) {
  ending e;
  tn_node *number = s->in.number, *n = number->dim[0], *other = of_own_block(c, number);
  tn__dims pairs = tn__dims_of(other), line = {.rank = 1, .d = {n}};
  int as = tn__narrow(n->hi);
  tn_node *k = tn__cast(c, tn__place(c, &line, 0), as);
  tn_node *block = tn__op2(c, OP_IDIV, k, tn__literal_like(c, k, FIRST_BLOCK));
  tn_node *is_own = tn__op2(c, OP_EQ, tn__over(c, number, pairs.d, 2), other);
  is_own = tn__op2(c, OP_AND, is_own, tn__over(c, ends, pairs.d, 2));
  tn_node *last = tn__op2_num(c, OP_ADD, tn__op2_num(c, OP_MUL, block, FIRST_BLOCK), -1);
  tn_node *goes_back = tn__op2(c, OP_AND, tn__op2(c, OP_EQ, tn__gather(c, number, last), number), ends);
  if (s->is_moved) {
    e.own = where_taken(c, is_own, of_own_block(c, s->upd));
    e.block = tn__where(c, goes_back, tn__op2_num(c, OP_ADD, block, -1), tn__literal_like(c, block, -1));
    return e;
  }
  tn_node *count = tn__reduce(c, OP_SUM, tn__cast(c, is_own, as), (int64_t[]){1}, 1);
  tn_node *to = tn__op2_num(c, OP_ADD, k, 1), *from = tn__sub(c, to, tn__add(c, count, tn__cast(c, goes_back, as)));
  return ending_between(c, s, s->is_told ? told(c, s, from) : from, to);
}

/* Which runs end at each of number[n]: where the next one is another, which behind the last one is 0 */
static tn_node *ends_of(tn_ctx *c, const runs *s, tn_node *places) {
  tn__dims line = {.rank = 1, .d = {s->in.number->dim[0]}};
  tn_node *next = tn__gather(c, s->in.number, tn__op2_num(c, OP_ADD, tn__place(c, &line, 0), 1));
  tn_node *last = tn__scalar_to(c, tn__dim_value(c, places, TN_I64), line.d, 1);
  return tn__op2(c, OP_AND, tn__op2(c, OP_NE, next, s->in.number),
                 tn__op2(c, OP_LE, tn__cast(c, s->in.number, TN_I64), last));
}

/* [places, r]: each place looks for its run.  Where there are fewer runs than places, their sums stand where they end,
 * and a place that has none loads one number. */
static tn_node *by_place(tn_ctx *c, const tn__target *t, tn_node *places, tn_node *idx, tn_node *upd) {
  runs s = runs_of(c, t, places, idx, upd);
  tn__dims line = {.rank = 1, .d = {places}};
  tn_node *own = tn__op2_num(c, OP_ADD, tn__place(c, &line, 0), 1);
  own = tn__cast(c, own, s.in.number->dtype);
  tn_node *to = tn__places_in(c, s.in.number, own, true);
  if (s.in.number->dim[0]->hi < places->hi) {
    ending at = ending_at(c, &s, ends_of(c, &s, places));
    tn_node *last = tn__op2_num(c, OP_ADD, to, -1);
    tn_node *has = tn__op2(c, OP_EQ, tn__gather(c, s.in.number, last), own);
    last = tn__where(c, has, last, tn__literal_like(c, last, -1));
    return tn__gather(c, tn__op1(c, OP_CONTIG, sum_of(c, &s, &at)), upd->dim[1]->hi > 1 ? told(c, &s, last) : last);
  }
  tn_node *from = tn__places_in(c, s.in.number, own, false);
  ending e = ending_between(c, &s, told(c, &s, from), told(c, &s, to));
  return sum_of(c, &s, &e);
}

/* base[places, ...] with the sum of each run added at its place: where the last one of a run says so; the others go
 * nowhere, each to a place of its own. */
static tn_node *by_run(tn_ctx *c, const tn__target *t, tn_node *base, tn_node *idx, tn_node *upd) {
  runs s = runs_of(c, t, base->dim[0], idx, upd);
  tn__dims line = {.rank = 1, .d = {s.in.number->dim[0]}};
  tn_node *next = tn__op2_num(c, OP_ADD, tn__place(c, &line, 0), 1), *number = tn__cast(c, s.in.number, TN_I64);
  tn_node *ends = ends_of(c, &s, base->dim[0]);
  ending e = ending_at(c, &s, ends);
  tn_node *nowhere = tn__op2_num(c, OP_MUL, next, -1), *place = tn__op2_num(c, OP_ADD, number, -1);
  int as = s.in.number->dtype == TN_I32 ? tn__narrow(line.d[0]->hi) : TN_I64;
  place = tn__cast(c, tn__where(c, ends, place, nowhere), as);
  place = tn__op1(c, OP_DISTINCT, place);
  tn_node *dims[TN_MAX_RANK];
  for (uint32_t i = 0; i < base->rank; i++) dims[i] = i ? base->dim[i] : line.d[0];
  tn_node *sum = tn__reshape(c, sum_of(c, &s, &e), dims, base->rank);
  return tn__scatter(c, base, place, to_be_added(c, base, sum));
}

/* ---- which way ---- */

/* In multiply-adds of the whole device: n updates of so many elements each, that so many ask.  Neighbours that are
 * fetched at once ask together; those of long rows do wherever rows begin, since nearly all are told the same. */
/* a choice: any is right */
static double asking_work(const tn__target *t, double askers, double n, double width) {
  double together = t->access > 0 ? (double)t->access / sizeof(float) : 1;
  if (fmod(width, together) > 0 && width < LONG_ROW) together = 1;
  return (t->launch > 0 ? ASK_WAITS : ASK_STEPS) * askers * n * width / together;
}

/* Sums of runs of those that are sorted.  A single number stands with its place and the end of its run in three arrays
 * (6 f32), in sums of blocks (3), and is added somewhere by who loads all of this again (15); one of so many bits that
 * does not come with its place is gathered (9, most of them of its sector).  0.97 million bf16 to 15.5 million places,
 * which were gathered, took 123 us on an H200, 51 of them behind the sort. */
/* a choice: any is right */
static double runs_work(const tn__target *t, int64_t places, double n, double width, int bits) {
  double moves = tn__order_takes_along(t, places, n, bits) ? RUN_MOVES : RUN_MOVES + RUN_GATHER;
  double steps = width > 1 ? RUN_STEPS : moves * tn__move_work(t);
  return tn__order_work(t, places, n) + RUN_LAUNCHES * tn__target_launch_guess(t) + steps * n * width;
}

/* The base of a scatter whose result is to be of this dtype: as it stands in memory, if it is of that dtype. */
static tn_node *base_of(tn_ctx *c, tn_node *base, int dtype) {
  if (is_zero(base)) return tn__scalar_to(c, tn__const_bits(c, dtype, 0), base->dim, base->rank);
  if (base->op == OP_CAST && base->src[0]->dtype == dtype) return base->src[0];
  return base->dtype == dtype ? base : tn__acc(c, base);
}

/* Is another axis than the one along which n scatters the outermost, wherever n is wanted?  Runs that are added in
 * memory, place by place, then leave to another kernel to turn all of it. */
/* a choice: either is right */
static bool is_turned(const tn__nodes *all, const tn_node *n) {
  bool turned = false;
  for (uint32_t i = 0; i < all->n; i++) {
    const tn_node *x = all->v[i];
    for (uint32_t s = 0; s < x->nsrc; s++) {
      const tn_node *y = x->src[s];
      if (x->op == OP_CAST || (y->op == OP_CAST ? y->src[0] : y) != n) continue;
      uint32_t first = 0;
      while (x->op == OP_PERMUTE && first + 1 < x->rank && tn__is_int_const(x->dim[first], 1)) first++;
      if (x->op != OP_PERMUTE || x->ints[first] == 0) return false;
      turned = true;
    }
  }
  return turned;
}

/* Is something computed of what n gives, so that it would be read again if it stood in memory? */
/* a choice: either is right */
static bool is_read_again(tn_ctx *c, const tn__nodes *all, const tn_node *n) {
  tn__map moved; /* n, moved or converted */
  tn__map_init(&moved, &c->scratch);
  for (uint32_t i = 0; i < all->n; i++) {
    const tn_node *x = all->v[i];
    bool takes = false;
    for (uint32_t s = 0; s < x->nsrc; s++) takes |= tn__map_getp(&moved, x->src[s]) != NULL;
    bool moves = x->op == OP_CAST || tn__ops[x->op].group == G_MOVE;
    if (takes && !moves && x->op != OP_SINK) return true;
    if (x == n || takes) tn__map_putp(&moved, x, x);
  }
  return false;
}

/* As sums of whole numbers, in the form that takes least */
typedef struct whole {
  tn_node *numbers; /* the scatter, of single numbers */
  tn__fixed fixed;
  tn__scaled scaled;
  bool is_fixed, is_ranked; /* is_ranked: of ranks of places, not of places */
  double work;
} whole;

/* Rows of so many numbers each as single ones, n[places * width], each of which goes to a place of its own; n itself,
 * if it has single numbers.  NULL: a row's length is no number. */
static tn_node *of_numbers(tn_ctx *c, tn_node *n) {
  tn_node *idx = n->src[1], *upd = n->src[2];
  if (n->rank == 1) return n;
  int64_t width = 1, places;
  for (uint32_t i = 0; i < n->rank; i++)
    if (!tn__const_int(n->dim[i], &places) || (i && __builtin_mul_overflow(width, places, &width))) return NULL;
  if (width < 1 || !tn__const_int(n->dim[0], &places) || __builtin_mul_overflow(places, width, &places)) return NULL;
  upd = tn__merge_axes(c, upd, idx->rank, n->rank - 1u);
  idx = tn__cast(c, idx, TN_I64);
  tn_node *inside = tn__op2(c, OP_AND, tn__op2(c, OP_LE, tn__literal_like(c, idx, 0), idx),
                            tn__op2(c, OP_LT, idx, tn__literal_like(c, idx, (double)n->dim[0]->hi)));
  idx = tn__op2_num(c, OP_MUL, tn__where(c, inside, idx, tn__literal_like(c, idx, -1)), (double)width);
  tn__dims all = tn__dims_of(upd);
  idx = tn__add(c, tn__over(c, idx, all.d, all.rank), tn__cast(c, tn__place(c, &all, all.rank - 1u), TN_I64));
  tn_node *count = tn__int(c, places);
  return tn__scatter(c, tn__reshape(c, n->src[0], &count, 1), idx, upd);
}

/* looked: what it takes that places look for their sums; added: that sums are added in memory */
/* a choice: any is right */
static whole as_whole(const tn__target *t, tn_node *numbers, double looked, double added) {
  whole w = {.numbers = numbers, .work = INFINITY};
  double places = most(numbers->dim[0]), updates = most_of(numbers->src[2]);
  if (tn__scaled_form(t, numbers, added - looked, &w.scaled))
    w.work = tn__scaled_work(t, &w.scaled, places, updates) + (w.scaled.is_added ? added : looked);
  bool is_fixed = tn__fixed_form(t, numbers, &w.fixed);
  double digits = is_fixed ? tn__fixed_work(t, &w.fixed, places, updates) + looked : INFINITY;
  w.is_fixed = digits < w.work;
  w.work = fmin(w.work, digits);
  return w;
}

/* ... of places, or of no more ranks than there are updates, for which places that lie in order look */
/* a choice: any is right */
static whole as_least_whole(tn_ctx *c, const tn__target *t, tn_node *numbers, double looked, double added,
                            bool in_order) {
  if (!numbers || numbers->dim[0]->hi <= FEW_PLACES) return (whole){.work = INFINITY};
  whole w = as_whole(t, numbers, looked, added);
  tn_node *places = numbers->dim[0], *count = tn__numel(c, numbers->src[1]);
  if (!in_order || !tn__is_const(count) || count->hi >= places->hi) return w;
  tn_node *none = tn__scalar_to(c, tn__const_bits(c, numbers->dtype, 0), &count, 1);
  whole ranked = as_whole(t, tn__scatter(c, none, numbers->src[1], numbers->src[2]), looked, INFINITY);
  ranked.work += tn__ranks_work(t, most(places), most(count));
  if (ranked.work >= w.work) return w;
  ranked.numbers = numbers, ranked.is_ranked = true;
  return ranked;
}

/* idx[n] of i64, upd[n] of f32 -> [places] of f32 */
static tn_node *sums_of_whole(tn_ctx *c, const whole *w, tn_node *places, tn_node *idx, tn_node *upd) {
  return w->is_fixed ? tn__fixed_sums(c, &w->fixed, places, idx, upd)
                     : tn__scaled_sums(c, &w->scaled, places, idx, upd);
}

/* ... by rank: ranks that several passes over the updates read are stored, and so are sums, which are worked out once
 * for each, and not wherever places look. */
static tn_node *sums_by_rank(tn_ctx *c, const whole *w, tn_node *places, tn_node *idx, tn_node *upd) {
  tn_node *ranks = tn__ranks_of(c, places, idx);
  tn_node *rank = tn__ranks_at(c, ranks, idx);
  if (!w->is_fixed) rank = tn__op1(c, OP_CONTIG, rank);
  tn_node *sum = tn__op1(c, OP_CONTIG, sums_of_whole(c, w, idx->dim[0], tn__cast(c, rank, TN_I64), upd));
  return tn__gather(c, sum, tn__ranks_of_places(c, ranks, places));
}

static tn_node *by_whole(tn_ctx *c, const whole *w, tn_node *base) {
  tn_node *idx = w->numbers->src[1], *upd = w->numbers->src[2], *places = w->numbers->dim[0], *place, *sum;
  tn_node *count = tn__numel(c, idx);
  tn__dims dims = tn__dims_of(base);
  idx = tn__cast(c, tn__reshape(c, idx, &count, 1), TN_I64);
  upd = tn__acc(c, tn__reshape(c, upd, &count, 1));
  base = tn__reshape(c, base, &places, 1);
  if (!w->is_fixed && w->scaled.is_added) {
    sum = tn__scaled_at_updates(c, &w->scaled, places, idx, upd, &place);
    sum = tn__scatter(c, base, place, to_be_added(c, base, sum));
  } else {
    sum = w->is_ranked ? sums_by_rank(c, w, places, idx, upd) : sums_of_whole(c, w, places, idx, upd);
    sum = tn__add(c, tn__acc(c, base), sum);
  }
  return tn__reshape(c, sum, dims.d, dims.rank);
}

/* What places take to find their runs, by halves, and, where there are no fewer updates, to ask for those of a block:
 * numbers of narrow rows lie in sectors of their own (12.6 million bf16 to 8.3 million places on an H200: 131 us and
 * 568). */
/* a choice: any is right */
static double finding_work(const tn__target *t, double places, double updates, double width) {
  double sector = t->sector > 0 ? (double)t->sector / sizeof(float) : 1;
  double asked = updates < places || width >= sector ? 0 : FIRST_BLOCK * tn__move_work(t) * sector * places;
  return asked + FIND_WAITS * places * log2(updates + 1);
}

/* What it takes to add sums to a base in memory, or to what is made of it and another operand, sector by sector, if
 * those side by side are not in the same ones */
/* a choice: any is right */
static double adding_there(const tn__target *t, double places, double updates, double row_bytes, bool reads) {
  if (t->sector < 1 || row_bytes >= (double)t->sector) return 0;
  double bytes = places * row_bytes, apart = fmin(1, bytes / fmax(1, updates * (double)t->sector));
  return tn__move_work(t) * updates * apart * (reads ? 4 : 2) * tn__somewhere(t, bytes / sizeof(float), false);
}

/* What the ways take, in multiply-adds of the whole device, the scatter's result being of that dtype */
typedef struct ways {
  double asked, others, sorted; /* places ask all updates, or updates each other, or they are put in order */
  double at_places, by_updates; /* the best way in which places take their sums, and in which sums go to places */
  double lines;                 /* places of a line ask its updates, or these are added to tables of them; */
  double again;                 /* to read the result once more for what is made of it */
  double added;                 /* the result behind memory in which it was added up */
  double through;               /* the base copied, and the result left, for what is made of it */
  whole numbers;
  tn__lines of;
  bool of_lines, asks;
  bool tables; /* groups have sums of all places of a line, and nobody asks */
} ways;

/* Lines of n, as groups may have them */
static tn__line_size size_of_lines(const tn__lines *l, const tn_node *n) {
  size_t size = tn__size_of(tn__dtype_acc(n->dtype));
  return (tn__line_size){l->outer, l->places, l->inner, l->updates, .sum = size, .value = size};
}

/* a choice: any is right */
static ways weigh(tn_ctx *c, const tn__target *t, const tn__nodes *graph, tn_node *n, int dtype) {
  ways w = {0};
  tn_node *base = base_of(c, n->src[0], dtype);
  double updates = most(tn__numel(c, n->src[1])), width = 1, places = most(n->dim[0]);
  for (uint32_t i = 1; i < n->rank; i++) width *= most(n->dim[i]);
  double all = places * width;
  w.sorted = runs_work(t, n->dim[0]->hi, updates, width, 8 * (int)tn__size_of(as_given(n->src[2])->dtype));
  w.asked = asking_work(t, places, updates, width);
  w.others = asking_work(t, updates, updates, width) + ASK_LAUNCHES * tn__target_launch_guess(t);
  /* what is added into memory is there in the dtype of the sums, and in the order of places; places that look for
   * theirs begin with all known */
  double looked = tn__move_work(t) * all;
  w.added = base->dtype == dtype && !is_turned(graph, n) ? 0 : 2 * looked;
  w.of_lines = tn__scatter_lines(c, n, &w.of);
  tn__line_size line = {0};
  tn__line_share share;
  if (w.of_lines) {
    line = size_of_lines(&w.of, n);
    w.others = tn__target_line_asks(t, &line, w.of.updates) + ASK_LAUNCHES * tn__target_launch_guess(t);
  }
  double found = w.sorted + looked + finding_work(t, places, updates, width);
  bool fewer = updates < places && n->dim[0]->lo > 1, reads = is_read_again(c, graph, n);
  w.asks = w.asked <= found;
  /* what is looked for is worked out once for a row: then places need nothing in memory for what is made of them */
  w.again = width > 1 && reads ? 2 * looked : 0;
  w.at_places = fmin(w.asked, found);
  double there = adding_there(t, places, updates, width * (double)tn__size_of(dtype), reads);
  w.by_updates = fewer ? fmin(w.sorted, w.others) + w.added + there : INFINITY;
  double copied = reads && !tn__is_computed_of_few(c, t, graph, n) ? 2 * looked : 0;
  w.numbers = as_least_whole(c, t, of_numbers(c, n), looked, w.added + copied, !is_turned(graph, n));
  if (w.of_lines) w.numbers.work += FLAT_MOVES * tn__move_work(t) * updates;
  /* what is added to places of memory is copied there first, and left there for what is made of it */
  w.through = 4 * looked;
  w.tables = w.of_lines && tn__target_sums_lines(t, &line, &share);
  w.lines = w.tables ? tn__target_line_sums(t, &line, &share)
            : w.of_lines ? tn__target_line_asks(t, &line, w.of.places) : INFINITY;
  return w;
}

/* Is n made element by element of what stands in memory?  The kernel that stores it reduces nothing then. */
/* a choice: no is right */
static bool is_plain(tn_ctx *c, tn_node *n) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *x = all.v[i];
    bool moves = tn__ops[x->op].group == G_MOVE && x->op != OP_FOLD, leaf = tn__ops[x->op].group == G_LEAF;
    if (x->dtype != TN__INDEX && !leaf && !moves && !tn__is_elementwise(x) && x->op != OP_DETACH) return false;
  }
  return true;
}

/* Sums of lines by groups that have tables of them: a kernel of its own, with what is added to places, and rounded. */
static tn_node *by_tables(tn_ctx *c, const tn__lines *l, tn_node *base, tn_node *upd, int dtype) {
  tn_node *number = line_number(c, l, false), *all = tn__numel(c, base);
  if (!is_plain(c, number)) number = tn__in_memory(c, number);
  if (!is_plain(c, upd)) upd = tn__in_memory(c, upd);
  if (!is_plain(c, base)) base = tn__in_memory(c, base);
  tn_node *sum = sums_of_lines(c, l, number, upd);
  sum = tn__add(c, tn__acc(c, tn__reshape(c, base, sum->dim, sum->rank)), sum);
  return tn__reshape(c, tn__op1(c, OP_CONTIG, tn__cast(c, sum, dtype)), &all, 1);
}

/* The scatter n, which stands in that graph, converted */
static tn_node *in_parallel(tn_ctx *c, const tn__target *t, const tn__nodes *graph, tn_node *n, int dtype) {
  tn_node *idx = tn__scatter_places(n), *upd = n->src[2], *places = n->dim[0], *base = base_of(c, n->src[0], dtype);
  tn_node *count = tn__numel(c, idx), *sum;
  ways w = weigh(c, t, graph, n, dtype);
  idx = tn__cast(c, tn__reshape(c, idx, &count, 1), TN_I64);
  upd = tn__acc(c, tn__merge_axes(c, tn__merge_axes(c, upd, n->src[1]->rank, n->rank - 1u), 0, n->src[1]->rank));
  if (w.of_lines && w.lines <= fmin(w.numbers.work, fmin(w.at_places, w.by_updates + w.through))) {
    if (w.tables) return by_tables(c, &w.of, base, n->src[2], dtype);
    bool much = w.lines > MUCH_ASKED * tn__target_launch_guess(t);
    return tn__cast(c, tn__add(c, tn__acc(c, base), by_asking_lines(c, &w.of, n->src[2], much)), dtype);
  }
  if (w.numbers.work < fmin(w.at_places, w.by_updates))
    return tn__cast(c, by_whole(c, &w.numbers, base), dtype);
  if (w.by_updates + w.again < w.at_places) {
    if (w.others <= w.sorted && w.of_lines) sum = by_asking_others_of_lines(c, base, &w.of, idx, n->src[2]);
    else sum = w.others <= w.sorted ? by_asking_others(c, base, idx, upd) : by_run(c, t, base, idx, upd);
    return tn__cast(c, sum, dtype);
  }
  bool much = w.asked > MUCH_ASKED * tn__target_launch_guess(t);
  sum = w.asks ? by_asking(c, places, idx, upd, much) : by_place(c, t, places, idx, upd);
  return tn__cast(c, tn__add(c, tn__acc(c, base), tn__reshape(c, sum, n->dim, n->rank)), dtype);
}

/* Is x the scatter n, rounded to half floats? */
static bool rounds(const tn_node *x, const tn_node *n) {
  return x->op == OP_CAST && x->src[0] == n && x->dtype != n->dtype && tn__dtype_acc(x->dtype) == n->dtype;
}

/* ---- added in order, by those who own the places ---- */

/* In one kernel: all groups ask all updates, and rows of those of a place come one behind the other.  What they begin
 * with is stored by the same groups, which others leave to a launch beside them. */
/* a choice: any is right */
static double owned_work(const tn__target *t, double places, double updates, double width) {
  tn__owners by = tn__owners_of(t, (int64_t)places, (int64_t)width);
  double classes = (double)by.classes, latency = (double)t->latency * (double)t->rate * t->units;
  double asked = OWN_STEPS * classes * (double)by.blocks * updates;
  asked = fmax(asked, ceil(updates / (OWN_ASKED * by.columns * by.abreast)) * latency);
  double added = tn__move_work(t) * updates * width;
  return asked + fmax(added, ceil(updates / (classes * by.abreast * OWN_LOADED)) * latency);
}

/* Is the scatter left to those who own its places?  Whoever lowers its kernel gives them to groups. */
/* a choice: either is right */
static bool is_owned(tn_ctx *c, const tn__target *t, const tn__nodes *graph, tn_node *n) {
  int64_t size;
  bool is_float = n->dtype == TN_F32 || n->dtype == TN_F64;
  if (!tn__target_owns(t) || !is_float || n->src[2]->dtype != n->dtype || n->rank <= 1) return false;
  for (uint32_t i = 0; i < n->rank; i++)
    if (!tn__const_int(n->dim[i], &size) || size < 1) return false;
  if (!tn__const_int(tn__numel(c, n->src[1]), &size) || size < 2 || size > OWN_MOST) return false;
  double width = 1, updates;
  for (uint32_t i = 1; i < n->rank; i++) width *= most(n->dim[i]);
  if (width < t->subgroup || most(n->dim[0]) < 2 || width * most(n->dim[0]) > INT32_MAX) return false;
  if (is_turned(graph, n) || !is_plain(c, n->src[0])) return false;
  updates = most(tn__numel(c, n->src[1]));
  int dtype = n->dtype;
  for (uint32_t i = 0; i < graph->n; i++)
    if (rounds(graph->v[i], n)) dtype = graph->v[i]->dtype;
  ways w = weigh(c, t, graph, n, dtype);
  double best = fmin(fmin(w.at_places, w.by_updates + w.again), fmin(w.lines, w.numbers.work));
  /* what is rounded to half floats is stored as f32, and then once more */
  double rounded = dtype == n->dtype ? 0 : 2 * tn__move_work(t) * most(n->dim[0]) * width;
  return owned_work(t, most(n->dim[0]), updates, width) + rounded + w.again < best;
}

/* Into what may be empty a loop of its own keeps anything from being added, which others could not be joined with. */
bool tn__is_added_at_once(const tn__target *t, const tn_node *n) {
  return n->op == OP_SCATTER && tn__is_int(n->dtype) && (t->adds & tn__size_of(n->dtype)) && n->dim[0]->lo > 0;
}

/* Few places, at which additions would wait for each other.  Words go by each group in shared memory first
 * (lower/tally.c); but if each place asks all updates, clearing the places is spared, which is quicker of some. */
/* a choice: either is right */
static bool waits(tn_ctx *c, const tn__target *t, const tn_node *n) {
  double places = most(n->dim[0]), updates = most(tn__numel(c, n->src[1]));
  bool tallied = c->mode != TN_MODE_STRICT && tn__is_const(tn__numel(c, n->src[1])) && tn__is_const(n->dim[0]) &&
                 places > 1 && n->rank == 1 && tn__size_of(n->dtype) == sizeof(int32_t);
  double asked = asking_work(t, places, updates, 1);
  return places <= FEW_PLACES && !(tallied && asked > ASK_LAUNCHES * tn__target_launch_guess(t));
}

static tn_node *first_serial(tn_ctx *c, const tn__target *t, tn_node *sink, const tn__map *owned) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_SCATTER && !tn__map_getp(owned, all.v[i]) &&
        !tn__is_placed(all.v[i]) && all.v[i]->src[1]->op != OP_DISTINCT &&
        tn__combines_by(all.v[i]) == OP_ADD && !tn__is_counted(all.v[i]->dtype, all.v[i]->src[2]->dtype) &&
        (!tn__is_added_at_once(t, all.v[i]) || waits(c, t, all.v[i])))
      return all.v[i];
  return NULL;
}

tn_node *tn__schedule_scatters(tn_ctx *c, tn_node *sink, const tn__target *t) {
  tn_node *given = sink;
  if (!t->group || c->mode == TN_MODE_STRICT) return sink;
  tn__map owned;
  tn__map_init(&owned, &c->scratch);
  for (tn_node *n; (n = first_serial(c, t, sink, &owned));) {
    tn__nodes all = {0}, old = {0}, new_ = {0};
    tn__topo(&c->scratch, &sink, 1, &all);
    if (is_owned(c, t, &all, n)) {
      tn__map_putp(&owned, n, n);
      continue;
    }
    for (uint32_t i = 0; i < all.n; i++) {
      tn_node *x = all.v[i];
      if (x != n && !rounds(x, n)) continue;
      tn__vec_push(&c->scratch, &old, x);
      tn__vec_push(&c->scratch, &new_, in_parallel(c, t, &all, n, x->dtype));
    }
    sink = tn__substitute(c, sink, old.v, new_.v, old.n);
  }
  return sink == given ? sink : tn__schedule_prune(c, tn__simplify_graph(c, sink));
}
