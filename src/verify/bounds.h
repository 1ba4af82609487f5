/* Prefix tn__bounds_. */
#ifndef TN_VERIFY_BOUNDS_H
#define TN_VERIFY_BOUNDS_H
#include "ir/ctx.h"
#include "lower/kernel.h"

/* Counts the loads and stores of a kernel, and those whose index is proved to lie in its buffer.  size: elements of buffers 0..nbuf-1. */
void tn__bounds_prove(tn_ctx *c, const tn__kernel *k, tn_node *const *size, uint32_t nbuf, uint32_t *accesses, uint32_t *proved);
#endif
