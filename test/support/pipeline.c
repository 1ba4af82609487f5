#include "support/pipeline.h"
#include "rewrite/rewrite.h"
#include "run/arena_layout.h"

void pipeline_simplify(pipeline *p) { p->graph = tn__schedule_prune(p->c, tn__simplify_graph(p->c, p->key)); }

void pipeline_scatter(pipeline *p) {
  p->graph = tn__schedule_scatters(p->c, p->graph, &p->dev->target);
  p->graph = tn__schedule_touched(p->c, p->graph, &p->dev->target);
}

void pipeline_schedule(pipeline *p) { p->s = tn__schedule_make(p->c, &p->c->scratch, p->graph, p->dev, NULL); }

static bool is_called(const pipeline *p, uint32_t i) { return p->s->items.v[i].gemm && p->dev->ops->gemm; }

void pipeline_lower(pipeline *p) {
  static const tn__target plain = {.interprets = true};
  p->kernel = tn__arena_zalloc(&p->c->scratch, (p->s->items.n + 1) * sizeof *p->kernel);
  for (uint32_t i = 0; i < p->s->items.n; i++)
    p->kernel[i] = tn__lower(p->c, &p->c->scratch, p->s->items.v[i].body, is_called(p, i) ? &plain : &p->dev->target,
                             NULL, i);
}

static int64_t at(tn_node *n) {
  int64_t v = 0;
  tn__const_int(n, &v);
  return v;
}

static void bind_product(pipeline *p, uint32_t i) {
  const tn__gemm *g = p->s->items.v[i].gemm;
  tn__verify_item *it = &p->subject.item[i];
  p->product[i] = (tn__product){.dtype = g->dtype,
                                .trans_a = g->a.trans,
                                .trans_b = !g->b.trans,
                                .m = at(g->m),
                                .n = at(g->n),
                                .k = at(g->k),
                                .batch = at(g->batch),
                                .lda = at(g->a.ld),
                                .ldb = at(g->b.ld),
                                .stride_a = at(g->a.batch_stride),
                                .stride_b = at(g->b.batch_stride),
                                .after = g->after};
  p->product[i].ldc = p->product[i].n;
  p->product[i].stride_c = p->product[i].m * p->product[i].n;
  it->product = &p->product[i];
  it->a = g->a.buf, it->b = g->b.buf, it->c = g->c, it->row = g->row;
  it->a_off = at(g->a.offset), it->b_off = at(g->b.offset);
}

/* Blocks of item i: the schedule's, then the kernel's own, of which there are `added` so far. */
static void find_blocks(pipeline *p, uint32_t i, tn__nodes *added) {
  tn__arena *a = &p->c->scratch;
  const tn__item *item = &p->s->items.v[i];
  const tn__kernel *k = p->kernel[i];
  int *block = tn__arena_zalloc(a, (k->nbuf + 1) * sizeof *block);
  for (uint32_t b = 0; b < item->nbuf; b++) block[b] = item->buf[b];
  for (uint32_t q = 0; q < k->nparts; q++) {
    tn__nodes all = {0};
    tn_node *body = k->part[q].body;
    tn__topo(a, &body, 1, &all);
    for (uint32_t j = 0; j < all.n; j++) {
      tn_node *n = all.v[j];
      if (n->op != OP_PARAM || n->ints[0] < item->nbuf || block[n->ints[0]]) continue;
      block[n->ints[0]] = (int)(p->s->bufs.n + added->n);
      tn__vec_push(a, added, n);
    }
  }
  p->subject.item[i] = (tn__verify_item){.kernel = k, .block = block, .nbuf = k->nbuf, .row = -1};
}

void pipeline_place(pipeline *p) {
  tn__arena *a = &p->c->scratch;
  tn__verify_subject *s = &p->subject;
  tn__nodes added = {0};
  *s = (tn__verify_subject){
      .graph = p->key, .nitem = p->s->items.n, .item = tn__arena_zalloc(a, (p->s->items.n + 1) * sizeof *s->item)};
  p->product = tn__arena_zalloc(a, (s->nitem + 1) * sizeof *p->product);
  for (uint32_t i = 0; i < s->nitem; i++) {
    find_blocks(p, i, &added);
    if (is_called(p, i)) bind_product(p, i);
  }
  s->nblock = p->s->bufs.n + added.n;
  s->block = tn__arena_zalloc(a, (s->nblock + 1) * sizeof *s->block);
  p->first = tn__arena_zalloc(a, (s->nblock + 1) * sizeof *p->first);
  p->last = tn__arena_zalloc(a, (s->nblock + 1) * sizeof *p->last);
  tn__life *life = tn__arena_zalloc(a, (s->nblock + 1) * sizeof *life);
  uint32_t n = 0;
  for (uint32_t b = 0; b < s->nblock; b++) {
    tn_node *more = b < p->s->bufs.n ? NULL : added.v[b - p->s->bufs.n];
    const tn__buf *x =
        more ? &(tn__buf){.kind = BUF_TEMP, .dtype = more->dtype, .size = more->src[0]} : &p->s->bufs.v[b];
    s->block[b] = (tn__verify_block){.kind = x->kind,
                                     .slot = x->slot,
                                     .dtype = x->dtype,
                                     .size = x->size,
                                     .shared = x->shared,
                                     .of = x->of,
                                     .from = x->from,
                                     .bytes = (size_t)at(x->size) * tn__size_of(x->dtype)};
    p->first[b] = UINT32_MAX;
  }
  for (uint32_t i = 0; i < s->nitem; i++)
    for (uint32_t b = 0; b < s->item[i].nbuf; b++) {
      int block = s->item[i].block[b];
      if (p->first[block] == UINT32_MAX) p->first[block] = i;
      p->last[block] = i;
    }
  for (uint32_t b = 0; b < s->nblock; b++)
    if (s->block[b].kind == BUF_TEMP && p->first[b] != UINT32_MAX)
      life[n++] = (tn__life){.first = p->first[b], .last = p->last[b], .bytes = s->block[b].bytes};
  s->arena = tn__place_lives(a, life, n);
  for (uint32_t b = s->nblock; b-- > 0;)
    if (s->block[b].kind == BUF_TEMP && p->first[b] != UINT32_MAX) s->block[b].offset = life[--n].offset;
}

const tn__verdict *pipeline_verify(pipeline *p) {
  tn__verify *v = tn__verify_open(p->c, &p->subject);
  for (uint32_t world = 0; world < TN__VERIFY_WORLDS; world++)
    if (!tn__verify_run(v, world)) break;
  return tn__verify_close(v);
}
