/* The rows TENSOR of ir/intervals.def as Coq theorems, for every rank and size: each element of the op's result is the
 * one that the row names, and lies between the row's bounds.  What an op does stands in proofs/coq/Elements.v. */
#include "prove/prove.h"
#include <string.h>

const tn__element_row tn__element_rows[] = {
#define TEXT(...) #__VA_ARGS__
#define INTERVAL(op, where, lower, upper)
#define TENSOR(op, element, lower, upper) {OP_##op, TEXT(element), TEXT(lower), TEXT(upper)},
#define STEP(op, formula)
#include "ir/intervals.def"
#undef TEXT
};
const size_t tn__element_row_count = sizeof tn__element_rows / sizeof *tn__element_rows;

#define OF_COUNT "(n : Z)"
#define OF_EXTREME                                                                                                     \
  "(best : Z -> Z -> Z) (init all_lo all_hi some : Z) (rank : nat) (s : axes) (U : chooses best init all_lo all_hi) "  \
  "(S : axes_below rank s) (D : bounded all_lo all_hi xs) (L : some_along some xs s)"

#define COUNTER "x = n /\\ y = i O /\\ z = 0"
#define OF_INIT "(y = init \\/ some <= 0 /\\ y = x) /\\ z = 0"
#define NONE "y = 0 /\\ z = 0"

/* Of ops of tensors xs, ys, zs (as many as `sources`), or of a number n: what else they take and what is legal, how Coq
 * spells the result, what those of a row's x, y and z are that are no elements, and the tactic that proves the row. */
static const struct {
  int sources;
  const char *given, *result, *others, *tactic;
} ops[OP_COUNT] = {
    [OP_WHERE] = {3, "(T : truth xs) (Y : same_dims xs ys) (Q : same_dims xs zs)", "where_ xs ys zs", NULL, "picks"},
    [OP_IOTA] = {0, OF_COUNT, "iota n", COUNTER, "counts"},
    [OP_RANGE] = {0, OF_COUNT, "range n", COUNTER, "counts"},
    [OP_RMAX] = {1, OF_EXTREME, "chosen best init rank xs s", OF_INIT, "chooses_one"},
    [OP_RMIN] = {1, OF_EXTREME, "chosen best init rank xs s", OF_INIT, "chooses_one"},
    [OP_RESHAPE] = {1, "(r q : nat) (d : index) (L : same_count r (dim xs) q d)", "reshaped r xs q d", NONE,
                    "hands_on (reshape_reads r xs q d L)"},
    [OP_EXPAND] = {1, "(d : index) (L : legal_expand (dim xs) d)", "expand xs d", NONE,
                   "hands_on (expand_reads xs d L)"},
    [OP_PERMUTE] = {1, "(s : perm)", "permute xs s", NONE, "hands_on (permute_reads xs s)"},
    [OP_SHRINK] = {1, "(s : part) (L : legal_part s (dim xs))", "shrink xs s", NONE, "hands_on (shrink_reads xs s L)"},
    [OP_FLIP] = {1, "(s : axes)", "flip xs s", NONE, "hands_on (flip_reads xs s)"},
    [OP_WINDOW] = {1, "(axis : nat) (size stride dilation : Z) (L : legal_window size stride dilation)",
                   "window xs axis size stride dilation", NONE,
                   "hands_on (window_reads xs axis size stride dilation L)"},
    [OP_DETACH] = {1, "", "detach xs", NONE, "hands_on (detach_reads xs)"},
    [OP_CONTIG] = {1, "", "contig xs", NONE, "hands_on (contig_reads xs)"},
    [OP_PERMUTATION] = {1, "", "contig xs", NONE, "hands_on (contig_reads xs)"},
    [OP_DISTINCT] = {1, "", "contig xs", NONE, "hands_on (contig_reads xs)"},
    [OP_SPANS] = {1, "", "contig xs", NONE, "hands_on (contig_reads xs)"},
    [OP_ASSIGN] = {2, "", "assign xs ys", "z = 0", "assigns"},
    [OP_PAD] = {1, "(rank : nat) (s : pads) (L : pads_below rank s)", "pad 0 rank xs s", NONE,
                "hands_on_or_zero (pad_reads rank xs s L)"},
    [OP_GATHER] = {1, "(rank : nat) (places : tensor)", "gather xs rank places", NONE,
                   "hands_on_or_zero (gather_reads xs rank places)"},
};

/* f(x, a.lo) as (f x a_lo). */
static void formula(tn__sb *b, const char *s) {
  while (*s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz.");
    if (n && s[n] == '(') tn__sb_putc(b, '(');
    for (size_t i = 0; i < n; i++) tn__sb_putc(b, s[i] == '.' ? '_' : s[i]);
    if (n && s[n] == '(') tn__sb_putc(b, ' ');
    s += n + (n && s[n] == '(');
    if (n || !*s) continue;
    if (*s != ',') tn__sb_putc(b, *s);
    s++;
  }
}

const char *tn__element_statement(tn__arena *a, const tn__element_row *r) {
  static const char tensors[][3] = {"xs", "ys", "zs"};
  int sources = ops[r->op].sources;
  tn__sb b;
  tn__sb_init(&b, a);
  tn__sb_puts(&b, "forall");
  for (int i = 0; i < sources; i++)
    tn__sb_printf(&b, " (%s : tensor) (%c_lo %c_hi : Z) (%c : bounded %c_lo %c_hi %s)", tensors[i], 'a' + i, 'a' + i,
                  'A' + i, 'a' + i, 'a' + i, tensors[i]);
  tn__sb_printf(&b, " %s", ops[r->op].given);
  if (!sources) tn__sb_puts(&b, " (a_lo a_hi : Z) (A : between a_lo a_hi n)");
  tn__sb_printf(&b, " (i : index) (W : within (dim (%s)) i), exists (p : bool) (x y z : Z), ", ops[r->op].result);
  for (int i = 0; i < sources; i++) tn__sb_printf(&b, "between %c_lo %c_hi %c /\\ ", 'a' + i, 'a' + i, 'x' + i);
  if (ops[r->op].others) tn__sb_printf(&b, "%s /\\ ", ops[r->op].others);
  tn__sb_printf(&b, "at_ (%s) i = ", ops[r->op].result);
  formula(&b, r->element);
  tn__sb_puts(&b, " /\\ between ");
  formula(&b, r->lower);
  tn__sb_putc(&b, ' ');
  formula(&b, r->upper);
  tn__sb_printf(&b, " (at_ (%s) i)", ops[r->op].result);
  return tn__sb_str(&b);
}

const char *tn__element_tactic(const tn__element_row *r) { return ops[r->op].tactic; }

void tn__export_elements(tn__proofs *p) {
  tn__theory *file = tn__prove_file(p, "Rules_elements", "From Tenet Require Import Elements.\n");
  for (size_t i = 0; i < tn__element_row_count; i++) {
    const tn__element_row *r = &tn__element_rows[i];
    tn__sb name, script;
    tn__sb_init(&name, p->a);
    tn__sb_printf(&name, "interval.%s", tn__ops[r->op].text);
    tn__sb_init(&script, p->a);
    tn__sb_printf(&script, "intros. %s.", tn__element_tactic(r));
    if (ops[r->op].result)
      tn__prove_coq(p, tn__sb_str(&name), "every rank", TK_PROVED, file, tn__sb_str(&name),
                    tn__element_statement(p->a, r), tn__sb_str(&script));
    else
      tn__prove_held(p, tn__sb_str(&name), "every rank", TK_PROVED, "its form", false,
                     "what this op does is not written in proofs/coq/Elements.v");
  }
}
