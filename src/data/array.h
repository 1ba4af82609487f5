/* Arrays that callers hand over.  Prefix tn__array_. */
#ifndef TN_DATA_ARRAY_H
#define TN_DATA_ARRAY_H
#include "ir/ctx.h"
#include "tenet/data.h"

/* Throws TN_EINVAL if dtype, rank, sizes, bytes and data do not belong together, or a size is above `most`. */
void tn__array_check(tn_ctx *c, const tn_array *a, int64_t most);
#endif
