/* The inside of an OpenCL device: what the files of this folder share.  Prefix tn__opencl_.
 *
 * One queue in order carries everything; so a freed block may be used again at once, and only downloads, long uploads
 * and sync wait.
 *
 * OpenCL's memory objects have no addresses, but those who use a device's memory point into it (a plan's temporaries
 * lie in one buffer). So each block is given a range of a number space of our own; an address found in it is a memory
 * object and an offset, which is what kernels and copies take. */
#ifndef TN_BACKEND_OPENCL_STATE_H
#define TN_BACKEND_OPENCL_STATE_H
#include "backend/opencl/opencl_api.h"
#include "device/device.h"

typedef struct tn__opencl_block {
  uint64_t base;
  size_t size;
  tn__cl_mem mem;
} tn__opencl_block;

/* Copies of what is being uploaded, used in turns: who uploads may go on at once, and does not wait for the kernels
 * that come before. */
enum { TN__OPENCL_PIECES = 8, TN__OPENCL_PIECE = 1 << 18 };
typedef struct tn__opencl_ring {
  char *mem; /* all pieces; NULL until first needed */
  tn__cl_event written[TN__OPENCL_PIECES]; /* NULL: nothing is under way */
  int next;
} tn__opencl_ring;

typedef struct tn__opencl {
  const tn__cl *api;
  tn__cl_platform platform;
  tn__cl_device device;
  tn__cl_context context; /* NULL until first needed */
  tn__cl_queue queue;
  const char *options;    /* for the compiler */
  tn__opencl_block *block; /* by base */
  uint32_t nblocks, cap;
  uint64_t next;          /* base of the next block: never used twice */
  tn__opencl_ring ring;
  uint32_t waiting;       /* kernels since the queue was told to begin */
  char started[64];       /* the kernel that was started last, for messages */
  bool f64, lost;
  /* the driver keeps what it compiles, and compiles again to give us a binary: then we keep none */
  bool caches;
} tn__opencl;

/* Threads of the device that run in step, as it says itself: a power of two, at most a group.  A processor has none,
 * and says how many it computes at once: there, as where nothing is said, as many as most GPUs'. */
int tn__opencl_subgroup(const tn__cl *api, tn__cl_device device, int group);
/* TN_OK if `result` is 0; else records which error it is and says which status that is. */
tn_status tn__opencl_check(tn__device *d, int32_t result, const char *doing);
/* Opens the device's context if need be.  TN_EDEVICE with an error recorded if the device is lost. */
tn_status tn__opencl_use(tn__device *d);

/* memory.c */
void *tn__opencl_alloc(tn__device *d, size_t size);
void tn__opencl_free(tn__device *d, void *p, size_t size);
void tn__opencl_upload(tn__device *d, void *dst, const void *src, size_t size);
void tn__opencl_ring_close(tn__device *d);
void tn__opencl_download(tn__device *d, void *dst, const void *src, size_t size);
/* The memory object that an address lies in, and where; TN_ERUN with an error recorded if it is in none. */
tn_status tn__opencl_find(tn__device *d, const void *p, tn__cl_mem *mem, uint64_t *at);
/* program.c */
tn__code *tn__opencl_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n);
void tn__opencl_release(tn__device *d, tn__code *code);
tn_status tn__opencl_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                            const int64_t *var);
#endif
