/* tn_options.check: indices and labels out of range are an error that names function, index and axis; on every device,
 * in programs, too, whose state then stays as it was. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static tn_ctx *open_on(const char *device, const char *check) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .check = check});
  assert_non_null(c);
  return c;
}

static tn_tensor *ints(tn_ctx *c, int64_t a, int64_t b) { return tn_from(c, TN_I64, DIMS(2), (int64_t[]){a, b}); }

/* Each function that takes indices, along an axis of 3 */
static tn_tensor *call(tn_ctx *c, int which, int64_t index) {
  tn_tensor *x = tn_ones(c, TN_F32, DIMS(2, 3)), *i = ints(c, 0, index);
  tn_tensor *both = tn_reshape(ints(c, index, 2), DIMS(2, 1)), *square = tn_ones(c, TN_F32, DIMS(2, 2));
  switch (which) {
  case 0: return tn_take(x, i, 1);
  case 1: return tn_embedding(tn_transpose(x, 0, 1), tn_cast(i, TN_I32));
  case 2: return tn_take_along_axis(x, both, 1);
  case 3: return tn_scatter_add(x, 1, both, tn_reshape(tn_ones(c, TN_F32, DIMS(2)), DIMS(2, 1)));
  case 4: return tn_index_add(x, 1, i, square);
  case 5: return tn_one_hot(i, 3, TN_F32);
  case 6: return tn_cross_entropy(x, i);
  case 7: return tn_nll_loss(x, i);
  default: return NULL;
  }
}

static const char *const names[] = {
    "tn_take", "tn_embedding", "tn_take_along_axis", "tn_scatter_add", "tn_index_add", "tn_one_hot", "tn_cross_entropy",
    "tn_nll_loss"};

static void functions(void **state) {
  static const char *const device[] = {"cpu", "ref", "ref:sm_90", "ref:opencl"};
  static const struct {
    int64_t index;
    bool good;
  } row[] = {{0, true}, {2, true}, {3, false}, {-1, false}, {INT64_MAX, false}, {INT64_MIN, false}};
  (void)state;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++) {
    tn_ctx *c = open_on(device[d], "index"), *lax = open_on(device[d], "");
    for (int which = 0; which < 8; which++)
      for (size_t r = 0; r < sizeof row / sizeof *row; r++) {
        if (which == 1 && (row[r].index > 3 || row[r].index < -1)) continue; /* its cast would give another index */
        char want[200];
        tn_tensor *t = call(c, which, row[r].index), *free_ = call(lax, which, row[r].index);
        assert_non_null(t);
        assert_int_equal(tn_realize(&free_, 1), TN_OK);
        tn_status status = tn_realize(&t, 1);
        const char *text = tn_last_error(c)->text;
        snprintf(want, sizeof want, "tn_realize: %s: index %lld is outside of axis %d of ", names[which],
                 (long long)row[r].index, which != 1);
        if (status != (row[r].good ? TN_OK : TN_EINVAL) || (!row[r].good && strncmp(text, want, strlen(want))))
          fail_msg("%s on %s, index %lld: %s", names[which], device[d], (long long)row[r].index, text);
        if (!row[r].good) assert_non_null(strstr(text, "which has 3 elements"));
        tn_clear_error(c);
        tn_tensor *made = tn_add_scalar(t, 1); /* what was refused stays so, and what is made of it */
        assert_int_equal(tn_realize(&made, 1), row[r].good ? TN_OK : TN_EINVAL);
        assert_int_equal(tn_realize(&t, 1), row[r].good ? TN_OK : TN_EINVAL);
        tn_clear_error(c);
        double v; /* the context goes on */
        assert_int_equal(tn_item(tn_sum(tn_ones(c, TN_F32, DIMS(5)), NULL, 0, false), &v), TN_OK);
      }
    tn_ctx_close(lax);
    tn_ctx_close(c);
  }
}

/* Of nothing, into nothing, and where only the gradient is computed. */
static void corners(void **state) {
  (void)state;
  tn_ctx *c = open_on("cpu", "index");
  tn_tensor *x = tn_from(c, TN_F32, DIMS(3), (float[]){1, 2, 3}), *g;
  tn_tensor *t = tn_take(x, tn_zeros(c, TN_I64, DIMS(0)), 0);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  t = tn_take(tn_zeros(c, TN_F32, DIMS(0, 2)), ints(c, 0, 0), 0);
  assert_int_equal(tn_realize(&t, 1), TN_EINVAL);
  assert_non_null(strstr(tn_last_error(c)->text, "index 0 is outside of axis 0 of f32[0,2], which has 0 elements"));
  tn_clear_error(c);
  t = tn_take(x, tn_from(c, TN_U64, DIMS(2), (uint64_t[]){1, UINT64_MAX}), 0); /* as it was given */
  assert_int_equal(tn_realize(&t, 1), TN_EINVAL);
  assert_non_null(strstr(tn_last_error(c)->text, "index 18446744073709551615 is outside of axis 0"));
  tn_clear_error(c);
  tn_tensor *loss = tn_sum(tn_square(tn_take(x, ints(c, 1, 7), 0)), NULL, 0, false);
  assert_int_equal(tn_grad(loss, 1, &x, &g), TN_OK);
  assert_int_equal(tn_realize(&g, 1), TN_EINVAL);
  assert_non_null(strstr(tn_last_error(c)->text, "tn_take: index 7"));
  tn_ctx_close(c);
  assert_null(tn_ctx_open(&(tn_options){.quiet = 1, .check = "everything"}));
}

/* What is assigned is refused with its indices, and only that; so are gradients. */
static void assigned(void **state) {
  (void)state;
  tn_ctx *c = open_on("cpu", "index");
  tn_tensor *w = tn_ones(c, TN_F32, DIMS(3)), *other = tn_ones(c, TN_F32, DIMS(3)), *wrong = ints(c, 1, 7), *g;
  float got[3];
  int64_t at[2];
  assert_int_equal(tn_realize(&w, 1), TN_OK);
  assert_int_equal(tn_realize(&other, 1), TN_OK);
  assert_int_equal(tn_assign(w, tn_index_add(w, 0, wrong, tn_ones(c, TN_F32, DIMS(2)))), TN_OK);
  assert_int_equal(tn_assign(other, tn_add(other, other)), TN_OK);
  for (int i = 0; i < 3; i++) {
    assert_int_equal(tn_read(w, got, sizeof got), TN_EINVAL);
    assert_non_null(strstr(tn_last_error(c)->text, "tn_index_add: index 7 is outside of axis 0 of f32[3]"));
    tn_clear_error(c);
  }
  assert_int_equal(tn_read(other, got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){2, 2, 2}), sizeof got);
  assert_int_equal(tn_read(wrong, at, sizeof at), TN_OK); /* to see what they are */
  assert_int_equal(at[1], 7);
  tn_tensor *loss = tn_sum(tn_square(tn_take(other, wrong, 0)), NULL, 0, false);
  assert_int_equal(tn_realize(&loss, 1), TN_EINVAL);
  tn_clear_error(c);
  loss = tn_sum(tn_square(tn_take(other, wrong, 0)), NULL, 0, false);
  assert_int_equal(tn_grad(loss, 1, &other, &g), TN_OK);
  for (int i = 0; i < 2; i++) assert_int_equal(tn_realize(&g, 1), TN_EINVAL);
  tn_ctx_close(c);
}

static void programs(void **state) {
  (void)state;
  tn_ctx *c = open_on("cpu", "index");
  tn_tensor *count = tn_from(c, TN_F32, DIMS(4), (float[4]){0});
  tn_program *p = tn_program_begin(c);
  tn_dim n = tn_dim_var(c, "n", 0, 8);
  tn_tensor *i = tn_program_input(p, "i", TN_I32, DIMS(n));
  assert_int_equal(tn_assign(count, tn_index_add(count, 0, i, tn_ones(c, TN_F32, DIMS(n)))), TN_OK);
  assert_int_equal(tn_program_output(p, "doubled", tn_add(count, count)), TN_OK);
  if (tn_program_end(p)) fail_msg("%s", tn_last_error(c)->text);
  static const struct {
    int n;
    int32_t i[3];
    tn_status status;
  } run[] = {
      {3, {0, 3, 3}, TN_OK}, {3, {0, 4, 1}, TN_EINVAL}, {0, {0}, TN_OK}, {2, {-2, 1}, TN_EINVAL}, {1, {1}, TN_OK}};
  for (size_t r = 0; r < sizeof run / sizeof *run; r++) {
    assert_int_equal(tn_program_write(p, "i", DIMS(run[r].n), run[r].i, (size_t)run[r].n * 4), TN_OK);
    if (tn_program_run(p) != run[r].status) fail_msg("run %d: %s", (int)r, tn_last_error(c)->text);
    if (run[r].status) assert_non_null(strstr(tn_last_error(c)->text, "tn_program_run: tn_index_add: index "));
    tn_clear_error(c);
    float doubled[4]; /* of a refused run there is nothing to read */
    assert_int_equal(tn_program_read(p, "doubled", doubled, sizeof doubled), run[r].status ? TN_ESTATE : TN_OK);
    assert_true(run[r].status || tn_program_result(p, "doubled"));
    tn_clear_error(c);
  }
  float got[4];
  assert_int_equal(tn_read(count, got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){1, 1, 0, 2}), sizeof got); /* refused runs have changed nothing */
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(functions), cmocka_unit_test(corners), cmocka_unit_test(assigned),
      cmocka_unit_test(programs),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
