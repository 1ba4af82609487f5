/* Hand-built linear kernels run on the interpreter and as generated C, at the level that $TENET_CPU_LEVEL names: every
 * result bit for bit the same, nothing written outside its buffer. */
#ifndef TN_TEST_SUPPORT_REF_AND_CPU_H
#define TN_TEST_SUPPORT_REF_AND_CPU_H
#include "backend/cpu/cpu.h"
#include "backend/ref/ref.h"
#include "ir/eval.h"
#include "support/ctx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/linear.h"
#include "support/scalars.h"

typedef struct fixture {
  tn_ctx c;
  tn__device *ref, *cpu;
} fixture;

static inline void open_all(void *arg) {
  fixture *f = arg;
  f->c.opt.quiet = 1;
  f->c.opt.cc = getenv("TENET_CC");
  f->c.opt.cpu_level = getenv("TENET_CPU_LEVEL");
  if (f->c.opt.cpu_level && !*f->c.opt.cpu_level) f->c.opt.cpu_level = NULL;
  tn__cache_open(&f->c.cache, &f->c.mem, getenv("TENET_CACHE")); /* the scalar kernels take long to compile */
  tn__devices_open(&f->c);
  f->c.pool = tn__pool_open(&f->c.mem, 3);
  tn__cpu_open(&f->c);
  tn__ref_open(&f->c, "ref");
  f->cpu = tn__device_get(&f->c, 0);
  f->ref = tn__device_get(&f->c, 1);
}

static inline int setup(void **state) {
  static fixture f;
  tn_status status;
  memset(&f, 0, sizeof f);
  *state = &f;
  if (!test_ctx_open(&f.c) || !tn__mem_try(&f.c.mem, open_all, &f, &status)) return -1;
  return f.cpu->target.interprets ? -1 : 0; /* without a compiler there is nothing to compare */
}

static inline int teardown(void **state) {
  fixture *f = *state;
  tn__devices_close(&f->c);
  tn__pool_close(f->c.pool);
  tn__cache_close(&f->c.cache);
  return test_ctx_close(&f->c) == 0 ? 0 : -1;
}

/* ---- running a set of kernels on a device ---- */

typedef struct compiling {
  tn__device *d;
  lin *const *l;
  uint32_t n;
  tn__code *code;
} compiling;

static inline void compile_all(void *arg) {
  compiling *a = arg;
  tn__kernel **k = tn__alloc(a->d->ctx, a->n * sizeof *k);
  for (uint32_t i = 0; i < a->n; i++) k[i] = &a->l[i]->k;
  a->code = a->d->ops->compile(a->d, k, a->n);
}

static inline tn__code *compile_on(tn__device *d, lin *const *l, uint32_t n) {
  compiling a = {.d = d, .l = l, .n = n};
  tn_status status;
  if (!tn__mem_try(&d->ctx->mem, compile_all, &a, &status)) fail_msg("%s: %s", d->name, tn_last_error(d->ctx)->text);
  return a.code;
}

static inline bool is_nan(int dtype, const char *p) {
  double v = tn__is_float(dtype) ? tn__eval_to_double(dtype, tn__eval_load(dtype, p)) : 0;
  return v != v;
}

/* Runs kernel i on both devices over the same inputs; `out` receives the result of ref's buffer 0. */
static inline void run_both(fixture *f, tn__code *const *code, uint32_t i, const lin *l, const void *const *in,
                     const size_t *bytes, const int64_t *var, void *out) {
  tn__device *d[2] = {f->ref, f->cpu};
  lin_bufs b[2];
  for (int w = 0; w < 2; w++) {
    for (uint32_t s = 0; s < l->k.nbuf; s++) lin_bufs_set(&b[w], s, in[s], bytes[s]);
    tn_status status = d[w]->ops->launch(d[w], code[w], i, b[w].mem, b[w].bytes, var);
    if (status) fail_msg("%s on %s: %s", l->name, d[w]->name, tn_last_error(&f->c)->text);
    if (!lin_bufs_sound(&b[w], l->k.nbuf)) fail_msg("%s on %s wrote outside a buffer", l->name, d[w]->name);
  }
  for (uint32_t s = 0; s < l->k.nbuf; s++) {
    size_t size = tn__size_of(l->dtype[s]);
    for (size_t at = 0; at < bytes[s]; at += size) {
      const char *x = (char *)b[0].mem[s] + at, *y = (char *)b[1].mem[s] + at;
      if (memcmp(x, y, size) && !(is_nan(l->dtype[s], x) && is_nan(l->dtype[s], y)))
        fail_msg("%s: buffer %u element %zu: ref %#llx, cpu %#llx", l->name, s, at / size,
                 (unsigned long long)tn__eval_load(l->dtype[s], x), (unsigned long long)tn__eval_load(l->dtype[s], y));
    }
  }
  if (out) memcpy(out, b[0].mem[0], bytes[0]);
  lin_bufs_free(&b[0], l->k.nbuf);
  lin_bufs_free(&b[1], l->k.nbuf);
}

static inline void run_one(fixture *f, lin *l, const void *const *in, const size_t *bytes,
                           const int64_t *var, void *out) {
  tn__code *code[2] = {compile_on(f->ref, &l, 1), compile_on(f->cpu, &l, 1)};
  run_both(f, code, 0, l, in, bytes, var, out);
  f->ref->ops->release(f->ref, code[0]);
  f->cpu->ops->release(f->cpu, code[1]);
}

/* ---- every scalar op on every dtype ---- */

/* out[i] = op(x[i], y[i], z[i]), one after the other or in lanes */
static inline lin *scalar_kernel(tn_ctx *c, int op, int dtype, int to, int axis) {
  char name[32];
  snprintf(name, sizeof name, "k_%s_%s_%s", tn__ops[op].text, tn__dtypes[dtype].name, tn__dtypes[to].name);
  lin *l = lin_new(c, name);
  uint32_t n = tn__ops[op].min_src;
  tn_node *buf[4] = {lin_buf(l, to, true)}, *x[3];
  for (uint32_t s = 0; s < n; s++) buf[1 + s] = lin_buf(l, op == OP_WHERE && s == 0 ? TN_BOOL : dtype, false);
  tn_node *r = lin_range(l, lin_var(l, "n", 0, 1 << 20), axis, 0);
  for (uint32_t s = 0; s < n; s++) x[s] = lin_load(l, buf[1 + s], r, NULL);
  tn_node *y = tn__node_make(c, &(tn__make){.op = (tn__op)op, .dtype = to, .src = x, .nsrc = n});
  lin_store(l, OP_STORE, buf[0], r, lin_add(l, y), NULL);
  lin_end(l, r);
  l->k.part[0].grain = 100;
  return l;
}

/* All pairs of values; the third operand walks out of step.  Unary ops of 16 bits and less: every value. */
static inline size_t fill_operands(const lin *l, char **in) {
  uint32_t n = l->k.nbuf - 1;
  size_t count = NVALUES * NVALUES;
  bool all = n == 1 && tn__size_of(l->dtype[1]) <= 2 && l->dtype[1] != TN_BOOL;
  if (all) count = (size_t)1 << 8 * tn__size_of(l->dtype[1]);
  for (uint32_t s = 1; s <= n; s++) {
    size_t size = tn__size_of(l->dtype[s]);
    uint64_t v[NVALUES];
    in[s] = malloc(count * size);
    values_of(l->dtype[s], v);
    for (size_t i = 0; i < count; i++) {
      size_t pick[] = {i % NVALUES, i / NVALUES, i * 7 / 3 % NVALUES};
      if (all) memcpy(in[s] + i * size, &i, size);
      else tn__eval_store(l->dtype[s], in[s] + i * size, v[pick[s - 1]]);
    }
  }
  return count;
}

static inline void run_scalar_kernels(fixture *f, lin *const *l, uint32_t n) {
  if (!n) return;
  tn__code *code[2] = {compile_on(f->ref, l, n), compile_on(f->cpu, l, n)};
  for (uint32_t i = 0; i < n; i++) {
    char *in[4] = {0};
    size_t count = fill_operands(l[i], in), bytes[4];
    for (uint32_t s = 0; s < l[i]->k.nbuf; s++) bytes[s] = count * tn__size_of(l[i]->dtype[s]);
    run_both(f, code, i, l[i], (const void *const *)in, bytes, (int64_t[]){(int64_t)count}, NULL);
    for (int s = 1; s < 4; s++) free(in[s]);
  }
  f->ref->ops->release(f->ref, code[0]);
  f->cpu->ops->release(f->cpu, code[1]);
}

/* All ops, or all casts, of all dtypes, in loops of one kind */
static inline void run_every_op(fixture *f, int axis) {
  lin *l[OP_COUNT];
  unsigned long seen = 0;
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) {
    uint32_t n = 0;
    for (int op = 0; op < OP_COUNT; op++) {
      int group = tn__ops[op].group;
      if (group < G_UNARY || group > G_TERNARY || !tn__op_takes(op, dtype) || !is_taken(&seen)) continue;
      bool compares = op == OP_LT || op == OP_LE || op == OP_EQ || op == OP_NE;
      l[n++] = scalar_kernel(&f->c, op, dtype, compares ? TN_BOOL : op == OP_PHILOX ? TN_U32 : dtype, axis);
    }
    run_scalar_kernels(f, l, n);
  }
}

static inline void run_every_cast(fixture *f, int axis) {
  lin *l[2 * TN_DTYPE_COUNT];
  unsigned long seen = 0;
  for (int from = 0; from < TN_DTYPE_COUNT; from++) {
    uint32_t n = 0;
    for (int to = 0; to < TN_DTYPE_COUNT; to++) {
      bool bits = from != TN_BOOL && to != TN_BOOL && tn__size_of(from) == tn__size_of(to);
      if (to != from && is_taken(&seen)) l[n++] = scalar_kernel(&f->c, OP_CAST, from, to, axis);
      if (to != from && bits && is_taken(&seen)) l[n++] = scalar_kernel(&f->c, OP_BITCAST, from, to, axis);
    }
    run_scalar_kernels(f, l, n);
  }
}

/* ---- folds in lanes ---- */

enum { FOLD_ROWS = 2, FOLD_ROOM = 1000 };

/* out[row + k] = what lane k holds of the fold of n values x[row + ...], the last round short; out[row + lanes] = all
 * lanes as one.  OP_FMA: of products with y.  Rows are FOLD_ROOM apart. */
static inline lin *fold_kernel(tn_ctx *c, int64_t op, int dtype, int64_t lanes) {
  char name[32];
  snprintf(name, sizeof name, "fold%d_%s_%d", (int)op, tn__dtypes[dtype].name, (int)lanes);
  int64_t whole = op == OP_FMA ? OP_ADD : op;
  lin *l = lin_new(c, name);
  tn_node *out = lin_buf(l, dtype, true), *x = lin_buf(l, dtype, false), *y = lin_buf(l, dtype, false);
  tn_node *n = lin_var(l, "n", 0, FOLD_ROOM), *width = tn__int(c, lanes);
  tn_node *r = lin_range(l, tn__int(c, FOLD_ROWS), AX_GLOBAL, 0), *row = lin_raw2(l, OP_MUL, r, tn__int(c, FOLD_ROOM));
  tn_node *acc = lin_acc(l, tn__const_bits(c, dtype, tn__eval_reduce_init((int)whole, dtype)), 0, lanes);
  tn_node *rounds = lin_raw2(l, OP_IDIV, lin_raw2(l, OP_ADD, n, tn__int(c, lanes - 1)), width);
  tn_node *k = lin_range(l, rounds, AX_REDUCE, 1), *from = lin_raw2(l, OP_MUL, k, width);
  tn_node *left = lin_raw2(l, OP_ADD, n, lin_raw1(l, OP_NEG, from)), *count = lin_raw2(l, OP_MIN, left, width);
  tn_node *u = lin_range(l, count, AX_UPCAST, 2), *at = lin_raw2(l, OP_ADD, lin_raw2(l, OP_ADD, row, from), u);
  tn_node *value = lin_load(l, x, at, NULL);
  if (op == OP_FMA) value = lin_make(l, OP_LIST, 0, (tn_node *[]){value, lin_load(l, y, at, NULL)}, 2, NULL, 0);
  lin_setacc(l, op, acc, value, u);
  lin_end(l, u);
  tn_node *end = lin_end(l, k), *w = lin_range(l, width, AX_UPCAST, 3);
  lin_store(l, OP_STORE, out, lin_raw2(l, OP_ADD, row, w), lin_getacc(l, whole, acc, end, w), NULL);
  lin_end(l, w);
  lin_store(l, OP_STORE, out, lin_raw2(l, OP_ADD, row, width), lin_getacc(l, whole, acc, end, NULL), NULL);
  lin_end(l, r);
  return l;
}
#endif
