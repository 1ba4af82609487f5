/* Which values need not be computed to all bits of f32: functions of bf16 and f16, which have 8 and 11 bits of the 24
 * and to which they are rounded at once; and those of f32 from which nothing comes but such values.  For them a
 * language may have shorter functions (render/dialect.h, `approximate`).  What of f32 jumps, is stored or turned into
 * an integer keeps every bit, and so does all that it is computed from, but through ops whose response is STABLE. */
#include "lower/lower.h"

typedef struct search {
  tn__map precise; /* f32 values, accumulators and LOCALs */
  bool changed;
} search;

static bool is_precise(const search *s, const tn_node *n) { return tn__map_get(&s->precise, (uintptr_t)n, NULL); }

static void need(search *s, const tn_node *n) {
  if (is_precise(s, n)) return;
  tn__map_put(&s->precise, (uintptr_t)n, 1);
  s->changed = true;
}

/* Does n ask for every bit of its source i? */
static bool asks(const search *s, const tn_node *n, uint32_t i) {
  const tn_node *x = n->src[i];
  bool local = n->src[0]->op == OP_LOCAL;
  switch (n->op) {
  case OP_SETACC: return i == 1 && is_precise(s, n->src[0]);
  case OP_STORE: return i == 2 && (!local || is_precise(s, n->src[0]));
  case OP_GETACC:
  case OP_LOAD: return i == 0 && is_precise(s, n);
  case OP_CAST: return n->dtype != TN_BF16 && n->dtype != TN_F16;
  default: return !tn__is_stable(n->op, x->op) || n->dtype != TN_F32 || is_precise(s, n);
  }
}

static void visit(search *s, const tn_node *n) {
  for (uint32_t i = 0; i < n->nsrc; i++) {
    const tn_node *x = n->src[i];
    if (!asks(s, n, i)) continue;
    if (x->dtype == TN_F32) need(s, x);
    for (uint32_t j = 0; x->op == OP_LIST && j < x->nsrc; j++) need(s, x->src[j]); /* of a SETACC */
  }
}

static bool is_half(const tn_node *n) { return n->dtype == TN_BF16 || n->dtype == TN_F16; }

void tn__find_near(tn__arena *a, const tn__part *p, tn__map *near) {
  search s = {0};
  for (uint32_t i = 0; i < p->n && !s.changed; i++) s.changed = is_half(p->ins[i]);
  if (!s.changed) return; /* f32 alone keep every bit */
  tn__map_init(&s.precise, a);
  while (s.changed) { /* values come back through LOCALs and accumulators */
    s.changed = false;
    for (uint32_t i = p->n; i && i--;) visit(&s, p->ins[i]);
  }
  for (uint32_t i = 0; i < p->n; i++) {
    const tn_node *n = p->ins[i];
    bool function = tn__ops[n->op].rounding == RN_LIBRARY;
    if (is_half(n) ? function : n->dtype == TN_F32 && !is_precise(&s, n)) tn__map_put(near, (uintptr_t)n, 1);
  }
}
