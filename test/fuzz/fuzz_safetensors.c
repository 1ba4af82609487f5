/* The safetensors reader on any bytes. */
#include "support/fuzz.h"

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  tn_ctx *ctx = fuzz_ctx();
  tn_file *f = tn_load_safetensors(ctx, fuzz_file(data, size));
  tn_scope(ctx) for (int i = 0; i < tn_file_count(f); i++) tn_file_tensor(f, tn_file_name(f, i));
  tn_file_metadata(f, "a");
  tn_file_close(f);
  return 0;
}
