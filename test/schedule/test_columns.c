/* Sums over all rows beside what is done for each row: one kernel where that saves reading, with the values of many. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/ctx.h"
#include "support/device.h"
#include "support/forms.h"
#include "support/sentinel.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))
#define OK(x) check_ok(c, x, __LINE__)

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}

/* x, dy: [rows, columns]; g, b: [columns].  Results in out, their number returned. */
typedef struct operands {
  tn_tensor *x, *dy, *g, *b;
  tn_ctx *c;
} operands;
typedef int (*make_fn)(const operands *o, tn_tensor **out);

static int vjp(const operands *o, tn_tensor *y, tn_tensor *const *wrt, int n, tn_tensor **out) {
  tn_ctx *c = o->c;
  OK(tn_vjp(y, o->dy, n, wrt, out));
  return n;
}

static int layer_norm(const operands *o, tn_tensor **out) {
  return vjp(o, tn_layer_norm(o->x, 1, o->g, o->b, 1e-5), (tn_tensor *[]){o->x, o->g, o->b}, 3, out);
}
static int weights_only(const operands *o, tn_tensor **out) {
  return vjp(o, tn_layer_norm(o->x, 1, o->g, o->b, 1e-5), (tn_tensor *[]){o->g, o->b}, 2, out);
}
static int rms_norm(const operands *o, tn_tensor **out) {
  return vjp(o, tn_rms_norm(o->x, 1, o->g, 1e-5), (tn_tensor *[]){o->x, o->g}, 2, out);
}
static int softmax_bias(const operands *o, tn_tensor **out) {
  return vjp(o, tn_softmax(tn_add(o->x, o->b), -1), (tn_tensor *[]){o->x, o->b}, 2, out);
}
static int gelu_bias(const operands *o, tn_tensor **out) {
  return vjp(o, tn_gelu(tn_add(o->x, o->b)), (tn_tensor *[]){o->x, o->b}, 2, out);
}
static int with_forward(const operands *o, tn_tensor **out) {
  out[3] = tn_layer_norm(o->x, 1, o->g, o->b, 1e-5);
  vjp(o, out[3], (tn_tensor *[]){o->x, o->g, o->b}, 3, out);
  return 4;
}
/* An update by the sums is part of the second step. */
static int update(const operands *o, tn_tensor **out) {
  layer_norm(o, out);
  out[1] = tn_sub(o->g, tn_mul_scalar(out[1], 0.1));
  return 3;
}
/* A bias of logits; targets are not negative, so that nothing cancels in the loss */
static int cross_entropy_bias(const operands *o, tn_tensor **out) {
  tn_ctx *c = o->c;
  tn_tensor *wrt[2] = {o->x, o->b},
            *loss = tn_neg(tn_sum(tn_mul(tn_log_softmax(tn_add(o->x, o->b), -1), tn_square(o->dy)), NULL, 0, false));
  OK(tn_grad(loss, 2, wrt, out));
  out[2] = loss;
  return 3;
}
/* Rows of two dimensions: [rows, 2, columns / 2] */
static int two_axes(const operands *o, tn_tensor **out) {
  tn_dim shape[2], half, rows;
  tn_ctx *c = o->c;
  OK(tn_shape(o->x, shape));
  half = shape[1] / 2, rows = shape[0];
  tn_tensor *x = tn_reshape(o->x, DIMS(rows, 2, half)), *dy = tn_reshape(o->dy, DIMS(rows, 2, half)),
            *s = tn_softmax(x, -1);
  out[0] = tn_mul(s, dy);
  out[1] = tn_sum(out[0], AXES(0, 1), false);
  return 2;
}
/* The row below: another row than the kernel has at hand */
static int other_row(const operands *o, tn_tensor **out) {
  tn_tensor *s = tn_softmax(o->x, -1);
  out[0] = tn_mul(s, o->dy);
  out[1] = tn_sum(tn_mul(tn_flip(s, AXES(0)), o->dy), AXES(0), false);
  return 2;
}
/* Nothing is stored for a row but one value. */
static int sums_both_ways(const operands *o, tn_tensor **out) {
  tn_tensor *x = tn_mul(tn_sigmoid(o->x), o->dy);
  out[0] = tn_sum(tn_mul(x, o->g), AXES(1), false);
  out[1] = tn_sum(x, AXES(0), false);
  return 2;
}

typedef struct scene {
  const char *name;
  make_fn make;
  int kernels; /* for many rows of many columns */
} scene;

static const scene scenes[] = {
    {"layer norm", layer_norm, 1},         {"layer norm, weights only", weights_only, 1},
    {"rms norm", rms_norm, 1},             {"softmax and bias", softmax_bias, 1},
    {"gelu and bias", gelu_bias, 1},       {"layer norm, both ways", with_forward, 1},
    {"layer norm and update", update, 1},  {"cross-entropy and bias", cross_entropy_bias, -1},
    {"rows of two axes", two_axes, -1},    {"another row", other_row, -1},
    {"sums both ways", sums_both_ways, 1},
};
enum { SCENES = sizeof scenes / sizeof *scenes, RESULTS = 4 };

/* Rows from which on they are joined, on what $TENET_DEVICE names: this many and more are many for its units. */
static int64_t many(void) { return getenv("TENET_DEVICE") ? 2200 : 64; }

static float drawn(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*state >> 33) / 1073741824.0f - 1;
}

typedef struct results {
  float *v[RESULTS];
  size_t bytes[RESULTS];
  int n, kernels;
  bool groups; /* the device has work groups: others keep such kernels apart */
} results;

/* Operands of dtype, which are then of type `compute`.  With `symbolic`, for any number of rows up to 2 * many(). */
static void run(const scene *s, const char *device, form f, tn_dtype dtype, tn_dtype compute, int64_t rows,
                int64_t columns, bool symbolic, results *r) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .mode = TN_MODE_DEFAULT, .quiet = 1});
  assert_non_null(c);
  take_form(tn__device_get(c, 0), f);
  r->groups = tn__device_get(c, 0)->target.group > 0;
  sentinel_put(tn__device_get(c, 0));
  tn_scope(c) {
    static const char *const name[] = {"x", "dy", "g", "b"};
    tn_dim n = symbolic ? tn_dim_var(c, "B", 0, 2 * many()) : rows;
    tn_tensor *in[4], *out[RESULTS];
    tn_program *p = tn_program_begin(c);
    for (int i = 0; i < 4; i++)
      in[i] = tn_program_input(p, name[i], TN_F32, i < 2 ? (const tn_dim[]){n, columns} : (const tn_dim[]){columns},
                               i < 2 ? 2 : 1);
    operands o = {.c = c};
    tn_tensor **own[4] = {&o.x, &o.dy, &o.g, &o.b};
    for (int i = 0; i < 4; i++) *own[i] = tn_cast(tn_cast(in[i], dtype), compute);
    r->n = s->make(&o, out);
    for (int i = 0; i < r->n; i++)
      OK(tn_program_output(p, (const char *[]){"0", "1", "2", "3"}[i], tn_cast(out[i], TN_F32)));
    OK(tn_program_end(p));
    tn_program_info info;
    OK(tn_program_get_info(p, &info));
    r->kernels = info.kernels;
    uint64_t state = 1;
    float *data = malloc((size_t)(rows * columns + columns) * sizeof *data);
    for (int i = 0; i < 4; i++) {
      int64_t size = i < 2 ? rows * columns : columns;
      for (int64_t k = 0; k < size; k++) data[k] = drawn(&state) * 4;
      OK(tn_program_write(p, name[i], i < 2 ? (const tn_dim[]){rows, columns} : (const tn_dim[]){columns},
                          i < 2 ? 2 : 1, data, (size_t)size * sizeof *data));
    }
    OK(tn_program_run(p));
    for (int i = 0; i < r->n; i++) {
      const char *out_name = (const char *[]){"0", "1", "2", "3"}[i];
      r->bytes[i] = tn_nbytes(tn_program_result(p, out_name));
      r->v[i] = malloc(r->bytes[i] + 1);
      OK(tn_program_read(p, out_name, r->v[i], r->bytes[i]));
    }
    free(data);
  }
  tn_ctx_close(c);
}

static void drop(results *r) {
  for (int i = 0; i < r->n; i++) free(r->v[i]);
}

static int compare(const scene *s, tn_dtype dtype, int64_t rows, int64_t columns, bool symbolic, const results *x,
                   const results *y) {
  int bad = 0;
  assert_int_equal(x->n, y->n);
  for (int i = 0; i < x->n; i++) {
    double most = 0, apart = 0;
    assert_int_equal(x->bytes[i], y->bytes[i]);
    for (size_t k = 0; k < x->bytes[i] / sizeof(float); k++) {
      double d = fabs((double)x->v[i][k] - (double)y->v[i][k]);
      if (!(d <= apart)) apart = d;
      most = fmax(most, fabs((double)y->v[i][k]));
    }
    if (apart <= (dtype == TN_F32 ? 4e-6 : 1.2e-2) * (most + 1)) continue;
    fprintf(stderr, "%s, %s, %lld x %lld%s: result %d is %g off, of %g\n", s->name, dtype == TN_F32 ? "f32" : "bf16",
            (long long)rows, (long long)columns, symbolic ? ", symbolic" : "", i, apart, most);
    bad++;
  }
  return bad;
}

static int try(const scene *s, tn_dtype dtype, int64_t rows, int64_t columns, bool symbolic) {
  static unsigned long seen;
  if (!is_taken(&seen)) return 0;
  results x = {0}, y = {0};
  run(s, device_or("ref"), GROUPS, dtype, dtype, rows, columns, symbolic, &x);
  run(s, "ref", PLAIN, dtype, TN_F64, rows, columns, false, &y);
  int bad = compare(s, dtype, rows, columns, symbolic, &x, &y);
  if (x.groups && !symbolic && rows >= many() && columns >= 64 && s->kernels > 0 && x.kernels != s->kernels) {
    fprintf(stderr, "%s, %lld x %lld: %d kernels, not %d\n", s->name, (long long)rows, (long long)columns, x.kernels,
            s->kernels);
    bad++;
  }
  drop(&x);
  drop(&y);
  return bad;
}

static void sizes(void **state) {
  (void)state;
  const int64_t size[][2] = {{many(), 64}, {67, 100}, {131, 300}, {257, 130}, {96, 1030},       {40, 4100},
                             {1, 100},     {0, 100},  {100, 1},   {33, 9},    {many() + 5, 200}};
  int bad = 0;
  for (int i = 0; i < SCENES; i++)
    for (size_t k = 0; k < sizeof size / sizeof *size; k++) {
      if (scenes[i].make == two_axes && size[k][1] % 2) continue;
      bad += try(&scenes[i], TN_F32, size[k][0], size[k][1], false);
      if (k < 3) bad += try(&scenes[i], TN_BF16, size[k][0], size[k][1], false);
    }
  assert_int_equal(bad, 0);
}

static void symbolic_rows(void **state) {
  (void)state;
  const int64_t rows[] = {0, 1, 2, 63, 64, 3 * many() / 2};
  int bad = 0;
  for (int i = 0; i < SCENES; i++)
    for (size_t k = 0; k < sizeof rows / sizeof *rows; k++) bad += try(&scenes[i], TN_F32, rows[k], 100, true);
  assert_int_equal(bad, 0);
}

/* How a large GPU does it */
static char *explained(make_fn make) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_program *p = tn_program_begin(c);
  tn_scope(c) {
    operands o = {.c = c,
                  .x = tn_program_input(p, "x", TN_F32, DIMS(32768, 4096)),
                  .dy = tn_program_input(p, "dy", TN_F32, DIMS(32768, 4096)),
                  .g = tn_program_input(p, "g", TN_F32, DIMS(4096)),
                  .b = tn_program_input(p, "b", TN_F32, DIMS(4096))};
    tn_tensor *out[RESULTS];
    int n = make(&o, out);
    for (int i = 0; i < n; i++) OK(tn_program_output(p, (const char *[]){"0", "1", "2"}[i], out[i]));
    OK(tn_program_end(p));
  }
  char *all = NULL;
  size_t size = 0;
  FILE *f = open_memstream(&all, &size);
  assert_non_null(f);
  OK(tn_program_explain(p, f));
  fclose(f);
  tn_ctx_close(c);
  return all;
}

/* Sums held in registers, the next row on its way, no more barriers than the row's own reductions need */
static void text(void **state) {
  (void)state;
  static const struct {
    const char *has;
    int times;
  } want[] = {{" hold(", 1},  {"ahead(load)", 2}, {"fold(", 1},
              {"tn_send<16>", 4}, {"tn_sent();", 1},  {"__syncthreads", 6}};
  char *all = explained(layer_norm);
  const char *kernels = strstr(all, "# kernels"), *source = strstr(all, "# source");
  assert_true(kernels && source);
  const char *code = strstr(source, "extern \"C\"");
  assert_non_null(code);
  int bad = 0;
  for (size_t i = 0; i < sizeof want / sizeof *want; i++) {
    int n = 0;
    for (const char *at = i < 3 ? kernels : code; (at = strstr(at, want[i].has)) && (i >= 3 || at < source); at++) n++;
    if (n == want[i].times) continue;
    fprintf(stderr, "%s: %d times, not %d\n", want[i].has, n, want[i].times);
    bad++;
  }
  free(all);
  assert_int_equal(bad, 0);
}

/* Where rows store one value each, their loops are those of the sums, too. */
static void one_value_a_row(void **state) {
  (void)state;
  char *all = explained(sums_both_ways);
  const char *steps = strstr(all, "# kernels");
  assert_non_null(steps);
  bool held = strstr(steps, " hold("), apart = strstr(steps, " separate(");
  free(all);
  assert_true(held && !apart);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(symbolic_rows), cmocka_unit_test(text),
                                     cmocka_unit_test(one_value_a_row)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
