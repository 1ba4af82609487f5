/* Few updates beside many places: only places that some update goes to have words for their sums.  A bit for each place
 * says whether it is one, set by all updates at once, in words of as many places as these have bits.  How many bits are
 * set before each word is a running sum, and with those below its own bit a place has a rank among those that have
 * some, which is below the number of updates.  So a scatter to many places becomes one to no more places than it has
 * updates, whatever its sums are made of (fixed.c, scaled.c): what is cleared, and added to anywhere, is as long as the
 * updates are, mostly within the cache that units share, and so are the bits.  Places that look for their sums in the
 * end go through these in order. */
#include "rewrite/rewrite.h"
#include "schedule/fixed.h"
#include "schedule/ordered.h"
#include "tensor/scan.h"

enum {
  BITS = 32,         /* of a word of bits */
  RANK_LAUNCHES = 6, /* bits are cleared, set, and counted by two kernels; ranks may be stored, and sums are */
  RANK_STEPS = 25,   /* multiply-adds in the time that a place works its rank out: 12 of them count bits */
  RANK_MOVES = 8     /* f32 of an update: its place is read for its bit and its rank; that is stored, and its sum */
};

/* In multiply-adds, beside what sums of no more places than updates take.  Words of bits are cleared, read to be
 * counted, and once more to be stored with the counts, 3 f32 of which are read. */
/* a choice: any is right */
double tn__ranks_work(const tn__target *t, double places, double updates) {
  double words = places / BITS, set = tn__somewhere(t, words, true), looked = tn__somewhere(t, 2 * words, false);
  double moved = 7 * words + (RANK_MOVES + set + looked) * updates;
  return RANK_LAUNCHES * TN__CHAINED * tn__target_launch_guess(t) + tn__move_work(t) * moved + RANK_STEPS * places;
}

/* x & bits, of whole numbers */
static tn_node *masked(tn_ctx *c, tn_node *x, uint64_t bits) {
  return tn__op2_bits(c, OP_AND, x, bits);
}

/* How many bits of x[...] of u32 are set: by pairs, fours and bytes, whose sum a product has in its highest one */
static tn_node *bits_of(tn_ctx *c, tn_node *x) {
  x = tn__sub(c, x, masked(c, tn__op2_bits(c, OP_SHR, x, 1), 0x55555555));
  x = tn__add(c, masked(c, x, 0x33333333), masked(c, tn__op2_bits(c, OP_SHR, x, 2), 0x33333333));
  x = masked(c, tn__add(c, x, tn__op2_bits(c, OP_SHR, x, 4)), 0x0f0f0f0f);
  return tn__op2_bits(c, OP_SHR, tn__op2_bits(c, OP_MUL, x, 0x01010101), 24);
}

/* A one at the place of its word, of numbers that say which it is */
static tn_node *bit_of(tn_ctx *c, tn_node *at) {
  tn_node *by = masked(c, tn__cast(c, at, TN_U32), BITS - 1);
  return tn__op2(c, OP_SHL, tn__literal_like(c, by, 1), by);
}

tn_node *tn__ranks_of(tn_ctx *c, const tn_node *places, tn_node *idx) {
  tn_node *words = tn__int(c, (places->hi + BITS - 1) / BITS), *none = tn__literal_like(c, idx, -1);
  tn_node *at = tn__op2(c, OP_IDIV, idx, tn__literal_like(c, idx, BITS));
  at = tn__where(c, tn__are_places(c, idx, places), at, none);
  tn_node *set = tn__scalar_to(c, tn__const_bits(c, TN_U32, 0), &words, 1);
  set = tn__scatter_by(c, OP_OR, set, at, bit_of(c, idx));
  tn_node *before = tn__scan(c, OP_SUM, tn__cast(c, bits_of(c, set), TN_I32), 0, true);
  before = tn__op2_bits(c, OP_SHL, tn__cast(c, before, TN_U64), BITS);
  return tn__op1(c, OP_CONTIG, tn__op2(c, OP_OR, before, tn__cast(c, set, TN_U64)));
}

/* The rank of places that have that bit of that word; -1: it is not set */
static tn_node *rank_in(tn_ctx *c, tn_node *word, tn_node *bit) {
  tn_node *set = tn__cast(c, word, TN_U32), *before = tn__cast(c, tn__op2_bits(c, OP_SHR, word, BITS), TN_I32);
  tn_node *below = bits_of(c, tn__op2(c, OP_AND, set, tn__op2_bits(c, OP_ADD, bit, UINT32_MAX)));
  tn_node *rank = tn__add(c, before, tn__cast(c, below, TN_I32));
  tn_node *is_set = tn__op2(c, OP_NE, tn__op2(c, OP_AND, set, bit), tn__literal_like(c, bit, 0));
  return tn__where(c, is_set, rank, tn__literal_like(c, rank, -1));
}

tn_node *tn__ranks_at(tn_ctx *c, tn_node *ranks, tn_node *idx) {
  /* a place below 0 is in no word, one beyond all is in none, or has no bit */
  tn_node *none = tn__literal_like(c, idx, -1), *inside = tn__op2(c, OP_LE, tn__literal_like(c, idx, 0), idx);
  tn_node *at = tn__where(c, inside, tn__op2(c, OP_IDIV, idx, tn__literal_like(c, idx, BITS)), none);
  return rank_in(c, tn__gather(c, ranks, at), bit_of(c, idx));
}

tn_node *tn__are_places(tn_ctx *c, tn_node *idx, const tn_node *places) {
  return tn__op2(c, OP_AND, tn__op2(c, OP_LE, tn__literal_like(c, idx, 0), idx),
                 tn__op2(c, OP_LT, idx, tn__literal_like(c, idx, (double)places->hi)));
}

tn_node *tn__words_of_places(tn_ctx *c, tn_node *words, int64_t each, tn_node *places) {
  tn_node *dims[] = {words->dim[0], tn__int(c, each)};
  words = tn__merge_axes(c, tn__expand(c, tn__add_axis(c, words, 1), dims), 0, 2);
  return tn__first_of(c, words, 0, places);
}

tn_node *tn__ranks_of_places(tn_ctx *c, tn_node *ranks, tn_node *places) {
  tn__dims line = {.rank = 1, .d = {places}};
  return rank_in(c, tn__words_of_places(c, ranks, BITS, places), bit_of(c, tn__place(c, &line, 0)));
}
