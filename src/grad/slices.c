/* The gradient of a tensor that is used slice by slice, as in an unrolled loop.
 *
 * <x[a:b], g> = <x, g between zeros>, so the sum over n slices is one of n tensors of x's size.  Slices that do not
 * overlap meet in no element: such a sum is their concatenation, with zeros where no slice is. */
#include "grad/adjoint.h"
#include "tensor/operands.h"
#include <stdlib.h>

bool tn__slice_of(const tn_node *n, tn_node *g, tn__slice *out) {
  int axes = 0;
  if (n->op != OP_SHRINK) return false;
  const tn_node *x = n->src[0];
  for (uint32_t a = 0; a < x->rank; a++) {
    int64_t begin, size, whole;
    if (n->dim[a] == x->dim[a] && tn__is_int_const(n->src[1 + a], 0)) continue;
    if (n->ints[a] != 1 || !tn__const_int(n->src[1 + a], &begin) || !tn__const_int(n->dim[a], &size) ||
        !tn__const_int(x->dim[a], &whole))
      return false;
    *out = (tn__slice){.slice = n, .g = g, .axis = a, .begin = begin, .end = begin + size};
    axes++;
  }
  return axes == 1 && out->begin < out->end;
}

static int by_begin(const void *x, const void *y) {
  const tn__slice *a = x, *b = y;
  if (a->axis != b->axis) return a->axis < b->axis ? -1 : 1;
  if (a->begin != b->begin) return a->begin < b->begin ? -1 : 1;
  return a->slice->serial < b->slice->serial ? -1 : a->slice->serial > b->slice->serial;
}

static void add_zeros(tn_ctx *c, const tn_node *x, uint32_t axis, int64_t n, tn__nodes *part) {
  tn__dims shape = tn__dims_of(x);
  if (!n) return;
  shape.d[axis] = tn__int(c, n);
  tn_node *zeros = tn__scalar_to(c, tn__const_num(c, x->dtype, 0), shape.d, shape.rank);
  tn__vec_push(&c->scratch, part, zeros);
}

/* Slices that follow each other along their axis */
typedef tn__vec(tn__slice) row;

static tn_node *join_row(tn_ctx *c, tn_node *x, const row *r) {
  tn__nodes part = {0};
  uint32_t axis = r->v[0].axis;
  int64_t at = 0;
  if (r->n == 1) return tn__adjoint(c, (tn_node *)(uintptr_t)r->v[0].slice, 0, r->v[0].g);
  for (uint32_t i = 0; i < r->n; at = r->v[i++].end) {
    add_zeros(c, x, axis, r->v[i].begin - at, &part);
    tn__vec_push(&c->scratch, &part, r->v[i].g);
  }
  add_zeros(c, x, axis, x->dim[axis]->ints[0] - at, &part);
  return part.n == 1 ? part.v[0] : tn__join(c, part.v, (int)part.n, axis);
}

tn_node *tn__gradient_of_slices(tn_ctx *c, tn_node *x, tn__slice *s, uint32_t n) {
  tn__vec(row) rows = {0};
  tn_node *sum = NULL;
  qsort(s, n, sizeof *s, by_begin);
  for (uint32_t i = 0, first = 0; i < n; i++) { /* into the first row that has ended; rows of one axis stand together */
    if (i && s[i].axis != s[i - 1].axis) first = rows.n;
    uint32_t to = first;
    while (to < rows.n && rows.v[to].v[rows.v[to].n - 1].end > s[i].begin) to++;
    if (to == rows.n) tn__vec_push(&c->scratch, &rows, ((row){0}));
    tn__vec_push(&c->scratch, &rows.v[to], s[i]);
  }
  for (uint32_t i = 0; i < rows.n; i++) {
    tn_node *part = join_row(c, x, &rows.v[i]);
    sum = sum ? tn__add(c, sum, part) : part;
  }
  return sum;
}
