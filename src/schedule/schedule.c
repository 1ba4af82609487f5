#include "ir/roots.h"
#include "ir/spec.h"
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

static void add_inputs(tn__fuse *f) {
  for (uint32_t i = 0; i < f->order.n; i++) {
    tn_node *n = f->order.v[i];
    tn__info *in = &f->info[i];
    in->buf = in->kernel = in->host = in->out = -1;
    if (n->op != OP_PARAM) continue;
    tn__buf b = {.kind = BUF_INPUT, .slot = (int)n->ints[0], .dtype = n->dtype, .size = tn__numel(f->c, n)};
    in->buf = (int)f->s->bufs.n;
    tn__vec_push(f->a, &f->s->bufs, b);
  }
}

/* An output must be something computed: a copy where it is an input, a literal or another output.  The copy may itself
 * be there already.  Simplification would make one of such copies: nothing is simplified afterwards. */
static tn_node *own_outputs(tn__fuse *f) {
  tn__roots own;
  tn__roots_init(f->c, &own);
  for (uint32_t i = 0; i < f->sink->nsrc; i++) {
    if (f->sink->src[i]->op == OP_PARAM) tn__roots_avoid(&own, f->sink->src[i]);
    tn__roots_add(f->c, &own, f->sink->src[i]);
  }
  return tn__sink(f->c, own.node.v, own.node.n, f->sink->name);
}

static tn_node *buffer_node(const tn__fuse *f, int buf) {
  const tn__buf *b = &f->s->bufs.v[buf];
  tn_node *size = b->size;
  return tn__node_make(f->c, &(tn__make){.op = OP_BUFFER,
                                         .dtype = b->dtype,
                                         .src = &size,
                                         .nsrc = 1,
                                         .ints = (int64_t[]){buf, f->dev->index},
                                         .nint = 2,
                                         .device = f->dev->index});
}

static void add_call(tn__fuse *f, tn__nodes *calls, tn_node **src, uint32_t n) {
  tn__make call = {.op = OP_CALL, .src = src, .nsrc = n, .ints = (int64_t[]){calls->n}, .nint = 1};
  tn__vec_push(f->a, calls, tn__node_make(f->c, &call));
}

/* The schedule as nodes: one CALL an item, its buffers numbered as in the schedule; then one for each output that
 * stands in an input. */
static void write_text(tn__fuse *f) {
  tn__nodes calls = {0};
  for (uint32_t i = 0; i < f->s->items.n; i++) {
    const tn__item *it = &f->s->items.v[i];
    tn_node **src = tn__arena_alloc(f->a, (it->nbuf + 1) * sizeof *src);
    src[0] = it->body;
    if (it->conv)
      src[0] = tn__node_make(f->c, &(tn__make){.op = OP_LIB,
                                               .src = &it->body,
                                               .nsrc = 1,
                                               .name = "conv",
                                               .ints = (int64_t[]){it->conv->kind, it->conv->channels_last},
                                               .nint = 2});
    if (it->gemm)
      src[0] = tn__node_make(f->c, &(tn__make){.op = OP_LIB,
                                               .src = &it->body,
                                               .nsrc = 1,
                                               .name = "gemm",
                                               .ints = (int64_t[]){it->gemm->a.trans, it->gemm->b.trans,
                                                                   it->gemm->row >= 0, it->gemm->after},
                                               .nint = 4});
    for (uint32_t j = 0; j < it->nbuf; j++) src[1 + j] = buffer_node(f, it->buf[j]);
    add_call(f, &calls, src, it->nbuf + 1);
  }
  for (uint32_t b = 0; b < f->s->bufs.n; b++) {
    const tn__buf *x = &f->s->bufs.v[b];
    if (!x->shared) continue;
    tn_node *src[3] = {tn__shared_body(f->c, f->s, x), buffer_node(f, (int)b), buffer_node(f, x->of)};
    add_call(f, &calls, src, 3);
  }
  f->s->text = tn__sink(f->c, calls.v, calls.n, "schedule");
}

/* The graph in topological order, and what is known of each node before anything is decided. */
static void survey(tn__fuse *f) {
  f->order.n = 0;
  tn__topo(f->a, &f->sink, 1, &f->order);
  tn__map_init(&f->index, f->a);
  for (uint32_t i = 0; i < f->order.n; i++) tn__map_put(&f->index, (uint64_t)(uintptr_t)f->order.v[i], i);
  f->info = tn__arena_zalloc(f->a, (f->order.n + 1) * sizeof *f->info);
  for (uint32_t i = 0; f->turned && i < f->turned->n; i++) {
    tn__info *in = tn__info_of(f, f->turned->v[i]);
    if (in) in->turned = true;
  }
  tn__conv_find(f);
  tn__layout_find(f);
}

static void change(tn__fuse *f, tn_node *sink) {
  if (sink == f->sink) return;
  f->sink = sink;
  survey(f);
}

/* Planning needs many times the memory of what it gives. */
static tn__schedule *copy_schedule(tn__arena *a, const tn__schedule *s) {
  tn__schedule *copy = tn__arena_dup(a, s, sizeof *s);
  copy->bufs.v = tn__arena_dup(a, s->bufs.v, s->bufs.n * sizeof *s->bufs.v);
  copy->items.v = tn__arena_dup(a, s->items.v, s->items.n * sizeof *s->items.v);
  copy->bufs.cap = s->bufs.n;
  copy->items.cap = s->items.n;
  for (uint32_t i = 0; i < s->items.n; i++) {
    tn__item *it = &copy->items.v[i];
    it->buf = tn__arena_dup(a, it->buf, it->nbuf * sizeof *it->buf);
    it->gemm = it->gemm ? tn__arena_dup(a, it->gemm, sizeof *it->gemm) : NULL;
    it->conv = it->conv ? tn__arena_dup(a, it->conv, sizeof *it->conv) : NULL;
  }
  return copy;
}

tn__schedule *tn__schedule_make(tn_ctx *c, tn__arena *a, tn_node *sink, tn__device *dev, const tn__nodes *turned) {
  tn__spec_tensor(c, sink);
  tn__fuse f = {.c = c, .a = &c->scratch, .dev = dev, .sink = sink, .turned = turned, .next_range = TN__FIRST_INNER};
  f.s = tn__alloc(c, sizeof *f.s);
  *f.s = (tn__schedule){0};
  f.sink = tn__shared_find(&f);
  survey(&f);
  change(&f, tn__spread_late(&f));
  change(&f, tn__layout_contract(&f));
  change(&f, tn__align_products(&f));
  change(&f, tn__conv_operands(&f));
  change(&f, tn__conv_outputs(&f));
  change(&f, own_outputs(&f));
  tn__map_init(&f.places, a);
  add_inputs(&f);
  tn__fuse_decide(&f);
  tn__fuse_join(&f);
  tn__fuse_same_rows(&f);
  tn__fuse_row_sums(&f);
  tn__fuse_emit(&f);
  tn__epilogue_join(&f);
  tn__shared_place(&f);
  for (uint32_t i = 0; i < f.s->items.n; i++) {
    tn__mark work = tn__arena_mark(&c->scratch);
    f.s->items.v[i].body = tn__renumber(c, f.s->items.v[i].body, &(tn__nodes){0}, &(tn__nodes){0});
    tn__spec_kernel(c, f.s->items.v[i].body);
    tn__arena_rewind(&c->scratch, work);
  }
  write_text(&f);
  return copy_schedule(a, f.s);
}
