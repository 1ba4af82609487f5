/* What holds of unknowns and what does not; what a difference looks like; what is to be proved of an access; and the
 * option: an equal schedule is silent, of a large one a smaller twin is compared, one that cannot be compared is said,
 * or refused; constants that rules of mode fast round are no difference. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "lower/lower.h"
#include "render/dialect.h"
#include "support/ctx.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include "verify/bounds.h"
#include "verify/value.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

enum { WORLDS = 6 };
static tn__world *w;

static tn__val op1(int op, tn__val x) { return tn__val_eval(w, op, TN_F32, TN_F32, &x); }
static tn__val op2(int op, tn__val x, tn__val y) { return tn__val_eval(w, op, TN_F32, TN_F32, (tn__val[]){x, y}); }
static tn__val add(tn__val x, tn__val y) { return op2(OP_ADD, x, y); }
static tn__val mul(tn__val x, tn__val y) { return op2(OP_MUL, x, y); }
static tn__val neg(tn__val x) { return op1(OP_NEG, x); }
static tn__val num(double d) { return tn__val_bits(w, TN_F32, tn__eval_from_double(TN_F32, d)); }
static bool same(tn__val x, tn__val y) { return tn__val_same(TN_F32, x, y); }

static void equations(void **s) {
  tn_ctx c;
  (void)s;
  assert_true(test_ctx_open(&c));
  for (uint32_t k = 0; k < WORLDS; k++) {
    tn__world world;
    tn__world_open(&c, k, NULL, &world);
    w = &world;
    for (int64_t i = 0; i < 50; i++) {
      tn__val x = tn__val_input(w, TN_F32, 0, i), y = tn__val_input(w, TN_F32, 1, i),
              z = tn__val_input(w, TN_F32, 2, i);
      assert_true(same(mul(x, add(y, z)), add(mul(z, x), mul(x, y))));
      assert_true(same(add(add(x, y), z), add(y, add(z, x))));
      assert_true(same(neg(add(x, neg(y))), add(y, neg(x))));
      if (x.kind == TN__VAL_REAL)
        assert_true(same(op2(OP_DIV, mul(x, y), x), y) && same(op1(OP_LOG, op1(OP_EXP, x)), x));
      assert_true(same(op2(OP_MAX, op2(OP_MAX, x, y), z), op2(OP_MAX, z, op2(OP_MAX, y, op2(OP_MAX, x, y)))));
      assert_true(same(neg(op2(OP_MAX, x, y)), op2(OP_MIN, neg(x), neg(y))));
      assert_true(same(op2(OP_MAX, x, neg(x)), op1(OP_ABS, x)));
      assert_true(same(op1(OP_FLOOR, op1(OP_FLOOR, x)), op1(OP_FLOOR, x)));
      assert_true(same(op2(OP_MAX, x, num(-1e39)), x) && same(mul(x, num(0)), num(0)));
    }
  }
  assert_int_equal(test_ctx_close(&c), 0);
}

/* What must not be equal: in worlds of unknowns nowhere, in those of few values somewhere. */
/* In an exact world only what holds of floats does: another order of a sum and a step that is not rounded show. */
static void exact(void **s) {
  tn_ctx c;
  int order = 0, fused = 0;
  (void)s;
  assert_true(test_ctx_open(&c));
  for (uint32_t k = 0; k < WORLDS; k++) {
    tn__world world;
    tn__world_open(&c, k, NULL, &world);
    world.exact = true;
    w = &world;
    for (int64_t i = 0; i < 50; i++) {
      tn__val x = tn__val_input(w, TN_F32, 0, i), y = tn__val_input(w, TN_F32, 1, i),
              z = tn__val_input(w, TN_F32, 2, i);
      assert_true(same(add(x, y), add(y, x)) && same(neg(neg(x)), x) && same(op2(OP_MAX, x, neg(x)), op1(OP_ABS, x)));
      tn__val left = tn__val_collect(w, OP_ADD, TN_F32, tn__val_collect(w, OP_ADD, TN_F32, x, y), z),
              right = tn__val_collect(w, OP_ADD, TN_F32, x, tn__val_collect(w, OP_ADD, TN_F32, y, z));
      order += !same(left, right);
      fused += !same(tn__val_eval(w, OP_FMA, TN_F32, TN_F32, (tn__val[]){x, y, z}), add(mul(x, y), z));
    }
  }
  assert_true(order > 20 && fused > 20); /* in every second world values are eighths, whose sums are exact */
  assert_int_equal(test_ctx_close(&c), 0);
}

static void differences(void **s) {
  tn_ctx c;
  uint32_t n[5] = {0};
  (void)s;
  assert_true(test_ctx_open(&c));
  for (uint32_t k = 0; k < WORLDS; k++) {
    tn__world world;
    tn__world_open(&c, k, NULL, &world);
    w = &world;
    for (int64_t i = 0; i < 50; i++) {
      tn__val x = tn__val_input(w, TN_F32, 0, i), y = tn__val_input(w, TN_F32, 1, i), less;
      bool differ[] = {!same(x, y), !same(mul(x, x), mul(x, y)), !same(add(x, x), x),
                       !same(op1(OP_EXP, x), op1(OP_SIN, x)), !same(op2(OP_DIV, x, y), op2(OP_DIV, y, x))};
      for (int d = 0; d < 5; d++) {
        n[d] += differ[d];
        if (k % 2 == 0) assert_true(differ[d]);
      }
      less = tn__val_eval(w, OP_LT, TN_BOOL, TN_F32, (tn__val[]){x, y});
      assert_true(less.v == !tn__val_eval(w, OP_LE, TN_BOOL, TN_F32, (tn__val[]){y, x}).v);
    }
  }
  for (int d = 0; d < 5; d++) assert_true(n[d] > 100);
  assert_int_equal(test_ctx_close(&c), 0);
}

static void terms(void **s) {
  tn_ctx c;
  tn__terms t;
  tn__world world;
  tn__sb text;
  (void)s;
  assert_true(test_ctx_open(&c));
  tn__terms_open(&c.scratch, &t);
  tn__world_open(&c, 0, &t, &world);
  tn__sb_init(&text, &c.scratch);
  w = &world;
  tn__val a = tn__val_input(w, TN_F32, 0, 3), b = tn__val_input(w, TN_F32, 1, 4), e = op1(OP_EXP, add(a, b));
  tn__val want = add(mul(a, b), e), got = add(mul(add(a, num(2)), b), op1(OP_EXP, add(b, a)));
  tn__term_difference(&t, tn__val_term(w, TN_F32, want), tn__val_term(w, TN_F32, got), &text);
  assert_string_equal(tn__sb_str(&text), "is p0[3]*p1[4] + 2*p1[4] + exp(p0[3] + p1[4]), should be p0[3]*p1[4] + "
                                         "exp(p0[3] + p1[4]); the first less the second: 2*p1[4]");
  assert_int_equal(test_ctx_close(&c), 0);
}

/* The line that a computation leaves; of every second element of the last axis, if `stride` is 2. */
static void line_of(const char *path, const tn_dim *shape, int rank, int stride, char *line, int size) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = path});
  float v = 0;
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *x = tn_full(c, TN_F32, shape, rank, 2.0), *y = tn_contiguous(x);
    assert_int_equal(tn_realize(&y, 1), TN_OK);
    assert_int_equal(remove(path), 0);
    y = tn_slice(y, rank - 1, 0, shape[rank - 1], stride);
    assert_int_equal(tn_read(tn_sum(tn_exp(y), NULL, 0, false), &v, sizeof v), TN_OK);
  }
  tn_ctx_close(c);
  FILE *f = fopen(path, "r");
  assert_non_null(f);
  assert_non_null(fgets(line, size, f));
  fclose(f);
  remove(path);
}

static void option(void **s) {
  char path[] = "/tmp/tenet-verify-XXXXXX", line[300];
  int fd = mkstemp(path);
  (void)s;
  assert_true(fd >= 0);
  close(fd);
  line_of(path, DIMS(5, 3), 1, line, sizeof line);
  assert_true(strstr(line, "ref mode 0 items 1 equal elements ") == line);
  assert_null(strstr(line, "smaller"));
  line_of(path, DIMS(3000010, 3), 1, line, sizeof line); /* 10 more than a multiple of 64 */
  assert_non_null(strstr(line, " equal elements "));
  assert_non_null(strstr(line, ": at smaller sizes, 3000010 to 74\n"));
  line_of(path, DIMS(8, 8, 8, 8, 8, 8, 8, 7), 1, line, sizeof line);
  assert_non_null(strstr(line, ": at smaller sizes, 8 to 2 8 to 2\n"));
  line_of(path, DIMS(24000000), 2, line, sizeof line); /* every second one of fewer may be another number of them */
  assert_non_null(strstr(line, " unknown "));
  assert_non_null(strstr(line, "too large: elements and steps of products: "));
}

/* What is said on stderr while `run` goes on in a context with this option. */
static void said_on(const char *device, const char *verify, void (*run)(tn_ctx *), char *text, size_t size) {
  char path[] = "/tmp/tenet-said-XXXXXX";
  int fd = mkstemp(path), old = dup(STDERR_FILENO);
  assert_true(fd >= 0 && old >= 0 && dup2(fd, STDERR_FILENO) >= 0);
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = verify, .mode = TN_MODE_FAST});
  run(c);
  tn_ctx_close(c);
  fflush(stderr);
  dup2(old, STDERR_FILENO);
  close(old);
  ssize_t n = pread(fd, text, size - 1, 0);
  text[n > 0 ? n : 0] = '\0';
  close(fd);
  remove(path);
}

static void said(const char *verify, void (*run)(tn_ctx *), char *text, size_t size) {
  said_on("ref", verify, run, text, size);
}

static void sum_rows(tn_ctx *c) {
  float v[3] = {0};
  tn_tensor *x = tn_contiguous(tn_full(c, TN_F32, DIMS(3, 5000), 2.0));
  assert_int_equal(tn_realize(&x, 1), TN_OK);
  assert_int_equal(tn_read(tn_sum(tn_exp(x), (int[]){1}, 1, false), v, sizeof v), TN_OK);
}

/* In groups, over a size that is not known, whose places no interval shows. */
static void sum_any_rows(tn_ctx *c) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(3, tn_dim_var(c, "n", 300, 5000)));
  assert_int_equal(tn_program_output(p, "y", tn_sum(tn_exp(x), (int[]){1}, 1, false)), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
}

static void in_another_language(tn_ctx *c) {
  static const tn__dialect other;
  tn__device_get(c, 0)->dialect = &other;
  sum_rows(c);
}

static void compute_large(tn_ctx *c) {
  tn_tensor *x = tn_slice(tn_contiguous(tn_full(c, TN_F32, DIMS(11000000), 2.0)), 0, 0, 11000000, 2);
  float v = 0;
  tn_read(tn_sum(tn_exp(x), NULL, 0, false), &v, sizeof v);
}

static void compute_nothing(tn_ctx *c) { (void)c; }

static void multiply(tn_ctx *c) {
  float v[5] = {1, -2, 3, -4, 0.5f}, out[5];
  tn_tensor *x = tn_mul_scalar(tn_mul_scalar(tn_from(c, TN_F32, DIMS(5), v), 0.1), 0.3);
  assert_int_equal(tn_read(x, out, sizeof out), TN_OK);
  x = tn_from(c, TN_BF16, DIMS(1), (uint16_t[]){0x3f80});
  x = tn_add_scalar(tn_mul_scalar(tn_mul_scalar(x, 0.1), 0.7), 0.3);
  assert_int_equal(tn_read(x, out, 2), TN_OK);
}

/* x / x is 1 there, and the greatest the first, whatever 0 / 0 were */
static void divide_by_itself(tn_ctx *c) {
  float v[300];
  int64_t at[150];
  for (int i = 0; i < 300; i++) v[i] = (float)(i + 1);
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 150), v);
  assert_int_equal(tn_read(tn_argmax(tn_div(x, x), 0, false), at, sizeof at), TN_OK);
  for (int i = 0; i < 150; i++) assert_int_equal(at[i], 0);
}

static void refuse(tn_ctx *c) {
  compute_large(c);
  assert_int_equal(tn_last_error(c)->status, TN_ECOMPILE);
  assert_non_null(strstr(tn_last_error(c)->text, "the schedule cannot be compared with its graph: too large: "));
}

/* What no interval shows and what nobody reads is counted; where all is well, nothing is said of it. */
static void the_rest(void **s) {
  char text[2000];
  (void)s;
  said("1", multiply, text, sizeof text);
  assert_null(strstr(text, "not proved"));
  assert_null(strstr(text, "no text"));
  said_on("ref:sm_90", "1", sum_rows, text, sizeof text);
  assert_null(strstr(text, "not proved"));
  said_on("ref:sm_90", "1", sum_any_rows, text, sizeof text);
  assert_non_null(strstr(text, " accesses are not proved to stay within their buffers; "));
  assert_null(strstr(text, "no text"));
  said("strict", in_another_language, text, sizeof text);
  assert_non_null(strstr(text, "tenet: 2 kernels have no text that is read back\n"));
}

static void nothing_in_silence(void **s) {
  char text[1000];
  (void)s;
  if (!is_sampled()) {
    said("1", compute_large, text, sizeof text);
    assert_non_null(strstr(text, "is not compared with its graph: too large: "));
    assert_non_null(strstr(text, "0 differ, 1 not compared\n"));
  }
  said("strict", refuse, text, sizeof text);
  assert_non_null(strstr(text, "1 not compared\n"));
  said("1", multiply, text, sizeof text);
  assert_non_null(strstr(text, "0 differ, 0 not compared\n"));
  said("1", divide_by_itself, text, sizeof text);
  assert_non_null(strstr(text, "0 differ, 0 not compared\n"));
  said("1", compute_nothing, text, sizeof text);
  assert_string_equal(text, "");
}

/* ---- accesses ---- */

typedef struct proving {
  const char *text;
  int64_t size; /* of the buffer that is read */
  uint32_t accesses, proved;
  char open[1000];
} proving;

static void prove(tn_ctx *c, void *arg) {
  proving *p = arg;
  tn__kernel *k = tn__lower(c, &c->scratch, tn__parse(c, p->text), &tn__device_get(c, 0)->target, NULL, 0);
  tn_node *size[] = {tn__int(c, 4), tn__int(c, p->size)};
  tn__sb open;
  tn__sb_init(&open, &c->scratch);
  p->accesses = p->proved = 0;
  tn__bounds_prove(c, k, &(tn__bounds){.size = size, .nbuf = 2}, &p->accesses, &p->proved, &open);
  snprintf(p->open, sizeof p->open, "%s", tn__sb_str(&open));
}

static void accesses(void **s) {
  static const char plain[] = "%1 = param f32[4] 4 {0 -1}\n%2 = range index 4 {loop 0 output}\n"
                             "%3 = param f32[4] 4 {1 -1}\n%4 "
                              "= load f32 %3 %2\n%5 = store void %1 %2 %4 %2\n"
                              "%6 = sink void %5 {\"kernel\"}\n";
  static const char gated[] = "%1 = param f32[4] 4 {0 -1}\n%2 = range index 4 {loop 0 output}\n"
                             "%3 = param f32[4] 4 {1 -1}\n%4 "
                              "= add index %2 -1\n%5 = lt bool 0 %2\n%6 = load f32 %3 %4 %5\n"
                              "%7 = store void %1 %2 %6 %2\n%8 = sink void %7 {\"kernel\"}\n";
  static const char loop[] = "(define-fun x0 () Int 4)(declare-const x1 Int)(assert (<= 0 x1))(assert (< x1 x0))";
  const struct {
    proving p;
    uint32_t proved;
    const char *rest; /* of the statement, behind the loop */
  } rows[] = {
      {{.text = plain, .size = 4}, 2, NULL},
      {{.text = plain, .size = 3}, 1, "(define-fun x2 () Int 3)(assert (not (and (<= 0 x1) (< x1 x2))))\n"},
      {{.text = gated, .size = 3}, 2, NULL}, /* 0 < i, so i - 1 is not negative */
      {{.text = gated, .size = 2},
       1,
       "(define-fun x2 () Int (- 1))(define-fun x3 () Int (+ x1 x2))(define-fun x4 () Int 2)(define-fun x5 () Int "
       "0)(define-fun x6 () Bool (< x5 x1))(assert x6)"
       "(assert (not (and (<= 0 x3) (< x3 x4))))\n"},
  };
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    proving p = rows[i].p;
    char want[1000] = "";
    if (!tn__ctx_run(c, "prove", prove, &p)) fail_msg("%s", tn_last_error(c)->text);
    if (rows[i].rest) snprintf(want, sizeof want, "%s%s", loop, rows[i].rest);
    assert_int_equal(p.accesses, 2);
    assert_int_equal(p.proved, rows[i].proved);
    assert_string_equal(p.open, want);
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(equations), cmocka_unit_test(exact),  cmocka_unit_test(differences),
      cmocka_unit_test(terms),     cmocka_unit_test(option), cmocka_unit_test(nothing_in_silence),
      cmocka_unit_test(the_rest),
      cmocka_unit_test(accesses)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
