/* Layers, initialisers and parameter lists.  Layers are functions of tensors: they hold no state, and everything
 * tensor.h says about errors and ownership holds here.  Layouts are those of PyTorch: weights (out, in, ...), images
 * (N, C, H, W). */
#ifndef TENET_NN_H
#define TENET_NN_H
#include "tenet/tensor_types.h"

#ifdef __cplusplus
extern "C" {
#endif

/* ---- Layers ------------------------------------------------------------------------------------------------------ */

/* x w^T + b over the last axis: x [..., in], w [out, in], b [out] or NULL for none.  Numbers of one dtype, as of
 * tn_matmul. */
TN_API tn_tensor *tn_linear(tn_tensor *x, tn_tensor *w, tn_tensor *b);

/* Height first, then width.  Zero means the default: stride 1 (pooling: the kernel's size), padding 0, dilation 1,
 * groups 1. */
typedef struct tn_conv2d_options {
  int64_t stride[2], padding[2], dilation[2];
  int64_t groups;
} tn_conv2d_options;

/* Cross-correlation: out[n,o,i,j] = b[o] + sum over c, h, w of x[n,c, i*stride + h*dilation - padding, ...] *
 * w[o,c,h,w], x being 0 outside (whether these zeros make NaN of an infinite or NaN weight is the device's library's
 * to choose). x [N, C, H, W], w [O, C/groups, KH, KW], b [O] or NULL; output channels of group g see
 * the input channels of group g only. opt may be NULL.  Plain (not symbolic) C and O. */
TN_API tn_tensor *tn_conv2d(tn_tensor *x, tn_tensor *w, tn_tensor *b, const tn_conv2d_options *opt);

typedef struct tn_pool2d_options {
  int64_t stride[2], padding[2], dilation[2];
} tn_pool2d_options;

/* The greatest element of each window of kh x kw; padding counts as -inf.  Equal maxima share the gradient equally. */
TN_API tn_tensor *tn_max_pool2d(tn_tensor *x, int64_t kh, int64_t kw, const tn_pool2d_options *opt);
/* The mean of each window; padding counts as 0 (PyTorch's count_include_pad). */
TN_API tn_tensor *tn_avg_pool2d(tn_tensor *x, int64_t kh, int64_t kw, const tn_pool2d_options *opt);

/* Srivastava, Hinton, Krizhevsky, Sutskever, Salakhutdinov, Dropout, JMLR 15 (2014), in its inverted form: while
 * training, each element is 0 with probability p, else scaled by 1/(1-p); otherwise x itself.  0 <= p <= 1.  Draws one
 * random tensor. */
TN_API tn_tensor *tn_dropout(tn_tensor *x, double p, bool training);

/* ---- Initialisers: lazy tensors ---------------------------------------------------------------------------------- */

/* fan_in is shape[1] * shape[2] * ..., fan_out shape[0] * shape[2] * ...; rank >= 2, plain sizes.
 * He, Zhang, Ren, Sun, Delving Deep into Rectifiers, ICCV 2015: uniform on +-sqrt(6 / ((1 + a^2) fan_in)).  a = 0 suits
 * ReLU; a = sqrt(5) is what PyTorch's layers start from, +-1/sqrt(fan_in). */
TN_API tn_tensor *tn_kaiming_uniform(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double a);
TN_API tn_tensor *tn_kaiming_normal(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double a);
/* Glorot, Bengio, Understanding the Difficulty of Training Deep Feedforward Neural Networks, AISTATS 2010: uniform on
 * +-gain*sqrt(6 / (fan_in + fan_out)), or normal of that variance. */
TN_API tn_tensor *tn_xavier_uniform(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double gain);
TN_API tn_tensor *tn_xavier_normal(tn_ctx *ctx, tn_dtype dtype, const tn_dim *shape, int rank, double gain);

/* ---- Parameter lists --------------------------------------------------------------------------------------------- */

/* Named tensors in a fixed order: what an optimiser updates and a file holds. */
typedef struct tn_params tn_params;

TN_API tn_params *tn_params_open(tn_ctx *ctx); /* NULL when memory is out */
TN_API void tn_params_close(tn_params *p);     /* NULL allowed */
/* Appends t, which from then on lives as long as the list.  A name that is there already is TN_EINVAL.  Returns t; NULL
 * on error. */
TN_API tn_tensor *tn_params_add(tn_params *p, const char *name, tn_tensor *t);
TN_API int tn_params_count(const tn_params *p);
TN_API tn_tensor *tn_params_get(const tn_params *p, const char *name);  /* NULL if absent; the list's handle */
TN_API tn_tensor *const *tn_params_tensors(const tn_params *p);         /* tn_params_count() of them */
TN_API const char *const *tn_params_names(const tn_params *p);
TN_API tn_ctx *tn_params_ctx(const tn_params *p);

#ifdef __cplusplus
}
#endif
#endif
