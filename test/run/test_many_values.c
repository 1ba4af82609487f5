/* Programs with many inputs, outputs and states are recorded, compiled and run in a time that is linear in their
 * number: eight times as many take some eight times as many steps (their square would be 64 times). */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/names.h"
#include "ir/build.h"
#include "ir/roots.h"
#include "support/library.h"
#include "support/steps.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { FEW = 500, TIMES = 8, MOST = 9 }; /* a tenth for the maps */

static const char *numbered(char *name, char letter, int i) {
  snprintf(name, 16, "%c%d", letter, i);
  return name;
}

/* Each output is its input and its state, and each state is one more after a run. */
static uint64_t run_program(int n) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  tn_tensor **state = calloc((size_t)n, sizeof *state), **x = calloc((size_t)n, sizeof *x);
  char name[16];
  assert_true(c && state && x);
  for (int i = 0; i < n; i++) state[i] = tn_from(c, TN_F32, NULL, 0, &(float){(float)i});
  assert_int_equal(tn_realize(state, n), TN_OK);
  uint64_t from = steps_taken;
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
  uint64_t steps = steps_taken - from;
  free(state);
  free(x);
  tn_ctx_close(c);
  return steps;
}

/* Values of which each is made of the one before, realised at once */
static uint64_t realize_chain(int n) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  tn_tensor **t = calloc((size_t)n, sizeof *t), *x = tn_from(c, TN_F32, NULL, 0, &(float){1});
  assert_true(c && t && x);
  assert_int_equal(tn_realize(&x, 1), TN_OK);
  uint64_t from = steps_taken;
  for (int i = 0; i < n; i++) t[i] = tn_add(i ? t[i - 1] : x, x);
  assert_int_equal(tn_realize(t, n), TN_OK);
  uint64_t steps = steps_taken - from;
  double v;
  assert_int_equal(tn_item(t[n - 1], &v), TN_OK);
  assert_true(v == n + 1);
  free(t);
  tn_ctx_close(c);
  return steps;
}

/* One value under many names */
static uint64_t run_one_value(int n) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  tn_tensor *x = tn_from(c, TN_F32, NULL, 0, &(float){3});
  char name[16];
  assert_true(c && x);
  assert_int_equal(tn_realize(&x, 1), TN_OK);
  uint64_t from = steps_taken;
  tn_program *p = tn_program_begin(c);
  x = tn_neg(x);
  for (int i = 0; i < n; i++) assert_int_equal(tn_program_output(p, numbered(name, 'y', i), x), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  assert_int_equal(tn_program_run(p), TN_OK);
  uint64_t steps = steps_taken - from;
  for (int i = 0; i < n; i++) {
    float y;
    assert_int_equal(tn_program_read(p, numbered(name, 'y', i), &y, sizeof y), TN_OK);
    assert_true(y == -3);
  }
  tn_program_close(p);
  tn_ctx_close(c);
  return steps;
}

/* Layers that become one call each of a device's library: a product, a row and what follows */
static uint64_t realize_layers(int n) {
  enum { SIDE = 8 };
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  library_put(tn__device_get(c, 0));
  tn_tensor *x = tn_full(c, TN_BF16, (tn_dim[]){SIDE, SIDE}, 2, 1),
            *row = tn_full(c, TN_BF16, (tn_dim[]){SIDE}, 1, 1 - SIDE), *w = x;
  assert_int_equal(tn_realize((tn_tensor *[]){x, row}, 2), TN_OK);
  tn_program_info info;
  uint64_t from = steps_taken;
  for (int i = 0; i < n; i++) x = tn_relu(tn_add(tn_matmul(x, w), row));
  assert_int_equal(tn_get_info(&x, 1, &info), TN_OK);
  assert_int_equal(tn_realize(&x, 1), TN_OK);
  uint64_t steps = steps_taken - from;
  assert_true(info.library_calls == n && info.kernels < 9);
  float v[SIDE * SIDE];
  assert_int_equal(tn_read(tn_cast(x, TN_F32), v, sizeof v), TN_OK);
  for (int i = 0; i < SIDE * SIDE; i++) assert_true(v[i] == 1);
  tn_ctx_close(c);
  return steps;
}

static uint64_t name_sizes(int n) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  char name[16];
  assert_non_null(c);
  uint64_t from = steps_taken;
  for (int i = 0; i < n; i++) assert_true(tn_dim_is_symbolic(tn_dim_var(c, numbered(name, 'N', i), 1, 9)));
  uint64_t steps = steps_taken - from;
  assert_true(tn_dim_var(c, "N7", 1, 9) == tn_dim_var(c, "N7", 1, 9));
  assert_int_equal(tn_dim_var(c, "N7", 1, 8), TN_DIM_ERROR);
  assert_non_null(strstr(tn_last_error(c)->text, "size N7 exists with bounds 1..9"));
  tn_ctx_close(c);
  return steps;
}

/* Under TENET_VERIFY nobody else may have a state's old value: a run looks at all nodes for that once, and again only
 * when there are others. */
static uint64_t replay_beside(int n) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1, .verify = "1"});
  tn_tensor *s = tn_from(c, TN_F32, NULL, 0, &(float){1}), *x = tn_from(c, TN_F32, NULL, 0, &(float){1});
  double v;
  assert_true(c && s && x);
  assert_int_equal(tn_realize((tn_tensor *[]){s, x}, 2), TN_OK);
  tn_program *p = tn_program_begin(c);
  assert_int_equal(tn_assign(s, tn_add_scalar(s, 1)), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  for (int i = 0; i < n; i++) {
    tn_tensor *y = tn_add_scalar(x, i);
    tn_release(x);
    x = y;
  }
  for (int run = 0; run < 3; run++) assert_int_equal(tn_program_run(p), TN_OK);
  uint64_t from = steps_taken;
  for (int run = 0; run < 20; run++) assert_int_equal(tn_program_run(p), TN_OK);
  uint64_t steps = steps_taken - from;
  assert_int_equal(tn_item(s, &v), TN_OK);
  assert_true(v == 24);
  tn_program_close(p);
  tn_ctx_close(c);
  return steps;
}

static void replays(void **state) {
  (void)state;
  uint64_t few = replay_beside(FEW), many = replay_beside(TIMES * FEW);
  assert_true(few > 1000); /* they are counted */
  if (many > few + few / 10)
    fail_msg("20 runs take %llu steps beside %d nodes, %llu beside %d", (unsigned long long)few, FEW,
             (unsigned long long)many, TIMES * FEW);
}

static void many_values(void **state) {
  static const struct {
    const char *what;
    uint64_t (*run)(int n);
  } all[] = {{"inputs, outputs and states of a program", run_program},
             {"values, each made of the one before", realize_chain},
             {"outputs that are one value", run_one_value},
             {"layers by a library", realize_layers},
             {"sizes by name", name_sizes}};
  (void)state;
  for (size_t i = 0; i < sizeof all / sizeof *all; i++) {
    uint64_t few = all[i].run(FEW), many = all[i].run(TIMES * FEW);
    printf("%s: %d take %llu steps, %d take %llu\n", all[i].what, FEW, (unsigned long long)few, TIMES * FEW,
           (unsigned long long)many);
    assert_true(few > 50 * FEW); /* they are counted */
    if (many > MOST * few)
      fail_msg("%s: %.1f times the steps for %d times as many", all[i].what, (double)many / (double)few, TIMES);
  }
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

/* ---- lack of memory ---------------------------------------------------------------------------------------------- */

typedef struct adding {
  tn__names names;
  tn__arena a;
  char text[3 * FEW][16];
  uint32_t n; /* that are there */
} adding;

static void add_name(tn_ctx *c, void *arg) {
  adding *x = arg;
  (void)c;
  tn__names_add(&x->names, x->text[x->n], x->n);
}

/* A name that met a lack of memory is not there, all others are, and it can be added then. */
static void names_that_fail(void **state) {
  static adding x;
  int failed = 0;
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  tn__arena_init(&x.a, &c->mem);
  tn__names_init(&x.names, &x.a);
  for (; x.n < 3 * FEW; x.n++) {
    uint32_t number;
    numbered(x.text[x.n], 'n', (int)x.n);
    c->mem.fail_at = c->mem.count + 1;
    bool added = tn__ctx_run(c, "add", add_name, &x);
    c->mem.fail_at = 0;
    assert_int_equal(tn__names_find(&x.names, x.text[x.n], &number), added);
    for (uint32_t i = 0; i < x.n && !added; i++)
      assert_true(tn__names_find(&x.names, x.text[i], &number) && number == i);
    if (added) continue;
    failed++;
    assert_int_equal(tn_last_error(c)->status, TN_ENOMEM);
    tn_clear_error(c);
    assert_true(tn__ctx_run(c, "add", add_name, &x));
    assert_true(tn__names_find(&x.names, x.text[x.n], &number) && number == x.n);
  }
  assert_true(failed > 3);
  tn__arena_free(&x.a);
  tn_ctx_close(c);
}

/* Inputs, outputs and sizes that met one: the numbers of later ones are as if they had not been tried. */
static void values_that_fail(void **state) {
  enum { VALUES = 200, TRIES = 30 };
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  char name[16];
  tn_tensor *x[VALUES];
  int failed = 0;
  assert_non_null(c);
  tn_program *p = tn_program_begin(c);
  for (int i = 0; i < VALUES; i++) {
    bool in = false, out = false;
    tn_dim size = TN_DIM_ERROR;
    for (int k = 1; !in || !out || size == TN_DIM_ERROR; k++) { /* one allocation later each time */
      assert_true(k < TRIES);
      c->mem.fail_at = c->mem.count + k;
      if (size == TN_DIM_ERROR) size = tn_dim_var(c, numbered(name, 'N', i), i, i + 9);
      if (!in) in = (x[i] = tn_program_input(p, numbered(name, 'x', i), TN_F32, NULL, 0)) != NULL;
      if (in && !out) out = tn_program_output(p, numbered(name, 'y', i), x[i]) == TN_OK;
      c->mem.fail_at = 0;
      failed += tn_last_error(c)->status == TN_ENOMEM;
      tn_clear_error(c);
    }
    assert_true(tn_dim_var(c, numbered(name, 'N', i), i, i + 9) == size);
    assert_int_equal(tn_dim_var(c, name, i, i + 8), TN_DIM_ERROR);
    tn_clear_error(c);
  }
  assert_true(failed >= VALUES);
  assert_int_equal(tn_program_end(p), TN_OK);
  assert_int_equal(tn_program_count(p, TN_PROGRAM_INPUT), VALUES);
  assert_int_equal(tn_program_count(p, TN_PROGRAM_OUTPUT), VALUES);
  for (int i = 0; i < VALUES; i++)
    assert_int_equal(tn_program_write(p, numbered(name, 'x', i), NULL, 0, &(float){(float)i}, sizeof(float)), TN_OK);
  assert_int_equal(tn_program_run(p), TN_OK);
  for (int i = 0; i < VALUES; i++) {
    float y;
    assert_int_equal(tn_program_read(p, numbered(name, 'y', i), &y, sizeof y), TN_OK);
    assert_true(y == (float)i);
  }
  tn_program_close(p);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(many_values), cmocka_unit_test(replays), cmocka_unit_test(lists),
                                     cmocka_unit_test(names_that_fail), cmocka_unit_test(values_that_fail)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
