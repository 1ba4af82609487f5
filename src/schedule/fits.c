/* May a reduction be computed where it is wanted?
 *
 * Needs the demands of a node, and what their kernels reduce besides.  A kernel computes a reduction itself where each
 * element is computed once, under loops that it can put outermost, and enough threads are left for it; else it loads
 * what another one stored.  Breaks nothing: both compute the same. */
#include "schedule/fuse.h"
#include <math.h>

enum {
  MAX_LOOKED_AT = 64, /* nodes below one, or before it, to tell what it is made of or stands beside */
  GROUPS_OF_UNIT = 8, /* rows for each unit that are enough, however long they are */
  WAITING_GROUPS = 2, /* of columns, one of which computes in a unit while the other waits for memory */
  SPARED = 2,         /* launches, where a kernel of few rows takes another's reduction, and that of its blocks */
  MIN_PARALLEL = 16,  /* iterations around a fused reduction, which it must leave to the threads ... */
  SHORT_ROW = 32,     /* terms of a reduction below another one, and of all of them, ... */
  SMALL_NEST = 8192,  /* that few threads do in the time of a launch */
  SMALL_WORK = 32768  /* ... unless there is this little to do (and no sum to split) */
};

static const double UNEVEN = -1; /* terms of a kernel's reductions */

/* A reduction may be computed somewhat more often than once an element: at the borders of windows, where half of it is
 * masked. */
static const double MAX_REPEAT = 1.5;

/* a choice: either is right */
double tn__extents(tn_node *env, uint32_t set) {
  double p = 1;
  for (uint32_t j = 0; j < env->nsrc && j < 32; j++)
    if (set >> j & 1) p *= (double)tn__size_guess(env->src[j]->src[0]);
  return p;
}

uint32_t tn__ranges_in(tn__fuse *f, tn_node *idx, tn_node *gate, tn_node *env, bool *opaque) {
  tn_node *roots[2] = {idx, gate};
  tn__nodes all = {0};
  tn__mark work = tn__arena_mark(f->a);
  tn__topo(f->a, roots, gate ? 2 : 1, &all);
  uint32_t set = 0;
  for (uint32_t i = 0; i < all.n; i++) {
    *opaque |= all.v[i]->op == OP_DATUM;
    if (all.v[i]->op != OP_RANGE) continue;
    for (uint32_t j = 0; j < env->nsrc && j < 32; j++)
      if (env->src[j] == all.v[i]) set |= 1u << j;
  }
  tn__arena_rewind(f->a, work);
  return set;
}

bool tn__is_reduction(const tn_node *n) {
  return tn__ops[n->op].group == G_REDUCE || n->op == OP_FOLD || n->op == OP_CONTRACT;
}

/* Does it stand in memory wherever it is wanted? */
bool tn__is_stored(const tn__fuse *f, const tn_node *n) {
  return n->op == OP_CONTIG || n->op == OP_DISTINCT || n->op == OP_SPANS || n->op == OP_SCATTER ||
         (n->op == OP_PERMUTATION && !tn__spans_of(&f->dev->target, n));
}

/* The loops that n opens where it is computed */
static uint32_t loops_of(const tn_node *n) {
  if (n->op == OP_CONTRACT) return (uint32_t)n->ints[3];
  return n->op == OP_FOLD ? 1 : tn__ops[n->op].group == G_REDUCE ? n->nint : 0;
}

double tn__terms_of(const tn_node *n) {
  if (n->op != OP_CONTRACT) return tn__is_reduction(n) ? tn__numel_guess(n->src[0]) / tn__numel_guess(n) : 1;
  double terms = 1;
  for (int64_t i = n->ints[0] + n->ints[1]; i < n->src[0]->rank; i++)
    terms *= (double)tn__size_guess(n->src[0]->dim[i]);
  return terms;
}

/* a choice: either is right */
bool tn__row_is_kept(const tn__target *t, double elements) { return elements * sizeof(float) <= (double)t->registers; }

/* a choice: either is right */
bool tn__launches_decide(const tn__target *t, double elements) {
  return elements * sizeof(float) <= SPARED * tn__target_launch_bytes(t);
}

/* a choice: either is right */
bool tn__rows_suffice(const tn__target *t, double rows, double elements) {
  bool kept = tn__row_is_kept(t, elements);
  return !t->group || kept || rows <= (double)t->units || rows >= (double)t->units * GROUPS_OF_UNIT;
}

/* a choice: either is right */
bool tn__columns_suffice(const tn__target *t, double columns, double elements) {
  int in_step = t->subgroup ? t->subgroup : TN__USUAL_SUBGROUP;
  bool kept = tn__row_is_kept(t, elements * (double)t->sector / sizeof(float));
  return !t->group || kept || columns <= (double)t->units || columns >= (double)t->units * in_step * WAITING_GROUPS;
}

/* Does n reduce columns, whose elements lie apart in memory? */
/* a choice: either is right */
static bool lies_across(tn__fuse *f, const tn_node *n) {
  const double *stride = tn__info_of(f, n->src[0])->stride;
  for (uint32_t i = 0; i < n->nint; i++)
    if (!tn__is_int_const(n->src[0]->dim[n->ints[i]], 1) && stride[n->ints[i]] <= 1) return false;
  return true;
}

/* Is a reduction below another one's loop left to enough threads?  Those of the outputs share such work out, also where
 * the kernel's outputs want it, too; of many threads, one may take a few short rows.  Where threads are few, only a few
 * long rows are too much for one: as a kernel of their own they are cut into parts, if they lie along memory. */
/* a choice: either is right */
static bool stays_parallel(tn__fuse *f, const tn_node *n, const tn__demand *d, double outputs) {
  const tn__target *t = &f->dev->target;
  const tn__info *in = tn__info_of(f, n);
  for (int i = tn__demand_last(f, in, d->k); i >= 0; i = in->want.v[i].before)
    if (in->want.v[i].env == f->seeds.v[d->k].env) return true;
  bool rows = tn__is_reduction(n) && n->op != OP_CONTRACT;
  if (!t->group && rows && tn__extents(d->env, ~0u) < MIN_PARALLEL && tn__terms_of(n) >= TN__SPLIT_WORK)
    return lies_across(f, n);
  if (!t->group || !rows || outputs >= (double)t->units * tn__usual_group(t)) return true;
  return tn__terms_of(n) <= SHORT_ROW && tn__extents(d->env, ~0u) * tn__terms_of(n) <= SMALL_NEST;
}

/* Is n made of x, as a few nodes tell?  Then x will stand in memory where n is reduced. */
/* a choice: either is right */
static bool rests_on(tn__fuse *f, const tn_node *n, const tn_node *x) {
  tn__nodes todo = {0};
  tn__map seen;
  tn__mark work = tn__arena_mark(f->a);
  tn__map_init(&seen, f->a);
  for (uint32_t i = 0; i < n->nsrc; i++) tn__vec_push(f->a, &todo, n->src[i]);
  bool found = false;
  while (todo.n && !found && seen.n < MAX_LOOKED_AT) {
    tn_node *y = todo.v[--todo.n];
    if (tn__map_getp(&seen, y)) continue;
    tn__map_putp(&seen, y, y);
    found = y == x;
    for (uint32_t i = 0; i < y->nsrc; i++) tn__vec_push(f->a, &todo, y->src[i]);
  }
  tn__arena_rewind(f->a, work);
  return found;
}

/* Does the kernel that wants such sums at d go through each once, along a loop of its own?  Elsewhere each would be
 * made of all of its terms. */
/* a choice: no is right */
static bool fits_scan(tn__fuse *f, const tn_node *n, const tn__demand *d, uint32_t turn) {
  const tn__seed *g = &f->seeds.v[d->k];
  bool opaque = false;
  tn_node *at = d->idx->src[turn];
  uint32_t all = (1u << g->env->nsrc) - 1;
  if (!tn__is_everywhere(f, n, d) || g->product || g->keeps) return false;
  for (uint32_t i = 0; i < g->chain.n; i++)
    if (g->chain.v[i] != all) return false;
  for (uint32_t i = 0; i < g->roots.n; i++)
    if (tn__numel_guess(g->roots.v[i]) < tn__extents(g->env, ~0u)) return false;
  if (at->op == OP_MOD && at->src[1] == n->dim[turn]) at = at->src[0];
  return at->op == OP_RANGE && tn__ranges_in(f, d->idx, NULL, g->env, &opaque) == all && !opaque;
}

enum { BY_KERNEL = 1, BY_OTHERS = 2 };

/* A product that kernel k will compute: one of the nodes that come next, which it wants, moved, or with something made
 * of it element by element, and which nobody else wants, nor is n made of it.  NULL: none, as few nodes tell. */
/* a choice: any is right */
static const tn_node *coming_product(tn__fuse *f, const tn_node *n, int k) {
  uint32_t end = (uint32_t)(tn__info_of(f, n) - f->info);
  const tn_node *found = NULL;
  tn__map wanted;
  tn__mark work = tn__arena_mark(f->a);
  tn__map_init(&wanted, f->a);
  for (uint32_t s = 0; s < n->nsrc; s++) tn__map_put(&wanted, (uintptr_t)n->src[s], BY_OTHERS);
  for (uint32_t i = end; i && end - i < MAX_LOOKED_AT && !found;) {
    const tn__info *in = &f->info[--i];
    const tn_node *x = f->order.v[i];
    uint64_t by = 0;
    tn__map_get(&wanted, (uintptr_t)x, &by);
    for (uint32_t j = 0; j < in->want.n; j++) by |= in->want.v[j].k == k ? BY_KERNEL : BY_OTHERS;
    if (in->must || in->readers.n) by |= BY_OTHERS;
    if (by == BY_KERNEL && x->op == OP_CONTRACT && !in->conv && !tn__gemm_is_left(f, x)) found = x;
    bool moves = tn__ops[x->op].group == G_MOVE && x->op != OP_FOLD;
    bool passes = by == BY_KERNEL && (moves || tn__is_elementwise(x));
    for (uint32_t s = 0; s < x->nsrc; s++) {
      uint64_t before = 0;
      tn__map_get(&wanted, (uintptr_t)x->src[s], &before);
      tn__map_put(&wanted, (uintptr_t)x->src[s], before | (passes ? BY_KERNEL : BY_OTHERS));
    }
  }
  tn__arena_rewind(f->a, work);
  return found;
}

/* Is node `at` one of the sources of those up to `end`? */
static bool is_wanted_before(const tn__fuse *f, uint32_t at, uint32_t end) {
  for (uint32_t i = at + 1; i < end; i++)
    for (uint32_t k = 0; k < f->order.v[i]->nsrc; k++)
      if (f->order.v[i]->src[k] == f->order.v[at]) return true;
  return false;
}

/* The index along which kernel k sums up, or will by one of the few nodes that come next, in blocks; NULL: none */
/* a choice: no is right */
static const tn_node *scans_along(tn__fuse *f, const tn_node *n, int k) {
  uint32_t end = (uint32_t)(tn__info_of(f, n) - f->info), turn;
  if (f->seeds.v[k].along) return f->seeds.v[k].along;
  for (uint32_t i = end; i && end - i < MAX_LOOKED_AT;) {
    const tn__info *in = &f->info[--i];
    int last = tn__demand_last(f, in, k);
    if (last < 0 || in->want.n != 1 || in->must || !tn__is_scan(f, f->order.v[i], &turn)) continue;
    const tn__demand *d = &in->want.v[last];
    bool blocks = d->idx->src[turn]->op == OP_MOD && fits_scan(f, f->order.v[i], d, turn);
    return blocks && !is_wanted_before(f, i, end) ? d->idx->src[turn] : NULL;
  }
  return NULL;
}

/* Beside such sums: is n another one, the same all along their loop, which each group has sooner made anew than another
 * kernel has begun?  So is what stands before a block of a long scan. */
/* a choice: no is right */
static bool fits_beside_scan(tn__fuse *f, const tn_node *n, const tn__demand *d, const tn_node *along) {
  const tn__target *t = &f->dev->target;
  const tn_node *by = along->op == OP_MOD ? along->src[1] : NULL;
  const tn__seed *g = &f->seeds.v[d->k];
  double all = 1;
  int64_t terms;
  bool opaque = false;
  if (!g->along && tn__ranges_in(f, d->idx, NULL, g->env, &opaque) != (1u << g->env->nsrc) - 1) return false;
  if (d->env != g->env || d->gate || tn__ops[n->op].group != G_REDUCE || n->nint != 1) return false;
  for (uint32_t i = 0; i < n->rank; i++) {
    const tn_node *x = d->idx->src[i];
    bool block = by && x->op == OP_IDIV && x->src[0] == along->src[0] && x->src[1] == by;
    if (!block && x->op != OP_CONST && (x->op != OP_RANGE || x == along || (by && x == along->src[0]))) return false;
    all *= (double)tn__size_guess(n->dim[i]);
  }
  return tn__const_int(n->src[0]->dim[n->ints[0]], &terms) &&
         all * (double)terms * (double)tn__size_of(n->dtype) <= tn__target_launch_bytes(t) * (double)t->far_rate;
}

/* Little enough for the kernel's rows to be as few as they like */
/* a choice: either is right */
static bool is_small(const tn__demand *d, uint32_t outs) {
  return tn__extents(d->env, outs) <= SMALL_WORK && tn__extents(d->env, ~0u) < TN__SPLIT_WORK;
}

/* Does no axis stand between those that n is reduced over?  They are one loop then. */
/* a choice: either is right */
static bool is_one_run(const tn_node *n) {
  const tn_node *x = n->src[0];
  int64_t next = -1;
  for (uint32_t i = 0; i < n->nint; i++) {
    if (tn__is_int_const(x->dim[n->ints[i]], 1)) continue;
    for (; next >= 0 && next < n->ints[i]; next++)
      if (!tn__is_int_const(x->dim[next], 1)) return false;
    next = n->ints[i] + 1;
  }
  return true;
}

/* Few rows: is all that the kernel goes through for one of them as long as n's, and one loop, or short enough for a
 * group to keep?  Then they take no longer in one kernel than if each reduction were one: lowering cuts them into
 * blocks at every level (lower/split.c), or leaves each to a group, whichever is predicted to take less.  That spares
 * the launches of a reduction and of what adds up its blocks; where going through all rows takes longer than these,
 * it is of more use to others that reduce the same rows. */
/* a choice: no is right */
static bool are_even_rows(const tn__fuse *f, const tn_node *n, const tn__demand *d, uint32_t set) {
  const tn__target *t = &f->dev->target;
  const tn__seed *g = &f->seeds.v[d->k];
  uint32_t outs = (1u << g->env->nsrc) - 1;
  double terms = tn__terms_of(n), stored = tn__extents(d->env, outs & ~set), reduced = tn__extents(d->env, ~outs);
  if (!t->group || f->c->mode == TN_MODE_STRICT || tn__ops[n->op].group != G_REDUCE) return false;
  for (uint32_t i = 0; i < n->nint; i++)
    if (!tn__is_const(n->src[0]->dim[n->ints[i]])) return false;
  for (uint32_t i = 0; i < g->chain.n; i++)
    if (g->chain.v[i] != set) return false;
  while (terms > 1 && reduced > 1) reduced /= terms; /* reductions below one another */
  bool as_long = (stored == 1 || stored == terms) && reduced == 1;
  bool shared_out = tn__row_is_kept(t, terms) || is_one_run(n);
  return as_long && (g->terms == 0 || g->terms == terms) && shared_out &&
         tn__launches_decide(t, tn__extents(d->env, set) * terms);
}

/* Rows of which some of what a kernel does goes through a elements, some through b: would a group for each leave units
 * without one, and none keep it?  Lowering cuts long rows into blocks where all is as long. */
/* a choice: either is right */
bool tn__leaves_units(const tn__fuse *f, double rows, double a, double b) {
  const tn__target *t = &f->dev->target;
  return a > 1 && b > 1 && a != b && t->group && f->c->mode != TN_MODE_STRICT && 2 * rows <= (double)t->units &&
         !tn__row_is_kept(t, fmax(a, b));
}

/* The most that a kernel goes through for a row, where the loops around a reduction have so many turns: those of others
 * below which it stands go through the same row again and again. */
/* a choice: either is right */
static double row_of(const tn__seed *g, double turns) {
  double once = turns;
  while (g->longest > 1 && once > g->longest) once /= g->longest;
  return fmax(g->longest, once == g->longest ? once : turns);
}

/* Is n a reduction of columns that the kernel then goes through again, and does a group for some of them not do?  By
 * kernels of their own all of that goes along memory. */
/* a choice: either is right */
static bool are_long_columns(tn__fuse *f, const tn_node *n, double columns, double again) {
  const tn__target *t = &f->dev->target;
  return t->group && f->c->mode != TN_MODE_STRICT && tn__ops[n->op].group == G_REDUCE && again > 1 &&
         lies_across(f, n) && !tn__columns_suffice(t, columns, tn__terms_of(n)) &&
         !tn__launches_decide(t, tn__numel_guess(n->src[0]));
}

/* Is reduction n, of rows of these outputs, the same for several others of which each is a long reduction itself?  A
 * group for what they have in common would go through these one after the other, by one thread each; where that takes
 * longer than launches, n is a kernel of its own, and each of the others has a group. */
/* a choice: either is right */
static bool stands_around(const tn__fuse *f, const tn__seed *g, const tn_node *n, uint32_t set) {
  const tn__target *t = &f->dev->target;
  bool around = false;
  for (uint32_t i = 0; i < g->reduced.n; i++) around |= (g->reduced.v[i] & set) == set && g->reduced.v[i] != set;
  return around && t->group && f->c->mode != TN_MODE_STRICT && !g->product && tn__ops[n->op].group == G_REDUCE &&
         !tn__launches_decide(t, tn__numel_guess(n->src[0]));
}

/* Does the kernel reduce over rows of more of these outputs, or of less, than n does?  Groups go through rows of one
 * kind: loops that one of two has, and the other not, would be a thread's. */
/* a choice: either is right */
static bool has_other_rows(const tn__fuse *f, const tn__seed *g, const tn_node *n, uint32_t set) {
  bool other = false;
  for (uint32_t i = 0; i < g->chain.n; i++) other |= tn__extents(g->env, g->chain.v[i] ^ set) > 1;
  return other && f->dev->target.group && tn__is_reduction(n) && n->op != OP_CONTRACT;
}

/* n computed at d: each element once, and nested under loops that the kernel can put outermost. */
/* a choice: no is right */
bool tn__fuse_fits(tn__fuse *f, tn_node *n, const tn__demand *d) {
  bool opaque = false;
  tn_node *env = d->env;
  uint32_t turn;
  if (env->nsrc > 31 || f->seeds.v[d->k].loops + loops_of(n) > TN__MAX_LOOPS) return false;
  if (f->seeds.v[d->k].along && !tn__is_reduction(n)) return tn__is_everywhere(f, n, d);
  const tn_node *along = f->dev->target.group && tn__is_reduction(n) ? scans_along(f, n, d->k) : NULL;
  if (along && fits_beside_scan(f, n, d, along)) return true;
  if (f->seeds.v[d->k].along) return false;
  if (tn__is_scan(f, n, &turn) && !fits_scan(f, n, d, turn)) return false;
  uint32_t set = tn__ranges_in(f, d->idx, d->gate, env, &opaque), nout = f->seeds.v[d->k].env->nsrc,
           outs = (1u << nout) - 1;
  if (opaque) return false;
  if (tn__fits_exchange(f, n, d->k)) return true;
  if (f->seeds.v[d->k].ranks) return false;
  if (tn__info_of(f, n)->inline_dot) return true; /* its repeats are kept in a row of scratch memory */
  if (tn__extents(env, set) > tn__numel_guess(n) * MAX_REPEAT) return false;
  uint32_t last = set ? 32 - (uint32_t)__builtin_clz(set) : 0, before = last ? (uint32_t)((1ull << last) - 1) : 0;
  const tn__seed *g = &f->seeds.v[d->k];
  if (set & ~outs) return (before & ~set) == 0 && !g->few && stays_parallel(f, n, d, tn__extents(env, outs));
  /* what a product's rows or columns have in common of a sum would keep threads from sharing out the product */
  if (f->dev->target.group && !g->keeps && set != outs) {
    const tn_node *product = g->product ? g->product : coming_product(f, n, d->k);
    if (product && !rests_on(f, n, product)) return false;
  }
  for (uint32_t i = 0; i < g->chain.n; i++)
    if ((g->chain.v[i] & set) != set && (g->chain.v[i] & set) != g->chain.v[i]) return false;
  double rows = tn__extents(env, set);
  if (has_other_rows(f, g, n, set)) return false;
  if (stands_around(f, g, n, set) || are_long_columns(f, n, rows, tn__extents(env, ~set))) return false;
  if (tn__leaves_units(f, rows, row_of(g, tn__extents(env, ~set)), tn__terms_of(n))) return false;
  if (g->few || (rows < MIN_PARALLEL && !is_small(d, outs))) return are_even_rows(f, n, d, set);
  return is_small(d, outs) || n->op == OP_CONTRACT || tn__rows_suffice(&f->dev->target, rows, tn__terms_of(n));
}

/* Output ranges under which a kernel has a long reduction */
void tn__note_reduced(tn__fuse *f, tn__seed *g, const tn_node *n, uint32_t set) {
  if (tn__terms_of(n) > SHORT_ROW) tn__vec_push(f->a, &g->reduced, set);
}

/* The kernel reduces n at d. */
void tn__note_chain(tn__fuse *f, const tn_node *n, const tn__demand *d) {
  bool opaque = false;
  tn__seed *g = &f->seeds.v[d->k];
  double terms = tn__terms_of(n);
  uint32_t outs = (1u << g->env->nsrc) - 1, set = tn__ranges_in(f, d->idx, d->gate, d->env, &opaque) & outs;
  tn__note_reduced(f, g, n, set);
  bool few = tn__extents(d->env, set) < MIN_PARALLEL && !is_small(d, outs);
  g->few |= few && are_even_rows(f, n, d, set);
  g->terms = g->terms == 0 || g->terms == terms ? terms : UNEVEN;
  g->longest = fmax(g->longest, terms);
  for (uint32_t i = 0; i < g->chain.n; i++)
    if (g->chain.v[i] == set) return;
  tn__vec_push(f->a, &g->chain, set);
}
