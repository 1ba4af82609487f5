/* Adjoints and the reverse pass as claims: what ops do along an axis, printed from what the engine builds
 * (adjoint_coq.c), that the engine does so along each axis at every rank (adjoint_axes.c, adjoint_whole.c,
 * adjoint_tree.c), and theorems of Adjoint.v and Reverse.v. */
#include "prove/adjoint_coq.h"
#include "prove/adjoint_whole.h"
#include "prove/prove.h"

enum { RANKS = 8 };

static const char *joined(tn__arena *a, const char *prefix, const char *name) {
  tn__sb b;
  tn__sb_init(&b, a);
  tn__sb_printf(&b, "%s%s", prefix, name);
  return tn__sb_str(&b);
}

static const char *tried(tn_ctx *c, uint32_t n, const char *what) {
  tn__sb b;
  tn__sb_init(&b, &c->scratch);
  tn__sb_printf(&b, "the graphs that are built are those that the theorems are about: %u %s", n, what);
  return tn__sb_str(&b);
}

static const char *try_axes(tn_ctx *c, const void *op) {
  return tried(c, tn__axis_check(c, op, RANKS), "choices of axes, ranks 1 to 8");
}
static const char *try_whole(tn_ctx *c, const void *of) {
  const tn__whole_op *op = of;
  return tried(c, op->check(c, op->op), op->over);
}

/* What is done to an axis of this kind. */
static void axis(tn__proofs *p, const char *rule, tn__theory *file, tn__axis_kind kind) {
  const char *name = tn__axis_kinds[kind].name;
  tn__prove_coq(p, rule, joined(p->a, "an axis ", name), TK_ADJOINT, file, joined(p->a, "axis_", name),
                tn__adjoint_axis(p->c, p->a, kind), "axis_places.");
}

static void axes(tn__proofs *p) {
  tn__theory *file = tn__prove_file(p, "Axes",
                                    "From Coq Require Import ZArith List Bool Lia.\nFrom Tenet Require Import "
                                    "Adjoint.\nImport ListNotations.\nOpen Scope Z_scope.\n");
  axis(p, "adjoint.each_axis", file, AX_KEPT);
  tn__prove_theorem(p, "adjoint.each_axis", "any rank", TK_ADJOINT, "Adjoint", "each_axis");
  for (uint32_t i = 0; i < tn__axis_nops; i++) {
    const tn__axis_op *op = &tn__axis_ops[i];
    const char *rule = joined(p->a, "adjoint.", op->op);
    axis(p, rule, file, op->acts[0]);
    if (op->acts[1] != op->acts[0]) axis(p, rule, file, op->acts[1]);
    tn__prove_later(p, rule, "as built", TK_ADJOINT, "exhaustion", try_axes, op);
  }
}

void tn__export_adjoint(tn__proofs *p) {
  static const char *const any_rank[][3] = {
      {"permute", "any rank", "adjoint_permute"}, {"reshape", "any rank", "adjoint_reshape"},
      {"gather", "any rank", "adjoint_gather"},   {"scatter", "any rank", "adjoint_scatter"},
      {"contract", "left", "adjoint_contract_a"}, {"contract", "right", "adjoint_contract_w"},
      {"prod", "slopes", "slope_product"},        {"prod", "by pairs", "product_tree"},
      {"rmax", "shares", "shares_convex"},        {"rmin", "shares", "shares_convex"},
  };
  static const char *const reverse[][2] = {
      {"transpose", "transposed"},
      {"reverse_along_curves", "along curves"},
      {"reverse_mode_correct", "partial derivatives"},
      {"elementwise_correct", "elementwise ops"},
      {"linear_correct", "linear ops"},
      {"contract_correct", "contraction"},
  };
  axes(p);
  for (size_t i = 0; i < sizeof any_rank / sizeof *any_rank; i++)
    tn__prove_theorem(p, joined(p->a, "adjoint.", any_rank[i][0]), any_rank[i][1], TK_ADJOINT, "Adjoint",
                      any_rank[i][2]);
  for (uint32_t i = 0; i < tn__whole_nops; i++)
    tn__prove_later(p, joined(p->a, "adjoint.", tn__whole_ops[i].op), tn__whole_ops[i].part, TK_ADJOINT, "exhaustion",
                    try_whole, &tn__whole_ops[i]);
  for (size_t i = 0; i < sizeof reverse / sizeof *reverse; i++)
    tn__prove_theorem(p, "gradient.reverse_pass", reverse[i][1], TK_GRADIENT, "Reverse", reverse[i][0]);
}
