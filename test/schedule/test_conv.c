/* Convolutions as library calls, on devices that are given a library here: loops, or the reference kernels of the calls
 * themselves.  Compared with the same graphs on the same device without one. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/eval.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- the library ---- */

typedef struct log_of_calls {
  int calls[3], last; /* by kind; of them in channels-last order */
  bool missing;       /* no f32 */
  tn__target target;
} log_of_calls;
static log_of_calls seen;

static bool has_conv(tn__device *d, int dtype) {
  (void)d;
  return dtype == TN_F16 || dtype == TN_BF16 || (dtype == TN_F32 && !seen.missing);
}

static int64_t place(const tn__conv_call *v, int operand, const int64_t *at) {
  const uint8_t *dim = tn__conv_dims[operand];
  int64_t n = v->size[dim[0]], c = v->size[dim[1]], h = v->size[dim[2]], w = v->size[dim[3]];
  (void)n;
  return v->channels_last ? ((at[dim[0]] * h + at[dim[2]]) * w + at[dim[3]]) * c + at[dim[1]]
                          : ((at[dim[0]] * c + at[dim[1]]) * h + at[dim[2]]) * w + at[dim[3]];
}

static char *element(const tn__conv_call *v, int operand, const int64_t *at) {
  return (char *)v->operand[operand] + (size_t)place(v, operand, at) * tn__size_of(v->dtype);
}

static double value(const tn__conv_call *v, int operand, const int64_t *at) {
  return tn__eval_to_double(v->dtype, tn__eval_load(v->dtype, element(v, operand, at)));
}

/* Advances an odometer over the given dimensions; false when it has gone round. */
static bool advance(const tn__conv_call *v, const int *dims, int n, int64_t *at) {
  for (int i = n; i-- > 0; at[dims[i]] = 0)
    if (++at[dims[i]] < v->size[dims[i]]) return true;
  return false;
}

/* By the definition in device.h: every product of x and w goes to its y, or its adjoint. */
static tn_status conv(tn__device *d, const tn__conv_call *v) {
  static const int dims[] = {CONV_N, CONV_K, CONV_C, CONV_P, CONV_Q, CONV_R, CONV_S};
  const uint8_t *out = tn__conv_dims[v->kind];
  int64_t at[CONV_DIMS] = {0}, count = 1, all = 1;
  (void)d;
  for (int i = 0; i < 4; i++) count *= v->size[out[i]];
  for (int i = 0; i < 7; i++) all *= v->size[dims[i]];
  double *sum = calloc((size_t)count + 1, sizeof *sum);
  seen.calls[v->kind]++;
  seen.last += v->channels_last;
  if (all) do {
    at[CONV_H] = at[CONV_P] * v->stride[0] + at[CONV_R] * v->dilation[0] - v->pad[0];
    at[CONV_W] = at[CONV_Q] * v->stride[1] + at[CONV_S] * v->dilation[1] - v->pad[1];
    if (at[CONV_H] < 0 || at[CONV_H] >= v->size[CONV_H] || at[CONV_W] < 0 || at[CONV_W] >= v->size[CONV_W]) continue;
    double x = 1;
    for (int o = 0; o < 3; o++)
      if (o != (int)v->kind) x *= value(v, o, at);
    sum[place(v, (int)v->kind, at)] += x;
  } while (advance(v, dims, 7, at));
  for (int64_t i = 0; i < count; i++) {
    char *to = (char *)v->operand[v->kind] + (size_t)i * tn__size_of(v->dtype);
    double old = v->beta == 0 ? 0 : v->beta * tn__eval_to_double(v->dtype, tn__eval_load(v->dtype, to));
    tn__eval_store(v->dtype, to, tn__eval_from_double(v->dtype, sum[i] + old));
  }
  free(sum);
  return TN_OK;
}

typedef enum library { NONE, LOOPS, BODIES } library;

/* A context on the device; with a library, and then with nothing else, so that a product of windows is noticed */
static tn_ctx *open_with(const char *device, library l, tn__device_ops *ops) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .mode = TN_MODE_DEFAULT, .quiet = 1});
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  *ops = *d->ops;
  ops->has_conv = l != NONE ? has_conv : NULL;
  ops->conv = l == LOOPS ? conv : NULL;
  d->ops = ops;
  memset(&seen, 0, sizeof seen);
  seen.target = d->target;
  return c;
}

/* ---- values ---- */

/* -1, 0 and 1: sums of a few hundred products are exact in every dtype and any order. */
static tn_tensor *numbers(tn_ctx *c, int dtype, const tn_dim *shape, int rank, unsigned salt) {
  int64_t n = 1;
  for (int i = 0; i < rank; i++) n *= shape[i];
  char *data = malloc((size_t)(n + 1) * tn__size_of(dtype));
  for (int64_t i = 0; i < n; i++) {
    unsigned h = ((unsigned)i + salt * 7919u) * 2654435761u;
    tn__eval_store(dtype, data + (size_t)i * tn__size_of(dtype),
                   tn__eval_from_double(dtype, (double)((h >> 13) % 3) - 1));
  }
  tn_tensor *t = tn_from(c, (tn_dtype)dtype, shape, rank, data);
  free(data);
  assert_non_null(t);
  return t;
}

static size_t bytes_of(tn_tensor *t) { return (size_t)tn_numel(t) * tn__size_of((int)tn_dtype_of(t)); }

typedef struct geometry {
  const char *name;
  int64_t n, c, h, w, k, r, s;
  tn_conv2d_options opt;
  bool called; /* forwards by the library; else a product of copies does */
} geometry;

static const geometry geometries[] = {
    {"plain", 2, 3, 7, 6, 5, 3, 3, {{0}, {0}, {0}, 0}, true},
    {"one image, one channel, one filter", 1, 1, 14, 13, 1, 3, 3, {{0}, {0}, {0}, 0}, true},
    {"one image", 1, 4, 9, 9, 3, 3, 2, {{0}, {1, 1}, {0}, 0}, true},
    {"one channel", 3, 1, 9, 8, 4, 3, 3, {{2, 1}, {1, 0}, {0}, 0}, true},
    {"stride", 2, 4, 9, 11, 3, 3, 3, {{2, 3}, {1, 1}, {0}, 0}, true},
    {"stride that leaves a rest", 2, 3, 10, 12, 3, 3, 3, {{2, 3}, {0}, {0}, 0}, true},
    {"dilation", 2, 3, 11, 12, 4, 3, 2, {{1, 2}, {2, 1}, {2, 3}, 0}, true},
    {"padding wider than the filter", 2, 3, 5, 5, 4, 2, 2, {{1, 1}, {3, 2}, {0}, 0}, true},
    {"nothing but border", 3, 4, 1, 9, 5, 1, 3, {{2, 1}, {1, 1}, {0}, 0}, true},
    {"one row", 2, 5, 6, 8, 4, 1, 3, {{0}, {0, 1}, {0}, 0}, true},
    {"one row, strides", 2, 5, 7, 9, 4, 1, 3, {{2, 2}, {0, 1}, {0}, 0}, true},
    {"as high as the image", 2, 3, 4, 9, 5, 4, 3, {{0}, {0}, {0}, 0}, true},
    {"more filter than places", 2, 3, 6, 6, 4, 4, 4, {{0}, {0}, {0}, 0}, true},
    {"one place", 2, 4, 6, 5, 8, 5, 5, {{4, 4}, {0}, {0}, 0}, false},
    {"1x1", 2, 5, 6, 6, 7, 1, 1, {{0}, {0}, {0}, 0}, false},
    {"1x1, stride", 2, 5, 7, 6, 7, 1, 1, {{2, 2}, {0}, {0}, 0}, false},
    {"side by side", 2, 5, 6, 7, 7, 2, 2, {{2, 2}, {0}, {0}, 0}, false},
    {"the whole image", 3, 4, 4, 3, 5, 4, 3, {{0}, {0}, {0}, 0}, false},
    {"groups", 2, 6, 6, 7, 8, 3, 3, {{0}, {0}, {0}, 2}, false},
};

enum { RESULTS = 6 };

/* A convolution of something computed, its gradients, and what is differentiated of them once more. */
static int build(tn_ctx *c, int dtype, const geometry *g, bool inner, tn_tensor **out) {
  tn_dim sx[] = {g->n, g->c, g->h, g->w}, sw[] = {g->k, g->c / (g->opt.groups ? g->opt.groups : 1), g->r, g->s}, sy[4];
  tn_tensor *in[2] = {numbers(c, dtype, sx, 4, 1), numbers(c, dtype, sw, 4, 2)}, *grad[2], *more[2];
  tn_tensor *x = inner ? tn_relu(tn_neg(in[0])) : in[0];
  out[0] = tn_conv2d(x, in[1], NULL, &g->opt);
  tn_shape(out[0], sy);
  tn_tensor *dy = numbers(c, dtype, sy, 4, 3);
  assert_int_equal(tn_vjp(out[0], dy, 2, in, grad), TN_OK);
  out[1] = grad[0];
  out[2] = grad[1];
  if (!inner) return 3;
  tn_tensor *from[2] = {dy, in[1]};
  assert_int_equal(tn_vjp(grad[0], numbers(c, dtype, sx, 4, 4), 2, from, more), TN_OK);
  out[3] = more[0];
  out[4] = more[1];
  out[5] = tn_add_scalar(tn_relu(tn_conv2d(tn_permute(x, (const int[]){0, 1, 3, 2}, 4),
                                           tn_permute(in[1], (const int[]){0, 1, 3, 2}, 4), NULL,
                                           &(tn_conv2d_options){.stride = {g->opt.stride[1], g->opt.stride[0]},
                                                                .padding = {g->opt.padding[1], g->opt.padding[0]},
                                                                .dilation = {g->opt.dilation[1], g->opt.dilation[0]},
                                                                .groups = g->opt.groups})),
                         1);
  return RESULTS;
}

static int results(const char *device, library l, int dtype, const geometry *g, bool inner, char **data, size_t *size) {
  tn__device_ops ops;
  tn_ctx *c = open_with(device, l, &ops);
  int n = 0;
  tn_scope(c) {
    tn_tensor *out[RESULTS];
    n = build(c, dtype, g, inner, out);
    if (tn_realize(out, n)) fail_msg("%s: %s", g->name, tn_last_error(c)->text);
    for (int i = 0; i < n; i++) {
      size[i] = bytes_of(out[i]);
      data[i] = malloc(size[i] + 1);
      assert_int_equal(tn_read(out[i], data[i], size[i]), TN_OK);
    }
  }
  tn_ctx_close(c);
  return n;
}

/* Then group devices sum the filters' gradient by themselves. */
static bool has_little_window(int dtype, const geometry *g) {
  int64_t window = g->c / (g->opt.groups ? g->opt.groups : 1) * g->r * g->s;
  return seen.target.group && dtype == TN_F32 &&
         (tn__target_is_narrow(&seen.target, (double)window) ||
          tn__target_shares_sums(&seen.target, (double)(window * g->k)));
}

static void compare(const char *device, library l, int dtype, const geometry *g, bool inner) {
  char *want[RESULTS], *got[RESULTS];
  size_t size[RESULTS];
  int n = results(device, NONE, dtype, g, inner, want, size);
  assert_int_equal(results(device, l, dtype, g, inner, got, size), n);
  for (int i = 0; i < n; i++) {
    for (size_t at = 0; at < size[i]; at += tn__size_of(dtype)) {
      double a = tn__eval_to_double(dtype, tn__eval_load(dtype, got[i] + at)),
             b = tn__eval_to_double(dtype, tn__eval_load(dtype, want[i] + at));
      if (a != b)
        fail_msg("%s on %s, %s, library %d%s: element %zu of result %d is %g, not %g", g->name, device,
                 tn__dtypes[dtype].name, (int)l, inner ? ", inner" : "", at / tn__size_of(dtype), i, a, b);
    }
    free(want[i]), free(got[i]);
  }
  for (int kind = 0; l == LOOPS && kind < 3; kind++) {
    bool called = g->called && !(kind == CONV_FILTER && has_little_window(dtype, g));
    if (kind == CONV_DATA ? called && !seen.calls[kind] : (seen.calls[kind] > 0) != called)
      fail_msg("%s on %s, %s%s: %d calls of kind %d", g->name, device, tn__dtypes[dtype].name, inner ? ", inner" : "",
               seen.calls[kind], kind);
  }
}

static void test_geometries(void **state) {
  (void)state;
  static const int dtypes[] = {TN_F32, TN_F16, TN_BF16};
  const char *device = device_or("ref");
  unsigned long cases = 0;
  bool gpu = is_gpu(device); /* no library: this test's computes in host memory; a sample: compiling takes its time */
  for (size_t i = 0; i < sizeof geometries / sizeof *geometries; i++)
    for (int l = gpu ? BODIES : LOOPS; l <= BODIES; l++)
      for (int t = 0; t < 3; t++)
        for (int inner = gpu; inner < 2; inner++)
          if (gpu ? i % 4 == 0 && (i == 0 || t == 0)
                  : (l == LOOPS || inner || dtypes[t] != TN_BF16) && is_taken(&cases))
            compare(device, (library)l, dtypes[t], &geometries[i], inner);
}

static void test_compiled(void **state) {
  (void)state;
  geometry g = geometries[4];
  g.k = 9; /* more than own loops add up */
  compare("cpu", LOOPS, TN_F32, &g, true);
  compare("cpu", BODIES, TN_F32, &g, true);
}

/* Sums of few products are a processor's own loops': forward of an element of a window each, images' gradients of a
 * filter each, and of a tap where windows are put at every place. */
static void test_few_products(void **state) {
  static const struct {
    int64_t channels, filters, stride;
    int calls[3]; /* by kind */
  } rows[] = {{1, 8, 1, {[CONV_DATA] = 1, [CONV_FILTER] = 1}},
              {2, 3, 1, {[CONV_DATA] = 1, [CONV_FILTER] = 1}},
              {3, 2, 1, {[CONV_FORWARD] = 1, [CONV_FILTER] = 1}},
              {3, 8, 2, {[CONV_FORWARD] = 1, [CONV_FILTER] = 1}},
              {3, 9, 2, {[CONV_FORWARD] = 1, [CONV_DATA] = 1, [CONV_FILTER] = 1}}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    geometry g = {"few products", 4, rows[i].channels, 9, 10, rows[i].filters, 1, 3, {.stride = {1, rows[i].stride}},
                  true};
    tn__device_ops ops;
    tn_ctx *c = open_with("cpu", LOOPS, &ops);
    tn_scope(c) {
      tn_tensor *out[RESULTS];
      int n = build(c, TN_F32, &g, false, out);
      if (tn_realize(out, n)) fail_msg("row %zu: %s", i, tn_last_error(c)->text);
      for (int kind = 0; kind < 3; kind++)
        if (seen.calls[kind] != rows[i].calls[kind])
          fail_msg("row %zu: %d calls of kind %d", i, seen.calls[kind], kind);
    }
    tn_ctx_close(c);
  }
}

/* What comes back is the same with images and filters exchanged, and is one node: one of the two gradients has it
 * copied, as it cannot be stored in both orders. */
static void test_contested(void **state) {
  enum { SIZE = 9 };
  static const tn_dim sx[] = {SIZE, SIZE, 6, 7}, sw[] = {SIZE, SIZE, 3, 3}, sy[] = {SIZE, SIZE, 4, 5};
  static float got[2][2][SIZE * SIZE * 6 * 7];
  (void)state;
  for (int l = NONE; l <= LOOPS; l++) {
    tn__device_ops ops;
    tn_ctx *c = open_with("ref", (library)l, &ops);
    tn_scope(c) {
      tn_tensor *in[] = {numbers(c, TN_F32, sx, 4, 1), numbers(c, TN_F32, sw, 4, 2)}, *grad[2];
      assert_int_equal(tn_vjp(tn_conv2d(in[0], in[1], NULL, NULL), tn_full(c, TN_F32, sy, 4, 2), 2, in, grad), TN_OK);
      if (tn_realize(grad, 2)) fail_msg("%s", tn_last_error(c)->text);
      for (int i = 0; i < 2; i++) assert_int_equal(tn_read(grad[i], got[l][i], bytes_of(grad[i])), TN_OK);
      assert_int_equal(seen.calls[CONV_DATA], l == LOOPS);
      assert_int_equal(seen.calls[CONV_FILTER], l == LOOPS);
    }
    tn_ctx_close(c);
  }
  assert_memory_equal(got[NONE], got[LOOPS], sizeof got[NONE]);
}

/* ---- a training step, for any number of images from 0 ---- */

enum { SIDE = 12, MOST = 8, CLASSES = 5, WEIGHTS = 4, STEPS = 4 };

static void training_step(tn_ctx *c, tn_tensor *x, tn_tensor *label, tn_tensor **w, tn_tensor **loss) {
  tn_tensor *g[WEIGHTS];
  tn_tensor *h = tn_reshape(tn_mul_scalar(tn_cast(x, TN_F32), 0.5), (const tn_dim[]){tn_size(x, 0), 1, SIDE, SIDE}, 4);
  h = tn_relu(tn_conv2d(h, w[0], w[1], NULL));
  h = tn_max_pool2d(tn_relu(tn_conv2d(h, w[2], NULL, &(tn_conv2d_options){.padding = {1, 1}})), 2, 2, NULL);
  *loss = tn_sum(tn_square(tn_sub(tn_matmul(tn_flatten(h, 1, -1), w[3]), label)), NULL, 0, false);
  assert_int_equal(tn_grad(*loss, WEIGHTS, w, g), TN_OK);
  for (int i = 0; i < WEIGHTS; i++)
    assert_int_equal(tn_assign(w[i], tn_sub(w[i], tn_mul_scalar(g[i], 0x1p-20))), TN_OK);
  (void)c;
}

typedef struct outcome {
  float loss[STEPS];
  tn_program_info info;
  log_of_calls seen;
} outcome;

static void train(library l, outcome *out) {
  static const int64_t images[STEPS] = {MOST, 0, 1, 7};
  tn__device_ops ops;
  unsigned char pixels[MOST * SIDE * SIDE];
  float labels[MOST * CLASSES];
  for (size_t i = 0; i < sizeof pixels; i++) pixels[i] = (unsigned char)(i * 31 % 7);
  for (int i = 0; i < MOST * CLASSES; i++) labels[i] = (float)(i % 3);
  tn_ctx *c = open_with("cpu", l, &ops);
  tn_scope(c) {
    tn_tensor *w[WEIGHTS] = {numbers(c, TN_F32, (const tn_dim[]){8, 1, 3, 3}, 4, 5),
                             numbers(c, TN_F32, (const tn_dim[]){8}, 1, 6),
                             numbers(c, TN_F32, (const tn_dim[]){16, 8, 3, 3}, 4, 7),
                             numbers(c, TN_F32, (const tn_dim[]){16 * 25, CLASSES}, 2, 8)},
              *loss;
    tn_dim n = tn_dim_var(c, "B", 0, MOST);
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_U8, (const tn_dim[]){n, SIDE * SIDE}, 2),
              *y = tn_program_input(p, "y", TN_F32, (const tn_dim[]){n, CLASSES}, 2);
    training_step(c, x, y, w, &loss);
    assert_int_equal(tn_program_output(p, "loss", loss), TN_OK);
    if (tn_program_end(p)) fail_msg("%s", tn_last_error(c)->text);
    for (int i = 0; i < STEPS; i++) {
      int64_t m = images[i];
      memset(&seen, 0, sizeof seen);
      assert_int_equal(tn_program_write(p, "x", (const tn_dim[]){m, SIDE * SIDE}, 2, pixels, (size_t)m * SIDE * SIDE),
                       TN_OK);
      assert_int_equal(tn_program_write(p, "y", (const tn_dim[]){m, CLASSES}, 2, labels, (size_t)m * CLASSES * 4),
                       TN_OK);
      if (tn_program_run(p)) fail_msg("%s", tn_last_error(c)->text);
      assert_int_equal(tn_program_read(p, "loss", &out->loss[i], 4), TN_OK);
      if (!i) assert_int_equal(tn_program_get_info(p, &out->info), TN_OK);
    }
    out->seen = seen;
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

/* Windows of the second convolution's images would be this large. */
enum { WINDOWS = MOST * 8 * 9 * 100 * 4 };

static void test_training_step(void **state) {
  outcome plain, with;
  (void)state;
  train(NONE, &plain);
  train(LOOPS, &with);
  for (int i = 0; i < STEPS; i++)
    if (!(with.loss[i] <= plain.loss[i] * (1 + 1e-5f) && with.loss[i] >= plain.loss[i] * (1 - 1e-5f)))
      fail_msg("step %d: loss %g, not %g", i, (double)with.loss[i], (double)plain.loss[i]);
  assert_int_equal(with.seen.calls[CONV_FORWARD], 2);
  assert_int_equal(with.seen.calls[CONV_FILTER], 2);
  assert_int_equal(with.seen.calls[CONV_DATA], 1);
  assert_int_equal(with.seen.last, 0); /* f32: in planes */
  assert_int_equal(with.info.library_calls, 5 + 2); /* and products of the last layer, but for that over few classes */
  if (with.info.intermediate + WINDOWS > plain.info.intermediate)
    fail_msg("%zu bytes of intermediates, %zu without a library", with.info.intermediate, plain.info.intermediate);
  if (with.info.kernels > 11) fail_msg("%d kernels", with.info.kernels);
}

/* No images, as a plain size: there is nothing to call. */
static void test_no_images(void **state) {
  (void)state;
  compare("ref", BODIES, TN_F32, &(geometry){"no images", 0, 3, 7, 6, 5, 3, 3, {{0}, {0}, {0}, 0}, false}, true);
}

/* A dtype that the library lacks */
static void test_lacking(void **state) {
  tn__device_ops ops;
  (void)state;
  tn_ctx *c = open_with("cpu", LOOPS, &ops);
  seen.missing = true;
  tn_scope(c) {
    tn_tensor *out[RESULTS];
    int n = build(c, TN_F32, &geometries[0], false, out);
    assert_int_equal(tn_realize(out, n), TN_OK);
    assert_int_equal(seen.calls[CONV_FORWARD] + seen.calls[CONV_DATA] + seen.calls[CONV_FILTER], 0);
  }
  tn_ctx_close(c);
}

/* Gradients of f32 with few channels, as the device's balance has it, and much to do are own kernels where there are
 * tiles for them; what differs in one thing is the library's.  So are sums for few filters by tf32, if channels are no
 * whole accesses. */
static void test_few_channels(void **state) {
  static const struct {
    const char *device;
    int64_t images, channels, filters;
    int dtype, tf32, calls[2]; /* of the images' gradient, of the filters' */
  } rows[] = {{"ref:sm_90", 32, 32, 64, TN_F32, 0, {0, 0}}, {"ref:sm_90", 24, 32, 64, TN_F32, 0, {1, 1}},
              {"ref:sm_90", 32, 56, 56, TN_F32, 0, {0, 0}}, {"ref:sm_90", 32, 57, 56, TN_F32, 0, {1, 1}},
              {"ref:sm_90", 32, 56, 57, TN_F32, 0, {1, 1}}, {"ref:sm_80", 48, 40, 40, TN_F32, 0, {0, 0}},
              {"ref:sm_80", 48, 40, 41, TN_F32, 0, {1, 1}},
              {"ref:sm_90", 32, 32, 64, TN_F16, 0, {1, 1}}, {"ref:sm_90", 32, 32, 64, TN_F32, 1, {1, 1}},
              {"ref:sm_90", 32, 3, 40, TN_F32, 1, {1, 0}}, {"ref:sm_90", 32, 4, 40, TN_F32, 1, {1, 1}},
              {"ref", 32, 32, 64, TN_F32, 0, {1, 1}}};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn__device_ops ops;
    tn_ctx *c = open_with(rows[i].device, LOOPS, &ops);
    c->opt.tf32 = rows[i].tf32;
    tn_scope(c) {
      tn_program *p = tn_program_begin(c); /* nothing is computed */
      tn_dtype dtype = (tn_dtype)rows[i].dtype;
      tn_tensor *in[] = {tn_program_input(p, "x", dtype, (const tn_dim[]){rows[i].images, rows[i].channels, 26, 26}, 4),
                         tn_program_input(p, "w", dtype, (const tn_dim[]){rows[i].filters, rows[i].channels, 3, 3}, 4)};
      tn_tensor *dy = tn_program_input(p, "dy", dtype, (const tn_dim[]){rows[i].images, rows[i].filters, 24, 24}, 4),
                *grad[2];
      assert_int_equal(tn_vjp(tn_conv2d(in[0], in[1], NULL, NULL), dy, 2, in, grad), TN_OK);
      for (int g = 0; g < 2; g++) {
        tn_program_info info;
        if (tn_get_info(&grad[g], 1, &info)) fail_msg("%s", tn_last_error(c)->text);
        if (info.library_calls != rows[i].calls[g])
          fail_msg("row %zu, gradient %d: %d calls", i, g, info.library_calls);
      }
      tn_program_close(p);
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_few_channels), cmocka_unit_test(test_geometries),
                                     cmocka_unit_test(test_compiled),     cmocka_unit_test(test_training_step),
                                     cmocka_unit_test(test_no_images),    cmocka_unit_test(test_lacking),
                                     cmocka_unit_test(test_few_products), cmocka_unit_test(test_contested)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
