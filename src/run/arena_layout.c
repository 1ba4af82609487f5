/* Memory that is free over a stretch of time, found without a look at every buffer.
 *
 * A segment tree over the items; each node is a stretch of them.  A buffer covers the few largest nodes that make up
 * its life, and touches those nodes and all above them.  What is in the way of a life: what touches its own nodes, and
 * what covers nodes above or below those on its borders.  Both are kept as ranges of memory, of which neighbours become
 * one: packed memory has few of them. */
#include "run/arena_layout.h"
#include <stdlib.h>
#include <string.h>

typedef struct range {
  size_t from, to;
} range;
typedef tn__vec(range) ranges; /* rising, with gaps between them */

typedef struct stretch {
  ranges covers, touches;
} stretch;

typedef struct tree {
  tn__arena *a;
  uint32_t leaves;  /* a power of two; item i is node leaves + i, node v is made of 2v and 2v + 1 */
  stretch *node;
} tree;

/* The first range that ends at or behind `at` */
static uint32_t find(const ranges *r, size_t at) {
  uint32_t lo = 0, hi = r->n;
  while (lo < hi) {
    uint32_t mid = (lo + hi) / 2;
    if (r->v[mid].to < at) lo = mid + 1;
    else hi = mid;
  }
  return lo;
}

static void insert(tn__arena *a, ranges *r, range x) {
  uint32_t lo = find(r, x.from), hi = lo;
  for (; hi < r->n && r->v[hi].from <= x.to; hi++) {
    if (r->v[hi].from < x.from) x.from = r->v[hi].from;
    if (r->v[hi].to > x.to) x.to = r->v[hi].to;
  }
  if (lo == hi) tn__vec_push(a, r, x);
  uint32_t gone = lo == hi ? 0 : hi - lo - 1, tail = lo == hi ? r->n - 1 - lo : r->n - hi;
  memmove(r->v + lo + 1, r->v + (lo == hi ? lo : hi), tail * sizeof *r->v);
  r->v[lo] = x;
  r->n -= gone;
}

/* Where the range ends that stands in the way of `size` bytes at `at`; `at` if there is none */
static size_t past(const ranges *r, size_t at, size_t size) {
  uint32_t i = find(r, at + 1);
  return i < r->n && r->v[i].from < at + size ? r->v[i].to : at;
}

enum { MOST = 4 * 33 }; /* nodes that make up a life, and those on its borders: two of each on every level */

/* The nodes that make up a life */
static uint32_t own_nodes(const tree *t, const tn__life *life, uint32_t *out) {
  uint32_t n = 0;
  for (uint32_t l = t->leaves + life->first, r = t->leaves + life->last + 1; l < r; l /= 2, r /= 2) {
    if (l & 1) out[n++] = l++;
    if (r & 1) out[n++] = --r;
  }
  return n;
}

/* The nodes from its first and its last item upwards */
static uint32_t border_nodes(const tree *t, const tn__life *life, uint32_t *out) {
  uint32_t n = 0;
  for (uint32_t l = t->leaves + life->first, r = t->leaves + life->last; l; l /= 2, r /= 2) {
    out[n++] = l;
    if (r != l) out[n++] = r;
  }
  return n;
}

static size_t lowest(const tree *t, const tn__life *life, size_t size) {
  uint32_t own[MOST], border[MOST], n = own_nodes(t, life, own), m = border_nodes(t, life, border);
  size_t at = 0, before;
  do {
    before = at;
    for (uint32_t i = 0; i < n; i++) at = past(&t->node[own[i]].touches, at, size);
    for (uint32_t i = 0; i < m; i++) at = past(&t->node[border[i]].covers, at, size);
  } while (at != before);
  return at;
}

static void occupy(tree *t, const tn__life *life, range x) {
  uint32_t own[MOST], border[MOST], n = own_nodes(t, life, own), m = border_nodes(t, life, border);
  for (uint32_t i = 0; i < n; i++) {
    insert(t->a, &t->node[own[i]].covers, x);
    insert(t->a, &t->node[own[i]].touches, x);
  }
  for (uint32_t i = 0; i < m; i++) insert(t->a, &t->node[border[i]].touches, x);
}

typedef struct entry {
  size_t bytes;
  uint32_t at;
} entry;

/* a choice: either is right */
static int larger_first(const void *x, const void *y) {
  const entry *a = x, *b = y;
  if (a->bytes != b->bytes) return a->bytes > b->bytes ? -1 : 1;
  return a->at < b->at ? -1 : a->at > b->at;
}

size_t tn__place_lives(tn__arena *a, tn__life *life, uint32_t n) {
  tree t = {.a = a, .leaves = 1};
  entry *order = tn__arena_alloc(a, (n + 1) * sizeof *order);
  size_t end = 0;
  for (uint32_t i = 0; i < n; i++) {
    order[i] = (entry){life[i].bytes, i};
    while (t.leaves <= life[i].last) t.leaves *= 2;
  }
  qsort(order, n, sizeof *order, larger_first);
  t.node = tn__arena_zalloc(a, 2 * (size_t)t.leaves * sizeof *t.node);
  for (uint32_t i = 0; i < n; i++) {
    tn__life *l = &life[order[i].at];
    size_t size = (l->bytes + TN__PLACE_ALIGN - 1) / TN__PLACE_ALIGN * TN__PLACE_ALIGN;
    l->offset = size ? lowest(&t, l, size) : 0;
    if (size) occupy(&t, l, (range){l->offset, l->offset + size});
    if (l->offset + l->bytes > end) end = l->offset + l->bytes;
  }
  return end;
}
