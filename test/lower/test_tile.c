/* Products by tiles: every form's digits number each element of a tile once, and what a form means is the product, also
 * where tiles reach over the edge.  Convolutions, their images' and their filters' gradient are such products, with
 * operands gathered. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "lower/lower.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

enum { RANKS = 10 }; /* forms that one shape may take, and plain loops where they are quicker */

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

typedef struct row {
  tn_dtype dtype;
  bool across[2]; /* the operand lies in memory transposed */
  int64_t batch, m, n, k;
  bool epilogue, tf32;
} row;

/* Numbers between -1 and 1, made here: interpreters would take long. */
static tn_tensor *drawn(tn_ctx *c, tn_dtype dtype, const tn_dim *shape, int rank) {
  size_t n = 1;
  for (int i = 0; i < rank; i++) n *= (size_t)shape[i];
  uint32_t state = (uint32_t)n;
  float *v = malloc(n * sizeof *v);
  for (size_t i = 0; i < n; i++) v[i] = (float)((state = state * 1664525u + 1013904223u) >> 8) / (1 << 23) - 1;
  tn_tensor *t = tn_cast(tn_from(c, TN_F32, shape, rank, v), dtype);
  free(v);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

static tn_tensor *operand(tn_ctx *c, const row *r, bool across, int64_t rows, int64_t cols) {
  tn_tensor *t = drawn(c, r->dtype, across ? (tn_dim[]){r->batch, cols, rows} : (tn_dim[]){r->batch, rows, cols}, 3);
  return across ? tn_transpose(t, 1, 2) : t;
}

/* Products by the form that is `rank` places behind the best. */
static tn_ctx *open_on(const char *device, bool tf32, int rank) {
  static tn__variant variant = {.name = "of a rank"};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .no_library = 1, .tf32 = tf32});
  assert_non_null(c);
  variant.tile = (int8_t)rank;
  tn__device_get(c, 0)->usual = &variant;
  return c;
}

static void find_form(const char *text, char *form, size_t size) {
  const char *at = strstr(text, " tile(");
  snprintf(form, size, "%.*s", at ? (int)strcspn(at + 6, ",") : 0, at ? at + 6 : "");
}

/* y as f32; NULL: it would not be by the form that is wanted.  `form`: which it is, "" if none. */
static float *read_all(tn_tensor *y, const char *want, char *form, size_t size, size_t *count) {
  char *text;
  size_t n;
  FILE *f = open_memstream(&text, &n);
  if (tn_explain(&y, 1, f)) fail_msg("%s", tn_last_error(tn_ctx_of(y))->text);
  fclose(f);
  find_form(text, form, size);
  free(text);
  if (want && strcmp(form, want)) return NULL;
  tn_tensor *wide = tn_cast(y, TN_F32);
  float *out = malloc(tn_nbytes(wide));
  assert_int_equal(tn_read(wide, out, tn_nbytes(wide)), TN_OK);
  *count = (size_t)tn_numel(wide);
  return out;
}

static float *multiply(const char *device, const row *r, int rank, const char *want, char *form, size_t size,
                       size_t *count) {
  float *out = NULL;
  tn_ctx *c = open_on(device, r->tf32, rank);
  tn_scope(c) {
    tn_tensor *a = operand(c, r, r->across[0], r->m, r->k), *b = operand(c, r, r->across[1], r->k, r->n),
              *y = tn_matmul(a, b);
    if (r->epilogue) y = tn_relu(tn_add(y, drawn(c, r->dtype, DIMS(r->n))));
    out = read_all(y, want, form, size, count);
  }
  tn_ctx_close(c);
  return out;
}

static void compare(const char *what, float *x, float *y, size_t n, tn_dtype dtype, bool tf32) {
  double error = 0, size = 0;
  for (size_t i = 0; i < n; i++) {
    error += ((double)x[i] - (double)y[i]) * ((double)x[i] - (double)y[i]);
    size += (double)y[i] * (double)y[i];
  }
  free(x);
  free(y);
  assert_true(size > 0);
  if (!(sqrt(error / size) < (dtype != TN_F32 ? 1e-2 : tf32 ? 1e-3 : 1e-6)))
    fail_msg("%s: relative error %g", what, sqrt(error / size));
}

static void check(const row *r, const char *device, const char *want) {
  char form[32], other[32];
  size_t n, m;
  float *x = NULL, *y = multiply("cpu", r, 0, NULL, other, sizeof other, &m);
  for (int rank = 0; rank < RANKS && !x; rank++) x = multiply(device, r, rank, want, form, sizeof form, &n);
  if (!x) fail_msg("%s does not multiply %dx%dx%d by %s", device, (int)r->m, (int)r->n, (int)r->k, want);
  assert_string_equal(other, "");
  assert_true(n == m);
  compare(device, x, y, n, r->dtype, r->tf32);
}

/* The device to be tried, and whether its kernels are made of tiles. */
static const char *tried(bool *tiles) {
  const char *device = getenv("TENET_DEVICE");
  *tiles = !device || !strncmp(device, "cuda", 4);
  return device ? device : "ref:sm_90";
}

static void products(void **s) {
  (void)s;
  static const struct {
    row row;
    const char *form;
  } rows[] = {
      {{TN_BF16, {false, false}, 1, 128, 256, 64, false, false}, "wgmma_bf16"},
      {{TN_BF16, {true, true}, 1, 128, 256, 64, true, false}, "wgmma_bf16"},
      {{TN_F16, {false, true}, 2, 128, 256, 64, true, false}, "wgmma_f16"},
      {{TN_F32, {false, false}, 1, 128, 256, 16, true, false}, "fma_f32"},
      {{TN_F32, {true, true}, 1, 128, 512, 16, false, false}, "fma_f32"},
      {{TN_F32, {false, true}, 1, 16, 32, 16, true, false}, "small_f32"},
      {{TN_F32, {true, false}, 3, 32, 96, 144, true, false}, "small_f32"},
      {{TN_BF16, {false, false}, 1, 64, 256, 64, true, false}, "wide_bf16"},
      {{TN_F32, {false, false}, 1, 16, 64, 784, true, false}, "small_f32"},
      {{TN_F32, {true, true}, 2, 48, 32, 592, false, false}, "small_f32"},
      {{TN_F32, {false, true}, 1, 32, 48, 784, true, false}, "small_tall_f32"},
      {{TN_F32, {true, false}, 1, 64, 16, 16, false, false}, "small_tall_f32"},
      {{TN_F32, {false, false}, 2, 32, 16, 576, true, false}, "small_tall_f32"},
      {{TN_F32, {true, true}, 1, 32, 784, 64, false, false}, "small_tall_f32"},
      {{TN_F16, {true, true}, 1, 256, 64, 64, true, false}, "tall_f16"},
      {{TN_F16, {false, true}, 1, 64, 512, 64, true, false}, "wide_f16"},
      {{TN_F32, {false, false}, 1, 128, 256, 32, true, true}, "wgmma_tf32"},
      {{TN_F32, {true, true}, 1, 64, 256, 64, true, true}, "wide_tf32"},
      {{TN_F32, {false, false}, 1, 256, 128, 32, true, true}, "turned_tf32"},
      {{TN_F32, {true, false}, 2, 256, 256, 96, true, true}, "turned_tf32"},
      /* over the edge */
      {{TN_BF16, {false, false}, 1, 128, 248, 64, true, false}, "wgmma_bf16"},
      {{TN_BF16, {false, true}, 1, 264, 72, 72, true, false}, "tall_bf16"},
      {{TN_F32, {false, false}, 1, 250, 124, 72, true, true}, "turned_tf32"},
      {{TN_F32, {false, false}, 1, 127, 250, 35, true, false}, "fma_f32"},
      {{TN_F32, {false, false}, 1, 60, 261, 35, true, false}, "slim_f32"},
      {{TN_F32, {true, false}, 1, 30, 500, 72, true, false}, "flat_f32"},
      {{TN_F32, {true, true}, 2, 60, 250, 75, true, false}, "wide_f32"},
      /* long sums that no number of blocks divides */
      {{TN_F32, {false, false}, 1, 60, 90, 1009, true, false}, "slim_f32"},
      {{TN_F32, {true, false}, 1, 60, 90, 1009, false, false}, "slim_f32"},
      {{TN_F32, {false, true}, 2, 30, 250, 1101, false, false}, "flat_f32"},
  };
  bool tiles;
  const char *device = tried(&tiles);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check(&rows[i].row, device, tiles ? rows[i].form : NULL);
}

/* The form of products as large as those of real programs: units without a tile are not better than dearer tiles for
 * all. */
static void choices(void **s) {
  (void)s;
  static const struct {
    int64_t m, n, k;
    const char *form;
  } rows[] = {
      {4096, 4096, 4096, "fma_f32"}, {64, 9216, 128, "slim_f32"},  {512, 9216, 128, "slim_f32"},
      {128, 9216, 64, "slim_f32"},   {2048, 9216, 128, "fma_f32"}, {64, 128, 784, "small_f32"},
  };
  tn_ctx *c = open_on("ref:sm_90", false, 0);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text, form[32];
    size_t n;
    FILE *f = open_memstream(&text, &n);
    tn_program *p = tn_program_begin(c);
    tn_tensor *a = tn_program_input(p, "a", TN_F32, DIMS(rows[i].m, rows[i].k)),
              *b = tn_program_input(p, "b", TN_F32, DIMS(rows[i].k, rows[i].n));
    tn_program_output(p, "y", tn_matmul(a, b));
    assert_int_equal(tn_program_end(p), TN_OK);
    assert_int_equal(tn_program_explain(p, f), TN_OK);
    fclose(f);
    tn_program_close(p);
    find_form(text, form, sizeof form);
    free(text);
    assert_string_equal(form, rows[i].form);
  }
  tn_ctx_close(c);
}

/* Long sums are cut into blocks for all units, whatever divides them: by one group for a tile, 50175 steps took an H200
 * a hundred times as long as 50176. */
static void long_sums(void **s) {
  (void)s;
  static const struct {
    tn_dtype dtype;
    int64_t steps;
  } of[] = {{TN_F32, 50176}, {TN_F32, 50175}, {TN_F32, 50177},  {TN_F32, 50021}, {TN_F32, 4999},
            {TN_F32, 16411}, {TN_F32, 16412}, {TN_F32, 100003}, {TN_F16, 50176}, {TN_BF16, 50184}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    tn_ctx *c = open_on("ref:sm_90", false, 0);
    tn_program *p = tn_program_begin(c);
    tn_tensor *a = tn_program_input(p, "a", of[i].dtype, DIMS(72, of[i].steps)),
              *b = tn_program_input(p, "b", of[i].dtype, DIMS(of[i].steps, 160));
    tn_program_output(p, "y", tn_matmul(a, b));
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    bool cut = text && strstr(text, " tile(") && strstr(text, "k0_parts");
    if (!cut) fail_msg("%lld: %s", (long long)of[i].steps, text);
    tn_string_free(text);
    tn_program_close(p);
    tn_ctx_close(c);
  }
}

/* The operand behind the gate of the last access of a buffer in a kernel's text: its number, or 0 */
static int gate_of(const char *kernel, const char *access, int buffer, int operands) {
  char begin[64];
  int gate = 0;
  snprintf(begin, sizeof begin, "%s %%%d ", access, buffer);
  const char *at = kernel ? strstr(kernel, begin) : NULL;
  for (int i = 0; at && i < operands; i++) at = strchr(at + 1, '%');
  return at && sscanf(at, "%%%d", &gate) == 1 ? gate : 0;
}

static int buffer_of(const char *kernel, const char *param) {
  int number = 0;
  const char *at = kernel ? strstr(kernel, param) : NULL;
  while (at && at > kernel && *at != '%') at--;
  return at && sscanf(at, "%%%d", &number) == 1 ? number : 0;
}

/* Of a tile over the edge, what hangs on rows alone hangs on no column's condition: it is loaded once for a row. */
static void edges(void **s) {
  (void)s;
  tn_ctx *c = open_on("ref:sm_90", false, 0);
  tn_program *p = tn_program_begin(c);
  tn_tensor *a = tn_program_input(p, "a", TN_F32, DIMS(40, 128)),
            *b = tn_program_input(p, "b", TN_F32, DIMS(128, 5077)),
            *rows = tn_program_input(p, "rows", TN_F32, DIMS(40, 1)),
            *cols = tn_program_input(p, "cols", TN_F32, DIMS(1, 5077));
  tn_program_output(p, "y", tn_mul(tn_matmul(a, b), tn_mul(rows, cols)));
  assert_int_equal(tn_program_end(p), TN_OK);
  char *text = tn_program_explain_string(p);
  const char *kernel = text ? strstr(text, " tile(") : NULL;
  int by_row = gate_of(kernel, "load f32", buffer_of(kernel, "param f32[40] "), 2),
      by_col = gate_of(kernel, "load f32", buffer_of(kernel, "param f32[5077] "), 2),
      all = gate_of(kernel, "store void", buffer_of(kernel, "param f32[203080] "), 3);
  if (!by_row || !by_col || !all || by_row == all || by_col == all || by_row == by_col)
    fail_msg("%d %d %d: %s", by_row, by_col, all, text);
  tn_string_free(text);
  tn_program_close(p);
  tn_ctx_close(c);
}

/* Of each head's product, stored with all heads' values of a place side by side: a loop over these is two, by heads. */
static float *join_heads(const char *device, const char *want, int rank, char *form, size_t size, size_t *count) {
  float *out = NULL;
  tn_ctx *c = open_on(device, false, rank);
  tn_scope(c) {
    tn_tensor *y = tn_matmul(drawn(c, TN_F32, DIMS(2, 3, 133, 90)), drawn(c, TN_F32, DIMS(2, 3, 90, 32)));
    y = tn_contiguous(tn_reshape(tn_permute(y, (int[]){0, 2, 1, 3}, 4), DIMS(2, 133, 96)));
    out = read_all(y, want, form, size, count);
  }
  tn_ctx_close(c);
  return out;
}

static void heads_side_by_side(void **s) {
  bool tiles;
  const char *device = tried(&tiles);
  char form[32], other[32];
  size_t n = 0, m;
  (void)s;
  float *x = NULL, *y = join_heads("cpu", NULL, 0, other, sizeof other, &m);
  for (int rank = 0; rank < RANKS && !x; rank++)
    x = join_heads(device, tiles ? "slim_f32" : NULL, rank, form, sizeof form, &n);
  assert_non_null(x);
  assert_true(n == m);
  compare("heads", x, y, n, TN_F32, false);
}

/* Sums that a product's rows have in common are another kernel's, in whichever order the product and what is added to
 * it are written, and however that is moved: the product's kernel has tiles. */
static void beside_sums(void **s) {
  (void)s;
  enum { AS_IT_IS, MOVED, MADE_OF, WAYS };
  tn_ctx *c = open_on("ref:sm_90", false, 0);
  for (int way = 0; way < 2 * WAYS; way++) tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *a = tn_program_input(p, "a", TN_F32, DIMS(19, 16384)),
                *b = tn_program_input(p, "b", TN_F32, DIMS(19, 1607)),
                *x = tn_program_input(p, "x", TN_F32, DIMS(16384, 1607)),
                *product = tn_matmul(tn_transpose(a, 0, 1), b), *sum = tn_sum(a, (int[]){0}, 1, false);
      tn_tensor *more = tn_mul(tn_reshape(sum, DIMS(16384, 1)), x);
      if (way / 2 == MADE_OF) product = tn_neg(product);
      if (way / 2 == MOVED) product = tn_transpose(product, 0, 1), more = tn_transpose(more, 0, 1);
      tn_tensor *y = way % 2 ? tn_add(more, product) : tn_add(product, more);
      tn_program_output(p, "y", way / 2 == MOVED ? tn_transpose(y, 0, 1) : y);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      if (!text || !strstr(text, " tile(")) fail_msg("way %d: %s", way, text);
      tn_string_free(text);
      tn_program_close(p);
    }
  tn_ctx_close(c);
}

/* Halves that do not lie in runs, and little work that no tile divides, go the ordinary way. */
static void others(void **s) {
  (void)s;
  static const row rows[] = {{TN_BF16, {false, false}, 1, 128, 250, 63, false, false},
                             {TN_F32, {false, false}, 1, 127, 256, 16, false, false}};
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) check(&rows[i], "ref:sm_90", "");
}

/* ---- convolutions ---- */

typedef struct geometry {
  tn_dtype dtype;
  bool last; /* channels last in memory */
  int64_t n, c, side, k, window, stride, pad, dilation;
  bool tf32;
} geometry;

enum { FORWARD, IMAGES, FILTERS, KINDS };

static float *convolve(const char *device, const geometry *g, int kind, int rank, const char *want, char *form,
                       size_t size, size_t *count) {
  float *out = NULL;
  tn_ctx *c = open_on(device, g->tf32, rank);
  tn_scope(c) {
    tn_dim sides[4];
    tn_tensor *x = g->last ? tn_permute(drawn(c, g->dtype, DIMS(g->n, g->side, g->side, g->c)), (int[]){0, 3, 1, 2}, 4)
                           : drawn(c, g->dtype, DIMS(g->n, g->c, g->side, g->side));
    tn_tensor *in[2] = {x, drawn(c, g->dtype, DIMS(g->k, g->c, g->window, g->window))},
              *b = drawn(c, g->dtype, DIMS(g->k)), *grad[2];
    tn_tensor *y = tn_conv2d(in[0], in[1], b,
                             &(tn_conv2d_options){.stride = {g->stride, g->stride},
                                                  .padding = {g->pad, g->pad},
                                                  .dilation = {g->dilation, g->dilation}});
    assert_int_equal(tn_shape(y, sides), TN_OK);
    tn_tensor *dy = drawn(c, g->dtype, sides, 4);
    if (kind != FORWARD) tn_vjp(y, dy, 2, in, grad);
    y = kind != FORWARD ? grad[kind - IMAGES] : tn_relu(y);
    out = read_all(g->last && kind != FILTERS ? tn_permute(y, (int[]){0, 2, 3, 1}, 4) : y, want, form, size, count);
  }
  tn_ctx_close(c);
  return out;
}

static void convolutions(void **s) {
  (void)s;
  static const struct {
    geometry g;
    const char *form[KINDS];
  } rows[] = {
      {{TN_F32, false, 4, 16, 8, 32, 3, 1, 1, 1, false}, {"flat_f32", "flat_f32", "flat_f32"}},
      {{TN_F32, false, 2, 32, 16, 64, 3, 1, 1, 1, false}, {"wide_f32", "flat_f32", "slim_f32"}},
      /* gradients of strides jump */
      {{TN_F32, false, 3, 8, 13, 37, 3, 2, 0, 2, false}, {"slim_f32", "flat_f32", "slim_f32"}},
      {{TN_F32, false, 2, 3, 20, 40, 7, 2, 3, 1, false}, {"wide_f32", "slim_f32", "slim_f32"}},
      {{TN_F32, true, 3, 16, 9, 32, 3, 1, 1, 1, false}, {"slim_f32", "flat_f32", "flat_f32"}},
      {{TN_BF16, true, 2, 16, 8, 64, 3, 1, 1, 1, false}, {"tall_bf16", "tall_bf16", "wide_bf16"}},
      {{TN_BF16, false, 2, 16, 13, 72, 3, 2, 1, 1, false}, {"wgmma_bf16", "tall_bf16", "wgmma_bf16"}},
      {{TN_F32, false, 2, 32, 8, 32, 3, 1, 1, 1, true}, {"wide_tf32", "wide_tf32", "wide_tf32"}},
      {{TN_F16, true, 2, 16, 9, 72, 3, 1, 2, 2, false}, {"tall_f16", "tall_f16", "wgmma_f16"}},
  };
  bool tiles;
  const char *device = tried(&tiles);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int kind = 0; kind < KINDS; kind++) {
      static unsigned long seen;
      if (!is_taken(&seen)) continue;
      char form[32], other[32], what[160];
      size_t n, m;
      float *x = NULL, *y = convolve("cpu", &rows[i].g, kind, 0, NULL, other, sizeof other, &m);
      for (int rank = 0; rank < RANKS && !x; rank++)
        x = convolve(device, &rows[i].g, kind, rank, tiles ? rows[i].form[kind] : NULL, form, sizeof form, &n);
      snprintf(what, sizeof what, "geometry %zu, kind %d by %s on %s", i, kind, form, device);
      if (!x) fail_msg("%s, which is not %s", what, rows[i].form[kind]);
      assert_true(n == m);
      compare(what, x, y, n, rows[i].g.dtype, rows[i].g.tf32);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(products),           cmocka_unit_test(choices),
                                     cmocka_unit_test(beside_sums),        cmocka_unit_test(long_sums),
                                     cmocka_unit_test(heads_side_by_side), cmocka_unit_test(edges),
                                     cmocka_unit_test(others),             cmocka_unit_test(convolutions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
