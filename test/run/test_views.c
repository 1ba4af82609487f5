/* Outputs of programs that are movements of what is stored are not stored (schedule/views.c): whoever asks for one is
 * given the movement, and nobody can tell by a value, whoever writes, reads, binds or runs again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/ctx.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include <stdio.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))
#define OK(x) check_ok(c, x, __LINE__)

enum { ROWS = 8, COLUMNS = 16, N = ROWS * COLUMNS, MOST = 4 * N };

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}

/* from, from + 1, ... in memory */
static tn_tensor *square(tn_ctx *c, int from) {
  float v[N];
  for (int i = 0; i < N; i++) v[i] = (float)(from + i);
  return tn_from(c, TN_F32, DIMS(ROWS, COLUMNS), v);
}

static tn_stats stats(tn_ctx *c) {
  tn_stats s;
  tn_ctx_stats(c, &s);
  return s;
}

static int kernels_of(tn_ctx *c, tn_program *p) {
  tn_program_info info;
  OK(tn_program_get_info(p, &info));
  return info.kernels;
}

/* Each body is run with values compared by whoever verifies, and without. */
static void everywhere(void (*body)(tn_ctx *)) {
  const tn_options of[] = {{.device = device_or("ref"), .verify = "strict"},
                           {.device = "ref:sm_90", .verify = "strict"},
                           {.device = device_or("ref")},
                           {.device = device_or("cpu")},
                           {.device = device_or("ref"), .mode = TN_MODE_STRICT, .verify = "strict"}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    tn_options o = of[i];
    o.quiet = 1;
    tn_ctx *c = tn_ctx_open(&o);
    assert_non_null(c);
    tn_scope(c) body(c);
    assert_int_equal(stats(c).handles_live, 0);
    tn_ctx_close(c);
  }
}

/* ---- what is seen in other memory, and what is stored ---- */

static tn_tensor *turned(tn_tensor *x) { return tn_transpose(x, 0, 1); }
static tn_tensor *columns(tn_tensor *x) { return tn_slice(x, 1, 3, 11, 1); }
static tn_tensor *every_other(tn_tensor *x) { return tn_slice(tn_reshape(x, DIMS(N)), 0, 1, N, 2); }
static tn_tensor *flipped(tn_tensor *x) { return tn_flip(x, AXES(0, 1)); }
static tn_tensor *detached(tn_tensor *x) { return tn_detach(turned(tn_detach(x))); }
static tn_tensor *in_parts(tn_tensor *x) {
  return tn_permute(tn_reshape(x, DIMS(2, 4, 4, 4)), AXES(0, 2, 1, 3));
}
static tn_tensor *cut_turned(tn_tensor *x) { return tn_slice(tn_flip(turned(x), AXES(0)), 1, 0, ROWS, 3); }
static tn_tensor *windows(tn_tensor *x) { return tn_unfold(x, 1, 4, 2, 1); }
static tn_tensor *repeated(tn_tensor *x) {
  return tn_expand(tn_reshape(x, DIMS(ROWS, 1, COLUMNS)), DIMS(ROWS, 3, COLUMNS));
}
static tn_tensor *inner_gradient(tn_tensor *x) {
  tn_ctx *c = tn_ctx_of(x);
  tn_tensor *part[2] = {tn_neg(tn_slice(x, 1, 0, 6, 1)), tn_exp(tn_slice(x, 1, 0, 10, 1))}, *grad[2];
  OK(tn_vjp(tn_concatenate(part, 2, 1), x, 2, part, grad));
  return grad[1];
}
static tn_tensor *sum_gradient(tn_tensor *x) {
  tn_ctx *c = tn_ctx_of(x);
  tn_tensor *of = tn_neg(tn_reshape(repeated(x), DIMS(ROWS, 3, COLUMNS))), *grad;
  OK(tn_vjp(tn_sum(of, AXES(1), false), x, 1, &of, &grad));
  return grad;
}
static tn_tensor *mean_gradient(tn_tensor *x) {
  tn_ctx *c = tn_ctx_of(x);
  tn_tensor *of = tn_neg(repeated(x)), *grad;
  OK(tn_vjp(tn_mean(of, AXES(1), false), x, 1, &of, &grad));
  return grad;
}
static tn_tensor *spread_sum(tn_tensor *x) { return tn_expand(tn_sum(x, AXES(1), true), DIMS(ROWS, COLUMNS)); }
static tn_tensor *spread_row(tn_tensor *x) { return tn_expand(tn_slice(x, 0, 7, 8, 1), DIMS(ROWS, COLUMNS)); }
static tn_tensor *spread_made(tn_tensor *x) {
  tn_tensor *row = tn_slice(x, 0, 2, 3, 1);
  return tn_mul(tn_exp(tn_mul_scalar(tn_expand(row, DIMS(ROWS, COLUMNS)), 0.01)),
                tn_expand(tn_abs(row), DIMS(ROWS, COLUMNS)));
}
static tn_tensor *number(tn_tensor *x) { return tn_full(tn_ctx_of(x), TN_F32, DIMS(ROWS, COLUMNS), 3); }
static tn_tensor *place_along(tn_tensor *x) {
  return tn_cast(tn_expand(tn_reshape(tn_arange(tn_ctx_of(x), TN_F32, 0, ROWS, 1), DIMS(ROWS, 1)), DIMS(ROWS, COLUMNS)),
                 TN_F32);
}
static tn_tensor *asked_for(tn_tensor *x) { return tn_contiguous(turned(x)); }
static tn_tensor *spread_asked_for(tn_tensor *x) { return tn_contiguous(spread_sum(x)); }
static tn_tensor *unequal_steps(tn_tensor *x) { return tn_reshape(turned(x), DIMS(N)); }
static tn_tensor *little(tn_tensor *x) { return tn_slice(x, 1, 0, 1, 1); }
static tn_tensor *padded(tn_tensor *x) { return tn_pad(turned(x), (tn_dim[]){1, 0, 0, 0}, 0); }
static tn_tensor *padded_spread(tn_tensor *x) { return tn_pad(spread_row(x), (tn_dim[]){1, 0, 0, 0}, 0); }
static tn_tensor *negated(tn_tensor *x) { return turned(tn_neg(x)); }
static tn_tensor *none(tn_tensor *x) { return turned(tn_slice(x, 0, 4, 4, 1)); }
static tn_tensor *one(tn_tensor *x) { return tn_slice(tn_slice(x, 0, 4, 5, 1), 1, 2, 3, 1); }

static const struct {
  const char *what;
  tn_tensor *(*make)(tn_tensor *x);
  bool moved;
  int stored; /* elements that a kernel stores; -1: no kernel */
} forms[] = {{"turned", turned, true, -1},
             {"columns", columns, true, -1},
             {"every other", every_other, true, -1},
             {"flipped", flipped, true, -1},
             {"detached", detached, true, -1},
             {"axes between others", in_parts, true, -1},
             {"turned, flipped and cut", cut_turned, true, -1},
             {"windows", windows, true, -1},
             {"repeated", repeated, true, -1},
             {"the gradient of columns that were joined", inner_gradient, true, -1},
             {"the gradient of a sum", sum_gradient, true, -1},
             {"the gradient of a mean", mean_gradient, true, N},
             {"a sum all along its row", spread_sum, true, ROWS},
             {"a row of the input for all rows", spread_row, true, -1},
             {"what is made of a row", spread_made, true, COLUMNS},
             {"a number", number, true, 1},
             {"a place", place_along, true, ROWS},
             {"turned, and asked for", asked_for, false, N},
             {"a sum, asked for", spread_asked_for, false, N},
             {"no equal steps", unequal_steps, false, N},
             {"less than an eighth", little, false, ROWS},
             {"padded", padded, false, N + COLUMNS},
             {"rows that are the same but for the first", padded_spread, false, N + COLUMNS},
             {"negated", negated, false, N},
             {"no element", none, false, -1},
             {"one element", one, false, 1}};

static void each_form(tn_ctx *c) {
  for (size_t i = 0; i < sizeof forms / sizeof *forms; i++) tn_scope(c) {
      float got[MOST], want[MOST], shown[MOST];
      tn_tensor *t = square(c, 5), *z = tn_add_scalar(tn_contiguous(forms[i].make(t)), 0.5);
      size_t n = tn_nbytes(z), count = n / sizeof *got;
      OK(tn_read(z, want, n));
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(ROWS, COLUMNS));
      OK(tn_program_output(p, "y", forms[i].make(x)));
      OK(tn_program_end(p));
      if (kernels_of(c, p) != (forms[i].stored >= 0)) fail_msg("%s: %d kernels", forms[i].what, kernels_of(c, p));
      OK(tn_program_bind(p, "x", t));
      size_t before = stats(c).buffer_bytes;
      OK(tn_program_run(p));
      size_t more = stats(c).buffer_bytes - before, room = 64; /* of the smallest buffer */
      /* and what the schedule needs meanwhile */
      size_t most = (forms[i].stored < 0 ? room : (size_t)forms[i].stored * sizeof *got + room) + room;
      if (more > most) fail_msg("%s: %zu bytes are stored", forms[i].what, more);
      OK(tn_program_read(p, "y", got, n));
      tn_tensor *y = tn_program_result(p, "y");
      assert_non_null(y);
      if ((y->node->op != OP_STORAGE) != forms[i].moved) fail_msg("%s: is stored, or is not", forms[i].what);
      OK(tn_read(y, shown, n));
      for (size_t k = 0; k < count; k++)
        if (got[k] + 0.5f != want[k] || shown[k] + 0.5f != want[k]) fail_msg("%s: element %zu", forms[i].what, k);
      tn_program_close(p);
    }
}

/* Outputs hold an input together: of sixteen columns each is less than an eighth of it, but two are that. */
static void together(tn_ctx *c) {
  for (int n = 1; n <= 2; n++) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(ROWS, COLUMNS)), *t = square(c, 0);
    for (int i = 0; i < n; i++) OK(tn_program_output(p, i ? "1" : "0", tn_slice(x, 1, 7 * i, 7 * i + 1, 1)));
    OK(tn_program_end(p));
    assert_int_equal(kernels_of(c, p), n == 1);
    OK(tn_program_bind(p, "x", t));
    OK(tn_program_run(p));
    for (int i = 0; i < n; i++) {
      float v[ROWS];
      OK(tn_program_read(p, i ? "1" : "0", v, sizeof v));
      for (int k = 0; k < ROWS; k++) assert_true((double)v[k] == COLUMNS * k + 7 * i);
    }
    tn_program_close(p);
  }
}

static void by_form(void **state) {
  (void)state;
  everywhere(each_form);
  everywhere(together);
}

/* ---- whose values stay ---- */

typedef struct expected {
  const char *name;
  double (*at)(int i, int j); /* added to the input's first element */
  int rows, columns;
} expected;

static double at_turned(int i, int j) { return j * COLUMNS + i; }
static double at_every(int i, int j) { return i * COLUMNS + 2 * j + 1; }
static double at_row(int i, int j) { return i * 0 + 3 * COLUMNS + j; }
static double at_all(int i, int j) { return i * COLUMNS + j; }

static const expected outputs[] = {{"turned", at_turned, COLUMNS, ROWS},
                                   {"again", at_turned, COLUMNS, ROWS},
                                   {"every", at_every, ROWS, COLUMNS / 2},
                                   {"row", at_row, 5, COLUMNS},
                                   {"made", at_all, ROWS, COLUMNS},
                                   {"made again", at_all, ROWS, COLUMNS},
                                   {"made turned", at_turned, COLUMNS, ROWS},
                                   {"stored", at_turned, COLUMNS, ROWS}};
enum { OUTPUTS = sizeof outputs / sizeof *outputs };

/* "made" is the input, too, but computed: the half of what it is twice. */
static tn_program *many(tn_ctx *c) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(ROWS, COLUMNS)), *sum = tn_add(x, tn_abs(x));
  tn_tensor *made = tn_mul_scalar(sum, 0.5), *row = tn_slice(made, 0, 3, 4, 1);
  OK(tn_program_output(p, "turned", turned(x)));
  OK(tn_program_output(p, "again", tn_transpose(x, 1, 0)));
  OK(tn_program_output(p, "every", tn_slice(x, 1, 1, COLUMNS, 2)));
  OK(tn_program_output(p, "row", tn_expand(row, DIMS(5, COLUMNS))));
  OK(tn_program_output(p, "made", made));
  OK(tn_program_output(p, "made again", tn_contiguous(tn_mul_scalar(sum, 0.5))));
  OK(tn_program_output(p, "made turned", turned(made)));
  OK(tn_program_output(p, "stored", tn_contiguous(turned(x))));
  OK(tn_program_end(p));
  return p;
}

static void compare(const expected *e, const float *v, double from, int line) {
  for (int i = 0; i < e->rows; i++)
    for (int j = 0; j < e->columns; j++) {
      double got = (double)v[i * e->columns + j], want = from + e->at(i, j);
      if (got != want) fail_msg("line %d: %s[%d, %d] is %g, not %g", line, e->name, i, j, got, want);
    }
}

static void look_at(tn_ctx *c, tn_program *p, double from, int line) {
  float v[MOST];
  for (int i = 0; i < OUTPUTS; i++) {
    check_ok(c, tn_program_read(p, outputs[i].name, v, (size_t)(outputs[i].rows * outputs[i].columns) * 4), line);
    compare(&outputs[i], v, from, line);
  }
}
#define LOOK(p, from) look_at(c, p, from, __LINE__)

static void look_at_kept(tn_ctx *c, tn_tensor *const *kept, double from, int line) {
  float v[MOST];
  for (int i = 0; i < OUTPUTS; i++) {
    tn_tensor *t = tn_contiguous(kept[i]); /* the handle stays as it is */
    check_ok(c, tn_read(t, v, tn_nbytes(t)), line);
    compare(&outputs[i], v, from, line);
    tn_release(t);
  }
}
#define KEPT(kept, from) look_at_kept(c, kept, from, __LINE__)

static void give(tn_ctx *c, tn_program *p, int from) {
  float v[N];
  for (int i = 0; i < N; i++) v[i] = (float)(from + i);
  OK(tn_program_write(p, "x", DIMS(ROWS, COLUMNS), v, sizeof v));
}

static void take(tn_program *p, tn_tensor **kept) {
  for (int i = 0; i < OUTPUTS; i++) {
    kept[i] = tn_program_result(p, outputs[i].name);
    assert_non_null(kept[i]);
  }
}

/* Results of each run live on, while inputs are written and runs follow; and when the program has ended. */
static void written(tn_ctx *c) {
  tn_program *p = many(c);
  tn_tensor *kept[4][OUTPUTS];
  for (int i = 0; i < 4; i++) {
    give(c, p, 100 * i);
    if (i) LOOK(p, 100 * i - 100); /* until the next run */
    OK(tn_program_run(p));
    LOOK(p, 100 * i);
    take(p, kept[i]);
    for (int k = 0; k <= i; k++) KEPT(kept[k], 100 * k);
  }
  OK(tn_program_run(p)); /* the same input once more */
  LOOK(p, 300);
  tn_program_close(p);
  for (int i = 0; i < 4; i++) KEPT(kept[i], 100 * i);
}

/* What is bound is written, assigned to and goes. */
static void bound(tn_ctx *c) {
  tn_program *p = many(c);
  tn_tensor *x = square(c, 0), *y = square(c, 300), *kept[OUTPUTS], *later[OUTPUTS];
  float v[N];
  OK(tn_program_bind(p, "x", x));
  for (int i = 0; i < 3; i++) OK(tn_program_run(p)); /* a device that records has recorded */
  take(p, kept);
  for (int i = 0; i < N; i++) v[i] = (float)(1000 + i);
  OK(tn_write(x, v, sizeof v));
  KEPT(kept, 0);
  LOOK(p, 0);
  OK(tn_program_run(p));
  LOOK(p, 1000);
  KEPT(kept, 0);
  take(p, later);
  OK(tn_assign(x, tn_add_scalar(x, 1000)));
  OK(tn_realize(&x, 1));
  KEPT(later, 1000);
  OK(tn_program_run(p));
  LOOK(p, 2000);
  OK(tn_program_bind(p, "x", y));
  tn_release(x);
  LOOK(p, 2000);
  OK(tn_program_run(p));
  LOOK(p, 300);
  KEPT(later, 1000);
  tn_program_close(p);
  KEPT(kept, 0);
}

/* Results are inputs again: of another program, and of their own. */
static void bound_again(tn_ctx *c) {
  tn_program *p = many(c), *q = tn_program_begin(c);
  tn_tensor *x = tn_program_input(q, "x", TN_F32, DIMS(COLUMNS, ROWS));
  OK(tn_program_output(q, "back", turned(x)));
  OK(tn_program_output(q, "twice", tn_add(x, x)));
  OK(tn_program_end(q));
  for (int i = 0; i < 3; i++) {
    float v[N];
    give(c, p, 10 * i);
    OK(tn_program_run(p));
    tn_tensor *t = tn_program_result(p, i == 1 ? "made turned" : "turned"), *back;
    OK(tn_program_bind(q, "x", t));
    OK(tn_program_run(q));
    OK(tn_program_read(q, "twice", v, sizeof v));
    for (int k = 0; k < N; k++) assert_true((double)v[k] == 2 * (10 * i + at_turned(k / ROWS, k % ROWS)));
    back = tn_program_result(q, "back");
    assert_true(back->node->op != OP_STORAGE);
    OK(tn_program_bind(p, "x", back));
    tn_release(back);
    OK(tn_program_run(p));
    LOOK(p, 10 * i);
  }
  tn_program_close(q);
  tn_program_close(p);
}

/* Movements are values like others: computed with, assigned, and what gradients are of. */
static void used(tn_ctx *c) {
  tn_program *p = many(c);
  give(c, p, 0);
  OK(tn_program_run(p));
  tn_tensor *t = tn_program_result(p, "turned"), *sum = tn_sum(tn_mul(t, t), NULL, 0, false), *grad;
  float v[N];
  OK(tn_grad(sum, 1, &t, &grad));
  OK(tn_read(grad, v, sizeof v));
  for (int k = 0; k < N; k++) assert_true((double)v[k] == 2 * at_turned(k / ROWS, k % ROWS));
  OK(tn_realize(&t, 1)); /* to be written */
  OK(tn_assign(t, tn_add_scalar(t, 1)));
  OK(tn_read(t, v, sizeof v));
  for (int k = 0; k < N; k++) assert_true((double)v[k] == 1 + at_turned(k / ROWS, k % ROWS));
  LOOK(p, 0);
  tn_program_close(p);
}

/* An output of what a state was, and of what it becomes */
static void states(tn_ctx *c) {
  tn_tensor *w = square(c, 0), *kept[4];
  float v[N];
  tn_program *p = tn_program_begin(c);
  tn_scope(c) {
    OK(tn_program_output(p, "was", turned(w)));
    OK(tn_assign(w, tn_add_scalar(w, 10)));
    OK(tn_program_output(p, "is", w));
    OK(tn_program_output(p, "is turned", turned(w)));
  }
  OK(tn_program_end(p));
  for (int i = 0; i < 4; i++) {
    OK(tn_program_run(p));
    OK(tn_program_read(p, "was", v, sizeof v));
    compare(&outputs[0], v, 10 * i, __LINE__);
    OK(tn_program_read(p, "is", v, sizeof v));
    compare(&outputs[4], v, 10 * i + 10, __LINE__);
    OK(tn_program_read(p, "is turned", v, sizeof v));
    compare(&outputs[0], v, 10 * i + 10, __LINE__);
    kept[i] = tn_program_result(p, i % 2 ? "was" : "is turned");
  }
  for (int i = 0; i < 4; i++) {
    OK(tn_read(kept[i], v, sizeof v));
    compare(&outputs[0], v, i % 2 ? 10 * i : 10 * i + 10, __LINE__);
  }
  OK(tn_read(w, v, sizeof v));
  compare(&outputs[4], v, 40, __LINE__);
  tn_program_close(p);
}

/* Sizes of a run are those of its results, whatever the next one has. */
static void sizes(tn_ctx *c) {
  static const int n[] = {3, 8, 0, 1, 8, 5};
  tn_program *p = tn_program_begin(c);
  tn_dim any = tn_dim_var(c, "n", 0, ROWS);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(any, COLUMNS));
  tn_tensor *sum = tn_reshape(tn_sum(x, AXES(0), false), DIMS(1, COLUMNS));
  OK(tn_program_output(p, "turned", turned(x)));
  OK(tn_program_output(p, "row", tn_expand(sum, DIMS(5, COLUMNS))));
  OK(tn_program_output(p, "rows", tn_expand(sum, DIMS(any, COLUMNS)))); /* there need be none */
  OK(tn_program_output(p, "twice", tn_add(x, x)));
  OK(tn_program_output(p, "twice turned", tn_flip(turned(tn_add(x, x)), AXES(1))));
  OK(tn_program_end(p));
  tn_tensor *kept[2][6];
  float v[N];
  uint64_t compiled = stats(c).schedules_compiled;
  for (int i = 0; i < 6; i++) {
    for (int k = 0; k < N; k++) v[k] = (float)(100 * i + k);
    OK(tn_program_write(p, "x", DIMS(n[i], COLUMNS), v, (size_t)(n[i] * COLUMNS) * sizeof *v));
    OK(tn_program_run(p));
    OK(tn_program_read(p, "row", v, 5 * COLUMNS * sizeof *v));
    for (int k = 0; k < 5 * COLUMNS; k++)
      assert_true((double)v[k] == n[i] * (100 * i + k % COLUMNS) + COLUMNS * (n[i] * (n[i] - 1) / 2));
    OK(tn_program_read(p, "rows", v, (size_t)(n[i] * COLUMNS) * sizeof *v));
    for (int k = 0; k < n[i] * COLUMNS; k++)
      assert_true((double)v[k] == n[i] * (100 * i + k % COLUMNS) + COLUMNS * (n[i] * (n[i] - 1) / 2));
    for (int o = 0; o < 2; o++) { /* what has a symbolic size is stored */
      tn_tensor *t = tn_program_result(p, o ? "rows" : "row");
      assert_true((t->node->op == OP_STORAGE) == o);
      tn_release(t);
    }
    kept[0][i] = tn_program_result(p, "turned");
    kept[1][i] = tn_program_result(p, "twice turned");
    assert_int_equal(tn_nbytes(kept[1][i]), n[i] * COLUMNS * (int)sizeof *v);
  }
  tn_program_close(p);
  assert_int_equal(stats(c).schedules_compiled, compiled); /* once for all sizes, and for reading */
  for (int i = 0; i < 6; i++)
    for (int k = 0; k < 2; k++) {
      OK(tn_read(kept[k][i], v, (size_t)(n[i] * COLUMNS) * sizeof *v));
      for (int e = 0; e < n[i] * COLUMNS; e++) {
        int row = e % n[i], column = e / n[i];
        double want = 100 * i + (k ? n[i] - 1 - row : row) * COLUMNS + column;
        assert_true((double)v[e] == (k ? 2 * want : want));
      }
    }
}

/* Elements of each size are read in the order of their shape, whatever axis is the innermost where they stand. */
static void read_back(tn_ctx *c) {
  static const tn_dtype of[] = {TN_U8, TN_I16, TN_F32, TN_F64};
  for (int i = 0; i < 4; i++) {
    unsigned char v[3 * 4 * 5 * 8], got[3 * 4 * 5 * 8];
    size_t bytes = i == 3 ? 8 : 1u << i;
    for (size_t k = 0; k < sizeof v; k++) v[k] = (unsigned char)(k % 61); /* no NaN */
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", of[i], DIMS(3, 4, 5));
    OK(tn_program_output(p, "y", tn_permute(tn_flip(x, AXES(1)), AXES(2, 0, 1))));
    OK(tn_program_output(p, "z", tn_flip(tn_permute(x, AXES(1, 0, 2)), AXES(1))));
    OK(tn_program_end(p));
    assert_int_equal(kernels_of(c, p), 0);
    OK(tn_program_write(p, "x", DIMS(3, 4, 5), v, 60 * bytes));
    OK(tn_program_run(p));
    OK(tn_program_read(p, "y", got, 60 * bytes));
    for (size_t k = 0; k < 60; k++) {
      size_t from = k / 4 % 3 * 20 + (3 - k % 4) * 5 + k / 12;
      assert_memory_equal(got + k * bytes, v + from * bytes, bytes);
    }
    OK(tn_program_read(p, "z", got, 60 * bytes));
    for (size_t k = 0; k < 60; k++) {
      size_t from = (2 - k / 5 % 3) * 20 + k / 15 * 5 + k % 5;
      assert_memory_equal(got + k * bytes, v + from * bytes, bytes);
    }
    tn_program_close(p);
  }
}

/* A run that fails for its sizes leaves the results of the last one as they are. */
static void failed_run(tn_ctx *c) {
  float v[N];
  tn_program *p = tn_program_begin(c);
  tn_dim any = tn_dim_var(c, "n", 1, ROWS);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(any, COLUMNS)), *y = tn_program_input(p, "y", TN_F32, DIMS(any));
  OK(tn_program_output(p, "turned", turned(x)));
  OK(tn_program_output(p, "y", y));
  OK(tn_program_end(p));
  for (int k = 0; k < N; k++) v[k] = (float)k;
  OK(tn_program_write(p, "x", DIMS(5, COLUMNS), v, 5 * COLUMNS * sizeof *v));
  OK(tn_program_write(p, "y", DIMS(5), v, 5 * sizeof *v));
  OK(tn_program_run(p));
  OK(tn_program_write(p, "x", DIMS(3, COLUMNS), v + COLUMNS, 3 * COLUMNS * sizeof *v));
  assert_int_equal(tn_program_run(p), TN_EBOUND);
  tn_clear_error(c);
  OK(tn_program_read(p, "turned", v, 5 * COLUMNS * sizeof *v));
  for (int k = 0; k < 5 * COLUMNS; k++) assert_true((double)v[k] == at_turned(k / 5, k % 5));
  tn_program_close(p);
}

/* Results are read, and what is realised is bound, while another program is recorded, as ever. */
static void while_recorded(tn_ctx *c) {
  tn_program *p = many(c), *q;
  tn_tensor *realised = square(c, 0);
  give(c, p, 0);
  OK(tn_program_run(p));
  q = tn_program_begin(c);
  LOOK(p, 0);
  OK(tn_program_bind(p, "x", realised));
  OK(tn_program_output(q, "y", tn_neg(tn_program_result(p, "turned"))));
  OK(tn_program_end(q));
  give(c, p, 500);
  OK(tn_program_run(p));
  OK(tn_program_run(q));
  float v[N];
  OK(tn_program_read(q, "y", v, sizeof v));
  for (int k = 0; k < N; k++) assert_true((double)v[k] == -at_turned(k / ROWS, k % ROWS));
  tn_program_close(q);
  tn_program_close(p);
}

static void programs(void **state) {
  static void (*const body[])(tn_ctx *) = {written, bound, bound_again, used, states,
                                         sizes,   failed_run, read_back, while_recorded};
  (void)state;
  for (size_t i = 0; i < sizeof body / sizeof *body; i++) everywhere(body[i]);
}

/* ---- what is told ---- */

/* The text of a program says what is seen where, and gives the same again. */
static void texts(tn_ctx *c) {
  tn_program *p = many(c);
  char *text = tn_program_explain_string(p), *again = tn_explain_text_string(c, text);
  assert_non_null(again);
  assert_non_null(strstr(text, "{\"outputs\" 8}"));
  assert_non_null(strstr(text, "# output 1 is what is stored as output 0, moved:\n"
                               "#   %1 = param f32[8,16] 8 16 {0 0}\n#   %2 = permute f32[16,8] %1 {1 0}\n"));
  assert_non_null(strstr(text, "# output 5 is what is stored as output 3\n"));
  assert_non_null(strstr(text, "# output 6 is what is stored as output 3, moved:\n"));
  assert_null(strstr(text, "# output 7 "));
  assert_string_equal(text, again);
  tn_string_free(text);
  tn_string_free(again);
  /* what is made, and what is turned and stored, which GPUs do together */
  assert_in_range(kernels_of(c, p), 1, 2);
  tn_program_close(p);
}

static void explained(void **state) {
  (void)state;
  everywhere(texts);
}

/* Programs that are too large to be compared are, at smaller sizes, what is seen there included. */
static void compared(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .verify = "strict", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(4096, 3001)), *sum = tn_sum(x, AXES(0), true);
    OK(tn_program_output(p, "turned", tn_slice(turned(x), 1, 1, 4096, 3)));
    OK(tn_program_output(p, "sum", tn_expand(sum, DIMS(4096, 3001))));
    OK(tn_program_end(p));
    assert_int_equal(kernels_of(c, p), 1);
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

/* Memory stays as it is, however many runs there are. */
static void stays_flat(tn_ctx *c) {
  tn_program *p = many(c);
  tn_stats early = stats(c);
  for (int i = 0; i < 12; i++) {
    give(c, p, i);
    OK(tn_program_run(p));
    tn_scope(c) LOOK(p, i);
    tn_stats s = stats(c);
    if (i == 3) early = s;
    if (i < 4) continue;
    assert_int_equal(s.buffer_bytes, early.buffer_bytes);
    assert_int_equal(s.pool_bytes, early.pool_bytes);
    assert_int_equal(s.heap_bytes, early.heap_bytes);
  }
  tn_program_close(p);
}

static void memory(void **state) {
  (void)state;
  everywhere(stays_flat);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(by_form), cmocka_unit_test(programs),
                                     cmocka_unit_test(explained), cmocka_unit_test(compared),
                                     cmocka_unit_test(memory)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
