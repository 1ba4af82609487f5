/* What the tensor folder keeps in a context. */
#ifndef TN_TENSOR_CELLS_H
#define TN_TENSOR_CELLS_H
#include "base/names.h"
#include "tensor/cell.h"

struct tn__scope {
  struct tn__scope *outer; /* or the next spare one */
  tn_tensor *first;        /* handles, newest first */
  int depth;               /* 0: the root, which owns what escaped every scope */
};

/* The random state.  The n-th random tensor since the seed was set uses counter n, wherever the flushes fall:
 * counter = state[1] + ahead. */
typedef struct tn__random {
  tn_node *state;       /* STORAGE u64[2] = {seed, calls}; NULL until first used; counted */
  uint64_t seed, calls; /* what it holds */
  uint64_t ahead;       /* random tensors made since it was written */
} tn__random;

/* Indices that a call was given, to be looked at before the next values are computed: tn_options.check */
typedef struct tn__index_check {
  const char *api;       /* the public function */
  tn_node *mark, *size;  /* the indices, each of which must lie in 0 .. size - 1; counted */
  const char *type;      /* of what is indexed, for the message */
  uint32_t axis;
} tn__index_check;

/* Indices that were out of range: what is made of them stays refused.  The last ones are kept, so that a loop of errors
 * does not hold more and more. */
enum { TN__REFUSALS = 16 };
typedef struct tn__refusal {
  tn_node *mark; /* counted; NULL: none yet */
  char why[240];
} tn__refusal;

struct tn__cells {
  struct tn__scope root, *top, *spare;
  /* blocks of handles that ended, oldest first: while they rest, a stale pointer is told from a live one */
  struct { tn_tensor *first, *last; uint32_t n; } ended;
  bool holds;                 /* a program is being recorded */
  _Atomic(tn_tensor *) queue; /* handles given back, from any thread */
  bool assigned;              /* some cell was, since assigned values were computed last */
  tn__arena check_arena;      /* that of `check` */
  tn__vec(tn__index_check) check;
  tn__refusal refused[TN__REFUSALS];
  uint64_t refusals;          /* so many there have been */
  tn__arena arena;            /* the table of sizes */
  tn__map dim_index;          /* node -> place in dim */
  tn__names dim_name;         /* of variables -> place in dim; the first of a name */
  tn__vec(tn_node *) dim;     /* symbolic sizes handed out; counted */
  tn__random random;
};
/* check.c: all that wait */
void tn__index_checks_drop(tn_ctx *c);
void tn__index_refuse(tn_ctx *c, tn_node *mark, const char *why);
const char *tn__index_refused(tn_ctx *c, tn_node *n); /* why, if n is made of such indices; NULL */
#endif
