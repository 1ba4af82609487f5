/* Sums by index in fixed point: in whole numbers, which are the same in any order, so that all updates are added at
 * once, and no two runs differ.  They are exact until they become floats again.
 *
 * Each place has a row of digits, signed numbers of 64 bits, as long as the range of the floats: digit d counts units
 * of 2^(lowest + d * width).  A number is added to one digit, or, where it lies across the border of two, its upper
 * part to one and its lower part to the one below.  A digit is below 2^width in each update, and there is room above it
 * for the sum of all.  Numbers of f16 are few enough for one digit: multiples of 2^-24 below 2^16.
 *
 * What is no finite number is counted in one more word, infinities of each sign in a half of it, NaN in both: no sum
 * of digits is looked at there, and infinities of both signs are NaN, as in a sum of floats.
 *
 * The words of all places lie digit by digit, so that neighbours load neighbours, and most updates meet in few of
 * them. */
#include "schedule/fixed.h"
#include "rewrite/rewrite.h"
#include "tensor/sort.h"
#include <math.h>

enum {
  WORD = 63,         /* bits of a word without its sign */
  F32_LOWEST = -149, /* so of f32, and of bf16, which may be kept in f32 */
  F32_BITS = 277,
  F32_DIGITS = 24,        /* of a number: it lies across one border at most, */
  USUAL = 5,              /* and usual ones, which are below 2^5 and not much smaller, across none, if that can be */
  F32_SHIFT = 23,         /* where the exponent stands, which is one of */
  HALF = 32,              /* where the second half of a word of counts begins: */
  NAN_SHIFT = 9,          /* NaN counts 2^32 + 2^9, which is an f32, */
  MOST_UPDATES = 1 << 22, /* which no more than so many times stays in its half */
  FIXED_LAUNCHES = 3      /* words are cleared, added to, made floats */
};
static const double F16_MOST = 65504;

/* How sums of so many updates stand in words */
static bool form_of(int dtype, int64_t updates, tn__fixed *f) {
  int room = WORD - tn__bits_below(updates);
  if (updates < 1 || updates > MOST_UPDATES) return false;
  if (dtype == TN_F16 && room >= TN__F16_BITS) {
    *f = (tn__fixed){.digits = 1, .width = TN__F16_BITS, .lowest = TN__F16_LOWEST};
    return true;
  }
  *f = (tn__fixed){.digits = (F32_BITS + room - 1) / room, .width = room, .lowest = F32_LOWEST};
  int unused = f->digits * room - F32_BITS, below = (USUAL - F32_LOWEST) % room, wanted = below ? room - below : 0;
  if (wanted <= unused) f->lowest -= wanted;
  return true;
}

bool tn__fixed_form(const tn__target *t, const tn_node *n, tn__fixed *f) {
  const tn_node *upd = n->src[2];
  int64_t places, updates = 1;
  if (!(t->adds & sizeof(int64_t)) || n->rank != 1 || !tn__const_int(n->dim[0], &places) || places < 1) return false;
  for (uint32_t i = 0; i < upd->rank; i++)
    if (__builtin_mul_overflow(updates, upd->dim[i]->hi, &updates)) return false;
  while (upd->op == OP_RESHAPE) upd = upd->src[0];
  if (upd->op == OP_CAST && upd->src[0]->dtype == TN_F16) upd = upd->src[0];
  bool is_short = upd->dtype == TN_F16 || upd->dtype == TN_BF16 || upd->dtype == TN_F32;
  return is_short && n->dtype != TN_F64 && form_of(upd->dtype, updates, f);
}

/* Words are cleared and read; an update is read, with its place, and added to a digit somewhere, mostly the same one,
 * seldom also to that below. */
/* a choice: any is right */
double tn__fixed_work(const tn__target *t, const tn__fixed *f, double places, double updates) {
  double move = t->balance > 0 ? (double)t->balance : 1, words = f->digits + 1, adds = f->digits > 1 ? 4. / 3 : 1;
  double update = 3 + adds * tn__somewhere(t, 2 * places, true);
  return FIXED_LAUNCHES * TN__CHAINED * tn__target_launch_guess(t) + move * (4 * words * places + update * updates);
}

static tn_node *power_like(tn_ctx *c, tn_node *x, int exponent) {
  return tn__literal_like(c, x, ldexp(1, exponent));
}

/* What is added of each update, and to which of its place's words; -1: nothing is */
typedef struct part {
  tn_node *value, *word;
} part;

tn_node *tn__power_of(tn_ctx *c, tn_node *by) {
  tn_node *bits = tn__op2_num(c, OP_ADD, by, TN__EXPONENT_BIAS);
  return tn__bitcast(c, tn__op2(c, OP_SHL, bits, tn__literal_like(c, bits, F32_SHIFT)), TN_F32);
}

tn_node *tn__exponent_of(tn_ctx *c, tn_node *x) {
  tn_node *bits = tn__bitcast(c, x, TN_I32), *exponent = tn__op2(c, OP_SHR, bits, tn__literal_like(c, bits, F32_SHIFT));
  exponent = tn__op2(c, OP_AND, exponent, tn__literal_like(c, bits, TN__EXPONENT_NONE));
  exponent = tn__op2(c, OP_MAX, exponent, tn__literal_like(c, bits, 1));
  return tn__op2(c, OP_MIN, exponent, tn__literal_like(c, bits, TN__EXPONENT_NONE - 1));
}

/* Two parts of finite x[n]: that of the digit in which its first bit is, and what is below */
static void in_two(tn_ctx *c, const tn__fixed *f, tn_node *x, part *upper, part *lower) {
  tn_node *exponent = tn__exponent_of(c, x);
  tn_node *first = tn__op2_num(c, OP_ADD, exponent, F32_DIGITS - 2 + F32_LOWEST - f->lowest);
  tn_node *digit = tn__op2(c, OP_IDIV, first, tn__literal_like(c, first, f->width));
  tn_node *by = tn__op2_num(c, OP_ADD, tn__op2_num(c, OP_MUL, digit, -f->width), -f->lowest);
  tn_node *half = tn__op2(c, OP_SHR, by, tn__literal_like(c, by, 1)); /* the whole is no exponent of f32 */
  tn_node *rest = tn__op2(c, OP_ADD, by, tn__op2_num(c, OP_MUL, half, -1));
  tn_node *units = tn__op2(c, OP_MUL, tn__op2(c, OP_MUL, x, tn__power_of(c, half)), tn__power_of(c, rest));
  tn_node *lowest = tn__op2(c, OP_EQ, digit, tn__literal_like(c, digit, 0)), *nothing = tn__literal_like(c, digit, -1);
  upper->value = tn__where(c, lowest, units, tn__op1(c, OP_TRUNC, units)); /* there all are whole */
  upper->word = digit;
  tn_node *left = tn__op2(c, OP_ADD, units, tn__op1(c, OP_NEG, upper->value));
  lower->value = tn__op2(c, OP_MUL, left, power_like(c, left, f->width));
  tn_node *is_any = tn__op2(c, OP_NE, left, tn__literal_like(c, left, 0));
  lower->word = tn__where(c, is_any, tn__op2_num(c, OP_ADD, digit, -1), nothing);
}

tn_node *tn__count_of(tn_ctx *c, tn_node *x) {
  tn_node *below = tn__op2(c, OP_LT, x, tn__literal_like(c, x, 0));
  tn_node *count = tn__where(c, below, power_like(c, x, HALF), power_like(c, x, 0));
  return tn__where(c, tn__op2(c, OP_NE, x, x), tn__literal_like(c, x, ldexp(1, HALF) + ldexp(1, NAN_SHIFT)), count);
}

/* Of x[n]: what is no finite number instead, which is counted in the word behind the digits */
static void count_others(tn_ctx *c, const tn__fixed *f, tn_node *x, part *upper, part *lower) {
  tn_node *size = tn__op1(c, OP_ABS, x), *is_finite;
  if (f->digits == 1) is_finite = tn__op2(c, OP_LE, size, tn__literal_like(c, x, F16_MOST));
  else is_finite = tn__op2(c, OP_LT, size, tn__literal_like(c, x, INFINITY));
  upper->value = tn__where(c, is_finite, upper->value, tn__count_of(c, x));
  upper->word = tn__where(c, is_finite, upper->word, tn__literal_like(c, upper->word, f->digits));
  if (lower) lower->word = tn__where(c, is_finite, lower->word, tn__literal_like(c, lower->word, -1));
}

/* Where the word of each update is; idx[n]: its place, -1: none */
static tn_node *at_word(tn_ctx *c, tn_node *idx, tn_node *word, int64_t places) {
  tn_node *none = tn__literal_like(c, idx, -1), *zero = tn__literal_like(c, idx, 0);
  tn_node *goes = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, idx),
                          tn__op2(c, OP_LT, idx, tn__literal_like(c, idx, (double)places)));
  word = tn__cast(c, word, TN_I64);
  goes = tn__op2(c, OP_AND, goes, tn__op2(c, OP_LE, zero, word));
  tn_node *at = tn__op2(c, OP_ADD, tn__op2_num(c, OP_MUL, word, (double)places), idx);
  return tn__where(c, goes, at, none);
}

/* x and y side by side: [n, 2] */
static tn_node *pair(tn_ctx *c, tn_node *x, tn_node *y) {
  tn__dims two = {.rank = 2, .d = {x->dim[0], tn__int(c, 2)}};
  tn_node *which = tn__place(c, &two, 1), *is_first = tn__op2(c, OP_EQ, which, tn__literal_like(c, which, 0));
  x = tn__expand(c, tn__add_axis(c, x, 1), two.d);
  return tn__where(c, is_first, x, tn__expand(c, tn__add_axis(c, y, 1), two.d));
}

/* Word k of each place: [places] */
static tn_node *word_of(tn_ctx *c, tn_node *words, int k, tn_node *places) {
  tn_node *begin[] = {tn__int(c, k), tn__int(c, 0)}, *size[] = {tn__int(c, 1), places};
  return tn__drop_axis(c, tn__shrink(c, words, begin, size, NULL), 0);
}

tn_node *tn__with_counts(tn_ctx *c, tn_node *counted, tn_node *counts, tn_node *sum) {
  tn_node *first = tn__op2(c, OP_AND, counts, tn__literal_like(c, counts, ldexp(1, HALF) - 1));
  tn_node *second = tn__op2(c, OP_SHR, counts, tn__literal_like(c, counts, HALF));
  tn_node *nought = tn__literal_like(c, sum, 0), *zero = tn__literal_like(c, counts, 0);
  tn_node *above = tn__where(c, tn__op2(c, OP_NE, first, zero), tn__literal_like(c, sum, INFINITY), nought);
  tn_node *below = tn__where(c, tn__op2(c, OP_NE, second, zero), tn__literal_like(c, sum, -INFINITY), nought);
  return tn__where(c, counted, tn__op2(c, OP_ADD, above, below), sum);
}

/* The sums again, as floats; those of what is small first */
static tn_node *as_floats(tn_ctx *c, const tn__fixed *f, tn_node *words, tn_node *places) {
  tn_node *sum = NULL, *counts = word_of(c, words, f->digits, places);
  for (int d = 0; d < f->digits; d++) {
    tn_node *digit = tn__cast(c, word_of(c, words, d, places), TN_F32);
    int exponent = f->lowest + d * f->width, low = exponent < F32_LOWEST ? exponent / 2 : 0; /* f32 has no such power */
    if (low) digit = tn__op2(c, OP_MUL, digit, power_like(c, digit, low));
    digit = tn__op2(c, OP_MUL, digit, power_like(c, digit, exponent - low));
    sum = sum ? tn__op2(c, OP_ADD, sum, digit) : digit;
  }
  return tn__with_counts(c, tn__op2(c, OP_NE, counts, tn__literal_like(c, counts, 0)), counts, sum);
}

tn_node *tn__fixed_sums(tn_ctx *c, const tn__fixed *f, tn_node *places, tn_node *idx, tn_node *upd) {
  int64_t n = places->hi;
  part upper = {.value = tn__op2(c, OP_MUL, upd, power_like(c, upd, -f->lowest))}, lower = {0};
  upper.word = tn__cast(c, tn__literal_like(c, idx, 0), TN_I32);
  if (f->digits > 1) in_two(c, f, upd, &upper, &lower);
  count_others(c, f, upd, &upper, f->digits > 1 ? &lower : NULL);
  tn_node *at = at_word(c, idx, upper.word, n), *value = upper.value;
  if (f->digits > 1) at = pair(c, at, at_word(c, idx, lower.word, n)), value = pair(c, value, lower.value);
  tn_node *all = tn__int(c, n * (f->digits + 1)), *dims[] = {tn__int(c, f->digits + 1), places};
  tn_node *words = tn__scalar_to(c, tn__const_bits(c, TN_I64, 0), &all, 1);
  words = tn__scatter(c, words, at, value);
  return as_floats(c, f, tn__reshape(c, words, dims, 2), places);
}
