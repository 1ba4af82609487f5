/* The user's graph, evaluated node by node in a world: what a schedule has to come to.  Prefix tn__graph. */
#ifndef TN_VERIFY_GRAPH_H
#define TN_VERIFY_GRAPH_H
#include "ir/eval.h"
#include "verify/value.h"

typedef struct tn__image {
  tn__val *v;
  int64_t n, dim[TN_MAX_RANK];
  uint32_t rank;
  int dtype;
} tn__image;

enum { TN__MOST_WORK = 32000000, TN__TWIN_WORK = 6000000 }; /* what is compared; what a smaller twin has at most */

/* Elements of all nodes, and steps of contractions, at these sizes. */
double tn__graph_work(tn_ctx *c, tn_node *sink, const tn__env *env);
/* One image for each source of the sink. */
void tn__graph_run(tn__world *w, tn_node *sink, const tn__env *env, tn__image *out);
/* Which of `n` elements of PARAM 0 each of `count` of a movement over it is, of sizes that are numbers; NULL: it has
 * others. */
int64_t *tn__graph_moved(tn__world *w, tn_node *moved, int64_t n, int64_t count);
#endif
