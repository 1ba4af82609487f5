/* What a gradient wants of the values before it: those that are sooner made anew than loaded are not stored. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { ROWS = 700, COLUMNS = 37, LARGEST = 48 * ROWS * COLUMNS /* elements of a result */ };

typedef tn_tensor *(*make_fn)(tn_ctx *c, tn_tensor *x);

static tn_tensor *silu(tn_ctx *c, tn_tensor *x) { return (void)c, tn_silu(x); }
static tn_tensor *of_two(tn_ctx *c, tn_tensor *x) { return (void)c, tn_tanh(tn_add_scalar(tn_gelu(x), 0.5)); }
/* Far more stands around the elements that the gradient wants than there are of them */
static tn_tensor *padded(tn_ctx *c, tn_tensor *x) {
  return (void)c, tn_silu(tn_pad(tn_gelu(x), (tn_dim[]){5000, 5000, 32, 32}, 0));
}
static tn_tensor *turned(tn_ctx *c, tn_tensor *x) { return (void)c, tn_silu(tn_flip(x, (int[]){0}, 1)); }
/* The value that the others are made of is itself made of what is in memory */
static tn_tensor *below(tn_ctx *c, tn_tensor *x) {
  tn_tensor *half = tn_cast(tn_gelu(x), TN_F16), *least = tn_minimum(half, tn_full(c, TN_F16, (tn_dim[]){1}, 1, 1));
  return tn_flip(tn_silu(tn_cast(least, TN_F32)), (int[]){0}, 1);
}
/* The sums stand between, as they must, and what the gradient's own are made of: its two functions of them */
static tn_tensor *of_sums(tn_ctx *c, tn_tensor *x) { return (void)c, tn_silu(tn_cumsum(x, 0)); }

/* Each of a block's terms without every other one, and so of few blocks at a time */
static tn_tensor *of_products(tn_ctx *c, tn_tensor *x) { return (void)c, tn_cumprod(x, 0); }

/* What is behind a flip is stored once, and not worked out again from the first of many on */
static tn_tensor *many(tn_ctx *c, tn_tensor *x) {
  (void)c;
  for (int i = 0; i < 6; i++) x = tn_flip(tn_tanh(tn_sin(x)), (int[]){0}, 1);
  return x;
}

/* Bytes between kernels of the function with its gradient, on a device */
static size_t between(const char *device, make_fn make) {
  tn_program_info info = {0};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *in[2], *grad;
    tn_program *p = tn_program_begin(c);
    tn_dim shape[2] = {ROWS, COLUMNS};
    in[0] = tn_program_input(p, "x", TN_F32, shape, 2);
    tn_tensor *y = make(c, in[0]);
    assert_int_equal(tn_shape(y, shape), TN_OK);
    in[1] = tn_program_input(p, "dy", TN_F32, shape, 2);
    assert_int_equal(tn_vjp(y, in[1], 1, in, &grad), TN_OK);
    assert_int_equal(tn_program_output(p, "y", y), TN_OK);
    assert_int_equal(tn_program_output(p, "grad", grad), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    static const float numbers[LARGEST];
    assert_int_equal(tn_program_write(p, "x", (tn_dim[]){ROWS, COLUMNS}, 2, numbers, ROWS * COLUMNS * sizeof *numbers),
                     TN_OK);
    assert_int_equal(tn_program_write(p, "dy", shape, 2, numbers, (size_t)(shape[0] * shape[1]) * sizeof *numbers),
                     TN_OK);
    assert_int_equal(tn_program_run(p), TN_OK); /* buffers have sizes from then on */
    assert_int_equal(tn_program_get_info(p, &info), TN_OK);
  }
  tn_ctx_close(c);
  return info.intermediate;
}

static void stored(void **state) {
  static const struct {
    const char *name;
    const char *device;
    make_fn make;
    double most; /* arrays of all elements, and less than one more of what is small */
  } rows[] = {
      {"silu", "ref:sm_90", silu, 0},
      {"two functions", "ref:sm_90", of_two, 0},
      {"a flip", "ref:sm_90", turned, 0},
      {"one below others", "ref:sm_90", below, 0},
      {"running sums", "ref:sm_90", of_sums, 3},
      {"running products", "ref:sm_90", of_products, 70},
      {"much around it", "ref:sm_90", padded, 1},
      {"much around it", "cpu", padded, 1},
  };
  const double all = (double)ROWS * COLUMNS * sizeof(float);
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    double got = (double)between(rows[i].device, rows[i].make) / all;
    if (got >= rows[i].most + 1)
      fail_msg("%s on %s: %.2f arrays stand between kernels", rows[i].name, rows[i].device, got);
  }
}

/* Of what parts are joined to the function's operand alone stands in memory: gradients go to few parts as they are
 * computed.  To many they go through memory, or all that they are made of would. */
static void joined(void **state) {
  enum { MOST = 14, LONG = 70 };
  static const int parts[] = {2, 6, 7, MOST};
  static const float numbers[MOST * LONG * COLUMNS];
  (void)state;
  for (int n = 0; n < 4; n++) {
    tn_program_info info = {0};
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "strict"});
    assert_non_null(c);
    tn_scope(c) {
      tn_tensor *in[MOST], *grad[MOST];
      char name[MOST][16];
      tn_program *p = tn_program_begin(c);
      for (int i = 0; i < parts[n]; i++) {
        snprintf(name[i], sizeof name[i], "x%d", i);
        in[i] = tn_program_input(p, name[i], TN_F32, (tn_dim[]){LONG + i, COLUMNS}, 2);
      }
      tn_tensor *y = tn_gelu_tanh(tn_concatenate(in, parts[n], 0));
      tn_tensor *dy = tn_program_input(p, "dy", TN_F32, (tn_dim[]){tn_size(y, 0), COLUMNS}, 2);
      assert_int_equal(tn_vjp(y, dy, parts[n], in, grad), TN_OK);
      assert_int_equal(tn_program_output(p, "y", y), TN_OK);
      size_t all = (size_t)tn_numel(y) * sizeof(float);
      for (int i = 0; i < parts[n]; i++) {
        char out[16];
        snprintf(out, sizeof out, "g%d", i);
        assert_int_equal(tn_program_output(p, out, grad[i]), TN_OK);
      }
      assert_int_equal(tn_program_end(p), TN_OK);
      for (int i = 0; i < parts[n]; i++) {
        size_t bytes = (size_t)(LONG + i) * COLUMNS * sizeof(float);
        assert_int_equal(tn_program_write(p, name[i], (tn_dim[]){LONG + i, COLUMNS}, 2, numbers, bytes), TN_OK);
      }
      float *dys = calloc(1, all);
      assert_int_equal(tn_program_write(p, "dy", (tn_dim[]){(tn_dim)(all / sizeof(float) / COLUMNS), COLUMNS}, 2, dys,
                                        all), TN_OK);
      free(dys);
      assert_int_equal(tn_program_run(p), TN_OK);
      assert_int_equal(tn_program_get_info(p, &info), TN_OK);
      if (info.intermediate >= (parts[n] > 6 ? 3 : 2) * all)
        fail_msg("%d parts: %.2f arrays stand between kernels", parts[n], (double)info.intermediate / (double)all);
    }
    tn_ctx_close(c);
  }
}

/* The sines of a chain that two kernels want the end of: each once, and not for both */
static void bounded(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  char *text = NULL;
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = many(c, tn_program_input(p, "x", TN_F32, (tn_dim[]){4096, 4096}, 2));
    assert_int_equal(tn_program_output(p, "columns", tn_sum(x, (int[]){0}, 1, false)), TN_OK);
    assert_int_equal(tn_program_output(p, "rows", tn_sum(tn_square(x), (int[]){1}, 1, false)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    text = tn_program_explain_string(p);
  }
  assert_non_null(text);
  char *from = strstr(text, "# schedule"), *to = strstr(text, "# kernels");
  assert_true(from && to);
  int sines = 0;
  for (; (from = strstr(from, " = sin ")) && from < to; from++) sines++;
  assert_in_range(sines, 6, 8);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* Of a value and what it is rounded to, the latter is stored, where all is made of that. */
static void rounded(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  char *text = NULL;
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_dim shape[2] = {32, 300000};
    tn_tensor *x = tn_program_input(p, "x", TN_BF16, shape, 2), *dy = tn_program_input(p, "dy", TN_BF16, shape, 2),
              *grad, *y = tn_gelu(tn_gelu(x));
    y = tn_div(y, tn_sqrt(tn_mean(tn_square(y), (int[]){1}, 1, true)));
    assert_int_equal(tn_vjp(y, dy, 1, &x, &grad), TN_OK);
    assert_int_equal(tn_program_output(p, "y", y), TN_OK);
    assert_int_equal(tn_program_output(p, "grad", grad), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    text = tn_program_explain_string(p);
  }
  assert_non_null(text);
  if (strstr(text, " = buffer f32 9600000 ")) fail_msg("stored before it is rounded:\n%s", text);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* Large buffers of silu(x w^T) and its gradients by the schedule: operands and results among them */
static int large_buffers(tn_dim rows) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  char *text = NULL, of[64];
  const tn_dim columns = 4096, terms = 32;
  int n = 0;
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *in[] = {tn_program_input(p, "x", TN_F32, (tn_dim[]){rows, terms}, 2),
                       tn_program_input(p, "w", TN_F32, (tn_dim[]){columns, terms}, 2)};
    tn_tensor *dy = tn_program_input(p, "dy", TN_F32, (tn_dim[]){rows, columns}, 2), *grad[2];
    tn_tensor *y = tn_silu(tn_linear(in[0], in[1], NULL));
    assert_int_equal(tn_vjp(y, dy, 2, in, grad), TN_OK);
    assert_int_equal(tn_program_output(p, "y", y), TN_OK);
    assert_int_equal(tn_program_output(p, "dx", grad[0]), TN_OK);
    assert_int_equal(tn_program_output(p, "dw", grad[1]), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    text = tn_program_explain_string(p);
  }
  assert_non_null(text);
  snprintf(of, sizeof of, " = buffer f32 %lld ", (long long)(rows * columns));
  for (const char *at = text; (at = strstr(at, of)); at++) n++;
  tn_string_free(text);
  tn_ctx_close(c);
  return n;
}

/* Of a product and two values made of it that the gradient wants, the product alone is stored, where all of them would
 * go through memory: it, the operand dy, the result and what the gradients are products of. */
static void of_a_product(void **state) {
  (void)state;
  assert_int_equal(large_buffers(4096), 4);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(stored), cmocka_unit_test(joined), cmocka_unit_test(bounded),
                                     cmocka_unit_test(rounded), cmocka_unit_test(of_a_product)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
