/* Where outputs stand: in memory of their own, or in that of an input which they are part of; and how they are seen in
 * memory of others. */
#include "ir/text.h"
#include "run/plan.h"
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

/* The sizes of a movement are numbers here. */
tn_node *tn__plan_seen(tn_ctx *c, const tn__plan *p, uint32_t i, const tn__env *env, tn__buffer *b) {
  tn__nodes way = {0};
  tn_node *x = p->view[i].moved, *dim[TN_MAX_RANK];
  for (; x->op != OP_PARAM; x = x->src[0]) tn__vec_push(&c->scratch, &way, x);
  for (uint32_t d = 0; d < x->rank; d++) dim[d] = tn__int(c, tn__eval_index(x->dim[d], env, &c->scratch));
  tn_node *over = tn__storage_make(c, x->dtype, tn__buffer_keep(b), dim, x->rank);
  while (way.n) {
    const tn_node *n = way.v[--way.n];
    tn_node **src = tn__alloc(c, n->nsrc * sizeof *src);
    src[0] = over;
    for (uint32_t s = 1; s < n->nsrc; s++) src[s] = tn__int(c, tn__eval_index(n->src[s], env, &c->scratch));
    over = tn__node_with(c, way.v[way.n], src);
  }
  return over;
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
