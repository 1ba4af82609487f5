/* What a kernel's text means, as it stands: each store in each turn of its loops, one store after the other, by values
 * of which loads see what was there before, or what came AFTER. */
#include "ir/eval.h"
#include "lower/lower.h"
#include "support/hand.h"
#include <stdlib.h>
#include <string.h>

enum { MOST_STEPS = 1 << 20 };

typedef struct judge {
  tn_ctx *c;
  const hand_memory *m;
  char *first[HAND_BUFFERS];   /* what was there before */
  tn__map value, when;         /* node -> its value, and at which moment */
  tn__map counter;             /* range -> its turn */
  uint64_t moment, steps;      /* goes on with each turn of a loop; values that have been computed */
  bool known;
} judge;

static uint64_t value_of(judge *j, tn_node *n);

static int plain(int dtype) { return dtype == TN__INDEX ? TN_I64 : dtype; }

static char *element(judge *j, const tn_node *access, uint64_t at) {
  const tn_node *of = access->src[0], *buf = tn__buffer_of(access);
  size_t size = tn__size_of(buf->dtype);
  int64_t slot = buf->op == OP_PARAM ? buf->ints[0] : -1;
  if (slot < 0 || slot >= HAND_BUFFERS || at >= j->m->bytes[slot] / size) {
    j->known = false;
    return NULL;
  }
  bool before = access->op == OP_LOAD && of == buf;
  return (before ? j->first[slot] : j->m->v[slot]) + at * size;
}

static bool gated(judge *j, const tn_node *access) {
  tn_node *gate = tn__gate_of(access);
  return gate && !value_of(j, gate);
}

static uint64_t load(judge *j, const tn_node *n) {
  if (gated(j, n)) return 0;
  const char *p = element(j, n, value_of(j, n->src[1]));
  return p ? tn__eval_load(n->dtype, p) : 0;
}

/* Goes through all turns of src[at] .. of a reduction or a store, the first loop outermost. */
static void turns(judge *j, tn_node *n, uint32_t at, void (*fn)(judge *j, tn_node *n, void *arg), void *arg) {
  if (at == n->nsrc) {
    fn(j, n, arg);
    return;
  }
  uint64_t around = 0; /* the loop may be that of something around this, too: its counter is another one then */
  bool there = tn__map_get(&j->counter, (uintptr_t)n->src[at], &around);
  int64_t extent = (int64_t)value_of(j, n->src[at]->src[0]);
  for (int64_t i = 0; i < extent && j->known; i++) {
    j->moment++;
    tn__map_put(&j->counter, (uintptr_t)n->src[at], (uint64_t)i);
    turns(j, n, at + 1, fn, arg);
  }
  if (there) tn__map_put(&j->counter, (uintptr_t)n->src[at], around);
  j->moment++;
}

static void combine(judge *j, tn_node *n, void *arg) {
  uint64_t *sum = arg;
  *sum = tn__eval((int)n->ints[0], n->dtype, n->dtype, (uint64_t[3]){*sum, value_of(j, n->src[0]), 0});
}

static uint64_t reduce(judge *j, tn_node *n) {
  uint64_t sum = tn__eval_reduce_init((int)n->ints[0], n->dtype);
  turns(j, n, 1, combine, &sum);
  return sum;
}

static uint64_t compute(judge *j, tn_node *n) {
  uint64_t arg[3] = {0}, v = 0;
  if (n->op == OP_CONST) return (uint64_t)n->ints[0];
  if (n->op == OP_RANGE) return tn__map_get(&j->counter, (uintptr_t)n, &v) ? v : 0;
  if (n->op == OP_LOAD) return load(j, n);
  if (n->op == OP_REDUCE) return reduce(j, n);
  if (!tn__is_elementwise(n) || n->nsrc > 3) {
    j->known = false;
    return 0;
  }
  for (uint32_t s = 0; s < n->nsrc; s++) arg[s] = value_of(j, n->src[s]);
  int from = plain(n->src[n->op == OP_WHERE]->dtype);
  if (n->op == OP_CAST) return tn__eval_cast(from, plain(n->dtype), arg[0]);
  if (!tn__eval_defined(n->op, from)) {
    j->known = false;
    return 0;
  }
  return tn__eval(n->op, plain(n->dtype), from, arg);
}

static uint64_t value_of(judge *j, tn_node *n) {
  uint64_t v, when;
  if (!j->known) return 0;
  if (tn__map_get(&j->when, (uintptr_t)n, &when) && when == j->moment && tn__map_get(&j->value, (uintptr_t)n, &v))
    return v;
  if (++j->steps > MOST_STEPS) j->known = false;
  v = compute(j, n);
  tn__map_put(&j->value, (uintptr_t)n, v);
  tn__map_put(&j->when, (uintptr_t)n, j->moment); /* which loops inside of it have moved */
  return v;
}

static void store(judge *j, tn_node *n, void *arg) {
  (void)arg;
  if (gated(j, n)) return;
  uint64_t v = value_of(j, n->src[2]);
  int dtype = tn__buffer_of(n)->dtype;
  char *p = element(j, n, value_of(j, n->src[1]));
  if (!p) return;
  if (n->op == OP_STOREADD)
    v = tn__eval(tn__combines_by(n), dtype, dtype, (uint64_t[3]){tn__eval_load(dtype, p), v, 0});
  tn__eval_store(dtype, p, v);
}

bool hand_judge(tn_ctx *c, tn_node *body, const hand_memory *m) {
  judge j = {.c = c, .m = m, .known = true};
  tn__nodes all = {0};
  for (int i = 0; i < HAND_BUFFERS; i++) j.first[i] = tn__arena_dup(&c->scratch, m->v[i] ? m->v[i] : "", m->bytes[i]);
  tn__map_init(&j.value, &c->scratch);
  tn__map_init(&j.when, &c->scratch);
  tn__map_init(&j.counter, &c->scratch);
  tn__topo(&c->scratch, &body, 1, &all);
  for (uint32_t i = 0; i < all.n && j.known; i++) {
    uint32_t first;
    if (all.v[i]->op != OP_STORE && all.v[i]->op != OP_STOREADD) continue;
    tn__closes(all.v[i], &first);
    turns(&j, all.v[i], first, store, NULL);
  }
  return j.known;
}
