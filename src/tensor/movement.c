/* Shapes: views, slices, joining and repeating. */
#include "tensor/operands.h"
#include <stdlib.h>

/* ---- reshape and its kin ---- */

static tn_node *reshape(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  const tn_dim *shape = k->p;
  int rank = (int)k->i[0], open = -1;
  if (rank < 0 || rank > TN_MAX_RANK) tn__fail(c, TN_ESHAPE, "rank %d is outside 0..%d", rank, TN_MAX_RANK);
  if (rank && !shape) tn__fail(c, TN_EINVAL, "the shape is NULL but its rank is %d", rank);
  tn__dims to = {.rank = (uint32_t)rank};
  tn_node *known = tn__int(c, 1), *have = tn__numel(c, x);
  for (int i = 0; i < rank; i++) {
    if (shape[i] == -1 && open >= 0) tn__fail(c, TN_EINVAL, "two sizes are -1");
    if (shape[i] == -1) {
      open = i;
    } else {
      to.d[i] = tn__dim_in(c, shape[i]);
      known = tn__mul(c, known, to.d[i]);
    }
  }
  if (open >= 0) {
    if (tn__is_int_const(known, 0)) tn__fail(c, TN_ESHAPE, "a size of -1 beside a size of 0 is ambiguous");
    to.d[open] = tn__op2(c, OP_IDIV, have, known);
    known = tn__mul(c, known, to.d[open]);
  }
  if (!tn__size_common(c, have, known)) {
    if (open >= 0) to.d[open] = tn__int(c, 1);
    tn__fail(c, TN_ESHAPE, "%s cannot have shape %s%s", tn__text(c, x), tn__dims_text(c, to.d, to.rank),
             open >= 0 ? " times something" : ": the number of elements differs");
  }
  return tn__reshape(c, x, to.d, to.rank);
}

static tn_node *flatten(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  if (!x->rank) return tn__add_axis(c, x, 0);
  uint32_t first = tn__axis(c, (int)k->i[0], x->rank), last = tn__axis(c, (int)k->i[1], x->rank);
  if (first > last) tn__fail(c, TN_EINVAL, "axis %d comes after axis %d", (int)first, (int)last);
  return tn__merge_axes(c, x, first, last - first + 1);
}

static tn_node *squeeze(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  int64_t axes[TN_MAX_RANK];
  uint32_t n = tn__axes(c, k->p, (int)k->i[0], x->rank, axes);
  tn__dims to = {0};
  for (uint32_t i = 0, j = 0; i < x->rank; i++) {
    bool listed = j < n && axes[j] == i;
    j += listed;
    if (listed && k->p && !tn__size_common(c, x->dim[i], tn__int(c, 1)))
      tn__fail(c, TN_ESHAPE, "axis %d of %s is not of size 1", (int)i, tn__text(c, x));
    if (listed && k->p) x = tn__axis_as(c, x, i, tn__int(c, 1));
    bool one = tn__is_int_const(x->dim[i], 1);
    if (!listed || !one) to.d[to.rank++] = x->dim[i];
  }
  return tn__reshape(c, x, to.d, to.rank);
}

static tn_node *unsqueeze(tn_ctx *c, tn__call *k) {
  return tn__add_axis(c, k->x[0], tn__axis(c, (int)k->i[0], k->x[0]->rank + 1u));
}

static tn_node *permute(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  const int *axes = k->p;
  int64_t perm[TN_MAX_RANK], sorted[TN_MAX_RANK];
  if (k->i[0] != x->rank) tn__fail(c, TN_EINVAL, "%d axes are given for %s", (int)k->i[0], tn__text(c, x));
  tn__axes(c, axes, x->rank, x->rank, sorted); /* each once */
  for (uint32_t i = 0; i < x->rank; i++) perm[i] = tn__axis(c, axes[i], x->rank);
  return tn__permute(c, x, perm);
}

static tn_node *transpose(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  int64_t perm[TN_MAX_RANK];
  uint32_t a = tn__axis(c, (int)k->i[0], x->rank), b = tn__axis(c, (int)k->i[1], x->rank);
  for (uint32_t i = 0; i < x->rank; i++) perm[i] = i == a ? b : i == b ? a : i;
  return tn__permute(c, x, perm);
}

static tn_node *expand(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  const tn_dim *shape = k->p;
  int rank = (int)k->i[0];
  tn_dim filled[TN_MAX_RANK];
  tn__dims to;
  bool open[TN_MAX_RANK] = {false};
  for (int i = 0; shape && i < rank && i < TN_MAX_RANK; i++) {
    open[i] = shape[i] == -1;
    filled[i] = open[i] ? 1 : shape[i];
  }
  tn__shape_in(c, shape ? filled : NULL, rank, &to);
  for (uint32_t i = 0; i < to.rank; i++) {
    if (!open[i]) continue;
    if (i + x->rank < to.rank) tn__fail(c, TN_EINVAL, "-1 at axis %d, where %s has no axis", (int)i, tn__text(c, x));
    to.d[i] = x->dim[i + x->rank - to.rank];
  }
  return tn__spread(c, x, &to);
}

static tn_node *flip(tn_ctx *c, tn__call *k) {
  int64_t axes[TN_MAX_RANK];
  uint32_t n = tn__axes(c, k->p, (int)k->i[0], k->x[0]->rank, axes);
  return n ? tn__flip(c, k->x[0], axes, n) : k->x[0];
}

#define MOVE(name_, params, writable, ...)                                                                             \
  tn_tensor *tn_##name_ params {                                                                                       \
    return tn__build(&(tn__call){.name = "tn_" #name_, .fn = name_, .in = &t, .nin = 1, .view = writable,              \
        __VA_ARGS__});                                                                                                 \
  }
MOVE(reshape, (tn_tensor * t, const tn_dim *shape, int rank), true, .p = shape, .i = {rank})
MOVE(flatten, (tn_tensor * t, int first, int last), true, .i = {first, last})
MOVE(squeeze, (tn_tensor * t, const int *axes, int naxes), true, .p = axes, .i = {naxes})
MOVE(unsqueeze, (tn_tensor * t, int axis), true, .i = {axis})
MOVE(permute, (tn_tensor * t, const int *axes, int naxes), true, .p = axes, .i = {naxes})
MOVE(transpose, (tn_tensor * t, int a, int b), true, .i = {a, b})
MOVE(expand, (tn_tensor * t, const tn_dim *shape, int rank), false, .p = shape, .i = {rank})
MOVE(flip, (tn_tensor * t, const int *axes, int naxes), true, .p = axes, .i = {naxes})

/* ---- cutting and padding ---- */

static tn_node *pad(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0], *lohi[2 * TN_MAX_RANK];
  const tn_dim *sizes = k->p;
  if (x->rank && !sizes) tn__fail(c, TN_EINVAL, "lohi is NULL");
  for (uint32_t i = 0; i < 2u * x->rank; i++) lohi[i] = tn__dim_in(c, sizes[i]);
  tn_node *padded = tn__pad(c, x, lohi), *value = tn__literal(c, x->dtype, k->f[0]);
  if (padded == x || k->f[0] == 0) return padded;
  tn_node *inside = tn__pad(c, tn__scalar_to(c, tn__const_bits(c, TN_BOOL, 1), x->dim, x->rank), lohi);
  return tn__where(c, inside, padded, tn__scalar_to(c, value, padded->dim, padded->rank));
}

static tn_node *shrink(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  tn__dims begin, size;
  tn__shape_in(c, k->p, x->rank, &begin);
  tn__shape_in(c, k->data, x->rank, &size);
  return tn__shrink(c, x, begin.d, size.d, NULL);
}

/* x[begin : begin + size*step : step] along one axis */
static tn_node *cut(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *begin, tn_node *size, int64_t step) {
  tn__dims b = tn__dims_of(x), s = b;
  int64_t steps[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    b.d[i] = i == axis ? begin : tn__int(c, 0);
    s.d[i] = i == axis ? size : x->dim[i];
    steps[i] = i == axis ? step : 1;
  }
  return tn__shrink(c, x, b.d, s.d, steps);
}

/* A place on an axis of size n, as Python clamps it to lo..hi. */
static tn_node *clamp_place(tn_ctx *c, tn_dim v, tn_node *n, tn_node *lo, tn_node *hi) {
  if (v == INT64_MAX) return hi;
  if (v == INT64_MIN) return lo;
  tn_node *at = v >= 0 || tn_dim_is_symbolic(v) ? tn__dim_in(c, v) : tn__add(c, n, tn__int(c, v));
  return tn__op2(c, OP_MAX, lo, tn__op2(c, OP_MIN, at, hi));
}

static tn_node *slice(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  uint32_t axis = tn__axis(c, (int)k->i[0], x->rank);
  int64_t step = k->i[3], most = INT64_C(1) << 40; /* longer than any axis: keeps the arithmetic below in 64 bits */
  if (step == 0) tn__fail(c, TN_EINVAL, "the step is 0");
  bool back = step < 0;
  int64_t stride = step > most || step < -most ? most : llabs(step);
  tn_node *n = x->dim[axis], *lo = tn__int(c, back ? -1 : 0), *hi = tn__add(c, n, lo);
  tn_node *start = clamp_place(c, k->i[1], n, lo, hi), *stop = clamp_place(c, k->i[2], n, lo, hi);
  tn_node *span = back ? tn__sub(c, start, stop) : tn__sub(c, stop, start);
  tn_node *count = tn__op2(c, OP_IDIV, tn__add(c, span, tn__int(c, stride - 1)), tn__int(c, stride));
  count = tn__op2(c, OP_MAX, tn__int(c, 0), count);
  if (tn__is_int_const(count, 0)) return cut(c, x, axis, count, count, 1);
  if (!back) return cut(c, x, axis, start, count, stride);
  tn_node *reach = tn__mul(c, tn__add(c, count, tn__int(c, -1)), tn__int(c, stride));
  int64_t flipped = axis;
  return tn__flip(c, cut(c, x, axis, tn__sub(c, start, reach), count, stride), &flipped, 1);
}

static tn_node *select_(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  uint32_t axis = tn__axis(c, (int)k->i[0], x->rank);
  int64_t index = k->i[1], size;
  if (tn__const_int(x->dim[axis], &size) && (index < -size || index >= size))
    tn__fail(c, TN_EINVAL, "index %lld is out of range for axis %d of %s", (long long)index, (int)axis, tn__text(c, x));
  tn_node *at = index < 0 ? tn__add(c, x->dim[axis], tn__int(c, index)) : tn__int(c, index);
  return tn__drop_axis(c, cut(c, x, axis, at, tn__int(c, 1), 1), axis);
}

static tn_node *part(tn_ctx *c, tn__call *k) { /* i: axis, parts, which */
  tn_node *x = k->x[0];
  uint32_t axis = tn__axis(c, (int)k->i[0], x->rank);
  tn_node *parts = tn__int(c, k->i[1]), *n = x->dim[axis];
  if (!k->data) tn__fail(c, TN_EINVAL, "out is NULL");
  tn_node *size = tn__op2(c, OP_IDIV, n, parts), *all = tn__mul(c, size, parts);
  if (k->i[1] < 1 || !tn__size_common(c, n, all))
    tn__fail(c, TN_ESHAPE, "axis %d of %s does not split into %d equal parts", (int)axis, tn__text(c, x), (int)k->i[1]);
  x = tn__axis_as(c, x, axis, all);
  return cut(c, x, axis, tn__mul(c, size, tn__int(c, k->i[2])), size, 1);
}

static tn_node *unfold(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  uint32_t axis = tn__axis(c, (int)k->i[0], x->rank);
  if (k->i[1] < 1 || k->i[2] < 1 || k->i[3] < 1)
    tn__fail(c, TN_EINVAL, "size %lld, stride %lld and dilation %lld must be at least 1", (long long)k->i[1],
             (long long)k->i[2], (long long)k->i[3]);
  tn_node *w = tn__window(c, x, axis, k->i[1], k->i[2], k->i[3]);
  if (tn__is_int_const(w->dim[axis], 0))
    tn__fail(c, TN_ESHAPE, "a window of %lld with dilation %lld does not fit axis %d of %s", (long long)k->i[1],
             (long long)k->i[3], (int)axis, tn__text(c, x));
  return w;
}

/* The part of the last two axes where rows + k <= columns (upper), or the rest of what the other keeps. */
static tn_node *triangle(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  if (x->rank < 2) tn__fail(c, TN_ESHAPE, "needs at least two axes, not %s", tn__text(c, x));
  tn__dims matrix = {.rank = 2, .d = {x->dim[x->rank - 2], x->dim[x->rank - 1]}}, all = tn__dims_of(x);
  tn_node *row = tn__place(c, &matrix, 0), *col = tn__place(c, &matrix, 1);
  row = tn__add(c, row, tn__scalar_to(c, tn__const_bits(c, TN_I64, (uint64_t)k->i[0]), row->dim, 2));
  tn_node *kept = k->i[1] ? tn__op2(c, OP_LE, row, col) : tn__op2(c, OP_LE, col, row);
  return tn__where(c, tn__spread(c, kept, &all), x, tn__literal_like(c, x, 0));
}

MOVE(pad, (tn_tensor * t, const tn_dim *lohi, double value), false, .p = lohi, .f = {value})
MOVE(shrink, (tn_tensor * t, const tn_dim *begin, const tn_dim *size), true, .p = begin, .data = size)
MOVE(slice, (tn_tensor * t, int axis, tn_dim start, tn_dim stop, int64_t step), true, .i = {axis, start, stop, step})
MOVE(unfold, (tn_tensor * t, int axis, int64_t size, int64_t stride, int64_t dilation), false,
     .i = {axis, size, stride, dilation})

tn_tensor *tn_select(tn_tensor *t, int axis, int64_t index) {
  return tn__build(
      &(tn__call){.name = "tn_select", .fn = select_, .in = &t, .nin = 1, .view = true, .i = {axis, index}});
}

/* A diagonal that is beyond every matrix, from where no sum with a place wraps */
static int64_t clamped(int64_t k) {
  return k > INT64_MAX / 2 ? INT64_MAX / 2 : k < -(INT64_MAX / 2) ? -(INT64_MAX / 2) : k;
}

tn_tensor *tn_tril(tn_tensor *t, int64_t k) {
  return tn__build(&(tn__call){.name = "tn_tril", .fn = triangle, .in = &t, .nin = 1, .i = {clamped(k), 0}});
}
tn_tensor *tn_triu(tn_tensor *t, int64_t k) {
  return tn__build(&(tn__call){.name = "tn_triu", .fn = triangle, .in = &t, .nin = 1, .i = {clamped(k), 1}});
}

tn_status tn_split(tn_tensor *t, int parts, int axis, tn_tensor **out) {
  for (int i = 0; i < parts || i == 0; i++) { /* parts < 1 reports itself */
    tn__call k = {.name = "tn_split", .fn = part, .in = &t, .nin = 1, .view = true, .data = out, .i = {axis, parts, i}};
    tn_status status = tn__do(&k);
    if (status) return status;
    out[i] = k.out;
  }
  return TN_OK;
}

/* ---- joining ---- */

/* Each element is taken from the operand whose span holds its place; adding padded operands would lose the sign of
 * zeros.  The choices form a tree, halved at each step, so that its depth (and that of its gradients) is the logarithm
 * of the number of operands. */
tn_node *tn__join(tn_ctx *c, tn_node **x, int n, uint32_t axis) {
  tn__promote(c, x, n);
  tn_node **begin = tn__alloc(c, ((size_t)n + 1) * sizeof *begin);
  begin[0] = tn__int(c, 0);
  tn__dims shape = tn__dims_of(x[0]);
  for (int i = 0; i < n; i++) {
    bool fits = x[i]->rank == x[0]->rank;
    for (uint32_t a = 0; fits && a < x[0]->rank; a++)
      fits = a == axis || (shape.d[a] = tn__size_common(c, shape.d[a], x[i]->dim[a]));
    if (!fits)
      tn__fail(c, TN_ESHAPE, "%s and %s differ beside axis %d", tn__text(c, x[0]), tn__text(c, x[i]), (int)axis);
    begin[i + 1] = tn__add(c, begin[i], x[i]->dim[axis]);
  }
  for (int i = 0; i < n; i++) {
    shape.d[axis] = x[i]->dim[axis];
    x[i] = tn__taken_as(c, x[i], shape.d, shape.rank);
  }
  shape.d[axis] = begin[n];
  tn_node *place = tn__place(c, &shape, axis), **part = tn__alloc(c, (size_t)n * sizeof *part);
  for (int i = 0; i < n; i++) {
    tn_node *lohi[2 * TN_MAX_RANK];
    for (uint32_t a = 0; a < shape.rank; a++) {
      lohi[2 * a] = a == axis ? begin[i] : tn__int(c, 0);
      lohi[2 * a + 1] = a == axis ? tn__sub(c, begin[n], begin[i + 1]) : tn__int(c, 0);
    }
    part[i] = tn__pad(c, x[i], lohi);
  }
  for (int width = 1; width < n; width *= 2) /* part[i] becomes the choice among parts i .. i + 2 * width - 1 */
    for (int i = 0; i + width < n; i += 2 * width) {
      tn_node *end = tn__scalar_to(c, tn__dim_value(c, begin[i + width], TN_I64), shape.d, shape.rank);
      part[i] = tn__where(c, tn__op2(c, OP_LT, place, end), part[i], part[i + width]);
    }
  return part[0];
}

static tn_node **operands(tn_ctx *c, const tn__call *k) {
  if (k->nin < 1) tn__fail(c, TN_EINVAL, "there is no tensor");
  tn_node **x = tn__alloc(c, (size_t)k->nin * sizeof *x);
  for (int i = 0; i < k->nin; i++) x[i] = k->in[i]->node;
  return x;
}

static tn_node *concatenate(tn_ctx *c, tn__call *k) {
  tn_node **x = operands(c, k);
  return tn__join(c, x, k->nin, tn__axis(c, (int)k->i[0], x[0]->rank));
}

static tn_node *stack(tn_ctx *c, tn__call *k) {
  tn_node **x = operands(c, k);
  uint32_t axis = tn__axis(c, (int)k->i[0], x[0]->rank + 1u);
  for (int i = 0; i < k->nin; i++) {
    const tn_node *first = k->in[0]->node;
    x[i] = tn__taken_as(c, x[i], first->dim, first->rank);
    if (!x[i]) tn__fail(c, TN_ESHAPE, "%s and %s differ in shape", tn__text(c, first), tn__text(c, k->in[i]->node));
    x[i] = tn__add_axis(c, x[i], axis);
  }
  return tn__join(c, x, k->nin, axis);
}

tn_tensor *tn_concatenate(tn_tensor *const *t, int n, int axis) {
  return tn__build(&(tn__call){.name = "tn_concatenate", .fn = concatenate, .in = t, .nin = t ? n : 0, .i = {axis}});
}
tn_tensor *tn_stack(tn_tensor *const *t, int n, int axis) {
  return tn__build(&(tn__call){.name = "tn_stack", .fn = stack, .in = t, .nin = t ? n : 0, .i = {axis}});
}

/* ---- repeating ---- */

/* The axis beside a new one of size `times`, which becomes the faster (inner) or the slower of the two, then merged. */
static tn_node *repeated(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *times, bool inner) {
  if (tn__is_int_const(times, 1)) return x;
  uint32_t fresh = inner ? axis + 1 : axis;
  x = tn__add_axis(c, x, fresh);
  tn__dims to = tn__dims_of(x);
  to.d[fresh] = times;
  return tn__merge_axes(c, tn__expand(c, x, to.d), axis, 2);
}

static tn_node *tile(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  tn__dims reps;
  tn__shape_in(c, k->p, (int)k->i[0], &reps);
  while (x->rank < reps.rank) x = tn__add_axis(c, x, 0);
  for (uint32_t i = 0; i < reps.rank; i++) x = repeated(c, x, x->rank - reps.rank + i, reps.d[i], false);
  return x;
}

static tn_node *repeat(tn_ctx *c, tn__call *k) {
  uint32_t axis = tn__axis(c, (int)k->i[1], k->x[0]->rank);
  return repeated(c, k->x[0], axis, tn__dim_in(c, k->i[0]), true);
}

MOVE(tile, (tn_tensor * t, const tn_dim *reps, int n), false, .p = reps, .i = {n})
MOVE(repeat, (tn_tensor * t, tn_dim times, int axis), false, .i = {times, axis})
