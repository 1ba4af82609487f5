/* Patches of outputs for a thread: whatever the sizes, the dtypes and where the operands' elements lie, sums over all
 * pairs of rows are what the graph says, on each kind of GPU, by each size of patch; schedules are compared with their
 * graphs, too. */
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

typedef struct pairs { /* of rows of x[batch,rows,steps] and y[batch,columns,steps], or y[batch,steps,columns] */
  const char *name, *dtype, *of, *by; /* what is made of the elements of a pair, and how that is summed up */
  int batch, rows, columns, steps;
  bool turned, beside; /* ... y; with a number for each column and a sum over each row, all below a square root */
} pairs;

static const pairs rows[] = {
    {"differences", "f32", "sub", "sum", 1, 64, 96, 32, false, false},
    {"odd sizes", "f32", "sub", "sum", 1, 37, 71, 33, false, false},
    {"two steps", "f32", "mul", "rmax", 1, 19, 40, 2, false, false},
    {"blocks of steps, the last one short", "f32", "sub", "sum", 1, 13, 33, 661, false, false},
    {"few rows", "f32", "add", "rmin", 1, 2, 300, 5, false, false},
    {"few columns", "f32", "add", "rmax", 1, 301, 2, 7, false, false},
    {"turned", "f32", "sub", "sum", 1, 33, 65, 40, true, false},
    {"batches", "f32", "mul", "prod", 3, 17, 35, 6, false, false},
    {"halves", "f16", "add", "rmax", 1, 21, 45, 67, false, false},
    {"brain floats", "bf16", "add", "rmin", 2, 21, 45, 19, true, false},
    {"doubles", "f64", "sub", "sum", 1, 40, 41, 35, false, false},
    {"integers", "i32", "mul", "sum", 1, 30, 66, 65, true, false},
    {"bytes", "u8", "xor", "rmax", 1, 30, 66, 13, false, false},
    {"beside other sums", "f32", "sub", "sum", 1, 36, 70, 34, false, true},
    {"beside other sums, batches", "f64", "mul", "sum", 2, 9, 33, 64, true, true},
};

/* x and y expanded to all pairs, and what is made of them */
static void text_of(const pairs *p, char *out, size_t size) {
  char x[64], y[64], all[64], row[64], flat[64];
  const char *t = p->dtype;
  snprintf(x, sizeof x, "%d %d %d", p->batch, p->rows, p->steps);
  snprintf(y, sizeof y, "%d %d %d", p->batch, p->turned ? p->steps : p->columns, p->turned ? p->columns : p->steps);
  snprintf(all, sizeof all, "%d %d %d %d", p->batch, p->rows, p->columns, p->steps);
  snprintf(flat, sizeof flat, "%d %d %d", p->batch, p->rows, p->columns);
  snprintf(row, sizeof row, "%d %d", p->batch, p->rows);
  int n = 0, of = !strcmp(p->of, "sub") ? 8 : 7;
#define PUT(...) n += snprintf(out + n, size - (size_t)n, __VA_ARGS__)
  PUT("%%1 = param %s[%d,%d,%d] %s {0 0}\n", t, p->batch, p->rows, p->steps, x);
  PUT("%%2 = param %s[%d,%d,%d] %s {1 0}\n", t, p->batch, p->turned ? p->steps : p->columns,
      p->turned ? p->columns : p->steps, y);
  PUT("%%3 = permute %s[%d,%d,%d] %%2 {%s}\n", t, p->batch, p->columns, p->steps, p->turned ? "0 2 1" : "0 1 2");
  PUT("%%4 = reshape %s[%d,%d,1,%d] %%1 %d %d 1 %d\n", t, p->batch, p->rows, p->steps, p->batch, p->rows, p->steps);
  PUT("%%5 = reshape %s[%d,1,%d,%d] %%3 %d 1 %d %d\n", t, p->batch, p->columns, p->steps, p->batch, p->columns,
      p->steps);
  PUT("%%6 = expand %s[%d,%d,%d,%d] %%4 %s\n", t, p->batch, p->rows, p->columns, p->steps, all);
  PUT("%%7 = expand %s[%d,%d,%d,%d] %%5 %s\n", t, p->batch, p->rows, p->columns, p->steps, all);
  if (of == 8) PUT("%%8 = neg %s[%d,%d,%d,%d] %%7\n", t, p->batch, p->rows, p->columns, p->steps);
  else PUT("%%8 = max %s[%d,%d,%d,%d] %%7 %%7\n", t, p->batch, p->rows, p->columns, p->steps);
  PUT("%%9 = %s %s[%d,%d,%d,%d] %%6 %%8\n", of == 8 ? "add" : p->of, t, p->batch, p->rows, p->columns, p->steps);
  PUT("%%10 = max %s[%d,%d,%d,%d] %%9 %%6\n", t, p->batch, p->rows, p->columns, p->steps);
  PUT("%%11 = %s %s[%d,%d,%d] %%10 {3}\n", p->by, t, p->batch, p->rows, p->columns);
  if (!p->beside) {
    PUT("%%12 = sink void %%11 {\"outputs\"}\n");
    return;
  }
  PUT("%%12 = sum %s[%d,%d] %%1 {2}\n", t, p->batch, p->rows);
  PUT("%%13 = reshape %s[%d,%d,1] %%12 %s 1\n", t, p->batch, p->rows, row);
  PUT("%%14 = expand %s[%d,%d,%d] %%13 %s\n", t, p->batch, p->rows, p->columns, flat);
  PUT("%%15 = param %s[%d] %d {2 0}\n", t, p->columns, p->columns);
  PUT("%%16 = reshape %s[1,1,%d] %%15 1 1 %d\n", t, p->columns, p->columns);
  PUT("%%17 = expand %s[%d,%d,%d] %%16 %s\n", t, p->batch, p->rows, p->columns, flat);
  PUT("%%18 = mul %s[%d,%d,%d] %%11 %%14\n", t, p->batch, p->rows, p->columns);
  PUT("%%19 = add %s[%d,%d,%d] %%18 %%17\n", t, p->batch, p->rows, p->columns);
  PUT("%%20 = sink void %%19 {\"outputs\"}\n");
#undef PUT
}

static void try(const char *device, const tn__variant *v, const char *name, const char *text, bool plain) {
  static unsigned long seen;
  char why[512];
  if (!is_taken(&seen)) return;
  if (!coverage_takes(device, v, "patch", text, plain, why, sizeof why))
    fail_msg("%s, %s, %s: %s\n%s", name, v->name, device, why, text);
}

static void all_pairs(void **state) {
  static const char *const devices[] = {"ref:sm_80", "ref:sm_90"};
  int seen = 0; /* sizes of patches: the first does all, the others a third each */
  (void)state;
  for (uint32_t n = 0; tn__variant_at(n); n++) {
    if (tn__variant_at(n)->rows < 2) continue;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) {
      char text[4096];
      text_of(&rows[i], text, sizeof text);
      if (!seen || ((size_t)seen + i) % 3 == 0) try(devices[(n + i) % 2], tn__variant_at(n), rows[i].name, text, i % 2);
    }
    seen++;
  }
}

/* Elements of rows that are compared with all of their row: only the turns of one loop load the same. */
static void all_of_a_row(void **state) {
  static const struct {
    const char *name, *dtype;
    int rows, n;
    bool flat; /* all rows' elements are one axis */
  } counts[] = {
      {"one row", "u64", 1, 200, false},      {"rows", "u32", 5, 64, false},  {"odd rows", "f32", 3, 67, false},
      {"flat rows", "u64", 6, 64, true},      {"odd flat rows", "i32", 3, 45, true},
      {"many flat rows", "u8", 40, 32, true},
  };
  int seen = 0;
  (void)state;
  for (uint32_t v = 0; tn__variant_at(v); v++) {
    if (tn__variant_at(v)->rows != 1) continue;
    for (size_t i = 0; i < sizeof counts / sizeof *counts; i++) {
      char text[1024];
      const char *t = counts[i].dtype;
      int r = counts[i].rows, n = counts[i].n, at = 0;
#define PUT(...) at += snprintf(text + at, sizeof text - (size_t)at, __VA_ARGS__)
      PUT("%%1 = param %s[%d,%d] %d %d {0 0}\n", t, r, n, r, n);
      PUT("%%2 = reshape %s[%d,1,%d] %%1 %d 1 %d\n", t, r, n, r, n);
      PUT("%%3 = reshape %s[%d,%d,1] %%1 %d %d 1\n", t, r, n, r, n);
      PUT("%%4 = expand %s[%d,%d,%d] %%2 %d %d %d\n", t, r, n, n, r, n, n);
      PUT("%%5 = expand %s[%d,%d,%d] %%3 %d %d %d\n", t, r, n, n, r, n, n);
      PUT("%%6 = lt bool[%d,%d,%d] %%4 %%5\n", r, n, n);
      PUT("%%7 = cast i32[%d,%d,%d] %%6\n", r, n, n);
      PUT("%%8 = sum i32[%d,%d] %%7 {2}\n", r, n);
      if (counts[i].flat) PUT("%%9 = reshape i32[%d] %%8 %d\n", r * n, r * n);
      PUT("%%%d = sink void %%%d {\"outputs\"}\n", counts[i].flat ? 10 : 9, counts[i].flat ? 9 : 8);
#undef PUT
      const char *device = (v + i) % 2 ? "ref:sm_80" : "ref:sm_90";
      if (!seen || ((size_t)seen + i) % 3 == 0) try(device, tn__variant_at(v), counts[i].name, text, i % 2);
    }
    seen++;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_pairs), cmocka_unit_test(all_of_a_row)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
