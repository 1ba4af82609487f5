/* Programs as users have them, small: what tools/mutate-code tries mutants of the compiler on, and what the ledger of
 * costs counts (support/ledger.h).  Prefix program_. */
#ifndef TEST_SUPPORT_PROGRAMS_H
#define TEST_SUPPORT_PROGRAMS_H
#include "support/graph.h"
#include "tenet/tenet.h"

enum { PROGRAM_OUTPUTS = 12, PROGRAM_GRAPHS = 48 };

typedef struct program {
  const char *name;
  int (*graph)(tn_ctx *c, tn_tensor **out);                /* their number */
  void (*run)(tn_ctx *c, void (*look)(tn_tensor *result)); /* instead: more than a graph */
  bool large; /* too much to be run by an interpreter */
} program;

extern const program program_list[];
extern const int program_count;

/* Realises a graph twice, runs others some times; then looks at each result, where look is not NULL. */
void program_run(tn_ctx *c, const program *p, void (*look)(tn_tensor *result));
/* One of PROGRAM_GRAPHS random graphs: small ones, those with longer axes, and those of a symbolic size in turn. */
bool program_random(tn_ctx *c, uint64_t seed, graph *out);
#endif
