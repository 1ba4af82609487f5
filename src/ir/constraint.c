#include "ir/constraint.h"
#include "ir/build.h"
#include "ir/shape.h"
#include "ir/text.h"

typedef struct search {
  tn_ctx *c;
  tn__arena *a;
  tn__constraint_list *out;
  tn__map open; /* movement -> the nearest reshape between undecided sizes at it or below */
} search;

static void need(search *s, tn__constraint k) {
  tn__constraint_list *out = s->out;
  if (!k.equal && tn__sub(s->c, k.left, k.right)->hi <= 0) return; /* it holds for all values */
  for (uint32_t i = 0; i < out->n; i++)
    if (out->v[i].left == k.left && out->v[i].right == k.right && out->v[i].equal == k.equal) return;
  tn__vec_push(s->a, out, k);
}

/* Of a reshape: along one axis the sizes, else the numbers of elements; equal to itself or 1, whichever is more, is at
 * least 1. */
static void need_equal(search *s, tn_node *n) {
  tn_node *x = n->src[0], *left = tn__numel(s->c, x), *right = tn__numel(s->c, n);
  uint32_t apart = 0, at = 0;
  if (left == right) return;
  for (uint32_t i = 0; x->rank == n->rank && i < n->rank; i++)
    if (x->dim[i] != n->dim[i]) apart++, at = i;
  if (apart == 1) left = x->dim[at], right = n->dim[at];
  tn_node *one = tn__int(s->c, 1);
  bool some = right == tn__op2(s->c, OP_MAX, left, one); /* what an extreme is taken of */
  need(s, some ? (tn__constraint){one, left, false, n, NULL} : (tn__constraint){left, right, true, n, NULL});
  tn__map_putp(&s->open, n, n);
}

/* There is a place for the window: the axis it goes along is as long as it spans. */
static void need_place(search *s, tn_node *n) {
  tn_node *size = n->op == OP_WINDOW ? n->src[0]->dim[n->ints[0]] : n->src[1];
  need(s, (tn__constraint){tn__int(s->c, (n->ints[1] - 1) * n->ints[3] + 1), size, false, n, NULL});
}

/* n computes with what the reshapes below it say: they are named by it in messages. */
static void name_users(search *s, tn_node *n) {
  for (uint32_t k = 0; k < n->nsrc; k++)
    for (tn_node *r = tn__map_getp(&s->open, n->src[k]); r; r = tn__map_getp(&s->open, r->src[0])) {
      uint32_t i = 0;
      while (i < s->out->n && s->out->v[i].of != r) i++;
      if (i == s->out->n || s->out->v[i].user) break; /* the same was needed before, or all below are named */
      s->out->v[i].user = n;
    }
}

void tn__constraints_find(tn_ctx *c, tn__arena *a, tn_node *root, tn__constraint_list *out) {
  tn__nodes order = {0};
  search s = {.c = c, .a = a, .out = out};
  tn__map_init(&s.open, &c->scratch);
  tn__topo(&c->scratch, &root, 1, &order);
  for (uint32_t i = 0; i < order.n; i++) {
    tn_node *n = order.v[i], *below = n->nsrc ? tn__map_getp(&s.open, n->src[0]) : NULL;
    if (n->dtype == TN__INDEX) continue;
    bool moves = n->op == OP_RESHAPE || n->op == OP_EXPAND || n->op == OP_PERMUTE;
    if (!moves && n->op != OP_SINK) name_users(&s, n);
    if (tn__is_elementwise(n)) continue;
    if (moves && below) tn__map_putp(&s.open, n, below);
    for (uint32_t k = 0; k < n->nsrc; k++) /* sizes, offsets and amounts */
      if (n->src[k]->dtype == TN__INDEX) need(&s, (tn__constraint){tn__int(c, 0), n->src[k], false, n, NULL});
    for (uint32_t k = 0; n->op == OP_SHRINK && k < n->rank; k++) {
      tn_node *end = tn__slice_end(c, n->src[1 + k], n->src[1 + n->rank + k], n->ints[k]);
      need(&s, (tn__constraint){end, n->src[0]->dim[k], false, n, NULL});
    }
    if (n->op == OP_RESHAPE) need_equal(&s, n);
    if (n->op == OP_WINDOW || n->op == OP_FOLD) need_place(&s, n);
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
  for (uint32_t i = 0; i < env->n; i++)
    tn__sb_printf(&with, "%s%s = %lld", i ? ", " : "", env->key[i]->name, (long long)env->val[i]);
  tn__sb what;
  tn__sb_init(&what, &c->scratch);
  const tn_node *n = k->user ? k->user : k->of;
  tn__sb_printf(&what, "%s %s", tn__ops[n->op].text, tn__node_type(n, &c->scratch));
  if (k->of->nsrc && k->of->src[0]->dtype != TN__INDEX)
    tn__sb_printf(&what, " of %s", tn__node_type(k->of->src[0], &c->scratch));
  if (k->user && k->equal) tn__sb_printf(&what, " as %s", tn__node_type(k->of, &c->scratch));
  const char *why = k->user && (n->op == OP_RMAX || n->op == OP_RMIN) ? "something to choose from, " : "";
  tn__fail(c, TN_EBOUND, "%s needs %s%s %s %s; bound are %s", tn__sb_str(&what), why, value_of(c, k->left, env),
           k->equal ? "=" : "<=", value_of(c, k->right, env), tn__sb_str(&with));
}

static bool holds(tn_ctx *c, const tn__constraint *k, const tn__env *env) {
  int64_t left = tn__eval_index(k->left, env, &c->scratch), right = tn__eval_index(k->right, env, &c->scratch);
  return k->equal ? left == right : left <= right;
}

void tn__constraints_check(tn_ctx *c, const tn__constraint_list *list, const tn__env *env) {
  for (uint32_t i = 0; i < list->n; i++)
    if (!holds(c, &list->v[i], env)) broken(c, &list->v[i], env);
}
