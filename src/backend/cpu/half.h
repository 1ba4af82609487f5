/* Half floats as f32 and back, many at once.  Prefix tn__half_. */
#ifndef TN_BACKEND_CPU_HALF_H
#define TN_BACKEND_CPU_HALF_H
#include "ir/dtype.h"

typedef struct tn__half {
  void (*widen)(float *restrict to, const uint16_t *restrict from, size_t n);
  void (*round)(uint16_t *restrict to, const float *restrict from, size_t n); /* to nearest, ties to even */
} tn__half;

/* f16 or bf16; NULL: no half float.  By what a level of processors has whose vectors are of so many bytes (level.h). */
const tn__half *tn__half_of(int dtype, int bytes);
#endif
