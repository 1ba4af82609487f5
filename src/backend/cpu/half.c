#include "backend/cpu/half.h"
#include "ir/math_c.inc"
#include "ir/math.inc"

/* Chunks of constant length are a few vectors, whichever the compiler has; what is left goes one by one. */
enum { CHUNK = 16 };
#define CONVERSION(name, TO, FROM, one)                                                                                \
  static void name(TO *restrict to, const FROM *restrict from, size_t n) {                                             \
    size_t i = 0;                                                                                                      \
    for (; i + CHUNK <= n; i += CHUNK)                                                                                 \
      for (size_t j = 0; j < CHUNK; j++) to[i + j] = (TO)one(from[i + j]);                                             \
    for (; i < n; i++) to[i] = (TO)one(from[i]);                                                                       \
  }

CONVERSION(widen_f16, float, u16, tn_f16_of)
CONVERSION(round_f16, u16, float, tn_f16_bits)
CONVERSION(widen_bf16, float, u16, tn_bf16_of)
CONVERSION(round_bf16, u16, float, tn_bf16_bits)

enum { PLAIN, V3, LEVELS };

#if defined __x86_64__
#include <immintrin.h>
#define FROM_V3 __attribute__((target("avx2,f16c")))
FROM_V3 CONVERSION(widen_bf16_v3, float, u16, tn_bf16_of)
FROM_V3 CONVERSION(round_bf16_v3, u16, float, tn_bf16_bits)

/* A NaN that signals comes out quiet. */
FROM_V3 static void widen_f16_v3(float *restrict to, const u16 *restrict from, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm256_storeu_ps(to + i, _mm256_cvtph_ps(_mm_loadu_si128((const __m128i *)(const void *)(from + i))));
  for (; i < n; i++) to[i] = _cvtsh_ss(from[i]);
}

FROM_V3 static void round_f16_v3(u16 *restrict to, const float *restrict from, size_t n) {
  size_t i = 0;
  for (; i + 8 <= n; i += 8)
    _mm_storeu_si128((__m128i *)(void *)(to + i),
                     _mm256_cvtps_ph(_mm256_loadu_ps(from + i), _MM_FROUND_TO_NEAREST_INT));
  for (; i < n; i++) to[i] = _cvtss_sh(from[i], _MM_FROUND_TO_NEAREST_INT);
}

/* The compilers have no name for f16c that both know; every processor of the level has it. */
static int level(int bytes) { return bytes >= 32 ? V3 : PLAIN; }
#else
#define widen_f16_v3 widen_f16
#define round_f16_v3 round_f16
#define widen_bf16_v3 widen_bf16
#define round_bf16_v3 round_bf16
static int level(int bytes) { return (void)bytes, PLAIN; }
#endif

const tn__half *tn__half_of(int dtype, int bytes) {
  static const tn__half f16[LEVELS] = {[PLAIN] = {widen_f16, round_f16}, [V3] = {widen_f16_v3, round_f16_v3}},
                        bf16[LEVELS] = {[PLAIN] = {widen_bf16, round_bf16}, [V3] = {widen_bf16_v3, round_bf16_v3}};
  return dtype == TN_F16 ? &f16[level(bytes)] : dtype == TN_BF16 ? &bf16[level(bytes)] : NULL;
}
