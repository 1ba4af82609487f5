#include "verify/scale.h"
#include "verify/axes.h"
#include "verify/graph.h"

typedef struct job {
  tn_ctx *c;
  tn_node *graph; /* made of the sizes as they are now */
  tn__axes axes;
} job;

static tn_node *scaled(const tn__map *twin, tn_node *n) {
  tn_node *t = tn__map_getp(twin, n);
  return t ? t : n;
}

static bool says_sizes(const tn_node *n) {
  return n->op == OP_PARAM || n->op == OP_IOTA || n->op == OP_RESHAPE || n->op == OP_EXPAND || n->op == OP_SHRINK ||
         n->op == OP_FOLD;
}

/* Those among the sources of an op that says them. */
static void put_sizes(job *j, const tn_node *n, tn_node **src) {
  uint32_t first = n->op == OP_SHRINK ? 1 + n->rank : n->op == OP_PARAM || n->op == OP_IOTA ? 0 : 1;
  if (n->op == OP_FOLD) src[1] = tn__axes_size(&j->axes, n, (uint32_t)n->ints[0]);
  else
    for (uint32_t a = 0; a < n->rank; a++) src[first + a] = tn__axes_size(&j->axes, n, a);
  if (n->op != OP_RESHAPE || n->src[0]->op != OP_IOTA) return;
  tn_node *all = tn__int(j->c, 1);
  for (uint32_t a = 0; a < n->rank; a++) all = tn__mul(j->c, all, src[first + a]);
  src[0] = tn__iota(j->c, all);
}

/* The graph anew, at the sizes as they are now. */
static void rebuild(void *arg) {
  job *j = arg;
  tn__map twin;
  tn__map_init(&twin, &j->c->scratch);
  for (uint32_t i = 0; i < j->axes.order.n; i++) {
    tn_node *n = j->axes.order.v[i];
    tn_node **src = tn__arena_alloc(&j->c->scratch, (n->nsrc + 1) * sizeof *src);
    bool changes = says_sizes(n);
    for (uint32_t s = 0; s < n->nsrc; s++) {
      src[s] = scaled(&twin, n->src[s]);
      changes |= src[s] != n->src[s];
    }
    if (!changes) continue;
    if (says_sizes(n)) put_sizes(j, n, src);
    tn__make m = {.op = n->op, .dtype = n->dtype, .src = src, .nsrc = n->nsrc, .ints = n->ints, .nint = n->nint,
                  .name = n->name, .device = n->device};
    tn__map_putp(&twin, n, tn__node_make(j->c, &m));
  }
  j->graph = scaled(&twin, j->axes.order.v[j->axes.order.n - 1]);
}

/* The band of the longest size that whole blocks can be taken from; UINT32_MAX: there is none. */
static uint32_t longest(job *j, const tn__axes_list *bands, int64_t block) {
  uint32_t best = UINT32_MAX;
  for (uint32_t i = 0; i < bands->n; i++) {
    const tn__axes_atom *b = &j->axes.atom.v[bands->v[i]];
    if (b->least - b->less <= 2 * block) continue;
    if (best == UINT32_MAX || b->greatest - b->less > j->axes.atom.v[best].greatest - j->axes.atom.v[best].less)
      best = bands->v[i];
  }
  return best;
}

tn_node *tn__scale_down(tn_ctx *c, tn_node *graph, const tn__env *env, tn__sb *note) {
  static const int64_t blocks[] = {64, 16, 4, 2};
  job j = {.c = c, .graph = graph};
  tn__axes_list bands;
  bool small = false;
  tn__axes_find(c, &c->scratch, graph, &j.axes);
  tn__axes_bands(&j.axes, &bands);
  for (uint32_t k = 0; k < sizeof blocks / sizeof *blocks && !small; k++)
    for (uint32_t b; !small && (b = longest(&j, &bands, blocks[k])) != UINT32_MAX;) {
      tn__axes_atom *band = &j.axes.atom.v[b];
      tn_status status;
      int64_t less = band->less;
      band->less = (band->least / blocks[k] - 1) * blocks[k];
      if (!tn__mem_try(&c->mem, rebuild, &j, &status)) {
        if (status == TN_ENOMEM) tn__mem_throw(&c->mem, status);
        tn_clear_error(c);
        band->less = less;
        band->least = 0; /* it stays as it is */
      }
      small = tn__graph_work(c, j.graph, env) <= TN__TWIN_WORK;
    }
  for (uint32_t i = 0; i < bands.n; i++) {
    const tn__axes_atom *b = &j.axes.atom.v[bands.v[i]];
    if (b->less) tn__sb_printf(note, " %lld to %lld", (long long)b->greatest, (long long)(b->greatest - b->less));
  }
  return small ? j.graph : NULL;
}
