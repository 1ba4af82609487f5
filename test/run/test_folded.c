/* Functions of what only the device's compiler knows to be a constant, one of two that an index chooses.  A library
 * that is right for every number that it meets at run time may still be wrong for those that a compiler works out:
 * PoCL's rint goes through integers, and what is beyond these is anything then. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/graph.h"
#include "tenet/tenet.h"

/* One of the two, and a number that every library gets right. */
static const char *const pairs[][2] = {{"inf", "0.25"},   {"-inf", "0.25"}, {"3e9", "0.25"},  {"-1e20", "0.25"},
                                       {"1e-40", "0.25"}, {"-0.0", "0.25"}, {"1e38", "-0.5"}, {"-1.5", "1.0"},
                                       {"8388609.0", "0.5"}};
enum { PAIRS = sizeof pairs / sizeof *pairs };

static bool is_function(int op, int dtype) {
  return (tn__ops[op].group == G_UNARY || tn__ops[op].group == G_BINARY) && tn__op_takes(op, dtype);
}

enum { ROOM = 64 }; /* always left for what a line begins with */

typedef struct text {
  char s[1 << 17];
  size_t n;
  int last; /* the number of the last value */
} text;

static int put(text *t, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
static int put(text *t, const char *fmt, ...) {
  va_list ap;
  va_start(ap, fmt);
  t->n += (size_t)snprintf(t->s + t->n, sizeof t->s - t->n, "%%%d = ", ++t->last);
  t->n += (size_t)vsnprintf(t->s + t->n, sizeof t->s - t->n, fmt, ap);
  va_end(ap);
  assert_true(t->n < sizeof t->s - ROOM);
  t->s[t->n++] = '\n';
  return t->last;
}

static int put_full(text *t, const char *dtype, const char *number, int n) {
  int flat = put(t, "reshape %s[1] %%%d 1", dtype, put(t, "const %s {%s}", dtype, number));
  return put(t, "expand %s[%d] %%%d %d", dtype, n, flat, n);
}

/* Some functions from op on, of every pair, with two of the other pairs where they take two operands; gives the op
 * that is next.  Each has a length of its own, and so a kernel: beside others compilers choose first, then compute. */
static int make(text *t, int dtype, int op) {
  enum { AT_ONCE = 8 };
  const char *name = tn__dtypes[dtype].name;
  int out[2 * PAIRS * AT_ONCE], nout = 0;
  *t = (text){0};
  for (int n = 2; op < OP_COUNT && n < 2 + AT_ONCE; op++) {
    const tn__op_info *f = &tn__ops[op];
    if (!is_function(op, dtype)) continue;
    const char *gives = f->dtype_rule == tn__ops[OP_LT].dtype_rule ? "bool" : name;
    int turn = put(t, "iota i64[%d] %d", n, n), x[PAIRS];
    int is_first = put(t, "eq bool[%d] %%%d %%%d", n, turn, put_full(t, "i64", "0", n));
    for (int p = 0; p < PAIRS; p++) {
      int first = put_full(t, name, pairs[p][0], n), other = put_full(t, name, pairs[p][1], n);
      x[p] = put(t, "where %s[%d] %%%d %%%d %%%d", name, n, is_first, first, other);
    }
    for (int p = 0; p < PAIRS && f->group == G_UNARY; p++)
      out[nout++] = put(t, "%s %s[%d] %%%d", f->text, gives, n, x[p]);
    for (int p = 0; p < PAIRS && f->group == G_BINARY; p++)
      for (int by = 1; by < 4; by += 2)
        out[nout++] = put(t, "%s %s[%d] %%%d %%%d", f->text, gives, n, x[p], x[(p + by) % PAIRS]);
    n++;
  }
  assert_true(nout > 0);
  char list[sizeof out / sizeof *out * 8] = "";
  for (int i = 0, at = 0; i < nout; i++) at += sprintf(list + at, " %%%d", out[i]);
  put(t, "sink void%s {\"outputs\"}", list);
  return op;
}

static bool has_more(int dtype, int op) {
  while (op < OP_COUNT && !is_function(op, dtype)) op++;
  return op < OP_COUNT;
}

static void functions(void **state) {
  static const int dtypes[] = {TN_F32, TN_F64};
  static text t;
  (void)state;
  for (size_t d = 0; d < sizeof dtypes / sizeof *dtypes; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or("cpu"), .quiet = 1});
    assert_non_null(c);
    for (int op = 0; has_more(dtypes[d], op);) {
      graph g;
      char why[512];
      op = make(&t, dtypes[d], op);
      if (!graph_parse(c, t.s, 1, true, &g)) fail_msg("%s", tn_last_error(c)->text);
      if (!graph_agrees_always(c, &g, why, sizeof why)) fail_msg("%s: %s", tn__dtypes[dtypes[d]].name, why);
      graph_free(c, &g);
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(functions)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
