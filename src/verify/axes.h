/* Which sizes of a graph belong together: what must change with what, if a program is to be the same one with other
 * sizes.  Prefix tn__axes_.
 *
 * The size of each axis of each node is a product of atoms.  An atom is a number, or a symbolic size, which stays as it
 * is.  Axes that an op takes for equal share their atoms; a reshape tells an atom to be a product of others.  Atoms
 * that a pad, a slice or a window of stride 1 turns into each other differ by a fixed number: they are of one `band`,
 * whose atoms shrink by the same number.  Where an op says anything else about its sizes they stay as they are. */
#ifndef TN_VERIFY_AXES_H
#define TN_VERIFY_AXES_H
#include "ir/build.h"

typedef struct tn__axes_atom {
  int64_t size;
  tn_node *symbol;          /* NULL: a number */
  uint32_t same, band;      /* towards the atom that stands for all that are the same, and for the band */
  uint32_t first, n;        /* in `product`: the atoms that it is the product of; n = 0: it is one by itself */
  /* of a band, where its representative stands */
  int64_t least, greatest;  /* of its sizes */
  int64_t less;             /* what they shrink by */
  bool fixed, many;         /* they stay as they are; they differ */
} tn__axes_atom;

typedef struct tn__axes_list {
  uint32_t *v;
  uint32_t n, cap;
} tn__axes_list;

typedef struct tn__axes {
  tn_ctx *c;
  tn__arena *a;
  tn__nodes order;                /* the graph, sources first */
  tn__map first;                  /* node -> its first axis in `axis` */
  tn__map symbol;                 /* symbolic size -> atom */
  tn__vec(tn__axes_list) axis;    /* the atoms of each axis; none: size 1 */
  tn__vec(tn__axes_atom) atom;
  tn__axes_list product;
} tn__axes;

void tn__axes_find(tn_ctx *c, tn__arena *a, tn_node *graph, tn__axes *out);
/* The atoms that stand for the bands that may shrink. */
void tn__axes_bands(tn__axes *x, tn__axes_list *out);
/* The size of an axis when all bands have shrunk by their `less`. */
tn_node *tn__axes_size(tn__axes *x, const tn_node *n, uint32_t axis);
#endif
