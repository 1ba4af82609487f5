/* Tests of values run on the device they name, or on that of $TENET_DEVICE: the whole suite on a GPU, say. */
#ifndef TEST_SUPPORT_DEVICE_H
#define TEST_SUPPORT_DEVICE_H
#include <stdlib.h>

static inline const char *device_or(const char *otherwise) {
  const char *named = getenv("TENET_DEVICE");
  return named && *named ? named : otherwise;
}
#endif
