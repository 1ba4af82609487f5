/* Element types and handles, shared by all headers. */
#ifndef TENET_TENSOR_TYPES_H
#define TENET_TENSOR_TYPES_H
#include "tenet/ctx.h"

#ifdef __cplusplus
extern "C" {
#endif

/* Element types. */
typedef enum tn_dtype {
  TN_BOOL = 0, /* one byte, 0 or 1 */
  TN_I8 = 1,
  TN_I16 = 2,
  TN_I32 = 3,
  TN_I64 = 4,
  TN_U8 = 5,
  TN_U16 = 6,
  TN_U32 = 7,
  TN_U64 = 8,
  TN_F16 = 9,   /* IEEE 754 binary16 */
  TN_BF16 = 10, /* the upper half of an f32 */
  TN_F32 = 11,
  TN_F64 = 12,
  TN_DTYPE_COUNT = 13
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
