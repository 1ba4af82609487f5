/* The right side of a row as nodes.  Recursion is as deep as the template. */
#include "ir/build.h"
#include "ir/eval.h"
#include "rewrite/match.h"
#include <string.h>

tn_node *tn__build_op(tn_ctx *c, int op, tn_node *const *kid, int dtype) {
  switch (tn__ops[op].group) {
  case G_UNARY: return tn__op1(c, (tn__op)op, kid[0]);
  case G_BINARY: return tn__op2(c, (tn__op)op, kid[0], kid[1]);
  case G_TERNARY: return tn__op3(c, (tn__op)op, kid[0], kid[1], kid[2]);
  case G_CAST: return op == OP_CAST ? tn__cast(c, kid[0], dtype) : tn__bitcast(c, kid[0], dtype);
  default: return tn__node_make(c, &(tn__make){.op = (tn__op)op, .src = kid, .nsrc = tn__ops[op].max_src});
  }
}

static tn_node *spread(const tn__match *m, tn_node *scalar) {
  return m->root->rank ? tn__scalar_to(m->c, scalar, m->root->dim, m->root->rank) : scalar;
}

static tn_node *variable(const tn__match *m, const tn__term *t) {
  tn_node *n = m->bound[t->slot];
  if (!m->rule->is_const[t->slot]) return n;
  bool fits = n->rank == m->root->rank && tn__dims_equal(m->c, n->dim, m->root->dim, n->rank);
  return fits ? n : spread(m, tn__splat(n));
}

static tn__argval argument(const tn__match *m, const tn__term *t) {
  if (t->form == TF_VAR) return tn__argval_of(m->bound[t->slot]);
  tn__argval a = argument(m, t->kid[0]), b = argument(m, t->kid[1]);
  return tn__argfn_apply(m->c, (tn__argfn)t->what, &a, &b);
}

static bool weak(const tn__term *t) { return t->form == TF_NUM || t->form == TF_FN; }

/* A number or a #function in the dtype. */
static tn_node *constant(const tn__match *m, const tn__term *t, int dtype) {
  int64_t v;
  uint64_t bits;
  if (t->form != TF_NUM) {
    if (!tn__match_int(m, t, &v)) return NULL;
    bits = tn__eval_cast(TN_I64, dtype, (uint64_t)v);
  } else if (!tn__table_bits(t, dtype, &bits)) return NULL;
  return spread(m, tn__const_bits(m->c, dtype, bits));
}

static tn_node *build(const tn__match *m, const tn__term *t, int dtype);

static tn_node *movement(const tn__match *m, const tn__term *t, int dtype) {
  tn_node *x = build(m, t->kid[0], dtype);
  if (!x) return NULL;
  tn__argval a = argument(m, t->kid[1]);
  tn_node **src = tn__alloc(m->c, (a.ntail + 1) * sizeof *src);
  src[0] = x;
  for (uint32_t i = 0; i < a.ntail; i++) src[i + 1] = a.tail[i];
  return tn__node_make(
      m->c, &(tn__make){.op = (tn__op)t->what, .src = src, .nsrc = a.ntail + 1, .ints = a.ints, .nint = a.nint});
}

/* Whether an operand might leave 64 bits, for all that its interval says. */
static bool may_wrap(const tn_node *n) {
  bool computed = tn__ops[n->op].group >= G_UNARY && tn__ops[n->op].group <= G_TERNARY;
  return computed && n->dtype == TN__INDEX && n->lo == INT64_MIN && n->hi == INT64_MAX;
}

/* Numbers wait until a sibling has told the dtype; the condition of a where is bool and tells nothing. */
static tn_node *op(const tn__match *m, const tn__term *t, int dtype) {
  tn_node *kid[3];
  int sibling = dtype;
  for (uint32_t i = t->nkid; i && i--;) {
    bool mask = t->what == OP_WHERE && i == 0;
    if (weak(t->kid[i])) continue;
    if (!(kid[i] = build(m, t->kid[i], mask ? TN_BOOL : dtype))) return NULL;
    if (!mask) sibling = kid[i]->dtype;
  }
  for (uint32_t i = 0; i < t->nkid; i++) {
    if (!weak(t->kid[i])) continue;
    if (!(kid[i] = constant(m, t->kid[i], t->what == OP_WHERE && i == 0 ? TN_BOOL : sibling))) return NULL;
  }
  for (uint32_t i = 0; i < t->nkid; i++)
    if (m->rule->fits && tn__table_exact_op(t->what) && may_wrap(kid[i])) return NULL;
  return tn__build_op(m->c, t->what, kid, m->root->dtype);
}

/* dtype: for numbers that have no sibling */
static tn_node *build(const tn__match *m, const tn__term *t, int dtype) {
  tn_node *x;
  switch (t->form) {
  case TF_VAR: return variable(m, t);
  case TF_OP:
    return tn__ops[t->what].group == G_MOVE || tn__ops[t->what].group == G_REDUCE ? movement(m, t, dtype)
                                                                                  : op(m, t, dtype);
  case TF_CAST_LIKE:
    x = build(m, t->kid[1], dtype);
    return x ? tn__cast(m->c, x, m->bound[t->kid[0]->slot]->dtype) : NULL;
  default: return constant(m, t, dtype);
  }
}

tn_node *tn__instantiate(tn__match *m) {
  int dtype = m->rule->verdict == TV_RULE ? m->root->dtype : m->bound[GRAD_G]->dtype;
  return build(m, m->rule->rhs, dtype);
}
