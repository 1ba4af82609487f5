/* Values on a command line.  Prefix tn__value_. */
#ifndef TN_CLI_VALUES_H
#define TN_CLI_VALUES_H
#include "tenet/tensor.h"

/* "f32[2,3]=1,2,3,4,5,6", or one number for all of them; or the path of a NumPy file (.npy).  NULL, with the reason on
 * stderr or in the context: neither. */
tn_tensor *tn__value_read(tn_ctx *ctx, const char *text);
#endif
