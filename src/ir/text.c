/* Graphs as text, both ways; see text.h.
 *
 * A line is   %3 = add f32[64,B] %1 %2 {args}   with sources `%n` or bare index constants.  Everything a node is made
 * of stands there, so the parser hands exactly that to tn__node_make, which checks it; the type's shape is compared
 * afterwards.
 *
 * Numbers never depend on the locale: the decimal point is placed and taken out here, and the C library only ever sees
 * the form 123e-4. */
#include "ir/text.h"
#include "ir/eval.h"
#include <ctype.h>
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* ---- constants --------------------------------------------------------------------------------------------------- */

static uint64_t width_mask(int dtype) {
  size_t size = tn__size_of(dtype);
  return size == 0 || size >= 8 ? UINT64_MAX : ((uint64_t)1 << (8 * size)) - 1;
}

static bool is_unsigned64(int dtype) {
  return tn__is_int(dtype) && !tn__dtypes[dtype].is_signed && tn__size_of(dtype) == 8;
}

/* Digits d1 d2 ... dn meaning d1.d2...dn * 10^exp10, always written with a '.' or an 'e'. */
static void put_decimal(tn__sb *out, const char *digits, int n, int exp10) {
  if (exp10 < -4 || exp10 > 15) {
    tn__sb_putc(out, digits[0]);
    if (n > 1) tn__sb_putc(out, '.');
    tn__sb_putn(out, digits + 1, (size_t)(n - 1));
    tn__sb_printf(out, "e%d", exp10);
    return;
  }
  if (exp10 < 0) tn__sb_puts(out, "0.");
  for (int i = -1; i > exp10; i--) tn__sb_putc(out, '0');
  for (int i = 0; i < n || i <= exp10; i++) {
    if (i > 0 && i == exp10 + 1) tn__sb_putc(out, '.');
    tn__sb_putc(out, i < n ? digits[i] : '0');
  }
  if (exp10 >= 0 && n <= exp10 + 1) tn__sb_puts(out, ".0");
}

/* Reads "ddd.ddde-dd" without its sign; false if it is no number. */
static bool read_decimal(const char *s, size_t n, double *v) {
  char digits[96];
  size_t used = 0, i = 0;
  long point = 0, exp10 = 0;
  bool seen_point = false;
  for (; i < n && (isdigit((unsigned char)s[i]) || (s[i] == '.' && !seen_point)); i++) {
    if (s[i] == '.') {
      seen_point = true;
      continue;
    }
    if (used == 64) return false;
    digits[used++] = s[i];
    point += seen_point;
  }
  if (used == 0) return false;
  if (i < n && s[i] == 'e') {
    bool minus = ++i < n && s[i] == '-';
    i += minus;
    if (i == n || n - i > 4) return false;
    for (; i < n; i++) {
      if (!isdigit((unsigned char)s[i])) return false;
      exp10 = exp10 * 10 + (s[i] - '0');
    }
    if (minus) exp10 = -exp10;
  }
  if (i != n) return false;
  snprintf(digits + used, sizeof digits - used, "e%ld", exp10 - point);
  *v = strtod(digits, NULL);
  return true;
}

/* The shortest decimal that reads back to the same bits; NaNs, whose payload counts, as hexadecimal bits. */
static void put_float(tn__sb *out, int dtype, uint64_t bits) {
  double v = tn__eval_to_double(dtype, bits);
  if (isnan(v)) {
    tn__sb_printf(out, "0x%" PRIx64, bits & width_mask(dtype));
    return;
  }
  if (signbit(v)) tn__sb_putc(out, '-');
  v = fabs(v);
  if (isinf(v)) {
    tn__sb_puts(out, "inf");
    return;
  }
  uint64_t want = tn__eval_from_double(dtype, v);
  for (int precision = 0; precision < 17; precision++) {
    char text[40], digits[24];
    double back = 0;
    snprintf(text, sizeof text, "%.*e", precision, v);
    int n = 0;
    const char *p = text;
    for (; *p != 'e'; p++)
      if (isdigit((unsigned char)*p)) digits[n++] = *p;
    int exp10 = atoi(p + 1);
    digits[n] = 0;
    snprintf(text, sizeof text, "%se%d", digits, exp10 - (n - 1));
    if (!read_decimal(text, strlen(text), &back) || tn__eval_from_double(dtype, back) != want) continue;
    put_decimal(out, digits, n, exp10);
    return;
  }
}

static void put_const(tn__sb *out, const tn_node *n) {
  if (tn__is_float(n->dtype)) put_float(out, n->dtype, (uint64_t)n->ints[0]);
  else if (is_unsigned64(n->dtype)) tn__sb_printf(out, "%" PRIu64, (uint64_t)n->ints[0]);
  else tn__sb_printf(out, "%" PRId64, n->ints[0]);
}

/* ---- expressions ------------------------------------------------------------------------------------------------- */

/* How an op is written in an expression: infix with its precedence, else as a call. */
typedef struct spelling {
  const char *text;
  int prec;
} spelling;
enum {
  P_NONE,
  P_COND,
  P_OR,
  P_XOR,
  P_AND,
  P_EQ,
  P_LT,
  P_SHIFT,
  P_ADD,
  P_MUL,
  P_UNARY,
  P_NEGATED /* a constant, its sign turned */
};
static const spelling spellings[OP_COUNT] = {
    [OP_OR] = {" | ", P_OR},  [OP_XOR] = {" ^ ", P_XOR}, [OP_AND] = {" & ", P_AND},    [OP_EQ] = {" == ", P_EQ},
    [OP_NE] = {" != ", P_EQ}, [OP_LT] = {" < ", P_LT},   [OP_LE] = {" <= ", P_LT},     [OP_SHL] = {" << ", P_SHIFT},
    [OP_ADD] = {" + ", P_ADD}, [OP_MUL] = {"*", P_MUL},  [OP_SHR] = {" >> ", P_SHIFT}, [OP_IDIV] = {"/", P_MUL},
    [OP_MOD] = {"%", P_MUL},  [OP_DIV] = {"/", P_MUL},   [OP_NEG] = {"-", P_UNARY},    [OP_NOT] = {"!", P_UNARY},
    [OP_WHERE] = {" ? ", P_COND},
};

/* A shared subexpression is written out at each use, so a small graph can have an endless text: past this many nodes
 * the rest is "...". */
enum { EXPR_NODES = 400 };

typedef struct todo { /* one thing left to print: text, or a node in a place that binds as tight as prec */
  const char *text;
  tn_node *node;
  int prec;
} todo;
typedef tn__vec(todo) todos;

static void push_text(tn__arena *a, todos *s, const char *text) { tn__vec_push(a, s, ((todo){text, NULL, 0})); }
static void push_node(tn__arena *a, todos *s, tn_node *n, int prec) { tn__vec_push(a, s, ((todo){NULL, n, prec})); }

static void push_call(tn__arena *a, todos *s, tn_node *n) {
  push_text(a, s, ")");
  for (uint32_t i = n->nsrc; i && i--;) {
    push_node(a, s, n->src[i], P_NONE);
    push_text(a, s, i ? ", " : "(");
  }
  if (n->nsrc == 0) push_text(a, s, "(");
  push_text(a, s, n->op == OP_CAST ? tn__dtypes[n->dtype].name : tn__ops[n->op].text);
}

static void push_infix(tn__arena *a, todos *s, tn_node *n, spelling sp, int place) {
  bool paren = sp.prec < place;
  int64_t k;
  if (paren) push_text(a, s, ")");
  if (sp.prec == P_UNARY) {
    push_node(a, s, n->src[0], P_UNARY + 1);
    push_text(a, s, sp.text);
  } else if (sp.prec == P_COND) {
    push_node(a, s, n->src[2], P_COND);
    push_text(a, s, " : ");
    push_node(a, s, n->src[1], P_COND + 1);
    push_text(a, s, sp.text);
    push_node(a, s, n->src[0], P_COND + 1);
  } else if (n->op == OP_ADD && n->src[1]->op == OP_NEG) {
    push_node(a, s, n->src[1]->src[0], P_ADD + 1);
    push_text(a, s, " - ");
    push_node(a, s, n->src[0], P_ADD);
  } else if (n->op == OP_ADD && tn__const_int(n->src[1], &k) && k < 0 && k > INT64_MIN &&
             !is_unsigned64(n->src[1]->dtype)) {
    push_node(a, s, n->src[1], P_NEGATED);
    push_text(a, s, " - ");
    push_node(a, s, n->src[0], P_ADD);
  } else {
    push_node(a, s, n->src[1], sp.prec + 1);
    push_text(a, s, sp.text);
    push_node(a, s, n->src[0], sp.prec);
  }
  if (paren) push_text(a, s, "(");
}

static void print_expr(tn__sb *out, tn_node *root, todos *stack) {
  tn__arena *a = out->arena;
  int left = EXPR_NODES;
  stack->n = 0;
  push_node(a, stack, root, P_NONE);
  while (stack->n) {
    todo t = stack->v[--stack->n];
    if (t.text) {
      tn__sb_puts(out, t.text);
      continue;
    }
    tn_node *n = t.node;
    if (left-- <= 0) {
      tn__sb_puts(out, "...");
      continue;
    }
    switch ((tn__op)n->op) {
    case OP_CONST:
      if (t.prec == P_NEGATED) tn__sb_printf(out, "%" PRId64, -n->ints[0]);
      else put_const(out, n);
      break;
    case OP_VAR: tn__sb_puts(out, n->name ? n->name : "?"); break;
    case OP_DATUM: tn__sb_printf(out, "d%" PRId64, n->ints[0]); break;
    case OP_RANGE: tn__sb_printf(out, "r%" PRId64, n->nint > RANGE_ID ? n->ints[RANGE_ID] : -1); break;
    case OP_PARAM: tn__sb_printf(out, "p%" PRId64, n->ints[0]); break;
    case OP_STORAGE: tn__sb_printf(out, "s%" PRId64, n->ints[0]); break;
    default:
      if (spellings[n->op].text) push_infix(a, stack, n, spellings[n->op], t.prec);
      else push_call(a, stack, n);
    }
  }
}

void tn__print_expr(tn__sb *out, tn_node *n) {
  todos stack = {0};
  print_expr(out, n, &stack);
}

/* ---- printing ---------------------------------------------------------------------------------------------------- */

static void put_type(tn__sb *out, const tn_node *n, todos *stack) {
  tn__sb_puts(out, tn__dtypes[n->dtype].name);
  for (uint32_t i = 0; i < n->rank; i++) {
    tn__sb_putc(out, i ? ',' : '[');
    print_expr(out, n->dim[i], stack);
  }
  if (n->rank) tn__sb_putc(out, ']');
}

static void put_string(tn__sb *out, const char *s) {
  tn__sb_putc(out, '"');
  for (; *s; s++) {
    unsigned char ch = (unsigned char)*s;
    if (ch == '"' || ch == '\\') tn__sb_printf(out, "\\%c", ch);
    else if (ch < 0x20 || ch == 0x7f) tn__sb_printf(out, "\\%02x", ch);
    else tn__sb_putc(out, (char)ch);
  }
  tn__sb_putc(out, '"');
}

/* Integer number `at` of some arguments is an enumerator and goes by its name; NULL: it does not. */
static const char *enumerator(int op, uint32_t at, int64_t value) {
  bool of_acc = op == OP_REDUCE || op == OP_RUNNING || op == OP_SETACC || op == OP_GETACC;
  bool is_op = at == 0 && (of_acc || op == OP_SCATTER || op == OP_STOREADD);
  if (value < 0) return NULL;
  if (is_op) return value < OP_COUNT ? tn__ops[value].text : NULL;
  if (op == OP_REQUIRE) return at == 0 && value < REQ_COUNT ? tn__requirement_names[value] : NULL;
  if (op != OP_RANGE) return NULL;
  if (at == RANGE_AXIS) return value < AX_COUNT ? tn__axis_names[value] : NULL;
  return at == RANGE_ROLE && value < ROLE_COUNT ? tn__role_names[value] : NULL;
}

static void put_args(tn__sb *out, const tn_node *n) {
  bool named = n->name && *n->name;
  if (!named && n->nint == 0) return;
  tn__sb_puts(out, " {");
  if (n->op == OP_CONST) {
    put_const(out, n);
  } else {
    if (named) put_string(out, n->name);
    for (uint32_t i = 0; i < n->nint; i++) {
      const char *word = enumerator(n->op, i, n->ints[i]);
      if (i || named) tn__sb_putc(out, ' ');
      if (word) tn__sb_puts(out, word);
      else tn__sb_printf(out, "%" PRId64, n->ints[i]);
    }
  }
  tn__sb_putc(out, '}');
}

static bool is_inline(const tn_node *n) { return n->op == OP_CONST && n->dtype == TN__INDEX; }

void tn__print(tn__sb *out, tn_node *root) {
  tn__nodes order = {0};
  todos stack = {0};
  tn__map number;
  uint64_t next = 1;
  tn__topo(out->arena, &root, 1, &order);
  tn__map_init(&number, out->arena);
  for (uint32_t k = 0; k < order.n; k++) {
    tn_node *n = order.v[k];
    if (is_inline(n) && n != root) continue;
    tn__sb_printf(out, "%%%" PRIu64 " = %s ", next, tn__ops[n->op].text);
    tn__map_put(&number, (uint64_t)(uintptr_t)n, next++);
    put_type(out, n, &stack);
    for (uint32_t i = 0; i < n->nsrc; i++) {
      uint64_t at = 0;
      if (is_inline(n->src[i])) {
        tn__sb_printf(out, " %" PRId64, n->src[i]->ints[0]);
      } else {
        tn__map_get(&number, (uint64_t)(uintptr_t)n->src[i], &at);
        tn__sb_printf(out, " %%%" PRIu64, at);
      }
    }
    put_args(out, n);
    tn__sb_putc(out, '\n');
  }
}

/* ---- parsing ----------------------------------------------------------------------------------------------------- */

typedef struct parser {
  tn_ctx *c;
  const char *at, *line_start;
  int line;
  tn__map nodes;           /* label -> node */
  tn__vec(tn_node *) src;  /* of the line being read */
  tn__vec(int64_t) ints;
  tn__sb type;             /* scratch for the comparison of types */
  todos stack;
  tn_node *root;
  tn__map *line_of;        /* node -> the line that first gives it; NULL: nobody asks */
} parser;

_Noreturn static void fail(parser *p, const char *what) {
  tn__fail(p->c, TN_EFORMAT, "line %d, column %d: %s", p->line, (int)(p->at - p->line_start) + 1, what);
}

static void skip_blanks(parser *p) {
  while (*p->at == ' ' || *p->at == '\t' || *p->at == '\r') p->at++;
}

static bool at_line_end(parser *p) {
  skip_blanks(p);
  return *p->at == 0 || *p->at == '\n' || *p->at == '#';
}

static void expect(parser *p, char ch, const char *what) {
  if (*p->at != ch) fail(p, what);
  p->at++;
}

static bool is_word(char ch) { return isalnum((unsigned char)ch) || ch == '_'; }

static size_t word_length(const parser *p) {
  size_t n = 0;
  while (is_word(p->at[n])) n++;
  return n;
}

/* An unsigned decimal number up to `most`. */
static uint64_t read_digits(parser *p, uint64_t most, const char *what) {
  uint64_t v = 0;
  if (!isdigit((unsigned char)*p->at)) fail(p, what);
  for (; isdigit((unsigned char)*p->at); p->at++) {
    uint64_t digit = (uint64_t)(*p->at - '0');
    if (v > (most - digit) / 10) fail(p, "the number is too large");
    v = v * 10 + digit;
  }
  if (is_word(*p->at)) fail(p, what);
  return v;
}

static int64_t read_int(parser *p) {
  bool minus = *p->at == '-';
  p->at += minus;
  uint64_t v = read_digits(p, (uint64_t)INT64_MAX + minus, "expected an integer");
  return minus && v ? -(int64_t)(v - 1) - 1 : (int64_t)v;
}

static uint64_t read_hex(parser *p, uint64_t mask) {
  uint64_t v = 0;
  const char *start = p->at += 2;
  for (; isxdigit((unsigned char)*p->at); p->at++) {
    char ch = *p->at;
    if (v > mask >> 4) fail(p, "the bit pattern is too wide for the dtype");
    v = v << 4 | (uint64_t)(isdigit((unsigned char)ch) ? ch - '0' : tolower((unsigned char)ch) - 'a' + 10);
  }
  if (p->at == start) fail(p, "expected hexadecimal digits");
  return v;
}

static uint64_t read_float(parser *p, int dtype) {
  if (p->at[0] == '0' && p->at[1] == 'x') return read_hex(p, width_mask(dtype));
  bool minus = *p->at == '-';
  double v = INFINITY;
  size_t n = minus;
  while (is_word(p->at[n]) || p->at[n] == '.' || (p->at[n] == '-' && n && p->at[n - 1] == 'e')) n++;
  if (!(n - minus == 3 && memcmp(p->at + minus, "inf", 3) == 0) && !read_decimal(p->at + minus, n - minus, &v))
    fail(p, "expected a number");
  p->at += n;
  return tn__eval_from_double(dtype, minus ? -v : v);
}

static int64_t read_const(parser *p, int dtype) {
  if (tn__is_float(dtype)) return (int64_t)read_float(p, dtype);
  if (is_unsigned64(dtype)) return (int64_t)read_digits(p, UINT64_MAX, "expected an unsigned integer");
  int64_t v = read_int(p), lo = INT64_MIN, hi = INT64_MAX;
  uint32_t bits = (uint32_t)tn__size_of(dtype) * 8;
  if (dtype == TN_BOOL) {
    lo = 0, hi = 1;
  } else if (dtype != TN__INDEX && bits < 64) {
    bool is_signed = tn__dtypes[dtype].is_signed;
    hi = (INT64_C(1) << (bits - is_signed)) - 1;
    lo = is_signed ? -hi - 1 : 0;
  }
  if (v < lo || v > hi) fail(p, "the number does not fit the dtype");
  return v;
}

static char *read_string(parser *p) {
  size_t room = strcspn(++p->at, "\n") + 1, n = 0;
  char *s = tn__alloc(p->c, room);
  for (; *p->at != '"'; p->at++) {
    char ch = *p->at;
    if (ch == 0 || ch == '\n') fail(p, "the string has no end");
    if (ch == '\\' && (p->at[1] == '"' || p->at[1] == '\\')) {
      ch = *++p->at;
    } else if (ch == '\\') {
      char hex[3] = {p->at[1], p->at[1] ? p->at[2] : (char)0, 0};
      if (!isxdigit((unsigned char)hex[0]) || !isxdigit((unsigned char)hex[1]) ||
          (ch = (char)strtol(hex, NULL, 16)) == 0)
        fail(p, "bad escape in a string");
      p->at += 2;
    }
    s[n++] = ch;
  }
  p->at++;
  s[n] = 0;
  return s;
}

static uint64_t read_label(parser *p) {
  expect(p, '%', "expected %number");
  return read_digits(p, INT64_MAX, "expected a number after %");
}

static tn__op read_op(parser *p) {
  size_t n = word_length(p);
  int op = tn__op_parse(p->at, n);
  if (op < 0) fail(p, "unknown op");
  p->at += n;
  return (tn__op)op;
}

/* Steps over the shape; what it should say is known only once the node is made. */
static int read_type(parser *p) {
  size_t n = word_length(p);
  int dtype = tn__dtype_parse(p->at, n), depth = 0;
  if (dtype < 0) fail(p, "unknown dtype");
  p->at += n;
  if (*p->at != '[') return dtype;
  do {
    if (*p->at == '[') depth++;
    if (*p->at == ']') depth--;
    if (*p->at == 0 || *p->at == '\n') fail(p, "the shape has no end");
    p->at++;
  } while (depth);
  return dtype;
}

static void read_sources(parser *p) {
  p->src.n = 0;
  while (!at_line_end(p) && *p->at != '{') {
    tn_node *n;
    if (*p->at == '%') {
      const char *start = p->at;
      uint64_t label = read_label(p), node = 0;
      if (!tn__map_get(&p->nodes, label, &node)) {
        p->at = start;
        fail(p, "this node has not been defined");
      }
      n = (tn_node *)(uintptr_t)node;
    } else {
      int64_t v = read_int(p);
      n = tn__node_make(p->c, &(tn__make){.op = OP_CONST, .dtype = TN__INDEX, .ints = &v, .nint = 1});
    }
    if (*p->at != ' ' && *p->at != '\t' && !at_line_end(p) && *p->at != '{') fail(p, "expected a blank");
    tn__vec_push(&p->c->scratch, &p->src, n);
  }
}

static int64_t read_enumerator(parser *p, int op) {
  size_t n = word_length(p);
  for (int64_t value = 0; value < OP_COUNT; value++) {
    const char *word = enumerator(op, p->ints.n, value);
    if (!word || strlen(word) != n || memcmp(word, p->at, n) != 0) continue;
    p->at += n;
    return value;
  }
  fail(p, "unknown word");
}

static int64_t read_argument(parser *p, const tn__make *m) {
  if (m->op == OP_CONST) return read_const(p, m->dtype);
  if (isalpha((unsigned char)*p->at)) return read_enumerator(p, (int)m->op);
  return read_int(p);
}

static void read_args(parser *p, tn__make *m) {
  int kind = tn__ops[m->op].arg;
  p->ints.n = 0;
  if (*p->at == '{') {
    if (kind == ARG_NONE) fail(p, "this op takes no argument");
    p->at++;
    for (skip_blanks(p); *p->at != '}'; skip_blanks(p)) {
      if (kind == ARG_NAME && *p->at == '"' && !m->name && p->ints.n == 0) {
        m->name = read_string(p);
      } else {
        int64_t v = read_argument(p, m);
        tn__vec_push(&p->c->scratch, &p->ints, v);
      }
      if (*p->at != ' ' && *p->at != '\t' && *p->at != '}') fail(p, "expected a blank or }");
    }
    p->at++;
  }
  if (kind == ARG_BITS && p->ints.n != 1) fail(p, "expected one constant in braces");
  if (!at_line_end(p)) fail(p, "expected the end of the line");
  m->ints = p->ints.v;
  m->nint = p->ints.n;
  if (m->op == OP_STORAGE || m->op == OP_PARAM || m->op == OP_BUFFER) {
    if (m->nint != 2 || m->ints[1] < -1 || m->ints[1] > INT8_MAX) fail(p, "expected {number device}");
    m->device = (int)m->ints[1];
  }
}

static void check_type(parser *p, const tn_node *n, const char *start, const char *end) {
  p->type.n = 0;
  put_type(&p->type, n, &p->stack);
  const char *want = p->type.s;
  for (const char *s = start; s <= end; s++) {
    while (s < end && *s == ' ') s++;
    while (*want == ' ') want++;
    if (s == end ? *want == 0 : *s == *want++) continue;
    tn__fail(p->c, TN_EFORMAT, "line %d, column %d: the type is %s", p->line, (int)(start - p->line_start) + 1,
             p->type.s);
  }
}

static void read_line(parser *p) {
  const char *start = p->at;
  uint64_t label = read_label(p);
  if (tn__map_get(&p->nodes, label, NULL)) {
    p->at = start;
    fail(p, "this number is taken");
  }
  skip_blanks(p);
  expect(p, '=', "expected =");
  skip_blanks(p);
  tn__make m = {.op = read_op(p)};
  skip_blanks(p);
  const char *type = p->at;
  m.dtype = read_type(p);
  const char *type_end = p->at;
  if (*p->at != ' ' && *p->at != '\t' && *p->at != '{' && !at_line_end(p)) fail(p, "expected a blank");
  read_sources(p);
  m.src = p->src.v;
  m.nsrc = p->src.n;
  read_args(p, &m);
  if (m.op == OP_VAR) tn__check_name(p->c, m.name);
  p->root = tn__node_make(p->c, &m);
  check_type(p, p->root, type, type_end);
  tn__map_put(&p->nodes, label, (uint64_t)(uintptr_t)p->root);
  if (p->line_of && !tn__map_get(p->line_of, (uintptr_t)p->root, NULL))
    tn__map_put(p->line_of, (uintptr_t)p->root, (uint64_t)p->line);
}

static void read_all(void *arg) {
  parser *p = arg;
  for (p->line = 1;; p->line++) {
    p->line_start = p->at;
    if (!at_line_end(p)) read_line(p);
    p->at += strcspn(p->at, "\n");
    if (*p->at == 0) break;
    p->at++;
  }
  if (!p->root) fail(p, "the text holds no node");
}

tn_node *tn__parse(tn_ctx *c, const char *text) { return tn__parse_lines(c, text, NULL); }

tn_node *tn__parse_lines(tn_ctx *c, const char *text, tn__map *line) {
  parser p = {.c = c, .at = text, .line_start = text, .line_of = line};
  tn_status status = TN_OK;
  bool pending = c->err.status != TN_OK;
  tn__map_init(&p.nodes, &c->scratch);
  tn__sb_init(&p.type, &c->scratch);
  if (tn__mem_try(&c->mem, read_all, &p, &status)) return p.root;
  /* What tn__node_make objects to has no line yet; it becomes a format error like the others. */
  if (status == TN_EFORMAT || status == TN_ENOMEM) tn__mem_throw(&c->mem, status);
  if (pending) tn__mem_throw(&c->mem, TN_EFORMAT); /* which stands, with its text */
  const char *why = tn__arena_strdup(&c->scratch, tn__error_words(c));
  c->err.status = TN_OK;
  tn__fail(c, TN_EFORMAT, "line %d, column %d: %s", p.line, 1, why);
}
