/* tenet explain: graph, schedule and kernels of a step as text; tenet devices. */
#include "backend/cuda/cuda.h"
#include "cli/commands.h"
#include "cli/net.h"
#include <stdio.h>
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

int tn__command_explain(int argc, char **argv) {
  const char *what = argc > 0 ? argv[0] : "mnist-mlp";
  const tn__net *net = strncmp(what, "mnist-", 6) ? NULL : tn__net_find(what + 6);
  if (argc > 1 || !net) {
    fprintf(stderr, "tenet: explain what? there are mnist-mlp and mnist-cnn\n");
    return 2;
  }
  tn_ctx *ctx = tn_ctx_open(NULL);
  if (!ctx) return 1;
  int code = explain_net(ctx, net) ? 0 : tn__command_failed(ctx, NULL);
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
    if (tn_device_get_info(ctx, i, &d) == TN_OK) printf("%-8s %s%s\n", d.name, d.text, i ? "" : " (default)");
  }
  if (*tn__cuda_missing()) printf("%-8s none: %s\n", "cuda", tn__cuda_missing());
  tn_ctx_close(ctx);
  return 0;
}
