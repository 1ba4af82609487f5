/* Sums by index as whole numbers of 64 bits, which are the same in any order, so that all updates are added at once,
 * and no two runs differ.  Prefix tn__fixed_, tn__scaled_, tn__exact_, tn__rank.  They are kept by place or by the rank
 * of the places that any update goes to; which takes less is up to who asks. */
#ifndef TN_SCHEDULE_FIXED_H
#define TN_SCHEDULE_FIXED_H
#include "device/target.h"
#include "ir/build.h"

/* In digits (fixed.c): words of 64 bits for the digits of each place, and what the first bit of a digit stands for:
 * 2^(lowest + digit * width).  Is there such a form, for numbers that are added to a vector, and how long does it
 * take? */
typedef struct tn__fixed {
  int digits, width, lowest;
} tn__fixed;
bool tn__fixed_form(const tn__target *t, const tn_node *scatter, tn__fixed *f);
double tn__fixed_work(const tn__target *t, const tn__fixed *f, double places, double updates);
/* idx[n] of i64, upd[n] of f32 -> [places] of f32 */
tn_node *tn__fixed_sums(tn_ctx *c, const tn__fixed *f, tn_node *places, tn_node *idx, tn_node *upd);

/* In units of what is greatest at each place (scaled.c): the same questions */
typedef struct tn__scaled {
  int room;      /* what is greatest is so many bits long, at most */
  int bits;      /* of the number of an update, where words are updates' own; 0: words are places' */
  int digits;    /* bits of an update: one unit is taken for all places if that loses none of them; 0: never */
  int spans;     /* of places: words of one after the other are added to; at most 1: of all at once */
  int group;     /* places side by side that share an entry, where sums are added to the base; at most 1: none do */
  bool is_added; /* sums are added to the base where those are whose words they are in, else places look for them */
  bool is_exact; /* units are those of f16, and nothing is found to be greatest */
} tn__scaled;
/* The form that takes least; base: what it takes to copy the base, so that something may be added to it */
bool tn__scaled_form(const tn__target *t, const tn_node *scatter, double base, tn__scaled *s);
double tn__scaled_work(const tn__target *t, const tn__scaled *s, double places, double updates);
/* idx[n] of i64, upd[n] of f32 -> [places] of f32 */
tn_node *tn__scaled_sums(tn_ctx *c, const tn__scaled *s, tn_node *places, tn_node *idx, tn_node *upd);
/* ... -> [n] of f32, the sum at each update's place, and a place for those that are to add theirs, each one of its own;
 * below 0: none */
tn_node *tn__scaled_at_updates(tn_ctx *c, const tn__scaled *s, tn_node *places, tn_node *idx, tn_node *upd,
                               tn_node **place);

/* Of f16 (exact.c): 2^-24 is the unit of all of them, and they are so many bits long in it.  May so many updates be
 * added up in words?  What updates count, f32 of whole numbers; where those that are not finite go: bits of each place,
 * in words of so many places, and those bits, [places]; and sums[k], of i64, with such bits of each, as f32 */
enum { TN__F16_LOWEST = -24, TN__F16_BITS = 40, TN__OTHERS_WORD = 16 };
bool tn__is_exact_in_words(int64_t updates);
tn_node *tn__exact_units(tn_ctx *c, tn_node *upd);
tn_node *tn__exact_others(tn_ctx *c, const tn_node *places, tn_node *idx, tn_node *upd);
tn_node *tn__exact_others_of(tn_ctx *c, tn_node *others, tn_node *places);
tn_node *tn__exact_floats(tn_ctx *c, tn_node *sums, tn_node *others);

/* By rank (ranked.c): how many places that some update goes to come before each of them.  Sums by rank are no more than
 * there are updates; tn__ranks_work is what all else takes. */
double tn__ranks_work(const tn__target *t, double places, double updates);
/* idx[n] of i64 -> words of u64: places, a bit each, and above these how many bits are set in the words before */
tn_node *tn__ranks_of(tn_ctx *c, const tn_node *places, tn_node *idx);
/* ... and the ranks of these updates' places, [n], or of all places, [places], of i32; -1: no update goes there */
tn_node *tn__ranks_at(tn_ctx *c, tn_node *ranks, tn_node *idx);
tn_node *tn__ranks_of_places(tn_ctx *c, tn_node *ranks, tn_node *places);

/* Which of idx[...] are places, of so many; and the word of each place, [places], where so many side by side share one:
 * it is found by movements, so that they are known to */
tn_node *tn__are_places(tn_ctx *c, tn_node *idx, const tn_node *places);
tn_node *tn__words_of_places(tn_ctx *c, tn_node *words, int64_t each, tn_node *places);

/* A kernel of these chains takes so much of a launch: it begins while the one before it ends, and some need not wait */
#define TN__CHAINED 0.7
/* What somewhere in so many f32 takes, in f32 moved: what is added, or read (scaled.c) */
double tn__somewhere(const tn__target *t, double size, bool is_added);

/* What these are made of, of f32 and i32 elements: 2^by, in the range of normal floats; the biased exponent, as if
 * what is below the least normal one had that one's, and at most that of the greatest */
enum { TN__EXPONENT_BIAS = 127, TN__EXPONENT_NONE = 255 };
tn_node *tn__power_of(tn_ctx *c, tn_node *by);
tn_node *tn__is_finite(tn_ctx *c, tn_node *x);
tn_node *tn__exponent_of(tn_ctx *c, tn_node *x);
/* What is no finite number counts so much, and what that makes of a sum, by counts of i64: infinite, or NaN; else it is
 * `sum` */
tn_node *tn__count_of(tn_ctx *c, tn_node *x);
tn_node *tn__with_counts(tn_ctx *c, tn_node *counted, tn_node *counts, tn_node *sum);
#endif
