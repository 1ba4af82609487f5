/* Everything: include this one. */
#ifndef TENET_TENET_H
#define TENET_TENET_H
#include "tenet/ctx.h"
#include "tenet/tensor.h"
#include "tenet/tensor_types.h"
#endif
