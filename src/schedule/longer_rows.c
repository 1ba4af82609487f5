/* Rows made longer.
 *
 * A product may want rows padded that were made of a product's, by functions of elements and by reductions of rows (a
 * softmax), and that product's rows may have been padded, too (align.c).  Then all that is between is done with the
 * longer rows, so that it stays one kernel, which goes along aligned rows: reductions take what changes nothing for
 * what is beyond the end, and what a product wants is 0 there. */
#include "schedule/fuse.h"
#include "tensor/operands.h"
#include <math.h>

enum { MOST_NODES = 64 }; /* between two products: what takes more, as recurrences and residuals do, is only padded */

typedef struct longer {
  tn_ctx *c;
  tn_node *now, *size; /* of the rows, and what it is to be */
  tn__map made;        /* by node and axis: the longer row, whatever it is beyond the end */
  tn__map *finished;   /* so, with zeros there */
  uint32_t looked_at;
  bool reduces;        /* is a row reduced, or made of one that was? */
} longer;

static tn_node *longer_row(longer *l, tn_node *x, uint32_t axis);

static uint64_t key_of(const tn_node *x, uint32_t axis) { return (uint64_t)(uintptr_t)x * TN_MAX_RANK + axis; }

static tn_node *found(const tn__map *m, const tn_node *x, uint32_t axis) {
  uint64_t at;
  return tn__map_get(m, key_of(x, axis), &at) ? (tn_node *)(uintptr_t)at : NULL;
}

static void dims_with(const tn_node *x, uint32_t axis, tn_node *size, tn_node **dim) {
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i == axis ? size : x->dim[i];
}

static tn_node *with_zeros(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *size) {
  tn_node *lohi[2 * TN_MAX_RANK];
  for (uint32_t i = 0; i < 2u * x->rank; i++) lohi[i] = tn__int(c, 0);
  lohi[2 * axis + 1] = tn__sub(c, size, x->dim[axis]);
  return tn__pad(c, x, lohi);
}

/* A longer row as it is up to n, and y beyond */
static tn_node *up_to(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *n, double y) {
  tn__dims shape = {.rank = x->rank};
  for (uint32_t i = 0; i < x->rank; i++) shape.d[i] = x->dim[i];
  tn_node *at = tn__place(c, &shape, axis);
  tn_node *end = tn__scalar_to(c, tn__cast(c, n, at->dtype), x->dim, x->rank);
  tn_node *beyond = tn__scalar_to(c, tn__const_num(c, x->dtype, y), x->dim, x->rank);
  return tn__where(c, tn__op2(c, OP_LT, at, end), x, beyond);
}

/* What changes nothing */
static double neutral(tn__op reduction) {
  return reduction == OP_SUM ? 0 : reduction == OP_PROD ? 1 : reduction == OP_RMAX ? -INFINITY : INFINITY;
}

/* Is x the sum, or the like, of one of these rows?  There may be others beside them. */
static bool is_of_row(const longer *l, const tn_node *x, uint32_t axis) {
  const tn_node *r = x->op == OP_RESHAPE ? x->src[0] : x;
  return r != x && tn__ops[r->op].group == G_REDUCE && r->rank + 1u == x->rank && r->nint == 1 && r->ints[0] == axis &&
         r->src[0]->dim[axis] == l->now && tn__is_float(r->dtype);
}

static tn_node *with_sources(longer *l, tn_node *x, uint32_t axis, tn_node *(*of)(longer *, tn_node *, uint32_t)) {
  tn_node **src = tn__arena_alloc(&l->c->scratch, (x->nsrc + 1) * sizeof *src);
  for (uint32_t i = 0; i < x->nsrc; i++) src[i] = of(l, x->src[i], axis);
  return tn__node_with(l->c, x, src);
}

/* x, whose axis has size 1, of longer rows */
static tn_node *statistic(longer *l, tn_node *x, uint32_t axis) {
  tn_node *y = found(&l->made, x, axis);
  if (y || l->looked_at++ > MOST_NODES) return y ? y : x;
  y = x;
  if (is_of_row(l, x, axis)) {
    const tn_node *r = x->src[0];
    tn_node *all = up_to(l->c, longer_row(l, r->src[0], axis), axis, l->now, neutral(r->op));
    y = tn__reshape(l->c, tn__reduce(l->c, r->op, all, &(int64_t){axis}, 1), x->dim, x->rank);
    l->reduces = true;
  } else if (tn__is_elementwise(x) || x->op == OP_DETACH) {
    y = with_sources(l, x, axis, statistic);
  }
  tn__map_put(&l->made, key_of(x, axis), (uint64_t)(uintptr_t)y);
  return y;
}

/* A part of something that has rows of the size, from their beginning on */
static bool is_part(const tn_node *x, uint32_t axis, const tn_node *size) {
  return x->op == OP_SHRINK && x->src[0]->dim[axis] == size && tn__is_int_const(x->src[1 + axis], 0) &&
         x->ints[axis] == 1;
}

static tn_node *made_longer(longer *l, tn_node *x, uint32_t axis) {
  tn_node *dim[TN_MAX_RANK];
  dims_with(x, axis, l->size, dim);
  if (is_part(x, axis, l->size)) return tn__shrink(l->c, x->src[0], x->src + 1, dim, x->ints);
  if (tn__is_elementwise(x) || x->op == OP_DETACH) return with_sources(l, x, axis, longer_row);
  if (x->op == OP_PERMUTE)
    return tn__permute(l->c, longer_row(l, x->src[0], (uint32_t)x->ints[axis]), x->ints);
  if (x->op == OP_EXPAND) {
    bool one = tn__is_int_const(x->src[0]->dim[axis], 1);
    return tn__expand(l->c, (one ? statistic : longer_row)(l, x->src[0], axis), dim);
  }
  return with_zeros(l->c, x, axis, l->size);
}

static tn_node *longer_row(longer *l, tn_node *x, uint32_t axis) {
  tn_node *y = found(&l->made, x, axis), *whole = found(l->finished, x, axis);
  if (whole && whole->dim[axis] == l->size) y = whole, l->reduces = true;
  if (y) return y;
  y = l->looked_at++ > MOST_NODES ? with_zeros(l->c, x, axis, l->size) : made_longer(l, x, axis);
  tn__map_put(&l->made, key_of(x, axis), (uint64_t)(uintptr_t)y);
  return y;
}

tn_node *tn__longer_rows(tn_ctx *c, tn__map *finished, tn_node *x, uint32_t axis, tn_node *size) {
  longer l = {.c = c, .now = x->dim[axis], .size = size, .finished = finished};
  tn_node *dim[TN_MAX_RANK];
  if (x->dim[axis] == size) return x;
  if (x->op == OP_PERMUTE)
    return tn__permute(c, tn__longer_rows(c, finished, x->src[0], (uint32_t)x->ints[axis], size), x->ints);
  if (x->op == OP_EXPAND && x->src[0]->dim[axis] == x->dim[axis]) { /* once for all that it is repeated for */
    dims_with(x, axis, size, dim);
    return tn__expand(c, tn__longer_rows(c, finished, x->src[0], axis, size), dim);
  }
  tn__map_init(&l.made, &c->scratch);
  tn_node *y = found(finished, x, axis);
  if (y && y->dim[axis] == size) return y;
  y = longer_row(&l, x, axis);
  if (!l.reduces || l.looked_at > MOST_NODES) return with_zeros(c, x, axis, size);
  y = up_to(c, y, axis, l.now, 0);
  tn__map_put(finished, key_of(x, axis), (uint64_t)(uintptr_t)y);
  return y;
}
