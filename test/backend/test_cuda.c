/* The CUDA device on a real GPU; skipped, with the reason, where there is none (test_cuda_host.c and test_nvrtc.c test
 * what needs none). */
#include "backend/cuda/cuda.h"
#include "backend/ref/ref.h"
#include "ir/eval.h"
#include "support/ctx.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include <math.h>
#include <pthread.h>
#include <setjmp.h>
#include <sys/wait.h>
#include <unistd.h>
#include <stdarg.h>
#include <cmocka.h>
#include "support/linear.h"

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

/* ---- the device by itself ---- */

typedef struct fixture {
  tn_ctx c;
  tn__device *d, *ref;
  lin *l;
  tn__code *code, *ref_code;
  void *mem, *host;
  size_t size;
} fixture;

static void need_gpu(void) {
  if (!*tn__cuda_missing()) return;
  printf("no CUDA device: %s\n", tn__cuda_missing());
  skip();
}

static void open_all(void *arg) {
  fixture *f = arg;
  tn__devices_open(&f->c);
  tn__cache_open(&f->c.cache, &f->c.mem, getenv("TENET_CACHE"));
  f->c.pool = tn__pool_open(&f->c.mem, 4);
  assert_true(tn__cuda_open(&f->c, 0) > 0);
  f->d = tn__device_get(&f->c, 0);
  tn__ref_open(&f->c, "ref");
  f->ref = tn__device_get(&f->c, tn__device_count(&f->c) - 1);
}

static void open_cuda(fixture *f) {
  tn_status status;
  memset(f, 0, sizeof *f);
  assert_true(test_ctx_open(&f->c));
  assert_true(tn__mem_try(&f->c.mem, open_all, f, &status));
}

static void release(fixture *f) {
  if (f->code) f->d->ops->release(f->d, f->code);
  if (f->ref_code) f->ref->ops->release(f->ref, f->ref_code);
  f->code = f->ref_code = NULL;
}

static void close_cuda(fixture *f) {
  release(f);
  tn__devices_close(&f->c);
  tn__pool_close(f->c.pool);
  tn__cache_close(&f->c.cache);
  assert_int_equal(test_ctx_close(&f->c), 0);
}

static tn_status try(fixture *f, void (*fn)(void *)) {
  tn_status status = TN_OK;
  tn_clear_error(&f->c);
  tn__mem_try(&f->c.mem, fn, f, &status);
  return status;
}

static void upload(void *arg) {
  fixture *f = arg;
  f->d->ops->upload(f->d, f->mem, f->host, f->size);
}

static void download(void *arg) {
  fixture *f = arg;
  f->d->ops->download(f->d, f->host, f->mem, f->size);
}

static void copy(fixture *f, void (*how)(void *), void *dev, const void *host, size_t size) {
  f->mem = dev;
  f->host = (void *)(uintptr_t)host;
  f->size = size;
  if (try(f, how)) fail_msg("%s", tn_last_error(&f->c)->text);
}

static void compile_both(void *arg) {
  fixture *f = arg;
  tn__kernel *k = &f->l->k;
  f->code = f->d->ops->compile(f->d, &k, 1);
  f->ref_code = f->ref->ops->compile(f->ref, &k, 1);
}

static void test_transfers(void **state) {
  static const size_t sizes[] = {
      0, 1, 3, 4096, 65537, (1 << 20) - 1, (1 << 20) + 1, (37 << 20) + 11, (size_t)300 << 20};
  fixture f;
  (void)state;
  need_gpu();
  open_cuda(&f);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t n = sizes[i];
    unsigned char *a = malloc(n + 1), *b = calloc(n + 1, 1);
    char *dev = f.d->ops->alloc(f.d, n + 64);
    assert_non_null(dev);
    assert_int_equal((uintptr_t)dev % 64, 0);
    for (size_t k = 0; k < n; k++) a[k] = (unsigned char)(k * 31 + k / 251);
    copy(&f, upload, dev, a, n);
    if (n > 10) { /* small ones, from memory that changes at once */
      for (size_t k = 0; k < 3000 && k < n; k++) {
        unsigned char x = a[k] = (unsigned char)(k % 7);
        copy(&f, upload, dev + k, &x, 1);
        x = 99;
      }
    }
    copy(&f, download, dev, b, n);
    assert_memory_equal(a, b, n);
    f.d->ops->free(f.d, dev, n + 64);
    free(a);
    free(b);
  }
  close_cuda(&f);
}

/* y[i] = -2.75 x[i] + y[i] by groups of 64 threads, and the sum of each group's x. */
static lin *saxpy_kernel(tn_ctx *c) {
  lin *l = lin_new(c, "saxpy");
  tn_node *y = lin_buf(l, TN_F32, true), *sums = lin_buf(l, TN_F32, true), *x = lin_buf(l, TN_F32, false),
          *n = lin_var(l, "n", 0, 1 << 20), *width = tn__int(c, 64);
  tn_node *rounds = lin_op2(l, OP_IDIV, lin_op2(l, OP_ADD, n, tn__int(c, 63)), width),
          *r = lin_range(l, rounds, AX_GLOBAL, 0);
  tn_node *acc = lin_acc(l, tn__const_num(c, TN_F32, 0), 0, 64), *base = lin_op2(l, OP_MUL, r, width),
          *u = lin_range(l, width, AX_UPCAST, 1);
  tn_node *i = lin_op2(l, OP_ADD, base, u), *inside = lin_op2(l, OP_LT, i, n), *vx = lin_load(l, x, i, inside),
          *vy = lin_load(l, y, i, inside);
  lin_store(l, OP_STORE, y, i, lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, tn__const_num(c, TN_F32, -2.75), vx), vy), inside);
  lin_setacc(l, OP_ADD, acc, vx, u);
  tn_node *end = lin_end(l, u);
  lin_store(l, OP_STORE, sums, r, lin_getacc(l, OP_ADD, acc, end, NULL), NULL);
  lin_end(l, r);
  l->k.part[0].group = 64;
  return l;
}

static void test_kernel_and_recording(void **state) {
  enum { MOST = 100000, SUMS = MOST / 64 + 1 };
  fixture f;
  (void)state;
  need_gpu();
  open_cuda(&f);
  f.l = saxpy_kernel(&f.c);
  if (try(&f, compile_both)) fail_msg("%s", tn_last_error(&f.c)->text);
  float *x = calloc(MOST, 4), *y = calloc(MOST, 4), *s = calloc(SUMS, 4), *got = calloc(MOST, 4),
        *got_s = calloc(SUMS, 4);
  void *dev[] = {f.d->ops->alloc(f.d, MOST * 4), f.d->ops->alloc(f.d, SUMS * 4), f.d->ops->alloc(f.d, MOST * 4)},
       *host[] = {y, s, x};
  const size_t bytes[] = {MOST * 4, SUMS * 4, MOST * 4};
  static const int64_t sizes[] = {0, 1, 63, 64, 65, 1000, MOST};
  for (int i = 0; i < MOST; i++) x[i] = (float)(i * 3 % 97) * 0.1f, y[i] = (float)(i % 13);
  for (size_t k = 0; k < sizeof sizes / sizeof *sizes; k++) {
    for (int b = 0; b < 3; b++) copy(&f, upload, dev[b], host[b], bytes[b]);
    assert_int_equal(f.d->ops->launch(f.d, f.code, 0, dev, bytes, &sizes[k]), TN_OK);
    assert_int_equal(f.ref->ops->launch(f.ref, f.ref_code, 0, host, bytes, &sizes[k]), TN_OK);
    copy(&f, download, dev[0], got, bytes[0]);
    copy(&f, download, dev[1], got_s, bytes[1]);
    assert_memory_equal(got, y, bytes[0]); /* bit for bit, sums of lanes too: their order is fixed */
    assert_memory_equal(got_s, s, bytes[1]);
  }
  assert_int_equal(f.d->ops->record(f.d), TN_OK);
  for (int i = 0; i < 3; i++) assert_int_equal(f.d->ops->launch(f.d, f.code, 0, dev, bytes, &sizes[5]), TN_OK);
  tn__recording *r = f.d->ops->recorded(f.d);
  if (!r) fail_msg("%s", tn_last_error(&f.c)->text);
  for (int i = 0; i < 4; i++) assert_int_equal(f.d->ops->replay(f.d, r), TN_OK);
  for (int i = 0; i < 12; i++)
    assert_int_equal(f.ref->ops->launch(f.ref, f.ref_code, 0, host, bytes, &sizes[5]), TN_OK);
  copy(&f, download, dev[0], got, bytes[0]);
  assert_memory_equal(got, y, bytes[0]);
  f.d->ops->forget(f.d, r);
  for (int b = 0; b < 3; b++) f.d->ops->free(f.d, dev[b], bytes[b]);
  close_cuda(&f);
  free(x), free(y), free(s), free(got), free(got_s);
}

static void test_bad_source(void **state) {
  fixture f;
  (void)state;
  need_gpu();
  open_cuda(&f);
  f.l = saxpy_kernel(&f.c);
  f.l->k.name = "two words"; /* no identifier */
  assert_int_equal(try(&f, compile_both), TN_ECOMPILE);
  const char *said = tn_last_error(&f.c)->text;
  if (!strstr(said, "NVRTC failed") || !strstr(said, "two words.cu(") || !strstr(said, "error: ")) fail_msg("%s", said);
  close_cuda(&f);
}

/* ---- products ---- */

static void check_product(fixture *f, int dtype, const int64_t *size, int bits) {
  bool ta = bits & 1, tb = bits & 2, shared = bits & 4;
  int64_t m = size[0], n = size[1], k = size[2], batch = size[3], pad = bits & 8 ? 3 : 0;
  tn__product g = {
      .dtype = dtype, .trans_a = ta, .trans_b = tb, .m = m, .n = n, .k = k, .batch = batch, .beta = bits & 16 ? 1 : 0};
  g.lda = (ta ? m : k) + pad;
  g.ldb = (tb ? k : n) + pad;
  g.ldc = n + pad;
  g.stride_a = (ta ? k : m) * g.lda;
  g.stride_b = shared ? 0 : (tb ? n : k) * g.ldb;
  g.stride_c = m * g.ldc;
  size_t es = tn__size_of(dtype), count[3] = {(size_t)(g.stride_a * batch), (size_t)((tb ? n : k) * g.ldb * batch),
                                              (size_t)(g.stride_c * batch)};
  char *host[3], *dev[3], *got = malloc(count[2] * es + 1);
  for (int b = 0; b < 3; b++) {
    host[b] = calloc(count[b] + 1, es);
    dev[b] = f->d->ops->alloc(f->d, count[b] * es + 64);
    for (size_t i = 0; i < count[b]; i++)
      tn__eval_store(dtype, host[b] + i * es, tn__eval_from_double(dtype, (double)(i * 7 % 17) / 8 - 1));
    copy(f, upload, dev[b], host[b], count[b] * es);
  }
  g.a = dev[0], g.b = dev[1], g.c = dev[2];
  if (f->d->ops->gemm(f->d, &g)) fail_msg("%s", tn_last_error(&f->c)->text);
  copy(f, download, dev[2], got, count[2] * es);
#define AT(b, i) tn__eval_to_double(dtype, tn__eval_load(dtype, host[b] + (size_t)(i) * es))
  double unit = dtype == TN_BF16  ? 1. / 256
                : dtype == TN_F16 ? 1. / 2048
                : dtype == TN_F32 ? 6e-8 * (double)(k + 1)
                                  : 1.2e-16 * (double)(k + 1);
  for (int64_t p = 0; p < batch; p++)
    for (int64_t i = 0; i < m; i++)
      for (int64_t j = 0; j < g.ldc; j++) {
        int64_t to = p * g.stride_c + i * g.ldc + j;
        double sum = j >= n || g.beta == 1 ? AT(2, to) : 0, scale = 1;
        for (int64_t x = 0; x < k && j < n; x++) {
          double term = AT(0, p * g.stride_a + (ta ? x * g.lda + i : i * g.lda + x)) *
                        AT(1, p * g.stride_b + (tb ? j * g.ldb + x : x * g.ldb + j));
          sum += term;
          scale += fabs(term);
        }
        double have = tn__eval_to_double(dtype, tn__eval_load(dtype, got + (size_t)to * es)),
               near = j >= n ? 0 : unit * (scale + fabs(sum));
        if (!(fabs(have - sum) <= near))
          fail_msg("dtype %d %dx%dx%d bits %d at %d %d: %g, not %g", dtype, (int)m, (int)n, (int)k, bits, (int)i,
                   (int)j, have, sum);
      }
  for (int b = 0; b < 3; b++) {
    f->d->ops->free(f->d, dev[b], count[b] * es + 64);
    free(host[b]);
  }
  free(got);
}

static void test_products(void **state) {
  static const int dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
  static const int64_t sizes[][4] = {{1, 1, 1, 1}, {17, 3, 5, 2}, {64, 10, 128, 1}, {1, 33, 7, 3},    {33, 1, 65, 1},
                                     {0, 4, 4, 1}, {4, 0, 4, 1},  {4, 5, 0, 2},     {130, 70, 257, 1}};
  fixture f;
  (void)state;
  need_gpu();
  open_cuda(&f);
  if (!f.d->ops->has_gemm(f.d, TN_F32)) {
    printf("no cuBLASLt: products are not tested\n");
    close_cuda(&f);
    skip();
  }
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++)
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int bits = 0; bits < 32; bits++) check_product(&f, dtypes[d], sizes[s], bits);
  close_cuda(&f);
}

/* ---- through the library ---- */

static tn_ctx *open_ctx(tn_mode mode) {
  need_gpu();
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cuda:0", .mode = mode});
  assert_non_null(c);
  return c;
}

static void fuzz(tn_mode mode, uint64_t first, uint64_t count) {
  static const graph_size size = {.nodes = 16, .outputs = 3, .longest = 150, .elements = 3000};
  tn_ctx *c = open_ctx(mode);
  int bad = 0;
  for (uint64_t i = first; i < first + count && bad < 3; i++) {
    char name[64];
    graph_dice d = {.state = i << 8};
    snprintf(name, sizeof name, "cuda:0 mode %d seed %d", (int)mode, (int)i);
    bad += !graph_try(c, &d, &size, name);
  }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

static void test_graphs(void **state) {
  (void)state;
  fuzz(TN_MODE_DEFAULT, 1, 60);
}
static void test_graphs_strict(void **state) {
  (void)state;
  fuzz(TN_MODE_STRICT, 1000, 30);
}

static void test_to(void **state) {
  (void)state;
  tn_ctx *c = open_ctx(TN_MODE_DEFAULT);
  tn_scope(c) {
    float v[1000], got[1000];
    for (int i = 0; i < 1000; i++) v[i] = (float)i * 0.5f;
    tn_tensor *x = tn_from(c, TN_F32, DIMS(10, 100), v), *there = tn_to(tn_add(x, x), "cpu");
    assert_non_null(there);
    assert_string_equal(tn_device_of(there), "cpu");
    tn_tensor *back = tn_to(tn_add(there, there), "cuda:0");
    assert_int_equal(tn_read(tn_permute(back, (const int[]){1, 0}, 2), got, sizeof got), TN_OK);
    for (int i = 0; i < 1000; i++) assert_true(got[i] == 4 * v[i % 10 * 100 + i / 10]);
    assert_null(tn_add(x, there));
    assert_int_equal(tn_last_error(c)->status, TN_EDEVICE);
    tn_clear_error(c);
  }
  tn_ctx_close(c);
}

/* A row and a function at the end of the library's product, beside the same by kernels of one's own. */
static void test_after(void **state) {
  (void)state;
  need_gpu();
  enum { M = 96, K = 256, N = 136 };
  static float got[2][M * N];
  static const tn_dtype dtypes[] = {TN_F32, TN_F16, TN_BF16};
  for (int t = 0; t < 3; t++)
    for (int form = 0; form < 5; form++) {
      for (int own = 0; own < 2; own++) {
        tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cuda:0", .quiet = 1, .no_library = own});
        assert_non_null(c);
        tn_scope(c) {
          tn_tensor *x = tn_cast(tn_uniform(c, TN_F32, DIMS(M, K), -1, 1), dtypes[t]),
                    *w = tn_cast(tn_uniform(c, TN_F32, DIMS(N, K), -1, 1), dtypes[t]);
          tn_tensor *b = tn_cast(tn_uniform(c, TN_F32, DIMS(N), -4, 4), dtypes[t]);
          tn_realize((tn_tensor *[]){x, w, b}, 3);
          tn_tensor *y = tn_linear(x, w, form == 1 || form == 3 ? NULL : b);
          if (form == 1 || form == 2) y = tn_relu(y);
          if (form > 2) y = tn_gelu_tanh(y);
          assert_int_equal(tn_realize(&y, 1), TN_OK);
          assert_int_equal(tn_read(tn_cast(y, TN_F32), got[own], sizeof got[own]), TN_OK);
        }
        tn_ctx_close(c);
      }
      double eps = dtypes[t] == TN_F32 ? 1e-5 : dtypes[t] == TN_F16 ? 2e-3 : 1.6e-2, most = 0;
      for (int i = 0; i < M * N; i++)
        most = fmax(most, fabs((double)got[0][i] - (double)got[1][i]) / (1 + fabs((double)got[1][i])));
      if (!(most <= eps)) fail_msg("form %d, %s: off by %g", form, tn_dtype_name(dtypes[t]), most);
    }
}

/* From one GPU to another and back, on and on, while the source changes. */
static void test_peers(void **state) {
  (void)state;
  enum { N = 1 << 22 };
  tn_ctx *c = open_ctx(TN_MODE_DEFAULT);
  tn_device_info info;
  bool two = false;
  for (int i = 0; i < tn_device_count(c); i++)
    two |= tn_device_get_info(c, i, &info) == TN_OK && !strcmp(info.name, "cuda:1");
  if (!two) {
    tn_ctx_close(c);
    skip();
  }
  for (int i = 0; i < 20; i++)
    tn_scope(c) {
      double sum = 0;
      tn_tensor *x = tn_full(c, TN_F32, DIMS(N), i), *there = tn_to(x, "cuda:1"),
                *more = tn_to(tn_add(there, there), "cuda:0");
      assert_int_equal(tn_assign(x, tn_full(c, TN_F32, DIMS(N), -1)), TN_OK);
      assert_int_equal(tn_item(tn_sum(more, NULL, 0, false), &sum), TN_OK);
      assert_true(sum == 2. * i * N);
    }
  tn_ctx_close(c);
}

/* What breaks on purpose is nothing for a sanitizer. */
static void skip_faults(void) {
  if (getenv("NO_FAULTS")) skip();
}

static void test_out_of_memory(void **state) {
  (void)state;
  skip_faults();
  tn_ctx *c = open_ctx(TN_MODE_DEFAULT);
  tn_scope(c) {
    tn_tensor *big = tn_full(c, TN_F32, DIMS((tn_dim)1 << 30, 1 << 12), 3);
    assert_int_equal(tn_realize(&big, 1), TN_ENOMEM);
    const char *said = tn_last_error(c)->text;
    if (!strstr(said, "no memory on cuda:0") || !strstr(said, "bytes free") || !strstr(said, "bytes in use"))
      fail_msg("%s", said);
    tn_clear_error(c);
    double sum = 0;
    assert_int_equal(tn_item(tn_sum(tn_full(c, TN_F32, DIMS(1000), 3), NULL, 0, false), &sum), TN_OK);
    assert_true(sum == 3000);
  }
  tn_ctx_close(c);
}

static void *use_alone(void *arg) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cuda:0", .quiet = 1, .threads = 1});
  double sum = 0;
  bool good = c != NULL;
  for (int i = 1; i <= 100 && good; i++)
    tn_scope(c) {
      tn_tensor *x = tn_full(c, TN_F32, DIMS(64, 64), i);
      good = tn_item(tn_sum(tn_matmul(x, x), NULL, 0, false), &sum) == TN_OK && sum == 64. * 64 * 64 * i * i;
    }
  tn_ctx_close(c);
  *(bool *)arg = good;
  return NULL;
}

static void test_two_threads(void **state) {
  pthread_t t[2];
  bool good[2] = {0};
  (void)state;
  need_gpu();
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&t[i], NULL, use_alone, &good[i]), 0);
  for (int i = 0; i < 2; i++) pthread_join(t[i], NULL);
  assert_true(good[0] && good[1]);
}

/* Two contexts of one thread, in turns: what one does is not seen by the other. */
static void test_two_contexts(void **state) {
  tn_ctx *c[2];
  tn_tensor *x[2];
  (void)state;
  for (int k = 0; k < 2; k++) {
    c[k] = open_ctx(TN_MODE_DEFAULT);
    x[k] = tn_full(c[k], TN_F32, DIMS(1000), k);
    assert_int_equal(tn_realize(&x[k], 1), TN_OK);
  }
  for (int i = 1; i <= 50; i++)
    for (int k = 0; k < 2; k++)
      tn_scope(c[k]) {
        double sum = 0;
        assert_int_equal(tn_assign(x[k], tn_add_scalar(x[k], 1 + k)), TN_OK);
        assert_int_equal(tn_item(tn_sum(x[k], NULL, 0, false), &sum), TN_OK);
        assert_true(sum == 1000. * (k + i * (1 + k)));
      }
  tn_ctx_close(c[0]);
  double sum = 0; /* the other one outlives it */
  assert_int_equal(tn_item(tn_sum(x[1], NULL, 0, false), &sum), TN_OK);
  assert_true(sum == 1000. * 101);
  tn_ctx_close(c[1]);
}

static pid_t start_alone(void) {
  pid_t child = fork();
  if (child == 0) {
    execl("/proc/self/exe", "test_cuda", "alone", (char *)NULL);
    _exit(1);
  }
  return child;
}

static void wait_for(pid_t child) {
  int result = 1;
  assert_int_equal(waitpid(child, &result, 0), child);
  assert_int_equal(result, 0);
}

/* On the device at once, while this process holds it, too */
static void test_two_processes(void **state) {
  bool good = false;
  (void)state;
  need_gpu();
  pid_t child[] = {start_alone(), start_alone()};
  use_alone(&good);
  for (int i = 0; i < 2; i++) wait_for(child[i]);
  assert_true(good);
}

/* ---- the end of a device ---- */

static lin *stray_kernel(tn_ctx *c) {
  lin *l = lin_new(c, "stray");
  tn_node *out = lin_buf(l, TN_F32, true), *n = lin_var(l, "n", 0, (int64_t)1 << 50);
  lin_store(l, OP_STORE, out, n, tn__const_num(c, TN_F32, 1), NULL);
  l->k.part[0].group = 32;
  return l;
}

static void test_lost(void **state) {
  fixture f;
  float v = 0;
  int64_t far = (int64_t)1 << 44;
  (void)state;
  skip_faults();
  need_gpu();
  open_cuda(&f);
  f.l = stray_kernel(&f.c);
  if (try(&f, compile_both)) fail_msg("%s", tn_last_error(&f.c)->text);
  void *dev = f.d->ops->alloc(f.d, 64);
  assert_int_equal(f.d->ops->launch(f.d, f.code, 0, &dev, (size_t[]){64}, &far), TN_OK);
  f.mem = dev;
  f.host = &v;
  f.size = 4;
  assert_int_equal(try(&f, download), TN_ERUN);
  const char *said = tn_last_error(&f.c)->text;
  if (!strstr(said, "CUDA_ERROR_ILLEGAL_ADDRESS") || !strstr(said, "stray was started last")) fail_msg("%s", said);
  assert_int_equal(try(&f, download), TN_EDEVICE);
  f.d->ops->free(f.d, dev, 64);
  close_cuda(&f);
  /* Another context works, or says that this takes another process; which then does. */
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cuda:0", .quiet = 1, .threads = 1});
  tn_tensor *x = c ? tn_full(c, TN_F32, DIMS(4), 2) : NULL;
  if (!x || tn_realize(&x, 1) != TN_OK)
    assert_non_null(strstr(c ? tn_last_error(c)->text : "start another", "start another"));
  tn_ctx_close(c);
  wait_for(start_alone());
}

int main(int argc, char **argv) {
  if (argc > 1 && !strcmp(argv[1], "alone")) { /* start_alone */
    bool good;
    use_alone(&good);
    return !good;
  }
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_transfers),
      cmocka_unit_test(test_kernel_and_recording),
      cmocka_unit_test(test_bad_source),
      cmocka_unit_test(test_products),
      cmocka_unit_test(test_graphs),
      cmocka_unit_test(test_graphs_strict),
      cmocka_unit_test(test_to),
      cmocka_unit_test(test_after),
      cmocka_unit_test(test_peers),
      cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_two_threads),
      cmocka_unit_test(test_two_contexts),
      cmocka_unit_test(test_two_processes),
      cmocka_unit_test(test_lost),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
