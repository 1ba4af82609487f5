/* Matrix products by OpenBLAS, loaded when the first one is wanted: its start-up costs milliseconds and threads, which
 * programs without products should not pay.
 *
 * The library chooses its kernels by a list of processors it knows, and falls back to code for the oldest ones on any
 * that is newer than itself: an eighth of the speed.  It is then loaded again with the kernels that the machine's
 * instructions allow. */
#include "backend/cpu/cpu.h"
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* CBLAS, as its standard gives it (www.netlib.org/blas/blast-forum/cblas.tgz); what is needed of it. */
enum { ROW_MAJOR = 101, NO_TRANS = 111, TRANS = 112 };
typedef void sgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, float alpha, const void *a, int lda,
                      const void *b, int ldb, float beta, void *c, int ldc);
typedef void dgemm_fn(int order, int trans_a, int trans_b, int m, int n, int k, double alpha, const void *a, int lda,
                      const void *b, int ldb, double beta, void *c, int ldc);

/* One library serves the process; nothing here changes once it is loaded. */
static struct blas {
  void *library;
  sgemm_fn *sgemm;
  dgemm_fn *dgemm;
  void (*set_threads)(int);
  int (*get_threads)(void);
} blas;
static pthread_once_t blas_once = PTHREAD_ONCE_INIT;

static void *open_library(void) {
  static const char *const names[] = {"libopenblas.so.0", "libopenblas.so"};
  void *lib = NULL;
  for (size_t i = 0; i < sizeof names / sizeof *names && !lib; i++) lib = dlopen(names[i], RTLD_NOW | RTLD_LOCAL);
  return lib;
}

/* dlsym gives an object pointer where a function pointer is meant; POSIX makes the two interchangeable, C does not. */
static void find(void *library, const char *name, void *out) {
  void *p = dlsym(library, name);
  memcpy(out, &p, sizeof p);
}

/* The kernels to ask for where the library did not recognise the machine; NULL: it did well. */
static const char *better_core(void *library) {
  const char *(*core_name)(void);
  find(library, "openblas_get_corename", &core_name);
  const char *core = core_name ? core_name() : "";
  bool oldest =
      !strcmp(core, "Prescott") || !strcmp(core, "Core2") || !strcmp(core, "Generic") || !strcmp(core, "Nehalem");
  if (!oldest || getenv("OPENBLAS_CORETYPE")) return NULL;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512bw") &&
      __builtin_cpu_supports("avx512vl"))
    return "SkylakeX";
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) return "Haswell";
#endif
  return NULL;
}

static void load(void) {
  void *lib = open_library();
  const char *core = lib ? better_core(lib) : NULL;
  if (core) {
    dlclose(lib);
    setenv("OPENBLAS_CORETYPE", core, 0);
    lib = open_library();
    unsetenv("OPENBLAS_CORETYPE");
  }
  if (!lib) return;
  find(lib, "cblas_sgemm", &blas.sgemm);
  find(lib, "cblas_dgemm", &blas.dgemm);
  find(lib, "openblas_set_num_threads", &blas.set_threads);
  find(lib, "openblas_get_num_threads", &blas.get_threads);
  if (blas.sgemm && blas.dgemm) blas.library = lib;
}

bool tn__cpu_has_gemm(tn__device *d, int dtype) {
  (void)d;
  if (dtype != TN_F32 && dtype != TN_F64) return false;
  pthread_once(&blas_once, load);
  return blas.library != NULL;
}

/* The library's threads are not used: beside the context's own they would fight for the cores, each side spinning while
 * the other computes.  A product is cut into tiles of its result instead, one call of the library each. */

/* Multiplications that are worth waking a thread for; a tile is cut at multiples of TILE rows and columns, as the
 * library's kernels are. */
enum { WORTH_A_THREAD = 1 << 17, TILE = 16 };

static void one_thread_each(void) {
  if (blas.set_threads && blas.get_threads && blas.get_threads() != 1) blas.set_threads(1);
}

/* C = beta C, for a product over nothing. */
static void scale(const tn__product *g, char *c, size_t size) {
  for (int64_t i = 0; i < g->m; i++) {
    char *row = c + (size_t)(i * g->ldc) * size;
    if (g->beta == 0) memset(row, 0, (size_t)g->n * size);
    else
      for (int64_t j = 0; j < g->n; j++) {
        if (g->dtype == TN_F32) ((float *)(void *)row)[j] *= (float)g->beta;
        else ((double *)(void *)row)[j] *= g->beta;
      }
  }
}

typedef struct tiles {
  const tn__product *g;
  int64_t rows, cols; /* of a tile */
  int64_t across, down; /* tiles per product */
} tiles;

static void multiply(void *arg, int64_t slice, int thread) {
  const tiles *t = arg;
  tn__product g = *t->g;
  size_t size = tn__size_of(g.dtype);
  int64_t per = t->across * t->down, product = slice / per, row = slice % per / t->across * t->rows,
          col = slice % per % t->across * t->cols;
  (void)thread;
  if (row >= g.m || col >= g.n) return;
  g.a = (const char *)g.a + (size_t)(product * g.stride_a + row * (g.trans_a ? 1 : g.lda)) * size;
  g.b = (const char *)g.b + (size_t)(product * g.stride_b + col * (g.trans_b ? g.ldb : 1)) * size;
  g.c = (char *)g.c + (size_t)(product * g.stride_c + row * g.ldc + col) * size;
  g.m = g.m - row < t->rows ? g.m - row : t->rows;
  g.n = g.n - col < t->cols ? g.n - col : t->cols;
  int ta = g.trans_a ? TRANS : NO_TRANS, tb = g.trans_b ? TRANS : NO_TRANS;
  int m = (int)g.m, n = (int)g.n, k = (int)g.k, lda = (int)g.lda, ldb = (int)g.ldb, ldc = (int)g.ldc;
  if (k == 0) scale(&g, g.c, size);
  else if (g.dtype == TN_F32) blas.sgemm(ROW_MAJOR, ta, tb, m, n, k, 1.0f, g.a, lda, g.b, ldb, (float)g.beta, g.c, ldc);
  else blas.dgemm(ROW_MAJOR, ta, tb, m, n, k, 1.0, g.a, lda, g.b, ldb, g.beta, g.c, ldc);
}

/* A piece's size when n is cut into `pieces`, rounded up to whole tiles of the library */
static int64_t piece(int64_t n, int64_t pieces) {
  int64_t p = (n + pieces - 1) / pieces;
  return (p + TILE - 1) / TILE * TILE;
}

/* Tiles for `threads`: of all grids of that many, the one whose tiles read least. */
static tiles cut(const tn__product *g, int threads) {
  double work = (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
  tiles best = {.g = g, .rows = g->m, .cols = g->n, .across = 1, .down = 1};
  int64_t want = g->batch >= threads ? 1 : threads;
  if (work < (double)want * WORTH_A_THREAD) want = (int64_t)(work / WORTH_A_THREAD);
  double least = -1;
  for (int64_t down = 1; down <= want; down++) {
    if (want % down) continue;
    int64_t rows = piece(g->m, down), cols = piece(g->n, want / down);
    /* would leave threads without work */
    if (want > 1 && ((down - 1) * rows >= g->m || (want / down - 1) * cols >= g->n)) continue;
    double reads = (double)rows + (double)cols;
    if (least >= 0 && reads >= least) continue;
    least = reads;
    best = (tiles){.g = g, .rows = rows, .cols = cols, .across = want / down, .down = down};
  }
  return best;
}

tn_status tn__cpu_gemm(tn__device *d, const tn__product *g) {
  const int64_t sizes[] = {g->m, g->n, g->k, g->lda, g->ldb, g->ldc};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i] < 0 || sizes[i] > INT32_MAX) {
      tn__error(d->ctx, TN_ENOTSUP,
                "matrix product %lldx%lldx%lld: a size or row distance of %lld is more than the BLAS library takes",
                (long long)g->m, (long long)g->n, (long long)g->k, (long long)sizes[i]);
      return TN_ENOTSUP;
    }
  if (!tn__cpu_has_gemm(d, g->dtype)) {
    tn__error(d->ctx, TN_ENOTSUP, "there is no BLAS library (libopenblas.so.0)");
    return TN_ENOTSUP;
  }
  if (g->m == 0 || g->n == 0 || g->batch == 0) return TN_OK;
  one_thread_each();
  tiles t = cut(g, tn__pool_threads(d->ctx->pool));
  tn__pool_run(d->ctx->pool, multiply, &t, g->batch * t.across * t.down);
  return TN_OK;
}
