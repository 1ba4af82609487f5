#include "lower/launch_extent.h"
#include "ir/build.h"
#include "ir/eval.h"

struct tn__launch_extent_step {
  uint8_t op, dtype, sdtype;
  uint32_t var;    /* of OP_VAR */
  uint32_t src[3]; /* earlier steps */
};

tn__launch_extent tn__launch_extent_make(tn_ctx *c, tn__arena *keep, const tn__kernel *k, const tn__part *part) {
  tn__launch_extent t = {0};
  tn__nodes nodes = {0};
  tn__map at;
  if (!part->global) return t;
  tn_node *extent = part->global->src[0];
  tn__map_init(&at, &c->scratch);
  tn__topo(&c->scratch, &extent, 1, &nodes);
  struct tn__launch_extent_step *step = tn__arena_zalloc(keep, nodes.n * sizeof *step);
  t.value = tn__arena_zalloc(keep, nodes.n * sizeof *t.value);
  for (uint32_t i = 0; i < nodes.n; i++) {
    const tn_node *n = nodes.v[i];
    uint64_t place = 0;
    step[i] = (struct tn__launch_extent_step){.op = n->op, .dtype = n->dtype};
    tn__map_put(&at, (uintptr_t)n, i);
    if (n->op == OP_CONST) t.value[i] = (uint64_t)n->ints[0];
    if (n->op == OP_VAR)
      while (step[i].var < k->nvar && k->var[step[i].var] != n) step[i].var++;
    if (n->op == OP_CONST || n->op == OP_VAR) continue;
    if (!tn__is_elementwise(n))
      tn__fail(c, TN_ERUN, "kernel %s: its extent depends on a %s", k->name, tn__ops[n->op].text);
    step[i].sdtype = n->src[n->op == OP_WHERE]->dtype;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      tn__map_get(&at, (uintptr_t)n->src[s], &place);
      step[i].src[s] = (uint32_t)place;
    }
  }
  t.step = step;
  t.n = nodes.n;
  return t;
}

int64_t tn__launch_extent_of(const tn__launch_extent *t, const int64_t *var) {
  uint64_t *v = t->value;
  if (!t->n) return 1;
  for (uint32_t i = 0; i < t->n; i++) {
    const struct tn__launch_extent_step *s = &t->step[i];
    if (s->op == OP_VAR) v[i] = (uint64_t)var[s->var];
    else if (s->op != OP_CONST)
      v[i] = tn__eval(s->op, s->dtype, s->sdtype, (uint64_t[3]){v[s->src[0]], v[s->src[1]], v[s->src[2]]});
  }
  return (int64_t)v[t->n - 1];
}

int64_t tn__fixed_blocks(const tn__part *part) {
  int64_t turns = 1, together = tn__groups_of_block(part);
  if (part->global && !tn__const_int(part->global->src[0], &turns)) return 0;
  turns = (turns + together - 1) / together;
  return part->blocks && part->blocks < turns ? part->blocks : turns;
}
