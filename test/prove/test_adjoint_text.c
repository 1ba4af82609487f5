/* What Coq is told about an axis is what the engine does: the printed text is read back and evaluated on small sizes,
 * strides and dilations.  Its hypotheses hold where they should and nowhere else, which is wherever the engine takes
 * the op; there its sizes, places and conditions give what the graph and its adjoint give, evaluated node by node on
 * elements whose sums tell which ones they are of.  Texts that are changed a little are refused. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>
#include <ctype.h>
#include <stdlib.h>
#include <string.h>

#include "grad/adjoint.h"
#include "prove/adjoint_coq.h"
#include "rewrite/rewrite.h"
#include "support/in_ctx.h"
#include "support/naive.h"

enum { MOST_NAMES = 12, MOST_DIMS = 3, MOST_ELEMENTS = 20, VARS = 4 };

/* ---- numbers and truth values, as Coq reads them ---- */

typedef struct names {
  const char *s[MOST_NAMES];
  size_t length[MOST_NAMES];
  int64_t v[MOST_NAMES];
  int n;
} names;

typedef struct reader {
  const char *s;
  const names *known;
  bool bad;
} reader;

static bool in_word(char c) { return isalnum((unsigned char)c) || c == '_' || c == '.'; }

/* The next token, if it is this one. */
static bool take(reader *r, const char *token) {
  size_t n = strlen(token);
  const char *s = r->s + strspn(r->s, " ");
  if (strncmp(s, token, n) || (in_word(token[n - 1]) && in_word(s[n]))) return false;
  r->s = s + n;
  return true;
}

static void need(reader *r, const char *token) {
  if (!r->bad && !take(r, token)) r->bad = true;
}

static size_t word(reader *r, const char **s) {
  size_t n = 0;
  r->s += strspn(r->s, " ");
  *s = r->s;
  while (in_word(r->s[n])) n++;
  r->s += n;
  r->bad |= !n;
  return n;
}

static int64_t floor_div(int64_t a, int64_t b) { return b ? a / b - (a % b != 0 && (a < 0) != (b < 0)) : 0; }

static const struct {
  const char *token;
  int level;
} infix[] = {{"||", 1}, {"&&", 2}, {"<=?", 3}, {"<?", 3}, {"=?", 3},
             {"+", 4},  {"-", 4},  {"*", 5},   {"/", 5},  {"mod", 5}};

static int64_t calculate(size_t op, int64_t a, int64_t b) {
  switch (op) {
  case 0: return a || b;
  case 1: return a && b;
  case 2: return a <= b;
  case 3: return a < b;
  case 4: return a == b;
  case 5: return a + b;
  case 6: return a - b;
  case 7: return a * b;
  case 8: return floor_div(a, b);
  default: return b ? a - b * floor_div(a, b) : a;
  }
}

static int64_t expression(reader *r, int level);

static int64_t atom(reader *r) {
  const char *s;
  if (take(r, "(")) {
    int64_t v = expression(r, 1);
    need(r, ")");
    return v;
  }
  if (take(r, "-")) return -atom(r);
  bool least = take(r, "Z.min"), most = !least && take(r, "Z.max");
  if (least || most) {
    int64_t a = atom(r), b = atom(r);
    return (a < b) == least ? a : b;
  }
  if (take(r, "negb")) return !atom(r);
  size_t n = word(r, &s);
  if (n && isdigit((unsigned char)*s)) return strtoll(s, NULL, 10);
  if (n == 4 && !memcmp(s, "true", 4)) return 1;
  for (int i = 0; i < r->known->n; i++)
    if (r->known->length[i] == n && !memcmp(r->known->s[i], s, n)) return r->known->v[i];
  r->bad |= n != 5 || memcmp(s, "false", 5) != 0;
  return 0;
}

static int64_t expression(reader *r, int level) {
  int64_t v = atom(r);
  while (!r->bad) {
    size_t i = 0;
    const char *at = r->s;
    while (i < sizeof infix / sizeof *infix && (infix[i].level < level || !take(r, infix[i].token))) i++;
    if (i == sizeof infix / sizeof *infix) {
      r->s = at;
      return v;
    }
    v = calculate(i, v, expression(r, infix[i].level + 1));
  }
  return v;
}

typedef struct numbers {
  int64_t v[MOST_DIMS];
  int n;
} numbers;

static numbers list(reader *r) {
  numbers l = {.n = 0};
  need(r, "[");
  while (!r->bad && !take(r, "]")) {
    if (l.n) need(r, ";");
    int64_t v = expression(r, 1);
    if (l.n == MOST_DIMS) r->bad = true;
    else l.v[l.n++] = v;
  }
  return l;
}

/* ---- the statement ---- */

/* Of one index or two: their names, and where the text of the value begins. */
typedef struct function {
  names index[2];
  int indices;
  bool truth;
  const char *body;
} function;

typedef struct statement {
  names vars;
  bool assumed; /* all hypotheses hold */
  numbers outer, inner, over;
  function mask, place, mask_back, place_back, again;
} statement;

static void pattern(reader *r, names *to) {
  need(r, "[");
  while (!r->bad && !take(r, "]")) {
    if (to->n) need(r, ";");
    if (to->n == MOST_DIMS) r->bad = true;
    else to->length[to->n] = word(r, &to->s[to->n]), to->n++;
  }
}

static function read_function(reader *r, int indices, bool truth) {
  function f = {.indices = indices, .truth = truth};
  need(r, indices == 1 ? "(fun i => match i with" : "(fun i o => match i, o with");
  pattern(r, &f.index[0]);
  if (indices == 2) need(r, ","), pattern(r, &f.index[1]);
  need(r, "=>");
  f.body = r->s;
  if (r->bad) return f;
  const char *end = strstr(r->s, " | _");
  r->bad |= !end;
  if (end) r->s = end;
  need(r, indices == 1 ? "| _ =>" : "| _, _ =>");
  need(r, truth ? "false end)%bool" : "[] end)");
  return f;
}

static bool hypothesis(reader *r) {
  const char *s;
  if (take(r, "stride")) {
    size_t n = word(r, &s);
    reader one = {s, r->known, false};
    int64_t v = atom(&one);
    r->bad |= one.bad || !n;
    return v > 0;
  }
  need(r, "(");
  int64_t a = expression(r, 4);
  bool or_equal = take(r, "<=");
  if (!or_equal) need(r, "<");
  int64_t b = expression(r, 4);
  need(r, ")%Z");
  return or_equal ? a <= b : a < b;
}

/* What the text says where its variables, which must be these, have these values; false: it is no such text. */
static bool read_statement(const char *text, const char *vars, const int64_t *v, statement *t) {
  reader r = {text, &t->vars, false};
  memset(t, 0, sizeof *t);
  need(&r, "forall");
  r.s += strspn(r.s, " ");
  size_t n = strlen(vars);
  if (r.bad || strncmp(r.s, vars, n) || r.s[n] != ',') return false;
  for (; !r.bad && !take(&r, ","); t->vars.n++)
    t->vars.v[t->vars.n] = v[t->vars.n], t->vars.length[t->vars.n] = word(&r, &t->vars.s[t->vars.n]);
  t->assumed = true;
  while (!r.bad && !take(&r, "undone (Axis")) {
    t->assumed &= hypothesis(&r);
    need(&r, "->");
  }
  t->outer = list(&r), t->inner = list(&r), t->over = list(&r);
  t->mask = read_function(&r, 1, true), t->place = read_function(&r, 1, false);
  t->mask_back = read_function(&r, 2, true), t->place_back = read_function(&r, 2, false);
  t->again = read_function(&r, 1, false);
  need(&r, ")");
  return !r.bad && !*r.s;
}

static bool apply(const statement *t, const function *f, const numbers *i, const numbers *o, numbers *out) {
  names known = t->vars;
  const numbers *arg[] = {i, o};
  for (int k = 0; k < f->indices; k++) {
    if (f->index[k].n != arg[k]->n) return false;
    for (int j = 0; j < arg[k]->n; j++)
      known.s[known.n] = f->index[k].s[j], known.length[known.n] = f->index[k].length[j],
      known.v[known.n++] = arg[k]->v[j];
  }
  reader r = {f->body, &known, false};
  if (f->truth) *out = (numbers){{expression(&r, 1)}, 1};
  else *out = list(&r);
  return !r.bad && take(&r, "| _");
}

/* ---- elements ---- */

static int64_t elements(const numbers *d) {
  int64_t n = 1;
  for (int i = 0; i < d->n; i++) n *= d->v[i] > 0 ? d->v[i] : 0;
  return n;
}

static numbers nth(const numbers *d, int64_t k) {
  numbers at = {.n = d->n};
  for (int i = d->n; i-- > 0; k /= d->v[i]) at.v[i] = k % d->v[i];
  return at;
}

/* Row-major; -1 outside. */
static int64_t place_in(const numbers *d, const numbers *at) {
  int64_t k = 0;
  if (d->n != at->n) return -1;
  for (int i = 0; i < d->n; i++) {
    if (at->v[i] < 0 || at->v[i] >= d->v[i]) return -1;
    k = k * d->v[i] + at->v[i];
  }
  return k;
}

/* Element k: a sum of up to four of them tells of which. */
static double element(int64_t k) {
  double x = 1;
  while (k-- > 0) x *= 5;
  return x;
}

/* As the text has it: what is read of numbered elements. */
static bool of_text(const statement *t, bool many, double *out) {
  const numbers *to = many ? &t->inner : &t->outer, *from = many ? &t->outer : &t->inner, none = {.n = 0},
                *over = many ? &t->over : &none;
  const function *mask = many ? &t->mask_back : &t->mask, *place = many ? &t->place_back : &t->place;
  if (elements(to) > MOST_ELEMENTS || elements(from) > MOST_ELEMENTS) return false;
  for (int64_t k = 0; k < elements(to); k++) {
    out[k] = 0;
    for (int64_t s = 0; s < elements(over); s++) {
      numbers i = nth(to, k), o = nth(over, s), hit, at;
      if (!apply(t, mask, &i, &o, &hit)) return false;
      if (!hit.v[0]) continue;
      if (!apply(t, place, &i, &o, &at) || place_in(from, &at) < 0) return false;
      out[k] += element(place_in(from, &at));
    }
  }
  return true;
}

/* Of the engine's graph over a leaf whose elements are numbered. */
static bool same_elements(tn_node *root, tn_node *x, const numbers *dim, const double *want) {
  double leaf[MOST_ELEMENTS];
  naive_tensor y;
  for (int64_t k = 0; k < MOST_ELEMENTS; k++) leaf[k] = element(k);
  naive_eval(&root, 1, &(naive_bind){x, leaf}, 1, &y);
  bool good = y.rank == (uint32_t)dim->n && y.n == elements(dim);
  for (uint32_t i = 0; good && i < y.rank; i++) good = y.dim[i] == dim->v[i];
  for (int64_t k = 0; good && k < y.n; k++) good = naive_get(&y, k) == want[k];
  naive_free(&y);
  return good;
}

/* ---- the ops, with constants ---- */

#define N(v) tn__int(c, v)
static tn_node *line(tn_ctx *c, int64_t n) { return tn__param(c, TN_F64, 0, 0, (tn_node *[]){N(n)}, 1); }
static tn_node *kept(tn_ctx *c, const int64_t *v) { return line(c, v[0]); }
static tn_node *grown(tn_ctx *c, const int64_t *v) { return tn__expand(c, line(c, 1), (tn_node *[]){N(v[0])}); }
static tn_node *padded(tn_ctx *c, const int64_t *v) {
  return tn__pad(c, line(c, v[0]), (tn_node *[]){N(v[1]), N(v[2])});
}
static tn_node *part(tn_ctx *c, const int64_t *v) {
  return tn__shrink(c, line(c, v[0]), (tn_node *[]){N(v[1])}, (tn_node *[]){N(v[2])}, NULL);
}
static tn_node *stepped(tn_ctx *c, const int64_t *v) {
  return tn__shrink(c, line(c, v[0]), (tn_node *[]){N(v[2])}, (tn_node *[]){N(v[3])}, v + 1);
}
static tn_node *flipped(tn_ctx *c, const int64_t *v) { return tn__flip(c, line(c, v[0]), (int64_t[]){0}, 1); }
static tn_node *summed(tn_ctx *c, const int64_t *v) { return tn__reduce(c, OP_SUM, line(c, v[0]), (int64_t[]){0}, 1); }
static tn_node *windowed(tn_ctx *c, const int64_t *v) { return tn__window(c, line(c, v[0]), 0, v[3], v[1], v[2]); }
static tn_node *folded(tn_ctx *c, const int64_t *v) {
  tn_node *w = windowed(c, v);
  return tn__fold(c, tn__param(c, TN_F64, 0, 0, w->dim, w->rank), N(v[0]), 0, v[3], v[1], v[2]);
}

static bool of_one(const int64_t *v) { return v[0] > 0; }
static bool of_pad(const int64_t *v) { return v[0] > 0 && v[1] >= 0 && v[2] >= 0; }
static bool of_part(const int64_t *v) { return v[0] > 0 && v[1] >= 0 && v[2] > 0 && v[1] + v[2] <= v[0]; }
static bool of_steps(const int64_t *v) {
  return v[0] > 0 && v[1] > 0 && v[2] >= 0 && v[3] > 0 && v[2] + (v[3] - 1) * v[1] < v[0];
}
static bool of_span(const int64_t *v) {
  return v[0] > 0 && v[1] > 0 && v[2] > 0 && v[3] > 0;
} /* wider than the axis: there are no places */

static const struct {
  const char *vars;
  tn_node *(*make)(tn_ctx *c, const int64_t *v);
  bool (*assumes)(const int64_t *v);
  bool sums; /* the op does, not its adjoint */
  uint32_t sized; /* bits of variables that are sizes: where one is 0 there are no elements to speak of */
} axes[AX_KINDS] = {
    [AX_KEPT] = {"n0", kept, of_one, false, 1},
    [AX_GROWN] = {"n0", grown, of_one, false, 1},
    [AX_PADDED] = {"n0 lo0 hi0", padded, of_pad, false, 1},
    [AX_PART] = {"n0 b0 m0", part, of_part, false, 1 | 4},
    [AX_STEPPED] = {"n0 s b0 m0", stepped, of_steps, false, 1 | 8},
    [AX_FLIPPED] = {"n0", flipped, of_one, false, 1},
    [AX_SUMMED] = {"n0", summed, of_one, true, 1},
    [AX_WINDOWED] = {"n0 s d k", windowed, of_span, false, 1},
    [AX_FOLDED] = {"n0 s d k", folded, of_span, true, 1},
};

typedef struct making {
  tn_ctx *c;
  tn__axis_kind kind;
  const int64_t *v;
  tn_node *x, *out, *g, *adjoint;
} making;

static void make(void *arg) {
  making *m = arg;
  m->out = axes[m->kind].make(m->c, m->v);
  m->x = m->out->op == OP_PARAM ? m->out : m->out->src[0];
  m->g = tn__param(m->c, TN_F64, 1, 0, m->out->dim, m->out->rank);
  m->adjoint = m->x == m->out ? m->g : tn__adjoint(m->c, m->out, 0, m->g);
}

static bool sizes_are_positive(tn__axis_kind kind, const int64_t *v) {
  for (uint32_t i = 0; i < VARS; i++)
    if (axes[kind].sized >> i & 1 && v[i] < 1) return false;
  return true;
}

/* Is the text true of the engine there?  *tried counts the graphs. */
static bool holds_at(tn_ctx *c, tn__axis_kind kind, const char *text, const int64_t *v, uint32_t *tried) {
  statement t;
  tn_status status;
  double forth[MOST_ELEMENTS], back[MOST_ELEMENTS];
  making m = {.c = c, .kind = kind, .v = v};
  bool sums = axes[kind].sums;
  if (!read_statement(text, axes[kind].vars, v, &t) || t.assumed != axes[kind].assumes(v)) return false;
  if (!sizes_are_positive(kind, v)) return true;
  if (!tn__mem_try(&c->mem, make, &m, &status)) {
    tn_clear_error(c);
    return true; /* the engine refuses it */
  }
  if (m.out == m.x && kind != AX_KEPT) return true; /* no op: a size of 1 grown to 1, all of an axis */
  ++*tried;
  if (!t.assumed || !of_text(&t, sums, forth) || !of_text(&t, !sums, back)) return false;
  return same_elements(m.out, m.x, sums ? &t.inner : &t.outer, forth) &&
         same_elements(m.adjoint, m.g, sums ? &t.outer : &t.inner, back);
}

/* At all small values: the first up to 6, the others from -1 to 3. */
static bool holds(tn_ctx *c, tn__axis_kind kind, const char *text, uint32_t *tried, int64_t *v) {
  int n = 1;
  for (const char *s = axes[kind].vars; *s; s++) n += *s == ' ';
  for (int i = 0; i < VARS; i++) v[i] = i < n ? -1 : 0;
  for (;;) {
    if (!holds_at(c, kind, text, v, tried)) return false;
    int i = 0;
    while (i < n && ++v[i] > (i ? 3 : 6)) v[i++] = -1;
    if (i == n) return true;
  }
}

/* ---- tests ---- */

static const char *with_change(tn_ctx *c, const char *text, const char *from, const char *to) {
  const char *at = strstr(text, from);
  tn__sb b;
  if (!at) fail_msg("%s is not in %s", from, text);
  tn__sb_init(&b, &c->scratch);
  tn__sb_printf(&b, "%.*s%s%s", (int)(at - text), text, to, at + strlen(from));
  return tn__sb_str(&b);
}

static const struct {
  tn__axis_kind kind;
  const char *from, *to;
} wrong[] = {
    /* hypotheses: one more, one less, another; variables */
    {AX_KEPT, "(0 < n0)%Z -> ", ""},
    {AX_KEPT, "(0 < n0)%Z", "(1 < n0)%Z"},
    {AX_KEPT, "forall n0,", "forall n0 n1,"},
    {AX_PADDED, "(0 <= hi0)%Z -> ", ""},
    {AX_PADDED, "(0 <= lo0)%Z", "(0 < lo0)%Z"},
    {AX_PADDED, "undone", "(lo0 <= hi0)%Z -> undone"},
    {AX_PADDED, "undone", "done"},
    {AX_PART, "(b0 + m0 <= n0)%Z", "(b0 + m0 < n0)%Z"},
    {AX_STEPPED, "(m0 - 1)", "m0"},
    {AX_STEPPED, "stride s -> ", ""},
    {AX_WINDOWED, "stride d -> ", ""},
    {AX_FOLDED, "stride k -> ", "stride k -> stride n0 -> (k <= n0)%Z -> "},
    /* sizes */
    {AX_GROWN, "[n0] [(1)]", "[n0] [n0]"},
    {AX_PADDED, "(Axis [((hi0 + lo0) + n0)]", "(Axis [(lo0 + n0)]"},
    {AX_SUMMED, "[n0] [] [n0]", "[n0] [] [(n0 + (1))]"},
    {AX_WINDOWED, "(-1 + s", "(-2 + s"},
    {AX_WINDOWED, "[n0] [(k)]", "[n0] [(s)]"},
    {AX_FOLDED, "(k)] [n0]", "(d)] [n0]"},
    /* places */
    {AX_KEPT, "=> [i0]", "=> [(i0 + (1))]"},
    {AX_GROWN, "=> [(0)]", "=> [i0]"},
    {AX_PADDED, "((lo0 * (-1)) + i0)", "((hi0 * (-1)) + i0)"},
    {AX_PADDED, "=> [(lo0 + i0)]", "=> [i0]"},
    {AX_PART, "=> [(b0 + i0)]", "=> [(i0 + (1))]"},
    {AX_STEPPED, "=> [(b0 + (i0 * (s)))]", "=> [(b0 + i0)]"},
    {AX_STEPPED, "i0) / (s))]", "i0) / (1))]"},
    {AX_FLIPPED, "(-1))] | _ =>", "(-2))] | _ =>"},
    {AX_FLIPPED, "(-1))] | _, _ =>", "(0))] | _, _ =>"},
    {AX_SUMMED, "=> [o0]", "=> [(0)]"},
    {AX_WINDOWED, "(i1 * (d))", "i1"},
    {AX_WINDOWED, "(i0 * (s))", "(i0 * (d))"},
    {AX_FOLDED, "/ (s)); o0]", "/ (s)); (0)]"},
    /* conditions */
    {AX_KEPT, "[i0] => true", "[i0] => (0 <? i0)"},
    {AX_PADDED, "lo0 <? (i0 + (1))", "lo0 <? i0"},
    {AX_PADDED, "(i0 <? (lo0 + n0))", "(i0 <? n0)"},
    {AX_PART, "(b0 <? (i0 + (1)))", "true"},
    {AX_STEPPED, "mod (s)) <? (1)", "mod (s)) <? (2)"},
    {AX_STEPPED, "Z.min", "Z.max"},
    {AX_WINDOWED, "=? (0)", "=? (1)"},
    {AX_WINDOWED, "&& ((-1) <?", "&& ((0) <?"},
    {AX_FOLDED, "&& ((-1) <?", "|| ((-1) <?"},
    /* form */
    {AX_FLIPPED, "| _ => false", "| _ => true"},
    {AX_FLIPPED, "[i0], []", "[i0], [o0]"},
    {AX_FLIPPED, "[i0], []", "[i0; i1], []"},
    {AX_SUMMED, "[], [o0]", "[i0], [o0]"},
};

static void read_back(tn_ctx *c, void *arg) {
  (void)arg;
  int64_t v[VARS];
  uint32_t tried, all = 0;
  for (int k = 0; k < AX_KINDS; k++) {
    const char *text = tn__adjoint_axis(c, &c->scratch, (tn__axis_kind)k);
    tried = 0;
    if (!holds(c, (tn__axis_kind)k, text, &tried, v))
      fail_msg("%s, at %d %d %d %d:\n%s", tn__axis_kinds[k].name, (int)v[0], (int)v[1], (int)v[2], (int)v[3], text);
    assert_true(tried >= 5);
    all += tried;
  }
  for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
    const char *text = tn__adjoint_axis(c, &c->scratch, wrong[i].kind);
    if (holds(c, wrong[i].kind, with_change(c, text, wrong[i].from, wrong[i].to), &tried, v))
      fail_msg("of an axis that is %s, taken: %s", tn__axis_kinds[wrong[i].kind].name, wrong[i].to);
  }
  print_message("%u graphs; %zu wrong texts\n", all, sizeof wrong / sizeof *wrong);
}

static void printed_axes_are_read_back(void **state) {
  (void)state;
  test_in_ctx(read_back, NULL);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(printed_axes_are_read_back)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
