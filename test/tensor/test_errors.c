/* The commonest mistakes, and what is said about them. */
#include "front.h"

static tn_ctx c;
static tn_tensor *f23, *f4, *f34, *i3, *b3, *u64s, *i64s, *f0;

static int open_all(void **state) {
  (void)state;
  front_open(&c);
  f23 = tn_zeros(&c, TN_F32, DIMS(2, 3));
  f4 = tn_zeros(&c, TN_F32, DIMS(4));
  f34 = tn_zeros(&c, TN_F32, DIMS(3, 4));
  i3 = tn_zeros(&c, TN_I32, DIMS(3));
  b3 = tn_zeros(&c, TN_BOOL, DIMS(3));
  u64s = tn_zeros(&c, TN_U64, DIMS(3));
  i64s = tn_zeros(&c, TN_I64, DIMS(3));
  f0 = tn_zeros(&c, TN_F32, DIMS(2, 0));
  return 0;
}

static int close_all(void **state) {
  (void)state;
  front_close(&c);
  return 0;
}

#define WRONG(expression, status, text) CHECK_ERROR(&c, expression, status, text)

static void shapes(void **state) {
  (void)state;
  WRONG(tn_add(f23, f4), TN_ESHAPE,
        "tn_add: shapes of f32[2,3] and f32[4] do not broadcast: they differ at axis 1 from the end");
  WRONG(tn_matmul(f23, f4), TN_ESHAPE, "tn_matmul: f32[2,3] and f32[4]: the inner sizes differ");
  WRONG(tn_reshape(f23, DIMS(5)), TN_ESHAPE,
        "tn_reshape: f32[2,3] cannot have shape [5]: the number of elements differs");
  WRONG(tn_reshape(f23, DIMS(-1, 4)), TN_ESHAPE, "tn_reshape: f32[2,3] cannot have shape [1,4] times something");
  WRONG(tn_reshape(f23, DIMS(-1, -1)), TN_EINVAL, "tn_reshape: two sizes are -1");
  WRONG(tn_reshape(f23, DIMS(-7)), TN_EINVAL, "tn_reshape: -7 is not a size");
  WRONG(tn_expand(f23, DIMS(2, 4)), TN_ESHAPE, "tn_expand: f32[2,3] does not broadcast to [2,4]");
  WRONG(tn_concatenate((tn_tensor *[]){f23, f34}, 2, 1), TN_ESHAPE,
        "tn_concatenate: f32[2,3] and f32[3,4] differ beside axis 1");
  WRONG(tn_stack((tn_tensor *[]){f23, f34}, 2, 1), TN_ESHAPE, "tn_stack: f32[2,3] and f32[3,4] differ in shape");
  WRONG(tn_squeeze(f23, AXES(1)), TN_ESHAPE, "tn_squeeze: axis 1 of f32[2,3] is not of size 1");
  WRONG(tn_max(f0, AXES(1), false), TN_ESHAPE, "tn_max: nothing to choose from in f32[2,0]");
  WRONG(tn_argmax(f0, 1, false), TN_ESHAPE, "tn_argmax: nothing to choose from along axis 1 of f32[2,0]");
  WRONG(tn_unfold(f4, 0, 5, 1, 1), TN_ESHAPE, "tn_unfold: a window of 5 with dilation 1 does not fit axis 0 of f32[4]");
  WRONG(tn_cross_entropy(f23, i3), TN_ESHAPE,
        "tn_cross_entropy: labels i32[3] do not fit f32[2,3]: they have its shape without axis 1");
  WRONG(tn_zeros(&c, TN_F32, NULL, 2), TN_EINVAL, "tn_zeros: the shape is NULL but its rank is 2");
  WRONG(tn_zeros(&c, TN_F32, NULL, 17), TN_ESHAPE, "tn_zeros: rank 17 is outside 0..16");
  WRONG(tn_einsum("ij,jk", (tn_tensor *[]){f23, f4}, 2), TN_ESHAPE, "tn_einsum: \"ij,jk\": 2 labels do not fit f32[4]");
  WRONG(tn_einsum("ij,ik", (tn_tensor *[]){f23, f34}, 2), TN_ESHAPE,
        "tn_einsum: \"ij,ik\": sizes of axis i differ: f32[3,4] does not fit an operand before it");
  WRONG(tn_einsum("ij->k", &f23, 1), TN_EINVAL, "tn_einsum: \"ij->k\": the result has a label that no operand has");
}

static void axes(void **state) {
  (void)state;
  WRONG(tn_sum(f23, AXES(2), false), TN_EINVAL, "tn_sum: axis 2 is out of range for rank 2");
  WRONG(tn_sum(f23, AXES(1, -1), false), TN_EINVAL, "tn_sum: axis -1 is named twice");
  WRONG(tn_softmax(f23, -3), TN_EINVAL, "tn_softmax: axis -3 is out of range for rank 2");
  WRONG(tn_permute(f23, AXES(0)), TN_EINVAL, "tn_permute: 1 axes are given for f32[2,3]");
  WRONG(tn_select(f23, 0, 2), TN_EINVAL, "tn_select: index 2 is out of range for axis 0 of f32[2,3]");
  WRONG(tn_slice(f23, 0, 0, 1, 0), TN_EINVAL, "tn_slice: the step is 0");
  WRONG(tn_layer_norm(f23, 3, NULL, NULL, 1e-5), TN_EINVAL, "tn_layer_norm: 3 axes are to be normalised in f32[2,3]");
}

static void dtypes(void **state) {
  (void)state;
  WRONG(tn_add(i3, tn_cast(i3, TN_F32)), TN_EDTYPE,
        "tn_add: dtypes i32 and f32 have no common dtype: convert one with tn_cast");
  WRONG(tn_add(u64s, i64s), TN_EDTYPE, "tn_add: dtypes u64 and i64 have no common dtype: convert one with tn_cast");
  WRONG(tn_add(b3, i3), TN_EDTYPE, "tn_add: dtypes bool and i32 have no common dtype: convert one with tn_cast");
  WRONG(tn_div(i3, i3), TN_EDTYPE, "tn_div: needs floats, not i32: use tn_floordiv, or convert with tn_cast");
  WRONG(tn_sqrt(i3), TN_EDTYPE, "tn_sqrt: needs floats, not i32[3]: convert with tn_cast");
  WRONG(tn_neg(b3), TN_EDTYPE, "tn_neg: needs numbers, not bool[3]: convert with tn_cast");
  WRONG(tn_shl(f4, f4), TN_EDTYPE, "tn_shl: needs integers, not f32[4]: convert with tn_cast");
  WRONG(tn_bitwise_and(f4, f4), TN_EDTYPE, "tn_bitwise_and: needs integers or bool, not f32[4]: convert with tn_cast");
  WRONG(tn_mul_scalar(i3, 0.5), TN_EDTYPE,
        "tn_mul_scalar: the number 0.5 does not fit i32: convert the tensor with tn_cast");
  WRONG(tn_full(&c, TN_U8, NULL, 0, 256), TN_EDTYPE,
        "tn_full: the number 256 does not fit u8: convert the tensor with tn_cast");
  WRONG(tn_full_i64(&c, TN_I8, NULL, 0, -129), TN_EINVAL, "tn_full_i64: -129 does not fit i8");
  WRONG(tn_where(i3, f4, f4), TN_EDTYPE,
        "tn_where: the condition must be bool, not i32[3]: compare, or convert with tn_cast");
  WRONG(tn_take(f4, f4, 0), TN_EDTYPE, "tn_take: indices must be integers, not f32[4]");
  WRONG(tn_mean(i3, ALL, false), TN_EDTYPE, "tn_mean: needs floats, not i32[3]: convert with tn_cast");
  WRONG(tn_zeros(&c, (tn_dtype)-1, NULL, 0), TN_EDTYPE, "tn_zeros: unknown dtype -1");
  WRONG(tn_bitcast(f4, TN_I64), TN_EDTYPE, "tn_bitcast: the bits of f32[4] are no i64");
}

static void numbers(void **state) {
  (void)state;
  WRONG(tn_arange(&c, TN_I32, 0, 5, 0.5), TN_EDTYPE, "tn_arange: step, 0.5, does not fit i32");
  WRONG(tn_arange(&c, TN_F32, 0, 5, 0), TN_EINVAL,
        "tn_arange: start 0, stop 5 and step 0 must be finite, and step not 0");
  WRONG(tn_bernoulli(&c, NULL, 0, 1.5), TN_EINVAL, "tn_bernoulli: probability 1.5 is outside 0..1");
  WRONG(tn_randint(&c, TN_U8, NULL, 0, 0, 300), TN_EINVAL, "tn_randint: 299 does not fit u8");
  WRONG(tn_randint(&c, TN_U8, NULL, 0, 5, 5), TN_EINVAL, "tn_randint: bounds 5..5: needs lo < hi <= lo + 2^32");
  WRONG(tn_clamp(f4, 1, 0), TN_EINVAL, "tn_clamp: bounds 1 and 0 are not lo <= hi");
  WRONG(tn_from(&c, TN_F32, DIMS(2), NULL), TN_EINVAL, "tn_from: data is NULL");
  WRONG(tn_from(&c, TN_F32, DIMS(INT64_C(1) << 40, INT64_C(1) << 40), &c), TN_ENOMEM,
        "tn_from: [1099511627776,1099511627776] of f32 is more than memory can hold");
}

static void states(void **state) {
  (void)state;
  tn_tensor *x = F32(&c, DIMS(3), 1, 2, 3);
  assert_int_equal(tn_assign(tn_neg(x), x), TN_ESTATE);
  assert_string_equal(
      tn_last_error(&c)->text,
      "tn_assign: the destination f32[3] is neither realised nor a slice of a realised tensor: tn_realize it first");
  tn_clear_error(&c);
  assert_int_equal(tn_assign(x, i3), TN_EDTYPE);
  tn_clear_error(&c);
  assert_int_equal(tn_assign(x, f4), TN_ESHAPE);
  assert_string_equal(tn_last_error(&c)->text, "tn_assign: f32[4] does not broadcast to [3]");
  tn_clear_error(&c);
}

static void sizes(void **state) {
  (void)state;
  tn_ctx other;
  front_open(&other);
  tn_dim n = tn_dim_var(&c, "N", 1, 100), m = tn_dim_var(&other, "M", 1, 100);
  assert_true(tn_dim_is_symbolic(n));
  assert_false(tn_dim_is_symbolic(-1) || tn_dim_is_symbolic(INT64_MIN) || tn_dim_is_symbolic(7));
  assert_int_equal(tn_dim_var(&c, "N", 1, 100), n);
  WRONG(tn_zeros(&c, TN_F32, &m, 1), TN_EINVAL, "tn_zeros: a symbolic size belongs to another context");
  assert_int_equal(tn_dim_var(&c, "N", 1, 99), TN_DIM_ERROR);
  assert_string_equal(tn_last_error(&c)->text, "tn_dim_var: size N exists with bounds 1..100");
  tn_clear_error(&c);
  assert_int_equal(tn_dim_sub(&c, 2, 5), TN_DIM_ERROR);
  assert_string_equal(tn_last_error(&c)->text, "tn_dim_sub: the size would be -3");
  tn_clear_error(&c);
  WRONG(tn_from(&c, TN_F32, &n, 1, &c), TN_ESHAPE, "tn_from: memory needs plain sizes, not [N]");
  assert_int_equal(tn_dim_div(&c, 7, 2), 3);
  assert_int_equal(tn_dim_sub(&c, tn_dim_add(&c, n, 5), n), 5); /* normal form */
  tn_dim both = tn_dim_mul(&c, n, 6);
  tn_tensor *x = tn_zeros(&c, TN_F32, DIMS(n, 6));
  assert_int_equal(tn_size(tn_reshape(x, DIMS(-1)), 0), both);
  assert_int_equal(tn_size(tn_reshape(x, DIMS(-1, 3)), 0), tn_dim_mul(&c, n, 2));
  assert_int_equal(tn_size(tn_concatenate((tn_tensor *[]){x, x}, 2, 0), 0), tn_dim_mul(&c, n, 2));
  assert_int_equal(tn_size(tn_matmul(x, tn_zeros(&c, TN_F32, DIMS(6, 4))), 0), n);
  assert_int_equal(tn_nbytes(x), 0);
  const tn_dim quarter = INT64_C(1) << 62; /* in bytes: just what wraps to 0, and the most that does not wrap */
  assert_true(tn_nbytes(tn_zeros(&c, TN_F32, DIMS(quarter))) == SIZE_MAX);
  assert_true(tn_nbytes(tn_ones(&c, TN_F64, DIMS(quarter / 2 + 1))) == SIZE_MAX);
  assert_true(tn_nbytes(tn_ones(&c, TN_F32, DIMS(quarter - 1))) == SIZE_MAX - 3);
  assert_int_equal(tn_dim_is_symbolic(tn_numel(x)), true);
  int64_t lo, hi;
  assert_int_equal(tn_dim_bounds(&c, both, &lo, &hi), TN_OK);
  assert_true(lo == 6 && hi == 600);
  front_close(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(shapes),  cmocka_unit_test(axes),   cmocka_unit_test(dtypes),
      cmocka_unit_test(numbers), cmocka_unit_test(states), cmocka_unit_test(sizes),
  };
  return cmocka_run_group_tests(tests, open_all, close_all);
}
