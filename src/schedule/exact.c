/* Sums by index of f16, which are multiples of 2^-24 below 2^16: as whole numbers of these units.  What is no finite
 * number is none of them: which places infinities of either sign go to, two bits of each place say, and NaN sets both,
 * which is what becomes of both infinities, too. */
#include "rewrite/rewrite.h"
#include "schedule/fixed.h"
#include "tensor/operands.h"
#include "tensor/sort.h"
#include <math.h>

enum {
  WORD = 63, /* bits of a word without its sign */
  OTHERS = 32 / TN__OTHERS_WORD,
  ABOVE = 1,
  BELOW = 2
};

/* Sums of updates, each below 2^40 units, are below 2^63. */
bool tn__is_exact_in_words(int64_t updates) { return tn__bits_below(updates) + TN__F16_BITS <= WORD; }

tn_node *tn__is_finite(tn_ctx *c, tn_node *x) {
  return tn__op2(c, OP_LT, tn__op1(c, OP_ABS, x), tn__literal_like(c, x, INFINITY));
}

/* How far up in a word the bits of each of these places are */
static tn_node *shift_of(tn_ctx *c, tn_node *at) {
  tn_node *among = tn__op2_bits(c, OP_AND, tn__cast(c, at, TN_U32), TN__OTHERS_WORD - 1);
  return tn__op2_bits(c, OP_MUL, among, OTHERS);
}

tn_node *tn__exact_others(tn_ctx *c, const tn_node *places, tn_node *idx, tn_node *upd) {
  tn_node *words = tn__int(c, (places->hi + TN__OTHERS_WORD - 1) / TN__OTHERS_WORD);
  tn_node *none = tn__literal_like(c, idx, -1);
  tn_node *at = tn__op2(c, OP_IDIV, idx, tn__literal_like(c, idx, TN__OTHERS_WORD));
  at = tn__where(c, tn__are_places(c, idx, places), at, none);
  at = tn__where(c, tn__is_finite(c, upd), none, at);
  tn_node *shift = shift_of(c, idx), *below = tn__op2(c, OP_LT, upd, tn__literal_like(c, upd, 0));
  tn_node *bits = tn__where(c, below, tn__literal_like(c, shift, BELOW), tn__literal_like(c, shift, ABOVE));
  bits = tn__where(c, tn__op2(c, OP_NE, upd, upd), tn__literal_like(c, shift, ABOVE | BELOW), bits);
  tn_node *set = tn__scalar_to(c, tn__const_bits(c, TN_U32, 0), &words, 1);
  return tn__scatter_by(c, OP_OR, set, at, tn__op2(c, OP_SHL, bits, shift));
}

tn_node *tn__exact_others_of(tn_ctx *c, tn_node *others, tn_node *places) {
  tn__dims line = {.rank = 1, .d = {places}};
  tn_node *word = tn__words_of_places(c, others, TN__OTHERS_WORD, places);
  word = tn__op2(c, OP_SHR, word, shift_of(c, tn__place(c, &line, 0)));
  return tn__op2_bits(c, OP_AND, word, ABOVE | BELOW);
}

tn_node *tn__exact_units(tn_ctx *c, tn_node *upd) {
  tn_node *units = tn__op2_num(c, OP_MUL, upd, ldexp(1, -TN__F16_LOWEST));
  return tn__where(c, tn__is_finite(c, upd), units, tn__literal_like(c, upd, 0));
}

tn_node *tn__exact_floats(tn_ctx *c, tn_node *words, tn_node *others) {
  tn_node *sum = tn__op2_num(c, OP_MUL, tn__cast(c, words, TN_F32), ldexp(1, TN__F16_LOWEST));
  tn_node *none = tn__literal_like(c, others, 0), *nought = tn__literal_like(c, sum, 0);
  tn_node *above = tn__op2(c, OP_NE, tn__op2_bits(c, OP_AND, others, ABOVE), none);
  tn_node *below = tn__op2(c, OP_NE, tn__op2_bits(c, OP_AND, others, BELOW), none);
  above = tn__where(c, above, tn__literal_like(c, sum, INFINITY), nought);
  below = tn__where(c, below, tn__literal_like(c, sum, -INFINITY), nought);
  return tn__where(c, tn__op2(c, OP_NE, others, none), tn__op2(c, OP_ADD, above, below), sum);
}
