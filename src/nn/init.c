/* Initialisers: random tensors whose spread follows from the shape. */
#include "ir/ctx.h"
#include "tenet/nn.h"
#include "tenet/tensor.h"
#include <math.h>

typedef struct fans {
  double in, out;
} fans;

static bool count_fans(tn_ctx *ctx, const char *name, const tn_dim *shape, int rank, fans *f) {
  if (!ctx) return false;
  bool plain = shape && rank >= 2 && rank <= TN_MAX_RANK;
  double field = 1;
  for (int i = 0; plain && i < rank; i++) {
    plain = shape[i] >= 0;
    if (i >= 2) field *= (double)shape[i];
  }
  if (!plain) {
    tn__error(ctx, TN_ESHAPE, "%s: needs a shape of two plain sizes or more", name);
    return false;
  }
  *f = (fans){(double)shape[1] * field, (double)shape[0] * field};
  return true;
}

/* Of this variance; without elements or without fan any will do. */
static tn_tensor *spread(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double variance, bool uniform) {
  if (!isfinite(variance)) variance = 0;
  double bound = sqrt(3 * variance);
  return uniform ? tn_uniform(ctx, dtype, shape, rank, -bound, bound) : tn_normal(ctx, dtype, shape, rank, 0, sqrt(variance));
}

static tn_tensor *kaiming(tn_ctx *ctx, const char *name, tn_dtype dtype, const tn_dim *shape, int rank, double a, bool uniform) {
  fans f;
  if (!count_fans(ctx, name, shape, rank, &f)) return NULL;
  return spread(ctx, dtype, shape, rank, 2 / ((1 + a * a) * f.in), uniform);
}

static tn_tensor *xavier(tn_ctx *ctx, const char *name, tn_dtype dtype, const tn_dim *shape, int rank, double gain, bool uniform) {
  fans f;
  if (!count_fans(ctx, name, shape, rank, &f)) return NULL;
  return spread(ctx, dtype, shape, rank, gain * gain * 2 / (f.in + f.out), uniform);
}

tn_tensor *tn_kaiming_uniform(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double a) {
  return kaiming(ctx, "tn_kaiming_uniform", dtype, shape, rank, a, true);
}
tn_tensor *tn_kaiming_normal(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double a) {
  return kaiming(ctx, "tn_kaiming_normal", dtype, shape, rank, a, false);
}
tn_tensor *tn_xavier_uniform(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double gain) {
  return xavier(ctx, "tn_xavier_uniform", dtype, shape, rank, gain, true);
}
tn_tensor *tn_xavier_normal(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double gain) {
  return xavier(ctx, "tn_xavier_normal", dtype, shape, rank, gain, false);
}
