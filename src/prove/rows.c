/* Rows as claims: every row of the tables for every choice of dtypes that it admits, and the claims of ops.def, which
 * become rows of a table of their own. */
#include "prove/prove.h"
#include "ir/eval.h"
#include <math.h>
#include <string.h>

static const char *full_name(tn__proofs *p, const tn__ruleset *s, const tn__rule *r) {
  tn__sb b;
  tn__sb_init(&b, p->a);
  tn__sb_printf(&b, "%s.%s", s->name, r->name);
  return tn__sb_str(&b);
}

static bool has_float(const tn__typing *t) {
  for (uint32_t i = 0; i < t->classes; i++)
    if (t->up[i] == i && tn__is_float(t->dtype[i])) return true;
  return false;
}

/* There is a dtype index, and with i64 for it there is a statement, too. */
static bool index_is_i64(const tn__typing *t) {
  bool any = false;
  for (uint32_t i = 0; i < t->classes; i++) {
    if (t->up[i] != i || t->dtype[i] != TN__INDEX) continue;
    if (!(t->admits[i] >> TN_I64 & 1)) return false;
    any = true;
  }
  return any;
}

static bool has_index(const tn__typing *t) {
  for (uint32_t i = 0; i < t->classes; i++)
    if (t->up[i] == i && t->dtype[i] == TN__INDEX) return true;
  return false;
}

static bool forms_conditions(const tn__term *x) {
  if (x->form == TF_PARTS || x->form == TF_SPLIT || x->form == TF_SPLIT_ALL) return true;
  for (uint32_t i = 0; i < x->nkid; i++)
    if (forms_conditions(x->kid[i])) return true;
  return false;
}

/* A statement over the unbounded integers is one about 64 bits if nothing wraps on the right that did not on the left.
 */
static void width(tn__proofs *p, const tn__ruleset *s, const tn__rule *r, const tn__typing *t, const char *name) {
  const char *query = tn__smt_width_query(p, s, r, t, r->fits);
  if (!query)
    tn__prove_held(p, name, "64 bits", TK_PROVED, "its form", !r->fits,
                   "the right side divides and compares nothing but numbers");
  else tn__prove_smt(p, name, "64 bits", TK_PROVED, TT_SMT, false, query);
  if (query && r->fits)
    tn__prove_smt(p, name, "64 bits, unchecked", TK_SUPPORT, TT_SMT, true, tn__smt_width_query(p, s, r, t, false));
}

static void scalar_row(tn__proofs *p, const tn__ruleset *s, const tn__rule *r, tn__typing *t) {
  const char *name = full_name(p, s, r);
  bool conditional = r->ncond || forms_conditions(r->lhs), stated = false;
  bool applied = !strcmp(s->name, "index") || !strcmp(s->name, "simplify"), sized = false;
  for (bool more = tn__typing_first(r, t); more; more = tn__typing_next(r, t)) {
    bool is_float = has_float(t);
    const char *query = tn__smt_query(p, s, r, t, false), *part = tn__typing_name(t, p->a);
    tn__kind kind = !is_float ? TK_PROVED : r->ncond ? TK_EXACT_IF : TK_EXACT;
    if (!query && index_is_i64(t)) continue; /* bits and casts of index are those of i64 */
    if (!query) tn__prove_held(p, name, part, kind, "nothing", false, "this row cannot be stated in SMT-LIB");
    else tn__prove_smt(p, name, part, kind, is_float ? TT_SMT_FLOAT : TT_SMT, false, query);
    if (query && applied && has_index(t) && !sized) width(p, s, r, t, name), sized = true;
    if (query && conditional && !stated) { /* that its conditions can be met is no matter of dtypes */
      tn__prove_smt(p, name, "conditions", TK_SUPPORT, TT_SMT, true, tn__smt_query(p, s, r, t, true));
      stated = true;
    }
  }
}

/* ---- rows that hold over the reals only: values at which they fail in f32 ---- */

static const double tries[] = {0, -0.0, 1, -1, 0.1, 3, 1e30, -1e30, 1e-30, INFINITY, NAN, 1e-45};
enum { TRIES = sizeof tries / sizeof *tries, MAX_SOURCES = 3 };

static uint64_t evaluate(const tn__rule *r, const tn__term *x, const uint64_t *v) {
  uint64_t arg[MAX_SOURCES] = {0};
  if (x->form == TF_VAR) return v[x->slot];
  if (x->form == TF_NUM) return tn__table_bits(x, TN_F32, &arg[0]), arg[0];
  for (uint32_t i = 0; i < x->nkid && i < MAX_SOURCES; i++) arg[i] = evaluate(r, x->kid[i], v);
  return tn__eval(x->what, TN_F32, TN_F32, arg);
}

static bool same_float(uint64_t a, uint64_t b) {
  return a == b || (isnan(tn__eval_to_double(TN_F32, a)) && isnan(tn__eval_to_double(TN_F32, b)));
}

/* True if the row fails at the point that number `at` stands for. */
static bool fails_at(const tn__rule *r, uint32_t at, uint64_t *v) {
  for (uint32_t i = 0; i < r->nslot; i++, at /= TRIES) v[i] = tn__eval_from_double(TN_F32, tries[at % TRIES]);
  return !same_float(evaluate(r, r->lhs, v), evaluate(r, r->rhs, v));
}

static void counterexample(tn__proofs *p, const tn__ruleset *s, const tn__rule *r) {
  uint64_t v[TN__MAX_SLOTS];
  uint32_t points = 1, at = 0;
  tn__sb b;
  for (uint32_t i = 0; i < r->nslot; i++) points *= TRIES;
  while (at < points && !fails_at(r, at, v)) at++;
  tn__sb_init(&b, p->a);
  for (uint32_t i = 0; i < r->nslot && at < points; i++)
    tn__sb_printf(&b, "%s = %.9g, ", r->slot[i], tn__eval_to_double(TN_F32, v[i]));
  if (at < points)
    tn__sb_printf(&b, "left %.9g, right %.9g", tn__eval_to_double(TN_F32, evaluate(r, r->lhs, v)),
                  tn__eval_to_double(TN_F32, evaluate(r, r->rhs, v)));
  tn__prove_held(p, full_name(p, s, r), "f32", TK_REAL_ONLY, "evaluation", at < points, tn__sb_str(&b));
}

/* ---- the claims of ops.def, as rows ---- */

enum { CLS_B = TN__C_BOOL, CLS_I = TN__C_INT, CLS_F = TN__C_FLOAT, CLS_BI = CLS_B | CLS_I, CLS_BIF = CLS_BI | CLS_F };
static const struct {
  const char *kind, *op;
  uint32_t classes;
  const char *value;
} op_claims[] = {
#define CLAIM(kind, op, classes) {#kind, #op, CLS_##classes, ""},
#define UNIT(op, classes, value) {"UNIT", #op, CLS_##classes, #value},
#define ZERO(op, classes, value) {"ZERO", #op, CLS_##classes, #value},
#include "ir/ops.def"
};

static const char *op_rows(tn__proofs *p) {
  static const struct {
    const char *kind, *name, *text; /* %s: op, op, ...; the value */
  } forms[] = {
      {"COMM", "comm", "(%1 x y) -> (%1 y x)"},      {"ASSOC", "assoc", "(%1 (%1 x y) z) -> (%1 x (%1 y z))"},
      {"IDEM", "idem", "(%1 x x) -> x"},             {"UNIT", "unit", "(%1 x %2) -> x"},
      {"ZERO", "zero", "(%1 x %2) -> %2"},
  };
  static const struct {
    uint32_t cls;
    const char *name;
  } classes[] = {{CLS_B, "bool"}, {CLS_I, "int"}, {CLS_F, "float"}};
  tn__sb b;
  tn__sb_init(&b, p->a);
  for (size_t i = 0; i < sizeof op_claims / sizeof *op_claims; i++)
    for (size_t f = 0; f < sizeof forms / sizeof *forms; f++)
      for (size_t k = 0; k < sizeof classes / sizeof *classes; k++) {
        if (strcmp(forms[f].kind, op_claims[i].kind) || !(op_claims[i].classes & classes[k].cls)) continue;
        char op[16] = {0};
        for (size_t j = 0; j + 1 < sizeof op && op_claims[i].op[j]; j++) op[j] = (char)(op_claims[i].op[j] | 32);
        tn__sb_printf(&b, "rule %s_%s_%s ", forms[f].name, op, classes[k].name);
        for (const char *t = forms[f].text; *t; t++) {
          if (*t != '%') tn__sb_putc(&b, *t);
          else tn__sb_puts(&b, *++t == '1' ? op : op_claims[i].value);
        }
        tn__sb_printf(&b, " when x:%s\n", classes[k].name);
      }
  return tn__sb_str(&b);
}

/* ---- all ---- */

/* Of a row that holds over the reals: it is about nothing else, and not true of floats. */
static void fast_row(tn__proofs *p, const tn__ruleset *s, const tn__rule *r) {
  tn__typing t;
  bool floats = tn__typing_infer(r, &t);
  for (uint32_t i = 0; floats && i < t.classes; i++)
    for (int d = 0; d <= TN__INDEX && t.up[i] == i; d++) floats &= !(t.admits[i] >> d & 1) || tn__is_float(d);
  if (floats) counterexample(p, s, r);
  else
    tn__prove_held(p, full_name(p, s, r), "dtypes", TK_REAL_ONLY, "its form", false,
                   "a row of mode fast is about floats, and this one takes others, too");
}

static void table(tn__proofs *p, tn__ruleset *s) {
  for (uint32_t i = 0; i < s->n; i++) {
    const tn__rule *r = &s->rule[i];
    tn__typing t;
    if (!tn__prove_wants(p, full_name(p, s, r))) continue;
    if (r->mode == TN_MODE_FAST) fast_row(p, s, r);
    else if (tn__typing_infer(r, &t)) scalar_row(p, s, r, &t);
  }
}

void tn__export_rows(tn__proofs *p) {
  static const char *const tables[] = {"lemmas", "index", "simplify", "float", "harmless"};
  for (size_t i = 0; i < sizeof tables / sizeof *tables; i++) table(p, tn__rules_get(p->c, tables[i]));
  table(p, tn__rules_parse(p->c, "ops", op_rows(p)));
}
