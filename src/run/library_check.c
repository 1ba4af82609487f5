#include "run/library_check.h"
#include "ir/eval.h"
#include <math.h>

enum { LONGEST = 1 << 20, MOST_TERMS = 1 << 20, TRIED = 5 }; /* elements that are read at once; of a result */

typedef struct result { /* of one element */
  double sum, size;     /* of what was added, and of its absolute values */
  int64_t terms;
} result;

/* n elements of `mem` from `at` on, each `step` further; NULL: too long. */
static double *read_line(tn__device *d, tn__arena *a, int dtype, const void *mem, int64_t at, int64_t step, int64_t n) {
  size_t size = tn__size_of(dtype);
  int64_t span = n ? (n - 1) * step + 1 : 0;
  if (span > LONGEST) return NULL;
  char *raw = tn__arena_alloc(a, (size_t)span * size);
  double *line = tn__arena_alloc(a, (size_t)n * sizeof *line);
  if (n) d->ops->download(d, raw, (const char *)mem + (size_t)at * size, (size_t)span * size);
  for (int64_t i = 0; i < n; i++)
    line[i] = tn__eval_to_double(dtype, tn__eval_load(dtype, raw + (size_t)(i * step) * size));
  return line;
}

static void add(result *r, double x) {
  r->sum += x;
  r->size += fabs(x);
  r->terms++;
}

/* How far one rounding of the dtype goes, in parts of the value. */
static double rounding(const tn_ctx *c, int dtype) {
  switch (dtype) {
  case TN_BF16: return 0x1p-8;
  case TN_F16: return 0x1p-10;
  case TN_F32: return c->opt.tf32 ? 0x1p-10 : 0x1p-23;
  default: return 0x1p-52;
  }
}

/* Sums of n terms differ by order; a sum of halves is one of floats that is rounded, and what TF32 multiplies is.  F16
 * has no numbers but 0 below the least. */
static bool is_close(const tn_ctx *c, int dtype, const result *r, double got) {
  double unit = rounding(c, tn__dtype_acc(dtype)), room = 4 * unit * (double)(r->terms + 4) * r->size;
  room += 4 * rounding(c, dtype) * (fabs(r->sum) + r->size * unit) + (dtype == TN_F16 ? 0x1p-23 : 0x1p-140);
  return !isfinite(r->sum) || !isfinite(r->size) || !isfinite(got) || fabs(r->sum - got) <= room;
}

static bool try_product(tn__device *d, tn__arena *a, const tn__product *g, int64_t b, int64_t i, int64_t j,
                        int64_t *element) {
  double *x = g->trans_a ? read_line(d, a, g->dtype, g->a, b * g->stride_a + i, g->lda, g->k)
                         : read_line(d, a, g->dtype, g->a, b * g->stride_a + i * g->lda, 1, g->k);
  double *y = g->trans_b ? read_line(d, a, g->dtype, g->b, b * g->stride_b + j * g->ldb, 1, g->k)
                         : read_line(d, a, g->dtype, g->b, b * g->stride_b + j, g->ldb, g->k);
  result r = {0};
  if (!x || !y) return true;
  for (int64_t k = 0; k < g->k; k++) add(&r, x[k] * y[k]);
  if (g->row) add(&r, *read_line(d, a, g->dtype, g->row, j, 1, 1));
  if (g->after == TN__AFTER_RELU && r.sum < 0) r.sum = 0;
  *element = b * g->stride_c + i * g->ldc + j;
  return is_close(d->ctx, g->dtype, &r, *read_line(d, a, g->dtype, g->c, *element, 1, 1));
}

/* Corners, and one in between. */
static int64_t tried(int t, int axis, int64_t n) { return t == TRIED - 1 ? n / 2 : (t >> axis & 1) ? n - 1 : 0; }

bool tn__recompute_product(tn__device *d, tn__arena *a, const tn__product *g, int64_t *element) {
  if (g->m < 1 || g->n < 1 || g->batch < 1 || g->after == TN__AFTER_GELU) return true;
  for (int t = 0; t < TRIED; t++)
    if (!try_product(d, a, g, tried(t, t & 1, g->batch), tried(t, 0, g->m), tried(t, 1, g->n), element)) return false;
  return true;
}

/* ---- convolutions ---- */

/* All that is summed for one element, at these places of its own dimensions.  Too much for that: not a number. */
static void sum_conv(const tn__conv_call *v, double *const *operand, const int64_t *fixed, const bool *is_fixed,
                     result *r) {
  static const uint8_t loops[] = {CONV_N, CONV_C, CONV_K, CONV_P, CONV_Q, CONV_R, CONV_S};
  int64_t at[CONV_DIMS], all = 1;
  for (int i = 0; i < 7; i++) all *= is_fixed[loops[i]] ? 1 : v->size[loops[i]];
  if (all > MOST_TERMS) r->sum = NAN;
  for (int64_t e = 0; e < all && all <= MOST_TERMS; e++) {
    int64_t rest = e;
    for (int i = 0; i < 7; i++) {
      int64_t n = v->size[loops[i]];
      at[loops[i]] = is_fixed[loops[i]] ? fixed[loops[i]] : rest % n;
      if (!is_fixed[loops[i]]) rest /= n;
    }
    bool inside = true;
    for (int i = 0; i < 2; i++) {
      int64_t h = at[CONV_H + i] = at[CONV_P + i] * v->stride[i] + at[CONV_R + i] * v->dilation[i] - v->pad[i];
      inside &= h >= 0 && h < v->size[CONV_H + i] && (!is_fixed[CONV_H + i] || h == fixed[CONV_H + i]);
    }
    double x = 1;
    for (int o = 0; inside && o < 3; o++)
      if (o != (int)v->kind) x *= operand[o][tn__conv_place(v, o, at)];
    if (inside) add(r, x);
  }
}

bool tn__recompute_conv(tn__device *d, tn__arena *a, const tn__conv_call *v, int64_t *element) {
  double *operand[3];
  for (int o = 0; o < 3; o++) {
    int64_t n = 1;
    for (int i = 0; i < 4; i++) n *= v->size[tn__conv_dims[o][i]];
    operand[o] = n ? read_line(d, a, v->dtype, v->operand[o], 0, 1, n) : NULL;
    if (!operand[o]) return true;
  }
  for (int t = 0; t < TRIED; t++) {
    int64_t fixed[CONV_DIMS] = {0};
    bool is_fixed[CONV_DIMS] = {0};
    result r = {0};
    for (int i = 0; i < 4; i++) {
      uint8_t dim = tn__conv_dims[v->kind][i];
      fixed[dim] = tried(t, i & 1, v->size[dim]);
      is_fixed[dim] = true;
    }
    sum_conv(v, operand, fixed, is_fixed, &r);
    *element = tn__conv_place(v, (int)v->kind, fixed);
    if (!is_close(d->ctx, v->dtype, &r, operand[v->kind][*element])) return false;
  }
  return true;
}
