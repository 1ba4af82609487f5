/* Kernels and programs as users might write them: texts of what the compiler makes of random graphs, damaged in ways
 * that leave most of them well-formed, and run on several devices that have to agree.  Prefix hand_. */
#ifndef TEST_SUPPORT_HAND_H
#define TEST_SUPPORT_HAND_H
#include "support/graph.h"

/* A context in mode strict, which looks for races or not. */
tn_ctx *hand_open(const char *device, bool watches, const char *cache);
/* The text of a kernel of a random graph, as the schedule has it, or as the instructions of the context's device; to be
 * freed.  NULL: the graph computes nothing. */
char *hand_draw(tn_ctx *c, graph_dice *d);
/* The text with a few words exchanged, lost or added; to be freed. */
char *hand_damage(graph_dice *d, const char *text);

typedef struct hand_tally {
  uint32_t texts, run, compared; /* so many ran on the first device; so many results of others were like its own */
  uint32_t judged;               /* of those that ran */
} hand_tally;

enum { HAND_BUFFERS = 64 };

typedef struct hand_memory { /* of a kernel, by the numbers of its buffers */
  char *v[HAND_BUFFERS];
  size_t bytes[HAND_BUFFERS];
} hand_memory;

/* Does in memory what the body says (hand_judge.c).  False: it is not known what that is, or takes too long. */
bool hand_judge(tn_ctx *c, tn_node *body, const hand_memory *m);

/* Runs it on each of the contexts, the first of which is "ref" that looks for races.  What that one refuses no other
 * one runs, but for what depends on the device (races, and what shared memory holds at first); what it computes the
 * others compute, to the bit (all are in mode strict), or say why they do not; of a kernel that is what its text means
 * by hand_judge(); and no error is Tenet's own.  False: `why` says what is wrong. */
bool hand_agree(tn_ctx *const *c, int n, graph_dice *d, const char *text, hand_tally *tally, char *why, size_t size);
#endif
