/* Sums up to each turn of a loop by the threads of a group: whatever the length, the dtype, the direction and what
 * stands around, elements are those that a plain loop gives.  Numbers are small integers, whose sums are exact in any
 * order; each schedule is compared with its graph, and its kernels' threads are proved to keep apart. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include "device/device.h"
#include "lower/lower.h"
#include "support/device.h"
#include "support/explained.h"
#include "support/terms.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { PLUS, TIMES, GREATEST };
enum { NO_NAN = -1 };

typedef struct program {
  const char *name;
  tn_tensor *(*make)(tn_tensor *x, const struct program *p);
  int dtype, terms, op;
  tn_dim outer, n, inner; /* x[outer, n, inner] */
  tn_dim nan;             /* the place in each row that has one; NO_NAN: none */
  const char *step, *no;  /* what a kernel's note says, and what none does; NULL: anything */
} program;

/* ---- what is computed ---- */

/* As a user would write it */
static tn_tensor *masked(tn_tensor *x, const program *p) {
  tn_tensor *where = chosen(numbers(x, p->n, 4, 1), numbers(x, p->n, 4, 2), p->terms);
  double nothing = p->op == TIMES ? 1 : p->op == PLUS || p->dtype == TN_U8 ? 0 : -INFINITY;
  tn_tensor *row = tn_unsqueeze(x, 1), *none = tn_full_like(row, nothing);
  row = tn_where(where, row, none);
  if (p->op == PLUS) return tn_sum(row, (int[]){2}, 1, false);
  return p->op == TIMES ? tn_prod(row, (int[]){2}, 1, false) : tn_max(row, (int[]){2}, 1, false);
}
static tn_tensor *scan(tn_tensor *x, const program *p) {
  return p->op == TIMES ? tn_cumprod(x, 1) : tn_cumsum(x, 1);
}
static tn_tensor *gradient(tn_tensor *x, const program *p) {
  tn_tensor *at = tn_contiguous(tn_mul_scalar(x, 0)), *g = NULL;
  tn_tensor *loss = tn_sum(tn_mul(tn_cumsum(at, 1), x), (int[]){0, 1, 2}, 3, false);
  return (void)p, tn_grad(loss, 1, &at, &g) == TN_OK ? g : NULL;
}
static tn_tensor *gradient_of_products(tn_tensor *x, const program *p) {
  tn_tensor *at = tn_contiguous(x), *g = NULL;
  tn_tensor *loss = tn_sum(tn_cumprod(at, 1), (int[]){0, 1, 2}, 3, false);
  return (void)p, tn_grad(loss, 1, &at, &g) == TN_OK ? g : NULL;
}
/* ... in blocks, each with the sum of those before it */
static tn_tensor *of_blocks(tn_tensor *x, const program *p) {
  tn_dim side = (tn_dim)sqrt((double)p->n), line[3] = {1, side, 1};
  program within = {.terms = UPTO, .n = side}, before = {.terms = BEFORE, .n = side};
  tn_tensor *rows = tn_reshape(x, (tn_dim[]){side, side, 1}, 3);
  tn_tensor *all = tn_reshape(tn_sum(rows, (int[]){1}, 1, false), line, 3);
  tn_tensor *first = tn_reshape(masked(all, &before), (tn_dim[]){side, 1, 1}, 3);
  return tn_reshape(tn_add(first, masked(rows, &within)), (tn_dim[]){1, p->n, 1}, 3);
}
/* ... of what is looked at from the end, is the same for many, or has a function before and behind it */
static tn_tensor *of_flipped(tn_tensor *x, const program *p) { return scan(tn_flip(x, (int[]){1}, 1), p); }
static tn_tensor *of_shared(tn_tensor *x, const program *p) {
  return tn_add(scan(tn_slice(x, 0, 0, 1, 1), p), tn_mul_scalar(x, 0));
}
static tn_tensor *between(tn_tensor *x, const program *p) { return tn_sub(tn_neg(masked(tn_neg(x), p)), x); }
static tn_tensor *of_more(tn_tensor *x, const program *p) { return masked(tn_add_scalar(x, 1), p); }
/* ... of what takes much, sooner than it is summed up and once more behind that */
static tn_tensor *dear(tn_tensor *x) {
  for (int i = 0; i < 6; i++) x = tn_sqrt(tn_mul(x, x));
  return x;
}
static tn_tensor *of_dear(tn_tensor *x, const program *p) { return dear(masked(dear(x), p)); }
/* ... of rows of two axes, of what lies across them in memory, of a row that begins anywhere, and of every other
 * element */
static tn_tensor *of_two_axes(tn_tensor *x, const program *p) {
  tn_tensor *rows = tn_reshape(x, (tn_dim[]){p->outer / 3, 3, p->n}, 3);
  return tn_reshape(tn_cumsum(rows, 2), (tn_dim[]){p->outer, p->n, p->inner}, 3);
}
static tn_tensor *of_turned(tn_tensor *x, const program *p) {
  return scan(tn_transpose(tn_contiguous(tn_transpose(x, 0, 1)), 0, 1), p);
}
static tn_tensor *of_second(tn_tensor *x, const program *p) {
  tn_tensor *both = tn_contiguous(tn_reshape(tn_stack((tn_tensor *[]){x, x}, 2, 0), (tn_dim[]){1, 2 * p->n, 1}, 3));
  return scan(tn_slice(both, 1, p->n, 2 * p->n, 1), p);
}
static tn_tensor *of_half(tn_tensor *x, const program *p) {
  tn_tensor *pairs = tn_reshape(tn_stack((tn_tensor *[]){x, x}, 2, 2), (tn_dim[]){p->outer, 2 * p->n, 1}, 3);
  tn_tensor *twice = tn_contiguous(pairs);
  return scan(tn_slice(twice, 1, 0, 2 * p->n, 2), p);
}
/* ... reduced, slid along, or summed up once more: by another kernel */
static tn_tensor *below(tn_tensor *x, const program *p) { return tn_max(masked(x, p), (int[]){1}, 1, true); }
static tn_tensor *slid(tn_tensor *x, const program *p) { return tn_slice(masked(x, p), 1, 1, p->n, 1); }
static tn_tensor *twice(tn_tensor *x, const program *p) { return tn_sub(masked(x, p), masked(tn_mul_scalar(x, 3), p)); }
static tn_tensor *with_maximum(tn_tensor *x, const program *p) {
  return tn_add(masked(x, p), tn_max(x, (int[]){1}, 1, true));
}
/* ... of terms that are made of what stands beside the sums, too */
static tn_tensor *less_maximum(tn_tensor *x, const program *p) {
  tn_tensor *most = tn_max(x, (int[]){1}, 1, true);
  return tn_add(scan(tn_sub(x, most), p), most);
}

/* ---- what a plain loop gives ---- */

static double combined(double a, double b, int op) {
  return op == PLUS ? a + b : op == TIMES ? a * b : isnan(a) || isnan(b) ? (double)NAN : a > b ? a : b;
}

static void loop(const double *x, double *y, const program *p, double sign) {
  static const double nothing[] = {[PLUS] = 0, [TIMES] = 1, [GREATEST] = -INFINITY};
  bool back = p->terms == FROM || p->terms == BEHIND, beside = p->terms == BEFORE || p->terms == BEHIND;
  for (tn_dim row = 0; row < p->outer * p->inner; row++) {
    double sum = nothing[p->op];
    for (tn_dim k = 0; k < p->n; k++) {
      tn_dim i = back ? p->n - 1 - k : k, at = (row / p->inner * p->n + i) * p->inner + row % p->inner;
      if (beside) y[at] = sum;
      sum = combined(sum, sign * x[at], p->op);
      if (!beside) y[at] = sum;
    }
  }
}

/* Of each row's products up to each element, the sum of those that an element is in, without it */
static void loop_of_gradient(const double *x, double *y, const program *p) {
  for (tn_dim row = 0; row < p->outer * p->inner; row++) {
    tn_dim first = row / p->inner * p->n * p->inner + row % p->inner;
    double before = 1;
    for (tn_dim j = 0; j < p->n; j++) {
      double product = before, sum = before;
      for (tn_dim i = j + 1; i < p->n; i++) sum += product *= x[first + i * p->inner];
      y[first + j * p->inner] = sum;
      before *= x[first + j * p->inner];
    }
  }
}

static double element(const program *p, tn_dim at) {
  tn_dim i = at / p->inner % p->n;
  if (i == p->nan) return p->make == gradient_of_products ? 0 : (double)NAN;
  return p->op == TIMES ? (at % 7 ? 1 : -1) : (double)((at * 31 + at / 5) % 9 - (p->dtype == TN_U8 ? 0 : 4));
}

static double greatest_of_row(const program *p, tn_dim at) {
  tn_dim line = p->n * p->inner, first = at / line * line + at % p->inner;
  double most = -INFINITY;
  for (tn_dim k = 0; k < p->n; k++) most = fmax(most, element(p, first + k * p->inner));
  return most;
}

/* The elements that are to be, and how many */
static tn_dim expected(const program *p, double *x, double *y) {
  tn_dim all = p->outer * p->n * p->inner;
  for (tn_dim at = 0; at < all; at++) x[at] = element(p, at);
  if (p->make == of_flipped)
    for (tn_dim at = 0; at < all; at++)
      x[at] = element(p, at / (p->n * p->inner) * p->n * p->inner + (p->n - 1 - at / p->inner % p->n) * p->inner +
                             at % p->inner);
  if (p->make == of_shared)
    for (tn_dim at = p->n * p->inner; at < all; at++) x[at] = x[at % (p->n * p->inner)];
  for (tn_dim at = 0; at < all && p->make == of_more; at++) x[at]++;
  for (tn_dim at = 0; at < all && p->make == of_dear; at++) x[at] = fabs(x[at]);
  for (tn_dim at = 0; at < all && p->make == less_maximum; at++) x[at] -= greatest_of_row(p, at);
  loop(x, y, p, p->make == between ? -1 : 1);
  for (tn_dim at = 0; at < all && p->make == less_maximum; at++) y[at] += greatest_of_row(p, at);
  if (p->make == gradient_of_products) loop_of_gradient(x, y, p);
  for (tn_dim at = 0; at < all && p->make == between; at++) y[at] = -y[at] - x[at];
  for (tn_dim at = 0; at < all && p->make == twice; at++) y[at] *= -2;
  if (p->make != below && p->make != slid && p->make != with_maximum) return all;
  tn_dim n = 0, line = p->n * p->inner;
  for (tn_dim at = 0; at < all; at++) {
    tn_dim i = at / p->inner % p->n, first = at / line * line + at % p->inner;
    double most = -INFINITY;
    for (tn_dim k = 0; k < p->n; k++) most = fmax(most, (p->make == below ? y : x)[first + k * p->inner]);
    if (p->make == with_maximum) y[at] += most;
    else if (p->make == slid ? i > 0 : i == 0) x[n++] = p->make == slid ? y[at] : most;
  }
  if (p->make == with_maximum) return all;
  memcpy(y, x, (size_t)n * sizeof *y);
  return n;
}

/* ---- rows ---- */

typedef struct given {
  const program *p;
  const char *variant; /* that kernels are lowered by; NULL: as usual */
} given;

static tn_tensor *made(tn_ctx *c, const void *of) {
  const given *g = of;
  const program *p = g->p;
  tn_dim all = p->outer * p->n * p->inner, shape[3] = {p->outer, p->n, p->inner};
  double *x = malloc((size_t)all * sizeof *x);
  assert_non_null(x);
  if (g->variant) assert_non_null(tn__device_get(c, 0)->usual = tn__variant_find(g->variant));
  for (tn_dim at = 0; at < all; at++) x[at] = element(p, at);
  tn_tensor *t = tn_contiguous(tn_cast(tn_from(c, TN_F64, shape, 3, x), (tn_dtype)p->dtype));
  free(x);
  assert_int_equal(tn_realize(&t, 1), TN_OK);
  return tn_contiguous(tn_cast(p->make(t, p), TN_F64));
}

static void check_steps(const void *of, const char *device, const char *text) {
  const program *p = ((const given *)of)->p;
  if (p->step && !strstr(text, p->step)) fail_msg("%s on %s: no %s in\n%s", p->name, device, p->step, text);
  if (p->no && strstr(text, p->no)) fail_msg("%s on %s: %s in\n%s", p->name, device, p->no, text);
}

static void compare(const program *p, const char *device, const char *variant) {
  size_t bytes = 0, all = (size_t)(p->outer * p->n * p->inner);
  double *x = malloc(all * sizeof *x), *y = malloc(all * sizeof *y);
  assert_non_null(x);
  assert_non_null(y);
  tn_dim n = expected(p, x, y);
  double *got = explained((tn_options){.device = device}, p->name, made, check_steps, &(given){p, variant}, &bytes);
  assert_int_equal(bytes, (size_t)n * sizeof *got);
  for (tn_dim i = 0; i < n; i++)
    if (got[i] != y[i] && !(isnan(got[i]) && isnan(y[i])))
      fail_msg("%s on %s: element %lld is %g, not %g", p->name, device, (long long)i, got[i], y[i]);
  free(got);
  free(x);
  free(y);
}

static const program programs[] = {
    {"a row", masked, TN_F32, UPTO, PLUS, 1, 100, 1, NO_NAN, "scan(", NULL},
    {"one that threads divide", masked, TN_F32, UPTO, PLUS, 2, 256, 1, NO_NAN, "scan(", NULL},
    {"an odd one", masked, TN_F32, UPTO, PLUS, 3, 129, 1, NO_NAN, "scan(", NULL},
    {"those before", masked, TN_F32, BEFORE, PLUS, 3, 129, 1, NO_NAN, "scan(", NULL},
    {"those from each on", masked, TN_F32, FROM, PLUS, 3, 129, 1, NO_NAN, "scan(", NULL},
    {"those behind", masked, TN_F32, BEHIND, PLUS, 3, 130, 1, NO_NAN, "scan(", NULL},
    {"products", masked, TN_F64, UPTO, TIMES, 3, 71, 1, NO_NAN, "scan(", NULL},
    {"products of those behind", masked, TN_F32, BEHIND, TIMES, 2, 300, 1, NO_NAN, "scan(", NULL},
    {"maxima", masked, TN_F32, UPTO, GREATEST, 2, 300, 1, NO_NAN, "scan(", NULL},
    {"maxima of those before", masked, TN_F32, BEFORE, GREATEST, 2, 90, 1, NO_NAN, "scan(", NULL},
    {"a NaN", masked, TN_F32, UPTO, PLUS, 2, 200, 1, 77, "scan(", NULL},
    {"a NaN from behind", masked, TN_F32, FROM, PLUS, 2, 200, 1, 77, "scan(", NULL},
    {"a NaN at the end", masked, TN_F32, BEFORE, GREATEST, 2, 101, 1, 100, "scan(", NULL},
    {"columns", masked, TN_F32, UPTO, PLUS, 2, 90, 5, NO_NAN, "scan(", NULL},
    {"columns side by side", scan, TN_F32, UPTO, PLUS, 2, 70, 16, NO_NAN, "across(8)", NULL},
    {"all columns that there are", scan, TN_F32, UPTO, PLUS, 2, 70, 5, NO_NAN, "across(", NULL},
    {"columns of odd rows", scan, TN_I32, UPTO, PLUS, 3, 67, 21, NO_NAN, "across(16)", NULL},
    {"columns of two bytes", scan, TN_BF16, UPTO, PLUS, 1, 66, 40, NO_NAN, "across(", NULL},
    {"columns of those before", masked, TN_F32, BEFORE, PLUS, 3, 71, 7, NO_NAN, "across(", NULL},
    {"columns from the end", masked, TN_F32, BEHIND, PLUS, 2, 90, 18, NO_NAN, "across(", NULL},
    {"products of columns", masked, TN_F32, FROM, TIMES, 1, 130, 3, NO_NAN, "across(", NULL},
    {"a NaN in columns", masked, TN_F32, UPTO, PLUS, 2, 100, 6, 50, "across(", NULL},
    {"gradients of columns", gradient, TN_F32, FROM, PLUS, 3, 80, 9, NO_NAN, "across(", NULL},
    {"columns beside a maximum of them", with_maximum, TN_F32, UPTO, PLUS, 2, 80, 6, NO_NAN, "across(", NULL},
    {"fetched as they lie", scan, TN_F32, UPTO, PLUS, 64, 33, 1, NO_NAN, "beside(4) fetched(4)", NULL},
    {"... of whose last group a part is there", scan, TN_BF16, UPTO, PLUS, 37, 33, 1, NO_NAN, "fetched(4)", NULL},
    {"... which ends within a wide access", scan, TN_I32, UPTO, PLUS, 35, 65, 1, NO_NAN, "fetched(", NULL},
    {"... from the end", masked, TN_F32, FROM, PLUS, 37, 35, 1, NO_NAN, "fetched(4)", NULL},
    {"... of those behind", masked, TN_F64, BEHIND, PLUS, 37, 37, 1, NO_NAN, "fetched(2)", NULL},
    {"... of those before", masked, TN_I32, BEFORE, PLUS, 37, 34, 1, NO_NAN, "fetched(2)", NULL},
    {"... maxima from the end", masked, TN_F32, FROM, GREATEST, 37, 33, 1, 32, "fetched(4)", NULL},
    {"... products from the end", masked, TN_F32, FROM, TIMES, 37, 33, 1, NO_NAN, "fetched(4)", NULL},
    {"... one row in a group", scan, TN_F32, UPTO, PLUS, 3, 515, 1, NO_NAN, "fetched(1)", NULL},
    {"... of three axes", of_two_axes, TN_F32, UPTO, PLUS, 33, 33, 1, NO_NAN, "fetched(4)", NULL},
    {"... across memory", of_turned, TN_F32, UPTO, PLUS, 33, 35, 1, NO_NAN, NULL, NULL},
    {"... of what lies apart", of_half, TN_F32, UPTO, PLUS, 33, 67, 1, NO_NAN, "fetched(1)", NULL},
    {"... of a row that begins anywhere", of_second, TN_F32, UPTO, PLUS, 1, 67, 1, NO_NAN, "scan(", "fetched("},
    {"... with functions around", between, TN_BF16, UPTO, PLUS, 37, 35, 1, NO_NAN, "fetched(4)", NULL},
    {"... gradients", gradient, TN_F32, FROM, PLUS, 37, 35, 1, NO_NAN, "fetched(4)", NULL},
    {"... as many as one has elements", of_blocks, TN_F32, UPTO, PLUS, 1, 97 * 97, 1, NO_NAN, "scan(", "share("},
    {"... columns", scan, TN_F32, UPTO, PLUS, 7, 100, 2, NO_NAN, "fetched(", NULL},
    {"... columns from the end", masked, TN_F32, BEHIND, PLUS, 7, 101, 4, NO_NAN, "fetched(", NULL},
    {"... columns of bytes", masked, TN_U8, UPTO, GREATEST, 5, 131, 4, NO_NAN, "fetched(", NULL},
    {"... three columns", scan, TN_F32, UPTO, PLUS, 7, 100, 3, NO_NAN, "across(", NULL},
    {"... gradients of columns", gradient, TN_BF16, FROM, PLUS, 5, 131, 4, NO_NAN, "fetched(", NULL},
    {"bytes", masked, TN_U8, UPTO, GREATEST, 2, 300, 1, NO_NAN, NULL, NULL},
    {"bf16", scan, TN_BF16, UPTO, PLUS, 2, 33, 1, NO_NAN, "scan(", NULL},
    {"wide integers", scan, TN_I64, UPTO, PLUS, 2, 500, 1, NO_NAN, "scan(", NULL},
    {"rows side by side", scan, TN_F32, UPTO, PLUS, 300, 32, 1, NO_NAN, "beside(", NULL},
    {"odd rows side by side", scan, TN_F32, UPTO, PLUS, 301, 21, 1, NO_NAN, "beside(", NULL},
    {"rows of a thread and a half", scan, TN_I32, UPTO, PLUS, 7, 18, 1, NO_NAN, "scan(", NULL},
    {"gradients", gradient, TN_F32, FROM, PLUS, 3, 150, 1, NO_NAN, "scan(", NULL},
    {"gradients of short rows", gradient, TN_F32, FROM, PLUS, 50, 40, 1, NO_NAN, "scan(", NULL},
    {"gradients of products", gradient_of_products, TN_F32, UPTO, TIMES, 3, 150, 1, NO_NAN, NULL, NULL},
    {"gradients of products with a zero", gradient_of_products, TN_F32, UPTO, TIMES, 2, 131, 3, 90, NULL, NULL},
    {"columns too few for a thread each", scan, TN_F32, UPTO, PLUS, 2, 40, 21, NO_NAN, "across(", NULL},
    {"a flip", of_flipped, TN_F32, UPTO, PLUS, 2, 131, 1, NO_NAN, "scan(", NULL},
    {"one row for many", of_shared, TN_F32, UPTO, PLUS, 5, 100, 1, NO_NAN, "scan(", NULL},
    {"functions around", between, TN_F32, UPTO, PLUS, 3, 111, 1, NO_NAN, "scan(", NULL},
    {"kept beside their sums", between, TN_F32, UPTO, PLUS, 3, 256, 1, NO_NAN, "keeps(1)", NULL},
    {"... of which the last thread has a part", between, TN_F32, UPTO, PLUS, 3, 132, 1, NO_NAN, "keeps(1)", NULL},
    {"... from the end", between, TN_F32, FROM, PLUS, 3, 256, 1, NO_NAN, "keeps(1)", NULL},
    {"... of those behind", between, TN_I64, BEHIND, PLUS, 3, 132, 1, NO_NAN, "keeps(1)", NULL},
    {"... of those before, converted", between, TN_BF16, BEFORE, PLUS, 3, 256, 1, NO_NAN, "keeps(1)", NULL},
    {"... of columns", between, TN_F32, UPTO, PLUS, 2, 70, 16, NO_NAN, "keeps(1)", NULL},
    {"... not of what is fetched", between, TN_F32, UPTO, PLUS, 37, 35, 1, NO_NAN, "fetched(4)", "keeps("},
    {"what would count beyond the end", of_more, TN_F32, BEHIND, PLUS, 3, 111, 1, NO_NAN, "scan(", NULL},
    {"below a maximum", below, TN_F32, UPTO, PLUS, 3, 111, 1, NO_NAN, "scan(", NULL},
    {"slid along", slid, TN_F32, UPTO, PLUS, 3, 111, 1, NO_NAN, "scan(", NULL},
    {"two in one", twice, TN_F32, UPTO, PLUS, 3, 111, 1, NO_NAN, "scan(", NULL},
    {"beside a maximum of the row", with_maximum, TN_F32, UPTO, PLUS, 3, 111, 1, NO_NAN, "scan(", NULL},
    {"of terms with a maximum of the row", less_maximum, TN_F32, UPTO, PLUS, 3, 40, 1, NO_NAN, "scan(", NULL},
    {"of fetched terms with a maximum", less_maximum, TN_F32, UPTO, PLUS, 40, 67, 1, NO_NAN, "scan(", NULL},
    {"of many terms with a maximum", less_maximum, TN_F32, UPTO, PLUS, 2, 640, 1, NO_NAN, "scan(", NULL},
    {"as many blocks as one has elements", of_blocks, TN_F32, UPTO, PLUS, 1, 96 * 96, 1, NO_NAN, "scan(", "share("},
    {"a short row is a thread's own", scan, TN_F32, UPTO, PLUS, 3, 16, 1, NO_NAN, NULL, "scan("},
    {"one turn", scan, TN_F32, UPTO, PLUS, 3, 1, 1, NO_NAN, NULL, "scan("},
};

/* Of up to 64: a thread's, but by a variant */
#define FETCHED NO_NAN, "fetched(", NULL
static const program short_ones[] = {
    {"short rows fetched as they lie", scan, TN_BF16, UPTO, TIMES, 64, 13, 1, FETCHED},
    {"... a thread's each", scan, TN_F32, UPTO, TIMES, 64, 7, 1, NO_NAN, "1x7) beside(32) fetched(4)", NULL},
    {"... of whose last group a part is there", scan, TN_BF16, UPTO, TIMES, 99, 13, 1, FETCHED},
    {"... which ends within a wide access", scan, TN_F32, UPTO, PLUS, 99, 15, 1, FETCHED},
    {"... of an even number", scan, TN_I32, UPTO, PLUS, 300, 12, 1, FETCHED},
    {"... of whole wide accesses", scan, TN_F32, UPTO, PLUS, 70, 16, 1, FETCHED},
    {"... of one such", scan, TN_F32, UPTO, PLUS, 70, 4, 1, NO_NAN, "fetched(4)", "fetched(4,"},
    {"... of two", scan, TN_F64, UPTO, TIMES, 77, 4, 1, NO_NAN, "fetched(2,2)", NULL},
    {"... of two from the end", masked, TN_I64, FROM, PLUS, 70, 4, 1, NO_NAN, "fetched(2,2)", NULL},
    {"... of two", scan, TN_F16, UPTO, PLUS, 333, 2, 1, FETCHED},
    {"... of those before", masked, TN_F32, BEFORE, PLUS, 77, 9, 1, FETCHED},
    {"... from the end", masked, TN_F64, FROM, TIMES, 77, 5, 1, FETCHED},
    {"... of those behind", masked, TN_I64, BEHIND, PLUS, 77, 11, 1, FETCHED},
    {"... maxima", masked, TN_U8, UPTO, GREATEST, 77, 7, 1, FETCHED},
    {"... with a NaN", masked, TN_F32, FROM, GREATEST, 77, 7, 1, 3, "fetched(", NULL},
    {"... with functions around", between, TN_BF16, UPTO, PLUS, 77, 13, 1, FETCHED},
    {"... gradients", gradient, TN_F32, FROM, PLUS, 77, 13, 1, FETCHED},
    {"... gradients of products", gradient_of_products, TN_F32, UPTO, TIMES, 77, 5, 1, NO_NAN, NULL, NULL},
    {"... with a maximum of the row", less_maximum, TN_F32, UPTO, PLUS, 77, 13, 1, NO_NAN, NULL, NULL},
    {"... beside a maximum of the row", with_maximum, TN_F32, UPTO, PLUS, 77, 13, 1, NO_NAN, NULL, NULL},
    {"... of three axes", of_two_axes, TN_F32, UPTO, PLUS, 99, 13, 1, FETCHED},
    {"... across memory", of_turned, TN_F32, UPTO, PLUS, 99, 13, 1, NO_NAN, NULL, NULL},
    {"... of what lies apart", of_half, TN_F32, UPTO, PLUS, 99, 13, 1, NO_NAN, NULL, NULL},
    {"short columns", scan, TN_F32, UPTO, PLUS, 70, 13, 2, FETCHED},
    {"... from the end", masked, TN_BF16, BEHIND, PLUS, 70, 11, 4, FETCHED},
    {"... of whole wide accesses", scan, TN_F32, UPTO, TIMES, 301, 4, 2, NO_NAN, "fetched(4,4)", NULL},
    {"... of three", scan, TN_F32, UPTO, PLUS, 70, 50, 3, NO_NAN, NULL, NULL},
    {"rows of several threads each", scan, TN_F32, UPTO, PLUS, 70, 24, 1, NO_NAN, "fetched(4,4)", NULL},
    {"... whose neighbours go beyond the end", masked, TN_BF16, FROM, PLUS, 99, 48, 1, NO_NAN, "8x7)", NULL},
    {"... of those behind", masked, TN_I32, BEHIND, PLUS, 70, 56, 1, NO_NAN, "fetched(2,2)", NULL},
    {"one turn", scan, TN_F32, UPTO, PLUS, 70, 1, 1, NO_NAN, NULL, NULL},
};

/* Longer than a group's: sums of blocks, and what stands before a block summed up by its group */
static const program long_ones[] = {
    {"rows of a thread each", scan, TN_F32, UPTO, PLUS, 8000, 17, 1, NO_NAN, "1x17) beside(64) fetched(4)", NULL},
    {"... from the end", masked, TN_F32, BEHIND, PLUS, 8001, 17, 1, NO_NAN, "1x17) beside(64) fetched(4)", NULL},
    {"rows of two threads", scan, TN_F32, UPTO, PLUS, 4101, 33, 1, NO_NAN, "2x17) beside(32) fetched(4)", NULL},
    {"two blocks", scan, TN_F32, UPTO, PLUS, 1, 1025, 1, NO_NAN, "scan(", NULL},
    {"two and a bit", scan, TN_I32, UPTO, PLUS, 1, 1055, 1, NO_NAN, "scan(", NULL},
    {"a NaN in the second", scan, TN_F32, UPTO, PLUS, 1, 1040, 1, 1030, "scan(", NULL},
    {"columns of blocks", scan, TN_F32, UPTO, PLUS, 1, 150, 33, NO_NAN, "across(", NULL},
    {"columns of three", scan, TN_I32, UPTO, PLUS, 2, 700, 3, NO_NAN, "across(", NULL},
    {"gradients of columns of blocks", gradient, TN_F32, FROM, PLUS, 1, 300, 17, NO_NAN, "across(", NULL},
    {"gradients of blocks", gradient, TN_F32, FROM, PLUS, 1, 1040, 1, NO_NAN, "scan(", NULL},
};

static void on_devices(void **s) {
  static const char *const devices[] = {"ref:sm_90", "ref:opencl"};
  unsigned long cases = 0;
  (void)s;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
    for (size_t i = 0; i < sizeof programs / sizeof *programs; i++)
      if (is_taken(&cases)) compare(&programs[i], devices[d], NULL);
}

static void of_short_ones(void **s) {
  static const char *const devices[] = {"ref:sm_90", "ref:opencl"};
  unsigned long cases = 0;
  (void)s;
  for (size_t d = 0; d < sizeof devices / sizeof *devices; d++)
    for (size_t i = 0; i < sizeof short_ones / sizeof *short_ones; i++)
      if (is_taken(&cases)) compare(&short_ones[i], devices[d], "fetched");
}

static void by_blocks(void **s) {
  (void)s;
  static const program wide = {"rows of a thread each, of wide accesses", scan, TN_F32, UPTO, PLUS, 9000, 16, 1, NO_NAN,
                               "1x16) beside(64) fetched(4,4)", NULL};
  for (size_t i = 0; i < sizeof long_ones / sizeof *long_ones; i++) compare(&long_ones[i], "ref:opencl", NULL);
  compare(&wide, "ref:opencl", "fetched");
}

/* Elements that take much are shared out among more threads than go along their rows, if there are few groups; not
 * those that take little. */
static void by_more_threads(void **s) {
  static const program much[] = {
      {"few groups", of_dear, TN_F32, UPTO, PLUS, 77, 33, 1, NO_NAN, "__launch_bounds__(64)", NULL},
      {"a part of a group", of_dear, TN_F32, FROM, PLUS, 37, 35, 1, NO_NAN, "__launch_bounds__(64)", NULL},
      {"f64", of_dear, TN_F64, BEFORE, PLUS, 37, 37, 1, NO_NAN, "__launch_bounds__(128)", NULL},
      {"one row in a group", of_dear, TN_F32, UPTO, PLUS, 3, 515, 1, NO_NAN, "__launch_bounds__(256)", NULL},
      {"little", between, TN_F32, UPTO, PLUS, 77, 33, 1, NO_NAN, "__launch_bounds__(32)", NULL},
  };
  (void)s;
  for (size_t i = 0; i < sizeof much / sizeof *much; i++) compare(&much[i], "ref:sm_90", NULL);
}

/* In mode strict additions keep the order of the graph. */
static void in_order(void **s) {
  static const program p = {"in order", masked, TN_F32, UPTO, PLUS, 1, 100, 1, NO_NAN, NULL, "scan("};
  size_t bytes = 0;
  (void)s;
  tn_options strict = {.device = "ref:sm_90", .mode = TN_MODE_STRICT};
  free(explained(strict, p.name, made, check_steps, &(given){&p, NULL}, &bytes));
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(on_devices), cmocka_unit_test(of_short_ones),
                                     cmocka_unit_test(by_blocks), cmocka_unit_test(by_more_threads),
                                     cmocka_unit_test(in_order)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
