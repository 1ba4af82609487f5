/* What stands in a tensor, and where: as many elements as there are of a kind, which only the data says.  So a caller
 * names the most that there is room for, and gets the number beside it.
 *
 * Which elements are chosen is summed up along them; the k-th chosen one is the first with k of them up to it.  Where
 * much of the result may be filled, each chosen one goes to its place; where little of it, each place looks for its own
 * by a search.  So none waits for another on any device. */
#include "tensor/select.h"
#include "device/device.h"
#include "tensor/partition.h"
#include "tensor/scan.h"
#include "tensor/sort.h"
#include <math.h>

static tn_node *flat(tn_ctx *c, tn_node *x) {
  return tn__merge_axes(c, x, 0, x->rank);
}

/* bool[n] -> how many up to each, itself among them */
static tn_node *count_upto(tn_ctx *c, tn_node *chosen) {
  int counts = chosen->dim[0]->hi > INT32_MAX ? TN_I64 : TN_I32;
  return tn__counts_along(c, tn__cast(c, chosen, counts), 0, false);
}

tn__chosen tn__choose_distinct(tn_ctx *c, tn_node *x, bool ordered) {
  tn_node *row = tn__add_axis(c, flat(c, x), 0), *sorted = NULL, *alone = NULL;
  tn__chosen k = {0};
  if (!ordered) alone = tn__is_float(x->dtype) ? tn__sorted_keys(c, row) : tn__sorted_integers(c, row, false);
  if (!alone || tn__is_float(x->dtype)) k.order = tn__sorted(c, row, false, &sorted);
  if (alone) alone = tn__merge_axes(c, alone, 0, 2);
  if (alone) sorted = sorted ? tn__op2(c, OP_EITHER, alone, sorted) : alone;
  /* on devices of groups it stands in memory, but for its sign */
  bool stands = alone && tn__device_get(c, x->device < 0 ? 0 : x->device)->target.group;
  if (!stands) sorted = tn__op1(c, OP_CONTIG, sorted);
  if (alone) k.sorted = k.order ? tn__first_of_keys(c, row, sorted) : sorted;
  tn__dims shape = tn__dims_of(sorted);
  tn_node *differs = tn__op2(c, OP_NE, sorted, tn__of_before(c, sorted));
  tn_node *first = tn__op2_num(c, OP_EQ, tn__place(c, &shape, 0), 0);
  k.is = tn__op2(c, OP_OR, differs, first);
  k.upto = count_upto(c, k.is);
  return k;
}

tn__chosen tn__choose_nonzero(tn_ctx *c, tn_node *x) {
  tn__chosen k = {.is = tn__cast(c, flat(c, x), TN_BOOL)};
  k.upto = count_upto(c, k.is);
  return k;
}

/* The last sum; of nothing it is what a place outside reads, 0. */
tn_node *tn__chosen_count(tn_ctx *c, const tn__chosen *k) {
  tn_node *last = tn__op2_num(c, OP_ADD, tn__dim_value(c, k->upto->dim[0], TN_I64), -1);
  return tn__cast(c, tn__gather(c, k->upto, last), TN_I64);
}

static tn_node *is_chosen(tn_ctx *c, const tn__chosen *k) {
  return k->is ? k->is : tn__op2(c, OP_NE, k->upto, tn__of_before(c, k->upto));
}

/* x[n] of those that are chosen, the first `most` of them, behind each other: each of them tells it where it goes, and
 * the others go nowhere, each to a place of its own.  It is added to this number there, which the rest stay. */
static tn_node *told(tn_ctx *c, const tn__chosen *k, tn_node *most, tn_node *number, tn_node *x) {
  tn__dims shape = tn__dims_of(k->upto);
  tn_node *at = tn__cast(c, tn__place(c, &shape, 0), k->upto->dtype);
  tn_node *nowhere = tn__op2_num(c, OP_ADD, tn__op2_num(c, OP_MUL, at, -1), -1);
  tn_node *to = tn__where(c, is_chosen(c, k), tn__op2_num(c, OP_ADD, k->upto, -1), nowhere);
  return tn__scatter(c, tn__scalar_to(c, number, &most, 1), tn__op1(c, OP_DISTINCT, to), x);
}

/* Where each of the first `most` stands among those that were chosen from, 0 if there are not so many: [most], in as
 * few bits as they are counted by */
static tn_node *places_told(tn_ctx *c, const tn__chosen *k, tn_node *most) {
  tn__dims shape = tn__dims_of(k->upto);
  tn_node *at = tn__cast(c, tn__place(c, &shape, 0), k->upto->dtype);
  return told(c, k, most, tn__const_num(c, at->dtype, 0), at);
}

/* a choice: either is right */
static bool is_told_quicker(const tn__chosen *k, const tn_node *most) {
  return (double)k->upto->dim[0]->hi < (double)most->hi * log2((double)k->upto->dim[0]->hi + 2);
}

/* Do the chosen ones come to the front, block by block, all at once? */
/* a choice: no is right */
static bool are_parted(tn_ctx *c, const tn__chosen *k, const tn_node *most, tn__partition *p) {
  return k->is && is_told_quicker(k, most) && most->hi <= k->is->dim[0]->lo && tn__partition_line(c, k->is, p);
}

/* Where each of the first `most` stands among those that were chosen from (right: where the next one does); behind all
 * of them, if there are not so many.  i64[most] */
static tn_node *places(tn_ctx *c, const tn__chosen *k, tn_node *most, bool right) {
  tn__dims shape = {.rank = 1, .d = {most}};
  tn_node *number = tn__op2_num(c, OP_ADD, tn__place(c, &shape, 0), 1);
  if (k->upto->dtype == TN_I32) /* beyond that there is none: it need not fit */
    number = tn__cast(c, tn__op2_num(c, OP_MIN, number, INT32_MAX), TN_I32);
  return tn__places_in(c, k->upto, number, right);
}

/* So, of those that are there */
static tn_node *chosen_places(tn_ctx *c, const tn__chosen *k, tn_node *most) {
  return is_told_quicker(k, most) ? places_told(c, k, most) : tn__op1(c, OP_CONTIG, places(c, k, most, false));
}

static tn_node *is_there(tn_ctx *c, const tn__chosen *k, tn_node *most) {
  tn__dims shape = {.rank = 1, .d = {most}};
  return tn__op2(c, OP_LT, tn__place(c, &shape, 0), tn__scalar_to(c, tn__chosen_count(c, k), shape.d, 1));
}

/* Each of those that were sorted, or nothing where it is not chosen */
static tn_node *each_chosen(tn_ctx *c, const tn__chosen *k, tn_node *x) {
  if (k->sorted) return k->sorted;
  return tn__gather(c, flat(c, x), tn__where(c, is_chosen(c, k), k->order, tn__literal_like(c, k->order, -1)));
}

/* Does what is told its place come there with its bits?  One of several places is stored to; a sum, which it is else,
 * may give a NaN other bits. */
static bool comes_as_it_is(const tn_node *x, const tn_node *most) {
  return !tn__is_float(x->dtype) || most->lo > 1;
}

/* Each looks up what it is, which lies near, or by the order that was stored; what is left is filled. */
static tn_node *values_parted(tn_ctx *c, const tn__chosen *k, const tn__partition *p, tn_node *x, tn_node *most,
                              double fill) {
  tn_node *at = tn__where(c, p->is, p->number, tn__literal_like(c, p->number, -1));
  tn_node *value = tn__gather(c, k->sorted ? k->sorted : k->order, at);
  if (!k->sorted) value = tn__gather(c, flat(c, x), tn__where(c, p->is, value, tn__literal_like(c, value, -1)));
  value = tn__where(c, p->is, value, tn__literal_like(c, value, fill));
  int dtype = value->dtype, as = dtype == TN_BOOL ? TN_U8 : dtype;
  return tn__cast(c, tn__partitioned(c, p, tn__cast(c, value, as), most), dtype);
}

static tn_node *distinct_values(tn_ctx *c, const tn__chosen *k, tn_node *x, tn_node *most, double fill) {
  tn_node *value;
  tn__partition p;
  if (k->front && are_parted(c, k, most, &p)) return values_parted(c, k, &p, x, most, fill);
  if (is_told_quicker(k, most) && comes_as_it_is(x, most)) {
    int as = x->dtype == TN_BOOL ? TN_U8 : x->dtype;
    value = tn__cast(c, each_chosen(c, k, x), as);
    value = tn__cast(c, told(c, k, most, tn__const_num(c, as, -0.0), value), x->dtype); /* it changes none */
  } else {
    tn_node *at = tn__gather(c, k->sorted ? k->sorted : k->order, chosen_places(c, k, most));
    value = k->sorted ? at : tn__gather(c, flat(c, x), tn__op1(c, OP_CONTIG, at));
  }
  return tn__where(c, is_there(c, k, most), value, tn__literal_like(c, value, fill));
}

/* Of floats the order, if nobody but a gradient asks for it, need not be found. */
tn_node *tn__distinct_values(tn_ctx *c, const tn__chosen *k, tn_node *x, tn_node *most, double fill) {
  tn__chosen by_order = *k;
  tn_node *value = distinct_values(c, k, x, most, fill);
  if (!k->sorted || !k->order) return value;
  by_order.sorted = NULL;
  return tn__op2(c, OP_EITHER, value, distinct_values(c, &by_order, x, most, fill));
}

/* Each counts up to the next one, the last one up to the end. */
static tn_node *distances_told(tn_ctx *c, const tn__chosen *k, tn_node *most) {
  tn__dims shape = tn__dims_of(k->upto);
  tn_node *more = tn__add(c, most, tn__int(c, 1)), *begin = tn__int(c, 1);
  tn_node *end = tn__dim_value(c, shape.d[0], k->upto->dtype), *at = tn__cast(c, tn__place(c, &shape, 0), end->dtype);
  tn_node *start = told(c, k, more, end, tn__sub(c, at, tn__scalar_to(c, end, shape.d, 1)));
  return tn__cast(c, tn__sub(c, tn__shrink(c, start, &begin, &most, NULL), tn__first_of(c, start, 0, most)), TN_I64);
}

tn_node *tn__distinct_counts(tn_ctx *c, const tn__chosen *k, tn_node *most) {
  tn_node *often = is_told_quicker(k, most) ? distances_told(c, k, most)
                                            : tn__sub(c, places(c, k, most, true), places(c, k, most, false));
  return tn__where(c, is_there(c, k, most), often, tn__literal_like(c, often, 0));
}

tn_node *tn__distinct_inverse(tn_ctx *c, const tn__chosen *k, tn_node *x) {
  tn_node *number = tn__op2_num(c, OP_ADD, tn__cast(c, k->upto, TN_I64), -1);
  tn_node *zeros = tn__literal_like(c, number, 0);
  return tn__reshape(c, tn__scatter(c, zeros, k->order, number), x->dim, x->rank);
}

tn_node *tn__nonzero_places(tn_ctx *c, const tn__chosen *k, tn_node *x, tn_node *most, int64_t fill) {
  tn__dims shape = {.rank = 1, .d = {most}}, all = {.rank = 2, .d = {most, tn__int(c, x->rank)}};
  tn_node *none = tn__const_bits(c, TN_I64, (uint64_t)fill), *column[TN_MAX_RANK], *inner = tn__int(c, 1);
  if (!x->rank) return tn__scalar_to(c, none, all.d, 2);
  tn__partition p;
  bool parted = are_parted(c, k, most, &p);
  if (x->rank == 1 && parted) {
    tn_node *value = tn__where(c, p.is, tn__cast(c, p.number, TN_I64), tn__scalar_to(c, none, p.is->dim, 1));
    return tn__add_axis(c, tn__partitioned(c, &p, value, most), 1);
  }
  if (x->rank == 1 && is_told_quicker(k, most)) { /* fill and what is left to the place are the place */
    tn__dims line = tn__dims_of(k->upto);
    tn_node *rest = tn__sub(c, tn__place(c, &line, 0), tn__scalar_to(c, none, line.d, 1));
    return tn__add_axis(c, told(c, k, most, none, rest), 1);
  }
  tn_node *there, *at;
  if (parted) { /* what is none says so */
    at = tn__partitioned(c, &p, tn__where(c, p.is, p.number, tn__literal_like(c, p.number, -1)), most);
    there = tn__op2(c, OP_LE, tn__literal_like(c, at, 0), at);
  } else {
    there = is_there(c, k, most), at = chosen_places(c, k, most);
  }
  int numbers = k->upto->dtype == TN_I32 ? TN_U32 : TN_I64; /* short ones are quicker to divide */
  at = tn__cast(c, at, numbers);
  for (uint32_t i = x->rank; i && i--; inner = tn__mul(c, inner, x->dim[i])) {
    tn_node *size = tn__scalar_to(c, tn__dim_value(c, x->dim[i], numbers), shape.d, 1);
    tn_node *step = tn__scalar_to(c, tn__dim_value(c, inner, numbers), shape.d, 1);
    column[i] = tn__cast(c, tn__op2(c, OP_MOD, tn__op2(c, OP_IDIV, at, step), size), TN_I64);
    column[i] = tn__where(c, there, column[i], tn__scalar_to(c, none, shape.d, 1));
    column[i] = tn__add_axis(c, column[i], 1);
  }
  return tn__join(c, column, x->rank, 1);
}

/* ---- the public functions ---- */

enum { VALUES, COUNT, INVERSE, COUNTS, UNIQUE_OUTPUTS };
enum { PLACES, HOW_MANY, NONZERO_OUTPUTS };

static tn_node *room(tn_ctx *c, const tn__call *k) { /* data: where results go; i[1]: at most so many */
  if (!k->data) tn__fail(c, TN_EINVAL, "there is no place for a result: all are NULL");
  return tn__dim_in(c, k->i[1]);
}

/* How many are chosen, by what brings them to the front, if that is computed */
static tn_node *how_many(tn_ctx *c, const tn__chosen *k, const tn_node *most) {
  tn__partition p;
  return k->front && are_parted(c, k, most, &p) ? tn__cast(c, p.count, TN_I64) : tn__chosen_count(c, k);
}

static tn_node *unique(tn_ctx *c, tn__call *k) { /* i[0]: which output, i[2]: is INVERSE one, i[3]: are VALUES, and they
                                                  * alone of what has elements; f: fill */
  tn_node *x = k->x[0], *most = room(c, k);
  tn__want(c, x, TN__C_ANY);
  tn__literal(c, x->dtype, k->f[0]); /* whatever is asked for, it must fit */
  tn__chosen all = tn__choose_distinct(c, x, k->i[2] != 0);
  all.front = k->i[3] != 0;
  switch (k->i[0]) {
  case VALUES: return tn__distinct_values(c, &all, x, most, k->f[0]);
  case COUNT: return how_many(c, &all, most);
  case INVERSE: return tn__distinct_inverse(c, &all, x);
  default: return tn__distinct_counts(c, &all, most);
  }
}

static tn_node *nonzero(tn_ctx *c, tn__call *k) { /* i[0]: which output, i[2]: fill, i[3]: are PLACES one */
  tn_node *x = k->x[0], *most = room(c, k);
  tn__want(c, x, TN__C_ANY);
  tn__chosen all = tn__choose_nonzero(c, x);
  all.front = k->i[3] != 0;
  return k->i[0] == PLACES ? tn__nonzero_places(c, &all, x, most, k->i[2]) : how_many(c, &all, most);
}

tn_status tn_unique(tn_tensor *t, tn_dim most, double fill, tn_tensor **values, tn_tensor **count, tn_tensor **inverse,
                    tn_tensor **counts) {
  tn_tensor **out[UNIQUE_OUTPUTS] = {[VALUES] = values, [COUNT] = count, [INVERSE] = inverse, [COUNTS] = counts};
  tn__call call = {.name = "tn_unique",
                   .fn = unique,
                   .in = &t,
                   .nin = 1,
                   .i = {0, most, inverse != NULL, values && !inverse && !counts},
                   .f = {fill}};
  return tn__do_each(&call, out, UNIQUE_OUTPUTS);
}

tn_status tn_nonzero(tn_tensor *t, tn_dim most, int64_t fill, tn_tensor **places, tn_tensor **count) {
  tn_tensor **out[NONZERO_OUTPUTS] = {[PLACES] = places, [HOW_MANY] = count};
  tn__call call = {.name = "tn_nonzero", .fn = nonzero, .in = &t, .nin = 1, .i = {0, most, fill, places != NULL}};
  return tn__do_each(&call, out, NONZERO_OUTPUTS);
}
