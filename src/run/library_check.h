/* Did a library do what it was asked for?  Under TENET_VERIFY a few elements of each result are worked out here, from
 * what stands in the device's memory, of which no more is read than they are made of.  Prefix tn__recompute_. */
#ifndef TN_RUN_LIBRARY_CHECK_H
#define TN_RUN_LIBRARY_CHECK_H
#include "device/device.h"

/* Untold: none of the elements can be told from another value. */
typedef enum tn__recomputed { TN__RECOMPUTED_RIGHT, TN__RECOMPUTED_UNTOLD, TN__RECOMPUTED_OTHER } tn__recomputed;

/* After the call, with nothing recorded.  Of another one *element, of the result's memory, is not what it should be;
 * of an untold one *why says the reason.  Takes memory of `a`, to be wound back.  May throw, as downloads do. */
tn__recomputed tn__recompute_product(tn__device *d, tn__arena *a, const tn__product *g, int64_t *element,
                                     const char **why);
tn__recomputed tn__recompute_conv(tn__device *d, tn__arena *a, const tn__conv_call *v, int64_t *element,
                                  const char **why);
#endif
