#include "run/library_check.h"
#include "ir/eval.h"
#include <float.h>
#include <math.h>

enum { PAGE_BITS = 12, PAGES = 1 << 8, FAR = 64, TRIED = 8 }; /* FAR: elements, from one that is summed to the next */

/* Memory of a device as it is asked for: by pages, the last that were wanted of those that share a slot.  Where what is
 * summed lies far apart nothing else of a page would be used, so a page is one element. */
typedef struct operand {
  tn__device *d;
  tn__arena *a;
  int dtype;
  const char *mem;
  int64_t n;             /* elements, from mem on */
  int bits;              /* a page has 2^bits elements */
  char *page[PAGES];     /* NULL: none yet */
  int64_t number[PAGES];
} operand;

typedef struct sum { /* of one element */
  double value, size;  /* of what is added, and of its absolute values */
  int64_t terms;
  bool special;        /* something in it is no number, or infinite */
} sum;

typedef struct judged { /* the elements that were tried */
  int64_t element[TRIED];
  int n;
  const char *why; /* the last one could not be told; NULL: it could */
  bool told;       /* some could */
} judged;

/* step: from one element that is summed to the next */
static operand *open_operand(tn__device *d, tn__arena *a, int dtype, const void *mem, int64_t n, int64_t step) {
  operand *o = tn__arena_zalloc(a, sizeof *o);
  o->d = d, o->a = a, o->dtype = dtype, o->mem = mem, o->n = n, o->bits = step < FAR ? PAGE_BITS : 0;
  return o;
}

static double get(operand *o, int64_t at) {
  size_t size = tn__size_of(o->dtype);
  int64_t number = at >> o->bits, from = number << o->bits, slot = number % PAGES, page = (int64_t)1 << o->bits;
  if (!o->page[slot] || o->number[slot] != number) {
    if (!o->page[slot]) o->page[slot] = tn__arena_alloc(o->a, (size_t)page * size);
    o->number[slot] = number;
    o->d->ops->download(o->d, o->page[slot], o->mem + (size_t)from * size,
                        (size_t)(o->n - from < page ? o->n - from : page) * size);
  }
  return tn__eval_to_double(o->dtype, tn__eval_load(o->dtype, o->page[slot] + (size_t)(at - from) * size));
}

static void add(sum *r, double x, double y) {
  r->value += x * y;
  r->size += fabs(x * y);
  r->special |= !isfinite(x) || !isfinite(y);
  r->terms++;
}

/* ---- is it that? ---- */

/* How far one rounding of the dtype goes, in parts of the value. */
static double rounding(int dtype) {
  return dtype == TN_BF16 ? 0x1p-8 : dtype == TN_F16 ? 0x1p-10 : dtype == TN_F32 ? 0x1p-23 : 0x1p-52;
}

static double largest(int dtype) { return dtype == TN_F16 ? 65504 : dtype == TN_F64 ? DBL_MAX : (double)FLT_MAX; }

/* Sums of n terms differ by order; a sum of halves is one of floats that is rounded, and what TF32 multiplies is.  F16
 * has no numbers but 0 below the least. */
static double room_of(const tn_ctx *c, int dtype, const sum *r) {
  double unit = rounding(tn__dtype_acc(dtype)), room = 4 * unit * (double)(r->terms + 4) * r->size;
  if (dtype == TN_F32 && c->opt.tf32) room += 4 * 0x1p-10 * r->size;
  return room + 4 * rounding(dtype) * (fabs(r->value) + r->size * unit) + (dtype == TN_F16 ? 0x1p-23 : 0x1p-140);
}

static double gelu(double x) { return x * 0.5 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x))); }

static double apply(tn__after after, double x) {
  if (after == TN__AFTER_GELU) return gelu(x);
  return after == TN__AFTER_RELU && x < 0 ? 0 : x;
}

/* Convolutions may carry what is no number to their neighbours (they multiply it by 0), products not. */
static bool is_right(const tn_ctx *c, int dtype, tn__after after, bool carries, const sum *r, double got,
                     const char **why) {
  double room = room_of(c, dtype, r);
  *why = NULL;
  if (r->special && after == TN__AFTER_RELU && isinf(r->value)) return r->value > 0 ? !isfinite(got) : !(got > 0);
  if (r->special && after != TN__AFTER_NOTHING) return *why = "what it is made of is no number", true;
  if (r->special) return !isfinite(got);
  if (!isfinite(got) && (carries || r->size >= largest(dtype) / 2))
    return *why = "a result is no number", true;
  if (!isfinite(got)) return false;
  if (!isfinite(r->size)) return *why = "a sum is infinite", true;
  if (r->size > 0 && room >= r->size) *why = "roundings are as large as the sums";
  /* no slope of the functions is above 1.13 */
  return fabs(apply(after, r->value) - got) <= 2 * room;
}

static bool try_element(judged *j, const tn_ctx *c, int dtype, tn__after after, bool carries, const sum *r, double got,
                        int64_t element) {
  j->element[j->n++] = element;
  bool right = is_right(c, dtype, after, carries, r, got, &j->why);
  j->told |= !j->why;
  return right;
}

static bool was_tried(const judged *j, int64_t element) {
  for (int i = 0; i < j->n; i++)
    if (j->element[i] == element) return true;
  return false;
}

/* Two corners, the middle, the other corners, and what is drawn. */
static int64_t tried(int t, int axis, int64_t n) {
  const int64_t place[] = {0, n - 1, n / 2, axis % 2 ? n - 1 : 0, axis % 2 ? 0 : n - 1};
  if (t < (int)(sizeof place / sizeof *place)) return place[t];
  return (int64_t)(tn__hash_mix((uint64_t)t, (uint64_t)axis) % (uint64_t)n);
}

static tn__recomputed conclude(const judged *j, const char **why) {
  *why = j->told || !j->n ? NULL : j->why;
  return *why ? TN__RECOMPUTED_UNTOLD : TN__RECOMPUTED_RIGHT;
}

/* ---- calls ---- */

tn__recomputed tn__recompute_product(tn__device *d, tn__arena *a, const tn__product *g, int64_t *element,
                                     const char **why) {
  judged j = {0};
  *why = NULL;
  if (g->m < 1 || g->n < 1 || g->batch < 1) return TN__RECOMPUTED_RIGHT;
  int64_t b = g->batch - 1, m = g->m - 1, n = g->n - 1, k = g->k - 1;
  int64_t step[] = {tn__product_a(g, 0, 0, 1) - tn__product_a(g, 0, 0, 0),
                    tn__product_b(g, 0, 1, 0) - tn__product_b(g, 0, 0, 0)};
  operand *x = open_operand(d, a, g->dtype, g->a, tn__product_a(g, b, m, k) + 1, step[0]);
  operand *y = open_operand(d, a, g->dtype, g->b, tn__product_b(g, b, k, n) + 1, step[1]);
  operand *z = open_operand(d, a, g->dtype, g->c, tn__product_c(g, b, m, n) + 1, FAR);
  operand *row = open_operand(d, a, g->dtype, g->row, n + 1, FAR);
  for (int t = 0; t < TRIED; t++) {
    int64_t at = tried(t, 2, g->batch), i = tried(t, 0, g->m), l = tried(t, 1, g->n);
    sum r = {0};
    *element = tn__product_c(g, at, i, l);
    if (was_tried(&j, *element)) continue;
    for (int64_t s = 0; s < g->k; s++)
      add(&r, get(x, tn__product_a(g, at, i, s)), get(y, tn__product_b(g, at, s, l)));
    if (g->row) add(&r, get(row, l), 1);
    if (!try_element(&j, d->ctx, g->dtype, g->after, false, &r, get(z, *element), *element))
      return TN__RECOMPUTED_OTHER;
  }
  return conclude(&j, why);
}

/* All that is summed for the element at these places of its own dimensions. */
static void sum_conv(const tn__conv_call *v, operand *const *o, int64_t *at, sum *r) {
  const uint8_t *d = tn__conv_summed[v->kind];
  int x = v->kind == CONV_DATA, y = v->kind == CONV_FORWARD ? CONV_FILTER : CONV_FORWARD;
  for (at[d[0]] = 0; at[d[0]] < v->size[d[0]]; at[d[0]]++)
    for (at[d[1]] = 0; at[d[1]] < v->size[d[1]]; at[d[1]]++)
      for (at[d[2]] = 0; at[d[2]] < v->size[d[2]]; at[d[2]]++)
        if (tn__conv_meet(v, at)) add(r, get(o[x], tn__conv_place(v, x, at)), get(o[y], tn__conv_place(v, y, at)));
}

tn__recomputed tn__recompute_conv(tn__device *d, tn__arena *a, const tn__conv_call *v, int64_t *element,
                                  const char **why) {
  judged j = {0};
  operand *o[3];
  *why = NULL;
  for (int i = 0; i < 3; i++) {
    int64_t n = 1;
    for (int dim = 0; dim < 4; dim++) n *= v->size[tn__conv_dims[i][dim]];
    if (!n && i == (int)v->kind) return TN__RECOMPUTED_RIGHT;
    o[i] = open_operand(d, a, v->dtype, v->operand[i], n, 1);
  }
  for (int t = 0; t < TRIED; t++) {
    int64_t at[CONV_DIMS] = {0};
    sum r = {0};
    for (int i = 0; i < 4; i++) at[tn__conv_dims[v->kind][i]] = tried(t, i, v->size[tn__conv_dims[v->kind][i]]);
    *element = tn__conv_place(v, (int)v->kind, at);
    if (was_tried(&j, *element)) continue;
    sum_conv(v, o, at, &r);
    if (!try_element(&j, d->ctx, v->dtype, TN__AFTER_NOTHING, true, &r, get(o[v->kind], *element), *element))
      return TN__RECOMPUTED_OTHER;
  }
  return conclude(&j, why);
}
