/* Programs with many inputs, outputs and states are recorded, compiled and run in time linear in their number: of eight
 * times as many, no more than some eight times the processor's time (their square would be 64 times). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/build.h"
#include "run/names.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { FEW = 1000, MANY = 8 * FEW, FACTOR = 20 };

static const char *numbered(char *name, char letter, int i) {
  snprintf(name, 16, "%c%d", letter, i);
  return name;
}

/* Each output is its input and its state, and each state is one more after a run. */
static double run_program(int n) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  tn_tensor **state = calloc((size_t)n, sizeof *state), **x = calloc((size_t)n, sizeof *x);
  char name[16];
  assert_true(c && state && x);
  for (int i = 0; i < n; i++) state[i] = tn_from(c, TN_F32, NULL, 0, &(float){(float)i});
  assert_int_equal(tn_realize(state, n), TN_OK);
  clock_t from = clock();
  tn_program *p = tn_program_begin(c);
  for (int i = 0; i < n; i++) {
    x[i] = tn_program_input(p, numbered(name, 'x', i), TN_F32, NULL, 0);
    assert_int_equal(tn_program_output(p, numbered(name, 'y', i), tn_add(x[i], state[i])), TN_OK);
    assert_int_equal(tn_assign(state[i], tn_add_scalar(state[i], 1)), TN_OK);
  }
  assert_int_equal(tn_program_output(p, "y7", x[0]), TN_EINVAL);
  assert_null(tn_program_input(p, "x7", TN_F32, NULL, 0));
  assert_int_equal(tn_program_end(p), TN_OK);
  for (int i = 0; i < n; i++)
    assert_int_equal(tn_program_write(p, numbered(name, 'x', i), NULL, 0, &(float){0.5f}, sizeof(float)), TN_OK);
  for (int run = 0; run < 2; run++) assert_int_equal(tn_program_run(p), TN_OK);
  for (int i = 0; i < n; i++) {
    float y;
    assert_int_equal(tn_program_read(p, numbered(name, 'y', i), &y, sizeof y), TN_OK);
    assert_true(y == (float)i + 1.5f);
  }
  tn_program_close(p);
  double seconds = (double)(clock() - from) / CLOCKS_PER_SEC;
  free(state);
  free(x);
  tn_ctx_close(c);
  return seconds;
}

static void many_values(void **state) {
  double few = 1e9, many = 1e9;
  (void)state;
  for (int i = 0; i < 2; i++) { /* the better of two */
    double a = run_program(FEW), b = run_program(MANY);
    if (a < few) few = a;
    if (b < many) many = b;
  }
  if (many > FACTOR * few) fail_msg("%d values take %.3f s, %d %.3f s", FEW, few, MANY, many);
}

/* Names with equal hashes are told apart, and outputs of one value are nodes of their own. */
static void listed(tn_ctx *c, void *arg) {
  tn__names names;
  tn__roots roots;
  uint32_t number = 9;
  (void)arg;
  tn__names_init(&names, &c->scratch);
  for (uint32_t i = 0; i < 3; i++) tn__names_add(&names, i == 0 ? "a" : i == 1 ? "" : "b", i);
  assert_true(tn__names_find(&names, "b", &number) && number == 2);
  assert_true(tn__names_find(&names, "", &number) && number == 1);
  assert_false(tn__names_find(&names, "ab", &number));
  uint64_t key = tn__hash_bytes("c", 1, 0); /* taken by another */
  tn__map_put(&names.at, key, 0);
  assert_false(tn__names_find(&names, "c", &number));
  tn__names_add(&names, "c", 3);
  assert_true(tn__names_find(&names, "c", &number) && number == 3);
  tn_node *x = tn__int(c, 5), *copy = tn__op1(c, OP_CONTIG, x);
  tn__roots_init(c, &roots);
  tn_node *of[] = {x, copy, x, copy, x};
  for (uint32_t i = 0; i < 5; i++) assert_int_equal(tn__roots_add(c, &roots, of[i]), i);
  assert_true(roots.node.v[0] == x && roots.node.v[1] == copy);
  for (uint32_t i = 0; i < 5; i++)
    for (uint32_t j = 0; j < i; j++) assert_true(roots.node.v[i] != roots.node.v[j]);
}

static void lists(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  if (!tn__ctx_run(c, "listed", listed, NULL)) fail_msg("%s", tn_last_error(c)->text);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(many_values), cmocka_unit_test(lists)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
