#include "support/exact.h"
#include "ir/shape.h"
#include "tensor/cell.h"
#include <math.h>

/* What expressions of the column may use beside C's own. */
static long double remainder_down(long double x, long double y) {
  long double r = fmodl(x, y);
  return r == 0 ? copysignl(r, y) : (r < 0) != (y < 0) ? r + y : r;
}
static long double larger(long double x, long double y) {
  return isnan(x) || isnan(y) ? NAN : x == y ? (signbit(x) ? y : x) : x > y ? x : y;
}

#define VALUE_IS(...) (__VA_ARGS__)
#define VALUE_OWN NAN
#define VALUE_NONE NAN
#define OP(name, text, group, least, most, arg, phases, dtype, shape, cost, rounding, response, combine, reach, value) \
  static long double value_of_##name(long double x, long double y, long double z) {                                   \
    (void)x, (void)y, (void)z;                                                                                         \
    return VALUE_##value;                                                                                              \
  }
#include "ir/ops.def"

#define KNOWN_IS(...) true
#define KNOWN_OWN false
#define KNOWN_NONE false
static const struct {
  bool known;
  long double (*value)(long double, long double, long double);
} values[OP_COUNT] = {
#define OP(name, text, group, least, most, arg, phases, dtype, shape, cost, rounding, response, combine, reach, value) \
  [OP_##name] = {KNOWN_##value, value_of_##name},
#include "ir/ops.def"
};

bool exact_knows(int op) { return values[op].known; }

long double exact_value(int op, long double x, long double y, long double z) { return values[op].value(x, y, z); }

bool exact_is_function(int op, uint32_t n) {
  const tn__op_info *o = &tn__ops[op];
  return (o->group == G_UNARY || o->group == G_BINARY) && o->max_src == n && values[op].known &&
         tn__op_takes(op, TN_F32) && o->dtype_rule != DT_BOOL;
}

int exact_op_of(const tn_tensor *y, tn_tensor *const *x, uint32_t n) {
  const tn_node *v = y ? y->node : NULL;
  if (!v || v->nsrc != n || !tn__is_elementwise(v)) return -1;
  for (uint32_t i = 0; i < n; i++)
    if (v->src[i] != x[i]->node) return -1;
  return v->op;
}
