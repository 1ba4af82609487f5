/* What tools/mutate-code asks of a mutant of the compiler: programs of many kinds, each compiled for each kind of
 * device with every check that there is (TENET_VERIFY=strict, specs, the interpreter's bounds and races), and no value
 * looked at.  One line for each: what it was, "ok" or the error, and a hash of all text that was printed for the device
 * and of all that kernels and libraries were called with.  Where every hash is as before, the mutant changes nothing
 * that runs.
 *
 * Kernels for the processor are printed and checked, and compiled and run for one program only; those of a guise are
 * run by the interpreter.
 *
 * With a file's name nothing is checked, kernels for the processor are compiled and run, too, and what comes out goes
 * to that file, as doubles: of random graphs, whether it is what they may give.  So it is told which of the mutants
 * that nobody objected to are wrong. */
#include "backend/cuda/target.h"
#include "device/device.h"
#include "ir/eval.h"
#include "render/render.h"
#include "support/convolve.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* random graphs on each device; buffers of a context */
enum { GRAPHS = 48, BLOCKS = 1 << 16 };

/* ---- a device that is looked at ---------------------------------------------------------------------------------- */

static struct {
  const tn__device_ops *real;
  tn__device_ops ops;
  const tn__dialect *dialect;
  bool runs;
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

static void *look_alloc(tn__device *d, size_t size) {
  void *p = seen.real->alloc(d, size);
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

static tn__code *look_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  unit *u = calloc(1, sizeof *u);
  print_kernels(d->ctx, &(printing){d, kernels, n});
  u->n = n;
  for (uint32_t i = 0; i < n && i < 512; i++) u->nbuf[i] = kernels[i]->nbuf, u->nvar[i] = kernels[i]->nvar;
  if (seen.runs) u->code = seen.real->compile(d, kernels, n);
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
  (void)d;
  const int64_t numbers[] = {v->dtype, v->kind, v->channels_last, v->stride[0], v->stride[1], v->pad[0], v->pad[1],
                             v->dilation[0], v->dilation[1], v->beta > 0, v->beta < 0};
  add(numbers, sizeof numbers);
  add(v->size, sizeof v->size);
  for (int o = 0; o < 3; o++) add_pointer(v->operand[o]);
  convolve(v);
  return TN_OK;
}

static void look_at(tn__device *d, const char *name, bool convolves) {
  bool cuda = strstr(name, "sm_") != NULL, opencl = strstr(name, "opencl") != NULL;
  seen.dialect = cuda ? &tn__dialect_cuda : opencl ? &tn__dialect_opencl : &tn__dialect_c;
  seen.n = 0;
  seen.real = d->ops;
  seen.ops = *d->ops;
  seen.ops.alloc = look_alloc;
  seen.ops.free = look_free;
  seen.ops.compile = look_compile;
  seen.ops.release = look_release;
  seen.ops.launch = look_launch;
  if (d->ops->gemm) seen.ops.gemm = look_gemm;
  if (convolves) seen.ops.has_conv = convolve_floats, seen.ops.conv = look_conv;
  d->ops = &seen.ops;
}

/* ---- programs ---------------------------------------------------------------------------------------------------- */

static tn_tensor *numbers(tn_ctx *c, tn_dtype dtype, int rank, const tn_dim *shape, int64_t modulus) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  double *v = malloc((size_t)(n + 1) * sizeof *v);
  for (int64_t i = 0; i < n; i++) v[i] = (double)(i * 7919 % modulus);
  tn_tensor *t = tn_cast(tn_from(c, TN_F64, shape, rank, v), dtype);
  tn_realize(&t, 1);
  free(v);
  return t;
}
#define TENSOR(dtype, modulus, ...)                                                                                    \
  numbers(c, dtype, (int)(sizeof((tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim)), (tn_dim[]){__VA_ARGS__}, modulus)

enum { MOST = 8 };
typedef int (*program_fn)(tn_ctx *c, tn_tensor **out);

static int with_gradients(tn_tensor *y, int n, tn_tensor *const *x, tn_tensor **out) {
  tn_tensor *loss = tn_mean(tn_square(y), NULL, 0, false);
  out[0] = loss;
  return tn_grad(loss, n, x, out + 1) == TN_OK ? n + 1 : 1;
}

static int perceptron(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 5, 33, 20), *p[] = {TENSOR(TN_F32, 7, 20, 24), TENSOR(TN_F32, 3, 24),
                                                    TENSOR(TN_F32, 7, 24, 10), TENSOR(TN_F32, 3, 10)};
  tn_tensor *h = tn_relu(tn_add(tn_matmul(x, p[0]), p[1])), *y = tn_add(tn_matmul(h, p[2]), p[3]);
  out[0] = tn_cross_entropy(y, TENSOR(TN_I32, 10, 33));
  return tn_grad(out[0], 4, p, out + 1) == TN_OK ? 5 : 1;
}

static int convolutions(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 5, 2, 3, 9, 8), *p[] = {TENSOR(TN_F32, 7, 4, 3, 3, 3), TENSOR(TN_F32, 3, 4), x};
  tn_conv2d_options o = {.stride = {2, 1}, .padding = {1, 1}};
  return with_gradients(tn_max_pool2d(tn_conv2d(x, p[0], p[1], &o), 2, 2, NULL), 3, p, out);
}

static int norms(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_F32, 11, 70, 96), TENSOR(TN_F32, 3, 96), TENSOR(TN_F32, 5, 96)};
  return with_gradients(tn_softmax(tn_layer_norm(p[0], 1, p[1], p[2], 1e-5), 1), 3, p, out);
}

static int attention(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_F32, 5, 2, 17, 8), TENSOR(TN_F32, 7, 2, 17, 8), TENSOR(TN_F32, 3, 2, 17, 8)};
  tn_tensor *s = tn_mul_scalar(tn_matmul(p[0], tn_transpose(p[1], 1, 2)), 0.25);
  tn_tensor *mask = tn_tril(tn_ones(c, TN_F32, (tn_dim[]){17, 17}, 2), 0);
  s = tn_where(tn_gt_scalar(mask, 0), s, tn_full_like(s, -INFINITY));
  return with_gradients(tn_matmul(tn_softmax(s, 2), p[2]), 3, p, out);
}

static int places(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_F32, 5, 40, 6), TENSOR(TN_F32, 9, 200, 6)}, *at = TENSOR(TN_I32, 40, 200);
  tn_tensor *taken = tn_take(p[0], at, 0), *put = tn_index_add(p[0], 0, at, p[1]);
  out[0] = tn_scatter_add(TENSOR(TN_I32, 5, 90), 0, TENSOR(TN_I64, 13, 300), TENSOR(TN_I32, 7, 300));
  return 1 + with_gradients(tn_add(tn_sum(taken, NULL, 0, false), put), 2, p, out + 1);
}

static int sums(tn_ctx *c, tn_tensor **out) {
  int first = 0, second = 1;
  tn_tensor *x = TENSOR(TN_F32, 5, 700, 30), *y = TENSOR(TN_F16, 5, 3, 2000), *z = TENSOR(TN_I32, 9, 100000);
  out[0] = tn_sum(x, &first, 1, false);
  out[1] = tn_max(x, &second, 1, true);
  out[2] = tn_mean(y, &second, 1, false);
  out[3] = tn_sum(z, NULL, 0, false);
  out[4] = tn_argmax(x, 1, false);
  out[5] = tn_prod(tn_cast(x, TN_F64), &second, 1, false);
  out[6] = tn_prod(tn_mul(x, tn_slice(x, 0, INT64_MAX, INT64_MIN, -1)), &second, 1, false);
  return 7;
}

/* More than 32 bits count; printed and read back, as smaller ones compared, and not run. */
static int large(tn_ctx *c, tn_tensor **out) {
  tn_tensor *i = tn_arange(c, TN_I64, 0, 5e9, 1);
  out[0] = tn_max(tn_mul_scalar(i, 3), NULL, 0, false);
  return 1;
}

static int movements(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_F32, 5, 12, 10), *y = TENSOR(TN_F32, 7, 12, 10);
  tn_tensor *part[] = {x, y, tn_flip(x, NULL, 0), tn_mul_scalar(y, 2), tn_slice(x, 0, 1, 11, 3)};
  out[0] = tn_concatenate(part, 5, 0);
  out[1] = tn_pad(tn_transpose(x, 0, 1), (tn_dim[]){1, 2, 0, 3}, 4);
  out[2] = tn_sum(tn_unfold(y, 0, 3, 2, 2), (int[]){1}, 1, false);
  out[3] = tn_reshape(tn_expand(tn_unsqueeze(x, 1), (tn_dim[]){12, 3, 10}, 3), (tn_dim[]){36, 10}, 2);
  out[4] = tn_tril(tn_add(x, tn_slice(y, 0, INT64_MAX, INT64_MIN, -1)), 1);
  return 5;
}

static int halves(tn_ctx *c, tn_tensor **out) {
  tn_tensor *p[] = {TENSOR(TN_BF16, 5, 130, 64), TENSOR(TN_BF16, 3, 64, 66)}, *q = TENSOR(TN_F16, 5, 65, 70);
  tn_tensor *y = tn_gelu_tanh(tn_matmul(p[0], p[1]));
  out[0] = tn_tanh(tn_exp(tn_mul_scalar(q, 0.1)));
  return 1 + with_gradients(y, 2, p, out + 1);
}

static int integers(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = TENSOR(TN_I32, 100, 300), *y = TENSOR(TN_U8, 250, 300), *z = TENSOR(TN_I64, 9, 300);
  out[0] = tn_floordiv(x, tn_sub_scalar(x, 50));
  out[1] = tn_mod(tn_neg(x), tn_add_scalar(x, 3));
  out[2] = tn_shl(z, tn_bitwise_and(z, tn_full_like(z, 7)));
  out[3] = tn_pow(z, tn_full_like(z, 3));
  out[4] = tn_cast(y, TN_F32);
  out[5] = tn_where(tn_gt_scalar(x, 10), x, tn_cast(y, TN_I32));
  return 6;
}

static const struct {
  const char *name;
  program_fn fn;
} programs[] = {{"perceptron", perceptron}, {"convolutions", convolutions}, {"norms", norms}, {"attention", attention},
                {"places", places},         {"sums", sums},                 {"movements", movements},
                {"halves", halves},         {"integers", integers},         {"large", large}};
enum { PROGRAMS = sizeof programs / sizeof *programs };

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

static void realize(tn_ctx *c, program_fn fn) {
  tn_scope(c) {
    tn_tensor *out[MOST + 2] = {0};
    int n = fn(c, out);
    if (tn_realize(out, n) == TN_OK && n > 0) tn_realize(out, n);
    for (int i = 0; seen.values && i < n; i++) keep_values(out[i]);
  }
}

/* A training step of its own state, twice, at two sizes. */
static void step(tn_ctx *c) {
  tn_scope(c) {
    tn_dim rows = tn_dim_var(c, "B", 1, 40);
    tn_tensor *w = tn_keep(TENSOR(TN_F32, 7, 12, 5)), *bias = tn_keep(TENSOR(TN_F32, 3, 5)), *g[2];
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){rows, 12}, 2);
    tn_tensor *t = tn_program_input(p, "t", TN_I32, &rows, 1), *wrt[] = {w, bias};
    tn_tensor *loss = tn_cross_entropy(tn_add(tn_matmul(x, w), bias), t);
    tn_grad(loss, 2, wrt, g);
    tn_assign(w, tn_sub(w, tn_mul_scalar(g[0], 0.1)));
    tn_assign(bias, tn_sub(bias, tn_mul_scalar(g[1], 0.1)));
    tn_program_output(p, "loss", loss);
    tn_program_end(p);
    for (tn_dim n = 7; n < 40 && tn_last_error(c)->status == TN_OK; n += 13) {
      tn_program_bind(p, "x", TENSOR(TN_F32, 5, n, 12));
      tn_program_bind(p, "t", TENSOR(TN_I32, 5, n));
      for (int k = 0; k < 3; k++) tn_program_run(p);
    }
    tn_program_close(p);
    if (seen.values) keep_values(w), keep_values(bias);
    tn_release(w);
    tn_release(bias);
  }
}

/* Inputs that are written where they stand, at sizes that come back; now and then a result is kept, and the next run
 * has another place for it. */
static void stream(tn_ctx *c) {
  static const tn_dim rows[] = {33, 33, 33, 20, 20, 20, 33, 33, 33};
  static float data[33 * 12];
  for (int i = 0; i < 33 * 12; i++) data[i] = (float)(i * 7919 % 11);
  tn_scope(c) {
    tn_dim n = tn_dim_var(c, "N", 1, 40);
    tn_tensor *w = TENSOR(TN_F32, 7, 12, 5);
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){n, 12}, 2), *y = tn_softmax(tn_matmul(x, w), 1);
    tn_program_output(p, "y", y);
    tn_program_output(p, "sums", tn_sum(tn_mul(y, tn_flip(y, NULL, 0)), (int[]){0}, 1, false));
    tn_program_output(p, "squares", tn_square(x));
    tn_program_end(p);
    for (size_t i = 0; i < sizeof rows / sizeof *rows && tn_last_error(c)->status == TN_OK; i++) {
      tn_program_write(p, "x", (tn_dim[]){rows[i], 12}, 2, data, (size_t)rows[i] * 12 * sizeof *data);
      tn_program_run(p);
      tn_tensor *kept = i == 5 || i == 7 ? tn_program_result(p, "sums") : NULL;
      if (seen.values && kept) keep_values(kept);
    }
    tn_program_close(p);
  }
}

static void assign(tn_ctx *c) {
  tn_scope(c) {
    tn_tensor *x = TENSOR(TN_F32, 5, 8, 9), *y = TENSOR(TN_F32, 7, 8, 9);
    tn_assign(tn_slice(x, 0, 1, 7, 2), tn_mul_scalar(tn_slice(y, 0, 1, 4, 1), 2));
    tn_tensor *z = tn_add(x, y);
    tn_assign(x, tn_transpose(tn_reshape(y, (tn_dim[]){9, 8}, 2), 0, 1));
    tn_realize((tn_tensor *[]){z, x}, 2);
    if (seen.values) keep_values(z), keep_values(x);
  }
}

static void run_graph(tn_ctx *c, uint64_t seed) {
  char why[512];
  graph g;
  static const graph_size sizes[] = {
      {.nodes = 16, .outputs = 4, .longest = 8, .elements = 300, .work = 3000, .rank = 5},
      {.nodes = 12, .outputs = 3, .longest = 150, .elements = 2000, .work = 8000, .rank = 4},
      {.nodes = 12, .outputs = 3, .longest = 8, .elements = 2000, .work = 8000, .rank = 4, .symbolic = 13}};
  graph_dice d = {.state = seed << 8};
  if (!graph_random(c, &d, &sizes[seed % 4 == 3 ? 2 : seed % 2], &g)) return;
  tn_clear_error(c);
  if (seen.values) keep_number(graph_agrees_always(c, &g, why, sizeof why));
  else graph_run(c, &g, why, sizeof why);
  graph_free(c, &g);
}

static void drive(const char *device, tn_mode mode, bool convolves) {
  tn_ctx *c = tn_ctx_open(
      &(tn_options){.device = device, .mode = mode, .quiet = 1, .verify = seen.values ? NULL : "strict",
                    .cache_dir = "", .threads = 2});
  if (!c) {
    printf("%s|%d|open|0|cannot be opened\n", device, (int)mode);
    return;
  }
  look_at(tn__device_get(c, tn__device_find(c, device)), device, convolves);
  seen.hash = 0xcbf29ce484222325u;
  bool always = seen.values || strncmp(device, "ref", 3) == 0;
  for (int i = 0; i < PROGRAMS; i++) {
    if (programs[i].fn == large && always) continue;
    seen.runs = always || (i == 0 && mode == TN_MODE_DEFAULT);
    realize(c, programs[i].fn);
    say(c, device, (int)mode, programs[i].name);
  }
  seen.runs = always;
  step(c);
  say(c, device, (int)mode, "step");
  stream(c);
  say(c, device, (int)mode, "stream");
  assign(c);
  say(c, device, (int)mode, "assign");
  for (uint64_t seed = 0; seed < GRAPHS; seed++) {
    char name[32];
    snprintf(name, sizeof name, "graph %d", (int)seed);
    run_graph(c, seed);
    say(c, device, (int)mode, name);
  }
  tn_ctx_close(c);
}

/* Without arguments all; FILE: values to there; else DEVICE MODE. */
int main(int argc, char **argv) {
  static const struct {
    const char *device;
    tn_mode mode;
    bool convolves; /* by a library */
  } all[] = {{"cpu", TN_MODE_DEFAULT, false},    {"ref:sm_90", TN_MODE_DEFAULT, false},
             {"ref", TN_MODE_DEFAULT, false},    {"ref:opencl", TN_MODE_DEFAULT, false},
             {"cpu", TN_MODE_STRICT, false},     {"cpu", TN_MODE_FAST, false},
             {"ref:sm_80", TN_MODE_STRICT, false}, {"ref:sm_80", TN_MODE_DEFAULT, true}};
  setenv("TENET_RACES", "1", 0);
  seen.values = argc == 2 ? fopen(argv[1], "wb") : NULL;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++)
    if (argc < 3 || (!strcmp(argv[1], all[i].device) && atoi(argv[2]) == (int)all[i].mode))
      drive(all[i].device, all[i].mode, all[i].convolves);
  return seen.values ? fclose(seen.values) : 0;
}
