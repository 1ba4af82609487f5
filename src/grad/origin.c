/* What a value is computed from, as gradients flow. */
#include "grad/grad_pass.h"
#include "ir/build.h"
#include "ir/dtype.h"
#include "rewrite/rewrite.h"

/* Values that were assigned are leaves by intent, as detached ones are. */
static bool carries(const tn_node *n) { return tn__is_float(n->dtype) && n->op != OP_DETACH && n->op != OP_ASSIGN; }

void tn__grad_leaves(tn_ctx *c, tn_node *root, tn__nodes *leaf) {
  tn__arena *a = &c->scratch;
  tn__nodes left = {0};
  tn__map seen;
  tn__map_init(&seen, a);
  tn__vec_push(a, &left, root);
  while (left.n) {
    tn_node *x = left.v[--left.n];
    if (!carries(x) || tn__map_get(&seen, (uint64_t)(uintptr_t)x, NULL)) continue;
    tn__map_put(&seen, (uint64_t)(uintptr_t)x, 1);
    if (x->op == OP_STORAGE || x->op == OP_PARAM) tn__vec_push(a, leaf, x);
    for (uint32_t k = 0; k < x->nsrc; k++)
      if (!tn__is_elementwise(x) || !tn__rules_no_gradient(c, (tn__op)x->op, k)) tn__vec_push(a, &left, x->src[k]);
  }
}
