/* Sums by index in whole numbers whose unit is each place's own: a first pass over the updates finds the greatest
 * exponent of what goes to a place, a second one adds each update, as a number of units that lie below it, at once.
 * Neither what is greatest nor a sum of whole numbers depends on the order, so no two runs differ.
 *
 * Let E be the exponent of the greatest number at a place, all of which are below 2^(E + 1) then, and n how many
 * updates there are, below 2^b.  A unit is 2^(E + 1 - room), with room = 62 - b: numbers are below 2^room units,
 * twice as many where the second pass computes what it adds in another way than the first (they are cut off there,
 * lest they be more), so that their sum is below 2^63.  Each loses less than a unit, since it is cut to a whole
 * number: of m numbers at a place the sum is off by less than
 *     m * 2^(E + 1 - room) <= m * 2^(b - 61) * (what is greatest there)
 * and by one rounding of f32.  Adding up floats of f32, in whatever order, may be off by m * 2^-24 of the sum of all
 * sizes, which is no less as long as b is below 37.  Where all numbers of a place are within 2^(room - 24) of each
 * other, as they are mostly, nothing is lost before that rounding.
 *
 * What is no finite number has an exponent above all others.  At a place where that is the greatest, words count
 * infinities of both signs, and finite numbers are not looked at.
 *
 * Half floats have so few bits that a unit below what is greatest of all mostly holds every bit of all of them.
 * Whether it does, one reading of the updates says (the greatest exponent, and the least of what is not 0).  Then all
 * places have that unit, sums are exact, and nothing is found for each place: the kernel that would do so finds that
 * out, and ends.
 *
 * Numbers of f16 need not even be read for that: they are multiples of 2^-24 below 2^16, so that up to some millions of
 * them are summed up in those units.  Which places infinities go to, two bits of each say.
 *
 * Words of many places are in no cache, where each addition takes several times as long.  Then places are gone through
 * in spans: updates are read once for each span, and those of its places are added, whose words stay in the cache
 * meanwhile.  Nothing has to wait for that, since whole numbers may be added in any order, but blocks have to begin one
 * after the other (lower/cost.c).  The last span comes first: its words were cleared last, so that they may still be in
 * the cache, and those of the first one are in it when places, from the first on, take their sums.
 *
 * A word is 8 bytes, and where updates are few by far beside places most of these would be cleared and read for
 * nothing. There the number of an update stands below the exponent, so that what is greatest also says whose it is,
 * and the word is that one's.  Then only 4 bytes of a place are cleared, and read; or not even read, where those
 * whose words they are add the sums to the base.
 *
 * Where they are fewer yet, some places side by side are a group, whose entry says which update comes there, the last
 * one of those that do: that update has room for as many exponents as a group has places.  So 4 bytes are cleared for
 * each group, and for each place that updates have room for: of p places and n updates, with groups of g, p / g + g n,
 * which is least where g is the root of p / n. */
#include "rewrite/rewrite.h"
#include "schedule/fixed.h"
#include "schedule/ordered.h"
#include "tensor/sort.h"
#include <math.h>

enum {
  SUM_BITS = 62,   /* of a sum: without its sign, and one left over */
  LEAST_ROOM = 26, /* so that sums are no worse than those of floats */
  KEY_BITS = 31,   /* of what is found to be greatest: an i32 without its sign */
  EXPONENT_BITS = 8,
  LAUNCHES = 4, /* words are cleared, exponents found, updates added, sums made floats */
  WORD = 2,     /* f32 in a word */
  MOST_SPANS = 16,
  NARROWED = 3, /* spans, from which on it takes less to read narrow places */
  MOST_GROUP = 64,
  BF16_DIGITS = 8,
  F16_DIGITS = 11,
  ONE_LAUNCHES = 2,  /* in which one exponent is found for all, */
  GROUP_LAUNCHES = 2, /* and who owns a group, and where updates are in it */
  EXACT_LAUNCHES = 1  /* bits are cleared and set, in place of exponents found; and updates may be stored for it */
};

/* In sectors.  The larger memory is, the more of what is somewhere in it is in no cache: half of it where it is as
 * large as the one that units share.  (An H200, whose cache has 50 MB, adds to 16 MB at 90 G/s, to 48 MB at 45, to 66
 * at 20 and to 171 at 12.) */
/* a choice: any is right */
double tn__somewhere(const tn__target *t, double size, bool is_added) {
  double near = is_added ? 1 : 0.75, far = is_added ? 10 : 2;
  double sector = t->sector > 0 ? (double)t->sector / sizeof(float) : 1;
  double times = t->far > 0 ? pow(size * sizeof(float) / (double)t->far, 1.5) : 0, part = times / (1 + times);
  return sector * ((1 - part) * near + part * far);
}

/* In multiply-adds: each pass reads an update and its place, the second one the exponent there, too.  Where one
 * exponent is to be for all, it is taken to be so: the first pass does nothing, but what finds it reads updates, too.
 * On an H200 cached words are added to at 100 million in a millisecond (10 ps each; f32[524288] from 1789900 took
 * 41 us). */
/* a choice: any is right */
double tn__scaled_work(const tn__target *t, const tn__scaled *s, double places, double updates) {
  double move = t->balance > 0 ? (double)t->balance : 1, read = 3;
  double spans = s->spans > 1 ? s->spans : 1;
  bool grouped = s->group > 1;
  double entries = grouped ? places / s->group : 0, all = places;
  if (grouped) places = s->group * updates; /* that have exponents */
  double of_word = WORD * (s->bits ? updates : places);
  double own = read + tn__somewhere(t, places, true) + tn__somewhere(t, places / spans, false);
  double pass = (s->is_exact || s->digits ? 2 : own) + spans * read + tn__somewhere(t, of_word / spans, true);
  double words = 2 * (of_word + entries + (s->is_exact ? places / TN__OTHERS_WORD : places)); /* cleared, and read */
  if (s->bits) pass += tn__somewhere(t, of_word, false);
  if (grouped) pass += read + tn__somewhere(t, entries, true) + 2 * tn__somewhere(t, entries, false);
  if (s->is_added) /* the base, and mostly another operand, is read there */
    words -= places + entries, pass += tn__somewhere(t, all, true) + 2 * tn__somewhere(t, all, false);
  int launches = LAUNCHES + (s->digits ? ONE_LAUNCHES : 0) + (grouped ? GROUP_LAUNCHES : 0);
  if (s->is_exact) launches += EXACT_LAUNCHES;
  return launches * TN__CHAINED * tn__target_launch_guess(t) + move * (words + pass * updates);
}

/* As many spans as it takes for the words of one to stay in the cache that units share, in half of it, since updates
 * go through it, too */
/* a choice: any is right */
static int spans_of(const tn__target *t, double places) {
  double bytes = WORD * sizeof(float) * places, kept = (double)t->far / 2;
  return kept > 0 ? (int)fmin(ceil(bytes / kept), MOST_SPANS) : 1;
}

/* Places of a group, a power of two, so that entries and what updates have room for, 4 bytes each, are few */
/* a choice: any is right */
static int group_of(double places, double updates) {
  int group = 1;
  while (group < MOST_GROUP && (double)group * group * 2 * updates <= places) group *= 2;
  return group;
}

/* What updates were before they were moved, each as it is, or widened to be added up */
static const tn_node *given(const tn_node *upd) {
  while ((tn__ops[upd->op].group == G_MOVE && upd->op != OP_FOLD) || (upd->op == OP_CAST && upd->dtype == TN_F32))
    upd = upd->src[0];
  return upd;
}

/* Bits of a short float, which are so few that a unit mostly holds those of all updates; 0: it is none, or one that
 * kernels may keep as what it is made of (lower/widen.c), or there may be no updates, of which nothing is greatest */
static int digits_of(const tn_node *upd) {
  for (uint32_t i = 0; i < upd->rank; i++)
    if (upd->dim[i]->lo < 1) return 0;
  upd = given(upd);
  if (upd->op == OP_CAST) return 0;
  return upd->dtype == TN_BF16 ? BF16_DIGITS : upd->dtype == TN_F16 ? F16_DIGITS : 0;
}

/* a choice: any that is right */
bool tn__scaled_form(const tn__target *t, const tn_node *n, double base, tn__scaled *s) {
  const size_t words = sizeof(int32_t) | sizeof(int64_t);
  const tn_node *upd = n->src[2];
  int64_t places, updates = 1;
  if ((t->adds & words) != words || n->rank != 1 || !tn__const_int(n->dim[0], &places) || places < 1) return false;
  for (uint32_t i = 0; i < upd->rank; i++)
    if (__builtin_mul_overflow(updates, upd->dim[i]->hi, &updates)) return false;
  int bits = tn__bits_below(updates);
  bool is_short = upd->dtype == TN_F16 || upd->dtype == TN_BF16 || upd->dtype == TN_F32;
  if (!is_short || n->dtype == TN_F64 || updates < 1 || bits > KEY_BITS || SUM_BITS - bits < LEAST_ROOM) return false;
  const int room = SUM_BITS - bits, spans = spans_of(t, (double)places), digits = digits_of(upd);
  const bool is_exact = given(upd)->dtype == TN_F16 && tn__is_exact_in_words(updates);
  const int group = upd->dim[0]->lo > 0 ? group_of((double)places, (double)updates) : 1;
  const tn__scaled forms[] = {{room, 0, 0, 1, 1, false, false},       {room, 0, 0, spans, 1, false, false},
                              {room, 0, digits, 1, 1, false, false},  {room, 0, digits, spans, 1, false, false},
                              {room, bits, 0, 1, 1, false, false},    {room, bits, 0, 1, 1, true, false},
                              {room, bits, 0, 1, group, true, false}, {room, 0, 0, 1, 1, false, is_exact},
                              {room, 0, 0, spans, 1, false, is_exact}};
  double least = INFINITY;
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) {
    double work = tn__scaled_work(t, &forms[i], (double)places, (double)updates) + (forms[i].is_added ? base : 0);
    if (work >= least || (forms[i].bits && bits + EXPONENT_BITS > KEY_BITS)) continue;
    *s = forms[i], least = work;
  }
  return true;
}

/* x[n] * 2^by, by[n] of i32: by two factors, since the whole may be no exponent of f32 */
static tn_node *times_power(tn_ctx *c, tn_node *x, tn_node *by) {
  tn_node *half = tn__op2(c, OP_SHR, by, tn__literal_like(c, by, 1));
  tn_node *rest = tn__op2(c, OP_ADD, by, tn__op2_num(c, OP_MUL, half, -1));
  return tn__op2(c, OP_MUL, tn__op2(c, OP_MUL, x, tn__power_of(c, half)), tn__power_of(c, rest));
}

/* How many units of its place a number is: 2^what[n], where the greatest exponent there is own[n] */
static tn_node *units_of(tn_ctx *c, const tn__scaled *s, tn_node *own) {
  return tn__op2_num(c, OP_ADD, tn__op2_num(c, OP_MUL, own, -1), s->room + TN__EXPONENT_BIAS - 1);
}

static tn_node *is_none(tn_ctx *c, tn_node *exponent) {
  return tn__op2(c, OP_EQ, exponent, tn__literal_like(c, exponent, TN__EXPONENT_NONE));
}

/* The exponent of what was found to be greatest, and which update's it is */
static tn_node *exponent_in(tn_ctx *c, const tn__scaled *s, tn_node *key) {
  return s->bits ? tn__op2(c, OP_SHR, key, tn__literal_like(c, key, s->bits)) : key;
}

static tn_node *update_in(tn_ctx *c, const tn__scaled *s, tn_node *key) { /* -1: none's */
  tn_node *which = tn__op2(c, OP_AND, key, tn__literal_like(c, key, (double)(((int64_t)1 << s->bits) - 1)));
  tn_node *any = tn__op2(c, OP_NE, key, tn__literal_like(c, key, 0));
  return tn__where(c, any, which, tn__literal_like(c, which, -1));
}

/* x[n], once for each span: [spans, n] */
static tn_node *for_spans(tn_ctx *c, const tn__scaled *s, tn_node *x) {
  tn_node *dims[] = {tn__int(c, s->spans), x->dim[0]};
  return tn__expand(c, tn__add_axis(c, x, 0), dims);
}

/* Where the updates of each span go, of so many places in all, from the last span to the first; idx[n]: all of them;
 * those of other spans go nowhere: [spans, n] */
static tn_node *within_spans(tn_ctx *c, const tn__scaled *s, tn_node *idx, const tn_node *places) {
  int64_t length = (places->hi + s->spans - 1) / s->spans;
  tn__dims all = {.rank = 2, .d = {tn__int(c, s->spans), idx->dim[0]}};
  tn_node *before = tn__op2_num(c, OP_ADD, tn__op2_num(c, OP_MUL, tn__place(c, &all, 0), -1), s->spans - 1);
  tn_node *at = for_spans(c, s, idx), *begin = tn__op2_num(c, OP_MUL, before, (double)length);
  tn_node *end = tn__op2_num(c, OP_ADD, begin, (double)length);
  begin = tn__cast(c, begin, at->dtype), end = tn__cast(c, end, at->dtype);
  tn_node *is_own = tn__op2(c, OP_AND, tn__op2(c, OP_LE, begin, at), tn__op2(c, OP_LT, at, end));
  return tn__where(c, is_own, at, tn__literal_like(c, at, -1));
}

/* What is added of updates at places whose greatest exponent is `own`: f32 of whole numbers */
static tn_node *parts_of(tn_ctx *c, const tn__scaled *s, tn_node *upd, tn_node *own) {
  tn_node *units = times_power(c, upd, units_of(c, s, own));
  tn_node *most = tn__literal_like(c, units, ldexp(1, s->room + 1));
  units = tn__op2(c, OP_MAX, tn__op2(c, OP_MIN, units, most), tn__op1(c, OP_NEG, most));
  tn_node *count = tn__where(c, tn__is_finite(c, upd), tn__literal_like(c, upd, 0), tn__count_of(c, upd));
  return tn__where(c, is_none(c, own), count, units);
}

/* x of one number, as often as y has elements */
static tn_node *for_each(tn_ctx *c, tn_node *x, const tn_node *y) {
  return tn__scalar_to(c, x, y->dim, y->rank);
}

/* The exponent of what is greatest of all where units below that one hold every bit of all updates, whose own
 * exponents these are; else 0: each place has units of its own. */
static tn_node *one_exponent(tn_ctx *c, const tn__scaled *s, tn_node *upd, tn_node *exponent) {
  tn_node *is_zero = tn__op2(c, OP_EQ, upd, tn__literal_like(c, upd, 0));
  tn_node *own = tn__where(c, is_zero, tn__literal_like(c, exponent, TN__EXPONENT_NONE), exponent);
  tn_node *greatest = tn__reduce(c, OP_RMAX, exponent, (int64_t[]){0}, 1);
  tn_node *least = tn__op1(c, OP_NEG, tn__reduce(c, OP_RMAX, tn__op1(c, OP_NEG, own), (int64_t[]){0}, 1));
  tn_node *range = tn__op2(c, OP_MIN, least, tn__literal_like(c, least, TN__EXPONENT_NONE));
  range = tn__op2(c, OP_ADD, greatest, tn__op1(c, OP_NEG, range));
  tn_node *holds = tn__op2(c, OP_LE, range, tn__literal_like(c, range, s->room - s->digits));
  holds = tn__op2(c, OP_AND, holds, tn__op2(c, OP_NE, greatest, tn__literal_like(c, greatest, TN__EXPONENT_NONE)));
  return tn__op1(c, OP_CONTIG, tn__where(c, holds, greatest, tn__literal_like(c, greatest, 0)));
}

/* x[at[...]] where places have units of their own, else nothing is loaded: 0 */
static tn_node *of_own(tn_ctx *c, tn_node *one, tn_node *x, tn_node *at) {
  tn_node *is_own = for_each(c, tn__op2(c, OP_LE, one, tn__literal_like(c, one, 0)), at);
  return tn__gather(c, x, tn__where(c, is_own, at, tn__literal_like(c, at, -1)));
}

/* The number of an update that goes to each group, counted from 1; 0: none does */
static tn_node *find_owners(tn_ctx *c, const tn__scaled *s, const tn_node *places, tn_node *idx) {
  tn_node *groups = tn__int(c, (places->hi + s->group - 1) / s->group), *inside, *at;
  tn__dims line = {.rank = 1, .d = {idx->dim[0]}};
  inside = tn__op2(c, OP_LE, tn__literal_like(c, idx, 0), idx);
  at = tn__op2(c, OP_IDIV, idx, tn__literal_like(c, idx, s->group));
  at = tn__where(c, inside, at, tn__literal_like(c, idx, -1));
  tn_node *number = tn__cast(c, tn__op2_num(c, OP_ADD, tn__place(c, &line, 0), 1), TN_I32);
  return tn__scatter_by(c, OP_MAX, tn__scalar_to(c, tn__const_bits(c, TN_I32, 0), &groups, 1), at, number);
}

/* Where places at[...] are among those that updates have room for; below 0: nowhere */
static tn_node *in_groups(tn_ctx *c, const tn__scaled *s, tn_node *owners, tn_node *at) {
  tn_node *size = tn__literal_like(c, at, s->group), *none = tn__literal_like(c, at, -1);
  tn_node *inside = tn__op2(c, OP_LE, tn__literal_like(c, at, 0), at);
  tn_node *owner = tn__gather(c, owners, tn__where(c, inside, tn__op2(c, OP_IDIV, at, size), none));
  tn_node *any = tn__op2(c, OP_LT, tn__literal_like(c, owner, 0), owner);
  tn_node *first = tn__op2(c, OP_MUL, tn__op2_num(c, OP_ADD, tn__cast(c, owner, TN_I64), -1), size);
  return tn__where(c, any, tn__op2(c, OP_ADD, first, tn__op2(c, OP_MOD, at, size)), none);
}

typedef struct passes {
  tn_node *greatest, *key, *own; /* [places]; [n]: each update's, and that of its place */
  tn_node *words, *one;          /* one: what all places have; NULL: each its own */
} passes;

/* What was found to be greatest at these of all places, or of those that updates have room for */
static tn_node *greatest_at(tn_ctx *c, const passes *p, tn_node *at) {
  if (!p->one) return tn__gather(c, p->greatest, at);
  tn_node *one = for_each(c, p->one, at), *none = tn__literal_like(c, one, 0);
  return tn__where(c, tn__op2(c, OP_LT, none, one), one, of_own(c, p->one, p->greatest, at));
}

static tn_node *find_greatest(tn_ctx *c, const passes *p, tn_node *places, tn_node *idx) {
  tn_node *key = p->key, *none = tn__scalar_to(c, tn__const_bits(c, TN_I32, 0), &places, 1);
  if (p->one) {
    tn__dims line = {.rank = 1, .d = {idx->dim[0]}};
    tn_node *each = tn__place(c, &line, 0), *one = for_each(c, p->one, idx), *nowhere = tn__literal_like(c, idx, -1);
    idx = tn__where(c, tn__op2(c, OP_LT, tn__literal_like(c, one, 0), one), nowhere, of_own(c, p->one, idx, each));
    key = of_own(c, p->one, key, each);
  }
  return tn__scatter_by(c, OP_MAX, none, idx, key);
}

/* Places for several passes: what is stored for them is as narrow as it may be, and -1 where it is none of them.  What
 * stands in memory is read again by each span, in which numbers of 64 bits are compared by several instructions: they
 * are narrowed for some spans.  Of those the places stay as narrow. */
static tn_node *places_in_memory(tn_ctx *c, const tn__scaled *s, const tn_node *places, tn_node *idx) {
  int narrow = tn__narrow(places->hi + MOST_SPANS); /* the last span may end behind the last place */
  bool is_narrow = tn__size_of(idx->dtype) <= tn__size_of(narrow);
  if (tn__in_memory(c, idx) == idx && (is_narrow || s->spans < NARROWED)) return idx;
  tn_node *place = tn__cast(c, tn__where(c, tn__are_places(c, idx, places), idx, tn__literal_like(c, idx, -1)), narrow);
  place = tn__op1(c, OP_CONTIG, place);
  return s->spans < NARROWED ? tn__cast(c, place, idx->dtype) : place;
}

static passes add_up(tn_ctx *c, const tn__scaled *s, tn_node *places, tn_node *idx, tn_node *upd) {
  passes p = {.one = NULL};
  tn__dims line = {.rank = 1, .d = {upd->dim[0]}};
  if (s->digits || s->spans > 1) idx = places_in_memory(c, s, places, idx), upd = tn__in_memory(c, upd);
  tn_node *exponent = tn__exponent_of(c, upd);
  p.key = tn__where(c, tn__is_finite(c, upd), exponent, tn__literal_like(c, exponent, TN__EXPONENT_NONE));
  if (s->digits) p.one = one_exponent(c, s, upd, p.key);
  if (s->bits) {
    p.key = tn__op2(c, OP_SHL, p.key, tn__literal_like(c, p.key, s->bits));
    p.key = tn__op2(c, OP_OR, p.key, tn__cast(c, tn__place(c, &line, 0), TN_I32));
  }
  if (s->group > 1) {
    idx = in_groups(c, s, find_owners(c, s, places, idx), idx);
    places = tn__mul(c, line.d[0], tn__int(c, s->group));
  }
  p.greatest = find_greatest(c, &p, places, idx);
  if (s->spans > 1) idx = within_spans(c, s, idx, places), upd = for_spans(c, s, upd);
  p.own = greatest_at(c, &p, idx);
  tn_node *at = s->bits ? update_in(c, s, p.own) : idx, *all = s->bits ? line.d[0] : places;
  tn_node *value = parts_of(c, s, upd, exponent_in(c, s, p.own));
  p.words = tn__scatter(c, tn__scalar_to(c, tn__const_bits(c, TN_I64, 0), &all, 1), at, value);
  return p;
}

/* Sums of words[k] of places where keys[k] are what is greatest */
static tn_node *as_floats(tn_ctx *c, const tn__scaled *s, tn_node *words, tn_node *keys) {
  tn_node *exponent = exponent_in(c, s, keys);
  tn_node *by = tn__op2_num(c, OP_MUL, units_of(c, s, exponent), -1);
  return tn__with_counts(c, is_none(c, exponent), words, times_power(c, tn__cast(c, words, TN_F32), by));
}

/* ... of f16, whose units are known */
static tn_node *exact_sums(tn_ctx *c, const tn__scaled *s, tn_node *places, tn_node *idx, tn_node *upd) {
  idx = places_in_memory(c, s, places, idx), upd = tn__in_memory(c, upd);
  tn_node *others = tn__exact_others(c, places, idx, upd);
  if (s->spans > 1) idx = within_spans(c, s, idx, places), upd = for_spans(c, s, upd);
  tn_node *words = tn__scalar_to(c, tn__const_bits(c, TN_I64, 0), &places, 1);
  words = tn__scatter(c, words, idx, tn__exact_units(c, upd));
  return tn__exact_floats(c, words, tn__exact_others_of(c, others, places));
}

tn_node *tn__scaled_sums(tn_ctx *c, const tn__scaled *s, tn_node *places, tn_node *idx, tn_node *upd) {
  if (s->is_exact) return exact_sums(c, s, places, idx, upd);
  passes p = add_up(c, s, places, idx, upd);
  tn__dims line = {.rank = 1, .d = {places}};
  tn_node *keys = p.one ? greatest_at(c, &p, tn__place(c, &line, 0)) : p.greatest;
  tn_node *words = s->bits ? tn__gather(c, p.words, update_in(c, s, keys)) : p.words;
  return as_floats(c, s, words, keys);
}

tn_node *tn__scaled_at_updates(tn_ctx *c, const tn__scaled *s, tn_node *places, tn_node *idx, tn_node *upd,
                               tn_node **place) {
  passes p = add_up(c, s, places, idx, upd);
  tn__dims line = {.rank = 1, .d = {upd->dim[0]}};
  tn_node *takes = tn__op2(c, OP_EQ, p.own, p.key);
  tn_node *nowhere = tn__op2_num(c, OP_MUL, tn__op2_num(c, OP_ADD, tn__place(c, &line, 0), 1), -1);
  *place = tn__op1(c, OP_DISTINCT, tn__where(c, takes, idx, nowhere));
  return as_floats(c, s, p.words, p.key);
}
