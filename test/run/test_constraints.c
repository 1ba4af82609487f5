/* What a program needs of its symbolic sizes beyond their bounds is checked when they are bound, and told; and inputs
 * without a value. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
enum { MOST = 16 };

static tn_ctx *c;
static tn_dim N, M;

static int open_ctx(void **state) {
  (void)state;
  c = tn_ctx_open(&(tn_options){.device = "ref", .threads = 1, .cache_dir = "", .quiet = 1});
  N = tn_dim_var(c, "N", 0, MOST);
  M = tn_dim_var(c, "M", 0, MOST);
  return c ? 0 : -1;
}
static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(c);
  return 0;
}

static void check_ok(tn_status s, int line) {
  if (s != TN_OK) fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
}
#define OK(x) check_ok(x, __LINE__)

static void check_wrong(tn_status s, tn_status want, const char *text, int line) {
  if (s != want || strcmp(tn_last_error(c)->text, text))
    fail_msg("line %d: %s: %s", line, tn_status_name(s), tn_last_error(c)->text);
  tn_clear_error(c);
}
#define WRONG(x, status, text) check_wrong(x, status, text, __LINE__)

static float data[MOST];

static tn_status run(tn_program *p, int64_t n, int64_t m) {
  OK(tn_program_write(p, "x", &(tn_dim){n}, 1, data, (size_t)n * 4));
  if (m >= 0) OK(tn_program_write(p, "y", &(tn_dim){m}, 1, data, (size_t)m * 4));
  return tn_program_run(p);
}

typedef tn_tensor *(*make_fn)(tn_tensor *x, tn_tensor *y);

static tn_program *record(make_fn make, bool two) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *x = tn_program_input(p, "x", TN_F32, &N, 1), *y = two ? tn_program_input(p, "y", TN_F32, &M, 1) : NULL;
  OK(tn_program_output(p, "out", make(x, y)));
  OK(tn_program_end(p));
  return p;
}

static tn_tensor *middle(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_neg(tn_shrink(x, (tn_dim[]){2}, (tn_dim[]){3}));
}
static tn_tensor *shorter(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_neg(tn_shrink(x, (tn_dim[]){0}, (tn_dim[]){tn_dim_sub(c, N, 5)}));
}
static tn_tensor *within(tn_tensor *x, tn_tensor *y) { return tn_add(tn_shrink(x, (tn_dim[]){0}, (tn_dim[]){M}), y); }
static tn_tensor *padded(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_pad(x, (tn_dim[]){0, tn_dim_sub(c, 10, N)}, 1);
}
static tn_tensor *filled(tn_tensor *x, tn_tensor *y) {
  return tn_add(
      tn_sum(x, NULL, 0, false),
      tn_sum(tn_add(tn_ones(c, TN_F32, DIMS(tn_dim_sub(c, N, M))), tn_sum(y, NULL, 0, false)), NULL, 0, false));
}
static tn_tensor *last(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_slice(x, 0, -3, INT64_MAX, 1);
}

static void slices(void **state) {
  float out[MOST];
  (void)state;
  for (int i = 0; i < MOST; i++) data[i] = (float)i;
  tn_program *p = record(middle, false);
  OK(run(p, 5, -1)); /* the last that fits */
  OK(tn_program_read(p, "out", out, 12));
  assert_true(out[0] == -2 && out[2] == -4);
  WRONG(run(p, 4, -1), TN_EBOUND, "tn_program_run: shrink f32[3] of f32[N] needs 5 <= N (4); bound are N = 4");
  WRONG(tn_program_run(p), TN_EBOUND, "tn_program_run: shrink f32[3] of f32[N] needs 5 <= N (4); bound are N = 4");
  OK(run(p, 16, -1));
  p = record(shorter, false);
  OK(run(p, 5, -1));
  OK(tn_program_read(p, "out", out, 0));
  OK(run(p, 6, -1));
  OK(tn_program_read(p, "out", out, 4));
  WRONG(run(p, 4, -1), TN_EBOUND, "tn_program_run: shrink f32[N - 5] of f32[N] needs 0 <= N - 5 (-1); bound are N = 4");
  p = record(within, true);
  OK(run(p, 7, 7));
  OK(tn_program_read(p, "out", out, 28));
  assert_true(out[6] == 12);
  OK(run(p, 7, 0));
  WRONG(run(p, 6, 7), TN_EBOUND,
        "tn_program_run: shrink f32[M] of f32[N] needs M (7) <= N (6); bound are N = 6, M = 7");
  p = record(last, false); /* clamped, as in Python: nothing to be needed */
  for (int64_t n = 0; n <= MOST; n++) OK(run(p, n, -1));
}

static void amounts(void **state) {
  float out[MOST];
  (void)state;
  tn_program *p = record(padded, false);
  OK(run(p, 10, -1));
  OK(run(p, 3, -1));
  OK(tn_program_read(p, "out", out, 40));
  assert_true(out[2] == 2 && out[3] == 1 && out[9] == 1);
  assert_int_equal(run(p, 11, -1), TN_EBOUND);
  assert_non_null(strstr(tn_last_error(c)->text, "bound are N = 11"));
  tn_clear_error(c);
  p = record(filled, true);
  OK(run(p, 3, 3));
  OK(run(p, 4, 2));
  assert_int_equal(run(p, 3, 4), TN_EBOUND);
  assert_non_null(strstr(tn_last_error(c)->text, "bound are"));
  tn_clear_error(c);
}

/* Sizes that may be equal: x [N] and y [M], each in a graph that takes them for equal, and what is said where they are
 * not. */
static tn_tensor *whole(tn_tensor *x, tn_tensor *y) { return tn_add(x, y); }
static tn_tensor *wide(tn_tensor *x, tn_tensor *y) {
  return tn_mul(tn_expand(tn_unsqueeze(x, 0), (tn_dim[]){3, -1}, 2), y);
}
static tn_tensor *product(tn_tensor *x, tn_tensor *y) {
  return tn_matmul(tn_expand(tn_unsqueeze(x, 0), (tn_dim[]){3, -1}, 2), y);
}
static tn_tensor *einsum(tn_tensor *x, tn_tensor *y) { return tn_einsum("i,i->", (tn_tensor *[]){x, y}, 2); }
static tn_tensor *stacked(tn_tensor *x, tn_tensor *y) { return tn_stack((tn_tensor *[]){x, y}, 2, 0); }
static tn_tensor *beside(tn_tensor *x, tn_tensor *y) {
  return tn_concatenate((tn_tensor *[]){tn_unsqueeze(x, 0), tn_unsqueeze(y, 0)}, 2, 0);
}
static tn_tensor *chosen(tn_tensor *x, tn_tensor *y) { return tn_where(tn_gt_scalar(x, 2), x, y); }
static tn_tensor *labelled(tn_tensor *x, tn_tensor *y) {
  return tn_cross_entropy(tn_expand(tn_unsqueeze(x, 1), (tn_dim[]){-1, 4}, 2), tn_cast(y, TN_I64));
}
static tn_tensor *along(tn_tensor *x, tn_tensor *y) {
  tn_tensor *table = tn_expand(tn_unsqueeze(x, 1), (tn_dim[]){-1, 4}, 2),
            *places = tn_expand(tn_cast(tn_unsqueeze(y, 1), TN_I64), (tn_dim[]){-1, 2}, 2);
  return tn_take_along_axis(table, places, 1);
}
static tn_tensor *slope(tn_tensor *x, tn_tensor *y) {
  tn_tensor *g[2];
  tn_status s = tn_grad(tn_sum(tn_mul(x, tn_square(y)), NULL, 0, false), 2, (tn_tensor *[]){x, y}, g);
  return s == TN_OK ? tn_add(g[0], g[1]) : NULL;
}
static tn_tensor *transposed(tn_tensor *x, tn_tensor *y) { /* [N,M] and [M,N] */
  tn_tensor *a = tn_mul(tn_unsqueeze(x, 1), y);
  return tn_add(a, tn_transpose(a, 0, 1));
}

static const struct {
  make_fn make;
  const char *text; /* of a run with N = 3, M = 4 */
} equals[] = {
    {whole, "add f32[N] of f32[M] as f32[N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {wide, "mul f32[3,N] of f32[M] as f32[N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {product, "contract f32[3] of f32[M] as f32[N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {einsum, "contract f32 of f32[M] as f32[N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {stacked, "pad f32[2,N] of f32[M] as f32[N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {beside, "pad f32[2,N] of f32[1,M] as f32[1,N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {chosen, "where f32[N] of f32[M] as f32[N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {labelled, "eq bool[N,4] of i64[M] as i64[N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {along, "le bool[N,2] of i64[M,2] as i64[N,2] needs M (4) = N (3); bound are N = 3, M = 4"},
    {slope, "mul f32[N] of f32[M] as f32[N] needs M (4) = N (3); bound are N = 3, M = 4"},
    {transposed, "add f32[N,M] of f32[M,N] as f32[N,N] needs M (4) = N (3); bound are N = 3, M = 4"},
};

/* Each is right where the sizes are equal, so equal to itself of one tensor for both; and an error where they are not.
 */
static void equal_sizes(void **state) {
  (void)state;
  for (int i = 0; i < MOST; i++) data[i] = (float)(i % 4);
  for (size_t i = 0; i < sizeof equals / sizeof *equals; i++) {
    tn_program *p = record(equals[i].make, true);
    for (int64_t n = 1; n <= MOST; n += n == 1 ? 4 : 11) {
      static float got[MOST * MOST], want[MOST * MOST];
      OK(run(p, n, n));
      tn_scope(c) {
        tn_tensor *both = equals[i].make(tn_from(c, TN_F32, DIMS(n), data), tn_from(c, TN_F32, DIMS(n), data));
        size_t bytes = tn_nbytes(both);
        OK(tn_read(both, want, bytes));
        OK(tn_program_read(p, "out", got, bytes));
        if (memcmp(got, want, bytes)) fail_msg("row %zu, size %lld", i, (long long)n);
      }
    }
    if (run(p, 3, 4) != TN_EBOUND) fail_msg("row %zu: 3 is not 4", i);
    if (!strstr(tn_last_error(c)->text, equals[i].text)) fail_msg("row %zu: %s", i, tn_last_error(c)->text);
    tn_clear_error(c);
    OK(run(p, 4, 4)); /* nothing is left behind */
    tn_program_close(p);
  }
}

/* A window that fits, an extreme of something: as with plain sizes. */
static tn_tensor *windowed(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_sum(tn_unfold(x, 0, 2, 1, 3), (int[]){1}, 1, false); /* spans 4 */
}
static tn_tensor *image(tn_tensor *x) { return tn_reshape(x, (tn_dim[]){1, 1, N, 1}, 4); }
static tn_tensor *convolved(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_conv2d(image(x), tn_ones(c, TN_F32, DIMS(1, 1, 5, 1)), NULL, &(tn_conv2d_options){.padding = {1, 0}});
}
static tn_tensor *pooled(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_max_pool2d(image(x), 3, 1, NULL);
}
static tn_tensor *pooled_slope(tn_tensor *x, tn_tensor *y) {
  tn_tensor *g;
  return tn_grad(tn_sum(pooled(x, y), NULL, 0, false), 1, &x, &g) == TN_OK ? g : NULL;
}
static tn_tensor *largest(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_max(x, NULL, 0, false);
}
static tn_tensor *least(tn_tensor *x, tn_tensor *y) { return tn_min(tn_mul(tn_unsqueeze(x, 1), y), NULL, 0, false); }
static tn_tensor *where_largest(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_argmax(x, 0, false);
}
static tn_tensor *slope_of_largest(tn_tensor *x, tn_tensor *y) {
  tn_tensor *g;
  return tn_grad(largest(x, y), 1, &x, &g) == TN_OK ? g : NULL;
}
static tn_tensor *normal(tn_tensor *x, tn_tensor *y) {
  return tn_add(tn_sum(tn_softmax(x, 0), NULL, 0, false), tn_exp(tn_logsumexp(y, NULL, 0, false)));
}

static const struct {
  make_fn make;
  bool two;
  int64_t fits; /* the least N that does (M is 0 then, or 1) */
  const char *text; /* of a run with N one less */
} rooms[] = {
    {windowed, false, 4, "window f32[max(N - 3, 0),2] of f32[N] needs 4 <= N (3); bound are N = 3"},
    {convolved, false, 3, "needs 5 <= N + 2 (4); bound are N = 2"},
    {pooled, false, 3, "needs 3 <= N (2); bound are N = 2"},
    {pooled_slope, false, 3, "needs 3 <= N (2); bound are N = 2"},
    {largest, false, 1, "rmax f32 of f32[N] needs something to choose from, 1 <= N (0); bound are N = 0"},
    {least, true, 1, "needs something to choose from, 1 <= N (0); bound are N = 0, M = 1"},
    {where_largest, false, 1, "needs something to choose from, 1 <= N (0); bound are N = 0"},
    {slope_of_largest, false, 1, "needs something to choose from, 1 <= N (0); bound are N = 0"},
};

static void room(void **state) {
  (void)state;
  for (int i = 0; i < MOST; i++) data[i] = (float)(i * 7 % 5);
  for (size_t i = 0; i < sizeof rooms / sizeof *rooms; i++) {
    tn_program *p = record(rooms[i].make, rooms[i].two);
    int64_t m = rooms[i].two ? 1 : -1;
    for (int64_t n = rooms[i].fits; n <= MOST; n += 5) {
      static float got[MOST * 2], want[MOST * 2];
      OK(run(p, n, m));
      tn_scope(c) {
        tn_dim before = N;
        N = n;
        tn_tensor *plain = rooms[i].make(tn_from(c, TN_F32, DIMS(n), data), tn_from(c, TN_F32, DIMS(1), data));
        N = before;
        size_t bytes = tn_nbytes(plain);
        OK(tn_read(plain, want, bytes));
        OK(tn_program_read(p, "out", got, bytes));
        if (memcmp(got, want, bytes)) fail_msg("row %zu, size %lld", i, (long long)n);
      }
    }
    if (run(p, rooms[i].fits - 1, m) != TN_EBOUND) fail_msg("row %zu: it does not fit", i);
    if (!strstr(tn_last_error(c)->text, rooms[i].text)) fail_msg("row %zu: %s", i, tn_last_error(c)->text);
    tn_clear_error(c);
    OK(run(p, rooms[i].fits, m)); /* nothing is left behind */
    tn_program_close(p);
  }
  tn_program *p = record(normal, true); /* of nothing these have values */
  float out = 5;
  OK(run(p, 0, 0));
  OK(tn_program_read(p, "out", &out, 4));
  assert_true(out == 0);
}

static tn_tensor *five(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_add(x, tn_ones(c, TN_F32, DIMS(5)));
}
static tn_tensor *halves(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_sum(tn_reshape(x, (tn_dim[]){-1, 2}, 2), (int[]){1}, 1, false);
}
static tn_tensor *parted(tn_tensor *x, tn_tensor *y) {
  tn_tensor *out[2];
  (void)y;
  return tn_split(x, 2, 0, out) == TN_OK ? tn_sub(out[0], out[1]) : NULL;
}
static tn_tensor *single(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_neg(tn_squeeze(x, (int[]){0}, 1));
}
static tn_tensor *longer(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_add(x, tn_ones(c, TN_F32, DIMS(MOST + 1)));
}
static tn_tensor *next(tn_tensor *x, tn_tensor *y) {
  (void)y;
  return tn_add(x, tn_ones(c, TN_F32, DIMS(tn_dim_add(c, N, 1))));
}

static void equal_to_plain_sizes(void **state) {
  float out[MOST];
  (void)state;
  for (int i = 0; i < MOST; i++) data[i] = (float)i;
  tn_program *p = record(five, false);
  OK(run(p, 5, -1));
  OK(tn_program_read(p, "out", out, 20)); /* its size is plain */
  assert_true(out[0] == 1 && out[4] == 5);
  /* symbolic sizes are not broadcast */
  WRONG(run(p, 1, -1), TN_EBOUND, "tn_program_run: add f32[5] of f32[N] as f32[5] needs N (1) = 5; bound are N = 1");
  p = record(halves, false);
  OK(run(p, 6, -1));
  OK(tn_program_read(p, "out", out, 12));
  assert_true(out[0] == 1 && out[2] == 9);
  OK(run(p, 0, -1));
  assert_int_equal(run(p, 7, -1), TN_EBOUND);
  assert_non_null(strstr(tn_last_error(c)->text, "needs N (7) = N/2*2 (6)"));
  tn_clear_error(c);
  p = record(parted, false);
  OK(run(p, 6, -1));
  OK(tn_program_read(p, "out", out, 12));
  assert_true(out[0] == -3 && out[2] == -3);
  assert_int_equal(run(p, 7, -1), TN_EBOUND);
  tn_clear_error(c);
  p = record(single, false);
  OK(run(p, 1, -1));
  OK(tn_program_read(p, "out", out, 4));
  assert_int_equal(run(p, 2, -1), TN_EBOUND);
  assert_non_null(strstr(tn_last_error(c)->text, "needs N (2) = 1"));
  tn_clear_error(c);
}

/* What can never be equal is an error at once. */
static void never_equal(void **state) {
  static const make_fn makes[] = {longer, next};
  (void)state;
  for (int i = 0; i < 2; i++) {
    tn_program *p = tn_program_begin(c);
    assert_null(makes[i](tn_program_input(p, "x", TN_F32, &N, 1), NULL));
    assert_int_equal(tn_last_error(c)->status, TN_ESHAPE);
    tn_clear_error(c);
    tn_program_close(p);
  }
}

/* A refused value does not leave the one before it in place. */
static void refused_values(void **state) {
  (void)state;
  tn_program *p = record(middle, false);
  tn_tensor *good = tn_from(c, TN_F32, DIMS(6), data), *bad = tn_from(c, TN_I32, DIMS(6), data);
  WRONG(tn_program_run(p), TN_ESTATE, "tn_program_run: input 'x' has not been bound");
  OK(run(p, 6, -1));
  assert_int_equal(tn_program_write(p, "x", DIMS(MOST + 1), data, 4), TN_EBOUND);
  tn_clear_error(c);
  WRONG(tn_program_run(p), TN_ESTATE, "tn_program_run: input 'x' has no value: the last one was refused");
  OK(tn_program_bind(p, "x", good));
  OK(tn_program_run(p));
  assert_int_equal(tn_program_bind(p, "x", bad), TN_EDTYPE);
  tn_clear_error(c);
  WRONG(tn_program_run(p), TN_ESTATE, "tn_program_run: input 'x' has no value: the last one was refused");
  assert_int_equal(tn_program_write(p, "z", DIMS(6), data, 24), TN_EINVAL); /* another's name does it no harm */
  tn_clear_error(c);
  OK(run(p, 6, -1));
  assert_int_equal(tn_program_bind(p, "z", good), TN_EINVAL);
  tn_clear_error(c);
  OK(tn_program_run(p));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(slices, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(amounts, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(equal_sizes, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(equal_to_plain_sizes, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(room, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(never_equal, open_ctx, close_ctx),
      cmocka_unit_test_setup_teardown(refused_values, open_ctx, close_ctx),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
