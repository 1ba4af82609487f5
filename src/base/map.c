/* Hashing, and the 64-bit to 64-bit hash map: open addressing with linear probing, at most three quarters full. */
#include "base/mem.h"
#include <string.h>

/* A bijection of 64 bits in which every input bit moves about half of the output bits. */
static uint64_t scramble(uint64_t x) {
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  x = (x ^ (x >> 32)) * 0xd6e8feb86659fd93u;
  return x ^ (x >> 32);
}

static uint64_t rotate(uint64_t x, int by) {
  return (x << by) | (x >> (64 - by));
}

uint64_t tn__hash_mix(uint64_t a, uint64_t b) {
  return scramble(scramble(a + 0x9e3779b97f4a7c15u) + b);
}

uint64_t tn__hash_bytes(const void *p, size_t n, uint64_t seed) {
  const unsigned char *s = p;
  uint64_t h = scramble(seed + 0x9e3779b97f4a7c15u) ^ n;
  for (; n > 0;) {
    uint64_t word = 0;
    size_t take = n < sizeof word ? n : sizeof word;
    memcpy(&word, s, take);
    h = rotate(h ^ (word * 0xa0761d6478bd642fu), 29) * 0xe7037ed1a0b428dbu + 0x8ebc6af09c88c6e3u;
    s += take;
    n -= take;
  }
  return scramble(h);
}

void tn__map_init(tn__map *m, tn__arena *a) {
  *m = (tn__map){.arena = a};
}

/* The slot that holds `key`, not 0, or the free one where it belongs.  The map has room.  Where it is looked for first
 * are the upper bits of a product with 2^64 by the golden ratio, which spreads what lies at equal distances; keys that
 * differ in their upper half alone are folded into it (Knuth, The Art of Computer Programming 3, 6.4). */
static tn__entry *slot_of(const tn__map *m, uint64_t key) {
  uint32_t mask = m->cap - 1, upper = (uint32_t)(((key ^ (key >> 32)) * 0x9e3779b97f4a7c15u) >> 32);
  uint32_t i = upper >> __builtin_clz(mask);
  while (m->entry[i].key && m->entry[i].key != key) i = (i + 1) & mask;
  return &m->entry[i];
}

void tn__map_reserve(tn__map *m, uint32_t n) {
  if (n <= m->cap / 4 * 3) return;
  tn__map old = *m;
  uint32_t cap = old.cap ? old.cap : 16;
  while (n > cap / 4 * 3) {
    if (cap > UINT32_MAX / 2) tn__mem_throw(m->arena->mem, TN_ENOMEM);
    cap *= 2;
  }
  /* an arena that is full leaves the map as it was */
  tn__entry *entry = tn__arena_zalloc(m->arena, ((size_t)cap + 1) * sizeof *entry);
  m->entry = entry;
  m->cap = cap;
  for (uint32_t i = 0; i < old.cap; i++)
    if (old.entry[i].key) *slot_of(m, old.entry[i].key) = old.entry[i];
  if (old.cap) entry[cap] = old.entry[old.cap];
}

bool tn__map_get(const tn__map *m, uint64_t key, uint64_t *val) {
  if (!m->cap || (!key && !m->zero)) return false;
  const tn__entry *e = key ? slot_of(m, key) : &m->entry[m->cap];
  if (e->key != key) return false;
  if (val) *val = e->val;
  return true;
}

void tn__map_put(tn__map *m, uint64_t key, uint64_t val) {
  tn__map_reserve(m, m->n + 1);
  tn__entry *e = key ? slot_of(m, key) : &m->entry[m->cap];
  m->n += key ? !e->key : !m->zero;
  m->zero |= !key;
  *e = (tn__entry){key, val};
}

bool tn__map_add(tn__map *m, uint64_t key, uint64_t val) {
  tn__map_reserve(m, m->n + 1);
  tn__entry *e = key ? slot_of(m, key) : &m->entry[m->cap];
  if (key ? e->key != 0 : m->zero) return false;
  m->n++;
  m->zero |= !key;
  *e = (tn__entry){key, val};
  return true;
}

void *tn__map_getp(const tn__map *m, const void *key) {
  uint64_t val = 0;
  return tn__map_get(m, (uintptr_t)key, &val) ? (void *)(uintptr_t)val : NULL;
}

void tn__map_putp(tn__map *m, const void *key, const void *val) {
  tn__map_put(m, (uintptr_t)key, (uintptr_t)val);
}

void tn__map_clear(tn__map *m) {
  m->n = 0;
  m->zero = false;
  if (m->cap) memset(m->entry, 0, m->cap * sizeof *m->entry);
}
