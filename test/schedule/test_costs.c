/* What programs cost, against the ledger that is committed: a compiler that grew slower, or faster, says where.
 *
 *   test_schedule_costs          compares with test/golden/costs.txt
 *   test_schedule_costs FILE     writes the ledger there (make costs) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/ledger.h"
#include "support/linear.h"
#include "support/in_ctx.h"
#include "tenet_embed.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- kernels that can be counted by hand ------------------------------------------------------------------------- */

static void expect(const cost *got, cost_figure f, double want) {
  if (got->of[f] == want) return;
  fail_msg("%s is %.0f, not %.0f", cost_name[f], got->of[f], want);
}

/* for i of 12 slices: for 3 turns: acc += exp(b1[..]); b0[i] = acc */
static void do_slices(tn_ctx *c, void *arg) {
  (void)arg;
  lin *l = lin_new(c, "slices");
  tn_node *out = lin_buf(l, TN_F32, true), *in = lin_buf(l, TN_F32, false);
  tn_node *i = lin_range(l, tn__int(c, 12), AX_GLOBAL, 0), *acc = lin_acc(l, tn__const_num(c, TN_F32, 0), 0, 1);
  tn_node *j = lin_range(l, tn__int(c, 3), AX_REDUCE, 1);
  lin_setacc(l, OP_ADD, acc, lin_op1(l, OP_EXP, lin_load(l, in, j, NULL)), NULL);
  tn_node *end = lin_end(l, j);
  lin_store(l, OP_STORE, out, i, lin_getacc(l, OP_ADD, acc, end, NULL), NULL);
  lin_end(l, i);
  cost sum = {0};
  double turn = 1 + tn__ops[OP_ACC].cost + 3 * (1 + 1 + tn__ops[OP_EXP].cost + 1) + 1 + 1;
  cost_of_kernel(&(tn__target){.lane_bytes = 64}, &l->k, &sum);
  expect(&sum, COST_WORK, 12 * turn);
  expect(&sum, COST_PATH, 2 * turn); /* 8 slices at once */
  expect(&sum, COST_READ, 12 * 3 * 4);
  expect(&sum, COST_WRITTEN, 12 * 4);
  expect(&sum, COST_BARRIERS, 0);
  l->k.part[0].grain = 6;
  sum = (cost){0};
  cost_of_kernel(&(tn__target){.lane_bytes = 64}, &l->k, &sum);
  expect(&sum, COST_PATH, 6 * turn);
}

/* 40 lanes of f32 and of i8: three vectors and one; as threads of groups, 40 and their rounds. */
static void do_lanes(tn_ctx *c, void *arg) {
  (void)arg;
  lin *l = lin_new(c, "lanes");
  tn_node *out = lin_buf(l, TN_F32, true), *in = lin_buf(l, TN_I8, false);
  tn_node *i = lin_range(l, tn__int(c, 5), AX_GLOBAL, 0), *j = lin_range(l, tn__int(c, 40), AX_UPCAST, 1);
  tn_node *gate = lin_op2(l, OP_LT, j, tn__int(c, 33)), *x = lin_load(l, in, j, gate);
  lin_store(l, OP_STORE, out, j, lin_add(l, tn__cast(c, x, TN_F32)), NULL);
  lin_end(l, j);
  lin_barrier(l, 0);
  lin_end(l, i);
  cost sum = {0};
  cost_of_kernel(&(tn__target){.lane_bytes = 64}, &l->k, &sum);
  expect(&sum, COST_WORK, 5 * (1 + 3 + 1 + 2 + 3 + 3 + 1)); /* loop, its lanes, gate, load, cast, store, barrier */
  expect(&sum, COST_READ, 5 * 40);
  expect(&sum, COST_WRITTEN, 5 * 40 * 4);
  expect(&sum, COST_BARRIERS, 5);
  l->k.part[0].group = 32;
  sum = (cost){0};
  cost_of_kernel(&(tn__target){.group = 32, .subgroup = 32, .units = 2}, &l->k, &sum);
  expect(&sum, COST_WORK, 5 * (1 + 40 * (1 + 1 + 2 + 1 + 1) + 1));
  expect(&sum, COST_PATH, 3 * (1 + 2 * (1 + 1 + 2 + 1 + 1) + 1)); /* two groups at once, two rounds of lanes */
}

static void do_text(tn_ctx *c, void *arg) {
  (void)arg;
  static const char unit[] = "f32 helper(f32 x) {\n  return x;\n}\n\n"
                             "void k_0(void *const *buf, i64 lo, i64 hi) {\n"
                             "  const i64 v9 = 4;\n"                                       /* nobody reads it */
                             "  for (i64 i0 = lo; i0 < hi; i0++) {\n"                      /* 5 turns of 10 */
                             "    for (i64 i1 = 0; i1 < 32; i1 += 16) {\n"                 /* 2 of 11 */
                             "      const f32x16 v0 = load(&b1[i1]);\n"                    /* 8 */
                             "      store(v0);\n"                                          /* 2 */
                             "    }\n"
                             "    for (int l = 0; l < 4; l++)\n"                           /* 4 of 10 */
                             "      if (m[l])\n"                                           /* 3 */
                             "        b[l] = tn_exp_f32(1);\n"                                /* 3, 4 and 1 */
                             "    for (i64 i2 = 0; i2 < v7; i2++) {\n    }\n"              /* 64 of 10 */
                             "  }\n}\n\nvoid k_1(void) {\n  f(1);\n}\n";
  tn_node *i = tn__range(c, tn__int(c, 5), AX_GLOBAL, ROLE_OUTPUT, 0);
  tn__kernel k = {.name = "k", .nparts = 2, .part[0].global = i};
  double turn = 10 + 2 * (11 + 8 + 2) + 4 * (10 + 3 + 8) + 64 * 10;
  assert_true(cost_of_text(c, unit, &k) == 5 * turn + 2);
}

/* The functions of ops count by how often they are there, not by how many there are. */
static void do_lines(tn_ctx *c, void *arg) {
  (void)arg;
  tn__sb text;
  tn__sb_init(&text, &c->scratch);
  assert_true(cost_lines("") == 0);
  assert_true(cost_lines("a\n\nb") == 3);
  tn__sb_printf(&text, "f32 a;\n%s\n%s%sf32 b;\n", tn__embed_math_inc, tn__embed_math_inc,
                tn__embed_math_f64_inc);
  assert_true(cost_lines(tn__sb_str(&text)) == 6);
}

static void test_slices(void **state) { (void)state, test_in_ctx(do_slices, NULL); }
static void test_lanes(void **state) { (void)state, test_in_ctx(do_lanes, NULL); }
static void test_text(void **state) { (void)state, test_in_ctx(do_text, NULL); }
static void test_lines(void **state) { (void)state, test_in_ctx(do_lines, NULL); }

/* ---- the ledger -------------------------------------------------------------------------------------------------- */

enum { LINE = 400, SHOWN = 60 };

typedef struct comparison {
  FILE *want;
  int worse, better, other;
} comparison;

static void say_change(comparison *m, const ledger_line *now, const ledger_line *then) {
  for (int f = 0; f < COST_FIGURES; f++) {
    double a = then->cost.of[f], b = now->cost.of[f];
    if (a == b) continue;
    (*(b > a ? &m->worse : &m->better))++;
    if (m->worse + m->better > SHOWN) continue;
    fprintf(stderr, "%s: %s of %s: %.0f, was %.0f (%+.1f %%)\n", b > a ? "worse " : "better", cost_name[f],
            now->name, b, a, a > 0 ? 100 * (b - a) / a : 100);
  }
}

static void compare(void *to, const ledger_line *now) {
  comparison *m = to;
  char text[LINE];
  ledger_line then;
  bool there = false;
  while (!there && fgets(text, sizeof text, m->want)) there = text[0] != '#';
  if (*now->error || !there || !ledger_read(text, &then) || strcmp(then.name, now->name)) {
    fprintf(stderr, "%s: %s\n", now->name, *now->error ? now->error : "no such line in the ledger");
    m->other++;
    return;
  }
  say_change(m, now, &then);
}

static void test_ledger(void **state) {
  char path[512], text[LINE];
  (void)state;
  snprintf(path, sizeof path, "%s/golden/costs.txt", getenv("TENET_TEST_DATA") ? getenv("TENET_TEST_DATA") : "test");
  comparison m = {.want = fopen(path, "r")};
  assert_non_null(m.want);
  ledger_make(false, compare, &m);
  if (fgets(text, sizeof text, m.want)) m.other++;
  fclose(m.want);
  if (m.worse + m.better + m.other)
    fail_msg("%d figures are worse and %d better than in the ledger, %d lines are others; if that is meant: make costs",
             m.worse, m.better, m.other);
}

static void put(void *to, const ledger_line *l) {
  char text[LINE];
  if (*l->error) fprintf(stderr, "%s: %s\n", l->name, l->error);
  ledger_print(l, text, sizeof text);
  fprintf(to, "%s\n", text);
}

static int write_ledger(const char *path) {
  FILE *out = fopen(path, "w");
  if (!out) return perror(path), 1;
  fputs("# What programs cost (test/support/cost.h); `make costs` writes it:\n#", out);
  for (int f = 0; f < COST_FIGURES; f++) fprintf(out, " %s", cost_name[f]);
  fputc('\n', out);
  ledger_make(false, put, out);
  return fclose(out) != 0;
}

int main(int argc, char **argv) {
  if (argc == 2) return write_ledger(argv[1]);
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_slices),
      cmocka_unit_test(test_lanes),
      cmocka_unit_test(test_text),
      cmocka_unit_test(test_lines),
      cmocka_unit_test(test_ledger),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
