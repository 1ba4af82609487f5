/* What was closed or has ended is told from what is live: an error that says so, and never another object that took its
 * place. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/files.h"
#include "tenet/tenet.h"

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static tn_ctx *c;
static float six[6] = {1, 2, 3, 4, 5, 6};

static int open_ctx(void **state) {
  (void)state;
  c = tn_ctx_open(&(tn_options){.device = "ref", .threads = 1, .cache_dir = "", .quiet = 1});
  return c ? 0 : -1;
}
static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(c);
  return 0;
}

static void check_says(const char *op, const char *text, int line) {
  const tn_error *e = tn_last_error(c);
  char want[200];
  snprintf(want, sizeof want, "%s: %s", op, text);
  if (e->status != TN_EINVAL || strcmp(e->text, want) || strcmp(e->op, op))
    fail_msg("line %d: %s: '%s', not '%s'", line, tn_status_name(e->status), e->text, want);
  tn_clear_error(c);
}
/* The call fails so, and says the text in the name of the function. */
#define SAYS(failed, op, text)                                                                                         \
  do {                                                                                                                 \
    if (!(failed)) fail_msg("line %d: it did not fail", __LINE__);                                                     \
    check_says(op, text, __LINE__);                                                                                    \
  } while (0)
#define STATUS(call, op, text) SAYS((call) == TN_EINVAL, op, text)
#define VOID(call, op, text) SAYS(((call), true), op, text)

static tn_program *doubling(void) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(2));
  assert_int_equal(tn_program_output(p, "y", tn_add(x, x)), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  assert_int_equal(tn_program_write(p, "x", DIMS(2), six, 8), TN_OK);
  return p;
}

static void programs(void **state) {
  static const char text[] = "the program was closed";
  tn_program_info info;
  float y[2];
  (void)state;
  tn_program *p = doubling();
  tn_tensor *x = tn_from(c, TN_F32, DIMS(2), six);
  tn_program_close(p);
  VOID(tn_program_close(p), "tn_program_close", text);
  STATUS(tn_program_run(p), "tn_program_run", text);
  STATUS(tn_program_end(p), "tn_program_end", text);
  STATUS(tn_program_output(p, "y", x), "tn_program_output", text);
  STATUS(tn_program_write(p, "x", DIMS(2), six, 8), "tn_program_write", text);
  STATUS(tn_program_bind(p, "x", x), "tn_program_bind", text);
  STATUS(tn_program_read(p, "y", y, sizeof y), "tn_program_read", text);
  STATUS(tn_program_get_info(p, &info), "tn_program_get_info", text);
  STATUS(tn_program_explain(p, stderr), "tn_program_explain", text);
  SAYS(!tn_program_input(p, "x", TN_F32, DIMS(2)), "tn_program_input", text);
  SAYS(!tn_program_result(p, "y"), "tn_program_result", text);
  tn_program *q = doubling(); /* has not taken its place */
  assert_ptr_not_equal(p, q);
  VOID(tn_program_close(p), "tn_program_close", text);
  assert_int_equal(tn_program_run(q), TN_OK);
  assert_int_equal(tn_program_read(q, "y", y, sizeof y), TN_OK);
  assert_true(y[0] == 2 && y[1] == 4);
  q = tn_program_begin(c); /* while it is recorded */
  tn_program_close(q);
  STATUS(tn_program_end(q), "tn_program_end", text);
  assert_non_null(q = tn_program_begin(c));
  tn_program_close(q);
}

static void optimisers(void **state) {
  (void)state;
  tn_params *params = tn_params_open(c);
  tn_tensor *w = tn_params_add(params, "w", tn_from(c, TN_F32, DIMS(6), six)), *g = tn_ones(c, TN_F32, DIMS(6));
  tn_optim *o = tn_adam(params, 0.1, 0.9, 0.999, 1e-8, 0), *left = tn_sgd(params, 0.1, 0.9, 0, false);
  assert_non_null(w);
  assert_non_null(left);
  assert_int_equal(tn_optim_step(o, &g), TN_OK);
  STATUS(tn_optim_step(o, NULL), "tn_optim_step", "the gradients are NULL");
  tn_params *moments = tn_optim_state(o);
  VOID(tn_params_close(moments), "tn_params_close",
       "the list of parameters belongs to what it was asked of, which closes it");
  assert_int_equal(tn_params_count(moments), 4);
  tn_optim_close(o);
  VOID(tn_optim_close(o), "tn_optim_close", "the optimiser was closed");
  STATUS(tn_optim_step(o, &g), "tn_optim_step", "the optimiser was closed");
  STATUS(tn_optim_realize(o, NULL), "tn_optim_realize", "the optimiser was closed");
  STATUS(tn_optim_set_lr(o, 1), "tn_optim_set_lr", "the optimiser was closed");
  SAYS(!tn_optim_state(o), "tn_optim_state", "the optimiser was closed");
  /* it went with the optimiser */
  SAYS(!tn_params_count(moments), "tn_params_count", "the list of parameters was closed");
  tn_params_close(params);
  VOID(tn_params_close(params), "tn_params_close", "the list of parameters was closed");
  SAYS(!tn_params_tensors(params), "tn_params_tensors", "the list of parameters was closed");
  SAYS(!tn_params_names(params), "tn_params_names", "the list of parameters was closed");
  SAYS(!tn_params_get(params, "w"), "tn_params_get", "the list of parameters was closed");
  SAYS(!tn_params_ctx(params), "tn_params_ctx", "the list of parameters was closed");
  SAYS(!tn_params_add(params, "v", g), "tn_params_add", "the list of parameters was closed");
  SAYS(!tn_sgd(params, 0.1, 0, 0, false), "tn_sgd", "the list of parameters was closed");
  assert_int_equal(tn_optim_step(left, &g), TN_OK); /* it holds its parameters itself */
  assert_int_equal(tn_optim_realize(left, NULL), TN_OK);
  tn_optim_close(left);
}

static void readers(void **state) {
  (void)state;
  tn_array a = {.dtype = TN_F32, .rank = 1, .shape = {6}, .data = six, .bytes = sizeof six};
  tn_batches *b = tn_batches_open(c, 1, &a, 4, true, 1);
  assert_int_equal(tn_batches_next(b), 4);
  /* rows, but no bytes to put in an order */
  tn_array nothing = {.dtype = TN_F32, .rank = 2, .shape = {INT64_C(1) << 61, 0}};
  tn_batches *rows = tn_batches_open(c, 1, &nothing, 4, true, 1);
  assert_int_equal(tn_batches_next(rows), 4);
  tn_batches_close(rows);
  tn_batches_close(b);
  VOID(tn_batches_close(b), "tn_batches_close", "the iterator was closed");
  VOID(tn_batches_start(b, 0, 0), "tn_batches_start", "the iterator was closed");
  SAYS(!tn_batches_next(b), "tn_batches_next", "the iterator was closed");
  SAYS(!tn_batches_rows(b, 0), "tn_batches_rows", "the iterator was closed");
  SAYS(!tn_batches_count(b), "tn_batches_count", "the iterator was closed");
  tn_tensor *x = tn_from(c, TN_F32, DIMS(6), six);
  const char *path = test_path("x.safetensors"), *name = "x";
  assert_int_equal(tn_save_safetensors(c, path, 1, &name, &x, 0, NULL), TN_OK);
  tn_file *f = tn_load_safetensors(c, path);
  STATUS(tn_file_read(f, "x", NULL), "tn_file_read", "the tensor for 'x' is NULL");
  tn_file_close(f);
  VOID(tn_file_close(f), "tn_file_close", "the file was closed");
  SAYS(!tn_file_count(f), "tn_file_count", "the file was closed");
  SAYS(!tn_file_name(f, 0), "tn_file_name", "the file was closed");
  SAYS(!tn_file_metadata(f, "x"), "tn_file_metadata", "the file was closed");
  SAYS(!tn_file_tensor(f, "x"), "tn_file_tensor", "the file was closed");
  STATUS(tn_file_read(f, "x", x), "tn_file_read", "the file was closed");
  test_remove_files();
}

/* Opening and closing on and on takes no more memory, and what was left open goes with the context (the sanitizer
 * watches). */
static void blocks_are_used_again(void **state) {
  (void)state;
  tn_array a = {.dtype = TN_F32, .rank = 1, .shape = {6}, .data = six, .bytes = sizeof six};
  tn_stats early, late;
  for (int i = 0; i < 1000; i++) {
    tn_batches_close(tn_batches_open(c, 1, &a, 4, true, 1));
    tn_params_close(tn_params_open(c));
    tn_program_close(tn_program_begin(c));
    if (i == 200) tn_ctx_stats(c, &early);
  }
  tn_ctx_stats(c, &late);
  assert_int_equal(early.heap_bytes, late.heap_bytes);
  tn_params *p = tn_params_open(c);
  tn_params_add(p, "w", tn_from(c, TN_F32, DIMS(6), six));
  assert_non_null(tn_adam(p, 0.1, 0.9, 0.999, 1e-8, 0));
  assert_non_null(tn_batches_open(c, 1, &a, 4, true, 1));
  assert_non_null(tn_program_begin(c));
}

/* ---- tensors ---- */

static void ended_handles(void **state) {
  static const char text[] = "the tensor has ended: it was released, or its scope was left";
  tn_tensor *old = NULL;
  double v;
  float out[6];
  tn_dim shape[1];
  (void)state;
  tn_scope(c) old = tn_from(c, TN_F32, DIMS(6), six);
  tn_tensor *x = tn_neg(tn_from(c, TN_F32, DIMS(6), six));
  assert_ptr_not_equal(old, x);
  tn_release(old); /* must not end another */
  tn_release(old);
  STATUS(tn_read(old, out, sizeof out), "tn_read", text);
  STATUS(tn_write(old, out, sizeof out), "tn_write", text);
  STATUS(tn_item(old, &v), "tn_item", text);
  STATUS(tn_print(old, stderr), "tn_print", text);
  STATUS(tn_shape(old, shape), "tn_shape", text);
  SAYS(tn_size(old, 0) == TN_DIM_ERROR, "tn_size", text);
  SAYS(!tn_keep(old), "tn_keep", text);
  SAYS(!tn_retain(old), "tn_retain", text);
  SAYS(!tn_to(old, "ref"), "tn_to", text);
  SAYS(tn_numel(old) == TN_DIM_ERROR, "tn_numel", text);
  SAYS(!tn_nbytes(old), "tn_nbytes", text);
  SAYS(!tn_neg(old), "tn_neg", "tensor argument 1 has ended: it was released, or its scope was left");
  STATUS(tn_realize(&old, 1), "tn_realize", "tensor argument 1 has ended: it was released, or its scope was left");
  STATUS(tn_explain(&old, 1, stderr), "tn_explain",
         "tensor argument 1 has ended: it was released, or its scope was left");
  tn_params *p = tn_params_open(c);
  SAYS(!tn_params_add(p, "w", old), "tn_params_add", "parameter 'w' has ended: it was released, or its scope was left");
  SAYS(!tn_params_add(p, "w", NULL), "tn_params_add", "parameter 'w' is NULL");
  tn_params_close(p);
  assert_int_equal(tn_rank(old), -1); /* these say nothing more than of NULL */
  assert_int_equal(tn_dtype_of(old), TN_DTYPE_COUNT);
  assert_string_equal(tn_device_of(old), "");
  assert_null(tn_ctx_of(old));
  assert_int_equal(tn_last_error(c)->status, TN_OK);
  assert_int_equal(tn_read(x, out, sizeof out), TN_OK);
  assert_true(out[5] == -6);
}

/* As many handles as a step of training has end, and as many are made: an old pointer still finds none of them. */
static void stale_for_long(void **state) {
  enum { MANY = 1000 };
  tn_tensor *old[MANY];
  (void)state;
  tn_scope(c) for (int i = 0; i < MANY; i++) old[i] = tn_const(c, TN_F32, i);
  tn_scope(c) {
    tn_tensor *now[MANY];
    for (int i = 0; i < MANY; i++) now[i] = tn_const(c, TN_F32, i);
    for (int i = 0; i < MANY; i++) tn_release(old[i]);
    for (int i = 0; i < MANY; i++) assert_int_equal(tn_rank(now[i]), 0);
    tn_neg(now[0]); /* where releases take effect */
    for (int i = 0; i < MANY; i++) assert_int_equal(tn_rank(now[i]), 0);
  }
}

/* ---- calls that cannot begin say why ---- */

static void reasons(void **state) {
  tn_tensor *x = tn_from(c, TN_F32, DIMS(6), six), *g;
  tn_device_info device;
  (void)state;
  STATUS(tn_item(tn_select(x, 0, 0), NULL), "tn_item", "out is NULL");
  STATUS(tn_grad(x, -1, &x, &g), "tn_grad", "the number of tensors to differentiate by is negative or above 2^20");
  STATUS(tn_grad(x, 1, NULL, &g), "tn_grad", "a list is NULL");
  STATUS(tn_grad(x, 1, &x, NULL), "tn_grad", "a list is NULL");
  STATUS(tn_jvp(x, 1, &x, NULL, &g), "tn_jvp", "a list is NULL");
  STATUS(tn_get_info(&x, 1, NULL), "tn_get_info", "out is NULL");
  STATUS(tn_explain_text(c, NULL, stderr), "tn_explain_text", "the text is NULL");
  STATUS(tn_device_get_info(c, 0, NULL), "tn_device_get_info", "out is NULL");
  STATUS(tn_device_get_info(c, -1, &device), "tn_device_get_info", "there is no device -1 of 2");
  STATUS(tn_idx_read(c, "x", NULL), "tn_idx_read", "out is NULL");
  STATUS(tn_program_get_info(doubling(), NULL), "tn_program_get_info", "out is NULL");
}

int main(void) {
#define CASE(f) cmocka_unit_test_setup_teardown(f, open_ctx, close_ctx)
  const struct CMUnitTest tests[] = {
      CASE(programs),      CASE(optimisers),     CASE(readers), CASE(blocks_are_used_again),
      CASE(ended_handles), CASE(stale_for_long), CASE(reasons)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
