/* A kernel made anew from two, which give way to it if that works out.  Prefix tn__remake_.
 *
 * Needs all decided: what two kernels store is wanted once more, by a third one at ranges of its own, and so is all
 * that it is made of.  What only the two wanted in memory is stored no more. */
#ifndef TN_SCHEDULE_REMAKE_H
#define TN_SCHEDULE_REMAKE_H
#include "schedule/depend.h"

typedef struct tn__remake { /* kernels a and b as kernel k */
  int a, b, k;
  tn_node *env, *rows; /* k's ranges; those of them that count rows */
  tn__numbers todo;    /* positions of nodes that k wants, */
  tn__numbers seen;    /* those that it has wanted */
  int small;           /* a or b, the ranges of which are no more than some of env's, */
  tn__nodes from, to;  /* these and those */
  bool sums, shares;   /* it sums up rows; b reads something large that a has at hand */
} tn__remake;

static inline tn__seed *tn__seed_of(const tn__fuse *f, int k) { return &f->seeds.v[k]; }

/* Does it store anything?  One that has given way does not. */
bool tn__remake_alive(const tn__fuse *f, int k);
/* Is it stored by a or b, and wanted in memory by nobody else? */
bool tn__remake_drops(const tn__fuse *f, const tn__remake *p, const tn__info *in);
/* Places where kernel k wants it */
uint32_t tn__remake_demands(const tn__fuse *f, const tn__info *in, int k);
/* n is to be looked at, if k wants it. */
void tn__remake_note(tn__fuse *f, tn__remake *p, const tn_node *n);
/* A place of kernel k's, a gate, or a range, by env's ranges */
tn_node *tn__remake_moved(tn__fuse *f, const tn__remake *p, int k, tn_node *x);
/* Did kernel a want it there, too, or elsewhere in the row? */
bool tn__remake_had(tn__fuse *f, const tn__remake *p, const tn__info *in, const tn__demand *d);
/* Kernel k stores what a and b did. */
void tn__remake_take_over(tn__fuse *f, const tn__remake *p);
/* It wants nothing: a and b stay. */
void tn__remake_give_up(tn__fuse *f, const tn__remake *p);
/* Demands of kernels that are no more go; so do buffers that nobody writes. */
void tn__remake_tidy(tn__fuse *f);
#endif
