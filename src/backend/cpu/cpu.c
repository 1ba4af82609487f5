/* The CPU device: compile, load, cut into slices, run. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/compiler.h"
#include "backend/cpu/level.h"
#include "backend/ref/ref.h"
#include "render/render.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum { SLICES_PER_THREAD = 4, LINE = 64 };

static const uint64_t canary = 0x7e3e7ca4a817c0deu;

typedef void (*part_fn)(void *const *buf, const int64_t *var, int64_t lo, int64_t hi, char *scratch);
typedef int64_t (*extent_fn)(const int64_t *var);

typedef struct part {
  part_fn run;
  extent_fn extent;
  int64_t grain;
} part;

typedef struct kernel {
  part part[2];
  uint32_t nparts;
  bool scratch; /* uses it */
} kernel;

struct tn__code {
  void *object; /* dlopen's handle */
  kernel *kernel;
};

typedef struct cpu {
  tn__cc cc;
  char machine[64];   /* the processor's name */
  char *scratch;      /* one piece per thread, as large as any kernel compiled so far needs; a canary behind each */
  size_t piece;
} cpu;

/* ---- compiling ---- */

/* Loads the unit from the cache or compiles it; NULL if a cached object does not load. */
static void *load_unit(tn_ctx *c, const cpu *self, const char *source, uint32_t n) {
  const char *id = tn__cc_identity(c, &self->cc, self->machine);
  tn__key key = tn__cache_key(source, strlen(source), tn__cache_key(id, strlen(id), (tn__key){0, 0}));
  const char *path = tn__cache_find(&c->cache, key, ".so", &c->scratch);
  void *object = path ? dlopen(path, RTLD_NOW | RTLD_LOCAL) : NULL;
  if (object) {
    c->stats.kernels_cached += n;
    return object;
  }
  const char *temp = tn__cache_temp(&c->cache, ".so", &c->scratch);
  if (!temp)
    tn__fail(c, TN_EIO, "no directory to compile kernels in: neither the cache nor $TMPDIR (else /tmp) can be written");
  tn__cc_compile(c, &self->cc, source, temp);
  c->stats.kernels_compiled += n;
  object = dlopen(temp, RTLD_NOW | RTLD_LOCAL);
  const char *why = object ? "" : dlerror();
  /* a loaded object needs its file no longer */
  if (!object || !tn__cache_adopt(&c->cache, key, ".so", temp)) unlink(temp);
  if (!object) tn__fail(c, TN_ECOMPILE, "compiled kernels do not load: %s", why);
  return object;
}

static void *symbol(tn_ctx *c, void *object, const char *kernel_name, uint32_t n, const char *suffix) {
  char name[256];
  snprintf(name, sizeof name, "%s_%u%s", kernel_name, n, suffix);
  void *s = dlsym(object, name);
  if (!s) tn__fail(c, TN_ECOMPILE, "compiled kernels lack the function %s", name);
  return s;
}

/* Room for `bytes` of scratch per thread. */
static void grow_scratch(tn__device *d, size_t bytes) {
  cpu *self = d->self;
  size_t piece = (bytes + sizeof canary + LINE - 1) / LINE * LINE, threads = (size_t)tn__pool_threads(d->ctx->pool);
  if (piece <= self->piece) return;
  char *grown = tn__host_alloc(d, piece * threads);
  if (!grown) tn__fail(d->ctx, TN_ENOMEM, "no memory for %zu bytes of scratch on each of %zu threads", piece, threads);
  tn__host_free(d, self->scratch, self->piece * threads);
  self->scratch = grown;
  self->piece = piece;
  for (size_t t = 1; t <= threads; t++) memcpy(grown + t * piece - sizeof canary, &canary, sizeof canary);
}

typedef struct build {
  tn__device *device;
  tn__kernel *const *kernels;
  uint32_t n;
  tn__code *code;
} build;

static void build_code(void *arg) {
  build *b = arg;
  tn_ctx *c = b->device->ctx;
  tn__sb source;
  tn__sb_init(&source, &c->scratch);
  tn__render_unit(c, &source, &tn__dialect_c, b->kernels, b->n);
  b->code->kernel = tn__mem_zalloc(&c->mem, (b->n + 1) * sizeof(kernel));
  b->code->object = load_unit(c, b->device->self, tn__sb_str(&source), b->n);
  for (uint32_t i = 0; i < b->n; i++) {
    const tn__kernel *from = b->kernels[i];
    kernel *k = &b->code->kernel[i];
    k->nparts = from->nparts;
    k->scratch = from->scratch > 0;
    if (k->scratch) grow_scratch(b->device, (size_t)from->scratch);
    for (uint32_t p = 0; p < k->nparts; p++) {
      void *run = symbol(c, b->code->object, from->name, p, ""),
           *extent = symbol(c, b->code->object, from->name, p, "_extent");
      memcpy(&k->part[p].run, &run, sizeof run);
      memcpy(&k->part[p].extent, &extent, sizeof extent);
      k->part[p].grain = from->part[p].grain > 0 ? from->part[p].grain : 1;
    }
  }
}

static void release(tn__device *d, tn__code *code) {
  if (code->object) dlclose(code->object);
  tn__mem_free(&d->ctx->mem, code->kernel);
  tn__mem_free(&d->ctx->mem, code);
}

static tn__code *compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  build b = {.device = d, .kernels = kernels, .n = n, .code = tn__mem_zalloc(&d->ctx->mem, sizeof *b.code)};
  tn_status status;
  if (tn__mem_try(&d->ctx->mem, build_code, &b, &status)) return b.code;
  release(d, b.code);
  tn__mem_throw(&d->ctx->mem, status);
}

/* ---- running ---- */

typedef struct job {
  const cpu *self;
  part_fn run;
  void *const *buf;
  const int64_t *var;
  int64_t each, rest; /* iterations per slice; the first `rest` slices do one more */
} job;

static void run_slice(void *arg, int64_t slice, int thread) {
  const job *j = arg;
  int64_t lo = slice * j->each + (slice < j->rest ? slice : j->rest);
  char *scratch = j->self->scratch; /* NULL as long as no kernel needed any */
  j->run(j->buf, j->var, lo, lo + j->each + (slice < j->rest),
         scratch ? scratch + (size_t)thread * j->self->piece : NULL);
}

static bool scratch_is_sound(const tn__device *d) {
  const cpu *self = d->self;
  bool sound = true;
  for (size_t t = 1; t <= (size_t)tn__pool_threads(d->ctx->pool); t++)
    sound &= !memcmp(self->scratch + t * self->piece - sizeof canary, &canary, sizeof canary);
  return sound;
}

static tn_status launch(tn__device *d, tn__code *code, uint32_t n, void *const *buf, const size_t *bytes,
                        const int64_t *var) {
  const kernel *k = &code->kernel[n];
  int64_t most = (int64_t)SLICES_PER_THREAD * tn__pool_threads(d->ctx->pool);
  (void)bytes;
  if (most == SLICES_PER_THREAD) most = 1; /* one thread */
  for (uint32_t p = 0; p < k->nparts; p++) {
    job j = {.self = d->self, .run = k->part[p].run, .buf = buf, .var = var};
    int64_t extent = k->part[p].extent(var), slices = extent / k->part[p].grain;
    if (extent <= 0) continue;
    if (slices > most) slices = most;
    if (slices <= 1) {
      j.run(buf, var, 0, extent, j.self->scratch);
      continue;
    }
    j.each = extent / slices;
    j.rest = extent % slices;
    tn__pool_run(d->ctx->pool, run_slice, &j, slices);
  }
  if (!k->scratch || scratch_is_sound(d)) return TN_OK;
  tn__error(d->ctx, TN_ERUN, "kernel %u of a schedule wrote outside its scratch memory", n);
  return TN_ERUN;
}

/* ---- opening ---- */

/* The processor's name, as /proc/cpuinfo has it for the first core, cut to size. */
static void read_model(char *out, size_t size) {
  char info[1024];
  int fd = open("/proc/cpuinfo", O_RDONLY | O_CLOEXEC);
  ssize_t n = fd < 0 ? 0 : read(fd, info, sizeof info - 1);
  if (fd >= 0) close(fd);
  info[n > 0 ? n : 0] = '\0';
  const char *line = strstr(info, "model name"), *name = line ? strstr(line, ": ") : NULL;
  if (name) snprintf(out, size, "%.*s", (int)strcspn(name + 2, "\n"), name + 2);
}

/* A compiler that is told a level keeps to it, and so does what is written for it. */
static const tn__level *choose_level(tn_ctx *c, const cpu *self) {
  const char *told = self->cc.path[0] ? tn__cc_asked_march(&self->cc) : NULL;
  if (!c->opt.cpu_level && told && tn__level_is(told)) return tn__level_choose(c, told, "TENET_CC");
  return tn__level_choose(c, c->opt.cpu_level, "TENET_CPU_LEVEL");
}

static void describe(tn_ctx *c, cpu *self, char *text, size_t size) {
  char model[64] = "unknown processor";
  read_model(model, sizeof model);
  const tn__level *level = choose_level(c, self);
  const char *name = strrchr(self->cc.path, '/');
  snprintf(self->machine, sizeof self->machine, "%s", model);
  self->cc.march = level->march;
  c->vector_bytes = level->bytes;
  int cores = tn__pool_threads(c->pool);
  snprintf(text, size, "%d core%s, %s, %s; cc = %.40s", cores, cores == 1 ? "" : "s", model, level->name,
           name ? name + 1 : "none: kernels are interpreted");
}

static void close_cpu(tn__device *d) {
  cpu *self = d->self;
  if (self) tn__host_free(d, self->scratch, 0);
  tn__mem_free(&d->ctx->mem, self);
}

static const tn__device_ops cpu_ops = {
    .name = "cpu",
    .alloc = tn__host_alloc,
    .free = tn__host_free,
    .upload = tn__host_copy,
    .download = tn__host_copy,
    .compile = compile,
    .release = release,
    .launch = launch,
    .close = close_cpu,
    .has_gemm = tn__cpu_has_gemm,
    .gemm = tn__cpu_gemm,
};

static const tn__device_ops interpreting_ops = {
    .name = "cpu",
    .alloc = tn__host_alloc,
    .free = tn__host_free,
    .upload = tn__host_copy,
    .download = tn__host_copy,
    .compile = tn__ref_compile,
    .release = tn__ref_release,
    .launch = tn__ref_launch,
    .has_gemm = tn__cpu_has_gemm,
    .gemm = tn__cpu_gemm,
};

void tn__cpu_open(tn_ctx *c) {
  char text[128];
  cpu found = {0};
  bool compiles = tn__cc_find(c, &found.cc);
  describe(c, &found, text, sizeof text);
  tn__device *d = tn__device_add(c, compiles ? &cpu_ops : &interpreting_ops, "cpu", text, NULL);
  d->target = (tn__target){.interprets = !compiles, .lane_bytes = TN__CPU_LANE_BYTES};
  if (compiles) {
    cpu *self = d->self = tn__mem_alloc(&c->mem, sizeof *self);
    *self = found;
  } else if (!c->opt.quiet) {
    fputs("tenet: no C compiler was found (TENET_CC): kernels are interpreted, which is slow\n", stderr);
  }
}
