/* What differs between C-like languages.  Prefix tn__dialect_.
 *
 * Spellings are templates: $0 $1 $2 operands, $t the type of the result's value, $u an unsigned type in which its arithmetic wraps,
 * $n the name of the operands' dtype ("f32").  An op with an empty cell is a call tn_<op>_<dtype>($0, ...) of the
 * language's helper texts.  f16 and bf16 live in f32 values: their ops are those of f32 and the result is rounded. */
#ifndef TN_RENDER_DIALECT_H
#define TN_RENDER_DIALECT_H
#include "render/render.h"

enum { SP_BOOL, SP_INT, SP_INDEX, SP_F32, SP_F64, SP_COUNT }; /* columns of `op`, by the operands' dtype */

struct tn__dialect {
  const char *name;
  const char *const *head;               /* helper texts in front of the kernels, NULL at the end */
  const char *value[TN__DTYPE_ALL];      /* type of a value */
  const char *cell[TN__DTYPE_ALL];       /* type of an element in memory */
  const char *wrap[TN__DTYPE_ALL];       /* $u */
  const char *load[TN__DTYPE_ALL];       /* $0: an element; empty: itself */
  const char *store[TN__DTYPE_ALL];      /* $0: a value; empty: itself */
  const char *round[TN__DTYPE_ALL];      /* $0: an f32; empty: not rounded */
  const char *to_bits[TN__DTYPE_ALL];    /* $0: a value -> the unsigned integer of its width; empty: a cast does */
  const char *of_bits[TN__DTYPE_ALL];
  const char *op[OP_COUNT][SP_COUNT];
  const char *mod_nonneg, *idiv_nonneg;  /* index division where dividend and divisor are known not to be negative */
  const char *function[2];               /* a part's function: what stands before and after its name */
  const char *extent[2];                 /* the function that computes the extent of a part's global range */
  const char *index;                     /* type of loop counters */
  const char *independent;               /* in front of a loop whose iterations are independent */
  void (*constant)(tn__sb *out, int dtype, uint64_t bits);
};
#endif
