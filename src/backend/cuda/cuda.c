/* CUDA devices: finding them, their contexts, their memory, their errors. */
#include "backend/cuda/cuda.h"
#include "backend/cuda/state.h"
#include "backend/cuda/target.h"
#include "render/render.h"
#include <stdio.h>
#include <string.h>

/* ---- errors ---- */

/* After these the driver answers every call in the context with the same error. */
static bool is_sticky(int result) {
  static const int sticky[] = {46 /* device unavailable */,
                               214 /* ECC */,
                               220 /* NVLink */,
                               226 /* contained */,
                               700 /* illegal address */,
                               702 /* timeout */,
                               709 /* destroyed */,
                               710 /* assert */,
                               714 /* stack */,
                               715 /* illegal instruction */,
                               716 /* misaligned */,
                               717 /* address space */,
                               718 /* program counter */,
                               719 /* launch failed */,
                               999};
  for (size_t i = 0; i < sizeof sticky / sizeof *sticky; i++)
    if (sticky[i] == result) return true;
  return false;
}

tn_status tn__cuda_check(tn__device *d, int result, const char *doing) {
  tn__cuda *self = d->self;
  const char *text = NULL, *name = NULL;
  if (result == 0) return TN_OK;
  self->api->error_text(result, &text);
  self->api->error_name(result, &name);
  tn_status status = result == CU_OUT_OF_MEMORY ? TN_ENOMEM : TN_ERUN;
  if (is_sticky(result)) self->lost = true;
  if (self->lost && *self->started)
    tn__error(d->ctx, status, "%s: %s: %s (%s); %s was started last; the device is lost until the context is closed",
              d->name, doing, text ? text : "unknown error", name ? name : "no name", self->started);
  else
    tn__error(d->ctx, status, "%s: %s: %s (%s)%s", d->name, doing, text ? text : "unknown error",
              name ? name : "no name",
              self->lost ? "; after an error of this kind CUDA may serve no more of this process: start another" : "");
  return status;
}

void tn__cuda_started(tn__device *d, const char *name) {
  tn__cuda *self = d->self;
  size_t n = strnlen(name, sizeof self->started - 1); /* in each launch, of whose own work printf was a third */
  memcpy(self->started, name, n);
  self->started[n] = 0;
}

/* ---- the context ---- */

static tn_status open_context(tn__device *d) {
  tn__cuda *self = d->self;
  const tn__cuda_driver *api = self->api;
  /* freed memory stays with the pool: giving it back at each wait would cost more than all else */
  uint64_t keep = UINT64_MAX;
  int result = self->context ? 0 : api->context_retain(&self->context, self->number);
  if (!result) result = api->context_use(self->context);
  if (!result) result = api->stream_create(&self->stream, CU_NON_BLOCKING);
  if (result) return tn__cuda_check(d, result, "opening the device");
  int least;
  if (api->priorities(&least, &self->greatest)) self->greatest = 0;
  if (api->pool_of(&self->pool, self->number) || api->pool_set(self->pool, CU_RELEASE_THRESHOLD, &keep))
    self->pool = NULL;
  return TN_OK;
}

tn_status tn__cuda_use(tn__device *d) {
  tn__cuda *self = d->self;
  if (self->lost) {
    tn__error(d->ctx, TN_EDEVICE, "%s is lost since an earlier error: close the context and open another", d->name);
    return TN_EDEVICE;
  }
  if (!self->stream) return open_context(d);
  return tn__cuda_check(d, self->api->context_use(self->context), "entering the device");
}

tn_status tn__cuda_enter(tn__device *d) {
  const tn__cuda *self = d->self;
  if (!self->recording) return tn__cuda_use(d);
  tn__error(d->ctx, TN_ESTATE, "%s: not possible while work is being recorded", d->name);
  return TN_ESTATE;
}

static tn_status wait_for_all(tn__device *d) {
  const tn__cuda *self = d->self;
  if (!self->stream && !self->lost) return TN_OK; /* nothing was ever asked for */
  tn_status status = tn__cuda_enter(d);
  return status ? status : tn__cuda_check(d, self->api->stream_wait(self->stream), "waiting for the device");
}

static void close_cuda(tn__device *d) {
  tn__cuda *self = d->self;
  if (!self) return;
  const tn__cuda_driver *api = self->api;
  if (self->context) {
    api->context_use(self->context);
    if (self->stream) api->stream_wait(self->stream);
    tn__cuda_products_close(d);
    tn__cuda_convs_close(d);
    tn__cuda_ring_close(self);
    if (self->stream) api->stream_destroy(self->stream);
    if (self->pool) api->pool_trim(self->pool, 0);
    if (self->lost) api->context_reset(self->number); /* the next one to open it finds a working device */
    api->context_use(NULL);
    api->context_release(self->number);
  }
  tn__mem_free(&d->ctx->mem, self);
}

/* ---- memory ---- */

static void *take(const tn__cuda *self, size_t size) {
  tn__cu_address p = 0;
  int failed = self->pool ? self->api->alloc_async(&p, size, self->stream) : self->api->alloc(&p, size);
  return failed ? NULL : (void *)(uintptr_t)p;
}

static void *alloc(tn__device *d, size_t size) {
  const tn__cuda *self = d->self;
  if (tn__cuda_enter(d) || !tn__within_limit(d->ctx, size)) return NULL;
  void *p = take(self, size);
  if (p || !self->pool) return p;
  /* What was freed lately is the driver's again only when the stream has passed that point. */
  if (self->api->stream_wait(self->stream) || self->api->pool_trim(self->pool, 0)) return NULL;
  return take(self, size);
}

static void free_block(tn__device *d, void *p, size_t size) {
  const tn__cuda *self = d->self;
  (void)size;
  /* the memory goes with the context */
  if (self->lost || !self->stream || self->api->context_use(self->context)) return;
  if (self->pool) self->api->free_async((tn__cu_address)(uintptr_t)p, self->stream);
  else self->api->free((tn__cu_address)(uintptr_t)p);
}

static size_t room(tn__device *d) {
  const tn__cuda *self = d->self;
  size_t unused = 0, total = 0;
  return tn__cuda_enter(d) || self->api->memory_info(&unused, &total) ? 0 : unused;
}

/* ---- opening ---- */

static const tn__device_ops cuda_ops = {
    .name = "cuda",
    .alloc = alloc,
    .free = free_block,
    .room = room,
    .upload = tn__cuda_upload,
    .download = tn__cuda_download,
    .fetch = tn__cuda_fetch,
    .compile = tn__cuda_compile,
    .release = tn__cuda_release,
    .launch = tn__cuda_launch,
    .close = close_cuda,
    .has_gemm = tn__cuda_has_gemm,
    .has_after = tn__cuda_has_after,
    .gemm = tn__cuda_gemm,
    .has_conv = tn__cuda_has_conv,
    .conv = tn__cuda_conv,
    .sync = wait_for_all,
    .record = tn__cuda_record,
    .after = tn__cuda_after,
    .recorded = tn__cuda_recorded,
    .replay = tn__cuda_replay,
    .forget = tn__cuda_forget,
};

static int attribute(const tn__cuda_driver *api, int number, int which) {
  int value = 0;
  return api->device_attribute(&value, which, number) ? 0 : value;
}

static void add_device(tn_ctx *c, const tn__cuda_driver *api, int i) {
  char name[32], what[64] = "unknown";
  size_t memory = 0;
  int number = 0, version = tn__cuda_driver_version();
  if (api->device_get(&number, i) || api->device_memory(&memory, number)) return;
  api->device_name(what, sizeof what, number);
  int major = attribute(api, number, CU_CAPABILITY_MAJOR), minor = attribute(api, number, CU_CAPABILITY_MINOR);
  int units = attribute(api, number, CU_MULTIPROCESSORS), shared = attribute(api, number, CU_SHARED_OPTIN);
  tn__sb text;
  tn__sb_init(&text, &c->scratch);
  snprintf(name, sizeof name, "cuda:%d", i);
  tn__sb_printf(&text, "%.30s, sm_%d%d, %.1f GiB, %d multiprocessors; CUDA %d.%d", what, major, minor,
                (double)memory / (1 << 30), units, version / 1000, version % 1000 / 10);
  if (!tn__cuda_has_nvrtc()) tn__sb_puts(&text, "; no NVRTC: compiles nothing");
  tn__device *d = tn__device_add(c, &cuda_ops, name, tn__sb_str(&text), NULL);
  tn__cuda *self = d->self = tn__mem_zalloc(&c->mem, sizeof *self);
  self->api = api;
  self->number = number;
  /* The letter gives access to what only this generation has (wgmma, tcgen05). */
  snprintf(self->target, sizeof self->target, "sm_%d%d%s", major, minor, major >= 9 ? "a" : "");
  self->early = major >= 9;
  d->dialect = &tn__dialect_cuda;
  d->target = tn__cuda_target(major, units, shared > TN__CELLS_RESERVED ? (size_t)(shared - TN__CELLS_RESERVED) : 0);
  d->target.group = attribute(api, number, CU_MAX_THREADS_PER_BLOCK);
  d->target.memory = (double)memory;
}

static int gpus(const tn__cuda_driver *api) {
  int n = 0;
  return !api || api->device_count(&n) ? 0 : n;
}

int tn__cuda_open(tn_ctx *c, int first) {
  const tn__cuda_driver *api = tn__cuda_load_driver(NULL);
  int n = gpus(api), before = tn__device_count(c);
  if (first < 0 || first >= n) first = 0;
  for (int i = 0; i < n; i++) add_device(c, api, i == 0 ? first : i <= first ? i - 1 : i);
  return tn__device_count(c) - before;
}

bool tn__cuda_usable(void) { return gpus(tn__cuda_load_driver(NULL)) > 0 && tn__cuda_has_nvrtc(); }

const char *tn__cuda_missing(void) {
  const char *why;
  const tn__cuda_driver *api = tn__cuda_load_driver(&why);
  return api && !gpus(api) ? "the driver sees no GPU" : why;
}
