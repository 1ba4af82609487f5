/* What the passes over loops share: strides, the survey of a body, cutting a range in two. */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

/* `fine`: of a step that carries into no other digit of the range's number. */
static int64_t stride_of(const tn__ranges *r, const tn_node *n, uint32_t at, bool fine) {
  struct term {
    const tn_node *n;
    int64_t times;
  } short_sum[16];
  struct {
    struct term *v;
    uint32_t n, cap;
  } todo = {.v = short_sum, .cap = sizeof short_sum / sizeof *short_sum};
  int64_t stride = 0, k = 0;
  short_sum[todo.n++] = (struct term){n, 1};
  while (todo.n) {
    struct term t = todo.v[--todo.n];
    if (!(tn__free_of(r, t.n) >> at & 1)) continue;
    if (t.n == r->range[at]) {
      stride += t.times;
    } else if (t.n->op == OP_ADD) {
      tn__vec_push(r->at.arena, &todo, ((struct term){t.n->src[0], t.times}));
      tn__vec_push(r->at.arena, &todo, ((struct term){t.n->src[1], t.times}));
    } else if (t.n->op == OP_NEG || (t.n->op == OP_MUL && tn__const_int(t.n->src[1], &k))) {
      tn__vec_push(r->at.arena, &todo, ((struct term){t.n->src[0], t.n->op == OP_NEG ? -t.times : t.times * k}));
    } else if (fine && t.n->op == OP_MOD && tn__is_const(t.n->src[1])) {
      tn__vec_push(r->at.arena, &todo, ((struct term){t.n->src[0], t.times}));
    } else if (!fine || t.n->op != OP_IDIV || !tn__is_const(t.n->src[1])) {
      return TN__IRREGULAR;
    }
  }
  return stride;
}

int64_t tn__stride(const tn__ranges *r, const tn_node *n, uint32_t at) { return stride_of(r, n, at, false); }

/* a choice: no is right */
bool tn__divisible(const tn_node *n, int64_t by) {
  const tn_node *todo[32] = {n};
  int64_t v;
  for (uint32_t left = 1; left;) {
    n = todo[--left];
    if (tn__may_wrap(n) && (by & (by - 1))) return false; /* 2^64 is no multiple of it */
    bool both = n->op == OP_ADD || n->op == OP_MIN || n->op == OP_MAX;
    if (both && left + 2 > sizeof todo / sizeof *todo) return false;
    if (both) todo[left++] = n->src[0], todo[left++] = n->src[1];
    else if (tn__const_int(n, &v) || (n->op == OP_MUL && tn__const_int(n->src[1], &v)) ? v % by != 0 : by != 1)
      return false;
  }
  return true;
}

bool tn__is_access(const tn_node *n) { return n->op == OP_LOAD || n->op == OP_STORE || n->op == OP_STOREADD; }

const tn_node *tn__buffer_of(const tn_node *access) {
  return access->src[0]->op == OP_AFTER ? access->src[0]->src[0] : access->src[0];
}

void tn__survey_loops(tn_ctx *c, tn__arena *a, tn_node *body, tn__survey *p) {
  *p = (tn__survey){.common = ~0ull};
  tn__ranges_find(c, a, body, &p->r);
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    p->reduces |= n->op == OP_REDUCE || n->op == OP_RUNNING;
    if (n->op == OP_RUNNING) p->running |= 1ull << tn__range_at(&p->r, n->src[1]);
    if ((n->op != OP_STORE && n->op != OP_STOREADD) || tn__buffer_of(n)->op == OP_LOCAL) continue;
    uint64_t own = tn__own_of(&p->r, n);
    for (uint32_t j = 0; j < p->r.n; j++)
      if ((own >> j & 1) && p->r.range[j]->ints[0] == AX_LOOP) p->outputs |= 1ull << j;
    p->common &= own;
  }
  p->common &= p->outputs;
}

/* a choice: any is right */
uint64_t tn__spread_loops(const tn__survey *p) {
  uint64_t set = p->outputs;
  for (uint32_t i = 0; i < p->r.order.n && set; i++) {
    tn_node *n = p->r.order.v[i], *gate = tn__gate_of(n);
    if (n->op == OP_STOREADD || (n->op == OP_STORE && tn__buffer_of(n)->op == OP_LOCAL))
      set &= ~(tn__own_of(&p->r, n) | tn__free_of(&p->r, n));
    else if (n->op == OP_STORE)
      set &= ~(tn__free_of(&p->r, n->src[2]) | (gate ? tn__free_of(&p->r, gate) : 0));
  }
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((set >> k & 1) && tn__bounds_loops(&p->r, k)) set &= ~(1ull << k);
  return set;
}

double tn__extent(const tn_node *range) {
  int64_t v;
  if (tn__const_int(range->src[0], &v)) return (double)v;
  return range->hi < ((int64_t)1 << 40) ? (double)range->hi + 1 : 1024;
}

/* a choice: either is right */
double tn__volume(const tn__survey *p, uint64_t set) {
  double v = 1;
  for (uint32_t j = 0; j < p->r.n; j++)
    if (set >> j & 1) v *= tn__extent(p->r.range[j]);
  return v;
}

/* a choice: either is right */
double tn__closed_work(const tn__survey *p) {
  double work = 0;
  uint32_t first;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (tn__closes(n, &first)) work += tn__volume(p, tn__free_of(&p->r, n) | tn__own_of(&p->r, n));
  }
  return work;
}

/* a choice: either is right */
static double score_of(const tn__survey *p, uint32_t j, bool fine) {
  double score = 0;
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (!tn__is_access(n) || n->src[0]->op != OP_PARAM) continue;
    int64_t s = stride_of(&p->r, n->src[1], j, fine);
    double weight = tn__volume(p, tn__free_of(&p->r, n->src[1]));
    if (n->op == OP_STOREADD) weight *= 2; /* it loads, and stores */
    if (s == 1) score += weight;
    else if (s != 0) score -= 2 * weight;
  }
  return score;
}

double tn__walk_score(const tn__survey *p, uint32_t j) { return score_of(p, j, false); }

/* Is anything loaded in the reductions that several of the outputs in `rows` have in common? */
/* a choice: either is right */
static bool is_shared(const tn__survey *s, uint64_t rows) {
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    uint64_t free = tn__free_of(&s->r, n);
    if (n->op == OP_LOAD && (free & ~s->outputs) && (rows & ~free)) return true;
  }
  return false;
}

/* a choice: either is right */
bool tn__walks_outputs(const tn__survey *s, uint64_t rows) {
  double out = -1e300, in = -1e300;
  bool fine = !is_shared(s, rows); /* outputs beside each other fetch together what they share */
  for (uint32_t k = 0; k < s->r.n; k++) {
    double score = score_of(s, k, fine);
    double *best = rows >> k & 1 ? &out : &in;
    if (score > *best) *best = score;
  }
  return out > in;
}

bool tn__bounds_loops(const tn__ranges *r, uint32_t j) {
  for (uint32_t i = 0; i < r->n; i++)
    if (i != j && (tn__free_of(r, r->range[i]) >> j & 1)) return true;
  return false;
}

/* a choice: no is right */
bool tn__is_by_element(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++) {
    const tn_node *n = p->r.order.v[i];
    if (n->op == OP_REDUCE || n->op == OP_STOREADD || n->op == OP_LOCAL || n->op == OP_AFTER) return false;
    if (n->op == OP_STORE && tn__own_of(&p->r, n) != p->outputs) return false;
  }
  return true;
}

/* a choice: either is right */
bool tn__has_rows(const tn__survey *p) { return p->reduces || p->common != p->outputs; }

/* a choice: yes is right */
bool tn__reads_results(const tn__survey *p) {
  for (uint32_t i = 0; i < p->r.order.n; i++)
    for (uint32_t k = 0; k < p->r.order.n && p->r.order.v[i]->op == OP_STORE; k++)
      if (p->r.order.v[k]->op == OP_LOAD && p->r.order.v[k]->src[0] == p->r.order.v[i]->src[0]) return true;
  return false;
}

/* a choice: no is right */
bool tn__is_even(const tn__survey *p, uint32_t j) {
  return (p->common >> j & 1) && tn__axis_of(p->r.range[j]) == AX_LOOP && !tn__bounds_loops(&p->r, j) &&
         !(tn__free_of(&p->r, p->r.range[j]) & ~(1ull << j));
}

bool tn__are_even(const tn__survey *p) {
  for (uint32_t k = 0; k < p->r.n; k++)
    if ((p->common >> k & 1) && !tn__is_even(p, k)) return false;
  return true;
}

bool tn__stands_between(const tn__ranges *r, uint64_t set) {
  for (uint32_t i = 0; i < r->order.n; i++) {
    uint32_t first;
    uint64_t free = tn__free_of(r, r->order.v[i]) & set;
    if (tn__closes(r->order.v[i], &first) && free && free != set) return true;
  }
  return false;
}

tn_node *tn__fresh_range(tn__lowering *l, tn_node *extent, int axis, tn__role role) {
  return tn__range(l->c, extent, axis, role, l->next_range++);
}

tn_node *tn__range_like(tn_ctx *c, const tn_node *x, tn_node *extent, int axis) {
  return tn__range(c, extent, axis, tn__role_of(x), x->ints[RANGE_ID]);
}

/* x over the sources that `done` has for its own; where it closes some of the ranges that go, it closes those that come
 * instead. */
static tn_node *exchange_in(tn__lowering *l, tn_node *x, const tn__map *done, tn_node *const *gone, uint32_t n,
                            tn_node *const *come, uint32_t ncome) {
  tn_node **src = tn__arena_alloc(l->a, (x->nsrc + ncome) * sizeof *src);
  uint32_t first = x->nsrc, m = 0;
  bool hit = false, changed = false;
  if (!tn__closes(x, &first)) first = x->nsrc;
  for (uint32_t s = 0; s < x->nsrc; s++) {
    bool goes = false;
    for (uint32_t g = 0; g < n && s >= first; g++) goes |= x->src[s] == gone[g];
    tn_node *y = tn__map_getp(done, x->src[s]);
    changed |= y != NULL;
    if (!goes) src[m++] = y ? y : x->src[s];
    for (uint32_t k = 0; goes && !hit && k < ncome; k++) src[m++] = come[k];
    hit |= goes;
  }
  if (!hit) return changed ? tn__node_with(l->c, x, src) : x;
  return tn__node_make(l->c, &(tn__make){.op = x->op, .dtype = x->dtype, .src = src, .nsrc = m, .ints = x->ints,
                                         .nint = x->nint});
}

tn_node *tn__exchange_ranges(tn__lowering *l, tn_node *body, tn_node *const *gone, tn_node *const *value, uint32_t n,
                             tn_node *const *fresh, uint32_t nfresh) {
  tn_ctx *c = l->c;
  tn_node *mark[TN__MAX_RANGES]; /* at first, so that the values may hold ranges that are gone */
  int64_t ids = l->next_range;
  tn__nodes all = {0};
  tn__map done;
  tn__map_init(&done, l->a);
  for (uint32_t i = 0; i < n; i++) mark[i] = tn__fresh_range(l, gone[i]->src[0], tn__axis_of(gone[i]), ROLE_MARK);
  body = tn__substitute(c, body, gone, mark, n);
  tn__topo(l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) { /* those inside of others first: each may close them */
    tn_node *y = exchange_in(l, all.v[i], &done, mark, n, fresh, nfresh);
    if (y != all.v[i]) tn__map_putp(&done, all.v[i], y);
  }
  tn_node *new_ = tn__map_getp(&done, body);
  l->next_range = ids; /* the marks go */
  return tn__substitute(c, new_ ? new_ : body, mark, value, n);
}

tn_node *tn__cut(tn__lowering *l, tn_node *body, tn_node *x, int64_t by, int outer_axis, int inner_axis,
                 tn_node **cut) {
  tn_ctx *c = l->c;
  tn_node *size = x->src[0], *b = tn__int(c, by);
  tn_node *blocks = tn__simplify_index(c, tn__op2(c, OP_IDIV, tn__add(c, size, tn__int(c, by - 1)), b));
  tn_node *outer = tn__range_like(c, x, blocks, outer_axis);
  tn_node *rest = tn__sub(c, size, tn__mul(c, outer, b));
  tn_node *inner_size = tn__divisible(size, by) ? b : tn__simplify_index(c, tn__op2(c, OP_MIN, b, rest));
  tn_node *inner = tn__fresh_range(l, inner_size, inner_axis, tn__role_of(x)),
          *at = tn__add(c, tn__mul(c, outer, b), inner);
  if (cut) cut[0] = outer, cut[1] = inner;
  return tn__exchange_ranges(l, body, &x, &at, 1, (tn_node *[]){outer, inner}, 2);
}

/* The same node of other sources, of which there may be more */
static tn_node *with_sources(tn_ctx *c, const tn_node *n, tn_node *const *src, uint32_t nsrc) {
  return tn__node_make(c, &(tn__make){.op = n->op, .dtype = n->dtype, .src = src, .nsrc = nsrc, .ints = n->ints,
                                      .nint = n->nint, .name = n->name, .device = -1});
}

tn_node *tn__ignore_beyond(tn__lowering *l, tn_node *body, const tn_node *range, tn_node *inside) {
  tn_ctx *c = l->c;
  tn__nodes all = {0};
  tn__map done;
  tn__map_init(&done, l->a);
  tn__topo(l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i], **src = tn__arena_alloc(l->a, (n->nsrc + 1) * sizeof *src);
    uint32_t first = n->nsrc, m = 0;
    bool closes = false, store = n->op == OP_STOREADD || (n->op == OP_STORE && tn__buffer_of(n)->op != OP_LOCAL);
    if (!tn__closes(n, &first)) first = n->nsrc;
    for (uint32_t s = first; s < n->nsrc; s++) closes |= n->src[s] == range;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      if (s == first && closes && store && first == 3) src[m++] = inside;
      src[m++] = tn__map_getp(&done, n->src[s]);
    }
    if (closes && store && first == 4) src[3] = tn__op2(c, OP_AND, src[3], inside);
    if (closes && n->op == OP_REDUCE)
      src[0] =
          tn__where(c, inside, src[0], tn__const_bits(c, n->dtype, tn__eval_reduce_init((int)n->ints[0], n->dtype)));
    bool same = m == n->nsrc;
    for (uint32_t s = 0; s < n->nsrc && same; s++) same = src[s] == n->src[s];
    tn__map_putp(&done, n, same ? n : with_sources(c, n, src, m));
  }
  return tn__map_getp(&done, body);
}

tn_node *tn__gate_accesses(tn__lowering *l, tn_node *body, tn_node *gate, const tn_node *by, const tn_node *but) {
  tn_ctx *c = l->c;
  tn__nodes all = {0};
  tn__map to;
  tn__ranges r;
  tn__map_init(&to, l->a);
  tn__ranges_find(c, l->a, body, &r);
  int other = but ? tn__range_at(&r, but) : -1; /* it may be in no index any more */
  uint64_t set = by ? 1ull << tn__range_at(&r, by) : 0, none = other < 0 ? 0 : 1ull << other;
  tn__topo(l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i], **src = tn__arena_alloc(l->a, (n->nsrc + 2) * sizeof *src);
    bool gated = tn__is_access(n) && (tn__free_of(&r, n->src[1]) & (set | none)) == set, same = !gated;
    const tn_node *old = gated ? tn__gate_of(n) : NULL;
    uint32_t m = 0, at = n->op == OP_LOAD ? 2 : 3;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      tn_node *x = tn__map_getp(&to, n->src[s]);
      same &= x == n->src[s];
      if (gated && s == at) src[m++] = old ? tn__simplify_index(c, tn__op2(c, OP_AND, gate, x)) : gate;
      if (!old || s != at) src[m++] = x;
    }
    if (gated && n->nsrc == at) src[m++] = gate;
    if (!same) n = with_sources(c, n, src, m);
    tn__map_putp(&to, all.v[i], n);
  }
  return tn__map_getp(&to, body);
}

tn_node *tn__cut_whole(tn__lowering *l, tn_node *body, tn_node *x, int64_t by, int outer_axis, int inner_axis,
                       tn_node **cut) {
  tn_ctx *c = l->c;
  tn_node *b = tn__int(c, by);
  tn_node *blocks = tn__simplify_index(c, tn__op2(c, OP_IDIV, tn__add(c, x->src[0], tn__int(c, by - 1)), b));
  cut[0] = tn__range_like(c, x, blocks, outer_axis);
  cut[1] = tn__fresh_range(l, b, inner_axis, tn__role_of(x));
  tn_node *at = tn__add(c, tn__mul(c, cut[0], b), cut[1]);
  return tn__exchange_ranges(l, body, &x, &at, 1, cut, 2);
}

tn_node *tn__cut_in(tn__lowering *l, tn_node **body, tn_node *x, int64_t by, int axis) {
  int64_t size;
  tn_node *cut[2];
  if (tn__const_int(x->src[0], &size) && size <= by) {
    tn_node *whole = tn__range_like(l->c, x, x->src[0], axis);
    *body = tn__substitute(l->c, *body, &x, &whole, 1);
    return whole;
  }
  *body = tn__cut(l, *body, x, by, AX_LOOP, axis, cut);
  return cut[1];
}

tn_node *tn__as_one(tn__lowering *l, tn_node *body, tn_node *const *x, uint32_t n, int axis, tn_node **one) {
  tn_ctx *c = l->c;
  tn_node *size = tn__int(c, 1), *at[TN__MAX_RANGES];
  for (uint32_t i = 0; i < n; i++) size = tn__mul(c, size, x[i]->src[0]);
  tn_node *rest = *one = tn__fresh_range(l, tn__simplify_index(c, size), axis, tn__role_of(x[0]));
  for (uint32_t i = n; i && i--;) {
    at[i] = i ? tn__op2(c, OP_MOD, rest, x[i]->src[0]) : rest;
    rest = tn__op2(c, OP_IDIV, rest, x[i]->src[0]);
  }
  return tn__simplify_accesses(c, l->a, tn__exchange_ranges(l, body, x, at, n, one, 1));
}

tn_node *tn__retype(tn_ctx *c, tn_node *body, tn_node *x, int axis) {
  tn_node *y = tn__range_like(c, x, x->src[0], axis);
  return tn__substitute(c, body, &x, &y, 1);
}

tn_node *tn__scratch(tn__lowering *l, int dtype, int64_t elements) {
  return tn__node_make(l->c, &(tn__make){.op = OP_LOCAL,
                                         .dtype = dtype,
                                         .src = (tn_node *[]){tn__int(l->c, elements)},
                                         .nsrc = 1,
                                         .ints = (int64_t[]){l->next_local++, 0},
                                         .nint = 2,
                                         .device = -1});
}

tn_node *tn__behind(tn_ctx *c, tn_node *buf, tn_node *effect) {
  return tn__node_make(c, &(tn__make){.op = OP_AFTER, .src = (tn_node *[]){buf, effect}, .nsrc = 2});
}

tn_node *tn__filled(tn_ctx *c, tn_node *local, tn_node *at, tn_node *value, tn_node *const *own, uint32_t n) {
  tn_node *src[TN__MAX_RANGES + 3] = {local, at, value};
  for (uint32_t i = 0; i < n; i++) src[3 + i] = own[i];
  tn_node *store = tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = 3 + n});
  return tn__behind(c, local, store);
}

tn_node *tn__sum_over(tn__lowering *l, tn_node *body, const tn_node *range) {
  tn__nodes all = {0};
  tn_node *sum = NULL;
  tn__topo(l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_REDUCE && all.v[i]->src[1] == range) sum = all.v[i];
  return sum;
}

tn_node *tn__hold_in_blocks(tn__lowering *l, tn_node *body) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn_node *global = NULL;
  tn__topo(l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_RANGE && tn__axis_of(all.v[i]) == AX_GLOBAL) global = all.v[i];
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    if (n->op != OP_LOCAL) continue;
    tn__vec_push(l->a, &old, all.v[i]);
    tn__vec_push(l->a, &new_, tn__node_make(l->c, &(tn__make){.op = OP_LOCAL,
                                                               .dtype = n->dtype,
                                                               .src = (tn_node *[]){n->src[0], global},
                                                               .nsrc = 2,
                                                               .ints = n->ints,
                                                               .nint = n->nint,
                                                               .device = -1}));
  }
  return tn__substitute(l->c, body, old.v, new_.v, old.n);
}

tn_node *tn__kept_over(tn__lowering *l, tn_node *value, tn_node *const *x, uint32_t n, tn_node *lane) {
  tn_ctx *c = l->c;
  tn_node *own[TN__MAX_RANGES], *from = tn__int(c, 0), *to = from;
  int64_t size = 1;
  for (uint32_t i = 0; i < n; i++) {
    tn_node *width = tn__int(c, x[i]->hi + 1);
    own[i] = tn__fresh_range(l, x[i]->src[0], lane || i + 1 < n ? AX_REDUCE : AX_UPCAST, ROLE_KEPT);
    from = tn__add(c, tn__mul(c, from, width), own[i]);
    to = tn__add(c, tn__mul(c, to, width), x[i]);
    size *= x[i]->hi + 1;
  }
  if (lane) {
    tn_node *width = tn__int(c, lane->hi + 1);
    from = tn__add(c, tn__mul(c, from, width), lane);
    to = tn__add(c, tn__mul(c, to, width), lane);
    size *= lane->hi + 1;
  }
  value = tn__substitute(c, value, x, own, n);
  tn_node *filled = tn__filled(c, tn__scratch(l, value->dtype, size), from, value, own, n);
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){filled, to}, .nsrc = 2});
}

static bool compares_indices(const tn_node *x) {
  return (x->op == OP_LT || x->op == OP_LE) && x->src[0]->dtype == TN__INDEX;
}

tn_node *tn__simplify_accesses(tn_ctx *c, tn__arena *a, tn_node *body) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *x = all.v[i], *place[2] = {NULL};
    if (tn__is_access(x)) {
      const tn_node *buf = tn__buffer_of(x);
      bool own = buf->op == OP_LOCAL && buf->ints[1] > 0; /* each element a thread's: named in a form of its own */
      place[0] = own ? NULL : x->src[1], place[1] = tn__gate_of(x);
    } else if (compares_indices(x) ||
               (x->op == OP_AND && compares_indices(x->src[0]) && compares_indices(x->src[1]))) {
      place[0] = x; /* as it stands in places: what hangs on both forms would be computed twice */
    }
    for (int s = 0; s < 2; s++) {
      if (!place[s] || !place[s]->nsrc || place[s]->op == OP_RANGE) continue;
      tn__vec_push(a, &old, place[s]);
      tn__vec_push(a, &new_, place[s]);
    }
  }
  tn__simplify_indices(c, new_.v, new_.n); /* what many are made of, as steps of a search are, once */
  return tn__substitute(c, body, old.v, new_.v, old.n);
}

/* x as its value for the first of neighbours, and the neighbour's number */
static tn_node *from_first(tn_ctx *c, tn_node *x, tn_node *by) {
  tn_node *zero = tn__int(c, 0), *base = tn__simplify_index(c, tn__substitute(c, x, &by, &zero, 1));
  return tn__node_make(c, &(tn__make){.op = OP_ADD, .dtype = base->dtype, .src = (tn_node *[]){base, by}, .nsrc = 2});
}

tn_node *tn__show_neighbours(tn_ctx *c, tn__arena *a, tn_node *body) {
  tn__nodes old = {0}, new_ = {0};
  tn__ranges r;
  tn__ranges_find(c, a, body, &r);
  uint64_t neighbours = 0;
  for (uint32_t k = 0; k < r.n; k++)
    if (r.range[k]->ints[0] == AX_UNROLL) neighbours |= 1ull << k;
  for (uint32_t i = 0; i < r.order.n; i++) {
    const tn_node *x = r.order.v[i];
    if (!tn__is_access(x) || (tn__buffer_of(x)->op == OP_LOCAL && tn__buffer_of(x)->ints[1] > 0)) continue;
    uint64_t set = tn__free_of(&r, x->src[1]) & neighbours;
    uint64_t along = 0; /* which of them it walks along */
    for (uint32_t k = 0; k < r.n; k++)
      if ((set >> k & 1) && tn__stride(&r, x->src[1], k) == 1) along |= 1ull << k;
    if (x->src[1]->op == OP_RANGE || !along || (along & (along - 1))) continue;
    tn_node *by = r.range[__builtin_ctzll(along)], *gate = tn__gate_of(x);
    tn__vec_push(a, &old, x->src[1]);
    tn__vec_push(a, &new_, from_first(c, x->src[1], by));
    bool ends = gate && gate->op == OP_LT && !(tn__free_of(&r, gate->src[1]) & set) && gate->src[0] != by &&
                tn__stride(&r, gate->src[0], (uint32_t)__builtin_ctzll(along)) == 1;
    if (!ends) continue;
    tn__vec_push(a, &old, gate);
    tn__vec_push(a, &new_, tn__op2(c, OP_LT, from_first(c, gate->src[0], by), gate->src[1]));
  }
  return tn__substitute(c, body, old.v, new_.v, old.n);
}
