/* Waiting for a device. */
#include "device/device.h"
#include "run/runtime.h"
#include "tenet/device.h"

static void do_sync(tn_ctx *c, void *arg) {
  const char *name = *(const char *const *)arg;
  tn__device *d = tn__device_get(c, name ? tn__find_device(c, name) : 0);
  tn_status status = d->ops->sync ? d->ops->sync(d) : TN_OK; /* a device without it has always finished */
  if (status != TN_OK) tn__fail(c, status, "waiting for %s: %s", d->name, tn_status_text(status));
}

tn_status tn_device_sync(tn_ctx *ctx, const char *device) {
  if (!ctx) return TN_EINVAL;
  return tn__ctx_run(ctx, "tn_device_sync", do_sync, &device) ? TN_OK : ctx->failed;
}
