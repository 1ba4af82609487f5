/* Kernels for work groups, built by hand: the text in three languages, and what it computes.  OpenCL runs where there
 * is a device (PoCL), Metal runs as C++, CUDA on a GPU, else it is compiled where NVRTC is found; results are those of
 * the interpreter. */
#include "backend/cuda/target.h"
#include "backend/cuda/cuda.h"
#include "backend/ref/ref.h"
#include "render/dialect.h"
#include "support/ctx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "support/group_run.h"
#include "support/scalars.h"
#include "tenet/tenet.h"

typedef struct fixture {
  tn_ctx c;
  tn__device *ref, *cuda; /* cuda: NULL where there is no GPU */
} fixture;

static void open_ref(void *arg) {
  fixture *f = arg;
  tn__devices_open(&f->c);
  tn__ref_open(&f->c, "ref");
  f->ref = tn__device_get(&f->c, 0);
  f->c.mode = TN_MODE_STRICT; /* bit for bit */
  f->c.pool = tn__pool_open(&f->c.mem, 2);
  if (tn__cuda_usable() && tn__cuda_open(&f->c, 1) > 0) f->cuda = tn__device_get(&f->c, 1);
}

static int setup(void **state) {
  static fixture f;
  tn_status status;
  memset(&f, 0, sizeof f);
  *state = &f;
  return test_ctx_open(&f.c) && tn__mem_try(&f.c.mem, open_ref, &f, &status) ? 0 : -1;
}

static int teardown(void **state) {
  fixture *f = *state;
  tn__devices_close(&f->c);
  tn__pool_close(f->c.pool);
  return test_ctx_close(&f->c) == 0 ? 0 : -1;
}

/* ---- programs ---- (no two arguments of a call append instructions: C leaves open which comes first, and the texts
 * are compared) */

typedef struct program { /* a kernel and what it is run on */
  lin *l;
  size_t elements[LIN_BUFS];
  int64_t var[4];
  char *in[LIN_BUFS]; /* NULL: results */
  int op[OP_COUNT];   /* of scalar kernels: what block i of the result is */
  size_t block;
  bool bits[LIN_BUFS]; /* the bits of input 0, of which an f16 or bf16 that is no number may have others on a device */
} program;

static const char *name_for(tn_ctx *c, const char *what, int dtype) {
  char name[32];
  snprintf(name, sizeof name, "%s_%s", what, tn__dtypes[dtype].name);
  return tn__arena_strdup(&c->scratch, name);
}

static program *new_program(tn_ctx *c, const char *name, int group) {
  program *p = tn__arena_zalloc(&c->scratch, sizeof *p);
  p->l = lin_new(c, name);
  p->l->k.part[0].group = p->l->k.part[1].group = group;
  return p;
}

static tn_node *result(program *p, int dtype, size_t elements) {
  p->elements[p->l->k.nbuf] = elements;
  return lin_buf(p->l, dtype, true);
}

/* Small numbers, no two neighbours alike; some NaN and zeros of both signs among floats if `odd`. */
static tn_node *input(program *p, int dtype, size_t elements, bool odd) {
  uint32_t slot = p->l->k.nbuf;
  size_t size = tn__size_of(dtype);
  p->elements[slot] = elements;
  p->in[slot] = tn__arena_zalloc(&p->l->c->scratch, elements * size + 1);
  for (size_t i = 0; i < elements; i++) {
    double v = (double)((int64_t)(i * 37 + slot * 11) % 101 - 50) / 4;
    if (odd && i % 5 == 3) v = i % 2 ? -0.0 : 0.0;
    if (odd && i % 97 == 77) v = __builtin_nan("");
    tn__eval_store(dtype, p->in[slot] + i * size,
                   tn__is_float(dtype) ? tn__eval_from_double(dtype, v)
                                       : tn__eval_cast(TN_I64, dtype, i * 37 + slot * 11));
  }
  return lin_buf(p->l, dtype, false);
}

static tn_node *number(lin *l, int64_t v) { return tn__int(l->c, v); }

/* As they are written: tn__op2 would bring index arithmetic into normal form, of nodes that are no instructions. */
static tn_node *raw(lin *l, tn__op op, tn_node *x, tn_node *y) {
  return lin_make(l, op, 0, (tn_node *[]){x, y}, 2, NULL, 0);
}
static tn_node *op2(lin *l, tn__op op, tn_node *x, tn_node *y) { return lin_add(l, raw(l, op, x, y)); }
static tn_node *neg(lin *l, tn_node *x) { return lin_add(l, lin_make(l, OP_NEG, 0, &x, 1, NULL, 0)); }
static tn_node *add(lin *l, tn_node *x, tn_node *y) { return op2(l, OP_ADD, x, y); }
static tn_node *mul(lin *l, tn_node *x, tn_node *y) { return op2(l, OP_MUL, x, y); }

/* Turns of `by` for n things, rounded up. */
static tn_node *turns(lin *l, tn_node *n, int64_t by) {
  return op2(l, OP_IDIV, add(l, n, number(l, by - 1)), number(l, by));
}

/* What is left of n in turn r, at most `by`. */
static tn_node *left(lin *l, tn_node *n, tn_node *r, int64_t by) {
  return op2(l, OP_MIN, add(l, n, mul(l, r, number(l, -by))), number(l, by));
}

/* out = flag ? 2x + y : -(2x + y), four neighbours per thread, over 4m elements. */
static program *vectors(tn_ctx *c, int group, int64_t m) {
  program *p = new_program(c, "vectors", group);
  lin *l = p->l;
  size_t n = 4 * (size_t)m;
  tn_node *out = result(p, TN_F16, n), *x = input(p, TN_F32, n, false), *y = input(p, TN_BF16, n, true),
          *flag = input(p, TN_BOOL, n, false);
  tn_node *M = lin_var(l, "m", 0, 1000), *G = number(l, group), *r = lin_range(l, turns(l, M, group), AX_GLOBAL, 0);
  p->var[0] = m;
  tn_node *count = left(l, M, r, group), *u = lin_range(l, count, AX_UPCAST, 1);
  tn_node *base = mul(l, add(l, mul(l, r, G), u), number(l, 4));
  tn_node *e = lin_range(l, number(l, 4), AX_UNROLL, 2), *at = add(l, base, e);
  tn_node *two_x = mul(l, lin_load(l, x, at, NULL), tn__const_num(c, TN_F32, 2)),
          *wide = lin_add(l, tn__cast(c, lin_load(l, y, at, NULL), TN_F32));
  tn_node *v = add(l, two_x, wide), *which = lin_load(l, flag, at, NULL), *less = neg(l, v),
          *w = lin_op3(l, OP_WHERE, which, v, less);
  lin_store(l, OP_STORE, out, at, lin_add(l, tn__cast(c, w, TN_F16)), NULL);
  lin_end(l, e);
  lin_end(l, u);
  lin_end(l, r);
  return p;
}

/* Softmax of rows kept in scratch, written back to front; the sums too.  own: each thread keeps its elements. */
static program *rows(tn_ctx *c, const char *name, int group, int64_t cols, bool own) {
  enum { ROWS = 5, MOST = 100 };
  program *p = new_program(c, name, group);
  lin *l = p->l;
  tn_node *out = result(p, TN_F32, (size_t)(ROWS * cols)), *sums = result(p, TN_F32, ROWS),
          *x = input(p, TN_F32, (size_t)(ROWS * cols), false);
  int64_t slots = (MOST + group - 1) / group;
  tn_node *row = lin_local_of(l, TN_F32, own ? slots * group : MOST, own ? group : 0);
  tn_node *K = lin_var(l, "K", 0, MOST), *G = number(l, group), *r = lin_range(l, number(l, ROWS), AX_GLOBAL, 0),
          *from = mul(l, r, K);
  p->var[0] = cols;
  tn_node *most = lin_acc(l, tn__const_num(c, TN_F32, -__builtin_inf()), 0, group),
          *sum = lin_acc(l, tn__const_num(c, TN_F32, 0), 1, group);
  tn_node *rounds = own ? number(l, slots) : turns(l, K, group), *m = NULL, *s = NULL;
  for (int64_t pass = 0; pass < 3; pass++) {
    tn_node *k = lin_range(l, rounds, AX_LOOP, 1 + 2 * pass), *count = left(l, K, k, group);
    tn_node *u = lin_range(l, count, AX_UPCAST, 2 + 2 * pass), *i = add(l, mul(l, k, G), u);
    if (pass == 0) {
      tn_node *v = lin_load(l, x, add(l, from, i), NULL);
      lin_store(l, OP_STORE, row, i, v, NULL);
      lin_setacc(l, OP_MAX, most, v, u);
    } else if (pass == 1) {
      tn_node *less = neg(l, m), *e = lin_op1(l, OP_EXP, add(l, lin_load(l, row, i, NULL), less));
      lin_store(l, OP_STORE, row, i, e, NULL);
      lin_setacc(l, OP_ADD, sum, e, u);
    } else {
      tn_node *less = neg(l, i), *back = add(l, add(l, K, number(l, -1)), less);
      tn_node *v = lin_load(l, row, own ? i : back, NULL), *at = add(l, from, own ? back : i);
      lin_store(l, OP_STORE, out, at, op2(l, OP_DIV, v, s), NULL);
    }
    lin_end(l, u);
    tn_node *end = lin_end(l, k);
    if (pass == 0) m = lin_getacc(l, OP_MAX, most, end, NULL);
    if (pass == 1) s = lin_getacc(l, OP_ADD, sum, end, NULL);
    if (!own && pass) lin_barrier(l, pass);
  }
  lin_store(l, OP_STORE, sums, r, s, NULL);
  lin_end(l, r);
  return p;
}

enum { TURNS = 6 };

/* out[r*group + t] = fold over k of x[r*K + k] (with y: of x*y), r < 6: every thread t has what the lanes come to. */
static program *reduction(tn_ctx *c, const char *name, int64_t op, int dtype, int64_t lanes, int group, int64_t K) {
  program *p = new_program(c, name, group);
  lin *l = p->l;
  tn_node *out = result(p, dtype, TURNS * (size_t)group), *x = input(p, dtype, (size_t)(TURNS * K), true),
          *y = input(p, dtype, (size_t)(TURNS * K), false);
  tn_node *k_size = lin_var(l, "K", 0, 5000), *r = lin_range(l, number(l, TURNS), AX_GLOBAL, 0);
  p->var[0] = K;
  int start = op == OP_FMA ? OP_ADD : (int)op;
  tn_node *acc = lin_acc(l, tn__const_bits(c, dtype, tn__eval_reduce_init(start, dtype)), 0, lanes);
  tn_node *k = lin_range(l, turns(l, k_size, lanes), AX_REDUCE, 1),
          *u = lin_range(l, left(l, k_size, k, lanes), AX_UPCAST, 2);
  tn_node *row = mul(l, r, k_size), *from = mul(l, k, number(l, lanes)), *at = add(l, add(l, row, from), u),
          *vx = lin_load(l, x, at, NULL), *value = vx;
  if (op == OP_FMA)
    value = tn__node_make(c, &(tn__make){.op = OP_LIST, .src = (tn_node *[]){vx, lin_load(l, y, at, NULL)}, .nsrc = 2});
  lin_setacc(l, op, acc, value, u);
  lin_end(l, u);
  tn_node *end = lin_end(l, k);
  tn_node *total = lin_getacc(l, start, acc, end, NULL), *each = lin_range(l, number(l, group), AX_UPCAST, 3);
  lin_store(l, OP_STORE, out, add(l, mul(l, r, number(l, group)), each), total, NULL);
  lin_end(l, each);
  lin_end(l, r);
  return p;
}

/* Index arithmetic in 32 and in 64 bits, mixed, over values that need them. */
static program *widths(tn_ctx *c) {
  program *p = new_program(c, "widths", 32);
  lin *l = p->l;
  tn_node *out = result(p, TN_I64, 6 * 70), *n = lin_var(l, "n", 0, (int64_t)1 << 40);
  p->var[0] = 70;
  tn_node *r = lin_range(l, n, AX_GLOBAL, 0), *small = op2(l, OP_MOD, r, number(l, 1000)),
          *big = mul(l, small, number(l, (int64_t)1 << 30));
  tn_node *v[6] = {big, op2(l, OP_MOD, big, number(l, 777)), op2(l, OP_IDIV, add(l, big, number(l, -5)), number(l, 3)),
                   op2(l, OP_MIN, small, big), op2(l, OP_IDIV, add(l, small, number(l, -30)), number(l, 7)),
                   lin_op3(l, OP_WHERE, op2(l, OP_LT, small, big), neg(l, small), big)};
  for (int i = 0; i < 6; i++)
    lin_store(l, OP_STORE, out, add(l, mul(l, r, number(l, 6)), number(l, i)), lin_add(l, tn__cast(c, v[i], TN_I64)),
              NULL);
  lin_end(l, r);
  return p;
}

/* Copies of neighbours: of each width that memory knows, by way of scratch, gated; an access that must not be packed.
 */
static program *neighbours(tn_ctx *c, const char *name, int dtype, int64_t each) {
  enum { G = 16, EACH_TURN = 3 };
  program *p = new_program(c, name, G);
  lin *l = p->l;
  size_t n = (size_t)(G * TURNS * each);
  tn_node *out = result(p, dtype, n), *late = result(p, dtype, n + 1), *x = input(p, dtype, n, true),
          *row = lin_local(l, dtype, G * each);
  tn_node *r = lin_range(l, number(l, TURNS), AX_GLOBAL, 0), *width = number(l, each),
          *first = mul(l, r, number(l, G * each));
  for (int64_t pass = 0; pass < 2; pass++) {
    tn_node *u = lin_range(l, number(l, G), AX_UPCAST, 1 + 2 * pass), *mine = mul(l, u, width),
            *base = add(l, first, mine);
    tn_node *gate = op2(l, OP_NE, op2(l, OP_MOD, u, number(l, 3)), number(l, 1)),
            *one = pass ? add(l, base, number(l, 1)) : NULL;
    tn_node *e = lin_range(l, width, AX_UNROLL, 2 + 2 * pass), *at = add(l, base, e);
    if (pass) {
      tn_node *v = lin_load(l, row, add(l, mine, e), NULL);
      lin_store(l, OP_STORE, out, at, v, gate);
      lin_store(l, OP_STORE, late, add(l, one, e), v, NULL); /* not a multiple of the width */
    } else {
      lin_store(l, OP_STORE, row, add(l, mine, e), lin_load(l, x, at, gate), NULL);
    }
    lin_end(l, e);
    lin_end(l, u);
    lin_barrier(l, pass);
  }
  lin_end(l, r);
  return p;
}

/* Part 0: squares; part 1, without a global range: thread 0 adds them up by residue, in an accumulator all threads have
 * alike, too. */
static program *parts(tn_ctx *c) {
  enum { N = 100 };
  program *p = new_program(c, "parts", 64);
  lin *l = p->l;
  tn_node *sums = input(p, TN_I32, 8, false), *squares = result(p, TN_I32, N), *x = input(p, TN_I32, N, false);
  p->l->written[0] = true;
  tn_node *r = lin_range(l, number(l, 2), AX_GLOBAL, 0), *u = lin_range(l, number(l, 50), AX_UPCAST, 1),
          *at = add(l, mul(l, r, number(l, 50)), u);
  tn_node *v = lin_load(l, x, at, NULL);
  lin_store(l, OP_STORE, squares, at, mul(l, v, v), NULL);
  lin_end(l, u);
  lin_end(l, r);
  l->k.nparts = 2;
  tn_node *acc = lin_acc(l, tn__const_bits(c, TN_I32, 3), 0, 1), *s = lin_range(l, number(l, N), AX_REDUCE, 2),
          *w = lin_load(l, squares, s, NULL);
  tn_node *seventh = op2(l, OP_MOD, s, number(l, 7));
  lin_store(l, OP_STOREADD, sums, seventh, w, op2(l, OP_LT, s, number(l, 90)));
  lin_setacc(l, OP_ADD, acc, w, NULL);
  tn_node *end = lin_end(l, s);
  lin_store(l, OP_STORE, sums, number(l, 7), lin_getacc(l, OP_ADD, acc, end, NULL), NULL);
  return p;
}

/* ---- every scalar op on every dtype ---- */

static bool compares(int op) { return op == OP_LT || op == OP_LE || op == OP_EQ || op == OP_NE; }

/* Pairs of values, the third operand out of step. */
static void fill_values(program *p, uint32_t slot, int dtype, uint32_t operand) {
  uint64_t v[NVALUES];
  size_t size = tn__size_of(dtype);
  values_of(dtype, v);
  for (size_t i = 0; i < p->elements[slot]; i++) {
    size_t pick[] = {i % NVALUES, i / NVALUES % NVALUES, i * 7 / 3 % NVALUES};
    tn__eval_store(dtype, p->in[slot] + i * size, v[pick[operand]]);
  }
}

/* out[k n + i] = op_k(x[i], y[i], z[i]), for the ops that give dtype, then for those that compare. */
static program *scalars(tn_ctx *c, int dtype) {
  enum { G = 64, N = NVALUES * NVALUES };
  program *p = new_program(c, name_for(c, "ops", dtype), G);
  lin *l = p->l;
  tn_node *x[4], *src[3];
  int nops = 0, ncompare = 0;
  for (int op = 0; op < OP_COUNT; op++) {
    if (tn__ops[op].group < G_UNARY || tn__ops[op].group > G_TERNARY || !tn__op_takes(op, dtype) || compares(op))
      continue;
    p->op[nops++] = op;
  }
  p->block = N;
  tn_node *out = result(p, dtype, N * (size_t)nops), *truth = result(p, TN_BOOL, N * 4), *bits = result(p, TN_U32, N);
  for (uint32_t s = 0; s < 4; s++) {
    x[s] = input(p, s < 3 ? dtype : TN_BOOL, N, false);
    fill_values(p, l->k.nbuf - 1, s < 3 ? dtype : TN_BOOL, s % 3);
  }
  tn_node *r = lin_range(l, number(l, N / G), AX_GLOBAL, 0), *u = lin_range(l, number(l, G), AX_UPCAST, 1),
          *at = add(l, mul(l, r, number(l, G)), u);
  for (uint32_t s = 0; s < 4; s++) x[s] = lin_load(l, x[s], at, NULL);
  for (int k = 0; k < nops; k++) {
    bool where = p->op[k] == OP_WHERE;
    for (int s = 0; s < 3; s++) src[s] = where ? x[s ? s - 1 : 3] : x[s];
    tn_node *y = lin_add(
        l, tn__node_make(
               c, &(tn__make){.op = (tn__op)p->op[k], .dtype = dtype, .src = src, .nsrc = tn__ops[p->op[k]].min_src}));
    if (y->dtype != dtype) lin_store(l, OP_STORE, bits, at, y, NULL);
    else lin_store(l, OP_STORE, out, add(l, at, number(l, N * k)), y, NULL);
  }
  for (int op = 0; op < OP_COUNT; op++)
    if (compares(op))
      lin_store(l, OP_STORE, truth, add(l, at, number(l, N * ncompare++)), op2(l, (tn__op)op, x[0], x[1]), NULL);
  lin_end(l, u);
  lin_end(l, r);
  return p;
}

/* out_k[i] = (dtype k)x[i], and the bits as those dtypes of equal width; f64: those from or to f64, else the others. */
static program *casts(tn_ctx *c, int from, bool f64) {
  enum { G = 32 };
  program *p = new_program(c, name_for(c, f64 ? "casts64" : "casts", from), G);
  lin *l = p->l;
  size_t n = tn__size_of(from) <= 2 && from != TN_BOOL ? (size_t)1 << 8 * tn__size_of(from) : NVALUES * NVALUES;
  tn_node *x = input(p, from, n, false), *cast[TN_DTYPE_COUNT] = {0}, *bits[TN_DTYPE_COUNT] = {0};
  if (n == NVALUES * NVALUES) fill_values(p, 0, from, 0);
  else
    for (size_t i = 0; i < n; i++) memcpy(p->in[0] + i * tn__size_of(from), &i, tn__size_of(from));
  for (int to = 0; to < TN_DTYPE_COUNT; to++) {
    if (to == from || (to == TN_F64 || from == TN_F64) != f64) continue;
    cast[to] = result(p, to, n);
    if (from != TN_BOOL && to != TN_BOOL && tn__size_of(from) == tn__size_of(to)) bits[to] = result(p, to, n);
  }
  tn_node *r = lin_range(l, number(l, (int64_t)n / G), AX_GLOBAL, 0), *u = lin_range(l, number(l, G), AX_UPCAST, 1),
          *at = add(l, mul(l, r, number(l, G)), u);
  tn_node *v = lin_load(l, x, at, NULL);
  for (int to = 0; to < TN_DTYPE_COUNT; to++) {
    if (cast[to]) lin_store(l, OP_STORE, cast[to], at, lin_add(l, tn__cast(c, v, to)), NULL);
    if (bits[to]) p->bits[bits[to]->ints[0]] = tn__size_of(from) == 2 && tn__is_float(from);
    if (bits[to]) lin_store(l, OP_STORE, bits[to], at, lin_add(l, tn__bitcast(c, v, to)), NULL);
  }
  lin_end(l, u);
  lin_end(l, r);
  return p;
}

/* ---- text ---- */

typedef struct unit {
  tn_ctx *c;
  const tn__dialect *d;
  tn__kernel *const *k;
  uint32_t n;
  const char *text;
} unit;

static void render(void *arg) {
  unit *u = arg;
  tn__sb out;
  tn__sb_init(&out, &u->c->scratch);
  tn__render_unit(u->c, &out, u->d, u->k, u->n);
  u->text = tn__sb_str(&out);
}

/* One kernel without the helper texts; NULL if that failed. */
static const char *rendered(tn_ctx *c, const tn__dialect *d, program *p) {
  tn__dialect bare = *d;
  const char *const no_head[] = {NULL};
  tn__kernel *k = &p->l->k;
  tn_status status;
  bare.head = no_head;
  unit u = {c, &bare, &k, 1, NULL};
  return tn__mem_try(&c->mem, render, &u, &status) ? u.text : NULL;
}

/* TENET_GOLDEN=write renews the files. */
static void test_text(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  const struct {
    const char *name;
    const tn__dialect *d;
    program *p;
  } cases[] = {{"group_cuda_vectors", &tn__dialect_cuda, vectors(c, 32, 1)},
               {"group_cuda_reduction", &tn__dialect_cuda, reduction(c, "R", OP_MAX, TN_F16, 128, 128, 5)},
               {"group_cuda_integers", &tn__dialect_cuda, reduction(c, "R", OP_MAX, TN_U64, 32, 32, 31)},
               {"group_cuda_lanes", &tn__dialect_cuda, reduction(c, "R", OP_ADD, TN_F32, 2, 32, 5)},
               {"group_cuda_rows", &tn__dialect_cuda, rows(c, "rows", 64, 77, true)},
               {"group_opencl_reduction", &tn__dialect_opencl, reduction(c, "R", OP_ADD, TN_F32, 64, 128, 5)},
               {"group_metal_parts", &tn__dialect_metal, parts(c)}};
  const char *dir = getenv("TENET_TEST_DATA"), *renew = getenv("TENET_GOLDEN");
  if (!dir) skip();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    char path[512], want[1 << 14] = "";
    const char *got = rendered(c, cases[i].d, cases[i].p);
    snprintf(path, sizeof path, "%s/golden/%s.txt", dir, cases[i].name);
    FILE *file = fopen(path, renew && !strcmp(renew, "write") ? "w+" : "r");
    if (!file) fail_msg("%s cannot be opened", path);
    if (renew && !strcmp(renew, "write")) fputs(got, file);
    rewind(file);
    want[fread(want, 1, sizeof want - 1, file)] = '\0';
    fclose(file);
    if (strcmp(got, want)) fail_msg("%s is not what is printed now (TENET_GOLDEN=write renews it):\n%s", path, got);
  }
}

static void test_lacking_dtype(void **state) {
  fixture *f = *state;
  assert_null(rendered(&f->c, &tn__dialect_metal, reduction(&f->c, "d", OP_ADD, TN_F64, 32, 32, 5)));
  assert_int_equal(tn_last_error(&f->c)->status, TN_ENOTSUP);
  assert_string_equal(tn_last_error(&f->c)->text, "kernel d uses f64, which metal does not have");
}

/* Which accesses are one of neighbours. */
static void test_packed(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  program *p = new_program(c, "p", 32);
  lin *l = p->l;
  tn_node *x = lin_buf(l, TN_F32, false), *flag = lin_buf(l, TN_BOOL, false), *n = lin_var(l, "n", 0, 100),
          *u = lin_range(l, number(l, 32), AX_UPCAST, 0);
  tn_node *r = tn__range(c, number(l, 4), AX_UNROLL, ROLE_OUTPUT, 1),
          *tail = tn__range(c, n, AX_UNROLL, ROLE_OUTPUT, 2),
          *eights = mul(l, u, number(l, 8));
  const struct {
    tn_node *index, *gate, *range;
    bool packed;
  } cases[] = {{raw(l, OP_ADD, eights, r), NULL, r, true},
               {raw(l, OP_ADD, r, raw(l, OP_ADD, eights, number(l, 12))), NULL, r, true},
               {r, NULL, r, true},
               {raw(l, OP_ADD, raw(l, OP_ADD, eights, number(l, 2)), r), NULL, r, false},
               {raw(l, OP_ADD, mul(l, u, number(l, 6)), r), NULL, r, false},
               {raw(l, OP_ADD, u, r), NULL, r, false},
               {raw(l, OP_ADD, eights, mul(l, r, number(l, 2))), NULL, r, false},
               {raw(l, OP_ADD, eights, tail), NULL, tail, false},
               {eights, NULL, r, false},
               {raw(l, OP_ADD, r, r), NULL, r, false},
               {raw(l, OP_ADD, eights, r), lin_load(l, flag, u, NULL), r, true},
               {raw(l, OP_ADD, eights, r), lin_load(l, flag, raw(l, OP_ADD, u, r), NULL), r, false}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tn_node *load =
        lin_make(l, OP_LOAD, 0, (tn_node *[]){x, cases[i].index, cases[i].gate}, cases[i].gate ? 3 : 2, NULL, 0);
    if (tn__is_packed(load, cases[i].range) != cases[i].packed) fail_msg("case %zu", i);
    tn_node *store =
        lin_make(l, OP_STORE, 0, (tn_node *[]){x, cases[i].index, load, cases[i].gate}, cases[i].gate ? 4 : 3, NULL, 0);
    if (tn__is_packed(store, cases[i].range) != cases[i].packed) fail_msg("store %zu", i);
  }
}

/* ---- running ---- */

/* Units in the last place by which a vendor's function may differ from the C library's; 0: bit for bit. */
static uint64_t allowed(const char *language, int op, int dtype) {
  bool metal = !strcmp(language, "metal"), library = tn__ops[op].rounding == RN_LIBRARY;
  if (dtype == TN_F64) return library ? 16 : 0;
  if (metal && (op == OP_SIN || op == OP_COS || op == OP_TAN || op == OP_POW)) return dtype == TN_F32 ? 4 : 1;
  return 0;
}

static uint64_t ulps(int dtype, uint64_t x, uint64_t y) { /* monotone integers */
  unsigned shift = 64 - 8 * (unsigned)tn__size_of(dtype);
  int64_t a = (int64_t)(x << shift) >> shift, b = (int64_t)(y << shift) >> shift, least = INT64_MIN >> shift;
  if (a < 0) a = least - a;
  if (b < 0) b = least - b;
  return a > b ? (uint64_t)a - (uint64_t)b : (uint64_t)b - (uint64_t)a;
}

static bool same(const char *language, const program *p, uint32_t slot, size_t i, uint64_t x, uint64_t y) {
  int dtype = p->l->dtype[slot], op = p->block && slot == 0 ? p->op[i / p->block] : OP_ADD;
  if (x == y) return true;
  if (p->bits[slot]) {
    double v = tn__eval_to_double(p->l->dtype[0], tn__eval_load(p->l->dtype[0], p->in[0] + 2 * i));
    if (v != v) return true;
  }
  if (!tn__is_float(dtype)) return false;
  double a = tn__eval_to_double(dtype, x), b = tn__eval_to_double(dtype, y);
  if (a != a && b != b) return true;
  /* not exact where products leave f32's range */
  if (op == OP_FMA && dtype == TN_BF16 && !strcmp(language, "metal")) return true;
  return a == a && b == b && ulps(dtype, x, y) <= allowed(language, op, dtype);
}

static void bind(const program *p, lin_bufs *b) {
  for (uint32_t s = 0; s < p->l->k.nbuf; s++) {
    size_t bytes = p->elements[s] * tn__size_of(p->l->dtype[s]);
    lin_bufs_set(b, s, p->in[s], bytes);
    if (!p->in[s]) memset(b->mem[s], 0, bytes);
  }
}

static void run_ref(fixture *f, program *p, lin_bufs *b) {
  tn__kernel *k = &p->l->k;
  tn__code *code = f->ref->ops->compile(f->ref, &k, 1);
  bind(p, b);
  if (f->ref->ops->launch(f->ref, code, 0, b->mem, b->bytes, p->var))
    fail_msg("%s on ref: %s", k->name, tn_last_error(&f->c)->text);
  f->ref->ops->release(f->ref, code);
}

/* Compares and frees. */
static void compare(const char *language, const program *p, lin_bufs *want, lin_bufs *got) {
  const tn__kernel *k = &p->l->k;
  if (!lin_bufs_sound(got, k->nbuf)) fail_msg("%s in %s wrote outside a buffer", k->name, language);
  for (uint32_t s = 0; s < k->nbuf; s++)
    for (size_t e = 0; e < p->elements[s]; e++) {
      size_t size = tn__size_of(p->l->dtype[s]);
      uint64_t x = tn__eval_load(p->l->dtype[s], want->mem[s] + e * size),
               y = tn__eval_load(p->l->dtype[s], got->mem[s] + e * size);
      const char *op = p->block && s == 0 ? tn__ops[p->op[e / p->block]].text : "";
      if (!same(language, p, s, e, x, y))
        fail_msg("%s in %s: buffer %u (%s) element %zu %s: ref %#llx, here %#llx", k->name, language, s,
                 tn__dtypes[p->l->dtype[s]].name, e, op, (unsigned long long)x, (unsigned long long)y);
    }
  lin_bufs_free(want, k->nbuf);
  lin_bufs_free(got, k->nbuf);
}

static void run_groups(fixture *f, const group_runner *r, group_code *code, uint32_t i, program *p, uint32_t most) {
  const tn__kernel *k = &p->l->k;
  lin_bufs want, got;
  run_ref(f, p, &want);
  bind(p, &got);
  for (uint32_t part = 0; part < k->nparts; part++) {
    tn_node *global = k->part[part].global;
    int64_t extent = global ? tn__eval_index(global->src[0], &(tn__env){k->var, p->var, k->nvar}, &f->c.scratch) : 1;
    if (extent > 0) r->launch(code, i, part, extent < most ? (uint32_t)extent : most, &got, p->var);
  }
  compare(r->name, p, &want, &got);
}

static bool uses_f64(const program *p) {
  for (uint32_t s = 0; s < p->l->k.nbuf; s++)
    if (p->l->dtype[s] == TN_F64) return true;
  return false;
}

/* All programs as one unit in a language, each run in one group and in a few. */
static void run_in(fixture *f, const group_runner *r, program *const *p, uint32_t n) {
  tn__kernel **k = tn__alloc(&f->c, n * sizeof *k);
  program **q = tn__alloc(&f->c, n * sizeof *q);
  const char *why = "";
  bool failed;
  uint32_t m = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!r->dialect->cell[TN_F64] && uses_f64(p[i])) continue;
    q[m] = p[i];
    k[m++] = &p[i]->l->k;
  }
  if (!m) return;
  unit u = {.c = &f->c, .d = r->dialect, .k = k, .n = m};
  tn_status status;
  if (!tn__mem_try(&f->c.mem, render, &u, &status)) fail_msg("%s: %s", r->name, tn_last_error(&f->c)->text);
  if (getenv("TENET_TEST_KEEP")) { /* for looking at */
    char path[512];
    snprintf(path, sizeof path, "%s.%s.%s", getenv("TENET_TEST_KEEP"), k[0]->name, r->name);
    FILE *file = fopen(path, "w");
    fputs(u.text, file);
    fclose(file);
  }
  group_code *code = r->compile(u.text, k, m, &why, &failed);
  if (failed) fail_msg("%s does not take the text: %s", r->name, why);
  if (!code) {
    if (r->launch || *why) print_message("%u kernels in %s skipped: %s\n", m, r->name, why);
    return;
  }
  for (uint32_t i = 0; i < m; i++) {
    run_groups(f, r, code, i, q[i], 1);
    run_groups(f, r, code, i, q[i], 3);
  }
  r->release(code);
}

typedef struct compiling {
  tn__device *d;
  tn__kernel **k;
  uint32_t n;
  tn__code *code;
} compiling;

static void compile_on(void *arg) {
  compiling *a = arg;
  a->code = a->d->ops->compile(a->d, a->k, a->n);
}

/* On a GPU, guards and all. */
static void run_on(fixture *f, tn__device *d, program *const *p, uint32_t n) {
  compiling a = {.d = d, .k = tn__alloc(&f->c, n * sizeof(tn__kernel *)), .n = n};
  tn_status status;
  print_message("%u kernels run on %s\n", n, d->text);
  for (uint32_t i = 0; i < n; i++) a.k[i] = &p[i]->l->k;
  if (!tn__mem_try(&f->c.mem, compile_on, &a, &status)) fail_msg("%s: %s", d->name, tn_last_error(&f->c)->text);
  for (uint32_t i = 0; i < n; i++) {
    lin_bufs want, got;
    void *block[LIN_BUFS], *mem[LIN_BUFS];
    size_t size[LIN_BUFS];
    run_ref(f, p[i], &want);
    bind(p[i], &got);
    for (uint32_t s = 0; s < a.k[i]->nbuf; s++) {
      size[s] = got.bytes[s] + 2 * LIN_GUARD;
      block[s] = d->ops->alloc(d, size[s]);
      mem[s] = (char *)block[s] + LIN_GUARD;
      d->ops->upload(d, block[s], got.block[s], size[s]);
    }
    if (d->ops->launch(d, a.code, i, mem, got.bytes, p[i]->var))
      fail_msg("%s on %s: %s", a.k[i]->name, d->name, tn_last_error(&f->c)->text);
    for (uint32_t s = 0; s < a.k[i]->nbuf; s++) {
      d->ops->download(d, got.block[s], block[s], size[s]);
      d->ops->free(d, block[s], size[s]);
    }
    compare("cuda", p[i], &want, &got);
  }
  d->ops->release(d, a.code);
}

static void run_everywhere(fixture *f, program *const *p, uint32_t n) {
  run_in(f, &group_opencl, p, n);
  run_in(f, &group_clang, p, n);
  run_in(f, &group_metal, p, n);
  if (f->cuda) run_on(f, f->cuda, p, n);
  else run_in(f, &group_nvrtc, p, n);
}

/* What stands before all kernels, for a device without f64; and that clang does look. */
static void test_plain_opencl(void **state) {
  static char log[8192], head[1 << 17];
  size_t n = 0;
  (void)state;
  if (!group_has_clang()) {
    print_message("skipped: there is no clang\n");
    skip();
  }
  for (int i = 0; tn__dialect_opencl.head[i]; i++)
    n += (size_t)snprintf(head + n, sizeof head - n, "%s", tn__dialect_opencl.head[i]);
  assert_true(n < sizeof head);
  if (!group_opencl_takes("-Xclang -cl-ext=-cl_khr_fp64 -Werror", head, log, sizeof log)) fail_msg("%s", log);
  assert_false(group_opencl_takes("", "#define FIRST(x, ...) x\n", log, sizeof log));
  assert_false(group_opencl_takes("", "void f(__global long *p) { atom_inc(p); }\n", log, sizeof log));
}

/* Halves that only some threads load are converted by all: their loads do not wait for each other's conversions. */
static void test_gated_halves(void **state) {
  (void)state;
  for (int dtype = TN_F16; dtype <= TN_BF16; dtype++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_tensor *x = tn_full(c, (tn_dtype)dtype, (tn_dim[]){33, 1001}, 2, 1);
      assert_int_equal(tn_realize(&x, 1), TN_OK);
      tn_tensor *y = tn_exp(tn_cast(tn_pad(x, (tn_dim[]){1, 2, 3, 4}, 0), TN_F32));
      char *text = tn_explain_string(&y, 1);
      assert_non_null(text);
      const char *source = strstr(text, "__global__");
      assert_non_null(source);
      assert_non_null(strstr(source, "const u16 m"));
      assert_null(strstr(source, "? tn_f16_of("));
      assert_null(strstr(source, "? tn_bf16_of("));
      tn_string_free(text);
    }
    tn_ctx_close(c);
  }
}

static void test_vectors(void **state) {
  fixture *f = *state;
  program *p[4];
  static const int64_t m[] = {0, 1, 32, 77};
  for (int i = 0; i < 4; i++) {
    p[i] = vectors(&f->c, 32, m[i]);
    snprintf(p[i]->l->name, sizeof p[i]->l->name, "vectors%d", i);
  }
  run_everywhere(f, p, 4);
}

static void test_rows(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  program *p[] = {rows(c, "rows", 32, 77, false),          rows(c, "rows_short", 64, 5, false),
                  rows(c, "rows_wide", 64, 100, false),    rows(c, "rows_own", 32, 77, true),
                  rows(c, "rows_own_wide", 64, 100, true), rows(c, "rows_one", 1, 9, true)};
  run_everywhere(f, p, sizeof p / sizeof *p);
}

static void test_reductions(void **state) {
  fixture *f = *state;
  static const struct {
    const char *name;
    int64_t op, lanes, K;
    int dtype, group;
  } cases[] = {{"sum2", OP_ADD, 2, 7, TN_F32, 32},         {"sum32", OP_ADD, 32, 77, TN_F32, 32},
               {"fma64", OP_FMA, 64, 100, TN_F32, 64},     {"max128", OP_MAX, 128, 401, TN_F32, 128},
               {"min256", OP_MIN, 256, 999, TN_F64, 256},  {"sum16h", OP_ADD, 16, 40, TN_F16, 16},
               {"fma32h", OP_FMA, 32, 40, TN_BF16, 64},    {"prod64", OP_MUL, 64, 90, TN_I32, 128},
               {"any32", OP_ADD, 32, 33, TN_BOOL, 64},     {"sum8b", OP_ADD, 8, 90, TN_I8, 64},
               {"sum128l", OP_ADD, 128, 300, TN_I64, 128}, {"max32u", OP_MAX, 32, 31, TN_U64, 32},
               {"min64", OP_MIN, 64, 20, TN_F32, 64},      {"sum4d", OP_ADD, 4, 9, TN_F64, 32}};
  enum { N = sizeof cases / sizeof *cases };
  program *p[N];
  for (int i = 0; i < N; i++)
    p[i] = reduction(&f->c, cases[i].name, cases[i].op, cases[i].dtype, cases[i].lanes, cases[i].group, cases[i].K);
  run_everywhere(f, p, N);
}

/* Several groups in a block: side by side, and across each other; fewer threads than run in step, and more. */
static void test_together(void **state) {
  fixture *f = *state;
  static const struct {
    int64_t op, lanes, K;
    int dtype, group, together;
    bool across;
  } cases[] = {{OP_ADD, 2, 7, TN_F32, 2, 3, false},    {OP_ADD, 4, 30, TN_F32, 8, 6, false},
               {OP_MAX, 16, 77, TN_F16, 16, 2, false}, {OP_FMA, 32, 40, TN_F32, 32, 2, false},
               {OP_ADD, 8, 90, TN_F64, 8, 3, false},   {OP_ADD, 2, 7, TN_F32, 2, 2, true},
               {OP_ADD, 8, 99, TN_F32, 8, 6, true},    {OP_MIN, 16, 77, TN_I64, 16, 3, true},
               {OP_ADD, 32, 300, TN_F64, 32, 6, true}, {OP_FMA, 64, 100, TN_F32, 64, 2, true},
               {OP_MAX, 16, 40, TN_BF16, 32, 3, true}, {OP_ADD, 128, 401, TN_F32, 128, 2, true}};
  enum { N = sizeof cases / sizeof *cases };
  program *p[N];
  for (int i = 0; i < N; i++) {
    char name[32];
    snprintf(name, sizeof name, "together%d", i);
    p[i] = reduction(&f->c, tn__arena_strdup(&f->c.scratch, name), cases[i].op, cases[i].dtype, cases[i].lanes,
                     cases[i].group, cases[i].K);
    p[i]->l->k.part[0].together = cases[i].together;
    p[i]->l->k.part[0].across = cases[i].across;
  }
  run_everywhere(f, p, N);
}

static void test_indices_and_parts(void **state) {
  fixture *f = *state;
  program *p[] = {widths(&f->c), parts(&f->c)};
  run_everywhere(f, p, 2);
}

static void test_neighbours(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  program *p[] = {neighbours(c, "near_i8_2", TN_I8, 2),     neighbours(c, "near_u8_16", TN_U8, 16),
                  neighbours(c, "near_bool_4", TN_BOOL, 4), neighbours(c, "near_f16_8", TN_F16, 8),
                  neighbours(c, "near_bf16_2", TN_BF16, 2), neighbours(c, "near_f32_4", TN_F32, 4),
                  neighbours(c, "near_f64_2", TN_F64, 2),   neighbours(c, "near_i64_4", TN_I64, 4),
                  neighbours(c, "near_i32_3", TN_I32, 3)};
  run_everywhere(f, p, sizeof p / sizeof *p);
}

static void test_scalars(void **state) {
  fixture *f = *state;
  program *p[TN_DTYPE_COUNT];
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) p[dtype] = scalars(&f->c, dtype);
  run_everywhere(f, p, TN_DTYPE_COUNT);
}

static void test_casts(void **state) {
  fixture *f = *state;
  program *p[2 * TN_DTYPE_COUNT];
  uint32_t n = 0;
  for (int dtype = 0; dtype < TN_DTYPE_COUNT; dtype++) {
    if (dtype != TN_F64) p[n++] = casts(&f->c, dtype, false);
    p[n++] = casts(&f->c, dtype, true);
  }
  run_everywhere(f, p, n);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_text, setup, teardown),
      cmocka_unit_test_setup_teardown(test_lacking_dtype, setup, teardown),
      cmocka_unit_test_setup_teardown(test_packed, setup, teardown),
      cmocka_unit_test(test_plain_opencl),
      cmocka_unit_test(test_gated_halves),
      cmocka_unit_test_setup_teardown(test_vectors, setup, teardown),
      cmocka_unit_test_setup_teardown(test_rows, setup, teardown),
      cmocka_unit_test_setup_teardown(test_reductions, setup, teardown),
      cmocka_unit_test_setup_teardown(test_together, setup, teardown),
      cmocka_unit_test_setup_teardown(test_indices_and_parts, setup, teardown),
      cmocka_unit_test_setup_teardown(test_neighbours, setup, teardown),
      cmocka_unit_test_setup_teardown(test_scalars, setup, teardown),
      cmocka_unit_test_setup_teardown(test_casts, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
