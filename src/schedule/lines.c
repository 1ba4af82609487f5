/* Scatters along an axis: the places to which the updates of a line may go are that line's, and only its number along
 * the axis comes from memory.  The front end makes one flat number of all that; here it is taken apart again, which
 * shows that a place need not ask the updates of other lines. */
#include "schedule/fuse.h"
#include "tensor/operands.h"

/* A sum of counters of axes, each with its step, and one number that is none */
typedef struct flat {
  int64_t step[TN_MAX_RANK];
  tn_node *number;
  int64_t number_step;
} flat;

static const tn_node *below_moves(const tn_node *x) {
  while (tn__ops[x->op].group == G_MOVE) x = x->src[0];
  return x;
}

/* Is it one constant everywhere? */
static bool is_splat(const tn_node *x, int64_t *value) {
  const tn_node *from = x;
  while (from->op == OP_EXPAND || from->op == OP_RESHAPE) from = from->src[0];
  *value = from->lo;
  return from->op == OP_CONST && tn__is_int(x->dtype);
}

/* The axis along which it counts its places from 0 on; -1: it does not */
static int counted(const tn_node *x) {
  int axis = x->rank == 1 ? 0 : -1;
  const tn_node *from = below_moves(x);
  if (from->op != OP_IOTA) return -1;
  for (; x != from; x = x->src[0]) {
    if (x->op == OP_EXPAND) continue;
    if (x->op != OP_RESHAPE || x->src[0] != from) return -1;
    axis = -1;
    for (uint32_t i = 0; i < x->rank; i++)
      if (!tn__is_int_const(x->dim[i], 1)) {
        if (axis >= 0 || x->dim[i] != from->dim[0]) return -1;
        axis = (int)i;
      }
  }
  return axis;
}

/* One term of so many times x */
/* a choice: no is right */
static bool take_term(tn_node *x, int64_t step, flat *f) {
  int axis = counted(x);
  if (x->lo == 0 && x->hi == 0) return true;
  if (axis >= 0) {
    if (f->step[axis]) return false;
    f->step[axis] = step;
    return true;
  }
  if (f->number) return false;
  f->number = x;
  f->number_step = step;
  return true;
}

/* False: there is more than one number, or it is not of this form. */
/* a choice: no is right */
static bool take_apart(tn_node *sum, flat *f) {
  enum { MOST = 2 * TN_MAX_RANK };
  tn_node *term[MOST] = {sum};
  int64_t step[MOST] = {1}, by;
  for (uint32_t n = 1; n;) {
    tn_node *x = term[--n];
    int side = x->op != OP_MUL ? -1 : is_splat(x->src[0], &by) ? 0 : is_splat(x->src[1], &by) ? 1 : -1;
    if (x->op == OP_ADD) {
      if (n + 2 > MOST) return false;
      term[n] = x->src[0], term[n + 1] = x->src[1];
      step[n + 1] = step[n];
      n += 2;
    } else if (side >= 0) {
      if (by <= 0 || __builtin_mul_overflow(step[n], by, &step[n])) return false;
      term[n++] = x->src[!side];
    } else if (!take_term(x, step[n], f)) {
      return false;
    }
  }
  return f->number;
}

/* Are both comparisons that hold for numbers from 0 up to below `end`, and for no other? */
/* a choice: no is right */
static bool holds_inside(const tn_node *x, const tn_node *number, int64_t end) {
  int64_t first, limit;
  if (x->op != OP_AND) return false;
  for (int side = 0; side < 2; side++) {
    const tn_node *low = x->src[side], *high = x->src[!side];
    if (low->op == OP_LE && high->op == OP_LT && low->src[1] == number && high->src[0] == number &&
        is_splat(low->src[0], &first) && is_splat(high->src[1], &limit) && first == 0 && limit == end)
      return true;
  }
  return false;
}

/* What is held between bounds that change none of the numbers from 0 up to below `end` */
static tn_node *unbound(tn_node *x, int64_t end) {
  int64_t by;
  while (x->op == OP_MIN || x->op == OP_MAX) {
    int side = is_splat(x->src[0], &by) ? 0 : 1;
    if ((side && !is_splat(x->src[1], &by)) || (x->op == OP_MIN ? by < end - 1 : by > 0)) break;
    x = x->src[!side];
  }
  return x;
}

/* Are the steps those of lines along the axis, of a tensor that has so many places in all? */
/* a choice: no is right */
static bool is_along(const flat *f, const int64_t *size, uint32_t rank, uint32_t axis, int64_t all, tn__lines *out) {
  int64_t step = 1;
  *out = (tn__lines){.places = all, .inner = 1, .updates = size[axis]};
  for (uint32_t i = 0; i < rank; i++)
    if (i != axis) out->places /= size[i];
  for (uint32_t i = rank; i && i--;) {
    if ((i == axis ? f->number_step : f->step[i]) != step && (i == axis || size[i] > 1)) return false;
    if (i == axis) out->inner = step;
    step *= i == axis ? out->places : size[i];
  }
  if (f->step[axis] || step != all || f->number->lo < 0 || f->number->hi >= out->places) return false;
  out->outer = all / out->places / out->inner;
  return true;
}

tn_node *tn__scatter_places(const tn_node *n) {
  tn_node *to = n->src[1], *bare;
  int64_t places, nowhere;
  if (!tn__const_int(n->dim[0], &places) || places < 1) return to;
  if (to->op != OP_WHERE || !is_splat(to->src[2], &nowhere) || nowhere >= 0) return to;
  bare = unbound(to->src[1], places);
  return holds_inside(to->src[0], bare, places) ? bare : to;
}

bool tn__scatter_lines(tn_ctx *c, const tn_node *n, tn__lines *out) {
  tn_node *to = n->src[1], *inside = NULL, *sum = to;
  int64_t places, size[TN_MAX_RANK], nowhere;
  uint32_t axis = 0;
  flat f = {.number = NULL};
  if (n->rank != 1 || to->rank < 2 || !tn__const_int(n->dim[0], &places) || places < 1) return false;
  for (uint32_t i = 0; i < to->rank; i++)
    if (!tn__const_int(to->dim[i], &size[i]) || size[i] < 1) return false;
  if (to->op == OP_WHERE && is_splat(to->src[2], &nowhere) && nowhere < 0) inside = to->src[0], sum = to->src[1];
  if (!take_apart(sum, &f) || sum->lo < 0 || sum->hi >= places) return false; /* so that none has wrapped */
  while (axis < to->rank && !is_along(&f, size, to->rank, axis, places, out)) axis++;
  if (axis == to->rank) return false;
  out->number = f.number;
  tn_node *bare = unbound(f.number, out->places);
  if (inside && holds_inside(inside, bare, out->places)) out->number = bare;
  else if (inside) out->number = tn__where(c, inside, f.number, tn__literal_like(c, f.number, -1));
  return true;
}
