/* Worker pool of a context: runs the slices of a kernel.  Prefix tn__pool_.
 *
 * n threads in all, the caller being one of them; workers spin for a few microseconds before they sleep, so that
 * back-to-back small kernels do not pay a wake-up each.  Each thread begins with its own even share of the slices, the
 * same in each run of as many, and then takes what others have left, so which thread runs which slice may vary; what a
 * slice computes must not depend on it. */
#ifndef TN_BASE_POOL_H
#define TN_BASE_POOL_H
#include "base/mem.h"

typedef struct tn__pool tn__pool;
typedef void (*tn__slice_fn)(void *arg, int64_t slice, int thread);

tn__pool *tn__pool_open(tn__mem *m, int threads); /* threads >= 1; fewer if the system gives fewer; throws TN_ENOMEM */
void tn__pool_close(tn__pool *p);
int tn__pool_threads(const tn__pool *p);
/* Calls fn(arg, s, thread) for s in 0..slices-1 and returns when all are done.  0 <= thread < threads.  Allocates
 * nothing. */
void tn__pool_run(tn__pool *p, tn__slice_fn fn, void *arg, int64_t slices);
int tn__pool_cores(void); /* cores in this thread's affinity mask, >= 1 */
#endif
