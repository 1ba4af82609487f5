/* How far an f32 result is from the exact value. */
#ifndef TEST_SUPPORT_ULPS_H
#define TEST_SUPPORT_ULPS_H
#include <math.h>
#include <stdint.h>
#include <string.h>

/* |y - r| in units of the last place of r: 0 where both are the same special value, infinite where only one is.
 * Beyond the largest float, units go on as if the exponent had no end, and y = inf stands for 2^128. */
static inline double error_in_ulps(float y, double r) {
  float rounded = (float)r;
  if (isnan(r)) return isnan(y) ? 0 : HUGE_VAL;
  if (isnan(y) || !signbit(y) != !signbit(r)) return HUGE_VAL;
  if (isinf(r) || r == 0 || (y == rounded && isinf(y))) return y == rounded ? 0 : HUGE_VAL;
  double got = isinf(y) ? copysign(0x1p128, r) : (double)y, unit;
  uint64_t bits;
  memcpy(&bits, &r, sizeof bits);
  bits &= 0x7ff0000000000000u;
  memcpy(&unit, &bits, sizeof unit);
  return fabs(got - r) / fmax(unit * 0x1p-23, 0x1p-149);
}
#endif
