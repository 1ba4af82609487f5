/* Times Tenet on the workloads of `bench/run`, and the machine's own limits beside them.
 *
 *   bench [--threads N] [--seconds S] [NAME...]     each named workload, or all: one line of JSON each, with all its
 *   samples
 *   bench --first-step                              one training step from process start, for bench/run to time
 *   bench --cblas                                   which CBLAS stands beside Tenet, and for which processor
 *
 * peers.py runs the same workloads on the same numbers; "check" is a weighted sum of a workload's first result, by
 * which bench/run sees that both computed the same thing. */
#include "tenet/tenet.h"
#include <cblas.h>
#include <math.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

extern void openblas_set_num_threads(int n) __attribute__((weak));
extern char *openblas_get_config(void) __attribute__((weak));

enum { MAX_SAMPLES = 400, MIN_SAMPLES = 5, MAX_THREADS = 256 };

typedef struct bench {
  tn_ctx *ctx;
  tn_params *params;
  tn_optim *optim;
  int threads;
  double seconds;
  uint32_t seed; /* of the next array, so that every array of a workload differs */
} bench;

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Element i of array `seed`: evenly spread over -1..1, and the same in peers.py. */
static double spread(uint32_t seed, int64_t i) {
  uint32_t bits = (uint32_t)i * 2654435761u + seed * 40503u * 65537u;
  return (double)(bits >> 8) / 8388608.0 - 1.0;
}

static void *allocate(size_t bytes) {
  void *p = aligned_alloc(64, (bytes + 63) / 64 * 64);
  if (!p) {
    fprintf(stderr, "bench: out of memory\n");
    exit(1);
  }
  return p;
}

static int64_t count(const tn_dim *shape, int rank) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  return n;
}

static float *spread_floats(bench *b, int64_t n, double scale) {
  float *v = allocate((size_t)n * sizeof *v);
  uint32_t seed = ++b->seed;
  for (int64_t i = 0; i < n; i++) v[i] = (float)(scale * spread(seed, i));
  return v;
}

static tn_tensor *array(bench *b, double scale, const tn_dim *shape, int rank) {
  float *v = spread_floats(b, count(shape, rank), scale);
  tn_tensor *t = tn_from(b->ctx, TN_F32, shape, rank, v);
  free(v);
  return t;
}

static tn_tensor *labels(bench *b, int64_t n) {
  int32_t *v = allocate((size_t)n * sizeof *v);
  for (int64_t i = 0; i < n; i++) v[i] = (int32_t)(i * 7 % 10);
  tn_tensor *t = tn_from(b->ctx, TN_I32, &n, 1, v);
  free(v);
  return t;
}

/* The sum of |v[i]| with weights between 1/2 and 3/2. */
static double weigh(const float *v, int64_t n) {
  double sum = 0;
  for (int64_t i = 0; i < n; i++) sum += fabs((double)v[i]) * (1 + spread(0, i) / 2);
  return sum;
}

/* ---- time -------------------------------------------------------------------------------------------------------- */

typedef struct samples {
  int n, inner; /* a sample is the mean of `inner` runs */
  double ms[MAX_SAMPLES];
} samples;

typedef void run_fn(void *arg);

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static double time_runs(run_fn *run, void *arg, int n) {
  double start = now_ms();
  for (int i = 0; i < n; i++) run(arg);
  return (now_ms() - start) / n;
}

/* Warms up, and finds how many runs make a sample that the clock resolves well. */
static void warm_up(samples *s, run_fn *run, void *arg) {
  s->n = 0;
  run(arg);
  double once = fmin(time_runs(run, arg, 1), time_runs(run, arg, 1));
  s->inner = once > 0.2 ? 1 : (int)(0.2 / fmax(once, 1e-5)) + 1;
}

/* Samples `n` things by turns, so that all of them see the same machine. */
static void sample(const bench *b, int n, samples *const *s, run_fn *const *run, void *const *arg) {
  for (int i = 0; i < n; i++) warm_up(s[i], run[i], arg[i]);
  double start = now_ms();
  while (s[0]->n < MAX_SAMPLES && (s[0]->n < MIN_SAMPLES || now_ms() - start < b->seconds * 1e3 * n))
    for (int i = 0; i < n; i++) s[i]->ms[s[i]->n++] = time_runs(run[i], arg[i], s[i]->inner);
}

static void report(const char *name, const char *who, double check, const samples *s) {
  printf("{\"name\": \"%s\", \"who\": \"%s\", \"check\": %.9g, \"ms\": [", name, who, check);
  for (int i = 0; i < s->n; i++) printf("%s%.6g", i ? ", " : "", s->ms[i]);
  printf("]}\n");
  fflush(stdout);
}

/* ---- the machine's limits ---------------------------------------------------------------------------------------- */

typedef uint64_t words __attribute__((vector_size(64), aligned(8), may_alias)); /* a cache line */

typedef struct sweep {
  uint64_t *from, *to; /* to = NULL: only read */
  size_t words;        /* per thread */
  int threads;
  uint64_t sum[MAX_THREADS * 8]; /* a cache line each */
} sweep;

typedef struct sweep_part {
  sweep *all;
  int thread;
} sweep_part;

static void *sweep_slice(void *arg) {
  const sweep_part *part = arg;
  const sweep *all = part->all;
  const uint64_t *from = all->from + all->words * (size_t)part->thread;
  if (all->to) memcpy(all->to + all->words * (size_t)part->thread, from, all->words * sizeof *from);
  else {
    const words *line = (const words *)(const void *)from;
    words sum[2] = {{0}};
    for (size_t i = 0; i + 1 < all->words / 8; i += 2) sum[0] += line[i], sum[1] += line[i + 1];
    sum[0] += sum[1];
    part->all->sum[part->thread * 8] = sum[0][0] + sum[0][7];
  }
  return NULL;
}

static void run_sweep(void *arg) {
  sweep *all = arg;
  pthread_t thread[MAX_THREADS];
  sweep_part part[MAX_THREADS];
  for (int i = 0; i < all->threads; i++) {
    part[i] = (sweep_part){all, i};
    if (i && pthread_create(&thread[i], NULL, sweep_slice, &part[i])) exit(1);
  }
  sweep_slice(&part[0]);
  for (int i = 1; i < all->threads; i++) pthread_join(thread[i], NULL);
}

static void bench_sweep(bench *b, const char *name, const int64_t *mib, bool copy) {
  size_t bytes = (size_t)mib[0] << 20;
  sweep all = {.threads = b->threads, .words = bytes / sizeof(uint64_t) / (size_t)b->threads};
  all.from = allocate(bytes);
  memset(all.from, 1, bytes);
  if (copy) memset(all.to = allocate(bytes), 1, bytes);
  samples s;
  sample(b, 1, (samples *[]){&s}, (run_fn *[]){run_sweep}, (void *[]){&all});
  report(name, "machine", 0, &s);
  free(all.from);
  free(all.to);
}

static void bench_read(bench *b, const char *name, const int64_t *mib) { bench_sweep(b, name, mib, false); }
static void bench_copy(bench *b, const char *name, const int64_t *mib) { bench_sweep(b, name, mib, true); }

/* ---- Tenet: what a workload computes ----------------------------------------------------------------------------- */

typedef tn_tensor *build_fn(bench *b, const int64_t *size);

static tn_tensor *build_gelu(bench *b, const int64_t *size) {
  tn_tensor *x = array(b, 4, size, 1);
  return tn_add_scalar(tn_gelu_tanh(tn_add_scalar(tn_mul_scalar(x, 1.5), 0.25)), 0.125);
}

static tn_tensor *build_softmax(bench *b, const int64_t *size) { return tn_softmax(array(b, 4, size, 2), -1); }

static tn_tensor *build_layer_norm(bench *b, const int64_t *size) {
  tn_tensor *x = array(b, 4, size, 2), *gamma = array(b, 1, size + 1, 1), *beta = array(b, 1, size + 1, 1);
  return tn_layer_norm(x, 1, gamma, beta, 1e-5);
}

static tn_tensor *build_sum(bench *b, const int64_t *size) {
  return tn_sum(tn_add_scalar(array(b, 1, size, 2), 1), NULL, 0, false);
}

static tn_tensor *build_column_sum(bench *b, const int64_t *size) {
  return tn_sum(array(b, 1, size, 2), (int[]){0}, 1, false);
}

static tn_tensor *build_matmul(bench *b, const int64_t *size) {
  tn_tensor *x = array(b, 1, (tn_dim[]){size[0], size[2]}, 2), *y = array(b, 1, (tn_dim[]){size[2], size[1]}, 2);
  return tn_matmul(x, y);
}

static tn_tensor *build_attention(bench *b, const int64_t *size) {
  tn_tensor *q = array(b, 4, size, 3), *k = array(b, 4, size, 3), *v = array(b, 1, size, 3);
  tn_tensor *scores = tn_mul_scalar(tn_matmul(q, tn_transpose(k, -1, -2)), 1 / sqrt((double)size[2]));
  return tn_matmul(tn_softmax(scores, -1), v);
}

static tn_tensor *build_add_one(bench *b, const int64_t *size) { return tn_add_scalar(array(b, 1, size, 1), 1); }

/* ---- Tenet: training steps --------------------------------------------------------------------------------------- */

typedef struct parameter {
  const char *name;
  int64_t fan_in;
  tn_dim shape[4];
  int rank;
} parameter;

static const parameter mlp_parameters[] = {
    {"w1", 784, {128, 784}, 2}, {"b1", 784, {128}, 1}, {"w2", 128, {10, 128}, 2}, {"b2", 128, {10}, 1}, {0},
};
static const parameter cnn_parameters[] = {
    {"c1", 9, {32, 1, 3, 3}, 4},  {"d1", 9, {32}, 1},     {"c2", 288, {64, 32, 3, 3}, 4}, {"d2", 288, {64}, 1},
    {"w1", 9216, {128, 9216}, 2}, {"b1", 9216, {128}, 1}, {"w2", 128, {10, 128}, 2},      {"b2", 128, {10}, 1}, {0},
};

static void open_training(bench *b, const parameter *p) {
  b->seed = 0;
  b->params = NULL;
  b->optim = NULL;
  if (!p) return;
  b->params = tn_params_open(b->ctx);
  for (; p->name; p++) tn_params_add(b->params, p->name, array(b, 1 / sqrt((double)p->fan_in), p->shape, p->rank));
  b->optim = tn_sgd(b->params, 0.01, 0, 0, false);
}

static void close_training(bench *b) {
  tn_optim_close(b->optim);
  tn_params_close(b->params);
}

static tn_tensor *get(const bench *b, const char *name) { return tn_params_get(b->params, name); }

/* Records the update of one step; gives the loss. */
static tn_tensor *descend(bench *b, tn_tensor *logits, int64_t n) {
  tn_tensor *grads[16], *loss = tn_cross_entropy(logits, labels(b, n));
  tn_grad(loss, tn_params_count(b->params), tn_params_tensors(b->params), grads);
  tn_optim_step(b->optim, grads);
  return loss;
}

/* A hidden layer and the output, whose parameters have the same names in both networks. */
static tn_tensor *classify(const bench *b, tn_tensor *x) {
  tn_tensor *h = tn_relu(tn_linear(x, get(b, "w1"), get(b, "b1")));
  return tn_linear(h, get(b, "w2"), get(b, "b2"));
}

static tn_tensor *build_mlp(bench *b, const int64_t *size) {
  tn_tensor *x = array(b, 1, (tn_dim[]){size[0], 784}, 2);
  return descend(b, classify(b, x), size[0]);
}

static tn_tensor *build_cnn(bench *b, const int64_t *size) {
  tn_tensor *x = array(b, 1, (tn_dim[]){size[0], 1, 28, 28}, 4);
  tn_tensor *h = tn_relu(tn_conv2d(x, get(b, "c1"), get(b, "d1"), NULL));
  h = tn_relu(tn_conv2d(h, get(b, "c2"), get(b, "d2"), NULL));
  return descend(b, classify(b, tn_flatten(tn_max_pool2d(h, 2, 2, NULL), 1, -1)), size[0]);
}

/* ---- Tenet: running it ------------------------------------------------------------------------------------------- */

static void run_program(void *arg) { (void)tn_program_run(arg); }

static bool failed(bench *b, const char *name) {
  const tn_error *e = tn_last_error(b->ctx);
  if (e->status == TN_OK) return false;
  fprintf(stderr, "bench: %s: %s: %s\n", name, tn_status_name(e->status), e->text);
  tn_clear_error(b->ctx);
  return true;
}

static tn_program *record(bench *b, build_fn *build, const int64_t *size) {
  tn_program *p = tn_program_begin(b->ctx);
  tn_scope(b->ctx) {
    tn_tensor *out = build(b, size);
    if (out) tn_program_output(p, "out", out);
  }
  tn_program_end(p);
  return p;
}

/* The weighted sum of the output of the first run. */
static double first_result(tn_program *p) {
  double check = 0;
  if (tn_program_run(p)) return check;
  tn_tensor *out = tn_program_result(p, "out");
  float *v = allocate(tn_nbytes(out));
  if (!tn_program_read(p, "out", v, tn_nbytes(out))) check = weigh(v, tn_numel(out));
  free(v);
  return check;
}

static void explain(tn_program *p, const char *name) {
  const char *dir = getenv("BENCH_EXPLAIN");
  if (!dir) return;
  char path[4096];
  snprintf(path, sizeof path, "%s/%s.txt", dir, name);
  FILE *f = fopen(path, "w");
  if (!f) return;
  tn_program_explain(p, f);
  fclose(f);
}

typedef struct product {
  const int64_t *size; /* m, n, k */
  float *a, *b, *c;
  int threads;
} product;

static void run_cblas(void *arg) {
  const product *g = arg;
  blasint m = (blasint)g->size[0], n = (blasint)g->size[1], k = (blasint)g->size[2];
  /* Tenet tells the library one; it costs nothing to tell */
  if (openblas_set_num_threads) openblas_set_num_threads(g->threads);
  cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1, g->a, k, g->b, n, 0, g->c, n);
}

typedef struct workload {
  const char *name;
  build_fn *build;
  int64_t size[3];
  const parameter *parameters; /* of a training step */
  bool beside_cblas;
  void (*machine)(bench *b, const char *name, const int64_t *mib);
} workload;

/* Times a product, then cblas_sgemm.  Not by turns: the library's threads spin for a while after each call, on Tenet's
 * cores. */
static void sample_beside_cblas(bench *b, const workload *w, tn_program *p, samples *ours) {
  const int64_t *size = w->size;
  samples theirs;
  b->seed = 0;
  float *x = spread_floats(b, size[0] * size[2], 1), *y = spread_floats(b, size[2] * size[1], 1);
  product g = {size, x, y, allocate((size_t)(size[0] * size[1]) * sizeof(float)), b->threads};
  nanosleep(&(struct timespec){.tv_nsec = 200000000}, NULL);
  sample(b, 1, (samples *[]){ours}, (run_fn *[]){run_program}, (void *[]){p});
  sample(b, 1, (samples *[]){&theirs}, (run_fn *[]){run_cblas}, (void *[]){&g});
  report(w->name, "cblas", weigh(g.c, size[0] * size[1]), &theirs);
  free(g.a);
  free(g.b);
  free(g.c);
}

static void bench_program(bench *b, const workload *w) {
  samples ours;
  tn_scope(b->ctx) {
    open_training(b, w->parameters);
    tn_program *p = record(b, w->build, w->size);
    explain(p, w->name);
    double check = first_result(p);
    if (failed(b, w->name)) ours.n = 0;
    else if (w->beside_cblas) sample_beside_cblas(b, w, p, &ours);
    else sample(b, 1, (samples *[]){&ours}, (run_fn *[]){run_program}, (void *[]){p});
    if (ours.n > 0 && !failed(b, w->name)) report(w->name, "tenet", check, &ours);
    tn_program_close(p);
    close_training(b);
  }
}

/* ---- the table --------------------------------------------------------------------------------------------------- */

static const workload table[] = {
    {.name = "copy_64M", .machine = bench_copy, .size = {64}},
    {.name = "copy_32M", .machine = bench_copy, .size = {32}},
    {.name = "read_32M", .machine = bench_read, .size = {32}},
    {.name = "gelu", .build = build_gelu, .size = {1 << 24}},
    {.name = "softmax", .build = build_softmax, .size = {8192, 1024}},
    {.name = "layer_norm", .build = build_layer_norm, .size = {8192, 1024}},
    {.name = "sum", .build = build_sum, .size = {8192, 1024}},
    {.name = "column_sum", .build = build_column_sum, .size = {8192, 1024}},
    {.name = "gemm_64", .build = build_matmul, .size = {64, 64, 64}, .beside_cblas = true},
    {.name = "gemm_128", .build = build_matmul, .size = {128, 128, 128}, .beside_cblas = true},
    {.name = "gemm_256", .build = build_matmul, .size = {256, 256, 256}, .beside_cblas = true},
    {.name = "gemm_512", .build = build_matmul, .size = {512, 512, 512}, .beside_cblas = true},
    {.name = "gemm_1024", .build = build_matmul, .size = {1024, 1024, 1024}, .beside_cblas = true},
    {.name = "gemm_2048", .build = build_matmul, .size = {2048, 2048, 2048}, .beside_cblas = true},
    {.name = "gemm_64x128x784", .build = build_matmul, .size = {64, 128, 784}, .beside_cblas = true},
    {.name = "attention", .build = build_attention, .size = {8, 512, 64}},
    {.name = "mlp_b64", .build = build_mlp, .size = {64}, .parameters = mlp_parameters},
    {.name = "mlp_b512", .build = build_mlp, .size = {512}, .parameters = mlp_parameters},
    {.name = "cnn_b64", .build = build_cnn, .size = {64}, .parameters = cnn_parameters},
    {.name = "replay", .build = build_add_one, .size = {16}},
};

static bool wanted(const char *name, int n, char **names) {
  for (int i = 0; i < n; i++)
    if (!strcmp(name, names[i])) return true;
  return n == 0;
}

static int first_step(bench *b) {
  double loss = 0;
  tn_scope(b->ctx) {
    open_training(b, mlp_parameters);
    tn_tensor *t = build_mlp(b, (int64_t[]){64});
    tn_optim_realize(b->optim, t);
    tn_item(t, &loss);
    close_training(b);
  }
  return failed(b, "first step") || loss == 0;
}

int main(int argc, char **argv) {
  bench b = {.threads = 2, .seconds = 1};
  bool first = false;
  int arg = 1;
  for (; arg < argc && !strncmp(argv[arg], "--", 2); arg++) {
    if (!strcmp(argv[arg], "--cblas")) return puts(openblas_get_config ? openblas_get_config() : "not OpenBLAS") < 0;
    if (!strcmp(argv[arg], "--first-step")) first = true;
    else if (!strcmp(argv[arg], "--threads") && arg + 1 < argc) b.threads = atoi(argv[++arg]);
    else if (!strcmp(argv[arg], "--seconds") && arg + 1 < argc) b.seconds = atof(argv[++arg]);
    else return fprintf(stderr, "bench: unknown option %s\n", argv[arg]), 2;
  }
  if (b.threads < 1 || b.threads > MAX_THREADS) return fprintf(stderr, "bench: threads: 1 to %d\n", MAX_THREADS), 2;
  b.ctx = tn_ctx_open(&(tn_options){.device = "cpu", .threads = b.threads});
  if (!b.ctx) return 1;
  int rc = 0;
  if (first) rc = first_step(&b);
  for (size_t i = 0; !first && i < sizeof table / sizeof *table; i++) {
    const workload *w = &table[i];
    if (!wanted(w->name, argc - arg, argv + arg)) continue;
    if (w->machine) w->machine(&b, w->name, w->size);
    else bench_program(&b, w);
  }
  tn_ctx_close(b.ctx);
  return rc;
}
