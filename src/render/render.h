/* Kernels as source text.  One C-like printer; what differs between languages stands in a dialect table.  Prefix tn__render_.
 *
 * C: all kernels of a schedule in one translation unit that needs no header:
 *   void NAME_0(void *const *buf, const int64_t *var, int64_t lo, int64_t hi, char *scratch)
 * one function per part, working on iterations lo..hi-1 of its AX_GLOBAL range (all of its work if it has none). */
#ifndef TN_RENDER_RENDER_H
#define TN_RENDER_RENDER_H
#include "base/sb.h"
#include "lower/kernel.h"

typedef struct tn__dialect tn__dialect;
extern const tn__dialect tn__dialect_c;

void tn__render_unit(tn_ctx *c, tn__sb *out, const tn__dialect *d, tn__kernel *const *kernels, uint32_t n);
#endif
