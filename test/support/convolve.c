#include "support/convolve.h"
#include "ir/eval.h"
#include <stdlib.h>

bool convolve_floats(tn__device *d, int dtype) { return (void)d, tn__is_float(dtype); }

static double *image_of(const tn__conv_call *v, int o, int64_t *n) {
  *n = 1;
  for (int i = 0; i < 4; i++) *n *= v->size[tn__conv_dims[o][i]];
  double *x = calloc((size_t)*n + 1, sizeof *x);
  for (int64_t i = 0; i < *n && o != (int)v->kind; i++)
    x[i] = tn__eval_to_double(
        v->dtype, tn__eval_load(v->dtype, (const char *)v->operand[o] + (size_t)i * tn__size_of(v->dtype)));
  return x;
}

void convolve(const tn__conv_call *v) {
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
}
