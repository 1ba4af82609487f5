/* Movement ops as index arithmetic: each says where its source is read. */
#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

/* a choice: either is right */
int64_t tn__size_guess(const tn_node *n) {
  int64_t v;
  if (tn__const_int(n, &v)) return v;
  return n->hi > 0 && n->hi < ((int64_t)1 << 40) ? n->hi : 1024;
}

/* a choice: either is right */
double tn__numel_guess(const tn_node *n) {
  double p = 1;
  for (uint32_t i = 0; i < n->rank; i++) p *= (double)tn__size_guess(n->dim[i]);
  return p;
}

tn_node *tn__axis_loop(tn_ctx *c, const tn_node *n, uint32_t axis) {
  return tn__is_int_const(n->dim[axis], 1) ? tn__int(c, 0) : tn__range(c, n->dim[axis], AX_LOOP, ROLE_OUTPUT, axis);
}

tn_node *tn__index_flat(tn_ctx *c, tn_node *const *dim, tn_node *const *idx, uint32_t rank) {
  tn_node *flat = tn__int(c, 0), *stride = tn__int(c, 1);
  for (uint32_t i = rank; i && i--;) {
    flat = tn__add(c, flat, tn__mul(c, idx[i], stride));
    stride = tn__mul(c, stride, dim[i]);
  }
  return tn__simplify_index(c, flat);
}

bool tn__index_affine(tn_ctx *c, tn_node *flat, tn_node *const *r, uint32_t n, tn_node **coef, tn_node **offset) {
  tn_node *zero = tn__int(c, 0), *one = tn__int(c, 1), *at[TN_MAX_RANK], *old[TN_MAX_RANK];
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++)
    if (r[i]->op == OP_RANGE) old[m] = r[i], at[m++] = zero;
  *offset = tn__simplify_index(c, tn__substitute(c, flat, old, at, m));
  tn_node *sum = *offset;
  for (uint32_t i = 0, j = 0; i < n; i++) {
    coef[i] = zero;
    if (r[i]->op != OP_RANGE) continue;
    at[j] = one;
    coef[i] = tn__simplify_index(c, tn__sub(c, tn__substitute(c, flat, old, at, m), *offset));
    at[j++] = zero;
    sum = tn__add(c, sum, tn__mul(c, r[i], coef[i]));
  }
  return tn__simplify_index(c, tn__sub(c, sum, flat)) == zero;
}

static tn_node *both(tn_ctx *c, tn_node *p, tn_node *q) {
  if (!p) return q;
  if (!q) return p;
  return p == q ? p : tn__op2(c, OP_AND, p, q);
}

/* lo <= i < hi as a gate; what the interval already proves is left out */
static tn_node *within(tn_ctx *c, tn_node *i, tn_node *lo, tn_node *hi, tn_node *gate) {
  if (i->lo < lo->hi) {
    tn_node *p = tn__simplify_index(c, tn__op2(c, OP_LE, lo, i));
    if (!tn__is_int_const(p, 1)) gate = both(c, gate, p);
  }
  if (i->hi >= hi->lo) {
    tn_node *p = tn__simplify_index(c, tn__op2(c, OP_LT, i, hi));
    if (!tn__is_int_const(p, 1)) gate = both(c, gate, p);
  }
  return gate;
}

/* One group of output axes that make up one group of source axes: flatten, then split. */
static void regroup(tn_ctx *c, tn_node *const *dim, tn_node *const *idx, uint32_t n, tn_node *const *sdim,
                    tn_node **out, uint32_t sn) {
  if (n == 1 && sn == 1) {
    out[0] = idx[0];
    return;
  }
  tn_node *flat = tn__index_flat(c, dim, idx, n), *inner = tn__int(c, 1);
  uint32_t outermost = 0; /* of those that are not one */
  while (outermost + 1 < sn && tn__is_int_const(sdim[outermost], 1)) outermost++;
  for (uint32_t j = sn; j && j--;) {
    tn_node *q = tn__op2(c, OP_IDIV, flat, inner);
    out[j] = tn__simplify_index(c, j > outermost ? tn__op2(c, OP_MOD, q, sdim[j]) : q);
    if (tn__is_int_const(sdim[j], 1)) out[j] = tn__int(c, 0);
    inner = tn__mul(c, inner, sdim[j]);
  }
}

/* Walks both shapes from the left and regroups where the running products meet, so that axes which a reshape leaves
 * alone stay alone. */
static void through_reshape(tn_ctx *c, tn_node *n, tn_node *const *idx, tn_node **out) {
  tn_node *x = n->src[0];
  uint32_t i = 0, j = 0;
  while (i < n->rank || j < x->rank) {
    uint32_t i0 = i, j0 = j;
    tn_node *p = i < n->rank ? n->dim[i++] : tn__int(c, 1), *q = j < x->rank ? x->dim[j++] : tn__int(c, 1);
    while (p != q && (i < n->rank || j < x->rank)) {
      int64_t a, b;
      bool out_side = j == x->rank || (i < n->rank && tn__const_int(p, &a) && (!tn__const_int(q, &b) || a < b));
      if (out_side) p = tn__mul(c, p, n->dim[i++]);
      else q = tn__mul(c, q, x->dim[j++]);
    }
    while (i < n->rank && tn__is_int_const(n->dim[i], 1)) i++; /* ones go with the group on their left */
    while (j < x->rank && tn__is_int_const(x->dim[j], 1)) j++;
    if (j == j0) continue;
    if (i == i0) {
      for (; j0 < j; j0++) out[j0] = tn__int(c, 0);
      continue;
    }
    uint32_t ni = i - i0, nj = j - j0;
    while (ni > 1 && tn__is_int_const(n->dim[i0 + ni - 1], 1)) ni--;
    while (nj > 1 && tn__is_int_const(x->dim[j0 + nj - 1], 1)) out[j0 + --nj] = tn__int(c, 0);
    regroup(c, n->dim + i0, idx + i0, ni, x->dim + j0, out + j0, nj);
  }
}

static void through_window(tn_ctx *c, tn_node *n, tn_node *const *idx, tn_node **out) {
  int64_t axis = n->ints[0];
  for (uint32_t i = 0, j = 0; i < n->src[0]->rank; i++, j++) {
    out[i] = idx[j];
    if (i == axis) {
      tn_node *at =
          tn__add(c, tn__mul(c, idx[j], tn__int(c, n->ints[2])), tn__mul(c, idx[j + 1], tn__int(c, n->ints[3])));
      out[i] = tn__simplify_index(c, at);
      j++;
    }
  }
}

void tn__index_through(tn_ctx *c, tn_node *n, tn_node *const *idx, tn_node **out, tn_node **gate) {
  tn_node *x = n->src[0];
  uint32_t r = x->rank;
  switch (n->op) {
  case OP_RESHAPE: through_reshape(c, n, idx, out); break;
  case OP_EXPAND:
    for (uint32_t i = 0; i < r; i++) out[i] = x->dim[i] == n->dim[i] ? idx[i] : tn__int(c, 0);
    break;
  case OP_PERMUTE:
    for (uint32_t i = 0; i < r; i++) out[n->ints[i]] = idx[i];
    break;
  case OP_PAD:
    for (uint32_t i = 0; i < r; i++) {
      tn_node *lo = n->src[1 + 2 * i];
      out[i] = idx[i];
      if (n->dim[i] == x->dim[i]) continue;
      *gate = within(c, idx[i], lo, tn__add(c, lo, x->dim[i]), *gate);
      out[i] = tn__simplify_index(c, tn__sub(c, idx[i], lo));
    }
    break;
  case OP_SHRINK:
    for (uint32_t i = 0; i < r; i++) {
      tn_node *at = tn__mul(c, idx[i], tn__int(c, n->nint ? n->ints[i] : 1));
      out[i] = tn__simplify_index(c, tn__add(c, at, n->src[1 + i]));
    }
    break;
  case OP_FLIP:
    for (uint32_t i = 0; i < r; i++) out[i] = idx[i];
    for (uint32_t i = 0; i < n->nint; i++) {
      int64_t ax = n->ints[i];
      out[ax] = tn__simplify_index(c, tn__sub(c, tn__add(c, x->dim[ax], tn__int(c, -1)), idx[ax]));
    }
    break;
  case OP_WINDOW: through_window(c, n, idx, out); break;
  default: /* DETACH, CONTIG, ASSIGN: the same element */
    for (uint32_t i = 0; i < r; i++) out[i] = idx[i];
  }
}

/* ---- folds ---- */

/* The y below m with x * y = 1 modulo m, of x and m that share no divisor: Euclid's algorithm. */
static int64_t inverse(int64_t x, int64_t m) {
  int64_t a = x % m, b = m, ya = 1, yb = 0;
  while (a > 0) {
    int64_t q = b / a, r = b % a, y = yb - q * ya;
    b = a, yb = ya;
    a = r, ya = y;
  }
  return yb < 0 ? yb + m : yb;
}

static int64_t turns_of(int64_t size, int64_t step) { return size / step + (size % step != 0); }

/* Leaps cost divisions, which half of the turns pay for; products of two numbers below a leap do not overflow. */
/* a choice: either is right */
static tn__walk walk_of(bool places, int64_t size, int64_t leap) {
  int64_t turns = turns_of(size, leap);
  bool pays = leap <= INT32_MAX && turns <= size / 2;
  return (tn__walk){.places = places, .by = pays ? leap : 1, .turns = pays ? turns : size};
}

tn__walk tn__fold_walk(const tn_node *n) {
  int64_t stride = n->ints[2], dilation = n->ints[3], size,
          g = (int64_t)tn__gcd((uint64_t)stride, (uint64_t)dilation);
  tn__walk offsets = walk_of(false, n->ints[1], stride / g);
  if (!tn__const_int(n->src[0]->dim[n->ints[0]], &size)) return offsets;
  tn__walk places = walk_of(true, size, dilation / g);
  return places.turns < offsets.turns ? places : offsets;
}

/* With u what is walked, a what one of it is worth, and v and b the other: u * a + v * b = i.  Neither has a divisor in
 * common with the other, once i, a and b are divided by what they share; then u is known modulo b. */
void tn__fold_through(tn_ctx *c, tn_node *n, tn__walk w, tn_node *const *idx, tn_node *turn, tn_node **out,
                      tn_node **gate) {
  int64_t axis = n->ints[0], a = n->ints[w.places ? 2 : 3], b = n->ints[w.places ? 3 : 2],
          g = (int64_t)tn__gcd((uint64_t)a, (uint64_t)b);
  tn_node *x = n->src[0], *zero = tn__int(c, 0), *i = idx[axis], *first = zero,
          *size[2] = {x->dim[axis], x->dim[axis + 1]};
  bool leaps = w.by == b / g;
  if (leaps && g > 1) {
    tn_node *hit = tn__op2(c, OP_EQ, tn__op2(c, OP_MOD, i, tn__int(c, g)), zero);
    *gate = both(c, *gate, tn__simplify_index(c, hit));
    i = tn__op2(c, OP_IDIV, i, tn__int(c, g));
    a /= g, b /= g;
  }
  tn_node *times = tn__int(c, b);
  if (leaps) first = tn__op2(c, OP_MOD, tn__mul(c, tn__op2(c, OP_MOD, i, times), tn__int(c, inverse(a, b))), times);
  tn_node *u = tn__simplify_index(c, tn__add(c, first, tn__mul(c, turn, tn__int(c, w.by))));
  tn_node *left = tn__sub(c, i, tn__mul(c, u, tn__int(c, a))), *v = tn__op2(c, OP_IDIV, left, times);
  if (leaps && a == 1) v = tn__sub(c, tn__op2(c, OP_IDIV, i, times), turn); /* which no rule finds */
  if (!leaps) *gate = both(c, *gate, tn__simplify_index(c, tn__op2(c, OP_EQ, tn__op2(c, OP_MOD, left, times), zero)));
  v = tn__simplify_index(c, v);
  *gate = within(c, u, zero, size[!w.places], *gate);
  *gate = within(c, v, zero, size[w.places], *gate);
  for (uint32_t k = 0, j = 0; k < n->rank; k++) {
    if (k != axis) {
      out[j++] = idx[k];
      continue;
    }
    out[j++] = w.places ? u : v;
    out[j++] = w.places ? v : u;
  }
}
