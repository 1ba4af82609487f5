/* Kernels as source text.  One C-like printer; what differs between languages stands in a dialect table.  Prefix
 * tn__render_.
 *
 * C: all kernels that are given in one translation unit that needs no header:
 *   void NAME_0(void *const *buf, const int64_t *var, int64_t lo, int64_t hi, char *scratch)
 * one function per part, working on iterations lo..hi-1 of its AX_GLOBAL range (all of its work if it has none).
 *   int64_t NAME_0_extent(const int64_t *var)
 * is the extent of that range (1 if there is none).
 *
 * Languages with work groups: one kernel NAME_0, NAME_1 per part, of blocks of part.group threads times part.together
 * groups, in one dimension, and at most as many groups as the range has iterations (1 if there is none); the host
 * evaluates the extent.  Parts that are abreast are one kernel, named by the first of them, of just as many blocks as
 * they have together, in this order, and of the threads of the largest.  Parts behind others are one kernel with these,
 * named by the first of them, which is launched as one block, of the threads of the largest.  All buffers by slot, then
 * all variables, as 64-bit integers, are parameters of each.  Floats must be as in IEEE 754: no contraction, no
 * flushing, exact division and root.
 *   CUDA     pointers; k->shared bytes of dynamic shared memory.  Compile with --fmad=false.
 *   OpenCL   for each buffer the memory object and a byte offset into it (ulong); shared memory is the kernel's own.
 *   Metal    [[buffer(0)]] on; threadgroup memory 0: k->scratch bytes, 1: tn__render_cells(part).  No f64.
 * Besides k->scratch the groups' reductions need tn__render_cells(part) bytes of shared memory, in CUDA and OpenCL
 * declared in the text. */
#ifndef TN_RENDER_RENDER_H
#define TN_RENDER_RENDER_H
#include "base/sb.h"
#include "device/device.h"
#include "lower/kernel.h"

typedef struct tn__dialect tn__dialect; /* CUDA's stands with its backend, whose tiles it has */
extern const tn__dialect tn__dialect_c, tn__dialect_opencl, tn__dialect_metal;

/* TN_ENOTSUP where a kernel uses a dtype that the language lacks. */
void tn__render_unit(tn_ctx *c, tn__sb *out, const tn__dialect *d, tn__kernel *const *kernels, uint32_t n);
int64_t tn__render_cells(const tn__part *part);
/* Of what a group may share, so much is not for kernels to plan with: cells of groups that are not large. */
enum { TN__CELLS_RESERVED = 1024 };
/* TN_ECOMPILE where groups of the device cannot share as much as the kernel's do, in all. */
void tn__render_fits(const tn__device *d, const tn__kernel *k);
#endif
