#include "schedule/remake.h"
#include "rewrite/rewrite.h"

bool tn__remake_alive(const tn__fuse *f, int k) { return tn__seed_of(f, k)->roots.n; }

static bool is_theirs(const tn__remake *p, int k) { return k == p->a || k == p->b || k == p->k; }

bool tn__remake_drops(const tn__fuse *f, const tn__remake *p, const tn__info *in) {
  if (in->out >= 0 || in->readers.n) return false;
  for (uint32_t i = 0; i < in->want.n; i++)
    if (!is_theirs(p, in->want.v[i].k) && tn__remake_alive(f, in->want.v[i].k)) return false;
  return true;
}

uint32_t tn__remake_demands(const tn__fuse *f, const tn__info *in, int k) {
  uint32_t n = 0;
  for (int i = tn__demand_last(f, in, k); i >= 0; i = in->want.v[i].before) n++;
  return n;
}

void tn__remake_note(tn__fuse *f, tn__remake *p, const tn_node *n) {
  tn__info *in = tn__info_of(f, n);
  if (!in || in->seen == f->searches || tn__demand_last(f, in, p->k) < 0) return;
  in->seen = f->searches;
  tn__heap_push(f->a, &p->todo, (uint32_t)(in - f->info));
  tn__vec_push(f->a, &p->seen, (uint32_t)(in - f->info));
}

/* The same place, or one beside it in the same row */
static bool in_row(const tn__remake *p, const tn_node *x, const tn_node *y) {
  for (uint32_t i = 0; i < x->nsrc; i++) {
    const tn_node *u = x->src[i], *v = y->src[i];
    bool row = false;
    if (u == v) continue;
    for (uint32_t r = 0; r < p->rows->nsrc; r++) row |= u == p->rows->src[r] || v == p->rows->src[r];
    if (row || u->op != OP_RANGE || v->op != OP_RANGE || u->src[0] != v->src[0]) return false;
  }
  return true;
}

tn_node *tn__remake_moved(tn__fuse *f, const tn__remake *p, int k, tn_node *x) {
  return x && k == p->small ? tn__substitute(f->c, x, p->from.v, p->to.v, p->from.n) : x;
}

bool tn__remake_had(tn__fuse *f, const tn__remake *p, const tn__info *in, const tn__demand *d) {
  for (int i = tn__demand_last(f, in, p->a); i >= 0; i = in->want.v[i].before)
    if (tn__remake_moved(f, p, p->a, in->want.v[i].gate) == d->gate &&
        in_row(p, tn__remake_moved(f, p, p->a, in->want.v[i].idx), d->idx))
      return true;
  return false;
}

/* What a kernel stores it wants before anything else. */
static int wanted_first(const tn__fuse *f, const tn__info *in, int k) {
  int i = tn__demand_last(f, in, k);
  while (i >= 0 && in->want.v[i].before >= 0) i = in->want.v[i].before;
  return i;
}

void tn__remake_take_over(tn__fuse *f, const tn__remake *p) {
  for (int side = 0; side < 2; side++) {
    tn__seed *g = tn__seed_of(f, side ? p->b : p->a);
    for (uint32_t i = 0; i < g->roots.n; i++) {
      tn__info *in = tn__info_of(f, g->roots.v[i]);
      bool drop = tn__remake_drops(f, p, in);
      in->kernel = drop ? -1 : p->k;
      in->host = drop ? -1 : wanted_first(f, in, p->k);
      if (drop) in->buf = -1;
    }
    g->roots.n = 0;
  }
}

void tn__remake_give_up(tn__fuse *f, const tn__remake *p) {
  tn__seed_of(f, p->k)->roots.n = 0;
  for (uint32_t i = 0; i < p->seen.n; i++) { /* the last demands are this kernel's */
    tn__info *in = &f->info[p->seen.v[i]];
    while (in->want.n && in->want.v[in->want.n - 1].k == p->k) in->want.n--;
  }
}

void tn__remake_tidy(tn__fuse *f) {
  int *now = tn__arena_zalloc(f->a, (f->s->bufs.n + 1) * sizeof *now);
  uint32_t n = 0;
  tn__map_init(&f->places, f->a);
  for (uint32_t i = 0; i < f->order.n; i++) {
    tn__info *in = &f->info[i];
    int host = in->host;
    uint32_t m = 0;
    for (uint32_t j = 0; j < in->want.n; j++) {
      if (!tn__remake_alive(f, in->want.v[j].k)) continue;
      if ((int)j == host) in->host = (int)m;
      in->want.v[m] = in->want.v[j];
      tn__demand_link(f, in, m++);
    }
    in->want.n = m;
    if (in->buf >= 0) now[in->buf] = 1;
  }
  for (uint32_t i = 0; i < f->s->bufs.n; i++) {
    if (!now[i]) continue;
    f->s->bufs.v[n] = f->s->bufs.v[i];
    now[i] = (int)n++;
  }
  f->s->bufs.n = n;
  for (uint32_t i = 0; i < f->order.n; i++)
    if (f->info[i].buf >= 0) f->info[i].buf = now[f->info[i].buf];
}

