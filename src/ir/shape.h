/* The dtype, device and shape rules that the columns of ops.def name.  Private to ir/.  Prefix tn__infer. */
#ifndef TN_IR_SHAPE_H
#define TN_IR_SHAPE_H
#include "ir/ctx.h"

typedef enum tn__dtype_rule {
  DT_SAME, DT_BOOL, DT_FLOAT, DT_INT, DT_LOGIC, DT_WHERE, DT_PHILOX, DT_BITCAST, DT_GIVEN, DT_SRC0, DT_VOID, DT_COUNT
} tn__dtype_rule;

typedef enum tn__shape_rule {
  SH_SCALAR,
  SH_SAME,
  SH_GIVEN,
  SH_REDUCE,
  SH_RESHAPE,
  SH_EXPAND,
  SH_PERMUTE,
  SH_PAD,
  SH_SHRINK,
  SH_FLIP,
  SH_WINDOW,
  SH_FOLD,
  SH_GATHER,
  SH_SCATTER,
  SH_CONTRACT,
  SH_SRC0,
  SH_VOID,
  SH_COUNT
} tn__shape_rule;

/* A result shape.  Most are not new lists but those of the first source, or the last `rank` sources themselves. */
typedef struct tn__shape {
  enum { TN__DIMS_OWN, TN__DIMS_SRC0, TN__DIMS_TAIL } from;
  uint32_t rank;
  tn_node *own[TN_MAX_RANK];
} tn__shape;

typedef struct tn__inferred {
  int dtype, device;
  tn__shape shape;
} tn__inferred;

/* Checks source count, argument, dtypes, devices and shapes; a breach throws, naming op, sources and rule. */
void tn__infer(tn_ctx *c, const tn__make *m, tn__inferred *out);
/* One past the last element that a slice takes. */
tn_node *tn__slice_end(tn_ctx *c, tn_node *begin, tn_node *size, int64_t step);
/* The dtype is part of what the caller says, not computed from the sources. */
static inline bool tn__dtype_is_given(int op) {
  return tn__ops[op].dtype_rule == DT_GIVEN || tn__ops[op].dtype_rule == DT_BITCAST;
}
#endif
