/* Indices in range (tn_options.check).  Prefix tn__index_.
 *
 * For the indices of each call, their least and their greatest are computed on the device, 0 taken along, so that
 * nothing goes wrong where there are no indices. */
#ifndef TN_RUN_INDEX_CHECK_H
#define TN_RUN_INDEX_CHECK_H
#include "ir/eval.h"
#include "tensor/cells.h"

enum { TN__EXTREMES = 2 };

/* Both extremes of the indices, i64 scalars. */
void tn__index_extremes(tn_ctx *c, const tn__index_check *k, tn_node **out);
/* What is wrong if these are not in range, at the values of env; NULL */
const char *tn__index_judge(tn_ctx *c, const tn__index_check *k, const int64_t *extreme, const tn__env *env);
/* All that wait, now.  Throws TN_EINVAL; what is made of indices out of range stays refused. */
void tn__run_index_checks(tn_ctx *c);
#endif
