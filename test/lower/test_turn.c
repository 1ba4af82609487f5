/* Copies that turn, and reductions across rows: what compiled kernels make of them is to the bit what plain loops give,
 * whatever the sizes, the dtypes, the order of the axes and the number of threads.  Sums along rows have an order of
 * their own, the same for all numbers of threads. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "support/device.h"
#include "support/explained.h"
#include "support/host_numbers.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

typedef struct program {
  const char *name;
  tn_tensor *(*make)(tn_tensor *x, const struct program *p);
  int dtype, rank;
  tn_dim shape[5];
  int order[5];     /* of the axes; of reductions, the first one is the axis */
  const char *step; /* a word of the kernel's notes; NULL: it has none of these */
} program;

static tn_tensor *copy(tn_tensor *x, const program *p) { return tn_contiguous(tn_permute(x, p->order, p->rank)); }
static tn_tensor *flipped(tn_tensor *x, const program *p) { /* lines lie one before the other */
  return tn_contiguous(tn_permute(tn_flip(x, (int[]){0}, 1), p->order, p->rank));
}
static tn_tensor *fused(tn_tensor *x, const program *p) { /* with what lies along the result, and once more across */
  tn_tensor *y = tn_permute(x, p->order, p->rank), *z = tn_contiguous(tn_mul_scalar(y, 2));
  return tn_add(tn_add(tn_exp(y), z), tn_permute(tn_contiguous(tn_flip(x, (int[]){0}, 1)), p->order, p->rank));
}
/* What is made of three and a number for each line, of which one is not a number, stored across */
static tn_tensor *waiting(tn_tensor *x, const program *p) {
  tn_tensor *y = tn_contiguous(tn_flip(x, (int[]){0}, 1)), *row = tn_contiguous(tn_slice(x, 0, 0, 1, 1));
  tn_tensor *z = tn_contiguous(tn_flip(x, (int[]){1}, 1)), *odd = tn_where_scalar(tn_ge_scalar(row, -6), row, NAN);
  return copy(tn_add(tn_sub(tn_mul(x, y), z), odd), p);
}
/* ... the same for two blocks of lines, each as long as a tile: its elements hang on no block */
static tn_tensor *repeated(tn_tensor *x, const program *p) {
  tn_tensor *y = tn_contiguous(tn_flip(x, (int[]){0}, 1)), *two[] = {tn_unsqueeze(x, 0), tn_unsqueeze(y, 0)};
  assert_int_equal(tn_realize(&y, 1), TN_OK);
  for (int i = 0; i < 2; i++)
    two[i] = tn_reshape(tn_expand(two[i], (tn_dim[]){2, p->shape[0], p->shape[1]}, 3),
                        (tn_dim[]){2 * p->shape[0], p->shape[1]}, 2);
  return copy(tn_mul(two[0], two[1]), p);
}
static tn_tensor *gated(tn_tensor *x, const program *p) {
  return tn_add_scalar(tn_permute(tn_pad(x, (tn_dim[]){2, 1, 0, 5}, 3), p->order, p->rank), 1);
}
/* with what is the same in all rows, loaded and computed */
static tn_tensor *biased(tn_tensor *x, const program *p) {
  tn_tensor *row = x;
  for (int i = 0; i + 1 < p->rank; i++) row = tn_slice(row, i, 0, 1, 1);
  tn_tensor *few = tn_sqrt(tn_abs(tn_cast(row, TN_F32)));
  return tn_add(tn_mul(tn_neg(x), tn_flip(row, (int[]){-1}, 1)), tn_cast(few, (tn_dtype)p->dtype));
}
/* with what is the same along each row: all axes but `order` of one row */
static tn_tensor *per_row(tn_tensor *x, const program *p) {
  tn_tensor *row = x;
  for (int i = 0; i < p->rank; i++)
    if (!p->order[i]) row = tn_slice(row, i, 1, 2, 1);
  return tn_add(tn_mul(tn_neg(x), row), tn_sqrt(tn_abs(row)));
}
/* so, and of rows that are summed up */
static tn_tensor *per_row_norm(tn_tensor *x, const program *p) {
  tn_tensor *y = per_row(x, p);
  return tn_mul(y, tn_max(x, (int[]){1, 2}, 2, true));
}
static tn_tensor *softmax(tn_tensor *x, const program *p) { return tn_softmax(x, p->order[0]); }
static tn_tensor *largest(tn_tensor *x, const program *p) { /* a row with a zero has NaN */
  return tn_max(tn_mul(x, tn_div(x, x)), p->order, 1, false);
}
static tn_tensor *norm(tn_tensor *x, const program *p) {
  tn_tensor *d = tn_sub(x, tn_mean(x, p->order, 1, true)), *v = tn_mean(tn_mul(d, d), p->order, 1, true);
  return tn_div(d, tn_sqrt(tn_add_scalar(v, 1)));
}
static tn_tensor *log_sum(tn_tensor *x, const program *p) { return tn_logsumexp(x, p->order, 1, false); }

/* Of all pairs of rows of x and y, which is as long as the first number of `order` says; of more axes, for each */
static tn_tensor *distances(tn_tensor *x, const program *p) {
  tn_tensor *y = tn_slice(tn_contiguous(tn_flip(x, (int[]){0}, 1)), p->rank - 2, 0, p->order[0], 1);
  tn_tensor *d = tn_sub(tn_unsqueeze(x, -2), tn_unsqueeze(tn_contiguous(y), -3));
  return tn_sum(tn_mul(d, d), (int[]){-1}, 1, false);
}
/* ... whose terms are numbered by two axes, beside another one which turns nothing */
static tn_tensor *two_sums(tn_tensor *x, const program *p) {
  tn_tensor *y = tn_slice(tn_contiguous(tn_neg(x)), 0, 0, p->order[0], 1);
  tn_tensor *d = tn_abs(tn_sub(tn_unsqueeze(x, 1), tn_unsqueeze(tn_contiguous(y), 0)));
  return tn_sum(tn_sqrt(d), (int[]){2, 3}, 2, false);
}

/* The greatest of windows of as many elements along the last axis as the first number of `order` says, so far apart as
 * the second one */
static tn_tensor *windows(tn_tensor *x, const program *p) {
  return tn_max_pool2d(x, 1, p->order[0], &(tn_pool2d_options){.stride = {1, p->order[1]}, .dilation = {1, 1}});
}
/* By counters in i64 up to about what 32 bits hold, and beyond */
static tn_tensor *counted(tn_tensor *x, const program *p) {
  tn_tensor *each = tn_reshape(tn_arange(tn_ctx_of(x), TN_I64, 0, (double)tn_numel(x), 1), p->shape, p->rank);
  tn_tensor *at = tn_mul_scalar(each, p->order[0]), *far = tn_add_scalar(at, p->order[1]), *back = tn_neg(far);
  tn_tensor *in = tn_lt(tn_mod_scalar(back, 1000), tn_floordiv_scalar(far, 1 << 22));
  return tn_where(in, x, tn_cast(tn_maximum(back, tn_sub_scalar(at, 1e9)), (tn_dtype)p->dtype));
}
static tn_tensor *counts(tn_tensor *x, const program *p) { return tn_cast(counted(x, p), TN_I64); }

/* Of what is divided once for all columns */
static tn_tensor *quotients(tn_tensor *x, const program *p) {
  tn_tensor *q = tn_slice(tn_transpose(tn_div(x, tn_add_scalar(tn_abs(x), 1)), 0, 1), 0, 0, p->order[0], 1);
  tn_tensor *d = tn_sub(tn_unsqueeze(q, -1), tn_unsqueeze(x, 0));
  return tn_sum(tn_mul(d, d), (int[]){1}, 1, false);
}

/* Of pairs of rows: what is loaded for one row is the same for all others. */
static tn_tensor *spans(tn_tensor *x, const program *p) {
  tn_tensor *y = tn_slice(tn_contiguous(tn_flip(x, (int[]){0}, 1)), 0, 0, p->order[0], 1);
  tn_tensor *d = tn_abs(tn_sub(tn_unsqueeze(x, 1), tn_unsqueeze(tn_contiguous(y), 0)));
  return tn_sum(d, (int[]){2}, 1, false);
}

static const program programs[] = {
    {"a square", copy, TN_F32, 2, {128, 128}, {1, 0}, "turn("},
    {"a flip", flipped, TN_F32, 2, {131, 67}, {1, 0}, "turn("},
    {"tiles cut off", copy, TN_F32, 2, {131, 67}, {1, 0}, "turn("},
    {"one line more than a tile", copy, TN_F32, 2, {64, 65}, {1, 0}, "turn("},
    {"a tile alone", copy, TN_F32, 2, {64, 64}, {1, 0}, NULL},
    {"f64", copy, TN_F64, 2, {70, 33}, {1, 0}, "turn("},
    {"f16", copy, TN_F16, 2, {70, 133}, {1, 0}, "turn("},
    {"bf16", copy, TN_BF16, 2, {70, 133}, {1, 0}, "turn("},
    {"i8", copy, TN_I8, 2, {140, 133}, {1, 0}, "turn("},
    {"u16", copy, TN_U16, 2, {140, 133}, {1, 0}, "turn("},
    {"i64", copy, TN_I64, 2, {140, 133}, {1, 0}, "turn("},
    {"bool", copy, TN_BOOL, 2, {140, 133}, {1, 0}, "turn("},
    {"few to a line of the operand", copy, TN_F32, 2, {3000, 7}, {1, 0}, "turn("},
    {"few to a line of the result", copy, TN_F32, 2, {3, 3000}, {1, 0}, "turn("},
    {"few to both", copy, TN_F32, 3, {3, 40, 5}, {2, 1, 0}, NULL},
    {"eight", copy, TN_F32, 2, {8, 3000}, {1, 0}, "turn("},
    {"axes all round", copy, TN_F32, 4, {9, 11, 10, 17}, {3, 2, 1, 0}, "turn("},
    {"channels last", copy, TN_F32, 4, {3, 20, 9, 11}, {0, 2, 3, 1}, "turn("},
    {"channels first", copy, TN_F32, 4, {3, 9, 11, 20}, {0, 3, 1, 2}, "turn("},
    {"five axes", copy, TN_F32, 5, {3, 9, 4, 11, 20}, {2, 4, 0, 3, 1}, "turn("},
    {"lines that stay", copy, TN_F32, 4, {5, 40, 20, 64}, {0, 2, 1, 3}, NULL},
    {"fused", fused, TN_F32, 2, {131, 67}, {1, 0}, "turn("},
    {"padded", gated, TN_F32, 2, {131, 67}, {1, 0}, "turn("},
    {"a store that waits", waiting, TN_F32, 2, {131, 67}, {1, 0}, "turn(1,0)"},
    {"a store of f64 that waits", waiting, TN_F64, 3, {5, 70, 33}, {0, 2, 1}, "turn(2,1)"},
    {"a store of bf16 that waits", waiting, TN_BF16, 2, {140, 133}, {1, 0}, "turn(1,0)"},
    {"short lines that wait", waiting, TN_F32, 2, {3000, 7}, {1, 0}, "turn(1,0)"},
    {"few lines that wait", waiting, TN_F32, 2, {5, 3000}, {1, 0}, "turn(1,0)"},
    {"lines that wait once more", repeated, TN_F32, 2, {64, 48}, {1, 0}, "turn(1,0)"},
    {"a line that waits", waiting, TN_F32, 2, {1, 3000}, {1, 0}, NULL},
    {"rows of eight with a bias", biased, TN_F32, 2, {8192, 8}, {0}, "repeat("},
    {"rows of three", biased, TN_F32, 2, {5003, 3}, {0}, "repeat("},
    {"rows a little longer than a vector", biased, TN_F32, 2, {3001, 17}, {0}, "repeat("},
    {"nearly whole vectors", biased, TN_F32, 2, {3001, 15}, {0}, NULL},
    {"short rows of bf16", biased, TN_BF16, 3, {70, 61, 5}, {0}, "repeat("},
    {"short rows of f64", biased, TN_F64, 3, {70, 61, 3}, {0}, "repeat("},
    {"short rows with what each of many has in common", per_row, TN_F32, 3, {30, 4096, 3}, {1, 0, 1}, "repeat("},
    {"short rows of i8", biased, TN_I8, 3, {70, 61, 7}, {0}, "repeat("},
    {"few short rows", biased, TN_F32, 2, {200, 8}, {0}, NULL},
    {"a factor for each row", per_row, TN_F32, 3, {300, 8, 4}, {0, 1, 0}, "spread("},
    {"of bf16", per_row, TN_BF16, 3, {301, 5, 3}, {0, 1, 0}, "spread("},
    {"of f64", per_row, TN_F64, 3, {99, 13, 2}, {0, 1, 0}, "spread("},
    {"of nearly whole vectors", per_row, TN_F32, 3, {300, 8, 13}, {0, 1, 0}, NULL},
    {"of too few", per_row, TN_F32, 3, {60, 8, 4}, {0, 1, 0}, NULL},
    {"of two axes apart", per_row, TN_F32, 4, {3, 70, 5, 4}, {1, 0, 1, 0}, "spread("},
    {"a factor for each row of what has a largest one", per_row_norm, TN_F32, 3, {300, 8, 5}, {0, 1, 0}, "spread("},
    {"softmax of columns", softmax, TN_F32, 2, {100, 70}, {0}, "row("},
    {"softmax of one column", softmax, TN_F32, 2, {100, 1}, {0}, "lanes(2,32)"},
    {"softmax of few columns", softmax, TN_F64, 2, {20, 3}, {0}, "row("},
    {"softmax of channels", softmax, TN_F32, 4, {2, 21, 9, 11}, {1}, "row("},
    {"softmax of bf16", softmax, TN_BF16, 2, {33, 70}, {0}, "row("},
    {"columns too long to keep", softmax, TN_F32, 2, {9000, 33}, {0}, "split("},
    {"short rows", softmax, TN_F32, 2, {70, 8}, {1}, "lanes(0,32)"},
    {"rows of two", softmax, TN_BF16, 2, {67, 2}, {1}, "lanes(0,32)"},
    {"short rows of f64", softmax, TN_F64, 2, {33, 5}, {1}, "lanes(0,16)"},
    {"short rows of f16", log_sum, TN_F16, 2, {37, 10}, {1}, "lanes(0,32)"},
    {"one short row", softmax, TN_F32, 2, {1, 10}, {1}, "lanes(2,10)"},
    {"rows that are not so short", softmax, TN_F32, 2, {270, 20}, {1}, "lanes(2,20)"},
    {"norms of short rows", norm, TN_F32, 2, {70, 6}, {1}, "lanes(0,32)"},
    {"norms of longer ones", norm, TN_F32, 2, {70, 13}, {1}, "lanes(2,13)"},
    {"largest of seven", largest, TN_F32, 2, {300, 7}, {1}, "lanes(0,32)"},
    {"largest of short rows of f64", largest, TN_F64, 2, {45, 9}, {1}, "lanes(0,16)"},
    {"largest of a few more", largest, TN_F32, 2, {45, 61}, {1}, "lanes(1,61)"},
    {"rows of less than two turns", softmax, TN_F32, 2, {70, 63}, {1}, "lanes(2,63)"},
    {"rows of two turns", softmax, TN_F64, 2, {70, 32}, {1}, "lanes(2,16)"},
    {"few long lines", copy, TN_F32, 3, {2, 3, 5000}, {1, 0, 2}, "chunk("},
    {"quotients", quotients, TN_F32, 2, {9, 300}, {300}, "row(div)"},
    {"quotients of f64", quotients, TN_F64, 2, {11, 150}, {149}, "row(div)"},
    {"quotients of few columns", quotients, TN_F32, 2, {33, 40}, {7}, NULL},
    {"spans", spans, TN_I64, 2, {17, 4100}, {16}, "jam("},
    {"quotients, several rows", quotients, TN_F64, 2, {17, 150}, {149}, "jam("},
    {"distances", distances, TN_F32, 2, {64, 16}, {64}, "turn("},
    {"distances of odd numbers", distances, TN_F32, 2, {131, 7}, {45}, "turn("},
    {"distances of few", distances, TN_F64, 2, {19, 5}, {7}, "turn("},
    {"distances of one", distances, TN_F32, 2, {100, 5}, {1}, NULL},
    {"distances of batches", distances, TN_F32, 3, {3, 70, 9}, {40}, "turn("},
    {"distances of bf16", distances, TN_BF16, 2, {70, 9}, {40}, "turn("},
    {"integers' distances", distances, TN_I32, 2, {70, 9}, {40}, "turn("},
    {"distances over two axes", two_sums, TN_F32, 3, {70, 3, 5}, {37}, "turn("},
    {"windows", windows, TN_BF16, 4, {3, 2, 1, 333}, {3, 2}, "lanes("},
    {"windows of f16", windows, TN_F16, 4, {3, 2, 1, 334}, {2, 3}, "lanes("},
    {"windows as far apart as lanes go", windows, TN_F32, 4, {3, 2, 1, 800}, {4, 8}, "lanes("},
    {"windows further apart", windows, TN_F32, 4, {3, 2, 1, 900}, {4, 9}, NULL},
    {"counters of 32 bits", counted, TN_F32, 2, {70, 133}, {230650, 300000}, NULL},
    {"counters of more", counted, TN_F32, 2, {70, 133}, {230650, 1000000}, NULL},
    {"counters that are stored", counts, TN_I64, 2, {70, 133}, {230650, 300000}, NULL},
    {"log of sums", log_sum, TN_F32, 2, {12, 40}, {0}, "lanes("},
};

static uint64_t number(const void *of, int dtype, tn_dim i) {
  (void)of;
  int64_t x = i % 89 - 40;
  bool whole = dtype != TN_F32 && dtype != TN_F64;
  return whole ? tn__eval_cast(TN_I64, dtype, (uint64_t)x) : tn__eval_from_double(dtype, (double)x * 0.17);
}
static tn_tensor *made_input(tn_ctx *c, const program *p) {
  return host_numbers(c, p->dtype, p->shape, p->rank, number, NULL);
}
static tn_tensor *made(tn_ctx *c, const void *of) {
  const program *p = of;
  return p->make(made_input(c, p), p);
}

static void check_steps(const void *of, const char *device, const char *text) {
  const program *p = of;
  if (strcmp(device, "cpu")) return;
  bool across = (p->make == copy || p->make == flipped) && p->step && p->shape[0] >= 64 && p->shape[1] >= 64;
  if (across && !strstr(text, "  tn_turn_")) fail_msg("%s is not turned:\n%s", p->name, text);
  if (p->step && !strstr(text, p->step)) fail_msg("%s: no %s in\n%s", p->name, p->step, text);
  if (!p->step && (strstr(text, "turn(") || strstr(text, "row("))) fail_msg("%s:\n%s", p->name, text);
}

static void *result(const char *device, int threads, const program *p, size_t *bytes) {
  return explained((tn_options){.device = device, .threads = threads}, p->name, made, check_steps, p, bytes);
}

static void as_plain_loops(void **s) {
  unsigned long cases = 0;
  (void)s;
  for (size_t i = 0; i < sizeof programs / sizeof *programs; i++) {
    if (!is_taken(&cases)) continue;
    size_t n = 0, bytes = 0;
    const char *step = programs[i].step;
    bool in_order = !step || (!strstr(step, "lanes(2") && !strstr(step, "split("));
    void *want = result(in_order ? "ref" : "cpu", 1, &programs[i], &n);
    for (int threads = 1; threads <= 3; threads += 2) {
      void *got = result("cpu", threads, &programs[i], &bytes);
      assert_int_equal(bytes, n);
      if (memcmp(got, want, n)) fail_msg("%s: other bits", programs[i].name);
      free(got);
    }
    free(want);
  }
}

/* ---- few lines, and short ones, of any length ---- */

/* Axes as memory has them, and in another order: which way they are turned shows in the notes and in the text */
typedef struct family {
  const char *name, *step, *call;
  int rank, least[3], most[3], order[3];
} family;

static const family families[] = {
    {"few at a time of the operand's innermost", "flat(1,0)", "  tn_turn_", 3, {70, 25, 2}, {200, 40, 7}, {2, 1, 0}},
    {"few at a time of the result's innermost", "flat(1,2)", "  tn_turn_", 3, {2, 25, 70}, {7, 40, 200}, {2, 1, 0}},
    {"blocks that would be half empty", "flat(1,2)", "  tn_turn_", 3, {17, 9, 70}, {19, 30, 200}, {2, 1, 0}},
    {"few lines", " turn(", "  tn_weave_", 2, {2, 9000}, {7, 10000}, {1, 0}},
    {"rows of few bytes", "rows(0,1,2)", NULL, 3, {2100, 3, 2}, {2600, 9, 12}, {1, 0, 2}},
};
static const int dtypes[] = {TN_BOOL, TN_I8, TN_U8, TN_I16, TN_F16, TN_BF16, TN_I32, TN_F32, TN_I64, TN_F64};

enum { DRAWN = 12 }; /* of each family */

typedef struct drawn {
  const family *of;
  bool computes;
  program p;
} drawn;

static tn_tensor *make_drawn(tn_ctx *c, const void *of) {
  const drawn *d = of;
  tn_tensor *x = tn_permute(made_input(c, &d->p), d->p.order, d->p.rank);
  return !d->computes ? tn_contiguous(x) : d->p.dtype == TN_BOOL ? tn_logical_not(x) : tn_neg(x);
}

static void check_drawn(const void *of, const char *device, const char *text) {
  const drawn *d = of;
  if (strcmp(device, "cpu")) return;
  bool narrow = getenv("TENET_CPU_LEVEL") || getenv("TENET_CC"); /* vectors may be shorter than there are lines */
  bool called = narrow || !d->of->call || strstr(text, d->of->call);
  if (!strstr(text, d->of->step) || !called) fail_msg("%s:\n%s", d->of->name, text);
}

static uint32_t state = 1; /* of the drawn numbers */
static int draw(int least, int most) {
  state = state * 1664525u + 1013904223u;
  return least + (int)((state >> 8) % (uint32_t)(most - least + 1));
}

static void of_drawn_lengths(void **s) {
  unsigned long cases = 0;
  (void)s;
  for (size_t i = 0; i < sizeof families / sizeof *families * DRAWN; i++) {
    const family *f = &families[i / DRAWN];
    drawn d = {.of = f, .computes = draw(0, 1), .p = {.rank = f->rank}};
    d.p.dtype = dtypes[draw(0, (int)(sizeof dtypes / sizeof *dtypes) - 1)];
    for (int a = 0; a < f->rank; a++) d.p.shape[a] = draw(f->least[a], f->most[a]), d.p.order[a] = f->order[a];
    if (!is_taken(&cases)) continue;
    static const struct {
      const char *device;
      int threads;
    } on[] = {{"ref:cpu", 1}, {"cpu", 1}, {"cpu", 3}};
    size_t n = 0, bytes = 0;
    void *want = explained((tn_options){.device = "ref"}, f->name, make_drawn, check_drawn, &d, &n);
    for (size_t k = 0; k < sizeof on / sizeof *on; k++) {
      tn_options opt = {.device = on[k].device, .threads = on[k].threads};
      void *got = explained(opt, f->name, make_drawn, check_drawn, &d, &bytes);
      assert_int_equal(bytes, n);
      if (memcmp(got, want, n))
        fail_msg("%s on %s: %s[%lld,%lld,%lld]: other bits", f->name, on[k].device, tn__dtypes[d.p.dtype].name,
                 (long long)d.p.shape[0], (long long)d.p.shape[1], (long long)d.p.shape[2]);
      free(got);
    }
    free(want);
  }
}

/* ---- several stores by one kernel ---- */

enum { STORES = 2 };

/* Of a kernel that stores along its lanes and across them, and loads both ways, what each store gives; freed by the
 * caller */
static void store_beside(const char *device, int threads, tn_dim lines, tn_dim length, void **out) {
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .threads = threads, .quiet = 1, .verify = "strict"});
  assert_non_null(c);
  tn_scope(c) {
    program p = {"beside", NULL, TN_F32, 2, {lines, length}, {1, 0}, NULL};
    tn_tensor *x = made_input(c, &p), *y = tn_contiguous(tn_transpose(tn_neg(x), 0, 1));
    assert_int_equal(tn_realize(&y, 1), TN_OK);
    tn_tensor *a = tn_exp(tn_add(x, tn_transpose(y, 0, 1))), *b = tn_contiguous(tn_transpose(tn_mul(a, x), 0, 1));
    tn_tensor *all[STORES] = {a, b};
    char *text = tn_explain_string(all, STORES);
    assert_non_null(text);
    bool tiles = lines > 64 && length > 64 && !strcmp(device, "cpu");
    if (tiles && (!strstr(text, "turn(1,0)") || strstr(text, "# k1"))) fail_msg("%s", text);
    free(text);
    for (int i = 0; i < STORES; i++) {
      out[i] = malloc(tn_nbytes(all[i]));
      assert_non_null(out[i]);
      assert_int_equal(tn_read(all[i], out[i], tn_nbytes(all[i])), TN_OK);
    }
  }
  tn_ctx_close(c);
}

static void beside_others(void **s) {
  static const tn_dim shapes[][2] = {{131, 67}, {128, 192}, {65, 70}, {64, 64}, {300, 5}, {5, 300}, {1, 300}, {300, 1}};
  (void)s;
  for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
    void *want[STORES], *got[STORES];
    size_t bytes = (size_t)(shapes[i][0] * shapes[i][1]) * sizeof(float);
    store_beside("ref", 1, shapes[i][0], shapes[i][1], want);
    for (int threads = 1; threads <= 3; threads += 2) {
      store_beside("cpu", threads, shapes[i][0], shapes[i][1], got);
      for (int k = 0; k < STORES; k++) {
        if (memcmp(got[k], want[k], bytes)) fail_msg("%lld lines: store %d", (long long)shapes[i][0], k);
        free(got[k]);
      }
    }
    for (int k = 0; k < STORES; k++) free(want[k]);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(as_plain_loops), cmocka_unit_test(of_drawn_lengths),
                                     cmocka_unit_test(beside_others)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
