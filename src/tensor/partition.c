/* What is chosen of a line, brought to its front, block by block as a group of threads has it in shared memory.
 *
 * Each chosen element of a block counts those before it, which is its place there; in order of these the numbers of the
 * chosen ones lie side by side, and so they go to memory, in whole sectors wherever the block's begin.  Behind all that
 * are chosen comes what a block has left.  So each place is stored to once, and none has to be filled before. */
#include "tensor/partition.h"
#include "device/device.h"
#include "tensor/scan.h"

enum {
  LARGEST_BLOCK = 4096,
  LEAST_BLOCK = 128,
  GROUPS_OF_UNIT = 2,  /* at least so many for each, or shorter blocks */
  OTHER = 1 << 15,     /* a multiple of twice as many as a block has */
  FEW = 1 << 14,       /* elements: as few go through the kernels of one launch */
  FEW_BLOCKS = 1 << 11 /* whose counts one group fetches, each a sector of its own, sooner than another launch does */
};

/* bool[blocks, size] -> u16: which of the chosen ones of its block each is; of another one how many of them come before
 * it, less one, and OTHER, which is no place of a block.  Stored: what it is made of may have to be computed, and is
 * read once then; and the last one of a block tells how many it has. */
static tn_node *places_in_block(tn_ctx *c, tn_node *chosen) {
  tn_node *upto = tn__within_blocks(c, OP_SUM, tn__cast(c, chosen, TN_I32), 1, false);
  tn_node *place = tn__op2_num(c, OP_ADD, upto, -1);
  place = tn__where(c, chosen, place, tn__op2_num(c, OP_ADD, upto, OTHER - 1));
  return tn__op1(c, OP_CONTIG, tn__cast(c, place, TN_U16));
}

/* -> i32[blocks]: how many each has */
static tn_node *counts_of_blocks(tn_ctx *c, tn_node *place) {
  const int64_t size = place->dim[1]->hi;
  tn_node *blocks = place->dim[0], *one = tn__int(c, 1), *begin[] = {tn__int(c, 0), tn__int(c, size - 1)};
  tn_node *last = tn__drop_axis(c, tn__shrink(c, place, begin, (tn_node *[]){blocks, one}, NULL), 1);
  last = tn__op2_bits(c, OP_AND, tn__op2_num(c, OP_ADD, tn__cast(c, last, TN_I32), 1), 2 * (uint64_t)size - 1);
  return blocks->hi > FEW_BLOCKS ? tn__op1(c, OP_CONTIG, last) : last; /* a choice: either is right */
}

/* -> u32[blocks, size]: which of its block goes to each place; 0 where none does */
static tn_node *who_goes_there(tn_ctx *c, tn_node *place) {
  int64_t last = 2;
  tn__dims pairs = {.rank = 3, .d = {place->dim[0], place->dim[1], place->dim[1]}};
  tn_node *to = tn__cast(c, tn__expand(c, tn__add_axis(c, place, 1), pairs.d), TN_I32);
  tn_node *here = tn__op2(c, OP_EQ, to, tn__cast(c, tn__place(c, &pairs, 1), TN_I32));
  tn_node *number = tn__cast(c, tn__place(c, &pairs, 2), TN_U32);
  return tn__reduce(c, OP_SUM, tn__where(c, here, number, tn__literal_like(c, number, 0)), &last, 1);
}

/* i32[blocks] -> [2 * blocks + 1]: where the chosen ones of each block begin, then where its others do, and the end.
 * The latter are what is left of the blocks before, and so are not summed up.  *all_chosen: their number */
static tn_node *starts_of(tn_ctx *c, tn_node *count, int64_t size, int counter, tn_node **all_chosen) {
  tn_node *none = tn__int(c, 0), *one = tn__int(c, 1), *blocks = count->dim[0], *end[] = {none, one}, *begin[] = {none};
  tn_node *chosen = tn__counts_along(c, tn__pad(c, tn__cast(c, count, counter), end), 0, true); /* [blocks + 1] */
  tn__dims shape = tn__dims_of(chosen);
  tn_node *all = tn__shrink(c, chosen, (tn_node *[]){blocks}, &one, NULL);
  *all_chosen = tn__drop_axis(c, all, 0);
  tn_node *before = tn__op2_num(c, OP_MUL, tn__cast(c, tn__place(c, &shape, 0), counter), (double)size);
  tn_node *other = tn__add(c, tn__expand(c, all, shape.d), tn__sub(c, before, chosen));
  tn_node *both[] = {tn__shrink(c, chosen, begin, &blocks, NULL), other};
  return tn__op1(c, OP_SPANS, tn__join(c, both, 2, 0));
}

bool tn__partition_line(tn_ctx *c, tn_node *chosen, tn__partition *out) {
  const tn__target *t = &tn__device_get(c, chosen->device < 0 ? 0 : chosen->device)->target;
  int64_t n, size = LARGEST_BLOCK;
  if (c->mode == TN_MODE_STRICT || !tn__const_int(chosen->dim[0], &n) || n < FEW) return false;
  while (size > LEAST_BLOCK && n < size * GROUPS_OF_UNIT * t->units) size /= 2; /* a choice: either is right */
  if (!tn__target_exchanges(t, size, 1) || tn__scan_turns(t) < size) return false;
  int counter = n <= INT32_MAX - size ? TN_I32 : TN_I64;
  tn_node *place = places_in_block(c, tn__in_blocks(c, chosen, 0, size)), *count = counts_of_blocks(c, place);
  tn__dims shape = tn__dims_of(place);
  tn_node *own = tn__expand(c, tn__add_axis(c, count, 1), shape.d);
  tn_node *at = tn__place(c, &shape, 1), *block = tn__place(c, &shape, 0);
  tn_node *is = tn__op2(c, OP_LT, tn__cast(c, at, TN_I32), own);
  tn_node *other = tn__cast(c, tn__op1(c, OP_NOT, is), TN_I64); /* as a factor: then a place tells whether it is 1 */
  tn_node *line = tn__add(c, tn__op2_num(c, OP_MUL, other, (double)shape.d[0]->hi), block);
  tn_node *within = tn__sub(c, at, tn__mul(c, other, tn__cast(c, own, TN_I64)));
  tn_node *to =
      tn__add(c, tn__cast(c, tn__gather(c, starts_of(c, count, size, counter, &out->count), line), TN_I64), within);
  tn_node *number = tn__cast(c, who_goes_there(c, place), counter);
  number = tn__add(c, tn__op2_num(c, OP_MUL, tn__cast(c, block, counter), (double)size), number);
  out->is = tn__merge_axes(c, is, 0, 2);
  out->number = tn__merge_axes(c, number, 0, 2);
  out->place = tn__op1(c, OP_PERMUTATION, tn__merge_axes(c, to, 0, 2));
  return true;
}

tn_node *tn__partitioned(tn_ctx *c, const tn__partition *p, tn_node *x, tn_node *most) {
  tn_node *nothing = tn__scalar_to(c, tn__const_num(c, x->dtype, -0.0), &most, 1); /* it changes none */
  return tn__scatter(c, nothing, p->place, x);
}
