/* Scores of attention are stored where the device's memory has room for them; else threads work them out again. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "tenet/tenet.h"

enum { HEADS = 16, TERMS = 8 };

/* Two rows of scores for each query, f32, take 8 * HEADS * queries^2 bytes. */
static int kernels_of(const char *device, double memory, tn_dim queries) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .no_library = 1, .verify = "off"});
  const tn_dim shape[] = {HEADS, queries, TERMS};
  tn_program_info info;
  assert_non_null(c);
  if (memory >= 0) tn__device_get(c, 0)->target.memory = memory;
  tn_program *p = tn_program_begin(c);
  tn_tensor *q = tn_relu(tn_program_input(p, "q", TN_F32, shape, 3)), *k = tn_program_input(p, "k", TN_F32, shape, 3),
            *v = tn_program_input(p, "v", TN_F32, shape, 3);
  assert_int_equal(tn_program_output(p, "y", tn_matmul(tn_softmax(tn_matmul(q, tn_transpose(k, 1, 2)), 2), v)), TN_OK);
  if (tn_program_end(p) || tn_program_get_info(p, &info)) fail_msg("%s", tn_last_error(c)->text);
  tn_program_close(p);
  tn_ctx_close(c);
  return info.kernels;
}

static void scores_are_stored_where_there_is_room(void **state) {
  static const struct {
    const char *device;
    double memory; /* -1: as it is */
    tn_dim queries;
    bool stored;
  } of[] = {{"ref:sm_90", -1, 1000, true},     {"ref:sm_90", -1, 8003, true},   {"ref:sm_90", -1, 16001, false},
            {"ref:sm_90", 1e9, 1000, true},    {"ref:sm_90", 1e8, 1000, false}, {"ref:sm_80", -1, 8003, true},
            {"ref:sm_80", -1, 10007, false},   {"ref:cpu", -1, 4001, true},     {"ref:cpu", -1, 8003, false},
            {"ref:sm_90", 0, 4001, true},      {"ref:sm_90", 0, 8003, false}};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    int kernels = kernels_of(of[i].device, of[i].memory, of[i].queries);
    if ((kernels > 1) != of[i].stored)
      fail_msg("%s, %g bytes, %d queries: %d kernels", of[i].device, of[i].memory, (int)of[i].queries, kernels);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(scores_are_stored_where_there_is_room)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
