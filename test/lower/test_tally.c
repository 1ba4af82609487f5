/* Integers that are added up at few places: each group's share in shared memory, whatever the places, those outside
 * among them, and whatever the size; schedules are compared with their graphs, too. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "support/coverage.h"
#include "tenet/tenet.h"
#include <stdio.h>

typedef struct tally { /* x[places] with updates added at places that a table of `range` numbers below gives */
  const char *name, *dtype;
  int places, updates, across, below;
  bool taken;
} tally;

static const tally rows[] = {
    {"what many threads add to", "i32", 65, 8192, 1, 65, true},
    {"places outside", "u32", 70, 9001, 1, 140, true},
    {"lines of updates", "i32", 67, 33, 257, 67, true},
    {"a share that begins earlier", "i32", 96, 6400, 1, 96, true},
    {"one share", "i32", 96, 800, 1, 96, true},
    {"too few for groups", "i32", 96, 700, 1, 96, false},
    {"few places", "i32", 3, 40000, 1, 3, true},
    {"few updates of few places", "i32", 3, 900, 1, 3, false},
    {"one place", "i32", 1, 40000, 1, 1, false},
    {"of eight bytes", "i64", 65, 8192, 1, 65, false},
};

static void text_of(const tally *r, char *out, size_t size) {
  const char *t = r->dtype;
  int p = r->places, n = r->updates, w = r->across;
  snprintf(out, size,
           "%%1 = param %s[%d] %d {0 0}\n%%2 = param %s[%d,%d] %d %d {1 0}\n%%3 = param i32[%d,%d] %d %d {2 0}\n"
           "%%4 = const i32 {%d}\n%%5 = reshape i32[1,1] %%4 1 1\n%%6 = expand i32[%d,%d] %%5 %d %d\n"
           "%%7 = mod i32[%d,%d] %%3 %%6\n%%8 = scatter %s[%d] %%1 %%7 %%2\n%%9 = sink void %%8 {\"outputs\"}\n",
           t, p, p, t, n, w, n, w, n, w, n, w, r->below, n, w, n, w, n, w, t, p);
}

static void adds_in_groups(void **state) {
  char why[512], text[1024];
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    text_of(&rows[i], text, sizeof text);
    bool good = coverage_takes("ref:opencl", tn__variant_at(0), "tally", text, i % 2, why, sizeof why);
    if (good != rows[i].taken) fail_msg("%s: %s\n%s", rows[i].name, good ? "the step is taken" : why, text);
    if (!good) assert_string_equal(why, "no step tally");
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(adds_in_groups)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
