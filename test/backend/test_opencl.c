/* The OpenCL device on whatever drivers there are (PoCL); skipped, with the reason, where there is none. */
#include "backend/opencl/opencl.h"
#include "backend/opencl/state.h"
#include "backend/ref/ref.h"
#include "ir/eval.h"
#include "render/render.h"
#include "support/ctx.h"
#include "tenet/tenet.h"
#include <dirent.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <cmocka.h>
#include "support/files.h"
#include "support/linear.h"

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
enum { GROUP = 64 };

typedef struct fixture {
  tn_ctx c;
  tn__device *d, *ref;
  const char *cache;
} fixture;

/* ---- opening and closing ---- */

static void need_device(void) {
  if (!*tn__opencl_missing()) return;
  print_message("no OpenCL device: %s\n", tn__opencl_missing());
  skip();
}

static void open_all(void *arg) {
  fixture *f = arg;
  tn__devices_open(&f->c);
  tn__cache_open(&f->c.cache, &f->c.mem, f->cache);
  assert_true(tn__opencl_open(&f->c, 0) > 0);
  f->d = tn__device_get(&f->c, 0);
  tn__ref_open(&f->c, "ref");
  f->ref = tn__device_get(&f->c, tn__device_count(&f->c) - 1);
}

static void open_opencl(fixture *f, const char *cache) {
  tn_status status;
  need_device();
  memset(f, 0, sizeof *f);
  f->cache = cache;
  assert_true(test_ctx_open(&f->c));
  f->c.mode = TN_MODE_STRICT;
  assert_true(tn__mem_try(&f->c.mem, open_all, f, &status));
}

static void close_opencl(fixture *f) {
  tn__devices_close(&f->c);
  tn__cache_close(&f->c.cache);
  assert_int_equal(test_ctx_close(&f->c), 0);
}

static tn__opencl *state_of(const fixture *f) { return f->d->self; }

/* Without drivers: the loader reads the environment once, hence a process of its own, before anything was loaded in
 * this one. */
static void test_no_driver(void **state) {
  (void)state;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    setenv("OCL_ICD_VENDORS", test_path("nothing"), 1);
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .cc = "", .cache_dir = "", .quiet = 1});
    tn_tensor *t = tn_to(tn_zeros(c, TN_F32, DIMS(2)), "opencl:0");
    const char *text = tn_last_error(c)->text, *loader = "libOpenCL.so.1", *driver = "no driver (ICD)";
    bool told = !t && tn_last_error(c)->status == TN_EDEVICE && strstr(text, "'opencl:0': ") &&
                (strstr(text, loader) || strstr(text, driver));
    if (t) _exit(77); /* this loader does not ask the variable */
    bool refused = !tn_ctx_open(&(tn_options){.device = "opencl:0", .cc = "", .cache_dir = "", .quiet = 1});
    tn_ctx_close(c);
    _exit(told && refused ? 0 : 1);
  }
  int result = 1;
  assert_int_equal(waitpid(child, &result, 0), child);
  if (WIFEXITED(result) && WEXITSTATUS(result) == 77) skip();
  assert_int_equal(result, 0);
}

/* With a driver that offers nothing: the loader finds a platform, or none, but no device. */
static void test_driver_without_devices(void **state) {
  (void)state;
  fflush(NULL);
  pid_t child = fork();
  if (child == 0) {
    const char *folder = test_path("icd");
    mkdir(folder, 0700);
    FILE *f = fopen(test_path("icd/none.icd"), "w");
    fputs("libc.so.6\n", f); /* a library, but no driver */
    fclose(f);
    setenv("OCL_ICD_VENDORS", folder, 1);
    const char *why = tn__opencl_missing();
    if (!*why) _exit(77); /* this loader does not ask the variable */
    bool told = strstr(why, "libOpenCL.so.1") || strstr(why, "no driver (ICD) offers a device");
    _exit(told && tn__opencl_gpu() < 0 ? 0 : 1);
  }
  int result = 1;
  assert_int_equal(waitpid(child, &result, 0), child);
  test_remove_files();
  if (WIFEXITED(result) && WEXITSTATUS(result) == 77) skip();
  assert_int_equal(result, 0);
}

static void *train(void *arg);

/* Two processes on the device at once, both with an empty cache of theirs and then with one they share. */
static void test_processes(void **state) {
  (void)state;
  pid_t child[2];
  fflush(NULL);
  for (int i = 0; i < 2; i++) {
    if ((child[i] = fork())) continue;
    bool ok = *tn__opencl_missing() != 0; /* there is none: nothing to try */
    for (int k = 0; k < 2 && (k == 0 || ok); k++) train(&ok);
    _exit(ok ? 0 : 1);
  }
  for (int i = 0; i < 2; i++) {
    int result = 1;
    assert_int_equal(waitpid(child[i], &result, 0), child[i]);
    assert_int_equal(result, 0);
  }
}

static void test_listing(void **state) {
  (void)state;
  fixture f;
  open_opencl(&f, "");
  assert_string_equal(f.d->name, "opencl:0");
  assert_non_null(strstr(f.d->text, "GiB"));
  const tn__target *t = &f.d->target;
  assert_true(t->group >= 32 && (t->group & (t->group - 1)) == 0 && t->units > 0 && t->shared >= 1024);
  assert_ptr_equal(f.d->dialect, &tn__dialect_opencl);
  assert_int_equal(f.d->ops->sync(f.d), TN_OK);
  assert_null(state_of(&f)->context); /* looking makes none */
  close_opencl(&f);
}

/* ---- a device that answers by a table ---- */

typedef struct answers {
  uint64_t type, width[3]; /* 0: it does not know */
} answers;

static int32_t answer(tn__cl_device device, uint32_t what, size_t size, void *to, size_t *used) {
  static const uint32_t names[] = {CL_DEVICE_PREFERRED_WORK_GROUP_SIZE_MULTIPLE, CL_DEVICE_WARP_SIZE_NV,
                                   CL_DEVICE_WAVEFRONT_WIDTH_AMD};
  const answers *a = (const void *)device;
  (void)used;
  uint64_t v = what == CL_DEVICE_TYPE ? a->type : 0;
  for (int i = 0; i < 3; i++)
    if (what == names[i]) v = a->width[i];
  if (!v) return -30;
  memcpy(to, &v, size);
  return 0;
}

/* How wide a device is, is asked of it. */
static void test_subgroups(void **state) {
  static const struct {
    answers a;
    int group, width;
  } rows[] = {
      {{CL_TYPE_GPU, {64, 0, 0}}, 1024, 64}, {{CL_TYPE_GPU, {0, 32, 0}}, 1024, 32},
      {{CL_TYPE_GPU, {0, 0, 64}}, 256, 64},  {{CL_TYPE_GPU, {16, 32, 64}}, 256, 16},
      {{CL_TYPE_GPU, {0, 0, 0}}, 256, 32},   {{CL_TYPE_GPU, {48, 0, 0}}, 256, 32},
      {{CL_TYPE_GPU, {128, 0, 0}}, 64, 64},  {{CL_TYPE_GPU, {1, 0, 0}}, 256, 1},
      {{CL_TYPE_CPU, {8, 0, 0}}, 64, 32},    {{CL_TYPE_CPU, {8, 0, 0}}, 16, 16},
  };
  const tn__cl api = {.device_info = answer};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    answers a = rows[i].a;
    int width = tn__opencl_subgroup(&api, (tn__cl_device)&a, rows[i].group);
    if (width != rows[i].width) fail_msg("row %zu: %d", i, width);
  }
}

static void test_error_names(void **state) {
  (void)state;
  assert_string_equal(tn__cl_error(0), "CL_SUCCESS");
  assert_string_equal(tn__cl_error(-4), "CL_MEM_OBJECT_ALLOCATION_FAILURE");
  assert_string_equal(tn__cl_error(-19), "CL_KERNEL_ARG_INFO_NOT_AVAILABLE");
  assert_string_equal(tn__cl_error(-20), "OpenCL error -20");
  assert_string_equal(tn__cl_error(-30), "CL_INVALID_VALUE");
  assert_string_equal(tn__cl_error(-54), "CL_INVALID_WORK_GROUP_SIZE");
  assert_string_equal(tn__cl_error(-68), "CL_INVALID_DEVICE_PARTITION_COUNT");
  assert_string_equal(tn__cl_error(-69), "OpenCL error -69");
  assert_string_equal(tn__cl_error(1), "OpenCL error 1");
  assert_string_equal(tn__cl_error(INT32_MIN), "OpenCL error -2147483648");
}

/* ---- memory ---- */

typedef struct copying {
  tn__device *d;
  void *dst;
  const void *src;
  size_t size;
} copying;

static void upload(void *arg) {
  const copying *k = arg;
  k->d->ops->upload(k->d, k->dst, k->src, k->size);
}

static void download(void *arg) {
  const copying *k = arg;
  k->d->ops->download(k->d, k->dst, k->src, k->size);
}

static tn_status copy(tn__device *d, void (*how)(void *), void *dst, const void *src, size_t size) {
  copying k = {d, dst, src, size};
  tn_status status = TN_OK;
  tn__mem_try(&d->ctx->mem, how, &k, &status);
  return status;
}

static void test_transfers(void **state) {
  static const size_t sizes[] = {0, 1, 3, 64, 4097, 1 << 20, (5 << 20) + 3};
  (void)state;
  fixture f;
  open_opencl(&f, "");
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    size_t n = sizes[i];
    unsigned char *a = malloc(n + 1), *b = calloc(n + 1, 1), small = 0;
    char *dev = f.d->ops->alloc(f.d, n);
    assert_non_null(dev);
    assert_int_equal((uintptr_t)dev % 64, 0);
    for (size_t k = 0; k < n; k++) a[k] = (unsigned char)(k * 31 + k / 251);
    assert_int_equal(copy(f.d, upload, dev, a, n), TN_OK);
    for (size_t k = 1; k < n && k < 100; k += 7) { /* single bytes, from memory that changes at once */
      small = a[k] = (unsigned char)(k ^ 0x5a);
      assert_int_equal(copy(f.d, upload, dev + k, &small, 1), TN_OK);
      small = 0;
    }
    assert_int_equal(copy(f.d, download, b, dev, n), TN_OK);
    assert_memory_equal(a, b, n);
    if (n) {
      assert_int_equal(copy(f.d, download, &small, dev + n - 1, 1), TN_OK);
      assert_int_equal(small, a[n - 1]);
      assert_int_equal(copy(f.d, download, b, dev + n - 1, 2), TN_ERUN); /* beyond the end */
      assert_non_null(strstr(tn_last_error(&f.c)->text, "copying from the device: CL_INVALID_VALUE"));
      tn_clear_error(&f.c);
    }
    f.d->ops->free(f.d, dev, n);
    free(a);
    free(b);
  }
  close_opencl(&f);
}

/* Blocks come and go; every address inside one, its end included, leads to it and to nothing else. */
static void test_addresses(void **state) {
  enum { BLOCKS = 100 };
  (void)state;
  fixture f;
  char *p[BLOCKS] = {0};
  size_t size[BLOCKS];
  tn__cl_mem mem, own, seen[BLOCKS];
  uint64_t at, dice = 1;
  open_opencl(&f, "");
  for (int round = 0; round < 1000; round++) {
    dice = tn__hash_mix(dice, 7);
    size_t i = dice % BLOCKS;
    if (p[i]) {
      f.d->ops->free(f.d, p[i], size[i]);
      assert_int_equal(tn__opencl_find(f.d, p[i], &mem, &at), TN_ERUN);
      assert_non_null(strstr(tn_last_error(&f.c)->text, "is not in its memory"));
      tn_clear_error(&f.c);
      p[i] = NULL;
    } else {
      size[i] = dice / BLOCKS % 200;
      p[i] = f.d->ops->alloc(f.d, size[i]);
      assert_non_null(p[i]);
    }
  }
  for (int i = 0; i < BLOCKS; i++) {
    seen[i] = NULL;
    if (!p[i]) continue;
    assert_int_equal(tn__opencl_find(f.d, p[i], &own, &at), TN_OK);
    assert_int_equal(at, 0);
    assert_int_equal(tn__opencl_find(f.d, p[i] + size[i], &mem, &at), TN_OK);
    assert_true(mem == own && at == size[i]);
    assert_int_equal(tn__opencl_find(f.d, p[i] + size[i] + 1, &mem, &at), TN_ERUN);
    seen[i] = own;
    for (int k = 0; k < i; k++) assert_true(seen[k] != own);
  }
  assert_int_equal(tn__opencl_find(f.d, NULL, &mem, &at), TN_ERUN);
  tn_clear_error(&f.c);
  for (int i = 0; i < BLOCKS; i++)
    if (p[i]) f.d->ops->free(f.d, p[i], size[i]);
  close_opencl(&f);
}

static void take_most(void *arg) {
  fixture *f = arg;
  f->d->largest = 1 << 20;
  /* the pool's class of sizes ends beyond what the device takes */
  tn__buffer *b = tn__buffer_new(f->d, (1 << 20) - 100);
  assert_int_equal(b->cap, 1 << 20);
  tn__buffer_drop(b);
  assert_ptr_equal(tn__buffer_new(f->d, (1 << 20) - 1), b); /* from the pool */
  tn__buffer_drop(b);
  tn__buffer_new(f->d, (1 << 20) + 1);
}

/* A buffer may have as many bytes as the device says, and not one more. */
static void test_largest(void **state) {
  (void)state;
  fixture f;
  tn_status status = TN_OK;
  open_opencl(&f, "");
  assert_true(f.d->largest >= 1 << 20);
  assert_false(tn__mem_try(&f.c.mem, take_most, &f, &status));
  assert_int_equal(status, TN_ENOMEM);
  assert_string_equal(tn_last_error(&f.c)->text,
                      "a buffer of 1048577 bytes on opencl:0, which has none of more than 1048576");
  tn_clear_error(&f.c);
  close_opencl(&f);
}

static void take_much(void *arg) {
  fixture *f = arg;
  tn__buffer_new(f->d, (size_t)1 << 61);
}

static void test_out_of_memory(void **state) {
  (void)state;
  fixture f;
  tn_status status = TN_OK;
  open_opencl(&f, "");
  assert_null(f.d->ops->alloc(f.d, (size_t)1 << 61));
  assert_false(tn__mem_try(&f.c.mem, take_much, &f, &status));
  assert_int_equal(status, TN_ENOMEM);
  assert_non_null(strstr(tn_last_error(&f.c)->text,
                         "a buffer of 2305843009213693952 bytes on opencl:0, which has none of more than "));
  tn_clear_error(&f.c);
  f.c.mem.limit = f.c.mem.live + (1 << 20); /* what was asked for, and a little for tables */
  assert_null(f.d->ops->alloc(f.d, 2 << 20));
  f.c.mem.limit = 0;
  void *p = f.d->ops->alloc(f.d, 2 << 20);
  assert_non_null(p);
  f.d->ops->free(f.d, p, 2 << 20);
  close_opencl(&f);
}

/* ---- kernels ---- */

typedef struct compiling {
  tn__device *d;
  tn__kernel *k;
  tn__code *code;
} compiling;

static void compile(void *arg) {
  compiling *a = arg;
  a->code = a->d->ops->compile(a->d, &a->k, 1);
}

static tn_status try_compile(tn__device *d, lin *l, tn__code **code) {
  compiling a = {.d = d, .k = &l->k};
  tn_status status = TN_OK;
  tn__mem_try(&d->ctx->mem, compile, &a, &status);
  *code = a.code;
  return status;
}

/* Runs it with all buffers in one block, at odd multiples of 64, guards around them; `out` receives all of the block
 * but the guards' rest. */
static void run_on(tn__device *d, lin *l, const void *const *in, const size_t *bytes, const int64_t *var, char *out,
                   size_t room) {
  tn__code *code;
  void *buf[LIN_BUFS];
  size_t at = LIN_GUARD;
  if (try_compile(d, l, &code)) fail_msg("%s on %s: %s", l->name, d->name, tn_last_error(d->ctx)->text);
  char *block = d->ops->alloc(d, room);
  memset(out, 0xc5, room);
  for (uint32_t s = 0; s < l->k.nbuf; s++) {
    buf[s] = block + at;
    if (in[s]) memcpy(out + at, in[s], bytes[s]);
    at += (bytes[s] + 2 * LIN_GUARD - 1) / LIN_GUARD * LIN_GUARD;
  }
  assert_true(at <= room);
  assert_int_equal(copy(d, upload, block, out, room), TN_OK);
  if (d->ops->launch(d, code, 0, buf, bytes, var))
    fail_msg("%s on %s: %s", l->name, d->name, tn_last_error(d->ctx)->text);
  assert_int_equal(copy(d, download, out, block, room), TN_OK);
  d->ops->free(d, block, room);
  d->ops->release(d, code);
}

/* On both devices: bit for bit the same, guards included. */
static void run_both(fixture *f, lin *l, const void *const *in, const size_t *bytes, const int64_t *var) {
  enum { ROOM = 1 << 16 };
  static char want[ROOM], got[ROOM];
  run_on(f->ref, l, in, bytes, var, want, ROOM);
  run_on(f->d, l, in, bytes, var, got, ROOM);
  for (size_t i = 0; i < ROOM; i++)
    if (want[i] != got[i])
      fail_msg("%s: byte %zu is %#x, not %#x", l->name, i, (unsigned char)got[i], (unsigned char)want[i]);
}

/* y[i] = a x[i] + y[i], f16 into dtype `to`. */
static lin *saxpy(tn_ctx *c, const char *name, int from, int to) {
  lin *l = lin_new(c, name);
  tn_node *y = lin_buf(l, to, true), *x = lin_buf(l, from, false), *n = lin_var(l, "n", 0, 10000),
          *width = tn__int(c, GROUP);
  tn_node *rounds = lin_op2(l, OP_IDIV, lin_op2(l, OP_ADD, n, tn__int(c, GROUP - 1)), width),
          *r = lin_range(l, rounds, AX_GLOBAL, 0);
  tn_node *base = lin_op2(l, OP_MUL, r, width), *u = lin_range(l, width, AX_UPCAST, 1),
          *i = lin_op2(l, OP_ADD, base, u);
  tn_node *inside = lin_op2(l, OP_LT, i, n), *vx = lin_add(l, tn__cast(c, lin_load(l, x, i, inside), to)),
          *vy = lin_load(l, y, i, inside);
  lin_store(l, OP_STORE, y, i, lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, tn__const_num(c, to, -2.75), vx), vy), inside);
  lin_end(l, u);
  lin_end(l, r);
  l->k.part[0].group = GROUP;
  return l;
}

static void test_elementwise(void **state) {
  static const struct {
    const char *name;
    int from, to;
  } cases[] = {{"f32", TN_F16, TN_F32}, {"f64", TN_BF16, TN_F64}, {"f16", TN_F32, TN_F16}, {"bf16", TN_F64, TN_BF16}};
  static const int64_t sizes[] = {0, 1, 63, 64, 65, 1001};
  (void)state;
  fixture f;
  open_opencl(&f, "");
  for (size_t k = 0; k < sizeof cases / sizeof *cases; k++) {
    lin *l = saxpy(&f.c, cases[k].name, cases[k].from, cases[k].to);
    if (!state_of(&f)->f64 && (cases[k].from == TN_F64 || cases[k].to == TN_F64)) continue;
    for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
      size_t n = (size_t)sizes[s], size[2] = {tn__size_of(cases[k].to), tn__size_of(cases[k].from)};
      char *in[2] = {malloc(n * size[0] + 1), malloc(n * size[1] + 1)};
      for (size_t i = 0; i < n; i++) {
        tn__eval_store(cases[k].to, in[0] + i * size[0], tn__eval_from_double(cases[k].to, (double)(i % 17) / 3 - 2));
        tn__eval_store(cases[k].from, in[1] + i * size[1],
                       tn__eval_from_double(cases[k].from, i % 7 == 3 ? 6e-8 : (double)(i % 101) * 0.3 - 9));
      }
      run_both(&f, l, (const void *[]){in[0], in[1]}, (size_t[]){n * size[0], n * size[1]}, &sizes[s]);
      free(in[0]);
      free(in[1]);
    }
  }
  close_opencl(&f);
}

/* sums[r] = sum of row r of x, in lanes; then total = sum of sums, a second part. */
static lin *row_sums(tn_ctx *c) {
  lin *l = lin_new(c, "row_sums");
  tn_node *total = lin_buf(l, TN_F32, true), *sums = lin_buf(l, TN_F32, true), *x = lin_buf(l, TN_F32, false);
  tn_node *rows = lin_var(l, "rows", 0, 100), *r = lin_range(l, rows, AX_GLOBAL, 0), *width = tn__int(c, GROUP);
  tn_node *acc = lin_acc(l, tn__const_num(c, TN_F32, 0), 0, GROUP),
          *base = lin_op2(l, OP_MUL, r, tn__int(c, 2 * GROUP));
  tn_node *k = lin_range(l, tn__int(c, 2), AX_REDUCE, 1),
          *from = lin_op2(l, OP_ADD, base, lin_op2(l, OP_MUL, k, width));
  tn_node *u = lin_range(l, width, AX_UPCAST, 2);
  lin_setacc(l, OP_ADD, acc, lin_load(l, x, lin_op2(l, OP_ADD, from, u), NULL), u);
  lin_end(l, u);
  tn_node *end = lin_end(l, k);
  lin_store(l, OP_STORE, sums, r, lin_getacc(l, OP_ADD, acc, end, NULL), NULL);
  lin_end(l, r);
  l->k.nparts = 2;
  tn_node *all = lin_acc(l, tn__const_num(c, TN_F32, 0), 1, 1), *s = lin_range(l, rows, AX_REDUCE, 3);
  lin_setacc(l, OP_ADD, all, lin_load(l, sums, s, NULL), NULL);
  end = lin_end(l, s);
  lin_store(l, OP_STORE, total, tn__int(c, 0), lin_getacc(l, OP_ADD, all, end, NULL), NULL);
  l->k.part[0].group = l->k.part[1].group = GROUP;
  return l;
}

static void test_reductions_and_parts(void **state) {
  enum { MOST = 50 };
  float x[MOST * 2 * GROUP];
  (void)state;
  fixture f;
  open_opencl(&f, "");
  for (int i = 0; i < MOST * 2 * GROUP; i++) x[i] = (float)(i % 1013) * 0.37f - 100;
  lin *l = row_sums(&f.c);
  for (int64_t rows = 0; rows <= MOST; rows += 25)
    run_both(&f, l, (const void *[]){NULL, NULL, x},
             (size_t[]){4, 4 * (size_t)rows, sizeof(float) * 2 * GROUP * (size_t)rows}, &rows);
  close_opencl(&f);
}

/* out[u] = sum over i of (sum over j of row_i[j]) * x[u*36 + i] in two lanes, where row_i = x[j*9 + i] goes through
 * shared memory: lanes stand directly behind a loop with barriers (PoCL 3.1 lets one thread decide for all what comes
 * next there). */
static lin *behind_barriers(tn_ctx *c) {
  lin *l = lin_new(c, "behind_barriers");
  tn_node *out = lin_buf(l, TN_F64, true), *x = lin_buf(l, TN_F64, false), *row = lin_local(l, TN_F64, 2),
          *two = tn__int(c, 2);
  tn_node *total = lin_acc(l, tn__const_num(c, TN_F64, 0), 0, 2), *i = lin_range(l, tn__int(c, 6), AX_REDUCE, 0);
  tn_node *sum = lin_acc(l, tn__const_num(c, TN_F64, 0), 1, 2), *j = lin_range(l, two, AX_LOOP, 1);
  tn_node *v = lin_load(l, x, lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, j, tn__int(c, 9)), i), NULL);
  lin_barrier(l, 0);
  lin_store(l, OP_STORE, row, j, v, NULL);
  lin_end(l, j);
  tn_node *k = lin_range(l, two, AX_REDUCE, 2);
  lin_barrier(l, 1);
  tn_node *w = lin_load(l, row, k, NULL), *u = lin_range(l, two, AX_UPCAST, 3);
  lin_setacc(l, OP_ADD, sum, w, u);
  lin_end(l, u);
  tn_node *summed = lin_end(l, k), *t = lin_range(l, two, AX_UPCAST, 4);
  tn_node *y = lin_load(l, x, lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, t, tn__int(c, 36)), i), NULL);
  lin_setacc(l, OP_ADD, total, lin_op2(l, OP_MUL, lin_getacc(l, OP_ADD, sum, summed, t), y), t);
  lin_end(l, t);
  tn_node *end = lin_end(l, i), *s = lin_range(l, two, AX_UPCAST, 5);
  lin_store(l, OP_STORE, out, s, lin_getacc(l, OP_ADD, total, end, s), NULL);
  lin_end(l, s);
  l->k.part[0].group = 32;
  return l;
}

static void test_behind_barriers(void **state) {
  double x[100], zero[2] = {0};
  (void)state;
  fixture f;
  open_opencl(&f, "");
  for (int i = 0; i < 100; i++) x[i] = i % 5 + 1;
  if (state_of(&f)->f64)
    run_both(&f, behind_barriers(&f.c), (const void *[]){zero, x}, (size_t[]){sizeof zero, sizeof x}, NULL);
  close_opencl(&f);
}

/* ---- errors ---- */

static void expect(fixture *f, tn_status got, tn_status want, const char *text) {
  assert_int_equal(got, want);
  if (!strstr(tn_last_error(&f->c)->text, text)) fail_msg("'%s' does not say '%s'", tn_last_error(&f->c)->text, text);
  tn_clear_error(&f->c);
}

static void test_errors(void **state) {
  (void)state;
  fixture f;
  tn__code *code;
  char byte = 0;
  open_opencl(&f, "");
  lin *good = saxpy(&f.c, "good", TN_F32, TN_F32), *bad = saxpy(&f.c, "no name", TN_F32, TN_F32),
      *wide = saxpy(&f.c, "wide", TN_F32, TN_F64);
  expect(&f, try_compile(f.d, bad, &code), TN_ECOMPILE,
         "the OpenCL compiler of opencl:0 failed (CL_BUILD_PROGRAM_FAILURE): ");
  expect(&f, try_compile(f.d, bad, &code), TN_ECOMPILE, "error: ");
  state_of(&f)->f64 = false;
  expect(&f, try_compile(f.d, wide, &code), TN_ENOTSUP, "opencl:0 has no f64");
  assert_int_equal(try_compile(f.d, good, &code), TN_OK);
  expect(&f, f.d->ops->launch(f.d, code, 0, (void *[]){NULL, NULL}, (size_t[]){0, 0}, (int64_t[]){5}), TN_ERUN,
         "is not in its memory");
  void *p = f.d->ops->alloc(f.d, 64);
  /* The queue is the driver's; what follows is what a driver would answer. */
  expect(&f, tn__opencl_check(f.d, CL_OUT_OF_RESOURCES, "good"), TN_ENOMEM, "opencl:0: good: CL_OUT_OF_RESOURCES");
  assert_int_equal(f.d->ops->sync(f.d), TN_OK);
  expect(&f, tn__opencl_check(f.d, CL_INVALID_COMMAND_QUEUE, "waiting"), TN_ERUN,
         "opencl:0: waiting: CL_INVALID_COMMAND_QUEUE; no kernel was started last; the device is lost until the "
         "context is closed");
  expect(&f, f.d->ops->sync(f.d), TN_EDEVICE, "opencl:0 is lost since an earlier error");
  expect(&f, copy(f.d, upload, p, &byte, 1), TN_EDEVICE, "lost");
  expect(&f, copy(f.d, download, &byte, p, 1), TN_EDEVICE, "lost");
  expect(&f, f.d->ops->launch(f.d, code, 0, (void *[]){p, p}, (size_t[]){64, 64}, (int64_t[]){5}), TN_EDEVICE, "lost");
  assert_null(f.d->ops->alloc(f.d, 64));
  tn_clear_error(&f.c);
  f.d->ops->free(f.d, p, 64);
  f.d->ops->release(f.d, code);
  close_opencl(&f);
}

/* ---- the cache ---- */

static tn_stats stats_of_compiling(fixture *f) {
  tn__code *code;
  f->c.stats = (tn_stats){0};
  lin *l = saxpy(&f->c, "cached", TN_F32, TN_F32);
  if (try_compile(f->d, l, &code)) fail_msg("%s", tn_last_error(&f->c)->text);
  f->d->ops->release(f->d, code);
  return f->c.stats;
}

/* The only entry's name, and so its key. */
static tn__key entry_in(const char *dir, char *path, size_t size) {
  unsigned long long a = 0, b = 0;
  int n = 0;
  DIR *d = opendir(dir);
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));) {
    if (*e->d_name == '.') continue;
    assert_int_equal(sscanf(e->d_name, "%16llx%16llx.clbin", &a, &b), 2);
    snprintf(path, size, "%s/%s", dir, e->d_name);
    n++;
  }
  closedir(d);
  assert_int_equal(n, 1);
  return (tn__key){a, b};
}

static void test_cache(void **state) {
  (void)state;
  fixture f;
  char dir[200], path[600];
  snprintf(dir, sizeof dir, "%s", test_path("kernels"));
  open_opencl(&f, dir);
  tn__opencl_use(f.d);
  state_of(&f)->caches = false;
  assert_int_equal(stats_of_compiling(&f).kernels_compiled, 1);
  assert_int_equal(stats_of_compiling(&f).kernels_cached, 1);
  tn__key key = entry_in(dir, path, sizeof path);
  assert_int_equal(truncate(path, 1000), 0); /* damaged */
  assert_int_equal(stats_of_compiling(&f).kernels_compiled, 1);
  assert_int_equal(stats_of_compiling(&f).kernels_cached, 1);
  tn__cache_write(&f.c.cache, key, ".clbin", "no program", 10, &f.c.scratch); /* sound, but not for this driver */
  assert_int_equal(stats_of_compiling(&f).kernels_compiled, 1);
  assert_int_equal(stats_of_compiling(&f).kernels_cached, 1);
  state_of(&f)->options = "-cl-std=CL1.2 -DOTHER";
  assert_int_equal(stats_of_compiling(&f).kernels_compiled, 1); /* another key */
  close_opencl(&f);
  test_remove_files();
}

/* ---- all of it ---- */

static void *train(void *arg) {
  float x[6] = {1, 2, 3, 4, 5, 6}, w[3] = {0}, loss[2] = {0};
  bool *ok = arg;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "opencl:0", .quiet = 1});
  if (!c) return NULL;
  tn_tensor *X = tn_from(c, TN_F32, DIMS(2, 3), x), *W = tn_from(c, TN_F32, DIMS(3), w),
            *t = tn_from(c, TN_F32, DIMS(2), ((float[]){1, -1}));
  *ok = true;
  for (int step = 0; step < 40; step++) tn_scope(c) {
      tn_tensor *e = tn_sub(tn_sum(tn_mul(X, W), (int[]){1}, 1, false), t), *l = tn_mean(tn_square(e), NULL, 0, false),
                *g;
      *ok &= tn_grad(l, 1, &W, &g) == TN_OK && tn_assign(W, tn_sub(W, tn_mul_scalar(g, 0.02))) == TN_OK;
      *ok &= tn_realize((tn_tensor *[]){W, l}, 2) == TN_OK && tn_read(l, &loss[step > 0], sizeof *loss) == TN_OK;
  }
  tn_tensor *there = tn_to(W, "ref"), *back = tn_to(there, "opencl:0");
  float a[3], b[3], z[3];
  *ok &=
      tn_read(W, a, sizeof a) == TN_OK && tn_read(there, b, sizeof b) == TN_OK && tn_read(back, z, sizeof z) == TN_OK;
  *ok &= !memcmp(a, b, sizeof a) && !memcmp(a, z, sizeof a) && loss[1] < 0.5f * loss[0];
  tn_ctx_close(c);
  return NULL;
}

/* A context in each of two threads. */
static void test_contexts(void **state) {
  pthread_t thread[2];
  bool ok[2] = {false, false};
  (void)state;
  need_device();
  for (int i = 0; i < 2; i++) assert_int_equal(pthread_create(&thread[i], NULL, train, &ok[i]), 0);
  for (int i = 0; i < 2; i++) pthread_join(thread[i], NULL);
  assert_true(ok[0] && ok[1]);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      /* first */
      cmocka_unit_test(test_no_driver),       cmocka_unit_test(test_driver_without_devices),
      cmocka_unit_test(test_processes),       cmocka_unit_test(test_listing),
      cmocka_unit_test(test_subgroups),
      cmocka_unit_test(test_error_names),     cmocka_unit_test(test_transfers),
      cmocka_unit_test(test_addresses),       cmocka_unit_test(test_out_of_memory),
      cmocka_unit_test(test_largest),         cmocka_unit_test(test_elementwise),
      cmocka_unit_test(test_behind_barriers), cmocka_unit_test(test_reductions_and_parts),
      cmocka_unit_test(test_errors),          cmocka_unit_test(test_cache),
      cmocka_unit_test(test_contexts),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
