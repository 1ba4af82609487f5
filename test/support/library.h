/* A library of matrix products and convolutions, as plain loops over host memory: what is chosen for a GPU that has
 * one is run without it. */
#ifndef TEST_SUPPORT_LIBRARY_H
#define TEST_SUPPORT_LIBRARY_H
#include "device/device.h"

bool library_takes(tn__device *d, int dtype); /* has_gemm and has_conv: floats */
tn_status library_multiply(tn__device *d, const tn__product *g);
tn_status library_convolve(tn__device *d, const tn__conv_call *v);
/* These and functions after products are the device's from now on, on one device at a time.  It records no more: a
 * call of theirs would run at once. */
void library_put(tn__device *d);
#endif
