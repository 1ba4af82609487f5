#include "prove/adjoint_coq.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "grad/adjoint.h"
#include "schedule/fuse.h"

/* ---- integers that stand for variables -------------------------------------------------------------------------------------------- */

enum { SPAN = 3, MARKS };

/* stride, dilation, window size; and dilation * (size - 1), which is how they enter the number of places */
typedef struct marks {
  int64_t v[MARKS];
} marks;
static const char *const mark_names[MARKS] = {"s", "d", "k", "d * (k - 1)"};
static const marks drawn[2] = {{{10000019, 1009, 1511, 1009 * 1510}}, {{20000003, 2003, 3011, 2003 * 3010}}}; /* the stride is the largest: no sum of the others is divided by it */

typedef struct graph {
  tn_ctx *c;
  tn__arena *a;
  const marks *m;
  uint32_t rank;
  tn__vec(const char *) vars, hyps;
  tn_node *x, *out; /* the op over the leaf x */
} graph;

enum { NEAR = 3 };

/* v as a sum of marks, each at most once and as few as possible, and a small rest. */
static void constant(graph *g, tn__sb *b, int64_t v) {
  enum { CHOICES = 81 /* each mark subtracted, left out or added */ };
  int64_t best = -1, rest = v, fewest = MARKS + 1;
  for (int64_t code = 0; code < CHOICES; code++) {
    int64_t sum = 0, terms = 0;
    for (int64_t i = 0, r = code; i < MARKS; i++, r /= 3) {
      sum += (r % 3 - 1) * g->m->v[i];
      terms += r % 3 != 1;
    }
    if (llabs(v - sum) <= NEAR && terms < fewest) best = code, rest = v - sum, fewest = terms;
  }
  if (best < 0) tn__fail(g->c, TN_EGRAD, "adjoint: %" PRId64 " is made of no strides", v);
  bool first = !rest && fewest;
  tn__sb_putc(b, '(');
  if (!first) tn__sb_printf(b, "%" PRId64, rest);
  for (int64_t i = 0, r = best; i < MARKS; i++, r /= 3) {
    if (r % 3 == 1) continue;
    tn__sb_printf(b, "%s%s", r % 3 == 0 ? " - " : first ? "" : " + ", mark_names[i]);
    first = false;
  }
  tn__sb_putc(b, ')');
}

/* ---- index expressions --------------------------------------------------------------------------------------------------------------- */

enum { OF_SUM = 1000 }; /* ranges from here on are summed over */

static void range_name(tn__sb *b, const tn_node *n) {
  int64_t number = n->ints[1];
  if (number < OF_SUM) tn__sb_printf(b, "i%" PRId64, number);
  else tn__sb_printf(b, "o%" PRId64, number - OF_SUM);
}

static void expression(graph *g, tn__sb *b, tn_node *n) {
  static const char *const infix[OP_COUNT] = {[OP_ADD] = " + ", [OP_MUL] = " * ", [OP_IDIV] = " / ", [OP_MOD] = " mod ",
                                              [OP_LT] = " <? ", [OP_LE] = " <=? ", [OP_EQ] = " =? ", [OP_AND] = " && ", [OP_OR] = " || "};
  static const char *const prefix[OP_COUNT] = {[OP_NEG] = "- ", [OP_MIN] = "Z.min ", [OP_MAX] = "Z.max ", [OP_NOT] = "negb "};
  if (n->op == OP_CONST && n->dtype == TN_BOOL) tn__sb_puts(b, n->ints[0] ? "true" : "false");
  else if (n->op == OP_CONST) constant(g, b, n->ints[0]);
  else if (n->op == OP_VAR) tn__sb_puts(b, n->name);
  else if (n->op == OP_RANGE) range_name(b, n);
  else if (infix[n->op] || prefix[n->op]) {
    tn__sb_putc(b, '(');
    if (prefix[n->op]) tn__sb_puts(b, prefix[n->op]);
    for (uint32_t i = 0; i < n->nsrc; i++) {
      if (i) tn__sb_puts(b, infix[n->op] ? infix[n->op] : " ");
      expression(g, b, n->src[i]);
    }
    tn__sb_putc(b, ')');
  } else tn__fail(g->c, TN_EGRAD, "adjoint: %s in an index", tn__ops[n->op].text);
}

static void list(graph *g, tn__sb *b, tn_node *const *v, uint32_t n) {
  tn__sb_putc(b, '[');
  for (uint32_t i = 0; i < n; i++) {
    if (i) tn__sb_puts(b, "; ");
    expression(g, b, v[i]);
  }
  tn__sb_putc(b, ']');
}

/* ---- where a graph reads its leaf ------------------------------------------------------------------------------------------------------- */

typedef struct reading {
  tn_node *dim[TN_MAX_RANK], *range[TN_MAX_RANK]; /* of the result */
  uint32_t rank;
  tn_node *place[TN_MAX_RANK + 1], *gate; /* in the leaf; gate NULL: everywhere */
  uint32_t places;
  tn_node *sum[TN_MAX_RANK], *extent[TN_MAX_RANK]; /* ranges summed over */
  uint32_t sums;
} reading;

static tn_node *summed(graph *g, reading *r, tn_node *extent) {
  r->extent[r->sums] = extent;
  r->sum[r->sums] = tn__range(g->c, extent, 0, OF_SUM + r->sums);
  return r->sum[r->sums++];
}

static tn_node *through_sum(graph *g, reading *r, tn_node *n) {
  tn_node *at[TN_MAX_RANK], *x = n->src[0];
  for (uint32_t i = 0, kept = 0, axis = 0; i < x->rank; i++) {
    bool dropped = axis < n->nint && n->ints[axis] == (int64_t)i;
    at[i] = dropped ? summed(g, r, x->dim[i]) : r->place[kept++];
    axis += dropped;
  }
  memcpy(r->place, at, x->rank * sizeof *at);
  return x;
}

static reading read_leaf(graph *g, tn_node *root, const tn_node *leaf) {
  reading r = {.rank = root->rank};
  for (uint32_t i = 0; i < root->rank; i++) {
    r.dim[i] = root->dim[i];
    r.place[i] = r.range[i] = tn__range(g->c, root->dim[i], 0, i);
  }
  tn_node *n = root;
  while (n != leaf) {
    tn_node *at[TN_MAX_RANK + 1];
    if (n->op == OP_SUM) {
      n = through_sum(g, &r, n);
      continue;
    }
    if (tn__ops[n->op].group != G_MOVE) tn__fail(g->c, TN_EGRAD, "adjoint: %s is no movement", tn__ops[n->op].text);
    if (n->op == OP_FOLD) r.place[n->rank] = summed(g, &r, tn__int(g->c, n->ints[1]));
    tn__index_through(g->c, n, r.place, at, &r.gate);
    n = n->src[0];
    memcpy(r.place, at, n->rank * sizeof *at);
  }
  r.places = leaf->rank;
  return r;
}

/* ---- a statement --------------------------------------------------------------------------------------------------------------------------- */

static void places_of(graph *g, tn__sb *b, const reading *r, bool gate, bool with_sums) {
  tn__sb_puts(b, with_sums ? "(fun i o => match i, o with " : "(fun i => match i with ");
  list(g, b, r->range, r->rank);
  if (with_sums) tn__sb_puts(b, ", "), list(g, b, r->sum, r->sums);
  tn__sb_puts(b, " => ");
  if (!gate) list(g, b, r->place, r->places);
  else if (r->gate) expression(g, b, r->gate);
  else tn__sb_puts(b, "true");
  tn__sb_puts(b, with_sums ? " | _, _ => " : " | _ => ");
  tn__sb_puts(b, gate ? "false end)%bool " : "[] end) ");
}

/* The place of `many` at which a range that it sums over is read as it is: with it the range is found again. */
static void witness(graph *g, tn__sb *b, const reading *one, const reading *many) {
  tn__sb_puts(b, "(fun i => match i with ");
  list(g, b, one->range, one->rank);
  tn__sb_puts(b, " => [");
  for (uint32_t k = 0; k < many->sums; k++) {
    uint32_t t = 0;
    while (t < many->places && many->place[t] != many->sum[k]) t++;
    if (t == many->places) tn__fail(g->c, TN_EGRAD, "adjoint: a sum that is over no axis");
    tn__sb_puts(b, k ? "; " : "");
    range_name(b, one->range[t]);
  }
  tn__sb_puts(b, "] | _ => [] end)");
}

static const char *statement(graph *g) {
  tn_node *dy = tn__param(g->c, TN_F64, 1, -1, g->out->dim, g->out->rank);
  reading forth = read_leaf(g, g->out, g->x), back = read_leaf(g, tn__adjoint(g->c, g->out, 0, dy), dy);
  if (forth.sums && back.sums) tn__fail(g->c, TN_EGRAD, "adjoint: sums on both sides");
  const reading *one = forth.sums ? &back : &forth, *many = forth.sums ? &forth : &back;
  tn__sb b;
  tn__sb_init(&b, g->a);
  tn__sb_puts(&b, "forall");
  for (uint32_t i = 0; i < g->vars.n; i++) tn__sb_printf(&b, " %s", g->vars.v[i]);
  tn__sb_puts(&b, ", ");
  for (uint32_t i = 0; i < g->hyps.n; i++) tn__sb_printf(&b, "%s -> ", g->hyps.v[i]);
  tn__sb_puts(&b, "adjoint_pair ");
  list(g, &b, one->dim, one->rank);
  tn__sb_putc(&b, ' ');
  list(g, &b, many->dim, many->rank);
  tn__sb_putc(&b, ' ');
  list(g, &b, many->extent, many->sums);
  tn__sb_putc(&b, ' ');
  places_of(g, &b, one, true, false);
  places_of(g, &b, one, false, false);
  places_of(g, &b, many, true, true);
  places_of(g, &b, many, false, true);
  witness(g, &b, one, many);
  return tn__sb_str(&b);
}

/* ---- the graphs -------------------------------------------------------------------------------------------------------------------------------- */

static const int64_t HUGE_SIZE = INT64_C(1) << 40;

static const char *text(graph *g, const char *format, uint32_t i) {
  tn__sb b;
  tn__sb_init(&b, g->a);
  for (; *format; format++)
    if (*format == '#') tn__sb_printf(&b, "%u", i);
    else tn__sb_putc(&b, *format);
  return tn__sb_str(&b);
}

static void suppose(graph *g, const char *format, uint32_t i) { tn__vec_push(g->a, &g->hyps, text(g, format, i)); }

/* The variable of this name for axis i, at least lo. */
static tn_node *variable(graph *g, const char *format, uint32_t i, int64_t lo) {
  const char *name = text(g, format, i);
  tn__vec_push(g->a, &g->vars, name);
  tn__sb b;
  tn__sb_init(&b, g->a);
  tn__sb_printf(&b, "(%s %s)%%Z", lo ? "0 <" : "0 <=", name);
  tn__vec_push(g->a, &g->hyps, (const char *)tn__sb_str(&b));
  return tn__var(g->c, name, lo, HUGE_SIZE);
}

static void leaf(graph *g, tn_node *const *dim) { g->x = tn__param(g->c, TN_F64, 0, -1, dim, g->rank); }

static void sizes(graph *g, tn_node **dim) {
  for (uint32_t i = 0; i < g->rank; i++) dim[i] = variable(g, "n#", i, 1);
}

static void mark(graph *g, uint32_t i) {
  tn__vec_push(g->a, &g->vars, mark_names[i]);
  suppose(g, i == 0 ? "stride s" : i == 1 ? "stride d" : "stride k", 0);
}

static void make_expand(graph *g) {
  tn_node *from[TN_MAX_RANK], *to[TN_MAX_RANK];
  sizes(g, to);
  for (uint32_t i = 0; i < g->rank; i++) from[i] = i % 2 ? to[i] : tn__int(g->c, 1);
  leaf(g, from);
  g->out = tn__expand(g->c, g->x, to);
}

static void make_permute(graph *g) {
  tn_node *dim[TN_MAX_RANK];
  int64_t perm[TN_MAX_RANK];
  sizes(g, dim);
  leaf(g, dim);
  for (uint32_t i = 0; i < g->rank; i++) perm[i] = (i + 1) % g->rank;
  g->out = tn__permute(g->c, g->x, perm);
}

static void make_pad(graph *g) {
  tn_node *dim[TN_MAX_RANK], *lohi[2 * TN_MAX_RANK];
  sizes(g, dim);
  leaf(g, dim);
  for (uint32_t i = 0; i < g->rank; i++) {
    lohi[2 * i] = variable(g, "lo#", i, 0);
    lohi[2 * i + 1] = variable(g, "hi#", i, 0);
  }
  g->out = tn__pad(g->c, g->x, lohi);
}

enum { ALL_STEPPED = 2 }; /* up to this rank all axes have steps, above it the middle one */

static void shrink(graph *g, bool stepped) {
  tn_node *dim[TN_MAX_RANK], *begin[TN_MAX_RANK], *size[TN_MAX_RANK];
  int64_t step[TN_MAX_RANK];
  sizes(g, dim);
  leaf(g, dim);
  if (stepped) mark(g, 0);
  for (uint32_t i = 0; i < g->rank; i++) {
    bool here = stepped && (g->rank <= ALL_STEPPED || i == g->rank / 2);
    step[i] = here ? g->m->v[0] : 1;
    begin[i] = variable(g, "b#", i, 0);
    size[i] = variable(g, "m#", i, 1);
    suppose(g, here ? "(b# + (m# - 1) * s < n#)%Z" : "(b# + m# <= n#)%Z", i);
  }
  g->out = tn__shrink(g->c, g->x, begin, size, step);
}
static void make_shrink(graph *g) { shrink(g, false); }
static void make_stepped(graph *g) { shrink(g, true); }

static void make_flip(graph *g) {
  tn_node *dim[TN_MAX_RANK];
  int64_t axes[TN_MAX_RANK];
  sizes(g, dim);
  leaf(g, dim);
  for (uint32_t i = 0; i < g->rank; i++) axes[i] = i;
  g->out = tn__flip(g->c, g->x, axes, g->rank);
}

static void make_sum(graph *g) {
  tn_node *dim[TN_MAX_RANK];
  int64_t axes[TN_MAX_RANK];
  uint32_t n = 0;
  sizes(g, dim);
  leaf(g, dim);
  for (uint32_t i = 0; i < g->rank; i += 2) axes[n++] = i;
  g->out = tn__reduce(g->c, OP_SUM, g->x, axes, n);
}

static void make_window(graph *g) {
  tn_node *dim[TN_MAX_RANK];
  uint32_t axis = g->rank / 2;
  sizes(g, dim);
  for (uint32_t i = 0; i < SPAN; i++) mark(g, i);
  leaf(g, dim);
  g->out = tn__window(g->c, g->x, axis, g->m->v[2], g->m->v[0], g->m->v[1]);
}

static void make_fold(graph *g) {
  make_window(g);
  tn_node *w = g->out;
  uint32_t axis = g->rank / 2;
  tn_node *n = g->x->dim[axis];
  g->x = tn__param(g->c, TN_F64, 0, -1, w->dim, w->rank);
  g->out = tn__fold(g->c, g->x, n, axis, g->m->v[2], g->m->v[0], g->m->v[1]);
}

static const struct {
  const char *op, *name, *part;
  void (*make)(graph *);
  uint32_t room, least; /* axes that the op adds; the least rank */
} graphs[] = {
    {"expand", "expand", "from 1", make_expand, 0, 1}, {"permute", "permute", "rotated", make_permute, 0, 2},        {"pad", "pad", "sizes", make_pad, 0, 1},
    {"shrink", "shrink", "no steps", make_shrink, 0, 1}, {"shrink", "shrink_stepped", "steps", make_stepped, 0, 1}, {"flip", "flip", "all axes", make_flip, 0, 1},
    {"sum", "sum", "axes", make_sum, 0, 1},          {"window", "window", "stride and dilation", make_window, 1, 1},           {"fold", "fold", "stride and dilation", make_fold, 1, 1},
};

static const char *of_rank(tn_ctx *c, tn__arena *a, size_t which, uint32_t rank, const marks *m) {
  graph g = {.c = c, .a = a, .m = m, .rank = rank};
  graphs[which].make(&g);
  return statement(&g);
}

/* ---- adjoints that are an op again -------------------------------------------------------------------------------------------------------------- */

/* Reshape, gather, scatter and contract: theorems for any rank, of the op that the engine must have built. */
static void check(tn_ctx *c, const char *op, bool as_proved) {
  if (!as_proved) tn__fail(c, TN_EGRAD, "the adjoint of %s is not the one that Adjoint.v is about", op);
}

static tn_node *f64(tn_ctx *c, int64_t slot, tn_node *const *dim, uint32_t rank) { return tn__param(c, TN_F64, slot, -1, dim, rank); }

static void check_structure(tn_ctx *c) {
  tn_node *n[4];
  static const char *const names[] = {"n0", "n1", "n2", "n3"};
  for (int i = 0; i < 4; i++) n[i] = tn__var(c, names[i], 1, HUGE_SIZE);
  tn_node *x = f64(c, 0, n, 2), *flat = tn__mul(c, n[0], n[1]), *g = f64(c, 1, &flat, 1);
  tn_node *e = tn__adjoint(c, tn__reshape(c, x, &flat, 1), 0, g);
  check(c, "reshape", e->op == OP_RESHAPE && e->src[0] == g && tn__dims_equal(c, e->dim, x->dim, 2) && e->rank == 2);

  tn_node *at = tn__param(c, TN_I64, 2, -1, n + 2, 1), *read = tn__gather(c, x, at), *dy = f64(c, 3, read->dim, read->rank);
  e = tn__adjoint(c, read, 0, dy);
  check(c, "gather", e->op == OP_SCATTER && e->src[0] == tn__zeros_like(c, x) && e->src[1] == at && e->src[2] == dy);
  tn_node *s = tn__scatter(c, x, at, dy), *ds = f64(c, 4, s->dim, s->rank);
  check(c, "scatter", tn__adjoint(c, s, 0, ds) == ds);
  e = tn__adjoint(c, s, 2, ds);
  check(c, "scatter", e->op == OP_GATHER && e->src[0] == ds && e->src[1] == at);

  tn_node *left = f64(c, 5, (tn_node *[]){n[0], n[1], n[3]}, 3), *right = f64(c, 6, (tn_node *[]){n[0], n[2], n[3]}, 3);
  tn_node *y = tn__contract(c, left, right, 1, 1, 1, 1), *g3 = f64(c, 7, y->dim, 3);
  const int64_t swap[] = {0, 2, 1};
  check(c, "contract", tn__adjoint(c, y, 0, g3) == tn__contract(c, g3, tn__permute(c, right, swap), 1, 1, 1, 1));
  check(c, "contract", tn__adjoint(c, y, 1, g3) == tn__contract(c, tn__permute(c, g3, swap), tn__permute(c, left, swap), 1, 1, 1, 1));
}

static tn_node *along(tn_ctx *c, tn_node *iota, bool first, tn_node *const *square) {
  tn_node *one = tn__int(c, 1), *n = iota->dim[0];
  return tn__expand(c, tn__reshape(c, iota, (tn_node *[]){first ? n : one, first ? one : n}, 2), square);
}

/* Of n elements: an extremum's g is shared out by the mask over the sum of the mask (shares_convex); an element of a product gets g times the product
 * in which it is replaced by 1 (slope_product; where n is constant a tree of pairs computes the same, and is compared with it by tests). */
static void check_reductions(tn_ctx *c) {
  tn_node *n = tn__var(c, "n0", 1, HUGE_SIZE), *one = tn__int(c, 1), *x = f64(c, 0, &n, 1), *g = f64(c, 1, NULL, 0), *row = tn__reshape(c, g, &one, 1);
  static const int64_t axis[] = {0, 1};
  static const tn__op extrema[] = {OP_RMAX, OP_RMIN};
  for (int i = 0; i < 2; i++) {
    tn_node *top = tn__reduce(c, extrema[i], x, axis, 1), *mask = tn__op2(c, OP_EQ, x, tn__expand(c, tn__reshape(c, top, &one, 1), &n));
    tn_node *share = tn__op2(c, OP_DIV, g, tn__reduce(c, OP_SUM, tn__cast(c, mask, TN_F64), axis, 1));
    tn_node *want = tn__where(c, mask, tn__expand(c, tn__reshape(c, share, &one, 1), &n), tn__zeros_like(c, x));
    check(c, tn__ops[extrema[i]].text, tn__adjoint(c, top, 0, g) == want);
  }
  tn_node *square[] = {n, n}, *iota = tn__iota(c, n), *self = tn__op2(c, OP_EQ, along(c, iota, true, square), along(c, iota, false, square));
  tn_node *table = tn__expand(c, tn__reshape(c, x, (tn_node *[]){one, n}, 2), square), *ones = tn__scalar_to(c, tn__const_num(c, TN_F64, 1), square, 2);
  tn_node *others = tn__reduce(c, OP_PROD, tn__where(c, self, ones, table), axis + 1, 1);
  check(c, "prod", tn__adjoint(c, tn__reduce(c, OP_PROD, x, axis, 1), 0, g) == tn__mul(c, tn__expand(c, row, &n), others));
}

uint32_t tn__adjoint_pairings(tn_ctx *c, tn__arena *a, uint32_t ranks, tn__pairing **out) {
  static const tn__pairing any_rank[] = {
      {"reshape", "any rank", "adjoint_reshape", NULL}, {"gather", "any rank", "adjoint_gather", NULL},
      {"scatter", "any rank", "adjoint_scatter", NULL}, {"contract", "left", "adjoint_contract_a", NULL},
      {"contract", "right", "adjoint_contract_w", NULL}, {"prod", "slopes", "slope_product", NULL},
      {"rmax", "shares", "shares_convex", NULL}, {"rmin", "shares", "shares_convex", NULL},
  };
  tn__vec(tn__pairing) all = {0};
  check_structure(c);
  check_reductions(c);
  for (size_t i = 0; i < sizeof any_rank / sizeof *any_rank; i++) tn__vec_push(a, &all, any_rank[i]);
  for (size_t i = 0; i < sizeof graphs / sizeof *graphs; i++)
    for (uint32_t r = graphs[i].least; r <= ranks && r + graphs[i].room <= TN_MAX_RANK; r++) {
      const char *first = of_rank(c, a, i, r, &drawn[0]);
      if (strcmp(first, of_rank(c, a, i, r, &drawn[1]))) tn__fail(c, TN_EGRAD, "adjoint of %s: the text depends on the strides", graphs[i].op);
      tn__sb name, part;
      tn__sb_init(&name, a);
      tn__sb_init(&part, a);
      tn__sb_printf(&name, "adjoint_%s_%u", graphs[i].name, r);
      tn__sb_printf(&part, "%s, rank %u", graphs[i].part, r);
      tn__vec_push(a, &all, ((tn__pairing){graphs[i].op, tn__sb_str(&part), tn__sb_str(&name), first}));
    }
  *out = all.v;
  return all.n;
}
