#include "support/elsewhere.h"
#include "ir/text.h"
#include "rewrite/rewrite.h"
#include "support/device.h"
#include "support/graph.h"
#include "tenet/tenet.h"
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <cmocka.h>
#include <string.h>

static tn_ctx *there; /* a context on the device; it lasts as long as the process */

static void close_there(void) { tn_ctx_close(there); }

static tn_ctx *open_there(void) {
  const char *device = device_or(NULL);
  if (there || !device) return there;
  there = tn_ctx_open(&(tn_options){.device = device, .mode = TN_MODE_STRICT, .quiet = 1});
  if (!there) fail_msg("%s cannot be opened", device);
  atexit(close_there);
  return there;
}

typedef struct job {
  tn_node *root;
  const naive_bind *bind;
  uint32_t nbind;
  tn_ctx *c;
  char *text;
} job;

/* As text, with numbered parameters in place of the leaves. */
static void print_graph(void *arg) {
  job *j = arg;
  tn_ctx *c = j->c;
  tn__sb s;
  tn_node *old[GRAPH_LEAVES], *new_[GRAPH_LEAVES];
  for (uint32_t i = 0; i < j->nbind; i++) {
    tn_node *leaf = (tn_node *)(uintptr_t)j->bind[i].leaf;
    old[i] = leaf;
    new_[i] = tn__param(c, leaf->dtype, i, 0, leaf->dim, leaf->rank);
  }
  tn__sb_init(&s, &c->scratch);
  tn__print(&s, tn__substitute(c, j->root, old, new_, j->nbind));
  j->text = strdup(tn__sb_str(&s));
}

static size_t bytes_of(const tn_node *leaf) {
  size_t n = tn__size_of(leaf->dtype);
  for (uint32_t i = 0; i < leaf->rank; i++) n *= (size_t)leaf->dim[i]->ints[0];
  return n;
}

static bool is_plain(const naive_bind *bind, uint32_t n) {
  for (uint32_t i = 0; i < n; i++)
    if (bind[i].leaf->op == OP_VAR) return false;
  return n < GRAPH_LEAVES;
}

void elsewhere_eval(tn_ctx *c, tn_node *root, const naive_bind *bind, uint32_t nbind, naive_tensor *out) {
  job j = {.root = root, .bind = bind, .nbind = nbind, .c = c};
  tn_status status;
  graph g;
  char why[1000];
  naive_eval(&root, 1, bind, nbind, out);
  static unsigned long seen;
  if (!is_plain(bind, nbind) || !open_there() || !is_taken(&seen)) return;
  /* Not by tn__ctx_run: tests of the IR have nodes that nothing keeps. */
  if (!tn__mem_try(&c->mem, print_graph, &j, &status)) fail_msg("%s", tn_last_error(c)->text);
  if (!graph_parse(there, j.text, 0, true, &g)) fail_msg("%s\n%s", tn_last_error(there)->text, j.text);
  for (uint32_t i = 0; i < g.nleaf; i++)
    if (g.data[i]) memcpy(g.data[i], bind[i].data, bytes_of(bind[i].leaf));
  g.slack = is_gpu(device_or("")) ? 1e-11 : 0; /* functions of f64 are its library's */
  if (!graph_agrees(there, &g, why, sizeof why)) fail_msg("%s: %s\n%s", device_or(""), why, j.text);
  graph_free(there, &g);
  free(j.text);
}
