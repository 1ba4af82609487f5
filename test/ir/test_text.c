/* Printing and parsing: golden text, round trips over every kind of node, and what the parser must reject. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "ir/eval.h"
#include "ir/text.h"
#include "support/ctx.h"
#include <stdio.h>
#include <string.h>

static tn_ctx ctx;

static int open_ctx(void **state) {
  (void)state;
  return test_ctx_open(&ctx) ? 0 : -1;
}

static int close_ctx(void **state) {
  (void)state;
  return test_ctx_close(&ctx) == 0 ? 0 : -1;
}

/* ---- helpers ---- */

static const char *print(tn_node *n) {
  tn__sb b;
  tn__sb_init(&b, &ctx.scratch);
  tn__print(&b, n);
  return tn__sb_str(&b);
}

static const char *expr(tn_node *n) {
  tn__sb b;
  tn__sb_init(&b, &ctx.scratch);
  tn__print_expr(&b, n);
  return tn__sb_str(&b);
}

typedef struct job {
  const char *text;
  tn_node *node;
} job;

static void parse_job(tn_ctx *c, void *arg) {
  job *j = arg;
  j->node = tn__parse(c, j->text);
}

static void round_trip(tn_node *n) {
  const char *text = print(n);
  ctx.depth++; /* keeps scratch, where the text is */
  job j = {.text = text};
  bool good = tn__ctx_run(&ctx, "", parse_job, &j);
  ctx.depth--;
  if (!good) fail_msg("%s\n%s", tn_last_error(&ctx)->text, text);
  if (j.node != n) fail_msg("another node came back from\n%s", text);
}

static tn_node *input(int dtype, int64_t id, uint32_t rank, tn_node *const *dims) {
  return tn__storage(&ctx, dtype, id, 0, dims, rank);
}

static tn_node *matrix(int dtype, int64_t id, int64_t rows, int64_t cols) {
  return input(dtype, id, 2, (tn_node *[]){tn__int(&ctx, rows), tn__int(&ctx, cols)});
}

/* ---- golden text ---- */

static void test_golden(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *B = tn__var(c, "B", 1, 512);
  tn_node *x = input(TN_F32, 3, 2, (tn_node *[]){B, tn__int(c, 10)});
  tn_node *half = tn__scalar_to(c, tn__const_num(c, TN_F32, 0.5), x->dim, 2);
  tn_node *y = tn__reduce(c, OP_SUM, tn__mul(c, tn__op1(c, OP_EXP, x), half), (int64_t[]){1}, 1);
  assert_string_equal(print(y), "%1 = var index {\"B\" 1 512}\n"
                                "%2 = storage f32[B,10] %1 10 {3 0}\n"
                                "%3 = exp f32[B,10] %2\n"
                                "%4 = const f32 {0.5}\n"
                                "%5 = reshape f32[1,1] %4 1 1\n"
                                "%6 = expand f32[B,10] %5 %1 10\n"
                                "%7 = mul f32[B,10] %3 %6\n"
                                "%8 = sum f32[B] %7 {1}\n");
  round_trip(y);
  assert_string_equal(print(tn__int(c, -7)), "%1 = const index {-7}\n");
  round_trip(tn__int(c, -7));
  round_trip(tn__storage(c, TN_F32, 1, INT8_MAX, NULL, 0)); /* the last device there can be */
}

static void test_expressions(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *a = tn__range(c, tn__int(c, 8), AX_LOOP, ROLE_OUTPUT, 0),
          *b = tn__range(c, tn__int(c, 8), AX_LOOP, ROLE_OUTPUT, 1);
  tn_node *n = tn__var(c, "N", 1, 100);
  tn_node *f = tn__const_num(c, TN_I32, 3), *g = tn__const_num(c, TN_I32, -4), *load = tn__cast(c, a, TN_I32);
  assert_string_equal(expr(tn__add(c, tn__mul(c, a, tn__int(c, 32)), b)), "r0*32 + r1");
  assert_string_equal(expr(tn__op2(c, OP_IDIV, tn__add(c, a, n), tn__int(c, 3))), "(N + r0)/3");
  tn_node *src[] = {load, g};
  tn_node *sum = tn__node_make(c, &(tn__make){.op = OP_ADD, .src = src, .nsrc = 2});
  assert_string_equal(expr(sum), "i32(r0) - 4");
  assert_string_equal(expr(tn__mul(c, sum, load)), "(i32(r0) - 4)*i32(r0)");
  assert_string_equal(expr(tn__add(c, f, sum)), "3 + (i32(r0) - 4)");
  assert_string_equal(expr(tn__sub(c, load, sum)), "i32(r0) - (i32(r0) - 4)");
  assert_string_equal(expr(tn__op2(c, OP_LT, a, b)), "r0 < r1");
  assert_string_equal(expr(tn__where(c, tn__op2(c, OP_LT, a, b), load, sum)), "r0 < r1 ? i32(r0) : i32(r0) - 4");
  assert_string_equal(expr(tn__op2(c, OP_MAX, load, sum)), "max(i32(r0), i32(r0) - 4)");
  assert_string_equal(expr(tn__neg(c, sum)), "-(i32(r0) - 4)");
}

/* Its text without a bound would have 2^60 names. */
static void test_expression_of_endless_text(void **state) {
  (void)state;
  tn_node *n = tn__cast(&ctx, tn__var(&ctx, "N", 1, 9), TN_I64);
  for (int i = 0; i < 60; i++) n = tn__op2(&ctx, OP_XOR, n, n);
  const char *text = expr(n);
  assert_non_null(strstr(text, "..."));
  assert_true(strlen(text) < 20000);
  tn_node *dim = tn__var(&ctx, "N", 1, 9);
  for (int i = 0; i < 40; i++)
    dim = tn__op2(&ctx, OP_MAX, tn__mul(&ctx, dim, dim), tn__add(&ctx, dim, tn__int(&ctx, 1)));
  round_trip(tn__iota(&ctx, dim));
}

/* ---- constants ---- */

static void test_every_half(void **state) {
  (void)state;
  for (int dtype = TN_F16; dtype <= TN_BF16; dtype++)
    for (uint64_t bits = 0; bits < 65536; bits += 7) round_trip(tn__const_bits(&ctx, dtype, bits));
}

static void test_constants(void **state) {
  (void)state;
  uint64_t seed = 1;
  for (int i = 0; i < 3000; i++) {
    seed = tn__hash_mix(seed, 7);
    for (int dtype = 0; dtype <= TN__INDEX; dtype++) round_trip(tn__const_bits(&ctx, dtype, seed >> (i % 60)));
  }
  static const struct {
    int dtype;
    double v;
    const char *text;
  } golden[] = {
      {TN_F32, 0.1f, "0.1"},      {TN_F64, 0.1, "0.1"},       {TN_F64, -0.0, "-0.0"},      {TN_F32, 1, "1.0"},
      {TN_F32, 1e30, "1e30"},     {TN_F64, 1.5e-7, "1.5e-7"}, {TN_F64, 123456, "123456.0"}, {TN_F16, 65504, "65500.0"},
      {TN_F64, 0.001, "0.001"},   {TN_F64, 12.25, "12.25"},   {TN_F32, -1.0 / 0.0, "-inf"}, {TN_F64, 5e-324, "5e-324"},
      {TN_BOOL, 1, "1"},          {TN_I8, -128, "-128"},      {TN_U8, 255, "255"},
  };
  for (size_t i = 0; i < sizeof golden / sizeof *golden; i++) {
    tn_node *n = tn__const_num(&ctx, golden[i].dtype, golden[i].v);
    assert_string_equal(expr(n), golden[i].text);
    round_trip(n);
  }
  assert_string_equal(expr(tn__const_bits(&ctx, TN_U64, UINT64_MAX)), "18446744073709551615");
  assert_string_equal(expr(tn__const_bits(&ctx, TN_I64, (uint64_t)1 << 63)), "-9223372036854775808");
  assert_string_equal(expr(tn__const_bits(&ctx, TN_F32, 0xffc00001)), "0xffc00001");
}

/* ---- every op ---- */

static void test_tensor_ops(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *x = matrix(TN_F32, 1, 6, 4), *y = matrix(TN_F32, 2, 6, 4), *i = matrix(TN_I32, 3, 6, 4),
          *b = tn__op2(c, OP_LT, x, y);
  tn_node *u = matrix(TN_U64, 4, 6, 4), *k2 = tn__int(c, 2), *k1 = tn__int(c, 1), *k0 = tn__int(c, 0);
  for (int op = 0; op < OP_COUNT; op++) {
    const tn__op_info *info = &tn__ops[op];
    tn_node *of =
        info->dtype_rule == tn__ops[OP_SHL].dtype_rule || info->dtype_rule == tn__ops[OP_NOT].dtype_rule ? i : x;
    if (info->group == G_UNARY) round_trip(tn__op1(c, (tn__op)op, of));
    if (info->group == G_BINARY) round_trip(tn__op2(c, (tn__op)op, of, of == i ? i : y));
    if (info->group == G_REDUCE) round_trip(tn__reduce(c, (tn__op)op, x, (int64_t[]){0, 1}, 2));
  }
  round_trip(tn__where(c, b, x, y));
  round_trip(tn__op3(c, OP_FMA, x, y, x));
  round_trip(tn__node_make(c, &(tn__make){.op = OP_PHILOX, .dtype = TN_U32, .src = (tn_node *[]){u, u, u}, .nsrc = 3}));
  round_trip(tn__cast(c, x, TN_BF16));
  round_trip(tn__bitcast(c, x, TN_U32));
  round_trip(tn__reshape(c, x, (tn_node *[]){tn__int(c, 24)}, 1));
  round_trip(tn__permute(c, x, (int64_t[]){1, 0}));
  round_trip(tn__pad(c, x, (tn_node *[]){k1, k0, k2, k2}));
  round_trip(tn__shrink(c, x, (tn_node *[]){k1, k0}, (tn_node *[]){k2, k2}, (int64_t[]){2, 3}));
  round_trip(tn__flip(c, x, (int64_t[]){1}, 1));
  tn_node *w = tn__window(c, x, 0, 3, 2, 1);
  round_trip(w);
  round_trip(tn__fold(c, w, tn__int(c, 6), 0, 3, 2, 1));
  tn_node *index = input(TN_I64, 5, 1, (tn_node *[]){tn__int(c, 3)});
  round_trip(tn__gather(c, x, index));
  round_trip(tn__scatter(c, x, index, tn__gather(c, y, index)));
  round_trip(tn__scatter_by(c, OP_MAX, x, index, tn__gather(c, y, index)));
  round_trip(tn__contract(c, x, y, 0, 1, 1, 1));
  round_trip(tn__op1(c, OP_DETACH, x));
  round_trip(tn__node_make(c, &(tn__make){.op = OP_CONTIG, .src = &x, .nsrc = 1}));
  round_trip(tn__node_make(c, &(tn__make){.op = OP_ASSIGN, .src = (tn_node *[]){x, y}, .nsrc = 2}));
  round_trip(tn__op2(c, OP_EITHER, x, y));
  round_trip(tn__sink(c, (tn_node *[]){x, y, i}, 3, "a \"name\" with \\ and \x01"));
  round_trip(tn__sink(c, NULL, 0, NULL));
  round_trip(tn__sink(c, (tn_node *[]){tn__iota(c, k2), tn__cast(c, tn__var(c, "N", 1, 4), TN_F32)}, 2, "s"));
}

static void test_kernel_ops(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *n = tn__int(c, 64), *buf = tn__param(c, TN_F32, 0, -1, &n, 1);
  tn_node *r = tn__range(c, n, AX_GLOBAL, ROLE_OUTPUT, 0),
          *k = tn__range(c, tn__int(c, 8), AX_REDUCE, ROLE_REDUCTION, 1);
  tn_node *load = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){buf, tn__add(c, r, k)}, .nsrc = 2});
  int64_t ints[] = {OP_ADD, 1};
  tn_node *sum =
      tn__node_make(c, &(tn__make){.op = OP_REDUCE, .src = (tn_node *[]){load, k}, .nsrc = 2, .ints = ints, .nint = 2});
  tn_node *store = tn__node_make(c, &(tn__make){.op = OP_STORE, .src = (tn_node *[]){buf, r, sum, r}, .nsrc = 4});
  tn_node *sink = tn__sink(c, &store, 1, "kernel");
  assert_string_equal(print(sink), "%1 = param f32[64] 64 {0 -1}\n"
                                   "%2 = range index 64 {global 0 output}\n"
                                   "%3 = range index 8 {reduce 1 reduction}\n"
                                   "%4 = add index %2 %3\n"
                                   "%5 = load f32 %1 %4\n"
                                   "%6 = reduce f32 %5 %3 {add 1}\n"
                                   "%7 = store void %1 %2 %6 %2\n"
                                   "%8 = sink void %7 {\"kernel\"}\n");
  round_trip(sink);
}

static tn_node *require(tn_node *buf, tn_node *lo, tn_node *hi, int64_t what) {
  tn_node *src[] = {buf, lo, hi};
  return tn__node_make(
      &ctx, &(tn__make){.op = OP_REQUIRE, .src = src, .nsrc = lo ? 3 : 1, .ints = &what, .nint = 1});
}

static void test_requirements(void **state) {
  (void)state;
  tn_ctx *c = &ctx;
  tn_node *n = tn__int(c, 64), *size = tn__var(c, "N", 1, 64), *buf = tn__param(c, TN_I32, 1, -1, &n, 1);
  tn_node *all[] = {require(buf, NULL, NULL, REQ_DISTINCT), require(buf, NULL, NULL, REQ_SORTED),
                    require(buf, tn__int(c, -3), size, REQ_IN), require(buf, NULL, NULL, REQ_PERMUTED)};
  tn_node *sink = tn__sink(c, all, REQ_COUNT, "kernel");
  for (int i = 0; i < REQ_COUNT; i++) assert_int_equal(all[i]->ints[0], i);
  assert_string_equal(print(sink), "%1 = param i32[64] 64 {1 -1}\n"
                                   "%2 = require void %1 {distinct}\n"
                                   "%3 = require void %1 {sorted}\n"
                                   "%4 = var index {\"N\" 1 64}\n"
                                   "%5 = require void %1 -3 %4 {in}\n"
                                   "%6 = require void %1 {permuted}\n"
                                   "%7 = sink void %2 %3 %5 %6 {\"kernel\"}\n");
  round_trip(sink);
}

static void test_deep_chain(void **state) {
  (void)state;
  tn_node *n = matrix(TN_F32, 1, 2, 2);
  for (int i = 0; i < 200000; i++) n = tn__op1(&ctx, i & 1 ? OP_SIN : OP_NEG, n);
  round_trip(n);
}

/* ---- what the parser rejects ---- */

static void reject(const char *text, int line, int column, const char *part) {
  char place[64];
  snprintf(place, sizeof place, "line %d, column %d:", line, column);
  tn_clear_error(&ctx);
  job j = {.text = text};
  if (tn__ctx_run(&ctx, "", parse_job, &j)) fail_msg("accepted: %s", text);
  const tn_error *e = tn_last_error(&ctx);
  assert_int_equal(e->status, TN_EFORMAT);
  if (!strstr(e->text, place) || !strstr(e->text, part))
    fail_msg("wanted '%s' and '%s', got '%s'", place, part, e->text);
}

static void test_rejects(void **state) {
  (void)state;
  reject("", 1, 1, "no node");
  reject("# only a comment\n\n", 3, 1, "no node");
  reject("x", 1, 1, "expected %number");
  reject("%x = const f32 {1}", 1, 2, "number");
  reject("%1 const f32 {1}", 1, 4, "=");
  reject("%1 = konst f32 {1}", 1, 6, "unknown op");
  reject("%1 = const f33 {1}", 1, 12, "unknown dtype");
  reject("%1 = const f32", 1, 15, "one constant");
  reject("%1 = const f32 {1 2}", 1, 21, "one constant");
  reject("%1 = const f32 {1", 1, 18, "blank or }");
  reject("%1 = const f32 {1..2}", 1, 17, "number");
  reject("%1 = const f32 {e5}", 1, 17, "number");
  reject("%1 = const f32 {0x1ffffffff}", 1, 27, "too wide");
  reject("%1 = const i8 {128}", 1, 19, "does not fit");
  reject("%1 = const u8 {-1}", 1, 18, "does not fit");
  reject("%1 = const bool {2}", 1, 19, "does not fit");
  reject("%1 = const u64 {18446744073709551616}", 1, 36, "too large");
  reject("%1 = const i64 {9223372036854775808}", 1, 35, "too large");
  reject("%1 = const f32 {1}\n%1 = const f32 {2}", 2, 1, "taken");
  reject("%1 = const f32 {1}\n%2 = neg f32 %3", 2, 14, "not been defined");
  reject("%1 = const f32 {1}\n%2 = neg f64 %1", 2, 10, "the type is f32");
  reject("%1 = const f32 {1}\n%2 = neg f32[1] %1", 2, 10, "the type is f32");
  reject("%1 = const f32 {1}\n%2 = neg f32[1 %1", 2, 18, "no end");
  reject("%1 = const f32 {1}\n%2 = neg f32 %1 {1}", 2, 17, "no argument");
  reject("%1 = const f32 {1}\n%2 = neg f32 %1 x", 2, 17, "integer");
  reject("%1 = const f32 {1}\n%2 = neg f32 %1%1", 2, 16, "blank");
  reject("%1 = const f32 {1}\n%2 = add f32 %1", 2, 1, "sources");
  reject("%1 = const f32 {1}\n%2 = const f64 {1}\n%3 = add f32 %1 %2", 3, 1, "dtypes");
  reject("%1 = storage f32[2,3] 2 3 {0}", 1, 30, "{number device}");
  reject("%1 = storage f32 {0 128}", 1, 25, "{number device}");
  reject("%1 = storage f32[2,4] 2 3 {0 0}", 1, 14, "the type is f32[2,3]");
  reject("%1 = storage f32[2,3] 2 3 {0 0}\n%2 = permute f32[3,2] %1 {1 1}", 2, 1, "axes once");
  reject("%1 = storage f32[2,3] 2 3 {0 0}\n%2 = sum f32[2] %1 {7}", 2, 1, "out of range");
  reject("%1 = storage f32[2,3] 2 3 {0 0}\n%2 = reshape f32[7] %1 7", 2, 1, "elements");
  reject("%1 = range index 64 {nowhere 0}", 1, 22, "unknown word");
  reject("%1 = sink void {nowhere 0}", 1, 17, "unknown word");
  reject("%1 = var index {\"B 1 2}", 1, 24, "no end");
  reject("%1 = var index {\"B\\z\" 1 2}", 1, 19, "escape");
  reject("%1 = var index {\"B\" 5 2}", 1, 1, "empty");
  reject("%1 = var index {\"[\" 0 3}", 1, 1, "letters, digits"); /* shapes would have no end */
  reject("%1 = var index {\"\" 0 3}", 1, 1, "letters, digits");
  reject("%1 = var index {\"#loaded0\" 0 3}", 1, 1, "letters, digits"); /* a stand-in's */
  reject("%1 = var index {\"3B\" 0 3}", 1, 1, "letters, digits");
#define BUFFER "%1 = param i32[8] 8 {1 -1}\n"
  reject(BUFFER "%2 = require void %1 {unique}", 2, 23, "unknown word");
  reject(BUFFER "%2 = require void %1 {4}", 2, 1, "no such requirement");
  reject(BUFFER "%2 = require void %1 {-1}", 2, 1, "no such requirement");
  reject(BUFFER "%2 = require void %1", 2, 1, "takes 1 integers");
  reject(BUFFER "%2 = require void %1 {distinct sorted}", 2, 32, "unknown word");
  reject(BUFFER "%2 = require void %1 {distinct 1}", 2, 1, "takes 1 integers");
  reject(BUFFER "%2 = require void {distinct}", 2, 1, "takes 1 to 3 sources");
  reject(BUFFER "%2 = require void %1 0 8 {distinct}", 2, 1, "distinct takes no numbers");
  reject(BUFFER "%2 = require void %1 {in}", 2, 1, "in takes the least value, and the first one beyond");
  reject(BUFFER "%2 = require void %1 8 {in}", 2, 1, "in takes the least value, and the first one beyond");
  reject(BUFFER "%2 = require void %1 9 8 {in}", 2, 1, "no number lies there");
  reject(BUFFER "%2 = require void %1 8 8 {in}", 2, 1, "no number lies there");
  round_trip(tn__parse(&ctx, BUFFER "%2 = require void %1 8 9 {in}"));
  round_trip(tn__parse(&ctx, "%1 = param i32[0] 0 {1 -1}\n%2 = require void %1 8 8 {in}")); /* of no elements */
  reject(BUFFER "%2 = const i32 {0}\n%3 = require void %1 %2 8 {in}", 3, 1, "argument 2 is no size");
  reject("%1 = param f32[8] 8 {1 -1}\n%2 = require void %1 {sorted}", 2, 1, "it is said of integers");
  reject("%1 = param bool[8] 8 {1 -1}\n%2 = require void %1 {distinct}", 2, 1, "it is said of integers");
  reject("%1 = local i32 8 {0 0}\n%2 = require void %1 {sorted}", 2, 1, "said of a buffer that the kernel is given");
  reject("%99999999999999999999 = const f32 {1}", 1, 20, "too large");
}

/* An error of an earlier call stays the first one. */
static void test_first_error_stays(void **state) {
  (void)state;
  tn_clear_error(&ctx);
  tn__error(&ctx, TN_EIO, "earlier");
  job j = {.text = "%1 = const f32 {1}\n%2 = add f32 %1"};
  assert_false(tn__ctx_run(&ctx, "", parse_job, &j));
  assert_int_equal(tn_last_error(&ctx)->status, TN_EIO);
  tn_clear_error(&ctx);
}

static void test_free_form(void **state) {
  (void)state;
  job j = {.text = "# a comment\n\n  %7=const   f32{2.5}   # here too\r\n%3 = storage f32[2, 3] 2 3 {0 0}\n\t%5 = neg "
                   "f32[ 2,3 ] %3"};
  ctx.depth++;
  assert_true(tn__ctx_run(&ctx, "", parse_job, &j));
  ctx.depth--;
  assert_ptr_equal(j.node, tn__neg(&ctx, matrix(TN_F32, 0, 2, 3)));
}

/* Memory runs out at each allocation in turn: an error, and nothing leaks (the teardown looks). */
static void test_out_of_memory(void **state) {
  (void)state;
  tn__sb text;
  tn__sb_init(&text, &ctx.scratch);
  tn__sb_puts(&text, "%1 = var index {\"B\" 1 512}\n%2 = storage f32[B,10] %1 10 {3 0}\n");
  for (int i = 3; i < 300; i++) tn__sb_printf(&text, "%%%d = %s f32[B,10] %%%d\n", i, i & 1 ? "sin" : "neg", i - 1);
  char *copy = tn__mem_alloc(&ctx.mem, text.n + 1);
  memcpy(copy, text.s, text.n + 1);
  job j = {.text = copy};
  for (int64_t n = 1;; n++) {
    ctx.mem.fail_at = ctx.mem.count + n;
    bool good = tn__ctx_run(&ctx, "", parse_job, &j);
    ctx.mem.fail_at = 0;
    if (good) break;
    assert_int_equal(tn_last_error(&ctx)->status, TN_ENOMEM);
    tn_clear_error(&ctx);
    if (n > 20) n += 17;
  }
  tn__mem_free(&ctx.mem, copy);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_golden, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_expressions, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_expression_of_endless_text, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_every_half, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_constants, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_tensor_ops, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_kernel_ops, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_requirements, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_deep_chain, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_rejects, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_first_error_stays, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_free_form, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_out_of_memory, open_ctx, close_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
