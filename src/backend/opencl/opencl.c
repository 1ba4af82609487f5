/* OpenCL devices: finding them, their contexts, their errors. */
#include "backend/opencl/opencl.h"
#include "backend/opencl/state.h"
#include "render/render.h"
#include <stdio.h>
#include <string.h>

enum { MAX_PLATFORMS = 16, MAX_DEVICES = 32, MAX_GROUP = 1024, CPU_GROUP = 64, MAX_DIMS = 16 };

/* ---- errors ---- */

/* After these nothing that is asked of the device can succeed. */
static bool is_sticky(int32_t result) {
  return result == CL_DEVICE_NOT_AVAILABLE || result == CL_INVALID_CONTEXT || result == CL_INVALID_COMMAND_QUEUE ||
         result == -9999 /* NVIDIA's: illegal access */;
}

static bool is_memory(int32_t result) {
  return result == CL_MEM_OBJECT_ALLOCATION_FAILURE || result == CL_OUT_OF_RESOURCES ||
         result == CL_OUT_OF_HOST_MEMORY || result == CL_INVALID_BUFFER_SIZE;
}

tn_status tn__opencl_check(tn__device *d, int32_t result, const char *doing) {
  tn__opencl *self = d->self;
  if (!result) return TN_OK;
  tn_status status = is_memory(result) ? TN_ENOMEM : TN_ERUN;
  if (!is_sticky(result)) {
    tn__error(d->ctx, status, "%s: %s: %s", d->name, doing, tn__cl_error(result));
    return status;
  }
  self->lost = true;
  tn__error(d->ctx, status, "%s: %s: %s; %s was started last; the device is lost until the context is closed", d->name,
            doing, tn__cl_error(result), *self->started ? self->started : "no kernel");
  return status;
}

/* ---- the context ---- */

tn_status tn__opencl_use(tn__device *d) {
  tn__opencl *self = d->self;
  const intptr_t properties[] = {CL_CONTEXT_PLATFORM, (intptr_t)self->platform, 0};
  int32_t failed = 0;
  if (self->lost) {
    tn__error(d->ctx, TN_EDEVICE, "%s is lost since an earlier error: close the context and open another", d->name);
    return TN_EDEVICE;
  }
  if (!self->context) self->context = self->api->context_create(properties, 1, &self->device, NULL, NULL, &failed);
  if (!failed && !self->queue) self->queue = self->api->queue_create(self->context, self->device, 0, &failed);
  return tn__opencl_check(d, failed, "opening the device");
}

static tn_status wait_for_all(tn__device *d) {
  const tn__opencl *self = d->self;
  if (!self->queue) return TN_OK; /* nothing was ever asked for */
  tn_status status = tn__opencl_use(d);
  return status ? status : tn__opencl_check(d, self->api->finish(self->queue), "waiting for the device");
}

static void close_opencl(tn__device *d) {
  tn__opencl *self = d->self;
  if (!self) return;
  if (self->queue) self->api->finish(self->queue);
  tn__opencl_ring_close(d);
  if (self->queue) self->api->queue_release(self->queue);
  if (self->context) self->api->context_release(self->context);
  tn__mem_free(&d->ctx->mem, self->block);
  tn__mem_free(&d->ctx->mem, self);
}

/* ---- opening ---- */

static const tn__device_ops opencl_ops = {
    .name = "opencl",
    .alloc = tn__opencl_alloc,
    .free = tn__opencl_free,
    .upload = tn__opencl_upload,
    .download = tn__opencl_download,
    .compile = tn__opencl_compile,
    .release = tn__opencl_release,
    .launch = tn__opencl_launch,
    .close = close_opencl,
    .sync = wait_for_all,
};

typedef struct found {
  tn__cl_platform platform;
  tn__cl_device device;
} found;

/* The answer as a number of 64 bits, whatever its width; 0 if there is none. */
static uint64_t ask(const tn__cl *api, tn__cl_device device, uint32_t what) {
  uint64_t answer = 0;
  return api->device_info(device, what, sizeof answer, &answer, NULL) ? 0 : answer;
}

/* All devices that are there and can compile, platform by platform. */
static int find_devices(const tn__cl *api, found *out) {
  tn__cl_platform platform[MAX_PLATFORMS];
  tn__cl_device device[MAX_DEVICES];
  uint32_t nplatforms = 0;
  int n = 0;
  if (!api || api->platforms(MAX_PLATFORMS, platform, &nplatforms)) return 0;
  for (uint32_t p = 0; p < nplatforms && p < MAX_PLATFORMS; p++) {
    uint32_t ndevices = 0;
    if (api->devices(platform[p], tn__cl_all_types, MAX_DEVICES, device, &ndevices)) continue;
    for (uint32_t i = 0; i < ndevices && i < MAX_DEVICES && n < MAX_DEVICES; i++)
      if (ask(api, device[i], CL_DEVICE_AVAILABLE) && ask(api, device[i], CL_DEVICE_COMPILER_AVAILABLE))
        out[n++] = (found){platform[p], device[i]};
  }
  return n;
}

/* Threads of a group, a power of two: what the device takes in the first dimension; a processor runs them one after the
 * other, so a few do. */
static int group_of(const tn__cl *api, tn__cl_device device) {
  size_t sizes[MAX_DIMS] = {0};
  uint64_t most = ask(api, device, CL_DEVICE_TYPE) & CL_TYPE_CPU ? CPU_GROUP : MAX_GROUP,
           threads = ask(api, device, CL_DEVICE_MAX_WORK_GROUP_SIZE);
  int p = 1;
  if (threads < most) most = threads;
  if (!api->device_info(device, CL_DEVICE_MAX_WORK_ITEM_SIZES, sizeof sizes, sizes, NULL) && sizes[0] < most)
    most = sizes[0];
  while ((uint64_t)p * 2 <= most) p *= 2;
  return p;
}

int tn__opencl_subgroup(const tn__cl *api, tn__cl_device device, int group) {
  static const uint32_t names[] = {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, CL_DEVICE_WARP_SIZE_NV,
                                   CL_DEVICE_WAVEFRONT_WIDTH_AMD};
  uint64_t width = 0;
  int p = 1;
  if (!(ask(api, device, CL_DEVICE_TYPE) & CL_TYPE_CPU))
    for (size_t i = 0; i < sizeof names / sizeof *names && !width; i++) width = ask(api, device, names[i]);
  if (!width) width = TN__USUAL_SUBGROUP;
  while ((uint64_t)p * 2 <= width && p * 2 <= group) p *= 2;
  return p;
}

/* Exact division has to be asked for, and may only be where it can be had. */
static const char *options_for(uint64_t floats) {
  return floats & CL_FP_CORRECTLY_ROUNDED ? "-cl-std=CL1.2 -cl-fp32-correctly-rounded-divide-sqrt" : "-cl-std=CL1.2";
}

static void add_device(tn_ctx *c, const tn__cl *api, const found *f, int number) {
  char name[32], what[128] = "unknown", platform[64] = "unknown";
  uint64_t floats = ask(api, f->device, CL_DEVICE_SINGLE_FP_CONFIG),
           shared = ask(api, f->device, CL_DEVICE_LOCAL_MEM_SIZE);
  bool f64 = ask(api, f->device, CL_DEVICE_DOUBLE_FP_CONFIG) != 0;
  int units = (int)ask(api, f->device, CL_DEVICE_MAX_COMPUTE_UNITS);
  tn__sb text;
  tn__sb_init(&text, &c->scratch);
  api->device_info(f->device, CL_DEVICE_NAME, sizeof what, what, NULL);
  api->platform_info(f->platform, CL_PLATFORM_NAME, sizeof platform, platform, NULL);
  snprintf(name, sizeof name, "opencl:%d", number);
  tn__sb_printf(&text, "%.40s (%.32s), %.1f GiB, %d units%s%s%s", what, platform,
                (double)ask(api, f->device, CL_DEVICE_GLOBAL_MEM_SIZE) / (1 << 30), units, f64 ? "" : ", no f64",
                floats & CL_FP_CORRECTLY_ROUNDED ? "" : ", inexact division",
                floats & CL_FP_DENORM ? "" : ", no subnormals");
  tn__device *d = tn__device_add(c, &opencl_ops, name, tn__sb_str(&text), NULL);
  tn__opencl *self = d->self = tn__mem_zalloc(&c->mem, sizeof *self);
  self->api = api;
  self->platform = f->platform;
  self->device = f->device;
  self->options = options_for(floats);
  self->f64 = f64;
  self->caches = !strcmp(platform, "Portable Computing Language");
  d->dialect = &tn__dialect_opencl;
  tn__target *t = &d->target;
  *t = (tn__target){.group = group_of(api, f->device),
                    /* what most GPUs have, and drivers do not say */
                    .unit_threads = 2048,
                    .access = 16,
                    .sector = 32,
                    .adds = sizeof(int32_t), /* of 8 bytes OpenCL 1.2 has none */
                    .registers = 256 << 10};
  t->subgroup = tn__opencl_subgroup(api, f->device, t->group);
  d->largest = (size_t)ask(api, f->device, CL_DEVICE_MAX_MEM_ALLOC_SIZE);
  t->units = units > 0 ? units : 1;
  /* generated code declares them itself: partial results of reductions, two sets */
  uint64_t cells = 16 * (uint64_t)t->group;
  t->shared = shared > cells ? (size_t)(shared - cells) : 0;
  t->kept = t->shared < TN__KEPT_BYTES ? t->shared : TN__KEPT_BYTES;
}

int tn__opencl_open(tn_ctx *c, int first) {
  const tn__cl *api = tn__cl_load(NULL);
  found all[MAX_DEVICES];
  int n = find_devices(api, all);
  if (first < 0 || first >= n) first = 0;
  for (int i = 0; i < n; i++) {
    int number = i == 0 ? first : i <= first ? i - 1 : i;
    add_device(c, api, &all[number], number);
  }
  return n;
}

int tn__opencl_gpu(void) {
  const tn__cl *api = tn__cl_load(NULL);
  found all[MAX_DEVICES];
  int n = find_devices(api, all);
  for (int i = 0; i < n; i++)
    if (ask(api, all[i].device, CL_DEVICE_TYPE) & CL_TYPE_GPU) return i;
  return -1;
}

const char *tn__opencl_missing(void) {
  const char *why;
  found all[MAX_DEVICES];
  const tn__cl *api = tn__cl_load(&why);
  return api && !find_devices(api, all) ? "no driver (ICD) offers a device" : why;
}
