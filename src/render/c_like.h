/* What the printers of parts share: names, expressions and memory accesses of a linear kernel as C-like text.
 * Prefix tn__print_.
 *
 * Every value is a constant local v<N>, every loop counter i<N>, every accumulator a<N>, every size variable s<N>,
 * every buffer b<slot>, every local buffer l<number>. */
#ifndef TN_RENDER_C_LIKE_H
#define TN_RENDER_C_LIKE_H
#include "render/dialect.h"

typedef struct tn__open_loop {
  uint32_t start; /* index of the RANGE */
  bool split;     /* groups: a lane loop */
  bool batched;   /* ... several turns in one of the text's, in a loop of their own */
} tn__open_loop;

/* What lies between two constants that a counter is compared with, and in how many vectors it is */
typedef struct tn__inside_case {
  int64_t from, last;
  double share;
} tn__inside_case;

typedef struct tn__printer {
  tn_ctx *c;
  tn__sb *out;
  const tn__dialect *d;
  const tn__kernel *k;
  const tn__part *part;
  tn__map name;   /* node -> its text */
  tn__map cells;  /* of a vector loop: values of half floats as they stand in memory -> their name */
  tn__map stored; /* value of a STORE -> the text of what it was before rounding, NULL if there is none */
  tn__map bits;   /* half floats that are stored as they were loaded -> what they are in memory, once that has a name */
  tn__map approximate;   /* values that need not be computed to all bits of f32 (lower/near.c) */
  uint32_t nvalue, nloop, nacc;
  int depth;
  tn__vec(tn__open_loop) open;
  /* functions of slices: vector loops (lanes.c) */
  tn__vec(struct tn__vector_loop *) loops;
  tn__map lanes;    /* accumulator of lanes -> how many of them are a vector */
  tn__map combined; /* those whose lanes are combined in the end */
  tn__map lane;     /* node of the vector loop that is being printed -> what it is in a lane */
  int count;        /* lanes of its vectors */
  int64_t piece;    /* which of an accumulator's vectors it is at */
  const char *rest; /* the lanes in which there is something to do; NULL: all */
  int64_t first;    /* how many these are, 0: not a constant */
  uint32_t nrest;
  struct { /* inside.c: of the vector loop that is being printed */
    tn__nodes tests; /* comparisons, */
    tn_node *along;  /* the counter that most of them are of, NULL: no two are of the same; */
    tn__vec(tn__inside_case) cases;
    uint32_t count, number;  /* of cases with a form of their own; which of them it is about: */
    tn__map truth;           /* what the comparisons say in it, and what follows; */
    tn__map counter, member; /* what the tests are made of, of all in the loop */
    bool chosen;             /* is it so where the printer is at? */
  } inside;
  /* of the unit: the numbers of lanes that it uses, those for which it needs math.inc and math_f64.inc, or what is far
   * from 0 by half as many f64; helpers that go lane by lane */
  uint32_t counts, math, math_f64, far;
  tn__vec(const char *) needs;
  /* groups */
  int64_t before, blocks; /* of a part that is launched with others: blocks of those before it, and its own; 0: all */
  tn__map packed; /* LOAD or STORE -> the number of the registers that hold its neighbours */
  tn__map copied; /* LOAD or STORE that a copy has done */
  /* STORE -> the number of the registers that hold its neighbours' values up to the loop's end; LOAD -> of those that
   * do from its begin */
  tn__map late;
  tn__map from;      /* LOAD -> the number of the pointer from which its elements are so many places away */
  tn__map batch;     /* LOAD -> the registers that hold it for several turns of a loop, in text: "w0.x[i1 * 4 + " */
  tn__map counted;   /* index of a count of threads in step -> its number */
  uint32_t npacked;
  bool turns; /* of the unit: some are printed so (tn__owns_places) */
  tn__map divisor; /* f32 that lanes divide by and all threads have: its reciprocal stands behind it */
} tn__printer;

bool tn__print_is_approximate(const tn__printer *p, const tn_node *n);

const char *tn__print_format(tn__printer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tn__print_line(tn__printer *p, const char *fmt, ...) __attribute__((format(printf, 2, 3)));
void tn__print_brace(tn__printer *p, const char *brace); /* closes a block */

typedef struct tn__words { /* what the letters of a template stand for */
  const char *word[128];
} tn__words;
const char *tn__print_expand(tn__printer *p, const char *spelling, const tn__words *w);

const char *tn__print_name(tn__printer *p, tn_node *n);      /* of a source; a literal for constants */
const char *tn__print_give(tn__printer *p, tn_node *n, char letter, uint32_t number);
int tn__print_kind(const tn__printer *p, const tn_node *n);  /* of its value: a dtype or TN__INDEX32 */
const char *tn__print_apply(tn__printer *p, int op, int kind, int skind, const char *const *operand);
void tn__print_value(tn__printer *p, tn_node *n, const char *text); /* declares n */

/* An element in memory, and what is made of it. */
const char *tn__print_element(tn__printer *p, tn_node *access);
const char *tn__print_loaded(tn__printer *p, tn_node *load, const char *element);
void tn__print_load(tn__printer *p, tn_node *n);
/* what a STOREADD adds, in the dtype in which the sum is computed */
const char *tn__print_addend(tn__printer *p, tn_node *n);
/* what stands in the element once x is added */
const char *tn__print_combined(tn__printer *p, int by, int dtype, const char *element, const char *x);
void tn__print_store(tn__printer *p, tn_node *n, const char *gate /* NULL: always */, const char *element);
/* cell = cell op value, of a SETACC */
void tn__print_setacc(tn__printer *p, tn_node *n, const char *cell);
/* h[0 .. lanes/2-1] = cells combined by halves down to one */
void tn__print_halves(tn__printer *p, int op, int dtype, const char *from, const char *into, int64_t lanes);
/* Instructions that all languages print alike: scalar ops, branches. */
void tn__print_plain(tn__printer *p, tn_node *n);
/* What n needs that has no name yet, as values; names n. */
void tn__print_deep(tn__printer *p, tn_node *n);

void tn__print_slices(tn__printer *p, uint32_t part); /* slices.c */
void tn__print_group(tn__printer *p, uint32_t part, uint32_t end); /* groups.c: all from part on, as one kernel */
void tn__print_begin(tn__printer *p, uint32_t part);  /* nothing is known any more of a part before it */
#endif
