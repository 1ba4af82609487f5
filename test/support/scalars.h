/* Scalars worth trying. */
#ifndef TN_TEST_SUPPORT_SCALARS_H
#define TN_TEST_SUPPORT_SCALARS_H
#include "ir/eval.h"

enum { NVALUES = 40 };

/* Bit patterns worth trying, as many as NVALUES. */
static inline void values_of(int dtype, uint64_t *v) {
  static const double reals[] = {
      0.0,          -0.0,         1,      -1,      0.5,    -0.5, 1.5,   -2.5,  2.5,   3,      -3,    7,      0.1,
      -0.3,         10.75,        100.25, -88.5,   1e-3,   1e-6, 6e-8,  -6e-5, 1e-39, -1e-44, 65504, 65520,  -70000,
      2147483648.0, 4294967296.0, 9.3e18, -9.3e18, 1.9e19, 3e38, -3e38, 127.5, 255.5, 32768,  1e300, -1e-310};
  static const int64_t ints[] = {0,          1,
                                 -1,         2,
                                 -2,         3,
                                 -3,         5,
                                 7,          -7,
                                 8,          15,
                                 16,         31,
                                 32,         33,
                                 63,         64,
                                 65,         100,
                                 127,        128,
                                 -128,       -129,
                                 255,        256,
                                 32767,      32768,
                                 -32768,     65535,
                                 65536,      INT32_MAX,
                                 INT32_MIN,  4294967295,
                                 4294967296, INT64_MAX,
                                 INT64_MIN,  INT64_MAX - 1,
                                 1000003,    -1000003};
  for (int i = 0; i < NVALUES; i++) {
    if (dtype == TN_BOOL) v[i] = (uint64_t)i % 2;
    else if (!tn__is_float(dtype)) v[i] = tn__eval_cast(TN_I64, dtype, (uint64_t)ints[i]);
    else if (i < 38) v[i] = tn__eval_from_double(dtype, reals[i]);
    else v[i] = tn__eval_from_double(dtype, i == 38 ? __builtin_inf() : __builtin_nan(""));
  }
}
#endif
