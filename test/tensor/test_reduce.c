/* Along an axis of one element nothing is reduced: the front end makes a reshape of it, so that kernels have no reason
 * to end there. */
#include "front.h"
#include "ir/spec.h"

enum { ROWS = 3, COLUMNS = 5 };

static tn_tensor *sum(tn_tensor *x, bool keep) { return tn_sum(x, (int[]){1}, 1, keep); }
static tn_tensor *prod(tn_tensor *x, bool keep) { return tn_prod(x, (int[]){1}, 1, keep); }
static tn_tensor *most(tn_tensor *x, bool keep) { return tn_max(x, (int[]){1}, 1, keep); }
static tn_tensor *least(tn_tensor *x, bool keep) { return tn_min(x, (int[]){1}, 1, keep); }
static tn_tensor *mean(tn_tensor *x, bool keep) { return tn_mean(x, (int[]){1}, 1, keep); }
static tn_tensor *var(tn_tensor *x, bool keep) { return tn_var(x, (int[]){1}, 1, 0, keep); }
static tn_tensor *sum_exp(tn_tensor *x, bool keep) { return tn_logsumexp(x, (int[]){1}, 1, keep); }
static tn_tensor *some(tn_tensor *x, bool keep) { return tn_any(x, (int[]){1}, 1, keep); }
static tn_tensor *all(tn_tensor *x, bool keep) { return tn_all(x, (int[]){1}, 1, keep); }
static tn_tensor *softmax(tn_tensor *x, bool keep) { return (void)keep, tn_softmax(x, 1); }
static tn_tensor *first(tn_tensor *x, bool keep) { return tn_argmax(x, 1, keep); }
static tn_tensor *of_two(tn_tensor *x, bool keep) { return tn_sum(x, (int[]){1, 3}, 2, keep); }
static tn_tensor *with_another(tn_tensor *x, bool keep) { return tn_sum(x, (int[]){1, 2}, 2, keep); }

typedef struct along_one {
  const char *name;
  tn_tensor *(*make)(tn_tensor *, bool);
  int reductions; /* that stay */
  double of_two;  /* what it gives of the number 2; NAN: it goes along an axis of several elements */
} along_one;

static const along_one functions[] = {{"sum", sum, 0, 2},         {"prod", prod, 0, 2},
                                      {"max", most, 0, 2},        {"min", least, 0, 2},
                                      {"mean", mean, 0, 2},       {"var", var, 0, 0},
                                      {"logsumexp", sum_exp, 0, 2}, {"any", some, 0, 1},
                                      {"all", all, 0, 1},         {"softmax", softmax, 0, 1},
                                      {"argmax", first, 0, 0},    {"sum along two", of_two, 0, 2},
                                      {"sum along another one, too", with_another, 1, NAN}};

static void check(tn_ctx *c, const along_one *f, bool keep) {
  float numbers[ROWS * COLUMNS];
  for (int i = 0; i < ROWS * COLUMNS; i++) numbers[i] = 2;
  tn_tensor *x = tn_from(c, TN_F32, DIMS(ROWS, 1, COLUMNS, 1), numbers), *y = f->make(x, keep);
  naive_tensor v = front_value(y);
  tn__arena a;
  tn__arena_init(&a, &c->mem);
  tn__nodes all_nodes = {0};
  int reductions = 0;
  tn__topo(&a, &y->node, 1, &all_nodes);
  for (uint32_t i = 0; i < all_nodes.n; i++) reductions += tn__ops[all_nodes.v[i]->op].group == G_REDUCE;
  if (reductions != f->reductions) fail_msg("%s: %d reductions", f->name, reductions);
  for (int64_t i = 0; i < v.n && !isnan(f->of_two); i++)
    if (naive_get(&v, i) != f->of_two) fail_msg("%s: %.17g", f->name, naive_get(&v, i));
  assert_int_equal(v.n, isnan(f->of_two) ? ROWS : ROWS * COLUMNS);
  if (f->make != softmax) assert_int_equal(v.rank, keep ? 4 : 4 - (f->make == of_two || f->make == with_another) - 1);
  naive_free(&v);
  tn__arena_free(&a);
}

static void nothing_to_reduce(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_scope(&c) {
    for (size_t i = 0; i < sizeof functions / sizeof *functions; i++)
      for (int keep = 0; keep < 2; keep++) check(&c, &functions[i], keep);
  }
  front_close(&c);
}

/* Sums begin with 0, and so none is -0; what is the greatest, or a product, may be. */
static void minus_zero(void **state) {
  (void)state;
  tn_ctx c;
  front_open(&c);
  tn_scope(&c) {
    tn_tensor *x = F32(&c, DIMS(2, 1), -0.0f, 3);
    for (int keep = 0; keep < 2; keep++) {
      CHECK(tn_reshape(tn_sum(x, AXES(1), keep), DIMS(2)), DIMS(2), 0, 0, 3);
      CHECK(tn_reshape(tn_prod(x, AXES(1), keep), DIMS(2)), DIMS(2), 0, -0.0, 3);
      CHECK(tn_reshape(tn_max(x, AXES(1), keep), DIMS(2)), DIMS(2), 0, -0.0, 3);
    }
    CHECK(tn_sum(x, AXES(0, 1), false), SCALAR, 0, 3);
    CHECK(tn_sum(F32(&c, SCALAR, -0.0f), ALL, false), SCALAR, 0, -0.0); /* over no axes */
  }
  front_close(&c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(nothing_to_reduce), cmocka_unit_test(minus_zero)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
