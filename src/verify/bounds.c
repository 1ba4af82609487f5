/* Accesses that stay within their buffers whatever the values and the sizes are. */
#include "verify/bounds.h"
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

static bool stays_within(tn_ctx *c, tn_node *index, tn_node *size) {
  if (index->lo < 0) return false;
  if (index->hi < size->lo) return true;
  return tn__is_int_const(tn__simplify_index(c, tn__op2(c, OP_LT, index, size)), 1);
}

void tn__bounds_prove(tn_ctx *c, const tn__kernel *k, tn_node *const *size, uint32_t nbuf, uint32_t *accesses, uint32_t *proved) {
  for (uint32_t p = 0; p < k->nparts; p++)
    for (uint32_t i = 0; i < k->part[p].n; i++) {
      const tn_node *n = k->part[p].ins[i];
      if (!tn__is_access(n)) continue;
      const tn_node *buf = n->src[0];
      tn_node *room = buf->op == OP_PARAM && buf->ints[0] < (int64_t)nbuf ? size[buf->ints[0]] : buf->src[0];
      (*accesses)++;
      *proved += stays_within(c, n->src[1], room);
    }
}
