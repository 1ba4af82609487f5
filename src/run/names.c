#include "run/names.h"
#include "ir/build.h"
#include <string.h>

/* Of the name, or where it is to stand. */
static bool look_up(const tn__names *n, const char *name, uint64_t *key, uint64_t *number) {
  for (*key = tn__hash_bytes(name, strlen(name), 0); tn__map_get(&n->number, *key, number); ++*key)
    if (!strcmp(n->name.v[*number], name)) return true;
  return false;
}

void tn__names_init(tn__names *n, tn__arena *a) {
  *n = (tn__names){0};
  tn__map_init(&n->number, a);
}

bool tn__names_find(const tn__names *n, const char *name, uint32_t *number) {
  uint64_t key, found;
  if (!look_up(n, name, &key, &found)) return false;
  *number = (uint32_t)found;
  return true;
}

char *tn__names_add(tn__names *n, const char *name) {
  tn__arena *a = n->number.arena;
  char *copy = tn__arena_strdup(a, name);
  uint64_t key, found;
  look_up(n, name, &key, &found);
  tn__vec_push(a, &n->name, copy);
  tn__map_put(&n->number, key, n->name.n - 1);
  return copy;
}

void tn__roots_init(tn_ctx *c, tn__roots *r) {
  *r = (tn__roots){0};
  tn__map_init(&r->last, &c->scratch);
}

uint32_t tn__roots_add(tn_ctx *c, tn__roots *r, tn_node *n) {
  tn_node *own = n;
  for (tn_node *last; (last = tn__map_getp(&r->last, own));) own = tn__op1(c, OP_CONTIG, last);
  tn__map_putp(&r->last, own, own);
  tn__map_putp(&r->last, n, own);
  tn__vec_push(&c->scratch, &r->node, own);
  return r->node.n - 1;
}
