/* Compiled schedules by what they compute, and the pipeline that makes one, in compile(). */
#include "grad/grad_pass.h"
#include "run/plan.h"
#include <time.h>

enum { MAX_PLANS = 256 };

/* ---- keys ---- */

static void check_devices(tn_ctx *c, tn_node *const *roots, uint32_t n) {
  int device = -1;
  for (uint32_t i = 0; i < n; i++) {
    int d = roots[i]->device;
    if (device >= 0 && d >= 0 && d != device)
      tn__fail(c, TN_EDEVICE, "values on %s and on %s cannot be computed as one: move them with tn_to",
               tn__device_get(c, device)->name, tn__device_get(c, d)->name);
    if (d >= 0) device = d;
  }
}

tn_node *tn__plan_key(tn_ctx *c, tn_node *const *roots, uint32_t n, tn__nodes *in) {
  return tn__plan_key_seen(c, roots, n, 0, in);
}

tn_node *tn__plan_key_seen(tn_ctx *c, tn_node *const *roots, uint32_t n, uint32_t views, tn__nodes *in) {
  tn__nodes all = {0}, param = {0};
  check_devices(c, roots, n);
  tn__make make = {.op = OP_SINK, .src = roots, .nsrc = n, .name = "outputs", .ints = (int64_t[]){views}};
  make.nint = views > 0;
  tn_node *sink = tn__node_make(c, &make);
  tn__topo(&c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *x = all.v[i];
    if (x->op != OP_STORAGE && x->op != OP_PARAM) continue;
    tn_node *p = tn__param(c, x->dtype, in->n, x->device, x->dim, x->rank);
    tn__vec_push(&c->scratch, &param, p);
    tn__vec_push(&c->scratch, in, x);
  }
  return tn__substitute(c, sink, in->v, param.v, in->n);
}

/* ---- the pipeline ---- */

typedef struct compiling {
  tn_ctx *c;
  tn_node *key;
  tn__plan *plan;
} compiling;

static double seconds(void) {
  struct timespec t;
  clock_gettime(CLOCK_MONOTONIC, &t);
  return (double)t.tv_sec + (double)t.tv_nsec * 1e-9;
}

static void validate(tn_ctx *c, tn__plan *p) {
  double start = seconds();
  tn__plan_validate(c, p);
  double spent = seconds() - start;
  c->runtime->spent[1] += spent;
  c->runtime->spent[0] -= spent; /* of what compile() takes in all */
}

static void compile(void *arg) {
  compiling *k = arg;
  tn_ctx *c = k->c;
  double start = c->opt.verify ? seconds() : 0;
  tn__plan *p = k->plan = tn__plan_new(c, k->key);
  tn__plan_schedule(c, p);
  tn__plan_lower(c, p, tn__tune(c, p));
  if (c->opt.verify) validate(c, p);
  tn__plan_compile(p);
  if (c->opt.verify) c->runtime->spent[0] += seconds() - start;
  c->stats.schedules_compiled++;
}

/* ---- the cache ---- */

/* The one that was wanted longest ago, if there is one that no program holds */
static void evict(tn_ctx *c) {
  tn__plan **oldest = NULL;
  for (tn__plan **at = &c->runtime->plans; *at; at = &(*at)->next)
    if (!(*at)->pins) oldest = at;
  if (!oldest) return;
  tn__plan *p = *oldest;
  *oldest = p->next;
  c->runtime->nplans--;
  tn__plan_free(c, p);
}

tn__plan *tn__plan_get(tn_ctx *c, tn_node *key) {
  struct tn__runtime *rt = c->runtime;
  for (tn__plan **at = &rt->plans; *at; at = &(*at)->next) {
    tn__plan *p = *at;
    if (p->key != key) continue;
    *at = p->next;
    p->next = rt->plans;
    rt->plans = p;
    c->stats.schedules_reused++;
    return p;
  }
  compiling k = {.c = c, .key = key};
  tn_status status;
  if (!tn__mem_try(&c->mem, compile, &k, &status)) {
    tn__plan_free(c, k.plan);
    tn__mem_throw(&c->mem, status);
  }
  tn__plan_note_literals(c, key);
  if (rt->nplans >= MAX_PLANS) evict(c); /* before the new one is there, which nobody holds yet, either */
  tn__plan *p = k.plan;
  p->next = rt->plans;
  rt->plans = p;
  rt->nplans++;
  return p;
}

void tn__plan_pin(tn__plan *p, int by) { p->pins += by; }

tn__plan *tn__plan_next(const tn__plan *p) { return p->next; }

tn__device *tn__plan_device(const tn__plan *p) { return p->dev; }

uint32_t tn__plan_vars(const tn__plan *p, tn_node *const **var) {
  *var = p->var.v;
  return p->var.n;
}

/* ---- where gradients would have gone ---- */

static void find_sources(tn__plan *p) {
  tn_ctx *c = p->dev->ctx;
  uint32_t n = p->key->nsrc;
  tn__nodes *leaf = tn__arena_zalloc(&c->scratch, (n + 1) * sizeof *leaf);
  tn__sources *all = tn__arena_alloc(&p->arena, (n + 1) * sizeof *all);
  tn__grad_leaves(c, p->key->src, n, leaf);
  for (uint32_t k = 0; k < n; k++) {
    uint32_t *input = tn__arena_alloc(&p->arena, (leaf[k].n + 1) * sizeof *input);
    for (uint32_t i = 0; i < leaf[k].n; i++) input[i] = (uint32_t)leaf[k].v[i]->ints[0];
    all[k] = (tn__sources){input, leaf[k].n};
  }
  p->sources = all;
}

uint32_t tn__plan_sources(tn__plan *p, uint32_t i, const uint32_t **input) {
  if (!p->sources) find_sources(p);
  *input = p->sources[i].input;
  return p->sources[i].n;
}
