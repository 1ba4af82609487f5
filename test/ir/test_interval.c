/* The interval of every scalar op contains every value that the evaluator gives, and is tight where rewriting needs it.
 */
#include "ir/eval.h"
#include "ir/shape.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static const int dtypes[] = {TN_BOOL, TN_I8, TN_U8, TN_I32, TN_U32, TN_I64, TN_U64, TN__INDEX};
enum { DTYPES = sizeof dtypes / sizeof *dtypes, CLUSTER = 9, MAX_SPANS = 120 };

typedef struct span {
  int64_t lo, hi, value[3 * CLUSTER]; /* values in lo..hi to try: all of them, or all near the ends and 0 */
  int n;
} span;

/* Values around 0 and at both ends of the dtype, ascending, as the evaluator writes them. */
static int points(int dtype, int64_t *out) {
  int64_t all[3 * CLUSTER];
  int n = 0, m = 0;
  int bits = 8 * (int)tn__size_of(dtype);
  for (int64_t i = 0; i < 4; i++) all[n++] = INT64_MIN + i, all[n++] = INT64_MAX - i;
  for (int64_t i = 0; i < 4; i++)
    all[n++] = bits < 64 ? -((int64_t)1 << (bits - 1)) + i : i,
    all[n++] = bits < 64 ? ((int64_t)1 << (bits - 1)) - 1 - i : -i;
  for (int64_t i = -4; i <= 5; i++) all[n++] = i;
  for (int i = 0; i < n; i++) {
    uint64_t v = (uint64_t)all[i];
    bool there = tn__eval_cast(TN_I64, dtype, v) != v;
    for (int j = 0; j < m; j++) there |= out[j] == all[i];
    if (!there) out[m++] = all[i];
  }
  for (int i = 1; i < m; i++)
    for (int j = i; j && out[j - 1] > out[j]; j--) {
      int64_t t = out[j];
      out[j] = out[j - 1], out[j - 1] = t;
    }
  return m;
}

/* Every span between two points. */
static int spans(int dtype, span *out) {
  int64_t p[3 * CLUSTER];
  int n = points(dtype, p), m = 0;
  for (int i = 0; i < n; i++)
    for (int j = i; j < n; j++) {
      if (j - i > 4 && j != n - 1 && (i || j % 3)) continue; /* wide ones: a sample */
      if (m == MAX_SPANS) fail_msg("too many spans");
      span *s = &out[m++];
      *s = (span){.lo = p[i], .hi = p[j], .n = j - i + 1};
      memcpy(s->value, p + i, (size_t)s->n * sizeof *p);
    }
  return m;
}

static tn_node sources[3], *source[3] = {sources, sources + 1, sources + 2};

static tn_node node(int op, int dtype, uint32_t nsrc) {
  return (tn_node){.op = (uint8_t)op, .dtype = (uint8_t)dtype, .nsrc = nsrc, .src = source};
}

static void set(int i, int dtype, int64_t lo, int64_t hi) {
  sources[i] = (tn_node){.op = OP_PARAM, .dtype = (uint8_t)dtype, .lo = lo, .hi = hi};
}

static void check(tn_node *n, int sdtype, const uint64_t *arg) {
  int64_t v = (int64_t)tn__eval(n->op, n->dtype, sdtype, arg);
  if (v < n->lo || v > n->hi)
    fail_msg("%s of %s (%ld %ld %ld) = %ld is not in %ld..%ld; sources %ld..%ld, %ld..%ld", tn__ops[n->op].text,
             tn__dtypes[sdtype].name, (long)arg[0], (long)arg[1], (long)arg[2], (long)v, (long)n->lo, (long)n->hi,
             (long)sources[0].lo, (long)sources[0].hi, (long)sources[1].lo, (long)sources[1].hi);
}

static void cover(int op, int dtype, int sdtype, const span *a, const span *b) {
  uint32_t nsrc = tn__ops[op].max_src;
  tn_node n = node(op, dtype, nsrc);
  set(0, sdtype, a->lo, a->hi);
  set(1, sdtype, b->lo, b->hi);
  set(2, sdtype, a->lo, b->hi); /* fma's addend: two of its values */
  if (op == OP_FMA && a->lo > b->hi) return;
  tn__interval(&n, &n.lo, &n.hi);
  for (int i = 0; i < a->n; i++)
    for (int j = 0; j < (nsrc > 1 ? b->n : 1); j++) {
      uint64_t arg[3] = {(uint64_t)a->value[i], (uint64_t)b->value[j], (uint64_t)a->lo};
      check(&n, sdtype, arg);
      arg[2] = (uint64_t)b->hi;
      check(&n, sdtype, arg);
    }
}

static bool takes(int op, int dtype) { return op != OP_PHILOX && op != OP_WHERE && tn__op_takes(op, dtype); }

static void test_contains(void **state) {
  (void)state;
  static span list[MAX_SPANS];
  for (int d = 0; d < DTYPES; d++) {
    int n = spans(dtypes[d], list);
    for (int op = 0; op < OP_COUNT; op++) {
      int group = tn__ops[op].group;
      if (group < G_UNARY || group > G_TERNARY || !takes(op, dtypes[d])) continue;
      int dtype = tn__ops[op].dtype_rule == DT_BOOL ? TN_BOOL : dtypes[d];
      for (int i = 0; i < n; i++)
        for (int j = 0; j < (group == G_UNARY ? 1 : n); j++) cover(op, dtype, dtypes[d], &list[i], &list[j]);
    }
  }
}

static void test_casts_contain(void **state) {
  (void)state;
  static span list[MAX_SPANS];
  for (int from = 0; from < DTYPES; from++) {
    int n = spans(dtypes[from], list);
    for (int to = 0; to < DTYPES; to++)
      for (int i = 0; i < n; i++) {
        cover(OP_CAST, dtypes[to], dtypes[from], &list[i], &list[i]);
        if (tn__size_of(dtypes[to]) == tn__size_of(dtypes[from]))
          cover(OP_BITCAST, dtypes[to], dtypes[from], &list[i], &list[i]);
      }
  }
}

static void expect(int op, int dtype, int64_t a, int64_t b, int64_t c, int64_t d, int64_t lo, int64_t hi) {
  tn_node n = node(op, tn__ops[op].dtype_rule == DT_BOOL ? TN_BOOL : dtype, tn__ops[op].max_src);
  set(0, dtype, a, b);
  set(1, dtype, c, d);
  tn__interval(&n, &n.lo, &n.hi);
  if (n.lo != lo || n.hi != hi)
    fail_msg("%s of %ld..%ld, %ld..%ld: %ld..%ld, not %ld..%ld", tn__ops[op].text, (long)a, (long)b, (long)c, (long)d,
             (long)n.lo, (long)n.hi, (long)lo, (long)hi);
}

static void test_tight(void **state) {
  (void)state;
  expect(OP_ADD, TN__INDEX, 0, 9, 5, 7, 5, 16);
  expect(OP_ADD, TN__INDEX, 0, INT64_MAX, 0, 1, INT64_MIN, INT64_MAX); /* may wrap */
  expect(OP_ADD, TN__INDEX, 0, INT64_MAX - 1, 0, 1, 0, INT64_MAX);
  expect(OP_MUL, TN__INDEX, -3, 4, -5, 6, -20, 24);
  expect(OP_MUL, TN_I8, 0, 11, 0, 11, 0, 121);
  expect(OP_MUL, TN_I8, 0, 11, 0, 12, -128, 127);
  expect(OP_NEG, TN__INDEX, INT64_MIN, 0, 0, 0, INT64_MIN, INT64_MAX);
  expect(OP_NEG, TN__INDEX, -4, 7, 0, 0, -7, 4);
  expect(OP_IDIV, TN__INDEX, 0, 31, 8, 8, 0, 3);
  expect(OP_IDIV, TN__INDEX, -1, 31, 8, 8, -1, 3);
  expect(OP_IDIV, TN__INDEX, 6, 7, -2, 0, -7, 0);
  expect(OP_MOD, TN__INDEX, 0, 100, 8, 8, 0, 7);
  expect(OP_MOD, TN__INDEX, 16, 19, 8, 8, 0, 3); /* one period */
  expect(OP_MOD, TN__INDEX, 0, 4, 5, 9, 0, 4);
  expect(OP_MOD, TN__INDEX, -9, 9, -4, -4, -3, 0);
  expect(OP_MOD, TN__INDEX, 5, 90, 0, 8, 0, 90); /* x mod 0 = x */
  expect(OP_MIN, TN__INDEX, 0, 9, 4, 5, 0, 5);
  expect(OP_MAX, TN__INDEX, 0, 9, 4, 5, 4, 9);
  expect(OP_LT, TN__INDEX, 0, 7, 8, 9, 1, 1);
  expect(OP_LT, TN__INDEX, 8, 9, 0, 8, 0, 0);
  expect(OP_LT, TN__INDEX, 0, 8, 8, 9, 0, 1);
  expect(OP_LE, TN__INDEX, 0, 8, 8, 9, 1, 1);
  expect(OP_EQ, TN__INDEX, 0, 7, 8, 9, 0, 0);
  expect(OP_NE, TN__INDEX, 3, 3, 3, 3, 0, 0);
  expect(OP_AND, TN_U32, 0, 1000, 0, 15, 0, 15);
  expect(OP_OR, TN_U32, 0, 5, 0, 9, 0, 15);
  expect(OP_SHL, TN_U32, 1, 3, 0, 4, 1, 48);
  expect(OP_SHR, TN_I32, -8, 100, 1, 2, -4, 50);
  expect(OP_ADD, TN_BOOL, 0, 1, 1, 1, 1, 1);
  expect(OP_MUL, TN_BOOL, 0, 0, 0, 1, 0, 0);
}

static void expect_node(tn_node *n, int64_t lo, int64_t hi) {
  tn__interval(n, &n->lo, &n->hi);
  assert_int_equal(n->lo, lo);
  assert_int_equal(n->hi, hi);
}

static void test_other_nodes(void **state) {
  (void)state;
  tn_node n = node(OP_VAR, TN__INDEX, 0);
  n.ints = (int64_t[]){1, 64};
  expect_node(&n, 1, 64);
  set(0, TN__INDEX, 1, 64);
  n = node(OP_RANGE, TN__INDEX, 1);
  expect_node(&n, 0, 63);
  n = node(OP_IOTA, TN_I64, 1);
  expect_node(&n, 0, 63);
  set(0, TN__INDEX, 0, 0);
  expect_node(&n, 0, 0);
  set(0, TN_I32, 3, 5);
  n = node(OP_RESHAPE, TN_I32, 1);
  expect_node(&n, 3, 5);
  n = node(OP_PAD, TN_I32, 1);
  expect_node(&n, 0, 5);
  int64_t axis = 0;
  tn_node size = {.op = OP_VAR, .dtype = TN__INDEX, .lo = 1, .hi = 8}, *dim[] = {&size};
  sources[0].rank = 1, sources[0].dim = dim;
  n = node(OP_RMAX, TN_I32, 1), n.ints = &axis, n.nint = 1;
  expect_node(&n, 3, 5);
  size.lo = 0; /* of nothing the greatest is the least i32 */
  expect_node(&n, INT32_MIN, INT32_MAX);
  n.op = OP_RMIN;
  expect_node(&n, INT32_MIN, INT32_MAX);
  n = node(OP_SUM, TN_I32, 1);
  expect_node(&n, INT32_MIN, INT32_MAX);
  set(1, TN_I32, 7, 9);
  n = node(OP_ASSIGN, TN_I32, 2);
  expect_node(&n, 7, 9);
  set(0, TN_BOOL, 0, 1), set(1, TN_I32, 3, 5), set(2, TN_I32, 9, 9);
  n = node(OP_WHERE, TN_I32, 3);
  expect_node(&n, 3, 9);
  set(0, TN_BOOL, 1, 1);
  expect_node(&n, 3, 5);
  set(0, TN_F32, INT64_MIN, INT64_MAX);
  n = node(OP_CAST, TN_U8, 1);
  expect_node(&n, 0, 255);
  n = node(OP_LT, TN_BOOL, 2);
  set(1, TN_F32, INT64_MIN, INT64_MAX);
  expect_node(&n, 0, 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_contains), cmocka_unit_test(test_casts_contain),
                                     cmocka_unit_test(test_tight), cmocka_unit_test(test_other_nodes)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
