/* Outputs of programs that only move what stands somewhere in any case, or less than they are: turned, cut out by
 * steps, flipped, the same all along an axis; or are what another output is.  They are not stored: whoever wants one is
 * given the movement, as a lazy tensor over what is (run/program.c).
 *
 * Needs a pruned graph; gives one whose outputs are what has to be stored.  What was asked for by CONTIG is, and what
 * has symbolic sizes: whoever computes with a result computes at its sizes, which should not be compiled for each. */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include <string.h>

enum { MOST_LOOKED = 256 }; /* nodes that are asked which axes an output hangs on */

typedef struct finding {
  tn__fuse f; /* its context and arena */
  tn__view *view;
  tn__arena *a;   /* of what is found */
  tn_node **root; /* by output: what it is seen in; what it is itself, where that is how it is stored */
  double *held;   /* by output: elements of that which it shows, if it is seen in an input or another output */
  tn__map stored; /* by value: the first output that is stored as it is */
} finding;

/* ---- movements ---- */

/* The node whose element at *idx is n's there, and where in it that is; NULL: n is computed, or to be stored. */
static tn_node *step_down(finding *v, tn_node *n, tn_node **idx) {
  return n->op == OP_CONTIG || n->op == OP_ASSIGN ? NULL : tn__look_through(&v->f, n, idx);
}

static bool has_sizes(const tn_node *n) {
  bool all = true;
  for (uint32_t i = 0; i < n->rank; i++) all &= tn__is_const(n->dim[i]);
  return all;
}

/* Do equal steps along the axes of n go by equal steps in x, and by which?  Then how many elements of x it shows; else
 * 0. */
static double shown(finding *v, const tn_node *n, tn_node *const *loop, const tn_node *x, tn_node *const *idx,
                    tn__view *out) {
  tn_ctx *c = v->f.c;
  tn_node *coef[TN_MAX_RANK + 1], *offset, *flat = tn__index_flat(c, x->dim, idx, x->rank);
  double elements = 1;
  if (!has_sizes(n) || !has_sizes(x) || !tn__index_affine(c, flat, loop, n->rank, coef, &offset)) return 0;
  if (!out->step) out->step = tn__arena_alloc(v->a, (n->rank + 1) * sizeof *out->step);
  if (!tn__const_int(offset, &out->from)) return 0;
  for (uint32_t i = 0; i < n->rank; i++) {
    if (!tn__const_int(coef[i], &out->step[i])) return 0;
    if (out->step[i]) elements *= (double)n->dim[i]->ints[0];
  }
  return elements;
}

/* Whoever keeps an output holds all of what it is seen in: are so many elements not much less? */
static bool is_enough(double elements, const tn_node *x) { return elements * TN__LEAST_PART >= tn__numel_guess(x); }

static tn_node *leaf_for(tn_ctx *c, const tn_node *x) {
  return tn__param(c, x->dtype, 0, x->device, x->dim, x->rank);
}

/* The movements among the first `n` nodes of a way down to x, over what stands for x. */
static tn_node *replay(tn_ctx *c, tn_node *const *way, uint32_t n, const tn_node *x) {
  tn_node *over = leaf_for(c, x);
  while (n && n--) {
    if (tn__ops[way[n]->op].group != G_MOVE) continue; /* DETACH; a choice by place, which is decided */
    tn_node **src = tn__arena_dup(&c->scratch, way[n]->src, way[n]->nsrc * sizeof *src);
    src[0] = over;
    over = tn__node_with(c, way[n], src);
  }
  return over;
}

/* Is output i, n, a movement of an input, or of what another output is stored as (the lowest such, much of it)? */
static void look_down(finding *v, uint32_t i, tn_node *n, bool inputs) {
  tn_ctx *c = v->f.c;
  tn_node *loop[TN_MAX_RANK + 1], *idx[TN_MAX_RANK + 1], *found = NULL;
  tn__nodes way = {0};
  uint32_t steps = 0; /* of the way, as far as what was found */
  for (uint32_t a = 0; a < n->rank; a++) loop[a] = idx[a] = tn__axis_loop(c, n, a);
  for (tn_node *x = n, *next; (next = step_down(v, x, idx)) != NULL; x = next) {
    tn__vec_push(&c->scratch, &way, x);
    bool stands = inputs ? next->op == OP_PARAM : tn__map_get(&v->stored, (uintptr_t)next, NULL);
    tn__view by = {.lead = i};
    double elements = stands ? shown(v, n, loop, next, idx, &by) : 0;
    if (elements <= 0 || (!inputs && !is_enough(elements, next))) continue;
    found = next;
    steps = way.n;
    v->held[i] = elements;
    v->view[i] = by;
  }
  if (!found) return;
  v->root[i] = found;
  v->view[i].moved = replay(c, way.v, steps, found);
}

/* ---- the same all along an axis ---- */

/* A node, and where in it elements are read: a LIST */
typedef struct place {
  tn_node *node, *at;
} place;

static uint32_t loops_in(finding *v, tn_node *index) {
  tn__nodes all = {0};
  uint32_t axes = 0;
  tn__topo(v->f.a, &index, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_RANGE) axes |= 1u << all.v[i]->ints[RANGE_ID];
  return axes;
}

/* The axes of n that some of its elements differ along, as far as can be told by how it is made of others. */
static uint32_t axes_of(finding *v, tn_node *n) {
  tn_ctx *c = v->f.c;
  tn__vec(place) todo = {0};
  tn__map seen; /* by node: where it was last read */
  tn_node *idx[TN_MAX_RANK + 1], *gate;
  uint32_t axes = 0, looked = 0;
  tn__map_init(&seen, v->f.a);
  for (uint32_t a = 0; a < n->rank; a++) idx[a] = tn__axis_loop(c, n, a);
  tn__vec_push(v->f.a, &todo, ((place){n, tn__list(c, idx, n->rank)}));
  while (todo.n) {
    place p = todo.v[--todo.n];
    tn_node *x = p.node;
    if (tn__map_getp(&seen, x) == p.at) continue;
    if (looked++ == MOST_LOOKED) return UINT32_MAX;
    tn__map_putp(&seen, x, p.at);
    bool each = tn__is_elementwise(x), moves = tn__ops[x->op].group == G_MOVE && x->op != OP_FOLD;
    if (!x->rank) continue;
    if (each || x->op == OP_DETACH || x->op == OP_CONTIG) {
      for (uint32_t s = 0; s < x->nsrc; s++) tn__vec_push(v->f.a, &todo, ((place){x->src[s], p.at}));
    } else if (moves) {
      gate = NULL;
      tn__index_through(c, x, p.at->src, idx, &gate);
      if (gate) axes |= loops_in(v, gate);
      tn__vec_push(v->f.a, &todo, ((place){x->src[0], tn__list(c, idx, x->src[0]->rank)}));
    } else {
      axes |= loops_in(v, p.at);
    }
  }
  return axes;
}

/* Then one place of each such axis is stored. */
static void look_along(finding *v, uint32_t i, tn_node *n) {
  tn_ctx *c = v->f.c;
  tn_node *zero = tn__int(c, 0), *one = tn__int(c, 1), *begin[TN_MAX_RANK + 1], *size[TN_MAX_RANK + 1];
  tn_node *loop[TN_MAX_RANK + 1], *idx[TN_MAX_RANK + 1];
  uint32_t axes = has_sizes(n) ? axes_of(v, n) : UINT32_MAX;
  for (uint32_t a = 0; a < n->rank; a++) {
    bool differs = axes >> a & 1;
    begin[a] = zero;
    size[a] = differs ? n->dim[a] : one;
    loop[a] = tn__axis_loop(c, n, a);
    idx[a] = differs ? loop[a] : zero;
  }
  tn_node *first = tn__shrink(c, n, begin, size, NULL);
  if (first == n || shown(v, n, loop, first, idx, &v->view[i]) <= 0) return;
  v->root[i] = first;
  v->view[i].moved = tn__expand(c, leaf_for(c, first), n->dim);
}

/* ---- all outputs ---- */

static tn_node *value_of(tn_node *n) {
  while (n->op == OP_CONTIG) n = n->src[0];
  return n;
}

/* Not what is one run of an input's memory, which stands there (shared.c), nor what is hardly there at all. */
static bool may_be_seen(finding *v, tn_node *n) {
  tn__part_of part;
  return n->op != OP_ASSIGN && n->op != OP_CONTIG && !tn__without_elements(n) &&
         !tn__is_int_const(tn__numel(v->f.c, n), 1) && !tn__is_part(&v->f, n, &part);
}

/* Outputs that are seen in one input hold it together: where they show too little of it, they are not. */
static void drop_small(finding *v, uint32_t n) {
  tn__map first; /* by input */
  double *all = tn__arena_zalloc(v->f.a, (n + 1) * sizeof *all);
  tn__map_init(&first, v->f.a);
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < n; i++) {
      uint64_t at = i;
      if (!v->view[i].moved) continue;
      if (!tn__map_get(&first, (uintptr_t)v->root[i], &at)) tn__map_put(&first, (uintptr_t)v->root[i], i);
      if (pass == 0) all[at] += v->held[i];
      else if (!is_enough(all[at], v->root[i])) v->view[i].moved = NULL;
    }
}

static bool is_stored(const finding *v, uint32_t i) { return !v->view[i].moved; }

tn_node *tn__schedule_views(tn_ctx *c, tn__arena *a, tn_node *sink, uint32_t views, tn__view **view, uint32_t **slot) {
  uint32_t n = sink->nsrc, left = 0;
  finding v = {.f = {.c = c, .a = &c->scratch}, .a = a, .view = tn__arena_zalloc(a, (n + 1) * sizeof *v.view)};
  v.root = tn__alloc(c, (n + 1) * sizeof *v.root);
  v.held = tn__alloc(c, (n + 1) * sizeof *v.held);
  uint32_t *of = tn__alloc(c, (n + 1) * sizeof *of);
  bool *open = tn__alloc(c, n + 1); /* it may yet be seen in another output */
  tn__map_init(&v.stored, &c->scratch);
  for (uint32_t i = 0; i < n; i++) {
    tn_node *x = v.root[i] = sink->src[i];
    v.view[i].lead = i;
    open[i] = i < views && may_be_seen(&v, x);
    if (open[i]) look_down(&v, i, x, true);
  }
  drop_small(&v, views);
  for (uint32_t i = 0; i < views; i++) {
    tn_node *x = sink->src[i];
    open[i] &= is_stored(&v, i);
    if (is_stored(&v, i)) v.root[i] = x;
    if (open[i]) look_along(&v, i, x);
    if (is_stored(&v, i)) tn__map_put(&v.stored, (uintptr_t)value_of(x), i);
  }
  for (uint32_t i = 0; i < views; i++)
    if (open[i]) look_down(&v, i, sink->src[i], false);
  tn__map_init(&v.stored, &c->scratch); /* of all that is left, in one place what is one value */
  for (uint32_t i = 0; i < n; i++) {
    uint64_t lead = i, key = (uintptr_t)value_of(v.root[i]);
    if (i < views && !tn__map_get(&v.stored, key, &lead)) tn__map_put(&v.stored, key, i);
    v.view[i].lead = (uint32_t)lead;
    if (lead != i) continue;
    of[left] = i;
    v.root[left++] = v.root[i];
  }
  *view = v.view;
  *slot = of;
  return left == n && !memcmp(v.root, sink->src, n * sizeof *v.root) ? sink : tn__sink(c, v.root, left, sink->name);
}
