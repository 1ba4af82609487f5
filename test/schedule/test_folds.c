/* An element of a fold adds up what stands at the places and offsets with place * stride + offset * dilation = i: each
 * pair once, in the order in which the source stands, and few turns in vain; all small windows, and some large. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "ir/build.h"
#include "schedule/fuse.h"
#include "support/in_ctx.h"

static int64_t value(const tn_node *n) {
  int64_t v = -1;
  assert_true(tn__const_int(n, &v));
  return v;
}

static tn_node *fold_of(tn_ctx *c, int64_t places, int64_t offsets, int64_t stride, int64_t dilation) {
  tn_node *dim[2] = {tn__int(c, places), tn__int(c, offsets)};
  tn_node *size = tn__int(c, (places - 1) * stride + (offsets - 1) * dilation + 1);
  return tn__fold(c, tn__param(c, TN_F32, 0, 0, dim, 2), size, 0, offsets, stride, dilation);
}

/* Has i a partner of none of these places? */
static void expect_no_pair(const tn_node *n, int64_t i, int64_t place, int64_t end) {
  for (; place < end; place++) {
    int64_t rest = i - place * n->ints[2], dilation = n->ints[3];
    assert_true(rest < 0 || rest % dilation || rest / dilation >= n->ints[1]);
  }
}

/* Its turns at i, against the places that have a partner; gives how many pairs there are. */
static int64_t check_element(tn_ctx *c, tn_node *n, tn__walk w, int64_t i) {
  int64_t next = 0, pairs = 0, places = value(n->src[0]->dim[0]), offsets = n->ints[1];
  tn_node *idx = tn__int(c, i);
  for (int64_t t = 0; t < w.turns; t++) {
    tn_node *at[2], *gate = NULL, *turn = tn__int(c, w.places ? t : w.turns - 1 - t);
    tn__fold_through(c, n, w, &idx, turn, at, &gate);
    if (gate && !value(gate)) continue;
    int64_t place = value(at[0]), offset = value(at[1]);
    assert_true(place >= next && place < places && offset >= 0 && offset < offsets);
    assert_int_equal(place * n->ints[2] + offset * n->ints[3], i);
    expect_no_pair(n, i, next, place);
    next = place + 1;
    pairs++;
  }
  expect_no_pair(n, i, next, places);
  return pairs;
}

static void check_fold(tn_ctx *c, int64_t places, int64_t offsets, int64_t stride, int64_t dilation) {
  tn_node *n = fold_of(c, places, offsets, stride, dilation);
  tn__walk w = tn__fold_walk(n), all = {.by = 1, .turns = offsets};
  int64_t most = 1;
  for (int64_t i = 0; i < value(n->dim[0]); i++) {
    int64_t pairs = check_element(c, n, w, i);
    assert_int_equal(check_element(c, n, all, i), pairs);
    if (pairs > most) most = pairs;
  }
  if (w.turns > 2 * most)
    fail_msg("%lld turns for at most %lld: %lld places, %lld offsets, stride %lld, dilation %lld", (long long)w.turns,
             (long long)most, (long long)places, (long long)offsets, (long long)stride, (long long)dilation);
}

static void all_small(tn_ctx *c, void *arg) {
  (void)arg;
  for (int64_t places = 1; places <= 5; places++)
    for (int64_t offsets = 1; offsets <= 5; offsets++)
      for (int64_t stride = 1; stride <= 6; stride++)
        for (int64_t dilation = 1; dilation <= 6; dilation++) check_fold(c, places, offsets, stride, dilation);
}

static void some_large(tn_ctx *c, void *arg) {
  (void)arg;
  check_fold(c, 20, 30, 30, 1); /* windows side by side */
  check_fold(c, 3, 40, 1, 3);   /* few places of dilated windows */
  check_fold(c, 31, 17, 21, 10);
  /* A leap of which the products would overflow is none. */
  int64_t leap = (int64_t)1 << 32;
  tn_node *n = fold_of(c, 2, 2, leap + 1, leap);
  tn__walk w = tn__fold_walk(n);
  assert_int_equal(w.by, 1);
  assert_int_equal(check_element(c, n, w, 2 * leap + 1), 1);
  assert_int_equal(check_element(c, n, w, leap), 1);
  assert_int_equal(check_element(c, n, w, leap + 2), 0);
}

static void small(void **s) {
  (void)s;
  test_in_ctx(all_small, NULL);
}

static void large(void **s) {
  (void)s;
  test_in_ctx(some_large, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(small), cmocka_unit_test(large)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
