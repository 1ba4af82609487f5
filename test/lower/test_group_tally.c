/* Counts by key of a group's threads, those in step with a table together, or each with one of its own: how many of a
 * row have each key, and how many up to each element have its own, are what a plain loop counts, whatever the length,
 * the keys and what stands around; so are sorts that are made of them.  Each schedule is compared with its graph, and
 * its kernels' threads are proved to keep apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "ir/ctx.h"
#include "support/device.h"
#include "support/explained.h"
#include "support/terms.h"
#include <stdlib.h>
#include <string.h>

typedef struct program {
  const char *name;
  tn_tensor *(*make)(tn_tensor *x, const struct program *p);
  int dtype, keys, terms;
  tn_dim outer, n;  /* x[outer, n], of so many keys */
  const char *step; /* what a kernel's note says; NULL: no kernel has tables */
} program;

/* ---- what is computed ---- */

static tn_tensor *counts_of(tn_tensor *x, const program *p, int keys) {
  tn_tensor *key = tn_unsqueeze(x, 1), *number = tn_arange(tn_ctx_of(x), TN_I32, 0, keys, 1);
  tn_tensor *is = tn_eq(tn_cast(key, TN_I32), tn_reshape(number, (tn_dim[]){1, keys, 1}, 3));
  return (void)p, tn_sum(tn_cast(is, TN_I32), (int[]){2}, 1, false);
}
static tn_tensor *counts(tn_tensor *x, const program *p) { return counts_of(x, p, p->keys); }
static tn_tensor *twice_counts(tn_tensor *x, const program *p) { return tn_add(counts(x, p), counts(x, p)); }
/* ... of keys some of which have no place, so that no table has room for all */
static tn_tensor *counts_of_few(tn_tensor *x, const program *p) { return counts_of(x, p, p->keys / 2); }

static tn_tensor *ranks(tn_tensor *x, const program *p) {
  tn_tensor *equal = tn_eq(tn_unsqueeze(x, 2), tn_unsqueeze(x, 1));
  equal = tn_logical_and(equal, chosen(numbers(x, p->n, 3, 1), numbers(x, p->n, 3, 2), p->terms));
  return tn_sum(tn_cast(equal, TN_I32), (int[]){2}, 1, false);
}
/* ... with something made of the key and of the place beside them */
static tn_tensor *ranks_beside(tn_tensor *x, const program *p) {
  return tn_add(tn_mul_scalar(ranks(x, p), 3), tn_sub(tn_cast(x, TN_I32), numbers(x, p->n, 2, 1)));
}
/* ... and with another sum, or another count */
static tn_tensor *ranks_and_sum(tn_tensor *x, const program *p) {
  return tn_add(ranks(x, p), tn_sum(tn_cast(x, TN_I32), (int[]){1}, 1, true));
}
static tn_tensor *two_ranks(tn_tensor *x, const program *p) {
  tn_tensor *is_low = tn_cast(tn_lt(x, tn_full_like(x, p->keys / 2)), TN_U8);
  return tn_sub(ranks(x, p), tn_mul_scalar(ranks(is_low, p), 2));
}
/* ... and what is looked up by the key */
static tn_tensor *ranks_from(tn_tensor *x, const program *p) {
  int32_t begin[256];
  for (int k = 0; k < 256; k++) begin[k] = 1000 * (k % 7);
  tn_tensor *from = tn_from(tn_ctx_of(x), TN_I32, (tn_dim[]){256}, 1, begin);
  return tn_add(ranks(x, p), tn_take(from, tn_cast(x, TN_I32), 0));
}
static tn_tensor *order(tn_tensor *x, const program *p) { return (void)p, tn_argsort(x, 1, false); }
static tn_tensor *backwards(tn_tensor *x, const program *p) { return (void)p, tn_argsort(x, 1, true); }
static tn_tensor *sorted(tn_tensor *x, const program *p) { return (void)p, tn_sort(x, 1, false); }

/* ---- what a plain loop gives ---- */

static int64_t element(const program *p, tn_dim at) {
  uint64_t mixed = (uint64_t)at * 0x9e3779b97f4a7c15u;
  return at % p->n < p->n / 4 ? p->keys - 1 : (int64_t)(mixed >> 40) % p->keys; /* many alike, one after the other */
}

static bool is_rank(const program *p) {
  return p->make == ranks || p->make == ranks_beside || p->make == ranks_from || p->make == ranks_and_sum ||
         p->make == two_ranks;
}

static void row(const program *p, tn_dim r, int64_t *y) {
  int64_t *seen = calloc((size_t)p->keys + 1, sizeof *seen), low[2] = {0}, sum = 0;
  assert_non_null(seen);
  bool down = p->make == backwards, sorts = down || p->make == order || p->make == sorted;
  for (tn_dim i = 0; i < p->n; i++) {
    int64_t key = element(p, r * p->n + i);
    if (is_rank(p)) y[i] = seen[key] + (p->terms == UPTO);
    if (p->make == ranks_beside) y[i] = 3 * y[i] + key - i;
    if (p->make == ranks_from) y[i] += 1000 * (key % 7);
    sum += key;
    if (p->make == two_ranks) y[i] -= 2 * (low[key < p->keys / 2] + (p->terms == UPTO));
    low[key < p->keys / 2]++;
    seen[key]++;
  }
  for (tn_dim i = 0; i < p->n && p->make == ranks_and_sum; i++) y[i] += sum;
  for (tn_dim i = 0; i < p->n && p->terms == FROM; i++) y[i] = seen[element(p, r * p->n + i)] - y[i];
  for (int k = 0; k < p->keys && p->make == counts; k++) y[k] = seen[k];
  for (int k = 0; k < p->keys && p->make == twice_counts; k++) y[k] = 2 * seen[k];
  for (int k = 0; k < p->keys / 2 && p->make == counts_of_few; k++) y[k] = seen[k];
  for (int64_t k = 0, at = 0; k < p->keys && sorts; k++)
    for (tn_dim i = 0, key = down ? p->keys - 1 - k : k; i < p->n; i++)
      if (element(p, r * p->n + i) == key) y[at++] = p->make == sorted ? key : i;
  free(seen);
}

static tn_dim width(const program *p) {
  return p->make == counts || p->make == twice_counts ? p->keys : p->make == counts_of_few ? p->keys / 2 : p->n;
}

/* ---- rows ---- */

static tn_tensor *made(tn_ctx *c, const void *of) {
  const program *p = of;
  tn_dim all = p->outer * p->n, shape[2] = {p->outer, p->n};
  int64_t *x = malloc((size_t)all * sizeof *x);
  assert_non_null(x);
  for (tn_dim at = 0; at < all; at++) x[at] = element(p, at);
  tn_tensor *t = tn_contiguous(tn_cast(tn_from(c, TN_I64, shape, 2, x), (tn_dtype)p->dtype));
  free(x);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  bool all_keys = p->make == order || p->make == backwards || p->make == sorted || p->keys > INT8_MAX + 1;
  tn_tensor *key = all_keys && p->dtype == TN_U8 ? t : tn_mod(t, tn_full(c, (tn_dtype)p->dtype, NULL, 0, p->keys));
  return tn_contiguous(tn_cast(p->make(key, p), TN_I64));
}

/* A device whose threads tell each other nothing */
static tn_tensor *made_alone(tn_ctx *c, const void *of) {
  tn__device_get(c, 0)->target.exchanges = false;
  return made(c, of);
}

static void check_steps(const void *of, const char *device, const char *text) {
  const program *p = of;
  if (p->step && !strstr(text, p->step)) fail_msg("%s on %s: no %s in\n%s", p->name, device, p->step, text);
  if (!p->step && strstr(text, " in step(32)")) fail_msg("%s on %s: tables in\n%s", p->name, device, text);
}

/* ... of those that have any in step */
static void check_alone(const void *of, const char *device, const char *text) {
  const program *p = of;
  bool tables = p->step && *p->step;
  if (tables && !strstr(text, " by(64x")) fail_msg("%s on %s: no tables in\n%s", p->name, device, text);
  if (!p->step && strstr(text, " by(64x")) fail_msg("%s on %s: tables in\n%s", p->name, device, text);
}

static void compare(const program *p, tn_options opt, bool alone) {
  static unsigned long seen;
  if (!is_taken(&seen)) return;
  const char *device = opt.device;
  size_t bytes = 0, all = (size_t)(p->outer * width(p));
  int64_t *y = malloc((size_t)(p->n + p->keys) * sizeof *y);
  int64_t *got = explained(opt, p->name, alone ? made_alone : made, alone ? check_alone : check_steps, p, &bytes);
  assert_non_null(y);
  assert_int_equal(bytes, all * sizeof *got);
  for (tn_dim r = 0; r < p->outer; r++) {
    row(p, r, y);
    for (tn_dim i = 0; i < width(p); i++)
      if (got[r * width(p) + i] != y[i])
        fail_msg("%s on %s: element %lld of row %lld is %lld, not %lld", p->name, device, (long long)i, (long long)r,
                 (long long)got[r * width(p) + i], (long long)y[i]);
  }
  free(got);
  free(y);
}

static const program programs[] = {
    {"counts", counts, TN_U8, 256, 0, 2, 256, " in step(32)"},
    {"counts of one row", counts, TN_U8, 64, 0, 1, 512, " in step(32)"},
    {"counts of few keys", counts, TN_I32, 4, 0, 1, 256, " in step(32)"},
    {"counts of wide keys", counts, TN_I64, 128, 0, 1, 256, " in step(32)"},
    {"counts twice", twice_counts, TN_U8, 16, 0, 1, 256, " in step(32)"},
    {"keys without a place", counts_of_few, TN_U8, 16, 0, 1, 256, NULL},
    {"more keys than a table has", counts, TN_U16, 512, 0, 1, 256, NULL},
    {"keys that are no power of two", counts, TN_U8, 24, 0, 1, 256, NULL},
    {"rows that threads do not divide", counts, TN_U8, 16, 0, 1, 250, NULL},
    {"longer rows than tables are for", counts, TN_U8, 16, 0, 1, 4352, NULL},
    {"ranks", ranks, TN_U8, 256, UPTO, 2, 256, " in step(32)"},
    {"those before", ranks, TN_U8, 256, BEFORE, 1, 256, " in step(32)"},
    {"ranks of one row", ranks, TN_U8, 256, BEFORE, 1, 512, " in step(32)"},
    {"ranks by few keys", ranks, TN_I32, 3, BEFORE, 1, 256, " in step(32)"},
    {"ranks by an odd number of keys", ranks, TN_I64, 101, UPTO, 1, 256, " in step(32)"},
    {"ranks beside what is made of keys", ranks_beside, TN_U8, 200, BEFORE, 2, 256, " in step(32)"},
    {"ranks from where each key begins", ranks_from, TN_U8, 16, BEFORE, 2, 256, " in step(32)"},
    {"ranks from where others begin", ranks_from, TN_I64, 101, UPTO, 1, 512, " in step(32)"},
    {"ranks beside a sum", ranks_and_sum, TN_U8, 16, UPTO, 2, 256, ""},
    {"ranks by two keys", two_ranks, TN_U8, 16, UPTO, 1, 256, ""},
    {"ranks from behind", ranks, TN_U8, 16, FROM, 1, 256, NULL},
};

/* ... and what is sorted by them, of lengths that no block divides */
static const program sorts[] = {
    {"order of bytes", order, TN_U8, 256, 0, 1, 30001, " in step(32)"},
    {"bytes in order", sorted, TN_U8, 256, 0, 1, 30001, " sends("},
    {"order of rows, downwards", backwards, TN_U8, 200, 0, 2, 20003, " sorted)"}, /* places by spans */
    {"order of equal ones", order, TN_U8, 1, 0, 1, 20003, " sends("},
    {"half floats in order", sorted, TN_BF16, 100, 0, 1, 20003, " sends("},
};

static void check_all(const program *p, size_t n, tn_options opt) {
  for (size_t i = 0; i < n; i++) compare(&p[i], opt, false);
}

enum { PROGRAMS = sizeof programs / sizeof *programs, SORTS = sizeof sorts / sizeof *sorts };

static void keys_are_counted(void **s) {
  (void)s;
  check_all(programs, PROGRAMS, (tn_options){.device = "ref:sm_90"});
}
static void so_in_mode_strict(void **s) {
  (void)s;
  for (size_t i = 0; i < PROGRAMS; i += 5) /* some of either kind */
    compare(&programs[i], (tn_options){.device = "ref:sm_80", .mode = TN_MODE_STRICT}, false);
}
static void keys_are_counted_alone(void **s) {
  (void)s;
  for (size_t i = 0; i < PROGRAMS; i += 2) compare(&programs[i], (tn_options){.device = "ref:sm_90"}, true);
  compare(&sorts[2], (tn_options){.device = "ref:sm_90", .verify = "off"}, true);
}
static void rows_are_sorted(void **s) {
  (void)s;
  check_all(sorts, SORTS, (tn_options){.device = "ref:sm_90", .verify = "off"});
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(keys_are_counted), cmocka_unit_test(so_in_mode_strict),
                                     cmocka_unit_test(rows_are_sorted),
                                     cmocka_unit_test(keys_are_counted_alone)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
