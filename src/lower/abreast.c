/* Several kernels as one.  None needs anything of another: their first parts become a launch, each by blocks of its
 * own, then their second parts, and so on (joint.c). */
#include "lower/launch_extent.h"
#include "lower/lower.h"

enum {
  MOST_SHARED = 8 << 10 /* bytes that groups share: more would keep others of a unit's away */
};

/* ---- which ---- */

/* Threads of a block that has no part in it may be idle, but not where others wait for them, nor most of them in more
 * blocks than there is room for at once. */
static bool fit_threads(tn__kernel *const *k, uint32_t n, const tn__target *target) {
  for (uint32_t p = 0; p < TN__OWN_PARTS; p++) {
    int most = 0, meeting = INT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
      if (p >= k[i]->nparts) continue;
      int threads = tn__threads_of_block(&k[i]->part[p]);
      if (threads > most) most = threads;
      if (threads < meeting && tn__meets(&k[i]->part[p])) meeting = threads;
    }
    if (meeting < most) return false;
    for (uint32_t i = 0; i < n; i++) { /* a choice: no is right */
      const tn__part *x = p < k[i]->nparts ? &k[i]->part[p] : NULL;
      double room = (double)target->units * target->unit_threads;
      if (x && 2 * tn__threads_of_block(x) <= most && (double)tn__fixed_blocks(x) * most > room) return false;
    }
  }
  return true;
}

/* a choice: no is right */
bool tn__fit_abreast(tn__kernel *const *k, uint32_t n, const tn__target *target) {
  uint32_t parts = 0, buffers = 0;
  int64_t shared = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!tn__may_join(k[i]) || k[i]->nrequire) return false;
    parts += k[i]->nparts;
    buffers += k[i]->nbuf;
    shared += k[i]->shared;
  }
  int64_t room = (size_t)MOST_SHARED < target->shared ? MOST_SHARED : (int64_t)target->shared;
  return parts <= TN__OWN_PARTS && buffers <= TN__JOINT_BUFFERS && shared <= room && fit_threads(k, n, target);
}

/* ---- as one ---- */

static const char *note_of(tn__arena *a, tn__kernel *const *k, uint32_t n) {
  tn__sb text, *note = &text;
  tn__sb_init(note, a);
  for (uint32_t i = 0; i < n; i++) tn__sb_printf(note, " abreast(%s)%s", k[i]->name, k[i]->note);
  return tn__sb_str(note);
}

tn__kernel *tn__abreast(tn_ctx *c, tn__arena *a, tn__kernel *const *k, uint32_t n, uint32_t *const *slot,
                        uint32_t index) {
  tn__kernel *all = tn__arena_zalloc(a, sizeof *all);
  tn__part *part[TN__OWN_PARTS];
  tn__nodes none = {0};
  tn__joint_parts(c, a, k, n, slot, part, &none);
  for (uint32_t p = 0; p < TN__OWN_PARTS; p++) {
    bool abreast = false;
    for (uint32_t i = 0; i < n; i++) {
      if (p >= k[i]->nparts) continue;
      tn__part *q = &all->part[all->nparts++];
      *q = part[i][p];
      q->abreast = abreast;
      abreast = true;
    }
  }
  tn__joint_end(a, all, "abreast", index);
  all->note = note_of(a, k, n);
  return all;
}
