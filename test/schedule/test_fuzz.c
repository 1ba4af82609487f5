/* Random graphs through the schedule, against node-by-node evaluation.  FUZZ_SEED, FUZZ_COUNT and FUZZ_ONLY (a test)
 * choose others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/forms.h"
#include "support/graph.h"
#include "support/sentinel.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>

static uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *s = getenv(name);
  return s ? strtoull(s, NULL, 0) : otherwise;
}

static void fuzz(const char *device, tn_mode mode, form f, uint64_t count, const graph_size *size) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device_or(device), .mode = mode, .quiet = 1});
  assert_non_null(c);
  if (f != PLAIN) take_form(tn__device_get(c, 0), f);
  sentinel_put(tn__device_get(c, 0));
  uint64_t seed = from_environment("FUZZ_SEED", 0), bad = 0;
  count = from_environment("FUZZ_COUNT", count);
  for (uint64_t i = 0; i < count; i++) {
    char name[64];
    graph_dice d = {.state = (seed + i) << 8};
    snprintf(name, sizeof name, "%s mode %d form %d seed %llu", device, mode, (int)f, (unsigned long long)(seed + i));
    bad += !graph_try(c, &d, size, name);
    if (bad >= 3) break;
  }
  uint64_t compiled = c->stats.schedules_compiled;
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
  assert_true(compiled <= count); /* symbolic sizes: once for all their values */
}

static const graph_size small = {.nodes = 20, .outputs = 4, .longest = 8, .elements = 300};
static const graph_size large = {.nodes = 16, .outputs = 3, .longest = 150, .elements = 3000};
static const graph_size symbolic = {.nodes = 16, .outputs = 3, .longest = 8, .elements = 3000, .symbolic = 13};

/* name, device, mode, form, graphs, their size */
#define TESTS(X) \
  X(strict, "ref", TN_MODE_STRICT, PLAIN, 400, small) \
  X(defaults, "ref", TN_MODE_DEFAULT, PLAIN, 200, small) \
  X(strict_optimised, "ref", TN_MODE_STRICT, OPTIMISED, 200, large) \
  X(optimised, "ref", TN_MODE_DEFAULT, OPTIMISED, 400, large) \
  X(strict_groups, "ref", TN_MODE_STRICT, GROUPS, 200, large) \
  X(groups, "ref", TN_MODE_DEFAULT, GROUPS, 400, large) \
  X(compiled, "cpu", TN_MODE_DEFAULT, PLAIN, 16, large) \
  X(compiled_strict, "cpu", TN_MODE_STRICT, PLAIN, 12, large) \
  X(strict_symbolic, "ref", TN_MODE_STRICT, PLAIN, 300, symbolic) \
  X(strict_symbolic_optimised, "ref", TN_MODE_STRICT, OPTIMISED, 200, symbolic) \
  X(symbolic_optimised, "ref", TN_MODE_DEFAULT, OPTIMISED, 200, symbolic) \
  X(strict_symbolic_groups, "ref", TN_MODE_STRICT, GROUPS, 100, symbolic) \
  X(symbolic_groups, "ref", TN_MODE_DEFAULT, GROUPS, 100, symbolic) \
  X(compiled_symbolic, "cpu", TN_MODE_STRICT, PLAIN, 10, symbolic)

#define DEFINE(name, device, mode, form, count, size) \
  static void test_##name(void **s) { (void)s, fuzz(device, mode, form, count, &(size)); }
TESTS(DEFINE)

int main(void) {
#define LIST(name, device, mode, form, count, size) cmocka_unit_test(test_##name),
  const struct CMUnitTest tests[] = {TESTS(LIST)};
  const char *only = getenv("FUZZ_ONLY");
  if (only) cmocka_set_test_filter(only);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
