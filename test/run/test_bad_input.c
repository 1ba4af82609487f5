/* What callers, files and machines do wrong, through the whole library: a status, a message that says what is wrong,
 * and a context that goes on working.  (What the front end says about shapes in detail: tensor/test_errors.c; damaged
 * files: data/.) */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/files.h"
#include "support/stderr_of.h"
#include "tenet/tenet.h"
#include <dirent.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <unistd.h>

static const float six[6] = {1, 2, 3, 4, 5, 6};
#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define LIST(...) ((tn_tensor *const[]){__VA_ARGS__})

static const tn_options plain = {.threads = 1, .cc = "", .cache_dir = "", .quiet = 1};

static tn_tensor *matrix(tn_ctx *c) { return tn_from(c, TN_F32, DIMS(2, 3), six); }

static void check_works(tn_ctx *c) {
  double sum = 0;
  tn_clear_error(c);
  tn_scope(c) assert_int_equal(tn_item(tn_sum(tn_square(matrix(c)), NULL, 0, false), &sum), TN_OK);
  assert_true(sum == 91);
}

/* The pending error is this one; afterwards everything goes on. */
static void check_error(const char *file, int line, tn_ctx *c, bool failed, tn_status status, const char *fragment) {
  const tn_error *e = tn_last_error(c);
  if (!failed || e->status != status || !strstr(e->text, fragment))
    fail_msg("%s:%d: %s: %s %s; expected %s: ...%s...", file, line, failed ? "failed" : "did not fail",
             tn_status_name(e->status), e->text, tn_status_name(status), fragment);
  check_works(c);
}
#define WRONG(failed, status, fragment) check_error(__FILE__, __LINE__, c, failed, status, fragment)

/* ---- NULL in every public function ---- */

/* Beside those of tensor/elementwise.def, by signature: name(tensor), (tensor, tensor), (tensor, number),
 * (tensor, axes, n, keep), (ctx, shape, rank), ... */
#define ALONE(X) X(contiguous) X(detach) X(zeros_like) X(ones_like) X(keep) X(retain)
#define PAIR(X)                                                                                                        \
  X(embedding) X(matmul) X(dot) X(outer) X(cross_entropy) X(nll_loss) X(mse_loss) X(binary_cross_entropy_with_logits)
#define NUMBER(X)                                                                                                      \
  X(leaky_relu) X(elu) X(cast) X(bitcast) X(full_like) X(add_scalar) X(sub_scalar) X(rsub_scalar) X(mul_scalar)        \
  X(div_scalar) X(rdiv_scalar) X(floordiv_scalar) X(mod_scalar) X(pow_scalar) X(maximum_scalar) X(minimum_scalar)      \
  X(eq_scalar) X(ne_scalar) X(lt_scalar) X(le_scalar) X(gt_scalar) X(ge_scalar) X(unsqueeze) X(tril) X(triu)           \
  X(softmax) X(log_softmax)
#define AXES(X) X(sum) X(prod) X(max) X(min) X(mean) X(logsumexp) X(any) X(all)
#define SHAPED(X) X(zeros) X(ones)
#define CALLS(X)                                                                                                       \
  X(tn_var(NULL, NULL, 0, 0, false) == NULL) X(tn_std(NULL, NULL, 0, 0, false) == NULL)                                \
  X(tn_cumsum(NULL, 0) == NULL) X(tn_cumprod(NULL, 0) == NULL) X(tn_sort(NULL, 0, false) == NULL)                      \
  X(tn_argsort(NULL, 0, false) == NULL) X(tn_topk(NULL, 1, 0, true, NULL, NULL) == TN_EINVAL)                          \
  X(tn_searchsorted(NULL, NULL, false) == NULL) X(tn_bincount(NULL, 1) == NULL)                                        \
  X(tn_unique(NULL, 1, 0, NULL, NULL, NULL, NULL) == TN_EINVAL) X(tn_nonzero(NULL, 1, 0, NULL, NULL) == TN_EINVAL)     \
  X(tn_unique_now(NULL, NULL, NULL, NULL) == TN_EINVAL) X(tn_nonzero_now(NULL) == NULL)                                \
  X(tn_argmax(NULL, 0, false) == NULL) X(tn_argmin(NULL, 0, false) == NULL) X(tn_reshape(NULL, NULL, 0) == NULL)       \
  X(tn_flatten(NULL, 0, 0) == NULL) X(tn_squeeze(NULL, NULL, 0) == NULL) X(tn_permute(NULL, NULL, 0) == NULL)          \
  X(tn_transpose(NULL, 0, 0) == NULL) X(tn_expand(NULL, NULL, 0) == NULL) X(tn_pad(NULL, NULL, 0) == NULL)             \
  X(tn_shrink(NULL, NULL, NULL) == NULL) X(tn_flip(NULL, NULL, 0) == NULL) X(tn_slice(NULL, 0, 0, 0, 0) == NULL)       \
  X(tn_select(NULL, 0, 0) == NULL) X(tn_concatenate(NULL, 0, 0) == NULL) X(tn_concatenate(NULL, 2, 0) == NULL)         \
  X(tn_stack(NULL, 0, 0) == NULL) X(tn_stack(NULL, 2, 0) == NULL) X(tn_split(NULL, 0, 0, NULL) == TN_EINVAL)           \
  X(tn_tile(NULL, NULL, 0) == NULL) X(tn_repeat(NULL, 0, 0) == NULL) X(tn_unfold(NULL, 0, 0, 0, 0) == NULL)            \
  X(tn_take(NULL, NULL, 0) == NULL) X(tn_take_along_axis(NULL, NULL, 0) == NULL)                                       \
  X(tn_scatter_add(NULL, 0, NULL, NULL) == NULL) X(tn_index_add(NULL, 0, NULL, NULL) == NULL)                          \
  X(tn_one_hot(NULL, 0, TN_F32) == NULL) X(tn_einsum(NULL, NULL, 0) == NULL) X(tn_einsum(NULL, NULL, 2) == NULL)       \
  X(tn_layer_norm(NULL, 0, NULL, NULL, 0) == NULL) X(tn_rms_norm(NULL, 0, NULL, 0) == NULL)                            \
  X(tn_where(NULL, NULL, NULL) == NULL) X(tn_clamp(NULL, 0, 0) == NULL) X(tn_to(NULL, NULL) == NULL)                   \
  X(tn_assign(NULL, NULL) == TN_EINVAL) X(tn_realize(NULL, 0) == TN_OK) X(tn_realize(NULL, 1) == TN_EINVAL)            \
  X(tn_realize(NULL, -1) == TN_EINVAL)                                                                                 \
  X(tn_read(NULL, NULL, 0) == TN_EINVAL) X(tn_write(NULL, NULL, 0) == TN_EINVAL) X(tn_item(NULL, NULL) == TN_EINVAL)   \
  X(tn_print(NULL, NULL) == TN_EINVAL) X(tn_rank(NULL) == -1) X(tn_shape(NULL, NULL) == TN_EINVAL)                     \
  X(tn_size(NULL, 0) == TN_DIM_ERROR) X(tn_numel(NULL) == TN_DIM_ERROR) X(tn_dtype_of(NULL) == TN_DTYPE_COUNT)         \
  X(tn_nbytes(NULL) == 0) X(!*tn_device_of(NULL)) X(tn_ctx_of(NULL) == NULL)                                           \
  X(tn_dim_var(NULL, NULL, 0, 1) == TN_DIM_ERROR) X(tn_dim_add(NULL, 0, 0) == TN_DIM_ERROR)                            \
  X(tn_dim_sub(NULL, 0, 0) == TN_DIM_ERROR) X(tn_dim_mul(NULL, 0, 0) == TN_DIM_ERROR)                                  \
  X(tn_dim_div(NULL, 0, 0) == TN_DIM_ERROR) X(tn_dim_mod(NULL, 0, 0) == TN_DIM_ERROR)                                  \
  X(tn_dim_min(NULL, 0, 0) == TN_DIM_ERROR) X(tn_dim_max(NULL, 0, 0) == TN_DIM_ERROR) X(!tn_dim_is_symbolic(0))        \
  X(tn_dim_bounds(NULL, 0, NULL, NULL) == TN_EINVAL) X(tn_from(NULL, TN_F32, NULL, 0, NULL) == NULL)                   \
  X(tn_full(NULL, TN_F32, NULL, 0, 0) == NULL) X(tn_full_i64(NULL, TN_F32, NULL, 0, 0) == NULL)                        \
  X(tn_arange(NULL, TN_F32, 0, 1, 1) == NULL) X(tn_linspace(NULL, TN_F32, 0, 1, 2) == NULL)                            \
  X(tn_eye(NULL, TN_F32, 1, 1) == NULL) X(tn_scalar(NULL, TN_F32, 0) == NULL) X(tn_const(NULL, TN_F32, 0) == NULL)     \
  X(tn_manual_seed(NULL, 0) == TN_EINVAL) X(tn_rng_get_state(NULL, NULL, NULL) == TN_EINVAL)                           \
  X(tn_rng_set_state(NULL, 0, 0) == TN_EINVAL) X(tn_rand_bits(NULL, NULL, 0) == NULL)                                  \
  X(tn_uniform(NULL, TN_F32, NULL, 0, 0, 1) == NULL) X(tn_normal(NULL, TN_F32, NULL, 0, 0, 1) == NULL)                 \
  X(tn_randint(NULL, TN_I32, NULL, 0, 0, 1) == NULL) X(tn_bernoulli(NULL, NULL, 0, 0) == NULL)                         \
  X(tn_scope_begin(NULL) == TN_EINVAL) X(tn_scope_end(NULL) == TN_EINVAL) X(tn_scope_enter(NULL).once == 1)            \
  X((tn_scope_leave(NULL), true)) X((tn_release(NULL), true)) X((tn_ctx_close(NULL), true))                            \
  X((tn_clear_error(NULL), true)) X((tn_ctx_stats(NULL, NULL), true)) X(tn_last_error(NULL)->status == TN_EINVAL)      \
  X(*tn_status_name(TN_OK)) X(*tn_status_text((tn_status)99)) X(*tn_version()) X(*tn_dtype_name((tn_dtype)99) == '?')  \
  X(tn_dtype_size((tn_dtype)99) == 0) X(tn_device_count(NULL) == 0) X(tn_device_get_info(NULL, 0, NULL) == TN_EINVAL)  \
  X(tn_with_best_device(NULL, NULL, NULL) == TN_EINVAL) X(tn_device_sync(NULL, NULL) == TN_EINVAL)                     \
  X(tn_grad(NULL, 0, NULL, NULL) == TN_EINVAL) X(tn_grad(NULL, 1, NULL, NULL) == TN_EINVAL)                            \
  X(tn_vjp(NULL, NULL, 1, NULL, NULL) == TN_EINVAL) X(tn_jvp(NULL, 1, NULL, NULL, NULL) == TN_EINVAL)                  \
  X(tn_program_begin(NULL) == NULL) X(tn_program_input(NULL, NULL, TN_F32, NULL, 0) == NULL)                           \
  X(tn_program_output(NULL, NULL, NULL) == TN_EINVAL) X(tn_program_end(NULL) == TN_EINVAL)                             \
  X(tn_program_bind(NULL, NULL, NULL) == TN_EINVAL) X(tn_program_write(NULL, NULL, NULL, 0, NULL, 0) == TN_EINVAL)     \
  X(tn_program_run(NULL) == TN_EINVAL) X(tn_program_result(NULL, NULL) == NULL)                                        \
  X(tn_program_read(NULL, NULL, NULL, 0) == TN_EINVAL) X(tn_program_get_info(NULL, NULL) == TN_EINVAL)                 \
  X((tn_program_close(NULL), true)) X(tn_program_explain(NULL, NULL) == TN_EINVAL)                                     \
  X(tn_explain(NULL, 0, NULL) == TN_EINVAL) X(tn_explain_text(NULL, NULL, NULL) == TN_EINVAL)                          \
  X(tn_get_info(NULL, 1, NULL) == TN_EINVAL) X(tn_linear(NULL, NULL, NULL) == NULL)                                    \
  X(tn_conv2d(NULL, NULL, NULL, NULL) == NULL) X(tn_max_pool2d(NULL, 1, 1, NULL) == NULL)                              \
  X(tn_avg_pool2d(NULL, 1, 1, NULL) == NULL) X(tn_dropout(NULL, 0, true) == NULL)                                      \
  X(tn_kaiming_uniform(NULL, TN_F32, NULL, 2, 0) == NULL) X(tn_kaiming_normal(NULL, TN_F32, NULL, 2, 0) == NULL)       \
  X(tn_xavier_uniform(NULL, TN_F32, NULL, 2, 0) == NULL) X(tn_xavier_normal(NULL, TN_F32, NULL, 2, 0) == NULL)         \
  X(tn_params_open(NULL) == NULL) X((tn_params_close(NULL), true)) X(tn_params_add(NULL, NULL, NULL) == NULL)          \
  X(tn_params_count(NULL) == 0) X(tn_params_get(NULL, NULL) == NULL) X(tn_params_tensors(NULL) == NULL)                \
  X(tn_params_names(NULL) == NULL) X(tn_params_ctx(NULL) == NULL) X(tn_sgd(NULL, 0, 0, 0, false) == NULL)              \
  X(tn_adam(NULL, 0, 0, 0, 0, 0) == NULL) X(tn_adamw(NULL, 0, 0, 0, 0, 0) == NULL) X((tn_optim_close(NULL), true))     \
  X(tn_optim_step(NULL, NULL) == TN_EINVAL) X(tn_optim_realize(NULL, NULL) == TN_EINVAL)                               \
  X(tn_optim_set_lr(NULL, 0) == TN_EINVAL) X(tn_optim_state(NULL) == NULL)                                             \
  X(tn_save_safetensors(NULL, NULL, 0, NULL, NULL, 0, NULL) == TN_EINVAL) X(tn_load_safetensors(NULL, NULL) == NULL)   \
  X(tn_file_count(NULL) == 0) X(tn_file_name(NULL, 0) == NULL) X(tn_file_tensor(NULL, NULL) == NULL)                   \
  X(tn_file_read(NULL, NULL, NULL) == TN_EINVAL) X(tn_file_metadata(NULL, NULL) == NULL)                               \
  X((tn_file_close(NULL), true)) X(tn_idx_read(NULL, NULL, NULL) == TN_EINVAL)                                         \
  X(tn_idx_write(NULL, NULL, NULL) == TN_EINVAL) X((tn_array_free(NULL, NULL), true))                                  \
  X(tn_batches_open(NULL, 0, NULL, 0, false, 0) == NULL) X((tn_batches_start(NULL, 0, 0), true))                       \
  X(tn_batches_next(NULL) == 0) X(tn_batches_rows(NULL, 0) == NULL) X(tn_batches_count(NULL) == 0)                     \
  X((tn_batches_close(NULL), true)) X((tn_ctx_stats_sized(NULL, NULL, 0), true)) X(tn_version_number() > 0)            \
  X((tn_string_free(NULL), true)) X(tn_print_string(NULL) == NULL) X(tn_explain_string(NULL, 0) == NULL)               \
  X(tn_explain_text_string(NULL, NULL) == NULL) X(tn_program_explain_string(NULL) == NULL)                             \
  X(tn_run_text(NULL, NULL, 0, NULL, 0, NULL) == -1)                                                                   \
  X(tn_program_count(NULL, TN_PROGRAM_INPUT) == -1) X(tn_where_scalar(NULL, NULL, 0) == NULL)                          \
  X(tn_program_describe(NULL, TN_PROGRAM_INPUT, 0, NULL) == TN_EINVAL) X(tn_rwhere_scalar(NULL, 0, NULL) == NULL)      \
  X(tn_where_scalars(NULL, TN_F32, 0, 0) == NULL) X(tn_with_best_device_sized(NULL, NULL, NULL, 0) == TN_EINVAL)

static void test_null(void **state) {
  (void)state;
#define CHECK_ONE(name) assert_null(tn_##name(NULL));
#define CHECK_TWO(name) assert_null(tn_##name(NULL, NULL));
#define CHECK_NUMBER(name) assert_null(tn_##name(NULL, 0));
#define CHECK_AXES(name) assert_null(tn_##name(NULL, NULL, 0, false));
#define CHECK_SHAPED(name) assert_null(tn_##name(NULL, TN_F32, NULL, 0));
#define CHECK_CALL(call) assert_true(call);
#define ONE(name, ...) CHECK_ONE(name)
#define TWO(name, ...) CHECK_TWO(name)
#include "tensor/elementwise.def"
  ALONE(CHECK_ONE) PAIR(CHECK_TWO) NUMBER(CHECK_NUMBER) AXES(CHECK_AXES) SHAPED(CHECK_SHAPED) CALLS(CHECK_CALL)
}

/* The tables above name every function of the headers. */
static void test_all_named(void **state) {
#define NAME(name) "tn_" #name "("
#define TEXT(call) #call " "
  static const char named[] =
#define ONE(name, ...) NAME(name)
#define TWO(name, ...) NAME(name)
#include "tensor/elementwise.def"
      ALONE(NAME) PAIR(NAME) NUMBER(NAME) AXES(NAME) SHAPED(NAME) CALLS(TEXT) "tn_ctx_open( tn_ctx_open_sized(";
  const char *root = getenv("TENET_TEST_DATA");
  int functions = 0;
  char path[1000];
  (void)state;
  if (!root) skip();
  snprintf(path, sizeof path, "%s/../include/tenet", root);
  DIR *d = opendir(path);
  assert_non_null(d);
  for (struct dirent *e; (e = readdir(d));) {
    size_t n = 0;
    snprintf(path, sizeof path, "%s/../include/tenet/%s", root, e->d_name);
    char *text = strstr(e->d_name, ".h") ? test_read_file(path, &n) : NULL;
    if (!text) continue;
    text[n] = 0;
    for (const char *s = text; (s = strstr(s, "\nTN_API ")); s++) {
      const char *open = strchr(s + 8, '('), *name = open;
      while (name[-1] == '_' || (name[-1] >= '0' && name[-1] <= '9') || (name[-1] >= 'a' && name[-1] <= 'z')) name--;
      char call[100];
      snprintf(call, sizeof call, "%.*s(", (int)(open - name), name);
      if (!strstr(named, call)) fail_msg("%s) is in no table of this test", call);
      functions++;
    }
    free(text);
  }
  closedir(d);
  assert_true(functions > 200);
}

/* NULL, and pointers that are no handles, beside a live one: the message names the argument. */
static void test_operands(void **state) {
  static char stray[256];
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *x = matrix(c), *no = (tn_tensor *)stray;
  (void)state;
#define CHECK_FIRST(name) WRONG(!tn_##name(NULL, x), TN_EINVAL, "tn_" #name ": tensor argument 1 is NULL");
#define CHECK_SECOND(name) WRONG(!tn_##name(x, NULL), TN_EINVAL, "tn_" #name ": tensor argument 2 is NULL");
#define CHECK_STRAY(name) WRONG(!tn_##name(x, no), TN_EINVAL, "tn_" #name ": tensor argument 2 is not a tensor");
#define CHECK_PAIR(name) CHECK_FIRST(name) CHECK_SECOND(name) CHECK_STRAY(name)
#define CHECK_ALONE(name) assert_null(tn_##name(no));
#define ONE(name, ...) CHECK_ALONE(name)
#define TWO(name, ...) CHECK_PAIR(name)
#include "tensor/elementwise.def"
  ALONE(CHECK_ALONE) PAIR(CHECK_PAIR)
  assert_int_equal(tn_read(no, stray, 0), TN_EINVAL);
  assert_int_equal(tn_realize(&no, 1), TN_EINVAL);
  WRONG(tn_realize(LIST(x, no), 2), TN_EINVAL, "argument 2 is not a tensor");
  WRONG(tn_realize(LIST(NULL, x), 2), TN_EINVAL, "argument 1 is NULL");
  WRONG(tn_assign(x, NULL), TN_EINVAL, "argument 2 is NULL");
  WRONG(tn_grad(x, 1, LIST(NULL), (tn_tensor *[1]){0}), TN_EINVAL, "argument 2 is NULL");
  WRONG(!tn_from(c, TN_F32, DIMS(2), NULL), TN_EINVAL, "data is NULL");
  WRONG(!tn_from(c, TN_F32, NULL, 1, six), TN_EINVAL, "the shape is NULL");
  WRONG(!tn_einsum(NULL, &x, 1), TN_EINVAL, "tn_einsum");
  WRONG(!tn_reshape(x, NULL, 2), TN_EINVAL, "NULL");
  WRONG(!tn_expand(x, NULL, 2), TN_EINVAL, "NULL");
  WRONG(!tn_tile(x, NULL, 2), TN_EINVAL, "NULL");
  WRONG(!tn_pad(x, NULL, 0), TN_EINVAL, "NULL");
  WRONG(!tn_shrink(x, NULL, NULL), TN_EINVAL, "NULL");
  WRONG(tn_split(x, 2, 0, NULL), TN_EINVAL, "NULL");
  WRONG(!tn_to(x, NULL), TN_EDEVICE, "there is no device ''");
  WRONG(tn_dim_var(c, NULL, 0, 1) == TN_DIM_ERROR, TN_EINVAL, "a symbolic size needs a name");
  WRONG(tn_dim_var(c, "", 0, 1) == TN_DIM_ERROR, TN_EINVAL, "a symbolic size needs a name");
  WRONG(tn_dim_var(c, "#wraps7", 0, 1) == TN_DIM_ERROR, TN_EINVAL, "the name '#wraps7' of a size is not made of");
  WRONG(tn_dim_var(c, "a b", 0, 1) == TN_DIM_ERROR, TN_EINVAL, "the name 'a b' of a size is not made of");
  assert_int_equal(tn_item(x, NULL), TN_EINVAL);
  assert_int_equal(tn_shape(x, NULL), TN_EINVAL);
  tn_clear_error(c);
  tn_ctx_close(c);
}

static void test_released(void **state) {
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *x = matrix(c), *y = matrix(c), *z = NULL;
  (void)state;
  tn_release(x);
  WRONG(!tn_add(y, x), TN_EINVAL, "tensor argument 2 has ended");
  tn_scope(c) z = tn_neg(y);
  WRONG(!tn_abs(z), TN_EINVAL, "tensor argument 1 has ended");
  assert_int_equal(tn_rank(z), -1);
  WRONG(tn_realize(LIST(y, z), 2), TN_EINVAL, "tensor argument 2 has ended");
  tn_release(z); /* too often: no harm */
  check_works(c);
  tn_ctx_close(c);
}

/* ---- what does not fit ---- */

static void test_misfits(void **state) {
  tn_ctx *c = tn_ctx_open(&plain), *other = tn_ctx_open(&plain);
  tn_tensor *x = matrix(c), *foreign = matrix(other), *far = tn_to(x, "ref");
  float out[6];
  (void)state;
  WRONG(!tn_add(x, tn_zeros(c, TN_F32, DIMS(4))), TN_ESHAPE, "f32[2,3] and f32[4]");
  WRONG(!tn_zeros(c, (tn_dtype)77, DIMS(4)), TN_EDTYPE, "unknown dtype 77");
  WRONG(!tn_from(c, TN_DTYPE_COUNT, DIMS(4), six), TN_EDTYPE, "unknown dtype 13");
  WRONG(!tn_cast(x, (tn_dtype)-1), TN_EDTYPE, "unknown dtype");
  WRONG(!tn_sum(x, (const int[]){2}, 1, false), TN_EINVAL, "axis 2 is out of range for rank 2");
  WRONG(!tn_zeros(c, TN_F32, DIMS(-5)), TN_EINVAL, "-5");
  WRONG(!tn_add(x, foreign), TN_EINVAL, "tensor argument 2 belongs to another context");
  WRONG(tn_realize(LIST(x, foreign), 2), TN_EINVAL, "argument 2 belongs to another context");
  WRONG(!tn_add(x, far), TN_EDEVICE, "move one with tn_to");
  WRONG(tn_device_sync(c, "abacus") == TN_EDEVICE, TN_EDEVICE, "there is no device 'abacus'");
  assert_int_equal(tn_device_sync(c, NULL), TN_OK);
  assert_int_equal(tn_device_sync(c, "ref"), TN_OK);
  WRONG(!tn_to(x, "cuda"), TN_EDEVICE, "there is no device 'cuda'");
  WRONG(tn_read(x, out, 20), TN_EINVAL, "20 bytes given for f32[2,3], which takes 24");
  WRONG(tn_write(x, out, 28), TN_EINVAL, "28 bytes given for f32[2,3], which takes 24");
  WRONG(tn_read(x, NULL, 24), TN_EINVAL, "the destination is NULL");
  WRONG(tn_write(x, NULL, 24), TN_EINVAL, "the source is NULL");
  WRONG(tn_write(tn_exp(x), out, 24), TN_ESTATE, "not realised");
  WRONG(tn_assign(tn_exp(x), x), TN_ESTATE, "tn_realize it first");
  WRONG(tn_item(x, &(double){0}), TN_ESHAPE, "needs one element, not 6");
  WRONG(tn_grad(x, 1, LIST(x), (tn_tensor *[1]){0}), TN_EGRAD, "not a float scalar");
  WRONG(tn_scope_end(c), TN_ESTATE, "no scope is open");
  WRONG(tn_realize(LIST(tn_zeros(c, TN_F32, DIMS(tn_dim_var(c, "B", 1, 8)))), 1), TN_EBOUND, "size B has no value");
  tn_ctx_close(other);
  tn_ctx_close(c);
}

static void test_program(void **state) {
  tn_ctx *c = tn_ctx_open(&plain);
  tn_tensor *v = matrix(c);
  float out[6];
  (void)state;
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, DIMS(tn_dim_var(c, "B", 1, 4), 3));
#define DURING(failed, want, fragment)                                                                               \
  assert_true(failed && tn_last_error(c)->status == (want) && strstr(tn_last_error(c)->text, fragment));               \
  tn_clear_error(c)
  DURING(!tn_program_begin(c), TN_ESTATE, "another program is being recorded");
  DURING(!tn_program_input(p, NULL, TN_F32, NULL, 0), TN_EINVAL, "an input needs a name");
  DURING(!tn_program_input(p, "", TN_F32, NULL, 0), TN_EINVAL, "an input needs a name");
  DURING(!tn_program_input(p, "x", TN_F32, NULL, 0), TN_EINVAL, "there is an input 'x' already");
  DURING(!tn_program_input(p, "y", TN_F32, NULL, 1), TN_EINVAL, "NULL");
  DURING(!tn_program_input(p, "y", (tn_dtype)50, NULL, 0), TN_EDTYPE, "unknown dtype 50");
  DURING(tn_read(v, out, 24), TN_ESTATE, "while a program is being recorded");
  DURING(tn_program_run(p), TN_ESTATE, "tn_program_end() has not succeeded");
  DURING(tn_program_output(p, "y", NULL), TN_EINVAL, "output 'y' is NULL");
  assert_int_equal(tn_program_output(p, "y", tn_exp(x)), TN_OK);
  DURING(tn_program_output(p, "y", x), TN_EINVAL, "there is an output 'y' already");
  assert_int_equal(tn_program_end(p), TN_OK);
  WRONG(tn_program_run(p), TN_ESTATE, "input 'x' has not been bound");
  WRONG(tn_program_write(p, "x", DIMS(5, 3), out, 60), TN_EBOUND, "B = 5 is outside of 1..4");
  WRONG(tn_program_write(p, "x", DIMS(2, 2), out, 16), TN_ESHAPE, "axis 1 was given as 2");
  WRONG(tn_program_write(p, "x", DIMS(2), out, 8), TN_ESHAPE, "1 axes were given");
  WRONG(tn_program_write(p, "x", DIMS(2, 3), out, 23), TN_EINVAL, "23 bytes given, the shape takes 24");
  WRONG(tn_program_write(p, "x", NULL, 2, out, 24), TN_EINVAL, "NULL");
  WRONG(tn_program_write(p, "x", DIMS(2, 3), NULL, 24), TN_EINVAL, "the source is NULL");
  WRONG(tn_program_write(p, "z", DIMS(2, 3), out, 24), TN_EINVAL, "no input 'z'");
  WRONG(tn_program_bind(p, "x", NULL), TN_EINVAL, "the value of input 'x' is NULL");
  WRONG(tn_program_bind(p, "x", tn_exp(v)), TN_ESTATE, "not realised");
  WRONG(tn_program_bind(p, "x", tn_from(c, TN_I32, DIMS(2, 3), six)), TN_EDTYPE, "is f32[B,3], not i32[2,3]");
  assert_int_equal(tn_program_bind(p, "x", v), TN_OK);
  WRONG(tn_program_read(p, "y", out, 24), TN_ESTATE, "has not run yet");
  assert_int_equal(tn_program_run(p), TN_OK);
  WRONG(tn_program_read(p, "y", out, 20), TN_EINVAL, "takes 24 bytes, not 20");
  WRONG(!tn_program_result(p, NULL), TN_EINVAL, "no output 'NULL'");
  WRONG(tn_program_end(p), TN_ESTATE, "recording has ended");
  assert_int_equal(tn_program_get_info(p, NULL), TN_EINVAL);
  tn_program_close(p);
  tn_ctx_close(c);
}

/* ---- memory, disk, compiler ---- */

static void test_memory_limit(void **state) {
  tn_options o = plain;
  (void)state;
  o.mem_limit = 14 << 20;
  tn_ctx *c = tn_ctx_open(&o);
  tn_tensor *big = tn_add_scalar(tn_zeros(c, TN_F32, DIMS(1024, 4096)), 1);
  WRONG(tn_realize(&big, 1), TN_ENOMEM, "buffer of 16777216 bytes");
  WRONG(!tn_from(c, TN_F32, DIMS(INT64_C(1) << 40, INT64_C(1) << 40), six), TN_ENOMEM, "more than memory can hold");
  tn_tensor *half = tn_add_scalar(tn_zeros(c, TN_F32, DIMS(1024, 1024)), 1);
  assert_int_equal(tn_realize(&half, 1), TN_OK);
  tn_ctx_close(c);
  o.mem_limit = 1000;
  assert_null(tn_ctx_open(&o));
}

/* What a function prints on stderr. */
static void use_twice(void *cc) {
  tn_options o = {.device = "cpu", .cc = cc, .threads = 1, .cache_dir = ""};
  tn_ctx *c = tn_ctx_open(&o);
  check_works(c);
  check_works(c);
  tn_ctx_close(c);
}

static void open_bad_device(void *quiet) {
  assert_null(tn_ctx_open(&(tn_options){.device = "abacus", .quiet = quiet != NULL}));
}

static void test_no_compiler(void **state) {
  static const char *const none[] = {"", "/nonexistent"};
  char said[1000];
  (void)state;
  for (int i = 0; i < 2; i++) {
    char cc[20];
    strcpy(cc, none[i]);
    assert_true(stderr_of(use_twice, cc, said, sizeof said) > 0);
    assert_non_null(strstr(said, "kernels are interpreted"));
    assert_ptr_equal(strchr(said, '\n'), said + strlen(said) - 1); /* once */
  }
  assert_true(stderr_of(open_bad_device, NULL, said, sizeof said) > 0);
  assert_non_null(strstr(said, "there is no device 'abacus'; there are cpu and ref"));
  assert_int_equal(stderr_of(open_bad_device, said, said, sizeof said), 0);
}

static const char *script(const char *name, const char *text) {
  const char *path = test_write_file(name, text, strlen(text));
  assert_int_equal(chmod(path, 0700), 0);
  return path;
}

/* A compiler with arguments, which reach it: words in quotes, and a path with a blank. */
static void test_compiler_arguments(void **state) {
  (void)state;
  char command[600], list[160], said[600];
  snprintf(list, sizeof list, "%s", test_path("arguments"));
  snprintf(command, sizeof command, "#!/bin/sh\nfor a; do echo \"[$a]\" >>%s; done\nexec cc \"$@\"\n", list);
  const char *path = script("my cc", command);
  const char *const rows[] = {"'%s' -O1 \"-DWORDS=two words\"", "\"%s\"\t-O1 -DWORDS=two\\ words", "%s"};
  for (int i = 0; i < 3; i++) {
    size_t n = 0;
    unlink(list);
    snprintf(command, sizeof command, rows[i], path);
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .cc = command, .threads = 1, .cache_dir = "", .quiet = 1});
    assert_non_null(c);
    check_works(c);
    tn_ctx_close(c);
    char *text = test_read_file(list, &n);
    assert_non_null(text);
    text[n] = 0;
    assert_int_equal(strstr(text, "[-O1]\n[-DWORDS=two words]\n") != NULL, i < 2);
    free(text);
  }
  snprintf(command, sizeof command, "'%s -O1", path);
  assert_null(tn_ctx_open(&(tn_options){.device = "cpu", .cc = command, .quiet = 1}));
  assert_true(stderr_of(use_twice, "no-such-compiler -O1", said, sizeof said) > 0);
  assert_non_null(strstr(said, "kernels are interpreted"));
}

#ifdef __x86_64__
static tn_ctx *open_level(const char *cc, const char *level) {
  return tn_ctx_open(&(tn_options){
      .device = "cpu", .cc = cc, .cpu_level = level, .threads = 1, .cache_dir = "", .quiet = 1});
}

/* The sum of 1 to 100 by vectors; the first error's text, "" */
static const char *sum_of_many(tn_ctx *c) {
  double sum = 0;
  tn_scope(c) {
    tn_tensor *x = tn_arange(c, TN_F32, 1, 101, 1);
    if (tn_realize(&x, 1) == TN_OK && tn_item(tn_sum(x, NULL, 0, false), &sum) == TN_OK) assert_true(sum == 5050);
  }
  return tn_last_error(c)->text;
}

static void open_wrong_level(void *level) {
  assert_null(tn_ctx_open(&(tn_options){.device = "cpu", .cc = "cc", .cpu_level = level, .cache_dir = ""}));
}

/* A compiler that is told what to compile for: kernels are written for that, or refused. */
static void test_cpu_levels(void **state) {
  static const char *const level[] = {"x86-64", "x86-64-v2", "x86-64-v3", "x86-64-v4"};
  char command[80], said[600];
  (void)state;
  for (int i = 0; i < 4; i++) {
    tn_ctx *named = open_level("cc", level[i]), *c;
    if (!named) continue; /* this processor lacks it */
    tn_device_info d;
    assert_string_equal(sum_of_many(named), "");
    tn_ctx_close(named);
    for (int with = 0; with < 2; with++) {
      snprintf(command, sizeof command, "cc %s-march=%s", with ? "-march=x86-64 -O1 " : "", level[i]);
      assert_non_null(c = open_level(command, ""));
      assert_int_equal(tn_device_get_info(c, 0, &d), TN_OK);
      snprintf(said, sizeof said, "%s;", level[i]);
      assert_non_null(strstr(d.text, said));
      assert_string_equal(sum_of_many(c), "");
      tn_ctx_close(c);
    }
    if (i < 2) continue;
    assert_non_null(c = open_level("cc -march=x86-64-v2", level[i]));
    snprintf(said, sizeof said, "the C compiler is kept from using %s (TENET_CC)", level[i]);
    assert_non_null(strstr(sum_of_many(c), said));
    tn_ctx_close(c);
  }
  assert_true(stderr_of(open_wrong_level, "x86-64-v9", said, sizeof said) > 0);
  assert_non_null(strstr(said, "the CPU level is 'x86-64-v9' (TENET_CPU_LEVEL); it may be x86-64-v4, x86-64-v3, "
                               "x86-64-v2 or x86-64"));
}
#else
static void test_cpu_levels(void **state) { (void)state; }
#endif

/* Kernels rely on NaN, whatever the mode. */
static void test_fast_math(void **state) {
  static const char *const command[] = {"cc -ffast-math", "cc -O1 -ffinite-math-only"};
  (void)state;
  for (int i = 0; i < 2; i++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .cc = command[i], .threads = 1, .cache_dir = ""});
    tn_tensor *y = tn_exp(matrix(c));
    assert_int_equal(tn_realize(&y, 1), TN_ECOMPILE);
    assert_non_null(strstr(tn_last_error(c)->text, "told to take NaN for a number"));
    tn_ctx_close(c);
  }
}

/* A command that starts the compiler, which is its first argument: Tenet's own arguments go behind that. */
static void test_compiler_in_front(void **state) {
  (void)state;
  const char *front = script("front", "#!/bin/sh\ncase $1 in -*) exit 9;; esac\nexec \"$@\"\n");
  char command[300];
  snprintf(command, sizeof command, "%s cc -O1", front);
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .cc = command, .threads = 1, .cache_dir = ""});
  tn_tensor *y = tn_exp(matrix(c));
  if (tn_realize(&y, 1)) fail_msg("%s", tn_last_error(c)->text);
  tn_ctx_close(c);
}

static void test_bad_compiler(void **state) {
  (void)state;
  char good[] = "cc";
  const char *bad = script("cc", "#!/bin/sh\necho 'no such luck' >&2\nexit 3\n");
  tn_options o = {.device = "cpu", .cc = bad, .threads = 1, .cache_dir = ""};
  tn_ctx *c = tn_ctx_open(&o);
  tn_tensor *x = matrix(c), *y = tn_exp(x);
  float out[6];
  assert_int_equal(tn_realize(&y, 1), TN_ECOMPILE);
  assert_non_null(strstr(tn_last_error(c)->text, "no such luck"));
  tn_clear_error(c);
  assert_int_equal(tn_read(x, out, sizeof out), TN_OK); /* what needs no kernel */
  assert_true(out[5] == 6);
  tn_ctx_close(c);
  o.cc = good;
  c = tn_ctx_open(&o);
  check_works(c);
  tn_ctx_close(c);
}

/* Kernels compiled and found, with this cache. */
static tn_stats with_cache(const char *dir, bool works) {
  tn_options o = {.device = "cpu", .threads = 1, .cache_dir = dir};
  tn_stats s;
  tn_ctx *c = tn_ctx_open(&o);
  assert_non_null(c);
  if (works) check_works(c);
  tn_ctx_stats(c, &s);
  tn_ctx_close(c);
  return s;
}

/* Overwrites the middle of every file in dir, or cuts it short; their number. */
static int damage(const char *dir, bool cut) {
  char path[600];
  int n = 0;
  DIR *d = opendir(dir);
  for (struct dirent *e; d && (e = readdir(d));) {
    struct stat st;
    snprintf(path, sizeof path, "%s/%s", dir, e->d_name);
    if (*e->d_name == '.' || stat(path, &st)) continue;
    if (cut) assert_int_equal(truncate(path, st.st_size / 2), 0);
    FILE *f = cut ? NULL : fopen(path, "r+");
    if (f) {
      fseek(f, st.st_size / 2, SEEK_SET);
      fputs("nonsense", f);
      fclose(f);
    }
    n++;
  }
  if (d) closedir(d);
  return n;
}

static void test_cache(void **state) {
  char dir[200];
  struct rlimit old, none;
  (void)state;
  snprintf(dir, sizeof dir, "%s", test_path("cache/kernels"));
  assert_true(with_cache(dir, true).kernels_compiled > 0);
  tn_stats s = with_cache(dir, true);
  assert_true(s.kernels_compiled == 0 && s.kernels_cached > 0);
  for (int cut = 0; cut < 2; cut++) {
    assert_true(damage(dir, cut) > 0);
    assert_true(with_cache(dir, true).kernels_compiled > 0); /* rebuilt, not trusted */
    assert_true(with_cache(dir, true).kernels_compiled == 0);
  }
  assert_true(with_cache("/proc/no/such/place", true).kernels_compiled > 0);
  /* A full disk: no file may grow. */
  snprintf(dir, sizeof dir, "%s", test_path("full"));
  signal(SIGXFSZ, SIG_IGN);
  getrlimit(RLIMIT_FSIZE, &old);
  none = (struct rlimit){0, old.rlim_max};
  tn_options o = {.device = "cpu", .threads = 1, .cache_dir = dir};
  tn_ctx *c = tn_ctx_open(&o);
  tn_tensor *x = tn_exp(matrix(c));
  setrlimit(RLIMIT_FSIZE, &none);
  tn_status status = tn_realize(&x, 1);
  tn_status saved =
      tn_save_safetensors(c, test_path("x.safetensors"), 1, (const char *const[]){"x"}, LIST(tn_to(x, "cpu")), 0, NULL);
  setrlimit(RLIMIT_FSIZE, &old);
  signal(SIGXFSZ, SIG_DFL);
  /* no file at all could be written: not in the cache, not elsewhere */
  assert_true(status == TN_ECOMPILE || status == TN_EIO);
  assert_true(saved != TN_OK);
  assert_true(*tn_last_error(c)->text);
  check_works(c);
  tn_ctx_close(c);
}

/* Diagonals beyond the matrix; sizes whose sums would wrap; switches that are none; a file that cannot be written. */
static void test_extremes(void **state) {
  (void)state;
  static const char *const names[] = {"TENET_TUNE", "TENET_TF32", "TENET_LIBRARY", "TENET_MODE"};
  tn_ctx *c = tn_ctx_open(&plain);
  float v[6];
  assert_non_null(c);
  assert_int_equal(tn_read(tn_tril(matrix(c), INT64_MAX), v, sizeof v), TN_OK);
  assert_memory_equal(v, six, sizeof v);
  assert_int_equal(tn_read(tn_triu(matrix(c), INT64_MIN), v, sizeof v), TN_OK);
  assert_memory_equal(v, six, sizeof v);
  tn_tensor *x = tn_ones(c, TN_F32, DIMS(1, 1, 3, 3));
  WRONG(!tn_conv2d(x, tn_ones(c, TN_F32, DIMS(1, 1, 1, 1)), NULL, &(tn_conv2d_options){.padding = {INT64_MAX, 0}}),
        TN_EINVAL, "padding 9223372036854775807");
  FILE *full = fopen("/dev/full", "w");
  if (full) {
    WRONG(tn_print(x, full), TN_EIO, "writing failed");
    fclose(full);
  }
  tn_ctx_close(c);
  for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
    setenv(names[i], "perhaps", 1);
    assert_null(tn_ctx_open(&plain));
    unsetenv(names[i]);
  }
  tn_options odd = plain;
  odd.verify = "/no/such/file"; /* the lines of verdicts would be lost */
  assert_null(tn_ctx_open(&odd));
  setenv("TENET_VERIFY", "/no/such/file", 1);
  assert_null(tn_ctx_open(&plain));
  setenv("TENET_VERIFY", test_path("verdicts"), 1);
  tn_ctx *verified = tn_ctx_open(&plain);
  assert_non_null(verified);
  tn_ctx_close(verified);
  setenv("TENET_VERIFY", "off", 1); /* a switch, no file of that name; so is 0 */
  assert_non_null(verified = tn_ctx_open(&plain));
  tn_ctx_close(verified);
  assert_int_not_equal(access("off", F_OK), 0);
  setenv("TENET_VERIFY", "Strict", 1); /* nor is what was meant for a word */
  assert_null(tn_ctx_open(&plain));
  assert_int_not_equal(access("Strict", F_OK), 0);
  unsetenv("TENET_VERIFY");
  odd = plain;
  odd.mode = (tn_mode)99;
  assert_null(tn_ctx_open(&odd));
  odd = plain;
  odd.tune = 9;
  assert_null(tn_ctx_open(&odd));
}

/* The file of verdicts can be opened, and not be written. */
static void test_full_disk(void **state) {
  (void)state;
  if (access("/dev/full", W_OK)) skip();
  tn_options o = plain;
  o.verify = "/dev/full";
  tn_ctx *c = tn_ctx_open(&o);
  assert_non_null(c);
  tn_tensor *y = tn_sum(matrix(c), NULL, 0, false);
  assert_int_equal(tn_realize(&y, 1), TN_EIO);
  assert_non_null(strstr(tn_last_error(c)->text, "cannot be written to /dev/full: No space left"));
  tn_ctx_close(c);
}

static int remove_files(void **state) {
  (void)state;
  test_remove_files();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_null),         cmocka_unit_test(test_all_named),   cmocka_unit_test(test_operands),
      cmocka_unit_test(test_released),     cmocka_unit_test(test_misfits),     cmocka_unit_test(test_program),
      cmocka_unit_test(test_memory_limit), cmocka_unit_test(test_no_compiler), cmocka_unit_test(test_bad_compiler),
      cmocka_unit_test(test_fast_math),    cmocka_unit_test(test_compiler_in_front),
      cmocka_unit_test(test_compiler_arguments), cmocka_unit_test(test_cpu_levels),
      cmocka_unit_test(test_cache),        cmocka_unit_test(test_extremes),
      cmocka_unit_test(test_full_disk),
  };
  return cmocka_run_group_tests(tests, NULL, remove_files);
}
