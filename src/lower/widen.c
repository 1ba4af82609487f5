/* Values of bf16 between the loads and the stores of a kernel stay f32.  bf16 is f32 with a shorter fraction: the
 * exponents are the same, so what overflows or vanishes in one does so in the other, and leaving out the roundings
 * between two functions can only bring the result nearer to the true one.  (f16 has fewer exponents: there it would
 * also change which values are infinite.)  What jumps, such as a comparison or floor, gets the rounded value, so that a
 * value kept in f32 here and one that came through memory as bf16 are alike to it; and a cast to bf16 that stands in
 * the graph rounds.  What is picked from values of bf16 is one, and stays it: to round it would be work for nothing. */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"

typedef struct pass {
  tn_ctx *c;
  tn__arena *a;
  /* node -> what takes its place, as it is and in f32; either may be missing where the other is there */
  tn__map rounded, wide;
  tn__map longer; /* nodes whose values in f32 are not those of bf16: they are still to be rounded */
} pass;

static tn_node *rounded(pass *p, tn_node *n) {
  tn_node *to = tn__map_getp(&p->rounded, n);
  if (to) return to;
  to = tn__cast(p->c, tn__map_getp(&p->wide, n), n->dtype);
  tn__map_putp(&p->rounded, n, to);
  return to;
}

static tn_node *wide(pass *p, tn_node *n) {
  if (n->dtype != TN_BF16) return rounded(p, n);
  tn_node *to = tn__map_getp(&p->wide, n);
  if (to) return to;
  to = n->op == OP_CONST ? tn__const_bits(p->c, TN_F32, tn__eval_cast(TN_BF16, TN_F32, (uint64_t)n->ints[0]))
                         : tn__cast(p->c, rounded(p, n), TN_F32);
  tn__map_putp(&p->wide, n, to);
  return to;
}

/* Does it give one of its operands, or that with another sign, all of which are of bf16? */
/* a choice: no is right */
static bool picks(const pass *p, const tn_node *n) {
  if (!tn__is_elementwise(n) || tn__ops[n->op].rounding != RN_EXACT) return false;
  for (uint32_t i = 0; i < n->nsrc; i++)
    if (tn__map_getp(&p->longer, n->src[i])) return false;
  return true;
}

static void visit(pass *p, tn_node *n) {
  bool stays_wide = tn__ops[n->op].response >= RS_CONTINUOUS && n->dtype == TN_BF16 && !picks(p, n),
       widens = n->op == OP_CAST && n->src[0]->dtype == TN_BF16 && (n->dtype == TN_F32 || n->dtype == TN_F64);
  tn_node **src = tn__arena_alloc(p->a, (n->nsrc + 1) * sizeof *src);
  for (uint32_t i = 0; i < n->nsrc; i++) src[i] = stays_wide || widens ? wide(p, n->src[i]) : rounded(p, n->src[i]);
  if (stays_wide) tn__map_putp(&p->longer, n, n);
  if (widens) tn__map_putp(&p->rounded, n, tn__cast(p->c, src[0], n->dtype));
  else tn__map_putp(stays_wide ? &p->wide : &p->rounded, n, tn__node_with(p->c, n, src));
}

tn_node *tn__widen(tn_ctx *c, tn__arena *a, tn_node *body) {
  pass p = {.c = c, .a = a};
  tn__nodes all = {0};
  tn__map_init(&p.rounded, a);
  tn__map_init(&p.wide, a);
  tn__map_init(&p.longer, a);
  tn__topo(a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) visit(&p, all.v[i]);
  return rounded(&p, body);
}
