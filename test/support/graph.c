#include "support/graph.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "rewrite/rewrite.h"
#include "support/device.h"
#include "support/enclose.h"
#include "support/naive.h"
#include "tenet/program.h"
#include "tensor/cell.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

uint32_t graph_roll(graph_dice *d, uint32_t n) {
  uint64_t v;
  if (d->at < d->end) {
    v = *d->at++;
    if (n > 256 && d->at < d->end) v = v << 8 | *d->at++;
  } else {
    d->state += 0x9e3779b97f4a7c15u; /* splitmix64 */
    v = (d->state ^ d->state >> 30) * 0xbf58476d1ce4e5b9u;
    v = (v ^ v >> 27) * 0x94d049bb133111ebu;
    v = (v ^ v >> 31) >> 32;
  }
  return (uint32_t)(v % n);
}

/* ---- growing a graph --------------------------------------------------------------------------------------------- */

enum { MOST = 128, RANK = 5 };

typedef struct value {
  tn_node *n;
  bool exact;   /* floats: integers of at most this magnitude, so that their sums do not round */
  double most;
} value;

typedef struct grower {
  tn_ctx *c;
  graph_dice *d;
  const graph_size *size;
  graph *g;
  value v[MOST];
  uint32_t n;
  tn_node *out[MOST]; /* sums that may only stand at the end */
  uint32_t nout;
  bool strict, full;
} grower;

/* The most that a size may be; a plain one is no less. */
static int64_t dim_of(const tn_node *n, uint32_t i) { return n->dim[i]->hi; }

static int64_t count(const tn_node *n) {
  int64_t k = 1;
  for (uint32_t i = 0; i < n->rank; i++) k *= dim_of(n, i);
  return k;
}

/* Integers up to here are exact in the dtype, with room for sums of a few. */
static double limit(int dtype) {
  return tn__is_float(dtype) ? ldexp(1, tn__dtypes[dtype].mant > 30 ? 30 : tn__dtypes[dtype].mant) : 0;
}

static void add_value(grower *w, tn_node *n, bool exact, double most) {
  if (w->n == MOST || n->rank > RANK || count(n) > w->size->elements) return;
  if (tn__is_float(n->dtype) && most >= limit(n->dtype)) exact = false;
  w->v[w->n++] = (value){n, exact, most};
}

static value pick(grower *w) {
  uint32_t back = graph_roll(w->d, 3) ? graph_roll(w->d, w->n < 6 ? w->n : 6) : graph_roll(w->d, w->n);
  return w->v[w->n - 1 - back];
}

static uint64_t draw(graph_dice *d, int dtype, bool exact) {
  static const double special[] = {0,     -0.0,    1,        -1,        0.5, -2.5,  3,   1e-3,  1e30, -1e30,
                                   1e-42, -1e-310, INFINITY, -INFINITY, NAN, 65504, 255, 127.5, -128, 2147483648.0};
  if (tn__is_float(dtype) && exact) return tn__eval_from_double(dtype, (double)graph_roll(d, 7) - 3);
  if (tn__is_float(dtype) && graph_roll(d, 3) == 0) return tn__eval_from_double(dtype, special[graph_roll(d, 20)]);
  if (tn__is_float(dtype)) return tn__eval_from_double(dtype, ((double)graph_roll(d, 65536) - 32768) / 5000);
  if (dtype == TN_BOOL) return graph_roll(d, 2);
  uint64_t bits = graph_roll(d, 4) || exact ? (uint64_t)((int64_t)graph_roll(d, 12) - 4)
                                            : (uint64_t)graph_roll(d, 65536) << graph_roll(d, 48);
  return tn__eval_cast(TN_I64, dtype, bits);
}

tn_node *graph_leaf(tn_ctx *c, graph *g, graph_dice *d, int dtype, tn_node *const *dim, uint32_t rank, bool exact) {
  if (g->nleaf == GRAPH_LEAVES) return NULL;
  tn_node *n = tn__param(c, dtype, g->nleaf, 0, dim, rank);
  size_t size = tn__size_of(dtype), k = (size_t)count(n);
  char *data = malloc(k * size + 1);
  if (!data) abort();
  for (size_t i = 0; i < k; i++) tn__eval_store(dtype, data + i * size, draw(d, dtype, exact));
  g->data[g->nleaf++] = data;
  return n;
}

static int64_t draw_plain(grower *w) {
  static const int64_t usual[] = {1, 2, 3, 4, 5, 7, 8, 1, 2, 3};
  if (graph_roll(w->d, 24) == 0) return 0;
  if (w->size->longest > 8 && graph_roll(w->d, 4) == 0) return 9 + graph_roll(w->d, (uint32_t)w->size->longest - 8);
  return usual[graph_roll(w->d, 10)];
}

static tn_node *draw_size(grower *w) {
  return w->g->var && graph_roll(w->d, 3) == 0 ? w->g->var : tn__int(w->c, draw_plain(w));
}

/* Can a leaf have this size?  Programs take plain sizes and single symbolic ones. */
static bool is_simple(const tn_node *dim) { return tn__is_const(dim) || dim->op == OP_VAR; }

static void grow_leaf(grower *w) {
  static const uint8_t dtypes[] = {TN_F32, TN_F32,  TN_F32, TN_F32, TN_I32, TN_I64, TN_BOOL, TN_F64,
                                   TN_F16, TN_BF16, TN_U8,  TN_I8,  TN_U32, TN_I16, TN_U64,  TN_U16};
  tn_node *dim[RANK];
  uint32_t rank = graph_roll(w->d, 5);
  int64_t k = 1;
  for (uint32_t i = 0; i < rank; i++) {
    dim[i] = draw_size(w);
    if (i == 0 && w->g->var && graph_roll(w->d, 2)) dim[i] = w->g->var;
    if (k * dim[i]->hi > w->size->elements) dim[i] = tn__int(w->c, 1);
    k *= dim[i]->hi;
  }
  bool exact = !w->strict && graph_roll(w->d, 3) != 0;
  tn_node *n = graph_leaf(w->c, w->g, w->d, dtypes[graph_roll(w->d, 16)], dim, rank, exact);
  if (n) add_value(w, n, exact, 3);
}

/* A value of x's shape and the dtype: one there is, a leaf that broadcasts, or a literal. */
static value match(grower *w, const tn_node *x, int dtype) {
  tn_ctx *c = w->c;
  for (int attempt = 0; attempt < 6; attempt++) {
    value y = pick(w);
    tn_node *dim[RANK];
    if (y.n->rank > x->rank || y.n->dtype != dtype) continue;
    bool fits = true, same = y.n->rank == x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
      uint32_t skip = x->rank - y.n->rank;
      dim[i] = i < skip ? tn__int(c, 1) : y.n->dim[i - skip];
      fits &= dim[i] == x->dim[i] || tn__is_int_const(dim[i], 1);
      same &= dim[i] == x->dim[i];
    }
    if (!fits) continue;
    if (!same) y.n = tn__expand(c, tn__reshape(c, y.n, dim, x->rank), x->dim);
    return y;
  }
  value y = {.exact = !w->strict && graph_roll(w->d, 3) != 0, .most = 3};
  if (graph_roll(w->d, 3)) {
    tn_node *dim[RANK];
    for (uint32_t i = 0; i < x->rank; i++)
      dim[i] = graph_roll(w->d, 3) && is_simple(x->dim[i]) ? x->dim[i] : tn__int(c, 1);
    y.n = graph_leaf(c, w->g, w->d, dtype, dim, x->rank, y.exact);
    if (y.n) y.n = tn__expand(c, y.n, x->dim);
  }
  if (!y.n) y.n = tn__scalar_to(c, tn__const_bits(c, dtype, draw(w->d, dtype, y.exact)), x->dim, x->rank);
  return y;
}

/* ---- where devices differ ---- */

/* Functions that CUDA may compute to 2^-16 where nothing but bf16 or f16 comes of them (render/approximate.c). */
static const bool near[OP_COUNT] = {
    [OP_EXP] = true, [OP_EXP2] = true, [OP_TANH] = true, [OP_DIV] = true, [OP_SQRT] = true};

static bool on(const char *device) { return strncmp(device_or(""), device, strlen(device)) == 0; }

/* Units of the last place by which this device's result may differ from the evaluator's. */
static int slack(const tn_ctx *c, const tn_node *n) {
  const tn__op_info *op = &tn__ops[n->op];
  /* functions of f64 are those of the device's library; the C library's may be off by one */
  if (n->dtype == TN_F64 && op->rounding == RN_LIBRARY && (on("cuda") || on("opencl"))) return op->library_ulps + 1;
  return n->dtype == TN_BF16 && near[n->op] && c->mode != TN_MODE_STRICT && on("cuda");
}

static void add_output(grower *w, tn_node *n) {
  if (w->nout < MOST && count(n) <= w->size->elements) w->out[w->nout++] = n;
}

/* Of a function per element.  In mode default a kernel may leave out the rounding of a bf16 that goes into the next
 * function (lower/widen.c). What that would make differ, or what the device may compute otherwise, is an output. */
static void add_result(grower *w, tn_node *n, bool exact, double most) {
  if (!slack(w->c, n) && (w->strict || n->dtype != TN_BF16 || exact)) add_value(w, n, exact, most);
  else add_output(w, n);
}

static void grow_unary(grower *w) {
  value x = pick(w);
  int op = OP_NEG + (int)graph_roll(w->d, OP_NOT - OP_NEG + 1);
  if (!tn__eval_defined(op, x.n->dtype)) return;
  bool keeps = tn__ops[op].rounding == RN_EXACT && op != OP_NOT;
  add_result(w, tn__op1(w->c, (tn__op)op, x.n), x.exact && keeps, x.most);
}

static void grow_binary(grower *w) {
  static const uint8_t often[] = {OP_ADD, OP_MUL, OP_MAX, OP_MIN, OP_ADD, OP_MUL};
  value x = pick(w);
  int op = graph_roll(w->d, 2) ? often[graph_roll(w->d, 6)] : OP_ADD + (int)graph_roll(w->d, OP_NE - OP_ADD + 1);
  if (!tn__eval_defined(op, x.n->dtype)) return;
  value y = match(w, x.n, x.n->dtype);
  if (graph_roll(w->d, 2)) {
    value t = x;
    x = y, y = t;
  }
  double most = op == OP_MUL ? x.most * y.most : op == OP_ADD ? x.most + y.most : fmax(x.most, y.most);
  bool keeps = op == OP_ADD || op == OP_MUL || op == OP_MIN || op == OP_MAX;
  add_result(w, tn__op2(w->c, (tn__op)op, x.n, y.n), x.exact && y.exact && keeps, most);
}

static void grow_where(grower *w) {
  value x = pick(w), y = match(w, x.n, x.n->dtype), p = match(w, x.n, TN_BOOL);
  add_value(w, tn__where(w->c, p.n, x.n, y.n), x.exact && y.exact, fmax(x.most, y.most));
}

static void grow_cast(grower *w) {
  value x = pick(w);
  int to = (int)graph_roll(w->d, TN_DTYPE_COUNT);
  if (graph_roll(w->d, 8) == 0 && tn__size_of(to) == tn__size_of(x.n->dtype) && to != TN_BOOL &&
      x.n->dtype != TN_BOOL) {
    /* which NaN it is, is not said */
    if (!tn__is_float(x.n->dtype)) add_value(w, tn__bitcast(w->c, x.n, to), false, 0);
    return;
  }
  bool narrows = x.n->dtype == TN_F32 && (to == TN_F16 || to == TN_BF16);
  if (narrows && !x.exact && !w->strict && on("cuda")) return; /* see near */
  if (tn__is_float(x.n->dtype)) add_value(w, tn__cast(w->c, x.n, to), x.exact, x.most);
  else add_value(w, tn__cast(w->c, x.n, to), true, fmax(fabs((double)x.n->lo), fabs((double)x.n->hi)));
}

/* A sum of n terms: anywhere if it is exact, else only as an output. */
static void add_sum(grower *w, tn_node *n, bool exact, double most) {
  if (w->strict || !tn__is_float(n->dtype) || (exact && most < limit(n->dtype))) add_value(w, n, exact, most);
  else if (n->op == OP_SUM || n->op == OP_CONTRACT) add_output(w, n);
}

static void grow_reduce(grower *w) {
  value x = pick(w);
  int64_t axes[RANK], n = 1, least = 1;
  uint32_t k = 0;
  tn__op op = OP_SUM + graph_roll(w->d, 4);
  for (uint32_t i = 0; i < x.n->rank; i++)
    if (graph_roll(w->d, 2)) axes[k++] = i, n *= dim_of(x.n, i), least *= x.n->dim[i]->lo;
  if (!k || ((op == OP_RMAX || op == OP_RMIN) && least == 0)) return;
  if ((op == OP_SUM || op == OP_PROD) && x.n->dtype == TN_BOOL) return;
  tn_node *r = tn__reduce(w->c, op, x.n, axes, k);
  if (op == OP_SUM) add_sum(w, r, x.exact, x.most * (double)(n ? n : 1));
  else if (op == OP_PROD) add_sum(w, r, x.exact && n < 64, pow(fmax(x.most, 1), (double)n));
  else add_value(w, r, x.exact, x.most);
}

static void grow_reshape(grower *w) {
  value x = pick(w);
  tn_node *dim[RANK + 2];
  uint32_t r = 0, i = 0;
  if (w->g->var && x.n->op == OP_RESHAPE && graph_roll(w->d, 2)) { /* and back: symbolic sizes come apart again */
    add_value(w, tn__reshape(w->c, x.n, x.n->src[0]->dim, x.n->src[0]->rank), x.exact, x.most);
    return;
  }
  while (i < x.n->rank && r < RANK) {
    tn_node *size = x.n->dim[i++];
    uint32_t how = graph_roll(w->d, 6);
    while (how == 0 && i < x.n->rank) {
      size = tn__mul(w->c, size, x.n->dim[i++]);
      how = graph_roll(w->d, 2);
    }
    int64_t f = how == 1 ? 2 + (int64_t)graph_roll(w->d, 4) : how == 2 ? 1 : 0, s = size->hi;
    if (f && tn__is_const(size) && s % f == 0 && r + 1 < RANK) {
      dim[r++] = tn__int(w->c, graph_roll(w->d, 2) ? f : s / f);
      dim[r] = tn__int(w->c, dim[r - 1]->ints[0] == f ? s / f : f);
      r++;
    } else if (s != 1 || how != 3) {
      dim[r++] = size;
    }
  }
  if (i == x.n->rank) add_value(w, tn__reshape(w->c, x.n, dim, r), x.exact, x.most);
}

static void grow_expand(grower *w) {
  value x = pick(w);
  tn_node *dim[RANK + 1];
  uint32_t at = graph_roll(w->d, x.n->rank + 1u);
  if (x.n->rank == RANK) return;
  for (uint32_t i = 0; i <= x.n->rank; i++) dim[i] = i == at ? tn__int(w->c, 1) : x.n->dim[i < at ? i : i - 1];
  tn_node *y = tn__reshape(w->c, x.n, dim, x.n->rank + 1u);
  dim[at] = draw_size(w);
  add_value(w, tn__expand(w->c, y, dim), x.exact, x.most);
}

static void grow_permute(grower *w) {
  value x = pick(w);
  int64_t perm[RANK];
  for (uint32_t i = 0; i < x.n->rank; i++) {
    uint32_t j = graph_roll(w->d, i + 1);
    perm[i] = perm[j];
    perm[j] = i;
  }
  add_value(w, tn__permute(w->c, x.n, perm), x.exact, x.most);
}

static void grow_pad(grower *w) {
  value x = pick(w);
  tn_node *lohi[2 * RANK];
  for (uint32_t i = 0; i < 2u * x.n->rank; i++)
    lohi[i] = tn__int(w->c, graph_roll(w->d, 2) ? 0 : (int64_t)graph_roll(w->d, 4));
  add_value(w, tn__pad(w->c, x.n, lohi), x.exact, x.most);
}

/* All of it, all but the first, every other. */
static void shrink_symbolic(grower *w, tn_node *n, tn_node **begin, tn_node **size, int64_t *step) {
  uint32_t how = n->lo > 0 ? graph_roll(w->d, 3) : 0;
  *begin = tn__int(w->c, how == 1);
  *size = how == 1   ? tn__sub(w->c, n, tn__int(w->c, 1))
          : how == 2 ? tn__op2(w->c, OP_IDIV, tn__add(w->c, n, tn__int(w->c, 1)), tn__int(w->c, 2))
                     : n;
  *step = 1 + (how == 2);
}

static void grow_shrink(grower *w) {
  value x = pick(w);
  tn_node *begin[RANK], *size[RANK];
  int64_t step[RANK];
  for (uint32_t i = 0; i < x.n->rank; i++) {
    if (!tn__is_const(x.n->dim[i])) {
      shrink_symbolic(w, x.n->dim[i], &begin[i], &size[i], &step[i]);
      continue;
    }
    int64_t n = dim_of(x.n, i), b = n && graph_roll(w->d, 2) ? graph_roll(w->d, (uint32_t)n) : 0,
            s = 1 + (graph_roll(w->d, 3) == 0) * (int64_t)graph_roll(w->d, 3);
    int64_t most = (n - b + s - 1) / s,
            k = most && graph_roll(w->d, 3) == 0 ? most - (int64_t)graph_roll(w->d, (uint32_t)most) : most;
    begin[i] = tn__int(w->c, b);
    size[i] = tn__int(w->c, k);
    step[i] = s;
  }
  add_value(w, tn__shrink(w->c, x.n, begin, size, step), x.exact, x.most);
}

static void grow_flip(grower *w) {
  value x = pick(w);
  int64_t axes[RANK];
  uint32_t k = 0;
  for (uint32_t i = 0; i < x.n->rank; i++)
    if (graph_roll(w->d, 2)) axes[k++] = i;
  if (k) add_value(w, tn__flip(w->c, x.n, axes, k), x.exact, x.most);
}

static void grow_window(grower *w) {
  value x = pick(w);
  if (!x.n->rank || x.n->rank == RANK) return;
  uint32_t axis = graph_roll(w->d, x.n->rank);
  int64_t size = 1 + graph_roll(w->d, 3), stride = 1 + graph_roll(w->d, 3), dilation = 1 + graph_roll(w->d, 2);
  if (x.n->dim[axis]->lo < dilation * (size - 1) + 1) return;
  add_value(w, tn__window(w->c, x.n, axis, size, stride, dilation), x.exact, x.most);
}

static void grow_fold(grower *w) {
  value x = pick(w);
  if (x.n->rank < 2 || x.n->dtype == TN_BOOL) return;
  uint32_t axis = graph_roll(w->d, x.n->rank - 1u);
  int64_t p = dim_of(x.n, axis), size = dim_of(x.n, axis + 1), stride = 1 + graph_roll(w->d, 3),
          dilation = 1 + graph_roll(w->d, 2);
  if (p < 1 || size < 1 || !tn__is_const(x.n->dim[axis]) || !tn__is_const(x.n->dim[axis + 1])) return;
  tn_node *n = tn__int(w->c, (p - 1) * stride + dilation * (size - 1) + 1 + graph_roll(w->d, (uint32_t)stride));
  add_sum(w, tn__fold(w->c, x.n, n, axis, size, stride, dilation), x.exact, x.most * (double)size);
}

static tn_node *indices(grower *w, int64_t n, tn_node *const *dim, uint32_t rank) {
  /* small, and some are outside */
  tn_node *i = graph_leaf(w->c, w->g, w->d, graph_roll(w->d, 2) ? TN_I32 : TN_I64, dim, rank, true);
  if (!i || graph_roll(w->d, 3)) return i;
  tn_node *top = tn__scalar_to(w->c, tn__const_num(w->c, i->dtype, (double)n), dim, rank);
  return n ? tn__op2(w->c, OP_MOD, i, top) : i;
}

static void grow_gather(grower *w) {
  value x = pick(w);
  tn_node *dim[2];
  uint32_t r = graph_roll(w->d, 3);
  if (!x.n->rank || x.n->rank - 1 + r > RANK) return;
  for (uint32_t i = 0; i < r; i++) dim[i] = draw_size(w);
  tn_node *idx = indices(w, dim_of(x.n, 0), dim, r);
  if (idx) add_value(w, tn__gather(w->c, x.n, idx), x.exact, x.most);
}

static void grow_scatter(grower *w) {
  value x = pick(w);
  tn_node *dim[RANK + 2], *s[2];
  uint32_t r = graph_roll(w->d, 3), k = 0;
  double n = 1;
  if (!x.n->rank || x.n->rank - 1 + r > RANK || x.n->dtype == TN_BOOL) return;
  for (uint32_t i = 0; i < r; i++) dim[k++] = s[i] = draw_size(w), n *= (double)s[i]->hi;
  for (uint32_t i = 1; i < x.n->rank; i++) dim[k++] = x.n->dim[i];
  tn_node *idx = indices(w, dim_of(x.n, 0), s, r),
          *shape = tn__scalar_to(w->c, tn__const_bits(w->c, x.n->dtype, 0), dim, k);
  if (!idx || count(shape) > w->size->elements) return;
  value u = match(w, shape, x.n->dtype);
  add_sum(w, tn__scatter(w->c, x.n, idx, u.n), x.exact && u.exact, x.most + n * u.most);
}

/* One axis of x as k, one or none as batch; the other operand is made to fit. */
static void grow_contract(grower *w) {
  value x = pick(w);
  if (!x.n->rank || x.n->dtype == TN_BOOL) return;
  uint32_t nb = x.n->rank > 1 && graph_roll(w->d, 2), nn = graph_roll(w->d, 3),
           nk = x.n->rank - nb > 1 && graph_roll(w->d, 4) == 0 ? 2 : 1, nm = x.n->rank - nb - nk, r = 0;
  tn_node *dim[RANK + 2];
  double k = 1;
  if (nb + nn + nk > RANK || nb + nm + nn > RANK) return;
  for (uint32_t i = 0; i < nb; i++) dim[r++] = x.n->dim[i];
  for (uint32_t i = 0; i < nn; i++) dim[r++] = draw_size(w);
  for (uint32_t i = 0; i < nk; i++) dim[r++] = x.n->dim[nb + nm + i], k *= (double)dim_of(x.n, nb + nm + i);
  tn_node *shape = tn__scalar_to(w->c, tn__const_bits(w->c, x.n->dtype, 0), dim, r);
  if (count(shape) > w->size->elements) return;
  value y = match(w, shape, x.n->dtype);
  add_sum(w, tn__contract(w->c, x.n, y.n, (int)nb, (int)nm, (int)nn, (int)nk), x.exact && y.exact, x.most * y.most * k);
}

/* Two values end to end: the sum of their padded forms, as the front end writes it. */
static void grow_concatenate(grower *w) {
  value x = pick(w);
  tn_node *lo[2 * RANK], *hi[2 * RANK];
  if (!x.n->rank || x.n->dtype == TN_BOOL) return;
  uint32_t axis = graph_roll(w->d, x.n->rank);
  value y = match(w, x.n, x.n->dtype);
  for (uint32_t i = 0; i < 2u * x.n->rank; i++) lo[i] = hi[i] = tn__int(w->c, 0);
  lo[2 * axis] = hi[2 * axis + 1] = x.n->dim[axis];
  tn_node *a = tn__pad(w->c, x.n, hi), *b = tn__pad(w->c, y.n, lo);
  if (a != x.n) add_value(w, tn__add(w->c, a, b), x.exact && y.exact, x.most + y.most);
}

static void grow_iota(grower *w) {
  tn_node *n = tn__iota(w->c, draw_size(w));
  add_value(w, n, true, 8);
}

static void grow_copy(grower *w) {
  value x = pick(w);
  tn__op op = graph_roll(w->d, 2) ? OP_CONTIG : OP_DETACH;
  add_value(w, tn__node_make(w->c, &(tn__make){.op = op, .src = &x.n, .nsrc = 1}), x.exact, x.most);
}

static void grow_assign(grower *w) {
  value x = pick(w);
  if (x.n->op != OP_PARAM || w->g->var) return; /* inputs of programs are not assigned */
  value y = match(w, x.n, x.n->dtype);
  add_value(w, tn__node_make(w->c, &(tn__make){.op = OP_ASSIGN, .src = (tn_node *[]){x.n, y.n}, .nsrc = 2}), y.exact,
            y.most);
}

/* As softmax and norms: several reductions over one row, around something dear.  Rounded to integers, so that sums stay
 * exact. */
static void grow_rows(grower *w) {
  tn_ctx *c = w->c;
  value x = pick(w);
  tn_node *dim[RANK];
  if (!x.n->rank || !tn__is_float(x.n->dtype) || (!w->strict && x.n->dtype == TN_BF16)) return; /* see add_result */
  int64_t axis = graph_roll(w->d, 2) ? x.n->rank - 1 : (int64_t)graph_roll(w->d, x.n->rank);
  double n = (double)dim_of(x.n, (uint32_t)axis);
  if (x.n->dim[axis]->lo == 0 || (!w->strict && 4 * n >= limit(x.n->dtype))) return;
  for (uint32_t i = 0; i < x.n->rank; i++) dim[i] = i == axis ? tn__int(c, 1) : x.n->dim[i];
  tn_node *top = tn__expand(c, tn__reshape(c, tn__reduce(c, OP_RMAX, x.n, &axis, 1), dim, x.n->rank), x.n->dim);
  tn_node *e = tn__op1(c, OP_EXP, tn__sub(c, x.n, top)),
          *four = tn__scalar_to(c, tn__const_num(c, x.n->dtype, 4), x.n->dim, x.n->rank);
  tn_node *q = w->strict ? e : tn__op1(c, OP_FLOOR, tn__mul(c, e, four));
  tn_node *s = tn__reduce(c, OP_SUM, q, &axis, 1);
  tn_node *wide = tn__expand(c, tn__reshape(c, s, dim, x.n->rank), x.n->dim);
  if (graph_roll(w->d, 2)) add_value(w, s, true, 4 * n);
  if (graph_roll(w->d, 2)) add_value(w, e, false, 1);
  if (graph_roll(w->d, 2)) add_value(w, tn__op2(c, OP_DIV, e, wide), false, 1);
  add_value(w, tn__add(c, q, wide), true, 4 * (n + 1));
}

/* bf16 from function to function, which may stay f32 meanwhile: an output. */
static void grow_chain(grower *w) {
  static const uint8_t unary[] = {OP_NEG,   OP_ABS, OP_SQRT,  OP_EXP,  OP_EXP2,
                                  OP_EXPM1, OP_LOG, OP_LOG1P, OP_TANH, OP_ERF};
  static const uint8_t binary[] = {OP_ADD, OP_MUL, OP_MAX, OP_MIN, OP_DIV, OP_ADD, OP_MUL};
  tn_ctx *c = w->c;
  if (w->strict) return;
  value x = match(w, pick(w).n, TN_BF16);
  for (uint32_t k = 2 + graph_roll(w->d, 6); k > 0; k--) {
    uint32_t how = graph_roll(w->d, 3);
    if (how == 0) {
      x.n = tn__op1(c, unary[graph_roll(w->d, sizeof unary)], x.n);
      continue;
    }
    value y = match(w, x.n, TN_BF16);
    if (how == 1) x.n = tn__op2(c, binary[graph_roll(w->d, sizeof binary)], x.n, y.n);
    else x.n = tn__where(c, match(w, x.n, TN_BOOL).n, x.n, y.n);
  }
  add_output(w, x.n);
}

typedef void (*grow_fn)(grower *);
static const grow_fn growth[] = {grow_leaf,    grow_unary,  grow_unary,   grow_binary,  grow_binary,   grow_binary,
                                 grow_where,   grow_cast,   grow_reduce,  grow_reduce,  grow_reduce,   grow_reshape,
                                 grow_reshape, grow_expand, grow_permute, grow_pad,     grow_shrink,   grow_flip,
                                 grow_window,  grow_fold,   grow_gather,  grow_scatter, grow_contract, grow_concatenate,
                                 grow_iota,    grow_copy,   grow_assign,  grow_rows,    grow_rows,     grow_chain};

typedef struct step {
  grower *w;
  grow_fn fn;
} step;

static void one_step(tn_ctx *c, void *arg) {
  step *s = arg;
  (void)c;
  s->fn(s->w);
}

static void do_random(tn_ctx *c, void *arg) {
  grower *w = arg;
  tn_node *root[MOST];
  uint32_t n = 0, steps = 3 + graph_roll(w->d, w->size->nodes);
  if (w->size->symbolic) w->g->var = tn__node_keep(tn__var(c, "B", graph_roll(w->d, 2), w->size->symbolic));
  while (!w->n) grow_leaf(w);
  for (uint32_t i = 0; i < steps; i++) {
    step s = {w, growth[graph_roll(w->d, sizeof growth / sizeof *growth)]};
    bool good = tn__ctx_run(c, "grow", one_step, &s);
    /* no such op on this dtype; anything else the generator must not do */
    if (!good && tn_last_error(c)->status != TN_EDTYPE) {
      fprintf(stderr, "graph_random: %s\n", tn_last_error(c)->text);
      abort();
    }
    tn_clear_error(c);
  }
  uint32_t outs = 1 + graph_roll(w->d, w->size->outputs);
  for (uint32_t i = 0; i < outs; i++) {
    if (w->nout && graph_roll(w->d, 3) == 0) root[n++] = w->out[--w->nout];
    else root[n++] = i ? pick(w).n : w->v[w->n - 1].n;
  }
  w->g->sink = tn__node_keep(tn__sink(c, root, n, "outputs"));
}

bool graph_random(tn_ctx *c, graph_dice *d, const graph_size *size, graph *out) {
  grower w = {.c = c, .d = d, .size = size, .g = out, .strict = c->mode == TN_MODE_STRICT};
  *out = (graph){0};
  return tn__ctx_run(c, "graph_random", do_random, &w);
}

void graph_free(tn_ctx *c, graph *g) {
  for (uint32_t i = 0; i < g->nleaf; i++) free(g->data[i]);
  if (g->sink) tn__node_drop(c, g->sink);
  if (g->var) tn__node_drop(c, g->var);
  *g = (graph){0};
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

typedef struct text_job {
  const char *text;
  char *printed;
  graph *g;
  graph_dice dice;
  bool plain;
} text_job;

static void do_parse(tn_ctx *c, void *arg) {
  text_job *j = arg;
  tn__nodes all = {0};
  tn_node *root = tn__parse(c, j->text);
  if (root->op != OP_SINK) root = tn__sink(c, &root, 1, "outputs");
  tn__topo(&c->scratch, &root, 1, &all);
  uint32_t slots = 0;
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op == OP_PARAM && all.v[i]->ints[0] >= slots) slots = (uint32_t)all.v[i]->ints[0] + 1;
    if (all.v[i]->op == OP_VAR) j->g->var = tn__node_keep(all.v[i]);
  }
  for (uint32_t s = 0; s < slots; s++) {
    j->g->data[j->g->nleaf++] = NULL;
    for (uint32_t i = 0; i < all.n; i++) {
      tn_node *n = all.v[i];
      if (n->op != OP_PARAM || n->ints[0] != s) continue;
      j->g->nleaf--;
      graph_leaf(c, j->g, &j->dice, n->dtype, n->dim, n->rank, j->plain);
      break;
    }
  }
  j->g->sink = tn__node_keep(root);
}

bool graph_parse(tn_ctx *c, const char *text, uint64_t seed, bool plain, graph *out) {
  text_job j = {.text = text, .g = out, .dice.state = seed, .plain = plain};
  *out = (graph){0};
  return tn__ctx_run(c, "graph_parse", do_parse, &j);
}

static void do_text(tn_ctx *c, void *arg) {
  text_job *j = arg;
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__print(&s, j->g->sink);
  j->printed = strdup(tn__sb_str(&s));
}

char *graph_text(tn_ctx *c, const graph *g) {
  graph copy = *g;
  text_job j = {.g = &copy};
  tn__ctx_run(c, "graph_text", do_text, &j);
  return j.printed;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static int64_t size_at(const graph *g, tn_node *dim, tn__arena *a) {
  tn_node *var = g->var;
  return tn__is_const(dim) ? dim->ints[0]
                           : tn__eval_index(dim, &(tn__env){&var, (int64_t[]){g->bound}, var != NULL}, a);
}

typedef struct run_job {
  const graph *g;
  tn_tensor **leaf, **out;
  tn_dim shape[GRAPH_LEAVES][TN_MAX_RANK], size; /* of the leaves, symbolic; the symbolic size itself */
} run_job;

/* The graph over real storages, its outputs in handles. */
static void do_attach(tn_ctx *c, void *arg) {
  run_job *j = arg;
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn_node *sink = j->g->sink;
  tn__topo(&c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_PARAM) continue;
    tn__vec_push(&c->scratch, &old, all.v[i]);
    tn__vec_push(&c->scratch, &new_, j->leaf[all.v[i]->ints[0]]->node);
  }
  sink = tn__substitute(c, sink, old.v, new_.v, old.n);
  for (uint32_t i = 0; i < sink->nsrc; i++) j->out[i] = tn__cell_new(c, sink->src[i]);
}

static uint32_t find_leaves(const graph *g, tn_node **leaf_of, tn__arena *a) {
  tn__nodes all = {0};
  tn_node *sink = g->sink;
  uint32_t n = 0;
  tn__topo(a, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_PARAM) leaf_of[n++] = all.v[i];
  return n;
}

static void oracle(const graph *g, tn_node *const *root, uint32_t n, naive_tensor *out, tn__arena *a) {
  tn_node *leaf_of[GRAPH_LEAVES];
  naive_bind bind[GRAPH_LEAVES + 1];
  uint32_t k = find_leaves(g, leaf_of, a);
  for (uint32_t i = 0; i < k; i++) bind[i] = (naive_bind){leaf_of[i], g->data[leaf_of[i]->ints[0]]};
  if (g->var) bind[k++] = (naive_bind){g->var, &g->bound};
  naive_eval(root, n, bind, k, out);
}

static bool both_nan(int dtype, uint64_t a, uint64_t b) {
  uint64_t mask = tn__size_of(dtype) < 8 ? (1ull << 8 * tn__size_of(dtype)) - 1 : UINT64_MAX;
  return tn__is_float(dtype) && isnan(tn__eval_to_double(dtype, a & mask)) &&
         isnan(tn__eval_to_double(dtype, b & mask));
}

/* Which NaN it is, is not said; nor do its bits say it. */
static bool same_bits(const tn_node *n, uint64_t a, uint64_t b) {
  return a == b || both_nan(n->dtype, a, b) || (n->op == OP_BITCAST && both_nan(n->src[0]->dtype, a, b));
}

static double ulp(int dtype, double x) {
  int e, least = dtype == TN_F64 ? -1074 : -133; /* of bf16 */
  frexp(x, &e);
  e -= tn__dtypes[dtype].mant;
  return ldexp(1, e < least ? least : e);
}

/* |x| where x is finite, else 0; of f16 and bf16 in f32, where sums do not get stuck. */
static tn_node *finite_part(tn_ctx *c, tn_node *x) {
  if (x->dtype == TN_F16 || x->dtype == TN_BF16) x = tn__cast(c, x, TN_F32);
  tn_node *size = tn__op1(c, OP_ABS, x);
  tn_node *inf = tn__scalar_to(c, tn__const_num(c, x->dtype, HUGE_VAL), x->dim, x->rank),
          *zero = tn__scalar_to(c, tn__const_num(c, x->dtype, 0), x->dim, x->rank);
  return tn__where(c, tn__op2(c, OP_LT, size, inf), size, zero);
}

/* sum|terms| of a sum or contraction, of those that are finite, and how many there are */
static tn_node *magnitude(tn_ctx *c, const graph *g, tn_node *n, double *terms) {
  *terms = 1;
  const tn_node *x = n->src[0];
  if (n->op == OP_SUM) {
    for (uint32_t i = 0; i < n->nint; i++) *terms *= (double)size_at(g, x->dim[n->ints[i]], &c->scratch);
    return tn__reduce(c, OP_SUM, finite_part(c, n->src[0]), n->ints, n->nint);
  }
  for (uint32_t i = (uint32_t)(n->ints[0] + n->ints[1]); i < x->rank; i++)
    *terms *= (double)size_at(g, x->dim[i], &c->scratch);
  return tn__contract(c, finite_part(c, n->src[0]), finite_part(c, n->src[1]), (int)n->ints[0], (int)n->ints[1],
                      (int)n->ints[2], (int)n->ints[3]);
}

/* The exponents of a float dtype's least unit and of what overflows. */
static const struct {
  int least, over;
} exponents[TN_DTYPE_COUNT] = {
    [TN_F16] = {-24, 16}, [TN_BF16] = {-133, 128}, [TN_F32] = {-149, 128}, [TN_F64] = {-1074, 1024}};

/* May x and y be the same sum of so many terms, in different orders?  `size`: sum|terms| of the finite ones.  What is
 * not finite is then no matter of order, unless the finite terms overflow. */
static bool same_sum(int dtype, double x, double y, double terms, double size) {
  /* by which products that underflow round, each */
  double eps = ldexp(1, 1 - tn__dtypes[dtype].mant), unit = ldexp(1, exponents[dtype].least);
  if (!(ldexp(size, -exponents[dtype].over) * (1 + terms * eps) < 1)) return true;
  return fabs(x - y) <= terms * (eps * size + unit);
}

typedef struct compare_job {
  const graph *g;
  uint32_t at;
  const naive_tensor *want;
  const char *got;
  char *why;
  size_t size;
  bool good;
} compare_job;

/* Is a result of bf16 what rounding or not can make of it (enclose.h)?  A range of one value is for the bits to tell.
 */
static bool is_enclosed(double got, double lo, double hi) {
  if (isnan(lo) && isnan(hi)) return isnan(got);
  if (lo > hi) return true;
  return (lo < hi || !signbit(lo) != !signbit(hi)) && lo <= got && got <= hi;
}

static void do_compare(tn_ctx *c, void *arg) {
  compare_job *j = arg;
  tn_node *n = j->g->sink->src[j->at];
  bool sum = c->mode != TN_MODE_STRICT && tn__is_float(n->dtype) && (n->op == OP_SUM || n->op == OP_CONTRACT);
  bool loose = c->mode != TN_MODE_STRICT && is_loose(n);
  naive_tensor size = {0}, range[2] = {0};
  double terms = 0;
  for (int64_t i = 0; i < j->want->n && j->good; i++) {
    uint64_t got = tn__eval_load(n->dtype, j->got + (size_t)i * tn__size_of(n->dtype)), want = j->want->bits[i];
    if (same_bits(n, got, want)) continue;
    double x = tn__eval_to_double(n->dtype, got), y = tn__eval_to_double(n->dtype, want);
    if (slack(c, n) && fabs(x - y) <= slack(c, n) * ulp(n->dtype, y)) continue;
    if (n->dtype == TN_F64 && fabs(x - y) <= j->g->slack * fmax(1, fabs(y))) continue;
    if (sum) {
      if (!size.bits) {
        tn_node *root = magnitude(c, j->g, n, &terms);
        oracle(j->g, &root, 1, &size, &c->scratch);
      }
      if (same_sum(n->dtype, x, y, terms, naive_get(&size, i))) continue;
    }
    if (loose) {
      if (!range[0].bits) {
        tn_node *root[2];
        enclose(c, n, &root[0], &root[1]);
        oracle(j->g, root, 2, range, &c->scratch);
      }
      if (is_enclosed(x, naive_get(&range[0], i), naive_get(&range[1], i))) continue;
    }
    snprintf(j->why, j->size, "output %u (%s %s), element %lld of %lld: %.17g (%#llx), not %.17g (%#llx)", j->at,
             tn__ops[n->op].text, tn__dtypes[n->dtype].name, (long long)i, (long long)j->want->n, x,
             (unsigned long long)got, y, (unsigned long long)want);
    j->good = false;
  }
  if (size.bits) naive_free(&size);
  for (int k = 0; k < 2; k++)
    if (range[k].bits) naive_free(&range[k]);
}

typedef tn_dim shape_of[TN_MAX_RANK];

/* Outputs on demand, into got[i] of bytes[i]. */
static bool run_realized(tn_ctx *c, const graph *g, tn_node *const *leaf, uint32_t n, const shape_of *shape,
                         char *const *got, const size_t *bytes) {
  tn_tensor *leaves[GRAPH_LEAVES], *out[MOST];
  for (uint32_t i = 0; i < n; i++)
    leaves[leaf[i]->ints[0]] = tn_from(c, (tn_dtype)leaf[i]->dtype, shape[i], leaf[i]->rank, g->data[leaf[i]->ints[0]]);
  bool good = tn__ctx_run(c, "attach", do_attach, &(run_job){.g = g, .leaf = leaves, .out = out}) &&
              tn_realize(out, (int)g->sink->nsrc) == TN_OK;
  for (uint32_t i = 0; i < g->sink->nsrc && good; i++) good = tn_read(out[i], got[i], bytes[i]) == TN_OK;
  return good;
}

static void do_shapes(tn_ctx *c, void *arg) {
  run_job *j = arg;
  tn_node *leaf[GRAPH_LEAVES];
  uint32_t n = find_leaves(j->g, leaf, &c->scratch);
  j->size = tn__dim_out(c, j->g->var);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < leaf[i]->rank; k++) j->shape[i][k] = tn__dim_out(c, leaf[i]->dim[k]);
}

static const char *numbered(char *name, char letter, uint32_t i) {
  snprintf(name, 16, "%c%u", letter, i);
  return name;
}

/* The same by a program: an input that has the symbolic size, and one for each leaf. */
static bool record_program(tn_ctx *c, tn_program *p, const graph *g, tn_node *const *leaf, uint32_t n) {
  tn_tensor *leaves[GRAPH_LEAVES], *out[MOST];
  run_job j = {.g = g, .leaf = leaves, .out = out};
  char name[16];
  bool good = tn__ctx_run(c, "shapes", do_shapes, &j) && tn_program_input(p, "size", TN_U8, &j.size, 1);
  for (uint32_t i = 0; i < n && good; i++)
    good = (leaves[leaf[i]->ints[0]] = tn_program_input(p, numbered(name, 'x', i), (tn_dtype)leaf[i]->dtype, j.shape[i],
                                                        leaf[i]->rank)) != NULL;
  good = good && tn__ctx_run(c, "attach", do_attach, &j);
  for (uint32_t i = 0; i < g->sink->nsrc && good; i++)
    good = tn_program_output(p, numbered(name, 'o', i), out[i]) == TN_OK;
  return (tn_program_end(p) == TN_OK) & good;
}

static bool run_program(tn_ctx *c, const graph *g, tn_node *const *leaf, uint32_t n, const shape_of *shape,
                        char *const *got, const size_t *bytes) {
  static const char zeros[256];
  tn_program *p = tn_program_begin(c);
  char name[16];
  bool good = p && record_program(c, p, g, leaf, n) &&
              tn_program_write(p, "size", &g->bound, 1, zeros, (size_t)g->bound) == TN_OK;
  for (uint32_t i = 0; i < n && good; i++) {
    size_t size = tn__size_of(leaf[i]->dtype);
    for (uint32_t k = 0; k < leaf[i]->rank; k++) size *= (size_t)shape[i][k];
    good =
        tn_program_write(p, numbered(name, 'x', i), shape[i], leaf[i]->rank, g->data[leaf[i]->ints[0]], size) == TN_OK;
  }
  good = good && tn_program_run(p) == TN_OK;
  for (uint32_t i = 0; i < g->sink->nsrc && good; i++)
    good = tn_program_read(p, numbered(name, 'o', i), got[i], bytes[i]) == TN_OK;
  tn_program_close(p);
  return good;
}

static bool run_graph(tn_ctx *c, const graph *g, char *const *got, const size_t *bytes, char *why, size_t size) {
  tn_node *leaf[GRAPH_LEAVES];
  shape_of shape[GRAPH_LEAVES];
  tn__arena a;
  tn__arena_init(&a, &c->mem);
  uint32_t n = find_leaves(g, leaf, &a);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < leaf[i]->rank; k++) shape[i][k] = size_at(g, leaf[i]->dim[k], &a);
  tn__arena_free(&a);
  bool good = (g->var ? run_program : run_realized)(c, g, leaf, n, shape, got, bytes);
  if (!good) snprintf(why, size, "error: %s", tn_last_error(c)->text);
  tn_clear_error(c);
  return good;
}

bool graph_agrees(tn_ctx *c, const graph *g, char *why, size_t size) {
  naive_tensor want[MOST];
  char *got[MOST];
  size_t bytes[MOST];
  uint32_t n = g->sink->nsrc;
  tn__arena a;
  tn__arena_init(&a, &c->mem);
  oracle(g, g->sink->src, n, want, &a);
  tn__arena_free(&a);
  for (uint32_t i = 0; i < n; i++) {
    bytes[i] = (size_t)want[i].n * tn__size_of(want[i].dtype);
    if (!(got[i] = malloc(bytes[i] + 1))) abort();
  }
  bool good = false;
  tn_scope(c) good = run_graph(c, g, got, bytes, why, size);
  for (uint32_t i = 0; i < n; i++) {
    compare_job j = {g, i, &want[i], got[i], why, size, true};
    if (good) tn__ctx_run(c, "compare", do_compare, &j);
    good &= j.good;
    naive_free(&want[i]);
    free(got[i]);
  }
  return good;
}

bool graph_agrees_always(tn_ctx *c, graph *g, char *why, size_t size) {
  if (!g->var) return graph_agrees(c, g, why, size);
  const int64_t bounds[] = {g->var->lo, (g->var->lo + g->var->hi) / 2, g->var->hi};
  bool good = true;
  for (int i = 0; i < 3 && good; i++) {
    g->bound = bounds[i];
    good = graph_agrees(c, g, why, size);
  }
  return good;
}

/* ---- shrinking --------------------------------------------------------------------------------------------------- */

typedef struct cut_job {
  const graph *g;
  graph made;
  tn_node *node, *by; /* node becomes `by`, or a leaf that holds its value */
  int only;           /* this output alone; -1: all */
  bool done;
} cut_job;

static void do_cut(tn_ctx *c, void *arg) {
  cut_job *j = arg;
  tn_node *sink = j->g->sink, *by = j->by;
  graph *m = &j->made;
  *m = (graph){.var = j->g->var, .bound = j->g->bound};
  if (j->only >= 0) sink = tn__sink(c, &sink->src[j->only], 1, "outputs");
  if (j->node && !by) {
    if (j->g->nleaf == GRAPH_LEAVES) return;
    for (uint32_t i = 0; i < j->node->rank; i++)
      if (!is_simple(j->node->dim[i])) return;
    by = tn__param(c, j->node->dtype, j->g->nleaf, 0, j->node->dim, j->node->rank);
    naive_tensor v;
    oracle(j->g, &j->node, 1, &v, &c->scratch);
    size_t size = tn__size_of(v.dtype);
    char *data = malloc((size_t)v.n * size + 1);
    for (int64_t i = 0; i < v.n; i++) tn__eval_store(v.dtype, data + (size_t)i * size, v.bits[i]);
    naive_free(&v);
    m->data[j->g->nleaf] = data;
  }
  if (j->node) sink = tn__substitute(c, sink, &j->node, &by, 1);
  m->nleaf = j->g->nleaf + (m->data[j->g->nleaf] != NULL);
  for (uint32_t i = 0; i < j->g->nleaf; i++) { /* copies of no known size: shared, and freed once, by the shrinker */
    m->data[i] = j->g->data[i];
  }
  m->sink = tn__node_keep(sink);
  j->done = sink != j->g->sink;
}

/* Tries one cut; true if the result still fails, and then it is the graph. */
static bool cut(tn_ctx *c, graph *g, tn_node *node, tn_node *by, int only) {
  char why[256];
  cut_job j = {.g = g, .node = node, .by = by, .only = only};
  bool made = tn__ctx_run(c, "cut", do_cut, &j);
  tn_clear_error(c);
  if (!made || !j.made.sink) return false;
  if (j.done && !graph_agrees(c, &j.made, why, sizeof why)) {
    tn__node_drop(c, g->sink);
    *g = j.made;
    return true;
  }
  if (j.made.nleaf > g->nleaf) free(j.made.data[g->nleaf]);
  tn__node_drop(c, j.made.sink);
  return false;
}

static bool shrink_once(tn_ctx *c, graph *g) {
  for (uint32_t i = 0; g->sink->nsrc > 1 && i < g->sink->nsrc; i++)
    if (cut(c, g, NULL, NULL, (int)i)) return true;
  tn__arena a;
  tn__nodes all = {0};
  tn_node *sink = g->sink;
  bool hit = false;
  tn__arena_init(&a, &c->mem);
  tn__topo(&a, &sink, 1, &all);
  for (uint32_t i = all.n; i-- > 0 && !hit;) {
    tn_node *n = all.v[i];
    if (n->op == OP_SINK || n->op == OP_PARAM || n->op == OP_CONST || n->dtype >= TN_DTYPE_COUNT) continue;
    for (uint32_t s = 0; s < n->nsrc && !hit; s++) {
      tn_node *x = n->src[s];
      if (x->dtype != n->dtype || x->rank != n->rank) continue;
      bool same = true;
      for (uint32_t k = 0; k < n->rank; k++) same &= x->dim[k] == n->dim[k];
      hit = same && cut(c, g, n, x, -1);
    }
    bool is_root = false;
    for (uint32_t s = 0; s < sink->nsrc; s++) is_root |= sink->src[s] == n;
    if (is_root && sink->nsrc == 1 && !hit) { /* one of its sources as the output */
      for (uint32_t s = 0; s < n->nsrc && !hit; s++)
        if (n->src[s]->dtype < TN_DTYPE_COUNT && n->src[s]->op != OP_PARAM && n->src[s]->op != OP_CONST)
          hit = cut(c, g, sink, tn__node_with(c, sink, &n->src[s]), -1);
    } else if (!hit) {
      hit = cut(c, g, n, NULL, -1);
    }
  }
  tn__arena_free(&a);
  return hit;
}

void graph_shrink(tn_ctx *c, graph *g) {
  c->depth++; /* nodes made on the way stay */
  for (int i = 0; i < 400 && shrink_once(c, g); i++) {
  }
  c->depth--;
}

/* What failed, made smaller, as text. */
static void report(tn_ctx *c, graph *g, char *why, size_t size, const char *name) {
  fprintf(stderr, "%s: %s\n", name, why);
  if (!getenv("GRAPH_KEEP")) graph_shrink(c, g);
  graph_agrees(c, g, why, size);
  char *text = graph_text(c, g);
  fprintf(stderr, "shrunk: %s\n%s\n", why, text ? text : "");
  if (g->var) fprintf(stderr, "B = %lld\n", (long long)g->bound);
  free(text);
}

bool graph_try(tn_ctx *c, graph_dice *d, const graph_size *size, const char *name) {
  graph g;
  char why[512] = "";
  if (!graph_random(c, d, size, &g)) return false;
  if (getenv("FUZZ_PRINT")) {
    char *text = graph_text(c, &g);
    fprintf(stderr, "%s:\n%s", name, text);
    free(text);
  }
  bool good = graph_agrees_always(c, &g, why, sizeof why);
  if (!good) report(c, &g, why, sizeof why, name);
  graph_free(c, &g);
  return good;
}
