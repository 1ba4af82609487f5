#include "prove/adjoint_coq.h"
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

/* ---- integers that stand for variables --------------------------------------------------------------------------- */

static const char *const mark_names[TN__MARKS] = {"s", "d", "k", "d * (k - 1)"};

typedef struct printer {
  tn_ctx *c;
  tn__arena *a;
  const tn__marks *m;
} printer;

enum { NEAR = 3 };

/* v as a sum of marks, each at most once and as few as possible, and a small rest. */
static void constant(const printer *g, tn__sb *b, int64_t v) {
  enum { CHOICES = 81 /* each mark subtracted, left out or added */ };
  int64_t best = -1, rest = v, fewest = TN__MARKS + 1;
  for (int64_t code = 0; code < CHOICES; code++) {
    int64_t sum = 0, terms = 0;
    for (int64_t i = 0, r = code; i < TN__MARKS; i++, r /= 3) {
      sum += (r % 3 - 1) * g->m->v[i];
      terms += r % 3 != 1;
    }
    if (llabs(v - sum) <= NEAR && terms < fewest) best = code, rest = v - sum, fewest = terms;
  }
  if (best < 0) tn__fail(g->c, TN_EGRAD, "adjoint: %" PRId64 " is made of no strides", v);
  bool first = !rest && fewest;
  tn__sb_putc(b, '(');
  if (!first) tn__sb_printf(b, "%" PRId64, rest);
  for (int64_t i = 0, r = best; i < TN__MARKS; i++, r /= 3) {
    if (r % 3 == 1) continue;
    tn__sb_printf(b, "%s%s", r % 3 == 0 ? " - " : first ? "" : " + ", mark_names[i]);
    first = false;
  }
  tn__sb_putc(b, ')');
}

/* ---- index expressions ------------------------------------------------------------------------------------------- */

static void range_name(tn__sb *b, const tn_node *n) {
  int64_t number = n->ints[1];
  if (number < TN__OF_SUM) tn__sb_printf(b, "i%" PRId64, number);
  else tn__sb_printf(b, "o%" PRId64, number - TN__OF_SUM);
}

static void expression(const printer *g, tn__sb *b, tn_node *n) {
  static const char *const infix[OP_COUNT] = {
      [OP_ADD] = " + ",  [OP_MUL] = " * ", [OP_IDIV] = " / ", [OP_MOD] = " mod ", [OP_LT] = " <? ",
      [OP_LE] = " <=? ", [OP_EQ] = " =? ", [OP_AND] = " && ", [OP_OR] = " || "};
  static const char *const prefix[OP_COUNT] = {
      [OP_NEG] = "- ", [OP_MIN] = "Z.min ", [OP_MAX] = "Z.max ", [OP_NOT] = "negb "};
  if (n->op == OP_CONST && n->dtype == TN_BOOL) tn__sb_puts(b, n->ints[0] ? "true" : "false");
  else if (n->op == OP_CONST) constant(g, b, n->ints[0]);
  else if (n->op == OP_VAR) tn__sb_puts(b, n->name);
  else if (n->op == OP_RANGE) range_name(b, n);
  else if (infix[n->op] || prefix[n->op]) {
    tn__sb_putc(b, '(');
    if (prefix[n->op]) tn__sb_puts(b, prefix[n->op]);
    for (uint32_t i = 0; i < n->nsrc; i++) {
      if (i) tn__sb_puts(b, infix[n->op] ? infix[n->op] : " ");
      expression(g, b, n->src[i]);
    }
    tn__sb_putc(b, ')');
  } else tn__fail(g->c, TN_EGRAD, "adjoint: %s in an index", tn__ops[n->op].text);
}

static void list(const printer *g, tn__sb *b, tn_node *const *v, uint32_t n) {
  tn__sb_putc(b, '[');
  for (uint32_t i = 0; i < n; i++) {
    if (i) tn__sb_puts(b, "; ");
    expression(g, b, v[i]);
  }
  tn__sb_putc(b, ']');
}

/* ---- a statement ------------------------------------------------------------------------------------------------- */

static void places_of(const printer *g, tn__sb *b, const tn__reading *r, bool gate, bool with_sums) {
  tn__sb_puts(b, with_sums ? "(fun i o => match i, o with " : "(fun i => match i with ");
  list(g, b, r->range, r->rank);
  if (with_sums) tn__sb_puts(b, ", "), list(g, b, r->sum, r->sums);
  tn__sb_puts(b, " => ");
  if (!gate) list(g, b, r->place, r->places);
  else if (r->gate) expression(g, b, r->gate);
  else tn__sb_puts(b, "true");
  tn__sb_puts(b, with_sums ? " | _, _ => " : " | _ => ");
  tn__sb_puts(b, gate ? "false end)%bool " : "[] end) ");
}

/* The place of `many` at which a range that it sums over is read as it is: with it the range is found again. */
static void witness(const printer *g, tn__sb *b, const tn__reading *one, const tn__reading *many) {
  tn__sb_puts(b, "(fun i => match i with ");
  list(g, b, one->range, one->rank);
  tn__sb_puts(b, " => [");
  for (uint32_t k = 0; k < many->sums; k++) {
    uint32_t t = 0;
    while (t < many->places && many->place[t] != many->sum[k]) t++;
    if (t == many->places) tn__fail(g->c, TN_EGRAD, "adjoint: a sum that is over no axis");
    tn__sb_puts(b, k ? "; " : "");
    range_name(b, one->range[t]);
  }
  tn__sb_puts(b, "] | _ => [] end)");
}

static const char *statement(tn_ctx *c, tn__arena *a, tn__axis_kind kind, const tn__marks *m) {
  tn__axes axes;
  tn__readings r = tn__axis_alone(c, kind, m, &axes);
  const tn__reading *one = &r.one, *many = &r.many;
  printer g = {c, a, m};
  tn__sb b;
  tn__sb_init(&b, a);
  tn__sb_printf(&b, "forall %s, %sundone (Axis ", tn__axis_kinds[kind].vars, tn__axis_kinds[kind].hyps);
  list(&g, &b, one->dim, one->rank);
  tn__sb_putc(&b, ' ');
  list(&g, &b, many->dim, many->rank);
  tn__sb_putc(&b, ' ');
  list(&g, &b, many->extent, many->sums);
  tn__sb_putc(&b, ' ');
  places_of(&g, &b, one, true, false);
  places_of(&g, &b, one, false, false);
  places_of(&g, &b, many, true, true);
  places_of(&g, &b, many, false, true);
  witness(&g, &b, one, many);
  tn__sb_putc(&b, ')');
  return tn__sb_str(&b);
}

const char *tn__adjoint_axis(tn_ctx *c, tn__arena *a, tn__axis_kind kind) {
  const char *first = statement(c, a, kind, &tn__drawn[0]);
  for (uint32_t i = 1; i < TN__DRAWN; i++)
    if (strcmp(first, statement(c, a, kind, &tn__drawn[i])))
      tn__fail(c, TN_EGRAD, "adjoint along an axis that is %s: the text depends on the strides",
               tn__axis_kinds[kind].name);
  return first;
}
