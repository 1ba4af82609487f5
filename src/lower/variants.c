/* What tuning tries: choices that lean away from the cost model's, one or two at a time.  In mode strict all of them
 * give the same results, for then nothing that changes the order of a sum is ever chosen. */
#include "lower/lower.h"
#include <string.h>

enum {
  SLOW_WORK = 1 << 22, /* multiply-adds of a product by plain loops that are worth waiting for, */
  MUCH_WORK = 1 << 30  /* and by a GPU's threads */
};

/* A name stands in files (run/tune.c): another meaning, another name. */
static const tn__variant variants[] = {
    {.name = "usual"},
    {.name = "half groups", .group = -1},
    {.name = "double groups", .group = 1},
    {.name = "half packs", .pack = -1},
    {.name = "double packs", .pack = 1},
    {.name = "no packs", .pack = TN__VARIANT_NONE},
    {.name = "half lanes", .lanes = -1},
    {.name = "double lanes", .lanes = 1},
    {.name = "whole", .blocks = TN__VARIANT_NONE},
    {.name = "half blocks", .blocks = -1},
    {.name = "double blocks", .blocks = 1},
    {.name = "fourfold blocks", .blocks = 2},
    {.name = "second tile", .tile = 1},
    {.name = "second tile, half blocks", .tile = 1, .blocks = -1},
    {.name = "second tile, double blocks", .tile = 1, .blocks = 1},
    {.name = "third tile", .tile = 2},
    {.name = "third tile, double blocks", .tile = 2, .blocks = 1},
    {.name = "no tile", .tile = TN__VARIANT_NONE},
    {.name = "no team", .team = 1},
    {.name = "team 2", .team = 2},
    {.name = "team 4", .team = 4},
    {.name = "team 8", .team = 8},
    {.name = "team 16", .team = 16},
    {.name = "team 32", .team = 32},
    {.name = "team 64", .team = 64},
    {.name = "team 128", .team = 128},
    {.name = "team 256", .team = 256},
    {.name = "team 512", .team = 512},
    {.name = "team 1024", .team = 1024},
    {.name = "chunk 2", .chunk = 2},
    {.name = "chunk 4", .chunk = 4},
    {.name = "chunk 8", .chunk = 8},
    {.name = "team 8 across 8", .team = 8, .together = 8, .across = true},
    {.name = "team 16 across 8", .team = 16, .together = 8, .across = true},
    {.name = "team 32 across 8", .team = 32, .together = 8, .across = true},
    {.name = "team 64 across 8", .team = 64, .together = 8, .across = true},
    {.name = "team 128 across 8", .team = 128, .together = 8, .across = true},
    {.name = "team 4 across 32", .team = 4, .together = 32, .across = true},
    {.name = "team 8 across 32", .team = 8, .together = 32, .across = true},
    {.name = "team 16 across 32", .team = 16, .together = 32, .across = true},
    {.name = "team 32 across 32", .team = 32, .together = 32, .across = true},
    {.name = "patch 8x8", .rows = 8, .cols = 8},
    {.name = "patch 8x4", .rows = 8, .cols = 4},
    {.name = "patch 4x4", .rows = 4, .cols = 4},
    {.name = "patch 2x4", .rows = 2, .cols = 4},
    {.name = "patch 8", .rows = 1, .cols = 8},
    {.name = "patch 4", .rows = 1, .cols = 4},
    {.name = "patch 2", .rows = 1, .cols = 2},
    {.name = "own", .own = true},
    {.name = "own, double blocks", .own = true, .blocks = 1},
    {.name = "own, second tile", .own = true, .tile = 1},
    {.name = "own, second tile, double blocks", .own = true, .tile = 1, .blocks = 1},
    {.name = "own, third tile", .own = true, .tile = 2},
    {.name = "whole, team 32 across 8", .blocks = TN__VARIANT_NONE, .team = 32, .together = 8, .across = true},
    {.name = "whole, team 64 across 8", .blocks = TN__VARIANT_NONE, .team = 64, .together = 8, .across = true},
    {.name = "whole, team 128 across 8", .blocks = TN__VARIANT_NONE, .team = 128, .together = 8, .across = true},
    {.name = "row alone", .blocks = TN__VARIANT_NONE, .alone = true},
    {.name = "turn 64", .turn = 64}, /* first where both are priced alike: 4 to 12 % less (bench/NOTES.md) */
    {.name = "turn 32", .turn = 32},
    {.name = "windows", .windows = 1},
    {.name = "windows 2", .windows = 2},
    {.name = "windows 4", .windows = 4},
    {.name = "windows 8", .windows = 8},
    {.name = "windows 16", .windows = 16},
    {.name = "fetched", .fetched = true},
    {.name = "begun", .begun = true},
};

enum { VARIANTS = sizeof variants / sizeof *variants };

/* a choice: either is right */
static double work_of(tn_ctx *c, tn_node *body) {
  tn__survey s;
  double work = 1;
  tn__survey_loops(c, &c->scratch, body, &s);
  for (uint32_t k = 0; k < s.r.n; k++) work *= tn__extent(s.r.range[k]);
  return work;
}

/* a choice: either is right */
static bool has_patches(tn_ctx *c, const tn__target *t, tn_node *body, const tn__variant *v) {
  tn__survey s;
  tn__survey_loops(c, &c->scratch, body, &s);
  return tn__has_patches(&s, v) || (v->rows == 1 && tn__has_flat_rows(c, t, &s));
}

/* a choice: either is right */
static bool has_turned(tn_ctx *c, const tn__target *target, tn_node *body) {
  tn__survey s;
  tn__turned t;
  tn__survey_loops(c, &c->scratch, body, &s);
  return tn__turned_find(&s, target, &t);
}

/* a choice: either is right */
static bool has_windows(tn_ctx *c, tn_node *body, const tn__variant *v) {
  tn__survey s;
  tn__survey_loops(c, &c->scratch, body, &s);
  return tn__has_windows(&s, v);
}

/* a choice: either is right */
const tn__variant *tn__variant_next(tn_ctx *c, const tn__target *target, tn_node *body, bool called, uint32_t *at) {
  for (; *at < VARIANTS; ++*at) {
    const tn__variant *l = &variants[*at];
    if (*at && called != l->own) continue;
    if (called && l->own && !target->ntiles && work_of(c, body) > (target->group ? MUCH_WORK : SLOW_WORK)) continue;
    if (l->rows && (!target->group || !has_patches(c, target, body, l))) continue;
    if (l->turn && (!target->group || !has_turned(c, target, body))) continue;
    if (l->windows && (!target->group || !has_windows(c, body, l))) continue;
    if (l->fetched && (!target->group || !tn__has_short_runs(c, target, body))) continue;
    if (l->begun && (!target->group || !tn__has_owned_places(c, target, body))) continue;
    if (l->tile == TN__VARIANT_NONE && (!target->ntiles || work_of(c, body) > MUCH_WORK)) continue;
    ++*at;
    return l;
  }
  return NULL;
}

/* a choice: either is right */
const tn__variant *tn__variant_find(const char *name) {
  for (int i = 0; i < VARIANTS; i++)
    if (!strcmp(variants[i].name, name)) return &variants[i];
  return NULL;
}

const tn__variant *tn__variant_at(uint32_t number) { return number < VARIANTS ? &variants[number] : NULL; }
