/* Scatters of devices whose threads run at once, by all of their ways, against one addition after the other. */
#include "device/device.h"
#include "schedule/schedule.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST = 1 << 14 };

static uint64_t seed = 20261124;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* Where updates go: anywhere, also outside; all to one place; to a few places, so that runs are long. */
enum { ANYWHERE, ONE, FEW, DRAWS };
static int64_t draw_place(int draw, int64_t places) {
  if (draw == ANYWHERE) return below(places + 6) - 3;
  return draw == ONE ? places / 2 : below(places < 3 ? places : 3);
}

static const struct {
  int64_t places, n, width;
} sizes[] = {{1, 1, 1},     {7, 1, 3},    {1, 40, 2},   {300, 0, 2},   {40, 64, 1},   {300, 257, 1},
             {300, 601, 3}, {40, 600, 7}, {2000, 5, 2}, {900, 900, 1}, {64, 1025, 1}, {3, 4097, 1},
             {4000, 60, 4}, {16000, 1, 1}, {2000, 700, 3}};

static void expect_sums(tn_ctx *c, int64_t places, int64_t n, int64_t width, int draw) {
  static float base[MOST], upd[MOST], want[MOST], got[MOST];
  static int64_t idx[MOST];
  for (int64_t i = 0; i < places * width; i++) base[i] = want[i] = (float)below(100);
  for (int64_t i = 0; i < n * width; i++) upd[i] = (float)(below(7) - 3); /* whose sums are exact in any order */
  for (int64_t k = 0; k < n; k++) {
    idx[k] = draw_place(draw, places);
    for (int64_t j = 0; j < width && idx[k] >= 0 && idx[k] < places; j++)
      want[idx[k] * width + j] += upd[k * width + j];
  }
  tn_tensor *b = tn_from(c, TN_F32, (tn_dim[]){places, width}, 2, base),
            *u = tn_from(c, TN_F32, (tn_dim[]){n, width}, 2, upd), *i = tn_from(c, TN_I64, &n, 1, idx);
  tn_tensor *sum = tn_index_add(b, 0, i, u);
  assert_int_equal(tn_read(sum, got, (size_t)(places * width) * sizeof *got), TN_OK);
  for (int64_t k = 0; k < places * width; k++)
    if (got[k] != want[k])
      fail_msg("%lld of %lld by %lld, draw %d: element %lld is %g, not %g", (long long)n, (long long)places,
               (long long)width, draw, (long long)k, (double)got[k], (double)want[k]);
  tn_release(b), tn_release(u), tn_release(i), tn_release(sum);
}

enum { AS_SAID = -1 };
static void expect_all(const char *device, float launch) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  if (launch > AS_SAID) tn__device_get(c, 0)->target.launch = launch;
  for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int draw = 0; draw < DRAWS; draw++) expect_sums(c, sizes[i].places, sizes[i].n, sizes[i].width, draw);
  tn_ctx_close(c);
}

static void test_asked(void **s) {
  (void)s;
  expect_all("ref:sm_90", AS_SAID);
}

static void test_sorted(void **s) {
  (void)s;
  expect_all("ref:sm_90", 0);
  expect_all("ref:sm_90", 1e-15f); /* by words of counts */
  expect_all("ref:opencl", 0);
}

/* Which way is taken when: a sort has a permutation. */
static bool sorts(tn_ctx *c, const tn__target *t, int64_t places, int64_t n) {
  tn_node *size = tn__int(c, places), *count = tn__int(c, n);
  tn_node *x[] = {tn__param(c, TN_F32, 0, -1, &size, 1), tn__param(c, TN_I64, 1, -1, &count, 1),
                  tn__param(c, TN_F32, 2, -1, &count, 1)};
  tn_node *sum = tn__scatter(c, x[0], x[1], x[2]), *sink = tn__schedule_scatters(c, tn__sink(c, &sum, 1, NULL), t);
  tn__nodes all = {0};
  tn__topo(&c->scratch, &sink, 1, &all);
  bool serial = false, permuted = false;
  for (uint32_t i = 0; i < all.n; i++) {
    permuted |= all.v[i]->op == OP_PERMUTATION;
    serial |= all.v[i] == sum;
  }
  assert_int_equal(serial, t->group == 0);
  return permuted;
}

static void choose(tn_ctx *c, void *arg) {
  (void)arg;
  tn__target t = tn__device_get(c, 0)->target;
  assert_false(sorts(c, &t, 1000, 1000));
  assert_true(sorts(c, &t, 1 << 20, 1 << 20));
  t.launch = 0;
  assert_false(sorts(c, &t, 4, 1000));
  assert_true(sorts(c, &t, 9000, 9000));
  t.group = 0;
  assert_false(sorts(c, &t, 1 << 20, 1 << 20));
}

static void test_choice(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  assert_true(tn__ctx_run(c, "test", choose, NULL));
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_asked), cmocka_unit_test(test_sorted),
                                     cmocka_unit_test(test_choice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
