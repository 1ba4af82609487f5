/* Kernels that are short, each of which waits for one before it: as stages of one block they wait for each other, which
 * takes less than a launch.
 *
 * Items are taken in order.  With each go those of the next ones that read what one of them writes, and else only what
 * is there already, as long as a block alone takes little longer for each than the device. */
#include "run/crew.h"
#include <math.h>

enum {
  AHEAD = 16,  /* items that are looked at, so that values need not be kept for long */
  WIDTHS = 6,  /* of blocks: the widest, half of that, and so on */
  REPEATS = TN__MAX_PARTS / 2, /* stages, at least, of which a chain ends where it would begin again: so that the next
                                * one is the same kernel */
  UNKNOWN = -1
};
/* of the launches that are spared, for what a block alone takes longer: predictions are no better than that */
static const double SPENT = 0.5;

typedef struct search {
  tn_ctx *c;
  const tn__lowered *l;
  uint32_t *left; /* by buffer: items that are still to write it */
  bool *made;     /* by buffer: the chain writes it */
  bool *gone;     /* by item */
  double *alone, *stage[WIDTHS]; /* by kernel: seconds without launches, as it is, and as stages; UNKNOWN */
} search;

/* a choice: either is right */
static int threads_of(const search *s, int width) { return s->l->target->group >> width; }

/* a choice: either is right */
static double time_alone(search *s, int kernel) {
  double *t = &s->alone[kernel];
  const tn__kernel *k = s->l->kernel[kernel];
  tn__mark work = tn__arena_mark(&s->c->scratch);
  if (*t <= UNKNOWN)
    *t = tn__kernel_time(&s->c->scratch, k, s->l->target) - k->nparts * (double)s->l->target->launch;
  tn__arena_rewind(&s->c->scratch, work);
  return *t;
}

/* a choice: either is right */
static double time_of_stages(search *s, int kernel, int width) {
  double *t = &s->stage[width][kernel];
  tn__mark work = tn__arena_mark(&s->c->scratch);
  if (*t <= UNKNOWN)
    *t = tn__stages_time(&s->c->scratch, s->l->kernel[kernel], s->l->target, threads_of(s, width));
  tn__arena_rewind(&s->c->scratch, work);
  return *t;
}

static bool follows(const search *s, const tn__item *it) {
  bool reads = false;
  for (uint32_t b = it->nout; b < it->nbuf; b++) {
    if (s->left[it->buf[b]]) return false;
    reads |= s->made[it->buf[b]];
  }
  return reads;
}

/* Seconds that a block of this width takes longer for the items than they do as they are.  One that takes longer by
 * itself than it spares is better left out. */
/* a choice: any is right */
static double time_lost(search *s, const tn__crew *w, int width) {
  double lost = 0;
  for (uint32_t m = 0; m < w->n; m++) {
    int kernel = s->l->kernel_of[w->item[m]];
    double more = time_of_stages(s, kernel, width) - time_alone(s, kernel);
    if (more > SPENT * s->l->kernel[kernel]->nparts * (double)s->l->target->launch) return INFINITY;
    lost += more;
  }
  return lost;
}

/* Do the items of w lose less as stages than they spare?  And of how many threads: of as few as lose no more. */
/* a choice: either is right */
static bool is_worth_it(search *s, tn__crew *w) {
  double least = INFINITY, launches = -1;
  for (uint32_t m = 0; m < w->n; m++) launches += s->l->kernel[s->l->kernel_of[w->item[m]]]->nparts;
  for (int width = 0; width < WIDTHS; width++) {
    double lost = time_lost(s, w, width);
    if (lost <= least) least = lost, w->threads = threads_of(s, width);
  }
  return least <= SPENT * launches * (double)s->l->target->launch;
}

/* a choice: no is right */
static bool fits(search *s, tn__crew *w, uint32_t i) {
  tn__kernel *k[TN__MAX_PARTS];
  tn__crew more = *w;
  if (w->n == TN__MAX_PARTS) return false;
  more.item[more.n++] = i;
  for (uint32_t m = 0; m < more.n; m++)
    if (!tn__may_join(s->l->kernel[s->l->kernel_of[more.item[m]]])) return false;
  tn__crew_kernels(s->l, &more, k);
  if (!tn__fit_stages(k, more.n, s->l->target) || !is_worth_it(s, &more)) return false;
  *w = more;
  return true;
}

static void take(search *s, uint32_t i) {
  const tn__item *it = &s->l->item[i];
  for (uint32_t b = 0; b < it->nout; b++) {
    s->made[it->buf[b]] = true;
    s->left[it->buf[b]]--;
  }
  s->gone[i] = true;
}

/* a choice: no is right */
static bool begins_again(const search *s, const tn__crew *w, uint32_t i) {
  return w->n >= REPEATS && s->l->kernel_of[i] == s->l->kernel_of[w->item[0]];
}

static tn__crew find_chain(search *s, uint32_t first) {
  tn__crew w = {.item = {first}, .n = 1};
  take(s, first);
  for (uint32_t i = first + 1; s->l->kernel_of[first] >= 0 && i < s->l->n && i <= w.item[w.n - 1] + AHEAD; i++) {
    if (s->gone[i] || s->l->kernel_of[i] < 0 || !follows(s, &s->l->item[i])) continue;
    if (begins_again(s, &w, i) || !fits(s, &w, i)) break;
    take(s, i);
  }
  for (uint32_t m = 0; m < w.n; m++) {
    const tn__item *it = &s->l->item[w.item[m]];
    for (uint32_t b = 0; b < it->nout; b++) s->made[it->buf[b]] = false;
  }
  if (w.n == 1) w.threads = 0;
  return w;
}

tn__crews tn__crew_stages(tn_ctx *c, const tn__lowered *l) {
  tn__crews all = {0};
  search s = {.c = c,
              .l = l,
              .left = tn__arena_zalloc(&c->scratch, (l->nbuf + 1) * sizeof *s.left),
              .made = tn__arena_zalloc(&c->scratch, l->nbuf + 1),
              .gone = tn__arena_zalloc(&c->scratch, l->n + 1),
              .alone = tn__alloc(c, (l->nkernel + 1) * sizeof *s.alone)};
  for (int w = 0; w < WIDTHS; w++) s.stage[w] = tn__alloc(c, (l->nkernel + 1) * sizeof *s.stage[w]);
  for (uint32_t k = 0; k < l->nkernel; k++) {
    s.alone[k] = UNKNOWN;
    for (int w = 0; w < WIDTHS; w++) s.stage[w][k] = UNKNOWN;
  }
  for (uint32_t i = 0; i < l->n; i++)
    for (uint32_t b = 0; b < l->item[i].nout; b++) s.left[l->item[i].buf[b]]++;
  for (uint32_t i = 0; i < l->n; i++)
    if (!s.gone[i]) tn__vec_push(&c->scratch, &all, find_chain(&s, i));
  return all;
}
