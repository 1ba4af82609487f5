/* The reference device: interprets linear kernels, one scalar at a time, with the one scalar evaluator (ir/eval.h).  It defines
 * what kernels mean, and it runs them where there is no C compiler.  Every access is checked against its buffer.  Prefix tn__ref_. */
#ifndef TN_BACKEND_REF_REF_H
#define TN_BACKEND_REF_REF_H
#include "device/device.h"

extern const tn__device_ops tn__ref_ops; /* its functions need no d->self */
void tn__ref_open(tn_ctx *c);            /* adds the device "ref" */
#endif
