/* Hand-built linear kernels run on the interpreter and as generated C: every result bit for bit the same, nothing
 * written outside its buffer.  Expected values are computed here where the shape of the program, not a scalar op, is
 * what is tested. */
#include "support/ref_and_cpu.h"
#include "support/sentinel.h"

static void test_scalar_ops(void **state) { run_every_op(*state, AX_GLOBAL); }
static void test_casts(void **state) { run_every_cast(*state, AX_GLOBAL); }

/* Every half float, half way to the next one, and what is next to these: one by one, as where they are added up */
static void test_rounded(void **state) {
  fixture *f = *state;
  enum { N = 1 << 16, AROUND = 6 };
  static uint32_t in[AROUND * N];
  const int to[2] = {TN_F16, TN_BF16};
  lin *l[2];
  for (int i = 0; i < 2; i++) l[i] = scalar_kernel(&f->c, OP_CAST, TN_F32, to[i], AX_GLOBAL);
  tn__code *code[2] = {compile_on(f->ref, l, 2), compile_on(f->cpu, l, 2)};
  for (uint32_t i = 0; i < 2; i++) {
    for (uint32_t k = 0; k < N; k++) {
      uint32_t own = (uint32_t)tn__eval_cast(to[i], TN_F32, k),
               next = (uint32_t)tn__eval_cast(to[i], TN_F32, (k + 1) % N), middle = own + (next - own) / 2;
      const uint32_t around[AROUND] = {own - 1, own, own + 1, middle - 1, middle, middle + 1};
      memcpy(&in[AROUND * k], around, sizeof around);
    }
    run_both(f, code, i, l[i], (const void *[]){NULL, in}, (size_t[]){AROUND * N * sizeof(uint16_t), sizeof in},
             (int64_t[]){AROUND * N}, NULL);
  }
  f->ref->ops->release(f->ref, code[0]);
  f->cpu->ops->release(f->cpu, code[1]);
}

/* Fused multiply-add of the narrow floats rounds once: by way of f32 it would round twice, and some 8 of these would be
 * wrong. */
static void test_narrow_fma(void **state) {
  fixture *f = *state;
  enum { N = 1 << 16 };
  lin *l[2] = {scalar_kernel(&f->c, OP_FMA, TN_F16, TN_F16, AX_GLOBAL),
               scalar_kernel(&f->c, OP_FMA, TN_BF16, TN_BF16, AX_GLOBAL)};
  tn__code *code[2] = {compile_on(f->ref, l, 2), compile_on(f->cpu, l, 2)};
  static uint16_t in[3][N];
  uint64_t random = 1;
  for (int k = 0; k < 3; k++)
    for (int i = 0; i < N; i++) {
      random = random * 6364136223846793005u + 1442695040888963407u;
      in[k][i] = (uint16_t)(random >> 48);
    }
  for (uint32_t i = 0; i < 2; i++)
    run_both(f, code, i, l[i], (const void *[]){NULL, in[0], in[1], in[2]},
             (size_t[]){sizeof *in, sizeof *in, sizeof *in, sizeof *in}, (int64_t[]){N}, NULL);
  f->ref->ops->release(f->ref, code[0]);
  f->cpu->ops->release(f->cpu, code[1]);
}

/* ---- the shapes of programs ---- */

static void test_reduce(void **state) {
  fixture *f = *state;
  static const struct {
    int64_t op, lanes;
    int dtype;
  } cases[] = {{OP_ADD, 8, TN_F32},  {OP_FMA, 16, TN_F32}, {OP_MAX, 4, TN_F32},  {OP_MIN, 2, TN_F64},
               {OP_ADD, 16, TN_F16}, {OP_MUL, 8, TN_I32},  {OP_ADD, 8, TN_BOOL}, {OP_ADD, 32, TN_I8}};
  enum { N = sizeof cases / sizeof *cases, MOST = 40, ALL = FOLD_ROWS * FOLD_ROOM };
  static char out[ALL * 8], x[ALL * 8], y[ALL * 8];
  lin *l[N];
  for (int i = 0; i < N; i++) l[i] = fold_kernel(&f->c, cases[i].op, cases[i].dtype, cases[i].lanes);
  tn__code *code[2] = {compile_on(f->ref, l, N), compile_on(f->cpu, l, N)};
  for (int i = 0; i < N; i++)
    for (int64_t n = 0; n <= MOST; n++) {
      size_t size = tn__size_of(cases[i].dtype);
      int64_t sum = 0;
      for (int64_t e = 0; e < ALL; e++) {
        int64_t v = (e * 37 + 11) % 101 - 50, row = e % FOLD_ROOM;
        tn__eval_store(cases[i].dtype, x + (size_t)e * size, tn__eval_cast(TN_I64, cases[i].dtype, (uint64_t)v));
        tn__eval_store(cases[i].dtype, y + (size_t)e * size,
                       tn__eval_cast(TN_I64, cases[i].dtype, (uint64_t)(v * 3 + 1)));
        if (e >= FOLD_ROOM && row < n) sum += v;
      }
      run_both(f, code, (uint32_t)i, l[i], (const void *[]){out, x, y}, (size_t[]){ALL * size, ALL * size, ALL * size},
               &n, out);
      float last;
      memcpy(&last, out + (size_t)(FOLD_ROOM + cases[i].lanes) * size, sizeof last);
      if (i == 0) assert_int_equal((int64_t)last, sum); /* small integers: exact in any order */
    }
  f->ref->ops->release(f->ref, code[0]);
  f->cpu->ops->release(f->cpu, code[1]);
}

/* Rows of two, padded by a row of ones in front and one behind, in slices of any length: of this a compiler once made
 * reads of other rows. */
static void gcc_pad_kernel(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  enum { ROWS = 300, PADDED = ROWS + 2 };
  double in[ROWS * 2], got[PADDED * 2];
  for (int i = 0; i < ROWS * 2; i++) in[i] = i + 1;
  for (int way = 0; way < 2; way++) {
    lin *l = lin_new(c, way ? "pad_lanes" : "pad_loop");
    tn_node *out = lin_buf(l, TN_F64, true), *x = lin_buf(l, TN_F64, false), *two = tn__int(c, 2);
    tn_node *r = lin_range(l, lin_var(l, "n", 0, PADDED), AX_GLOBAL, 0), *row = lin_op2(l, OP_MUL, r, two);
    tn_node *inside = lin_op2(l, OP_AND, lin_op2(l, OP_LT, tn__int(c, 0), r),
                              lin_op2(l, OP_LT, r, tn__int(c, PADDED - 1)));
    tn_node *j = lin_range(l, two, way ? AX_UPCAST : AX_LOOP, 1), *at = lin_op2(l, OP_ADD, row, j);
    tn_node *v = lin_load(l, x, lin_op2(l, OP_ADD, at, tn__int(c, -2)), inside);
    lin_store(l, OP_STORE, out, at, lin_op3(l, OP_WHERE, inside, v, tn__const_num(c, TN_F64, 1)), NULL);
    lin_end(l, j);
    lin_end(l, r);
    tn__code *code[2] = {compile_on(f->ref, &l, 1), compile_on(f->cpu, &l, 1)};
    for (int64_t n = 1; n <= PADDED; n++) {
      size_t bytes = (size_t)n * 2 * sizeof *got;
      run_both(f, code, 0, l, (const void *[]){NULL, in}, (size_t[]){bytes, sizeof in}, &n, got);
      for (int64_t i = 0; i < 2 * n; i++) assert_true(got[i] == (double)(i < 2 || i >= 2 * ROWS + 2 ? 1 : i - 1));
    }
    f->ref->ops->release(f->ref, code[0]);
    f->cpu->ops->release(f->cpu, code[1]);
  }
}

/* out[i] = x[i-2] where that is inside, else 0: a padded view; a gated store leaves odd elements alone. */
static void test_gates(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  lin *l = lin_new(c, "gates");
  tn_node *out = lin_buf(l, TN_I32, true), *x = lin_buf(l, TN_I32, false), *odd = lin_buf(l, TN_I32, true);
  tn_node *n = lin_var(l, "n", 0, 100), *r = lin_range(l, lin_op2(l, OP_ADD, n, tn__int(c, 4)), AX_GLOBAL, 0);
  tn_node *at = lin_op2(l, OP_ADD, r, tn__int(c, -2));
  tn_node *gate = lin_op2(l, OP_AND, lin_op2(l, OP_LE, tn__int(c, 0), at), lin_op2(l, OP_LT, at, n));
  tn_node *v = lin_load(l, x, at, gate);
  lin_store(l, OP_STORE, out, r, v, NULL);
  lin_store(l, OP_STORE, odd, r, v, lin_op2(l, OP_EQ, lin_op2(l, OP_MOD, r, tn__int(c, 2)), tn__int(c, 0)));
  lin_end(l, r);
  /* the extent's instruction stands in front of the range: parts may start with what all slices share */
  int32_t in[5] = {10, 20, 30, 40, 50}, keep[9], got[9];
  for (int i = 0; i < 9; i++) keep[i] = -i;
  run_one(f, l, (const void *[]){NULL, in, keep}, (size_t[]){36, 20, 36}, (int64_t[]){5}, got);
  assert_memory_equal(got, ((int32_t[]){0, 0, 10, 20, 30, 40, 50, 0, 0}), 36);
}

/* Two parts over one local-free buffer and a local row: part 0 writes squares through scratch, part 1 adds them into a
 * histogram. */
static void test_parts_and_locals(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  enum { ROWS = 50, COLS = 19 };
  lin *l = lin_new(c, "parts");
  tn_node *sums = lin_buf(l, TN_F64, true), *squares = lin_buf(l, TN_F64, true), *x = lin_buf(l, TN_F64, false),
          *row = lin_local(l, TN_F64, COLS);
  lin_local(l, TN_BF16, 3); /* not used: must not be declared */
  tn_node *cols = tn__int(c, COLS), *r = lin_range(l, tn__int(c, ROWS), AX_GLOBAL, 0),
          *base = lin_op2(l, OP_MUL, r, cols);
  tn_node *i = lin_range(l, cols, AX_UPCAST, 1), *v = lin_load(l, x, lin_op2(l, OP_ADD, base, i), NULL);
  lin_store(l, OP_STORE, row, i, lin_op2(l, OP_MUL, v, v), NULL);
  lin_end(l, i);
  tn_node *j = lin_range(l, cols, AX_LOOP, 2), *back = lin_op2(l, OP_ADD, tn__int(c, COLS - 1), lin_op1(l, OP_NEG, j));
  lin_store(l, OP_STORE, squares, lin_op2(l, OP_ADD, base, j), lin_load(l, row, back, NULL), NULL);
  lin_end(l, j);
  lin_end(l, r);
  l->k.nparts = 2;
  tn_node *s = lin_range(l, tn__int(c, ROWS * COLS), AX_LOOP, 3);
  tn_node *into = lin_op2(l, OP_MOD, s, tn__int(c, 7)), *few = lin_op2(l, OP_LT, s, tn__int(c, 900));
  lin_store(l, OP_STOREADD, sums, into, lin_load(l, squares, s, NULL), few);
  lin_store(l, OP_STOREADD, sums, tn__int(c, 7), tn__const_num(c, TN_F64, 1), few);
  lin_end(l, s);
  double in[ROWS * COLS], sum[8] = {0}, want[8] = {0}, got[8];
  for (int k = 0; k < ROWS * COLS; k++) in[k] = k % 13 - 6;
  for (int k = 0; k < 900; k++) {
    double v2 = in[k / COLS * COLS + COLS - 1 - k % COLS];
    want[k % 7] += v2 * v2;
    want[7]++;
  }
  run_one(f, l, (const void *[]){sum, NULL, in}, (size_t[]){sizeof sum, sizeof in, sizeof in}, NULL, got);
  assert_memory_equal(got, want, sizeof want);
}

/* A lane range whose accumulators stay apart: out[u] = sum over k of x[k*8 + u]; and index division of negative
 * numbers. */
static void test_lanes_apart(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  lin *l = lin_new(c, "lanes");
  tn_node *out = lin_buf(l, TN_I64, true), *x = lin_buf(l, TN_I64, false), *eight = tn__int(c, 8);
  tn_node *acc = lin_acc(l, tn__const_bits(c, TN_I64, 5), 0, 8), *k = lin_range(l, tn__int(c, 6), AX_REDUCE, 0);
  tn_node *u = lin_range(l, eight, AX_UPCAST, 1),
          *v = lin_load(l, x, lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, k, eight), u), NULL);
  lin_setacc(l, OP_ADD, acc, v, u);
  lin_end(l, u);
  tn_node *end = lin_end(l, k), *w = lin_range(l, eight, AX_UPCAST, 2), *low = lin_op2(l, OP_ADD, w, tn__int(c, -4));
  tn_node *q = lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, lin_op2(l, OP_IDIV, low, tn__int(c, 3)), tn__int(c, 100)),
                       lin_op2(l, OP_MOD, low, tn__int(c, 3)));
  lin_store(l, OP_STORE, out, w,
            lin_op2(l, OP_ADD, lin_getacc(l, OP_ADD, acc, end, w), lin_add(l, tn__cast(c, q, TN_I64))), NULL);
  lin_end(l, w);
  int64_t in[48], want[8], got[8];
  for (int i = 0; i < 48; i++) in[i] = i * i;
  for (int i = 0; i < 8; i++) {
    want[i] = 5 + ((int[]){-2, -1, -1, -1, 0, 0, 0, 1}[i] * 100) + (i + 2) % 3;
    for (int s = 0; s < 6; s++) want[i] += in[s * 8 + i];
  }
  run_one(f, l, (const void *[]){NULL, in}, (size_t[]){64, sizeof in}, NULL, got);
  assert_memory_equal(got, want, sizeof want);
}

/* Sizes at which slices, vectors and tails meet. */
static void test_elementwise(void **state) {
  fixture *f = *state;
  tn_ctx *c = &f->c;
  lin *l = lin_new(c, "saxpy");
  tn_node *out = lin_buf(l, TN_F32, true), *x = lin_buf(l, TN_F32, false), *y = lin_buf(l, TN_F32, false);
  tn_node *r = lin_range(l, lin_var(l, "n", 0, 4000), AX_GLOBAL, 0), *a = tn__const_num(c, TN_F32, -2.75);
  lin_store(l, OP_STORE, out, r,
            lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, a, lin_load(l, x, r, NULL)), lin_load(l, y, r, NULL)), NULL);
  lin_end(l, r);
  l->k.part[0].grain = 16;
  tn__code *code[2] = {compile_on(f->ref, &l, 1), compile_on(f->cpu, &l, 1)};
  for (int64_t n = 0; n < 400; n += n < 70 ? 1 : 37) {
    float in[800], got[400];
    for (int i = 0; i < 800; i++) in[i] = (float)(i * 3 % 97) * 0.1f;
    run_both(f, code, 0, l, (const void *[]){NULL, in, in + 400},
             (size_t[]){(size_t)n * 4, (size_t)n * 4, (size_t)n * 4}, &n, got);
    for (int64_t i = 0; i < n; i++) {
      volatile float product = -2.75f * in[i]; /* rounded before the sum */
      assert_true(got[i] == product + in[400 + i]);
    }
  }
  f->ref->ops->release(f->ref, code[0]);
  f->cpu->ops->release(f->cpu, code[1]);
}

static void test_ref_checks_bounds(void **state) {
  fixture *f = *state;
  lin *l = lin_new(&f->c, "copy");
  tn_node *out = lin_buf(l, TN_I16, true), *x = lin_buf(l, TN_I16, false),
          *r = lin_range(l, lin_var(l, "n", 0, 100), AX_GLOBAL, 0);
  lin_store(l, OP_STORE, out, r, lin_load(l, x, r, NULL), NULL);
  lin_end(l, r);
  tn__code *code = compile_on(f->ref, &l, 1);
  int16_t a[8], b[8] = {0};
  void *buf[] = {a, b};
  assert_int_equal(f->ref->ops->launch(f->ref, code, 0, buf, (size_t[]){16, 16}, (int64_t[]){8}), TN_OK);
  assert_int_equal(f->ref->ops->launch(f->ref, code, 0, buf, (size_t[]){16, 14}, (int64_t[]){8}), TN_ERUN);
  assert_string_equal(tn_last_error(&f->c)->text,
                      "kernel copy, instruction 1: load i16 b1[7] is outside its 7 elements");
  tn_clear_error(&f->c);
  assert_int_equal(f->ref->ops->launch(f->ref, code, 0, buf, (size_t[]){15, 16}, (int64_t[]){8}), TN_ERUN);
  assert_non_null(strstr(tn_last_error(&f->c)->text, "store i16 b0[7]"));
  f->ref->ops->release(f->ref, code);
}

/* The test of a test: what sentinels are for. */
static void test_sentinels_object(void **state) {
  fixture *f = *state;
  lin *l = lin_new(&f->c, "copy");
  tn_node *out = lin_buf(l, TN_I16, true), *x = lin_buf(l, TN_I16, false),
          *r = lin_range(l, lin_var(l, "n", 0, 100), AX_GLOBAL, 0);
  lin_store(l, OP_STORE, out, r, lin_load(l, x, r, NULL), NULL);
  lin_end(l, r);
  sentinel_put(f->cpu);
  tn__code *code = compile_on(f->cpu, &l, 1);
  int16_t a[8] = {0}, b[8] = {1, 2, 3, 4, 5, 6, 7, 8};
  void *buf[] = {a, b};
  assert_int_equal(f->cpu->ops->launch(f->cpu, code, 0, buf, (size_t[]){16, 16}, (int64_t[]){8}), TN_OK);
  assert_memory_equal(a, b, sizeof a);
  assert_int_equal(f->cpu->ops->launch(f->cpu, code, 0, buf, (size_t[]){14, 16}, (int64_t[]){8}), TN_ERUN);
  assert_non_null(
      strstr(tn_last_error(&f->c)->text, "kernel copy wrote where it must not: around or in buffer 0 of 14 bytes"));
  f->cpu->ops->release(f->cpu, code);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_elementwise, setup, teardown),
      cmocka_unit_test_setup_teardown(test_reduce, setup, teardown),
      cmocka_unit_test_setup_teardown(gcc_pad_kernel, setup, teardown),
      cmocka_unit_test_setup_teardown(test_gates, setup, teardown),
      cmocka_unit_test_setup_teardown(test_parts_and_locals, setup, teardown),
      cmocka_unit_test_setup_teardown(test_lanes_apart, setup, teardown),
      cmocka_unit_test_setup_teardown(test_ref_checks_bounds, setup, teardown),
      cmocka_unit_test_setup_teardown(test_scalar_ops, setup, teardown),
      cmocka_unit_test_setup_teardown(test_narrow_fma, setup, teardown),
      cmocka_unit_test_setup_teardown(test_rounded, setup, teardown),
      cmocka_unit_test_setup_teardown(test_sentinels_object, setup, teardown),
      cmocka_unit_test_setup_teardown(test_casts, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
