/* Values on demand: realise, read, write. */
#include "ir/eval.h"
#include "ir/roots.h"
#include "run/bound_check.h"
#include "run/index_check.h"
#include "run/runtime.h"
#include "tensor/random.h"
#include <math.h>
#include <string.h>

static void refuse_recording(tn_ctx *c) {
  if (c->runtime->recording)
    tn__fail(c, TN_ESTATE, "values cannot be read or realised while a program is being recorded");
}

/* The graph of output i of the plan goes, and from which of the inputs a gradient would have come stays known: one that
 * would have to flow there is an error. */
static void note_origin(tn_ctx *c, tn__plan *p, uint32_t i, tn_node *const *in, tn_node *made) {
  const uint32_t *input;
  uint32_t n = tn__plan_sources(p, i, &input);
  tn_node **from = tn__alloc(c, (n + 1) * sizeof *from);
  for (uint32_t k = 0; k < n; k++) from[k] = in[input[k]];
  tn__storage_derive(c, made, from, n);
}

/* Makes the values of these cells, all of one device, STORAGEs. */
static void realize_on(tn_ctx *c, tn__device *d, tn_tensor *const *t, int n) {
  tn__nodes roots, in = {0};
  tn__map seen; /* cells, and which output each is */
  tn__roots of;
  uint64_t *out_of = tn__alloc(c, ((size_t)n + 1) * sizeof *out_of);
  tn__map_init(&seen, &c->scratch);
  tn__roots_init(c, &of);
  for (int i = 0; i < n; i++) {
    if (tn__map_get(&seen, (uintptr_t)t[i], &out_of[i])) continue;
    /* Equal values of two handles become two storages: either may be assigned to. */
    out_of[i] = tn__roots_add(c, &of, t[i]->node);
    tn__map_put(&seen, (uintptr_t)t[i], out_of[i]);
  }
  roots = of.node;
  tn__plan *p = tn__plan_get(c, tn__plan_key(c, roots.v, roots.n, &in));
  tn_node *const *var;
  if (tn__plan_vars(p, &var))
    tn__fail(c, TN_EBOUND, "size %s has no value: symbolic shapes run in programs (program.h)", var[0]->name);
  tn__plan_bind(c, p, NULL);
  tn__buffer **buf = tn__alloc(c, (in.n + 1) * sizeof *buf);
  for (uint32_t i = 0; i < in.n; i++) {
    if (in.v[i]->op == OP_PARAM)
      tn__fail(c, TN_ESTATE, "the value depends on an input of a program, which has one only while the program runs");
    buf[i] = tn__storage_on(c, in.v[i], d);
  }
  /* each output has its storage node, and with it an owner, before anything runs */
  tn__nodes fresh = {0};
  tn__buffer **out = tn__alloc(c, (roots.n + 1) * sizeof *out);
  for (uint32_t i = 0; i < roots.n; i++) {
    tn_node *r = roots.v[i];
    out[i] = NULL;
    tn__plan_output(p, i, buf, &out[i]);
    tn_node *st = tn__storage_make(c, r->dtype, out[i], r->dim, r->rank);
    tn__vec_push(&c->scratch, &fresh, st);
  }
  for (uint32_t i = 0; i < roots.n; i++) note_origin(c, p, i, in.v, fresh.v[i]);
  tn_status status = tn__plan_run(c, p, buf, out);
  if (status != TN_OK) tn__fail(c, status, "a kernel failed: %s", tn_status_text(status));
  for (int i = 0; i < n; i++) tn__cell_set(t[i], fresh.v[out_of[i]]);
}

static int home_of(const tn_node *n) { return n->device < 0 ? 0 : n->device; }

/* ---- assigned values ---- */

typedef tn__vec(tn_tensor *) cells;

/* Not what is the value of its base itself: that is bound anew below. */
static void collect_assigned(tn_ctx *c, tn_tensor *t, void *arg) {
  bool wanted = t->node->op == OP_ASSIGN && !(t->base && t->base->node == t->node) && !tn__index_refused(c, t->node);
  if (wanted) tn__vec_push(&c->scratch, (cells *)arg, t);
}

static void rebind_view(tn_ctx *c, tn_tensor *t, void *arg) {
  tn_node *old = t->base ? tn__map_getp(arg, t->base) : NULL;
  if (old && t->node == tn__cell_view(c, t, old)) tn__cell_set(t, tn__cell_view(c, t, t->base->node));
}

/* Whatever is computed, what was assigned is, too: else a value that is only ever built upon would grow from step to
 * step, and with it each schedule.  Views of it are views of what it is now. */
static void realize_all(tn_ctx *c, const cells *wanted) {
  tn_tensor **here = tn__alloc(c, (wanted->n + 1) * sizeof *here);
  for (int device = 0; device < tn__device_count(c); device++) {
    int count = 0;
    for (uint32_t i = 0; i < wanted->n; i++)
      if (wanted->v[i]->node->op != OP_STORAGE && home_of(wanted->v[i]->node) == device) here[count++] = wanted->v[i];
    if (count) realize_on(c, tn__device_get(c, device), here, count);
  }
}

typedef struct wanted {
  tn_tensor *const *t;
  int n;
  bool alone; /* not what was assigned */
} wanted;

static void compute_all(tn_ctx *c, void *arg) {
  const wanted *w = arg;
  tn_tensor *const *t = w->t;
  int n = w->n;
  cells all = {0}, assigned = {0};
  bool lazy = false;
  refuse_recording(c);
  tn__random_flush(c);
  tn__run_index_checks(c);
  for (int i = 0; i < n; i++) {
    const char *refused = tn__index_refused(c, t[i]->node);
    if (refused) tn__fail(c, TN_EINVAL, "%s", refused);
    lazy |= t[i]->node->op != OP_STORAGE;
    tn__vec_push(&c->scratch, &all, t[i]);
  }
  if (!lazy) return;
  if (c->cells->assigned && !w->alone) tn__cells_each(c, collect_assigned, &assigned);
  tn__map old; /* what they held */
  tn__map_init(&old, &c->scratch);
  for (uint32_t i = 0; i < assigned.n; i++) {
    tn__map_putp(&old, assigned.v[i], assigned.v[i]->node);
    tn__vec_push(&c->scratch, &all, assigned.v[i]);
  }
  realize_all(c, &all);
  c->cells->assigned &= w->alone;
  if (assigned.n) tn__cells_each(c, rebind_view, &old);
}

static void compute(tn_ctx *c, wanted w) {
  if (c->opt.verify) tn__bound_watch(c, w.t, w.n, compute_all, &w);
  else compute_all(c, &w);
}

void tn__run_realize(tn_ctx *c, tn_tensor *const *t, int n) { compute(c, (wanted){t, n, false}); }
void tn__run_realize_alone(tn_ctx *c, tn_tensor *const *t, int n) { compute(c, (wanted){t, n, true}); }

/* ---- the public functions ---- */

typedef struct io {
  tn_tensor *const *t;
  int n;
  void *out;
  const void *in;
  size_t bytes;
} io;

static void do_realize(tn_ctx *c, void *arg) {
  const io *k = arg;
  for (int i = 0; i < k->n; i++) {
    const char *fault = tn__cell_fault(c, k->t[i]);
    if (fault) tn__fail(c, TN_EINVAL, "tensor argument %d %s", i + 1, fault);
  }
  tn__run_realize(c, k->t, k->n);
}

static void check_bytes(tn_ctx *c, const tn_tensor *t, size_t bytes) {
  size_t want = tn_nbytes(t);
  if (bytes != want)
    tn__fail(c, TN_EINVAL, "%zu bytes given for %s, which takes %zu", bytes, tn__node_type(t->node, &c->scratch), want);
}

static void do_read(tn_ctx *c, void *arg) {
  const io *k = arg;
  tn_tensor *t = k->t[0];
  tn__run_realize(c, k->t, 1);
  check_bytes(c, t, k->bytes);
  if (!k->bytes) return;
  if (!k->out) tn__fail(c, TN_EINVAL, "the destination is NULL");
  tn__buffer *b = tn__storage_buffer(c, t->node);
  b->device->ops->download(b->device, k->out, b->mem, k->bytes);
}

static void do_write(tn_ctx *c, void *arg) {
  const io *k = arg;
  tn_tensor *t = k->t[0];
  refuse_recording(c);
  if (t->node->op != OP_STORAGE && t->node->op != OP_ASSIGN)
    tn__fail(c, TN_ESTATE, "%s is not realised: it has no memory to write to", tn__node_type(t->node, &c->scratch));
  for (uint32_t i = 0; i < t->node->rank; i++)
    if (!tn__is_const(t->node->dim[i]))
      tn__fail(c, TN_EBOUND, "%s has a symbolic size", tn__node_type(t->node, &c->scratch));
  check_bytes(c, t, k->bytes);
  if (!k->in && k->bytes) tn__fail(c, TN_EINVAL, "the source is NULL");
  tn__device *d = tn__device_get(c, home_of(t->node));
  tn__buffer *b = tn__buffer_new(d, k->bytes);
  tn_node *st = tn__storage_make(c, t->node->dtype, b, t->node->dim, t->node->rank);
  if (k->bytes) d->ops->upload(d, b->mem, k->in, k->bytes);
  tn__cell_set(t, st); /* a fresh storage: values made before keep what they had */
}

/* A call on one tensor. */
static tn_status run_one(const char *api, tn_tensor *t, void (*fn)(tn_ctx *, void *), io *k) {
  tn_ctx *c = tn__cell_use(t, api);
  if (!c) return TN_EINVAL;
  tn__cells_drain(c);
  tn__storage_reap(c);
  k->t = &t;
  k->n = 1;
  bool ok = tn__ctx_run(c, api, fn, k);
  tn__storage_reap(c);
  return ok ? TN_OK : c->failed;
}

tn_status tn_realize(tn_tensor *const *t, int n) {
  if (!n) return TN_OK;
  tn_ctx *c = NULL;
  for (int i = 0; i < n && t && !c; i++)
    c = tn__cell_ctx(t[i]);
  if (!c) return TN_EINVAL;
  tn__cells_drain(c);
  tn__storage_reap(c);
  io k = {.t = t, .n = n};
  bool ok = tn__ctx_run(c, "tn_realize", do_realize, &k);
  tn__storage_reap(c);
  return ok ? TN_OK : c->failed;
}

tn_status tn_read(tn_tensor *t, void *out, size_t bytes) {
  io k = {.out = out, .bytes = bytes};
  return run_one("tn_read", t, do_read, &k);
}

tn_status tn_write(tn_tensor *t, const void *data, size_t bytes) {
  io k = {.in = data, .bytes = bytes};
  return run_one("tn_write", t, do_write, &k);
}

static void do_item(tn_ctx *c, void *arg) {
  const io *k = arg;
  const tn_node *n = k->t[0]->node;
  int dtype = n->dtype;
  int64_t count;
  uint64_t raw = 0;
  if (!k->out) tn__fail(c, TN_EINVAL, "out is NULL");
  if (!tn__const_int(tn__numel(c, n), &count))
    tn__fail(c, TN_ESHAPE, "needs one element, not %s", tn__node_type(n, &c->scratch));
  if (count != 1)
    tn__fail(c, TN_ESHAPE, "needs one element, not %lld: %s", (long long)count, tn__node_type(n, &c->scratch));
  do_read(c, &(io){.t = k->t, .n = 1, .out = &raw, .bytes = tn__size_of(dtype)});
  *(double *)k->out = tn__eval_to_double(dtype, tn__eval_load(dtype, &raw));
}

tn_status tn_item(tn_tensor *t, double *out) {
  io k = {.out = out};
  return run_one("tn_item", t, do_item, &k);
}

typedef struct move {
  tn_tensor *t, *out;
  const char *device;
} move;

static void do_to(tn_ctx *c, void *arg) {
  move *k = arg;
  int at = tn__find_device(c, k->device);
  int from = home_of(k->t->node);
  if (at == from) {
    k->out = tn__cell_new(c, k->t->node);
    return;
  }
  tn__run_realize(c, &k->t, 1);
  tn__device *d = tn__device_get(c, at), *s = tn__device_get(c, from);
  tn_node *n = k->t->node;
  tn__buffer *src = tn__storage_buffer(c, n), *b = tn__buffer_new(d, src->size);
  tn_node *st = tn__storage_make(c, n->dtype, b, n->dim, n->rank);
  tn__device_copy(d, b->mem, s, src->mem, src->size);
  k->out = tn__cell_new(c, st);
}

tn_tensor *tn_to(tn_tensor *t, const char *device) {
  tn_ctx *c = tn__cell_use(t, "tn_to");
  if (!c) return NULL;
  tn__cells_drain(c);
  move k = {.t = t, .device = device ? device : ""};
  return tn__ctx_run(c, "tn_to", do_to, &k) ? k.out : NULL;
}
