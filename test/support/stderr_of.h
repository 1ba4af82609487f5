/* What fn(arg) writes to stderr: its length.  After cmocka.h. */
#ifndef TN_TEST_SUPPORT_STDERR_OF_H
#define TN_TEST_SUPPORT_STDERR_OF_H
#include <stdio.h>
#include <unistd.h>

static inline size_t stderr_of(void (*fn)(void *), void *arg, char *out, size_t size) {
  FILE *f = tmpfile();
  int saved = dup(2);
  assert_true(f && saved >= 0 && dup2(fileno(f), 2) == 2);
  fn(arg);
  fflush(stderr);
  dup2(saved, 2);
  close(saved);
  rewind(f);
  size_t n = fread(out, 1, size - 1, f);
  out[n] = 0;
  fclose(f);
  return n;
}
#endif
