/* The intern table, reference counts and the nursery.
 *
 * Invariants: every node in the table is reachable by its hash; refs counts sources, own dims and outside holders; a
 * node with refs 0 is in the nursery; a node is in the nursery at most once, and the nursery has room for every node of
 * the table, so dropping a reference never allocates.  Serials grow from a source to its users. */
#include "base/poison.h"
#include "ir/build.h"
#include "ir/eval.h"
#include "ir/shape.h"
#include "ir/text.h"
#include <string.h>

/* The hash stands beside the node: what is not looked for is passed by without a look at it. */
typedef struct slot {
  uint64_t hash;
  tn_node *node; /* NULL: free */
} slot;

typedef struct tn__intern {
  slot *slot;       /* open addressing with linear probing, at most two thirds full */
  size_t nslots;    /* a power of two */
  size_t count;     /* nodes in the table */
  tn_node **nursery;
  size_t nnursery, room;
  uint64_t serial;
  uint64_t of_op[OP_COUNT]; /* hashes of their names: one more changes none, nor an order by hashes */
} tn__intern;

enum { FIRST_SLOTS = 2048, FIRST_ROOM = 1024 };

void tn__intern_open(tn_ctx *c) {
  c->intern = tn__mem_zalloc(&c->mem, sizeof *c->intern);
  c->intern->slot = tn__mem_zalloc(&c->mem, FIRST_SLOTS * sizeof(slot));
  c->intern->nslots = FIRST_SLOTS;
  for (int op = 0; op < OP_COUNT; op++)
    c->intern->of_op[op] = tn__hash_bytes(tn__ops[op].text, strlen(tn__ops[op].text), 0);
}

void tn__intern_close(tn_ctx *c) {
  tn__intern *t = c->intern;
  if (!t) return;
  for (size_t i = 0; i < t->nslots; i++) tn__mem_free(&c->mem, t->slot[i].node);
  for (tn_node *n = c->dead, *next; n; n = next) {
    next = n->next;
    tn__mem_free(&c->mem, n);
  }
  c->dead = NULL;
  tn__mem_free(&c->mem, t->slot);
  tn__mem_free(&c->mem, t->nursery);
  tn__mem_free(&c->mem, t);
  c->intern = NULL;
  c->stats.nodes_live = 0;
}

/* ---- looking up ---- */

/* A function of the content alone: the same in every context, so orders that use it are too. */
static uint64_t hash_make(const tn__intern *t, const tn__make *m) {
  uint64_t h = tn__hash_mix(t->of_op[m->op], tn__dtype_is_given((int)m->op) ? (uint64_t)m->dtype + 1 : 0);
  for (uint32_t i = 0; i < m->nsrc; i++) h = tn__hash_mix(h, m->src[i]->hash);
  for (uint32_t i = 0; i < m->nint; i++) h = tn__hash_mix(h, (uint64_t)m->ints[i]);
  return m->name ? tn__hash_bytes(m->name, strlen(m->name), h) : h;
}

static bool is_made_so(const tn_node *n, const tn__make *m) {
  if (n->op != m->op || n->nsrc != m->nsrc || n->nint != m->nint) return false;
  if (tn__dtype_is_given((int)m->op) && n->dtype != m->dtype) return false;
  if (m->nsrc && memcmp(n->src, m->src, m->nsrc * sizeof *m->src) != 0) return false;
  if (m->nint && memcmp(n->ints, m->ints, m->nint * sizeof *m->ints) != 0) return false;
  return n->name == m->name || (n->name && m->name && strcmp(n->name, m->name) == 0);
}

/* The slot that holds such a node, or the free one where it belongs */
static slot *find_slot(const tn__intern *t, uint64_t hash, const tn__make *m) {
  size_t mask = t->nslots - 1, i = hash & mask;
  while (t->slot[i].node && !(t->slot[i].hash == hash && is_made_so(t->slot[i].node, m))) i = (i + 1) & mask;
  return &t->slot[i];
}

static void put_node(const tn__intern *t, slot x) {
  size_t mask = t->nslots - 1, i = x.hash & mask;
  while (t->slot[i].node) i = (i + 1) & mask;
  t->slot[i] = x;
}

static void grow_table(tn_ctx *c, tn__intern *t) {
  slot *old = t->slot;
  size_t n = t->nslots;
  t->slot = tn__mem_zalloc(&c->mem, 2 * n * sizeof *t->slot);
  t->nslots = 2 * n;
  for (size_t i = 0; i < n; i++)
    if (old[i].node) put_node(t, old[i]);
  tn__mem_free(&c->mem, old);
}

/* What stands behind it, and would not be found past a free slot, moves up. */
static void unlink_node(tn__intern *t, const tn_node *n) {
  size_t mask = t->nslots - 1, gap = n->hash & mask;
  while (t->slot[gap].node != n) gap = (gap + 1) & mask;
  for (size_t i = (gap + 1) & mask; t->slot[i].node; i = (i + 1) & mask) {
    size_t home = t->slot[i].hash & mask;
    if (((i + t->nslots - home) & mask) < ((i + t->nslots - gap) & mask)) continue;
    t->slot[gap] = t->slot[i];
    gap = i;
  }
  t->slot[gap].node = NULL;
  t->count--;
}

static void reserve(tn_ctx *c, tn__intern *t) {
  if (t->count >= t->nslots / 3 * 2) grow_table(c, t);
  if (t->count < t->room) return;
  size_t room = t->room ? t->room * 2 : FIRST_ROOM;
  t->nursery = tn__mem_realloc(&c->mem, t->nursery, room * sizeof *t->nursery);
  t->room = room;
}

/* ---- making ---- */

enum { GAP = TN__POISONED }; /* pointers, poisoned, behind each list */

static bool owns_dims(const tn_node *n) { return n->rank && n->dim == n->src + n->nsrc + GAP; }

static void poison_gaps(tn_node *n, size_t own) {
  ASAN_POISON_MEMORY_REGION(n->src + n->nsrc, GAP * sizeof(tn_node *));
  ASAN_POISON_MEMORY_REGION(n->src + n->nsrc + GAP + own, GAP * sizeof(tn_node *));
  ASAN_POISON_MEMORY_REGION(n->ints + n->nint, GAP * sizeof(tn_node *));
}

/* One block: the node, its sources, its dims unless they are another list's, its integers, its name. */
static tn_node *allocate(tn_ctx *c, const tn__make *m, const tn__shape *s) {
  size_t own = s->from == TN__DIMS_OWN ? s->rank : 0, text = m->name ? strlen(m->name) + 1 : 0;
  size_t lists = (m->nsrc + own + 2 * GAP) * sizeof(tn_node *) + (m->nint + GAP) * sizeof(int64_t);
  tn_node *n = tn__mem_alloc(&c->mem, sizeof *n + lists + text);
  memset(n, 0, sizeof *n);
  n->src = (tn_node **)(n + 1);
  int64_t *ints = (int64_t *)(n->src + m->nsrc + own + 2 * GAP);
  if (m->nsrc) memcpy(n->src, m->src, m->nsrc * sizeof *n->src);
  if (m->nint) memcpy(ints, m->ints, m->nint * sizeof *ints);
  if (text) n->name = memcpy(ints + m->nint + GAP, m->name, text);
  n->ints = ints;
  n->nsrc = m->nsrc;
  n->nint = m->nint;
  n->rank = (uint8_t)s->rank;
  switch (s->from) {
  case TN__DIMS_SRC0: n->dim = n->src[0]->dim; break;
  case TN__DIMS_TAIL: n->dim = n->src + (m->nsrc - s->rank); break;
  case TN__DIMS_OWN:
    n->dim = n->src + n->nsrc + GAP;
    for (uint32_t i = 0; i < s->rank; i++) n->dim[i] = s->own[i];
  }
  poison_gaps(n, own);
  return n;
}

static void bound(tn_node *n) {
  n->lo = INT64_MIN;
  n->hi = INT64_MAX;
  if (n->dtype != TN__VOID && !tn__is_float(n->dtype)) tn__interval(n, &n->lo, &n->hi);
}

/* What is no function of its elements, and may be any number, counts as memory, too: a reduction, a wide integer that
 * is taken for an index. */
static bool is_loaded(const tn_node *n) {
  bool function = tn__ops[n->op].group >= G_UNARY && tn__ops[n->op].group <= G_TERNARY;
  bool any = n->dtype == TN__INDEX && n->op != OP_VAR && !function && n->lo == INT64_MIN && n->hi == INT64_MAX;
  bool loaded = any || n->op == OP_LOAD || n->op == OP_GETACC || n->op == OP_DATUM || n->op == OP_PARAM ||
                n->op == OP_STORAGE;
  for (uint32_t i = 0; i < n->nsrc && n->op != OP_RANGE && !loaded; i++) loaded = n->src[i]->loaded;
  return loaded;
}

tn_node *tn__node_make(tn_ctx *c, const tn__make *given) {
  tn__make m = *given;
  if (tn__ops[m.op].arg != ARG_NAME) m.name = NULL;
  else if (!m.name) m.name = "";
  tn__intern *t = c->intern;
  uint64_t hash = hash_make(t, &m);
  const slot *known = find_slot(t, hash, &m);
  if (known->node) return known->node;

  tn__inferred r;
  tn__infer(c, &m, &r); /* may make nodes: dims */
  reserve(c, t);
  tn_node *n = allocate(c, &m, &r.shape);
  n->op = (uint8_t)m.op;
  n->dtype = (uint8_t)r.dtype;
  n->device = (int8_t)r.device;
  n->hash = hash;
  n->serial = ++t->serial;
  bound(n);
  n->loaded = is_loaded(n);
  for (uint32_t i = 0; i < n->nsrc; i++) n->src[i]->refs++;
  for (uint32_t i = 0; i < n->rank && owns_dims(n); i++) n->dim[i]->refs++;
  put_node(t, (slot){hash, n});
  n->in_nursery = true;
  t->nursery[t->nnursery++] = n;
  c->stats.nodes_live = ++t->count;
  return n;
}

tn_node *tn__node_with(tn_ctx *c, tn_node *n, tn_node *const *src) {
  if (n->dtype == TN__INDEX && n->rank == 0 && tn__ops[n->op].group == G_BINARY)
    return tn__op2(c, n->op, src[0], src[1]); /* sizes stay in normal form */
  return tn__node_make(c, &(tn__make){.op = n->op, .dtype = n->dtype, .src = src, .nsrc = n->nsrc, .ints = n->ints,
                                      .nint = n->nint, .name = n->name});
}

/* ---- references ---- */

tn_node *tn__node_keep(tn_node *n) {
  if (n) n->refs++;
  return n;
}

void tn__node_drop(tn_ctx *c, tn_node *n) {
  if (!n || --n->refs || n->in_nursery) return;
  n->in_nursery = true;
  c->intern->nursery[c->intern->nnursery++] = n;
}

void tn__node_free(tn_ctx *c, tn_node *n) {
  for (uint32_t i = 0; i < n->nsrc; i++) tn__node_drop(c, n->src[i]);
  for (uint32_t i = 0; i < n->rank && owns_dims(n); i++) tn__node_drop(c, n->dim[i]);
  tn__mem_free(&c->mem, n);
}

uint64_t tn__intern_last(const tn_ctx *c) { return c->intern->serial; }

void tn__intern_each(tn_ctx *c, void (*fn)(tn_ctx *, tn_node *, void *), void *arg) {
  for (size_t i = 0; i < c->intern->nslots; i++)
    if (c->intern->slot[i].node) fn(c, c->intern->slot[i].node, arg);
}

size_t tn__intern_nursery(const tn_ctx *c) { return c->intern->nnursery; }

void tn__intern_sweep(tn_ctx *c, size_t from) {
  tn__intern *t = c->intern; /* NULL while a context that failed to open is taken down */
  while (t && t->nnursery > from) { /* freeing a node may push its sources */
    tn_node *n = t->nursery[--t->nnursery];
    n->in_nursery = false;
    if (n->refs) continue;
    unlink_node(t, n);
    if (n->op == OP_STORAGE) {
      n->next = c->dead;
      c->dead = n;
    } else {
      tn__node_free(c, n);
    }
  }
  c->stats.nodes_live = t ? t->count : 0;
}

/* ---- reading ---- */

const char *tn__node_type(const tn_node *n, tn__arena *a) {
  tn__sb b;
  tn__sb_init(&b, a);
  tn__sb_puts(&b, tn__dtypes[n->dtype].name);
  for (uint32_t i = 0; i < n->rank; i++) {
    tn__sb_putc(&b, i ? ',' : '[');
    tn__print_expr(&b, n->dim[i]);
  }
  if (n->rank) tn__sb_putc(&b, ']');
  return tn__sb_str(&b);
}

void tn__topo(tn__arena *a, tn_node *const *roots, uint32_t n, tn__nodes *out) {
  typedef struct step {
    tn_node *node;
    uint32_t i; /* the source to enter next */
  } step;
  tn__vec(step) stack = {0};
  tn__map seen;
  tn__map_init(&seen, a);
  *out = (tn__nodes){0};
  for (uint32_t r = 0; r < n; r++) {
    if (!tn__map_add(&seen, (uintptr_t)roots[r], 1)) continue;
    tn__vec_push(a, &stack, ((step){roots[r], 0}));
    while (stack.n) {
      step *top = &stack.v[stack.n - 1];
      if (top->i == top->node->nsrc) {
        tn__vec_push(a, out, top->node);
        stack.n--;
        continue;
      }
      tn_node *s = top->node->src[top->i++];
      if (!tn__map_add(&seen, (uintptr_t)s, 1)) continue;
      tn__vec_push(a, &stack, ((step){s, 0}));
    }
  }
}
