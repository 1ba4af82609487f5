/* Kernels written by hand, as the schedule might have made them.
 *
 * Loops whose length hangs on the counters of others become loops of the greatest length: what lies beyond the length
 * is neither loaded nor stored, and adds nothing to a reduction.  So the passes may exchange, cut and join any loops;
 * those that hang on others are of their own making.
 *
 * What stands in loops of no turns is made of nothing.
 *
 * The loops of reductions are AX_REDUCE: lanes and threads are chosen by that.
 *
 * A loop's counter means something to what ends the loop alone, and two lines that say the same are one node: where
 * reductions and stores end a loop together that cannot have it together, each gets loops of its own. */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

/* ---- lengths ---- */

typedef struct pass {
  tn_ctx *c;
  tn__arena *a;
  tn__ranges r;
  tn__map to;                       /* node -> what takes its place */
  tn_node *within[TN__MAX_RANGES];  /* of a ragged loop: its counter is below its length */
  uint64_t under[TN__MAX_RANGES];   /* it, and the ragged ones that its length hangs on */
} pass;

static tn_node *new_range(pass *p, tn_node *n, tn_node *length) {
  int j = tn__range_at(&p->r, n);
  uint64_t on = tn__free_of(&p->r, n->src[0]);
  if (!on) return tn__node_with(p->c, n, &length);
  int64_t most = n->src[0]->hi < 0 ? 0 : n->src[0]->hi;
  tn_node *even = tn__range_like(p->c, n, tn__int(p->c, most), tn__axis_of(n));
  p->within[j] = tn__op2(p->c, OP_LT, even, length);
  p->under[j] = 1ull << j;
  for (uint32_t k = 0; k < p->r.n; k++)
    if (on >> k & 1) p->under[j] |= p->under[k];
  return even;
}

/* That the counters of the ragged loops among these are within, and `gate`; NULL: always */
static tn_node *gate_of(const pass *p, uint64_t set, tn_node *gate) {
  uint64_t ragged = 0;
  for (uint32_t j = 0; j < p->r.n; j++)
    if (set >> j & 1) ragged |= p->under[j];
  for (uint32_t j = 0; j < p->r.n; j++)
    if (ragged >> j & 1) gate = gate ? tn__op2(p->c, OP_AND, gate, p->within[j]) : p->within[j];
  return gate;
}

/* With its gate, which stands behind so many sources */
static tn_node *new_access(pass *p, tn_node *n, tn_node *const *src, uint32_t before) {
  bool gated = tn__gate_of(n) != NULL;
  tn_node *gate = gate_of(p, tn__free_of(&p->r, n) | tn__own_of(&p->r, n), gated ? src[before] : NULL);
  tn__nodes all = {0};
  for (uint32_t i = 0; i < before; i++) tn__vec_push(p->a, &all, src[i]);
  if (gate) tn__vec_push(p->a, &all, gate);
  for (uint32_t i = before + gated; i < n->nsrc; i++) tn__vec_push(p->a, &all, src[i]);
  tn__make m = {.op = (tn__op)n->op, .src = all.v, .nsrc = all.n, .ints = n->ints, .nint = n->nint};
  return tn__node_make(p->c, &m);
}

static tn_node *new_reduce(pass *p, tn_node *n, tn_node **src) {
  tn_node *gate = gate_of(p, tn__own_of(&p->r, n), NULL);
  int op = (int)n->ints[0];
  if (gate)
    src[0] = tn__where(p->c, gate, src[0], tn__const_bits(p->c, n->dtype, tn__eval_reduce_init(op, n->dtype)));
  return tn__node_with(p->c, n, src);
}

static tn_node *even_lengths(tn_ctx *c, tn__arena *a, tn_node *body) {
  pass p = {.c = c, .a = a};
  bool ragged = false;
  tn__ranges_find(c, a, body, &p.r);
  for (uint32_t j = 0; j < p.r.n; j++) ragged |= tn__free_of(&p.r, p.r.range[j]->src[0]) != 0;
  if (!ragged) return body;
  tn__map_init(&p.to, a);
  for (uint32_t i = 0; i < p.r.order.n; i++) {
    tn_node *n = p.r.order.v[i], **src = tn__arena_alloc(a, (n->nsrc + 1) * sizeof *src), *to;
    for (uint32_t s = 0; s < n->nsrc; s++) src[s] = tn__map_getp(&p.to, n->src[s]);
    if (n->op == OP_RANGE) to = new_range(&p, n, src[0]);
    else if (n->op == OP_LOAD) to = new_access(&p, n, src, 2);
    else if (n->op == OP_STORE || n->op == OP_STOREADD) to = new_access(&p, n, src, 3);
    else if (n->op == OP_REDUCE) to = new_reduce(&p, n, src);
    else to = tn__node_with(c, n, src);
    tn__map_putp(&p.to, n, to);
  }
  return tn__map_getp(&p.to, body);
}

/* ---- loops of no turns ---- */

static bool is_empty(const tn__ranges *r, const tn_node *x) {
  uint64_t own = tn__own_of(r, x);
  for (uint32_t j = 0; j < r->n; j++)
    if ((own >> j & 1) && r->range[j]->src[0]->hi <= 0) return true;
  return false;
}

/* What is done in no turn is made of nothing: it would be taken out of the loop, and what it loads be loaded. */
static tn_node *without_operands(tn_ctx *c, tn__arena *a, tn_node *x) {
  uint32_t first;
  if (x->op == OP_REDUCE) return tn__const_bits(c, x->dtype, tn__eval_reduce_init((int)x->ints[0], x->dtype));
  tn__nodes src = {0};
  tn__vec_push(a, &src, x->src[0]);
  tn__vec_push(a, &src, tn__int(c, 0));
  tn__vec_push(a, &src, tn__const_bits(c, x->src[2]->dtype, 0));
  tn__closes(x, &first);
  for (uint32_t s = first; s < x->nsrc; s++) tn__vec_push(a, &src, x->src[s]);
  tn__make m = {.op = (tn__op)x->op, .src = src.v, .nsrc = src.n, .ints = x->ints, .nint = x->nint};
  return tn__node_make(c, &m);
}

static tn_node *drop_empty(tn_ctx *c, tn__arena *a, tn_node *body) {
  tn__ranges r;
  tn__nodes old = {0}, new_ = {0};
  tn__ranges_find(c, a, body, &r);
  for (uint32_t i = 0; i < r.order.n; i++) {
    if (!is_empty(&r, r.order.v[i])) continue;
    tn__vec_push(a, &old, r.order.v[i]);
    tn__vec_push(a, &new_, without_operands(c, a, r.order.v[i]));
  }
  return old.n ? tn__substitute(c, body, old.v, new_.v, old.n) : body;
}

/* ---- loops of one's own ---- */

static int64_t next_id(const tn__ranges *r) {
  int64_t next = 0;
  for (uint32_t j = 0; j < r->n; j++)
    if (r->range[j]->ints[RANGE_ID] >= next) next = r->range[j]->ints[RANGE_ID] + 1;
  return next;
}

/* The loops that another reduction or store closes, too */
static uint64_t shared_with_others(const tn__ranges *r, const tn_node *x) {
  uint64_t set = 0;
  for (uint32_t i = 0; i < r->order.n; i++)
    if (r->order.v[i] != x) set |= tn__own_of(r, r->order.v[i]) & tn__own_of(r, x);
  return set;
}

/* The first, sources first, that shares one of its loops, with others in its place */
static tn_node *renew_one(tn_ctx *c, const tn__ranges *r, tn_node *body) {
  tn_node *from[TN__MAX_RANGES], *to[TN__MAX_RANGES];
  int64_t id = next_id(r);
  uint32_t n = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    tn_node *x = r->order.v[i];
    uint64_t set = shared_with_others(r, x);
    if (!set) continue;
    for (uint32_t j = 0; j < r->n; j++) {
      if (!(set >> j & 1)) continue;
      from[n] = r->range[j];
      int axis = tn__axis_of(r->range[j]);
      if (axis == AX_REDUCE && x->op != OP_REDUCE) axis = AX_LOOP;
      to[n++] = tn__range(c, r->range[j]->src[0], axis, tn__role_of(r->range[j]), id++);
    }
    tn_node *own = tn__substitute(c, x, from, to, n);
    return tn__substitute(c, body, &x, &own, 1);
  }
  return body;
}

static tn_node *own_loops(tn_ctx *c, tn__arena *a, tn_node *body) {
  tn_node *before;
  do {
    tn__ranges r;
    before = body;
    tn__ranges_find(c, a, body, &r); /* or there are too many */
    body = renew_one(c, &r, body);
  } while (body != before);
  return body;
}

/* ---- all of it ---- */

/* A reduction's loops are AX_REDUCE, also where a store ends them, too. */
static tn_node *name_reductions(tn_ctx *c, tn__arena *a, tn_node *body) {
  tn__ranges r;
  tn__ranges_find(c, a, body, &r);
  uint64_t of_reductions = 0;
  for (uint32_t i = 0; i < r.order.n; i++)
    if (r.order.v[i]->op == OP_REDUCE) of_reductions |= tn__own_of(&r, r.order.v[i]);
  for (uint32_t j = 0; j < r.n; j++)
    if ((of_reductions >> j & 1) && tn__axis_of(r.range[j]) == AX_LOOP)
      body = tn__retype(c, body, r.range[j], AX_REDUCE);
  return body;
}

typedef struct trial {
  tn_ctx *c;
  tn_node *body;
  const tn__target *target;
} trial;

static void try_lowering(void *arg) {
  trial *t = arg;
  tn_ctx *c = t->c;
  tn__lower(c, &c->scratch, t->body, t->target, NULL, 0);
}

/* Do the passes find each loop closed in one place?  What the schedule makes may need them for that. */
static bool lowers(tn_ctx *c, tn_node *body, const tn__target *target) {
  bool pending = c->err.status != TN_OK;
  tn_status status;
  if (tn__mem_try(&c->mem, try_lowering, &(trial){c, body, target}, &status)) return true;
  if (pending || status == TN_ENOMEM) tn__mem_throw(&c->mem, status);
  tn_clear_error(c);
  return false;
}

tn_node *tn__by_hand(tn_ctx *c, tn__arena *a, tn_node *body, const tn__target *target) {
  body = name_reductions(c, a, drop_empty(c, a, even_lengths(c, a, body)));
  return lowers(c, body, target) ? body : own_loops(c, a, body);
}
