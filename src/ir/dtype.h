/* Element types.  Prefix tn__dtype_. */
#ifndef TN_IR_DTYPE_H
#define TN_IR_DTYPE_H
#include "tenet/tensor_types.h"

/* The properties of the public ones: DTYPE(name, text, bytes, class, signed, significand bits) */
#define TN__DTYPE_MAP(DTYPE)                                                                                           \
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

/* TN__INDEX is the abstract integer of sizes and index arithmetic: unbounded in principle, its machine width chosen
 * late. TN__VOID is the type of effects. */
enum { TN__INDEX = TN_DTYPE_COUNT, TN__VOID, TN__DTYPE_ALL };

typedef enum tn__class { TN__C_BOOL = 1, TN__C_INT = 2, TN__C_FLOAT = 4 } tn__class; /* index counts as INT */

typedef struct tn__dtype_info {
  const char *name; /* "f32" */
  uint8_t size;     /* bytes */
  uint8_t cls;      /* tn__class; 0 for void */
  bool is_signed;
  uint8_t mant;     /* significand bits of a float, the hidden one included */
} tn__dtype_info;
extern const tn__dtype_info tn__dtypes[TN__DTYPE_ALL];

static inline bool tn__is_float(int dt) { return tn__dtypes[dt].cls == TN__C_FLOAT; }
static inline bool tn__is_int(int dt) { return tn__dtypes[dt].cls == TN__C_INT; }
static inline size_t tn__size_of(int dt) { return tn__dtypes[dt].size; }

int tn__dtype_parse(const char *s, size_t n); /* -1 if unknown */
/* Promotion by the array API's lattice; -1 for pairs that it leaves undefined (u64 with signed, int with float, bool
 * with number). */
int tn__dtype_promote(int a, int b);
int tn__dtype_acc(int dt); /* dtype in which sums of dt accumulate: f32 for f16 and bf16, else dt */
#endif
