/* Where outputs stand: in memory of their own, or in that of an input which they are part of. */
#include "run/plan.h"

/* A block of at least `bytes` that nobody else has. */
static void renew(tn__device *d, tn__buffer **b, size_t bytes) {
  if (*b && (*b)->size >= bytes && tn__buffer_is_own(*b) && (*b)->device == d) return;
  tn__buffer *fresh = tn__buffer_new(d, bytes);
  if (*b) tn__buffer_drop(*b);
  *b = fresh;
}

/* A part of a part would hold all of a block, which may be many times as large: such a one is copied. */
static bool shares(const tn__buffer *of, size_t bytes) {
  return !of->of || bytes >= of->of->size / TN__LEAST_PART;
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
  if (of->device == p->dev && shares(of, bytes)) {
    tn__buffer_share(b, of, at, bytes);
    return;
  }
  renew(p->dev, b, bytes);
  tn__device_copy(p->dev, (*b)->mem, of->device, (const char *)of->mem + at, bytes);
}
