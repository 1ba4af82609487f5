/* A library of convolutions, as plain loops over host memory, for devices that have none. */
#ifndef TEST_SUPPORT_CONVOLVE_H
#define TEST_SUPPORT_CONVOLVE_H
#include "device/device.h"

bool convolve_floats(tn__device *d, int dtype); /* has_conv */
void convolve(const tn__conv_call *v);
#endif
