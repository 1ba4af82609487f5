/* Running sums and products, made of the rest: blocks of elements are summed up, the sums are scanned by the same rule,
 * and each element adds those of its block that stand before it to what the blocks before give.  So a scan reads its
 * input twice, whatever its length, no element waits for the one before it, and the order of all additions is that of
 * the blocks: the same on every device of a kind.  Where a group's threads go along blocks (lower/group_scan.c), these
 * are long, and what is no longer than one is read once.
 *
 * The gradient of a product is made of every term without each other one of its block, and takes memory by the square
 * of that: gradients are taken of short blocks (grad/grad_pass.c). */
#include "tensor/scan.h"
#include "device/device.h"
#include <math.h>

/* Elements of a block: in the first, each is compared with all others of its block, so that they are few; above it
 * there are so few that more in a block save whole passes. */
enum { FIRST_BLOCK = 16, NEXT_BLOCK = 64, LARGEST_BLOCK = 1024 };

/* On devices of groups: a thread takes a block of many elements, which it fetches at once if blocks divide them; of few
 * elements each may be compared with many while a further kernel would start. */
enum { ASK_STEPS = 4, MUCH = 4 }; /* multiply-adds of a comparison; launches that are worth whole blocks */

enum {
  LITTLE = 8,           /* elements beside an axis along which neighbours still lie close together */
  ENOUGH = 2,           /* times as many threads as run in step, for each unit */
  FEWEST_OF_THREAD = 4, /* elements, where there are too few for all units otherwise, */
  GROUPS_OF_UNIT = 8,   /* each of which has so many blocks */
  BEYOND = 2,           /* times as long as from a unit's own cache an element takes from beyond it */
  NEXT_LAUNCHES = 2     /* kernels more where blocks are summed up before */
};
/* On processors a thread goes along a block of integers, whose order of additions is of no account.  A row of so many
 * it has gone along while threads would meet for blocks. */
enum { RUN_BLOCK = 1024, WHOLE_RUN = 4096 };
static const double SUMMED_FIRST = 1.5; /* reading twice for once, and storing */

static tn_node *unit_like(tn_ctx *c, tn__op op, tn_node *x) {
  return tn__literal_like(c, x, op == OP_PROD ? 1 : 0);
}

tn_node *tn__within_blocks(tn_ctx *c, tn__op op, tn_node *x, uint32_t axis, bool exclusive) {
  int64_t summed = axis + 1;
  tn_node *row = tn__add_axis(c, x, axis);
  tn__dims pairs = tn__dims_of(row);
  pairs.d[axis] = x->dim[axis];
  row = tn__expand(c, row, pairs.d);
  tn_node *at = tn__cast(c, tn__place(c, &pairs, axis), TN_I32);
  tn_node *other = tn__cast(c, tn__place(c, &pairs, axis + 1), TN_I32);
  tn_node *before = tn__op2(c, exclusive ? OP_LT : OP_LE, other, at);
  return tn__reduce(c, op, tn__where(c, before, row, unit_like(c, op, row)), &summed, 1);
}

tn_node *tn__in_blocks(tn_ctx *c, tn_node *x, uint32_t axis, int64_t size) {
  tn_node *n = x->dim[axis], *blocks = tn__op2(c, OP_IDIV, tn__add(c, n, tn__int(c, size - 1)), tn__int(c, size));
  tn_node *lohi[2 * TN_MAX_RANK];
  for (uint32_t i = 0; i < 2u * x->rank; i++) lohi[i] = tn__int(c, 0);
  lohi[2 * axis + 1] = tn__sub(c, tn__mul(c, blocks, tn__int(c, size)), n);
  tn__dims into = {.rank = 2, .d = {blocks, tn__int(c, size)}};
  return tn__split_axis(c, tn__pad(c, x, lohi), axis, &into);
}

tn_node *tn__first_of(tn_ctx *c, tn_node *x, uint32_t axis, tn_node *n) {
  tn_node *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  for (uint32_t i = 0; i < x->rank; i++) begin[i] = tn__int(c, 0), size[i] = i == axis ? n : x->dim[i];
  return tn__shrink(c, x, begin, size, NULL);
}

tn_node *tn__of_before(tn_ctx *c, tn_node *x) {
  tn_node *lohi[2 * TN_MAX_RANK], *n = x->dim[0];
  for (uint32_t i = 0; i < 2u * x->rank; i++) lohi[i] = tn__int(c, 0);
  lohi[0] = tn__int(c, 1);
  return tn__first_of(c, tn__pad(c, x, lohi), 0, n);
}

/* Elements beside the axis that lie between its neighbours in memory */
static double between(const tn_node *x, uint32_t axis) {
  double inner = 1;
  for (uint32_t i = axis + 1; i < x->rank; i++) inner *= (double)x->dim[i]->hi;
  return inner;
}

static const tn__target *target_of(tn_ctx *c, const tn_node *x) {
  return &tn__device_get(c, x->device < 0 ? 0 : x->device)->target;
}

/* a choice: either is right */
static bool lanes_go_along(tn_ctx *c, const tn_node *x, uint32_t axis) {
  return between(x, axis) < LITTLE && !target_of(c, x)->group;
}

tn_node *tn__along(tn_ctx *c, tn_node *x, uint32_t axis) {
  return lanes_go_along(c, x, axis) ? tn__op1(c, OP_CONTIG, x) : x;
}

static double elements(const tn_node *x) {
  double all = 1;
  for (uint32_t i = 0; i < x->rank; i++) all *= (double)x->dim[i]->hi;
  return all;
}

/* How long it takes to read all and to store as many, if so many groups are busy with it: as memory does, or as each of
 * their units */
/* a choice: any is right */
static double move_once(const tn__target *t, double all, double groups) {
  double memory = t->balance > 0 ? (double)t->balance : 1, unit = BEYOND * (double)t->fetch;
  return 2 * all * fmax(memory, unit * t->units / groups);
}

/* On devices of groups: columns that threads have one each, or, where there are not enough of them, those of a group
 * all together; longer ones as they are, if the threads of a group can hold all of those that they go along, and to
 * read them once, by as many groups as there are then, takes no longer than twice by more groups and by more kernels.
 * Else blocks for all units. */
/* a choice: any is right */
static int64_t block_of_columns(const tn__target *t, const tn_node *x, uint32_t axis, int64_t n) {
  double all = elements(x), threads = (double)t->units * ENOUGH * t->subgroup, columns = between(x, axis);
  size_t size = tn__size_of(tn__dtype_acc(x->dtype));
  int64_t wide = tn__scan_columns(t, size, (int64_t)fmin(columns, INT32_MAX)), tile = tn__scan_tile(t, size);
  if (n <= TN__THREADS_TURNS) return n > TN__SCAN_OWN || all >= threads * (double)n ? n : 0;
  double once = move_once(t, all, all / (double)(n * wide));
  double by_blocks = SUMMED_FIRST * move_once(t, all, t->units) + NEXT_LAUNCHES * tn__target_launch_guess(t);
  if (n <= tile / wide && once <= by_blocks) return n;
  int64_t block = 2 * TN__THREADS_TURNS;
  while (block * 2 <= tile / wide && block * wide < (int64_t)tn__usual_group(t) * TN__SCAN_OWN &&
         (double)(block * wide) * t->units * GROUPS_OF_UNIT < all)
    block *= 2;
  return block;
}

/* Do a group's threads go along several columns? */
/* a choice: either is right */
static bool are_columns(tn_ctx *c, const tn__target *t, const tn_node *x, uint32_t axis) {
  int64_t n;
  return t->group && c->mode != TN_MODE_STRICT && between(x, axis) > 1 &&
         tn__const_int(x->dim[axis], &n) && n > TN__THREADS_TURNS;
}

/* On devices of groups: rows, as long as a group's threads sum up along, or, of longer ones, blocks for all units, of
 * which each has room for several. */
/* a choice: any is right */
static int64_t block_of_group(tn_ctx *c, const tn__target *t, const tn_node *x, uint32_t axis) {
  int64_t n, most = tn__scan_turns(t), block = (int64_t)tn__usual_group(t) * FEWEST_OF_THREAD;
  if (c->mode == TN_MODE_STRICT || !tn__const_int(x->dim[axis], &n)) return 0;
  if (between(x, axis) > 1) return block_of_columns(t, x, axis, n);
  if (n <= most) return n;
  double all = elements(x);
  while (block < (int64_t)tn__usual_group(t) * TN__SCAN_OWN && (double)block * t->units * GROUPS_OF_UNIT < all)
    block *= 2;
  return block < most ? block : most;
}

typedef struct blocks { /* of what, of no more than NEXT_BLOCK elements, or may they be runs? */
  tn__op op;
  bool are_short, may_run;
} blocks;

/* On processors; 0: as many as usual */
/* a choice: any is right */
static int64_t block_of_run(const tn__target *t, const tn_node *x, uint32_t axis, const blocks *b) {
  int64_t n;
  bool runs = b->may_run && !t->group && !t->interprets && between(x, axis) == 1;
  if (!runs || !tn__const_int(x->dim[axis], &n)) return 0;
  return n <= WHOLE_RUN ? n : RUN_BLOCK;
}

/* a choice: any is right */
static int64_t block_of(tn_ctx *c, const tn_node *x, uint32_t axis, const blocks *b, int64_t usual) {
  const tn__target *t = target_of(c, x);
  int64_t n, block = b->op == OP_SUM ? LARGEST_BLOCK : NEXT_BLOCK;
  if (!t->group) return usual;
  int64_t by_group = b->are_short ? 0 : block_of_group(c, t, x, axis);
  if (by_group) return by_group;
  double all = elements(x), launch = tn__target_launch_guess(t);
  while (block > usual && all * (double)block * ASK_STEPS > launch) block /= 2;
  bool much = usual == FIRST_BLOCK && all * (double)usual * ASK_STEPS > MUCH * launch;
  if (block > usual || !much || !tn__const_int(x->dim[axis], &n)) return block;
  while (block > FIRST_BLOCK / 4 && n % block) block /= 2;
  return n % block ? usual : block;
}

static tn_node *scan(tn_ctx *c, const blocks *b, tn_node *x, uint32_t axis, bool exclusive, int64_t usual) {
  tn_node *n = x->dim[axis];
  tn__op op = b->op;
  const tn__target *t = target_of(c, x);
  int64_t run = block_of_run(t, x, axis, b), block = run ? run : block_of(c, x, axis, b, usual);
  if (n->hi <= block) return tn__within_blocks(c, op, x, axis, exclusive);
  tn_node *rows = tn__in_blocks(c, x, axis, block);
  int64_t inner = axis + 1;
  tn_node *before = scan(c, b, tn__reduce(c, op, rows, &inner, 1), axis, true, NEXT_BLOCK);
  /* of one row all threads would sum these up together, of columns each for itself */
  if (!b->are_short && are_columns(c, t, x, axis))
    before = tn__op1(c, OP_CONTIG, before);
  tn_node *own = tn__within_blocks(c, op, rows, axis + 1, exclusive);
  tn_node *all = tn__bcast2(c, op == OP_SUM ? OP_ADD : OP_MUL, tn__add_axis(c, before, axis + 1), own);
  return tn__first_of(c, tn__merge_axes(c, all, axis, 2), axis, n);
}

tn_node *tn__scan(tn_ctx *c, tn__op op, tn_node *x, uint32_t axis, bool exclusive) {
  const blocks b = {.op = op};
  if (x->rank + 2 <= TN_MAX_RANK) return scan(c, &b, x, axis, exclusive, FIRST_BLOCK);
  tn__dims shape = tn__dims_of(x);
  tn_node *flat = tn__merge_axes(c, tn__merge_axes(c, x, axis + 1, x->rank - axis - 1u), 0, axis);
  return tn__reshape(c, scan(c, &b, flat, 1, exclusive, FIRST_BLOCK), shape.d, shape.rank);
}

tn_node *tn__counts_along(tn_ctx *c, tn_node *x, uint32_t axis, bool exclusive) {
  return tn__op1(c, OP_CONTIG, scan(c, &(blocks){.op = OP_SUM, .may_run = true}, x, axis, exclusive, FIRST_BLOCK));
}

/* ---- products by short blocks ---- */

/* `each`, which has one element along the axis, as rows of n's shape */
static tn_node *rows_of(tn_ctx *c, const tn_node *n, tn_node *each, uint32_t axis) {
  tn_node *dim[TN_MAX_RANK];
  for (uint32_t i = 0; i < n->rank; i++) dim[i] = each->dim[i + (i >= axis)];
  return tn__expand(c, tn__reshape(c, each, dim, n->rank), n->dim);
}

static bool is_same_choice(const tn_node *n, const tn_node *other) {
  const tn_node *x = n->src[0], *y = other->src[0];
  return y->op == OP_WHERE && x->src[0] == y->src[0] && x->src[2] == y->src[2];
}

tn_node *tn__row_of_product(tn_ctx *c, tn_node *n) {
  int64_t terms, axis = n->op == OP_PROD && n->nint == 1 ? n->ints[0] - 1 : -1;
  const tn_node *x = n->nsrc ? n->src[0] : NULL;
  if (axis < 0 || x->op != OP_WHERE || x->src[1]->op != OP_EXPAND || x->dim[axis] != x->dim[axis + 1]) return NULL;
  tn_node *each = x->src[1]->src[0];
  if (!tn__const_int(x->dim[axis], &terms) || terms <= NEXT_BLOCK || !tn__is_int_const(each->dim[axis], 1)) return NULL;
  tn_node *rows = rows_of(c, n, each, (uint32_t)axis);
  for (int before = 0; before < 2; before++)
    if (is_same_choice(n, tn__within_blocks(c, OP_PROD, rows, (uint32_t)axis, before))) return each;
  return NULL;
}

tn_node *tn__product_by_blocks(tn_ctx *c, tn_node *n, tn_node *each) {
  uint32_t axis = (uint32_t)n->ints[0] - 1;
  tn_node *rows = rows_of(c, n, each, axis);
  bool before = is_same_choice(n, tn__within_blocks(c, OP_PROD, rows, axis, true));
  return scan(c, &(blocks){.op = OP_PROD, .are_short = true}, rows, axis, before, FIRST_BLOCK);
}

static tn_node *running(tn_ctx *c, tn__call *k) { /* cumsum, cumprod: i: axis, SUM or PROD */
  tn_node *x = k->x[0];
  tn__want(c, x, TN__C_ANY);
  uint32_t axis = tn__axis(c, (int)k->i[0], x->rank);
  int wide = tn__widened(tn__dtype_acc(x->dtype));
  return tn__cast(c, tn__scan(c, (tn__op)k->i[1], tn__cast(c, x, wide), axis, false), tn__widened(x->dtype));
}

tn_tensor *tn_cumsum(tn_tensor *t, int axis) {
  return tn__build(&(tn__call){.name = "tn_cumsum", .fn = running, .in = &t, .nin = 1, .i = {axis, OP_SUM}});
}
tn_tensor *tn_cumprod(tn_tensor *t, int axis) {
  return tn__build(&(tn__call){.name = "tn_cumprod", .fn = running, .in = &t, .nin = 1, .i = {axis, OP_PROD}});
}
