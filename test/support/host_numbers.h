/* Inputs of tests whose numbers come from the host: no schedule is compiled for them, nor compared with its graph,
 * which where every program is validated takes as long as the program that they are for. */
#ifndef TEST_SUPPORT_HOST_NUMBERS_H
#define TEST_SUPPORT_HOST_NUMBERS_H
#include "ir/eval.h"
#include "tenet/tenet.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <cmocka.h>

/* bits: of element i, as the dtype has them */
static inline tn_tensor *host_numbers(tn_ctx *c, int dtype, const tn_dim *shape, int rank,
                                      uint64_t (*bits)(const void *of, int dtype, tn_dim i), const void *of) {
  size_t n = 1, size = tn__size_of(dtype);
  for (int d = 0; d < rank; d++) n *= (size_t)shape[d];
  char *x = malloc(n * size + 1);
  assert_non_null(x);
  for (size_t i = 0; i < n; i++) tn__eval_store(dtype, x + i * size, bits(of, dtype, (tn_dim)i));
  tn_tensor *t = tn_from(c, (tn_dtype)dtype, shape, rank, x);
  free(x);
  assert_non_null(t);
  return t;
}
#endif
