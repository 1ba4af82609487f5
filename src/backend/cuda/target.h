/* What lowering and printing know of NVIDIA GPUs: for CUDA devices, and for the interpreter in their guise.  Prefix
 * tn__cuda_. */
#ifndef TN_BACKEND_CUDA_TARGET_H
#define TN_BACKEND_CUDA_TARGET_H
#include "device/target.h"
#include "render/render.h"

extern const tn__dialect tn__dialect_cuda;

/* Of a compute capability's major number; units: multiprocessors; shared: bytes that a group may have */
tn__target tn__cuda_target(int generation, int units, size_t shared);
#endif
