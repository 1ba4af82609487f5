/* Every kernel that the interpreter is given in the guise of a GPU, as text: linked into every test in front of tn__ref_open (--wrap), and
 * asleep unless $TEST_TEXTS names a folder.  Then each kernel is printed in the language of its guise and in Metal, which must refuse those
 * with an f64 and no other; CUDA's is compiled for its target by NVRTC where that is found, many kernels at a time.  What compiled once is
 * remembered in the folder, by content; each process adds what it did to the file `counts` there: language, printed, refused, compiled,
 * compiled before, left out, why. */
#include "backend/cuda/cuda_api.h"
#include "backend/ref/ref.h"
#include "render/dialect.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { CUDA, METAL, OPENCL, LANGUAGES, BATCH = 64 };

static struct texts {
  const tn__device_ops *real;
  tn__device_ops ops;
  const char *folder, *why; /* why: nothing is compiled */
  char target[16];          /* of the kernels that wait to be compiled */
  char *waiting;            /* their text, a name space of its own for each */
  size_t size;              /* of that */
  tn__key key[BATCH];
  unsigned n;
  bool tiles;               /* some of them need that text */
  struct {
    const char *name;
    unsigned printed, refused, compiled, before, left;
  } count[LANGUAGES];
} texts = {.why = "", .count = {{.name = "cuda"}, {.name = "metal"}, {.name = "opencl"}}};

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
  tn__kernel *k;
} printing;

static void print_metal(void *arg) {
  const printing *p = arg;
  print_bare(p->c, &tn__dialect_metal, p->k);
}

/* f64 must be refused, and nothing else. */
static void try_metal(tn_ctx *c, tn__kernel *k) {
  tn_status status = TN_OK;
  if (!has_f64(k)) {
    print_metal(&(printing){c, k});
    texts.count[METAL].printed++;
    return;
  }
  tn_ctx before = *c; /* the error is no one's */
  bool done = tn__mem_try(&c->mem, print_metal, &(printing){c, k}, &status), told = strstr(c->err_text, "f64, which metal does not have") != NULL;
  c->err = before.err;
  c->failed = before.failed;
  memcpy(c->err_text, before.err_text, sizeof c->err_text);
  memcpy(c->err_op, before.err_op, sizeof c->err_op);
  if (done || status != TN_ENOTSUP || (before.err.status == TN_OK && !told)) tn__fail(c, TN_ECOMPILE, "kernel %s has f64, and Metal does not say so", k->name);
  texts.count[METAL].refused++;
}

/* ---- CUDA ---- */

static void give_up(const char *what, const char *log) {
  fprintf(stderr, "%s: %s\n%s\n", texts.target, what, log);
  _exit(1); /* also at the end of the process, when tests are over */
}

static void append(const char *text) {
  size_t n = strlen(text);
  texts.waiting = realloc(texts.waiting, texts.size + n + 1);
  if (!texts.waiting) give_up("out of memory", "");
  memcpy(texts.waiting + texts.size, text, n + 1);
  texts.size += n;
}

static void keep_keys(void) {
  tn__mem m = {0};
  tn__cache done;
  tn__arena a;
  tn__arena_init(&a, &m);
  tn__cache_open(&done, &m, texts.folder);
  for (unsigned i = 0; i < texts.n; i++) tn__cache_write(&done, texts.key[i], ".ok", "", 0, &a);
  tn__cache_close(&done);
  tn__arena_free(&a);
}

/* Those that wait, as one unit. */
static void compile_waiting(void) {
  static char log[1 << 16];
  char arch[64];
  const char *option[] = {arch, "--std=c++17", "--fmad=false", "--device-as-default-execution-space", "--disable-warnings"};
  const tn__cuda_nvrtc *nvrtc = tn__cuda_load_nvrtc(&texts.why);
  tn__nvrtc_program program = NULL;
  size_t size = 0;
  if (!texts.n) return;
  char *kernels = texts.waiting;
  texts.waiting = NULL;
  texts.size = 0;
  for (int i = 0; tn__dialect_cuda.head[i]; i++) append(tn__dialect_cuda.head[i]);
  if (texts.tiles) append(tn__dialect_cuda.group->tiles);
  append(kernels);
  snprintf(arch, sizeof arch, "--gpu-architecture=%s%s", texts.target, strcmp(texts.target, "sm_90") ? "" : "a");
  bool failed = nvrtc->create(&program, texts.waiting, "kernels.cu", 0, NULL, NULL) || nvrtc->compile(program, sizeof option / sizeof *option, option);
  if (failed && program && !nvrtc->log_size(program, &size) && size < sizeof log) nvrtc->log(program, log);
  if (failed) fputs(kernels, stderr);
  if (failed) give_up("NVRTC does not take these kernels", log);
  nvrtc->destroy(&program);
  free(kernels);
  free(texts.waiting);
  keep_keys();
  texts.count[CUDA].compiled += texts.n;
  texts.waiting = NULL;
  texts.size = texts.n = 0;
  texts.tiles = false;
}

static void put_waiting(const tn__kernel *k, const char *text, tn__key key) {
  char name[80];
  for (unsigned p = 0; p < k->nparts; p++) {
    snprintf(name, sizeof name, "\n#undef k_%u\n#define k_%u kernel%u_%u\n", p, p, texts.n, p);
    append(name);
    texts.tiles |= k->part[p].tile != NULL;
  }
  append(text);
  texts.key[texts.n++] = key;
  if (texts.n == BATCH) compile_waiting();
}

static bool is_waiting(tn__key key) {
  for (unsigned i = 0; i < texts.n; i++)
    if (texts.key[i].a == key.a && texts.key[i].b == key.b) return true;
  return false;
}

static void try_cuda(tn_ctx *c, const char *target, tn__kernel *const *k, uint32_t n) {
  tn__cache done;
  bool here = tn__cuda_load_nvrtc(&texts.why) != NULL;
  if (strcmp(target, texts.target)) compile_waiting();
  snprintf(texts.target, sizeof texts.target, "%s", target);
  tn__cache_open(&done, &c->mem, texts.folder);
  tn__key start = tn__cache_key(target, strlen(target), (tn__key){0, 0});
  for (int i = 0; tn__dialect_cuda.head[i]; i++) start = tn__cache_key(tn__dialect_cuda.head[i], strlen(tn__dialect_cuda.head[i]), start);
  start = tn__cache_key(tn__dialect_cuda.group->tiles, strlen(tn__dialect_cuda.group->tiles), start);
  for (uint32_t i = 0; i < n; i++) {
    const char *text = print_bare(c, &tn__dialect_cuda, k[i]);
    tn__key key = tn__cache_key(text, strlen(text), start);
    texts.count[CUDA].printed++;
    if (tn__cache_find(&done, key, ".ok", &c->scratch) || is_waiting(key)) texts.count[CUDA].before++;
    else if (!here) texts.count[CUDA].left++;
    else put_waiting(k[i], text, key);
  }
  tn__cache_close(&done);
}

/* ---- in front of the interpreter ---- */

static tn__code *compile(tn__device *d, tn__kernel *const *k, uint32_t n) {
  tn_ctx *c = d->ctx;
  if (d->dialect == &tn__dialect_cuda) try_cuda(c, strchr(d->name, ':') + 1, k, n);
  for (uint32_t i = 0; i < n; i++) {
    try_metal(c, k[i]);
    if (d->dialect != &tn__dialect_opencl) continue;
    print_bare(c, d->dialect, k[i]);
    texts.count[OPENCL].printed++;
  }
  return texts.real->compile(d, k, n);
}

static void report(void) {
  char path[600];
  compile_waiting();
  snprintf(path, sizeof path, "%s/counts", texts.folder);
  FILE *f = fopen(path, "a");
  for (int i = 0; f && i < LANGUAGES; i++)
    fprintf(f, "%s %u %u %u %u %u %s\n", texts.count[i].name, texts.count[i].printed, texts.count[i].refused, texts.count[i].compiled, texts.count[i].before,
            texts.count[i].left, i == CUDA ? texts.why : "");
  if (f) fclose(f);
}

/* NVRTC puts what it wants done at the end of the process on exit's list when it first compiles: so that this comes after the report. */
static void wake_nvrtc(void) {
  const tn__cuda_nvrtc *nvrtc = tn__cuda_load_nvrtc(&texts.why);
  tn__nvrtc_program program = NULL;
  if (!nvrtc || nvrtc->create(&program, "__global__ void k() {}", "k.cu", 0, NULL, NULL)) return;
  nvrtc->compile(program, 0, NULL);
  nvrtc->destroy(&program);
}

void __real_tn__ref_open(tn_ctx *c, const char *name);
void __wrap_tn__ref_open(tn_ctx *c, const char *name);

void __wrap_tn__ref_open(tn_ctx *c, const char *name) {
  const char *folder = getenv("TEST_TEXTS");
  __real_tn__ref_open(c, name);
  tn__device *d = tn__device_get(c, tn__device_count(c) - 1);
  if (!folder || !*folder || !d->group) return;
  if (!texts.folder) {
    wake_nvrtc();
    atexit(report);
  }
  texts.folder = folder;
  texts.real = d->ops;
  texts.ops = *d->ops;
  texts.ops.compile = compile;
  d->ops = &texts.ops;
}
