/* Rows as SMT-LIB queries: a row is true if no model makes its conditions hold and its sides differ.
 *
 * An op is printed under its own name and the dtype it works on, (add.f32 x y), so that what is printed can be read
 * back; what it means stands in the table below, which says what ir/eval.h says.  f16 and bf16 compute in f32 and round
 * once, as the evaluator does; elementary functions are functions of which nothing is assumed. */
#include "prove/prove.h"
#include "ir/eval.h"
#include <math.h>
#include <string.h>

enum { EXPONENT_F32 = 8, EXPONENT_F64 = 11, EXPONENT_F16 = 5, MAX_POWER = 8 };

/* ---- what ops mean ---- */

/* $T the sort, $0 $1 $m the numbers 0, 1 and -1, $d the dtype's name. */
typedef struct meaning {
  const char *boolean, *is_signed, *is_unsigned, *index, *flt;
  bool rounds; /* in floats: computed in f32 by the narrow ones */
} meaning;

static const meaning meanings[OP_COUNT] = {
    [OP_NEG] = {"x", "(bvneg x)", "(bvneg x)", "(- x)", "(fp.neg x)", false},
    [OP_ABS] = {"x", "(ite (bvslt x $0) (bvneg x) x)", "x", "(ite (< x 0) (- x) x)", "(fp.abs x)", false},
    [OP_SIGN] = {"x", "(ite (bvslt x $0) $m (ite (= x $0) $0 $1))", "(ite (= x $0) $0 $1)",
                 "(ite (< x 0) (- 1) (ite (= x 0) 0 1))", "(ite (fp.lt $0 x) $1 (ite (fp.lt x $0) $m x))", false},
    [OP_SQRT] = {.flt = "(fp.sqrt RNE x)", .rounds = true},
    [OP_FLOOR] = {.flt = "(fp.roundToIntegral RTN x)"},
    [OP_CEIL] = {.flt = "(fp.roundToIntegral RTP x)"},
    [OP_ROUND] = {.flt = "(fp.roundToIntegral RNE x)"},
    [OP_TRUNC] = {.flt = "(fp.roundToIntegral RTZ x)"},
    [OP_NOT] = {"(not x)", "(bvnot x)", "(bvnot x)", NULL, NULL, false},
    [OP_ADD] = {"(or x y)", "(bvadd x y)", "(bvadd x y)", "(+ x y)", "(fp.add RNE x y)", true},
    [OP_MUL] = {"(and x y)", "(bvmul x y)", "(bvmul x y)", "(* x y)", "(fp.mul RNE x y)", true},
    [OP_DIV] = {.flt = "(fp.div RNE x y)", .rounds = true},
    [OP_IDIV] = {"(and x y)",
                 "(ite (= y $0) $0 (ite (and (not (= (bvsrem x y) $0)) (not (= (bvslt x $0) (bvslt y $0)))) (bvsub "
                 "(bvsdiv x y) $1) (bvsdiv x y)))",
                 "(ite (= y $0) $0 (bvudiv x y))", "(ite (= y 0) 0 (ite (> y 0) (div x y) (div (- x) (- y))))",
                 NULL, false},
    [OP_MOD] = {"(and x (not y))", "(ite (= y $0) x (bvsmod x y))", "(ite (= y $0) x (bvurem x y))",
                "(- x (* y (ite (= y 0) 0 (ite (> y 0) (div x y) (div (- x) (- y))))))", NULL, false},
    [OP_FMOD] = {"false", "(ite (= y $0) $0 (bvsrem x y))", "(ite (= y $0) $0 (bvurem x y))",
                 "(ite (= y 0) 0 (ite (< x 0) (- (mod (- x) y)) (mod x y)))", NULL, false},
    [OP_MIN] = {"(and x y)", "(ite (bvslt x y) x y)", "(ite (bvult x y) x y)", "(ite (< x y) x y)",
                "(ite (fp.isNaN x) x (ite (fp.isNaN y) y (ite (fp.lt x y) x (ite (fp.lt y x) y (ite (fp.isNegative x) "
                "x y)))))",
                false},
    [OP_MAX] = {"(or x y)", "(ite (bvslt x y) y x)", "(ite (bvult x y) y x)", "(ite (< x y) y x)",
                "(ite (fp.isNaN x) x (ite (fp.isNaN y) y (ite (fp.lt x y) y (ite (fp.lt y x) x (ite (fp.isNegative x) "
                "y x)))))",
                false},
    [OP_AND] = {"(and x y)", "(bvand x y)", "(bvand x y)", NULL, NULL, false},
    [OP_OR] = {"(or x y)", "(bvor x y)", "(bvor x y)", NULL, NULL, false},
    [OP_XOR] = {"(xor x y)", "(bvxor x y)", "(bvxor x y)", NULL, NULL, false},
    [OP_SHL] = {NULL, "(bvshl x y)", "(bvshl x y)", NULL, NULL, false},
    [OP_SHR] = {NULL, "(bvashr x y)", "(bvlshr x y)", NULL, NULL, false},
    [OP_LT] = {"(and (not x) y)", "(bvslt x y)", "(bvult x y)", "(< x y)", "(fp.lt x y)", false},
    [OP_LE] = {"(=> x y)", "(bvsle x y)", "(bvule x y)", "(<= x y)", "(fp.leq x y)", false},
    [OP_EQ] = {"(= x y)", "(= x y)", "(= x y)", "(= x y)", "(fp.eq x y)", false},
    [OP_NE] = {"(not (= x y))", "(not (= x y))", "(not (= x y))", "(not (= x y))", "(not (fp.eq x y))", false},
    [OP_FMA] = {"(or (and x y) z)", "(bvadd (bvmul x y) z)", "(bvadd (bvmul x y) z)", "(+ (* x y) z)", NULL, false},
    [OP_WHERE] = {"(ite p x y)", "(ite p x y)", "(ite p x y)", "(ite p x y)", "(ite p x y)", false},
};

/* Over unbounded integers and truth values; those of conditions and right sides. */
static const char *const fn_texts[FN_COUNT] = {
    [FN_ADD] = "+", [FN_SUB] = "-", [FN_MUL] = "*", [FN_NEG] = "-", [FN_MIN] = "min.index", [FN_MAX] = "max.index",
    [FN_IDIV] = "idiv.index", [FN_MOD] = "mod.index", [FN_CEILDIV] = "ceildiv",
};

typedef struct printer {
  tn__proofs *p;
  const tn__ruleset *set;
  const tn__rule *r;
  const tn__typing *t;
  const char *const *value; /* what slots stand for; NULL: their names */
  tn__sb *definitions, *side; /* side: what the functions on the right assume */
  bool raw;                 /* the row reinterprets bits: floats are bit patterns */
  bool failed;
  uint32_t defined[OP_COUNT];
  bool ceildiv, extreme[TN__MAX_SLOTS];
} printer;

static unsigned exponent(int d) {
  return d == TN_F16 ? EXPONENT_F16 : d == TN_F64 ? EXPONENT_F64 : EXPONENT_F32;
}

static unsigned width(int d) { return 8 * (unsigned)tn__size_of(d); }

static void sort(const printer *q, tn__sb *b, int d) {
  if (d == TN_BOOL) tn__sb_puts(b, "Bool");
  else if (d == TN__INDEX) tn__sb_puts(b, "Int");
  else if (tn__is_float(d) && !q->raw) tn__sb_printf(b, "(_ FloatingPoint %u %u)", exponent(d), tn__dtypes[d].mant);
  else tn__sb_printf(b, "(_ BitVec %u)", width(d));
}

static void literal(printer *q, tn__sb *b, int d, uint64_t bits) {
  int64_t v = (int64_t)bits;
  if (d == TN_BOOL) tn__sb_puts(b, bits ? "true" : "false");
  else if (d == TN__INDEX && v < 0) tn__sb_printf(b, "(- %llu)", (unsigned long long)tn__magnitude(v));
  else if (d == TN__INDEX) tn__sb_printf(b, "%lld", (long long)v);
  else {
    if (width(d) < 64) bits &= (UINT64_C(1) << width(d)) - 1;
    bool is_float = tn__is_float(d) && !q->raw;
    if (is_float) tn__sb_printf(b, "((_ to_fp %u %u) ", exponent(d), tn__dtypes[d].mant);
    tn__sb_printf(b, "(_ bv%llu %u)%s", (unsigned long long)bits, width(d), is_float ? ")" : "");
  }
}

static void small_number(printer *q, tn__sb *b, int d, int v) {
  literal(q, b, d, tn__is_float(d) ? tn__eval_from_double(d, v) : tn__eval_cast(TN_I64, d, (uint64_t)(int64_t)v));
}

static const char *meaning_of(int op, int d) {
  const meaning *m = &meanings[op];
  if (d == TN_BOOL) return m->boolean;
  if (d == TN__INDEX) return m->index;
  if (tn__is_float(d)) return m->flt;
  return tn__dtypes[d].is_signed ? m->is_signed : m->is_unsigned;
}

static void expand(printer *q, tn__sb *b, const char *s, int d) {
  for (; *s; s++) {
    if (*s != '$') tn__sb_putc(b, *s);
    else switch (*++s) {
      case 'T': sort(q, b, d); break;
      case 'd': tn__sb_puts(b, tn__dtypes[d].name); break;
      case 'm': small_number(q, b, d, -1); break;
      default: small_number(q, b, d, *s - '0');
      }
  }
}

static void signature(printer *q, tn__sb *b, int op, int d) {
  static const char *const names[] = {"x", "y", "z"}, *const choice[] = {"p", "x", "y"};
  bool compares = op == OP_LT || op == OP_LE || op == OP_EQ || op == OP_NE;
  tn__sb_printf(b, "(define-fun %s.%s (", tn__ops[op].text, tn__dtypes[d].name);
  for (uint32_t i = 0; i < tn__ops[op].max_src; i++) {
    tn__sb_printf(b, "(%s ", op == OP_WHERE ? choice[i] : names[i]);
    sort(q, b, op == OP_WHERE && i == 0 ? TN_BOOL : d);
    tn__sb_putc(b, ')');
  }
  tn__sb_puts(b, ") ");
  sort(q, b, compares ? TN_BOOL : d);
  tn__sb_putc(b, ' ');
}

static void unknown_function(printer *q, int op, int d) {
  tn__sb *b = q->definitions;
  tn__sb_printf(b, "(declare-fun %s.%s (", tn__ops[op].text, tn__dtypes[d].name);
  for (uint32_t i = 0; i < tn__ops[op].max_src; i++) expand(q, b, i ? " $T" : "$T", d);
  expand(q, b, ") $T)\n", d);
}

static void define(printer *q, int op, int d) {
  const char *text = meaning_of(op, d);
  tn__sb *b = q->definitions;
  if (q->defined[op] >> d & 1) return;
  q->defined[op] |= 1u << d;
  if (q->raw && tn__is_float(d) && op != OP_WHERE) q->failed = true;
  if (!text && tn__is_float(d)) {
    unknown_function(q, op, d);
    return;
  }
  if (!text) {
    q->failed = true;
    return;
  }
  bool narrow = meanings[op].rounds && (d == TN_F16 || d == TN_BF16);
  if (narrow) define(q, op, TN_F32);
  signature(q, b, op, d);
  if (narrow) {
    tn__sb_printf(b, "((_ to_fp %u %u) RNE (%s.f32", exponent(d), tn__dtypes[d].mant, tn__ops[op].text);
    for (uint32_t i = 0; i < tn__ops[op].max_src; i++) tn__sb_printf(b, " ((_ to_fp 8 24) RNE %s)", i ? "y" : "x");
    tn__sb_puts(b, "))");
  } else expand(q, b, text, d);
  tn__sb_puts(b, ")\n");
}

/* ---- conversions ---- */

static void to_float(tn__sb *b, int to, const char *how, const char *what) {
  tn__sb_printf(b, "((_ %s %u %u) RNE %s)", how, exponent(to), tn__dtypes[to].mant, what);
}

/* Saturating, NaN to 0. */
static void float_to_int(printer *q, tn__sb *b, int from, int to) {
  bool is_signed = tn__dtypes[to].is_signed;
  unsigned bits = width(to) - is_signed;
  tn__sb end = {0};
  tn__sb_init(&end, q->p->a);
  tn__sb_printf(&end, "%llu.0", (unsigned long long)(UINT64_C(1) << (bits - 1)));
  tn__sb_puts(b, "(ite (fp.isNaN x) ");
  small_number(q, b, to, 0);
  tn__sb_puts(b, " (ite (fp.leq ");
  tn__sb_puts(b, "(fp.mul RNE ");
  to_float(b, from, "to_fp", tn__sb_str(&end));
  tn__sb_putc(b, ' ');
  to_float(b, from, "to_fp", "2.0");
  tn__sb_puts(b, ") x) ");
  literal(q, b, to, ~UINT64_C(0) >> (64 - bits));
  tn__sb_puts(b, " (ite (fp.leq x ");
  if (is_signed) {
    tn__sb_puts(b, "(fp.neg (fp.mul RNE ");
    to_float(b, from, "to_fp", tn__sb_str(&end));
    tn__sb_putc(b, ' ');
    to_float(b, from, "to_fp", "2.0");
    tn__sb_puts(b, "))) ");
  } else {
    to_float(b, from, "to_fp", "0.0");
    tn__sb_puts(b, ") ");
  }
  literal(q, b, to, is_signed ? ~(~UINT64_C(0) >> (64 - bits)) : 0);
  tn__sb_printf(b, " ((_ fp.to_%cbv %u) RTZ x))))", is_signed ? 's' : 'u', width(to));
}

static void conversion(printer *q, tn__sb *b, int from, int to, bool bits_only) {
  if (from == to || (bits_only && from != TN_BOOL && to != TN_BOOL)) tn__sb_puts(b, "x");
  else if (from == TN_BOOL) expand(q, b, "(ite x $1 $0)", to);
  else if (to == TN_BOOL) expand(q, b, tn__is_float(from) && !q->raw ? "(not (fp.isZero x))" : "(not (= x $0))", from);
  else if (tn__is_float(to))
    to_float(b, to, tn__is_float(from) || tn__dtypes[from].is_signed ? "to_fp" : "to_fp_unsigned", "x");
  else if (tn__is_float(from)) float_to_int(q, b, from, to);
  else if (width(to) > width(from))
    tn__sb_printf(b, "((_ %s_extend %u) x)", tn__dtypes[from].is_signed ? "sign" : "zero", width(to) - width(from));
  else if (width(to) < width(from)) tn__sb_printf(b, "((_ extract %u 0) x)", width(to) - 1);
  else tn__sb_puts(b, "x");
}

static void convert(printer *q, tn__sb *b, int op, int from, int to) {
  tn__sb name;
  tn__sb_init(&name, q->p->a);
  tn__sb_printf(&name, "(define-fun %s.%s.%s ((x ", tn__ops[op].text, tn__dtypes[from].name, tn__dtypes[to].name);
  tn__sb_printf(b, "(%s.%s.%s ", tn__ops[op].text, tn__dtypes[from].name, tn__dtypes[to].name);
  if (from == TN__INDEX || to == TN__INDEX) q->failed = true;
  if (q->definitions->n && strstr(q->definitions->s, tn__sb_str(&name))) return;
  tn__sb_puts(q->definitions, tn__sb_str(&name));
  sort(q, q->definitions, from);
  tn__sb_puts(q->definitions, ")) ");
  sort(q, q->definitions, to);
  tn__sb_putc(q->definitions, ' ');
  conversion(q, q->definitions, from, to, op == OP_BITCAST);
  tn__sb_puts(q->definitions, ")\n");
}

/* ---- terms ---- */

static void print(printer *q, tn__sb *b, const tn__term *x);

static void slot(printer *q, tn__sb *b, uint8_t s) { tn__sb_puts(b, q->value ? q->value[s] : q->r->slot[s]); }

/* k times x, plus r: what a form of a sum stands for. */
static void print_sum(printer *q, tn__sb *b, const tn__term *k, const tn__term *x, const tn__term *r) {
  tn__sb_puts(b, "(+ (* ");
  print(q, b, x);
  tn__sb_putc(b, ' ');
  print(q, b, k);
  tn__sb_puts(b, ") ");
  print(q, b, r);
  tn__sb_putc(b, ')');
}

static void print_fn(printer *q, tn__sb *b, const tn__term *x) {
  if (x->what == FN_LO || x->what == FN_HI) {
    tn__sb_puts(b, x->what == FN_LO ? "lo_" : "hi_");
    slot(q, b, x->kid[0]->slot);
    q->extreme[x->kid[0]->slot] = true;
    return;
  }
  if (!fn_texts[x->what]) {
    q->failed = true;
    return;
  }
  if (x->what == FN_IDIV || x->what == FN_CEILDIV) define(q, OP_IDIV, TN__INDEX);
  if (x->what == FN_MOD) define(q, OP_MOD, TN__INDEX);
  if (x->what == FN_MIN || x->what == FN_MAX) define(q, x->what == FN_MIN ? OP_MIN : OP_MAX, TN__INDEX);
  if (x->what == FN_CEILDIV && !q->ceildiv) {
    q->ceildiv = true;
    tn__sb_puts(q->definitions, "(define-fun ceildiv ((x Int) (y Int)) Int (- (idiv.index (- x) y)))\n");
  }
  tn__sb_printf(b, "(%s", fn_texts[x->what]);
  for (uint32_t i = 0; i < x->nkid; i++) {
    tn__sb_putc(b, ' ');
    print(q, b, x->kid[i]);
  }
  tn__sb_putc(b, ')');
  if (x->what != FN_IDIV && x->what != FN_MOD && x->what != FN_CEILDIV) return;
  tn__sb_puts(q->side, "(assert (not (= "); /* a row whose computation divides by 0 does not apply */
  print(q, q->side, x->kid[1]);
  tn__sb_puts(q->side, " 0)))\n");
}

/* x to a constant power. */
static void print_power(printer *q, tn__sb *b, const tn__term *x, int d) {
  int64_t n = x->kid[1]->form == TF_NUM && x->kid[1]->whole ? x->kid[1]->inum : -1;
  /* the contract of the C function: ir/math.inc gives these by a choice of its own */
  if (tn__is_float(d) && (n == 0 || n == 1)) {
    if (n) print(q, b, x->kid[0]);
    else small_number(q, b, d, 1);
    return;
  }
  if (n < 0 || n > MAX_POWER || tn__is_float(d)) {
    q->failed = true;
    return;
  }
  define(q, OP_MUL, d);
  for (int64_t i = 0; i < n; i++) {
    tn__sb_printf(b, "(mul.%s ", tn__dtypes[d].name);
    print(q, b, x->kid[0]);
    tn__sb_putc(b, ' ');
  }
  small_number(q, b, d, 1);
  for (int64_t i = 0; i < n; i++) tn__sb_putc(b, ')');
}

static void print_op(printer *q, tn__sb *b, const tn__term *x) {
  int d = tn__typing_of(q->t, x->kid[x->what == OP_WHERE ? 1 : 0]);
  if (x->what == OP_POW) {
    print_power(q, b, x, d);
    return;
  }
  if (tn__ops[x->what].group == G_CAST) convert(q, b, x->what, d, tn__typing_of(q->t, x));
  else {
    define(q, x->what, d);
    tn__sb_printf(b, "(%s.%s", tn__ops[x->what].text, tn__dtypes[d].name);
  }
  for (uint32_t i = 0; i < x->nkid; i++) {
    if (tn__ops[x->what].group != G_CAST) tn__sb_putc(b, ' ');
    print(q, b, x->kid[i]);
  }
  tn__sb_putc(b, ')');
}

/* value: as in a condition, where -1 is no unsigned number. */
static void print_number(printer *q, tn__sb *b, const tn__term *x, int d, bool value) {
  uint64_t bits = 0;
  if (!tn__table_bits(x, d, &bits)) q->failed = true;
  if (value && x->inum < 0 && !tn__dtypes[d].is_signed) q->failed = true;
  if (q->raw && isnan(x->num)) q->failed = true; /* it matches every pattern of a NaN */
  literal(q, b, d, bits);
}

static void print(printer *q, tn__sb *b, const tn__term *x) {
  switch (x->form) {
  case TF_VAR: slot(q, b, x->slot); break;
  case TF_NUM: print_number(q, b, x, tn__typing_of(q->t, x), false); break;
  case TF_OP: print_op(q, b, x); break;
  case TF_AS: print(q, b, x->kid[1]); break;
  case TF_FN: print_fn(q, b, x); break;
  case TF_SPLIT:
  case TF_SPLIT_ALL: print_sum(q, b, x->kid[0], x->kid[1], x->kid[2]); break;
  case TF_PARTS: print_sum(q, b, x->kid[1], x->kid[2], x->kid[3]); break;
  case TF_PICK: print_sum(q, b, x->kid[0], x->kid[1], x->kid[2]); break;
  default: q->failed = true;
  }
}

/* ---- conditions ---- */

static void divisible(printer *q, tn__sb *b, const tn__term *by, const tn__term *x) {
  define(q, OP_MOD, TN__INDEX);
  tn__sb_puts(b, "(= (mod.index ");
  print(q, b, x);
  tn__sb_putc(b, ' ');
  print(q, b, by);
  tn__sb_puts(b, ") 0)");
}

/* What the forms of a pattern promise, as conjuncts. */
static void promises(printer *q, tn__sb *b, const tn__term *x) {
  if (x->form == TF_PARTS) {
    tn__sb_puts(b, " (> ");
    print(q, b, x->kid[1]);
    tn__sb_puts(b, " 1) ");
    divisible(q, b, x->kid[1], x->kid[0]);
  }
  if (x->form == TF_SPLIT || x->form == TF_SPLIT_ALL) {
    const tn__term *d = x->kid[0];
    bool positive = d->form == TF_NUM || (d->form == TF_VAR && q->r->is_const[d->slot]);
    tn__sb_puts(b, positive ? " (> " : " (distinct ");
    print(q, b, d);
    tn__sb_puts(b, " 0)");
  }
  for (uint32_t i = 0; i < x->nkid; i++) promises(q, b, x->kid[i]);
}

static void condition(printer *q, tn__sb *b, const tn__cond *d) {
  static const char *const ops[] = {
      [TC_LT] = "<", [TC_LE] = "<=", [TC_EQ] = "=", [TC_NE] = "distinct", [TC_GT] = ">", [TC_GE] = ">="};
  /* about dtypes: the typing holds to it; about 64 bits: a statement of its own */
  if (d->kind == TC_EXACT_CAST || d->kind == TC_FITS) return;
  tn__sb_putc(b, ' ');
  if (d->kind == TC_DIVIDES) {
    tn__sb_puts(b, "(distinct ");
    print(q, b, d->arg[0]);
    tn__sb_puts(b, " 0) ");
    divisible(q, b, d->arg[0], d->arg[1]);
    return;
  }
  if (d->kind > TC_GE) {
    q->failed = true;
    return;
  }
  int of = d->arg[0]->form == TF_VAR ? tn__typing_of(q->t, d->arg[0]) : TN__INDEX;
  bool ordered = d->kind != TC_EQ && d->kind != TC_NE;
  if (ordered && of != TN__INDEX && !(of == TN_BOOL && d->kind == TC_LE)) q->failed = true;
  tn__sb_printf(b, "(%s ", of == TN_BOOL && d->kind == TC_LE ? "=>" : ops[d->kind]);
  print(q, b, d->arg[0]);
  tn__sb_putc(b, ' ');
  if (d->arg[1]->form == TF_NUM) print_number(q, b, d->arg[1], of, true);
  else print(q, b, d->arg[1]);
  tn__sb_putc(b, ')');
}

static const char *conditions(printer *q) {
  tn__sb b;
  tn__sb_init(&b, q->p->a);
  tn__sb_puts(&b, "(and true");
  promises(q, &b, q->r->lhs);
  for (uint32_t i = 0; i < q->r->ncond; i++) condition(q, &b, &q->r->cond[i]);
  tn__sb_putc(&b, ')');
  return tn__sb_str(&b);
}

/* ---- hints: instances of rows that are proved by themselves ---- */

static const tn__rule *find_row(tn__proofs *p, const tn__ruleset *s, const char *name) {
  const tn__ruleset *in[] = {s, tn__rules_get(p->c, "index"), tn__rules_get(p->c, "lemmas")};
  for (int k = 0; k < 3; k++)
    for (uint32_t i = 0; i < in[k]->n; i++)
      if (!strcmp(in[k]->rule[i].name, name)) return &in[k]->rule[i];
  tn__fail(p->c, TN_EFORMAT, "rule table %s: a row is said to follow by %s, which there is not", s->name, name);
}

/* No row may follow by itself: a chain of hints that is longer than there are rows to stand in it goes round. */
enum { MAX_CHAIN = 16 };
static void check_chain(tn__proofs *p, const tn__ruleset *s, const tn__rule *r, int length) {
  if (length == MAX_CHAIN)
    tn__fail(p->c, TN_EFORMAT, "rule table %s: the hints of %s go round in a circle", s->name, r->name);
  for (uint32_t i = 0; i < r->nhint; i++) check_chain(p, s, find_row(p, s, r->hint[i].rule), length + 1);
}

static const char *equation(printer *q) {
  tn__sb b;
  tn__sb_init(&b, q->p->a);
  tn__sb_puts(&b, "(= ");
  print(q, &b, q->r->lhs);
  tn__sb_putc(&b, ' ');
  print(q, &b, q->r->rhs);
  tn__sb_putc(&b, ')');
  return tn__sb_str(&b);
}

static void hint(printer *q, tn__sb *b, const tn__hint *h) {
  const tn__rule *r = find_row(q->p, q->set, h->rule);
  if (r->mode != TN_MODE_STRICT)
    tn__fail(q->p->c, TN_EFORMAT, "rule table %s: %s is not true of floats, nothing follows by it", q->set->name,
             h->rule);
  const char *value[TN__MAX_SLOTS];
  tn__typing t;
  tn__sb unused, *side = q->side; /* an instance of what is true assumes nothing */
  tn__sb_init(&unused, q->p->a);
  q->side = &unused;
  if (r->nslot != h->n || !tn__typing_infer(r, &t) || !tn__typing_first(r, &t))
    tn__fail(q->p->c, TN_EFORMAT, "rule table %s: %s takes %u values, not %u", q->set->name, h->rule, r->nslot, h->n);
  for (uint32_t i = 0; i < h->n; i++)
    if (tn__typing_of(&t, &(tn__term){.form = TF_VAR, .slot = (uint8_t)i}) != TN__INDEX)
      tn__fail(q->p->c, TN_EFORMAT, "rule table %s: %s is not of dtype index, nothing follows by it", q->set->name,
               h->rule);
  for (uint32_t i = 0; i < h->n; i++) {
    tn__sb v;
    tn__sb_init(&v, q->p->a);
    print(q, &v, h->arg[i]);
    value[i] = tn__sb_str(&v);
  }
  const tn__rule *outer = q->r;
  const tn__typing *types = q->t;
  q->r = r, q->t = &t, q->value = value;
  const char *when = conditions(q), *then = equation(q);
  q->r = outer, q->t = types, q->value = NULL, q->side = side;
  tn__sb_printf(b, "(assert (=> %s %s))\n", when, then);
}

/* ---- the query ---- */

static bool reinterprets(const tn__term *x) {
  if (x->form == TF_OP && x->what == OP_BITCAST) return true;
  for (uint32_t i = 0; i < x->nkid; i++)
    if (reinterprets(x->kid[i])) return true;
  return false;
}

static bool is_bound(const tn__term *x, uint8_t s) { /* not one that only names a subterm */
  if (x->form == TF_AS) return is_bound(x->kid[1], s);
  if (x->form == TF_VAR) return x->slot == s;
  for (uint32_t i = 0; i < x->nkid; i++)
    if (is_bound(x->kid[i], s)) return true;
  return false;
}

static void declare(printer *q, tn__sb *b, tn__sb *names) {
  for (uint8_t s = 0; s < q->r->nslot; s++) {
    tn__term var = {.form = TF_VAR, .slot = s};
    if (!is_bound(q->r->lhs, s)) continue;
    const char *name = q->r->slot[s];
    tn__sb_printf(b, "(declare-const %s ", name);
    sort(q, b, tn__typing_of(q->t, &var));
    tn__sb_puts(b, ")\n");
    tn__sb_printf(names, "%s ", name);
    if (q->extreme[s])
      tn__sb_printf(b, "(declare-const lo_%s Int)\n(declare-const hi_%s Int)\n(assert (<= lo_%s %s hi_%s))\n", name,
                    name, name, name, name);
  }
}

const char *tn__smt_query(tn__proofs *p, const tn__ruleset *s, const tn__rule *r, const tn__typing *t,
                          bool conditions_only) {
  tn__sb definitions, side, hints, out, names;
  printer q = {
      .p = p, .set = s, .r = r, .t = t, .definitions = &definitions, .side = &side, .raw = reinterprets(r->lhs)};
  tn__sb_init(&definitions, p->a), tn__sb_init(&side, p->a), tn__sb_init(&hints, p->a), tn__sb_init(&out, p->a),
      tn__sb_init(&names, p->a);
  check_chain(p, s, r, 0);
  const char *when = conditions(&q), *equal = equation(&q);
  for (uint32_t i = 0; i < r->nhint && !conditions_only; i++) hint(&q, &hints, &r->hint[i]);
  if (q.failed) return NULL;
  tn__sb_puts(&out, "(set-option :produce-models true)\n(set-logic ALL)\n");
  tn__sb_puts(&out, tn__sb_str(&definitions));
  declare(&q, &out, &names);
  tn__sb_puts(&out, tn__sb_str(&side));
  tn__sb_puts(&out, tn__sb_str(&hints));
  tn__sb_printf(&out, "(assert %s)\n", when);
  if (!conditions_only) tn__sb_printf(&out, "(assert (not %s))\n", equal);
  tn__sb_puts(&out, "(check-sat)\n");
  if (names.n) tn__sb_printf(&out, "(get-value (%.*s))\n", (int)names.n - 1, tn__sb_str(&names));
  return tn__sb_str(&out);
}

/* ---- that no operand wraps ---- */

enum { OPERANDS = 1, COMPUTED = 2 };

/* (fits x) for every x that a division, a comparison, min or max takes; and that is computed when the row is applied.
 */
static void fits(printer *q, tn__sb *b, const tn__term *x, int which, bool operand) {
  bool computed = x->form == TF_FN && x->what != FN_LO && x->what != FN_HI;
  if (x->form != TF_NUM && which & (computed ? COMPUTED : operand ? OPERANDS : 0)) {
    tn__sb_puts(b, " (fits ");
    print(q, b, x);
    tn__sb_putc(b, ')');
  }
  for (uint32_t i = 0; i < x->nkid; i++) fits(q, b, x->kid[i], which, x->form == TF_OP && tn__table_exact_op(x->what));
}

/* What a row is applied to has not wrapped, constants are nodes, and what overflows when it is computed is refused. */
static const char *given_fits(printer *q) {
  tn__sb b;
  tn__sb_init(&b, q->p->a);
  fits(q, &b, q->r->lhs, OPERANDS | COMPUTED, false);
  fits(q, &b, q->r->rhs, COMPUTED, false);
  for (uint32_t i = 0; i < q->r->ncond; i++)
    for (int k = 0; k < tn__cond_args[q->r->cond[i].kind]; k++) fits(q, &b, q->r->cond[i].arg[k], COMPUTED, false);
  for (uint32_t i = 0; i < q->r->nslot; i++)
    if (q->r->is_const[i]) tn__sb_printf(&b, " (fits %s)", q->r->slot[i]);
  return tn__sb_str(&b);
}

const char *tn__smt_width_query(tn__proofs *p, const tn__ruleset *s, const tn__rule *r, const tn__typing *t,
                                bool checked) {
  tn__sb definitions, side, hints, out, names, claimed;
  printer q = {.p = p, .set = s, .r = r, .t = t, .definitions = &definitions, .side = &side};
  tn__sb_init(&definitions, p->a), tn__sb_init(&side, p->a), tn__sb_init(&hints, p->a), tn__sb_init(&out, p->a);
  tn__sb_init(&names, p->a), tn__sb_init(&claimed, p->a);
  const char *when = conditions(&q), *given = given_fits(&q);
  fits(&q, &claimed, r->rhs, OPERANDS, false);
  if (q.failed || !claimed.n) return NULL;
  for (uint32_t i = 0; i < r->nhint; i++) hint(&q, &hints, &r->hint[i]);
  tn__sb_puts(&out, "(set-option :produce-models true)\n(set-logic ALL)\n");
  tn__sb_puts(&out, tn__sb_str(&definitions));
  tn__sb_puts(&out,
              "(define-fun fits ((x Int)) Bool (and (<= (- 9223372036854775808) x) (<= x 9223372036854775807)))\n");
  declare(&q, &out, &names);
  tn__sb_puts(&out, tn__sb_str(&side));
  tn__sb_puts(&out, tn__sb_str(&hints));
  tn__sb_printf(&out, "(assert %s)\n(assert (and true%s))\n", when, given);
  if (checked) tn__sb_printf(&out, "(assert (and true%s)) ; the engine's check\n", tn__sb_str(&claimed));
  tn__sb_printf(&out, "(assert (not (and true%s)))\n(check-sat)\n(get-value (%.*s))\n", tn__sb_str(&claimed),
                (int)names.n - 1, tn__sb_str(&names));
  return tn__sb_str(&out);
}

bool tn__smt_means(int op, int dtype) { return tn__ops[op].group == G_CAST || meaning_of(op, dtype); }

void tn__smt_sort(tn__sb *b, int dtype) { sort(&(printer){0}, b, dtype); }

void tn__smt_call(tn__proofs *p, tn__sb *definitions, tn__sb *b, int op, int from, int to, const char *arguments) {
  printer q = {.p = p, .definitions = definitions};
  if (tn__ops[op].group == G_CAST) convert(&q, b, op, from, to);
  else {
    define(&q, op, from);
    tn__sb_printf(b, "(%s.%s ", tn__ops[op].text, tn__dtypes[from].name);
  }
  tn__sb_printf(b, "%s)", arguments);
}
