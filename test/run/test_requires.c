/* Kernels that rely on what stands in their buffers (REQUIRE): a permutation, compressed rows, a table without gates.
 * With what is required they are proved and run on every device; without it they are refused; and data that is not so
 * is refused by name before the kernel runs. */
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

static const char *const devices[] = {"cpu", "ref", "ref:cpu", "ref:sm_90", "ref:opencl"};
enum { DEVICES = sizeof devices / sizeof *devices };
enum { ROWS = 40, COLS = 24, SPANS = 50, ROOM = 200, KEYS = 300, TABLE = 17 }; /* of the programs */

static tn_ctx *open_on(const char *device) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1});
  assert_non_null(c);
  return c;
}

/* programs/NAME.txt, without the requirement that the line `without` states, if it is not NULL */
static char *program(const char *name, const char *without) {
  char path[512];
  const char *dir = getenv("TENET_TEST_DATA");
  snprintf(path, sizeof path, "%s/programs/%s.txt", dir ? dir : "test", name);
  FILE *f = fopen(path, "rb");
  char *text = calloc(1, 1 << 14), word[16];
  assert_non_null(f);
  assert_non_null(text);
  assert_true(fread(text, 1, (1 << 14) - 1, f) > 0);
  fclose(f);
  for (char *line = text; without && (line = strchr(line, '%')); line = strchr(line, '\n')) {
    size_t n = strcspn(line, "\n");
    char *end = line + n;
    if (!memmem(line, n, "= require", 9) || !memmem(line, n, without, strlen(without))) continue;
    snprintf(word, sizeof word, "%.*s ", (int)strcspn(line, " "), line);
    memmove(line, end + 1, strlen(end + 1) + 1);
    char *at = strstr(strstr(text, "sink"), word);
    assert_non_null(at);
    memmove(at, at + strlen(word), strlen(at + strlen(word)) + 1);
    return text;
  }
  assert_null(without);
  return text;
}

/* One output, or NULL, and the error that says `why` */
static tn_tensor *run(tn_ctx *c, const char *text, tn_tensor *const *in, int n, const char *why) {
  tn_tensor *out = NULL;
  tn_clear_error(c);
  int count = tn_run_text(c, text, n, in, 1, &out);
  if (!why && count != 1) fail_msg("%s", tn_last_error(c)->text);
  if (why && (count >= 0 || !strstr(tn_last_error(c)->text, why)))
    fail_msg("%d, and not \"%s\": %s", count, why, tn_last_error(c)->text);
  return out;
}

/* ---- what each of them is given ---- */

static void fill_permutation(int32_t *p) {
  for (int i = 0; i < ROWS; i++) p[i] = (i * 7 + 3) % ROWS;
}

static void fill_offsets(int32_t *off) {
  off[0] = 0;
  for (int i = 0; i < SPANS; i++) off[i + 1] = off[i] + (i * 5 + 3) % 9 % 8;
}

static void each_row_somewhere(void **state) {
  float x[ROWS * COLS], got[ROWS * COLS];
  int32_t p[ROWS];
  (void)state;
  char *text = program("permute_rows", NULL), *without = program("permute_rows", "{distinct}"),
       *unbounded = program("permute_rows", "{in}");
  fill_permutation(p);
  for (int i = 0; i < ROWS * COLS; i++) x[i] = (float)i;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *in[] = {NULL, tn_from(c, TN_F32, DIMS(ROWS, COLS), x), tn_from(c, TN_I32, DIMS(ROWS), p)};
    tn_tensor *out = run(c, text, in, 3, NULL);
    assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
    for (int i = 0; i < ROWS * COLS; i++) assert_true(got[p[i / COLS] * COLS + i % COLS] == x[i]);
    run(c, without, in, 3, " store");
    if (!strcmp(devices[d], "cpu")) run(c, unbounded, in, 3, "1 of 3 accesses cannot be shown to stay within");
    else run(c, unbounded, in, 3, NULL);
    p[31] = p[4];
    in[2] = tn_from(c, TN_I32, DIMS(ROWS), p);
    run(c, text, in, 3, "requires b2 distinct: elements 4 and 31 are both 31");
    assert_int_equal(tn_last_error(c)->status, TN_EINVAL);
    p[31] = ROWS;
    in[2] = tn_from(c, TN_I32, DIMS(ROWS), p);
    run(c, text, in, 3, "requires b2 in 0 40: element 31 is 40");
    p[31] = -1;
    in[2] = tn_from(c, TN_I32, DIMS(ROWS), p);
    run(c, text, in, 3, "requires b2 in 0 40: element 31 is -1");
    fill_permutation(p);
    tn_ctx_close(c);
  }
  free(text);
  free(without);
  free(unbounded);
}

static void compressed_rows(void **state) {
  static const char *const names[] = {"segments", "segments_kernel"};
  float x[SPANS], got[ROOM];
  int32_t off[SPANS + 1];
  (void)state;
  fill_offsets(off);
  for (int i = 0; i < SPANS; i++) x[i] = (float)(i + 1);
  for (int k = 0; k < 2; k++) {
    char *text = program(names[k], NULL), *without = program(names[k], "{sorted}");
    for (int d = 0; d < DEVICES; d++) {
      tn_ctx *c = open_on(devices[d]);
      tn_tensor *in[] = {NULL, tn_from(c, TN_F32, DIMS(SPANS), x), tn_from(c, TN_I32, DIMS(SPANS + 1), off)};
      tn_tensor *out = run(c, text, in, 3, NULL);
      assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
      for (int i = 0, at = 0; at < ROOM; at++) {
        while (i < SPANS && off[i + 1] <= at) i++;
        assert_true(got[at] == (i < SPANS ? x[i] : 0));
      }
      run(c, without, in, 3, " store");
      int32_t was = off[20];
      off[20] = off[21] + 1;
      in[2] = tn_from(c, TN_I32, DIMS(SPANS + 1), off);
      char why[100];
      snprintf(why, sizeof why, "requires b2 sorted: element 20 is %d, and element 21 is %d", off[20], off[21]);
      run(c, text, in, 3, why);
      off[20] = was;
      tn_ctx_close(c);
    }
    free(text);
    free(without);
  }
}

static void table(void **state) {
  float x[TABLE], got[KEYS];
  uint8_t key[KEYS];
  (void)state;
  char *text = program("lookup", NULL), *without = program("lookup", "{in}");
  for (int i = 0; i < TABLE; i++) x[i] = (float)(i * i);
  for (int i = 0; i < KEYS; i++) key[i] = (uint8_t)(i * i % TABLE);
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *in[] = {NULL, tn_from(c, TN_F32, DIMS(TABLE), x), tn_from(c, TN_U8, DIMS(KEYS), key)};
    tn_tensor *out = run(c, text, in, 3, NULL);
    assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
    for (int i = 0; i < KEYS; i++) assert_true(got[i] == x[key[i]]);
    if (!strcmp(devices[d], "cpu")) run(c, without, in, 3, "cannot be shown to stay within");
    key[299] = TABLE;
    in[2] = tn_from(c, TN_U8, DIMS(KEYS), key);
    run(c, text, in, 3, "requires b2 in 0 17: element 299 is 17");
    if (!strcmp(devices[d], "ref")) run(c, without, in, 3, "is outside its 17 elements");
    key[299] = 299 * 299 % TABLE;
    tn_ctx_close(c);
  }
  free(text);
  free(without);
}

/* y[i] = x[...] for i < 8, of 8 elements; keys in b2 */
#define READING(lines, at)                                                                                             \
  "%1 = param f32[8] 8 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = param f32[8] 8 {1 -1}\n"                      \
  "%4 = param i32[8] 8 {2 -1}\n" lines "%20 = load f32 %3 " at "\n%21 = store void %1 %2 %20 %2\n"                     \
  "%22 = sink void %21"
#define KEY "%7 = load i32 %4 %2\n%8 = cast index %7\n"
#define GATED_KEY "%6 = lt bool %2 4\n%7 = load i32 %4 %2 %6\n%8 = cast index %7\n"

/* The last and the first that are within, by what is required of what is loaded */
static void within(void **state) {
  static const struct {
    const char *text;
    bool good;
  } rows[] = {
      {READING(KEY "%9 = require void %4 0 8 {in}\n", "%8") " %9", true},
      {READING(KEY "%9 = require void %4 0 9 {in}\n", "%8") " %9", false},
      {READING(KEY "%9 = require void %4 -1 8 {in}\n", "%8") " %9", false},
      {READING(KEY "%9 = require void %4 {sorted}\n", "%8") " %9", false},
      {READING(KEY "%9 = require void %4 5 13 {in}\n%10 = add index %8 -5\n", "%10") " %9", true},
      {READING(KEY "%9 = require void %4 -7 1 {in}\n%10 = add index %8 7\n", "%10") " %9", true},
      {READING(GATED_KEY "%9 = require void %4 0 8 {in}\n", "%8") " %9", true},
      /* where it is not loaded, it is 0 */
      {READING(GATED_KEY "%9 = require void %4 5 13 {in}\n%10 = add index %8 -5\n", "%10") " %9", false},
      {READING(GATED_KEY "%9 = require void %4 -8 0 {in}\n%10 = add index %8 8\n", "%10") " %9", false},
      {READING(KEY "%9 = require void %4 0 1000 {in}\n%10 = mod index %8 8\n", "%10") " %9", true},
  };
  (void)state;
  tn_ctx *c = open_on("cpu");
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    char text[1000];
    snprintf(text, sizeof text, "%s {\"kernel\"}\n", rows[i].text);
    int32_t key[8], from = strstr(text, "5 13") ? 5 : strstr(text, "-7 1") ? -7 : 0;
    for (int k = 0; k < 8; k++) key[k] = from + k;
    tn_tensor *in[] = {NULL, tn_ones(c, TN_F32, DIMS(8)), tn_from(c, TN_I32, DIMS(8), key)}, *out = NULL;
    tn_clear_error(c);
    int n = tn_run_text(c, text, 3, in, 1, &out);
    if ((n == 1) != rows[i].good) fail_msg("row %zu: %s", i, tn_last_error(c)->text);
    if (n < 0) assert_non_null(strstr(tn_last_error(c)->text, "accesses cannot be shown to stay within"));
  }
  tn_ctx_close(c);
}

/* A loop that ends where another one says: j < 8 - i, so i + j < 8 */
static void corners(void **state) {
  static const char text[] =
      "%1 = param f32[64] 64 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = param f32[8] 8 {1 -1}\n"
      "%4 = mul index %2 -1\n%5 = add index %4 8\n%6 = range index %5 {loop 1 output}\n%7 = add index %2 %6\n"
      "%8 = load f32 %3 %7\n%9 = mul index %2 8\n%10 = add index %9 %6\n%11 = store void %1 %10 %8 %2 %6\n"
      "%12 = sink void %11 {\"kernel\"}\n";
  float x[8] = {1, 2, 3, 4, 5, 6, 7, 8}, got[64];
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *in[] = {NULL, tn_from(c, TN_F32, DIMS(8), x)}, *out = run(c, text, in, 2, NULL);
    assert_int_equal(tn_read(out, got, sizeof got), TN_OK);
    for (int i = 0; i < 64; i++) assert_true(got[i] == (i / 8 + i % 8 < 8 ? x[i / 8 + i % 8] : 0));
    tn_ctx_close(c);
  }
}

/* What no rule keeps apart, the interpreter may be asked to look at; where rules do, it finds nothing. */
static void by_looking(void **state) {
  int32_t p[ROWS], off[SPANS + 1];
  (void)state;
  char *without = program("permute_rows", "{distinct}"), *row = program("permute_rows", NULL),
       *spans[] = {program("segments", NULL), program("segments_kernel", NULL)};
  fill_offsets(off);
  for (int d = 1; d < DEVICES; d++) {
    setenv("TENET_RACES", "1", 1);
    tn_ctx *c = open_on(devices[d]);
    setenv("TENET_RACES", "off", 1);
    fill_permutation(p);
    tn_tensor *in[] = {NULL, tn_ones(c, TN_F32, DIMS(ROWS, COLS)), tn_from(c, TN_I32, DIMS(ROWS), p)};
    run(c, row, in, 3, NULL);
    bool group = strstr(devices[d], "sm_90") != NULL; /* whose threads have rows and columns in one loop */
    if (group) run(c, without, in, 3, NULL);
    p[4] = p[3];
    in[2] = tn_from(c, TN_I32, DIMS(ROWS), p);
    if (group) run(c, without, in, 3, "a race for f32 b0[");
    in[1] = tn_ones(c, TN_F32, DIMS(SPANS)), in[2] = tn_from(c, TN_I32, DIMS(SPANS + 1), off);
    for (int k = 0; k < 2; k++) run(c, spans[k], in, 3, NULL);
    tn_ctx_close(c);
  }
  for (int k = 0; k < 2; k++) free(spans[k]);
  free(row);
  free(without);
}

/* ---- values of every dtype, and none ---- */

/* y[0] = 1, of a buffer of `n` elements of which something is required */
static char *requiring(const char *dtype, int n, const char *what) {
  char *text = calloc(1, 1000);
  assert_non_null(text);
  snprintf(text, 1000,
           "%%1 = param f32[1] 1 {0 -1}\n%%2 = const f32 {1.0}\n%%3 = store void %%1 0 %%2\n"
           "%%4 = param %s[%d] %d {1 -1}\n%%5 = require void %%4 %s\n%%6 = sink void %%3 %%5 {\"kernel\"}\n",
           dtype, n, n, what);
  return text;
}

static void values(void **state) {
  static const struct {
    const char *dtype, *what;
    tn_dtype as;
    int n;
    uint64_t v[3]; /* the last of which is wrong, if there is anything wrong */
    const char *why;
  } rows[] = {
      {"i32", "{distinct}", TN_I32, 0, {0}, NULL},
      {"i32", "{sorted}", TN_I32, 0, {0}, NULL},
      {"i32", "0 0 {in}", TN_I32, 0, {0}, NULL},
      {"i32", "{distinct}", TN_I32, 1, {7}, NULL},
      {"i32", "{sorted}", TN_I32, 1, {7}, NULL},
      {"i32", "7 8 {in}", TN_I32, 1, {7}, NULL},
      {"i32", "0 0 {in}", TN_I32, 1, {0}, "no number lies there"},
      {"i8", "{sorted}", TN_I8, 3, {(uint64_t)-128, (uint64_t)-1, 127}, NULL},
      {"i8", "{sorted}", TN_I8, 3, {1, 1, 1}, NULL},
      {"i8", "{sorted}", TN_I8, 3, {1, 2, (uint64_t)-1}, "requires b1 sorted: element 1 is 2, and element 2 is -1"},
      {"u8", "{sorted}", TN_U8, 3, {1, 2, 255}, NULL},
      {"u8", "{distinct}", TN_U8, 3, {255, 2, 255}, "requires b1 distinct: elements 0 and 2 are both 255"},
      {"u8", "-5 300 {in}", TN_U8, 3, {255, 2, 0}, NULL},
      {"i64", "{distinct}", TN_I64, 3, {0, (uint64_t)1 << 32, (uint64_t)1 << 63}, NULL},
      {"i64", "{sorted}", TN_I64, 3, {0, INT64_MAX, (uint64_t)1 << 63},
       "element 1 is 9223372036854775807, and element 2 is -9223372036854775808"},
      {"i64", "-2 2 {in}", TN_I64, 3, {(uint64_t)-2, 1, (uint64_t)-3}, "requires b1 in -2 2: element 2 is -3"},
      {"u64", "{sorted}", TN_U64, 3, {0, INT64_MAX, UINT64_MAX}, NULL},
      {"u64", "{sorted}", TN_U64, 3, {0, UINT64_MAX, 1}, "element 1 is 18446744073709551615, and element 2 is 1"},
      {"u64", "-1 5 {in}", TN_U64, 3, {0, 4, UINT64_MAX}, "element 2 is 18446744073709551615"},
      {"u16", "0 65536 {in}", TN_U16, 3, {0, 4, 65535}, NULL},
  };
  (void)state;
  for (int d = 0; d < 2; d++)
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      tn_ctx *c = open_on(devices[d]);
      tn_tensor *wide = tn_from(c, TN_U64, DIMS(rows[i].n), rows[i].v), *in[] = {NULL, tn_cast(wide, rows[i].as)};
      char *text = requiring(rows[i].dtype, rows[i].n, rows[i].what);
      run(c, text, in, 2, rows[i].why);
      free(text);
      tn_ctx_close(c);
    }
}

/* ---- what is no requirement ---- */

#define BODY(lines, sink)                                                                                              \
  "%1 = param f32[8] 8 {0 -1}\n%2 = range index 8 {loop 0 output}\n%3 = param i32[8] 8 {1 -1}\n%4 = load i32 %3 %2\n"  \
  "%5 = cast f32 %4\n%6 = store void %1 %2 %5 %2\n" lines "%9 = sink void " sink " {\"kernel\"}\n"
#define PROGRAM(lines, order)                                                                                          \
  "%1 = param f32[8] 8 {0 -1}\n%2 = range index 8 {upcast 0 output}\n%3 = param i32[8] 8 {1 -1}\n"                    \
  "%4 = load i32 %3 %2\n%5 = cast f32 %4\n%6 = store void %1 %2 %5\n%8 = end void %2\n" lines                   \
  "%9 = sink void " order " {\"program\"}\n"

static void refused(void **state) {
  static const struct {
    const char *text, *why;
  } bad[] = {
      {BODY("%7 = require void %3 {sorted}\n", "%7 %6"), NULL},
      {BODY("%7 = require void %3 {sorted}\n", "%7 %7 %6"), NULL},
      {BODY("%7 = require void %3 {sorted}\n", "%7"), "line 8: the kernel stores nothing"},
      {BODY("%7 = require void %1 {sorted}\n", "%6 %7"), "line 7, column 1"},
      {BODY("%7 = param i32[8] 8 {2 -1}\n%8 = require void %7 {sorted}\n", "%6 %8"), "buffer 2, i32[8], was given no"},
      {BODY("%7 = param i32[9] 9 {1 -1}\n%8 = require void %7 {sorted}\n", "%6 %8"), "the buffers of number 1 differ"},
      {BODY("%7 = param i32[8] 8 {9999 -1}\n%8 = require void %7 {sorted}\n", "%6 %8"), "uses one of number 9999"},
      {BODY("%7 = store void %3 %2 %4 %2\n%8 = require void %3 {sorted}\n", "%6 %7 %8"),
       "the kernel stores to that buffer"},
      {BODY("%7 = var index {\"N\" 1 9}\n%8 = require void %3 0 %7 {in}\n", "%6 %8"), "sizes must be numbers here"},
      {PROGRAM("%7 = require void %3 {sorted}\n", "%7 %2 %4 %5 %6 %8"), NULL},
      {PROGRAM("%7 = require void %3 {sorted}\n", "%2 %4 %5 %6 %8 %7"), NULL},
      {PROGRAM("%7 = require void %3 {sorted}\n", "%2 %7 %4 %5 %6 %8"), "stands outside of all loops"},
      {PROGRAM("%7 = require void %1 {sorted}\n", "%7 %2 %4 %5 %6 %8"), "line 8, column 1"},
      {PROGRAM("%7 = require void %3 {sorted}\n", "%7"), "the program stores nothing"},
  };
  (void)state;
  for (int d = 0; d < DEVICES; d++)
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
      tn_ctx *c = open_on(devices[d]);
      tn_tensor *in[] = {NULL, tn_ones(c, TN_I32, DIMS(8))};
      run(c, bad[i].text, in, 2, bad[i].why);
      tn_ctx_close(c);
    }
}

/* A loop as long as what is loaded was an internal error, or taken out of its loop. */
static void loaded_lengths(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    tn_tensor *in[] = {NULL, tn_ones(c, TN_I32, DIMS(8))};
    run(c, BODY("%7 = cast index %4\n%10 = range index %7 {loop 1 output}\n%11 = store void %1 %10 %5 %2 %10\n", "%11"),
        in, 2, "a loop's length is a size, not what is loaded");
    tn_ctx_close(c);
  }
}

/* It is seen in what is printed: the kernel's text, and its source's head comment. */
static void printed(void **state) {
  (void)state;
  for (int d = 0; d < DEVICES; d++) {
    tn_ctx *c = open_on(devices[d]);
    char *text = program("permute_rows", NULL), *out = tn_explain_text_string(c, text);
    if (!out) fail_msg("%s", tn_last_error(c)->text);
    assert_non_null(strstr(out, "require void %"));
    const char *head = strstr(out, "requires(b2 distinct, b2 in 0 40)");
    assert_non_null(head);
    assert_non_null(strstr(head + 1, "requires(b2 distinct, b2 in 0 40)"));
    tn_string_free(out);
    free(text);
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(each_row_somewhere), cmocka_unit_test(compressed_rows), cmocka_unit_test(table),
      cmocka_unit_test(within),             cmocka_unit_test(corners),
      cmocka_unit_test(by_looking),         cmocka_unit_test(values),          cmocka_unit_test(refused),
      cmocka_unit_test(loaded_lengths),     cmocka_unit_test(printed),
  };
  setenv("TENET_RACES", "off", 1); /* where it is on, what cannot be proved may run */
  return cmocka_run_group_tests(tests, NULL, NULL);
}
