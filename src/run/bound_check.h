/* Which values go into a run and come out of it, under TENET_VERIFY.  Prefix tn__bound_.
 *
 * received.c holds what devices are asked for against a plan and its buffers; this holds the buffers against the values
 * that somebody wanted.  Runs are noted on the way, and looked at when all is over. */
#ifndef TN_RUN_BOUND_CHECK_H
#define TN_RUN_BOUND_CHECK_H
#include "run/runtime.h"

/* Do the outputs of a key, over these storages and placeholders, say what the roots said?  Throws. */
void tn__bound_key(tn_ctx *c, tn_node *key, const tn__nodes *in, const tn__nodes *roots);
/* Runs fn.  The tensors are to stand then where some run put what they had been, from where its inputs stood.  Throws.
 */
void tn__bound_watch(tn_ctx *c, tn_tensor *const *t, int n, void (*fn)(tn_ctx *c, void *arg), void *arg);
/* A run that is over. */
void tn__bound_note(tn_ctx *c, tn_node *key, tn__buffer *const *in, tn__buffer *const *out);
/* Storages whose memory is about to be another's.  Is one of them the value of a tensor that is not to see that, or
 * part of a graph other than the movement of one that is (sees: these tensors and movements), or what a program reads
 * (kept), or an index that is yet to be looked at?  Throws.  All nodes are looked at, unless none was made since they
 * were for the same storages: what a node is made of never changes.  seen: which storages, and the last node that there
 * was then. */
void tn__bound_swaps(tn_ctx *c, const tn__nodes *storage, const tn__map *sees, const tn__nodes *kept, uint64_t *seen);
#endif
