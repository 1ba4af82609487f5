#include "verify/facts.h"

typedef struct facts {
  tn__arena *a;
  const tn__kernel *k;
  bool *stored; /* by slot */
  const char *why;
} facts;

static bool complain(facts *f, const char *what, int64_t n) {
  tn__sb s;
  tn__sb_init(&s, f->a);
  tn__sb_printf(&s, "kernel %s: %s %lld", f->k->name, what, (long long)n);
  f->why = tn__sb_str(&s);
  return false;
}

static bool check_source(facts *f, const tn_node *n) {
  const tn__kernel *k = f->k;
  if (n->op == OP_PARAM) {
    uint64_t slot = (uint64_t)n->ints[0];
    if (slot >= k->nbuf || k->buf_dtype[slot] != n->dtype) return complain(f, "it has no such buffer as", n->ints[0]);
  }
  if (n->op == OP_LOCAL && ((uint64_t)n->ints[0] >= k->nlocal || k->local[n->ints[0]] != n))
    return complain(f, "it has no such scratch as", n->ints[0]);
  if (n->op == OP_VAR) {
    uint32_t v = 0;
    while (v < k->nvar && k->var[v] != n) v++;
    if (v == k->nvar) return complain(f, "a size is not passed, of", k->nvar);
  }
  return true;
}

static bool loads_from(const tn__part *p, int64_t slot) {
  for (uint32_t i = 0; i < p->n; i++) {
    const tn_node *n = p->ins[i];
    if (n->op == OP_LOAD && n->src[0]->op == OP_PARAM && n->src[0]->ints[0] == slot) return true;
  }
  return false;
}

/* Is the buffer loaded from by stages alone that stand behind all that store to it? */
static bool stands_when_loaded(const tn__kernel *k, int64_t slot) {
  bool loaded = false, stages = k->nparts > 0 && tn__is_stage(k, 0);
  for (uint32_t p = 0; p < k->nparts; p++) {
    loaded |= loads_from(&k->part[p], slot);
    stages &= p == 0 || k->part[p].behind;
    if (tn__stores_to(&k->part[p], slot) && (loaded || !stages)) return false;
  }
  return true;
}

/* What is required of a buffer is of one that the kernel has, and leaves as it is once it loads from it. */
static bool check_requires(facts *f) {
  const tn__kernel *k = f->k;
  for (uint32_t i = 0; i < k->nrequire; i++) {
    tn_node *r = k->require[i];
    tn__nodes all = {0};
    tn__topo(f->a, &r, 1, &all);
    for (uint32_t j = 0; j < all.n; j++)
      if (!check_source(f, all.v[j])) return false;
    if (!stands_when_loaded(k, r->src[0]->ints[0]))
      return complain(f, "it requires something of a buffer that it stores to:", r->src[0]->ints[0]);
  }
  return true;
}

static bool check_part(facts *f, const tn__part *p) {
  const tn_node *global = NULL;
  for (uint32_t i = 0; i < p->n; i++) {
    const tn_node *n = p->ins[i];
    if (n->op == OP_RANGE && n->ints[RANGE_AXIS] == AX_GLOBAL) global = n;
    for (uint32_t s = 0; s < n->nsrc; s++)
      if (!check_source(f, n->src[s])) return false;
    if ((n->op == OP_STORE || n->op == OP_STOREADD) && n->src[0]->op == OP_PARAM) f->stored[n->src[0]->ints[0]] = true;
  }
  return global == p->global || complain(f, "another loop is sliced, of instructions", p->n);
}

static int64_t bytes_of(const tn_node *local) { return local->src[0]->hi * (int64_t)tn__size_of(local->dtype); }

static bool check_scratch(facts *f) {
  const tn__kernel *k = f->k;
  for (uint32_t i = 0; i < k->nlocal; i++) {
    if (!k->local[i]) continue;
    int64_t from = k->local_at[i], to = from + bytes_of(k->local[i]);
    if (from < 0 || from % 64 || to > (k->local[i]->ints[1] > 0 ? k->scratch : k->shared))
      return complain(f, "too little room, or none that is aligned, for scratch", i);
    for (uint32_t j = 0; j < i; j++)
      if (k->local[j] && from < k->local_at[j] + bytes_of(k->local[j]) && k->local_at[j] < to)
        return complain(f, "it shares its room with another: scratch", i);
  }
  return true;
}

static bool check_groups(facts *f, const tn__target *target) {
  const tn__kernel *k = f->k;
  for (uint32_t p = 0; p < k->nparts; p++) {
    if (!k->part[p].group || !target->group) continue; /* an interpreter runs any */
    if (k->part[p].group > target->group) return complain(f, "too many threads:", k->part[p].group);
    if ((size_t)k->shared > target->shared) return complain(f, "too much shared memory:", k->shared);
  }
  return true;
}

const char *tn__facts_check(tn__arena *a, const tn__kernel *k, const tn__target *target) {
  facts f = {.a = a, .k = k, .stored = tn__arena_zalloc(a, k->nbuf + 1)};
  for (uint32_t p = 0; p < k->nparts; p++)
    if (!check_part(&f, &k->part[p])) return f.why;
  for (uint32_t b = 0; b < k->nbuf; b++)
    if (f.stored[b] != (k->buf_written[b] != 0) && !complain(&f, "it does not say whether it stores to buffer", b))
      return f.why;
  if (check_requires(&f) && check_scratch(&f) && check_groups(&f, target)) return NULL;
  return f.why;
}
