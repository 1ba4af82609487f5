/* Is a row of a rule table true?  Its pattern is made into nodes with random leaves and constants, the row alone
 * rewrites them, and both sides are evaluated.  Generic over rows: a new one is covered as it stands. */
#ifndef TEST_SUPPORT_ROWS_H
#define TEST_SUPPORT_ROWS_H
#include "rewrite/table.h"

typedef struct row_verdict {
  bool sound; /* it is a row, and what it makes has the type of what it matched; else the context has the error */
  bool fired; /* on some instance */
  bool held;  /* on all of them */
} row_verdict;

/* index: its variables are of dtype index.  quiet: does not print where it is false.  The draws are the same every
 * time. */
row_verdict row_try(tn_ctx *c, const char *text, size_t len, bool index, bool quiet);
/* What its left side matches, over PARAMs, or over a symbolic size B of 0 to 13, as i64; NULL if there is no such
 * graph.  Its conditions need not hold. */
tn_node *row_instance(tn_ctx *c, const tn__rule *r, bool index, uint64_t seed);
#endif
