#include "run/order.h"
#include <string.h>

static bool meet(const tn__order_item *x, const tn__order_item *y) {
  if (x->library && y->library) return true;
  for (uint32_t i = 0; i < x->n; i++)
    for (uint32_t j = 0; j < y->n; j++)
      if ((x->touch[i].write || y->touch[j].write) && x->touch[i].lo < y->touch[j].hi &&
          y->touch[j].lo < x->touch[i].hi)
        return true;
  return false;
}

/* a choice: either is right */
static bool is_short(const tn__order_item *x, double most) {
  uint64_t bytes = 0;
  for (uint32_t i = 0; i < x->n; i++) bytes += x->touch[i].hi - x->touch[i].lo;
  return (double)bytes <= most;
}

/* What waits on the device takes room that others could use: it may do so for a short time, or where there are no
 * others.  (CNN of 64 images, H200: 0.39 ms when everything may come early, 0.31 when nothing may.) */
static void find_early(tn__order_item *item, uint32_t n, const uint64_t *done, uint32_t words, double short_bytes) {
  for (uint32_t i = 0; i < n; i++) {
    uint32_t bound = 1; /* items that run before, after, or are this one */
    for (uint32_t w = 0; w < words; w++) bound += (uint32_t)__builtin_popcountll(done[(size_t)i * words + w]);
    for (uint32_t k = i + 1; k < n; k++) bound += (uint32_t)(done[(size_t)k * words + i / 64] >> (i % 64) & 1);
    item[i].early[0] = item[i].nbefore == 1 && (bound == n || is_short(&item[item[i].before[0]], short_bytes));
    item[i].early[1] = bound == n || is_short(&item[i], short_bytes);
  }
}

/* The longest chain takes as long as it has items, however short these are, and what is beside it has time, most of all
 * what nobody waits for: but devices start what comes first, and all blocks of a long item would begin before those of
 * the chain. */
static void find_urgent(tn__arena *a, tn__order_item *item, uint32_t n, double short_bytes) {
  uint32_t *to = tn__arena_zalloc(a, (n + 1) * sizeof *to), *from = tn__arena_zalloc(a, (n + 1) * sizeof *from);
  uint32_t longest = 0;
  bool others = false; /* that take long */
  for (uint32_t i = 0; i < n; i++) {
    for (uint32_t k = 0; k < item[i].nbefore; k++)
      if (to[item[i].before[k]] + 1 > to[i]) to[i] = to[item[i].before[k]] + 1;
    if (to[i] > longest) longest = to[i];
  }
  for (uint32_t i = n; i && i--;)
    for (uint32_t k = 0; k < item[i].nbefore; k++)
      if (from[i] + 1 > from[item[i].before[k]]) from[item[i].before[k]] = from[i] + 1;
  for (uint32_t i = 0; i < n; i++) {
    bool chain = to[i] + from[i] == longest;
    item[i].urgent = chain ? TN__MOST_URGENT : from[i] > 0;
    others |= !chain && !is_short(&item[i], short_bytes);
  }
  for (uint32_t i = 0; i < n && !others; i++) item[i].urgent = 0;
}

void tn__order_find(tn__arena *a, tn__order_item *item, uint32_t n, double short_bytes) {
  uint32_t words = n / 64 + 1;
  /* per item: all it waits for, directly or not */
  uint64_t *done = tn__arena_zalloc(a, (size_t)n * words * sizeof *done);
  uint32_t *before = tn__arena_alloc(a, (n + 1) * sizeof *before);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t *own = done + (size_t)i * words;
    item[i].nbefore = 0;
    for (uint32_t j = i; j && j--;) { /* the nearest first: they wait for most of the rest */
      if ((own[j / 64] >> (j % 64) & 1) || !meet(&item[i], &item[j])) continue;
      before[item[i].nbefore++] = j;
      own[j / 64] |= 1ull << (j % 64);
      for (uint32_t w = 0; w < words; w++) own[w] |= done[(size_t)j * words + w];
    }
    item[i].before = tn__arena_dup(a, before, (item[i].nbefore + 1) * sizeof *before);
  }
  find_early(item, n, done, words, short_bytes);
  find_urgent(a, item, n, short_bytes);
}

static bool share(const tn__order_item *x, const tn__order_item *y) {
  for (const tn__touch *s = x->touch; s < x->touch + x->n; s++)
    for (const tn__touch *t = y->touch; t < y->touch + y->n; t++) {
      uint64_t from = s->lo > t->lo ? s->lo : t->lo, to = s->hi < t->hi ? s->hi : t->hi;
      if (from < to && (s->write || t->write)) return true;
    }
  return x->library && y->library;
}

bool tn__order_holds(tn__arena *a, const tn__order_item *item, uint32_t n, uint32_t *first, uint32_t *second) {
  uint32_t *seen = tn__arena_zalloc(a, (n + 1) * sizeof *seen), *todo = tn__arena_alloc(a, (n + 1) * sizeof *todo);
  for (uint32_t i = 0; i < n; i++) {
    uint32_t left = 0;
    for (todo[left++] = i; left;) {
      const tn__order_item *x = &item[todo[--left]];
      for (uint32_t k = 0; k < x->nbefore; k++) {
        if (seen[x->before[k]] == i + 1) continue;
        seen[x->before[k]] = i + 1;
        todo[left++] = x->before[k];
      }
    }
    for (uint32_t j = 0; j < i; j++) {
      if (seen[j] == i + 1 || !share(&item[j], &item[i])) continue;
      *first = j;
      *second = i;
      return false;
    }
  }
  return true;
}
