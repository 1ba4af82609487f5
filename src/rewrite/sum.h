/* Index expressions as sums k1*t1 + k2*t2 + ... + k0, and what can be proved of them.  Prefix tn__sum_. */
#ifndef TN_REWRITE_SUM_H
#define TN_REWRITE_SUM_H
#include "rewrite/table.h"

typedef struct tn__sum {
  uint32_t n;
  int64_t k0;
  struct {
    int64_t k;
    tn_node *t;
  } term[TN__MAX_TERMS];
} tn__sum;

/* Reads the normal form that the constructors keep (ir/index.h); false: not an index scalar, or too long. */
bool tn__sum_read(tn_node *n, tn__sum *s);
tn_node *tn__sum_write(tn_ctx *c, const tn__sum *s);
/* n = q*d + r as README.md says of split (all: of split_all); false if q would be 0. */
bool tn__sum_split(tn_ctx *c, tn_node *n, tn_node *d, bool all, tn_node **q, tn_node **r);
/* The same for a constant d > 0, the terms being read already. */
bool tn__sum_split_const(tn_ctx *c, const tn__sum *s, int64_t d, bool all, tn_node **q, tn_node **r);
/* True if a + slack <= b follows for all values of the variables and ranges in them. */
bool tn__sum_below(tn_ctx *c, tn_node *a, tn_node *b, int64_t slack);
#endif
