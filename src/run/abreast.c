/* A kernel that takes less time than its launch waits for nothing but that; what needs nothing of it, and is as short,
 * goes along.
 *
 * Items are taken in order.  With each go those of the next ones for which all that they read is there already: none of
 * them needs another, and whatever needs them comes later. */
#include "run/crew.h"
#include "lower/launch_extent.h"
#include <math.h>

enum {
  AHEAD = 64,        /* items that are looked at, so that values need not be kept for long */
  MADE = 2,          /* so many joint kernels for each that there is: each is compiled */
  UNKNOWN = -1
};

typedef struct search {
  tn_ctx *c;
  const tn__lowered *l;
  uint32_t *left; /* by buffer: items that are still to write it */
  bool *read;     /* by buffer: does an item read it? */
  bool *gone;     /* by item */
  double *time;   /* by kernel: seconds, without its launches; UNKNOWN */
  tn__crews made; /* one of each that has other kernels */
} search;

/* a choice: either is right */
static double time_of(search *s, int kernel) {
  double *t = &s->time[kernel];
  const tn__kernel *k = s->l->kernel[kernel];
  tn__mark work = tn__arena_mark(&s->c->scratch);
  if (*t <= UNKNOWN)
    *t = tn__kernel_time(&s->c->scratch, k, s->l->target) - k->nparts * (double)s->l->target->launch;
  tn__arena_rewind(&s->c->scratch, work);
  return *t;
}

static bool is_ready(const search *s, const tn__item *it) {
  for (uint32_t b = it->nout; b < it->nbuf; b++)
    if (s->left[it->buf[b]]) return false;
  return true;
}

/* Does one of them write what the other has, too?  Spans of one buffer are apart. */
static bool meet(const tn__item *x, const tn__item *y) {
  for (uint32_t i = 0; i < x->nbuf; i++)
    for (uint32_t j = 0; j < y->nbuf; j++) {
      bool written = i < x->nout || j < y->nout, spans = x->span && y->span && i < x->nout && j < y->nout;
      if (written && !spans && x->buf[i] == y->buf[j]) return true;
    }
  return false;
}

/* a choice: no is right */
static bool may_go_along(const search *s, const tn__crew *w, uint32_t i) {
  const tn__item *it = &s->l->item[i];
  if (s->gone[i] || s->l->kernel_of[i] < 0 || w->n == TN__OWN_PARTS || !is_ready(s, it)) return false;
  for (uint32_t m = 0; m < w->n; m++)
    if (meet(&s->l->item[w->item[m]], it)) return false;
  return true;
}

/* Which share of the device its threads are, at most all of it */
/* a choice: either is right */
static double share_of(const tn__kernel *k, const tn__target *t) {
  double most = 0, room = (double)t->units * t->unit_threads;
  for (uint32_t p = 0; p < k->nparts; p++)
    most = fmax(most, (double)tn__fixed_blocks(&k->part[p]) * tn__threads_of_block(&k->part[p]));
  return fmin(1, most / room);
}

static bool is_awaited(const search *s, const tn__item *it) {
  for (uint32_t b = 0; b < it->nout; b++)
    if (s->read[it->buf[b]]) return true;
  return false;
}

/* Launched as one they are done together: what waits for a short one waits for the longest, or for as long as they keep
 * each other from the device.  That may take no longer than the launch that is spared. */
/* a choice: either is right */
static bool is_worth_it(search *s, const tn__crew *w) {
  const tn__target *t = s->l->target;
  double longest = 0, all = 0, awaited = INFINITY, launch = (double)t->launch;
  for (uint32_t m = 0; m < w->n; m++) {
    int kernel = s->l->kernel_of[w->item[m]];
    double time = time_of(s, kernel);
    longest = fmax(longest, time);
    all += time * share_of(s->l->kernel[kernel], t);
    if (is_awaited(s, &s->l->item[w->item[m]])) awaited = fmin(awaited, time);
  }
  double time = fmax(longest, all);
  return time <= TN__JOINT_LAUNCHES * launch && time - awaited <= launch;
}

/* a choice: no is right */
static bool fits(search *s, const tn__crew *w, uint32_t i) {
  tn__kernel *k[TN__OWN_PARTS];
  tn__crew more = *w;
  more.item[more.n++] = i;
  tn__crew_kernels(s->l, &more, k);
  return tn__fit_abreast(k, more.n, s->l->target) && is_worth_it(s, &more);
}

/* By kernel: in whatever order they come, the same ones are then one kernel. */
static void sort(const search *s, tn__crew *w) {
  for (uint32_t m = 1; m < w->n; m++) {
    uint32_t i = w->item[m], at = m;
    for (; at && s->l->kernel_of[w->item[at - 1]] > s->l->kernel_of[i]; at--) w->item[at] = w->item[at - 1];
    w->item[at] = i;
  }
}

static bool is_made(const search *s, const tn__crew *w) {
  bool same = false;
  for (uint32_t i = 0; i < s->made.n && !same; i++) {
    const tn__crew *x = &s->made.v[i];
    same = x->n == w->n;
    for (uint32_t m = 0; m < x->n && same; m++) same = s->l->kernel_of[x->item[m]] == s->l->kernel_of[w->item[m]];
  }
  return same;
}

static tn__crew find_crew(search *s, uint32_t first) {
  tn__crew w = {.item = {first}, .n = 1};
  for (uint32_t i = first + 1; s->l->kernel_of[first] >= 0 && i < s->l->n && i <= first + AHEAD; i++)
    if (may_go_along(s, &w, i) && fits(s, &w, i)) w.item[w.n++] = i;
  sort(s, &w);
  if (w.n > 1 && !is_made(s, &w)) {
    if (s->made.n >= MADE * s->l->nkernel) return (tn__crew){.item = {first}, .n = 1};
    tn__vec_push(&s->c->scratch, &s->made, w);
  }
  for (uint32_t m = 0; m < w.n; m++) s->gone[w.item[m]] = true;
  return w;
}

tn__crews tn__crew_abreast(tn_ctx *c, const tn__lowered *l) {
  tn__crews all = {0};
  search s = {.c = c,
              .l = l,
              .left = tn__arena_zalloc(&c->scratch, (l->nbuf + 1) * sizeof *s.left),
              .read = tn__arena_zalloc(&c->scratch, l->nbuf + 1),
              .gone = tn__arena_zalloc(&c->scratch, l->n + 1),
              .time = tn__alloc(c, (l->nkernel + 1) * sizeof *s.time)};
  for (uint32_t k = 0; k < l->nkernel; k++) s.time[k] = UNKNOWN;
  for (uint32_t i = 0; i < l->n; i++)
    for (uint32_t b = 0; b < l->item[i].nbuf; b++) {
      s.left[l->item[i].buf[b]] += b < l->item[i].nout;
      s.read[l->item[i].buf[b]] |= b >= l->item[i].nout;
    }
  for (uint32_t i = 0; i < l->n; i++) {
    if (s.gone[i]) continue;
    tn__crew w = find_crew(&s, i);
    tn__vec_push(&c->scratch, &all, w);
    for (uint32_t m = 0; m < w.n; m++)
      for (uint32_t b = 0; b < l->item[w.item[m]].nout; b++) s.left[l->item[w.item[m]].buf[b]]--;
  }
  return all;
}
