/* Joins: what concatenation and stacking become, a tree of choices by place along one axis.
 *
 *   where(lt(place, end), before, behind)
 *
 * As an expression every element would ask every part.  Found here as a list of spans instead, each part can be stored
 * in its place. */
#include "schedule/fuse.h"
#include <math.h>

enum {
  MOST_CONDITIONS = 64, /* that are looked at to decide one choice */
  MOST_BETWEEN = 64,    /* nodes between what is stored and a join */
  MOST_MADE = 6,        /* spans of what is made of one: each node between is wanted for each */
  ASKED = 8,  /* multiply-adds that a part takes of an element: whether it is its own, where, and which it then is */
  PLAIN = 8,  /* and those that an element takes in any case */
  LONG_RUN = 64 << 10 /* bytes that are worth a loop of their own to a processor, and waking its threads */
};
static const double AT_ONCE = 0.5; /* of arithmetic and waiting for memory, whichever is less: so much is hidden */

static tn_node *below(tn_node *n) {
  while (n->op == OP_EXPAND || n->op == OP_RESHAPE) n = n->src[0];
  return n;
}

/* Does x hold each element's place along an axis: a counter that all other axes repeat? */
/* a choice: no is right */
static bool is_place(const tn_node *x, uint32_t *axis) {
  const tn_node *line = x->op == OP_EXPAND ? x->src[0] : x, *counter = line->op == OP_RESHAPE ? line->src[0] : line;
  bool found = false;
  if (counter->op != OP_IOTA || line->rank != x->rank) return false;
  for (uint32_t i = 0; i < line->rank; i++) {
    if (tn__is_int_const(line->dim[i], 1)) continue;
    if (found || line->dim[i] != x->dim[i]) return false;
    *axis = i;
    found = true;
  }
  return found;
}

/* Where the places end that p holds for, as an index; NULL if p is not of that form. */
/* a choice: no is right */
static tn_node *end_of(tn_ctx *c, const tn_node *p, uint32_t *axis) {
  if (p->op != OP_LT || !is_place(p->src[0], axis)) return NULL;
  tn_node *end = below(p->src[1]);
  if (end->rank) return NULL;
  if (end->op == OP_CONST) return tn__int(c, end->ints[0]);
  return end->op == OP_CAST && end->src[0]->dtype == TN__INDEX ? end->src[0] : NULL;
}

/* a choice: no is right */
static tn_node *choice(tn_ctx *c, const tn_node *n, uint32_t *axis) {
  return n->op == OP_WHERE ? end_of(c, n->src[0], axis) : NULL;
}

static bool ordered(tn_ctx *c, tn_node *lo, tn_node *hi) { return tn__sub(c, hi, lo)->lo >= 0; }

uint32_t tn__join_spans(tn__fuse *f, tn_node *n, uint32_t *axis, tn__spans *out) {
  tn_ctx *c = f->c;
  tn__spans todo = {0};
  out->n = 0;
  if (!choice(c, n, axis)) return 0;
  tn__vec_push(f->a, &todo, ((tn__span){n, tn__int(c, 0), n->dim[*axis]}));
  while (todo.n) {
    tn__span s = todo.v[--todo.n];
    uint32_t along = 0;
    tn_node *mid = choice(c, s.part, &along);
    if (!mid || along != *axis || !ordered(c, s.begin, mid) || !ordered(c, mid, s.end)) {
      tn__vec_push(f->a, out, s);
      continue;
    }
    tn__vec_push(f->a, &todo, ((tn__span){s.part->src[2], mid, s.end}));
    tn__vec_push(f->a, &todo, ((tn__span){s.part->src[1], s.begin, mid}));
  }
  return out->n;
}

/* Simplification makes one condition of several that must hold: each decides alone if it does not hold. */
int tn__join_branch(tn__fuse *f, tn_node *n, tn_node *const *idx) {
  tn_ctx *c = f->c;
  tn__nodes todo = {0};
  if (n->op != OP_WHERE || (n->src[0]->op != OP_LT && n->src[0]->op != OP_AND)) return 0;
  tn__vec_push(f->a, &todo, n->src[0]);
  bool all = true;
  for (uint32_t i = 0; i < todo.n && i < MOST_CONDITIONS; i++) {
    tn_node *p = todo.v[i];
    uint32_t axis = 0;
    if (p->op == OP_AND) {
      tn__vec_push(f->a, &todo, p->src[0]);
      tn__vec_push(f->a, &todo, p->src[1]);
      continue;
    }
    tn_node *end = end_of(c, p, &axis);
    if (end && ordered(c, end, idx[axis])) return 2;
    all &= end && tn__sub(c, end, idx[axis])->lo > 0;
  }
  return all && todo.n <= MOST_CONDITIONS;
}

/* a choice: NULL is right */
tn_node *tn__join_below(tn__fuse *f, tn_node *n, uint32_t *axis, tn__spans *out) {
  tn__nodes todo = {0};
  tn__map seen;
  tn_node *found = NULL;
  tn__map_init(&seen, f->a);
  tn__vec_push(f->a, &todo, n);
  while (todo.n) {
    tn_node *x = todo.v[--todo.n];
    const tn__info *in = tn__info_of(f, x);
    if (!in || tn__map_getp(&seen, x) || !tn__is_elementwise(x)) continue;
    tn__map_putp(&seen, x, x);
    bool joins = tn__join_spans(f, x, axis, out) > 1;
    if (in->want.n || (x != n && in->must) || seen.n > MOST_BETWEEN || (joins && found)) return NULL;
    if (joins) found = x;
    for (uint32_t s = 0; s < x->nsrc && !joins; s++) tn__vec_push(f->a, &todo, x->src[s]);
  }
  if (found) tn__join_spans(f, found, axis, out);
  return found;
}

/* How far elements of a part go on in memory, on an average, in bytes; 0: they do not */
/* a choice: any is right */
static double run_of(tn__fuse *f, const tn_node *n, uint32_t axis, uint32_t parts) {
  const uint8_t *order = tn__info_of(f, n)->axis;
  double run = (double)tn__size_of(n->dtype) / parts;
  for (uint32_t i = n->rank; i && i--;) {
    uint32_t a = order ? order[i] : i;
    run *= (double)tn__size_guess(n->dim[a]);
    if (a == axis) return run;
  }
  return 0;
}

/* What so much arithmetic takes beside what is moved, in multiply-adds of the device */
/* a choice: any is right */
static double beside(double work, double move) { return fmax(work, move) + (1 - AT_ONCE) * fmin(work, move); }

/* The least share of all places that one of the parts has */
/* a choice: any is right */
static double least_share(tn__fuse *f, const tn__spans *span, double places) {
  double least = places;
  for (uint32_t i = 0; i < span->n; i++)
    least = fmin(least, (double)tn__size_guess(tn__sub(f->c, span->v[i].end, span->v[i].begin)));
  return least / fmax(1, places);
}

/* Is it more than one value up to an end, and a constant beyond? */
/* a choice: either is right */
static bool has_parts(const tn__spans *span) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < span->n; i++) n += below(span->v[i].part)->op != OP_CONST;
  return n > 1;
}

/* Where threads share the loops out, each of them asks for all parts: as many comparisons and places for each element,
 * and what all of the parts are made of; but for constants, which the others' comparisons choose.  Short runs are no
 * loops of their own: several threads would store to each sector.  Processors' vectors ask whether they are of one part
 * alone, and tiles of what lies across are filled whether they are wanted or not: there whatever is long is stored by
 * itself. */
/* a choice: either is right */
bool tn__join_apart(tn__fuse *f, tn_node *n, const tn_node *join, uint32_t axis, const tn__spans *span) {
  const tn__target *t = &f->dev->target;
  double all = tn__numel_guess(n), size = (double)tn__size_of(n->dtype) / sizeof(float),
         launch = tn__target_launch_work(t), places = (double)tn__size_guess(n->dim[axis]),
         common = PLAIN + (double)tn__info_of(f, n)->flops - (double)tn__info_of(f, join)->flops, one = common,
         apart = common;
  if (t->interprets || tn__without_elements(n) || (n != join && span->n > MOST_MADE)) return false;
  if (!t->group)
    return run_of(f, n, axis, 1) * least_share(f, span, places) >= LONG_RUN;
  if (launch <= 0) return false;
  if (run_of(f, n, axis, span->n) < (double)t->access * t->subgroup || !has_parts(span)) return false;
  for (uint32_t i = 0; i < span->n; i++) {
    const tn__span *s = &span->v[i];
    double work = below(s->part)->op == OP_CONST ? 0 : ASKED + (double)tn__info_of(f, s->part)->flops;
    one += work;
    apart += work * (double)tn__size_guess(tn__sub(f->c, s->end, s->begin)) / places;
  }
  double move = 2 * size * (double)t->balance, time = all * beside(apart, move);
  bool joint = t->joins && span->n <= TN__OWN_PARTS && time <= TN__JOINT_LAUNCHES * launch;
  if (!joint) time += (span->n - 1) * launch;
  return time + launch / 2 < all * beside(one, move);
}
