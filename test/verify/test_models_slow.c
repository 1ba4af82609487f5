/* Whole training steps of a user's size are compared with their graphs (TENET_VERIFY=strict refuses what cannot be):
 * a network of convolutions, and a transformer of two layers; in the modes default and fast, lowered for each device.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cli/net.h"
#include "tenet/tenet.h"
#include <stdio.h>

#define SHAPE(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

enum { WORDS = 1000, WIDTH = 256, HEADS = 4, PLACES = 128, LAYERS = 2, MOST = 64 };

/* ---- a transformer ---- */

/* The parameter LAYER.NAME; made where it is not there yet. */
static tn_tensor *param(tn_params *p, const char *layer, const char *name, const tn_dim *shape, int rank,
                        double value) {
  tn_ctx *c = tn_params_ctx(p);
  char full[64];
  snprintf(full, sizeof full, "%s.%s", layer, name);
  tn_tensor *t = tn_params_get(p, full);
  if (t) return t;
  return tn_params_add(p, full, rank > 1 ? tn_kaiming_uniform(c, TN_F32, shape, rank, 1)
                                         : tn_contiguous(tn_full(c, TN_F32, shape, rank, value)));
}

static tn_tensor *weight(tn_params *p, const char *layer, const char *name, tn_dim out, tn_dim in) {
  return param(p, layer, name, (tn_dim[]){out, in}, 2, 0);
}

static tn_tensor *vector(tn_params *p, const char *layer, const char *name, tn_dim n, double value) {
  return param(p, layer, name, &n, 1, value);
}

static tn_tensor *normed(tn_params *p, const char *layer, const char *name, tn_tensor *x) {
  char gain[16], bias[16];
  snprintf(gain, sizeof gain, "%s.g", name);
  snprintf(bias, sizeof bias, "%s.b", name);
  return tn_layer_norm(x, 1, vector(p, layer, gain, WIDTH, 1), vector(p, layer, bias, WIDTH, 0), 1e-5);
}

/* [B, S, D] -> [B, H, S, D/H] */
static tn_tensor *heads(tn_tensor *x, tn_dim b) {
  return tn_transpose(tn_reshape(x, SHAPE(b, PLACES, HEADS, WIDTH / HEADS)), 1, 2);
}

static tn_tensor *attention(tn_params *p, const char *layer, tn_tensor *x, tn_dim b) {
  tn_ctx *c = tn_params_ctx(p);
  tn_tensor *q = heads(tn_linear(x, weight(p, layer, "q", WIDTH, WIDTH), NULL), b),
            *k = heads(tn_linear(x, weight(p, layer, "k", WIDTH, WIDTH), NULL), b),
            *v = heads(tn_linear(x, weight(p, layer, "v", WIDTH, WIDTH), NULL), b);
  tn_tensor *score = tn_mul_scalar(tn_matmul(q, tn_transpose(k, 2, 3)), 0.125);
  tn_tensor *seen = tn_tril(tn_ones(c, TN_F32, SHAPE(PLACES, PLACES)), 0);
  score = tn_where(tn_gt_scalar(seen, 0), score, tn_const(c, TN_F32, -1e9));
  x = tn_reshape(tn_transpose(tn_matmul(tn_softmax(score, -1), v), 1, 2), SHAPE(b, PLACES, WIDTH));
  return tn_linear(x, weight(p, layer, "o", WIDTH, WIDTH), vector(p, layer, "o.b", WIDTH, 0));
}

static tn_tensor *transformer(tn_params *p, tn_tensor *words, tn_dim b) {
  tn_tensor *x = tn_embedding(weight(p, "words", "w", WORDS, WIDTH), words);
  x = tn_add(x, weight(p, "places", "w", PLACES, WIDTH));
  for (int l = 0; l < LAYERS; l++) {
    char layer[32];
    snprintf(layer, sizeof layer, "layer%d", l);
    x = tn_add(x, attention(p, layer, normed(p, layer, "n1", x), b));
    tn_tensor *h = tn_linear(normed(p, layer, "n2", x), weight(p, layer, "up", 4 * WIDTH, WIDTH), NULL);
    x = tn_add(x, tn_linear(tn_gelu_tanh(h), weight(p, layer, "down", WIDTH, 4 * WIDTH), NULL));
  }
  return tn_linear(normed(p, "end", "n", x), weight(p, "end", "w", WORDS, WIDTH), NULL);
}

/* ---- steps ---- */

static tn_status step_of_transformer(tn_ctx *c) {
  tn_params *p = tn_params_open(c);
  tn_tensor *grad[MOST];
  tn_scope(c) transformer(p, tn_zeros(c, TN_I32, SHAPE(2, PLACES)), 2); /* makes the parameters */
  int n = tn_params_count(p);
  assert_in_range(n, 20, MOST);
  if (tn_realize(tn_params_tensors(p), n) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  tn_optim *o = tn_adamw(p, 1e-3, 0.9, 0.999, 1e-8, 0.01);
  tn_program *step = tn_program_begin(c);
  tn_dim b = tn_dim_var(c, "B", 1, 16);
  tn_status status = TN_OK;
  tn_scope(c) {
    tn_tensor *words = tn_program_input(step, "words", TN_I32, SHAPE(b, PLACES));
    tn_tensor *next = tn_program_input(step, "next", TN_I32, SHAPE(b, PLACES));
    tn_tensor *loss = tn_cross_entropy(tn_transpose(transformer(p, words, b), 1, 2), next);
    tn_grad(loss, n, tn_params_tensors(p), grad);
    tn_optim_step(o, grad);
    tn_program_output(step, "loss", loss);
    status = tn_program_end(step);
  }
  return status;
}

static tn_status step_of_convolutions(tn_ctx *c) {
  const tn__net *net = tn__net_find("cnn");
  tn_params *p = tn_params_open(c);
  net->init(p);
  assert_int_equal(tn_realize(tn_params_tensors(p), tn_params_count(p)), TN_OK);
  return tn__net_train_step(net, p, tn_adam(p, 1e-3, 0.9, 0.999, 1e-8, 0), 64) ? TN_OK : tn_last_error(c)->status;
}

/* ---- all of it ---- */

/* Each step is lowered for each device, in each mode on every second one. */
static void steps(void **s) {
  static const char *const devices[] = {"cpu", "ref", "ref:sm_90", "ref:opencl"};
  static const tn_mode modes[] = {TN_MODE_DEFAULT, TN_MODE_FAST};
  static tn_status (*const step[])(tn_ctx *) = {step_of_transformer, step_of_convolutions};
  (void)s;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
    for (size_t k = 0; k < sizeof step / sizeof *step; k++) {
      tn_mode mode = modes[(d + k) % 2];
      tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d], .mode = mode, .quiet = 1, .verify = "strict"});
      assert_non_null(c);
      if (step[k](c) != TN_OK)
        fail_msg("step %zu on %s, mode %d: %s", k, devices[d], (int)mode, tn_last_error(c)->text);
      tn_ctx_close(c);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(steps)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
