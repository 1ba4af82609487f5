/* Products whose rows a library wants to begin at multiples of some bytes.  The interpreter plays the library: it says
 * that it has it, and runs the call's reference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { LONGEST = 40, DRAWS = 36, BYTES = 16, MOST = 4 * LONGEST * LONGEST, CALLS = 2 };

static bool has_gemm(tn__device *d, int dtype) { return (void)d, tn__is_float(dtype); }

static uint32_t draw(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)((*state >> 33) % n);
}

/* What is computed of q[batch, m, k], w[batch, n, k] and v[batch, n, p] */
typedef tn_tensor *formula(tn_tensor *q, tn_tensor *w, tn_tensor *v);

static tn_tensor *scores(tn_tensor *q, tn_tensor *w) { return tn_matmul(q, tn_transpose(w, 1, 2)); }
static tn_tensor *product(tn_tensor *q, tn_tensor *w, tn_tensor *v) { return (void)v, scores(q, w); }
static tn_tensor *turned(tn_tensor *q, tn_tensor *w, tn_tensor *v) {
  return (void)v, tn_transpose(scores(tn_contiguous(tn_tanh(w)), q), 1, 2);
}
static tn_tensor *attention(tn_tensor *q, tn_tensor *w, tn_tensor *v) {
  return tn_matmul(tn_softmax(tn_mul_scalar(scores(q, w), 0.25), 2), v);
}
static tn_tensor *whole_rows(tn_tensor *q, tn_tensor *w, tn_tensor *v) {
  tn_tensor *s = tn_add_scalar(scores(q, w), -50), *most = tn_max(s, (const int[]){2}, 1, true);
  return tn_matmul(tn_where(tn_eq(s, most), tn_abs(s), tn_prod(tn_mul_scalar(s, 0.02), (const int[]){2}, 1, true)), v);
}
static tn_tensor *infinite(tn_tensor *q, tn_tensor *w, tn_tensor *v) { /* times what is beyond the end: NaN */
  return attention(tn_where_scalar(tn_gt_scalar(q, -0.9), q, -INFINITY), tn_add_scalar(tn_abs(w), 0.1), v);
}
static tn_tensor *its_gradient(tn_tensor *q, tn_tensor *w, tn_tensor *v) {
  tn_tensor *of[] = {q, w, v}, *g[3], *y = tn_sum(tn_square(attention(q, w, v)), NULL, 0, false);
  if (tn_grad(y, 3, of, g)) return NULL;
  tn_tensor *all[] = {tn_sum(g[0], (const int[]){1}, 1, true), tn_sum(g[1], (const int[]){1}, 1, true)};
  return tn_add(tn_concatenate(all, 2, 1), tn_sum(g[2], (const int[]){1, 2}, 2, true));
}

/* Rows of another length have a sum in it, too. */
static tn_tensor *by_lengths(tn_tensor *q, tn_tensor *w, tn_tensor *v) {
  tn_tensor *length = tn_sqrt(tn_add_scalar(tn_sum(tn_square(q), (const int[]){2}, 1, true), 0.5));
  return tn_matmul(tn_softmax(tn_div(scores(q, w), length), 2), v);
}
static tn_tensor *spread(tn_tensor *q, tn_tensor *w, tn_tensor *v) { /* one operand for all of a batch */
  tn_dim shape[3];
  tn_shape(w, shape);
  return (void)v, scores(q, tn_expand(tn_slice(w, 0, 0, 1, 1), shape, 3));
}
/* What goes on from one product to the next, beside what they multiply */
static tn_tensor *chained(tn_tensor *q, tn_tensor *w, tn_tensor *v) {
  tn_tensor *x = tn_tanh(q), *back = tn_mul_scalar(tn_matmul(tn_transpose(w, 1, 2), w), 0.05);
  for (int i = 0; i < 3; i++) {
    tn_tensor *scale = tn_sqrt(tn_add_scalar(tn_mean(tn_square(x), (const int[]){2}, 1, true), 1));
    x = tn_add(x, tn_tanh(tn_matmul(tn_div(x, scale), back)));
  }
  return (void)v, x;
}

static formula *const formulas[] = {product,      turned,     attention, whole_rows, infinite,
                                    its_gradient, by_lengths, spread,    chained};
static const char *const names[] = {"product",      "turned",     "attention", "whole rows", "infinite",
                                    "its gradient", "by lengths", "spread",    "chained"};
enum { FORMULAS = sizeof formulas / sizeof *formulas };

typedef struct sample {
  const char *device;
  tn_dtype dtype;
  tn_dim batch, m, n, k, p;
  uint32_t of;
} sample;

/* As f32, their number; *text: the schedule. */
static size_t compute(const sample *s, bool library, int row_bytes, float *out, char **text) {
  static tn__device_ops ops;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = s->device, .quiet = 1});
  size_t size, n = 0;
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  ops = *d->ops;
  if (library) ops.has_gemm = has_gemm;
  d->ops = &ops;
  d->target.row_bytes = row_bytes; /* copies take no time */
  d->target.row_gain = 8;
  d->target.balance = 1e-3f;
  d->target.launch = 0;
  tn_scope(c) {
    const tn_dim shape[3][3] = {{s->batch, s->m, s->k}, {s->batch, s->n, s->k}, {s->batch, s->n, s->p}};
    tn_tensor *x[3];
    for (int i = 0; i < 3; i++) x[i] = tn_cast(tn_uniform(c, TN_F32, shape[i], 3, -1, 1), s->dtype);
    tn_realize(x, 3);
    tn_tensor *y = formulas[s->of](x[0], x[1], x[2]);
    FILE *f = open_memstream(text, &size);
    if (tn_explain(&y, 1, f)) fail_msg("%s", tn_last_error(c)->text);
    fclose(f);
    n = (size_t)tn_numel(y);
    assert_true(n <= MOST);
    if (tn_read(tn_cast(y, TN_F32), out, n * sizeof *out)) fail_msg("%s", tn_last_error(c)->text);
  }
  tn_ctx_close(c);
  return n;
}

static int count(const char *text, const char *what) {
  int n = 0;
  for (const char *at = strstr(text, what); at; at = strstr(at + 1, what)) n++;
  return n;
}

static bool same(const float *x, const float *y, size_t n, double error) {
  double most = 0;
  for (size_t i = 0; i < n; i++) most = fmax(most, fabs((double)x[i]));
  for (size_t i = 0; i < n; i++)
    if (isnan(x[i]) != isnan(y[i]) || !(isnan(x[i]) || x[i] == y[i] || fabsf(x[i] - y[i]) <= error * (1 + most)))
      return false;
  return true;
}

static void drawn_products_are_the_same(void **state) {
  static const char *const devices[] = {"ref", "ref:sm_90", "ref:sm_80", "ref:cpu"};
  static float padded[MOST], plain[MOST], own[MOST];
  uint64_t seed = 20261127;
  int rounded = 0, kernels = 0, tried = 0;
  unsigned long seen = 0;
  (void)state;
  for (uint32_t i = 0; i < DRAWS; i++) {
    sample s = {.device = devices[draw(&seed, 4)], .dtype = draw(&seed, 2) ? TN_BF16 : TN_F16, .of = i % FORMULAS};
    tn_dim *sizes[] = {&s.m, &s.n, &s.k, &s.p};
    char *with, *without, *other;
    s.batch = 1 + draw(&seed, 3);
    for (int z = 0; z < 4; z++) *sizes[z] = draw(&seed, 4) ? 1 + draw(&seed, LONGEST) : 8 * (1 + draw(&seed, 4));
    if (!is_taken(&seen)) continue;
    tried++;
    size_t n = compute(&s, true, BYTES, padded, &with);
    compute(&s, true, 0, plain, &without);
    compute(&s, false, 0, own, &other);
    if (!same(padded, plain, n, 0.03) || !same(padded, own, n, 0.06))
      fail_msg("%s, %s, %d of %dx%dx%dx%d:\n%s", names[s.of], s.device, (int)s.batch, (int)s.m, (int)s.n, (int)s.k,
               (int)s.p, with);
    rounded += strcmp(with, without) != 0;
    kernels += count(with, "lib ");
    free(with);
    free(without);
    free(other);
  }
  assert_true(rounded >= tried / 3 && kernels >= tried / 3);
}

/* Both products call the library, and one kernel stands between, as where no rows are padded. */
static void a_softmax_between_stays_one_kernel(void **state) {
  static float out[MOST];
  const sample s = {"ref:sm_90", TN_BF16, 2, 33, 37, 16, 24, 2};
  char *with, *without;
  (void)state;
  compute(&s, true, BYTES, out, &with);
  compute(&s, true, 0, out, &without);
  if (count(with, "lib ") != CALLS || count(without, "lib ") != CALLS || !strstr(with, "range index 40 ") ||
      strstr(without, "range index 40 ") || count(with, "call void") != count(without, "call void") + 2)
    fail_msg("%s\n%s", with, without);
  free(with);
  free(without);
}

/* A device with a library that wants aligned rows, of which schedules are read and nothing is computed */
static tn_ctx *open_for_texts(void) {
  static tn__device_ops ops;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  ops = *d->ops;
  ops.has_gemm = has_gemm;
  d->ops = &ops;
  d->target.row_bytes = BYTES;
  return c;
}

/* By a device's own prices: no copy is made of scores that a softmax reads, nor of what a kernel makes for one product,
 * and so few steps are worth longer rows.  What is given, or wanted as it is, or read by two products, is copied. */
static void is_padded_where_no_copy_is_made(void **state) {
  enum { SCORES, WANTED, MADE, GIVEN, TWICE, WAYS };
  static const struct {
    const char *name;
    bool padded;
  } ways[] = {[SCORES] = {"scores", true}, [WANTED] = {"scores that are wanted", false}, [MADE] = {"made", true},
              [GIVEN] = {"given", false},  [TWICE] = {"made for two", false}};
  static uint16_t zeros[64 * 353 * 353];
  tn_ctx *c = open_for_texts();
  (void)state;
  tn__device_get(c, 0)->target.row_gain = 8;
  for (int way = 0; way < WAYS; way++) tn_scope(c) {
      char *text;
      size_t size;
      tn_tensor *x = tn_from(c, TN_BF16, (tn_dim[]){64, 353, 16}, 3, zeros),
                *w = tn_from(c, TN_BF16, (tn_dim[]){64, 353, 16}, 3, zeros),
                *p = tn_from(c, TN_BF16, (tn_dim[]){64, 353, 353}, 3, zeros), *in[] = {x, w, p}, *out[2];
      int n = 1;
      tn_realize(in, 3);
      tn_tensor *made = way == GIVEN ? p : tn_exp(p);
      out[0] = way == SCORES ? tn_softmax(scores(x, w), 2) : way == WANTED ? scores(x, w) : tn_matmul(made, w);
      if (way == TWICE) out[n++] = tn_matmul(tn_transpose(made, 1, 2), x);
      FILE *f = open_memstream(&text, &size);
      if (tn_explain(out, n, f)) fail_msg("%s", tn_last_error(c)->text);
      fclose(f);
      bool padded = strstr(text, "range index 360 ") != NULL;
      if (count(text, "lib ") != n || padded != ways[way].padded) fail_msg("%s:\n%s", ways[way].name, text);
      free(text);
    }
  tn_ctx_close(c);
}

/* Not where rows are aligned, nor where threads multiply as fast, nor elements that it multiplies no faster. */
static void other_products_are_left(void **state) {
  static float out[MOST];
  static const struct {
    sample s;
    int row_bytes;
  } of[] = {{{"ref:sm_90", TN_BF16, 1, 33, 32, 16, 8, 0}, BYTES}, {{"ref:sm_90", TN_BF16, 1, 33, 37, 16, 8, 0}, 2},
            {{"ref:sm_90", TN_F32, 1, 33, 37, 16, 8, 0}, BYTES}};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char *with, *without;
    compute(&of[i].s, true, of[i].row_bytes, out, &with);
    compute(&of[i].s, true, 0, out, &without);
    if (strcmp(with, without)) fail_msg("%zu:\n%s\n%s", i, with, without);
    free(with);
    free(without);
  }
}

/* Scores that memory has no room for are not stored because they would be padded. */
static void scores_without_room_are_not_stored(void **state) {
  const tn_dim shape[] = {4, 61, 16};
  tn_program_info info[2];
  (void)state;
  for (int room = 0; room < 2; room++) {
    tn_ctx *c = open_for_texts();
    tn__device *d = tn__device_get(c, 0);
    d->target.memory = room ? 1e9 : 1e5;
    d->target.balance = 1e-3f;
    d->target.launch = 0;
    tn_program *p = tn_program_begin(c);
    tn_tensor *x[3];
    for (int i = 0; i < 3; i++) x[i] = tn_program_input(p, (const char *[]){"q", "k", "v"}[i], TN_BF16, shape, 3);
    assert_int_equal(tn_program_output(p, "y", attention(x[0], x[1], x[2])), TN_OK);
    if (tn_program_end(p) || tn_program_get_info(p, &info[room])) fail_msg("%s", tn_last_error(c)->text);
    tn_program_close(p);
    tn_ctx_close(c);
  }
  assert_int_equal(info[0].kernels, 1);
  assert_true(info[1].kernels > 1);
}

/* What an H200 was measured to gain by, and what waits for memory or for launches. */
static void pads_where_it_pays(void **state) {
  enum { A = TN__LEFT, B = TN__RIGHT, C = TN__RESULT };
  static const struct {
    int64_t batch, rows, cols, steps, padded_rows, padded_cols, padded_steps;
    unsigned odd;
    bool pays, free; /* with copies of all that differs; with none */
  } of[] = {{25, 1297, 1297, 256, 1297, 1304, 256, C, true, true},
            {1, 2049, 8583, 256, 2049, 8584, 256, C, true, true},
            {1, 4095, 4095, 4095, 4095, 4096, 4096, A | B | C, true, true},
            {25, 1297, 256, 1297, 1297, 256, 1304, A, true, true},
            {1, 33, 37, 64, 33, 40, 64, C, false, true},
            {1, 20000, 1, 20000, 20000, 8, 20000, C, false, false},
            {1, 16384, 16384, 1, 16384, 16384, 8, A | B, false, false},
            {1, 1000003, 100, 3, 1000003, 104, 8, A | B | C, false, true},
            {1024, 16, 17, 16, 16, 24, 16, C, false, true},
            {1, 1, 50257, 768, 1, 50264, 768, C, false, true},
            {144, 353, 353, 16, 353, 360, 16, C, true, true},
            {144, 353, 16, 353, 353, 16, 360, A, true, true}};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  const tn__target *t = &tn__device_get(c, 0)->target;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    tn__product_size now = {(double)of[i].batch, of[i].rows, of[i].cols, of[i].steps, TN_BF16},
                     padded = {(double)of[i].batch, of[i].padded_rows, of[i].padded_cols, of[i].padded_steps, TN_BF16};
    if (tn__target_pads_product(t, &now, &padded, of[i].odd, A | B | C) != of[i].pays) fail_msg("product %zu", i);
    if (tn__target_pads_product(t, &now, &padded, of[i].odd, 0) != of[i].free) fail_msg("product %zu, no copies", i);
  }
  assert_int_equal(tn__target_row_elements(t, TN_F16), 8);
  assert_int_equal(tn__target_row_elements(t, TN_F32), 1);
  assert_int_equal(tn__target_row_elements(t, TN_F64), 1);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(drawn_products_are_the_same),
                                     cmocka_unit_test(a_softmax_between_stays_one_kernel),
                                     cmocka_unit_test(is_padded_where_no_copy_is_made),
                                     cmocka_unit_test(other_products_are_left),
                                     cmocka_unit_test(scores_without_room_are_not_stored),
                                     cmocka_unit_test(pads_where_it_pays)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
