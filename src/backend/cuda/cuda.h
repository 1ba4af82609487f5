/* The devices "cuda:0", "cuda:1", ...: NVIDIA GPUs through the driver, kernels through NVRTC, products through
 * cuBLASLt.  Nothing of CUDA is needed to build, and everything is loaded when first needed.  Prefix tn__cuda_. */
#ifndef TN_BACKEND_CUDA_CUDA_H
#define TN_BACKEND_CUDA_CUDA_H
#include "device/device.h"

/* Adds a device for each GPU, number `first` before the others; how many.  Touches no GPU: contexts are made when
 * something is first asked of them. */
int tn__cuda_open(tn_ctx *c, int first);
/* Is there a GPU, and the compiler for its kernels? */
bool tn__cuda_usable(void);
/* Why there is no CUDA device, in words that follow "cuda: "; "" if there is one. */
const char *tn__cuda_missing(void);
#endif
