/* Tests of values run on the device they name, or on that of $TENET_DEVICE: the whole suite on a GPU, say. */
#ifndef TEST_SUPPORT_DEVICE_H
#define TEST_SUPPORT_DEVICE_H
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>

static inline const char *device_or(const char *otherwise) {
  const char *named = getenv("TENET_DEVICE");
  return named && *named ? named : otherwise;
}
/* Has it memory of its own, and a vendor's library of functions? */
static inline bool is_gpu(const char *device) { return !strncmp(device, "cuda", 4) || !strncmp(device, "opencl", 6); }
/* Are some cases alone tried, as compiling or the interpreter takes its time there? */
static inline bool is_sampled(void) { return getenv("CASES_EVERY") != NULL; }
/* Is it this case's turn?  Where compiling takes its time, tests of many cases try every n-th, n being $CASES_EVERY,
 * from number $CASES_FIRST on. */
static inline bool is_taken(unsigned long *seen) {
  const char *every = getenv("CASES_EVERY"), *first = getenv("CASES_FIRST");
  unsigned long n = every ? strtoul(every, NULL, 10) : 1, from = first ? strtoul(first, NULL, 10) : 0;
  return n < 2 || (*seen)++ % n == from % n;
}
#endif
