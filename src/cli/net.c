/* Networks that read digits. */
#include "cli/net.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

/* ---- layers ---- */

/* Weight and bias as PyTorch's layers start: uniform on +-1/sqrt(fan_in). */
static void add_layer(tn_params *p, const char *name, const tn_dim *shape, int rank) {
  tn_ctx *c = tn_params_ctx(p);
  char full[64];
  double fan_in = 1;
  for (int i = 1; i < rank; i++) fan_in *= (double)shape[i];
  snprintf(full, sizeof full, "%s.weight", name);
  tn_params_add(p, full, tn_kaiming_uniform(c, TN_F32, shape, rank, sqrt(5)));
  snprintf(full, sizeof full, "%s.bias", name);
  tn_params_add(p, full, tn_uniform(c, TN_F32, shape, 1, -1 / sqrt(fan_in), 1 / sqrt(fan_in)));
}

static tn_tensor *param(const tn_params *p, const char *layer, const char *which) {
  char full[64];
  snprintf(full, sizeof full, "%s.%s", layer, which);
  return tn_params_get(p, full);
}

static tn_tensor *linear(const tn_params *p, const char *name, tn_tensor *x) {
  return tn_linear(x, param(p, name, "weight"), param(p, name, "bias"));
}

static tn_tensor *conv(const tn_params *p, const char *name, tn_tensor *x) {
  return tn_conv2d(x, param(p, name, "weight"), param(p, name, "bias"), NULL);
}

/* ---- 784-128-10 ---- */

static void mlp_init(tn_params *p) {
  add_layer(p, "fc1", (tn_dim[]){128, TN__PIXELS}, 2);
  add_layer(p, "fc2", (tn_dim[]){TN__CLASSES, 128}, 2);
}

static tn_tensor *mlp_forward(const tn_params *p, tn_tensor *x, bool training) {
  (void)training;
  return linear(p, "fc2", tn_relu(linear(p, "fc1", x)));
}

/* ---- convolutions 1-32-64 of 3x3, max pool 2, 9216-128-10 ---- */

static void cnn_init(tn_params *p) {
  add_layer(p, "conv1", (tn_dim[]){32, 1, 3, 3}, 4);
  add_layer(p, "conv2", (tn_dim[]){64, 32, 3, 3}, 4);
  add_layer(p, "fc1", (tn_dim[]){128, 9216}, 2);
  add_layer(p, "fc2", (tn_dim[]){TN__CLASSES, 128}, 2);
}

static tn_tensor *cnn_forward(const tn_params *p, tn_tensor *x, bool training) {
  x = tn_reshape(x, (tn_dim[]){-1, 1, TN__SIDE, TN__SIDE}, 4);
  x = tn_relu(conv(p, "conv1", x));
  x = tn_relu(conv(p, "conv2", x));
  x = tn_dropout(tn_max_pool2d(x, 2, 2, NULL), 0.25, training);
  x = tn_relu(linear(p, "fc1", tn_flatten(x, 1, -1)));
  return linear(p, "fc2", tn_dropout(x, 0.5, training));
}

const tn__net *tn__net_find(const char *name) {
  static const tn__net nets[] = {
      {"mlp", "784-128-10", mlp_init, mlp_forward},
      {"cnn", "convolutions 1-32-64 3x3, max pool 2, 9216-128-10", cnn_init, cnn_forward},
  };
  for (size_t i = 0; i < sizeof nets / sizeof *nets; i++)
    if (!strcmp(nets[i].name, name)) return &nets[i];
  return NULL;
}

/* ---- steps ---- */

static tn_dim batch_size(tn_ctx *c, int64_t most) {
  char name[32]; /* a name has one range */
  snprintf(name, sizeof name, "B%lld", (long long)most);
  return tn_dim_var(c, name, 1, most);
}

/* Grey levels to mean 0 and deviation 1 over the training digits (0.1307 and 0.3081 of 255). */
static tn_tensor *normalised(tn_tensor *x) {
  return tn_sub_scalar(tn_mul_scalar(tn_cast(x, TN_F32), 1 / (255 * 0.3081)), 0.1307 / 0.3081);
}

static tn_program *finish(tn_program *p) {
  if (tn_program_end(p) == TN_OK) return p;
  tn_program_close(p);
  return NULL;
}

tn_program *tn__net_train_step(const tn__net *net, tn_params *p, tn_optim *opt, int64_t batch) {
  tn_ctx *c = tn_params_ctx(p);
  enum { MOST = 16 };
  tn_tensor *grad[MOST];
  int n = tn_params_count(p);
  tn_program *step = tn_program_begin(c);
  if (!step || n > MOST) return NULL;
  tn_scope(c) {
    tn_dim rows = batch_size(c, batch);
    tn_tensor *x = tn_program_input(step, "x", TN_U8, (tn_dim[]){rows, TN__PIXELS}, 2);
    tn_tensor *y = tn_program_input(step, "y", TN_U8, (tn_dim[]){rows}, 1);
    tn_tensor *loss = tn_cross_entropy(net->forward(p, normalised(x), true), y);
    tn_grad(loss, n, tn_params_tensors(p), grad);
    tn_optim_step(opt, grad);
    tn_program_output(step, "loss", loss);
    step = finish(step);
  }
  return step;
}

tn_program *tn__net_test_step(const tn__net *net, tn_params *p, int64_t batch) {
  tn_ctx *c = tn_params_ctx(p);
  tn_program *step = tn_program_begin(c);
  if (!step) return NULL;
  tn_scope(c) {
    tn_tensor *x = tn_program_input(step, "x", TN_U8, (tn_dim[]){batch_size(c, batch), TN__PIXELS}, 2);
    tn_program_output(step, "digit", tn_argmax(net->forward(p, normalised(x), false), 1, false));
    step = finish(step);
  }
  return step;
}
