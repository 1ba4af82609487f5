/* Random tensor graphs, and the check that what runs is what the graph says.
 *
 * A graph is a SINK of outputs over numbered PARAMs with data.  It is run (by tn_realize, or as a program where sizes
 * are symbolic) through the real schedule and compared with what bounds.h says its elements may be.  A graph that fails
 * is shrunk, and printed as text that replays: graph and data are a regression test. */
#ifndef TEST_SUPPORT_GRAPH_H
#define TEST_SUPPORT_GRAPH_H
#include "ir/build.h"
#include "support/bounds.h"

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
  double work;             /* elements and steps of all, about; 0: a million */
  uint32_t rank;           /* the most axes; 0: five */
  int64_t symbolic;        /* the most of a symbolic size B that axes may have; 0: there is none */
} graph_size;

graph_size graph_any_size(graph_dice *d); /* one of many: lanes, groups, long rows, many axes, long chains, symbolic */
graph_size graph_layer_size(void); /* as networks have them: tiles of products, sums over all rows beside the rows */
bool graph_random(tn_ctx *c, graph_dice *d, const graph_size *size, graph *out);
/* A new leaf with drawn data: small integers where `plain`, else anything.  NULL if there are GRAPH_LEAVES. */
tn_node *graph_leaf(tn_ctx *c, graph *g, graph_dice *d, int dtype, tn_node *const *dim, uint32_t rank, bool plain);
/* From text (a SINK over PARAMs); data that it does not say are drawn: small integers where `plain`, else anything. */
bool graph_parse(tn_ctx *c, const char *text, uint64_t seed, bool plain, graph *out);
/* Realises all outputs and compares.  On a difference or an error, says what in `why`. */
bool graph_agrees(tn_ctx *c, const graph *g, char *why, size_t size);
/* Runs it, without a look at what comes out; false: an error, which stays. */
bool graph_run(tn_ctx *c, graph *g, char *why, size_t size);
/* As a step of a program that is run several times: leaves that are like an output are states, which it assigns.  Their
 * data are left as the last run leaves them. */
bool graph_replays(tn_ctx *c, graph *g, char *why, size_t size);
/* With the least, a middle and the greatest value of the symbolic size in turn, if there is one. */
bool graph_agrees_always(tn_ctx *c, graph *g, char *why, size_t size);
/* Realises the outputs of all of them at once, in one unit of code, and compares; none has a symbolic size. */
bool graphs_agree(tn_ctx *c, graph *const *g, uint32_t n, char *why, size_t size);
/* So, without a look at whether they are right: a number for each graph, of all bits that come out; false: an error. */
bool graphs_digest(tn_ctx *c, graph *const *g, uint32_t n, uint64_t *digest);
tn__nodes graph_nodes(const graph *g, tn__arena *a); /* all of them, sources first */
/* What nodes of it may be, with the data; naive_free() each. */
void graph_values(tn_ctx *c, const graph *g, tn_node *const *root, uint32_t n, naive_tensor *out);
/* Makes a failing graph smaller while it still fails. */
void graph_shrink(tn_ctx *c, graph *g);
char *graph_text(tn_ctx *c, const graph *g); /* with the data, unless they are many; to be freed */
void graph_free(tn_ctx *c, graph *g);
/* graph_agrees_always; a failure is shrunk and printed, with `name`. */
bool graph_check(tn_ctx *c, graph *g, const char *name);
bool graph_try(tn_ctx *c, graph_dice *d, const graph_size *size, const char *name); /* so, of a random one */
/* How much has been asked of results so far in this process. */
extern bounds_tally graph_asked;
#endif
