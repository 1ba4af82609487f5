/* Convolutions on a GPU, by cuDNN, against the CPU: forwards and both gradients, captured and not.  Skipped where there
 * is no GPU; without cuDNN it is products of windows that are tested, which the test says. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/eval.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static tn_ctx *gpu, *cpu;

static int open_both(void **state) {
  (void)state;
  cpu = tn_ctx_open(&(tn_options){.device = "cpu", .quiet = 1});
  gpu = tn_ctx_open(&(tn_options){.device = "cuda:0", .quiet = 1});
  return cpu ? 0 : -1;
}

static int close_both(void **state) {
  (void)state;
  tn_ctx_close(gpu);
  tn_ctx_close(cpu);
  return 0;
}

typedef struct geometry {
  int64_t n, c, h, w, k, r, s;
  tn_conv2d_options opt;
} geometry;

static const geometry geometries[] = {
    {2, 3, 7, 6, 5, 3, 3, {{0}, {0}, {0}, 0}},        {1, 1, 14, 13, 1, 3, 3, {{0}, {0}, {0}, 0}},
    {3, 1, 9, 8, 4, 3, 3, {{2, 1}, {1, 0}, {0}, 0}},  {2, 4, 9, 11, 3, 3, 3, {{2, 3}, {1, 1}, {0}, 0}},
    {2, 3, 10, 12, 3, 3, 3, {{2, 3}, {0}, {0}, 0}},   {2, 3, 11, 12, 4, 3, 2, {{1, 2}, {2, 1}, {2, 3}, 0}},
    {2, 3, 5, 5, 4, 2, 2, {{1, 1}, {3, 2}, {0}, 0}},  {2, 5, 6, 8, 4, 1, 3, {{0}, {0, 1}, {0}, 0}},
    {2, 3, 4, 9, 5, 4, 3, {{0}, {0}, {0}, 0}},        {2, 3, 6, 6, 4, 4, 4, {{0}, {0}, {0}, 0}},
    {2, 5, 7, 6, 7, 1, 1, {{2, 2}, {0}, {0}, 0}},     {2, 6, 6, 7, 8, 3, 3, {{0}, {0}, {0}, 2}},
    {4, 16, 14, 14, 32, 3, 3, {{0}, {1, 1}, {0}, 0}}, {4, 64, 8, 8, 64, 5, 5, {{0}, {2, 2}, {0}, 0}},
    {64, 1, 28, 28, 32, 3, 3, {{0}, {0}, {0}, 0}},    {16, 32, 26, 26, 64, 3, 3, {{0}, {0}, {0}, 0}},
};

/* -1, 0 and 1: what the CPU computes from them in f32 is exact. */
static tn_tensor *numbers(tn_ctx *c, int dtype, const tn_dim *shape, unsigned salt) {
  int64_t n = shape[0] * shape[1] * shape[2] * shape[3];
  char *data = malloc((size_t)(n + 1) * tn__size_of(dtype));
  for (int64_t i = 0; i < n; i++) {
    unsigned h = ((unsigned)i + salt * 7919u) * 2654435761u;
    tn__eval_store(dtype, data + (size_t)i * tn__size_of(dtype),
                   tn__eval_from_double(dtype, (double)((h >> 13) % 3) - 1));
  }
  tn_tensor *t = tn_from(c, (tn_dtype)dtype, shape, 4, data);
  free(data);
  return t;
}

enum { RESULTS = 3 };

/* y and the gradients of x and w.  inner: of something computed, so that the library may have it in the order it likes.
 */
static void build(tn_ctx *c, int dtype, const geometry *g, bool inner, tn_tensor **out) {
  tn_dim sx[] = {g->n, g->c, g->h, g->w}, sw[] = {g->k, g->c / (g->opt.groups ? g->opt.groups : 1), g->r, g->s}, sy[4];
  tn_tensor *in[2] = {numbers(c, dtype, sx, 1), numbers(c, dtype, sw, 2)};
  out[0] = tn_conv2d(inner ? tn_neg(in[0]) : in[0], in[1], NULL, &g->opt);
  tn_shape(out[0], sy);
  assert_int_equal(tn_vjp(out[0], numbers(c, dtype, sy, 3), 2, in, out + 1), TN_OK);
}

static int calls(tn_tensor **out, int n) {
  char *text = NULL;
  size_t size;
  int found = 0;
  FILE *f = open_memstream(&text, &size);
  assert_int_equal(tn_explain(out, n, f), TN_OK);
  fclose(f);
  for (const char *at = text; (at = strstr(at, "{\"conv\"")); at++) found++;
  free(text);
  return found;
}

static double *values(tn_tensor *t) {
  size_t n = (size_t)tn_numel(t), size = tn__size_of((int)tn_dtype_of(t));
  char *bytes = malloc(n * size + 1);
  double *v = malloc((n + 1) * sizeof *v);
  assert_int_equal(tn_read(t, bytes, n * size), TN_OK);
  for (size_t i = 0; i < n; i++)
    v[i] = tn__eval_to_double((int)tn_dtype_of(t), tn__eval_load((int)tn_dtype_of(t), bytes + i * size));
  free(bytes);
  return v;
}

/* Some eps * sum |term|, each term at most 1: products by way of sums (Winograd) lose a little; and one rounding to the
 * dtype */
static void compare(const char *what, int dtype, tn_tensor *got, tn_tensor *want, double terms) {
  double *a = values(got), *b = values(want), eps = ldexp(1, -(int)tn__dtypes[dtype].mant);
  for (int64_t i = 0; i < tn_numel(got); i++)
    if (!(fabs(a[i] - b[i]) <= 16 * terms * 0x1p-24 + eps * fabs(b[i])))
      fail_msg("%s, %s: element %lld is %.9g, not %g", what, tn__dtypes[dtype].name, (long long)i, a[i], b[i]);
  free(a), free(b);
}

/* How many of its values cuDNN computes */
static int try_geometry(size_t number, int dtype, bool inner) {
  const geometry *g = &geometries[number];
  int64_t groups = g->opt.groups ? g->opt.groups : 1;
  double window = (double)(g->r * g->s),
         terms[RESULTS] = {window * (double)(g->c / groups), window * (double)(g->k / groups),
                           (double)(g->n * g->h * g->w)};
  int by_library = 0;
  tn_scope(cpu) {
    tn_tensor *got[RESULTS], *want[RESULTS];
    char what[80];
    build(cpu, TN_F32, g, inner, want);
    tn_scope(gpu) {
      build(gpu, dtype, g, inner, got);
      by_library = calls(got, RESULTS);
      if (tn_realize(got, RESULTS)) fail_msg("geometry %zu: %s", number, tn_last_error(gpu)->text);
      if (tn_realize(want, RESULTS)) fail_msg("geometry %zu: %s", number, tn_last_error(cpu)->text);
      for (int k = 0; k < RESULTS; k++) {
        snprintf(what, sizeof what, "geometry %zu, result %d%s", number, k, inner ? ", inner" : "");
        compare(what, dtype, got[k], want[k], terms[k]);
      }
    }
  }
  return by_library;
}

static void test_geometries(void **state) {
  static const int dtypes[] = {TN_F32, TN_F16, TN_BF16};
  int by_library = 0, all = 0;
  (void)state;
  if (!gpu) skip();
  for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++)
    for (int t = 0; t < 6; t++) {
      by_library += try_geometry(i, dtypes[t % 3], t > 2);
      all += RESULTS;
    }
  fprintf(stderr, "%d of %d by cuDNN\n", by_library, all);
}

/* Recorded, with a symbolic number of images: the same bits each time, and nothing is allocated once a size has been
 * seen. */
static void test_replay(void **state) {
  enum { MOST = 32, SIDE = 12 };
  static const int64_t images[] = {MOST, 7, 1, 0};
  static float x[MOST * 3 * SIDE * SIDE], dw[6][16 * 3 * 9];
  (void)state;
  if (!gpu) skip();
  for (size_t i = 0; i < sizeof x / sizeof *x; i++) x[i] = (float)(i * 2654435761u % 17) / 16;
  tn_scope(gpu) {
    tn_tensor *w = numbers(gpu, TN_F32, (const tn_dim[]){16, 3, 3, 3}, 1),
              *v = numbers(gpu, TN_F32, (const tn_dim[]){8, 16, 3, 3}, 2), *in[] = {w, v}, *g[2];
    tn_program *p = tn_program_begin(gpu);
    tn_tensor *t = tn_program_input(p, "x", TN_F32, (const tn_dim[]){tn_dim_var(gpu, "B", 0, MOST), 3, SIDE, SIDE}, 4);
    tn_tensor *y = tn_conv2d(tn_relu(tn_conv2d(t, w, NULL, NULL)), v, NULL, NULL);
    assert_int_equal(tn_grad(tn_sum(tn_square(y), NULL, 0, false), 2, in, g), TN_OK);
    assert_int_equal(tn_program_output(p, "dw", g[0]), TN_OK);
    if (tn_program_end(p)) fail_msg("%s", tn_last_error(gpu)->text);
    for (size_t i = 0; i < sizeof images / sizeof *images; i++) {
      tn_dim shape[] = {images[i], 3, SIDE, SIDE};
      for (int k = 0; k < 6; k++) {
        assert_int_equal(tn_program_write(p, "x", shape, 4, x, (size_t)images[i] * sizeof x / MOST), TN_OK);
        if (tn_program_run(p)) fail_msg("%lld images: %s", (long long)images[i], tn_last_error(gpu)->text);
        assert_int_equal(tn_program_read(p, "dw", dw[k], sizeof dw[k]), TN_OK);
        assert_memory_equal(dw[k], dw[0], sizeof dw[0]);
      }
      if (!images[i])
        for (int k = 0; k < 16 * 3 * 9; k++) assert_true(dw[0][k] == 0);
    }
    tn_program_close(p);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_geometries), cmocka_unit_test(test_replay)};
  return cmocka_run_group_tests(tests, open_both, close_both);
}
