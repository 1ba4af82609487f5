/* For people: tensors and devices. */
#include "ir/eval.h"
#include "run/runtime.h"
#include "tenet/device.h"
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { EDGE = 3, SUMMARISE_FROM = 1000 }; /* as NumPy: long tensors show three at each end */

static void open_all(tn_ctx *c, void *arg) {
  (void)arg;
  tn__open_gpus(c);
}

int tn_device_count(tn_ctx *ctx) {
  if (!ctx) return 0;
  tn__ctx_run(ctx, "tn_device_count", open_all, NULL);
  return tn__device_count(ctx);
}

tn_status tn_device_get_info(tn_ctx *ctx, int index, tn_device_info *out) {
  if (!ctx) return TN_EINVAL;
  if (!out) return tn__refuse(ctx, "tn_device_get_info", "out is NULL");
  int n = index < tn__device_count(ctx) ? tn__device_count(ctx) : tn_device_count(ctx);
  if (index < 0 || index >= n) return tn__refuse(ctx, "tn_device_get_info", "there is no device %d of %d", index, n);
  const tn__device *d = tn__device_get(ctx, index);
  *out = (tn_device_info){.name = d->name, .text = d->text, .probe_ms = d->probed};
  return TN_OK;
}

/* ---- tn_print ---- */

static void put_element(tn__sb *out, int dtype, const char *at) {
  uint64_t v = tn__eval_load(dtype, at);
  if (dtype == TN_BOOL) tn__sb_puts(out, v ? "true" : "false");
  /* printf tells its sign, which means nothing */
  else if (tn__is_float(dtype) && isnan(tn__eval_to_double(dtype, v))) tn__sb_puts(out, "nan");
  else if (tn__is_float(dtype)) tn__sb_printf(out, "%.*g", dtype == TN_F64 ? 9 : 6, tn__eval_to_double(dtype, v));
  else if (tn__dtypes[dtype].is_signed) tn__sb_printf(out, "%lld", (long long)v);
  else tn__sb_printf(out, "%llu", (unsigned long long)v);
}

/* Rank is at most TN_MAX_RANK, so this recursion is shallow. */
static void put_axis(tn__sb *out, const tn_node *n, const char *data, uint32_t axis, size_t stride, bool brief) {
  if (axis == n->rank) {
    put_element(out, n->dtype, data);
    return;
  }
  int64_t size = n->dim[axis]->ints[0];
  size_t inner = size ? stride / (size_t)size : 0;
  tn__sb_putc(out, '[');
  for (int64_t i = 0; i < size; i++) {
    if (i) tn__sb_puts(out, axis + 1 == n->rank ? ", " : ",");
    if (i && axis + 1 < n->rank) tn__sb_printf(out, "\n%*s", (int)axis + 1, "");
    if (brief && size > 2 * EDGE && i == EDGE) {
      tn__sb_puts(out, "...");
      i = size - EDGE - 1;
      continue;
    }
    put_axis(out, n, data + (size_t)i * inner, axis + 1, inner, brief);
  }
  tn__sb_putc(out, ']');
}

typedef struct job {
  tn_tensor *t;
  FILE *f;
  char *made; /* without f */
} job;

static void do_print(tn_ctx *c, void *arg) {
  job *k = arg;
  tn_tensor *t = k->t;
  tn__sb out;
  tn__sb_init(&out, &c->scratch);
  tn__run_realize(c, &t, 1);
  size_t bytes = tn_nbytes(t);
  char *data = tn__alloc(c, bytes + 1);
  tn__buffer *b = tn__storage_buffer(c, t->node);
  if (bytes) b->device->ops->download(b->device, data, b->mem, bytes);
  put_axis(&out, t->node, data, 0, bytes, tn_numel(t) > SUMMARISE_FROM);
  tn__sb_printf(&out, " : %s\n", tn__node_type(t->node, &c->scratch));
  if (!k->f) k->made = tn__string_out(c, tn__sb_str(&out));
  else if (fputs(tn__sb_str(&out), k->f) == EOF || fflush(k->f) || ferror(k->f))
    tn__fail(c, TN_EIO, "writing failed: %s", strerror(errno));
}

tn_status tn_print(tn_tensor *t, FILE *f) {
  job k = {.t = t, .f = f ? f : stdout};
  tn_ctx *c = tn__cell_use(t, "tn_print");
  if (!c) return TN_EINVAL;
  return tn__ctx_run(c, "tn_print", do_print, &k) ? TN_OK : c->failed;
}

char *tn_print_string(tn_tensor *t) {
  job k = {.t = t};
  tn_ctx *c = tn__cell_use(t, "tn_print_string");
  return c && tn__ctx_run(c, "tn_print_string", do_print, &k) ? k.made : NULL;
}
