/* What a crew is as an item.  Items abreast have slots for themselves, even if several read the same buffer, or store
 * to spans of one (schedule/join.c); of stages each buffer has one slot, whichever of them store to it or load it. */
#include "run/crew.h"

tn__crews (*const tn__crew_ways[])(tn_ctx *c, const tn__lowered *l) = {tn__crew_stages, tn__crew_abreast};

void tn__crew_kernels(const tn__lowered *l, const tn__crew *w, tn__kernel **out) {
  for (uint32_t m = 0; m < w->n; m++) out[m] = l->kernel[l->kernel_of[w->item[m]]];
}

typedef struct slots {
  uint32_t *of[TN__MAX_PARTS]; /* by member and its slot */
  int *buf;                    /* by slot */
  uint32_t nout, nbuf, n;      /* those that are written come first, then others of the schedule, then scratch */
} slots;

static uint32_t find_slot(slots *s, const tn__crew *w, int buf) {
  for (uint32_t i = 0; i < s->n && w->threads; i++)
    if (s->buf[i] == buf) return i;
  s->buf[s->n] = buf;
  return s->n++;
}

/* All that are written, then all that are read, then what kernels have for themselves */
static slots find_slots(tn__arena *a, const tn__lowered *l, const tn__crew *w) {
  slots s = {0};
  tn__kernel *k[TN__MAX_PARTS];
  uint32_t most = 0;
  tn__crew_kernels(l, w, k);
  for (uint32_t m = 0; m < w->n; m++) {
    uint32_t n = l->item[w->item[m]].nbuf + k[m]->nbuf;
    s.of[m] = tn__arena_zalloc(a, (n + 1) * sizeof *s.of[m]);
    most += n;
  }
  s.buf = tn__arena_zalloc(a, (most + 1) * sizeof *s.buf);
  for (int kind = 0; kind < 3; kind++) {
    for (uint32_t m = 0; m < w->n; m++) {
      const tn__item *x = &l->item[w->item[m]];
      const uint32_t end[] = {x->nout, x->nbuf, k[m]->nbuf};
      for (uint32_t i = kind ? end[kind - 1] : 0; i < end[kind]; i++)
        s.of[m][i] = kind < 2 ? find_slot(&s, w, x->buf[i]) : s.n++;
    }
    if (kind == 0) s.nout = s.n;
    if (kind == 1) s.nbuf = s.n;
  }
  return s;
}

tn__item tn__crew_item(tn__arena *keep, const tn__lowered *l, const tn__crew *w) {
  slots s = find_slots(keep, l, w);
  return (tn__item){.buf = s.buf, .nbuf = s.nbuf, .nout = s.nout};
}

tn__kernel *tn__crew_kernel(tn_ctx *c, const tn__lowered *l, const tn__crew *w, uint32_t index) {
  tn__kernel *k[TN__MAX_PARTS];
  slots s = find_slots(&c->scratch, l, w);
  tn__crew_kernels(l, w, k);
  return w->threads ? tn__stages(c, &c->scratch, k, w->n, s.of, w->threads, index)
                    : tn__abreast(c, &c->scratch, k, w->n, s.of, index);
}

bool tn__crew_same(tn_ctx *c, const tn__lowered *l, const tn__crew *x, const tn__crew *y) {
  tn__mark work = tn__arena_mark(&c->scratch);
  bool same = x->n == y->n && x->threads == y->threads;
  for (uint32_t m = 0; m < x->n && same; m++) same = l->kernel_of[x->item[m]] == l->kernel_of[y->item[m]];
  if (same) {
    slots s = find_slots(&c->scratch, l, x), t = find_slots(&c->scratch, l, y);
    for (uint32_t m = 0; m < x->n && same; m++)
      for (uint32_t i = 0; i < l->kernel[l->kernel_of[x->item[m]]]->nbuf && same; i++) same = s.of[m][i] == t.of[m][i];
  }
  tn__arena_rewind(&c->scratch, work);
  return same;
}
