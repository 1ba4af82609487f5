/* Optimisers against loops written from their formulas; the number of compilations; programs; checkpoints. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include <cmocka.h>
#include "support/files.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <string.h>

enum { N = 6, STEPS = 25 };
static tn_ctx *ctx;

/* On the default device, and on another. */
static const char *devices[] = {NULL, "ref"};
enum { DEVICES = sizeof devices / sizeof *devices };

static int open_ctx(void **state) {
  (void)state;
  tn_device_info first;
  ctx = tn_ctx_open(&(tn_options){.quiet = 1});
  if (!ctx || tn_device_get_info(ctx, 0, &first) != TN_OK) return 1;
  devices[0] = first.name;
  if (!strcmp(devices[0], devices[1])) devices[1] = "cpu";
  return 0;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(ctx);
  return 0;
}

typedef struct settings {
  const char *name;
  double momentum, decay; /* SGD */
  bool nesterov, adam, decoupled;
} settings;

static const settings all[] = {
    {"sgd", 0, 0, false, false, false},       {"sgd, decay", 0, .1, false, false, false},
    {"momentum", .9, 0, false, false, false}, {"nesterov, decay", .8, .05, true, false, false},
    {"adam", 0, 0, false, true, false},       {"adam, decay", 0, .1, false, true, false},
    {"adamw", 0, .1, false, true, true},
};
enum { SETTINGS = sizeof all / sizeof *all };

static tn_optim *make(const settings *s, tn_params *p, double lr) {
  if (s->decoupled) return tn_adamw(p, lr, .9, .99, 1e-8, s->decay);
  if (s->adam) return tn_adam(p, lr, .9, .99, 1e-8, s->decay);
  return tn_sgd(p, lr, s->momentum, s->decay, s->nesterov);
}

static const double start[N] = {1, -2, .5, 3, 0, -1.5}, target[N] = {0, 1, 2, -1, .25, 1};
static double rate(int t) { return .05 / (1 + .1 * t); }

/* loss = sum((w - target)^2 * (1 + i)): gradient 2 (w - target) (1 + i) */
static void by_hand(const settings *s, double *w) {
  double m[N] = {0}, v[N] = {0};
  memcpy(w, start, sizeof start);
  for (int t = 1; t <= STEPS; t++)
    for (int i = 0; i < N; i++) {
      double g = 2 * (w[i] - target[i]) * (1 + i), lr = rate(t);
      if (s->decoupled) w[i] -= lr * s->decay * w[i];
      else g += s->decay * w[i];
      if (s->adam) {
        m[i] = .9 * m[i] + .1 * g;
        v[i] = .99 * v[i] + .01 * g * g;
        w[i] -= lr * (m[i] / (1 - pow(.9, t))) / (sqrt(v[i] / (1 - pow(.99, t))) + 1e-8);
      } else {
        m[i] = s->momentum * m[i] + g;
        w[i] -= lr * (s->nesterov ? g + s->momentum * m[i] : m[i]);
      }
    }
}

static tn_tensor *aim, *scale; /* where the parameters of fresh() are */

static tn_tensor *make_loss(tn_tensor *w) {
  return tn_sum(tn_mul(tn_square(tn_sub(w, aim)), scale), NULL, 0, false);
}

static void check(const char *what, tn_tensor *w, const double *want) {
  double got[N];
  assert_int_equal(tn_read(w, got, sizeof got), TN_OK);
  for (int i = 0; i < N; i++)
    if (!(fabs(got[i] - want[i]) <= 1e-11 * (1 + fabs(want[i]))))
      fail_msg("%s: parameter %d is %.17g, not %.17g", what, i, got[i], want[i]);
}

static tn_tensor *vector(const double *v, const char *device) {
  return tn_to(tn_from(ctx, TN_F64, (tn_dim[]){N}, 1, v), device);
}

static tn_params *fresh(tn_tensor **w, const char *device) {
  static const double weight[N] = {1, 2, 3, 4, 5, 6};
  tn_params *p = tn_params_open(ctx);
  aim = vector(target, device);
  scale = vector(weight, device);
  tn_scope(ctx) *w = tn_params_add(p, "w", vector(start, device));
  return p;
}

static void steps_follow_the_formulas(void **state) {
  (void)state;
  for (int i = 0; i < SETTINGS * DEVICES; i++) {
    double want[N];
    const settings *how = &all[i % SETTINGS];
    tn_tensor *w, *g;
    tn_params *p = fresh(&w, devices[i / SETTINGS]);
    tn_optim *o = make(how, p, 1);
    assert_non_null(o);
    by_hand(how, want);
    tn_stats before, after;
    for (int t = 1; t <= STEPS; t++) {
      tn_scope(ctx) {
        tn_tensor *loss = make_loss(w);
        assert_int_equal(tn_optim_set_lr(o, rate(t)), TN_OK);
        assert_int_equal(tn_grad(loss, 1, &w, &g), TN_OK);
        assert_int_equal(tn_optim_step(o, &g), TN_OK);
        assert_int_equal(tn_optim_realize(o, loss), TN_OK);
      }
      tn_ctx_stats(ctx, t == 1 ? &before : &after);
    }
    assert_int_equal(after.schedules_compiled, before.schedules_compiled); /* the rate and the step are data */
    check(how->name, w, want);
    assert_string_equal(tn_device_of(w), devices[i / SETTINGS]);
    tn_optim_close(o);
    tn_params_close(p);
  }
}

static tn_program *capture(tn_optim *o, tn_tensor *w) {
  tn_program *q = tn_program_begin(ctx);
  tn_scope(ctx) {
    tn_tensor *loss = make_loss(w), *g;
    assert_int_equal(tn_grad(loss, 1, &w, &g), TN_OK);
    assert_int_equal(tn_optim_step(o, &g), TN_OK);
    assert_int_equal(tn_program_output(q, "loss", loss), TN_OK);
    assert_int_equal(tn_program_end(q), TN_OK);
  }
  return q;
}

/* In a program, stopped halfway, saved, and continued by another optimiser. */
static void programs_and_checkpoints(void **state) {
  (void)state;
  for (int k = 0; k < SETTINGS * DEVICES; k++) {
    double want[N];
    const settings *how = &all[k % SETTINGS];
    tn_tensor *w;
    const char *path = test_path("checkpoint"), *names[8];
    by_hand(how, want);
    for (int half = 0; half < 2; half++) {
      tn_params *p = fresh(&w, devices[k / SETTINGS]);
      tn_optim *o = make(how, p, 1);
      tn_params *s = tn_optim_state(o);
      tn_tensor *tensors[8] = {w};
      int n = 1 + tn_params_count(s);
      names[0] = "w";
      for (int i = 1; i < n; i++) names[i] = tn_params_names(s)[i - 1], tensors[i] = tn_params_tensors(s)[i - 1];
      if (half) {
        tn_file *f = tn_load_safetensors(ctx, path);
        for (int i = 0; i < n; i++) assert_int_equal(tn_file_read(f, names[i], tensors[i]), TN_OK);
        tn_file_close(f);
      }
      tn_program *q = capture(o, w);
      for (int t = half ? STEPS / 2 + 1 : 1; t <= (half ? STEPS : STEPS / 2); t++) {
        assert_int_equal(tn_optim_set_lr(o, rate(t)), TN_OK);
        assert_int_equal(tn_program_run(q), TN_OK);
      }
      if (half) check(how->name, w, want);
      else assert_int_equal(tn_save_safetensors(ctx, path, n, names, tensors, 0, NULL), TN_OK);
      tn_program_close(q);
      tn_optim_close(o);
      tn_params_close(p);
    }
  }
}

/* Two parameters of one shape and value keep apart. */
static void equal_parameters_keep_apart(void **state) {
  (void)state;
  tn_params *p = tn_params_open(ctx);
  tn_tensor *w[2], *g[2];
  tn_scope(ctx) {
    w[0] = tn_params_add(p, "a", tn_zeros(ctx, TN_F32, (tn_dim[]){2}, 1));
    w[1] = tn_params_add(p, "b", tn_zeros(ctx, TN_F32, (tn_dim[]){2}, 1));
  }
  tn_optim *o = tn_sgd(p, .5, .9, 0, false);
  tn_program *q = tn_program_begin(ctx);
  tn_scope(ctx) {
    tn_tensor *loss = tn_add(tn_sum(tn_square(tn_sub_scalar(w[0], 1)), NULL, 0, false),
                             tn_sum(tn_square(tn_sub_scalar(w[1], -3)), NULL, 0, false));
    assert_int_equal(tn_grad(loss, 2, w, g), TN_OK);
    assert_int_equal(tn_optim_step(o, g), TN_OK);
    assert_int_equal(tn_program_end(q), TN_OK);
  }
  for (int i = 0; i < 200; i++) assert_int_equal(tn_program_run(q), TN_OK);
  float a[2], b[2];
  assert_int_equal(tn_read(w[0], a, sizeof a), TN_OK);
  assert_int_equal(tn_read(w[1], b, sizeof b), TN_OK);
  assert_true(fabsf(a[0] - 1) < 1e-3f && fabsf(b[1] + 3) < 1e-3f);
  tn_program_close(q);
  tn_optim_close(o);
  tn_params_close(p);
}

static void refused(bool failed, const char *text) {
  assert_true(failed);
  assert_int_equal(tn_last_error(ctx)->status, TN_EINVAL);
  assert_string_equal(tn_last_error(ctx)->text, text);
  tn_clear_error(ctx);
}

static void options_are_checked(tn_params *p) {
  refused(!tn_sgd(p, NAN, 0, 0, false), "tn_sgd: lr is nan: it must be 0 or more, and finite");
  refused(!tn_sgd(p, -.1, 0, 0, false), "tn_sgd: lr is -0.1: it must be 0 or more, and finite");
  refused(!tn_sgd(p, INFINITY, 0, 0, false), "tn_sgd: lr is inf: it must be 0 or more, and finite");
  refused(!tn_sgd(p, .1, NAN, 0, false), "tn_sgd: momentum is nan: it must be 0 or more, and finite");
  refused(!tn_sgd(p, .1, -1, 0, false), "tn_sgd: momentum is -1: it must be 0 or more, and finite");
  refused(!tn_sgd(p, .1, 0, -1, false), "tn_sgd: weight_decay is -1: it must be 0 or more, and finite");
  refused(!tn_adam(p, .1, 1, .999, 1e-8, 0), "tn_adam: beta1 is 1: it must be 0 or more, and less than 1");
  refused(!tn_adam(p, .1, .9, -.5, 1e-8, 0), "tn_adam: beta2 is -0.5: it must be 0 or more, and less than 1");
  refused(!tn_adam(p, .1, .9, NAN, 1e-8, 0), "tn_adam: beta2 is nan: it must be 0 or more, and less than 1");
  refused(!tn_adamw(p, .1, .9, .999, -1e-8, 0), "tn_adamw: eps is -1e-08: it must be 0 or more, and finite");
  refused(!tn_adamw(p, .1, .9, .999, 0, INFINITY), "tn_adamw: weight_decay is inf: it must be 0 or more, and finite");
  tn_optim *o = tn_adam(p, 0, 0, 0, 0, 0); /* the least that may be */
  double lr;
  assert_non_null(o);
  refused(tn_optim_set_lr(o, NAN) != TN_OK, "tn_optim_set_lr: lr is nan: it must be 0 or more, and finite");
  refused(tn_optim_set_lr(o, -1) != TN_OK, "tn_optim_set_lr: lr is -1: it must be 0 or more, and finite");
  assert_int_equal(tn_item(tn_params_get(tn_optim_state(o), "lr"), &lr), TN_OK);
  assert_true(lr == 0);
  tn_optim_close(o);
}

static void errors_change_nothing(void **state) {
  (void)state;
  tn_tensor *w, *none = NULL;
  tn_params *p = fresh(&w, devices[0]);
  tn_optim *o = tn_adam(p, .1, .9, .999, 1e-8, 0);
  tn_scope(ctx) {
    assert_int_not_equal(tn_optim_step(o, &none), TN_OK);
    tn_clear_error(ctx);
    tn_tensor *other = tn_zeros(ctx, TN_F64, (tn_dim[]){N + 1}, 1);
    assert_int_equal(tn_optim_step(o, &other), TN_ESHAPE);
    tn_clear_error(ctx);
    assert_int_equal(tn_optim_realize(o, NULL), TN_OK);
  }
  check("untouched", w, start);
  double t;
  assert_int_equal(tn_item(tn_params_get(tn_optim_state(o), "step"), &t), TN_OK);
  assert_true(t == 0);
  tn_optim_close(o);
  tn_scope(ctx) tn_params_add(p, "i", tn_zeros(ctx, TN_I32, NULL, 0));
  assert_null(tn_sgd(p, .1, 0, 0, false));
  assert_int_equal(tn_last_error(ctx)->status, TN_EDTYPE);
  tn_clear_error(ctx);
  tn_params_close(p);
  p = fresh(&w, devices[0]);
  options_are_checked(p);
  tn_scope(ctx) tn_params_add(p, "far", vector(start, devices[1]));
  assert_null(tn_sgd(p, .1, 0, 0, false));
  assert_int_equal(tn_last_error(ctx)->status, TN_EDEVICE);
  char want[64];
  snprintf(want, sizeof want, "tn_sgd: parameter 'far' is on %s, 'w' on ", devices[1]);
  assert_non_null(strstr(tn_last_error(ctx)->text, want));
  tn_clear_error(ctx);
  tn_params_close(p);
}

/* A gradient that does not fit the second parameter leaves the first as it was. */
static void steps_are_whole(void **state) {
  (void)state;
  tn_params *p = tn_params_open(ctx);
  tn_tensor *w = tn_params_add(p, "w", tn_ones(ctx, TN_F32, (tn_dim[]){2}, 1)),
            *b = tn_params_add(p, "b", tn_ones(ctx, TN_F32, (tn_dim[]){1}, 1));
  tn_optim *o = tn_sgd(p, 1, 0, 0, false);
  tn_tensor *grads[] = {tn_ones(ctx, TN_F32, (tn_dim[]){2}, 1), tn_ones(ctx, TN_F32, (tn_dim[]){3}, 1)};
  float v[2] = {0};
  assert_int_equal(tn_optim_step(o, grads), TN_ESHAPE);
  assert_non_null(strstr(tn_last_error(ctx)->text, "parameter 1"));
  tn_clear_error(ctx);
  assert_int_equal(tn_read(w, v, sizeof v), TN_OK);
  assert_true(v[0] == 1 && v[1] == 1 && tn_numel(b) == 1);
  tn_optim_close(o);
  tn_params_close(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(steps_follow_the_formulas),
      cmocka_unit_test(programs_and_checkpoints),
      cmocka_unit_test(equal_parameters_keep_apart),
      cmocka_unit_test(errors_change_nothing),
      cmocka_unit_test(steps_are_whole),
  };
  int failed = cmocka_run_group_tests(tests, open_ctx, close_ctx);
  test_remove_files();
  return failed;
}
