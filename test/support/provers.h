/* A test that needs a prover which is not installed is skipped; where TENET_PROVERS=required (.ci/run) it fails. */
#ifndef TEST_SUPPORT_PROVERS_H
#define TEST_SUPPORT_PROVERS_H
#include <stdlib.h>
#include <string.h>

static inline void provers_are_missing(void) {
  const char *s = getenv("TENET_PROVERS");
  if (s && !strcmp(s, "required")) fail_msg("a solver is not installed: make deps-prove");
  skip();
}
#endif
