#include "lower/lower.h"
#include <string.h>

bool tn__closes(const tn_node *n, uint32_t *first) {
  bool store = n->op == OP_STORE || n->op == OP_STOREADD;
  *first = store && tn__gate_of(n) ? 4 : store ? 3 : 1;
  return store || n->op == OP_REDUCE;
}

int tn__range_at(const tn__ranges *r, const tn_node *range) {
  for (uint32_t i = 0; i < r->n; i++)
    if (r->range[i] == range) return (int)i;
  return -1;
}

uint64_t tn__free_of(const tn__ranges *r, const tn_node *n) {
  uint64_t at;
  return tn__map_get(&r->at, (uintptr_t)n, &at) ? r->free[at] : 0;
}

uint32_t tn__level_of(const tn__ranges *r, const tn_node *n) {
  uint64_t at;
  return tn__map_get(&r->at, (uintptr_t)n, &at) ? r->level[at] : 0;
}

uint64_t tn__own_of(const tn__ranges *r, const tn_node *n) {
  uint32_t first;
  uint64_t own = 0;
  if (!tn__closes(n, &first)) return 0;
  for (uint32_t i = first; i < n->nsrc; i++) {
    int at = tn__range_at(r, n->src[i]);
    if (at >= 0) own |= 1ull << at;
  }
  return own;
}

void tn__ranges_find(tn_ctx *c, tn__arena *a, tn_node *body, tn__ranges *out) {
  *out = (tn__ranges){0};
  tn__topo(a, &body, 1, &out->order);
  tn__map_init(&out->at, a);
  tn__map_reserve(&out->at, out->order.n);
  out->free = tn__arena_alloc(a, out->order.n * sizeof *out->free);
  out->level = tn__arena_alloc(a, out->order.n * sizeof *out->level);
  for (uint32_t i = 0; i < out->order.n; i++) {
    tn_node *n = out->order.v[i];
    uint64_t set = 0, at = 0;
    uint32_t level = 0;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      tn__map_get(&out->at, (uintptr_t)n->src[s], &at);
      set |= out->free[at];
      if (out->level[at] > level) level = out->level[at];
    }
    if (n->op == OP_RANGE) {
      if (out->n == TN__MAX_RANGES) tn__fail(c, TN_ENOTSUP, "a kernel with more than %d loops", TN__MAX_RANGES);
      set |= 1ull << out->n;
      out->range[out->n++] = n;
    }
    uint32_t first;
    if (tn__closes(n, &first)) {
      for (uint32_t k = first; k < n->nsrc; k++)
        if (n->src[k]->op != OP_RANGE)
          tn__fail(c, TN_ESTATE, "internal error: %s closes what is no loop, %s", tn__ops[n->op].text,
                   tn__ops[n->src[k]->op].text);
      uint64_t own = tn__own_of(out, n);
      if ((uint32_t)__builtin_popcountll(own) != n->nsrc - first)
        tn__fail(c, TN_ESTATE, "internal error: %s closes a loop twice", tn__ops[n->op].text);
      set &= ~own;
      level++;
    }
    tn__map_put(&out->at, (uintptr_t)n, i);
    out->free[i] = set;
    out->level[i] = level;
  }
}

/* The loops that are closed below n */
static uint64_t closed_below(const tn__map *below, const tn_node *n) {
  uint64_t set = 0, v;
  for (uint32_t s = 0; s < n->nsrc; s++)
    if (tn__map_get(below, (uint64_t)(uintptr_t)n->src[s], &v)) set |= v;
  return set;
}

void tn__loops_before(tn__arena *a, const tn__ranges *r, uint64_t apart, uint64_t *before) {
  tn__map below;
  tn__map_init(&below, a);
  memset(before, 0, r->n * sizeof *before);
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    uint64_t own = tn__own_of(r, n), closed = closed_below(&below, n);
    if (own | closed) tn__map_put(&below, (uint64_t)(uintptr_t)n, own | closed);
    for (uint32_t j = 0; j < r->n; j++)
      if (own >> j & 1) before[j] |= closed;
  }
  for (uint32_t k = 0; k < r->n; k++) /* by way of k */
    for (uint32_t j = 0; j < r->n && !(apart >> k & 1); j++)
      if (before[j] >> k & 1) before[j] |= before[k];
}
