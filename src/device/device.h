/* The device interface.  A device is a table of functions and capabilities; a backend is one folder that fills it.
 * Prefix tn__device_, tn__buffer_. */
#ifndef TN_DEVICE_DEVICE_H
#define TN_DEVICE_DEVICE_H
#include "device/target.h"
#include "ir/ctx.h"

typedef struct tn__device tn__device;
typedef struct tn__code tn__code; /* compiled kernels of one schedule; each backend defines its own */

/* What a product may do to its result: add a row to each, then apply a function; GELU is the tanh form. */
typedef enum tn__after { TN__AFTER_NOTHING, TN__AFTER_RELU, TN__AFTER_GELU } tn__after;

/* C[i] = op(A[i]) op(B[i]) + beta C[i] for i in 0..batch-1, all row-major: op(A) is m x k, op(B) k x n, C m x n.
 * Leading dimensions (the distance between rows as stored) and strides (between products; 0 shares an operand) count
 * elements. */
typedef struct tn__product {
  int dtype; /* of A, B and C; f16 and bf16 accumulate in f32 */
  bool trans_a, trans_b;
  int64_t m, n, k, batch;
  const void *a, *b;
  void *c;
  int64_t lda, ldb, ldc, stride_a, stride_b, stride_c;
  double beta;
  const void *row; /* n elements, added to every row of C; NULL: none */
  tn__after after;
} tn__product;
/* Where in its memory the operand has what element (i, j) of this product adds up at k; where it stands itself. */
int64_t tn__product_a(const tn__product *g, int64_t batch, int64_t i, int64_t k);
int64_t tn__product_b(const tn__product *g, int64_t batch, int64_t k, int64_t j);
int64_t tn__product_c(const tn__product *g, int64_t batch, int64_t i, int64_t j);

/* Convolutions: y[n, k, p, q] = sum over c, r, s of x[n, c, p*stride + r*dilation - pad, ...] w[k, c, r, s], where x is
 * 0 outside; and the adjoints of that.  A kind is named by what it computes, and is that operand's number. */
typedef enum tn__conv_kind { CONV_DATA, CONV_FILTER, CONV_FORWARD } tn__conv_kind; /* x, w, y */
/* Images, channels, filters; height and width of the images, of the places (outputs) and of the filters. */
typedef enum tn__conv_dim {
  CONV_N,
  CONV_C,
  CONV_K,
  CONV_H,
  CONV_W,
  CONV_P,
  CONV_Q,
  CONV_R,
  CONV_S,
  CONV_DIMS
} tn__conv_dim;
extern const uint8_t tn__conv_dims[3][4]; /* the dimensions of each operand: {n, c, h, w}, {k, c, r, s}, {n, k, p, q} */

typedef struct tn__conv_call {
  int dtype; /* of all three; f16 and bf16 accumulate in f32 */
  tn__conv_kind kind;
  /* each operand is one run of memory: row-major as listed above, or with its second dimension last */
  bool channels_last;
  int64_t size[CONV_DIMS];
  int64_t stride[2], pad[2], dilation[2];
  void *operand[3]; /* x, w, y; the one that `kind` names is written, the others are only read */
  double beta;      /* times what stands in the result is added */
} tn__conv_call;
/* Where in its memory operand `o` has the element at these places, by dimension. */
int64_t tn__conv_place(const tn__conv_call *v, int o, const int64_t *at);
/* By kind: the dimensions that one element of the result is a sum over. */
extern const uint8_t tn__conv_summed[3][3];
/* at: places by dimension.  Those of the images, or for CONV_DATA those of the outputs, follow from the others and are
 * put in; false: they are outside, so that nothing is added. */
bool tn__conv_meet(const tn__conv_call *v, int64_t *at);

typedef struct tn__recording tn__recording; /* work that a device recorded, to be submitted again at once */

enum { TN__MOST_URGENT = 2 }; /* 0 is not urgent */

typedef struct tn__device_ops {
  const char *name; /* "cpu" */
  void *(*alloc)(tn__device *d, size_t size);              /* NULL when out of memory; 64-aligned */
  void (*free)(tn__device *d, void *p, size_t size);
  /* Throw what goes wrong, also what went wrong since the last wait.  When download returns all is there; upload is
   * done with src. */
  void (*upload)(tn__device *d, void *dst, const void *src, size_t size);
  void (*download)(tn__device *d, void *dst, const void *src, size_t size);
  /* Compiles the kernels of a schedule; throws TN_ECOMPILE with the compiler's words. */
  tn__code *(*compile)(tn__device *d, tn__kernel *const *kernels, uint32_t n);
  void (*release)(tn__device *d, tn__code *code);
  /* Runs kernel i, all its parts; buffers and their sizes in bytes by slot, values by var.  Allocates nothing.
   * Interpreters check every access against the sizes; generated code does not. */
  tn_status (*launch)(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                      const int64_t *var);
  void (*close)(tn__device *d); /* frees d->self; NULL if there is nothing to free */

  /* The rest may be NULL.
   * Copies from another device with the same operations, without the host; false: it cannot, and nothing was done.
   * Throws. */
  bool (*fetch)(tn__device *d, void *dst, tn__device *from, const void *src, size_t size);
  /* Free memory now, in bytes, for messages. */
  size_t (*room)(tn__device *d);
  /* Is there a library's matrix product for the dtype?  Asked when the first one comes; loads the library. */
  bool (*has_gemm)(tn__device *d, int dtype);
  /* May a product have a row and this function?  NULL: neither. */
  bool (*has_after)(tn__device *d, int dtype, tn__after after);
  /* TN_ENOTSUP with an error recorded if a size or leading dimension exceeds what the library takes; allocates
   * nothing. */
  tn_status (*gemm)(tn__device *d, const tn__product *g);
  /* So, for convolutions.  Without has_conv they are products of windows; without conv, kernels of their own. */
  bool (*has_conv)(tn__device *d, int dtype);
  tn_status (*conv)(tn__device *d, const tn__conv_call *v);
  /* Waits until all that was asked for is done, and reports what went wrong since the last time. */
  tn_status (*sync)(tn__device *d);
  /* Between record and recorded, launch, gemm and conv are not run but written down.  recorded gives NULL where that
   * failed (an error is recorded); replay submits it all again, with the pointers it was recorded with. */
  tn_status (*record)(tn__device *d);
  /* While recording: what comes now is item number `item` (they come in order, from 0), and starts when the n items
   * `before` are done. It may be brought to the device before they are, to wait there, if early[0], and its later parts
   * before its first is done, if early[1].  Where others are ready, too, it goes before those that are less urgent
   * (0 to TN__MOST_URGENT).  NULL: the order of the calls is kept. */
  tn_status (*after)(tn__device *d, uint32_t item, const uint32_t *before, uint32_t n, const bool *early, int urgent);
  tn__recording *(*recorded)(tn__device *d);
  tn_status (*replay)(tn__device *d, tn__recording *r);
  void (*forget)(tn__device *d, tn__recording *r);
} tn__device_ops;

struct tn__device {
  const tn__device_ops *ops;
  tn_ctx *ctx;
  int index;
  char name[32];   /* "cpu", "ref", "cuda:0" */
  char text[128];  /* what it is, for people */
  double probed;   /* milliseconds that it took to find it: its drivers' start, too, if it was their first */
  tn__target target; /* what its kernels are lowered for */
  size_t largest;  /* most bytes that one buffer may have; 0: any number */
  const struct tn__variant *usual; /* of kernels that were not tuned (lower.h); NULL: the cost model's own choice */
  const struct tn__dialect *dialect; /* the language of its kernels (render.h); NULL: C */
  void *self;      /* the backend's own state */
};

/* Blocks of host memory, 64-aligned, counted by ctx->mem (its limit and its fault injection cover them): what devices
 * that compute in host memory allocate with. */
void *tn__host_alloc(tn__device *d, size_t size); /* NULL when out of memory */
void tn__host_free(tn__device *d, void *p, size_t size);
/* from device to device; throws */
void tn__device_copy(tn__device *d, void *dst, tn__device *from, const void *src, size_t size);
void tn__host_copy(tn__device *d, void *dst, const void *src, size_t size); /* upload and download of such devices */

/* Do the context's heap and buffers, as counted by ctx->stats, leave `size` bytes of its limit?  For memory that
 * ctx->mem does not count. */
bool tn__within_limit(const tn_ctx *c, size_t size);

/* A counted block of device memory, or a part of one.  size may be 0.
 * Whoever made a buffer writes to it until others have it, too, and later only if it is his alone (tn__buffer_is_own):
 * so what it holds is a value, and parts of it are. */
typedef struct tn__buffer {
  void *mem;
  size_t size, cap; /* asked for; taken from the pool's size class */
  uint32_t refs;
  tn__device *device;
  struct tn__buffer *of;   /* the block that it is a part of, which it holds; NULL: its own */
  struct tn__buffer *next; /* in the pool */
} tn__buffer;

/* refs 1, contents undefined; flushes the pool once before TN_ENOMEM is thrown */
tn__buffer *tn__buffer_new(tn__device *d, size_t size);
tn__buffer *tn__buffer_keep(tn__buffer *b);
void tn__buffer_drop(tn__buffer *b);                    /* at 0 refs back to the pool */
/* Does nobody but the one who asks have this memory? */
bool tn__buffer_is_own(const tn__buffer *b);
/* Puts `size` bytes of another buffer, from `at` on, in the place of *b, which is NULL or is given up.  Nothing is
 * allocated where *b is a part that nobody else has.  Throws TN_ENOMEM. */
void tn__buffer_share(tn__buffer **b, tn__buffer *of, size_t at, size_t size);
/* What kernels read begins at a multiple of so many bytes: their widest accesses, and libraries', take it for granted.
 * Parts begin anywhere (tn__storage_input). */
enum { TN__INPUT_ALIGN = 16 };

/* The table storage id -> buffer that STORAGE nodes refer to. */
/* takes over the reference, even if it throws; returns the id */
int64_t tn__storage_new(tn_ctx *c, tn__buffer *b);
/* so, and makes the node */
tn_node *tn__storage_make(tn_ctx *c, int dtype, tn__buffer *b, tn_node *const *dims, uint32_t rank);
/* So, of no device: its value goes with those of any device, as a constant does. */
tn_node *tn__storage_loose(tn_ctx *c, int dtype, tn__buffer *b, tn_node *const *dims, uint32_t rank);
tn__buffer *tn__storage_buffer(tn_ctx *c, const tn_node *storage);
/* So, for what kernels read: from now on it begins where they take for granted that memory does.  Throws. */
tn__buffer *tn__storage_input(tn_ctx *c, const tn_node *storage);
/* its buffer, for what kernels read, or a copy on d that lives as long as the call */
tn__buffer *tn__storage_on(tn_ctx *c, const tn_node *storage, tn__device *d);
/* puts b in its place; gives the old buffer */
tn__buffer *tn__storage_swap(tn_ctx *c, const tn_node *storage, tn__buffer *b);
/* What is kept of how a value came to be: the storages it was computed from, and those from which they were, as far as
 * they still are there.  Too many: nothing. */
void tn__storage_derive(tn_ctx *c, const tn_node *storage, tn_node *const *from, uint32_t n); /* throws TN_ENOMEM */
bool tn__storage_is_from(tn_ctx *c, const tn_node *storage, const tn_node *other);
void tn__storage_reap(tn_ctx *c);                       /* frees buffers of STORAGE nodes that died */

void tn__devices_open(tn_ctx *c);  /* an empty list */
void tn__devices_close(tn_ctx *c);
/* the search for the devices that are added next begins now; it did when the list was opened */
void tn__devices_seek(tn_ctx *c);
tn__device *tn__device_add(tn_ctx *c, const tn__device_ops *ops, const char *name, const char *text, void *self);
tn__device *tn__device_get(tn_ctx *c, int index);
int tn__device_find(tn_ctx *c, const char *name); /* -1 if absent */
int tn__device_count(tn_ctx *c);
#endif
