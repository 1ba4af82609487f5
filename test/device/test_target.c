/* What follows from a device's figures, at the edges where choices change. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backend/cuda/target.h"
#include <math.h>

static tn__target h200(void) { return tn__cuda_target(9, 132, 227 << 10); }

static void test_edges(void **state) {
  tn__target t = h200(), old = tn__cuda_target(7, 80, 96 << 10);
  double launch = tn__target_launch_work(&t);
  (void)state;
  assert_true(launch > 66e6 && launch < 68e6); /* 2 us of 33.5e12 a second */
  assert_true(tn__target_launch_bytes(&t) > 9.4e6 && tn__target_launch_bytes(&t) < 9.7e6);
  assert_true(tn__target_is_much(&t, 4 * launch) && !tn__target_is_much(&t, 4 * launch * 0.999));
  assert_true(tn__target_is_thin(&t, 56, 56) && !tn__target_is_thin(&t, 57, 56) && tn__target_is_thin(&t, 1, 1e9));
  assert_true(tn__target_is_shallow(&t, 373) && !tn__target_is_shallow(&t, 374));
  assert_true(tn__target_shares_sums(&t, 20 * 27) && !tn__target_shares_sums(&t, 64 * 32 * 9));
  /* tiles of 16 lines wait for memory, of 32 no longer */
  assert_true(tn__target_is_narrow(&t, 16) && !tn__target_is_narrow(&t, 17));
  /* without tiles: as many as there is time for */
  assert_true(tn__target_is_narrow(&old, 20) && !tn__target_is_narrow(&old, 21));
}

static bool fits(int64_t rows, int64_t cols, int64_t steps, int dtype) {
  tn__target t = h200();
  tn__product_size p = {.batch = 1, .rows = rows, .cols = cols, .steps = steps, .dtype = dtype};
  return tn__target_fits(&t, &p);
}

static void test_fits(void **state) {
  (void)state;
  assert_true(fits(4096, 4096, 4096, TN_F32) && fits(4095, 4097, 4099, TN_F32));
  assert_true(fits(64, 128, 784, TN_F32) && fits(128, 64, 784, TN_F32)); /* whichever comes to lie along memory */
  assert_false(fits(8, 288, 72, TN_F32) || fits(288, 8, 72, TN_F32));    /* too much beyond the edges */
  assert_false(fits(60, 260, 35, TN_F32));                                /* too few tiles */
  assert_false(fits(4096, 4096, 4096, TN_BF16) || fits(4096, 4096, 4096, TN_F64)); /* want runs; there are none */
  assert_false(fits(0, 64, 64, TN_F32) || fits(64, 64, 0, TN_F32) || fits(1, 1, 1, TN_F32));
}

/* More units never make it slower, nor more steps faster, or a product cheaper than its part. */
static void test_times(void **state) {
  tn__product_size p = {.batch = 1, .rows = 100, .cols = 300, .steps = 80, .dtype = TN_F32}, more = p;
  tn__target few = h200(), many = few;
  (void)state;
  few.units = 8;
  more.steps = 160;
  assert_true(tn__target_plain_time(&few, &more) > tn__target_plain_time(&few, &p));
  assert_true(tn__target_plain_time(&few, &p) >= tn__target_plain_work(&few, &p));
  for (uint32_t i = 0; i < few.ntiles; i++) {
    const tn__tile_form *f = &few.tiles[i];
    assert_true(tn__target_tile_time(&few, f, &p) >= tn__target_tile_work(&few, f, &p));
    assert_true(tn__target_tile_time(&few, f, &more) >= tn__target_tile_time(&few, f, &p));
    /* in multiply-adds of the device, of which one with more units does more in the same time */
    assert_true(tn__target_tile_time(&many, f, &p) / many.units <= tn__target_tile_time(&few, f, &p) / few.units);
  }
}

/* 5 of widening: with sides of 15 elements are converted as long as they are multiplied. */
static void test_widening(void **state) {
  tn__target t = {.widening = 5}, none = {0};
  tn__product_size p = {.rows = 15, .cols = 15, .steps = 15, .dtype = TN_BF16};
  (void)state;
  assert_false(tn__target_widens_in_vain(&t, &p));
  p.steps = 14;
  assert_true(tn__target_widens_in_vain(&t, &p));
  assert_false(tn__target_widens_in_vain(&none, &p));
  p.dtype = TN_F32;
  assert_false(tn__target_widens_in_vain(&t, &p));
}

/* A device without tiles, which says nothing of its costs */
static void test_plain_device(void **state) {
  tn__target t = {.lane_bytes = 64};
  tn__product_size p = {.batch = 1, .rows = 64, .cols = 64, .steps = 64, .dtype = TN_F32};
  (void)state;
  assert_false(tn__target_fits(&t, &p) || tn__target_multiplies(&t, TN_F32));
  assert_true(tn__target_launch_work(&t) == 0 && tn__target_launch_bytes(&t) == 0);
  assert_true(tn__usual_group(&t) == 1);
  assert_true(tn__target_plain_work(&t, &p) == 64 * 64 * 64 && tn__target_plain_time(&t, &p) == 64 * 64 * 64);
  assert_true(tn__target_is_much(&t, 1) && !tn__target_is_narrow(&t, 1) && !tn__target_is_thin(&t, 1, 1));
  p.rows = 0; /* of nothing */
  assert_true(tn__target_plain_work(&t, &p) == 0 && tn__target_plain_time(&t, &p) == 0);
  p.rows = 1, p.dtype = TN_F64, t.access = 4; /* less than an element */
  assert_true(tn__target_plain_time(&t, &p) == 64 * 64);
}

/* So, one that has tiles: what a tile takes is a number, and more than nothing. */
static void test_silent_device(void **state) {
  tn__target of = h200(), t = {.group = 1024, .tiles = of.tiles, .ntiles = of.ntiles};
  tn__product_size p = {.batch = 2, .rows = 640, .cols = 640, .steps = 64, .dtype = TN_F32};
  (void)state;
  for (uint32_t i = 0; i < t.ntiles; i++) {
    double work = tn__target_tile_work(&t, &t.tiles[i], &p), time = tn__target_tile_time(&t, &t.tiles[i], &p);
    assert_true(work > 0 && time >= work && time <= 2 * work);
  }
  assert_false(tn__target_fits(&t, &p)); /* tiles save fetching, which takes no time here */
}

/* Where the library gains nothing, memory always takes longer than what it would gain. */
static void test_libraries(void **state) {
  static const double steps[] = {0, 1, 373, 374, 1e9, INFINITY};
  tn__target t = h200(), none = {.balance = 20};
  (void)state;
  for (size_t i = 0; i < sizeof steps / sizeof *steps; i++) {
    t.library = 1;
    assert_true(tn__target_is_shallow(&none, steps[i]) && tn__target_is_shallow(&t, steps[i]));
    t.library = 0;
    assert_true(tn__target_is_shallow(&t, steps[i]));
    t.library = 2, t.balance = 0; /* memory takes no time */
    assert_true(tn__target_is_shallow(&t, steps[i]) == (steps[i] == 0));
  }
}

/* Blocks of whole warps cover the row and none is empty; no unit gets a second group where one would do; a group's
 * threads are no more than it may have; and where there is enough to do, most of the threads that fit do something. */
static void test_owners(void **state) {
  static const int units[] = {84, 108, 128, 132};
  (void)state;
  for (int u = 0; u < 4; u++)
    for (int64_t width = 1; width < 1 << 22; width += width / 7 + 1)
      for (int64_t places = 2; places * width <= INT32_MAX; places += places * 3) {
        tn__target t = tn__cuda_target(9, units[u], 227 << 10);
        tn__owners o = tn__owners_of(&t, places, width);
        int64_t least = (width + 511) / 512, threads = o.columns * o.abreast;
        assert_true(o.columns % t.subgroup == 0 && o.blocks * o.columns >= width);
        assert_true((o.blocks - 1) * o.columns < width && o.classes >= 1 && o.classes <= (places + 1) / 2);
        assert_true(threads > 0 && threads <= 512 && (o.classes <= 2 || o.classes % 2));
        assert_true(o.classes * o.blocks <= (least > t.units ? least : t.units));
        if (places > 10000 && width <= 16 * 512) assert_true(o.classes * threads * o.blocks * 5 >= 512 * t.units * 3);
      }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_edges), cmocka_unit_test(test_fits),
                                     cmocka_unit_test(test_times), cmocka_unit_test(test_owners),
                                     cmocka_unit_test(test_widening), cmocka_unit_test(test_plain_device),
                                     cmocka_unit_test(test_silent_device), cmocka_unit_test(test_libraries)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
