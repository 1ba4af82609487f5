/* Tenet's side of bench/gpu_run: times workloads on one device.
 *
 *   gpu [--device NAME]                 answers jobs; NAME is cuda:0, or what $TENET_DEVICE says
 *   gpu [--device NAME] --first-step    a context and one training step, after the driver's own initialisation
 *   gpu [--device NAME] --devices       what `tenet devices` asks for, likewise
 *
 * A job is a line "NAME VARIANT KIND DTYPE SECONDS INNER SIZE..." on standard input; the answer a line of JSON, {"ms":
 * [...], "check": x} or {"error": "..."}.  A sample is the mean of INNER runs (0: as many as make a good one), between
 * two waits for the device.  A job with the name of the one before goes on with what that one has set up.
 *
 * peers_gpu.py answers the same jobs on the same numbers; "check" is a weighted sum over some elements of a workload's
 * first result, by which gpu_run sees that all computed the same thing. */
#include "tenet/tenet.h"
#include <dlfcn.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

enum {
  MAX_SAMPLES = 400,
  MIN_SAMPLES = 5,
  MAX_SIZES = 8,
  MAX_OPERANDS = 4,
  MAX_RESULTS = 4,
  MAX_PARAMETERS = 16,
  STAGES = 2,
  MAX_SETS = 8,
  SAMPLED = 4096
};

static const double sample_ms = 5;       /* the least a sample takes: the wait at its end is then noise */
static const double warm_ms = 30;
/* operands below that are rotated: no cache holds them from one run to the next */
static const double cache_bytes = 128e6;

typedef struct gpu gpu;
/* Builds the graph of one stage; gives its results and how many there are. */
typedef int build_fn(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out);

typedef struct operand {
  double scale, shift; /* values are spread over -scale..scale, then shifted */
  const char *axes;    /* one size each, by its place in the job */
} operand;

typedef struct kind {
  const char *name;
  operand in[MAX_OPERANDS];
  build_fn *stage[STAGES]; /* run one after the other, each a program of its own */
  const operand *parameters; /* of a training step: scaled by 1/sqrt(scale) */
  bool adam;
} kind;

typedef struct job {
  char name[64], kind[32], dtype[8];
  double seconds;
  int inner, nsizes;
  tn_dim size[MAX_SIZES];
} job;

struct gpu {
  tn_options options;
  tn_ctx *ctx;
  char prepared[64]; /* the job whose programs these are; "": none */
  tn_program *program[MAX_SETS][STAGES];
  int sets, at; /* the set to run next */
  tn_params *params;
  tn_optim *optim;
  double check;
};

/* ---- numbers ----------------------------------------------------------------------------------------------------- */

/* Element i of array `seed` is evenly spread over -1..1, and the same in peers_gpu.py.  Made on the device. */
static tn_tensor *spread(gpu *g, uint32_t seed, double scale, double shift, tn_dtype dtype, const tn_dim *shape,
                         int rank) {
  tn_dim n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  tn_tensor *bits = tn_add_scalar(tn_mul_scalar(tn_arange(g->ctx, TN_U32, 0, (double)n, 1), 2654435761.0),
                                  (double)(uint32_t)(seed * 40503u * 65537u));
  tn_tensor *x = tn_cast(tn_floordiv_scalar(bits, 256), TN_F32);
  x = tn_add_scalar(tn_mul_scalar(tn_sub_scalar(tn_mul_scalar(x, 1.0 / 8388608), 1), scale), shift);
  return tn_reshape(tn_cast(x, dtype), shape, rank);
}

static double spread_at(uint32_t i) { return (double)((i * 2654435761u) >> 8) / 8388608.0 - 1.0; }

static tn_tensor *labels(gpu *g, tn_dim n) {
  return tn_mod_scalar(tn_mul_scalar(tn_arange(g->ctx, TN_I32, 0, (double)n, 1), 7), 10);
}

static double element(const char *data, tn_dtype dtype, size_t i) {
  float f = 0;
  uint16_t half;
  if (dtype == TN_F32) memcpy(&f, data + 4 * i, 4);
  else {
    memcpy(&half, data + 2 * i, 2);
    uint32_t word = (uint32_t)half << 16; /* bf16 */
    memcpy(&f, &word, 4);
  }
  return f;
}

/* The sum of |v[i]| over at most SAMPLED evenly spaced elements, with weights between 1/2 and 3/2. */
static double weigh(gpu *g, tn_program *p) {
  double sum = 0;
  tn_scope(g->ctx) {
    tn_tensor *out = tn_program_result(p, "0");
    size_t bytes = tn_nbytes(out), n = bytes ? (size_t)tn_numel(out) : 0, step = n > SAMPLED ? n / SAMPLED : 1;
    char *data = malloc(bytes + 1);
    if (data && tn_program_read(p, "0", data, bytes) == TN_OK)
      for (size_t i = 0; i * step < n && i < SAMPLED; i++)
        sum += fabs(element(data, tn_dtype_of(out), i * step)) * (1 + spread_at((uint32_t)i) / 2);
    free(data);
  }
  return sum;
}

/* ---- what the workloads compute ---------------------------------------------------------------------------------- */

static int build_chain(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g, (void)size;
  out[0] = tn_add(tn_gelu_tanh(tn_add(tn_mul(in[0], in[1]), in[2])), in[3]);
  return 1;
}

static int build_sum(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g, (void)size;
  out[0] = tn_sum(in[0], NULL, 0, false);
  return 1;
}

static int build_column_sum(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g, (void)size;
  out[0] = tn_sum(in[0], (int[]){0}, 1, false);
  return 1;
}

static int build_softmax(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g, (void)size;
  out[0] = tn_softmax(in[0], -1);
  return 1;
}

static int build_layer_norm(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g, (void)size;
  out[0] = tn_layer_norm(in[0], 1, in[1], in[2], 1e-5);
  return 1;
}

static int build_layer_norm_backward(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  tn_tensor *y;
  build_layer_norm(g, size, in, &y);
  tn_vjp(y, in[3], 3, in, out);
  return 3;
}

static int build_matmul(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g, (void)size;
  out[0] = tn_matmul(in[0], in[1]);
  return 1;
}

static int build_linear_gelu(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g, (void)size;
  out[0] = tn_gelu_tanh(tn_linear(in[0], in[1], in[2]));
  return 1;
}

/* Sizes: images, channels in, height and width, channels out, window, stride. */
static int build_conv(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g;
  int64_t pad = size[4] / 2, stride = size[5];
  out[0] =
      tn_relu(tn_conv2d(in[0], in[1], in[2], &(tn_conv2d_options){.stride = {stride, stride}, .padding = {pad, pad}}));
  return 1;
}

/* So with the channels last, in memory as well. */
static int build_conv_last(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  static const int first[] = {0, 3, 1, 2}, last[] = {0, 2, 3, 1};
  tn_tensor *given[] = {tn_permute(in[0], first, 4), tn_permute(in[1], first, 4), in[2]};
  build_conv(g, size, given, out);
  out[0] = tn_permute(out[0], last, 4);
  return 1;
}

/* Each addition is stored before the next one reads it: as many kernels as additions. */
static int build_adds(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)g;
  out[0] = in[0];
  const int axis = 0; /* flipped, each needs others' elements of the one before: no two of them make one kernel */
  for (tn_dim i = 0; i < size[0]; i++) out[0] = tn_contiguous(tn_add_scalar(tn_flip(out[0], &axis, 1), 1));
  return 1;
}

/* ---- training steps ---------------------------------------------------------------------------------------------- */

/* Parameters have fixed shapes, one digit or letter an axis. */
static const struct axis {
  char letter;
  tn_dim size;
} fixed_axes[] = {{'1', 1}, {'3', 3}, {'a', 10}, {'h', 128}, {'p', 784}, {'c', 32}, {'d', 64}, {'f', 9216}};

static const operand mlp_parameters[] = {{784, 0, "hp"}, {784, 0, "h"}, {128, 0, "ah"}, {128, 0, "a"}, {0, 0, NULL}};
static const operand cnn_parameters[] = {{9, 0, "c133"}, {9, 0, "c"},  {288, 0, "dc33"}, {288, 0, "d"}, {9216, 0, "hf"},
                                         {9216, 0, "h"}, {128, 0, "ah"}, {128, 0, "a"}, {0, 0, NULL}};

static tn_dim fixed_axis(char letter) {
  for (size_t i = 0; i < sizeof fixed_axes / sizeof *fixed_axes; i++)
    if (fixed_axes[i].letter == letter) return fixed_axes[i].size;
  return 0;
}

static void open_training(gpu *g, const kind *k) {
  g->params = tn_params_open(g->ctx);
  for (int i = 0; k->parameters[i].axes; i++) {
    const operand *p = &k->parameters[i];
    tn_dim shape[TN_MAX_RANK];
    int rank = (int)strlen(p->axes);
    char name[16];
    for (int a = 0; a < rank; a++) shape[a] = fixed_axis(p->axes[a]);
    snprintf(name, sizeof name, "p%d", i);
    tn_params_add(g->params, name, spread(g, (uint32_t)i + 1, 1 / sqrt(p->scale), 0, TN_F32, shape, rank));
  }
  g->optim = k->adam ? tn_adam(g->params, 1e-3, 0.9, 0.999, 1e-8, 0) : tn_sgd(g->params, 0.01, 0, 0, false);
}

/* The update of one step; gives the loss. */
static tn_tensor *descend(gpu *g, tn_tensor *logits, tn_tensor *expected) {
  tn_tensor *grads[MAX_PARAMETERS], *loss = tn_cross_entropy(logits, expected);
  tn_grad(loss, tn_params_count(g->params), tn_params_tensors(g->params), grads);
  tn_optim_step(g->optim, grads);
  return loss;
}

/* A hidden layer and the output: the last four parameters. */
static tn_tensor *classify(const gpu *g, tn_tensor *x) {
  tn_tensor *const *p = tn_params_tensors(g->params) + tn_params_count(g->params) - 4;
  return tn_linear(tn_relu(tn_linear(x, p[0], p[1])), p[2], p[3]);
}

static int build_mlp(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  (void)size;
  out[0] = descend(g, classify(g, in[0]), in[1]);
  return 1;
}

static int build_cnn(gpu *g, const tn_dim *size, tn_tensor *const *in, tn_tensor **out) {
  tn_tensor *const *p = tn_params_tensors(g->params);
  tn_tensor *h = tn_reshape(in[0], (tn_dim[]){size[0], 1, 28, 28}, 4);
  h = tn_relu(tn_conv2d(h, p[0], p[1], NULL));
  h = tn_relu(tn_conv2d(h, p[2], p[3], NULL));
  out[0] = descend(g, classify(g, tn_flatten(tn_max_pool2d(h, 2, 2, NULL), 1, -1)), in[1]);
  return 1;
}

static const kind kinds[] = {
    {.name = "chain", .in = {{1, 0, "0"}, {1, 0, "0"}, {1, 0, "0"}, {1, 0, "0"}}, .stage = {build_chain}},
    {.name = "sum", .in = {{1, 1, "0"}}, .stage = {build_sum}},
    {.name = "colsum", .in = {{1, 1, "01"}}, .stage = {build_column_sum}},
    {.name = "softmax", .in = {{4, 0, "01"}}, .stage = {build_softmax}},
    {.name = "layernorm", .in = {{4, 0, "01"}, {1, 0, "1"}, {1, 0, "1"}}, .stage = {build_layer_norm}},
    {.name = "layernorm_fb",
     .in = {{4, 0, "01"}, {1, 0, "1"}, {1, 0, "1"}, {1, 0, "01"}},
     .stage = {build_layer_norm, build_layer_norm_backward}},
    {.name = "matmul", .in = {{1, 0, "02"}, {1, 0, "21"}}, .stage = {build_matmul}},
    {.name = "linear_gelu", .in = {{1, 0, "02"}, {0.1, 0, "12"}, {1, 0, "1"}}, .stage = {build_linear_gelu}},
    {.name = "conv", .in = {{1, 0, "0122"}, {0.1, 0, "3144"}, {1, 0, "3"}}, .stage = {build_conv}},
    {.name = "conv_last", .in = {{1, 0, "0221"}, {0.1, 0, "3441"}, {1, 0, "3"}}, .stage = {build_conv_last}},
    {.name = "adds", .in = {{1, 0, "1"}}, .stage = {build_adds}},
    {.name = "mlp", .stage = {build_mlp}, .parameters = mlp_parameters},
    {.name = "cnn", .stage = {build_cnn}, .parameters = cnn_parameters, .adam = true},
};

static const kind *find_kind(const char *name) {
  for (size_t i = 0; i < sizeof kinds / sizeof *kinds; i++)
    if (!strcmp(kinds[i].name, name)) return &kinds[i];
  return NULL;
}

/* ---- setting up -------------------------------------------------------------------------------------------------- */

/* The operands of one set; gives their bytes. */
static double make_operands(gpu *g, const kind *k, const job *j, int set, tn_tensor **in) {
  tn_dtype dtype = strcmp(j->dtype, "bf16") ? TN_F32 : TN_BF16;
  double bytes = 0;
  int n = 0;
  for (; n < MAX_OPERANDS && k->in[n].axes; n++) {
    tn_dim shape[TN_MAX_RANK];
    int rank = (int)strlen(k->in[n].axes);
    for (int a = 0; a < rank; a++) shape[a] = j->size[k->in[n].axes[a] - '0'];
    in[n] = spread(g, (uint32_t)(set * 8 + n + 1), k->in[n].scale, k->in[n].shift, dtype, shape, rank);
    bytes += (double)tn_nbytes(in[n]);
  }
  if (k->parameters) {
    in[n++] = spread(g, 99, 1, 0, TN_F32, (tn_dim[]){j->size[0], 784}, 2);
    in[n++] = labels(g, j->size[0]);
    bytes = cache_bytes; /* one set: the parameters are the same in all */
  }
  tn_realize(in, n);
  return bytes;
}

static tn_program *record(gpu *g, const kind *k, const job *j, int stage, tn_tensor *const *in) {
  tn_program *p = tn_program_begin(g->ctx);
  tn_scope(g->ctx) {
    tn_tensor *out[MAX_RESULTS];
    int n = k->stage[stage](g, j->size, in, out);
    for (int i = 0; i < n; i++) tn_program_output(p, (const char *[]){"0", "1", "2", "3"}[i], out[i]);
  }
  tn_program_end(p);
  return p;
}

static bool failed(const gpu *g) { return tn_last_error(g->ctx)->status != TN_OK; }

static void forget(gpu *g) {
  if (!*g->prepared) return;
  for (int s = 0; s < g->sets; s++)
    for (int i = 0; i < STAGES; i++) tn_program_close(g->program[s][i]);
  tn_optim_close(g->optim);
  tn_params_close(g->params);
  memset(g->program, 0, sizeof g->program);
  g->optim = NULL;
  g->params = NULL;
  g->sets = g->at = 0;
  *g->prepared = 0;
  tn_scope_end(g->ctx);
}

static void prepare(gpu *g, const kind *k, const job *j) {
  double bytes = 0;
  forget(g);
  tn_scope_begin(g->ctx);
  strcpy(g->prepared, j->name);
  if (k->parameters) open_training(g, k);
  while (!failed(g) && g->sets < MAX_SETS && bytes < cache_bytes) {
    tn_tensor *in[MAX_OPERANDS];
    bytes += make_operands(g, k, j, g->sets, in);
    for (int i = 0; i < STAGES && k->stage[i] && !failed(g); i++) g->program[g->sets][i] = record(g, k, j, i, in);
    g->sets++;
  }
  if (failed(g)) return;
  for (int i = 0; i < STAGES && g->program[0][i]; i++) tn_program_run(g->program[0][i]);
  g->check = weigh(g, g->program[0][0]);
}

/* ---- timing ------------------------------------------------------------------------------------------------------ */

static double now_ms(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec * 1e3 + (double)t.tv_nsec / 1e6;
}

static void run_once(gpu *g) {
  for (int i = 0; i < STAGES && g->program[g->at][i]; i++) tn_program_run(g->program[g->at][i]);
  g->at = (g->at + 1) % g->sets;
}

static double time_runs(gpu *g, int n) {
  double start = now_ms();
  for (int i = 0; i < n; i++) run_once(g);
  tn_device_sync(g->ctx, NULL);
  return (now_ms() - start) / n;
}

static void measure(gpu *g, const job *j) {
  double ms[MAX_SAMPLES], start = now_ms();
  int n = 0, inner = j->inner;
  time_runs(g, 4 * g->sets); /* the first runs of a program record it */
  while (now_ms() - start < warm_ms && !failed(g)) time_runs(g, g->sets);
  if (!inner) inner = (int)(sample_ms / fmax(time_runs(g, g->sets), 1e-5)) + 1;
  start = now_ms();
  while (n < MAX_SAMPLES && (n < MIN_SAMPLES || now_ms() - start < j->seconds * 1e3) && !failed(g))
    ms[n++] = time_runs(g, inner);
  if (failed(g)) return;
  printf("{\"check\": %.9g, \"inner\": %d, \"ms\": [", g->check, inner);
  for (int i = 0; i < n; i++) printf("%s%.6g", i ? ", " : "", ms[i]);
  printf("]}\n");
}

/* ---- jobs -------------------------------------------------------------------------------------------------------- */

static void refuse(const char *text) {
  printf("{\"error\": \"");
  for (; *text; text++) {
    if (*text == '"' || *text == '\\') putchar('\\');
    putchar((unsigned char)*text < ' ' ? ' ' : *text);
  }
  printf("\"}\n");
}

static bool parse(const char *line, job *j) {
  int at = 0, used;
  *j = (job){0};
  if (sscanf(line, "%63s %*s %31s %7s %lf %d%n", j->name, j->kind, j->dtype, &j->seconds, &j->inner, &at) != 5)
    return false;
  for (long long size; j->nsizes < MAX_SIZES && sscanf(line + at, "%lld%n", &size, &used) == 1; at += used)
    j->size[j->nsizes++] = size;
  return j->nsizes > 0;
}

/* tf32 is an option of contexts. */
static bool allow_tf32(gpu *g, int tf32) {
  if (g->ctx && g->options.tf32 == tf32) return true;
  forget(g);
  if (g->ctx) tn_ctx_close(g->ctx);
  g->options.tf32 = tf32;
  return (g->ctx = tn_ctx_open(&g->options));
}

static void answer(gpu *g, const char *line) {
  job j;
  if (!parse(line, &j)) return refuse("not a job");
  const kind *k = find_kind(j.kind);
  if (!k) return refuse("no such kind of workload");
  if (!allow_tf32(g, !strcmp(j.dtype, "tf32"))) return refuse("no context");
  if (strcmp(g->prepared, j.name)) prepare(g, k, &j);
  if (!failed(g)) measure(g, &j);
  if (!failed(g)) return;
  refuse(tn_last_error(g->ctx)->text);
  tn_clear_error(g->ctx);
  forget(g);
  tn_clear_error(g->ctx);
}

/* ---- starts ------------------------------------------------------------------------------------------------------ */

/* What every program that uses the GPU must wait for: the driver's initialisation and its context on the device.
 * Milliseconds. */
static double start_driver(int number) {
  double start = now_ms();
  void *library = dlopen("libcuda.so.1", RTLD_NOW), *context;
  int (*init)(unsigned), (*retain)(void **, int);
  if (!library) return 0;
  *(void **)&init = dlsym(library, "cuInit");
  *(void **)&retain = dlsym(library, "cuDevicePrimaryCtxRetain");
  if (!init || !retain || init(0) || retain(&context, number)) return 0;
  return now_ms() - start;
}

static void first_step(gpu *g) {
  double loss = 0;
  const kind *k = find_kind("mlp");
  const job j = {.size = {64}, .dtype = "f32"};
  tn_scope(g->ctx) {
    tn_tensor *in[MAX_OPERANDS], *out[MAX_RESULTS];
    open_training(g, k);
    make_operands(g, k, &j, 0, in);
    build_mlp(g, j.size, in, out);
    tn_optim_realize(g->optim, out[0]);
    tn_item(out[0], &loss);
    tn_optim_close(g->optim);
    tn_params_close(g->params);
  }
  g->check = loss * (1 + spread_at(0) / 2); /* as weigh() would */
}

static void list_devices(gpu *g) {
  tn_device_info info;
  g->check = tn_device_count(g->ctx);
  for (int i = 0; i < (int)g->check; i++) tn_device_get_info(g->ctx, i, &info);
}

static int time_start(gpu *g, const tn_options *options, void (*what)(gpu *)) {
  int number = options->device && strlen(options->device) > 5 ? atoi(options->device + 5) : 0;
  double driver = options->device && strncmp(options->device, "cuda", 4) ? 0 : start_driver(number), start = now_ms();
  g->ctx = tn_ctx_open(options);
  if (!g->ctx) return 1;
  what(g);
  if (failed(g)) refuse(tn_last_error(g->ctx)->text);
  else printf("{\"driver\": %.4g, \"check\": %.9g, \"ms\": [%.6g]}\n", driver, g->check, now_ms() - start);
  tn_ctx_close(g->ctx);
  return 0;
}

int main(int argc, char **argv) {
  gpu g = {0};
  tn_options options = {.device = getenv("TENET_DEVICE")};
  void (*start)(gpu *) = NULL;
  char line[512];
  for (int i = 1; i < argc; i++) {
    if (!strcmp(argv[i], "--device") && i + 1 < argc) options.device = argv[++i];
    else if (!strcmp(argv[i], "--first-step")) start = first_step;
    else if (!strcmp(argv[i], "--devices")) start = list_devices;
    else return fprintf(stderr, "gpu: unknown option %s\n", argv[i]), 2;
  }
  if (start) return time_start(&g, &options, start);
  g.options = options;
  if (!allow_tf32(&g, 0)) return 1;
  printf("{\"version\": \"Tenet %s\"}\n", tn_version());
  for (fflush(stdout); fgets(line, sizeof line, stdin); fflush(stdout)) answer(&g, line);
  forget(&g);
  if (g.ctx) tn_ctx_close(g.ctx);
  return 0;
}
