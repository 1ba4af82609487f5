/* The rows of ir/intervals.def as SMT-LIB: of operands between their bounds the op's value lies between the bounds that
 * the formulas give.
 *
 * Ops that the integers have are stated over unbounded integers, for every width at once: the engine takes a bound
 * outside the dtype for "it may wrap" and forgets both.  Ops on bits, conversions and truth values are stated for each
 * dtype, that wrapping included; bounds are bit vectors of twice the width and two bits, in which no formula wraps. */
#include "ir/eval.h"
#include "ir/shape.h"
#include "prove/prove.h"
#include <ctype.h>
#include <string.h>

static const struct {
  int op, where;
  const char *lower, *upper, *element;
} rows[] = {
#define TEXT(...) #__VA_ARGS__
#define INTERVAL(op, where, lower, upper) {OP_##op, TI_##where, TEXT(lower), TEXT(upper), NULL},
#define TENSOR(op, element, lower, upper) {OP_##op, TI_BITS, TEXT(lower), TEXT(upper), TEXT(element)},
#define STEP(op, formula)
#include "ir/intervals.def"
};

/* What the formulas call, over the integers and over bit vectors. */
static const struct {
  const char *name, *params, *type, *index, *bits;
  bool opaque; /* to be known only by the steps, where a row has steps */
} functions[] = {
    {"plus", "(x $) (y $)", "$", "(+ x y)", "(bvadd x y)", false},
    {"minus", "(x $) (y $)", "$", "(- x y)", "(bvsub x y)", false},
    {"times", "(x $) (y $)", "$", "(* x y)", "(bvmul x y)", true},
    {"quotient", "(x $) (y $)", "$", "(ite (= y 0) 0 (ite (> y 0) (div x y) (div (- x) (- y))))",
     "(ite (= y #0) #0 (ite (and (not (= (bvsrem x y) #0)) (not (= (bvslt x #0) (bvslt y #0)))) (bvsub (bvsdiv x y) "
     "#1) (bvsdiv x y)))",
     true},
    {"least", "(x $) (y $)", "$", "(ite (< x y) x y)", "(ite (bvslt x y) x y)", false},
    {"most", "(x $) (y $)", "$", "(ite (< x y) y x)", "(ite (bvslt x y) y x)", false},
    {"raised", "(x $) (y $)", "$", NULL, "(bvshl x y)", true},
    {"lowered", "(x $) (y $)", "$", NULL, "(bvashr x y)", true},
    {"below", "(x $) (y $)", "Bool", "(< x y)", "(bvslt x y)", false},
    {"upto", "(x $) (y $)", "Bool", "(<= x y)", "(bvsle x y)", false},
    {"same", "(x $) (y $)", "Bool", "(= x y)", "(= x y)", false},
    {"both", "(x Bool) (y Bool)", "Bool", "(and x y)", "(and x y)", false},
    {"either", "(x Bool) (y Bool)", "Bool", "(or x y)", "(or x y)", false},
    {"between", "(u $) (v $) (w $)", "Bool", "(or (<= u v w) (<= w v u))",
     "(or (and (bvsle u v) (bvsle v w)) (and (bvsle w v) (bvsle v u)))", false},
    {"choose", "(p Bool) (x $) (y $)", "$", "(ite p x y)", "(ite p x y)", false},
    {"doubled", "(x $) (y $)", "$", NULL, "(bvor x (bvlshr x y))", false},
    {"mask", "(x $)", "$", NULL, "(doubled (doubled (doubled (doubled (doubled (doubled x #1) #2) #4) #8) #16) #32)",
     false},
};

/* What a row follows by, each step a statement of its own. */
static const struct {
  int op;
  const char *text;
} steps[] = {
#define INTERVAL(op, where, lower, upper)
#define TENSOR(op, element, lower, upper)
#define STEP(op, formula) {OP_##op, TEXT(formula)},
#include "ir/intervals.def"
#undef TEXT
};
enum { ROWS = sizeof rows / sizeof *rows, STEPS = sizeof steps / sizeof *steps, MAX_SOURCES = 3 };

/* One row on sources of one dtype; TN__INDEX: over the integers. */
typedef struct printer {
  tn__proofs *p;
  int row, from, to;
  int step; /* the one to be shown; STEPS: the row itself, by all of them */
  unsigned bits; /* of a bound; 0: integers */
  tn__sb out;
} printer;

static unsigned width(int d) { return 8 * (unsigned)tn__size_of(d); }
static void say(printer *q, const char *s) { tn__sb_puts(&q->out, s); }

static void number(printer *q, uint64_t v) {
  if (q->bits) tn__sb_printf(&q->out, "(_ bv%llu %u)", (unsigned long long)v, q->bits);
  else tn__sb_printf(&q->out, "%llu", (unsigned long long)v);
}

static void type(printer *q) {
  if (q->bits) tn__sb_printf(&q->out, "(_ BitVec %u)", q->bits);
  else say(q, "Int");
}

static void template(printer *q, const char *s) { /* $: the type of bounds, #n: a number */
  for (; *s; s++) {
    if (*s == '$') type(q);
    else if (*s == '#') {
      unsigned v = 0;
      while (isdigit((unsigned char)s[1])) v = 10 * v + (unsigned)(*++s - '0');
      number(q, v);
    } else tn__sb_putc(&q->out, *s);
  }
}

static void functions_of(printer *q, bool opaque) {
  for (size_t i = 0; i < sizeof functions / sizeof *functions; i++) {
    const char *body = q->bits ? functions[i].bits : functions[i].index;
    if (opaque && functions[i].opaque) {
      tn__sb_printf(&q->out, "(declare-fun %s (", functions[i].name);
      template(q, "$ $) $)\n");
      continue;
    }
    if (!body) continue;
    tn__sb_printf(&q->out, "(define-fun %s (", functions[i].name);
    template(q, functions[i].params);
    say(q, ") ");
    template(q, functions[i].type);
    tn__sb_putc(&q->out, ' ');
    template(q, body);
    say(q, ")\n");
  }
}

/* f(x, y) as (f x y). */
static void formula(printer *q, const char *s) {
  while (*s) {
    size_t n = strspn(s, "abcdefghijklmnopqrstuvwxyz.");
    if (n) {
      tn__sb_printf(&q->out, "%s%.*s%s", s[n] == '(' ? "(" : "", (int)n, s, s[n] == '(' ? " " : "");
      s += n + (s[n] == '(');
    } else if (isdigit((unsigned char)*s)) {
      number(q, (uint64_t)(*s++ - '0'));
    } else {
      if (*s != ',') tn__sb_putc(&q->out, *s);
      s++;
    }
  }
}

/* The value v of dtype d as a bound. */
static void as_bound(printer *q, int d, const char *v) {
  if (d == TN_BOOL) {
    tn__sb_printf(&q->out, "(ite %s ", v);
    number(q, 1), say(q, " "), number(q, 0), say(q, ")");
  } else if (!q->bits) say(q, v);
  else
    tn__sb_printf(&q->out, "((_ %s_extend %u) %s)", tn__dtypes[d].is_signed || d == TN_U64 ? "sign" : "zero",
                  q->bits - width(d), v);
}

static void constant(printer *q, const char *name, int64_t v) {
  tn__sb_printf(&q->out, "(define-fun %s () ", name);
  type(q);
  say(q, v < 0 ? " (bvneg " : " ");
  number(q, tn__magnitude(v));
  say(q, v < 0 ? "))\n" : ")\n");
}

/* What formulas know of the result's dtype. */
static void constants(printer *q) {
  bool is_signed = tn__dtypes[q->to].is_signed;
  unsigned w = width(q->to);
  uint64_t ones = q->to == TN_BOOL ? 1 : ~UINT64_C(0) >> (64 - w), half = UINT64_C(1) << (w - 1);
  bool as_signed = q->to != TN_BOOL && (is_signed || w == 64);
  if (!q->bits) { /* of whatever dtype */
    static const char *const names[] = {"all.lo", "all.hi", "width", "last", "some"};
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
      tn__sb_printf(&q->out, "(declare-const %s Int)\n", names[i]);
    say(q, "(assert (<= all.lo all.hi))\n");
    return;
  }
  constant(q, "all.lo", as_signed ? -(int64_t)(half - 1) - 1 : 0);
  constant(q, "all.hi", as_signed ? (int64_t)(half - 1) : (int64_t)ones);
  if (is_signed) constant(q, "ones", -1);
  else {
    say(q, "(define-fun ones () "), type(q), say(q, " "), number(q, ones), say(q, ")\n");
  }
  constant(q, "width", w);
  constant(q, "last", (int64_t)w - is_signed);
}

static const char *less(const printer *q) { return q->bits ? "bvsle" : "<="; }

/* A value of the sources' dtype, and under its own name the same as a bound. */
static void declare(printer *q, const char *name) {
  tn__sb v;
  tn__sb_init(&v, q->p->a);
  tn__sb_printf(&v, "%s.value", name);
  tn__sb_printf(&q->out, "(declare-const %s ", tn__sb_str(&v));
  tn__smt_sort(&q->out, q->from);
  tn__sb_printf(&q->out, ")\n(define-fun %s () ", name);
  type(q);
  tn__sb_putc(&q->out, ' ');
  as_bound(q, q->from, tn__sb_str(&v));
  say(q, ")\n");
}

static uint32_t sources(const printer *q) {
  return rows[q->row].element ? MAX_SOURCES : tn__ops[rows[q->row].op].max_src;
}

static void operands(printer *q) {
  static const char *const names[MAX_SOURCES][3] = {
      {"x", "a.lo", "a.hi"}, {"y", "b.lo", "b.hi"}, {"z", "c.lo", "c.hi"}};
  bool numbers = q->from == TN_U64 && rows[q->row].where == TI_NUMBER;
  if (rows[q->row].element) say(q, "(declare-const p Bool)\n");
  for (uint32_t i = 0; i < sources(q); i++) {
    for (int k = 0; k < 3; k++) declare(q, names[i][k]);
    tn__sb_printf(&q->out, "(assert (%s %s %s))\n(assert (%s %s %s))\n", less(q), names[i][1], names[i][0], less(q),
                  names[i][0], names[i][2]);
    if (numbers) tn__sb_printf(&q->out, "(assert (bvsge %s (_ bv0 %u)))\n", names[i][1], q->bits);
  }
}

static void assertion(printer *q, const char *text, bool holds) {
  say(q, holds ? "(assert " : "(assert (not ");
  formula(q, text);
  say(q, holds ? ")\n" : "))\n");
}

static void define(printer *q, const char *name, const char *text) {
  tn__sb_printf(&q->out, "(define-fun %s () ", name);
  type(q);
  tn__sb_putc(&q->out, ' ');
  formula(q, text);
  say(q, ")\n");
}

static void value(printer *q, const char *call, bool opaque) {
  if (opaque) {
    say(q, "(declare-const value "), type(q), say(q, ")\n");
    return;
  }
  if (rows[q->row].element) {
    define(q, "value", rows[q->row].element);
    return;
  }
  say(q, "(define-fun value () "), type(q), tn__sb_putc(&q->out, ' ');
  as_bound(q, q->to, call);
  say(q, ")\n");
}

static bool is_step(int step, int row) {
  return steps[step].op == rows[row].op && rows[row].where != TI_ZERO && rows[row].where != TI_TRUTH;
}

static bool has_steps(int row) {
  for (int i = 0; i < STEPS; i++)
    if (is_step(i, row)) return true;
  return false;
}

/* That the row, or the step, does not hold. */
static void refutation(printer *q) {
  if (q->step < STEPS) {
    assertion(q, steps[q->step].text, false);
    return;
  }
  for (int i = 0; i < STEPS; i++)
    if (is_step(i, q->row)) assertion(q, steps[i].text, true);
  if (q->bits || (has_steps(q->row) && !tn__smt_means(rows[q->row].op, TN__INDEX))) /* else it may wrap */
    tn__sb_printf(&q->out, "(assert (%s all.lo lower))\n(assert (%s upper all.hi))\n", less(q), less(q));
  if (q->to == TN_U64 && rows[q->row].where == TI_NUMBER)
    tn__sb_printf(&q->out, "(assert (bvsge lower (_ bv0 %u)))\n", q->bits);
  tn__sb_printf(&q->out, "(assert (not (and (%s lower value) (%s value upper))))\n", less(q), less(q));
}

static const char *query(printer *q) {
  static const char *const where[TI_COUNT] = {
      [TI_BELOW] = "below(b.hi, 0)", [TI_ZERO] = "both(same(b.lo, 0), same(b.hi, 0))", [TI_ABOVE] = "below(0, b.lo)"};
  static const char *const arguments[] = {"", "x.value", "x.value y.value", "x.value y.value z.value"};
  int op = rows[q->row].op;
  /* by the steps alone: for all functions, values and dtypes of which they hold */
  bool opaque = q->step == STEPS && has_steps(q->row);
  if (opaque) q->from = q->to = TN__INDEX, q->bits = 0;
  tn__sb definitions, call;
  tn__sb_init(&q->out, q->p->a), tn__sb_init(&definitions, q->p->a), tn__sb_init(&call, q->p->a);
  if (!rows[q->row].element && !opaque)
    tn__smt_call(q->p, &definitions, &call, op, q->from, q->to, arguments[tn__ops[op].max_src]);
  say(q, "(set-option :produce-models true)\n(set-logic ALL)\n");
  say(q, tn__sb_str(&definitions));
  functions_of(q, opaque);
  constants(q);
  operands(q);
  if (where[rows[q->row].where]) assertion(q, where[rows[q->row].where], true);
  define(q, "lower", rows[q->row].lower);
  define(q, "upper", rows[q->row].upper);
  value(q, tn__sb_str(&call), opaque);
  refutation(q);
  say(q, "(check-sat)\n(get-value (");
  for (uint32_t i = 0; i < sources(q); i++)
    tn__sb_printf(&q->out, "%c %c.lo %c.hi ", 'x' + (int)i, 'a' + (int)i, 'a' + (int)i);
  say(q, "lower upper value))\n");
  return tn__sb_str(&q->out);
}

/* ---- which statements ---- */

static const char *name_of(tn__proofs *p, int row) {
  static const char *const parts[TI_COUNT] = {
      [TI_TRUTH] = "_truth", [TI_BELOW] = "_below", [TI_ZERO] = "_zero", [TI_ABOVE] = "_above"};
  tn__sb b;
  tn__sb_init(&b, p->a);
  tn__sb_printf(&b, "interval.%s%s", tn__ops[rows[row].op].text, parts[rows[row].where] ? parts[rows[row].where] : "");
  return tn__sb_str(&b);
}

static void claim_step(tn__proofs *p, int row, int step, int from, int to, const char *part) {
  unsigned wider = width(from) > width(to) ? width(from) : width(to);
  printer q = {.p = p, .row = row, .step = step, .from = from, .to = to, .bits = from == TN__INDEX ? 0 : 2 * wider + 2};
  tn__prove_smt(p, name_of(p, row), part, TK_PROVED, TT_SMT, false, query(&q));
}

static void claim(tn__proofs *p, int row, int from, int to, const char *part) {
  for (int i = 0; i < STEPS; i++) {
    if (!is_step(i, row)) continue;
    tn__sb b;
    tn__sb_init(&b, p->a);
    tn__sb_printf(&b, "%s, %s", part, steps[i].text);
    claim_step(p, row, i, from, to, tn__sb_str(&b));
  }
  if (!has_steps(row)) claim_step(p, row, STEPS, from, to, part);
}

static const char *both_names(tn__proofs *p, int from, int to) {
  tn__sb b;
  tn__sb_init(&b, p->a);
  tn__sb_printf(&b, "%s,%s", tn__dtypes[from].name, tn__dtypes[to].name);
  return tn__sb_str(&b);
}

static bool has_truth_row(int op) {
  for (int i = 0; i < ROWS; i++)
    if (rows[i].op == op && rows[i].where == TI_TRUTH) return true;
  return false;
}

static bool compares(int op) { return tn__ops[op].dtype_rule == DT_BOOL; }
static bool holds_values(int d) { return d == TN_BOOL || tn__is_int(d); }

static void conversions(tn__proofs *p, int row) {
  for (int from = 0; from < TN_DTYPE_COUNT; from++)
    for (int to = 0; to < TN_DTYPE_COUNT; to++) {
      bool fits = rows[row].op == OP_CAST || width(from) == width(to);
      if (holds_values(from) && holds_values(to) && fits && (to == TN_BOOL) == (rows[row].where == TI_TRUTH))
        claim(p, row, from, to, both_names(p, from, to));
    }
}

static void scalar(tn__proofs *p, int row) {
  int op = rows[row].op, where = rows[row].where;
  bool integers = where != TI_TRUTH && tn__smt_means(op, TN__INDEX);
  if (integers) claim(p, row, TN__INDEX, compares(op) ? TN_BOOL : TN__INDEX, "Z");
  for (int d = 0; d < TN_DTYPE_COUNT; d++) {
    bool wanted = d == TN_BOOL ? where == TI_TRUTH || (!has_truth_row(op) && where != TI_BELOW)
                               : tn__is_int(d) && where != TI_TRUTH && !integers;
    if (wanted && tn__smt_means(op, d)) claim(p, row, d, compares(op) ? TN_BOOL : d, tn__dtypes[d].name);
  }
  if (has_steps(row)) claim_step(p, row, STEPS, TN__INDEX, TN__INDEX, "by these");
}

uint64_t tn__interval_table_hash(uint64_t seed) {
  uint64_t h = seed;
  for (int i = 0; i < ROWS; i++) {
    const char *const texts[] = {tn__ops[rows[i].op].text, rows[i].lower, rows[i].upper,
                                 rows[i].element ? rows[i].element : ""};
    h = tn__hash_mix(h, (uint64_t)rows[i].where);
    for (size_t k = 0; k < sizeof texts / sizeof *texts; k++) h = tn__hash_bytes(texts[k], strlen(texts[k]), h);
  }
  return h;
}

void tn__export_intervals(tn__proofs *p) {
  for (int i = 0; i < ROWS; i++) {
    if (!tn__prove_wants(p, name_of(p, i))) continue;
    if (rows[i].element) claim(p, i, TN__INDEX, TN__INDEX, "Z");
    else if (tn__ops[rows[i].op].group == G_CAST) conversions(p, i);
    else scalar(p, i);
  }
}
