/* Kernels side by side: those over the same ranges that read the same become one.
 *
 * Needs all kernels to be planned, and what each reads and needs (depend.h).  Gives kernels with several outputs, which
 * read once what several would have read.  Breaks nothing: none of them needs another one's results. */
#include "schedule/depend.h"
#include <math.h>

enum { MAX_TRIES = 64 }; /* kernels that one is tried to be joined with */

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
  double read = tn__numel_guess(shared);
  bool alike = !x->chain.n == !y->chain.n, rows = tn__seed_reduces(x) && tn__seed_reduces(y) && read >= TN__SPLIT_WORK;
  bool long_read = t->group && (rows || !tn__launches_decide(t, read));
  if (!alike && (!long_read || nests(x) || nests(y))) return false;
  if (few && x->terms != y->terms) return false;
  if (x->chain.n && tn__leaves_units(f, tn__extents(x->env, x->chain.v[0]), x->longest, y->longest)) return false;
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

/* Kernel a takes in those before it that read something that it reads, too, at least as large as what they write, or,
 * where that is one number each, long enough to be cut into parts.  `readers`: of the value at a position; a joins
 * them. */
static void join_readers(tn__fuse *f, tn__depends *d, kernels *readers, int a, int *now) {
  const tn__seed *g = &f->seeds.v[a];
  if (g->alone) return;
  double volume = tn__extents(g->env, ~0u);
  for (uint32_t i = 0; i < d->loads.v[a].n; i++) { /* more, once it has taken in another */
    uint32_t at = d->loads.v[a].v[i];
    const tn_node *shared = f->order.v[at];
    kernels *r = &readers[at];
    if (tn__numel_guess(shared) < (g->env->nsrc ? volume : (double)TN__SPLIT_WORK)) continue;
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
