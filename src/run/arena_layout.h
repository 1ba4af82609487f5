/* Offsets of temporaries in one block of memory.  Prefix tn__place_. */
#ifndef TN_RUN_ARENA_LAYOUT_H
#define TN_RUN_ARENA_LAYOUT_H
#include "base/mem.h"

typedef struct tn__life {
  uint32_t first, last; /* items in which it lives */
  size_t bytes, offset;
} tn__life;

enum { TN__PLACE_ALIGN = 64 };

/* Sets the offsets, so that no two that live at the same time overlap: the largest first, each at the lowest place that
 * is free while it lives. Gives the size of the block. */
size_t tn__place_lives(tn__arena *a, tn__life *life, uint32_t n);
#endif
