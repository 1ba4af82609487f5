/* The reference device: interprets linear kernels, one scalar at a time, with the one scalar evaluator (ir/eval.h).  It
 * defines what kernels mean, and it runs them where there is no C compiler.  Every access is checked against its
 * buffer.  Prefix tn__ref_. */
#ifndef TN_BACKEND_REF_REF_H
#define TN_BACKEND_REF_REF_H
#include "device/device.h"

/* Adds the device "ref", or one of its guises: "ref:cpu", "ref:sm_80", "ref:sm_90", "ref:opencl" interpret what is made
 * for those. */
void tn__ref_open(tn_ctx *c, const char *name);

/* What a device in host memory that interprets is made of (device.h); d->self is not touched. */
tn__code *tn__ref_compile(tn__device *d, tn__kernel *const *kernels, uint32_t n);
void tn__ref_release(tn__device *d, tn__code *code);
tn_status tn__ref_launch(tn__device *d, tn__code *code, uint32_t i, void *const *buf, const size_t *bytes,
                         const int64_t *var);
#endif
