/* Text that runs: a graph's as a function of its params, a kernel's over buffers, as a body or as instructions. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include "run/plan.h"
#include "run/sections.h"
#include "verify/barriers.h"
#include "verify/bounds.h"
#include "verify/writers.h"
#include <string.h>

typedef struct text_job {
  const char *text;
  tn_tensor *const *in;
  tn_tensor **out;
  int n, room, count;
} text_job;

/* The value that is given for a param, NULL if there is none.  Throws unless dtype and number of elements are those of
 * the param. */
static tn_tensor *given_for(tn_ctx *c, const text_job *k, const tn_node *param, tn_node *size) {
  int64_t slot = param->ints[0];
  tn_tensor *t = slot >= 0 && slot < k->n ? k->in[slot] : NULL;
  if (!t) return NULL;
  const char *fault = tn__cell_fault(c, t);
  if (fault) tn__fail(c, TN_EINVAL, "the value of param %lld %s", (long long)slot, fault);
  if (t->node->dtype != param->dtype)
    tn__fail(c, TN_EDTYPE, "param %lld is %s, and was given %s", (long long)slot, tn__node_type(param, &c->scratch),
             tn__node_type(t->node, &c->scratch));
  if (tn__numel(c, t->node) != size)
    tn__fail(c, TN_ESHAPE, "param %lld is %s, and was given %s", (long long)slot, tn__node_type(param, &c->scratch),
             tn__node_type(t->node, &c->scratch));
  return t;
}

/* Every value that is given is one of the params among `all`. */
static void check_given(tn_ctx *c, const text_job *k, const tn__nodes *all) {
  for (int slot = 0; slot < k->n; slot++) {
    bool there = !k->in[slot];
    for (uint32_t i = 0; i < all->n && !there; i++) there = all->v[i]->op == OP_PARAM && all->v[i]->ints[0] == slot;
    if (!there) tn__fail(c, TN_EINVAL, "a value was given for param %d, and what the text computes has none", slot);
  }
}

static void add_output(tn_ctx *c, text_job *k, tn_node *n) {
  if (k->count < k->room && k->out) k->out[k->count] = tn__cell_new(c, n);
  k->count++;
}

/* ---- graphs ---- */

static void run_graph(tn_ctx *c, text_job *k, const tn__section *s) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(&c->scratch, &s->root, 1, &all);
  check_given(c, k, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    if (n->op == OP_STORAGE)
      tn__fail(c, TN_EFORMAT, "line %d: a storage has no value here: name it a param", tn__section_line(s, n));
    if (n->op != OP_PARAM) continue;
    tn_tensor *t = given_for(c, k, n, tn__numel(c, n));
    if (!t)
      tn__fail(c, TN_EINVAL, "param %lld, %s, was given no value", (long long)n->ints[0],
               tn__node_type(n, &c->scratch));
    if (!tn__dims_equal(c, t->node->dim, n->dim, n->rank) || t->node->rank != n->rank)
      tn__fail(c, TN_ESHAPE, "param %lld is %s, and was given %s", (long long)n->ints[0],
               tn__node_type(n, &c->scratch), tn__node_type(t->node, &c->scratch));
    tn__vec_push(&c->scratch, &old, n);
    tn__vec_push(&c->scratch, &new_, t->node);
  }
  tn_node *root = tn__substitute(c, s->root, old.v, new_.v, old.n);
  bool sink = root->op == OP_SINK;
  if (sink && !root->nsrc) tn__fail(c, TN_EFORMAT, "line %d: the graph has no outputs", s->line);
  for (uint32_t i = 0; i < (sink ? root->nsrc : 1); i++) add_output(c, k, sink ? root->src[i] : root);
}

/* ---- kernels ---- */

typedef struct kernel_job {
  tn_ctx *c;
  text_job *k;
  const tn__section *s;
  tn_node *param[TN__MOST_BUFFERS];
  tn__buffer *buf[TN__MOST_BUFFERS];
  uint32_t n;
  tn__plan *plan;
} kernel_job;

static void find_params(kernel_job *j) {
  tn__nodes all = {0};
  tn__topo(&j->c->scratch, &j->s->root, 1, &all);
  check_given(j->c, j->k, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    if (n->op == OP_VAR) tn__fail(j->c, TN_ENOTSUP, "line %d: sizes must be numbers here", tn__section_line(j->s, n));
    if (n->op != OP_PARAM) continue;
    tn_node **at = &j->param[n->ints[0]];
    if (n->nsrc != 1 || !tn__is_const(n->src[0]))
      tn__fail(j->c, TN_EFORMAT, "line %d: the buffer of number %lld needs one size", tn__section_line(j->s, n),
               (long long)n->ints[0]);
    if (*at && *at != n)
      tn__fail(j->c, TN_EFORMAT, "line %d: the buffers of number %lld differ", tn__section_line(j->s, n),
               (long long)n->ints[0]);
    *at = n;
    if (n->ints[0] >= j->n) j->n = (uint32_t)n->ints[0] + 1;
  }
}

/* A schedule of this one item, all of whose buffers come from outside */
static void make_plan(kernel_job *j) {
  tn_ctx *c = j->c;
  tn__plan *p = j->plan = tn__plan_new(c, j->s->root);
  p->s = tn__arena_zalloc(&p->arena, sizeof *p->s);
  p->s->text = j->s->root;
  bool program = j->s->stage == TN__STAGE_PROGRAM;
  tn__item item = {.body = program ? j->s->root : tn__by_hand(c, &p->arena, j->s->root, &p->dev->target), .nbuf = j->n};
  item.buf = tn__arena_alloc(&p->arena, (j->n + 1) * sizeof *item.buf);
  for (uint32_t i = 0; i < j->n; i++) {
    tn_node *x = j->param[i];
    tn__buf b = {.kind = BUF_INPUT, .slot = (int)i, .dtype = x ? x->dtype : TN_U8};
    b.size = x ? x->src[0] : tn__int(c, 0);
    tn__vec_push(&p->arena, &p->s->bufs, b);
    item.buf[i] = (int)i;
  }
  tn__vec_push(&p->arena, &p->s->items, item);
  p->by_hand = true;
  tn__plan_lower(c, p, NULL);
}

/* Only the interpreter looks at each access while it runs. */
static void check_bounds(kernel_job *j) {
  tn_ctx *c = j->c;
  const tn__kernel *k = j->plan->kernel[0];
  uint32_t accesses = 0, proved = 0;
  tn__sb open;
  if (!strcmp(j->plan->dev->ops->name, "ref")) return;
  tn_node **size = tn__alloc(c, (k->nbuf + 1) * sizeof *size);
  for (uint32_t i = 0; i < k->nbuf; i++)
    size[i] = i < j->n ? j->plan->s->bufs.v[i].size : j->plan->scratch.v[i - j->n < j->plan->scratch.n ? i - j->n : 0];
  tn__bounds b = {.size = size, .nbuf = k->nbuf};
  if (j->s->stage == TN__STAGE_KERNEL && tn__bounds_prove_body(c, k, j->s->root, &b)) return;
  tn__sb_init(&open, &c->scratch);
  tn__bounds_prove(c, k, &b, &accesses, &proved, &open);
  if (proved < accesses)
    tn__fail(c, TN_EFORMAT,
             "line %d: %u of %u accesses cannot be shown to stay within their buffers: gate them, or run on ref, which "
             "looks at each",
             j->s->line, accesses - proved, accesses);
}

/* What may run at once stores to places of its own: only the interpreter looks at that, if it is asked to. */
static void check_writers(kernel_job *j) {
  tn_ctx *c = j->c;
  tn__writers n = {0};
  tn__sb open;
  tn__sb_init(&open, &c->scratch);
  const tn__kernel *k = j->plan->kernel[0];
  tn__kernel written;
  if (j->s->stage == TN__STAGE_PROGRAM) written = tn__program_as_written(k), k = &written;
  const char *why = tn__writers_prove(c, k, NULL, &n, &open);
  if (why) tn__fail(c, TN_EFORMAT, "line %d: %s", j->s->line, why);
  bool watched = c->races && !strcmp(j->plan->dev->ops->name, "ref");
  tn_node *body = j->s->stage == TN__STAGE_KERNEL ? j->plan->s->items.v[0].body : NULL;
  const tn_node *load = body ? tn__writers_loaded(c, body) : NULL, *twice = body ? tn__writers_twice(c, body) : NULL;
  if (load)
    tn__fail(c, TN_EFORMAT,
             "line %d: buffer %lld is loaded, %s, where something else may have stored to it by then, or not: load "
             "only the element that the turn stores, for that store alone, or store to another buffer",
             tn__section_line(j->s, load), (long long)load->src[0]->ints[0], tn__node_type(load->src[0], &c->scratch));
  if (twice)
    tn__fail(c, TN_EFORMAT,
             "line %d: two stores may go to the same element of buffer %lld, %s, in either order: store to another "
             "buffer, or keep the indices apart",
             tn__section_line(j->s, twice), (long long)tn__buffer_of(twice)->ints[0],
             tn__node_type(tn__buffer_of(twice), &c->scratch));
  why = watched || j->s->stage != TN__STAGE_PROGRAM ? NULL : tn__barriers_groups(c, j->plan->kernel[0], 0);
  if (why)
    tn__fail(c, TN_EFORMAT, "line %d: %s: keep them apart, or run on ref with TENET_RACES=1, which looks at each",
             j->s->line, why);
  bool told = n.by_form + n.by_trying == n.stores || (body && tn__writers_told(c, j->plan->kernel[0], body));
  if (!told && !watched)
    tn__fail(c, TN_EFORMAT,
             "line %d: it cannot be shown that what runs at once stores to places of its own (%u of %u stores): gate "
             "them, require what keeps them apart, or run on ref with TENET_RACES=1, which looks at each",
             j->s->line, n.stores - n.by_form - n.by_trying, n.stores);
}

/* What the kernel writes is a buffer of its own: the given value first, or zeros. */
static void fill_buffers(kernel_job *j) {
  tn_ctx *c = j->c;
  tn__device *d = j->plan->dev;
  const tn__kernel *k = j->plan->kernel[0];
  for (uint32_t i = 0; i < j->n; i++) {
    tn_node *x = j->param[i];
    tn_tensor *t = x ? given_for(c, j->k, x, x->src[0]) : NULL;
    bool written = x && i < k->nbuf && k->buf_written[i];
    if (x && !t && !written)
      tn__fail(c, TN_EINVAL, "buffer %u, %s, was given no value", i, tn__node_type(x, &c->scratch));
    if (t) tn__run_realize(c, &t, 1);
    if (t && !written) {
      j->buf[i] = tn__buffer_keep(tn__storage_on(c, t->node, d));
      continue;
    }
    size_t bytes = x ? (size_t)x->src[0]->ints[0] * tn__size_of(x->dtype) : 0;
    j->buf[i] = tn__buffer_new(d, bytes);
    if (!bytes) continue;
    if (t) {
      tn__buffer *from = tn__storage_buffer(c, t->node);
      tn__device_copy(d, j->buf[i]->mem, from->device, from->mem, bytes);
    } else {
      d->ops->upload(d, j->buf[i]->mem, tn__arena_zalloc(&c->scratch, bytes), bytes);
    }
  }
}

static void run_kernel(void *arg) {
  kernel_job *j = arg;
  tn_ctx *c = j->c;
  make_plan(j);
  check_bounds(j);
  check_writers(j);
  tn__plan_compile(j->plan);
  fill_buffers(j);
  tn__plan_bind(c, j->plan, NULL);
  tn_status status = tn__plan_run(c, j->plan, j->buf, NULL);
  if (status == TN_OK && j->plan->dev->ops->sync) status = j->plan->dev->ops->sync(j->plan->dev);
  if (status != TN_OK) tn__fail(c, status, "the kernel failed: %s", tn_status_text(status));
  const tn__kernel *k = j->plan->kernel[0];
  for (uint32_t i = 0; i < j->n && i < k->nbuf; i++) {
    if (!j->param[i] || !k->buf_written[i]) continue;
    tn__buffer *b = j->buf[i];
    j->buf[i] = NULL; /* the storage's from now on */
    add_output(c, j->k, tn__storage_make(c, j->param[i]->dtype, b, &j->param[i]->src[0], 1));
  }
}

static void run_body(tn_ctx *c, text_job *k, const tn__section *s) {
  tn_status status;
  (s->stage == TN__STAGE_PROGRAM ? tn__section_program : tn__section_body)(c, s, s->root, TN__MOST_BUFFERS);
  kernel_job *j = tn__arena_zalloc(&c->scratch, sizeof *j);
  *j = (kernel_job){.c = c, .k = k, .s = s};
  find_params(j);
  bool good = tn__mem_try(&c->mem, run_kernel, j, &status);
  for (uint32_t i = 0; i < j->n; i++)
    if (j->buf[i]) tn__buffer_drop(j->buf[i]);
  tn__plan_free(c, j->plan);
  if (!good) tn__mem_throw(&c->mem, status);
}

/* ---- the public function ---- */

static void do_run_text(tn_ctx *c, void *arg) {
  text_job *k = arg;
  if (!k->text) tn__fail(c, TN_EINVAL, "the text is NULL");
  if (k->n < 0 || (k->n && !k->in) || k->room < 0 || (k->room && !k->out)) tn__fail(c, TN_EINVAL, "a list is NULL");
  for (int i = 0; i < k->room; i++) k->out[i] = NULL;
  const tn__section *s = tn__sections_read(c, k->text).v;
  if (s->stage == TN__STAGE_GRAPH) run_graph(c, k, s);
  else if (s->stage == TN__STAGE_KERNEL || s->stage == TN__STAGE_PROGRAM) run_body(c, k, s);
  else
    tn__fail(c, TN_ENOTSUP, "line %d: graphs, kernels and programs run, but no %s", s->line, tn__stage_names[s->stage]);
}

int tn_run_text(tn_ctx *ctx, const char *text, int n, tn_tensor *const *in, int room, tn_tensor **out) {
  text_job k = {.text = text, .n = n, .in = in, .room = room, .out = out};
  if (!ctx) return -1;
  return tn__ctx_run(ctx, "tn_run_text", do_run_text, &k) ? k.count : -1;
}
