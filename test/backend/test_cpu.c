/* The CPU device around its kernels: the compiler and its failures, the disk cache, slices, matrix products. */
#include "backend/cpu/compiler.h"
#include "backend/cpu/cpu.h"
#include "support/alone.h"
#include "support/ctx.h"
#include "ir/eval.h"
#include <dirent.h>
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sched.h>
#include <stdio.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>
#include <cmocka.h>
#include "support/linear.h"

typedef struct fixture {
  tn_ctx c;
  tn__device *d;
  const char *cc, *cache;
  int threads;
  lin *l;
  tn__code *code;
} fixture;

static void open_all(void *arg) {
  fixture *f = arg;
  f->c.opt.quiet = 1;
  f->c.opt.cc = f->cc;
  tn__devices_open(&f->c);
  tn__cache_open(&f->c.cache, &f->c.mem, f->cache);
  f->c.pool = tn__pool_open(&f->c.mem, f->threads);
  tn__cpu_open(&f->c);
  f->d = tn__device_get(&f->c, 0);
}

static void open_cpu(fixture *f, const char *cc, const char *cache, int threads) {
  tn_status status;
  memset(f, 0, sizeof *f);
  f->cc = cc;
  f->cache = cache;
  f->threads = threads;
  assert_true(test_ctx_open(&f->c));
  assert_true(tn__mem_try(&f->c.mem, open_all, f, &status));
}

static void close_cpu(fixture *f) {
  if (f->code) f->d->ops->release(f->d, f->code);
  tn__devices_close(&f->c);
  tn__pool_close(f->c.pool);
  tn__cache_close(&f->c.cache);
  assert_int_equal(test_ctx_close(&f->c), 0);
}

/* out[i] = i, and each slice's work once */
static lin *iota_kernel(tn_ctx *c, int64_t grain) {
  lin *l = lin_new(c, "iota");
  tn_node *out = lin_buf(l, TN_I64, true), *r = lin_range(l, lin_var(l, "n", 0, 1 << 20), AX_GLOBAL, 0);
  lin_store(l, OP_STOREADD, out, r, lin_add(l, tn__cast(c, r, TN_I64)), NULL);
  lin_end(l, r);
  l->k.part[0].grain = grain;
  return l;
}

static void compile_iota(void *arg) {
  fixture *f = arg;
  f->l = iota_kernel(&f->c, 10);
  tn__kernel *k = &f->l->k;
  f->code = f->d->ops->compile(f->d, &k, 1);
}

static tn_status compile(fixture *f) {
  tn_status status = TN_OK;
  tn__mem_try(&f->c.mem, compile_iota, f, &status);
  return status;
}

static void check_runs(fixture *f) {
  static int64_t out[2000];
  void *buf[] = {out};
  for (int64_t n = 0; n < 2000; n += n < 100 ? 1 : 271) {
    memset(out, 0, sizeof out);
    assert_int_equal(f->d->ops->launch(f->d, f->code, 0, buf, (size_t[]){(size_t)n * 8}, &n), TN_OK);
    for (int64_t i = 0; i < 2000; i++) assert_int_equal(out[i], i < n ? i : 0);
  }
}

static char *new_dir(char *path) {
  strcpy(path, "/tmp/tenet-test-XXXXXX");
  assert_non_null(mkdtemp(path));
  return path;
}

/* The first entry of a directory that ends in `suffix`; removes all if suffix is NULL. */
static bool find_entry(const char *dir, const char *suffix, char *out, size_t size) {
  DIR *d = opendir(dir);
  bool found = false;
  for (struct dirent *e; d && (e = readdir(d));) {
    if (*e->d_name == '.') continue;
    snprintf(out, size, "%s/%s", dir, e->d_name);
    size_t n = strlen(out), m = suffix ? strlen(suffix) : 0;
    if (!suffix) unlink(out);
    else if (n > m && !strcmp(out + n - m, suffix) && (found = true)) break;
  }
  if (d) closedir(d);
  if (!suffix) rmdir(dir);
  return found;
}

static void write_script(const char *path, const char *text) {
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  fputs(text, file);
  fclose(file);
  assert_int_equal(chmod(path, 0700), 0);
}

static void test_slices(void **state) {
  (void)state;
  for (int threads = 1; threads <= 4; threads++) {
    fixture f;
    open_cpu(&f, getenv("TENET_CC"), "", threads);
    assert_false(f.d->target.interprets);
    assert_int_equal(compile(&f), TN_OK);
    check_runs(&f);
    close_cpu(&f);
  }
}

static void test_cache(void **state) {
  char dir[64], entry[512];
  (void)state;
  new_dir(dir);
  for (int round = 0; round < 3; round++) {
    fixture f;
    if (round == 2) { /* damaged: rebuilt, not trusted */
      assert_true(find_entry(dir, ".so", entry, sizeof entry));
      FILE *file = fopen(entry, "r+");
      assert_non_null(file);
      fseek(file, 2000, SEEK_SET);
      fputs("nonsense", file);
      fclose(file);
    }
    open_cpu(&f, getenv("TENET_CC"), dir, 2);
    assert_int_equal(compile(&f), TN_OK);
    assert_int_equal(f.c.stats.kernels_compiled, round != 1);
    assert_int_equal(f.c.stats.kernels_cached, round == 1);
    check_runs(&f);
    close_cpu(&f);
  }
  find_entry(dir, NULL, entry, sizeof entry);
}

/* A cache directory that takes nothing: kernels run all the same. */
static void test_unusable_cache(void **state) {
  fixture f;
  (void)state;
  open_cpu(&f, getenv("TENET_CC"), "/proc/no/such/place", 2);
  assert_int_equal(compile(&f), TN_OK);
  check_runs(&f);
  close_cpu(&f);
}

/* One on a disk that is really full: likewise.  Mounting takes privileges. */
static void test_full_cache(void **state) {
  char dir[64], path[128];
  fixture f;
  (void)state;
  new_dir(dir);
  bool mounted = !unshare(CLONE_NEWNS) && !mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) &&
                 !mount("tmpfs", dir, "tmpfs", 0, "size=64k");
  if (!mounted) {
    rmdir(dir);
    skip();
  }
  snprintf(path, sizeof path, "%s/filling", dir);
  FILE *file = fopen(path, "w");
  assert_non_null(file);
  for (int i = 0; i < 1 << 16; i++) fputs("full", file);
  assert_int_not_equal(fclose(file), 0);
  open_cpu(&f, getenv("TENET_CC"), dir, 2);
  assert_int_equal(compile(&f), TN_OK);
  check_runs(&f);
  close_cpu(&f);
  assert_int_equal(umount(dir), 0);
  rmdir(dir);
}

static void test_no_compiler(void **state) {
  static const char *const none[] = {"", "/no/such/compiler", "tenet-no-such-compiler", "/"};
  (void)state;
  for (size_t i = 0; i < sizeof none / sizeof *none; i++) {
    fixture f;
    open_cpu(&f, none[i], "", 2);
    assert_true(f.d->target.interprets);
    assert_string_equal(f.d->name, "cpu");
    assert_int_equal(compile(&f), TN_OK);
    check_runs(&f);
    close_cpu(&f);
  }
}

static void test_failing_compiler(void **state) {
  char dir[64], path[128];
  fixture f;
  (void)state;
  new_dir(dir);
  snprintf(path, sizeof path, "%s/cc", dir);
  write_script(path, "#!/bin/sh\necho 'line 7: no such thing' >&2\nexit 1\n");
  open_cpu(&f, path, "", 2);
  assert_non_null(strstr(f.d->text, "cc = cc"));
  assert_int_equal(compile(&f), TN_ECOMPILE);
  assert_non_null(strstr(tn_last_error(&f.c)->text, "line 7: no such thing"));
  close_cpu(&f);
  write_script(path, "#!/bin/sh\nwhile [ $# -gt 0 ]; do [ \"$1\" = -o ] && echo junk > \"$2\"; shift; done\n");
  open_cpu(&f, path, "", 2);
  assert_int_equal(compile(&f), TN_ECOMPILE); /* it gave something that does not load */
  assert_non_null(strstr(tn_last_error(&f.c)->text, "do not load"));
  close_cpu(&f);
  find_entry(dir, NULL, path, sizeof path);
}

/* ---- long schedules: several units, by several compilers at once ---- */

enum { KERNELS = 900 }; /* of some instructions each */

typedef struct many {
  fixture f;
  tn__kernel *kernel[KERNELS];
} many;

/* Kernel k gives k + i. */
static void compile_many(void *arg) {
  many *m = arg;
  tn_ctx *c = &m->f.c;
  for (int k = 0; k < KERNELS; k++) {
    char name[32];
    snprintf(name, sizeof name, "add%d", k);
    lin *l = lin_new(c, name);
    tn_node *out = lin_buf(l, TN_I64, true), *r = lin_range(l, tn__int(c, 10), AX_GLOBAL, 0);
    tn_node *i = lin_add(l, tn__cast(c, r, TN_I64));
    lin_store(l, OP_STORE, out, r, lin_add(l, tn__op2(c, OP_ADD, i, tn__const_num(c, TN_I64, k))), NULL);
    lin_end(l, r);
    m->kernel[k] = &l->k;
  }
  m->f.code = m->f.d->ops->compile(m->f.d, m->kernel, KERNELS);
}

/* A compiler whose run number `fails` does, while others still run; each makes a file run.1, run.2, ...  Where one
 * fails, nobody runs what the others make: they need not optimise. */
static void write_counting(const char *path, const char *dir, int fails) {
  char text[1024];
  const char *cc = getenv("TENET_CC");
  snprintf(text, sizeof text,
           "#!/bin/sh\ni=1\nwhile ! (set -C; > %s/run.$i) 2>/dev/null; do i=$((i + 1)); done\n"
           "[ $i -eq %d ] && { sleep 0.3; echo I will not >&2; exit 1; }\nexec %s \"$@\"%s\n",
           dir, fails, cc ? cc : "cc", fails ? " -O0" : "");
  write_script(path, text);
}

static void test_units(void **state) {
  char dir[64], path[128], entry[512];
  (void)state;
  for (int fails = 0; fails <= 2; fails++) {
    many m;
    tn_status status = TN_OK;
    snprintf(path, sizeof path, "%s/cc", new_dir(dir));
    write_counting(path, dir, fails);
    open_cpu(&m.f, path, dir, 2);
    tn__mem_try(&m.f.c.mem, compile_many, &m, &status);
    if (status != (fails ? TN_ECOMPILE : TN_OK)) fail_msg("status %d: %s", status, tn_last_error(&m.f.c)->text);
    assert_true(find_entry(dir, "run.2", entry, sizeof entry));
    if (fails) assert_non_null(strstr(tn_last_error(&m.f.c)->text, "I will not"));
    for (int k = 0; k < KERNELS && !fails; k++) {
      int64_t out[10];
      assert_int_equal(m.f.d->ops->launch(m.f.d, m.f.code, (uint32_t)k, (void *[]){out}, (size_t[]){80}, NULL), TN_OK);
      for (int i = 0; i < 10; i++) assert_int_equal(out[i], k + i);
    }
    if (!fails) assert_int_equal(m.f.c.stats.kernels_compiled, KERNELS);
    close_cpu(&m.f);
    DIR *d = opendir(dir); /* nothing half done is left */
    for (struct dirent *e; (e = readdir(d));) assert_null(strstr(e->d_name, "tmp-"));
    closedir(d);
    find_entry(dir, NULL, entry, sizeof entry);
  }
}

static void compile_slowly(tn_ctx *c, void *arg) {
  tn__child run;
  tn__cc_start(c, arg, "int x;", "/tmp/tenet-test-never", &run);
  tn__cc_finish(c, arg, &run, "/tmp/tenet-test-never");
}

/* One that hangs is killed, its children too. */
static void test_hanging_compiler(void **state) {
  char dir[64], path[128];
  fixture f;
  tn__cc cc;
  (void)state;
  new_dir(dir);
  snprintf(path, sizeof path, "%s/cc", dir);
  write_script(path, "#!/bin/sh\nsleep 100\n");
  open_cpu(&f, path, "", 1);
  assert_true(tn__cc_find(&f.c, &cc));
  cc.limit_ms = 200;
  assert_false(tn__ctx_run(&f.c, "", compile_slowly, &cc));
  assert_int_equal(tn_last_error(&f.c)->status, TN_ECOMPILE);
  assert_non_null(strstr(tn_last_error(&f.c)->text, "ran for more than 0.2 s"));
  close_cpu(&f);
  find_entry(dir, NULL, path, sizeof path);
}

/* ---- matrix products ---- */

enum { GAP = 3 }; /* behind each row and each matrix */

/* A matrix, or as many as the batch has, as f64 and as it stands in memory */
typedef struct numbers {
  int64_t n;
  double *value;
  char *mem;
} numbers;

static double at(const tn__product *g, const numbers *x, int64_t i) {
  return tn__eval_to_double(g->dtype, tn__eval_load(g->dtype, x->mem + (size_t)i * tn__size_of(g->dtype)));
}

static void put(const tn__product *g, numbers *x, int64_t i, double v) {
  tn__eval_store(g->dtype, x->mem + (size_t)i * tn__size_of(g->dtype), tn__eval_from_double(g->dtype, v));
  x->value[i] = at(g, x, i);
}

/* Small integers: sums are exact in any order. */
static numbers fill(const tn__product *g, int64_t n, int seed) {
  enum { VALUES = 11, WIDEST = 8 };
  size_t size = tn__size_of(g->dtype);
  numbers x = {n, test_malloc((size_t)n * sizeof *x.value), test_malloc((size_t)n * size)};
  char as_stored[VALUES][WIDEST];
  for (int v = 0; v < VALUES; v++)
    tn__eval_store(g->dtype, as_stored[v], tn__eval_from_double(g->dtype, (double)(v - 5)));
  for (int64_t i = 0; i < n; i++) {
    int64_t v = (i * 7 + i / 11 + seed) % VALUES;
    x.value[i] = (double)(v - 5);
    memcpy(x.mem + (size_t)i * size, as_stored[v], size);
  }
  return x;
}

static void drop(numbers *x) {
  test_free(x->value);
  test_free(x->mem);
}

static bool same(double x, double y) { return x == y || (isnan(x) && isnan(y)); }

/* Of one product's elements, steps of k are as far apart as the first two. */
TEST_ALONE static double summed(const tn__product *g, const numbers *a, const numbers *b, int64_t i, int64_t m,
                                int64_t n) {
  const double *x = a->value + tn__product_a(g, i, m, 0), *y = b->value + tn__product_b(g, i, 0, n);
  int64_t of_a = g->trans_a ? g->lda : 1, of_b = g->trans_b ? 1 : g->ldb;
  double sum = 0;
  for (int64_t k = 0; k < g->k; k++) sum += x[k * of_a] * y[k * of_b];
  return sum;
}

/* special: what is multiplied first is infinite in one matrix and no number in the other, in other rows and columns */
static void check_product(tn__device *d, tn__product g, bool special) {
  g.lda = (g.trans_a ? g.m : g.k) + GAP;
  g.ldb = (g.trans_b ? g.k : g.n) + 1;
  g.ldc = g.n + 2;
  g.stride_a = (g.trans_a ? g.k : g.m) * g.lda + GAP;
  g.stride_c = g.m * g.ldc + GAP;
  numbers a = fill(&g, g.batch * g.stride_a + GAP, 1), b = fill(&g, (g.trans_b ? g.n : g.k) * g.ldb + GAP, 2),
          c = fill(&g, g.batch * g.stride_c + GAP, 3);
  if (special) put(&g, &a, tn__product_a(&g, 0, g.m - 1, 0), NAN);
  if (special) put(&g, &b, tn__product_b(&g, 0, 0, g.n - 1), INFINITY);
  g.a = a.mem, g.b = b.mem, g.c = c.mem;
  assert_int_equal(tn__cpu_gemm(d, &g), TN_OK);
  for (int64_t p = 0; p < c.n; p++) {
    int64_t i = p / g.stride_c, m = p % g.stride_c / g.ldc, n = p % g.stride_c % g.ldc;
    double want = c.value[p];
    if (i < g.batch && m < g.m && n < g.n)
      want = tn__eval_to_double(g.dtype, tn__eval_from_double(
                                             g.dtype, (g.beta != 0 ? g.beta * want : 0) + summed(&g, &a, &b, i, m, n)));
    if (!same(at(&g, &c, p), want))
      fail_msg("%s %lldx%lldx%lld (%d, %d): element %lld is %g, not %g", tn__dtypes[g.dtype].name, (long long)g.m,
               (long long)g.n, (long long)g.k, g.trans_a, g.trans_b, (long long)p, at(&g, &c, p), want);
  }
  drop(&a);
  drop(&b);
  drop(&c);
}

static const int floats[] = {TN_F32, TN_F64, TN_F16, TN_BF16};
enum { FLOATS = sizeof floats / sizeof *floats };

static void test_products(void **state) {
  static const int64_t sizes[][3] = {{1, 1, 1}, {3, 5, 7}, {33, 17, 40}, {1, 40, 9}, {40, 1, 9},
                                     {8, 8, 1}, {4, 4, 0}, {0, 5, 3},    {5, 0, 3}};
  fixture f;
  (void)state;
  open_cpu(&f, "", "", 3);
  for (int i = 0; i < FLOATS; i++) assert_true(f.d->ops->has_gemm(f.d, floats[i]));
  assert_false(f.d->ops->has_gemm(f.d, TN_I32));
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
    for (int bits = 0; bits < 32 * FLOATS; bits++) {
      tn__product g = {.dtype = floats[bits / 32],
                       .trans_a = bits & 1,
                       .trans_b = bits & 2,
                       .beta = bits & 4   ? 1
                               : bits & 8 ? -2
                                          : 0,
                       .batch = bits & 16 ? 4 : 1,
                       .m = sizes[s][0],
                       .n = sizes[s][1],
                       .k = sizes[s][2]};
      check_product(f.d, g, false);
      if (g.m && g.n && g.k) check_product(f.d, g, true);
    }
  tn__product big = {.dtype = TN_F32, .m = 1, .n = 1, .k = (int64_t)1 << 31, .batch = 1, .lda = 1, .ldb = 1, .ldc = 1};
  assert_int_equal(tn__cpu_gemm(f.d, &big), TN_ENOTSUP);
  assert_non_null(strstr(tn_last_error(&f.c)->text, "2147483648"));
  close_cpu(&f);
}

/* Of half floats, several blocks of rows, columns or steps, of all, and of one that is long. */
static void test_blocks(void **state) {
  static const int64_t sizes[][3] = {{357, 361, 359},  {1000, 3, 130}, {3, 1000, 130},  {7900, 9, 20}, {9, 7900, 20},
                                     {2, 3, 70000}, {130000, 1, 2}, {1, 130000, 2}, {1, 1, 130000}};
  (void)state;
  for (int threads = 1; threads <= 3; threads += 2) {
    fixture f;
    open_cpu(&f, "", "", threads);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int bits = 0; bits < 8; bits++)
        check_product(f.d,
                      (tn__product){.dtype = bits & 1 ? TN_F16 : TN_BF16,
                                    .trans_a = bits & 2,
                                    .trans_b = bits & 4,
                                    .batch = 1,
                                    .m = sizes[s][0],
                                    .n = sizes[s][1],
                                    .k = sizes[s][2]},
                      bits & 1);
    close_cpu(&f);
  }
}

/* So few elements that their many steps are shared out, in tiles and without */
static void test_parts(void **state) {
  static const int64_t sizes[][4] = {{2, 3, 70000, 1}, {1, 1, 400001, 1}, {20, 33, 4001, 1},
                                     {3, 2, 30001, 2}, {100, 200, 77, 1}, {9, 130, 1001, 3}};
  (void)state;
  for (int threads = 2; threads <= 7; threads += 5) {
    fixture f;
    open_cpu(&f, "", "", threads);
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++)
      for (int bits = 0; bits < 8; bits++)
        for (int beta = -2; beta <= 1; beta++)
          check_product(f.d,
                        (tn__product){.dtype = bits & 1 ? TN_F32 : TN_F64,
                                      .trans_a = bits & 2,
                                      .trans_b = bits & 4,
                                      .beta = beta,
                                      .batch = sizes[s][3],
                                      .m = sizes[s][0],
                                      .n = sizes[s][1],
                                      .k = sizes[s][2]},
                        beta == 0);
    close_cpu(&f);
  }
}

/* Blocks of memory are asked for when the first product of half floats is, and not again. */
static void ask(void *arg) {
  fixture *f = arg;
  assert_true(f->d->ops->has_gemm(f->d, TN_F16));
}

static void test_no_room(void **state) {
  fixture f;
  tn_status status;
  (void)state;
  open_cpu(&f, "", "", 2);
  f.c.mem.fail_at = f.c.mem.count + 1;
  assert_false(tn__mem_try(&f.c.mem, ask, &f, &status));
  assert_int_equal(status, TN_ENOMEM);
  f.c.mem.fail_at = 0;
  ask(&f);
  int64_t count = f.c.mem.count;
  check_product(f.d, (tn__product){.dtype = TN_BF16, .batch = 3, .m = 30, .n = 20, .k = 10}, false);
  assert_int_equal(f.c.mem.count, count);
  close_cpu(&f);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slices),           cmocka_unit_test(test_cache),
      cmocka_unit_test(test_unusable_cache),   cmocka_unit_test(test_full_cache),
      cmocka_unit_test(test_no_compiler),      cmocka_unit_test(test_failing_compiler),
      cmocka_unit_test(test_units), cmocka_unit_test(test_hanging_compiler), cmocka_unit_test(test_products),
      cmocka_unit_test(test_blocks), cmocka_unit_test(test_parts),           cmocka_unit_test(test_no_room),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
