/* Which indices are to be looked at (tn_options.check).  Whether they are in range is seen when values are computed. */
#include "tensor/cells.h"
#include "tensor/operands.h"
#include <string.h>

void tn__check_index(tn_ctx *c, const char *api, tn_node *idx, tn_node *x, uint32_t axis) {
  struct tn__cells *k = c->cells;
  if (!c->opt.check) return;
  tn__index_check made = {.api = api, .idx = idx, .size = x->dim[axis], .axis = axis};
  made.type = tn__arena_strdup(&k->check_arena, tn__text(c, x));
  tn__vec_push(&k->check_arena, &k->check, made);
  tn__node_keep(made.idx);
  tn__node_keep(made.size);
}

void tn__index_checks_drop(tn_ctx *c) {
  struct tn__cells *k = c->cells;
  for (uint32_t i = 0; i < k->check.n; i++) {
    tn__node_drop(c, k->check.v[i].idx);
    tn__node_drop(c, k->check.v[i].size);
  }
  memset(&k->check, 0, sizeof k->check);
  tn__arena_free(&k->check_arena);
}
