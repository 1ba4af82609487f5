/* Two spirals, told apart by a network of two layers.  cc mlp.c $(pkg-config --cflags --libs tenet) -lm && ./a.out */
#include <math.h>
#include <tenet/tenet.h>

enum { POINTS = 400, HIDDEN = 32, STEPS = 600 };

static tn_tensor *forward(tn_tensor *const *w, tn_tensor *x) {
  return tn_linear(tn_relu(tn_linear(tn_relu(tn_linear(x, w[0], w[1])), w[2], w[3])), w[4], w[5]);
}

int main(void) {
  static float place[POINTS][2];
  static int label[POINTS];
  for (int i = 0; i < POINTS; i++) {
    double r = (i / 2 + 10) * 4.0 / POINTS, turn = 4 * r + 3.14159 * (label[i] = i % 2);
    place[i][0] = (float)(r * cos(turn)), place[i][1] = (float)(r * sin(turn));
  }
  tn_ctx *ctx = tn_ctx_open(NULL);
  tn_params *params = tn_params_open(ctx);
  const tn_dim w1[] = {HIDDEN, 2}, w2[] = {HIDDEN, HIDDEN}, w3[] = {2, HIDDEN}, points[] = {POINTS, 2};
  tn_params_add(params, "w1", tn_kaiming_uniform(ctx, TN_F32, w1, 2, 0)),
      tn_params_add(params, "b1", tn_zeros(ctx, TN_F32, w1, 1));
  tn_params_add(params, "w2", tn_kaiming_uniform(ctx, TN_F32, w2, 2, 0)),
      tn_params_add(params, "b2", tn_zeros(ctx, TN_F32, w2, 1));
  tn_params_add(params, "w3", tn_kaiming_uniform(ctx, TN_F32, w3, 2, 0)),
      tn_params_add(params, "b3", tn_zeros(ctx, TN_F32, w3, 1));
  tn_tensor *const *w = tn_params_tensors(params), *grad[6];
  tn_tensor *x = tn_from(ctx, TN_F32, points, 2, place), *y = tn_from(ctx, TN_I32, points, 1, label);
  tn_optim *adam = tn_adam(params, 0.01, 0.9, 0.999, 1e-8, 0);
  tn_program *step = tn_program_begin(ctx);
  tn_scope(ctx) {
    tn_tensor *loss = tn_cross_entropy(forward(w, x), y);
    tn_grad(loss, 6, w, grad);
    tn_optim_step(adam, grad);
    tn_program_output(step, "loss", loss);
  }
  float loss = 0;
  tn_status status = tn_program_end(step);
  for (int i = 0; i < STEPS && status == TN_OK; i++) status = tn_program_run(step);
  if (status == TN_OK) status = tn_program_read(step, "loss", &loss, sizeof loss);
  if (status != TN_OK) fprintf(stderr, "%s\n", tn_last_error(ctx)->text);
  else printf("loss %.4f\n", loss);
  tn_program_close(step), tn_optim_close(adam), tn_params_close(params);
  tn_ctx_close(ctx);
  return status != TN_OK || loss > 0.2f;
}
