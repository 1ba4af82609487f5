/* Which items of a schedule wait for which, and which may come early. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "run/order.h"
#include <string.h>

enum { MOST = 6, PAGE = 1 << 20, SHORT = 1, LONG = 16 }; /* pages */
static const double SHORT_BYTES = 4 * PAGE;

typedef struct made {
  tn__arena a;
  tn__mem mem;
  tn__order_item item[MOST];
  tn__touch touch[MOST][3];
} made;

static uint64_t at(int buf) { return (uint64_t)buf * LONG * PAGE; }

/* An item that reads buffers x and y (-1: none) and writes `out`, pages of each. */
static void item(made *m, int i, int pages, int out, int x, int y) {
  const int buf[3] = {out, x, y};
  m->item[i] = (tn__order_item){.touch = m->touch[i]};
  for (int k = 0; k < 3; k++)
    if (buf[k] >= 0)
      m->touch[i][m->item[i].n++] =
          (tn__touch){.lo = at(buf[k]), .hi = at(buf[k]) + (uint64_t)pages * PAGE, .write = k == 0};
}

static made *begin(void) {
  static made m;
  memset(&m, 0, sizeof m);
  tn__arena_init(&m.a, &m.mem);
  return &m;
}

static void waits(const made *m, int i, uint32_t n, uint32_t first, bool early, bool parts) {
  assert_int_equal(m->item[i].nbefore, n);
  if (n) assert_int_equal(m->item[i].before[0], first);
  assert_int_equal(m->item[i].early[0], early);
  assert_int_equal(m->item[i].early[1], parts);
}

/* In a chain nothing else could have the room, however long it takes. */
static void test_chain(void **state) {
  (void)state;
  made *m = begin();
  for (int i = 0; i < 3; i++) item(m, i, LONG, i + 1, i, -1);
  tn__order_find(&m->a, m->item, 3, SHORT_BYTES);
  waits(m, 0, 0, 0, false, true);
  waits(m, 1, 1, 0, true, true);
  waits(m, 2, 1, 1, true, true);
  tn__arena_free(&m->a);
}

/* Two branches: what follows a long item stays away, as its own parts do; what follows a short one need not. */
static void test_branches(void **state) {
  (void)state;
  made *m = begin();
  item(m, 0, SHORT, 1, 0, -1);
  item(m, 1, LONG, 2, 1, -1);
  item(m, 2, SHORT, 3, 1, -1);
  item(m, 3, SHORT, 4, 2, -1); /* behind the long one */
  item(m, 4, SHORT, 5, 3, -1); /* behind the short one */
  item(m, 5, SHORT, 6, 4, 5);
  tn__order_find(&m->a, m->item, 6, SHORT_BYTES);
  waits(m, 1, 1, 0, true, false);
  waits(m, 2, 1, 0, true, true);
  waits(m, 3, 1, 1, false, true);
  waits(m, 4, 1, 2, true, true);
  waits(m, 5, 2, 4, false, true); /* it waits for two */
  tn__arena_free(&m->a);
}

/* Beside a chain of three stands what takes long: the chain goes first, then what it waits for, then what nobody waits
 * for.  Without, or where that is short, nothing does. */
static void test_urgent(void **state) {
  static const int beside[] = {LONG, SHORT, 0};
  (void)state;
  for (size_t b = 0; b < sizeof beside / sizeof *beside; b++) {
    made *m = begin();
    item(m, 0, beside[b], 5, 6, -1);
    for (int i = 1; i < 4; i++) item(m, i, SHORT, i + 1, i, -1);
    uint32_t n = 6;
    item(m, 4, SHORT, 7, 5, 4); /* waits for both */
    item(m, 5, SHORT, 8, 1, -1);
    if (!beside[b]) {
      for (int i = 0; i < 4; i++) item(m, i, LONG, i + 1, i, -1);
      n = 4;
    }
    tn__order_find(&m->a, m->item, n, SHORT_BYTES);
    for (uint32_t i = 0; i < n; i++) {
      int urgent = i == 0 ? 1 : i == 5 ? 0 : TN__MOST_URGENT;
      assert_int_equal(m->item[i].urgent, beside[b] == LONG ? urgent : 0);
    }
    tn__arena_free(&m->a);
  }
}

/* Library calls share their workspace; who writes again waits for who still reads. */
static void test_waits(void **state) {
  (void)state;
  made *m = begin();
  item(m, 0, SHORT, 1, 0, -1);
  item(m, 1, SHORT, 2, 0, -1);
  item(m, 2, SHORT, 3, 1, -1);
  item(m, 3, SHORT, 1, 0, -1);
  m->item[0].library = m->item[1].library = true;
  tn__order_find(&m->a, m->item, 4, SHORT_BYTES);
  waits(m, 1, 1, 0, true, true);
  waits(m, 2, 1, 0, true, true);
  waits(m, 3, 1, 2, true, true);
  tn__arena_free(&m->a);
}

/* Whatever wait is lost: two items are named that touch the same memory. */
static void test_lost_waits_are_found(void **state) {
  (void)state;
  static const int reads[MOST][3] = {{1, 0, -1}, {2, 1, -1}, {3, 1, -1}, {4, 2, -1}, {5, 3, 4}, {1, 5, -1}};
  uint32_t x, y, lost = 0;
  for (uint32_t i = 0; i < MOST; i++)
    for (uint32_t k = 0; k < MOST; k++) {
      made *m = begin();
      for (int j = 0; j < MOST; j++) item(m, j, SHORT, reads[j][0], reads[j][1], reads[j][2]);
      m->item[1].library = m->item[2].library = true;
      tn__order_find(&m->a, m->item, MOST, SHORT_BYTES);
      assert_true(tn__order_holds(&m->a, m->item, MOST, &x, &y));
      if (k < m->item[i].nbefore) {
        m->item[i].before[k] = m->item[i].before[--m->item[i].nbefore];
        assert_false(tn__order_holds(&m->a, m->item, MOST, &x, &y));
        assert_true(x < y && y < MOST);
        lost++;
      }
      tn__arena_free(&m->a);
    }
  assert_true(lost >= MOST - 1);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_chain), cmocka_unit_test(test_branches),
                                     cmocka_unit_test(test_urgent),
                                     cmocka_unit_test(test_waits), cmocka_unit_test(test_lost_waits_are_found)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
