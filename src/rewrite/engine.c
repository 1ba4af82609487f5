/* The rewrite loop: bottom-up, to a fixpoint, each node once per call.
 *
 * A frame of the stack is a node on its way to its normal form.  First its sources are brought to theirs; then the node
 * over the new sources is folded, or one row replaces it; the replacement is pushed and its normal form is the node's.
 * A row that fires makes a node that is not yet normal, so its users see only what no row changes any more: that is how
 * parents are tried again. */
#include "ir/build.h"
#include "ir/eval.h"
#include "rewrite/match.h"
#include "rewrite/store.h"

enum { STEPS_PER_NODE = 1000, STEPS_MORE = 10000, TRACE = 8 };

typedef struct frame {
  tn_node *n, *next; /* next: what n became, being brought to normal form */
  bool given;        /* n stood in the graph that was given; the others rows have made */
} frame;

typedef struct engine {
  tn_ctx *c;
  tn__arena *a;
  tn__ruleset *const *sets;
  uint32_t nsets;
  tn__map normal;
  tn__vec(frame) stack;
  uint64_t nodes, steps; /* nodes: given ones */
  const tn__rule *trace[TRACE]; /* the rows that fired last, in a ring */
} engine;

/* Sources that are values.  Dims, bounds and extents say what the node is, and stay: a shape never changes by
 * rewriting, and a buffer or range keeps its identity across calls. */
static uint32_t entered(const tn_node *n) {
  switch (n->op) {
  case OP_STORAGE:
  case OP_PARAM:
  case OP_IOTA:
  case OP_RANGE:
  case OP_LOCAL:
  case OP_BUFFER: return 0;
  default: return tn__ops[n->op].group == G_MOVE ? 1 : n->nsrc;
  }
}

/* The normal form of n; NULL while it is not known. */
static tn_node *normal(const engine *e, tn_node *n) { return entered(n) ? tn__map_getp(&e->normal, n) : n; }

static _Noreturn void cycling(const engine *e) {
  tn__sb s;
  tn__sb_init(&s, e->a);
  for (uint64_t i = e->steps - TRACE; i < e->steps; i++) tn__sb_printf(&s, " %s", e->trace[i % TRACE]->name);
  tn__fail(e->c, TN_EFORMAT, "rewriting does not end: %llu steps on %llu nodes; the last rules that fired:%s",
           (unsigned long long)e->steps, (unsigned long long)e->nodes, tn__sb_str(&s));
}

static void count_step(engine *e, tn__rule *r) {
  r->hits++;
  e->trace[e->steps++ % TRACE] = r;
  if (e->steps > e->nodes * STEPS_PER_NODE + STEPS_MORE) cycling(e);
}

static void check_kept(const engine *e, const tn__rule *r, const tn_node *from, const tn_node *to) {
  if (to->dtype == from->dtype && to->rank == from->rank && tn__dims_equal(e->c, to->dim, from->dim, to->rank)) return;
  tn__fail(e->c, TN_EFORMAT, "internal error: rule %s made %s of %s", r->name, tn__node_type(to, &e->c->scratch),
           tn__node_type(from, &e->c->scratch));
}

/* The constant that a scalar op over constants is; else NULL. */
static tn_node *fold(engine *e, tn_node *n) {
  uint64_t arg[3];
  tn_node *k = NULL;
  if (!tn__is_elementwise(n)) return NULL;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    if (!(k = tn__splat(n->src[i]))) return NULL;
    arg[i] = (uint64_t)k->ints[0];
  }
  int sdtype = n->src[n->op == OP_WHERE ? 1 : 0]->dtype;
  k = tn__const_bits(e->c, n->dtype, tn__eval(n->op, n->dtype, sdtype, arg));
  return n->rank ? tn__scalar_to(e->c, k, n->dim, n->rank) : k;
}

static bool mode_allows(tn_mode mode, tn_mode row) {
  return row == TN_MODE_STRICT || mode == row || mode == TN_MODE_FAST;
}

/* What one step makes of n; NULL if n is in normal form. */
static tn_node *step(engine *e, tn_node *n) {
  tn_node *k = fold(e, n);
  if (k) return k;
  for (uint32_t i = 0; i < e->nsets; i++) {
    const tn__ruleset *s = e->sets[i];
    for (uint32_t j = s->first[n->op]; j < s->first[n->op + 1]; j++) {
      tn__rule *r = &s->rule[s->by_op[j]];
      tn__match m = {.c = e->c, .rule = r, .root = n};
      if (!mode_allows(e->c->mode, r->mode) || !tn__match_root(&m)) continue;
      tn_node *to = tn__instantiate(&m);
      if (!to || to == n) continue;
      check_kept(e, r, n, to);
      count_step(e, r);
      return to;
    }
  }
  return NULL;
}

/* The node over the normal forms of its sources. */
static tn_node *rebuild(engine *e, tn_node *n) {
  uint32_t enter = entered(n), i = 0;
  while (i < enter && normal(e, n->src[i]) == n->src[i]) i++;
  if (i == enter) return n;
  tn_node *few[8], **src = n->nsrc <= 8 ? few : tn__arena_alloc(e->a, n->nsrc * sizeof *src);
  for (i = 0; i < n->nsrc; i++) src[i] = i < enter ? normal(e, n->src[i]) : n->src[i];
  bool index = n->dtype == TN__INDEX && tn__ops[n->op].group >= G_UNARY && tn__ops[n->op].group <= G_TERNARY;
  return index ? tn__build_op(e->c, n->op, src, n->dtype) : tn__node_with(e->c, n, src);
}

static bool sources_normal(const engine *e, const tn_node *n) {
  for (uint32_t i = 0; i < entered(n); i++)
    if (normal(e, n->src[i]) != n->src[i]) return false;
  return true;
}

static void push(engine *e, tn_node *n, bool given) {
  if (normal(e, n)) return;
  tn__vec_push(e->a, &e->stack, ((frame){n, NULL, given}));
}

static bool push_sources(engine *e, tn_node *n, bool given) {
  uint32_t before = e->stack.n;
  for (uint32_t i = 0; i < entered(n); i++) push(e, n->src[i], given);
  return e->stack.n != before;
}

static void become(engine *e, frame *f, tn_node *next) {
  f->next = next;
  push(e, next, false);
}

static void advance(engine *e) {
  uint32_t at = e->stack.n - 1;
  tn_node *n = e->stack.v[at].n, *next = e->stack.v[at].next;
  if (next) {
    tn__map_putp(&e->normal, n, normal(e, next));
    e->stack.n--;
    return;
  }
  if (normal(e, n)) {
    e->stack.n--;
    return;
  }
  bool given = e->stack.v[at].given;
  if (push_sources(e, n, given)) return;
  e->nodes += given;
  tn_node *m = rebuild(e, n), *to;
  if (normal(e, m)) {
    tn__map_putp(&e->normal, n, normal(e, m));
    e->stack.n--;
  } else if (m != n && !sources_normal(e, m)) become(e, &e->stack.v[at], m); /* a constructor rearranged it */
  else if ((to = step(e, m))) become(e, &e->stack.v[at], to);
  else {
    tn__map_putp(&e->normal, m, m);
    tn__map_putp(&e->normal, n, m);
    e->stack.n--;
  }
}

/* Of several roots, what they have in common once */
static void rewrite(tn_ctx *c, tn_node **root, uint32_t n, tn__ruleset *const *sets, uint32_t nsets) {
  engine e = {.c = c, .a = tn__rules_work(c), .sets = sets, .nsets = nsets};
  tn__map_init(&e.normal, e.a);
  for (uint32_t i = 0; i < n; i++) {
    push(&e, root[i], true);
    while (e.stack.n) advance(&e);
    root[i] = normal(&e, root[i]);
  }
}

tn_node *tn__rewrite(tn_ctx *c, tn_node *root, tn__ruleset *const *sets, uint32_t nsets) {
  rewrite(c, &root, 1, sets, nsets);
  return root;
}

tn_node *tn__simplify_index(tn_ctx *c, tn_node *n) {
  if (n->nsrc == 0 || n->op == OP_RANGE) return n;
  tn__ruleset *sets[] = {tn__rules_get(c, "index"), tn__rules_get(c, "simplify")};
  return tn__rewrite(c, n, sets, 2);
}

void tn__simplify_indices(tn_ctx *c, tn_node **x, uint32_t n) {
  tn__ruleset *sets[] = {tn__rules_get(c, "index"), tn__rules_get(c, "simplify")};
  rewrite(c, x, n, sets, 2);
}

tn_node *tn__fold_constants(tn_ctx *c, tn_node *n) { return tn__rewrite(c, n, NULL, 0); }

tn_node *tn__simplify_graph(tn_ctx *c, tn_node *root) {
  tn__ruleset *sets[] = {tn__rules_get(c, "index"), tn__rules_get(c, "simplify"), tn__rules_get(c, "float")};
  return tn__rewrite(c, root, sets, 3);
}

/* ---- substitution ---- */

tn_node *tn__substitute(tn_ctx *c, tn_node *root, tn_node *const *old, tn_node *const *new_, uint32_t n) {
  tn__arena *a = tn__rules_work(c);
  tn__map done;
  tn__vec(tn_node *) stack = {0};
  tn__map_init(&done, a);
  for (uint32_t i = 0; i < n; i++) tn__map_putp(&done, old[i], new_[i]);
  tn__vec_push(a, &stack, root);
  while (stack.n) {
    tn_node *x = stack.v[stack.n - 1];
    if (tn__map_getp(&done, x)) {
      stack.n--;
      continue;
    }
    uint32_t before = stack.n;
    bool changed = false;
    for (uint32_t i = 0; i < x->nsrc; i++) {
      tn_node *y = tn__map_getp(&done, x->src[i]);
      if (!y) tn__vec_push(a, &stack, x->src[i]);
      changed |= y != x->src[i];
    }
    if (stack.n != before) continue;
    tn_node *y = x;
    if (changed) {
      tn_node **src = tn__arena_alloc(a, x->nsrc * sizeof *src);
      for (uint32_t i = 0; i < x->nsrc; i++) src[i] = tn__map_getp(&done, x->src[i]);
      bool scalar = tn__ops[x->op].group >= G_UNARY && tn__ops[x->op].group <= G_TERNARY && x->dtype == TN__INDEX;
      y = scalar ? tn__build_op(c, x->op, src, x->dtype) : tn__node_with(c, x, src);
    }
    tn__map_putp(&done, x, y);
    stack.n--;
  }
  return tn__map_getp(&done, root);
}
