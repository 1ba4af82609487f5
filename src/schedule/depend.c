#include "schedule/depend.h"

enum {
  MAX_SEARCH = 20000, /* kernels that a search looks at */
  MAX_APART = 4000    /* places between two kernels that are compared with many others */
};

/* The kernels that write the node at a position are k, k + 1, ... */
static int first_writer(const tn__fuse *f, uint32_t at) { return f->info[at].kernel; }

static bool writes(const tn__fuse *f, int first, int k) {
  return k >= 0 && k < (int)f->seeds.n && (k == first || f->seeds.v[k].first == first);
}

static void find_loads(tn__fuse *f, tn__depends *d) {
  for (uint32_t k = 0; k < f->seeds.n; k++) tn__vec_push(f->a, &d->loads, ((tn__numbers){0}));
  for (uint32_t i = 0; i < f->order.n; i++) {
    const tn__info *in = &f->info[i];
    for (uint32_t j = 0; in->buf >= 0 && j < in->want.n; j++) {
      tn__numbers *of = &d->loads.v[in->want.v[j].k];
      bool again = of->n && of->v[of->n - 1] == i;
      if (!tn__writes(f, in, in->want.v[j].k) && !again) tn__vec_push(f->a, of, i);
    }
    for (uint32_t j = 0; j < in->readers.n; j++) tn__vec_push(f->a, &d->loads.v[in->readers.v[j]], i);
  }
}

/* First those that read nothing that is computed, then those that read only from them, and so on: kernels that read
 * the same stand close together. */
static void find_order(tn__fuse *f, tn__depends *d) {
  uint32_t n = f->seeds.n;
  tn__numbers *readers = tn__arena_zalloc(f->a, (n + 1) * sizeof *readers);
  uint32_t *missing = tn__arena_zalloc(f->a, (n + 1) * sizeof *missing);
  for (uint32_t k = 0; k < n; k++)
    for (uint32_t i = 0; i < d->loads.v[k].n; i++)
      for (int first = first_writer(f, d->loads.v[k].v[i]), w = first; writes(f, first, w); w++) {
        tn__vec_push(f->a, &readers[w], k);
        missing[k]++;
      }
  for (uint32_t k = n; k && k--;) { /* kernels are numbered from the outputs on */
    tn__vec_push(f->a, &d->place, 0);
    tn__vec_push(f->a, &d->mark, 0);
    if (!missing[k]) tn__vec_push(f->a, &d->order, (int)k);
  }
  for (uint32_t at = 0; at < d->order.n; at++) {
    int k = d->order.v[at];
    d->place.v[k] = at;
    for (uint32_t i = 0; i < readers[k].n; i++)
      if (!--missing[readers[k].v[i]]) tn__vec_push(f->a, &d->order, (int)readers[k].v[i]);
  }
  if (d->order.n != n) tn__fail(f->c, TN_ERUN, "internal: kernels depend on each other in a circle");
}

void tn__depends_find(tn__fuse *f, tn__depends *d) {
  *d = (tn__depends){0};
  find_loads(f, d);
  find_order(f, d);
}

bool tn__depends_on(tn__fuse *f, const tn__depends *d, int of, int on, int but) {
  tn__vec(int) todo = {0};
  uint32_t looked = 0;
  if (d->place.v[of] < d->place.v[on]) return false;
  f->searches++;
  tn__vec_push(f->a, &todo, of);
  while (todo.n) {
    int reader = todo.v[--todo.n];
    const tn__numbers *from = &d->loads.v[reader];
    for (uint32_t i = 0; i < from->n; i++) {
      int first = first_writer(f, from->v[i]);
      if (reader == of && first == but) continue;
      if (first == on) return true;
      for (int k = first; writes(f, first, k); k++) {
        if (f->seeds.v[k].aim == f->searches || d->place.v[k] < d->place.v[on]) continue;
        f->s->looked++;
        if (++looked > MAX_SEARCH) return true;
        f->seeds.v[k].aim = f->searches;
        tn__vec_push(f->a, &todo, k);
      }
    }
  }
  return false;
}

/* Does kernel k read from one that has been marked? */
static bool reads_marked(const tn__fuse *f, const tn__depends *d, int k) {
  for (uint32_t i = 0; i < d->loads.v[k].n; i++)
    for (int first = first_writer(f, d->loads.v[k].v[i]), w = first; writes(f, first, w); w++)
      if (d->mark.v[w] == d->marks) return true;
  return false;
}

static void mark_writers(const tn__fuse *f, tn__depends *d, int k) {
  for (uint32_t i = 0; i < d->loads.v[k].n; i++)
    for (int first = first_writer(f, d->loads.v[k].v[i]), w = first; writes(f, first, w); w++)
      d->mark.v[w] = d->marks;
}

static bool is_far(uint32_t x, uint32_t y) { return x < y ? y - x > MAX_APART : x - y > MAX_APART; }

void tn__depends_mark(tn__fuse *f, tn__depends *d, int k, uint32_t from, uint32_t to) {
  uint32_t at = d->place.v[k];
  if (is_far(from, at)) from = at - MAX_APART;
  if (is_far(to, at)) to = at + MAX_APART;
  f->s->looked += to - from;
  d->mark.v[k] = ++d->marks;
  for (uint32_t i = at + 1; i <= to; i++) {
    int j = d->order.v[i];
    if (j >= 0 && reads_marked(f, d, j)) d->mark.v[j] = d->marks;
  }
  mark_writers(f, d, k); /* which stand before it: no more readers are looked for */
  for (uint32_t i = at; i > from; i--) {
    int j = d->order.v[i - 1];
    if (j >= 0 && d->mark.v[j] == d->marks) mark_writers(f, d, j);
  }
}

bool tn__depends_marked(const tn__depends *d, int k, int j) {
  return d->mark.v[j] == d->marks || is_far(d->place.v[k], d->place.v[j]);
}

void tn__depends_join(tn__fuse *f, tn__depends *d, int a, int b, int now) {
  bool ordered = d->place.v[a] < d->place.v[b];
  uint32_t lo = d->place.v[ordered ? a : b], hi = d->place.v[ordered ? b : a], n = lo;
  tn__vec(int) behind = {0}; /* what needs the first of the two */
  f->s->looked += hi - lo;
  d->mark.v[d->order.v[lo]] = ++d->marks;
  for (uint32_t i = lo + 1; i < hi; i++) {
    int k = d->order.v[i];
    if (k < 0) continue;
    if (reads_marked(f, d, k)) {
      d->mark.v[k] = d->marks;
      tn__vec_push(f->a, &behind, k);
    } else {
      d->place.v[k] = n;
      d->order.v[n++] = k;
    }
  }
  while ((int)d->place.n <= now) {
    tn__vec_push(f->a, &d->place, 0);
    tn__vec_push(f->a, &d->mark, 0);
    tn__vec_push(f->a, &d->loads, ((tn__numbers){0}));
  }
  d->place.v[now] = n;
  d->order.v[n++] = now;
  for (uint32_t i = 0; i < behind.n; i++) {
    d->place.v[behind.v[i]] = n;
    d->order.v[n++] = behind.v[i];
  }
  while (n <= hi) d->order.v[n++] = -1;
  for (int side = now == a; side < 2; side++) {
    const tn__numbers *old = &d->loads.v[side ? b : a];
    for (uint32_t i = 0; i < old->n; i++) tn__vec_push(f->a, &d->loads.v[now], old->v[i]);
  }
}
