/* Tensors without elements, before range assignment: index arithmetic over them means nothing, and a loop that never
 * runs may stand inside one that runs for long.  So what is empty becomes a literal of its shape, and what is made of
 * it the value that it has: a reduction of nothing, padding around nothing.  Afterwards no computed value reads
 * anything empty. */
#include "ir/eval.h"
#include "rewrite/rewrite.h"
#include "schedule/schedule.h"

bool tn__without_elements(const tn_node *n) {
  for (uint32_t i = 0; i < n->rank; i++)
    if (tn__is_int_const(n->dim[i], 0)) return true;
  return false;
}

/* The value of n if it is made of nothing, else NULL. */
static tn_node *of_nothing(tn_ctx *c, tn_node *n) {
  uint64_t value = 0;
  switch (n->op) {
  case OP_SUM: case OP_PROD: value = tn__eval_reduce_init(tn__ops[n->op].combine, n->dtype); /* fall through */
  case OP_FOLD: case OP_CONTRACT: case OP_PAD: case OP_GATHER:
    return tn__without_elements(n->src[0]) ? tn__scalar_to(c, tn__const_bits(c, n->dtype, value), n->dim, n->rank)
                                           : NULL;
  case OP_SCATTER: return tn__without_elements(n->src[2]) ? n->src[0] : NULL;
  default: return NULL;
  }
}

static tn_node *prune_once(tn_ctx *c, tn_node *sink) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(&c->scratch, &sink, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    if (n->op == OP_PARAM || n->op == OP_CONST || n->dtype >= TN_DTYPE_COUNT) continue;
    tn_node *by =
        tn__without_elements(n) ? tn__scalar_to(c, tn__const_bits(c, n->dtype, 0), n->dim, n->rank) : of_nothing(c, n);
    if (!by || by == n || (n->op == OP_RESHAPE && n->src[0]->op == OP_CONST)) continue;
    tn__vec_push(&c->scratch, &old, n);
    tn__vec_push(&c->scratch, &new_, by);
  }
  return old.n ? tn__substitute(c, sink, old.v, new_.v, old.n) : sink;
}

tn_node *tn__schedule_prune(tn_ctx *c, tn_node *sink) {
  for (;;) { /* a value that stands for another may itself be made of nothing */
    tn_node *next = prune_once(c, sink);
    if (next == sink) return sink;
    sink = next;
  }
}
