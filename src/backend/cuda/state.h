/* The inside of a CUDA device: what the files of this folder share.  Prefix tn__cuda_.
 *
 * One stream carries everything in the order in which it was asked for; so a freed block may be used again at once, and
 * only downloads and sync wait.  A kernel's failure shows up at some later call.  Some failures are sticky: the
 * driver's context is then beyond repair.  They are reported once, and the device is lost until the context is closed.
 */
#ifndef TN_BACKEND_CUDA_STATE_H
#define TN_BACKEND_CUDA_STATE_H
#include "backend/cuda/cuda_api.h"
#include "device/device.h"

enum { TN__CUDA_PIECES = 4 };

/* Pinned host memory, in pieces that are used in turn.  A piece may be filled again once its event has passed. */
typedef struct tn__cuda_ring {
  char *mem; /* NULL until the first transfer */
  tn__cu_event passed[TN__CUDA_PIECES];
  bool waiting[TN__CUDA_PIECES]; /* the event is recorded and was not waited for */
  int piece;                     /* being filled */
  size_t used;                   /* bytes of it */
} tn__cuda_ring;

typedef struct tn__cuda_products tn__cuda_products; /* product.c */
typedef struct tn__cuda_convs tn__cuda_convs;       /* conv.c */

typedef struct tn__cuda {
  const tn__cuda_driver *api;
  int number;             /* the driver's */
  char target[16];        /* "sm_90a" */
  tn__cu_context context; /* NULL until first needed */
  tn__cu_stream stream;
  tn__cu_pool pool;       /* NULL: the driver has none, blocks are allocated one by one */
  tn__cuda_ring ring;
  tn__cuda_products *products; /* NULL until the first one */
  tn__cuda_convs *convs;
  char started[64];       /* the kernel or call that was started last, for messages */
  bool no_products, no_convs; /* the library does not start */
  bool recording, lost;
  /* kernels can begin before those in front of them are done, and wait for these themselves (native_cuda.inc,
   * tn_begin); */
  bool early;
  bool item_early[2];     /* recording: the present item may, and its later parts; */
  int item_priority;      /* it goes before those of greater numbers; */
  bool urgent;            /* some item did */
  int greatest;           /* the priority of what is most urgent: below 0, which is that of others; 0: there is none */
  tn__vec(tn__cu_node) last; /* recording: the node each item ended with; NULL: it did nothing */
} tn__cuda;

/* TN_OK if `result` is 0; else records the driver's words for what was being done ("%s: %s failed: ...") and says which
 * status that is. */
tn_status tn__cuda_check(tn__device *d, int result, const char *doing);
/* Makes the device's context the thread's, opening it first if need be.  TN_EDEVICE with an error recorded if the
 * device is lost. */
tn_status tn__cuda_use(tn__device *d);
/* So, for what cannot be recorded: TN_ESTATE if something is being recorded. */
tn_status tn__cuda_enter(tn__device *d);
void tn__cuda_started(tn__device *d, const char *name);

/* transfer.c */
void tn__cuda_upload(tn__device *d, void *dst, const void *src, size_t size);
void tn__cuda_download(tn__device *d, void *dst, const void *src, size_t size);
bool tn__cuda_fetch(tn__device *d, void *dst, tn__device *from, const void *src, size_t size);
void tn__cuda_ring_close(tn__cuda *self);
/* module.c */
tn__code *tn__cuda_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n);
void tn__cuda_release(tn__device *d, tn__code *code);
tn_status tn__cuda_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                          const int64_t *var);
/* product.c */
bool tn__cuda_has_gemm(tn__device *d, int dtype);
bool tn__cuda_has_after(tn__device *d, int dtype, tn__after after);
tn_status tn__cuda_gemm(tn__device *d, const tn__product *g);
void tn__cuda_products_close(tn__device *d);
/* conv.c */
bool tn__cuda_has_conv(tn__device *d, int dtype);
tn_status tn__cuda_conv(tn__device *d, const tn__conv_call *v);
void tn__cuda_convs_close(tn__device *d);
/* graph.c */
tn_status tn__cuda_record(tn__device *d);
tn_status tn__cuda_after(tn__device *d, uint32_t item, const uint32_t *before, uint32_t n, const bool *early,
                          int urgent);
tn__recording *tn__cuda_recorded(tn__device *d);
tn_status tn__cuda_replay(tn__device *d, tn__recording *r);
void tn__cuda_forget(tn__device *d, tn__recording *r);
#endif
