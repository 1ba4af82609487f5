#include "support/coverage.h"
#include "lower/kernel.h"
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

enum { MOST_COUNTS = 4096, NAME = 64 };

static struct count {
  char kind[16], name[NAME];
  uint64_t n;
} counts[MOST_COUNTS];
static uint32_t ncounts;

static struct count *find(const char *kind, const char *name) {
  for (uint32_t i = 0; i < ncounts; i++)
    if (!strcmp(counts[i].name, name) && !strcmp(counts[i].kind, kind)) return &counts[i];
  return NULL;
}

void coverage_count(const char *kind, const char *name, uint64_t by) {
  struct count *k = find(kind, name);
  if (!k) {
    if (ncounts == MOST_COUNTS) abort();
    k = &counts[ncounts++];
    snprintf(k->kind, sizeof k->kind, "%s", kind);
    snprintf(k->name, sizeof k->name, "%s", name);
  }
  k->n += by;
}

uint64_t coverage_of(const char *kind, const char *name) {
  const struct count *k = find(kind, name);
  return k ? k->n : 0;
}

static void settle(void);

/* Is it an op that graphs of the grammar have?  Storages stand for PARAMs when a graph is run. */
static bool is_of_graphs(int op) { return tn__ops[op].phases & PH_T && op != OP_STORAGE; }

bool coverage_takes(const char *device, const tn__variant *v, const char *step, const char *text, bool plain, char *why,
                    size_t size) {
  char name[64];
  graph g;
  tn_ctx *c = tn_ctx_open(&(tn_options){.device = device, .quiet = 1, .verify = "strict"});
  if (!c) return snprintf(why, size, "it cannot be opened"), false;
  tn__device *d = tn__device_get(c, 0);
  d->usual = v;
  coverage_watch(d);
  snprintf(name, sizeof name, "%s:%s", device, step);
  uint64_t before = coverage_of("step", name);
  bool parsed = graph_parse(c, text, 1, plain, &g), good = parsed && graph_agrees_always(c, &g, why, size);
  if (parsed) graph_free(c, &g);
  else snprintf(why, size, "%s", tn_last_error(c)->text);
  tn_ctx_close(c);
  if (good && coverage_of("step", name) == before) snprintf(why, size, "no step %s", step), good = false;
  return good;
}

void coverage_print(FILE *f) {
  settle();
  for (int op = 0; op < OP_COUNT; op++)
    if (is_of_graphs(op)) fprintf(f, "grammar %s 1\n", tn__ops[op].text);
  for (uint32_t i = 0; i < ncounts; i++)
    fprintf(f, "%s %s %llu\n", counts[i].kind, counts[i].name, (unsigned long long)counts[i].n);
}

/* ---- graphs ---- */

static uint64_t ops[OP_COUNT][TN__DTYPE_ALL], ranks[TN_MAX_RANK + 1];

typedef struct walk {
  const graph *g;
} walk;

static void do_walk(tn_ctx *c, void *arg) {
  const graph *g = ((walk *)arg)->g;
  tn__nodes all = graph_nodes(g, &c->scratch);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    bool first = !ops[n->op][n->dtype]++;
    char name[NAME];
    snprintf(name, sizeof name, "%s:%s", tn__ops[n->op].text, tn__dtypes[n->dtype].name);
    if (first) coverage_count("op", name, 0);
    ranks[n->rank]++;
  }
}

void coverage_graph(tn_ctx *c, const graph *g) { tn__ctx_run(c, "coverage", do_walk, &(walk){g}); }

/* Into the list, before it is printed or asked. */
static void settle(void) {
  for (int op = 0; op < OP_COUNT; op++)
    for (int dtype = 0; dtype < TN__DTYPE_ALL; dtype++) {
      char name[NAME];
      if (!ops[op][dtype]) continue;
      snprintf(name, sizeof name, "%s:%s", tn__ops[op].text, tn__dtypes[dtype].name);
      coverage_count("op", name, ops[op][dtype]);
      ops[op][dtype] = 0;
    }
  for (int r = 0; r <= TN_MAX_RANK; r++) {
    char name[NAME];
    snprintf(name, sizeof name, "%d", r);
    if (ranks[r]) coverage_count("rank", name, ranks[r]);
    ranks[r] = 0;
  }
}

uint32_t coverage_missing_ops(FILE *f) {
  uint32_t missing = 0;
  for (int op = 0; op < OP_COUNT; op++) {
    uint64_t n = 0;
    for (int dtype = 0; dtype < TN__DTYPE_ALL; dtype++) n += ops[op][dtype];
    if (!is_of_graphs(op) || n) continue;
    fprintf(f, "no graph has the op %s\n", tn__ops[op].text);
    missing++;
  }
  return missing;
}

/* ---- kernels ---- */

/* "share(101,100) lanes(3,32) whole": each step's name; a tile's form with it. */
static void count_note(const char *device, const char *note) {
  for (const char *at = note; *at;) {
    char name[NAME];
    size_t n = 0;
    while (*at == ' ') at++;
    while (isalpha((unsigned char)at[n])) n++;
    if (!n) {
      at += *at != 0;
      continue;
    }
    if (!strncmp(at, "tile(", 5)) {
      n = strcspn(at, ",");
      snprintf(name, sizeof name, "%s:%.*s)", device, (int)n, at);
    } else {
      snprintf(name, sizeof name, "%s:%.*s", device, (int)n, at);
    }
    coverage_count("step", name, 1);
    at += strcspn(at, " ");
  }
}

static void count_kernel(const char *device, const tn__kernel *k) {
  bool seen[OP_COUNT] = {0};
  char name[NAME];
  count_note(device, k->note);
  snprintf(name, sizeof name, "%s:%s", device, k->nparts > 1 ? "two parts" : "one part");
  for (char *s = name; *s; s++)
    if (*s == ' ') *s = '-';
  coverage_count("kernel", name, 1);
  for (uint32_t p = 0; p < k->nparts; p++)
    for (uint32_t i = 0; i < k->part[p].n; i++) {
      const tn_node *n = k->part[p].ins[i];
      if (seen[n->op]) continue;
      seen[n->op] = true;
      snprintf(name, sizeof name, "%s:%s", device, tn__ops[n->op].text);
      coverage_count("kernel", name, 1);
    }
}

static struct {
  const tn__device_ops *real;
  tn__device_ops ops;
} watched;

static tn__code *compile(tn__device *d, tn__kernel *const *kernels, uint32_t n) {
  for (uint32_t i = 0; i < n; i++) count_kernel(d->name, kernels[i]);
  return watched.real->compile(d, kernels, n);
}

static tn_status gemm(tn__device *d, const tn__product *g) {
  char name[NAME];
  snprintf(name, sizeof name, "%s:gemm%s:%s", d->name, g->after ? "+function" : g->row ? "+row" : "",
           tn__dtypes[g->dtype].name);
  coverage_count("library", name, 1);
  return watched.real->gemm(d, g);
}

static tn_status conv(tn__device *d, const tn__conv_call *v) {
  char name[NAME];
  snprintf(name, sizeof name, "%s:conv%d:%s", d->name, (int)v->kind, tn__dtypes[v->dtype].name);
  coverage_count("library", name, 1);
  return watched.real->conv(d, v);
}

void coverage_watch(tn__device *d) {
  watched.real = d->ops;
  watched.ops = *d->ops;
  watched.ops.compile = compile;
  if (d->ops->gemm) watched.ops.gemm = gemm;
  if (d->ops->conv) watched.ops.conv = conv;
  d->ops = &watched.ops;
}
