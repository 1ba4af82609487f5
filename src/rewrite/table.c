/* Text to rows: the parser of rule tables (rules/README.md), and the closed lists it knows. */
#include "rewrite/table.h"
#include <ctype.h>
#include <errno.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "ir/eval.h"

#define NAME_OF(kind, text, n) text,
#define ARGS_OF(kind, text, n) n,
const char *const tn__form_names[TF_COUNT] = {TN__FORMS(NAME_OF)};
static const uint8_t form_kids[TF_COUNT] = {TN__FORMS(ARGS_OF)};
const char *const tn__fn_names[FN_COUNT] = {TN__FNS(NAME_OF)};
const uint8_t tn__fn_args[FN_COUNT] = {TN__FNS(ARGS_OF)};
const char *const tn__argfn_names[AF_COUNT] = {TN__ARGFNS(NAME_OF)};
static const uint8_t argfn_args[AF_COUNT] = {TN__ARGFNS(ARGS_OF)};
const char *const tn__cond_names[TC_COUNT] = {TN__CONDS(NAME_OF)};
const uint8_t tn__cond_args[TC_COUNT] = {TN__CONDS(ARGS_OF)};

/* Exact constants of gradient rows: 40 digits, rounded once when converted. */
static const struct {
  const char *name, *digits;
} exact[] = {
    {"ln2", "0.6931471805599453094172321214581765680755"},
    {"log2e", "1.442695040888963407359924681001892137427"},
    {"ln10", "2.302585092994045684017991454684364207601"},
    {"log10e", "0.4342944819032518276511289189166050822944"},
    {"pi", "3.141592653589793238462643383279502884197"},
    {"half_pi", "1.570796326794896619231321691639751442099"},
    {"e", "2.718281828459045235360287471352662497757"},
    {"sqrt2", "1.414213562373095048801688724209698078570"},
    {"sqrt_half", "0.7071067811865475244008443621048490392848"},
    {"two_over_sqrt_pi", "1.128379167095512573896158903121545171688"},
    {"one_over_sqrt_2pi", "0.3989422804014326779399460599343818684759"},
};

static const struct {
  const char *name;
  uint8_t mask;
} classes[] = {
    {"index", TN__ONLY_INDEX}, {"int", TN__C_INT}, {"bool", TN__C_BOOL}, {"float", TN__C_FLOAT},
    {"number", TN__C_INT | TN__C_FLOAT}, {"intbool", TN__C_INT | TN__C_BOOL},
};

bool tn__table_class_ok(uint8_t cls, int dtype) {
  if (!cls) return true;
  return cls == TN__ONLY_INDEX ? dtype == TN__INDEX : (tn__dtypes[dtype].cls & cls) != 0;
}

static bool float_bits(const tn__term *num, int dtype, uint64_t *bits) {
  const int64_t most = INT64_C(1) << 53; /* beyond it not every integer is a double */
  *bits = tn__eval_from_double(dtype, num->num);
  if (num->exact || isnan(num->num)) return true;
  if (num->whole && (num->inum > most || num->inum < -most)) return false;
  double back = tn__eval_to_double(dtype, *bits);
  return !(back < num->num) && !(back > num->num);
}

bool tn__table_bits(const tn__term *num, int dtype, uint64_t *bits) {
  if (tn__is_float(dtype)) return float_bits(num, dtype, bits);
  if (!num->whole) return false;
  *bits = tn__eval_cast(TN_I64, dtype, (uint64_t)num->inum);
  bool held = (int64_t)*bits == num->inum && (num->inum >= 0 || tn__dtypes[dtype].is_signed);
  return held || num->inum == -1;
}

bool tn__table_exact_cast(int a, int b) {
  const tn__dtype_info *x = &tn__dtypes[a], *y = &tn__dtypes[b];
  if (a == b || x->cls == TN__C_BOOL) return true;
  if (a == TN__INDEX || b == TN__INDEX || x->cls != y->cls) return false;
  if (x->cls == TN__C_FLOAT) return x->mant <= y->mant && x->size < y->size; /* bf16 has exponents that f16 has not */
  return (y->is_signed || !x->is_signed) && 8 * x->size - x->is_signed <= 8 * y->size - y->is_signed;
}

static int64_t floor_div(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a % b < 0) != (b < 0)); }

/* a - b * floor_div(a, b), whose product may not fit */
static int64_t floor_mod(int64_t a, int64_t b) { return a % b + (a % b != 0 && (a % b < 0) != (b < 0) ? b : 0); }

bool tn__table_fn(tn__fn fn, int64_t a, int64_t b, int64_t *out) {
  switch (fn) {
  case FN_ADD: return !__builtin_add_overflow(a, b, out);
  case FN_SUB: return !__builtin_sub_overflow(a, b, out);
  case FN_MUL: return !__builtin_mul_overflow(a, b, out);
  case FN_NEG: return !__builtin_sub_overflow(0, a, out);
  case FN_MIN: *out = a < b ? a : b; return true;
  case FN_MAX: *out = a > b ? a : b; return true;
  default: break;
  }
  if (a == INT64_MIN || b == INT64_MIN) return false; /* so that no quotient and no absolute value overflows */
  switch (fn) {
  case FN_GCD:
    *out = (int64_t)tn__gcd(tn__magnitude(a), tn__magnitude(b));
    return *out >= 0; /* 2^63 is none */
  case FN_IDIV: return b && (*out = floor_div(a, b), true);
  case FN_MOD: return b && (*out = floor_mod(a, b), true);
  case FN_CEILDIV: return b && (*out = -floor_div(-a, b), true);
  default: return false;
  }
}

/* ---- words ---- */

typedef enum tok { T_END, T_WORD, T_OPEN, T_CLOSE, T_COLON, T_ARROW, T_COMPARE, T_STRING } tok;

typedef struct parser {
  tn_ctx *c;
  tn__arena *a;
  const char *table, *p; /* p: after the current word */
  int line, word_line;
  tok tok;
  const char *s; /* the current word */
  size_t n;
  const char *prev_end; /* end of the word before it */
  tn__rule *rule;
  bool assuming; /* reading what follows `assume` */
} parser;

static _Noreturn void bad(parser *p, const char *what) {
  tn__fail(p->c, TN_EFORMAT, "rule table %s, line %d, at '%.*s': %s", p->table, p->word_line, (int)p->n, p->s, what);
}

static bool word_char(char ch) { return isalnum((unsigned char)ch) || ch == '_' || ch == '#' || ch == '.'; }

static void skip_space(parser *p) {
  for (;; p->p++) {
    if (*p->p == ';')
      while (*p->p && *p->p != '\n') p->p++;
    if (*p->p == '\n') p->line++;
    else if (*p->p != ' ' && *p->p != '\t' && *p->p != '\r') return;
  }
}

static void next(parser *p) {
  p->prev_end = p->p;
  skip_space(p);
  p->s = p->p;
  p->word_line = p->line;
  char ch = *p->p;
  if (!ch) p->tok = T_END;
  else if (ch == '(') p->tok = T_OPEN, p->p++;
  else if (ch == ')') p->tok = T_CLOSE, p->p++;
  else if (ch == ':') p->tok = T_COLON, p->p++;
  else if (ch == '-' && p->p[1] == '>') p->tok = T_ARROW, p->p += 2;
  else if (strchr("<>=!", ch)) {
    p->tok = T_COMPARE;
    p->p += p->p[1] == '=' ? 2 : 1;
  } else if (ch == '"') {
    p->tok = T_STRING;
    p->p++;
    while (*p->p && *p->p != '"' && *p->p != '\n') p->p++;
    if (*p->p++ != '"') bad(p, "the string does not end");
  } else if (word_char(ch) || ch == '-') {
    p->tok = T_WORD;
    do p->p++;
    while (word_char(*p->p));
  } else {
    p->n = 1;
    bad(p, "no such character in a rule table");
  }
  p->n = (size_t)(p->p - p->s);
}

static bool is(const parser *p, const char *w) { return strlen(w) == p->n && !memcmp(p->s, w, p->n); }

static void want(parser *p, tok t, const char *what) {
  if (p->tok != t) bad(p, what);
  next(p);
}

static int find(const parser *p, const char *const *names, int n) {
  for (int i = 0; i < n; i++)
    if (*names[i] && is(p, names[i])) return i;
  return -1;
}

static char *word_dup(parser *p) {
  char *s = tn__arena_alloc(p->a, p->n + 1);
  memcpy(s, p->s, p->n);
  s[p->n] = 0;
  return s;
}

static bool at_row(const parser *p) {
  return p->tok == T_END || (p->tok == T_WORD && (is(p, "rule") || is(p, "grad") || is(p, "defined")));
}

/* ---- terms ---- */

/* A pattern binds variables; the divisor of a sum form computes with variables that another part of the pattern binds,
 * maybe further right; elsewhere they must be bound. */
typedef enum place { IN_PATTERN, IN_DIVISOR, IN_TEMPLATE } place;

static tn__term *new_term(parser *p, tn__form form, int what) {
  tn__term *t = tn__arena_zalloc(p->a, sizeof *t);
  t->form = (uint8_t)form;
  t->what = (uint8_t)what;
  return t;
}

static bool const_name(const char *s) {
  return strchr("ckg", s[0]) && strspn(s + 1, "0123456789") == strlen(s + 1);
}

/* A letter and digits: names that are printed for provers beside others, lo_x or H1, are none of these. */
static bool variable_name(const parser *p) {
  size_t digits = 1;
  while (digits < p->n && isdigit((unsigned char)p->s[digits])) digits++;
  return islower((unsigned char)*p->s) && digits == p->n;
}

static tn__term *variable(parser *p, place at, bool is_arg) {
  tn__rule *r = p->rule;
  int slot = find(p, r->slot, (int)r->nslot);
  if (slot < 0) {
    if (at == IN_TEMPLATE) bad(p, "the pattern does not bind this variable");
    if (!variable_name(p)) bad(p, "a variable is a letter, maybe with a number");
    if (r->nslot == TN__MAX_SLOTS) bad(p, "too many variables");
    slot = (int)r->nslot++;
    r->slot[slot] = word_dup(p);
    r->is_const[slot] = const_name(r->slot[slot]);
    r->is_arg[slot] = is_arg;
  }
  if (r->is_arg[slot] != is_arg) bad(p, is_arg ? "not an argument variable" : "an argument variable cannot stand here");
  tn__term *t = new_term(p, TF_VAR, 0);
  t->slot = (uint8_t)slot;
  next(p);
  return t;
}

static size_t digits(const char *s) { return strspn(s, "0123456789"); }

/* -1, 0.5, -0.0, inf, -inf, nan.  A number of only zeros behind the point is an integer, too. */
static tn__term *number(parser *p) {
  char *s = word_dup(p), *at = s + (*s == '-');
  tn__term *t = new_term(p, TF_NUM, 0);
  size_t n = digits(at), point = at[n] == '.' ? 1 + digits(at + n + 1) : 0;
  bool named = !strcmp(at, "inf") || !strcmp(s, "nan");
  if (!named && (!n || point == 1 || at[n + point])) bad(p, "not a number");
  errno = 0;
  t->num = strtod(s, NULL);
  t->whole = !named && strspn(at + n, ".0") == point;
  t->inum = t->whole ? strtoll(s, NULL, 10) : 0;
  if (errno) bad(p, "the number does not fit");
  next(p);
  return t;
}

static bool starts_number(const parser *p) {
  return isdigit((unsigned char)*p->s) || *p->s == '-' || is(p, "inf") || is(p, "nan");
}

static tn__term *term(parser *p, place at);

/* The argument of a movement or reduction: a variable, or an argument function over some. */
static tn__term *argument(parser *p, place at) {
  if (p->tok == T_WORD) {
    if (at == IN_PATTERN && find(p, p->rule->slot, (int)p->rule->nslot) >= 0) bad(p, "an argument is matched once");
    return variable(p, at, true);
  }
  want(p, T_OPEN, "an argument is a variable or a function of arguments");
  int fn = find(p, tn__argfn_names, AF_COUNT);
  if (fn < 0 || at == IN_PATTERN) bad(p, "no such argument function here");
  next(p);
  tn__term *t = new_term(p, TF_ARGFN, fn);
  for (; t->nkid < argfn_args[fn]; t->nkid++) t->kid[t->nkid] = argument(p, at);
  want(p, T_CLOSE, "expected )");
  return t;
}

static void kids(parser *p, tn__term *t, uint32_t n, place at) {
  for (; t->nkid < n; t->nkid++) t->kid[t->nkid] = term(p, at);
}

static tn__term *op_term(parser *p, place at) {
  int op = tn__op_parse(p->s, p->n);
  if (op < 0) bad(p, "no such op or form");
  next(p);
  tn__term *t = new_term(p, TF_OP, op);
  bool has_arg = tn__ops[op].group == G_MOVE || tn__ops[op].group == G_REDUCE;
  uint32_t n = has_arg ? 1 : tn__ops[op].max_src;
  if (n == 0 || n > 3) bad(p, "this op cannot stand in a rule");
  kids(p, t, n, at);
  if (has_arg) t->kid[t->nkid++] = argument(p, at);
  return t;
}

static tn__term *desugar_sub(parser *p, tn__term *t) {
  tn__term *neg = new_term(p, TF_OP, OP_NEG), *add = new_term(p, TF_OP, OP_ADD);
  neg->kid[0] = t->kid[1], neg->nkid = 1;
  add->kid[0] = t->kid[0], add->kid[1] = neg, add->nkid = 2;
  return add;
}

static tn__term *form_term(parser *p, place at, int form) {
  if (form != TF_SUB && (form == TF_CAST_LIKE) != (at == IN_TEMPLATE)) bad(p, "this form cannot stand here");
  next(p);
  tn__term *t = new_term(p, (tn__form)form, 0);
  bool sum = form == TF_SPLIT || form == TF_SPLIT_ALL || form == TF_PARTS;
  if (sum) t->kid[t->nkid++] = term(p, IN_DIVISOR);
  kids(p, t, form_kids[form], at);
  if ((form == TF_AS || form == TF_CAST_LIKE) && t->kid[0]->form != TF_VAR) bad(p, "this form names a variable first");
  return form == TF_SUB ? desugar_sub(p, t) : t;
}

static tn__term *term(parser *p, place at) {
  if (p->tok == T_WORD && starts_number(p)) return number(p);
  if (p->tok == T_WORD) {
    for (size_t i = 0; p->rule->verdict != TV_RULE && i < sizeof exact / sizeof *exact; i++)
      if (is(p, exact[i].name)) {
        tn__term *t = new_term(p, TF_NUM, 0);
        t->num = strtod(exact[i].digits, NULL);
        t->exact = exact[i].name;
        next(p);
        return t;
      }
    return variable(p, at, false);
  }
  want(p, T_OPEN, "expected a number, a variable or (");
  tn__term *t;
  int form = find(p, tn__form_names, TF_COUNT), fn = find(p, tn__fn_names, FN_COUNT);
  if (fn >= 0) {
    if (at == IN_PATTERN) bad(p, "a function cannot stand in a pattern");
    next(p);
    t = new_term(p, TF_FN, fn);
    kids(p, t, tn__fn_args[fn], at);
  } else t = form >= 0 ? form_term(p, at, form) : op_term(p, at);
  want(p, T_CLOSE, "expected )");
  return t;
}

/* ---- rows ---- */

static bool same_leaf(const tn__term *x, const tn__term *y) {
  return x->form == y->form && (x->form == TF_VAR ? x->slot == y->slot : x->form == TF_NUM);
}

/* What a row assumes fails almost nowhere: that something is not equal to something else. */
static void check_assumption(parser *p, tn__cond_kind kind, const tn__term *const *arg) {
  bool leaves = kind == TC_NE && arg[0]->form <= TF_NUM && arg[1]->form <= TF_NUM;
  if (!leaves || same_leaf(arg[0], arg[1])) bad(p, "a row may assume of a variable what it is not equal to, no more");
}

static void check_numbers(parser *p, tn__cond_kind kind, const tn__term *const *arg) {
  for (int i = 0; kind <= TC_GE && i < 2; i++)
    if (arg[i]->form == TF_NUM && !arg[i]->whole) bad(p, "conditions of rules are about integers");
}

static void add_cond(parser *p, tn__cond_kind kind, const tn__term *const *arg) {
  uint32_t n = p->rule->ncond + p->rule->nassume;
  bool rule = p->rule->verdict == TV_RULE;
  if (rule && p->assuming) check_assumption(p, kind, arg);
  if (rule) check_numbers(p, kind, arg);
  if (n == TN__MAX_CONDS) bad(p, "too many conditions");
  tn__cond *d = &p->rule->cond[n];
  d->kind = kind;
  p->rule->fits |= kind == TC_FITS;
  for (int i = 0; i < tn__cond_args[kind]; i++) d->arg[i] = arg[i];
  if (p->assuming) p->rule->nassume++;
  else p->rule->ncond++;
}

static void class_cond(parser *p, const tn__term *var) {
  next(p);
  if (var->form != TF_VAR) bad(p, "only a variable has a dtype class");
  for (size_t i = 0; i < sizeof classes / sizeof *classes; i++)
    if (is(p, classes[i].name)) {
      p->rule->cls[var->slot] = classes[i].mask;
      next(p);
      return;
    }
  bad(p, "no such dtype class");
}

static bool arg_place(tn__cond_kind kind, int i) {
  return kind == TC_IDENTITY || kind == TC_ZEROS || kind == TC_EMPTY || (kind == TC_UNDOES && i < 2);
}

static void condition(parser *p) {
  const tn__term *arg[3];
  if (p->tok == T_OPEN) {
    const char *at = p->s;
    int line = p->line;
    next(p);
    int kind = find(p, tn__cond_names, TC_COUNT);
    if (kind >= 0) {
      if ((kind >= TC_WHOLE) != (p->rule->verdict != TV_RULE)) bad(p, "this predicate is of the other kind of rows");
      next(p);
      for (int i = 0; i < tn__cond_args[kind]; i++)
        arg[i] = arg_place((tn__cond_kind)kind, i) ? argument(p, IN_TEMPLATE) : term(p, IN_TEMPLATE);
      want(p, T_CLOSE, "expected )");
      add_cond(p, (tn__cond_kind)kind, arg);
      return;
    }
    p->p = at, p->line = line; /* a function begins a comparison */
    next(p);
  }
  arg[0] = term(p, IN_TEMPLATE);
  if (p->tok == T_COLON) {
    class_cond(p, arg[0]);
    return;
  }
  if (p->tok != T_COMPARE) bad(p, "expected a comparison");
  for (; p->tok == T_COMPARE; arg[0] = arg[1]) {
    int kind = find(p, tn__cond_names, TC_GE + 1);
    if (kind < 0) bad(p, "no such comparison");
    next(p);
    arg[1] = term(p, IN_TEMPLATE);
    add_cond(p, (tn__cond_kind)kind, arg);
  }
}

static int root_op(const parser *p, const tn__term *t) {
  if (t->form == TF_OP) return t->what;
  if (t->form == TF_PICK) return OP_ADD; /* a sum of at least two terms */
  tn__fail(p->c, TN_EFORMAT, "rule table %s, line %d: %s: a pattern starts with an op, or with pick", p->table,
           p->rule->line, p->rule->name);
}

static bool ends_conditions(const parser *p) {
  return at_row(p) || (p->tok == T_WORD && (is(p, "mode") || is(p, "assume") || is(p, "by") || is(p, "proof")));
}

/* One string, or several that follow each other, with a space between. */
static const char *quoted(parser *p, const char *what) {
  tn__sb b;
  tn__sb_init(&b, p->a);
  next(p);
  if (p->tok != T_STRING) bad(p, what);
  for (; p->tok == T_STRING; next(p)) tn__sb_printf(&b, "%s%.*s", b.n ? " " : "", (int)p->n - 2, p->s + 1);
  return tn__arena_strdup(p->a, tn__sb_str(&b));
}

/* What the provers need besides: (NAME value ...) ... after `by`. */
static void hints(parser *p) {
  tn__rule *r = p->rule;
  while (p->tok == T_OPEN) {
    if (r->nhint == TN__MAX_HINTS) bad(p, "too many hints");
    tn__hint *h = &r->hint[r->nhint++];
    next(p);
    h->rule = word_dup(p);
    for (next(p); p->tok != T_CLOSE; h->n++) {
      if (h->n == TN__MAX_SLOTS) bad(p, "too many values");
      h->arg[h->n] = term(p, IN_TEMPLATE);
    }
    next(p);
  }
}

static void rule_row(parser *p) {
  tn__rule *r = p->rule;
  r->name = word_dup(p);
  if (strspn(r->name, "abcdefghijklmnopqrstuvwxyz0123456789_") != p->n || !islower((unsigned char)*r->name))
    bad(p, "a row's name is of small letters, digits and _");
  next(p);
  r->lhs = term(p, IN_PATTERN);
  r->op = root_op(p, r->lhs);
  want(p, T_ARROW, "expected ->");
  r->rhs = term(p, IN_TEMPLATE);
  if (p->tok == T_WORD && is(p, "when"))
    for (next(p); !ends_conditions(p);) condition(p);
  p->assuming = p->tok == T_WORD && is(p, "assume");
  if (p->assuming)
    for (next(p); !ends_conditions(p);) condition(p);
  r->mode = TN_MODE_STRICT;
  if (p->tok == T_WORD && is(p, "mode")) {
    next(p);
    if (is(p, "fast")) r->mode = TN_MODE_FAST;
    else if (is(p, "default")) r->mode = TN_MODE_DEFAULT;
    else bad(p, "the mode is default or fast");
    next(p);
  }
  if (p->tok == T_WORD && is(p, "by")) next(p), hints(p);
  if (p->tok == T_WORD && is(p, "proof")) r->proof = quoted(p, "the proof, in quotes");
  if (r->nassume && r->mode != TN_MODE_FAST) bad(p, "only a row of mode fast may assume");
}

static bool ends_clause(const parser *p) {
  return at_row(p) ||
         (p->tok == T_WORD && (is(p, "domain") || is(p, "kink") || is(p, "bare") || is(p, "on") || is(p, "proof")));
}

static void clause(parser *p) {
  tn__rule *r = p->rule;
  if (r->nclause == TN__MAX_CLAUSES) bad(p, "too many clauses");
  tn__clause *q = &r->clause[r->nclause++];
  *q = (tn__clause){.kink = is(p, "kink"), .bare = is(p, "bare"), .first = r->nassume};
  for (next(p); !ends_clause(p);) condition(p);
  q->n = r->nassume - q->first;
  if (!q->n) bad(p, "a clause has conditions");
}

static const char *const gradient_slots[] = {"x", "y", "z", "out", "g"};

static int scalar_op(parser *p) {
  int op = tn__op_parse(p->s, p->n);
  if (op < 0 || tn__ops[op].group < G_UNARY || tn__ops[op].group > G_CAST) bad(p, "a gradient row is for a scalar op");
  next(p);
  return op;
}

/* Clauses are for the provers: nothing checks them. */
static void clauses(parser *p, const char *const *words) {
  p->assuming = true;
  while (p->tok == T_WORD && find(p, words, 3) >= 0) clause(p);
  p->assuming = false;
}

/* defined OP on CONDITION... [on CONDITION...]... */
static void defined_row(parser *p, tn__ruleset *s) {
  static const char *const words[3] = {"on", "", ""};
  tn__rule *r = p->rule;
  const char *name = word_dup(p);
  r->op = scalar_op(p);
  r->name = name;
  for (; r->nslot < tn__ops[r->op].max_src; r->nslot++) r->slot[r->nslot] = gradient_slots[r->nslot];
  clauses(p, words);
  if (!r->nclause) bad(p, "say on what");
  if (s->defined[r->op]) bad(p, "the row above is about the op of an earlier one");
  s->defined[r->op] = tn__arena_dup(p->a, r, sizeof *r);
}

static void grad_row(parser *p) {
  static const char *const words[3] = {"domain", "kink", "bare"}, *const *names = gradient_slots;
  tn__rule *r = p->rule;
  int op = r->op = scalar_op(p);
  int k = find(p, names, 3);
  if (k < 0 || (uint32_t)k >= tn__ops[op].max_src) bad(p, "not a source of this op");
  char name[64];
  snprintf(name, sizeof name, "%s.%s", tn__ops[op].text, names[k]);
  r->name = tn__arena_strdup(p->a, name);
  r->src = (uint32_t)k;
  for (r->nslot = 0; r->nslot < 5; r->nslot++) r->slot[r->nslot] = names[r->nslot];
  next(p);
  want(p, T_ARROW, "expected ->");
  if (is(p, "zero")) r->verdict = TV_ZERO, next(p);
  else if (is(p, "forbidden")) {
    r->verdict = TV_FORBIDDEN;
    r->why = quoted(p, "say why, in quotes");
  } else r->verdict = TV_GRAD, r->rhs = term(p, IN_TEMPLATE);
  clauses(p, words);
  if (p->tok == T_WORD && is(p, "proof")) r->proof = quoted(p, "the proof, in quotes");
}

static void index_rows(tn__arena *a, tn__ruleset *s) {
  for (uint32_t i = 0; i < s->n; i++) s->first[s->rule[i].op + 1]++;
  for (int op = 0; op < OP_COUNT; op++) s->first[op + 1] += s->first[op];
  s->by_op = tn__arena_alloc(a, (s->n + 1) * sizeof *s->by_op);
  uint32_t at[OP_COUNT];
  memcpy(at, s->first, sizeof at);
  for (uint32_t i = 0; i < s->n; i++) s->by_op[at[s->rule[i].op]++] = i;
}

tn__ruleset *tn__table_parse(tn_ctx *c, tn__arena *a, const char *name, const char *text) {
  tn__ruleset *s = tn__arena_zalloc(a, sizeof *s);
  s->name = tn__arena_strdup(a, name);
  s->text = tn__arena_strdup(a, text);
  parser p = {.c = c, .a = a, .table = s->name, .p = s->text, .line = 1};
  tn__vec(tn__rule) rows = {0};
  next(&p);
  while (p.tok != T_END) {
    if (!at_row(&p)) bad(&p, "a row starts with rule or grad");
    bool defined = is(&p, "defined");
    tn__rule r = {.text = p.s, .line = p.word_line, .verdict = is(&p, "rule") ? TV_RULE : TV_GRAD};
    p.rule = &r;
    next(&p);
    if (defined) {
      defined_row(&p, s);
      continue;
    }
    if (r.verdict == TV_RULE) rule_row(&p);
    else grad_row(&p);
    r.len = (uint32_t)(p.prev_end - r.text);
    for (uint32_t i = 0; i < rows.n; i++)
      if (!strcmp(rows.v[i].name, r.name)) bad(&p, "the row above has the name of an earlier one");
    tn__vec_push(a, &rows, r);
  }
  s->rule = rows.v;
  s->n = rows.n;
  index_rows(a, s);
  return s;
}
