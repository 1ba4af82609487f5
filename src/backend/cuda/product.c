/* Matrix products by cuBLASLt, loaded when the first one is wanted.
 *
 * The library is column-major: a row-major matrix is its transpose there.  So C = A B is computed as C' = B' A', with
 * the operands swapped and nothing moved.
 *
 * What the library works out for a shape (descriptors and the choice of a kernel) is kept in a table, so that doing it
 * again allocates and decides nothing.  Reductions over k happen in f32 (f64 for f64), also between parts of a split
 * one. */
#include "backend/cuda/state.h"
#include <string.h>

enum { SHAPES = 512, PROBES = 8, WORKSPACE = 32 << 20, MOST_ALIGNED = 256 };

/* All that the choice of a kernel depends on; compared as bytes. */
typedef struct shape {
  int64_t dtype, trans_a, trans_b, m, n, k, batch, lda, ldb, ldc, stride_a, stride_b, stride_c, epilogue;
  uint32_t align_a, align_b, align_c, used;
} shape;

typedef struct entry {
  shape shape;
  tn__lt_handle desc, left, right, result; /* as the library sees it: left is our b */
  tn__lt_algo algo;
} entry;

struct tn__cuda_products {
  const tn__cuda_lt *lt;
  tn__lt_handle handle;
  tn__cu_address workspace;
  bool tf32; /* allowed for f32 */
  entry entry[SHAPES];
};

static const struct {
  int type, compute;
} types[TN_DTYPE_COUNT] = {
    [TN_F16] = {LT_R_16F, LT_COMPUTE_32F},
    [TN_BF16] = {LT_R_16BF, LT_COMPUTE_32F},
    [TN_F32] = {LT_R_32F, LT_COMPUTE_32F}, /* tf32, where that is allowed, is another compute type */
    [TN_F64] = {LT_R_64F, LT_COMPUTE_64F},
};

/* ---- the library ---- */

static void forget_entry(const tn__cuda_lt *lt, entry *e) {
  tn__lt_handle layout[] = {e->left, e->right, e->result};
  if (e->desc) lt->desc_destroy(e->desc);
  for (size_t i = 0; i < sizeof layout / sizeof *layout; i++)
    if (layout[i]) lt->layout_destroy(layout[i]);
  *e = (entry){0};
}

void tn__cuda_products_close(tn__device *d) {
  tn__cuda *self = d->self;
  tn__cuda_products *p = self->products;
  if (!p) return;
  for (int i = 0; i < SHAPES; i++) forget_entry(p->lt, &p->entry[i]);
  if (p->handle) p->lt->destroy(p->handle);
  if (p->workspace && !self->lost) self->api->free(p->workspace);
  tn__mem_free(&d->ctx->mem, p);
  self->products = NULL;
}

/* The library, with a workspace; TN_ENOTSUP, with nothing recorded, where there is none. */
static tn_status open_products(tn__device *d) {
  tn__cuda *self = d->self;
  if (self->products) return TN_OK;
  const tn__cuda_lt *lt = self->no_products ? NULL : tn__cuda_load_lt(NULL);
  if (!lt) return TN_ENOTSUP;
  tn_status status = tn__cuda_enter(d);
  if (status) return status;
  tn__cuda_products *p = tn__mem_try_alloc(&d->ctx->mem, sizeof *p);
  if (!p) {
    tn__error(d->ctx, TN_ENOMEM, "no memory for the table of matrix products");
    return TN_ENOMEM;
  }
  self->products = memset(p, 0, sizeof *p);
  p->lt = lt;
  p->tf32 = d->ctx->opt.tf32;
  if (lt->create(&p->handle)) {
    p->handle = NULL;
    self->no_products = true;
    tn__cuda_products_close(d);
    return TN_ENOTSUP;
  }
  status = tn__cuda_check(d, self->api->alloc(&p->workspace, WORKSPACE), "allocating the workspace of matrix products");
  if (status) tn__cuda_products_close(d);
  return status;
}

/* The library's name for it; a row of ours is a column of its. */
static int64_t epilogue_of(const tn__product *g) {
  static const uint8_t function[] = {
      [TN__AFTER_NOTHING] = 0, [TN__AFTER_RELU] = LT_EPILOGUE_RELU, [TN__AFTER_GELU] = LT_EPILOGUE_GELU};
  int64_t all = function[g->after] | (g->row ? LT_EPILOGUE_ROW : 0);
  return all ? all : LT_EPILOGUE_NOTHING;
}

/* Its GELU is not exact enough for f32. */
bool tn__cuda_has_after(tn__device *d, int dtype, tn__after after) {
  return dtype != TN_F64 && (after != TN__AFTER_GELU || dtype != TN_F32) && tn__cuda_has_gemm(d, dtype);
}

bool tn__cuda_has_gemm(tn__device *d, int dtype) {
  if (!types[dtype].compute) return false;
  tn_status status = open_products(d);
  if (status && status != TN_ENOTSUP) tn__mem_throw(&d->ctx->mem, status);
  return status == TN_OK;
}

/* ---- shapes ---- */

static uint32_t alignment(const void *p) {
  uintptr_t low = (uintptr_t)p & (~(uintptr_t)p + 1); /* the lowest bit set; 0 for NULL */
  return low == 0 || low > MOST_ALIGNED ? MOST_ALIGNED : (uint32_t)low;
}

/* A matrix of one row has no distance between rows, but the library wants one that would do. */
static int64_t distance(int64_t ld, int64_t rows, int64_t cols) { return rows <= 1 && ld < cols ? cols : ld; }

static shape shape_of(const tn__product *g) {
  shape s;
  memset(&s, 0, sizeof s);
  s.dtype = g->dtype;
  s.trans_a = g->trans_a;
  s.trans_b = g->trans_b;
  s.m = g->m;
  s.n = g->n;
  s.k = g->k;
  s.batch = g->batch;
  s.lda = g->trans_a ? distance(g->lda, g->k, g->m) : distance(g->lda, g->m, g->k);
  s.ldb = g->trans_b ? distance(g->ldb, g->n, g->k) : distance(g->ldb, g->k, g->n);
  s.ldc = distance(g->ldc, g->m, g->n);
  s.stride_a = g->stride_a;
  s.stride_b = g->stride_b;
  s.stride_c = g->stride_c;
  s.epilogue = epilogue_of(g);
  s.align_a = alignment(g->a);
  s.align_b = alignment(g->b);
  s.align_c = alignment(g->c);
  s.used = 1;
  return s;
}

/* A row-major rows x cols matrix as the library's column-major cols x rows one. */
static int describe(const tn__cuda_lt *lt, tn__lt_handle *out, const shape *s, int64_t rows, int64_t cols, int64_t ld,
                    int64_t stride) {
  int32_t batch = (int32_t)s->batch;
  int failed = lt->layout_create(out, types[s->dtype].type, (uint64_t)cols, (uint64_t)rows, ld);
  if (failed) *out = NULL;
  if (!failed && batch > 1) failed = lt->layout_set(*out, LT_LAYOUT_BATCH, &batch, sizeof batch);
  if (!failed && batch > 1) failed = lt->layout_set(*out, LT_LAYOUT_STRIDE, &stride, sizeof stride);
  return failed;
}

static int choose(const tn__cuda_products *p, entry *e) {
  const tn__cuda_lt *lt = p->lt;
  const shape *s = &e->shape;
  tn__lt_choice choice;
  tn__lt_handle pref = NULL;
  int found = 0;
  uint64_t workspace = WORKSPACE;
  uint32_t reductions = LT_REDUCE_IN_COMPUTE_TYPE;
  const struct {
    int what;
    const void *value;
    size_t size;
  } wishes[] = {{LT_PREF_WORKSPACE, &workspace, sizeof workspace}, {LT_PREF_REDUCTIONS, &reductions, sizeof reductions},
                {LT_PREF_ALIGN_A, &s->align_b, sizeof s->align_b}, {LT_PREF_ALIGN_B, &s->align_a, sizeof s->align_a},
                {LT_PREF_ALIGN_C, &s->align_c, sizeof s->align_c}, {LT_PREF_ALIGN_D, &s->align_c, sizeof s->align_c}};
  int failed = lt->pref_create(&pref);
  for (size_t i = 0; i < sizeof wishes / sizeof *wishes && !failed; i++)
    failed = lt->pref_set(pref, wishes[i].what, wishes[i].value, wishes[i].size);
  if (!failed)
    failed = lt->choose(p->handle, e->desc, e->left, e->right, e->result, e->result, pref, 1, &choice, &found);
  if (!failed && !found) failed = -1;
  if (!failed) failed = choice.status;
  if (!failed) e->algo = choice.algo;
  if (pref) lt->pref_destroy(pref);
  return failed;
}

static int fill_entry(const tn__cuda_products *p, entry *e, const shape *s) {
  const tn__cuda_lt *lt = p->lt;
  int compute = s->dtype == TN_F32 && p->tf32 ? LT_COMPUTE_32F_FAST_TF32 : types[s->dtype].compute;
  int32_t trans_a = s->trans_a != 0, trans_b = s->trans_b != 0;
  int32_t epilogue = (int32_t)s->epilogue;
  bool f64 = s->dtype == TN_F64;
  e->shape = *s;
  int failed = lt->desc_create(&e->desc, compute, f64 ? LT_R_64F : LT_R_32F);
  if (failed) e->desc = NULL;
  if (!failed) failed = lt->desc_set(e->desc, LT_DESC_TRANS_A, &trans_b, sizeof trans_b);
  if (!failed) failed = lt->desc_set(e->desc, LT_DESC_TRANS_B, &trans_a, sizeof trans_a);
  if (!failed && epilogue != LT_EPILOGUE_NOTHING)
    failed = lt->desc_set(e->desc, LT_DESC_EPILOGUE, &epilogue, sizeof epilogue);
  if (!failed) failed = describe(lt, &e->left, s, trans_b ? s->n : s->k, trans_b ? s->k : s->n, s->ldb, s->stride_b);
  if (!failed) failed = describe(lt, &e->right, s, trans_a ? s->k : s->m, trans_a ? s->m : s->k, s->lda, s->stride_a);
  if (!failed) failed = describe(lt, &e->result, s, s->m, s->n, s->ldc, s->stride_c);
  return failed ? failed : choose(p, e);
}

/* The shape's entry; a new one takes the place of another if the table is full there.  NULL, with *failed, if the
 * library refuses. */
static const entry *find_entry(tn__cuda_products *p, const shape *s, int *failed) {
  uint64_t at = tn__hash_bytes(s, sizeof *s, 0);
  entry *e = NULL;
  for (uint64_t i = 0; i < PROBES; i++) {
    e = &p->entry[(at + i) % SHAPES];
    if (!e->shape.used) break;
    if (!memcmp(&e->shape, s, sizeof *s)) return e;
    if (i == PROBES - 1) e = &p->entry[at % SHAPES];
  }
  forget_entry(p->lt, e);
  *failed = fill_entry(p, e, s);
  if (!*failed) return e;
  forget_entry(p->lt, e);
  return NULL;
}

/* ---- multiplying ---- */

/* A product over nothing: C = beta C. */
static tn_status clear(tn__device *d, const tn__product *g) {
  const tn__cuda *self = d->self;
  size_t size = tn__size_of(g->dtype);
  tn_status status = TN_OK;
  if (g->beta == 1) return TN_OK;
  if (g->beta != 0) {
    tn__error(d->ctx, TN_ENOTSUP, "matrix product over k = 0 with beta = %g", g->beta);
    return TN_ENOTSUP;
  }
  for (int64_t i = 0; i < g->batch && !status; i++) {
    tn__cu_address c = (tn__cu_address)(uintptr_t)g->c + (size_t)(i * g->stride_c) * size;
    status = tn__cuda_check(
        d, self->api->fill_rows(c, (size_t)g->ldc * size, 0, (size_t)g->n * size, (size_t)g->m, self->stream),
        "clearing a product");
  }
  return status;
}

static tn_status check_sizes(tn__device *d, const tn__product *g) {
  const int64_t sizes[] = {g->m, g->n, g->k, g->batch, g->lda, g->ldb, g->ldc};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    if (sizes[i] < 0 || sizes[i] > INT32_MAX) {
      tn__error(d->ctx, TN_ENOTSUP,
                "matrix product %lldx%lldx%lld: a size or row distance of %lld is more than cuBLASLt takes",
                (long long)g->m, (long long)g->n, (long long)g->k, (long long)sizes[i]);
      return TN_ENOTSUP;
    }
  return TN_OK;
}

tn_status tn__cuda_gemm(tn__device *d, const tn__product *g) {
  tn__cuda *self = d->self;
  const union {
    float f;
    double d;
  } one32 = {.f = 1}, one64 = {.d = 1}, beta32 = {.f = (float)g->beta}, beta64 = {.d = g->beta};
  int failed = 0;
  bool f64 = g->dtype == TN_F64;
  tn_status status = check_sizes(d, g);
  if (!status) status = tn__cuda_use(d);
  if (status || g->m == 0 || g->n == 0 || g->batch == 0) return status;
  tn__cuda_started(d, "a matrix product");
  if (g->k == 0) return clear(d, g);
  status = g->dtype < TN_DTYPE_COUNT && types[g->dtype].compute ? open_products(d) : TN_ENOTSUP;
  if (status == TN_ENOTSUP)
    tn__error(d->ctx, TN_ENOTSUP, "there is no cuBLASLt library that multiplies %s", tn__dtypes[g->dtype].name);
  if (status) return status;
  tn__cuda_products *p = self->products;
  shape s = shape_of(g);
  const entry *e = find_entry(p, &s, &failed);
  if (e && g->row) failed = p->lt->desc_set(e->desc, LT_DESC_ROW, &g->row, sizeof g->row);
  if (e && !failed)
    failed = p->lt->multiply(p->handle, e->desc, f64 ? &one64 : &one32, g->b, e->left, g->a, e->right,
                             f64 ? &beta64 : &beta32, g->c, e->result, g->c, e->result, &e->algo,
                             (void *)(uintptr_t)p->workspace, WORKSPACE, self->stream);
  if (!failed) return TN_OK;
  tn__error(d->ctx, TN_ERUN, "%s: matrix product %lldx%lldx%lld of %s: cuBLASLt error %d%s", d->name, (long long)g->m,
            (long long)g->n, (long long)g->k, tn__dtypes[g->dtype].name, failed,
            failed == -1 ? " (it knows no way)" : "");
  return TN_ERUN;
}
