/* Devices of a context. */
#ifndef TENET_DEVICE_H
#define TENET_DEVICE_H
#include "tenet/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tn_device_info {
  const char *name; /* "cpu", "ref", "cuda:0", "opencl:0": what tn_options.device and tn_to() take */
  const char *text; /* what it is, for people */
  double probe_ms;  /* how long it took to find it, its drivers' own start included if it was the first of theirs */
} tn_device_info;

TN_API int tn_device_count(tn_ctx *ctx); /* 0 for NULL */
/* Device 0 is where tensors are made.  Strings live as long as the context.  TN_EINVAL for an index out of range. */
TN_API tn_status tn_device_get_info(tn_ctx *ctx, int index, tn_device_info *out);
/* Waits until the device has done all that this context asked of it, and reports what failed meanwhile: running returns
 * early on a GPU, and reading waits by itself.  NULL: device 0. */
TN_API tn_status tn_device_sync(tn_ctx *ctx, const char *device);
/* Calls use(ctx, arg) with a context of its own on the best device that works: an NVIDIA GPU, else a GPU with an OpenCL
 * driver, else the CPU; each GPU is tried first.  A device that opt->device or $TENET_DEVICE names is taken as it is.
 * opt: of tn_ctx_open, or NULL.  Gives what `use` gives, and ends the context; TN_EDEVICE if none could be opened,
 * TN_EINVAL without `use`. */
TN_API tn_status tn_with_best_device(const tn_options *opt, tn_status (*use)(tn_ctx *ctx, void *arg), void *arg);
/* So, with the size of the options as the caller knows them: see tn_ctx_open_sized. */
TN_API tn_status tn_with_best_device_sized(const tn_options *opt, tn_status (*use)(tn_ctx *ctx, void *arg), void *arg,
                                           size_t size);
#define tn_with_best_device(...) tn_with_best_device_sized(__VA_ARGS__, sizeof(tn_options))

#ifdef __cplusplus
}
#endif
#endif
