/* From a kernel body to a linear program.  Prefix tn__lower_. */
#ifndef TN_LOWER_LOWER_H
#define TN_LOWER_LOWER_H
#include "device/device.h"
#include "lower/kernel.h"

/* The passes, in order, on one screen: see lower.c.  Everything is allocated in `a`.  nbuf, nout: the body's PARAM slots, written ones
 * first.  The kernel may have more buffers than the body: those are its own scratch, sized by their PARAM's source. */
tn__kernel *tn__lower(tn_ctx *c, tn__arena *a, const tn__device *dev, tn_node *body, uint32_t index);

/* ---- shared by the passes ---- */

enum { TN__MAX_RANGES = 64 };

/* Numbers of the ranges that passes add.  The schedule numbers outputs from 0 and reductions from 100. */
enum {
  TN__R_ROW = 10000,   /* loops of kept rows */
  TN__R_MARK = 20000,  /* stand-ins during a rewrite; none is left after it */
  TN__R_INNER = 30000, /* the inner half of a cut range, added to its number */
  TN__R_BLOCK = 40000  /* blocks of a split reduction, and the sum over them */
};

/* The ranges of a body, numbered, and which of them each node depends on. */
typedef struct tn__ranges {
  tn__nodes order;                  /* the body, sources first */
  tn_node *range[TN__MAX_RANGES];
  uint32_t n;
  tn__map free;                     /* node -> bit set of ranges it depends on; a reduce or store does not depend on its own */
  tn__map level;                    /* node -> reductions (and stores) on the longest path below it */
} tn__ranges;

void tn__ranges_find(tn_ctx *c, tn__arena *a, tn_node *body, tn__ranges *out);
uint64_t tn__free_of(const tn__ranges *r, const tn_node *n);
uint32_t tn__level_of(const tn__ranges *r, const tn_node *n);
int tn__range_at(const tn__ranges *r, const tn_node *range); /* its number, -1 */
/* A node that closes loops (REDUCE, STORE, STOREADD): its own ranges are src[*first] .. */
bool tn__closes(const tn_node *n, uint32_t *first);
uint64_t tn__own_of(const tn__ranges *r, const tn_node *n);

/* separate.c */
tn_node *tn__separate(tn_ctx *c, tn__arena *a, tn_node *body, tn__sb *note);
/* optimise.c */
tn_node *tn__optimise_loops(tn_ctx *c, tn__arena *a, const tn__device *dev, tn_node *body, tn__sb *note);
tn_node *tn__optimise_part(tn_ctx *c, tn__arena *a, const tn__device *dev, tn_node *part, int64_t *nlocal, tn__sb *note);
/* rows.c */
tn_node *tn__share_loops(tn_ctx *c, tn__arena *a, tn_node *body, tn__sb *note);
tn_node *tn__keep_rows(tn_ctx *c, tn__arena *a, tn_node *body, int64_t *nlocal, tn__sb *note); /* numbers LOCALs from *nlocal */
/* linearise.c */
uint32_t tn__cut_parts(tn_ctx *c, tn__arena *a, tn_node *body, tn_node **part); /* at most two */
void tn__linearise(tn_ctx *c, tn__arena *a, tn_node *body, tn__part *part);
#endif
