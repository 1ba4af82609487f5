/* Integers that threads add up at few places: each group adds up its share in shared memory, and then to the places
 * what came together (a histogram of each group's own).  Additions to one line of memory wait for each other all over
 * the device; those to shared memory wait for few. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  ADDED = 4,           /* times as many additions as a group has places: all of those it clears, and adds in the end */
  GROUPS_OF_UNIT = 2,  /* at most, for which it has room; */
  UNITS_OF_GROUP = 4,  /* at least one group for so many: fewer would wait for memory rather than for each other */
  MOST_STEP = 4096,    /* elements of a share are a multiple of so many, or of a power of two that is less: lanes */
  WIDEST = 16          /* of all widths divide them then */
};

typedef struct tally {
  tn_node *add;          /* the STOREADD */
  tn_node *element[TN__MAX_RANGES]; /* its loops */
  uint32_t n;
  int64_t elements, places, groups;
} tally;

/* Is all of it additions of integers of a word, anywhere in a buffer of few elements? */
/* a choice: no is right */
static bool find(tn__lowering *l, tn_node *part, tally *t) {
  tn__survey s;
  uint32_t first;
  tn__survey_loops(l->c, l->a, part, &s);
  tn_node *add = part->nsrc == 1 ? part->src[0] : NULL;
  if (!add || add->op != OP_STOREADD || tn__combines_by(add) != OP_ADD || add->src[0]->op != OP_PARAM || s.reduces ||
      s.running)
    return false;
  size_t size = tn__size_of(add->src[0]->dtype);
  if (!tn__is_int(add->src[0]->dtype) || size != sizeof(int32_t) || !(l->target->adds & size)) return false;
  *t = (tally){.add = add, .elements = 1, .places = add->src[1]->hi + 1};
  tn__closes(add, &first);
  for (uint32_t i = first; i < add->nsrc; i++) {
    int64_t turns;
    if (tn__axis_of(add->src[i]) != AX_LOOP || !tn__const_int(add->src[i]->src[0], &turns)) return false;
    if (turns < 1 || turns > INT32_MAX / t->elements) return false;
    t->element[t->n++] = add->src[i];
    t->elements *= turns;
  }
  for (uint32_t i = 0; i < s.r.order.n; i++)
    if (s.r.order.v[i]->op == OP_LOCAL || s.r.order.v[i]->op == OP_AFTER) return false;
  if (add->src[1]->lo < 0 || t->places > (int64_t)(l->target->shared / size) / GROUPS_OF_UNIT) return false;
  int64_t most = (int64_t)l->target->units * GROUPS_OF_UNIT;
  t->groups = t->elements / (ADDED * t->places);
  if (t->groups > most) t->groups = most;
  return t->n && t->groups > 0 && t->groups * UNITS_OF_GROUP >= l->target->units;
}

/* A loop over the places */
static tn_node *over_places(tn__lowering *l, const tally *t) {
  return tn__fresh_range(l, tn__int(l->c, t->places), AX_LOOP, ROLE_HELD);
}

static tn_node *effect(tn_ctx *c, tn__op op, tn_node *const *src, uint32_t n) {
  return tn__node_make(c, &(tn__make){.op = op, .src = src, .nsrc = n});
}

/* The loop over elements as one over groups around one over each one's share.  The last one's begins earlier, where it
 * would go beyond the end, so that all are whole; what others have, too, it does not add. */
static tn_node *share(tn__lowering *l, tn_node *part, const tally *t, tn_node **group, tn_node **own) {
  tn_ctx *c = l->c;
  tn_node *x = t->element[0];
  if (t->n > 1) part = tn__as_one(l, part, t->element, t->n, AX_LOOP, &x);
  int64_t by = (t->elements + t->groups - 1) / t->groups, step = MOST_STEP;
  while (step > WIDEST && step * 4 > by) step /= 2;
  by = (by + step - 1) / step * step;
  if (by > t->elements) by = t->elements;
  tn_node *cut[2] = {tn__range_like(c, x, tn__int(c, (t->elements + by - 1) / by), AX_LOOP),
                     tn__fresh_range(l, tn__int(c, by), AX_LOOP, tn__role_of(x))};
  tn_node *start = tn__mul(c, cut[0], tn__int(c, by)), *begin = start;
  bool fits = t->elements % by == 0;
  *group = cut[0], *own = cut[1];
  if (!fits) { /* a multiple of what wide loads take, as its form shows */
    int64_t wide = WIDEST;
    while (t->elements % wide) wide /= 2;
    begin = tn__op2(c, OP_MIN, tn__mul(c, cut[0], tn__int(c, by / wide)), tn__int(c, (t->elements - by) / wide));
    begin = tn__mul(c, begin, tn__int(c, wide));
  }
  tn_node *at = tn__add(c, begin, cut[1]);
  part = tn__exchange_ranges(l, part, &x, &at, 1, cut, 2);
  return fits ? part : tn__ignore_beyond(l, part, cut[1], tn__op2(c, OP_LE, start, at));
}

tn_node *tn__tally(tn__lowering *l, tn_node *part) {
  tn_ctx *c = l->c;
  tally t;
  tn_node *group, *own;
  if (l->c->mode == TN_MODE_STRICT || !find(l, part, &t)) return part;
  tn_node *add = share(l, part, &t, &group, &own)->src[0], *gate = tn__gate_of(add), *buf = add->src[0];
  int dtype = buf->dtype;
  tn_node *local = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                                .dtype = dtype,
                                                .src = (tn_node *[]){tn__int(c, t.places), group},
                                                .nsrc = 2,
                                                .ints = (int64_t[]){l->next_local++, TN__OWN_TALLIES},
                                                .nint = 2,
                                                .device = -1});
  tn_node *clear = over_places(l, &t), *end = over_places(l, &t), *zero = tn__const_bits(c, dtype, 0);
  tn_node *sums = tn__filled(c, local, clear, zero, &clear, 1);
  tn_node *src[] = {sums, add->src[1], add->src[2], gate ? gate : own, own};
  sums = tn__behind(c, local, effect(c, OP_STOREADD, src, gate ? 5 : 4));
  tn_node *sum = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){sums, end}, .nsrc = 2});
  tn_node *any = tn__op2(c, OP_NE, sum, zero);
  add = effect(c, OP_STOREADD, (tn_node *[]){buf, end, sum, any, group, end}, 6);
  tn__sb_printf(&l->note, " tally(%lld,%lld)", tn__id_of(own), (long long)t.places);
  return tn__sink(c, &add, 1, part->name);
}
