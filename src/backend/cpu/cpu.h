/* The CPU device: C through the system's compiler, run by the context's worker pool; products by OpenBLAS.  Prefix tn__cpu_. */
#ifndef TN_BACKEND_CPU_CPU_H
#define TN_BACKEND_CPU_CPU_H
#include "device/device.h"

/* Adds the device "cpu".  Without a C compiler it interprets, and says so on stderr once unless opt.quiet. */
void tn__cpu_open(tn_ctx *c);

/* Is there a BLAS library?  Loads it. */
bool tn__cpu_has_gemm(void);

/* C[i] = op(A[i]) op(B[i]) + beta C[i] for i in 0..batch-1, all row-major: op(A) is m x k, op(B) k x n, C m x n.  Leading dimensions
 * (the distance between rows as stored) and strides (between products; 0 shares an operand) count elements. */
typedef struct tn__product {
  int dtype; /* TN_F32, TN_F64 */
  bool trans_a, trans_b;
  int64_t m, n, k, batch;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
  double beta;
} tn__product;
/* TN_ENOTSUP with an error recorded if a size or leading dimension exceeds what the library takes; allocates nothing. */
tn_status tn__cpu_gemm(tn__device *d, const tn__product *g);
#endif
