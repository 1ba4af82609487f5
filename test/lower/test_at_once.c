/* Several elements of a row, or turns of a loop, at once in each thread of a GPU's group: of whatever length, dtype and
 * order results are what the graph says, to the last element that is there; schedules are compared with their graphs,
 * too.  So are columns that are cut at all levels, and what is reduced once for many rows. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "support/coverage.h"
#include "support/device.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct row { /* of x[a,b], along an axis */
  const char *name, *dtype, *of, *by; /* what is made of an element, and how that is summed up */
  int a, b, axis;
  const char *step; /* NULL: whichever */
} row;

static const row rows[] = {
    {"odd rows of halves", "f16", "neg", "rmax", 3, 5003, 1, "several"},
    {"odd rows of brain floats", "bf16", "abs", "rmin", 2, 4099, 1, "several"},
    {"one row", "f32", "exp", "rmax", 1, 6001, 1, "several"},
    {"bytes", "u8", "not", "rmax", 5, 3001, 1, "several"},
    {"functions that branch", "f32", "tanh", "sum", 4, 2051, 1, "several"},
    {"whole turns", "f16", "neg", "sum", 2, 7168, 1, NULL},
    {"few columns", "f32", "abs", "sum", 5003, 9, 0, "several"},
    {"one column", "bf16", "neg", "rmin", 3000, 1, 0, NULL},
    {"many columns", "f16", "exp", "rmax", 331, 523, 0, "several"},
    {"doubles", "f64", "neg", "prod", 7, 1999, 1, NULL},
    {"a single row of one", "f32", "exp", "sum", 1, 1, 1, NULL},
};

/* by: the mapping that is taken, not whichever is predicted to be best; NULL: that one */
static void check_by(const char *by, const char *device, const char *name, const char *text, const char *step,
                     bool plain) {
  static unsigned long seen;
  char why[512], noted[64];
  if (!is_taken(&seen)) return;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = "strict"});
  assert_non_null(c);
  if (by) tn__device_get(c, 0)->usual = tn__variant_find(by);
  coverage_watch(tn__device_get(c, 0));
  snprintf(noted, sizeof noted, "%s:%s", device, step ? step : "");
  uint64_t before = coverage_of("step", noted);
  graph g;
  if (!graph_parse(c, text, 1, plain, &g)) fail_msg("%s: %s\n%s", name, tn_last_error(c)->text, text);
  if (!graph_agrees_always(c, &g, why, sizeof why)) fail_msg("%s, %s: %s", name, device, why);
  graph_free(c, &g);
  tn_ctx_close(c);
  if (step && coverage_of("step", noted) == before) fail_msg("%s, %s: the step %s is not taken", name, device, step);
}

static void check(const char *device, const char *name, const char *text, const char *step, bool plain) {
  check_by(step ? "half groups" : NULL, device, name, text, step, plain);
}

static void all_rows(void **state) {
  static const char *const devices[] = {"ref:sm_80", "ref:sm_90"};
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    const row *r = &rows[i];
    char text[512];
    snprintf(text, sizeof text,
             "%%1 = param %s[%d,%d] %d %d {0 0}\n%%2 = %s %s[%d,%d] %%1\n%%3 = %s %s[%d] %%2 {%d}\n"
             "%%4 = sink void %%3 {\"outputs\"}\n",
             r->dtype, r->a, r->b, r->a, r->b, r->of, r->dtype, r->a, r->b, r->by, r->dtype, r->axis ? r->a : r->b,
             r->axis);
    check(devices[i % 2], r->name, text, r->step, i % 3);
  }
}

/* The first place of the greatest, along columns */
static void columns_at_all_levels(void **state) {
  (void)state;
  check("ref:sm_90", "places along columns",
        "%1 = param bf16[6500,140] 6500 140 {0 0}\n"
        "%2 = rmax bf16[140] %1 {0}\n"
        "%3 = reshape bf16[1,140] %2 1 140\n"
        "%4 = expand bf16[6500,140] %3 6500 140\n"
        "%5 = eq bool[6500,140] %1 %4\n"
        "%6 = cast i32[6500,140] %5\n"
        "%7 = sum i32[140] %6 {0}\n"
        "%8 = sink void %7 {\"outputs\"}\n",
        "split", true);
}

/* ... whose elements are stored, too, by blocks of which the last one is shorter */
static void columns_that_are_stored(void **state) {
  (void)state;
  check("ref:sm_90", "columns and their elements",
        "%1 = param f32[3101,135] 3101 135 {0 0}\n"
        "%2 = rmax f32[135] %1 {0}\n"
        "%3 = reshape f32[1,135] %2 1 135\n"
        "%4 = expand f32[3101,135] %3 3101 135\n"
        "%5 = mul f32[3101,135] %1 %4\n"
        "%6 = sink void %5 {\"outputs\"}\n",
        "blocks", true);
}

/* Kept columns, of which neighbouring threads take neighbouring elements in turns, as they do of large ones */
static void kept_columns_in_turns(void **state) {
  static const struct {
    const char *by;
    int length; /* no thread has whole packs of neighbours of an odd one */
  } of[] = {{"whole, team 32 across 8", 255}, {"whole, team 64 across 8", 77}, {"whole", 131}};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[512];
    int n = of[i].length;
    snprintf(text, sizeof text,
             "%%1 = param f32[%d,19] %d 19 {0 0}\n%%2 = rmax f32[19] %%1 {0}\n%%3 = reshape f32[1,19] %%2 1 19\n"
             "%%4 = expand f32[%d,19] %%3 %d 19\n%%5 = max f32[%d,19] %%1 %%4\n%%6 = sink void %%5 {\"outputs\"}\n",
             n, n, n, n, n);
    check_by(of[i].by, "ref:sm_90", "kept columns", text, "row", true);
  }
}

/* A thread's short rows, as they are stored: whole accesses, several of them, and rows that begin elsewhere */
static void short_rows_as_stored(void **state) {
  static const int of[] = {8, 16, 24, 12, 7};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[512];
    int n = of[i];
    const char *d = i % 2 ? "f32" : "bf16";
    snprintf(text, sizeof text,
             "%%1 = param %s[301,%d] 301 %d {0 0}\n%%2 = rmax %s[301] %%1 {1}\n%%3 = reshape %s[301,1] %%2 301 1\n"
             "%%4 = expand %s[301,%d] %%3 301 %d\n%%5 = mul %s[301,%d] %%1 %%4\n%%6 = sink void %%5 {\"outputs\"}\n",
             d, n, n, d, d, d, n, n, d, n);
    check_by("no team", "ref:sm_90", "short rows as stored", text, "several", true);
  }
}

/* ... blocks of a row, of which the last one is shorter, beside what is reduced over them */
static void blocks_that_differ(void **state) {
  (void)state;
  check("ref:sm_90", "blocks of a row",
        "%1 = param f32[4097] 4097 {0 0}\n"
        "%2 = rmax f32 %1 {0}\n"
        "%3 = reshape f32[1] %2 1\n"
        "%4 = expand f32[4097] %3 4097\n"
        "%5 = max f32[4097] %1 %4\n"
        "%6 = sink void %5 {\"outputs\"}\n",
        NULL, true);
}

/* ... whose number is such that each is of whole packs */
static void blocks_of_packs(void **state) {
  (void)state;
  check("ref:sm_90", "blocks of packs",
        "%1 = param f32[36100] 36100 {0 0}\n"
        "%2 = rmax f32 %1 {0}\n"
        "%3 = reshape f32[1] %2 1\n"
        "%4 = expand f32[36100] %3 36100\n"
        "%5 = max f32[36100] %1 %4\n"
        "%6 = sink void %5 {\"outputs\"}\n",
        "pack", true);
}

/* A row that all others repeat is reduced by each group, beside what is stored for each. */
static void same_for_all_rows(void **state) {
  (void)state;
  check("ref:sm_90", "rows that are all the same",
        "%1 = param f32[70] 70 {0 0}\n"
        "%2 = sum f32 %1 {0}\n"
        "%3 = reshape f32[1,1] %2 1 1\n"
        "%4 = expand f32[900,70] %3 900 70\n"
        "%5 = reshape f32[1,70] %1 1 70\n"
        "%6 = expand f32[900,70] %5 900 70\n"
        "%7 = mul f32[900,70] %4 %6\n"
        "%8 = sink void %7 {\"outputs\"}\n",
        NULL, true);
}

/* Weights beside a row that threads keep: rows of whole turns and not, and of a number of turns that nothing divides */
static void weights_beside_rows(void **state) {
  static const struct {
    int length;
    const char *dtype, *step;
  } of[] = {{1023, "f32", "several"}, {509, "f32", "several"}, {991, "f32", NULL}, {1021, "f16", "several"}};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[1024];
    int n = of[i].length;
    const char *d = of[i].dtype;
    snprintf(text, sizeof text,
             "%%1 = param %s[5,%d] 5 %d {0 0}\n%%2 = sum %s[5] %%1 {1}\n%%3 = reshape %s[5,1] %%2 5 1\n"
             "%%4 = expand %s[5,%d] %%3 5 %d\n%%5 = max %s[5,%d] %%1 %%4\n%%6 = param %s[%d] %d {1 0}\n"
             "%%7 = reshape %s[1,%d] %%6 1 %d\n%%8 = expand %s[5,%d] %%7 5 %d\n%%9 = mul %s[5,%d] %%5 %%8\n"
             "%%10 = sink void %%9 {\"outputs\"}\n",
             d, n, n, d, d, d, n, n, d, n, d, n, n, d, n, n, d, n, n, d, n);
    check_by("team 32", i % 2 ? "ref:sm_80" : "ref:sm_90", "weights beside rows", text, of[i].step, true);
  }
}

/* Two loops that are reduced as one: threads take neighbours, which never lie in different turns of the outer one. */
static void neighbours_of_two_loops(void **state) {
  (void)state;
  check_by("whole", "ref:sm_90", "two loops as one",
           "%1 = param f32[9,5,68] 9 5 68 {0 0}\n"
           "%2 = sum f32[5] %1 {0 2}\n"
           "%3 = sink void %2 {\"outputs\"}\n",
           "pack", false);
}

/* A row for which one group of a unit has room, kept where the threads share memory, each its own elements */
static void rows_alone(void **state) {
  (void)state;
  check_by("row alone", "ref:sm_90", "a row alone",
           "%1 = param f32[16,26001] 16 26001 {0 0}\n"
           "%2 = rmax f32[16] %1 {1}\n"
           "%3 = reshape f32[16,1] %2 16 1\n"
           "%4 = expand f32[16,26001] %3 16 26001\n"
           "%5 = eq bool[16,26001] %1 %4\n"
           "%6 = sink void %5 {\"outputs\"}\n",
           "row", true);
}

/* The largest of a window of three axes, whose depth is gone through apart, and is a constant outside of the image */
static void windows_in_two_steps(void **state) {
  (void)state;
  static const char *const of[] = {"rmax", "rmin"};
  for (int i = 0; i < 2; i++) {
    char text[1024];
    snprintf(text, sizeof text,
             "%%1 = param f64[9,3,6,4] 9 3 6 4 {0 0}\n"
             "%%2 = %s f64[9,6,4] %%1 {1}\n"
             "%%3 = param bool[9,6,4] 9 6 4 {1 0}\n"
             "%%4 = const f64 {0.25}\n"
             "%%5 = reshape f64[1,1,1] %%4 1 1 1\n"
             "%%6 = expand f64[9,6,4] %%5 9 6 4\n"
             "%%7 = where f64[9,6,4] %%3 %%2 %%6\n"
             "%%8 = reshape f64[9,3,2,4] %%7 9 3 2 4\n"
             "%%9 = %s f64[9,3] %%8 {2 3}\n"
             "%%10 = sink void %%9 {\"outputs\"}\n",
             of[i], of[i]);
    check_by("no team", "ref:sm_90", "windows in two steps", text, "unnest", i);
  }
}

/* Sums over several axes of a tensor that is viewed in another order go along memory; rows that are stored, too, are
 * kept, and looked up by stores, unless these go as they are loaded, or neighbouring threads have neighbouring rows. */
static void rows_that_lie_otherwise(void **state) {
  static const struct {
    const char *by, *stored, *shape, *viewed, *order, *step;
  } of[] = {
      {"usual", "7,5,3,11", "7 5 3 11", "11,3,5,7", "3 2 1 0", "order"},
      {"team 64", "6,40,33", "6 40 33", "6,33,40", "0 2 1", "flat"},
      {"team 32", "6,40,33", "6 40 33", "6,33,40", "0 2 1", "row"},
      {"team 64", "5,4,6,30", "5 4 6 30", "6,30,4,5", "2 3 1 0", "flat"},
      {"whole", "2,7,6,30", "2 7 6 30", "6,7,2,30", "2 1 0 3", "row"},
      {"team 8 across 8", "5,4,17,30", "5 4 17 30", "17,30,4,5", "2 3 1 0", "across"},
  };
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[1024], one[32] = "", dims[32] = "", size[32] = "", axes[32] = "";
    int length = atoi(of[i].viewed), rank = 1;
    for (const char *at = of[i].viewed; *at; at++) rank += *at == ',';
    for (int k = 1; k < rank; k++) {
      snprintf(one + strlen(one), sizeof one - strlen(one), ",1");
      snprintf(dims + strlen(dims), sizeof dims - strlen(dims), " 1");
      snprintf(axes + strlen(axes), sizeof axes - strlen(axes), " %d", k);
    }
    snprintf(size, sizeof size, "%s", of[i].viewed);
    for (char *at = size; *at; at++) *at = *at == ',' ? ' ' : *at;
    const char *v = of[i].viewed;
    snprintf(text, sizeof text,
             "%%1 = param f32[%s] %s {0 0}\n%%2 = permute f32[%s] %%1 {%s}\n%%3 = sum f32[%d] %%2 {%s}\n"
             "%%4 = reshape f32[%d%s] %%3 %d%s\n%%5 = expand f32[%s] %%4 %s\n%%6 = max f32[%s] %%2 %%5\n"
             "%%7 = sink void %%6 {\"outputs\"}\n",
             of[i].stored, of[i].shape, v, of[i].order, length, axes + 1, length, one, length, dims, v, size, v);
    check_by(of[i].by, "ref:sm_90", "rows that lie otherwise", text, of[i].step, true);
  }
}

/* A loop over two axes that are one by a reshape, which memory has the other way round */
static void rows_of_digits(void **state) {
  (void)state;
  check_by("team 64", "ref:sm_90", "rows of digits",
           "%1 = param f32[6,40,33] 6 40 33 {0 0}\n"
           "%2 = permute f32[6,33,40] %1 {0 2 1}\n"
           "%3 = reshape f32[6,1320] %2 6 1320\n"
           "%4 = sum f32[6] %3 {1}\n"
           "%5 = reshape f32[6,1,1] %4 6 1 1\n"
           "%6 = expand f32[6,33,40] %5 6 33 40\n"
           "%7 = max f32[6,33,40] %2 %6\n"
           "%8 = sink void %7 {\"outputs\"}\n",
           "digits", true);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_rows), cmocka_unit_test(columns_at_all_levels),
                                     cmocka_unit_test(columns_that_are_stored),
                                     cmocka_unit_test(kept_columns_in_turns),
                                     cmocka_unit_test(short_rows_as_stored),
                                     cmocka_unit_test(blocks_that_differ), cmocka_unit_test(blocks_of_packs),
                                     cmocka_unit_test(same_for_all_rows), cmocka_unit_test(weights_beside_rows),
                                     cmocka_unit_test(neighbours_of_two_loops), cmocka_unit_test(rows_alone),
                                     cmocka_unit_test(windows_in_two_steps),
                                     cmocka_unit_test(rows_that_lie_otherwise),
                                     cmocka_unit_test(rows_of_digits)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
