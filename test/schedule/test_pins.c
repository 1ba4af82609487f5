/* What a step costs, pinned: kernels, library calls, bytes of intermediates; and golden text of schedules and kernels.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

static tn_tensor *input(tn_ctx *c, const tn_dim *shape, int rank) {
  tn_tensor *t = tn_uniform(c, TN_F32, shape, rank, -1, 1);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

static tn_tensor *labels(tn_ctx *c, int64_t n, int64_t classes) {
  tn_tensor *t = tn_randint(c, TN_I32, DIMS(n), 0, classes);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

/* Each makes a graph: results in out, their number returned. */
typedef int (*make_fn)(tn_ctx *c, tn_tensor **out);

static int chain(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = input(c, DIMS(64, 100)), *y = input(c, DIMS(100));
  out[0] = tn_mul_scalar(tn_gelu(tn_add(tn_mul(x, y), y)), 0.5);
  return 1;
}
static int chain_sum(tn_ctx *c, tn_tensor **out) {
  chain(c, out);
  out[0] = tn_sum(out[0], NULL, 0, false);
  return 1;
}
static int long_sum(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = input(c, DIMS(1 << 18));
  out[0] = tn_sum(tn_square(x), NULL, 0, false);
  return 1;
}
static int softmax(tn_ctx *c, tn_tensor **out) {
  out[0] = tn_softmax(input(c, DIMS(128, 300)), -1);
  return 1;
}
static int log_softmax(tn_ctx *c, tn_tensor **out) {
  out[0] = tn_log_softmax(input(c, DIMS(128, 300)), -1);
  return 1;
}
static int logsumexp(tn_ctx *c, tn_tensor **out) {
  out[0] = tn_logsumexp(input(c, DIMS(128, 300)), AXES(-1), false);
  return 1;
}
static int layer_norm(tn_ctx *c, tn_tensor **out) {
  out[0] = tn_layer_norm(input(c, DIMS(128, 300)), 1, input(c, DIMS(300)), input(c, DIMS(300)), 1e-5);
  return 1;
}
static int variance(tn_ctx *c, tn_tensor **out) {
  out[0] = tn_var(input(c, DIMS(128, 300)), AXES(-1), 1, false);
  return 1;
}
static int softmax_backward(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = input(c, DIMS(128, 300)), *dy = input(c, DIMS(128, 300));
  assert_int_equal(tn_vjp(tn_softmax(x, -1), dy, 1, &x, out), TN_OK);
  return 1;
}
static int layer_norm_backward(tn_ctx *c, tn_tensor **out) {
  tn_tensor *w[3] = {input(c, DIMS(128, 300)), input(c, DIMS(300)), input(c, DIMS(300))},
            *dy = input(c, DIMS(128, 300));
  assert_int_equal(tn_vjp(tn_layer_norm(w[0], 1, w[1], w[2], 1e-5), dy, 3, w, out), TN_OK);
  return 3;
}
static int cross_entropy(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = input(c, DIMS(128, 10));
  out[0] = tn_cross_entropy(x, labels(c, 128, 10));
  return 1;
}
static int cross_entropy_both(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = input(c, DIMS(128, 10));
  out[0] = tn_cross_entropy(x, labels(c, 128, 10));
  assert_int_equal(tn_grad(out[0], 1, &x, out + 1), TN_OK);
  return 2;
}
static int mlp_step(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = input(c, DIMS(64, 784)),
            *w[4] = {input(c, DIMS(784, 128)), input(c, DIMS(128)), input(c, DIMS(128, 10)), input(c, DIMS(10))}, *g[4];
  tn_tensor *h = tn_relu(tn_add(tn_matmul(x, w[0]), w[1]));
  out[0] = tn_cross_entropy(tn_add(tn_matmul(h, w[2]), w[3]), labels(c, 64, 10));
  assert_int_equal(tn_grad(out[0], 4, w, g), TN_OK);
  for (int i = 0; i < 4; i++) {
    assert_int_equal(tn_assign(w[i], tn_sub(w[i], tn_mul_scalar(g[i], 0.1))), TN_OK);
    out[1 + i] = w[i];
  }
  return 5;
}
static int attention(tn_ctx *c, tn_tensor **out) {
  tn_tensor *q = input(c, DIMS(4, 64, 32)), *k = input(c, DIMS(4, 64, 32)), *v = input(c, DIMS(4, 64, 32));
  tn_tensor *s = tn_mul_scalar(tn_matmul(q, tn_transpose(k, -1, -2)), 0.17677669);
  out[0] = tn_matmul(tn_softmax(s, -1), v);
  return 1;
}
static int views(tn_ctx *c, tn_tensor **out) {
  tn_tensor *x = input(c, DIMS(6, 8));
  out[0] = tn_flip(tn_pad(tn_transpose(tn_slice(x, 0, 1, 6, 2), 0, 1), ((const tn_dim[]){1, 0, 0, 2}), 0), NULL, 0);
  return 1;
}

typedef struct pin {
  const char *name;
  make_fn make;
  int kernels, library; /* at most, where `most`; else exactly */
  bool most;
  int64_t intermediate; /* -1: any */
  bool golden;
} pin;

static const pin pins[] = {
    {"chain", chain, 1, 0, false, 0, true},
    {"chain_sum", chain_sum, 1, 0, false, 0, true},
    {"long_sum", long_sum, 1, 0, false, 0, true},
    {"softmax", softmax, 1, 0, false, 0, true},
    {"log_softmax", log_softmax, 1, 0, false, 0, false},
    {"logsumexp", logsumexp, 1, 0, false, 0, false},
    {"layer_norm", layer_norm, 1, 0, false, 0, true},
    {"variance", variance, 1, 0, false, 0, false},
    {"softmax_backward", softmax_backward, 1, 0, false, 0, true},
    {"layer_norm_backward", layer_norm_backward, 2, 0, true, -1, false},
    {"cross_entropy", cross_entropy, 1, 0, false, 0, true},
    {"cross_entropy_both", cross_entropy_both, 2, 0, true, -1, false},
    {"mlp_step", mlp_step, 8, 5, true, -1, false},
    {"attention", attention, 1, 2, false, 4 * 64 * 64 * 2 * 4, false},
    {"views", views, 1, 0, false, 0, true},
};

static void counts(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .mode = TN_MODE_DEFAULT, .quiet = 1});
  int bad = 0;
  for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) tn_scope(c) {
    const pin *p = &pins[i];
    tn_tensor *out[8];
    tn_program_info info;
    int n = p->make(c, out);
    if (tn_get_info(out, n, &info)) fail_msg("%s: %s", p->name, tn_last_error(c)->text);
    bool good = (p->most ? info.kernels <= p->kernels : info.kernels == p->kernels) &&
                info.library_calls == p->library &&
                (p->intermediate < 0 || (int64_t)info.intermediate == p->intermediate);
    if (!good)
      fprintf(stderr, "%s: %d kernels, %d library calls, %zu bytes of intermediates; pinned are %d, %d, %lld\n",
              p->name, info.kernels, info.library_calls, info.intermediate, p->kernels, p->library,
              (long long)p->intermediate);
    bad += !good;
    assert_int_equal(tn_realize(out, n), TN_OK); /* and it runs */
  }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

/* On a GPU what a product's rows are made of is computed once, whether anything is made of the product or not, and
 * whether the sizes suit tiles or not: in the product's own kernel each thread would compute it for its columns. */
static void rows_of_products(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .mode = TN_MODE_DEFAULT, .quiet = 1});
  for (int i = 0; i < 8; i++) tn_scope(c) {
    int64_t rows = i & 2 ? 37 : 301;
    tn_tensor *x = input(c, DIMS(rows, 192)), *w = input(c, DIMS(192, i & 4 ? 64 : 576)), *y;
    x = i & 1 ? tn_softmax(x, -1) : tn_layer_norm(x, 1, input(c, DIMS(192)), input(c, DIMS(192)), 1e-5);
    y = tn_matmul(x, w);
    for (int epilogue = 0; epilogue < 2; epilogue++, y = tn_add_scalar(y, 1)) {
      tn_program_info info;
      assert_int_equal(tn_get_info(&y, 1, &info), TN_OK);
      if (info.kernels != 2) fail_msg("case %d: %d kernels", 2 * i + epilogue, info.kernels);
    }
  }
  tn_ctx_close(c);
}

/* ---- golden text: what `tenet explain` prints, up to the generated source ---------------------------------------- */

static char *read_file(const char *path) {
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, 1 << 20);
  if (!f || !text) return free(text), NULL;
  size_t n = fread(text, 1, (1 << 20) - 1, f);
  text[n] = 0;
  fclose(f);
  return text;
}

static char *explain(tn_tensor **out, int n) {
  char *text = NULL;
  size_t size;
  FILE *f = open_memstream(&text, &size);
  assert_int_equal(tn_explain(out, n, f), TN_OK);
  fclose(f);
  char *end = strstr(text, "# source\n");
  assert_non_null(end);
  *end = 0;
  return text;
}

/* TENET_GOLDEN=write renews the files. */
static void golden(void **s) {
  (void)s;
  const char *dir = getenv("TENET_TEST_DATA");
  bool renew = getenv("TENET_GOLDEN") && !strcmp(getenv("TENET_GOLDEN"), "write");
  if (!dir) {
    fprintf(stderr, "TENET_TEST_DATA is not set: golden text is not compared\n");
    skip();
  }
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .mode = TN_MODE_DEFAULT, .quiet = 1});
  int bad = 0;
  for (size_t i = 0; i < sizeof pins / sizeof *pins; i++) tn_scope(c) {
    if (!pins[i].golden) continue;
    tn_tensor *out[8];
    char path[512];
    int n = pins[i].make(c, out);
    char *got = explain(out, n);
    snprintf(path, sizeof path, "%s/golden/%s.txt", dir, pins[i].name);
    if (renew) {
      FILE *f = fopen(path, "wb");
      assert_non_null(f);
      fputs(got, f);
      fclose(f);
    }
    char *want = read_file(path);
    if (!want || strcmp(got, want)) {
      fprintf(stderr, "%s is not what is printed now (TENET_GOLDEN=write renews it):\n%s", path, got);
      bad++;
    }
    free(want);
    free(got);
  }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

/* What is made of a kept row has lanes, as what is made of an array has: here the sum of a softmax. */
static void lanes_along_rows(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .mode = TN_MODE_DEFAULT, .quiet = 1});
  for (int64_t n = 100; n < 5000; n += 4117) tn_scope(c) {
      tn_tensor *y = tn_softmax(tn_tanh(input(c, DIMS(64, n))), -1);
      char *text = NULL;
      size_t size;
      FILE *f = open_memstream(&text, &size);
      assert_int_equal(tn_explain(&y, 1, f), TN_OK);
      fclose(f);
      const char *row = strstr(text, "row(tanh)"), *lanes = row ? strstr(row, "lanes(") : NULL;
      if (!lanes || !strstr(lanes + 1, "lanes(")) fail_msg("%s", text);
      free(text);
    }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(counts), cmocka_unit_test(rows_of_products),
                                     cmocka_unit_test(lanes_along_rows), cmocka_unit_test(golden)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
