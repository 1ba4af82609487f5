/* What was spread over an axis and is then reduced over others: it is reduced once and spread then, since all that is
 * the same along an axis stays so through functions of elements and reductions over other axes.  So are statistics of
 * one image that stands for a batch, softmax of the same row again and again.
 *
 * Each sum has the terms that it had, in the order that they had.  What functions give on the way is spread behind
 * them, too, where that was made for a reduction, or takes long: it may then be stored before it is spread (stored.c).
 */
#include "ir/build.h"
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

enum {
  MOST_DEEP = 200, /* functions, one of the other, that are looked through */
  DEAR = 12        /* multiply-adds of those that are worked out before what they give is spread */
};

typedef struct pass {
  tn_ctx *c;
  tn__map same;          /* node -> set of axes of other sizes than 1 along which its elements are the same */
  tn__map narrow;        /* node and such axes -> the node with one place of each; of size 1 */
  tn__map work;          /* node -> multiply-adds of the functions that it is of what is the same along such axes */
  tn__nodes wide, small; /* functions that a reduction is made of, and what each was so narrowed to */
  bool reduces;          /* such are being narrowed */
} pass;

static uint32_t same_of(const pass *p, const tn_node *n) {
  uint64_t v = 0;
  tn__map_get(&p->same, (uint64_t)(uintptr_t)n, &v);
  return (uint32_t)v;
}

/* For each axis of reshape n that one of its source's alone has become, that one; -1.  Sizes of 1 may come and go. */
static void axes_of_reshape(const tn_node *n, int *from) {
  const tn_node *x = n->src[0];
  uint32_t j = 0;
  bool same = true;
  for (uint32_t i = 0; i < n->rank; i++) {
    from[i] = -1;
    if (tn__is_int_const(n->dim[i], 1)) continue;
    while (j < x->rank && tn__is_int_const(x->dim[j], 1)) j++;
    same &= j < x->rank && x->dim[j] == n->dim[i];
    if (same) from[i] = (int)j++;
  }
}

/* Which axis of its source each of n's is, -1: none; false: n is not of that kind. */
/* a choice: no is right */
static bool axes_of(const tn_node *n, int *from) {
  uint32_t reduced = 0;
  if (n->op == OP_RESHAPE) return axes_of_reshape(n, from), true;
  bool plain = tn__is_elementwise(n) || n->op == OP_DETACH || n->op == OP_EXPAND,
       reduces = tn__ops[n->op].group == G_REDUCE;
  for (uint32_t i = 0; reduces && i < n->nint; i++) reduced |= 1u << n->ints[i];
  for (uint32_t i = 0, k = 0; i < n->rank; i++, k++) {
    while (reduced >> k & 1) k++;
    from[i] = n->op == OP_PERMUTE ? (int)n->ints[i] : (int)k;
  }
  return plain || reduces || n->op == OP_PERMUTE;
}

/* Sources that are tensors; others of a movement are its sizes. */
static uint32_t tensors_of(const tn_node *n) { return tn__is_elementwise(n) ? n->nsrc : n->nsrc > 0; }

/* The axes of source s that these of n are */
static uint32_t through(const tn_node *n, const int *from, uint32_t s, uint32_t axes) {
  uint32_t set = 0;
  for (uint32_t i = 0; i < n->rank; i++)
    if ((axes >> i & 1) && from[i] >= 0 && !tn__is_int_const(n->src[s]->dim[from[i]], 1)) set |= 1u << from[i];
  return set;
}

/* a choice: none is right */
static uint32_t find_same(const pass *p, const tn_node *n) {
  int from[TN_MAX_RANK];
  uint32_t set = 0;
  if (n->dtype == TN__INDEX || !tensors_of(n) || !axes_of(n, from)) return 0;
  for (uint32_t i = 0; i < n->rank; i++) {
    bool same = !tn__is_int_const(n->dim[i], 1) && from[i] >= 0;
    for (uint32_t s = 0; s < tensors_of(n) && same; s++)
      same = (n->op == OP_EXPAND && n->src[s]->dim[from[i]] != n->dim[i]) || (same_of(p, n->src[s]) >> from[i] & 1);
    set |= (uint32_t)same << i;
  }
  return set;
}

static uint64_t key_of(const tn_node *n, uint32_t axes) { return (uint64_t)(uintptr_t)n << TN_MAX_RANK | axes; }

/* n with one place of each of these axes, along which it is the same; NULL: it is made in too many steps */
/* a choice: NULL is right */
static tn_node *narrowed(pass *p, tn_node *n, uint32_t axes, int deep) {
  tn_ctx *c = p->c;
  int from[TN_MAX_RANK];
  uint64_t v = 0;
  tn_node *dim[TN_MAX_RANK], **src = tn__arena_dup(&c->scratch, n->src, n->nsrc * sizeof *src), *made;
  if (!axes) return n;
  if (tn__map_get(&p->narrow, key_of(n, axes), &v)) return (tn_node *)(uintptr_t)v;
  if (deep > MOST_DEEP) return NULL;
  axes_of(n, from);
  for (uint32_t s = 0; s < tensors_of(n); s++) {
    src[s] = narrowed(p, n->src[s], through(n, from, s, axes) & same_of(p, n->src[s]), deep + 1);
    if (!src[s]) return NULL;
  }
  for (uint32_t i = 0; i < n->rank; i++) dim[i] = axes >> i & 1 ? tn__int(c, 1) : n->dim[i];
  if (n->op == OP_EXPAND) made = tn__expand(c, src[0], dim);
  else if (n->op == OP_RESHAPE) made = tn__reshape(c, src[0], dim, n->rank);
  else made = tn__node_with(c, n, src);
  tn__map_put(&p->narrow, key_of(n, axes), (uint64_t)(uintptr_t)made);
  if (p->reduces && tn__is_elementwise(n) && axes == same_of(p, n)) {
    tn__vec_push(&c->scratch, &p->wide, n);
    tn__vec_push(&c->scratch, &p->small, made);
  }
  return made;
}

/* What it takes to make an element of n, of functions one of the other that are all the same along some axes */
/* a choice: either is right */
static uint32_t work_of(const pass *p, const tn_node *n) {
  uint64_t all = tn__is_elementwise(n) ? tn__ops[n->op].cost : 0;
  for (uint32_t s = 0; s < tensors_of(n); s++) {
    uint64_t v = 0;
    tn__map_get(&p->work, (uint64_t)(uintptr_t)n->src[s], &v);
    all += v;
  }
  return tn__ops[n->op].group == G_REDUCE ? 0 : all < DEAR ? (uint32_t)all : DEAR;
}

static void note(pass *p, const tn_node *n, uint32_t same, uint32_t work) {
  if (same) tn__map_put(&p->same, (uint64_t)(uintptr_t)n, same);
  if (same) tn__map_put(&p->work, (uint64_t)(uintptr_t)n, work);
}

tn_node *tn__spread_late(tn__fuse *f) {
  tn_ctx *c = f->c;
  pass p = {.c = c};
  tn_node **now = tn__arena_alloc(f->a, (f->order.n + 1) * sizeof *now);
  tn__map_init(&p.same, f->a);
  tn__map_init(&p.narrow, f->a);
  tn__map_init(&p.work, f->a);
  for (uint32_t i = 0; i < f->order.n; i++) {
    tn_node *n = f->order.v[i], **src = tn__arena_alloc(f->a, (n->nsrc + 1) * sizeof *src);
    tn_node *made = tn__made_again(f, n, now, src), *small = NULL;
    uint32_t same = find_same(&p, made), work = same ? work_of(&p, made) : 0;
    note(&p, made, same, work);
    p.reduces = tn__ops[made->op].group == G_REDUCE;
    bool dear = tn__is_elementwise(made) && work >= DEAR;
    if (same && (p.reduces || dear)) small = narrowed(&p, made, same, 0);
    now[i] = small ? tn__expand(c, small, made->dim) : made;
    note(&p, now[i], same, work);
  }
  for (uint32_t i = 0; i < p.wide.n; i++) p.small.v[i] = tn__expand(c, p.small.v[i], p.wide.v[i]->dim);
  tn_node *sink = now[f->order.n - 1];
  return p.wide.n ? tn__substitute(c, sink, p.wide.v, p.small.v, p.wide.n) : sink;
}
