/* Content-keyed file cache.  Prefix tn__cache_.
 *
 * An entry is <dir>/<32 hex digits of key><suffix>.  Writes go to a temporary name in the same directory and are
 * renamed, so a reader sees a whole entry or none.  Each entry ends in a trailer with its length and a hash of its
 * content; one that does not match is removed and counts as absent: it is rebuilt, never trusted.  A full or read-only
 * disk is no error: the entry is just not kept. */
#ifndef TN_BASE_CACHE_H
#define TN_BASE_CACHE_H
#include "base/mem.h"

typedef struct tn__cache {
  char *dir; /* NULL: disabled */
  tn__mem *mem;
} tn__cache;

typedef struct tn__key {
  uint64_t a, b;
} tn__key;

/* Creates the directory.  NULL, or why nothing will be kept: the cache is disabled, or only read from. */
const char *tn__cache_open(tn__cache *c, tn__mem *m, const char *dir);
void tn__cache_close(tn__cache *c);
tn__key tn__cache_key(const void *p, size_t n, tn__key chain); /* chain keys to hash several pieces */
/* Path of a valid entry (checked against its trailer), in `a`; NULL if absent or damaged. */
const char *tn__cache_find(tn__cache *c, tn__key key, const char *suffix, tn__arena *a);
/* Takes the finished file `tmp` (in the cache directory) into the cache; true if it is there now and `tmp` is gone.  If
 * false, `tmp` is still there (perhaps with a trailer) and the caller's to use and to remove. */
bool tn__cache_adopt(tn__cache *c, tn__key key, const char *suffix, const char *tmp);
/* The content of a valid entry, in `a`; NULL if absent or damaged. */
const void *tn__cache_read(tn__cache *c, tn__key key, const char *suffix, tn__arena *a, size_t *size);
/* Keeps `content` as an entry, if that can be; scratch from `a`. */
void tn__cache_write(tn__cache *c, tn__key key, const char *suffix, const void *content, size_t size, tn__arena *a);
/* A fresh empty file in the cache directory (in $TMPDIR when disabled or full), its path in `a`; NULL if none can be
 * made. */
const char *tn__cache_temp(tn__cache *c, const char *suffix, tn__arena *a);
#endif
