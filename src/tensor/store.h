/* New device memory as a node.  Private to tensor/. */
#ifndef TN_TENSOR_STORE_H
#define TN_TENSOR_STORE_H
#include "tensor/front.h"

/* A STORAGE on the default device with a copy of `data`; sizes must be plain. */
tn_node *tn__store_new(tn_ctx *c, int dtype, const tn__dims *shape, const void *data);
#endif
