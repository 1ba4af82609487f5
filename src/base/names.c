#include "base/names.h"
#include <string.h>

/* Of the name, or where it is to stand. */
static bool look_up(const tn__names *n, const char *name, uint64_t *key, uint64_t *at) {
  for (*key = tn__hash_bytes(name, strlen(name), 0); tn__map_get(&n->at, *key, at); ++*key)
    if (!strcmp(n->name.v[*at].name, name)) return true;
  return false;
}

void tn__names_init(tn__names *n, tn__arena *a) {
  *n = (tn__names){0};
  tn__map_init(&n->at, a);
}

bool tn__names_find(const tn__names *n, const char *name, uint32_t *number) {
  uint64_t key, at;
  if (!look_up(n, name, &key, &at)) return false;
  *number = n->name.v[at].number;
  return true;
}

void tn__names_add(tn__names *n, const char *name, uint32_t number) {
  uint64_t key, at;
  look_up(n, name, &key, &at);
  tn__vec_push(n->at.arena, &n->name, ((tn__name){name, number}));
  tn__map_put(&n->at, key, n->name.n - 1);
}
