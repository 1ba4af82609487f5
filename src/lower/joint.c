/* Kernels as one: their parts as they are, but for the numbers of buffers and of scratch memory.  Needs kernels for
 * groups, as they are lowered. */
#include "ir/build.h"
#include "lower/launch_extent.h"
#include "lower/lower.h"

enum { MOST_BLOCKS = INT32_MAX / TN__MAX_PARTS /* of a part */ };

/* a choice: no is right */
bool tn__may_join(const tn__kernel *k) {
  bool plain = !k->nvar;
  for (uint32_t p = 0; p < k->nparts && plain; p++) {
    const tn__part *x = &k->part[p];
    int64_t blocks = tn__fixed_blocks(x);
    bool crowded = x->beside && k->shared > 0; /* shared memory and registers are one block's, as with tiles */
    plain = x->group > 0 && !x->owns && !x->tile && !crowded && !x->abreast && !x->behind && blocks > 0 &&
            blocks <= MOST_BLOCKS;
  }
  return plain;
}

bool tn__has_meetings(const tn__part *p) {
  for (uint32_t i = 0; i < p->n; i++)
    if (p->ins[i]->op == OP_BARRIER ||
        (p->ins[i]->op == OP_GETACC && p->ins[i]->nsrc < 3 && p->ins[i]->src[0]->ints[1] > 1))
      return true;
  return false;
}

bool tn__meets(const tn__part *p) {
  bool in_step = !p->across && p->group <= p->subgroup && tn__threads_of_block(p) % p->subgroup == 0;
  return !in_step && tn__has_meetings(p);
}

typedef struct moving { /* a kernel's nodes, and what stands for each */
  tn_ctx *c;
  tn__arena *a;
  tn__map now;
} moving;

/* The same, to the letter: indices in another form would be made of what is no instruction. */
static tn_node *like(tn_ctx *c, const tn_node *n, tn_node *const *src, const int64_t *ints) {
  return tn__node_make(c, &(tn__make){.op = n->op,
                                      .dtype = n->dtype,
                                      .src = src,
                                      .nsrc = n->nsrc,
                                      .ints = ints,
                                      .nint = n->nint,
                                      .name = n->name,
                                      .device = n->device});
}

static tn_node *numbered(tn_ctx *c, const tn_node *n, uint32_t number) {
  int64_t ints[4];
  for (uint32_t i = 0; i < n->nint; i++) ints[i] = n->ints[i];
  ints[0] = number;
  return like(c, n, n->src, ints);
}

static tn_node *moved(moving *m, tn_node *n) {
  tn_node **src = tn__arena_alloc(m->a, (n->nsrc + 1) * sizeof *src);
  bool changed = false;
  for (uint32_t i = 0; i < n->nsrc; i++) {
    src[i] = tn__map_getp(&m->now, n->src[i]);
    changed |= src[i] != n->src[i];
  }
  return changed ? like(m->c, n, src, n->ints) : n;
}

static void move_all(moving *m, const tn__kernel *k, const uint32_t *slot, uint32_t locals) {
  tn__nodes all = {0}, roots = {0};
  for (uint32_t p = 0; p < k->nparts; p++) {
    tn__vec_push(m->a, &roots, k->part[p].body);
    for (uint32_t i = 0; i < k->part[p].n; i++) tn__vec_push(m->a, &roots, k->part[p].ins[i]);
  }
  for (uint32_t i = 0; i < k->nrequire; i++) tn__vec_push(m->a, &roots, k->require[i]);
  tn__map_init(&m->now, m->a);
  tn__topo(m->a, roots.v, roots.n, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    uint32_t number = n->op == OP_PARAM || n->op == OP_LOCAL ? (uint32_t)n->ints[0] : 0;
    tn_node *y = n->op == OP_PARAM   ? numbered(m->c, n, slot[number])
                 : n->op == OP_LOCAL ? numbered(m->c, n, number + locals)
                                     : moved(m, n);
    tn__map_putp(&m->now, n, y);
  }
}

static tn__part moved_part(moving *m, const tn__part *p) {
  tn__part q = *p;
  q.beside = 0; /* so many of its own blocks, where there were no others */
  q.body = tn__map_getp(&m->now, p->body);
  q.ins = tn__arena_alloc(m->a, (p->n + 1) * sizeof *q.ins);
  for (uint32_t i = 0; i < p->n; i++) q.ins[i] = tn__map_getp(&m->now, p->ins[i]);
  return q;
}

void tn__joint_parts(tn_ctx *c, tn__arena *a, tn__kernel *const *k, uint32_t n, uint32_t *const *slot, tn__part **part,
              tn__nodes *require) {
  moving m = {.c = c, .a = a};
  for (uint32_t i = 0, locals = 0; i < n; locals += k[i++]->nlocal) {
    move_all(&m, k[i], slot[i], locals);
    part[i] = tn__arena_alloc(a, TN__MAX_PARTS * sizeof *part[i]);
    for (uint32_t p = 0; p < k[i]->nparts; p++) part[i][p] = moved_part(&m, &k[i]->part[p]);
    for (uint32_t r = 0; r < k[i]->nrequire; r++) tn__vec_push(a, require, tn__map_getp(&m.now, k[i]->require[r]));
  }
}

void tn__joint_end(tn__arena *a, tn__kernel *all, const char *step, uint32_t index) {
  tn_node *body[TN__MAX_PARTS];
  tn__sb name;
  for (uint32_t p = 0; p < all->nparts; p++) body[p] = all->part[p].body;
  tn__find_memory(a, body, all);
  tn__sb_init(&name, a);
  tn__sb_printf(&name, "k%u_%s", index, step);
  all->name = tn__sb_str(&name);
}
