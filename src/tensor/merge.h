/* Rows sorted by merges, for tensor/sort.c. */
#ifndef TN_TENSOR_MERGE_H
#define TN_TENSOR_MERGE_H
#include "device/target.h"
#include "tensor/operands.h"

/* Rows are cut into runs of so many elements, which are sorted first; then two become one, so many times. */
typedef struct tn__merges {
  int64_t run;
  int levels;
} tn__merges;

/* What goes along: keys, and beside them which element each is, where they do not say so. */
typedef struct tn__merged {
  tn_node *key;   /* unsigned [R, m], m as tn__merged_length says */
  tn_node *order; /* [R, m]; NULL: there is none */
  bool distinct;  /* no two keys of a row are the same */
} tn__merged;

/* The quickest, of rows by n keys of so many bits.  numbered: it is asked which element stands at each place.  Of no
 * run, if that is not how this device sorts.  *work: what it takes, in multiply-adds of the whole device. */
tn__merges tn__best_merges(const tn__target *t, double rows, double n, int bits, bool numbered, double *work);
/* Elements of a row of whole runs, as many as all levels together merge */
int64_t tn__merged_length(tn__merges by);
/* Each row in order, equal ones in theirs. */
void tn__merge_rows(tn_ctx *c, tn__merges by, tn__merged *x);
/* Are so many elements of so many bits, read and written, in memory, and not in a cache of all units? */
bool tn__is_far(const tn__target *t, double count, int bits);
#endif
