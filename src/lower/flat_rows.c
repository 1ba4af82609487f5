/* A loop over the elements of several rows as one, in which sums load their row: as a loop of rows, and one inside of
 * it, which no longer hangs on what it loads. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

/* Rows that are shorter lie side by side in threads that run in step, each of which loads what is another's. */
/* a choice: either is right */
static bool is_long(const tn__target *t, int64_t row) { return row >= t->subgroup; }

/* Does the index hang on the loop by this quotient alone? */
static bool hangs_by(tn_ctx *c, tn_node *index, tn_node *loop, tn_node *quotient) {
  tn_node *zero = tn__int(c, 0), *rest = tn__substitute(c, index, &quotient, &zero, 1);
  return rest != index && tn__substitute(c, rest, &loop, &zero, 1) == rest;
}

/* The quotient of such a loop, which is *loop, by the length of its rows; NULL: there is none. */
/* a choice: no is right */
static tn_node *find(tn_ctx *c, const tn__target *t, const tn__survey *s, tn_node **loop) {
  int64_t row, size;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    tn_node *n = s->r.order.v[i];
    if (n->op != OP_IDIV || n->src[0]->op != OP_RANGE || !tn__const_int(n->src[1], &row) || !is_long(t, row)) continue;
    *loop = n->src[0];
    if (!tn__const_int((*loop)->src[0], &size) || size <= row || size % row ||
        !tn__is_even(s, (uint32_t)tn__range_at(&s->r, *loop)))
      continue;
    for (uint32_t k = i + 1; k < s->r.order.n; k++) {
      const tn_node *x = s->r.order.v[k];
      bool sums = x->op == OP_LOAD && (tn__free_of(&s->r, x) & ~s->outputs);
      if (sums && hangs_by(c, x->src[1], *loop, n)) return n;
    }
  }
  return NULL;
}

bool tn__has_flat_rows(tn_ctx *c, const tn__target *t, const tn__survey *s) {
  tn_node *loop;
  return find(c, t, s, &loop);
}

tn_node *tn__cut_flat_rows(tn__lowering *l, tn_node *body, tn__sb *note) {
  tn__survey s;
  tn_node *loop, *quotient;
  tn__survey_loops(l->c, l->a, body, &s);
  if (!(quotient = find(l->c, l->target, &s, &loop))) return body;
  int64_t row = quotient->src[1]->lo;
  tn__sb_printf(note, " cut(%lld,%lld)", tn__id_of(loop), (long long)row);
  return tn__simplify_accesses(l->c, l->a, tn__cut(l, body, loop, row, AX_LOOP, AX_LOOP, NULL));
}
