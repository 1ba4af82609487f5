/* Did a library do what it was asked for?  Under TENET_VERIFY a few elements of each result are worked out here, from
 * what stands in the device's memory.  Prefix tn__recompute_. */
#ifndef TN_RUN_LIBRARY_CHECK_H
#define TN_RUN_LIBRARY_CHECK_H
#include "device/device.h"

/* After the call, with nothing recorded.  false: *element, of the result's memory, is not what it should be.  What is
 * no number, or too long to be read for this, is not held against anything.  May throw, as downloads do. */
bool tn__recompute_product(tn__device *d, tn__arena *a, const tn__product *g, int64_t *element);
bool tn__recompute_conv(tn__device *d, tn__arena *a, const tn__conv_call *v, int64_t *element);
#endif
