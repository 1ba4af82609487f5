#include "support/graph.h"
#include "ir/constraint.h"
#include "ir/eval.h"
#include "ir/text.h"
#include "rewrite/rewrite.h"
#include "support/bounds.h"
#include "support/grow.h"
#include "tenet/program.h"
#include "tensor/cell.h"
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 160, MOST_DATA = 1 << 14 };
enum { RUNS = 3 }; /* of a program: the second is recorded, where a device records, and the third replays it */

bounds_tally graph_asked;

void graph_free(tn_ctx *c, graph *g) {
  for (uint32_t i = 0; i < g->nleaf; i++) free(g->data[i]);
  if (g->sink) tn__node_drop(c, g->sink);
  if (g->var) tn__node_drop(c, g->var);
  *g = (graph){0};
}

tn__nodes graph_nodes(const graph *g, tn__arena *a) {
  tn__nodes all = {0};
  tn_node *sink = g->sink;
  tn__topo(a, &sink, 1, &all);
  return all;
}

static uint32_t find_leaves(const graph *g, tn_node **leaf_of, tn__arena *a) {
  tn__nodes all = graph_nodes(g, a);
  uint32_t n = 0;
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_PARAM) leaf_of[n++] = all.v[i];
  return n;
}

/* ---- text -------------------------------------------------------------------------------------------------------- */

typedef struct text_job {
  const char *text;
  char *printed;
  graph *g;
  graph_dice dice;
  bool plain;
} text_job;

static int64_t most_elements(const tn_node *n) {
  int64_t k = 1;
  for (uint32_t i = 0; i < n->rank; i++) k *= n->dim[i]->hi;
  return k;
}

/* Data of a leaf, a line of the text: "# x3: 3f800000*7 0", each as its bits and how often it comes. */
static void print_data(tn__sb *s, const graph *g, const tn_node *leaf) {
  int64_t n = most_elements(leaf);
  size_t size = tn__size_of(leaf->dtype);
  const char *data = g->data[leaf->ints[0]];
  if (n > MOST_DATA) return;
  tn__sb_printf(s, "# x%lld:", (long long)leaf->ints[0]);
  for (int64_t i = 0, k; i < n; i += k) {
    uint64_t v = 0, w = 0;
    memcpy(&v, data + (size_t)i * size, size);
    for (k = 1; i + k < n; k++) {
      memcpy(&w, data + (size_t)(i + k) * size, size);
      if (v != w) break;
    }
    tn__sb_printf(s, k > 1 ? " %llx*%lld" : " %llx", (unsigned long long)v, (long long)k);
  }
  tn__sb_puts(s, "\n");
}

static void read_data(text_job *j, const tn_node *leaf) {
  char name[32];
  int64_t n = most_elements(leaf), i = 0;
  size_t size = tn__size_of(leaf->dtype);
  char *data = j->g->data[leaf->ints[0]], *end;
  snprintf(name, sizeof name, "\n# x%lld:", (long long)leaf->ints[0]);
  const char *at = strstr(j->text, name);
  for (at = at ? at + strlen(name) : NULL; at && *at == ' ' && i < n; at = end) {
    uint64_t v = strtoull(at, &end, 16);
    int64_t k = *end == '*' ? strtoll(end + 1, &end, 10) : 1;
    for (; k > 0 && i < n; k--, i++) memcpy(data + (size_t)i * size, &v, size);
  }
}

static void do_parse(tn_ctx *c, void *arg) {
  text_job *j = arg;
  tn__nodes all = {0};
  tn_node *root = tn__parse(c, j->text);
  if (root->op != OP_SINK) root = tn__sink(c, &root, 1, "outputs");
  tn__topo(&c->scratch, &root, 1, &all);
  uint32_t slots = 0;
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op == OP_PARAM && all.v[i]->ints[0] >= slots) slots = (uint32_t)all.v[i]->ints[0] + 1;
    if (all.v[i]->op == OP_VAR) j->g->var = tn__node_keep(all.v[i]);
  }
  for (uint32_t s = 0; s < slots; s++) {
    j->g->data[j->g->nleaf++] = NULL;
    for (uint32_t i = 0; i < all.n; i++) {
      tn_node *n = all.v[i];
      if (n->op != OP_PARAM || n->ints[0] != s) continue;
      j->g->nleaf--;
      graph_leaf(c, j->g, &j->dice, n->dtype, n->dim, n->rank, j->plain);
      break;
    }
  }
  j->g->sink = tn__node_keep(root);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_PARAM) read_data(j, all.v[i]);
}

bool graph_parse(tn_ctx *c, const char *text, uint64_t seed, bool plain, graph *out) {
  text_job j = {.text = text, .g = out, .dice.state = seed, .plain = plain};
  *out = (graph){0};
  return tn__ctx_run(c, "graph_parse", do_parse, &j);
}

static void do_text(tn_ctx *c, void *arg) {
  text_job *j = arg;
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__print(&s, j->g->sink);
  tn_node *leaf[GRAPH_LEAVES];
  for (uint32_t i = 0, n = find_leaves(j->g, leaf, &c->scratch); i < n; i++) print_data(&s, j->g, leaf[i]);
  j->printed = strdup(tn__sb_str(&s));
}

char *graph_text(tn_ctx *c, const graph *g) {
  graph copy = *g;
  text_job j = {.g = &copy};
  tn__ctx_run(c, "graph_text", do_text, &j);
  return j.printed;
}

/* ---- comparing --------------------------------------------------------------------------------------------------- */

static int64_t size_at(const graph *g, tn_node *dim, tn__arena *a) {
  tn_node *var = g->var;
  return tn__is_const(dim) ? dim->ints[0]
                           : tn__eval_index(dim, &(tn__env){&var, (int64_t[]){g->bound}, var != NULL}, a);
}

typedef struct run_job {
  const graph *g;
  tn_tensor **leaf, **out;
  tn_dim shape[GRAPH_LEAVES][TN_MAX_RANK], size; /* of the leaves, symbolic; the symbolic size itself */
} run_job;

/* The graph over real storages, its outputs in handles. */
static void do_attach(tn_ctx *c, void *arg) {
  run_job *j = arg;
  tn__nodes all = graph_nodes(j->g, &c->scratch), old = {0}, new_ = {0};
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_PARAM) continue;
    tn__vec_push(&c->scratch, &old, all.v[i]);
    tn__vec_push(&c->scratch, &new_, j->leaf[all.v[i]->ints[0]]->node);
  }
  const tn_node *sink = tn__substitute(c, j->g->sink, old.v, new_.v, old.n);
  for (uint32_t i = 0; i < sink->nsrc; i++) j->out[i] = tn__cell_new(c, sink->src[i]);
}

void graph_values(tn_ctx *c, const graph *g, tn_node *const *root, uint32_t n, naive_tensor *out) {
  tn__arena a;
  tn__arena_init(&a, &c->mem);
  tn_node *leaf_of[GRAPH_LEAVES];
  naive_bind bind[GRAPH_LEAVES + 1];
  uint32_t k = find_leaves(g, leaf_of, &a);
  tn__arena_free(&a);
  for (uint32_t i = 0; i < k; i++) bind[i] = (naive_bind){leaf_of[i], g->data[leaf_of[i]->ints[0]]};
  if (g->var) bind[k++] = (naive_bind){g->var, &g->bound};
  bounds_eval(c, root, n, bind, k, g->slack, out);
}

/* What is wrong with output `at`; true: nothing. */
static bool compare(const graph *g, uint32_t at, const naive_tensor *want, const char *got, char *why, size_t size) {
  const tn_node *n = g->sink->src[at];
  for (int64_t i = 0; i < want->n; i++) {
    uint64_t bits = tn__eval_load(n->dtype, got + (size_t)i * tn__size_of(n->dtype));
    if (bounds_allow(n, want, i, bits)) continue;
    snprintf(why, size, "output %u (%s %s), element %lld of %lld: %.17g (%#llx), not %.17g (%#llx)", at,
             tn__ops[n->op].text, tn__dtypes[n->dtype].name, (long long)i, (long long)want->n,
             tn__eval_to_double(n->dtype, bits), (unsigned long long)bits, naive_get(want, i),
             (unsigned long long)want->bits[i]);
    return false;
  }
  return true;
}

typedef tn_dim shape_of[TN_MAX_RANK];

/* Outputs as lazy tensors. */
static bool attach(tn_ctx *c, const graph *g, tn_node *const *leaf, uint32_t n, const shape_of *shape,
                   tn_tensor **out) {
  tn_tensor *leaves[GRAPH_LEAVES];
  for (uint32_t i = 0; i < n; i++)
    leaves[leaf[i]->ints[0]] = tn_from(c, (tn_dtype)leaf[i]->dtype, shape[i], leaf[i]->rank, g->data[leaf[i]->ints[0]]);
  return tn__ctx_run(c, "attach", do_attach, &(run_job){.g = g, .leaf = leaves, .out = out});
}

/* Outputs on demand, into got[i] of bytes[i]. */
static bool run_realized(tn_ctx *c, const graph *g, tn_node *const *leaf, uint32_t n, const shape_of *shape,
                         char *const *got, const size_t *bytes) {
  tn_tensor *out[MOST];
  bool good = attach(c, g, leaf, n, shape, out) && tn_realize(out, (int)g->sink->nsrc) == TN_OK;
  for (uint32_t i = 0; i < g->sink->nsrc && good; i++) good = tn_read(out[i], got[i], bytes[i]) == TN_OK;
  return good;
}

static void do_shapes(tn_ctx *c, void *arg) {
  run_job *j = arg;
  tn_node *leaf[GRAPH_LEAVES];
  uint32_t n = find_leaves(j->g, leaf, &c->scratch);
  j->size = tn__dim_out(c, j->g->var);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < leaf[i]->rank; k++) j->shape[i][k] = tn__dim_out(c, leaf[i]->dim[k]);
}

static const char *numbered(char *name, char letter, uint32_t i) {
  snprintf(name, 16, "%c%u", letter, i);
  return name;
}

typedef struct recorded {
  const graph *g;
  tn_node *const *leaf;
  uint32_t n;
  const shape_of *shape;
  tn_tensor *const *tensor; /* by leaf, NULL: it is an input */
  tn_tensor **out;
} recorded;

/* The same by a program, which is not ended: an input that has the symbolic size, and one for each leaf that is no
 * tensor. */
static bool record_program(tn_ctx *c, tn_program *p, const recorded *r) {
  tn_tensor *leaves[GRAPH_LEAVES];
  run_job j = {.g = r->g, .leaf = leaves, .out = r->out};
  char name[16];
  bool good = !r->g->var ||
              (tn__ctx_run(c, "shapes", do_shapes, &j) && tn_program_input(p, "size", TN_U8, &j.size, 1));
  for (uint32_t i = 0; i < r->n && good; i++) {
    const tn_node *x = r->leaf[i];
    tn_tensor *t = r->tensor[i];
    if (!t) t = tn_program_input(p, numbered(name, 'x', i), (tn_dtype)x->dtype,
                                 r->g->var ? j.shape[i] : r->shape[i], x->rank);
    good = (leaves[x->ints[0]] = t) != NULL;
  }
  good = good && tn__ctx_run(c, "attach", do_attach, &j);
  for (uint32_t i = 0; i < r->g->sink->nsrc && good; i++)
    good = tn_program_output(p, numbered(name, 'o', i), r->out[i]) == TN_OK;
  return good;
}

/* Is it assigned to by a node of the graph? */
static bool is_assigned(tn_ctx *c, const graph *g, const tn_node *leaf) {
  tn__arena a;
  bool any = false;
  tn__arena_init(&a, &c->mem);
  tn__nodes all = graph_nodes(g, &a);
  for (uint32_t i = 0; i < all.n; i++) any |= all.v[i]->op == OP_ASSIGN && (!leaf || all.v[i]->src[0] == leaf);
  tn__arena_free(&a);
  return any;
}

static tn_tensor *tensor_of(tn_ctx *c, const graph *g, const tn_node *leaf, const tn_dim *shape) {
  return tn_from(c, (tn_dtype)leaf->dtype, shape, leaf->rank, g->data[leaf->ints[0]]);
}

/* The symbolic size, and the leaves that are no tensors. */
static bool write_inputs(tn_program *p, const graph *g, tn_node *const *leaf, uint32_t n, const shape_of *shape,
                         tn_tensor *const *tensor) {
  char name[16], *zeros = calloc((size_t)g->bound + 1, 1);
  bool good = !g->var || tn_program_write(p, "size", &g->bound, 1, zeros, (size_t)g->bound) == TN_OK;
  free(zeros);
  for (uint32_t i = 0; i < n && good; i++) {
    size_t size = tn__size_of(leaf[i]->dtype);
    for (uint32_t k = 0; k < leaf[i]->rank; k++) size *= (size_t)shape[i][k];
    good = tensor[i] || tn_program_write(p, numbered(name, 'x', i), shape[i], leaf[i]->rank,
                                         g->data[leaf[i]->ints[0]], size) == TN_OK;
  }
  return good;
}

/* Inputs are not assigned, so what is assigned to is a tensor; the next run would begin with its new value. */
static bool run_program(tn_ctx *c, const graph *g, tn_node *const *leaf, uint32_t n, const shape_of *shape,
                        char *const *got, const size_t *bytes) {
  tn_tensor *tensor[GRAPH_LEAVES], *out[MOST];
  for (uint32_t i = 0; i < n; i++) tensor[i] = is_assigned(c, g, leaf[i]) ? tensor_of(c, g, leaf[i], shape[i]) : NULL;
  tn_program *p = tn_program_begin(c);
  char name[16];
  bool good = p && record_program(c, p, &(recorded){g, leaf, n, shape, tensor, out});
  good = (tn_program_end(p) == TN_OK) & good && write_inputs(p, g, leaf, n, shape, tensor);
  for (int run = is_assigned(c, g, NULL) ? RUNS - 1 : 0; run < RUNS && good; run++) good = tn_program_run(p) == TN_OK;
  for (uint32_t i = 0; i < g->sink->nsrc && good; i++)
    good = tn_program_read(p, numbered(name, 'o', i), got[i], bytes[i]) == TN_OK;
  tn_program_close(p);
  return good;
}

static uint32_t find_shapes(tn_ctx *c, const graph *g, tn_node **leaf, shape_of *shape) {
  tn__arena a;
  tn__arena_init(&a, &c->mem);
  uint32_t n = find_leaves(g, leaf, &a);
  for (uint32_t i = 0; i < n; i++)
    for (uint32_t k = 0; k < leaf[i]->rank; k++) shape[i][k] = size_at(g, leaf[i]->dim[k], &a);
  tn__arena_free(&a);
  return n;
}

static bool run_graph(tn_ctx *c, const graph *g, char *const *got, const size_t *bytes, char *why, size_t size) {
  tn_node *leaf[GRAPH_LEAVES];
  shape_of shape[GRAPH_LEAVES];
  uint32_t n = find_shapes(c, g, leaf, shape);
  bool good = (g->var ? run_program : run_realized)(c, g, leaf, n, shape, got, bytes);
  if (!good) snprintf(why, size, "error: %s", tn_last_error(c)->text);
  return good;
}

typedef struct size_job {
  const graph *g;
  size_t *bytes;
} size_job;

static void do_sizes(tn_ctx *c, void *arg) {
  const size_job *j = arg;
  for (uint32_t i = 0; i < j->g->sink->nsrc; i++) {
    const tn_node *n = j->g->sink->src[i];
    j->bytes[i] = tn__size_of(n->dtype);
    for (uint32_t k = 0; k < n->rank; k++) j->bytes[i] *= (size_t)size_at(j->g, n->dim[k], &c->scratch);
  }
}

bool graph_run(tn_ctx *c, graph *g, char *why, size_t size) {
  char *got[MOST];
  size_t bytes[MOST];
  bool good = false;
  if (g->var) g->bound = g->var->hi;
  if (!tn__ctx_run(c, "sizes", do_sizes, &(size_job){g, bytes})) return false;
  for (uint32_t i = 0; i < g->sink->nsrc; i++)
    if (!(got[i] = malloc(bytes[i] + 1))) abort();
  tn_scope(c) good = run_graph(c, g, got, bytes, why, size);
  for (uint32_t i = 0; i < g->sink->nsrc; i++) free(got[i]);
  return good;
}

/* Reads the output and compares it. */
static bool check_output(const graph *g, uint32_t at, const naive_tensor *want, tn_tensor *t, char *why, size_t size) {
  size_t bytes = (size_t)want->n * tn__size_of(want->dtype);
  char *got = malloc(bytes + 1);
  bool good = got && tn_read(t, got, bytes) == TN_OK;
  if (!good) snprintf(why, size, "error: %s", tn_last_error(t->ctx)->text);
  good = good && compare(g, at, want, got, why, size);
  free(got);
  return good;
}

/* The outputs of all graphs, computed in one unit. */
static bool realize_all(tn_ctx *c, graph *const *g, uint32_t n, tn_tensor **out) {
  uint32_t nout = 0;
  for (uint32_t k = 0; k < n; k++) {
    tn_node *leaf[GRAPH_LEAVES];
    shape_of shape[GRAPH_LEAVES];
    uint32_t nleaf = find_shapes(c, g[k], leaf, shape);
    if (nout + g[k]->sink->nsrc > MOST || !attach(c, g[k], leaf, nleaf, shape, out + nout)) return false;
    nout += g[k]->sink->nsrc;
  }
  return tn_realize(out, (int)nout) == TN_OK;
}

bool graphs_agree(tn_ctx *c, graph *const *g, uint32_t n, char *why, size_t size) {
  tn_tensor *out[MOST];
  uint32_t at = 0;
  bool good = true;
  tn_scope(c) {
    good = realize_all(c, g, n, out);
    if (!good) snprintf(why, size, "error: %s", tn_last_error(c)->text);
    for (uint32_t k = 0; k < n && good; k++) {
      naive_tensor want[MOST];
      graph_values(c, g[k], g[k]->sink->src, g[k]->sink->nsrc, want);
      for (uint32_t i = 0; i < g[k]->sink->nsrc; i++) {
        good = good && check_output(g[k], i, &want[i], out[at++], why, size);
        bounds_count(&want[i], &graph_asked);
        naive_free(&want[i]);
      }
    }
  }
  tn_clear_error(c);
  return good;
}

static uint64_t add_to_digest(uint64_t digest, tn_tensor *t) {
  int dtype = (int)tn_dtype_of(t);
  char *got = malloc(tn_nbytes(t) + 1);
  if (!got || tn_read(t, got, tn_nbytes(t)) != TN_OK) abort();
  for (int64_t i = 0; i < tn_numel(t); i++) {
    uint64_t bits = tn__eval_load(dtype, got + (size_t)i * tn__size_of(dtype));
    double v = tn__is_float(dtype) ? tn__eval_to_double(dtype, bits) : 0;
    digest = (digest ^ (v != v ? UINT64_MAX : bits)) * 0x100000001b3u; /* one NaN is as good as another */
    digest ^= digest >> 29;
  }
  free(got);
  return digest;
}

bool graphs_digest(tn_ctx *c, graph *const *g, uint32_t n, uint64_t *digest) {
  tn_tensor *out[MOST];
  uint32_t at = 0;
  bool good = true;
  tn_scope(c) {
    good = realize_all(c, g, n, out);
    for (uint32_t k = 0; k < n && good; k++) {
      digest[k] = 0xcbf29ce484222325u;
      for (uint32_t i = 0; i < g[k]->sink->nsrc; i++) digest[k] = add_to_digest(digest[k], out[at++]);
    }
  }
  return good;
}

bool graph_agrees(tn_ctx *c, const graph *g, char *why, size_t size) {
  naive_tensor want[MOST];
  char *got[MOST];
  size_t bytes[MOST];
  uint32_t n = g->sink->nsrc;
  graph_values(c, g, g->sink->src, n, want);
  for (uint32_t i = 0; i < n; i++) {
    bytes[i] = (size_t)want[i].n * tn__size_of(want[i].dtype);
    if (!(got[i] = malloc(bytes[i] + 1))) abort();
  }
  bool good = false;
  tn_scope(c) good = run_graph(c, g, got, bytes, why, size);
  tn_clear_error(c);
  for (uint32_t i = 0; i < n; i++) {
    good = good && compare(g, i, &want[i], got[i], why, size);
    bounds_count(&want[i], &graph_asked);
    naive_free(&want[i]);
    free(got[i]);
  }
  return good;
}

static void do_take(tn_ctx *c, void *arg) {
  const graph *g = arg;
  tn__constraint_list needs = {0};
  tn_node *var = g->var;
  tn__constraints_find(c, &c->scratch, g->sink, &needs);
  tn__constraints_check(c, &needs, &(tn__env){&var, (int64_t[]){g->bound}, 1});
}

/* Has every tensor of the graph a shape at this value of its symbolic size?  Programs refuse the others. */
static bool has_shapes(tn_ctx *c, graph *g) {
  bool good = tn__ctx_run(c, "graph_agrees", do_take, g);
  if (!good) tn_clear_error(c);
  return good;
}

bool graph_agrees_always(tn_ctx *c, graph *g, char *why, size_t size) {
  if (!g->var) return graph_agrees(c, g, why, size);
  const int64_t bounds[] = {g->var->lo, (g->var->lo + g->var->hi) / 2, g->var->hi};
  bool good = true;
  for (int i = 0; i < 3 && good; i++) {
    g->bound = bounds[i];
    good = !has_shapes(c, g) || graph_agrees(c, g, why, size);
  }
  return good;
}

/* ---- states of programs ------------------------------------------------------------------------------------------ */

typedef struct stateful {
  tn_ctx *c;
  graph *g;
  tn_node *leaf[GRAPH_LEAVES];
  shape_of shape[GRAPH_LEAVES];
  int output[GRAPH_LEAVES]; /* by leaf: the output that is assigned to it, -1: it is an input */
  tn_tensor *tensor[GRAPH_LEAVES], *out[MOST];
  uint32_t n;
} stateful;

static bool is_like(const tn_node *x, const tn_node *y) {
  bool same = x->dtype == y->dtype && x->rank == y->rank;
  for (uint32_t i = 0; i < x->rank && same; i++) same = x->dim[i] == y->dim[i];
  return same;
}

/* Which outputs can be a leaf's next value */
static void find_states(stateful *s) {
  s->n = find_shapes(s->c, s->g, s->leaf, s->shape);
  for (uint32_t i = 0; i < s->n; i++) {
    s->output[i] = -1;
    for (uint32_t k = 0; k < s->g->sink->nsrc && s->output[i] < 0; k++)
      if (grow_is_plain(s->leaf[i]) && is_like(s->leaf[i], s->g->sink->src[k])) s->output[i] = (int)k;
  }
}

static bool record_states(stateful *s, tn_program *p) {
  bool good = record_program(s->c, p, &(recorded){s->g, s->leaf, s->n, s->shape, s->tensor, s->out});
  for (uint32_t i = 0; i < s->n && good; i++)
    if (s->output[i] >= 0) good = tn_assign(s->tensor[i], s->out[s->output[i]]) == TN_OK;
  return (tn_program_end(p) == TN_OK) & good;
}

static size_t bytes_of(const naive_tensor *t) { return (size_t)t->n * tn__size_of(t->dtype); }

/* One run: outputs and states against what the states before give. */
static bool run_states(stateful *s, tn_program *p, char *why, size_t size) {
  naive_tensor want[MOST];
  char name[16];
  graph_values(s->c, s->g, s->g->sink->src, s->g->sink->nsrc, want);
  bool ran = tn_program_run(p) == TN_OK, good = ran;
  for (uint32_t i = 0; i < s->g->sink->nsrc && good; i++) {
    char *got = malloc(bytes_of(&want[i]) + 1);
    ran = tn_program_read(p, numbered(name, 'o', i), got, bytes_of(&want[i])) == TN_OK;
    good = ran && compare(s->g, i, &want[i], got, why, size);
    free(got);
  }
  for (uint32_t i = 0; i < s->n && good; i++) {
    if (s->output[i] < 0) continue;
    char *data = s->g->data[s->leaf[i]->ints[0]];
    const naive_tensor *t = &want[s->output[i]];
    ran = tn_read(s->tensor[i], data, bytes_of(t)) == TN_OK;
    good = ran && compare(s->g, (uint32_t)s->output[i], t, data, why, size);
  }
  for (uint32_t i = 0; i < s->g->sink->nsrc; i++) naive_free(&want[i]);
  if (!ran) snprintf(why, size, "error: %s", tn_last_error(s->c)->text);
  return good;
}

static bool run_stateful(stateful *s, char *why, size_t size) {
  bool good = true;
  for (uint32_t i = 0; i < s->n; i++)
    s->tensor[i] = s->output[i] >= 0 ? tensor_of(s->c, s->g, s->leaf[i], s->shape[i]) : NULL;
  tn_program *p = tn_program_begin(s->c);
  good = p && record_states(s, p) && write_inputs(p, s->g, s->leaf, s->n, s->shape, s->tensor);
  if (!good) snprintf(why, size, "error: %s", tn_last_error(s->c)->text);
  for (int run = 0; run < RUNS && good; run++) {
    good = run_states(s, p, why, size);
    if (!good) snprintf(why + strlen(why), size - strlen(why), "; run %d of a program", run + 1);
  }
  tn_program_close(p);
  return good;
}

bool graph_replays(tn_ctx *c, graph *g, char *why, size_t size) {
  stateful s = {.c = c, .g = g};
  bool good = true;
  if (g->var) g->bound = g->var->hi;
  if (is_assigned(c, g, NULL) || (g->var && !has_shapes(c, g))) return true;
  find_states(&s);
  tn_scope(c) good = run_stateful(&s, why, size);
  tn_clear_error(c);
  return good;
}
