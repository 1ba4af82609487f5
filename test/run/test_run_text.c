/* Text written by hand runs: graphs as functions, kernels over buffers, on every device; what is wrong is an error with
 * its line or its param. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define DIMS(...) ((const tn_dim[]){__VA_ARGS__}), (int)(sizeof((const tn_dim[]){__VA_ARGS__}) / sizeof(tn_dim))

static const char *const devices[] = {"cpu", "ref", "ref:sm_90", "ref:opencl"};
enum { DEVICES = sizeof devices / sizeof *devices };

static tn_ctx *open_on(const char *device) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  return c;
}

static const char graph[] = "# let z := x + y; (z * z, sum z)\n"
                            "%1 = param f32[3] 3 {0 0}\n%2 = param f32[3] 3 {1 0}\n%3 = add f32[3] %1 %2\n"
                            "%4 = mul f32[3] %3 %3\n%5 = sum f32 %3 {0}\n%6 = sink void %4 %5 {\"outputs\"}\n";

static void graphs(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *in[] = {tn_from(c, TN_F32, DIMS(3), (float[]){1, 2, 3}), tn_full(c, TN_F32, DIMS(3), 1)}, *out[2], *g;
    float got[3];
    double sum;
    if (tn_run_text(c, graph, 2, in, 2, out) != 2) fail_msg("%s", tn_last_error(c)->text);
    assert_int_equal(tn_read(out[0], got, sizeof got), TN_OK);
    assert_memory_equal(got, ((float[]){4, 9, 16}), sizeof got);
    assert_int_equal(tn_item(out[1], &sum), TN_OK);
    assert_true(sum == 9);
    assert_int_equal(tn_run_text(c, graph, 2, in, 0, NULL), 2); /* how many there are */
    assert_int_equal(tn_run_text(c, graph, 2, in, 1, out), 2);
    assert_int_equal(tn_grad(tn_sum(out[0], NULL, 0, false), 1, &in[1], &g), TN_OK); /* it is a graph like others */
    assert_int_equal(tn_read(g, got, sizeof got), TN_OK);
    assert_memory_equal(got, ((float[]){4, 6, 8}), sizeof got);
    tn_ctx_close(c);
  }
}

/* out[i] = sum over k < 4 of x[4 i + k] w[k]; x beside it, doubled */
static const char kernel[] =
    "%1 = param f32[3] 3 {0 -1}\n%2 = range index 3 {loop 0 output}\n%3 = param f32[12] 12 {2 -1}\n"
    "%4 = mul index %2 4\n%5 = range index 4 {reduce 100 reduction}\n%6 = add index %4 %5\n"
    "%7 = load f32 %3 %6\n%8 = param f32[4] 4 {3 -1}\n%9 = load f32 %8 %5\n"
    "%10 = mul f32 %7 %9\n%11 = reduce f32 %10 %5 {add 1}\n%12 = store void %1 %2 %11 %2\n"
    "%13 = param f32[3] 3 {1 -1}\n%14 = const f32 {2.0}\n%15 = mul f32 %11 %14\n"
    "%16 = store void %13 %2 %15 %2\n%17 = sink void %12 %16 {\"kernel\"}\n";

/* A sum over more loops than a tensor has axes, of terms that are the same along each */
static void many_loops(void **state) {
  enum { LOOPS = 24 };
  char text[4000];
  int n = snprintf(text, sizeof text, "%%1 = param f32[3] 3 {0 -1}\n%%2 = range index 3 {loop 0 output}\n"
                                      "%%3 = param f32[3] 3 {1 -1}\n%%4 = load f32 %%3 %%2\n");
  for (int i = 0; i < LOOPS; i++)
    n += snprintf(text + n, sizeof text - (size_t)n, "%%%d = range index %d {reduce %d reduction}\n", 5 + i,
                  1 + (i % 8 == 0), 1 + i);
  n += snprintf(text + n, sizeof text - (size_t)n, "%%%d = reduce f32 %%4", 5 + LOOPS);
  for (int i = 0; i < LOOPS; i++) n += snprintf(text + n, sizeof text - (size_t)n, " %%%d", 5 + i);
  n += snprintf(text + n, sizeof text - (size_t)n, " {add 1}\n%%%d = store void %%1 %%2 %%%d %%2\n"
                "%%%d = sink void %%%d {\"kernel\"}\n", 6 + LOOPS, 5 + LOOPS, 7 + LOOPS, 6 + LOOPS);
  assert_true((size_t)n < sizeof text);
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *out, *in[] = {NULL, tn_from(c, TN_F32, DIMS(3), (float[]){1, 2, 3})};
    float got[3];
    if (tn_run_text(c, text, 2, in, 1, &out) != 1) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
    assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
    assert_memory_equal(got, ((float[]){8, 16, 24}), sizeof got);
    tn_ctx_close(c);
  }
}

static void kernels(void **state) {
  float x[12], got[3];
  (void)state;
  for (int i = 0; i < 12; i++) x[i] = (float)i;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *out[2], *in[] = {NULL, NULL, tn_from(c, TN_F32, DIMS(3, 4), x),
                                tn_from(c, TN_F32, DIMS(4), (float[]){1, 0, 0, 2})};
    if (tn_run_text(c, kernel, 4, in, 2, out) != 2) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
    assert_int_equal(tn_read(out[0], got, sizeof got), TN_OK);
    assert_memory_equal(got, ((float[]){6, 18, 30}), sizeof got);
    assert_int_equal(tn_read(out[1], got, sizeof got), TN_OK);
    assert_memory_equal(got, ((float[]){12, 36, 60}), sizeof got);
    assert_int_equal(tn_read(in[2], x, sizeof x), TN_OK); /* what is read stays */
    tn_ctx_close(c);
  }
}

/* y[i] = 2 x[n - 1 - i], and that as an instruction in a loop that ends with the buffer */
static void turned_text(int64_t n, char *out, size_t room) {
  long long m = (long long)n;
  snprintf(out, room,
           "%%1 = param f32[%lld] %lld {0 -1}\n%%2 = range index %lld {loop 0 output}\n%%3 = mul index %%2 -1\n"
           "%%4 = add index %%3 %lld\n%%5 = param f32[%lld] %lld {1 -1}\n%%6 = load f32 %%5 %%4\n"
           "%%7 = add f32 %%6 %%6\n%%8 = store void %%1 %%2 %%7 %%2\n%%9 = sink void %%8 {\"kernel\"}\n",
           m, m, m, m - 1, m, m);
}

static void blocks_text(int64_t n, char *out, size_t room) {
  long long m = (long long)n;
  snprintf(out, room,
           "%%1 = param f32[%lld] %lld {0 -1}\n%%2 = param f32[%lld] %lld {1 -1}\n"
           "%%3 = range index %lld {loop 0 output}\n%%4 = mul index %%3 -7\n%%5 = add index %%4 %lld\n"
           "%%6 = min index 7 %%5\n"
           "%%7 = range index %%6 {loop 1 output}\n%%8 = mul index %%3 7\n%%9 = add index %%8 %%7\n"
           "%%10 = mul index %%9 -1\n%%11 = add index %%10 %lld\n%%12 = load f32 %%2 %%11\n%%13 = add f32 %%12 %%12\n"
           "%%14 = store void %%1 %%9 %%13 %%3 %%7\n%%15 = sink void %%14 {\"kernel\"}\n",
           m, m, m, m, (m + 6) / 7, m, m - 1);
}

/* y[i] = x[i] + x[i]; the sum of x beside it, in the same loop */
static void shared_text(int64_t n, char *out, size_t room) {
  long long m = (long long)n;
  snprintf(out, room,
           "%%1 = param f32[%lld] %lld {0 -1}\n%%2 = range index %lld {loop 0 output}\n"
           "%%3 = param f32[%lld] %lld {1 -1}\n%%4 = mul index %%2 -1\n%%5 = add index %%4 %lld\n"
           "%%6 = load f32 %%3 %%5\n%%7 = add f32 %%6 %%6\n%%8 = store void %%1 %%2 %%7 %%2\n"
           "%%9 = param f32[1] 1 {2 -1}\n%%10 = reduce f32 %%6 %%2 {max 1}\n"
           "%%11 = store void %%9 0 %%10\n%%12 = sink void %%8 %%11 {\"kernel\"}\n",
           m, m, m, m, m, m - 1);
}

/* Whatever a device makes of loops, blocks with a short last one or threads: what was shown to stay within before stays
 * within. */
static void any_size(void **state) {
  static const int64_t size[] = {1, 2, 63, 1000, 2049, 5000, 100003};
  static void (*const text_of[])(int64_t, char *, size_t) = {turned_text, blocks_text, shared_text};
  static const char *const compiled[] = {"cpu", "opencl:0"};
  (void)state;
  for (int d = 0; d < 2; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = compiled[d], .quiet = 1});
    if (d && !c) continue; /* there is none */
    assert_non_null(c);
    for (size_t i = 0; i < 3 * sizeof size / sizeof *size; i++) {
      int64_t n = size[i / 3];
      char text[1000];
      float *x = malloc((size_t)n * sizeof *x);
      for (int64_t k = 0; k < n; k++) x[k] = (float)k;
      tn_tensor *in[] = {NULL, tn_from(c, TN_F32, DIMS(n), x)}, *out;
      text_of[i % 3](n, text, sizeof text);
      if (tn_run_text(c, text, 2, in, 1, &out) != 1 + (i % 3 == 2))
        fail_msg("%s: %s\n%s", compiled[d], tn_last_error(c)->text, text);
      assert_int_equal(tn_read(out, x, (size_t)n * sizeof *x), TN_OK);
      for (int64_t k = 0; k < n; k++) assert_true(x[k] == 2 * (float)(n - 1 - k));
      free(x);
    }
    tn_ctx_close(c);
  }
}

/* y[i,j] = x[i,j] sum_j x[i,j], or x[i,j] + 1 and the sums, in the loops that the rows are in; cut into blocks with a
 * short last one, the stores are still apart, for they were. */
static void rows_beside_sums(void **state) {
  static const int64_t columns[] = {1, 5, 33, 1500, 5000};
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    for (size_t i = 0; i < 2 * sizeof columns / sizeof *columns; i++) {
      long long n = columns[i / 2], all = 64 * n;
      bool both = i % 2;
      char text[1500];
      double least, most;
      int at = snprintf(text, sizeof text,
                        "%%1 = param f32[%lld] %lld {0 -1}\n%%2 = range index 64 {loop 0 output}\n"
                        "%%3 = range index %lld {loop 1 output}\n%%4 = mul index %%2 %lld\n%%5 = add index %%4 %%3\n"
                        "%%6 = param f32[%lld] %lld {1 -1}\n%%7 = load f32 %%6 %%5\n%%8 = reduce f32 %%7 %%3 {add 1}\n",
                        all, all, n, n, all, all);
      snprintf(text + at, sizeof text - (size_t)at,
               both ? "%%9 = add f32 %%7 %%7\n%%10 = store void %%1 %%5 %%9 %%2 %%3\n%%11 = param f32[64] 64 {2 -1}\n"
                      "%%12 = store void %%11 %%2 %%8 %%2\n%%13 = sink void %%10 %%12 {\"kernel\"}\n"
                    : "%%9 = mul f32 %%7 %%8\n%%10 = store void %%1 %%5 %%9 %%2 %%3\n"
                      "%%11 = sink void %%10 {\"kernel\"}\n");
      tn_tensor *in[] = {NULL, tn_ones(c, TN_F32, DIMS(all))}, *out[2];
      if (tn_run_text(c, text, 2, in, 2, out) != 1 + both)
        fail_msg("%s: %s\n%s", devices[d], tn_last_error(c)->text, text);
      assert_int_equal(tn_item(tn_min(out[0], NULL, 0, false), &least), TN_OK);
      assert_int_equal(tn_item(tn_max(out[0], NULL, 0, false), &most), TN_OK);
      assert_true(least == (both ? 2 : (double)n) && most == least);
      if (both) assert_int_equal(tn_item(tn_min(out[1], NULL, 0, false), &least), TN_OK);
      assert_true(least == (double)n);
    }
    tn_ctx_close(c);
  }
}

#define AT(index) "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 4 {loop 0 output}\n%4 = " index \
                  "\n%5 = store void %1 %4 %2 %3\n%6 = sink void %5 {\"kernel\"}\n"

/* ... of the indices 0, 3, ..., 21 */
#define GATED_AT(gate) \
  "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 8 {loop 0 output}\n%4 = mul index %3 3\n%5 = " \
  gate "\n%6 = store void %1 %4 %2 %5 %3\n%7 = sink void %6 {\"kernel\"}\n"

/* b0[i] = b0[index] + 1 */
#define ON_ITSELF(index) \
  "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 8 {loop 0 output}\n%4 = " index \
  "\n%5 = load f32 %1 %4\n%6 = add f32 %5 %2\n%7 = store void %1 %3 %6 %3\n%8 = sink void %7 {\"kernel\"}\n"

/* b0[i] = 1, b1[i] = b0[i] */
#define STORED_AND_LOADED \
  "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 8 {loop 0 output}\n" \
  "%4 = store void %1 %3 %2 %3\n%5 = load f32 %1 %3\n%6 = param f32[8] 8 {1 -1}\n" \
  "%7 = store void %6 %3 %5 %3\n%8 = sink void %4 %7 {\"kernel\"}\n"

/* b0[2 i] = 1 and b0[index] = 2, i < 4 */
#define STORED_TWICE(index) \
  "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 4 {loop 0 output}\n%4 = mul index %3 2\n" \
  "%5 = store void %1 %4 %2 %3\n%6 = const f32 {2.0}\n%7 = " index "\n%8 = store void %1 %7 %6 %3\n" \
  "%9 = sink void %5 %8 {\"kernel\"}\n"

/* b0[i] = value of what was there, x = b0[i]; the rest of the lines, and what the sink has beside it */
#define IN_PLACE(value, rest, more)                                                                                    \
  "%1 = param f32[8] 8 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = load f32 %1 %2\n%4 = const f32 {1.0}\n"      \
  "%5 = " value "\n%6 = store void %1 %2 %5 %2\n" rest "%99 = sink void %6" more " {\"kernel\"}\n"

/* b0[i] = b1[i + 20000] in the turns of an inner loop of that many */
#define EMPTY(turns)                                                                                                   \
  "%1 = param f32[8] 8 {0 -1}\n%3 = range index 8 {loop 0 output}\n%5 = param f32[8] 8 {1 -1}\n"                     \
  "%6 = add index %3 20000\n%7 = load f32 %5 %6\n%8 = mul index %3 0\n%9 = range index " turns                      \
  " {loop 1 output}\n"                                                                                                 \
  "%10 = store void %1 %3 %7 %3 %9\n%11 = sink void %10 {\"kernel\"}\n"

/* A buffer that is written in part keeps the rest of what it was given. */
static void in_part(void **state) {
  float got[8];
  (void)state;
  tn_ctx *c = open_on("cpu");
  tn_tensor *seven = tn_full(c, TN_F32, DIMS(8), 7), *out;
  const char *text = AT("mul index %3 2");
  assert_int_equal(tn_run_text(c, text, 1, &seven, 1, &out), 1);
  assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){1, 7, 1, 7, 1, 7, 1, 7}), sizeof got);
  assert_int_equal(tn_run_text(c, text, 0, NULL, 1, &out), 1);
  assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){1, 0, 1, 0, 1, 0, 1, 0}), sizeof got);
  assert_int_equal(tn_run_text(c, ON_ITSELF("add index %3 0"), 1, &seven, 1, &out), 1);
  assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){8, 8, 8, 8, 8, 8, 8, 8}), sizeof got);
  for (int i = 0; i < 2; i++) { /* a loop of no turns: nothing is loaded, wherever that would be */
    tn_tensor *both[] = {seven, seven};
    if (tn_run_text(c, i ? EMPTY("%8") : EMPTY("0"), 2, both, 1, &out) != 1) fail_msg("%s", tn_last_error(c)->text);
    assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
    assert_memory_equal(got, ((float[]){7, 7, 7, 7, 7, 7, 7, 7}), sizeof got);
  }
  assert_int_equal(tn_run_text(c, STORED_TWICE("add index %4 1"), 0, NULL, 1, &out), 1);
  assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){1, 2, 1, 2, 1, 2, 1, 2}), sizeof got);
  assert_int_equal(tn_run_text(c, GATED_AT("lt bool %4 8"), 0, NULL, 1, &out), 1);
  assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
  assert_memory_equal(got, ((float[]){1, 0, 0, 1, 0, 0, 1, 0}), sizeof got);
  tn_ctx_close(c);
}

/* y[i] = x[i] where x[i] < 0, and where i < 290; bins[cell[i]] += x[i] where the cell is one of them */
static const char gated[] =
    "%1 = param f32[301] 301 {0 -1}\n%2 = range index 301 {loop 0 output}\n%3 = param f32[301] 301 {2 -1}\n"
    "%4 = load f32 %3 %2\n%5 = const f32 {0}\n%6 = lt bool %4 %5\n%7 = lt bool %2 290\n%8 = and bool %6 %7\n"
    "%9 = store void %1 %2 %4 %8 %2\n%10 = param f32[10] 10 {1 -1}\n%11 = range index 301 {order 1 update}\n"
    "%12 = param i32[301] 301 {3 -1}\n%13 = load i32 %12 %11\n%14 = cast index %13\n%15 = le bool 0 %14\n"
    "%16 = lt bool %14 10\n%17 = and bool %15 %16\n%18 = load f32 %3 %11\n"
    "%19 = storeadd void %10 %14 %18 %17 %11\n%20 = sink void %9 %19 {\"kernel\"}\n";

static void gates(void **state) {
  float x[301], y[301], bins[10] = {0}, got[301];
  int32_t cell[301];
  (void)state;
  for (int i = 0; i < 301; i++) {
    x[i] = (float)(i % 7 - 3), cell[i] = i % 13 - 1;
    y[i] = x[i] < 0 && i < 290 ? x[i] : 5;
    if (cell[i] >= 0 && cell[i] < 10) bins[cell[i]] += x[i];
  }
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *out[2], *in[] = {tn_full(c, TN_F32, DIMS(301), 5), NULL, tn_from(c, TN_F32, DIMS(301), x),
                                tn_from(c, TN_I32, DIMS(301), cell)};
    if (tn_run_text(c, gated, 4, in, 2, out) != 2) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
    assert_int_equal(tn_read(out[0], got, sizeof got), TN_OK);
    assert_memory_equal(got, y, sizeof y);
    assert_int_equal(tn_read(out[1], got, sizeof bins), TN_OK);
    assert_memory_equal(got, bins, sizeof bins);
    tn_ctx_close(c);
  }
}

#define PROGRAM(lines, order)                                                                                          \
  "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 8 {upcast 0 output}\n" lines                     \
  "%99 = sink void " order " {\"program\"}\n"

/* programs/NAME.txt, with the instructions of `without` left out of the sink */
static char *program(const char *name, const char *const *without) {
  char path[512];
  const char *dir = getenv("TENET_TEST_DATA");
  snprintf(path, sizeof path, "%s/programs/%s.txt", dir ? dir : "test", name);
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, 1 << 16);
  assert_non_null(f);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 16) - 1, f) > 0);
  fclose(f);
  for (; without && *without; without++) {
    char *at = strstr(strstr(text, "sink"), *without);
    assert_non_null(at);
    memmove(at, at + strlen(*without), strlen(at + strlen(*without)) + 1);
  }
  return text;
}

/* Eight groups of four threads, over buffers of 32 elements */
#define GROUPS(lines, order)                                                                                           \
  "%1 = param f32[32] 32 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 8 {global 0 output}\n"                       \
  "%4 = mul index %3 4\n%5 = range index 4 {upcast 1 output}\n%6 = add index %4 %5\n" lines                          \
  "%90 = end void %5\n%91 = end void %3\n%99 = sink void %3 %4 %5 %6 " order " %90 %91 {\"program\"}\n"

/* b0[at] = b0[from] + 1, by the thread's own place %6 or another one */
#define GROUPS_LOAD(from)                                                                                              \
  GROUPS("%7 = " from "\n%8 = load f32 %1 %7\n%9 = add f32 %8 %2\n%10 = store void %1 %6 %9\n", "%7 %8 %9 %10")

/* Thread t of group g by way of local[g + t], which another thread has in the next turn */
#define SKEWED(barrier)                                                                                                \
  "%1 = param f32[32] 32 {0 -1}\n%2 = local f32 16 {0 0}\n%3 = range index 8 {global 0 output}\n"                     \
  "%4 = mul index %3 4\n%5 = range index 4 {upcast 1 output}\n%6 = add index %3 %5\n%7 = add index %4 %5\n"          \
  "%8 = cast f32 %7\n%9 = store void %2 %6 %8\n%10 = end void %5\n%11 = range index 4 {upcast 2 output}\n"          \
  "%12 = add index %3 %11\n%13 = load f32 %2 %12\n%14 = add index %4 %11\n%15 = store void %1 %14 %13\n"            \
  "%16 = end void %11\n%17 = barrier void {0}\n%18 = end void %3\n"                                                  \
  "%19 = sink void %3 %4 %5 %6 %7 %8 %9 %10 %11 %12 %13 %14 %15 %16 " barrier "%18 {\"program\"}\n"

/* b0[i] += 1 by no threads, or by groups of one */
#define ALONE(axis)                                                                                                    \
  "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 8 {" axis " 0 output}\n%4 = load f32 %1 %3\n" \
  "%5 = add f32 %4 %2\n%6 = store void %1 %3 %5\n%7 = end void %3\n%8 = sink void %3 %4 %5 %6 %7 {\"program\"}\n"

/* b0[i] = -b1[i], where i is below what it is below anyhow */
static const char decided[] =
    "%1 = param f32[32] 32 {0 -1}\n%2 = param f32[32] 32 {1 -1}\n%3 = range index 32 {upcast 0 output}\n"
    "%4 = lt bool %3 100\n%5 = load f32 %2 %3 %4\n%6 = lt bool %3 200\n%7 = neg f32 %5\n%8 = where f32 %6 %7 %5\n"
    "%9 = store void %1 %3 %8\n%10 = end void %3\n%11 = sink void %3 %4 %5 %6 %7 %8 %9 %10 {\"program\"}\n";

static void programs(void **state) {
  enum { ROWS = 40, COLS = 24 };
  float x[ROWS * COLS], got[ROWS * COLS], sums[5] = {0};
  char *transpose = program("transpose", NULL), *tree = program("tree_sum", NULL);
  (void)state;
  for (int i = 0; i < ROWS * COLS; i++) x[i] = (float)(i * 7 % 101);
  for (int i = 0; i < 250; i++) sums[i / 50] += x[i];
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *out, *in[] = {NULL, tn_from(c, TN_F32, DIMS(ROWS, COLS), x)};
    if (tn_run_text(c, transpose, 2, in, 1, &out) != 1) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
    assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
    for (int i = 0; i < ROWS * COLS; i++) assert_true(got[i] == x[i % ROWS * COLS + i / ROWS]);
    in[1] = tn_from(c, TN_F32, DIMS(250), x);
    if (tn_run_text(c, tree, 2, in, 1, &out) != 1) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
    assert_int_equal(tn_read(out, got, sizeof sums), TN_OK);
    assert_memory_equal(got, sums, sizeof sums);
    tn_tensor *first = tn_from(c, TN_F32, DIMS(32), x); /* each thread its own place */
    if (tn_run_text(c, GROUPS_LOAD("add index %6 0"), 1, &first, 1, &out) != 1) fail_msg("%s", tn_last_error(c)->text);
    assert_int_equal(tn_read(out, got, 32 * sizeof *got), TN_OK);
    for (int i = 0; i < 32; i++) assert_true(got[i] == x[i] + 1);
    if (tn_run_text(c, SKEWED("%17 "), 0, NULL, 1, &out) != 1) fail_msg("%s", tn_last_error(c)->text);
    assert_int_equal(tn_read(out, got, 32 * sizeof *got), TN_OK);
    for (int i = 0; i < 32; i++) assert_true(got[i] == (float)i);
    tn_tensor *both[] = {NULL, tn_from(c, TN_F32, DIMS(32), x)};
    if (tn_run_text(c, decided, 2, both, 1, &out) != 1) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
    assert_int_equal(tn_read(out, got, 32 * sizeof *got), TN_OK);
    for (int i = 0; i < 32; i++) assert_true(got[i] == -x[i]);
    for (int i = 0; i < 2; i++) {
      first = tn_from(c, TN_F32, DIMS(8), x);
      if (tn_run_text(c, i ? ALONE("global") : ALONE("loop"), 1, &first, 1, &out) != 1)
        fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
      assert_int_equal(tn_read(out, got, 8 * sizeof *got), TN_OK);
      for (int k = 0; k < 8; k++) assert_true(got[k] == x[k] + 1);
    }
    char *text = tn_explain_text_string(c, transpose);
    if (!text || !strstr(text, "k0")) fail_msg("%s: %s", devices[d], text ? text : tn_last_error(c)->text);
    tn_string_free(text);
    tn_ctx_close(c);
  }
  free(transpose);
  free(tree);
}

/* Threads that may meet because a barrier is missing are refused before the program runs. */
static void lost_barriers(void **state) {
  static const struct {
    const char *program, *without[4];
    int size;
  } lost[] = {{"tree_sum", {"%13 "}, 250},
              {"tree_sum", {"%24 "}, 250},
              {"tree_sum", {"%28 "}, 250},
              {"tree_sum", {"%13 ", "%24 ", "%28 "}, 250},
              {"transpose", {"%19 "}, 960},
              {"transpose", {"%32 "}, 960}};
  const char *within = PROGRAM("%4 = local f32 8 {0 0}\n%5 = param f32[8] 8 {1 -1}\n%6 = load f32 %5 %3\n"
                               "%7 = store void %4 %3 %6\n%8 = mul index %3 -1\n%9 = add index %8 7\n"
                               "%10 = load f32 %4 %9\n%11 = store void %1 %3 %10\n%12 = end void %3\n",
                               "%3 %6 %7 %8 %9 %10 %11 %12"); /* a thread loads what another one stores */
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *out, *in[] = {NULL, tn_ones(c, TN_F32, DIMS(8))};
    assert_int_equal(tn_run_text(c, within, 2, in, 1, &out), -1);
    assert_non_null(strstr(tn_last_error(c)->text, "by threads that may meet in local0"));
    tn_ctx_close(c);
  }
  for (int d = 0; d < DEVICES; d++) /* also where they are lanes, one loop after the other */
    for (size_t i = 0; i < sizeof lost / sizeof *lost; i++) {
      tn_ctx *c = open_on(devices[d]);
      tn_tensor *out, *in[] = {NULL, tn_ones(c, TN_F32, DIMS(lost[i].size))};
      char *whole = program(lost[i].program, NULL), *less = program(lost[i].program, lost[i].without);
      if (tn_run_text(c, whole, 2, in, 1, &out) != 1) fail_msg("%s", tn_last_error(c)->text);
      assert_int_equal(tn_run_text(c, less, 2, in, 1, &out), -1);
      if (!strstr(tn_last_error(c)->text, "by threads that may meet in local0")) fail_msg("%s", tn_last_error(c)->text);
      free(whole);
      free(less);
      tn_ctx_close(c);
    }
}

/* What a group shares holds nothing at first: the interpreter says so where it looks for races. */
static void empty_memory(void **state) {
  const char *added = PROGRAM("%4 = local f32 16 {0 0}\n%5 = storeadd void %4 %3 %2\n%6 = end void %3\n"
                              "%7 = barrier void {0}\n%8 = range index 8 {upcast 1 output}\n%9 = load f32 %4 %8\n"
                              "%10 = store void %1 %8 %9\n%11 = end void %8\n", "%3 %5 %6 %7 %8 %9 %10 %11");
  const char *text = PROGRAM("%4 = local f32 16 {0 0}\n%5 = store void %4 %3 %2\n%6 = end void %3\n"
                             "%7 = barrier void {0}\n%8 = range index 8 {upcast 1 output}\n%9 = add index %8 1\n"
                             "%10 = load f32 %4 %9\n%11 = store void %1 %8 %10\n%12 = end void %8\n",
                             "%3 %5 %6 %7 %8 %9 %10 %11 %12");
  const char *before = getenv("TENET_RACES");
  (void)state;
  for (int d = 1; d < DEVICES; d++) {
    setenv("TENET_RACES", "1", true);
    tn_ctx *c = open_on(devices[d]);
    if (before) setenv("TENET_RACES", before, true);
    else unsetenv("TENET_RACES");
    tn_tensor *out;
    if (tn_run_text(c, text, 0, NULL, 1, &out) != -1) fail_msg("%s runs it", devices[d]);
    if (!strstr(tn_last_error(c)->text, "nothing was stored to f32 local0[8]: instruction 6, a load by"))
      fail_msg("%s", tn_last_error(c)->text);
    tn_clear_error(c);
    if (tn_run_text(c, added, 0, NULL, 1, &out) != -1) fail_msg("%s runs it", devices[d]);
    assert_non_null(strstr(tn_last_error(c)->text, "nothing was stored to f32 local0["));
    tn_ctx_close(c);
  }
}

/* A nest of loops, within them threads that store to shared memory, wait, and load what another one stored. */
static char *nested(int loops, bool waits) {
  char *text = calloc(1, 1 << 16), *at = text;
  assert_non_null(text);
  at += sprintf(at, "%%1 = param f32[8] 8 {0 -1}\n%%2 = const f32 {3.0}\n%%3 = local f32 8 {0 0}\n"
                "%%4 = range index 8 {upcast 900 output}\n%%5 = range index 8 {upcast 901 output}\n"
                "%%6 = store void %%3 %%4 %%2\n%%7 = end void %%4\n%%8 = barrier void {0}\n%%9 = mul index %%5 -1\n"
                "%%10 = add index %%9 7\n%%11 = load f32 %%3 %%10\n%%12 = store void %%1 %%5 %%11\n"
                "%%13 = end void %%5\n%%14 = barrier void {1}\n");
  for (int i = 0; i < loops; i++)
    at += sprintf(at, "%%%d = range index 2 {loop %d output}\n%%%d = end void %%%d\n", 20 + i, i, 500 + i, 20 + i);
  at += sprintf(at, "%%999 = sink void");
  for (int i = 0; i < loops; i++) at += sprintf(at, " %%%d", 20 + i);
  at += sprintf(at, " %%4 %%6 %%7 %%8 %%5 %%9 %%10 %%11 %%12 %%13%s", waits ? " %14" : "");
  for (int i = loops; i-- > 0;) at += sprintf(at, " %%%d", 500 + i);
  sprintf(at, " {\"program\"}\n");
  return text;
}

/* What checking barriers takes does not double with each loop around them. */
static void nests(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *out;
    for (int deep = 0; deep < 2; deep++) {
      char *text = nested(deep ? 60 : 8, !deep);
      int n = tn_run_text(c, text, 0, NULL, 1, &out);
      if (n != (deep ? -1 : 1)) fail_msg("%s: %d loops: %s", devices[d], deep ? 60 : 8, tn_last_error(c)->text);
      assert_true(!deep || strstr(tn_last_error(c)->text, "by threads that may meet in local0"));
      free(text);
    }
    tn_ctx_close(c);
  }
}

/* A kernel of `loops` loops of two turns, or of one, and of so many stores */
static char *grown(int loops, int stores) {
  char *text = calloc(1, 1 << 16), *at = text;
  assert_non_null(text);
  at += sprintf(at, "%%1 = param f32[512] 512 {0 -1}\n%%2 = const f32 {3.0}\n");
  for (int i = 0; i < loops; i++)
    at += sprintf(at, "%%%d = range index %d {loop %d output}\n", 3 + i, i < 2 ? 2 : 1, i);
  at += sprintf(at, "%%400 = mul index %%3 256\n%%401 = add index %%400 %%4\n");
  for (int k = 0; k < stores; k++) {
    at += sprintf(at, "%%%d = add index %%401 %d\n", 500 + k, 2 * k);
    at += sprintf(at, "%%%d = store void %%1 %%%d %%2", 200 + k, 500 + k);
    for (int i = 0; i < loops; i++) at += sprintf(at, " %%%d", 3 + i);
    at += sprintf(at, "\n");
  }
  at += sprintf(at, "%%999 = sink void");
  for (int k = 0; k < stores; k++) at += sprintf(at, " %%%d", 200 + k);
  sprintf(at, " {\"kernel\"}\n");
  return text;
}

/* Programs are run as they are written: lowering's sets of loops do not bound them. */
static void loops_of_programs(void **state) {
  enum { LOOPS = 200 };
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    char *text = calloc(1, 1 << 16), *at = text;
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *out, *in[] = {NULL};
    float v[4];
    at += sprintf(at, "%%1 = param f32[4] 4 {0 -1}\n%%2 = const f32 {3.0}\n");
    for (int i = 0; i < LOOPS; i++)
      at += sprintf(at, "%%%d = range index %d {loop %d output}\n", 3 + i, i < 2 ? 2 : 1, i);
    at += sprintf(at, "%%500 = mul index %%3 2\n%%501 = add index %%500 %%4\n%%502 = store void %%1 %%501 %%2\n");
    for (int i = LOOPS; i-- > 0;) at += sprintf(at, "%%%d = end void %%%d\n", 800 - i, 3 + i);
    at += sprintf(at, "%%1000 = sink void");
    for (int i = 0; i < LOOPS; i++) at += sprintf(at, " %%%d", 3 + i);
    at += sprintf(at, " %%500 %%501 %%502");
    for (int i = LOOPS; i-- > 0;) at += sprintf(at, " %%%d", 800 - i);
    sprintf(at, " {\"program\"}\n");
    if (tn_run_text(c, text, 1, in, 1, &out) != 1) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
    assert_int_equal(tn_read(out, v, sizeof v), TN_OK);
    for (int i = 0; i < 4; i++) assert_true(v[i] == 3);
    tn_ctx_close(c);
    free(text);
  }
}

/* As many loops as lowering takes, and more; many stores; a loop that is closed twice */
static void many(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *out;
    float got[512];
    char *text[] = {grown(60, 1), grown(70, 1), grown(2, 100)};
    for (int i = 0; i < 3; i++) {
      int n = tn_run_text(c, text[i], 0, NULL, 1, &out);
      if (n != (i == 1 ? -1 : 1)) fail_msg("%s, text %d: %s", devices[d], i, tn_last_error(c)->text);
      if (n < 0) {
        assert_non_null(strstr(tn_last_error(c)->text, "a kernel with more than 64 loops"));
        tn_clear_error(c);
        continue;
      }
      assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
      assert_true(got[0] == 3 && got[1] == 3 && got[256] == 3 && got[257] == 3 && got[511] == 0);
      for (int k = 0; k < 2 * 100; k++) assert_true(i == 0 || (got[k] == 3 && got[256 + k] == 3));
    }
    for (int i = 0; i < 3; i++) free(text[i]);
    const char *twice = "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 8 {loop 0 output}\n"
                        "%4 = store void %1 %3 %2 %3 %3\n%5 = sink void %4 {\"kernel\"}\n";
    assert_int_equal(tn_run_text(c, twice, 0, NULL, 1, &out), -1);
    assert_non_null(strstr(tn_last_error(c)->text, "it closes a loop twice"));
    tn_ctx_close(c);
  }
}

/* y[0] += the elements of x, by an accumulator that is set by one op and read by another */
#define SUMMED(operand, set, get)                                                                                      \
  PROGRAM("%4 = param f32[8] 8 {1 -1}\n%5 = range index 8 {loop 1 reduction}\n%6 = acc f32 %2 {0 1 1}\n"              \
          "%7 = load f32 %4 %5\n%8 = setacc void %6 " operand " {" set "}\n%9 = end void %5\n"                        \
          "%10 = getacc f32 %6 %9 {" get "}\n%11 = store void %1 0 %10\n", "%6 %5 %7 %8 %9 %10 %11")

/* b0[i] = x[i], as they are */
#define STORED(to, from, loops)                                                                                        \
  "%1 = param " to "[8] 8 {0 -1}\n%2 = range index " loops " {loop 0 output}\n%3 = param " from "[8] 8 {1 -1}\n"      \
  "%4 = load " from " %3 %2\n%5 = store void %1 %2 %4 %2\n%6 = sink void %5 {\"kernel\"}\n"

/* ... and their sums over two halves */
#define REDUCED(op)                                                                                                    \
  "%1 = param f32[2] 2 {0 -1}\n%2 = range index 2 {loop 0 output}\n%3 = mul index %2 4\n"                             \
  "%4 = range index 4 {reduce 1 reduction}\n%5 = add index %3 %4\n%6 = param f32[8] 8 {1 -1}\n%7 = load f32 %6 %5\n" \
  "%8 = reduce f32 %7 %4 {" op " 1}\n%9 = store void %1 %2 %8 %2\n%10 = sink void %9 {\"kernel\"}\n"

/* y[0] = what is loaded before and after another value is stored there: written twice, it is one node */
#define LOADED_AGAIN(from)                                                                                             \
  "%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {50.0}\n%3 = local f32 8 {0 0}\n%4 = range index 8 {upcast 0 output}\n" \
  "%5 = store void " from " %4 %2\n%6 = end void %4\n%7 = barrier void {0}\n%8 = load f32 " from " 0\n"              \
  "%9 = barrier void {1}\n%10 = range index 8 {upcast 1 output}\n%11 = add f32 %2 %2\n"                               \
  "%12 = store void " from " %10 %11\n%13 = end void %10\n%14 = barrier void {2}\n%15 = load f32 " from " 0\n"       \
  "%16 = add f32 %8 %15\n%17 = store void %1 0 %16\n%18 = sink void %4 %5 %6 %7 %8 %9 %10 %11 %12 %13 %14 %15 %16 "    \
  "%17 {\"program\"}\n"

static void refused(void **state) {
  (void)state;
  tn_ctx *c = open_on("cpu"), *ref = open_on("ref");
  tn_tensor *x = tn_ones(c, TN_F32, DIMS(3)), *x8 = tn_ones(c, TN_F32, DIMS(8)), *out;
  const struct {
    const char *text, *why;
    tn_tensor *in[2];
    tn_status status;
  } bad[] = {
      {graph, "param 0, f32[3], was given no value", {NULL, x}, TN_EINVAL},
      {graph, "param 1 is f32[3], and was given f32[4]", {x, tn_ones(c, TN_F32, DIMS(4))}, TN_ESHAPE},
      {graph, "param 1 is f32[3], and was given f32[3,1]", {x, tn_ones(c, TN_F32, DIMS(3, 1))}, TN_ESHAPE},
      {graph, "param 0 is f32[3], and was given i32[3]", {tn_ones(c, TN_I32, DIMS(3)), x}, TN_EDTYPE},
      {"%1 = storage f32[3] 3 {0 0}\n", "line 1: a storage has no value here", {NULL}, TN_EFORMAT},
      {"nothing", "line 1", {NULL}, TN_EFORMAT},
      {AT("mul index %3 3"), "line 6: 1 of 1 accesses cannot be shown to stay within", {NULL}, TN_EFORMAT},
      {AT("idiv index %3 2"), "0 and 1 store to one place, element 0 of b0",
       {NULL}, TN_EFORMAT},
      {ON_ITSELF("mod index %3 7"), "buffer 0 is loaded, f32[8], where something else may have stored to it", {x8},
       TN_EFORMAT},
      {STORED_AND_LOADED, "buffer 0 is loaded, f32[8], where something else may have stored to it", {x8},
       TN_EFORMAT},
      {STORED_TWICE("add index %3 0"), "two stores may go to the same element of buffer 0, f32[8]", {NULL},
       TN_EFORMAT},
      {STORED_TWICE("add index %3 1"), "two stores may go to the same element of buffer 0, f32[8]", {NULL},
       TN_EFORMAT},
      {IN_PLACE("reduce f32 %3 %2 {add 1}", "", ""), "buffer 0 is loaded, f32[8], where something else may have", {x8},
       TN_EFORMAT}, /* the sum's turns are not the store's */
      {IN_PLACE("add f32 %3 %4", "%7 = param f32[8] 8 {1 -1}\n%8 = mul f32 %3 %3\n%9 = store void %7 %2 %8 %2\n",
                " %9"), "buffer 0 is loaded, f32[8], where something else may have", {x8}, TN_EFORMAT},
      {IN_PLACE("add f32 %3 %4",
                "%7 = param f32[1] 1 {1 -1}\n%8 = reduce f32 %3 %2 {add 1}\n%9 = store void %7 0 %8\n", " %9"),
       "buffer 0 is loaded, f32[8], where something else may have", {x8}, TN_EFORMAT},
      {"%1 = param f32[8] 8 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = range index 4 {order 1 output}\n"
       "%4 = load f32 %1 %2\n%5 = const f32 {1.0}\n%6 = add f32 %4 %5\n%7 = store void %1 %2 %6 %2 %3\n"
       "%8 = sink void %7 {\"kernel\"}\n", "buffer 0 is loaded, f32[8], where something else may have", {x8},
       TN_EFORMAT}, /* as often as the order says, or once */
      {"%1 = param f32[8] 8 {0 -1}\n%2 = const f32 {1.0}\n%3 = range index 8 {loop 0 output}\n"
       "%4 = store void %1 %3 %2 %3\n%5 = const f32 {2.0}\n%6 = store void %1 3 %5\n"
       "%7 = sink void %4 %6 {\"kernel\"}\n",
       "two stores may go to the same element of buffer 0, f32[8]", {NULL}, TN_EFORMAT},
      {SKEWED(""), "by threads that may meet in local0", {NULL}, TN_EFORMAT},
      {"%1 = param f32[16] 16 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = cast f32 %2\n"
       "%4 = range index 4 {upcast 1 output}\n%5 = add index %2 %4\n%6 = store void %1 %5 %3\n%7 = end void %4\n"
       "%8 = barrier void {0}\n%9 = end void %2\n%10 = sink void %2 %3 %4 %5 %6 %7 %8 %9 {\"program\"}\n",
       "lanes 1 and 0 store to one place, element 1 of b0", {NULL}, TN_EFORMAT}, /* barriers order no buffers */
      {AT("add index %3 -1"), "cannot be shown to stay within", {NULL}, TN_EFORMAT},
      {GATED_AT("le bool %4 9"), "cannot be shown to stay within", {NULL}, TN_EFORMAT},
      {GATED_AT("lt bool %4 10"), "cannot be shown to stay within", {NULL}, TN_EFORMAT},
      {GATED_AT("lt bool -1 %4"), "cannot be shown to stay within", {NULL}, TN_EFORMAT},
      {PROGRAM("%4 = store void %1 %3 %2\n%5 = end void %3\n", "%3 %4"), "it is never closed", {NULL}, TN_EFORMAT},
      {PROGRAM("%4 = store void %1 %3 %2\n%5 = end void %3\n", "%4 %3 %5"), "does not come before it", {NULL},
       TN_EFORMAT},
      {PROGRAM("%4 = store void %1 0 %2\n%5 = end void %3\n", "%3 %4 %5"), "lanes may store to one place", {NULL},
       TN_EFORMAT},
      {PROGRAM("%4 = barrier void {0}\n%5 = end void %3\n", "%3 %4 %5"), "between threads' loops", {NULL}, TN_EFORMAT},
      {PROGRAM("%4 = end void %3\n", "%3 %4"), "stores nothing", {NULL}, TN_EFORMAT},
      {"%1 = param f32[1] 1 {0 -1}\n%2 = const f32 {0.0}\n%3 = acc f32 %2 {0 1 1}\n"
       "%4 = range index 8 {global 0 output}\n%5 = const f32 {1.0}\n"
       "%6 = setacc void %3 %5 {add}\n%7 = end void %4\n%8 = getacc f32 %3 %7 {add}\n"
       "%9 = store void %1 0 %8\n%10 = sink void %3 %4 %6 %7 %8 %9 {\"program\"}\n",
       "beside the groups' loop there is no other loop, store, accumulator or barrier", {NULL}, TN_EFORMAT},
      {PROGRAM("%4 = local f32 8 {1 0}\n%5 = store void %4 %3 %2\n%6 = end void %3\n", "%3 %5 %6"),
       "locals are numbered from 0", {NULL}, TN_EFORMAT},
      {PROGRAM("%4 = range index 2 {loop 1 output}\n%5 = store void %1 %3 %2\n%6 = end void %4\n%7 = end void %3\n",
               "%3 %4 %5 %6 %7"), "threads' loops hold no loops", {NULL}, TN_EFORMAT},
      {PROGRAM("%4 = acc f32 %2 {0 32 1}\n%5 = store void %1 %3 %4\n%6 = end void %3\n", "%4 %3 %5 %6"), "one cell",
       {NULL}, TN_EFORMAT},
      {AT("mul index %3 2"), "param 0 is f32[8], and was given f32[3]", {x}, TN_ESHAPE},
      {SUMMED("%7", "add", "mul"), "no program: getacc in a linear graph: its accumulator combines otherwise",
       {NULL, x8}, TN_EFORMAT},
      {SUMMED("%7", "exp", "exp"), "no program: setacc in a linear graph: it cannot combine so", {NULL, x8},
       TN_EFORMAT},
      {SUMMED("%5", "max", "max"), "the operand is of another dtype than the accumulator (void of acc f32, range",
       {NULL, x8}, TN_EFORMAT},
      {REDUCED("require"), "line 10: no kernel: reduce in a kernel graph: it cannot combine so (f32 of load f32, range",
       {NULL, x8}, TN_EFORMAT},
      {STORED("f64", "f32", "8"), "what is stored is of another dtype than the buffer", {NULL, x8}, TN_EFORMAT},
      {STORED("i32", "f32", "8"), "what is stored is of another dtype than the buffer", {NULL, x8}, TN_EFORMAT},
      {LOADED_AGAIN("%3"), "line 8: instruction 12, load: instruction 5 is the same already", {NULL}, TN_EFORMAT},
      {LOADED_AGAIN("%1"), "line 8: instruction 12, load: instruction 5 is the same already", {NULL}, TN_EFORMAT},
      {PROGRAM("%4 = range index 2 {loop 1 output}\n%5 = mul index %4 4\n%6 = store void %1 %5 %2\n"
               "%7 = mul index %4 4\n%8 = add index %7 %3\n%9 = store void %1 %8 %2\n%10 = end void %3\n"
               "%11 = end void %4\n", "%4 %5 %6 %3 %7 %8 %9 %10 %11"),
       "instruction 5, mul: instruction 2 is the same already", {NULL}, TN_EFORMAT},
      {GROUPS_LOAD("add index %4 0"), "nothing orders instruction 5, a load, and instruction 7, a store, by threads",
       {NULL}, TN_EFORMAT},
      {GROUPS_LOAD("mul index %5 1"), "nothing orders instruction 5, a load, and instruction 7, a store, by groups",
       {NULL}, TN_EFORMAT},
      {"%1 = param f32[3] 3 {0 -1}\n%2 = range index 3 {loop 7 output}\n%3 = param f32[3] 3 {1 -1}\n"
       "%4 = load f32 %3 %2\n%5 = store void %1 %2 %4\n%6 = sink void %5 {\"kernel\"}\n",
       "line 5: a store runs over loop 7 and does not end it", {NULL, x}, TN_EFORMAT},
      {"%1 = param f32[8] 8 {0 -1}\n%2 = range index 2 {loop 0 output}\n%3 = range index 4 {loop 1 output}\n"
       "%4 = mul index %2 4\n%5 = add index %3 %4\n%6 = const f32 {1.0}\n%7 = store void %1 %5 %6 %3\n"
       "%8 = after f32 %1 %7\n%9 = store void %8 %4 %6 %2\n%10 = sink void %9 {\"kernel\"}\n",
       "line 7: a store runs over loop 0 and does not end it", {NULL}, TN_EFORMAT},
      {"%1 = param f32[3] 3 {0 -1}\n%2 = range index 3 {order 0 update}\n%3 = const f32 {1.0}\n"
       "%4 = storeadd void %1 %2 %3\n%5 = sink void %4 {\"kernel\"}\n",
       "line 4: a storeadd runs over loop 0 and does not end it", {NULL}, TN_EFORMAT},
      {AT("mul index %3 2"), "a value was given for param 1, and what the text computes has none", {NULL, x},
       TN_EINVAL},
      {"%1 = param f32[3] 3 {0 0}\n", "a value was given for param 1, and what the text computes has none", {x, x},
       TN_EINVAL},
      {STORED("f32", "f32", "-1"), "line 2: the length of loop 0 is negative", {NULL, x8}, TN_EFORMAT},
  };
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    int n = tn_run_text(c, bad[i].text, 2, bad[i].in, 1, &out);
    const tn_error *e = tn_last_error(c);
    if (n != -1 || e->status != bad[i].status || !strstr(e->text, bad[i].why))
      fail_msg("%s gives %d: %s; not %s", bad[i].text, n, e->text, bad[i].why);
    /* what a user writes is no fault of Tenet's */
    if (strstr(e->text + 1, "tn_run_text") || strstr(e->text, "internal")) fail_msg("%s", e->text);
    assert_null(out);
    tn_clear_error(c);
  }
  assert_int_equal(tn_run_text(ref, AT("mul index %3 3"), 0, NULL, 1, &out), -1); /* while it runs */
  assert_int_equal(tn_last_error(ref)->status, TN_ERUN);
  assert_int_equal(tn_run_text(c, NULL, 0, NULL, 0, NULL), -1);
  assert_int_equal(tn_run_text(c, graph, 2, NULL, 0, NULL), -1);
  tn_ctx_close(ref);
  tn_ctx_close(c);
}

/* Any character changed: it runs, or an error says why not; on the interpreter, which compiles nothing. */
static void damaged(void **state) {
  char *transpose = program("transpose", NULL), *tree = program("tree_sum", NULL);
  const char *text[] = {graph, kernel, transpose, gated, tree};
  (void)state;
  tn_ctx *c = open_on("ref");
  tn_tensor *x = tn_ones(c, TN_F32, DIMS(3)), *w = tn_ones(c, TN_F32, DIMS(4)), *out[3];
  unsigned seed = 7;
  for (int round = 0; round < 2000; round++)
    tn_scope(c) {
      const char *from = text[round % 5];
      size_t n = strlen(from);
      char *changed = malloc(n + 1);
      assert_non_null(changed);
      memcpy(changed, from, n + 1);
      for (int k = 0; k <= round % 3; k++) {
        size_t at = (seed = seed * 1103515245u + 12345u) / 65536u % n;
        changed[at] = "0123456789%[]{} -xa\n"[(seed = seed * 1103515245u + 12345u) / 65536u % 20];
      }
      tn_tensor *in[] = {x, x, tn_ones(c, TN_F32, DIMS(12)), w};
      tn_clear_error(c);
      int count = tn_run_text(c, changed, round % 5 % 2 ? 4 : 2, in, 3, out);
      assert_true(count >= 0 || *tn_last_error(c)->text);
      for (int i = 0; i < count && i < 3; i++) tn_realize(&out[i], 1);
      free(changed);
    }
  tn_ctx_close(c);
  free(transpose);
  free(tree);
}

/* ---- indices that are loaded ---- */

/* out[4 i + j] = 1 where the gate holds, x = index[4 i + j] */
#define LOADED(gate)                                                                                                   \
  "%1 = param f32[32] 32 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = range index 4 {loop 1 output}\n"          \
  "%4 = mul index %2 4\n%5 = add index %4 %3\n%6 = param i64[32] 32 {1 -1}\n%7 = load i64 %6 %5\n"                 \
  "%8 = cast index %7\n%9 = const f32 {1.0}\n" gate                                                                  \
  "%30 = store void %1 %5 %9 %20 %2 %3\n%31 = sink void %30 {\"kernel\"}\n"

static int64_t wrapped(uint64_t x) { return (int64_t)x; }
static int64_t quotient(int64_t x, int64_t y) { return x / y - (x % y < 0); }
static int64_t remainder_of(int64_t x, int64_t y) { return x % y < 0 ? x % y + y : x % y; }
static bool product_below(int64_t x) { return wrapped((uint64_t)x * 8) < 40; }
static bool product_above(int64_t x) { return 40 < wrapped((uint64_t)x * 8); }
static bool product_is(int64_t x) { return wrapped((uint64_t)x * 8) == 40; }
static bool product_is_not(int64_t x) { return wrapped((uint64_t)x * 8) != 40; }
static bool negative_below(int64_t x) { return wrapped(0 - (uint64_t)x) < 5; }
static bool sum_below(int64_t x) { return wrapped((uint64_t)x + 3) < 40; }
static bool sum_is_least(int64_t x) { return wrapped((uint64_t)x + 3) <= 2; }
static bool sums(int64_t x) { return wrapped((uint64_t)x + 3) < wrapped((uint64_t)x + 5); }
static bool both_sums(int64_t x) { return wrapped(2 * (uint64_t)x + 1) < wrapped((uint64_t)x + 1); }
static bool exact_quotient(int64_t x) { return quotient(wrapped((uint64_t)x * 8), 8) == x; }
static bool exact_rest(int64_t x) { return remainder_of(wrapped((uint64_t)x * 6), 6) == 0; }
static bool split(int64_t x) { return quotient(wrapped((uint64_t)x * 8 + 5), 4) < 20; }
static bool parts(int64_t x) { return wrapped((uint64_t)x * 8 + 5) < 40; }
static bool rest(int64_t x) { return remainder_of(wrapped((uint64_t)x * 12 + 7), 12) == 7; }
static bool smaller(int64_t x) {
  int64_t next = wrapped((uint64_t)x + 1);
  return (next < x ? next : x) == x;
}
static bool whole_sum(int64_t x) { return quotient(wrapped((uint64_t)x + 40), 8) < 6; }

static const struct {
  const char *what, *text;
  bool (*holds)(int64_t x);
} loaded_gates[] = {
    {"8 x < 40", LOADED("%10 = mul index %8 8\n%20 = lt bool %10 40\n"), product_below},
    {"40 < 8 x", LOADED("%10 = mul index %8 8\n%20 = lt bool 40 %10\n"), product_above},
    {"8 x = 40", LOADED("%10 = mul index %8 8\n%20 = eq bool %10 40\n"), product_is},
    {"8 x != 40", LOADED("%10 = mul index %8 8\n%20 = ne bool %10 40\n"), product_is_not},
    {"-x < 5", LOADED("%10 = mul index %8 -1\n%20 = lt bool %10 5\n"), negative_below},
    {"x + 3 < 40", LOADED("%10 = add index %8 3\n%20 = lt bool %10 40\n"), sum_below},
    {"x + 3 <= 2", LOADED("%10 = add index %8 3\n%20 = le bool %10 2\n"), sum_is_least},
    {"x + 3 < x + 5", LOADED("%10 = add index %8 3\n%11 = add index %8 5\n%20 = lt bool %10 %11\n"), sums},
    {"2 x + 1 < x + 1",
     LOADED("%10 = mul index %8 2\n%11 = add index %10 1\n%12 = add index %8 1\n%20 = lt bool %11 %12\n"), both_sums},
    {"8 x / 8 = x", LOADED("%10 = mul index %8 8\n%11 = idiv index %10 8\n%20 = eq bool %11 %8\n"), exact_quotient},
    {"6 x mod 6 = 0", LOADED("%10 = mul index %8 6\n%11 = mod index %10 6\n%20 = eq bool %11 0\n"), exact_rest},
    {"(8 x + 5) / 4 < 20",
     LOADED("%10 = mul index %8 8\n%11 = add index %10 5\n%12 = idiv index %11 4\n%20 = lt bool %12 20\n"), split},
    {"8 x + 5 < 40", LOADED("%10 = mul index %8 8\n%11 = add index %10 5\n%20 = lt bool %11 40\n"), parts},
    {"(12 x + 7) mod 12 = 7",
     LOADED("%10 = mul index %8 12\n%11 = add index %10 7\n%12 = mod index %11 12\n%20 = eq bool %12 7\n"), rest},
    {"min(x + 1, x) = x", LOADED("%10 = add index %8 1\n%11 = min index %10 %8\n%20 = eq bool %11 %8\n"), smaller},
    {"(x + 40) / 8 < 6", LOADED("%10 = add index %8 40\n%11 = idiv index %10 8\n%20 = lt bool %11 6\n"), whole_sum},
};

/* A machine's sums and products wrap: what is loaded may be any number, and a gate is what it is of that number. */
static void wrapping(void **state) {
  const int64_t least = INT64_MIN, most = INT64_MAX, eighth = (int64_t)1 << 61;
  const int64_t x[32] = {0, 1, 2, 4, 5, 6, 7, 8, -1, -2, -3, -5, -6, -8, -40, 9, least, least + 1, least + 2, least + 5,
                         most, most - 1, most - 2, most - 3, most - 39, most - 40, eighth, eighth + 1, eighth + 5,
                         -eighth, -eighth - 1, most / 6 + 1};
  float got[32];
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    for (size_t g = 0; g < sizeof loaded_gates / sizeof *loaded_gates; g++) {
      tn_tensor *out, *in[] = {NULL, tn_from(c, TN_I64, DIMS(32), x)};
      if (tn_run_text(c, loaded_gates[g].text, 2, in, 1, &out) != 1) fail_msg("%s", tn_last_error(c)->text);
      assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
      for (int i = 0; i < 32; i++)
        if ((got[i] == 1) != loaded_gates[g].holds(x[i]))
          fail_msg("%s: %s of %lld is %g", devices[d], loaded_gates[g].what, (long long)x[i], (double)got[i]);
    }
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(graphs),   cmocka_unit_test(kernels),
      cmocka_unit_test(many_loops), cmocka_unit_test(gates), cmocka_unit_test(many),
      cmocka_unit_test(programs), cmocka_unit_test(lost_barriers), cmocka_unit_test(in_part),
      cmocka_unit_test(any_size),  cmocka_unit_test(rows_beside_sums),
      cmocka_unit_test(loops_of_programs), cmocka_unit_test(nests), cmocka_unit_test(empty_memory),
      cmocka_unit_test(wrapping),  cmocka_unit_test(refused),       cmocka_unit_test(damaged),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
