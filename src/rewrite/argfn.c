/* The closed list of functions and predicates over the arguments of movements and reductions (rules/README.md). */
#include "ir/build.h"
#include "rewrite/match.h"

tn__argval tn__argval_of(const tn_node *n) {
  return (tn__argval){n->src + 1, n->nsrc - 1, n->ints, n->nint};
}

static int64_t *new_ints(tn_ctx *c, uint32_t n) { return tn__alloc(c, (n + 1) * sizeof(int64_t)); }
static tn_node **new_tail(tn_ctx *c, uint32_t n) { return tn__alloc(c, (n + 1) * sizeof(tn_node *)); }

static bool has_axis(const tn__argval *a, int64_t axis) {
  for (uint32_t i = 0; i < a->nint; i++)
    if (a->ints[i] == axis) return true;
  return false;
}

static tn__argval compose(tn_ctx *c, const tn__argval *p, const tn__argval *q) {
  int64_t *r = new_ints(c, q->nint);
  for (uint32_t i = 0; i < q->nint; i++) r[i] = p->ints[q->ints[i]];
  return (tn__argval){.ints = r, .nint = q->nint};
}

static tn__argval symdiff(tn_ctx *c, const tn__argval *a, const tn__argval *b) {
  int64_t *r = new_ints(c, a->nint + b->nint);
  uint32_t n = 0;
  for (int64_t axis = 0; axis < TN_MAX_RANK; axis++)
    if (has_axis(a, axis) != has_axis(b, axis)) r[n++] = axis;
  return (tn__argval){.ints = r, .nint = n};
}

static tn__argval padsum(tn_ctx *c, const tn__argval *p, const tn__argval *q) {
  tn_node **r = new_tail(c, p->ntail);
  for (uint32_t i = 0; i < p->ntail; i++) r[i] = tn__add(c, p->tail[i], q->tail[i]);
  return (tn__argval){.tail = r, .ntail = p->ntail};
}

static tn__argval shrinkmul(tn_ctx *c, const tn__argval *p, const tn__argval *q) {
  uint32_t rank = p->nint;
  tn_node **r = new_tail(c, 2 * rank);
  int64_t *step = new_ints(c, rank);
  for (uint32_t i = 0; i < rank; i++) {
    r[i] = tn__add(c, p->tail[i], tn__mul(c, q->tail[i], tn__int(c, p->ints[i])));
    r[rank + i] = q->tail[rank + i];
    step[i] = p->ints[i] * q->ints[i];
  }
  return (tn__argval){r, 2 * rank, step, rank};
}

tn__argval tn__argfn_apply(tn_ctx *c, tn__argfn fn, const tn__argval *a, const tn__argval *b) {
  static tn__argval (*const fns[AF_COUNT])(tn_ctx *, const tn__argval *, const tn__argval *) = {
      [AF_COMPOSE] = compose, [AF_SYMDIFF] = symdiff, [AF_PADSUM] = padsum, [AF_SHRINKMUL] = shrinkmul};
  return fns[fn](c, a, b);
}

static bool identity(const tn__argval *p) {
  for (uint32_t i = 0; i < p->nint; i++)
    if (p->ints[i] != i) return false;
  return true;
}

static bool zeros(const tn__argval *p) {
  for (uint32_t i = 0; i < p->ntail; i++)
    if (!tn__is_int_const(p->tail[i], 0)) return false;
  return true;
}

static bool undoes(const tn__argval *s, const tn__argval *p, const tn_node *x) {
  for (uint32_t i = 0; i < x->rank; i++)
    if (s->tail[i] != p->tail[2 * i] || s->tail[x->rank + i] != x->dim[i] || s->ints[i] != 1) return false;
  return true;
}

bool tn__argpred(tn__cond_kind kind, const tn__argval *a, const tn__argval *b, const tn_node *x) {
  switch (kind) {
  case TC_IDENTITY: return identity(a);
  case TC_ZEROS: return zeros(a);
  case TC_EMPTY: return a->nint == 0;
  default: return undoes(a, b, x);
  }
}
