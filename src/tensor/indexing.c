/* Indexing by tensors, on gather and scatter, which work along the first axis. */
#include "tensor/operands.h"

static tn_node *index_of(tn_ctx *c, tn_node *idx) {
  if (!tn__is_int(idx->dtype)) tn__fail(c, TN_EDTYPE, "indices must be integers, not %s", tn__text(c, idx));
  return tn__cast(c, idx, TN_I64);
}

/* Axes first .. first+n-1 of x move, together, to begin at `to`. */
static tn_node *move_block(tn_ctx *c, tn_node *x, uint32_t first, uint32_t n, uint32_t to) {
  int64_t perm[TN_MAX_RANK];
  for (uint32_t i = 0, rest = 0; i < x->rank; i++) {
    if (i >= to && i < to + n) {
      perm[i] = first + (i - to);
    } else {
      if (rest == first) rest += n;
      perm[i] = rest++;
    }
  }
  return tn__permute(c, x, perm);
}

static tn_node *take(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0], *idx = index_of(c, k->x[1]);
  uint32_t axis = tn__axis(c, (int)k->i[0], x->rank);
  idx = tn__check_index(c, k->name, idx, x, axis);
  if (x->rank - 1 + idx->rank > TN_MAX_RANK)
    tn__fail(c, TN_ESHAPE, "the result of %s by %s would have more than %d axes", tn__text(c, x), tn__text(c, idx),
             TN_MAX_RANK);
  return move_block(c, tn__gather(c, tn__move_axis(c, x, axis, 0), idx), 0, idx->rank, axis);
}

static tn_node *index_add(tn_ctx *c, tn__call *k) {
  tn_node *base = k->x[0], *idx = index_of(c, k->x[1]), *upd = k->x[2];
  tn__want(c, base, TN__C_NUM);
  uint32_t axis = tn__axis(c, (int)k->i[0], base->rank);
  idx = tn__check_index(c, k->name, idx, base, axis);
  tn__dims want = {.rank = base->rank - 1u + idx->rank};
  for (uint32_t i = 0; i < want.rank && i < TN_MAX_RANK; i++)
    want.d[i] = i < axis ? base->dim[i] : i < axis + idx->rank ? idx->dim[i - axis] : base->dim[i + 1 - idx->rank];
  upd = want.rank == upd->rank ? tn__taken_as(c, upd, want.d, want.rank) : NULL;
  if (!upd)
    tn__fail(c, TN_ESHAPE, "%s does not fit %s taken by %s along axis %d", tn__text(c, k->x[2]), tn__text(c, base),
             tn__text(c, idx), (int)axis);
  if (upd->dtype != base->dtype)
    tn__fail(c, TN_EDTYPE, "%s is added to %s: convert one with tn_cast", tn__text(c, upd), tn__text(c, base));
  tn_node *sum = tn__scatter(c, tn__move_axis(c, base, axis, 0), idx, move_block(c, upd, axis, idx->rank, 0));
  return tn__move_axis(c, sum, 0, axis);
}

/* ---- along an axis: the flat place of each element that idx names ---- */

typedef struct along {
  tn_node *x, *idx;
  tn_node *flat;   /* places in flattened x, of the nearest that is there, */
  tn_node *inside; /* where idx is not outside its axis */
} along;

static along look_along(tn_ctx *c, const tn__call *k) {
  tn_node *x = k->x[0], *idx = index_of(c, k->x[1]), *step = tn__int(c, 1), *flat = NULL;
  uint32_t axis = tn__axis(c, (int)k->i[0], x->rank);
  tn__dims shape = tn__dims_of(x);
  if (idx->rank == x->rank) shape.d[axis] = idx->dim[axis];
  idx = tn__taken_as(c, idx, shape.d, shape.rank);
  if (!idx)
    tn__fail(c, TN_ESHAPE, "%s and indices %s differ beside axis %d", tn__text(c, x), tn__text(c, k->x[1]), (int)axis);
  idx = tn__check_index(c, k->name, idx, x, axis);
  shape = tn__dims_of(idx); /* equal sizes may have other names */
  tn_node *size = tn__scalar_to(c, tn__dim_value(c, x->dim[axis], TN_I64), shape.d, shape.rank);
  tn_node *zero = tn__literal_like(c, idx, 0), *last = tn__op2_num(c, OP_ADD, size, -1);
  tn_node *within = tn__op2(c, OP_MAX, tn__op2(c, OP_MIN, idx, last), zero); /* the place is one, whatever idx is */
  for (uint32_t i = x->rank; i && i--; step = tn__mul(c, step, x->dim[i])) { /* steps of x, numbers of idx */
    tn_node *number = i == axis ? within : tn__place(c, &shape, i);
    tn_node *term = tn__mul(c, number, tn__scalar_to(c, tn__dim_value(c, step, TN_I64), shape.d, shape.rank));
    flat = flat ? tn__add(c, term, flat) : term;
  }
  tn_node *inside = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, idx), tn__op2(c, OP_LT, idx, size));
  return (along){x, idx, flat, inside};
}

static tn_node *take_along_axis(tn_ctx *c, tn__call *k) {
  along a = look_along(c, k);
  tn_node *taken = tn__gather(c, tn__merge_axes(c, a.x, 0, a.x->rank), a.flat);
  return tn__where(c, a.inside, taken, tn__literal_like(c, taken, 0));
}

static tn_node *scatter_add(tn_ctx *c, tn__call *k) {
  along a = look_along(c, k);
  tn_node *upd = k->x[2];
  tn__want(c, a.x, TN__C_NUM);
  upd = tn__taken_as(c, upd, a.idx->dim, a.idx->rank);
  if (!upd)
    tn__fail(c, TN_ESHAPE, "%s has not the shape of the indices %s", tn__text(c, k->x[2]), tn__text(c, k->x[1]));
  if (upd->dtype != a.x->dtype)
    tn__fail(c, TN_EDTYPE, "%s is added to %s: convert one with tn_cast", tn__text(c, k->x[2]), tn__text(c, k->x[0]));
  tn_node *to = tn__where(c, a.inside, a.flat, tn__literal_like(c, a.flat, -1));
  tn_node *flat = tn__scatter(c, tn__merge_axes(c, a.x, 0, a.x->rank), to, upd);
  return tn__reshape(c, flat, a.x->dim, a.x->rank);
}

static tn_node *one_hot(tn_ctx *c, tn__call *k) {
  tn_node *idx = index_of(c, k->x[0]);
  tn__check_dtype(c, (int)k->i[1]);
  tn_node *classes = tn__iota(c, tn__dim_in(c, k->i[0]));
  tn_node *shown = tn__bcast2(c, OP_EQ, tn__add_axis(c, idx, idx->rank), classes);
  idx = tn__check_index(c, k->name, idx, shown, idx->rank);
  return tn__cast(c, tn__bcast2(c, OP_EQ, tn__add_axis(c, idx, idx->rank), classes), (int)k->i[1]);
}

tn_tensor *tn_take(tn_tensor *x, tn_tensor *idx, int axis) {
  return tn__build(&(tn__call){.name = "tn_take", .fn = take, .in = (tn_tensor *[]){x, idx}, .nin = 2, .i = {axis}});
}
tn_tensor *tn_embedding(tn_tensor *table, tn_tensor *idx) {
  return tn__build(&(tn__call){.name = "tn_embedding", .fn = take, .in = (tn_tensor *[]){table, idx}, .nin = 2});
}
tn_tensor *tn_take_along_axis(tn_tensor *x, tn_tensor *idx, int axis) {
  tn_tensor *in[2] = {x, idx};
  return tn__build(&(tn__call){.name = "tn_take_along_axis", .fn = take_along_axis, .in = in, .nin = 2, .i = {axis}});
}
tn_tensor *tn_scatter_add(tn_tensor *base, int axis, tn_tensor *idx, tn_tensor *upd) {
  tn_tensor *in[3] = {base, idx, upd};
  return tn__build(&(tn__call){.name = "tn_scatter_add", .fn = scatter_add, .in = in, .nin = 3, .i = {axis}});
}
tn_tensor *tn_index_add(tn_tensor *base, int axis, tn_tensor *idx, tn_tensor *upd) {
  tn_tensor *in[3] = {base, idx, upd};
  return tn__build(&(tn__call){.name = "tn_index_add", .fn = index_add, .in = in, .nin = 3, .i = {axis}});
}
tn_tensor *tn_one_hot(tn_tensor *idx, tn_dim classes, tn_dtype dtype) {
  return tn__build(
      &(tn__call){.name = "tn_one_hot", .fn = one_hot, .in = &idx, .nin = 1, .i = {classes, (int64_t)dtype}});
}
