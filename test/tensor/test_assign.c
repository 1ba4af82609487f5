/* Assignment through slices: what the base and older tensors hold afterwards. */
#include "front.h"

static tn_tensor *counted(tn_ctx *c, const tn_dim *shape, int rank) {
  float v[64];
  for (int i = 0; i < 64; i++) v[i] = (float)i;
  return tn_from(c, TN_F32, shape, rank, v);
}

static void whole(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_tensor *x = counted(&c, DIMS(3)), *before = tn_mul_scalar(x, 10);
  assert_int_equal(tn_assign(x, tn_add_scalar(x, 1)), TN_OK);
  assert_int_equal(tn_assign(x, tn_add_scalar(x, 1)), TN_OK);
  assert_int_equal(x->node->op, OP_ASSIGN);
  assert_int_equal(x->node->src[0]->op, OP_STORAGE); /* never an assign over an assign */
  CHECK(x, DIMS(3), 0, 2, 3, 4);
  CHECK(before, DIMS(3), 0, 0, 10, 20);
  assert_int_equal(tn_assign(x, tn_const(&c, TN_F32, 7)), TN_OK); /* broadcasts */
  CHECK(x, DIMS(3), 0, 7, 7, 7);
  front_close(&c);
}

static void slices(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_tensor *x = counted(&c, DIMS(6)), *s = tn_slice(x, 0, 1, 6, 2);
  CHECK(s, DIMS(3), 0, 1, 3, 5);
  assert_int_equal(tn_assign(s, F32(&c, DIMS(3), -1, -0.0f, NAN)), TN_OK);
  CHECK(x, DIMS(6), 0, 0, -1, 2, -0.0, 4, NAN);
  CHECK(s, DIMS(3), 0, -1, -0.0, NAN);
  assert_int_equal(tn_assign(s, tn_const(&c, TN_F32, 9)), TN_OK); /* once more, through the same slice */
  CHECK(x, DIMS(6), 0, 0, 9, 2, 9, 4, 9);
  assert_int_equal(tn_assign(x, tn_mul_scalar(x, 2)), TN_OK);
  CHECK(s, DIMS(3), 0, 9, 9, 9); /* a view is a value */
  assert_int_equal(tn_assign(tn_slice(x, 0, 4, INT64_MIN, -2), F32(&c, DIMS(3), 1, 2, 3)), TN_OK);
  CHECK(x, DIMS(6), 0, 3, 18, 2, 18, 1, 18);
  assert_int_equal(tn_assign(tn_slice(x, 0, 2, 2, 1), tn_const(&c, TN_F32, 5)), TN_OK); /* nothing */
  CHECK(x, DIMS(6), 0, 3, 18, 2, 18, 1, 18);
  front_close(&c);
}

static void slices_of_slices(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_tensor *x = counted(&c, DIMS(3, 4));
  tn_tensor *t = tn_transpose(tn_reshape(x, DIMS(2, 6)), 0, 1); /* [6,2]: 0 6 / 1 7 / ... */
  tn_tensor *s = tn_select(tn_slice(t, 0, 1, 6, 3), 1, 1);      /* elements 7 and 10 */
  CHECK(s, DIMS(2), 0, 7, 10);
  assert_int_equal(tn_assign(s, F32(&c, DIMS(2), 70, 100)), TN_OK);
  CHECK(x, DIMS(3, 4), 0, 0, 1, 2, 3, 4, 5, 6, 70, 8, 9, 100, 11);
  assert_int_equal(tn_assign(tn_squeeze(tn_unsqueeze(tn_flip(x, AXES(1)), 0), AXES(0)), tn_arange(&c, TN_F32, 0, 4, 1)),
                   TN_OK);
  CHECK(x, DIMS(3, 4), 0, 3, 2, 1, 0, 3, 2, 1, 0, 3, 2, 1, 0);
  tn_tensor *parts[2];
  assert_int_equal(tn_split(x, 2, 1, parts), TN_OK);
  assert_int_equal(tn_assign(parts[1], tn_const(&c, TN_F32, 8)), TN_OK);
  CHECK(x, DIMS(3, 4), 0, 3, 2, 8, 8, 3, 2, 8, 8, 3, 2, 8, 8);
  front_close(&c);
}

static void not_slices(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_tensor *x = counted(&c, DIMS(3)), *v = tn_const(&c, TN_F32, 1);
  assert_int_equal(tn_assign(tn_expand(x, DIMS(2, 3)), v), TN_ESTATE);
  tn_clear_error(&c);
  assert_int_equal(tn_assign(tn_pad(x, (tn_dim[]){1, 1}, 0), v), TN_ESTATE);
  tn_clear_error(&c);
  assert_int_equal(tn_assign(tn_slice(tn_neg(x), 0, 0, 1, 1), v), TN_ESTATE);
  tn_clear_error(&c);
  CHECK(x, DIMS(3), 0, 0, 1, 2);
  front_close(&c);
}

static void base_outlives_its_scope(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_tensor *s = NULL;
  tn_scope(&c) { s = tn_keep(tn_slice(counted(&c, DIMS(4)), 0, 1, 3, 1)); }
  assert_int_equal(c.stats.handles_live, 2); /* the slice, and the base it holds */
  assert_int_equal(tn_assign(s, tn_const(&c, TN_F32, 5)), TN_OK);
  CHECK(s, DIMS(2), 0, 5, 5);
  tn_release(s);
  tn__cells_drain(&c);
  assert_int_equal(c.stats.handles_live, 1); /* tn_const */
  front_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(whole),      cmocka_unit_test(slices),
      cmocka_unit_test(slices_of_slices), cmocka_unit_test(not_slices), cmocka_unit_test(base_outlives_its_scope),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
