/* What kernels are lowered for.  Prefix tn__target_.
 *
 * A backend fills one in for each of its devices.  Lowering reads nothing else of a device, and the schedule nothing
 * else but which libraries it has: what they choose follows from these facts, as the functions below work it out. */
#ifndef TN_DEVICE_TARGET_H
#define TN_DEVICE_TARGET_H
#include "lower/kernel.h"

/* Rows that a group of a GPU keeps take at most so much: a unit with 228 KiB, the largest of today, runs two such. */
enum { TN__KEPT_BYTES = 96 << 10 };
/* Threads that run in step, where nobody says how many */
enum { TN__USUAL_SUBGROUP = 32 };

typedef struct tn__target {
  bool interprets;  /* no code generation: kernels stay simple (no lanes, no splitting) */
  int lane_bytes;   /* of the accumulators of a vector loop, where lanes are those of vectors */

  double near;        /* bytes that a unit, or a thread of a processor, caches for itself, */
  double far;         /* and all units for each other: */
  float far_rate;     /* which gives so many times as much in a second as memory does */
  size_t kept;        /* bytes that rows which are kept may take: the rest of what there is is better used as cache */

  int group;        /* threads of a work group, at most; 0: no groups, and none of the rest, which is of groups */
  int subgroup;     /* threads that run in step: groups are made of whole ones; 0: not said, TN__USUAL_SUBGROUP */
  int units;        /* processors that run groups side by side */
  int unit_threads; /* threads that keep a unit busy */
  int access;       /* bytes that a thread accesses at once, at most */
  int sector;       /* bytes that memory gives at once */
  bool exchanges;   /* threads that run in step exchange values without memory */
  size_t adds;      /* sizes, or-ed, of the integers that threads may add to in memory at once, or the like */
  bool copies;      /* what threads ask for is copied to where they share memory while they go on */
  bool joins;       /* a launch may be of several kernels, abreast or one after the other */
  size_t registers; /* bytes of values that the threads of a unit hold without memory */
  size_t shared;    /* bytes that the threads of a group may share; `kept` are of those */
  double memory;    /* bytes that the device has; 0: not said */

  /* Costs, 0 where the device has not said.  Those that stand for multiply-adds are of f32, as threads do them. */
  float balance;    /* multiply-adds that are done while memory gives one f32 */
  float fetch;      /* multiply-adds that a unit does in the time in which its threads take an element from its cache */
  float rate;       /* multiply-adds that a unit does in a second */
  float thread_lanes; /* multiply-adds that a unit does in a cycle */
  float latency;      /* seconds from asking memory to having what was asked for */
  float launch;     /* seconds from the end of a kernel to the begin of the next one, which waits for it */
  float start;      /* seconds from the start of a block to that of the next one, wherever on the device */
  float library;    /* how many times as fast as by tiles large products are by the device's library; 0: as fast */
  int row_bytes;    /* where rows are multiples of so many, it multiplies half floats */
  float row_gain;   /* so many times as fast as threads do multiply-adds; elsewhere little faster.  0: no matter */

  bool planes;        /* a library convolves what stands in planes only */
  float widening;     /* multiply-adds that own kernels do while an element of half floats is converted for a library
                       * that has none of them; 0: it has */

  const tn__tile_form *tiles; /* what products by tiles are made of (lower/tile.c) */
  uint32_t ntiles;            /* 0: there are none */
} tn__target;

/* Turns of a form, at least, of a block of a split sum by tiles */
enum { TN__TILE_TURNS = 8 };

/* Multiply-adds of a product, or a convolution, that are worth a call, wherever: fewer take less time than a call. */
enum { TN__LEAST_CALL = 512 };

/* Is there a form for products of the dtype? */
bool tn__target_multiplies(const tn__target *t, int dtype);

/* ---- times: in multiply-adds of the whole device ----
 *
 * They are numbers for every target: one that says nothing of itself has one unit, whose groups are of one thread,
 * which accesses one element at once, and fetching and launching take no time. */

/* Rows by columns, as often as `batch`, each element a sum of so many steps. */
typedef struct tn__product_size {
  double batch;
  int64_t rows, cols, steps;
  int dtype;
} tn__product_size;

/* All kernels that one launch is of (joins) take as many times as long as a launch, at most: for the registers of one
 * there are fewer threads of another, which costs longer ones more than that. */
enum { TN__JOINT_LAUNCHES = 8 };

/* Threads of a group, as a rule: a unit has room for several, some of which compute while others wait */
static inline int tn__usual_group(const tn__target *t) { return t->unit_threads > 8 ? t->unit_threads / 8 : 1; }

/* Bytes of shared memory that a group's work may plan with: beside it stands what threads tell each other */
static inline double tn__target_room(const tn__target *t) {
  return (double)t->shared - 2 * (double)sizeof(double) * t->group;
}

/* A running sum by all threads of a group: so many neighbours of a thread at most, and turns of the loop.  A few turns
 * a thread takes one after the other (TN__THREADS_TURNS). */
enum { TN__SCAN_OWN = 16, TN__THREADS_TURNS = 64 };
static inline int64_t tn__scan_turns(const tn__target *t) { return (int64_t)t->group * TN__SCAN_OWN; }
/* Of columns, of elements of so many bytes: elements that the threads of a group hold at most, and how many columns
 * they go along side by side. */
int64_t tn__scan_tile(const tn__target *t, size_t size);
int64_t tn__scan_columns(const tn__target *t, size_t size, int64_t columns);

/* Counts by a key of few values: keys and terms of a group at most; each thread has a table of its own, in which so
 * many keys have their counts in one word of 64 bits, and loads or stores so many neighbours at once, or those that run
 * in step have one together. */
enum { TN__TALLY_KEYS = 256, TN__TALLY_TERMS = 4096, TN__TALLY_PARTS = 4, TN__TALLY_NEAR = 4 };
bool tn__tallies_in_step(const tn__target *t);
int tn__tally_threads(const tn__target *t); /* of such a group; 0: there is no room */
bool tn__target_tallies(const tn__target *t, int64_t terms, int64_t keys); /* do they, of so many terms and keys? */

/* May a group's threads exchange elements of so many words of 32 bits, each of which goes to one of as many places as
 * there are elements?  They add them in shared memory, where each place has its words. */
bool tn__target_exchanges(const tn__target *t, int64_t places, int words);
/* ... and may they, in step, first count how many before each have its key? */
bool tn__target_ranks(const tn__target *t, int64_t places, int words);
enum { TN__MOST_EXCHANGED = 4 /* words */ };

/* Do groups go through updates that are added in order, a thread a column, and find those of their own places together
 * (lower/owned.c)? */
bool tn__target_owns(const tn__target *t);
/* ... of rows of so many columns: in how many classes places are, and how many blocks of so many columns there are.  Of
 * narrow rows a group has several abreast, each of which has threads of its own. */
typedef struct tn__owners {
  int64_t classes, blocks;
  int columns, abreast;
} tn__owners;
tn__owners tn__owners_of(const tn__target *t, int64_t places, int64_t width);

/* Sums of the terms of lines[outer, updates, inner] by place, of so many for each line (lower/line_sums.c); bytes of a
 * sum, and of what is added, 0: it is a constant */
typedef struct tn__line_size {
  int64_t outer, places, inner, updates;
  size_t sum, value;
} tn__line_size;
/* ... a group has so many lines, whose terms it fetches as memory lies before a thread goes along each */
typedef struct tn__line_share {
  int64_t outer, inner, beside; /* groups in a unit */
  int threads;
} tn__line_share;
/* Is there room for such, on devices that are trusted with it, and does it take less than if each place asked all terms
 * of its line? */
bool tn__target_sums_lines(const tn__target *t, const tn__line_size *s, tn__line_share *out);
/* In multiply-adds of the whole device: so; and if so many ask each term of their line */
double tn__target_line_sums(const tn__target *t, const tn__line_size *s, const tn__line_share *by);
double tn__target_line_asks(const tn__target *t, const tn__line_size *s, int64_t askers);

/* By plain loops: a thread computes as many elements as it may access at once, which share what it loads of one factor.
 * By tiles: they compute what is outside of the edges, too, begin and end, and fetch each factor once for a tile; an
 * element of a form that is cheaper counts as at least half a multiply-add.  So no form that takes less than plain
 * loops does more than twice their work.
 * work: if there are groups for all units; time: as many as there are, sums split into blocks where that helps. */
double tn__target_plain_work(const tn__target *t, const tn__product_size *p);
double tn__target_plain_time(const tn__target *t, const tn__product_size *p);
double tn__target_tile_work(const tn__target *t, const tn__tile_form *f, const tn__product_size *p);
double tn__target_tile_time(const tn__target *t, const tn__tile_form *f, const tn__product_size *p);
/* Do tiles take less time than plain loops, whichever of rows and columns comes to lie along memory?  For operands that
 * lie in any way: forms that need whole tiles divide the sizes; of the others, only those of f32 need no runs in
 * memory.  Dear forms do not count: what is left to them a library does as well. */
bool tn__target_fits(const tn__target *t, const tn__product_size *p);

/* What a launch takes, and what memory gives meanwhile in bytes; 0 if the device has not said. */
double tn__target_launch_work(const tn__target *t);
/* So, or as much as is usual. */
double tn__target_launch_guess(const tn__target *t);
double tn__target_launch_bytes(const tn__target *t);
/* Do products of so many rows, or columns, wait for memory only, by a form of tiles that covers them? */
bool tn__target_is_narrow(const tn__target *t, double lines);
/* Does memory take longer to read and write a product of f32 once more than tiles longer than the library to compute
 * it, over so many steps?  Always, where the library is no faster. */
bool tn__target_is_shallow(const tn__target *t, double steps);
/* Does a library that has none of half floats take longer to convert a product's elements than own kernels for all of
 * it?  As where it is thin, whichever way. */
bool tn__target_widens_in_vain(const tn__target *t, const tn__product_size *p);
/* Elements whose multiples the rows of a library's product should be; 1: of any length.  Does a product of such sizes
 * take less time than as it is?  odd: those of its matrices whose rows are of other lengths now; copied: those that are
 * to be read and written once more if their sizes differ: others are made, or read, by kernels that do so anyway. */
enum { TN__LEFT = 1, TN__RIGHT = 2, TN__RESULT = 4 };
int64_t tn__target_row_elements(const tn__target *t, int dtype);
bool tn__target_pads_product(const tn__target *t, const tn__product_size *now, const tn__product_size *padded,
                             unsigned odd, unsigned copied);
/* Libraries convolve with fewer multiplications (Winograd's way) where there is so much to do that further launches do
 * not count; which gains nothing where products of c by k channels wait for memory. */
bool tn__target_is_much(const tn__target *t, double work);
bool tn__target_is_thin(const tn__target *t, double channels, double count);
/* Do all threads take less time for so few long sums of f32 products than one unit that computes all of them, step by
 * step, as libraries do?  (Gradients of filters, H200: 2.1 ns a place, of 9 elements and of 540, where threads of all
 * units that share out the places take 0.3 for 540.) */
bool tn__target_shares_sums(const tn__target *t, double sums);
#endif
