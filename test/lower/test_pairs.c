/* Reductions over pairs of rows, on the CPU: whatever the numbers of rows, their lengths, the dtypes and what is made
 * of a pair, the results are those of plain loops, whichever of the ways of computing them is taken: patches of sums
 * with lanes along the rows, lanes across rows that are turned, strips of rows that a cache holds, and sums of rows as
 * a part of their own.  All numbers are small and whole, so that sums are exact in any order. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/graph.h"
#include "support/host_numbers.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 49, MOST_TERMS = 200000 };

static const int last[] = {-1};

static tn_tensor *squares(tn_tensor *d) { return tn_sum(tn_mul(d, d), last, 1, false); }
static tn_tensor *distances(tn_tensor *d) { return tn_sum(tn_abs(d), last, 1, false); }
static tn_tensor *largest(tn_tensor *d) { return tn_max(tn_abs(d), last, 1, false); }
static tn_tensor *differing(tn_tensor *d) { return tn_sum(tn_cast(tn_ne_scalar(d, 0), TN_I32), last, 1, false); }
/* Of sums of little and much work for a term: the cube stays exact */
static tn_tensor *cubes(tn_tensor *d) { return tn_sum(tn_mul(tn_mul(d, d), tn_abs(d)), last, 1, false); }

typedef struct pairs {
  tn_tensor *(*of)(tn_tensor *difference); /* NULL: sums of one operand's rows beside elements of all pairs */
  bool gradient;                           /* by the first operand, too */
  int dtype;
  tn_dim batch, x, y, terms; /* batch 0: there is none */
} pairs;

/* From -2 to 2 in an order that no block repeats */
static uint64_t number(const void *of, int dtype, tn_dim i) {
  tn_dim shift = *(const tn_dim *)of;
  return tn__eval_cast(TN_I64, dtype, (uint64_t)((i + shift) * (i + shift) / 7 % 5 - 2));
}

static tn_tensor *operand(tn_ctx *c, const pairs *p, tn_dim rows, tn_dim columns) {
  tn_dim shape[] = {p->batch, rows, columns};
  return host_numbers(c, p->dtype, shape + !p->batch, 3 - !p->batch, number, &rows);
}

static int make(tn_ctx *c, const pairs *p, tn_tensor **out) {
  tn_tensor *x = operand(c, p, p->x, p->terms), *y = operand(c, p, p->y, p->terms);
  if (!p->of) {
    tn_tensor *sums = tn_sum(tn_mul(y, y), last, 1, false);
    return out[0] = tn_add(tn_neg(operand(c, p, p->x, p->y)), tn_unsqueeze(sums, -2)), 1;
  }
  out[0] = p->of(tn_sub(tn_unsqueeze(x, -2), tn_unsqueeze(y, -3)));
  if (p->gradient) assert_int_equal(tn_vjp(out[0], operand(c, p, p->x, p->y), 1, &x, &out[1]), TN_OK);
  return 1 + p->gradient;
}

/* The notes of what is computed on the CPU, to be freed, and the results one behind the other, to be freed */
static char *results(const char *device, int threads, const pairs *p, char **out, size_t *bytes) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .threads = threads, .quiet = 1, .verify = "strict"});
  char *text = NULL;
  assert_non_null(c);
  tn_scope(c) {
    tn_tensor *y[2];
    int n = make(c, p, y);
    text = tn_explain_string(y, n);
    if (!text) fail_msg("%s", tn_last_error(c)->text);
    assert_int_equal(tn_realize(y, n), TN_OK);
    *out = malloc(tn_nbytes(y[0]) + (n > 1 ? tn_nbytes(y[1]) : 0));
    assert_non_null(*out);
    *bytes = 0;
    for (int i = 0; i < n; i++) {
      assert_int_equal(tn_read(y[i], *out + *bytes, tn_nbytes(y[i])), TN_OK);
      *bytes += tn_nbytes(y[i]);
    }
  }
  tn_ctx_close(c);
  return text;
}

/* The kernels' notes alone */
static char *agreed(const pairs *p, const char *name) {
  char *want, *got, *notes = NULL;
  size_t bytes, same;
  free(results("ref", 1, p, &want, &bytes));
  for (int threads = 1; threads <= 3; threads += 2) {
    free(notes);
    notes = results("cpu", threads, p, &got, &same);
    assert_int_equal(same, bytes);
    if (memcmp(got, want, bytes))
      fail_msg("%s, %s: %lld times %lld and %lld rows of %lld: other bits", name, tn_dtype_name((tn_dtype)p->dtype),
               (long long)p->batch, (long long)p->x, (long long)p->y, (long long)p->terms);
    free(got);
  }
  free(want);
  char *source = strstr(notes, "# source");
  if (source) *source = 0;
  return notes;
}

static const struct kind {
  const char *name;
  tn_tensor *(*of)(tn_tensor *);
  bool gradient;
} kinds[] = {
    {"squares", squares, false},     {"distances", distances, false}, {"largest", largest, false},
    {"differing", differing, false}, {"cubes", cubes, false},         {"squares and their gradient", squares, true},
    {"sums of rows", NULL, false},
};
enum { KINDS = sizeof kinds / sizeof *kinds };

/* Few rows and many, short ones and long; as many rows of y as there is time for */
static pairs draw(graph_dice *d, const struct kind *k) {
  static const int dtypes[] = {TN_F32, TN_F32, TN_F64, TN_F16, TN_BF16, TN_I32, TN_I8};
  static const uint32_t most_terms[] = {63, 256, 2100}, most_rows[] = {5, 20, 150};
  pairs p = {.of = k->of, .gradient = k->gradient};
  p.dtype = k->gradient ? dtypes[graph_roll(d, 3)] : dtypes[graph_roll(d, 7)];
  p.batch = graph_roll(d, 3) ? 0 : 1 + graph_roll(d, 4);
  p.terms = 1 + graph_roll(d, most_terms[graph_roll(d, 3)]);
  p.x = 1 + graph_roll(d, most_rows[graph_roll(d, 3)]);
  tn_dim most = MOST_TERMS / ((p.batch ? p.batch : 1) * (k->of ? p.x : 1) * p.terms);
  p.y = 1 + graph_roll(d, most < 1 ? 1 : most > 1000 ? 1000 : (uint32_t)most);
  return p;
}

static void as_plain_loops(void **s) {
  graph_dice d = {.state = 31952};
  unsigned long cases = 0, patches = 0, turned = 0, first = 0;
  bool all = !getenv("CASES_EVERY");
  (void)s;
  for (int i = 0; i < DRAWS; i++) {
    const struct kind *k = &kinds[i % KINDS];
    pairs p = draw(&d, k);
    if (!is_taken(&cases)) continue;
    char *notes = agreed(&p, k->name), *jam = strstr(notes, " jam(");
    patches += jam && strstr(jam + 1, " jam(");
    turned += strstr(notes, " turn(") != NULL;
    first += strstr(notes, " first(") != NULL;
    free(notes);
  }
  if (all && (patches < DRAWS / 8 || turned < DRAWS / 12 || first < 2))
    fail_msg("%lu patches, %lu turned, %lu sums first", patches, turned, first);
}

/* Which way is taken */
static void chosen(void **s) {
  static const struct {
    const char *name;
    pairs of;
    const char *step[2], *none;
  } rows[] = {
      {"odd rows that a near cache holds", {squares, 0, TN_F32, 0, 37, 41, 1023}, {",16) jam(", ",4) jam("}, "strips("},
      {"shorter ones, few of which fill lanes",
       {squares, 0, TN_F32, 0, 35, 40, 300},
       {",16) jam(", ",4) jam("},
       "turn("},
      {"of f64", {distances, 0, TN_F64, 0, 37, 41, 515}, {",8) jam(", ",4) jam("}, NULL},
      {"of f16", {distances, 0, TN_F16, 0, 37, 41, 515}, {",16) jam(", ",4) jam("}, NULL},
      {"in batches", {largest, 0, TN_F32, 3, 19, 21, 515}, {",16) jam(", ",4) jam("}, NULL},
      {"of few", {squares, 0, TN_F32, 0, 7, 61, 515}, {",4) jam(", ",4)"}, NULL},
      {"of three", {squares, 0, TN_F32, 0, 3, 61, 515}, {",16) jam(", ",3) jam("}, NULL},
      {"of two", {squares, 0, TN_F32, 0, 2, 300, 2051}, {",16) jam(", ",2) jam("}, NULL},
      {"of one", {squares, 0, TN_F32, 0, 1, 300, 1023}, {NULL, NULL}, ",4) jam("},
      {"of few terms in all", {squares, 0, TN_F32, 0, 4, 9, 300}, {NULL, NULL}, "jam("},
      {"rows of up to 256 terms", {squares, 0, TN_F32, 0, 40, 224, 200}, {"turn(", "jam("}, ",16) jam("},
      {"of an odd number of lines of a block", {squares, 0, TN_F32, 0, 67, 96, 50}, {"turn(", "jam("}, NULL},
      {"sums of few terms, one by one", {squares, 0, TN_F32, 0, 67, 96, 7}, {"turn(", NULL}, "jam("},
      {"rows that no cache holds", {squares, 0, TN_F64, 0, 41, 44, 2053}, {",4) jam(", "strips("}, NULL},
      {"of the same number", {squares, 0, TN_F64, 0, 44, 44, 2053}, {",4) jam(", "strips("}, NULL},
      {"rows that the last cache does not hold, either",
       {distances, 0, TN_F64, 0, 16, 48, 16381},
       {" strips(1,4)", " strips(0,1)"},
       NULL},
      {"sums before elements", {NULL, 0, TN_F32, 0, 50, 400, 101}, {"first(", NULL}, NULL},
      {"sums of short rows", {NULL, 0, TN_F32, 0, 50, 400, 33}, {NULL, NULL}, "first("},
      {"sums beside few elements", {NULL, 0, TN_F32, 0, 3, 400, 101}, {NULL, NULL}, "first("},
  };
  unsigned long cases = 0;
  (void)s;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
    if (!is_taken(&cases)) continue;
    char *notes = agreed(&rows[i].of, rows[i].name);
    for (int k = 0; k < 2; k++)
      if (rows[i].step[k] && !strstr(notes, rows[i].step[k]))
        fail_msg("%s: no %s in\n%s", rows[i].name, rows[i].step[k], notes);
    if (rows[i].none && strstr(notes, rows[i].none)) fail_msg("%s: %s in\n%s", rows[i].name, rows[i].none, notes);
    free(notes);
  }
}

/* However many rows there may be, a patch is planned. */
static void of_any_bound(void **s) {
  static const tn_dim most[] = {41, (tn_dim)1 << 31, 2000000000000000000, INT64_MAX / 2, INT64_MAX};
  (void)s;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:cpu", .quiet = 1});
  assert_non_null(c);
  for (size_t i = 0; i < sizeof most / sizeof *most; i++) tn_scope(c) {
      tn_program *p = tn_program_begin(c);
      char name[] = {'N', (char)('0' + i), 0};
      tn_dim n = tn_dim_var(c, name, 0, most[i]);
      tn_tensor *x = tn_program_input(p, "x", TN_F32, (tn_dim[]){n, 301}, 2),
                *y = tn_program_input(p, "y", TN_F32, (tn_dim[]){37, 301}, 2),
                *sums = squares(tn_sub(tn_unsqueeze(x, -2), tn_unsqueeze(y, -3)));
      bool small = sums && tn_program_output(p, "sums", sums) == TN_OK && tn_program_end(p) == TN_OK;
      char *text = small ? tn_program_explain_string(p) : NULL;
      if (text ? !strstr(text, " jam(") : i < 2) fail_msg("up to %lld: %s", (long long)most[i], tn_last_error(c)->text);
      if (!text) assert_int_not_equal(tn_last_error(c)->status, TN_ESTATE);
      tn_string_free(text);
    }
  tn_ctx_close(c);
}

/* A number of rows that is given later: whatever is left of a patch */
static void of_any_number(void **s) {
  enum { MOST = 41, ROWS = 37, TERMS = 301 };
  static float x[MOST][TERMS], y[ROWS][TERMS], got[MOST * ROWS];
  (void)s;
  for (int i = 0; i < MOST * TERMS; i++) x[i / TERMS][i % TERMS] = (float)(i * i / 7 % 5 - 2);
  for (int i = 0; i < ROWS * TERMS; i++) y[i / TERMS][i % TERMS] = (float)(i * 3 / 5 % 5 - 2);
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "cpu", .quiet = 1, .threads = 2});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_dim n = tn_dim_var(c, "N", 1, 400);
    tn_tensor *of[] = {tn_program_input(p, "x", TN_F32, (tn_dim[]){n, TERMS}, 2),
                       tn_program_input(p, "y", TN_F32, (tn_dim[]){ROWS, TERMS}, 2)};
    tn_tensor *sums = squares(tn_sub(tn_unsqueeze(of[0], -2), tn_unsqueeze(of[1], -3)));
    assert_int_equal(tn_program_output(p, "sums", sums), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    assert_int_equal(tn_program_write(p, "y", (tn_dim[]){ROWS, TERMS}, 2, y, sizeof y), TN_OK);
    for (int rows = 1; rows <= MOST; rows++) {
      assert_int_equal(tn_program_write(p, "x", (tn_dim[]){rows, TERMS}, 2, x, (size_t)rows * sizeof *x), TN_OK);
      assert_int_equal(tn_program_run(p), TN_OK);
      assert_int_equal(tn_program_read(p, "sums", got, (size_t)rows * ROWS * sizeof *got), TN_OK);
      for (int i = 0; i < rows * ROWS; i++) {
        float want = 0;
        for (int k = 0; k < TERMS; k++) {
          float d = x[i / ROWS][k] - y[i % ROWS][k];
          want += d * d;
        }
        assert_float_equal(got[i], want, 0);
      }
    }
  }
  tn_ctx_close(c);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_plain_loops), cmocka_unit_test(chosen),
                                     cmocka_unit_test(of_any_bound), cmocka_unit_test(of_any_number)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
