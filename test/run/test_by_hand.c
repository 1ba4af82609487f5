/* Kernels and programs as users might write them, drawn and damaged: all devices agree, or say why they do not run one,
 * and no error is Tenet's own.  HAND_SEED and HAND_COUNT draw others. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/hand.h"
#include "tenet/tenet.h"
#include <stdlib.h>

static const char *const device[] = {"ref", "ref:sm_90", "ref:opencl", "ref:cpu", "cpu"};
enum { CONTEXTS = sizeof device / sizeof *device, CPU_EVERY = 20 };

static uint64_t number(const char *name, uint64_t usual) {
  const char *s = getenv(name);
  return s ? strtoull(s, NULL, 10) : usual;
}

static void drawn(void **state) {
  uint64_t seed = number("HAND_SEED", 1), count = number("HAND_COUNT", 1500);
  tn_ctx *c[CONTEXTS];
  hand_tally tally = {0};
  char why[1000] = "";
  (void)state;
  for (int i = 0; i < CONTEXTS; i++) {
    c[i] = hand_open(device[i], !i, NULL);
    assert_non_null(c[i]);
  }
  for (uint64_t k = seed; k < seed + count; k++) {
    graph_dice d = {.state = k};
    char *whole = hand_draw(c[graph_roll(&d, 4)], &d);
    if (!whole) continue;
    char *text = hand_damage(&d, whole);
    if (!hand_agree(c, graph_roll(&d, CPU_EVERY) ? CONTEXTS - 1 : CONTEXTS, &d, text, &tally, why, sizeof why))
      fail_msg("seed %llu: %s\n%s", (unsigned long long)k, why, text);
    free(text);
    free(whole);
  }
  print_message("%u texts, %u of them ran, %u results compared, %u judged\n", tally.texts, tally.run, tally.compared,
                tally.judged);
  assert_true(tally.run > count / 10 && tally.compared > count / 10 && tally.judged > count / 20);
  for (int i = 0; i < CONTEXTS; i++) tn_ctx_close(c[i]);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(drawn)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
