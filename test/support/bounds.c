#include "support/bounds.h"
#include "device/device.h"
#include "ir/eval.h"
#include "support/device.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- ranges ------------------------------------------------------------------------------------------------------ */

typedef struct range { /* sure: the bits, NaN or not; nan: or NaN */
  double lo, hi;
  bool sure, nan;
} range;

static double number(uint64_t bits) {
  double v;
  memcpy(&v, &bits, sizeof v);
  return v;
}

static uint64_t pattern(double v) {
  uint64_t bits;
  memcpy(&bits, &v, sizeof bits);
  return bits;
}

static range range_of(const naive_tensor *t, int64_t i) {
  if (!t->plane[0] || t->plane[NAIVE_STATE][i] == NAIVE_SURE) {
    double v = tn__eval_to_double(t->dtype, t->bits[i]);
    return (range){v, v, true, isnan(v)};
  }
  return (range){number(t->plane[NAIVE_LO][i]), number(t->plane[NAIVE_HI][i]), false,
                 t->plane[NAIVE_STATE][i] == NAIVE_OR_NAN};
}

/* Halves of what is subnormal are not exact: they are not added up. */
static double middle_of(range r) {
  double width = r.hi - r.lo;
  return r.sure || r.lo == r.hi ? r.lo : isfinite(width) ? r.lo + width / 2 : r.lo / 2 + r.hi / 2;
}

static void set_range(naive_tensor *t, int64_t i, range r) {
  if (!t->plane[0]) {
    if (r.sure) return;
    naive_planes(t);
  }
  t->plane[NAIVE_STATE][i] = r.sure ? NAIVE_SURE : r.nan ? NAIVE_OR_NAN : NAIVE_WITHIN;
  t->plane[NAIVE_LO][i] = pattern(r.lo);
  t->plane[NAIVE_HI][i] = pattern(r.hi);
}

static range anything(int dtype) {
  if (tn__is_float(dtype)) return (range){-INFINITY, INFINITY, false, true};
  if (dtype == TN_BOOL) return (range){0, 1, false, false};
  double top = ldexp(1, (int)tn__size_of(dtype) * 8 - tn__dtypes[dtype].is_signed);
  return (range){tn__dtypes[dtype].is_signed ? -top : 0, top, false, false};
}

/* The exponents of a float dtype's least unit and of what overflows. */
static const struct {
  int least, over;
} exponents[TN_DTYPE_COUNT] = {
    [TN_F16] = {-24, 16}, [TN_BF16] = {-133, 128}, [TN_F32] = {-149, 128}, [TN_F64] = {-1074, 1024}};

static double ulp(int dtype, double x) {
  int e = 0;
  if (isfinite(x)) frexp(x, &e);
  e -= tn__dtypes[dtype].mant;
  return ldexp(1, e < exponents[dtype].least ? exponents[dtype].least : e);
}

static double nearest(int dtype, double x) { return tn__eval_to_double(dtype, tn__eval_from_double(dtype, x)); }

/* The dtype's next value from x on, outwards. */
static double outwards(int dtype, double x, bool up) {
  double y = nearest(dtype, x);
  if (!tn__is_float(dtype) || isinf(y) || (up ? y >= x : y <= x)) return y;
  return nearest(dtype, up ? y + ulp(dtype, y) : y - ulp(dtype, y));
}

static range widened(int dtype, range r, double by) {
  if (isfinite(r.lo)) r.lo = outwards(dtype, r.lo - by, false);
  if (isfinite(r.hi)) r.hi = outwards(dtype, r.hi + by, true);
  r.sure = false;
  return r;
}

/* ---- functions of elements --------------------------------------------------------------------------------------- */

/* Units of the last place that a device's own function of f64 may be off: its library's, and some more, for the C
 * library's may be off by so much. */
static double library_ulps(const tn_node *n) {
  const tn__op_info *op = &tn__ops[n->op];
  return n->dtype == TN_F64 && op->rounding == RN_LIBRARY ? op->library[LB_CUDA] + 1.5 : 0;
}

/* Does it keep bf16 as f32 (lower/widen.c)? */
static bool is_continuous(const tn_node *n) { return tn__ops[n->op].response >= RS_CONTINUOUS; }

/* Functions that CUDA may compute to 2^-16 where nothing but bf16 or f16 comes of them (lower/near.c). */
static const bool near[OP_COUNT] = {
    [OP_EXP] = true,  [OP_EXP2] = true, [OP_EXPM1] = true, [OP_LOG] = true,   [OP_LOG2] = true,
    [OP_LOG10] = true, [OP_LOG1P] = true, [OP_SIN] = true,  [OP_COS] = true,   [OP_ATAN] = true,
    [OP_ATAN2] = true, [OP_SINH] = true, [OP_COSH] = true,  [OP_TANH] = true,  [OP_ASINH] = true,
    [OP_ACOSH] = true, [OP_ATANH] = true, [OP_ERF] = true,  [OP_DIV] = true,   [OP_SQRT] = true};
/* How a function's range follows from its operands', by column REACH of ir/ops.def.  CORNERS, of integers that may
 * wrap, and others: see corners_hold. */
typedef enum way { ANYTHING, CORNERS, EVEN, SIGNED, WAVE, EQUALITY, CHOICE } way;
static const uint8_t ways[OP_COUNT] = {
#define OP(name, text, group, least, most, arg, phases, dtype, shape, cost, rounding, response, combine, reach, value) \
  [OP_##name] = reach,
#include "ir/ops.def"
};

static bool spans(range r, double v) { return r.lo <= v && v <= r.hi; }

static bool corners_hold(const tn_node *n, int sdtype, const range *x) {
  bool least = n->op == OP_MIN || n->op == OP_MAX, compares = n->dtype == TN_BOOL && sdtype != TN_BOOL;
  if (!tn__is_float(sdtype) && sdtype != TN_BOOL && !least && !compares && n->op != OP_CAST) return false; /* wraps */
  if (n->op == OP_CAST && !tn__is_float(n->dtype) && !tn__is_float(sdtype) && sdtype != TN_BOOL) return false;
  if (n->op == OP_CAST && n->dtype == TN_BOOL) return !spans(x[0], 0) || x[0].lo == x[0].hi;
  if (n->op == OP_DIV || n->op == OP_IDIV) return !spans(x[1], 0) && isfinite(x[1].lo) && isfinite(x[1].hi);
  if (n->op == OP_POW) return x[0].lo > 0 && isfinite(x[0].hi);
  if (n->op == OP_ATAN2) return x[1].lo > 0 || (x[1].hi < 0 && !spans(x[0], 0));
  if (n->op == OP_MUL || n->op == OP_FMA) {
    for (int k = 0; k < 2; k++)
      if (spans(x[k], 0) && (isinf(x[!k].lo) || isinf(x[!k].hi))) return false;
  }
  return true;
}

/* Is the device's text of this function one whose last bits need not rise with its operand? */
static bool wobbles(tn__op op) { return tn__ops[op].rounding == RN_LIBRARY; }

typedef struct function { /* n, evaluated in `dtype` on operands of `sdtype` */
  const tn_node *n;
  int dtype, sdtype;
} function;

static double value_at(const function *f, const double *x) {
  uint64_t arg[3] = {0};
  for (uint32_t k = 0; k < f->n->nsrc; k++) arg[k] = tn__eval_from_double(f->sdtype, x[k]);
  return tn__eval_to_double(f->dtype, tn__eval(f->n->op, f->dtype, f->sdtype, arg));
}

static range at_corners(const function *f, const range *x) {
  range r = {INFINITY, -INFINITY, false, false};
  for (uint32_t k = 0; k < f->n->nsrc; k++) r.nan |= x[k].nan;
  for (uint32_t corner = 0; corner < 1u << f->n->nsrc; corner++) {
    double at[3];
    for (uint32_t k = 0; k < f->n->nsrc; k++)
      at[k] = corner >> k & 1 ? outwards(f->sdtype, x[k].hi, true) : outwards(f->sdtype, x[k].lo, false);
    double y = value_at(f, at);
    if (isnan(y)) return anything(f->dtype); /* beyond a border, near which it may grow without one */
    r.lo = fmin(r.lo, y), r.hi = fmax(r.hi, y);
  }
  if (tn__is_float(f->dtype) && wobbles(f->n->op))
    return widened(f->dtype, r, 4 * ulp(f->dtype, fmax(fabs(r.lo), fabs(r.hi))));
  return r;
}

static range follow(const function *f, const range *x) {
  const tn_node *n = f->n;
  bool nan = false;
  for (uint32_t k = 0; k < n->nsrc; k++) nan |= x[k].nan;
  if (nan && !tn__is_float(f->dtype)) return anything(f->dtype);
  switch ((way)ways[n->op]) {
  case EVEN: {
    range folded[3];
    if (!tn__is_float(f->dtype)) break;
    for (uint32_t k = 0; k < n->nsrc; k++) {
      double a = fabs(x[k].lo), b = fabs(x[k].hi);
      folded[k] = (range){spans(x[k], 0) ? 0 : fmin(a, b), fmax(a, b), x[k].sure, x[k].nan};
    }
    return at_corners(f, folded);
  }
  case SIGNED: {
    double far = fmax(fabs(x[0].lo), fabs(x[0].hi));
    return (range){-far, far, false, x[0].nan};
  }
  case WAVE: {
    double width = x[0].hi - x[0].lo, middle = nearest(f->sdtype, middle_of(x[0]));
    if (!(width < 2)) return (range){-1, 1, false, nan || isinf(x[0].lo) || isinf(x[0].hi)};
    double y = value_at(f, &middle), by = width + 8 * ulp(f->dtype, 1) + ulp(f->sdtype, middle);
    return (range){fmax(-1, outwards(f->dtype, y - by, false)), fmin(1, outwards(f->dtype, y + by, true)), false, nan};
  }
  case EQUALITY:
    if (x[0].hi < x[1].lo || x[1].hi < x[0].lo) return (range){n->op == OP_NE, n->op == OP_NE, false, false};
    break;
  case CHOICE:
    if (x[0].sure) return x[0].lo != 0 ? x[1] : x[2];
    return (range){fmin(x[1].lo, x[2].lo), fmax(x[1].hi, x[2].hi), false, x[1].nan || x[2].nan};
  case CORNERS:
    if (corners_hold(n, f->sdtype, x)) return at_corners(f, x);
    break;
  case ANYTHING: break;
  }
  return anything(f->dtype);
}

void bounds_follow(const tn_node *n, int dtype, const double *lo, const double *hi, double *to) {
  range x[3] = {{0}};
  for (uint32_t k = 0; k < n->nsrc; k++) x[k] = (range){lo[k], hi[k], false, false};
  range r = follow(&(function){n, n->dtype, dtype}, x);
  to[0] = r.lo, to[1] = r.hi;
}

/* ---- sums -------------------------------------------------------------------------------------------------------- */

typedef struct watcher {
  naive_watch watch;
  tn_ctx *c;
  double slack;
  tn__map short_; /* f32 nodes from which bf16 or f16 comes: see near */
  tn__map folded; /* what a gradient of convolutions folds, down to its product: see find_folded */
  tn__map joined; /* tanh, and what leads to it from a product: see find_joined */
  bool loose;     /* mode default */
  bool gpu, cuda;  /* the context's device is one, or such a one; */
  bool tf32;       /* factors may be rounded to tf32 on it */
  bool finishes;  /* the device has a library that does functions with a product, before it rounds; */
  bool convolves; /* one that convolves */
} watcher;

/* The exponent of the lowest bit that is set; of 0 none. */
static int lowest_bit(double v) {
  int e;
  double m = frexp(fabs(v), &e);
  uint64_t bits = (uint64_t)ldexp(m, 53);
  return bits ? e - 53 + __builtin_ctzll(bits) : INT32_MAX;
}

/* Of one operand: the middle of each range, 0 where it is surely not finite; how far it reaches. */
typedef struct terms {
  double *middle, *reach, *size;
  int unit;  /* all are multiples of 2^unit */
  bool sure; /* all of them */
} terms;

static double *doubles(int64_t n) {
  double *v = malloc((size_t)(n ? n : 1) * sizeof *v);
  if (!v) abort();
  return v;
}

static terms terms_of(const naive_tensor *t) {
  terms a = {doubles(t->n), doubles(t->n), doubles(t->n), INT32_MAX, true};
  for (int64_t i = 0; i < t->n; i++) {
    range r = range_of(t, i);
    bool finite = isfinite(r.lo) && isfinite(r.hi);
    a.middle[i] = finite ? middle_of(r) : 0;
    a.reach[i] = finite ? fmax(r.hi - a.middle[i], a.middle[i] - r.lo) : 0;
    /* what may be NaN or infinite and need not be: nothing is known of the sum */
    a.size[i] = !r.sure && (r.nan || !finite) ? INFINITY : fabs(a.middle[i]) + a.reach[i];
    a.sure &= r.sure;
    int unit = lowest_bit(a.middle[i]);
    if (unit < a.unit) a.unit = unit;
  }
  return a;
}

static void terms_free(terms a) {
  free(a.middle);
  free(a.reach);
  free(a.size);
}

/* How many terms a cell of a product or a reduction has. */
static double terms_of_cell(const tn_node *n, naive_tensor *const *x, const naive_tensor *t) {
  int64_t *ints = (int64_t *)(uintptr_t)n->ints, k = 1;
  if (n->op != OP_CONTRACT) return t->n ? (double)(x[0]->n / t->n) : 0;
  for (uint32_t i = (uint32_t)(ints[0] + ints[1]); i < x[0]->rank; i++) k *= x[0]->dim[i];
  return (double)k;
}

/* So, of each cell. */
static double *count_terms(naive_machine *m, const tn_node *n, naive_tensor *const *x, const naive_tensor *t) {
  double *count = doubles(t->n);
  if (n->op == OP_FOLD || n->op == OP_SCATTER) {
    double *in[3] = {0};
    for (uint32_t k = 0; k < n->nsrc; k += 2) {
      in[k] = doubles(x[k]->n);
      for (int64_t i = 0; i < x[k]->n; i++) in[k][i] = 1;
    }
    naive_again(m, n, (tn__op)n->op, in, t, count);
    free(in[0]), free(in[2]);
  } else {
    for (int64_t i = 0; i < t->n; i++) count[i] = terms_of_cell(n, x, t);
  }
  return count;
}

/* Are its terms products?  One that is added by a fused multiply-add is not rounded before. */
static bool adds_products(const tn_node *n) {
  const tn_node *x = n->src[0];
  while (tn__ops[x->op].group == G_MOVE) x = x->src[0];
  return x->op == OP_MUL;
}

/* What all cells of a sum have in common. */
typedef struct sums {
  int dtype, over; /* it is computed in; the exponent of what overflows on the way */
  int written;     /* the dtype in which it is in the order written */
  bool sure;       /* every term is, and multiples of 2^unit they are */
  int unit;
  bool kept;       /* it may be left unrounded */
} sums;

typedef struct cell { /* what its terms come to: their number, their middles, their reaches, their magnitudes */
  double count, middle, reach, size;
} cell;

/* May so many terms of that size in all overflow in a dtype? */
static bool may_overflow(double count, double size, int over, double eps) {
  return !(ldexp(size, -over) * (1 + count * eps) < 1);
}

static range sum_range(const sums *s, const naive_tensor *t, int64_t i, cell x) {
  int mant = tn__dtypes[s->dtype].mant;
  double eps = ldexp(1, 1 - mant), least = ldexp(1, exponents[s->dtype].least);
  double written = ldexp(1, 1 - tn__dtypes[s->written].mant), v = tn__eval_to_double(t->dtype, t->bits[i]);
  range same = {.sure = true};
  if (may_overflow(x.count, x.size, s->over, fmax(eps, written))) return anything(t->dtype);
  bool only_written = may_overflow(x.count, x.size, exponents[s->written].over, written);
  if (!isfinite(v)) return s->sure && !only_written ? same : anything(t->dtype);
  if (s->sure && (x.size == 0 || ilogb(x.size) < s->unit + mant) && s->unit > exponents[s->dtype].least) {
    double rounded = nearest(t->dtype, x.middle);
    if (!s->kept || x.middle == v) return same;
    return (range){fmin(x.middle, rounded), fmax(x.middle, rounded), false, false};
  }
  double by = x.reach + 1.01 * x.count * (eps * x.size + least) + ldexp(x.size, -50);
  return (range){outwards(t->dtype, x.middle - by, false), outwards(t->dtype, x.middle + by, true), false, false};
}

static bool is_half(int dtype) { return dtype == TN_BF16 || dtype == TN_F16; }

/* May it be left unrounded because it is folded? */
static bool is_folded(const watcher *w, const tn_node *n) { return tn__map_get(&w->folded, (uintptr_t)n, NULL); }

/* A convolution or a gradient of one: a library may keep sums of parts in f16. */
static bool is_of_windows(const tn_node *n) {
  bool windows = false;
  for (uint32_t k = 0; n->op == OP_CONTRACT && k < 2; k++) {
    const tn_node *x = n->src[k];
    while (x->op == OP_PERMUTE || x->op == OP_RESHAPE) x = x->src[0];
    windows |= x->op == OP_WINDOW;
  }
  return windows;
}

static bool all_finite(const naive_tensor *x) {
  for (int64_t i = 0; i < x->n; i++) {
    range r = range_of(x, i);
    if (!isfinite(r.lo) || !isfinite(r.hi)) return false;
  }
  return true;
}

/* A library may multiply the zeros around an image, too, or leave them out: NaN or not, where the other factor is
 * infinite. */
static bool meets_padding(const watcher *w, const tn_node *n, naive_tensor *const *x) {
  return w->convolves && w->loose && n->op == OP_CONTRACT && (is_of_windows(n) || is_folded(w, n)) &&
         !(all_finite(x[0]) && all_finite(x[1]));
}

/* Sums of bf16 are added up in f32 (lower/widen.c). */
static bool is_summed_wide(const watcher *w, const tn_node *n) {
  return w->loose && n->dtype == TN_BF16 && (n->op == OP_SUM || n->op == OP_FOLD);
}

static void sum(const watcher *w, naive_machine *m, const tn_node *n, naive_tensor *const *x, naive_tensor *t) {
  bool product = n->op == OP_CONTRACT, wide = is_summed_wide(w, n), scatter = n->op == OP_SCATTER;
  tn__op as = (tn__op)n->op;
  int dtype = product || wide || scatter ? tn__dtype_acc(n->dtype) : n->dtype;
  bool planes = x[0]->plane[0] || (product && x[1]->plane[0]) || (scatter && x[2]->plane[0]);
  if (meets_padding(w, n, x)) {
    for (int64_t i = 0; i < t->n; i++) set_range(t, i, anything(t->dtype));
    return;
  }
  if (!w->loose && !planes) return;
  terms a = terms_of(x[0]), b = {0};
  uint32_t other = scatter ? 2 : 1;
  if (product || scatter) b = terms_of(x[other]);
  double *count = count_terms(m, n, x, t), *in[3] = {a.middle};
  in[other] = b.middle;
  double *middle = doubles(t->n), *size = doubles(t->n), *reach = doubles(t->n);
  naive_again(m, n, as, in, t, middle);
  in[0] = a.size, in[other] = b.size;
  naive_again(m, n, as, in, t, size);
  for (int64_t i = 0; i < t->n; i++) reach[i] = 0;
  if (planes && product) { /* (|a|+r)(|b|+s) - |a||b| */
    for (int64_t i = 0; i < x[0]->n; i++) a.middle[i] = fabs(a.middle[i]);
    for (int64_t i = 0; i < x[1]->n; i++) b.middle[i] = fabs(b.middle[i]);
    in[0] = a.middle, in[1] = b.middle;
    naive_again(m, n, as, in, t, reach);
    for (int64_t i = 0; i < t->n; i++) reach[i] = fmax(size[i] - reach[i], 0);
  } else if (planes) {
    in[0] = a.reach, in[other] = b.reach;
    naive_again(m, n, as, in, t, reach);
  }
  bool coarse = w->tf32 && n->dtype == TN_F32;
  sums all = {.dtype = dtype,
              .over = exponents[w->cuda && is_of_windows(n) ? n->dtype : dtype].over,
              .written = product ? dtype : n->dtype,
              .sure = a.sure && (b.middle ? b.sure : true) && !coarse && !(w->loose && adds_products(n)),
              .unit = a.unit,
              .kept = wide || (scatter && is_half(n->dtype)) ||
                      (product && is_half(n->dtype) && (w->finishes || is_folded(w, n)))};
  if (scatter && b.unit < all.unit) all.unit = b.unit;
  if (product) all.unit = a.unit == INT32_MAX || b.unit == INT32_MAX ? INT32_MAX / 2 : a.unit + b.unit;
  for (int64_t i = 0; i < t->n; i++) {
    cell of = {count[i], middle[i], reach[i] + (coarse ? ldexp(size[i], -9) : 0), size[i]};
    range r = sum_range(&all, t, i, of);
    if (product && w->cuda && tn__eval_to_double(t->dtype, t->bits[i]) == 0) /* a library's zero has any sign */
      r = r.sure ? (range){0, 0, false, false} : r;
    if (scatter && count[i] == 1) r = range_of(x[0], i);
    bool zero = tn__eval_to_double(t->dtype, t->bits[i]) == 0;
    if (scatter && zero && r.sure) r = (range){0, 0, false, false}; /* of any sign */
    set_range(t, i, r);
  }
  terms_free(a);
  if (b.middle) terms_free(b);
  free(count), free(middle), free(size), free(reach);
}

/* ---- additions in order ------------------------------------------------------------------------------------------ */

/* One end of each element's range, as bits; the bits themselves where they are sure. */
static uint64_t *ends_of(const naive_tensor *t, bool high) {
  uint64_t *bits = malloc((size_t)(t->n ? t->n : 1) * sizeof *bits);
  if (!bits) abort();
  for (int64_t i = 0; i < t->n; i++) {
    range r = range_of(t, i);
    bits[i] = r.sure ? t->bits[i] : tn__eval_from_double(t->dtype, high ? r.hi : r.lo);
  }
  return bits;
}

static const double WILD = 0x1p40; /* more than there are terms */

/* 0 for what is sure, 1 for what is not, WILD for what may be NaN or infinite and need not be. */
static double *doubts_of(const naive_tensor *t) {
  double *doubt = doubles(t->n);
  for (int64_t i = 0; i < t->n; i++) {
    range r = range_of(t, i);
    doubt[i] = r.sure ? 0 : r.nan || !isfinite(r.lo) || !isfinite(r.hi) ? WILD : 1;
  }
  return doubt;
}

/* One end of what updates come to where each sum is rounded. */
static double *sums_in_order(naive_machine *m, const tn_node *n, naive_tensor *const *x, const naive_tensor *t,
                             bool high) {
  uint64_t *ends[3] = {ends_of(x[0], high), NULL, ends_of(x[2], high)}, *to = (uint64_t *)doubles(t->n);
  double *out = doubles(t->n);
  naive_with(m, n, ends, t, to);
  for (int64_t i = 0; i < t->n; i++) out[i] = tn__eval_to_double(t->dtype, to[i]);
  free(ends[0]), free(ends[2]), free(to);
  return out;
}

/* Is it a function of elements (schedule/place.c), which may be left unrounded as others are?  Each element is a number
 * and one update. */
static bool is_unrounded(const watcher *w, const tn_node *n) {
  const tn_node *base = n->src[0], *to = n->src[1];
  while (tn__ops[base->op].group == G_MOVE) base = base->src[0];
  return w->loose && n->dtype == TN_BF16 && base->op == OP_CONST && to->op == OP_PERMUTATION && n->rank == 1 &&
         to->dim[0] == n->dim[0];
}

/* So of such a one, in f32 */
static double *sums_of_two(naive_machine *m, const tn_node *n, naive_tensor *const *x, const naive_tensor *t,
                           bool high) {
  double *in[3] = {doubles(x[0]->n), NULL, doubles(x[2]->n)}, *out = doubles(t->n);
  for (int k = 0; k < 3; k += 2)
    for (int64_t i = 0; i < x[k]->n; i++) in[k][i] = high ? range_of(x[k], i).hi : range_of(x[k], i).lo;
  naive_again(m, n, OP_SCATTER, in, t, out);
  for (int64_t i = 0; i < t->n; i++) {
    double v = nearest(TN_F32, out[i]), rounded = nearest(n->dtype, v);
    out[i] = high ? fmax(v, rounded) : fmin(v, rounded);
  }
  free(in[0]), free(in[2]);
  return out;
}

/* Where threads do not run at once, and in mode strict everywhere, a scatter adds its updates one after the other, in
 * their order, and each sum is rounded: what is sure gives bits, and no sum becomes smaller because a term is
 * greater. */
static void scatter(const watcher *w, naive_machine *m, const tn_node *n, naive_tensor *const *x, naive_tensor *t) {
  bool unrounded = is_unrounded(w, n);
  if (x[1]->plane[0]) { /* which cells get something is not sure */
    for (int64_t i = 0; i < t->n; i++) set_range(t, i, anything(t->dtype));
    return;
  }
  if (!x[0]->plane[0] && !x[2]->plane[0] && !unrounded) return;
  for (int64_t i = 0; !x[2]->n && i < t->n; i++) set_range(t, i, range_of(x[0], i)); /* it is its base, unrounded */
  if (!x[2]->n) return;
  double *doubt = doubles(t->n), *doubts[3] = {doubts_of(x[0]), NULL, doubts_of(x[2])};
  naive_again(m, n, OP_SCATTER, doubts, t, doubt);
  double *lo = (unrounded ? sums_of_two : sums_in_order)(m, n, x, t, false),
         *hi = (unrounded ? sums_of_two : sums_in_order)(m, n, x, t, true);
  for (int64_t i = 0; i < t->n; i++) {
    bool sure = doubt[i] == 0 && !(lo[i] < hi[i]);
    range r = {lo[i], hi[i], sure, false};
    set_range(t, i, !sure && (doubt[i] >= WILD || isnan(lo[i]) || isnan(hi[i])) ? anything(t->dtype) : r);
  }
  free(doubt), free(doubts[0]), free(doubts[2]), free(lo), free(hi);
}

/* ---- products ---------------------------------------------------------------------------------------------------- */

/* What factors come to, in any order: exponents above and below 1, their bits, and how many are special. */
typedef struct factors {
  double up, down, bits, nans, zeros, infinite, negative;
} factors;

static factors factor(range r) {
  double v = fabs(r.lo), log = v > 0 && isfinite(v) ? log2(v) : 0;
  return (factors){.up = fmax(log, 0),
                   .down = fmax(-log, 0),
                   .bits = v > 0 && isfinite(v) ? log - lowest_bit(v) : 0, /* 3 * 3 has four */
                   .nans = isnan(v),
                   .zeros = v == 0,
                   .infinite = isinf(v),
                   .negative = signbit(r.lo) != 0};
}

/* A product of `count` factors that overflows or may be subnormal in some order: of its sign, as small and as large as
 * that may be; where there may be 0 * inf, NaN.  A multiplication whose result is subnormal is off by half of the least
 * unit, whatever its size, and that is multiplied by the factors that come later: by 2^up at most.  There are count - 1
 * multiplications.  (`slack` is what those are off whose results are not.) */
static range extreme_product(const factors *f, double count, double least, bool over, bool under, double slack) {
  double exact = exp2(f->up - f->down), lo, hi;
  double by = exact * slack + (under ? exp2(least + f->up) * (count / 2) * (1 + slack) : 0);
  bool small = f->zeros > 0 || under, large = f->infinite > 0 || over;
  lo = f->zeros > 0 ? 0 : f->infinite > 0 ? INFINITY : fmax(exact - by, 0);
  hi = f->zeros > 0 ? 0 : large ? INFINITY : exact + by;
  return fmod(f->negative, 2) == 0 ? (range){lo, hi, false, small && large} : (range){-hi, -lo, false, small && large};
}

static void product(const watcher *w, naive_machine *m, const tn_node *n, naive_tensor *const *x, naive_tensor *t) {
  enum { FIELDS = sizeof(factors) / sizeof(double) };
  if (!w->loose && !x[0]->plane[0]) return;
  double *each = doubles(x[0]->n), *all[FIELDS], *in[3] = {each}, count = terms_of_cell(n, x, t);
  bool sure = true;
  for (int field = 0; field < FIELDS; field++) {
    for (int64_t i = 0; i < x[0]->n; i++) {
      range r = range_of(x[0], i);
      factors f = factor(r);
      sure &= r.sure;
      memcpy(&each[i], (char *)&f + (size_t)field * sizeof(double), sizeof(double));
    }
    naive_again(m, n, OP_SUM, in, t, all[field] = doubles(t->n));
  }
  for (int64_t i = 0; i < t->n; i++) {
    int dtype = n->dtype, mant = tn__dtypes[dtype].mant;
    double v = tn__eval_to_double(dtype, t->bits[i]), slack = count * ldexp(1.01, 1 - mant);
    factors f;
    for (int field = 0; field < FIELDS; field++)
      memcpy((char *)&f + (size_t)field * sizeof(double), &all[field][i], sizeof(double));
    range r = {v, v, true, false};
    bool over = f.up >= exponents[dtype].over - 1, under = f.down >= -(exponents[dtype].least + mant);
    if (!sure) r = anything(dtype);
    else if ((over || under) && f.nans == 0)
      r = extreme_product(&f, count, exponents[dtype].least, over, under, slack + 0x1p-40 * (f.up + f.down));
    else if (isfinite(v) && f.bits + 1 > mant) r = widened(dtype, r, fabs(v) * slack);
    set_range(t, i, r);
  }
  for (int field = 0; field < FIELDS; field++) free(all[field]);
  free(each);
}

/* The greatest of ranges reaches from the greatest lower end to the greatest upper one. */
static void extreme(naive_machine *m, const tn_node *n, naive_tensor *const *x, naive_tensor *t) {
  if (!x[0]->plane[0]) return;
  double *v = doubles(x[0]->n), *lo = doubles(t->n), *hi = doubles(t->n), *state = doubles(t->n), *in[3] = {v};
  for (int end = 0; end < 3; end++) {
    for (int64_t i = 0; i < x[0]->n; i++) {
      range r = range_of(x[0], i);
      v[i] = end == 0 ? r.lo : end == 1 ? r.hi : r.sure ? 0 : r.nan ? 2 : 1;
    }
    naive_again(m, n, end == 2 ? OP_RMAX : (tn__op)n->op, in, t, end == 0 ? lo : end == 1 ? hi : state);
  }
  for (int64_t i = 0; i < t->n; i++) {
    bool sure = state[i] == 0 || isnan(lo[i]); /* one is surely NaN */
    set_range(t, i, (range){lo[i], hi[i], sure, state[i] == 2});
  }
  free(v), free(lo), free(hi), free(state);
}

/* ---- all nodes --------------------------------------------------------------------------------------------------- */

/* What a function that is loose by itself may give, its operands being sure or ranges. */
static range loosened(const watcher *w, const function *f, range r, double bits) {
  const tn_node *n = f->n;
  if (r.sure) r.lo = r.hi = bits;
  if (library_ulps(n) > 0 && !isnan(bits) && (w->gpu || w->slack > 0)) {
    double units = w->gpu && isfinite(bits) ? library_ulps(n) * ulp(TN_F64, bits) : 0;
    r = widened(TN_F64, r, fmax(units, w->slack * fmax(1, fabs(bits))));
  }
  bool here = w->cuda && w->loose && near[n->op];
  if (here && (n->dtype == TN_BF16 || n->dtype == TN_F16 || tn__map_get(&w->short_, (uintptr_t)n, NULL)))
    r = widened(f->dtype, r, 0x1p-15 * fmax(fabs(r.lo), fabs(r.hi)));
  return r;
}

/* The tanh of a GELU that a library may have computed, in an order of its own or without rounding.  What the graph
 * itself rounds comes to an absolute error of 1 + tanh(u), which is at most 2, of 11 units of 2^-24: 3 for the 7
 * roundings of u (u * tanh'(u) is below 0.45), 3 for tanh, 1 for the sum and 4 for two products; with as many of the
 * library, to less than 32.  From 10 on tanh rounds to 1, where the library may keep that it is 2 exp(-2u) less. */
static range joined_tanh(range r, range u) {
  double least = spans(u, 0) ? 0 : fmin(fabs(u.lo), fabs(u.hi));
  r = widened(TN_F32, r, least < 10 ? 0x1p-19 : 4 * exp(-2 * least));
  return (range){fmax(r.lo, -1), fmin(r.hi, 1), false, r.nan};
}

static bool is_joined(const watcher *w, const tn_node *n) { return tn__map_get(&w->joined, (uintptr_t)n, NULL); }

/* Which sign a NaN has that is computed is the processor's business; copysign shows it. */
static bool shows_nan(const tn_node *n, naive_tensor *const *x, int64_t i) {
  if (n->op != OP_COPYSIGN || !isnan(naive_get(x[1], i))) return false;
  const tn_node *y = n->src[1];
  while (y->op == OP_RESHAPE || y->op == OP_EXPAND || y->op == OP_PERMUTE) y = y->src[0];
  return y->op != OP_PARAM;
}

/* Is it 1, at all places? */
static bool is_one(const tn_node *x) {
  while (tn__ops[x->op].group == G_MOVE && x->op != OP_PAD && x->op != OP_FOLD) x = x->src[0];
  return x->op == OP_CONST && tn__eval_to_double(x->dtype, (uint64_t)x->ints[0]) == 1;
}

static bool is_of_one_term(const tn_node *n) {
  bool one = n->op == OP_SUM || n->op == OP_PROD || n->op == OP_RMAX || n->op == OP_RMIN;
  for (uint32_t i = 0; one && i < n->nint; i++) one = tn__is_int_const(n->src[0]->dim[n->ints[i]], 1);
  return one;
}

/* Whose elements are n's, as simplification sees: those of a mean of one are.  NULL: nobody's. */
static const tn_node *same_as(const tn_node *n) {
  bool moves = tn__ops[n->op].group == G_MOVE && n->op != OP_PAD && n->op != OP_FOLD;
  if (moves || n->op == OP_CAST || is_of_one_term(n)) return n->src[0];
  if (n->op != OP_MUL && n->op != OP_DIV) return NULL;
  return is_one(n->src[1]) ? n->src[0] : n->op == OP_MUL && is_one(n->src[0]) ? n->src[1] : NULL;
}

/* bf16 that becomes a longer float and bf16 again: simplification takes both casts away. */
static bool is_there_and_back(const tn_node *n) {
  const tn_node *x = n->src[0];
  if (n->op != OP_CAST || n->dtype != TN_BF16) return false;
  while (x && (x->dtype == TN_F32 || x->dtype == TN_F64)) x = same_as(x);
  return x && x->dtype == TN_BF16;
}

/* May it be kept unrounded? */
static bool is_kept_wide(const watcher *w, const tn_node *n) {
  bool wide = n->dtype == TN_BF16 && (is_continuous(n) || is_there_and_back(n));
  bool before = n->op == OP_ADD && is_joined(w, n); /* a row */
  return w->loose && (wide || (is_half(n->dtype) && (before || is_folded(w, n))));
}

static range function_range(const watcher *w, const tn_node *n, naive_tensor *const *x, const naive_tensor *t,
                            int64_t i) {
  range at[3], r = {.sure = true};
  bool sure = true, wide = is_kept_wide(w, n);
  bool keeps = wide || (n->op == OP_CAST && (n->dtype == TN_F32 || n->dtype == TN_F64));
  int sdtype = x[n->op == OP_WHERE]->dtype;
  double bits = tn__eval_to_double(n->dtype, t->bits[i]);
  for (uint32_t k = 0; k < n->nsrc; k++) {
    at[k] = range_of(x[k], i);
    sure &= at[k].sure;
    if (x[k]->dtype == TN_BF16 && !keeps) at[k].lo = nearest(TN_BF16, at[k].lo), at[k].hi = nearest(TN_BF16, at[k].hi);
  }
  sure &= !shows_nan(n, x, i);
  bool as_f32 = keeps && (sdtype == TN_BF16 || (sdtype == TN_F16 && is_joined(w, n)));
  function f = {n, wide ? TN_F32 : n->dtype, as_f32 ? TN_F32 : sdtype};
  if (n->op == OP_WHERE) {
    if (!sure) r = follow(&f, at);
  } else if (!sure) {
    r = follow(&f, at);
  } else if (wide) {
    double exact[3] = {at[0].lo, n->nsrc > 1 ? at[1].lo : 0, n->nsrc > 2 ? at[2].lo : 0}, v = value_at(&f, exact);
    if (!isnan(v) && v != nearest(n->dtype, v)) r = (range){v, v, false, false};
  }
  r = loosened(w, &f, r, bits);
  if (n->op == OP_TANH && is_joined(w, n) && !isnan(bits)) r = joined_tanh(r, at[0]);
  if (r.sure) return r;
  if (wide) { /* rounded or not */
    double lo = nearest(n->dtype, r.lo), hi = nearest(n->dtype, r.hi);
    r.lo = fmin(r.lo, lo), r.hi = fmax(r.hi, hi);
  }
  if (isnan(bits)) r.nan = true;
  else r.lo = fmin(r.lo, bits), r.hi = fmax(r.hi, bits);
  if (r.lo == r.hi && !r.nan && bits != 0 && r.lo == bits) r.sure = true;
  if (!tn__is_float(n->dtype) && r.lo == r.hi && r.lo == bits && fabs(bits) < 0x1p53) r.sure = true;
  return r;
}

static bool any_planes(const tn_node *n, naive_tensor *const *x) {
  for (uint32_t k = 0; k < n->nsrc && k < 3; k++)
    if (x[k]->plane[0]) return true;
  return false;
}

static bool is_loose(const watcher *w, const tn_node *n) {
  if (n->op == OP_COPYSIGN) return true;
  if (library_ulps(n) > 0 && (w->gpu || w->slack > 0)) return true;
  return is_kept_wide(w, n) || (w->loose && near[n->op]);
}

static void look(naive_watch *watch, naive_machine *m, const tn_node *n, naive_tensor *const *x, naive_tensor *t) {
  const watcher *w = (const watcher *)watch;
  if (tn__is_elementwise(n) && n->nsrc) {
    if (!any_planes(n, x) && !is_loose(w, n)) return;
    bool whole = n->op == OP_PHILOX || n->op == OP_BITCAST;
    for (int64_t i = 0; i < t->n; i++) set_range(t, i, whole ? anything(n->dtype) : function_range(w, n, x, t, i));
  } else if (n->op == OP_GATHER && x[1]->plane[0]) {
    for (int64_t i = 0; i < t->n; i++) set_range(t, i, anything(n->dtype));
  } else if (n->op == OP_RMAX || n->op == OP_RMIN) {
    extreme(m, n, x, t);
  } else if (n->op == OP_SUM || n->op == OP_FOLD || n->op == OP_SCATTER || n->op == OP_CONTRACT || n->op == OP_PROD) {
    if (!tn__is_float(n->dtype)) {
      for (int64_t i = 0; any_planes(n, x) && i < t->n; i++) set_range(t, i, anything(n->dtype));
    } else if (n->op == OP_PROD) {
      product(w, m, n, x, t);
    } else if (n->op == OP_SCATTER && (x[1]->plane[0] || !w->loose || !tn__device_get(w->c, 0)->target.group)) {
      scatter(w, m, n, x, t);
    } else {
      sum(w, m, n, x, t);
    }
  }
}

/* f32 nodes from which, by functions and movements of f32, a value of bf16 or f16 is made. */
static void find_short(watcher *w, tn_node *const *root, uint32_t nroot, tn__arena *a) {
  tn__nodes all = {0};
  tn__map_init(&w->short_, a);
  tn__topo(a, root, nroot, &all);
  for (uint32_t i = all.n; i-- > 0;) {
    const tn_node *n = all.v[i];
    bool narrows = n->op == OP_CAST && (n->dtype == TN_BF16 || n->dtype == TN_F16);
    bool passes = n->dtype == TN_F32 && tn__map_get(&w->short_, (uintptr_t)n, NULL);
    for (uint32_t s = 0; s < n->nsrc && (narrows || passes); s++)
      if (n->src[s]->dtype == TN_F32) tn__map_put(&w->short_, (uintptr_t)n->src[s], 1);
  }
}

/* A gradient of convolutions in bf16 or f16 folds a product twice, and rounds the product, what is folded once, and
 * what is folded twice.  Where a device has a library or tiles for convolutions, it is found as a whole
 * (schedule/conv.c): it is summed in f32 and rounded once. */
static void find_folded(watcher *w, tn_node *const *root, uint32_t nroot, tn__arena *a) {
  const tn__device *d = tn__device_get(w->c, 0);
  tn__nodes all = {0};
  tn__map_init(&w->folded, a);
  w->finishes = d->ops->has_after != NULL;
  w->convolves = d->ops->has_conv != NULL;
  if (!w->loose || !(d->ops->has_conv || d->target.ntiles)) return;
  tn__topo(a, root, nroot, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i], *y = n;
    if (n->op != OP_FOLD) continue;
    while (y->op == OP_FOLD || y->op == OP_PERMUTE || y->op == OP_RESHAPE || y->op == OP_CAST) y = y->src[0];
    if (y->op != OP_CONTRACT) continue;
    for (const tn_node *x = n->src[0]; x != y; x = x->src[0]) tn__map_put(&w->folded, (uintptr_t)x, 1);
    tn__map_put(&w->folded, (uintptr_t)y, 1);
  }
}

static bool leads_on(const tn_node *n) {
  return n->op == OP_CAST || n->op == OP_ADD || n->op == OP_MUL || tn__ops[n->op].group == G_MOVE;
}

/* Where a library finishes a product of bf16 or f16 with GELU (schedule/epilogue.c), the sum with a row is not rounded,
 * nor is GELU computed as the graph says: each f32 tanh of what casts, sums and products make of such a product. */
static void find_joined(watcher *w, tn_node *const *root, uint32_t nroot, tn__arena *a) {
  tn__nodes all = {0};
  tn__map from;
  tn__map_init(&w->joined, a);
  tn__map_init(&from, a);
  if (!w->loose || !w->finishes) return;
  tn__topo(a, root, nroot, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    bool of_product = n->op == OP_CONTRACT && is_half(n->dtype);
    for (uint32_t s = 0; s < n->nsrc && leads_on(n); s++)
      of_product |= tn__map_get(&from, (uintptr_t)n->src[s], NULL);
    if (of_product) tn__map_put(&from, (uintptr_t)n, 1);
  }
  for (uint32_t i = all.n; i-- > 0;) {
    const tn_node *n = all.v[i];
    bool is_tanh = n->op == OP_TANH && n->dtype == TN_F32 && tn__map_get(&w->short_, (uintptr_t)n, NULL);
    if (!is_tanh && !(is_joined(w, n) && leads_on(n))) continue;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      if (!tn__map_get(&from, (uintptr_t)n->src[s], NULL)) continue;
      tn__map_put(&w->joined, (uintptr_t)n, 1);
      tn__map_put(&w->joined, (uintptr_t)n->src[s], 1);
    }
  }
}

void bounds_eval(tn_ctx *c, tn_node *const *root, uint32_t nroot, const naive_bind *bind, uint32_t nbind, double slack,
                 naive_tensor *out) {
  watcher w = {.watch = {look}, .c = c, .slack = slack, .loose = c->mode != TN_MODE_STRICT};
  const char *device = tn__device_get(c, 0)->name;
  w.gpu = is_gpu(device);
  w.cuda = !strncmp(device, "cuda", 4);
  w.tf32 = w.cuda && w.loose && c->opt.tf32;
  tn__mem mem = {0};
  tn__arena a;
  tn__arena_init(&a, &mem);
  find_short(&w, root, nroot, &a);
  find_folded(&w, root, nroot, &a);
  find_joined(&w, root, nroot, &a);
  naive_eval_watched(root, nroot, bind, nbind, out, &w.watch);
  tn__arena_free(&a);
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static bool both_nan(int dtype, uint64_t a, uint64_t b) {
  uint64_t mask = tn__size_of(dtype) < 8 ? (1ull << 8 * tn__size_of(dtype)) - 1 : UINT64_MAX;
  return tn__is_float(dtype) && isnan(tn__eval_to_double(dtype, a & mask)) &&
         isnan(tn__eval_to_double(dtype, b & mask));
}

bool bounds_allow(const tn_node *n, const naive_tensor *want, int64_t i, uint64_t got) {
  uint64_t bits = want->bits[i];
  /* which NaN it is, is not said; nor do its bits say it */
  if (got == bits || both_nan(n->dtype, got, bits)) return true;
  if (n->op == OP_BITCAST && both_nan(n->src[0]->dtype, got, bits)) return true;
  range r = range_of(want, i);
  double v = tn__eval_to_double(n->dtype, got);
  if (r.sure) return false;
  if (isnan(v)) return r.nan;
  return nearest(n->dtype, r.lo) <= v && v <= nearest(n->dtype, r.hi);
}

void bounds_count(const naive_tensor *t, bounds_tally *tally) {
  for (int64_t i = 0; i < t->n; i++) {
    range r = range_of(t, i), all = anything(t->dtype);
    if (r.sure) tally->sure++;
    else if (r.lo <= all.lo && r.hi >= all.hi) tally->any++;
    else tally->within++;
  }
}
