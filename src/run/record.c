/* Runs that come again and again with the same few buffers: a device that can records them, and submits each at once.
 */
#include "run/plan.h"
#include <string.h>

enum { RECORDINGS = 8, MOST_ORDERED = 4096 };

static void forget(tn__plan *p, tn__record *r) {
  if (r->work) p->dev->ops->forget(p->dev, r->work);
  *r = (tn__record){.key = r->key};
}

void tn__plan_forget(tn__plan *p) {
  for (uint32_t i = 0; p->record && i < RECORDINGS; i++) forget(p, &p->record[i]);
}

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
      uint32_t b = tn__plan_number(p, st->buf[j]);
      uint64_t lo = (uint64_t)(uintptr_t)tn__plan_pointer(p, st->buf[j], in, out);
      order[i].touch[j] = (tn__touch){.lo = lo, .hi = lo + p->bytes[b], .write = j < it->nout || j >= it->nbuf};
    }
  }
  /* in half the time of a launch: then waiting on the device is no longer than what it saves */
  tn__order_find(&c->scratch, order, n, tn__target_launch_bytes(&p->dev->target) / 2);
  uint32_t x, y;
  if (c->opt.verify && !tn__order_holds(&c->scratch, order, n, &x, &y))
    tn__fail(c, TN_ERUN, "internal: items %u and %u recorded touch the same memory, and nothing orders them", x, y);
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
    if (r->last < oldest->last) oldest = r; /* a choice: either is right */
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
  k->status = tn__plan_run_items(k->c, k->p, k->in, k->out, k->order);
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

tn_status tn__plan_submit(tn_ctx *c, tn__plan *p, tn__buffer *const *in, tn__buffer *const *out) {
  const tn__device_ops *ops = p->dev->ops;
  /* of outputs that all stand in inputs there is nothing to record */
  if (!ops->record || !p->s->items.n) return tn__plan_run_items(c, p, in, out, NULL);
  tn__record *r = find_record(p, in, out);
  r->last = ++p->clock;
  if (r->runs++ == 0) return tn__plan_run_items(c, p, in, out, NULL); /* the first run loads what is loaded late */
  if (!r->work) {
    tn_status status = record_plan(c, p, in, out, &r->work);
    if (status != TN_OK) return status;
  } else {
    c->stats.kernels_run += p->s->items.n;
  }
  return ops->replay(p->dev, r->work);
}
