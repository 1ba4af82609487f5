#include "support/enclose.h"
#include "ir/build.h"
#include <math.h>

typedef struct range {
  tn_node *lo, *hi;
} range;

typedef enum shape {
  NOT_LOOSE, /* of one value, whatever came before rounds: a leaf, or what jumps and so gets rounded values */
  MIRROR,    /* neg */
  FOLDED,    /* abs */
  RISING,    /* the more, the more, in each source */
  CORNERS,   /* between the values at the ends of its sources' ranges */
  QUOTIENT,  /* so unless the divisor may be 0 */
  CHOICE,
  MOVED,
} shape;

static const shape shapes[OP_COUNT] = {
    [OP_NEG] = MIRROR,   [OP_ABS] = FOLDED,   [OP_SQRT] = RISING,   [OP_EXP] = RISING,   [OP_EXP2] = RISING,
    [OP_EXPM1] = RISING, [OP_LOG] = RISING,   [OP_LOG2] = RISING,   [OP_LOG1P] = RISING, [OP_TANH] = RISING,
    [OP_ERF] = RISING,   [OP_ADD] = RISING,   [OP_MAX] = RISING,    [OP_MIN] = RISING,   [OP_MUL] = CORNERS,
    [OP_DIV] = QUOTIENT, [OP_WHERE] = CHOICE, [OP_RESHAPE] = MOVED, [OP_EXPAND] = MOVED, [OP_PERMUTE] = MOVED,
    [OP_FLIP] = MOVED,
};

bool is_loose(const tn_node *n) { return n->dtype == TN_BF16 && shapes[n->op] != NOT_LOOSE; }

static tn_node *number(tn_ctx *c, const tn_node *like, double v) {
  return tn__scalar_to(c, tn__const_num(c, TN_F32, v), like->dim, like->rank);
}

/* Between the least and the greatest of the four corners; NaN only if all are. */
static range corners(tn_ctx *c, tn__op op, range x, range y) {
  tn_node *v[] = {tn__op2(c, op, x.lo, y.lo), tn__op2(c, op, x.lo, y.hi), tn__op2(c, op, x.hi, y.lo),
                  tn__op2(c, op, x.hi, y.hi)};
  tn_node *some = tn__op2(c, OP_EQ, v[0], v[0]);
  range r = {v[0], v[0]};
  for (int i = 1; i < 4; i++) {
    r = (range){tn__op2(c, OP_MIN, r.lo, v[i]), tn__op2(c, OP_MAX, r.hi, v[i])};
    some = tn__op2(c, OP_OR, some, tn__op2(c, OP_EQ, v[i], v[i]));
  }
  tn_node *mixed = tn__op2(c, OP_AND, some, tn__op2(c, OP_NE, r.lo, r.lo));
  return (range){tn__where(c, mixed, number(c, x.lo, HUGE_VAL), r.lo),
                 tn__where(c, mixed, number(c, x.lo, -HUGE_VAL), r.hi)};
}

static tn_node *move(tn_ctx *c, const tn_node *n, tn_node *x) {
  if (n->op == OP_RESHAPE) return tn__reshape(c, x, n->dim, n->rank);
  if (n->op == OP_EXPAND) return tn__expand(c, x, n->dim);
  return n->op == OP_PERMUTE ? tn__permute(c, x, n->ints) : tn__flip(c, x, n->ints, n->nint);
}

/* Without rounding. */
static range apply(tn_ctx *c, const tn_node *n, const range *s) {
  range x = s[0];
  switch (shapes[n->op]) {
  case MIRROR: return (range){tn__neg(c, x.hi), tn__neg(c, x.lo)};
  case FOLDED: {
    tn_node *least = tn__op2(c, OP_MAX, x.lo, tn__neg(c, x.hi)), *zero = number(c, n, 0);
    return (range){tn__op2(c, OP_MAX, least, zero), tn__op2(c, OP_MAX, x.hi, tn__neg(c, x.lo))};
  }
  case CORNERS: return corners(c, n->op, x, s[1]);
  case QUOTIENT: {
    range q = corners(c, OP_DIV, x, s[1]);
    tn_node *near = tn__op2(c, OP_LE, tn__op2(c, OP_MUL, s[1].lo, s[1].hi), number(c, n, 0));
    return (range){tn__where(c, near, number(c, n, HUGE_VAL), q.lo), tn__where(c, near, number(c, n, -HUGE_VAL), q.hi)};
  }
  case CHOICE: return (range){tn__where(c, n->src[0], s[1].lo, s[2].lo), tn__where(c, n->src[0], s[1].hi, s[2].hi)};
  case MOVED: return (range){move(c, n, x.lo), move(c, n, x.hi)};
  case NOT_LOOSE:
  case RISING: break;
  }
  if (n->nsrc == 1) return (range){tn__op1(c, n->op, x.lo), tn__op1(c, n->op, x.hi)};
  return (range){tn__op2(c, n->op, x.lo, s[1].lo), tn__op2(c, n->op, x.hi, s[1].hi)};
}

static tn_node *rounded(tn_ctx *c, tn_node *x) { return tn__cast(c, tn__cast(c, x, TN_BF16), TN_F32); }

/* To what the ends may round to.  Functions need not rise where their last bits are wrong, and on CUDA have 16 good
 * ones; of infinities a finite part is taken, so that they stay. */
static range widen(tn_ctx *c, const tn_node *n, range r) {
  if (n->nsrc == 1 || n->op == OP_DIV) {
    tn_node *share = number(c, r.lo, 0x1p-15), *most = number(c, r.lo, 0x1p127);
    r.lo = tn__sub(c, r.lo, tn__mul(c, share, tn__op2(c, OP_MIN, tn__op1(c, OP_ABS, r.lo), most)));
    r.hi = tn__add(c, r.hi, tn__mul(c, share, tn__op2(c, OP_MIN, tn__op1(c, OP_ABS, r.hi), most)));
  }
  return (range){tn__op2(c, OP_MIN, r.lo, rounded(c, r.lo)), tn__op2(c, OP_MAX, r.hi, rounded(c, r.hi))};
}

/* Is something known: the ends in order and not all there is, or both NaN? */
static tn_node *known(tn_ctx *c, range r) {
  tn_node *whole = tn__op2(c, OP_AND, tn__op2(c, OP_EQ, r.lo, number(c, r.lo, -HUGE_VAL)),
                           tn__op2(c, OP_EQ, r.hi, number(c, r.lo, HUGE_VAL)));
  tn_node *order = tn__op2(c, OP_AND, tn__op2(c, OP_LE, r.lo, r.hi), tn__op1(c, OP_NOT, whole));
  return tn__op2(c, OP_OR, order, tn__op2(c, OP_AND, tn__op2(c, OP_NE, r.lo, r.lo), tn__op2(c, OP_NE, r.hi, r.hi)));
}

/* The op's range; of what nothing is known, of a source or of itself, the lower end is inf and the upper one -inf. */
static range step(tn_ctx *c, const tn_node *n, const range *s) {
  range r = apply(c, n, s);
  if (shapes[n->op] == MOVED || shapes[n->op] == CHOICE) return r;
  r = widen(c, n, r);
  tn_node *good = known(c, r);
  for (uint32_t k = 0; k < n->nsrc; k++) good = tn__op2(c, OP_AND, good, known(c, s[k]));
  return (range){tn__where(c, good, r.lo, number(c, n, HUGE_VAL)), tn__where(c, good, r.hi, number(c, n, -HUGE_VAL))};
}

void enclose(tn_ctx *c, tn_node *n, tn_node **lo, tn_node **hi) {
  tn__nodes all = {0};
  tn__map at;
  tn__topo(&c->scratch, &n, 1, &all);
  range *r = tn__alloc(c, all.n * sizeof *r);
  tn__map_init(&at, &c->scratch);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *x = all.v[i];
    tn__map_putp(&at, x, &r[i]);
    r[i] = (range){0};
    if (is_loose(x)) {
      range s[3] = {0};
      uint32_t values = shapes[x->op] == MOVED ? 1 : x->nsrc; /* the others are sizes */
      for (uint32_t k = 0; k < values; k++) s[k] = *(const range *)tn__map_getp(&at, x->src[k]);
      r[i] = step(c, x, s);
    } else if (x->dtype == TN_BF16) {
      r[i].lo = r[i].hi = tn__cast(c, x, TN_F32);
    }
  }
  *lo = r[all.n - 1].lo;
  *hi = r[all.n - 1].hi;
}
