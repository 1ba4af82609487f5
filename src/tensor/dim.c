/* Sizes at the API.  A symbolic size is a number near -(2^62): a tag of its context and its place in the context's
 * table, so that a size from another context, or a stray negative number, is recognised. */
#include "tensor/cells.h"
#include "tensor/operands.h"
#include <string.h>

static const int64_t symbolic_top = -(INT64_C(1) << 62);
enum { INDEX_BITS = 31, TAG_BITS = 30 };

static int64_t tag_of(const tn_ctx *c) {
  return (int64_t)(tn__hash_mix((uint64_t)(uintptr_t)c, 1) >> (64 - TAG_BITS));
}

bool tn_dim_is_symbolic(tn_dim d) {
  return d <= symbolic_top && d > symbolic_top - (INT64_C(1) << (INDEX_BITS + TAG_BITS));
}

tn_node *tn__dim_in(tn_ctx *c, tn_dim d) {
  if (d >= 0) return tn__int(c, d);
  if (!tn_dim_is_symbolic(d)) tn__fail(c, TN_EINVAL, "%lld is not a size", (long long)d);
  int64_t code = symbolic_top - d, index = code & ((INT64_C(1) << INDEX_BITS) - 1);
  if (code >> INDEX_BITS != tag_of(c) || index >= c->cells->dim.n)
    tn__fail(c, TN_EINVAL, "a symbolic size belongs to another context");
  return c->cells->dim.v[index];
}

tn_dim tn__dim_out(tn_ctx *c, tn_node *n) {
  int64_t v;
  uint64_t index;
  if (tn__const_int(n, &v)) {
    if (v < 0) tn__fail(c, TN_ESHAPE, "the size would be %lld", (long long)v);
    return v;
  }
  struct tn__cells *k = c->cells;
  if (!tn__map_get(&k->dim_index, (uintptr_t)n, &index)) {
    index = k->dim.n;
    tn__vec_push(&k->arena, &k->dim, n);
    tn__node_keep(n);
    tn__map_put(&k->dim_index, (uintptr_t)n, index);
  }
  uint32_t first; /* of the name; looked for even if the node was there, which may have met a lack of memory here */
  if (n->op == OP_VAR && !tn__names_find(&k->dim_name, n->name, &first))
    tn__names_add(&k->dim_name, n->name, (uint32_t)index);
  return symbolic_top - ((tag_of(c) << INDEX_BITS) | (int64_t)index);
}

/* ---- public arithmetic ---- */

typedef struct dim_call {
  tn__op op;
  bool negate; /* b */
  tn_dim a, b, out;
  const char *name;
  int64_t lo, hi;
} dim_call;

static void make_var(tn_ctx *c, void *arg) {
  dim_call *k = arg;
  if (!k->name || !*k->name) tn__fail(c, TN_EINVAL, "a symbolic size needs a name");
  tn__check_name(c, k->name);
  if (k->lo < 0 || k->lo > k->hi)
    tn__fail(c, TN_EINVAL, "bounds %lld..%lld of size %s are not 0 <= lo <= hi", (long long)k->lo, (long long)k->hi,
             k->name);
  uint32_t at;
  if (tn__names_find(&c->cells->dim_name, k->name, &at)) {
    const tn_node *n = c->cells->dim.v[at];
    if (n->lo != k->lo || n->hi != k->hi)
      tn__fail(c, TN_EINVAL, "size %s exists with bounds %lld..%lld", k->name, (long long)n->lo, (long long)n->hi);
  }
  k->out = tn__dim_out(c, tn__var(c, k->name, k->lo, k->hi));
}

static void combine(tn_ctx *c, void *arg) {
  dim_call *k = arg;
  tn_node *a = tn__dim_in(c, k->a), *b = tn__dim_in(c, k->b);
  k->out = tn__dim_out(c, tn__op2(c, k->op, a, k->negate ? tn__neg(c, b) : b));
}

static void bound(tn_ctx *c, void *arg) {
  dim_call *k = arg;
  const tn_node *n = tn__dim_in(c, k->a);
  k->lo = n->lo;
  k->hi = n->hi;
}

static tn_dim dim_do(tn_ctx *c, const char *api, void (*fn)(tn_ctx *, void *), dim_call k) {
  return c && tn__ctx_run(c, api, fn, &k) ? k.out : TN_DIM_ERROR;
}

tn_dim tn_dim_var(tn_ctx *ctx, const char *name, int64_t lo, int64_t hi) {
  return dim_do(ctx, "tn_dim_var", make_var, (dim_call){.name = name, .lo = lo, .hi = hi});
}

#define DIM(name, op_, negate_)                                                                                        \
  tn_dim name(tn_ctx *ctx, tn_dim a, tn_dim b) {                                                                       \
    return dim_do(ctx, #name, combine, (dim_call){.op = OP_##op_, .negate = negate_, .a = a, .b = b});                 \
  }
DIM(tn_dim_add, ADD, false)
DIM(tn_dim_sub, ADD, true)
DIM(tn_dim_mul, MUL, false)
DIM(tn_dim_div, IDIV, false)
DIM(tn_dim_mod, MOD, false)
DIM(tn_dim_min, MIN, false)
DIM(tn_dim_max, MAX, false)

tn_status tn_dim_bounds(tn_ctx *ctx, tn_dim d, int64_t *lo, int64_t *hi) {
  dim_call k = {.a = d};
  if (!ctx) return TN_EINVAL;
  if (!tn__ctx_run(ctx, "tn_dim_bounds", bound, &k)) return ctx->failed;
  if (lo) *lo = k.lo;
  if (hi) *hi = k.hi;
  return TN_OK;
}
