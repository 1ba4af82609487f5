#include "ir/constraint.h"
#include "ir/build.h"
#include "ir/shape.h"
#include "ir/text.h"

static void need(tn_ctx *c, tn__arena *a, tn__constraint_list *out, tn_node *left, tn_node *right, tn_node *of) {
  if (tn__sub(c, left, right)->hi <= 0) return; /* it holds for all values */
  for (uint32_t i = 0; i < out->n; i++)
    if (out->v[i].left == left && out->v[i].right == right) return;
  tn__constraint k = {left, right, of};
  tn__vec_push(a, out, k);
}

void tn__constraints_find(tn_ctx *c, tn__arena *a, tn_node *root, tn__constraint_list *out) {
  tn__nodes order = {0};
  tn__topo(&c->scratch, &root, 1, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    tn_node *n = order.v[i];
    if (n->dtype == TN__INDEX || tn__is_elementwise(n)) continue;
    for (uint32_t k = 0; k < n->nsrc; k++) /* sizes, offsets and amounts */
      if (n->src[k]->dtype == TN__INDEX) need(c, a, out, tn__int(c, 0), n->src[k], n);
    for (uint32_t k = 0; n->op == OP_SHRINK && k < n->rank; k++)
      need(c, a, out, tn__slice_end(c, n->src[1 + k], n->src[1 + n->rank + k], n->ints[k]), n->src[0]->dim[k], n);
  }
}

static const char *value_of(tn_ctx *c, tn_node *n, const tn__env *env) {
  tn__sb s;
  tn__sb_init(&s, &c->scratch);
  tn__print_expr(&s, n);
  if (!tn__is_const(n)) tn__sb_printf(&s, " (%lld)", (long long)tn__eval_index(n, env, &c->scratch));
  return tn__sb_str(&s);
}

_Noreturn static void broken(tn_ctx *c, const tn__constraint *k, const tn__env *env) {
  tn__sb with;
  tn__sb_init(&with, &c->scratch);
  for (uint32_t i = 0; i < env->n; i++) tn__sb_printf(&with, "%s%s = %lld", i ? ", " : "", env->key[i]->name, (long long)env->val[i]);
  const char *from = k->of->nsrc && k->of->src[0]->dtype != TN__INDEX ? tn__node_type(k->of->src[0], &c->scratch) : NULL;
  tn__fail(c, TN_EBOUND, "%s %s%s%s needs %s <= %s; bound are %s", tn__ops[k->of->op].text, tn__node_type(k->of, &c->scratch), from ? " of " : "", from ? from : "",
           value_of(c, k->left, env), value_of(c, k->right, env), tn__sb_str(&with));
}

void tn__constraints_check(tn_ctx *c, const tn__constraint_list *list, const tn__env *env) {
  for (uint32_t i = 0; i < list->n; i++) {
    const tn__constraint *k = &list->v[i];
    if (tn__eval_index(k->left, env, &c->scratch) > tn__eval_index(k->right, env, &c->scratch)) broken(c, k, env);
  }
}
