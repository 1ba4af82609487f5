/* Sums that run along a loop, and sums by key: what compiled kernels keep from turn to turn is to the bit what plain
 * loops begin anew, in order, whatever the sizes, the dtypes and the number of threads; turns in the opposite order
 * give the same integers. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/explained.h"
#include "support/graph.h"
#include "support/host_numbers.h"
#include "support/terms.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { DRAWS = 40 };
enum { PLUS, TIMES, LEAST, GREATEST };

typedef struct program {
  const char *name;
  tn_tensor *(*make)(tn_tensor *x, const struct program *p);
  int dtype, terms, op, keys;
  tn_dim outer, n, inner; /* x[outer, n, inner] */
  const char *step;       /* what the kernel's notes say; NULL: neither of these */
} program;

static tn_tensor *combined(tn_tensor *where, tn_tensor *x, int op) {
  static const double nothing[] = {[PLUS] = 0, [TIMES] = 1, [LEAST] = INFINITY, [GREATEST] = -INFINITY};
  tn_tensor *none = tn_full_like(x, nothing[op]);
  x = tn_where(where, x, none);
  switch (op) {
  case PLUS: return tn_sum(x, (int[]){2}, 1, false);
  case TIMES: return tn_prod(x, (int[]){2}, 1, false);
  case LEAST: return tn_min(x, (int[]){2}, 1, false);
  default: return tn_max(x, (int[]){2}, 1, false);
  }
}

/* y[a, i, b] = the sum over j of (i takes j ? x[a, j, b] : 0), as a user would write it */
static tn_tensor *masked(tn_tensor *x, const program *p) {
  tn_tensor *own = numbers(x, p->n, 4, 1), *term = numbers(x, p->n, 4, 2);
  return combined(chosen(own, term, p->terms), tn_unsqueeze(x, 1), p->op);
}
/* ... fused with what stands around, which is read in the turns' order */
static tn_tensor *between(tn_tensor *x, const program *p) {
  return tn_contiguous(tn_add(tn_mul(masked(tn_mul(x, x), p), x), tn_flip(x, (int[]){1}, 1)));
}
/* ... of only the first few turns */
static tn_tensor *of_few(tn_tensor *x, const program *p) {
  return tn_contiguous(tn_slice(masked(x, p), 1, 0, p->n / 2 + 1, 1));
}
/* ... twice along one loop */
static tn_tensor *twice(tn_tensor *x, const program *p) {
  return tn_sub(masked(x, p), masked(tn_add_scalar(x, 1), p));
}

/* ... below a maximum along the last axis: what would run along the turns would have to do so for each of its terms */
static tn_tensor *below(tn_tensor *x, const program *p) {
  return tn_max(masked(x, p), (int[]){2}, 1, false);
}
/* ... beside one along the last axis, which is as long */
static tn_tensor *two_axes(tn_tensor *x, const program *p) {
  tn_tensor *across = tn_transpose(masked(tn_contiguous(tn_transpose(x, 1, 2)), p), 1, 2);
  return tn_add(masked(x, p), tn_contiguous(tn_mul(across, tn_cast(masked(x, p), tn_dtype_of(x)))));
}
/* ... of both axes in one kernel */
static tn_tensor *both_axes(tn_tensor *x, const program *p) {
  tn_tensor *own = numbers(x, p->n, 4, 2), *term = numbers(x, p->n, 4, 3);
  tn_tensor *z = tn_sum(tn_where(chosen(own, term, p->terms), tn_unsqueeze(x, 2), tn_full_like(tn_unsqueeze(x, 2), 0)),
                        (int[]){3}, 1, false);
  return tn_add(masked(x, p), z);
}

static tn_tensor *scan(tn_tensor *x, const program *p) {
  return p->op == TIMES ? tn_cumprod(x, 1) : tn_cumsum(x, 1);
}

/* ... which is the same for whole groups of threads */
static tn_tensor *spread(tn_tensor *x, const program *p) {
  return tn_contiguous(tn_cumsum(tn_expand(x, (tn_dim[]){p->outer, p->n, 4096}, 3), 1));
}

/* x[outer, n] -> [outer, keys]: how many of a row, or the sum of those, that have each key; of [outer, n, 1] */
static tn_tensor *keys_of(tn_tensor *x, const program *p) {
  return tn_cast(tn_mod(tn_cast(x, TN_I32), tn_full(tn_ctx_of(x), TN_I32, NULL, 0, p->keys)), TN_U8);
}
static tn_tensor *is_key(tn_tensor *x, const program *p, tn_dim keys) {
  tn_tensor *key = tn_contiguous(tn_reshape(keys_of(x, p), (tn_dim[]){p->outer, 1, p->n}, 3));
  return tn_eq(tn_cast(key, TN_I32), tn_reshape(tn_arange(tn_ctx_of(x), TN_I32, 0, (double)keys, 1),
                                                (tn_dim[]){1, keys, 1}, 3));
}
static tn_tensor *counts(tn_tensor *x, const program *p) {
  return tn_sum(tn_cast(is_key(x, p, p->keys), TN_I32), (int[]){2}, 1, false);
}
static tn_tensor *counts_of_few(tn_tensor *x, const program *p) { /* some keys have no place */
  return tn_sum(tn_cast(is_key(x, p, p->keys / 2), TN_I32), (int[]){2}, 1, false);
}
static tn_tensor *sums_by_key(tn_tensor *x, const program *p) {
  tn_tensor *row = tn_reshape(x, (tn_dim[]){p->outer, 1, p->n}, 3);
  return tn_sum(tn_where(is_key(x, p, 256), row, tn_full_like(row, 0)), (int[]){2}, 1, false);
}
/* ... below a sum over all rows, which would fill one table again and again */
static tn_tensor *counts_below(tn_tensor *x, const program *p) {
  return tn_sum(tn_square(tn_cast(counts(x, p), TN_F32)), (int[]){0}, 1, false);
}
/* ... beside what runs along the rows */
static tn_tensor *counts_beside(tn_tensor *x, const program *p) {
  tn_tensor *row = tn_reshape(tn_slice(x, 1, 0, 1, 1), (tn_dim[]){1, p->outer}, 2);
  tn_tensor *own = numbers(x, p->outer, 2, 0), *term = numbers(x, p->outer, 2, 1);
  tn_tensor *so_far = tn_sum(tn_where(tn_le(term, own), row, tn_full_like(row, 0)), (int[]){1}, 1, true);
  return tn_mul(so_far, counts(x, p));
}
/* ... alike for each of many */
static tn_tensor *shared_counts(tn_tensor *x, const program *p) {
  tn_tensor *many = tn_reshape(tn_arange(tn_ctx_of(x), TN_I32, 0, 50.0 * p->keys, 1), (tn_dim[]){50, p->keys}, 2);
  return tn_add(many, counts(x, p));
}
/* What runs along the rows, beside sums of each row that it would work out again */
static tn_tensor *beside_sums(tn_tensor *x, const program *p) {
  return tn_div(masked(x, p), tn_add_scalar(tn_sum(tn_abs(x), (int[]){2}, 1, true), 1));
}
/* The sum over a column's first few elements of what differs between them and another */
static tn_tensor *distances(tn_tensor *of, tn_tensor *x, const program *p) {
  tn_tensor *few = tn_unsqueeze(tn_slice(x, 1, 0, p->n < 3 ? p->n : 3, 1), 1), *from = tn_unsqueeze(of, 2);
  return tn_sum(tn_sub(tn_maximum(from, few), tn_minimum(from, few)), (int[]){2}, 1, false);
}
/* What runs along the rows, beside sums that each turn has for its own, before and behind it; and with a sum of it in
 * each turn */
static tn_tensor *beside_own(tn_tensor *x, const program *p) {
  tn_tensor *so_far = masked(x, p), *before = tn_lt(distances(tn_add(x, x), x, p), x);
  return tn_maximum(tn_where(tn_lt(so_far, x), x, distances(x, x, p)), tn_where(before, x, so_far));
}
static tn_tensor *within_own(tn_tensor *x, const program *p) { return distances(masked(x, p), x, p); }

/* y[a, i] = how many, or the sum, of those up to i that have the key of i */
static tn_tensor *alike(tn_tensor *x, const program *p) {
  tn_tensor *key = tn_contiguous(tn_reshape(keys_of(x, p), (tn_dim[]){p->outer, p->n}, 2));
  tn_tensor *own = numbers(x, p->n, 3, 1), *term = numbers(x, p->n, 3, 2);
  tn_tensor *equal = tn_eq(tn_unsqueeze(key, 2), tn_unsqueeze(key, 1));
  return tn_logical_and(equal, chosen(own, term, p->terms));
}
static tn_tensor *ranks(tn_tensor *x, const program *p) {
  return tn_sum(tn_cast(alike(x, p), TN_I32), (int[]){2}, 1, false);
}
static tn_tensor *sums_so_far(tn_tensor *x, const program *p) {
  tn_tensor *row = tn_reshape(x, (tn_dim[]){p->outer, 1, p->n}, 3);
  return tn_sum(tn_where(alike(x, p), row, tn_full_like(row, 0)), (int[]){2}, 1, false);
}

static const program programs[] = {
    {"a row", masked, TN_F32, UPTO, PLUS, 0, 1, 37, 1, "running("},
    {"rows", masked, TN_F32, UPTO, PLUS, 0, 7, 19, 1, "running("},
    {"columns", masked, TN_F32, UPTO, PLUS, 0, 1, 19, 40, "running("},
    {"rows of columns", masked, TN_F64, UPTO, PLUS, 0, 3, 11, 35, "running("},
    {"few columns", masked, TN_F32, UPTO, PLUS, 0, 3, 11, 3, "running("},
    {"those before", masked, TN_F32, BEFORE, PLUS, 0, 5, 19, 1, "running("},
    {"those before, of columns", masked, TN_F32, BEFORE, PLUS, 0, 5, 19, 33, "running("},
    {"products", masked, TN_F32, UPTO, TIMES, 0, 5, 9, 1, "running("},
    {"products of those before", masked, TN_F64, BEFORE, TIMES, 0, 5, 9, 2, "running("},
    {"minima", masked, TN_F32, UPTO, LEAST, 0, 5, 19, 1, "running("},
    {"maxima in columns", masked, TN_F32, BEFORE, GREATEST, 0, 5, 19, 33, "running("},
    {"maxima backwards", masked, TN_F64, FROM, GREATEST, 0, 5, 19, 1, NULL},
    {"backwards", masked, TN_I32, FROM, PLUS, 0, 5, 19, 1, "running("},
    {"backwards in columns", masked, TN_I64, FROM, PLUS, 0, 5, 19, 21, "running("},
    {"those behind", masked, TN_I32, BEHIND, PLUS, 0, 5, 19, 1, "running("},
    {"floats backwards stay in order", masked, TN_F32, FROM, PLUS, 0, 5, 19, 1, NULL},
    {"bf16", masked, TN_BF16, UPTO, PLUS, 0, 5, 19, 1, "running("},
    {"f16 in columns", masked, TN_F16, BEFORE, PLUS, 0, 5, 19, 18, "running("},
    {"bytes", masked, TN_U8, UPTO, PLUS, 0, 5, 19, 1, "running("},
    {"fused", between, TN_F32, UPTO, PLUS, 0, 5, 19, 4, "running("},
    {"fused, those before", between, TN_F32, BEFORE, PLUS, 0, 5, 19, 1, "running("},
    {"fused backwards", between, TN_I32, FROM, PLUS, 0, 5, 19, 1, "running("},
    {"few turns", of_few, TN_F32, UPTO, PLUS, 0, 5, 19, 1, "running("},
    {"few turns backwards", of_few, TN_I32, FROM, PLUS, 0, 5, 19, 3, "running("},
    {"few turns, those behind", of_few, TN_I32, BEHIND, PLUS, 0, 5, 19, 1, "running("},
    {"two sums", twice, TN_F32, UPTO, PLUS, 0, 5, 19, 1, "running("},
    {"below a maximum", below, TN_F32, UPTO, PLUS, 0, 5, 19, 4, NULL},
    {"along two axes", two_axes, TN_F32, UPTO, PLUS, 0, 5, 12, 12, "running("},
    {"along both axes", both_axes, TN_F32, UPTO, PLUS, 0, 5, 12, 12, "running("},
    {"beside sums of rows", beside_sums, TN_F32, UPTO, PLUS, 0, 5, 19, 30, NULL},
    {"beside a sum of each turn", beside_own, TN_F32, UPTO, PLUS, 0, 1, 19, 1, "running("},
    {"beside a sum of each turn, in columns", beside_own, TN_F32, UPTO, TIMES, 0, 3, 5, 40, "running("},
    {"backwards, beside a sum of each turn", beside_own, TN_I32, FROM, PLUS, 0, 3, 5, 40, "running("},
    {"in a sum of each turn", within_own, TN_F64, UPTO, PLUS, 0, 3, 5, 1, "running("},
    {"in a sum of each turn, in columns", within_own, TN_F32, BEFORE, GREATEST, 0, 3, 5, 40, "running("},
    {"one turn", masked, TN_F32, UPTO, PLUS, 0, 5, 1, 3, NULL},
    {"a scan of blocks", scan, TN_F32, UPTO, PLUS, 0, 3, 128, 1, "running("},
    {"a scan with a short last block", scan, TN_F32, UPTO, PLUS, 0, 3, 1037, 1, "cut("},
    {"a scan of products", scan, TN_F64, UPTO, TIMES, 0, 2, 50, 1, "cut("},
    {"a scan of columns", scan, TN_F32, UPTO, PLUS, 0, 2, 50, 20, "running("},
    {"counts", counts, TN_I32, 0, 0, 13, 1, 500, 1, "tally("},
    {"counts of rows", counts, TN_I32, 0, 0, 13, 5, 100, 1, "tally("},
    {"counts below a sum", counts_below, TN_I32, 0, 0, 13, 5, 100, 1, NULL},
    {"counts beside a running sum", counts_beside, TN_I32, 0, 0, 13, 5, 100, 1, "running("},
    {"counts of all", shared_counts, TN_I32, 0, 0, 13, 1, 100, 1, NULL},
    {"counts of some keys", counts_of_few, TN_I32, 0, 0, 13, 5, 100, 1, "tally("},
    {"sums by key", sums_by_key, TN_F32, 0, 0, 29, 5, 100, 1, "tally("},
    {"ranks", ranks, TN_I32, UPTO, 0, 13, 1, 500, 1, "tally("},
    {"ranks of rows", ranks, TN_I32, BEFORE, 0, 13, 6, 100, 1, "tally("},
    {"ranks of longer rows than it has keys", ranks, TN_I32, BEFORE, 0, 250, 6, 300, 1, "tally("},
    {"short rows ask", ranks, TN_I32, BEFORE, 0, 250, 6, 7, 1, NULL},
    {"sums so far", sums_so_far, TN_F32, UPTO, 0, 13, 6, 100, 1, "tally("},
    {"sums so far, of those before", sums_so_far, TN_I32, BEFORE, 0, 13, 6, 100, 1, "tally("},
    {"floats are not taken off again", sums_so_far, TN_F32, BEFORE, 0, 13, 6, 100, 1, NULL},
};

static uint64_t number(const void *of, int dtype, tn_dim i) {
  const program *p = of;
  if (dtype != TN_F32 && dtype != TN_F64) return tn__eval_cast(TN_I64, dtype, (uint64_t)(i * 31 % 251));
  double x = (double)(i * 31 % 251) * 0.17 - 17;
  return tn__eval_from_double(dtype, p->make == sums_by_key || p->make == sums_so_far ? fabs(x) : x);
}

static tn_tensor *made(tn_ctx *c, const void *of) {
  const program *p = of;
  return p->make(host_numbers(c, p->dtype, (tn_dim[]){p->outer, p->n, p->inner}, 3, number, p), p);
}

static void check_steps(const void *of, const char *device, const char *text) {
  const program *p = of;
  if (strcmp(device, "cpu")) return;
  if (p->step && !strstr(text, p->step)) fail_msg("%s: no %s in\n%s", p->name, p->step, text);
  if (!p->step && (strstr(text, " running(") || strstr(text, " tally("))) fail_msg("%s:\n%s", p->name, text);
}

static void *result(const char *device, int threads, const program *p, size_t *bytes) {
  tn_options opt = {.device = device, .threads = threads, .mode = TN_MODE_STRICT};
  return explained(opt, p->name, made, check_steps, p, bytes);
}

static void any_steps(const void *of, const char *device, const char *text) { (void)of, (void)device, (void)text; }

static bool is_float(int dtype) { return dtype == TN_F32 || dtype == TN_F64 || dtype == TN_F16 || dtype == TN_BF16; }

/* Loops over lanes are of other modes, where sums of floats round otherwise: they are held against the graph alone. */
static void in_lanes(const program *p, const void *want) {
  size_t bytes = 0;
  void *got = explained((tn_options){.device = "cpu", .threads = 1}, p->name, made, any_steps, p, &bytes);
  if (!is_float(p->dtype) && memcmp(got, want, bytes)) fail_msg("%s: other bits in lanes", p->name);
  free(got);
}

static void compare(const program *p) {
  size_t n = 0, bytes = 0;
  void *want = result("ref", 1, p, &n);
  for (int threads = 1; threads <= 3; threads += 2) {
    void *got = result("cpu", threads, p, &bytes);
    assert_int_equal(bytes, n);
    if (memcmp(got, want, n)) fail_msg("%s: other bits", p->name);
    free(got);
  }
  in_lanes(p, want);
  free(want);
}

/* Lanes that are rows, of which each runs along its own: nothing adds up in another order. */
static const program rows_in_lanes[] = {
    {"rows of 16", scan, TN_F32, UPTO, PLUS, 0, 64, 16, 1, " runs("},
    {"rows of 5, and a part of a vector", scan, TN_F32, UPTO, PLUS, 0, 131, 5, 1, " runs("},
    {"rows of 4 are no more than that", scan, TN_F32, UPTO, PLUS, 0, 64, 4, 1, " running("},
    {"few rows", scan, TN_F32, UPTO, PLUS, 0, 7, 16, 1, " running("},
    {"doubles", scan, TN_F64, UPTO, PLUS, 0, 37, 13, 1, " runs("},
    {"products", scan, TN_F64, UPTO, TIMES, 0, 40, 9, 1, " runs("},
    {"bytes", scan, TN_U8, UPTO, PLUS, 0, 200, 16, 1, " runs("},
    {"long integers", scan, TN_I64, UPTO, PLUS, 0, 65, 7, 1, " runs("},
    {"blocks of long rows", scan, TN_I32, UPTO, PLUS, 0, 3, 1024, 1, " runs("},
    {"fused", between, TN_F32, UPTO, PLUS, 0, 33, 19, 1, NULL},
    {"two sums", twice, TN_F32, UPTO, PLUS, 0, 70, 33, 1, " runs("},
    {"maxima", masked, TN_F32, UPTO, GREATEST, 0, 70, 64, 1, " runs("},
    {"columns", scan, TN_F32, UPTO, PLUS, 0, 40, 16, 40, " running("},
};

static void check_rows(const void *of, const char *device, const char *text) {
  const program *p = of;
  (void)device;
  if (p->step && !strstr(text, p->step)) fail_msg("%s: no %s in\n%s", p->name, p->step, text);
  if (p->step && strcmp(p->step, " runs(") && strstr(text, " runs(")) fail_msg("%s:\n%s", p->name, text);
}

static void rows_have_lanes(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof rows_in_lanes / sizeof *rows_in_lanes; i++) {
    const program *p = &rows_in_lanes[i];
    size_t n = 0, bytes = 0;
    void *want = result("ref", 1, p, &n);
    for (int threads = 1; threads <= 3; threads += 2) {
      tn_options opt = {.device = "cpu", .threads = threads};
      void *got = explained(opt, p->name, made, check_rows, p, &bytes);
      assert_int_equal(bytes, n);
      if (memcmp(got, want, n)) fail_msg("%s: other bits in lanes", p->name);
      free(got);
    }
    free(want);
  }
}

static unsigned long cases;

static void as_plain_loops(void **s) {
  (void)s;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
    if (is_taken(&cases)) compare(&programs[i]);
}

/* What threads make for their neighbours may be the same for all of a group: it is written in each of them. */
static void same_for_all_threads(void **s) {
  static const program p = {"the same for a group", spread, TN_F64, UPTO, PLUS, 0, 8, 7, 1, NULL};
  size_t n = 0, bytes = 0;
  void *want = result("ref", 1, &p, &n), *got = result("ref:sm_90", 1, &p, &bytes);
  (void)s;
  assert_int_equal(bytes, n);
  assert_memory_equal(got, want, n);
  free(want), free(got);
}

/* Of other sizes, dtypes and directions than anybody chose; $TENET_SEED draws others. */
static void as_drawn(void **s) {
  static tn_tensor *(*const makes[])(tn_tensor *, const program *) = {
      masked,     between, of_few, twice,         below, beside_sums, beside_own,
      within_own, scan,    counts, counts_of_few, ranks, sums_so_far};
  static const int dtypes[] = {TN_F32, TN_F64, TN_F16, TN_BF16, TN_I32, TN_I64, TN_U8, TN_I16, TN_U32};
  const char *seed = getenv("TENET_SEED");
  graph_dice d = {.state = (seed ? strtoull(seed, NULL, 10) : 1) << 8};
  (void)s;
  for (int i = 0; i < DRAWS; i++) {
    char name[200];
    uint32_t make = graph_roll(&d, sizeof makes / sizeof *makes);
    program p = {.name = name, .make = makes[make], .step = "" /* anything */};
    p.dtype = dtypes[graph_roll(&d, sizeof dtypes / sizeof *dtypes)];
    p.terms = (int)graph_roll(&d, 4);
    bool infinite = is_float(p.dtype);
    if (!infinite && p.make == beside_sums) p.make = masked; /* it divides */
    p.op = (int)graph_roll(&d, p.make == scan || !infinite ? 2 : 4);
    p.keys = (int)(2 + graph_roll(&d, 255));
    p.outer = 1 + graph_roll(&d, 6);
    p.n = 1 + graph_roll(&d, 70);
    bool keyed = p.make == counts || p.make == counts_of_few || p.make == ranks || p.make == sums_so_far;
    p.inner = keyed ? 1 : 1 + graph_roll(&d, 40);
    snprintf(name, sizeof name, "draw %d: make %u, dtype %d, terms %d, op %d, %d keys, %lld x %lld x %lld", i,
             make, p.dtype, p.terms, p.op, p.keys, (long long)p.outer, (long long)p.n, (long long)p.inner);
    if (is_taken(&cases)) compare(&p);
  }
}

/* Of arrays that no cache holds a running sum and the gradient of it, which runs the other way, are one kernel: its
 * turns go one way only. */
static void both_ways(void **state) {
  static const char *const devices[] = {"ref:sm_90", "ref:opencl"};
  (void)state;
  for (int d = 0; d < 2; d++) {
    tn_ctx *c = tn_ctx_open(&(tn_options){.device = devices[d], .quiet = 1, .verify = "strict"});
    assert_non_null(c);
    tn_program *p = tn_program_begin(c);
    tn_dim shape[] = {2, 37, 461300};
    tn_tensor *x = tn_program_input(p, "x", TN_BF16, shape, 3), *w = tn_program_input(p, "w", TN_BF16, shape, 3), *g;
    tn_tensor *y = tn_cumsum(tn_gelu(x), 1);
    assert_int_equal(tn_grad(tn_sum(tn_mul(y, w), NULL, 0, false), 1, &x, &g), TN_OK);
    assert_int_equal(tn_program_output(p, "y", y), TN_OK);
    assert_int_equal(tn_program_output(p, "g", g), TN_OK);
    if (tn_program_end(p) != TN_OK) fail_msg("%s: %s", devices[d], tn_last_error(c)->text);
    tn_ctx_close(c);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_plain_loops), cmocka_unit_test(same_for_all_threads),
                                     cmocka_unit_test(rows_have_lanes), cmocka_unit_test(as_drawn),
                                     cmocka_unit_test(both_ways)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
