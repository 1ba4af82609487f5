/* Neighbours of one thread where their number does not divide the outputs': whatever the length, the dtype and where
 * the accesses begin, elements are what the graph says, and nothing beyond the end is touched, which each schedule's
 * comparison with its graph would see. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "lower/lower.h"
#include "support/coverage.h"
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>

typedef struct row {
  const char *name, *text; /* T: the dtype; N: the length, M: three more; R: the rows of 27 that it is;
                              Q: quarters of it, rounded up, F: four times as many */
  bool tail;               /* has packs, for lengths that these do not divide */
} row;

static const row rows[] = {
    {"two operands",
     "%1 = param T[N] N {0 0}\n%2 = param T[N] N {1 0}\n%3 = max T[N] %1 %2\n%4 = add T[N] %3 %2\n"
     "%5 = sink void %4 {\"outputs\"}\n",
     true},
    {"an operand that is turned",
     "%1 = param T[N] N {0 0}\n%2 = param T[N] N {1 0}\n%3 = flip T[N] %1 {0}\n%4 = max T[N] %3 %2\n"
     "%5 = sink void %4 {\"outputs\"}\n",
     true},
    {"an operand that begins elsewhere",
     "%1 = param T[M] M {0 0}\n%2 = param T[N] N {1 0}\n%3 = shrink T[N] %1 3 N {1}\n%4 = max T[N] %3 %2\n"
     "%5 = sink void %4 {\"outputs\"}\n",
     true},
    {"nothing but what is elsewhere",
     "%1 = param T[M] M {0 0}\n%2 = shrink T[N] %1 3 N {1}\n%3 = neg T[N] %2\n%4 = sink void %3 {\"outputs\"}\n",
     true},
    {"what four neighbours have in common, but for the last ones",
     "%1 = param T[Q] Q {0 0}\n%2 = reshape T[Q,1] %1 Q 1\n%3 = expand T[Q,4] %2 Q 4\n%4 = reshape T[F] %3 F\n"
     "%5 = shrink T[N] %4 0 N {1}\n%6 = param T[N] N {1 0}\n%7 = max T[N] %5 %6\n%8 = sink void %7 {\"outputs\"}\n",
     true},
    {"one that lies across",
     "%1 = param T[27,R] 27 R {0 0}\n%2 = permute T[R,27] %1 {1 0}\n%3 = neg T[R,27] %2\n"
     "%4 = sink void %3 {\"outputs\"}\n",
     false},
    {"numbers for columns",
     "%1 = param T[R,27] R 27 {0 0}\n%2 = param T[27] 27 {1 0}\n%3 = reshape T[1,27] %2 1 27\n"
     "%4 = expand T[R,27] %3 R 27\n%5 = max T[R,27] %1 %4\n%6 = sink void %5 {\"outputs\"}\n",
     true},
};

static int number_of(char letter, int length) {
  int quarter = (length + 3) / 4;
  return letter == 'N'   ? length
         : letter == 'M' ? length + 3
         : letter == 'R' ? length / 27
         : letter == 'Q' ? quarter
                         : 4 * quarter;
}

/* The text with its letters replaced */
static void text_of(const row *r, const char *dtype, int length, char *out, size_t size) {
  size_t n = 0;
  for (const char *s = r->text; *s && n < size; s++) {
    bool word = *s == 'T' || *s == 'N' || *s == 'M' || *s == 'R' || *s == 'Q' || *s == 'F';
    if (!word) out[n++] = *s;
    else if (*s == 'T') n += (size_t)snprintf(out + n, size - n, "%s", dtype);
    else n += (size_t)snprintf(out + n, size - n, "%d", number_of(*s, length));
  }
  out[n] = 0;
}

static tn_ctx *open_small(const char *device, const tn__variant *v) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = "strict"});
  assert_non_null(c);
  tn__device *d = tn__device_get(c, 0);
  d->usual = v;
  d->target.units = 1; /* few elements keep it busy */
  d->target.unit_threads = 256;
  coverage_watch(d);
  return c;
}

static uint64_t tails(const char *device) {
  char step[64];
  snprintf(step, sizeof step, "%s:tail", device);
  return coverage_of("step", step);
}

static void agree(tn_ctx *c, const char *name, const char *text) {
  char why[512];
  graph g;
  if (!graph_parse(c, text, 1, false, &g)) fail_msg("%s: %s\n%s", name, tn_last_error(c)->text, text);
  if (!graph_agrees_always(c, &g, why, sizeof why)) fail_msg("%s: %s\n%s", name, why, text);
  graph_free(c, &g);
}

static void odd_lengths(void **state) {
  static const char *const devices[] = {"ref:sm_80", "ref:sm_90"};
  static const char *const dtypes[] = {"f32", "f16", "f64", "u8", "bf16"};
  static const int lengths[] = {27 * 37, 27 * 75, 27 * 81, 27 * 80};
  char text[1024];
  (void)state;
  for (size_t i = 0; i < sizeof rows / sizeof *rows; i++)
    for (size_t t = 0; t < sizeof dtypes / sizeof *dtypes; t++)
      for (size_t n = 0; n < sizeof lengths / sizeof *lengths; n++) {
        const char *device = devices[(i + n) % 2];
        tn_ctx *c = open_small(device, tn__variant_at((i + t) % 2 ? 0 : 4));
        uint64_t before = tails(device);
        text_of(&rows[i], dtypes[t], lengths[n], text, sizeof text);
        agree(c, rows[i].name, text);
        tn_ctx_close(c);
        bool odd = lengths[n] % 2, has = tails(device) > before;
        if (has && !(rows[i].tail)) fail_msg("%s of %s, %d: packs", rows[i].name, dtypes[t], lengths[n]);
        if (odd && !has && rows[i].tail) fail_msg("%s of %s, %d: no packs", rows[i].name, dtypes[t], lengths[n]);
      }
}

/* Numbers that four neighbours draw together are those that each would draw alone. */
static void drawn(void **state) {
  (void)state;
  tn_ctx *c = open_small("ref:sm_90", NULL);
  uint64_t before = tails("ref:sm_90");
  agree(c, "random numbers", "%1 = iota i64[2017] 2017\n%2 = cast u64[2017] %1\n%3 = param u64[2] 2 {0 0}\n"
                             "%4 = shrink u64[1] %3 0 1 {1}\n%5 = expand u64[2017] %4 2017\n"
                             "%6 = shrink u64[1] %3 1 1 {1}\n%7 = expand u64[2017] %6 2017\n"
                             "%8 = philox u32[2017] %2 %5 %7\n%9 = sink void %8 {\"outputs\"}\n");
  tn_ctx_close(c);
  if (tails("ref:sm_90") == before) fail_msg("random numbers: no packs");
}

/* Of rows that are all the same a thread stores several turns of what it has worked out once, in packs of a row: also
 * where the row is one that others stand around, and not where it is shorter than what threads in step store. */
static void spread_rows(void **state) {
  static const struct {
    const char *dtype;
    int outer, rows, a, b;
    bool turns;
  } of[] = {{"f32", 1, 32, 48, 16, true}, {"f16", 1, 32, 48, 16, true}, {"u8", 2, 32, 48, 32, true},
            {"f32", 3, 16, 48, 16, true}, {"f64", 1, 37, 48, 16, false}, {"f32", 1, 1024, 3, 8, false},
            {"f32", 1, 8, 192, 16, true}};
  (void)state;
  for (size_t i = 0; i < sizeof of / sizeof *of; i++) {
    char text[1024];
    const char *t = of[i].dtype;
    int o = of[i].outer, n = of[i].rows, a = of[i].a, b = of[i].b;
    snprintf(text, sizeof text,
             "%%1 = param %s[%d,%d,%d] %d %d %d {0 0}\n%%2 = permute %s[%d,%d,%d] %%1 {0 2 1}\n"
             "%%3 = reshape %s[%d,1,%d,%d] %%2 %d 1 %d %d\n%%4 = expand %s[%d,%d,%d,%d] %%3 %d %d %d %d\n"
             "%%5 = abs %s[%d,%d,%d,%d] %%4\n%%6 = sink void %%5 {\"outputs\"}\n",
             t, o, a, b, o, a, b, t, o, b, a, t, o, b, a, o, b, a, t, o, n, b, a, o, n, b, a, t, o, n, b, a);
    tn_ctx *c = open_small("ref:sm_90", NULL);
    uint64_t before = coverage_of("step", "ref:sm_90:turns"), packs = coverage_of("step", "ref:sm_90:pack");
    agree(c, "rows that are the same", text);
    tn_ctx_close(c);
    bool has = coverage_of("step", "ref:sm_90:turns") > before, packed = coverage_of("step", "ref:sm_90:pack") > packs;
    if (has != of[i].turns || !packed) fail_msg("row %zu: turns %d, packs %d", i, has, packed);
  }
}

/* Any length up to a bound */
static void symbolic(void **state) {
  (void)state;
  tn_ctx *c = open_small("ref:sm_90", NULL);
  uint64_t before = tails("ref:sm_90");
  agree(c, "a size that is not known", "%1 = var index {\"B\" 1 1500}\n%2 = param f16[B] %1 {0 0}\n"
                                       "%3 = param f16[B] %1 {1 0}\n%4 = mul f16[B] %2 %3\n"
                                       "%5 = sink void %4 {\"outputs\"}\n");
  tn_ctx_close(c);
  if (tails("ref:sm_90") == before) fail_msg("a size that is not known: no packs");
}

/* Parts of a choice by place that begin where packs do, of rows that packs do not divide: all neighbours are of one. */
static void joined(void **state) {
  (void)state;
  tn_ctx *c = open_small("ref:sm_90", NULL);
  uint64_t before = coverage_of("step", "ref:sm_90:pack");
  agree(c, "parts", "%1 = iota i64[3] 3\n%2 = reshape i64[3,1,1] %1 3 1 1\n%3 = expand i64[3,8,131] %2 3 8 131\n"
                    "%4 = const i64 {1}\n%5 = reshape i64[1,1,1] %4 1 1 1\n%6 = expand i64[3,8,131] %5 3 8 131\n"
                    "%7 = lt bool[3,8,131] %3 %6\n%8 = param f16[1,8,131] 1 8 131 {0 0}\n"
                    "%9 = pad f16[3,8,131] %8 0 2 0 0 0 0\n%10 = param f16[2,8,131] 2 8 131 {1 0}\n"
                    "%11 = pad f16[3,8,131] %10 1 0 0 0 0 0\n%12 = where f16[3,8,131] %7 %9 %11\n"
                    "%13 = abs f16[3,8,131] %12\n%14 = sink void %13 {\"outputs\"}\n");
  tn_ctx_close(c);
  if (coverage_of("step", "ref:sm_90:pack") == before) fail_msg("parts: no packs");
}

/* Lines that four neighbours do not divide, but two, in rows that four do: two are loaded and stored at once, also
 * where the row is looked up that threads have kept, which each of them finds where it has stored it. */
static void pieces(void **state) {
  const tn_dim shape[] = {9, 150, 1614};
  const int axes[] = {0, 2};
  (void)state;
  tn_ctx *c = open_small("ref:sm_90", NULL);
  agree(c, "pieces", "%1 = param f16[6,4,38] 6 4 38 {0 0}\n%2 = cast f32[6,4,38] %1\n%3 = sum f32[4] %2 {0 2}\n"
                     "%4 = reshape f32[1,4,1] %3 1 4 1\n%5 = expand f32[6,4,38] %4 6 4 38\n"
                     "%6 = add f32[6,4,38] %2 %5\n%7 = cast f16[6,4,38] %6\n%8 = sink void %7 {\"outputs\"}\n");
  tn_ctx_close(c);
  c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1});
  assert_non_null(c);
  tn_scope(c) {
    tn_program *p = tn_program_begin(c);
    tn_tensor *x = tn_program_input(p, "x", TN_F16, shape, 3), *off = tn_sub(x, tn_mean(x, axes, 2, true));
    assert_int_equal(tn_program_output(p, "y", tn_mul(off, tn_mean(tn_square(off), axes, 2, true))), TN_OK);
    assert_int_equal(tn_program_end(p), TN_OK);
    char *text = tn_program_explain_string(p);
    assert_non_null(text);
    const char *code = strstr(text, "__global__"), *pairs = code ? strstr(code, "*(const u32 *)(b1 + ") : NULL;
    if (!pairs || strstr(code, "tn_f16_of(b1[")) fail_msg("elements are loaded one by one");
    if (strstr(pairs, "*(u32 *)(b0 + ") == NULL) fail_msg("elements are stored one by one");
    const char *meet = strstr(code, "__syncthreads"), *loop = strstr(code, "for (i32 i1");
    if (meet && loop && meet < pairs && meet > loop) fail_msg("threads meet in each turn");
    tn_string_free(text);
  }
  tn_ctx_close(c);
}

/* Columns that are spread, of so many rows that all threads of a group go through blocks of the same columns: what
 * neighbours reduce there is the same for all of them. */
static void columns_of_a_group(void **state) {
  enum { ROWS = 32768, COLUMNS = 32, TIMES = 16 };
  int64_t at[COLUMNS][TIMES];
  float *v = malloc(sizeof(float[ROWS][COLUMNS]));
  (void)state;
  assert_non_null(v);
  for (int i = 0; i < ROWS * COLUMNS; i++) v[i] = (float)((i * 7919ll + i / 131) % 10007);
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = "ref:sm_90", .quiet = 1, .verify = "strict"});
  assert_non_null(c);
  tn_tensor *x = tn_from(c, TN_F32, (tn_dim[]){ROWS, COLUMNS, 1}, 3, v),
            *first = tn_argmax(tn_expand(x, (tn_dim[]){ROWS, COLUMNS, TIMES}, 3), 0, false);
  if (tn_realize(&first, 1) != TN_OK) fail_msg("%s", tn_last_error(c)->text);
  assert_int_equal(tn_read(first, at, sizeof at), TN_OK);
  for (int k = 0; k < COLUMNS; k++) {
    int most = 0;
    for (int i = 0; i < ROWS; i++)
      if (v[i * COLUMNS + k] > v[most * COLUMNS + k]) most = i;
    for (int t = 0; t < TIMES; t++) assert_int_equal(at[k][t], most);
  }
  tn_ctx_close(c);
  free(v);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(odd_lengths), cmocka_unit_test(drawn),
                                     cmocka_unit_test(spread_rows), cmocka_unit_test(symbolic),
                                     cmocka_unit_test(joined), cmocka_unit_test(pieces),
                                     cmocka_unit_test(columns_of_a_group)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
