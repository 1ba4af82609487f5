/* Programs that are started: limits of time, and patience where the processor is busy with others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/child.h"
#include <string.h>
#include <sys/wait.h>

static tn__child_state run(const char *script, int limit_ms, int patience, tn__child *k) {
  const char *const argv[] = {"/bin/sh", "-c", script, NULL};
  assert_true(tn__child_start(k, argv, "some input\n", limit_ms));
  k->patience = patience;
  return tn__child_wait(k);
}

static void what_it_says(void **s) {
  (void)s;
  tn__child k;
  char said[64];
  assert_int_equal(run("cat; exit 3", 60000, 0, &k), TN__CHILD_ENDED);
  assert_int_equal(WEXITSTATUS(k.status), 3);
  assert_int_equal(tn__child_said(&k, said, sizeof said), strlen("some input\n"));
  assert_string_equal(said, "some input\n");
  tn__child_close(&k);
}

/* One that waits uses no processor, so that with patience it may; one that works has its limit. */
static void limits(void **s) {
  (void)s;
  tn__child k;
  assert_int_equal(run("sleep 60", 50, 0, &k), TN__CHILD_TOO_LONG);
  tn__child_close(&k);
  assert_int_equal(run("sleep 1; exit 0", 50, 10000, &k), TN__CHILD_ENDED);
  tn__child_close(&k);
  assert_int_equal(run("sleep 60", 50, 4, &k), TN__CHILD_TOO_LONG);
  tn__child_close(&k);
  assert_int_equal(run("while :; do :; done", 50, 10000, &k), TN__CHILD_TOO_LONG);
  tn__child_close(&k);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(what_it_says), cmocka_unit_test(limits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
