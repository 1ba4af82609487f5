/* Which items of a schedule wait for which.  Prefix tn__order_. */
#ifndef TN_RUN_ORDER_H
#define TN_RUN_ORDER_H
#include "device/device.h"

typedef struct tn__touch { /* memory that an item reads or writes: addresses lo <= a < hi */
  uint64_t lo, hi;
  bool write;
} tn__touch;

typedef struct tn__order_item {
  tn__touch *touch;
  uint32_t n;
  bool library;     /* library calls share their workspace: they come one after the other */
  uint32_t *before; /* out: the items it waits for, without those that they wait for */
  uint32_t nbefore;
  /* out: may it be there before what it waits for is done, to go on at once; and may its later parts? */
  bool early[2];
  /* out: while some that are not of the longest chain take long, 2: it is of that chain; 1: others wait for it; 0: none
   * do.  Where several are ready the greatest goes first. */
  uint8_t urgent;
} tn__order_item;

/* Items in an order in which they could run one by one.  O(n^2) in time, n^2 / 8 bytes.  One that touches no more than
 * short_bytes is done in a short time. */
void tn__order_find(tn__arena *a, tn__order_item *item, uint32_t n, double short_bytes);
/* Is every pair of items that touch the same memory, one of them to write, ordered by what they wait for?  Else two
 * that are not.  It follows the items' waits, and asks nothing of how they were found. */
bool tn__order_holds(tn__arena *a, const tn__order_item *item, uint32_t n, uint32_t *first, uint32_t *second);
#endif
