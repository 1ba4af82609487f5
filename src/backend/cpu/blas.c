/* Matrix products by OpenBLAS, loaded when the first one is wanted: its start-up costs milliseconds and threads, which
 * programs without products should not pay.  It has none of half floats: blocks of these are made f32 on their way.
 *
 * The library chooses its kernels by a list of processors it knows, and falls back to code for the oldest ones on any
 * that is newer than itself: an eighth of the speed.  It is then loaded again with the kernels that the machine's
 * instructions allow. */
#include "backend/cpu/cpu.h"
#include "backend/cpu/half.h"
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

/* Of half floats each thread has a block of either operand and of the result, as f32: with sides of SIDE an element is
 * multiplied so often that its conversion does not count, and all three go into what a core caches for itself. */
enum { PART = 1 << 14, WAITED = 1 << 14 /* elements that are read while threads meet once more */ };
enum { TILE = 16 /* the library's kernels are of multiples of that */, SIDE = 352, BLOCK = SIDE * SIDE };

static bool is_half(int dtype) { return dtype == TN_F16 || dtype == TN_BF16; }

bool tn__cpu_has_gemm(tn__device *d, int dtype) {
  int sums = tn__dtype_acc(dtype);
  if (sums != TN_F32 && sums != TN_F64) return false;
  pthread_once(&blas_once, load);
  size_t room = is_half(dtype) ? 3 * BLOCK * sizeof(float) : PART * tn__size_of(dtype);
  if (blas.library) tn__cpu_grow_scratch(d, room);
  return blas.library != NULL;
}

/* The library's threads are not used: beside the context's own they would fight for the cores, each side spinning while
 * the other computes.  A product is cut into tiles of its result instead, a call of the library each.  In which order
 * the library adds up an element's terms hangs on the tile, and so on the number of threads: the last bits do, too. */

enum { WORTH_A_THREAD = 1 << 17 }; /* multiplications that are worth waking one for */

/* A result of few elements has too few tiles for all threads, or such that read far more than they make. Where many
 * steps lead to it they are shared out, too: each thread sums up a part of them for a tile of at most PART elements, in
 * room of its own, and what it found is added up in the order of the parts. */

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

void tn__cpu_multiply(const tn__product *g) {
  int ta = g->trans_a ? TRANS : NO_TRANS, tb = g->trans_b ? TRANS : NO_TRANS;
  int m = (int)g->m, n = (int)g->n, k = (int)g->k, lda = (int)g->lda, ldb = (int)g->ldb, ldc = (int)g->ldc;
  if (k == 0) scale(g, g->c, tn__size_of(g->dtype));
  else if (g->dtype == TN_F32)
    blas.sgemm(ROW_MAJOR, ta, tb, m, n, k, 1.0f, g->a, lda, g->b, ldb, (float)g->beta, g->c, ldc);
  else blas.dgemm(ROW_MAJOR, ta, tb, m, n, k, 1.0, g->a, lda, g->b, ldb, g->beta, g->c, ldc);
}

/* ---- half floats ---- */

static int64_t least(int64_t a, int64_t b) { return a < b ? a : b; }
static int64_t most(int64_t a, int64_t b) { return a > b ? a : b; }

/* So many rows, columns and steps at a time that no block has more than BLOCK elements: SIDE at first, and more where
 * others are fewer. */
static tn__product block_of(const tn__product *g) {
  tn__product b = {.m = least(g->m, SIDE), .n = least(g->n, SIDE)};
  b.k = most(1, least(g->k, BLOCK / most(b.m, b.n)));
  if (g->m > g->n) b.m = least(g->m, most(b.m, BLOCK / most(b.k, b.n) / TILE * TILE));
  else b.n = least(g->n, most(b.n, BLOCK / most(b.k, b.m) / TILE * TILE));
  return b;
}

/* Rows of half floats as a matrix by itself */
static void widen(const tn__half *h, float *to, const uint16_t *from, int64_t ld, int64_t rows, int64_t cols) {
  if (ld == cols) cols *= rows, rows = 1;
  for (int64_t i = 0; i < rows; i++) h->widen(to + i * cols, from + i * ld, (size_t)cols);
}

/* A block of the result: its sums over all steps are of f32, and rounded once.  From one block to the next, operands
 * that stay are not converted again. */
static void multiply_block(const tn__half *h, const tn__product *g, const tn__product *by, int64_t i, int64_t j,
                           float *room) {
  const uint16_t *a = g->a, *b = g->b;
  uint16_t *c = (uint16_t *)g->c + tn__product_c(g, 0, i, j);
  float *x = room, *y = x + BLOCK, *z = y + BLOCK;
  tn__product p = {.dtype = TN_F32, .trans_a = g->trans_a, .trans_b = g->trans_b, .a = x, .b = y, .c = z};
  bool whole = by->k >= g->k;
  p.m = least(g->m - i, by->m), p.n = p.ldc = least(g->n - j, by->n);
  p.beta = g->beta;
  if (g->beta != 0) widen(h, z, c, g->ldc, p.m, p.n);
  for (int64_t k = 0; k == 0 || k < g->k; k += by->k) {
    p.k = least(g->k - k, by->k);
    p.lda = g->trans_a ? p.m : p.k, p.ldb = g->trans_b ? p.k : p.n;
    if (!whole || j == 0) widen(h, x, a + tn__product_a(g, 0, i, k), g->lda, g->trans_a ? p.k : p.m, p.lda);
    if (!whole || by->n < g->n || i == 0)
      widen(h, y, b + tn__product_b(g, 0, k, j), g->ldb, g->trans_b ? p.n : p.k, p.ldb);
    tn__cpu_multiply(&p);
    p.beta = 1;
  }
  for (int64_t r = 0; r < p.m; r++) h->round(c + r * g->ldc, z + r * p.n, (size_t)p.n);
}

static void multiply_halves(const tn__half *h, const tn__product *g, const tn__product *by, float *room) {
  for (int64_t i = 0; i < g->m; i += by->m)
    for (int64_t j = 0; j < g->n; j += by->n) multiply_block(h, g, by, i, j, room);
}

/* ---- tiles ---- */

typedef struct tiles {
  tn__device *d;
  const tn__product *g;
  const tn__half *half; /* NULL: no half floats; */
  tn__product by;       /* of these: the whole product's blocks, so that steps are cut alike in all tiles */
  int64_t rows, cols; /* of a tile */
  int64_t across, down; /* tiles per product */
  int64_t parts;        /* of the steps */
} tiles;

/* Tile number `tile` of all products; false: there is none */
static bool take_tile(const tiles *t, int64_t tile, tn__product *g) {
  size_t size = tn__size_of(t->g->dtype);
  int64_t per = t->across * t->down, product = tile / per, row = tile % per / t->across * t->rows,
          col = tile % per % t->across * t->cols;
  *g = *t->g;
  if (row >= g->m || col >= g->n) return false;
  g->a = (const char *)g->a + (size_t)(product * g->stride_a + row * (g->trans_a ? 1 : g->lda)) * size;
  g->b = (const char *)g->b + (size_t)(product * g->stride_b + col * (g->trans_b ? g->ldb : 1)) * size;
  g->c = (char *)g->c + (size_t)(product * g->stride_c + row * g->ldc + col) * size;
  g->m = least(g->m - row, t->rows);
  g->n = least(g->n - col, t->cols);
  return true;
}

/* One of the parts of the tile's steps, by itself, in the room of the thread of the slice's number */
static void take_part(const tiles *t, int64_t slice, tn__product *g) {
  size_t size = tn__size_of(g->dtype);
  int64_t part = slice % t->parts, lo = g->k * part / t->parts, hi = g->k * (part + 1) / t->parts;
  g->a = (const char *)g->a + (size_t)tn__product_a(g, 0, 0, lo) * size;
  g->b = (const char *)g->b + (size_t)tn__product_b(g, 0, lo, 0) * size;
  g->c = tn__cpu_scratch(t->d, (int)slice);
  g->k = hi - lo;
  g->ldc = g->n;
  g->beta = 0;
}

static void multiply(void *arg, int64_t slice, int thread) {
  const tiles *t = arg;
  tn__product g;
  if (!take_tile(t, slice / t->parts, &g)) return;
  if (t->parts > 1) take_part(t, slice, &g);
  if (t->half) multiply_halves(t->half, &g, &t->by, tn__cpu_scratch(t->d, thread));
  else tn__cpu_multiply(&g);
}

#define ADD_ROWS(T)                                                                                                    \
  static void add_rows_##T(const tn__product *g, const void *from) {                                                   \
    for (int64_t i = 0; i < g->m; i++)                                                                                 \
      for (int64_t j = 0; j < g->n; j++) ((T *)g->c)[i * g->ldc + j] += ((const T *)from)[i * g->n + j];               \
  }
ADD_ROWS(float)
ADD_ROWS(double)

/* The tile of the result, of what the slices of its parts have found */
static void join(void *arg, int64_t tile, int thread) {
  const tiles *t = arg;
  tn__product g;
  (void)thread;
  if (!take_tile(t, tile, &g)) return;
  if (!(g.beta >= 1 && g.beta <= 1)) scale(&g, g.c, tn__size_of(g.dtype));
  for (int64_t part = 0; part < t->parts; part++)
    (g.dtype == TN_F32 ? add_rows_float : add_rows_double)(&g, tn__cpu_scratch(t->d, (int)(tile * t->parts + part)));
}

/* A piece's size when n is cut into `pieces`, rounded up to whole tiles of the library */
static int64_t piece(int64_t n, int64_t pieces) {
  int64_t p = (n + pieces - 1) / pieces;
  return (p + TILE - 1) / TILE * TILE;
}

/* A way to cut: what its slices read, and what their sums are written and read again; -1: it leaves threads without
 * work, or has no room. */
static double reads_of(const tiles *t, int threads) {
  const tn__product *g = t->g;
  double sums = 0, steps = (double)g->k / (double)t->parts;
  if ((t->down - 1) * t->rows >= g->m || (t->across - 1) * t->cols >= g->n) return -1;
  if (t->parts > 1) {
    if (t->half || t->rows * t->cols > PART || g->batch * t->down * t->across * t->parts > threads) return -1;
    sums = WAITED + 3 * (double)t->rows * (double)t->cols;
  }
  return ((double)t->rows + (double)t->cols) * steps + sums;
}

/* Tiles, and parts, for `threads`, or as many as can be: of all ways to cut into so many the one that reads least */
static tiles cut(tn__device *d, const tn__product *g, int threads) {
  double work = (double)g->m * (double)g->n * (double)g->k * (double)g->batch;
  tiles best = {.d = d, .g = g, .half = tn__half_of(g->dtype, d->ctx->vector_bytes), .by = block_of(g),
                .rows = g->m, .cols = g->n, .across = 1, .down = 1, .parts = 1};
  int64_t want = g->batch >= threads ? 1 : threads;
  if (work < (double)want * WORTH_A_THREAD) want = (int64_t)(work / WORTH_A_THREAD);
  double fewest = -1;
  for (; want > 1 && fewest < 0; want--)
    for (int64_t parts = 1; parts <= want; parts++)
      for (int64_t down = 1; want % parts == 0 && down <= want / parts; down++) {
        tiles t = best;
        if (want / parts % down) continue;
        t.parts = parts, t.down = down, t.across = want / parts / down;
        t.rows = t.down > 1 ? piece(g->m, t.down) : g->m, t.cols = t.across > 1 ? piece(g->n, t.across) : g->n;
        double reads = reads_of(&t, threads);
        if (reads < 0 || (fewest >= 0 && reads >= fewest)) continue;
        fewest = reads;
        best = t;
      }
  return best;
}

tn_status tn__cpu_need_library(tn__device *d, int dtype) {
  if (!tn__cpu_has_gemm(d, dtype)) {
    tn__error(d->ctx, TN_ENOTSUP, "there is no BLAS library (libopenblas.so.0)");
    return TN_ENOTSUP;
  }
  one_thread_each();
  return TN_OK;
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
  tn_status status = tn__cpu_need_library(d, g->dtype);
  if (status || g->m == 0 || g->n == 0 || g->batch == 0) return status;
  tiles t = cut(d, g, tn__pool_threads(d->ctx->pool));
  tn__pool_run(d->ctx->pool, multiply, &t, g->batch * t.across * t.down * t.parts);
  if (t.parts > 1) tn__pool_run(d->ctx->pool, join, &t, g->batch * t.across * t.down);
  return TN_OK;
}
