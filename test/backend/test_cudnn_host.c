/* The host's side of convolutions by cuDNN, on a stand-in for it (test/fake). */
#include "backend/cuda/cuda.h"
#include "fake/fake.h"
#include "support/ctx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>

static fake_state *fake;

typedef struct fixture {
  tn_ctx c;
  tn__device *d;
  bool f32, f16, f64;
} fixture;

static void open_all(void *arg) {
  fixture *f = arg;
  tn__devices_open(&f->c);
  assert_int_equal(tn__cuda_open(&f->c, 0), 2);
  f->d = tn__device_get(&f->c, 0);
  f->f32 = f->d->ops->has_conv(f->d, TN_F32);
  f->f16 = f->d->ops->has_conv(f->d, TN_F16);
  f->f64 = f->d->ops->has_conv(f->d, TN_F64);
}

static int setup(void **state) {
  static fixture f;
  tn_status status;
  *state = &f;
  fake = fake_open(true);
  return !fake || !test_ctx_open(&f.c) || !tn__mem_try(&f.c.mem, open_all, &f, &status);
}

static int teardown(void **state) {
  fixture *f = *state;
  tn__devices_close(&f->c);
  return test_ctx_close(&f->c) || fake->memory || fake->contexts;
}

static void test_dtypes(void **state) {
  fixture *f = *state;
  assert_true(f->f32 && f->f16);
  assert_false(f->f64);
}

enum { N = 2, C = 3, K = 4, H = 7, W = 8, R = 3, S = 2, P = 4, Q = 5 };

static const tn__conv_call call = {
    .dtype = TN_F32, .size = {N, C, K, H, W, P, Q, R, S}, .stride = {2, 2}, .pad = {1, 2}, .dilation = {1, 2}};

static size_t place(const tn__conv_call *v, int operand, const int64_t *at) {
  const uint8_t *dim = tn__conv_dims[operand];
  size_t c = (size_t)v->size[dim[1]], h = (size_t)v->size[dim[2]], w = (size_t)v->size[dim[3]];
  size_t i = (size_t)at[dim[0]], j = (size_t)at[dim[1]], k = (size_t)at[dim[2]], l = (size_t)at[dim[3]];
  return v->channels_last ? ((i * h + k) * w + l) * c + j : ((i * c + j) * h + k) * w + l;
}

static void by_definition(const tn__conv_call *v, float *const *p) {
  int64_t at[CONV_DIMS];
  for (int i = 0; i < N * K * C * P * Q * R * S; i++) {
    static const int dims[] = {CONV_N, CONV_K, CONV_C, CONV_P, CONV_Q, CONV_R, CONV_S};
    for (int d = 6, rest = i; d >= 0; d--) {
      at[dims[d]] = rest % (int)v->size[dims[d]];
      rest /= (int)v->size[dims[d]];
    }
    at[CONV_H] = at[CONV_P] * v->stride[0] + at[CONV_R] * v->dilation[0] - v->pad[0];
    at[CONV_W] = at[CONV_Q] * v->stride[1] + at[CONV_S] * v->dilation[1] - v->pad[1];
    if (at[CONV_H] < 0 || at[CONV_H] >= H || at[CONV_W] < 0 || at[CONV_W] >= W) continue;
    int o = (int)v->kind, a = (o + 1) % 3, b = (o + 2) % 3;
    p[o][place(v, o, at)] += p[a][place(v, a, at)] * p[b][place(v, b, at)];
  }
}

static void test_kinds(void **state) {
  fixture *f = *state;
  static const size_t size[] = {N * C * H * W, K * C * R * S, N * K * P * Q};
  for (int i = 0; i < 24; i++) {
    tn__conv_call v = call;
    float *mem[3], want[N * C * H * W];
    float *expect[3];
    v.kind = (tn__conv_kind)(i % 3);
    v.channels_last = i / 3 % 2;
    v.beta = i / 6 % 2;
    for (int o = 0; o < 3; o++) {
      expect[o] = mem[o] = v.operand[o] = f->d->ops->alloc(f->d, size[o] * sizeof(float));
      assert_non_null(mem[o]);
      for (size_t k = 0; k < size[o]; k++) mem[o][k] = (float)((int)(k * 7 + (size_t)o) % 5 - 2);
    }
    for (size_t k = 0; k < size[v.kind]; k++) want[k] = v.beta == 0 ? 0 : mem[v.kind][k];
    expect[v.kind] = want;
    by_definition(&v, expect);
    size_t before = fake->memory;
    assert_int_equal(f->d->ops->conv(f->d, &v), TN_OK);
    if (i >= 6) assert_int_equal(fake->memory, before); /* its shape has been seen */
    assert_memory_equal(mem[v.kind], want, size[v.kind] * sizeof(float));
    for (int o = 0; o < 3; o++) f->d->ops->free(f->d, mem[o], size[o] * sizeof(float));
    assert_int_equal(f->d->ops->sync(f->d), TN_OK);
  }
}

static void test_nothing(void **state) {
  fixture *f = *state;
  float *out = f->d->ops->alloc(f->d, K * C * R * S * sizeof(float));
  tn__conv_call v = call;
  v.kind = CONV_FORWARD;
  v.size[CONV_N] = 0;
  assert_int_equal(f->d->ops->conv(f->d, &v), TN_OK); /* nothing to write */
  v.kind = CONV_FILTER;
  v.operand[CONV_FILTER] = out;
  for (int i = 0; i < K * C * R * S; i++) out[i] = 5;
  assert_int_equal(f->d->ops->conv(f->d, &v), TN_OK);
  assert_int_equal(f->d->ops->sync(f->d), TN_OK);
  for (int i = 0; i < K * C * R * S; i++) assert_true(out[i] == 0);
  f->d->ops->free(f->d, out, K * C * R * S * sizeof(float));
}

static void check_refusal(fixture *f, const tn__conv_call *v, tn_status status, const char *words) {
  tn_clear_error(&f->c);
  assert_int_equal(f->d->ops->conv(f->d, v), status);
  if (!strstr(f->c.err.text, words)) fail_msg("'%s' does not say '%s'", f->c.err.text, words);
  tn_clear_error(&f->c);
}

static void test_refusals(void **state) {
  fixture *f = *state;
  tn__conv_call v = call;
  v.kind = CONV_FORWARD;
  v.dtype = TN_F16; /* the stand-in knows f32 only */
  check_refusal(f, &v, TN_ERUN, "cuda:0: convolution of 2x3x7x8 with 4x3x3x2, f16: cuDNN: CUDNN_STATUS_NOT_SUPPORTED");
  v.dtype = TN_F64;
  check_refusal(f, &v, TN_ENOTSUP, "no cuDNN library that convolves f64");
  v.dtype = TN_F32;
  v.size[CONV_N] = (int64_t)1 << 31;
  check_refusal(f, &v, TN_ENOTSUP, "a size of 2147483648 is more than cuDNN takes");
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_dtypes), cmocka_unit_test(test_kinds),
                                     cmocka_unit_test(test_nothing), cmocka_unit_test(test_refusals)};
  return cmocka_run_group_tests(tests, setup, teardown);
}
