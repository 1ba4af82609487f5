/* Running sums as a user would write them: which terms of its row a turn takes. */
#ifndef TEST_SUPPORT_TERMS_H
#define TEST_SUPPORT_TERMS_H
#include "tenet/tenet.h"

enum { UPTO, BEFORE, FROM, BEHIND };

/* 0 .. n-1 along one axis of so many */
static inline tn_tensor *numbers(tn_tensor *like, tn_dim n, int rank, int axis) {
  tn_dim shape[4] = {1, 1, 1, 1};
  shape[axis] = n;
  return tn_reshape(tn_arange(tn_ctx_of(like), TN_I32, 0, (double)n, 1), shape, rank);
}

static inline tn_tensor *chosen(tn_tensor *own, tn_tensor *term, int terms) {
  switch (terms) {
  case UPTO: return tn_le(term, own);
  case BEFORE: return tn_lt(term, own);
  case FROM: return tn_le(own, term);
  default: return tn_lt(own, term);
  }
}
#endif
