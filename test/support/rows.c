#include "support/rows.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "ir/shape.h"
#include "ir/text.h"
#include "rewrite/match.h"
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ATTEMPTS = 6000, ENOUGH = 150, POINTS = 200, MAX_ELEMS = 4096 };

static uint64_t rng_state;
static uint32_t rnd(uint32_t n) {
  rng_state = rng_state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(rng_state >> 33) % n;
}

/* ---- leaves ---- */

typedef struct maker {
  tn_ctx *c;
  const tn__rule *r;
  tn_node *slot[TN__MAX_SLOTS];
  tn_node *leaf[TN__MAX_SLOTS]; /* those without a fixed value */
  uint32_t nleaf;
  int compared, cast[2]; /* dtypes below comparisons and casts */
  uint32_t ncast, rank;
  tn_node *dim[3]; /* shape of the leaves; rank 0 where the row has no movement */
  bool fits;
} maker;

static const double floats[] = {0, -0.0, 1, -1, 2.5, -3, 1e-40, 1e30, INFINITY, -INFINITY, NAN, 0.1, 65504, 1e-7};
static const int64_t ints[] = {0,   1,    -1,  2,     3,         -5,        7,         100,
                               127, -128, 255, 32767, INT32_MIN, INT32_MAX, INT64_MIN, INT64_MAX};
static const double tame[] = {1, -1, 2, 0.5, -4, 3}; /* for rows that hold over the reals only */

static uint64_t sample(int dtype, bool over_reals) {
  if (over_reals) return tn__eval_from_double(dtype, tame[rnd(6)]);
  if (tn__is_float(dtype)) return tn__eval_from_double(dtype, floats[rnd(sizeof floats / sizeof *floats)]);
  return tn__eval_cast(TN_I64, dtype, (uint64_t)ints[rnd(sizeof ints / sizeof *ints)]);
}

static tn_node *spread(maker *m, tn_node *k) { return m->rank ? tn__scalar_to(m->c, k, m->dim, m->rank) : k; }

static tn_node *constant(maker *m, int dtype) {
  static const int64_t small[] = {-4, -3, -2, -1, 0, 1, 2, 3, 4, 6, 8, 12};
  if (dtype == TN__INDEX) return tn__int(m->c, small[rnd(12)]);
  if (rnd(2)) return spread(m, tn__const_num(m->c, dtype, rnd(2))); /* units and zeros */
  return spread(m, tn__const_bits(m->c, dtype, sample(dtype, m->r->mode == TN_MODE_FAST)));
}

static tn_node *leaf(maker *m, int dtype, const char *name) {
  static const int8_t range[][2] = {{0, 1}, {0, 2}, {0, 3}, {0, 5},   {0, 11}, {-3, 3}, {2, 4},
                                    {1, 1}, {3, 3}, {5, 7}, {-6, -2}, {-1, 2}, {-1, 0}};
  tn_node *n;
  if (dtype == TN__INDEX) {
    uint32_t i = rnd(sizeof range / sizeof *range);
    if (m->nleaf && m->leaf[0]->dtype == TN__INDEX &&
        rnd(3) == 0) /* beside another, so that differences are known where intervals overlap */
      return tn__add(m->c, m->leaf[0], tn__int(m->c, (int64_t)rnd(5) - 2));
    n = tn__var(m->c, name, range[i][0], range[i][1]);
  } else n = tn__param(m->c, dtype, m->nleaf, 0, m->dim, m->rank);
  m->leaf[m->nleaf++] = n;
  return n;
}

/* ---- movement ---- */

static tn_node *move(maker *m, int op, tn_node *x) {
  tn_node *src[1 + 2 * 3] = {x};
  int64_t arg[3];
  uint32_t n = 1, nint = 0, rank = x->rank;
  for (uint32_t i = 0; i < rank; i++) {
    int64_t d = x->dim[i]->lo;
    switch (op) {
    case OP_RESHAPE: src[n++] = x->dim[rank - 1 - i]; break;
    case OP_EXPAND: src[n++] = d == 1 ? tn__int(m->c, 1 + rnd(3)) : x->dim[i]; break;
    case OP_PAD:
      src[n++] = tn__int(m->c, rnd(2));
      src[n++] = tn__int(m->c, rnd(2));
      break;
    case OP_SHRINK: {
      int64_t step = d > 1 ? 1 + rnd(2) : 1, begin = rnd((uint32_t)d), most = (d - begin + step - 1) / step;
      src[1 + i] = tn__int(m->c, begin);
      src[1 + rank + i] = tn__int(m->c, 1 + rnd((uint32_t)most));
      arg[nint++] = step;
      break;
    }
    case OP_PERMUTE: arg[nint++] = i; break;
    case OP_FLIP:
      if (rnd(2)) arg[nint++] = i;
      break;
    default: /* reductions, mostly over no axes: with some, no row may fire */
      if (rnd(6) == 0) arg[nint++] = i;
    }
  }
  if (op == OP_SHRINK) n = 1 + 2 * rank;
  if (op == OP_PERMUTE)
    for (uint32_t i = rank; i-- > 1;) {
      uint32_t j = rnd(i + 1);
      int64_t t = arg[i];
      arg[i] = arg[j], arg[j] = t;
    }
  return tn__node_make(m->c, &(tn__make){.op = (tn__op)op, .src = src, .nsrc = n, .ints = arg, .nint = nint});
}

/* ---- pattern to nodes ---- */

static tn_node *make(maker *m, const tn__term *t, int dtype);

static tn_node *variable(maker *m, const tn__term *t, int dtype) {
  int s = t->slot;
  if (!m->slot[s]) m->slot[s] = m->r->is_const[s] ? constant(m, dtype) : leaf(m, dtype, m->r->slot[s]);
  if (m->slot[s]->dtype != dtype || !tn__table_class_ok(m->r->cls[s], dtype)) m->fits = false;
  return m->slot[s];
}

static bool dtype_fits(const tn__op_info *op, int dtype) {
  switch (op->dtype_rule) {
  case DT_FLOAT: return tn__is_float(dtype);
  case DT_INT: return tn__is_int(dtype);
  case DT_LOGIC: return !tn__is_float(dtype);
  default: return true;
  }
}

static tn_node *make_op(maker *m, const tn__term *t, int dtype) {
  const tn__op_info *op = &tn__ops[t->what];
  tn_node *kid[3];
  int below = dtype;
  if (op->dtype_rule == DT_BOOL) {
    if (dtype != TN_BOOL) m->fits = false;
    below = m->compared;
  }
  if (op->group == G_CAST) below = m->cast[m->ncast++ % 2];
  if (!dtype_fits(op, dtype)) m->fits = false;
  for (uint32_t i = 0; i < t->nkid && m->fits; i++) {
    if ((op->group == G_MOVE || op->group == G_REDUCE) && i == 1) break;
    kid[i] = make(m, t->kid[i], t->what == OP_WHERE && i == 0 ? TN_BOOL : below);
  }
  if (!m->fits) return NULL;
  if (t->what == OP_BITCAST && (dtype == TN__INDEX || tn__size_of(dtype) != tn__size_of(kid[0]->dtype)))
    return m->fits = false, NULL;
  if (op->group == G_MOVE || op->group == G_REDUCE) return move(m, t->what, kid[0]);
  if (op->comm && t->nkid == 2 && rnd(2)) {
    tn_node *x = kid[0];
    kid[0] = kid[1], kid[1] = x;
  }
  if (op->group == G_CAST) /* not by the constructors: they drop a cast to the same dtype */
    return tn__node_make(m->c, &(tn__make){.op = (tn__op)t->what, .dtype = dtype, .src = kid, .nsrc = 1});
  return tn__build_op(m->c, t->what, kid, dtype);
}

static tn_node *make_sum(maker *m, tn_node *q, tn_node *k, tn_node *r) {
  return m->fits && q && k && r ? tn__add(m->c, tn__mul(m->c, q, k), r) : NULL;
}

static tn_node *make(maker *m, const tn__term *t, int dtype) {
  uint64_t bits;
  switch (t->form) {
  case TF_VAR: return variable(m, t, dtype);
  case TF_NUM:
    if (!tn__table_bits(t, dtype, &bits)) return m->fits = false, NULL;
    return spread(m, tn__const_bits(m->c, dtype, bits));
  case TF_OP: return make_op(m, t, dtype);
  case TF_AS: return m->slot[t->kid[0]->slot] = make(m, t->kid[1], dtype);
  default: break;
  }
  if (dtype != TN__INDEX) return m->fits = false, NULL; /* the forms of sums */
  if (t->form == TF_PICK)
    return make_sum(m, make(m, t->kid[1], dtype), make(m, t->kid[0], dtype), make(m, t->kid[2], dtype));
  if (t->form == TF_PARTS) {
    m->slot[t->kid[1]->slot] = tn__int(m->c, 2 + rnd(3));
    return make_sum(m, make(m, t->kid[2], dtype), m->slot[t->kid[1]->slot], make(m, t->kid[3], dtype));
  }
  return make_sum(m, make(m, t->kid[1], dtype), make(m, t->kid[0], dtype), make(m, t->kid[2], dtype));
}

/* Where the row equates a constant variable with a computation, random constants would rarely do. */
static void solve_equations(maker *m) {
  tn__match k = {.c = m->c, .rule = m->r};
  memcpy(k.bound, m->slot, sizeof k.bound);
  for (uint32_t i = 0; i < m->r->ncond; i++) {
    const tn__cond *d = &m->r->cond[i];
    int64_t v;
    if (d->kind == TC_EQ && d->arg[0]->form == TF_VAR && tn__match_int(&k, d->arg[1], &v))
      m->slot[d->arg[0]->slot] = k.bound[d->arg[0]->slot] =
          tn__const_bits(m->c, k.bound[d->arg[0]->slot]->dtype, (uint64_t)v);
  }
}

/* ---- values ---- */

typedef struct tensor {
  uint32_t n;
  uint64_t *v;
} tensor;

typedef struct point { /* values of the leaves */
  const maker *m;
  tensor value[TN__MAX_SLOTS];
} point;

static uint32_t elements(const tn_node *n) {
  uint32_t e = 1;
  for (uint32_t i = 0; i < n->rank; i++) e *= (uint32_t)n->dim[i]->lo;
  if (e > MAX_ELEMS) abort();
  return e;
}

/* Where element `at` of a movement comes from; -1: a pad's zero. */
static int64_t source_of(const tn_node *n, uint32_t at) {
  const tn_node *x = n->src[0];
  int64_t coord[TN_MAX_RANK], in[TN_MAX_RANK] = {0}, flat = 0;
  if (n->op == OP_RESHAPE) return at;
  for (uint32_t i = n->rank; i-- > 0; at /= (uint32_t)n->dim[i]->lo) coord[i] = at % (uint32_t)n->dim[i]->lo;
  for (uint32_t i = 0; i < n->rank; i++) switch (n->op) {
    case OP_EXPAND: in[i] = x->dim[i]->lo == 1 ? 0 : coord[i]; break;
    case OP_PERMUTE: in[n->ints[i]] = coord[i]; break;
    case OP_PAD: in[i] = coord[i] - n->src[1 + 2 * i]->lo; break;
    case OP_SHRINK: in[i] = n->src[1 + i]->lo + coord[i] * n->ints[i]; break;
    default: in[i] = coord[i];
    }
  if (n->op == OP_FLIP)
    for (uint32_t j = 0; j < n->nint; j++) in[n->ints[j]] = x->dim[n->ints[j]]->lo - 1 - in[n->ints[j]];
  for (uint32_t i = 0; i < x->rank; i++) {
    if (in[i] < 0 || in[i] >= x->dim[i]->lo) return -1;
    flat = flat * x->dim[i]->lo + in[i];
  }
  return flat;
}

static tensor value(const point *p, tn_node *n) {
  tn_ctx *c = p->m->c;
  for (uint32_t i = 0; i < p->m->nleaf; i++)
    if (p->m->leaf[i] == n) return p->value[i];
  tensor out = {elements(n), NULL}, src[3] = {0};
  out.v = tn__alloc(c, (out.n + 1) * sizeof *out.v);
  bool scalar = tn__is_elementwise(n);
  for (uint32_t i = 0; i < (scalar ? n->nsrc : n->nsrc ? 1u : 0u); i++) src[i] = value(p, n->src[i]);
  for (uint32_t e = 0; e < out.n; e++) {
    if (n->op == OP_CONST) out.v[e] = (uint64_t)n->ints[0];
    else if (scalar) {
      uint64_t arg[3] = {0};
      for (uint32_t i = 0; i < n->nsrc; i++) arg[i] = src[i].v[e];
      out.v[e] = tn__eval(n->op, n->dtype, n->src[n->op == OP_WHERE]->dtype, arg);
    } else if (tn__ops[n->op].group == G_MOVE) {
      int64_t from = source_of(n, e);
      out.v[e] = from < 0 ? 0 : src[0].v[from];
    } else out.v[e] = src[0].v[e]; /* contig, detach, a reduction over no axes */
  }
  return out;
}

static void random_point(const maker *m, point *p) {
  p->m = m;
  for (uint32_t i = 0; i < m->nleaf; i++) {
    tn_node *n = m->leaf[i];
    tensor *t = &p->value[i];
    t->n = elements(n);
    t->v = tn__alloc(m->c, (t->n + 1) * sizeof *t->v);
    for (uint32_t e = 0; e < t->n; e++)
      t->v[e] = n->op == OP_VAR ? (uint64_t)(n->lo + rnd((uint32_t)(n->hi - n->lo + 1)))
                                : sample(n->dtype, m->r->mode == TN_MODE_FAST);
  }
}

static bool agree(const tn__rule *r, int dtype, uint64_t a, uint64_t b) {
  if (a == b) return true;
  if (!tn__is_float(dtype)) return false;
  double x = tn__eval_to_double(dtype, a), y = tn__eval_to_double(dtype, b);
  if (isnan(x) && isnan(y)) return true;
  return r->mode == TN_MODE_FAST && fabs(x - y) <= 0.02 * (1 + fabs(x));
}

static void print_value(int dtype, uint64_t v) {
  fprintf(stderr, tn__is_float(dtype) ? " %g" : " %.0f", tn__eval_to_double(dtype, v));
}

static void report(const maker *m, const point *p, tn_node *from, tn_node *to, uint32_t e) {
  tn__sb s;
  tn__sb_init(&s, &m->c->scratch);
  tn__print(&s, from);
  tn__sb_puts(&s, "became\n");
  tn__print(&s, to);
  fprintf(stderr, "%.*s\nis false:\n%sat", (int)m->r->len, m->r->text, tn__sb_str(&s));
  for (uint32_t i = 0; i < m->nleaf; i++) print_value(m->leaf[i]->dtype, p->value[i].v[e < p->value[i].n ? e : 0]);
  fprintf(stderr, ": ");
  print_value(from->dtype, value(p, from).v[e]);
  fprintf(stderr, " is not");
  print_value(from->dtype, value(p, to).v[e]);
  fprintf(stderr, "\n");
}

static bool equal_at(const maker *m, const point *p, tn_node *from, tn_node *to, bool quiet) {
  tensor a = value(p, from), b = value(p, to);
  for (uint32_t e = 0; e < a.n; e++) {
    if (agree(m->r, from->dtype, a.v[e], b.v[e])) continue;
    if (!quiet) report(m, p, from, to, e);
    return false;
  }
  return true;
}

/* ---- a row ---- */

static bool moves(const tn__term *t) {
  if (t->form == TF_OP && (tn__ops[t->what].group == G_MOVE || tn__ops[t->what].group == G_REDUCE)) return true;
  for (uint32_t i = 0; i < t->nkid; i++)
    if (moves(t->kid[i])) return true;
  return false;
}

static bool random_instance(maker *m, const tn__rule *r, bool index, tn_node **out) {
  *m = (maker){.c = m->c, .r = r, .fits = true};
  m->compared = (int)rnd(TN__INDEX + 1);
  m->cast[0] = (int)rnd(TN__INDEX);
  m->cast[1] = (int)rnd(TN__INDEX);
  bool movement = moves(r->lhs);
  if (movement) {
    m->rank = 1 + rnd(3);
    for (uint32_t i = 0; i < m->rank; i++) m->dim[i] = tn__int(m->c, 1 + rnd(3));
  }
  if (index) m->compared = TN__INDEX;
  int root = index && rnd(2) ? TN__INDEX : (int)rnd(TN__INDEX + (movement ? 0 : 1));
  if (tn__ops[r->op].dtype_rule == DT_BOOL || (index && root != TN__INDEX)) root = TN_BOOL;
  *out = make(m, r->lhs, root);
  if (!m->fits || !*out) return false;
  tn_node *before[TN__MAX_SLOTS];
  memcpy(before, m->slot, sizeof before);
  solve_equations(m);
  if (memcmp(before, m->slot, sizeof before)) { /* again, with those constants */
    m->nleaf = 0;
    m->ncast = 0;
    for (uint32_t i = 0; i < r->nslot; i++)
      if (m->slot[i] && !r->is_const[i]) m->slot[i] = NULL;
    *out = make(m, r->lhs, root);
  }
  return m->fits && *out;
}

typedef struct job {
  const char *text;
  size_t len;
  bool index, quiet;
  row_verdict verdict;
} job;

static void try_row(tn_ctx *c, void *arg) {
  job *j = arg;
  char *text = tn__alloc(c, j->len + 1);
  memcpy(text, j->text, j->len);
  text[j->len] = 0;
  tn__ruleset *alone = tn__rules_parse(c, "row", text);
  maker m = {.c = c};
  j->verdict.held = true;
  for (int i = 0; i < ATTEMPTS && alone->rule->hits < ENOUGH && j->verdict.held; i++) {
    tn_node *from, *to;
    if (!random_instance(&m, alone->rule, j->index, &from)) continue;
    if ((to = tn__rewrite(c, from, &alone, 1)) == from) continue;
    for (int k = 0; k < POINTS && j->verdict.held; k++) {
      point p;
      random_point(&m, &p);
      j->verdict.held = equal_at(&m, &p, from, to, j->quiet);
    }
  }
  j->verdict.fired = alone->rule->hits > 0;
}

row_verdict row_try(tn_ctx *c, const char *text, size_t len, bool index, bool quiet) {
  job j = {.text = text, .len = len, .index = index, .quiet = quiet};
  rng_state = 42;
  j.verdict.sound = tn__ctx_run(c, "row", try_row, &j);
  return j.verdict;
}

/* A leaf as an expression of B that takes the same values, more or less. */
static tn_node *of_size(tn_ctx *c, tn_node *var, const tn_node *leaf, uint32_t number) {
  tn_node *x = tn__op2(c, OP_MOD, tn__op2(c, OP_IDIV, var, tn__int(c, 1 + (int64_t)number)),
                       tn__int(c, leaf->hi - leaf->lo + 1));
  return tn__add(c, x, tn__int(c, leaf->lo));
}

static tn_node *as_values(tn_ctx *c, const maker *m, tn_node *n) {
  tn_node *var = tn__var(c, "B", 0, 13), *by[TN__MAX_SLOTS];
  for (uint32_t i = 0; i < m->nleaf; i++) by[i] = of_size(c, var, m->leaf[i], i);
  return tn__cast(c, tn__substitute(c, n, m->leaf, by, m->nleaf), TN_I64);
}

tn_node *row_instance(tn_ctx *c, const tn__rule *r, bool index, uint64_t seed) {
  maker m = {.c = c};
  tn_node *n;
  rng_state = seed;
  for (int i = 0; i < 50; i++) {
    if (!random_instance(&m, r, index, &n) || n->op == OP_PARAM) continue;
    uint32_t sizes = 0;
    for (uint32_t k = 0; k < m.nleaf; k++) sizes += m.leaf[k]->dtype == TN__INDEX;
    if (index && sizes && sizes == m.nleaf) return as_values(c, &m, n);
    if (!index && m.nleaf && !sizes && n->dtype < TN_DTYPE_COUNT) return n;
  }
  return NULL;
}
