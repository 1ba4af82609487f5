/* The best device that works. */
#include "backend/cuda/cuda.h"
#include "backend/opencl/opencl.h"
#include "run/runtime.h"
#include "tenet/device.h"
#include "tenet/tensor.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Is there more to the context's first device than its name?  A GPU may be busy with others, or its driver without a
 * compiler. */
static bool works(tn_ctx *c) {
  bool good = false;
  tn_scope(c) {
    double one = 0;
    tn_tensor *x = tn_full(c, TN_F32, (tn_dim[]){2}, 1, 0.25);
    good = tn_item(tn_sum(tn_add(tn_contiguous(x), x), NULL, 0, false), &one) == TN_OK && one == 1;
  }
  return good;
}

static tn_ctx *open_on(const tn_options *opt, const char *device, bool quiet) {
  tn_options o = *opt;
  o.device = device;
  o.quiet |= quiet;
  return tn_ctx_open(&o);
}

static tn_ctx *try_on(const tn_options *opt, const char *device) {
  tn_ctx *c = open_on(opt, device, true);
  if (!c || works(c)) return c;
  tn_ctx_close(c);
  return NULL;
}

static tn_ctx *open_best(const tn_options *opt) {
  const char *named = opt->device ? opt->device : getenv("TENET_DEVICE");
  char name[32];
  if (named && *named && strcmp(named, "best")) return open_on(opt, named, false);
  tn_ctx *c = tn__cuda_usable() ? try_on(opt, "cuda:0") : NULL;
  int gpu = c ? -1 : tn__opencl_gpu();
  snprintf(name, sizeof name, "opencl:%d", gpu);
  if (gpu >= 0) c = try_on(opt, name);
  return c ? c : open_on(opt, "cpu", false);
}

tn_status tn_with_best_device_sized(const tn_options *opt, tn_status (*use)(tn_ctx *ctx, void *arg), void *arg,
                                    size_t size) {
  tn_options copy;
  if (!use || !tn__options_take(opt, size, &copy)) return TN_EINVAL;
  tn_ctx *c = open_best(&copy);
  if (!c) return TN_EDEVICE;
  tn_status status = use(c, arg);
  tn_ctx_close(c);
  return status;
}

/* For those that were compiled for version 0.1, whose options ended before `check` */
tn_status(tn_with_best_device)(const tn_options *opt, tn_status (*use)(tn_ctx *ctx, void *arg), void *arg) {
  return tn_with_best_device_sized(opt, use, arg, offsetof(tn_options, check));
}
