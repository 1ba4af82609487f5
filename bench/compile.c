/* How long Tenet takes to compile long graphs, per step, at each of several lengths: the figure of a row is its time
 * per step over that of the row's least length, 1 where time is linear.
 *
 *   compile [DEVICE...]          every workload on each device (ref, ref:sm_90 and cpu)
 *   compile -w NAME DEVICE...    one of them
 *   compile -n STEPS ...         at this length only
 *
 * Time is that of the processor, this process and the compilers that it starts: what others do counts for little.
 * Nothing is read from a cache on disk. */
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>

enum { LENGTHS = 3, WIDTH = 8 };

static tn_ctx *ctx;

static double seconds(const struct timeval *t) { return (double)t->tv_sec + 1e-6 * (double)t->tv_usec; }

static double processor_time(void) {
  double sum = 0;
  for (int i = 0; i < 2; i++) {
    struct rusage u;
    getrusage(i ? RUSAGE_CHILDREN : RUSAGE_SELF, &u);
    sum += seconds(&u.ru_utime) + seconds(&u.ru_stime);
  }
  return sum;
}

static double wall_time(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + 1e-9 * (double)t.tv_nsec;
}

static void need(bool good) {
  if (good) return;
  fprintf(stderr, "compile: %s\n", tn_last_error(ctx)->text);
  exit(1);
}

/* ---- workloads: a program of n steps is recorded and compiled ---------------------------------------------------- */

static tn_tensor *state(int64_t rows, int64_t columns) {
  float *v = calloc((size_t)(rows * columns), sizeof *v);
  if (!v) exit(1);
  tn_tensor *t = tn_from(ctx, TN_F32, (tn_dim[]){rows, columns}, 2, v);
  free(v);
  need(t);
  return t;
}

/* A kernel for each step, all alike but for their buffers; one value that all of them read is computed, too */
static void record_chain(tn_program *p, int n) {
  tn_tensor *x = state(8, 8 * WIDTH), *shared = tn_exp(x);
  for (int i = 0; i < n; i++)
    x = tn_contiguous(tn_add(tn_mul_scalar(x, 0.9), tn_mul(shared, tn_mean(tn_tanh(x), (int[]){0}, 1, true))));
  need(!tn_program_output(p, "x", x));
}

/* A kernel for each step, each with a number of its own */
static void record_distinct(tn_program *p, int n) {
  tn_tensor *x = state(8, WIDTH);
  for (int i = 0; i < n; i++)
    x = tn_contiguous(tn_add_scalar(tn_sub(x, tn_mean(tn_tanh(x), (int[]){0}, 1, true)), 1.0 / (i + 2)));
  need(!tn_program_output(p, "x", x));
}

/* A product, and a kernel behind it, for each step */
static void record_layers(tn_program *p, int n) {
  tn_tensor *x = state(WIDTH, WIDTH), *w = state(WIDTH, WIDTH), *b = state(1, WIDTH);
  for (int i = 0; i < n; i++) x = tn_tanh(tn_add(tn_matmul(x, w), b));
  need(!tn_program_output(p, "x", x));
}

/* Steps that assign what the next one reads */
static void record_updates(tn_program *p, int n) {
  tn_tensor *x = state(8, WIDTH), *sum = state(1, WIDTH);
  for (int i = 0; i < n; i++) {
    need(!tn_assign(sum, tn_add(sum, tn_mean(tn_square(x), (int[]){0}, 1, true))));
    need(!tn_assign(x, tn_div(x, tn_add_scalar(tn_sqrt(sum), 1))));
  }
  need(!tn_program_output(p, "sum", sum));
}

/* The gradient of n rows, each looked at by itself */
static void record_selects(tn_program *p, int n) {
  tn_tensor *x = state(n, WIDTH), *h = tn_zeros(ctx, TN_F32, (tn_dim[]){WIDTH}, 1), *g;
  for (int i = 0; i < n; i++) h = tn_tanh(tn_add(h, tn_select(x, 0, i)));
  need(!tn_grad(tn_sum(h, NULL, 0, false), 1, &x, &g));
  need(!tn_program_output(p, "g", g));
}

/* An LSTM, unrolled, and its gradients */
static void record_lstm(tn_program *p, int n) {
  enum { BATCH = 32, IN = 32, HIDDEN = 64 };
  tn_tensor *w[] = {state(4 * HIDDEN, IN), state(4 * HIDDEN, HIDDEN), state(1, 4 * HIDDEN),
                    state(n * BATCH, IN)};
  tn_tensor *bias = tn_reshape(w[2], (tn_dim[]){4 * HIDDEN}, 1), *x = tn_reshape(w[3], (tn_dim[]){n, BATCH, IN}, 3);
  tn_tensor *h = tn_zeros(ctx, TN_F32, (tn_dim[]){BATCH, HIDDEN}, 2), *c = h, *gate[4], *g[4];
  for (int t = 0; t < n; t++) {
    tn_split(tn_add(tn_linear(tn_select(x, 0, t), w[0], bias), tn_linear(h, w[1], NULL)), 4, 1, gate);
    c = tn_add(tn_mul(tn_sigmoid(gate[1]), c), tn_mul(tn_sigmoid(gate[0]), tn_tanh(gate[2])));
    h = tn_mul(tn_sigmoid(gate[3]), tn_tanh(c));
  }
  need(!tn_grad(tn_mean(tn_square(h), NULL, 0, false), 4, w, g));
  const char *const name[] = {"input", "hidden", "bias", "x"};
  for (int i = 0; i < 4; i++) need(!tn_program_output(p, name[i], g[i]));
}

static const struct workload {
  const char *name;
  void (*record)(tn_program *p, int n);
  int length[LENGTHS];
} workloads[] = {
    {"chain", record_chain, {1000, 5000, 20000}},     {"distinct", record_distinct, {100, 1000, 4000}},
    {"layers", record_layers, {1000, 10000, 50000}},    {"updates", record_updates, {1000, 5000, 20000}},
    {"selects", record_selects, {100, 400, 1600}},     {"lstm", record_lstm, {100, 200, 400}},
};

/* ---- measuring --------------------------------------------------------------------------------------------------- */

static double measure(const struct workload *w, const char *device, int n, double first) {
  ctx = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .cache_dir = ""});
  if (!ctx) exit(1);
  double start = processor_time(), wall = wall_time();
  tn_program *p = tn_program_begin(ctx);
  need(p);
  tn_scope(ctx) w->record(p, n);
  double built = processor_time();
  need(!tn_program_end(p));
  double all = processor_time() - start;
  tn_stats stats;
  tn_program_info info;
  tn_ctx_stats(ctx, &stats);
  need(!tn_program_get_info(p, &info));
  double each = all / n;
  printf("%-9s %-10s %6d  %7.1f us a step, %5.2f of the first; recorded in %6.3f s, compiled in %7.3f s (%7.3f s of "
         "the clock in all); %d kernels in %llu texts, %d calls; %zu MiB\n",
         w->name, device, n, each * 1e6, first > 0 ? each / first : 1, built - start, all - (built - start),
         wall_time() - wall, info.kernels, (unsigned long long)stats.kernels_compiled, info.library_calls,
         stats.heap_peak >> 20);
  fflush(stdout);
  tn_ctx_close(ctx);
  return each;
}

int main(int argc, char **argv) {
  const char *const usual[] = {"ref", "ref:sm_90", "cpu"}, *only = NULL;
  const char *const *device = usual;
  int devices = 3, length = 0, arg = 1;
  for (; arg + 1 < argc && argv[arg][0] == '-'; arg += 2) {
    if (!strcmp(argv[arg], "-w")) only = argv[arg + 1];
    else if (!strcmp(argv[arg], "-n")) length = atoi(argv[arg + 1]);
    else return fprintf(stderr, "compile: unknown option %s\n", argv[arg]), 2;
  }
  if (arg < argc) {
    device = (const char *const *)argv + arg;
    devices = argc - arg;
  }
  for (size_t i = 0; i < sizeof workloads / sizeof *workloads; i++)
    for (int d = 0; d < devices; d++) {
      double first = 0;
      if (only && strcmp(only, workloads[i].name)) continue;
      for (int k = 0; k < (length ? 1 : LENGTHS); k++) {
        double each = measure(&workloads[i], device[d], length ? length : workloads[i].length[k], first);
        if (k == 0) first = each;
      }
    }
  return 0;
}
