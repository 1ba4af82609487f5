/* What tools/mutate-code asks of a mutant of the compiler: programs of many kinds, each compiled for each kind of
 * device with every check that there is (TENET_VERIFY=strict, specs, the interpreter's bounds and races), and no value
 * looked at.  One line for each: what it was, "ok" or the error, and a hash of all text that was printed for the device
 * and of all that kernels and libraries were called with.  Where every hash is as before, the mutant changes nothing
 * that runs.
 *
 * Kernels for the processor are printed and checked, and compiled and run for one program only, and where one relies
 * on what another writes; those of a guise are run by the interpreter.  With MUTATION_COMPILES in the environment it is
 * the processor alone, and all of its kernels are compiled and run.
 *
 * With a file's name nothing is checked, kernels for the processor are compiled and run, too, and what comes out goes
 * to that file, as doubles: of random graphs, whether it is what they may give.  So it is told which of the mutants
 * that nobody objected to are wrong. */
#include "backend/cuda/target.h"
#include "device/device.h"
#include "ir/eval.h"
#include "render/render.h"
#include "support/ledger.h"
#include "support/library.h"
#include "support/programs.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { BLOCKS = 1 << 16 }; /* buffers of a context */

/* ---- a device that is looked at ---------------------------------------------------------------------------------- */

static struct {
  const tn__device_ops *real;
  tn__device_ops ops;
  const tn__dialect *dialect;
  bool runs, compiles;
  FILE *values; /* NULL: nothing looks at them */
  uint64_t hash;
  struct {
    const char *at;
    size_t size;
  } block[BLOCKS];
  uint32_t n;
} seen;

static void add(const void *data, size_t n) {
  const unsigned char *p = data;
  for (size_t i = 0; i < n; i++) seen.hash = (seen.hash ^ p[i]) * 0x100000001b3u;
}

static void add_number(int64_t v) { add(&v, sizeof v); }

/* A pointer as the number of its buffer, and how far into it. */
static void add_pointer(const void *p) {
  for (uint32_t i = seen.n; i-- > 0;) {
    if ((const char *)p < seen.block[i].at || (const char *)p >= seen.block[i].at + seen.block[i].size) continue;
    add_number(i);
    add_number((const char *)p - seen.block[i].at);
    return;
  }
  add_number(-1);
}

/* What no kernel writes, as the processor's do not run, are different finite numbers of every dtype, the same in every
 * run: libraries' products of them are worked out again. */
static void *look_alloc(tn__device *d, size_t size) {
  char *p = seen.real->alloc(d, size);
  for (size_t i = 0; p && i < size; i++) p[i] = (char)(0x3c + (i * 2654435761u >> 13) % 4);
  if (p && seen.n < BLOCKS) {
    seen.block[seen.n].at = p;
    seen.block[seen.n++].size = size ? size : 1;
  }
  return p;
}

static void look_free(tn__device *d, void *p, size_t size) {
  for (uint32_t i = 0; i < seen.n; i++)
    if (seen.block[i].at == p) seen.block[i].size = 0; /* its place may be another's soon */
  seen.real->free(d, p, size);
}

typedef struct printing {
  tn__device *d;
  tn__kernel *const *kernels;
  uint32_t n;
} printing;

static void print_kernels(tn_ctx *c, void *arg) {
  const printing *p = arg;
  tn__sb text;
  tn__sb_init(&text, &c->scratch);
  tn__render_unit(c, &text, seen.dialect, p->kernels, p->n);
  add(tn__sb_str(&text), strlen(tn__sb_str(&text)));
}

/* How many buffers a launch has stands with the kernels, in the order in which they are compiled. */
typedef struct unit {
  tn__code *code; /* NULL: not to be run */
  uint32_t n, nbuf[512], nvar[512];
} unit;

/* Does one of them rely on memory that another of them writes?  Where schedules are validated that is looked at. */
static bool rely_on_memory(tn__kernel *const *kernels, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t r = 0; r < kernels[i]->nrequire; r++)
      if (kernels[i]->require[r]->ints[0] == REQ_PERMUTED) return true;
  return false;
}

static tn__code *look_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  unit *u = calloc(1, sizeof *u);
  print_kernels(d->ctx, &(printing){d, kernels, n});
  u->n = n;
  for (uint32_t i = 0; i < n && i < 512; i++) u->nbuf[i] = kernels[i]->nbuf, u->nvar[i] = kernels[i]->nvar;
  if (seen.runs || rely_on_memory(kernels, n)) u->code = seen.real->compile(d, kernels, n);
  return (tn__code *)(void *)u;
}

static void look_release(tn__device *d, tn__code *code) {
  unit *u = (unit *)(void *)code;
  if (u->code) seen.real->release(d, u->code);
  free(u);
}

static tn_status look_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                             const int64_t *var) {
  const unit *u = (const unit *)(void *)code;
  add_number(i);
  for (uint32_t k = 0; i < 512 && k < u->nvar[i]; k++) add_number(var[k]);
  for (uint32_t b = 0; i < 512 && b < u->nbuf[i]; b++) {
    add_pointer(buf[b]);
    add_number((int64_t)bytes[b]);
  }
  return u->code ? seen.real->launch(d, u->code, i, buf, bytes, var) : TN_OK;
}

static tn_status look_gemm(tn__device *d, const tn__product *g) {
  const int64_t numbers[] = {g->dtype, g->trans_a,  g->trans_b,  g->m,        g->n, g->k, g->batch,
                             g->lda,   g->ldb,      g->ldc,      g->stride_a, g->stride_b, g->stride_c,
                             g->after, g->beta > 0, g->beta < 0, g->row != NULL};
  add(numbers, sizeof numbers);
  add_pointer(g->a);
  add_pointer(g->b);
  add_pointer(g->c);
  if (g->row) add_pointer(g->row);
  return seen.real->gemm(d, g);
}

static tn_status look_conv(tn__device *d, const tn__conv_call *v) {
  const int64_t numbers[] = {v->dtype, v->kind, v->channels_last, v->stride[0], v->stride[1], v->pad[0], v->pad[1],
                             v->dilation[0], v->dilation[1], v->beta > 0, v->beta < 0};
  add(numbers, sizeof numbers);
  add(v->size, sizeof v->size);
  for (int o = 0; o < 3; o++) add_pointer(v->operand[o]);
  return seen.real->conv(d, v);
}

static void look_at(tn__device *d, const char *name, bool library) {
  bool cuda = strstr(name, "sm_") != NULL, opencl = strstr(name, "opencl") != NULL;
  seen.dialect = cuda ? &tn__dialect_cuda : opencl ? &tn__dialect_opencl : &tn__dialect_c;
  seen.n = 0;
  if (library) library_put(d);
  seen.real = d->ops;
  seen.ops = *d->ops;
  seen.ops.alloc = look_alloc;
  seen.ops.free = look_free;
  seen.ops.compile = look_compile;
  seen.ops.release = look_release;
  seen.ops.launch = look_launch;
  if (d->ops->gemm) seen.ops.gemm = look_gemm;
  if (d->ops->conv) seen.ops.conv = look_conv;
  d->ops = &seen.ops;
}

/* ---- ways to run ------------------------------------------------------------------------------------------------- */

static void say(tn_ctx *c, const char *device, int mode, const char *name) {
  char text[200] = "ok";
  if (tn_last_error(c)->status != TN_OK) snprintf(text, sizeof text, "%s", tn_last_error(c)->text);
  for (char *s = text; *s; s++)
    if (*s == '\n') *s = ' ';
  printf("%s|%d|%s|%016llx|%s\n", device, mode, name, (unsigned long long)seen.hash, text);
  fflush(stdout);
  tn_clear_error(c);
  seen.hash = 0xcbf29ce484222325u;
}

static void keep_number(double d) { fwrite(&d, sizeof d, 1, seen.values); }

static void keep_values(tn_tensor *t) {
  size_t n = tn_nbytes(t) / tn_dtype_size(tn_dtype_of(t));
  double *v = calloc(n + 1, sizeof *v);
  tn_tensor *wide = tn_cast(t, TN_F64);
  tn_status status = tn_read(wide, v, n * sizeof *v);
  keep_number(status);
  fwrite(v, sizeof *v, n, seen.values);
  free(v);
}

static void run_graph(tn_ctx *c, uint64_t seed) {
  char why[512];
  graph g;
  if (!program_random(c, seed, &g)) return;
  if (seen.values) keep_number(graph_agrees_always(c, &g, why, sizeof why));
  else graph_run(c, &g, why, sizeof why);
  graph_free(c, &g);
}

static void drive(const char *device, tn_mode mode, bool library) {
  tn_ctx *c = tn_ctx_open(
      &(tn_options){.device = device, .mode = mode, .quiet = 1, .verify = seen.values ? NULL : "strict",
                    .cache_dir = "", .threads = 2});
  if (!c) {
    printf("%s|%d|open|0|cannot be opened\n", device, (int)mode);
    return;
  }
  look_at(tn__device_get(c, tn__device_find(c, device)), device, library);
  seen.hash = 0xcbf29ce484222325u;
  bool always = seen.values || seen.compiles || strncmp(device, "ref", 3) == 0;
  for (int i = 0; i < program_count; i++) {
    const program *p = &program_list[i];
    if (p->large && always) continue;
    seen.runs = always || (i == 0 && mode == TN_MODE_DEFAULT);
    program_run(c, p, seen.values ? keep_values : NULL);
    say(c, device, (int)mode, p->name);
  }
  seen.runs = always;
  for (uint64_t seed = 0; seed < PROGRAM_GRAPHS; seed++) {
    char name[32];
    snprintf(name, sizeof name, "graph %d", (int)seed);
    run_graph(c, seed);
    say(c, device, (int)mode, name);
  }
  tn_ctx_close(c);
}

static void say_costs(void *to, const ledger_line *l) {
  char text[400];
  ledger_print(l, text, sizeof text);
  fprintf(to, "ledger||%s|%s\n", text, *l->error ? l->error : "ok");
  fflush(to);
}

/* Without arguments all; FILE: values to there; else DEVICE MODE, "ledger" among them. */
int main(int argc, char **argv) {
  static const struct {
    const char *device;
    tn_mode mode;
    bool library;
  } all[] = {{"cpu", TN_MODE_DEFAULT, false},    {"ref:sm_90", TN_MODE_DEFAULT, false},
             {"ref", TN_MODE_DEFAULT, false},    {"ref:opencl", TN_MODE_DEFAULT, false},
             {"cpu", TN_MODE_STRICT, false},     {"cpu", TN_MODE_FAST, false},
             {"ref:sm_80", TN_MODE_STRICT, false}, {"ref:sm_80", TN_MODE_DEFAULT, true}};
  setenv("TENET_RACES", "1", 0);
  seen.compiles = getenv("MUTATION_COMPILES");
  seen.values = argc == 2 && strcmp(argv[1], "ledger") ? fopen(argv[1], "wb") : NULL;
  if (argc == 2 && strcmp(argv[1], "ledger") && !seen.values) {
    perror(argv[1]);
    return 2;
  }
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    if (seen.compiles && strcmp(all[i].device, "cpu")) continue;
    if (argc < 2 || seen.values || (!strcmp(argv[1], all[i].device) && argc > 2 && atoi(argv[2]) == (int)all[i].mode))
      drive(all[i].device, all[i].mode, all[i].library);
  }
  if ((argc < 2 && !seen.compiles) || (argc > 1 && !strcmp(argv[1], "ledger"))) ledger_make(true, say_costs, stdout);
  return seen.values ? fclose(seen.values) : 0;
}
