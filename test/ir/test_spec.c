/* Each stage's spec takes what the stage may emit and rejects everything else. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include "ir/spec.h"
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

typedef struct job {
  void (*spec)(tn_ctx *, tn_node *);
  const char *text;
  tn_node *const *ins;
  uint32_t n;
} job;

static void check(tn_ctx *c, void *arg) {
  job *j = arg;
  if (j->spec) j->spec(c, tn__parse(c, j->text));
  else tn__spec_linear(c, j->ins, j->n);
}

/* part: what the objection says; NULL: there must be none */
static void expect(job j, const char *part) {
  tn_clear_error(&ctx);
  bool good = tn__ctx_run(&ctx, "", check, &j);
  const char *text = tn_last_error(&ctx)->text;
  if (good == (part != NULL)) fail_msg("%s:\n%s", part ? "accepted" : text, j.text ? j.text : "(linear)");
  if (part && !strstr(text, part)) fail_msg("wanted '%s', got '%s'", part, text);
}

#define X "%1 = storage f32[2,3] 2 3 {0 0}\n"

static void test_tensor(void **state) {
  (void)state;
  expect(
      (job){.spec = tn__spec_tensor, .text = X "%2 = exp f32[2,3] %1\n%3 = sum f32[2] %2 {1}\n%4 = sink void %3 %1\n"},
      NULL);
  expect(
      (job){.spec = tn__spec_tensor, .text = "%1 = var index {\"N\" 1 9}\n%2 = iota i64[N] %1\n%3 = cast f32[N] %2\n"},
      NULL);
  expect((job){.spec = tn__spec_tensor, .text = "%1 = var index {\"N\" 1 9}\n%2 = cast f32 %1\n%3 = neg f32 %2\n"},
         NULL);
  expect((job){.spec = tn__spec_tensor, .text = X "%2 = pad f32[3,5] %1 1 0 1 1\n"}, NULL);
  expect((job){.spec = tn__spec_tensor, .text = X "%2 = load f32 %1 0\n"},
         "load in a tensor graph: the op may not stand there");
  expect((job){.spec = tn__spec_tensor, .text = "%1 = range index 4 {loop 0 output}\n%2 = cast f32 %1\n"},
         "range in a tensor graph");
  expect((job){.spec = tn__spec_tensor, .text = X "%2 = sink void %1\n%3 = sink void %2\n"},
         "a sink may only be the root");
  expect((job){.spec = tn__spec_tensor, .text = "%1 = sink void 3\n"}, "wrong kind");
  expect((job){.spec = tn__spec_tensor, .text = "%1 = const f32 {1}\n%2 = list void %1\n"}, "it is no tensor");
}

#define K "%1 = param f32[8] 8 {0 -1}\n%2 = range index 8 {global 0 output}\n%3 = load f32 %1 %2\n"

static void test_kernel(void **state) {
  (void)state;
  void (*spec)(tn_ctx *, tn_node *) = tn__spec_kernel;
  expect((job){.spec = spec, .text = K "%4 = neg f32 %3\n%5 = store void %1 %2 %4 %2\n%6 = sink void %5\n"}, NULL);
  expect(
      (job){.spec = spec,
            .text = K "%4 = const bool {1}\n%5 = load f32 %1 %2 %4\n%6 = store void %1 %2 %5 %2\n%7 = sink void %6\n"},
      NULL);
  expect((job){.spec = spec, .text = K "%4 = store void %1 %2 %3 %2\n%5 = after f32 %1 %4\n%6 = load f32 %5 %2\n"
                                       "%7 = store void %1 %2 %6 %2\n%8 = sink void %7\n"}, NULL);
  /* scratch memory of all turns, or of each turn of a range */
#define IN_LOCAL "%5 = store void %4 %2 %3 %2\n%6 = after f32 %4 %5\n%7 = load f32 %6 %2\n" \
                 "%8 = store void %1 %2 %7 %2\n%9 = sink void %8\n"
  expect((job){.spec = spec, .text = K "%4 = local f32 8 {0 0}\n" IN_LOCAL}, NULL);
  expect((job){.spec = spec, .text = K "%4 = local f32 8 %2 {0 0}\n" IN_LOCAL}, NULL);
  expect((job){.spec = spec, .text = K "%4 = local f32 8 %3 {0 0}\n" IN_LOCAL}, "wrong kind");
  /* a loop's number is its own */
#define ADD_LOOP(arguments) \
  K "%4 = range index 4 {" arguments "}\n%5 = add index %2 %4\n%6 = store void %1 %5 %3 %2 %4\n%7 = sink void %6\n"
  expect((job){.spec = spec, .text = ADD_LOOP("loop 1 output")}, NULL);
  expect((job){.spec = spec, .text = ADD_LOOP("loop 0 output")}, "another loop has its number");
  expect((job){.spec = spec, .text = ADD_LOOP("loop 2147483647 output")}, NULL);
  expect((job){.spec = spec, .text = ADD_LOOP("loop 2147483648 output")}, "its number is too large");
  expect((job){.spec = spec, .text = ADD_LOOP("loop -1 output")}, "not negative");
  expect((job){.spec = spec, .text = K "%4 = neg f32 %3\n"}, "a kernel's body is a sink");
  expect((job){.spec = spec, .text = K "%4 = sink void %3\n"}, "wrong kind");
  /* a value as index */
  expect((job){.spec = spec, .text = K "%4 = store void %1 %3 %3 %2\n%5 = sink void %4\n"}, "wrong kind");
  /* into no buffer */
  expect((job){.spec = spec, .text = K "%4 = store void %2 %2 %3 %2\n%5 = sink void %4\n"}, "wrong kind");
  /* not a range */
  expect((job){.spec = spec, .text = K "%4 = store void %1 %2 %3 3\n%5 = sink void %4\n"}, "wrong kind");
  /* gate */
  expect((job){.spec = spec, .text = K "%4 = load f32 %1 %2 %3\n%5 = store void %1 %2 %4\n%6 = sink void %5\n"},
         "wrong kind");
  /* what stands for data while kernels are planned is gone in a kernel */
  expect((job){.spec = spec, .text = K "%4 = datum index {0 7}\n%5 = store void %1 %4 %3 %2\n%6 = sink void %5\n"},
         "may not stand there");
  expect((job){.spec = tn__spec_tensor, .text = "%1 = datum index {0 7}\n%2 = param f32[8] 8 {0 -1}\n"
                                               "%3 = reshape f32[d0,2] %2 %1 2\n"},
         "may not stand there");
  expect((job){.spec = spec, .text = K "%4 = datum index {0 -1}\n%5 = sink void %4\n"}, "its bound is negative");
  /* what is required of a buffer: beside the stores, and of what is only read */
#define REQUIRING(lines, sink) \
  K "%4 = store void %1 %2 %3 %2\n%5 = param i32[8] 8 {1 -1}\n" lines "%9 = sink void " sink "\n"
  expect((job){.spec = spec, .text = REQUIRING("%6 = require void %5 {sorted}\n", "%6 %4")}, NULL);
  expect((job){.spec = spec, .text = REQUIRING("%6 = require void %5 -3 8 {in}\n", "%4 %6")}, NULL);
  expect((job){.spec = spec, .text = REQUIRING("%6 = var index {\"N\" 1 8}\n"
                                               "%7 = require void %5 0 %6 {in}\n", "%4 %7")}, NULL);
  expect((job){.spec = spec, .text = REQUIRING("%6 = require void %5 {sorted}\n%7 = after f32 %1 %6\n"
                                               "%8 = load f32 %7 0\n", "%4 %8")}, "wrong kind");
  expect((job){.spec = spec, .text = REQUIRING("%6 = require void %5 0 %2 {in}\n", "%4 %6")}, "are no sizes");
  expect((job){.spec = spec, .text = REQUIRING("%6 = load i32 %5 0\n%7 = cast index %6\n"
                                               "%8 = require void %5 0 %7 {in}\n", "%4 %8")}, "are no sizes");
  expect((job){.spec = spec, .text = REQUIRING("%6 = const i32 {1}\n%7 = store void %5 %2 %6 %2\n"
                                               "%8 = require void %5 {distinct}\n", "%4 %7 %8")},
         "the kernel stores to that buffer");
  expect((job){.spec = spec, .text = REQUIRING("%6 = const i32 {1}\n%7 = storeadd void %5 %2 %6 %2\n"
                                               "%8 = require void %5 {distinct}\n", "%8 %4 %7")},
         "the kernel stores to that buffer");
  expect((job){.spec = tn__spec_tensor, .text = "%1 = param i32[8] 8 {1 -1}\n%2 = require void %1 {sorted}\n"
                                               "%3 = sink void %2\n"}, "may not stand there");
#define GATED "%4 = lt bool %2 5\n"
  expect((job){.spec = spec, .text = K GATED "%5 = store void %1 %2 %3 %4 %2\n%6 = sink void %5\n"}, NULL);
  expect((job){.spec = spec, .text = K GATED "%5 = storeadd void %1 %2 %3 %4 %2\n%6 = sink void %5\n"}, NULL);
  expect((job){.spec = spec, .text = K GATED "%5 = store void %1 %2 %3 %4\n%6 = sink void %5\n"}, NULL);
  expect((job){.spec = spec, .text = K GATED "%5 = store void %1 %2 %3 %2 %4\n%6 = sink void %5\n"}, "wrong kind");
  expect((job){.spec = spec, .text = K GATED "%5 = store void %1 %2 %3 %4 %4 %2\n%6 = sink void %5\n"}, "wrong kind");
  expect((job){.spec = spec, .text = K GATED "%5 = store void %1 %2 %3 %3 %2\n%6 = sink void %5\n"}, "wrong kind");
  expect((job){.spec = spec, .text = K "%4 = neg f32[8] %1\n%5 = store void %1 %2 %4\n%6 = sink void %5\n"},
         "only scalars");
  expect((job){.spec = spec, .text = K "%4 = end void %2\n%5 = store void %1 %2 %3\n%6 = sink void %5 %4\n"},
         "may not stand there");
}

static void test_schedule(void **state) {
  (void)state;
  void (*spec)(tn_ctx *, tn_node *) = tn__spec_schedule;
#define BODY K "%4 = store void %1 %2 %3 %2\n%5 = sink void %4\n%6 = buffer f32 8 {0 0}\n"
  expect((job){.spec = spec, .text = BODY "%7 = call void %5 %6\n%8 = sink void %7\n"}, NULL);
  expect((job){.spec = spec, .text = BODY "%7 = call void %5 %6\n"}, "a schedule is a sink");
  expect((job){.spec = spec, .text = BODY "%7 = call void %4 %6\n%8 = sink void %7\n"}, "wrong kind");
  expect((job){.spec = spec, .text = BODY "%7 = call void %5 %3\n%8 = sink void %7\n"}, "wrong kind");
  expect((job){.spec = spec,
               .text = "%1 = storage f32[2] 2 {0 0}\n%2 = sink void %1\n%3 = call void %2 %1\n%4 = sink void %3\n"},
         "storage in a kernel graph");
}

static tn_node *make(tn__op op, tn_node **src, uint32_t n, int64_t a, int64_t b, uint32_t nint) {
  int64_t ints[] = {a, b};
  return tn__node_make(&ctx, &(tn__make){.op = op, .src = src, .nsrc = n, .ints = ints, .nint = nint});
}

static void test_linear(void **state) {
  (void)state;
  ctx.depth = 1; /* nodes outlive the calls */
  tn_node *n = tn__int(&ctx, 8), *buf = tn__param(&ctx, TN_F32, 0, -1, &n, 1);
  tn_node *r = tn__range(&ctx, n, AX_LOOP, ROLE_OUTPUT, 0);
  tn_node *load = make(OP_LOAD, (tn_node *[]){buf, r}, 2, 0, 0, 0), *neg = tn__neg(&ctx, load);
  tn_node *store = make(OP_STORE, (tn_node *[]){buf, r, neg}, 3, 0, 0, 0), *end = make(OP_END, &r, 1, 0, 0, 0);
  tn_node *good[] = {r, load, neg, store, end}, *late[] = {r, neg, load, store, end}, *open[] = {r, load, neg, store},
          *twice[] = {r, end, end}, *again[] = {r, load, end, r, neg, end}, *outside[] = {r, load, end, neg},
          *within[] = {r, r, end, end};
  expect((job){.ins = good, .n = 5}, NULL);
  expect((job){.ins = late, .n = 5}, "does not come before it");
  expect((job){.ins = open, .n = 4}, "never closed");
  expect((job){.ins = twice, .n = 3}, "do not nest");
  expect((job){.ins = again, .n = 6}, "it has run before");
  expect((job){.ins = outside, .n = 4}, "does not come before it");
  expect((job){.ins = within, .n = 4}, "it is inside of itself");
  /* lanes are written out where they are wanted, each time with what they need */
  tn_node *lane = tn__range(&ctx, n, AX_UPCAST, ROLE_OUTPUT, 1), *done = make(OP_END, &lane, 1, 0, 0, 0);
  tn_node *wide = make(OP_LOAD, (tn_node *[]){buf, lane}, 2, 0, 0, 0), *less = tn__neg(&ctx, wide);
  expect((job){.ins = (tn_node *[]){lane, wide, done, lane, wide, less, done}, .n = 7}, NULL);
  expect((job){.ins = (tn_node *[]){lane, wide, done, lane, less, done}, .n = 6}, "does not come before it");
  /* operands of a fused step */
  tn_node *zero = tn__const_num(&ctx, TN_F32, 0);
  tn_node *acc = tn__node_make(
      &ctx, &(tn__make){.op = OP_ACC, .src = &zero, .nsrc = 1, .ints = (int64_t[]){0, 1, 1}, .nint = 3});
  tn_node *set = make(OP_SETACC, (tn_node *[]){acc, tn__list(&ctx, (tn_node *[]){load, load}, 2)}, 2, OP_FMA, 0, 1);
  expect((job){.ins = (tn_node *[]){acc, r, load, set, end}, .n = 5}, NULL);
  expect((job){.ins = (tn_node *[]){acc, r, set, end}, .n = 4}, "does not come before it");
  /* what lanes have set is read by others of their loops, in the same turn of what is around them alone */
  tn_node *cells = tn__node_make(
      &ctx, &(tn__make){.op = OP_ACC, .src = &zero, .nsrc = 1, .ints = (int64_t[]){1, 8, 1}, .nint = 3});
  tn_node *put = make(OP_SETACC, (tn_node *[]){cells, wide, lane}, 3, OP_ADD, 0, 1);
  tn_node *from[] = {cells, put, lane};
  tn_node *get = tn__node_make(&ctx, &(tn__make){.op = OP_GETACC, .dtype = TN_F32, .src = from, .nsrc = 3,
                                                 .ints = (int64_t[]){OP_ADD}, .nint = 1});
  expect((job){.ins = (tn_node *[]){cells, r, lane, wide, put, done, lane, get, done, end}, .n = 10}, NULL);
  expect((job){.ins = (tn_node *[]){cells, r, lane, get, wide, put, done, end}, .n = 8}, "does not come before it");
  expect((job){.ins = (tn_node *[]){cells, r, lane, wide, put, done, end, lane, get, done}, .n = 10},
         "does not come before it");
  expect((job){.ins = (tn_node *[]){make(OP_STORE, (tn_node *[]){buf, r, neg, r}, 4, 0, 0, 0)}, .n = 1}, "wrong kind");
}

/* An accumulator with an operand, set by an op and read by another */
#define ACC_OF(operand, set, get)                                                                                      \
  "%s%%4 = const f32 {0}\n%%5 = acc f32 %%4 {0 1 1}\n%%6 = list void %%3 %%3\n"                                        \
  "%%7 = setacc void %%5 " operand " {" set "}\n%%8 = end void %%2\n%%9 = getacc f32 %%5 %%8 {" get "}\n"              \
  "%%10 = store void %%1 0 %%9\n%%11 = sink void %%5 %%2 %%3 %%7 %%8 %%9 %%10\n"

static bool combines(int op) { return op == OP_ADD || op == OP_MUL || op == OP_MAX || op == OP_MIN; }

/* Of all ops, four combine the elements of a row, and fma where there are two operands. */
static void test_combining(void **state) {
  (void)state;
  for (int op = 0; op < OP_COUNT; op++) {
    char text[1000];
    snprintf(text, sizeof text, "%s%%4 = range index 4 {reduce 1 reduction}\n%%5 = reduce f32 %%3 %%4 {%s 1}\n"
             "%%6 = store void %%1 %%2 %%5 %%2\n%%7 = sink void %%6\n", K, tn__ops[op].text);
    expect((job){.spec = tn__spec_kernel, .text = text}, combines(op) ? NULL : "cannot combine so");
    for (int list = 0; list < 2; list++) {
      bool good = list ? op == OP_FMA : combines(op);
      snprintf(text, sizeof text, ACC_OF("%s", "%s", "%s"), K, list ? "%6" : "%3", tn__ops[op].text,
               op == OP_FMA ? "add" : tn__ops[op].text);
      expect((job){.spec = tn__spec_program, .text = text}, good ? NULL : "cannot combine so");
    }
    snprintf(text, sizeof text, ACC_OF("%%3", "add", "%s"), K, tn__ops[op].text);
    expect((job){.spec = tn__spec_program, .text = text},
           op == OP_ADD ? NULL : combines(op) ? "its accumulator combines otherwise" : "cannot combine so");
  }
}

/* What is stored or accumulated is of the dtype of where it goes. */
static void test_dtypes(void **state) {
  static const char *const stores[] = {"store", "storeadd"};
  (void)state;
  for (int from = 0; from < TN_DTYPE_COUNT; from++)
    for (int to = 0; to < TN_DTYPE_COUNT; to++) {
      const char *a = tn__dtypes[from].name, *b = tn__dtypes[to].name, *why = from == to ? NULL : "is of another dtype";
      char text[1000];
      for (int add = 0; add < 2; add++) {
        bool wide = add && from == TN_F32 && (to == TN_I64 || to == TN_F16 || to == TN_BF16);
        const char *why_store = wide ? NULL : why;
        snprintf(text, sizeof text, "%%1 = param %s[8] 8 {0 -1}\n%%2 = const %s {1}\n%%3 = %s void %%1 0 %%2\n"
                 "%%4 = sink void %%3\n", b, a, stores[add]);
        expect((job){.spec = tn__spec_kernel, .text = text}, why_store);
        expect((job){.spec = tn__spec_program, .text = text}, why_store);
      }
      snprintf(text, sizeof text, "%%1 = const %s {1}\n%%2 = const %s {0}\n%%3 = acc %s %%2 {0 1 1}\n"
               "%%4 = setacc void %%3 %%1 {max}\n%%5 = sink void %%3 %%4\n", a, b, b);
      expect((job){.spec = tn__spec_program, .text = text}, why);
    }
  expect((job){.spec = tn__spec_kernel, .text = K "%4 = local f64 8 {0 0}\n%5 = store void %4 %2 %3 %2\n"
                                                "%6 = sink void %5\n"}, "is of another dtype");
  expect((job){.spec = tn__spec_program,
               .text = K "%4 = const f32 {0}\n%5 = acc f32 %4 {0 1 1}\n%6 = setacc void %5 %2 {add}\n"
                       "%7 = end void %2\n%8 = sink void %5 %2 %6 %7\n"}, "is of another dtype");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_tensor, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_kernel, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_schedule, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_linear, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_combining, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(test_dtypes, open_ctx, close_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
