/* Translation validation: does a whole schedule, as lowered and placed, compute what the user's graph says?  Prefix
 * tn__verify_.
 *
 * The graph before simplification is evaluated node by node, the schedule item by item, both in a few worlds (value.h),
 * and every element of every output is compared.  Kernels run as linear programs over memory as it is laid out, library
 * calls as their reference bodies, and by their parameters, too (library.h).  On the way each access is held against
 * its buffer; those that hold for all values and sizes, because their intervals say so, are counted as proved, and of
 * the others the statement is made. */
#ifndef TN_VERIFY_VERIFY_H
#define TN_VERIFY_VERIFY_H
#include "ir/constraint.h"
#include "schedule/schedule.h"
#include "verify/writers.h"

typedef struct tn__verify_block { /* a buffer, at the sizes of one run */
  tn__buf_kind kind;
  int slot, dtype;      /* slot: PARAM slot of an input, position in the SINK of an output */
  tn_node *size;        /* elements */
  size_t offset, bytes; /* offset: of temporaries, in their common memory */
  bool shared;          /* an output that stands in block `of`, an input, from element `from` on */
  int of;
  int64_t from;
} tn__verify_block;

typedef struct tn__verify_item {
  const tn__kernel *kernel;   /* of a library call: its reference, lowered */
  const tn__product *product; /* NULL: none; pointers are left out */
  int64_t a_off, b_off;       /* elements, */
  int a, b, c, row;           /* and blocks */
  const tn__conv_call *conv;  /* so */
  int64_t conv_off[3];
  int operand[3];
  const int *block;           /* by slot */
  uint32_t nbuf;
} tn__verify_item;

typedef struct tn__verify_subject {
  tn_node *graph;          /* the user's: a SINK over PARAMs */
  const tn__view *view;    /* of its outputs; NULL: each stands in a block of its own */
  tn__verify_block *block;
  uint32_t nblock;
  size_t arena;            /* bytes of the temporaries' memory */
  tn__verify_item *item;
  uint32_t nitem;
  tn_node *const *var;
  const int64_t *value;    /* of the symbolic sizes */
  uint32_t nvar;
  const tn__constraint_list *needs; /* of them; NULL: none */
  bool last;               /* nothing smaller will be tried: more steps are worth it */
  bool numbers;            /* what the field cannot tell is equal may be so over the reals: compared as numbers then */
} tn__verify_subject;

typedef enum tn__verify_result { TN__VERIFY_EQUAL, TN__VERIFY_DIFFERS, TN__VERIFY_UNKNOWN } tn__verify_result;

typedef struct tn__verdict {
  tn__verify_result result;
  const char *why;             /* unless they are equal */
  bool large;                  /* unknown for its size only */
  uint64_t elements;           /* compared */
  uint32_t accesses, proved;   /* loads and stores, by instruction; those within their buffers by interval */
  const char *open;            /* the others as statements for a solver, one a line (bounds.h) */
  tn__writers writers;         /* stores by turns that may run at once; those that are not decided are in `open`, too */
  uint32_t branches, entered;  /* outcomes of guards and choices; those that some run had */
} tn__verdict;

/* Larger programs are compared in fewer worlds.  A program is equal if all is equal in a world with odd inputs and in
 * another one, in the field or, where constants round, as numbers (rounding.h); where those leave too much open, it is
 * unknown.  Sizes of these two worlds are the least, and the greatest that are small. */
enum { TN__VERIFY_WORLDS = 4, TN__VERIFY_FEWEST = 3, TN__VERIFY_LEAST = 1, TN__VERIFY_GREATEST };

typedef struct tn__verify tn__verify;
/* Everything is allocated in the context's scratch.  The subject may change between runs: sizes, blocks, products. */
tn__verify *tn__verify_open(tn_ctx *c, const tn__verify_subject *s);
/* Small sizes for world number `world`, if the needs have any: value[i] of var[i]. */
bool tn__verify_sizes(tn_ctx *c, tn_node *const *var, uint32_t n, const tn__constraint_list *needs, uint32_t world,
                      int64_t *value);
void tn__verify_give_up(tn__verify *v, const char *why);
/* Compares in one world.  False: no further one is of use. */
bool tn__verify_run(tn__verify *v, uint32_t world);
const tn__verdict *tn__verify_close(tn__verify *v);
const char *tn__verify_line(tn_ctx *c, const tn__verdict *v); /* the verdict as one line, for reports */
#endif
