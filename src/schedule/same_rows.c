/* Kernels that go through the same rows, one after the other, become one: softmax and its gradient, a norm and what is
 * made of it.
 *
 * Needs all decided, kernels side by side joined.  A kernel that reads what another one stores of each row, and of the
 * other rows nothing, may do so when that one has just finished the row: both as one kernel read once what both read,
 * and what only the second one wanted need not be stored. */
#include "schedule/remake.h"
#include <math.h>

enum {
  MAX_TRIES = 16,               /* kernels that one is tried to be joined with */
  COLUMN_SHARES = 32,           /* vectors of columns, at least, and */
  COLUMN_ARRAYS = 4,            /* that columns are loaded from, and stored to, at the same time */
  SMALL_PART = 16,              /* of what kernels go through: too little to join them for */
  MAX_SIZE = 2 * TN__MAX_KERNEL /* nodes: so long a kernel is worth a reading of everything */
};

static uint32_t all_of(const tn_node *env) { return (uint32_t)((1ull << env->nsrc) - 1); }

/* What range x of the smaller kernel is among the larger one's: what stands where b wants a store of a's, or the same
 * node.  NULL: none. */
static tn_node *same_range(tn__fuse *f, const tn__remake *p, tn_node *x) {
  const tn__seed *a = tn__seed_of(f, p->a), *large = tn__seed_of(f, p->env == a->env ? p->a : p->b);
  for (uint32_t i = 0; i < a->roots.n; i++) {
    const tn__info *in = tn__info_of(f, a->roots.v[i]);
    const tn_node *own = in->want.v[in->host].idx;
    for (int k = tn__demand_last(f, in, p->b); k >= 0; k = in->want.v[k].before) {
      const tn_node *there = in->want.v[k].idx, *small = large == a ? there : own, *big = large == a ? own : there;
      for (uint32_t s = 0; s < own->nsrc; s++)
        for (uint32_t e = 0; e < p->env->nsrc; e++)
          if (small->src[s] == x && big->src[s] == p->env->src[e] && x->src[0] == big->src[s]->src[0])
            return big->src[s];
    }
  }
  for (uint32_t i = 0; i < p->env->nsrc; i++)
    if (p->env->src[i] == x) return x;
  return NULL;
}

/* Finds what the smaller kernel's ranges are. */
static bool match_ranges(tn__fuse *f, tn__remake *p) {
  tn_node *x = tn__seed_of(f, p->a)->env, *y = tn__seed_of(f, p->b)->env;
  const tn_node *small = x->nsrc >= y->nsrc ? y : x;
  p->env = small == y ? x : y;
  p->small = small == y ? p->b : p->a;
  for (uint32_t i = 0; i < small->nsrc; i++) {
    tn_node *to = same_range(f, p, small->src[i]);
    if (!to) return false;
    for (uint32_t k = 0; k < p->to.n; k++)
      if (p->to.v[k] == to) return false;
    tn__vec_push(f->a, &p->from, small->src[i]);
    tn__vec_push(f->a, &p->to, to);
  }
  return p->env->nsrc < 32;
}

/* The number, among env's, of a range that kernel k has */
static uint32_t number_of(tn__fuse *f, const tn__remake *p, int k, tn_node *x) {
  uint32_t i = 0;
  for (x = tn__remake_moved(f, p, k, x); p->env->src[i] != x;) i++;
  return i;
}

/* The ranges under which all that a kernel reduces stands, or stores beside its elements, by numbers of env; 0: it
 * does neither.  False: there are several such sets. */
static bool rows_of(tn__fuse *f, const tn__remake *p, int k, uint32_t *rows) {
  const tn__seed *g = tn__seed_of(f, k);
  const tn_node *env = p->env;
  uint32_t at[32], own = 0;
  for (uint32_t i = 0; i < g->env->nsrc; i++) own |= 1u << (at[i] = number_of(f, p, k, g->env->src[i]));
  *rows = own == all_of(env) ? 0 : own;
  for (uint32_t i = 0; i < g->chain.n; i++) {
    uint32_t set = 0;
    for (uint32_t j = 0; j < g->env->nsrc; j++)
      if (g->chain.v[i] >> j & 1) set |= 1u << at[j];
    if (set == all_of(env)) continue;
    if (!set || (*rows && set != *rows)) return false;
    *rows = set;
  }
  return true;
}

/* Do a row's neighbours in memory belong to it, as lanes want them?  Work groups can share out other rows as well.  So
 * can lanes, of columns beside each other, if these are enough for threads to share out, and a thread's cache still
 * holds what the first kernel has loaded of as many as there are lanes. */
/* a choice: either is right */
static bool stand_well(const tn__fuse *f, const tn_node *env, uint32_t rows, double count, double elements) {
  const tn__target *t = &f->dev->target;
  const tn_node *last = env->src[env->nsrc - 1]; /* ranges are in the order of memory */
  if (t->group || !(rows >> (env->nsrc - 1) & 1)) return true;
  double lanes = (double)t->lane_bytes / sizeof(float), strips = elements * COLUMN_ARRAYS * (double)t->lane_bytes;
  bool enough = count >= COLUMN_SHARES * lanes && (double)tn__size_guess(last->src[0]) >= lanes;
  return enough && strips <= (double)t->kept;
}

/* The largest value that either loads: its elements, or so many; does it lie along other loops than the rows'? */
typedef struct loaded {
  double elements;
  bool along;
} loaded;

/* a choice: either is right */
static bool lies_along(tn__fuse *f, const tn__remake *p, int k, uint32_t at) {
  const tn__info *in = &f->info[at];
  int i = tn__demand_last(f, in, k);
  for (uint32_t a = 0; a < f->order.v[at]->rank && i >= 0; a++) {
    const tn_node *x = tn__remake_moved(f, p, k, in->want.v[i].idx)->src[a];
    if (in->stride[a] != 1 || tn__is_int_const(f->order.v[at]->dim[a], 1)) continue;
    for (uint32_t r = 0; r < p->rows->nsrc; r++)
      if (p->rows->src[r] == x) return false;
  }
  return true;
}

static loaded most_loaded(tn__fuse *f, const tn__depends *d, const tn__remake *p, double rows) {
  loaded most = {rows, true};
  for (int side = 0; side < 2; side++) {
    int k = side ? p->b : p->a;
    const tn__numbers *loads = &d->loads.v[k];
    for (uint32_t i = 0; i < loads->n; i++) {
      double n = tn__numel_guess(f->order.v[loads->v[i]]);
      if (n > most.elements) most = (loaded){n, lies_along(f, p, k, loads->v[i])};
    }
  }
  return most;
}

/* Are there rows enough for the units, or do launches take longer than all of them?  Few are cut by lowering, or kept
 * by groups. */
/* a choice: either is right */
static bool are_many(tn__fuse *f, const tn__depends *d, const tn__remake *p, double rows) {
  const tn__target *t = &f->dev->target;
  const loaded most = most_loaded(f, d, p, rows);
  double row = most.elements / rows;
  if (!most.along && !tn__columns_suffice(t, rows, row) && !tn__launches_decide(t, most.elements)) return false;
  if (rows >= (double)t->units) return tn__rows_suffice(t, rows, row);
  /* columns that a group goes down at once */
  double beside = most.along ? 1 : fmin(rows, (double)t->sector / sizeof(float));
  return f->c->mode != TN_MODE_STRICT && tn__row_is_kept(t, beside * row) && tn__launches_decide(t, most.elements);
}

/* Would a group, for a row of one kernel, go through several of the other's outputs, each of which is a reduction? */
/* a choice: either is right */
static bool are_uneven(tn__fuse *f, const tn__depends *d, const tn__remake *p, uint32_t of_a, uint32_t of_b) {
  const tn__seed *whole = tn__seed_of(f, of_a ? p->b : p->a);
  if (!f->dev->target.group || !of_a == !of_b || whole->loops <= whole->env->nsrc) return false;
  return !tn__launches_decide(&f->dev->target, most_loaded(f, d, p, 1).elements);
}

/* The rows of both: what they reduce stands under the same ranges, or each element is a row. */
/* a choice: no is right */
static bool match_rows(tn__fuse *f, const tn__depends *d, tn__remake *p, uint32_t *rows) {
  uint32_t of_a, of_b, n = 0;
  tn_node *row[32];
  double count = 1;
  if (!match_ranges(f, p) || !rows_of(f, p, p->a, &of_a) || !rows_of(f, p, p->b, &of_b)) return false;
  if (of_a && of_b && of_a != of_b) return false;
  *rows = of_a | of_b;
  bool both = tn__seed_reduces(tn__seed_of(f, p->a)) && tn__seed_reduces(tn__seed_of(f, p->b));
  if (!*rows && both) *rows = all_of(p->env);
  for (uint32_t i = 0; i < p->env->nsrc; i++) {
    if (!(*rows >> i & 1)) continue;
    row[n++] = p->env->src[i];
    count *= (double)tn__size_guess(p->env->src[i]->src[0]);
  }
  p->rows = tn__list(f->c, row, n);
  double elements = n ? most_loaded(f, d, p, count).elements / count : 0;
  if (!n || !stand_well(f, p->env, *rows, count, elements)) return false;
  return !are_uneven(f, d, p, of_a, of_b) && are_many(f, d, p, count);
}

static bool has_rows(const tn__seed *g) {
  return g->roots.n && !g->alone && !g->tiled && !g->keeps && !g->product && !g->rows;
}

/* Of columns of 8 bytes an element, a strip is too few vectors to be worth a loop of its own (measured). */
/* a choice: either is right */
static bool are_narrow(const tn__fuse *f, const tn__seed *g) {
  bool narrow = true;
  for (uint32_t i = 0; i < g->roots.n; i++) narrow &= tn__size_of(g->roots.v[i]->dtype) <= sizeof(float);
  return narrow || f->dev->target.group;
}

/* a choice: no is right */
static bool may_pair(tn__fuse *f, const tn__depends *d, tn__remake *p, uint32_t *rows) {
  const tn__seed *x = tn__seed_of(f, p->a), *y = tn__seed_of(f, p->b);
  bool fit = p->a != p->b && has_rows(x) && has_rows(y) && are_narrow(f, x) && are_narrow(f, y);
  return fit && x->roots.n + y->roots.n <= TN__MAX_STORES && x->loops + y->loops <= TN__MAX_LOOPS &&
         match_rows(f, d, p, rows);
}

/* Did a or b want n just there? */
static bool was_there(tn__fuse *f, const tn__remake *p, const tn__info *in, const tn__demand *d) {
  for (int side = 0; side < 2; side++)
    for (int k = side ? p->b : p->a, i = tn__demand_last(f, in, k); i >= 0; i = in->want.v[i].before)
      if (tn__remake_moved(f, p, k, in->want.v[i].gate) == d->gate &&
          tn__remake_moved(f, p, k, in->want.v[i].idx) == d->idx)
        return true;
  return false;
}

/* Is n, which is reduced, wanted once at each of its elements?  Not if a gate says in every turn of a row whether. */
/* a choice: no is right */
static bool is_wanted_once(tn__fuse *f, const tn__demand *d) {
  bool opaque = false;
  return tn__ranges_in(f, d->idx, d->gate, d->env, &opaque) == tn__ranges_in(f, d->idx, NULL, d->env, &opaque) &&
         !opaque;
}

/* A place where the kernel wants n.  False if n is computed there more than once, or in another row. */
static bool inline_place(tn__fuse *f, tn__remake *p, tn_node *n, tn__info *in, tn__demand *d) {
  bool reduces = tn__ops[n->op].group == G_REDUCE, stored = in->buf >= 0 && in->kernel == p->a;
  if (n->op == OP_CONTRACT || n->op == OP_FOLD || n->op == OP_SCATTER) return false;
  if (reduces ? !is_wanted_once(f, d) || !was_there(f, p, in, d) : stored && !tn__remake_had(f, p, in, d)) return false;
  tn__demand_inline(f, n, in, d);
  return true;
}

static bool visit(tn__fuse *f, tn__remake *p, uint32_t at, double more) {
  tn_node *n = f->order.v[at];
  tn__info *in = &f->info[at];
  bool theirs = in->kernel == p->a || in->kernel == p->b;
  if (in->buf >= 0 && tn__numel_guess(n) > more && tn__remake_demands(f, in, p->b))
    p->shares |= in->kernel == p->a || (!theirs && tn__remake_demands(f, in, p->a));
  if (in->buf >= 0 && !theirs) return true;
  bool good = true;
  for (int i = tn__demand_last(f, in, p->k); good && i >= 0; i = in->want.v[i].before)
    good = inline_place(f, p, n, in, &in->want.v[i]);
  for (uint32_t s = 0; s < n->nsrc; s++) tn__remake_note(f, p, n->src[s]);
  return good && tn__seed_of(f, p->k)->size <= MAX_SIZE;
}

/* Both share what is more than a number for each row; where no launches are spared by that, more than a small part of
 * what they go through. */
static bool walk(tn__fuse *f, tn__remake *p) {
  double rows = 1, all = 1;
  for (uint32_t i = 0; i < p->rows->nsrc; i++) rows *= (double)tn__size_guess(p->rows->src[i]->src[0]);
  for (uint32_t i = 0; i < p->env->nsrc; i++) all *= (double)tn__size_guess(p->env->src[i]->src[0]);
  double more = f->dev->target.group ? rows : fmax(rows, all / SMALL_PART);
  while (p->todo.n)
    if (!visit(f, p, tn__heap_pop(&p->todo), more)) return false;
  return p->shares;
}

static void want_roots(tn__fuse *f, tn__remake *p, int from) {
  for (uint32_t i = 0; i < tn__seed_of(f, from)->roots.n; i++) {
    tn_node *n = tn__seed_of(f, from)->roots.v[i];
    const tn__info *in = tn__info_of(f, n);
    if (tn__remake_drops(f, p, in)) continue;
    tn__demand_put(f, n, p->k, tn__remake_moved(f, p, from, in->want.v[in->host].idx), NULL, p->env);
    tn__remake_note(f, p, n);
    tn__vec_push(f->a, &tn__seed_of(f, p->k)->roots, n);
  }
}

/* Kernel b, which reads what a stores, and a as one; false: they stay. */
static bool join(tn__fuse *f, tn__depends *d, int a, int b) {
  tn__remake p = {.a = a, .b = b, .k = (int)f->seeds.n};
  uint32_t rows;
  if (!may_pair(f, d, &p, &rows) || tn__depends_on(f, d, b, a, a)) return false;
  tn__seed g = {.env = p.env, .first = p.k, .loops = p.env->nsrc};
  tn__vec_push(f->a, &g.chain, rows);
  tn__vec_push(f->a, &f->seeds, g);
  f->searches++;
  want_roots(f, &p, a);
  want_roots(f, &p, b);
  if (!walk(f, &p)) {
    tn__remake_give_up(f, &p);
    return false;
  }
  tn__depends_join(f, d, a, b, p.k);
  tn__remake_take_over(f, &p);
  return true;
}

/* Joins k with one that it reads from.  What they become has its own turn. */
static void join_some(tn__fuse *f, tn__depends *d, int k) {
  int tries = 0, last = -1;
  for (uint32_t i = 0; i < d->loads.v[k].n && tries < MAX_TRIES; i++) {
    int a = f->info[d->loads.v[k].v[i]].kernel; /* -1: given, or stored no more */
    if (a < 0 || a == k || a == last || !tn__remake_alive(f, a)) continue;
    if (join(f, d, a, k)) return;
    last = a;
    tries++;
  }
}

void tn__fuse_same_rows(tn__fuse *f) {
  uint32_t before = f->seeds.n;
  tn__depends d;
  tn__depends_find(f, &d);
  for (uint32_t k = 0; k < f->seeds.n; k++) /* those that have been made, too */
    if (tn__remake_alive(f, (int)k) && !tn__seed_of(f, (int)k)->alone) join_some(f, &d, (int)k);
  if (f->seeds.n > before) tn__remake_tidy(f);
}
