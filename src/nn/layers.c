/* Layers as graphs: a convolution is a contraction over windows, pooling a reduction over them. */
#include "ir/build.h"
#include "tenet/nn.h"
#include "tensor/random.h"
#include <math.h>

enum { N_AXIS, C_AXIS, H_AXIS, W_AXIS, IMAGE_RANK };

static const char *type(tn_ctx *c, const tn_node *x) { return tn__node_type(x, &c->scratch); }

static void want_one_dtype(tn_ctx *c, const tn__call *k) {
  for (int i = 1; i < k->nin; i++)
    if (k->x[i]->dtype != k->x[0]->dtype)
      tn__fail(c, TN_EDTYPE, "%s and %s differ in dtype: convert one with tn_cast", type(c, k->x[0]), type(c, k->x[i]));
}

static void want_floats(tn_ctx *c, const tn__call *k) {
  for (int i = 0; i < k->nin; i++)
    if (!tn__is_float(k->x[i]->dtype))
      tn__fail(c, TN_EDTYPE, "needs floats, not %s: convert it with tn_cast", type(c, k->x[i]));
  want_one_dtype(c, k);
}

/* b, a vector along `axis` of x, added to x. */
static tn_node *add_bias(tn_ctx *c, tn_node *x, tn_node *b, uint32_t axis) {
  tn_node *fitted = tn__taken_as(c, b, &x->dim[axis], 1);
  if (!fitted)
    tn__fail(c, TN_ESHAPE, "bias %s does not fit the result %s: it has one element per output", type(c, b), type(c, x));
  tn_node *dim[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) dim[i] = i == axis ? x->dim[i] : tn__int(c, 1);
  return tn__add(c, x, tn__expand(c, tn__reshape(c, fitted, dim, x->rank), x->dim));
}

/* Operands x, w and, unless absent, b.  A NULL bias means none; after an error it is passed on as any other NULL. */
static tn_tensor *layer(tn__call *k, tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  tn_ctx *c = tn_ctx_of(x);
  if (!b && c && tn_last_error(c)->status != TN_OK) return NULL;
  tn_tensor *in[] = {x, w, b};
  k->in = in;
  k->nin = b ? 3 : 2;
  return tn__build(k);
}

/* ---- linear ---- */

static tn_node *linear(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0], *w = k->x[1];
  tn__want(c, x, TN__C_NUM);
  want_one_dtype(c, k);
  if (w->rank != 2) tn__fail(c, TN_ESHAPE, "weight %s must have axes (out, in)", type(c, w));
  tn_node *inner = x->rank ? tn__size_common(c, x->dim[x->rank - 1], w->dim[1]) : NULL;
  if (!inner) tn__fail(c, TN_ESHAPE, "the last axis of %s is not the weight's %s second", type(c, x), type(c, w));
  tn_node *y =
      tn__contract(c, tn__axis_as(c, x, x->rank - 1u, inner), tn__axis_as(c, w, 1, inner), 0, x->rank - 1, 1, 1);
  return k->nin == 3 ? add_bias(c, y, k->x[2], y->rank - 1u) : y;
}

tn_tensor *tn_linear(tn_tensor *x, tn_tensor *w, tn_tensor *b) {
  return layer(&(tn__call){.name = "tn_linear", .fn = linear}, x, w, b);
}

/* ---- windows over images ---- */

static const int64_t most = (int64_t)1 << 31; /* of strides, dilations and paddings: no sum of them wraps */

typedef struct frame { /* one spatial axis */
  int64_t size, stride, padding, dilation;
} frame;

/* Options of the caller, zeros replaced by defaults; stride_default 0: the window's size. */
static void fill_frames(tn_ctx *c, frame f[2], const int64_t *stride, const int64_t *padding, const int64_t *dilation,
                        int64_t stride_default) {
  for (int i = 0; i < 2; i++) {
    f[i].stride = stride && stride[i] ? stride[i] : stride_default ? stride_default : f[i].size;
    f[i].padding = padding ? padding[i] : 0;
    f[i].dilation = dilation && dilation[i] ? dilation[i] : 1;
    if (f[i].size < 1 || f[i].stride < 1 || f[i].dilation < 1 || f[i].padding < 0 || f[i].stride > most ||
        f[i].dilation > most || f[i].padding > most)
      tn__fail(c, TN_EINVAL,
               "window %lld, stride %lld, padding %lld, dilation %lld: padding must not be negative, the others at "
               "least 1, and none above 2^31",
               (long long)f[i].size, (long long)f[i].stride, (long long)f[i].padding, (long long)f[i].dilation);
  }
}

static void want_image(tn_ctx *c, const tn_node *x) {
  if (x->rank != IMAGE_RANK) tn__fail(c, TN_ESHAPE, "%s must have axes (N, C, H, W)", type(c, x));
}

/* Pads H and W with `value`. */
static tn_node *pad_image(tn_ctx *c, tn_node *x, const frame f[2], double value) {
  tn_node *lohi[2 * IMAGE_RANK];
  if (!f[0].padding && !f[1].padding) return x;
  for (int i = 0; i < 2 * IMAGE_RANK; i++) lohi[i] = tn__int(c, i / 2 >= H_AXIS ? f[i / 2 - H_AXIS].padding : 0);
  tn_node *padded = tn__pad(c, x, lohi);
  if (value == 0) return padded;
  tn_node *inside = tn__pad(c, tn__scalar_to(c, tn__const_bits(c, TN_BOOL, 1), x->dim, x->rank), lohi);
  return tn__where(c, inside, padded, tn__scalar_to(c, tn__const_num(c, x->dtype, value), padded->dim, padded->rank));
}

static bool is_apart(const tn_node *dim, const frame *f) {
  return f->stride == f->size && f->dilation == 1 && dim->lo >= f->size;
}

/* Splits `axis` into (place, offset). */
static tn_node *split_windows(tn_ctx *c, tn_node *x, uint32_t axis, const frame *f, bool apart) {
  if (!apart) return tn__window(c, x, axis, f->size, f->stride, f->dilation);
  tn_node *places = tn__op2(c, OP_IDIV, x->dim[axis], tn__int(c, f->size)), *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) {
    begin[i] = tn__int(c, 0);
    size[i] = i == axis ? tn__mul(c, places, tn__int(c, f->size)) : x->dim[i];
  }
  tn_node *y = tn__shrink(c, x, begin, size, NULL), *dim[TN_MAX_RANK];
  for (uint32_t i = 0; i <= x->rank; i++)
    dim[i] = i == axis ? places : i == axis + 1 ? tn__int(c, f->size) : x->dim[i < axis ? i : i - 1];
  return tn__reshape(c, y, dim, x->rank + 1u);
}

/* [N, C, H, W] -> [N, C, OH, KH, OW, KW].  Windows that lie side by side along both axes are a plain reshape, whose
 * gradient needs no sums. */
static tn_node *windows(tn_ctx *c, tn_node *x, const frame f[2]) {
  for (int i = 0; i < 2; i++) {
    int64_t span = f[i].dilation * (f[i].size - 1) + 1;
    if (x->dim[H_AXIS + i]->hi < span)
      tn__fail(c, TN_ESHAPE, "a window that spans %lld does not fit axis %d of the (padded) %s", (long long)span,
               H_AXIS + i, type(c, x));
  }
  bool apart = is_apart(x->dim[H_AXIS], &f[0]) && is_apart(x->dim[W_AXIS], &f[1]);
  return split_windows(c, split_windows(c, x, H_AXIS, &f[0], apart), W_AXIS + 1, &f[1], apart);
}

/* ---- convolution ---- */

/* [N, C, OH, KH, OW, KW] as [G, N, OH, OW | C/G, KH, KW], the group's axis left out for one group. */
static tn_node *patches(tn_ctx *c, tn_node *x, int64_t groups, int64_t per_group) {
  static const int64_t one[] = {0, 2, 4, 1, 3, 5}, many[] = {1, 0, 3, 5, 2, 4, 6};
  if (groups > 1) {
    tn_node *dim[] = {x->dim[0], tn__int(c, groups), tn__int(c, per_group), x->dim[2], x->dim[3], x->dim[4], x->dim[5]};
    x = tn__reshape(c, x, dim, 7);
  }
  return tn__permute(c, x, groups == 1 ? one : many);
}

static tn_node *convolve(tn_ctx *c, tn_node *x, tn_node *w, int64_t groups, int64_t outputs) {
  static const int64_t one[] = {0, 3, 1, 2}, many[] = {1, 0, 4, 2, 3};
  if (groups == 1) return tn__permute(c, tn__contract(c, x, w, 0, 3, 1, 3), one);
  tn_node *dim[] = {tn__int(c, groups), tn__int(c, outputs / groups), w->dim[1], w->dim[2], w->dim[3]};
  /* [N, G, O/G, OH, OW] */
  tn_node *y = tn__permute(c, tn__contract(c, x, tn__reshape(c, w, dim, 5), 1, 3, 1, 3), many);
  tn_node *out[] = {y->dim[0], w->dim[0], y->dim[3], y->dim[4]};
  return tn__reshape(c, y, out, IMAGE_RANK);
}

static tn_node *conv2d(tn_ctx *c, tn__call *k) {
  static const tn_conv2d_options none = {0};
  const tn_conv2d_options *o = k->p ? k->p : &none;
  tn_node *x = k->x[0], *w = k->x[1];
  int64_t groups = o->groups ? o->groups : 1, channels, outputs, per_group, kh, kw;
  want_floats(c, k);
  want_image(c, x);
  if (w->rank != 4 || !tn__const_int(w->dim[0], &outputs) || !tn__const_int(w->dim[1], &per_group) ||
      !tn__const_int(w->dim[2], &kh) || !tn__const_int(w->dim[3], &kw))
    tn__fail(c, TN_ESHAPE, "weight %s must have plain axes (out, in/groups, height, width)", type(c, w));
  if (!tn__const_int(x->dim[C_AXIS], &channels))
    tn__fail(c, TN_ESHAPE, "the channels of %s must have a plain size", type(c, x));
  if (groups < 1 || channels % groups || outputs % groups)
    tn__fail(c, TN_EINVAL, "%lld groups do not divide %lld input and %lld output channels", (long long)groups,
             (long long)channels, (long long)outputs);
  if (per_group != channels / groups)
    tn__fail(c, TN_ESHAPE, "weight %s does not fit %s in %lld groups: its second axis must be %lld", type(c, w),
             type(c, x), (long long)groups, (long long)(channels / groups));
  frame f[2] = {{.size = kh}, {.size = kw}};
  fill_frames(c, f, o->stride, o->padding, o->dilation, 1);
  x = windows(c, pad_image(c, x, f, 0), f);
  tn_node *y = convolve(c, patches(c, x, groups, per_group), w, groups, outputs);
  return k->nin == 3 ? add_bias(c, y, k->x[2], C_AXIS) : y;
}

tn_tensor *tn_conv2d(tn_tensor *x, tn_tensor *w, tn_tensor *b, const tn_conv2d_options *opt) {
  return layer(&(tn__call){.name = "tn_conv2d", .fn = conv2d, .p = opt}, x, w, b);
}

/* ---- pooling ---- */

static tn_node *pooled(tn_ctx *c, tn__call *k, frame f[2], double padding) {
  static const tn_pool2d_options none = {0};
  const tn_pool2d_options *o = k->p ? k->p : &none;
  want_floats(c, k);
  want_image(c, k->x[0]);
  for (int i = 0; i < 2; i++) f[i].size = k->i[i];
  fill_frames(c, f, o->stride, o->padding, o->dilation, 0);
  return windows(c, pad_image(c, k->x[0], f, padding), f);
}

static const int64_t window_axes[] = {3, 5};

static tn_node *max_pool2d(tn_ctx *c, tn__call *k) {
  frame f[2];
  return tn__reduce(c, OP_RMAX, pooled(c, k, f, -INFINITY), window_axes, 2);
}

static tn_node *avg_pool2d(tn_ctx *c, tn__call *k) {
  frame f[2];
  tn_node *x = pooled(c, k, f, 0);
  int dtype = x->dtype;
  tn_node *sum = tn__reduce(c, OP_SUM, tn__cast(c, x, tn__dtype_acc(dtype)), window_axes, 2);
  tn_node *part = tn__const_num(c, sum->dtype, 1.0 / (double)(f[0].size * f[1].size));
  return tn__cast(c, tn__mul(c, sum, tn__scalar_to(c, part, sum->dim, sum->rank)), dtype);
}

tn_tensor *tn_max_pool2d(tn_tensor *x, int64_t kh, int64_t kw, const tn_pool2d_options *opt) {
  return tn__build(&(tn__call){.name = "tn_max_pool2d", .fn = max_pool2d, .in = &x, .nin = 1, .i = {kh, kw}, .p = opt});
}
tn_tensor *tn_avg_pool2d(tn_tensor *x, int64_t kh, int64_t kw, const tn_pool2d_options *opt) {
  return tn__build(&(tn__call){.name = "tn_avg_pool2d", .fn = avg_pool2d, .in = &x, .nin = 1, .i = {kh, kw}, .p = opt});
}

/* ---- dropout ---- */

/* f[0]: p, i[0]: training.  NULL: x stays as it is. */
static tn_node *dropout(tn_ctx *c, tn__call *k) {
  tn_node *x = k->x[0];
  double p = k->f[0];
  if (!(p >= 0 && p <= 1)) tn__fail(c, TN_EINVAL, "probability %g is outside 0..1", p);
  tn__want(c, x, TN__C_FLOAT);
  if (!k->i[0] || p == 0) return NULL;
  tn__dims shape = tn__dims_of(x);
  tn_node *keep = tn__random_bernoulli(c, &shape, 1 - p);
  /* chosen, not multiplied: 0 * inf is no zero */
  return tn__where(c, keep, tn__op2_num(c, OP_MUL, x, p < 1 ? 1 / (1 - p) : 0), tn__literal_like(c, x, 0));
}

tn_tensor *tn_dropout(tn_tensor *x, double p, bool training) {
  tn__call k = {.name = "tn_dropout", .fn = dropout, .in = &x, .nin = 1, .f = {p}, .i = {training}};
  return tn__do(&k) != TN_OK || k.out ? k.out : x;
}
