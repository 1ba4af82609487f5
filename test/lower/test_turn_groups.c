/* What lies across on GPUs goes by tiles through shared memory: whatever the sizes, the dtypes, and what is loaded or
 * stored along or across, results are what the graph says, on each kind of GPU, by each size of tile; schedules are
 * compared with their graphs, too. */
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

/* y too; one y for each line; stored along x as well */
typedef enum form { COPY, BESIDE, BESIDE_LINES, BOTH_WAYS } form;

typedef struct turned { /* x[a,b,c], turned to [c,a,b] or [c,b,a], and y as that lies */
  const char *name, *dtype;
  int a, b, c;
  bool back; /* [c,b,a] */
  form form;
  const char *step;
} turned;

static const turned rows[] = {
    {"a tile", "f32", 1, 64, 64, false, COPY, "turn"},
    {"odd sizes", "f32", 3, 37, 71, true, COPY, "turn"},
    {"one more than tiles", "f32", 1, 65, 129, false, BESIDE, "turn"},
    {"few lines", "f32", 1, 3, 300, false, BESIDE, "turn"},
    {"few columns", "f32", 1, 301, 2, false, COPY, "turn"},
    {"lines of two", "f32", 40, 70, 2, true, BESIDE, "turn"},
    {"lines of three to go to", "u8", 3, 70, 90, true, BESIDE, "turn"},
    {"lines of 33", "f16", 5, 35, 33, false, BOTH_WAYS, "turn"},
    {"bytes", "u8", 2, 66, 130, false, BESIDE, "turn"},
    {"halves", "f16", 1, 67, 90, true, BOTH_WAYS, "turn"},
    {"brain floats", "bf16", 5, 33, 70, false, BOTH_WAYS, "turn"},
    {"doubles", "f64", 2, 40, 41, true, BESIDE, "turn"},
    {"integers", "i64", 1, 34, 95, false, BOTH_WAYS, "turn"},
    {"truth", "bool", 1, 70, 35, true, COPY, "turn"},
    {"stored both ways", "f32", 2, 45, 83, true, BOTH_WAYS, "turn"},
    {"words of halves", "f16", 3, 42, 74, true, BOTH_WAYS, "pack"},
    {"words both ways", "bf16", 1, 70, 66, false, BOTH_WAYS, "pack"},
    {"words of four bytes", "u8", 1, 68, 132, false, BESIDE, "pack"},
    {"words of two bytes", "i8", 1, 66, 70, false, BOTH_WAYS, "pack"},
    {"lines that end within words", "bf16", 4, 33, 72, false, BESIDE, "pack"},
    {"odd lines from words", "f16", 3, 35, 68, true, COPY, "pack"},
    {"odd lines to words", "f16", 3, 70, 33, false, COPY, "pack"},
    {"what lies beside", "f32", 2, 37, 71, false, BESIDE, "ahead"},
    {"words beside", "f16", 1, 66, 71, false, BESIDE, "ahead"},
    {"more beside than registers hold", "f64", 1, 70, 66, false, BESIDE, "turn"},
    {"one for each line", "bf16", 1, 62, 201, false, BESIDE_LINES, "ahead"},
    {"one for each long line", "f32", 3, 30, 75, true, BESIDE_LINES, "ahead"},
    {"lines of eight and five and four", "bf16", 20, 8, 75, false, BESIDE_LINES, "ahead"},
    {"lines of five tiles", "f16", 5, 32, 131, false, BESIDE, "turn"},
};

static void text_of(const turned *t, char *out, size_t size) {
  char x[64], y[64], flat[64], across[64];
  const char *d = t->dtype;
  int n = 0, q = t->back ? t->b : t->a, r = t->back ? t->a : t->b;
  snprintf(x, sizeof x, "%d %d %d", t->a, t->b, t->c);
  snprintf(flat, sizeof flat, "%s[%d,%d,%d]", d, t->a, t->b, t->c);
  snprintf(y, sizeof y, "%d %d %d", t->c, q, r);
  snprintf(across, sizeof across, "%s[%d,%d,%d]", d, t->c, q, r);
#define PUT(...) n += snprintf(out + n, size - (size_t)n, __VA_ARGS__)
  PUT("%%1 = param %s %s {0 0}\n%%2 = permute %s %%1 {%s}\n", flat, x, across, t->back ? "2 1 0" : "2 0 1");
  if (t->form == BESIDE_LINES) {
    PUT("%%3 = param %s[%d] %d {1 0}\n%%8 = reshape %s[%d,1,1] %%3 %d 1 1\n", d, t->c, t->c, d, t->c, t->c);
    PUT("%%9 = expand %s %%8 %s\n%%4 = add %s %%2 %%9\n", across, y, across);
  } else if (t->form != COPY) {
    PUT("%%3 = param %s %s {1 0}\n%%4 = add %s %%2 %%3\n", across, y, across);
  }
  if (t->form == COPY) PUT("%%4 = max %s %%2 %%2\n", across);
  if (t->form == BOTH_WAYS) {
    PUT("%%5 = permute %s %%4 {%s}\n", flat, t->back ? "2 1 0" : "1 2 0");
    PUT("%%6 = mul %s %%5 %%1\n%%7 = sink void %%4 %%6 {\"outputs\"}\n", flat);
  } else {
    PUT("%%7 = sink void %%4 {\"outputs\"}\n");
  }
#undef PUT
}

static void try(const char *device, const tn__variant *v, const turned *t, bool plain) {
  static unsigned long seen;
  char text[2048], why[512];
  if (!is_taken(&seen)) return;
  text_of(t, text, sizeof text);
  if (!coverage_takes(device, v, t->step, text, plain, why, sizeof why))
    fail_msg("%s, %s, %s: %s\n%s", t->name, v->name, device, why, text);
}

static void all_ways(void **state) {
  static const char *const devices[] = {"ref:sm_80", "ref:opencl", "ref:sm_90"};
  size_t seen = 0;
  (void)state;
  for (uint32_t n = 0; tn__variant_at(n); n++) {
    const tn__variant *v = tn__variant_at(n);
    if (!v->turn) continue;
    for (size_t i = 0; i < sizeof rows / sizeof *rows; i++) /* all devices have room for small tiles of all of these */
      try(devices[v->turn > 32 ? i % 2 * 2 : i % 3], v, &rows[i], (seen + i) % 2);
    seen++;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(all_ways)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
