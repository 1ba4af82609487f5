/* Matrix products by OpenBLAS (any CBLAS will do, but only OpenBLAS can be told how many threads to use). */
#include "backend/cpu/cpu.h"
#include <cblas.h>
#include <string.h>

extern void openblas_set_num_threads(int n) __attribute__((weak));
extern int openblas_get_num_threads(void) __attribute__((weak));

/* Multiplications below which a product of a batch is better done by one thread, beside its neighbours. */
enum { SMALL_PRODUCT = 1 << 21 };

static void use_threads(int n) {
  if (openblas_set_num_threads && openblas_get_num_threads && openblas_get_num_threads() != n) openblas_set_num_threads(n);
}

/* C = beta C, for a product over nothing. */
static void scale(const tn__product *g, char *c, size_t size) {
  for (int64_t i = 0; i < g->m; i++) {
    char *row = c + (size_t)(i * g->ldc) * size;
    if (g->beta == 0) memset(row, 0, (size_t)g->n * size);
    else if (g->dtype == TN_F32) cblas_sscal((blasint)g->n, (float)g->beta, (float *)(void *)row, 1);
    else cblas_dscal((blasint)g->n, g->beta, (double *)(void *)row, 1);
  }
}

static void multiply(void *arg, int64_t i, int thread) {
  const tn__product *g = arg;
  size_t size = tn__size_of(g->dtype);
  const void *a = (const char *)g->a + (size_t)(i * g->stride_a) * size, *b = (const char *)g->b + (size_t)(i * g->stride_b) * size;
  void *c = (char *)g->c + (size_t)(i * g->stride_c) * size;
  enum CBLAS_TRANSPOSE ta = g->trans_a ? CblasTrans : CblasNoTrans, tb = g->trans_b ? CblasTrans : CblasNoTrans;
  blasint m = (blasint)g->m, n = (blasint)g->n, k = (blasint)g->k, lda = (blasint)g->lda, ldb = (blasint)g->ldb, ldc = (blasint)g->ldc;
  (void)thread;
  if (k == 0) scale(g, c, size);
  else if (g->dtype == TN_F32) cblas_sgemm(CblasRowMajor, ta, tb, m, n, k, 1.0f, a, lda, b, ldb, (float)g->beta, c, ldc);
  else cblas_dgemm(CblasRowMajor, ta, tb, m, n, k, 1.0, a, lda, b, ldb, g->beta, c, ldc);
}

tn_status tn__cpu_gemm(tn__device *d, const tn__product *g) {
  const int64_t sizes[] = {g->m, g->n, g->k, g->lda, g->ldb, g->ldc};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i] < 0 || sizes[i] > INT32_MAX) {
      tn__error(d->ctx, TN_ENOTSUP, "matrix product %lldx%lldx%lld: a size or row distance of %lld is more than the BLAS library takes", (long long)g->m,
                (long long)g->n, (long long)g->k, (long long)sizes[i]);
      return TN_ENOTSUP;
    }
  if (g->m == 0 || g->n == 0) return TN_OK;
  int threads = tn__pool_threads(d->ctx->pool);
  tn__product product = *g;
  if (g->batch > 1 && threads > 1 && (double)g->m * (double)g->n * (double)g->k < SMALL_PRODUCT) {
    use_threads(1);
    tn__pool_run(d->ctx->pool, multiply, &product, g->batch);
    return TN_OK;
  }
  use_threads(threads);
  for (int64_t i = 0; i < g->batch; i++) multiply(&product, i, 0);
  return TN_OK;
}
