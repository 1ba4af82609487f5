/* Launches of one kernel that wait for different things.
 *
 * What is scattered is a kernel of two launches: one fills the result, or copies what is added to, and one adds the
 * updates.  As items of their own, the first need not wait for what the updates are made of, or put in order by: a
 * device that records finds of each what it waits for (order.c).  The first takes half the room, or the others would
 * have to wait until all its blocks have begun: devices start kernels' blocks in the order in which these come; but not
 * if it waits for them itself. */
#include "lower/launch_extent.h"
#include "run/crew.h"

typedef struct halves { /* of a kernel of two launches, by its slots */
  bool *used[2], *written[2];
} halves;

static halves look_at(tn__arena *a, const tn__kernel *k) {
  halves h;
  for (int p = 0; p < 2; p++) {
    h.used[p] = tn__arena_zalloc(a, k->nbuf + 1);
    h.written[p] = tn__arena_zalloc(a, k->nbuf + 1);
    tn__part_buffers(a, &k->part[p], h.used[p], h.written[p]);
  }
  return h;
}

/* Each part is a launch, and the second may wait for what the first does not use; partial results are one item's. */
/* a choice: no is right */
static bool may_part(tn__arena *a, const tn__item *it, const tn__kernel *k) {
  if (k->nparts != 2 || k->nlocal || k->nvar || k->nbuf > it->nbuf || it->span) return false;
  for (int p = 0; p < 2; p++)
    if (!k->part[p].group || k->part[p].tile || k->part[p].behind || k->part[p].abreast) return false;
  halves h = look_at(a, k);
  bool more = false;
  for (uint32_t b = 0; b < k->nbuf; b++) more |= h.used[1][b] && !h.used[0][b];
  return more;
}

/* Is what the first part uses made of what only the second one does?  Then it waits for that, too, and holds up none of
 * those that make it. */
/* a choice: either is right */
static bool waits_for_same(const tn__lowered *l, uint32_t item, const halves *h) {
  const tn__item *it = &l->item[item];
  for (uint32_t j = 0; j < item; j++) {
    const tn__item *other = &l->item[j];
    bool makes = false, uses = false;
    for (uint32_t b = 0; b < it->nbuf; b++)
      for (uint32_t o = 0; o < other->nbuf; o++) {
        makes |= o < other->nout && it->buf[b] == other->buf[o] && h->used[0][b] && !h->written[0][b];
        uses |= o >= other->nout && it->buf[b] == other->buf[o] && h->used[1][b] && !h->used[0][b];
      }
    if (makes && uses) return true;
  }
  return false;
}

/* Of a first part: blocks of half the threads that there is room for, each of which goes through several turns */
/* a choice: any number is right */
static void leave_room(tn__arena *a, const tn__target *t, tn__kernel *k) {
  tn__part *p = &k->part[0];
  int64_t blocks = (int64_t)t->units * t->unit_threads / 2 / tn__threads_of_block(p), all = tn__fixed_blocks(p);
  if (blocks < 1 || blocks >= all || tn__meets(p)) return;
  p->blocks = blocks;
  p->leaves_room = true;
  tn__sb note;
  tn__sb_init(&note, a);
  tn__sb_printf(&note, "%s room(%lld)", k->note, (long long)blocks);
  k->note = tn__sb_str(&note);
}

/* Those that are written come first. */
static uint32_t *slots_of(tn__arena *a, const halves *h, int part, uint32_t n) {
  uint32_t *slot = tn__arena_zalloc(a, (n + 1) * sizeof *slot), next = 0;
  for (int read = 0; read < 2; read++)
    for (uint32_t b = 0; b < n; b++)
      if (h->used[part][b] && h->written[part][b] == !read) slot[b] = next++;
  return slot;
}

static tn__item item_of(tn__arena *keep, const tn__item *it, const halves *h, int part, const uint32_t *slot,
                        uint32_t n) {
  tn__item of = {.buf = tn__arena_zalloc(keep, (n + 1) * sizeof *of.buf)};
  for (uint32_t b = 0; b < n; b++) {
    if (!h->used[part][b]) continue;
    of.buf[slot[b]] = it->buf[b];
    of.nbuf++;
    of.nout += h->written[part][b];
  }
  return of;
}

tn__lowered tn__part_launches(tn_ctx *c, tn__arena *keep, const tn__lowered *l) {
  tn__arena *a = &c->scratch;
  tn__item *item = tn__arena_alloc(keep, (2 * l->n + 1) * sizeof *item);
  int *kernel_of = tn__alloc(c, (2 * l->n + 1) * sizeof *kernel_of);
  tn__kernel **kernel = tn__alloc(c, (l->nkernel + 2 * l->n + 1) * sizeof *kernel);
  uint32_t *made = tn__arena_zalloc(a, (l->nkernel + 1) * sizeof *made);
  tn__lowered x = *l;
  x.item = item, x.kernel_of = kernel_of, x.kernel = kernel, x.n = 0;
  for (uint32_t k = 0; k < l->nkernel; k++) kernel[k] = l->kernel[k];
  for (uint32_t i = 0; i < l->n; i++) {
    int of = l->kernel_of[i];
    if (of < 0 || !may_part(a, &l->item[i], l->kernel[of])) {
      kernel_of[x.n] = of;
      item[x.n++] = l->item[i];
      continue;
    }
    const tn__kernel *k = l->kernel[of];
    halves h = look_at(a, k);
    bool is_new = !made[of];
    if (is_new) made[of] = x.nkernel;
    for (int part = 0; part < 2; part++) {
      uint32_t *slot = slots_of(a, &h, part, k->nbuf);
      if (is_new) {
        kernel[x.nkernel] = tn__part_alone(c, a, k, (uint32_t)part, h.used[part], slot, x.nkernel);
        if (part == 0 && !waits_for_same(l, i, &h)) leave_room(a, l->target, kernel[x.nkernel]);
        x.nkernel++;
      }
      kernel_of[x.n] = (int)made[of] + part;
      item[x.n++] = item_of(keep, &l->item[i], &h, part, slot, k->nbuf);
    }
  }
  return x;
}
