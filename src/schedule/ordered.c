/* Updates in order of place.  Few compare keys, all with all; of more, tables say how many of each place there are, and
 * how many in each block of them, so that only those of a block are compared; many are sorted. */
#include "schedule/ordered.h"
#include "schedule/fuse.h"
#include "tensor/scan.h"
#include "tensor/sort.h"
#include <math.h>

enum {
  COUNT_LAUNCHES = 3, /* kernels of putting updates in order by counting, */
  COUNT_STEPS = 12,   /* and multiply-adds in the time of asking whether one comes before another (measured) */
  TABLE_BLOCK = 512,  /* updates that ask each other which of them come first, beside tables of counts, */
  TABLE_LAUNCHES = 5  /* which these kernels make and use */
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

/* How many of at[n] are each number below `most`: i32 */
static tn_node *tally(tn_ctx *c, tn_node *at, int64_t most) {
  tn_node *size = tn__int(c, most), *none = tn__scalar_to(c, tn__const_bits(c, TN_I32, 0), &size, 1);
  return tn__scatter(c, none, at, tn__cast(c, tn__literal_like(c, at, 1), TN_I32));
}

/* How many of number[n] are the same as each and come before it in its block, which is all that it asks */
static tn_node *alike_in_block(tn_ctx *c, tn_node *number) {
  tn_node *n = number->dim[0], *own = tn__in_blocks(c, tn__in_memory(c, number), 0, TABLE_BLOCK);
  tn__dims pairs = {.rank = 3, .d = {own->dim[0], own->dim[1], own->dim[1]}};
  tn_node *other = tn__over(c, tn__add_axis(c, own, 1), pairs.d, 3);
  tn_node *equal = tn__op2(c, OP_EQ, other, tn__over(c, own, pairs.d, 3));
  tn_node *sooner = tn__op2(c, OP_LT, tn__place(c, &pairs, 2), tn__place(c, &pairs, 1));
  tn_node *alike = tn__cast(c, tn__op2(c, OP_AND, equal, sooner), TN_I32);
  alike = tn__op1(c, OP_CONTIG, tn__reduce(c, OP_SUM, alike, (int64_t[]){2}, 1));
  return tn__first_of(c, tn__merge_axes(c, alike, 0, 2), 0, n);
}

static double table_blocks(double n) { return ceil(n / TABLE_BLOCK); }

/* ... and in the blocks before its own, of which a table says how many of each number are in them */
static tn_node *alike_in_blocks_before(tn_ctx *c, tn_node *number, int64_t most) {
  int64_t blocks = (int64_t)table_blocks((double)number->dim[0]->hi);
  tn__dims line = {.rank = 1, .d = {number->dim[0]}}, cells = {.rank = 2, .d = {line.d[0], tn__int(c, blocks)}};
  tn_node *block = tn__op2_num(c, OP_IDIV, tn__place(c, &line, 0), TABLE_BLOCK);
  tn_node *first = tn__op2_num(c, OP_MUL, tn__cast(c, number, TN_I64), (double)blocks);
  tn_node *table = tally(c, tn__add(c, first, block), (most + 1) * blocks);
  tn_node *other = tn__place(c, &cells, 1), *is_before = tn__op2(c, OP_LT, other, tn__over(c, block, cells.d, 2));
  other = tn__add(c, tn__over(c, first, cells.d, 2), other);
  other = tn__where(c, is_before, other, tn__literal_like(c, other, -1));
  return tn__reduce(c, OP_SUM, tn__gather(c, table, other), (int64_t[]){1}, 1);
}

/* Running sums of how many of each number there are say where the first of these goes. */
static void by_table(tn_ctx *c, tn__ordered *o, int64_t most) {
  tn_node *number = o->given = o->number;
  tn__dims line = {.rank = 1, .d = {number->dim[0]}};
  tn_node *counts = tally(c, tn__cast(c, number, TN_I64), most + 1);
  o->start = tn__op1(c, OP_CONTIG, tn__scan(c, OP_SUM, counts, 0, true));
  tn_node *alike = tn__add(c, alike_in_block(c, number), alike_in_blocks_before(c, number, most));
  o->place = tn__op1(c, OP_PERMUTATION, tn__add(c, alike, tn__gather(c, o->start, number)));
  tn_node *k = tn__cast(c, tn__place(c, &line, 0), TN_I32);
  o->number = tn__scatter(c, tn__literal_like(c, number, 0), o->place, number);
  o->order = tn__scatter(c, tn__literal_like(c, k, 0), o->place, k);
}

static void by_sorting(tn_ctx *c, tn__ordered *o) {
  tn_node *sorted, *order = tn__sorted(c, tn__add_axis(c, o->number, 0), false, &sorted);
  o->number = tn__op1(c, OP_CONTIG, tn__cast(c, sorted, o->number->dtype));
  o->order = tn__cast(c, order, tn__narrow(order->dim[0]->hi));
}

/* a choice: any is right */
static double counting_work(const tn__target *t, double n) {
  return COUNT_LAUNCHES * tn__target_launch_guess(t) + COUNT_STEPS * n * n;
}

/* Tables are cleared, added to and read, each in a sector of its own. */
/* a choice: any is right */
static double table_work(const tn__target *t, double places, double n) {
  double move = tn__move_work(t), blocks = table_blocks(n), cells = (places + 2) * (blocks + 1);
  double sector = t->sector > 0 ? (double)t->sector / sizeof(float) : 1;
  if (!(t->adds & sizeof(int32_t)) || n <= TABLE_BLOCK || places < TN__FEW_PLACES || cells > INT32_MAX) return INFINITY;
  double launches = TABLE_LAUNCHES * tn__target_launch_guess(t), asked = COUNT_STEPS * n * TABLE_BLOCK;
  return launches + move * (2 * cells + n * (2 * sector + 2 * blocks)) + asked;
}

/* How updates are put in order of place, by what takes least */
typedef enum ordering { BY_COUNTING, BY_TABLE, BY_SORTING } ordering;

/* a choice: any that is right */
static ordering best_order(const tn__target *t, int64_t places, double n, double *work) {
  double takes[] = {counting_work(t, n), table_work(t, (double)places, n),
                    tn__sort_work(t, 1, n, tn__bits_below(places))};
  ordering best = BY_SORTING;
  if (takes[BY_TABLE] <= takes[best]) best = BY_TABLE;
  if (takes[BY_COUNTING] <= takes[best] && key_bits(places, (int64_t)n) < 63) best = BY_COUNTING;
  *work = takes[best];
  return best;
}

bool tn__order_tells(const tn__target *t, int64_t places, double n) {
  double work;
  return best_order(t, places, n, &work) == BY_TABLE;
}

double tn__order_work(const tn__target *t, int64_t places, double n) {
  double work;
  best_order(t, places, n, &work);
  return work;
}

tn__ordered tn__in_order(tn_ctx *c, const tn__target *t, tn_node *number, int64_t most) {
  tn__ordered o = {.number = number};
  double work;
  ordering by = best_order(t, most - 1, (double)number->dim[0]->hi, &work);
  if (by == BY_TABLE) by_table(c, &o, most);
  else if (by == BY_COUNTING) by_counting(c, &o, most);
  else by_sorting(c, &o);
  return o;
}
