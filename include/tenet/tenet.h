/* Everything: include this one. */
#ifndef TENET_TENET_H
#define TENET_TENET_H
#include "tenet/ctx.h"
#include "tenet/data.h"
#include "tenet/device.h"
#include "tenet/grad.h"
#include "tenet/io.h"
#include "tenet/nn.h"
#include "tenet/optim.h"
#include "tenet/program.h"
#include "tenet/tensor.h"
#include "tenet/tensor_types.h"
#endif
