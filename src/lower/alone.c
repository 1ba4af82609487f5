/* One part of a kernel as a kernel of its own, over the buffers that it uses.  Needs a kernel for groups, as it is
 * lowered, without scratch memory. */
#include "lower/lower.h"

void tn__part_buffers(tn__arena *a, const tn__part *p, bool *used, bool *written) {
  tn__nodes roots = {0}, all = {0};
  tn__vec_push(a, &roots, p->body);
  for (uint32_t i = 0; i < p->n; i++) tn__vec_push(a, &roots, p->ins[i]);
  tn__topo(a, roots.v, roots.n, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    if (n->op == OP_PARAM) used[n->ints[0]] = true;
    const tn_node *to = n->op == OP_STORE || n->op == OP_STOREADD ? tn__buffer_of(n) : NULL;
    if (to && to->op == OP_PARAM) written[to->ints[0]] = true;
  }
}

tn__kernel *tn__part_alone(tn_ctx *c, tn__arena *a, const tn__kernel *k, uint32_t part, const bool *used,
                           uint32_t *slot, uint32_t index) {
  tn__kernel *all = tn__arena_zalloc(a, sizeof *all), *one = tn__arena_dup(a, k, sizeof *k);
  tn__part *moved;
  tn__nodes own = {0}, require = {0};
  for (uint32_t i = 0; i < k->nrequire; i++)
    if (used[k->require[i]->src[0]->ints[0]]) tn__vec_push(a, &own, k->require[i]);
  one->part[0] = k->part[part];
  one->nparts = 1;
  one->require = own.v;
  one->nrequire = own.n;
  tn__joint_parts(c, a, &one, 1, &slot, &moved, &require);
  all->part[0] = moved[0];
  all->part[0].beside = k->part[part].beside;
  all->nparts = 1;
  all->require = require.v;
  all->nrequire = require.n;
  tn__joint_end(a, all, "alone", index);
  const char *starts = strstr(k->note, " starts("); /* of each part: others' are not its own */
  int steps = (int)(starts ? starts - k->note : (ptrdiff_t)strlen(k->note));
  tn__sb note;
  tn__sb_init(&note, a);
  tn__sb_printf(&note, " alone(%s,%u)%.*s", k->name, part, steps, k->note);
  if (k->part[part].blocks) tn__sb_printf(&note, " starts(%lld)", (long long)k->part[part].blocks);
  all->note = tn__sb_str(&note);
  return all;
}
