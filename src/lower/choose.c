/* Which mapping a kernel gets: of the variants, the one that takes the least time as cost.c predicts it. */
#include "lower/lower.h"
#include <math.h>

enum { MOST = 64, SHOWN = 6 };
/* launches that the usual mapping takes, its own included, for others to be looked at: predictions of less are as much
 * about what a compiler makes of short loops */
static const double WORTH = 3;
static const double SURE = 0.8; /* of the usual one's time: predictions are no better than that */

typedef struct ranked {
  const tn__variant *variant;
  double time;
  int threads; /* of a block, at most */
} ranked;

static ranked predicted(tn_ctx *c, tn_node *body, const tn__target *target, const tn__variant *v) {
  tn__work work = tn__work_begin(c);
  const tn__kernel *k = tn__lower(c, &c->scratch, body, target, v, 0);
  ranked x = {v, tn__kernel_time(&c->scratch, k, target), 0};
  for (uint32_t p = 0; p < k->nparts; p++)
    if (tn__threads_of_block(&k->part[p]) > x.threads) x.threads = tn__threads_of_block(&k->part[p]);
  tn__work_end(c, work);
  return x;
}

/* Is it one of those that differ much?  Groups of half or twice the size, and vectors, are for tuning; without
 * reductions, or values stored for rows, there are no rows to share, or to cut into blocks, and no products. */
/* a choice: either is right */
static bool differs(const tn__variant *v, bool rows) {
  return !v->group && !v->lanes && (rows || (!v->team && !v->blocks && !v->tile && !v->alone));
}

static const char *describe(tn__arena *keep, const ranked *all, uint32_t n) {
  tn__sb s;
  tn__sb_init(&s, keep);
  for (uint32_t i = 0; i < n && i < SHOWN; i++)
    tn__sb_printf(&s, "%s%s %.3g us", i ? ", " : "", all[i].variant->name, all[i].time * 1e6);
  return tn__sb_str(&s);
}

/* a choice: any is right */
tn__choice tn__choose(tn_ctx *c, tn__arena *keep, tn_node *body, const tn__target *target) {
  const tn__variant *usual = tn__variant_at(0), *v;
  tn__choice choice = {usual, NULL, INFINITY};
  ranked all[MOST];
  uint32_t at = 0, n = 0;
  if (target->latency <= 0 || tn__is_program(body)) return choice;
  tn__survey s;
  tn__survey_loops(c, &c->scratch, body, &s);
  while (n < MOST && (v = tn__variant_next(c, target, body, false, &at))) {
    if (!differs(v, tn__has_rows(&s))) continue;
    ranked x = predicted(c, body, target, v), *same = NULL;
    if (v == usual) choice.time = x.time;
    if (isinf(x.time) && v == usual) return choice;
    if (isinf(x.time)) continue;
    if (v == usual && x.time < WORTH * (double)target->launch) return choice.ranking = describe(keep, &x, 1), choice;
    uint32_t i = n;
    for (uint32_t k = 0; k < n; k++)
      if (all[k].time == x.time) same = &all[k];
    /* of groups predicted exactly alike, which differ in what is not predicted, the largest */
    if (same && same->variant != usual && x.threads > same->threads) *same = x;
    if (same) continue;
    for (; i && all[i - 1].time > x.time; i--) all[i] = all[i - 1];
    all[i] = x;
    n++;
  }
  if (!n) return choice;
  choice.ranking = describe(keep, all, n);
  if (all->time < SURE * choice.time) choice.variant = all->variant, choice.time = all->time;
  return choice;
}
