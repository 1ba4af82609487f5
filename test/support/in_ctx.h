/* A body in a context of its own (support/ctx.h): an error or a leak fails the test.  After cmocka.h. */
#ifndef TN_TEST_SUPPORT_IN_CTX_H
#define TN_TEST_SUPPORT_IN_CTX_H
#include "rewrite/rewrite.h"
#include "support/ctx.h"

static inline void test_in_ctx(void (*body)(tn_ctx *c, void *arg), void *arg) {
  tn_ctx c;
  assert_true(test_ctx_open(&c));
  if (!tn__ctx_run(&c, "test", body, arg)) fail_msg("%s", c.err_text);
  tn__rules_close(&c);
  assert_int_equal(test_ctx_close(&c), 0);
}
#endif
