/* Several kernels as one launch, of one block, which goes through them one after the other: each part is a stage, and
 * behind it all threads of the block wait for each other, so that what a stage stores the next one may load.  Needs
 * kernels for groups, as they are lowered (joint.c): a block goes through all turns of its groups' loop, however few
 * blocks there are.
 *
 * Stages have as many threads as the block where threads wait for each other in them.  So a part gets more groups side
 * by side, where these have no memory in common and divide the loop's turns, or threads that rest. */
#include "lower/launch_extent.h"
#include "lower/lower.h"
#include <math.h>

static bool has_shared_memory(const tn__part *p) {
  for (uint32_t i = 0; i < p->n; i++)
    if (tn__is_access(p->ins[i]) && p->ins[i]->src[0]->op == OP_LOCAL && p->ins[i]->src[0]->ints[1] <= 0) return true;
  return false;
}

/* May some of its loops be longer in one turn of the groups' loop than in another?  Then groups of several turns would
 * not meet. */
/* a choice: yes is right */
static bool has_uneven_loops(const tn__part *p) {
  for (uint32_t i = 0; i < p->n; i++)
    if (p->ins[i]->op == OP_RANGE && p->ins[i] != p->global && !tn__is_const(p->ins[i]->src[0])) return true;
  return false;
}

/* The part for a block of so many threads; false: there is no such. */
static bool widen(tn__part *p, int threads) {
  int64_t turns = 1;
  int together = tn__groups_of_block(p), most = threads / p->group;
  bool meet = tn__has_meetings(p), shared = has_shared_memory(p);
  if (tn__threads_of_block(p) > threads) return false;
  if (p->global && !tn__const_int(p->global->src[0], &turns)) return false;
  if (p->global && !meet && !shared && turns > together) p->together = turns < most ? (int)turns : most;
  if (p->global && meet && !shared && !p->across && !has_uneven_loops(p))
    for (p->together = together; 2 * p->together <= most && turns % (2 * p->together) == 0;) p->together *= 2;
  if (!tn__meets(p) || tn__threads_of_block(p) == threads) return true;
  if (together > 1) return false;
  p->together = 0;
  p->group = threads;
  return true;
}

double tn__stages_time(tn__arena *a, const tn__kernel *k, const tn__target *t, int threads) {
  double time = 0;
  if (!tn__may_join(k)) return INFINITY;
  for (uint32_t p = 0; p < k->nparts; p++) {
    tn__part x = k->part[p];
    time += widen(&x, threads) ? tn__stage_time(a, k, &x, t) : INFINITY;
  }
  return time;
}

/* a choice: no is right */
bool tn__fit_stages(tn__kernel *const *k, uint32_t n, const tn__target *target) {
  uint32_t parts = 0, buffers = 0;
  int64_t shared = 0;
  for (uint32_t i = 0; i < n; i++) {
    parts += k[i]->nparts;
    buffers += k[i]->nbuf;
    shared += k[i]->shared;
  }
  shared += 2 * (int64_t)sizeof(double) * target->group; /* at most, for what threads tell each other */
  return parts <= TN__MAX_PARTS && buffers <= TN__JOINT_BUFFERS && shared <= (int64_t)target->shared;
}

static const char *note_of(tn__arena *a, tn__kernel *const *k, uint32_t n) {
  tn__sb text, *note = &text;
  tn__sb_init(note, a);
  for (uint32_t i = 0; i < n; i++) tn__sb_printf(note, " stages(%s)%s", k[i]->name, k[i]->note);
  return tn__sb_str(note);
}

tn__kernel *tn__stages(tn_ctx *c, tn__arena *a, tn__kernel *const *k, uint32_t n, uint32_t *const *slot, int threads,
                       uint32_t index) {
  tn__kernel *all = tn__arena_zalloc(a, sizeof *all);
  tn__part *part[TN__MAX_PARTS];
  tn__nodes require = {0};
  tn__joint_parts(c, a, k, n, slot, part, &require);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t p = 0; p < k[i]->nparts; p++) {
      tn__part *q = &all->part[all->nparts];
      *q = part[i][p];
      if (!widen(q, threads)) tn__fail(c, TN_ERUN, "internal: %s is no stage of %d threads", k[i]->name, threads);
      q->behind = all->nparts++ > 0;
    }
  all->require = require.v;
  all->nrequire = require.n;
  tn__joint_end(a, all, "stages", index);
  all->note = note_of(a, k, n);
  return all;
}
