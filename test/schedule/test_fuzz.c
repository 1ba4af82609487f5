/* Random graphs through the schedule, against node-by-node evaluation.  FUZZ_SEED, FUZZ_COUNT and FUZZ_ONLY (a test) choose others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/forms.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>

static uint64_t from_environment(const char *name, uint64_t otherwise) {
  const char *s = getenv(name);
  return s ? strtoull(s, NULL, 0) : otherwise;
}

static void fuzz(const char *device, tn_mode mode, form f, uint64_t count, const graph_size *size) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .mode = mode, .quiet = 1});
  assert_non_null(c);
  if (f != PLAIN) take_form(tn__device_get(c, 0), f);
  uint64_t seed = from_environment("FUZZ_SEED", 0), bad = 0;
  count = from_environment("FUZZ_COUNT", count);
  for (uint64_t i = 0; i < count; i++) {
    char name[64];
    graph_dice d = {.state = (seed + i) << 8};
    snprintf(name, sizeof name, "%s mode %d form %d seed %llu", device, mode, (int)f, (unsigned long long)(seed + i));
    bad += !graph_try(c, &d, size, name);
    if (bad >= 3) break;
  }
  tn_ctx_close(c);
  assert_int_equal(bad, 0);
}

static const graph_size small = {.nodes = 20, .outputs = 4, .longest = 8, .elements = 300};
static const graph_size large = {.nodes = 16, .outputs = 3, .longest = 150, .elements = 3000};

static void strict(void **s) {
  (void)s;
  fuzz("ref", TN_MODE_STRICT, PLAIN, 400, &small);
}
static void defaults(void **s) {
  (void)s;
  fuzz("ref", TN_MODE_DEFAULT, PLAIN, 200, &small);
}
static void strict_optimised(void **s) {
  (void)s;
  fuzz("ref", TN_MODE_STRICT, OPTIMISED, 200, &large);
}
static void optimised(void **s) {
  (void)s;
  fuzz("ref", TN_MODE_DEFAULT, OPTIMISED, 400, &large);
}
static void strict_groups(void **s) {
  (void)s;
  fuzz("ref", TN_MODE_STRICT, GROUPS, 200, &large);
}
static void groups(void **s) {
  (void)s;
  fuzz("ref", TN_MODE_DEFAULT, GROUPS, 400, &large);
}
static void compiled(void **s) {
  (void)s;
  fuzz("cpu", TN_MODE_DEFAULT, PLAIN, 8, &large);
}
static void compiled_strict(void **s) {
  (void)s;
  fuzz("cpu", TN_MODE_STRICT, PLAIN, 6, &large);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(strict),    cmocka_unit_test(defaults), cmocka_unit_test(strict_optimised),
      cmocka_unit_test(optimised), cmocka_unit_test(strict_groups), cmocka_unit_test(groups), cmocka_unit_test(compiled), cmocka_unit_test(compiled_strict),
  };
  const char *only = getenv("FUZZ_ONLY");
  if (only) cmocka_set_test_filter(only);
  return cmocka_run_group_tests(tests, NULL, NULL);
}
