/* A plan at given symbolic sizes: those of all buffers and library calls, and where temporaries stand. */
#include "run/arena_layout.h"
#include "run/plan.h"

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

bool tn__plan_in_arena(const tn__plan *p, uint32_t b) { return b >= p->s->bufs.n || p->s->bufs.v[b].kind == BUF_TEMP; }

/* Offsets of temporaries and of kernels' scratch. */
static void place(tn_ctx *c, tn__plan *p) {
  uint32_t nb = p->s->bufs.n, n = 0;
  tn__life *life = tn__alloc(c, (nb + p->scratch.n + 1) * sizeof *life);
  p->temp_sum = 0;
  for (uint32_t b = 0; b < nb + p->scratch.n; b++) {
    if (!tn__plan_in_arena(p, b) || p->first[b] < 0) continue;
    life[n++] = (tn__life){.first = (uint32_t)p->first[b], .last = (uint32_t)p->last[b], .bytes = p->bytes[b]};
    if (b < nb) p->temp_sum += p->bytes[b];
  }
  p->temp_size = tn__place_lives(&c->scratch, life, n);
  for (uint32_t b = nb + p->scratch.n; b && b--;)
    if (tn__plan_in_arena(p, b) && p->first[b] >= 0) p->offset[b] = life[--n].offset;
}

void tn__plan_measure(tn_ctx *c, tn__plan *p) {
  for (uint32_t b = 0; b < p->s->bufs.n; b++) p->bytes[b] = bytes_of(c, p, p->s->bufs.v[b].size, p->s->bufs.v[b].dtype);
  for (uint32_t b = 0; b < p->scratch.n; b++)
    p->bytes[p->s->bufs.n + b] = bytes_of(c, p, p->scratch.v[b], p->scratch_dtype.v[b]);
  place(c, p);
}

static void bind_product(tn_ctx *c, tn__plan *p, uint32_t i) {
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

void tn__plan_bind_call(tn_ctx *c, tn__plan *p, uint32_t i) {
  (p->s->items.v[i].conv ? bind_conv : bind_product)(c, p, i);
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
    if (p->step[i].kernel < 0) tn__plan_bind_call(c, p, i);
  p->bound = true;
}

int64_t tn__plan_value(const tn__plan *p, uint32_t var) { return p->value[var]; }

size_t tn__plan_out_bytes(const tn__plan *p, uint32_t i) { return p->out_buf[i] < 0 ? 0 : p->bytes[p->out_buf[i]]; }
