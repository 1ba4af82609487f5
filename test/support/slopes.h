/* Gradient rows in f64, and rows with a mistake in them.  What a row claims on each of its clauses is compared with
 * differences of the op; a mistake must show at some point.  proofs: the statements of prove/gradient_coq.h, of which
 * those of a wrong row must not close. */
#ifndef TEST_SUPPORT_SLOPES_H
#define TEST_SUPPORT_SLOPES_H
#include "rewrite/table.h"

typedef struct slope_witness {
  /* sources, the arriving gradient; what the row gives, what the differences to both sides are */
  double at[3], g, row, left, right;
  uint32_t clause;
} slope_witness;

typedef struct slope_verdict {
  uint32_t points; /* compared, on all clauses */
  uint32_t empty;  /* clauses that hold at no point */
  bool held;
  slope_witness witness; /* where it did not */
} slope_verdict;

/* Tries the row where its clauses hold, at all points of a fixed grid. */
slope_verdict slope_try(tn_ctx *c, const tn__rule *r);

/* Draws a box in which op, of one float or two, is smooth, as the rows' clauses have it: sources k between lo[k] and
 * hi[k], kinks and poles some way off.  False if none was found. */
bool slope_box(tn_ctx *c, int op, uint64_t *seed, double *lo, double *hi);

/* All wrong rows that the list of operators makes of r, in `a`; what[i] says what was changed. */
uint32_t slope_mutants(tn__arena *a, const tn__rule *r, tn__rule **out, const char *const **what);
#endif
