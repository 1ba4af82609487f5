/* Kernels that go through the same rows as one: so few as they should be, with the values that each result has by
 * itself. */
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

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))
#define OK(x) check_ok(c, x, __LINE__)

static void check_ok(tn_ctx *c, tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}

enum { RESULTS = 3, MANY = 2200 }; /* rows: enough for all units of any device */

/* x and dy: [rows, terms, inner].  Results in out, their number returned. */
typedef int (*make_fn)(tn_ctx *c, tn_tensor *x, tn_tensor *dy, tn_tensor **out);

static int both_ways(tn_ctx *c, tn_tensor *x, tn_tensor *y, tn_tensor *dy, tn_tensor **out) {
  out[0] = y;
  OK(tn_vjp(y, dy, 1, &x, out + 1));
  return 2;
}
static int softmax(tn_ctx *c, tn_tensor *x, tn_tensor *dy, tn_tensor **out) {
  return both_ways(c, x, tn_softmax(x, 1), dy, out);
}
static int log_softmax(tn_ctx *c, tn_tensor *x, tn_tensor *dy, tn_tensor **out) {
  out[2] = tn_max(x, AXES(1), false);
  return both_ways(c, x, tn_log_softmax(x, 1), dy, out) + 1;
}
static int variance(tn_ctx *c, tn_tensor *x, tn_tensor *dy, tn_tensor **out) {
  (void)c;
  tn_tensor *off = tn_sub(x, tn_mean(x, AXES(1), true));
  out[0] = tn_mean(tn_square(off), AXES(1), false);
  out[1] = tn_mul(off, dy);
  out[2] = tn_sum(out[1], AXES(1), true);
  return 3;
}
/* Elements of the same row, in another order, or with others around them */
static int turned(tn_ctx *c, tn_tensor *x, tn_tensor *dy, tn_tensor **out) {
  (void)c;
  out[0] = tn_softmax(x, 1);
  out[1] = tn_sub(tn_flip(out[0], AXES(1)), dy);
  return 2;
}
static int padded(tn_ctx *c, tn_tensor *x, tn_tensor *dy, tn_tensor **out) {
  (void)c;
  (void)dy;
  out[0] = tn_softmax(x, 1);
  out[1] = tn_exp(tn_pad(out[0], (const tn_dim[]){0, 0, 2, 1, 0, 0}, 0.0));
  return 2;
}
/* What another row has stored is not there yet. */
static int other_row(tn_ctx *c, tn_tensor *x, tn_tensor *dy, tn_tensor **out) {
  (void)c;
  out[0] = tn_softmax(x, 1);
  out[1] = tn_mul(tn_flip(out[0], AXES(0)), dy);
  return 2;
}
static int other_axis(tn_ctx *c, tn_tensor *x, tn_tensor *dy, tn_tensor **out) {
  (void)c;
  out[0] = tn_softmax(x, 1);
  out[1] = tn_sub(out[0], tn_mean(out[0], AXES(0), true));
  out[2] = tn_mul(out[1], dy);
  return 3;
}

typedef struct scene {
  const char *name;
  make_fn make;
  int kernels; /* for many rows; -1: any */
} scene;

static const scene scenes[] = {
    {"softmax", softmax, 1}, {"log-softmax", log_softmax, 1}, {"variance", variance, 1},
    {"turned", turned, -1},  {"padded", padded, -1},          {"another row", other_row, 2},
    {"another axis", other_axis, -1},
};
enum { SCENES = sizeof scenes / sizeof *scenes };

static float drawn(uint64_t *state) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (float)(int32_t)(*state >> 33) / 1073741824.0f - 1;
}

typedef struct results {
  float *v[RESULTS];
  size_t bytes[RESULTS];
  int n, kernels;
} results;

/* Result `only` (-1: all) of operands that are then of type `compute`; of any number of rows with `symbolic` */
static void run(const scene *s, const char *device, form f, int only, tn_dtype compute, const tn_dim *shape,
                bool symbolic, results *r) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  take_form(tn__device_get(c, 0), f);
  sentinel_put(tn__device_get(c, 0));
  tn_scope(c) {
    static const char *const name[] = {"0", "1", "2"}, *const input[] = {"x", "dy"};
    tn_dim rows = symbolic ? tn_dim_var(c, "B", 0, 2 * MANY) : shape[0], size = shape[0] * shape[1] * shape[2];
    tn_tensor *in[2], *out[RESULTS];
    tn_program *p = tn_program_begin(c);
    for (int i = 0; i < 2; i++)
      in[i] = tn_cast(tn_program_input(p, input[i], TN_F32, DIMS(rows, shape[1], shape[2])), compute);
    r->n = s->make(c, in[0], in[1], out);
    for (int i = 0; i < r->n; i++)
      if (only < 0 || only == i) OK(tn_program_output(p, name[i], tn_cast(out[i], TN_F32)));
    OK(tn_program_end(p));
    tn_program_info info;
    OK(tn_program_get_info(p, &info));
    r->kernels = info.kernels;
    uint64_t state = 1;
    float *data = malloc((size_t)size * sizeof *data + 1);
    for (int i = 0; i < 2; i++) {
      for (int64_t k = 0; k < size; k++) data[k] = drawn(&state) * 4;
      if (!i && size > 9 * shape[1] * shape[2]) data[3] = NAN, data[7 * shape[1] * shape[2]] = -INFINITY;
      OK(tn_program_write(p, input[i], shape, 3, data, (size_t)size * sizeof *data));
    }
    OK(tn_program_run(p));
    for (int i = 0; i < r->n; i++) {
      if (only >= 0 && only != i) continue;
      r->bytes[i] = tn_nbytes(tn_program_result(p, name[i]));
      r->v[i] = malloc(r->bytes[i] + 1);
      OK(tn_program_read(p, name[i], r->v[i], r->bytes[i]));
    }
    free(data);
  }
  tn_ctx_close(c);
}

static bool is_near(float x, float y) { return (x != x && y != y) || x == y || fabsf(x - y) <= 1e-5f * (1 + fabsf(y)); }

static int try(const scene *s, const tn_dim *shape, bool symbolic) {
  static unsigned long seen;
  if (!is_taken(&seen)) return 0;
  results x = {0};
  int bad = 0;
  run(s, device_or("ref"), GROUPS, -1, TN_F32, shape, symbolic, &x);
  if (!symbolic && s->kernels > 0 && shape[0] >= MANY && x.kernels != s->kernels) {
    fprintf(stderr, "%s: %d kernels, not %d\n", s->name, x.kernels, s->kernels);
    bad++;
  }
  for (int i = 0; i < x.n; i++) {
    results y = {0};
    run(s, "ref", PLAIN, i, TN_F64, shape, false, &y);
    assert_int_equal(x.bytes[i], y.bytes[i]);
    for (size_t k = 0; k < x.bytes[i] / sizeof(float); k++)
      if (!is_near(x.v[i][k], y.v[i][k])) {
        fprintf(stderr, "%s, [%lld,%lld,%lld]: element %zu of result %d is %g, not %g\n", s->name, (long long)shape[0],
                (long long)shape[1], (long long)shape[2], k, i, (double)x.v[i][k], (double)y.v[i][k]);
        bad++;
        break;
      }
    free(x.v[i]);
    free(y.v[i]);
  }
  return bad;
}

static void sizes(void **state) {
  (void)state;
  const tn_dim shape[][3] = {{MANY, 9, 1}, {MANY, 5, 3}, {67, 130, 1}, {40, 37, 4},
                             {1, 300, 2},  {0, 5, 3},    {70, 1, 2},   {3, 9001, 1}, {2, 3001, 2}};
  int bad = 0;
  for (int i = 0; i < SCENES; i++)
    for (size_t k = 0; k < sizeof shape / sizeof *shape; k++) bad += try(&scenes[i], shape[k], false);
  assert_int_equal(bad, 0);
}

static void symbolic_rows(void **state) {
  (void)state;
  int bad = 0;
  for (int i = 0; i < SCENES; i++)
    for (tn_dim rows = 0; rows < 300; rows += 66) bad += try(&scenes[i], (const tn_dim[]){rows, 33, 2}, true);
  assert_int_equal(bad, 0);
}

/* Columns of f32 whose elements lie apart: of 8 units with room for 65536 elements each, in groups that take 8 columns
 * side by side at least, and 32 at most. */
static void columns(void **state) {
  static const struct {
    tn_dim terms, columns;
    int kernels;
  } row[] = {{8192, 20, 1}, {8200, 20, 3}, {8200, 512, 1}};
  (void)state;
  for (size_t i = 0; i < sizeof row / sizeof *row; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:opencl", .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_program_info info;
      tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(row[i].terms, row[i].columns));
      OK(tn_program_output(p, "y", tn_softmax(x, 0)));
      OK(tn_program_end(p));
      OK(tn_program_get_info(p, &info));
      if (info.kernels != row[i].kernels)
        fail_msg("%lld columns of %lld: %d kernels, not %d", (long long)row[i].columns, (long long)row[i].terms,
                 info.kernels, row[i].kernels);
    }
    tn_ctx_close(c);
  }
}

/* Columns that are fewer than units go with their gradient if a group keeps all those that lie beside each other. */
static void few_columns(void **state) {
  (void)state;
  for (tn_dim terms = 16000; terms <= 17000; terms += 1000) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_program_info info;
      tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(terms, 4)), *dx;
      tn_tensor *dy = tn_program_input(p, "dy", TN_F32, DIMS(terms, 4)), *y = tn_softmax(x, 0);
      OK(tn_vjp(y, dy, 1, &x, &dx));
      OK(tn_program_output(p, "y", y));
      OK(tn_program_output(p, "dx", dx));
      OK(tn_program_end(p));
      OK(tn_program_get_info(p, &info));
      if ((info.kernels == 1) != (terms == 16000)) fail_msg("%lld terms: %d kernels", (long long)terms, info.kernels);
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sizes), cmocka_unit_test(symbolic_rows),
                                     cmocka_unit_test(columns), cmocka_unit_test(few_columns)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
