/* Products by tiles: every form's digits number each element of a tile once, and what a form means is the product. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

typedef struct row {
  tn_dtype dtype;
  bool across[2]; /* the operand lies in memory transposed */
  int64_t batch, m, n, k;
  bool epilogue;
} row;

static tn_tensor *operand(tn_ctx *c, const row *r, bool across, int64_t rows, int64_t cols) {
  tn_tensor *t = tn_uniform(c, r->dtype, across ? (tn_dim[]){r->batch, cols, rows} : (tn_dim[]){r->batch, rows, cols}, 3, -1, 1);
  tn_realize(&t, 1);
  return across ? tn_transpose(t, 1, 2) : t;
}

/* The product on a device, as f32; whether a kernel by tiles made it. */
static float *multiply(const char *device, const row *r, bool *tiled) {
  float *out = NULL;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .no_library = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *a = operand(c, r, r->across[0], r->m, r->k), *b = operand(c, r, r->across[1], r->k, r->n), *y = tn_matmul(a, b);
    if (r->epilogue) y = tn_relu(tn_add(y, tn_uniform(c, r->dtype, DIMS(r->n), -1, 1)));
    char *text;
    size_t n;
    FILE *f = open_memstream(&text, &n);
    assert_int_equal(tn_explain(&y, 1, f), TN_OK);
    fclose(f);
    *tiled = strstr(text, " tile(") != NULL;
    free(text);
    tn_tensor *wide = tn_cast(y, TN_F32);
    out = malloc(tn_nbytes(wide));
    assert_int_equal(tn_read(wide, out, tn_nbytes(wide)), TN_OK);
  }
  tn_ctx_close(c);
  return out;
}

static void check(const row *r, const char *device, bool want) {
  bool tiled, other;
  float *x = multiply(device, r, &tiled), *y = multiply("cpu", r, &other);
  double error = 0, size = 0;
  for (int64_t i = 0; i < r->batch * r->m * r->n; i++) {
    error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    size += (double)y[i] * (double)y[i];
  }
  free(x);
  free(y);
  assert_int_equal(tiled, want);
  assert_false(other);
  assert_true(size > 0);
  if (!(sqrt(error / size) < (r->dtype == TN_F32 ? 1e-6 : 1e-2))) fail_msg("%s: relative error %g", device, sqrt(error / size));
}

static void products(void **s) {
  (void)s;
  static const row rows[] = {
      {TN_BF16, {false, false}, 1, 128, 256, 64, false}, {TN_BF16, {true, true}, 1, 128, 256, 64, true},
      {TN_F16, {false, true}, 2, 128, 256, 64, true},    {TN_F32, {false, false}, 1, 128, 256, 16, true},
      {TN_F32, {true, true}, 1, 128, 512, 16, false},   {TN_F32, {false, true}, 1, 16, 32, 16, true},
      {TN_F32, {true, false}, 3, 32, 96, 144, true},     {TN_F32, {false, false}, 1, 16, 64, 784, true},
      {TN_F32, {true, true}, 2, 48, 32, 592, false},    {TN_F32, {false, true}, 1, 32, 48, 784, true},
      {TN_F32, {true, false}, 1, 64, 16, 16, false},    {TN_F32, {false, false}, 2, 32, 16, 576, true},
      {TN_F32, {true, true}, 1, 32, 784, 64, false},
  };
  const char *device = device_or("ref:sm_90");
  bool hopper = !strncmp(device, "cuda", 4) || !strcmp(device, "ref:sm_90"), ampere = !strcmp(device, "ref:sm_80"); /* whose forms are of f32 */
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check(&rows[i], device, hopper || (ampere && rows[i].dtype == TN_F32));
}

/* Sizes that no tile divides, and elements that do not lie in runs, go the ordinary way. */
static void others(void **s) {
  (void)s;
  static const row rows[] = {{TN_BF16, {false, false}, 1, 128, 248, 64, false}, {TN_F32, {false, false}, 1, 127, 256, 16, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check(&rows[i], "ref:sm_90", false);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products), cmocka_unit_test(others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
