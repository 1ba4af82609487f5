/* Range assignment, first sweep: what stands in memory, and which kernel computes what.
 *
 * Needs the graph in topological order.  Walks it from the outputs to the inputs; every node knows, when its turn
 * comes, all places where it is wanted.  It is then inlined there (its sources become wanted at places of their own),
 * or it gets a buffer, written by a kernel of its own or by one that computes it anyway.  Gives each node's demands and
 * buffer.  Breaks nothing: the graph stays. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include <stdio.h>

enum {
  JOIN_KERNEL = 16,   /* parts of equal shape of a long join in one kernel */
  MAX_SEARCH = 20000, /* nodes that a search for a dependence looks at */
  MAX_HOSTS = 16,     /* kernels that are asked whether they could store a value, too */
  FUNCTION = 10       /* multiply-adds, at least, of a function like exp */
};

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

static void inline_reduce(tn__fuse *f, tn_node *n, tn__info *in, tn__demand *d) {
  tn__note_together(f, n, d);
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

/* Of a choice: the only source that is wanted at d, by its place, or since updates cover the other one; else 0 */
static int branch_of(tn__fuse *f, tn_node *n, const tn__demand *d) {
  const tn__seed *g = &f->seeds.v[d->k];
  const tn_node *root = g->roots.n ? g->roots.v[0] : NULL;
  bool base = root && root->op == OP_SCATTER && root->src[0] == n && d->env == g->env && !d->gate;
  return base && tn__is_covered(&f->dev->target, root) ? 2 : tn__join_branch(f, n, d->idx->src);
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
    if ((d->branch = branch_of(f, n, d))) {
      tn__demand_child(f, n, d, d->branch, d->idx->src, gate, d->env);
      return;
    }
    for (uint32_t i = 0; i < n->nsrc; i++) tn__demand_child(f, n, d, (int)i, d->idx->src, gate, d->env);
    return;
  }
  tn__index_through(f->c, n, d->idx->src, idx, &gate);
  tn__demand_child(f, n, d, 0, idx, gate, d->env);
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
  return walks_outer(d) && tn__fuse_fits(f, n, d);
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

/* A kernel cannot load what it is storing: may n, or the reduction that it is a copy of, be computed wherever else in
 * kernel k it is wanted? */
/* a choice: no is right */
static bool fits_again(tn__fuse *f, tn_node *n, const tn__info *in, int k) {
  tn_node *made = n;
  while (n->op == OP_CONTIG && (made == n || made->op == OP_RESHAPE)) made = made->src[0];
  for (int i = tn__demand_last(f, in, k); tn__is_reduction(made) && i >= 0; i = in->want.v[i].before)
    if (!tn__fuse_fits(f, made, &in->want.v[i])) return false;
  return true;
}

/* a choice: no is right */
static int find_host(tn__fuse *f, tn_node *n, tn__info *in) {
  for (uint32_t i = in->want.n, asked = 0; asked < MAX_HOSTS && i && i--;) {
    const tn__demand *d = &in->want.v[i];
    const tn__seed *g = &f->seeds.v[d->k];
    if ((g->alone && !g->along) || (in->tiled && g->tiled) || g->size > TN__MAX_KERNEL ||
        g->roots.n >= TN__MAX_STORES || !covers(f, n, d) || !fits_again(f, n, in, d->k) ||
        tn__is_quicker_stored(f, n, in, d->k))
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
    bool fits = p.env == env && span->n > TN__LONG_JOIN && ++in_kernel < JOIN_KERNEL;
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

uint32_t tn__axes_of_lines(const tn__fuse *f, const tn_node *n, int64_t *each) {
  const tn_node *to = n->src[1];
  tn__lines lines;
  int64_t before = 1, size;
  if (f->dev->target.group || !tn__scatter_lines(f->c, n, &lines)) return 0;
  *each = lines.places * lines.inner;
  for (uint32_t i = 0; i < to->rank && tn__const_int(to->dim[i], &size); before *= size, i++)
    if (before == lines.outer && size == lines.updates) return i;
  return 0;
}

/* A scatter is a kernel of two parts: its base copied, then the updates added, in order or at once. */
static void root_scatter(tn__fuse *f, tn_node *n, tn__demand *d) {
  tn_node *idx = n->src[1], *upd = n->src[2], *r[TN_MAX_RANK + 1], *ri[TN_MAX_RANK + 1];
  uint32_t nr = 0, loops = upd->rank;
  const tn__target *t = &f->dev->target;
  int axis = tn__has_own_places(t, n) || tn__is_added_at_once(t, n) ? AX_LOOP : AX_ORDER;
  int64_t each;
  uint32_t apart = tn__axes_of_lines(f, n, &each);
  tn__demand_child(f, n, d, 0, d->idx->src, NULL, d->env);
  for (uint32_t i = 0; i < upd->rank; i++) {
    int of = i < idx->rank && i >= apart ? axis : AX_LOOP;
    r[i] = tn__is_int_const(upd->dim[i], 1) ? tn__int(f->c, 0)
                                            : tn__range(f->c, upd->dim[i], of, ROLE_UPDATE, f->next_range++);
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

/* What the library call that computes a node reads */
static void note_readers(tn__fuse *f, const tn__info *in) {
  for (int o = 0; in->conv && o < 3; o++)
    if (o != (int)in->conv->kind) tn__vec_push(f->a, &tn__info_of(f, in->conv->operand[o].base)->readers, in->kernel);
  if (!in->gemm) return;
  tn__vec_push(f->a, &tn__info_of(f, in->gemm->a.base)->readers, in->kernel);
  tn__vec_push(f->a, &tn__info_of(f, in->gemm->b.base)->readers, in->kernel);
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
  tn__note_chain(f, n, &in->want.v[in->host]);
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
  if (tn__long_join(f, n, &axis, &span)) {
    in->buf = new_buf(f, n, in);
    tn__layout_fix(f, n, false);
    root_join(f, n, in, n, axis, &span);
    return;
  }
  uint32_t turn;
  bool alone = tn__is_called(in) || n->op == OP_SCATTER || in->turned || tn__has_line_tables(f, n);
  bool apart = alone || tn__under_loops(f, n, in) || tn__is_scan(f, n, &turn);
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
  tn__note_reduced(f, &f->seeds.v[in->kernel], n, (uint32_t)((1ull << env->nsrc) - 1));
  f->seeds.v[in->kernel].alone = alone; /* a scatter's two parts have loops of their own */
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
  if (!in->must && !in->want.n && !in->readers.n) return; /* sizes, and what a choice of one wanted branch left out */
  choose_library(f, n, in);
  if (tn__must_store(f, n, in)) {
    materialise(f, n, in);
    return;
  }
  for (uint32_t i = 0; i < in->want.n; i++) {
    if (tn__is_reduction(n)) tn__note_chain(f, n, &in->want.v[i]);
    tn__demand_inline(f, n, in, &in->want.v[i]);
  }
}

/* flops and loads per element, were n computed from what surely is in memory */
/* a choice: either is right */
static void estimate(tn__fuse *f, tn_node *n) {
  tn__info *in = tn__info_of(f, n);
  if (n->op == OP_PARAM || tn__is_reduction(n) || tn__is_stored(f, n)) {
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

/* What stands in memory anyway, with the same elements in the same order, or in any that suits, is the output. */
/* a choice: no is right */
static void find_stored_output(tn__fuse *f, uint32_t i) {
  tn_node *n = f->sink->src[i], *root = n;
  while (root->op == OP_RESHAPE) root = root->src[0];
  const tn_node *turned = root->op == OP_PERMUTE && tn__scatter_lies_free(f, root->src[0]) ? root : NULL;
  if (turned) root = root->src[0];
  if (root == n || !tn__is_stored(f, root) || tn__info_of(f, root)->out >= 0) return;
  if (turned) tn__layout_turn(f, turned);
  put_out(f, n, -1);
  put_out(f, root, (int)i);
}

void tn__fuse_decide(tn__fuse *f) {
  for (uint32_t i = 0; i < f->order.n; i++) estimate(f, f->order.v[i]);
  for (uint32_t i = 0; i < f->sink->nsrc; i++) put_out(f, f->sink->src[i], (int)i);
  for (uint32_t i = 0; i < f->sink->nsrc; i++) find_stored_output(f, i);
  for (uint32_t i = f->order.n; i && i--;) decide(f, f->order.v[i]);
}
