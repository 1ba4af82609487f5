/* Each call returns its own status, whatever error is pending; the pending one stays the first.  And what errors name.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "base/poison.h"
#include "tenet/tenet.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static const tn_options plain = {.device = "ref", .threads = 1, .cc = "", .cache_dir = "", .quiet = 1};
static const float six[6] = {1, 2, 3, 4, 5, 6};

static void check(int line, const tn_ctx *c, tn_status got, tn_status want, tn_status pending) {
  if (got != want) fail_msg("line %d: %s, not %s", line, tn_status_name(got), tn_status_name(want));
  if (tn_last_error(c)->status != pending)
    fail_msg("line %d: %s is pending: %s", line, tn_status_name(tn_last_error(c)->status), tn_last_error(c)->text);
}

/* With nothing pending, with a pending TN_EDTYPE, and with a pending TN_EINVAL. */
#define OWN(call, status)                                                                                              \
  do {                                                                                                                 \
    tn_clear_error(c);                                                                                                 \
    check(__LINE__, c, call, status, status);                                                                          \
    tn_clear_error(c);                                                                                                 \
    assert_null(tn_arange(c, TN_BOOL, 0, 4, 1));                                                                       \
    check(__LINE__, c, call, status, TN_EDTYPE);                                                                       \
    tn_clear_error(c);                                                                                                 \
    assert_null(tn_arange(c, TN_F32, 0, 4, 0));                                                                        \
    check(__LINE__, c, call, status, TN_EINVAL);                                                                       \
    tn_clear_error(c);                                                                                                 \
  } while (0)

static void tensors(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 3), six), *lazy = tn_neg(x), *other = tn_ones(c, TN_I32, DIMS(2, 3)), *g,
            *parts[2];
  tn_tensor *sized = tn_ones(c, TN_F32, DIMS(tn_dim_var(c, "N", 1, 8)));
  tn_program_info info;
  int64_t lo, hi;
  double v;
  char few[4];
  OWN(tn_scope_end(c), TN_ESTATE);
  OWN(tn_shape(x, NULL), TN_EINVAL);
  OWN(tn_dim_bounds(c, -1, &lo, &hi), TN_EINVAL);
  OWN(tn_read(x, few, sizeof few), TN_EINVAL);
  OWN(tn_read(sized, few, sizeof few), TN_EBOUND);
  OWN(tn_write(lazy, six, sizeof six), TN_ESTATE);
  OWN(tn_item(x, &v), TN_ESHAPE);
  OWN(tn_item(sized, &v), TN_ESHAPE);
  OWN(tn_realize((tn_tensor *[]){sized}, 1), TN_EBOUND);
  OWN(tn_realize((tn_tensor *[]){x, NULL}, 2), TN_EINVAL);
  OWN(tn_print(sized, stderr), TN_EBOUND);
  OWN(tn_explain(&x, 1, stderr), TN_EINVAL);
  OWN(tn_get_info(&x, 1, &info), TN_EINVAL);
  OWN(tn_assign(lazy, x), TN_ESTATE);
  OWN(tn_assign(x, other), TN_EDTYPE);
  OWN(tn_grad(lazy, 1, &x, &g), TN_EGRAD);
  OWN(tn_vjp(lazy, other, 1, &x, &g), TN_EDTYPE);
  OWN(tn_split(x, 2, 1, parts), TN_ESHAPE);
  tn_ctx_close(c);
}

static void programs(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *other = tn_from(c, TN_I32, DIMS(2), six);
  char few[2];
  tn_program *none = tn_program_begin(c);
  OWN(tn_read(other, few, 8), TN_ESTATE);
  tn_clear_error(c);
  assert_null(tn_arange(c, TN_BOOL, 0, 4, 1));
  check(__LINE__, c, tn_program_end(none), TN_EINVAL, TN_EDTYPE); /* it has no output */
  tn_clear_error(c);
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(2));
  assert_int_equal(tn_program_output(p, "y", tn_neg(x)), TN_OK);
  OWN(tn_program_output(p, "y", x), TN_EINVAL);
  assert_int_equal(tn_program_end(p), TN_OK);
  OWN(tn_program_end(p), TN_ESTATE);
  OWN(tn_program_run(none), TN_ESTATE);
  OWN(tn_program_explain(none, stderr), TN_ESTATE);
  OWN(tn_program_run(p), TN_ESTATE);
  OWN(tn_program_bind(p, "x", other), TN_EDTYPE);
  OWN(tn_program_write(p, "x", DIMS(3), six, 12), TN_ESHAPE);
  OWN(tn_program_read(p, "y", few, sizeof few), TN_ESTATE);
  tn_ctx_close(c);
}

static void files(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  char path[] = "/tmp/tenet-status-XXXXXX";
  int fd = mkstemp(path);
  assert_true(fd >= 0);
  close(fd);
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 3), six), *sized = tn_ones(c, TN_F32, DIMS(tn_dim_var(c, "N", 1, 8)));
  const char *names[] = {"x"};
  tn_array a = {.dtype = TN_U8, .rank = 1, .shape = {2}, .data = (void *)(uintptr_t)six, .bytes = 2}, got;
  OWN(tn_save_safetensors(c, "/nowhere/at/all", 1, names, &x, 0, NULL), TN_EIO);
  OWN(tn_save_safetensors(c, path, 1, names, &sized, 0, NULL), TN_EBOUND);
  OWN(tn_idx_write(c, "/nowhere/at/all", &a), TN_EIO);
  OWN(tn_idx_read(c, "/nowhere/at/all", &got), TN_EIO);
  OWN(tn_idx_read(c, path, &got), TN_EFORMAT);
  assert_int_equal(tn_save_safetensors(c, path, 1, names, &x, 0, NULL), TN_OK);
  tn_file *f = tn_load_safetensors(c, path);
  tn_tensor *flat = tn_from(c, TN_F32, DIMS(6), six), *lazy = tn_neg(x);
  OWN(tn_file_read(f, "y", x), TN_EINVAL);
  OWN(tn_file_read(f, "x", flat), TN_ESHAPE);
  OWN(tn_file_read(f, "x", lazy), TN_ESTATE);
  tn_file_close(f);
  unlink(path);
  tn_ctx_close(c);
}

static void optimisers(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_params *params = tn_params_open(c);
  tn_tensor *w = tn_params_add(params, "w", tn_from(c, TN_F32, DIMS(2, 3), six)), *wrong = tn_ones(c, TN_F32, DIMS(5)),
            *none = NULL;
  tn_optim *o = tn_sgd(params, 0.1, 0, 0, false);
  assert_non_null(w);
  OWN(tn_optim_step(o, &wrong), TN_ESHAPE);
  tn_clear_error(c);
  assert_int_equal(tn_optim_step(o, &none), TN_EINVAL);
  tn_optim_close(o);
  tn_params_close(params);
  tn_ctx_close(c);
}

/* A NULL operand passes on what made it NULL, not an older error. */
static void passed_on(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 3), six), *g;
  assert_null(tn_arange(c, TN_BOOL, 0, 4, 1));
  tn_tensor *loss = tn_sum(tn_reshape(x, DIMS(5)), NULL, 0, false);
  assert_int_equal(tn_grad(loss, 1, &x, &g), TN_ESHAPE);
  assert_int_equal(tn_last_error(c)->status, TN_EDTYPE);
  /* NULL alone leads to no context: the call cannot know what is pending anywhere */
  double v;
  assert_int_equal(tn_item(loss, &v), TN_EINVAL);
  assert_int_equal(tn_read(loss, &v, sizeof v), TN_EINVAL);
  assert_int_equal(tn_print(loss, stderr), TN_EINVAL);
  assert_int_equal(tn_assign(x, loss), TN_ESHAPE);
  tn_ctx_close(c);
}

/* ---- the text and the function an error names ---- */

#define SAYS(call, op_, text_)                                                                                         \
  do {                                                                                                                 \
    tn_clear_error(c);                                                                                                 \
    (void)(call);                                                                                                      \
    assert_string_equal(tn_last_error(c)->op, op_);                                                                    \
    assert_string_equal(tn_last_error(c)->text, op_ ": " text_);                                                       \
  } while (0)

static void names(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 3), six), *i = tn_ones(c, TN_I32, DIMS(2));
  double v;
  SAYS(tn_item(x, &v), "tn_item", "needs one element, not 6: f32[2,3]");
  SAYS(tn_dropout(x, 2, true), "tn_dropout", "probability 2 is outside 0..1");
  SAYS(tn_dropout(i, 0.5, true), "tn_dropout", "needs floats, not i32[2]: convert with tn_cast");
  SAYS(tn_kaiming_normal(c, TN_F32, DIMS(3), 0), "tn_kaiming_normal",
       "needs a shape of two plain sizes or more, not [3]");
  SAYS(tn_xavier_uniform(c, TN_I8, DIMS(3, 2), 1), "tn_xavier_uniform", "needs a float dtype, not i8");
  SAYS(tn_arange(c, TN_BOOL, 0, 4, 1), "tn_arange", "needs a number dtype, not bool");
  SAYS(tn_arange(c, TN_F32, 0, 4, 0), "tn_arange", "start 0, stop 4 and step 0 must be finite, and step not 0");
  SAYS(tn_arange(c, TN_I8, 0, 200, 1), "tn_arange", "the last number, 199, does not fit i8");
  SAYS(tn_arange(c, TN_U8, -1, 5, 1), "tn_arange", "start, -1, does not fit u8");
  SAYS(tn_arange(c, TN_I32, 0, 5, 0.5), "tn_arange", "step, 0.5, does not fit i32");
  SAYS(tn_arange(c, TN_F32, 0, 1e30, 1e-30), "tn_arange", "from 0 to 1e+30 by 1e-30 would be 1e+60 elements: too many");
  tn_ctx_close(c);
}

static void printing(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&plain);
  char got[200] = "";
  FILE *f = tmpfile();
  tn_tensor *x = tn_from(c, TN_F32, DIMS(4), (const float[]){NAN, -NAN, INFINITY, -INFINITY});
  assert_int_equal(tn_print(x, f), TN_OK);
  assert_int_equal(tn_print(tn_cast(x, TN_F16), f), TN_OK);
  rewind(f);
  assert_true(fread(got, 1, sizeof got - 1, f) > 0);
  assert_string_equal(got, "[nan, nan, inf, -inf] : f32[4]\n[nan, nan, inf, -inf] : f16[4]\n");
  fclose(f);
  tn_ctx_close(c);
}

/* What a failed compilation allocated is gone when the call is. */
static void failed_compilations(void **state) {
  (void)state;
  tn_ctx *c =
      tn_ctx_open(&(tn_options){.device = "cpu", .threads = 1, .cc = "/bin/false", .cache_dir = "", .quiet = 1});
  size_t heap[4];
  assert_non_null(c);
  /* handles that ended rest a while: from here on they serve again */
  tn_scope(c) for (int i = 0; i < 2000; i++) tn_const(c, TN_F32, 1);
  for (int i = 0; i < 4; i++) {
    tn_stats s;
    tn_scope(c) {
      tn_tensor *x = tn_from(c, TN_F32, DIMS(2, 3), six);
      for (int k = 0; k < (i % 2 ? 1 : 30); k++) x = tn_contiguous(tn_sin(x));
      assert_int_equal(tn_realize(&x, 1), TN_ECOMPILE);
    }
    tn_ctx_stats(c, &s);
    heap[i] = s.heap_bytes;
  }
  /* a large graph, a small one; under the address sanitizer vectors that stay grow by each item */
  assert_true(TN__POISONED || heap[2] == heap[3]);
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(tensors), cmocka_unit_test(programs),  cmocka_unit_test(files),
      cmocka_unit_test(optimisers), cmocka_unit_test(passed_on), cmocka_unit_test(names),
      cmocka_unit_test(printing), cmocka_unit_test(failed_compilations),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
