/* Scatters to few places of many, of whose result something is computed.  If sums stood in memory for that, all of the
 * base would be copied, have few sums added, and be read again.  What is computed is computed of the base instead, at
 * all places, and of those that updates go to once more, of what they become: as few as there are updates.
 *
 * What is computed counts as -0 where an update goes, which is what adding to leaves any number as it is, so that the
 * places' own values are added there, each by the update that takes the sum.  Nobody asks where that is: the kernel
 * computes and stores all, and what is added to -0 takes the place of what it stored there (tn__is_covered).  So the
 * base need not wait for what tells which updates go to the same place.
 *
 * Needs scatters that go to places of their own (op DISTINCT; scatter.c). */
#include "device/device.h"
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include "schedule/ordered.h"
#include "tensor/operands.h"
#include "tensor/scan.h"

enum {
  FEW = 8,           /* times as many places as updates, or more */
  LEAST_LAUNCHES = 1 /* in whose time what is spared is moved, at least */
};

typedef struct region {
  tn_node *scatter, *root; /* what is computed of the scatter, and wanted outside, is the root alone */
  tn__map inside;          /* the nodes between, both among them */
} region;

static bool has_shape_of(const tn_node *x, const tn_node *n) {
  if (x->rank != n->rank) return false;
  for (uint32_t i = 0; i < x->rank; i++)
    if (x->dim[i] != n->dim[i]) return false;
  return true;
}

/* Does it stand in memory, moved or converted, or is it one number? */
/* a choice: no is right */
static bool is_at_hand(const tn_node *x) {
  while (x->op == OP_CAST || (tn__ops[x->op].group == G_MOVE && x->op != OP_PAD && x->op != OP_FOLD)) x = x->src[0];
  return x->op == OP_PARAM || x->op == OP_STORAGE || x->op == OP_CONST;
}

/* a choice: no is right */
static bool is_inside(region *r, const tn_node *x) {
  bool any = false;
  if (!tn__is_elementwise(x) || !has_shape_of(x, r->scatter)) return false;
  for (uint32_t s = 0; s < x->nsrc; s++) any |= tn__map_getp(&r->inside, x->src[s]) != NULL;
  for (uint32_t s = 0; any && s < x->nsrc; s++)
    if (!tn__map_getp(&r->inside, x->src[s]) && !(is_at_hand(x->src[s]) && has_shape_of(x->src[s], x))) return false;
  return any;
}

/* All that is made of the scatter element by element, if but one output comes out of it */
/* a choice: no is right */
static bool find_region(tn_ctx *c, const tn__nodes *all, tn_node *scatter, region *r) {
  *r = (region){.scatter = scatter};
  tn__map_init(&r->inside, &c->scratch);
  tn__map_putp(&r->inside, scatter, scatter);
  for (uint32_t i = 0; i < all->n; i++)
    if (is_inside(r, all->v[i])) tn__map_putp(&r->inside, all->v[i], all->v[i]);
  for (uint32_t i = 0; i < all->n; i++) {
    tn_node *x = all->v[i];
    if (tn__map_getp(&r->inside, x)) continue;
    for (uint32_t s = 0; s < x->nsrc; s++) {
      tn_node *y = x->src[s];
      if (!tn__map_getp(&r->inside, y)) continue;
      if (x->op != OP_SINK || (r->root && r->root != y)) return false;
      r->root = y;
    }
  }
  return r->root && r->root != scatter && tn__is_float(r->root->dtype);
}

/* Are there so few updates beside places that these are sooner moved twice less? */
/* a choice: no is right */
static bool is_worth(const tn__target *t, const tn_node *n) {
  const tn_node *to = n->src[1];
  double bytes = (double)tn__size_of(n->dtype) * tn__numel_guess(n);
  double moves = 2 * tn__move_work(t) * bytes / sizeof(float);
  int64_t places, updates;
  if (to->rank != 1 || !tn__is_float(n->dtype)) return false;
  if (!tn__const_int(n->dim[0], &places) || !tn__const_int(to->dim[0], &updates)) return false;
  return updates <= places / FEW && moves > LEAST_LAUNCHES * tn__target_launch_guess(t);
}

/* Whether an update goes to each place of the scatter n: bool, of n's shape */
static tn_node *are_touched(tn_ctx *c, const tn_node *n) {
  tn_node *to = n->src[1], *none = tn__const_bits(c, TN_U8, 0), *one = tn__const_bits(c, TN_U8, 1);
  tn_node *count = tn__scatter(c, tn__scalar_to(c, none, n->dim, 1), to, tn__scalar_to(c, one, to->dim, 1));
  return tn__over(c, tn__op2(c, OP_NE, count, tn__literal_like(c, count, 0)), n->dim, n->rank);
}

/* x, which lies as the scatter does, where updates go to, [updates, ...]: in the region of what is there after that */
static tn_node *where_touched(tn_ctx *c, const region *r, const tn__nodes *all) {
  tn_node *n = r->scatter, *to = n->src[1], *upd = n->src[2], *base = tn__gather(c, n->src[0], to);
  tn_node *sum = tn__cast(c, tn__add(c, tn__cast(c, base, upd->dtype), upd), n->dtype);
  tn__map made;
  tn__map_init(&made, &c->scratch);
  tn__map_putp(&made, n, sum);
  for (uint32_t i = 0; i < all->n; i++) {
    tn_node *x = all->v[i], *src[3];
    if (x == n || !tn__map_getp(&r->inside, x)) continue;
    for (uint32_t s = 0; s < x->nsrc; s++) {
      tn_node *own = tn__map_getp(&made, x->src[s]);
      src[s] = own ? own : tn__gather(c, x->src[s], to);
    }
    tn__map_putp(&made, x, tn__node_with(c, x, src));
  }
  return tn__map_getp(&made, r->root);
}

/* a choice: either is right */
bool tn__is_computed_of_few(tn_ctx *c, const tn__target *t, const tn__nodes *all, tn_node *n) {
  region r;
  return c->mode != TN_MODE_STRICT && n->rank == 1 && is_worth(t, n) && find_region(c, all, n, &r);
}

/* a choice: no is right */
static bool found(tn_ctx *c, const tn__target *t, const tn__nodes *all, region *r) {
  for (uint32_t i = 0; i < all->n; i++)
    if (tn__has_own_places(t, all->v[i]) && is_worth(t, all->v[i]) && find_region(c, all, all->v[i], r)) return true;
  return false;
}

tn_node *tn__schedule_touched(tn_ctx *c, tn_node *sink, const tn__target *t) {
  tn_node *given = sink;
  if (!t->group || c->mode == TN_MODE_STRICT) return sink;
  for (;;) {
    tn__nodes all = {0};
    region r;
    tn__topo(&c->scratch, &sink, 1, &all);
    if (!found(c, t, &all, &r)) break;
    tn_node *n = r.scatter, *rest = tn__substitute(c, r.root, &n, n->src, 1);
    tn_node *nothing = tn__scalar_to(c, tn__const_num(c, rest->dtype, -0.0), rest->dim, rest->rank);
    rest = tn__where(c, are_touched(c, n), nothing, rest);
    rest = tn__scatter(c, rest, n->src[1], where_touched(c, &r, &all));
    sink = tn__substitute(c, sink, &r.root, &rest, 1);
  }
  return sink == given ? sink : tn__schedule_prune(c, tn__simplify_graph(c, sink));
}
