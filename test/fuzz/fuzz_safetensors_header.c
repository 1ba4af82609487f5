/* The JSON header on any text: the length in front is made to fit, and 64 bytes of data follow. */
#include "support/fuzz.h"
#include <string.h>

enum { MOST = 1 << 16, DATA = 64 };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t file[8 + MOST + DATA];
  tn_ctx *ctx = fuzz_ctx();
  if (size > MOST) return 0;
  for (int i = 0; i < 8; i++) file[i] = (uint8_t)(size >> 8 * i);
  memcpy(file + 8, data, size);
  tn_file *f = tn_load_safetensors(ctx, fuzz_file(file, 8 + size + DATA));
  for (int i = 0; i < tn_file_count(f); i++) tn_scope(ctx) {
      tn_tensor *t = tn_file_tensor(f, tn_file_name(f, i));
      if (!t && tn_last_error(ctx)->status == TN_OK) abort();
    }
  tn_file_close(f);
  return 0;
}
