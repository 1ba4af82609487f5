/* Where outputs stand: in memory of their own, or in that of an input which they are part of. */
#include "run/plan.h"

/* A block of at least `bytes` that nobody else has. */
static void renew(tn__device *d, tn__buffer **b, size_t bytes) {
  if (*b && (*b)->size >= bytes && tn__buffer_is_own(*b) && (*b)->device == d) return;
  tn__buffer *fresh = tn__buffer_new(d, bytes);
  if (*b) tn__buffer_drop(*b);
  *b = fresh;
}

/* Whoever keeps a part holds all of its block, which may be many times as large as what this run has of it: an input
 * may be a part itself, or smaller than in another run.  Then parts are copied. */
static bool shares(const tn__plan *p, int input, const tn__buffer *of) {
  size_t bytes = 0, block = (of->of ? of->of : of)->size;
  for (uint32_t b = 0; b < p->s->bufs.n; b++)
    if (p->s->bufs.v[b].shared && p->s->bufs.v[b].of == input) bytes += p->bytes[b];
  return bytes >= block / TN__LEAST_PART;
}

typedef struct copy {
  tn__device *d;
  void *to;
  const void *from;
  size_t bytes;
} copy;

static void run_copy(void *arg) {
  const copy *k = arg;
  tn__device_copy(k->d, k->to, k->d, k->from, k->bytes);
}

void tn__plan_output(const tn__plan *p, uint32_t i, tn__buffer *const *in, tn__buffer **b) {
  uint32_t number = (uint32_t)p->out_buf[i];
  const tn__buf *x = &p->s->bufs.v[number];
  size_t bytes = p->bytes[number];
  if (!x->shared) {
    renew(p->dev, b, bytes);
    return;
  }
  tn__buffer *of = in[p->s->bufs.v[x->of].slot];
  size_t at = (size_t)x->from * tn__size_of(x->dtype);
  if (shares(p, x->of, of)) {
    tn__buffer_share(b, of, at, bytes);
    return;
  }
  renew(p->dev, b, bytes);
  tn_status thrown;
  copy k = {p->dev, (*b)->mem, (const char *)of->mem + at, bytes};
  if (tn__mem_try(&p->dev->ctx->mem, run_copy, &k, &thrown)) return;
  tn__buffer_drop(*b); /* nobody has it yet */
  *b = NULL;
  tn__mem_throw(&p->dev->ctx->mem, thrown);
}
