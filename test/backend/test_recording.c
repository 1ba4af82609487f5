/* The interpreter's recordings: each launch runs once in a replay, behind what it waits for, and otherwise in any
 * order. */
#include "backend/ref/ref.h"
#include "support/ctx.h"
#include <setjmp.h>
#include <stdarg.h>
#include <cmocka.h>
#include "support/linear.h"

enum { ITEMS = 6, REPLAYS = 40 };

typedef struct fixture {
  tn_ctx c;
  tn__device *d;
  tn__code *code;
  float room[ITEMS + 1]; /* launch i adds room[i] and 1 to room[i + 1] */
} fixture;

static void open_device(void *arg) {
  fixture *f = arg;
  tn__devices_open(&f->c);
  tn__ref_open(&f->c, "ref:sm_90");
  f->d = tn__device_get(&f->c, 0);
  lin *l = lin_new(&f->c, "next");
  tn_node *to = lin_buf(l, TN_F32, true), *from = lin_buf(l, TN_F32, false), *zero = tn__int(&f->c, 0);
  tn_node *sum = lin_op2(l, OP_ADD, lin_load(l, from, zero, NULL), tn__const_num(&f->c, TN_F32, 1));
  lin_store(l, OP_STOREADD, to, zero, sum, NULL);
  f->code = f->d->ops->compile(f->d, (tn__kernel *[]){&l->k}, 1);
}

static fixture *open_fixture(void) {
  static fixture f;
  tn_status status;
  memset(&f, 0, sizeof f);
  assert_true(test_ctx_open(&f.c));
  assert_true(tn__mem_try(&f.c.mem, open_device, &f, &status));
  return &f;
}

static void close_fixture(fixture *f) {
  f->d->ops->release(f->d, f->code);
  tn__devices_close(&f->c);
  assert_int_equal(test_ctx_close(&f->c), 0);
}

typedef enum order { CHAIN, NONE, OF_CALLS } order;

static void put(fixture *f, order o) {
  static const bool early[2];
  for (uint32_t i = 0; i < ITEMS; i++) {
    const uint32_t before = i - 1;
    if (o != OF_CALLS)
      assert_int_equal(f->d->ops->after(f->d, i, &before, o == CHAIN && i > 0, early, false), TN_OK);
    void *buf[] = {&f->room[i + 1], &f->room[i]}; /* gone before the replay */
    assert_int_equal(f->d->ops->launch(f->d, f->code, 0, buf, (size_t[]){4, 4}, NULL), TN_OK);
  }
}

/* Replays whose last value is not that of the order of the calls. */
static int others(fixture *f, order o) {
  int n = 0;
  assert_int_equal(f->d->ops->record(f->d), TN_OK);
  put(f, o);
  tn__recording *r = f->d->ops->recorded(f->d);
  assert_non_null(r);
  assert_true(f->room[ITEMS] <= 0); /* nothing ran yet */
  for (int k = 0; k < REPLAYS; k++) {
    memset(f->room, 0, sizeof f->room);
    assert_int_equal(f->d->ops->replay(f->d, r), TN_OK);
    assert_true(f->room[1] == 1); /* whatever the order: once */
    n += f->room[ITEMS] != ITEMS;
  }
  f->d->ops->forget(f->d, r);
  return n;
}

static void test_orders(void **state) {
  static const struct {
    const char *what;
    order o;
    int least, most; /* replays whose last value is another */
  } orders[] = {{"what waits comes later", CHAIN, 0, 0},
                {"without waits in any order", NONE, REPLAYS / 2 + 1, REPLAYS},
                {"no order is that of the calls", OF_CALLS, 0, 0}};
  (void)state;
  for (size_t i = 0; i < sizeof orders / sizeof *orders; i++) {
    fixture *f = open_fixture();
    int n = others(f, orders[i].o);
    if (n < orders[i].least || n > orders[i].most) fail_msg("%s: %d of %d", orders[i].what, n, (int)REPLAYS);
    close_fixture(f);
  }
}

static void test_no_memory(void **state) {
  (void)state;
  fixture *f = open_fixture();
  f->c.mem.fail_at = f->c.mem.count + 1;
  assert_int_equal(f->d->ops->record(f->d), TN_ENOMEM);
  f->c.mem.fail_at = 0;
  put(f, OF_CALLS); /* it runs at once again */
  assert_true(f->room[ITEMS] == ITEMS);
  close_fixture(f);
}

static void test_closed_while_recording(void **state) {
  (void)state;
  fixture *f = open_fixture();
  assert_int_equal(f->d->ops->record(f->d), TN_OK);
  put(f, CHAIN);
  close_fixture(f); /* nothing is lost */
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_orders), cmocka_unit_test(test_no_memory), cmocka_unit_test(test_closed_while_recording),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
