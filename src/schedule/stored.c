/* Must a value stand in memory?  Or is it made anew wherever it is wanted?
 *
 * Needs all places where it is wanted, and the estimates of fuse.c.  Counts what it takes to make an element, how often
 * the loops that want it would, and what it takes to store and to load it instead.  Breaks nothing: both give the same
 * numbers. */
#include "schedule/fuse.h"
#include <math.h>

enum {
  MAX_DEMANDS = 12,    /* a node wanted at more places goes to memory: recomputing would multiply */
  FEW_KERNELS = 4,     /* which may look up what stands there at any number of places */
  MAX_PARTS = 6,       /* in which a node is wanted, and all below it; others want these, too */
  MAX_LOOKED_AT = 64,  /* of the places where a node is wanted, to tell how often it is computed */
  MAX_MADE_ANEW = 256, /* nodes below a value that few want, to tell what it takes to make it anew */
  WORTH_STORING = 12,  /* multiply-adds of an element that are rather done once than in each kernel */
  HIDDEN_WORK = 8,     /* multiply-adds that are done while an element is on its way */
  USUAL_FETCH = 4,     /* those in the time of a load from a cache, */
  USUAL_BALANCE = 16,  /* or from memory, of devices that do not say */
  SELDOM = 4           /* so many elements stored for each that another kernel wants are many */
};

static const double OF_FUNCTION = 2.5; /* instructions of a thread for each of its multiply-adds */

/* Those ranges, and all around them: each of their turns computes anew what hangs on those alone.  Where threads share
 * out the loops over outputs, each computes for itself what several of these have in common. */
/* a choice: either is right */
static uint32_t with_outer(const tn__fuse *f, const tn_node *env, uint32_t set) {
  for (uint32_t j = 0; f->dev->target.group && j < env->nsrc && j < 32; j++)
    if (env->src[j]->ints[0] == AX_LOOP) set |= 1u << j;
  for (uint32_t outer = set >> 1; outer; outer >>= 1) set |= outer;
  return set;
}

/* Those ranges, and if they are of outputs, the innermost one of these among them, all that outputs have: so each row
 * computes anew what is the same for all rows, as functions of one that is spread over many are.  What hangs on outer
 * loops alone stands in front of the inner ones. */
/* a choice: either is right */
static uint32_t with_rows_around(const tn_node *env, uint32_t set) {
  uint32_t loops = 0;
  for (uint32_t j = 0; j < env->nsrc && j < 32; j++)
    if (env->src[j]->ints[0] == AX_LOOP) loops |= 1u << j;
  return !(set & ~loops) && set > (loops & ~set) ? loops : set;
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
    set = n->op == OP_CONTIG ? with_outer(f, d->env, set) : with_rows_around(d->env, set);
    each[i] = tn__extents(d->env, set) / tn__numel_guess(n);
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
bool tn__is_quicker_stored(tn__fuse *f, const tn_node *n, const tn__info *in, int k) {
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
    bool memory = x->op == OP_PARAM || tn__is_reduction(x) || tn__is_stored(f, x);
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
      volume += tn__extents(in->want.v[j].env, ~0u);
    most = fmax(most, volume);
    all += tn__extents(in->want.v[i].env, ~0u);
  }
  double others = all - most;
  return others * SELDOM <= elements && !takes_more(f, n, elements * move_of(f, n) / others);
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
  if (n->op == OP_CAST) return tn__is_there(tn__info_of(f, n->src[0]));
  for (uint32_t i = 0; i < in->want.n; i++) kernels += in->want.v[i].before < 0;
  if (kernels > FEW_KERNELS) return false;
  for (const tn_node *x = n; x; x = changed_bit(x)) n = x;
  return n->op == OP_PARAM || tn__is_stored(f, n);
}

/* Is it wanted by updates whose turns come one after the other, at least those of a line?  Others would share the work
 * out. */
/* a choice: either is right */
static bool in_order(const tn__fuse *f, const tn__demand *d) {
  const tn__nodes *roots = &f->seeds.v[d->k].roots;
  const tn_node *root = roots->n ? roots->v[0] : NULL;
  int64_t each;
  bool lines = root && root->op == OP_SCATTER && tn__axes_of_lines(f, root, &each);
  for (uint32_t i = 0; i < d->env->nsrc; i++) {
    const int64_t *loop = d->env->src[i]->ints;
    if (loop[RANGE_AXIS] == AX_ORDER || (lines && loop[RANGE_ROLE] == ROLE_UPDATE)) return true;
  }
  return false;
}

/* Does each kernel want it at as many places as it has? */
/* a choice: no is right */
static bool is_wanted_once(const tn_node *n, const tn__info *in) {
  for (uint32_t i = 0; i < in->want.n; i++)
    if (in->want.v[i].before >= 0 || tn__extents(in->want.v[i].env, ~0u) > tn__numel_guess(n)) return false;
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
  if (in->below) return below && tn__is_there(tn__info_of(f, below)) && is_wanted_once(n, in);
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
    wanted += tn__extents(d->env, tn__ranges_in(f, d->idx, d->gate, d->env, &opaque));
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

/* a choice: either is right */
bool tn__long_join(tn__fuse *f, tn_node *n, uint32_t *axis, tn__spans *span) {
  return tn__join_spans(f, n, axis, span) > TN__LONG_JOIN && !tn__without_elements(n);
}

/* On group devices: a product wanted inside the loops of a reduction would be computed by the few threads that those
 * keep busy. */
/* a choice: either is right */
bool tn__under_loops(const tn__fuse *f, const tn_node *n, const tn__info *in) {
  if (!f->dev->target.group || (n->op != OP_CONTRACT && !in->tiled) || in->inline_dot) return false;
  for (uint32_t i = 0; i < in->want.n; i++)
    if (in->want.v[i].env != f->seeds.v[in->want.v[i].k].env) return true;
  return false;
}

/* Are these places that are known to differ by the spans that they are in, which others look up by, too?  Then what
 * they are made of may be stored, and nothing in the kernel that sends by them would say which span each is in. */
static bool is_looked_up_too(tn__fuse *f, const tn_node *n, const tn__info *in) {
  if (n->op != OP_PERMUTATION) return false;
  for (uint32_t i = 0; i < in->want.n; i++) {
    const tn__seed *g = &f->seeds.v[in->want.v[i].k];
    const tn_node *root = g->roots.n ? g->roots.v[0] : NULL;
    if (!root || !tn__is_placed(root) || root->src[1] != n) return true;
  }
  return false;
}

bool tn__must_store(tn__fuse *f, tn_node *n, tn__info *in) {
  if (in->must || tn__is_called(in) || tn__is_stored(f, n) || is_looked_up_too(f, n, in)) return true;
  if (n->dtype == TN__INDEX) return false; /* a size is no element */
  if (costs_nothing(f, n, in)) return false; /* a choice: no is right */
  if (in->want.n > MAX_DEMANDS && !is_as_stored(f, n, in)) return true; /* a choice: either is right */
  uint32_t axis;
  tn__spans span = {0};
  if (in->want.n && tn__long_join(f, n, &axis, &span)) return true; /* a choice: either is right */
  uint32_t kernels = 0;
  bool all_fit = true, reduction = tn__is_reduction(n);
  for (uint32_t i = 0; i < in->want.n; i++) {
    const tn__demand *d = &in->want.v[i];
    bool first = true;
    for (uint32_t j = 0; j < i; j++) first = first && in->want.v[j].k != d->k;
    kernels += first;
    if (f->seeds.v[d->k].size > TN__MAX_KERNEL && !is_as_stored(f, n, in)) return true;
    bool tiled = in->tiled && f->seeds.v[d->k].tiled;
    if (reduction && (!tn__fuse_fits(f, n, d) || in_order(f, d) || tiled)) all_fit = false;
  }
  if (reduction && kernels == 1 && tn__under_loops(f, n, in)) return true; /* a choice: either is right */
  if (reduction) return !all_fit || kernels > 1;
  bool computed = tn__is_elementwise(n) && kernels > 1 && tn__worth_storing(in);
  bool shared = (computed || is_gathered_once(f, n, kernels)) && !is_parted(f, n, in) && !is_seldom_wanted(f, n, in) &&
                !is_remade(f, n, in);
  return shared || tn__is_quicker_stored(f, n, in, -1); /* a choice: either is right */
}
