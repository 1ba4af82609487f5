/* Range assignment, second sweep: kernel bodies.
 *
 * Needs the demands of the first sweep.  Walks the graph from inputs to outputs and gives every demand its value, an expression
 * over loads and ranges; then every kernel its SINK of stores, and every item its buffers. */
#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

static tn_node *zero_of(tn_ctx *c, int dtype) { return tn__const_num(c, dtype, 0); }

static tn_node *buffer_of(tn__fuse *f, int buf) {
  const tn__buf *b = &f->s->bufs.v[buf];
  tn_node *size = b->size;
  return tn__node_make(f->c, &(tn__make){.op = OP_PARAM, .dtype = b->dtype, .src = &size, .nsrc = 1, .ints = (int64_t[]){buf, -1}, .nint = 2, .device = -1});
}

static tn_node *load(tn__fuse *f, int buf, tn_node *n, tn_node *const *idx, tn_node *gate) {
  tn_node *src[3] = {buffer_of(f, buf), tn__layout_at(f, n, idx), gate};
  return tn__node_make(f->c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = gate ? 3 : 2});
}

static tn_node *value_at(tn__fuse *f, tn_node *n, const tn__demand *d, int i) {
  const tn__info *in = tn__info_of(f, n->src[i]);
  for (uint32_t j = 0; j < in->want.n; j++) {
    const tn__demand *e = &in->want.v[j];
    if (e->k == d->k && e->idx == d->child_idx[i] && e->gate == d->child_gate[i] && e->value) return e->value;
  }
  tn__fail(f->c, TN_ERUN, "internal: %s has no value where %s wants it", tn__ops[n->src[i]->op].text, tn__ops[n->op].text);
}

/* v where its gate holds, else 0; a gated load is that already */
static tn_node *gated(tn_ctx *c, tn_node *v, tn_node *gate) {
  if (!gate || (v->op == OP_LOAD && v->nsrc == 3 && v->src[2] == gate)) return v;
  return tn__where(c, gate, v, zero_of(c, v->dtype));
}

static tn_node *reduce(tn_ctx *c, tn__op op, tn_node *v, tn_node *ranges) {
  tn_node *src[TN_MAX_RANK + 1] = {v};
  uint32_t n = 1;
  for (uint32_t i = 0; i < ranges->nsrc; i++)
    if (ranges->src[i]->op == OP_RANGE) src[n++] = ranges->src[i];
  if (n == 1) return tn__op2(c, op, tn__const_bits(c, v->dtype, tn__eval_reduce_init((int)op, v->dtype)), v);
  return tn__node_make(c, &(tn__make){.op = OP_REDUCE, .src = src, .nsrc = n, .ints = (int64_t[]){op, 1}, .nint = 2});
}

static tn_node *contract(tn_ctx *c, tn_node *n, tn_node *x, tn_node *y, tn_node *ranges) {
  int acc = tn__dtype_acc(n->dtype);
  return tn__cast(c, reduce(c, OP_ADD, tn__mul(c, tn__cast(c, x, acc), tn__cast(c, y, acc)), ranges), n->dtype);
}

/* x at a data-dependent place: the variable that stood for the place gives way to the index, clamped so that the load is safe */
static tn_node *gather(tn__fuse *f, tn_node *n, const tn__demand *d) {
  tn_ctx *c = f->c;
  tn_node *size = n->src[0]->dim[0], *zero = tn__int(c, 0), *at = tn__cast(c, value_at(f, n, d, 1), TN__INDEX);
  if (tn__is_int_const(size, 0)) return zero_of(c, n->dtype);
  tn_node *last = tn__add(c, size, tn__int(c, -1));
  tn_node *safe = tn__op2(c, OP_MAX, tn__op2(c, OP_MIN, at, last), zero), *var = d->ranges;
  tn_node *x = tn__substitute(c, value_at(f, n, d, 0), &var, &safe, 1);
  tn_node *valid = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, at), tn__op2(c, OP_LT, at, size));
  return tn__where(c, valid, x, zero_of(c, n->dtype));
}

static tn_node *inline_value(tn__fuse *f, tn_node *n, const tn__demand *d) {
  tn_ctx *c = f->c;
  static const uint8_t scalar_of[OP_COUNT] = {[OP_SUM] = OP_ADD, [OP_PROD] = OP_MUL, [OP_RMAX] = OP_MAX, [OP_RMIN] = OP_MIN};
  switch (n->op) {
  case OP_CONST: return n;
  case OP_IOTA: return tn__cast(c, d->idx->src[0], n->dtype);
  case OP_SUM: case OP_PROD: case OP_RMAX: case OP_RMIN: return reduce(c, scalar_of[n->op], value_at(f, n, d, 0), d->ranges);
  case OP_FOLD: return reduce(c, OP_ADD, gated(c, value_at(f, n, d, 0), d->child_gate[0]), d->ranges);
  case OP_CONTRACT: return contract(c, n, value_at(f, n, d, 0), value_at(f, n, d, 1), d->ranges);
  case OP_GATHER: return gather(f, n, d);
  case OP_ASSIGN: return value_at(f, n, d, 1);
  case OP_PAD: {
    tn_node *v = value_at(f, n, d, 0);
    return d->child_gate[0] == d->gate ? v : gated(c, v, d->child_gate[0]);
  }
  default: break;
  }
  if (!tn__is_elementwise(n)) return value_at(f, n, d, 0);
  if (n->dtype == TN__INDEX && n->rank == 0) return n;
  tn_node *src[3] = {0};
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = value_at(f, n, d, (int)i);
  return tn__node_make(c, &(tn__make){.op = n->op, .dtype = n->dtype, .src = src, .nsrc = n->nsrc});
}

static void emit_values(tn__fuse *f, tn_node *n) {
  tn__info *in = tn__info_of(f, n);
  for (uint32_t i = 0; i < in->want.n; i++) {
    tn__demand *d = &in->want.v[i];
    if ((n->op == OP_SCATTER || in->gemm) && (int)i == in->host) continue; /* roots only: what they store is special */
    if (n->dtype == TN__INDEX && n->rank == 0) d->value = n;
    else if (in->buf >= 0 && d->k != in->kernel) d->value = load(f, in->buf, n, d->idx->src, d->gate);
    else d->value = inline_value(f, n, d);
  }
}

static tn_node *store(tn__fuse *f, tn__op op, tn_node *buf, tn_node *at, tn_node *v, tn_node *const *ranges, uint32_t n) {
  tn_node *src[TN_MAX_RANK * 2 + 3] = {buf, at, v};
  uint32_t m = 3;
  for (uint32_t i = 0; i < n; i++)
    if (ranges[i]->op == OP_RANGE) src[m++] = ranges[i];
  return tn__node_make(f->c, &(tn__make){.op = op, .src = src, .nsrc = m});
}

static tn_node *after(tn_ctx *c, tn_node *buf, tn_node *effect) {
  tn_node *src[2] = {buf, effect};
  return tn__node_make(c, &(tn__make){.op = OP_AFTER, .src = src, .nsrc = 2});
}

static tn_node *store_scatter(tn__fuse *f, tn_node *n, const tn__info *in) {
  tn_ctx *c = f->c;
  const tn__demand *d = &in->want.v[in->host];
  tn_node *buf = buffer_of(f, in->buf), *idx[TN_MAX_RANK], *size = n->dim[0], *zero = tn__int(c, 0);
  tn_node *copy = store(f, OP_STORE, buf, tn__index_flat(c, n->dim, d->idx->src, n->rank), value_at(f, n, d, 0), d->idx->src, n->rank);
  if (tn__is_int_const(size, 0)) return copy;
  uint32_t s = n->src[1]->rank;
  tn_node *at = tn__cast(c, value_at(f, n, d, 1), TN__INDEX), *upd = value_at(f, n, d, 2);
  tn_node *valid = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, at), tn__op2(c, OP_LT, at, size));
  idx[0] = tn__op2(c, OP_MAX, tn__op2(c, OP_MIN, at, tn__add(c, size, tn__int(c, -1))), zero);
  for (uint32_t i = 1; i < n->rank; i++) idx[i] = d->ranges->src[s + i - 1];
  /* outside, the neutral element of addition is added: -0 for floats, which leaves even -0 alone */
  tn_node *none = tn__is_float(n->dtype) ? tn__const_num(c, n->dtype, -0.0) : zero_of(c, n->dtype);
  return store(f, OP_STOREADD, after(c, buf, copy), tn__index_flat(c, n->dim, idx, n->rank), tn__where(c, valid, upd, none), d->ranges->src, d->ranges->nsrc);
}

/* What the library call computes, as a kernel body */
static tn_node *gemm_body(tn__fuse *f, const tn__gemm *g) {
  tn_ctx *c = f->c;
  tn_node *size[4] = {g->batch, g->m, g->n, g->k}, *r[4];
  for (int i = 0; i < 4; i++) r[i] = tn__is_int_const(size[i], 1) ? tn__int(c, 0) : tn__range(c, size[i], i < 3 ? AX_LOOP : AX_REDUCE, i);
  tn_node *x[2];
  for (int i = 0; i < 2; i++) {
    const struct tn__gemm_operand *o = i ? &g->b : &g->a;
    tn_node *row = r[1 + i], *row_stride = o->trans ? tn__int(c, 1) : o->ld, *k_stride = o->trans ? o->ld : tn__int(c, 1);
    tn_node *at = tn__add(c, o->offset, tn__mul(c, r[0], o->batch_stride));
    at = tn__add(c, at, tn__add(c, tn__mul(c, row, row_stride), tn__mul(c, r[3], k_stride)));
    tn_node *src[2] = {buffer_of(f, o->buf), tn__simplify_index(c, at)};
    x[i] = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = 2});
  }
  tn_node *k = tn__list(c, &r[3], 1), *v = reduce(c, OP_ADD, tn__mul(c, x[0], x[1]), k);
  tn_node *st = store(f, OP_STORE, buffer_of(f, g->c), tn__index_flat(c, size, r, 3), v, r, 3);
  return tn__sink(c, &st, 1, "gemm");
}

static int buf_of(tn__fuse *f, tn_node *n) {
  const tn__info *in = tn__info_of(f, n);
  if (in->buf < 0) tn__fail(f->c, TN_ERUN, "internal: %s should stand in memory", tn__ops[n->op].text);
  return in->buf;
}

static tn__item make_gemm(tn__fuse *f, tn_node *n) {
  tn__gemm *g = tn__arena_dup(f->a, tn__info_of(f, n)->gemm, sizeof *g);
  g->a.buf = buf_of(f, g->a.base);
  g->b.buf = buf_of(f, g->b.base);
  g->c = buf_of(f, n);
  return (tn__item){.body = gemm_body(f, g), .gemm = g};
}

static tn__item make_kernel(tn__fuse *f, const tn__seed *g) {
  tn__nodes stores = {0};
  for (uint32_t i = 0; i < g->roots.n; i++) {
    tn_node *n = g->roots.v[i];
    const tn__info *in = tn__info_of(f, n);
    const tn__demand *d = &in->want.v[in->host];
    if (tn__without_elements(n)) continue;
    tn_node *st = n->op == OP_SCATTER ? store_scatter(f, n, in)
                                      : store(f, OP_STORE, buffer_of(f, in->buf), tn__layout_at(f, n, d->idx->src), d->value, d->idx->src, n->rank);
    tn__vec_push(f->a, &stores, st);
  }
  return (tn__item){.body = tn__sink(f->c, stores.v, stores.n, "kernel")};
}

/* Numbers a body's buffers from 0, written ones first, and lists them. */
static void bind_buffers(tn__fuse *f, tn__item *it) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(f->a, &it->body, 1, &all);
  it->buf = tn__arena_alloc(f->a, (all.n + 1) * sizeof *it->buf);
  it->nbuf = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < all.n; i++) {
      tn_node *p = all.v[i];
      if (p->op != OP_PARAM) continue;
      bool written = false;
      for (uint32_t j = 0; j < all.n && !written; j++)
        if (all.v[j]->op == OP_STORE || all.v[j]->op == OP_STOREADD) written = all.v[j]->src[0] == p || (all.v[j]->src[0]->op == OP_AFTER && all.v[j]->src[0]->src[0] == p);
      if (written != (pass == 0)) continue;
      tn__vec_push(f->a, &old, p);
      tn_node *size = p->src[0];
      tn_node *q = tn__node_make(f->c, &(tn__make){.op = OP_PARAM, .dtype = p->dtype, .src = &size, .nsrc = 1, .ints = (int64_t[]){it->nbuf, -1}, .nint = 2, .device = -1});
      tn__vec_push(f->a, &new_, q);
      it->buf[it->nbuf++] = (int)p->ints[0];
    }
    if (pass == 0) it->nout = it->nbuf;
  }
  it->body = tn__substitute(f->c, it->body, old.v, new_.v, old.n);
}

/* Order: an item runs once the writers of what it reads have run; among the ready ones the deepest in the graph first. */
static void order_items(tn__fuse *f, tn__item *item, uint32_t n) {
  int *writer = tn__arena_alloc(f->a, (f->s->bufs.n + 1) * sizeof *writer);
  bool *done = tn__arena_zalloc(f->a, n + 1);
  for (uint32_t b = 0; b < f->s->bufs.n; b++) writer[b] = -1;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t b = 0; b < item[i].nout; b++) writer[item[i].buf[b]] = (int)i;
  for (uint32_t left = n; left; left--) {
    uint32_t pick = n;
    for (uint32_t i = n; i-- > 0 && pick == n;) {
      if (done[i]) continue;
      bool ready = true;
      for (uint32_t b = item[i].nout; b < item[i].nbuf && ready; b++) ready = writer[item[i].buf[b]] < 0 || done[writer[item[i].buf[b]]];
      if (ready) pick = i;
    }
    if (pick == n) tn__fail(f->c, TN_ERUN, "internal: kernels depend on each other in a circle");
    done[pick] = true;
    tn__vec_push(f->a, &f->s->items, item[pick]);
  }
}

void tn__fuse_emit(tn__fuse *f) {
  for (uint32_t i = 0; i < f->order.n; i++) emit_values(f, f->order.v[i]);
  tn__item *item = tn__arena_alloc(f->a, (f->seeds.n + 1) * sizeof *item);
  uint32_t n = 0;
  for (uint32_t k = 0; k < f->seeds.n; k++) {
    const tn__seed *g = &f->seeds.v[k];
    if (!g->roots.n) continue; /* joined another */
    item[n] = tn__info_of(f, g->roots.v[0])->gemm ? make_gemm(f, g->roots.v[0]) : make_kernel(f, g);
    if (!item[n].body->nsrc) continue; /* stores nothing */
    bind_buffers(f, &item[n++]);
  }
  order_items(f, item, n);
}
