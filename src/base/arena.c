/* Arenas, and the typed vectors that live in them.
 *
 * Chunks double from 4 KiB to 1 MiB.  A request that would waste much of a chunk gets one of its own, linked behind the
 * newest, which goes on being filled. */
#include "base/mem.h"
#include "base/poison.h"
#include <string.h>

/* Under the address sanitizer, what an arena has not given out is poisoned, and so is a gap behind all that it has:
 * overruns and use after a reset show.  Vectors of up to TIGHT elements then have room for what is in them, and no
 * more. */
enum { GAP = 16 * TN__POISONED, TIGHT = 64 };
enum { ALIGN = 16, CHUNK_MIN = 4 << 10, CHUNK_MAX = 1 << 20, OWN_CHUNK = CHUNK_MAX / 4, VEC_FIRST = 64 };

typedef struct tn__chunk {
  struct tn__chunk *older;
  size_t room; /* bytes that follow */
} chunk;
_Static_assert(sizeof(chunk) % ALIGN == 0, "what follows a chunk's head must be aligned");

void tn__arena_init(tn__arena *a, tn__mem *m) {
  *a = (tn__arena){.mem = m};
}

static chunk *add_chunk(tn__arena *a, size_t room) {
  if (room > (size_t)PTRDIFF_MAX - sizeof(chunk)) tn__mem_throw(a->mem, TN_ENOMEM);
  chunk *c = tn__mem_alloc(a->mem, sizeof *c + room);
  c->room = room;
  c->older = NULL;
  ASAN_POISON_MEMORY_REGION(c + 1, room);
  return c;
}

static void fill_from(tn__arena *a, chunk *c) {
  a->head = c;
  a->at = (char *)(c + 1);
  a->end = a->at + c->room;
}

/* A chunk for `size` bytes alone. */
static void *alloc_own(tn__arena *a, size_t size) {
  chunk *c = add_chunk(a, size);
  if (a->head) {
    c->older = a->head->older;
    a->head->older = c;
  } else {
    fill_from(a, c);
    a->at = a->end;
  }
  return c + 1;
}

static void grow(tn__arena *a, size_t size) {
  size_t total = CHUNK_MIN;
  if (a->head) total = a->head->room < CHUNK_MAX / 2 ? 2 * (a->head->room + sizeof(chunk)) : CHUNK_MAX;
  while (total < size + sizeof(chunk)) total *= 2;
  chunk *c = add_chunk(a, total - sizeof *c);
  c->older = a->head;
  fill_from(a, c);
}

void *tn__arena_alloc(tn__arena *a, size_t size) {
  if (size > (size_t)PTRDIFF_MAX - ALIGN - GAP) tn__mem_throw(a->mem, TN_ENOMEM);
  size_t rounded = (size ? (size + ALIGN - 1) & ~(size_t)(ALIGN - 1) : ALIGN) + GAP;
  void *p;
  if (rounded > (size_t)(a->end - a->at) && rounded > OWN_CHUNK) {
    p = alloc_own(a, rounded);
  } else {
    if (rounded > (size_t)(a->end - a->at)) grow(a, rounded);
    p = a->at;
    a->at += rounded;
  }
  ASAN_UNPOISON_MEMORY_REGION(p, size);
  return p;
}

void *tn__arena_zalloc(tn__arena *a, size_t size) {
  return memset(tn__arena_alloc(a, size), 0, size);
}

void *tn__arena_dup(tn__arena *a, const void *p, size_t size) {
  void *copy = tn__arena_alloc(a, size);
  return size ? memcpy(copy, p, size) : copy;
}

char *tn__arena_strdup(tn__arena *a, const char *s) {
  return tn__arena_dup(a, s, strlen(s) + 1);
}

/* Frees chunks from the newest on, until only `keep` is left (NULL: none). */
static void free_chunks(tn__arena *a, const chunk *keep) {
  while (a->head && a->head != keep) {
    chunk *c = a->head;
    a->head = c->older;
    tn__mem_free(a->mem, c);
  }
}

void tn__arena_reset(tn__arena *a) {
  chunk *first = a->head;
  while (first && first->older) first = first->older;
  if (!first || first->room > CHUNK_MAX) { /* do not sit on a huge block */
    tn__arena_free(a);
    return;
  }
  free_chunks(a, first);
  ASAN_POISON_MEMORY_REGION(first + 1, first->room);
  fill_from(a, first);
}

void tn__arena_free(tn__arena *a) {
  free_chunks(a, NULL);
  a->at = a->end = NULL;
}

tn__mark tn__arena_mark(const tn__arena *a) {
  return (tn__mark){.head = a->head, .older = a->head ? a->head->older : NULL, .at = a->at, .end = a->end};
}

void tn__arena_rewind(tn__arena *a, tn__mark m) {
  free_chunks(a, m.head);
  a->at = m.at;
  a->end = m.end;
  if (!m.head) return;
  while (m.head->older != m.older) { /* a request's own, linked behind what was the newest then */
    chunk *own = m.head->older;
    m.head->older = own->older;
    tn__mem_free(a->mem, own);
  }
  ASAN_POISON_MEMORY_REGION(m.at, (size_t)(m.end - m.at));
}

void *tn__vec_grow(tn__arena *a, void *v, uint32_t *cap, size_t item) {
  if (*cap > UINT32_MAX / 2) tn__mem_throw(a->mem, TN_ENOMEM);
  uint32_t first = item < VEC_FIRST ? VEC_FIRST / (uint32_t)item : 1, bigger = *cap ? *cap * 2 : first;
  if (TN__POISONED && *cap < TIGHT) bigger = *cap + 1;
  if (item > (size_t)PTRDIFF_MAX / bigger) tn__mem_throw(a->mem, TN_ENOMEM);
  void *copy = tn__arena_alloc(a, bigger * item);
  if (*cap) memcpy(copy, v, *cap * item);
  *cap = bigger;
  return copy;
}
