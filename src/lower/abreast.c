/* Several kernels as one.  None needs anything of another: their first parts become a launch, each by blocks of its
 * own, then their second parts, and so on.  Needs kernels for groups, as they are lowered; each keeps its instructions,
 * but for the numbers of buffers and of scratch memory. */
#include "ir/build.h"
#include "lower/launch_extent.h"
#include "lower/lower.h"

enum {
  MOST_BLOCKS = INT32_MAX / TN__MAX_PARTS, /* of a part */
  MOST_BUFFERS = 128,                      /* a launch has room for as many, and some sizes */
  MOST_SHARED = 8 << 10                    /* bytes that groups share: more would keep others of a unit's away */
};

/* ---- which ---- */

/* Do threads of a block meet in it, that are not all threads of some that run in step? */
static bool meets(const tn__part *p) {
  bool in_step = !p->across && p->group <= p->subgroup && tn__threads_of_block(p) % p->subgroup == 0;
  for (uint32_t i = 0; i < p->n && !in_step; i++)
    if (p->ins[i]->op == OP_BARRIER || (p->ins[i]->op == OP_GETACC && p->ins[i]->nsrc < 3 &&
                                        p->ins[i]->src[0]->ints[1] > 1))
      return true;
  return false;
}

/* Sizes that are known when it is printed, and no tiles or patches, which have shared memory and registers to
 * themselves */
/* a choice: no is right */
static bool is_plain(const tn__kernel *k) {
  bool plain = !k->nvar && !k->nrequire;
  for (uint32_t p = 0; p < k->nparts && plain; p++) {
    const tn__part *x = &k->part[p];
    int64_t blocks = tn__fixed_blocks(x);
    bool crowded = x->beside && k->shared > 0;
    plain = x->group > 0 && !x->tile && !crowded && !x->abreast && blocks > 0 && blocks <= MOST_BLOCKS;
  }
  return plain;
}

/* Threads of a block that has no part in it may be idle, but not where others wait for them, nor most of them in more
 * blocks than there is room for at once. */
static bool fit_threads(tn__kernel *const *k, uint32_t n, const tn__target *target) {
  for (uint32_t p = 0; p < TN__MAX_PARTS; p++) {
    int most = 0, meeting = INT32_MAX;
    for (uint32_t i = 0; i < n; i++) {
      if (p >= k[i]->nparts) continue;
      int threads = tn__threads_of_block(&k[i]->part[p]);
      if (threads > most) most = threads;
      if (threads < meeting && meets(&k[i]->part[p])) meeting = threads;
    }
    if (meeting < most) return false;
    for (uint32_t i = 0; i < n; i++) { /* a choice: no is right */
      const tn__part *x = p < k[i]->nparts ? &k[i]->part[p] : NULL;
      double room = (double)target->units * target->unit_threads;
      if (x && 2 * tn__threads_of_block(x) <= most && (double)tn__fixed_blocks(x) * most > room) return false;
    }
  }
  return true;
}

/* a choice: no is right */
bool tn__fit_abreast(tn__kernel *const *k, uint32_t n, const tn__target *target) {
  uint32_t parts = 0, buffers = 0;
  int64_t shared = 0;
  for (uint32_t i = 0; i < n; i++) {
    if (!is_plain(k[i])) return false;
    parts += k[i]->nparts;
    buffers += k[i]->nbuf;
    shared += k[i]->shared;
  }
  int64_t room = (size_t)MOST_SHARED < target->shared ? MOST_SHARED : (int64_t)target->shared;
  return parts <= TN__MAX_PARTS && buffers <= MOST_BUFFERS && shared <= room && fit_threads(k, n, target);
}

/* ---- as one ---- */

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

static const char *note_of(tn__arena *a, tn__kernel *const *k, uint32_t n) {
  tn__sb note;
  tn__sb_init(&note, a);
  for (uint32_t i = 0; i < n; i++) tn__sb_printf(&note, " abreast(%s)%s", k[i]->name, k[i]->note);
  return tn__sb_str(&note);
}

tn__kernel *tn__abreast(tn_ctx *c, tn__arena *a, tn__kernel *const *k, uint32_t n, uint32_t *const *slot,
                        uint32_t index) {
  tn__kernel *all = tn__arena_zalloc(a, sizeof *all);
  tn_node *body[TN__MAX_PARTS];
  moving *m = tn__arena_zalloc(a, n * sizeof *m);
  tn__sb name;
  for (uint32_t i = 0, locals = 0; i < n; locals += k[i++]->nlocal) {
    m[i] = (moving){.c = c, .a = a};
    move_all(&m[i], k[i], slot[i], locals);
  }
  for (uint32_t p = 0; p < TN__MAX_PARTS; p++) {
    bool abreast = false;
    for (uint32_t i = 0; i < n; i++) {
      if (p >= k[i]->nparts) continue;
      tn__part *q = &all->part[all->nparts];
      *q = moved_part(&m[i], &k[i]->part[p]);
      q->abreast = abreast;
      abreast = true;
      body[all->nparts++] = q->body;
    }
  }
  tn__find_memory(a, body, all);
  tn__sb_init(&name, a);
  tn__sb_printf(&name, "k%u_abreast", index);
  all->name = tn__sb_str(&name);
  all->note = note_of(a, k, n);
  return all;
}
