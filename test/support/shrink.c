/* A graph that fails, made smaller while it still fails; and said in words. */
#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include "support/graph.h"
#include "tenet/ctx.h"
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { SHRINK_SECONDS = 60 };

typedef struct cut_job {
  const graph *g;
  graph made;
  tn_node *node, *by; /* node becomes `by`, or a leaf that holds its value */
  int only;           /* this output alone; -1: all */
  bool done;
} cut_job;

static void do_cut(tn_ctx *c, void *arg) {
  cut_job *j = arg;
  tn_node *sink = j->g->sink, *by = j->by;
  graph *m = &j->made;
  *m = (graph){.var = j->g->var, .bound = j->g->bound};
  if (j->only >= 0) sink = tn__sink(c, &sink->src[j->only], 1, "outputs");
  if (j->node && !by) {
    if (j->g->nleaf == GRAPH_LEAVES) return;
    for (uint32_t i = 0; i < j->node->rank; i++)
      if (!tn__is_const(j->node->dim[i]) && j->node->dim[i]->op != OP_VAR) return;
    by = tn__param(c, j->node->dtype, j->g->nleaf, 0, j->node->dim, j->node->rank);
    naive_tensor v;
    graph_values(c, j->g, &j->node, 1, &v);
    size_t size = tn__size_of(v.dtype), most = 1; /* elements, at the largest size, as they are printed */
    for (uint32_t i = 0; i < by->rank; i++) most *= (size_t)by->dim[i]->hi;
    char *data = calloc(most + 1, size);
    for (int64_t i = 0; i < v.n; i++) tn__eval_store(v.dtype, data + (size_t)i * size, v.bits[i]);
    naive_free(&v);
    m->data[j->g->nleaf] = data;
  }
  if (j->node) sink = tn__substitute(c, sink, &j->node, &by, 1);
  m->nleaf = j->g->nleaf + (m->data[j->g->nleaf] != NULL);
  for (uint32_t i = 0; i < j->g->nleaf; i++) { /* copies of no known size: shared, and freed once, by the shrinker */
    m->data[i] = j->g->data[i];
  }
  m->sink = tn__node_keep(sink);
  j->done = sink != j->g->sink;
}

/* Tries one cut; true if the result still fails, and then it is the graph. */
static bool cut(tn_ctx *c, graph *g, tn_node *node, tn_node *by, int only) {
  char why[256];
  cut_job j = {.g = g, .node = node, .by = by, .only = only};
  bool made = tn__ctx_run(c, "cut", do_cut, &j);
  tn_clear_error(c);
  if (!made || !j.made.sink) return false;
  if (j.done && !graph_agrees(c, &j.made, why, sizeof why)) {
    tn__node_drop(c, g->sink);
    *g = j.made;
    return true;
  }
  if (j.made.nleaf > g->nleaf) free(j.made.data[g->nleaf]);
  tn__node_drop(c, j.made.sink);
  return false;
}

static bool shrink_once(tn_ctx *c, graph *g) {
  for (uint32_t i = 0; g->sink->nsrc > 1 && i < g->sink->nsrc; i++)
    if (cut(c, g, NULL, NULL, (int)i)) return true;
  tn__arena a;
  tn_node *sink = g->sink;
  bool hit = false;
  tn__arena_init(&a, &c->mem);
  tn__nodes all = graph_nodes(g, &a);
  for (uint32_t i = all.n; i-- > 0 && !hit;) {
    tn_node *n = all.v[i];
    if (n->op == OP_SINK || n->op == OP_PARAM || n->op == OP_CONST || n->dtype >= TN_DTYPE_COUNT) continue;
    for (uint32_t s = 0; s < n->nsrc && !hit; s++) {
      tn_node *x = n->src[s];
      if (x->dtype != n->dtype || x->rank != n->rank) continue;
      bool same = true;
      for (uint32_t k = 0; k < n->rank; k++) same &= x->dim[k] == n->dim[k];
      hit = same && cut(c, g, n, x, -1);
    }
    bool is_root = false;
    for (uint32_t s = 0; s < sink->nsrc; s++) is_root |= sink->src[s] == n;
    if (is_root && sink->nsrc == 1 && !hit) { /* one of its sources as the output */
      for (uint32_t s = 0; s < n->nsrc && !hit; s++)
        if (n->src[s]->dtype < TN_DTYPE_COUNT && n->src[s]->op != OP_PARAM && n->src[s]->op != OP_CONST)
          hit = cut(c, g, sink, tn__node_with(c, sink, &n->src[s]), -1);
    } else if (!hit) {
      hit = cut(c, g, n, NULL, -1);
    }
  }
  tn__arena_free(&a);
  return hit;
}

void graph_shrink(tn_ctx *c, graph *g) {
  c->depth++; /* nodes made on the way stay */
  time_t until = time(NULL) + SHRINK_SECONDS;
  for (int i = 0; i < 400 && time(NULL) < until && shrink_once(c, g); i++) {
  }
  c->depth--;
}

/* What failed, made smaller, as text. */
static void report(tn_ctx *c, graph *g, char *why, size_t size, const char *name) {
  fprintf(stderr, "%s: %s\n", name, why);
  if (!getenv("GRAPH_KEEP")) graph_shrink(c, g);
  graph_agrees(c, g, why, size);
  char *text = graph_text(c, g);
  fprintf(stderr, "shrunk: %s\n%s\n", why, text ? text : "");
  if (g->var) fprintf(stderr, "B = %lld\n", (long long)g->bound);
  free(text);
}

bool graph_check(tn_ctx *c, graph *g, const char *name) {
  char why[512] = "";
  bool good = graph_agrees_always(c, g, why, sizeof why);
  if (!good) report(c, g, why, sizeof why, name);
  return good;
}

bool graph_try(tn_ctx *c, graph_dice *d, const graph_size *size, const char *name) {
  graph g;
  if (!graph_random(c, d, size, &g)) return false;
  if (getenv("FUZZ_PRINT")) {
    char *text = graph_text(c, &g);
    fprintf(stderr, "%s:\n%s", name, text);
    free(text);
  }
  bool good = graph_check(c, &g, name);
  graph_free(c, &g);
  return good;
}
