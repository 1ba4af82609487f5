/* Programs on a device that records: whatever fails in between, it records no longer, and what was recorded in part is
 * not replayed. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/mem.h"
#include "device/device.h"
#include "ir/ctx.h"
#include "tenet/tenet.h"

struct tn__recording {
  int live;
};

/* The interpreter, which can be told to fail while it records.  A replay does nothing: results are those of the runs
 * before. */
static struct {
  tn__device_ops ops, ref;
  tn__recording made;
  bool recording, fail_launch, fail_after, fail_end;
  int replays;
} fake;

static tn_status record(tn__device *d) {
  (void)d;
  fake.recording = true;
  return TN_OK;
}
static tn_status after(tn__device *d, uint32_t item, const uint32_t *before, uint32_t n, const bool *early,
                       int urgent) {
  (void)item, (void)before, (void)n, (void)early, (void)urgent;
  if (fake.fail_after) tn__mem_throw(&d->ctx->mem, TN_ENOMEM);
  return TN_OK;
}
static tn_status launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                        const int64_t *var) {
  if (!fake.recording) return fake.ref.launch(d, code, i, buf, bytes, var);
  if (fake.fail_launch) tn__error(d->ctx, TN_EDEVICE, "the launch fails");
  return fake.fail_launch ? TN_EDEVICE : TN_OK;
}
static tn__recording *recorded(tn__device *d) {
  assert_true(fake.recording);
  fake.recording = false;
  if (fake.fail_end) {
    tn__error(d->ctx, TN_ERUN, "the recording fails");
    return NULL;
  }
  fake.made.live++;
  return &fake.made;
}
static tn_status replay(tn__device *d, tn__recording *r) {
  (void)d;
  assert_true(r == &fake.made);
  fake.replays++;
  return TN_OK;
}
static void forget(tn__device *d, tn__recording *r) {
  (void)d;
  if (r) r->live--;
}

static void failures(void **state) {
  (void)state;
  const struct {
    bool *way;
    tn_status status;
  } ways[] = {{&fake.fail_launch, TN_EDEVICE}, {&fake.fail_after, TN_ENOMEM}, {&fake.fail_end, TN_ERUN}};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref", .quiet = 1});
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  fake.ops = fake.ref = *d->ops;
  fake.ops.record = record, fake.ops.after = after, fake.ops.recorded = recorded, fake.ops.replay = replay,
  fake.ops.forget = forget, fake.ops.launch = launch;
  d->ops = &fake.ops;
  tn_scope(c) {
    tn_tensor *x = tn_ones(c, TN_F32, (tn_dim[]){3}, 1);
    assert_int_equal(tn_realize(&x, 1), TN_OK);
    tn_program *p = tn_program_begin(c);
    assert_int_equal(tn_program_output(p, "y", tn_neg(x)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    assert_int_equal(tn_program_run(p), TN_OK); /* the first run is not recorded */
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
      *ways[i].way = true;
      assert_int_equal(tn_program_run(p), ways[i].status);
      assert_false(fake.recording);
      assert_true(fake.made.live == 0 && fake.replays == 0);
      *ways[i].way = false;
      tn_clear_error(c);
    }
    for (int i = 1; i <= 2; i++) {
      assert_int_equal(tn_program_run(p), TN_OK);
      assert_true(fake.made.live == 1 && fake.replays == i);
    }
    tn_program_close(p);
  }
  tn_ctx_close(c);
  assert_int_equal(fake.made.live, 0);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(failures)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
