/* Where outputs stand: in memory of their own, or in that of an input which they are part of; and how they are seen in
 * memory of others. */
#include "ir/text.h"
#include "run/plan.h"
#include "tensor/operands.h"
#include <string.h>

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

/* ---- outputs that are seen in others' memory (schedule/views.c) ---- */

uint32_t tn__plan_lead(const tn__plan *p, uint32_t i) { return p->view[i].lead; }
bool tn__plan_is_moved(const tn__plan *p, uint32_t i) { return p->view[i].moved != NULL; }

tn_node *tn__plan_seen(tn_ctx *c, const tn__plan *p, uint32_t i, tn__buffer *b) {
  const tn_node *leaf = p->view[i].moved;
  while (leaf->op != OP_PARAM) leaf = leaf->src[0];
  tn_node *over = tn__storage_make(c, leaf->dtype, tn__buffer_keep(b), leaf->dim, leaf->rank);
  return tn__moves_replay(c, p->view[i].moved, leaf, over);
}

#define GATHER_ROW(bytes) \
  for (int64_t k = 0; k < n; k++) memcpy(to + k * bytes, from + k * step * bytes, bytes); \
  break

/* n elements of so many bytes, a step apart, side by side */
static void gather_row(char *to, const char *from, int64_t n, int64_t step, size_t bytes) {
  switch (bytes) {
  case 1: GATHER_ROW(1);
  case 2: GATHER_ROW(2);
  case 4: GATHER_ROW(4);
  default: GATHER_ROW(8);
  }
}

void tn__plan_gather(tn_ctx *c, const tn__plan *p, uint32_t i, const tn__buffer *b, void *out) {
  const tn__view *v = &p->view[i];
  const tn_node *n = v->moved;
  size_t bytes = tn__size_of(n->dtype), stand = p->bytes[p->out_buf[i]];
  int64_t at[TN_MAX_RANK] = {0}, place = v->from;
  uint32_t last = n->rank - 1u; /* it has several elements, and so an axis */
  char *all = tn__alloc(c, stand), *to = out;
  b->device->ops->download(b->device, all, b->mem, stand);
  for (bool more = true; more;) {
    int64_t row = n->dim[last]->ints[0];
    gather_row(to, all + place * (int64_t)bytes, row, v->step[last], bytes);
    to += row * (int64_t)bytes;
    more = false;
    for (uint32_t a = last; !more && a && a--;) {
      place += v->step[a];
      more = ++at[a] < n->dim[a]->ints[0];
      if (more) continue;
      place -= at[a] * v->step[a];
      at[a] = 0;
    }
  }
}

/* A line for each step of the movement, from what is stored on */
static void print_view(tn_ctx *c, const tn__plan *p, uint32_t i, tn__sb *out) {
  const tn__view *v = &p->view[i];
  tn__sb text;
  if (v->lead == i && !v->moved) return;
  tn__sb_printf(out, "# output %u is what is stored as output %u%s\n", i, v->lead, v->moved ? ", moved:" : "");
  if (!v->moved) return;
  tn__sb_init(&text, &c->scratch);
  tn__print(&text, v->moved);
  for (const char *at = tn__sb_str(&text); *at;) {
    size_t n = strcspn(at, "\n");
    tn__sb_puts(out, "#   ");
    tn__sb_putn(out, at, n);
    tn__sb_putc(out, '\n');
    at += n + (at[n] != 0);
  }
}

void tn__plan_print_seen(tn_ctx *c, const tn__plan *p, tn__sb *out) {
  for (uint32_t i = 0; p->view && i < p->nout; i++) print_view(c, p, i, out);
}
