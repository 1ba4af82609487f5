/* What a value is computed from, as gradients flow. */
#include "grad/grad_pass.h"
#include "ir/build.h"
#include "ir/dtype.h"

/* Does a gradient flow from n to its sources?  Steps have none; values that were assigned are leaves by intent, as detached ones are. */
static bool carries(const tn_node *n) {
  static const bool stops[OP_COUNT] = {
      [OP_DETACH] = true, [OP_ASSIGN] = true, [OP_SIGN] = true, [OP_FLOOR] = true, [OP_CEIL] = true, [OP_ROUND] = true, [OP_TRUNC] = true, [OP_IDIV] = true};
  return tn__is_float(n->dtype) && !stops[n->op];
}

void tn__grad_leaves(tn__arena *a, tn_node *root, tn__nodes *leaf) {
  tn__nodes left = {0};
  tn__map seen;
  tn__map_init(&seen, a);
  tn__vec_push(a, &left, root);
  while (left.n) {
    tn_node *x = left.v[--left.n];
    if (!carries(x) || tn__map_get(&seen, (uint64_t)(uintptr_t)x, NULL)) continue;
    tn__map_put(&seen, (uint64_t)(uintptr_t)x, 1);
    if (x->op == OP_STORAGE || x->op == OP_PARAM) tn__vec_push(a, leaf, x);
    for (uint32_t k = 0; k < x->nsrc; k++) tn__vec_push(a, &left, x->src[k]);
  }
}
