#include "data/array.h"
#include <stdbool.h>

void tn__array_check(tn_ctx *c, const tn_array *a, int64_t most) {
  size_t bytes = tn_dtype_size(a->dtype);
  bool empty = false;
  if (!bytes) tn__fail(c, TN_EINVAL, "unknown dtype %d", (int)a->dtype);
  if (a->rank < 0 || a->rank > TN_MAX_RANK) tn__fail(c, TN_EINVAL, "%d axes, of at most %d", a->rank, TN_MAX_RANK);
  for (int i = 0; i < a->rank; i++) empty |= a->shape[i] == 0;
  for (int i = 0; i < a->rank; i++) {
    bool over = !empty && __builtin_mul_overflow(bytes, (size_t)a->shape[i], &bytes);
    if (a->shape[i] < 0 || a->shape[i] > most || over)
      tn__fail(c, TN_EINVAL, "size %lld of axis %d is negative or too large", (long long)a->shape[i], i);
  }
  if (empty) bytes = 0;
  if (bytes != a->bytes || (bytes && !a->data))
    tn__fail(c, TN_EINVAL, "the array has %zu bytes%s, its shape takes %zu", a->data ? a->bytes : 0,
             a->data ? "" : " (NULL)", bytes);
}
