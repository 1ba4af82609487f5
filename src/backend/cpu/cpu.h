/* The CPU device: C through the system's compiler, run by the context's worker pool; products by OpenBLAS.  Prefix
 * tn__cpu_. */
#ifndef TN_BACKEND_CPU_CPU_H
#define TN_BACKEND_CPU_CPU_H
#include "device/device.h"

enum {
  TN__CPU_LANE_BYTES = 128, /* 32 f32: two accumulators or more at every level, whose additions overlap */
  /* Of the caches of a core that Tenet runs fast on, the least: kernels are the same text on all of them. */
  TN__CPU_NEAR = 32 << 10,
  TN__CPU_KEPT = 512 << 10, /* half of the second one, the other half being for what passes */
  TN__CPU_FAR = 4 << 20,    /* of the last one */
  TN__CPU_FAR_RATE = 4,
  TN__CPU_WIDENING = 5 /* own kernels differ: 4 to 16, the more the better their lanes lie along memory */
};
#define TN__CPU_TARGET                                                                                                 \
  .lane_bytes = TN__CPU_LANE_BYTES, .near = TN__CPU_NEAR, .kept = TN__CPU_KEPT, .far = TN__CPU_FAR,                    \
  .far_rate = TN__CPU_FAR_RATE, .widening = TN__CPU_WIDENING, .planes = true

/* Adds the device "cpu".  Without a C compiler it interprets, and says so on stderr once unless opt.quiet. */
void tn__cpu_open(tn_ctx *c);

/* Memory that a thread has while it runs a slice, and nothing stands in from one to the next.  Room for `bytes` of it
 * on each thread; throws TN_ENOMEM. */
void tn__cpu_grow_scratch(tn__device *d, size_t bytes);
void *tn__cpu_scratch(const tn__device *d, int thread); /* 64-aligned; NULL: there is none yet */

/* Is there a BLAS library?  Loads it.  f32 and f64; f16 and bf16, for which it makes room in scratch memory: throws
 * TN_ENOMEM. */
bool tn__cpu_has_gemm(tn__device *d, int dtype);

/* TN_ENOTSUP with an error recorded if a size or leading dimension exceeds what the library takes; allocates nothing.
 */
tn_status tn__cpu_gemm(tn__device *d, const tn__product *g);

/* Makes the library ready for calls by one thread each; TN_ENOTSUP with an error recorded if there is none. */
tn_status tn__cpu_need_library(tn__device *d, int dtype);
/* One product of f32 or f64 (batch and row count for nothing), by this thread; all sizes are int's. */
void tn__cpu_multiply(const tn__product *g);

/* Convolutions by products of blocks: of f32, f16 and bf16 (makes room in scratch memory: throws TN_ENOMEM), in planes,
 * and with beta 0; else TN_ENOTSUP with an error recorded.  Allocates nothing if has_conv was asked before. */
bool tn__cpu_has_conv(tn__device *d, int dtype);
tn_status tn__cpu_conv(tn__device *d, const tn__conv_call *v);
#endif
