/* Memory and failure.  Prefix tn__mem_, tn__arena_.
 *
 * Failure is a jump: an allocation that cannot be met, or any error found deep inside a pass, unwinds to the nearest
 * tn__mem_try().  What makes that safe is one rule, kept everywhere:
 *
 *   whatever a call allocates is either in an arena that the catcher resets, or already linked into an owner.
 *
 * So nothing leaks on the way out, and passes need no cleanup ladders. */
#ifndef TN_BASE_MEM_H
#define TN_BASE_MEM_H
#include "tenet/ctx.h"
#include <setjmp.h>

typedef struct tn__mem {
  size_t live, peak, limit; /* bytes held now, at most ever, at most allowed (0: no limit) */
  int64_t count, fail_at;   /* allocations so far; the one that fails, with all after it (0: never) */
  struct tn__catch *top;    /* innermost tn__mem_try */
} tn__mem;

/* The block's size is stored in front of it, so that freeing needs no size.  Aligned to 16. alloc does not clear. */
void *tn__mem_alloc(tn__mem *m, size_t size);              /* throws TN_ENOMEM */
void *tn__mem_zalloc(tn__mem *m, size_t size);             /* cleared; throws TN_ENOMEM */
void *tn__mem_realloc(tn__mem *m, void *p, size_t size);   /* throws TN_ENOMEM; `p` is untouched then */
void *tn__mem_try_alloc(tn__mem *m, size_t size);          /* NULL when out of memory */
void tn__mem_free(tn__mem *m, void *p);                    /* NULL allowed */

/* Runs fn(arg); true if it returned, false if it threw; *status then tells what was thrown.  May nest. */
bool tn__mem_try(tn__mem *m, void (*fn)(void *), void *arg, tn_status *status);
/* Unwinds to the innermost tn__mem_try; without one (a bug) prints and aborts. */
_Noreturn void tn__mem_throw(tn__mem *m, tn_status status);

/* A region that is freed as a whole. */
typedef struct tn__arena {
  tn__mem *mem;
  struct tn__chunk *head; /* newest chunk */
  char *at, *end;
} tn__arena;

void tn__arena_init(tn__arena *a, tn__mem *m);
void *tn__arena_alloc(tn__arena *a, size_t size);  /* aligned to 16, not cleared; throws TN_ENOMEM */
void *tn__arena_zalloc(tn__arena *a, size_t size); /* cleared */
void *tn__arena_dup(tn__arena *a, const void *p, size_t size);
char *tn__arena_strdup(tn__arena *a, const char *s);
void tn__arena_reset(tn__arena *a); /* frees everything but the first chunk */
void tn__arena_free(tn__arena *a);  /* frees everything; the arena may be used again */

/* What a pass needs only while it runs: it marks the arena, and winds it back at its end.  What was there before must
 * not have grown in between. */
typedef struct tn__mark {
  struct tn__chunk *head, *older; /* the newest chunk, and the one behind it */
  char *at, *end;
} tn__mark;
tn__mark tn__arena_mark(const tn__arena *a);
void tn__arena_rewind(tn__arena *a, tn__mark m);

/* Typed vector in an arena: tn__vec(int) v = {0}; tn__vec_push(arena, &v, 3); for i < v.n: v.v[i]. */
#define tn__vec(T)                                                                                                     \
  struct {                                                                                                             \
    T *v;                                                                                                              \
    uint32_t n, cap;                                                                                                   \
  }
#define tn__vec_push(arena, vec, x)                                                                                    \
  ((vec)->n == (vec)->cap ? (void)((vec)->v = tn__vec_grow((arena), (vec)->v, &(vec)->cap, sizeof *(vec)->v)) :        \
      (void)0,                                                                                                         \
   (vec)->v[(vec)->n++] = (x))
void *tn__vec_grow(tn__arena *a, void *v, uint32_t *cap, size_t item); /* doubles; copies into the arena */

/* Hash map from 64-bit key (pointers cast through uintptr_t) to 64-bit value, in an arena.  Key 0 is allowed. */
typedef struct tn__entry {
  uint64_t key, val;
} tn__entry;
typedef struct tn__map {
  tn__arena *arena;
  tn__entry *entry; /* key 0: free; that of key 0 itself stands behind all */
  uint32_t n, cap;  /* entries, slots */
  bool zero;        /* is there one of key 0? */
} tn__map;
void tn__map_init(tn__map *m, tn__arena *a);
void tn__map_reserve(tn__map *m, uint32_t n); /* room for n keys in all, so that no more is asked for */
bool tn__map_get(const tn__map *m, uint64_t key, uint64_t *val); /* val may be NULL */
void tn__map_put(tn__map *m, uint64_t key, uint64_t val);        /* replaces */
bool tn__map_add(tn__map *m, uint64_t key, uint64_t val);        /* unless it is there: false */
void *tn__map_getp(const tn__map *m, const void *key);           /* NULL if absent */
void tn__map_putp(tn__map *m, const void *key, const void *val);
void tn__map_clear(tn__map *m);

uint64_t tn__hash_bytes(const void *p, size_t n, uint64_t seed); /* well mixed 64 bits */
uint64_t tn__hash_mix(uint64_t a, uint64_t b);
#endif
