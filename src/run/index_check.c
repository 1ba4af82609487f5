#include "run/index_check.h"
#include "ir/build.h"
#include "run/runtime.h"
#include <string.h>

void tn__index_extremes(tn_ctx *c, const tn__index_check *k, tn_node **out) {
  tn_node *idx = tn__cast(c, k->mark, TN_I64), *count = tn__numel(c, idx);
  tn_node *flat = tn__pad(c, tn__reshape(c, idx, &count, 1), (tn_node *[]){tn__int(c, 0), tn__int(c, 1)});
  out[0] = tn__reduce(c, OP_RMIN, flat, (int64_t[]){0}, 1);
  out[1] = tn__reduce(c, OP_RMAX, flat, (int64_t[]){0}, 1);
}

/* Indices are looked at as i64, in which those beyond are negative. */
static bool was_u64(const tn_node *idx) { return idx->op == OP_CAST && idx->src[0]->dtype == TN_U64; }

const char *tn__index_judge(tn_ctx *c, const tn__index_check *k, const int64_t *extreme, const tn__env *env) {
  int64_t size = tn__eval_index(k->size, env, &c->scratch);
  int64_t count = tn__eval_index(tn__numel(c, k->mark), env, &c->scratch);
  tn__sb s;
  if (!count || (extreme[0] >= 0 && extreme[1] < size)) return NULL;
  int64_t wrong = extreme[0] < 0 ? extreme[0] : extreme[1];
  tn__sb_init(&s, &c->scratch);
  tn__sb_printf(&s, was_u64(k->mark->src[0]) ? "%s: index %llu" : "%s: index %lld", k->api, (long long)wrong);
  tn__sb_printf(&s, " is outside of axis %u of %s, which has %lld elements", k->axis, k->type, (long long)size);
  return tn__sb_str(&s);
}

/* Takes them off the list first: computing comes back here. */
void tn__run_index_checks(tn_ctx *c) {
  uint32_t n = c->cells->check.n;
  if (!n) return;
  tn__index_check *k = tn__arena_dup(&c->scratch, c->cells->check.v, n * sizeof *k);
  tn_tensor **cell = tn__alloc(c, TN__EXTREMES * n * sizeof *cell);
  for (uint32_t i = 0; i < n; i++) {
    tn_node *node[TN__EXTREMES];
    tn__index_extremes(c, &k[i], node);
    k[i].type = tn__arena_strdup(&c->scratch, k[i].type);
    for (int e = 0; e < TN__EXTREMES; e++) cell[TN__EXTREMES * i + (uint32_t)e] = tn__cell_new(c, node[e]);
  }
  tn__index_checks_drop(c); /* what they hold lives in this call, as all nodes do */
  tn__run_realize_alone(c, cell, (int)(TN__EXTREMES * n)); /* what was assigned may be what is to be refused */
  const char *wrong = NULL; /* the first */
  for (uint32_t i = 0; i < n; i++) {
    int64_t extreme[TN__EXTREMES];
    for (int e = 0; e < TN__EXTREMES; e++) {
      tn_tensor *t = cell[TN__EXTREMES * i + (uint32_t)e];
      tn__buffer *b = tn__storage_buffer(c, t->node);
      b->device->ops->download(b->device, &extreme[e], b->mem, sizeof extreme[e]);
      tn_release(t);
    }
    const char *why = tn__index_judge(c, &k[i], extreme, &(tn__env){0});
    if (why) tn__index_refuse(c, k[i].mark, why);
    if (!wrong) wrong = why;
  }
  if (wrong) tn__fail(c, TN_EINVAL, "%s", wrong);
}
