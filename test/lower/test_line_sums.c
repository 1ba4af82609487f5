/* Sums of lines by tables that groups have in shared memory: each place has the sum that a plain loop over its line's
 * updates finds, bit for bit, whether many meet, none comes, or some are of no place, along whichever axis and of
 * whatever dtype.  Each schedule is compared with its graph, its kernels' threads are proved to keep apart, and texts
 * are read back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "support/device.h"
#include "support/explained.h"
#include <string.h>

typedef enum to { DRAWN, ONE_PLACE, SOME_OUTSIDE, TURNS } to; /* where updates go */

typedef struct program {
  const char *name;
  tn_dim outer, places, inner, updates;
  to to;
  tn_dtype dtype, index;
  const char *step; /* what a kernel's note says; NULL: nobody has tables */
} program;

static int64_t place_of(const program *p, tn_dim i) {
  uint32_t h = (uint32_t)i * 2654435761u >> 7;
  switch (p->to) {
  case ONE_PLACE: return p->places / 2;
  case SOME_OUTSIDE: return (int64_t)(h % (uint32_t)(p->places + 30)) - 20;
  case TURNS: return i % p->places;
  default: return h % (uint32_t)p->places;
  }
}

/* Halves are sums of few bits, which are rounded once; of others sums are rounded: another order would show. */
static double element(const program *p, tn_dim at) {
  uint32_t h = (uint32_t)(at + 1) * 2246822519u >> 8;
  bool half = p->dtype == TN_F16 || p->dtype == TN_BF16;
  return half ? (double)(h % 9) - 4 : (double)(float)((double)h / 3e5 - 17);
}

static tn_tensor *numbers_of(tn_ctx *c, const program *p, const tn_dim *size, tn_dim from) {
  tn_dim n = size[0] * size[1] * size[2];
  double *x = malloc((size_t)n * sizeof *x);
  assert_non_null(x);
  for (tn_dim i = 0; i < n; i++) x[i] = element(p, from + i);
  tn_tensor *t = tn_cast(tn_from(c, TN_F64, size, 3, x), p->dtype);
  free(x);
  return tn_contiguous(t);
}

enum { BASE = 1000, UPDATES = 7 }; /* where their numbers begin */

static tn_tensor *made(tn_ctx *c, const void *of) {
  const program *p = of;
  tn__device_get(c, 0)->target.units = 2; /* fewer lines are enough to keep them busy */
  tn_dim size[] = {p->outer, p->places, p->inner}, by[] = {p->outer, p->updates, p->inner}, n = by[0] * by[1] * by[2];
  int64_t *at = malloc((size_t)n * sizeof *at);
  assert_non_null(at);
  for (tn_dim i = 0; i < n; i++) at[i] = place_of(p, i);
  tn_tensor *t[3] = {numbers_of(c, p, size, BASE), numbers_of(c, p, by, UPDATES),
                     tn_contiguous(tn_cast(tn_from(c, TN_I64, by, 3, at), p->index))};
  free(at);
  assert_int_equal(tn_realize(t, 3), TN_OK);
  return tn_contiguous(tn_scatter_add(t[0], 1, t[2], t[1]));
}

static void check_steps(const void *of, const char *device, const char *text) {
  const program *p = of;
  if (p->step && !strstr(text, p->step)) fail_msg("%s on %s: no %s in\n%s", p->name, device, p->step, text);
  if (!p->step && strstr(text, " lines(")) fail_msg("%s on %s: tables in\n%s", p->name, device, text);
}

static double read_element(const program *p, const void *got, tn_dim i) {
  return p->dtype == TN_F32 ? (double)((const float *)got)[i] : ((const double *)got)[i];
}

static double rounded(const program *p, double x) { return p->dtype == TN_F64 ? x : (double)(float)x; }

/* As f64, or as it is */
static tn_tensor *widened(tn_ctx *c, const void *of) {
  const program *p = of;
  tn_tensor *t = made(c, of);
  return p->dtype == TN_F32 ? t : tn_cast(t, TN_F64);
}

static void compare(const program *p, tn_options opt) {
  static unsigned long seen;
  if (!is_taken(&seen)) return;
  size_t bytes = 0;
  void *got = explained(opt, p->name, widened, check_steps, p, &bytes);
  tn_dim n = p->outer * p->places * p->inner;
  double *want = calloc((size_t)n, sizeof *want);
  assert_non_null(want);
  for (tn_dim o = 0; o < p->outer; o++)
    for (tn_dim u = 0; u < p->updates; u++)
      for (tn_dim i = 0; i < p->inner; i++) {
        tn_dim at = (o * p->updates + u) * p->inner + i;
        int64_t place = place_of(p, at);
        if (place < 0 || place >= p->places) continue;
        double *y = &want[(o * p->places + place) * p->inner + i];
        *y = rounded(p, *y + element(p, UPDATES + at));
      }
  for (tn_dim i = 0; i < n; i++) {
    double y = read_element(p, got, i), w = rounded(p, element(p, BASE + i) + want[i]);
    if (y != w) fail_msg("%s on %s: element %lld is %a, not %a", p->name, opt.device, (long long)i, y, w);
  }
  free(want);
  free(got);
}

static const program programs[] = {
    {"lines side by side", 61, 511, 1, 24, DRAWN, TN_F32, TN_I64, " lines(16x1)"},
    {"of an even number of places", 64, 512, 1, 41, SOME_OUTSIDE, TN_F32, TN_I64, " lines(16x1)"},
    {"all to one place", 63, 512, 1, 23, ONE_PLACE, TN_F32, TN_I32, " lines(16x1)"},
    {"few updates", 300, 100, 1, 15, TURNS, TN_F32, TN_I64, " lines(32x1)"},
    {"half floats", 61, 511, 1, 37, SOME_OUTSIDE, TN_F16, TN_I64, " lines(16x1)"},
    {"others", 61, 255, 1, 64, DRAWN, TN_BF16, TN_I32, " lines(32x1)"},
    {"wide numbers", 40, 600, 1, 29, SOME_OUTSIDE, TN_F64, TN_I64, " lines(8x1)"},
    {"lines three apart", 21, 201, 3, 30, SOME_OUTSIDE, TN_F32, TN_I64, " lines(8x3)"},
    {"lines across", 5, 100, 77, 45, SOME_OUTSIDE, TN_F32, TN_I64, " lines(1x32)"},
    {"lines across by twos", 10, 100, 90, 70, DRAWN, TN_F32, TN_U8, " lines(1x32)"},
    {"lines across, whole", 1, 200, 160, 26, DRAWN, TN_F16, TN_I32, " lines(1x32)"},
    {"long lines", 9, 10000, 1, 50, DRAWN, TN_F64, TN_I64, " lines(2x1)"},
    {"lines that no group holds", 4, 40000, 1, 50, DRAWN, TN_F32, TN_I64, NULL},
    {"few lines", 4, 30, 1, 20, DRAWN, TN_F32, TN_I64, NULL},
};

static void sums_are_those_of_loops(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    compare(&programs[i], (tn_options){.device = "ref:sm_90"});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(sums_are_those_of_loops)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
