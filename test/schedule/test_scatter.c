/* Scatters of devices whose threads run at once, by all of their ways, against one addition after the other. */
#include "device/device.h"
#include "schedule/schedule.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include <cmocka.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

enum { MOST = 1 << 14 };

static uint64_t seed = 20261124;
static int64_t below(int64_t n) {
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (int64_t)((seed >> 33) % (uint64_t)n);
}

/* Where updates go: anywhere, also outside; all to one place; to a few places, so that runs are long. */
enum { ANYWHERE, ONE, FEW, DRAWS };
static int64_t draw_place(int draw, int64_t places) {
  if (draw == ANYWHERE) return below(places + 6) - 3;
  return draw == ONE ? places / 2 : below(places < 3 ? places : 3);
}

static const struct {
  int64_t places, n, width;
} sizes[] = {{1, 1, 1},     {7, 1, 3},    {1, 40, 2},   {300, 0, 2},   {40, 64, 1},   {300, 257, 1},
             {300, 601, 3}, {40, 600, 7}, {2000, 5, 2}, {900, 900, 1}, {64, 1025, 1}, {3, 4097, 1},
             {4000, 60, 4}, {16000, 1, 1}, {2000, 700, 3}};

static void expect_sums(tn_ctx *c, int64_t places, int64_t n, int64_t width, int draw) {
  static float base[MOST], upd[MOST], want[MOST], got[MOST];
  static int64_t idx[MOST];
  for (int64_t i = 0; i < places * width; i++) base[i] = want[i] = (float)below(100);
  for (int64_t i = 0; i < n * width; i++) upd[i] = (float)(below(7) - 3); /* whose sums are exact in any order */
  for (int64_t k = 0; k < n; k++) {
    idx[k] = draw_place(draw, places);
    for (int64_t j = 0; j < width && idx[k] >= 0 && idx[k] < places; j++)
      want[idx[k] * width + j] += upd[k * width + j];
  }
  tn_tensor *b = tn_from(c, TN_F32, (tn_dim[]){places, width}, 2, base),
            *u = tn_from(c, TN_F32, (tn_dim[]){n, width}, 2, upd), *i = tn_from(c, TN_I64, &n, 1, idx);
  tn_tensor *sum = tn_index_add(b, 0, i, u);
  assert_int_equal(tn_read(sum, got, (size_t)(places * width) * sizeof *got), TN_OK);
  for (int64_t k = 0; k < places * width; k++)
    if (got[k] != want[k])
      fail_msg("%lld of %lld by %lld, draw %d: element %lld is %g, not %g", (long long)n, (long long)places,
               (long long)width, draw, (long long)k, (double)got[k], (double)want[k]);
  tn_release(b), tn_release(u), tn_release(i), tn_release(sum);
}

static const float AS_SAID = 0, NEXT_TO_NOTHING = 1e-15f;
static void expect_all(const char *device, float launch) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  if (launch > AS_SAID) tn__device_get(c, 0)->target.launch = launch;
  for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int draw = 0; draw < DRAWS; draw++) expect_sums(c, sizes[i].places, sizes[i].n, sizes[i].width, draw);
  tn_ctx_close(c);
}

static void test_asked(void **s) {
  (void)s;
  expect_all("ref:sm_90", AS_SAID);
}

/* Where launches cost nothing all are sorted but the fewest. */
static void test_without_launches(void **s) {
  (void)s;
  expect_all("ref:sm_90", NEXT_TO_NOTHING);
  expect_all("ref:opencl", NEXT_TO_NOTHING);
  expect_all("ref:sm_90", 1e-15f); /* by words of counts */
}

/* Which way is taken: a sort has a permutation, and runs or updates that go to places of their own say so. */
typedef enum way { SERIAL, ASKED, ASKING, SORTED_FOR_PLACES, SORTED_FOR_RUNS } way;
typedef struct choice {
  const char *what;
  bool launches, groups; /* these cost time; threads run at once */
  int64_t places, n;
  bool computed; /* the places and the updates are */
  way way;
  int copies; /* of what is asked */
} choice;

static tn_node *given(tn_ctx *c, int dtype, int slot, int64_t n, bool computed) {
  tn_node *size = tn__int(c, n), *x = tn__param(c, dtype, slot, -1, &size, 1);
  return computed ? tn__op2(c, OP_MUL, x, x) : x;
}

static void choose(tn_ctx *c, void *arg) {
  const choice *x = arg;
  tn__target t = tn__device_get(c, 0)->target;
  tn_node *sum = tn__scatter(c, given(c, TN_F32, 0, x->places, false), given(c, TN_I64, 1, x->n, x->computed),
                             given(c, TN_F32, 2, x->n, x->computed));
  if (!x->launches) t.launch = NEXT_TO_NOTHING;
  if (!x->groups) t.group = 0;
  tn_node *sink = tn__schedule_scatters(c, tn__sink(c, &sum, 1, NULL), &t);
  tn__nodes all = {0};
  tn__topo(&c->scratch, &sink, 1, &all);
  bool serial = false, permuted = false, distinct = false;
  int copies = 0;
  for (uint32_t i = 0; i < all.n; i++) {
    permuted |= all.v[i]->op == OP_PERMUTATION;
    distinct |= all.v[i]->op == OP_DISTINCT;
    serial |= all.v[i] == sum;
    copies += all.v[i]->op == OP_CONTIG;
  }
  way got = serial ? SERIAL : permuted ? distinct ? SORTED_FOR_RUNS : SORTED_FOR_PLACES : distinct ? ASKING : ASKED;
  if (got != x->way) fail_msg("%s: way %d, not %d", x->what, (int)got, (int)x->way);
  if (!permuted && copies != x->copies) fail_msg("%s: %d copies, not %d", x->what, copies, x->copies);
}

static void test_choice(void **s) {
  static const choice choices[] = {
      {"as many as places", true, true, 1000, 1000, false, ASKED, 0},
      {"few", true, true, 1 << 20, 100, false, ASKING, 0},
      {"few that are computed", true, true, 1 << 20, 100, true, ASKING, 2},
      {"many", true, true, 1 << 20, 1 << 20, false, SORTED_FOR_PLACES, 0},
      {"many, but fewer than places", true, true, 1 << 20, 1 << 18, false, SORTED_FOR_RUNS, 0},
      {"into few places", false, true, 4, 1000, false, ASKED, 0},
      {"one, at no cost", false, true, 1 << 20, 1, false, ASKING, 0},
      {"as many as places, at no cost", false, true, 9000, 9000, false, SORTED_FOR_PLACES, 0},
      {"one thread", true, false, 1 << 20, 1 << 20, false, SERIAL, 0},
  };
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof choices / sizeof *choices; i++) {
    choice x = choices[i];
    assert_true(tn__ctx_run(c, "test", choose, &x));
  }
  tn_ctx_close(c);
}

/* Zeros that are rounded after the sums are added are rounded before: no array of them is as wide as the sums. */
typedef struct rounding {
  bool zeros;
  int dtype; /* of what is scattered to */
} rounding;

static void round_sums(tn_ctx *c, void *arg) {
  const rounding *x = arg;
  tn__target t = tn__device_get(c, 0)->target;
  tn_node *size = tn__int(c, 1 << 20), *zeros = tn__scalar_to(c, tn__const_num(c, TN_F32, 0), &size, 1);
  tn_node *base = x->zeros ? zeros : tn__cast(c, given(c, TN_BF16, 0, 1 << 20, false), TN_F32);
  tn_node *sum = tn__scatter(c, base, given(c, TN_I64, 1, 100, false), given(c, TN_F32, 2, 100, false));
  sum = tn__cast(c, sum, TN_BF16);
  tn_node *sink = tn__schedule_scatters(c, tn__sink(c, &sum, 1, NULL), &t);
  tn__nodes all = {0};
  tn__topo(&c->scratch, &sink, 1, &all);
  int found = -1;
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_SCATTER) found = all.v[i]->dtype;
  if (found != x->dtype) fail_msg("zeros %d: scattered to dtype %d, not %d", (int)x->zeros, found, x->dtype);
}

static void test_rounded(void **s) {
  static const rounding rows[] = {{true, TN_BF16}, {false, TN_F32}};
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rounding x = rows[i];
    assert_true(tn__ctx_run(c, "test", round_sums, &x));
  }
  tn_ctx_close(c);
}

/* Of rows that are added to some of many, neighbours are loaded at once, where they are wanted; so is what they are
 * added to.  Keys by which they are put in order are worked out once. */
static void test_text(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *base = tn_program_input(p, "base", TN_F32, (tn_dim[]){32768, 512}, 2),
              *i = tn_program_input(p, "i", TN_I64, (tn_dim[]){8192}, 1),
              *rows = tn_program_input(p, "rows", TN_F32, (tn_dim[]){8192, 512}, 2);
    assert_int_equal(tn_program_output(p, "sum", tn_index_add(base, 0, i, rows)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p), *gated = text;
    int loads = 0;
    assert_non_null(text);
    while ((gated = strstr(gated, ".all = *(const uint4 *)(b"))) {
      char *line = gated++;
      while (line > text && line[-1] != '\n') line--;
      loads += strncmp(line + strspn(line, " "), "if (", 4) == 0;
    }
    if (loads < 8) fail_msg("%d wide loads have gates", loads);
    if (!strstr(text, ".all = *(uint4 *)(b0 + ")) fail_msg("what rows are added to is loaded element by element");
    if (!strstr(text, "const u32 *__restrict__ b1")) fail_msg("keys that are compared are not loaded");
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_asked), cmocka_unit_test(test_without_launches),
                                     cmocka_unit_test(test_choice), cmocka_unit_test(test_rounded),
                                     cmocka_unit_test(test_text)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
