/* Outputs that are parts of inputs: reshaped, cut out as one run of memory, or simply handed on.  They stand where the
 * input does, so that nothing is computed and nothing copied; the schedule says so of their buffers (tn__buf.shared).
 *
 * That no value ever changes under whoever looks at it is kept by whoever runs the schedule: memory that is another's,
 * too, is written by nobody (tn__buffer_share). */
#include "rewrite/rewrite.h"
#include "schedule/fuse.h"

tn_node *tn__look_through(tn__fuse *f, tn_node *n, tn_node **idx) {
  tn_node *next[TN_MAX_RANK + 1], *gate = NULL;
  if (n->op == OP_ASSIGN) return n->src[1];
  if (n->op == OP_WHERE) {
    int branch = tn__join_branch(f, n, idx);
    return branch ? n->src[branch] : NULL;
  }
  bool moved = n->op == OP_DETACH || n->op == OP_CONTIG || (tn__ops[n->op].group == G_MOVE && n->op != OP_FOLD);
  if (!moved) return NULL;
  tn__index_through(f->c, n, idx, next, &gate);
  for (uint32_t i = 0; i < n->src[0]->rank; i++) idx[i] = next[i];
  return gate ? NULL : n->src[0];
}

bool tn__is_part(tn__fuse *f, tn_node *n, tn__part_of *out) {
  tn_ctx *c = f->c;
  tn_node *idx[TN_MAX_RANK + 1], *root = n;
  for (uint32_t i = 0; i < n->rank; i++) idx[i] = tn__axis_loop(c, n, i);
  tn_node *flat = tn__index_flat(c, n->dim, idx, n->rank);
  while (root && root->op != OP_PARAM) root = tn__look_through(f, root, idx);
  if (!root) return false;
  out->of = root;
  tn_node *at = tn__index_flat(c, root->dim, idx, root->rank);
  return tn__const_int(tn__simplify_index(c, tn__sub(c, at, flat)), &out->from);
}

/* What is taken for a copy, as library calls are for loops: store element i, which is element from + i. */
static tn_node *reference(tn_ctx *c, const tn__buf *b, tn_node *of_size, int64_t from) {
  bool one = tn__is_int_const(b->size, 1);
  tn_node *r = one ? tn__int(c, 0) : tn__range(c, b->size, AX_LOOP, ROLE_OUTPUT, 0), *param[2];
  tn_node *size[2] = {b->size, of_size};
  for (int i = 0; i < 2; i++)
    param[i] = tn__node_make(c, &(tn__make){.op = OP_PARAM,
                                            .dtype = b->dtype,
                                            .src = &size[i],
                                            .nsrc = 1,
                                            .ints = (int64_t[]){i, -1},
                                            .nint = 2,
                                            .device = -1});
  tn_node *at[2] = {param[1], tn__simplify_index(c, tn__add(c, r, tn__int(c, from)))};
  tn_node *load = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = at, .nsrc = 2}), *src[4] = {param[0], r, load, r};
  tn_node *store = tn__node_make(c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = one ? 3 : 4});
  return tn__sink(c, &store, 1, "shared");
}

tn_node *tn__shared_body(tn_ctx *c, const tn__schedule *s, const tn__buf *b) {
  tn_node *body = reference(c, b, s->bufs.v[b->of].size, b->from);
  return tn__node_make(
      c, &(tn__make){.op = OP_LIB, .src = &body, .nsrc = 1, .name = "shared", .ints = (int64_t[]){b->from}, .nint = 1});
}

tn_node *tn__shared_find(tn__fuse *f) {
  const uint32_t n = f->sink->nsrc;
  uint32_t left = 0;
  tn__part_of *of = tn__arena_zalloc(f->a, (n + 1) * sizeof *of);
  tn_node **src = tn__arena_alloc(f->a, (n + 1) * sizeof *src);
  double *shared = tn__arena_zalloc(f->a, (n + 1) * sizeof *shared); /* elements, by the input's first output */
  uint32_t *first = tn__arena_alloc(f->a, (n + 1) * sizeof *first);
  tn__map seen;
  f->slot = tn__arena_alloc(f->a, (n + 1) * sizeof *f->slot);
  tn__map_init(&seen, f->a);
  for (uint32_t i = 0; i < n; i++) {
    uint64_t at = i;
    /* what a state becomes has memory of its own: two blocks that change places are all that recordings meet with */
    if (f->sink->src[i]->op == OP_ASSIGN || !tn__is_part(f, f->sink->src[i], &of[i])) of[i].of = NULL;
    if (of[i].of && !tn__map_get(&seen, (uintptr_t)of[i].of, &at)) tn__map_put(&seen, (uintptr_t)of[i].of, i);
    first[i] = (uint32_t)at;
    if (of[i].of) shared[first[i]] += tn__numel_guess(f->sink->src[i]);
  }
  for (uint32_t i = 0; i < n; i++) {
    tn_node *x = f->sink->src[i];
    if (of[i].of && shared[first[i]] * TN__LEAST_PART >= tn__numel_guess(of[i].of)) {
      tn__buf b = {.kind = BUF_OUTPUT, .slot = (int)i, .dtype = x->dtype, .size = tn__numel(f->c, x), .shared = true};
      b.from = of[i].from;
      tn__vec_push(f->a, &f->part, b);
      tn__vec_push(f->a, &f->part_of, of[i].of);
      continue;
    }
    f->slot[left] = (int)i;
    src[left++] = x;
  }
  return left == n ? f->sink : tn__sink(f->c, src, left, f->sink->name);
}

void tn__shared_place(tn__fuse *f) {
  tn__map input; /* by slot: its buffer, which is there only if something is computed from it */
  tn__map_init(&input, f->a);
  for (uint32_t b = 0; b < f->s->bufs.n; b++)
    if (f->s->bufs.v[b].kind == BUF_INPUT) tn__map_put(&input, (uint64_t)f->s->bufs.v[b].slot, b);
  for (uint32_t i = 0; i < f->part.n; i++) {
    const tn_node *of = f->part_of.v[i];
    uint64_t slot = (uint64_t)of->ints[0], at = f->s->bufs.n;
    if (!tn__map_get(&input, slot, &at)) {
      tn__buf b = {.kind = BUF_INPUT, .slot = (int)slot, .dtype = of->dtype, .size = tn__numel(f->c, of)};
      tn__vec_push(f->a, &f->s->bufs, b);
      tn__map_put(&input, slot, at);
    }
    f->part.v[i].of = (int)at;
    tn__vec_push(f->a, &f->s->bufs, f->part.v[i]);
  }
}
