/* cuDNN's convolutions, slow: f32 with exact math, dense operands of one format. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

enum { FLOAT = 0, NCHW = 0, NHWC = 1, FMA = 3, BAD_PARAM = 2000, NOT_SUPPORTED = 3000 };

typedef struct operand { /* of a tensor or of filters */
  int format, type, size[4];
} operand;
typedef struct conv {
  int pad[2], stride[2], dilation[2], mode, compute, math;
} conv;
typedef struct choice {
  int algo, status;
  float time;
  size_t memory;
  int deterministic, math, reserved[3];
} choice;

static int live; /* objects */

static int make(void **out, size_t size) {
  *out = calloc(1, size);
  live += *out != NULL;
  return *out == NULL;
}
static int drop(void *p) {
  live -= p != NULL;
  free(p);
  return 0;
}

int fake_cudnn_live(void) { return live; }
const char *cudnnGetErrorString(int status) {
  return status == NOT_SUPPORTED ? "CUDNN_STATUS_NOT_SUPPORTED" : "CUDNN_STATUS_BAD_PARAM";
}
int cudnnCreate(void **h) { return make(h, 1); }
int cudnnDestroy(void *h) { return drop(h); }
int cudnnSetStream(void *h, void *stream) { return h && stream ? 0 : BAD_PARAM; }
int cudnnCreateTensorDescriptor(void **d) { return make(d, sizeof(operand)); }
int cudnnDestroyTensorDescriptor(void *d) { return drop(d); }
int cudnnSetTensor4dDescriptor(operand *d, int format, int type, int n, int c, int h, int w) {
  *d = (operand){format, type, {n, c, h, w}};
  return n < 1 || c < 1 || h < 1 || w < 1 ? BAD_PARAM : 0;
}
int cudnnCreateFilterDescriptor(void **d) { return make(d, sizeof(operand)); }
int cudnnDestroyFilterDescriptor(void *d) { return drop(d); }
int cudnnSetFilter4dDescriptor(operand *d, int type, int format, int k, int c, int r, int s) {
  return cudnnSetTensor4dDescriptor(d, format, type, k, c, r, s);
}
int cudnnCreateConvolutionDescriptor(void **d) { return make(d, sizeof(conv)); }
int cudnnDestroyConvolutionDescriptor(void *d) { return drop(d); }
int cudnnSetConvolution2dDescriptor(conv *d, int ph, int pw, int u, int v, int dh, int dw, int mode, int compute) {
  *d = (conv){{ph, pw}, {u, v}, {dh, dw}, mode, compute, 0};
  return ph < 0 || pw < 0 || u < 1 || v < 1 || dh < 1 || dw < 1 ? BAD_PARAM : 0;
}
int cudnnSetConvolutionMathType(conv *d, int math) {
  d->math = math;
  return 0;
}

static int check(const operand *x, const operand *w, const conv *d, const operand *y) {
  if (x->type != FLOAT || w->type != FLOAT || y->type != FLOAT || d->compute != FLOAT || d->mode != 1 || d->math != FMA)
    return NOT_SUPPORTED;
  if (x->format != w->format || x->format != y->format) return NOT_SUPPORTED;
  if (x->size[0] != y->size[0] || x->size[1] != w->size[1] || w->size[0] != y->size[1]) return BAD_PARAM;
  for (int i = 0; i < 2; i++)
    if (y->size[2 + i] !=
        (x->size[2 + i] + 2 * d->pad[i] - (w->size[2 + i] - 1) * d->dilation[i] - 1) / d->stride[i] + 1)
      return BAD_PARAM;
  return 0;
}

/* What it likes best is not deterministic, then tensor cores, then too large: only the last one will do. */
static int propose(int status, int algo, int n, int *found, choice *out) {
  static const choice all[] = {{1, 0, 0, 0, 0, FMA, {0}},
                               {1, 0, 0, 0, 1, 1, {0}},
                               {1, 0, 0, (size_t)1 << 40, 1, FMA, {0}},
                               {0, 0, 0, 1000, 1, FMA, {0}}};
  *found = 0;
  for (; !status && *found < 4 && *found < n; ++*found) out[*found] = all[*found];
  if (*found == 4) out[3].algo = algo;
  return status;
}

int cudnnGetConvolutionForwardAlgorithm_v7(void *h, operand *x, operand *w, conv *d, operand *y, int n, int *found,
                                           choice *out) {
  return h ? propose(check(x, w, d, y), 0, n, found, out) : BAD_PARAM;
}
int cudnnGetConvolutionBackwardDataAlgorithm_v7(void *h, operand *w, operand *y, conv *d, operand *x, int n, int *found,
                                                choice *out) {
  return h ? propose(check(x, w, d, y), 1, n, found, out) : BAD_PARAM;
}
int cudnnGetConvolutionBackwardFilterAlgorithm_v7(void *h, operand *x, operand *y, conv *d, operand *w, int n,
                                                  int *found, choice *out) {
  return h ? propose(check(x, w, d, y), 1, n, found, out) : BAD_PARAM;
}

static size_t place(const operand *o, int a, int b, int c, int d) {
  const int *s = o->size;
  return o->format == NHWC
             ? (((size_t)a * (size_t)s[2] + (size_t)c) * (size_t)s[3] + (size_t)d) * (size_t)s[1] + (size_t)b
             : (((size_t)a * (size_t)s[1] + (size_t)b) * (size_t)s[2] + (size_t)c) * (size_t)s[3] + (size_t)d;
}

/* p[0..2]: x, w, y; the one of number `out` becomes alpha * the sum + beta * itself. */
static int run(void *h, const operand *x, const operand *w, const operand *y, const conv *d, float *const *p, int out,
               float alpha, const void *space, size_t size, float beta) {
  const operand *o = out == 0 ? x : out == 1 ? w : y;
  int status = !h || !space || size != 1000 ? BAD_PARAM : check(x, w, d, y);
  if (status) return status;
  for (size_t i = 0, n = (size_t)o->size[0] * (size_t)o->size[1] * (size_t)o->size[2] * (size_t)o->size[3]; i < n; i++)
    p[out][i] = beta == 0 ? 0 : beta * p[out][i];
  for (int n = 0; n < y->size[0]; n++)
    for (int k = 0; k < y->size[1]; k++)
      for (int i = 0; i < y->size[2]; i++)
        for (int j = 0; j < y->size[3]; j++)
          for (int c = 0; c < w->size[1]; c++)
            for (int r = 0; r < w->size[2]; r++)
              for (int s = 0; s < w->size[3]; s++) {
                int a = i * d->stride[0] + r * d->dilation[0] - d->pad[0],
                    b = j * d->stride[1] + s * d->dilation[1] - d->pad[1];
                if (a < 0 || a >= x->size[2] || b < 0 || b >= x->size[3]) continue;
                float *at[] = {p[0] + place(x, n, c, a, b), p[1] + place(w, k, c, r, s), p[2] + place(y, n, k, i, j)};
                *at[out] += alpha * *at[(out + 1) % 3] * *at[(out + 2) % 3];
              }
  return 0;
}

int cudnnConvolutionForward(void *h, const float *alpha, operand *x, float *px, operand *w, float *pw, conv *d,
                            int algo, void *space, size_t size, const float *beta, operand *y, float *py) {
  return algo ? NOT_SUPPORTED : run(h, x, w, y, d, (float *[]){px, pw, py}, 2, *alpha, space, size, *beta);
}
int cudnnConvolutionBackwardData(void *h, const float *alpha, operand *w, float *pw, operand *y, float *py, conv *d,
                                 int algo, void *space, size_t size, const float *beta, operand *x, float *px) {
  return algo != 1 ? NOT_SUPPORTED : run(h, x, w, y, d, (float *[]){px, pw, py}, 0, *alpha, space, size, *beta);
}
int cudnnConvolutionBackwardFilter(void *h, const float *alpha, operand *x, float *px, operand *y, float *py, conv *d,
                                   int algo, void *space, size_t size, const float *beta, operand *w, float *pw) {
  return algo != 1 ? NOT_SUPPORTED : run(h, x, w, y, d, (float *[]){px, pw, py}, 1, *alpha, space, size, *beta);
}
