/* tenet explain: graph, schedule and kernels of a step as text; tenet devices. */
#include "backend/cuda/cuda.h"
#include "backend/opencl/opencl.h"
#include "cli/commands.h"
#include "cli/net.h"
#include "cli/values.h"
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { EXPLAINED_BATCH = 64 };

static bool explain_net(tn_ctx *ctx, const tn__net *net) {
  tn_params *params = tn_params_open(ctx);
  tn_optim *opt = NULL;
  tn_program *step = NULL;
  tn_scope(ctx) net->init(params);
  if (params) opt = tn_adam(params, 1e-3, 0.9, 0.999, 1e-8, 0);
  if (opt) step = tn__net_train_step(net, params, opt, EXPLAINED_BATCH);
  bool ok = step && tn_program_explain(step, stdout) == TN_OK;
  tn_program_close(step);
  tn_optim_close(opt);
  tn_params_close(params);
  return ok;
}

/* The whole file, to be freed; NULL if it cannot be read. */
static char *read_text(FILE *f) {
  size_t n = 0, room = 1 << 16;
  char *text = malloc(room);
  for (size_t got; text && (got = fread(text + n, 1, room - n - 1, f)) > 0;) {
    n += got;
    if (n + 1 < room) continue;
    char *more = realloc(text, room *= 2);
    if (!more) free(text);
    text = more;
  }
  if (text && ferror(f)) {
    free(text);
    return NULL;
  }
  if (text) text[n] = 0;
  return text;
}

/* To be freed; NULL, with the reason on stderr, if it cannot be read. */
static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = f ? read_text(f) : NULL;
  if (!text)
    fprintf(stderr, "tenet: %s cannot be read: %s; besides files there are mnist-mlp and mnist-cnn\n", path,
            strerror(errno));
  if (f) fclose(f);
  return text;
}

static bool explain_file(tn_ctx *ctx, const char *path) {
  char *text = read_file(path);
  bool ok = text && tn_explain_text(ctx, text, stdout) == TN_OK;
  free(text);
  return ok;
}

/* Runs the text with these values and prints what comes out. */
static bool run_file(tn_ctx *ctx, const char *path, int n, char **values) {
  enum { MOST = 64 };
  tn_tensor *in[MOST] = {NULL}, *out[MOST];
  if (n > MOST) {
    fprintf(stderr, "tenet: more than %d values\n", MOST);
    return false;
  }
  for (int i = 0; i < n; i++)
    if (strcmp(values[i], "-") && !(in[i] = tn__value_read(ctx, values[i]))) return false;
  char *text = read_file(path);
  int count = text ? tn_run_text(ctx, text, n, in, MOST, out) : -1;
  bool ok = count >= 0;
  for (int i = 0; i < count && i < MOST && ok; i++) ok = tn_print(out[i], stdout) == TN_OK;
  free(text);
  return ok;
}

int tn__command_explain(int argc, char **argv) {
  const char *what = argc > 0 ? argv[0] : "mnist-mlp";
  const tn__net *net = strncmp(what, "mnist-", 6) ? NULL : tn__net_find(what + 6);
  bool runs = !strcmp(what, "--run");
  if (runs ? argc < 2 : argc > 1) {
    fprintf(stderr, "tenet: explain takes one argument, mnist-mlp, mnist-cnn or a file, or --run, a file and values\n");
    return 2;
  }
  tn_ctx *ctx = tn_ctx_open(NULL);
  if (!ctx) return 1;
  bool ok = runs  ? run_file(ctx, argv[1], argc - 2, argv + 2)
            : net ? explain_net(ctx, net)
                  : explain_file(ctx, what);
  int code = ok ? 0 : tn__command_failed(ctx, NULL);
  tn_ctx_close(ctx);
  return code;
}

int tn__command_devices(int argc, char **argv) {
  (void)argv;
  if (argc) {
    fprintf(stderr, "tenet: devices takes no arguments\n");
    return 2;
  }
  tn_ctx *ctx = tn_ctx_open(NULL);
  if (!ctx) return 1;
  for (int i = 0; i < tn_device_count(ctx); i++) {
    tn_device_info d;
    if (tn_device_get_info(ctx, i, &d) == TN_OK)
      printf("%-8s %s; probed in %.1f ms%s\n", d.name, d.text, d.probe_ms, i ? "" : " (default)");
  }
  if (*tn__cuda_missing()) printf("%-8s none: %s\n", "cuda", tn__cuda_missing());
  if (*tn__opencl_missing()) printf("%-8s none: %s\n", "opencl", tn__opencl_missing());
  tn_ctx_close(ctx);
  return 0;
}
