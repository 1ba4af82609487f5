/* Looking for races while a kernel is interpreted: what a real device may run in any order, or at once, is run in an
 * order drawn by a seed, and every access is held against what others did to the same element.  Prefix tn__races_.
 *
 * Two accesses of which one writes are a race if nothing orders them:
 *
 *   to a buffer    (but two additions of integers, where the device does them at once)
 *                  by two turns of the AX_GLOBAL range (slices, groups); by two threads of one group in one part, for
 *                  barriers order what is LOCAL and no more; by two lanes of one vector loop
 *   to a LOCAL     by two threads of a group, and no barrier between them; by two lanes of one vector loop; by any but
 *                  the owner where each element is one thread's; but by threads that run in step, where these go
 *                  through it in order
 *
 * What stands outside of lane loops all threads of a group do alike, but that thread 0 alone stores.  Nothing else is
 * let pass: two threads that store the same value are a race. */
#ifndef TN_BACKEND_REF_RACES_H
#define TN_BACKEND_REF_RACES_H
#include "lower/encode.h"

typedef struct tn__races tn__races;

typedef struct tn__races_kernel { /* what to know of a kernel, beside its instructions */
  const char *name;
  const tn__encoded *code;
  uint32_t nbuf, nlocal;
  const uint8_t *dtype, *written; /* by slot */
  const size_t *local_bytes;
  const uint8_t *local_dtype;
  const int64_t *threads;         /* by local: as in kernel.h, what a LOCAL's second integer says */
  int group[TN__MAX_PARTS];       /* by part */
  int subgroup;
  bool global[TN__MAX_PARTS];     /* has it an AX_GLOBAL range? */
  size_t adds;                    /* sizes of integers that are added to at once, which is no race */
} tn__races_kernel;

/* For one part; everything is allocated in `a`, and throws there. */
tn__races *tn__races_open(tn_ctx *c, tn__arena *a, const tn__races_kernel *k, uint32_t part, void *const *buf,
                          const size_t *bytes, uint64_t seed);
/* A RANGE of n > 0 turns begins: the first one's number. */
uint64_t tn__races_begin(tn__races *r, const tn__ins *range, uint64_t n);
/* At the END, of the turn *at of n: true, and the next one's number, or false. */
bool tn__races_turn(tn__races *r, const tn__ins *end, uint64_t *at, uint64_t n);
void tn__races_barrier(tn__races *r);
/* An access to an element that its buffer has.  False: a race; the error is recorded. */
bool tn__races_touch(tn__races *r, const tn__ins *access, uint64_t index);
#endif
