/* Long programs are scheduled, and their kernels compiled, in time linear in their length: by counts of what was done,
 * not by a clock.  bench/compile.c has the times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/plan.h"
#include "tenet/tenet.h"

enum { WIDTH = 4, SHORT = 200, LONG = 8 * SHORT };

typedef struct work {
  uint64_t looked; /* by searches for dependences */
  uint32_t items, kernels;
} work;

static tn_tensor *filled(tn_ctx *c, int64_t rows, int64_t columns) {
  tn_tensor *t = tn_full(c, TN_F32, (tn_dim[]){rows, columns}, 2, 0.5);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return t;
}

/* A product for each step, all with the same weights, which are computed */
static tn_tensor *layers(tn_ctx *c, int n) {
  tn_tensor *x = filled(c, WIDTH, WIDTH), *w = tn_exp(filled(c, WIDTH, WIDTH));
  for (int i = 0; i < n; i++) x = tn_tanh(tn_add(tn_matmul(x, w), w));
  return x;
}

/* Sums over columns, each of what the one before it gave */
static tn_tensor *sums(tn_ctx *c, int n) {
  tn_tensor *x = filled(c, WIDTH, 64 * WIDTH), *shared = tn_exp(x);
  for (int i = 0; i < n; i++)
    x = tn_add(tn_mul_scalar(x, 0.5), tn_mul(shared, tn_mean(tn_tanh(x), (int[]){i % 2}, 1, true)));
  return x;
}

/* A recurrent network that joins and splits at each step, and its gradient */
static tn_tensor *recurrent(tn_ctx *c, int n) {
  tn_tensor *x = filled(c, WIDTH, WIDTH), *h = tn_zeros(c, TN_F32, (tn_dim[]){WIDTH, WIDTH}, 2), *g, *part[2];
  tn_tensor *w = filled(c, 2 * WIDTH, WIDTH);
  for (int i = 0; i < n; i++) {
    tn_split(tn_linear(tn_add(h, x), w, NULL), 2, 1, part);
    h = tn_mul(tn_sigmoid(part[0]), tn_tanh(part[1]));
  }
  assert_int_equal(tn_grad(tn_sum(h, NULL, 0, false), 1, &w, &g), TN_OK);
  return g;
}

static const struct {
  const char *name;
  tn_tensor *(*make)(tn_ctx *c, int n);
} programs[] = {{"layers", layers}, {"sums", sums}, {"recurrent", recurrent}};

static work work_of(const char *device, tn_tensor *(*make)(tn_ctx *c, int n), int n) {
  const char *verify = n > SHORT ? "off" : NULL; /* the short ones say as much, and take a ninth of the time */
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .no_library = 1, .verify = verify});
  tn_program_info info;
  assert_non_null(c);
  tn_tensor *t = make(c, n);
  if (tn_get_info(&t, 1, &info)) fail_msg("%s", tn_last_error(c)->text);
  const tn__plan *p = c->runtime->plans; /* the last one */
  work w = {.looked = p->s->looked, .items = p->s->items.n, .kernels = p->nkernels};
  tn_ctx_close(c);
  return w;
}

static void grows_with_the_length(void **state) {
  static const char *const device[] = {"ref", "ref:sm_90"};
  (void)state;
  for (size_t d = 0; d < sizeof device / sizeof *device; d++)
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
      work x = work_of(device[d], programs[i].make, SHORT), y = work_of(device[d], programs[i].make, LONG);
      if (y.items < x.items * 6) fail_msg("%s: %u kernels, and %u", programs[i].name, x.items, y.items);
      if (y.looked > (x.looked + 100) * 16) /* twice as many a step */
        fail_msg("%s, %s: searches came by %u kernels and nodes in %d steps, by %u in %d", device[d], programs[i].name,
                 (unsigned)x.looked, SHORT, (unsigned)y.looked, LONG);
      if (y.kernels > x.kernels + 4)
        fail_msg("%s, %s: %u different kernels in %d steps, %u in %d", device[d], programs[i].name, x.kernels, SHORT,
                 y.kernels, LONG);
    }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(grows_with_the_length)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
