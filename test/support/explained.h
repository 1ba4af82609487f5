/* What a computation gives on a device, and what its kernels' notes say: for tests that compare devices bit for bit. */
#ifndef TN_TEST_SUPPORT_EXPLAINED_H
#define TN_TEST_SUPPORT_EXPLAINED_H
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdlib.h>

/* The elements of what `make` gives, to be freed; `check` sees the explanation. */
static inline void *explained(tn_options opt, const char *name, tn_tensor *(*make)(tn_ctx *c, const void *of),
                              void (*check)(const void *of, const char *device, const char *text), const void *of,
                              size_t *bytes) {
  void *out = NULL;
  opt.quiet = 1;
  if (!opt.verify) opt.verify = "strict";
  tn_ctx *c = tn_ctx_open(&opt);
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *y = make(c, of);
    if (!y) fail_msg("%s: %s", name, tn_last_error(c)->text);
    char *text = tn_explain_string(&y, 1);
    if (!text) fail_msg("%s on %s: %s", name, opt.device, tn_last_error(c)->text);
    check(of, opt.device, text);
    free(text);
    *bytes = tn_nbytes(y);
    out = malloc(*bytes);
    assert_non_null(out);
    if (tn_read(y, out, *bytes) != TN_OK) fail_msg("%s on %s: %s", name, opt.device, tn_last_error(c)->text);
  }
  tn_ctx_close(c);
  return out;
}
#endif
