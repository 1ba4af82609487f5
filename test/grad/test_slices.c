/* Gradients of tensors that are used slice by slice: every way in which slices can lie, and a cost linear in their
 * number. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

enum { ROWS = 7, COLUMNS = 5, ALL = ROWS * COLUMNS };

static const tn_options plain = {.device = "ref", .quiet = 1};

typedef struct span {
  int axis, begin, end, step;
} span;

static const struct {
  const char *what;
  span s[9];
} rows[] = {
    {"each row", {{0, 0, 1, 1}, {0, 1, 2, 1}, {0, 2, 3, 1}, {0, 3, 4, 1}, {0, 4, 5, 1}, {0, 5, 6, 1}, {0, 6, 7, 1}}},
    {"backwards", {{0, 5, 7, 1}, {0, 3, 5, 1}, {0, 0, 3, 1}}},
    {"gaps at both ends and between", {{0, 1, 2, 1}, {0, 3, 4, 1}, {0, 4, 6, 1}}},
    {"overlaps", {{0, 0, 4, 1}, {0, 2, 6, 1}, {0, 3, 7, 1}, {0, 1, 3, 1}}},
    {"one in another", {{0, 0, 6, 1}, {0, 2, 3, 1}, {0, 6, 7, 1}}},
    {"the same twice, all", {{0, 2, 4, 1}, {0, 2, 4, 1}, {0, 0, 7, 1}}},
    {"columns", {{1, 0, 2, 1}, {1, 2, 3, 1}, {1, 4, 5, 1}}},
    {"rows and columns", {{0, 0, 3, 1}, {1, 1, 2, 1}, {0, 3, 4, 1}, {1, 2, 5, 1}}},
    {"steps beside plain ones", {{0, 0, 7, 2}, {0, 1, 3, 1}, {0, 3, 5, 1}, {0, 1, 6, 3}}},
    {"nothing", {{0, 2, 2, 1}, {0, 0, 1, 1}, {0, 1, 2, 1}}},
    {"one alone", {{1, 1, 3, 1}}},
};

/* sum over the slices of (k + 1) times the sum of their cubes */
static tn_tensor *loss_of(tn_ctx *c, tn_tensor *x, const span *s) {
  tn_tensor *loss = tn_const(c, TN_F64, 0);
  for (int k = 0; k < 9 && s[k].step; k++) {
    tn_tensor *cut = tn_slice(x, s[k].axis, s[k].begin, s[k].end, s[k].step);
    loss = tn_add(loss, tn_mul_scalar(tn_sum(tn_mul(cut, tn_square(cut)), NULL, 0, false), k + 1));
  }
  return loss;
}

static double weight(const span *s, int row, int column) {
  double w = 0;
  for (int k = 0; k < 9 && s[k].step; k++) {
    int at = s[k].axis ? column : row;
    if (at >= s[k].begin && at < s[k].end && (at - s[k].begin) % s[k].step == 0) w += k + 1;
  }
  return w;
}

static void values(void **state) {
  double v[ALL], got[ALL];
  (void)state;
  for (int i = 0; i < ALL; i++) v[i] = i % 2 ? i : -i;
  for (size_t r = 0; r < sizeof rows / sizeof *rows; r++) {
    tn_ctx *c = tn_ctx_open(&plain);
    tn_tensor *x = tn_from(c, TN_F64, DIMS(ROWS, COLUMNS), v), *g, *h;
    if (tn_grad(loss_of(c, x, rows[r].s), 1, &x, &g)) fail_msg("%s: %s", rows[r].what, tn_last_error(c)->text);
    assert_int_equal(tn_grad(tn_sum(g, NULL, 0, false), 1, &x, &h), TN_OK);
    for (int order = 1; order <= 2; order++) {
      if (tn_read(order == 1 ? g : h, got, sizeof got)) fail_msg("%s: %s", rows[r].what, tn_last_error(c)->text);
      for (int i = 0; i < ALL; i++) {
        double want = weight(rows[r].s, i / COLUMNS, i % COLUMNS) * (order == 1 ? 3 * v[i] * v[i] : 6 * v[i]);
        if (got[i] != want)
          fail_msg("%s: derivative %d of element %d is %g, not %g", rows[r].what, order, i, got[i], want);
      }
    }
    tn_ctx_close(c);
  }
}

/* x itself is used, too; and the slices are of something that depends on x. */
static void beside(void **state) {
  double v[ALL], got[ALL];
  (void)state;
  for (int i = 0; i < ALL; i++) v[i] = i;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *x = tn_from(c, TN_F64, DIMS(ROWS, COLUMNS), v), *y = tn_mul_scalar(x, 2), *g;
  tn_tensor *loss = tn_add(loss_of(c, y, rows[0].s), tn_sum(tn_add(tn_square(y), x), NULL, 0, false));
  assert_int_equal(tn_grad(loss, 1, &x, &g), TN_OK);
  assert_int_equal(tn_read(g, got, sizeof got), TN_OK);
  for (int i = 0; i < ALL; i++) {
    double y_i = 2 * v[i], want = 2 * ((i / COLUMNS + 1) * 3 * y_i * y_i + 2 * y_i) + 1;
    assert_true(got[i] == want);
  }
  tn_ctx_close(c);
}

/* Bytes of text of an unrolled loop over n rows */
static size_t text_of(int n) {
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *x = tn_ones(c, TN_F32, DIMS(n, 3)), *h = tn_zeros(c, TN_F32, DIMS(3)), *g;
  assert_int_equal(tn_realize(&x, 1), TN_OK);
  for (int t = 0; t < n; t++) h = tn_tanh(tn_add(h, tn_select(x, 0, t)));
  assert_int_equal(tn_grad(tn_sum(h, NULL, 0, false), 1, &x, &g), TN_OK);
  char *text = tn_explain_string(&g, 1);
  assert_non_null(text);
  size_t size = strlen(text);
  tn_string_free(text);
  tn_ctx_close(c);
  return size;
}

static void linear(void **state) {
  (void)state;
  size_t few = text_of(40), many = text_of(160);
  if (many > 6 * few) fail_msg("40 slices: %zu bytes of kernels, 160: %zu", few, many);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(values), cmocka_unit_test(beside), cmocka_unit_test(linear),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
