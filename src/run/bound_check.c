#include "run/bound_check.h"
#include "device/device.h"
#include "ir/roots.h"
#include "rewrite/rewrite.h"
#include "tensor/cells.h"

typedef struct noted { /* a run */
  struct noted *before;
  tn_node *key;           /* of its plan: a SINK over PARAMs */
  const tn__device *device; /* where its outputs stand */
  tn__buffer **in;        /* by PARAM */
  tn__map output;         /* buffer -> the first source of the SINK that was put there */
} noted;

struct tn__bound_log { /* in scratch */
  struct tn__bound_log *outer;
  noted *last;
};

/* ---- keys ---- */

void tn__bound_key(tn_ctx *c, tn_node *key, const tn__nodes *in, const tn__nodes *roots) {
  tn__nodes param = {0}, all = {0}, of = {0};
  tn__topo(&c->scratch, &key, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_PARAM) continue;
    if ((uint64_t)all.v[i]->ints[0] >= in->n) tn__fail(c, TN_ERUN, "internal: a graph has a value that is not bound");
    tn__vec_push(&c->scratch, &param, all.v[i]);
    tn__vec_push(&c->scratch, &of, in->v[all.v[i]->ints[0]]);
  }
  tn_node *back = tn__substitute(c, key, param.v, of.v, param.n);
  bool same = back->nsrc == roots->n;
  for (uint32_t i = 0; same && i < roots->n; i++) same = back->src[i] == roots->v[i];
  if (!same) tn__fail(c, TN_ERUN, "internal: what is compiled is not what was asked for");
}

/* ---- runs ---- */

/* Inner logs are part of outer ones: what is wanted may be computed on the way to something else. */
void tn__bound_note(tn_ctx *c, tn_node *key, tn__buffer *const *in, tn__buffer *const *out) {
  tn__nodes all = {0};
  int64_t n = 0;
  if (!c->runtime->bound || !out) return;
  tn__topo(&c->scratch, &key, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_PARAM && all.v[i]->ints[0] >= n) n = all.v[i]->ints[0] + 1;
  noted run = {.key = key, .device = key->nsrc ? out[0]->device : NULL};
  run.in = tn__alloc(c, ((size_t)n + 1) * sizeof *run.in);
  for (int64_t i = 0; i < n; i++) run.in[i] = in[i];
  tn__map_init(&run.output, &c->scratch);
  for (uint32_t i = key->nsrc; i && i--;) tn__map_put(&run.output, (uintptr_t)out[i], i);
  for (struct tn__bound_log *log = c->runtime->bound; log; log = log->outer) {
    run.before = log->last;
    log->last = tn__arena_dup(&c->scratch, &run, sizeof run);
  }
}

/* The output of a run that put a value there. */
static const noted *find_run(const struct tn__bound_log *log, const tn__buffer *b, uint32_t *output) {
  uint64_t k = 0;
  const noted *r = log->last;
  while (r && !tn__map_get(&r->output, (uintptr_t)b, &k)) r = r->before;
  *output = (uint32_t)k;
  return r;
}

typedef struct wanted { /* of one run: values, and which of its outputs they are */
  tn__nodes value, output;
  tn__vec(uint32_t) number;
} wanted;

typedef struct standing { /* storages that the wanted values are made of, by the buffer that they stand in */
  tn__map in;
  tn__map twice; /* buffers of two: it cannot be told which is meant */
  bool copied;   /* some are another device's, and stood elsewhere while it ran */
} standing;

static void find_standing(tn_ctx *c, const wanted *w, const tn__device *d, standing *out) {
  tn__nodes all = {0};
  tn__map_init(&out->in, &c->scratch);
  tn__map_init(&out->twice, &c->scratch);
  tn__topo(&c->scratch, w->value.v, w->value.n, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_STORAGE) continue;
    const tn__buffer *own = tn__storage_buffer(c, all.v[i]);
    out->copied |= own->device != d;
    if (tn__map_getp(&out->in, own)) tn__map_putp(&out->twice, own, own);
    tn__map_putp(&out->in, own, all.v[i]);
  }
}

/* Is what a run computed, over what stood in its inputs, what was wanted? */
static void check_run(tn_ctx *c, const noted *r, const wanted *w, const tn__device *d) {
  tn__nodes all = {0}, param = {0}, stands = {0};
  standing s = {.copied = false};
  tn__map unclear, known;
  tn__map_init(&unclear, &c->scratch);
  tn__map_init(&known, &c->scratch);
  find_standing(c, w, d, &s);
  tn__topo(&c->scratch, w->output.v, w->output.n, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    bool dark = false;
    for (uint32_t k = 0; k < n->nsrc; k++) dark |= tn__map_getp(&unclear, n->src[k]) != NULL;
    const tn__buffer *b = n->op == OP_PARAM ? r->in[n->ints[0]] : NULL;
    tn_node *leaf = b ? tn__map_getp(&s.in, b) : NULL;
    if (b && !leaf && !s.copied) tn__fail(c, TN_ERUN, "internal: a value was computed from another one's memory");
    if (dark || (b && (!leaf || tn__map_getp(&s.twice, b)))) {
      tn__map_putp(&unclear, n, n);
    } else if (b) {
      tn__vec_push(&c->scratch, &param, n);
      tn__vec_push(&c->scratch, &stands, leaf);
    }
  }
  tn_node *got = tn__substitute(c, r->key, param.v, stands.v, param.n);
  for (uint32_t i = 0; i < w->value.n; i++)
    if (!tn__map_getp(&unclear, w->output.v[i]) &&
        tn__roots_value(&known, got->src[w->number.v[i]]) != tn__roots_value(&known, w->value.v[i]))
      tn__fail(c, TN_ERUN, "internal: a value is not what it was to be: %s",
               tn__node_type(w->value.v[i], &c->scratch));
}

static void check_values(tn_ctx *c, const struct tn__bound_log *log, tn_tensor *const *t, int n, tn_node **want) {
  tn__map of; /* run -> its `wanted` */
  tn__map_init(&of, &c->scratch);
  for (int i = 0; i < n; i++) {
    uint32_t k = 0;
    if (want[i]->op == OP_STORAGE) continue;
    if (t[i]->node->op != OP_STORAGE) tn__fail(c, TN_ERUN, "internal: a value was not computed");
    const noted *r = find_run(log, tn__storage_buffer(c, t[i]->node), &k);
    if (!r) tn__fail(c, TN_ERUN, "internal: a value stands where none was computed");
    wanted *w = tn__map_getp(&of, r);
    if (!w) tn__map_putp(&of, r, w = tn__arena_zalloc(&c->scratch, sizeof *w));
    tn__vec_push(&c->scratch, &w->value, want[i]);
    tn__vec_push(&c->scratch, &w->output, r->key->src[k]);
    tn__vec_push(&c->scratch, &w->number, k);
  }
  for (const noted *r = log->last; r; r = r->before) {
    const wanted *w = tn__map_getp(&of, r);
    if (!w) continue;
    check_run(c, r, w, r->device);
  }
}

typedef struct watched {
  tn_ctx *c;
  void (*fn)(tn_ctx *c, void *arg);
  void *arg;
} watched;

static void run_watched(void *arg) {
  const watched *w = arg;
  w->fn(w->c, w->arg);
}

void tn__bound_watch(tn_ctx *c, tn_tensor *const *t, int n, void (*fn)(tn_ctx *c, void *arg), void *arg) {
  struct tn__bound_log log = {.outer = c->runtime->bound};
  tn_node **want = tn__alloc(c, ((size_t)n + 1) * sizeof *want);
  watched w = {c, fn, arg};
  tn_status status;
  for (int i = 0; i < n; i++) want[i] = t[i]->node;
  c->runtime->bound = &log;
  tn__mem_try(&c->mem, run_watched, &w, &status);
  c->runtime->bound = log.outer;
  if (status != TN_OK) tn__mem_throw(&c->mem, status);
  check_values(c, &log, t, n, want);
}

/* ---- memory that changes hands ---- */

typedef struct swaps {
  tn__map storage;     /* what is about to have other memory */
  const tn__map *sees; /* tensors that stay its values, or movements of these, and the movements */
} swaps;

static void hold(tn_ctx *c, const swaps *s, tn_node *n) {
  if (tn__map_getp(&s->storage, n))
    tn__fail(c, TN_ERUN, "internal: a program writes over a value that is still held: %s",
             tn__node_type(n, &c->scratch));
}

static void look_at_tensor(tn_ctx *c, tn_tensor *t, void *arg) {
  const swaps *s = arg;
  if (!tn__map_get(s->sees, (uintptr_t)t, NULL)) hold(c, s, t->node);
}

static void look_at_node(tn_ctx *c, tn_node *n, void *arg) {
  const swaps *s = arg;
  for (uint32_t i = 0; i < n->nsrc && !tn__map_get(s->sees, (uintptr_t)n, NULL); i++) hold(c, s, n->src[i]);
}

/* Nothing grows with the number of tensors here: a replay allocates no more for it. */
void tn__bound_swaps(tn_ctx *c, const tn__nodes *storage, const tn__map *sees, const tn__nodes *kept,
                     uint64_t *seen) {
  swaps s = {.sees = sees};
  uint64_t now = tn__intern_last(c);
  if (!storage->n) return;
  tn__map_init(&s.storage, &c->scratch);
  for (uint32_t i = 0; i < storage->n; i++) {
    hold(c, &s, storage->v[i]);
    tn__map_putp(&s.storage, storage->v[i], storage->v[i]);
    now = tn__hash_mix(now, storage->v[i]->serial);
  }
  tn__cells_each(c, look_at_tensor, &s);
  if (*seen != now) tn__intern_each(c, look_at_node, &s);
  for (uint32_t i = 0; i < kept->n; i++) hold(c, &s, kept->v[i]);
  for (uint32_t i = 0; i < c->cells->check.n; i++) hold(c, &s, c->cells->check.v[i].mark);
  for (int i = 0; i < TN__REFUSALS; i++)
    if (c->cells->refused[i].mark) hold(c, &s, c->cells->refused[i].mark);
  *seen = now;
}
