/* Scatters of devices whose threads run at once, by all of their ways, against one addition after the other. */
#include "device/device.h"
#include "schedule/schedule.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include "tensor/cell.h"
#include <cmocka.h>
#include <math.h>
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
             {4000, 60, 4}, {16000, 1, 1}, {2000, 700, 3}, {9, 7, 1025}};

/* Along the first axis, or along the last one, across which the others then lie */
static void expect_sums(tn_ctx *c, int64_t places, int64_t n, int64_t width, int draw, int axis) {
  static float base[MOST], upd[MOST], want[MOST], got[MOST];
  static int64_t idx[MOST];
  for (int64_t i = 0; i < places * width; i++) base[i] = want[i] = (float)below(100);
  for (int64_t i = 0; i < n * width; i++) upd[i] = (float)(below(7) - 3); /* whose sums are exact in any order */
  for (int64_t k = 0; k < n; k++) {
    idx[k] = draw_place(draw, places);
    for (int64_t j = 0; j < width && idx[k] >= 0 && idx[k] < places; j++)
      want[axis ? j * places + idx[k] : idx[k] * width + j] += upd[axis ? j * n + k : k * width + j];
  }
  tn_tensor *b = tn_from(c, TN_F32, axis ? (tn_dim[]){width, places} : (tn_dim[]){places, width}, 2, base),
            *u = tn_from(c, TN_F32, axis ? (tn_dim[]){width, n} : (tn_dim[]){n, width}, 2, upd),
            *i = tn_from(c, TN_I64, &n, 1, idx);
  tn_tensor *sum = tn_index_add(b, axis, i, u);
  assert_int_equal(tn_read(sum, got, (size_t)(places * width) * sizeof *got), TN_OK);
  for (int64_t k = 0; k < places * width; k++)
    if (got[k] != want[k])
      fail_msg("%lld of %lld by %lld, axis %d, draw %d: element %lld is %g, not %g", (long long)n, (long long)places,
               (long long)width, axis, draw, (long long)k, (double)got[k], (double)want[k]);
  tn_release(b), tn_release(u), tn_release(i), tn_release(sum);
}

static const float AS_SAID = 0, NEXT_TO_NOTHING = 1e-15f, SHORT = 4e-9f;
static void expect_all(const char *device, float launch) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  if (launch > AS_SAID) tn__device_get(c, 0)->target.launch = launch;
  static unsigned long seen;
  for (uint32_t i = 0; i < sizeof sizes / sizeof *sizes; i++)
    for (int draw = 0; draw < DRAWS; draw++) {
      bool last = sizes[i].width > 1 && (int)(i % DRAWS) == draw;
      if (!is_taken(&seen)) continue;
      for (int axis = 0; axis <= last; axis++)
        expect_sums(c, sizes[i].places, sizes[i].n, sizes[i].width, draw, axis);
    }
  tn_ctx_close(c);
}

static void test_asked(void **s) {
  (void)s;
  expect_all("ref:sm_90", AS_SAID);
}

/* Where launches cost nothing all are sorted but the fewest, and narrow rows are moved to where they stand in order;
 * where they cost little, few rows are not. */
static void test_without_launches(void **s) {
  (void)s;
  expect_all("ref:sm_90", NEXT_TO_NOTHING);
  expect_all("ref:opencl", NEXT_TO_NOTHING);
  expect_all("ref:sm_90", SHORT);
}

/* A half float is rounded once: a sum that was rounded before would be half way between two, and go to the even one.
 * By what asks, and by runs. */
static void test_halves(void **s) {
  enum { PLACES = 4000, UPDATES = 60 };
  static const float launch[] = {0, 1e-15f};
  static float base[PLACES], upd[UPDATES], got[PLACES];
  int64_t idx[UPDATES];
  (void)s;
  for (int i = 0; i < PLACES; i++) base[i] = 2048;
  for (int i = 0; i < UPDATES; i++) idx[i] = i / 2 * 100, upd[i] = i % 2 ? 0x1p-12f : 1;
  for (size_t k = 0; k < sizeof launch / sizeof *launch; k++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "strict"});
    assert_non_null(c);
    if (launch[k] > 0) tn__device_get(c, 0)->target.launch = launch[k];
    tn_scope(c) {
      tn_tensor *b = tn_cast(tn_from(c, TN_F32, (tn_dim[]){PLACES}, 1, base), TN_F16),
                *u = tn_cast(tn_from(c, TN_F32, (tn_dim[]){UPDATES}, 1, upd), TN_F16),
                *i = tn_from(c, TN_I64, (tn_dim[]){UPDATES}, 1, idx);
      tn_tensor *sum = tn_cast(tn_index_add(b, 0, i, u), TN_F32);
      if (tn_read(sum, got, sizeof got) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
    }
    tn_ctx_close(c);
    for (int i = 0; i < PLACES; i++) {
      double want = i % 100 || i / 100 >= UPDATES / 2 ? 2048 : 2050;
      if ((double)got[i] != want) fail_msg("place %d: %g, not %g", i, (double)got[i], want);
    }
  }
}

/* ---- along an axis: each line has places of its own ---- */

typedef struct lines {
  tn_dim size[3], n; /* of the base, and updates along the axis */
  int axis;
} lines;

static tn_dim all_of(const tn_dim *size) { return size[0] * size[1] * size[2]; }

/* upd[at] goes to this element, or to none: -1 */
static tn_dim element_for(const lines *l, const tn_dim *updates, tn_dim at, int64_t place) {
  tn_dim number[3] = {at / (updates[1] * updates[2]), at / updates[2] % updates[1], at % updates[2]};
  if (place < 0 || place >= l->size[l->axis]) return -1;
  number[l->axis] = place;
  return (number[0] * l->size[1] + number[1]) * l->size[2] + number[2];
}

/* The sums, and the gradient of what is taken from such places, which is a scatter as well */
static void expect_lines(tn_ctx *c, const lines *l, int draw, bool taken) {
  static float base[MOST], upd[MOST], want[MOST], got[MOST];
  static int64_t idx[MOST];
  tn_dim updates[3] = {l->size[0], l->size[1], l->size[2]}, all = all_of(l->size);
  updates[l->axis] = l->n;
  for (tn_dim i = 0; i < all; i++) base[i] = (float)below(100), want[i] = taken ? 0 : base[i];
  for (tn_dim i = 0; i < all_of(updates); i++) {
    upd[i] = (float)(below(7) - 3);
    idx[i] = draw_place(draw, l->size[l->axis]);
    tn_dim at = element_for(l, updates, i, idx[i]);
    if (at >= 0) want[at] += upd[i];
  }
  tn_tensor *b = tn_from(c, TN_F32, l->size, 3, base), *u = tn_from(c, TN_F32, updates, 3, upd),
            *i = tn_from(c, TN_I64, updates, 3, idx), *sum = NULL;
  tn_tensor *loss = taken ? tn_sum(tn_mul(tn_take_along_axis(b, i, l->axis), u), (int[]){0, 1, 2}, 3, false) : NULL;
  if (taken) assert_int_equal(tn_grad(loss, 1, &b, &sum), TN_OK);
  else sum = tn_scatter_add(b, l->axis, i, u);
  assert_int_equal(tn_read(sum, got, (size_t)all * sizeof *got), TN_OK);
  for (tn_dim k = 0; k < all; k++)
    if (got[k] != want[k])
      fail_msg("%lld along axis %d of %lld %lld %lld, draw %d: element %lld is %g, not %g", (long long)l->n, l->axis,
               (long long)l->size[0], (long long)l->size[1], (long long)l->size[2], draw, (long long)k, (double)got[k],
               (double)want[k]);
  tn_release(b), tn_release(u), tn_release(i), tn_release(sum), tn_release(loss);
}

static void test_lines(void **s) {
  static const lines rows[] = {{{3, 20, 14}, 16, 0}, {{20, 3, 14}, 5, 1}, {{20, 14, 3}, 7, 2}, {{4, 1, 5}, 3, 1},
                               {{1, 9, 6}, 1, 1},    {{5, 40, 1}, 30, 1}, {{2, 3, 900}, 2, 0}, {{1, 1, 30}, 9, 2},
                               {{2, 3, 900}, 9, 2},  {{1, 700, 5}, 13, 1}, {{1000, 1, 2}, 8, 0}};
  static const struct {
    const char *name;
    float launch;
  } devices[] = {{"ref:sm_90", 0}, {"ref:opencl", 0}, {"ref:sm_90", 1e-15f}, {"cpu", 0}};
  (void)s;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d].name, .quiet = 1});
    assert_non_null(c);
    if (devices[d].launch > 0) tn__device_get(c, 0)->target.launch = devices[d].launch;
    tn_scope(c) {
      for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
        for (int draw = 0; draw < DRAWS; draw++)
          expect_lines(c, &rows[i], draw, false), expect_lines(c, &rows[i], draw, true);
    }
    tn_ctx_close(c);
  }
}

static int count_of(const char *text, const char *what) {
  int n = 0;
  for (; (text = strstr(text, what)); text++) n++;
  return n;
}

/* Few updates a line are one kernel, however many lines there are, and so are many, of lines that groups hold; where
 * they are fewer by far than a line has places they ask each other, which is a kernel in front of the one that adds;
 * many are sorted. */
static void test_way_of_lines(void **s) {
  enum { MORE, ONE_KERNEL, ASK_EACH_OTHER };
  static const struct {
    lines l;
    int kernels;
    bool widened;
  } rows[] = {{{{3, 2048, 140}, 16, 0}, ONE_KERNEL, false},      {{{3, 2048, 140}, 16, 0}, ONE_KERNEL, true},
              {{{16, 31, 16384}, 15, 2}, ASK_EACH_OTHER, false}, {{{16, 31, 16384}, 15, 2}, ASK_EACH_OTHER, true},
              {{{16, 31, 16384}, 3, 2}, ONE_KERNEL, false},      {{{5, 20000, 40}, 11, 1}, ASK_EACH_OTHER, false},
              {{{1, 1 << 20, 3}, 1 << 20, 1}, MORE, false},      {{{9000, 511, 1}, 200, 1}, ONE_KERNEL, false},
              {{{100, 511, 90}, 200, 1}, ONE_KERNEL, true}};
  (void)s;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const lines *l = &rows[i].l;
    tn_dim updates[3] = {l->size[0], l->size[1], l->size[2]};
    updates[l->axis] = l->n;
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", TN_F32, l->size, 3),
                *to = tn_program_input(p, "to", rows[i].widened ? TN_U8 : TN_I64, updates, 3),
                *upd = tn_program_input(p, "upd", TN_F32, updates, 3);
      assert_int_equal(tn_program_output(p, "sum", tn_scatter_add(base, l->axis, to, upd)), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      int kernels = count_of(text, " = call void ");
      bool right = rows[i].kernels == MORE ? kernels > 1 : kernels == rows[i].kernels;
      if (!right || (rows[i].kernels == ASK_EACH_OTHER) != (count_of(text, "{distinct}") > 0))
        fail_msg("row %zu: %d kernels:\n%s", i, kernels, text);
      tn_string_free(text);
    }
    tn_ctx_close(c);
  }
}

/* Loops over updates, of one axis */
static int count_of_loops(const char *text, const char *axis) {
  int n = 0;
  for (; (text = strstr(text, axis)); text++) {
    const char *role = strstr(text, " update}");
    n += role && role < strchr(text, '\n');
  }
  return n;
}

/* On CPUs threads share out the lines, and each does the updates of one in order; rows that all go to one place have
 * lanes, and follow each other in order. */
static void test_lines_of_threads(void **s) {
  static const struct {
    lines l;
    bool rows, shared;
  } sums[] = {{{{700, 20, 16}, 64, 1}, false, true},
              {{{2, 3000, 1}, 900, 1}, false, true},
              {{{20, 30, 40}, 500, 2}, false, true},
              {{{500, 7, 3}, 300, 0}, false, false},
              {{{500, 7, 40}, 300, 0}, true, false}};
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:cpu", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) tn_scope(c) {
      const lines *l = &sums[i].l;
      tn_dim updates[3] = {l->size[0], l->size[1], l->size[2]};
      updates[l->axis] = l->n;
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", TN_F16, l->size, 3),
                *to = sums[i].rows ? tn_program_input(p, "to", TN_I64, &l->n, 1)
                                   : tn_program_input(p, "to", TN_I64, updates, 3),
                *upd = tn_program_input(p, "upd", TN_F16, updates, 3),
                *sum = sums[i].rows ? tn_index_add(base, l->axis, to, upd) : tn_scatter_add(base, l->axis, to, upd);
      assert_int_equal(tn_program_output(p, "sum", sum), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      const char *kernels = strstr(text, "# kernels, optimised");
      bool shared = count_of_loops(kernels, "{global ") == 1, lanes = count_of_loops(kernels, "{upcast ") == 1;
      if (shared != sums[i].shared || lanes != sums[i].rows || !count_of_loops(kernels, "{order "))
        fail_msg("sum %zu: %s", i, text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* Lines of drawn sizes, of one update each, too, on processors: two sums by one index, and a gradient by the updates,
 * whose places then stand in memory; what is summed up of sums of their own; updates that lie in another order */
static void expect_lines_by(tn_ctx *c, tn_dim outer, tn_dim places, tn_dim n, tn_dim inner) {
  enum { TERMS = 3 };
  static float upd[TERMS * MOST], want[2][MOST], got[3][MOST], grad[MOST];
  static int64_t idx[MOST];
  const tn_dim base[3] = {outer, places, inner}, updates[3] = {outer, n, inner};
  tn_dim all = all_of(updates), lies[4] = {inner, n, outer, TERMS};
  memset(want, 0, sizeof want);
  const lines l = {{outer, places, inner}, n, 1};
  for (tn_dim i = 0; i < TERMS * all; i++) upd[i] = (float)(below(7) - 3);
  for (tn_dim i = 0; i < all; i++) {
    tn_dim at = element_for(&l, updates, i, idx[i] = draw_place(ANYWHERE, places));
    tn_dim from = ((i % inner * n + i / inner % n) * outer + i / inner / n) * TERMS;
    for (int k = 0; k < TERMS && at >= 0; k++) want[0][at] += upd[from + k];
    if (at >= 0) want[1][at] += 1;
  }
  tn_tensor *v = tn_permute(tn_from(c, TN_F32, lies, 4, upd), (int[]){2, 1, 0, 3}, 4),
            *u = tn_sum(v, (int[]){3}, 1, false), *to = tn_from(c, TN_I64, updates, 3, idx),
            *sum = tn_scatter_add(tn_zeros(c, TN_F32, base, 3), 1, to, u),
            *count = tn_scatter_add(tn_zeros(c, TN_F32, base, 3), 1, to, tn_full(c, TN_F32, updates, 3, 1)),
            *loss = tn_sum(tn_mul(sum, sum), (int[]){0, 1, 2}, 3, false), *du;
  assert_int_equal(tn_grad(loss, 1, &u, &du), TN_OK);
  if (tn_realize((tn_tensor *[]){sum, count, du}, 3) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  assert_int_equal(tn_read(sum, got[0], (size_t)all_of(base) * sizeof(float)), TN_OK);
  assert_int_equal(tn_read(count, got[1], (size_t)all_of(base) * sizeof(float)), TN_OK);
  assert_int_equal(tn_read(du, grad, (size_t)all * sizeof(float)), TN_OK);
  for (tn_dim i = 0; i < all_of(base); i++)
    if (got[0][i] != want[0][i] || got[1][i] != want[1][i])
      fail_msg("%lld %lld %lld by %lld: place %lld is %g and %g, not %g and %g", (long long)outer, (long long)places,
               (long long)inner, (long long)n, (long long)i, (double)got[0][i], (double)got[1][i],
               (double)want[0][i], (double)want[1][i]);
  for (tn_dim i = 0; i < all; i++) {
    tn_dim at = element_for(&l, updates, i, idx[i]);
    if (grad[i] != (at < 0 ? 0 : 2 * want[0][at]))
      fail_msg("the gradient by update %lld is %g", (long long)i, (double)grad[i]);
  }
}

static void test_lines_in_memory(void **s) {
  static const char *const devices[] = {"cpu", "ref:cpu", "ref"};
  static const struct {
    tn_dim outer, places, n, inner;
  } drawn[] = {{64, 20, 8, 1}, {2, 5, 1, 1}, {30, 17, 1, 1}, {9, 3, 2, 7}, {1, 11, 30, 2},
               {97, 1, 3, 1}, {23, 40, 5, 3}};
  (void)s;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d], .quiet = 1});
    assert_non_null(c);
    for (size_t i = 0; i < sizeof drawn / sizeof *drawn; i++)
      tn_scope(c) expect_lines_by(c, drawn[i].outer, drawn[i].places, drawn[i].n, drawn[i].inner);
    tn_ctx_close(c);
  }
}

/* Sums in updates are kernels of their own, of one update each, too; lines whose loop is cut have no lanes. */
static void test_made_for_lines(void **s) {
  enum { LINES = 12600, TERMS = 500 };
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:cpu", .quiet = 1});
  assert_non_null(c);
  for (int summed = 0; summed < 2; summed++) tn_scope(c) {
      tn_dim updates[2] = {LINES, summed ? 1 : 64}, base[2] = {LINES, 20};
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = summed ? tn_program_input(p, "x", TN_F32, (tn_dim[]){LINES, TERMS}, 2)
                            : tn_program_input(p, "x", TN_F32, (tn_dim[]){30, 20, 21, 64}, 4),
                *to = tn_program_input(p, "to", TN_I64, updates, 2), *b = tn_program_input(p, "b", TN_F32, base, 2);
      tn_tensor *u = summed ? tn_sum(x, (int[]){1}, 1, true)
                            : tn_reshape(tn_permute(x, (int[]){0, 2, 1, 3}, 4), updates, 2);
      assert_int_equal(tn_program_output(p, "sum", tn_scatter_add(b, 1, to, u)), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      const char *kernels = strstr(text, "# kernels, optimised");
      if (count_of(text, " = call void ") != 1 + summed || count_of_loops(kernels, "{global ") != 1 ||
          count_of_loops(kernels, "{upcast "))
        fail_msg("%s", text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* What few places of a line ask for is worked out once, as words, and the half floats that they sum up as what they
 * are. */
static void test_what_lines_ask(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_dim updates[] = {90, 942921};
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F16, (tn_dim[]){7, 942921}, 2),
              *to = tn_program_input(p, "to", TN_I64, updates, 2), *dy = tn_program_input(p, "dy", TN_F16, updates, 2),
              *dx;
    assert_int_equal(tn_vjp(tn_take_along_axis(x, to, 0), dy, 1, &x, &dx), TN_OK);
    assert_int_equal(tn_program_output(p, "dx", dx), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    if (!strstr(text, "buffer i32 84862890 ") || !strstr(text, "buffer f16 84862890 ") ||
        strstr(text, "buffer f32 84862890 "))
      fail_msg("%s", text);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* Few places of long rows ask few updates, wherever in memory rows begin. */
static void test_way_of_rows(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (tn_dim width = 131072; width < 131074; width++) tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", TN_F32, (tn_dim[]){17, width}, 2),
                *to = tn_program_input(p, "to", TN_I64, (tn_dim[]){15}, 1),
                *upd = tn_program_input(p, "upd", TN_F32, (tn_dim[]){15, width}, 2);
      assert_int_equal(tn_program_output(p, "sum", tn_index_add(base, 0, to, upd)), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      int kernels = count_of(text, " = call void ");
      if (kernels != 1) fail_msg("rows of %lld: %d kernels:\n%s", (long long)width, kernels, text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* Few numbers ask each other, of the places as they were given, in one kernel: which of them go to the same place, and
 * what their sum is. */
static void test_asked_at_once(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (int along = 0; along < 2; along++) tn_scope(c) {
      tn_dim places = 3449450, n = 1024;
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", TN_F32, &places, 1), *to = tn_program_input(p, "to", TN_I64, &n, 1),
                *upd = tn_program_input(p, "upd", TN_F32, &n, 1);
      tn_tensor *sum = along ? tn_scatter_add(base, 0, to, upd) : tn_index_add(base, 0, to, upd);
      assert_int_equal(tn_program_output(p, "sum", sum), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      int kernels = count_of(text, " = call void ");
      if (kernels != 2) fail_msg("%d kernels:\n%s", kernels, text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

static int kernels_of_sum(tn_ctx *c, const tn_dim *base, int axis, tn_dim updates, bool over_zeros, bool turned) {
  tn_program *p = tn_program_begin(c);
  tn_dim shape[2] = {base[0], base[1]};
  shape[axis] = updates;
  tn_tensor *x = over_zeros ? tn_zeros(c, TN_F32, base, 2) : tn_program_input(p, "base", TN_F32, base, 2),
            *to = tn_program_input(p, "to", TN_I64, &updates, 1), *u = tn_program_input(p, "upd", TN_F32, shape, 2),
            *sum = tn_index_add(x, axis, to, u);
  assert_int_equal(tn_program_output(p, "sum", turned ? tn_transpose(sum, 0, 1) : sum), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  char *text = tn_program_explain_string(p);
  int kernels = count_of(text, " = call void ");
  tn_string_free(text);
  return kernels;
}

/* On CPUs a scatter of few updates lies as what it begins with, or else as they do, and as the result: nothing is
 * turned.  Many are added to rows side by side sooner, and the sums turned. */
static void test_way_along_axes(void **s) {
  (void)s;
  static const struct {
    int axis;
    tn_dim updates;
    bool over_zeros, turned;
    int kernels;
  } sums[] = {{0, 5, false, false, 1}, {1, 5, false, false, 1}, {0, 5, true, false, 1},    {1, 5, true, false, 1},
              {0, 5, true, true, 1},   {1, 5, false, true, 1},  {0, 2000, true, true, 2},  {0, 2000, true, false, 1},
              {1, 2000, true, true, 1}, {1, 2000, true, false, 2}};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:cpu", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++) tn_scope(c) {
      int kernels = kernels_of_sum(c, (tn_dim[]){60, 70}, sums[i].axis, sums[i].updates, sums[i].over_zeros,
                                   sums[i].turned);
      if (kernels != sums[i].kernels) fail_msg("sum %zu: %d kernels, not %d", i, kernels, sums[i].kernels);
    }
  tn_ctx_close(c);
}

/* Fewer rows than places are added in memory, long ones in order by who owns the places (lower/owned.c), but where
 * something is made of the sums, which would then be written and read once more: unless more places look for their rows
 * than that would take. */
static void test_read_again(void **s) {
  static const struct {
    tn_dim places, n, width;
    bool again, added, owned;
  } rows[] = {{67, 22, 489548, false, false, true}, {67, 22, 489548, true, false, false},
              {1 << 24, 1 << 17, 4, false, true, false}, {1 << 24, 1 << 17, 4, true, true, false}};
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) tn_scope(c) {
      tn_dim size[] = {rows[i].places, rows[i].width}, updates[] = {rows[i].n, rows[i].width};
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", TN_F32, size, 2),
                *to = tn_program_input(p, "to", TN_I64, updates, 1),
                *upd = tn_program_input(p, "upd", TN_F32, updates, 2), *sum = tn_index_add(base, 0, to, upd);
      if (rows[i].again) sum = tn_add(sum, tn_program_input(p, "more", TN_F32, size, 2));
      assert_int_equal(tn_program_output(p, "sum", sum), TN_OK);
      if (tn_program_end(p)) fail_msg("row %zu: %s", i, tn_last_error(c)->text);
      char *text = tn_program_explain_string(p);
      if ((count_of(text, "{distinct}") > 0) != rows[i].added || (count_of(text, ": owns(") > 0) != rows[i].owned)
        fail_msg("row %zu:\n%s", i, text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* A gradient of half floats is summed up in f32, in order, by who owns the places, and then rounded. */
static void test_owned_halves(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F16, (tn_dim[]){32768, 256}, 2),
              *to = tn_program_input(p, "to", TN_I64, (tn_dim[]){17390}, 1),
              *dy = tn_program_input(p, "dy", TN_F16, (tn_dim[]){17390, 256}, 2), *dx;
    assert_int_equal(tn_vjp(tn_take(x, to, 0), dy, 1, &x, &dx), TN_OK);
    assert_int_equal(tn_program_output(p, "dx", dx), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    if (count_of(text, ": owns(") != 1 || count_of(text, " = call void ") != 2) fail_msg("%s", text);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* Which way is taken: a sort has a permutation, and runs or updates that go to places of their own say so. */
typedef enum way { SERIAL, ASKED, ASKING, SORTED_FOR_PLACES, SORTED_FOR_RUNS, FIXED } way;
typedef struct choice {
  const char *what;
  bool launches, groups; /* these cost time; threads run at once */
  size_t adds;           /* integers that they may add to at once */
  int64_t places, n;
  bool computed; /* the places and the updates are */
  way way;
  int copies; /* of what is asked, and of sums that are there before they are added */
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
  t.adds = x->adds;
  tn_node *sink = tn__schedule_scatters(c, tn__sink(c, &sum, 1, NULL), &t);
  tn__nodes all = {0};
  tn__topo(&c->scratch, &sink, 1, &all);
  bool serial = false, permuted = false, distinct = false, fixed = false;
  int copies = 0;
  for (uint32_t i = 0; i < all.n; i++) {
    permuted |= all.v[i]->op == OP_PERMUTATION;
    distinct |= all.v[i]->op == OP_DISTINCT;
    serial |= all.v[i] == sum;
    fixed |= all.v[i]->op == OP_SCATTER && all.v[i]->dtype == TN_I64;
    copies += all.v[i]->op == OP_CONTIG;
  }
  way got = serial ? SERIAL : permuted ? distinct ? SORTED_FOR_RUNS : SORTED_FOR_PLACES : distinct ? ASKING : ASKED;
  if (fixed) got = FIXED;
  if (got != x->way) fail_msg("%s: way %d, not %d", x->what, (int)got, (int)x->way);
  if (!permuted && copies != x->copies) fail_msg("%s: %d copies, not %d", x->what, copies, x->copies);
}

static void test_choice(void **s) {
  static const choice choices[] = {
      {"as many as places", true, true, 4, 1000, 1000, false, ASKED, 0},
      {"few", true, true, 4, 1 << 20, 100, false, ASKING, 1},
      {"few that are computed", true, true, 4, 1 << 20, 100, true, ASKING, 3},
      {"many", true, true, 4, 1 << 20, 1 << 20, false, SORTED_FOR_PLACES, 0},
      {"many, but fewer than places", true, true, 4, 1 << 20, 1 << 18, false, SORTED_FOR_RUNS, 0},
      {"into few places", false, true, 4, 4, 1000, false, ASKED, 0},
      {"one, at no cost", false, true, 4, 1 << 20, 1, false, ASKING, 1},
      {"as many as places, at no cost", false, true, 4, 9000, 9000, false, SORTED_FOR_PLACES, 0},
      {"one thread", true, false, 4, 1 << 20, 1 << 20, false, SERIAL, 0},
      {"many, in words of 64 bits", true, true, 4 | 8, 1 << 20, 1 << 20, false, FIXED, 0},
      {"more than places", true, true, 4 | 8, 1 << 16, 1 << 20, false, FIXED, 0},
      {"many, but far fewer than places", true, true, 4 | 8, 1 << 24, 1 << 14, false, FIXED, 0},
      {"few, where words are added to", true, true, 4 | 8, 1 << 20, 100, false, ASKING, 1},
      {"into few places, where words are added to", true, true, 4 | 8, 4, 1 << 20, false, ASKED, 0},
      {"more than digits have room for", true, true, 4 | 8, 1 << 20, 1 << 23, false, FIXED, 0},
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

/* What sums are added to, and rounded after that, is as short as the result: no array of it is as wide as the sums. */
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
  static const rounding rows[] = {{true, TN_BF16}, {false, TN_BF16}};
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    rounding x = rows[i];
    assert_true(tn__ctx_run(c, "test", round_sums, &x));
  }
  tn_ctx_close(c);
}

/* Of rows that are added to some of many, of more elements than have owners (lower/owned.c), neighbours are loaded at
 * once, where they are wanted: in a loop those of the block that a run ends in, and what stands before it.  So is
 * what they are added to, unless it is one number.  Keys by which they are put in order are worked out once. */
static void check_text(tn_ctx *c, bool zeros) {
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *base = zeros ? tn_zeros(c, TN_F32, (tn_dim[]){32768, 65536}, 2)
                            : tn_program_input(p, "base", TN_F32, (tn_dim[]){32768, 65536}, 2),
              *i = tn_program_input(p, "i", TN_I64, (tn_dim[]){8192}, 1),
              *rows = tn_program_input(p, "rows", TN_F32, (tn_dim[]){8192, 65536}, 2);
    assert_int_equal(tn_program_output(p, "sum", tn_index_add(base, 0, i, rows)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    int loads = 0;
    assert_non_null(text);
    char *adds = strstr(text, "_alone_0(f32 *__restrict__ b0, const i32 *"), *gated = adds; /* the last kernel */
    assert_non_null(adds);
    while ((gated = strstr(gated, ".all = *(const uint4 *)(b"))) {
      char *line = gated++;
      while (line > text && line[-1] != '\n') line--;
      loads += strncmp(line + strspn(line, " "), "if (", 4) == 0;
    }
    if (loads != 3) fail_msg("%d wide loads have gates, not 3", loads);
    /* of those that end no run nothing is looked up but where it would begin */
    if (count_of(adds, " = b2[") != 1 || !strstr(adds, " ? b7[") || strstr(adds, " = b7["))
      fail_msg("numbers of rows are loaded for all:\n%s", adds);
    int added_to = count_of(text, ".all = *(uint4 *)(b0 + ");
    if (added_to != (zeros ? 0 : 1)) fail_msg("what rows are added to is loaded at once %d times", added_to);
    if (!strstr(text, "const u32 *__restrict__ b1")) fail_msg("keys that are compared are not loaded");
    /* so it waits for nothing else */
    const char *first = zeros ? "_alone_0(f32 *__restrict__ b0) {"
                              : "_alone_0(f32 *__restrict__ b0, const f32 *__restrict__ b1) {";
    if (count_of(text, first) != 1) fail_msg("what is added to is not a kernel of its own");
    if (count_of(text, " room(528)") < 1) fail_msg("it leaves no room for others");
    tn_string_free(text);
  }
}

static void test_text(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  check_text(c, false);
  check_text(c, true);
  tn_ctx_close(c);
}

/* Narrow rows lie in order before they are summed up: a thread loads those of a block, which lie side by side, whether
 * or not it wants them, so that all are on their way together.  They are as narrow there as they were given, what they
 * are added to, if it is 0, is not looked up, and of what runs have before a block one row is loaded. */
static void test_narrow_rows(void **s) {
  enum { PLACES = 1 << 21, UPDATES = (1 << 20) + 3 }; /* the last block is not whole */
  (void)s; /* nothing is computed: nothing is validated */
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *i = tn_program_input(p, "i", TN_I64, (tn_dim[]){UPDATES}, 1),
              *rows = tn_program_input(p, "rows", TN_BF16, (tn_dim[]){UPDATES, 4}, 2);
    tn_tensor *sum = tn_index_add(tn_zeros(c, TN_BF16, (tn_dim[]){PLACES, 4}, 2), 0, i, rows);
    assert_int_equal(tn_program_output(p, "sum", sum), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    assert_non_null(text);
    char *adds = strstr(text, "_alone_0(u16 *__restrict__ b0, const i32 *"); /* the last kernel */
    if (!adds) fail_msg("there is no kernel that adds:\n%s", text);
    if (!strstr(adds, "\n        w0.all = *(const uint2 *)(b5 + "))
      fail_msg("rows of a block are not loaded at once, each as a whole:\n%s", adds);
    if (strstr(adds, ".all = *(uint2 *)(b0 + ")) fail_msg("zeros are looked up:\n%s", adds);
    if (count_of(adds, ".all = *(const uint4 *)(") != 1) fail_msg("what stood before is not one row:\n%s", adds);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* Single numbers of up to 32 bits go with their places from pass to pass, and are not gathered behind the last one.
 * There are as many passes as places take bytes, with one for what goes outside. */
static void test_go_along(void **s) {
  enum { PLACES = (1 << 24) - 1, UPDATES = 13767493 };
  static const struct {
    tn_dtype dtype;
    const char *behind; /* reads what is in order, and nothing else */
  } rows[] = {{TN_F32, ", f32 *__restrict__ b3, const u64 *__restrict__ b4) {"},
              {TN_F64, ", f64 *__restrict__ b3, const u64 *__restrict__ b4, const f64 *__restrict__ b5) {"}};
  (void)s; /* nothing is computed: nothing is validated */
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  assert_non_null(c);
  for (size_t k = 0; k < sizeof rows / sizeof *rows; k++)
    tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *i = tn_program_input(p, "i", TN_I64, (tn_dim[]){UPDATES}, 1),
                *upd = tn_program_input(p, "upd", rows[k].dtype, (tn_dim[]){UPDATES}, 1),
                *base = tn_program_input(p, "base", rows[k].dtype, (tn_dim[]){PLACES}, 1);
      assert_int_equal(tn_program_output(p, "sum", tn_index_add(base, 0, i, upd)), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      char *text = tn_program_explain_string(p);
      assert_non_null(text);
      if (count_of(text, " = buffer u64 ") != 3) fail_msg("these are not three passes:\n%s", text);
      if (count_of(text, rows[k].behind) != 1) fail_msg("%s:\n%s", rows[k].behind, text);
      tn_string_free(text);
      tn_program_close(p);
    }
  tn_ctx_close(c);
}

/* They are the ones they were, filled up to whole blocks: of places of one byte, or more, in words of 32 bits, or 64.
 * Half floats are, and what is worked out of them. */
static void test_go_along_right(void **s) {
  enum { UPDATES = 4099 };
  static const char *const devices[] = {"ref:sm_90", "ref:opencl"};
  static const tn_dim places[] = {100, 255, 256, 9000};
  static float upd[UPDATES], got[9000], want[9000];
  static int64_t idx[UPDATES];
  (void)s;
  for (size_t k = 0; k < sizeof devices / sizeof *devices * 4; k++) {
    tn_dim at = places[k % 4];
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[k / 4], .quiet = 1});
    assert_non_null(c);
    tn__device_get(c, 0)->target.launch = NEXT_TO_NOTHING;
    for (int dtype = TN_BF16; dtype <= TN_F32; dtype += TN_F32 - TN_BF16) {
      memset(want, 0, sizeof want);
      for (int u = 0; u < UPDATES; u++) {
        upd[u] = (float)(below(7) - 3), idx[u] = draw_place(ANYWHERE, at);
        if (idx[u] >= 0 && idx[u] < at) want[idx[u]] += 1 - upd[u];
      }
      tn_scope(c) {
        tn_tensor *u = tn_cast(tn_from(c, TN_F32, (tn_dim[]){UPDATES}, 1, upd), (tn_dtype)dtype),
                  *i = tn_from(c, TN_I64, (tn_dim[]){UPDATES}, 1, idx);
        u = tn_sub(tn_full(c, (tn_dtype)dtype, (tn_dim[]){UPDATES}, 1, 1), u);
        tn_tensor *sum = tn_cast(tn_index_add(tn_zeros(c, (tn_dtype)dtype, &at, 1), 0, i, u), TN_F32);
        if (tn_read(sum, got, (size_t)at * sizeof *got) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
      }
      for (tn_dim x = 0; x < at; x++)
        if (got[x] != want[x])
          fail_msg("%s, %d places: %g at %d, not %g", devices[k / 4], (int)at, (double)got[x], (int)x,
                   (double)want[x]);
    }
    tn_ctx_close(c);
  }
}

/* Of how many updates is not known until they come: each way there is compiles, and the sums of few are right. */
static void test_any_number(void **s) {
  static const tn_dim most[] = {300, 2000, 8000}, places[] = {100, 5000, 100000}, widths[] = {1, 4, 64};
  enum { OF_ALL = 27, PLACES = 100, UPDATES = 150 };
  (void)s;
  for (int k = 0; k < OF_ALL; k++) {
    static unsigned long seen;
    if (!is_taken(&seen)) continue;
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_scope(c) {
      tn_dim n = tn_dim_var(c, "N", 1, most[k / 9]), at = places[k / 3 % 3], width = widths[k % 3];
      tn_program *p = tn_program_begin(c);
      tn_tensor *base = tn_program_input(p, "base", TN_F32, (tn_dim[]){at, width}, 2),
                *i = tn_program_input(p, "i", TN_I32, &n, 1),
                *upd = tn_program_input(p, "upd", TN_F32, (tn_dim[]){n, width}, 2);
      if (tn_program_output(p, "sum", tn_index_add(base, 0, i, upd)) || tn_program_end(p))
        fail_msg("%d to %d by %d: %s", (int)most[k / 9], (int)at, (int)width, tn_last_error(c)->text);
      if (at == PLACES && width == 1) {
        float zeros[PLACES] = {0}, ones[UPDATES], sum[PLACES];
        int32_t to[UPDATES];
        for (int u = 0; u < UPDATES; u++) ones[u] = (float)(u + 1), to[u] = u * u % 7 * 3;
        assert_int_equal(tn_program_write(p, "base", (tn_dim[]){PLACES, 1}, 2, zeros, sizeof zeros), TN_OK);
        assert_int_equal(tn_program_write(p, "i", (tn_dim[]){UPDATES}, 1, to, sizeof to), TN_OK);
        assert_int_equal(tn_program_write(p, "upd", (tn_dim[]){UPDATES, 1}, 2, ones, sizeof ones), TN_OK);
        assert_int_equal(tn_program_run(p), TN_OK);
        assert_int_equal(tn_program_read(p, "sum", sum, sizeof sum), TN_OK);
        for (int u = 0; u < UPDATES; u++) sum[to[u]] -= ones[u];
        for (int x = 0; x < PLACES; x++) assert_true(sum[x] == 0);
      }
      tn_program_close(p);
    }
    tn_ctx_close(c);
  }
}

/* Which row is taken is looked up once, for where it stands and for whether there is one. */
static void test_looked_up_once(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){32768, 512}, 2),
              *i = tn_program_input(p, "i", TN_I64, (tn_dim[]){8192}, 1);
    assert_int_equal(tn_program_output(p, "rows", tn_take(x, i, 0)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    assert_non_null(text);
    int looked_up = count_of(text, " = b2[");
    if (looked_up != 1) fail_msg("a row's number is loaded %d times", looked_up);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

enum { LINES = 6, LONG = 300, TAKEN = 90 };

/* What is taken along the last axis goes through a function; that, and its gradient */
static void take_lines(const char *device, float launch, const float *x, const int64_t *idx, float *y, float *dx) {
  const char *verify = launch > AS_SAID ? "strict" : NULL;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = verify});
  assert_non_null(c);
  if (launch > AS_SAID) tn__device_get(c, 0)->target.launch = launch;
  tn_scope(c) {
    tn_tensor *from = tn_from(c, TN_F32, (tn_dim[]){LINES, LONG}, 2, x),
              *i = tn_from(c, TN_I64, (tn_dim[]){TAKEN}, 1, idx), *gradient;
    tn_tensor *of = tn_gelu_tanh(tn_take(from, i, 1));
    assert_int_equal(tn_vjp(of, of, 1, &from, &gradient), TN_OK);
    tn_tensor *both[] = {of, gradient};
    assert_int_equal(tn_realize(both, 2), TN_OK);
    if (tn_read(of, y, LINES * TAKEN * sizeof *y) != TN_OK ||
        tn_read(gradient, dx, LINES * LONG * sizeof *dx) != TN_OK)
      fail_msg("%s: %s", device, tn_last_error(c)->text);
  }
  tn_ctx_close(c);
}

static void expect_near(const char *what, const float *got, const float *want, int n) {
  for (int i = 0; i < n; i++)
    if (!(fabsf(got[i] - want[i]) <= 1e-5f * (1 + fabsf(want[i]))))
      fail_msg("%s %d: %g, not %g", what, i, (double)got[i], (double)want[i]);
}

/* Stored once for its function and the gradient, whose sums are stored place by place: as where all is plain */
static void test_taken_lines(void **s) {
  static float x[LINES * LONG], y[2][LINES * TAKEN], dx[2][LINES * LONG];
  int64_t idx[TAKEN];
  (void)s;
  for (int draw = 0; draw < DRAWS; draw++) {
    for (int i = 0; i < LINES * LONG; i++) x[i] = (float)(below(4001) - 2000) / 1000;
    for (int i = 0; i < TAKEN; i++) idx[i] = draw_place(draw, LONG);
    take_lines("ref", AS_SAID, x, idx, y[0], dx[0]);
    take_lines("ref:sm_90", NEXT_TO_NOTHING, x, idx, y[1], dx[1]);
    expect_near("taken", y[1], y[0], LINES * TAKEN);
    expect_near("gradient", dx[1], dx[0], LINES * LONG);
  }
}

/* Gathered along the last axis, with its gradient: nothing that stands between is turned, what is gathered from is
 * loaded by one kernel, and the sums are stored by one, where they stay. */
static void test_last_axis(void **s) {
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){2840, 23600}, 2),
              *i = tn_program_input(p, "i", TN_I64, (tn_dim[]){4096}, 1),
              *dy = tn_program_input(p, "dy", TN_F32, (tn_dim[]){2840, 4096}, 2), *dx;
    tn_tensor *y = tn_gelu_tanh(tn_take(x, i, 1));
    assert_int_equal(tn_vjp(y, dy, 1, &x, &dx), TN_OK);
    assert_int_equal(tn_program_output(p, "y", y), TN_OK);
    assert_int_equal(tn_program_output(p, "dx", dx), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    assert_non_null(text);
    if (strstr(text, " turn(")) fail_msg("something is turned");
    const char *kernels = strstr(text, "# kernels, optimised"), *source = strstr(text, "# source");
    assert_true(kernels && source);
    int count = 0;
    while ((kernels = strstr(kernels, "param f32[67024000]")) && kernels++ < source) count++;
    if (count != 2) fail_msg("%d accesses to all that is gathered from, or summed up in", count);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_asked),         cmocka_unit_test(test_without_launches),
      cmocka_unit_test(test_halves),        cmocka_unit_test(test_lines),
      cmocka_unit_test(test_way_of_lines),  cmocka_unit_test(test_what_lines_ask),
      cmocka_unit_test(test_lines_of_threads), cmocka_unit_test(test_lines_in_memory),
      cmocka_unit_test(test_made_for_lines),
      cmocka_unit_test(test_way_of_rows),   cmocka_unit_test(test_asked_at_once),
      cmocka_unit_test(test_read_again),    cmocka_unit_test(test_owned_halves),
      cmocka_unit_test(test_choice),        cmocka_unit_test(test_rounded),
      cmocka_unit_test(test_text),          cmocka_unit_test(test_narrow_rows),
      cmocka_unit_test(test_looked_up_once), cmocka_unit_test(test_any_number),
      cmocka_unit_test(test_taken_lines),   cmocka_unit_test(test_last_axis),
      cmocka_unit_test(test_way_along_axes), cmocka_unit_test(test_go_along),
      cmocka_unit_test(test_go_along_right)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
