/* Joins: what concatenation and stacking become, a tree of choices by place along one axis.
 *
 *   where(lt(place, end), before, behind)
 *
 * As an expression every element would ask every part.  Found here as a list of spans instead, each part can be stored
 * in its place. */
#include "schedule/fuse.h"

enum { MOST_CONDITIONS = 64 }; /* that are looked at to decide one choice */

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
