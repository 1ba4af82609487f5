#include "verify/rounding.h"
#include "ir/eval.h"
#include <math.h>

static const double OF_DOUBLES = 0x1p-50;

/* In parts of the value: the distance of two neighbours. */
static double unit(int dtype) {
  return dtype == TN_BF16 ? 0x1p-7 : dtype == TN_F16 ? 0x1p-10 : dtype == TN_F32 ? 0x1p-23 : 0x1p-52;
}

float tn__rounding_of_constant(int dtype, double d) { return isfinite(d) ? (float)(unit(dtype) * fabs(d)) : 0; }

float tn__rounding_to(int dtype, double d) {
  double least = dtype == TN_BF16 ? 0x1p-133 : dtype == TN_F16 ? 0x1p-24 : dtype == TN_F32 ? 0x1p-149 : 0;
  return isfinite(d) ? (float)(unit(dtype) * fabs(d) + least) : 0;
}

/* Comparisons for equality change between the ends of a range. */
static bool may_be_equal(int op, int sdtype, const tn__val *x) {
  if ((op != OP_EQ && op != OP_NE) || !tn__is_float(sdtype)) return false;
  double far = fabs(tn__val_number(x[0]) - tn__val_number(x[1])), room = (double)x[0].off + (double)x[1].off;
  return room > 0 && far <= room;
}

static bool may_be_zero(int op, int dtype, const tn__val *x) {
  return op == OP_DIV && tn__is_float(dtype) && x[1].off > 0 && fabs(tn__val_number(x[1])) <= (double)x[1].off;
}

/* How far y is from op(x) with each operand at the lower end of its range, or at the upper one, as the bits of `ends`
 * say. */
static double far_at(int op, int dtype, int sdtype, const tn__val *x, uint32_t n, uint32_t ends, tn__val y) {
  int to = tn__is_float(dtype) ? TN_F64 : dtype, from = tn__is_float(sdtype) ? TN_F64 : sdtype;
  uint64_t arg[3] = {0};
  for (uint32_t i = 0; i < n; i++) {
    double off = ends >> i & 1 ? (double)x[i].off : -(double)x[i].off;
    arg[i] = x[i].off == 0 ? x[i].v : tn__eval_from_double(TN_F64, tn__val_number(x[i]) + off);
  }
  uint64_t v = tn__eval(op, to, from, arg);
  if (v == y.v) return 0;
  double far = tn__is_float(dtype) ? fabs(tn__eval_to_double(TN_F64, v) - tn__val_number(y)) : (double)INFINITY;
  return isnan(far) ? (double)INFINITY : far;
}

/* How far one rounding of the result goes.  What is one of the operands has not been rounded, but where it becomes
 * another dtype. */
static double own(int op, int dtype, const tn__val *x, uint32_t n, tn__val y) {
  double size = fabs(tn__val_number(y));
  for (uint32_t i = 0; i < n && op != OP_CAST; i++)
    if (size == fabs(tn__val_number(x[i]))) return 0;
  return size * (y.constant ? unit(dtype) : OF_DOUBLES);
}

float tn__rounding_of(int op, int dtype, int sdtype, const tn__val *x, uint32_t n, tn__val y) {
  double off = 0;
  bool moved = false;
  for (uint32_t i = 0; i < n; i++) {
    if (isinf(x[i].off)) return INFINITY;
    moved |= x[i].off > 0;
  }
  if (tn__is_float(dtype) && isnan(tn__val_number(y))) return INFINITY;
  if (moved && (op == OP_BITCAST || may_be_equal(op, sdtype, x) || may_be_zero(op, dtype, x))) return INFINITY;
  for (uint32_t ends = 0; moved && ends < 1u << n; ends++)
    off = fmax(off, far_at(op, dtype, sdtype, x, n, ends, y));
  if (tn__is_float(dtype) && isfinite(tn__val_number(y))) off += own(op, dtype, x, n, y);
  return (float)off;
}
