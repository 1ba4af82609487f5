#include "lower/spots.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include <stdlib.h>

enum {
  SOURCES = 3,
  ANYWHERE = 1 << 24 /* what is loaded is below that */
};

typedef struct sheet { /* what has been evaluated of a spot */
  tn__spot at;
  uint64_t **row; /* of each node: one for each of the threads; NULL: not yet */
} sheet;

typedef struct facts { /* of a node */
  const tn_node *node;
  uint32_t src[SOURCES];
  bool loaded;    /* is it made of what is loaded? */
  uint32_t asked; /* by which walk it was come to last */
} facts;

struct tn__spots {
  tn__arena *a;
  const tn__part *p;
  tn__map number; /* of each node, sources first */
  facts *of;
  uint32_t n, walks;
  tn__vec(sheet *) sheets;
  tn__vec(uint32_t) walk; /* the last one: what an index is made of, that last */
  const tn_node *walked;
};

tn__spots *tn__spots_of(tn__arena *a, const tn__part *p) {
  tn__spots *s = tn__arena_zalloc(a, sizeof *s);
  tn__nodes all = {0};
  tn__topo(a, p->ins, p->n, &all);
  *s = (tn__spots){.a = a, .p = p, .n = all.n, .of = tn__arena_zalloc(a, (all.n + 1) * sizeof *s->of)};
  tn__map_init(&s->number, a);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    s->of[i] = (facts){.node = n, .loaded = n->op == OP_LOAD};
    for (uint32_t k = 0; k < n->nsrc && k < SOURCES; k++) {
      uint64_t number = 0;
      tn__map_get(&s->number, (uintptr_t)n->src[k], &number);
      s->of[i].src[k] = (uint32_t)number;
      s->of[i].loaded |= s->of[number].loaded;
    }
    tn__map_put(&s->number, (uintptr_t)n, i);
  }
  return s;
}

static uint32_t number_of(const tn__spots *s, const tn_node *n) {
  uint64_t number = 0;
  tn__map_get(&s->number, (uintptr_t)n, &number);
  return (uint32_t)number;
}

bool tn__spots_loaded(const tn__spots *s, const tn_node *index) { return s->of[number_of(s, index)].loaded; }

static int compare(const void *x, const void *y) {
  uint32_t a = *(const uint32_t *)x, b = *(const uint32_t *)y;
  return (a > b) - (a < b);
}

/* s->walk: what the index is made of; numbers are such that sources come first. */
static void walk_to(tn__spots *s, const tn_node *index) {
  if (s->walked == index) return;
  s->walked = index;
  s->walks++;
  s->walk.n = 0;
  uint32_t last = number_of(s, index);
  s->of[last].asked = s->walks;
  tn__vec_push(s->a, &s->walk, last);
  for (uint32_t i = 0; i < s->walk.n; i++) {
    const facts *f = &s->of[s->walk.v[i]];
    for (uint32_t k = 0; k < f->node->nsrc && k < SOURCES; k++) {
      if (s->of[f->src[k]].asked == s->walks) continue;
      s->of[f->src[k]].asked = s->walks;
      tn__vec_push(s->a, &s->walk, f->src[k]);
    }
  }
  qsort(s->walk.v, s->walk.n, sizeof *s->walk.v, compare);
}

bool tn__spots_hang_on(tn__spots *s, const tn_node *index, const tn_node *range) {
  walk_to(s, index);
  for (uint32_t i = 0; i < s->walk.n; i++)
    if (s->of[s->walk.v[i]].node == range) return true;
  return false;
}

/* ---- one number ---- */

/* The turn of a range for one of the threads in step */
static int64_t turn_of(const tn__spots *s, const tn_node *range, const tn__spot *at, int64_t lane) {
  int64_t groups = tn__groups_of_block(s->p), thread = at->warp * TN__LANES + lane,
          g = s->p->across ? thread % groups : thread / s->p->group,
          t = s->p->across ? thread / groups : thread % s->p->group;
  int axis = tn__axis_of(range);
  return axis == AX_GLOBAL ? at->block * groups + g : axis == AX_UPCAST ? t : range == at->step ? at->turn : 0;
}

/* The lesser of a loaded number and a bound is anywhere up to that, not at it. */
static uint64_t up_to(uint64_t loaded, uint64_t bound) {
  return loaded > bound && bound < ANYWHERE ? loaded % (bound + 1) : loaded < bound ? loaded : bound;
}

/* What is loaded from one place is one number, anywhere. */
static uint64_t some_number(const tn__spot *at, uint32_t i, const uint64_t *arg) {
  if (at->loaded != TN__LOADED_SOME) return at->loaded == TN__LOADED_LEAST ? 0 : ANYWHERE;
  return tn__hash_mix(tn__hash_mix(i, arg[0]), arg[1]) % ANYWHERE;
}

static uint64_t value_of(const tn__spots *s, uint32_t i, const tn__spot *at, const uint64_t *arg) {
  const facts *f = &s->of[i];
  const tn_node *n = f->node;
  if (n->op == OP_CONST) return (uint64_t)n->ints[0];
  if (n->op == OP_VAR) return (uint64_t)(n->hi < TN__TYPICAL ? n->hi : TN__TYPICAL);
  if (n->op == OP_CAST) return tn__eval_cast(n->src[0]->dtype, n->dtype, arg[0]);
  if (!tn__is_elementwise(n) || tn__is_float(n->dtype) || tn__is_float(n->src[0]->dtype))
    return some_number(at, i, arg);
  bool first = s->of[f->src[0]].loaded;
  if (n->op == OP_MIN && at->loaded == TN__LOADED_SOME && first != s->of[f->src[1]].loaded)
    return first ? up_to(arg[0], arg[1]) : up_to(arg[1], arg[0]);
  return tn__eval((int)n->op, n->dtype, n->src[n->op == OP_WHERE]->dtype, arg);
}

/* ---- of all threads in step ---- */

static int64_t lanes_of(const tn__spots *s, const tn__spot *at) {
  int64_t threads = tn__threads_of_block(s->p), lanes = at->first ? 1 : TN__LANES;
  return lanes < threads ? lanes : threads;
}

static bool is_same(const tn__spot *x, const tn__spot *y) {
  return x->step == y->step && x->turn == y->turn && x->warp == y->warp && x->block == y->block &&
         x->loaded == y->loaded && x->first == y->first;
}

static sheet *sheet_of(tn__spots *s, const tn__spot *at) {
  for (uint32_t i = s->sheets.n; i && i--;)
    if (is_same(&s->sheets.v[i]->at, at)) return s->sheets.v[i];
  sheet *x = tn__arena_alloc(s->a, sizeof *x);
  *x = (sheet){.at = *at, .row = tn__arena_zalloc(s->a, (s->n + 1) * sizeof *x->row)};
  tn__vec_push(s->a, &s->sheets, x);
  return x;
}

static void evaluate(tn__spots *s, sheet *x, uint32_t i, int64_t lanes) {
  const facts *f = &s->of[i];
  const tn_node *n = f->node;
  const uint64_t *src[SOURCES] = {NULL};
  for (uint32_t k = 0; k < n->nsrc && k < SOURCES; k++) src[k] = x->row[f->src[k]];
  uint64_t *row = tn__arena_alloc(s->a, (size_t)lanes * sizeof *row);
  for (int64_t lane = 0; lane < lanes; lane++) {
    uint64_t arg[SOURCES] = {0};
    for (uint32_t k = 0; k < SOURCES; k++) arg[k] = src[k] ? src[k][lane] : 0;
    row[lane] = n->op == OP_RANGE ? (uint64_t)turn_of(s, n, &x->at, lane) : value_of(s, i, &x->at, arg);
  }
  x->row[i] = row;
}

int tn__spots_at(tn__spots *s, const tn_node *index, const tn__spot *at, int64_t *out) {
  int64_t lanes = lanes_of(s, at);
  sheet *x = sheet_of(s, at);
  bool rests[TN__LANES] = {false};
  walk_to(s, index);
  for (uint32_t w = 0; w < s->walk.n; w++) {
    uint32_t i = s->walk.v[w];
    const tn_node *n = s->of[i].node;
    if (!x->row[i]) evaluate(s, x, i, lanes);
    if (n->op != OP_RANGE || tn__axis_of(n) != AX_UPCAST) continue;
    for (int64_t lane = 0; lane < lanes; lane++) rests[lane] |= (int64_t)x->row[i][lane] > n->hi;
  }
  const uint64_t *value = x->row[number_of(s, index)];
  int active = 0;
  for (int64_t lane = 0; lane < lanes; lane++)
    if (!rests[lane]) out[active++] = (int64_t)value[lane];
  return active;
}
