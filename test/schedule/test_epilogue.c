/* Kernels that become the end of a library's product.  The interpreter plays the library: it says that it has it, and
 * runs the call's reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/ctx.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
enum { M = 24, K = 40, N = 48, ALL = M * N };

typedef tn_tensor *formula(tn_tensor *x, tn_tensor *w, tn_tensor *b);

static tn_tensor *linear(tn_tensor *x, tn_tensor *w, tn_tensor *b) { return tn_linear(x, w, b); }
static tn_tensor *linear_relu(tn_tensor *x, tn_tensor *w, tn_tensor *b) { return tn_relu(tn_linear(x, w, b)); }
static tn_tensor *only_relu(tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  return (void)b, tn_relu(tn_linear(x, w, NULL));
}
static tn_tensor *linear_gelu(tn_tensor *x, tn_tensor *w, tn_tensor *b) { return tn_gelu_tanh(tn_linear(x, w, b)); }
static tn_tensor *other_relu(tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  return tn_maximum_scalar(tn_linear(x, w, b), 0);
}
static tn_tensor *no_relu(tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  tn_tensor *y = tn_linear(x, w, b);
  return tn_where_scalar(tn_gt_scalar(y, 0), y, 0); /* NaN gives 0 */
}
/* x * x * (x * k) for the cube, constants in other places */
static tn_tensor *spelt_gelu(tn_tensor *x, tn_tensor *w, tn_tensor *b, double k) {
  tn_tensor *y = tn_cast(tn_linear(x, w, b), TN_F32), *cube = tn_mul(tn_mul(y, y), tn_mul_scalar(y, k));
  tn_tensor *phi = tn_add_scalar(tn_tanh(tn_mul_scalar(tn_add(cube, y), 0.79788456080286535588)), 1);
  return tn_cast(tn_mul(tn_mul_scalar(phi, 0.25), tn_mul_scalar(y, 2)), tn_dtype_of(x));
}
static tn_tensor *other_gelu(tn_tensor *x, tn_tensor *w, tn_tensor *b) { return spelt_gelu(x, w, b, 0.044715); }
static tn_tensor *no_gelu(tn_tensor *x, tn_tensor *w, tn_tensor *b) { return spelt_gelu(x, w, b, 0.0448); }
static tn_tensor *batched(tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  return tn_relu(tn_linear(tn_reshape(x, DIMS(4, M / 4, K)), w, b));
}
static tn_tensor *exact_gelu(tn_tensor *x, tn_tensor *w, tn_tensor *b) { return tn_gelu(tn_linear(x, w, b)); }
static tn_tensor *by_column(tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  return tn_relu(tn_add(tn_linear(x, w, NULL), tn_reshape(tn_slice(b, 0, 0, M, 1), DIMS(M, 1))));
}
static tn_tensor *flipped(tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  return tn_relu(tn_add(tn_linear(x, w, NULL), tn_flip(b, NULL, 0)));
}
static tn_tensor *used_twice(tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  tn_tensor *y = tn_contiguous(tn_linear(x, w, NULL));
  return tn_add(tn_relu(tn_add(y, b)), tn_sum(y, (const int[]){1}, 1, true));
}

typedef struct row {
  formula *of;
  tn_dtype dtype;
  bool joined;
  const char *call; /* how it shows in the schedule */
} row;

static const row rows[] = {
    {linear, TN_F32, true, "1 0}"},      {linear_relu, TN_F32, true, "1 1}"}, {only_relu, TN_F32, true, "0 1}"},
    {linear_gelu, TN_BF16, true, "1 2}"}, {linear_relu, TN_F16, true, "1 1}"}, {batched, TN_F32, true, "1 1}"},
    {linear_gelu, TN_F32, false, NULL},  {exact_gelu, TN_BF16, false, NULL}, {by_column, TN_F32, false, NULL},
    {flipped, TN_F32, false, NULL},      {used_twice, TN_F32, false, NULL},
    {other_relu, TN_F32, true, "1 1}"},  {no_relu, TN_F32, false, NULL},
    {other_gelu, TN_BF16, true, "1 2}"}, {no_gelu, TN_BF16, false, NULL},
};

static bool has_gemm(tn__device *d, int dtype) { return (void)d, tn__is_float(dtype); }
static bool has_after(tn__device *d, int dtype, tn__after after) {
  return (void)d, after != TN__AFTER_GELU || dtype != TN_F32;
}

/* As f32; *text: the schedule. */
static void compute(const row *r, bool library, float *out, char **text) {
  static tn__device_ops ops;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  size_t size;
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  ops = *d->ops;
  if (library) ops.has_gemm = has_gemm, ops.has_after = has_after;
  d->ops = &ops;
  tn_scope(c) {
    tn_tensor *x = tn_cast(tn_uniform(c, TN_F32, DIMS(M, K), -1, 1), r->dtype),
              *w = tn_cast(tn_uniform(c, TN_F32, DIMS(N, K), -1, 1), r->dtype);
    tn_tensor *b = tn_cast(tn_uniform(c, TN_F32, DIMS(N), -1, 1), r->dtype);
    tn_realize((tn_tensor *[]){x, w, b}, 3);
    tn_tensor *y = r->of(x, w, b);
    FILE *f = open_memstream(text, &size);
    assert_int_equal(tn_explain(&y, 1, f), TN_OK);
    fclose(f);
    assert_int_equal(tn_read(tn_cast(y, TN_F32), out, ALL * sizeof *out), TN_OK);
  }
  tn_ctx_close(c);
}

static void test_rows(void **state) {
  (void)state;
  static float with[ALL], without[ALL];
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text, *other, call[64] = "";
    compute(&rows[i], true, with, &text);
    compute(&rows[i], false, without, &other);
    if (rows[i].joined) snprintf(call, sizeof call, "{\"gemm\" 0 0 %s", rows[i].call);
    bool found = strstr(text, "lib ") && (rows[i].joined ? strstr(text, call) != NULL : strstr(text, " 0 0}") != NULL);
    if (!found) fail_msg("row %zu:\n%s", i, text);
    /* the reference rounds at each step */
    double most = 0, eps = rows[i].dtype == TN_F32 ? 1e-5 : rows[i].dtype == TN_F16 ? 4e-2 : 0.3;
    for (int e = 0; e < ALL; e++) most = fmax(most, fabs((double)with[e] - (double)without[e]));
    if (!(most <= eps)) fail_msg("row %zu: off by %g", i, most);
    free(text);
    free(other);
  }
}

/* ---- own kernels: whatever there is to do with the elements ------------------------------------------------------ */

enum { TAILS = 40, LONGEST = 10, SIDE = 64 };

static uint32_t draw(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((*state >> 33) % n);
}

/* Any functions of the product's elements y, in any order, with further operands. */
static tn_tensor *random_tail(uint64_t *state, tn_tensor *y, tn_tensor *const *more, uint32_t nmore) {
  static tn_tensor *(*const one[])(tn_tensor *) = {tn_tanh, tn_relu, tn_gelu, tn_sigmoid,
                                                   tn_neg,  tn_abs,  tn_exp,  tn_sin};
  static tn_tensor *(*const two[])(tn_tensor *, tn_tensor *) = {tn_add, tn_mul, tn_sub, tn_maximum, tn_minimum};
  tn_tensor *t = y;
  for (uint32_t n = 1 + draw(state, LONGEST); n; n--) {
    tn_tensor *other = draw(state, 4) ? more[draw(state, nmore)] : y;
    uint32_t kind = draw(state, 4);
    if (kind == 0) t = one[draw(state, sizeof one / sizeof *one)](t);
    else if (kind == 1) t = two[draw(state, sizeof two / sizeof *two)](t, other);
    else if (kind == 2) t = tn_where(tn_lt(t, other), other, t);
    else t = tn_add_scalar(tn_mul_scalar(t, 0.5 + draw(state, 3)), (double)draw(state, 3) - 1);
  }
  return t;
}

/* They are part of the product's kernel. */
static void check_tail(const char *device, tn_dtype dtype, uint64_t seed, bool tiles) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .no_library = 1, .verify = "0"});
  assert_non_null(c);
  tn__device_get(c, 0)->target.units = 2; /* which so small a product keeps busy */
  tn_scope(c) {
    tn_program *p = tn_program_begin(c); /* nothing is computed */
    tn_tensor *x = tn_program_input(p, "x", dtype, DIMS(4 * SIDE, SIDE)),
              *w = tn_program_input(p, "w", dtype, DIMS(SIDE, SIDE));
    tn_tensor *more[] = {tn_program_input(p, "row", dtype, DIMS(SIDE)),
                         tn_program_input(p, "column", dtype, DIMS(4 * SIDE, 1)),
                         tn_program_input(p, "all", dtype, DIMS(4 * SIDE, SIDE)), tn_full(c, dtype, NULL, 0, 0.25)};
    tn_tensor *y = random_tail(&seed, tn_matmul(x, w), more, 4);
    tn_program_info info;
    char *text;
    size_t size;
    FILE *f = open_memstream(&text, &size);
    if (tn_get_info(&y, 1, &info) || tn_explain(&y, 1, f)) fail_msg("%s", tn_last_error(c)->text);
    fclose(f);
    if (info.kernels != 1) fail_msg("%s, dtype %d, %d kernels:\n%s", device, (int)dtype, info.kernels, text);
    if ((strstr(text, " tile(") != NULL) != tiles) fail_msg("%s, dtype %d, tiles:\n%s", device, (int)dtype, text);
    free(text);
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

static void test_tails(void **state) {
  (void)state;
  for (uint64_t i = 1; i <= TAILS; i++) {
    check_tail("ref", TN_F32, i, false);
    check_tail("ref:cpu", TN_F32, i, false);
    check_tail("ref:opencl", TN_BF16, i, false);
    check_tail("ref:sm_80", TN_F32, i, true);
    check_tail("ref:sm_90", TN_F32, i, true);
    check_tail("ref:sm_90", TN_BF16, i, true);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_rows), cmocka_unit_test(test_tails)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
