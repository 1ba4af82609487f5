/* The devices "opencl:0", "opencl:1", ...: whatever installable drivers (ICDs) the system has, through the loader,
 * numbered platform by platform.  Nothing of OpenCL is needed to build.  Prefix tn__opencl_.
 *
 * Only the drivers can say which devices there are, and loading them is slow (a driver for processors brings a whole
 * compiler along).  So tn__opencl_open is called when one of these devices, or the list of all devices, is asked for,
 * and never just in case. */
#ifndef TN_BACKEND_OPENCL_OPENCL_H
#define TN_BACKEND_OPENCL_OPENCL_H
#include "device/device.h"

/* Adds all devices, number `first` before the others; how many.  Loads the drivers; contexts are made when something is
 * first asked of them. */
int tn__opencl_open(tn_ctx *c, int first);
/* Number of the first device that is a GPU; -1 if there is none.  Loads the drivers. */
int tn__opencl_gpu(void);
/* Why there is no OpenCL device, in words that follow "opencl: "; "" if there is one.  Loads the drivers. */
const char *tn__opencl_missing(void);
#endif
