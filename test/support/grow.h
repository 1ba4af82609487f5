/* The grammar of random graphs: what graph.c and its parts share. */
#ifndef TEST_SUPPORT_GROW_H
#define TEST_SUPPORT_GROW_H
#include "support/graph.h"

enum { GROW_VALUES = 160, GROW_RANK = 12 };

typedef struct grower {
  tn_ctx *c;
  graph_dice *d;
  const graph_size *size;
  graph *g;
  tn_node *v[GROW_VALUES]; /* what there is to build on */
  uint32_t n;
  double work;             /* elements and steps that may still be computed */
} grower;

/* The most that a size may be; a plain one is no less. */
static inline int64_t grow_dim(const tn_node *n, uint32_t i) { return n->dim[i]->hi; }
int64_t grow_count(const tn_node *n);
/* Keeps a value if it is not too large; false: it is. */
bool grow_add(grower *w, tn_node *n);
tn_node *grow_pick(grower *w);       /* the last ones rather than the first */
tn_node *grow_pick_of(grower *w, int cls); /* so, of a class of dtypes (tn__class); made where there is none */
int64_t grow_size(grower *w);        /* an extent, on a logarithmic scale, at borders of lanes and groups more often */
int grow_dtype(grower *w, int cls);
tn_node *grow_leaf_of(grower *w, int dtype, const int64_t *dim, uint32_t rank);
/* A value of x's shape and the dtype: one there is, a leaf that broadcasts, or a literal. */
tn_node *grow_match(grower *w, const tn_node *x, int dtype);
/* Places along an axis of size n: all over it, few and often, all the same, in order, and some outside. */
tn_node *grow_places(grower *w, int64_t n, tn_node *const *dim, uint32_t rank);
bool grow_is_plain(const tn_node *n); /* no symbolic size */

/* grow_front.c: forms that the public functions make. */
void grow_front(grower *w);

/* grow_layers.c: a layer of a network, and its gradients by what it was made of. */
void grow_layer(grower *w);
#endif
