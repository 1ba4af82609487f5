/* Sorting, and what is made of it.
 *
 * A row is sorted by the places that its elements go to.  In a short row each element counts those that come before it.
 * A long one is sorted by radix, digit by digit from the lowest: blocks of a few elements count how many of each digit
 * they hold, a scan over the counts, all blocks of one digit after the other, tells where each block's first element of
 * that digit goes, and the elements of a block follow each other.  Each pass is stable, so all of them together are.
 * (Cormen, Leiserson, Rivest, Stein, Introduction to Algorithms, 8.2 and 8.3.)
 *
 * Where a block has no table of counts, it has as many elements as there are digits, so that there are as many counts
 * as elements, and in it each element asks all others: long digits make few passes of much work.  A processor's
 * thread goes along a block with a table of all digits, which are as long as there is room for in its nearest cache;
 * blocks are a few times as many as threads, so that counts are few beside the elements.  On devices of groups
 * a block is a group's, whose threads have a table each (lower/group_tally.c), and put it in order in shared memory
 * before it goes on (lower/group_exchange.c).  Where there is no room for these, or sizes are not known, counts may be
 * parts of words: the sum of (1 << 4 d) over digits d is all counts of a few elements at once, what runs along a
 * thread's neighbours (lower/running.c) says how many of its digit come before each, and wider parts say so of a block.
 * There rows are also sorted by merges (tensor/merge.c), which are fewer kernels.  Which way is taken has no influence
 * on the result. */
#include "tensor/sort.h"
#include "device/device.h"
#include "tensor/first.h"
#include "tensor/merge.h"
#include "tensor/scan.h"
#include <math.h>

enum {
  PASS_LAUNCHES = 8,      /* kernels of a pass */
  MOST_ASKED = 8,         /* elements of a row that each place of it asks */
  FEW_ASKED = 4,          /* of so many a key is worked out again whenever it is asked for */
  CALL = 1 << 11,         /* of a launch on a processor, */
  RUN_CALLS = 5,          /* so many a pass; */
  KEY_STEPS = 24,         /* multiply-adds in the time that a key is in one, */
  TABLE_STEPS = 40,       /* with its number in one word, */
  BESIDE_STEPS = 100,     /* or with its number beside it, */
  COUNT_STEPS = 16,       /* and those of the count of a digit in a block, */
  WHOLE_RUN = 1 << 15,    /* which is a row of so many elements, */
  RUN_BLOCK = 1 << 14,    /* or has so many of a longer one, or more, where there would be no more than */
  FEW_RUNS = 4,           /* so many blocks, else as many as a row that is one, */
  MOST_RUNS = 32,         /* so that there are at most as many blocks as a few times its threads */
  RUN_BITS = 11,          /* a table of so many bits leaves room in the nearest cache */
  BYTE_FETCHES = 8,       /* asking for a digit, a byte among others, takes so long as fetching so many elements */
  WORD_LAUNCHES = 7,      /* kernels of a pass by words, */
  WORD_STEPS = 370,       /* multiply-adds in the time that an element is in it, of a cache, */
  WORD_FAR_STEPS = 740,   /* and of memory */
  TABLE_LAUNCHES = 8,     /* a pass by a group's tables takes five, and what threads wait for their own tables, */
  TABLE_BITS = 8,
  EXCHANGE_LAUNCHES = 5,  /* but where all that goes on is one array of blocks in order, it waits for nothing else: */
  EXCHANGE_STEPS = 385,   /* so many multiply-adds an element, in a cache or not */
  TABLE_GROUPS = 2,       /* at least so many groups for each unit, or shorter blocks, */
  LEAST_BLOCK = 1024,     /* down to so many elements */
  NUMBER_MOVES = 2,       /* f32 moved of an element in a pass for its number, */
  ORDER_MOVES = 9,        /* and where it is looked up by that: most of its sector; */
  FIRST_MOVES = 2,        /* to find the first 0 and NaN, */
  FIRST_LAUNCHES = 2,     /* which takes so many kernels */
  ASK_FETCHES = 4 /* asking takes so long as fetching so many elements; where fetching is free: a multiply-add */
};

/* Merges are taken only where they are surely quicker than words, and tables where they surely are than merges: what is
 * reckoned is off by as much of what was measured. */
static const double SURELY = 0.8;

/* How a row is sorted: each element counts those before it in its row; or by digits of so many bits, in blocks of so
 * many elements, by tables of each group's threads; or by words; or by merges. */
typedef struct way {
  enum { BY_COUNTING, BY_DIGITS, BY_TABLES, BY_WORDS, BY_MERGES } is;
  int bits;
  bool runs; /* by digits: a thread goes along each block */
  int64_t block;
  tn__merges merges;
} way;

/* ... does what goes from pass to pass say which element it is, too? */
static bool goes_by_passes(way by) { return by.is != BY_COUNTING && by.is != BY_MERGES; }

/* Words of counts, each part for one of 16 digits: 4 bits for NEAR elements at a time, 8 bits for up to 255. */
enum { WORD_BITS = 4, WORD_DIGITS = 1 << WORD_BITS, NEAR = 16, HALF = NEAR / 2, NEAR_OF_BLOCK = 8, WORD_SIZE = 32 };

/* Rows of n elements, or of as many as there may be.  A processor counts in tables (lower/running.c), which take a step
 * for each element, however many digits there are; of sizes that are not known it does not.  Nor are merges planned for
 * rows whose length is not known, or for none: their searches look at what lies behind the first elements. */
typedef struct sizes {
  double rows, n;
  bool tables, merges, known;
} sizes;

static sizes sizes_of(const tn__target *t, const tn_node *x) {
  bool row = tn__is_const(x->dim[1]), all = row && tn__is_const(x->dim[0]);
  return (sizes){(double)x->dim[0]->hi, (double)x->dim[1]->hi, !t->group && !t->interprets && all,
                 row && x->dim[0]->lo > 0, all};
}

static const tn__target *target_of(tn_ctx *c, const tn_node *x) {
  return &tn__device_get(c, x->device < 0 ? 0 : x->device)->target;
}

static double launch_work(const tn__target *t, bool tables) {
  return tables && t->launch <= 0 ? CALL : tn__target_launch_guess(t);
}

double tn__sort_launch(const tn__target *t) { return launch_work(t, !t->group); }

double tn__sort_ask(const tn__target *t) { return t->fetch > 0 ? ASK_FETCHES * (double)t->fetch : 1; }

/* Elements of a block that a group sorts by its threads' tables; 0: it has none */
/* a choice: any multiple of its threads is right */
static int64_t table_block(const tn__target *t, sizes of) {
  int64_t block = tn__tally_threads(t) ? TN__TALLY_TERMS : 0;
  while (block > LEAST_BLOCK && of.rows * ceil(of.n / (double)block) < (double)t->units * TABLE_GROUPS) block /= 2;
  return block;
}

/* What a pass by a group's tables takes of so many elements in whole blocks, of which numbers, if asked for, go with
 * keys in one word, or beside them.  As one array they are put in order before they go on (pass_by_exchange). */
/* a choice: either is right */
static double table_work(const tn__target *t, int64_t block, double elements, int bits, double steps) {
  int words = bits > WORD_SIZE ? 2 : 1;
  double launch = launch_work(t, false);
  bool exchanges = bits <= 64 && tn__target_exchanges(t, block, words);
  if (exchanges) return EXCHANGE_LAUNCHES * launch + elements * EXCHANGE_STEPS;
  return TABLE_LAUNCHES * launch + elements * steps;
}

/* Elements of a block that a processor's thread goes along: all blocks of a row have nearly as many. */
/* a choice: any is right */
static int64_t run_block(double n) {
  double most = n < FEW_RUNS * WHOLE_RUN ? RUN_BLOCK : WHOLE_RUN;
  double blocks = n > WHOLE_RUN ? fmin(ceil(n / most), MOST_RUNS) : 1;
  return (int64_t)fmax(ceil(n / blocks), 1);
}

/* a choice: any is right */
double tn__ask_of_vectors(int bits, bool alone) {
  static const double of[2][2] = {{1, 0.8}, {4, 1.2}}; /* where they stand in words of 32 bits, or of 64 */
  return of[bits > WORD_SIZE][alone];
}

/* The quickest way.  numbered: it is asked which element stands at each place.  *work: what it takes. */
/* a choice: either is right */
static way way_to_sort(const tn__target *t, sizes of, int bits, bool numbered, double *work) {
  double ask = tn__sort_ask(t), rows = of.rows, n = of.n;
  double launch = launch_work(t, of.tables);
  double in_table = !numbered ? KEY_STEPS : bits + log2(rows * n + 1) > 64 ? BESIDE_STEPS : TABLE_STEPS;
  double asked = of.tables ? tn__ask_of_vectors(bits, bits + log2(n + 1) <= WORD_SIZE) : ask;
  way best = {0};
  *work = launch + rows * n * n * asked;
  for (int digit = 4; digit <= (of.tables ? RUN_BITS : 8); digit += of.tables ? 1 : 4) {
    int64_t digits = (int64_t)1 << digit, block = of.tables ? run_block(n) : digits;
    double counts = ceil(n / (double)block) * (double)digits, passes = (bits + digit - 1) / digit;
    double asks = 2 * (double)digits * (t->fetch > 0 ? BYTE_FETCHES * (double)t->fetch : ask);
    double steps = of.tables ? n * in_table + counts * COUNT_STEPS : n * (TN__PASS_STEPS + asks);
    double all = passes * ((of.tables ? RUN_CALLS : PASS_LAUNCHES) * launch + rows * steps);
    if (all < *work) *work = all, best = (way){.is = BY_DIGITS, .bits = digit, .runs = of.tables, .block = block};
  }
  if (!t->group) return best;
  int load_bits = numbered ? bits + (int)log2(rows * n + 1) + 1 : bits;
  double merging, steps = tn__is_far(t, rows * n, load_bits) ? WORD_FAR_STEPS : WORD_STEPS;
  double all = (bits + WORD_BITS - 1) / WORD_BITS * (WORD_LAUNCHES * launch + rows * n * steps);
  if (all < *work) *work = all, best = (way){.is = BY_WORDS, .bits = WORD_BITS, .block = NEAR};
  if (of.merges) {
    tn__merges merges = tn__best_merges(t, rows, n, bits, numbered, &merging);
    if (merging < SURELY * *work) *work = merging, best = (way){.is = BY_MERGES, .merges = merges};
  }
  int64_t block = of.known ? table_block(t, of) : 0;
  if (!block) return best;
  double whole = ceil(n / (double)block) * (double)block; /* what fills the last block is sorted, too */
  int passes = (bits + TABLE_BITS - 1) / TABLE_BITS;
  all = passes * table_work(t, block, rows * whole, load_bits + passes * TABLE_BITS - bits, steps);
  if (all < (best.is == BY_MERGES ? SURELY : 1) * *work)
    *work = all, best = (way){.is = BY_TABLES, .bits = TABLE_BITS, .block = block};
  return best;
}

double tn__sort_work(const tn__target *t, double rows, double n, int bits) {
  double work;
  way_to_sort(t, (sizes){rows, n, .merges = true, .known = true}, bits, true, &work); /* of sizes that are bounds */
  return work;
}

static tn_node *unsigned_const(tn_ctx *c, tn_node *x, uint64_t bits) {
  return tn__scalar_to(c, tn__const_bits(c, x->dtype, bits), x->dim, x->rank);
}

/* x, computed once: where something is computed twice, as kernels do in passing, a dtype that is rounded once may have
 * left it with other bits. */
static tn_node *once(tn_ctx *c, tn_node *x) {
  const tn_node *from = x;
  while (tn__ops[from->op].group == G_MOVE || from->op == OP_DETACH || (from->op == OP_CAST && tn__is_int(from->dtype)))
    from = from->src[0];
  bool stands = from->op == OP_STORAGE || from->op == OP_PARAM || from->op == OP_CONTIG || from->op == OP_IOTA;
  return stands ? x : tn__op1(c, OP_CONTIG, x);
}

/* a choice: no is right */
static bool lies_along(const tn_node *x) {
  while (x->op == OP_RESHAPE || x->op == OP_DETACH || x->op == OP_CAST) x = x->src[0];
  return x->op == OP_STORAGE || x->op == OP_PARAM || x->op == OP_CONTIG;
}

/* Unsigned integers as wide */
static int as_bits(int dtype) {
  static const int same_width[] = {[1] = TN_U8, [2] = TN_U16, [4] = TN_U32, [8] = TN_U64};
  return same_width[tn__size_of(dtype)];
}

tn__keys tn__keys_in_passing(tn_ctx *c, tn_node *x, bool down) {
  int width = (int)tn__size_of(x->dtype) * 8, as = as_bits(x->dtype);
  uint64_t sign = (uint64_t)1 << (width - 1), all = sign | (sign - 1);
  tn__keys k = {.bits = width};
  if (tn__is_float(x->dtype)) x = tn__op1(c, OP_DETACH, x); /* the order has no gradient */
  k.along = lies_along(x);
  if (x->dtype == TN_BOOL) {
    k.of = tn__cast(c, x, TN_U8);
    k.bits = 1;
    all = 1;
  } else if (tn__is_float(x->dtype)) {
    tn_node *zero = tn__literal_like(c, x, 0), *nan = tn__op2(c, OP_NE, x, x);
    x = tn__where(c, tn__op2(c, OP_EQ, x, zero), zero, x);
    tn_node *bits = tn__bitcast(c, x, as), *top = unsigned_const(c, bits, sign);
    tn_node *negative = tn__op2(c, OP_NE, tn__op2(c, OP_AND, bits, top), unsigned_const(c, bits, 0));
    bits = tn__where(c, negative, tn__op1(c, OP_NOT, bits), tn__op2(c, OP_XOR, bits, top));
    k.of = tn__where(c, nan, unsigned_const(c, bits, all), bits);
  } else if (x->lo >= 0 && x->hi < INT64_MAX) { /* the interval may say that few bits are ever set */
    k.of = tn__cast(c, x, as);
    for (k.bits = 1; k.bits < 63 && x->hi >> k.bits;) k.bits++;
    all = ((uint64_t)1 << k.bits) - 1;
  } else {
    k.of = tn__bitcast(c, x, as);
    if (tn__dtypes[x->dtype].is_signed) k.of = tn__op2_bits(c, OP_XOR, k.of, k.flip = sign);
  }
  if (down) k.of = tn__op2_bits(c, OP_XOR, k.of, all), k.flip ^= all;
  return k;
}

tn__keys tn__keys_of(tn_ctx *c, tn_node *x, bool down) { return tn__keys_in_passing(c, once(c, x), down); }

/* The integer of such a key */
static tn_node *integer_of(tn_ctx *c, const tn__keys *k, tn_node *key, int dtype) {
  if (k->flip) key = tn__op2_bits(c, OP_XOR, key, k->flip);
  return dtype == TN_BOOL ? tn__cast(c, key, dtype) : tn__bitcast(c, key, dtype);
}

static tn_node *i32(tn_ctx *c, tn_node *x) {
  return tn__cast(c, x, TN_I32);
}

tn_node *tn__places_of(tn_ctx *c, tn_node *in_row, int dtype) {
  tn__dims shape = tn__dims_of(in_row);
  tn_node *size = tn__scalar_to(c, tn__dim_value(c, shape.d[1], TN_I64), shape.d, 2);
  tn_node *row = tn__cast(c, tn__mul(c, tn__place(c, &shape, 0), size), dtype);
  return tn__op1(c, OP_PERMUTATION, tn__merge_axes(c, tn__add(c, row, tn__cast(c, in_row, dtype)), 0, 2));
}

/* It is added to -0, which changes none, 0 and -0 neither. */
tn_node *tn__placed(tn_ctx *c, tn_node *x, tn_node *places) {
  tn_node *nothing = tn__scalar_to(c, tn__const_num(c, x->dtype, -0.0), places->dim, 1);
  return tn__reshape(c, tn__scatter(c, nothing, places, tn__merge_axes(c, x, 0, 2)), x->dim, 2);
}

static uint32_t loops_of(const tn_node *x) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < x->rank; i++) n += !tn__is_int_const(x->dim[i], 1);
  return n;
}

/* x, on devices without groups computed by a kernel of its own: one that asks for it and stores it by the way, as one
 * whose loops are the same may, would compute it whenever it asks. */
static tn_node *once_flat(tn_ctx *c, tn_node *x) {
  if (target_of(c, x)->group) return x; /* a choice: either is right */
  bool stands = x->op == OP_RESHAPE && x->src[0]->op == OP_CONTIG && loops_of(x->src[0]) != loops_of(x);
  if (stands) return x; /* a choice: no is right */
  tn_node *flat = tn__op1(c, OP_CONTIG, tn__merge_axes(c, x, 0, x->rank));
  return tn__reshape(c, flat, x->dim, x->rank);
}

tn_node *tn__places_by_counting(tn_ctx *c, tn_node *key, tn_node *number) {
  int64_t counted = 2;
  tn_node *n = key->dim[1];
  if (n->hi > FEW_ASKED) key = once_flat(c, key); /* each asks for all of them */
  tn__dims pairs = {.rank = 3, .d = {key->dim[0], n, n}};
  tn_node *own = tn__expand(c, tn__add_axis(c, key, 2), pairs.d);
  tn_node *other = tn__expand(c, tn__add_axis(c, key, 1), pairs.d), *before = tn__op2(c, OP_LT, other, own);
  if (number) {
    tn_node *earlier = tn__op2(c, OP_LT, tn__expand(c, tn__add_axis(c, number, 1), pairs.d),
                               tn__expand(c, tn__add_axis(c, number, 2), pairs.d));
    before = tn__op2(c, OP_OR, before, tn__op2(c, OP_AND, tn__op2(c, OP_EQ, other, own), earlier));
  }
  return tn__along(c, tn__reduce(c, OP_SUM, i32(c, before), &counted, 1), 1);
}

tn_node *tn__with_numbers(tn_ctx *c, tn_node *key, int bits, int dtype) {
  tn__dims shape = tn__dims_of(key);
  key = tn__op2_bits(c, OP_SHL, tn__cast(c, key, dtype), (uint64_t)bits);
  return tn__op2(c, OP_OR, key, tn__cast(c, tn__place(c, &shape, 1), dtype));
}

/* So, of equal ones the first before the others.  Vectors ask words that hold both, all lanes as wide as the counts. */
static tn_node *counted(tn_ctx *c, const tn__keys *k) {
  int bits = tn__bits_below(k->of->dim[1]->hi);
  if (!target_of(c, k->of)->group && k->bits + bits <= WORD_SIZE) /* a choice: either is right */
    return tn__places_by_counting(c, tn__with_numbers(c, k->of, bits, TN_U32), NULL);
  tn__dims shape = tn__dims_of(k->of);
  return tn__places_by_counting(c, k->of, i32(c, tn__place(c, &shape, 1)));
}

/* x as it is to stand in memory, for what asks for it: by a group's tables it is counted in a kernel of its own. */
static tn_node *apart(tn_ctx *c, tn_node *x, way by) {
  return by.is == BY_TABLES ? tn__op1(c, OP_CONTIG, x) : once_flat(c, x);
}

/* Elements in blocks, and how many of each digit there are. */
typedef struct digits {
  tn_node *of;    /* [R, blocks, size]: the digit of each */
  tn_node *count; /* [R, digits, blocks]; where a thread goes along each block, [R, blocks, digits], */
  uint32_t axis;  /* so that digits are along this one */
  int counter;    /* the dtype of sums of these */
} digits;

static tn_node *lowest_digit(tn_ctx *c, tn_node *key, way by) {
  tn_node *digit = tn__cast(c, key, by.bits <= 8 ? TN_U8 : TN_U16); /* short first: how large it may be is known then */
  return tn__op2_bits(c, OP_AND, digit, ((uint64_t)1 << by.bits) - 1);
}

/* The lowest digits of key[R, n], n a multiple of the block */
static digits digits_of(tn_ctx *c, tn_node *key, way by) {
  digits d;
  int64_t last = 3;
  tn_node *size = tn__int(c, by.block);
  d.of = tn__in_blocks(c, lowest_digit(c, key, by), 1, by.block);
  if (!by.runs) d.of = once_flat(c, d.of); /* each asks for all of its block */
  tn_node *const *shape = d.of->dim;
  tn__dims counts = {.rank = 4, .d = {shape[0], shape[1], shape[1], size}};
  d.axis = by.runs ? 2 : 1;
  counts.d[d.axis] = tn__int(c, (int64_t)1 << by.bits);
  tn_node *each = tn__expand(c, tn__add_axis(c, d.of, d.axis), counts.d);
  tn_node *hit = tn__op2(c, OP_EQ, i32(c, each), i32(c, tn__place(c, &counts, d.axis)));
  d.count = apart(c, tn__reduce(c, OP_SUM, i32(c, hit), &last, 1), by);
  bool few = tn__numel(c, key)->hi <= INT32_MAX && tn__numel(c, d.count)->hi <= INT32_MAX;
  d.counter = few ? TN_I32 : TN_I64;
  return d;
}

/* Where in its row the first element of a block goes that has the digit, for each of the counts.  Threads that go along
 * blocks ask for all digits of one, which lie side by side then. */
static tn_node *first_places(tn_ctx *c, const digits *d, way by) {
  int64_t blocks = 1;
  tn_node *count = tn__cast(c, d->count, d->counter);
  if (!by.runs) return apart(c, tn__scan(c, OP_SUM, tn__merge_axes(c, count, 1, 2), 1, true), by);
  tn_node *all = once_flat(c, tn__reduce(c, OP_SUM, count, &blocks, 1)); /* [R, digits] */
  tn_node *of_digit = tn__counts_along(c, all, 1, true);
  if (tn__is_int_const(count->dim[1], 1)) return of_digit;
  tn_node *before = tn__scan(c, OP_SUM, count, 1, true);
  return once_flat(c, tn__add(c, tn__expand(c, tn__add_axis(c, of_digit, 1), count->dim), before));
}

/* Of a number for each digit and block, those of such elements: [R, blocks, size] */
static tn_node *of_digits(tn_ctx *c, const digits *d, tn_node *number, tn_node *digit) {
  tn__dims shape = tn__dims_of(digit);
  tn_node *line = tn__cast(c, tn__place(c, &shape, 0), d->counter);
  tn_node *block = tn__cast(c, tn__place(c, &shape, 1), d->counter);
  tn_node *at[] = {tn__cast(c, digit, d->counter), block};
  for (uint32_t axis = 1; axis < 3; axis++) {
    tn_node *size = tn__scalar_to(c, tn__dim_value(c, d->count->dim[axis], d->counter), shape.d, 3);
    line = tn__add(c, tn__mul(c, line, size), at[axis != d->axis]);
  }
  return tn__gather(c, tn__merge_axes(c, number, 0, number->rank), line);
}

/* How many of its digit come before each in its block: i32[R, blocks, size] */
static tn_node *alike_before(tn_ctx *c, const digits *d, way by) {
  int64_t last = 3;
  tn_node *const *shape = d->of->dim;
  tn__dims pairs = {.rank = 4, .d = {shape[0], shape[1], shape[2], shape[2]}};
  tn_node *own = tn__expand(c, tn__add_axis(c, d->of, 3), pairs.d),
          *other = tn__expand(c, tn__add_axis(c, d->of, 2), pairs.d);
  tn_node *earlier = tn__op2(c, OP_LT, i32(c, tn__place(c, &pairs, 3)), i32(c, tn__place(c, &pairs, 2)));
  tn_node *alike = tn__op2(c, OP_AND, tn__op2(c, OP_EQ, own, other), earlier);
  tn_node *count = tn__reduce(c, OP_SUM, i32(c, alike), &last, 1);
  return by.runs ? count : tn__along(c, count, 2); /* a thread that goes along has no lanes */
}

/* [R, n]: where the lowest digit sends each */
static tn_node *places_by_digit(tn_ctx *c, tn_node *key, way by) {
  digits d = digits_of(c, key, by);
  tn_node *place = of_digits(c, &d, first_places(c, &d, by), d.of);
  place = tn__add(c, place, tn__cast(c, alike_before(c, &d, by), d.counter));
  return tn__first_of(c, tn__merge_axes(c, place, 1, 2), 1, key->dim[1]);
}

/* ---- pass by pass ---- */

/* What goes from pass to pass: keys, and in the bits above them, where there is room, which element has each. */
typedef struct load {
  tn_node *key;    /* [R, n], n a multiple of the block; in the first pass the key alone */
  tn_node *first;  /* ... and what goes on from there */
  int number_from; /* the bit at which it says which element it is */
  tn_node *order;  /* [R, n]: which element, where the key does not say so; NULL: nobody asks */
} load;

static tn_node *masked(tn_ctx *c, tn_node *x, uint64_t mask) { return tn__op2_bits(c, OP_AND, x, mask); }

static tn_node *rotated(tn_ctx *c, tn_node *x, int by) { /* bits that go out below come in above */
  int width = (int)tn__size_of(x->dtype) * 8, down = by % width;
  if (!down) return x;
  tn_node *below = tn__op2_bits(c, OP_SHR, x, (uint64_t)down);
  return tn__op2(c, OP_OR, below, tn__op2_bits(c, OP_SHL, x, (uint64_t)(width - down)));
}

static tn_node *digit_of(tn_ctx *c, tn_node *key) { return tn__cast(c, masked(c, key, WORD_DIGITS - 1), TN_U64); }

/* 1 in the part of a word that is the digit's */
static tn_node *word_of(tn_ctx *c, tn_node *digit) {
  return tn__op2(c, OP_SHL, unsigned_const(c, digit, 1), tn__op2_bits(c, OP_SHL, digit, 2));
}

/* x, its axis 1 filled up to a multiple of this size, by what comes last */
static tn_node *filled_up(tn_ctx *c, tn_node *x, int64_t size) {
  int64_t n;
  if (tn__const_int(x->dim[1], &n) && n % size == 0) return x;
  return tn__op1(c, OP_NOT, tn__merge_axes(c, tn__in_blocks(c, tn__op1(c, OP_NOT, x), 1, size), 1, 2));
}

/* Of word[R, n / HALF]: its blocks, of each digit of a parity alone, in parts of 8 bits: [R, blocks, halves] */
static tn_node *wide_words(tn_ctx *c, tn_node *word, int odd) {
  const uint64_t every_other = 0x0f0f0f0f0f0f0f0f;
  tn_node *blocks = tn__in_blocks(c, word, 1, 2 * NEAR_OF_BLOCK);
  return masked(c, tn__op2_bits(c, OP_SHR, blocks, odd ? WORD_BITS : 0), every_other);
}

/* How many come in each block: [R, blocks] */
static tn_node *words_of_blocks(tn_ctx *c, tn_node *word, int odd) {
  int64_t last = 2;
  return tn__op1(c, OP_CONTIG, tn__reduce(c, OP_SUM, wide_words(c, word, odd), &last, 1));
}

/* ... and before each NEAR of it: [R, n / NEAR, and what fills the last block] */
static tn_node *words_before(tn_ctx *c, tn_node *word, int odd) {
  int64_t last = 3;
  tn_node *wide = wide_words(c, word, odd);
  tn__dims pairs = {.rank = 4, .d = {wide->dim[0], wide->dim[1], tn__int(c, NEAR_OF_BLOCK), wide->dim[2]}};
  tn_node *each = tn__expand(c, tn__add_axis(c, wide, 2), pairs.d);
  tn_node *begin = tn__op2_num(c, OP_MUL, tn__place(c, &pairs, 2), 2);
  tn_node *is_before = tn__op2(c, OP_LT, tn__place(c, &pairs, 3), begin);
  each = tn__where(c, is_before, each, unsigned_const(c, each, 0));
  return tn__op1(c, OP_CONTIG, tn__merge_axes(c, tn__reduce(c, OP_SUM, each, &last, 1), 1, 2));
}

/* The part of such words that is the digit's */
static tn_node *part_of(tn_ctx *c, tn_node *const *words, tn_node *digit) {
  tn_node *is_odd = tn__op2(c, OP_NE, masked(c, digit, 1), unsigned_const(c, digit, 0));
  tn_node *word = tn__where(c, is_odd, words[1], words[0]), *even = masked(c, digit, WORD_DIGITS - 2);
  return masked(c, tn__op2(c, OP_SHR, word, tn__op2_bits(c, OP_SHL, even, 2)), 255);
}

/* [R, digits * blocks]: where the first element of a block that has the digit goes */
static tn_node *first_of_blocks(tn_ctx *c, tn_node *word, int counter) {
  tn_node *all[] = {words_of_blocks(c, word, 0), words_of_blocks(c, word, 1)};
  tn__dims counts = {.rank = 3, .d = {all[0]->dim[0], tn__int(c, WORD_DIGITS), all[0]->dim[1]}};
  for (int odd = 0; odd < 2; odd++) all[odd] = tn__expand(c, tn__add_axis(c, all[odd], 1), counts.d);
  tn_node *count = part_of(c, all, tn__cast(c, tn__place(c, &counts, 1), TN_U64));
  count = tn__merge_axes(c, tn__cast(c, count, counter), 1, 2);
  return tn__op1(c, OP_CONTIG, tn__scan(c, OP_SUM, count, 1, true));
}

/* [R, n]: where the lowest digit sends each */
static tn_node *places_by_words(tn_ctx *c, tn_node *key, int counter) {
  int64_t last = 2;
  tn_node *word = tn__reduce(c, OP_SUM, word_of(c, digit_of(c, tn__in_blocks(c, key, 1, HALF))), &last, 1);
  word = tn__op1(c, OP_CONTIG, word);
  tn_node *first = first_of_blocks(c, word, counter), *before[2];
  tn_node *digit = digit_of(c, tn__in_blocks(c, key, 1, NEAR)), *own = word_of(c, digit); /* [R, nears, NEAR] */
  for (int odd = 0; odd < 2; odd++) {
    tn_node *all = tn__first_of(c, words_before(c, word, odd), 1, digit->dim[1]);
    before[odd] = tn__expand(c, tn__add_axis(c, all, 2), digit->dim);
  }
  tn_node *of_block = part_of(c, before, digit);
  tn_node *near = tn__op2(c, OP_SHR, tn__within_blocks(c, OP_SUM, own, 2, true), tn__op2_bits(c, OP_SHL, digit, 2));
  near = masked(c, near, WORD_DIGITS - 1);

  tn__dims shape = tn__dims_of(digit);
  tn_node *blocks = tn__op2(c, OP_IDIV, first->dim[1], tn__int(c, WORD_DIGITS));
  tn_node *count = tn__scalar_to(c, tn__dim_value(c, blocks, TN_I64), shape.d, 3);
  tn_node *line = tn__op2_num(c, OP_MUL, tn__place(c, &shape, 0), WORD_DIGITS);
  line = tn__mul(c, tn__add(c, line, tn__cast(c, digit, TN_I64)), count);
  line = tn__add(c, line, tn__op2(c, OP_IDIV, tn__place(c, &shape, 1), tn__literal_like(c, line, NEAR_OF_BLOCK)));
  tn_node *place = tn__gather(c, tn__merge_axes(c, first, 0, 2), line);
  place = tn__add(c, place, tn__cast(c, tn__add(c, of_block, near), counter));
  return tn__first_of(c, tn__merge_axes(c, place, 1, 2), 1, key->dim[1]);
}

/* ---- by tables, block by block put in order first ----
 *
 * The elements of a block go to as many runs of memory as there are digits, and neighbours to different ones.  In order
 * of their digit they go to the same one, so that memory is written in whole sectors. */

static tn_node *in_blocks_of(tn_ctx *c, tn_node *x, const tn_node *blocks) {
  return tn__reshape(c, x, blocks->dim, blocks->rank);
}

/* The 32 bits from `bit` on of unsigned x[R, blocks, size], each at its place in the block */
static tn_node *word_at_place(tn_ctx *c, tn_node *x, tn_node *place, int bit) {
  int64_t last = 3;
  tn__dims pairs = {.rank = 4, .d = {x->dim[0], x->dim[1], x->dim[2], x->dim[2]}};
  tn_node *goes_to = masked(c, place, (uint64_t)place->dim[2]->hi - 1); /* blocks are of a power of two elements */
  goes_to = i32(c, tn__expand(c, tn__add_axis(c, goes_to, 2), pairs.d));
  tn_node *here = tn__op2(c, OP_EQ, goes_to, i32(c, tn__place(c, &pairs, 2)));
  x = tn__expand(c, tn__add_axis(c, x, 2), pairs.d);
  x = tn__where(c, here, x, unsigned_const(c, x, 0));
  if (bit) x = tn__op2_bits(c, OP_SHR, x, (uint64_t)bit);
  return tn__reduce(c, OP_SUM, tn__cast(c, x, TN_U32), &last, 1);
}

/* x[R, n] with each element at its place in its block: [R, blocks, size] */
static tn_node *exchanged(tn_ctx *c, tn_node *x, tn_node *place) {
  int dtype = x->dtype, as = tn__size_of(dtype) == sizeof(uint64_t) ? TN_U64 : TN_U32;
  x = tn__cast(c, in_blocks_of(c, x, place), as);
  tn_node *word = word_at_place(c, x, place, 0);
  if (as == TN_U64) {
    tn_node *high = tn__cast(c, word_at_place(c, x, place, WORD_SIZE), as);
    word = tn__op2(c, OP_OR, tn__op2_bits(c, OP_SHL, high, WORD_SIZE), tn__cast(c, word, as));
  }
  return tn__cast(c, word, dtype);
}

/* x[R, blocks, size], stored as it goes on: [R, n] */
static tn_node *stored_flat(tn_ctx *c, tn_node *x) { return tn__op1(c, OP_CONTIG, tn__merge_axes(c, x, 1, 2)); }

static tn_node *i64(tn_ctx *c, tn_node *x) { return tn__cast(c, x, TN_I64); }

/* [R * digits * blocks + 1]: where, among all rows, the first element of a block goes that has the digit, and where
 * what comes behind all would */
static tn_node *starts_of(tn_ctx *c, const digits *d) {
  tn_node *all = tn__merge_axes(c, tn__cast(c, d->count, d->counter), 0, 3);
  tn_node *end[] = {tn__int(c, 0), tn__int(c, 1)};
  return tn__op1(c, OP_SPANS, tn__scan(c, OP_SUM, tn__pad(c, all, end), 0, true));
}

/* One pass, of what goes on with its blocks in order: neighbours then mostly go to neighbouring places.  A place is in
 * the span of its digit and block, so that it need not be stored to be known to be the only such one; where there are
 * two arrays to go there that two kernels send, it is.  A group whose threads count in step finds the places in the
 * block, and goes on at once, with each element of one array, or of both, loaded once. */
static void pass_by_exchange(tn_ctx *c, load *x, way by) {
  digits d = digits_of(c, x->key, by);
  tn_node *lower = tn__op1(c, OP_CONTIG, tn__scan(c, OP_SUM, d.count, 1, true)); /* of lower digits in the block */
  tn_node *place = tn__add(c, of_digits(c, &d, lower, d.of), alike_before(c, &d, by));
  bool at_once = tn__target_ranks(target_of(c, x->key), by.block, TN__MOST_EXCHANGED);
  if (!at_once) place = tn__op1(c, OP_CONTIG, tn__cast(c, place, TN_U16));
  tn_node *key = exchanged(c, x->first, place);
  if (x->order && !at_once) key = in_blocks_of(c, stored_flat(c, key), place);
  tn_node *digit = lowest_digit(c, key, by);
  tn__dims shape = tn__dims_of(digit);
  tn_node *within = tn__sub(c, tn__place(c, &shape, 2), i64(c, of_digits(c, &d, lower, digit)));
  tn_node *to = tn__add(c, i64(c, of_digits(c, &d, starts_of(c, &d), digit)), within);
  if (x->order && !at_once) to = tn__cast(c, to, d.counter);
  to = tn__op1(c, OP_PERMUTATION, tn__merge_axes(c, to, 0, 3));
  key = rotated(c, key, by.bits);
  x->first = x->key = tn__placed(c, tn__merge_axes(c, key, 1, 2), to);
  if (!x->order) return;
  tn_node *order = exchanged(c, x->order, place);
  x->order = tn__placed(c, at_once ? tn__merge_axes(c, order, 1, 2) : stored_flat(c, order), to);
}

static int words_of(const tn_node *x) { return !x ? 0 : tn__size_of(x->dtype) == sizeof(uint64_t) ? 2 : 1; }

/* Are blocks put in order before they go on? */
/* a choice: either is right */
static bool is_exchanged(const tn__target *t, const load *x, way by) {
  return by.is == BY_TABLES && tn__target_exchanges(t, by.block, words_of(x->first) + words_of(x->order));
}

/* Sorted by all bits of the key.  Each digit in turn comes to be the lowest, so that passes are the same kernels. */
static void sort_by_passes(tn_ctx *c, load *x, int bits, way by) {
  int counter = tn__numel(c, x->key)->hi <= INT32_MAX ? TN_I32 : TN_I64, bit = 0;
  bool by_exchange = is_exchanged(target_of(c, x->key), x, by);
  for (; bit < bits; bit += by.bits) {
    if (by.is == BY_DIGITS && by.bits > bits - bit) by.bits = bits - bit; /* any number of them, but no more */
    if (by_exchange) {
      pass_by_exchange(c, x, by);
      continue;
    }
    tn_node *in_row = by.is == BY_WORDS ? places_by_words(c, x->key, counter) : places_by_digit(c, x->key, by);
    tn_node *places = tn__places_of(c, in_row, in_row->dtype);
    x->first = x->key = tn__placed(c, rotated(c, x->first, by.bits), places);
    if (x->order) x->order = tn__placed(c, x->order, places);
  }
  int width = (int)tn__size_of(x->key->dtype) * 8;
  x->key = rotated(c, x->key, width - bit % width);
}

int tn__bits_below(int64_t n) {
  int bits = 1;
  while (bits < 63 && n >> bits) bits++;
  return bits;
}

/* Do keys, which go on with their numbers in one word, serve the two kernels of the first pass without being stored? */
/* a choice: either is right */
static bool serve_as_they_are(const tn__target *t, const tn__keys *k, way by) {
  return k->along && by.is == BY_TABLES && tn__target_ranks(t, by.block, TN__MOST_EXCHANGED);
}

/* What goes on with each key, in one word or beside it: unsigned numbers of so many bits */
typedef struct beside {
  tn_node *of; /* [R, n]; NULL: nothing */
  int bits;
} beside;

/* Which element of all rows each is, as few bits as there is room for */
static beside numbers_of(tn_ctx *c, const tn__keys *k) {
  tn_node *count = tn__numel(c, k->of);
  return (beside){tn__reshape(c, tn__iota(c, count), k->of->dim, 2), tn__bits_below(count->hi)};
}

/* ... of keys: whole digits, but by digits of any number of bits */
static int passed_bits(const tn__keys *k, way by) {
  return by.is == BY_DIGITS ? k->bits : (k->bits + by.bits - 1) / by.bits * by.bits;
}

/* Keys of R rows, and what goes with them */
static load load_of(tn_ctx *c, tn__keys k, way by, beside with) {
  int key_bits = passed_bits(&k, by), all = key_bits + with.bits;
  load x = {.key = filled_up(c, k.of, by.block)};
  bool in_one = !with.of || all <= 64;
  if (!in_one || !serve_as_they_are(target_of(c, k.of), &k, by)) x.key = tn__op1(c, OP_CONTIG, x.key);
  x.first = x.key;
  if (!with.of) return x;
  tn_node *number = filled_up(c, with.of, by.block);
  if (all > 64) {
    x.order = tn__cast(c, number, with.bits < 32 ? TN_I32 : TN_I64);
    return x;
  }
  int as = all <= 32 ? TN_U32 : TN_U64;
  x.first = tn__op2_bits(c, OP_SHL, tn__cast(c, number, as), (uint64_t)key_bits);
  x.first = tn__op2(c, OP_OR, x.first, tn__cast(c, x.key, as));
  x.number_from = key_bits;
  return x;
}

/* What goes with each, in order */
static tn_node *sorted_by_passes(tn_ctx *c, tn__keys k, way by, beside with, tn_node **sorted) {
  tn_node *n = k.of->dim[1];
  load x = load_of(c, k, by, with);
  sort_by_passes(c, &x, k.bits, by);
  tn_node *key = tn__first_of(c, x.key, 1, n);
  tn_node *of_key = x.order ? key : masked(c, key, ((uint64_t)1 << x.number_from) - 1);
  if (sorted) *sorted = tn__merge_axes(c, tn__cast(c, of_key, k.of->dtype), 0, 2);
  return x.order ? tn__first_of(c, x.order, 1, n) : tn__op2_bits(c, OP_SHR, key, (uint64_t)x.number_from);
}

/* ---- by merges ---- */

/* Keys [R, n] in order; number: NULL, or where to say which element of its row each is, [R, n] */
static tn_node *sorted_by_merges(tn_ctx *c, tn__keys k, tn__merges by, tn_node **number) {
  int64_t m = tn__merged_length(by);
  tn_node *n = k.of->dim[1], *key = filled_up(c, k.of, m);
  tn__dims shape = tn__dims_of(key);
  int number_bits = tn__bits_below(m - 1), all = k.bits + number_bits;
  tn__merged x = {.distinct = number && all <= 64};
  if (x.distinct)
    key = tn__with_numbers(c, key, number_bits, all <= 32 ? TN_U32 : TN_U64);
  else if (number)
    x.order = tn__cast(c, tn__place(c, &shape, 1), m <= INT32_MAX ? TN_I32 : TN_I64);
  x.key = tn__op1(c, OP_CONTIG, key);
  tn__merge_rows(c, by, &x);
  key = tn__first_of(c, x.key, 1, n);
  if (number) *number = x.distinct ? masked(c, key, ((uint64_t)1 << number_bits) - 1) : tn__first_of(c, x.order, 1, n);
  return x.distinct ? tn__op2_bits(c, OP_SHR, key, (uint64_t)number_bits) : key;
}

/* ---- either way ---- */

/* How rows of sizes that are known, or bounds, are sorted */
static way way_of(tn_ctx *c, const tn_node *x, const tn__keys *k, bool numbered) {
  const tn__target *t = target_of(c, x);
  double work;
  return way_to_sort(t, sizes_of(t, x), k->bits, numbered, &work);
}

/* The keys alone; NULL: that is not quicker */
static tn_node *sorted_alone(tn_ctx *c, const tn__keys *k, way by) {
  if (by.is == BY_MERGES) return sorted_by_merges(c, *k, by.merges, NULL);
  if (!goes_by_passes(by)) return NULL;
  load l = load_of(c, *k, by, (beside){0});
  sort_by_passes(c, &l, k->bits, by);
  return tn__first_of(c, l.key, 1, k->of->dim[1]);
}

/* Is it quicker to look for the first 0 and NaN than to say of each which element it is? */
/* a choice: either is right */
static bool spares_numbers(const tn__target *t, double n, int bits) {
  double moves = NUMBER_MOVES * ceil((double)bits / TABLE_BITS) + ORDER_MOVES - FIRST_MOVES;
  return n * moves * fmax((double)t->balance, 1) > FIRST_LAUNCHES * launch_work(t, !t->group);
}

tn_node *tn__sorted_keys(tn_ctx *c, tn_node *x) {
  tn__keys k = tn__keys_of(c, x, false);
  if (!spares_numbers(target_of(c, x), (double)x->dim[1]->hi, k.bits)) return NULL;
  way by = way_of(c, x, &k, false);
  if (goes_by_passes(by)) { /* NaN fills it up: then keys are made of what stands in memory, wherever they are wanted */
    tn_node *whole = filled_up(c, tn__bitcast(c, tn__op1(c, OP_DETACH, once(c, x)), as_bits(x->dtype)), by.block);
    k.of = tn__keys_in_passing(c, tn__bitcast(c, whole, x->dtype), false).of;
  }
  tn_node *sorted = sorted_alone(c, &k, by);
  return sorted ? tn__first_of(c, sorted, 1, x->dim[1]) : NULL;
}

tn_node *tn__sorted_integers(tn_ctx *c, tn_node *x, bool down) {
  if (!tn__is_int(x->dtype) && x->dtype != TN_BOOL) return NULL;
  tn__keys k = tn__keys_of(c, x, down);
  tn_node *sorted = sorted_alone(c, &k, way_of(c, x, &k, false));
  return sorted ? integer_of(c, &k, sorted, x->dtype) : NULL;
}

/* Of x[n], the first element where `is` holds, for as many as are asked for; 0 if there is none */
static tn_node *first_where(tn_ctx *c, tn_node *x, tn_node *is, const tn_node *of) {
  int64_t along = 0;
  tn__dims line = tn__dims_of(x);
  tn_node *at = tn__place(c, &line, 0), *end = tn__scalar_to(c, tn__dim_value(c, line.d[0], TN_I64), line.d, 1);
  if (line.d[0]->hi <= INT32_MAX) at = i32(c, at), end = i32(c, end);
  at = tn__reduce(c, OP_RMIN, tn__where(c, is, at, end), &along, 1);
  return tn__scalar_to(c, tn__op1(c, OP_CONTIG, tn__gather(c, x, at)), of->dim, of->rank);
}

/* Each bit of what is neither 0 nor NaN is in its key. */
tn_node *tn__first_of_keys(tn_ctx *c, tn_node *x, tn_node *key) {
  uint64_t sign = (uint64_t)1 << (tn__size_of(x->dtype) * 8 - 1), all = sign | (sign - 1);
  x = tn__op1(c, OP_DETACH, tn__merge_axes(c, once(c, x), 0, 2));
  tn_node *top = unsigned_const(c, key, sign), *zero = tn__literal_like(c, x, 0);
  tn_node *above = tn__op2(c, OP_NE, tn__op2(c, OP_AND, key, top), unsigned_const(c, key, 0));
  tn_node *value = tn__where(c, above, tn__op2(c, OP_XOR, key, top), tn__op1(c, OP_NOT, key));
  value = tn__bitcast(c, value, x->dtype);
  value = tn__where(c, tn__op2(c, OP_EQ, key, top), first_where(c, x, tn__op2(c, OP_EQ, x, zero), key), value);
  tn_node *nan = first_where(c, x, tn__op2(c, OP_NE, x, x), key);
  return tn__where(c, tn__op2(c, OP_EQ, key, unsigned_const(c, key, all)), nan, value);
}

/* Which element of all rows stands at each place, by counting: [R, n] */
static tn_node *order_of(tn_ctx *c, tn__keys k) {
  tn__dims shape = tn__dims_of(k.of);
  tn_node *count = tn__mul(c, shape.d[0], shape.d[1]), *order = tn__iota(c, count);
  order = tn__reshape(c, count->hi <= INT32_MAX ? i32(c, order) : order, shape.d, 2);
  return tn__placed(c, order, tn__places_of(c, counted(c, &k), TN_I64));
}

tn_node *tn__sorted(tn_ctx *c, tn_node *x, bool down, tn_node **sorted) {
  tn__keys k = tn__keys_of(c, x, down);
  way by = way_of(c, x, &k, true);
  tn_node *order;
  if (by.is == BY_MERGES) {
    tn_node *key = sorted_by_merges(c, k, by.merges, &order);
    if (sorted) *sorted = tn__merge_axes(c, tn__cast(c, key, k.of->dtype), 0, 2);
    return tn__places_of(c, order, tn__numel(c, x)->hi <= INT32_MAX ? TN_I32 : TN_I64);
  }
  order = goes_by_passes(by) ? sorted_by_passes(c, k, by, numbers_of(c, &k), sorted) : order_of(c, k);
  order = tn__op1(c, OP_PERMUTATION, tn__merge_axes(c, tn__cast(c, order, TN_I64), 0, 2));
  if (sorted && !goes_by_passes(by)) *sorted = tn__gather(c, tn__merge_axes(c, k.of, 0, 2), order);
  return order;
}

/* Keys of so many bits: may others of so many go with them, instead of numbers? */
static bool takes_along(int key_bits, way by, int bits) {
  return goes_by_passes(by) && passed_bits(&(tn__keys){.bits = key_bits}, by) + bits <= 64;
}

bool tn__sort_takes_along(const tn__target *t, double rows, double n, int key_bits, int bits) {
  double work;
  sizes of = {rows, n, .merges = true, .known = true};
  return takes_along(key_bits, way_to_sort(t, of, key_bits, true, &work), bits);
}

tn_node *tn__sorted_along(tn_ctx *c, tn_node *x, tn_node *along, tn_node **sorted) {
  tn__keys k = tn__keys_of(c, x, false);
  way by = way_of(c, x, &k, true);
  int bits = 8 * (int)tn__size_of(along->dtype), as = as_bits(along->dtype);
  if (!takes_along(k.bits, by, bits)) return NULL;
  beside with = {tn__bitcast(c, along, as), bits};
  return tn__bitcast(c, tn__cast(c, sorted_by_passes(c, k, by, with, sorted), as), along->dtype);
}

tn_node *tn__sorted_order(tn_ctx *c, tn_node *x, bool down) { return tn__sorted(c, x, down, NULL); }

/* ---- the public functions ---- */

typedef struct rows {
  tn_node *of;    /* [R, n] */
  tn__dims shape; /* with the axis last */
  uint32_t axis;
} rows;

static rows rows_of(tn_ctx *c, tn_node *x, int axis) {
  if (!x->rank) tn__fail(c, TN_ESHAPE, "a scalar has no axis to sort along");
  rows r = {.axis = tn__axis(c, axis, x->rank)};
  x = tn__move_axis(c, x, r.axis, x->rank - 1u);
  r.shape = tn__dims_of(x);
  r.of = tn__merge_axes(c, x, 0, x->rank - 1u);
  return r;
}

/* [R, n] -> in the shape of the operand, n of it along the axis */
static tn_node *rows_back(tn_ctx *c, const rows *r, tn_node *x) {
  tn__dims shape = r->shape;
  shape.d[shape.rank - 1] = x->dim[1];
  return tn__move_axis(c, tn__reshape(c, x, shape.d, shape.rank), shape.rank - 1, r->axis);
}

static tn_node *sorted_values(tn_ctx *c, const rows *r, tn_node *order) {
  return tn__reshape(c, tn__gather(c, tn__merge_axes(c, r->of, 0, 2), order), r->of->dim, 2);
}

static tn_node *sorted_places(tn_ctx *c, const rows *r, tn_node *order) {
  tn__dims shape = tn__dims_of(r->of);
  order = tn__cast(c, tn__reshape(c, order, shape.d, 2), TN_I64);
  tn_node *size = tn__scalar_to(c, tn__dim_value(c, r->of->dim[1], TN_I64), shape.d, 2);
  return tn__sub(c, order, tn__mul(c, tn__place(c, &shape, 0), size));
}

enum { VALUES, PLACES };

/* Element j of each row of x[R, n], for all places of the row */
static tn_node *nth_of_rows(tn_ctx *c, tn_node *x, int64_t j) {
  tn_node *begin[] = {tn__int(c, 0), tn__int(c, j)}, *size[] = {x->dim[0], tn__int(c, 1)};
  return tn__expand(c, tn__shrink(c, x, begin, size, NULL), x->dim);
}

/* Which of x[R, n] goes to each place of its row, where in_row tells these: each place asks all, which are few, as
 * quickly as it would fetch one.  It is no sum of them, which might give a NaN other bits. */
static tn_node *asked_for(tn_ctx *c, tn_node *x, tn_node *in_row, int64_t n) {
  tn__dims shape = tn__dims_of(x);
  tn_node *own = i32(c, tn__place(c, &shape, 1)), *found = nth_of_rows(c, x, n - 1);
  for (int64_t j = n - 1; j--;)
    found = tn__where(c, tn__op2(c, OP_EQ, nth_of_rows(c, in_row, j), own), nth_of_rows(c, x, j), found);
  return found;
}

/* On devices of groups: of short rows each element goes to its place at once, or its number does, or, of the shortest,
 * each place asks for it; of merged ones the numbers are there.  NULL: that is not how it is done. */
static tn_node *sorted_at_once(tn_ctx *c, tn_node *x, bool down, bool values) {
  tn__keys k = tn__keys_of(c, x, down);
  way by = way_of(c, x, &k, true);
  tn_node *number;
  if (by.is == BY_MERGES && !values) {
    sorted_by_merges(c, k, by.merges, &number);
    return tn__cast(c, number, TN_I64);
  }
  if (!target_of(c, x)->group || by.is != BY_COUNTING) return NULL;
  tn__dims shape = tn__dims_of(x);
  tn_node *sent = values ? x : tn__place(c, &shape, 1), *in_row = counted(c, &k);
  int64_t n;
  if (tn__const_int(shape.d[1], &n) && n <= MOST_ASKED) return asked_for(c, sent, in_row, n);
  return tn__placed(c, sent, tn__places_of(c, in_row, TN_I64));
}

/* The first `some` of rows of known sizes, where that takes less than sorting them all; NULL: that is not how it is
 * done. */
static tn_node *first_rows(tn_ctx *c, const tn__call *k, const rows *r, const tn_node *some) {
  int64_t first, count, n;
  if (!tn__const_int(some, &first) || !tn__const_int(r->of->dim[0], &count) || !tn__const_int(r->of->dim[1], &n))
    return NULL;
  if (!first || !count) return NULL;
  const tn__target *t = target_of(c, r->of);
  tn__keys keys = tn__keys_of(c, r->of, k->i[2] != 0);
  double sorting;
  way_to_sort(t, sizes_of(t, r->of), keys.bits, true, &sorting);
  tn_node *places = tn__first_places(c, &keys, first, sorting);
  if (!places || k->i[0] == PLACES) return places ? rows_back(c, r, places) : NULL;
  tn__dims shape = tn__dims_of(places);
  tn_node *size = tn__scalar_to(c, tn__dim_value(c, r->of->dim[1], TN_I64), shape.d, 2);
  tn_node *at = tn__add(c, tn__mul(c, tn__place(c, &shape, 0), size), places);
  return rows_back(c, r, tn__gather(c, tn__merge_axes(c, r->of, 0, 2), tn__op1(c, OP_CONTIG, at)));
}

/* The first `some` of the sorted rows; NULL: all */
static tn_node *sorted_rows(tn_ctx *c, const tn__call *k, tn_node *some) { /* i: VALUES or PLACES, axis, descending */
  tn__want(c, k->x[0], TN__C_ANY);
  rows r = rows_of(c, k->x[0], (int)k->i[1]);
  if (some && tn__sub(c, some, r.of->dim[1])->lo > 0)
    tn__fail(c, TN_ESHAPE, "%s has fewer than %s elements along axis %d", tn__text(c, k->x[0]),
             tn__dims_text(c, &some, 1), (int)r.axis);
  if (r.of->dim[1]->hi <= 1) { /* as it stands */
    tn_node *sorted = k->i[0] == VALUES ? r.of : tn__scalar_to(c, tn__const_num(c, TN_I64, 0), r.of->dim, 2);
    return rows_back(c, &r, some ? tn__first_of(c, sorted, 1, some) : sorted);
  }
  tn_node *found = some ? first_rows(c, k, &r, some) : NULL;
  if (found) return found;
  tn_node *integers = k->i[0] == VALUES && !some ? tn__sorted_integers(c, r.of, k->i[2] != 0) : NULL;
  if (integers) return rows_back(c, &r, integers);
  tn_node *at_once = some ? NULL : sorted_at_once(c, r.of, k->i[2] != 0, k->i[0] == VALUES);
  if (at_once) return rows_back(c, &r, at_once);
  tn_node *order = tn__sorted_order(c, r.of, k->i[2] != 0);
  tn_node *sorted = k->i[0] == VALUES ? sorted_values(c, &r, order) : sorted_places(c, &r, order);
  return rows_back(c, &r, some ? tn__first_of(c, sorted, 1, some) : sorted);
}

static tn_node *sort(tn_ctx *c, tn__call *k) {
  return sorted_rows(c, k, NULL);
}

static tn_node *topk(tn_ctx *c, tn__call *k) { /* p: NULL if a result has nowhere to go; i[3]: how many */
  if (!k->p) tn__fail(c, TN_EINVAL, "there is no place for the result: values or places is NULL");
  return sorted_rows(c, k, tn__dim_in(c, k->i[3]));
}

/* ---- searching ---- */

/* Is x before y, NaN being the greatest? */
static tn_node *comes_before(tn_ctx *c, tn_node *x, tn_node *y) {
  tn_node *less = tn__op2(c, OP_LT, x, y);
  if (!tn__is_float(x->dtype)) return less;
  tn_node *last = tn__op2(c, OP_AND, tn__op2(c, OP_EQ, x, x), tn__op2(c, OP_NE, y, y));
  return tn__op2(c, OP_OR, less, last);
}

/* Halving steps, from the greatest power of two within n on. */
tn_node *tn__places_in(tn_ctx *c, tn_node *sorted, tn_node *values, bool right) {
  tn_node *n = sorted->dim[0], *all = tn__dim_value(c, n, TN_I64);
  tn__dims shape = tn__dims_of(values);
  tn_node *place = tn__scalar_to(c, tn__const_num(c, TN_I64, 0), shape.d, shape.rank);
  tn_node *end = tn__scalar_to(c, all, shape.d, shape.rank);
  int64_t step = 1;
  while (step <= n->hi / 2) step *= 2;
  for (; step && n->hi > 0; step /= 2) {
    tn_node *next = tn__op2_num(c, OP_ADD, place, (double)step);
    tn_node *x = tn__gather(c, sorted, tn__op2_num(c, OP_ADD, next, -1));
    tn_node *passes = right ? tn__op1(c, OP_NOT, comes_before(c, values, x)) : comes_before(c, x, values);
    place = tn__where(c, tn__op2(c, OP_AND, tn__op2(c, OP_LE, next, end), passes), next, place);
  }
  return place;
}

static tn_node *searchsorted(tn_ctx *c, tn__call *k) { /* i: right */
  tn_node *x[2] = {k->x[0], k->x[1]};
  for (int i = 0; i < 2; i++) tn__want(c, x[i], TN__C_ANY);
  if (x[0]->rank != 1) tn__fail(c, TN_ESHAPE, "what is searched has one axis, unlike %s", tn__text(c, x[0]));
  tn__promote(c, x, 2);
  return tn__places_in(c, x[0], x[1], k->i[0] != 0);
}

static tn_node *bincount(tn_ctx *c, tn__call *k) { /* i: classes */
  tn_node *idx = k->x[0], *classes = tn__dim_in(c, k->i[0]), *count;
  if (!tn__is_int(idx->dtype)) tn__fail(c, TN_EDTYPE, "what is counted are integers, not %s", tn__text(c, idx));
  count = tn__numel(c, idx);
  int counter = count->hi <= INT32_MAX ? TN_I32 : TN_I64;
  tn_node *none = tn__scalar_to(c, tn__const_num(c, counter, 0), &classes, 1),
          *one = tn__scalar_to(c, tn__const_num(c, counter, 1), &count, 1);
  return tn__cast(c, tn__scatter(c, none, tn__reshape(c, idx, &count, 1), one), TN_I64);
}

tn_tensor *tn_sort(tn_tensor *t, int axis, bool descending) {
  return tn__build(&(tn__call){.name = "tn_sort", .fn = sort, .in = &t, .nin = 1, .i = {VALUES, axis, descending}});
}
tn_tensor *tn_argsort(tn_tensor *t, int axis, bool descending) {
  return tn__build(&(tn__call){.name = "tn_argsort", .fn = sort, .in = &t, .nin = 1, .i = {PLACES, axis, descending}});
}
tn_status tn_topk(tn_tensor *t, tn_dim k, int axis, bool largest, tn_tensor **values, tn_tensor **places) {
  tn_tensor **out[2] = {[VALUES] = values, [PLACES] = places};
  tn__call call = {.name = "tn_topk", .fn = topk, .in = &t, .nin = 1, .i = {0, axis, largest, k}};
  call.p = values && places ? out : NULL;
  return tn__do_each(&call, out, 2);
}
tn_tensor *tn_searchsorted(tn_tensor *sorted, tn_tensor *values, bool right) {
  tn_tensor *in[2] = {sorted, values};
  return tn__build(&(tn__call){.name = "tn_searchsorted", .fn = searchsorted, .in = in, .nin = 2, .i = {right}});
}
tn_tensor *tn_bincount(tn_tensor *idx, tn_dim classes) {
  return tn__build(&(tn__call){.name = "tn_bincount", .fn = bincount, .in = &idx, .nin = 1, .i = {classes}});
}
