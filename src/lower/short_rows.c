/* Rows too short to fill the lanes of a reduction: do lanes go along a row's terms, or across rows, each with one of
 * its own?  For devices whose lanes are those of vectors.
 *
 * Along the terms vectors are loaded whole, but most lanes of the last one may be empty, what lanes have found is to be
 * brought together for each row, and what a row has one of is computed by itself.  Across rows all lanes are in use
 * throughout, but each element is fetched from a place of its own. */
#include "ir/build.h"
#include "lower/lower.h"

/* In additions of vectors, as everything here */
enum { SHUFFLE = 1, LARGER = 9 /* the larger of two floats, of which one may be NaN, or both zero */ };

typedef struct way {
  const tn__survey *p;
  uint64_t around; /* the loops of rows */
  double lanes;    /* of a vector */
  uint32_t terms;  /* the loop along which they would go, were they not across rows */
  double least;    /* terms that are worth a vector */
} way;

/* a choice: either is right */
static bool counts(const tn_node *n) { return n->dtype != TN__INDEX && n->op != OP_SINK && n->op != OP_AFTER; }

/* The loops inside of a row's that n is computed in */
/* a choice: either is right */
static uint64_t inside(const way *w, const tn_node *n) {
  return (tn__free_of(&w->p->r, n) | tn__own_of(&w->p->r, n)) & ~w->around;
}

/* The loop that has the lanes of what is computed in these: of those of the row's own reductions it is known. */
/* a choice: either is right */
static double in_lanes(const way *w, uint64_t set) {
  double most = 1;
  if (set >> w->terms & 1) return tn__extent(w->p->r.range[w->terms]);
  for (uint32_t k = 0; k < w->p->r.n; k++)
    if ((set >> k & 1) && tn__extent(w->p->r.range[k]) > most) most = tn__extent(w->p->r.range[k]);
  return most;
}

/* What the lanes of a row's last vector have found, brought together by halves */
/* a choice: either is right */
static double meeting(const way *w, const tn_node *reduce, double terms) {
  double work = 0, met = 1;
  for (; met < terms && met < w->lanes; met *= 2)
    work += SHUFFLE + (reduce->ints[0] == OP_ADD || reduce->ints[0] == OP_MUL ? 1 : LARGER);
  return work;
}

/* a choice: either is right */
static double work_along(const way *w) {
  double work = 0;
  for (uint32_t i = 0; i < w->p->r.order.n; i++) {
    const tn_node *n = w->p->r.order.v[i];
    if (!counts(n)) continue;
    uint64_t set = inside(w, n);
    double times = tn__volume(w->p, set), terms = in_lanes(w, set), vectors = 1;
    while (vectors * w->lanes < terms) vectors++;
    bool whole = terms >= w->least;
    work += tn__ops[n->op].cost * (whole ? times / terms * vectors : times);
    if (whole && n->op == OP_REDUCE) work += meeting(w, n, terms);
  }
  return work;
}

/* Is it fetched element by element, for each row anew?  What several rows have in common is turned once for all of them
 * (turn_columns.c). */
/* a choice: either is right */
static bool is_alone(const way *w, const tn_node *n, uint32_t row) {
  if (!tn__is_access(n)) return false;
  int64_t step = tn__stride(&w->p->r, n->src[1], row);
  return step != 0 && step != 1 && (n->op != OP_LOAD || !(w->around & ~tn__free_of(&w->p->r, n)));
}

/* a choice: either is right */
static double work_across(const way *w, uint32_t row) {
  double work = 0, rows = tn__extent(w->p->r.range[row]), lanes = rows < w->lanes ? rows : w->lanes;
  for (uint32_t i = 0; i < w->p->r.order.n; i++) {
    const tn_node *n = w->p->r.order.v[i];
    if (!counts(n)) continue;
    work += tn__volume(w->p, inside(w, n)) * (tn__ops[n->op].cost / lanes + (is_alone(w, n, row) ? TN__FETCHED : 0));
  }
  return work;
}

/* a choice: any is right */
int tn__across_rows(const tn__lowering *l, const tn__survey *p, uint64_t rows, uint32_t terms, double least) {
  way w = {.p = p, .terms = terms, .least = least};
  size_t size = sizeof(float);
  int best = -1;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op != OP_REDUCE || !(tn__own_of(&p->r, n) >> terms & 1)) continue;
    w.around |= tn__free_of(&p->r, n);
    if (tn__size_of(n->dtype) > size) size = tn__size_of(n->dtype);
  }
  w.around &= p->common;
  w.lanes = l->target->lane_bytes / 2 / (double)size; /* they are enough for two */
  double work = work_along(&w);
  for (uint32_t j = 0; j < p->r.n; j++) {
    double across = rows >> j & 1 ? work_across(&w, j) : work;
    if (across < work) work = across, best = (int)j;
  }
  return best;
}
