/* Scatters for devices whose threads run at once.  Integers are added at once, too, where the device can do that and
 * places are not few: in any order they give the same sum.  Added up one after the other, as they are written, others
 * would leave such a device to one thread.  Few are summed up place by place: each place asks all of them, or, where
 * there are fewer of them than places, each of them asks all others, and the first of those that go to one place takes
 * their sum there.  Of many, those that go to one place are brought together by sorting: they are a run then, and its
 * sum is made of sums of blocks.
 *
 * A block gives the sum of the run that it ends in, as far as it is in the block; such sums, a run of the same number
 * each, are summed up along runs by the same rule.  So what a place gets is the sum of its elements in the block in
 * which its run ends, and of the run before that block.  Where there are fewer updates than places, runs look for their
 * places, and not places for their runs. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include "tensor/scan.h"
#include "tensor/sort.h"
#include <math.h>

enum {
  FIRST_BLOCK = 4,   /* elements of a block: each place looks at as many; */
  NEXT_BLOCK = 16,   /* of one of sums of blocks, which are fewer */
  FEW_PLACES = 64,   /* at which additions would wait for each other */
  RUN_LAUNCHES = 12, /* kernels of sums of runs, */
  RUN_STEPS = 32,    /* and multiply-adds in the time that an element is in them */
  ASK_LAUNCHES = 2,  /* kernels where updates ask each other, beside those where places ask; */
  ASK_STEPS = 4,     /* multiply-adds in the time that one is asked: load, compare, choose, add; */
  ASK_WAITS = 40     /* so, of a device that says what a launch takes: each waits for a load (64, 278 measured) */
};

/* [n, ...] -> along the axis, one for each block: its last element */
static tn_node *last_of_blocks(tn_ctx *c, tn_node *x, uint32_t axis) {
  tn_node *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) begin[i] = tn__int(c, 0), size[i] = x->dim[i];
  begin[axis] = tn__add(c, x->dim[axis], tn__int(c, -1));
  size[axis] = tn__int(c, 1);
  return tn__drop_axis(c, tn__shrink(c, x, begin, size, NULL), axis);
}

/* values[B, n, r] where those of number[B, n] equal to[B, 1], else 0 */
static tn_node *where_equal(tn_ctx *c, tn_node *number, tn_node *to, tn_node *values) {
  tn_node *equal = tn__bcast2(c, OP_EQ, number, to);
  equal = tn__expand(c, tn__add_axis(c, equal, values->rank - 1u), values->dim);
  return tn__where(c, equal, values, tn__literal_like(c, values, 0));
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

static tn_node *spread(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank) { /* along axes that follow */
  while (x->rank < rank) x = tn__add_axis(c, x, x->rank);
  return tn__expand(c, x, dims);
}

/* idx[n], upd[n, r], asker[k] -> [k, r]: for each asker's place, the sum of those that go there */
static tn_node *sum_by_asking(tn_ctx *c, tn_node *asker, tn_node *idx, tn_node *upd) {
  tn__dims all = {.rank = 3, .d = {asker->dim[0], upd->dim[0], upd->dim[1]}};
  tn_node *goes = tn__op2(c, OP_EQ, spread(c, tn__add_axis(c, idx, 0), all.d, 3), spread(c, asker, all.d, 3));
  upd = tn__expand(c, tn__add_axis(c, upd, 0), all.d);
  return tn__reduce(c, OP_SUM, tn__where(c, goes, upd, tn__literal_like(c, upd, 0)), (int64_t[]){1}, 1);
}

/* Each place asks all. */
static tn_node *by_asking(tn_ctx *c, tn_node *places, tn_node *idx, tn_node *upd) {
  tn__dims line = {.rank = 1, .d = {places}};
  return sum_by_asking(c, tn__place(c, &line, 0), idx, upd);
}

/* What all are asked for is worked out once; where it is a number in memory, moved or converted, it is there. */
static tn_node *in_memory(tn_ctx *c, tn_node *x) {
  const tn_node *from = x;
  while (from->op == OP_CAST || (tn__ops[from->op].group == G_MOVE && from->op != OP_PAD && from->op != OP_FOLD))
    from = from->src[0];
  bool is_there = from->op == OP_PARAM || from->op == OP_STORAGE || from->op == OP_CONTIG;
  return is_there ? x : tn__op1(c, OP_CONTIG, x);
}

/* base[places, ...] with upd[n, r] added at idx[n]: each asks all others, and the first that goes to a place takes the
 * sum there; the others go nowhere, each to a place of its own, as do those that were to go nowhere. */
static tn_node *by_asking_others(tn_ctx *c, tn_node *base, tn_node *idx, tn_node *upd) {
  tn__dims line = {.rank = 1, .d = {idx->dim[0]}}, pairs = {.rank = 2, .d = {idx->dim[0], idx->dim[0]}};
  idx = in_memory(c, idx);
  tn_node *sum = sum_by_asking(c, idx, idx, in_memory(c, upd)), *k = tn__place(c, &line, 0);
  tn_node *equal = tn__op2(c, OP_EQ, spread(c, tn__add_axis(c, idx, 0), pairs.d, 2), spread(c, idx, pairs.d, 2));
  tn_node *sooner = tn__op2(c, OP_LT, tn__place(c, &pairs, 1), tn__place(c, &pairs, 0));
  tn_node *before = tn__cast(c, tn__op2(c, OP_AND, equal, sooner), TN_I64);
  before = tn__reduce(c, OP_SUM, before, (int64_t[]){1}, 1);
  tn_node *first = tn__op2(c, OP_EQ, before, tn__literal_like(c, before, 0));
  tn_node *inside = tn__op2(c, OP_LE, tn__literal_like(c, idx, 0), idx), *next = tn__op2_num(c, OP_ADD, k, 1);
  tn_node *takes = tn__op2(c, OP_AND, first, inside), *nowhere = tn__op2_num(c, OP_MUL, next, -1);
  tn_node *place = tn__op1(c, OP_DISTINCT, tn__where(c, takes, idx, nowhere)), *dims[TN_MAX_RANK];
  for (uint32_t i = 0; i < base->rank; i++) dims[i] = i ? base->dim[i] : line.d[0];
  return tn__scatter(c, base, place, tn__reshape(c, sum, dims, base->rank));
}

typedef struct runs { /* updates sorted by place */
  tn_node *number, *order; /* [n] places, from 1 on: those that go nowhere come last; which update each one is */
  tn_node *upd;            /* [n, r], in the order given */
  tn_node *before;         /* [blocks, r] of FIRST_BLOCK: the sum of the run that ends each one, all of it so far */
} runs;

static runs runs_of(tn_ctx *c, tn_node *places, tn_node *idx, tn_node *upd) {
  runs s = {.upd = upd};
  tn_node *end = tn__scalar_to(c, tn__dim_value(c, places, TN_I64), idx->dim, 1), *zero = tn__literal_like(c, idx, 0);
  tn_node *inside = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, idx), tn__op2(c, OP_LT, idx, end));
  tn_node *number = tn__op2(c, OP_MIN, tn__where(c, inside, idx, end), tn__literal_like(c, idx, (double)places->hi));
  number = tn__op2_num(c, OP_ADD, tn__op2(c, OP_MAX, number, zero), 1);
  number = tn__op1(c, OP_CONTIG, number);
  tn_node *sorted;
  s.order = tn__sorted(c, tn__add_axis(c, number, 0), false, &sorted);
  s.number = tn__op1(c, OP_CONTIG, tn__cast(c, sorted, TN_I64));
  tn_node *blocks = tn__in_blocks(c, s.number, 0, FIRST_BLOCK), *values = tn__gather(c, upd, s.order);
  s.before = run_sums(c, last_of_blocks(c, blocks, 1), sum_at_end(c, blocks, tn__in_blocks(c, values, 0, FIRST_BLOCK)));
  return s;
}

/* from[k] <= to[k] -> [k, r]: the sums of those from one up to the other, all of one run, which ends there */
static tn_node *sums_up_to(tn_ctx *c, const runs *s, tn_node *from, tn_node *to) {
  tn__dims near = {.rank = 2, .d = {from->dim[0], tn__int(c, FIRST_BLOCK)}};
  tn_node *block = tn__op2(c, OP_IDIV, tn__op2_num(c, OP_ADD, to, -1), tn__literal_like(c, to, FIRST_BLOCK));
  tn_node *begin = tn__op2_num(c, OP_MUL, block, FIRST_BLOCK);
  tn_node *at = tn__add(c, spread(c, begin, near.d, 2), tn__place(c, &near, 1));
  tn_node *is_own = tn__op2(c, OP_AND, tn__op2(c, OP_LE, spread(c, from, near.d, 2), at),
                            tn__op2(c, OP_LT, at, spread(c, to, near.d, 2)));
  tn_node *nowhere = tn__literal_like(c, at, -1);
  tn_node *last = tn__gather(c, s->upd, tn__where(c, is_own, tn__gather(c, s->order, at), nowhere));
  tn_node *sum = tn__reduce(c, OP_SUM, last, (int64_t[]){1}, 1);
  tn_node *goes_back = tn__op2(c, OP_AND, tn__op2(c, OP_LT, from, to), tn__op2(c, OP_LT, from, begin));
  tn_node *back = tn__where(c, goes_back, tn__op2_num(c, OP_ADD, block, -1), tn__literal_like(c, block, -1));
  return tn__add(c, sum, tn__gather(c, s->before, back));
}

/* [places, r]: each place looks for its run. */
static tn_node *by_place(tn_ctx *c, tn_node *places, tn_node *idx, tn_node *upd) {
  runs s = runs_of(c, places, idx, upd);
  tn__dims line = {.rank = 1, .d = {places}};
  tn_node *own = tn__op2_num(c, OP_ADD, tn__place(c, &line, 0), 1);
  tn_node *from = tn__op1(c, OP_CONTIG, tn__places_in(c, s.number, own, false)),
          *to = tn__op1(c, OP_CONTIG, tn__places_in(c, s.number, own, true));
  return sums_up_to(c, &s, from, to);
}

/* base[places, ...] with the sum of each run added at its place: where the last one of a run says so; the others go
 * nowhere, each to a place of its own. */
static tn_node *by_run(tn_ctx *c, tn_node *base, tn_node *idx, tn_node *upd) {
  runs s = runs_of(c, base->dim[0], idx, upd);
  tn__dims line = {.rank = 1, .d = {idx->dim[0]}};
  tn_node *k = tn__place(c, &line, 0), *next = tn__op2_num(c, OP_ADD, k, 1);
  tn_node *ends = tn__op2(c, OP_NE, tn__gather(c, s.number, next), s.number); /* behind the last one stands 0 */
  tn_node *last = tn__scalar_to(c, tn__dim_value(c, base->dim[0], TN_I64), line.d, 1);
  ends = tn__op2(c, OP_AND, ends, tn__op2(c, OP_LE, s.number, last));
  tn_node *to = tn__where(c, ends, next, tn__literal_like(c, k, 0));
  tn_node *from = tn__where(c, ends, tn__places_in(c, s.number, s.number, false), to);
  tn_node *sum = sums_up_to(c, &s, tn__op1(c, OP_CONTIG, from), tn__op1(c, OP_CONTIG, to));
  tn_node *nowhere = tn__op2_num(c, OP_MUL, next, -1), *place = tn__op2_num(c, OP_ADD, s.number, -1);
  place = tn__op1(c, OP_DISTINCT, tn__where(c, ends, place, nowhere));
  tn_node *dims[TN_MAX_RANK];
  for (uint32_t i = 0; i < base->rank; i++) dims[i] = i ? base->dim[i] : line.d[0];
  return tn__scatter(c, base, place, tn__reshape(c, sum, dims, base->rank));
}

static double most(const tn_node *size) {
  return (double)size->hi;
}

/* In multiply-adds of the whole device: n updates of so many elements each, that so many ask */
/* a choice: any is right */
static double asking_work(const tn__target *t, double askers, double n, double width) {
  return (t->launch > 0 ? ASK_WAITS : ASK_STEPS) * askers * n * width;
}

/* a choice: any is right */
static double runs_work(const tn__target *t, double places, double n, double width) {
  int bits = 1;
  while (bits < 62 && places >= (double)((int64_t)1 << bits)) bits++;
  return tn__sort_work(t, 1, n, bits) + RUN_LAUNCHES * tn__target_launch_guess(t) + RUN_STEPS * (n + places) * width;
}

static tn_node *in_parallel(tn_ctx *c, const tn__target *t, tn_node *n) {
  tn_node *base = n->src[0], *idx = n->src[1], *upd = n->src[2], *places = n->dim[0];
  tn_node *count = tn__numel(c, idx);
  idx = tn__cast(c, tn__reshape(c, idx, &count, 1), TN_I64);
  upd = tn__acc(c, tn__merge_axes(c, tn__merge_axes(c, upd, n->src[1]->rank, n->rank - 1u), 0, n->src[1]->rank));
  double updates = most(count), width = most(upd->dim[1]), sorted = runs_work(t, most(places), updates, width),
         asked = asking_work(t, most(places), updates, width),
         others = asking_work(t, updates, updates, width) + ASK_LAUNCHES * tn__target_launch_guess(t);
  bool fewer = updates < most(places) && places->lo > 1;
  if (fewer && fmin(sorted, others) < asked)
    return tn__cast(c, (others <= sorted ? by_asking_others : by_run)(c, tn__acc(c, base), idx, upd), n->dtype);
  tn_node *sum = (asked <= sorted ? by_asking : by_place)(c, places, idx, upd);
  return tn__cast(c, tn__add(c, tn__acc(c, base), tn__reshape(c, sum, n->dim, n->rank)), n->dtype);
}

/* Into what may be empty a loop of its own keeps anything from being added, which others could not be joined with. */
bool tn__is_added_at_once(const tn__target *t, const tn_node *n) {
  return n->op == OP_SCATTER && tn__is_int(n->dtype) && (t->adds & tn__size_of(n->dtype)) && n->dim[0]->lo > 0;
}

static tn_node *first_serial(tn_ctx *c, const tn__target *t, tn_node *sink) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_SCATTER && !tn__is_placed(all.v[i]) && all.v[i]->src[1]->op != OP_DISTINCT &&
        (!tn__is_added_at_once(t, all.v[i]) || all.v[i]->dim[0]->hi <= FEW_PLACES))
      return all.v[i];
  return NULL;
}

tn_node *tn__schedule_scatters(tn_ctx *c, tn_node *sink, const tn__target *t) {
  tn_node *given = sink;
  if (!t->group || c->mode == TN_MODE_STRICT) return sink;
  for (tn_node *n; (n = first_serial(c, t, sink));) {
    tn_node *by = in_parallel(c, t, n);
    sink = tn__substitute(c, sink, &n, &by, 1);
  }
  return sink == given ? sink : tn__schedule_prune(c, tn__simplify_graph(c, sink));
}
