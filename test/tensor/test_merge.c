/* Rows sorted by merges of any runs, where tensor/sort.c would choose them for long ones alone; on the device that
 * $TENET_DEVICE names. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
/* cmocka wants the four above first */
#include "tenet/tenet.h"
#include "tensor/merge.h"
#include <cmocka.h>
#include <string.h>

enum { ROOM = 3 * (34 << 3), VALUES = 0, PLACES = 1 };

static tn_ctx *ctx;

static int open_ctx(void **state) {
  (void)state;
  ctx = tn_ctx_open(&(tn_options){.quiet = 1});
  return ctx ? 0 : 1;
}

static int close_ctx(void **state) {
  (void)state;
  tn_ctx_close(ctx);
  return 0;
}

static uint64_t below(uint64_t n) {
  static uint64_t seed = 20261126;
  seed = seed * 6364136223846793005u + 1442695040888963407u;
  return (seed >> 33) % n;
}

/* i: run, levels, what is asked for: keys alone, or which element of its row each is */
static tn_node *merge(tn_ctx *c, tn__call *k) {
  tn__merges by = {.run = k->i[0], .levels = (int)k->i[1]};
  tn__dims shape = tn__dims_of(k->x[0]);
  tn__merged x = {.key = k->x[0]};
  if (k->i[2] == PLACES) x.order = tn__cast(c, tn__place(c, &shape, 1), TN_I32);
  tn__merge_rows(c, by, &x);
  return k->i[2] == PLACES ? tn__cast(c, x.order, TN_I64) : tn__cast(c, x.key, TN_U64);
}

static void sort(tn_dtype dtype, tn_dim rows, int64_t run, int levels) {
  static uint64_t x[ROOM], sorted[ROOM];
  static int64_t place[ROOM];
  const tn_dim m = tn__merged_length((tn__merges){run, levels}), dims[] = {rows, m};
  const size_t count = (size_t)(rows * m);
  const uint64_t top = dtype == TN_U8 ? UINT8_MAX : dtype == TN_U32 ? UINT32_MAX : UINT64_MAX;
  for (size_t i = 0; i < count; i++) x[i] = below(3) ? below(9) : top - below(2);
  tn_scope(ctx) {
    tn_tensor *t = tn_cast(tn_from(ctx, TN_U64, dims, 2, x), dtype);
    for (int64_t what = VALUES; what <= PLACES; what++) {
      tn_tensor *y = tn__build(&(tn__call){.name = "merge", .fn = merge, .in = &t, .nin = 1, .i = {run, levels, what}});
      if (tn_read(y, what == PLACES ? (void *)place : sorted, count * sizeof *sorted) != TN_OK)
        fail_msg("%s", tn_last_error(ctx)->text);
    }
  }
  for (size_t i = 0; i < count; i++) {
    const size_t row = i / (size_t)m * (size_t)m;
    const uint64_t at = x[row + (size_t)place[i]];
    assert_true(at == sorted[i]);
    if (i == row) continue;
    if (sorted[i - 1] == at ? place[i - 1] >= place[i] : sorted[i - 1] > at)
      fail_msg("%d rows of runs of %d, %d levels: element %d", (int)rows, (int)run, levels, (int)i);
  }
}

/* The shortest runs and those whose halves are odd; rows that are one pair, and several of several levels.  A third of
 * the keys is as great as what stands for no element, or nearly. */
static void runs_are_merged(void **state) {
  (void)state;
  static const struct {
    tn_dtype dtype;
    int levels;
    tn_dim rows;
    int64_t run;
  } of[] = {{TN_U64, 3, 1, 2}, {TN_U32, 1, 3, 4}, {TN_U8, 2, 2, 6}, {TN_U64, 3, 3, 34}};
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) sort(of[i].dtype, of[i].rows, of[i].run, of[i].levels);
}

/* Of keys of 8 bytes a thread stores two at once; but it searches for four. */
static void threads_search_once(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *t = tn_program_input(p, "x", TN_U64, (tn_dim[]){4096, 32}, 2);
    tn_tensor *y = tn__build(&(tn__call){.name = "merge", .fn = merge, .in = &t, .nin = 1, .i = {16, 1, VALUES}});
    assert_int_equal(tn_program_output(p, "y", y), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    assert_non_null(text);
    assert_non_null(strstr(text, "32768_4: pack(1,4)"));
    tn_string_free(text);
    tn_program_close(p);
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(runs_are_merged), cmocka_unit_test(threads_search_once)};
  return cmocka_run_group_tests(tests, open_ctx, close_ctx);
}
