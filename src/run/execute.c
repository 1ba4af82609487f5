/* The items of a bound plan, one after the other. */
#include "ir/eval.h"
#include "ir/require.h"
#include "run/plan.h"

void *tn__plan_pointer(const tn__plan *p, int buf, tn__buffer *const *in, tn__buffer *const *out) {
  uint32_t b = tn__plan_number(p, buf);
  if (tn__plan_in_arena(p, b)) return (char *)p->temp->mem + p->offset[b];
  const tn__buf *x = &p->s->bufs.v[b];
  return x->kind == BUF_INPUT ? in[x->slot]->mem : out[x->slot]->mem;
}

static tn_status run_product(tn__plan *p, tn__step *st, const tn__gemm *g, tn__buffer *const *in,
                             tn__buffer *const *out) {
  size_t size = tn__size_of(g->dtype);
  tn__product x = st->product;
  x.a = (char *)tn__plan_pointer(p, g->a.buf, in, out) + (size_t)st->a_off * size;
  x.b = (char *)tn__plan_pointer(p, g->b.buf, in, out) + (size_t)st->b_off * size;
  x.c = tn__plan_pointer(p, g->c, in, out);
  x.row = g->row >= 0 ? tn__plan_pointer(p, g->row, in, out) : NULL;
  return p->dev->ops->gemm(p->dev, &x);
}

static tn_status run_conv(tn__plan *p, tn__step *st, const tn__conv *v, tn__buffer *const *in, tn__buffer *const *out) {
  tn__conv_call x = st->conv;
  size_t size = tn__size_of(v->dtype);
  for (int o = 0; o < 3; o++)
    x.operand[o] = (char *)tn__plan_pointer(p, v->operand[o].buf, in, out) + (size_t)st->conv_off[o] * size;
  return p->dev->ops->conv(p->dev, &x);
}

/* Does memory hold what the kernel relies on?  Nothing that is generated looks at that: with other values threads could
 * meet, or reach beyond a buffer.  Kernels that are written by hand are not recorded: each launch is looked at.  Of
 * those that the schedule made what they require is known, and looked at where schedules are validated, each time they
 * are launched: while they are recorded nothing is computed.  What a stage has written for the next ones is looked at
 * behind the launch. */
static void check_requires(tn_ctx *c, tn__plan *p, const tn__step *st, const tn__kernel *k, bool written) {
  tn__env env = {.key = p->var.v, .val = p->value, .n = p->var.n};
  for (uint32_t i = 0; i < k->nrequire; i++) {
    const tn_node *r = k->require[i];
    int64_t slot = r->src[0]->ints[0], size[2] = {0};
    if ((!p->by_hand && !c->opt.verify) || (k->buf_written[slot] != 0) != written) continue;
    size_t bytes = st->bytes[slot];
    void *copy = tn__alloc(c, bytes + 1);
    if (bytes) p->dev->ops->download(p->dev, copy, st->ptr[slot], bytes);
    for (uint32_t s = 1; s < r->nsrc; s++) size[s - 1] = tn__eval_index(r->src[s], &env, &c->scratch);
    size_t n = bytes / tn__size_of(r->src[0]->dtype);
    const char *fault = tn__require_fault(&c->scratch, r, copy, n, size[0], size[1]);
    if (!fault) continue;
    tn__sb what;
    tn__sb_init(&what, &c->scratch);
    tn__require_print(&what, r);
    tn__fail(c, TN_EINVAL, "kernel %s requires %s: %s", k->name, tn__sb_str(&what), fault);
  }
}

tn_status tn__plan_run_items(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out,
                             const tn__order_item *order) {
  for (uint32_t i = 0; i < p->s->items.n; i++) {
    tn__step *st = &p->step[i];
    const tn__order_item *o = order ? &order[i] : NULL;
    tn_status status = o ? p->dev->ops->after(p->dev, i, o->before, o->nbefore, o->early, o->urgent) : TN_OK;
    if (status != TN_OK) return status;
    if (st->kernel < 0) {
      const tn__item *it = &p->s->items.v[i];
      status = it->conv ? run_conv(p, st, it->conv, in, out) : run_product(p, st, it->gemm, in, out);
    } else {
      for (uint32_t j = 0; j < st->nbuf; j++) {
        st->ptr[j] = tn__plan_pointer(p, st->buf[j], in, out);
        st->bytes[j] = p->bytes[tn__plan_number(p, st->buf[j])];
      }
      const tn__kernel *k = p->kernel[st->kernel];
      for (uint32_t j = 0; j < k->nvar; j++)
        for (uint32_t v = 0; v < p->var.n; v++)
          if (p->var.v[v] == k->var[j]) st->var[j] = p->value[v];
      if (!order) check_requires(c, p, st, k, false);
      status = p->dev->ops->launch(p->dev, p->code, (uint32_t)st->kernel, st->ptr, st->bytes, st->var);
      if (status == TN_OK && !order) check_requires(c, p, st, k, true);
    }
    if (status != TN_OK) return status;
    c->stats.kernels_run++;
  }
  return TN_OK;
}
