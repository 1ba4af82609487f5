/* Long rows of a reduction as blocks that groups keep: what is found of all blocks in one reading, and joined.
 *
 * Of the axes that are reduced those inside of `axis` are whole in a block, and of it `length` at a time; `rest` is
 * left over behind the last whole block. */
#ifndef TN_SCHEDULE_BLOCKS_H
#define TN_SCHEDULE_BLOCKS_H
#include "schedule/fuse.h"

typedef struct tn__row_blocks {
  const tn_node *reduction;
  uint32_t axis;
  int64_t length, count, rest;
} tn__row_blocks;

/* Are the rows of reduction n too long for a group, and does memory take longer for all of them than launches, of
 * blocks enough for all units?  A row's elements lie along memory. */
bool tn__rows_are_long(tn_ctx *c, const tn__target *t, const tn_node *n);
/* Is x, or what it is made of alone (a mean, less its sign), spread along all the axes that n reduces? */
bool tn__is_spread_along(const tn_node *x, const tn_node *n);
/* The reduction of x by op over the axes that n reduces, if `from` is made of it without other reductions; NULL */
tn_node *tn__reduction_below(tn_ctx *c, tn__op op, tn_node *from, const tn_node *x, const tn_node *n);
/* Does anything go through the rows once more, with what comes of n?  off: what n's elements are made of, which counts
 * if others want it, too.  Then n is stored, or a group that joins blocks would go on with their row, alone. */
bool tn__row_goes_on(tn_ctx *c, const tn__nodes *all, const tn_node *n, const tn_node *off);

tn__row_blocks tn__row_blocks_of(const tn_node *reduction);
/* x in blocks: one more axis behind that which is cut; and what is left over of it, NULL: nothing */
tn_node *tn__in_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn_node *x);
tn_node *tn__behind_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn_node *x);
double tn__block_elements(const tn__row_blocks *b, const tn_node *in_blocks);
/* Of each block by op, of x in blocks; and of all blocks */
tn_node *tn__of_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn__op op, tn_node *x);
tn_node *tn__join_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn__op op, tn_node *each);
/* What each block has, at each of its elements; and what is the same for all of a row, at each of its blocks */
tn_node *tn__at_block_elements(tn_ctx *c, const tn__row_blocks *b, tn_node *each, const tn_node *elements);
tn_node *tn__at_row_blocks(tn_ctx *c, const tn__row_blocks *b, tn_node *row, const tn_node *each);
/* Do reductions of the node read a row twice that one reading would do for?  Then which two nodes, and what replaces
 * them.  The graph without any such, on devices of groups, but in mode strict. */
typedef bool tn__by_row_blocks(tn_ctx *c, const tn__target *t, const tn__nodes *all, tn_node *n, tn_node *old[2],
                               tn_node *by[2]);
tn_node *tn__each_by_row_blocks(tn_ctx *c, tn_node *sink, const tn__target *t, tn__by_row_blocks *found);
#endif
