/* Element types and handles, shared by all headers. */
#ifndef TENET_TENSOR_TYPES_H
#define TENET_TENSOR_TYPES_H
#include "tenet/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types.  DTYPE(name, text, bytes, class, signed, significand bits) */
#define TN_DTYPE_MAP(DTYPE)                                                                                            \
  DTYPE(BOOL, "bool", 1, BOOL, 0, 0)                                                                                   \
  DTYPE(I8, "i8", 1, INT, 1, 0)                                                                                        \
  DTYPE(I16, "i16", 2, INT, 1, 0)                                                                                      \
  DTYPE(I32, "i32", 4, INT, 1, 0)                                                                                      \
  DTYPE(I64, "i64", 8, INT, 1, 0)                                                                                      \
  DTYPE(U8, "u8", 1, INT, 0, 0)                                                                                        \
  DTYPE(U16, "u16", 2, INT, 0, 0)                                                                                      \
  DTYPE(U32, "u32", 4, INT, 0, 0)                                                                                      \
  DTYPE(U64, "u64", 8, INT, 0, 0)                                                                                      \
  DTYPE(F16, "f16", 2, FLOAT, 1, 11)                                                                                   \
  DTYPE(BF16, "bf16", 2, FLOAT, 1, 8)                                                                                  \
  DTYPE(F32, "f32", 4, FLOAT, 1, 24)                                                                                   \
  DTYPE(F64, "f64", 8, FLOAT, 1, 53)

typedef enum tn_dtype {
#define TN_DTYPE_ENUM(name, text, size, cls, sign, mant) TN_##name,
  TN_DTYPE_MAP(TN_DTYPE_ENUM)
#undef TN_DTYPE_ENUM
      TN_DTYPE_COUNT
} tn_dtype;

TN_API const char *tn_dtype_name(tn_dtype dtype); /* "f32"; "?" if unknown */
TN_API size_t tn_dtype_size(tn_dtype dtype);      /* bytes per element; 0 if unknown */

/* A size: zero or more, or a symbolic size made by tn_dim_var() and the tn_dim_* arithmetic (an opaque negative value
 * that belongs to its context). */
typedef int64_t tn_dim;

enum { TN_MAX_RANK = 16 };

/* A handle: a cell that holds a lazy value.  See tensor.h. */
typedef struct tn_tensor tn_tensor;

#ifdef __cplusplus
}
#endif
#endif
