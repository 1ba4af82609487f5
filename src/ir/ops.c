/* The op table as data. */
#include "ir/shape.h"
#include <string.h>

enum { CLS_B = TN__C_BOOL, CLS_I = TN__C_INT, CLS_F = TN__C_FLOAT, CLS_BI = CLS_B | CLS_I, CLS_BIF = CLS_BI | CLS_F };

#define FIELD_COMM comm
#define FIELD_ASSOC assoc
#define FIELD_IDEM idem
#define SET(op, claim, classes) [OP_##op].claim = (classes),
#define SET_CLAIM(op, claim, classes) SET(op, claim, classes) /* a second step, so that FIELD_x is expanded */

const tn__op_info tn__ops[OP_COUNT] = {
#define OP(id, spelling, grp, least, most, argument, where, dtype, shape)                                              \
  [OP_##id].name = #id, [OP_##id].text = (spelling), [OP_##id].group = G_##grp, [OP_##id].arg = ARG_##argument,        \
  [OP_##id].phases = PH_##where, [OP_##id].dtype_rule = DT_##dtype, [OP_##id].shape_rule = SH_##shape,                 \
  [OP_##id].min_src = (least), [OP_##id].max_src = (most),
#define CLAIM(kind, op, classes) SET_CLAIM(op, FIELD_##kind, CLS_##classes)
#define UNIT(...)
#define ZERO(...)
#include "ir/ops.def"
#undef OP
#undef CLAIM
#undef UNIT
#undef ZERO
};

const char *const tn__axis_names[AX_COUNT] = {
    [AX_GLOBAL] = "global", [AX_LOCAL] = "local",   [AX_WARP] = "warp",     [AX_LOOP] = "loop",
    [AX_REDUCE] = "reduce", [AX_UNROLL] = "unroll", [AX_UPCAST] = "upcast",
};

int tn__op_parse(const char *text, size_t n) {
  for (int op = 0; op < OP_COUNT; op++)
    if (strlen(tn__ops[op].text) == n && memcmp(tn__ops[op].text, text, n) == 0) return op;
  return -1;
}
