/* The JSON header: bytes below the number of tokens stand for one, others for themselves; the length in front is made
 * to fit, and 64 bytes of data follow.  Whatever is accepted can be read. */
#include "support/fuzz.h"
#include <string.h>

enum { MOST = 1 << 16, DATA = 64 };

static const char *const tokens[] = {
    "{",
    "}",
    "[",
    "]",
    ",",
    ":",
    "\"a\":{\"dtype\":\"",
    "\"b\":{\"dtype\":\"",
    "U8",
    "F32",
    "BOOL",
    "F64",
    "\",\"shape\":[",
    "],\"data_offsets\":[",
    "]}",
    "0",
    "1",
    "2",
    "4",
    "8",
    "32",
    "64",
    "-1",
    "1e9",
    "9223372036854775807",
    "18446744073709551616",
    "\"__metadata__\":{",
    "\"k\":\"v\"",
    " ",
    "\"",
    "\\u0000",
    "null",
};
enum { TOKENS = sizeof tokens / sizeof *tokens };

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
  static uint8_t file[8 + MOST + DATA];
  tn_ctx *ctx = fuzz_ctx();
  size_t n = 0;
  for (size_t i = 0; i < size && n + 32 < MOST; i++) {
    if (data[i] >= TOKENS) file[8 + n++] = data[i];
    else n += (size_t)(stpcpy((char *)file + 8 + n, tokens[data[i]]) - ((char *)file + 8 + n));
  }
  for (int i = 0; i < 8; i++) file[i] = (uint8_t)(n >> 8 * i);
  memset(file + 8 + n, 0, DATA);
  tn_file *f = tn_load_safetensors(ctx, fuzz_file(file, 8 + n + DATA));
  for (int i = 0; i < tn_file_count(f); i++) tn_scope(ctx) {
      if (!tn_file_tensor(f, tn_file_name(f, i))) abort();
    }
  tn_file_close(f);
  return 0;
}
