/* What ops do to one axis, and that at every rank up to 8 they do to each axis what they do to one alone.  Prefix
 * tn__axis_.
 *
 * Each kind of axis is a graph of rank 1 (2 for a window) with symbolic sizes, which the engine builds, and the
 * engine's own adjoint of it: that the one undoes the other is printed for Coq (adjoint_coq.c).  tn__axis_check() makes
 * each op at every rank, with every choice of what it does to which axis, and compares both readings, axis by axis,
 * with those of the kinds: sizes, places, conditions, sums.  By theorem each_axis of Adjoint.v that is all.
 *
 * Strides, dilations and window sizes are integers in the graph: they are made large and unlike, and printed as
 * variables where they show; a second graph with others must print the same text.  An axis and its neighbour take
 * different ones. */
#ifndef TN_PROVE_ADJOINT_AXES_H
#define TN_PROVE_ADJOINT_AXES_H
#include "prove/adjoint_read.h"

/* Stride, dilation, window size; and dilation * (size - 1), which is how they enter the number of places. */
enum { TN__MARKS = 4, TN__DRAWN = 2 };
typedef struct tn__marks {
  int64_t v[TN__MARKS];
} tn__marks;
extern const tn__marks tn__drawn[TN__DRAWN];

typedef enum tn__axis_kind {
  AX_KEPT,
  AX_GROWN,
  AX_PADDED,
  AX_PART,
  AX_STEPPED,
  AX_FLIPPED,
  AX_SUMMED,
  AX_WINDOWED,
  AX_FOLDED,
  AX_KINDS
} tn__axis_kind;
/* `vars` and `hyps` are those of axis 0, alone. */
extern const struct tn__axis_info {
  const char *name, *vars, *hyps;
} tn__axis_kinds[AX_KINDS];

enum { TN__AXIS_VARS = 3 };
typedef struct tn__axes {
  uint32_t rank;
  tn__axis_kind kind[TN_MAX_RANK];
  const tn__marks *m[TN_MAX_RANK];
  tn_node *var[TN_MAX_RANK][TN__AXIS_VARS]; /* sizes, borders, ...: the same for the same kind */
  uint32_t vars[TN_MAX_RANK];
  tn_node *x, *out; /* the op over the leaf x */
} tn__axes;

/* One axis of this kind. */
tn__readings tn__axis_alone(tn_ctx *c, tn__axis_kind kind, const tn__marks *m, tn__axes *axes);

/* The ops that are checked, and the kinds of axes that they have. */
typedef struct tn__axis_op {
  const char *op;
  tn_node *(*make)(tn_ctx *c, tn__axes *g); /* fills var, x */
  /* what it may do to an axis other than leave it alone; the same twice: one thing */
  tn__axis_kind acts[2];
  bool once;                                /* to one axis only, and its result has one more, or its source */
} tn__axis_op;
extern const tn__axis_op tn__axis_ops[];
extern const uint32_t tn__axis_nops;

/* Every choice of axes at ranks 1 to `ranks`: how many they were.  Throws for the first that is not axis by axis what
 * the kinds are, naming it. */
uint32_t tn__axis_check(tn_ctx *c, const tn__axis_op *op, uint32_t ranks);
#endif
