/* Range assignment, second sweep: kernel bodies.
 *
 * Needs the demands of the first sweep.  Walks the graph from inputs to outputs and gives every demand its value, an
 * expression over loads and ranges; then every kernel its SINK of stores, and every item its buffers. */
#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

static tn_node *zero_of(tn_ctx *c, int dtype) { return tn__const_num(c, dtype, 0); }

static tn_node *buffer_of(tn__fuse *f, int buf) {
  const tn__buf *b = &f->s->bufs.v[buf];
  tn_node *size = b->size;
  return tn__node_make(f->c, &(tn__make){.op = OP_PARAM,
                                         .dtype = b->dtype,
                                         .src = &size,
                                         .nsrc = 1,
                                         .ints = (int64_t[]){buf, -1},
                                         .nint = 2,
                                         .device = -1});
}

static tn_node *load(tn__fuse *f, int buf, tn_node *n, tn_node *const *idx, tn_node *gate) {
  tn_node *src[3] = {buffer_of(f, buf), tn__layout_at(f, n, idx), gate};
  return tn__node_make(f->c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = gate ? 3 : 2});
}

/* The value of n's source s, wanted at a place by kernel k */
static tn_node *find_value(tn__fuse *f, const tn_node *n, const tn_node *s, int k, const tn_node *idx,
                           const tn_node *gate) {
  const tn__info *in = tn__info_of(f, s);
  for (int j = tn__demand_last(f, in, k); j >= 0; j = in->want.v[j].before) {
    const tn__demand *e = &in->want.v[j];
    if (e->idx == idx && e->gate == gate && e->value) return e->value;
  }
  tn__fail(f->c, TN_ERUN, "internal: %s has no value where %s wants it", tn__ops[s->op].text, tn__ops[n->op].text);
}

static tn_node *value_at(tn__fuse *f, const tn_node *n, const tn__demand *d, int i) {
  return find_value(f, n, n->src[i], d->k, d->child_idx[i], d->child_gate[i]);
}

/* v where its gate holds, else 0; a gated load is that already */
static tn_node *gated(tn_ctx *c, tn_node *v, tn_node *gate) {
  if (!gate || gate->lo > 0 || (v->op == OP_LOAD && v->nsrc == 3 && v->src[2] == gate)) return v;
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

/* Products and their sum are as wide as the dtype accumulates. */
static tn_node *contract(tn_ctx *c, int dtype, tn_node *x, tn_node *y, tn_node *ranges) {
  int acc = tn__dtype_acc(dtype);
  return tn__cast(c, reduce(c, OP_ADD, tn__mul(c, tn__cast(c, x, acc), tn__cast(c, y, acc)), ranges), dtype);
}

static tn_node *both(tn_ctx *c, tn_node *gate, tn_node *old) { return old ? tn__op2(c, OP_AND, old, gate) : gate; }

/* x, of which what is loaded at the datum's place is wanted where the gate holds alone: threads in step whose gates are
 * all closed ask memory for nothing. */
static tn_node *loaded_where(tn__fuse *f, tn_node *x, const tn_node *datum, tn_node *gate) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__map hangs;
  tn__map_init(&hangs, f->a);
  tn__topo(f->a, &x, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    bool own = n == datum;
    for (uint32_t s = 0; s < n->nsrc && !own; s++) own = tn__map_getp(&hangs, n->src[s]) != NULL;
    if (!own) continue;
    tn__map_putp(&hangs, n, n);
    if (n->op != OP_LOAD || !tn__map_getp(&hangs, n->src[1])) continue;
    tn_node *src[3] = {n->src[0], n->src[1], both(f->c, gate, tn__gate_of(n))};
    tn__vec_push(f->a, &old, n);
    tn__vec_push(f->a, &new_, tn__node_make(f->c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = 3}));
  }
  return tn__substitute(f->c, x, old.v, new_.v, old.n);
}

/* The counter of which an integer is the number, NULL */
static tn_node *counted(tn_ctx *c, tn_node *x) {
  int64_t v;
  if (x->op == OP_CONST) return tn__const_int(x, &v) ? tn__int(c, v) : NULL;
  if (x->op != OP_CAST || x->src[0]->dtype != TN__INDEX || tn__may_wrap(x->src[0])) return NULL;
  bool whole = x->dtype == TN_I64 || (x->dtype == TN_I32 && x->src[0]->lo >= INT32_MIN && x->src[0]->hi <= INT32_MAX);
  return whole ? x->src[0] : NULL;
}

/* A counter where a condition holds, and else a place outside: then that is the condition under which it is inside, and
 * the counter moves from turn to turn as others do.  NULL: the index is not of that form. */
static tn_node *chosen_counter(tn_ctx *c, const tn_node *index, const tn_node *size) {
  if (index->op != OP_WHERE || index->src[2]->op != OP_CONST || index->src[2]->hi >= 0) return NULL;
  tn_node *x = counted(c, index->src[1]);
  return x && x->lo >= 0 && x->hi < size->lo ? x : NULL;
}

/* x at a data-dependent place: the datum that stood for it gives way to the index, clamped so that the load is safe */
static tn_node *gather(tn__fuse *f, tn_node *n, const tn__demand *d) {
  tn_ctx *c = f->c;
  tn_node *index = value_at(f, n, d, 1), *size = n->src[0]->dim[0], *zero = tn__int(c, 0), *datum = d->ranges;
  if (tn__is_int_const(size, 0)) return zero_of(c, n->dtype);
  tn_node *at = tn__cast(c, index, TN__INDEX), *last = tn__add(c, size, tn__int(c, -1));
  tn_node *safe = tn__op2(c, OP_MAX, tn__op2(c, OP_MIN, at, last), zero), *x = value_at(f, n, d, 0);
  tn_node *valid = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, at), tn__op2(c, OP_LT, at, size));
  if (n->src[0]->op == OP_SPANS && valid->lo > 0) valid = tn__const_num(c, TN_BOOL, 1); /* proofs see through it */
  tn_node *counter = f->dev->target.group ? chosen_counter(c, index, size) : NULL;
  if (counter) safe = counter, valid = index->src[0];
  if (f->dev->target.group && !tn__is_const(valid)) x = loaded_where(f, x, datum, valid);
  return gated(c, tn__substitute(c, x, &datum, &safe, 1), valid);
}

/* Counters are compared as such, be it as numbers of i64 that a mask is written: so masks are the gates of loads. */
static tn_node *compared(tn_ctx *c, int op, tn_node *const *src) {
  bool compares = op == OP_LT || op == OP_LE || op == OP_EQ || op == OP_NE;
  if (!compares || (src[0]->dtype != TN_I64 && src[0]->dtype != TN_I32)) return NULL;
  tn_node *x = counted(c, src[0]), *y = counted(c, src[1]);
  return x && y ? tn__simplify_index(c, tn__op2(c, (tn__op)op, x, y)) : NULL;
}

static tn_node *inline_value(tn__fuse *f, tn_node *n, const tn__demand *d) {
  tn_ctx *c = f->c;
  switch (n->op) {
  case OP_CONST: return n;
  case OP_IOTA: return tn__cast(c, d->idx->src[0], n->dtype);
  case OP_SUM:
  case OP_PROD:
  case OP_RMAX:
  case OP_RMIN: return reduce(c, tn__ops[n->op].combine, value_at(f, n, d, 0), d->ranges);
  case OP_FOLD: return reduce(c, OP_ADD, gated(c, value_at(f, n, d, 0), d->child_gate[0]), d->ranges);
  case OP_CONTRACT: return contract(c, n->dtype, value_at(f, n, d, 0), value_at(f, n, d, 1), d->ranges);
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
  if (d->branch) return value_at(f, n, d, d->branch);
  tn_node *src[3] = {0};
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = value_at(f, n, d, (int)i);
  tn_node *test = compared(c, n->op, src);
  if (test) return test;
  return tn__node_make(c, &(tn__make){.op = n->op, .dtype = n->dtype, .src = src, .nsrc = n->nsrc});
}

static void emit_values(tn__fuse *f, tn_node *n) {
  tn__info *in = tn__info_of(f, n);
  for (uint32_t i = 0; i < in->want.n; i++) {
    tn__demand *d = &in->want.v[i];
    /* roots only: what they store is special */
    if ((n->op == OP_SCATTER || tn__is_called(in)) && (int)i == in->host) continue;
    if (n->dtype == TN__INDEX && n->rank == 0) d->value = n;
    else if (in->buf >= 0 && !tn__writes(f, in, d->k)) d->value = load(f, in->buf, n, d->idx->src, d->gate);
    else d->value = inline_value(f, n, d);
  }
}

/* gate: NULL: always; by: what combines a STOREADD's values */
static tn_node *store(tn__fuse *f, tn__op op, int by, tn_node *buf, tn_node *at, tn_node *v, tn_node *gate,
                      tn_node *const *ranges, uint32_t n) {
  tn_node *src[TN_MAX_RANK * 2 + 4] = {buf, at, v, gate};
  uint32_t m = gate ? 4 : 3;
  for (uint32_t i = 0; i < n; i++)
    if (ranges[i]->op == OP_RANGE) src[m++] = ranges[i];
  int64_t ints = by;
  return tn__node_make(f->c, &(tn__make){.op = op, .src = src, .nsrc = m, .ints = &ints, .nint = by != OP_ADD});
}

static tn_node *after(tn_ctx *c, tn_node *buf, tn_node *effect) {
  tn_node *src[2] = {buf, effect};
  return tn__node_make(c, &(tn__make){.op = OP_AFTER, .src = src, .nsrc = 2});
}

/* What was known of the graph is required of memory, where it tells checks that stores do not meet. */
static tn_node *require_of_places(tn__fuse *f, const tn_node *places, tn__requirement what) {
  tn_node *buf = buffer_of(f, tn__info_of(f, places)->buf);
  int64_t ints = what;
  return tn__node_make(f->c, &(tn__make){.op = OP_REQUIRE, .src = &buf, .nsrc = 1, .ints = &ints, .nint = 1});
}

/* The place of an update, held between the ends of the scatter, so that the places' arithmetic does not overflow where
 * nothing is done, or of what its line's loops have for themselves, whatever stands in memory. */
static tn_node *held_place(tn__fuse *f, const tn_node *n, const tn__demand *d, tn_node *at) {
  tn_ctx *c = f->c;
  int64_t each;
  uint32_t apart = tn__axes_of_lines(f, n, &each);
  tn_node *first = tn__int(c, 0), *end = apart ? tn__int(c, each) : n->dim[0];
  for (uint32_t i = 0; i < apart; i++)
    first = tn__add(c, tn__mul(c, first, n->src[1]->dim[i]), d->ranges->src[i]);
  first = tn__mul(c, first, end);
  if (apart) at = tn__sub(c, at, first);
  at = tn__op2(c, OP_MAX, tn__op2(c, OP_MIN, at, tn__add(c, end, tn__int(c, -1))), tn__int(c, 0));
  return apart ? tn__add(c, first, at) : at;
}

static tn_node *store_scatter(tn__fuse *f, tn_node *n, const tn__info *in, tn__nodes *stores) {
  tn_ctx *c = f->c;
  const tn__demand *d = &in->want.v[in->host];
  tn_node *buf = buffer_of(f, in->buf), *idx[TN_MAX_RANK], *size = n->dim[0], *zero = tn__int(c, 0);
  tn_node *copy = store(f, OP_STORE, OP_ADD, buf, tn__layout_at(f, n, d->idx->src), value_at(f, n, d, 0), NULL,
                        d->idx->src, n->rank);
  if (tn__is_int_const(size, 0)) return copy;
  bool own_places = tn__has_own_places(&f->dev->target, n);
  if (own_places) tn__vec_push(f->a, stores, require_of_places(f, n->src[1], REQ_DISTINCT));
  uint32_t s = n->src[1]->rank;
  tn_node *at = tn__cast(c, value_at(f, n, d, 1), TN__INDEX), *upd = value_at(f, n, d, 2);
  tn_node *valid = tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, at), tn__op2(c, OP_LT, at, size));
  idx[0] = held_place(f, n, d, at);
  for (uint32_t i = 1; i < n->rank; i++) idx[i] = d->ranges->src[s + i - 1];
  /* what one update is added to need not be looked up where all of it is one number */
  bool number = own_places && upd->dtype == n->dtype && tn__is_over_number(n);
  bool known = number || tn__is_covered(&f->dev->target, n);
  if (number) upd = tn__added_to_number(c, n, upd);
  return store(f, known ? OP_STORE : OP_STOREADD, tn__combines_by(n), after(c, buf, copy),
               tn__layout_at(f, n, idx), upd, valid, d->ranges->src, d->ranges->nsrc);
}

/* Is a sum or product of i32 one of integers without bounds, too? */
static bool stays_within(const tn_node *n) {
  int64_t lo = INT64_MAX, hi = INT64_MIN;
  if (n->dtype != TN_I32) return false;
  for (int i = 0; i < 4; i++) {
    const tn_node *a = n->src[0], *b = n->nsrc > 1 ? n->src[1] : NULL;
    int64_t x = i & 1 ? a->hi : a->lo, y = !b ? -1 : i & 2 ? b->hi : b->lo;
    int64_t z = n->op == OP_ADD ? x + y : x * y;
    if (z < lo) lo = z;
    if (z > hi) hi = z;
  }
  return lo >= INT32_MIN && hi <= INT32_MAX;
}

/* An integer whose sums and products, as far as they do not wrap, are those of indices: so they are seen through. */
static tn_node *as_index(tn__fuse *f, tn_node *x) {
  tn__nodes all = {0};
  tn__map form;
  tn__map_init(&form, f->a);
  tn__topo(f->a, &x, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i], *src[2], *y = NULL;
    bool whole = tn__is_int(n->dtype) || n->dtype == TN__INDEX;
    bool held = n->op == OP_CAST && n->lo == n->src[0]->lo && n->hi == n->src[0]->hi;
    bool sums = (n->op == OP_ADD || n->op == OP_MUL || n->op == OP_NEG) && (n->dtype == TN_I64 || stays_within(n));
    for (uint32_t s = 0; s < n->nsrc && s < 2; s++) src[s] = tn__map_getp(&form, n->src[s]);
    if (whole && held && src[0]) y = src[0];
    else if (whole && sums)
      y = tn__node_make(f->c, &(tn__make){.op = n->op, .dtype = TN__INDEX, .src = src, .nsrc = n->nsrc});
    else if (whole) y = tn__cast(f->c, n, TN__INDEX);
    if (y) tn__map_putp(&form, n, y);
  }
  return tn__simplify_index(f->c, tn__map_getp(&form, x));
}

/* Is the place, which is where a span begins and more, in that span?  It is, and so known to be in no other. */
static tn_node *in_span(tn__fuse *f, const tn_node *from, tn_node **at) {
  tn_ctx *c = f->c;
  tn__nodes all = {0};
  tn_node *buf = buffer_of(f, tn__info_of(f, from)->buf), *low = NULL;
  tn__topo(f->a, at, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_LOAD && all.v[i]->src[0] == buf) low = all.v[i];
  if (!low) tn__fail(c, TN_ESTATE, "internal error: a place in no span");
  tn_node *line = as_index(f, low->src[1]), *gate = low->nsrc > 2 ? low->src[2] : NULL;
  tn_node *first = tn__node_with(c, low, (tn_node *[]){buf, line, gate});
  tn_node *next = tn__node_with(c, low, (tn_node *[]){buf, tn__add(c, line, tn__int(c, 1)), gate});
  *at = as_index(f, tn__substitute(c, *at, &low, &first, 1));
  return tn__op2(c, OP_AND, tn__op2(c, OP_LE, tn__cast(c, first, TN__INDEX), *at),
                 tn__op2(c, OP_LT, *at, tn__cast(c, next, TN__INDEX)));
}

/* Of values that all go to places of their own. */
static tn_node *store_placed(tn__fuse *f, tn_node *n, const tn__info *in, tn__nodes *stores) {
  tn_ctx *c = f->c;
  const tn__demand *d = &in->want.v[in->host];
  tn_node *at = tn__cast(c, value_at(f, n, d, 1), TN__INDEX);
  bool stands = tn__info_of(f, n->src[1])->buf >= 0; /* then it is known as a permutation */
  const tn_node *spans = stands ? NULL : tn__spans_of(&f->dev->target, n->src[1]);
  tn_node *span = spans ? in_span(f, spans, &at) : NULL;
  tn_node *inside = tn__op2(c, OP_AND, tn__op2(c, OP_LE, tn__int(c, 0), at), tn__op2(c, OP_LT, at, n->dim[0]));
  if (span) inside = tn__op2(c, OP_AND, inside, span);
  tn__vec_push(f->a, stores,
               spans ? require_of_places(f, spans, REQ_SORTED) : require_of_places(f, n->src[1], REQ_PERMUTED));
  tn_node *value = tn__added_to_number(c, n, value_at(f, n, d, 2));
  return store(f, OP_STORE, OP_ADD, buffer_of(f, in->buf), at, value, inside, d->env->src, d->env->nsrc);
}

/* A loop over what is stored, or over what is summed up for it */
static tn_node *open_loop(tn_ctx *c, tn_node *size, bool stored, int64_t id) {
  return tn__range(c, size, stored ? AX_LOOP : AX_REDUCE, stored ? ROLE_OUTPUT : ROLE_REDUCTION, id);
}

/* What the library call computes, as a kernel body */
static tn_node *gemm_body(tn__fuse *f, const tn__gemm *g) {
  tn_ctx *c = f->c;
  tn_node *size[4] = {g->batch, g->m, g->n, g->k}, *r[4];
  for (int i = 0; i < 4; i++)
    r[i] = tn__is_int_const(size[i], 1) ? tn__int(c, 0) : open_loop(c, size[i], i < 3, i);
  tn_node *x[2];
  for (int i = 0; i < 2; i++) {
    const struct tn__gemm_operand *o = i ? &g->b : &g->a;
    tn_node *row = r[1 + i], *row_stride = o->trans ? tn__int(c, 1) : o->ld,
            *k_stride = o->trans ? o->ld : tn__int(c, 1);
    tn_node *at = tn__add(c, o->offset, tn__mul(c, r[0], o->batch_stride));
    at = tn__add(c, at, tn__add(c, tn__mul(c, row, row_stride), tn__mul(c, r[3], k_stride)));
    tn_node *src[2] = {buffer_of(f, o->buf), tn__simplify_index(c, at)};
    x[i] = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = 2});
  }
  tn_node *v = contract(c, g->dtype, x[0], x[1], tn__list(c, &r[3], 1));
  tn_node *st = store(f, OP_STORE, OP_ADD, buffer_of(f, g->c), tn__index_flat(c, size, r, 3), v, NULL, r, 3);
  return tn__sink(c, &st, 1, "gemm");
}

/* So for a convolution.  The dimensions of its result are loops, the others are summed up, but for the place in the
 * images, or for their gradient in the outputs: it is made of others, and may be outside. */
typedef struct conv_loops {
  tn_node *r[CONV_DIMS], *sum; /* sum: a LIST */
  tn_node *gate;               /* the place is inside */
  int made;                    /* the first of its two dimensions; in operand `of` */
  int of;
} conv_loops;

static bool is_in(const uint8_t *dims, int d) { return d == dims[0] || d == dims[1] || d == dims[2] || d == dims[3]; }

static conv_loops open_conv(tn_ctx *c, const tn__conv *v) {
  tn_node *sum[CONV_DIMS], *zero = tn__int(c, 0), *gate = tn__const_bits(c, TN_BOOL, 1);
  bool data = v->kind == CONV_DATA;
  conv_loops l = {.made = data ? CONV_P : CONV_H, .of = data ? CONV_FORWARD : CONV_DATA};
  uint32_t n = 0;
  for (int d = 0; d < CONV_DIMS; d++) {
    bool loop = is_in(tn__conv_dims[v->kind], d);
    if (d == l.made || d == l.made + 1) continue;
    l.r[d] = tn__is_int_const(v->size[d], 1) ? zero : open_loop(c, v->size[d], loop, d);
    if (!loop) sum[n++] = l.r[d];
  }
  for (int i = 0; i < 2; i++) {
    tn_node *step = tn__int(c, v->stride[i]),
            *at = tn__sub(c, tn__mul(c, l.r[CONV_R + i], tn__int(c, v->dilation[i])), tn__int(c, v->pad[i]));
    if (data) {
      tn_node *apart = tn__sub(c, l.r[CONV_H + i], at);
      gate = tn__op2(c, OP_AND, gate, tn__op2(c, OP_EQ, tn__op2(c, OP_MOD, apart, step), zero));
      at = tn__op2(c, OP_IDIV, apart, step);
    } else {
      at = tn__add(c, tn__mul(c, l.r[CONV_P + i], step), at);
    }
    l.r[l.made + i] = at;
    gate = tn__op2(c, OP_AND, gate,
                   tn__op2(c, OP_AND, tn__op2(c, OP_LE, zero, at), tn__op2(c, OP_LT, at, v->size[l.made + i])));
  }
  gate = tn__simplify_index(c, gate);
  l.gate = tn__is_const(gate) && gate->lo == 1 ? NULL : gate; /* nothing is outside */
  l.sum = tn__list(c, sum, n);
  return l;
}

static tn_node *conv_index(tn_ctx *c, const tn__conv *v, int operand, const conv_loops *l) {
  static const uint8_t order[2][4] = {{0, 1, 2, 3}, {0, 2, 3, 1}};
  tn_node *dim[4], *at[4];
  for (int i = 0; i < 4; i++) {
    int d = tn__conv_dims[operand][order[v->channels_last][i]];
    dim[i] = v->size[d];
    at[i] = l->r[d];
  }
  return tn__simplify_index(c, tn__add(c, v->operand[operand].offset, tn__index_flat(c, dim, at, 4)));
}

static tn_node *conv_body(tn__fuse *f, const tn__conv *v) {
  tn_ctx *c = f->c;
  conv_loops l = open_conv(c, v);
  tn_node *x[3], *loop[4];
  int acc = tn__dtype_acc(v->dtype), n = 0;
  for (int o = 0; o < 3; o++) {
    tn_node *src[3] = {buffer_of(f, v->operand[o].buf), conv_index(c, v, o, &l), l.gate};
    if (o != (int)v->kind)
      x[n++] = tn__cast(
          c, tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = o == l.of && l.gate ? 3 : 2}), acc);
  }
  tn_node *product = tn__mul(c, x[0], x[1]);
  /* what is outside is left out there, not multiplied by 0 */
  if (v->kind == CONV_DATA) product = gated(c, product, l.gate);
  product = tn__cast(c, reduce(c, OP_ADD, product, l.sum), v->dtype);
  for (int i = 0; i < 4; i++) loop[i] = l.r[tn__conv_dims[v->kind][i]];
  tn_node *st = store(f, OP_STORE, OP_ADD, buffer_of(f, v->operand[v->kind].buf), conv_index(c, v, (int)v->kind, &l),
                      product, NULL, loop, 4);
  return tn__sink(c, &st, 1, "conv");
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
  g->row = -1;
  return (tn__item){.body = gemm_body(f, g), .gemm = g};
}

static tn__item make_conv(tn__fuse *f, tn_node *n) {
  tn__conv *v = tn__arena_dup(f->a, tn__info_of(f, n)->conv, sizeof *v);
  for (int o = 0; o < 3; o++) v->operand[o].buf = buf_of(f, v->operand[o].base);
  return (tn__item){.body = conv_body(f, v), .conv = v};
}

static tn_node *store_at(tn__fuse *f, tn_node *n, tn_node *idx, tn_node *v, tn_node *ranges) {
  return store(f, OP_STORE, OP_ADD, buffer_of(f, tn__info_of(f, n)->buf), tn__layout_at(f, n, idx->src), v, NULL,
               ranges->src, ranges->nsrc);
}

/* The spans of a join that kernel k stores */
static void store_pieces(tn__fuse *f, tn_node *n, const tn__info *in, int k, tn__nodes *stores) {
  for (uint32_t i = f->seeds.v[k].piece; i < in->piece.n && in->piece.v[i].k == k; i++) {
    const tn__piece *p = &in->piece.v[i];
    tn__vec_push(f->a, stores, store_at(f, n, p->idx, find_value(f, n, p->part, k, p->idx, NULL), p->env));
  }
}

static tn__item make_kernel(tn__fuse *f, int k) {
  const tn__seed *g = &f->seeds.v[k];
  tn__nodes stores = {0};
  for (uint32_t i = 0; i < g->roots.n; i++) {
    tn_node *n = g->roots.v[i];
    const tn__info *in = tn__info_of(f, n);
    if (tn__without_elements(n)) continue;
    if (in->piece.n) {
      store_pieces(f, n, in, k, &stores);
      continue;
    }
    const tn__demand *d = &in->want.v[in->host];
    tn_node *stored = tn__is_placed(n) ? store_placed(f, n, in, &stores)
                      : n->op == OP_SCATTER  ? store_scatter(f, n, in, &stores)
                                             : store_at(f, n, d->idx, d->value, d->idx);
    tn__vec_push(f->a, &stores, stored);
  }
  if (g->rows) tn__columns_apart(f, g, &stores);
  bool span = g->roots.n && tn__info_of(f, g->roots.v[0])->piece.n;
  return (tn__item){.body = tn__fold_constants(f->c, tn__sink(f->c, stores.v, stores.n, "kernel")), .span = span};
}

static tn__item make_item(tn__fuse *f, int k) {
  tn_node *root = f->seeds.v[k].roots.v[0];
  const tn__info *in = tn__info_of(f, root);
  return in->gemm ? make_gemm(f, root) : in->conv ? make_conv(f, root) : make_kernel(f, k);
}

/* Numbers a body's buffers from 0, written ones first, and lists them; and its loops. */
static void bind_buffers(tn__fuse *f, tn__item *it) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__map written;
  tn__topo(f->a, &it->body, 1, &all);
  tn__map_init(&written, f->a);
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_STORE && all.v[i]->op != OP_STOREADD) continue;
    const tn_node *p = all.v[i]->src[0]->op == OP_AFTER ? all.v[i]->src[0]->src[0] : all.v[i]->src[0];
    tn__map_putp(&written, p, p);
  }
  it->buf = tn__arena_alloc(f->a, (all.n + 1) * sizeof *it->buf);
  it->nbuf = 0;
  for (int pass = 0; pass < 2; pass++) {
    for (uint32_t i = 0; i < all.n; i++) {
      tn_node *p = all.v[i];
      if (p->op != OP_PARAM || (tn__map_getp(&written, p) != NULL) != (pass == 0)) continue;
      tn__vec_push(f->a, &old, p);
      tn_node *size = p->src[0];
      tn_node *q = tn__node_make(f->c, &(tn__make){.op = OP_PARAM,
                                                   .dtype = p->dtype,
                                                   .src = &size,
                                                   .nsrc = 1,
                                                   .ints = (int64_t[]){it->nbuf, -1},
                                                   .nint = 2,
                                                   .device = -1});
      tn__vec_push(f->a, &new_, q);
      it->buf[it->nbuf++] = (int)p->ints[0];
    }
    if (pass == 0) it->nout = it->nbuf;
  }
  it->body = tn__renumber(f->c, it->body, &old, &new_);
}

void tn__heap_push(tn__arena *a, tn__numbers *h, uint32_t x) {
  tn__vec_push(a, h, x);
  for (uint32_t i = h->n - 1; i && h->v[(i - 1) / 2] < h->v[i]; i = (i - 1) / 2) {
    uint32_t t = h->v[i];
    h->v[i] = h->v[(i - 1) / 2];
    h->v[(i - 1) / 2] = t;
  }
}

uint32_t tn__heap_pop(tn__numbers *h) {
  uint32_t top = h->v[0], last = h->v[--h->n], i = 0;
  for (uint32_t k; (k = 2 * i + 1) < h->n; i = k) {
    k += k + 1 < h->n && h->v[k + 1] > h->v[k];
    if (h->v[k] <= last) break;
    h->v[i] = h->v[k];
  }
  h->v[i] = last;
  return top;
}

/* Order: an item runs once the writers of what it reads have run; among the ready ones the deepest in the graph first.
 */
static void order_items(tn__fuse *f, tn__item *item, uint32_t n) {
  struct {
    uint32_t writers; /* that have not run yet */
    tn__numbers readers;
  } *buf = tn__arena_zalloc(f->a, (f->s->bufs.n + 1) * sizeof *buf);
  /* what an item reads that is not written yet */
  uint32_t *missing = tn__arena_zalloc(f->a, (n + 1) * sizeof *missing);
  tn__numbers ready = {0};
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t b = 0; b < item[i].nout; b++) buf[item[i].buf[b]].writers++;
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t b = item[i].nout; b < item[i].nbuf; b++) {
      if (!buf[item[i].buf[b]].writers) continue;
      tn__vec_push(f->a, &buf[item[i].buf[b]].readers, i);
      missing[i]++;
    }
    if (!missing[i]) tn__heap_push(f->a, &ready, i);
  }
  while (ready.n) {
    uint32_t i = tn__heap_pop(&ready);
    tn__vec_push(f->a, &f->s->items, item[i]);
    for (uint32_t b = 0; b < item[i].nout; b++) {
      if (--buf[item[i].buf[b]].writers) continue;
      tn__numbers *r = &buf[item[i].buf[b]].readers;
      for (uint32_t k = 0; k < r->n; k++)
        if (!--missing[r->v[k]]) tn__heap_push(f->a, &ready, r->v[k]);
    }
  }
  if (f->s->items.n != n) tn__fail(f->c, TN_ERUN, "internal: kernels depend on each other in a circle");
}

void tn__fuse_emit(tn__fuse *f) {
  for (uint32_t i = 0; i < f->order.n; i++) emit_values(f, f->order.v[i]);
  tn__item *item = tn__arena_alloc(f->a, (f->seeds.n + 1) * sizeof *item);
  uint32_t n = 0;
  for (uint32_t k = 0; k < f->seeds.n; k++) {
    const tn__seed *g = &f->seeds.v[k];
    if (!g->roots.n) continue; /* joined another */
    item[n] = make_item(f, (int)k);
    if (!item[n].body->nsrc) continue; /* stores nothing */
    bind_buffers(f, &item[n++]);
  }
  order_items(f, item, n);
}
