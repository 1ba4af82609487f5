/* The public functions of elements that take tensors alone, by what they take.  X(name): tn_<name>.  Tests that go
 * through functions take them from here; run.bad_input holds these lists against the headers. */
#ifndef TEST_SUPPORT_FUNCTIONS_H
#define TEST_SUPPORT_FUNCTIONS_H

#define FUNCTIONS_OF_FLOATS(X)                                                                                         \
  X(rsqrt) X(recip) X(sigmoid) X(silu) X(softplus) X(gelu) X(gelu_tanh) X(sqrt) X(exp) X(exp2) X(expm1) X(log)         \
  X(log2) X(log1p) X(tanh) X(erf) X(sin) X(cos) X(tan) X(log10) X(asin) X(acos) X(atan) X(sinh) X(cosh) X(asinh)       \
  X(acosh) X(atanh) X(erfc)
#define FUNCTIONS_OF_NUMBERS(X)                                                                                        \
  X(abs) X(sign) X(neg) X(square) X(relu) X(floor) X(ceil) X(round) X(trunc) X(isnan) X(isinf) X(isfinite)
#define FUNCTIONS_OF_BITS(X) X(logical_not) X(bitwise_not)
#define FUNCTIONS_OF_TWO(X)                                                                                            \
  X(add) X(sub) X(mul) X(div) X(floordiv) X(mod) X(fmod) X(pow) X(maximum) X(minimum) X(atan2) X(eq) X(ne) X(lt)       \
  X(le) X(gt) X(ge) X(shl) X(shr) X(logical_and) X(logical_or) X(logical_xor) X(bitwise_and) X(bitwise_or)             \
  X(bitwise_xor) X(hypot) X(copysign)
#endif
