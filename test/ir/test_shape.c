/* Dtype, device and shape rules: what each accepts, at its edges, and the words with which it refuses. */
#include "support/ctx.h"
#include "ir/eval.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

static tn_ctx ctx;
static tn_ctx *const c = &ctx;

static int setup(void **state) {
  (void)state;
  return !test_ctx_open(c);
}

static int teardown(void **state) {
  (void)state;
  return test_ctx_close(c) != 0;
}

/* ---- making sources from text ---- */

/* "2,B,3": numbers, and the variables B (1..64) and N (0..100). */
static uint32_t read_dims(const char *text, tn_node **out) {
  uint32_t n = 0;
  while (*text) {
    if (*text == 'B') out[n++] = tn__var(c, "B", 1, 64), text++;
    else if (*text == 'N') out[n++] = tn__var(c, "N", 0, 100), text++;
    else {
      int64_t v = strtoll(text, (char **)&text, 10);
      out[n++] = tn__int(c, v);
    }
    if (*text == ',') text++;
  }
  return n;
}

static tn_node *array(int dtype, const char *shape) {
  tn_node *dims[32];
  uint32_t n = read_dims(shape, dims);
  return tn__param(c, dtype, 0, -1, dims, n);
}
#define F(shape) array(TN_F32, shape)
#define I(v) tn__int(c, v)

/* ---- running one case ---- */

typedef struct trial {
  tn_node *(*make)(void);
  const char *type; /* of the result, */
  tn_status status; /* or the error */
  const char *says; /* and a part of its text */
} trial;

static void try_one(tn_ctx *x, void *p) {
  const trial *t = p;
  tn_node *n = t->make();
  if (!t->type) print_error("made %s where an error \"%s\" was due\n", tn__node_type(n, &x->scratch), t->says);
  assert_non_null(t->type);
  assert_string_equal(tn__node_type(n, &x->scratch), t->type);
}

static void good(tn_node *(*make)(void), const char *type) {
  trial t = {.make = make, .type = type};
  bool ok = tn__ctx_run(c, "tn_test", try_one, &t);
  if (!ok) print_error("%s\n", tn_last_error(c)->text);
  assert_true(ok);
}

static void bad(tn_node *(*make)(void), tn_status status, const char *says) {
  trial t = {.make = make, .status = status, .says = says};
  assert_false(tn__ctx_run(c, "tn_test", try_one, &t));
  assert_int_equal(tn_last_error(c)->status, status);
  if (!strstr(tn_last_error(c)->text, says)) print_error("\"%s\" lacks \"%s\"\n", tn_last_error(c)->text, says);
  assert_non_null(strstr(tn_last_error(c)->text, says));
  tn_clear_error(c);
}

/* A case is an expression; each gets a function of its own, since errors are caught around functions. */
#define CASE(name, expr)                                                                                               \
  static tn_node *name(void) { return expr; }

/* ---- dtypes ---- */

CASE(add_f32, tn__add(c, F("2"), F("2")))
CASE(add_mixed, tn__add(c, F("2"), array(TN_F64, "2")))
CASE(add_void, tn__add(c, tn__list(c, NULL, 0), tn__list(c, NULL, 0)))
CASE(lt_f32, tn__op2(c, OP_LT, F("2"), F("2")))
CASE(sin_i32, tn__op1(c, OP_SIN, array(TN_I32, "2")))
CASE(sin_f16, tn__op1(c, OP_SIN, array(TN_F16, "2")))
CASE(shl_bool, tn__op2(c, OP_SHL, array(TN_BOOL, "2"), array(TN_BOOL, "2")))
CASE(shl_u8, tn__op2(c, OP_SHL, array(TN_U8, "2"), array(TN_U8, "2")))
CASE(not_f32, tn__op1(c, OP_NOT, F("2")))
CASE(and_bool, tn__op2(c, OP_AND, array(TN_BOOL, ""), array(TN_BOOL, "")))
CASE(where_ok, tn__where(c, array(TN_BOOL, "2"), F("2"), F("2")))
CASE(where_cond, tn__where(c, array(TN_U8, "2"), F("2"), F("2")))
CASE(where_mixed, tn__where(c, array(TN_BOOL, "2"), F("2"), array(TN_F16, "2")))
CASE(philox_ok, tn__op3(c, OP_PHILOX, array(TN_U64, "4"), array(TN_U64, "4"), array(TN_U64, "4")))
CASE(philox_u32, tn__op3(c, OP_PHILOX, array(TN_U32, "4"), array(TN_U32, "4"), array(TN_U32, "4")))
CASE(cast_ok, tn__cast(c, F("2,B"), TN_I8))
CASE(cast_none, tn__cast(c, F("2"), 99))
CASE(bitcast_ok, tn__bitcast(c, F("2"), TN_U32))
CASE(bitcast_width, tn__bitcast(c, F("2"), TN_U64))
CASE(bitcast_index, tn__bitcast(c, I(2), TN_U64))
CASE(iota_ok, tn__iota(c, tn__var(c, "B", 1, 64)))
CASE(iota_f32, tn__iota(c, array(TN_F32, "")))
CASE(const_fold, tn__cast(c, tn__const_bits(c, TN_U8, 255), TN_I8))

static void test_dtypes(void **state) {
  (void)state;
  good(add_f32, "f32[2]");
  bad(add_mixed, TN_EDTYPE, "tn_test: add(f32[2], f64[2]): the dtypes differ");
  bad(add_void, TN_EDTYPE, "add(void, void): the source has no value");
  good(lt_f32, "bool[2]");
  good(sin_f16, "f16[2]");
  bad(sin_i32, TN_EDTYPE, "sin(i32[2]): needs a float dtype");
  bad(shl_bool, TN_EDTYPE, "shl(bool[2], bool[2]): needs an integer");
  good(shl_u8, "u8[2]");
  bad(not_f32, TN_EDTYPE, "not(f32[2]): needs bool or an integer");
  good(and_bool, "bool");
  good(where_ok, "f32[2]");
  bad(where_cond, TN_EDTYPE, "condition must be bool");
  bad(where_mixed, TN_EDTYPE, "where(bool[2], f32[2], f16[2])");
  good(philox_ok, "u32[4]");
  bad(philox_u32, TN_EDTYPE, "must be u64");
  good(cast_ok, "i8[2,B]");
  bad(cast_none, TN_EDTYPE, "no dtype number 99");
  good(bitcast_ok, "u32[2]");
  bad(bitcast_width, TN_EDTYPE, "u64 has not the width of f32");
  bad(bitcast_index, TN_EDTYPE, "width");
  good(iota_ok, "i64[B]");
  bad(iota_f32, TN_EDTYPE, "argument 1 is no size");
  good(const_fold, "i8");
}

/* ---- form ---- */

static tn_node *made(tn__op op, uint32_t nsrc, uint32_t nint) {
  tn_node *src[8];
  int64_t ints[8] = {0};
  for (uint32_t i = 0; i < nsrc; i++) src[i] = F("2");
  return tn__node_make(c, &(tn__make){.op = op, .dtype = TN_F32, .src = src, .nsrc = nsrc, .ints = ints, .nint = nint});
}
CASE(add_three, made(OP_ADD, 3, 0))
CASE(add_none, made(OP_ADD, 0, 0))
CASE(add_ints, made(OP_ADD, 2, 1))
CASE(window_ints, made(OP_WINDOW, 1, 3))
CASE(const_ints, made(OP_CONST, 0, 0))
CASE(empty_var, tn__var(c, "B", 2, 1))
CASE(range_axis, tn__range(c, I(4), AX_COUNT, ROLE_OUTPUT, 0))
CASE(range_ok, tn__range(c, I(4), AX_LOOP, ROLE_OUTPUT, 0))

static void test_form(void **state) {
  (void)state;
  bad(add_three, TN_EINVAL, "takes 2 to 2 sources, not 3");
  bad(add_none, TN_EINVAL, "takes 2 to 2 sources, not 0");
  bad(add_ints, TN_EINVAL, "takes 0 integers, not 1");
  bad(window_ints, TN_EINVAL, "takes 4 integers, not 3");
  bad(const_ints, TN_EINVAL, "takes 1 integers, not 0");
  bad(empty_var, TN_EBOUND, "B has no values");
  bad(range_axis, TN_EINVAL, "axis type");
  good(range_ok, "index");
}

/* ---- devices ---- */

static tn_node *on(int device) { return tn__storage(c, TN_F32, device + 10, device, NULL, 0); }
static tn_node *both(void) {
  tn_node *src[] = {on(0), on(1)};
  return tn__sink(c, src, 2, "out");
}
CASE(same_device, tn__add(c, on(1), on(1)))
CASE(with_const, tn__add(c, tn__const_num(c, TN_F32, 1), on(1)))
CASE(two_devices, tn__add(c, on(0), on(1)))
CASE(device_range, on(128))

static void device_of(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  assert_int_equal(on(1)->device, 1);
  assert_int_equal(with_const()->device, 1);
  assert_int_equal(tn__const_num(c, TN_F32, 1)->device, -1);
  assert_int_equal(both()->device, -1);
}

static void test_devices(void **state) {
  (void)state;
  good(same_device, "f32");
  good(with_const, "f32");
  bad(two_devices, TN_EDEVICE, "argument 2 is on device 1, those before it on device 0; bring it there with tn_to");
  good(both, "void");
  bad(device_range, TN_EDEVICE, "no device number 128");
  assert_true(tn__ctx_run(c, "tn_test", device_of, NULL));
}

/* ---- elementwise and reductions ---- */

static tn_node *reduce(tn__op op, const char *shape, uint32_t n, int64_t a, int64_t b) {
  int64_t axes[] = {a, b};
  return tn__reduce(c, op, F(shape), axes, n);
}
#define S16 "1,1,1,1,1,1,1,1,1,1,1,1,1,1,1,2"
CASE(add_0, tn__add(c, F("0,3"), F("0,3")))
CASE(add_scalar, tn__add(c, F(""), F("")))
CASE(add_16, tn__add(c, F(S16), F(S16)))
CASE(add_sym, tn__add(c, F("B,N"), F("B,N")))
CASE(add_rank, tn__add(c, F("2"), F("")))
CASE(add_dim, tn__add(c, F("2,3"), F("2,1")))
CASE(add_syms, tn__add(c, F("B"), F("N")))
CASE(rank_17, F(S16 ",3"))
CASE(negative_dim, F("2,-1"))
CASE(huge, F("4294967296,4294967296"))
CASE(huge_empty, F("4294967296,4294967296,0"))
CASE(huge_sym, F("4294967296,4294967296,N"))
CASE(sum_ok, reduce(OP_SUM, "2,3,4", 2, 0, 2))
CASE(sum_none, reduce(OP_SUM, "2,3", 0, 0, 0))
CASE(sum_empty, reduce(OP_SUM, "0,3", 1, 0, 0))
CASE(sum_all, reduce(OP_SUM, "2,B", 2, 0, 1))
CASE(sum_axis, reduce(OP_SUM, "2,3", 1, 2, 0))
CASE(sum_minus, reduce(OP_SUM, "2,3", 1, -1, 0))
CASE(sum_twice, reduce(OP_SUM, "2,3", 2, 1, 1))
CASE(sum_order, reduce(OP_SUM, "2,3", 2, 1, 0))
CASE(sum_scalar, reduce(OP_SUM, "", 1, 0, 0))
CASE(max_empty, reduce(OP_RMAX, "2,0", 1, 1, 0))
CASE(min_empty, reduce(OP_RMIN, "0,2", 1, 0, 0))
CASE(max_other, reduce(OP_RMAX, "2,0", 1, 0, 0))
CASE(max_maybe, reduce(OP_RMAX, "2,N", 1, 1, 0))

static void test_elementwise_and_reductions(void **state) {
  (void)state;
  good(add_0, "f32[0,3]");
  good(add_scalar, "f32");
  good(add_16, "f32[" S16 "]");
  good(add_sym, "f32[B,N]");
  bad(add_rank, TN_ESHAPE, "add(f32[2], f32): the shapes differ");
  bad(add_dim, TN_ESHAPE, "add(f32[2,3], f32[2,1]): the shapes differ");
  bad(add_syms, TN_ESHAPE, "add(f32[B], f32[N]): the shapes differ");
  bad(rank_17, TN_ESHAPE, "more than 16 axes");
  bad(negative_dim, TN_ESHAPE, "argument 2 is negative");
  bad(huge, TN_ESHAPE, "more than 2^63 - 1 elements");
  good(huge_empty, "f32[4294967296,4294967296,0]");
  bad(huge_sym, TN_ESHAPE, "more than 2^63 - 1 elements");
  good(sum_ok, "f32[3]");
  good(sum_none, "f32[2,3]");
  good(sum_empty, "f32[3]");
  good(sum_all, "f32");
  bad(sum_axis, TN_ESHAPE, "sum(f32[2,3]) {2}: axis 2 is out of range for 2 axes");
  bad(sum_minus, TN_ESHAPE, "axis -1 is out of range");
  bad(sum_twice, TN_ESHAPE, "ascend");
  bad(sum_order, TN_ESHAPE, "ascend");
  bad(sum_scalar, TN_ESHAPE, "out of range for 0 axes");
  bad(max_empty, TN_ESHAPE, "maximum of nothing: axis 1");
  bad(min_empty, TN_ESHAPE, "minimum of nothing: axis 0");
  good(max_other, "f32[0]");
  good(max_maybe, "f32[2]");
}

/* ---- movement ---- */

static tn_node *reshape(const char *from, const char *to) {
  tn_node *dims[32];
  uint32_t n = read_dims(to, dims);
  return tn__reshape(c, F(from), dims, n);
}
static tn_node *expand(const char *from, const char *to) {
  tn_node *dims[32];
  read_dims(to, dims);
  return tn__expand(c, F(from), dims);
}
static tn_node *expand_rank(void) {
  tn_node *src[] = {F("1,1"), I(4)};
  return tn__node_make(c, &(tn__make){.op = OP_EXPAND, .src = src, .nsrc = 2});
}
static tn_node *reshape_sum(void) { /* N + 4 and its multiples are known equal, too */
  tn_node *n4 = tn__add(c, tn__var(c, "N", 0, 100), I(4)), *two[] = {n4, I(6)}, *three[] = {I(2), n4, I(3)};
  return tn__reshape(c, tn__param(c, TN_F32, 0, -1, two, 2), three, 3);
}
static tn_node *permute(const char *from, int64_t a, int64_t b, int64_t d) {
  int64_t perm[] = {a, b, d};
  return tn__permute(c, F(from), perm);
}
static tn_node *flip(const char *from, uint32_t n, int64_t a, int64_t b) {
  int64_t axes[] = {a, b};
  return tn__flip(c, F(from), axes, n);
}
static tn_node *scalar_to(const char *to) {
  tn_node *dims[32];
  uint32_t n = read_dims(to, dims);
  return tn__scalar_to(c, tn__const_num(c, TN_F32, 1), dims, n);
}
CASE(reshape_ok, reshape("2,3,4", "6,4"))
CASE(reshape_scalar, reshape("1,1", ""))
CASE(reshape_up, reshape("", "1,3"))
CASE(reshape_empty, reshape("0,B", "7,0"))
CASE(reshape_sym, reshape("B,64,144", "64,B,12,12"))
CASE(reshape_sym2, reshape("B,N", "N,B"))
CASE(reshape_count, reshape("2,3", "4,2"))
CASE(reshape_unknown, reshape("B,2", "N,2"))
CASE(reshape_never, reshape("N,2", "101,2"))
CASE(reshape_negative, reshape("2,3", "-2,-3"))
CASE(reshape_overflow, reshape("2", "4294967296,4294967296"))
CASE(expand_ok, expand("1,3", "5,3"))
CASE(expand_zero, expand("1,3", "0,3"))
CASE(expand_sym, expand("1,B", "N,B"))
CASE(expand_two, expand("2,3", "4,3"))
CASE(expand_unsym, expand("B,3", "N,3"))
CASE(permute_ok, permute("2,3,B", 2, 0, 1))
CASE(permute_twice, permute("2,3,4", 0, 0, 1))
CASE(permute_range, permute("2,3,4", 0, 1, 3))
CASE(permute_minus, permute("2,3,4", 0, 1, -1))
CASE(flip_ok, flip("2,3", 2, 0, 1))
CASE(flip_range, flip("2,3", 1, 2, 0))
CASE(flip_order, flip("2,3", 2, 1, 0))
CASE(scalar_to_ok, scalar_to("2,B"))
CASE(scalar_to_scalar, scalar_to(""))
CASE(scalar_to_17, scalar_to(S16 ",3"))

static void identities(tn_ctx *x, void *unused) {
  (void)x, (void)unused;
  tn_node *a = F("2,B"), *zero = I(0), *zeros[] = {zero, zero, zero, zero};
  int64_t same[] = {0, 1}, steps[] = {3, 1};
  assert_ptr_equal(tn__reshape(c, a, a->dim, 2), a);
  assert_ptr_equal(tn__expand(c, a, a->dim), a);
  assert_ptr_equal(tn__permute(c, a, same), a);
  assert_ptr_equal(tn__pad(c, a, zeros), a);
  assert_ptr_equal(tn__shrink(c, a, zeros, a->dim, NULL), a);
  assert_ptr_not_equal(tn__shrink(c, a, zeros, (tn_node *[]){I(1), a->dim[1]}, steps), a);
  assert_ptr_equal(tn__flip(c, a, NULL, 0), a);
  assert_ptr_equal(tn__reduce(c, OP_SUM, a, NULL, 0), a);
  assert_ptr_equal(tn__cast(c, a, TN_F32), a);
  assert_ptr_equal(tn__numel(c, a), tn__mul(c, a->dim[1], I(2)));
  assert_ptr_equal(tn__numel(c, F("4294967296,4294967296,0")), zero);
  assert_ptr_equal(tn__numel(c, F("")), I(1));
  assert_true(tn__dims_equal(c, a->dim, a->dim, 2));
  assert_false(tn__dims_equal(c, a->dim, zeros, 2));
}

static void test_movement(void **state) {
  (void)state;
  good(reshape_ok, "f32[6,4]");
  good(reshape_scalar, "f32");
  bad(reshape_up, TN_ESHAPE, "1 elements cannot become 3");
  good(reshape_empty, "f32[7,0]");
  good(reshape_sym, "f32[64,B,12,12]");
  good(reshape_sym2, "f32[N,B]");
  good(reshape_sum, "f32[2,N + 4,3]");
  bad(reshape_count, TN_ESHAPE, "reshape(f32[2,3], 4, 2): 6 elements cannot become 8");
  good(reshape_unknown, "f32[N,2]"); /* a constraint: test/run/test_constraints.c */
  bad(reshape_never, TN_ESHAPE, "reshape(f32[N,2], 101, 2): the element counts are equal for no values");
  bad(reshape_negative, TN_ESHAPE, "argument 2 is negative");
  bad(reshape_overflow, TN_ESHAPE, "64 bits");
  good(expand_ok, "f32[5,3]");
  good(expand_zero, "f32[0,3]");
  good(expand_sym, "f32[N,B]");
  bad(expand_two, TN_ESHAPE, "expand(f32[2,3], 4, 3): axis 0 has not size 1");
  bad(expand_unsym, TN_ESHAPE, "axis 0");
  bad(expand_rank, TN_ESHAPE, "2 axes cannot become 1");
  good(permute_ok, "f32[B,2,3]");
  bad(permute_twice, TN_ESHAPE, "permute(f32[2,3,4]) {0 0 1}: needs each of the 3 axes once");
  bad(permute_range, TN_ESHAPE, "each of the 3 axes once");
  bad(permute_minus, TN_ESHAPE, "each of the 3 axes once");
  good(flip_ok, "f32[2,3]");
  bad(flip_range, TN_ESHAPE, "axis 2 is out of range");
  bad(flip_order, TN_ESHAPE, "ascend");
  good(scalar_to_ok, "f32[2,B]");
  good(scalar_to_scalar, "f32");
  bad(scalar_to_17, TN_ESHAPE, "more than 16 axes");
  assert_true(tn__ctx_run(c, "tn_test", identities, NULL));
}

/* ---- pad and shrink ---- */

static tn_node *pad(const char *from, const char *lohi) {
  tn_node *v[32];
  read_dims(lohi, v);
  return tn__pad(c, F(from), v);
}
static tn_node *shrink(const char *from, const char *begin, const char *size, int64_t step) {
  tn_node *b[16], *s[16];
  int64_t steps[16];
  uint32_t n = read_dims(begin, b);
  read_dims(size, s);
  for (uint32_t i = 0; i < n; i++) steps[i] = step;
  return tn__shrink(c, F(from), b, s, steps);
}
static tn_node *pad_count(void) {
  tn_node *src[] = {F("2,3"), I(1), I(1)};
  return tn__node_make(c, &(tn__make){.op = OP_PAD, .src = src, .nsrc = 3});
}
CASE(pad_ok, pad("2,3", "1,0,0,4"))
CASE(pad_sym, pad("B,3", "1,1,N,B"))
CASE(pad_empty, pad("0", "1,1"))
CASE(pad_negative, pad("2,3", "1,0,-1,0"))
CASE(shrink_ok, shrink("10", "3", "7", 1))
CASE(shrink_last, shrink("10", "3", "8", 1))
CASE(shrink_step, shrink("10", "1", "3", 4))      /* 1, 5, 9 */
CASE(shrink_step_last, shrink("10", "2", "3", 4)) /* 2, 6, 10 */
CASE(shrink_zero, shrink("10", "10", "0", 1))
CASE(shrink_zero_last, shrink("10", "11", "0", 1))
CASE(shrink_sym, shrink("B", "0", "1", 1))
CASE(shrink_sym_tail, shrink("N", "2", "B", 1)) /* cannot be decided: allowed */
CASE(shrink_sym_over, shrink("B", "64", "1", 1))
CASE(shrink_begin, shrink("10", "-1", "2", 1))
CASE(shrink_size, shrink("10", "0", "-2", 1))
CASE(shrink_step_0, shrink("10", "0", "2", 0))

static void test_pad_and_shrink(void **state) {
  (void)state;
  good(pad_ok, "f32[3,7]");
  good(pad_sym, "f32[B + 2,B + N + 3]");
  good(pad_empty, "f32[2]");
  bad(pad_negative, TN_ESHAPE, "argument 4 is negative");
  bad(pad_count, TN_ESHAPE, "two amounts for each of 2 axes");
  good(shrink_ok, "f32[7]");
  bad(shrink_last, TN_ESHAPE, "shrink(f32[10], 3, 8) {1}: the slice of axis 0 reaches beyond its end");
  good(shrink_step, "f32[3]");
  bad(shrink_step_last, TN_ESHAPE, "beyond its end");
  good(shrink_zero, "f32[0]");
  bad(shrink_zero_last, TN_ESHAPE, "beyond its end");
  good(shrink_sym, "f32[1]");
  good(shrink_sym_tail, "f32[B]");
  bad(shrink_sym_over, TN_ESHAPE, "beyond its end");
  bad(shrink_begin, TN_ESHAPE, "argument 2 is negative");
  bad(shrink_size, TN_ESHAPE, "argument 3 is negative");
  bad(shrink_step_0, TN_ESHAPE, "the step along axis 0 is not positive");
}

/* ---- window and fold ---- */

static tn_node *fold(const char *from, int64_t n, int64_t axis, int64_t size, int64_t stride, int64_t dilation) {
  return tn__fold(c, F(from), I(n), axis, size, stride, dilation);
}
static tn_node *fold_window(void) {
  tn_node *x = F("3,B,5");
  return tn__fold(c, tn__window(c, x, 1, 3, 2, 1), x->dim[1], 1, 3, 2, 1);
}
CASE(window_ok, tn__window(c, F("2,28,3"), 1, 3, 1, 1))
CASE(window_stride, tn__window(c, F("10"), 0, 3, 2, 2)) /* span 5: places 0, 2, 4 */
CASE(window_exact, tn__window(c, F("5"), 0, 5, 3, 1))
CASE(window_short, tn__window(c, F("4"), 0, 5, 3, 1))
CASE(window_shorter, tn__window(c, F("1"), 0, 5, 3, 1))
CASE(window_empty, tn__window(c, F("0"), 0, 1, 1, 1))
CASE(window_sym, tn__window(c, F("B"), 0, 1, 1, 1))
CASE(window_sym3, tn__window(c, F("B"), 0, 3, 1, 1))
CASE(window_axis_bad, tn__window(c, F("5"), 1, 1, 1, 1))
CASE(window_size_0, tn__window(c, F("5"), 0, 0, 1, 1))
CASE(window_stride_0, tn__window(c, F("5"), 0, 1, 0, 1))
CASE(window_dilation_0, tn__window(c, F("5"), 0, 1, 1, 0))
CASE(window_far, tn__window(c, F("5"), 0, INT64_MAX, 1, 3))
CASE(window_far_stride, tn__window(c, F("5"), 0, 4, INT64_MAX, 1))
CASE(window_17, tn__window(c, F(S16), 15, 2, 1, 1))
CASE(fold_ok, fold("2,26,3,7", 28, 1, 3, 1, 1))
CASE(fold_other_n, fold("2,26,3,7", 29, 1, 3, 1, 1))
CASE(fold_rest, fold("3,3", 10, 0, 3, 2, 2))
CASE(fold_size, fold("2,26,4,7", 28, 1, 3, 1, 1))
CASE(fold_axis, fold("26,3", 28, 1, 3, 1, 1))
CASE(fold_scalar, fold("", 28, 0, 3, 1, 1))
CASE(fold_negative, fold("0,3", -1, 0, 3, 1, 1))

static void test_window_and_fold(void **state) {
  (void)state;
  good(window_ok, "f32[2,26,3,3]");
  good(window_stride, "f32[3,3]");
  good(window_exact, "f32[1,5]");
  good(window_short, "f32[0,5]");
  good(window_shorter, "f32[0,5]");
  good(window_empty, "f32[0,1]");
  good(window_sym, "f32[B,1]");
  good(window_sym3, "f32[max(B - 2, 0),3]");
  bad(window_axis_bad, TN_ESHAPE, "window(f32[5]) {1 1 1 1}: axis 1 is out of range");
  bad(window_size_0, TN_ESHAPE, "must be positive");
  bad(window_stride_0, TN_ESHAPE, "must be positive");
  bad(window_dilation_0, TN_ESHAPE, "must be positive");
  bad(window_far, TN_ESHAPE, "too large");
  bad(window_far_stride, TN_ESHAPE, "too large");
  bad(window_17, TN_ESHAPE, "more than 16 axes");
  good(fold_ok, "f32[2,28,7]");
  bad(fold_other_n, TN_ESHAPE, "axes 1 and 2 are not the windows");
  good(fold_rest, "f32[10]");
  bad(fold_size, TN_ESHAPE, "axes 1 and 2 are not the windows");
  bad(fold_axis, TN_ESHAPE, "axis 1 is out of range");
  bad(fold_scalar, TN_ESHAPE, "axis 0 is out of range");
  bad(fold_negative, TN_ESHAPE, "argument 2 is negative");
  good(fold_window, "f32[3,B,5]");
}

/* Places counted one by one, for every small window. */
static void places(tn_ctx *x, void *unused) {
  (void)unused;
  tn_node *N = tn__var(x, "N", 0, 100), *sym = tn__param(x, TN_F32, 0, -1, &N, 1);
  for (int64_t n = 0; n <= 9; n++)
    for (int64_t size = 1; size <= 4; size++)
      for (int64_t stride = 1; stride <= 3; stride++)
        for (int64_t dilation = 1; dilation <= 3; dilation++) {
          int64_t count = 0;
          for (int64_t p = 0; p * stride + (size - 1) * dilation < n; p++) count++;
          tn_node *dim = tn__int(x, n),
                  *w = tn__window(x, tn__param(x, TN_F32, 0, -1, &dim, 1), 0, size, stride, dilation);
          assert_ptr_equal(w->dim[0], tn__int(x, count));
          tn__env env = {&N, &n, 1};
          assert_int_equal(tn__eval_index(tn__window(x, sym, 0, size, stride, dilation)->dim[0], &env, &x->scratch),
                           count);
        }
}

static void test_places(void **state) {
  (void)state;
  assert_true(tn__ctx_run(c, "tn_test", places, NULL));
}

/* ---- gather, scatter, contract ---- */

CASE(gather_ok, tn__gather(c, F("10,3,4"), array(TN_I32, "5,B")))
CASE(gather_scalar_idx, tn__gather(c, F("10,3"), array(TN_U8, "")))
CASE(gather_empty, tn__gather(c, F("0,3"), array(TN_I64, "0")))
CASE(gather_float, tn__gather(c, F("10"), F("5")))
CASE(gather_bool, tn__gather(c, F("10"), array(TN_BOOL, "5")))
CASE(gather_scalar, tn__gather(c, F(""), array(TN_I32, "5")))
CASE(gather_17, tn__gather(c, F(S16), array(TN_I32, "5,5")))
CASE(scatter_ok, tn__scatter(c, F("10,3"), array(TN_I32, "5,B"), F("5,B,3")))
CASE(scatter_idx_scalar, tn__scatter(c, F("10"), array(TN_I32, ""), F("")))
CASE(scatter_rank, tn__scatter(c, F("10,3"), array(TN_I32, "5"), F("5")))
CASE(scatter_row, tn__scatter(c, F("10,3"), array(TN_I32, "5"), F("5,4")))
CASE(scatter_count, tn__scatter(c, F("10,3"), array(TN_I32, "5"), F("6,3")))
CASE(scatter_dtype, tn__scatter(c, F("10"), array(TN_I32, "5"), array(TN_F16, "5")))
CASE(scatter_float, tn__scatter(c, F("10"), F("5"), F("5")))
CASE(scatter_bits, tn__scatter_by(c, OP_OR, array(TN_U32, "10"), array(TN_I32, "5"), array(TN_U32, "5")))
CASE(scatter_bits_wide, tn__scatter_by(c, OP_OR, array(TN_I64, "10"), array(TN_I32, "5"), F("5")))
CASE(scatter_bits_float, tn__scatter_by(c, OP_OR, F("10"), array(TN_I32, "5"), F("5")))
CASE(scatter_least, tn__scatter_by(c, OP_MIN, F("10"), array(TN_I32, "5"), F("5")))
CASE(scatter_scalar, tn__scatter(c, F(""), array(TN_I32, "5"), F("5")))
CASE(contract_ok, tn__contract(c, F("64,784"), F("128,784"), 0, 1, 1, 1))
CASE(contract_batch, tn__contract(c, F("B,2,3,4"), F("B,5,4"), 1, 2, 1, 1))
CASE(contract_outer, tn__contract(c, F("2"), F("3"), 0, 1, 1, 0))
CASE(contract_dot, tn__contract(c, F("N"), F("N"), 0, 0, 0, 1))
CASE(contract_none, tn__contract(c, F(""), F(""), 0, 0, 0, 0))
CASE(contract_k0, tn__contract(c, F("2,0"), F("3,0"), 0, 1, 1, 1))
CASE(contract_k, tn__contract(c, F("64,784"), F("128,785"), 0, 1, 1, 1))
CASE(contract_b, tn__contract(c, F("B,2,3"), F("N,2,3"), 1, 1, 1, 1))
CASE(contract_rank, tn__contract(c, F("2,3"), F("2,3"), 0, 1, 1, 2))
CASE(contract_minus, tn__contract(c, F("2,3"), F("2,3"), -1, 2, 2, 1))
CASE(contract_dtype, tn__contract(c, F("2,3"), array(TN_F16, "2,3"), 0, 1, 1, 1))
CASE(contract_17, tn__contract(c, F(S16), F("3"), 0, 16, 1, 0))

static void test_gather_scatter_contract(void **state) {
  (void)state;
  good(gather_ok, "f32[5,B,3,4]");
  good(gather_scalar_idx, "f32[3]");
  good(gather_empty, "f32[0,3]");
  bad(gather_float, TN_EDTYPE, "gather(f32[10], f32[5]): the index must be an integer");
  bad(gather_bool, TN_EDTYPE, "must be an integer");
  bad(gather_scalar, TN_ESHAPE, "no axis to index");
  bad(gather_17, TN_ESHAPE, "more than 16 axes");
  good(scatter_ok, "f32[10,3]");
  good(scatter_idx_scalar, "f32[10]");
  bad(scatter_rank, TN_ESHAPE, "scatter(f32[10,3], i32[5], f32[5]): what is added must have");
  bad(scatter_row, TN_ESHAPE, "what is added must have");
  bad(scatter_count, TN_ESHAPE, "what is added must have");
  bad(scatter_dtype, TN_EDTYPE, "dtype of the base");
  bad(scatter_float, TN_EDTYPE, "must be an integer");
  good(scatter_bits, "u32[10]");
  bad(scatter_bits_wide, TN_EDTYPE, "dtype of the base");
  bad(scatter_bits_float, TN_EDTYPE, "bits are those of integers");
  bad(scatter_least, TN_EDTYPE, "it adds; {max} keeps what is greatest, {or} sets the bits of both");
  bad(scatter_scalar, TN_ESHAPE, "no axis to index");
  good(contract_ok, "f32[64,128]");
  good(contract_batch, "f32[B,2,3,5]");
  good(contract_outer, "f32[2,3]");
  good(contract_dot, "f32");
  good(contract_none, "f32");
  good(contract_k0, "f32[2,3]");
  bad(contract_k, TN_ESHAPE, "contract(f32[64,784], f32[128,785]) {0 1 1 1}: the contracted axes differ");
  bad(contract_b, TN_ESHAPE, "the batch axes differ");
  bad(contract_rank, TN_ESHAPE, "do not add up");
  bad(contract_minus, TN_ESHAPE, "out of range");
  bad(contract_dtype, TN_EDTYPE, "the dtypes differ");
  bad(contract_17, TN_ESHAPE, "more than 16 axes");
}

int main(void) {
#define T(name) cmocka_unit_test_setup_teardown(test_##name, setup, teardown)
  const struct CMUnitTest tests[] = {
      T(dtypes),   T(form),           T(devices),         T(elementwise_and_reductions),
      T(movement), T(pad_and_shrink), T(window_and_fold), T(places),
      T(gather_scatter_contract),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
