/* tenet train mnist: from digits to weights, a loss curve and a picture of what was misread. */
#include "cli/args.h"
#include "cli/checkpoint.h"
#include "cli/commands.h"
#include "cli/mnist.h"
#include "cli/net.h"
#include "cli/report.h"
#include <errno.h>
#include <math.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

enum { TEST_BATCH = 250, SHOWN_MISREAD = 24, PATH_ROOM = 1024, MEASURED_STEPS = 20, DEMO_SECONDS = 180 };

static const double peak_rate = 1e-3;

typedef struct options {
  const char *model, *data, *device, *out, *resume;
  int64_t epochs, batch, seed, threads;
  bool demo;
} options;

#define OPTION(field) offsetof(options, field)
static const tn__arg_spec specs[] = {
    {"--model", ARG_TEXT, OPTION(model), 0, 0, "cnn|mlp", "the network (cnn)"},
    {"--epochs", ARG_NUMBER, OPTION(epochs), 1, 100000, "N", "passes over the training digits (cnn 3, mlp 8)"},
    {"--batch", ARG_NUMBER, OPTION(batch), 1, 60000, "N", "digits per step (64)"},
    {"--data", ARG_TEXT, OPTION(data), 0, 0, "DIR", "where the four files of MNIST are"},
    {"--device", ARG_TEXT, OPTION(device), 0, 0, "NAME", "see tenet devices"},
    {"--threads", ARG_NUMBER, OPTION(threads), 1, 256, "N", "threads (all cores)"},
    {"--seed", ARG_NUMBER, OPTION(seed), 0, INT64_MAX, "N", "equal seeds give equal losses (0)"},
    {"--out", ARG_TEXT, OPTION(out), 0, 0, "DIR", "where weights and pictures go (out; demo with --demo)"},
    {"--resume", ARG_TEXT, OPTION(resume), 0, 0, "FILE", "continue the run that wrote these weights"},
    {"--demo", ARG_FLAG, OPTION(demo), 0, 0, NULL, "one epoch, or as much of it as fits in a few minutes"},
};
enum { SPECS = sizeof specs / sizeof *specs };

void tn__command_train_help(void) { tn__args_help(specs, SPECS); }

typedef struct trainer {
  tn_ctx *ctx;
  const tn__net *net;
  tn__mnist data;
  tn__run run;
  const char *out;
  tn_params *params;
  tn_optim *opt;
  tn_program *train, *test;
  tn_batches *batches;
  float *loss;   /* of every step of this process */
  int64_t first; /* the step this process began with */
  bool demo, shrunk;
  double deadline; /* of the demo's training */
} trainer;

static volatile sig_atomic_t interrupted;
static double interrupted_at;
/* A second interruption ends at once, but not one right behind the first: timeout(1) and shells send two at a time, to
 * the process and to its group. */
static void on_interrupt(int sig) {
  double now = tn__seconds();
  if (!interrupted)
    interrupted_at = now;
  else if (now - interrupted_at > 0.5)
    signal(sig, SIG_DFL), raise(sig);
  interrupted = 1;
}

/* ---- setting up ---- */

static bool make_model(trainer *t) {
  tn_manual_seed(t->ctx, (uint64_t)t->run.seed);
  t->params = tn_params_open(t->ctx);
  tn_scope(t->ctx) t->net->init(t->params);
  if (tn_last_error(t->ctx)->status != TN_OK) return false;
  t->opt = tn_adam(t->params, peak_rate, 0.9, 0.999, 1e-8, 0);
  return t->opt != NULL;
}

static bool compile(trainer *t) {
  double start = tn__seconds();
  t->train = tn__net_train_step(t->net, t->params, t->opt, t->run.batch);
  t->test = t->train ? tn__net_test_step(t->net, t->params, TEST_BATCH) : NULL;
  tn_program_info info;
  if (!t->test || tn_program_get_info(t->train, &info) != TN_OK) return false;
  printf("compiled in %.2f s: a training step is %d kernels and %d library calls\n", tn__seconds() - start,
         info.kernels, info.library_calls);
  return true;
}

static bool open_data(trainer *t, const char *dir) {
  if (!tn__mnist_open(t->ctx, dir, &t->data)) return false;
  printf("%lld training and %lld test %sdigits: %s\n", (long long)t->data.file[TRAIN_LABELS].shape[0],
         (long long)t->data.file[TEST_LABELS].shape[0], t->data.synthetic ? "synthetic " : "", t->data.source);
  return true;
}

static const tn__net *find_model(const char *name) {
  const tn__net *net = tn__net_find(name);
  if (!net) fprintf(stderr, "tenet: there is no model '%s'; there are cnn and mlp\n", name);
  return net;
}

/* A new run's plan, or the one of the file to resume. */
static bool plan(trainer *t, const options *o, tn_file **resumed) {
  int64_t rows = t->data.file[TRAIN_LABELS].shape[0];
  if (o->resume) {
    *resumed = tn__checkpoint_open(t->ctx, o->resume, &t->run);
    if (!*resumed) return false;
    if (t->run.rows != rows) {
      fprintf(stderr, "tenet: %s was trained on %lld digits, these are %lld\n", o->resume, (long long)t->run.rows,
              (long long)rows);
      return false;
    }
  } else {
    bool cnn = !strcmp(o->model, "cnn");
    t->run = (tn__run){.epochs = o->epochs ? o->epochs
                                 : o->demo ? 1
                                 : cnn     ? 3
                                           : 8,
                       .batch = o->batch,
                       .seed = o->seed,
                       .rows = rows};
    snprintf(t->run.model, sizeof t->run.model, "%s", o->model);
  }
  t->net = find_model(t->run.model);
  if (!t->net) return false;
  tn_array pair[] = {t->data.file[TRAIN_IMAGES], t->data.file[TRAIN_LABELS]};
  t->batches = tn_batches_open(t->ctx, 2, pair, t->run.batch, true, (uint64_t)t->run.seed);
  if (!o->resume) t->run.total = t->run.epochs * tn_batches_count(t->batches);
  return t->batches != NULL;
}

/* ---- one epoch ---- */

/* Down from the peak to nothing along half a cosine (Loshchilov, Hutter, SGDR, arXiv 1608.03983, without restarts). */
static double rate_at(const tn__run *run) {
  return peak_rate * .5 * (1 + cos(3.14159265358979 * (double)run->step / (double)run->total));
}

static bool step(trainer *t, int64_t rows, float *loss) {
  const tn_dim x[] = {rows, TN__PIXELS}, y[] = {rows};
  return tn_optim_set_lr(t->opt, rate_at(&t->run)) == TN_OK &&
         tn_program_write(t->train, "x", x, 2, tn_batches_rows(t->batches, 0), (size_t)(rows * TN__PIXELS)) == TN_OK &&
         tn_program_write(t->train, "y", y, 1, tn_batches_rows(t->batches, 1), (size_t)rows) == TN_OK &&
         tn_program_run(t->train) == TN_OK && tn_program_read(t->train, "loss", loss, sizeof *loss) == TN_OK;
}

/* The demo must end in time: now and then the plan shrinks to what fits at the present speed. */
static void fit_demo(trainer *t, double seconds_per_step) {
  int64_t done = t->run.step - t->first;
  if (!t->demo || done % MEASURED_STEPS || done == 0) return;
  int64_t fits = t->run.step + (int64_t)(fmax(t->deadline - tn__seconds(), 0) / seconds_per_step);
  if (t->run.total <= fits) return;
  if (!t->shrunk)
    printf("%sa full epoch would take too long here: doing what fits in %d s\n", isatty(1) ? "\r\033[K" : "",
           DEMO_SECONDS);
  t->shrunk = true;
  t->run.total = fits;
}

static int64_t at_most(int64_t a, int64_t b) { return a < b ? a : b; }

/* Runs the epoch to its end, the run's end or an interruption. */
static bool train_epoch(trainer *t) {
  tn__progress bar;
  char label[32];
  int64_t per_epoch = tn_batches_count(t->batches), done = t->run.step - t->run.epoch * per_epoch, rows, seen = 0;
  snprintf(label, sizeof label, "epoch %lld/%lld ", (long long)t->run.epoch + 1, (long long)t->run.epochs);
  tn_batches_start(t->batches, (uint64_t)t->run.epoch, done);
  tn__progress_start(&bar, label, at_most(per_epoch, t->run.total - t->run.epoch * per_epoch), done);
  double shown = 0, warm = 0;
  int64_t warm_steps = 0;
  while (!interrupted && t->run.step < t->run.total && (rows = tn_batches_next(t->batches)) > 0) {
    float *loss = &t->loss[t->run.step - t->first];
    if (!step(t, rows, loss)) return false;
    t->run.step++;
    done++;
    seen += rows;
    shown = seen == rows ? *loss : .98 * shown + .02 * *loss;
    if (warm == 0) { /* the first step binds sizes and wakes threads: it is not measured */
      warm = tn__seconds();
      seen = 0;
      continue;
    }
    double took = tn__seconds() - warm, each = took / (double)++warm_steps;
    fit_demo(t, each);
    bar.steps = at_most(per_epoch, t->run.total - t->run.epoch * per_epoch);
    tn__progress_show(&bar, done, shown, (double)seen / took, each * (double)(t->run.total - t->run.step));
  }
  tn__progress_end(&bar);
  if (done >= per_epoch) t->run.epoch++;
  printf("%sloss %.4f, %.0f images/s, ", label, shown, (double)seen / fmax(tn__seconds() - warm, 1e-9));
  return true;
}

/* ---- test ---- */

typedef struct result {
  int64_t wrong;
  int shown;
  tn__misread misread[SHOWN_MISREAD];
} result;

static bool test(trainer *t, result *r) {
  const tn_array *images = &t->data.file[TEST_IMAGES], *labels = &t->data.file[TEST_LABELS];
  const uint8_t *pixel = images->data, *label = labels->data;
  int64_t digit[TEST_BATCH], n = labels->shape[0];
  *r = (result){0};
  for (int64_t at = 0; at < n; at += TEST_BATCH) {
    int64_t rows = at_most(TEST_BATCH, n - at);
    const tn_dim shape[] = {rows, TN__PIXELS};
    if (tn_program_write(t->test, "x", shape, 2, pixel + at * TN__PIXELS, (size_t)(rows * TN__PIXELS)) != TN_OK ||
        tn_program_run(t->test) != TN_OK ||
        tn_program_read(t->test, "digit", digit, (size_t)rows * sizeof *digit) != TN_OK)
      return false;
    for (int64_t i = 0; i < rows; i++) {
      if (digit[i] == label[at + i]) continue;
      if (r->shown < SHOWN_MISREAD)
        r->misread[r->shown++] = (tn__misread){pixel + (at + i) * TN__PIXELS, (int)digit[i], label[at + i]};
      r->wrong++;
    }
  }
  printf("test accuracy %.2f %%%s\n", 100.0 * (double)(n - r->wrong) / (double)n,
         t->data.synthetic ? " (synthetic digits)" : "");
  fflush(stdout);
  return true;
}

/* ---- the whole run ---- */

static const char *path_of(const trainer *t, const char *suffix, char *buffer) {
  snprintf(buffer, PATH_ROOM, "%s/mnist-%s%s", t->out, t->run.model, suffix);
  return buffer;
}

static void say(const char *what, const char *path, bool written) {
  if (written) printf("%s: %s\n", what, path);
  else fprintf(stderr, "tenet: %s cannot be written\n", path);
}

static bool save(trainer *t, char *path) {
  return tn__checkpoint_save(t->ctx, path_of(t, ".safetensors", path), &t->run, t->params, t->opt);
}

static bool train(trainer *t) {
  char path[PATH_ROOM];
  result r = {0};
  double start = tn__seconds();
  bool saved = true;
  t->first = t->run.step;
  t->deadline = start + DEMO_SECONDS;
  t->loss = calloc((size_t)(t->run.total - t->first) + 1, sizeof *t->loss);
  if (!t->loss) return false;
  while (saved && t->run.step < t->run.total && !interrupted) saved = train_epoch(t) && test(t, &r) && save(t, path);
  /* compiling takes its time, too */
  if (saved && t->run.step == t->first) saved = test(t, &r) && (!interrupted || save(t, path));
  if (!saved) return false;
  printf("trained %lld steps in %.0f s\nweights and optimiser: %s\n", (long long)(t->run.step - t->first),
         tn__seconds() - start, path_of(t, ".safetensors", path));
  if (interrupted) printf("interrupted; continue with --resume %s\n", path);
  const tn__report report = {t->run.model, t->data.synthetic ? "synthetic digits" : "MNIST", r.wrong,
                             t->data.file[TEST_LABELS].shape[0]};
  if (t->run.step > t->first)
    say("loss curve", path,
        tn__report_loss(path_of(t, "-loss.png", path), &report, t->loss, t->first, t->run.step - t->first));
  say("misread digits", path, tn__report_misread(path_of(t, "-misread.png", path), &report, r.misread, r.shown));
  return true;
}

static bool make_folder(const char *path) {
  struct stat st;
  if (mkdir(path, 0777) == 0 || (stat(path, &st) == 0 && S_ISDIR(st.st_mode))) return true;
  fprintf(stderr, "tenet: the folder %s cannot be made: %s\n", path, strerror(errno));
  return false;
}

static void close_trainer(trainer *t) {
  free(t->loss);
  tn_program_close(t->train);
  tn_program_close(t->test);
  tn_batches_close(t->batches);
  tn_optim_close(t->opt);
  tn_params_close(t->params);
  tn__mnist_close(t->ctx, &t->data);
  tn_ctx_close(t->ctx);
}

static bool train_network(trainer *t, const options *o) {
  tn_file *resumed = NULL;
  bool ok = open_data(t, o->data) && plan(t, o, &resumed);
  tn_device_info device;
  ok = ok && tn_device_get_info(t->ctx, 0, &device) == TN_OK;
  if (ok) printf("%s: %s, on %s: %s\n", t->net->name, t->net->text, device.name, device.text);
  ok = ok && make_model(t) && (!resumed || tn__checkpoint_restore(t->ctx, resumed, t->params, t->opt));
  tn_file_close(resumed);
  return ok && compile(t) && train(t);
}

int tn__command_train(int argc, char **argv) {
  options o = {.model = "cnn", .batch = 64};
  const char *what = NULL;
  int words;
  if (!tn__args_parse(argc, argv, specs, SPECS, &o, &what, 1, &words)) return 2;
  if (!what || strcmp(what, "mnist")) {
    fprintf(stderr, "tenet: train what? there is: tenet train mnist\n");
    return 2;
  }
  if (!o.resume && !find_model(o.model)) return 1; /* before data are fetched for it */
  trainer t = {.demo = o.demo, .out = o.out ? o.out : o.demo ? "demo" : "out"};
  if (!make_folder(t.out)) return 1;
  t.ctx = tn_ctx_open(&(tn_options){.device = o.device, .threads = (int)o.threads});
  if (!t.ctx) return 1;
  struct sigaction act = {.sa_handler = on_interrupt};
  sigaction(SIGINT, &act, NULL);
  int code = train_network(&t, &o) ? (interrupted ? 130 : 0) : tn__command_failed(t.ctx, NULL);
  close_trainer(&t);
  return code;
}
