/* A compiled schedule from inside: what compiling, binding, validating and running share.  Prefix tn__plan_. */
#ifndef TN_RUN_PLAN_H
#define TN_RUN_PLAN_H
#include "ir/constraint.h"
#include "lower/lower.h"
#include "run/runtime.h"

typedef struct tn__step { /* an item, at the bound sizes */
  int kernel;         /* index in the code, -1: a library call */
  void **ptr;         /* by slot */
  size_t *bytes;
  int64_t *var;       /* values of the kernel's symbolic sizes */
  int *buf;           /* schedule buffer of each slot; -1 - i: own scratch i */
  uint32_t nbuf;
  tn__product product;
  int64_t a_off, b_off; /* elements */
  tn__conv_call conv;
  int64_t conv_off[3];
} tn__step;

/* The plan's work as the device recorded it, for these buffers and sizes. */
typedef struct tn__record {
  uint64_t *key;
  tn__recording *work;
  uint64_t runs, last; /* runs seen, 0: a free slot; when last used */
} tn__record;

/* Inputs that a gradient of an output would reach. */
typedef struct tn__sources {
  const uint32_t *input;
  uint32_t n;
} tn__sources;

struct tn__plan {
  tn__plan *next;
  tn__arena arena;
  int pins;
  tn_node *key;
  tn__nodes kept;             /* every node the plan refers to */
  tn__schedule *s;
  tn__device *dev;
  tn__code *code;
  tn__kernel **kernel;
  uint32_t nkernels, nout;
  int *out_buf;               /* by output: its schedule buffer; -1 if none */
  tn__vec(const char *) fired; /* names of the rules over the reals that simplified the graph */
  tn__nodes var;
  int64_t *value;             /* bound to var */
  tn__constraint_list needs;  /* of them */
  bool bound;
  tn__sources *sources;       /* by output; NULL until it is first realised */
  tn__step *step;
  tn__nodes scratch;          /* sizes (elements) of kernels' own buffers */
  tn__vec(uint8_t) scratch_dtype;
  /* of schedule buffers, then of scratch; offsets are those of temporaries in the arena buffer */
  size_t *bytes, *offset;
  int *first, *last;          /* items in which each lives */
  tn__buffer *temp;           /* the arena buffer */
  size_t temp_sum, temp_size;
  tn__record *record;         /* RECORDINGS of them; NULL until it is first replayed */
  uint64_t *now;              /* the key of this run */
  uint64_t clock;
};

/* An empty plan, to be freed; then, from graph to kernels, all but what a device makes of them.  They throw. */
tn__plan *tn__plan_new(tn_ctx *c, tn_node *key);
void tn__plan_build(tn_ctx *c, tn__plan *p);
/* Sizes and places of all buffers for the values of the symbolic sizes. */
void tn__plan_measure(tn_ctx *c, tn__plan *p);
/* Item i's product at those sizes. */
void tn__plan_bind_product(tn_ctx *c, tn__plan *p, uint32_t i);
/* validate.c: compares the schedule with its graph (TENET_VERIFY).  Throws TN_ECOMPILE where they differ. */
void tn__plan_validate(tn_ctx *c, tn__plan *p);
#endif
