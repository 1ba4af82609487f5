/* What is the same along an axis, because it was spread over that, is reduced before it is spread: results are what the
 * graph says, bit for bit in mode strict, and the kernel that reduces has no loop over that axis. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static const char *const devices[] = {"cpu", "ref:cpu", "ref:sm_90", "ref:opencl"};

static const struct {
  const char *name, *text;
} graphs[] = {
    {"rows that are the same", "%1 = param f32[1,67] 1 67 {0 0}\n%2 = expand f32[41,67] %1 41 67\n"
                               "%3 = exp f32[41,67] %2\n%4 = sum f32[41] %3 {1}\n%5 = reshape f32[41,1] %4 41 1\n"
                               "%6 = expand f32[41,67] %5 41 67\n%7 = div f32[41,67] %3 %6\n"
                               "%8 = sink void %7 {\"outputs\"}\n"},
    {"over the axis and another", "%1 = param f16[5,1,7] 5 1 7 {0 0}\n%2 = expand f16[5,9,7] %1 5 9 7\n"
                                  "%3 = sum f16[7] %2 {0 1}\n%4 = rmax f16[9] %2 {0 2}\n"
                                  "%5 = sink void %3 %4 {\"outputs\"}\n"},
    {"along two axes, of other numbers along one",
     "%1 = param f32[1,6,1,5] 1 6 1 5 {0 0}\n%2 = expand f32[4,6,3,5] %1 4 6 3 5\n"
     "%3 = param f32[4,1,1,1] 4 1 1 1 {1 0}\n"
     "%4 = expand f32[4,6,3,5] %3 4 6 3 5\n%5 = mul f32[4,6,3,5] %2 %4\n%6 = prod f32[4,6,3] %5 {3}\n"
     "%7 = sum f32[4,6,3] %2 {3}\n%8 = sink void %6 %7 {\"outputs\"}\n"},
    {"turned, and without the axis of one",
     "%1 = param i32[1,6,5] 1 6 5 {0 0}\n%2 = expand i32[8,6,5] %1 8 6 5\n%3 = permute i32[5,8,6] %2 {2 0 1}\n"
     "%4 = reshape i32[5,1,8,6] %3 5 1 8 6\n%5 = sum i32[1,8,6] %4 {0}\n%6 = reshape i32[8,6] %5 8 6\n"
     "%7 = rmin i32[8] %6 {1}\n%8 = sink void %7 {\"outputs\"}\n"},
    {"axes that become one", "%1 = param f32[1,6,5] 1 6 5 {0 0}\n%2 = expand f32[8,6,5] %1 8 6 5\n"
                             "%3 = reshape f32[48,5] %2 48 5\n%4 = sum f32[48] %3 {1}\n"
                             "%5 = sink void %4 {\"outputs\"}\n"},
    {"a gradient through them", "%1 = param f32[1,33] 1 33 {0 0}\n%2 = expand f32[10,33] %1 10 33\n"
                                "%3 = mul f32[10,33] %2 %2\n%4 = sum f32[10] %3 {1}\n%5 = reshape f32[10,1] %4 10 1\n"
                                "%6 = expand f32[10,33] %5 10 33\n%7 = mul f32[10,33] %6 %2\n%8 = sum f32[33] %7 {0}\n"
                                "%9 = sink void %8 {\"outputs\"}\n"},
    {"rows of two kinds, one of them spread",
     "%1 = param f32[9,6,40] 9 6 40 {0 0}\n%2 = param f32[1,6,40] 1 6 40 {1 0}\n%3 = expand f32[9,6,40] %2 9 6 40\n"
     "%4 = sum f32[9,6] %1 {2}\n%5 = rmax f32[9,6] %3 {2}\n%6 = mul f32[9,6] %4 %5\n%7 = reshape f32[9,6,1] %6 9 6 1\n"
     "%8 = expand f32[9,6,40] %7 9 6 40\n%9 = add f32[9,6,40] %1 %8\n%10 = sink void %9 {\"outputs\"}\n"},
    {"one number", "%1 = param f64[1,1] 1 1 {0 0}\n%2 = expand f64[30,7] %1 30 7\n%3 = sum f64[30] %2 {1}\n"
                   "%4 = sum f64 %2 {0 1}\n%5 = sink void %3 %4 {\"outputs\"}\n"},
    {"functions of what is spread, and of others",
     "%1 = param f32[6,1,1] 6 1 1 {0 0}\n%2 = expand f32[6,5,7] %1 6 5 7\n%3 = tanh f32[6,5,7] %2\n"
     "%4 = param f32[6,5,7] 6 5 7 {1 0}\n%5 = mul f32[6,5,7] %3 %4\n%6 = exp f32[6,5,7] %3\n"
     "%7 = permute f32[7,6,5] %6 {2 0 1}\n%8 = reshape f32[42,5] %7 42 5\n%9 = sum f32[6,5] %5 {2}\n"
     "%10 = sin f32[42,5] %8\n%11 = sink void %5 %9 %10 {\"outputs\"}\n"},
    {"a function of sums of what is spread, which others want, too",
     "%1 = param f32[6,16,1] 6 16 1 {0 0}\n%2 = expand f32[6,16,9] %1 6 16 9\n%3 = mul f32[6,16,9] %2 %2\n"
     "%4 = sum f32[16] %3 {0 2}\n%5 = reshape f32[1,16,1] %4 1 16 1\n%6 = expand f32[6,16,9] %5 6 16 9\n"
     "%7 = div f32[6,16,9] %2 %6\n%8 = exp f32[6,16,9] %7\n%9 = param f32[6,16,9] 6 16 9 {1 0}\n"
     "%10 = mul f32[6,16,9] %9 %8\n%11 = sum f32[16] %10 {0 2}\n%12 = mul f32[6,16,9] %9 %7\n"
     "%13 = sum f32[16] %12 {0 2}\n%14 = sink void %8 %11 %13 {\"outputs\"}\n"},
};

static void as_the_graph_says(void **state) {
  (void)state;
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
    for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
      for (int mode = TN_MODE_DEFAULT; mode <= TN_MODE_STRICT; mode++) {
        char why[512];
        graph g;
        tn_ctx *c = tn_ctx_open(
            &(tn_options){.device = devices[d], .mode = (tn_mode)mode, .quiet = 1, .verify = "strict"});
        assert_non_null(c);
        if (!graph_parse(c, graphs[i].text, 1, true, &g)) fail_msg("%s: %s", graphs[i].name, tn_last_error(c)->text);
        if (!graph_agrees_always(c, &g, why, sizeof why)) fail_msg("%s, %s: %s", graphs[i].name, devices[d], why);
        graph_free(c, &g);
        tn_ctx_close(c);
      }
}

/* The kernels that reduce, of softmax of rows that are all the same, of a number that may be known or not */
static void reduced_once(tn_ctx *c, tn_dim rows) {
  tn_program *p = tn_program_begin(c);
  tn_tensor *row = tn_program_input(p, "x", TN_F32, (tn_dim[]){1, 67}, 2), *odd;
  tn_tensor *x = tn_expand(row, (tn_dim[]){rows, 67}, 2);
  odd = tn_program_input(p, "y", TN_F32, (tn_dim[]){rows, 67}, 2);
  assert_int_equal(tn_program_output(p, "z", tn_mul(tn_softmax(x, 1), odd)), TN_OK);
  assert_int_equal(tn_program_end(p), TN_OK);
  char *text = tn_program_explain_string(p);
  assert_non_null(text);
  char *schedule = strstr(text, "# schedule"), *end = strstr(schedule, "# kernels"),
       *call = strstr(schedule, " = call ");
  assert_true(call && end && call < end);
  *call = 0; /* what the first kernel does */
  if (!strstr(schedule, " = reduce ")) fail_msg("it does not reduce:\n%s", schedule);
  static const char of_row[] = " = range index 67 "; /* elements that are stored once, to be spread */
  for (const char *loop = schedule; (loop = strstr(loop, "{loop ")); loop++)
    if (strncmp(loop - strlen(of_row), of_row, strlen(of_row))) fail_msg("it goes through all rows:\n%s", schedule);
  tn_string_free(text);
}

static void once(void **state) {
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d], .quiet = 1});
    assert_non_null(c);
    reduced_once(c, 5003);
    reduced_once(c, tn_dim_var(c, "N", 0, 5000));
    tn_ctx_close(c);
  }
}

static int count_in(const char *text, const char *end, const char *what) {
  int n = 0;
  for (const char *at = text; (at = strstr(at, what)) && at < end; at++) n++;
  return n;
}

/* What takes long is worked out of one row and stored, not again in each: what goes through all rows loads it.  What
 * takes no longer than that is worked out in each. */
static void functions_of_a_row(void **state) {
  (void)state;
  for (int dear = 0; dear < 2; dear++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_program *p = tn_program_begin(c);
    tn_tensor *row = tn_program_input(p, "x", TN_F32, (tn_dim[]){1, 67}, 2),
              *odd = tn_program_input(p, "y", TN_F32, (tn_dim[]){500000, 67}, 2),
              *x = tn_expand(row, (tn_dim[]){500000, 67}, 2);
    x = dear ? tn_softmax(x, 1) : tn_abs(tn_neg(x));
    assert_int_equal(tn_program_output(p, "z", tn_mul(x, odd)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    assert_non_null(text);
    char *schedule = strstr(text, "# schedule"), *end = strstr(schedule, "# kernels"),
         *call = strstr(schedule, " = call ");
    assert_true(call && end && call < end);
    if (count_in(schedule, end, " = call ") != 1 + dear || (dear && count_in(call, end, " = div ")))
      fail_msg("each row is worked out:\n%s", schedule);
    tn_string_free(text);
    tn_ctx_close(c);
  }
}

/* Sums that a function of what is spread hangs on, and something else, too, are found once. */
static void sums_once(void **state) {
  (void)state;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  char *text = tn_explain_text_string(c, graphs[sizeof graphs / sizeof *graphs - 1].text);
  assert_non_null(text);
  char *schedule = strstr(text, "# schedule"), *end = strstr(schedule, "# kernels");
  if (count_in(schedule, end, " = reduce ") != 3) fail_msg("not three sums:\n%s", schedule);
  tn_string_free(text);
  tn_ctx_close(c);
}

/* Groups go through rows of one kind: what is the same for many of these has a kernel of its own. */
static void rows_of_two_kinds(void **state) {
  (void)state;
  for (int swapped = 0; swapped < 2; swapped++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
    assert_non_null(c);
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){32, 64, 512}, 3),
              *q = tn_program_input(p, "q", TN_F32, (tn_dim[]){1, 64, 512}, 3),
              *same = tn_softmax(tn_expand(q, (tn_dim[]){32, 64, 512}, 3), 2), *own = tn_softmax(x, 2);
    assert_int_equal(tn_program_output(p, "y", swapped ? tn_mul(same, own) : tn_mul(own, same)), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    tn_program_info info;
    assert_int_equal(tn_program_get_info(p, &info), TN_OK);
    assert_int_equal(info.kernels, 2);
    tn_ctx_close(c);
  }
}

/* None, one and several of them */
static void rows_of_any_number(void **state) {
  (void)state;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d], .quiet = 1, .verify = "strict"});
    assert_non_null(c);
    tn_scope(c) {
      float x[9], got[5 * 9], z[5 * 9] = {0};
      for (int i = 0; i < 9; i++) x[i] = (float)(i - 4);
      tn_program *p = tn_program_begin(c);
      tn_dim n = tn_dim_var(c, "N", 0, 5);
      tn_tensor *row = tn_program_input(p, "x", TN_F32, (tn_dim[]){1, 9}, 2),
                *others = tn_program_input(p, "z", TN_F32, (tn_dim[]){n, 9}, 2),
                *all = tn_expand(row, (tn_dim[]){n, 9}, 2), *least = tn_min(all, (int[]){1}, 1, true);
      assert_int_equal(tn_program_output(p, "y", tn_add(others, tn_sub(all, least))), TN_OK);
      assert_int_equal(tn_program_end(p), TN_OK);
      assert_int_equal(tn_program_write(p, "x", (tn_dim[]){1, 9}, 2, x, sizeof x), TN_OK);
      for (tn_dim rows = 0; rows <= 5; rows += rows ? 4 : 1) {
        assert_int_equal(tn_program_write(p, "z", (tn_dim[]){rows, 9}, 2, z, (size_t)rows * sizeof x), TN_OK);
        assert_int_equal(tn_program_run(p), TN_OK);
        assert_int_equal(tn_program_read(p, "y", got, (size_t)rows * sizeof x), TN_OK);
        for (int i = 0; i < 9 * (int)rows; i++) assert_true(got[i] == x[i % 9] + 4);
      }
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_the_graph_says), cmocka_unit_test(once),
                                     cmocka_unit_test(functions_of_a_row), cmocka_unit_test(sums_once),
                                     cmocka_unit_test(rows_of_two_kinds), cmocka_unit_test(rows_of_any_number)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
