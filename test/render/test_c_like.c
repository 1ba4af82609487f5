/* The text of generated C, on a few kernels. */
#include "render/dialect.h"
#include "support/ctx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "support/linear.h"

static int setup(void **state) {
  static tn_ctx c;
  *state = &c;
  if (!test_ctx_open(&c)) return -1;
  c.vector_bytes = 16;
  return 0;
}

static int teardown(void **state) { return test_ctx_close(*state) == 0 ? 0 : -1; }

/* The unit without the helper texts. */
static const char *rendered(tn_ctx *c, lin *l) {
  tn__dialect bare = tn__dialect_c;
  const char *const no_head[] = {NULL};
  tn__kernel *k = &l->k;
  tn__sb out;
  bare.head = no_head;
  tn__sb_init(&out, &c->scratch);
  tn__render_unit(c, &out, &bare, &k, 1);
  return tn__sb_str(&out);
}

static void test_elementwise(void **state) {
  tn_ctx *c = *state;
  lin *l = lin_new(c, "E");
  tn_node *out = lin_buf(l, TN_F16, true), *x = lin_buf(l, TN_F16, false), *m = lin_buf(l, TN_BOOL, false);
  tn_node *r = lin_range(l, lin_var(l, "n", 0, 100), AX_GLOBAL, 0), *gate = lin_load(l, m, r, NULL),
          *v = lin_load(l, x, r, gate);
  tn_node *w = lin_op2(l, OP_ADD, v, tn__const_num(c, TN_F16, -1.5));
  lin_store(l, OP_STORE, out, r, lin_op1(l, OP_EXP, w), gate);
  lin_end(l, r);
  l->k.note = "split 0 by 8";
  assert_string_equal(rendered(c, l),
                      "\n/* split 0 by 8 */\n"
                      "void E_0(void *const *buf, const i64 *var, i64 lo, i64 hi, char *scratch) {\n"
                      "  u16 *restrict b0 = buf[0];\n"
                      "  const u16 *restrict b1 = buf[1];\n"
                      "  const u8 *restrict b2 = buf[2];\n"
                      "  for (i64 i0 = lo; i0 < hi; i0++) {\n"
                      "    const _Bool v0 = b2[i0] != 0;\n"
                      "    const f32 v1 = v0 ? tn_f16_of(b1[i0]) : 0;\n"
                      "    const f32 v2 = tn_f16_round(v1 + tn_f16_of(0xbe00));\n"
                      "    const f32 x3 = tn_exp_f32(v2);\n"
                      "    const f32 v3 = tn_f16_round(x3);\n"
                      "    if (v0) b0[i0] = tn_f16_bits(x3);\n"
                      "  }\n"
                      "}\n"
                      "\n"
                      "i64 E_0_extent(const i64 *var) {\n"
                      "  const i64 s0 = var[0];\n"
                      "  return s0;\n"
                      "}\n");
}

/* A sum in lanes, printed for the full and for the short count. */
static void test_lanes(void **state) {
  tn_ctx *c = *state;
  lin *l = lin_new(c, "S");
  tn_node *out = lin_buf(l, TN_F32, true), *x = lin_buf(l, TN_F32, false), *K = lin_var(l, "K", 0, 64),
          *four = tn__int(c, 4);
  tn_node *acc = lin_acc(l, tn__const_num(c, TN_F32, 0), 0, 4),
          *rounds = lin_op2(l, OP_IDIV, lin_op2(l, OP_ADD, K, tn__int(c, 3)), four);
  tn_node *k = lin_range(l, rounds, AX_REDUCE, 0), *from = lin_op2(l, OP_MUL, k, four);
  tn_node *count = lin_op2(l, OP_MIN, lin_op2(l, OP_ADD, K, lin_op1(l, OP_NEG, from)), four),
          *u = lin_range(l, count, AX_UPCAST, 1);
  lin_setacc(l, OP_ADD, acc, lin_load(l, x, lin_op2(l, OP_ADD, from, u), NULL), u);
  lin_end(l, u);
  tn_node *end = lin_end(l, k);
  lin_store(l, OP_STORE, out, tn__int(c, 0), lin_getacc(l, OP_ADD, acc, end, NULL), NULL);
  assert_string_equal(rendered(c, l),
                      "\n"
                      "void S_0(void *const *buf, const i64 *var, i64 lo, i64 hi, char *scratch) {\n"
                      "  f32 *restrict b0 = buf[0];\n"
                      "  const f32 *restrict b1 = buf[1];\n"
                      "  const i64 s0 = var[0];\n"
                      "  f32x4 a0_0 = tn_all_f32x4(0x0p+0f);\n"
                      "  const i64 v0 = s0 + 3l;\n"
                      "  const i64 v1 = v0 / 4l;\n"
                      "  for (i64 i0 = 0; i0 < v1; i0++) {\n"
                      "    const i64 v2 = i0 * 4l;\n"
                      "    const i64 v3 = i0 * (-4l);\n"
                      "    const i64 v4 = s0 + v3;\n"
                      "    const i64 v5 = tn_min_i64(v4, 4l);\n"
                      "    if (v5 == 4) {\n"
                      "      {\n"
                      "        const i64 i1 = 0;\n"
                      "        const i64 v6 = v2 + i1;\n"
                      "        const f32x4 v7 = tn_load_f32x4(&b1[v6]);\n"
                      "        a0_0 = a0_0 + v7;\n"
                      "      }\n"
                      "    } else {\n"
                      "      if (0 < v5) {\n"
                      "        const i64 i1 = 0;\n"
                      "        const boolx4 t0 = tn_first_boolx4(v5 - 0);\n"
                      "        const i64 v8 = v2 + i1;\n"
                      "        const f32x4 v9 = tn_load_if_f32x4(&b1[v8], t0);\n"
                      "        a0_0 = tn_where_f32x4(t0, (a0_0 + v9), a0_0);\n"
                      "      }\n"
                      "    }\n"
                      "  }\n"
                      "  const f32x4 h10 = a0_0 + tn_across_f32x4(a0_0, 2);\n"
                      "  const f32x4 h11 = h10 + tn_across_f32x4(h10, 1);\n"
                      "  const f32 v12 = h11[0];\n"
                      "  b0[0l] = v12;\n"
                      "}\n"
                      "\n"
                      "i64 S_0_extent(const i64 *var) {\n"
                      "  return 1l;\n"
                      "}\n");
}

/* Sums for five places two cells apart, and cells backwards: without masks, and lanes that nobody wants sum up, too. */
static void test_apart(void **state) {
  tn_ctx *c = *state;
  lin *l = lin_new(c, "A");
  c->vector_bytes = 32;
  tn_node *out = lin_buf(l, TN_F32, true), *x = lin_buf(l, TN_F32, false), *y = lin_buf(l, TN_F32, false);
  tn_node *acc = lin_acc(l, tn__const_num(c, TN_F32, 0), 0, 8);
  tn_node *k = lin_range(l, tn__int(c, 3), AX_REDUCE, 0), *u = lin_range(l, tn__int(c, 5), AX_UPCAST, 1);
  tn_node *at = lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, u, tn__int(c, 2)), k);
  lin_setacc(l, OP_ADD, acc, lin_load(l, x, at, NULL), u);
  lin_end(l, u);
  tn_node *end = lin_end(l, k), *w = lin_range(l, tn__int(c, 5), AX_UPCAST, 2);
  tn_node *back = lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, w, tn__int(c, -1)), tn__int(c, 4));
  tn_node *sum = lin_op2(l, OP_ADD, lin_getacc(l, OP_ADD, acc, end, w), lin_load(l, y, back, NULL));
  lin_store(l, OP_STORE, out, w, sum, NULL);
  lin_end(l, w);
  const char *text = rendered(c, l);
  assert_non_null(strstr(text, " = tn_apart_f32x8(&b1[v"));
  assert_non_null(strstr(text, ", 2, 5);"));
  assert_non_null(strstr(text, " = tn_back_f32x8(&b2[v"));
  assert_null(strstr(text, "tn_where_"));
  assert_null(strstr(text, "tn_spaced_"));
}

/* The greatest of rows of so many bytes, 64 rows side by side */
static const char *greatest_of_rows(tn_ctx *c, int64_t terms) {
  lin *l = lin_new(c, "G");
  c->vector_bytes = 32;
  tn_node *out = lin_buf(l, TN_U8, true), *x = lin_buf(l, TN_U8, false);
  tn_node *acc = lin_acc(l, tn__const_num(c, TN_U8, 0), 0, 64);
  tn_node *k = lin_range(l, tn__int(c, terms), AX_REDUCE, 0), *u = lin_range(l, tn__int(c, 64), AX_UPCAST, 1);
  tn_node *at = lin_op2(l, OP_ADD, lin_op2(l, OP_MUL, u, tn__int(c, terms)), k);
  lin_setacc(l, OP_MAX, acc, lin_load(l, x, at, NULL), u);
  lin_end(l, u);
  tn_node *end = lin_end(l, k), *w = lin_range(l, tn__int(c, 64), AX_UPCAST, 2);
  lin_store(l, OP_STORE, out, w, lin_getacc(l, OP_MAX, acc, end, w), NULL);
  lin_end(l, w);
  return rendered(c, l);
}

/* Rows of few bytes: turns are written out, and bytes that are few apart are loaded by vectors, which are as long as
 * there are any.  Of more, each lane's number is needed. */
static void test_few_terms(void **state) {
  tn_ctx *c = *state;
  const char *text = greatest_of_rows(c, 3);
  assert_non_null(strstr(text, "  #pragma GCC unroll 3\n  for (i64 i0 = 0; i0 < 3l; i0++) {"));
  assert_non_null(strstr(text, "  u8x32 a0_1 = "));
  assert_non_null(strstr(text, " = tn_apart_u8x32(&b1[v"));
  text = greatest_of_rows(c, 5);
  assert_null(strstr(text, "#pragma"));
  assert_non_null(strstr(text, " = tn_gather_u8x8(&b1[v"));
}

/* Numbers of 32 bits that are stored as i64 have the lanes of 32 bits. */
static void test_narrow_stores(void **state) {
  tn_ctx *c = *state;
  lin *l = lin_new(c, "N");
  c->vector_bytes = 32;
  tn_node *out = lin_buf(l, TN_I64, true), *x = lin_buf(l, TN_I32, false);
  tn_node *u = lin_range(l, tn__int(c, 100), AX_UPCAST, 0), *v = lin_load(l, x, u, NULL);
  lin_store(l, OP_STORE, out, u, lin_add(l, tn__cast(c, v, TN_I64)), NULL);
  lin_end(l, u);
  const char *text = rendered(c, l);
  assert_non_null(strstr(text, "tn_store_wide_i32x8(&b0[i0], v"));
  assert_non_null(strstr(text, "tn_store_wide_if_i32x8(&b0[i0], v"));
  assert_null(strstr(text, "i64x4"));
}

/* Constants are exact, whatever they are. */
static void test_constants(void **state) {
  tn_ctx *c = *state;
  static const struct {
    int dtype;
    uint64_t bits;
    const char *text;
  } cases[] = {{TN_BOOL, 1, "1"},
               {TN_I8, (uint64_t)-7, "(-7)"},
               {TN_I32, (uint64_t)INT32_MIN, "(-2147483647 - 1)"},
               {TN_I64, (uint64_t)INT64_MIN, "(-9223372036854775807l - 1)"},
               {TN_I64, (uint64_t)INT32_MIN, "(-2147483648l)"},
               {TN_U32, 4000000000u, "4000000000u"},
               {TN_U64, UINT64_MAX, "18446744073709551615ul"},
               {TN_F32, 0x3dcccccd, "0x1.99999ap-4f"},
               {TN_F32, 0x80000000, "(-0x0p+0f)"},
               {TN_F32, 0xff800000, "(-__builtin_inff())"},
               {TN_F32, 0x7fc00001, "tn_f32_of(0x7fc00001u)"},
               {TN_F64, 0x3fb999999999999aul, "0x1.999999999999ap-4"},
               {TN_F64, 0x7ff0000000000000ul, "(__builtin_inff())"},
               {TN_F64, 0xfff8000000000000ul, "tn_f64_of(0xfff8000000000000ul)"},
               {TN_BF16, 0x3f80, "tn_bf16_of(0x3f80)"}};
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    tn__sb b;
    tn__sb_init(&b, &c->scratch);
    tn__render_constant(&b, &tn__dialect_c, cases[i].dtype, cases[i].bits);
    assert_string_equal(tn__sb_str(&b), cases[i].text);
  }
}

/* Every op that may stand in a linear program has a spelling or is a call of a helper: never a hole. */
static void test_every_op_prints(void **state) {
  tn_ctx *c = *state;
  for (int op = 0; op < OP_COUNT; op++) {
    if (tn__ops[op].group < G_UNARY || tn__ops[op].group > G_TERNARY) continue;
    int dtype = tn__ops[op].dtype_rule == tn__ops[OP_SHL].dtype_rule || op == OP_NOT || op == OP_AND || op == OP_OR ||
                        op == OP_XOR
                    ? TN_I32
                : op == OP_PHILOX ? TN_U64
                                  : TN_F32;
    lin *l = lin_new(c, "op");
    tn_node *out = lin_buf(l, dtype, true), *src[3], *zero = tn__int(c, 0);
    for (uint32_t s = 0; s < tn__ops[op].min_src; s++)
      src[s] = lin_load(l, lin_buf(l, op == OP_WHERE && s == 0 ? TN_BOOL : dtype, false), zero, NULL);
    tn_node *v = lin_add(l, tn__node_make(c, &(tn__make){.op = (tn__op)op,
                                                         .dtype = op == OP_PHILOX ? TN_U32 : dtype,
                                                         .src = src,
                                                         .nsrc = tn__ops[op].min_src}));
    lin_store(l, OP_STORE, out, zero, v->dtype == dtype ? v : lin_add(l, tn__cast(c, v, dtype)), NULL);
    const char *text = rendered(c, l);
    assert_null(strchr(text, '$'));
    assert_non_null(strstr(text, "b0[0l] = v"));
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_elementwise, setup, teardown),
      cmocka_unit_test_setup_teardown(test_lanes, setup, teardown),
      cmocka_unit_test_setup_teardown(test_apart, setup, teardown),
      cmocka_unit_test_setup_teardown(test_few_terms, setup, teardown),
      cmocka_unit_test_setup_teardown(test_narrow_stores, setup, teardown),
      cmocka_unit_test_setup_teardown(test_constants, setup, teardown),
      cmocka_unit_test_setup_teardown(test_every_op_prints, setup, teardown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
