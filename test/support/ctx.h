/* A context for tests of the IR and of passes over it: memory, scratch and the intern table, no devices.  Tests that
 * need a device open a real one with tn_ctx_open(). */
#ifndef TN_TEST_SUPPORT_CTX_H
#define TN_TEST_SUPPORT_CTX_H
#include "ir/build.h"

static inline void test__open(void *c) { tn__intern_open(c); }

/* Pass a tn_ctx of the test's own.  Returns false when memory is out (set c->mem.fail_at afterwards to test that). */
static inline bool test_ctx_open(tn_ctx *c) {
  tn_status status;
  *c = (tn_ctx){0};
  tn__arena_init(&c->scratch, &c->mem);
  tn_clear_error(c);
  return tn__mem_try(&c->mem, test__open, c, &status);
}

/* Frees all; what then is still held has leaked: the return value, in bytes. */
static inline size_t test_ctx_close(tn_ctx *c) {
  tn__intern_close(c);
  tn__arena_free(&c->scratch);
  return c->mem.live;
}
#endif
