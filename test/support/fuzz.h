/* Fuzzing readers of files: the input as a file, and a context that may not grow far beyond it. */
#ifndef TN_TEST_SUPPORT_FUZZ_H
#define TN_TEST_SUPPORT_FUZZ_H
#include "tenet/tenet.h"
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <unistd.h>

/* Path of a file in memory with this content; valid until the next call. */
static inline const char *fuzz_file(const uint8_t *data, size_t n) {
  static char path[32];
  static int fd = -1;
  if (fd >= 0) close(fd);
  fd = memfd_create("fuzz", MFD_CLOEXEC);
  if (fd < 0 || write(fd, data, n) != (ssize_t)n) abort();
  snprintf(path, sizeof path, "/proc/self/fd/%d", fd);
  return path;
}

static inline tn_ctx *fuzz_ctx(void) {
  static tn_ctx *ctx;
  if (!ctx) ctx = tn_ctx_open(&(tn_options){.device = "ref", .cache_dir = "", .quiet = 1, .threads = 1});
  if (!ctx) abort();
  tn_clear_error(ctx);
  return ctx;
}
#endif
