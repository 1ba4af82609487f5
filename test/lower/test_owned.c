/* Rows that are added to places in order, by groups that own the places: each place has the sum that a plain loop
 * over the updates finds, bit for bit, whether many meet, none comes, or some are of no place, and whatever the rows'
 * length.  Each schedule is compared with its graph, its kernels' threads are proved to keep apart, and texts are read
 * back. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "lower/lower.h"
#include "support/device.h"
#include "support/explained.h"
#include <string.h>

typedef enum to { DRAWN, ONE_PLACE, SOME_OUTSIDE, FEW, TURNS } to; /* where updates go */
typedef enum made_of { ROWS, SQUARES, QUOTIENTS } made_of;         /* what is added, of one array or of two */

typedef struct program {
  const char *name;
  tn_dim places, width, updates;
  to to;
  tn_dtype dtype, index;
  bool zeros, apart; /* added to zeros; rows and indices of two axes */
  made_of added;
  const char *step;           /* what a kernel's note says; NULL: places are no group's */
  const char *by;             /* the variant; NULL: as usual */
} program;

static int64_t place_of(const program *p, tn_dim i) {
  uint32_t h = (uint32_t)i * 2654435761u >> 7;
  switch (p->to) {
  case ONE_PLACE: return p->places / 2;
  case SOME_OUTSIDE: return (int64_t)(h % (uint32_t)(p->places + 3)) - 2;
  case FEW: return h % 3 * (uint32_t)(p->places / 3);
  case TURNS: return i % p->places;
  default: return h % (uint32_t)p->places;
  }
}

enum { DIVISORS = 400000 /* where those begin */ };

/* Sums of these are rounded: another order would show. */
static double element(tn_dim at) { return (double)((uint32_t)(at + 1) * 2246822519u >> 8) / 3e5 - 17; }

static tn_tensor *numbers_of(tn_ctx *c, const program *p, tn_dim n, tn_dim from) {
  float *x = malloc((size_t)n * sizeof *x);
  assert_non_null(x);
  for (tn_dim i = 0; i < n; i++) x[i] = (float)element(from + i);
  tn_tensor *t = tn_cast(tn_from(c, TN_F32, &n, 1, x), p->dtype);
  free(x);
  return tn_contiguous(t);
}

static tn_tensor *made(tn_ctx *c, const void *of) {
  const program *p = of;
  if (p->by) assert_non_null(tn__device_get(c, 0)->usual = tn__variant_find(p->by));
  tn_dim rows = p->places * p->width, added = p->updates * p->width;
  int64_t *at = malloc((size_t)p->updates * sizeof *at);
  assert_non_null(at);
  for (tn_dim i = 0; i < p->updates; i++) at[i] = place_of(p, i);
  tn_tensor *t[4] = {numbers_of(c, p, added, 7), numbers_of(c, p, rows, 1000),
                     tn_contiguous(tn_cast(tn_from(c, TN_I64, &p->updates, 1, at), p->index)),
                     numbers_of(c, p, added, DIVISORS)};
  free(at);
  assert_int_equal(tn_realize(t, 4), TN_OK);
  tn_dim half = p->apart ? 2 : 1, rest = p->width / half;
  tn_dim shape[] = {p->places, half, rest}, by[] = {p->updates, half, rest};
  tn_tensor *base = p->zeros ? tn_zeros(c, p->dtype, shape, 3) : tn_reshape(t[1], shape, 3);
  tn_tensor *update = tn_reshape(t[0], by, 3);
  if (p->added == SQUARES) update = tn_mul(update, update);
  if (p->added == QUOTIENTS) update = tn_div(update, tn_reshape(t[3], by, 3));
  return tn_contiguous(tn_index_add(base, 0, t[2], update));
}

static void check_steps(const void *of, const char *device, const char *text) {
  const program *p = of;
  if (p->step && !strstr(text, p->step)) fail_msg("%s on %s: no %s in\n%s", p->name, device, p->step, text);
  if (!p->step && strstr(text, " owns(")) fail_msg("%s on %s: owned in\n%s", p->name, device, text);
  if (p->step && strstr(text, "__global__") && !strstr(text, "    tn_own_places<"))
    fail_msg("%s on %s: no turns in\n%s", p->name, device, text);
  if (p->step && strstr(text, "__global__") && !strstr(text, p->by ? ", false>(b" : ", true>(b"))
    fail_msg("%s on %s: other places begin in\n%s", p->name, device, text);
  /* all is fetched before anything is made of it, for which threads might branch */
  if (p->added == QUOTIENTS && strstr(text, "__global__") && !strstr(text, "return tn_row<f32, f32>{"))
    fail_msg("%s on %s: no rows in\n%s", p->name, device, text);
}

static double rounded(const program *p, double x) { return p->dtype == TN_F32 ? (double)(float)x : x; }

static void compare(const program *p, tn_options opt) {
  static unsigned long seen;
  if (!is_taken(&seen)) return;
  size_t bytes = 0, size = p->dtype == TN_F32 ? sizeof(float) : sizeof(double);
  void *got = explained(opt, p->name, made, check_steps, p, &bytes);
  double *want = malloc((size_t)(p->places * p->width) * sizeof *want);
  assert_non_null(want);
  assert_int_equal(bytes, (size_t)(p->places * p->width) * size);
  for (tn_dim i = 0; i < p->places * p->width; i++) want[i] = p->zeros ? 0 : (double)(float)element(1000 + i);
  for (tn_dim i = 0; i < p->updates; i++)
    for (tn_dim x = 0; x < p->width; x++) {
      int64_t at = place_of(p, i);
      if (at < 0 || at >= p->places) continue;
      double update = (double)(float)element(7 + i * p->width + x), *y = &want[at * p->width + x];
      if (p->added == SQUARES) update *= update;
      if (p->added == QUOTIENTS) update /= (double)(float)element(DIVISORS + i * p->width + x);
      *y = rounded(p, *y + rounded(p, update));
    }
  for (tn_dim i = 0; i < p->places * p->width; i++) {
    double y = size == sizeof(float) ? (double)((float *)got)[i] : ((double *)got)[i];
    if (y != want[i])
      fail_msg("%s on %s: element %lld of row %lld is %a, not %a", p->name, opt.device, (long long)(i % p->width),
               (long long)(i / p->width), y, want[i]);
  }
  free(want);
  free(got);
}

static const program programs[] = {
    {"rows of whole warps", 100, 64, 300, DRAWN, TN_F32, TN_I64, false, false, ROWS, " owns(49x1)", NULL},
    {"added to zeros", 70, 32, 90, DRAWN, TN_F32, TN_I64, true, false, ROWS, " owns(35x1)", NULL},
    {"rows of odd lengths", 37, 45, 200, DRAWN, TN_F32, TN_I64, false, false, ROWS, " owns(17x1)", NULL},
    {"short rows", 300, 5, 33, DRAWN, TN_F32, TN_I32, true, false, ROWS, " owns(", NULL},
    {"all to one place", 64, 33, 150, ONE_PLACE, TN_F32, TN_I64, false, false, ROWS, " owns(", NULL},
    {"some to no place", 50, 40, 170, SOME_OUTSIDE, TN_F32, TN_I64, false, false, ROWS, " owns(", NULL},
    {"some to no place, by 32 bits", 50, 32, 100, SOME_OUTSIDE, TN_F32, TN_I32, true, false, ROWS, " owns(", NULL},
    {"few places of many", 999, 33, 120, FEW, TN_F32, TN_I64, false, false, ROWS, " owns(", NULL},
    {"one after the other", 16, 96, 70, TURNS, TN_F32, TN_I64, true, false, ROWS, " owns(7x1)", NULL},
    {"one update", 40, 64, 1, DRAWN, TN_F32, TN_I64, false, false, ROWS, NULL, NULL},
    {"wide numbers", 60, 40, 100, DRAWN, TN_F64, TN_I64, false, false, ROWS, " owns(", NULL},
    {"rows of two axes", 60, 40, 100, DRAWN, TN_F32, TN_I64, false, true, ROWS, " owns(", NULL},
    {"what is made of others", 60, 34, 100, DRAWN, TN_F32, TN_I64, true, false, SQUARES, " owns(", NULL},
    {"what is made of two others", 60, 34, 100, DRAWN, TN_F32, TN_I64, true, false, QUOTIENTS, " owns(", NULL},
    {"few of two others", 16, 70, 32, SOME_OUTSIDE, TN_F32, TN_I64, false, false, QUOTIENTS, " owns(", NULL},
    {"places that bytes say", 900, 40, 120, TURNS, TN_F32, TN_U8, false, false, ROWS, " owns(", NULL},
    {"single numbers", 60, 1, 100, DRAWN, TN_F32, TN_I64, false, false, ROWS, NULL, NULL},
};
/* What places begin with is stored by a launch before. */
static const program begun[] = {
    {"begun rows of whole warps", 100, 64, 300, DRAWN, TN_F32, TN_I64, false, false, ROWS, " owns(49x1)", "begun"},
    {"begun zeros", 70, 32, 90, DRAWN, TN_F32, TN_I64, true, false, ROWS, " owns(35x1)", "begun"},
    {"begun rows of odd lengths", 37, 45, 200, DRAWN, TN_F32, TN_I64, false, false, ROWS, " owns(17x1)", "begun"},
    {"begun short rows", 300, 5, 33, DRAWN, TN_F32, TN_I32, true, false, ROWS, " owns(", "begun"},
    {"begun, all to one place", 64, 33, 150, ONE_PLACE, TN_F32, TN_I64, false, false, ROWS, " owns(", "begun"},
    {"begun, some to no place", 50, 40, 170, SOME_OUTSIDE, TN_F32, TN_I64, false, false, ROWS, " owns(", "begun"},
    {"begun, one after the other", 16, 96, 7000, TURNS, TN_F32, TN_I64, false, false, ROWS, " owns(7x1)", "begun"},
    {"begun wide numbers", 60, 40, 100, DRAWN, TN_F64, TN_I64, false, false, ROWS, " owns(", "begun"},
    {"begun rows of two axes", 60, 40, 100, DRAWN, TN_F32, TN_I64, false, true, ROWS, " owns(", "begun"},
    {"begun quotients", 60, 34, 100, DRAWN, TN_F32, TN_I64, false, false, QUOTIENTS, " owns(", "begun"},
};
/* Where no mode asks for the order, of those that are many enough */
static const program many[] = {
    {"many", 130, 512, 260, DRAWN, TN_F32, TN_I64, false, false, ROWS, " owns(65x2)", NULL},
    {"few places of long rows", 9, 20000, 40, FEW, TN_F32, TN_I64, false, false, ROWS, " owns(", NULL},
};

#define ALL(list, opt) \
  for (size_t i = 0; i < sizeof(list) / sizeof *(list); i++) compare(&(list)[i], opt)

static void rows_are_added(void **s) {
  (void)s;
  ALL(programs, ((tn_options){.device = "ref:sm_90", .mode = TN_MODE_STRICT}));
}
static void so_where_places_are_begun(void **s) {
  (void)s;
  ALL(begun, ((tn_options){.device = "ref:sm_90", .mode = TN_MODE_STRICT}));
}
static void so_on_other_devices(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i += 3)
    compare(&programs[i], (tn_options){.device = "ref:sm_80", .mode = TN_MODE_STRICT});
}
static void so_where_they_are_many(void **s) {
  (void)s;
  ALL(many, ((tn_options){.device = "ref:sm_90"}));
}

/* What places begin with is reduced: its kernel is one of rows, not of groups that own places, nor one loop. */
static tn_tensor *to_softmax(tn_ctx *c, const void *of) {
  const program *p = of;
  tn_dim rows[] = {p->places, p->width}, by[] = {p->updates, p->width};
  tn_tensor *t[] = {tn_reshape(numbers_of(c, p, rows[0] * rows[1], 1000), rows, 2),
                    tn_reshape(numbers_of(c, p, by[0] * by[1], 7), by, 2),
                    tn_contiguous(tn_mod_scalar(tn_arange(c, TN_I64, 0, (double)p->updates, 1), (double)p->places))};
  assert_int_equal(tn_realize(t, 3), TN_OK);
  return tn_contiguous(tn_index_add(tn_softmax(t[0], 1), 0, t[2], t[1]));
}
static void not_where_a_base_is_reduced(void **s) {
  static const program p = {"to softmax", 130, 64, 600, TURNS, TN_F32, TN_I64, false, false, ROWS, NULL, NULL};
  size_t bytes = 0;
  (void)s;
  free(explained((tn_options){.device = "ref:sm_90"}, p.name, to_softmax, check_steps, &p, &bytes));
  assert_int_equal(bytes, (size_t)(p.places * p.width) * sizeof(float));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(rows_are_added), cmocka_unit_test(so_where_places_are_begun),
                                     cmocka_unit_test(so_on_other_devices),
                                     cmocka_unit_test(so_where_they_are_many),
                                     cmocka_unit_test(not_where_a_base_is_reduced)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
