/* Programs and loops: what is compiled once stays compiled, memory stays flat, state is what it should be, errors are
 * told. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/ctx.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define SCALAR NULL, 0
#define OK(x) check_ok(c, x, __LINE__)
#define FAILS(x, status_) check_fails(c, (tn_status)(x), status_, __LINE__)

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}
static void check_fails(tn_ctx *c, tn_status got, tn_status want, int line) {
  if (got != want || tn_last_error(c)->status != want)
    fail_msg("line %d: %s (%s), not %s", line, tn_status_name(got), tn_last_error(c)->text, tn_status_name(want));
  tn_clear_error(c);
}

static tn_ctx *open_ref(void) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("ref"), .mode = TN_MODE_STRICT, .quiet = 1});
  assert_non_null(c);
  return c;
}
static tn_ctx *open_cpu(void) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
  assert_non_null(c);
  return c;
}
static tn_tensor *f32s(tn_ctx *c, const tn_dim *shape, int rank, const float *v) {
  return tn_from(c, TN_F32, shape, rank, v);
}
static tn_stats stats(tn_ctx *c) {
  tn_stats s;
  tn_ctx_stats(c, &s);
  return s;
}
static float item(tn_tensor *t) {
  double v = NAN;
  tn_ctx *c = tn_ctx_of(t);
  OK(tn_item(t, &v));
  return (float)v;
}

/* ---- a symbolic batch -------------------------------------------------------------------------------------------- */

enum { IN = 12, OUT = 5, MOST = 512 };

/* mean over the batch of (softmax(x w + b) * t) and the softmax itself */
static void model(tn_tensor *x, tn_tensor *w, tn_tensor *b, tn_tensor *t, tn_tensor **loss, tn_tensor **y,
                  tn_tensor **g) {
  *y = tn_softmax(tn_add(tn_matmul(x, w), b), -1);
  *loss = tn_mean(tn_mul(*y, t), NULL, 0, false);
  if (tn_grad(*loss, 1, &w, g) != TN_OK) fail_msg("%s", tn_last_error(tn_ctx_of(w))->text);
}

static void symbolic(tn_ctx *c, float tolerance) {
  static const int64_t batches[] = {1, 7, 64, 512, 7, 1};
  static float xs[MOST * IN], ts[MOST * OUT], ws[IN * OUT], bs[OUT], got[MOST * OUT], want[MOST * OUT];
  for (int i = 0; i < MOST * IN; i++) xs[i] = (float)(i * 37 % 101) / 50 - 1;
  for (int i = 0; i < MOST * OUT; i++) ts[i] = (float)(i * 53 % 97) / 50 - 1;
  for (int i = 0; i < IN * OUT; i++) ws[i] = (float)(i * 29 % 31) / 20 - 0.7f;
  for (int i = 0; i < OUT; i++) bs[i] = (float)i / 10;
  tn_scope(c) {
    tn_tensor *w = f32s(c, DIMS(IN, OUT), ws), *b = f32s(c, DIMS(OUT), bs), *loss, *y, *g;
    tn_dim n = tn_dim_var(c, "B", 1, MOST);
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(n, IN)), *t = tn_program_input(p, "t", TN_F32, DIMS(n, OUT));
    model(x, w, b, t, &loss, &y, &g);
    OK(tn_program_output(p, "loss", loss));
    OK(tn_program_output(p, "y", y));
    OK(tn_program_output(p, "g", g));
    OK(tn_program_end(p));
    uint64_t compiled = stats(c).schedules_compiled;
    for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) {
      int64_t m = batches[k];
      OK(tn_program_write(p, "x", DIMS(m, IN), xs, (size_t)m * IN * 4));
      OK(tn_program_write(p, "t", DIMS(m, OUT), ts, (size_t)m * OUT * 4));
      OK(tn_program_run(p));
    }
    assert_int_equal(stats(c).schedules_compiled, compiled);
    for (size_t k = 0; k < sizeof batches / sizeof *batches; k++) tn_scope(c) {
      int64_t m = batches[k];
      float l[2], gs[2][IN * OUT];
      OK(tn_program_write(p, "x", DIMS(m, IN), xs, (size_t)m * IN * 4));
      OK(tn_program_write(p, "t", DIMS(m, OUT), ts, (size_t)m * OUT * 4));
      OK(tn_program_run(p));
      OK(tn_program_read(p, "loss", &l[0], 4));
      OK(tn_program_read(p, "y", got, (size_t)m * OUT * 4));
      OK(tn_program_read(p, "g", gs[0], sizeof gs[0]));
      tn_tensor *loss2, *y2, *g2;
      model(f32s(c, DIMS(m, IN), xs), w, b, f32s(c, DIMS(m, OUT), ts), &loss2, &y2, &g2);
      OK(tn_read(y2, want, (size_t)m * OUT * 4));
      OK(tn_read(loss2, &l[1], 4));
      OK(tn_read(g2, gs[1], sizeof gs[1]));
      for (int64_t i = 0; i < m * OUT; i++)
        if (!(fabsf(got[i] - want[i]) <= tolerance))
          fail_msg("%s, batch %lld: y[%lld] is %.9g, not %.9g", tn_device_of(w), (long long)m, (long long)i,
                   (double)got[i], (double)want[i]);
      if (!(fabsf(l[0] - l[1]) <= tolerance))
        fail_msg("%s, batch %lld: the loss is %.9g, not %.9g", tn_device_of(w), (long long)m, (double)l[0],
                 (double)l[1]);
      for (int i = 0; i < IN * OUT; i++)
        if (!(fabsf(gs[0][i] - gs[1][i]) <= tolerance))
          fail_msg("%s, batch %lld: g[%d] is %.9g, not %.9g", tn_device_of(w), (long long)m, i, (double)gs[0][i],
                   (double)gs[1][i]);
    }
    tn_program_close(p);
  }
}

static void symbolic_batch(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  symbolic(c, 0);
  tn_ctx_close(c);
  c = open_cpu();
  symbolic(c, 2e-6f);
  tn_ctx_close(c);
}

/* ---- loops ------------------------------------------------------------------------------------------------------- */

/* An Adam step by hand: w, m, v and a changing rate. */
static void adam(tn_ctx *c, tn_tensor *w, tn_tensor *m, tn_tensor *v, double lr) {
  tn_tensor *g = tn_mul_scalar(w, 2), *rate = tn_scalar(c, TN_F32, lr);
  tn_tensor *m2 = tn_add(tn_mul_scalar(m, 0.9), tn_mul_scalar(g, 0.1)),
            *v2 = tn_add(tn_mul_scalar(v, 0.999), tn_mul_scalar(tn_square(g), 0.001));
  OK(tn_assign(w, tn_sub(w, tn_mul(rate, tn_div(m2, tn_add_scalar(tn_sqrt(v2), 1e-8))))));
  OK(tn_assign(m, m2));
  OK(tn_assign(v, v2));
  OK(tn_realize((tn_tensor *const[]){w, m, v}, 3));
}

static void uncaptured_steps(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_scope(c) {
    tn_tensor *w = f32s(c, DIMS(3), (float[]){1, -2, 3}), *m = f32s(c, DIMS(3), (float[]){0, 0, 0}),
              *v = f32s(c, DIMS(3), (float[]){0, 0, 0});
    float ws[3] = {1, -2, 3}, ms[3] = {0}, vs[3] = {0}, got[3];
    for (int i = 0; i < 1000; i++) {
      float lr = 1e-2f / (float)(1 + i);
      tn_scope(c) adam(c, w, m, v, (double)lr);
      for (int k = 0; k < 3; k++) {
        float g = ws[k] * 2;
        ms[k] = ms[k] * 0.9f + g * 0.1f;
        vs[k] = vs[k] * 0.999f + g * g * 0.001f;
        ws[k] = ws[k] - lr * (ms[k] / (sqrtf(vs[k]) + 1e-8f));
      }
    }
    assert_int_equal(stats(c).schedules_compiled, 1);
    assert_int_equal(stats(c).schedules_reused, 999);
    OK(tn_read(w, got, sizeof got));
    for (int k = 0; k < 3; k++) assert_true(got[k] == ws[k]);
    /* a rate that is written, not made anew */
    tn_tensor *rate = tn_scalar(c, TN_F32, 1);
    OK(tn_realize(&rate, 1));
    uint64_t before = stats(c).schedules_compiled;
    for (int i = 0; i < 10; i++) tn_scope(c) {
      float r = (float)i;
      OK(tn_write(rate, &r, 4));
      OK(tn_assign(w, tn_mul(w, rate)));
      OK(tn_realize(&w, 1));
    }
    assert_true(stats(c).schedules_compiled <= before + 1);
  }
  tn_ctx_close(c);
}

static void flat_memory(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_scope(c) {
    tn_tensor *w = f32s(c, DIMS(4), (float[]){1, 2, 3, 4});
    tn_stats early = {0}, late;
    const char *steps = getenv("TENET_STEPS"); /* the nightly run makes a million */
    long n = steps ? atol(steps) : 100000;
    for (long i = 0; i < n; i++) {
      tn_scope(c) {
        tn_tensor *x = f32s(c, DIMS(4), (float[]){(float)i, 1, 2, 3});
        OK(tn_assign(w, tn_add(tn_mul_scalar(w, 0.5), tn_mul(x, tn_scalar(c, TN_F32, (double)i)))));
        OK(tn_realize(&w, 1));
      }
      if (i == 1000) early = stats(c);
    }
    late = stats(c);
    assert_int_equal(late.heap_bytes, early.heap_bytes);
    assert_int_equal(late.nodes_live, early.nodes_live);
    assert_int_equal(late.handles_live, early.handles_live);
    assert_int_equal(late.buffer_bytes, early.buffer_bytes);
    assert_int_equal(late.pool_bytes, early.pool_bytes);
    assert_int_equal(late.heap_peak, early.heap_peak);
  }
  tn_ctx_close(c);
}

/* ---- random numbers ---------------------------------------------------------------------------------------------- */

static tn_tensor *noise(tn_ctx *c) {
  tn_tensor *ones = tn_ones(c, TN_F32, DIMS(50));
  return tn_mul(tn_cast(tn_bernoulli(c, DIMS(50), 0.5), TN_F32), tn_add(ones, tn_uniform(c, TN_F32, DIMS(50), 0, 1)));
}

static void random_state(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  float want[3][50], got[3][50];
  uint64_t seed, calls[2];
  tn_scope(c) {
    OK(tn_manual_seed(c, 42));
    for (int i = 0; i < 3; i++) OK(tn_read(noise(c), want[i], sizeof want[i]));
    OK(tn_rng_get_state(c, &seed, &calls[0]));
    assert_memory_not_equal(want[0], want[1], sizeof want[0]);
    OK(tn_manual_seed(c, 42));
    tn_program *p = tn_program_begin(c);
    OK(tn_program_output(p, "y", noise(c)));
    OK(tn_program_end(p));
    for (int i = 0; i < 3; i++) {
      OK(tn_program_run(p));
      OK(tn_program_read(p, "y", got[i], sizeof got[i]));
      assert_memory_equal(got[i], want[i], sizeof got[i]); /* captured or not: the same stream */
    }
    OK(tn_rng_get_state(c, &seed, &calls[1]));
    assert_int_equal(calls[0], calls[1]);
    /* saved and restored in the middle */
    OK(tn_rng_set_state(c, 42, calls[1] / 3));
    OK(tn_program_run(p));
    OK(tn_program_read(p, "y", got[0], sizeof got[0]));
    assert_memory_equal(got[0], want[1], sizeof got[0]);
    OK(tn_read(noise(c), got[0], sizeof got[0])); /* and uncaptured goes on from there */
    assert_memory_equal(got[0], want[2], sizeof got[0]);
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

/* Dropout's mask is one node: forward and backward agree, captured and not. */
static void dropout(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  float ones[40], y[40], g[40], y2[40], g2[40];
  for (int i = 0; i < 40; i++) ones[i] = 1;
  tn_scope(c) {
    for (int captured = 0; captured < 2; captured++) {
      OK(tn_manual_seed(c, 7));
      tn_tensor *x = f32s(c, DIMS(40), ones), *dx;
      tn_program *p = captured ? tn_program_begin(c) : NULL;
      tn_tensor *d = tn_dropout(x, 0.4, true);
      OK(tn_grad(tn_sum(d, NULL, 0, false), 1, &x, &dx));
      if (captured) {
        OK(tn_program_output(p, "y", d));
        OK(tn_program_output(p, "g", dx));
        OK(tn_program_end(p));
        OK(tn_program_run(p));
        OK(tn_program_read(p, "y", y2, sizeof y2));
        OK(tn_program_read(p, "g", g2, sizeof g2));
        tn_program_close(p);
      } else {
        OK(tn_realize((tn_tensor *const[]){d, dx}, 2));
        OK(tn_read(d, y, sizeof y));
        OK(tn_read(dx, g, sizeof g));
      }
    }
  }
  assert_memory_equal(y, g, sizeof y);
  assert_memory_equal(y, y2, sizeof y);
  assert_memory_equal(g, g2, sizeof g);
  int zeros = 0;
  for (int i = 0; i < 40; i++) zeros += y[i] == 0;
  assert_true(zeros > 4 && zeros < 36);
  tn_ctx_close(c);
}

/* ---- assignment -------------------------------------------------------------------------------------------------- */

static void assignment(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  float v[6];
  tn_scope(c) {
    tn_tensor *a = f32s(c, DIMS(2, 3), (float[]){1, 2, 3, 4, 5, 6});
    tn_tensor *before = tn_add_scalar(a, 10), *half = tn_slice(a, 1, 0, 2, 1);
    OK(tn_assign(a, tn_mul_scalar(a, 2)));
    tn_tensor *after = tn_add_scalar(a, 10);
    OK(tn_read(after, v, sizeof v));
    assert_memory_equal(v, ((float[]){12, 14, 16, 18, 20, 22}), sizeof v);
    OK(tn_read(before, v, sizeof v)); /* built earlier: the old value, though read later */
    assert_memory_equal(v, ((float[]){11, 12, 13, 14, 15, 16}), sizeof v);
    OK(tn_read(half, v, 16));
    assert_memory_equal(v, ((float[]){1, 2, 4, 5}), 16);
    OK(tn_assign(tn_slice(a, 0, 1, 2, 1), tn_scalar(c, TN_F32, -1))); /* a slice, by broadcast */
    OK(tn_read(a, v, sizeof v));
    assert_memory_equal(v, ((float[]){2, 4, 6, -1, -1, -1}), sizeof v);
    OK(tn_assign(tn_flip(tn_select(a, 0, 0), NULL, 0), f32s(c, DIMS(3), (float[]){7, 8, 9})));
    OK(tn_read(a, v, sizeof v));
    assert_memory_equal(v, ((float[]){9, 8, 7, -1, -1, -1}), sizeof v);
    tn_tensor *old = tn_mul_scalar(a, 1);
    OK(tn_write(a, (float[]){0, 0, 0, 0, 0, 0}, sizeof v));
    OK(tn_read(old, v, sizeof v));
    assert_memory_equal(v, ((float[]){9, 8, 7, -1, -1, -1}), sizeof v);
    /* two assignments, one realise; and swapping two tensors */
    tn_tensor *b = f32s(c, DIMS(2), (float[]){1, 2}), *d = f32s(c, DIMS(2), (float[]){3, 4}), *b0 = tn_mul_scalar(b, 1);
    OK(tn_assign(b, d));
    OK(tn_assign(d, b0));
    OK(tn_realize((tn_tensor *const[]){b, d}, 2));
    OK(tn_read(b, v, 8));
    assert_memory_equal(v, ((float[]){3, 4}), 8);
    OK(tn_read(d, v, 8));
    assert_memory_equal(v, ((float[]){1, 2}), 8);
  }
  tn_ctx_close(c);
}

/* ---- state of programs ------------------------------------------------------------------------------------------- */

static void program_state(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_scope(c) {
    tn_tensor *w = f32s(c, DIMS(2), (float[]){1, 2}), *lr = tn_scalar(c, TN_F32, 1);
    float v[2];
    OK(tn_realize(&lr, 1));
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(2));
    tn_tensor *seen = tn_mul_scalar(w, 10);
    OK(tn_assign(w, tn_add(w, tn_mul(lr, x))));
    OK(tn_program_output(p, "before", seen));
    OK(tn_program_output(p, "after", w));
    OK(tn_program_end(p));
    OK(tn_read(w, v, 8)); /* recording has changed nothing */
    assert_memory_equal(v, ((float[]){1, 2}), 8);
    OK(tn_program_write(p, "x", DIMS(2), (float[]){5, 6}, 8));
    OK(tn_program_run(p));
    OK(tn_program_read(p, "before", v, 8));
    assert_memory_equal(v, ((float[]){10, 20}), 8);
    OK(tn_program_read(p, "after", v, 8));
    assert_memory_equal(v, ((float[]){6, 8}), 8);
    OK(tn_read(w, v, 8));
    assert_memory_equal(v, ((float[]){6, 8}), 8);
    tn_tensor *kept = tn_add_scalar(w, 0.5);       /* built between runs */
    OK(tn_write(lr, &(float){100}, 4));            /* what is written is what the next run sees */
    OK(tn_write(w, (float[]){0, 1}, 8));
    OK(tn_program_run(p));
    OK(tn_read(w, v, 8));
    assert_memory_equal(v, ((float[]){500, 601}), 8);
    OK(tn_read(kept, v, 8));
    assert_memory_equal(v, ((float[]){6.5, 8.5}), 8);
    OK(tn_assign(w, tn_neg(w))); /* assigned, not realised: the run sees that too */
    OK(tn_program_run(p));
    OK(tn_read(w, v, 8));
    assert_memory_equal(v, ((float[]){0, -1}), 8);
    /* a bound input, and a result */
    tn_tensor *in = f32s(c, DIMS(2), (float[]){1, 1}), *r;
    OK(tn_program_bind(p, "x", in));
    OK(tn_program_run(p));
    r = tn_program_result(p, "after");
    assert_non_null(r);
    OK(tn_read(tn_add_scalar(r, 1), v, 8));
    assert_memory_equal(v, ((float[]){101, 100}), 8);
    OK(tn_write(in, (float[]){2, 2}, 8));
    OK(tn_program_run(p));
    OK(tn_read(w, v, 8));
    assert_memory_equal(v, ((float[]){300, 299}), 8);
    tn_program_close(p);
    OK(tn_read(r, v, 8)); /* a result outlives its program */
  }
  tn_ctx_close(c);
}

/* A slice as state, and a tensor that is input and state of two programs at once */
static void shared_state(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_scope(c) {
    tn_tensor *w = f32s(c, DIMS(4), (float[]){1, 2, 3, 4});
    float v[4];
    tn_program *p = tn_program_begin(c), *q;
    OK(tn_assign(tn_slice(w, 0, 1, 3, 1), tn_mul_scalar(tn_slice(w, 0, 0, 2, 1), 10)));
    OK(tn_program_end(p));
    q = tn_program_begin(c);
    OK(tn_program_output(q, "sum", tn_sum(w, NULL, 0, false)));
    OK(tn_assign(w, tn_add_scalar(w, 1)));
    OK(tn_program_end(q));
    OK(tn_program_run(p));
    OK(tn_read(w, v, 16));
    assert_memory_equal(v, ((float[]){1, 10, 20, 4}), 16);
    OK(tn_program_run(q));
    OK(tn_program_read(q, "sum", v, 4));
    assert_true(v[0] == 35);
    OK(tn_program_run(p));
    OK(tn_program_run(q));
    OK(tn_program_read(q, "sum", v, 4));
    assert_true(v[0] == 2 + 20 + 110 + 5);
    OK(tn_read(w, v, 16));
    assert_memory_equal(v, ((float[]){3, 21, 111, 6}), 16);
    tn_program_close(p);
    tn_program_close(q);
  }
  tn_ctx_close(c);
}

static void replay_allocates_nothing(void **s) {
  (void)s;
  for (int device = 0; device < 2; device++) {
    tn_ctx *c = device ? open_cpu() : open_ref();
    tn_scope(c) {
      tn_tensor *w = f32s(c, DIMS(8, 4), (float[32]){1, 2, 3});
      tn_dim n = tn_dim_var(c, "B", 1, 64);
      static const float xs[64 * 8] = {1, 2, 3};
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(n, 8)),
                *y = tn_softmax(tn_matmul(tn_dropout(x, 0.5, true), w), -1), *g;
      tn_tensor *loss = tn_mean(y, NULL, 0, false);
      OK(tn_grad(loss, 1, &w, &g));
      OK(tn_assign(w, tn_sub(w, g)));
      OK(tn_program_output(p, "loss", loss));
      OK(tn_program_end(p));
      OK(tn_program_write(p, "x", DIMS(64, 8), xs, sizeof xs));
      /* a GPU records the second run with each of two sets of buffers */
      for (int i = 0; i < 6; i++) OK(tn_program_run(p));
      int64_t before = c->mem.count;
      float l;
      for (int i = 0; i < 20; i++) {
        OK(tn_program_write(p, "x", DIMS(64, 8), xs, sizeof xs));
        OK(tn_program_run(p));
        OK(tn_program_read(p, "loss", &l, 4));
      }
      assert_int_equal(c->mem.count - before, 0);
      tn_program_close(p);
    }
    tn_ctx_close(c);
  }
}

/* ---- errors ------------------------------------------------------------------------------------------------------ */

static void errors(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_scope(c) {
    float v[64] = {0};
    tn_dim n = tn_dim_var(c, "N", 2, 8);
    tn_tensor *w = f32s(c, DIMS(3), v);
    tn_program *p = tn_program_begin(c);
    assert_null(tn_program_begin(c));
    FAILS(tn_last_error(c)->status, TN_ESTATE);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(n, 3)), *y = tn_program_input(p, "y", TN_F32, DIMS(n));
    assert_null(tn_program_input(p, "x", TN_F32, DIMS(3)));
    FAILS(tn_last_error(c)->status, TN_EINVAL);
    FAILS(tn_read(w, v, 12), TN_ESTATE); /* no reading while recording */
    tn_tensor *t = tn_add(x, w);
    FAILS(tn_realize(&t, 1), TN_ESTATE);
    FAILS(tn_write(w, v, 12), TN_ESTATE);
    FAILS(tn_program_run(p), TN_ESTATE);
    OK(tn_program_output(p, "z", tn_add(tn_sum(t, (const int[]){1}, 1, false), y)));
    FAILS(tn_program_output(p, "z", t), TN_EINVAL);
    FAILS(tn_program_output(p, "q", NULL), TN_EINVAL);
    OK(tn_program_end(p));
    FAILS(tn_program_end(p), TN_ESTATE);
    FAILS(tn_read(t, v, 12), TN_EBOUND); /* the value depends on an input */
    FAILS(tn_program_run(p), TN_ESTATE);                /* unbound */
    FAILS(tn_program_write(p, "nobody", DIMS(4), v, 16), TN_EINVAL);
    FAILS(tn_program_write(p, "x", DIMS(4), v, 16), TN_ESHAPE);
    FAILS(tn_program_write(p, "x", DIMS(4, 4), v, 64), TN_ESHAPE);
    FAILS(tn_program_write(p, "x", DIMS(4, 3), v, 44), TN_EINVAL);
    FAILS(tn_program_write(p, "x", DIMS(9, 3), v, 108), TN_EBOUND);
    FAILS(tn_program_write(p, "x", DIMS(1, 3), v, 12), TN_EBOUND);
    FAILS(tn_program_bind(p, "x", tn_from(c, TN_F64, DIMS(4, 3), (double[12]){0})), TN_EDTYPE);
    FAILS(tn_program_bind(p, "x", tn_add(w, w)), TN_ESTATE);
    FAILS(tn_program_bind(p, "x", NULL), TN_EINVAL);
    OK(tn_program_write(p, "x", DIMS(4, 3), v, 48));
    FAILS(tn_program_read(p, "z", v, 16), TN_ESTATE); /* not run yet */
    OK(tn_program_write(p, "y", DIMS(5), v, 20));
    FAILS(tn_program_run(p), TN_EBOUND); /* x says 4, y says 5 */
    OK(tn_program_write(p, "x", DIMS(5, 3), v, 60));
    OK(tn_program_run(p));
    FAILS(tn_program_read(p, "z", v, 16), TN_EINVAL); /* five floats, not four */
    OK(tn_program_read(p, "z", v, 20));
    OK(tn_program_write(p, "y", DIMS(4), v, 16)); /* and again: the size that was is not what counts */
    FAILS(tn_program_run(p), TN_EBOUND);
    OK(tn_program_bind(p, "x", f32s(c, DIMS(4, 3), v)));
    OK(tn_program_run(p));
    tn_program_close(p);
    p = tn_program_begin(c);
    FAILS(tn_program_end(p), TN_EINVAL); /* computes nothing */
    FAILS(tn_program_run(p), TN_ESTATE);
    tn_program_close(p);
    /* given up half-way: assignments are undone */
    p = tn_program_begin(c);
    OK(tn_assign(w, tn_add_scalar(w, 1)));
    tn_program_close(p);
    OK(tn_read(w, v, 12));
    assert_true(v[0] == 0);
    tn_tensor *free_ = tn_zeros(c, TN_F32, DIMS(n));
    FAILS(tn_realize(&free_, 1), TN_EBOUND);
    assert_true(isfinite(item(tn_sum(w, NULL, 0, false))));
  }
  tn_ctx_close(c);
}

/* Sizes whose product wraps to the bytes given. */
static void sizes_that_wrap(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  int64_t most = INT64_C(1) << 40;
  tn_dim n = tn_dim_var(c, "N", 0, most), m = tn_dim_var(c, "M", 0, most);
  tn_program *p = tn_program_begin(c);
  OK(tn_program_output(p, "y", tn_neg(tn_program_input(p, "x", TN_F32, DIMS(n, m)))));
  OK(tn_program_end(p));
  FAILS(tn_program_write(p, "x", DIMS(INT64_C(1) << 32, INT64_C(1) << 30), NULL, 0), TN_EINVAL); /* times 4: 2^64 */
  FAILS(tn_program_run(p), TN_ESTATE);
  OK(tn_program_write(p, "x", DIMS(3, 0), NULL, 0));
  OK(tn_program_run(p));
  tn_ctx_close(c);
}

/* Views are what runs make of them, whether they have memory of their own, since they were realised, or not: then they
 * are part of what their tensor is after each run, for no memory.  Handles that were made in the recording are not. */
static void assigned_views(void **s) {
  (void)s;
  for (int realised = 0; realised < 2; realised++)
    for (int part = 0; part < 2; part++) {
      tn_ctx *c = open_cpu();
      tn_scope(c) {
        float got[4];
        tn_tensor *x = f32s(c, DIMS(4), (float[]){1, 2, 3, 4});
        tn_tensor *view = part ? tn_slice(x, 0, 1, 3, 1) : tn_reshape(x, DIMS(2, 2));
        if (realised) OK(tn_realize(&view, 1));
        tn_program *p = tn_program_begin(c);
        tn_scope(c) {
          OK(tn_assign(view, tn_mul_scalar(view, 2)));
          OK(tn_assign(part ? tn_slice(x, 0, 1, 3, 1) : tn_reshape(x, DIMS(2, 2)), tn_add_scalar(view, 1)));
          OK(tn_assign(view, part ? tn_slice(x, 0, 1, 3, 1) : tn_reshape(x, DIMS(2, 2))));
        }
        OK(tn_program_end(p));
        assert_int_equal(tn_program_count(p, TN_PROGRAM_STATE), realised ? 2 : 1);
        for (int run = 0; run < 3; run++) OK(tn_program_run(p));
        OK(tn_read(x, got, sizeof got)); /* 2 v + 1, three times */
        for (int i = 0; i < 4; i++)
          assert_true(got[i] == (part && (i == 0 || i == 3) ? (float)(i + 1) : (float)(8 * (i + 1) + 7)));
        OK(tn_read(view, got, part ? 8 : 16));
        for (int i = 0; i < (part ? 2 : 4); i++) assert_float_equal(got[i], (float)(8 * (i + 1 + part) + 7), 0);
        OK(tn_assign(view, tn_neg(view))); /* without a program */
        OK(tn_read(view, got, part ? 8 : 16));
        assert_true(got[0] == (part ? -23 : -15));
        OK(tn_read(x, got, sizeof got));
        assert_float_equal(got[1], -23, 0);
        assert_true(got[3] == (part ? 4 : -39));
        tn_program_close(p);
      }
      tn_ctx_close(c);
    }
}

/* Views of one vector that are trained by a program are no more memory than it, and nothing is allocated in a run.
 * What others hold of the vector as it was stays. */
static void views_of_a_vector(void **s) {
  (void)s;
  tn_ctx *c = open_cpu();
  tn_scope(c) {
    enum { N = 1024, VIEWS = 4 };
    float got[N], ones[N];
    for (int i = 0; i < N; i++) ones[i] = 1;
    tn_tensor *x = f32s(c, DIMS(N), ones), *v[VIEWS];
    for (int i = 0; i < VIEWS; i++)
      v[i] = tn_reshape(tn_slice(x, 0, i * (N / VIEWS), (i + 1) * (N / VIEWS), 1), DIMS(N / VIEWS / 8, 8));
    tn_program *p = tn_program_begin(c);
    for (int i = 0; i < VIEWS; i++) OK(tn_assign(v[i], tn_mul_scalar(v[i], i + 1)));
    OK(tn_program_end(p));
    assert_int_equal(tn_program_count(p, TN_PROGRAM_STATE), 1);
    for (int i = 0; i < 6; i++) OK(tn_program_run(p)); /* as above */
    int64_t before = c->mem.count;
    uint64_t bytes = stats(c).buffer_bytes;
    for (int i = 0; i < 4; i++) OK(tn_program_run(p));
    assert_int_equal(c->mem.count - before, 0);
    assert_true(stats(c).buffer_bytes == bytes);
    OK(tn_read(v[1], got, sizeof got / VIEWS));
    assert_float_equal(got[N / VIEWS - 1], 1024, 0); /* 2 to the power of ten runs */
    tn_tensor *kept = tn_reshape(tn_slice(x, 0, N / VIEWS, 2 * (N / VIEWS), 1), DIMS(N / VIEWS / 8, 8));
    OK(tn_program_run(p));
    OK(tn_read(kept, got, sizeof got / VIEWS));
    assert_float_equal(got[0], 1024, 0);
    OK(tn_read(v[1], got, sizeof got / VIEWS));
    assert_float_equal(got[0], 2048, 0);
    OK(tn_write(x, ones, sizeof ones)); /* from outside */
    OK(tn_program_run(p));
    OK(tn_read(v[3], got, sizeof got / VIEWS));
    assert_float_equal(got[7], 4, 0);
    OK(tn_realize(&v[2], 1)); /* memory of its own: until the next run, as another program may see it */
    tn_program *q = tn_program_begin(c);
    OK(tn_program_output(q, "v", tn_neg(v[2])));
    OK(tn_program_end(q));
    for (int i = 0; i < 3; i++) {
      OK(tn_program_run(p));
      OK(tn_program_run(q));
      OK(tn_program_read(q, "v", got, sizeof got / VIEWS));
      assert_float_equal(got[5], -powf(3, (float)(2 + i)), 0);
    }
    tn_program_close(q);
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

/* A handle that is given back once too often while a recording keeps what was assigned to it. */
static void released_twice(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_tensor *w = f32s(c, DIMS(2), (float[]){1, 2});
  tn_program *p = tn_program_begin(c);
  OK(tn_program_output(p, "y", w));
  OK(tn_assign(w, tn_add(w, w)));
  for (int i = 0; i < 3; i++) {
    tn_release(w);
    tn_neg(tn_const(c, TN_F32, 1)); /* where releases take effect */
  }
  OK(tn_program_end(p));
  for (float v = 1; v < 8; v *= 2) {
    float y[2];
    OK(tn_program_run(p));
    OK(tn_program_read(p, "y", y, sizeof y));
    assert_true(y[0] == v && y[1] == 2 * v);
  }
  tn_ctx_close(c);
}

/* What was assigned is state, whether or not its handle outlives the recording. */
static void assigned_in_a_scope(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_tensor *w = f32s(c, DIMS(2), (float[]){1, 2});
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, NULL, 0), *y = NULL;
  tn_scope(c) {
    tn_tensor *sum = tn_from(c, TN_F32, NULL, 0, (float[]){10}), *pair = f32s(c, DIMS(2), (float[]){100, 200});
    OK(tn_assign(sum, tn_add(sum, x)));
    OK(tn_assign(tn_select(pair, 0, 1), sum)); /* through a slice, which ends first */
    OK(tn_assign(w, tn_add(w, pair)));
    y = tn_keep(tn_sum(pair, NULL, 0, false));
  }
  uint64_t live = stats(c).handles_live;
  OK(tn_program_output(p, "y", y));
  OK(tn_program_end(p));
  assert_true(stats(c).handles_live <= live);
  for (int i = 1; i <= 3; i++) {
    float v, got[2];
    OK(tn_program_write(p, "x", NULL, 0, &(float){1}, 4));
    OK(tn_program_run(p));
    OK(tn_program_read(p, "y", &v, 4));
    assert_true(v == 110.0f + (float)i);
    OK(tn_read(w, got, 8));
    assert_true(got[0] == 1.0f + 100.0f * (float)i);
  }
  tn_program_close(p);
  tn_neg(w); /* where releases take effect */
  assert_true(stats(c).handles_live < live); /* what the program held is gone */
  /* given up: nothing is left of it, and scopes end as ever */
  live = stats(c).handles_live;
  p = tn_program_begin(c);
  tn_scope(c) {
    tn_tensor *t = f32s(c, DIMS(2), (float[]){1, 2});
    OK(tn_assign(t, tn_neg(t)));
  }
  tn_program_close(p);
  assert_int_equal(stats(c).handles_live, live);
  tn_ctx_close(c);
}

/* Two programs of one graph share its compiled schedule, but not sizes, inputs or outputs. */
static void twins(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_scope(c) {
    tn_dim n = tn_dim_var(c, "N", 1, 8), shape[1];
    tn_program *p[2];
    float v[8] = {0};
    for (int i = 0; i < 2; i++) {
      p[i] = tn_program_begin(c);
      OK(tn_program_output(p[i], "y", tn_add_scalar(tn_program_input(p[i], "x", TN_F32, DIMS(n)), 1)));
      OK(tn_program_end(p[i]));
    }
    assert_int_equal(stats(c).schedules_compiled, 1);
    OK(tn_program_write(p[0], "x", DIMS(8), (float[]){1, 2, 3, 4, 5, 6, 7, 8}, 32));
    OK(tn_program_write(p[1], "x", DIMS(2), (float[]){10, 20}, 8));
    OK(tn_program_run(p[0]));
    OK(tn_program_run(p[1]));
    OK(tn_program_read(p[0], "y", v, 32));
    assert_memory_equal(v, ((float[]){2, 3, 4, 5, 6, 7, 8, 9}), 32);
    OK(tn_program_read(p[1], "y", v, 8));
    assert_memory_equal(v, ((float[]){11, 21}), 8);
    OK(tn_shape(tn_program_result(p[0], "y"), shape));
    assert_int_equal(shape[0], 8);
    tn_program_close(p[0]);
    OK(tn_program_run(p[1]));
    tn_program_close(p[1]);
  }
  tn_ctx_close(c);
}

/* A view and its base, the same tensor twice, inputs as outputs */
static void odd_outputs(void **s) {
  (void)s;
  tn_ctx *c = open_ref();
  tn_scope(c) {
    tn_tensor *w = f32s(c, DIMS(2), (float[]){1, 2});
    float v[2];
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(2)), *y = tn_neg(x);
    OK(tn_program_output(p, "x", x));
    OK(tn_program_output(p, "y", y));
    OK(tn_program_output(p, "y2", y));
    OK(tn_program_output(p, "w", w));
    OK(tn_program_output(p, "flipped", tn_flip(x, NULL, 0)));
    OK(tn_program_output(p, "one", tn_const(c, TN_F32, 1)));
    OK(tn_program_end(p));
    OK(tn_program_write(p, "x", DIMS(2), (float[]){3, 4}, 8));
    OK(tn_program_run(p));
    static const struct {
      const char *name;
      float want[2];
      size_t bytes;
    } rows[] = {{"x", {3, 4}, 8}, {"y", {-3, -4}, 8},     {"y2", {-3, -4}, 8},
                {"w", {1, 2}, 8}, {"flipped", {4, 3}, 8}, {"one", {1, 0}, 4}};
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      OK(tn_program_read(p, rows[i].name, v, rows[i].bytes));
      assert_memory_equal(v, rows[i].want, rows[i].bytes);
    }
    tn_program_close(p);
    tn_tensor *same = tn_neg(w), *list[] = {same, same, w, tn_neg(w)};
    OK(tn_realize(list, 4));
    OK(tn_read(list[3], v, 8));
    assert_memory_equal(v, ((float[]){-1, -2}), 8);
  }
  tn_ctx_close(c);
}

/* Other handles of the same value, made by ops that change nothing, are not what a program reads. */
static void same_value(void **state) {
  (void)state;
  tn_ctx *c = open_cpu();
  tn_scope(c) {
    tn_tensor *w = f32s(c, DIMS(1, 2), (float[]){1, 1}), *moved = tn_to(w, tn_device_of(w)), *grad = NULL;
    float loss = 0;
    assert_non_null(moved);
    tn_params *all = tn_params_open(c);
    tn_params_add(all, "w", w);
    tn_optim *sgd = tn_sgd(all, 0.25, 0, 0, false);
    tn_program *p = tn_program_begin(c);
    /* no scope: these handles live on */
    tn_tensor *l = tn_sum(tn_square(tn_reshape(tn_cast(w, TN_F32), DIMS(1, -1))), NULL, 0, false);
    OK(tn_grad(l, 1, &w, &grad));
    OK(tn_optim_step(sgd, &grad));
    OK(tn_program_output(p, "loss", l));
    OK(tn_program_end(p));
    for (int i = 0; i < 4; i++) { /* w <- w - w / 2 */
      OK(tn_program_run(p));
      OK(tn_program_read(p, "loss", &loss, sizeof loss));
      assert_true(loss == 2.0f / (float)(1 << 2 * i));
    }
    OK(tn_write(w, (float[]){3, 4}, 8));
    OK(tn_program_run(p));
    OK(tn_program_read(p, "loss", &loss, sizeof loss));
    assert_true(loss == 25);
    tn_program_close(p);
    tn_optim_close(sgd);
    tn_params_close(all);
  }
  tn_ctx_close(c);
}

/* A kernel may know of any number of symbolic sizes.  (PoCL takes minutes to compile it.) */
static void many_sizes(void **state) {
  (void)state;
  enum { MANY = 68 };
  if (!strncmp(device_or(""), "opencl", 6)) skip();
  tn_ctx *c = open_cpu();
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *in[MANY];
    char name[16];
    for (int i = 0; i < MANY; i++) {
      snprintf(name, sizeof name, "n%d", i);
      in[i] = tn_program_input(p, name, TN_F32, DIMS(tn_dim_var(c, name, 1, 8)));
    }
    OK(tn_program_output(p, "y", tn_sum(tn_concatenate(in, MANY, 0), NULL, 0, false)));
    OK(tn_program_end(p));
    float total = 0, want = 0;
    for (int i = 0; i < MANY; i++) {
      float v[3] = {(float)i, 1, 2};
      snprintf(name, sizeof name, "n%d", i);
      OK(tn_program_write(p, name, DIMS(1 + i % 3), v, (size_t)(1 + i % 3) * sizeof *v));
      for (int k = 0; k < 1 + i % 3; k++) want += v[k];
    }
    OK(tn_program_run(p));
    OK(tn_program_read(p, "y", &total, sizeof total));
    assert_true(total == want);
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

/* ---- more programs than schedules are kept for ------------------------------------------------------------------- */

enum { PROGRAMS = 300 };

static void many_programs(void **state) {
  static float x[PROGRAMS + 1];
  float y[PROGRAMS + 1];
  tn_program *p[PROGRAMS];
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  (void)state;
  assert_non_null(c);
  for (int i = 0; i < PROGRAMS; i++) {
    p[i] = tn_program_begin(c);
    OK(tn_program_output(p[i], "y", tn_mul_scalar(tn_program_input(p[i], "x", TN_F32, DIMS(i + 1)), 3)));
    OK(tn_program_end(p[i]));
    x[i] = (float)i;
  }
  for (int i = 0; i < PROGRAMS; i++) {
    OK(tn_program_write(p[i], "x", DIMS(i + 1), x, ((size_t)i + 1) * sizeof *x));
    OK(tn_program_run(p[i]));
    OK(tn_program_read(p[i], "y", y, ((size_t)i + 1) * sizeof *y));
    for (int k = 0; k <= i; k++) assert_true(y[k] == 3 * x[k]);
    char *text = tn_program_explain_string(p[i]);
    assert_non_null(text);
    tn_string_free(text);
    tn_program_close(p[i]);
  }
  tn_tensor *t = tn_add_scalar(f32s(c, DIMS(PROGRAMS), x), 1); /* and nobody holds any */
  OK(tn_read(t, y, PROGRAMS * sizeof *y));
  for (int k = 0; k < PROGRAMS; k++) assert_true(y[k] == x[k] + 1);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(symbolic_batch),
      cmocka_unit_test(uncaptured_steps),
      cmocka_unit_test(many_programs),
      cmocka_unit_test(flat_memory),
      cmocka_unit_test(random_state),
      cmocka_unit_test(dropout),
      cmocka_unit_test(assignment),
      cmocka_unit_test(program_state),
      cmocka_unit_test(shared_state),
      cmocka_unit_test(replay_allocates_nothing),
      cmocka_unit_test(errors),
      cmocka_unit_test(odd_outputs),
      cmocka_unit_test(sizes_that_wrap),
      cmocka_unit_test(assigned_in_a_scope),
      cmocka_unit_test(assigned_views),
      cmocka_unit_test(views_of_a_vector),
      cmocka_unit_test(released_twice),
      cmocka_unit_test(twins),
      cmocka_unit_test(same_value),
      cmocka_unit_test(many_sizes),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
