#include "verify/scale.h"
#include "rewrite/rewrite.h"
#include "verify/graph.h"

typedef struct job {
  tn_ctx *c;
  tn_node *graph;
  int64_t from, to;
} job;

/* v with each factor `from` become a factor `to`. */
static int64_t scaled(const job *j, int64_t v) {
  int64_t factor = 1;
  for (; v >= j->from && v % j->from == 0; v /= j->from) factor *= j->to;
  return v * factor;
}

/* All sizes so, products of sizes among them.  Throws where shapes no longer fit. */
static void scale(void *arg) {
  job *j = arg;
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(&j->c->scratch, &j->graph, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    if (n->op != OP_CONST || n->dtype != TN__INDEX || scaled(j, n->ints[0]) == n->ints[0]) continue;
    tn__vec_push(&j->c->scratch, &old, n);
    tn__vec_push(&j->c->scratch, &new_, tn__int(j->c, scaled(j, n->ints[0])));
  }
  j->graph = tn__substitute(j->c, j->graph, old.v, new_.v, old.n);
}

/* The longest axis that is shorter than `below`; 0: there is none. */
static int64_t longest(tn_ctx *c, tn_node *graph, int64_t below) {
  tn__nodes all = {0};
  int64_t most = 0, v;
  tn__topo(&c->scratch, &graph, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    for (uint32_t a = 0; a < all.v[i]->rank; a++)
      if (tn__const_int(all.v[i]->dim[a], &v) && v > most && v < below) most = v;
  return most;
}

tn_node *tn__scale_down(tn_ctx *c, tn_node *graph, const tn__env *env, tn__sb *note) {
  static const int64_t blocks[] = {64, 16, 4};
  for (uint32_t b = 0; b < sizeof blocks / sizeof *blocks; b++)
    for (int64_t size = longest(c, graph, INT64_MAX); size > 2 * blocks[b]; size = longest(c, graph, size)) {
      job j = {.c = c, .graph = graph, .from = size, .to = blocks[b] + size % blocks[b]};
      tn_status status;
      if (!tn__mem_try(&c->mem, scale, &j, &status)) {
        if (status == TN_ENOMEM) tn__mem_throw(&c->mem, status);
        tn_clear_error(c);
        continue;
      }
      graph = j.graph;
      tn__sb_printf(note, " %lld to %lld", (long long)j.from, (long long)j.to);
      if (tn__graph_work(c, graph, env) <= TN__MOST_WORK) return graph;
    }
  return NULL;
}
