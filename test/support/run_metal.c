/* Metal text as C++ in a shared object, one machine thread for each thread of a group. */
#include "render/dialect.h"
#include "support/group_run.h"
#include <dlfcn.h>
#include <inttypes.h>
#include <pthread.h>
#include <unistd.h>

typedef void (*run_fn)(void *const *buf, const int64_t *var, char *scratch, char *cells, uint32_t t, uint32_t group,
                       uint32_t groups, pthread_barrier_t *);

struct group_code {
  void *object;
  tn__kernel *const *kernels;
};

/* Kernels have typed parameters: a function for each that takes them as arrays. */
static void put_callers(FILE *f, tn__kernel *const *kernels, uint32_t n) {
  fprintf(f, "\nthread_local pthread_barrier_t *shim_barrier;\n");
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t p = 0; p < kernels[i]->nparts; p++) {
      const tn__kernel *k = kernels[i];
      fprintf(f,
              "extern \"C\" void run_%s_%u(void *const *buf, const long *var, char *scratch, char *cells, uint t, uint "
              "group, uint groups, pthread_barrier_t *barrier) {\n",
              k->name, p);
      fprintf(f, "  shim_barrier = barrier;\n  %s_%u(", k->name, p);
      for (uint32_t b = 0; b < k->nbuf; b++) fprintf(f, "(%s *)buf[%u], ", tn__dialect_metal.cell[k->buf_dtype[b]], b);
      for (uint32_t v = 0; v < k->nvar; v++) fprintf(f, "var[%u], ", v);
      fprintf(f, "scratch, cells, t, group, groups);\n}\n");
    }
}

/* Without attributes: some have the name of a macro of the shim's. */
static void put_source(FILE *f, const char *source) {
  for (const char *s = source, *start; *s; s = start) {
    start = strstr(s, "[[");
    if (!start) start = s + strlen(s);
    fwrite(s, 1, (size_t)(start - s), f);
    if (*start) start = strstr(start, "]]") + 2;
  }
}

/* Files of one compilation: the name without suffix, and what the compiler says. */
typedef struct files {
  char base[64], log[4096];
} files;

static const char *named(const files *f, const char *suffix) {
  static char path[4][80];
  static int next;
  next = (next + 1) % 4;
  snprintf(path[next], sizeof path[next], "%s%s", f->base, suffix);
  return path[next];
}

static void remove_all(const files *f) {
  unlink(named(f, ""));
  unlink(named(f, ".cpp"));
  unlink(named(f, ".so"));
  unlink(named(f, ".log"));
}

static const char *compiler(void) { return getenv("CXX") ? getenv("CXX") : "c++"; }

/* A fresh name; false, and why, if there is no compiler. */
static bool begin(files *f) {
  char command[600];
  snprintf(f->base, sizeof f->base, "/tmp/tenet_metal_XXXXXX");
  snprintf(command, sizeof command, "%s --version >/dev/null 2>&1", compiler());
  snprintf(f->log, sizeof f->log, "there is no C++ compiler");
  int fd = mkstemp(f->base);
  if (fd >= 0) close(fd);
  bool good = fd >= 0 && !system(command);
  if (good) f->log[0] = '\0';
  else if (fd >= 0) remove_all(f);
  return good;
}

/* Runs the compiler on the .cpp; what it says is in log if it fails. */
static bool run_compiler(files *f, const char *options) {
  char command[1024];
  const char *here = getenv("TENET_TEST_DATA") ? getenv("TENET_TEST_DATA") : "test";
  snprintf(command, sizeof command,
           "%s -std=c++17 -w -ffp-contract=off -fno-strict-aliasing -pthread -isystem %s/support/metal %s %s 2>%s",
           compiler(), here, options, named(f, ".cpp"), named(f, ".log"));
  if (!system(command)) return true;
  FILE *log = fopen(named(f, ".log"), "r");
  f->log[log ? fread(f->log, 1, sizeof f->log - 1, log) : 0] = '\0';
  if (log) fclose(log);
  return false;
}

bool group_metal_takes(const char *source, char *log, size_t size) {
  files f;
  bool good = begin(&f);
  if (good) {
    FILE *file = fopen(named(&f, ".cpp"), "w");
    put_source(file, source);
    fclose(file);
    good = run_compiler(&f, "-fsyntax-only");
    remove_all(&f);
  }
  snprintf(log, size, "%s", f.log);
  return good;
}

static group_code *compile(const char *source, tn__kernel *const *kernels, uint32_t n, const char **why, bool *failed) {
  static files f;
  char options[160];
  *why = f.log;
  *failed = false;
  if (!begin(&f)) return NULL;
  FILE *file = fopen(named(&f, ".cpp"), "w");
  put_source(file, source);
  put_callers(file, kernels, n);
  fclose(file);
  /* not optimised: what is asked is whether the text is right, and gcc 13 gets the functions at infinity wrong */
  snprintf(options, sizeof options, "-O0 -fPIC -shared -o %s", named(&f, ".so"));
  void *object = run_compiler(&f, options) ? dlopen(named(&f, ".so"), RTLD_NOW | RTLD_LOCAL) : NULL;
  if (!object && !*f.log) snprintf(f.log, sizeof f.log, "%s", dlerror());
  remove_all(&f);
  *failed = !object;
  if (!object) return NULL;
  group_code *code = calloc(1, sizeof *code);
  *code = (group_code){object, kernels};
  return code;
}

typedef struct job {
  run_fn run;
  lin_bufs *b;
  const int64_t *var;
  char *scratch, *cells;
  uint32_t t, groups;
  pthread_barrier_t *barrier;
} job;

static void *run_thread(void *arg) {
  job *j = arg;
  for (uint32_t g = 0; g < j->groups; g++) { /* groups one after the other, in step */
    j->run(j->b->mem, j->var, j->scratch, j->cells, j->t, g, j->groups, j->barrier);
    pthread_barrier_wait(j->barrier);
  }
  return NULL;
}

static void launch(group_code *code, uint32_t i, uint32_t part, uint32_t groups, lin_bufs *b, const int64_t *var) {
  const tn__kernel *k = code->kernels[i];
  uint32_t threads = (uint32_t)tn__threads_of_block(&k->part[part]);
  char name[80];
  snprintf(name, sizeof name, "run_%s_%u", k->name, part);
  void *symbol = dlsym(code->object, name);
  run_fn run;
  memcpy(&run, &symbol, sizeof run);
  pthread_barrier_t barrier;
  pthread_barrier_init(&barrier, NULL, threads);
  char *scratch = aligned_alloc(64, (size_t)k->shared + 64),
       *cells = aligned_alloc(64, ((size_t)tn__render_cells(&k->part[part]) + 127) / 64 * 64);
  memset(scratch, 0xee, (size_t)k->shared + 64);
  pthread_t *id = malloc(threads * sizeof *id);
  job *j = malloc(threads * sizeof *j);
  for (uint32_t t = 0; t < threads; t++) {
    j[t] = (job){run, b, var, scratch, cells, t, groups, &barrier};
    pthread_create(&id[t], NULL, run_thread, &j[t]);
  }
  for (uint32_t t = 0; t < threads; t++) pthread_join(id[t], NULL);
  pthread_barrier_destroy(&barrier);
  free(id);
  free(j);
  free(scratch);
  free(cells);
}

static void release(group_code *code) {
  dlclose(code->object);
  free(code);
}

const group_runner group_metal = {"metal", &tn__dialect_metal, compile, launch, release};
