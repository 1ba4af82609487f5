/* Tensors from nothing, from numbers, and from memory. */
#include "device/device.h"
#include "ir/eval.h"
#include "tensor/operands.h"
#include <math.h>

enum { DEFAULT_DEVICE = 0 };

/* A STORAGE on the default device with a copy of `data`; sizes must be plain. */
static tn_node *store(tn_ctx *c, int dtype, const tn__dims *shape, const void *data) {
  size_t bytes = tn__size_of(dtype);
  for (uint32_t i = 0; i < shape->rank; i++) {
    int64_t n;
    if (!tn__const_int(shape->d[i], &n))
      tn__fail(c, TN_ESHAPE, "memory needs plain sizes, not %s", tn__dims_text(c, shape->d, shape->rank));
    if (__builtin_mul_overflow(bytes, (size_t)n, &bytes) || bytes > PTRDIFF_MAX)
      tn__fail(c, TN_ENOMEM, "%s of %s is more than memory can hold", tn__dims_text(c, shape->d, shape->rank),
               tn__dtypes[dtype].name);
  }
  if (bytes && !data) tn__fail(c, TN_EINVAL, "data is NULL");
  tn__device *d = tn__device_get(c, DEFAULT_DEVICE);
  tn__buffer *b = tn__buffer_new(d, bytes);
  tn_node *st = tn__storage_make(c, dtype, b, shape->d, shape->rank);
  if (bytes) d->ops->upload(d, b->mem, data, bytes);
  return st;
}

/* ---- builders.  i[0]: dtype, i[1]: rank, p: shape ---- */

static tn__dims take_shape(tn_ctx *c, const tn__call *k) {
  tn__dims s;
  tn__check_dtype(c, (int)k->i[0]);
  tn__shape_in(c, k->p, (int)k->i[1], &s);
  return s;
}

static tn_node *from(tn_ctx *c, tn__call *k) {
  tn__dims s = take_shape(c, k);
  return store(c, (int)k->i[0], &s, k->data);
}

static tn_node *full(tn_ctx *c, tn__call *k) {
  tn__dims s = take_shape(c, k);
  return tn__scalar_to(c, tn__literal(c, (int)k->i[0], k->f[0]), s.d, s.rank);
}

static tn_node *full_i64(tn_ctx *c, tn__call *k) {
  tn__dims s = take_shape(c, k);
  int dtype = (int)k->i[0];
  uint64_t bits = tn__eval_cast(TN_I64, dtype, (uint64_t)k->i[2]);
  bool exact = tn__is_float(dtype) || dtype == TN_U64 || tn__eval_cast(dtype, TN_I64, bits) == (uint64_t)k->i[2];
  if (!exact) tn__fail(c, TN_EINVAL, "%lld does not fit %s", (long long)k->i[2], tn__dtypes[dtype].name);
  return tn__scalar_to(c, tn__const_bits(c, dtype, bits), s.d, s.rank);
}

static tn_node *like(tn_ctx *c, tn__call *k) { return tn__literal_like(c, k->x[0], k->f[0]); }

static tn_node *scalar(tn_ctx *c, tn__call *k) {
  tn__dims s = take_shape(c, k);
  int dtype = (int)k->i[0];
  unsigned char element[8];
  tn__literal(c, dtype, k->f[0]); /* only to check that it fits */
  tn__eval_store(dtype, element, tn__eval_from_double(dtype, k->f[0]));
  return store(c, dtype, &s, element);
}

/* start + i*step for i < n, computed in i64 for integers and in f64 for floats. */
static tn_node *ramp(tn_ctx *c, int dtype, tn_node *n, double start, double step) {
  int wide = tn__is_float(dtype) ? TN_F64 : TN_I64;
  tn_node *x = tn__cast(c, tn__iota(c, n), wide);
  if (step != 1) x = tn__op2_num(c, OP_MUL, x, step);
  if (start != 0) x = tn__op2_num(c, OP_ADD, x, start);
  return x;
}

/* The first and the last must fit, and so do the others. */
static void check_range(tn_ctx *c, int dtype, double start, double step, double last) {
  const struct {
    const char *name;
    double v;
    int as;
  } number[] = {{"start", start, dtype}, {"step", step, TN_I64}, {"the last number", last, dtype}};
  for (size_t i = 0; i < sizeof number / sizeof *number; i++)
    if (!tn__fits(number[i].as, number[i].v))
      tn__fail(c, TN_EDTYPE, "%s, %.15g, does not fit %s", number[i].name, number[i].v, tn__dtypes[dtype].name);
}

static tn_node *arange(tn_ctx *c, tn__call *k) {
  int dtype = (int)k->i[0];
  double start = k->f[0], stop = k->f[1], step = k->f[2];
  tn__check_dtype(c, dtype);
  if (!isfinite(start) || !isfinite(stop) || !isfinite(step) || step == 0)
    tn__fail(c, TN_EINVAL, "start %g, stop %g and step %g must be finite, and step not 0", start, stop, step);
  if (dtype == TN_BOOL) tn__fail(c, TN_EDTYPE, "needs a number dtype, not bool");
  double n = ceil((stop - start) / step);
  if (n > 0x1p62) tn__fail(c, TN_ESHAPE, "from %g to %g by %g would be %g elements: too many", start, stop, step, n);
  if (tn__is_int(dtype) && n > 0) check_range(c, dtype, start, step, start + (n - 1) * step);
  return tn__cast(c, ramp(c, dtype, tn__int(c, n > 0 ? (int64_t)n : 0), start, step), dtype);
}

static tn_node *linspace(tn_ctx *c, tn__call *k) {
  int dtype = (int)k->i[0];
  tn__check_dtype(c, dtype);
  if (!tn__is_float(dtype)) tn__fail(c, TN_EDTYPE, "needs a float dtype, not %s", tn__dtypes[dtype].name);
  tn_node *n = tn__dim_in(c, k->i[1]);
  double start = k->f[0], stop = k->f[1];
  tn_node *i = tn__iota(c, n),
          *last = tn__scalar_to(c, tn__dim_value(c, tn__add(c, n, tn__int(c, -1)), TN_I64), i->dim, 1);
  tn_node *gap =
      tn__op2(c, OP_DIV, tn__literal_like(c, tn__cast(c, i, TN_F64), stop - start), tn__cast(c, last, TN_F64));
  tn_node *x = tn__op2_num(c, OP_ADD, tn__mul(c, tn__cast(c, i, TN_F64), gap), start);
  /* the end is exact; and for n = 1, where the gap is 0/0 or x/0, the only element is start */
  tn_node *first = tn__op2(c, OP_EQ, i, tn__literal_like(c, i, 0)), *end = tn__op2(c, OP_EQ, i, last);
  x = tn__where(c, end, tn__literal_like(c, x, stop), x);
  x = tn__where(c, first, tn__literal_like(c, x, start), x);
  return tn__cast(c, x, dtype);
}

static tn_node *eye(tn_ctx *c, tn__call *k) {
  int dtype = (int)k->i[0];
  tn__check_dtype(c, dtype);
  tn__dims s = {.rank = 2, .d = {tn__dim_in(c, k->i[1]), tn__dim_in(c, k->i[2])}};
  return tn__cast(c, tn__op2(c, OP_EQ, tn__place(c, &s, 0), tn__place(c, &s, 1)), dtype);
}

/* ---- the public functions ---- */

#define SHAPED(...) tn__build(&(tn__call){.ctx = ctx, .i[0] = (int64_t)dtype, .i[1] = rank, .p = shape, __VA_ARGS__})

tn_tensor *tn_from(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, const void *data) {
  return SHAPED(.name = "tn_from", .fn = from, .data = data);
}
tn_tensor *tn_zeros(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank) {
  return SHAPED(.name = "tn_zeros", .fn = full);
}
tn_tensor *tn_ones(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank) {
  return SHAPED(.name = "tn_ones", .fn = full, .f[0] = 1);
}
tn_tensor *tn_full(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double value) {
  return SHAPED(.name = "tn_full", .fn = full, .f[0] = value);
}
tn_tensor *tn_full_i64(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, int64_t value) {
  return SHAPED(.name = "tn_full_i64", .fn = full_i64, .i[2] = value);
}
tn_tensor *tn_scalar(tn_ctx *ctx, tn_dtype dtype, double value) {
  const tn_dim *shape = NULL;
  int rank = 0;
  return SHAPED(.name = "tn_scalar", .fn = scalar, .f[0] = value);
}
tn_tensor *tn_const(tn_ctx *ctx, tn_dtype dtype, double value) {
  const tn_dim *shape = NULL;
  int rank = 0;
  return SHAPED(.name = "tn_const", .fn = full, .f[0] = value);
}

#define LIKE(name_, value_) tn__build(&(tn__call){.name = name_, .fn = like, .in = &t, .nin = 1, .f[0] = value_})
tn_tensor *tn_zeros_like(tn_tensor *t) { return LIKE("tn_zeros_like", 0); }
tn_tensor *tn_ones_like(tn_tensor *t) { return LIKE("tn_ones_like", 1); }
tn_tensor *tn_full_like(tn_tensor *t, double value) { return LIKE("tn_full_like", value); }

tn_tensor *tn_arange(tn_ctx *ctx, tn_dtype dtype, double start, double stop, double step) {
  return tn__build(
      &(tn__call){.name = "tn_arange", .fn = arange, .ctx = ctx, .i = {(int64_t)dtype}, .f = {start, stop, step}});
}
tn_tensor *tn_linspace(tn_ctx *ctx, tn_dtype dtype, double start, double stop, tn_dim n) {
  return tn__build(
      &(tn__call){.name = "tn_linspace", .fn = linspace, .ctx = ctx, .i = {(int64_t)dtype, n}, .f = {start, stop}});
}
tn_tensor *tn_eye(tn_ctx *ctx, tn_dtype dtype, tn_dim rows, tn_dim cols) {
  return tn__build(&(tn__call){.name = "tn_eye", .fn = eye, .ctx = ctx, .i = {(int64_t)dtype, rows, cols}});
}
