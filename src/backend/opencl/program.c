/* From kernels to functions on the device: text, program, its binary on disk; and their launch. */
#include "backend/opencl/state.h"
#include "lower/launch_extent.h"
#include "render/render.h"
#include <stdio.h>
#include <string.h>

enum { MOST_GROUPS = 1 << 20, WAITING = 16 };

typedef struct part {
  tn__cl_kernel function;
  size_t threads;   /* of a block */
  int64_t together; /* groups in it */
  tn__launch_extent turns;
} part;

typedef struct kernel {
  const char *name;
  part part[TN__MAX_PARTS];
  uint32_t nparts, nbuf, nvar;
} kernel;

struct tn__code {
  tn__arena arena;
  tn__cl_program program;
  kernel *kernel;
  uint32_t n;
};

typedef struct build {
  tn__device *device;
  tn__kernel *const *kernels;
  tn__code *code;
} build;

static void must(tn__device *d, int32_t result, const char *doing) {
  tn_status status = tn__opencl_check(d, result, doing);
  if (status) tn__mem_throw(&d->ctx->mem, status);
}

/* ---- the cache ---- */

static void append_info(tn__device *d, tn__sb *out, uint32_t what, bool of_platform) {
  const tn__opencl *self = d->self;
  char text[512] = "";
  if (of_platform) self->api->platform_info(self->platform, what, sizeof text, text, NULL);
  else self->api->device_info(self->device, what, sizeof text, text, NULL);
  text[sizeof text - 1] = '\0';
  tn__sb_printf(out, "%s\n", text);
}

/* What the result of compiling depends on. */
static tn__key key_of(tn__device *d, const tn__sb *source) {
  tn_ctx *c = d->ctx;
  const tn__opencl *self = d->self;
  tn__sb id;
  tn__sb_init(&id, &c->scratch);
  append_info(d, &id, CL_PLATFORM_NAME, true);
  append_info(d, &id, CL_PLATFORM_VERSION, true);
  append_info(d, &id, CL_DEVICE_NAME, false);
  append_info(d, &id, CL_DEVICE_VERSION, false);
  append_info(d, &id, CL_DRIVER_VERSION, false);
  tn__sb_puts(&id, self->options);
  return tn__cache_key(source->s, source->n, tn__cache_key(id.s, id.n, (tn__key){0, 0}));
}

/* A binary that the driver does not take is made again. */
static bool load_cached(build *b, tn__key key) {
  tn__device *d = b->device;
  const tn__opencl *self = d->self;
  size_t size = 0;
  int32_t status = 0, failed = 0;
  const unsigned char *binary =
      self->caches ? NULL : tn__cache_read(&d->ctx->cache, key, ".clbin", &d->ctx->scratch, &size);
  if (!binary) return false;
  b->code->program = self->api->program_of_binary(self->context, 1, &self->device, &size, &binary, &status, &failed);
  if (b->code->program && !failed && !status &&
      !self->api->build(b->code->program, 1, &self->device, self->options, NULL, NULL))
    return true;
  if (b->code->program) self->api->program_release(b->code->program);
  b->code->program = NULL;
  return false;
}

static void keep_binary(build *b, tn__key key) {
  tn_ctx *c = b->device->ctx;
  const tn__opencl *self = b->device->self;
  size_t size = 0;
  if (self->caches || !c->cache.dir ||
      self->api->program_info(b->code->program, CL_PROGRAM_BINARY_SIZES, sizeof size, &size, NULL) || !size)
    return;
  unsigned char *binary = tn__alloc(c, size);
  if (self->api->program_info(b->code->program, CL_PROGRAM_BINARIES, sizeof binary, &binary, NULL)) return;
  tn__cache_write(&c->cache, key, ".clbin", binary, size, &c->scratch);
}

/* ---- compiling ---- */

static void refuse_f64(build *b) {
  for (uint32_t i = 0; i < b->code->n; i++)
    for (uint32_t p = 0; p < b->kernels[i]->nparts; p++)
      for (uint32_t k = 0; k < b->kernels[i]->part[p].n; k++)
        if (b->kernels[i]->part[p].ins[k]->dtype == TN_F64)
          tn__fail(b->device->ctx, TN_ENOTSUP, "%s has no f64", b->device->name);
}

/* Throws with what the compiler says. */
_Noreturn static void refuse(build *b, int32_t failed) {
  tn_ctx *c = b->device->ctx;
  const tn__opencl *self = b->device->self;
  size_t size = 0;
  char *log = "";
  if (!self->api->build_info(b->code->program, self->device, CL_PROGRAM_BUILD_LOG, 0, NULL, &size) && size) {
    log = tn__arena_zalloc(&c->scratch, size + 1);
    self->api->build_info(b->code->program, self->device, CL_PROGRAM_BUILD_LOG, size, log, NULL);
  }
  for (char *s = log; *s; s++)
    if (*s == '\n') *s = s[1] ? '|' : '\0'; /* an error is one line */
  tn__fail(c, TN_ECOMPILE, "the OpenCL compiler of %s failed (%s): %.800s", b->device->name, tn__cl_error(failed),
           *log ? log : "it gave no reason");
}

static void load_program(build *b) {
  tn__device *d = b->device;
  tn_ctx *c = d->ctx;
  const tn__opencl *self = d->self;
  tn__sb source;
  int32_t failed = 0;
  tn__sb_init(&source, &c->scratch);
  tn__render_unit(c, &source, &tn__dialect_opencl, b->kernels, b->code->n);
  const char *text = tn__sb_str(&source);
  tn__key key = key_of(d, &source);
  bool cached = load_cached(b, key);
  *(cached ? &c->stats.kernels_cached : &c->stats.kernels_compiled) += b->code->n;
  if (cached) return;
  b->code->program = self->api->program_of_text(self->context, 1, &text, NULL, &failed);
  must(d, failed, "taking kernels");
  failed = self->api->build(b->code->program, 1, &self->device, self->options, NULL, NULL);
  if (failed) refuse(b, failed);
  keep_binary(b, key);
}

static void fill_kernel(build *b, uint32_t i) {
  tn__device *d = b->device;
  const tn__opencl *self = d->self;
  const tn__kernel *from = b->kernels[i];
  kernel *k = &b->code->kernel[i];
  *k = (kernel){.name = tn__arena_strdup(&b->code->arena, from->name),
                .nparts = from->nparts,
                .nbuf = from->nbuf,
                .nvar = from->nvar};
  for (uint32_t p = 0; p < k->nparts; p++) {
    char symbol[256];
    int32_t failed = 0;
    snprintf(symbol, sizeof symbol, "%s_%u", from->name, p);
    k->part[p].threads = from->part[p].group > 0 ? (size_t)tn__threads_of_block(&from->part[p]) : 1;
    k->part[p].together = tn__groups_of_block(&from->part[p]);
    k->part[p].turns = tn__launch_extent_make(d->ctx, &b->code->arena, from, &from->part[p]);
    k->part[p].function = self->api->kernel_create(b->code->program, symbol, &failed);
    must(d, failed, symbol);
  }
}

static void build_code(void *arg) {
  build *b = arg;
  const tn__opencl *self = b->device->self;
  b->code->kernel = tn__arena_zalloc(&b->code->arena, (b->code->n + 1) * sizeof(kernel));
  if (!self->f64) refuse_f64(b);
  load_program(b);
  for (uint32_t i = 0; i < b->code->n; i++) fill_kernel(b, i);
}

/* What is still queued the driver keeps until it is done. */
void tn__opencl_release(tn__device *d, tn__code *code) {
  const tn__opencl *self = d->self;
  for (uint32_t i = 0; i < code->n && code->kernel; i++)
    for (uint32_t p = 0; p < code->kernel[i].nparts; p++)
      if (code->kernel[i].part[p].function) self->api->kernel_release(code->kernel[i].part[p].function);
  if (code->program) self->api->program_release(code->program);
  tn__arena_free(&code->arena);
  tn__mem_free(&d->ctx->mem, code);
}

tn__code *tn__opencl_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  tn_status status = tn__opencl_use(d);
  if (status) tn__mem_throw(&d->ctx->mem, status);
  build b = {.device = d, .kernels = kernels, .code = tn__mem_zalloc(&d->ctx->mem, sizeof *b.code)};
  tn__arena_init(&b.code->arena, &d->ctx->mem);
  b.code->n = n;
  if (tn__mem_try(&d->ctx->mem, build_code, &b, &status)) return b.code;
  tn__opencl_release(d, b.code);
  tn__mem_throw(&d->ctx->mem, status);
}

/* ---- running ---- */

/* Buffers, each as object and offset, then variables: the same for all parts. */
static tn_status set_arguments(tn__device *d, const kernel *k, tn__cl_kernel f, void *const *buf, const int64_t *var) {
  const tn__cl *api = ((const tn__opencl *)d->self)->api;
  int32_t failed = 0;
  for (uint32_t b = 0; b < k->nbuf && !failed; b++) {
    tn__cl_mem mem = NULL;
    uint64_t at = 0;
    tn_status status = tn__opencl_find(d, buf[b], &mem, &at);
    if (status) return status;
    failed = api->argument(f, 2 * b, sizeof mem, &mem);
    if (!failed) failed = api->argument(f, 2 * b + 1, sizeof at, &at);
  }
  for (uint32_t v = 0; v < k->nvar && !failed; v++) failed = api->argument(f, 2 * k->nbuf + v, sizeof *var, &var[v]);
  return tn__opencl_check(d, failed, k->name);
}

/* Drivers may keep commands until somebody waits; so that they begin meanwhile, they are told now and then, which takes
 * its time. */
static int32_t begin_now_and_then(tn__opencl *self) {
  if (++self->waiting < WAITING) return 0;
  self->waiting = 0;
  return self->api->flush(self->queue);
}

tn_status tn__opencl_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                            const int64_t *var) {
  tn__opencl *self = d->self;
  const kernel *k = &code->kernel[i];
  tn_status status = tn__opencl_use(d);
  (void)bytes;
  for (uint32_t p = 0; p < k->nparts && !status; p++) {
    const part *q = &k->part[p];
    int64_t turns = tn__launch_extent_of(&q->turns, var);
    if (turns <= 0) continue;
    int64_t blocks = (turns + q->together - 1) / q->together;
    size_t global = (size_t)(blocks < MOST_GROUPS ? blocks : MOST_GROUPS) * q->threads;
    status = set_arguments(d, k, q->function, buf, var);
    if (status) return status;
    snprintf(self->started, sizeof self->started, "%s", k->name);
    int32_t failed = self->api->launch(self->queue, q->function, 1, NULL, &global, &q->threads, 0, NULL, NULL);
    status = tn__opencl_check(d, failed ? failed : begin_now_and_then(self), k->name);
  }
  return status;
}
