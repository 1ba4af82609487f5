/* The IDX reader on any bytes, as they are (libFuzzer finds the gzip magic by itself): what it accepts, it writes back
 * equal. */
#include "support/fuzz.h"
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_ctx *ctx = fuzz_ctx();
  tn_array a, b;
  if (tn_idx_read(ctx, fuzz_file(data, size), &a) != TN_OK) return 0;
  char path[64];
  snprintf(path, sizeof path, "/tmp/fuzz_idx.%d", (int)getpid());
  if (tn_idx_write(ctx, path, &a) != TN_OK || tn_idx_read(ctx, path, &b) != TN_OK) abort();
  if (a.bytes != b.bytes || a.rank != b.rank || a.dtype != b.dtype || memcmp(a.data, b.data, a.bytes)) abort();
  unlink(path);
  tn_array_free(ctx, &a);
  tn_array_free(ctx, &b);
  return 0;
}
