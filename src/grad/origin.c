/* What a value is computed from, as gradients flow. */
#include "grad/grad_pass.h"
#include "ir/build.h"
#include "ir/dtype.h"
#include "rewrite/rewrite.h"

/* Values that were assigned are leaves by intent, as detached ones are. */
static bool carries(const tn_node *n) { return tn__is_float(n->dtype) && n->op != OP_DETACH && n->op != OP_ASSIGN; }

/* Of one root, whose sources' are known where those are roots, too */
static void find_leaves(tn_ctx *c, tn_node *root, const tn__map *known, tn__nodes *leaf) {
  tn__arena *a = &c->scratch;
  tn__nodes left = {0};
  tn__map seen;
  tn__map_init(&seen, a);
  tn__vec_push(a, &left, root);
  while (left.n) {
    tn_node *x = left.v[--left.n];
    if (!carries(x) || tn__map_getp(&seen, x)) continue;
    tn__map_putp(&seen, x, x);
    if (x->op == OP_STORAGE || x->op == OP_PARAM) tn__vec_push(a, leaf, x);
    const tn__nodes *below = tn__map_getp(known, x);
    for (uint32_t k = 0; below && k < below->n; k++) tn__vec_push(a, &left, below->v[k]);
    for (uint32_t k = 0; !below && k < x->nsrc; k++)
      if (!tn__is_elementwise(x) || !tn__rules_no_gradient(c, (tn__op)x->op, k)) tn__vec_push(a, &left, x->src[k]);
  }
}

void tn__grad_leaves(tn_ctx *c, tn_node *const *root, uint32_t n, tn__nodes *leaf) {
  tn__nodes all = {0};
  tn__map is_root, known;
  tn__map_init(&is_root, &c->scratch);
  tn__map_init(&known, &c->scratch);
  for (uint32_t i = 0; i < n; i++) tn__map_putp(&is_root, root[i], root[i]);
  tn__topo(&c->scratch, root, n, &all);
  for (uint32_t i = 0; i < all.n; i++) { /* sources first */
    if (!tn__map_getp(&is_root, all.v[i])) continue;
    tn__nodes *found = tn__arena_zalloc(&c->scratch, sizeof *found);
    find_leaves(c, all.v[i], &known, found);
    tn__map_putp(&known, all.v[i], found);
  }
  for (uint32_t i = 0; i < n; i++) leaf[i] = *(const tn__nodes *)tn__map_getp(&known, root[i]);
}
