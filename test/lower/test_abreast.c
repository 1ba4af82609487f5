/* Launches of several kernels: whatever they are, results are those of the interpreter's kernels one by one, and what
 * needs another's result, or stores to what another has, does not go along. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "run/runtime.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include "verify/concurrency.h"
#include <math.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* Whole numbers, so that sums are the same in any order */
static tn_tensor *numbers(tn_ctx *c, tn_dtype dtype, const tn_dim *shape, int rank, bool odd) {
  size_t n = 1;
  for (int i = 0; i < rank; i++) n *= (size_t)shape[i];
  double *v = malloc((n + 1) * sizeof *v);
  for (size_t i = 0; i < n; i++) v[i] = (double)(i * 7 % 23) - 11;
  static const uint64_t nan = INT64_MAX; /* the one that NVIDIA's arithmetic gives, in every dtype */
  if (odd) memcpy(v, &nan, sizeof nan), v[n / 2] = -0.0, v[n - 1] = -INFINITY;
  tn_tensor *x = tn_from(c, TN_F64, shape, rank, v), *t = tn_contiguous(tn_cast(x, dtype));
  free(v);
  if (tn_realize(&t, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  return t;
}

static tn_tensor *elements(tn_ctx *c) { return tn_neg(numbers(c, TN_F32, DIMS(37, 5), false)); }
static tn_tensor *many(tn_ctx *c) { return tn_square(numbers(c, TN_F32, DIMS(41, 103), false)); }
static tn_tensor *single(tn_ctx *c) { return tn_add_scalar(numbers(c, TN_I32, DIMS(1), false), 3); }
static tn_tensor *not_numbers(tn_ctx *c) {
  tn_tensor *x = numbers(c, TN_F64, DIMS(33), true);
  return tn_maximum(x, tn_flip(x, AXES(0)));
}
static tn_tensor *pad(tn_ctx *c) { return tn_pad(numbers(c, TN_F16, DIMS(6, 64), true), (tn_dim[]){1, 1, 0, 3}, 2); }
static tn_tensor *flip(tn_ctx *c) { return tn_flip(numbers(c, TN_BF16, DIMS(3, 7, 2), false), AXES(0, 2)); }
static tn_tensor *spread(tn_ctx *c) {
  return tn_add(numbers(c, TN_F32, DIMS(9, 1), false), numbers(c, TN_F32, DIMS(1, 17), true));
}
static tn_tensor *row_sums(tn_ctx *c) { return tn_sum(numbers(c, TN_F32, DIMS(9, 300), false), AXES(1), false); }
static tn_tensor *short_rows(tn_ctx *c) { return tn_sum(numbers(c, TN_I32, DIMS(30, 40), false), AXES(1), false); }
static tn_tensor *column_sums(tn_ctx *c) { return tn_sum(numbers(c, TN_F32, DIMS(300, 12), false), AXES(0), false); }
static tn_tensor *long_sum(tn_ctx *c) { return tn_sum(numbers(c, TN_F32, DIMS(70000), false), AXES(0), false); }
static tn_tensor *running(tn_ctx *c) { return tn_cumsum(numbers(c, TN_I32, DIMS(5, 50), false), 1); }

static tn_tensor *(*const made[])(tn_ctx *) = {elements, many,     single,     not_numbers, pad,      flip,
                                              spread,   row_sums, short_rows, column_sums, long_sum, running};
enum { MADE = sizeof made / sizeof *made, BYTES = 1 << 15, MOST = 5 };

/* The results of these, computed at once; how many launches that took. */
static int compute(const char *device, const int *which, int n, char (*out)[BYTES]) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = "strict"});
  tn_tensor *t[MOST];
  tn_program_info info;
  assert_non_null(c);
  for (int i = 0; i < n; i++) t[i] = tn_contiguous(made[which[i]](c));
  if (tn_get_info(t, n, &info) != TN_OK || tn_realize(t, n) != TN_OK)
    fail_msg("%s, %d, and %d more: %s", device, which[0], n - 1, tn_last_error(c)->text);
  for (int i = 0; i < n; i++) {
    memset(out[i], 0, BYTES);
    size_t bytes = (size_t)tn_numel(t[i]) * tn_dtype_size(tn_dtype_of(t[i]));
    assert_true(bytes <= BYTES);
    assert_int_equal(tn_read(t[i], out[i], bytes), TN_OK);
  }
  tn_ctx_close(c);
  return info.kernels;
}

static char want[MADE][BYTES], got[MOST][BYTES];
static int alone[MADE]; /* launches that it takes by itself */

static int compare(const char *device, const int *which, int n) {
  int launches = compute(device, which, n, got), apart = 0;
  for (int i = 0; i < n; i++) {
    apart += alone[which[i]];
    if (memcmp(got[i], want[which[i]], BYTES))
      fail_msg("%s: other results of %d beside %d", device, which[i], which[!i]);
  }
  assert_true(launches <= apart);
  return apart - launches;
}

static void pairs(void **state) {
  static const char *const device[] = {"ref:sm_80", "ref:sm_90"};
  int together[MADE] = {0};
  (void)state;
  for (int i = 0; i < MADE; i++) {
    compute("ref", &i, 1, want + i);
    alone[i] = compute("ref:sm_90", &i, 1, got);
  }
  for (int i = 0; i < MADE; i++)
    for (int j = 0; j < i; j++) {
      int spared = compare(device[(i + j) % 2], (int[]){i, j}, 2);
      together[i] += spared, together[j] += spared;
    }
  for (int i = 0; i < MADE; i++)
    if (together[i] < MADE / 2) fail_msg("kernel %d goes along with %d others only", i, together[i]);
  for (int i = 0; i < MADE; i++) {
    int which[MOST] = {i, (i + 1) % MADE, (i + 3) % MADE, (i + 7) % MADE, (i + 10) % MADE};
    assert_true(compare(device[i % 2], which, MOST) >= 2);
  }
}

/* What is made of another's result has to wait for it; what nobody waits for goes along with either. */
static void one_after_the_other(void **state) {
  static const char *const device[] = {"ref:sm_80", "ref:sm_90"};
  float got_sum, got_x[37 * 5];
  (void)state;
  for (int d = 0; d < 2; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = device[d], .quiet = 1, .verify = "strict"});
    tn_program_info info;
    tn_tensor *x = tn_contiguous(tn_neg(numbers(c, TN_F32, DIMS(37, 5), false))), *flat = tn_reshape(x, DIMS(185)),
              *sum = tn_sum(tn_mul(flat, tn_flip(flat, AXES(0))), AXES(0), false), *other = single(c),
              *all[] = {x, sum, other};
    assert_int_equal(tn_get_info(all, 3, &info), TN_OK);
    assert_int_equal(info.kernels, 2);
    assert_int_equal(tn_realize(all, 3), TN_OK);
    assert_int_equal(tn_read(x, got_x, sizeof got_x), TN_OK);
    assert_int_equal(tn_read(sum, &got_sum, sizeof got_sum), TN_OK);
    float want_sum = 0;
    for (int i = 0; i < 185; i++) want_sum += got_x[i] * got_x[184 - i];
    assert_true(want_sum == got_sum);
    tn_ctx_close(c);
  }
}

/* ---- what must not go along ---- */

typedef struct two { /* kernels of a schedule, lowered for the device */
  tn_tensor *t[2];
  int made[2];
} two;

static void lower(tn_ctx *c, const two *w, pipeline *p) {
  tn__nodes in = {0};
  tn_node *root[2] = {w->t[0]->node, w->t[1]->node};
  *p = (pipeline){.c = c, .dev = tn__device_get(c, 0), .key = tn__plan_key(c, root, 2, &in)};
  pipeline_simplify(p);
  pipeline_scatter(p);
  pipeline_schedule(p);
  pipeline_lower(p);
  assert_int_equal(p->s->items.n, 2);
}

static void check_stores(tn_ctx *c, void *arg) {
  pipeline p;
  uint32_t slot[2][4] = {{0, 2, 4, 6}, {1, 3, 5, 7}}, *to[2] = {slot[0], slot[1]};
  lower(c, arg, &p);
  assert_true(tn__fit_abreast(p.kernel, 2, &p.dev->target));
  assert_null(tn__concurrency_check(c, tn__abreast(c, &c->scratch, p.kernel, 2, to, 0)));
  for (uint32_t s = 0; s < 2; s++) { /* the second one has, as its result or its operand, the first one's result */
    slot[1][s] = 0;
    const char *wrong = tn__concurrency_check(c, tn__abreast(c, &c->scratch, p.kernel, 2, to, 0));
    if (!wrong || !strstr(wrong, "a part beside it has the buffer, too")) fail_msg("%s", wrong ? wrong : "accepted");
    slot[1][s] = 1 + 2 * s;
  }
  slot[1][1] = slot[0][1]; /* both may read the same */
  assert_null(tn__concurrency_check(c, tn__abreast(c, &c->scratch, p.kernel, 2, to, 0)));
}

/* Threads that meet are all threads of a block, or some that run in step. */
static void check_threads(tn_ctx *c, void *arg) {
  const two *w = arg;
  pipeline p;
  lower(c, w, &p);
  tn__kernel *k[2] = {p.kernel[0], p.kernel[1]};
  bool first = k[0]->part[0].group < k[1]->part[0].group;
  tn__part *less = &k[!first]->part[0], *more = &k[first]->part[0];
  assert_int_equal(less->group, 32);
  assert_true(more->group > 32);
  assert_true(tn__fit_abreast(k, 2, &p.dev->target));
  tn__target *t = &tn__device_get(c, 0)->target, usual = *t;
  t->units = 1, t->unit_threads = more->group; /* room for one block, most of whose threads were idle in one of them */
  assert_false(tn__fit_abreast(k, 2, t));
  *t = usual;
  more->subgroup = less->subgroup = 16;
  assert_false(tn__fit_abreast(k, 2, &p.dev->target));
  more->subgroup = less->subgroup = 32;
  less->across = true;
  assert_false(tn__fit_abreast(k, 2, &p.dev->target));
  less->across = false;
  more->beside = 2, k[first]->shared = 64; /* registers, and what it shares, are counted for it alone */
  assert_false(tn__fit_abreast(k, 2, &p.dev->target));
}

static void with_two(tn_tensor *(*x)(tn_ctx *), tn_tensor *(*y)(tn_ctx *), void (*check)(tn_ctx *, void *)) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  two w = {.t = {x(c), y(c)}};
  assert_true(tn__ctx_run(c, "test", check, &w));
  tn_ctx_close(c);
}

static void shared_buffers(void **state) {
  (void)state;
  with_two(elements, flip, check_stores);
}

static tn_tensor *blocks(tn_ctx *c) { return tn_neg(numbers(c, TN_F32, DIMS(300, 303), false)); }
static tn_tensor *warps(tn_ctx *c) { return tn_sum(numbers(c, TN_F32, DIMS(3, 60), false), AXES(1), false); }

static void threads(void **state) {
  (void)state;
  with_two(warps, blocks, check_threads);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(pairs), cmocka_unit_test(one_after_the_other),
                                     cmocka_unit_test(shared_buffers), cmocka_unit_test(threads)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
