/* Range assignment, first sweep: what stands in memory, and which kernel computes what.
 *
 * Needs the graph in topological order.  Walks it from the outputs to the inputs; every node knows, when its turn
 * comes, all places where it is wanted.  It is then inlined there (its sources become wanted at places of their own),
 * or it gets a buffer, written by a kernel of its own or by one that computes it anyway.  Gives each node's demands and
 * buffer.  Breaks nothing: the graph stays. */
#include "rewrite/rewrite.h"
#include "schedule/depend.h"
#include <math.h>
#include <stdio.h>

enum {
  MAX_DEMANDS = 12,      /* a node wanted at more places goes to memory: recomputing would multiply */
  FEW_KERNELS = 4,       /* which may look up what stands there at any number of places */
  MAX_PARTS = 6,         /* in which a node is wanted, and all below it; others want these, too */
  MAX_LOOKED_AT = 64,    /* of the places where a node is wanted, to tell how often it is computed */
  LONG_JOIN = 16,        /* a join of more parts is stored part by part, */
  JOIN_KERNEL = 16,      /* as many of equal shape in one kernel */
  MAX_SEARCH = 20000,    /* nodes that a search for a dependence looks at */
  MAX_MADE_ANEW = 256,   /* nodes below a value that few want, to tell what it takes to make it anew */
  MAX_TRIES = 64,        /* kernels that one is tried to be joined with */
  MAX_HOSTS = 16,        /* kernels that are asked whether they could store a value, too */
  WORTH_STORING = 12,    /* multiply-adds of an element that are rather done once than in each kernel */
  HIDDEN_WORK = 8,       /* multiply-adds that are done while an element is on its way */
  FUNCTION = 10,         /* multiply-adds, at least, of a function like exp */
  USUAL_FETCH = 4,       /* those in the time of a load from a cache, */
  USUAL_BALANCE = 16,    /* or from memory, of devices that do not say */
  GROUPS_OF_UNIT = 8,    /* rows for each unit that are enough, however long they are */
  WAITING_GROUPS = 2,    /* of columns, one of which computes in a unit while the other waits for memory */
  SELDOM = 4,            /* so many elements stored for each that another kernel wants are many */
  SPARED = 2,            /* launches, where a kernel of few rows takes another's reduction, and that of its blocks */
  MIN_PARALLEL = 16,     /* iterations around a fused reduction, which it must leave to the threads ... */
  SHORT_ROW = 32,        /* terms of a reduction below another one, and of all of them, ... */
  SMALL_NEST = 8192,     /* that few threads do in the time of a launch */
  SMALL_WORK = 32768     /* ... unless there is this little to do (and no sum to split) */
};

static const double UNEVEN = -1; /* terms of a kernel's reductions */
static const double OF_FUNCTION = 2.5; /* instructions of a thread for each of its multiply-adds */

/* A reduction may be computed somewhat more often than once an element: at the borders of windows, where half of it is
 * masked. */
static const double MAX_REPEAT = 1.5;

static tn_node *list_push(tn_ctx *c, tn_node *list, tn_node *const *more, uint32_t n) {
  tn_node *v[TN_MAX_RANK * 6];
  if (list->nsrc + n > TN_MAX_RANK * 6) tn__fail(c, TN_ENOTSUP, "more than %d nested loops", TN_MAX_RANK * 6);
  for (uint32_t i = 0; i < list->nsrc; i++) v[i] = list->src[i];
  for (uint32_t i = 0; i < n; i++) v[list->nsrc + i] = more[i];
  return tn__list(c, v, list->nsrc + n);
}

static uint64_t place_key(const tn__fuse *f, const tn__info *in, int k) {
  return (uint64_t)(in - f->info) << 32 | (uint32_t)k;
}

int tn__demand_last(const tn__fuse *f, const tn__info *in, int k) {
  uint64_t at;
  return tn__map_get(&f->places, place_key(f, in, k), &at) ? (int)at : -1;
}

/* Demand i takes its place among those of its kernel. */
void tn__demand_link(tn__fuse *f, tn__info *in, uint32_t i) {
  tn__demand *d = &in->want.v[i];
  d->before = tn__demand_last(f, in, d->k);
  tn__map_put(&f->places, place_key(f, in, d->k), i);
}

void tn__demand_put(tn__fuse *f, tn_node *n, int k, tn_node *idx, tn_node *gate, tn_node *env) {
  tn__info *in = tn__info_of(f, n);
  for (int i = tn__demand_last(f, in, k); i >= 0; i = in->want.v[i].before) {
    const tn__demand *d = &in->want.v[i];
    if (d->idx == idx && d->gate == gate && d->env == env) return;
  }
  tn__vec_push(f->a, &in->want, ((tn__demand){.k = k, .idx = idx, .gate = gate, .env = env}));
  tn__demand_link(f, in, in->want.n - 1);
  if (n->op == OP_CONTRACT) f->seeds.v[k].product = n;
}

/* The reduce ranges of n, wanted at d; places with equal index and gate share them, so that the value is computed once.
 */
static tn_node *open_ranges(tn__fuse *f, tn__info *in, tn__demand *d, tn_node *const *size, uint32_t n) {
  for (uint32_t i = 0; i < in->want.n; i++) {
    const tn__demand *e = &in->want.v[i];
    if (e->ranges && e->k == d->k && e->idx == d->idx && e->gate == d->gate) return e->ranges;
  }
  tn_node *r[TN_MAX_RANK];
  for (uint32_t i = 0; i < n; i++) {
    bool one = tn__is_int_const(size[i], 1);
    r[i] = one ? tn__int(f->c, 0) : tn__range(f->c, size[i], AX_REDUCE, ROLE_REDUCTION, f->next_range++);
    f->seeds.v[d->k].loops += !one;
  }
  return tn__list(f->c, r, n);
}

static tn_node *env_with(tn__fuse *f, tn_node *env, tn_node *ranges) {
  tn_node *more[TN_MAX_RANK];
  uint32_t n = 0;
  for (uint32_t i = 0; i < ranges->nsrc; i++)
    if (ranges->src[i]->op == OP_RANGE) more[n++] = ranges->src[i];
  return list_push(f->c, env, more, n);
}

void tn__demand_child(tn__fuse *f, tn_node *n, tn__demand *d, int i, tn_node *const *idx, tn_node *gate, tn_node *env) {
  tn_node *s = n->src[i];
  d->child_idx[i] = tn__list(f->c, idx, s->rank);
  d->child_gate[i] = gate;
  tn__demand_put(f, s, d->k, d->child_idx[i], gate, env);
}

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
static bool is_scan(const tn__fuse *f, const tn_node *n, uint32_t *turn) {
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
static bool fits_exchange(const tn__fuse *f, const tn_node *n, int k) {
  const tn__seed *g = &f->seeds.v[k];
  bool alike = g->roots.n > 0;
  for (uint32_t i = 1; i < g->roots.n; i++) alike &= tn__is_placed(g->roots.v[i]); /* which come beside the first */
  return g->exchanges && !g->ranks && !g->others && alike && is_rank(f, n);
}

/* a choice: either is right */
static double extents(tn_node *env, uint32_t set) {
  double p = 1;
  for (uint32_t j = 0; j < env->nsrc && j < 32; j++)
    if (set >> j & 1) p *= (double)tn__size_guess(env->src[j]->src[0]);
  return p;
}

/* Is n an element at each turn of all the kernel's loops that want it at d? */
/* a choice: no is right */
static bool is_everywhere(const tn__fuse *f, const tn_node *n, const tn__demand *d) {
  const tn__seed *g = &f->seeds.v[d->k];
  return d->env == g->env && !d->gate && tn__numel_guess(n) >= extents(g->env, ~0u);
}

static void inline_reduce(tn__fuse *f, tn_node *n, tn__info *in, tn__demand *d) {
  uint32_t turn;
  tn__seed *g = &f->seeds.v[d->k];
  if (!g->along && is_scan(f, n, &turn) && is_everywhere(f, n, d)) g->along = d->idx->src[turn], g->alone = true;
  bool exchanges = is_exchange(f, n) && is_everywhere(f, n, d), ranks = !exchanges && fits_exchange(f, n, d->k);
  g->exchanges |= exchanges;
  g->ranks |= ranks;
  g->alone |= ranks; /* other stores would have loops of their own */
  g->others |= !exchanges && !ranks && !is_rank(f, n);
  tn_node *x = n->src[0], *size[TN_MAX_RANK], *idx[TN_MAX_RANK];
  for (uint32_t i = 0; i < n->nint; i++) size[i] = x->dim[n->ints[i]];
  d->ranges = open_ranges(f, in, d, size, n->nint);
  for (uint32_t i = 0, a = 0, o = 0; i < x->rank; i++)
    idx[i] = a < n->nint && n->ints[a] == i ? d->ranges->src[a++] : d->idx->src[o++];
  tn__demand_child(f, n, d, 0, idx, d->gate, env_with(f, d->env, d->ranges));
}

static void inline_fold(tn__fuse *f, tn_node *n, tn__info *in, tn__demand *d) {
  tn__walk w = tn__fold_walk(n);
  tn_node *size = tn__int(f->c, w.turns), *idx[TN_MAX_RANK + 1], *gate = d->gate;
  f->seeds.v[d->k].others = true;
  d->ranges = open_ranges(f, in, d, &size, 1);
  /* offsets downwards are places upwards: the order in which the elements of the source stand */
  tn_node *turn = d->ranges->src[0];
  if (!w.places) turn = tn__sub(f->c, tn__int(f->c, w.turns - 1), turn);
  tn__fold_through(f->c, n, w, d->idx->src, turn, idx, &gate);
  tn__demand_child(f, n, d, 0, idx, gate, env_with(f, d->env, d->ranges));
}

static void inline_contract(tn__fuse *f, tn_node *n, tn__info *in, tn__demand *d) {
  uint32_t nb = (uint32_t)n->ints[0], nm = (uint32_t)n->ints[1], nn = (uint32_t)n->ints[2], nk = (uint32_t)n->ints[3];
  tn_node *const *o = d->idx->src, *ia[TN_MAX_RANK], *ib[TN_MAX_RANK];
  d->ranges = open_ranges(f, in, d, n->src[0]->dim + nb + nm, nk);
  f->seeds.v[d->k].product = n; /* also where it is all that the kernel stores */
  f->seeds.v[d->k].others = true;
  for (uint32_t i = 0; i < nb; i++) ia[i] = ib[i] = o[i];
  for (uint32_t i = 0; i < nm; i++) ia[nb + i] = o[nb + i];
  for (uint32_t i = 0; i < nn; i++) ib[nb + i] = o[nb + nm + i];
  for (uint32_t i = 0; i < nk; i++) ia[nb + nm + i] = ib[nb + nn + i] = d->ranges->src[i];
  tn_node *env = env_with(f, d->env, d->ranges);
  tn__demand_child(f, n, d, 0, ia, d->gate, env);
  tn__demand_child(f, n, d, 1, ib, d->gate, env);
}

/* The gate, and that a symbolic size is not 0: an axis of nothing has no place that could stand for those outside of
 * it. */
static tn_node *some_gate(tn__fuse *f, tn_node *size, tn_node *gate) {
  tn_node *some = tn__simplify_index(f->c, tn__op2(f->c, OP_LT, tn__int(f->c, 0), size));
  return gate ? tn__op2(f->c, OP_AND, gate, some) : some;
}

/* The index is data: a DATUM stands for it until its value has been emitted. */
static void inline_gather(tn__fuse *f, tn_node *n, tn__demand *d) {
  tn_node *x = n->src[0], *idx[TN_MAX_RANK];
  uint32_t s = n->src[1]->rank;
  int64_t hi = tn__size_guess(x->dim[0]) - 1;
  d->ranges = tn__datum(f->c, f->next_range++, hi < 0 ? 0 : hi);
  idx[0] = d->ranges;
  for (uint32_t i = 1; i < x->rank; i++) idx[i] = d->idx->src[s + i - 1];
  tn__demand_child(f, n, d, 0, idx, x->dim[0]->lo > 0 ? d->gate : some_gate(f, x->dim[0], d->gate), d->env);
  tn__demand_child(f, n, d, 1, d->idx->src, d->gate, d->env);
}

void tn__demand_inline(tn__fuse *f, tn_node *n, tn__info *in, tn__demand *d) {
  tn_node *idx[TN_MAX_RANK + 1], *gate = d->gate;
  f->seeds.v[d->k].size++;
  f->seeds.v[d->k].tiled |= in->tiled;
  f->seeds.v[d->k].keeps |= in->inline_dot;
  switch (n->op) {
  case OP_SUM: case OP_PROD: case OP_RMAX: case OP_RMIN: inline_reduce(f, n, in, d); return;
  case OP_FOLD: inline_fold(f, n, in, d); return;
  case OP_CONTRACT: inline_contract(f, n, in, d); return;
  case OP_GATHER: inline_gather(f, n, d); return;
  case OP_CONST: case OP_VAR: case OP_IOTA: return;
  case OP_ASSIGN: tn__demand_child(f, n, d, 1, d->idx->src, gate, d->env); return;
  default: break;
  }
  if (tn__is_elementwise(n)) {
    if (n->dtype == TN__INDEX && n->rank == 0) return; /* a size: it is its own value */
    if ((d->branch = tn__join_branch(f, n, d->idx->src))) {
      tn__demand_child(f, n, d, d->branch, d->idx->src, gate, d->env);
      return;
    }
    for (uint32_t i = 0; i < n->nsrc; i++) tn__demand_child(f, n, d, (int)i, d->idx->src, gate, d->env);
    return;
  }
  tn__index_through(f->c, n, d->idx->src, idx, &gate);
  tn__demand_child(f, n, d, 0, idx, gate, d->env);
}

/* ---- may a reduction be computed where it is wanted? ---- */

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

static bool is_reduction(const tn_node *n) {
  return tn__ops[n->op].group == G_REDUCE || n->op == OP_FOLD || n->op == OP_CONTRACT;
}

/* Does it stand in memory wherever it is wanted? */
static bool is_stored(const tn__fuse *f, const tn_node *n) {
  return n->op == OP_CONTIG || n->op == OP_DISTINCT || n->op == OP_SPANS || n->op == OP_SCATTER ||
         (n->op == OP_PERMUTATION && !tn__spans_of(&f->dev->target, n));
}

/* The loops that n opens where it is computed */
static uint32_t loops_of(const tn_node *n) {
  if (n->op == OP_CONTRACT) return (uint32_t)n->ints[3];
  return n->op == OP_FOLD ? 1 : tn__ops[n->op].group == G_REDUCE ? n->nint : 0;
}

double tn__terms_of(const tn_node *n) {
  if (n->op != OP_CONTRACT) return is_reduction(n) ? tn__numel_guess(n->src[0]) / tn__numel_guess(n) : 1;
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

/* On devices of many threads: is a reduction below another one's loop left to enough of them?  Those of the outputs
 * share such work out, also where the kernel's outputs want it, too; a few short rows one thread may take. */
/* a choice: either is right */
static bool stays_parallel(tn__fuse *f, const tn_node *n, const tn__demand *d, double outputs) {
  const tn__target *t = &f->dev->target;
  const tn__info *in = tn__info_of(f, n);
  for (int i = tn__demand_last(f, in, d->k); i >= 0; i = in->want.v[i].before)
    if (in->want.v[i].env == f->seeds.v[d->k].env) return true;
  bool rows = is_reduction(n) && n->op != OP_CONTRACT;
  if (!t->group || !rows || outputs >= (double)t->units * tn__usual_group(t)) return true;
  return tn__terms_of(n) <= SHORT_ROW && extents(d->env, ~0u) * tn__terms_of(n) <= SMALL_NEST;
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
  if (!is_everywhere(f, n, d) || g->product || g->keeps) return false;
  for (uint32_t i = 0; i < g->chain.n; i++)
    if (g->chain.v[i] != all) return false;
  for (uint32_t i = 0; i < g->roots.n; i++)
    if (tn__numel_guess(g->roots.v[i]) < extents(g->env, ~0u)) return false;
  if (at->op == OP_MOD && at->src[1] == n->dim[turn]) at = at->src[0];
  return at->op == OP_RANGE && tn__ranges_in(f, d->idx, NULL, g->env, &opaque) == all && !opaque;
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
    if (last < 0 || in->want.n != 1 || in->must || !is_scan(f, f->order.v[i], &turn)) continue;
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
  return extents(d->env, outs) <= SMALL_WORK && extents(d->env, ~0u) < TN__SPLIT_WORK;
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
  double terms = tn__terms_of(n), stored = extents(d->env, outs & ~set), reduced = extents(d->env, ~outs);
  if (!t->group || f->c->mode == TN_MODE_STRICT || tn__ops[n->op].group != G_REDUCE) return false;
  for (uint32_t i = 0; i < n->nint; i++)
    if (!tn__is_const(n->src[0]->dim[n->ints[i]])) return false;
  for (uint32_t i = 0; i < g->chain.n; i++)
    if (g->chain.v[i] != set) return false;
  while (terms > 1 && reduced > 1) reduced /= terms; /* reductions below one another */
  bool as_long = (stored == 1 || stored == terms) && reduced == 1;
  bool shared_out = tn__row_is_kept(t, terms) || is_one_run(n);
  return as_long && (g->terms == 0 || g->terms == terms) && shared_out &&
         tn__launches_decide(t, extents(d->env, set) * terms);
}

/* Rows of which some of what a kernel does goes through a elements, some through b: would a group for each leave units
 * without one, and none keep it?  Lowering cuts long rows into blocks where all is as long. */
/* a choice: either is right */
static bool leaves_units(const tn__fuse *f, double rows, double a, double b) {
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

/* Does n reduce columns, whose elements lie apart in memory? */
/* a choice: either is right */
static bool lies_across(tn__fuse *f, const tn_node *n) {
  const double *stride = tn__info_of(f, n->src[0])->stride;
  for (uint32_t i = 0; i < n->nint; i++)
    if (!tn__is_int_const(n->src[0]->dim[n->ints[i]], 1) && stride[n->ints[i]] <= 1) return false;
  return true;
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
  for (uint32_t i = 0; i < g->chain.n; i++) other |= extents(g->env, g->chain.v[i] ^ set) > 1;
  return other && f->dev->target.group && is_reduction(n) && n->op != OP_CONTRACT;
}

/* n computed at d: each element once, and nested under loops that the kernel can put outermost. */
/* a choice: no is right */
static bool fits(tn__fuse *f, tn_node *n, const tn__demand *d) {
  bool opaque = false;
  tn_node *env = d->env;
  uint32_t turn;
  if (env->nsrc > 31 || f->seeds.v[d->k].loops + loops_of(n) > TN__MAX_LOOPS) return false;
  if (f->seeds.v[d->k].along && !is_reduction(n)) return is_everywhere(f, n, d);
  const tn_node *along = f->dev->target.group && is_reduction(n) ? scans_along(f, n, d->k) : NULL;
  if (along && fits_beside_scan(f, n, d, along)) return true;
  if (f->seeds.v[d->k].along) return false;
  if (is_scan(f, n, &turn) && !fits_scan(f, n, d, turn)) return false;
  uint32_t set = tn__ranges_in(f, d->idx, d->gate, env, &opaque), nout = f->seeds.v[d->k].env->nsrc,
           outs = (1u << nout) - 1;
  if (opaque) return false;
  if (fits_exchange(f, n, d->k)) return true;
  if (f->seeds.v[d->k].ranks) return false;
  if (tn__info_of(f, n)->inline_dot) return true; /* its repeats are kept in a row of scratch memory */
  if (extents(env, set) > tn__numel_guess(n) * MAX_REPEAT) return false;
  uint32_t last = set ? 32 - (uint32_t)__builtin_clz(set) : 0, before = last ? (uint32_t)((1ull << last) - 1) : 0;
  const tn__seed *g = &f->seeds.v[d->k];
  if (set & ~outs) return (before & ~set) == 0 && !g->few && stays_parallel(f, n, d, extents(env, outs));
  /* what a product's rows or columns have in common of a sum would keep threads from sharing out the product */
  if (f->dev->target.group && g->product && !g->keeps && set != outs && !rests_on(f, n, g->product)) return false;
  for (uint32_t i = 0; i < g->chain.n; i++)
    if ((g->chain.v[i] & set) != set && (g->chain.v[i] & set) != g->chain.v[i]) return false;
  double rows = extents(env, set);
  if (has_other_rows(f, g, n, set)) return false;
  if (stands_around(f, g, n, set) || are_long_columns(f, n, rows, extents(env, ~set))) return false;
  if (leaves_units(f, rows, row_of(g, extents(env, ~set)), tn__terms_of(n))) return false;
  if (g->few || (rows < MIN_PARALLEL && !is_small(d, outs))) return are_even_rows(f, n, d, set);
  return is_small(d, outs) || n->op == OP_CONTRACT || tn__rows_suffice(&f->dev->target, rows, tn__terms_of(n));
}

/* Output ranges under which a kernel has a long reduction */
static void note_reduced(tn__fuse *f, tn__seed *g, const tn_node *n, uint32_t set) {
  if (tn__terms_of(n) > SHORT_ROW) tn__vec_push(f->a, &g->reduced, set);
}

/* The kernel reduces n at d. */
static void note_chain(tn__fuse *f, const tn_node *n, const tn__demand *d) {
  bool opaque = false;
  tn__seed *g = &f->seeds.v[d->k];
  double terms = tn__terms_of(n);
  uint32_t outs = (1u << g->env->nsrc) - 1, set = tn__ranges_in(f, d->idx, d->gate, d->env, &opaque) & outs;
  note_reduced(f, g, n, set);
  bool few = extents(d->env, set) < MIN_PARALLEL && !is_small(d, outs);
  g->few |= few && are_even_rows(f, n, d, set);
  g->terms = g->terms == 0 || g->terms == terms ? terms : UNEVEN;
  g->longest = fmax(g->longest, terms);
  for (uint32_t i = 0; i < g->chain.n; i++)
    if (g->chain.v[i] == set) return;
  tn__vec_push(f->a, &g->chain, set);
}

/* ---- a buffer, and who writes it ---- */

/* Are the output loops that the indices walk the outer ones?  A store in inner ones alone wants them outside, where a
 * reduction in the outer ones may not have them. */
/* a choice: no is right */
static bool walks_outer(const tn__demand *d) {
  bool skipped = false;
  for (uint32_t i = 0; i < d->env->nsrc; i++) {
    const tn_node *range = d->env->src[i];
    bool walks = false;
    if (range->ints[RANGE_AXIS] != AX_LOOP) continue;
    for (uint32_t j = 0; j < d->idx->nsrc; j++) walks |= d->idx->src[j] == range;
    if (walks && skipped) return false;
    skipped |= !walks;
  }
  return true;
}

/* Is each element of n wanted exactly once at d, ungated, so that d's kernel may store it as well? */
/* a choice: no is right */
static bool covers(tn__fuse *f, tn_node *n, const tn__demand *d) {
  if (d->gate) return false;
  for (uint32_t i = 0; i < n->rank; i++) {
    tn_node *x = d->idx->src[i];
    if (tn__is_int_const(n->dim[i], 1)) continue;
    if (x->op != OP_RANGE || x->src[0] != n->dim[i]) return false;
    for (uint32_t j = 0; j < i; j++)
      if (d->idx->src[j] == x) return false;
  }
  return walks_outer(d) && fits(f, n, d);
}

static int first_of(const tn__fuse *f, int k) { return f->seeds.v[k].first; }

/* A search for kernels begins with a new number for it, given to those that are aimed at. */
static void aim(tn__fuse *f, int k) { f->seeds.v[first_of(f, k)].aim = f->searches; }

static void look_at(tn__fuse *f, tn__numbers *todo, const tn_node *n, uint32_t above) {
  tn__info *in = tn__info_of(f, n);
  if (!in || in->seen == f->searches || in - f->info < above) return;
  in->seen = f->searches;
  tn__heap_push(f->a, todo, ~(uint32_t)(in - f->info)); /* the lowest position on top */
}

/* Does kernel `of` need, directly or not, something that a kernel aimed at writes?  Nodes at positions below `above`
 * are known not to.  Those just above are looked at first: what is aimed at wants the node below them.  A search that
 * takes too long says yes: kernels then stay apart. */
static bool depends(tn__fuse *f, int of, uint32_t above) {
  tn__numbers todo = {0};
  uint32_t looked = 0;
  for (uint32_t i = 0; i < f->seeds.v[of].roots.n; i++) look_at(f, &todo, f->seeds.v[of].roots.v[i], above);
  while (todo.n) {
    uint32_t at = ~tn__heap_pop(&todo);
    const tn_node *n = f->order.v[at];
    const tn__info *in = &f->info[at];
    f->s->looked++;
    if (++looked > MAX_SEARCH) return true;
    if (in->buf >= 0 && in->kernel >= 0) {
      const tn__seed *g = &f->seeds.v[in->kernel];
      if (g->aim == f->searches) return true;
      /* all of it must have run */
      for (uint32_t i = 0; in->kernel != first_of(f, of) && i < g->roots.n; i++)
        look_at(f, &todo, g->roots.v[i], above);
    }
    for (uint32_t i = 0; i < n->nsrc; i++) look_at(f, &todo, n->src[i], above);
  }
  return false;
}

/* A kernel cannot load what it is storing: may n be computed wherever else in kernel k it is wanted? */
/* a choice: no is right */
static bool fits_again(tn__fuse *f, tn_node *n, const tn__info *in, int k) {
  for (int i = tn__demand_last(f, in, k); is_reduction(n) && i >= 0; i = in->want.v[i].before)
    if (!fits(f, n, &in->want.v[i])) return false;
  return true;
}

/* Those ranges, and all around them: each of their turns computes anew what hangs on those alone.  Where threads share
 * out the loops over outputs, each computes for itself what several of these have in common. */
/* a choice: either is right */
static uint32_t with_outer(const tn__fuse *f, const tn_node *env, uint32_t set) {
  for (uint32_t j = 0; f->dev->target.group && j < env->nsrc && j < 32; j++)
    if (env->src[j]->ints[0] == AX_LOOP) set |= 1u << j;
  for (uint32_t outer = set >> 1; outer; outer >>= 1) set |= outer;
  return set;
}

/* How often the loops of kernel k (-1: of any) that want n compute each of its elements: at all places of a stencil, in
 * all windows; of a copy, which somebody wants to be made once, in all loops around.  What tiles of a product load, or
 * rows keep, or a group sums up along or exchanges, is computed once. */
/* a choice: either is right */
static double repeats(tn__fuse *f, const tn_node *n, const tn__info *in, int k) {
  double most = 1, each[MAX_LOOKED_AT];
  for (uint32_t i = 0; i < in->want.n && i < MAX_LOOKED_AT; i++) {
    const tn__demand *d = &in->want.v[i];
    bool opaque = false;
    each[i] = 0;
    if (k >= 0 && d->k != k) continue;
    const tn__seed *g = &f->seeds.v[d->k];
    if (g->tiled || g->keeps || g->along || g->exchanges) return 1;
    uint32_t set = tn__ranges_in(f, d->idx, d->gate, d->env, &opaque);
    each[i] = extents(d->env, n->op == OP_CONTIG ? with_outer(f, d->env, set) : set) / tn__numel_guess(n);
    if (opaque) each[i] = 1;
    double all = each[i];
    for (uint32_t j = 0; j < i; j++)
      if (in->want.v[j].env == d->env && in->want.v[j].k == d->k) all += each[j];
    most = fmax(most, all);
  }
  return most;
}

/* What it takes to store or load an element of n by way of memory, in multiply-adds */
/* a choice: either is right */
static double move_of(const tn__fuse *f, const tn_node *n) {
  const tn__target *t = &f->dev->target;
  double size = (double)tn__size_of(n->dtype), move = t->balance > 0 ? (double)t->balance : USUAL_BALANCE;
  /* what is stored, and read at once, stays where threads have it for each other */
  if (2 * tn__numel_guess(n) * size <= t->far) move /= (double)t->far_rate;
  return move * size / sizeof(float);
}

/* ... and to load it where it is near */
static double load_of(const tn__fuse *f) {
  return f->dev->target.fetch > 0 ? (double)f->dev->target.fetch : USUAL_FETCH;
}

static double wide(const tn_node *n) { return fmax(1, (double)tn__size_of(n->dtype) / sizeof(float)); }

/* Multiply-adds that an element takes.  What functions are said to take counts vectors' arithmetic; a thread of a group
 * takes more instructions (sm_90: tanh 40 for 14, exp 20 for 10, log 28 for 12, sine 45 for 16). */
/* a choice: either is right */
static double work_of(const tn__fuse *f, const tn_node *n, const tn__info *made) {
  double more = f->dev->target.group ? (OF_FUNCTION - 1) * made->functions : 0;
  return (made->flops + more) * wide(n);
}

/* Is it quicker to store n once and to load it than to compute it at each place where kernel k (-1: any) wants it?  A
 * copy is stored by the way where k computes it. */
/* a choice: either is right */
static bool is_quicker_stored(tn__fuse *f, const tn_node *n, const tn__info *in, int k) {
  if (!tn__is_elementwise(n) && n->op != OP_CONTIG) return false;
  const tn__info *made = n->op == OP_CONTIG ? tn__info_of(f, n->src[0]) : in;
  double load = load_of(f), times = repeats(f, n, in, k), flops = fmax(0, work_of(f, n, made) - HIDDEN_WORK);
  double more = (times - 1) * (load * made->loads + flops) - times * load - 2 * move_of(f, n);
  double launch = tn__target_launch_guess(&f->dev->target);
  return more > 0 && more * tn__numel_guess(n) > launch;
}

/* Does it take more multiply-adds to make an element of n of what surely is in memory? */
/* a choice: either is right */
static bool takes_more(tn__fuse *f, tn_node *n, double most) {
  tn__nodes todo = {0};
  tn__map seen;
  tn__mark work = tn__arena_mark(f->a);
  tn__map_init(&seen, f->a);
  tn__vec_push(f->a, &todo, n);
  double all = 0;
  while (todo.n && all <= most && seen.n <= MAX_MADE_ANEW) {
    tn_node *x = todo.v[--todo.n];
    if (tn__map_getp(&seen, x)) continue;
    tn__map_putp(&seen, x, x);
    bool memory = x->op == OP_PARAM || is_reduction(x) || is_stored(f, x);
    if (memory || x->op == OP_GATHER) all += load_of(f);
    if (tn__is_elementwise(x)) all += tn__ops[x->op].cost * wide(x);
    for (uint32_t i = 0; !memory && i < x->nsrc; i++) tn__vec_push(f->a, &todo, x->src[i]);
  }
  tn__arena_rewind(f->a, work);
  return todo.n || all > most;
}

/* Do all kernels but one want so few of its elements that they sooner make those anew than have all stored? */
/* a choice: either is right */
static bool is_seldom_wanted(tn__fuse *f, tn_node *n, const tn__info *in) {
  double most = 0, all = 0, elements = tn__numel_guess(n);
  for (uint32_t i = 0; i < in->want.n; i++) {
    double volume = 0;
    for (int j = tn__demand_last(f, in, in->want.v[i].k); j >= 0; j = in->want.v[j].before)
      volume += extents(in->want.v[j].env, ~0u);
    most = fmax(most, volume);
    all += extents(in->want.v[i].env, ~0u);
  }
  double others = all - most;
  return others * SELDOM <= elements && !takes_more(f, n, elements * move_of(f, n) / others);
}

/* a choice: no is right */
static int find_host(tn__fuse *f, tn_node *n, tn__info *in) {
  for (uint32_t i = in->want.n, asked = 0; asked < MAX_HOSTS && i && i--;) {
    const tn__demand *d = &in->want.v[i];
    const tn__seed *g = &f->seeds.v[d->k];
    if ((g->alone && !g->along) || (in->tiled && g->tiled) || g->size > TN__MAX_KERNEL ||
        g->roots.n >= TN__MAX_STORES || !covers(f, n, d) || !fits_again(f, n, in, d->k) ||
        is_quicker_stored(f, n, in, d->k))
      continue;
    asked++;
    f->searches++; /* for its other users: they must not have to run before d's kernel */
    for (uint32_t j = 0; j < in->want.n; j++)
      if (in->want.v[j].k != d->k) aim(f, in->want.v[j].k);
    for (uint32_t j = 0; j < in->readers.n; j++) aim(f, in->readers.v[j]);
    if (!depends(f, d->k, (uint32_t)(in - f->info) + 1)) return (int)i; /* nothing below n has a kernel yet */
  }
  return -1;
}

static int new_buf(tn__fuse *f, tn_node *n, const tn__info *in) {
  bool out = in->out >= 0;
  tn__buf b = {.kind = out ? BUF_OUTPUT : BUF_TEMP,
               .slot = out ? f->slot[in->out] : -1,
               .dtype = n->dtype,
               .size = tn__numel(f->c, n)};
  tn__vec_push(f->a, &f->s->bufs, b);
  return (int)f->s->bufs.n - 1;
}

/* Ranges over all elements of n, or over so many of them along an axis, in the order in which they are stored. */
static tn_node *open_outputs(tn__fuse *f, tn_node *n, tn_node *const *size, tn_node **idx) {
  tn_node *r[TN_MAX_RANK];
  uint32_t nr = 0;
  for (uint32_t i = 0; i < n->rank; i++) {
    uint32_t a = tn__info_of(f, n)->axis[i];
    idx[a] = tn__is_int_const(size[a], 1) ? tn__int(f->c, 0) : tn__range(f->c, size[a], AX_LOOP, ROLE_OUTPUT, i);
    if (idx[a]->op == OP_RANGE) r[nr++] = idx[a];
  }
  return tn__list(f->c, r, nr);
}

static int new_kernel(tn__fuse *f, tn_node *root, tn_node *env) {
  tn__seed g = {.env = env, .first = (int)f->seeds.n, .loops = env->nsrc};
  tn__vec_push(f->a, &g.roots, root);
  tn__vec_push(f->a, &f->seeds, g);
  return g.first;
}

/* A join, or what is made of it, span by span: each stored in its place; of many those of equal length side by side in
 * the same loops.  Of few, which are long, each has a kernel: one would load of a span what waits for the store of
 * another, and packs would have to suit all. */
static void root_join(tn__fuse *f, tn_node *n, tn__info *in, const tn_node *join, uint32_t axis,
                      const tn__spans *span) {
  tn_ctx *c = f->c;
  tn_node *size[TN_MAX_RANK], *idx[TN_MAX_RANK];
  uint32_t in_kernel = 0;
  tn__piece p = {.k = -1};
  for (uint32_t i = 0; i < n->rank; i++) size[i] = n->dim[i];
  for (uint32_t i = 0; i < span->n; i++) {
    const tn__span *s = &span->v[i];
    size[axis] = tn__sub(c, s->end, s->begin);
    if (tn__is_int_const(size[axis], 0)) continue;
    tn_node *env = open_outputs(f, n, size, idx);
    idx[axis] = tn__add(c, s->begin, idx[axis]);
    bool fits = p.env == env && span->n > LONG_JOIN && ++in_kernel < JOIN_KERNEL;
    if (p.k < 0 || !fits) {
      p.k = new_kernel(f, n, env);
      if (in->kernel < 0) in->kernel = p.k;
      f->seeds.v[p.k].first = in->kernel;
      f->seeds.v[p.k].piece = in->piece.n;
      f->seeds.v[p.k].alone = true;
      in_kernel = 0;
    }
    p.part = n == join ? s->part : n;
    p.env = env;
    p.idx = tn__list(c, idx, n->rank);
    tn__vec_push(f->a, &in->piece, p);
    tn__demand_put(f, p.part, p.k, p.idx, NULL, env);
    if (p.part == n) tn__demand_inline(f, n, in, &in->want.v[in->want.n - 1]);
  }
}

/* A scatter is a kernel of two parts: its base copied, then the updates added, in order or at once. */
static void root_scatter(tn__fuse *f, tn_node *n, tn__demand *d) {
  tn_node *idx = n->src[1], *upd = n->src[2], *r[TN_MAX_RANK + 1], *ri[TN_MAX_RANK + 1];
  uint32_t nr = 0, loops = upd->rank;
  const tn__target *t = &f->dev->target;
  int axis = tn__has_own_places(t, n) || tn__is_added_at_once(t, n) ? AX_LOOP : AX_ORDER;
  tn__demand_child(f, n, d, 0, d->idx->src, NULL, d->env);
  for (uint32_t i = 0; i < upd->rank; i++) {
    r[i] = tn__is_int_const(upd->dim[i], 1)
               ? tn__int(f->c, 0)
               : tn__range(f->c, upd->dim[i], i < idx->rank ? axis : AX_LOOP, ROLE_UPDATE, f->next_range++);
    if (r[i]->op == OP_RANGE) ri[nr++] = r[i];
  }
  if (n->dim[0]->lo <=
      0) /* a symbolic size that may be 0: a loop of one step, or of none where nothing can be added to */
    r[loops++] = ri[nr++] =
        tn__range(f->c, tn__op2(f->c, OP_MIN, n->dim[0], tn__int(f->c, 1)), axis, ROLE_UPDATE, f->next_range++);
  tn_node *env = tn__list(f->c, ri, nr);
  d->ranges = tn__list(f->c, r, loops);
  tn__demand_child(f, n, d, 1, r, NULL, env);
  tn__demand_child(f, n, d, 2, r, NULL, env);
}

/* Its loops go through what is scattered, which has as many elements. */
static void root_placed(tn__fuse *f, tn_node *n, tn__demand *d) {
  tn__demand_child(f, n, d, 1, d->idx->src, NULL, d->env);
  tn__demand_child(f, n, d, 2, d->idx->src, NULL, d->env);
}

/* a choice: either is right */
static bool long_join(tn__fuse *f, tn_node *n, uint32_t *axis, tn__spans *span) {
  return tn__join_spans(f, n, axis, span) > LONG_JOIN && !tn__without_elements(n);
}

/* What the library call that computes a node reads */
static void note_readers(tn__fuse *f, const tn__info *in) {
  for (int o = 0; in->conv && o < 3; o++)
    if (o != (int)in->conv->kind) tn__vec_push(f->a, &tn__info_of(f, in->conv->operand[o].base)->readers, in->kernel);
  if (!in->gemm) return;
  tn__vec_push(f->a, &tn__info_of(f, in->gemm->a.base)->readers, in->kernel);
  tn__vec_push(f->a, &tn__info_of(f, in->gemm->b.base)->readers, in->kernel);
}

/* On group devices: a product wanted inside the loops of a reduction would be computed by the few threads that those
 * keep busy. */
/* a choice: either is right */
static bool under_loops(const tn__fuse *f, const tn_node *n, const tn__info *in) {
  if (!f->dev->target.group || (n->op != OP_CONTRACT && !in->tiled) || in->inline_dot) return false;
  for (uint32_t i = 0; i < in->want.n; i++)
    if (in->want.v[i].env != f->seeds.v[in->want.v[i].k].env) return true;
  return false;
}

/* Does nobody but kernel k want it?  What k stored of it nobody would read. */
static bool is_private(const tn__info *in, int k) {
  if (in->must || in->out >= 0 || in->readers.n) return false;
  for (uint32_t i = 0; i < in->want.n; i++)
    if (in->want.v[i].k != k) return false;
  return true;
}

/* Its host computes n, and stores it if another kernel reads it. */
static void enter_host(tn__fuse *f, tn_node *n, tn__info *in) {
  int k = in->want.v[in->host].k;
  bool stored = !is_private(in, k);
  if (stored) {
    in->buf = new_buf(f, n, in);
    in->kernel = k;
    tn__layout_fix(f, n, false);
    tn__vec_push(f->a, &f->seeds.v[k].roots, n);
  }
  note_chain(f, n, &in->want.v[in->host]);
  tn__demand_inline(f, n, in, &in->want.v[in->host]);
  /* other places in the same kernel compute it too (fits_again) */
  for (uint32_t i = 0; i < in->want.n; i++)
    if ((int)i != in->host && in->want.v[i].k == k) tn__demand_inline(f, n, in, &in->want.v[i]);
  if (!stored) in->host = -1;
}

/* The kernel that sends another array to the places of n, which are known to differ by the spans that they are in:
 * there these are worked out once for both.  -1: there is none, or none that n's other users may wait for. */
/* a choice: no is right */
static int sends_beside(tn__fuse *f, const tn_node *n, const tn__info *in) {
  if (!tn__is_placed(n) || !tn__spans_of(&f->dev->target, n->src[1])) return -1;
  const tn__info *to = tn__info_of(f, n->src[1]);
  for (uint32_t i = 0; i < to->want.n && i < MAX_HOSTS; i++) {
    const tn__seed *g = &f->seeds.v[to->want.v[i].k];
    const tn_node *other = g->roots.n && g->roots.n < TN__MAX_STORES ? g->roots.v[0] : NULL;
    if (!other || !tn__is_placed(other) || other->src[1] != n->src[1]) continue;
    f->searches++;
    for (uint32_t j = 0; j < in->want.n; j++) aim(f, in->want.v[j].k);
    for (uint32_t j = 0; j < in->readers.n; j++) aim(f, in->readers.v[j]);
    if (!depends(f, to->want.v[i].k, (uint32_t)(in - f->info) + 1)) return to->want.v[i].k;
  }
  return -1;
}

static void send_beside(tn__fuse *f, tn_node *n, tn__info *in, int k) {
  const tn__info *other = tn__info_of(f, f->seeds.v[k].roots.v[0]);
  tn__demand d = {.k = k, .idx = other->want.v[other->host].idx, .env = other->want.v[other->host].env};
  in->buf = new_buf(f, n, in);
  in->kernel = k;
  tn__layout_fix(f, n, false);
  tn__vec_push(f->a, &f->seeds.v[k].roots, n);
  in->host = (int)in->want.n;
  tn__vec_push(f->a, &in->want, d);
  root_placed(f, n, &in->want.v[in->host]);
}

static void materialise(tn__fuse *f, tn_node *n, tn__info *in) {
  tn__spans span = {0};
  uint32_t axis = 0;
  if (long_join(f, n, &axis, &span)) {
    in->buf = new_buf(f, n, in);
    tn__layout_fix(f, n, false);
    root_join(f, n, in, n, axis, &span);
    return;
  }
  uint32_t turn;
  bool apart = n->op == OP_SCATTER || tn__is_called(in) || under_loops(f, n, in) || is_scan(f, n, &turn);
  in->host = apart ? -1 : find_host(f, n, in);
  if (in->host >= 0) {
    enter_host(f, n, in);
    return;
  }
  int beside = sends_beside(f, n, in);
  if (beside >= 0) {
    send_beside(f, n, in, beside);
    return;
  }
  in->buf = new_buf(f, n, in);
  tn__layout_fix(f, n, false);
  tn_node *join = f->dev->target.interprets ? NULL : tn__join_below(f, n, &axis, &span);
  if (join && tn__join_apart(f, n, join, axis, &span)) {
    root_join(f, n, in, join, axis, &span);
    return;
  }
  bool placed = tn__is_placed(n); /* one after the other of those that go to places, of which there may be more */
  tn_node *idx[TN_MAX_RANK], *env = open_outputs(f, n, placed ? n->src[1]->dim : n->dim, idx);
  in->kernel = new_kernel(f, n, env);
  note_reduced(f, &f->seeds.v[in->kernel], n, (uint32_t)((1ull << env->nsrc) - 1));
  /* a scatter's two parts have loops of their own */
  f->seeds.v[in->kernel].alone = tn__is_called(in) || n->op == OP_SCATTER;
  in->host = (int)in->want.n;
  tn__vec_push(f->a, &in->want, ((tn__demand){.k = in->kernel, .idx = tn__list(f->c, idx, n->rank), .env = env}));
  if (tn__is_called(in)) {
    note_readers(f, in);
    return;
  }
  if (placed) root_placed(f, n, &in->want.v[in->host]);
  else if (n->op == OP_SCATTER) root_scatter(f, n, &in->want.v[in->host]);
  else tn__demand_inline(f, n, in, &in->want.v[in->host]);
}

/* a choice: either is right */
bool tn__worth_storing(const tn__info *in) { return in->flops >= WORTH_STORING || in->loads >= 3; }

/* Is n at every place no more than one of its sources, or made of no data at all, but of a few counters?  However many
 * want it. */
/* a choice: no is right */
static bool costs_nothing(tn__fuse *f, tn_node *n, const tn__info *in) {
  if (in->flops <= 0 && in->loads <= 0) return true;
  if (!in->data && in->flops < WORTH_STORING) return true;
  for (uint32_t i = 0; i < in->want.n; i++)
    if (!tn__join_branch(f, n, in->want.v[i].idx->src)) return false;
  return true;
}

/* What n, moved, or with a number's bits taken off or put to it, is made of; NULL: it is another thing */
/* a choice: no is right */
static const tn_node *changed_bit(const tn_node *n) {
  if (tn__ops[n->op].group == G_MOVE || n->op == OP_BITCAST) return n->src[0];
  if (n->op != OP_XOR) return NULL;
  const tn_node *bits = n->src[1];
  while (tn__ops[bits->op].group == G_MOVE) bits = bits->src[0];
  return bits->op == OP_CONST ? n->src[0] : NULL;
}

/* Is it what stands in memory in another type, or, for few kernels that look it up at many places, moved, or with a bit
 * of it changed?  Then it costs no more than to load it. */
/* a choice: either is right */
static bool is_as_stored(tn__fuse *f, const tn_node *n, const tn__info *in) {
  uint32_t kernels = 0;
  if (n->op == OP_CAST) return tn__info_of(f, n->src[0])->buf >= 0;
  for (uint32_t i = 0; i < in->want.n; i++) kernels += in->want.v[i].before < 0;
  if (kernels > FEW_KERNELS) return false;
  for (const tn_node *x = n; x; x = changed_bit(x)) n = x;
  return n->op == OP_PARAM || is_stored(f, n);
}

/* Is it wanted in loops whose turns come one after the other?  Others would share the work out. */
/* a choice: either is right */
static bool in_order(const tn__demand *d) {
  for (uint32_t i = 0; i < d->env->nsrc; i++)
    if (d->env->src[i]->ints[0] == AX_ORDER) return true;
  return false;
}

/* Does each kernel want it at as many places as it has? */
/* a choice: no is right */
static bool is_wanted_once(const tn_node *n, const tn__info *in) {
  for (uint32_t i = 0; i < in->want.n; i++)
    if (in->want.v[i].before >= 0 || extents(in->want.v[i].env, ~0u) > tn__numel_guess(n)) return false;
  return true;
}

/* Is it sooner made of a value below it, wherever it is wanted, than stored and loaded?  Several values that have the
 * same one below them then cost memory once; and not at all, if that one is sooner made of what is in memory. */
/* a choice: either is right */
static bool is_remade(tn__fuse *f, tn_node *n, const tn__info *in) {
  const tn__target *t = &f->dev->target;
  if (!t->group) return false;
  double move = (t->balance > 0 ? (double)t->balance : USUAL_BALANCE) * (double)tn__size_of(n->dtype) / sizeof(float);
  tn_node *below = tn__fuse_made_of(f, n, 2 * move);
  if (in->below) return below && tn__info_of(f, below)->buf >= 0 && is_wanted_once(n, in);
  if (below) tn__info_of(f, below)->below = true;
  return below;
}

/* Is it wanted in parts, all of which together are no more than it is?  Then no kernel computes what another one does,
 * as where a gradient goes to all that was concatenated. */
/* a choice: either is right */
static bool is_parted(tn__fuse *f, const tn_node *n, const tn__info *in) {
  double wanted = 0, elements = tn__numel_guess(n);
  bool opaque = false;
  for (uint32_t i = 0; i < in->want.n && wanted <= elements && !opaque; i++) {
    const tn__demand *d = &in->want.v[i];
    wanted += extents(d->env, tn__ranges_in(f, d->idx, d->gate, d->env, &opaque));
  }
  return in->want.n > 1 && in->want.n <= MAX_PARTS && wanted <= elements && !opaque;
}

/* Is it gathered by loaded numbers, so that each element, or the few that lie side by side, comes with a sector of its
 * own, and do these take longer in all kernels but one than to store it there and to load it?  There it lies whole. */
/* a choice: either is right */
static bool is_gathered_once(tn__fuse *f, const tn_node *n, uint32_t kernels) {
  const tn_node *x = n->src[0];
  if (n->op != OP_GATHER || kernels < 2 || !tn__info_of(f, n->src[1])->data) return false;
  const double *stride = tn__info_of(f, x)->stride;
  double bytes = (double)tn__size_of(n->dtype), beside = 1;
  for (uint32_t i = 1; i < x->rank; i++)
    if (stride[i] == 1) beside = fmax(beside, (double)tn__size_guess(x->dim[i]));
  double sectors = fmax(1, f->dev->target.sector / (beside * bytes)) * move_of(f, x);
  double less = (kernels - 1) * (sectors - move_of(f, n)) - move_of(f, n);
  return less * tn__numel_guess(n) > tn__target_launch_guess(&f->dev->target);
}

static bool must_store(tn__fuse *f, tn_node *n, tn__info *in) {
  if (in->must || tn__is_called(in) || is_stored(f, n)) return true;
  if (n->dtype == TN__INDEX) return false; /* a size is no element */
  if (costs_nothing(f, n, in)) return false; /* a choice: no is right */
  if (in->want.n > MAX_DEMANDS && !is_as_stored(f, n, in)) return true; /* a choice: either is right */
  uint32_t axis;
  tn__spans span = {0};
  if (in->want.n && long_join(f, n, &axis, &span)) return true; /* a choice: either is right */
  uint32_t kernels = 0;
  bool all_fit = true, reduction = is_reduction(n);
  for (uint32_t i = 0; i < in->want.n; i++) {
    const tn__demand *d = &in->want.v[i];
    bool first = true;
    for (uint32_t j = 0; j < i; j++) first = first && in->want.v[j].k != d->k;
    kernels += first;
    if (f->seeds.v[d->k].size > TN__MAX_KERNEL && !is_as_stored(f, n, in)) return true;
    if (reduction && (!fits(f, n, d) || in_order(d) || (in->tiled && f->seeds.v[d->k].tiled))) all_fit = false;
  }
  if (reduction && kernels == 1 && under_loops(f, n, in)) return true; /* a choice: either is right */
  if (reduction) return !all_fit || kernels > 1;
  bool computed = tn__is_elementwise(n) && kernels > 1 && tn__worth_storing(in);
  bool shared = (computed || is_gathered_once(f, n, kernels)) && !is_parted(f, n, in) && !is_seldom_wanted(f, n, in) &&
                !is_remade(f, n, in);
  return shared || is_quicker_stored(f, n, in, -1); /* a choice: either is right */
}

static void choose_library(tn__fuse *f, tn_node *n, tn__info *in) {
  bool wanted = in->want.n || in->must, dot = wanted && n->op == OP_CONTRACT;
  for (uint32_t i = 1; dot && i < in->want.n; i++) in->inline_dot &= in->want.v[i].k == in->want.v[0].k;
  bool loops = dot && (in->inline_dot || tn__fuse_attention(f, n));
  in->conv = wanted && !loops ? tn__conv_plan(f, n) : NULL;
  if (dot && !loops && !in->conv && !in->tiled) in->gemm = tn__gemm_plan(f, n);
}

static void decide(tn__fuse *f, tn_node *n) {
  tn__info *in = tn__info_of(f, n);
  if (n->op == OP_PARAM || n->op == OP_SINK) return;
  if (n->dtype == TN__INDEX && !in->must && !in->want.n) return;
  choose_library(f, n, in);
  if (must_store(f, n, in)) {
    materialise(f, n, in);
    return;
  }
  for (uint32_t i = 0; i < in->want.n; i++) {
    if (is_reduction(n)) note_chain(f, n, &in->want.v[i]);
    tn__demand_inline(f, n, in, &in->want.v[i]);
  }
}

/* flops and loads per element, were n computed from what surely is in memory */
/* a choice: either is right */
static void estimate(tn__fuse *f, tn_node *n) {
  tn__info *in = tn__info_of(f, n);
  if (n->op == OP_PARAM || is_reduction(n) || is_stored(f, n)) {
    in->loads = 1;
    in->data = true;
    return;
  }
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const tn__info *s = tn__info_of(f, n->src[i]);
    in->data |= s && s->data;
  }
  if (n->op == OP_GATHER) in->loads = 1;
  if (n->op == OP_EXPAND) return; /* read again and again, it stays in cache */
  bool elementwise = tn__is_elementwise(n);
  if (elementwise) in->flops = tn__ops[n->op].cost;
  if (in->flops >= FUNCTION) in->functions = in->flops;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const tn__info *s = tn__info_of(f, n->src[i]);
    if (!s || (n->op != OP_GATHER && !elementwise && i)) continue;
    in->flops += s->flops;
    in->functions += s->functions;
    in->loads += s->loads;
  }
}

static void put_out(tn__fuse *f, const tn_node *n, int out) {
  tn__info *in = tn__info_of(f, n);
  in->must = out >= 0;
  in->out = out;
}

/* What stands in memory anyway, with the same elements in the same order, is the output. */
/* a choice: no is right */
static void find_stored_output(tn__fuse *f, uint32_t i) {
  tn_node *n = f->sink->src[i], *root = n;
  while (root->op == OP_RESHAPE) root = root->src[0];
  if (root == n || !is_stored(f, root) || tn__info_of(f, root)->out >= 0) return;
  put_out(f, n, -1);
  put_out(f, root, (int)i);
}

void tn__fuse_decide(tn__fuse *f) {
  for (uint32_t i = 0; i < f->order.n; i++) estimate(f, f->order.v[i]);
  for (uint32_t i = 0; i < f->sink->nsrc; i++) put_out(f, f->sink->src[i], (int)i);
  for (uint32_t i = 0; i < f->sink->nsrc; i++) find_stored_output(f, i);
  for (uint32_t i = f->order.n; i && i--;) decide(f, f->order.v[i]);
}

/* ---- kernels side by side ---- */

/* Does it reduce anything, or store it, under some of its output loops alone? */
static bool nests(const tn__seed *g) {
  uint32_t all = (uint32_t)((1ull << g->env->nsrc) - 1);
  for (uint32_t i = 0; i < g->chain.n; i++)
    if (g->chain.v[i] != all) return true;
  return false;
}

/* By what they are, and how much it is that both read; whether one needs the other is another question. */
/* a choice: no is right */
static bool may_join(const tn__fuse *f, int a, int b, const tn_node *shared) {
  const tn__target *t = &f->dev->target;
  const tn__seed *x = &f->seeds.v[a], *y = &f->seeds.v[b];
  if (x->env != y->env || x->roots.n + y->roots.n > TN__MAX_STORES || x->size + y->size > TN__MAX_KERNEL ||
      x->loops + y->loops > TN__MAX_LOOPS)
    return false;
  bool few = x->few || y->few;
  bool alike = !x->chain.n == !y->chain.n, long_read = t->group && !tn__launches_decide(t, tn__numel_guess(shared));
  if (!alike && (!long_read || nests(x) || nests(y))) return false;
  if (few && x->terms != y->terms) return false;
  if (x->chain.n && leaves_units(f, extents(x->env, x->chain.v[0]), x->longest, y->longest)) return false;
  for (uint32_t i = 0; i < x->chain.n; i++)
    for (uint32_t j = 0; j < y->chain.n; j++) {
      uint32_t s = x->chain.v[i] & y->chain.v[j];
      if (few ? x->chain.v[i] != y->chain.v[j] : s != x->chain.v[i] && s != y->chain.v[j]) return false;
    }
  return true;
}

static void join(tn__fuse *f, tn__depends *d, int a, int b) {
  tn__seed *x = &f->seeds.v[a], *y = &f->seeds.v[b];
  tn__depends_join(f, d, a, b, a);
  for (uint32_t i = 0; i < y->roots.n; i++) {
    tn__info_of(f, y->roots.v[i])->kernel = a;
    tn__vec_push(f->a, &x->roots, y->roots.v[i]);
  }
  for (uint32_t i = 0; i < y->chain.n; i++) tn__vec_push(f->a, &x->chain, y->chain.v[i]);
  x->size += y->size;
  x->loops += y->loops - y->env->nsrc;
  x->longest = fmax(x->longest, y->longest);
  y->roots.n = 0;
}

typedef tn__vec(int) kernels;

/* a choice: no is right */
static bool can_join(const tn__fuse *f, int k) {
  return f->seeds.v[k].roots.n && f->seeds.v[k].roots.n < TN__MAX_STORES;
}

/* Where the last MAX_TRIES kernels begin that can still be joined; those among them that cannot are dropped. */
/* a choice: either is right */
static uint32_t tidy(const tn__fuse *f, kernels *k) {
  uint32_t from = k->n, n = 0, end = k->n;
  while (from && n < MAX_TRIES) n += can_join(f, k->v[--from]);
  for (uint32_t i = k->n = from; i < end; i++)
    if (can_join(f, k->v[i])) k->v[k->n++] = k->v[i];
  return from;
}

/* Finds which of those from the first on kernel a needs, or is needed by. */
static void mark_some(tn__fuse *f, tn__depends *d, const kernels *r, uint32_t first, int a, const tn_node *shared) {
  uint32_t from = d->place.v[a], to = from;
  for (uint32_t i = first; i < r->n; i++) {
    if (!f->seeds.v[r->v[i]].roots.n || !may_join(f, a, r->v[i], shared)) continue;
    uint32_t at = d->place.v[r->v[i]];
    if (at < from) from = at;
    if (at > to) to = at;
  }
  tn__depends_mark(f, d, a, from, to);
}

/* Kernel a takes in those before it that read something that it reads, too, at least as large as what they write.
 * `readers`: of the value at a position; a joins them. */
static void join_readers(tn__fuse *f, tn__depends *d, kernels *readers, int a, int *now) {
  const tn__seed *g = &f->seeds.v[a];
  if (g->alone || !g->env->nsrc) return;
  double volume = extents(g->env, ~0u);
  for (uint32_t i = 0; i < d->loads.v[a].n; i++) { /* more, once it has taken in another */
    uint32_t at = d->loads.v[a].v[i];
    const tn_node *shared = f->order.v[at];
    kernels *r = &readers[at];
    if (tn__numel_guess(shared) < volume) continue;
    uint32_t first = tidy(f, r);
    mark_some(f, d, r, first, a, shared);
    for (uint32_t j = first; j < r->n; j++) {
      int b = r->v[j];
      if (b == a || !f->seeds.v[b].roots.n || !may_join(f, a, b, shared) || tn__depends_marked(d, a, b)) continue;
      join(f, d, a, b);
      now[b] = a;
      mark_some(f, d, r, j + 1, a, shared);
    }
    if (!r->n || r->v[r->n - 1] != a) tn__vec_push(f->a, r, a);
  }
}

/* Kernels over the same ranges that read the same and do not need each other become one, with several outputs. */
void tn__fuse_join(tn__fuse *f) {
  tn__depends d;
  int *now = tn__arena_alloc(f->a, (f->seeds.n + 1) * sizeof *now);
  kernels *readers = tn__arena_zalloc(f->a, (f->order.n + 1) * sizeof *readers);
  tn__depends_find(f, &d);
  for (int a = 0; a < (int)f->seeds.n; a++) {
    now[a] = a;
    join_readers(f, &d, readers, a, now);
  }
  tn__map_init(&f->places, f->a); /* by the kernels that there are now */
  for (uint32_t i = 0; i < f->order.n; i++)
    for (uint32_t j = 0; j < f->info[i].want.n; j++) {
      for (int *k = &f->info[i].want.v[j].k; *k != now[*k];) *k = now[*k];
      tn__demand_link(f, &f->info[i], j);
    }
}
