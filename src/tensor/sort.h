/* Sorting and searching, for compositions. */
#ifndef TN_TENSOR_SORT_H
#define TN_TENSOR_SORT_H
#include "device/target.h"
#include "tensor/operands.h"

/* x[R, n] -> [R * n], i32 or i64: which element of all rows stands at each place of the sorted ones, a permutation.
 * Equal ones keep their order.  Of integers whose interval says that few bits are set few digits are looked at. */
tn_node *tn__sorted_order(tn_ctx *c, tn_node *x, bool down);
/* ... and *sorted, unless it is NULL: [R * n] what stands there, as unsigned integers that are in the order of x's
 * elements, and equal where those are: NaN and NaN, -0 and 0, too */
tn_node *tn__sorted(tn_ctx *c, tn_node *x, bool down, tn_node **sorted);
/* ... or along[R, n] in that order, [R, n], bit by bit, where that goes from pass to pass with the keys, instead of
 * which element it is; NULL: it does not. */
tn_node *tn__sorted_along(tn_ctx *c, tn_node *x, tn_node *along, tn_node **sorted);
/* Does what has so many bits? */
bool tn__sort_takes_along(const tn__target *t, double rows, double n, int key_bits, int bits);
/* x[1, n] of floats -> its keys alone in order, [1, n]; NULL: that is not quicker */
tn_node *tn__sorted_keys(tn_ctx *c, tn_node *x);
/* x[1, n] of floats, and keys of some of its elements, not downwards: for each the first element of x that has the key,
 * bit by bit, without its gradient */
tn_node *tn__first_of_keys(tn_ctx *c, tn_node *x, tn_node *key);
/* x[R, n] -> its rows in order, of integers alone, where their keys say what they are; NULL: that is not quicker. */
tn_node *tn__sorted_integers(tn_ctx *c, tn_node *x, bool down);
/* Bits that numbers up to n take */
int tn__bits_below(int64_t n);
/* What sorting takes, of keys of so many bits: in multiply-adds of the whole device */
double tn__sort_work(const tn__target *t, double rows, double n, int bits);
/* What it is made of, in the same: a launch, and asking one element of 32 bits whether it goes before another.  An
 * element is in a pass for the time of so many, beside what is asked of it. */
double tn__sort_launch(const tn__target *t);
double tn__sort_ask(const tn__target *t);
enum { TN__PASS_STEPS = 32 };
/* ... on processors, which ask by vectors, an element of so many bits, where these alone say what comes first, or the
 * number beside it does, too */
double tn__ask_of_vectors(int bits, bool alone);

/* Unsigned integers in whose order a row is to be sorted: bit by bit what the order of its elements is.  NaN comes
 * last, behind +inf, and -0 equals 0; downwards all is the other way round, so NaN comes first. */
typedef struct tn__keys {
  tn_node *of;   /* the row's axis is the last */
  int bits;      /* no higher one is set */
  uint64_t flip; /* of integers: the bits that differ from those of the element */
  bool along;    /* what they are made of lies in memory as they do */
} tn__keys;
tn__keys tn__keys_of(tn_ctx *c, tn_node *x, bool down);
/* ... where each element is asked for its key but once: x is not stored for it, and may be of any shape */
tn__keys tn__keys_in_passing(tn_ctx *c, tn_node *x, bool down);
/* keys[R, n] -> words of such a dtype: which of its row each is in so many bits, its key above them */
tn_node *tn__with_numbers(tn_ctx *c, tn_node *key, int bits, int dtype);
/* keys[R, n] -> i32[R, n]: how many of its row go before each: those whose key is less, or is the same and their number
 * is.  number: NULL, if no two keys of a row are the same. */
tn_node *tn__places_by_counting(tn_ctx *c, tn_node *key, tn_node *number);
/* places[R, n] within rows -> places in all rows, as a permutation [R * n] of this dtype */
tn_node *tn__places_of(tn_ctx *c, tn_node *in_row, int dtype);
/* x[R, n] with each element at its place */
tn_node *tn__placed(tn_ctx *c, tn_node *x, tn_node *places);

/* How many of sorted[n] come before each value, those that equal it among them (right) or not: i64 of values' shape. */
tn_node *tn__places_in(tn_ctx *c, tn_node *sorted, tn_node *values, bool right);
#endif
