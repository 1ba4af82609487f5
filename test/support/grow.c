#include "support/grow.h"
#include "grad/grad_pass.h"
#include "ir/eval.h"
#include "tenet/tensor.h"
#include "tensor/cell.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- choices ----------------------------------------------------------------------------------------------------- */

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

graph_size graph_any_size(graph_dice *d) {
  static const graph_size sizes[] = {
      {.nodes = 20, .outputs = 4, .longest = 8, .elements = 300, .work = 4000, .rank = 5},
      {.nodes = 16, .outputs = 3, .longest = 150, .elements = 2000, .work = 20000, .rank = 5},
      {.nodes = 12, .outputs = 3, .longest = 700, .elements = 5000, .work = 50000, .rank = 4},
      {.nodes = 8, .outputs = 2, .longest = 5000, .elements = 20000, .work = 200000, .rank = 3},
      {.nodes = 14, .outputs = 3, .longest = 3, .elements = 1000, .work = 10000, .rank = GROW_RANK},
      {.nodes = 60, .outputs = 6, .longest = 20, .elements = 400, .work = 20000, .rank = 5},
      {.nodes = 16, .outputs = 3, .longest = 8, .elements = 3000, .work = 30000, .rank = 5, .symbolic = 13},
      {.nodes = 10, .outputs = 2, .longest = 70, .elements = 3000, .work = 60000, .rank = 4, .symbolic = 150},
  };
  static const uint8_t often[] = {0, 0, 0, 1, 1, 1, 1, 2, 2, 2, 3, 3, 4, 4, 5, 6, 7};
  return sizes[often[graph_roll(d, sizeof often)]];
}

graph_size graph_layer_size(void) {
  return (graph_size){.nodes = 3, .outputs = 4, .longest = 200, .elements = 1 << 18, .work = 1e7, .rank = 4};
}

int64_t grow_count(const tn_node *n) {
  int64_t k = 1;
  for (uint32_t i = 0; i < n->rank; i++) k *= grow_dim(n, i);
  return k;
}

bool grow_is_plain(const tn_node *n) {
  for (uint32_t i = 0; i < n->rank; i++)
    if (!tn__is_const(n->dim[i])) return false;
  return true;
}

static double most_work(const graph_size *size) { return size->work > 0 ? size->work : 1e6; }

/* Steps that the node takes. */
static double work_of(const tn_node *n) {
  double work = n->op == OP_SCATTER ? (double)grow_count(n->src[2]) : n->nsrc && n->src[0]->dtype < TN_DTYPE_COUNT
                                                                        ? (double)grow_count(n->src[0])
                                                                        : 0;
  if (n->op == OP_CONTRACT)
    for (int64_t i = 0; i < n->ints[2]; i++) work *= (double)grow_dim(n, (uint32_t)(n->ints[0] + n->ints[1] + i));
  return work + (double)grow_count(n);
}

bool grow_add(grower *w, tn_node *n) {
  uint32_t rank = w->size->rank ? w->size->rank : 5;
  double work = work_of(n);
  if (w->n == GROW_VALUES || n->rank > rank || grow_count(n) > w->size->elements || work > w->work) return false;
  w->work -= work;
  w->v[w->n++] = n;
  return true;
}

tn_node *grow_pick(grower *w) {
  uint32_t back = graph_roll(w->d, 3) ? graph_roll(w->d, w->n < 6 ? w->n : 6) : graph_roll(w->d, w->n);
  return w->v[w->n - 1 - back];
}

/* ---- leaves ------------------------------------------------------------------------------------------------------ */

static uint64_t draw(graph_dice *d, int dtype, bool plain) {
  static const double special[] = {0,     -0.0,    1,        -1,        0.5, -2.5,  3,   1e-3,  1e30, -1e30,
                                   1e-42, -1e-310, INFINITY, -INFINITY, NAN, 65504, 255, 127.5, -128, 2147483648.0};
  if (tn__is_float(dtype) && plain) return tn__eval_from_double(dtype, (double)graph_roll(d, 7) - 3);
  if (tn__is_float(dtype) && graph_roll(d, 3) == 0) return tn__eval_from_double(dtype, special[graph_roll(d, 20)]);
  if (tn__is_float(dtype)) return tn__eval_from_double(dtype, ((double)graph_roll(d, 65536) - 32768) / 5000);
  if (dtype == TN_BOOL) return graph_roll(d, 2);
  bool small = graph_roll(d, 4) || plain;
  uint64_t bits = small ? (uint64_t)((int64_t)graph_roll(d, 12) - 4) : (uint64_t)graph_roll(d, 65536);
  if (!small) bits <<= graph_roll(d, 48);
  return tn__eval_cast(TN_I64, dtype, bits);
}

/* Integers; what rounds but nothing special; anything. */
static uint64_t draw_as(graph_dice *d, int dtype, int how) {
  if (how != 1 || !tn__is_float(dtype)) return draw(d, dtype, how == 0);
  return tn__eval_from_double(dtype, ((double)graph_roll(d, 65536) - 32768) / 20000);
}

enum { DRAWN = 256 }; /* values of a leaf; more elements repeat them, in no order: drawing takes time */

static void fill(graph_dice *d, int dtype, int how, char *data, int64_t n) {
  size_t size = tn__size_of(dtype);
  int64_t drawn = n < DRAWN ? n : DRAWN;
  for (int64_t i = 0; i < drawn; i++) tn__eval_store(dtype, data + (size_t)i * size, draw_as(d, dtype, how));
  for (int64_t i = drawn; i < n; i++) {
    uint64_t from = (uint64_t)i * 0x9e3779b97f4a7c15u >> 56;
    memcpy(data + (size_t)i * size, data + from * size, size);
  }
}

/* A leaf whose elements are zeros yet; NULL: there are too many leaves. */
static tn_node *blank(tn_ctx *c, graph *g, int dtype, tn_node *const *dim, uint32_t rank, char **data) {
  if (g->nleaf == GRAPH_LEAVES) return NULL;
  tn_node *n = tn__param(c, dtype, g->nleaf, 0, dim, rank);
  if (!(*data = calloc((size_t)grow_count(n) + 1, tn__size_of(dtype)))) abort();
  g->data[g->nleaf++] = *data;
  return n;
}

static tn_node *leaf(tn_ctx *c, graph *g, graph_dice *d, int dtype, tn_node *const *dim, uint32_t rank, int how) {
  char *data;
  tn_node *n = blank(c, g, dtype, dim, rank, &data);
  if (n) fill(d, dtype, how, data, grow_count(n));
  return n;
}

tn_node *graph_leaf(tn_ctx *c, graph *g, graph_dice *d, int dtype, tn_node *const *dim, uint32_t rank, bool plain) {
  return leaf(c, g, d, dtype, dim, rank, plain ? 0 : 2);
}

/* In mode strict anything at once; else integers in order that much stays certain. */
static int draw_how(grower *w) {
  uint32_t k = graph_roll(w->d, 6);
  return w->c->mode == TN_MODE_STRICT ? (k < 4 ? 2 : 1) : k < 3 ? 0 : k < 5 ? 1 : 2;
}

int64_t grow_size(grower *w) {
  static const int64_t borders[] = {1, 2, 4, 8, 16, 32, 64, 128, 256, 512, 1024, 2048, 4096};
  uint32_t n = 1;
  if (graph_roll(w->d, 24) == 0) return 0;
  while (n < sizeof borders / sizeof *borders && borders[n] <= w->size->longest) n++;
  int64_t from = borders[graph_roll(w->d, n)], v = from;
  if (graph_roll(w->d, 2)) v += (int64_t)graph_roll(w->d, (uint32_t)from);
  else v += (int64_t)graph_roll(w->d, 3) - 1;
  return v < 1 ? 1 : v > w->size->longest ? w->size->longest : v;
}

static tn_node *draw_size(grower *w) {
  return w->g->var && graph_roll(w->d, 3) == 0 ? w->g->var : tn__int(w->c, grow_size(w));
}

int grow_dtype(grower *w, int cls) {
  static const uint8_t dtypes[] = {TN_F32,  TN_F32, TN_F32, TN_F32, TN_I32, TN_I64, TN_BOOL, TN_F64,
                                   TN_F16, TN_BF16, TN_U8,  TN_I8,  TN_U32, TN_I16, TN_U64,  TN_U16};
  for (;;) {
    int dtype = dtypes[graph_roll(w->d, 16)];
    if (tn__dtypes[dtype].cls & cls) return dtype;
  }
}

/* Can a leaf have this size?  Programs take plain sizes and single symbolic ones. */
static bool is_simple(const tn_node *dim) { return tn__is_const(dim) || dim->op == OP_VAR; }

static tn_node *new_leaf(grower *w, int dtype, tn_node *const *dim, uint32_t rank) {
  tn_node *n = leaf(w->c, w->g, w->d, dtype, dim, rank, draw_how(w));
  return n ? n : tn__scalar_to(w->c, tn__const_bits(w->c, dtype, draw(w->d, dtype, true)), dim, rank);
}

tn_node *grow_leaf_of(grower *w, int dtype, const int64_t *dim, uint32_t rank) {
  tn_node *size[TN_MAX_RANK];
  for (uint32_t i = 0; i < rank; i++) size[i] = tn__int(w->c, dim[i]);
  return new_leaf(w, dtype, size, rank);
}

static tn_node *some_leaf(grower *w, int dtype) {
  tn_node *dim[GROW_RANK];
  uint32_t most = w->size->rank ? w->size->rank : 5, rank = graph_roll(w->d, most > 5 ? most + 1 : 5);
  int64_t k = 1;
  for (uint32_t i = 0; i < rank; i++) {
    dim[i] = draw_size(w);
    if (i == 0 && w->g->var && graph_roll(w->d, 2)) dim[i] = w->g->var;
    if (k * dim[i]->hi > w->size->elements) dim[i] = tn__int(w->c, 1);
    k *= dim[i]->hi;
  }
  return new_leaf(w, dtype, dim, rank);
}

static void grow_leaf(grower *w) { grow_add(w, some_leaf(w, grow_dtype(w, ~0))); }

tn_node *grow_pick_of(grower *w, int cls) {
  for (int attempt = 0; attempt < 6; attempt++) {
    tn_node *x = grow_pick(w);
    if (tn__dtypes[x->dtype].cls & cls) return x;
  }
  tn_node *x = some_leaf(w, grow_dtype(w, cls));
  grow_add(w, x);
  return x;
}

tn_node *grow_match(grower *w, const tn_node *x, int dtype) {
  tn_ctx *c = w->c;
  for (int attempt = 0; attempt < 6; attempt++) {
    tn_node *y = grow_pick(w), *dim[GROW_RANK + 1];
    if (y->rank > x->rank || y->dtype != dtype) continue;
    bool fits = true, same = y->rank == x->rank;
    for (uint32_t i = 0; i < x->rank; i++) {
      uint32_t skip = x->rank - y->rank;
      dim[i] = i < skip ? tn__int(c, 1) : y->dim[i - skip];
      fits &= dim[i] == x->dim[i] || tn__is_int_const(dim[i], 1);
      same &= dim[i] == x->dim[i];
    }
    if (!fits) continue;
    return same ? y : tn__expand(c, tn__reshape(c, y, dim, x->rank), x->dim);
  }
  if (graph_roll(w->d, 3)) {
    tn_node *dim[GROW_RANK + 1], *y;
    double count = 1;
    for (uint32_t i = 0; i < x->rank; i++) {
      dim[i] = graph_roll(w->d, 3) && is_simple(x->dim[i]) ? x->dim[i] : tn__int(c, 1);
      count *= (double)dim[i]->hi;
    }
    /* beside an axis of size 0 the others may be of any length */
    bool fits = count <= (double)w->size->elements;
    y = fits ? leaf(c, w->g, w->d, dtype, dim, x->rank, draw_how(w)) : NULL;
    if (y) return tn__expand(c, y, x->dim);
  }
  int how = draw_how(w);
  return tn__scalar_to(c, tn__const_bits(c, dtype, draw_as(w->d, dtype, how)), x->dim, x->rank);
}

tn_node *grow_places(grower *w, int64_t n, tn_node *const *dim, uint32_t rank) {
  static const uint8_t dtypes[] = {TN_I32, TN_I64, TN_I32, TN_I64, TN_U8, TN_I8, TN_U16, TN_I16, TN_U32, TN_U64};
  int dtype = dtypes[graph_roll(w->d, 10)];
  char *data;
  tn_node *x = blank(w->c, w->g, dtype, dim, rank, &data);
  if (!x) return NULL;
  uint32_t how = graph_roll(w->d, 7), most = (uint32_t)(n > 0 ? n : 1), few = 1 + graph_roll(w->d, 4), at = 0;
  if (how == 0) fill(w->d, dtype, 0, data, grow_count(x));
  for (int64_t i = 0, k = grow_count(x); i < k && how; i++) {
    if (how == 1) at = graph_roll(w->d, most + 2); /* one too far, too */
    if (how == 2) at = graph_roll(w->d, few);
    if (how == 3) at = i ? at : graph_roll(w->d, most);
    if (how == 4) at = (uint32_t)i % most;
    if (how == 5) at = (uint32_t)(i / few) % most;
    if (how == 6) at = (uint32_t)(i * 7919 % most);
    int64_t v = (int64_t)at - (how == 1 && at == most + 1 ? most + 2 : 0);
    memcpy(data + (size_t)i * tn__size_of(dtype), &v, tn__size_of(dtype)); /* its low bytes */
  }
  if (graph_roll(w->d, 4)) return x;
  /* computed ones, which may need every bit of their dtype */
  tn_node *top = tn__scalar_to(w->c, tn__const_num(w->c, dtype, (double)most), dim, rank);
  return tn__op2(w->c, OP_MOD, x, top);
}

/* ---- functions of elements --------------------------------------------------------------------------------------- */

enum { FUNCTIONS = OP_SPANS }; /* stand in front of it, and so do other ops */

static tn__op some_op(grower *w, int group) {
  for (;;) {
    uint32_t op = graph_roll(w->d, FUNCTIONS);
    if (tn__ops[op].group == group) return (tn__op)op;
  }
}

/* What the op is defined for. */
static tn_node *pick_for(grower *w, tn__op op) {
  tn_node *x = grow_pick(w);
  if (tn__eval_defined((int)op, x->dtype)) return x;
  return grow_pick_of(w, tn__eval_defined((int)op, TN_F32) ? TN__C_FLOAT : TN__C_INT);
}

static void grow_unary(grower *w) {
  tn__op op = some_op(w, G_UNARY);
  tn_node *x = pick_for(w, op);
  if (tn__eval_defined((int)op, x->dtype)) grow_add(w, tn__op1(w->c, op, x));
}

static void grow_binary(grower *w) {
  static const uint8_t often[] = {OP_ADD, OP_MUL, OP_MAX, OP_MIN, OP_ADD, OP_MUL};
  tn__op op = graph_roll(w->d, 2) ? often[graph_roll(w->d, 6)] : some_op(w, G_BINARY);
  tn_node *x = pick_for(w, op);
  if (!tn__eval_defined((int)op, x->dtype)) return;
  tn_node *y = grow_match(w, x, x->dtype);
  bool turned = graph_roll(w->d, 2);
  grow_add(w, tn__op2(w->c, op, turned ? y : x, turned ? x : y));
}

static void grow_ternary(grower *w) {
  tn_ctx *c = w->c;
  tn_node *x = grow_pick(w);
  uint32_t how = graph_roll(w->d, 5);
  if (how == 0 && x->dtype != TN_BOOL) {
    tn_node *y = grow_match(w, x, x->dtype), *z = grow_match(w, x, x->dtype);
    grow_add(w, tn__op3(c, OP_FMA, x, y, z));
    return;
  }
  tn_node *y = grow_match(w, x, x->dtype), *p = grow_match(w, x, TN_BOOL);
  grow_add(w, tn__where(c, p, x, y));
}

/* Random numbers of these places. */
static void grow_random(grower *w) {
  tn_ctx *c = w->c;
  tn_node *n = draw_size(w), *at = tn__cast(c, tn__iota(c, n), TN_U64);
  tn_node *word = grow_match(w, at, TN_U64), *key = grow_match(w, at, TN_U64);
  tn_node *bits = tn__op3(c, OP_PHILOX, at, word, key);
  grow_add(w, bits);
  if (graph_roll(w->d, 2)) return;
  tn_node *shift = tn__scalar_to(c, tn__const_num(c, TN_U32, 8), bits->dim, 1),
          *unit = tn__scalar_to(c, tn__const_num(c, TN_F32, 0x1p-24), bits->dim, 1);
  grow_add(w, tn__mul(c, tn__cast(c, tn__op2(c, OP_SHR, bits, shift), TN_F32), unit));
}

static void grow_cast(grower *w) {
  tn_node *x = grow_pick(w);
  int to = (int)graph_roll(w->d, TN_DTYPE_COUNT);
  bool bits = tn__size_of(to) == tn__size_of(x->dtype) && to != TN_BOOL && x->dtype != TN_BOOL;
  if (bits && graph_roll(w->d, 4) == 0) {
    /* which NaN it is, is not said */
    if (!tn__is_float(x->dtype)) grow_add(w, tn__bitcast(w->c, x, to));
    return;
  }
  grow_add(w, tn__cast(w->c, x, to));
}

/* A function of one number of this dtype, any that there is. */
static tn__op any_function(grower *w, int dtype) {
  for (;;) {
    uint32_t op = graph_roll(w->d, FUNCTIONS);
    if (tn__ops[op].group == G_UNARY && tn__eval_defined((int)op, dtype)) return (tn__op)op;
  }
}

/* One function after the other, with something shared along the way. */
static void grow_chain(grower *w) {
  static const uint8_t binary[] = {OP_ADD, OP_MUL, OP_MAX, OP_MIN, OP_DIV, OP_ADD, OP_MUL};
  tn_ctx *c = w->c;
  tn_node *x = grow_pick_of(w, TN__C_FLOAT);
  if (graph_roll(w->d, 3) == 0) x = grow_match(w, x, TN_BF16);
  for (uint32_t k = 2 + graph_roll(w->d, graph_roll(w->d, 4) ? 8 : 40); k > 0; k--) {
    uint32_t how = graph_roll(w->d, 4);
    tn_node *p = how == 1 ? grow_match(w, x, TN_BOOL) : NULL, *y = how ? grow_match(w, x, x->dtype) : NULL;
    if (how == 0) x = tn__op1(c, any_function(w, x->dtype), x);
    else if (how == 1) x = tn__where(c, p, x, y);
    else x = tn__op2(c, binary[graph_roll(w->d, sizeof binary)], x, y);
    w->work -= (double)grow_count(x);
  }
  grow_add(w, x);
}

/* ---- sums and movements ------------------------------------------------------------------------------------------ */

static void grow_reduce(grower *w) {
  tn_node *x = grow_pick(w);
  int64_t axes[GROW_RANK], least = 1;
  uint32_t k = 0;
  tn__op op = OP_SUM + graph_roll(w->d, 4);
  if (op == OP_PROD && graph_roll(w->d, 2)) op = OP_SUM;
  bool all = graph_roll(w->d, 5) == 0;
  for (uint32_t i = 0; i < x->rank; i++)
    if (all || graph_roll(w->d, 2)) axes[k++] = i, least *= x->dim[i]->lo;
  if (!k || ((op == OP_RMAX || op == OP_RMIN) && least == 0)) return;
  if ((op == OP_SUM || op == OP_PROD) && x->dtype == TN_BOOL) return;
  grow_add(w, tn__reduce(w->c, op, x, axes, k));
}

static void grow_reshape(grower *w) {
  tn_node *x = grow_pick(w), *dim[GROW_RANK + 2];
  uint32_t r = 0, i = 0, most = w->size->rank ? w->size->rank : 5;
  if (w->g->var && x->op == OP_RESHAPE && graph_roll(w->d, 2)) { /* and back: symbolic sizes come apart again */
    grow_add(w, tn__reshape(w->c, x, x->src[0]->dim, x->src[0]->rank));
    return;
  }
  while (i < x->rank && r < most) {
    tn_node *size = x->dim[i++];
    uint32_t how = graph_roll(w->d, 6);
    while (how == 0 && i < x->rank) {
      size = tn__mul(w->c, size, x->dim[i++]);
      how = graph_roll(w->d, 2);
    }
    int64_t f = how == 1 ? 2 + (int64_t)graph_roll(w->d, 4) : how == 2 ? 1 : 0, s = size->hi;
    if (f && tn__is_const(size) && s % f == 0 && r + 1 < most) {
      dim[r++] = tn__int(w->c, graph_roll(w->d, 2) ? f : s / f);
      dim[r] = tn__int(w->c, dim[r - 1]->ints[0] == f ? s / f : f);
      r++;
    } else if (s != 1 || how != 3) {
      dim[r++] = size;
    }
  }
  if (i == x->rank) grow_add(w, tn__reshape(w->c, x, dim, r));
}

static void grow_expand(grower *w) {
  tn_node *x = grow_pick(w), *dim[GROW_RANK + 1];
  uint32_t at = graph_roll(w->d, x->rank + 1u);
  if (x->rank == GROW_RANK) return;
  for (uint32_t i = 0; i <= x->rank; i++) dim[i] = i == at ? tn__int(w->c, 1) : x->dim[i < at ? i : i - 1];
  tn_node *y = tn__reshape(w->c, x, dim, x->rank + 1u);
  dim[at] = draw_size(w);
  grow_add(w, tn__expand(w->c, y, dim));
}

static void grow_permute(grower *w) {
  tn_node *x = grow_pick(w);
  int64_t perm[GROW_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    uint32_t j = graph_roll(w->d, i + 1);
    perm[i] = perm[j];
    perm[j] = i;
  }
  grow_add(w, tn__permute(w->c, x, perm));
}

static void grow_pad(grower *w) {
  tn_node *x = grow_pick(w), *lohi[2 * GROW_RANK];
  for (uint32_t i = 0; i < 2u * x->rank; i++)
    lohi[i] = tn__int(w->c, graph_roll(w->d, 2) ? 0 : (int64_t)graph_roll(w->d, graph_roll(w->d, 4) ? 4 : 40));
  grow_add(w, tn__pad(w->c, x, lohi));
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
  tn_node *x = grow_pick(w), *begin[GROW_RANK], *size[GROW_RANK];
  int64_t step[GROW_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    if (!tn__is_const(x->dim[i])) {
      shrink_symbolic(w, x->dim[i], &begin[i], &size[i], &step[i]);
      continue;
    }
    int64_t n = grow_dim(x, i), b = n && graph_roll(w->d, 2) ? graph_roll(w->d, (uint32_t)n) : 0,
            s = graph_roll(w->d, 3) ? 1 : 1 + (int64_t)graph_roll(w->d, graph_roll(w->d, 4) ? 3 : 500);
    int64_t most = (n - b + s - 1) / s,
            k = most && graph_roll(w->d, 3) == 0 ? most - (int64_t)graph_roll(w->d, (uint32_t)most) : most;
    begin[i] = tn__int(w->c, b);
    size[i] = tn__int(w->c, k);
    step[i] = s;
  }
  grow_add(w, tn__shrink(w->c, x, begin, size, step));
}

static void grow_flip(grower *w) {
  tn_node *x = grow_pick(w);
  int64_t axes[GROW_RANK];
  uint32_t k = 0;
  for (uint32_t i = 0; i < x->rank; i++)
    if (graph_roll(w->d, 2)) axes[k++] = i;
  if (k) grow_add(w, tn__flip(w->c, x, axes, k));
}

static void grow_window(grower *w) {
  tn_node *x = grow_pick(w);
  if (!x->rank || x->rank == GROW_RANK) return;
  uint32_t axis = graph_roll(w->d, x->rank);
  int64_t size = 1 + graph_roll(w->d, 4), stride = 1 + graph_roll(w->d, 3), dilation = 1 + graph_roll(w->d, 3);
  if (x->dim[axis]->lo < dilation * (size - 1) + 1) return;
  grow_add(w, tn__window(w->c, x, axis, size, stride, dilation));
}

static void grow_fold(grower *w) {
  tn_node *x = grow_pick(w);
  if (x->rank < 2 || x->dtype == TN_BOOL) return;
  uint32_t axis = graph_roll(w->d, x->rank - 1u);
  int64_t p = grow_dim(x, axis), size = grow_dim(x, axis + 1), stride = 1 + graph_roll(w->d, 3),
          dilation = 1 + graph_roll(w->d, 2);
  if (p < 1 || size < 1 || !tn__is_const(x->dim[axis]) || !tn__is_const(x->dim[axis + 1])) return;
  tn_node *n = tn__int(w->c, (p - 1) * stride + dilation * (size - 1) + 1 + graph_roll(w->d, (uint32_t)stride));
  grow_add(w, tn__fold(w->c, x, n, axis, size, stride, dilation));
}

static void grow_gather(grower *w) {
  tn_node *x = grow_pick(w), *dim[2];
  uint32_t r = graph_roll(w->d, 3);
  if (!x->rank || x->rank - 1 + r > GROW_RANK) return;
  for (uint32_t i = 0; i < r; i++) dim[i] = draw_size(w);
  tn_node *idx = grow_places(w, grow_dim(x, 0), dim, r);
  if (idx) grow_add(w, tn__gather(w->c, x, idx));
}

static void grow_scatter(grower *w) {
  tn_node *x = grow_pick(w), *dim[GROW_RANK + 2], *s[2];
  uint32_t r = graph_roll(w->d, 3), k = 0;
  int64_t n = 1;
  if (!x->rank || x->rank - 1 + r > GROW_RANK || x->dtype == TN_BOOL) return;
  for (uint32_t i = 0; i < r; i++) dim[k++] = s[i] = draw_size(w), n *= s[i]->hi;
  for (uint32_t i = 1; i < x->rank; i++) dim[k++] = x->dim[i], n *= x->dim[i]->hi;
  if (n > w->size->elements) return;
  tn_node *idx = grow_places(w, grow_dim(x, 0), s, r),
          *shape = tn__scalar_to(w->c, tn__const_bits(w->c, x->dtype, 0), dim, k);
  if (idx) grow_add(w, tn__scatter(w->c, x, idx, grow_match(w, shape, x->dtype)));
}

/* Each of 0 to n - 1 once, in spans of so many, in each backwards: where a span begins is looked up. */
static tn_node *turned_spans(tn_ctx *c, tn_node *n, int64_t by) {
  tn_node *all = tn__int(c, n->lo / by + 1), *place = tn__iota(c, n), *number = tn__const_num(c, TN_I64, (double)by);
  tn_node *begin = tn__op2(c, OP_MUL, tn__iota(c, all), tn__scalar_to(c, number, &all, 1));
  tn_node *width = tn__scalar_to(c, number, &n, 1), *span = tn__op2(c, OP_IDIV, place, width);
  begin = tn__gather(c, tn__op1(c, OP_SPANS, tn__cast(c, begin, TN_I32)), span);
  tn_node *last = tn__scalar_to(c, tn__const_num(c, TN_I64, (double)by - 1), &n, 1);
  tn_node *within = tn__sub(c, last, tn__op2(c, OP_MOD, place, width));
  return tn__add(c, tn__cast(c, begin, TN_I64), within);
}

/* Each of 0 to n - 1 once: backwards, all or by spans, or as a matrix is transposed. */
static tn_node *draw_permutation(grower *w, tn_node *n) {
  tn_ctx *c = w->c;
  tn_node *x = tn__iota(c, n);
  int64_t axis = 0, rows = 1 + graph_roll(w->d, 4);
  if (tn__is_const(n) && n->lo % rows == 0 && graph_roll(w->d, 2)) {
    x = tn__reshape(c, x, (tn_node *[]){tn__int(c, rows), tn__int(c, n->lo / rows)}, 2);
    x = tn__reshape(c, tn__permute(c, x, (int64_t[]){1, 0}), &n, 1);
  } else if (graph_roll(w->d, 4)) {
    x = tn__flip(c, x, &axis, 1);
  } else if (tn__is_const(n) && n->lo % rows == 0) {
    x = turned_spans(c, n, rows);
  }
  if (n->hi < 100 && graph_roll(w->d, 2)) x = tn__cast(c, x, graph_roll(w->d, 2) ? TN_U8 : TN_I32);
  return tn__op1(c, OP_PERMUTATION, x);
}

/* x in that order, which nobody needs to know to be a permutation: so, or by a way that is as good, or, as it is copied
 * once more, no better, if the other one's order is there anyway. */
static tn_node *in_order_of(grower *w, tn_node *x, tn_node *to) {
  tn_ctx *c = w->c;
  tn_node *known = tn__gather(c, x, to), *other = tn__gather(c, x, to->src[0]);
  uint32_t way = graph_roll(w->d, 4);
  if (way > 1) return known;
  return tn__op2(c, OP_EITHER, way ? tn__op1(c, OP_CONTIG, other) : other, known);
}

/* What is sorted goes to its places, and comes from there. */
static void grow_permutation(grower *w) {
  tn_ctx *c = w->c;
  tn_node *x = grow_pick(w), *n = x->rank ? x->dim[0] : draw_size(w), *to = draw_permutation(w, n);
  if (x->rank && graph_roll(w->d, 3) == 0) {
    grow_add(w, in_order_of(w, x, to));
  } else {
    int dtype = x->dtype == TN_BOOL ? TN_I32 : x->dtype;
    tn_node *base = tn__scalar_to(c, tn__const_num(c, dtype, graph_roll(w->d, 3)), &n, 1);
    grow_add(w, tn__scatter(c, base, to, grow_match(w, base, dtype)));
  }
  if (graph_roll(w->d, 4) == 0) grow_add(w, to);
}

/* None of a number twice, some of them outside of 0 to n - 1: every second or third one, forwards or backwards. */
static tn_node *draw_distinct(grower *w, tn_node *count) {
  tn_ctx *c = w->c;
  int64_t axis = 0;
  tn_node *x = tn__iota(c, count);
  if (graph_roll(w->d, 2)) x = tn__flip(c, x, &axis, 1);
  tn_node *step = tn__const_num(c, TN_I64, 1 + graph_roll(w->d, 3)),
          *first = tn__const_num(c, TN_I64, -(double)graph_roll(w->d, 5));
  x = tn__op2(c, OP_MUL, x, tn__scalar_to(c, step, &count, 1));
  x = tn__op2(c, OP_ADD, x, tn__scalar_to(c, first, &count, 1));
  return tn__op1(c, OP_DISTINCT, graph_roll(w->d, 3) ? x : tn__cast(c, x, TN_I32));
}

/* What is added goes to places of its own. */
static void grow_distinct(grower *w) {
  tn_ctx *c = w->c;
  tn_node *x = grow_pick(w), *dim[GROW_RANK + 2];
  if (!x->rank || x->dtype == TN_BOOL) return;
  tn_node *to = draw_distinct(w, draw_size(w));
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i ? x->dim[i] : to->dim[0];
  tn_node *shape = tn__scalar_to(c, tn__const_bits(c, x->dtype, 0), dim, x->rank);
  grow_add(w, tn__scatter(c, x, to, grow_match(w, shape, x->dtype)));
  if (graph_roll(w->d, 4) == 0) grow_add(w, to);
}

/* One axis of x as k, one or none as batch; the other operand is made to fit. */
static void grow_contract(grower *w) {
  tn_node *x = grow_pick(w), *dim[GROW_RANK + 2];
  if (!x->rank || x->dtype == TN_BOOL) return;
  uint32_t nb = x->rank > 1 && graph_roll(w->d, 2), nn = graph_roll(w->d, 3),
           nk = x->rank - nb > 1 && graph_roll(w->d, 4) == 0 ? 2 : 1, nm = x->rank - nb - nk, r = 0;
  int64_t n = 1;
  if (nb + nn + nk > GROW_RANK || nb + nm + nn > GROW_RANK) return;
  for (uint32_t i = 0; i < nb; i++) dim[r++] = x->dim[i];
  for (uint32_t i = 0; i < nn; i++) dim[r++] = draw_size(w);
  for (uint32_t i = 0; i < nk; i++) dim[r++] = x->dim[nb + nm + i];
  for (uint32_t i = 0; i < r; i++) n *= dim[i]->hi;
  if (n > w->size->elements) return;
  tn_node *shape = tn__scalar_to(w->c, tn__const_bits(w->c, x->dtype, 0), dim, r);
  grow_add(w, tn__contract(w->c, x, grow_match(w, shape, x->dtype), (int)nb, (int)nm, (int)nn, (int)nk));
}

/* Several values end to end: the sum of their padded forms, as the front end writes it. */
static void grow_concatenate(grower *w) {
  tn_node *x = grow_pick(w), *lohi[2 * GROW_RANK], *all = NULL;
  if (!x->rank || x->dtype == TN_BOOL) return;
  uint32_t axis = graph_roll(w->d, x->rank), n = 2 + graph_roll(w->d, 3);
  for (uint32_t k = 0; k < n; k++) {
    tn_node *y = k ? grow_match(w, x, x->dtype) : x, *size = x->dim[axis];
    for (uint32_t i = 0; i < 2u * x->rank; i++) lohi[i] = tn__int(w->c, 0);
    lohi[2 * axis] = tn__mul(w->c, size, tn__int(w->c, k));
    lohi[2 * axis + 1] = tn__mul(w->c, size, tn__int(w->c, n - 1 - k));
    y = tn__pad(w->c, y, lohi);
    all = all ? tn__add(w->c, all, y) : y;
  }
  if (all != x) grow_add(w, all);
}

static void grow_iota(grower *w) { grow_add(w, tn__iota(w->c, draw_size(w))); }

static void grow_copy(grower *w) {
  tn_node *x = grow_pick(w);
  tn__op op = graph_roll(w->d, 2) ? OP_CONTIG : OP_DETACH;
  grow_add(w, tn__node_make(w->c, &(tn__make){.op = op, .src = &x, .nsrc = 1}));
}

static void grow_assign(grower *w) {
  tn_node *x = NULL;
  for (int attempt = 0; attempt < 8 && (!x || x->op != OP_PARAM); attempt++) x = w->v[graph_roll(w->d, w->n)];
  if (x->op != OP_PARAM || !grow_is_plain(x)) return; /* what can be assigned to has memory, so a size */
  tn_node *y = grow_match(w, x, x->dtype);
  grow_add(w, tn__node_make(w->c, &(tn__make){.op = OP_ASSIGN, .src = (tn_node *[]){x, y}, .nsrc = 2}));
}

/* As softmax and norms: several reductions over one row, around something dear; some rounded to integers, so that sums
 * stay exact. */
static void grow_rows(grower *w) {
  tn_ctx *c = w->c;
  tn_node *x = grow_pick_of(w, TN__C_FLOAT), *dim[GROW_RANK];
  if (!x->rank) return;
  int64_t axis = graph_roll(w->d, 2) ? x->rank - 1 : (int64_t)graph_roll(w->d, x->rank);
  if (x->dim[axis]->lo == 0) return;
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i == axis ? tn__int(c, 1) : x->dim[i];
  tn_node *top = tn__expand(c, tn__reshape(c, tn__reduce(c, OP_RMAX, x, &axis, 1), dim, x->rank), x->dim);
  tn_node *e = tn__op1(c, OP_EXP, tn__sub(c, x, top)),
          *four = tn__scalar_to(c, tn__const_num(c, x->dtype, 4), x->dim, x->rank);
  tn_node *q = graph_roll(w->d, 2) ? e : tn__op1(c, OP_FLOOR, tn__mul(c, e, four));
  tn_node *s = tn__reduce(c, OP_SUM, q, &axis, 1);
  tn_node *wide = tn__expand(c, tn__reshape(c, s, dim, x->rank), x->dim);
  if (graph_roll(w->d, 2)) grow_add(w, s);
  if (graph_roll(w->d, 2)) grow_add(w, e);
  if (graph_roll(w->d, 2)) grow_add(w, tn__op2(c, OP_DIV, e, wide));
  grow_add(w, tn__add(c, q, wide));
}

/* ---- gradients --------------------------------------------------------------------------------------------------- */

static double work_below(grower *w, tn_node **root, uint32_t n) {
  tn__nodes all = {0};
  double work = 0;
  tn__topo(&w->c->scratch, root, n, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->dtype < TN_DTYPE_COUNT) work += work_of(all.v[i]);
  return work;
}

/* Of a value by up to three leaves that it hangs on, backwards or forwards. */
static void grow_gradient(grower *w) {
  tn_ctx *c = w->c;
  tn_node *y = grow_pick(w), *x[3], *g[3] = {0};
  tn__nodes all = {0};
  uint32_t n = 0;
  if (!tn__is_float(y->dtype)) return;
  tn__grad_leaves(c, &y, 1, &all);
  for (uint32_t i = 0; i < all.n && n < 3; i++)
    if (tn__is_float(all.v[i]->dtype)) x[n++] = all.v[i];
  if (!n) return;
  if (graph_roll(w->d, 6) == 0) {
    tn_node *v[3];
    for (uint32_t i = 0; i < n; i++) v[i] = grow_match(w, x[i], x[i]->dtype);
    g[0] = tn__jvp(c, y, x, v, n);
    n = 1;
  } else {
    tn_node *dy = graph_roll(w->d, 2) ? grow_match(w, y, y->dtype)
                                      : tn__scalar_to(c, tn__const_num(c, y->dtype, 1), y->dim, y->rank);
    tn__vjp(c, y, dy, x, n, g);
  }
  if (work_below(w, g, n) > 4 * most_work(w->size)) return;
  for (uint32_t i = 0; i < n; i++) grow_add(w, g[i]);
}

/* ---- the grammar ------------------------------------------------------------------------------------------------- */

typedef void (*grow_fn)(grower *);

enum { LAYERS = 1 << 16 }; /* elements, from which on a graph begins with a layer */

static const struct {
  grow_fn fn;
  int often;
} growth[] = {
    {grow_leaf, 2},        {grow_unary, 4},  {grow_binary, 6},   {grow_ternary, 3}, {grow_cast, 3},
    {grow_reduce, 6},      {grow_reshape, 4}, {grow_expand, 2},  {grow_permute, 2}, {grow_pad, 2},
    {grow_shrink, 2},      {grow_flip, 2},   {grow_window, 2},   {grow_fold, 2},    {grow_gather, 3},
    {grow_scatter, 3},     {grow_contract, 3}, {grow_concatenate, 2}, {grow_iota, 1}, {grow_copy, 2},
    {grow_assign, 1},      {grow_rows, 3},   {grow_chain, 2},    {grow_random, 1},  {grow_gradient, 4},
    {grow_permutation, 1}, {grow_distinct, 1}, {grow_front, 14},
};

static grow_fn draw_step(graph_dice *d) {
  uint32_t all = 0, n = sizeof growth / sizeof *growth, i = 0;
  for (i = 0; i < n; i++) all += (uint32_t)growth[i].often;
  uint32_t at = graph_roll(d, all);
  for (i = 0; at >= (uint32_t)growth[i].often; i++) at -= (uint32_t)growth[i].often;
  return growth[i].fn;
}

typedef struct step {
  grower *w;
  grow_fn fn;
} step;

static void one_step(tn_ctx *c, void *arg) {
  step *s = arg;
  (void)c;
  s->fn(s->w);
}

/* What the grammar asks and a dtype, a path of gradients or a public function's own rules refuse is left out; any other
 * error is a mistake. */
static bool is_refusal(grow_fn fn, tn_status status) {
  if (status == TN_EDTYPE || (fn == grow_gradient && status == TN_EGRAD)) return true;
  return fn == grow_front && (status == TN_ESHAPE || status == TN_EINVAL);
}

static void do_random(tn_ctx *c, void *arg) {
  grower *w = arg;
  tn_node *root[GROW_VALUES];
  uint32_t n = 0, steps = 3 + graph_roll(w->d, w->size->nodes);
  if (w->size->symbolic) w->g->var = tn__node_keep(tn__var(c, "B", graph_roll(w->d, 2), w->size->symbolic));
  if (w->size->elements > LAYERS) grow_layer(w);
  while (!w->n) grow_leaf(w);
  for (uint32_t i = 0; i < steps && w->work > 0; i++) {
    step s = {w, draw_step(w->d)};
    bool good = tn__ctx_run(c, "grow", one_step, &s);
    if ((!good || tn_last_error(c)->status != TN_OK) && !is_refusal(s.fn, tn_last_error(c)->status)) {
      fprintf(stderr, "graph_random: %s\n", tn_last_error(c)->text);
      abort();
    }
    tn_clear_error(c);
  }
  uint32_t outs = 1 + graph_roll(w->d, w->size->outputs);
  for (uint32_t i = 0; i < outs; i++) root[n++] = i ? grow_pick(w) : w->v[w->n - 1];
  w->g->sink = tn__node_keep(tn__sink(c, root, n, "outputs"));
}

bool graph_random(tn_ctx *c, graph_dice *d, const graph_size *size, graph *out) {
  grower w = {.c = c, .d = d, .size = size, .g = out, .work = most_work(size)};
  bool good = false;
  *out = (graph){0};
  tn_scope(c) good = tn__ctx_run(c, "graph_random", do_random, &w);
  return good;
}
