/* Where NVIDIA GPUs have shorter functions for half floats, and where they must not (lower/near.c): by the
 * text of kernels. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <string.h>

static tn_tensor *log_of_power(tn_tensor *x) { return tn_log1p(tn_exp(x)); }
static tn_tensor *log_of_negative(tn_tensor *x) { return tn_log1p(tn_neg(tn_exp(x))); }
static tn_tensor *angle(tn_tensor *x) { return tn_atan2(tn_tanh(x), tn_exp(x)); }
static tn_tensor *wave(tn_tensor *x) { return tn_sin(tn_exp(x)); }
static tn_tensor *quotient(tn_tensor *x) { return tn_div(tn_abs(x), x); }

static const struct {
  const char *name;
  tn_tensor *(*make)(tn_tensor *x);
  tn_dtype dtype;
  const char *has, *lacks;
} rows[] = {
    {"log1p of what is positive", log_of_power, TN_BF16, "= tn_near_exp(", "= tn_exp_f32("},
    {"log1p of what may be near -1", log_of_negative, TN_BF16, "= tn_exp_f32(", "= tn_near_exp("},
    {"both operands of atan2", angle, TN_BF16, "= tn_near_tanh(", "= tn_exp_f32("},
    {"what turns", wave, TN_BF16, "= tn_exp_f32(", "= tn_near_exp("},
    {"quotients of f16", quotient, TN_F16, "tn_quotient_f16(v", " / v"},
    {"but no others", quotient, TN_F32, "= tn_div_f32(v", "tn_quotient_f16(v"},
};

static void texts(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .threads = 1, .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      static const uint32_t zeros[512];
      tn_tensor *x = rows[i].make(tn_from(c, rows[i].dtype, (const tn_dim[]){512}, 1, zeros));
      char *all = tn_explain_string(&x, 1), *text = all ? strstr(all, "__global__ void") : NULL;
      assert_non_null(text);
      if (!strstr(text, rows[i].has) || strstr(text, rows[i].lacks)) fail_msg("%s: %s", rows[i].name, text);
      tn_string_free(all);
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(texts)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
