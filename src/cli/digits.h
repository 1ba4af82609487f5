/* Digits drawn by Tenet itself, for machines without the real ones.  Prefix tn__digits_. */
#ifndef TN_CLI_DIGITS_H
#define TN_CLI_DIGITS_H
#include "tenet/data.h"

/* Images [n, 28, 28] and labels [n], u8, equal for equal seeds; each digit in strokes of a random pen, turned, sheared,
 * scaled, shifted and with noise.  False when memory is out.  End both with tn_array_free. */
bool tn__digits_draw(tn_ctx *ctx, int64_t n, uint64_t seed, tn_array *images, tn_array *labels);
#endif
