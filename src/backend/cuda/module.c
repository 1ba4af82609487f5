/* From kernels to functions on the device: text, cubin, module; and their launch.
 *
 * A schedule's kernels are compiled in units of a few parts, each a program of NVRTC of its own, so that they can be
 * compiled side by side: what all have in common costs about as much as two parts. Cubins are kept on disk by all that
 * they depend on; NVRTC is not even loaded when everything is there. */
#include "backend/cuda/state.h"
#include "backend/cuda/target.h"
#include "lower/launch_extent.h"
#include "render/render.h"
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { PARTS_PER_UNIT = 2, PLAIN_SHARED = 48 << 10, HALF_SHARED = 50, MAX_OPTIONS = 8, MAX_GRID = INT32_MAX };

typedef struct part {
  tn__cu_function function;
  unsigned threads, together; /* of a block; groups in it */
  tn__launch_extent turns;
  int64_t most; /* blocks that are worth starting; 0: one for each turn */
  int64_t more; /* blocks, of parts that are launched with it */
  bool stages;  /* one block in all */
} part;

typedef struct kernel {
  const char *name;
  part part[TN__MAX_PARTS];
  uint32_t nparts, nbuf, nvar; /* nparts: launches */
  unsigned shared;             /* bytes */
} kernel;

typedef struct unit {
  const tn__cuda_nvrtc *nvrtc;
  const char *source;
  const char *const *option;
  int noptions;
  char name[80];
  tn__key key;
  uint32_t first, n; /* kernels */
  tn__nvrtc_program program;
  int failed; /* NVRTC's result */
  tn__cu_module module;
} unit;

struct tn__code {
  tn__arena arena;
  kernel *kernel;
  unit *unit;
  uint32_t n, nunits;
  void **argument; /* of the launch under way */
};

typedef struct build {
  tn__device *device;
  tn__kernel *const *kernels;
  tn__code *code;
} build;

/* ---- the cache ---- */

/* The file's content in scratch; NULL if it cannot be read. */
static char *read_file(tn_ctx *c, const char *path) {
  struct stat st;
  if (stat(path, &st) || st.st_size < 0) return NULL;
  size_t size = (size_t)st.st_size, got = 0;
  char *content = tn__alloc(c, size + 1);
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return NULL;
  for (ssize_t n = 1; got < size && n > 0; got += n > 0 ? (size_t)n : 0) n = read(fd, content + got, size - got);
  close(fd);
  return got == size ? content : NULL;
}

static bool write_file(const char *path, const char *content, size_t size) {
  int fd = open(path, O_WRONLY | O_TRUNC | O_CLOEXEC);
  size_t put = 0;
  if (fd < 0) return false;
  for (ssize_t n = 1; put < size && n > 0; put += n > 0 ? (size_t)n : 0) n = write(fd, content + put, size - put);
  return !close(fd) && put == size;
}

static void keep_cubin(tn_ctx *c, const unit *u, const char *cubin, size_t size) {
  const char *temp = c->cache.dir ? tn__cache_temp(&c->cache, ".cubin", &c->scratch) : NULL;
  if (temp && (!write_file(temp, cubin, size) || !tn__cache_adopt(&c->cache, u->key, ".cubin", temp))) unlink(temp);
}

/* A cubin says itself where it ends: the cache's trailer does not matter.  One that does not load is made again. */
static bool load_cached(tn__device *d, unit *u) {
  tn_ctx *c = d->ctx;
  const tn__cuda *self = d->self;
  const char *path = tn__cache_find(&c->cache, u->key, ".cubin", &c->scratch),
             *cubin = path ? read_file(c, path) : NULL;
  if (!cubin) return false;
  if (!self->api->module_load(&u->module, cubin)) return true;
  u->module = NULL;
  unlink(path);
  return false;
}

/* ---- compiling ---- */

/* The text of each unit, and the key of what it compiles to. */
static void render_units(build *b) {
  tn_ctx *c = b->device->ctx;
  const tn__cuda *self = b->device->self;
  char id[800], arch[64];
  const char **option = tn__alloc(c, MAX_OPTIONS * sizeof *option);
  int n = 0;
  tn__sb all;
  snprintf(arch, sizeof arch, "--gpu-architecture=%s", self->target);
  option[n++] = tn__arena_strdup(&c->scratch, arch);
  option[n++] = "--std=c++17";
  option[n++] = "--fmad=false"; /* the other float options are exact by default */
  option[n++] = "--device-as-default-execution-space";
  option[n++] = "--disable-warnings";
  tn__cuda_nvrtc_identity(id, sizeof id);
  tn__sb_init(&all, &c->scratch);
  tn__sb_printf(&all, "%s\ndriver %d\n", id, tn__cuda_driver_version());
  for (int i = 0; i < n; i++) tn__sb_printf(&all, "%s ", option[i]);
  tn__key key = tn__cache_key(tn__sb_str(&all), all.n, (tn__key){0, 0});
  for (uint32_t i = 0; i < b->code->nunits; i++) {
    unit *u = &b->code->unit[i];
    tn__sb text;
    tn__sb_init(&text, &c->scratch);
    tn__render_unit(c, &text, &tn__dialect_cuda, b->kernels + u->first, u->n);
    u->source = tn__sb_str(&text);
    u->key = tn__cache_key(u->source, text.n, key);
    u->option = option;
    u->noptions = n;
    snprintf(u->name, sizeof u->name, "%.70s.cu", b->kernels[u->first]->name);
  }
}

static void compile_unit(void *arg, int64_t i, int thread) {
  unit *u = ((unit **)arg)[i];
  (void)thread;
  u->failed = u->nvrtc->create(&u->program, u->source, u->name, 0, NULL, NULL);
  if (!u->failed) u->failed = u->nvrtc->compile(u->program, u->noptions, u->option);
}

/* Throws with what NVRTC says; its log names the source and the line. */
_Noreturn static void refuse(tn_ctx *c, const unit *u) {
  size_t size = 0;
  char *log = "";
  if (u->program && !u->nvrtc->log_size(u->program, &size) && size) {
    log = tn__arena_zalloc(&c->scratch, size + 1);
    u->nvrtc->log(u->program, log);
  }
  for (char *s = log; *s; s++)
    if (*s == '\n') *s = s[1] ? '|' : '\0'; /* an error is one line */
  tn__fail(c, TN_ECOMPILE, "NVRTC failed (error %d): %.800s", u->failed, *log ? log : "it gave no reason");
}

static void load_compiled(tn__device *d, unit *u) {
  tn_ctx *c = d->ctx;
  const tn__cuda *self = d->self;
  size_t size = 0;
  if (u->failed || u->nvrtc->cubin_size(u->program, &size)) refuse(c, u);
  char *cubin = tn__alloc(c, size + 1);
  if (u->nvrtc->cubin(u->program, cubin)) refuse(c, u);
  int result = self->api->module_load(&u->module, cubin);
  if (result) u->module = NULL;
  tn_status status = tn__cuda_check(d, result, "loading compiled kernels");
  if (status) tn__mem_throw(&c->mem, status);
  keep_cubin(c, u, cubin, size);
}

/* Every unit's module, from the cache or from NVRTC. */
static void load_units(build *b) {
  tn_ctx *c = b->device->ctx;
  const char *why;
  unit **missing = tn__alloc(c, (b->code->nunits + 1) * sizeof(unit *));
  int64_t n = 0;
  for (uint32_t i = 0; i < b->code->nunits; i++) {
    unit *u = &b->code->unit[i];
    bool cached = load_cached(b->device, u);
    *(cached ? &c->stats.kernels_cached : &c->stats.kernels_compiled) += u->n;
    if (!cached) missing[n++] = u;
  }
  if (!n) return;
  const tn__cuda_nvrtc *nvrtc = tn__cuda_load_nvrtc(&why);
  if (!nvrtc) tn__fail(c, TN_ECOMPILE, "kernels for %s cannot be compiled: %s", b->device->name, why);
  for (int64_t i = 0; i < n; i++) missing[i]->nvrtc = nvrtc;
  tn__pool_run(c->pool, compile_unit, missing, n);
  for (int64_t i = 0; i < n; i++) load_compiled(b->device, missing[i]);
}

/* ---- what a launch needs ---- */

static void find_function(build *b, const unit *u, const char *name, uint32_t number, unsigned shared, part *p) {
  tn__device *d = b->device;
  const tn__cuda *self = d->self;
  char symbol[256];
  snprintf(symbol, sizeof symbol, "%s_%u", name, number);
  int result = self->api->module_function(&p->function, u->module, symbol);
  if (!result && shared > PLAIN_SHARED / 2) /* beside it stands what groups bring together (tn__render_cells) */
    result = self->api->function_set(p->function, CU_DYNAMIC_SHARED, (int)shared);
  tn_status status = tn__cuda_check(d, result, symbol);
  if (status) tn__mem_throw(&d->ctx->mem, status);
}

/* Units are parted into cache and shared memory, of which every block takes some (a KB from sm_80 on), by the kernel
 * that comes first, and stay so for as long as it has blocks there: beside one that asks for little none that asks for
 * more could run. */
static void ask_for_shared(const build *b, const part *p) {
  const tn__cuda *self = b->device->self;
  self->api->function_set(p->function, CU_PREFERRED_SHARED, HALF_SHARED); /* a hint, which may be refused */
}

static void fill_kernel(build *b, const unit *u, uint32_t i) {
  const tn__kernel *from = b->kernels[i];
  kernel *k = &b->code->kernel[i];
  *k = (kernel){.name = tn__arena_strdup(&b->code->arena, from->name),
                .nbuf = from->nbuf,
                .nvar = from->nvar};
  tn__render_fits(b->device, from);
  k->shared = (unsigned)from->shared;
  for (uint32_t p = 0, end; p < from->nparts; p = end) {
    part *q = &k->part[k->nparts++];
    q->together = (unsigned)tn__groups_of_block(&from->part[p]);
    q->threads = from->part[p].group > 0 ? (unsigned)tn__threads_of_launch(from, p) : 1;
    q->most = from->part[p].blocks;
    q->turns = tn__launch_extent_make(b->device->ctx, &b->code->arena, from, &from->part[p]);
    end = tn__launch_end(from, p);
    q->stages = tn__has_stages(from, p);
    for (uint32_t n = p + 1; n < end; n++) q->more += tn__fixed_blocks(&from->part[n]);
    find_function(b, u, from->name, p, k->shared, q);
    if (from->part[p].leaves_room) ask_for_shared(b, q);
  }
}

static void cut_units(build *b) {
  tn__code *code = b->code;
  code->unit = tn__arena_zalloc(&code->arena, (code->n + 1) * sizeof(unit));
  for (uint32_t at = 0, parts = 0; at < code->n; at++) {
    if (at == 0 || parts >= PARTS_PER_UNIT) {
      code->unit[code->nunits++].first = at;
      parts = 0;
    }
    parts += b->kernels[at]->nparts;
    code->unit[code->nunits - 1].n++;
  }
}

static void build_code(void *arg) {
  build *b = arg;
  tn__code *code = b->code;
  uint32_t most = 0;
  code->kernel = tn__arena_zalloc(&code->arena, (code->n + 1) * sizeof(kernel));
  cut_units(b);
  render_units(b);
  load_units(b);
  for (uint32_t i = 0, u = 0; i < code->n; i++) {
    while (i >= code->unit[u].first + code->unit[u].n) u++;
    fill_kernel(b, &code->unit[u], i);
    if (most < code->kernel[i].nbuf + code->kernel[i].nvar) most = code->kernel[i].nbuf + code->kernel[i].nvar;
  }
  code->argument = tn__arena_zalloc(&code->arena, (most + 1) * sizeof *code->argument);
}

static void close_programs(tn__code *code) {
  for (uint32_t i = 0; i < code->nunits; i++)
    if (code->unit[i].program) code->unit[i].nvrtc->destroy(&code->unit[i].program);
}

void tn__cuda_release(tn__device *d, tn__code *code) {
  const tn__cuda *self = d->self;
  close_programs(code);
  if (!self->lost && self->stream && !self->api->context_use(self->context)) {
    self->api->stream_wait(self->stream); /* its kernels may be running */
    for (uint32_t i = 0; i < code->nunits; i++)
      if (code->unit[i].module) self->api->module_unload(code->unit[i].module);
  }
  tn__arena_free(&code->arena);
  tn__mem_free(&d->ctx->mem, code);
}

tn__code *tn__cuda_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  tn_status status = tn__cuda_enter(d);
  if (status) tn__mem_throw(&d->ctx->mem, status);
  build b = {.device = d, .kernels = kernels, .code = tn__mem_zalloc(&d->ctx->mem, sizeof *b.code)};
  tn__arena_init(&b.code->arena, &d->ctx->mem);
  b.code->n = n;
  if (tn__mem_try(&d->ctx->mem, build_code, &b, &status)) {
    close_programs(b.code);
    return b.code;
  }
  tn__cuda_release(d, b.code);
  tn__mem_throw(&d->ctx->mem, status);
}

/* ---- running ---- */

tn_status tn__cuda_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                          const int64_t *var) {
  const tn__cuda *self = d->self;
  const kernel *k = &code->kernel[i];
  tn_status status = tn__cuda_use(d);
  (void)bytes;
  for (uint32_t b = 0; b < k->nbuf; b++) code->argument[b] = (void *)(uintptr_t)&buf[b];
  for (uint32_t v = 0; v < k->nvar; v++) code->argument[k->nbuf + v] = (void *)(uintptr_t)&var[v];
  for (uint32_t p = 0; p < k->nparts && !status; p++) {
    const part *q = &k->part[p];
    int64_t extent = tn__launch_extent_of(&q->turns, var);
    if (extent <= 0) continue;
    tn__cuda_started(d, k->name);
    int64_t turns = (extent + q->together - 1) / q->together, own = q->most && q->most < turns ? q->most : turns;
    int64_t blocks = q->stages ? 1 : own + q->more;
    unsigned groups = blocks > MAX_GRID ? MAX_GRID : (unsigned)blocks;
    tn__cu_attribute attribute[2];
    unsigned nattribute = 0;
    if (self->early && (!self->recording || self->item_early[p > 0]))
      attribute[nattribute++] = (tn__cu_attribute){.what = CU_LAUNCH_SERIALIZED, .value = {.number = 1}};
    if (self->recording && self->item_priority)
      attribute[nattribute++] = (tn__cu_attribute){.what = CU_LAUNCH_PRIORITY,
                                                   .value = {.number = self->item_priority}};
    const tn__cu_launch launch = {.grid = {groups, 1, 1},
                                  .block = {q->threads, 1, 1},
                                  .shared = k->shared,
                                  .stream = self->stream,
                                  .attribute = attribute,
                                  .nattribute = nattribute};
    status = tn__cuda_check(d, self->api->launch(&launch, q->function, code->argument, NULL), k->name);
  }
  return status;
}
