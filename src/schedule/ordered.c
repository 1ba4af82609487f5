/* Updates in order of place.  Few compare keys, all with all; many are sorted. */
#include "schedule/ordered.h"
#include "schedule/fuse.h"
#include "tensor/sort.h"

enum {
  COUNT_LAUNCHES = 3, /* kernels of putting updates in order by counting, */
  COUNT_STEPS = 12,   /* and multiply-adds in the time of asking whether one comes before another (measured) */
  BESIDE = 2          /* times as long small kernels take, one behind the other, beside what fills all places */
};

/* Numbers of at most so many, as narrow as they may be: threads compare words of 4 bytes at once */
int tn__narrow(int64_t most) { return most < INT32_MAX ? TN_I32 : TN_I64; }

/* To read or write an element of f32 */
/* a choice: any is right */
double tn__move_work(const tn__target *t) { return t->balance > 0 ? (double)t->balance : 1; }

tn_node *tn__over(tn_ctx *c, tn_node *x, tn_node *const *dims, uint32_t rank) { /* along axes that follow */
  while (x->rank < rank) x = tn__add_axis(c, x, x->rank);
  return tn__expand(c, x, dims);
}

/* What all are asked for is worked out once; where it is a number in memory, moved or converted, it is there.  Half
 * floats that are summed up in f32 stay what they are there. */
tn_node *tn__in_memory(tn_ctx *c, tn_node *x) {
  const tn_node *from = x;
  while (from->op == OP_CAST || (tn__ops[from->op].group == G_MOVE && from->op != OP_PAD && from->op != OP_FOLD))
    from = from->src[0];
  bool is_there = from->op == OP_PARAM || from->op == OP_STORAGE || from->op == OP_CONTIG;
  if (is_there) return x;
  bool widened = x->op == OP_CAST && tn__dtype_acc(x->src[0]->dtype) == x->dtype;
  return widened ? tn__cast(c, tn__op1(c, OP_CONTIG, x->src[0]), x->dtype) : tn__op1(c, OP_CONTIG, x);
}

/* Which of n updates, and a place among so many, as one number: of so many bits */
static int key_bits(int64_t places, int64_t n) { return tn__bits_below(places) + tn__bits_below(n); }

/* With which update it is below each number, no two are the same, so that each counts those below it by one
 * comparison. */
static void by_counting(tn_ctx *c, tn__ordered *o, int64_t most) {
  tn__dims line = {.rank = 1, .d = {o->number->dim[0]}}, pairs = {.rank = 2, .d = {line.d[0], line.d[0]}};
  int bits = key_bits(most, line.d[0]->hi), shift = tn__bits_below(line.d[0]->hi), as = bits <= 32 ? TN_U32 : TN_U64;
  int counter = tn__narrow(line.d[0]->hi);
  tn_node *key = tn__cast(c, o->number, as), *by = tn__literal_like(c, key, shift);
  key = tn__op2(c, OP_OR, tn__op2(c, OP_SHL, key, by), tn__cast(c, tn__place(c, &line, 0), as));
  key = tn__op1(c, OP_CONTIG, key);
  tn_node *other = tn__over(c, tn__add_axis(c, key, 0), pairs.d, 2), *own = tn__over(c, key, pairs.d, 2);
  /* the sign of a difference is added by one instruction, where what a comparison says is chosen and then added */
  tn_node *is_below = bits < 32 ? tn__op2_bits(c, OP_SHR, tn__sub(c, other, own), 31)
                                : tn__cast(c, tn__op2(c, OP_LT, other, own), counter);
  tn_node *place = tn__cast(c, tn__reduce(c, OP_SUM, is_below, (int64_t[]){1}, 1), counter);
  key = tn__scatter(c, tn__literal_like(c, key, 0), tn__op1(c, OP_PERMUTATION, place), key);
  o->number = tn__cast(c, tn__op2(c, OP_SHR, key, by), o->number->dtype);
  tn_node *below = tn__literal_like(c, key, (double)(((int64_t)1 << shift) - 1));
  o->order = tn__cast(c, tn__op2(c, OP_AND, key, below), counter);
}

/* Numbers from 0 on are what is sorted: they may take a bit less. */
static void by_sorting(tn_ctx *c, tn__ordered *o, tn_node *along) {
  tn_node *row = tn__add_axis(c, tn__op2_num(c, OP_ADD, o->number, -1), 0), *sorted;
  if (along) along = tn__sorted_along(c, row, tn__add_axis(c, along, 0), &sorted);
  if (along) {
    o->along = tn__op1(c, OP_CONTIG, tn__merge_axes(c, along, 0, 2));
  } else {
    tn_node *order = tn__sorted(c, row, false, &sorted);
    o->order = tn__cast(c, order, tn__narrow(order->dim[0]->hi));
  }
  o->number = tn__op1(c, OP_CONTIG, tn__op2_num(c, OP_ADD, tn__cast(c, sorted, o->number->dtype), 1));
}

/* a choice: any is right */
static double counting_work(const tn__target *t, double n) {
  return COUNT_LAUNCHES * tn__target_launch_guess(t) + COUNT_STEPS * n * n;
}

/* Is it quicker to compare keys than to sort them?  *work: what the quicker way takes */
/* a choice: either is right */
static bool counts(const tn__target *t, int64_t places, double n, double *work) {
  double counted = counting_work(t, n), sorted = tn__sort_work(t, 1, n, tn__bits_below(places));
  bool few = counted <= BESIDE * sorted && key_bits(places, (int64_t)n) < 63;
  *work = few ? counted : sorted;
  return few;
}

double tn__order_work(const tn__target *t, int64_t places, double n) {
  double work;
  counts(t, places, n, &work);
  return work;
}

/* a choice: either is right */
bool tn__order_takes_along(const tn__target *t, int64_t places, double n, int bits) {
  double work;
  return !counts(t, places, n, &work) && tn__sort_takes_along(t, 1, n, tn__bits_below(places), bits);
}

tn__ordered tn__in_order(tn_ctx *c, const tn__target *t, tn_node *number, int64_t most, tn_node *along) {
  tn__ordered o = {.number = number};
  double work;
  if (counts(t, most - 1, (double)number->dim[0]->hi, &work)) by_counting(c, &o, most);
  else by_sorting(c, &o, along);
  return o;
}
