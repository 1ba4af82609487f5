/* Tensors: lazy values with shapes, and the mathematics on them.
 *
 * A tn_tensor is a handle to a lazy value: the functions here check shapes and dtypes, build a graph and return at
 * once; nothing runs before tn_realize(), tn_read(), tn_item() or tn_print().  Values never alias: a view is a value
 * like any other, and only tn_assign() and tn_write() change what a handle holds.
 *
 * Errors.  A function that makes a tensor returns NULL on error, and takes NULL in and passes NULL on, so that a whole
 * expression is checked once, at its end.  tn_last_error() tells what went wrong first.  A NULL operand while no error
 * is pending is an error itself, which names the function and the argument (it can only be recorded if another argument
 * leads to the context).  Functions that return tn_status give 0 for success.  Every function may fail with TN_ENOMEM;
 * operands of different contexts are TN_EINVAL; operands on different devices are TN_EDEVICE.
 *
 * Ownership.  A returned handle belongs to the innermost open scope (see tn_scope below); the caller frees nothing
 * unless it called tn_keep() or tn_retain(), or opened no scope and wants memory back before tn_ctx_close().  Pointers
 * passed in are only read during the call.
 *
 * Shapes.  `const tn_dim *shape, int rank`; rank 0 is a scalar and takes NULL.  Sizes may be 0, and may be symbolic.
 * At most TN_MAX_RANK axes.  A negative axis counts from the end.  An axis out of range or named twice is TN_EINVAL.
 *
 * Broadcasting is NumPy's: shapes are aligned at the last axis, and an axis of size 1 stretches; sizes that do not fit
 * are TN_ESHAPE.  A symbolic size never stretches: where it meets another size that it may be equal to, it must be,
 * which is checked when a program binds it (TN_EBOUND).  dtypes promote by the array API's lattice (i8+i16=i16,
 * u8+i8=i16, f16+bf16=f32, f32+f64=f64); the pairs which it leaves undefined (u64 with signed, integer with float, bool
 * with number) are TN_EDTYPE, and the message names tn_cast().  C numbers (`double` arguments) are weak: they take the
 * tensor's dtype, and must be representable if that is integer or bool. */
#ifndef TENET_TENSOR_H
#define TENET_TENSOR_H
#include "tenet/tensor_types.h"
#include <stdio.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Handles and scopes ------------------------------------------------------------------------------------------ */

/* Opens a scope by hand, and closes the innermost one: handles made in between end, and must not be used or released
 * any more. For a while, until their memory serves others (tn_ctx_close), using one is TN_EINVAL, tn_release() does
 * nothing, and tn_rank(), tn_dtype_of(), tn_device_of() and tn_ctx_of() answer as for NULL, without an error;
 * finalisers are for what was kept.  tn_scope_end() without an open scope is TN_ESTATE. */
TN_API tn_status tn_scope_begin(tn_ctx *ctx);
TN_API tn_status tn_scope_end(tn_ctx *ctx);

/* Use: tn_scope(ctx) { ... }.  Handles made in the block end with it, as do scopes left open inside, however it is
 * left: at its end, by break (which leaves the block, not a loop around it), return or goto; in C++ by an exception
 * too.  If memory is out when it opens, the error is recorded, and the handles belong to the scope around. */
typedef struct tn_scope_guard {
  tn_ctx *ctx;
  int depth; /* scopes that were open before */
  int once;  /* 1 until the block has run */
} tn_scope_guard;
TN_API tn_scope_guard tn_scope_enter(tn_ctx *ctx);
TN_API void tn_scope_leave(tn_scope_guard *guard);
#ifdef __cplusplus
} /* extern "C" */
struct tn_scope_holder {
  tn_scope_guard guard;
  explicit tn_scope_holder(tn_ctx *ctx) : guard(tn_scope_enter(ctx)) {}
  tn_scope_holder(const tn_scope_holder &) = delete;
  tn_scope_holder &operator=(const tn_scope_holder &) = delete;
  ~tn_scope_holder() { tn_scope_leave(&guard); }
};
#define TN_SCOPE_NAMED(context, name) for (tn_scope_holder name(context); name.guard.once; name.guard.once = 0)
extern "C" {
#else
/* gnu-style attribute: gcc and clang. */
#define TN_SCOPE_NAMED(context, name)                                                                                  \
  for (__attribute__((cleanup(tn_scope_leave))) tn_scope_guard name = tn_scope_enter(context); name.once; name.once = 0)
#endif
/* A name per line, so that nested scopes do not shadow one another. */
#define TN_SCOPE_PASTE(a, b) a##b
#define TN_SCOPE_AT(context, line) TN_SCOPE_NAMED(context, TN_SCOPE_PASTE(tn_scope_at_, line))
#define tn_scope(context) TN_SCOPE_AT(context, __LINE__)

/* Lets a handle escape all scopes: the scope's reference becomes the caller's, who ends it with tn_release(); else
 * tn_ctx_close() does.  Keeping twice is the same as once.  Returns t. */
TN_API tn_tensor *tn_keep(tn_tensor *t);
/* One more reference, to be matched by one tn_release().  Returns t. */
TN_API tn_tensor *tn_retain(tn_tensor *t);
/* Gives back one reference; the last one ends the handle.  A handle still owned by a scope may be released early.  May
 * be called from any thread: the release takes effect at the context's next call.  NULL is allowed. */
TN_API void tn_release(tn_tensor *t);

/* ---- Introspection ----------------------------------------------------------------------------------------------- */

TN_API int tn_rank(const tn_tensor *t);                            /* number of axes; -1 for NULL */
TN_API tn_status tn_shape(const tn_tensor *t, tn_dim *out);        /* writes tn_rank(t) sizes */
TN_API tn_dim tn_size(const tn_tensor *t, int axis);               /* one size; TN_DIM_ERROR on error */
TN_API tn_dim tn_numel(const tn_tensor *t);                        /* number of elements; TN_DIM_ERROR for NULL */
TN_API tn_dtype tn_dtype_of(const tn_tensor *t);                   /* TN_DTYPE_COUNT for NULL */
/* numel times element size; 0 for NULL or a symbolic shape; SIZE_MAX if it is more than that */
TN_API size_t tn_nbytes(const tn_tensor *t);
/* "cpu"; "" for NULL; lives as long as the context */
TN_API const char *tn_device_of(const tn_tensor *t);
TN_API tn_ctx *tn_ctx_of(const tn_tensor *t);                      /* NULL for NULL */

/* ---- Symbolic sizes ---------------------------------------------------------------------------------------------- */

#define TN_DIM_ERROR ((tn_dim)-2)

/* A size known only later: lo <= size <= hi, 0 <= lo.  The name is an identifier as in C.  The same name gives the same
 * size; other bounds for a name are TN_EINVAL.  The value belongs to its context and lives as long.  Shapes that hold
 * it run once it is bound (program.h). */
TN_API tn_dim tn_dim_var(tn_ctx *ctx, const char *name, int64_t lo, int64_t hi);
/* Arithmetic on sizes, plain or symbolic.  div and mod floor; a division by 0 gives 0, modulo 0 gives a.  TN_DIM_ERROR
 * on error. */
TN_API tn_dim tn_dim_add(tn_ctx *ctx, tn_dim a, tn_dim b);
TN_API tn_dim tn_dim_sub(tn_ctx *ctx, tn_dim a, tn_dim b);
TN_API tn_dim tn_dim_mul(tn_ctx *ctx, tn_dim a, tn_dim b);
TN_API tn_dim tn_dim_div(tn_ctx *ctx, tn_dim a, tn_dim b);
TN_API tn_dim tn_dim_mod(tn_ctx *ctx, tn_dim a, tn_dim b);
TN_API tn_dim tn_dim_min(tn_ctx *ctx, tn_dim a, tn_dim b);
TN_API tn_dim tn_dim_max(tn_ctx *ctx, tn_dim a, tn_dim b);
TN_API bool tn_dim_is_symbolic(tn_dim d);
/* Least and greatest value that d can take. */
TN_API tn_status tn_dim_bounds(tn_ctx *ctx, tn_dim d, int64_t *lo, int64_t *hi);

/* ---- Creation ---------------------------------------------------------------------------------------------------- */

/* Copies `data` (row-major, the dtype's size per element; bool: one byte, 0 or 1) to the context's device.  Sizes must
 * be plain.  data may be NULL only if there are no elements. */
TN_API tn_tensor *tn_from(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, const void *data);
TN_API tn_tensor *tn_zeros(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank);
TN_API tn_tensor *tn_ones(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank);
TN_API tn_tensor *tn_full(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double value);
/* For integers beyond 2^53.  u64 takes the bits; a value that does not fit in the other integer dtypes or in bool is
 * TN_EINVAL. */
TN_API tn_tensor *tn_full_i64(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, int64_t value);
TN_API tn_tensor *tn_zeros_like(tn_tensor *t);
TN_API tn_tensor *tn_ones_like(tn_tensor *t);
TN_API tn_tensor *tn_full_like(tn_tensor *t, double value);
/* start, start+step, ... while below stop (above it for step < 0): ceil((stop-start)/step) elements, none if negative.
 * Element i is start + i*step, in i64 for integer dtypes (which need integer arguments), else in f64, then rounded. */
TN_API tn_tensor *tn_arange(tn_ctx *ctx, tn_dtype dtype, double start, double stop, double step);
/* n floats from start to stop, both included: start + i*(stop-start)/(n-1) in f64, then rounded; the last is stop
 * exactly. */
TN_API tn_tensor *tn_linspace(tn_ctx *ctx, tn_dtype dtype, double start, double stop, tn_dim n);
/* 1 on the main diagonal, 0 elsewhere */
TN_API tn_tensor *tn_eye(tn_ctx *ctx, tn_dtype dtype, tn_dim rows, tn_dim cols);
/* A rank-0 tensor whose value is data: graphs that differ only in it share their compiled schedule.  For learning rates
 * and the like. */
TN_API tn_tensor *tn_scalar(tn_ctx *ctx, tn_dtype dtype, double value);
/* A rank-0 literal: part of the graph, folded into the code. */
TN_API tn_tensor *tn_const(tn_ctx *ctx, tn_dtype dtype, double value);

/* ---- Random numbers ---------------------------------------------------------------------------------------------- */

/* Philox4x32-10 (Salmon, Moraes, Dror, Shaw: Parallel Random Numbers: As Easy as 1, 2, 3, SC 2011).  Element i of the
 * n-th random tensor since the seed was set depends on (seed, n, i) only: not on the device, nor on what was realised
 * in between.  It is word i mod 4 of the call with counter (i div 4, n) and the seed as key; f64 takes words 2 i and
 * 2 i + 1.  A tensor has one value, however often it is used. */
TN_API tn_status tn_manual_seed(tn_ctx *ctx, uint64_t seed);
/* The generator's whole state, for checkpoints: seed and number of streams drawn. */
TN_API tn_status tn_rng_get_state(tn_ctx *ctx, uint64_t *seed, uint64_t *calls);
TN_API tn_status tn_rng_set_state(tn_ctx *ctx, uint64_t seed, uint64_t calls);

TN_API tn_tensor *tn_rand_bits(tn_ctx *ctx, const tn_dim *shape, int rank); /* u32, all values equally likely */
/* Uniform on [lo, hi): lo + (hi-lo)*u, u a multiple of 2^-24 (f32, and f16 and bf16 through f32) or 2^-53 (f64).
 * Rounding may reach hi. */
TN_API tn_tensor *tn_uniform(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double lo, double hi);
/* Normal, by Box and Muller (A Note on the Generation of Random Normal Deviates, 1958), two at a time: elements 2 k and
 * 2 k + 1 are mean + std*sqrt(-2 ln u1)*sin(2 pi u2) and ...*cos(2 pi u2).  u1, of word 2 k, is in (0, 1], a multiple
 * of 2^-24; u2 is word 2 k + 1 over 2^32.  In f64 both are multiples of 2^-53, of two words each. */
TN_API tn_tensor *tn_normal(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double mean, double std);
/* Integers lo <= x < hi with hi - lo <= 2^32 (TN_EINVAL else): lo + floor(bits*(hi-lo)/2^32), so a value's probability
 * is off by less than 2^-32. */
TN_API tn_tensor *tn_randint(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, int64_t lo, int64_t hi);
/* bool, true with probability p (0 <= p <= 1, else TN_EINVAL), resolution 2^-24. */
TN_API tn_tensor *tn_bernoulli(tn_ctx *ctx, const tn_dim *shape, int rank, double p);

/* ---- Elementwise, one operand ------------------------------------------------------------------------------------ */

/* Any number dtype (not bool): */
TN_API tn_tensor *tn_abs(tn_tensor *t); /* the least signed integer stays itself */
TN_API tn_tensor *tn_sign(tn_tensor *t); /* -1, 0, 1; NaN and signed zeros stay */
TN_API tn_tensor *tn_neg(tn_tensor *t);
TN_API tn_tensor *tn_square(tn_tensor *t);
TN_API tn_tensor *tn_relu(tn_tensor *t); /* x <= 0 ? 0 : x; NaN stays NaN; gradient at 0 is 0 */
/* Any number dtype; integers come back as they are: */
TN_API tn_tensor *tn_floor(tn_tensor *t);
TN_API tn_tensor *tn_ceil(tn_tensor *t);
TN_API tn_tensor *tn_round(tn_tensor *t); /* halves to even */
TN_API tn_tensor *tn_trunc(tn_tensor *t);
/* Any number dtype, result bool: */
TN_API tn_tensor *tn_isnan(tn_tensor *t);
TN_API tn_tensor *tn_isinf(tn_tensor *t);
TN_API tn_tensor *tn_isfinite(tn_tensor *t);
/* Floats only (integers: TN_EDTYPE; cast first): */
TN_API tn_tensor *tn_sqrt(tn_tensor *t);
TN_API tn_tensor *tn_rsqrt(tn_tensor *t); /* 1/sqrt(x) */
TN_API tn_tensor *tn_cbrt(tn_tensor *t);  /* the cube root, of negative numbers too */
TN_API tn_tensor *tn_recip(tn_tensor *t); /* 1/x */
TN_API tn_tensor *tn_exp(tn_tensor *t);
TN_API tn_tensor *tn_exp2(tn_tensor *t);
TN_API tn_tensor *tn_expm1(tn_tensor *t);
TN_API tn_tensor *tn_log(tn_tensor *t);
TN_API tn_tensor *tn_log2(tn_tensor *t);
TN_API tn_tensor *tn_log10(tn_tensor *t);
TN_API tn_tensor *tn_log1p(tn_tensor *t);
TN_API tn_tensor *tn_sin(tn_tensor *t);
TN_API tn_tensor *tn_cos(tn_tensor *t);
TN_API tn_tensor *tn_tan(tn_tensor *t);
TN_API tn_tensor *tn_asin(tn_tensor *t); /* NaN outside -1..1; so is acos */
TN_API tn_tensor *tn_acos(tn_tensor *t);
TN_API tn_tensor *tn_atan(tn_tensor *t);
TN_API tn_tensor *tn_sinh(tn_tensor *t);
TN_API tn_tensor *tn_cosh(tn_tensor *t);
TN_API tn_tensor *tn_tanh(tn_tensor *t);
TN_API tn_tensor *tn_asinh(tn_tensor *t);
TN_API tn_tensor *tn_acosh(tn_tensor *t); /* NaN below 1 */
TN_API tn_tensor *tn_atanh(tn_tensor *t); /* NaN outside -1..1, infinite at the ends */
TN_API tn_tensor *tn_erf(tn_tensor *t);
TN_API tn_tensor *tn_erfc(tn_tensor *t);  /* 1 - erf(x), to all digits where that is small */
TN_API tn_tensor *tn_sigmoid(tn_tensor *t);  /* 1/(1+exp(-x)) */
TN_API tn_tensor *tn_silu(tn_tensor *t);     /* x*sigmoid(x); NaN at -inf, as gelu is */
TN_API tn_tensor *tn_softplus(tn_tensor *t); /* ln(1+exp(x)) */
/* Hendrycks and Gimpel, Gaussian Error Linear Units, arXiv 1606.08415: x*Phi(x) by erf, and the tanh approximation. */
TN_API tn_tensor *tn_gelu(tn_tensor *t);
TN_API tn_tensor *tn_gelu_tanh(tn_tensor *t);
TN_API tn_tensor *tn_leaky_relu(tn_tensor *t, double slope); /* x > 0 ? x : slope*x */
TN_API tn_tensor *tn_elu(tn_tensor *t, double alpha);        /* x > 0 ? x : alpha*(exp(x)-1) */
/* Any dtype is read as truth (nonzero, NaN included, is true); result bool: */
TN_API tn_tensor *tn_logical_not(tn_tensor *t);
/* Integers and bool: */
TN_API tn_tensor *tn_bitwise_not(tn_tensor *t);

/* Float to integer saturates, NaN gives 0; to bool: nonzero; else nearest, integers wrap. */
TN_API tn_tensor *tn_cast(tn_tensor *t, tn_dtype dtype);
/* the same bits; equal sizes, bool neither way, else TN_EDTYPE */
TN_API tn_tensor *tn_bitcast(tn_tensor *t, tn_dtype dtype);
/* min(max(x, lo), hi); NaN stays.  -INFINITY and INFINITY leave a side open.  Any number dtype. */
TN_API tn_tensor *tn_clamp(tn_tensor *t, double lo, double hi);

/* ---- Elementwise, two operands, broadcasting --------------------------------------------------------------------- */

/* Numbers of any dtype; on bool add, maximum are or; mul, minimum are and; the others refuse bool.  Integers wrap. */
TN_API tn_tensor *tn_add(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_sub(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_mul(tn_tensor *a, tn_tensor *b);
/* rounds down: a = b floordiv(a, b) + mod(a, b), so that 1 by 0.1 is 9, as in Python; integers: x/0 = 0 */
TN_API tn_tensor *tn_floordiv(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_mod(tn_tensor *a, tn_tensor *b);      /* sign of b; integers: x mod 0 = x */
TN_API tn_tensor *tn_fmod(tn_tensor *a, tn_tensor *b);     /* sign of a; integers: 0 for b = 0 */
TN_API tn_tensor *tn_pow(tn_tensor *a, tn_tensor *b);      /* integers: a negative exponent truncates 1/a^n toward 0 */
TN_API tn_tensor *tn_maximum(tn_tensor *a, tn_tensor *b);  /* NaN propagates, -0 < +0 */
TN_API tn_tensor *tn_minimum(tn_tensor *a, tn_tensor *b);
/* Floats only: */
TN_API tn_tensor *tn_div(tn_tensor *a, tn_tensor *b); /* true division; for integers see tn_floordiv */
TN_API tn_tensor *tn_atan2(tn_tensor *y, tn_tensor *x);
TN_API tn_tensor *tn_hypot(tn_tensor *x, tn_tensor *y);    /* sqrt(x^2 + y^2), without overflow on the way */
TN_API tn_tensor *tn_fdim(tn_tensor *x, tn_tensor *y);     /* x - y where that is above 0, else 0; NaN if either is */
/* |x| with the sign of y, of zeros and NaN too (of a NaN that is computed, or widened from f16, the processor's) */
TN_API tn_tensor *tn_copysign(tn_tensor *x, tn_tensor *y);
/* Result bool: */
TN_API tn_tensor *tn_eq(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_ne(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_lt(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_le(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_gt(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_ge(tn_tensor *a, tn_tensor *b);
/* Operands are read as truth, whatever their dtypes: */
TN_API tn_tensor *tn_logical_and(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_logical_or(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_logical_xor(tn_tensor *a, tn_tensor *b);
/* Integers and bool: */
TN_API tn_tensor *tn_bitwise_and(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_bitwise_or(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_bitwise_xor(tn_tensor *a, tn_tensor *b);
/* Integers; the count is read as unsigned, one beyond the width gives 0, or the sign fill for tn_shr of signed: */
TN_API tn_tensor *tn_shl(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_shr(tn_tensor *a, tn_tensor *b);

/* cond ? a : b, element by element.  cond is bool; all three broadcast; a and b promote. */
TN_API tn_tensor *tn_where(tn_tensor *cond, tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_where_scalar(tn_tensor *cond, tn_tensor *a, double s);  /* cond ? a : s, in a's dtype */
TN_API tn_tensor *tn_rwhere_scalar(tn_tensor *cond, double s, tn_tensor *b); /* cond ? s : b, in b's dtype */
TN_API tn_tensor *tn_where_scalars(tn_tensor *cond, tn_dtype dtype, double s, double r); /* cond ? s : r */

/* The same with a number on the right (`r`: on the left); it takes t's dtype. */
TN_API tn_tensor *tn_add_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_sub_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_rsub_scalar(tn_tensor *t, double s); /* s - t */
TN_API tn_tensor *tn_mul_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_div_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_rdiv_scalar(tn_tensor *t, double s); /* s / t */
TN_API tn_tensor *tn_floordiv_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_mod_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_pow_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_maximum_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_minimum_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_eq_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_ne_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_lt_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_le_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_gt_scalar(tn_tensor *t, double s);
TN_API tn_tensor *tn_ge_scalar(tn_tensor *t, double s);

/* ---- Reductions -------------------------------------------------------------------------------------------------- */

/* Over the listed axes; axes = NULL with naxes = 0: over all.  keepdim leaves them behind with size 1. */
/* sum, prod: integers narrower than 64 bits and bool widen to i64 (unsigned: u64), as in the array API; f16 and bf16
 * accumulate in f32. Of nothing: 0 and 1. */
TN_API tn_tensor *tn_sum(tn_tensor *t, const int *axes, int naxes, bool keepdim);
TN_API tn_tensor *tn_prod(tn_tensor *t, const int *axes, int naxes, bool keepdim);
/* Keep the dtype; NaN propagates.  Over nothing: TN_ESHAPE. */
TN_API tn_tensor *tn_max(tn_tensor *t, const int *axes, int naxes, bool keepdim);
TN_API tn_tensor *tn_min(tn_tensor *t, const int *axes, int naxes, bool keepdim);
/* Floats.  mean of nothing is NaN.  var = sum((x-mean)^2)/(n-correction), in two passes; NaN or infinite where n <=
 * correction. */
TN_API tn_tensor *tn_mean(tn_tensor *t, const int *axes, int naxes, bool keepdim);
TN_API tn_tensor *tn_var(tn_tensor *t, const int *axes, int naxes, double correction, bool keepdim);
TN_API tn_tensor *tn_std(tn_tensor *t, const int *axes, int naxes, double correction, bool keepdim);
/* ln(sum(exp(x))), without overflow; of nothing or of all -inf: -inf, and the gradient of the latter is NaN; an
 * infinite maximum gives +inf.  Floats. */
TN_API tn_tensor *tn_logsumexp(tn_tensor *t, const int *axes, int naxes, bool keepdim);
/* Truth of any or of all elements (nonzero is true); result bool.  Of nothing: false and true. */
TN_API tn_tensor *tn_any(tn_tensor *t, const int *axes, int naxes, bool keepdim);
TN_API tn_tensor *tn_all(tn_tensor *t, const int *axes, int naxes, bool keepdim);
/* Place (i64) of the first extreme along one axis; the first NaN if there is one.  An axis of size 0 is TN_ESHAPE. */
TN_API tn_tensor *tn_argmax(tn_tensor *t, int axis, bool keepdim);
TN_API tn_tensor *tn_argmin(tn_tensor *t, int axis, bool keepdim);

/* Running sums and products along one axis: element i is of elements 0 .. i, in the dtype of tn_sum.  Both are taken in
 * blocks, in a fixed order that hangs on the device: the product of a block may be infinite, or 0, where those of all
 * elements from the first on are not, and an infinite one is NaN behind a 0.  (NumPy cumsum, cumprod.) */
TN_API tn_tensor *tn_cumsum(tn_tensor *t, int axis);
TN_API tn_tensor *tn_cumprod(tn_tensor *t, int axis);

/* ---- Shape ------------------------------------------------------------------------------------------------------- */

/* Same elements in row-major order; one size may be -1 and is inferred. */
TN_API tn_tensor *tn_reshape(tn_tensor *t, const tn_dim *shape, int rank);
TN_API tn_tensor *tn_flatten(tn_tensor *t, int first, int last); /* axes first..last become one */
TN_API tn_tensor *tn_squeeze(tn_tensor *t, const int *axes, int naxes); /* drops axes of size 1; NULL, 0: all of them */
TN_API tn_tensor *tn_unsqueeze(tn_tensor *t, int axis); /* the result has a new axis of size 1 there; -1: last */
TN_API tn_tensor *tn_permute(tn_tensor *t, const int *axes, int naxes); /* axis i of the result is axis axes[i] of t */
TN_API tn_tensor *tn_transpose(tn_tensor *t, int a, int b); /* swaps two axes */
/* broadcasts to the shape; -1 keeps an axis */
TN_API tn_tensor *tn_expand(tn_tensor *t, const tn_dim *shape, int rank);
/* lohi = {before, after} for every axis, from the first; sizes >= 0. */
TN_API tn_tensor *tn_pad(tn_tensor *t, const tn_dim *lohi, double value);
/* A box, which must lie inside (TN_ESHAPE else); tn_rank(t) numbers each. */
TN_API tn_tensor *tn_shrink(tn_tensor *t, const tn_dim *begin, const tn_dim *size);
TN_API tn_tensor *tn_flip(tn_tensor *t, const int *axes, int naxes); /* NULL, 0: all axes */
/* t[start:stop:step] along one axis, clamped as in Python; negative start and stop count from the end, step may be
 * negative but not 0. INT64_MAX and INT64_MIN stand for "as far as it goes" at the high and at the low end: [::-1] is
 * (INT64_MAX, INT64_MIN, -1). */
TN_API tn_tensor *tn_slice(tn_tensor *t, int axis, tn_dim start, tn_dim stop, int64_t step);
/* t[index] along one axis, which goes; negative counts from the end; out of range: TN_EINVAL. */
TN_API tn_tensor *tn_select(tn_tensor *t, int axis, int64_t index);
TN_API tn_tensor *tn_concatenate(tn_tensor *const *t, int n, int axis); /* n >= 1; dtypes promote; other axes equal */
TN_API tn_tensor *tn_stack(tn_tensor *const *t, int n, int axis);       /* equal shapes, along a new axis */
/* equal parts; parts must divide the size */
TN_API tn_status tn_split(tn_tensor *t, int parts, int axis, tn_tensor **out);
/* NumPy's: reps and axes are aligned at the end */
TN_API tn_tensor *tn_tile(tn_tensor *t, const tn_dim *reps, int n);
TN_API tn_tensor *tn_repeat(tn_tensor *t, tn_dim times, int axis);          /* each element `times` times in a row */
/* Sliding windows: the axis of size n becomes two, places and offsets: out[.., p, o, ..] = t[.., p*stride + o*dilation,
 * ..], with (n - dilation*(size-1) - 1)/stride + 1 places; none fits: TN_ESHAPE. */
TN_API tn_tensor *tn_unfold(tn_tensor *t, int axis, int64_t size, int64_t stride, int64_t dilation);
/* The lower (upper) triangle of the last two axes, zero elsewhere: keeps [i,j] with j - i <= k (>= k). */
TN_API tn_tensor *tn_tril(tn_tensor *t, int64_t k);
TN_API tn_tensor *tn_triu(tn_tensor *t, int64_t k);

/* ---- Indexing by tensors ----------------------------------------------------------------------------------------- */

/* Indices are integers of any dtype.  They do not wrap: a negative one or one beyond the end reads 0 and adds nothing,
 * or is an error where tn_options.check says so.
 */
/* Slices of x along axis: result shape x[:axis] + idx + x[axis+1:]. */
TN_API tn_tensor *tn_take(tn_tensor *x, tn_tensor *idx, int axis);
TN_API tn_tensor *tn_embedding(tn_tensor *table, tn_tensor *idx); /* tn_take along axis 0 */
/* out[.., i, ..] = x[.., idx[.., i, ..], ..]; idx has x's rank and x's sizes but for axis.  (NumPy take_along_axis,
 * torch.gather.) */
TN_API tn_tensor *tn_take_along_axis(tn_tensor *x, tn_tensor *idx, int axis);
/* base with upd added at idx along axis; idx and upd have one shape, base's but for axis.  Equal indices add up, in a
 * fixed order. */
TN_API tn_tensor *tn_scatter_add(tn_tensor *base, int axis, tn_tensor *idx, tn_tensor *upd);
/* base with slice i of upd added at idx[i]: the adjoint of tn_take; upd's shape is what tn_take(base, idx, axis) gives.
 */
TN_API tn_tensor *tn_index_add(tn_tensor *base, int axis, tn_tensor *idx, tn_tensor *upd);
/* idx's shape + [classes]; outside: all zero */
TN_API tn_tensor *tn_one_hot(tn_tensor *idx, tn_dim classes, tn_dtype dtype);

/* ---- Sorting and searching --------------------------------------------------------------------------------------- */

/* Along one axis, stable: equal elements keep their order, also downwards.  NaN counts as greater than all numbers, and
 * -0 as equal to 0.  argsort: the places (i64) that the sorted elements had.  A row may be of any length; its gradient
 * goes back to where each element stood. */
TN_API tn_tensor *tn_sort(tn_tensor *t, int axis, bool descending);
TN_API tn_tensor *tn_argsort(tn_tensor *t, int axis, bool descending);
/* The k greatest (largest) or least elements along the axis, the first of them first, of equal ones that which stands
 * first; and their places (i64).  k more than the axis has is TN_ESHAPE. */
TN_API tn_status tn_topk(tn_tensor *t, tn_dim k, int axis, bool largest, tn_tensor **values, tn_tensor **places);
/* Where each value would have to go into the sorted elements, of one axis, so that they stay sorted (i64, the shape of
 * values): before those that equal it, or behind them (right).  NaN counts as greater than all numbers; dtypes promote.
 * (NumPy searchsorted.) */
TN_API tn_tensor *tn_searchsorted(tn_tensor *sorted, tn_tensor *values, bool right);
/* How often each of 0 .. classes-1 stands in idx, of any shape: i64[classes]; others count nowhere. */
TN_API tn_tensor *tn_bincount(tn_tensor *idx, tn_dim classes);
/* The distinct elements of t, of any shape and dtype, ascending, in one axis of size most: the first so many of them,
 * or all and then fill, which t's dtype must hold.  NaN equals NaN and comes last, -0 equals 0; a value is as the first
 * that equals it stands in t, and its gradient goes there.  count: how many there are, be it more than most (i64, rank
 * 0); inverse: which of them each element of t is (i64, t's shape; most or more: one that had no room); counts: how
 * often each of the values stands in t (i64[most], 0 behind the last).  What is NULL is not wanted; all NULL is
 * TN_EINVAL.  (JAX unique with size and fill_value.) */
TN_API tn_status tn_unique(tn_tensor *t, tn_dim most, double fill, tn_tensor **values, tn_tensor **count,
                           tn_tensor **inverse, tn_tensor **counts);
/* Where the elements of t that are not zero stand (NaN is not), in row-major order: i64[most, tn_rank(t)], the first so
 * many of them, or all and then rows of fill; -1 is a place outside of everything.  count: how many there are (i64,
 * rank 0).  Places have no gradient.  What is NULL is not wanted; both NULL is TN_EINVAL.  (JAX nonzero with size and
 * fill_value.) */
TN_API tn_status tn_nonzero(tn_tensor *t, tn_dim most, int64_t fill, tn_tensor **places, tn_tensor **count);
/* The same, of exactly as many elements as there are: computes how many at once, and reads it.  So TN_ESTATE inside a
 * program capture, TN_EBOUND if a size is symbolic.  (PyTorch unique, nonzero.) */
TN_API tn_status tn_unique_now(tn_tensor *t, tn_tensor **values, tn_tensor **inverse, tn_tensor **counts);
TN_API tn_tensor *tn_nonzero_now(tn_tensor *t);

/* ---- Contractions ------------------------------------------------------------------------------------------------ */

/* Floats and integers; f16 and bf16 accumulate in f32; integers wrap in their own dtype. */
/* NumPy's matmul: the last two axes are matrices, axes before broadcast; a vector on the left is a row, on the right a
 * column, and its axis goes from the result. */
TN_API tn_tensor *tn_matmul(tn_tensor *a, tn_tensor *b);
TN_API tn_tensor *tn_dot(tn_tensor *a, tn_tensor *b);   /* two vectors: the sum of products */
TN_API tn_tensor *tn_outer(tn_tensor *a, tn_tensor *b); /* two vectors: all products */
/* Einstein's summation: "bij,bjk->bik".  Letters a-z and A-Z; a repeated letter in one operand takes the diagonal;
 * without "->" the letters that occur once, in alphabetical order; "..." stands for broadcast axes.  Operands are
 * contracted from left to right. */
TN_API tn_tensor *tn_einsum(const char *spec, tn_tensor *const *in, int n);

/* ---- Compositions ------------------------------------------------------------------------------------------------ */

/* All accumulate in f32 for f16 and bf16, and give the operand's dtype; floats only.
 * Where some of a row is -inf (a mask), softmax, log_softmax and logsumexp are those of the rest, in values and in
 * gradients. */
/* exp(x-max)/sum(exp(x-max)); a row of only -inf gives zeros, and has gradient 0 */
TN_API tn_tensor *tn_softmax(tn_tensor *t, int axis);
/* x - logsumexp(x); a row of only -inf stays -inf, and passes gradients on */
TN_API tn_tensor *tn_log_softmax(tn_tensor *t, int axis);
/* Ba, Kiros, Hinton, Layer Normalization, arXiv 1607.06450: (x-mean)/sqrt(var+eps)*gamma + beta over the last naxes
 * axes; var is biased, of the centred values.  gamma and beta broadcast against x; NULL: none (but with an error
 * pending NULL is passed on). */
TN_API tn_tensor *tn_layer_norm(tn_tensor *x, int naxes, tn_tensor *gamma, tn_tensor *beta, double eps);
/* Zhang, Sennrich, Root Mean Square Layer Normalization, arXiv 1910.07467: x/sqrt(mean(x^2)+eps)*gamma. */
TN_API tn_tensor *tn_rms_norm(tn_tensor *x, int naxes, tn_tensor *gamma, double eps);
/* Losses are means, of rank 0. */
/* -mean(sum over classes of p*log_softmax(logits)).  logits [N, C, ...]; labels: integer classes [N, ...] (one outside
 * 0..C-1 counts as loss 0), or probabilities of the logits' shape and a float dtype. */
TN_API tn_tensor *tn_cross_entropy(tn_tensor *logits, tn_tensor *labels);
/* -mean(logp at the label); shapes as above, integer labels */
TN_API tn_tensor *tn_nll_loss(tn_tensor *logp, tn_tensor *labels);
TN_API tn_tensor *tn_mse_loss(tn_tensor *a, tn_tensor *b);         /* mean((a-b)^2) */
/* mean(max(x,0) - x*y + log(1+exp(-|x|))), y in 0..1. */
TN_API tn_tensor *tn_binary_cross_entropy_with_logits(tn_tensor *x, tn_tensor *y);

/* ---- State ------------------------------------------------------------------------------------------------------- */

/* From now on dst has the value v (which broadcasts to dst's shape; equal dtypes, else TN_EDTYPE).  dst is a realised
 * tensor (tn_from, tn_realize), or a tn_slice, tn_select, tn_shrink, tn_flip, tn_permute, tn_transpose or tn_reshape of
 * one, whose elements are then replaced; anything else is TN_ESTATE. Tensors built from dst earlier keep the old value.
 */
TN_API tn_status tn_assign(tn_tensor *dst, tn_tensor *v);
/* The same value, stored as a whole, row after row, when it is computed, also as a program's output.  Where an input
 * stands so already, or a part of at least an eighth of it does, it shares that memory, which is kept for as long as
 * either is; writing to one never changes the other. */
TN_API tn_tensor *tn_contiguous(tn_tensor *t);
TN_API tn_tensor *tn_detach(tn_tensor *t);     /* the same value; no gradient flows through */

/* ---- Running ----------------------------------------------------------------------------------------------------- */

/* Computes all n tensors in one schedule and stores them.  Errors of compiling, memory and running name the call that
 * made the failing node.  TN_ESTATE inside a program capture, TN_EBOUND if a symbolic size is not bound, TN_EINVAL if n
 * is negative. */
TN_API tn_status tn_realize(tn_tensor *const *t, int n);
/* Realises, then copies all elements, row-major, to `out`; bytes must be tn_nbytes(t). */
TN_API tn_status tn_read(tn_tensor *t, void *out, size_t bytes);
/* Gives t new contents from memory; t must be realised (TN_ESTATE else), and bytes tn_nbytes(t).  Tensors built from t
 * earlier keep the old value. */
TN_API tn_status tn_write(tn_tensor *t, const void *data, size_t bytes);
/* Realises and reads the value of a one-element tensor as a double (64-bit integers round). */
TN_API tn_status tn_item(tn_tensor *t, double *out);
/* Realises and prints dtype, shape and values, abbreviated when there are many; f = NULL: to stdout. */
TN_API tn_status tn_print(tn_tensor *t, FILE *f);
/* The same text as a string, which the caller owns and ends with tn_string_free(); NULL on error. */
TN_API char *tn_print_string(tn_tensor *t);
/* The value on another device ("cpu", "ref", "cuda:0", "opencl:0"); t itself, as a new handle, if it is there.
 * Realises t; the copy is a leaf, to which gradients of t do not go.  Unknown device: TN_EDEVICE.  While a program is
 * recorded: TN_ESTATE; of symbolic sizes: TN_EBOUND. */
TN_API tn_tensor *tn_to(tn_tensor *t, const char *device);

#ifdef __cplusplus
}
#endif
#endif
