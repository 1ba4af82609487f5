/* Where temporaries lie: as the plain search says, which looks at every pair; and never two in one place at one time.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/arena_layout.h"
#include <string.h>

static bool together(const tn__life *a, const tn__life *b) { return a->first <= b->last && b->first <= a->last; }
static bool overlap(const tn__life *a, const tn__life *b) {
  return a->offset < b->offset + b->bytes && b->offset < a->offset + a->bytes;
}

/* The largest that is not placed yet, the first of equal ones, at the lowest place */
static size_t plainly(tn__life *life, uint32_t n) {
  bool done[512] = {false};
  size_t end = 0;
  for (uint32_t round = 0; round < n; round++) {
    uint32_t pick = n;
    for (uint32_t i = 0; i < n; i++)
      if (!done[i] && (pick == n || life[i].bytes > life[pick].bytes)) pick = i;
    life[pick].offset = 0;
    for (bool moved = life[pick].bytes > 0; moved;) {
      moved = false;
      for (uint32_t i = 0; i < n; i++) {
        if (!done[i] || !together(&life[i], &life[pick]) || !overlap(&life[i], &life[pick])) continue;
        life[pick].offset = (life[i].offset + life[i].bytes + TN__PLACE_ALIGN - 1) / TN__PLACE_ALIGN * TN__PLACE_ALIGN;
        moved = true;
      }
    }
    done[pick] = true;
    if (life[pick].offset + life[pick].bytes > end) end = life[pick].offset + life[pick].bytes;
  }
  return end;
}

static uint32_t roll(uint64_t *state, uint32_t n) {
  *state = *state * 6364136223846793005u + 1442695040888963407u;
  return (uint32_t)(*state >> 33) % n;
}

static void as_the_plain_search(void **s) {
  (void)s;
  tn__mem m = {0};
  tn__arena a;
  tn__arena_init(&a, &m);
  uint64_t state = 1;
  for (int round = 0; round < 400; round++) {
    tn__life life[200], want[200];
    uint32_t n = roll(&state, 200), items = 1 + roll(&state, 100), longest = 1 + roll(&state, items);
    for (uint32_t i = 0; i < n; i++) {
      life[i].first = roll(&state, items);
      life[i].last = life[i].first + roll(&state, longest);
      life[i].bytes = roll(&state, 4) ? roll(&state, 2000) : 64 * roll(&state, 4);
    }
    memcpy(want, life, sizeof want);
    size_t end = plainly(want, n);
    assert_int_equal(tn__place_lives(&a, life, n), end);
    for (uint32_t i = 0; i < n; i++) assert_int_equal(life[i].offset, want[i].offset);
    tn__arena_reset(&a);
  }
  tn__arena_free(&a);
  assert_int_equal(m.live, 0);
}

/* A long chain needs two places, however long; so do lives that end in the order in which they began, and what lives
 * all the time one more. */
static void long_chains(void **s) {
  (void)s;
  enum { N = 100000 };
  tn__mem m = {0};
  tn__arena a;
  tn__arena_init(&a, &m);
  tn__life *life = tn__arena_alloc(&a, (N + 1) * sizeof *life);
  for (uint32_t i = 0; i < N; i++) life[i] = (tn__life){.first = i, .last = i + 1, .bytes = 64};
  assert_int_equal(tn__place_lives(&a, life, N), 2 * 64);
  for (uint32_t i = 0; i + 1 < N; i++) assert_int_not_equal(life[i].offset, life[i + 1].offset);
  life[N] = (tn__life){.first = 0, .last = N, .bytes = 64};
  assert_int_equal(tn__place_lives(&a, life, N + 1), 3 * 64);
  /* forward and backward */
  for (uint32_t i = 0; i < N; i++) life[i] = (tn__life){.first = i, .last = 2 * N - i, .bytes = 10};
  assert_int_equal(tn__place_lives(&a, life, N), (size_t)(N - 1) * 64 + 10);
  assert_int_equal(tn__place_lives(&a, life, 0), 0);
  tn__arena_free(&a);
  assert_int_equal(m.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_plain_search), cmocka_unit_test(long_chains)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
