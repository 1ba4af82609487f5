/* A lowered kernel: what renderers print and the ref device interprets.  Prefix tn__kernel_.
 *
 * Linear form, one node per instruction, in execution order.  Sources are earlier instructions, CONST, VAR or PARAM
 * nodes (which are not listed).  Loops are RANGE .. END and nest properly.
 *
 *   RANGE {extent} {axis, id, role} for i in 0..extent-1.  AX_GLOBAL: the sliced loop, its bounds come from the caller.
 *                                   AX_UPCAST: iterations are independent but for lane accumulators (below): vectorise.
 *   ACC {init} {number, lanes, n}   an accumulator of `lanes` cells, all = init; lanes = 1: a plain variable.  n > 1:
 *                                   of lanes * n cells, those of a lane side by side; then SETACC and GETACC name,
 *                                   after the lane, the AX_UNROLL range that tells which of the n
 *   SETACC {acc, value, lane?} {op} cell[lane] = cell[lane] op value    (op: OP_ADD, OP_MUL, OP_MAX, OP_MIN, or OP_FMA:
 *   value is a LIST
 *                                   {x, y} and the cell becomes fma(x, y, cell)); lane: the AX_UPCAST RANGE; absent if
 *                                   lanes = 1
 *   GETACC {acc, end, lane?} {op}   cell[lane]; without lane and lanes > 1: cells combined by halves: for h = lanes/2
 *                                   .. 1: cell[l] = cell[l] op cell[l+h]  (lanes is a power of two).  A SETACC in the
 *                                   END's place: what the cell is after it, in each turn of the loop around it, and
 *                                   of its lanes
 *   LOAD {buf, index, gate?}        buf: PARAM or LOCAL (AFTER is resolved).  Gate false: 0, memory untouched.
 *   STORE / STOREADD {buf, index, value, gate?}
 *                                   AX_ORDER ranges are the loops of a STOREADD whose turns may meet at one place, in
 *                                   scratch memory AX_UNROLL ones, too; of integers that the target adds to at once
 *                                   (tn__adds_at_once) those of all others
 *   every scalar op of group UNARY, BINARY, TERNARY, CAST
 *
 * Kernels for devices with work groups (part.group > 0) have the same form, read so: a group runs one iteration of the
 * AX_GLOBAL range at a time, all its threads in step.  The iterations of an AX_UPCAST range are spread over the
 * threads, one each (thread t runs iteration t; those beyond the extent rest), so a lane accumulator is one register of
 * each thread, and GETACC without lane, which stands outside of lane loops, combines the threads' registers and gives
 * every thread the result.  What stands outside of lane loops all threads compute alike; its stores are done by thread
 * 0.  LOCAL buffers are shared by the group; but a LOCAL of {number, n}, n > 0, is indexed by ADD(MUL(slot, n), lane
 * range) only: element i belongs to thread i mod n, which may keep its slots in registers. With n = TN__OWN_SHARED each
 * element is one thread's, too, but they stand in shared memory: a STORE of what is but loaded may be a copy that goes
 * on beside the thread, up to the next turn of the loop in which they are both stored and loaded. A LOCAL {elements,
 * range} is one of each turn of the range; STOREADD adds to one as to any buffer, and with n = TN__OWN_TALLIES all
 * threads may add to one element at once.  With n = TN__OWN_IN_STEP threads that run in step may add to one element in
 * the order of their numbers, and load what it is then (tn__is_in_step): a STOREADD of ones and a LOAD of the same
 * place, in a lane loop of whole such; each of those that run in step with each other has elements of its own.
 *   BARRIER {}                      all threads of the group wait for each other's accesses to LOCAL buffers
 *   RANGE .. AX_UNROLL              inside a lane loop, constant extent: to be unrolled, in order.  Its LOADs and
 *                                   STOREs whose index is ADD(base, the range), or the range, with base a multiple of
 *                                   the extent (tn__is_packed) may be one wide access.  With a gate
 *                                   LT(ADD(place, the range), end) (tn__ends_within) that is so where all neighbours
 *                                   are inside of the end.  An ACC in front of it, inside of the lane loop, is the
 *                                   thread's, and runs along its turns.
 *
 * A lane range (AX_UPCAST with an accumulator indexed by it) has a constant bound: its extent's interval `hi` is the
 * lane count; where the extent itself is not constant (a tail), renderers print the loop twice, for the full and for
 * the short count. */
#ifndef TN_LOWER_KERNEL_H
#define TN_LOWER_KERNEL_H
#include "ir/ctx.h"

/* Parts of a kernel, at most; as it is lowered: as many as reductions stand one above the other, and one more, which is
 * also how many go abreast */
enum { TN__MAX_PARTS = 16, TN__OWN_PARTS = 8 };

/* ---- scratch memory ---- */

/* the n of a LOCAL {number, n} in shared memory of whose elements each is one thread's: no barriers */
enum { TN__OWN_SHARED = -1 };
/* ... so, of what stays for a turn of the groups' loop: no copies, which nobody waits for */
enum { TN__OWN_KEPT = -2 };
/* ... of integers to which all threads of the group add at once */
enum { TN__OWN_TALLIES = -3 };
static inline bool tn__is_tallies(const tn_node *buf) {
  return buf->op == OP_LOCAL && buf->nint > 1 && buf->ints[1] == TN__OWN_TALLIES;
}
/* ... to which threads in step add in order */
enum { TN__OWN_IN_STEP = -4 };
static inline bool tn__is_stepped(const tn_node *buf) {
  return buf->op == OP_LOCAL && buf->nint > 1 && buf->ints[1] == TN__OWN_IN_STEP;
}

/* ---- matrix products by tiles (tile.c) ---- */

enum { TN__DIGIT_THREAD, TN__DIGIT_TURN, TN__DIGIT_NEIGHBOUR, TN__DIGITS = 10 };

typedef struct tn__digit { /* one digit of an element's number in its tile, and how far it moves */
  int of, extent, row, col;
} tn__digit;

/* How a group computes a tile of the product.  Digits of the thread's number stand from the least one on; those of
 * turns and of neighbours from the greatest on, as a thread's accumulators lie. */
typedef struct tn__tile_form {
  const char *name; /* of the language's function */
  int dtype, rows, cols, steps, threads;
  size_t shared;    /* bytes */
  int beside;       /* groups for which a unit has room; 0: one */
  float dear;       /* an element costs so many times what it does in large tiles; 0: once */
  /* a tile takes so many times as long as if it had all that a unit can do, where its group is alone there; 0: not
   * known */
  float alone;
  bool tf32;        /* rounds f32 factors to tf32 */
  bool cols_by_steps; /* for columns whose steps are neighbours in memory, */
  bool cols_across;   /* or which are neighbours themselves */
  bool even;        /* for sizes that it divides, and operands of one stride */
  int crowd;        /* not where there are more tiles for each unit: then others are far better; 0: always */
  tn__digit digit[TN__DIGITS];
} tn__tile_form;

/* How an operand lies in memory: neighbours are neighbours in lines, or in steps; in runs of 16 bytes, or one by one */
typedef enum tn__lie { TN__LIE_ACROSS, TN__LIE_STEPS, TN__LIE_SINGLE, TN__LIE_SINGLE_STEPS } tn__lie;

typedef struct tn__tile {
  const tn__tile_form *form;
  tn_node *acc;       /* the accumulator whose loop a language may print as a call of the form's function */
  tn_node *steps;     /* the RANGE of that loop */
  tn_node *digit[TN__DIGITS]; /* the RANGEs of turns and neighbours, by the form's digits */
  tn_node *load[2];   /* operands: of rows, of columns */
  tn_node *line[2];   /* stands for the row, or the column, of the tile, */
  tn_node *turn, *step; /* and for the place among all steps: turn * form->steps + step */
  tn_node *at[2];     /* place in the operand's buffer, from line, turn and step */
  tn_node *gate[2];   /* where it is to be loaded; NULL: everywhere, and places move evenly from turn to turn */
  /* at as the sum of what hangs on the line and on turn and step, gate as both; part[side][0] NULL: they are not */
  tn_node *part[2][2], *part_gate[2][2];
  tn__lie lie[2];
} tn__tile;

typedef struct tn__part { /* parts run one after the other, each over all its slices, but for those abreast */
  tn_node *body;    /* the kernel-phase SINK it came from */
  tn_node **ins;
  uint32_t n;
  tn_node *global;  /* the AX_GLOBAL RANGE, NULL if the part is one slice */
  int64_t grain;    /* iterations of it that are worth a slice */
  int group;        /* threads of a work group; 0: lanes are vector loops */
  int together;     /* so many groups make one block; 0: one */
  int beside;       /* blocks that are to have room in a unit, for a compiler to know; 0: not said */
  int64_t blocks;   /* that are worth starting: each goes through several turns; 0: as many as there are turns for */
  bool leaves_room; /* it takes long, and other kernels are to run in the same units meanwhile (run/launches.c) */
  bool owns;        /* its groups own places, and all that a unit has is theirs (owned.c) */
  bool across;      /* neighbouring threads of a block are those of neighbouring groups, not of one */
  bool abreast;     /* it may run at once with the part before it, by blocks of the same launch (abreast.c) */
  bool behind;      /* it runs behind the part before it, by the same launch, which is of one block (stages.c) */
  int subgroup;     /* of those, how many run in step */
  size_t adds;      /* the target's: sizes of integers that turns may add to at once */
  tn__tile *tile;   /* NULL: no product by tiles */
} tn__part;

typedef struct tn__kernel {
  const char *name;        /* a C identifier, unique in its schedule */
  const char *note;        /* the optimisation steps, for the head comment */
  const char *ranking;     /* the mappings that were predicted to be fastest, and their times; NULL: none was chosen */
  uint32_t nbuf;           /* PARAM slots 0..nbuf-1 */
  const uint8_t *buf_dtype;
  const uint8_t *buf_written; /* 1: some part stores to it */
  tn_node **require;       /* REQUIREs: what it relies on; it stands beside the instructions, where no pass loses it */
  uint32_t nrequire;
  tn_node **var;           /* VAR nodes, in the order in which their values are passed */
  uint32_t nvar;
  /* LOCAL buffers, by number, each at byte offset local_at[i] of the thread's scratch (64-aligned) */
  uint32_t nlocal;
  tn_node **local;
  const int64_t *local_at;
  /* bytes of scratch per thread; of a group: the shared LOCALs first, then those whose elements each belong to a
   * thread */
  int64_t scratch;
  int64_t shared;          /* bytes of the first kind */
  tn__part part[TN__MAX_PARTS];
  uint32_t nparts;
} tn__kernel;

/* Groups of a block, and its threads: the hardware's work group.  Where several groups make one, they share no LOCAL
 * memory, the AX_GLOBAL range's extent is a multiple of them, and no other loop's extent depends on its turn: so all
 * threads of a block meet, wherever those of one group do. */
static inline int tn__groups_of_block(const tn__part *p) {
  return p->together > 1 ? p->together : 1;
}
static inline int tn__threads_of_block(const tn__part *p) {
  return p->group * tn__groups_of_block(p);
}

/* Behind the last of the parts that are launched as one with part p, the first of them. */
static inline uint32_t tn__launch_end(const tn__kernel *k, uint32_t p) {
  for (p++; p < k->nparts && (k->part[p].abreast || k->part[p].behind);) p++;
  return p;
}
/* Is that launch one block, which goes through the parts one after the other, with a barrier behind each? */
static inline bool tn__has_stages(const tn__kernel *k, uint32_t p) {
  return p + 1 < k->nparts && k->part[p + 1].behind;
}
static inline bool tn__is_stage(const tn__kernel *k, uint32_t p) { return k->part[p].behind || tn__has_stages(k, p); }
/* Threads of that launch's blocks: those of a part that has fewer leave the rest idle. */
static inline int tn__threads_of_launch(const tn__kernel *k, uint32_t p) {
  int most = 0;
  for (uint32_t end = tn__launch_end(k, p); p < end; p++)
    if (tn__threads_of_block(&k->part[p]) > most) most = tn__threads_of_block(&k->part[p]);
  return most;
}

static inline bool tn__stores_to(const tn__part *p, int64_t slot) {
  for (uint32_t i = 0; i < p->n; i++) {
    const tn_node *n = p->ins[i];
    if ((n->op == OP_STORE || n->op == OP_STOREADD) && n->src[0]->op == OP_PARAM && n->src[0]->ints[0] == slot)
      return true;
  }
  return false;
}

/* May turns of all loops meet where this STOREADD adds?  Sums of integers are the same in any order, as are the
 * greatest of them and the bits that any of them has.  In shared memory those of the group's threads may, where that is
 * said of it. */
static inline bool tn__adds_at_once(const tn__part *p, const tn_node *n) {
  int dt = n->src[0]->dtype;
  bool many = n->src[0]->op == OP_PARAM || (tn__is_tallies(n->src[0]) && n->nint == 0);
  return n->op == OP_STOREADD && many && tn__is_int(dt) && (p->adds & tn__size_of(dt));
}

/* Do its turns along this loop meet at a place in order?  A thread's neighbours add to scratch memory one by one. */
static inline bool tn__adds_in_order(const tn_node *n, const tn_node *range) {
  return n->op == OP_STOREADD && n->src[0]->op == OP_LOCAL && range->ints[RANGE_AXIS] == AX_UNROLL;
}

/* Elements of such memory that threads in step with each other have, of those that `lanes` counts: a power of two, and
 * as many for all; 0: they are not */
int64_t tn__stepped_share(const tn__part *p, const tn_node *local, const tn_node *lanes);
/* Is it an access to such memory of the thread that `lanes` counts, to an element of those that are for it and those in
 * step with it?  Needs index nodes as they stand in the linear form. */
bool tn__is_in_step(const tn__part *p, const tn_node *access, const tn_node *lanes);

/* Is n made of that loop's counter? */
bool tn__hangs_on(tn__arena *a, tn_node *n, const tn_node *range);

/* A round of updates beyond the last one is counted by 32 bits, too (turns_cuda.inc). */
#define TN__MOST_TURNS (INT32_MAX / 2)

/* Does it store what stands there? */
bool tn__stores_itself(const tn_node *store);

/* Rows that are added to places of memory in order, by a group that owns the places (owned.c): a loop that stores what
 * they begin with, and behind it one of the updates, each by threads side by side, one element each: by all of the
 * group's, or by a part, and then others may take other places.  Which places are there, and which updates are wanted,
 * is the same for all of them, and which of them are there at all is for all places and updates.  Places lie evenly,
 * and nobody else stores there.  So threads may share out the question which updates are wanted, and store each sum
 * once. */
typedef struct tn__turns {
  int64_t count;
  uint32_t start, end;      /* of the loop's instructions */
  tn_node *lanes, *store;   /* the loop over threads; what is stored, or added */
  tn__nodes wanted, inside; /* conditions of its gate: of the turn, of the thread */
} tn__turns;
typedef struct tn__owned {
  tn__turns begin, add;
  bool begun; /* what places begin with stands there: the first loop stores what it loads */
} tn__owned;
/* Do such loops begin at ins[start]? */
bool tn__owns_places(tn__arena *a, const tn__part *p, uint32_t start, tn__owned *out);

/* What is required so of a buffer, NULL: nothing */
static inline const tn_node *tn__required(const tn__kernel *k, const tn_node *buffer, tn__requirement what) {
  for (uint32_t i = 0; i < k->nrequire && buffer->op == OP_PARAM; i++)
    if (k->require[i]->src[0]->ints[0] == buffer->ints[0] && k->require[i]->ints[0] == (int64_t)what)
      return k->require[i];
  return NULL;
}

/* Is this LOAD or STORE one of neighbours over the AX_UNROLL range r: index r or ADD(base, r), base a multiple of r's
 * extent, no gate that depends on r but one that tn__ends_within?  Needs index nodes as they stand in the linear form.
 */
bool tn__is_packed(const tn_node *access, const tn_node *r);
/* Bytes of the one wide access that such neighbours are, in pieces of TN__WIDE where they are more; 0: their number
 * makes none, and they are accessed one by one */
enum { TN__WIDE = 16, TN__MOST_PIECES = 8 };
int64_t tn__wide_bytes(const tn_node *access, const tn_node *r);
/* Does the gate say that neighbours are there up to some end: LT of r, or ADD(place, r), and what r is not in? */
bool tn__ends_within(const tn_node *gate, const tn_node *r);
/* open: the RANGEs around the instruction, outermost first; becomes those around the next one. */
void tn__loops_pass(tn__arena *a, tn__nodes *open, tn_node *instruction);
#endif
