#include "verify/given.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "rewrite/rewrite.h"

typedef struct span {
  int64_t lo, hi;
} span;

typedef struct fact { /* of a node */
  span range;
  tn_node *exact;
} fact;

/* ---- sums and products that may wrap ---- */

static bool is_ring(const tn_node *n) {
  return n->dtype == TN__INDEX && (n->op == OP_ADD || n->op == OP_MUL || n->op == OP_NEG);
}

bool tn__given_wraps(const tn_node *n, const int64_t *lo, const int64_t *hi) {
  int64_t from, to;
  return is_ring(n) && !tn__interval_from(n, lo, hi, &from, &to);
}

/* ---- what is known of a node ---- */

static void narrow(span *s, int64_t lo, int64_t hi) {
  if (lo > s->lo) s->lo = lo;
  if (hi < s->hi) s->hi = hi;
}

/* What is required of an element; what a gate keeps from being loaded is 0. */
static void narrow_loaded(const tn__given *g, const tn_node *n, span *s) {
  const tn_node *in = g->kernel ? tn__required(g->kernel, n->src[0], REQ_IN) : NULL;
  if (!in || in->src[2]->hi == INT64_MIN) return;
  int64_t lo = in->src[1]->lo, hi = in->src[2]->hi - 1;
  if (n->dtype == TN_U64 && lo < 0) lo = 0;
  bool gated = n->nsrc > 2;
  narrow(s, gated && lo > 0 ? 0 : lo, gated && hi < 0 ? 0 : hi);
}

/* By what is known of the sources, beyond their own bounds. */
static void narrow_made(const tn_node *n, const int64_t *lo, const int64_t *hi, span *s) {
  int64_t from, to;
  if (!tn__is_elementwise(n) || tn__is_float(n->dtype)) return;
  tn__interval_from(n, lo, hi, &from, &to);
  narrow(s, from, to);
}

/* The sources' are known. */
static fact *look_at(tn_ctx *c, tn__given *g, tn_node *n) {
  fact *f = tn__arena_zalloc(&c->scratch, sizeof *f);
  const span *limit = tn__map_getp(&g->limit, n);
  int64_t lo[3] = {0}, hi[3] = {0};
  tn_node **src = tn__arena_alloc(&c->scratch, (n->nsrc + 1u) * sizeof *src);
  bool other = false;
  *f = (fact){.range = {n->lo, n->hi}, .exact = n};
  for (uint32_t i = 0; i < n->nsrc && !tn__given_is_data(n) && n->op != OP_RANGE; i++) {
    const fact *s = tn__map_getp(&g->known, n->src[i]);
    src[i] = s->exact;
    other |= src[i] != n->src[i];
    if (i < 3) lo[i] = s->range.lo, hi[i] = s->range.hi;
  }
  if (n->op == OP_LOAD) narrow_loaded(g, n, &f->range);
  else narrow_made(n, lo, hi, &f->range);
  if (limit) narrow(&f->range, limit->lo, limit->hi);
  if (f->range.lo > f->range.hi) f->range = (span){n->lo, n->hi}; /* it never is done */
  if (n->loaded && tn__given_wraps(n, lo, hi))
    f->exact = tn__stand_in(c, "wraps", n->serial, f->range.lo, f->range.hi);
  else if (other) f->exact = tn__node_with(c, n, src);
  return f;
}

/* Sources first; the addresses of what is loaded are of no account. */
static const fact *fact_of(tn_ctx *c, tn__given *g, tn_node *root) {
  tn__nodes todo = {0};
  tn__vec_push(&c->scratch, &todo, root);
  while (todo.n) {
    tn_node *n = todo.v[todo.n - 1];
    uint32_t before = todo.n, used = tn__given_is_data(n) || n->op == OP_RANGE ? 0 : n->nsrc;
    bool known = tn__map_getp(&g->known, n) != NULL;
    for (uint32_t i = 0; i < used && !known; i++)
      if (!tn__map_getp(&g->known, n->src[i])) tn__vec_push(&c->scratch, &todo, n->src[i]);
    if (todo.n > before) continue;
    if (!known) tn__map_putp(&g->known, n, look_at(c, g, n));
    todo.n--;
  }
  return tn__map_getp(&g->known, root);
}

tn_node *tn__given_exact(tn_ctx *c, tn__given *g, tn_node *n) { return fact_of(c, g, n)->exact; }

tn_node *tn__given_bounded(tn_ctx *c, tn__given *g, tn_node *n) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  if (!n->loaded) return n;
  tn__topo(&c->scratch, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *x = all.v[i];
    if (!tn__given_is_data(x) || tn__is_float(x->dtype)) continue;
    span s = fact_of(c, g, x)->range;
    tn__vec_push(&c->scratch, &old, x);
    tn__vec_push(&c->scratch, &new_, tn__cast(c, tn__stand_in(c, "loaded", x->serial, s.lo, s.hi), x->dtype));
  }
  return old.n ? tn__substitute(c, n, old.v, new_.v, old.n) : n;
}

void tn__given_range(tn_ctx *c, tn__given *g, tn_node *n, int64_t *lo, int64_t *hi) {
  const fact *f = fact_of(c, g, n);
  *lo = f->range.lo;
  *hi = f->range.hi;
}

/* ---- what a gate says ---- */

typedef struct less { /* low < high, or low <= high */
  tn_node *low, *high;
  bool strictly;
} less;
typedef tn__vec(less) lesses;

static void limit(tn_ctx *c, tn__given *g, tn_node *n, int64_t lo, int64_t hi) {
  span *s = tn__map_getp(&g->limit, n);
  if (!s) {
    s = tn__arena_dup(&c->scratch, &(span){INT64_MIN, INT64_MAX}, sizeof *s);
    tn__map_putp(&g->limit, n, s);
  }
  narrow(s, lo, hi);
}

/* x + k within bounds that, moved by k, are numbers still: then x is within those, for no other x comes to x + k. */
static void limit_moved(tn_ctx *c, tn__given *g, const tn_node *n) {
  const span *s = tn__map_getp(&g->limit, n);
  int64_t k, lo, hi;
  if (!s || !is_ring(n) || n->op != OP_ADD || !tn__const_int(n->src[1], &k)) return;
  if (__builtin_sub_overflow(s->lo, k, &lo) || __builtin_sub_overflow(s->hi, k, &hi)) return;
  limit(c, g, n->src[0], lo, hi);
}

/* Each of two is bounded by what the other may be. */
static void find_limits(tn_ctx *c, tn__given *g, const lesses *all) {
  for (uint32_t i = 0; i < all->n; i++) {
    const less *l = &all->v[i];
    int64_t lo[2], hi[2];
    tn__given_range(c, g, l->low, &lo[0], &hi[0]);
    tn__given_range(c, g, l->high, &lo[1], &hi[1]);
    if (hi[1] > INT64_MIN) limit(c, g, l->low, INT64_MIN, hi[1] - l->strictly);
    if (lo[0] < INT64_MAX) limit(c, g, l->high, lo[0] + l->strictly, INT64_MAX);
  }
  for (uint32_t i = 0; i < all->n; i++) {
    limit_moved(c, g, all->v[i].low);
    limit_moved(c, g, all->v[i].high);
  }
  tn__map_clear(&g->known); /* more is known now */
}

void tn__given_find(tn_ctx *c, const tn__kernel *k, tn_node *gate, tn__given *out) {
  tn__nodes todo = {0};
  lesses all = {0};
  *out = (tn__given){.kernel = k};
  tn__map_init(&out->conditions, &c->scratch);
  tn__map_init(&out->limit, &c->scratch);
  tn__map_init(&out->known, &c->scratch);
  if (gate) tn__vec_push(&c->scratch, &todo, gate);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    if (tn__map_getp(&out->conditions, n)) continue;
    tn__map_putp(&out->conditions, n, n);
    for (uint32_t s = 0; n->op == OP_AND && s < 2; s++) tn__vec_push(&c->scratch, &todo, n->src[s]);
    bool no = n->op == OP_NOT; /* not x < y: y <= x */
    if (no) n = n->src[0];
    if ((n->op == OP_LT || n->op == OP_LE) && n->src[0]->dtype == TN__INDEX)
      tn__vec_push(&c->scratch, &all, ((less){n->src[no], n->src[!no], (n->op == OP_LT) != no}));
  }
  /* bounds by one condition reach the others once; more turns would only prove more */
  for (int pass = 0; pass < 2; pass++) find_limits(c, out, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const less *l = &all.v[i];
    tn_node *d = tn__sub(c, tn__given_exact(c, out, l->high), tn__given_exact(c, out, l->low));
    if (l->strictly) d = tn__add(c, d, tn__int(c, -1));
    tn__vec_push(&c->scratch, &out->positive, tn__simplify_index(c, d));
  }
}

void tn__given_loops(tn_ctx *c, tn__given *g, tn_node *n) {
  tn__nodes all = {0}, bound = {0};
  tn__topo(&c->scratch, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *r = all.v[i];
    if (r->op != OP_RANGE || tn__is_const(r->src[0])) continue;
    tn__vec_push(&c->scratch, &bound, r->src[0]);
    while (bound.n) {
      tn_node *x = bound.v[--bound.n];
      for (uint32_t s = 0; x->op == OP_MIN && s < 2; s++) tn__vec_push(&c->scratch, &bound, x->src[s]);
      if (x->op == OP_MIN) continue;
      tn_node *left = tn__sub(c, tn__add(c, tn__given_exact(c, g, x), tn__int(c, -1)), r);
      tn__vec_push(&c->scratch, &g->positive, tn__simplify_index(c, left));
    }
  }
}

bool tn__given_holds(tn_ctx *c, const tn__given *g, tn_node *condition) {
  tn__nodes todo = {0};
  tn__map seen;
  tn__map_init(&seen, &c->scratch);
  tn__vec_push(&c->scratch, &todo, condition);
  while (todo.n) {
    const tn_node *n = todo.v[--todo.n];
    if (tn__map_getp(&g->conditions, n) || tn__map_getp(&seen, n)) continue;
    if (n->op != OP_AND) return false;
    tn__map_put(&seen, (uintptr_t)n, (uintptr_t)n);
    for (uint32_t s = 0; s < 2; s++) tn__vec_push(&c->scratch, &todo, n->src[s]);
  }
  return true;
}

/* Rules see equal terms that stand side by side. */
tn_node *tn__given_difference(tn_ctx *c, tn_node *x, tn_node *y) {
  tn__nodes todo = {0}, term = {0};
  tn__vec(int64_t) times = {0};
  int64_t k, constant = 0;
  tn__vec_push(&c->scratch, &todo, tn__simplify_index(c, tn__sub(c, x, y)));
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    uint32_t i = 0;
    if (n->op == OP_ADD) {
      for (; i < 2; i++) tn__vec_push(&c->scratch, &todo, n->src[i]);
      continue;
    }
    if (tn__const_int(n, &k)) {
      if (__builtin_add_overflow(constant, k, &constant)) return tn__sub(c, x, y);
      continue;
    }
    if (n->op == OP_MUL && tn__const_int(n->src[1], &k)) n = n->src[0];
    else k = 1;
    while (i < term.n && term.v[i] != n) i++;
    if (i == term.n) {
      tn__vec_push(&c->scratch, &term, n);
      tn__vec_push(&c->scratch, &times, k);
    } else if (__builtin_add_overflow(times.v[i], k, &times.v[i])) return tn__sub(c, x, y);
  }
  tn_node *sum = tn__int(c, constant);
  for (uint32_t i = 0; i < term.n; i++)
    if (times.v[i]) sum = tn__add(c, sum, tn__mul(c, term.v[i], tn__int(c, times.v[i])));
  return tn__simplify_index(c, sum);
}

bool tn__given_positive(tn_ctx *c, const tn__given *g, tn_node *index) {
  if (index->lo >= 0 || tn__simplify_index(c, index)->lo >= 0) return true;
  for (uint32_t i = 0; i < g->positive.n; i++)
    if (tn__given_difference(c, index, g->positive.v[i])->lo >= 0) return true;
  return false;
}
