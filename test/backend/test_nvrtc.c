/* Kernels for an H200 compiled by the real NVRTC, on a fake driver: nothing runs, but everything must compile and keep
 * within what the device has. */
#include "fake/fake.h"
#include "run/runtime.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "backend/cuda/cuda_api.h"

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static tn_ctx *open_fake(tn_mode mode) {
  fake_state *fake = fake_open(false);
  const char *why;
  assert_non_null(fake);
  if (!tn__cuda_load_nvrtc(&why)) {
    printf("no kernel is compiled for CUDA: %s\n", why);
    skip();
  }
  fake->any_function = 1;
  /* libraries, where there are any, would ask more of the driver than the fake one has */
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cuda:0", .mode = mode, .quiet = 1, .no_library = 1});
  assert_non_null(c);
  return c;
}

static void close_fake(tn_ctx *c, const char *what) {
  tn_stats s;
  tn_ctx_stats(c, &s);
  printf("%s: %llu kernels compiled by NVRTC, %llu found in the cache\n", what, (unsigned long long)s.kernels_compiled,
         (unsigned long long)s.kernels_cached);
  assert_true(s.kernels_compiled + s.kernels_cached > 0);
  tn_ctx_close(c);
}

/* ---- named steps ---- */

static tn_tensor *input(tn_ctx *c, tn_dtype dtype, const tn_dim *shape, int rank) {
  tn_tensor *t = tn_zeros(c, dtype, shape, rank);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

static int chain(tn_ctx *c, tn_dtype dtype, tn_tensor **out) {
  tn_tensor *x = input(c, dtype, DIMS(1000, 1000)), *y = input(c, dtype, DIMS(1000));
  out[0] = tn_mul_scalar(tn_gelu(tn_add(tn_mul(x, y), y)), 0.5);
  return 1;
}
static int sums(tn_ctx *c, tn_dtype dtype, tn_tensor **out) {
  tn_tensor *x = input(c, dtype, DIMS(1 << 10, 1 << 12));
  out[0] = tn_sum(x, NULL, 0, false);
  out[1] = tn_sum(x, AXES(0), false);
  out[2] = tn_max(x, AXES(1), false);
  out[3] = tn_argmax(x, 1, false);
  return 4;
}
static int softmax(tn_ctx *c, tn_dtype dtype, tn_tensor **out) {
  out[0] = tn_softmax(input(c, dtype, DIMS(512, 4096)), -1);
  return 1;
}
static int layer_norm(tn_ctx *c, tn_dtype dtype, tn_tensor **out) {
  tn_tensor *p[] = {input(c, dtype, DIMS(512, 1024)), input(c, dtype, DIMS(1024)), input(c, dtype, DIMS(1024))};
  out[3] = tn_layer_norm(p[0], 1, p[1], p[2], 1e-5);
  assert_int_equal(tn_grad(tn_sum(out[3], NULL, 0, false), 3, p, out), TN_OK);
  return 4;
}
static int product(tn_ctx *c, tn_dtype dtype, tn_tensor **out) {
  out[0] = tn_relu(tn_matmul(input(c, dtype, DIMS(130, 70)), input(c, dtype, DIMS(70, 50))));
  return 1;
}
static int step(tn_ctx *c, tn_dtype dtype, tn_tensor **out) {
  tn_tensor *w[] = {input(c, dtype, DIMS(784, 128)), input(c, dtype, DIMS(128)), input(c, dtype, DIMS(128, 10)),
                    input(c, dtype, DIMS(10))};
  tn_tensor *h = tn_relu(tn_add(tn_matmul(input(c, dtype, DIMS(64, 784)), w[0]), w[1]));
  tn_tensor *loss = tn_cross_entropy(tn_add(tn_matmul(h, w[2]), w[3]), input(c, TN_I32, DIMS(64)));
  assert_int_equal(tn_grad(loss, 4, w, out), TN_OK);
  out[4] = loss;
  return 5;
}
static int random_numbers(tn_ctx *c, tn_dtype dtype, tn_tensor **out) {
  out[0] = tn_dropout(tn_normal(c, dtype, DIMS(100, 30), 0, 1), 0.5, true);
  return 1;
}

static void test_steps(void **state) {
  static int (*const make[])(tn_ctx *, tn_dtype, tn_tensor **) = {chain,   sums, softmax,       layer_norm,
                                                                  product, step, random_numbers};
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16, TN_F64};
  (void)state;
  tn_ctx *c = open_fake(TN_MODE_DEFAULT);
  int bad = 0;
  for (size_t m = 0; m < sizeof make / sizeof *make; m++)
    for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
      tn_scope(c) {
        tn_tensor *out[8];
        tn_program_info info;
        int n = make[m](c, dtypes[d], out);
        tn_status s = tn_get_info(out, n, &info);
        if (s != TN_OK) printf("step %zu, dtype %d: %s\n", m, (int)dtypes[d], tn_last_error(c)->text);
        bad += s != TN_OK;
        tn_clear_error(c);
      }
  assert_int_equal(bad, 0);
  close_fake(c, "named steps");
}

/* Tiles of f32 keep what they sum up in registers, or most of it, however few steps there are: of one turn, too. */
static void test_tiles(void **state) {
  enum { HALF_OF_SUMS = 256 }; /* bytes, of the 128 of a thread */
  static const tn_dim steps[] = {12, 16, 17, 40};
  (void)state;
  tn_ctx *c = open_fake(TN_MODE_DEFAULT);
  fake_state *fake = fake_open(false);
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++)
    tn_scope(c) {
      tn_tensor *x = input(c, TN_F32, DIMS(15600, steps[i])), *y = input(c, TN_F32, DIMS(1961, steps[i])),
                *product = tn_matmul(x, tn_transpose(y, 0, 1));
      tn_tensor *of[] = {product, tn_add(input(c, TN_F32, DIMS(15600, 1)),
                                         tn_sub(input(c, TN_F32, DIMS(1961)), tn_mul_scalar(product, 2)))};
      for (int k = 0; k < 2; k++) {
        fake->frames = 0;
        char *text = tn_explain_string(of + k, 1);
        assert_int_equal(tn_get_info(of + k, 1, &(tn_program_info){0}), TN_OK);
        if (!text || !strstr(text, " tile(")) fail_msg("%d steps: %s", (int)steps[i], text);
        if (fake->frames > HALF_OF_SUMS)
          fail_msg("%d steps, formula %d: %u bytes in memory", (int)steps[i], k, fake->frames);
        tn_string_free(text);
      }
    }
  close_fake(c, "tiles");
}

/* ---- random graphs ---- */

static void compile_graph(tn_ctx *c, void *arg) { tn__plan_get(c, ((const graph *)arg)->sink); }

static void random_graphs(tn_mode mode, uint64_t count) {
  static const graph_size size = {.nodes = 16, .outputs = 3, .longest = 150, .elements = 3000};
  tn_ctx *c = open_fake(mode);
  for (uint64_t i = 0; i < count; i++) {
    graph g = {0};
    graph_dice d = {.state = (i + 1) << 8};
    if (!graph_random(c, &d, &size, &g)) continue;
    tn_clear_error(c);
    if (!tn__ctx_run(c, "compile", compile_graph, &g))
      fail_msg("graph %d: %s\n%s", (int)i, tn_last_error(c)->text, graph_text(c, &g));
    graph_free(c, &g);
  }
  close_fake(c, mode == TN_MODE_STRICT ? "random graphs, strict" : "random graphs");
}

static void test_random(void **state) {
  (void)state;
  random_graphs(TN_MODE_DEFAULT, 40);
}
static void test_random_strict(void **state) {
  (void)state;
  random_graphs(TN_MODE_STRICT, 20);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_steps), cmocka_unit_test(test_tiles),
                                     cmocka_unit_test(test_random), cmocka_unit_test(test_random_strict)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
