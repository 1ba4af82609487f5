/* Sums of products: what the tiles of tile.c compute.
 *
 * Needs a body that is one sum of products of two loads, however many loops it runs over: rows are what only the first
 * factor depends on, columns what only the second does.  A sum of sums is first made one sum, and a loop of
 * whose blocks one factor is made is two loops, over blocks and inside of them.  Gives a body whose rows, columns and
 * steps are one loop each, in the order that suits memory: so a convolution becomes a product whose operands are
 * gathered as they are loaded.
 *
 * Steps run as they lie in the operand that is read once (filters, not images: windows overlap); neighbours in memory
 * come last. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

typedef struct job {
  tn__lowering *l;
  tn_ctx *c;
  tn__arena *a;
  tn_node *body;
  tn__survey s;
  tn__factors f;
} job;

static tn_node *load_of(tn_node *x) {
  if (x->op == OP_CAST && x->dtype == TN_F32) x = x->src[0];
  return x->op == OP_LOAD && x->src[0]->op == OP_PARAM ? x : NULL;
}

/* a choice: no is right */
bool tn__factors_find(const tn__survey *s, tn__factors *f) {
  const tn__ranges *r = &s->r;
  *f = (tn__factors){0};
  for (uint32_t i = 0; i < r->order.n; i++) {
    tn_node *n = r->order.v[i];
    if (n->op == OP_STOREADD || n->op == OP_LOCAL || n->op == OP_AFTER || (n->op == OP_REDUCE && f->sum)) return false;
    if (n->op == OP_REDUCE) f->sum = n;
  }
  tn_node *sum = f->sum;
  if (!sum || sum->ints[0] != OP_ADD || sum->dtype != TN_F32 || sum->src[0]->op != OP_MUL) return false;
  for (int i = 0; i < 2; i++)
    if (!(f->operand[i] = load_of(sum->src[0]->src[i]))) return false;
  uint64_t x = tn__free_of(r, f->operand[0]), y = tn__free_of(r, f->operand[1]);
  f->steps = tn__own_of(r, sum);
  f->axis[0] = x & ~y & ~f->steps;
  f->axis[1] = y & ~x & ~f->steps;
  f->batch = tn__free_of(r, sum) & ~(f->axis[0] | f->axis[1]);
  return (x & f->steps) && (y & f->steps) && tn__free_of(r, sum) == s->common && f->axis[0] && f->axis[1];
}

/* ---- sums of sums ---- */

/* The load under a further gate */
static tn_node *gated(tn_ctx *c, tn_node *load, tn_node *gate) {
  tn_node *src[3] = {load->src[0], load->src[1], load->nsrc > 2 ? tn__op2(c, OP_AND, gate, load->src[2]) : gate};
  src[2] = tn__simplify_index(c, src[2]);
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .dtype = load->dtype, .src = src, .nsrc = 3, .device = -1});
}

static bool is_inside(const tn_node *load) {
  const tn_node *size = load->src[0]->src[0];
  return load->src[1]->lo >= 0 && load->src[1]->hi < size->lo;
}

/* The product of the factors where the gate holds, else 0.  If both factors have one gate, one that can do without
 * loses it. */
static tn_node *gated_product(tn_ctx *c, tn_node *product, tn_node *gate) {
  tn_node *load[2], *factor[2];
  for (int i = 0; i < 2; i++)
    if (!(load[i] = load_of(product->src[i]))) return NULL;
  bool second = load[0]->nsrc < 3 && load[1]->nsrc > 2; /* one zero is enough */
  if (gate) load[second] = gated(c, load[second], gate);
  for (int i = 0; i < 2; i++) {
    if (load[0]->nsrc < 3 || load[1]->nsrc < 3 || load[0]->src[2] != load[1]->src[2] || !is_inside(load[i])) continue;
    load[i] = tn__node_make(
        c, &(tn__make){.op = OP_LOAD, .dtype = load[i]->dtype, .src = load[i]->src, .nsrc = 2, .device = -1});
  }
  for (int i = 0; i < 2; i++) factor[i] = tn__cast(c, load[i], TN_F32);
  return tn__mul(c, factor[0], factor[1]);
}

/* What a sum adds up, if that is a sum itself: below a gate, or rounded. */
/* a choice: no is right */
static tn_node *inner_sum(tn_node *n, tn_node **gate) {
  int64_t zero;
  *gate = NULL;
  if (n->op == OP_WHERE && n->src[2]->op == OP_CONST && (zero = n->src[2]->ints[0]) == 0)
    *gate = n->src[0], n = n->src[1];
  for (int i = 0; i < 2 && n->op == OP_CAST && tn__is_float(n->src[0]->dtype); i++) n = n->src[0];
  return n->op == OP_REDUCE && n->ints[0] == OP_ADD && n->dtype == TN_F32 && n->src[0]->op == OP_MUL ? n : NULL;
}

/* The body with a sum of a sum of products as one sum; NULL if there is none. */
static tn_node *join_sums(tn_ctx *c, tn__arena *a, tn_node *body) {
  tn__nodes all = {0};
  tn__topo(a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *outer = all.v[i], *gate, *inner, *src[TN__MAX_RANGES + 1];
    uint32_t n = 0;
    if (outer->op != OP_REDUCE || outer->ints[0] != OP_ADD || !(inner = inner_sum(outer->src[0], &gate))) continue;
    if (outer->nsrc + inner->nsrc > TN__MAX_RANGES || !(src[n++] = gated_product(c, inner->src[0], gate))) continue;
    for (uint32_t s = 1; s < outer->nsrc; s++) src[n++] = outer->src[s];
    for (uint32_t s = 1; s < inner->nsrc; s++) src[n++] = inner->src[s];
    tn_node *both =
        tn__node_make(c, &(tn__make){.op = OP_REDUCE, .src = src, .nsrc = n, .ints = inner->ints, .nint = inner->nint});
    return tn__substitute(c, body, &outer, &both, 1);
  }
  return NULL;
}

/* ---- loops over blocks ---- */

/* The size of the blocks of range x by whose numbers n moves with it; 0: none, or such that do not divide it */
/* a choice: 0 is right */
static int64_t block_of(tn__arena *a, tn_node *n, const tn_node *x) {
  tn__nodes all = {0};
  int64_t by, size;
  tn__topo(a, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_IDIV && all.v[i]->src[0] == x && tn__const_int(all.v[i]->src[1], &by) &&
        by > 1 && tn__const_int(x->src[0], &size) && by < size && size % by == 0)
      return by;
  return 0;
}

/* The body with an output's loop as two, blocks and places in these, where a factor hangs on blocks: as on the head of
 * an element of all heads' values side by side.  Then there are columns that the other factor alone hangs on. */
static tn_node *open_blocks(tn__lowering *l, tn_node *body) {
  tn__survey s;
  tn__factors f;
  tn__survey_loops(l->c, l->a, body, &s);
  if (tn__factors_find(&s, &f) || !f.operand[0] || !f.operand[1]) return body;
  for (uint32_t k = 0; k < s.r.n; k++) {
    tn_node *x = s.r.range[k];
    int64_t by = 0;
    for (int i = 0; i < 2 && !by; i++) by = block_of(l->a, f.operand[i], x);
    if (!by || tn__axis_of(x) != AX_LOOP || !(f.batch >> k & 1) || tn__bounds_loops(&s.r, k)) continue;
    return tn__simplify_accesses(l->c, l->a, tn__cut(l, body, x, by, AX_LOOP, AX_LOOP, NULL));
  }
  return body;
}

/* ---- one loop for each axis ---- */

/* How far a step of range k moves an access: a constant, or a guess. */
/* a choice: either is right */
static double distance(const job *j, const tn_node *access, uint32_t k) {
  int64_t v = tn__stride(&j->s.r, access->src[1], k);
  return v == TN__IRREGULAR ? 0.5 : v < 0 ? -(double)v : (double)v;
}

/* Does no element serve two places?  Then no range moves it by less than the ranges below it together. */
/* a choice: either is right */
static bool is_read_once(const job *j, const tn_node *load) {
  uint64_t set = tn__free_of(&j->s.r, load);
  if (load->nsrc > 2) return false;
  for (uint32_t k = 0; k < j->s.r.n; k++)
    for (uint32_t i = 0; (set >> k & 1) && i < j->s.r.n; i++) {
      if (i == k || !(set >> i & 1) || distance(j, load, i) < distance(j, load, k)) continue;
      if (distance(j, load, i) < distance(j, load, k) * tn__extent(j->s.r.range[k])) return false;
    }
  return true;
}

/* Is k the range along which the operand's neighbours lie, gated or not alike? */
/* a choice: either is right */
static bool is_finest(const job *j, const tn_node *load, uint32_t k) {
  return tn__stride(&j->s.r, load->src[1], k) == 1 &&
         (load->nsrc < 3 || !(tn__free_of(&j->s.r, load->src[2]) >> k & 1));
}

static const tn_node *first_store(const job *j) {
  for (uint32_t i = 0; i < j->s.r.order.n; i++)
    if (j->s.r.order.v[i]->op == OP_STORE) return j->s.r.order.v[i];
  return NULL;
}

/* The ranges of a set, the outermost first: by how far they move `by`, but those that are finest in a load last. */
static uint32_t in_order(const job *j, uint64_t set, const tn_node *by, const tn_node *const *load, uint32_t nload,
                         tn_node **out) {
  double key[TN__MAX_RANGES];
  uint32_t n = 0;
  for (uint32_t k = 0; k < j->s.r.n; k++) {
    if (!(set >> k & 1)) continue;
    double d = distance(j, by, k);
    for (uint32_t i = 0; i < nload; i++)
      if (is_finest(j, load[i], k)) d = 0;
    uint32_t at = n++;
    for (; at && key[at - 1] < d; at--) {
      key[at] = key[at - 1];
      out[at] = out[at - 1];
    }
    key[at] = d;
    out[at] = j->s.r.range[k];
  }
  return n;
}

static void flatten(job *j, tn_node *const *x, uint32_t n) {
  tn_node *flat;
  if (n > 1) j->body = tn__as_one(j->l, j->body, x, n, tn__axis_of(x[0]), &flat);
}

/* a choice: no is right */
static bool is_known(const job *j, uint64_t set) {
  for (uint32_t k = 0; k < j->s.r.n; k++)
    if ((set >> k & 1) && (!tn__is_const(j->s.r.range[k]->src[0]) || tn__bounds_loops(&j->s.r, k))) return false;
  return true;
}

tn_node *tn__factors_flatten(tn__lowering *l, tn_node *body) {
  tn_ctx *c = l->c;
  tn__arena *a = l->a;
  job j = {.l = l, .c = c, .a = a, .body = body};
  for (tn_node *more = body; more; more = join_sums(c, a, more)) j.body = more;
  j.body = open_blocks(l, j.body);
  tn__survey_loops(c, a, j.body, &j.s);
  if (!tn__factors_find(&j.s, &j.f) || !is_known(&j, j.f.axis[0] | j.f.axis[1] | j.f.steps)) return body;
  tn_node *rows[TN__MAX_RANGES], *cols[TN__MAX_RANGES], *steps[TN__MAX_RANGES];
  const tn_node *load[2] = {j.f.operand[0], j.f.operand[1]};
  uint32_t n[2];
  n[0] = in_order(&j, j.f.axis[0], first_store(&j), &load[0], 1, rows);
  n[1] = in_order(&j, j.f.axis[1], first_store(&j), &load[1], 1, cols);
  uint32_t nsteps = in_order(&j, j.f.steps, load[!is_read_once(&j, load[0])], NULL, 0, steps);
  if (n[0] < 2 && n[1] < 2 && nsteps < 2) return j.body;
  flatten(&j, rows, n[0]);
  flatten(&j, cols, n[1]);
  flatten(&j, steps, nsteps);
  return j.body;
}

tn_node *tn__factors_lengthen(tn__lowering *l, tn_node *body, tn_node *x, int64_t size) {
  tn_ctx *c = l->c;
  tn__survey s;
  tn__factors f;
  tn__survey_loops(c, l->a, body, &s);
  if (!tn__factors_find(&s, &f) || f.sum->nsrc != 2 || f.sum->src[1] != x) return body;
  tn_node *longer = tn__range_like(c, x, tn__int(c, size), AX_REDUCE), *factor[2];
  tn_node *gate = tn__op2(c, OP_LT, longer, x->src[0]);
  for (int i = 0; i < 2; i++)
    factor[i] = tn__cast(c, gated(c, tn__substitute(c, f.operand[i], &x, &longer, 1), gate), TN_F32);
  tn_node *src[] = {tn__mul(c, factor[0], factor[1]), longer}, *sum = f.sum;
  tn_node *all =
      tn__node_make(c, &(tn__make){.op = OP_REDUCE, .src = src, .nsrc = 2, .ints = sum->ints, .nint = sum->nint});
  return tn__substitute(c, body, &sum, &all, 1);
}
