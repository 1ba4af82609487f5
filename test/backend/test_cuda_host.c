/* The host's side of the CUDA device, on stand-ins for NVIDIA's libraries (test/fake): transfers, compiling and its
 * cache, launches, products, recordings, running out of memory, losing the device. */
#include "backend/cuda/cuda.h"
#include "fake/fake.h"
#include "support/ctx.h"
#include "tenet/tenet.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <cmocka.h>
#include "support/linear.h"
#include "support/files.h"

static fake_state *fake;

typedef struct fixture {
  tn_ctx c;
  tn__device *d;
  const char *cache;
  lin *l[3];
  uint32_t n;
  tn__code *code;
  void *mem, *host;
  size_t size;
} fixture;

/* ---- opening and closing ---- */

static void open_all(void *arg) {
  fixture *f = arg;
  tn__devices_open(&f->c);
  tn__cache_open(&f->c.cache, &f->c.mem, f->cache);
  f->c.pool = tn__pool_open(&f->c.mem, 2);
  assert_int_equal(tn__cuda_open(&f->c, 0), 2);
  f->d = tn__device_get(&f->c, 0);
}

static void open_cuda(fixture *f, const char *cache) {
  tn_status status;
  memset(f, 0, sizeof *f);
  f->cache = cache;
  assert_true(test_ctx_open(&f->c));
  assert_true(tn__mem_try(&f->c.mem, open_all, f, &status));
}

/* Nothing of the driver's may be left. */
static void close_cuda(fixture *f) {
  if (f->code) f->d->ops->release(f->d, f->code);
  tn__devices_close(&f->c);
  tn__pool_close(f->c.pool);
  tn__cache_close(&f->c.cache);
  assert_int_equal(test_ctx_close(&f->c), 0);
  assert_int_equal(fake->contexts, 0);
  assert_int_equal(fake->streams, 0);
  assert_int_equal(fake->events, 0);
  assert_int_equal(fake->modules, 0);
  assert_int_equal(fake->graphs, 0);
  assert_int_equal(fake->execs, 0);
  assert_int_equal(fake->pinned, 0);
  assert_int_equal(fake->memory, 0);
}

static int setup(void **state) {
  static fixture f;
  *state = &f;
  fake = fake_open(true);
  return fake ? 0 : -1;
}

static void test_listing(void **state) {
  fixture *f = *state;
  open_cuda(f, "");
  assert_string_equal(f->d->name, "cuda:0");
  assert_non_null(strstr(f->d->text, "Fake One, sm_90, 0.1 GiB, 132 multiprocessors; CUDA 13.0"));
  assert_string_equal(tn__device_get(&f->c, 1)->name, "cuda:1");
  assert_int_equal(f->d->target.group, 1024);
  assert_int_equal(f->d->target.units, 132);
  assert_int_equal(f->d->target.shared, 232448 - 1024);
  assert_string_equal(tn__cuda_missing(), "");
  assert_int_equal(fake->contexts, 0); /* looking makes none */
  assert_int_equal(f->d->ops->sync(f->d), TN_OK);
  assert_int_equal(fake->contexts, 0);
  close_cuda(f);
}

/* ---- memory and transfers ---- */

static void upload(void *arg) {
  fixture *f = arg;
  f->d->ops->upload(f->d, f->mem, f->host, f->size);
}

static void download(void *arg) {
  fixture *f = arg;
  f->d->ops->download(f->d, f->host, f->mem, f->size);
}

static tn_status try(fixture *f, void (*fn)(void *)) {
  tn_status status = TN_OK;
  tn_clear_error(&f->c);
  tn__mem_try(&f->c.mem, fn, f, &status);
  return status;
}

/* Uploads copies of `host` one after the other from memory that changes at once, then reads all back. */
static void check_transfers(fixture *f, size_t size, size_t count) {
  char *dev = f->d->ops->alloc(f->d, size * count + 1), *want = malloc(size * count + 1),
       *got = calloc(size * count + 1, 1), *once = malloc(size + 1);
  assert_non_null(dev);
  for (size_t i = 0; i < count; i++) {
    for (size_t b = 0; b < size; b++) once[b] = want[i * size + b] = (char)(b * 31 + b / 1000 + i * 7);
    f->mem = dev + i * size;
    f->host = once;
    f->size = size;
    assert_int_equal(try(f, upload), TN_OK);
    memset(once, 0x55, size);
  }
  for (int again = 0; again < 2; again++) {
    f->mem = dev;
    f->host = got;
    f->size = size * count;
    assert_int_equal(try(f, download), TN_OK);
    assert_memory_equal(got, want, size * count);
    memset(got, 0, size * count);
  }
  f->d->ops->free(f->d, dev, size * count + 1);
  free(want);
  free(got);
  free(once);
}

static void test_transfers(void **state) {
  fixture *f = *state;
  static const size_t sizes[][2] = {{0, 1},
                                    {1, 1},
                                    {4, 3000},
                                    {63, 5},
                                    {777, 5000},
                                    {1 << 20, 1},
                                    {(1 << 20) - 1, 3},
                                    {(1 << 20) + 1, 9},
                                    {(5 << 20) + 12345, 2}};
  open_cuda(f, "");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) check_transfers(f, sizes[i][0], sizes[i][1]);
  close_cuda(f);
}

static void fetch(void *arg) {
  fixture *f = arg;
  tn__device_copy(tn__device_get(&f->c, 1), f->host, f->d, f->mem, f->size);
}

/* From one GPU to another, without the host. */
static void test_fetch(void **state) {
  fixture *f = *state;
  enum { SIZE = 100003 };
  static char sent[SIZE], got[SIZE];
  for (int i = 0; i < SIZE; i++) sent[i] = (char)(i * 13 + i / 999);
  open_cuda(f, "");
  tn__device *d = tn__device_get(&f->c, 1);
  char *here = f->d->ops->alloc(f->d, SIZE), *there = d->ops->alloc(d, SIZE);
  *f = (fixture){.c = f->c, .d = f->d, .mem = here, .host = sent, .size = SIZE};
  assert_int_equal(try(f, upload), TN_OK);
  f->host = there;
  fake->peers = 0;
  assert_int_equal(try(f, fetch), TN_OK);
  f->size = 0;
  assert_int_equal(try(f, fetch), TN_OK);
  assert_int_equal(fake->peers, 1);
  f->d->ops->free(f->d, here, SIZE); /* while it may be under way */
  *f = (fixture){.c = f->c, .d = d, .mem = there, .host = got, .size = SIZE};
  assert_int_equal(try(f, download), TN_OK);
  assert_memory_equal(got, sent, SIZE);
  d->ops->free(d, there, SIZE);
  close_cuda(f);
}

static void make_buffer(void *arg) {
  fixture *f = arg;
  f->mem = tn__buffer_new(f->d, f->size);
}

static void test_out_of_memory(void **state) {
  fixture *f = *state;
  char text[64];
  for (fake->no_pools = 0; fake->no_pools < 2; fake->no_pools++) {
    open_cuda(f, "");
    f->size = (size_t)40 << 20;
    assert_int_equal(try(f, make_buffer), TN_OK);
    tn__buffer *first = f->mem;
    assert_int_equal(try(f, make_buffer), TN_ENOMEM);
    snprintf(text, sizeof text, "for a buffer of 41943040 bytes: %zu bytes free, 41943040", fake->limit - fake->memory);
    assert_non_null(strstr(tn_last_error(&f->c)->text, text));
    /* a freed block of another size goes back to the driver first, which has it only when the stream is done */
    tn__buffer_drop(first);
    f->size = (size_t)50 << 20;
    assert_int_equal(try(f, make_buffer), TN_OK);
    tn__buffer_drop(f->mem);
    f->c.mem.limit = (size_t)60 << 20;
    f->size = (size_t)64 << 20;
    assert_int_equal(try(f, make_buffer), TN_ENOMEM);
    close_cuda(f);
  }
  fake->no_pools = 0;
}

/* ---- kernels ---- */

/* Its text is real, what it does is the fake driver's: b0[i] += i for `iota`. */
static lin *make_kernel(tn_ctx *c, const char *name, int64_t shared, int group) {
  lin *l = lin_new(c, name);
  tn_node *out = lin_buf(l, TN_I64, true), *n = lin_var(l, "n", 0, 1 << 20);
  tn_node *rounds = lin_op2(l, OP_IDIV, lin_op2(l, OP_ADD, n, tn__int(c, 31)), tn__int(c, 32));
  tn_node *r = lin_range(l, rounds, AX_GLOBAL, 0);
  lin_store(l, OP_STOREADD, out, r, lin_add(l, tn__cast(c, r, TN_I64)), NULL);
  lin_end(l, r);
  l->k.shared = shared;
  l->k.part[0].group = group;
  return l;
}

static void compile_all(void *arg) {
  fixture *f = arg;
  tn__kernel *k[3];
  for (uint32_t i = 0; i < f->n; i++) k[i] = &f->l[i]->k;
  f->code = f->d->ops->compile(f->d, k, f->n);
}

static tn_status compile(fixture *f, const char *name, int64_t shared) {
  f->n = 1;
  f->l[0] = make_kernel(&f->c, name, shared, 64);
  if (f->code) f->d->ops->release(f->d, f->code);
  f->code = NULL;
  return try(f, compile_all);
}

static void run_iota(fixture *f, int64_t n) {
  static int64_t out[3000];
  void *dev = f->d->ops->alloc(f->d, sizeof out);
  memset(out, 0, sizeof out);
  f->mem = dev;
  f->host = out;
  f->size = sizeof out;
  assert_int_equal(try(f, upload), TN_OK);
  assert_int_equal(f->d->ops->launch(f->d, f->code, 0, &dev, &f->size, &n), TN_OK);
  assert_int_equal(try(f, download), TN_OK);
  for (int64_t i = 0; i < 3000; i++) assert_int_equal(out[i], i < n ? i : 0);
  f->d->ops->free(f->d, dev, sizeof out);
}

static void test_launch(void **state) {
  fixture *f = *state;
  open_cuda(f, "");
  assert_int_equal(compile(f, "iota", 100), TN_OK);
  int before = fake->launches;
  run_iota(f, 0);
  assert_int_equal(fake->launches, before); /* no iterations: no launch */
  run_iota(f, 1);
  assert_int_equal(fake->grid, 1);
  run_iota(f, 2999);
  assert_int_equal(fake->grid, 94);
  assert_int_equal(fake->threads, 64);
  assert_int_equal(fake->shared, 100);
  assert_int_equal(fake->most_shared, 0);
  f->d->ops->release(f->d, f->code);
  f->l[0]->k.part[0].blocks = 40; /* so many are worth starting */
  assert_int_equal(try(f, compile_all), TN_OK);
  run_iota(f, 2999);
  assert_int_equal(fake->grid, 40);
  assert_int_equal(fake->preferred_shared, 0);
  run_iota(f, 1);
  assert_int_equal(fake->grid, 1);
  f->d->ops->release(f->d, f->code);
  f->l[0]->k.part[0].leaves_room = true; /* to what may take shared memory */
  assert_int_equal(try(f, compile_all), TN_OK);
  assert_int_equal(fake->preferred_shared, 50);
  assert_int_equal(compile(f, "iota", 100000), TN_OK); /* more than a kernel gets without asking */
  assert_int_equal(fake->most_shared, 100000);
  assert_int_equal(compile(f, "iota", 300000), TN_ECOMPILE);
  assert_non_null(strstr(tn_last_error(&f->c)->text, "needs 300000 bytes of shared memory; cuda:0 has 231424"));
  close_cuda(f);
}

static void test_compile_error(void **state) {
  fixture *f = *state;
  open_cuda(f, "");
  assert_int_equal(compile(f, "mistake", 0), TN_ECOMPILE);
  assert_non_null(strstr(tn_last_error(&f->c)->text, "mistake.cu(7): error: a mistake|1 error"));
  fake->bad_module = 1;
  assert_int_equal(compile(f, "iota", 0), TN_ERUN);
  assert_non_null(strstr(tn_last_error(&f->c)->text, "loading compiled kernels"));
  assert_int_equal(compile(f, "iota", 0), TN_OK);
  close_cuda(f);
}

static void test_cache(void **state) {
  fixture *f = *state;
  char dir[200];
  snprintf(dir, sizeof dir, "%s", test_path("cache"));
  for (int round = 0; round < 4; round++) {
    open_cuda(f, dir);
    fake->bad_module = round == 2; /* what is in the cache does not load: it is compiled again */
    assert_int_equal(compile(f, "iota", 0), TN_OK);
    assert_int_equal(f->c.stats.kernels_compiled, round == 0 || round == 2);
    assert_int_equal(f->c.stats.kernels_cached, round == 1 || round == 3);
    run_iota(f, 40);
    close_cuda(f);
  }
  test_remove_files();
}

/* What is urgent goes before other work of its graph, and only there. */
static void test_urgent(void **state) {
  fixture *f = *state;
  int64_t out[4] = {0}, n = 4;
  static const bool early[2];
  static const int urgent[][2] = {{0, 0}, {0, 1}, {TN__MOST_URGENT, 1}}, priority[] = {0, -2, -5};
  open_cuda(f, "");
  assert_int_equal(compile(f, "iota", 0), TN_OK);
  void *dev = f->d->ops->alloc(f->d, sizeof out);
  size_t size = sizeof out;
  for (size_t row = 0; row < sizeof urgent / sizeof *urgent; row++) {
    assert_int_equal(f->d->ops->launch(f->d, f->code, 0, &dev, &size, &n), TN_OK);
    assert_int_equal(fake->priority, 0);
    assert_int_equal(f->d->ops->record(f->d), TN_OK);
    for (uint32_t i = 0; i < 2; i++) {
      assert_int_equal(f->d->ops->after(f->d, i, (uint32_t[]){0}, i, early, urgent[row][i]), TN_OK);
      assert_int_equal(f->d->ops->launch(f->d, f->code, 0, &dev, &size, &n), TN_OK);
      assert_int_equal(fake->priority, priority[urgent[row][i]]);
    }
    tn__recording *r = f->d->ops->recorded(f->d);
    assert_non_null(r);
    assert_int_equal(fake->ordered, row > 0);
    assert_int_equal(f->d->ops->replay(f->d, r), TN_OK);
    f->d->ops->forget(f->d, r);
  }
  f->d->ops->free(f->d, dev, sizeof out);
  close_cuda(f);
}

static void test_recording(void **state) {
  fixture *f = *state;
  int64_t out[10] = {0}, n = 10;
  open_cuda(f, "");
  assert_int_equal(compile(f, "iota", 0), TN_OK);
  void *dev = f->d->ops->alloc(f->d, sizeof out);
  f->mem = dev;
  f->host = out;
  f->size = sizeof out;
  assert_int_equal(try(f, upload), TN_OK);
  assert_int_equal(f->d->ops->record(f->d), TN_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(f->d->ops->launch(f->d, f->code, 0, &dev, &f->size, &n), TN_OK);
  assert_int_equal(try(f, upload), TN_ESTATE);
  tn__recording *r = f->d->ops->recorded(f->d);
  assert_non_null(r);
  assert_int_equal(try(f, download), TN_OK);
  for (int64_t i = 0; i < n; i++) assert_int_equal(out[i], 0); /* written down only */
  for (int i = 0; i < 5; i++) assert_int_equal(f->d->ops->replay(f->d, r), TN_OK);
  assert_int_equal(try(f, download), TN_OK);
  for (int64_t i = 0; i < n; i++) assert_int_equal(out[i], 15 * i);
  f->d->ops->forget(f->d, r);
  tn_clear_error(&f->c);
  assert_null(f->d->ops->recorded(f->d)); /* nothing was begun */
  assert_int_equal(tn_last_error(&f->c)->status, TN_ERUN);
  f->d->ops->free(f->d, dev, sizeof out);
  close_cuda(f);
}

static void test_lost(void **state) {
  fixture *f = *state;
  int64_t n = 10;
  int resets = fake->resets;
  open_cuda(f, "");
  assert_int_equal(compile(f, "fault", 0), TN_OK);
  void *dev = f->d->ops->alloc(f->d, 80);
  /* it shows when somebody waits */
  assert_int_equal(f->d->ops->launch(f->d, f->code, 0, &dev, (size_t[]){80}, &n), TN_OK);
  tn_clear_error(&f->c);
  assert_int_equal(f->d->ops->sync(f->d), TN_ERUN);
  const char *said = tn_last_error(&f->c)->text;
  assert_non_null(strstr(
      said, "cuda:0: waiting for the device: an illegal memory access was encountered (CUDA_ERROR_ILLEGAL_ADDRESS)"));
  assert_non_null(strstr(said, "fault was started last"));
  for (int i = 0; i < 2; i++) {
    f->size = 8;
    assert_int_equal(i ? try(f, upload) : f->d->ops->sync(f->d), TN_EDEVICE);
    if (i) assert_non_null(strstr(tn_last_error(&f->c)->text, "cuda:0 is lost since an earlier error"));
    assert_null(f->d->ops->alloc(f->d, 100));
  }
  f->d->ops->free(f->d, dev, 80);
  f->d->ops->release(f->d, f->code);
  f->code = NULL;
  tn__devices_close(&f->c);
  tn__pool_close(f->c.pool);
  assert_int_equal(test_ctx_close(&f->c), 0);
  assert_int_equal(fake->resets, resets + 1);
  open_cuda(f, ""); /* and all is well again */
  assert_int_equal(compile(f, "iota", 0), TN_OK);
  run_iota(f, 10);
  close_cuda(f);
}

/* ---- products ---- */

typedef struct case_ {
  int64_t m, n, k, batch;
  bool ta, tb, shared_b, wide;
  double beta;
  bool row;
  tn__after after;
} case_;

static void check_product(fixture *f, const case_ *t) {
  int64_t pad = t->wide ? 3 : 0;
  tn__product g = {.dtype = TN_F64,
                   .trans_a = t->ta,
                   .trans_b = t->tb,
                   .m = t->m,
                   .n = t->n,
                   .k = t->k,
                   .batch = t->batch,
                   .beta = t->beta};
  g.lda = (t->ta ? t->m : t->k) + pad;
  g.ldb = (t->tb ? t->k : t->n) + pad;
  g.ldc = t->n + pad;
  g.stride_a = (t->ta ? t->k : t->m) * g.lda;
  g.stride_b = t->shared_b ? 0 : (t->tb ? t->n : t->k) * g.ldb;
  g.stride_c = t->m * g.ldc;
  size_t na = (size_t)(g.stride_a * t->batch), nb = (size_t)((t->tb ? t->n : t->k) * g.ldb * t->batch),
         nc = (size_t)(g.stride_c * t->batch);
  double *a = calloc(na + 1, 8), *b = calloc(nb + 1, 8), *c = calloc(nc + 1, 8), *want = calloc(nc + 1, 8);
  double *row = calloc((size_t)t->n + 1, 8);
  for (int64_t i = 0; i < t->n; i++) row[i] = (double)(i % 7) * 3 - 9;
  for (size_t i = 0; i < na; i++) a[i] = (double)(i % 17) - 8;
  for (size_t i = 0; i < nb; i++) b[i] = (double)(i % 13) - 6;
  for (size_t i = 0; i < nc; i++) want[i] = c[i] = (double)(i % 5);
  for (int64_t p = 0; p < t->batch; p++)
    for (int64_t i = 0; i < t->m; i++)
      for (int64_t j = 0; j < t->n; j++) {
        double sum = 0, *to = &want[p * g.stride_c + i * g.ldc + j];
        for (int64_t x = 0; x < t->k; x++)
          sum += a[p * g.stride_a + (t->ta ? x * g.lda + i : i * g.lda + x)] *
                 b[p * g.stride_b + (t->tb ? j * g.ldb + x : x * g.ldb + j)];
        *to = sum + t->beta * *to + (t->row ? row[j] : 0);
        if (t->after == TN__AFTER_RELU && *to < 0) *to = 0;
      }
  if (t->m == 1) g.lda = t->ta ? g.lda : 1; /* a single row has no distance to the next */
  g.a = a; /* the fake driver's memory is the host's */
  g.b = b;
  g.c = c;
  g.row = t->row ? row : NULL;
  g.after = t->after;
  for (int again = 0; again < 2 && t->beta == 0; again++) assert_int_equal(f->d->ops->gemm(f->d, &g), TN_OK);
  if (t->beta != 0) assert_int_equal(f->d->ops->gemm(f->d, &g), TN_OK);
  assert_int_equal(f->d->ops->sync(f->d), TN_OK);
  assert_memory_equal(c, want, nc * 8);
  free(a);
  free(b);
  free(c);
  free(row);
  free(want);
}

static void test_products(void **state) {
  fixture *f = *state;
  static const int64_t sizes[][4] = {{1, 1, 1, 1}, {2, 3, 4, 1}, {5, 1, 7, 2}, {1, 6, 3, 1}, {4, 4, 4, 3},
                                     {0, 3, 2, 1}, {3, 0, 2, 1}, {3, 2, 0, 2}, {3, 2, 4, 0}};
  open_cuda(f, "");
  assert_true(f->d->ops->has_gemm(f->d, TN_F32));
  assert_true(f->d->ops->has_gemm(f->d, TN_BF16));
  assert_false(f->d->ops->has_gemm(f->d, TN_I32));
  for (int round = 0; round < 3; round++) /* more shapes than some tables hold, and all of them again */
    for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
      for (int bits = 0; bits < 32; bits++) {
        const int64_t *s = sizes[i];
        case_ t = {.m = s[0],
                   .n = s[1],
                   .k = s[2],
                   .batch = s[3],
                   .ta = bits & 1,
                   .tb = bits & 2,
                   .shared_b = bits & 4,
                   .wide = bits & 8,
                   .beta = bits & 16 ? s[2] ? 0.5 : 1 : 0};
        check_product(f, &t);
        t.row = (bits + round) % 2;
        t.after = (bits + round) / 2 % 2 ? TN__AFTER_RELU : TN__AFTER_NOTHING;
        if (s[2] > 0 && s[3] == 1) check_product(f, &t);
      }
  tn__product g = {.dtype = TN_F32, .m = (int64_t)1 << 31, .n = 1, .k = 1, .batch = 1};
  assert_int_equal(f->d->ops->gemm(f->d, &g), TN_ENOTSUP);
  assert_non_null(strstr(tn_last_error(&f->c)->text, "2147483648 is more than cuBLASLt takes"));
  close_cuda(f);
}

static bool is_loaded(const char *library) {
  char path[600];
  snprintf(path, sizeof path, "%s/%s", getenv("CUDA_HOME"), library);
  void *handle = dlopen(path, RTLD_NOW | RTLD_NOLOAD);
  if (handle) dlclose(handle);
  return handle;
}

/* A layer with its gradient and step; true, if the library of products is there afterwards. */
static bool layer_loads(tn_ctx *c, tn_dim rows, tn_dim in, tn_dim out) {
  tn_scope(c) {
    tn_tensor *x = tn_zeros(c, TN_F32, (tn_dim[]){rows, in}, 2), *w = tn_zeros(c, TN_F32, (tn_dim[]){in, out}, 2),
              *grad[1];
    assert_int_equal(tn_realize((tn_tensor *[]){x, w}, 2), TN_OK);
    tn_tensor *loss = tn_mean(tn_relu(tn_matmul(x, w)), NULL, 0, false);
    assert_int_equal(tn_grad(loss, 1, &w, grad), TN_OK);
    tn_tensor *made[] = {loss, tn_sub(w, grad[0])};
    assert_int_equal(tn_realize(made, 2), TN_OK);
  }
  return is_loaded("libcublasLt.so.13");
}

/* It takes longer to load than a small network's first step takes without it. */
static void test_library_when_wanted(void **state) {
  (void)state;
  fake->any_function = 1;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cuda:0", .cache_dir = ""});
  assert_non_null(c);
  assert_false(layer_loads(c, 64, 784, 128));
  assert_true(layer_loads(c, 512, 640, 512));
  tn_ctx_close(c);
  fake->any_function = fake->most_shared = 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_library_when_wanted), /* before anything else loads it */
      cmocka_unit_test(test_listing),
      cmocka_unit_test(test_transfers),
      cmocka_unit_test(test_fetch),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_launch),
      cmocka_unit_test(test_compile_error),
      cmocka_unit_test(test_cache),
      cmocka_unit_test(test_recording),
      cmocka_unit_test(test_urgent),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_lost),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
