/* Handles, scopes, and the way into the front end. */
#include "tensor/cells.h"
#include "device/device.h"
#include "tensor/operands.h"
#include <string.h>

enum { RESTS = 1000 }; /* blocks of ended handles that wait before the first of them serves again */

/* ---- handles ---- */

static void link_to(struct tn__scope *s, tn_tensor *t) {
  t->scope = s;
  t->prev = NULL;
  t->next = s->first;
  if (s->first) s->first->prev = t;
  s->first = t;
}

static bool is_handle(const tn_tensor *t) { return t && t->magic == TN__CELL_MAGIC; }

static void unlink_cell(tn_tensor *t) {
  if (t->prev) t->prev->next = t->next;
  else t->scope->first = t->next;
  if (t->next) t->next->prev = t->prev;
}

static tn_tensor *take_rested(struct tn__cells *k) {
  tn_tensor *t = k->ended.n > RESTS ? k->ended.first : NULL;
  if (!t) return NULL;
  k->ended.first = t->next;
  k->ended.n--;
  return t;
}

tn_tensor *tn__cell_new(tn_ctx *c, tn_node *node) {
  tn_tensor *t = take_rested(c->cells);
  if (!t) t = tn__mem_alloc(&c->mem, sizeof *t);
  memset(t, 0, sizeof *t);
  t->magic = TN__CELL_MAGIC;
  t->refs = 1;
  t->ctx = c;
  t->node = tn__node_keep(node);
  t->recorded = c->cells->holds;
  link_to(c->cells->top, t);
  c->stats.handles_live++;
  return t;
}

void tn__cell_set(tn_tensor *t, tn_node *node) {
  tn_node *old = t->node;
  t->node = tn__node_keep(node);
  tn__node_drop(t->ctx, old);
}

/* Ends the handle; what it held of its base is the caller's to give back. */
static void end(tn_tensor *t) {
  tn_ctx *c = t->ctx;
  struct tn__cells *k = c->cells;
  unlink_cell(t);
  tn__node_drop(c, t->node);
  tn__node_drop(c, t->view);
  t->magic = TN__CELL_ENDED;
  t->next = NULL;
  if (k->ended.n++) k->ended.last->next = t;
  else k->ended.first = t;
  k->ended.last = t;
  c->stats.handles_live--;
}

/* Keeps an assigned cell for the recording, which has the last reference then. */
static bool hold(tn_tensor *t) {
  struct tn__cells *k = t->ctx->cells;
  if (!k->holds || t->held || t->node->op != OP_ASSIGN) return false;
  t->held = true;
  t->refs = 1;
  unlink_cell(t);
  link_to(&k->root, t);
  return true;
}

/* Takes n references away.  A base has no base itself, so this goes at most two deep. */
static void drop(tn_tensor *t, uint32_t n) {
  while (t && !t->held) { /* of one that is held no caller has a reference left to give back */
    t->refs -= n < t->refs ? n : t->refs;
    if (t->refs || hold(t)) return;
    tn_tensor *base = t->base;
    end(t);
    t = base;
    n = 1;
  }
}

void tn__cells_drain(tn_ctx *c) {
  _Atomic(tn_tensor *) *queue = &c->cells->queue;
  /* looking costs less than taking, and mostly there is none */
  tn_tensor *t = atomic_load(queue) ? atomic_exchange(queue, NULL) : NULL;
  while (t) {
    tn_tensor *next = t->queued; /* read first: from the exchange on, another thread may queue t again */
    unsigned n = atomic_exchange(&t->given_back, 0);
    if (is_handle(t)) drop(t, n);
    t = next;
  }
}

tn_tensor *tn_keep(tn_tensor *t) {
  if (!tn__cell_use(t, "tn_keep")) return NULL;
  struct tn__scope *root = &t->ctx->cells->root;
  if (t->scope != root) {
    unlink_cell(t);
    link_to(root, t);
  }
  return t;
}

tn_tensor *tn_retain(tn_tensor *t) {
  if (!tn__cell_use(t, "tn_retain")) return NULL;
  t->refs++;
  return t;
}

void tn_release(tn_tensor *t) {
  if (!is_handle(t)) return;
  if (atomic_fetch_add(&t->given_back, 1) > 0) return; /* it stands in the queue already */
  _Atomic(tn_tensor *) *queue = &t->ctx->cells->queue;
  t->queued = atomic_load(queue);
  while (!atomic_compare_exchange_weak(queue, &t->queued, t)) {}
}

tn_ctx *tn__cell_ctx(const tn_tensor *t) {
  return t && (t->magic == TN__CELL_MAGIC || t->magic == TN__CELL_ENDED) ? t->ctx : NULL;
}

tn_ctx *tn__cell_use(const tn_tensor *t, const char *api) {
  if (is_handle(t)) return t->ctx;
  tn_ctx *c = tn__cell_ctx(t);
  if (c) tn__refuse(c, api, "the tensor %s", tn__cell_fault(c, t));
  return NULL;
}

const char *tn__cell_fault(const tn_ctx *c, const tn_tensor *t) {
  if (!t) return "is NULL";
  if (t->magic == TN__CELL_ENDED) return "has ended: it was released, or its scope was left";
  if (t->magic != TN__CELL_MAGIC) return "is not a tensor";
  return t->ctx == c ? NULL : "belongs to another context";
}

void tn__cells_hold(tn_ctx *c, bool on) {
  struct tn__cells *k = c->cells;
  struct tn__scope held = {0}; /* taken together first: with one others may go */
  k->holds = on;
  for (tn_tensor *t = on ? NULL : k->root.first, *next; t; t = next) {
    next = t->next;
    if (!t->held) continue;
    unlink_cell(t);
    link_to(&held, t);
  }
  while (held.first) {
    tn_tensor *t = held.first;
    t->held = false;
    unlink_cell(t);
    link_to(&k->root, t);
    drop(t, 1);
  }
}

void tn__cells_each(tn_ctx *c, void (*fn)(tn_ctx *, tn_tensor *, void *), void *arg) {
  for (struct tn__scope *s = c->cells->top; s; s = s->outer)
    for (tn_tensor *t = s->first; t; t = t->next) fn(c, t, arg);
}

/* ---- scopes ---- */

static void scope_open(tn_ctx *c, void *arg) {
  (void)arg;
  struct tn__cells *k = c->cells;
  struct tn__scope *s = k->spare;
  if (s) k->spare = s->outer;
  else s = tn__mem_alloc(&c->mem, sizeof *s);
  *s = (struct tn__scope){.outer = k->top, .depth = k->top->depth + 1};
  k->top = s;
}

static void scope_close(tn_ctx *c, void *arg) {
  struct tn__cells *k = c->cells;
  int depth = *(int *)arg;
  if (depth < 0) tn__fail(c, TN_ESTATE, "no scope is open");
  while (k->top->depth > depth) {
    struct tn__scope *s = k->top;
    while (s->first) { /* a handle retained elsewhere lives on in the root */
      tn_tensor *t = s->first;
      unlink_cell(t);
      link_to(&k->root, t);
      drop(t, 1);
    }
    k->top = s->outer;
    s->outer = k->spare;
    k->spare = s;
  }
}

/* The run around it ends with the sweep of the nodes that the handles held; then their buffers can go back to the pool.
 */
static bool close_down_to(tn_ctx *c, int depth) {
  tn__cells_drain(c);
  if (!tn__ctx_run(c, "tn_scope_end", scope_close, &depth)) return false;
  if (!c->depth) tn__storage_reap(c);
  return true;
}

tn_status tn_scope_begin(tn_ctx *ctx) {
  if (!ctx) return TN_EINVAL;
  return tn__ctx_run(ctx, "tn_scope_begin", scope_open, NULL) ? TN_OK : ctx->failed;
}

tn_status tn_scope_end(tn_ctx *ctx) {
  if (!ctx) return TN_EINVAL;
  return close_down_to(ctx, ctx->cells->top->depth - 1) ? TN_OK : ctx->failed;
}

tn_scope_guard tn_scope_enter(tn_ctx *ctx) {
  tn_scope_guard g = {.ctx = ctx, .depth = ctx ? ctx->cells->top->depth : 0, .once = 1};
  tn_scope_begin(ctx);
  return g;
}

void tn_scope_leave(tn_scope_guard *guard) {
  if (guard && guard->ctx && guard->ctx->cells->top->depth > guard->depth) close_down_to(guard->ctx, guard->depth);
}

/* ---- the context's part ---- */

void tn__cells_open(tn_ctx *c) {
  struct tn__cells *k = tn__mem_zalloc(&c->mem, sizeof *k);
  c->cells = k;
  k->top = &k->root;
  k->random.seed = c->opt.seed;
  tn__arena_init(&k->arena, &c->mem);
  tn__arena_init(&k->check_arena, &c->mem);
  tn__map_init(&k->dim_index, &k->arena);
  tn__names_init(&k->dim_name, &k->arena);
}

void tn__cells_close(tn_ctx *c) {
  struct tn__cells *k = c->cells;
  if (!k) return;
  atomic_store(&k->queue, NULL);
  int root = 0;
  scope_close(c, &root);
  while (k->root.first) end(k->root.first); /* bases are in the list themselves */
  for (uint32_t i = 0; i < k->dim.n; i++) tn__node_drop(c, k->dim.v[i]);
  tn__node_drop(c, k->random.state);
  for (tn_tensor *t; (t = k->ended.first);) {
    k->ended.first = t->next;
    tn__mem_free(&c->mem, t);
  }
  while (k->spare) {
    struct tn__scope *s = k->spare;
    k->spare = s->outer;
    tn__mem_free(&c->mem, s);
  }
  tn__index_checks_drop(c);
  for (int i = 0; i < TN__REFUSALS; i++) tn__node_drop(c, k->refused[i].mark);
  tn__arena_free(&k->arena);
  tn__mem_free(&c->mem, k);
  c->cells = NULL;
}

/* ---- calls ---- */

static bool is_realised(const tn_node *n) { return n->op == OP_STORAGE || n->op == OP_ASSIGN; }

/* The view's leaf has the type of the base. */
tn_node *tn__cell_view(tn_ctx *c, const tn_tensor *t, tn_node *base) {
  const tn_node *leaf = t->view;
  while (leaf->op != OP_PARAM) leaf = leaf->src[0];
  return tn__moves_replay(c, t->view, leaf, base);
}

/* Remembers which realised tensor a movement of it can be assigned through. */
static void set_view(tn_ctx *c, tn_tensor *t, tn_tensor *from, tn_node *x) {
  tn_tensor *base = from->base ? from->base : from;
  if (!from->base && !is_realised(x)) return;
  tn_node *leaf = from->base ? from->view : tn__param(c, x->dtype, 0, x->device, x->dim, x->rank);
  t->view = tn__node_keep(tn__moves_replay(c, t->node, x, leaf));
  t->base = tn_retain(base);
}

static void check_operands(tn_ctx *c, tn__call *k) {
  int device = -1;
  for (int i = 0; i < k->nin; i++) {
    tn_tensor *t = k->in[i];
    const char *fault = tn__cell_fault(c, t);
    if (fault) tn__fail(c, TN_EINVAL, "tensor argument %d %s", i + 1, fault);
    int d = t->node->device;
    if (device >= 0 && d >= 0 && d != device)
      tn__fail(c, TN_EDEVICE, "tensor argument %d is on %s, an earlier one on %s: move one with tn_to", i + 1,
               tn__device_get(c, d)->name, tn__device_get(c, device)->name);
    if (d >= 0) device = d;
    if (i < 4) k->x[i] = t->node;
  }
}

static void run_call(tn_ctx *c, void *arg) {
  tn__call *k = arg;
  check_operands(c, k);
  tn_node *n = k->fn(c, k);
  if (!n) return;
  k->out = tn__cell_new(c, n);
  if (k->view) set_view(c, k->out, k->in[0], k->x[0]);
}

tn_status tn__do(tn__call *k) {
  tn_ctx *c = k->ctx;
  bool null = false;
  k->out = NULL;
  for (int i = 0; i < k->nin; i++) {
    null |= !k->in[i];
    if (!c) c = tn__cell_ctx(k->in[i]);
  }
  if (!c) return TN_EINVAL;
  if (null && c->err.status) return c->failed; /* an operand failed already: pass it on */
  tn__cells_drain(c);
  if (tn__ctx_run(c, k->name, run_call, k)) return TN_OK;
  if (k->out) drop(k->out, 1);
  k->out = NULL;
  return c->failed;
}

tn_tensor *tn__build(tn__call *k) {
  tn__do(k);
  return k->out;
}

tn_status tn__do_each(tn__call *k, tn_tensor **const *out, int n) {
  tn_tensor *made[TN__RESULTS] = {NULL};
  tn_status status = TN_OK;
  bool any = false;
  for (int i = 0; i < n; i++) any |= out[i] != NULL;
  for (int i = 0; i < n && !status; i++) {
    if (!out[i] && (any || i)) continue;
    k->i[0] = i;
    k->data = out[i];
    status = tn__do(k);
    made[i] = k->out;
  }
  for (int i = 0; i < n; i++) {
    if (status) tn_release(made[i]);
    else if (out[i]) *out[i] = made[i];
  }
  return status;
}
