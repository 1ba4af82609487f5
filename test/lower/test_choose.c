/* Which mapping kernels get on a large GPU: what the cost model prefers follows the shape, and is said. */
#include "tenet/tenet.h"
#include "lower/lower.h"
#include "support/coverage.h"
#include "support/graph.h"
#include <math.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

typedef struct shape {
  tn_dim rows, columns;
  int axis;
  const char *has[3], *lacks; /* in the kernel's head comment, or among its predictions */
} shape;

/* The lines that say how the kernels of a softmax of that shape are done */
static char *heads(tn_ctx *c, const shape *s) {
  char *all = NULL, *at;
  tn_program *p = tn_program_begin(c);
  tn_scope(c) {
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){s->rows, s->columns}, 2);
    assert_int_equal(tn_program_output(p, "y", tn_softmax(x, s->axis)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    all = tn_program_explain_string(p);
  }
  assert_non_null(all);
  at = strstr(all, "# kernels, optimised\n");
  assert_non_null(at);
  char *text = calloc(1, strlen(at) + 1);
  for (char *line = strtok(at, "\n"); line && strcmp(line, "# source"); line = strtok(NULL, "\n"))
    if (!strncmp(line, "# k", 3)) strcat(strcat(text, line), "\n");
  tn_string_free(all);
  return text;
}

static void shapes(void **state) {
  static const shape rows[] = {
      /* many short rows: a few threads for each, so many of these in a block */
      {1 << 20, 8, 1, {"group(2)", "together(128)", "predicted: team 2 "}, " across\n"},
      {1 << 20, 33, 1, {"group(8)", "together(32)", NULL}, " across\n"},
      /* rows that a warp, or a block, does well */
      {100000, 1000, 1, {"row(load)", "group(", NULL}, " across\n"},
      /* columns: neighbours are neighbouring threads, and each is many threads' */
      {1000, 10007, 0, {"across", "row(load)", "across 8 "}, "blocks("},
      /* of groups that are predicted alike those of fewer threads (an H200: 147 us, of twice as many 212) */
      {8192, 4096, 0, {"group(32) together(8) across", NULL, NULL}, "blocks("},
      /* threads of a column take elements in turns: neighbours of one lie apart in memory */
      {256, 65536, 0, {"across", "row(load)", NULL}, "pack("},
      /* few that nobody keeps: blocks of them, at all levels */
      {15300, 256, 0, {"# k0_parts_15300_256: split(", "blocks(", "across"}, "# k1_"},
      /* few long rows: blocks of each, which groups keep */
      {64, 1 << 18, 1, {"# k0_64_32: ", "row(load)", "# k2_64_262144: "}, "split("},
      /* fewer: one kernel, where launches take longer than all of them */
      {10, 4001, 1, {"# k0_10_4001: ", "group(", NULL}, "# k1_"},
      {3, 100000, 1, {"# k0_parts_3_100000: ", "blocks(", NULL}, "# k1_"},
      {4, 4000000, 1, {"# k0_4_625: ", "# k1_4: ", "# k2_4_4000000: "}, "blocks("},
  };
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text = heads(c, &rows[i]);
    for (int k = 0; k < 3 && rows[i].has[k]; k++)
      if (!strstr(text, rows[i].has[k])) fail_msg("shape %zu lacks %s:\n%s", i, rows[i].has[k], text);
    if (strstr(text, rows[i].lacks)) fail_msg("shape %zu has %s:\n%s", i, rows[i].lacks, text);
    free(text);
  }
  tn_ctx_close(c);
}

/* What a thread stores of a short row goes out by whole accesses. */
static void short_rows_as_stored(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  char *text = tn_explain_text_string(c, "%1 = param f32[262144,8] 262144 8 {0 0}\n"
                                         "%2 = sum f32[262144] %1 {1}\n"
                                         "%3 = reshape f32[262144,1] %2 262144 1\n"
                                         "%4 = expand f32[262144,8] %3 262144 8\n"
                                         "%5 = max f32[262144,8] %1 %4\n"
                                         "%6 = cast bf16[262144,8] %5\n"
                                         "%7 = sink void %6 {\"outputs\"}\n");
  assert_non_null(text);
  if (!strstr(text, " threads(") || !strstr(text, "*(uint2 *)(b0 + ")) fail_msg("stored otherwise:\n%s", text);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* Two wide accesses of a thread have a half of a sector each: elements as many as one has are stored sooner. */
static void whole_sectors(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  char *text = tn_explain_text_string(c, "%1 = param f32[769,2048] 769 2048 {0 0}\n"
                                         "%2 = reshape f32[1,769,2048] %1 1 769 2048\n"
                                         "%3 = expand f32[2,769,2048] %2 2 769 2048\n"
                                         "%4 = param f32[2048] 2048 {1 0}\n"
                                         "%5 = reshape f32[1,1,2048] %4 1 1 2048\n"
                                         "%6 = expand f32[2,769,2048] %5 2 769 2048\n"
                                         "%7 = add f32[2,769,2048] %3 %6\n"
                                         "%8 = sink void %7 {\"outputs\"}\n");
  assert_non_null(text);
  if (!strstr(text, "# k0_2_769_2048: turns(0,2) flat(1,2) pack(4,4) ")) fail_msg("stored otherwise:\n%s", text);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* A row of two axes whose elements do not go on as one in all that is loaded is reduced once, not for each part of it
 * that is stored. */
static void rows_of_two_axes(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  char *text = tn_explain_text_string(c, "%1 = param f32[9000,2,176] 9000 2 176 {0 0}\n"
                                         "%2 = param f32[176] 176 {1 0}\n"
                                         "%3 = reshape f32[1,1,176] %2 1 1 176\n"
                                         "%4 = expand f32[9000,2,176] %3 9000 2 176\n"
                                         "%5 = add f32[9000,2,176] %1 %4\n"
                                         "%6 = rmax f32[9000] %5 {1 2}\n"
                                         "%7 = reshape f32[9000,1,1] %6 9000 1 1\n"
                                         "%8 = expand f32[9000,2,176] %7 9000 2 176\n"
                                         "%9 = neg f32[9000,2,176] %8\n"
                                         "%10 = add f32[9000,2,176] %5 %9\n"
                                         "%11 = exp f32[9000,2,176] %10\n"
                                         "%12 = sum f32[9000] %11 {1 2}\n"
                                         "%13 = reshape f32[9000,1,1] %12 9000 1 1\n"
                                         "%14 = expand f32[9000,2,176] %13 9000 2 176\n"
                                         "%15 = div f32[9000,2,176] %11 %14\n"
                                         "%16 = sink void %15 {\"outputs\"}\n");
  assert_non_null(text);
  if (!strstr(text, "range index 9000 {global ")) fail_msg("rows are not groups':\n%s", text);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* Few sums of many elements, which are stored as well, are cut into blocks however short the outermost loop is. */
static void beside_stores(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  char *text = tn_explain_text_string(c, "%1 = param f32[2,4,50200] 2 4 50200 {0 0}\n"
                                         "%2 = exp f32[2,4,50200] %1\n"
                                         "%3 = sum f32[4] %2 {0 2}\n"
                                         "%4 = sink void %2 %3 {\"outputs\"}\n");
  assert_non_null(text);
  if (!strstr(text, "# k0_parts_4: whole split(")) fail_msg("the sums are not split:\n%s", text);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* Rows enough for the device are each worked out once, though they are stored in several places: rows that groups keep,
 * and those of a thread. */
static void spread_rows(void **state) {
  static const struct {
    int row;
    const char *loop; /* of groups, or of their blocks, over rows alone */
  } rows[] = {{64, "range index 8448 {global "}, {4, "range index 132 {global "}};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char body[1024], why[512];
    int n = rows[i].row;
    snprintf(body, sizeof body,
             "%%1 = param f32[1,8448,%d] 1 8448 %d {0 0}\n%%2 = expand f32[3,8448,%d] %%1 3 8448 %d\n"
             "%%3 = sum f32[3,8448] %%2 {2}\n%%4 = reshape f32[3,8448,1] %%3 3 8448 1\n"
             "%%5 = expand f32[3,8448,%d] %%4 3 8448 %d\n%%6 = mul f32[3,8448,%d] %%2 %%5\n"
             "%%7 = sink void %%6 {\"outputs\"}\n",
             n, n, n, n, n, n, n);
    char *text = tn_explain_text_string(c, body);
    assert_non_null(text);
    if (!strstr(text, rows[i].loop)) fail_msg("no %s in\n%s", rows[i].loop, text);
    tn_string_free(text);
    if (!coverage_takes("ref:sm_90", tn__variant_at(0), n > 4 ? "group" : "threads", body, i, why, sizeof why))
      fail_msg("rows of %d: %s", n, why);
  }
  tn_ctx_close(c);
}

/* Long sums of any length are loaded by wide accesses, but for the few elements that are no whole one; not those that
 * begin elsewhere. */
static void odd_lengths(void **state) {
  static const struct {
    const char *body, *step;
  } sums[] = {
      {"%1 = param f32[300007] 300007 {0 0}\n%2 = sum f32 %1 {0}\n%3 = sink void %2 {\"outputs\"}\n", "rest"},
      {"%1 = param bf16[1000003] 1000003 {0 0}\n%2 = rmax bf16 %1 {0}\n%3 = sink void %2 {\"outputs\"}\n", "rest"},
      {"%1 = param f64[200001] 200001 {0 0}\n%2 = exp f64[200001] %1\n%3 = sum f64 %2 {0}\n%4 = sum f64 %1 {0}\n"
       "%5 = sink void %3 %4 {\"outputs\"}\n", "rest"},
      {"%1 = param i32[300006] 300006 {0 0}\n%2 = prod i32 %1 {0}\n%3 = sink void %2 {\"outputs\"}\n", "rest"},
  };
  char why[512];
  (void)state;
  for (size_t i = 0; i < sizeof sums / sizeof *sums; i++)
    if (!coverage_takes("ref:sm_90", tn__variant_at(0), sums[i].step, sums[i].body, i, why, sizeof why))
      fail_msg("sum %zu: %s", i, why);
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  char *text = tn_explain_text_string(c, sums[1].body);
  assert_non_null(text);
  if (!strstr(text, "rest(0,3) split(0) pack(0,8) ")) fail_msg("loaded otherwise:\n%s", text);
  if (strstr(text, "several(")) fail_msg("loaded one by one:\n%s", text);
  tn_string_free(text);
  text = tn_explain_text_string(c, "%1 = param f32[300009] 300009 {0 0}\n%2 = shrink f32[300007] %1 1 300007 {1}\n"
                                   "%3 = sum f32 %2 {0}\n%4 = sink void %3 {\"outputs\"}\n");
  assert_non_null(text);
  if (strstr(text, "rest(")) fail_msg("cut in vain:\n%s", text);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* Few long sums, and the elements that are stored beside them, are cut into blocks of one length, of wide accesses,
 * where the outermost of their loops is not a number of such, and where the stores have several loops and the sums,
 * which load what lies as one in memory, one. */
static void whole_rows(void **state) {
  static const struct {
    const char *body, *steps, *lacks;
  } rows[] = {
      {"%1 = param f32[2,20001,3] 2 20001 3 {0 0}\n"
       "%2 = sum f32[2] %1 {1 2}\n%3 = reshape f32[2,1,1] %2 2 1 1\n"
       "%4 = expand f32[2,20001,3] %3 2 20001 3\n"
       "%5 = param f32[2,20001,1] 2 20001 1 {1 0}\n%6 = expand f32[2,20001,3] %5 2 20001 3\n"
       "%7 = mul f32[2,20001,3] %6 %4\n%8 = sink void %7 {\"outputs\"}\n",
       " whole split(4) blocks(5)", "patch("},
      {"%1 = param f32[13,3,4096] 13 3 4096 {0 0}\n"
       "%2 = sum f32[3] %1 {0 2}\n%3 = reshape f32[1,3,1] %2 1 3 1\n"
       "%4 = expand f32[13,3,4096] %3 13 3 4096\n%5 = mul f32[13,3,4096] %1 %4\n"
       "%6 = rmax f32[3] %5 {0 2}\n%7 = reshape f32[1,3,1] %6 1 3 1\n"
       "%8 = expand f32[13,3,4096] %7 13 3 4096\n%9 = add f32[13,3,4096] %5 %8\n"
       "%10 = sink void %9 {\"outputs\"}\n",
       " whole split(8) split(9) blocks(7)", "several("},
  };
  char why[512];
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text = tn_explain_text_string(c, rows[i].body), *head = strstr(text, "# k0_parts");
    assert_non_null(head);
    *strchr(head, '\n') = 0;
    if (!strstr(head, rows[i].steps) || strstr(head, rows[i].lacks)) fail_msg("%s", head);
    tn_string_free(text);
  }
  tn_ctx_close(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (int plain = 0; plain < 2; plain++)
      if (!coverage_takes("ref:sm_90", tn__variant_at(0), "whole", rows[i].body, plain, why, sizeof why))
        fail_msg("rows %zu: %s", i, why);
}

/* What is stored once for a row is no reason for one group to go through all of it. */
static void beside_blocks(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  char *text = tn_explain_text_string(c, "%1 = param f32[64,262144] 64 262144 {0 0}\n"
                                         "%2 = rmax f32[64] %1 {1}\n"
                                         "%3 = reshape f32[64,1] %2 64 1\n"
                                         "%4 = expand f32[64,262144] %3 64 262144\n"
                                         "%5 = neg f32[64,262144] %4\n"
                                         "%6 = add f32[64,262144] %1 %5\n"
                                         "%7 = abs f32[64,262144] %6\n"
                                         "%8 = sum f32[64] %7 {1}\n"
                                         "%9 = sink void %8 %2 {\"outputs\"}\n");
  assert_non_null(text);
  if (!strstr(text, "# k0_parts_64: split(")) fail_msg("the rows are not split:\n%s", text);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* How often `what` stands in the kernels' own text */
static int count_of(const char *text, const char *what) {
  int n = 0;
  for (const char *at = strstr(text, "__global__"); at && (at = strstr(at, what)); at++) n++;
  return n;
}

/* What a short row is made of is worked out once for each element: it is summed up where it is kept, and kept rather
 * than what it is made of. */
static void functions_once(void **state) {
  static const struct {
    const char *text, *row, *function;
  } rows[] = {
      {"%1 = param f32[1048576,16] 1048576 16 {0 0}\n"
       "%2 = rmax f32[1048576] %1 {1}\n"
       "%3 = reshape f32[1048576,1] %2 1048576 1\n"
       "%4 = neg f32[1048576,1] %3\n"
       "%5 = expand f32[1048576,16] %4 1048576 16\n"
       "%6 = add f32[1048576,16] %1 %5\n"
       "%7 = exp f32[1048576,16] %6\n"
       "%8 = sum f32[1048576] %7 {1}\n"
       "%9 = reshape f32[1048576,1] %8 1048576 1\n"
       "%10 = expand f32[1048576,16] %9 1048576 16\n"
       "%11 = div f32[1048576,16] %7 %10\n"
       "%12 = sink void %11 {\"outputs\"}\n",
       " row(load) row(exp)", "tn_exp_f32("},
      {"%1 = param f32[11047,1024] 11047 1024 {0 0}\n"
       "%2 = erf f32[11047,1024] %1\n"
       "%3 = mul f32[11047,1024] %1 %2\n"
       "%4 = mul f32[11047,1024] %3 %3\n"
       "%5 = sum f32[11047] %4 {1}\n"
       "%6 = reshape f32[11047,1] %5 11047 1\n"
       "%7 = expand f32[11047,1024] %6 11047 1024\n"
       "%8 = div f32[11047,1024] %3 %7\n"
       "%9 = sink void %8 {\"outputs\"}\n",
       ": row(mul) pack(", "tn_erf_f32("},
  };
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text = tn_explain_text_string(c, rows[i].text);
    assert_non_null(text);
    if (!strstr(text, rows[i].row)) fail_msg("no%s in\n%s", rows[i].row, text);
    assert_int_equal(count_of(text, rows[i].function), 1);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* Of distances of all pairs a thread has a patch; halves of odd lengths go by packs; of few elements sums are cut only
 * where one group takes long, for it loads them one by one. */
static void patches_and_packs(void **state) {
  static const struct {
    const char *text, *has;
  } rows[] = {
      {"%1 = param f32[1024,64] 1024 64 {0 0}\n"
       "%2 = reshape f32[1024,1,64] %1 1024 1 64\n"
       "%3 = expand f32[1024,9000,64] %2 1024 9000 64\n"
       "%4 = param f32[9000,64] 9000 64 {1 0}\n"
       "%5 = reshape f32[1,9000,64] %4 1 9000 64\n"
       "%6 = expand f32[1024,9000,64] %5 1024 9000 64\n"
       "%7 = neg f32[1024,9000,64] %6\n"
       "%8 = add f32[1024,9000,64] %3 %7\n"
       "%9 = abs f32[1024,9000,64] %8\n"
       "%10 = sum f32[1024,9000] %9 {2}\n"
       "%11 = sink void %10 {\"outputs\"}\n",
       "patch(0,1,8x8) stage(2,32)"},
      {"%1 = param f16[8388607] 8388607 {0 0}\n"
       "%2 = exp f16[8388607] %1\n"
       "%3 = sink void %2 {\"outputs\"}\n",
       "tail(0,8)"},
      {"%1 = param f16[262145] 262145 {0 0}\n"
       "%2 = sum f16 %1 {0}\n"
       "%3 = sink void %2 {\"outputs\"}\n",
       "# k0_parts: rest(0,1) split(0)"},
      {"%1 = param f16[66128] 66128 {0 0}\n"
       "%2 = sum f16 %1 {0}\n"
       "%3 = sink void %2 {\"outputs\"}\n",
       "# k0: pack(0,"},
      /* weights beside a row that threads keep */
      {"%1 = param f32[4112,1023] 4112 1023 {0 0}\n"
       "%2 = sum f32[4112] %1 {1}\n"
       "%3 = reshape f32[4112,1] %2 4112 1\n"
       "%4 = expand f32[4112,1023] %3 4112 1023\n"
       "%5 = neg f32[4112,1023] %4\n"
       "%6 = add f32[4112,1023] %1 %5\n"
       "%7 = param f32[1023] 1023 {1 0}\n"
       "%8 = reshape f32[1,1023] %7 1 1023\n"
       "%9 = expand f32[4112,1023] %8 4112 1023\n"
       "%10 = mul f32[4112,1023] %6 %9\n"
       "%11 = sink void %10 {\"outputs\"}\n",
       "several(1,8) group(32)"},
      /* two loops as one, whose inner one packs divide */
      {"%1 = param f32[32,64,3136] 32 64 3136 {0 0}\n"
       "%2 = sum f32[64] %1 {0 2}\n"
       "%3 = sink void %2 {\"outputs\"}\n",
       "whole pack(3,4) group(1024)"},
      /* rows of four axes, of which two lie side by side: their sum goes along these */
      {"%1 = param f32[11,110,453,11,11] 11 110 453 11 11 {0 0}\n"
       "%2 = permute f32[453,11,11,11,110] %1 {2 4 3 0 1}\n"
       "%3 = sum f32[453] %2 {1 2 3 4}\n"
       "%4 = sink void %3 {\"outputs\"}\n",
       "order(3,4,2,1) merge(2,1) merge(3,4) whole split"},
      /* elements by blocks, of which the last are shorter: neither patches nor tiles go through all loops as one */
      {"%1 = param f32[71,47,2,3,3036] 71 47 2 3 3036 {0 0}\n"
       "%2 = permute f32[3,47,2,3036,71] %1 {3 1 2 4 0}\n"
       "%3 = sum f32[47] %2 {0 2 3 4}\n"
       "%4 = reshape f32[1,47,1,1,1] %3 1 47 1 1 1\n"
       "%5 = expand f32[3,47,2,3036,71] %4 3 47 2 3036 71\n"
       "%6 = mul f32[3,47,2,3036,71] %2 %5\n"
       "%7 = sink void %6 {\"outputs\"}\n",
       "blocks("},
      /* rows that are kept as they lie, and stored as results do */
      {"%1 = param f32[6000,40,33] 6000 40 33 {0 0}\n"
       "%2 = permute f32[6000,33,40] %1 {0 2 1}\n"
       "%3 = sum f32[6000] %2 {1 2}\n"
       "%4 = reshape f32[6000,1,1] %3 6000 1 1\n"
       "%5 = expand f32[6000,33,40] %4 6000 33 40\n"
       "%6 = max f32[6000,33,40] %2 %5\n"
       "%7 = sink void %6 {\"outputs\"}\n",
       "flat(2,1) row(load) flat(1,2)"},
      /* lines of two, which go on 533000 times */
      {"%1 = param f32[32,533000,2] 32 533000 2 {0 0}\n"
       "%2 = exp f32[32,533000,2] %1\n"
       "%3 = permute f32[2,533000,32] %2 {2 1 0}\n"
       "%4 = sink void %3 {\"outputs\"}\n",
       "turn 64 "},
      /* rows for which only one group of a unit has room */
      {"%1 = param f32[1024,50000] 1024 50000 {0 0}\n"
       "%2 = rmax f32[1024] %1 {1}\n"
       "%3 = reshape f32[1024,1] %2 1024 1\n"
       "%4 = expand f32[1024,50000] %3 1024 50000\n"
       "%5 = neg f32[1024,50000] %4\n"
       "%6 = add f32[1024,50000] %1 %5\n"
       "%7 = exp f32[1024,50000] %6\n"
       "%8 = sum f32[1024] %7 {1}\n"
       "%9 = reshape f32[1024,1] %8 1024 1\n"
       "%10 = expand f32[1024,50000] %9 1024 50000\n"
       "%11 = div f32[1024,50000] %7 %10\n"
       "%12 = sink void %11 {\"outputs\"}\n",
       "row alone "},
      /* more blocks than are started in the time that they take: some go through many turns */
      {"%1 = param f32[1] 1 {0 0}\n"
       "%2 = expand f32[134000000] %1 134000000\n"
       "%3 = sink void %2 {\"outputs\"}\n",
       "pack(0,4) threads(256) starts("},
      /* what is added to each row counts once, so that what moves along memory goes by packs */
      {"%1 = param f32[361,79755] 361 79755 {0 0}\n"
       "%2 = param f32[79755] 79755 {1 0}\n"
       "%3 = reshape f32[1,79755] %2 1 79755\n"
       "%4 = expand f32[361,79755] %3 361 79755\n"
       "%5 = add f32[361,79755] %1 %4\n"
       "%6 = flip f32[361,79755] %5 {0 1}\n"
       "%7 = sink void %6 {\"outputs\"}\n",
       "tail(2,4)"},
  };
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char *text = tn_explain_text_string(c, rows[i].text);
    assert_non_null(text);
    if (!strstr(text, rows[i].has)) fail_msg("there is no %s:\n%s", rows[i].has, text);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* As predicted, in us, for what is gathered from rows of so many, stored as they lie or columns first */
static double gathered(tn_ctx *c, int row, const char *stored) {
  char text[512];
  snprintf(text, sizeof text,
           "%%1 = param f32[2840,%d] 2840 %d {0 0}\n"
           "%%2 = permute f32[%d,2840] %%1 {1 0}\n"
           "%%3 = param i64[4096] 4096 {1 0}\n"
           "%%4 = gather f32[4096,2840] %%2 %%3\n"
           "%%5 = permute f32[2840,4096] %%4 {1 0}\n"
           "%%6 = sink void %s {\"outputs\"}\n",
           row, row, row, stored);
  char *all = tn_explain_text_string(c, text);
  assert_non_null(all);
  const char *said = strstr(all, "predicted: "), *number = said ? strstr(said, " us") : NULL;
  assert_non_null(number);
  while (number[-1] != ' ') number--; /* of the one that is taken */
  double time = strtod(number, NULL);
  tn_string_free(all);
  return time;
}

/* What lies anywhere comes element by element, from a row that stays in a cache, or, for longer, from memory; but for
 * what a unit has near. */
static void strewn(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  double near = gathered(c, 4096, "%5"), far = gathered(c, 23600, "%5"), anywhere = gathered(c, 23600, "%4");
  if (near * 3 > far || far * 3 > anywhere)
    fail_msg("near %g us, from a cache %g, from anywhere in memory %g", near, far, anywhere);
  tn_ctx_close(c);
}

/* As predicted, in us, for so many updates of rows of that width, which are added to so many places */
static double added(tn_ctx *c, int places, int width, int updates) {
  char text[512];
  snprintf(text, sizeof text,
           "%%1 = const f32 {0.0}\n"
           "%%2 = reshape f32[1,1] %%1 1 1\n"
           "%%3 = expand f32[%d,%d] %%2 %d %d\n"
           "%%4 = param i64[%d] %d {0 0}\n"
           "%%5 = param f32[%d,%d] %d %d {1 0}\n"
           "%%6 = scatter f32[%d,%d] %%3 %%4 %%5\n"
           "%%7 = sink void %%6 {\"outputs\"}\n",
           places, width, places, width, updates, updates, updates, width, updates, width, places, width);
  char *all = tn_explain_text_string(c, text);
  assert_non_null(all);
  const char *said = strstr(all, "predicted: usual ");
  if (!said || !strstr(all, "owns(")) fail_msg("no owners in\n%s", all);
  double time = strtod(said + strlen("predicted: usual "), NULL);
  tn_string_free(all);
  return time;
}

/* Groups that own places ask which updates are theirs before they do anything else, some at a time: 9 MB would take 2
 * us.  They are as many as have registers for few rows on their way: these 176 MB take some 42. */
static void owners(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  double asked = added(c, 2000, 128, 16384), few = added(c, 11, 1 << 21, 10);
  if (asked < 16 || few > 65) fail_msg("many questions %g us, few rows on their way %g us", asked, few);
  tn_ctx_close(c);
}

/* What takes no longer than a few launches is not compared: its own time alone is said, and compiling takes its usual
 * time. */
static void small(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  char *text = heads(c, &(shape){.rows = 4, .columns = 40, .axis = 1});
  const char *said = strstr(text, "predicted: usual ");
  assert_non_null(said);
  assert_null(strstr(said, " us, "));
  assert_null(strstr(text, "starts("));
  free(text);
  tn_ctx_close(c);
}

static char *explained(tn_ctx *c, tn_program *p, tn_tensor *y) {
  assert_int_equal(tn_program_output(p, "y", y), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  char *text = tn_program_explain_string(p);
  if (!text) fail_msg("%s", tn_last_error(c)->text);
  return text;
}

/* Neighbours of odd rows are loaded one by one: compilers are told to have registers for all of them.  Of rows that
 * begin at whole words they are one load. */
static void loads_one_by_one(void **state) {
  static const struct {
    tn_dim columns;
    bool told;
  } rows[] = {{6519699, true}, {1 << 22, false}};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = tn_program_input(p, "x", TN_BF16, (tn_dim[]){4, rows[i].columns}, 2);
      char *text = explained(c, p, tn_cumprod(x, 0));
      if ((strstr(text, "__launch_bounds__(256, ") != NULL) != rows[i].told) fail_msg("%s", text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* Sums of pairs of rows are cut so that units have as much to do as each other: 40 patches in six, not five. */
static void even_shares(void **state) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){200, 1, 1100}, 3),
              *y = tn_program_input(p, "y", TN_F32, (tn_dim[]){1, 2478, 1100}, 3), *d = tn_sub(x, y);
    char *text = explained(c, p, tn_sqrt(tn_sum(tn_mul(d, d), (int[]){2}, 1, false)));
    if (!strstr(text, "patch(0,1,7x8)") || !strstr(text, "range index 240 {global")) fail_msg("%s", text);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* The first time that is predicted from there on, of the mapping that takes least */
static double time_after(const char *at) {
  const char *us = strstr(at, " us");
  assert_non_null(us);
  while (us[-1] != ' ') us--;
  return strtod(us, NULL);
}

/* Of what few blocks of a unit load and compute, little of one is done while they wait for the other.  Measured on an
 * H200: 17.8 us for columns normalized by two blocks of a unit, 12.5 if one hid the other; distances 92.5, and 75. */
static void in_turn(void **state) {
  const int along = 1, last = 2;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  double columns = 0, distances = 0;
  (void)state;
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_BF16, (tn_dim[]){4, 512, 3, 2048}, 4),
              *length = tn_sqrt(tn_sum(tn_mul(x, x), &along, 1, true));
    char *text = explained(c, p, tn_div(x, length));
    columns = time_after(strstr(text, " predicted: "));
    tn_string_free(text);
  }
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){4096, 1, 8}, 3),
              *y = tn_program_input(p, "y", TN_F32, (tn_dim[]){1, 13500, 8}, 3), *d = tn_sub(x, y);
    char *text = explained(c, p, tn_sqrt(tn_sum(tn_mul(d, d), &last, 1, false)));
    distances = time_after(strstr(text, " predicted: "));
    tn_string_free(text);
  }
  bool near = fabs(columns / 17.8 - 1) < 0.12 && fabs(distances / 92.5 - 1) < 0.12;
  if (!near) fail_msg("%g us for columns, %g for distances", columns, distances);
  tn_ctx_close(c);
}

/* Rows that lie along memory, while what is made of them lies across it: groups of one row, or of as many as fill
 * sectors, would leave units idle, and took 73 us on an H200.  Blocks of each row do not. */
static void blocks_across(void **state) {
  const int back[] = {2, 3, 0, 1};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_permute(tn_program_input(p, "x", TN_F16, (tn_dim[]){2, 37, 4, 8192}, 4), back, 4), *grad,
              *by = tn_program_input(p, "by", TN_F16, (tn_dim[]){4, 8192, 2, 37}, 4), *y = tn_softmax(tn_relu(x), 1);
    assert_int_equal(tn_grad(tn_sum(tn_mul(y, by), NULL, 0, false), 1, &x, &grad), TN_OK);
    assert_int_equal(tn_program_output(p, "grad", grad), TN_OK);
    char *text = explained(c, p, y);
    if (!strstr(text, " split(") || time_after(strstr(text, " predicted: ")) > 45) fail_msg("%s", text);
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* A loss over rows of few elements: threads share out the rows.  A group that goes through them one by one, and keeps
 * each, takes a hundred times as long. */
static void rows_of_few(void **state) {
  static const tn_dim sizes[][2] = {{285, 2}, {1000, 2}, {31, 2}, {3, 7}, {7, 3}, {1500, 3}, {16, 10}, {2, 31}};
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  (void)state;
  assert_non_null(c);
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = tn_program_input(p, "x", TN_BF16, sizes[i], 2),
                *to = tn_program_input(p, "to", TN_I64, sizes[i], 1);
      char *text = explained(c, p, tn_cross_entropy(tn_gelu(x), to));
      for (const char *at = text; (at = strstr(at, " predicted: ")); at++)
        if (time_after(at) > 15) fail_msg("%s", text);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* Of its gradients columns are held, too. */
static tn_tensor *quotient(tn_tensor *x, tn_tensor *by, tn_tensor *more) {
  const int along = 1;
  tn_tensor *e = tn_exp(x), *most = tn_max(tn_mul(x, more), &along, 1, true);
  return tn_div(tn_mul(e, by), tn_add(tn_sum(e, &along, 1, true), most));
}
static tn_tensor *drawn(int kind, tn_tensor *const *in) {
  switch (kind) {
  case 0: return tn_gelu_tanh(tn_layer_norm(in[0], 1, in[1], in[2], 1e-5));
  case 1: return tn_mul(tn_softmax(tn_add(tn_mul(in[0], in[1]), in[2]), 1), in[0]);
  case 2: return tn_layer_norm(tn_softmax(in[0], 1), 1, in[1], in[2], 1e-5);
  default: return quotient(in[0], in[1], in[2]);
  }
}
/* One kind of rows, of so many elements: all is lowered. */
static void lower_rows(tn_ctx *c, int kind, tn_dtype dtype, tn_dim rows, tn_dim n) {
  tn_dim of[] = {rows, n};
  tn_program *p = tn_program_begin(c);
  tn_tensor *in[] = {tn_program_input(p, "x", dtype, of, 2), tn_program_input(p, "gamma", dtype, of + 1, 1),
                     tn_program_input(p, "beta", dtype, of + 1, 1)};
  tn_tensor *by = tn_program_input(p, "by", dtype, of, 2), *y = drawn(kind, in), *grad[3];
  assert_int_equal(tn_grad(tn_sum(tn_mul(y, by), NULL, 0, false), 3, in, grad), TN_OK);
  assert_int_equal(tn_program_output(p, "y", y), TN_OK);
  for (int i = 0; i < 3; i++) {
    char name[] = {'g', (char)('0' + i), 0};
    assert_int_equal(tn_program_output(p, name, grad[i]), TN_OK);
  }
  if (tn_program_end(p)) fail_msg("kind %d, dtype %d, %d rows of %d: %s", kind, (int)dtype, (int)rows, (int)n,
                                  tn_last_error(c)->text);
}
/* Parts of a kernel keep their rows side by side, each with room for a whole block behind its end, and what they hold
 * of columns: there is room, or no kernel of both is made.  Rows are drawn up to what fills a group's memory by 16 bits
 * an element, from a sixteenth of it on. */
static void rows_of_parts(void **state) {
  enum { COMPARED = 15 };
  static const struct {
    const char *name;
    int bytes, draws;
  } devices[] = {{"ref:sm_90", 227 << 10, 4}, {"ref:opencl", 32 << 10, 60}};
  static const tn_dtype dtypes[] = {TN_F16, TN_F32, TN_F64, TN_BF16};
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    graph_dice dice = {.state = 140};
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d].name, .quiet = 1});
    assert_non_null(c);
    int draws = c->opt.verify ? devices[d].draws / COMPARED : devices[d].draws; /* element by element takes long */
    for (int i = 0; i < draws; i++) tn_scope(c) {
        uint32_t kind = graph_roll(&dice, 4), dtype = graph_roll(&dice, 4), rows = 140 + graph_roll(&dice, 500);
        double n = devices[d].bytes / 2.0 / pow(16, graph_roll(&dice, 1000) / 1000.0);
        lower_rows(c, (int)kind, dtypes[dtype], rows, (tn_dim)n);
      }
    tn_ctx_close(c);
  }
}

/* Rows that are sent for one ahead, kept, and summed up over all of them: gradients of cosine distances, of rows of
 * drawn lengths.  Beside what is held of the columns there is room for two of a row, and for it as it is kept. */
static void rows_ahead(void **state) {
  const int along = 1, across = 0;
  graph_dice dice = {.state = 11};
  /* lowered only: comparing one of them with its graph takes minutes */
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "off"});
  (void)state;
  assert_non_null(c);
  for (int i = 0; i < 12; i++) tn_scope(c) {
      tn_dim n = i ? 64 + graph_roll(&dice, 1000) : 511, x_shape[] = {6300, n}, y_shape[] = {8258, n};
      tn_program *p = tn_program_begin(c);
      tn_tensor *x = tn_program_input(p, "x", TN_F32, x_shape, 2), *y = tn_program_input(p, "y", TN_F32, y_shape, 2),
                *by = tn_program_input(p, "by", TN_F32, (tn_dim[]){6300, 8258}, 2), *grad[2];
      tn_tensor *turned = tn_transpose(y, 0, 1), *of_x = tn_sum(tn_square(x), &along, 1, true),
                *of_y = tn_sum(tn_square(turned), &across, 1, true);
      tn_tensor *distance = tn_mul(tn_matmul(x, turned), tn_rsqrt(tn_add_scalar(tn_mul(of_x, of_y), 1e-6)));
      assert_int_equal(tn_program_output(p, "distance", distance), TN_OK);
      assert_int_equal(tn_grad(tn_sum(tn_mul(distance, by), NULL, 0, false), 2, (tn_tensor *[]){x, y}, grad), TN_OK);
      assert_int_equal(tn_program_output(p, "x'", grad[0]), TN_OK);
      assert_int_equal(tn_program_output(p, "y'", grad[1]), TN_OK);
      if (tn_program_end(p) != TN_OK) fail_msg("rows of %d: %s", (int)n, tn_last_error(c)->text);
    }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(loads_one_by_one), cmocka_unit_test(even_shares),
                                     cmocka_unit_test(shapes), cmocka_unit_test(beside_stores),
                                     cmocka_unit_test(short_rows_as_stored), cmocka_unit_test(whole_sectors),
                                     cmocka_unit_test(spread_rows), cmocka_unit_test(rows_of_two_axes),
                                     cmocka_unit_test(beside_blocks), cmocka_unit_test(odd_lengths),
                                     cmocka_unit_test(whole_rows), cmocka_unit_test(functions_once),
                                     cmocka_unit_test(patches_and_packs), cmocka_unit_test(strewn),
                                     cmocka_unit_test(owners), cmocka_unit_test(small),
                                     cmocka_unit_test(rows_of_few), cmocka_unit_test(in_turn),
                                     cmocka_unit_test(blocks_across), cmocka_unit_test(rows_of_parts),
                                     cmocka_unit_test(rows_ahead)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
