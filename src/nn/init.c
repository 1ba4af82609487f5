/* Initialisers: random tensors whose spread follows from the shape. */
#include "tenet/nn.h"
#include "tensor/random.h"
#include <math.h>

/* i[0]: dtype, i[1]: rank, i[2]: uniform, else normal; p: shape; the variance is f[0] / (f[1] fan_in + f[2] fan_out).
 */
static tn_node *init(tn_ctx *c, tn__call *k) {
  tn__dims shape;
  double fan[2] = {1, 1};
  tn__check_dtype(c, (int)k->i[0]);
  tn__shape_in(c, k->p, (int)k->i[1], &shape);
  bool plain = shape.rank >= 2;
  for (uint32_t i = 0; i < shape.rank; i++) {
    int64_t n = 0;
    plain = plain && tn__const_int(shape.d[i], &n);
    if (i != 0) fan[0] *= (double)n;
    if (i != 1) fan[1] *= (double)n;
  }
  if (!plain)
    tn__fail(c, TN_ESHAPE, "needs a shape of two plain sizes or more, not %s", tn__dims_text(c, shape.d, shape.rank));
  double variance = k->f[0] / (k->f[1] * fan[0] + k->f[2] * fan[1]);
  if (!isfinite(variance)) variance = 0; /* without elements or without fan any will do */
  double bound = sqrt(3 * variance);
  return k->i[2] ? tn__random_uniform(c, (int)k->i[0], &shape, -bound, bound)
                 : tn__random_normal(c, (int)k->i[0], &shape, 0, sqrt(variance));
}

#define INIT(name_, uniform, ...)                                                                                      \
  tn__build(&(tn__call){                                                                                               \
      .name = name_, .fn = init, .ctx = ctx, .i = {(int64_t)dtype, rank, uniform}, .p = shape, .f = {__VA_ARGS__}})

tn_tensor *tn_kaiming_uniform(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double a) {
  return INIT("tn_kaiming_uniform", true, 2, 1 + a * a, 0);
}
tn_tensor *tn_kaiming_normal(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double a) {
  return INIT("tn_kaiming_normal", false, 2, 1 + a * a, 0);
}
tn_tensor *tn_xavier_uniform(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double gain) {
  return INIT("tn_xavier_uniform", true, gain * gain * 2, 1, 1);
}
tn_tensor *tn_xavier_normal(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double gain) {
  return INIT("tn_xavier_normal", false, gain * gain * 2, 1, 1);
}
