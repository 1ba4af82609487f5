/* The demo's networks on the device that $TENET_DEVICE names: their losses are the CPU's, step by step. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "cli/net.h"
#include "support/device.h"
#include <math.h>
#include <string.h>

enum { STEPS = 30, MOST = 4 };

static void must(tn_ctx *c, bool good) {
  if (!good) fail_msg("%s", tn_last_error(c)->text);
}

/* Grey bars whose place tells the digit, and noise. */
static void draw(int step, int64_t n, uint8_t *x, uint8_t *y) {
  uint32_t state = (uint32_t)step * 7919u + 1;
  for (int64_t i = 0; i < n; i++) {
    y[i] = (uint8_t)((step * 3 + i * 7) % TN__CLASSES);
    for (int k = 0; k < TN__PIXELS; k++) {
      state = state * 1664525u + 1013904223u;
      x[i * TN__PIXELS + k] = (uint8_t)((state >> 26) + (k % TN__SIDE / 3 == y[i] ? 160 : 0));
    }
  }
}

static void train(const char *device, const char *name, bool library, int steps, int64_t batch, double *loss) {
  uint8_t x[MOST * TN__PIXELS], y[MOST];
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .seed = 5, .no_library = !library});
  assert_non_null(c);
  const tn__net *net = tn__net_find(name);
  tn_params *p = tn_params_open(c);
  net->init(p);
  tn_optim *opt = tn_adam(p, 1e-3, 0.9, 0.999, 1e-8, 0);
  must(c, tn_realize(tn_params_tensors(p), tn_params_count(p)) == TN_OK && tn_optim_realize(opt, NULL) == TN_OK);
  tn_program *step = tn__net_train_step(net, p, opt, batch);
  must(c, step != NULL);
  for (int s = 0; s < steps; s++) {
    float got = 0;
    draw(s, batch, x, y);
    must(c, tn_program_write(step, "x", (tn_dim[]){batch, TN__PIXELS}, 2, x, (size_t)batch * TN__PIXELS) == TN_OK);
    must(c, tn_program_write(step, "y", (tn_dim[]){batch}, 1, y, (size_t)batch) == TN_OK);
    must(c, tn_program_run(step) == TN_OK && tn_program_read(step, "loss", &got, sizeof got) == TN_OK);
    loss[s] = (double)got;
  }
  tn_program_close(step);
  tn_optim_close(opt);
  tn_params_close(p);
  tn_ctx_close(c);
}

/* On an interpreter two steps of one digit: it takes a second for each.  By libraries losses may lie farther apart:
 * cuDNN's way of convolving (Winograd's) rounds more coarsely than sums of products do. */
static void check(const char *name, bool library) {
  double most = library ? 1e-3 : 1e-4;
  double want[STEPS], got[STEPS];
  const char *device = device_or("");
  bool gpu = is_gpu(device);
  if (!*device || !strcmp(device, "cpu")) {
    print_message("compares $TENET_DEVICE with the CPU\n");
    skip();
  }
  int steps = gpu ? STEPS : 2;
  int64_t batch = gpu ? MOST : 1;
  train("cpu", name, true, steps, batch, want);
  train(device, name, library, steps, batch, got);
  for (int s = 0; s < steps; s++)
    if (!(fabs(got[s] - want[s]) <= most * fmax(1, fabs(want[s]))))
      fail_msg("%s, step %d: the loss is %.7f, on the CPU %.7f", name, s, got[s], want[s]);
  if (gpu) assert_true(want[STEPS - 1] < want[0]);
}

typedef struct way {
  const char *net;
  bool library;
} way;

static void trains(void **state) {
  const way *w = *state;
  check(w->net, w->library);
}

int main(void) {
  static way own[] = {{"mlp", false}, {"cnn", false}}, library[] = {{"mlp", true}, {"cnn", true}};
  const struct CMUnitTest tests[] = {
      {"mlp", trains, NULL, NULL, &own[0]}, {"cnn", trains, NULL, NULL, &own[1]},
      {"mlp by libraries", trains, NULL, NULL, &library[0]}, {"cnn by libraries", trains, NULL, NULL, &library[1]},
  };
  /* where no device has libraries they would be the same again */
  const struct CMUnitTest without[] = {tests[0], tests[1]};
  return strncmp(device_or(""), "cuda", 4) ? cmocka_run_group_tests(without, NULL, NULL)
                                           : cmocka_run_group_tests(tests, NULL, NULL);
}
