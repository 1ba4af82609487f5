/* Where the extremes are: argmax and argmin.
 *
 * The extreme of a row is found, then the first element that equals it, which reads the row twice: from where it is
 * kept, if it is short.  A long row is cut into blocks: of the blocks' extremes the first that is the row's tells the
 * block, and only that one is read again.  Which way is taken has no influence on the result.
 * On devices with work groups many columns beside each other are read but once, each by a thread, however long they
 * are: an element's key, and behind it its place, are a word, and the least of these has the place. */
#include "tensor/argmax.h"
#include "device/device.h"
#include "ir/eval.h"
#include "tensor/scan.h"
#include "tensor/sort.h"

enum {
  LONG_ROW = 1 << 14, /* elements, more than are kept on chip, */
  BLOCK = 1 << 12,    /* and of a block of one */
  LEAST_ROW = 16,     /* whose words are compared, */
  MANY_COLUMNS = 1 << 13,
  SOME_LAUNCHES = 4
};

/* Which elements of x are its row's extreme?  If there is a NaN, it is, and equals nothing. */
static tn_node *hits(tn_ctx *c, tn_node *x, tn_node *best) {
  tn_node *hit = tn__bcast2(c, OP_EQ, x, best);
  return tn__is_float(x->dtype) ? tn__op2(c, OP_OR, hit, tn__op2(c, OP_NE, x, x)) : hit;
}

/* The least of places[..] where hit[..], along an axis, which stays; one is hit.  32 bits hold places of most tensors,
 * twice as many in a vector. */
static tn_node *first_place(tn_ctx *c, tn_node *hit, tn_node *places, int64_t axis) {
  bool fits = places->lo >= 0 && places->hi < INT32_MAX;
  if (fits) places = tn__cast(c, places, TN_I32);
  tn_node *most = tn__const_bits(c, places->dtype, fits ? INT32_MAX : INT64_MAX);
  tn_node *never = tn__scalar_to(c, most, places->dim, places->rank);
  return tn__cast(c, tn__reduce_keep(c, OP_RMIN, tn__where(c, hit, places, never), &axis, 1, true), TN_I64);
}

static tn_node *i64_like(tn_ctx *c, const tn_node *x, tn_node *size) {
  return tn__scalar_to(c, tn__dim_value(c, size, TN_I64), x->dim, x->rank);
}

/* x[A, n, B] -> [A, blocks, BLOCK, B], what is beyond the end as the reduction's unit */
static tn_node *in_whole_blocks(tn_ctx *c, tn__op op, tn_node *x, int64_t size) {
  tn_node *n = x->dim[1], *rows = tn__in_blocks(c, x, 1, size);
  tn__dims shape = tn__dims_of(rows);
  tn_node *at = tn__op2_num(c, OP_MUL, tn__place(c, &shape, 1), (double)size);
  at = tn__add(c, at, tn__place(c, &shape, 2));
  tn_node *unit = tn__const_bits(c, x->dtype, tn__eval_reduce_init(tn__ops[op].combine, x->dtype));
  return tn__where(c, tn__op2(c, OP_LT, at, i64_like(c, at, n)), rows, tn__scalar_to(c, unit, shape.d, shape.rank));
}

/* Bits of a word that holds an element's key and its place; 0: there are none of so many, or rows are better kept: such
 * as lie along memory, as are too few for the device's threads, or are read in the time of some launches. */
/* a choice: 0 is right */
static int word_bits(tn_ctx *c, const tn_node *x, int *place_bits) {
  const tn__target *t = &tn__device_get(c, x->device < 0 ? 0 : x->device)->target;
  double n = (double)x->dim[1]->lo, columns = (double)x->dim[0]->lo * (double)x->dim[2]->lo;
  int key = 8 * (int)tn__size_of(x->dtype);
  if (!t->group || n < LEAST_ROW || x->dim[1]->hi > UINT32_MAX || x->dim[2]->lo < t->subgroup) return 0;
  if (columns < MANY_COLUMNS || columns * n * key / 8 < SOME_LAUNCHES * tn__target_launch_bytes(t)) return 0;
  *place_bits = tn__bits_below(x->dim[1]->hi - 1);
  return key + *place_bits <= 32 ? 32 : key + *place_bits <= 64 ? 64 : 0;
}

/* By words, of which the lowest bits are the place.  A NaN goes before all else, whichever extreme is asked for. */
static tn_node *place_by_words(tn_ctx *c, tn__op op, tn_node *x, int bits, int place_bits) {
  int64_t row = 1;
  int dtype = bits > 32 ? TN_U64 : TN_U32;
  tn__dims shape = tn__dims_of(x);
  tn_node *key = tn__keys_in_passing(c, x, op == OP_RMAX).of;
  if (tn__is_float(x->dtype) && op == OP_RMIN) {
    tn_node *nan = tn__op2(c, OP_NE, x, x), *first = tn__const_bits(c, key->dtype, 0);
    key = tn__where(c, nan, tn__scalar_to(c, first, shape.d, shape.rank), key);
  }
  tn_node *word = tn__op2_bits(c, OP_SHL, tn__cast(c, key, dtype), (uint64_t)place_bits);
  word = tn__op2(c, OP_OR, word, tn__cast(c, tn__place(c, &shape, 1), dtype));
  word = tn__reduce_keep(c, OP_RMIN, word, &row, 1, true);
  return tn__cast(c, tn__op2_bits(c, OP_AND, word, ((uint64_t)1 << place_bits) - 1), TN_I64);
}

tn_node *tn__place_along(tn_ctx *c, tn__op op, tn_node *x) {
  int64_t row = 1, inner = 2;
  tn_node *n = x->dim[1];
  tn__dims shape = tn__dims_of(x);
  if (tn__is_int_const(n, 1)) return tn__scalar_to(c, tn__const_num(c, TN_I64, 0), shape.d, shape.rank);
  int place_bits, bits = word_bits(c, x, &place_bits);
  if (bits) return place_by_words(c, op, x, bits, place_bits);
  if (n->hi <= LONG_ROW)
    return first_place(c, hits(c, x, tn__reduce_keep(c, op, x, &row, 1, true)), tn__place(c, &shape, 1), 1);

  tn_node *least = tn__reduce(c, op, in_whole_blocks(c, op, x, BLOCK), &inner, 1); /* [A, blocks, B] */
  tn_node *best = tn__reduce_keep(c, op, least, &row, 1, true);
  tn_node *block = tn__place_along(c, op, least); /* [A, 1, B] */

  shape.d[1] = tn__int(c, BLOCK); /* elements of that block, the last one of the row once more beyond its end */
  tn_node *first = tn__expand(c, tn__op2_num(c, OP_MUL, block, BLOCK), shape.d);
  tn_node *last = tn__op2_num(c, OP_ADD, i64_like(c, first, n), -1);
  tn_node *at = tn__op2(c, OP_MIN, tn__add(c, first, tn__place(c, &shape, 1)), last);
  tn_node *line = tn__add(c, tn__mul(c, tn__place(c, &shape, 0), i64_like(c, at, n)), at);
  line = tn__add(c, tn__mul(c, line, i64_like(c, at, shape.d[2])), tn__place(c, &shape, 2));
  tn_node *near = tn__gather(c, tn__merge_axes(c, x, 0, 3), line);
  return first_place(c, hits(c, near, best), at, 1);
}

static tn_node *place_of(tn_ctx *c, tn__call *k) { /* i[1]: keepdim, i[2]: RMAX or RMIN, i[3]: axis */
  tn_node *x = k->x[0];
  int64_t axis = tn__axis(c, (int)k->i[3], x->rank);
  if (tn__is_empty(x, &axis, 1))
    tn__fail(c, TN_ESHAPE, "nothing to choose from along axis %d of %s", (int)axis, tn__text(c, x));
  x = tn__not_empty(c, x, &axis, 1);
  tn__dims shape = tn__dims_of(x);
  shape.d[axis] = tn__int(c, 1);
  uint32_t at = (uint32_t)axis;
  x = tn__merge_axes(c, tn__merge_axes(c, x, at + 1, x->rank - at - 1u), 0, at);
  tn_node *place = tn__reshape(c, tn__place_along(c, (tn__op)k->i[2], x), shape.d, shape.rank);
  return k->i[1] ? place : tn__drop_axis(c, place, at);
}

#define PLACE(name_, op)                                                                                               \
  tn_tensor *name_(tn_tensor *t, int axis, bool keepdim) {                                                             \
    return tn__build(&(tn__call){.name = #name_, .fn = place_of, .in = &t, .nin = 1, .i = {0, keepdim, op,             \
        axis}});                                                                                                       \
  }
PLACE(tn_argmax, OP_RMAX)
PLACE(tn_argmin, OP_RMIN)
