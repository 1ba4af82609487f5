/* Handles and scopes: who owns what, and when it ends. */
#include "front.h"
#include <pthread.h>

static uint64_t live(tn_ctx *c) {
  tn__cells_drain(c);
  return c->stats.handles_live;
}

static tn_tensor *one(tn_ctx *c) { return tn_const(c, TN_F32, 1); }

static void scope_ends_its_handles(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_tensor *outside = one(&c), *kept = NULL, *retained = NULL;
  tn_scope(&c) {
    one(&c);
    kept = tn_keep(one(&c));
    retained = tn_retain(one(&c));
    assert_int_equal(live(&c), 4);
    tn_scope(&c) {
      one(&c);
      assert_int_equal(live(&c), 5);
    }
    assert_int_equal(live(&c), 4);
  }
  assert_int_equal(live(&c), 3);
  assert_int_equal(tn_rank(kept), 0);
  tn_release(kept);
  assert_int_equal(live(&c), 2);
  tn_release(retained);
  assert_int_equal(live(&c), 1);
  tn_release(outside);
  assert_int_equal(live(&c), 0);
  front_close(&c);
}

static int leave_by_return(tn_ctx *c) {
  tn_scope(c) {
    tn_scope(c) {
      one(c);
      return 7;
    }
  }
  return 0;
}

static void scope_survives_break_return_and_goto(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  assert_int_equal(leave_by_return(&c), 7);
  assert_int_equal(live(&c), 0);
  tn_scope(&c) {
    one(&c);
    break;
  }
  assert_int_equal(live(&c), 0);
  tn_scope(&c) {
    one(&c);
    goto out;
  }
out:
  assert_int_equal(live(&c), 0);
  tn_scope(&c) { tn_scope_begin(&c), one(&c); } /* an inner one left open ends with the outer */
  assert_int_equal(live(&c), 0);
  assert_int_equal(tn_scope_end(&c), TN_ESTATE);
  assert_string_equal(tn_last_error(&c)->text, "tn_scope_end: no scope is open");
  front_close(&c);
}

static void release_in_a_scope(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_scope(&c) {
    tn_tensor *t = tn_retain(one(&c)); /* two references */
    tn_release(t);
    tn_release(t);
    assert_int_equal(live(&c), 0);
    t = one(&c);
    tn_keep(tn_keep(t));
    tn_release(t);
    assert_int_equal(live(&c), 0);
  }
  tn_release(NULL);
  assert_null(tn_keep(NULL));
  front_close(&c);
}

enum { MANY = 2000, THREADS = 4 };
static tn_tensor *shared[MANY];

static void *release_all(void *arg) {
  (void)arg;
  for (int i = 0; i < MANY; i++) tn_release(shared[i]);
  return NULL;
}

static void release_from_threads(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  for (int i = 0; i < MANY; i++) {
    shared[i] = one(&c);
    for (int r = 1; r < THREADS; r++) tn_retain(shared[i]);
  }
  pthread_t thread[THREADS];
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, release_all, NULL), 0);
  for (int i = 0; i < 1000; i++) live(&c); /* drains while they release */
  for (int i = 0; i < THREADS; i++) pthread_join(thread[i], NULL);
  assert_int_equal(live(&c), 0);
  front_close(&c);
}

static void close_frees_what_is_left(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_scope_begin(&c);
  tn_tensor *x = F32(&c, DIMS(2), 1, 2);
  tn_retain(tn_slice(x, 0, 0, 1, 1));
  tn_release(x);
  tn_dim_var(&c, "B", 1, 8);
  tn_uniform(&c, TN_F32, DIMS(3), 0, 1);
  front_close(&c); /* checks for leaks */
}

static void null_is_passed_on(void **state) {
  (void)state;
  tn_ctx c, other;
  front_open(&c);
  front_open(&other);
  tn_tensor *x = one(&c);
  CHECK_ERROR(&c, tn_add(x, NULL), TN_EINVAL, "tn_add: tensor argument 2 is NULL");
  CHECK_ERROR(&c, tn_add(NULL, x), TN_EINVAL, "tn_add: tensor argument 1 is NULL");
  assert_null(tn_neg(NULL));
  assert_null(tn_cast(x, (tn_dtype)99));
  assert_null(tn_add(x, tn_neg(NULL))); /* the first error stays */
  assert_string_equal(tn_last_error(&c)->text, "tn_cast: unknown dtype 99");
  assert_string_equal(tn_last_error(&c)->op, "tn_cast");
  assert_non_null(tn_add(x, x)); /* later calls work */
  CHECK_ERROR(&c, tn_add(x, one(&other)), TN_EINVAL, "tn_add: tensor argument 2 belongs to another context");
  union { tn_tensor t; char bytes[1]; } stray = {.bytes = {0}};
  CHECK_ERROR(&c, tn_add(x, &stray.t), TN_EINVAL, "tn_add: tensor argument 2 is not a tensor");
  assert_int_equal(tn_assign(NULL, x), TN_EINVAL);
  front_close(&other);
  front_close(&c);
}

static void introspection(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_tensor *x = tn_zeros(&c, TN_F16, DIMS(2, 0, 5));
  tn_dim shape[3];
  assert_int_equal(tn_rank(x), 3);
  assert_int_equal(tn_shape(x, shape), TN_OK);
  assert_true(shape[0] == 2 && shape[1] == 0 && shape[2] == 5);
  assert_int_equal(tn_size(x, -1), 5);
  assert_int_equal(tn_size(x, 3), TN_DIM_ERROR);
  assert_string_equal(tn_last_error(&c)->text, "tn_size: axis 3 is out of range for rank 3");
  tn_clear_error(&c);
  assert_int_equal(tn_numel(x), 0);
  assert_int_equal(tn_nbytes(tn_zeros(&c, TN_F16, DIMS(3, 5))), 30);
  assert_int_equal(tn_dtype_of(x), TN_F16);
  assert_string_equal(tn_device_of(x), "host");
  assert_ptr_equal(tn_ctx_of(x), &c);
  assert_int_equal(tn_rank(NULL), -1);
  assert_int_equal(tn_numel(NULL), TN_DIM_ERROR);
  assert_int_equal(tn_dtype_of(NULL), TN_DTYPE_COUNT);
  front_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(scope_ends_its_handles),   cmocka_unit_test(scope_survives_break_return_and_goto),
      cmocka_unit_test(release_in_a_scope),       cmocka_unit_test(release_from_threads),
      cmocka_unit_test(close_frees_what_is_left), cmocka_unit_test(null_is_passed_on),
      cmocka_unit_test(introspection),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
