/* Random tensor graphs, and the check that what runs is what the graph says.
 *
 * A graph is a SINK of outputs over numbered PARAMs with data.  It is run (by tn_realize, or as a program where sizes
 * are symbolic) through the real schedule and compared with naive.h: in mode strict bit for bit (NaN as a class); else
 * elementwise results and exact sums bit for bit, other sums (which stand at outputs only, like results of bf16 that
 * were rounded) within n*eps*sum|terms|.  A graph that fails can be shrunk, and its text is a regression test. */
#ifndef TEST_SUPPORT_GRAPH_H
#define TEST_SUPPORT_GRAPH_H
#include "ir/build.h"

/* Choices: from bytes while there are any (fuzzers), then from a generator. */
typedef struct graph_dice {
  const uint8_t *at, *end;
  uint64_t state;
} graph_dice;
uint32_t graph_roll(graph_dice *d, uint32_t n); /* 0 .. n-1 */

enum { GRAPH_LEAVES = 64 };

typedef struct graph {
  tn_node *sink; /* kept */
  void *data[GRAPH_LEAVES];
  uint32_t nleaf;
  tn_node *var;  /* a symbolic size, kept; NULL: none */
  int64_t bound; /* its value; leaves have data for the largest */
  /* what a vendor's functions of f64, wherever they stand, may come to in the results: a share of them, or of 1 */
  double slack;
} graph;

typedef struct graph_size {
  uint32_t nodes, outputs; /* at most */
  int64_t longest;         /* the longest axis that is tried */
  int64_t elements;        /* of any tensor */
  int64_t symbolic;        /* the most of a symbolic size B that axes may have; 0: there is none */
} graph_size;

/* Everything is allowed in mode strict; else what would make the order of a sum visible later is avoided. */
bool graph_random(tn_ctx *c, graph_dice *d, const graph_size *size, graph *out);
/* A new leaf with drawn data: small integers where `plain`, else anything.  NULL if there are GRAPH_LEAVES. */
tn_node *graph_leaf(tn_ctx *c, graph *g, graph_dice *d, int dtype, tn_node *const *dim, uint32_t rank, bool plain);
/* From text (a SINK over PARAMs); the data are drawn: small integers where `plain`, else anything. */
bool graph_parse(tn_ctx *c, const char *text, uint64_t seed, bool plain, graph *out);
/* Realises all outputs and compares.  On a difference or an error, says what in `why`. */
bool graph_agrees(tn_ctx *c, const graph *g, char *why, size_t size);
/* With the least, a middle and the greatest value of the symbolic size in turn, if there is one. */
bool graph_agrees_always(tn_ctx *c, graph *g, char *why, size_t size);
/* Makes a failing graph smaller while it still fails. */
void graph_shrink(tn_ctx *c, graph *g);
char *graph_text(tn_ctx *c, const graph *g); /* to be freed */
void graph_free(tn_ctx *c, graph *g);
/* graph_random, graph_agrees_always; a failure is shrunk and printed, with `name`. */
bool graph_try(tn_ctx *c, graph_dice *d, const graph_size *size, const char *name);
#endif
