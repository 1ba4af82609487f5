/* Every kernel that the interpreter is given in the guise of a GPU, as text: linked into every test in front of
 * tn__ref_open (--wrap), and asleep unless $TEST_TEXTS names a folder.  Then each kernel is printed in the language of
 * its guise and in Metal, which must refuse those with an f64 and no other.  What compiles without a device does so,
 * many kernels at a time: CUDA for the guise's target by NVRTC where that is found, Metal (in the guise of OpenCL,
 * whose kernels are like its own) as C++ with the stand-in for its library, OpenCL by clang, where that is found, which
 * takes only what the language has.  What compiled once is remembered in the folder, by content; each process adds what
 * it did to the file `counts` there: language, printed, refused, compiled, compiled before, left out, why. */
#include "backend/cuda/target.h"
#include "backend/cuda/cuda_api.h"
#include "backend/ref/ref.h"
#include "render/dialect.h"
#include "support/group_run.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CUDA, METAL, OPENCL, LANGUAGES, BATCH = 64 };

typedef struct language {
  const tn__dialect *dialect;
  bool (*compile)(const char *target, const char *source, char *log, size_t size); /* NULL: nothing can */
  const char *how;    /* by which command; NULL: not by one */
  const char *why;    /* so it is not compiled */
  char target[16];    /* of the kernels that wait to be compiled */
  char *waiting;      /* their text */
  size_t size;        /* of that */
  tn__key key[BATCH];
  unsigned n;
  bool tiles;         /* some of them need that text */
  unsigned printed, refused, compiled, before, left;
} language;

/* ---- compilers ---- */

static bool compile_cuda(const char *target, const char *source, char *log, size_t size) {
  char arch[64];
  const char *option[] = {arch, "--std=c++17", "--fmad=false", "--device-as-default-execution-space",
                          "--disable-warnings"},
             *why;
  const tn__cuda_nvrtc *nvrtc = tn__cuda_load_nvrtc(&why);
  tn__nvrtc_program program = NULL;
  size_t said = 0;
  snprintf(arch, sizeof arch, "--gpu-architecture=%s%s", target, strcmp(target, "sm_90") ? "" : "a");
  bool good = !nvrtc->create(&program, source, "kernels.cu", 0, NULL, NULL) &&
              !nvrtc->compile(program, sizeof option / sizeof *option, option);
  if (!good && program && !nvrtc->log_size(program, &said) && said < size) nvrtc->log(program, log);
  if (program) nvrtc->destroy(&program);
  return good;
}

/* NVRTC puts what it wants done at the end of the process on exit's list when it first compiles: so that this comes
 * after the report. */
static void wake_nvrtc(language *l) {
  const tn__cuda_nvrtc *nvrtc = tn__cuda_load_nvrtc(&l->why);
  tn__nvrtc_program program = NULL;
  if (!nvrtc) l->compile = NULL;
  if (!nvrtc || nvrtc->create(&program, "__global__ void k() {}", "k.cu", 0, NULL, NULL)) return;
  nvrtc->compile(program, 0, NULL);
  nvrtc->destroy(&program);
}

static bool compile_metal(const char *target, const char *source, char *log, size_t size) {
  (void)target;
  return group_metal_takes(source, log, size);
}

static bool compile_opencl(const char *target, const char *source, char *log, size_t size) {
  (void)target;
  return group_opencl_takes("", source, log, size);
}

static struct texts {
  const tn__device_ops *real;
  tn__device_ops ops;
  const char *folder;
  language language[LANGUAGES];
} texts = {.language = {[CUDA] = {.dialect = &tn__dialect_cuda, .compile = compile_cuda, .why = ""},
                        [METAL] = {.dialect = &tn__dialect_metal, .compile = compile_metal, .why = ""},
                        [OPENCL] = {.dialect = &tn__dialect_opencl,
                                     .compile = compile_opencl,
                                     .how = GROUP_CLANG,
                                     .why = "there is no clang"}}};

/* ---- printing ---- */

/* One kernel without the helper texts, under the name "k": what differs in its name only is the same. */
static const char *print_bare(tn_ctx *c, const tn__dialect *d, const tn__kernel *k) {
  static const char *const nothing[] = {NULL};
  tn__kernel copy = *k, *list = &copy;
  tn__dialect bare = *d;
  tn__group_words words = *d->group;
  tn__sb out;
  copy.name = "k";
  copy.note = NULL;
  bare.head = nothing;
  if (words.tiles) words.tiles = "";
  bare.group = &words;
  tn__sb_init(&out, &c->scratch);
  tn__render_unit(c, &out, &bare, &list, 1);
  return tn__sb_str(&out);
}

static bool has_f64(const tn__kernel *k) {
  for (uint32_t b = 0; b < k->nbuf; b++)
    if (k->buf_dtype[b] == TN_F64) return true;
  for (uint32_t p = 0; p < k->nparts; p++)
    for (uint32_t i = 0; i < k->part[p].n; i++)
      if (k->part[p].ins[i]->dtype == TN_F64) return true;
  return false;
}

typedef struct printing {
  tn_ctx *c;
  const tn__dialect *d;
  const tn__kernel *k;
} printing;

static void print_only(void *arg) {
  const printing *p = arg;
  print_bare(p->c, p->d, p->k);
}

/* f64, where the language lacks it, must be refused in so many words. */
static void expect_refusal(tn_ctx *c, language *l, const tn__kernel *k) {
  tn_status status = TN_OK;
  struct tn_ctx before = *c; /* the error is no one's */
  tn_clear_error(c);
  bool done = tn__mem_try(&c->mem, print_only, &(printing){c, l->dialect, k}, &status),
       told = strstr(c->err_text, "uses f64, which metal does not have") != NULL;
  c->err = before.err;
  c->failed = before.failed;
  memcpy(c->err_text, before.err_text, sizeof c->err_text);
  memcpy(c->err_op, before.err_op, sizeof c->err_op);
  if (done || status != TN_ENOTSUP || !told)
    tn__fail(c, TN_ECOMPILE, "kernel %s has f64, and %s does not say so", k->name, l->dialect->name);
  l->refused++;
}

/* ---- what waits to be compiled ---- */

static void give_up(const char *what, const char *log) {
  fprintf(stderr, "%s\n%s\n", what, log);
  _exit(1); /* also at the end of the process, when tests are over */
}

static void append(char **text, size_t *size, const char *more) {
  size_t n = strlen(more);
  *text = realloc(*text, *size + n + 1);
  if (!*text) give_up("out of memory", "");
  memcpy(*text + *size, more, n + 1);
  *size += n;
}

static void remember(const language *l) {
  tn__mem m = {0};
  tn__cache done;
  tn__arena a;
  tn__arena_init(&a, &m);
  tn__cache_open(&done, &m, texts.folder);
  for (unsigned i = 0; i < l->n; i++) tn__cache_write(&done, l->key[i], ".ok", "", 0, &a);
  tn__cache_close(&done);
  tn__arena_free(&a);
}

static void compile_waiting(language *l) {
  static char log[1 << 16];
  char *source = NULL;
  size_t size = 0;
  if (!l->n) return;
  for (int i = 0; l->dialect->head[i]; i++) append(&source, &size, l->dialect->head[i]);
  if (l->dialect->group->turns) append(&source, &size, l->dialect->group->turns);
  if (l->tiles && l->dialect->group->tiles) append(&source, &size, l->dialect->group->tiles);
  append(&source, &size, l->waiting);
  if (!l->compile(l->target, source, log, sizeof log)) {
    fputs(l->waiting, stderr);
    give_up("these kernels do not compile:", log);
  }
  free(source);
  free(l->waiting);
  remember(l);
  l->compiled += l->n;
  l->waiting = NULL;
  l->size = l->n = 0;
  l->tiles = false;
}

static void put_waiting(language *l, const tn__kernel *k, const char *text, tn__key key) {
  char name[80];
  for (unsigned p = 0; p < k->nparts; p++) {
    snprintf(name, sizeof name, "\n#undef k_%u\n#define k_%u kernel%u_%u\n", p, p, l->n, p);
    append(&l->waiting, &l->size, name);
    l->tiles |= k->part[p].tile != NULL;
  }
  append(&l->waiting, &l->size, text);
  l->key[l->n++] = key;
  if (l->n == BATCH) compile_waiting(l);
}

static bool is_waiting(const language *l, tn__key key) {
  for (unsigned i = 0; i < l->n; i++)
    if (l->key[i].a == key.a && l->key[i].b == key.b) return true;
  return false;
}

static tn__key chain(tn__key key, const char *text) { return tn__cache_key(text, strlen(text), key); }

/* What all of the language's units depend on. */
static tn__key start_key(const language *l) {
  tn__key key = chain(chain((tn__key){0, 0}, l->dialect->name), l->target);
  for (int i = 0; l->dialect->head[i]; i++) key = chain(key, l->dialect->head[i]);
  if (l->how) key = chain(key, l->how);
  const tn__group_words *words = l->dialect->group;
  if (words->turns) key = chain(key, words->turns);
  return words->tiles ? chain(key, words->tiles) : key;
}

/* Prints each, and compiles those that never were. */
static void take(tn_ctx *c, language *l, const char *target, tn__kernel *const *k, uint32_t n, bool compiles) {
  tn__cache done;
  if (strcmp(target, l->target)) compile_waiting(l);
  snprintf(l->target, sizeof l->target, "%s", target);
  tn__key start = start_key(l);
  tn__cache_open(&done, &c->mem, texts.folder);
  for (uint32_t i = 0; i < n; i++) {
    if (!l->dialect->cell[TN_F64] && has_f64(k[i])) {
      expect_refusal(c, l, k[i]);
      continue;
    }
    const char *text = print_bare(c, l->dialect, k[i]);
    l->printed++;
    if (!compiles) continue;
    tn__key key = chain(start, text);
    if (!l->compile) l->left++;
    else if (tn__cache_find(&done, key, ".ok", &c->scratch) || is_waiting(l, key)) l->before++;
    else put_waiting(l, k[i], text, key);
  }
  tn__cache_close(&done);
}

/* ---- in front of the interpreter ---- */

static tn__code *compile(tn__device *d, tn__kernel *const *k, uint32_t n) {
  for (int l = 0; l < LANGUAGES; l++)
    if (texts.language[l].dialect == d->dialect) take(d->ctx, &texts.language[l], strchr(d->name, ':') + 1, k, n, true);
  take(d->ctx, &texts.language[METAL], "", k, n, d->dialect == &tn__dialect_opencl);
  return texts.real->compile(d, k, n);
}

static void report(void) {
  char path[600];
  for (int i = 0; i < LANGUAGES; i++) compile_waiting(&texts.language[i]);
  snprintf(path, sizeof path, "%s/counts", texts.folder);
  FILE *f = fopen(path, "a");
  for (int i = 0; f && i < LANGUAGES; i++) {
    const language *l = &texts.language[i];
    fprintf(f, "%s %u %u %u %u %u %s\n", l->dialect->name, l->printed, l->refused, l->compiled, l->before, l->left,
            l->left ? l->why : "");
  }
  if (f) fclose(f);
}

void __real_tn__ref_open(tn_ctx *c, const char *name);
void __wrap_tn__ref_open(tn_ctx *c, const char *name);

void __wrap_tn__ref_open(tn_ctx *c, const char *name) {
  const char *folder = getenv("TEST_TEXTS");
  __real_tn__ref_open(c, name);
  tn__device *d = tn__device_get(c, tn__device_count(c) - 1);
  if (!folder || !*folder || !d->target.group) return;
  if (!texts.folder) {
    wake_nvrtc(&texts.language[CUDA]);
    if (!group_has_clang()) texts.language[OPENCL].compile = NULL;
    atexit(report);
  }
  texts.folder = folder;
  texts.real = d->ops;
  texts.ops = *d->ops;
  texts.ops.compile = compile;
  d->ops = &texts.ops;
}
