/* From a kernel body to a linear program.  Prefix tn__lower_. */
#ifndef TN_LOWER_LOWER_H
#define TN_LOWER_LOWER_H
#include "device/target.h"
#include "lower/kernel.h"
#include "schedule/schedule.h"
#include <string.h>

/* A mapping: what is said of how a kernel's loops meet the machine; 0, or leaning nowhere: what the passes make of the
 * target.  lower/choose.c takes one by its predicted time, tuning (run/tune.c) by its measured one. */
typedef struct tn__variant {
  const char *name;
  int8_t tile;     /* the form that fits best, second best, ...; TN__VARIANT_NONE: no product by tiles */
  int8_t blocks;   /* 2^blocks times as many of a split reduction; TN__VARIANT_NONE: it stays whole */
  int8_t group;    /* 2^group times the threads of a group, or elements of a chunk */
  int8_t pack;     /* 2^pack times the neighbours that one thread takes */
  int8_t lanes;    /* 2^lanes times the lanes of vector loops */
  int16_t team;    /* so many threads share a row, 1: none does, and maxima of maxima are one; 0: as usual */
  int16_t together; /* so many groups make a block; 0: as usual */
  int8_t chunk;     /* elements that a thread takes one by one; 0: one */
  bool across;      /* ... whose neighbouring threads work on neighbouring rows */
  int8_t rows, cols; /* a thread takes so many outputs along two loops, at most; 0: as usual */
  int8_t turn;     /* what lies across is turned by tiles of so many lines; 0: not */
  int8_t windows;  /* what windows of a thread's outputs have in common it keeps, and has so many outputs across memory,
                    * 1: as many as packs have along it; 0: it does not */
  bool alone;      /* rows that are kept may take all that a unit has for its groups to share */
  bool own;        /* a library call by a kernel */
  bool begun;      /* what places begin with that groups own stands there, by a launch before them */
  bool fetched;    /* values that run along short rows are a group's, which fetches these as memory lies */
} tn__variant;
enum { TN__VARIANT_NONE = -100 };
static inline int64_t tn__variant_by(int64_t n, int by) {
  return by == TN__VARIANT_NONE ? 0 : by < 0 ? n >> -by : n << by;
}

/* The passes, in order, on one screen: see lower.c.  Everything is allocated in `a`.  nbuf, nout: the body's PARAM
 * slots, written ones first.  The kernel may have more buffers than the body: those are its own scratch, sized by their
 * PARAM's source.  variant NULL: the cost model's own choice. */
tn__kernel *tn__lower(tn_ctx *c, tn__arena *a, tn_node *body, const tn__target *target, const tn__variant *variant,
                      uint32_t index);

/* The kernel once more, in `a`: lowering needs many times the memory of what it gives. */
tn__kernel *tn__kernel_copy(tn__arena *a, const tn__kernel *k);

/* A body may also be a linear program: a SINK of this name, of instructions in order.  It is taken as it is; its
 * threads are those of its widest loop over them.  Devices without groups take one of these loops after the other,
 * whole: they need no barriers. */
#define TN__PROGRAM_SINK "program"
static inline bool tn__is_program(const tn_node *body) { return body->name && !strcmp(body->name, TN__PROGRAM_SINK); }

/* The kernel of such a program as one for groups of threads, with its barriers, whatever the device makes of it: what
 * is checked. */
tn__kernel tn__program_as_written(const tn__kernel *k);

/* joint.c: may the kernel be one with others?  Its sizes are known when it is printed, and it has no tiles, nor
 * shared memory and registers that are planned for so many blocks of its own. */
bool tn__may_join(const tn__kernel *k);
enum { TN__JOINT_BUFFERS = 128 /* at most: a launch has room for as many, and some sizes */ };
/* ... do threads of a block meet in the part, that are not all threads of some that run in step? */
bool tn__meets(const tn__part *p);
bool tn__has_meetings(const tn__part *p); /* ... or of a group, also those that run in step */
/* ... the parts of each, and all that they require, over buffers slot[i][s] for slot s of kernel i, and scratch memory
 * of their own; and what a kernel of such parts has to say of itself, but for its note */
void tn__joint_parts(tn_ctx *c, tn__arena *a, tn__kernel *const *k, uint32_t n, uint32_t *const *slot, tn__part **part,
              tn__nodes *require);
void tn__joint_end(tn__arena *a, tn__kernel *all, const char *step, uint32_t index);
/* alone.c: which buffers a part uses, and which of them it writes; and the part as a kernel over those it uses, each in
 * the slot that is given */
void tn__part_buffers(tn__arena *a, const tn__part *p, bool *used, bool *written);
tn__kernel *tn__part_alone(tn_ctx *c, tn__arena *a, const tn__kernel *k, uint32_t part, const bool *used,
                           uint32_t *slot, uint32_t index);

/* abreast.c: do these kernels need nothing of each other that a launch could not give them all at once?  What they do
 * for each other is for the caller to know. */
bool tn__fit_abreast(tn__kernel *const *k, uint32_t n, const tn__target *target);
/* ... and all of them as one, whose parts are abreast; slot[i][s]: the one that slot s of kernel i becomes. */
tn__kernel *tn__abreast(tn_ctx *c, tn__arena *a, tn__kernel *const *k, uint32_t n, uint32_t *const *slot,
                        uint32_t index);

/* stages.c: what the kernel takes as stages of a block of so many threads, without the launch; INFINITY: it cannot be
 * such */
double tn__stages_time(tn__arena *a, const tn__kernel *k, const tn__target *t, int threads);
/* ... do these kernels fit into one launch; and as such, in this order; slot: as above, where what one stores and
 * another loads is the same */
bool tn__fit_stages(tn__kernel *const *k, uint32_t n, const tn__target *target);
tn__kernel *tn__stages(tn_ctx *c, tn__arena *a, tn__kernel *const *k, uint32_t n, uint32_t *const *slot, int threads,
                       uint32_t index);

/* by_hand.c: a body that a user wrote, as the schedule might have made it; itself where the schedule has */
tn_node *tn__by_hand(tn_ctx *c, tn__arena *a, tn_node *body, const tn__target *target);

/* near.c: f32 values of a part that need not be computed to all bits, and functions of half floats; into `near` */
void tn__find_near(tn__arena *a, const tn__part *p, tn__map *near);

/* instructions.c: that a thread of a GPU issues for an instruction of a linear program that is neither an access nor of
 * threads that meet; near: it may be a shorter function */
double tn__instructions(const tn_node *n, bool near);
/* Does its text branch, so that nothing behind it begins before it is done? */
bool tn__branches(const tn_node *n, bool near);
/* Is it a power of two that is not far from 1 by a root, in f32?  Then the quotient is not near the ends of the
 * exponents. */
bool tn__is_over_root(const tn_node *n);

/* cost.c: seconds that a kernel takes, as far as its form and the target tell; INFINITY: they do not */
double tn__kernel_time(tn__arena *a, const tn__kernel *k, const tn__target *t);
/* ... that a part of it takes as a stage of a block that is alone on the device; INFINITY: registers are too few */
double tn__stage_time(tn__arena *a, const tn__kernel *k, const tn__part *p, const tn__target *t);

/* ... how many blocks of a part that has been lowered are worth starting; 0: one for each turn */
int64_t tn__blocks_worth_starting(tn__arena *a, const tn__kernel *k, const tn__part *p, const tn__target *t);

/* choose.c: the variant that takes least, of a body on its way to a device; how the best few compare, in `keep`, and
 * what it takes itself, in seconds: NULL and INFINITY where nothing is predicted */
typedef struct tn__choice {
  const tn__variant *variant;
  const char *ranking;
  double time;
} tn__choice;
tn__choice tn__choose(tn_ctx *c, tn__arena *keep, tn_node *body, const tn__target *target);

/* variants.c: what tuning tries for a body, a library call's or a kernel's, from number *at on, the cost model's own
 * choice first; NULL: no more */
const tn__variant *tn__variant_next(tn_ctx *c, const tn__target *target, tn_node *body, bool called, uint32_t *at);
const tn__variant *tn__variant_find(const char *name); /* NULL: none is called so */
const tn__variant *tn__variant_at(uint32_t number);    /* of all that there are; NULL: no more */

/* ---- shared by the passes ---- */

enum { TN__MAX_RANGES = 64 };

/* A body on its way down, as the passes hand it on. */
typedef struct tn__lowering {
  tn_ctx *c;
  tn__arena *a;
  const tn__target *target;
  const tn__variant *variant;
  tn__sb note;         /* the steps done */
  int64_t next_range;  /* ids of ranges, beyond all that the body ever had */
  int64_t next_local;  /* numbers of LOCALs */
  double before;       /* bytes of shared memory that the parts before have, which lie beside this one's, */
  double staged;       /* and those of this one's patches and tiles */
  int threads;         /* of a group, to which the body's loops are given already (group_scan.c); 0: they are not */
  bool owns;           /* ... which owns the places that it adds to (owned.c), and has a unit for itself */
} tn__lowering;
/* Bytes of shared memory that a part may still have, beside what the parts before have and threads tell each other */
static inline double tn__room_left(const tn__lowering *l) {
  return tn__target_room(l->target) - l->before - l->staged;
}

/* A new loop */
tn_node *tn__fresh_range(tn__lowering *l, tn_node *extent, int axis, tn__role role);
/* A loop that replaces x: its id, and its role */
tn_node *tn__range_like(tn_ctx *c, const tn_node *x, tn_node *extent, int axis);
static inline int tn__axis_of(const tn_node *range) { return (int)range->ints[RANGE_AXIS]; }
static inline tn__role tn__role_of(const tn_node *range) { return (tn__role)range->ints[RANGE_ROLE]; }
static inline long long tn__id_of(const tn_node *range) { return (long long)range->ints[RANGE_ID]; }

/* The ranges of a body, numbered, and which of them each node depends on. */
typedef struct tn__ranges {
  tn__nodes order;                  /* the body, sources first */
  tn_node *range[TN__MAX_RANGES];
  uint32_t n;
  tn__map at;                       /* node -> its place in that order */
  uint64_t *free;                   /* of each: bit set of ranges it depends on; a reduce or store not on its own */
  uint32_t *level;                  /* of each: reductions (and stores) on the longest path below it */
} tn__ranges;

void tn__ranges_find(tn_ctx *c, tn__arena *a, tn_node *body, tn__ranges *out);
uint64_t tn__free_of(const tn__ranges *r, const tn_node *n);
uint32_t tn__level_of(const tn__ranges *r, const tn_node *n);
int tn__range_at(const tn__ranges *r, const tn_node *range); /* its number, -1 */
/* A node that closes loops (REDUCE, STORE, STOREADD): its own ranges are src[*first] .. */
bool tn__closes(const tn_node *n, uint32_t *first);
uint64_t tn__own_of(const tn__ranges *r, const tn_node *n);
/* before[j]: the loops that end before loop j does, since something that closes j is made of what they give, or of what
 * is given by loops that need them.  No loop may stand in its own set.  Those in `apart` are written once for each node
 * that closes them, and do not wait for each other. */
void tn__loops_before(tn__arena *a, const tn__ranges *r, uint64_t apart, uint64_t *before);

/* instructions.c: is what stands in these loops, written out so many times, more than GPUs keep at hand? */
bool tn__is_much_text(const tn__ranges *r, uint64_t loops, double turns);

/* ---- loops.c ---- */

#define TN__IRREGULAR INT64_MAX

typedef struct tn__survey { /* of a body */
  tn__ranges r;
  uint64_t outputs;  /* ranges of the stores to buffers */
  uint64_t common;   /* ... of all of them */
  uint64_t running;  /* ranges along which values run */
  bool reduces;
} tn__survey;

void tn__survey_loops(tn_ctx *c, tn__arena *a, tn_node *body, tn__survey *out);
/* The outputs' loops on which nothing hangs but where it is stored */
uint64_t tn__spread_loops(const tn__survey *p);
bool tn__is_access(const tn_node *n); /* a load or a store */
/* Coefficient of range number `at` in an index expression; TN__IRREGULAR if it is not a constant. */
int64_t tn__stride(const tn__ranges *r, const tn_node *n, uint32_t at);
/* Is this size or index a multiple of `by`, as far as its form shows? */
bool tn__divisible(const tn_node *n, int64_t by);
double tn__extent(const tn_node *range); /* a constant, or an estimate */
double tn__volume(const tn__survey *p, uint64_t set);
double tn__closed_work(const tn__survey *p); /* in elements, of all that closes loops */
/* How well accesses to buffers walk along range j: contiguous good, constant fair, strided bad. */
double tn__walk_score(const tn__survey *p, uint32_t j);
/* Do the accesses walk along the outputs in `rows` rather than along the reductions? */
bool tn__walks_outputs(const tn__survey *p, uint64_t rows);
/* Does the extent of some loop depend on range j?  Then the lanes of j would not walk alike. */
bool tn__bounds_loops(const tn__ranges *r, uint32_t j);
/* May the turns of range j, one of all that is stored to buffers, be shared out in any order, all alike? */
bool tn__is_even(const tn__survey *p, uint32_t j);
bool tn__are_even(const tn__survey *p); /* ... of all the loops that stores have in common */
/* Is it done element by element, and nothing kept?  Every store is in all loops of outputs. */
bool tn__is_by_element(const tn__survey *p);
bool tn__has_rows(const tn__survey *p);      /* does it reduce, or store values of rows beside elements? */
bool tn__reads_results(const tn__survey *p); /* does it load from where it stores to? */
/* Does a loop stand inside of some of these, but not of all?  Were they one, it would run again for each turn of
 * that. */
bool tn__stands_between(const tn__ranges *r, uint64_t set);
/* Cuts range x into blocks of `by`: x = outer * by + inner, inner < min(by, rest).  Outer is like x; cut[0] and cut[1]
 * tell them, unless that is NULL. */
tn_node *tn__cut(tn__lowering *l, tn_node *body, tn_node *x, int64_t by, int outer_axis, int inner_axis,
                 tn_node **cut);
/* So, but inner < by: blocks are whole, and what lies beyond the end of x is for the caller to leave alone. */
tn_node *tn__cut_whole(tn__lowering *l, tn_node *body, tn_node *x, int64_t by, int outer_axis, int inner_axis,
                       tn_node **cut);
/* What closes loops with turns beyond the end, `range` among them, where `inside` does not hold: sums of their numbers
 * add nothing, stores leave memory alone. */
tn_node *tn__ignore_beyond(tn__lowering *l, tn_node *body, const tn_node *range, tn_node *inside);
/* Accesses whose index hangs on `by`, NULL: all, and not on `but`, NULL: nothing, where the gate holds alone */
tn_node *tn__gate_accesses(tn__lowering *l, tn_node *body, tn_node *gate, const tn_node *by, const tn_node *but);
/* The loop inside of such blocks, of this axis: x itself where it is no longer than one */
tn_node *tn__cut_in(tn__lowering *l, tn_node **body, tn_node *x, int64_t by, int axis);
/* The closers of ranges `gone` close `fresh` in the first one's place; everywhere else gone[i] becomes value[i]. */
tn_node *tn__exchange_ranges(tn__lowering *l, tn_node *body, tn_node *const *gone, tn_node *const *value, uint32_t n,
                             tn_node *const *fresh, uint32_t nfresh);
/* Ranges x, outermost first, as one of the first one's role, whose counter they are the quotients and remainders of. */
tn_node *tn__as_one(tn__lowering *l, tn_node *body, tn_node *const *x, uint32_t n, int axis, tn_node **one);
/* What a load or a store accesses */
const tn_node *tn__buffer_of(const tn_node *access);
/* Their indices and gates, and comparisons of counters */
tn_node *tn__simplify_accesses(tn_ctx *c, tn__arena *a, tn_node *body);
/* The index of every access over neighbours as base + neighbour, if that is what it is: see tn__is_packed.  The last
 * step: others undo it. */
tn_node *tn__show_neighbours(tn_ctx *c, tn__arena *a, tn_node *body);
tn_node *tn__retype(tn_ctx *c, tn_node *body, tn_node *x, int axis);
/* The reduction that closes this loop, as it is in the body now; NULL: none */
tn_node *tn__sum_over(tn__lowering *l, tn_node *body, const tn_node *range);
/* Memory as it is behind an effect on it */
tn_node *tn__behind(tn_ctx *c, tn_node *buf, tn_node *effect);
/* Scratch memory, of a thread or of all that a group's threads share, and what it is once the value stands at each
 * place of its n own loops */
tn_node *tn__scratch(tn__lowering *l, int dtype, int64_t elements);
tn_node *tn__filled(tn_ctx *c, tn_node *local, tn_node *at, tn_node *value, tn_node *const *own, uint32_t n);
/* Scratch memory that is filled anew for each turn of the groups' loop, though what it holds may be the same for all */
tn_node *tn__hold_in_blocks(tn__lowering *l, tn_node *body);
/* The value over these n loops, loaded from scratch memory that is filled over loops of its own, the last one in lanes;
 * or, where the value stands in the loop `lane` over lanes, for each lane by itself. */
tn_node *tn__kept_over(tn__lowering *l, tn_node *value, tn_node *const *x, uint32_t n, tn_node *lane);

/* Buffers, sizes and scratch memory of the kernel, from its parts' bodies and what it requires */
void tn__find_memory(tn__arena *a, tn_node *const *part, tn__kernel *k);

/* ---- the passes' files ---- */

/* widen.c: bf16 between loads and stores as f32 */
tn_node *tn__widen(tn_ctx *c, tn__arena *a, tn_node *body);
/* pick.c: sums of which one term counts, without their loops */
tn_node *tn__pick(tn__lowering *l, tn_node *body);
/* running.c: sums up to each turn of a loop, kept from turn to turn */
tn_node *tn__running(tn__lowering *l, tn_node *body);
/* ... by the threads of a group, to which the loops are given then; before others share the sum's own loop */
tn_node *tn__running_by_group(tn__lowering *l, tn_node *body);
/* group_scan.c: so, of a long loop, by a group's threads; NULL: they cannot */
typedef struct tn__run {
  tn_node *sum, *turn, *term, *value; /* the value of each term that counts for a turn */
  bool back, beside;                  /* those from the turn's own on, not up to it; without its own */
  bool fetched;                       /* only if what is summed up is fetched as memory lies */
} tn__run;
tn_node *tn__run_in_group(tn__lowering *l, tn_node *body, const tn__run *of);
/* Are there values that run along rows or columns short enough for a thread, which a group may fetch (tn__variant)? */
bool tn__has_short_runs(tn_ctx *c, const tn__target *target, tn_node *body);
/* group_tally.c: counts of terms by key, by a group's threads with tables of their own, or of those in step */
typedef struct tn__key_count {
  tn_node *sum, *turn, *term, *key; /* the key of each term: 0 <= key < keys */
  tn_node *with;                    /* what it is compared with */
  tn_node *outer;                   /* the groups' loop; NULL: there is one group */
  int64_t keys;
  bool by_number, beside; /* of the turn's number, else of its own key, of those up to it; without its own */
} tn__key_count;
bool tn__has_tables(const tn__lowering *l, const tn_node *term, int64_t keys);
tn_node *tn__tally_in_group(tn__lowering *l, tn_node *body, const tn__key_count *of);
/* ... The body over these n loops in place of the turns, whose number `at` they tell, its count being `count` */
tn_node *tn__count_for_turns(tn__lowering *l, tn_node *body, const tn__key_count *of, tn_node *at, tn_node *const *own,
                             uint32_t n, tn_node *count);
/* in_step.c: so, by tables that threads in step have together */
tn_node *tn__tally_in_step(tn__lowering *l, tn_node *body, const tn__key_count *of);
/* ... The n values of each turn, its count among what they are made of, over two loops of those threads, whose turn
 * `at` tells; what they load for each turn is loaded once, before all of them are made */
typedef struct tn__turn_values {
  tn_node *lane, *by, *at;
} tn__turn_values;
tn__turn_values tn__ranked_in_step(tn__lowering *l, const tn__key_count *of, tn_node **value, uint32_t n);
/* group_exchange.c: n sums of whole numbers by keys that are the turn's number, by a group's threads, which add them in
 * shared memory: may they; and the body in which they do.  Keys may be made of how many terms before each, of those of
 * its key, there are: `rank`, the turns of which are the terms, else NULL. */
typedef struct tn__key_sum {
  tn_node *sum, *term, *key, *value; /* of the terms whose key is the turn's number */
} tn__key_sum;
bool tn__may_exchange(tn__lowering *l, tn_node *body, int64_t places, const tn__key_sum *of, uint32_t n,
                      const tn__key_count *rank);
tn_node *tn__exchange_in_group(tn__lowering *l, tn_node *body, tn_node *turn, tn_node *outer, const tn__key_sum *of,
                               uint32_t n, const tn__key_count *rank);
/* line_sums.c: a sum of the terms of lines by their key, the turn's number, in tables that groups have for whole lines;
 * or the body with loops beside the turn as one, in which it is to be looked for again; NULL: it takes longer */
tn_node *tn__sum_lines(tn__lowering *l, tn_node *body, tn_node *turn, const tn__key_sum *of);
/* owned.c: rows that are added to places in order, by groups that own the places; first of all */
tn_node *tn__own_places(tn__lowering *l, tn_node *body);
/* Is it a body of rows that are added to places of their groups (tn__variant's `begun`)? */
bool tn__has_owned_places(tn_ctx *c, const tn__target *target, tn_node *body);
/* separate.c.  New loops for the nodes, in place of those of the set and of reductions inside of them: `to` for `from`,
 * of TN__MAX_RANGES at most; how many. */
uint32_t tn__renew_loops(tn__lowering *l, const tn__ranges *r, tn_node *const *node, uint32_t n, uint64_t set,
                         tn_node **from, tn_node **to);
tn_node *tn__separate(tn__lowering *l, tn_node *body);
/* split.c: long reductions as partial results of blocks; `rows` are gone through anyway, by as many blocks as groups
 * are there */
enum { TN__PARTIALS = 64 /* blocks of a split reduction, where threads share them out */ };
tn_node *tn__split_long(tn__lowering *l, tn_node *body);
tn_node *tn__split_rows(tn__lowering *l, tn_node *body, tn_node *rows);
/* sums_first.c: sums of rows that elements across these are made of as a part of their own */
tn_node *tn__sums_first(tn__lowering *l, tn_node *body);
/* optimise.c, and how its loops are written out (linearise.c) */
enum { TN__SLICE_WORK = 20000 /* instructions that are worth waking a thread for */ };
tn_node *tn__optimise_loops(tn__lowering *l, tn_node *body);
tn_node *tn__optimise_part(tn__lowering *l, tn_node *part, tn__part *out);
/* group.c: does a group work on a row (else each thread on its outputs)?  And the body shared out so; its threads, and
 * the groups of a block. */
bool tn__group_rows(tn__lowering *l, tn_node *part);
uint64_t tn__rows_of(const tn__survey *s); /* the outputs' loops each turn of which is a group's, or a thread's */
tn_node *tn__group_part(tn__lowering *l, tn_node *part, bool by_rows, tn__part *out);
/* neighbours.c: random numbers that the neighbours of a thread have in common */
tn_node *tn__share_draws(tn__lowering *l, tn_node *body);
/* ... all loops that stores share as the groups', n of them innermost in this order */
tn_node *tn__make_global(tn__lowering *l, tn_node *part, tn_node *const *inner, uint32_t n);
/* at_once.c: several turns at once of loops that threads go through alone */
tn_node *tn__at_once(tn__lowering *l, tn_node *part);
/* ... how many of a loop of this length that so many threads share, of elements of so many bytes; 1: it stays */
int64_t tn__turns_at_once(const tn_node *size, int64_t lanes, size_t bytes);
/* windows.c: several outputs of a thread whose windows overlap, before threads have their outputs; and then what these
 * windows have in common, in registers */
bool tn__has_windows(const tn__survey *s, const tn__variant *v);
tn_node *tn__windows_cut(tn__lowering *l, tn_node *part);
tn_node *tn__windows_hold(tn__lowering *l, tn_node *part, int group);
/* column_reduce.c: few outputs across rows, a few of them a group's; NULL if they are not. */
tn_node *tn__column_reduce(tn__lowering *l, tn_node *part, int *group);
/* patch.c: rows by columns of outputs for each thread, as the variant says; NULL: there are no two loops of outputs
 * whose turns load the same */
tn_node *tn__patch(tn__lowering *l, tn_node *part, tn__part *out);
bool tn__has_patches(const tn__survey *s, const tn__variant *v);
/* Blocks of groups that several rows by several columns for each thread come to; 0: there are none */
double tn__patch_count(tn__lowering *l, const tn__survey *s);
/* flat_rows.c: a loop over the elements of rows as one for each, where sums load their row; or body as it is */
tn_node *tn__cut_flat_rows(tn__lowering *l, tn_node *body, tn__sb *note);
bool tn__has_flat_rows(tn_ctx *c, const tn__target *t, const tn__survey *s);
/* product.c: one sum of products of two loads; of its ranges, which the factors hang on alone, together, and those that
 * are summed over. */
typedef struct tn__factors {
  tn_node *sum, *operand[2];
  uint64_t axis[2], batch, steps;
} tn__factors;
bool tn__factors_find(const tn__survey *s, tn__factors *out);
/* with rows, columns and steps as one range each, where there is such a sum */
tn_node *tn__factors_flatten(tn__lowering *l, tn_node *body);
/* the body, one sum of products over x alone, with products of 0 more, up to the size; itself if it is none */
tn_node *tn__factors_lengthen(tn__lowering *l, tn_node *body, tn_node *x, int64_t size);
/* tile.c: the body made ready for tiles if a form fits it; how many tiles that would be, of how many steps at a time,
 * and for how many a unit has room (0: none); the body with its product cut into them, NULL if no form fits */
tn_node *tn__tile_shape(tn__lowering *l, tn_node *body);
int64_t tn__tile_count(tn__lowering *l, tn_node *body, int64_t *steps, int64_t *beside);
tn__tile *tn__tile_part(tn__lowering *l, tn_node **body);
/* tally.c: integers added up at few places, by each group for itself first; the part itself where they are not */
tn_node *tn__tally(tn__lowering *l, tn_node *part);
/* barrier.c: where the threads of a group share memory */
void tn__place_barriers(tn_ctx *c, tn__arena *a, tn__part *part);
/* row_sums.c: sums over rows beside the rows' own loops.  The body with one range for both, NULL if there are none such
 */
tn_node *tn__unite_rows(tn__lowering *l, tn_node *body, tn_node **rows);
/* ... of a part that goes through rows: the sums are kept, one for each column, in LOCALs */
tn_node *tn__hold_columns(tn__lowering *l, tn_node *part);
/* Does it store a sum over rows that tn__hold_columns takes, beside what is reduced for each row? */
bool tn__is_held(const tn__ranges *r, const tn_node *store);
int tn__row_threads(const tn__target *target, double columns);                  /* of a group that does so, */
int64_t tn__groups_of_unit(const tn__target *target, double columns);           /* so many of them side by side, */
int64_t tn__row_groups(const tn__target *target, double rows, double columns);  /* and in all */
/* store_along.c: stores of elements in the loop of a sum that goes through them */
tn_node *tn__store_along(tn__lowering *l, tn_node *body);
/* equal_terms.c: without the loops of reductions whose terms are all the same along them */
tn_node *tn__leave_equal_terms(tn__lowering *l, tn_node *body);
/* unnest.c: maxima of maxima, and minima of minima, as one reduction */
tn_node *tn__unnest(tn__lowering *l, tn_node *body);
/* order.c: the loops of reductions as memory lies */
tn_node *tn__order_loops(tn__lowering *l, tn_node *body);
/* ... those of a set, outermost first, as what is loaded most of lies; gives how many */
uint32_t tn__as_memory_lies(const tn__survey *p, uint64_t set, tn_node **x);
/* ... how far an access moves by a step of a loop; 0: not, or not always as far */
int64_t tn__step_of(const tn__survey *p, const tn_node *access, const tn_node *range);
/* merge.c: loops that are one; short rows with what is the same in all of them, NULL if there are none such; with what
 * is the same all along each; and with what is loaded for each element by itself, *one being that loop, untouched where
 * there is none */
tn_node *tn__merge_loops(tn__lowering *l, tn_node *body);
tn_node *tn__repeat(tn__lowering *l, tn_node *body);
tn_node *tn__spread_rows(tn__lowering *l, tn_node *body);
tn_node *tn__fetch(tn__lowering *l, tn_node *body, tn_node **one);
/* What an element costs that is loaded or stored by itself, in additions of vectors.  Measured on rows of 2 to 63
 * terms, of f32 and bf16, that a core's second cache holds. */
#define TN__FETCHED 1.4
/* jam.c: several outputs at a time, which share what they load; the part itself if there are none such */
tn_node *tn__jam(tn__lowering *l, tn_node *part);
/* ... which of the output loops in `columns` has the lanes of a sum of pairs, whose two operands each hang on another,
 * if that takes less than lanes along its terms: what it loads is turned (turn_columns.c); -1 */
int tn__columns_of_pairs(const tn__lowering *l, const tn__survey *p, uint64_t columns);
/* ... and how many outputs of two loops go together; 0: of no more than one */
int64_t tn__patch_of_sums(tn__lowering *l, tn_node *part);
/* strips.c: what columns go down again for other outputs, by strips that a thread's cache holds; the part itself if
 * there is no need */
tn_node *tn__strips(tn__lowering *l, tn_node *part);
tn_node *tn__strips_of_rows(tn__lowering *l, tn_node *part); /* ... so, of rows of a patch of sums */
/* short_rows.c: the one of these loops of rows across which lanes take the least time, -1 where they take less along
 * the rows' terms, which are worth vectors from `least` on */
int tn__across_rows(const tn__lowering *l, const tn__survey *p, uint64_t rows, uint32_t terms, double least);
/* rows.c */
tn_node *tn__share_loops(tn__lowering *l, tn_node *body);
tn_node *tn__keep_rows(tn__lowering *l, tn_node *body);
/* row_loops.c: so, of a part whose rows are groups', after the several loops of each row have become one */
tn_node *tn__keep_loops_of_rows(tn__lowering *l, tn_node *part);
/* Elements of a row that each thread of a group may keep in registers, if it keeps so many rows (group.c) */
int64_t tn__row_slots(const tn__lowering *l, int64_t group, int rows);
/* share.c: the outermost loops that all stores and reductions share as one, for threads to share out; all around
 * `inner`, where that is not NULL */
tn_node *tn__share_out(tn__lowering *l, tn_node *part, const tn_node *inner);
/* ... where there are many turns in all, but no loop of many; and for stores that have no loop in common */
tn_node *tn__share_rows(tn__lowering *l, tn_node *part);
/* Blocks of few rows, as many as threads are to have, where nothing has been shared out yet */
tn_node *tn__share_blocks(tn__lowering *l, tn_node *part);
tn_node *tn__share_stores(tn__lowering *l, tn_node *part);
/* behind.c: what elements that are stored behind reductions have in common of their column, worked out once for it; and
 * these elements shared out by blocks, where that takes less, if nothing has been shared out yet */
tn_node *tn__once_for_columns(tn__lowering *l, tn_node *part);
tn_node *tn__share_behind(tn__lowering *l, tn_node *part);
/* On all devices: what is stored once for a row whose blocks are stored beside it, by the first of these */
tn_node *tn__store_once(tn__lowering *l, tn_node *part);
/* Of parts without reductions, values of rows with their first elements, so that all stores stand in the same loops */
tn_node *tn__store_by_element(tn__lowering *l, tn_node *part);
/* turn.c: by tiles what lies across the lanes, for threads that share them; NULL if nothing does */
tn_node *tn__turn(tn__lowering *l, tn_node *part);
tn_node *tn__turn_runs(tn__lowering *l, tn_node *part); /* so, rows that are run along, a few turns each */
/* ... the two loops by which elements cost least, and whether anything then lies across; and does that of an access? */
typedef struct tn__turned {
  uint32_t from, to; /* ranges: along `to` go the lanes, along `from` lies what lies across */
  double bytes;      /* of an element of all that does */
} tn__turned;
bool tn__turned_find(const tn__survey *p, const tn__target *target, tn__turned *t);
bool tn__is_across(const tn__survey *p, const tn_node *n, const tn__turned *t);
/* ... the loop, neither of the two, by which what lies along one of them goes on in memory where that ends; NULL */
tn_node *tn__next_of_lines(const tn__survey *p, const tn__turned *t, uint32_t along);
/* turn_groups.c: so by tiles that a group's threads share, as the variant says; NULL if nothing lies across */
tn_node *tn__turn_in_groups(tn__lowering *l, tn_node *part, tn__part *out);
/* turn_columns.c: ... and what reductions load across their lanes; the part itself if nothing is */
tn_node *tn__turn_columns(tn__lowering *l, tn_node *part);
/* linearise.c */
uint32_t tn__cut_parts(tn_ctx *c, tn__arena *a, tn_node *body, tn_node **part); /* TN__OWN_PARTS at most */
void tn__linearise(tn_ctx *c, tn__arena *a, tn_node *body, tn__part *part);
#endif
