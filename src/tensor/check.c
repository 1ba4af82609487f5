/* Which indices are to be looked at (tn_options.check).  Whether they are in range is seen when values are computed. */
#include "ir/build.h"
#include "tensor/cells.h"
#include "tensor/operands.h"
#include <stdio.h>
#include <string.h>

tn_node *tn__check_index(tn_ctx *c, const char *api, tn_node *idx, tn_node *x, uint32_t axis) {
  struct tn__cells *k = c->cells;
  if (!c->opt.check) return idx;
  tn_node *mark = tn__op1(c, OP_DETACH, idx); /* the indices themselves may be read, whatever becomes of this */
  tn__index_check made = {.api = api, .mark = mark, .size = x->dim[axis], .axis = axis};
  made.type = tn__arena_strdup(&k->check_arena, tn__text(c, x));
  tn__vec_push(&k->check_arena, &k->check, made);
  tn__node_keep(made.mark);
  tn__node_keep(made.size);
  return mark;
}

void tn__index_refuse(tn_ctx *c, tn_node *mark, const char *why) {
  struct tn__cells *k = c->cells;
  for (int i = 0; i < TN__REFUSALS; i++)
    if (k->refused[i].mark == mark) return; /* the same call once more */
  tn__refusal *r = &k->refused[k->refusals++ % TN__REFUSALS];
  tn__node_drop(c, r->mark);
  r->mark = tn__node_keep(mark);
  snprintf(r->why, sizeof r->why, "%s", why);
}

const char *tn__index_refused(tn_ctx *c, tn_node *n) {
  const struct tn__cells *k = c->cells;
  tn__nodes all = {0};
  if (!k->refusals) return NULL;
  tn__topo(&c->scratch, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    for (uint32_t r = 0; all.v[i]->op == OP_DETACH && r < TN__REFUSALS; r++)
      if (k->refused[r].mark == all.v[i]) return k->refused[r].why;
  return NULL;
}

void tn__index_checks_drop(tn_ctx *c) {
  struct tn__cells *k = c->cells;
  for (uint32_t i = 0; i < k->check.n; i++) {
    tn__node_drop(c, k->check.v[i].mark);
    tn__node_drop(c, k->check.v[i].size);
  }
  memset(&k->check, 0, sizeof k->check);
  tn__arena_free(&k->check_arena);
}
