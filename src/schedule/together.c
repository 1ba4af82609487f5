/* Reductions for which a group's threads do something together along all of them: sums up to each place of an axis,
 * words that are sent to places of a block, and counts of those before with the same key.
 *
 * Needs devices of groups; elsewhere there are none.  Gives, while kernels are planned, what a kernel has of them,
 * since little else can stand beside.  Breaks nothing: a reduction that is not known here is one like any other. */
#include "schedule/fuse.h"

/* The axis that an operand of a comparison counts, whatever has been done to it; -1: it is no such counter */
static int counted_axis(const tn_node *x) {
  int axis = -1;
  for (; x->op == OP_CAST || x->op == OP_EXPAND || x->op == OP_RESHAPE; x = x->src[0])
    for (uint32_t i = 0; i < x->rank && x->op == OP_RESHAPE && axis < 0; i++)
      if (!tn__is_int_const(x->dim[i], 1)) axis = (int)i;
  return x->op == OP_IOTA ? axis : -1;
}

/* Is n, where a group's threads may sum up along a loop, the sums up to each place of a long axis?  *turn: which of
 * n's axes. */
/* a choice: no is right */
bool tn__is_scan(const tn__fuse *f, const tn_node *n, uint32_t *turn) {
  const tn__target *t = &f->dev->target;
  int64_t terms, turns;
  if (!t->group || f->c->mode == TN_MODE_STRICT || tn__ops[n->op].group != G_REDUCE || n->nint != 1) return false;
  const tn_node *x = n->src[0], *where = x->op == OP_WHERE ? x->src[0] : NULL;
  while (where && where->op == OP_EXPAND) where = where->src[0];
  if (!where || (where->op != OP_LE && where->op != OP_LT)) return false;
  int axis[2] = {counted_axis(where->src[0]), counted_axis(where->src[1])}, summed = (int)n->ints[0];
  if (axis[0] < 0 || axis[1] < 0 || (axis[0] == summed) == (axis[1] == summed)) return false;
  int own = axis[axis[0] == summed];
  *turn = (uint32_t)(own > summed ? own - 1 : own);
  return tn__const_int(x->dim[summed], &terms) && tn__const_int(x->dim[own], &turns) && turns == terms &&
         terms > TN__THREADS_TURNS && terms <= tn__scan_turns(t);
}

/* Is n, where a group's threads may exchange words, the sums of those that a number of their own sends to each place of
 * a block? */
/* a choice: no is right */
static bool is_exchange(const tn__fuse *f, const tn_node *n) {
  int64_t terms, turns;
  if (n->op != OP_SUM || n->nint != 1 || tn__size_of(n->dtype) != sizeof(uint32_t)) return false;
  const tn_node *x = n->src[0], *all = x, *where;
  while (x->op == OP_CAST || (tn__is_elementwise(x) && x->nsrc == 2)) x = x->src[0];
  if (x->op != OP_WHERE || x->src[0]->op != OP_EQ) return false;
  where = x->src[0];
  int summed = (int)n->ints[0], axis[2] = {counted_axis(where->src[0]), counted_axis(where->src[1])};
  if ((axis[0] < 0) == (axis[1] < 0)) return false;
  int own = axis[0] < 0 ? axis[1] : axis[0];
  return own != summed && tn__const_int(all->dim[summed], &terms) && tn__const_int(all->dim[own], &turns) &&
         terms == turns && tn__target_exchanges(&f->dev->target, terms, 1);
}

/* Is n, where groups have tables of whole lines, the sums of a line's terms by place? */
/* a choice: no is right */
static bool is_line_sum(const tn__fuse *f, const tn_node *n) {
  tn__line_size size = {.outer = 1, .inner = 1, .sum = tn__size_of(n->dtype), .value = tn__size_of(n->dtype)};
  tn__line_share share;
  if (n->op != OP_SUM || n->nint != 1 || n->src[0]->op != OP_WHERE) return false;
  const tn_node *x = n->src[0], *where = x->src[0];
  while (where->op == OP_EXPAND) where = where->src[0];
  if (where->op != OP_EQ) return false;
  int summed = (int)n->ints[0], axis[2] = {counted_axis(where->src[0]), counted_axis(where->src[1])};
  int own = axis[0] < 0 ? axis[1] : axis[0];
  if ((axis[0] < 0) == (axis[1] < 0) || own == summed) return false;
  for (int i = 0; i < (int)x->rank; i++) {
    int64_t n_of, *of = i == own ? &size.places : i == summed ? &size.updates : i < own ? &size.outer : &size.inner;
    if (!tn__const_int(x->dim[i], &n_of) || n_of < 1 || n_of > INT32_MAX) return false;
    if (i == own || i == summed) *of = n_of;
    else if (__builtin_mul_overflow(*of, n_of, of)) return false;
  }
  return tn__target_sums_lines(&f->dev->target, &size, &share);
}

/* a choice: no is right */
bool tn__has_line_tables(const tn__fuse *f, const tn_node *n) {
  if (!f->dev->target.group || n->op != OP_CONTIG) return false;
  const tn_node *x = n->src[0];
  while (x->op == OP_CAST) x = x->src[0];
  bool has = is_line_sum(f, x);
  for (uint32_t i = 0; i < x->nsrc && x->op == OP_ADD; i++) has |= is_line_sum(f, x->src[i]);
  return has;
}

/* Is n, where threads that run in step count together, how many before each place of a block have its key? */
/* a choice: no is right */
static bool is_rank(const tn__fuse *f, const tn_node *n) {
  int64_t terms, turns;
  if (n->op != OP_SUM || n->nint != 1) return false;
  const tn_node *x = n->src[0], *both = x->op == OP_CAST ? x->src[0] : x;
  if (both->op != OP_AND) return false;
  const tn_node *part[2] = {both->src[0], both->src[1]};
  for (int i = 0; i < 2; i++)
    while (part[i]->op == OP_EXPAND) part[i] = part[i]->src[0];
  int at = part[0]->op == OP_LT ? 0 : 1;
  const tn_node *earlier = part[at], *alike = part[!at], *key = alike->src[0];
  if (earlier->op != OP_LT || alike->op != OP_EQ || !tn__is_int(key->dtype) || key->lo < 0 || key->hi >= TN__TALLY_KEYS)
    return false;
  int summed = (int)n->ints[0], own = counted_axis(earlier->src[1]);
  return counted_axis(earlier->src[0]) == summed && own >= 0 && own != summed &&
         tn__const_int(x->dim[summed], &terms) && tn__const_int(x->dim[own], &turns) && terms == turns &&
         tn__target_ranks(&f->dev->target, terms, TN__MOST_EXCHANGED);
}

/* Does kernel k exchange by what n counts, and nothing else?  Then the same group counts first (lower/in_step.c), be it
 * for several arrays that go to the same places. */
/* a choice: no is right */
bool tn__fits_exchange(const tn__fuse *f, const tn_node *n, int k) {
  const tn__seed *g = &f->seeds.v[k];
  bool alike = g->roots.n > 0;
  for (uint32_t i = 1; i < g->roots.n; i++) alike &= tn__is_placed(g->roots.v[i]); /* which come beside the first */
  return g->exchanges && !g->ranks && !g->others && alike && is_rank(f, n);
}

/* Is n an element at each turn of all the kernel's loops that want it at d? */
/* a choice: no is right */
bool tn__is_everywhere(const tn__fuse *f, const tn_node *n, const tn__demand *d) {
  const tn__seed *g = &f->seeds.v[d->k];
  return d->env == g->env && !d->gate && tn__numel_guess(n) >= tn__extents(g->env, ~0u);
}

void tn__note_together(tn__fuse *f, const tn_node *n, const tn__demand *d) {
  uint32_t turn;
  tn__seed *g = &f->seeds.v[d->k];
  if (!g->along && tn__is_scan(f, n, &turn) && tn__is_everywhere(f, n, d))
    g->along = d->idx->src[turn], g->alone = true;
  bool exchanges = is_exchange(f, n) && tn__is_everywhere(f, n, d), ranks = !exchanges && tn__fits_exchange(f, n, d->k);
  g->exchanges |= exchanges;
  g->ranks |= ranks;
  g->alone |= ranks; /* other stores would have loops of their own */
  g->others |= !exchanges && !ranks && !is_rank(f, n);
}
