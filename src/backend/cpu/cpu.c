/* The CPU device: compile, load, cut into slices, run. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/compiler.h"
#include "backend/cpu/level.h"
#include "backend/ref/ref.h"
#include "render/render.h"
#include <dlfcn.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

enum {
  SLICES_PER_THREAD = 4,
  LINE = 64,
  UNIT_WORK = 2000 /* instructions of one unit's kernels, if it has several: for some tenths of a second */
};

static const uint64_t canary = 0x7e3e7ca4a817c0deu;

typedef void (*part_fn)(void *const *buf, const int64_t *var, int64_t lo, int64_t hi, char *scratch);
typedef int64_t (*extent_fn)(const int64_t *var);

typedef struct part {
  part_fn run;
  extent_fn extent;
  int64_t grain;
} part;

typedef struct kernel {
  part part[TN__MAX_PARTS];
  uint32_t nparts;
  bool scratch; /* uses it */
} kernel;

/* A piece of the schedule's C, with some of its kernels */
typedef struct unit {
  uint32_t first, n;
  tn__key key;
  void *object;     /* dlopen's handle, NULL: not yet */
  bool compiling;
  tn__child cc;
  char temp[PATH_MAX]; /* what is compiled to */
} unit;

struct tn__code {
  unit *unit;
  uint32_t nunits;
  kernel *kernel;
};

typedef struct cpu {
  tn__cc cc;
  char machine[64];   /* the processor's name */
  char *scratch;      /* one piece per thread, as large as anything so far needs; a canary behind each */
  size_t piece;
} cpu;

/* ---- compiling ---- */

typedef struct build {
  tn__device *device;
  tn__kernel *const *kernels;
  uint32_t n;
  tn__code *code;
} build;

static uint32_t work_of(const tn__kernel *k) {
  uint32_t n = 0;
  for (uint32_t p = 0; p < k->nparts; p++) n += k->part[p].n;
  return n;
}

/* Compilers are not linear in a unit's length, and take one processor each.  The number of units; out NULL: no more
 * than that. */
static uint32_t cut_units(const build *b, unit *out) {
  uint32_t n = 0, work = 0;
  for (uint32_t i = 0; i < b->n; i++) {
    bool fits = n && work + work_of(b->kernels[i]) <= UNIT_WORK;
    work = (fits ? work : 0) + work_of(b->kernels[i]);
    if (!fits && out) out[n].first = i;
    n += !fits;
    if (out) out[n - 1].n++;
  }
  return n;
}

static void load(unit *u, const char *path, uint64_t *count) {
  u->object = dlopen(path, RTLD_NOW | RTLD_LOCAL);
  if (u->object) *count += u->n;
}

/* Loads the unit from the cache; else, or if what is cached does not load, starts to compile it. */
static void start_unit(build *b, unit *u) {
  tn_ctx *c = b->device->ctx;
  const cpu *self = b->device->self;
  tn__mark work = tn__arena_mark(&c->scratch);
  tn__sb source;
  tn__sb_init(&source, &c->scratch);
  tn__render_unit(c, &source, &tn__dialect_c, b->kernels + u->first, u->n);
  const char *text = tn__sb_str(&source), *id = tn__cc_identity(c, &self->cc, self->machine);
  u->key = tn__cache_key(text, strlen(text), tn__cache_key(id, strlen(id), (tn__key){0, 0}));
  const char *path = tn__cache_find(&c->cache, u->key, ".so", &c->scratch), *temp = NULL;
  if (path) load(u, path, &c->stats.kernels_cached);
  if (!u->object) temp = tn__cache_temp(&c->cache, ".so", &c->scratch);
  if (!u->object && !temp)
    tn__fail(c, TN_EIO, "no directory to compile kernels in: neither the cache nor $TMPDIR (else /tmp) can be written");
  if (temp) {
    snprintf(u->temp, sizeof u->temp, "%s", temp);
    tn__cc_start(c, &self->cc, text, u->temp, &u->cc);
    u->compiling = true;
  }
  tn__arena_rewind(&c->scratch, work);
}

static void finish_unit(build *b, unit *u) {
  tn_ctx *c = b->device->ctx;
  const cpu *self = b->device->self;
  if (!u->compiling) return;
  u->compiling = false;
  tn__cc_finish(c, &self->cc, &u->cc, u->temp);
  load(u, u->temp, &c->stats.kernels_compiled);
  const char *why = u->object ? "" : dlerror();
  /* a loaded object needs its file no longer */
  if (!u->object || !tn__cache_adopt(&c->cache, u->key, ".so", u->temp)) unlink(u->temp);
  if (!u->object) tn__fail(c, TN_ECOMPILE, "compiled kernels do not load: %s", why);
}

/* As many compilers at once as the context may use processors */
static void load_units(build *b) {
  uint32_t n = b->code->nunits, at_once = (uint32_t)tn__pool_threads(b->device->ctx->pool);
  for (uint32_t i = 0; i < n + at_once; i++) {
    if (i >= at_once && i - at_once < n) finish_unit(b, &b->code->unit[i - at_once]);
    if (i < n) start_unit(b, &b->code->unit[i]);
  }
}

static void *symbol(tn_ctx *c, void *object, const char *kernel_name, uint32_t n, const char *suffix) {
  char name[256];
  snprintf(name, sizeof name, "%s_%u%s", kernel_name, n, suffix);
  void *s = dlsym(object, name);
  if (!s) tn__fail(c, TN_ECOMPILE, "compiled kernels lack the function %s", name);
  return s;
}

void tn__cpu_grow_scratch(tn__device *d, size_t bytes) {
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

void *tn__cpu_scratch(const tn__device *d, int thread) {
  const cpu *self = d->self;
  return self->scratch ? self->scratch + (size_t)thread * self->piece : NULL;
}

static void find_functions(build *b, const unit *u, uint32_t i) {
  tn_ctx *c = b->device->ctx;
  const tn__kernel *from = b->kernels[i];
  kernel *k = &b->code->kernel[i];
  k->nparts = from->nparts;
  k->scratch = from->scratch > 0;
  if (k->scratch) tn__cpu_grow_scratch(b->device, (size_t)from->scratch);
  for (uint32_t p = 0; p < k->nparts; p++) {
    void *run = symbol(c, u->object, from->name, p, ""), *extent = symbol(c, u->object, from->name, p, "_extent");
    memcpy(&k->part[p].run, &run, sizeof run);
    memcpy(&k->part[p].extent, &extent, sizeof extent);
    k->part[p].grain = from->part[p].grain > 0 ? from->part[p].grain : 1;
  }
}

static void build_code(void *arg) {
  build *b = arg;
  tn__code *code = b->code;
  code->kernel = tn__mem_zalloc(&b->device->ctx->mem, (b->n + 1) * sizeof(kernel));
  code->unit = tn__mem_zalloc(&b->device->ctx->mem, (cut_units(b, NULL) + 1) * sizeof(unit));
  code->nunits = cut_units(b, code->unit);
  load_units(b);
  for (uint32_t u = 0; u < code->nunits; u++)
    for (uint32_t i = 0; i < code->unit[u].n; i++) find_functions(b, &code->unit[u], code->unit[u].first + i);
}

static void release(tn__device *d, tn__code *code) {
  for (uint32_t i = 0; i < code->nunits; i++) {
    unit *u = &code->unit[i];
    if (u->object) dlclose(u->object);
    if (!u->compiling) continue;
    tn__child_stop(&u->cc);
    unlink(u->temp);
  }
  tn__mem_free(&d->ctx->mem, code->unit);
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
  const tn__device *d;
  part_fn run;
  void *const *buf;
  const int64_t *var;
  int64_t each, rest; /* iterations per slice; the first `rest` slices do one more */
} job;

static void run_slice(void *arg, int64_t slice, int thread) {
  const job *j = arg;
  int64_t lo = slice * j->each + (slice < j->rest ? slice : j->rest);
  j->run(j->buf, j->var, lo, lo + j->each + (slice < j->rest), tn__cpu_scratch(j->d, thread));
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
    job j = {.d = d, .run = k->part[p].run, .buf = buf, .var = var};
    int64_t extent = k->part[p].extent(var), slices = extent / k->part[p].grain;
    if (extent <= 0) continue;
    if (slices > most) slices = most;
    if (slices <= 1) {
      j.run(buf, var, 0, extent, tn__cpu_scratch(d, 0));
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
    .has_conv = tn__cpu_has_conv,
    .conv = tn__cpu_conv,
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
    .close = close_cpu,
    .has_gemm = tn__cpu_has_gemm,
    .gemm = tn__cpu_gemm,
    .has_conv = tn__cpu_has_conv,
    .conv = tn__cpu_conv,
};

void tn__cpu_open(tn_ctx *c) {
  char text[128];
  cpu found = {0};
  bool compiles = tn__cc_find(c, &found.cc);
  describe(c, &found, text, sizeof text);
  tn__device *d = tn__device_add(c, compiles ? &cpu_ops : &interpreting_ops, "cpu", text, NULL);
  d->target = (tn__target){.interprets = !compiles, TN__CPU_TARGET};
  if (!compiles) d->target.widening = 0; /* converting for a library costs nothing beside that */
  cpu *self = d->self = tn__mem_alloc(&c->mem, sizeof *self);
  *self = found;
  if (!compiles && !c->opt.quiet)
    fprintf(stderr, "tenet: no C compiler was found (TENET_CC%s%s): kernels are interpreted, which is slow\n",
            c->opt.cc ? " is " : "", c->opt.cc ? c->opt.cc : "");
}
