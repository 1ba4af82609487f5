/* Shared by the files of schedule/: what range assignment knows about each node of the graph. */
#ifndef TN_SCHEDULE_FUSE_H
#define TN_SCHEDULE_FUSE_H
#include "schedule/schedule.h"

enum {
  TN__MAX_KERNEL = 300, /* nodes in one kernel: compilers are not linear */
  TN__MAX_STORES = 8,   /* values that one kernel stores beside each other */
  /* That one kernel is planned with: lowering makes copies, and takes TN__MAX_RANGES in all.  A sum that would open
   * more is stored, which costs its elements once: by far less than so many loops around each other run through. */
  TN__MAX_LOOPS = 40,
  TN__LONG_JOIN = 16 /* a join of more parts is stored part by part */
};

/* Ranges while kernels are planned: those over the axes of what a kernel stores are numbered by axis, so that kernels
 * over equal sizes have the same; columns inside rows that had none come after them, and all others get numbers of
 * their own, in the order in which they are opened.  A finished body's are numbered from 0, in that order
 * (renumber.c). */
enum { TN__FIRST_COLUMN = TN_MAX_RANK, TN__FIRST_INNER = 2 * TN_MAX_RANK };

/* A place from which a node's elements are wanted: by kernel `k`, at index tuple `idx`, where `gate` holds (NULL:
 * always), inside the loops `env` (a LIST of RANGEs, outermost first).  Two equal places need the value once. */
typedef struct tn__demand {
  int k;
  tn_node *idx, *gate, *env;
  tn_node *child_idx[3], *child_gate[3]; /* where its sources are wanted, once it has been inlined */
  int before;                            /* the demand of the same kernel before this one, -1 */
  /* of a choice that the place decides, or updates that cover a source: the only one that is wanted; else 0 */
  int branch;
  tn_node *ranges;                       /* LIST of the ranges a reduction opens here */
  tn_node *value;                        /* the element, once emitted */
} tn__demand;

/* A span of a join, or of what is made of one, that is stored by loops of its own: element idx of the node is element
 * idx of `part`, its own or the node itself. */
typedef struct tn__piece {
  int k;
  tn_node *part, *idx, *env; /* env: a LIST of RANGEs, outermost first */
} tn__piece;

typedef struct tn__info {
  tn__vec(tn__demand) want;
  uint32_t seen;        /* the last search that came by */
  tn__vec(int) readers; /* library calls that read it from memory */
  int buf;           /* its buffer, -1 while it has none */
  int kernel;        /* the kernel that writes that buffer */
  int host;          /* index in want of the demand whose kernel stores it, too or as its root; -1: spans of a join */
  bool must;         /* somebody needs it in memory */
  bool turned;       /* a copy that lies in memory as its axes say, made by a kernel of its own */
  bool below;        /* others are made of it, and so not stored */
  bool inline_dot;   /* a contraction to be written as loops */
  bool tiled;        /* a convolution to be written as loops that become a product by tiles: alone in its kernel */
  const tn__gemm *gemm;
  const tn__conv *conv; /* until it has been decided: it may become one */
  tn__vec(tn__piece) piece; /* of a join, in several kernels; `kernel` is the first of them */
  int out;           /* position in the SINK, -1 */
  double *stride;    /* of each axis in the natural layout, an estimate */
  uint8_t *axis;     /* once stored: its axes from the outermost; NULL: row-major */
  float flops, loads;/* per element: work and full-size loads if it were computed from memory */
  float functions;   /* ... of that work, of functions like exp */
  bool data;         /* made of anything but counters and constants */
} tn__info;

/* Are the updates of this scatter added at once, whichever comes first?  So integers are, where the device can. */
bool tn__is_added_at_once(const tn__target *t, const tn_node *n);

/* Does it stand in memory whatever is decided of others? */
static inline bool tn__is_there(const tn__info *in) { return in->buf >= 0 || in->turned; }

typedef struct tn__seed { /* a kernel in the making */
  tn__nodes roots;          /* nodes it stores */
  bool tiled;               /* it has one already */
  const tn_node *product;   /* of matrices, that it wants; the last one, NULL: none */
  bool keeps;               /* it has products whose operands it keeps in rows (in->inline_dot) */
  bool alone;               /* it has stores, or a library call, of a kind that no other store can stand beside */
  tn_node *along;           /* the index along which a group's threads sum up (lower/group_scan.c); NULL: none */
  bool exchanges;           /* it has sums that send words to places of their own (lower/group_exchange.c), */
  bool ranks;               /* by how many before each have its key, */
  bool others;              /* or sums of another kind */
  int first;                /* of the kernels that store its root: it, or the first where there are several */
  uint32_t piece;           /* which then store its pieces from this one on, those of this kernel */
  tn_node *env;             /* LIST of its output ranges */
  tn_node *rows;            /* LIST of those that some of its stores are sums over; NULL: none are (row_sums.c) */
  /* sets of output ranges that reductions are nested under; ordered by inclusion in the end */
  tn__vec(uint32_t) chain;
  tn__vec(uint32_t) reduced; /* those of its long reductions, as far as they have been decided */
  double terms;             /* of each of these; 0: there are none, less: of different numbers */
  double longest;           /* the most terms of one of them */
  bool few;                 /* they are few rows that lowering is to cut: nothing may keep it from that */
  uint32_t size;            /* nodes inlined */
  uint32_t loops;           /* ranges, those of env among them */
  uint32_t aim;             /* the last search for what it writes */
} tn__seed;

static inline bool tn__seed_reduces(const tn__seed *g) { return g->chain.n || g->loops > g->env->nsrc; }

typedef struct tn__fuse {
  tn_ctx *c;
  tn__arena *a;
  tn__device *dev;
  tn_node *sink;
  const tn__nodes *turned;  /* copies that are to be so */
  int *slot;                /* by source of the SINK: which output of the schedule it is */
  tn__vec(tn__buf) part;    /* outputs that stand in inputs, and these inputs (shared.c) */
  tn__nodes part_of;
  tn__nodes order;
  tn__map index;            /* node -> position in order */
  tn__info *info;
  tn__map places;           /* position << 32 | kernel -> the kernel's last demand of the node */
  uint32_t searches;
  tn__vec(tn__seed) seeds;
  tn__schedule *s;
  int64_t next_range;
} tn__fuse;

/* shared.c: the SINK without outputs that are parts of inputs; the buffers of these, behind those of all kernels; and
 * what the schedule's text says of one. */
tn_node *tn__shared_find(tn__fuse *f);
void tn__shared_place(tn__fuse *f);
tn_node *tn__shared_body(tn_ctx *c, const tn__schedule *s, const tn__buf *b);
/* Is element i of n, for all i, element from + i of an input, a PARAM?  Nothing need be known of the graph for that. */
typedef struct tn__part_of {
  tn_node *of;
  int64_t from;
} tn__part_of;
bool tn__is_part(tn__fuse *f, tn_node *n, tn__part_of *out);
/* The node whose element at *idx is n's there, and where in it that is; NULL: n computes its own. */
tn_node *tn__look_through(tn__fuse *f, tn_node *n, tn_node **idx);
/* Is it a scatter to places that are all different, over a base that is one number?  Then it is a kernel like any
 * other, over what is scattered, but for where it stores (place.c). */
bool tn__is_placed(const tn_node *n);
/* The spans that places of a permutation are in, on devices of groups: then it need not be stored to be known as one.
 * NULL: it does not say. */
const tn_node *tn__spans_of(const tn__target *t, const tn_node *n);
/* Is it a scatter to places of which none is met twice, and threads to do it at once?  Then it does not matter which
 * update comes first. */
bool tn__has_own_places(const tn__target *t, const tn_node *n);
/* Is what it adds to one number all over? */
bool tn__is_over_number(const tn_node *n);
/* Is what it adds to -0 wherever an update goes, and has threads to do it at once?  Then what else would be there is as
 * well computed everywhere and stored, and updates are stored in its place (touched.c). */
bool tn__is_covered(const tn__target *t, const tn_node *n);
/* x added to it; x itself, whose NaN keep their bits, where it changes none */
tn_node *tn__added_to_number(tn_ctx *c, const tn_node *n, tn_node *x);
/* Will what is computed of this scatter of the graph be computed of its base, and once more where updates go, if these
 * go to places of their own (touched.c)? */
bool tn__is_computed_of_few(tn_ctx *c, const tn__target *t, const tn__nodes *all, tn_node *n);

/* Is it a scatter into x[outer, places, inner], flat, of updates [outer, updates, inner], each of which goes to a place
 * of its own line?  Then which one: a number outside of the line is none (lines.c). */
typedef struct tn__lines {
  tn_node *number; /* of each update, in its shape */
  int64_t outer, places, inner, updates;
} tn__lines;
bool tn__scatter_lines(tn_ctx *c, const tn_node *n, tn__lines *out);
/* fuse.c: on devices without groups, how many axes of the updates stand in front of that along which those of lines
 * follow each other: they say which line it is, and threads may share them out; each of their turns has so many
 * places. */
uint32_t tn__axes_of_lines(const tn__fuse *f, const tn_node *n, int64_t *each);
/* Where the updates of scatter n go, as it was given: what is no place goes nowhere, and need not be told first. */
tn_node *tn__scatter_places(const tn_node *n);

/* Does a library compute it? */
static inline bool tn__is_called(const tn__info *in) { return in->gemm || in->conv; }

static inline tn__info *tn__info_of(tn__fuse *f, const tn_node *n) {
  uint64_t at;
  return tn__map_get(&f->index, (uint64_t)(uintptr_t)n, &at) ? &f->info[at] : NULL;
}

/* Does kernel k store the node, or a piece of it? */
static inline bool tn__writes(const tn__fuse *f, const tn__info *in, int k) {
  return k == in->kernel || (in->piece.n && f->seeds.v[k].first == in->kernel);
}

/* index.c: where a movement op's source is read when the op, no FOLD, is wanted at idx.  gate is in and out. */
void tn__index_through(tn_ctx *c, tn_node *n, tn_node *const *idx, tn_node **out, tn_node **gate);
/* An element of a FOLD at i adds up what stands at the places and offsets with place * stride + offset * dilation = i.
 * They are walked in steps: offsets, or places where that takes fewer turns, the other follows from the one.  Steps of
 * 1 look at all that there are; longer ones leap over those that can have no partner. */
typedef struct tn__walk {
  bool places;
  int64_t by, turns;
} tn__walk;
tn__walk tn__fold_walk(const tn_node *n); /* of the fewest turns */
/* Where the source is read at a turn */
void tn__fold_through(tn_ctx *c, tn_node *n, tn__walk w, tn_node *const *idx, tn_node *turn, tn_node **out,
                      tn_node **gate);
tn_node *tn__index_flat(tn_ctx *c, tn_node *const *dim, tn_node *const *idx, uint32_t rank); /* row-major */
/* A loop over an axis of n; none, and 0, where its size is 1 */
tn_node *tn__axis_loop(tn_ctx *c, const tn_node *n, uint32_t axis);
/* flat as offset + sum coef[i] * r[i], r being ranges or 0; false if it is not of that form. */
bool tn__index_affine(tn_ctx *c, tn_node *flat, tn_node *const *r, uint32_t n, tn_node **coef, tn_node **offset);
int64_t tn__size_guess(const tn_node *n); /* a constant, or the most it can be (1024 where nothing is known) */
double tn__numel_guess(const tn_node *n); /* elements of a tensor, by that */

/* join.c: the spans of n, a choice by place along one axis, from the first to the last; their number.  No node that
 * stands between n and the parts is in the way of anything: only the parts are wanted. */
typedef struct tn__span {
  tn_node *part, *begin, *end;
} tn__span;
typedef tn__vec(tn__span) tn__spans;
uint32_t tn__join_spans(tn__fuse *f, tn_node *n, uint32_t *axis, tn__spans *out);
/* The join that n is, or is made of element by element, and its spans; NULL: there is none, or not only one, or others
 * want some of what stands between. */
tn_node *tn__join_below(tn__fuse *f, tn_node *n, uint32_t *axis, tn__spans *out);
/* Is n, which is made of the join, sooner stored span by span, by kernels of their own, than by one that chooses for
 * each element? */
bool tn__join_apart(tn__fuse *f, tn_node *n, const tn_node *join, uint32_t axis, const tn__spans *span);
/* The source that n, a choice by place, takes at idx: 1 or 2; 0 if it is none, or takes now the one and now the other.
 */
int tn__join_branch(tn__fuse *f, tn_node *n, tn_node *const *idx);

/* layout.c: in which order axes are stored. */
void tn__layout_find(tn__fuse *f);
void tn__layout_fix(tn__fuse *f, tn_node *n, bool as_written);
void tn__layout_turn(tn__fuse *f, const tn_node *permute); /* its source is stored in the order of its axes */
bool tn__scatter_lies_free(const tn__fuse *f, const tn_node *n); /* is it a scatter that any order of axes suits? */
void tn__layout_sort(const double *stride, uint8_t *axis, uint32_t n);
tn_node *tn__layout_at(tn__fuse *f, tn_node *n, tn_node *const *idx); /* offset of an element of n's buffer */
tn_node *tn__layout_contract(tn__fuse *f);
/* n over what its sources have become, src, if one of them has changed: now[i] is the i-th of the order */
tn_node *tn__made_again(tn__fuse *f, tn_node *n, tn_node *const *now, tn_node **src);

/* spread.c: the sink, with what is the same along an axis reduced before it is spread over that */
tn_node *tn__spread_late(tn__fuse *f);

/* align.c: the sink, with a library's products over rows that it fetches fast */
tn_node *tn__align_products(tn__fuse *f);
/* longer_rows.c: x with zeros beyond the end of its rows along the axis, which are to be of the size; what has been
 * made longer by it is kept in a map of the caller's */
tn_node *tn__longer_rows(tn_ctx *c, tn__map *finished, tn_node *x, uint32_t axis, tn_node *size);

/* conv.c: convolutions for the library. */
void tn__conv_find(tn__fuse *f);                         /* candidates, by the graph alone */
/* the sink, with copies of what own convolutions cannot read as it stands */
tn_node *tn__conv_operands(tn__fuse *f);
/* the sink, with outputs that they cannot write themselves as copies */
tn_node *tn__conv_outputs(tn__fuse *f);
tn_node *tn__conv_contraction(tn_node *n); /* that the root of a candidate comes to */
const tn__conv *tn__conv_plan(tn__fuse *f, tn_node *n);  /* as tn__gemm_plan, of a candidate */
void tn__conv_strides(const tn__conv *v, const tn_node *n, double *stride); /* the natural layout of its result */

typedef tn__vec(uint32_t) tn__numbers;

/* fuse.c: decides what stands in memory.  side_by_side.c: joins kernels.  emit.c: kernel bodies.  gemm.c: contractions
 * for the library. */
void tn__fuse_decide(tn__fuse *f);
void tn__fuse_join(tn__fuse *f);
/* fits.c: may n be computed at d?  Each element once, and nested under loops that the kernel can put outermost. */
bool tn__fuse_fits(tn__fuse *f, tn_node *n, const tn__demand *d);
void tn__note_chain(tn__fuse *f, const tn_node *n, const tn__demand *d); /* its kernel reduces n there */
/* ... or n is what it stores, under this set of its output loops */
void tn__note_reduced(tn__fuse *f, tn__seed *g, const tn_node *n, uint32_t set);
/* Rows of which some of what a kernel does goes through a elements, some through b: would a group for each leave units
 * without work? */
bool tn__leaves_units(const tn__fuse *f, double rows, double a, double b);
bool tn__is_reduction(const tn_node *n);
bool tn__is_stored(const tn__fuse *f, const tn_node *n); /* does it stand in memory wherever it is wanted? */
double tn__extents(tn_node *env, uint32_t set); /* turns of that set of the loops, together */
/* stored.c: must n stand in memory?  Is it quicker to store it once and to load it than to compute it at each place
 * where kernel k (-1: any) wants it? */
bool tn__must_store(tn__fuse *f, tn_node *n, tn__info *in);
bool tn__is_quicker_stored(tn__fuse *f, const tn_node *n, const tn__info *in, int k);
bool tn__long_join(tn__fuse *f, tn_node *n, uint32_t *axis, tn__spans *span);
bool tn__under_loops(const tn__fuse *f, const tn_node *n, const tn__info *in);
/* together.c: is n, where a group's threads may sum up along a loop, the sums up to each place of a long axis?  *turn:
 * which of n's axes.  Is it an element at each turn of all the kernel's loops that want it at d?  Does kernel k
 * exchange by what n counts, and nothing else? */
bool tn__is_scan(const tn__fuse *f, const tn_node *n, uint32_t *turn);
bool tn__is_everywhere(const tn__fuse *f, const tn_node *n, const tn__demand *d);
/* ... Is n what is stored of sums by place, of lines that groups have whole (lower/line_sums.c)? */
bool tn__has_line_tables(const tn__fuse *f, const tn_node *n);
bool tn__fits_exchange(const tn__fuse *f, const tn_node *n, int k);
void tn__note_together(tn__fuse *f, const tn_node *n, const tn__demand *d); /* d's kernel reduces n there */
/* made_of.c: the lowest value that all goes through that n is made of, in at most so many multiply-adds from there;
 * NULL: there is none. */
tn_node *tn__fuse_made_of(tn__fuse *f, tn_node *n, double most);
/* Is it cheaper to store such a value once than to compute it in each kernel that wants it? */
bool tn__worth_storing(const tn__info *in);
/* Does a group for each row do?  Where a unit cannot keep one, a few more rows than units are not shared out well, and
 * little is read once that would be read twice.  The fewest are cut by lowering. */
bool tn__rows_suffice(const tn__target *t, double rows, double elements);
/* So for columns, whose elements lie apart in memory, and of which a group takes some side by side: it has to keep as
 * many as a sector holds, and there have to be more, for threads in step to go along memory. */
bool tn__columns_suffice(const tn__target *t, double columns, double elements);
/* Does a unit have room for a row of so many elements?  Do the launches that a reduction takes, where it is a kernel
 * of its own, take longer than memory for all that it goes through?  No, where a device has not said. */
bool tn__row_is_kept(const tn__target *t, double elements);
bool tn__launches_decide(const tn__target *t, double elements);
void tn__fuse_same_rows(tn__fuse *f); /* same_rows.c */
void tn__fuse_row_sums(tn__fuse *f);  /* row_sums.c */
/* renumber.c: a body's ranges numbered from 0, in the order of the numbers that they have; and old[i] replaced by
 * new_[i] */
tn_node *tn__renumber(tn_ctx *c, tn_node *body, tn__nodes *old, tn__nodes *new_);
void tn__columns_apart(tn__fuse *f, const tn__seed *g, tn__nodes *stores);
void tn__fuse_emit(tn__fuse *f);
/* A kernel wants n at a place; a source of n where it wants n; all sources, by what n does. */
void tn__demand_put(tn__fuse *f, tn_node *n, int k, tn_node *idx, tn_node *gate, tn_node *env);
void tn__demand_child(tn__fuse *f, tn_node *n, tn__demand *d, int i, tn_node *const *idx, tn_node *gate, tn_node *env);
void tn__demand_inline(tn__fuse *f, tn_node *n, tn__info *in, tn__demand *d);
void tn__demand_link(tn__fuse *f, tn__info *in, uint32_t i);
/* places in env; opaque: a gathered place, too */
uint32_t tn__ranges_in(tn__fuse *f, tn_node *idx, tn_node *gate, tn_node *env, bool *opaque);
/* A heap, the highest number on top */
void tn__heap_push(tn__arena *a, tn__numbers *h, uint32_t x);
uint32_t tn__heap_pop(tn__numbers *h);
int tn__demand_last(const tn__fuse *f, const tn__info *in, int k); /* of kernel k; -1: it wants nothing of the node */
tn__gemm tn__gemm_sizes(tn_ctx *c, const tn_node *n); /* of a contraction; the rest is not told */
bool tn__gemm_has_library(const tn__fuse *f, int dtype);
bool tn__gemm_is_brief(const tn__fuse *f, tn_node *steps); /* are so few steps a processor's own loops'? */
bool tn__gemm_is_called(const tn__fuse *f, const tn_node *n); /* does it, if n's operands are matrices? */
bool tn__gemm_is_left(tn__fuse *f, const tn_node *n); /* ... and not own kernels, as of little or shallow products? */
/* NULL: not for the library; marks operands that must stand in memory */
const tn__gemm *tn__gemm_plan(tn__fuse *f, tn_node *n);
void tn__epilogue_join(tn__fuse *f); /* epilogue.c: kernels that become the end of a library's product */
bool tn__fuse_attention(tn__fuse *f, tn_node *n); /* attention.c: both contractions around a softmax become loops */
double tn__terms_of(const tn_node *n);                /* what is reduced for each element of n */
#endif
