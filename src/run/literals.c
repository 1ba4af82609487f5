/* A notice, once, to those who compile one graph again and again with other literals in it, or slices elsewhere. */
#include "run/plan.h"
#include <stdio.h>

/* The graph, whatever the numbers in it are, and wherever its slices begin */
static uint64_t form_of(tn_ctx *c, tn_node *key) {
  tn__nodes all = {0};
  tn__map form;
  uint64_t h = 0;
  tn__map_init(&form, &c->scratch);
  tn__topo(&c->scratch, &key, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    h = tn__hash_mix((uint64_t)n->op + 1, (uint64_t)n->dtype + 1);
    for (uint32_t k = 0; k < n->nsrc; k++) {
      uint64_t of = 0;
      if (n->op == OP_SHRINK && k >= 1 && k <= n->rank && tn__is_const(n->src[k])) continue;
      tn__map_get(&form, (uintptr_t)n->src[k], &of);
      h = tn__hash_mix(h, of);
    }
    bool number = n->op == OP_CONST && n->dtype != TN__INDEX;
    for (uint32_t k = 0; k < n->nint && !number; k++) h = tn__hash_mix(h, (uint64_t)n->ints[k]);
    tn__map_put(&form, (uintptr_t)n, h);
  }
  return h;
}

void tn__plan_note_literals(tn_ctx *c, tn_node *key) {
  struct tn__forms *f = &c->runtime->forms;
  if (c->opt.quiet || f->told) return;
  uint64_t form = form_of(c, key);
  uint32_t at = 0;
  while (at < f->n && f->form[at] != form) at++;
  if (at == f->n && f->n < TN__FORMS) f->n++;
  if (at == TN__FORMS) at = f->next++ % TN__FORMS; /* the oldest goes */
  f->times[at] = f->form[at] == form ? f->times[at] + 1 : 1;
  f->form[at] = form;
  if (f->times[at] < TN__TOO_OFTEN) return;
  f->told = true;
  fprintf(stderr,
          "tenet: a graph was compiled for the %dth time with other numbers in it: a number that changes from step to "
          "step, such as a learning rate, should be a tensor made by tn_scalar, and a slice that moves tn_take by such "
          "numbers\n",
          TN__TOO_OFTEN);
}
