/* Kernels that are stages of one block: results are those of the interpreter's kernels one by one, what they require of
 * each other's results holds, and what is no stage, or has lost its barrier, is refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "backend/cuda/target.h"
#include "lower/lower.h"
#include "render/dialect.h"
#include "run/runtime.h"
#include "support/pipeline.h"
#include "tenet/tenet.h"
#include "verify/concurrency.h"
#include "verify/facts.h"
#include "verify/readback.h"
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))
#define AXES(...) ((const int[]){__VA_ARGS__}), (int)(sizeof((const int[]){__VA_ARGS__}) / sizeof(int))

/* Whole numbers below `below`, so that sums are the same in any order */
static tn_tensor *numbers(tn_ctx *c, tn_dtype dtype, const tn_dim *shape, int rank, int below) {
  size_t n = 1;
  for (int i = 0; i < rank; i++) n *= (size_t)shape[i];
  int *v = malloc((n + 1) * sizeof *v);
  for (size_t i = 0; i < n; i++) v[i] = (int)(i * 7919 % (size_t)below);
  tn_tensor *t = tn_contiguous(tn_cast(tn_from(c, TN_I32, shape, rank, v), dtype));
  free(v);
  if (tn_realize(&t, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  return t;
}

/* ---- programs, and how many launches they take ---- */

static tn_tensor *stored(tn_tensor *x) { return tn_contiguous(tn_transpose(x, 0, 1)); }

static tn_tensor *moves(tn_ctx *c) { /* of 37 x 5, twice there and back */
  tn_tensor *x = numbers(c, TN_F32, DIMS(37, 5), 23);
  return stored(tn_neg(stored(tn_square(stored(tn_exp(tn_mul_scalar(stored(x), 0)))))));
}
static tn_tensor *sum_of(tn_ctx *c, tn_dtype dtype) {
  tn_tensor *x = tn_reshape(tn_contiguous(tn_neg(numbers(c, dtype, DIMS(37, 5), 23))), DIMS(185));
  return tn_sum(tn_mul(x, tn_flip(x, AXES(0))), AXES(0), false);
}
static tn_tensor *sum_of_moved(tn_ctx *c) { return sum_of(c, TN_F32); }
static tn_tensor *sum_of_integers(tn_ctx *c) { return sum_of(c, TN_I64); }
static tn_tensor *rows_of_sums(tn_ctx *c) { /* two kernels of groups whose threads meet, and one of single threads */
  tn_tensor *x = numbers(c, TN_F32, DIMS(6, 300), 5), *sum = tn_contiguous(tn_sum(x, AXES(1), true));
  tn_tensor *y = tn_contiguous(tn_add(tn_sub(x, sum), tn_flip(sum, AXES(0))));
  return tn_max(tn_contiguous(tn_add(y, tn_flip(y, AXES(0, 1)))), AXES(1), false);
}
static tn_tensor *scanned(tn_ctx *c) { /* in shared memory, and again the other way round */
  tn_tensor *x = tn_contiguous(tn_cumsum(numbers(c, TN_I32, DIMS(700), 9), 0));
  return tn_flip(tn_contiguous(tn_cumsum(tn_flip(x, AXES(0)), 0)), AXES(0));
}
static tn_tensor *places(tn_ctx *c) { /* distinct ones, which a stage scatters to that has them from the one before */
  tn_tensor *places, *count;
  if (tn_nonzero(numbers(c, TN_I32, DIMS(20, 30), 3), 600, 0, &places, &count) != TN_OK)
    fail_msg("%s", tn_last_error(c)->text);
  return places;
}
static tn_tensor *different(tn_ctx *c) { /* sorted by counting, which takes all threads of the device */
  tn_tensor *values, *count;
  if (tn_unique(numbers(c, TN_I32, DIMS(600), 37), 64, 0, &values, &count, NULL, NULL) != TN_OK)
    fail_msg("%s", tn_last_error(c)->text);
  return values;
}

static const struct {
  const char *name;
  tn_tensor *(*make)(tn_ctx *);
  int launches; /* on ref:sm_90 */
} program[] = {{"moves", moves, 1},     {"sum of moved", sum_of_moved, 1},   {"rows of sums", rows_of_sums, 1},
               {"scanned", scanned, 1}, {"places", places, 1},             {"different", different, 2}};
enum { PROGRAMS = sizeof program / sizeof *program, BYTES = 1 << 15 };

static int compute(const char *device, int i, const char *verify, char *out) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = verify});
  tn_program_info info;
  assert_non_null(c);
  tn_tensor *t = tn_contiguous(program[i].make(c));
  if (tn_get_info(&t, 1, &info) != TN_OK || tn_realize(&t, 1) != TN_OK)
    fail_msg("%s, %s: %s", device, program[i].name, tn_last_error(c)->text);
  size_t bytes = (size_t)tn_numel(t) * tn_dtype_size(tn_dtype_of(t));
  assert_true(bytes <= BYTES);
  memset(out, 0, BYTES);
  assert_int_equal(tn_read(t, out, bytes), TN_OK);
  tn_ctx_close(c);
  return info.kernels;
}

static void results(void **state) {
  static char want[BYTES], got[BYTES];
  (void)state;
  for (int i = 0; i < PROGRAMS; i++) {
    int alone = compute("ref", i, "off", want), launches = compute("ref:sm_90", i, "strict", got);
    if (memcmp(want, got, BYTES)) fail_msg("%s: other results", program[i].name);
    if (launches != program[i].launches) fail_msg("%s: %d launches, of %d", program[i].name, launches, alone);
    compute("ref:sm_80", i, "off", got);
    if (memcmp(want, got, BYTES)) fail_msg("%s: other results on sm_80", program[i].name);
  }
}

/* What a block alone takes longer for than launches take stays with the device. */
static void large_ones_stay(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  tn_program_info info;
  tn_tensor *x = tn_contiguous(tn_cumsum(numbers(c, TN_I32, DIMS(16, 16384), 23), 1));
  tn_tensor *z = tn_sum(tn_mul(x, tn_flip(x, AXES(0))), AXES(0), false);
  assert_int_equal(tn_get_info(&z, 1, &info), TN_OK);
  assert_int_equal(info.kernels, 2);
  tn_ctx_close(c);
}

/* ---- what is refused ---- */

typedef struct pair { /* of kernels, the second of which reads what the first one writes */
  tn_ctx *c;
  pipeline p;
  tn__kernel *all;
} pair;

static tn__kernel *of_two(pair *w, int threads) {
  uint32_t slot[2][4] = {{0, 2}, {1, 0}}, *to[2] = {slot[0], slot[1]};
  return tn__stages(w->c, &w->c->scratch, w->p.kernel, 2, to, threads, 0);
}

static void lower(tn_ctx *c, tn_tensor *t, pair *w) {
  tn__nodes in = {0};
  tn_node *root[1] = {t->node};
  *w = (pair){.c = c, .p = {.c = c, .dev = tn__device_get(c, 0), .key = tn__plan_key(c, root, 1, &in)}};
  pipeline_simplify(&w->p);
  pipeline_scatter(&w->p);
  pipeline_schedule(&w->p);
  pipeline_lower(&w->p);
  assert_int_equal(w->p.s->items.n, 2);
  w->all = of_two(w, 128);
}

static void expect(const char *wrong, const char *what) {
  if (!wrong || !strstr(wrong, what)) fail_msg("\"%s\" instead of \"%s\"", wrong ? wrong : "accepted", what);
}

static void check_forms(tn_ctx *c, void *arg) {
  pair w;
  lower(c, arg, &w);
  tn__kernel *k = w.all;
  tn__part *sum = &k->part[1];
  assert_int_equal(k->nparts, 2);
  assert_true(!k->part[0].behind && sum->behind && tn__launch_end(k, 0) == 2 && tn__has_stages(k, 0));
  assert_int_equal(tn__threads_of_block(sum), 128); /* its threads meet */
  assert_null(tn__concurrency_check(c, k));
  assert_null(tn__facts_check(&c->scratch, k, &w.p.dev->target));
  int group = sum->group;
  k->part[0].together = 0, k->part[0].group = 256;
  expect(tn__concurrency_check(c, k), "threads meet in a stage that not all have");
  k->part[0].group = 128;
  sum->group = group;
  sum->abreast = true;
  expect(tn__concurrency_check(c, k), "a part that is no stage, among stages");
}

static void swap_parts(tn__kernel *k) {
  tn__part first = k->part[0];
  k->part[0] = k->part[1], k->part[1] = first;
  k->part[0].behind = false, k->part[1].behind = true;
}

/* What is required of a buffer a stage may store to, if none before it, nor itself, has loaded from it. */
static void check_required(tn_ctx *c, void *arg) {
  static const char *const wrong = "it requires something of a buffer that it stores to";
  pair w;
  tn_node *buffer = NULL;
  int64_t what = REQ_DISTINCT;
  lower(c, arg, &w);
  const tn__target *t = &w.p.dev->target;
  for (uint32_t i = 0; i < w.all->part[0].n && !buffer; i++)
    if (w.all->part[0].ins[i]->op == OP_STORE) buffer = w.all->part[0].ins[i]->src[0];
  tn_node *require = tn__node_make(c, &(tn__make){.op = OP_REQUIRE, .src = &buffer, .nsrc = 1, .ints = &what,
                                                  .nint = 1, .device = -1});
  w.all->require = &require, w.all->nrequire = 1;
  assert_null(tn__facts_check(&c->scratch, w.all, t));
  w.all->part[1].behind = false; /* as a launch of its own */
  expect(tn__facts_check(&c->scratch, w.all, t), wrong);
  swap_parts(w.all);
  expect(tn__facts_check(&c->scratch, w.all, t), wrong);
}

static bool reads_back(pair *w, const char *text, tn__sb *why) {
  const int64_t size[] = {185, 1, 185};
  tn__sb_init(why, &w->c->scratch);
  tn__readback_subject subject = {.kernel = w->all, .language = TN__READ_CUDA, .text = text, .size = size};
  return tn__readback(w->c, &subject, why) == TN__READ_EQUAL;
}

/* The text without its line around `at` */
static char *without_line(tn_ctx *c, const char *text, const char *at) {
  const char *from = at, *to = strchr(at, '\n') + 1;
  while (from > text && from[-1] != '\n') from--;
  char *other = tn__arena_strdup(&c->scratch, text);
  memmove(other + (from - text), to, strlen(to) + 1);
  return other;
}

static void check_text(tn_ctx *c, void *arg) {
  static const char *const none[] = {NULL};
  tn__dialect bare = tn__dialect_cuda;
  pair w;
  tn__sb s, why;
  lower(c, arg, &w);
  bare.head = none;
  tn__sb_init(&s, &c->scratch);
  tn__kernel *list = w.all;
  tn__render_unit(c, &s, &bare, &list, 1);
  const char *text = tn__sb_str(&s), *barrier = strstr(text, "\n  __syncthreads();");
  if (!reads_back(&w, text, &why)) fail_msg("%s\n%s", tn__sb_str(&why), text);
  assert_non_null(barrier);
  assert_null(strstr(barrier + 3, "\n  __syncthreads();"));
  assert_false(reads_back(&w, without_line(c, text, barrier + 1), &why));
  expect(tn__sb_str(&why), "no barrier for all memory behind a stage");
  char *other = tn__arena_strdup(&c->scratch, text);
  memcpy(strstr(other, "\n  __syncthreads();"), "\n  __syncwarp();   ", strlen("\n  __syncwarp();   "));
  assert_false(reads_back(&w, other, &why));
  expect(tn__sb_str(&why), "no barrier for all memory behind a stage");
  for (const char *at = strstr(text, "] = "); at; at = strstr(at + 1, "] = ")) /* what either stage stores */
    assert_false(reads_back(&w, without_line(c, text, at), &why));
}

static void with(tn_tensor *(*make)(tn_ctx *), void (*check)(tn_ctx *, void *)) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  if (!tn__ctx_run(c, "test", check, make(c))) fail_msg("%s", tn_last_error(c)->text);
  tn_ctx_close(c);
}

static void forms(void **state) {
  (void)state;
  with(sum_of_moved, check_forms);
}
static void required(void **state) {
  (void)state;
  with(sum_of_integers, check_required);
}
static void text(void **state) {
  (void)state;
  with(sum_of_moved, check_text);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(results), cmocka_unit_test(large_ones_stay),
                                     cmocka_unit_test(forms), cmocka_unit_test(required), cmocka_unit_test(text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
