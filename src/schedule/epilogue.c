/* What a library's product may do to its result before it writes it: add a row, then apply a function.  Needs finished
 * items.  A kernel that does just that to a product which nobody else wants becomes part of the product's call.  Which
 * function it is shows by comparing with what the builders that tensors use make of it: sums and products in any order
 * and grouping, with their constants in any places.  (Own kernels of products take whatever else there is to do with an
 * element: nothing of this is about them.) */
#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"
#include "tensor/operands.h"
#include <math.h>

enum { MOST_TERMS = 8 }; /* of a sum or product that is compared */
static const double SAME_CONSTANT = 1e-6; /* constants are products of rounded ones */

typedef struct use { /* of a buffer */
  int writer;  /* the first item that writes it; -1 */
  int readers; /* how often items read it */
} use;

typedef struct candidate {
  tn__fuse *f;
  use *of;                  /* each buffer */
  uint32_t product, kernel; /* items */
  tn_node *store, *index;
  tn_node *x, *row;         /* loads: of the product; of what is added, NULL */
  int64_t width;            /* of a row */
} candidate;

static tn_node *row_added(tn_ctx *c, tn_node *x, tn_node *row) { return row ? tn__add(c, x, row) : x; }
static tn_node *with_relu(tn_ctx *c, tn_node *x, tn_node *row) { return tn__relu_of(c, row_added(c, x, row)); }
static tn_node *with_max(tn_ctx *c, tn_node *x, tn_node *row) {
  return tn__op2(c, OP_MAX, row_added(c, x, row), tn__const_num(c, x->dtype, 0));
}
static tn_node *with_gelu(tn_ctx *c, tn_node *x, tn_node *row) { return tn__gelu_tanh_of(c, row_added(c, x, row)); }

static const struct {
  tn__after after;
  tn_node *(*of)(tn_ctx *c, tn_node *x, tn_node *row);
} functions[] = {{TN__AFTER_NOTHING, row_added},
                 {TN__AFTER_RELU, with_relu},
                 {TN__AFTER_RELU, with_max},
                 {TN__AFTER_GELU, with_gelu}};

/* ---- finding ---- */

static void count_reads(use *of, const tn__item *it, int by) {
  for (uint32_t b = it->nout; b < it->nbuf; b++) of[it->buf[b]].readers += by;
}

static use *find_uses(const tn__fuse *f) {
  use *of = tn__arena_alloc(f->a, (f->s->bufs.n + 1) * sizeof *of);
  for (uint32_t b = 0; b < f->s->bufs.n; b++) of[b] = (use){.writer = -1};
  for (uint32_t i = f->s->items.n; i && i--;) {
    const tn__item *it = &f->s->items.v[i];
    for (uint32_t b = 0; b < it->nout; b++) of[it->buf[b]].writer = (int)i;
    count_reads(of, it, 1);
  }
  return of;
}

/* A product whose result goes to this buffer and from there only to one item. */
/* a choice: no is right */
static bool is_private_product(const candidate *k, int buf) {
  const tn__schedule *s = k->f->s;
  int at = k->of[buf].writer;
  if (at < 0 || s->bufs.v[buf].kind != BUF_TEMP || k->of[buf].readers != 1) return false;
  const tn__gemm *g = s->items.v[at].gemm;
  return g && tn__is_int_const(g->batch, 1) && tn__is_const(g->n) && tn__is_const(g->k) && g->k->ints[0] > 0 &&
         g->n->ints[0] > 1;
}

/* The loads: one of a product, where the result is stored; perhaps one of a row. */
/* a choice: no is right */
static bool find_loads(candidate *k) {
  const tn__item *it = &k->f->s->items.v[k->kernel];
  tn__nodes all = {0};
  tn__topo(k->f->a, &k->store->src[2], 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    if (n->op == OP_REDUCE) return false;
    if (n->op != OP_LOAD) continue;
    bool plain = n->nsrc == 2 && n->src[0]->op == OP_PARAM;
    if (plain && !k->x && n->src[1] == k->index && is_private_product(k, it->buf[n->src[0]->ints[0]])) k->x = n;
    else if (plain && !k->row && n->src[1]->op == OP_RANGE) k->row = n;
    else return false;
  }
  return k->x != NULL;
}

/* Is the result as large as the product, and what is added as long as a row of it, by the column? */
/* a choice: no is right */
static bool fits(candidate *k) {
  tn__fuse *f = k->f;
  const tn__item *it = &f->s->items.v[k->kernel];
  int product = it->buf[k->x->src[0]->ints[0]], result = it->buf[0];
  k->product = (uint32_t)k->of[product].writer;
  tn_node *width = f->s->items.v[k->product].gemm->n;
  k->width = width->ints[0];
  if (f->s->bufs.v[product].size != f->s->bufs.v[result].size ||
      f->s->bufs.v[product].dtype != f->s->bufs.v[result].dtype)
    return false;
  return !k->row || (k->row->dtype == k->x->dtype &&
                     tn__simplify_index(f->c, tn__op2(f->c, OP_MOD, k->index, width)) == k->row->src[1]);
}

/* a choice: no is right */
static bool find(candidate *k) {
  const tn__item *it = &k->f->s->items.v[k->kernel];
  if (it->gemm || it->conv || it->body->nsrc != 1 || it->body->src[0]->op != OP_STORE ||
      it->body->src[0]->src[0]->op != OP_PARAM)
    return false;
  k->store = it->body->src[0];
  k->index = k->store->src[1];
  return find_loads(k) && fits(k);
}

/* A sum or a product: what it is of, however it is grouped, and its constants as one. */
typedef struct terms {
  tn_node *v[MOST_TERMS];
  uint32_t n;
  double constant;
} terms;

/* a choice: no is right */
static bool find_terms(tn_node *n, terms *out) {
  tn_node *todo[MOST_TERMS];
  uint32_t left = 0;
  *out = (terms){.constant = n->op == OP_MUL};
  for (todo[left++] = n; left;) {
    tn_node *x = todo[--left];
    if (x->op == n->op && x->dtype == n->dtype) {
      if (left + 2 > MOST_TERMS) return false;
      todo[left++] = x->src[0];
      todo[left++] = x->src[1];
    } else if (x->op == OP_CONST) {
      double v = tn__eval_to_double(x->dtype, (uint64_t)x->ints[0]);
      out->constant = n->op == OP_MUL ? out->constant * v : out->constant + v;
    } else {
      if (out->n == MOST_TERMS) return false;
      out->v[out->n++] = x;
    }
  }
  return true;
}

static bool same(const candidate *k, tn_node *n, tn_node *g);

/* Each term of one is a term of the other: which one does not matter, for those that are the same as one are the same
 * as each other. */
/* a choice: no is right */
static bool same_terms(const candidate *k, tn_node *n, tn_node *g) {
  terms x, y;
  if (!find_terms(n, &x) || !find_terms(g, &y) || x.n != y.n) return false;
  if (!(fabs(x.constant - y.constant) <= SAME_CONSTANT * fabs(y.constant))) return false;
  for (uint32_t i = 0; i < y.n; i++) {
    uint32_t j = i;
    while (j < x.n && !same(k, x.v[j], y.v[i])) j++;
    if (j == x.n) return false;
    tn_node *found = x.v[j];
    x.v[j] = x.v[i];
    x.v[i] = found;
  }
  return true;
}

/* Is the kernel's value n what the graph g, a small one, says of numbered parameters? */
/* a choice: no is right */
static bool same(const candidate *k, tn_node *n, tn_node *g) {
  if (g->op == OP_PARAM) return n == (g->ints[0] ? k->row : k->x);
  if (g->op == OP_CONST || n->op != g->op || n->dtype != g->dtype || n->nsrc != g->nsrc) return n == g;
  if (g->op == OP_ADD || g->op == OP_MUL) return same_terms(k, n, g);
  bool either = g->op == OP_MIN || g->op == OP_MAX, good = true, other = either;
  for (uint32_t i = 0; i < n->nsrc && good; i++) good = same(k, n->src[i], g->src[i]);
  for (uint32_t i = 0; i < n->nsrc && other && !good; i++) other = same(k, n->src[i], g->src[1 - i]);
  return good || other;
}

/* ---- joining ---- */

/* The nodes of a body with its buffers numbered as in `buf`, which grows. */
static void renumber(const candidate *k, const tn__item *it, tn_node *const *root, uint32_t nroot, tn__item *out,
                     tn__nodes *old, tn__nodes *new_) {
  tn__nodes all = {0};
  tn__topo(k->f->a, root, nroot, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *p = all.v[i], *size = p->nsrc ? p->src[0] : NULL;
    uint32_t at = 0;
    if (p->op != OP_PARAM) continue;
    while (at < out->nbuf && out->buf[at] != it->buf[p->ints[0]]) at++;
    if (at == out->nbuf) out->buf[out->nbuf++] = it->buf[p->ints[0]];
    tn__vec_push(k->f->a, old, p);
    tn_node *q = tn__node_make(k->f->c, &(tn__make){.op = OP_PARAM,
                                                    .dtype = p->dtype,
                                                    .src = &size,
                                                    .nsrc = 1,
                                                    .ints = (int64_t[]){at, -1},
                                                    .nint = 2,
                                                    .device = -1});
    tn__vec_push(k->f->a, new_, q);
  }
}

/* The product's value where the kernel stores: its rows and columns, over which it is stored, by the index. */
static tn_node *product_at(const candidate *k, const tn__gemm *g, const tn_node *store) {
  tn_ctx *c = k->f->c;
  const tn_node *size[2] = {g->m, g->n};
  tn_node *width = tn__int(c, k->width),
          *at[2] = {tn__op2(c, OP_IDIV, k->index, width), tn__op2(c, OP_MOD, k->index, width)}, *old[2], *new_[2];
  uint32_t n = 0;
  for (uint32_t i = 0; i < 2; i++) {
    if (tn__is_int_const(size[i], 1)) continue; /* no loop */
    old[n] = store->src[3 + n];
    new_[n++] = tn__simplify_index(c, at[i]);
  }
  return tn__substitute(c, store->src[2], old, new_, n);
}

static void join(const candidate *k, tn__after after) {
  tn__fuse *f = k->f;
  tn__item *from = &f->s->items.v[k->product], *it = &f->s->items.v[k->kernel], out = {.nout = 1};
  tn__gemm *g = tn__arena_dup(f->a, from->gemm, sizeof *g);
  tn__nodes old = {0}, new_ = {0};
  tn_node *x = product_at(k, from->gemm, from->body->src[0]);
  out.buf = tn__arena_alloc(f->a, (from->nbuf + it->nbuf) * sizeof *out.buf);
  out.buf[out.nbuf++] = it->buf[0];
  g->c = it->buf[0];
  g->after = after;
  g->row = k->row ? it->buf[k->row->src[0]->ints[0]] : -1;
  renumber(k, from, &x, 1, &out, &old, &new_);
  x = tn__substitute(f->c, x, old.v, new_.v, old.n);
  /* first the loads of the product, so that its own buffers are not taken for the kernel's */
  old.n = new_.n = 0;
  tn_node *rest[2] = {k->store->src[0], k->row};
  renumber(k, it, rest, k->row ? 2 : 1, &out, &old, &new_);
  tn__vec_push(f->a, &old, k->x);
  tn__vec_push(f->a, &new_, x);
  out.body = tn__sink(f->c, (tn_node *[]){tn__substitute(f->c, k->store, old.v, new_.v, old.n)}, 1, "gemm");
  out.gemm = g;
  k->of[from->buf[0]].writer = -1;
  count_reads(k->of, from, -1);
  count_reads(k->of, it, -1);
  count_reads(k->of, &out, 1);
  *it = out;
  *from = (tn__item){0};
}

static void drop_joined(tn__schedule *s) {
  uint32_t n = 0;
  for (uint32_t i = 0; i < s->items.n; i++)
    if (s->items.v[i].body) s->items.v[n++] = s->items.v[i];
  s->items.n = n;
}

/* What the kernel does with the product, if the library can do it, too. */
/* a choice: no is right */
static bool find_function(const candidate *k, tn__after *after) {
  tn__fuse *f = k->f;
  int dtype = k->x->dtype;
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    if (!f->dev->ops->has_after(f->dev, dtype, functions[i].after)) continue;
    tn_node *x = tn__param(f->c, dtype, 0, -1, NULL, 0), *row = k->row ? tn__param(f->c, dtype, 1, -1, NULL, 0) : NULL;
    tn_node *sink = tn__sink(f->c, (tn_node *[]){functions[i].of(f->c, x, row)}, 1, "outputs");
    *after = functions[i].after;
    if (same(k, k->store->src[2], tn__simplify_graph(f->c, sink)->src[0])) return true;
  }
  return false;
}

void tn__epilogue_join(tn__fuse *f) {
  if (!f->dev->ops->has_after || f->c->mode == TN_MODE_STRICT) return;
  use *of = find_uses(f);
  for (uint32_t i = 0; i < f->s->items.n; i++) {
    candidate k = {.f = f, .of = of, .kernel = i};
    tn__after after;
    if (find(&k) && find_function(&k, &after)) join(&k, after);
  }
  drop_joined(f->s);
}
