/* Launches of several kernels.  A kernel that takes less time than its launch waits for nothing but that; what needs
 * nothing of it, and is as short, goes along.
 *
 * Items are taken in order.  With each go those of the next ones for which all that they read is there already: none of
 * them needs another, and whatever needs them comes later. */
#include "run/plan.h"
#include <string.h>

enum {
  AHEAD = 64,        /* items that are looked at, so that values need not be kept for long */
  MOST_LAUNCHES = 8, /* what goes along may take as many times as long as a launch: for the registers of one kernel there
                      * are fewer threads of another, which costs longer ones more than a launch is worth */
  UNKNOWN = -1
};

typedef struct uniting {
  tn_ctx *c;
  tn__plan *p;
  uint32_t *left; /* by buffer: items that are still to write it */
  bool *gone;     /* by item */
  double *time;   /* by kernel: seconds, without its launches; UNKNOWN */
  tn__vec(tn__item) items;
  tn__vec(tn__step) steps;
  tn__united made;
} uniting;

typedef struct crew { /* items that go together */
  uint32_t item[TN__MAX_PARTS], n;
  tn__kernel *kernel[TN__MAX_PARTS];
  double time;
} crew;

/* a choice: either is right */
static double time_of(uniting *u, int kernel) {
  double *t = &u->time[kernel];
  const tn__target *target = &u->p->dev->target;
  const tn__kernel *k = u->p->kernel[kernel];
  tn__mark work = tn__arena_mark(&u->c->scratch);
  if (*t <= UNKNOWN) *t = tn__kernel_time(&u->c->scratch, k, target) - k->nparts * (double)target->launch;
  tn__arena_rewind(&u->c->scratch, work);
  return *t;
}

static bool is_ready(const uniting *u, const tn__item *it) {
  for (uint32_t b = it->nout; b < it->nbuf; b++)
    if (u->left[it->buf[b]]) return false;
  return true;
}

/* Does one of them write what the other has, too? */
static bool meet(const tn__item *x, const tn__item *y) {
  for (uint32_t i = 0; i < x->nbuf; i++)
    for (uint32_t j = 0; j < y->nbuf; j++)
      if ((i < x->nout || j < y->nout) && x->buf[i] == y->buf[j]) return true;
  return false;
}

/* a choice: no is right */
static bool may_go_along(uniting *u, const crew *w, uint32_t i) {
  const tn__plan *p = u->p;
  const tn__item *it = &p->s->items.v[i];
  if (u->gone[i] || p->step[i].kernel < 0 || w->n == TN__MAX_PARTS || !is_ready(u, it)) return false;
  for (uint32_t m = 0; m < w->n; m++)
    if (meet(&p->s->items.v[w->item[m]], it)) return false;
  return true;
}

/* a choice: no is right */
static bool is_worth_it(uniting *u, const crew *w, uint32_t i) {
  const tn__target *t = &u->p->dev->target;
  tn__kernel *all[TN__MAX_PARTS + 1];
  for (uint32_t m = 0; m < w->n; m++) all[m] = w->kernel[m];
  all[w->n] = u->p->kernel[u->p->step[i].kernel];
  return tn__fit_abreast(all, w->n + 1, t) &&
         w->time + time_of(u, u->p->step[i].kernel) <= MOST_LAUNCHES * (double)t->launch;
}

static void join(uniting *u, crew *w, uint32_t i) {
  w->item[w->n] = i;
  w->kernel[w->n++] = u->p->kernel[u->p->step[i].kernel];
  u->gone[i] = true;
}

static crew find_crew(uniting *u, uint32_t first) {
  const tn__plan *p = u->p;
  crew w = {0};
  join(u, &w, first);
  for (uint32_t i = first + 1; i < p->s->items.n && i <= first + AHEAD; i++) {
    if (!may_go_along(u, &w, i)) continue;
    if (w.n == 1) w.time = time_of(u, p->step[first].kernel);
    if (!is_worth_it(u, &w, i)) continue;
    w.time += time_of(u, p->step[i].kernel);
    join(u, &w, i);
  }
  return w;
}

/* Where each slot goes: all that are written, then all that are read, then what kernels have for themselves. */
static uint32_t place_slots(const uniting *u, const crew *w, uint32_t *const *slot, tn__item *it) {
  uint32_t at = 0;
  for (int kind = 0; kind < 3; kind++) {
    for (uint32_t m = 0; m < w->n; m++) {
      const tn__item *x = &u->p->s->items.v[w->item[m]];
      uint32_t end[] = {x->nout, x->nbuf, u->p->step[w->item[m]].nbuf};
      for (uint32_t s = kind ? end[kind - 1] : 0; s < end[kind]; s++, at++) {
        slot[m][s] = at;
        if (kind < 2) it->buf[at] = x->buf[s];
      }
    }
    if (kind == 0) it->nout = at;
    if (kind == 1) it->nbuf = at;
  }
  return at;
}

/* The kernel that these are, made once */
static int find_united(uniting *u, const crew *w, uint32_t *const *slot) {
  tn__plan *p = u->p;
  for (uint32_t i = 0; i < u->made.n; i++) {
    const tn__unit *x = &u->made.v[i];
    if (x->n == w->n && !memcmp(x->of, w->kernel, w->n * sizeof *w->kernel)) return (int)(p->nkernels + i);
  }
  tn__unit x = {.n = w->n};
  memcpy(x.of, w->kernel, w->n * sizeof *w->kernel);
  x.kernel = tn__abreast(u->c, &u->c->scratch, w->kernel, w->n, slot, p->nkernels + u->made.n);
  tn__vec_push(&u->c->scratch, &u->made, x);
  return (int)(p->nkernels + u->made.n - 1);
}

static void put_united(uniting *u, const crew *w) {
  tn__plan *p = u->p;
  uint32_t all = 0, *slot[TN__MAX_PARTS];
  for (uint32_t m = 0; m < w->n; m++) {
    uint32_t n = p->step[w->item[m]].nbuf;
    slot[m] = tn__alloc(u->c, (n + 1) * sizeof **slot);
    all += n;
  }
  tn__item it = {.buf = tn__arena_zalloc(&p->arena, (all + 1) * sizeof *it.buf)};
  tn__step st = {.nbuf = place_slots(u, w, slot, &it)};
  st.kernel = find_united(u, w, slot);
  tn__vec_push(&p->arena, &u->items, it);
  tn__vec_push(&p->arena, &u->steps, st);
}

tn__united tn__plan_unite(tn_ctx *c, tn__plan *p) {
  uint32_t n = p->s->items.n;
  uniting u = {.c = c,
               .p = p,
               .left = tn__arena_zalloc(&c->scratch, (p->s->bufs.n + 1) * sizeof *u.left),
               .gone = tn__arena_zalloc(&c->scratch, n + 1),
               .time = tn__alloc(c, (p->nkernels + 1) * sizeof *u.time)};
  for (uint32_t k = 0; k < p->nkernels; k++) u.time[k] = UNKNOWN;
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t b = 0; b < p->s->items.v[i].nout; b++) u.left[p->s->items.v[i].buf[b]]++;
  for (uint32_t i = 0; i < n; i++) {
    if (u.gone[i]) continue;
    crew w = {.item = {i}, .n = 1};
    if (p->step[i].kernel >= 0) w = find_crew(&u, i);
    if (w.n > 1) {
      put_united(&u, &w);
    } else {
      tn__vec_push(&p->arena, &u.items, p->s->items.v[i]);
      tn__vec_push(&p->arena, &u.steps, p->step[i]);
    }
    for (uint32_t m = 0; m < w.n; m++)
      for (uint32_t b = 0; b < p->s->items.v[w.item[m]].nout; b++) u.left[p->s->items.v[w.item[m]].buf[b]]--;
  }
  if (!u.made.n) return u.made;
  p->s->items.v = u.items.v, p->s->items.n = u.items.n;
  p->step = u.steps.v;
  return u.made;
}
