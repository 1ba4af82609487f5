/* Memory that runs out at every possible place: an error, no crash, nothing lost. */
#include "front.h"

/* Touches every part of the front end that allocates for itself. */
static bool scenario(tn_ctx *c) {
  bool good = false;
  tn_scope(c) {
    tn_dim n = tn_dim_var(c, "n", 1, 8);
    tn_tensor *x = F32(c, DIMS(2, 3), 1, 2, 3, 4, 5, 6), *w = tn_normal(c, TN_F32, DIMS(3, 4), 0, 1);
    tn_tensor *row = tn_select(x, 0, 1), *s = tn_slice(row, 0, 0, 3, 2);
    tn_status assigned = tn_assign(s, tn_sum(tn_softmax(tn_matmul(x, w), -1), ALL, false));
    tn_tensor *all[] = {x, tn_scalar(c, TN_F32, 1), tn_einsum("ij,jk->ki", (tn_tensor *[]){x, w}, 2),
                        tn_zeros(c, TN_I8, DIMS(n, 2))};
    good = n > 0 || tn_dim_is_symbolic(n);
    for (size_t i = 0; i < sizeof all / sizeof *all; i++) good = good && all[i];
    good = good && assigned == TN_OK;
    tn_tensor *kept = tn_keep(tn_concatenate((tn_tensor *[]){x, x}, 2, 0));
    good = good && kept;
    tn_release(kept);
  }
  return good;
}

static void runs_out_everywhere(void **state) {
  (void)state;
  for (int64_t n = 1;; n++) {
    tn_ctx c;
    front_open(&c);
    c.mem.fail_at = c.mem.count + n;
    bool good = scenario(&c);
    bool reached = c.mem.count >= c.mem.fail_at;
    c.mem.fail_at = 0;
    if (!good) assert_int_equal(tn_last_error(&c)->status, TN_ENOMEM);
    assert_int_equal(c.cells->top->depth, 0);
    tn_clear_error(&c);
    assert_true(scenario(&c)); /* later calls work */
    front_close(&c);           /* checks for leaks */
    if (!reached) break;
    assert_true(n < 100000);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(runs_out_everywhere)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
