/* The reverse pass.
 *
 * Nodes are numbered in topological order.  One sweep forward finds the nodes that carry a gradient: floats on a path
 * from an x. One sweep backward over them hands each node's gradient to those of its sources that carry one, adding
 * where several uses meet (slices of one tensor all at once: slices.c); so nothing is built off the paths from y to x,
 * and the result depends on nothing but the graph. */
#include "grad/grad_pass.h"
#include "device/device.h"
#include "grad/adjoint.h"
#include "ir/build.h"
#include "rewrite/rewrite.h"
#include "tensor/scan.h"
#include <string.h>

enum { ASKED = 1, CARRIES = 2, REACHED = 4, CUT = 8 };

typedef struct pass {
  tn_ctx *c;
  tn__nodes order;
  tn__map index;  /* node -> its place in order */
  /* DEPENDS: on an x, in any way; CARRIES: a gradient may flow through; ASKED: it is an x; CUT: realised, and made
   * from an x */
  uint8_t *flags;
  tn_node **grad; /* NULL: none has arrived */
  /* what arrived of slices of a node, to be added up when all is there; NULL: nothing did */
  tn__vec(tn__slice) *slices;
} pass;

static uint64_t place(const pass *p, const tn_node *n) {
  uint64_t i = UINT64_MAX;
  tn__map_get(&p->index, (uint64_t)(uintptr_t)n, &i);
  return i;
}

static void add_gradient(pass *p, uint64_t i, tn_node *g) {
  p->grad[i] = p->grad[i] ? tn__add(p->c, p->grad[i], g) : g;
}

static void number(pass *p, tn_node *const *y, uint32_t ny) {
  tn__topo(&p->c->scratch, y, ny, &p->order);
  tn__map_init(&p->index, &p->c->scratch);
  for (uint32_t i = 0; i < p->order.n; i++) tn__map_put(&p->index, (uint64_t)(uintptr_t)p->order.v[i], i);
  p->flags = tn__arena_zalloc(&p->c->scratch, p->order.n);
  p->grad = tn__arena_zalloc(&p->c->scratch, p->order.n * sizeof(tn_node *));
  p->slices = tn__arena_zalloc(&p->c->scratch, p->order.n * sizeof *p->slices);
}

/* An assignment that is itself asked for is a leaf: how it was made lies behind it. */
static bool is_leaf(const pass *p, uint32_t i) { return p->order.v[i]->op == OP_ASSIGN && (p->flags[i] & ASKED); }

/* The first of the x that a realised value was made from; nx: none. */
static uint32_t cut_from(tn_ctx *c, const tn_node *storage, tn_node *const *x, uint32_t nx) {
  uint32_t i = 0;
  while (i < nx && !(x[i]->op == OP_STORAGE && tn__storage_is_from(c, storage, x[i]))) i++;
  return i;
}

/* A gradient has arrived where it would have to go on. */
static void check_cuts(const pass *p, tn_node *const *x, uint32_t nx) {
  for (uint32_t i = 0; i < p->order.n; i++) {
    if (!(p->flags[i] & CUT) || !p->grad[i]) continue;
    uint32_t at = cut_from(p->c, p->order.v[i], x, nx);
    tn__fail(p->c, TN_EGRAD,
             "wrt[%u], %s, influences the result through %s, which was realised before (or read, or printed) and no "
             "longer knows how it was made: take gradients first, or tn_detach it",
             at, tn__node_type(x[at], &p->c->scratch), tn__node_type(p->order.v[i], &p->c->scratch));
  }
}

static void mark_paths(pass *p, tn_node *const *x, uint32_t nx) {
  for (uint32_t i = 0; i < nx; i++) {
    uint64_t at = place(p, x[i]);
    if (!tn__is_float(x[i]->dtype))
      tn__fail(p->c, TN_EGRAD, "wrt[%u] is %s: only float tensors have gradients", i,
               tn__node_type(x[i], &p->c->scratch));
    if (at != UINT64_MAX) p->flags[at] = ASKED | CARRIES;
  }
  for (uint32_t i = 0; i < p->order.n; i++)
    if (p->order.v[i]->op == OP_STORAGE && !p->flags[i] && cut_from(p->c, p->order.v[i], x, nx) < nx)
      p->flags[i] = CUT | CARRIES;
  for (uint32_t i = 0; i < p->order.n; i++) {
    const tn_node *n = p->order.v[i];
    uint8_t below = 0;
    if (is_leaf(p, i)) continue;
    for (uint32_t k = 0; k < n->nsrc; k++) below |= p->flags[place(p, n->src[k])];
    if (tn__is_float(n->dtype) && n->op != OP_DETACH) p->flags[i] |= below & CARRIES;
  }
}

/* The bits of a float may become a float again further up, and no gradient would find its way back: an error, not a
 * silent zero. */
static bool takes_bits(const tn_node *n) { return n->op == OP_BITCAST && !tn__is_float(n->dtype); }

/* Is a gradient asked for of what stands between a running product and its row (a program's own, written so)? */
static bool is_asked_between(const pass *p, const tn_node *n) {
  const tn_node *each = n->src[0], *row = each->src[1], *rest = each->src[2];
  return (p->flags[place(p, each)] & ASKED) || (p->flags[place(p, row)] & ASKED) ||
         (p->flags[place(p, rest)] & CARRIES);
}

/* A running product of a long row hands down to that row at once.  Its gradient by the rules takes memory by the square
 * of the row, so it is taken of the same product by short blocks, of a row and for a gradient that no program has. */
static bool hand_to_row(pass *p, tn_node *n, tn_node *g) {
  enum { ROW_SLOT = -2, GRADIENT_SLOT = -3 };
  tn_ctx *c = p->c;
  tn_node *row = g ? tn__row_of_product(c, n) : NULL, *part;
  if (!row || is_asked_between(p, n)) return false;
  uint64_t to = place(p, row);
  p->flags[to] |= REACHED;
  if (!(p->flags[to] & CARRIES)) return true;
  tn_node *free[2] = {tn__param(c, row->dtype, ROW_SLOT, row->device, row->dim, row->rank),
                      tn__param(c, g->dtype, GRADIENT_SLOT, g->device, g->dim, g->rank)};
  tn__vjp(c, tn__product_by_blocks(c, n, free[0]), free[1], free, 1, &part);
  add_gradient(p, to, tn__substitute(c, part, free, (tn_node *[]){row, g}, 2));
  return true;
}

static void hand_down(pass *p, uint32_t i) {
  tn_node *n = p->order.v[i], *g = p->grad[i];
  if (is_leaf(p, i) || hand_to_row(p, n, g)) return;
  for (uint32_t k = 0; k < n->nsrc; k++) {
    uint64_t to = place(p, n->src[k]);
    p->flags[to] |= REACHED;
    tn__slice s;
    if (!(p->flags[to] & CARRIES) || !(g || takes_bits(n))) continue;
    if (!k && tn__slice_of(n, g, &s)) {
      tn__vec_push(&p->c->scratch, &p->slices[to], s);
      continue;
    }
    tn_node *part = tn__is_elementwise(n) ? tn__rules_gradient(p->c, n, k, g) : tn__adjoint(p->c, n, k, g);
    if (part) add_gradient(p, to, part);
  }
}

/* All users of node i have handed down. */
static void collect_slices(pass *p, uint32_t i) {
  if (p->slices[i].n) add_gradient(p, i, tn__gradient_of_slices(p->c, p->order.v[i], p->slices[i].v, p->slices[i].n));
}

/* g[i] = sum over the outputs of dy[j] * d y[j] / d x[i]; NULL where none arrives.  depends[i]: some y depends on x[i].
 */
static void reverse(tn_ctx *c, tn_node *const *y, tn_node *const *dy, uint32_t ny, tn_node *const *x, uint32_t nx,
                    tn_node **g, bool *depends) {
  pass p = {.c = c};
  number(&p, y, ny);
  mark_paths(&p, x, nx);
  for (uint32_t j = 0; j < ny; j++) {
    uint64_t at = place(&p, y[j]);
    p.flags[at] |= REACHED;
    if (p.flags[at] & CARRIES) add_gradient(&p, at, dy[j]);
  }
  for (uint32_t i = p.order.n; i && i--;) {
    collect_slices(&p, i);
    if (p.flags[i] & REACHED) hand_down(&p, i);
  }
  check_cuts(&p, x, nx);
  for (uint32_t i = 0; i < nx; i++) {
    uint64_t at = place(&p, x[i]);
    depends[i] = at != UINT64_MAX && (p.flags[at] & REACHED);
    g[i] = depends[i] ? p.grad[at] : NULL;
  }
}

/* The seed as a tensor of the type of `of`. */
static tn_node *fit_seed(tn_ctx *c, const char *what, const tn_node *of, tn_node *seed) {
  tn_node *fitted = seed->dtype == of->dtype ? tn__taken_as(c, seed, of->dim, of->rank) : NULL;
  if (!fitted)
    tn__fail(c, seed->dtype != of->dtype ? TN_EDTYPE : TN_ESHAPE, "%s is %s where %s is needed", what,
             tn__node_type(seed, &c->scratch), tn__node_type(of, &c->scratch));
  return fitted;
}

static void check_output(tn_ctx *c, const tn_node *y) {
  if (!tn__is_float(y->dtype))
    tn__fail(c, TN_EGRAD, "no gradient of %s, which is not of a float dtype", tn__node_type(y, &c->scratch));
}

_Noreturn static void no_influence(tn_ctx *c, const tn_node *y, uint32_t i, const tn_node *x) {
  const char *hint = y->op == OP_STORAGE ? ", which was realised before and no longer knows how it was made" : "";
  tn__fail(c, TN_EGRAD, "wrt[%u], %s, does not influence the result%s", i, tn__node_type(x, &c->scratch), hint);
}

void tn__vjp(tn_ctx *c, tn_node *y, tn_node *dy, tn_node *const *x, uint32_t n, tn_node **g) {
  check_output(c, y);
  dy = fit_seed(c, "the incoming gradient", y, dy);
  bool *depends = tn__alloc(c, n * sizeof *depends);
  reverse(c, &y, &dy, 1, x, n, g, depends);
  for (uint32_t i = 0; i < n; i++) {
    if (!depends[i]) no_influence(c, y, i, x[i]);
    if (!g[i]) g[i] = tn__zeros_like(c, x[i]);
  }
}

/* The reverse pass is linear in what arrives: with g(u) = (dy/dx)^T u, the derivative of <g(u), v> by u is (dy/dx) v.
 * u is a buffer that no program has; as g is linear in it, it does not stand in the result. */
tn_node *tn__jvp(tn_ctx *c, tn_node *y, tn_node *const *x, tn_node *const *v, uint32_t n) {
  enum { NO_SLOT = -1 };
  check_output(c, y);
  tn_node *u = tn__param(c, y->dtype, NO_SLOT, y->device, y->dim, y->rank), *result;
  tn_node **g = tn__alloc(c, n * sizeof *g), **seed = tn__alloc(c, n * sizeof *seed);
  bool *depends = tn__alloc(c, (n + 1) * sizeof *depends);
  reverse(c, &y, &u, 1, x, n, g, depends);
  uint32_t used = 0;
  for (uint32_t i = 0; i < n; i++) {
    tn_node *direction = fit_seed(c, "the direction", x[i], v[i]);
    if (!depends[i]) no_influence(c, y, i, x[i]);
    if (!g[i]) continue;
    g[used] = g[i];
    seed[used++] = direction;
  }
  reverse(c, g, seed, used, &u, 1, &result, depends);
  return result ? result : tn__zeros_like(c, y);
}
