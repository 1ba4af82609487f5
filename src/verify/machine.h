/* Kernels run in a world: an interpreter as backend/ref is one, over values that are not known, which also watches what
 * a real device would not forgive: accesses outside of a buffer, memory that nobody wrote, iterations or threads that
 * get in each other's way.  Prefix tn__machine. */
#ifndef TN_VERIFY_MACHINE_H
#define TN_VERIFY_MACHINE_H
#include "lower/encode.h"
#include "verify/value.h"

typedef struct tn__touched { /* of an element that threads, or lanes, share: by whom, and when */
  uint32_t wrote, read;
  int32_t writer, reader;
} tn__touched;

typedef struct tn__cell {
  tn__val val;
  uint32_t writer, reader; /* the iterations that touched it last */
  tn__touched touch;         /* the lanes of a vector loop; the threads of a group, in one iteration */
  uint8_t combined;          /* all that was stored in this part are of those that may go on at once, by this op */
} tn__cell;

typedef struct tn__block { /* of memory; one cell for each `grain` bytes, a value stands in its first */
  tn__cell *cell;
  size_t bytes;
  uint32_t grain;
} tn__block;

typedef struct tn__span { /* a buffer as a kernel sees it */
  tn__block *block;
  size_t offset, bytes;
} tn__span;

typedef struct tn__checked { /* a kernel to be run */
  const tn__kernel *kernel;
  tn__encoded code;
  uint8_t *seen[TN__MAX_PARTS]; /* by instruction: outcomes of guards and choices in all runs, 1: no, 2: yes */
} tn__checked;

typedef struct tn__machine {
  tn__world *w;
  uint64_t steps;       /* that are left */
  uint32_t stamp, part; /* the iteration that runs; the last one before this part */
  uint32_t epoch;       /* barriers so far */
  uint32_t loops;       /* vector loops so far */
  tn__sb *why;          /* what went wrong */
  bool too_long;        /* not that: the steps are used up */
} tn__machine;

void tn__block_open(tn__arena *a, tn__block *b, size_t bytes, uint32_t grain);
/* The value at byte `at`. */
tn__val tn__block_get(const tn__block *b, size_t at, int dtype);
void tn__block_put(tn__block *b, size_t at, int dtype, tn__val v);
/* An element of what a kernel sees; none outside of it. */
tn__val tn__span_get(const tn__span *s, int64_t element, int dtype);
/* Runs all parts; false: see why, or too_long.  value: of the kernel's variables. */
bool tn__machine_run(tn__machine *m, tn__checked *k, const tn__span *buf, const int64_t *value);
#endif
