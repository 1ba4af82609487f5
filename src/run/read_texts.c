/* The text of a plan's kernels, read back and compared with their linear programs (verify/readback.h). */
#include "run/plan.h"
#include "backend/cuda/target.h"
#include "render/dialect.h"
#include "verify/readback.h"
#include "verify/verify.h"

enum { WORLDS = 2 }; /* of symbolic sizes */

static const struct {
  const tn__dialect *dialect;
  tn__readback_language language;
} languages[] = {{NULL, TN__READ_C},
                 {&tn__dialect_c, TN__READ_C},
                 {&tn__dialect_cuda, TN__READ_CUDA},
                 {&tn__dialect_opencl, TN__READ_OPENCL}};

static const tn__dialect *dialect_of(const tn__plan *p, tn__readback_language *language) {
  for (size_t i = 0; i < sizeof languages / sizeof *languages; i++)
    if (languages[i].dialect == p->dev->dialect) {
      *language = languages[i].language;
      return p->dev->dialect ? p->dev->dialect : &tn__dialect_c;
    }
  return NULL;
}

/* One item's kernel, at the sizes that are bound. */
static tn__readback_result read_item(tn_ctx *c, const tn__plan *p, uint32_t item, tn__readback_subject *s) {
  const tn__step *st = &p->step[item];
  const tn__kernel *k = p->kernel[st->kernel];
  int64_t *size = tn__alloc(c, (k->nbuf + 1) * sizeof *size), *value = tn__alloc(c, (k->nvar + 1) * sizeof *value);
  tn__sb why;
  for (uint32_t b = 0; b < k->nbuf; b++) {
    uint32_t at = tn__plan_number(p, st->buf[b]);
    size[b] = (int64_t)(p->bytes[at] / tn__size_of(k->buf_dtype[b]));
  }
  for (uint32_t v = 0; v < k->nvar; v++)
    for (uint32_t x = 0; x < p->var.n; x++)
      if (p->var.v[x] == k->var[v]) value[v] = p->value[x];
  s->kernel = k, s->size = size, s->value = value;
  tn__sb_init(&why, &c->scratch);
  tn__readback_result result = tn__readback(c, s, &why);
  if (result == TN__READ_DIFFERS)
    tn__fail(c, TN_ECOMPILE, "the text of kernel %s is not its program: %s", k->name, tn__sb_str(&why));
  return result;
}

/* Kernels for work groups have no text in a language without them: such a device interprets what it lowered. */
static bool has_text(const tn__plan *p, const tn__dialect *d) {
  for (uint32_t i = 0; i < p->nkernels; i++)
    for (uint32_t q = 0; q < p->kernel[i]->nparts; q++)
      if ((p->kernel[i]->part[q].group > 0) != (d->group != NULL)) return false;
  return true;
}

uint32_t tn__plan_read_texts(tn_ctx *c, tn__plan *p, uint32_t *count) {
  tn__readback_subject s = {0};
  const tn__dialect *d = dialect_of(p, &s.language);
  tn__sb text;
  if (!d || !p->nkernels || !has_text(p, d)) return p->nkernels;
  tn__sb_init(&text, &c->scratch);
  tn__render_unit(c, &text, d, p->kernel, p->nkernels);
  s.text = tn__sb_str(&text);
  bool *done = tn__arena_zalloc(&c->scratch, p->nkernels + 1);
  for (uint32_t world = 0; world < (p->var.n ? WORLDS : 1); world++) {
    if (!tn__verify_sizes(c, p->var.v, p->var.n, &p->needs, world, p->value)) continue;
    tn__plan_measure(c, p);
    for (uint32_t i = 0; i < p->s->items.n; i++) {
      if (p->step[i].kernel < 0) continue;
      tn__readback_result result = read_item(c, p, i, &s);
      if (!done[p->step[i].kernel]) count[result]++;
      done[p->step[i].kernel] = true;
    }
  }
  uint32_t unread = 0;
  for (uint32_t i = 0; i < p->nkernels; i++) unread += !done[i];
  return unread;
}
