/* The op table as data. */
#include "ir/shape.h"
#include <string.h>

enum { CLS_B = TN__C_BOOL, CLS_I = TN__C_INT, CLS_F = TN__C_FLOAT, CLS_BI = CLS_B | CLS_I, CLS_BIF = CLS_BI | CLS_F };

#define FIELD_COMM comm
#define FIELD_ASSOC assoc
#define FIELD_IDEM idem
#define SET(op, claim, classes) [OP_##op].claim = (classes),
#define SET_CLAIM(op, claim, classes) SET(op, claim, classes) /* a second step, so that FIELD_x is expanded */

/* The values of columns that are no plain names. */
#define ANY 0
#define ARG_IS_NONE .arg = ARG_NONE
#define ARG_IS_BITS .arg = ARG_BITS, .nint = 1
#define ARG_IS_INTS(count) .arg = ARG_INTS, .nint = (count)
#define ARG_IS_NAME(count) .arg = ARG_NAME, .nint = (count)
#define COST_IS_COST(additions) .cost = (additions)
#define ROUNDING_IS_EXACT .rounding = RN_EXACT
#define ROUNDING_IS_ROUNDED .rounding = RN_ROUNDED
#define ROUNDING_IS_LIBRARY(c, cuda, opencl) .rounding = RN_LIBRARY, .library = {c, cuda, opencl}
#define COMBINE_IS_APART .combine = 0
#define COMBINE_IS_COMBINES(op) .combine = OP_##op

const tn__op_info tn__ops[OP_COUNT] = {
#define OP(id, spelling, grp, least, most, argument, where, dtype, shape, price, precision, answer, joining, ...)      \
  [OP_##id] = {.name = #id,                                                                                            \
               .text = (spelling),                                                                                     \
               .group = G_##grp,                                                                                       \
               .min_src = (least),                                                                                     \
               .max_src = (most),                                                                                      \
               ARG_IS_##argument,                                                                                      \
               .phases = PH_##where,                                                                                   \
               .dtype_rule = DT_##dtype,                                                                               \
               .shape_rule = SH_##shape,                                                                               \
               COST_IS_##price,                                                                                        \
               ROUNDING_IS_##precision,                                                                                \
               .response = RS_##answer,                                                                                \
               COMBINE_IS_##joining},
#define CLAIM(kind, op, classes) SET_CLAIM(op, FIELD_##kind, CLS_##classes)
#include "ir/ops.def"
};

const char *const tn__axis_names[AX_COUNT] = {
    [AX_GLOBAL] = "global", [AX_LOOP] = "loop",     [AX_REDUCE] = "reduce",
    [AX_UNROLL] = "unroll", [AX_UPCAST] = "upcast", [AX_ORDER] = "order",
};

const char *const tn__role_names[ROLE_COUNT] = {
#define X(name, text) [ROLE_##name] = text,
    TN__ROLES(X)
#undef X
};

const char *const tn__requirement_names[REQ_COUNT] = {
#define X(name, text) [REQ_##name] = text,
    TN__REQUIREMENTS(X)
#undef X
};

int tn__op_parse(const char *text, size_t n) {
  for (int op = 0; op < OP_COUNT; op++)
    if (strlen(tn__ops[op].text) == n && memcmp(tn__ops[op].text, text, n) == 0) return op;
  return -1;
}

bool tn__is_stable(int op, int of) {
  bool positive = of == OP_EXP || of == OP_EXP2 || of == OP_ABS || of == OP_COSH;
  return tn__ops[op].response == RS_STABLE || (op == OP_LOG1P && positive);
}

bool tn__op_takes(int op, int dtype) {
  static const uint8_t classes[DT_COUNT] = {
      [DT_SAME] = CLS_BIF, [DT_BOOL] = CLS_BIF, [DT_WHERE] = CLS_BIF, [DT_FLOAT] = CLS_F,
      [DT_INT] = CLS_I,    [DT_LOGIC] = CLS_BI, [DT_GIVEN] = CLS_BIF, [DT_BITCAST] = CLS_BIF};
  int rule = tn__ops[op].dtype_rule;
  return rule == DT_PHILOX ? dtype == TN_U64 : (tn__dtypes[dtype].cls & classes[rule]) != 0;
}
