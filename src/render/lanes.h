/* Vector loops of functions of slices: the iterations of an AX_UPCAST range as lanes of vectors (slices.c says what is
 * printed).  Prefix tn__lanes_. */
#ifndef TN_RENDER_LANES_H
#define TN_RENDER_LANES_H
#include "render/c_like.h"

/* Chooses the number of lanes of each vector loop and accumulator of the part. */
void tn__lanes_plan(tn__printer *p);

/* The vector loop that starts at ins[at]; the index of the instruction behind its END. */
uint32_t tn__lanes_loop(tn__printer *p, uint32_t at);
/* Accumulators: of lanes where a vector loop sets them, else plain variables. */
void tn__lanes_acc(tn__printer *p, tn_node *n);
void tn__lanes_setacc(tn__printer *p, tn_node *n);
void tn__lanes_getacc(tn__printer *p, tn_node *n);

/* What stands in front of the kernels: the helpers for the vectors that they use. */
void tn__lanes_head(tn__printer *p, tn__sb *out);
#endif
