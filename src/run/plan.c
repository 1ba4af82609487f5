/* From a graph to something that runs: the passes, in order, in compile(). */
#include "backend/cpu/cpu.h"
#include "grad/grad_pass.h"
#include "ir/text.h"
#include "rewrite/rewrite.h"
#include "run/order.h"
#include "run/arena_layout.h"
#include "run/plan.h"
#include <string.h>

enum { MAX_PLANS = 256, RECORDINGS = 8, MOST_ORDERED = 4096 };

static void check_devices(tn_ctx *c, tn_node *const *roots, uint32_t n) {
  int device = -1;
  for (uint32_t i = 0; i < n; i++) {
    int d = roots[i]->device;
    if (device >= 0 && d >= 0 && d != device)
      tn__fail(c, TN_EDEVICE, "values on %s and on %s cannot be computed as one: move them with tn_to",
               tn__device_get(c, device)->name, tn__device_get(c, d)->name);
    if (d >= 0) device = d;
  }
}

tn_node *tn__plan_key(tn_ctx *c, tn_node *const *roots, uint32_t n, tn__nodes *in) {
  tn__nodes all = {0}, param = {0};
  check_devices(c, roots, n);
  tn_node *sink = tn__sink(c, roots, n, "outputs");
  tn__topo(&c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *x = all.v[i];
    if (x->op != OP_STORAGE && x->op != OP_PARAM) continue;
    tn_node *p = tn__param(c, x->dtype, in->n, x->device, x->dim, x->rank);
    tn__vec_push(&c->scratch, &param, p);
    tn__vec_push(&c->scratch, in, x);
  }
  return tn__substitute(c, sink, in->v, param.v, in->n);
}

static void keep(tn__plan *p, tn_node *n) {
  tn__vec_push(&p->arena, &p->kept, n);
  tn__node_keep(n);
}

/* An output must be something computed: a copy where it is an input, a literal or another output.  The copy may itself
 * be there already. */
static tn_node *own_outputs(tn_ctx *c, tn_node *sink) {
  tn_node **src = tn__alloc(c, (sink->nsrc + 1) * sizeof *src);
  tn__map taken;
  tn__map_init(&taken, &c->scratch);
  for (uint32_t i = 0; i < sink->nsrc; i++) {
    src[i] = sink->src[i];
    while (src[i]->op == OP_PARAM || tn__map_getp(&taken, src[i]))
      src[i] = tn__node_make(c, &(tn__make){.op = OP_CONTIG, .src = &src[i], .nsrc = 1});
    tn__map_putp(&taken, src[i], src[i]);
  }
  return tn__sink(c, src, sink->nsrc, sink->name);
}

/* Does the device have a library for the item?  Else it is a kernel, from its reference. */
static bool is_called(const tn__device_ops *ops, const tn__item *it) {
  return (it->gemm && ops->gemm) || (it->conv && ops->conv);
}

static void keep_sizes(tn__plan *p, const tn__item *it) {
  const tn__gemm *g = it->gemm;
  if (g) {
    tn_node *size[] = {g->batch,          g->m,   g->n, g->k, g->a.offset, g->a.batch_stride, g->a.ld, g->b.offset,
                       g->b.batch_stride, g->b.ld};
    for (uint32_t i = 0; i < sizeof size / sizeof *size; i++) keep(p, size[i]);
  }
  for (int d = 0; it->conv && d < CONV_DIMS; d++) keep(p, it->conv->size[d]);
  for (int o = 0; it->conv && o < 3; o++) keep(p, it->conv->operand[o].offset);
}

static void keep_tile(tn__plan *p, const tn__tile *t) {
  for (int i = 0; t && i < 2; i++) {
    keep(p, t->load[i]);
    keep(p, t->line[i]);
    keep(p, t->at[i]);
    if (t->gate[i]) keep(p, t->gate[i]);
    for (int part = 0; part < 2; part++) {
      if (t->part[i][part]) keep(p, t->part[i][part]);
      if (t->part_gate[i][part]) keep(p, t->part_gate[i][part]);
    }
  }
  for (int i = 0; t && i < TN__DIGITS; i++)
    if (t->digit[i]) keep(p, t->digit[i]);
  if (!t) return;
  keep(p, t->steps);
  keep(p, t->turn);
  keep(p, t->step);
}

static void lower_item(tn_ctx *c, tn__plan *p, uint32_t i, const tn__variant *variant) {
  const tn__item *it = &p->s->items.v[i];
  tn__step *st = &p->step[i];
  st->kernel = -1;
  st->nbuf = it->nbuf;
  if (variant->own || !is_called(p->dev->ops, it)) {
    tn__device view = *p->dev;
    view.variant = *variant;
    tn__kernel *k = tn__lower(c, &p->arena, &view, it->body, p->nkernels);
    st->kernel = (int)p->nkernels;
    p->kernel[p->nkernels++] = k;
    /* its own scratch; fewer, where simplifying has left nothing of a load */
    if (k->nbuf > st->nbuf) st->nbuf = k->nbuf;
    st->var = tn__arena_zalloc(&p->arena, (k->nvar + 1) * sizeof *st->var);
    for (uint32_t part = 0; part < k->nparts; part++) {
      keep(p, k->part[part].body);
      for (uint32_t j = 0; j < k->part[part].n; j++) keep(p, k->part[part].ins[j]);
      keep_tile(p, k->part[part].tile);
    }
  }
  st->buf = tn__arena_zalloc(&p->arena, (st->nbuf + 1) * sizeof *st->buf);
  st->ptr = tn__arena_zalloc(&p->arena, (st->nbuf + 1) * sizeof *st->ptr);
  st->bytes = tn__arena_zalloc(&p->arena, (st->nbuf + 1) * sizeof *st->bytes);
  for (uint32_t j = 0; j < it->nbuf; j++) st->buf[j] = it->buf[j];
}

/* All items; `variant`: the only one's, NULL: each as tuning found. */
static void lower_items(tn_ctx *c, tn__plan *p, const tn__variant *variant) {
  const tn__schedule *s = p->s;
  p->step = tn__arena_zalloc(&p->arena, (s->items.n + 1) * sizeof *p->step);
  p->kernel = tn__arena_zalloc(&p->arena, (s->items.n + 1) * sizeof *p->kernel);
  for (uint32_t i = 0; i < s->items.n; i++)
    lower_item(c, p, i,
               variant ? variant : tn__tune(c, p, i, s->items.v[i].body, is_called(p->dev->ops, &s->items.v[i])));
}

/* Buffers that lowering added: partial results. */
static void find_scratch(tn__plan *p) {
  for (uint32_t i = 0; i < p->s->items.n; i++) {
    tn__step *st = &p->step[i];
    tn__nodes all = {0}, bodies = {0};
    if (st->kernel < 0) continue;
    const tn__kernel *k = p->kernel[st->kernel];
    for (uint32_t part = 0; part < k->nparts; part++) tn__vec_push(&p->arena, &bodies, k->part[part].body);
    tn__topo(&p->arena, bodies.v, bodies.n, &all);
    for (uint32_t j = 0; j < all.n; j++) {
      tn_node *n = all.v[j];
      if (n->op != OP_PARAM || n->ints[0] < p->s->items.v[i].nbuf) continue;
      st->buf[n->ints[0]] = -1 - (int)p->scratch.n;
      tn__vec_push(&p->arena, &p->scratch, n->src[0]);
      tn__vec_push(&p->arena, &p->scratch_dtype, n->dtype);
    }
  }
}

static void find_vars(tn__plan *p) {
  tn__nodes all = {0}, roots = {0};
  tn__vec_push(&p->arena, &roots, p->key);
  tn__vec_push(&p->arena, &roots, p->s->text);
  tn__topo(&p->arena, roots.v, roots.n, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_VAR) tn__vec_push(&p->arena, &p->var, all.v[i]);
  p->value = tn__arena_zalloc(&p->arena, (p->var.n + 1) * sizeof *p->value);
}

static void find_needs(tn_ctx *c, tn__plan *p) {
  if (p->var.n) tn__constraints_find(c, &p->arena, p->key, &p->needs);
  for (uint32_t i = 0; i < p->needs.n; i++) {
    keep(p, p->needs.v[i].left);
    keep(p, p->needs.v[i].right);
  }
}

static void find_lives(tn__plan *p) {
  uint32_t nb = p->s->bufs.n, n = nb + p->scratch.n;
  p->bytes = tn__arena_zalloc(&p->arena, (n + 1) * sizeof *p->bytes);
  p->offset = tn__arena_zalloc(&p->arena, (n + 1) * sizeof *p->offset);
  p->first = tn__arena_alloc(&p->arena, (n + 1) * sizeof *p->first);
  p->last = tn__arena_alloc(&p->arena, (n + 1) * sizeof *p->last);
  for (uint32_t b = 0; b < n; b++) p->first[b] = p->last[b] = -1;
  for (uint32_t i = 0; i < p->s->items.n; i++)
    for (uint32_t j = 0; j < p->step[i].nbuf; j++) {
      int b = p->step[i].buf[j] < 0 ? (int)nb - 1 - p->step[i].buf[j] : p->step[i].buf[j];
      if (p->first[b] < 0) p->first[b] = (int)i;
      p->last[b] = (int)i;
    }
}

typedef struct compiling {
  tn_ctx *c;
  tn_node *key;
  tn__plan *plan;
} compiling;

/* From a schedule to kernels, and what is to be known when they run */
static void lower(tn_ctx *c, tn__plan *p, const tn__variant *variant) {
  keep(p, p->key);
  keep(p, p->s->text);
  for (uint32_t i = 0; i < p->s->bufs.n; i++) keep(p, p->s->bufs.v[i].size);
  for (uint32_t i = 0; i < p->s->items.n; i++) keep_sizes(p, &p->s->items.v[i]);
  lower_items(c, p, variant);
  find_scratch(p);
  find_vars(p);
  find_needs(c, p);
  find_lives(p);
}

/* Notes which rules of mode fast, all of which hold over the reals only, this took. */
static tn_node *simplify(tn_ctx *c, tn__plan *p) {
  if (c->mode != TN_MODE_FAST) return tn__simplify_graph(c, p->key);
  const tn__ruleset *rules = tn__rules_get(c, "float");
  uint32_t n = tn__rules_count(rules);
  uint64_t *before = tn__alloc(c, (n + 1) * sizeof *before);
  for (uint32_t i = 0; i < n; i++) before[i] = tn__rules_hits(rules, i);
  tn_node *simple = tn__simplify_graph(c, p->key);
  for (uint32_t i = 0; i < n; i++)
    if (tn__rules_hits(rules, i) > before[i]) tn__vec_push(&p->arena, &p->fired, tn__rules_name(rules, i));
  return simple;
}

tn__plan *tn__plan_new(tn_ctx *c, tn_node *key) {
  tn__device *dev = tn__device_get(c, key->device < 0 ? 0 : key->device); /* throws if there is none */
  tn__plan *p = tn__mem_zalloc(&c->mem, sizeof *p);
  tn__arena_init(&p->arena, &c->mem);
  p->dev = dev;
  p->key = key;
  p->nout = key->nsrc;
  return p;
}

static void find_outputs(tn__plan *p) {
  p->out_buf = tn__arena_alloc(&p->arena, (p->nout + 1) * sizeof *p->out_buf);
  for (uint32_t i = 0; i < p->nout; i++) p->out_buf[i] = -1;
  for (uint32_t b = 0; b < p->s->bufs.n; b++)
    if (p->s->bufs.v[b].kind == BUF_OUTPUT) p->out_buf[p->s->bufs.v[b].slot] = (int)b;
}

void tn__plan_build(tn_ctx *c, tn__plan *p) {
  tn_node *graph = own_outputs(c, tn__schedule_prune(c, simplify(c, p)));
  p->s = tn__schedule_make(c, &p->arena, graph, p->dev);
  find_outputs(p);
  keep(p, graph);
  lower(c, p, NULL);
}

/* The pipeline. */
static void compile(void *arg) {
  compiling *k = arg;
  tn_ctx *c = k->c;
  tn__plan *p = k->plan = tn__plan_new(c, k->key);
  tn__plan_build(c, p);
  if (c->opt.verify) tn__plan_validate(c, p);
  tn__plan_compile(p);
  c->stats.schedules_compiled++;
}

void tn__plan_compile(tn__plan *p) {
  if (p->nkernels && !p->code) p->code = p->dev->ops->compile(p->dev, p->kernel, p->nkernels);
}

/* ---- one item alone, for tuning ---- */

void tn__plan_trial(tn_ctx *c, const tn__plan *p, uint32_t item, const tn__variant *variant, tn__plan **out) {
  tn__plan *t = *out = tn__plan_new(c, p->key);
  t->s = tn__arena_zalloc(&t->arena, sizeof *t->s);
  t->s->text = p->s->text;
  tn__vec_push(&t->arena, &t->s->items, p->s->items.v[item]);
  for (uint32_t b = 0; b < p->s->bufs.n; b++) {
    tn__buf x = p->s->bufs.v[b];
    x.kind = BUF_INPUT; /* all from outside */
    x.slot = (int)b;
    tn__vec_push(&t->arena, &t->s->bufs, x);
  }
  lower(c, t, variant);
}

bool tn__plan_same(const tn__plan *p, const tn__plan *q) {
  bool same = p->nkernels == q->nkernels;
  for (uint32_t k = 0; same && k < p->nkernels; k++) {
    same = p->kernel[k]->nparts == q->kernel[k]->nparts;
    for (uint32_t i = 0; same && i < p->kernel[k]->nparts; i++) {
      const tn__part *x = &p->kernel[k]->part[i], *y = &q->kernel[k]->part[i];
      same = x->body == y->body && x->group == y->group &&
             (x->tile ? x->tile->form : NULL) == (y->tile ? y->tile->form : NULL);
    }
  }
  return same;
}

const char *tn__plan_title(const tn__plan *p) { return p->nkernels ? p->kernel[0]->name : "a library call"; }

uint32_t tn__plan_buffers(const tn__plan *p) { return p->s->bufs.n; }

void tn__plan_buffer(const tn__plan *p, uint32_t b, size_t *bytes, int *dtype) {
  *bytes = p->first[b] < 0 ? 0 : p->bytes[b];
  *dtype = p->s->bufs.v[b].dtype;
}

static void forget(tn__plan *p, tn__record *r) {
  if (r->work) p->dev->ops->forget(p->dev, r->work);
  *r = (tn__record){.key = r->key};
}

void tn__plan_free(tn_ctx *c, tn__plan *p) {
  if (!p) return;
  for (uint32_t i = 0; p->record && i < RECORDINGS; i++) forget(p, &p->record[i]);
  if (p->code) p->dev->ops->release(p->dev, p->code);
  if (p->temp) tn__buffer_drop(p->temp);
  for (uint32_t i = 0; i < p->kept.n; i++) tn__node_drop(c, p->kept.v[i]);
  tn__arena_free(&p->arena);
  tn__mem_free(&c->mem, p);
}

static void evict(tn_ctx *c) {
  tn__plan **oldest = NULL;
  for (tn__plan **at = &c->runtime->plans; *at; at = &(*at)->next)
    if (!(*at)->pins) oldest = at;
  if (!oldest) return;
  tn__plan *p = *oldest;
  *oldest = p->next;
  c->runtime->nplans--;
  tn__plan_free(c, p);
}

tn__plan *tn__plan_get(tn_ctx *c, tn_node *key) {
  struct tn__runtime *rt = c->runtime;
  for (tn__plan **at = &rt->plans; *at; at = &(*at)->next) {
    tn__plan *p = *at;
    if (p->key != key) continue;
    *at = p->next;
    p->next = rt->plans;
    rt->plans = p;
    c->stats.schedules_reused++;
    return p;
  }
  compiling k = {.c = c, .key = key};
  tn_status status;
  if (!tn__mem_try(&c->mem, compile, &k, &status)) {
    tn__plan_free(c, k.plan);
    tn__mem_throw(&c->mem, status);
  }
  tn__plan *p = k.plan;
  p->next = rt->plans;
  rt->plans = p;
  if (++rt->nplans > MAX_PLANS) evict(c);
  return p;
}

void tn__plan_pin(tn__plan *p, int by) { p->pins += by; }

tn__plan *tn__plan_next(const tn__plan *p) { return p->next; }

tn__device *tn__plan_device(const tn__plan *p) { return p->dev; }

uint32_t tn__plan_vars(const tn__plan *p, tn_node *const **var) {
  *var = p->var.v;
  return p->var.n;
}

/* ---- sizes ---- */

static int64_t size_at(tn_ctx *c, const tn__plan *p, tn_node *n) {
  int64_t v;
  if (tn__const_int(n, &v)) return v;
  return tn__eval_index(n, &(tn__env){.key = p->var.v, .val = p->value, .n = p->var.n}, &c->scratch);
}

static size_t bytes_of(tn_ctx *c, const tn__plan *p, tn_node *size, int dtype) {
  int64_t n = size_at(c, p, size);
  size_t bytes;
  if (n < 0 || __builtin_mul_overflow((size_t)n, tn__size_of(dtype), &bytes) || bytes > PTRDIFF_MAX)
    tn__fail(c, TN_ENOMEM, "a buffer of %lld x %s is beyond any memory", (long long)n, tn__dtypes[dtype].name);
  return bytes;
}

static bool in_arena(const tn__plan *p, uint32_t b) { return b >= p->s->bufs.n || p->s->bufs.v[b].kind == BUF_TEMP; }

/* Offsets of temporaries and of kernels' scratch. */
static void place(tn_ctx *c, tn__plan *p) {
  uint32_t nb = p->s->bufs.n, n = 0;
  tn__life *life = tn__alloc(c, (nb + p->scratch.n + 1) * sizeof *life);
  p->temp_sum = 0;
  for (uint32_t b = 0; b < nb + p->scratch.n; b++) {
    if (!in_arena(p, b) || p->first[b] < 0) continue;
    life[n++] = (tn__life){.first = (uint32_t)p->first[b], .last = (uint32_t)p->last[b], .bytes = p->bytes[b]};
    if (b < nb) p->temp_sum += p->bytes[b];
  }
  p->temp_size = tn__place_lives(&c->scratch, life, n);
  for (uint32_t b = nb + p->scratch.n; b-- > 0;)
    if (in_arena(p, b) && p->first[b] >= 0) p->offset[b] = life[--n].offset;
}

void tn__plan_measure(tn_ctx *c, tn__plan *p) {
  for (uint32_t b = 0; b < p->s->bufs.n; b++) p->bytes[b] = bytes_of(c, p, p->s->bufs.v[b].size, p->s->bufs.v[b].dtype);
  for (uint32_t b = 0; b < p->scratch.n; b++)
    p->bytes[p->s->bufs.n + b] = bytes_of(c, p, p->scratch.v[b], p->scratch_dtype.v[b]);
  place(c, p);
}

void tn__plan_bind_product(tn_ctx *c, tn__plan *p, uint32_t i) {
  const tn__gemm *g = p->s->items.v[i].gemm;
  tn__step *st = &p->step[i];
  st->product = (tn__product){.dtype = g->dtype,
                              .trans_a = g->a.trans,
                              .trans_b = !g->b.trans,
                              .m = size_at(c, p, g->m),
                              .n = size_at(c, p, g->n),
                              .k = size_at(c, p, g->k),
                              .batch = size_at(c, p, g->batch),
                              .lda = size_at(c, p, g->a.ld),
                              .ldb = size_at(c, p, g->b.ld),
                              .stride_a = size_at(c, p, g->a.batch_stride),
                              .stride_b = size_at(c, p, g->b.batch_stride),
                              .after = g->after};
  st->product.ldc = st->product.n > 0 ? st->product.n : 1;
  st->product.stride_c = st->product.m * st->product.n;
  st->a_off = size_at(c, p, g->a.offset);
  st->b_off = size_at(c, p, g->b.offset);
}

static void bind_conv(tn_ctx *c, tn__plan *p, uint32_t i) {
  const tn__conv *v = p->s->items.v[i].conv;
  tn__step *st = &p->step[i];
  st->conv = (tn__conv_call){.dtype = v->dtype, .kind = v->kind, .channels_last = v->channels_last};
  for (int d = 0; d < CONV_DIMS; d++) st->conv.size[d] = size_at(c, p, v->size[d]);
  for (int d = 0; d < 2; d++) {
    st->conv.stride[d] = v->stride[d];
    st->conv.pad[d] = v->pad[d];
    st->conv.dilation[d] = v->dilation[d];
  }
  for (int o = 0; o < 3; o++) st->conv_off[o] = size_at(c, p, v->operand[o].offset);
}

void tn__plan_bind(tn_ctx *c, tn__plan *p, const int64_t *value) {
  bool same = p->bound;
  for (uint32_t i = 0; i < p->var.n && same; i++) same = p->value[i] == value[i];
  if (same) return;
  p->bound = false;
  for (uint32_t i = 0; i < p->var.n; i++) {
    if (value[i] < p->var.v[i]->lo || value[i] > p->var.v[i]->hi)
      tn__fail(c, TN_EBOUND, "size %s = %lld is outside of %lld..%lld", p->var.v[i]->name, (long long)value[i],
               (long long)p->var.v[i]->lo, (long long)p->var.v[i]->hi);
    p->value[i] = value[i];
  }
  tn__constraints_check(c, &p->needs, &(tn__env){.key = p->var.v, .val = p->value, .n = p->var.n});
  tn__plan_measure(c, p);
  if (!p->temp || p->temp->size < p->temp_size) {
    if (p->temp) tn__buffer_drop(p->temp);
    p->temp = NULL;
    p->temp = tn__buffer_new(p->dev, p->temp_size);
  }
  for (uint32_t i = 0; i < p->s->items.n; i++)
    if (p->step[i].kernel < 0) (p->s->items.v[i].conv ? bind_conv : tn__plan_bind_product)(c, p, i);
  p->bound = true;
}

static tn__sources find_sources(tn__plan *p, tn_node *output) {
  tn__nodes leaf = {0};
  tn__grad_leaves(p->dev->ctx, output, &leaf);
  uint32_t *input = tn__arena_alloc(&p->arena, (leaf.n + 1) * sizeof *input);
  for (uint32_t i = 0; i < leaf.n; i++) input[i] = (uint32_t)leaf.v[i]->ints[0];
  return (tn__sources){input, leaf.n};
}

uint32_t tn__plan_sources(tn__plan *p, uint32_t i, const uint32_t **input) {
  if (!p->sources) {
    tn__sources *all = tn__arena_alloc(&p->arena, (p->key->nsrc + 1) * sizeof *all);
    for (uint32_t k = 0; k < p->key->nsrc; k++) all[k] = find_sources(p, p->key->src[k]);
    p->sources = all;
  }
  *input = p->sources[i].input;
  return p->sources[i].n;
}

size_t tn__plan_out_bytes(const tn__plan *p, uint32_t i) { return p->out_buf[i] < 0 ? 0 : p->bytes[p->out_buf[i]]; }

/* ---- running ---- */

static void *pointer(const tn__plan *p, int buf, tn__buffer *const *in, tn__buffer *const *out) {
  uint32_t b = buf < 0 ? p->s->bufs.n - 1 - (uint32_t)buf : (uint32_t)buf;
  if (in_arena(p, b)) return (char *)p->temp->mem + p->offset[b];
  const tn__buf *x = &p->s->bufs.v[b];
  return x->kind == BUF_INPUT ? in[x->slot]->mem : out[x->slot]->mem;
}

static tn_status run_product(tn__plan *p, tn__step *st, const tn__gemm *g, tn__buffer *const *in,
                             tn__buffer *const *out) {
  size_t size = tn__size_of(g->dtype);
  tn__product x = st->product;
  x.a = (char *)pointer(p, g->a.buf, in, out) + (size_t)st->a_off * size;
  x.b = (char *)pointer(p, g->b.buf, in, out) + (size_t)st->b_off * size;
  x.c = pointer(p, g->c, in, out);
  x.row = g->row >= 0 ? pointer(p, g->row, in, out) : NULL;
  return p->dev->ops->gemm(p->dev, &x);
}

static tn_status run_conv(tn__plan *p, tn__step *st, const tn__conv *v, tn__buffer *const *in, tn__buffer *const *out) {
  tn__conv_call x = st->conv;
  for (int o = 0; o < 3; o++)
    x.operand[o] = (char *)pointer(p, v->operand[o].buf, in, out) + (size_t)st->conv_off[o] * tn__size_of(v->dtype);
  return p->dev->ops->conv(p->dev, &x);
}

/* `order`: while a device records, which items wait for which; else NULL. */
static tn_status run_items(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out,
                           const tn__order_item *order) {
  for (uint32_t i = 0; i < p->s->items.n; i++) {
    tn__step *st = &p->step[i];
    tn_status status = order ? p->dev->ops->after(p->dev, i, order[i].before, order[i].nbefore, order[i].early) : TN_OK;
    if (status != TN_OK) return status;
    if (st->kernel < 0) {
      const tn__item *it = &p->s->items.v[i];
      status = it->conv ? run_conv(p, st, it->conv, in, out) : run_product(p, st, it->gemm, in, out);
    } else {
      for (uint32_t j = 0; j < st->nbuf; j++) {
        st->ptr[j] = pointer(p, st->buf[j], in, out);
        st->bytes[j] = p->bytes[st->buf[j] < 0 ? (int)p->s->bufs.n - 1 - st->buf[j] : st->buf[j]];
      }
      const tn__kernel *k = p->kernel[st->kernel];
      for (uint32_t j = 0; j < k->nvar; j++)
        for (uint32_t v = 0; v < p->var.n; v++)
          if (p->var.v[v] == k->var[j]) st->var[j] = p->value[v];
      status = p->dev->ops->launch(p->dev, p->code, (uint32_t)st->kernel, st->ptr, st->bytes, st->var);
    }
    if (status != TN_OK) return status;
    c->stats.kernels_run++;
  }
  return TN_OK;
}

tn_status tn__plan_run(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out) {
  return run_items(c, p, in, out, NULL);
}

/* ---- replay ---- */

/* What each item waits for, from the memory it touches; NULL where the device keeps the order of the calls, and for
 * very long programs. */
static tn__order_item *find_order(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out) {
  uint32_t n = p->s->items.n;
  if (!p->dev->ops->after || n > MOST_ORDERED) return NULL;
  tn__order_item *order = tn__alloc(c, (n + 1) * sizeof *order);
  for (uint32_t i = 0; i < n; i++) {
    const tn__item *it = &p->s->items.v[i];
    const tn__step *st = &p->step[i];
    order[i] = (tn__order_item){
        .touch = tn__alloc(c, (st->nbuf + 1) * sizeof(tn__touch)), .n = st->nbuf, .library = st->kernel < 0};
    for (uint32_t j = 0; j < st->nbuf; j++) {
      uint32_t b = st->buf[j] < 0 ? p->s->bufs.n - 1 - (uint32_t)st->buf[j] : (uint32_t)st->buf[j];
      uint64_t lo = (uint64_t)(uintptr_t)pointer(p, st->buf[j], in, out);
      order[i].touch[j] = (tn__touch){.lo = lo, .hi = lo + p->bytes[b], .write = j < it->nout || j >= it->nbuf};
    }
  }
  tn__order_find(&c->scratch, order, n);
  return order;
}

/* What a recording depends on: memory and sizes. */
static size_t key_of(const tn__plan *p, tn__buffer *const *in, tn__buffer *const *out, uint64_t *key) {
  size_t n = 0;
  for (uint32_t b = 0; b < p->s->bufs.n; b++) {
    const tn__buf *x = &p->s->bufs.v[b];
    if (x->kind != BUF_TEMP) key[n++] = (uint64_t)(uintptr_t)(x->kind == BUF_INPUT ? in[x->slot] : out[x->slot])->mem;
  }
  key[n++] = (uint64_t)(uintptr_t)(p->temp ? p->temp->mem : NULL);
  for (uint32_t v = 0; v < p->var.n; v++) key[n++] = (uint64_t)p->value[v];
  return n;
}

/* The slot of this key: its own, or the one that was used least recently. */
static tn__record *find_record(tn__plan *p, tn__buffer *const *in, tn__buffer *const *out) {
  size_t room = p->s->bufs.n + 1 + p->var.n;
  if (!p->record) {
    p->now = tn__arena_zalloc(&p->arena, room * sizeof *p->now);
    tn__record *r = tn__arena_zalloc(&p->arena, RECORDINGS * sizeof *r);
    for (uint32_t i = 0; i < RECORDINGS; i++) r[i].key = tn__arena_zalloc(&p->arena, room * sizeof *r->key);
    p->record = r;
  }
  size_t n = key_of(p, in, out, p->now);
  tn__record *oldest = p->record;
  for (tn__record *r = p->record; r < p->record + RECORDINGS; r++) {
    if (r->runs && !memcmp(r->key, p->now, n * sizeof *p->now)) return r;
    if (r->last < oldest->last) oldest = r;
  }
  forget(p, oldest);
  memcpy(oldest->key, p->now, n * sizeof *p->now);
  return oldest;
}

typedef struct recording {
  tn_ctx *c;
  tn__plan *p;
  tn__buffer *const *in, *const *out;
  const tn__order_item *order;
  tn_status status;
} recording;

static void record_items(void *arg) {
  recording *k = arg;
  k->status = run_items(k->c, k->p, k->in, k->out, k->order);
}

/* The whole of it, or nothing: whatever fails in between, the device records no longer. */
static tn_status record_plan(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out,
                             tn__recording **made) {
  const tn__device_ops *ops = p->dev->ops;
  recording k = {.c = c, .p = p, .in = in, .out = out, .order = find_order(c, p, in, out)};
  tn_status status = ops->record(p->dev), thrown = TN_OK;
  if (status != TN_OK) return status;
  tn__mem_try(&c->mem, record_items, &k, &thrown);
  tn__recording *work = ops->recorded(p->dev);
  if (thrown == TN_OK && k.status == TN_OK && work) *made = work;
  else if (work) ops->forget(p->dev, work);
  if (thrown != TN_OK) tn__mem_throw(&c->mem, thrown);
  return k.status != TN_OK ? k.status : work ? TN_OK : TN_ERUN;
}

tn_status tn__plan_replay(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out) {
  const tn__device_ops *ops = p->dev->ops;
  if (!ops->record) return tn__plan_run(c, p, in, out);
  tn__record *r = find_record(p, in, out);
  r->last = ++p->clock;
  if (r->runs++ == 0) return tn__plan_run(c, p, in, out); /* the first run loads what is loaded late */
  if (!r->work) {
    tn_status status = record_plan(c, p, in, out, &r->work);
    if (status != TN_OK) return status;
  } else {
    c->stats.kernels_run += p->s->items.n;
  }
  return ops->replay(p->dev, r->work);
}

void tn__plan_info(const tn__plan *p, tn_program_info *out) {
  *out = (tn_program_info){.kernels = (int)p->nkernels,
                           .library_calls = (int)(p->s->items.n - p->nkernels),
                           .intermediate = p->temp_sum,
                           .arena = p->temp_size};
}

void tn__plan_print(tn_ctx *c, const tn__plan *p, tn__sb *out) {
  tn__sb_puts(out, "# graph\n");
  tn__print(out, p->key);
  tn__sb_puts(out, "\n# rules that hold over the reals only:");
  for (uint32_t i = 0; i < p->fired.n; i++) tn__sb_printf(out, "%s %s", i ? "," : "", p->fired.v[i]);
  tn__sb_puts(out, p->fired.n ? "\n\n# schedule\n" : " none\n\n# schedule\n");
  tn__print(out, p->s->text);
  tn__sb_puts(out, "\n");
  tn__kernels_print(c, p->dev, p->kernel, p->nkernels, out);
}
