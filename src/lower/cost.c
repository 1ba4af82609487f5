/* What a kernel takes on a device with work groups, predicted from its linear program and what the target says of the
 * device: nothing runs.  It only ranks mappings, all of which are right.
 *
 * A part takes as long as the slowest of
 *
 *   memory     sectors that come from, or go to, memory, at its rate
 *   cache      sectors that the units ask of the cache that they share, at that one's rate; it gives two that lie side
 *              by side at once, and takes as long for one alone (measured: columns of f32 1600 elements apart at 0.5 of
 *              the rate of whole lines, turned bf16 at 0.6)
 *   stores     sectors that go there: what accesses of a thread, one behind the other, store to a sector goes out each
 *              by itself, and the cache takes longer for a part than for a whole one (measured on an H200, at most:
 *              rows of three numbers by 18.5 million parts 120 us, distances by 16.3 million 125, running sums by
 *              14.8 million 140)
 *   requests   lines that the units' accesses touch: an access of threads that run in step takes a turn for each line
 *   banks      turns of accesses to memory that groups share: one for each element of a bank
 *   work       instructions, of which a unit issues as many as multiply-adds
 *   starts     blocks, of which the device starts one after the other, wherever there is room
 *   waiting    groups side by side, as many as a unit has room for, each of which waits for memory where a loop has it
 *              wait, and for its threads where they meet, and does an instruction at a time
 *
 * and a launch; where threads meet over what they reduce, memory and work hide each other only as far as there are
 * several blocks in a unit; where groups own places, the time until they know which updates are theirs comes before all
 * that.  What is the same in all turns of a loop is loaded in front of it, unless it stores something.  Which sectors
 * an access touches is found by computing its index for the threads that run in step, and how it moves with each loop
 * by computing it for the loop's second turn.  Loops from the inside out: what a load asks for in one turn, for all
 * threads of the block, is not asked for again in the next one if it is still in a cache; what is stored goes out each
 * time.  What an access finds that the kernel has touched before (a second reading of a row) comes from the cache that
 * holds a group's share.
 *
 * What is loaded by a loaded number may lie anywhere up to that number's bound.  What a unit has near of that, as of a
 * short row, comes from memory once.  Of the rest each element comes in a sector of its own: from the cache that units
 * share, if that has what all groups load that run side by side, or from memory, which takes as long for it as for
 * several that lie side by side.  Of several such loads from the same, most find what another one has asked for, or go
 * nowhere: sums of runs load as many as a run may have. */
#include "lower/launch_extent.h"
#include "lower/lower.h"
#include "lower/spots.h"
#include <math.h>
#include <stdlib.h>

enum {
  SECTORS = 4,         /* of a line */
  BANKS = 32,          /* of shared memory, of words of 4 bytes */
  UNROLLED = 64,       /* turns of a loop that is written out that are looked at */
  WRITTEN_OUT = 128,   /* accesses in all turns of loops that compilers unroll whole, by what they made of windows */
  AT_ONCE = 2,          /* turns of a loop whose loads are on their way together, */
  AT_ONCE_OF_FEW = 4,   /* and where threads have twice the registers that they need */
  WORDS_BEGUN = 24,     /* or words, for places that a group owns (tn__owns_places), */
  WORDS_LOADED = 16,    /* and for rows that are added there, */
  LEAST_LOADED = 4,     /* of so many of these at least; */
  TURNS_ASKED = 16,     /* updates that each thread asks at once whether they are wanted, */
  MOST_ASKED = 4096,    /* all of a group's no more than so many, */
  MEETINGS_ASKED = 3,   /* barriers of that, */
  MEETINGS_SORTED = 5,  /* and until those that are wanted are in order; */
  FEW_SORTED = 128,     /* of no more than so many (turns_cuda.inc), */
  COMPARED = 6,         /* cycles in which each thread compares one of few with its own, */
  ADDED_STEPS = 14,     /* instructions that say where a row is, and whose sum it goes to (read in SASS) */
  PLAIN_REGISTERS = 32, /* of a thread, beside what it keeps, */
  LEAST_REGISTERS = 16, /* or of which some are what it keeps */
  OWNER_REGISTERS = 44, /* or of one that owns places */
  FEW_LINES = 8,        /* of a row whose last one is a part */
  STEP_BIT = 3, STEP_REST = 10, /* instructions of a count of threads in step: for each bit, and once */
  WIDE_PAIR = 7,        /* instructions for the greater of two f64 */
  PORT = 2,             /* sectors that a unit takes from outside in a cycle */
  STARTS = 2,           /* blocks that are started for each that there is room for, at least, */
  STREWN = 6,           /* sectors in the time of one that memory gives alone, far from all others (measured: 7) */
  PARTS_BESIDE = 4,     /* of the blocks that run side by side, whose begins tell how far they reach */
  SHARE_OF_STARTS = 4   /* or as many as take so much less than all the rest */
};
static const double MOST_OF = 0.75; /* of a sector: so much is as good as all */
static const double STORED_PART = 1.4; /* whole sectors in the time of one of which a part is stored */
/* Times as long as otherwise takes what asks for parts of rows' lines, by warps that meet in each turn: f32[41863,352]
 * normalized by groups across 8 rows took 45 to 49 us on an H200, by groups of one row 31 to 33; softmax of
 * bf16[50832,360] and its gradient 51 and 74, by warps 34 and 57.  Rows that begin so, too, by those who own them:
 * f32[500000,100] 176, and 143 by a launch before, of half floats 155 and 122, f16[32768,512] 69 and 53. */
static const double LINE_PART = 1.45;
static const double EXCHANGE = 25, MEETING = 60; /* cycles: values between threads in step, a barrier; */
static const double BRANCH = 80; /* and until what stands behind a branch has begun, though none takes it (measured) */

typedef struct loop {
  tn_node *range;
  double turns;
  bool lanes, unrolled;
  bool repeats;     /* something is stored in it, or threads meet: the compiler hoists no load out of it */
  bool waits;       /* for memory in each turn */
  double together;  /* turns whose loads are on their way together */
} loop;

/* By the language's compiler */
static bool is_written_out(const loop *o) { return o->unrolled || (!o->lanes && isinf(o->together)); }

typedef struct touch { /* by an access to a buffer */
  tn_node *access;
  double sectors, lines;      /* of the threads in step, in one turn of everything */
  double alone;               /* times that a sector takes of the cache that units share: 1, or up to 2 */
  double stored;              /* ... to be stored there, more where accesses have parts of it; 0: it is loaded */
  double requests;            /* accesses of a block's warps, in a turn of the groups' loop */
  double from_unit, of_group; /* sectors: that miss what a unit caches; that are different, in a group's turn */
  double of_all;              /* ... and in all turns */
  int64_t first;              /* place of the first thread's element, in the first turn of everything */
  bool again;                 /* the group, or those beside it, touched these before, */
  bool strewn;                /* it loads by loaded numbers */
  bool shared;                /* and all groups touch the same */
  bool parted;                /* threads in step, which meet others, ask for parts of lines of several rows */
} touch;

typedef struct look {
  tn__arena *a;
  const tn__target *t;
  const tn__kernel *k;
  const tn__part *p;
  tn__spots *spots;
  double blocks, warps, resident; /* turns of a block's groups; of a block; blocks that a unit has room for */
  double units;                   /* that may run blocks */
  double clock;                   /* cycles in a second */
  tn__vec(loop) open;
  tn__vec(touch) touched;
  tn__map steps; /* what hangs on the turns of loops that are written out: which step, below */
  tn__map close; /* values that need not be computed to all bits: by shorter functions (near.c) */
  double work, waiting; /* instructions of threads, of a block; cycles, of a block */
  double branches;      /* that a thread comes to */
  bool alone;           /* all turns are one block's */
  bool asked;           /* what the block waits for first has been asked for */
  double banks;         /* turns of shared memory, of a block */
  tn__turns begins;     /* what places begin with that a group owns, and */
  tn__turns owned;      /* updates that come behind these; store NULL: none do */
  double asking;        /* cycles in which a block asks for nothing but which of these are wanted */
} look;

static double turns_of(const tn_node *range) {
  int64_t v;
  if (tn__const_int(range->src[0], &v)) return (double)v;
  return range->src[0]->hi < ((int64_t)1 << 40) ? (double)range->src[0]->hi : TN__TYPICAL;
}

/* ---- addresses ---- */

static int compare(const void *x, const void *y) {
  int64_t a = *(const int64_t *)x, b = *(const int64_t *)y;
  return (a > b) - (a < b);
}

/* Pieces of `bytes` that n elements at these indices lie in; at is sorted. */
static double pieces(const int64_t *at, int n, int64_t size, int64_t run, int64_t bytes) {
  double count = 0;
  int64_t last = INT64_MIN;
  for (int i = 0; i < n; i++) {
    int64_t first = at[i] * size / bytes, end = (at[i] * size + run * size - 1) / bytes;
    if (first <= last) first = last + 1;
    if (end >= first) count += (double)(end - first + 1), last = end;
  }
  return count;
}

/* In times of a whole sector, what the shared cache takes for a store of n runs at these indices; at is sorted. */
static double time_of_store(const int64_t *at, int n, int64_t size, int64_t run, int64_t sector) {
  double whole = 0, all = pieces(at, n, size, run, sector);
  for (int i = 0, k; i < n; i = k) { /* runs that follow each other are one */
    int64_t end = (at[i] + run) * size, first = (at[i] * size + sector - 1) / sector;
    for (k = i + 1; k < n && at[k] * size <= end; k++) end = (at[k] + run) * size;
    if (end / sector > first) whole += (double)(end / sector - first);
  }
  return whole + STORED_PART * (all - whole);
}

/* How many times as many sectors a loop of so many turns touches as one turn: each turn others, or partly the same.  */
static double spread(const int64_t *x, const int64_t *y, int n, int64_t size, double sectors, double turns,
                     int sector) {
  int64_t least = INT64_MAX;
  for (int i = 0; i < n; i++) {
    int64_t by = llabs(y[i] - x[i]) * size;
    if (by < least) least = by;
  }
  if (!n || !least) return 1;
  double each = sectors / n * sector; /* bytes of a thread's share */
  return (double)least >= each ? turns : fmax(1, turns * (double)least / each);
}

/* The places of all turns of an unrolled loop, sorted, for so many of the threads in step; how many */
static int places_of(const look *l, const tn_node *x, const loop *o, int threads, int64_t *out) {
  int n = 0;
  for (int64_t turn = 0; turn < UNROLLED && (double)turn < o->turns; turn++) {
    int64_t at[TN__LANES];
    int active = tn__spots_at(l->spots, x, &(tn__spot){.step = o->range, .turn = turn}, at);
    if (active > threads) active = threads;
    for (int i = 0; i < active; i++) out[n++] = at[i];
  }
  qsort(out, (size_t)n, sizeof *out, compare);
  return n;
}

/* Different ones of a thread: the others are the same instruction once more, which the compiler leaves out. */
static double different(const look *l, const tn_node *x, const loop *o) {
  int64_t at[UNROLLED];
  int n = places_of(l, x, o, 1, at), count = n > 0;
  for (int i = 1; i < n; i++) count += at[i] != at[i - 1];
  return count * fmax(1, o->turns / UNROLLED);
}

/* The innermost loop where it is unrolled; NULL */
static const loop *unrolled_around(const look *l) {
  const loop *o = l->open.n ? &l->open.v[l->open.n - 1] : NULL;
  return o && o->unrolled ? o : NULL;
}

/* Are they one wide access?  Neighbours of which there is no such number are accessed one by one. */
static bool is_wide(const tn_node *access, const tn_node *neighbours) {
  return tn__is_packed(access, neighbours) && tn__wide_bytes(access, neighbours);
}

/* ---- what is touched ---- */

static bool in_lanes(const look *l) {
  for (uint32_t i = 0; i < l->open.n; i++)
    if (l->open.v[i].lanes) return true;
  return false;
}

/* Turns of the loops around, those of threads left out */
static double serial_turns(const look *l) {
  double n = 1;
  for (uint32_t i = 0; i < l->open.n; i++)
    if (!l->open.v[i].lanes) n *= l->open.v[i].turns;
  return n;
}

/* Open loops in each turn of which an access with such places is done, a bit for each: that it hangs on, or that are
 * not left by what they repeat, and those around.  A thread's neighbours are written out, so theirs may leave. */
static uint64_t repeated_in(const look *l, const tn_node *n, const tn_node *x) {
  bool all = n->op != OP_LOAD || n->src[0]->op != OP_PARAM;
  uint64_t set = 0;
  for (uint32_t i = l->open.n; i && i--;) {
    const loop *o = &l->open.v[i];
    bool hangs = all || o->repeats || o->lanes;
    hangs = hangs || tn__spots_hang_on(l->spots, x, o->range);
    if (hangs && i < 64) set |= 1ull << i;
    all |= hangs && !o->lanes && !o->unrolled;
  }
  return set;
}

/* Warps that have something to do: all, but in loops over fewer lanes */
static double warps_at_work(const look *l) {
  for (uint32_t i = 0; i < l->open.n; i++)
    if (l->open.v[i].lanes && !l->p->across)
      return fmin(l->warps, ceil(l->open.v[i].turns * tn__groups_of_block(l->p) / TN__LANES));
  return l->warps;
}

/* Do all groups touch the same few, which a unit then has near? */
static bool stays_in_unit(const look *l, const touch *x) {
  return x->shared && 2 * x->of_group * l->t->sector <= l->t->near;
}

/* Where loads by loaded numbers may go: so many bytes that a group, or all that run beside it, may load from; whether
 * all groups load from the same. */
typedef struct reach {
  double of_group, of_all;
  bool same;
} reach;

/* How far the first thread's element lies from the one at `from`, in elements */
static double away(const look *l, const tn_node *x, tn__spot at, double from) {
  int64_t out[TN__LANES];
  at.first = true;
  return tn__spots_at(l->spots, x, &at, out) ? fabs((double)out[0] - from) : 0;
}

/* As if all lay one after the other: the threads in step, the block's others, the loops' turns. */
static reach reach_of(const look *l, const tn_node *x, int64_t size) {
  int64_t lane[TN__LANES];
  int n = tn__spots_at(l->spots, x, &(tn__spot){.loaded = TN__LOADED_LEAST}, lane);
  double first = n ? (double)lane[0] : 0, own = 1;
  qsort(lane, (size_t)n, sizeof *lane, compare);
  own += n ? (double)lane[n - 1] - (double)lane[0] : 0;
  own += away(l, x, (tn__spot){.loaded = TN__LOADED_GREATEST}, first);
  own += away(l, x, (tn__spot){.loaded = TN__LOADED_LEAST, .warp = (int64_t)l->warps - 1}, first);
  double side = fmin(l->resident * l->units, l->blocks); /* while each thread loads one */
  for (uint32_t i = 0; i < l->open.n; i++) {
    const loop *o = &l->open.v[i];
    tn__spot last = {.loaded = TN__LOADED_LEAST, .step = o->range, .turn = (int64_t)o->turns - 1};
    if (!o->lanes && tn__axis_of(o->range) != AX_GLOBAL) own += away(l, x, last, first);
    if (o->unrolled) side /= o->turns;
  }
  double all = own;
  for (int part = 1; part <= PARTS_BESIDE; part++) {
    tn__spot beside = {.loaded = TN__LOADED_LEAST, .block = (int64_t)(side * part / PARTS_BESIDE)};
    all = fmax(all, own + away(l, x, beside, first));
  }
  bool same = away(l, x, (tn__spot){.loaded = TN__LOADED_LEAST, .block = 1}, first) <= 0 &&
              away(l, x, (tn__spot){.loaded = TN__LOADED_LEAST, .block = (int64_t)l->blocks - 1}, first) <= 0;
  return (reach){own * (double)size, all * (double)size, same};
}

/* What of it a unit has near, for all groups that it runs: 1 is all. */
static double near_of(const look *l, const reach *r) {
  return fmin(1, l->t->near / (r->of_group * (r->same ? 1 : l->resident)));
}

/* Bytes of a row of a group's places, where that is no whole number of the group's columns; else INFINITY */
static double bytes_of_row(const tn__turns *of, int64_t size) {
  double bytes = INFINITY;
  for (uint32_t i = 0; i < of->inside.n; i++) {
    int64_t width;
    const tn_node *x = of->inside.v[i];
    if (x->op == OP_LT && tn__const_int(x->src[1], &width)) bytes = (double)(width * size);
  }
  return bytes;
}

/* Is it one of what a group's places begin with, by warps many of which do not have a whole line each? */
static bool begins_by_parts(const look *l, int64_t size) {
  bool begins = false;
  if (!l->begins.store) return false;
  for (uint32_t i = 0; i < l->open.n; i++) begins |= l->open.v[i].range == l->p->ins[l->begins.start];
  double line = SECTORS * l->t->sector;
  return begins && (bytes_of_row(&l->begins, size) < FEW_LINES * line || (double)(TN__LANES * size) < line);
}

static void look_at(look *l, tn_node *n) {
  const tn__target *t = l->t;
  loop *waits = NULL; /* for this load, in each turn */
  int64_t base[TN__LANES], moved[TN__LANES], sorted[TN__LANES], size = (int64_t)tn__size_of(n->src[0]->dtype), run = 1;
  tn_node *neighbours = NULL;
  touch x = {.access = n};
  for (uint32_t i = 0; i < l->open.n; i++)
    if (l->open.v[i].unrolled && is_wide(n, l->open.v[i].range)) {
      neighbours = l->open.v[i].range;
      run = (int64_t)l->open.v[i].turns;
    }
  const tn_node *places = n->src[1];
  x.strewn = n->op == OP_LOAD && tn__spots_loaded(l->spots, places);
  reach to = x.strewn ? reach_of(l, places, size) : (reach){0};
  tn__spot at = {0};
  int active = tn__spots_at(l->spots, places, &at, base);
  if (!in_lanes(l) && active) active = 1; /* all threads the same */
  memcpy(sorted, base, sizeof sorted);
  qsort(sorted, (size_t)active, sizeof *sorted, compare);
  int64_t piece = run * size > TN__WIDE ? TN__WIDE / size : run; /* of one access */
  double accesses = (double)(run / piece);
  x.sectors = pieces(sorted, active, size, run, t->sector);
  x.lines = pieces(sorted, active, size, piece, SECTORS * t->sector);
  x.alone = 2 * pieces(sorted, active, size, run, 2 * t->sector) / fmax(1, x.sectors);
  if (n->op == OP_STORE)
    x.stored = accesses * time_of_store(sorted, active, size, piece, t->sector) / fmax(1, x.sectors);
  uint64_t repeated = repeated_in(l, n, places);
  for (uint32_t i = l->open.n; i && i-- && n->op == OP_LOAD;) {
    loop *o = &l->open.v[i];
    if (!(repeated >> i & 1) || o->lanes || o->unrolled) continue;
    waits = tn__axis_of(o->range) != AX_GLOBAL ? o : NULL;
    break;
  }
  bool rows_apart = active > 1 && llabs(base[1] - base[0]) * size >= SECTORS * t->sector;
  x.parted = (l->p->across && rows_apart && x.lines * SECTORS >= 2 * x.sectors) || begins_by_parts(l, size);
  double warps = warps_at_work(l), room = t->near / (double)t->sector / l->resident,
         bytes = active * (double)(size * run);
  x.of_group = x.from_unit = x.sectors;
  x.requests = warps * accesses;
  x.first = active ? base[0] : 0;
  double beside = 1; /* times as many sectors, of all warps of the block */
  double of_lines = SECTORS * x.lines; /* a cache has room for a line of which it has but one sector */
  if (warps > 1 && in_lanes(l)) {
    at = (tn__spot){.warp = 1};
    int m = tn__spots_at(l->spots, places, &at, moved);
    beside = spread(base, moved, m < active ? m : active, size, x.sectors, warps, t->sector);
    bytes *= m && moved[0] != base[0] ? warps : 1;
  }
  /* loops from the inside out, then the block's other turns */
  for (uint32_t i = l->open.n; i && i--;) {
    const loop *o = &l->open.v[i];
    if (o->lanes || o->range == neighbours || !(repeated >> i & 1) || tn__axis_of(o->range) == AX_GLOBAL) continue;
    at = (tn__spot){.step = o->range, .turn = 1};
    int m = tn__spots_at(l->spots, places, &at, moved);
    double by = spread(base, moved, m < active ? m : active, size, x.sectors, o->turns, t->sector), turns = o->turns;
    if (o->unrolled || (is_written_out(o) && turns <= UNROLLED)) {
      int64_t all[UNROLLED * TN__LANES];
      if (o->unrolled) turns = different(l, places, o);
      by = pieces(all, places_of(l, places, o, active, all), size, run, t->sector) / fmax(1, x.sectors);
    }
    /* what is stored goes out at once; what unrolled turns ask for is on its way together */
    bool stays = n->op == OP_LOAD && fmax(x.of_group, of_lines) * (o->unrolled ? 1 : beside) <= room;
    x.from_unit *= stays ? by : turns;
    x.of_group *= by;
    x.requests *= turns;
    bytes *= m && moved[0] != base[0] ? turns : 1;
  }
  x.from_unit *= n->op == OP_LOAD ? beside : warps; /* no cache of a unit puts stores of its threads together */
  x.of_group *= beside;
  at = (tn__spot){.block = 1};
  int m = tn__spots_at(l->spots, places, &at, moved);
  /* a group's need not lie side by side: others' may lie between; what they share counts once, as there is no more */
  double others = spread(base, moved, m < active ? m : active, size, x.sectors, l->blocks, t->sector);
  if (x.strewn) x.of_group = fmin(x.of_group, ceil(to.of_group / t->sector));
  x.of_all = x.of_group * others;
  x.shared = (x.strewn ? to.same : others <= 1) && l->blocks > 1;
  double whole = (double)n->src[0]->src[0]->hi * (double)size / t->sector; /* no more than there is, */
  /* unless others than the next groups have the rest of each sector, by when it is no longer in a cache */
  bool apart = bytes < MOST_OF * x.of_group * t->sector && others >= l->blocks && whole * t->sector > t->far;
  double most = n->src[0]->src[0]->hi > 0 ? fmax(1, whole) : INFINITY;
  if (x.strewn) {
    double is_far = fmin(1, t->far / to.of_all), is_near = near_of(l, &to);
    x.of_all = is_far * fmin(x.of_all, most) + (1 - is_far) * x.of_all * (1 + (x.alone - 1) * (STREWN - 1));
    x.from_unit *= 1 - is_near;
    x.lines = 0;
  } else if (!apart) {
    x.of_all = fmin(x.of_all, most);
  }
  double side = fmin(l->resident * l->units, l->blocks);
  for (uint32_t i = 0; i < l->touched.n; i++) {
    const touch *y = &l->touched.v[i];
    /* by it, or by those that run beside it */
    bool there = (double)llabs(y->first - x.first) * (double)size < x.of_group * t->sector * side;
    x.again |= y->access->src[0] == n->src[0] && there && fabs(y->of_group - x.of_group) <= x.of_group / 8;
  }
  bool fetched = stays_in_unit(l, &x) && l->blocks >= 2 * l->resident * l->units; /* by the blocks before it */
  if (waits && !fetched) waits->waits = true;
  tn__vec_push(l->a, &l->touched, x);
}

/* Turns of one access to shared memory: threads that ask a bank for different words take one each. */
static double turns_of_banks(const int64_t *sorted, int n, int64_t size) {
  int count[BANKS] = {0}, most = 1;
  int64_t last = INT64_MIN;
  for (int i = 0; i < n; i++) {
    int64_t word = sorted[i] * size / 4;
    if (word != last && ++count[(uint64_t)word % BANKS] > most) most = count[(uint64_t)word % BANKS];
    last = word;
  }
  return most * fmax(1, (double)size / 4);
}

/* Serial turns of an access, those of neighbours that are one with another left out */
static double turns_of_access(const look *l, const tn_node *x) {
  const loop *o = unrolled_around(l);
  return serial_turns(l) * (o ? different(l, x, o) / o->turns : 1);
}

static void look_at_shared(look *l, const tn_node *n) {
  int64_t base[TN__LANES];
  int active = tn__spots_at(l->spots, n->src[1], &(tn__spot){0}, base);
  if (!in_lanes(l) && active) active = 1;
  qsort(base, (size_t)active, sizeof *base, compare);
  l->banks += turns_of_access(l, n->src[1]) * warps_at_work(l) *
              turns_of_banks(base, active, (int64_t)tn__size_of(n->src[0]->dtype));
}

/* ---- a part ---- */

static bool keeps_registers(const tn_node *n) {
  return (n->op == OP_LOAD || n->op == OP_STORE) && n->src[0]->op == OP_LOCAL && n->src[0]->ints[1] > 0;
}

/* Registers of a thread: a few, and what it keeps; of what a thread has for itself alone little is kept for long */
static double registers_of(const look *l) {
  double n = tn__has_meetings(l->p) ? PLAIN_REGISTERS : LEAST_REGISTERS;
  for (uint32_t i = 0; i < l->k->nlocal; i++) {
    const tn_node *x = l->k->local[i];
    bool used = false;
    for (uint32_t s = 0; s < l->p->n && !used; s++) used = keeps_registers(l->p->ins[s]) && l->p->ins[s]->src[0] == x;
    if (used) n += (double)x->src[0]->hi / (double)x->ints[1];
  }
  return fmax(n, PLAIN_REGISTERS);
}

/* Words that are fetched of a row, each thread its own */
static double words_of_row(const look *l, const tn__turns *of) {
  double words = 0;
  for (uint32_t i = of->start; i < of->end; i++) {
    const tn_node *n = l->p->ins[i];
    if (n->op == OP_LOAD && tn__hangs_on(l->a, n->src[1], of->lanes))
      words += ceil((double)tn__size_of(n->dtype) / sizeof(float));
  }
  return words;
}

/* Rows that are on their way together: as many as there are registers for what is fetched of each (turns_cuda.inc) */
static double rows_loaded(const look *l, const tn__turns *of) {
  return fmin((double)of->count, fmax(LEAST_LOADED, floor(WORDS_LOADED / fmax(1, words_of_row(l, of)))));
}

/* ... of a thread that owns places: rows on their way, and what places begin with, where that is loaded */
static double registers_of_owner(const look *l) {
  tn__owned of;
  uint32_t at = 0;
  while (at < l->p->n && (l->p->ins[at]->op != OP_RANGE || !tn__owns_places(l->a, l->p, at, &of))) at++;
  if (at == l->p->n) return INFINITY;
  double rows = rows_loaded(l, &of.add), begun = words_of_row(l, &of.begin);
  return OWNER_REGISTERS + rows * words_of_row(l, &of.add) + begun * rows + (begun > 0 && !of.begun ? WORDS_BEGUN : 0);
}

/* Blocks that a unit has room for by registers: as many as the compiler is told, and more of groups that own places,
 * where those need few */
static double room_by_registers(const look *l) {
  double registers = (double)l->t->registers / 4 / tn__threads_of_block(l->p), told = l->p->beside;
  if (l->p->owns) return fmax(told, floor(registers / registers_of_owner(l)));
  return told > 0 ? told : floor(registers / registers_of(l));
}

static double room_of(const look *l) {
  double n = fmin(floor(l->t->unit_threads / (double)tn__threads_of_block(l->p)), room_by_registers(l));
  if (l->k->shared > 0) n = fmin(n, floor((double)l->t->shared / (double)l->k->shared));
  return fmax(1, n);
}

/* Is there a store in the loop, or do threads meet there? */
static bool repeats(const look *l, uint32_t start) {
  for (uint32_t i = start; i < l->p->n; i++) {
    const tn_node *n = l->p->ins[i];
    if (n->op == OP_END && n->src[0] == l->p->ins[start]) break;
    if (n->op == OP_BARRIER || n->op == OP_STOREADD || (n->op == OP_STORE && !keeps_registers(n))) return true;
  }
  return false;
}

/* Is the loop over registers, and so unrolled whole? */
static bool is_flat(const look *l, uint32_t start) {
  for (uint32_t i = start; i < l->p->n && (l->p->ins[i]->op != OP_END || l->p->ins[i]->src[0] != l->p->ins[start]); i++)
    if (keeps_registers(l->p->ins[i])) return true;
  return false;
}

/* Accesses to memory in all turns of the loop, at least its turns; INFINITY: its length is not known, or something is
 * stored, or threads meet there */
static double accesses_in(const look *l, uint32_t start) {
  double count = 0, times = 1, around[UNROLLED];
  uint32_t depth = 0;
  for (uint32_t i = start; i < l->p->n; i++) {
    const tn_node *n = l->p->ins[i];
    int64_t turns = 1;
    if (n->op == OP_RANGE) {
      bool lanes = tn__axis_of(n) == AX_UPCAST;
      if (depth == UNROLLED || (!lanes && !tn__const_int(n->src[0], &turns))) return INFINITY;
      around[depth++] = times, times *= (double)turns;
    } else if (n->op == OP_END) {
      times = around[--depth];
      if (!depth) break;
    } else if (n->op == OP_BARRIER || (tn__is_access(n) && n->op != OP_LOAD && !keeps_registers(n))) {
      return INFINITY;
    } else if (tn__is_access(n) && !keeps_registers(n)) {
      count += times;
    }
  }
  return fmax(count, turns_of(l->p->ins[start]));
}

/* Do threads go through their loops each alone, on a device that is full of them?  Where there is room left, one waits
 * for its own instructions, too, of which it then counts too few. */
static bool is_full(const look *l) {
  return !l->alone && l->blocks >= l->resident * l->units && !tn__has_meetings(l->p);
}

/* Is the loop one that compilers write out whole? */
static bool is_short(const look *l, uint32_t start) {
  return is_full(l) && accesses_in(l, start) <= WRITTEN_OUT;
}

/* Of how many turns of the loop loads are on their way together, as compilers unroll it: all of a loop over registers,
 * or of a short one; only one where neighbours are unrolled that ask for places apart, or where it stores to memory,
 * for all that is seen of the places between which it would have to load ahead. */
static double asks_at_once(const look *l, uint32_t start) {
  bool apart = false, stores = false;
  const tn_node *neighbours = NULL;
  for (uint32_t i = start + 1; i < l->p->n; i++) {
    const tn_node *n = l->p->ins[i];
    if (n->op == OP_END && n->src[0] == l->p->ins[start]) break;
    if (n->op == OP_RANGE && tn__axis_of(n) == AX_UNROLL) neighbours = n;
    if (n->op == OP_END && n->src[0] == neighbours) neighbours = NULL;
    if (!tn__is_access(n) || n->src[0]->op != OP_PARAM) continue;
    stores |= n->op != OP_LOAD;
    apart |= neighbours && !tn__is_packed(n, neighbours);
  }
  if ((is_flat(l, start) && !stores) || is_short(l, start)) return INFINITY;
  double registers = (double)l->t->registers / 4 / (tn__threads_of_block(l->p) * l->resident);
  return apart || stores ? 1 : registers >= 2 * registers_of(l) ? AT_ONCE_OF_FEW : AT_ONCE;
}

/* Updates that are a group's, if as many go to each class of places */
static double turns_owned(const tn__turns *of) {
  double own = (double)of->count;
  for (uint32_t i = 0; i < of->wanted.n; i++) {
    const tn_node *x = of->wanted.v[i], *class = x->op == OP_EQ ? x->src[0] : NULL;
    int64_t classes;
    if (class && class->op == OP_MOD && tn__const_int(class->src[1], &classes) && classes > 0) own /= (double)classes;
  }
  return ceil(own);
}

/* Rows that a group goes through abreast, each by threads of its own */
static double rows_abreast(const look *l, const tn__turns *of) {
  return (double)l->p->group / (double)(of->lanes->hi + 1);
}

/* Turns that a group goes through of a loop of updates: its threads share out the question which are wanted, and then
 * all go on with those that are. */
static double turns_gone_through(const look *l, const tn__turns *of) {
  return ceil((double)of->count / l->p->group) + turns_owned(of);
}

/* Cycles until a group knows which those are, in order: rounds of questions, each of which waits for memory, and, where
 * they are many, for all of them to be told, one in a cycle (4096 of 64 bits in 2 us on an H200); and a sort, in which,
 * of few, each thread counts those before its own. */
static double time_of_asking(const look *l, const tn__turns *of) {
  double asked = fmin((double)l->p->group * TURNS_ASKED, MOST_ASKED);
  double rounds = ceil((double)of->count / asked), own = turns_owned(of);
  double bits = ceil(log2(fmax(2, own))), few = fmin((double)l->p->group, FEW_SORTED);
  double sorted = own <= few ? own * COMPARED : bits * bits / 2 * MEETING;
  double told = fmax((double)l->t->latency * l->clock, fmin((double)of->count, asked));
  return rounds * (told + MEETINGS_ASKED * MEETING) + MEETINGS_SORTED * MEETING + sorted;
}

/* Updates are asked for where places of their group begin. */
static void ask_updates(look *l, const tn__owned *of) {
  l->begins = of->begin, l->owned = of->add;
  l->asking += serial_turns(l) * time_of_asking(l, &of->add);
}

/* Places that begin with what stands there: nothing is done for them, and the updates come next. */
static bool pass_begun(look *l, uint32_t *at) {
  tn__owned of;
  if (!tn__owns_places(l->a, l->p, *at, &of) || !of.begun) return false;
  ask_updates(l, &of);
  *at = of.begin.end;
  return true;
}

static void open_loop(look *l, uint32_t at) {
  tn_node *r = l->p->ins[at];
  int axis = tn__axis_of(r);
  loop o = {.range = r, .turns = turns_of(r), .lanes = axis == AX_UPCAST, .unrolled = axis == AX_UNROLL};
  if (axis == AX_GLOBAL) {
    l->blocks = ceil(o.turns / tn__groups_of_block(l->p));
    o.turns = 1;
  }
  o.repeats = repeats(l, at);
  if (!o.lanes && !o.unrolled) o.together = asks_at_once(l, at);
  tn__owned of;
  if (tn__owns_places(l->a, l->p, at, &of)) {
    o.together = (double)WORDS_BEGUN * sizeof(float) / (double)tn__size_of(of.begin.store->src[0]->dtype);
    o.together *= rows_abreast(l, &of.begin);
    ask_updates(l, &of);
  } else if (l->owned.store && at == l->owned.start) {
    o.turns = turns_gone_through(l, &l->owned);
    o.together = rows_loaded(l, &l->owned) * rows_abreast(l, &l->owned);
    double asked = o.turns - turns_owned(&l->owned), added = turns_owned(&l->owned) / rows_abreast(l, &l->owned);
    l->work += serial_turns(l) * (asked + added) * l->warps * TN__LANES * ADDED_STEPS;
  }
  tn__vec_push(l->a, &l->open, o);
}

/* The innermost loop that is gone through turn by turn; NULL: there is none */
static loop *serial_around(const look *l) {
  for (uint32_t i = l->open.n; i && i--;) {
    loop *o = &l->open.v[i];
    if (!o->lanes && !o->unrolled) return tn__axis_of(o->range) == AX_GLOBAL ? NULL : o;
  }
  return NULL;
}

/* What short loops in each other load is on its way together.  What is asked for first is what each block waits for
 * in any case. */
static void close_loop(look *l) {
  loop o = l->open.v[--l->open.n], *around = serial_around(l);
  if (!o.waits) return;
  if (isinf(o.together) && around && isinf(around->together)) around->waits = true;
  else if (isinf(o.together) && !around && !l->asked && is_full(l)) l->asked = true;
  else
    l->waiting += serial_turns(l) * fmax(1, ceil(o.turns / o.together)) * (double)l->t->latency * l->clock;
}

/* Instructions that combine two values: of 64 bits, comparisons of floats choose between what each half may be, and NaN
 * (read in SASS). */
/* a choice: any is right */
static double cost_of_pair(const tn_node *n) {
  bool wide = tn__size_of(n->dtype) > sizeof(float), sum = n->ints[0] == OP_ADD || n->ints[0] == OP_MUL;
  return !wide ? 1 : sum ? 2 : tn__is_float(n->dtype) ? WIDE_PAIR : 4;
}

/* Each thread reads a cell of every warp: all warps do so at once, and a unit has one shared memory. */
static void combine(look *l, const tn_node *n) {
  double lanes = (double)n->src[0]->ints[1], steps = log2(fmax(1, lanes)), each = cost_of_pair(n);
  double words = fmax(1, (double)tn__size_of(n->dtype) / sizeof(float));
  bool in_step = !l->p->across && l->p->group <= l->p->subgroup && l->t->exchanges;
  double cells = l->p->across ? lanes > 16 ? lanes / 8 + 8 : lanes : lanes / TN__LANES;
  double read = in_step ? 0 : l->warps * cells * words;
  l->waiting += serial_turns(l) * (in_step ? steps * EXCHANGE : MEETING + cells * 2 + read + fmin(steps, 5) * EXCHANGE);
  l->banks += serial_turns(l) * read;
  l->work += serial_turns(l) * l->warps * TN__LANES *
             (in_step ? (2 + each) * words * steps : cells * (words + each) + 5 * (2 * words + each));
}

/* A word of a block of which the first is drawn, too (neighbours.c): the compiler makes one call of them. */
/* a choice: either is right */
static bool is_of_block(const tn_node *n) {
  const tn_node *element = n->op == OP_PHILOX ? n->src[0] : NULL;
  return element && element->op == OP_OR && element->src[1]->op == OP_CONST;
}

/* Threads in step ask each other for each bit of a place's number, and count what they are told. */
static double cost_of_step(const look *l, const tn_node *n) {
  uint32_t i = 0;
  while (i + 1 < l->open.n && !l->open.v[i].lanes) i++;
  return STEP_BIT * log2(fmax(1, (double)tn__stepped_share(l->p, n->src[0], l->open.v[i].range))) + STEP_REST;
}

static double cost_of(const look *l, const tn_node *n) {
  return keeps_registers(n) ? 0
         : n->op == OP_STOREADD && tn__is_stepped(n->src[0]) ? cost_of_step(l, n)
         : tn__is_access(n) ? 2
         : is_of_block(n)   ? 1
                            : tn__instructions(n, tn__map_get(&l->close, (uintptr_t)n, NULL));
}

/* How an index hangs on loops that are written out: not; by sums of multiples; otherwise, so that it is worked out in
 * each of their turns; on nothing else, so that it is a number */
enum { STEP_NONE, STEP_EVEN, STEP_ODD, STEP_NUMBER };

/* a choice: any is right */
static uint64_t step_of(look *l, tn_node *n) {
  uint64_t of = STEP_NONE, below;
  bool sum = n->op == OP_ADD || n->op == OP_NEG || (n->op == OP_MUL && n->src[1]->op == OP_CONST), number = n->nsrc > 0;
  if (n->op == OP_RANGE) {
    of = is_written_out(&l->open.v[l->open.n - 1]) ? STEP_NUMBER : STEP_NONE;
  } else {
    for (uint32_t s = 0; s < n->nsrc; s++) {
      if (!tn__map_get(&l->steps, (uintptr_t)n->src[s], &below)) below = STEP_NONE;
      number &= below == STEP_NUMBER || n->src[s]->op == OP_CONST;
      if (below) of = below == STEP_ODD || !sum ? STEP_ODD : of ? of : STEP_EVEN;
    }
    if (number && of) of = STEP_NUMBER;
  }
  tn__map_put(&l->steps, (uintptr_t)n, of);
  return of;
}

static double turns_written_out(const look *l) {
  double n = 1;
  for (uint32_t i = 0; i < l->open.n; i++)
    if (is_written_out(&l->open.v[i])) n *= l->open.v[i].turns;
  return n;
}

/* What is issued for all turns of an instruction.  In loops that are written out places are computed once: what each
 * turn adds to them stands in its instruction. */
static double work_at(look *l, tn_node *n) {
  const loop *o = unrolled_around(l);
  double all = serial_turns(l) * warps_at_work(l) * TN__LANES * cost_of(l, n);
  if (n->op == OP_SETACC) return all;
  if (n->dtype == TN__INDEX && !tn__is_access(n)) {
    uint64_t of = step_of(l, n);
    return of == STEP_NUMBER ? 0 : of == STEP_ODD ? all : all / turns_written_out(l);
  }
  if (!o || !tn__is_access(n) || is_wide(n, o->range)) return all;
  return all / o->turns * different(l, n->src[1], o);
}

static void look_at_all(look *l) {
  tn__map_init(&l->steps, l->a);
  tn__map_init(&l->close, l->a);
  tn__find_near(l->a, l->p, &l->close);
  for (uint32_t i = 0; i < l->p->n; i++) {
    tn_node *n = l->p->ins[i];
    bool access = tn__is_access(n);
    if (n->op == OP_RANGE && pass_begun(l, &i)) continue;
    if (n->op == OP_RANGE)
      open_loop(l, i), step_of(l, n);
    else if (n->op == OP_END)
      close_loop(l);
    else if (access && n->src[0]->op == OP_PARAM)
      look_at(l, n);
    else if (n->op == OP_GETACC && n->nsrc < 3 && n->src[0]->ints[1] > 1)
      combine(l, n);
    else if (n->op == OP_BARRIER)
      l->waiting += serial_turns(l) * MEETING;
    if (access && n->src[0]->op == OP_LOCAL && !keeps_registers(n)) look_at_shared(l, n);
    if (n->op != OP_RANGE && n->op != OP_END) l->work += work_at(l, n);
    if (tn__branches(n, tn__map_get(&l->close, (uintptr_t)n, NULL))) l->branches += serial_turns(l);
  }
}

static double blocks_to_start(const tn__part *p, double turns) {
  return p->blocks ? fmin((double)p->blocks, turns) : turns;
}

/* stage: all turns are one block's */
static look look_at_part(tn__arena *a, const tn__kernel *k, const tn__part *p, const tn__target *t, bool stage) {
  look l = {.a = a,
            .t = t,
            .k = k,
            .p = p,
            .spots = tn__spots_of(a, p),
            .blocks = 1,
            .alone = stage,
            .units = stage ? 1 : t->units,
            .warps = ceil(tn__threads_of_block(p) / (double)TN__LANES),
            .clock = (double)t->rate / t->thread_lanes};
  l.resident = stage ? 1 : room_of(&l);
  look_at_all(&l);
  return l;
}

/* Does a block load, meet over what it reduces, and go on?  Owners of places have the next rows on their way meanwhile,
 * and what only moves elements waits for memory alone. */
static bool loads_then_computes(const tn__part *p) {
  bool reduces = false;
  for (uint32_t i = 0; i < p->n; i++) reduces |= p->ins[i]->op == OP_ACC;
  return reduces && !p->owns && tn__meets(p);
}

/* The time of such blocks, so many of which a unit runs side by side, if memory alone would take so long, and so would
 * work.  While all of them wait for one of the two, the other does nothing: one block takes the sum, and many take
 * little more than the longer.  In between they are like customers who go back and forth between two counters, the
 * busier of which serves for this part of the time.  Measured on an H200, in us, each with a launch of 2: of one block,
 * 278 and 422 take 705, 43 and 51 take 104, 15 and 34 take 52; of two, 10.6 and 10.4 take 17.8, 46 and 73 take 93, 13
 * and 13 take 27; of four, 288 and 299 take 448.  Of 38 such draws with one or two blocks the median of the ratio of
 * measured to predicted times came from 1.28 to 1.02, and the deviation of its logarithm from 0.34 to 0.27. */
static double in_turn(double memory, double work, double blocks) {
  double most = fmax(memory, work), share = most > 0 ? fmin(memory, work) / most : 0, busy = 0, next = 1;
  for (double i = 0; i < blocks; i++) busy += next, next *= share;
  return most * (busy + next) / busy;
}

static double part_time(tn__arena *a, const tn__kernel *k, const tn__part *p, const tn__target *t, bool stage) {
  look l = look_at_part(a, k, p, t, stage);
  /* a unit goes through whole blocks: some are done while others have one more */
  double sectors = 0, near = 0, stored = 0, lines = 0, units = l.blocks / ceil(l.blocks / l.units),
         side = fmin(l.resident * l.units, l.blocks), common = 0, parted = 0;
  for (uint32_t i = 0; i < l.touched.n; i++)
    if (stays_in_unit(&l, &l.touched.v[i])) common += l.touched.v[i].of_group * t->sector;
  for (uint32_t i = 0; i < l.touched.n; i++) {
    const touch *x = &l.touched.v[i];
    double bytes = x->of_group * t->sector;
    bool once_more = x->again && x->strewn;
    bool in_unit = once_more || (x->again && bytes * l.resident + common <= t->near) || stays_in_unit(&l, x),
         in_far = x->again && bytes * side <= t->far / 2;
    near += in_unit ? 0 : x->from_unit * x->alone * l.blocks;
    stored += x->from_unit * x->stored * l.blocks;
    double from_memory = x->again && (in_unit || in_far) ? 0 : x->of_all;
    sectors += from_memory;
    parted += x->parted ? from_memory : 0;
    lines += once_more ? 0 : x->requests * fmax(x->lines, x->sectors / SECTORS) * l.blocks;
  }
  double memory = (double)t->rate * t->units / (double)t->balance * sizeof(float);
  double time = sectors * t->sector / memory;
  double far = (double)t->far_rate * memory * l.units / t->units;
  time = fmax(time, near * t->sector / far);
  time = fmax(time, stored * t->sector / far);
  time = fmax(time, near / (PORT * units * l.clock));
  time = fmax(time, lines / (units * l.clock));
  double work = fmax(l.work * l.blocks / (units * (double)t->rate), l.banks * l.blocks / (units * l.clock));
  double beside = loads_then_computes(p) ? fmin(l.resident, ceil(l.blocks / l.units)) : INFINITY;
  time = stage || isinf(beside) ? fmax(time, work) : in_turn(time, work, beside);
  time = fmax(time, (stage ? 1 : blocks_to_start(p, l.blocks)) * (double)t->start);
  bool full = !stage && l.blocks >= l.resident * l.units;
  double alone = l.waiting + (full ? l.branches * BRANCH : 0) + l.work / (l.warps * TN__LANES);
  time = fmax(time, fmax(1, l.blocks / (l.resident * l.units)) * ((double)t->latency + alone / l.clock));
  time *= 1 + (LINE_PART - 1) * parted / fmax(1, sectors);
  return time + l.asking / l.clock; /* those that begin together ask together, which no other hides */
}

/* Does it go through memory again and again, each time to add at some other of the places that this says?  Those of one
 * time are to stay near (schedule/scaled.c), so that turns have to begin one after the other. */
/* a choice: either is right */
static bool adds_by_spans(const look *l) {
  bool adds = false, again = false;
  for (uint32_t i = 0; i < l->touched.n; i++) {
    const touch *x = &l->touched.v[i];
    const tn_node *buf = x->access->src[0];
    double whole = (double)buf->src[0]->hi * (double)tn__size_of(buf->dtype) / l->t->sector;
    adds |= x->access->op == OP_STOREADD && tn__spots_loaded(l->spots, x->access->src[1]);
    again |= x->access->op == OP_LOAD && !x->strewn && !x->shared && x->of_group * l->blocks >= 2 * whole;
  }
  return adds && again;
}

/* Threads that meet stay as they are: what they go through takes longer than a start. */
/* a choice: any is right */
int64_t tn__blocks_worth_starting(tn__arena *a, const tn__kernel *k, const tn__part *p, const tn__target *t) {
  double turns = (double)tn__fixed_blocks(p), starts = turns * (double)t->start;
  tn__part rest = *p;
  if (starts < (double)t->launch || !p->group || p->tile || k->shared > 0 || tn__meets(p)) return 0;
  rest.blocks = 1;
  double time = part_time(a, k, &rest, t, false);
  const look l = look_at_part(a, k, p, t, false);
  if (adds_by_spans(&l)) return 0;
  double room = STARTS * room_of(&l) * t->units, few = fmax(room, time / SHARE_OF_STARTS / (double)t->start);
  return starts > time && few < turns ? (int64_t)few : 0;
}

double tn__stage_time(tn__arena *a, const tn__kernel *k, const tn__part *p, const tn__target *t) {
  const look l = {.a = a, .t = t, .k = k, .p = p};
  if (tn__threads_of_block(p) * registers_of(&l) > (double)t->registers / 4) return INFINITY;
  return part_time(a, k, p, t, true) + MEETING * t->thread_lanes / (double)t->rate;
}

/* Is there room for what groups share, and for what their threads tell each other (render/groups.c), which is twice a
 * value of each thread at most where they share anything? */
static bool has_room(const tn__kernel *k, const tn__target *t) {
  for (uint32_t p = 0; p < k->nparts; p++) {
    size_t told = tn__meets(&k->part[p]) ? 2 * sizeof(double) * (size_t)tn__threads_of_block(&k->part[p]) : 0;
    if ((size_t)k->shared + told > t->shared) return false;
  }
  return true;
}

double tn__kernel_time(tn__arena *a, const tn__kernel *k, const tn__target *t) {
  double time = 0;
  if (k->shared > 0 && !has_room(k, t)) return INFINITY;
  for (uint32_t p = 0; p < k->nparts; p++) {
    if (k->part[p].tile || !k->part[p].group) return INFINITY;
    bool stage = tn__is_stage(k, p);
    time += stage ? tn__stage_time(a, k, &k->part[p], t) : part_time(a, k, &k->part[p], t, false);
    if (!k->part[p].behind) time += (double)t->launch;
  }
  return time;
}
