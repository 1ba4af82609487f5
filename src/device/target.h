/* What kernels are lowered for.  Prefix tn__target_.
 *
 * A backend fills one in for each of its devices.  Lowering reads nothing else of a device, and the schedule nothing
 * else but which libraries it has: their thresholds are these facts, or follow from them as is said there. */
#ifndef TN_DEVICE_TARGET_H
#define TN_DEVICE_TARGET_H
#include "lower/kernel.h"

/* Rows that a group of a GPU keeps take at most so much: a unit with 228 KiB, the largest of today, runs two such. */
enum { TN__KEPT_BYTES = 96 << 10 };

typedef struct tn__target {
  bool interprets;  /* no code generation: kernels stay simple (no lanes, no splitting) */
  int lane_bytes;   /* of the accumulators of a vector loop, where lanes are those of vectors */

  int group;        /* threads of a work group, at most; 0: no groups, and none of the rest, which is of groups */
  int subgroup;     /* threads that run in step: groups are made of whole ones */
  int units;        /* processors that run groups side by side */
  int unit_threads; /* threads that keep a unit busy */
  int access;       /* bytes that a thread accesses at once, at most */
  int sector;       /* bytes that memory gives at once */
  bool copies;      /* what threads ask for is copied to where they share memory while they go on */
  size_t shared;    /* bytes that the threads of a group may share */
  size_t kept;      /* ... and of those, which rows that are kept may take: the rest is better used as cache */
  float balance;    /* f32 multiply-adds that are done while memory gives one f32 */

  const tn__tile_form *tiles; /* what products by tiles are made of (lower/tile.c) */
  uint32_t ntiles;            /* 0: there are none */
} tn__target;

/* From so many cells of the result, and steps, on tiles may reach over its edges, but cover at most TN__TILE_WASTE
 * times the cells of plain products: gathering is dearer without tiles, too. */
enum { TN__TILE_CELLS = 2048, TN__TILE_STEPS = 32, TN__TILE_WASTE = 4 };

/* Is there a form for products of the dtype? */
bool tn__target_multiplies(const tn__target *t, int dtype);
/* Do tiles do a plain product of m x n, over k steps?  Forms that need whole tiles divide it, whichever of rows and
 * columns comes to lie along memory; or, in f32, which needs no runs in memory, others reach over the edge.  Dear forms
 * do not count: what is left to them a library does as well. */
bool tn__target_fits(const tn__target *t, int dtype, int64_t m, int64_t n, int64_t k);
#endif
