#include "support/library.h"
#include "ir/eval.h"
#include <math.h>
#include <stdlib.h>

bool library_takes(tn__device *d, int dtype) { return (void)d, tn__is_float(dtype); }

/* ---- products ---- */

static double element(int dtype, const void *mem, int64_t at) {
  const char *p = mem;
  return tn__eval_to_double(dtype, tn__eval_load(dtype, p + at * (int64_t)tn__size_of(dtype)));
}

/* GELU by its tanh form */
static double apply(tn__after after, double x) {
  if (after == TN__AFTER_GELU) return x * 0.5 * (1 + tanh(0.7978845608028654 * (x + 0.044715 * x * x * x)));
  return after == TN__AFTER_RELU && x < 0 ? 0 : x;
}

static bool has_after(tn__device *d, int dtype, tn__after after) {
  return library_takes(d, dtype) && dtype != TN_F64 && (after != TN__AFTER_GELU || dtype != TN_F32);
}

tn_status library_multiply(tn__device *d, const tn__product *g) {
  (void)d;
  for (int64_t b = 0; b < g->batch; b++)
    for (int64_t i = 0; i < g->m; i++)
      for (int64_t j = 0; j < g->n; j++) {
        int64_t at = tn__product_c(g, b, i, j);
        double sum = g->beta > 0 || g->beta < 0 ? g->beta * element(g->dtype, g->c, at) : 0;
        for (int64_t k = 0; k < g->k; k++)
          sum += element(g->dtype, g->a, tn__product_a(g, b, i, k)) *
                 element(g->dtype, g->b, tn__product_b(g, b, k, j));
        if (g->row) sum += element(g->dtype, g->row, j);
        tn__eval_store(g->dtype, (char *)g->c + at * (int64_t)tn__size_of(g->dtype),
                       tn__eval_from_double(g->dtype, apply(g->after, sum)));
      }
  return TN_OK;
}

/* ---- convolutions ---- */

/* The elements of an operand; the result's are what is added to. */
static double *image_of(const tn__conv_call *v, int o, int64_t *n) {
  double times = o == (int)v->kind ? v->beta : 1;
  *n = 1;
  for (int i = 0; i < 4; i++) *n *= v->size[tn__conv_dims[o][i]];
  double *x = calloc((size_t)*n + 1, sizeof *x);
  for (int64_t i = 0; i < *n && (times > 0 || times < 0); i++) x[i] = times * element(v->dtype, v->operand[o], i);
  return x;
}

tn_status library_convolve(tn__device *on, const tn__conv_call *v) {
  (void)on;
  int64_t n[3], at[CONV_DIMS] = {0}, all = 1;
  double *x[3] = {image_of(v, 0, &n[0]), image_of(v, 1, &n[1]), image_of(v, 2, &n[2])};
  for (int d = 0; d < CONV_DIMS; d++) all *= d == CONV_H || d == CONV_W ? 1 : v->size[d];
  for (int64_t e = 0; e < all; e++) {
    int64_t rest = e;
    for (int d = 0; d < CONV_DIMS; d++)
      if (d != CONV_H && d != CONV_W) at[d] = rest % v->size[d], rest /= v->size[d];
    bool inside = true;
    for (int i = 0; i < 2; i++) {
      at[CONV_H + i] = at[CONV_P + i] * v->stride[i] + at[CONV_R + i] * v->dilation[i] - v->pad[i];
      inside &= at[CONV_H + i] >= 0 && at[CONV_H + i] < v->size[CONV_H + i];
    }
    int a = v->kind == CONV_DATA, b = v->kind == CONV_FORWARD ? CONV_FILTER : CONV_FORWARD;
    if (inside) x[v->kind][tn__conv_place(v, (int)v->kind, at)] +=
        x[a][tn__conv_place(v, a, at)] * x[b][tn__conv_place(v, b, at)];
  }
  for (int64_t i = 0; i < n[v->kind]; i++)
    tn__eval_store(v->dtype, (char *)v->operand[v->kind] + (size_t)i * tn__size_of(v->dtype),
                   tn__eval_from_double(v->dtype, x[v->kind][i]));
  for (int o = 0; o < 3; o++) free(x[o]);
  return TN_OK;
}

/* ---- a device ---- */

void library_put(tn__device *d) {
  static tn__device_ops ops;
  ops = *d->ops;
  ops.has_gemm = ops.has_conv = library_takes;
  ops.has_after = has_after;
  ops.gemm = library_multiply;
  ops.conv = library_convolve;
  ops.record = NULL;
  d->ops = &ops;
}
