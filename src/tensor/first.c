/* The first few of each row, found by a tree of blocks.
 *
 * The elements of a row are its lowest level; of each block of a level the least one is an element of the level above.
 * An element goes before another if its key is less, or is the same and its place is.  The first `some` elements of a
 * level lie in the blocks of the first `some` of the level above: a block that is not one of those has as many before
 * it, each with an element that goes before all of its own.  So the highest level, which is short, is asked for its
 * first ones, then their blocks of the level below, and so on down: each candidate counts those that go before it,
 * which is its place.  A row is read once; all else are a few small kernels.
 *
 * Where a word holds a key and its place, such words are compared, so that what is the least also says where it is.
 * Then any elements may be a block: on processors, those that lie as far apart as there are blocks, so that blocks lie
 * side by side for vectors.
 * What fills a row up to whole blocks has the last of all keys, and places behind all others.  Which tree is taken has
 * no influence on the result. */
#include "tensor/first.h"
#include "device/device.h"
#include "tensor/argmax.h"
#include "tensor/scan.h"
#include <math.h>

enum {
  UP_KERNELS = 1,   /* of a level: that makes it, */
  DOWN_KERNELS = 3, /* and that gather candidates, count those before each, and place them */
  MOST_BITS = 12,   /* of a place in its block, */
  APART_BITS = 2,   /* and where its elements lie apart: each is a line of memory of its own, and few are foreseen */
  MOST_LEVELS = 64
};
static const double MOST_ELEMENTS = 0x1p62; /* of a level, so that their numbers are counted */

/* What an element takes beside what is asked of it, in multiply-adds: one that is read for its block's least, one that
 * is counted in its row, and one that is a candidate, which is fetched from where it is in its row before that. */
typedef struct steps {
  double read, counted, candidate;
} steps;
static const steps STEPS_OF_GROUPS = {TN__PASS_STEPS, TN__PASS_STEPS, TN__PASS_STEPS}, STEPS_OF_VECTORS = {8, 20, 77};

/* Levels above the lowest one, and of how many bits a place in a block is. */
typedef struct tree {
  int levels, bits;
} tree;

static int64_t blocks_of(int64_t n, int bits) { return (n >> bits) + ((n & (((int64_t)1 << bits) - 1)) != 0); }

/* The tree that takes the least work, which is *work, where asking an element takes so much. */
/* a choice: any is right */
static tree best_tree(const tn__target *t, double rows, int64_t n, int64_t some, double ask, double *work) {
  double launch = tn__sort_launch(t), count = (double)n * (double)n;
  steps step = t->group ? STEPS_OF_GROUPS : STEPS_OF_VECTORS;
  int most_bits = t->group ? MOST_BITS : APART_BITS;
  tree best = {0};
  *work = DOWN_KERNELS * launch + rows * (count * ask + (double)n * step.counted);
  for (int bits = 1; bits <= most_bits; bits++) {
    double candidates = ldexp((double)some, bits), read = 0;
    double down = candidates * candidates * ask + candidates * step.candidate;
    int64_t length = n;
    for (int levels = 1; (length - 1) >> bits >= some; levels++) {
      read += (double)length * step.read;
      length = blocks_of(length, bits);
      double top = (double)length * (double)length * ask + (double)length * step.counted;
      double all = launch * (levels * (UP_KERNELS + DOWN_KERNELS) + DOWN_KERNELS) + rows * (read + levels * down + top);
      if (all < *work) *work = all, best = (tree){levels, bits};
    }
  }
  return best;
}

/* What is compared: a key, and the number of its element in the row, which tells equal keys apart. */
typedef struct form {
  int dtype;       /* of keys, or of words that hold a number in their lowest bits */
  int number_bits; /* so many; 0: there is no room for it */
  int number;      /* dtype of numbers */
  bool apart;      /* a block's elements are so many apart as there are blocks, and not neighbours */
} form;

static form form_of(const tn__keys *k, int64_t rows, int64_t padded) {
  int bits = tn__bits_below(padded - 1), all = k->bits + bits;
  form f = {k->of->dtype, 0, (double)rows * (double)padded <= INT32_MAX ? TN_I32 : TN_I64, false};
  if (all <= 64) f.number_bits = bits, f.dtype = all <= 32 ? TN_U32 : TN_U64;
  return f;
}

/* a choice: any is right */
static double ask_of(const tn__target *t, form f) {
  double words = (double)tn__size_of(f.dtype) / sizeof(uint32_t);
  return t->group ? tn__sort_ask(t) * words : tn__ask_of_vectors((int)tn__size_of(f.dtype) * 8, f.number_bits > 0);
}

static uint64_t ones(int bits) { return bits < 64 ? ((uint64_t)1 << bits) - 1 : UINT64_MAX; }

/* keys[R, n] -> the lowest level [R, padded] */
static tn_node *lowest(tn_ctx *c, const tn__keys *k, form f, int64_t padded) {
  tn_node *zero = tn__int(c, 0), *more = tn__sub(c, tn__int(c, padded), k->of->dim[1]);
  tn_node *last = tn__op2_bits(c, OP_XOR, k->of, ones(k->bits)); /* pads are zeros */
  tn_node *key = tn__op2_bits(c, OP_XOR, tn__pad(c, last, (tn_node *[]){zero, zero, zero, more}), ones(k->bits));
  return f.number_bits ? tn__with_numbers(c, key, f.number_bits, f.dtype) : key;
}

/* The level above: of each block the least */
static tn_node *level_above(tn_ctx *c, form f, tn_node *level, int bits) {
  int64_t within = f.apart ? 1 : 2;
  tn__dims into = {.rank = 2};
  into.d[within - 1] = tn__int(c, (int64_t)1 << bits);
  into.d[2 - within] = tn__int(c, level->dim[1]->lo >> bits);
  return tn__op1(c, OP_CONTIG, tn__reduce(c, OP_RMIN, tn__split_axis(c, level, 1, &into), &within, 1));
}

/* The first `some` of elements [R, m] in order: words, or numbers where words do not hold them. */
static tn_node *first_of(tn_ctx *c, form f, tn_node *key, tn_node *number, tn_node *some) {
  tn_node *places = tn__places_of(c, tn__places_by_counting(c, key, number), f.number);
  return tn__first_of(c, tn__placed(c, number ? number : key, places), 1, some);
}

/* Which element of its row at a level of so many each of those is: so many bits tell those of the lowest level below it
 * apart */
static tn_node *number_at(tn_ctx *c, form f, tn_node *x, int bits_below, const tn_node *level) {
  if (!f.number_bits) return x;
  x = tn__op2_bits(c, OP_AND, x, ones(f.number_bits));
  if (!f.apart) return tn__cast(c, tn__op2_bits(c, OP_SHR, x, (uint64_t)bits_below), f.number);
  x = tn__cast(c, x, f.number);
  return bits_below ? tn__op2_bits(c, OP_MOD, x, (uint64_t)level->dim[1]->lo) : x;
}

/* first[R, some] of the level above -> the numbers of all that are in their blocks: [R, some, block] */
static tn_node *candidates(tn_ctx *c, form f, tn_node *first, int bits, const tn_node *above) {
  tn__dims all = {.rank = 3, .d = {first->dim[0], first->dim[1], tn__int(c, (int64_t)1 << bits)}};
  if (!f.apart) first = tn__op2_bits(c, OP_SHL, first, (uint64_t)bits);
  tn_node *from = tn__expand(c, tn__add_axis(c, first, 2), all.d);
  tn_node *within = tn__cast(c, tn__place(c, &all, 2), first->dtype);
  if (f.apart) within = tn__op2_bits(c, OP_MUL, within, (uint64_t)above->dim[1]->lo);
  return tn__add(c, from, within);
}

/* level[R, m] at such numbers of each row: [R, some * block].  It is stored in other loops than those that count it. */
static tn_node *elements_at(tn_ctx *c, tn_node *level, tn_node *number) {
  tn__dims shape = tn__dims_of(number);
  tn_node *size = tn__scalar_to(c, tn__dim_value(c, level->dim[1], number->dtype), shape.d, shape.rank);
  tn_node *row = tn__mul(c, tn__cast(c, tn__place(c, &shape, 0), number->dtype), size);
  tn_node *of = tn__op1(c, OP_CONTIG, tn__gather(c, tn__merge_axes(c, level, 0, 2), tn__add(c, row, number)));
  return tn__merge_axes(c, of, 1, 2);
}

/* By a tree, of some < n */
static tn_node *first_by(tn_ctx *c, const tn__keys *k, int64_t some, tree by) {
  int all = by.levels * by.bits;
  int64_t padded = blocks_of(k->of->dim[1]->lo, all) << all;
  form f = form_of(k, k->of->dim[0]->lo, padded);
  f.apart = f.number_bits && !tn__device_get(c, k->of->device < 0 ? 0 : k->of->device)->target.group;
  tn_node *level[MOST_LEVELS + 1] = {lowest(c, k, f, padded)}, *count = tn__int(c, some);
  for (int i = 0; i < by.levels; i++) level[i + 1] = level_above(c, f, level[i], by.bits);
  tn__dims shape = tn__dims_of(level[by.levels]);
  tn_node *number = tn__cast(c, tn__place(c, &shape, 1), f.number), *top = tn__op1(c, OP_CONTIG, level[by.levels]);
  tn_node *first = first_of(c, f, top, f.number_bits ? NULL : number, count);
  for (int i = by.levels; i && i--;) {
    number = number_at(c, f, first, (i + 1) * by.bits, level[i + 1]);
    number = candidates(c, f, number, by.bits, level[i + 1]);
    tn_node *element = elements_at(c, level[i], number);
    first = first_of(c, f, element, f.number_bits ? NULL : tn__merge_axes(c, number, 1, 2), count);
  }
  return tn__cast(c, number_at(c, f, first, 0, level[0]), TN_I64);
}

tn_node *tn__first_places(tn_ctx *c, const tn__keys *k, int64_t some, double most_work) {
  double work;
  if (some == 1) return tn__merge_axes(c, tn__place_along(c, OP_RMIN, tn__add_axis(c, k->of, 2)), 1, 2);
  const tn__target *t = &tn__device_get(c, k->of->device < 0 ? 0 : k->of->device)->target;
  int64_t n = k->of->dim[1]->lo;
  tree by = best_tree(t, (double)k->of->dim[0]->lo, n, some, ask_of(t, form_of(k, k->of->dim[0]->lo, n)), &work);
  double whole = ldexp(1, by.levels * by.bits), padded = ceil((double)n / whole) * whole * (double)k->of->dim[0]->lo;
  return work < most_work && padded < MOST_ELEMENTS ? first_by(c, k, some, by) : NULL;
}
