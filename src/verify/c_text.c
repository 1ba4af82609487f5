/* The reader: one pass, from words to instructions, as C's grammar has it.  It recurses over nested blocks and
 * expressions only, which are as deep as the printer writes them. */
#include "verify/c_reader.h"
#include <ctype.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>

/* ---- words ---- */

_Noreturn void tn__c_refuse(reader *r, const char *what) {
  uint32_t at = r->word.v[r->at < r->word.n ? r->at : r->word.n - 1].at;
  tn__sb_printf(r->why, "%s in: %s", what, tn__c_text_line(r->a, r->text, at));
  tn__mem_throw(&r->c->mem, TN_ECOMPILE);
}

const char *tn__c_text_line(tn__arena *a, const char *text, uint32_t at) {
  const char *from = text + at, *to = from;
  while (from > text && from[-1] != '\n') from--;
  while (*from == ' ') from++;
  while (*to && *to != '\n') to++;
  if (to <= from) return "";
  char *line = tn__arena_zalloc(a, (size_t)(to - from) + 1);
  return memcpy(line, from, (size_t)(to - from));
}

static uint32_t sign_length(const char *s) {
  static const char *const two[] = {"==", "!=", "<=", ">=", "&&", "||", "<<", ">>", "++", "--",
                                    "+=", "-=", "*=", "/=", "%=", "^=", "|=", "&=", "::", "->"};
  for (size_t i = 0; i < sizeof two / sizeof *two; i++)
    if (!strncmp(s, two[i], 2)) return 2;
  return 1;
}

/* Comments and lines of the preprocessor are of no meaning. */
static const char *skip_blank(const char *s) {
  for (;; s++) {
    while (isspace((unsigned char)*s)) s++;
    if (*s == '#') {
      while (*s && *s != '\n') s++;
    } else if (s[0] == '/' && s[1] == '*') {
      const char *end = strstr(s + 2, "*/");
      s = end ? end + 1 : s + strlen(s) - 1;
    } else {
      return s;
    }
    if (!*s) return s;
  }
}

static void split_words(reader *r, const char *from, const char *to) {
  for (const char *s = skip_blank(from); s < to; s = skip_blank(s)) {
    const char *start = s;
    uint8_t kind = W_SIGN;
    if (isalpha((unsigned char)*s) || *s == '_') {
      kind = W_NAME;
      while (isalnum((unsigned char)*s) || *s == '_') s++;
    } else if (isdigit((unsigned char)*s)) {
      kind = W_NUMBER;
      while (isalnum((unsigned char)*s) || *s == '.' || ((*s == '+' || *s == '-') && (s[-1] == 'p' || s[-1] == 'P')))
        s++;
    } else if (*s == '"') {
      for (s++; s < to && *s != '"';) s++;
      s++;
    } else {
      s += sign_length(s);
    }
    tn__vec_push(r->a, &r->word, ((word){(uint32_t)(start - r->text), (uint32_t)(s - start), kind}));
  }
  tn__vec_push(r->a, &r->word, ((word){(uint32_t)(to - r->text), 0, W_END}));
}

static const char *spelled(const reader *r) { return r->text + r->word.v[r->at].at; }

static bool is_at(const reader *r, const char *sign) {
  const word *w = &r->word.v[r->at];
  return w->n == strlen(sign) && w->n && !memcmp(r->text + w->at, sign, w->n);
}

static bool take(reader *r, const char *sign) {
  if (!is_at(r, sign)) return false;
  r->at++;
  return true;
}

static void need(reader *r, const char *sign) {
  if (take(r, sign)) return;
  tn__sb_printf(r->why, "no %s ", sign);
  tn__c_refuse(r, "where it should be");
}

/* Behind the bracket that closes the one at hand. */
static void skip_brackets(reader *r) {
  int depth = 0;
  do {
    if (r->word.v[r->at].kind == W_END) tn__c_refuse(r, "open brackets");
    depth += is_at(r, "(") + is_at(r, "{") - is_at(r, ")") - is_at(r, "}");
    r->at++;
  } while (depth);
}

/* ---- instructions ---- */

static uint32_t new_reg(reader *r) {
  tn__vec_push(r->a, &r->reg, ((tn__exact){0}));
  return r->reg.n - 1;
}

uint32_t tn__c_constant(reader *r, tn__exact v) {
  tn__vec_push(r->a, &r->reg, v);
  return r->reg.n - 1;
}

uint32_t tn__c_put(reader *r, tn__c_ins i) {
  i.at = r->word.v[r->at ? r->at - 1 : 0].at;
  tn__vec_push(r->a, &r->ins, i);
  return r->ins.n - 1;
}

static uint32_t put_jump(reader *r, tn__c_code code, uint32_t a) {
  return tn__c_put(r, (tn__c_ins){.code = (uint8_t)code, .a = a});
}

static void land(reader *r, uint32_t jump) { r->ins.v[jump].n = r->ins.n; }

static int64_t size_of(tn__c_type t) { return t.stars ? 8 : t.bytes; }

/* ---- values ---- */

uint32_t tn__c_value(reader *r, ex *x) {
  if (x->where == IN_REG || x->where == VARIABLE) return x->reg;
  if (x->type.dtype == TN__VOID && !x->type.stars) tn__c_refuse(r, "a value of many bytes");
  if (x->where == WIDE_CELL) tn__c_refuse(r, "a wide element as a value");
  uint32_t dst = new_reg(r);
  if (x->where == CELL)
    tn__c_put(r, (tn__c_ins){.code = TN__C_GET_CELL, .dst = dst, .a = x->reg, .b = x->index, .n = x->count});
  else
    tn__c_put(r, (tn__c_ins){
               .code = TN__C_LOAD, .dst = dst, .a = x->reg, .dtype = x->type.dtype, .op = x->type.stars});
  *x = in_reg(x->type, dst);
  return dst;
}

uint32_t tn__c_converted(reader *r, ex x, tn__c_type to) {
  uint32_t from = tn__c_value(r, &x);
  if (x.type.lanes != to.lanes || (to.lanes && x.type.dtype != to.dtype)) tn__c_refuse(r, "a vector of another type");
  if (x.type.stars != to.stars) tn__c_refuse(r, "a pointer for a number");
  if (to.stars || x.type.dtype == to.dtype) return from;
  if (x.type.dtype == TN__VOID || to.dtype == TN__VOID) tn__c_refuse(r, "a value of nothing");
  uint32_t dst = new_reg(r);
  tn__c_put(r, (tn__c_ins){.code = TN__C_CONVERT, .dst = dst, .a = from, .dtype = to.dtype, .sdtype = x.type.dtype});
  return dst;
}

static int promoted(int dtype) { return tn__is_float(dtype) || tn__size_of(dtype) >= 4 ? dtype : TN_I32; }

/* The usual arithmetic conversions. */
static int common_dtype(int x, int y) {
  if (x == TN_F64 || y == TN_F64) return TN_F64;
  if (x == TN_F32 || y == TN_F32) return TN_F32;
  x = promoted(x), y = promoted(y);
  if (tn__size_of(x) != tn__size_of(y)) return tn__size_of(x) > tn__size_of(y) ? x : y;
  return tn__dtypes[x].is_signed ? y : x;
}

static void assign(reader *r, ex to, uint32_t reg) {
  switch (to.where) {
  case VARIABLE: tn__c_lanes_move(r, to.reg, in_reg(to.type, reg)); return;
  case CELL:
    tn__c_put(r, (tn__c_ins){.code = TN__C_SET_CELL, .a = to.reg, .b = to.index, .c = reg, .n = to.count});
    return;
  case MEMORY: tn__c_put(r, (tn__c_ins){.code = TN__C_STORE, .a = to.reg, .c = reg, .dtype = to.type.dtype}); return;
  default: tn__c_refuse(r, "an assignment to a value");
  }
}

/* Between a union's wide view and memory. */
static void assign_wide(reader *r, ex to, ex from) {
  bool gets = to.where == WIDE_CELL;
  ex cells = gets ? to : from, memory = gets ? from : to;
  if (memory.where != MEMORY || size_of(memory.type) != size_of(cells.type)) tn__c_refuse(r, "an odd wide access");
  tn__c_put(r, (tn__c_ins){.code = gets ? TN__C_WIDE_GET : TN__C_WIDE_PUT,
                     .a = cells.reg,
                     .b = cells.index,
                     .c = memory.reg,
                     .n = cells.count,
                     .dtype = cells.type.dtype,
                     .op = (uint8_t)size_of(memory.type)});
}

static ex arithmetic(reader *r, int op, ex x, ex y) {
  tn__c_value(r, &x), tn__c_value(r, &y);
  if ((x.type.lanes && !x.type.stars) || (y.type.lanes && !y.type.stars)) return tn__c_lanes_arithmetic(r, op, x, y);
  uint32_t dst = new_reg(r);
  if (x.type.stars || y.type.stars) { /* pointer + number */
    ex *p = x.type.stars ? &x : &y, *n = x.type.stars ? &y : &x;
    tn__c_type of = p->type;
    if (op != TN__C_ADD || n->type.stars || tn__is_float(n->type.dtype)) tn__c_refuse(r, "arithmetic on pointers");
    of.stars--;
    tn__c_put(r, (tn__c_ins){.code = TN__C_PLACE, .dst = dst, .a = p->reg, .b = n->reg, .n = size_of(of)});
    return in_reg(p->type, dst);
  }
  bool compares = op >= TN__C_LT && op <= TN__C_NE;
  int dtype = op == TN__C_SHL || op == TN__C_SHR ? promoted(x.type.dtype) : common_dtype(x.type.dtype, y.type.dtype);
  bool bits = op == TN__C_REM || (op >= TN__C_AND && op <= TN__C_SHR);
  if (bits && tn__is_float(dtype)) tn__c_refuse(r, "bits of a float");
  tn__c_put(r, (tn__c_ins){.code = TN__C_ARITH,
                     .op = (uint8_t)op,
                     .dtype = (uint8_t)dtype,
                     .dst = dst,
                     .a = tn__c_converted(r, x, plain(dtype)),
                     .b = tn__c_converted(r, y, plain(dtype))});
  /* operands are converted first */
  return in_reg(plain(compares ? TN_I32 : dtype), dst);
}

/* ---- types ---- */

static bool is_named(const reader *r, uint32_t at, const char *name) {
  const word *w = &r->word.v[at];
  return w->n == strlen(name) && !memcmp(r->text + w->at, name, w->n);
}

static bool take_qualifier(reader *r) {
  const word *w = &r->word.v[r->at];
  if (w->kind != W_NAME) return false;
  if (is_at(r, "__attribute__") || is_at(r, "__align__") || is_at(r, "__launch_bounds__") || is_at(r, "alignas")) {
    bool counts = is_at(r, "__launch_bounds__");
    r->at++;
    uint32_t open = r->at;
    skip_brackets(r);
    for (uint32_t i = open; i < r->at; i++) {
      const word *v = &r->word.v[i];
      counts |= is_named(r, i, "reqd_work_group_size");
      if (v->kind != W_NUMBER || !counts) continue;
      int64_t n = strtoll(r->text + v->at, NULL, 10);
      bool first = r->word.v[i - 1].n == 1 && r->text[r->word.v[i - 1].at] == '(';
      if (first) r->f->threads = n;
      else if (n != 1 && is_named(r, open + 2, "reqd_work_group_size")) tn__c_refuse(r, "a group of two dimensions");
    }
    return true;
  }
  if (!tn__c_word_is_qualifier(spelled(r), w->n)) return false;
  bool external = is_at(r, "extern");
  r->at++;
  if (external && spelled(r)[0] == '"') r->at++;
  return true;
}

/* A type, if one begins here: its name and stars. */
static bool take_type(reader *r, tn__c_type *out) {
  uint32_t start = r->at;
  while (take_qualifier(r)) continue;
  const word *w = &r->word.v[r->at];
  if (w->kind != W_NAME || !tn__c_word_is_type(spelled(r), w->n, out)) {
    r->at = start;
    return false;
  }
  for (r->at++;;) {
    if (take(r, "*")) out->stars++;
    else if (!take_qualifier(r)) return true;
  }
}

/* ---- expressions ---- */

static ex read_expression(reader *r);
static ex read_unary(reader *r);
static ex read_choice(reader *r);

static symbol *find_symbol(reader *r) {
  const word *w = &r->word.v[r->at];
  for (uint32_t i = r->symbol.n; i-- > 0;)
    if (r->symbol.v[i].n == w->n && !memcmp(r->symbol.v[i].name, r->text + w->at, w->n)) return &r->symbol.v[i];
  return NULL;
}

static ex read_number(reader *r) {
  const word *w = &r->word.v[r->at];
  const char *s = spelled(r);
  bool hex = w->n > 1 && s[0] == '0' && (s[1] == 'x' || s[1] == 'X'), is_float = false;
  for (uint32_t i = 0; i < w->n; i++) is_float |= s[i] == '.' || s[i] == 'p' || (!hex && s[i] == 'e');
  char *end;
  r->at++;
  if (is_float) {
    double d = strtod(s, &end);
    bool single = *end == 'f';
    if (end + single != s + w->n) tn__c_refuse(r, "an odd number");
    float f = (float)d;
    uint32_t low;
    uint64_t bits;
    memcpy(&low, &f, sizeof low);
    memcpy(&bits, &d, sizeof bits);
    if (single && (double)f != d) tn__c_refuse(r, "a float that has to be rounded");
    return in_reg(plain(single ? TN_F32 : TN_F64), tn__c_constant(r, tn__exact_const(single ? TN_F32 : TN_F64,
                                                                              single ? low : bits)));
  }
  uint64_t v = strtoull(s, &end, 0);
  bool is_unsigned = false, is_long = false;
  for (; end < s + w->n; end++) {
    is_unsigned |= *end == 'u' || *end == 'U';
    is_long |= *end == 'l' || *end == 'L';
    if (!strchr("uUlL", *end)) tn__c_refuse(r, "an odd number");
  }
  int dtype = TN_I32;
  if (is_unsigned) dtype = is_long || v > UINT32_MAX ? TN_U64 : TN_U32;
  else if (hex && !is_long && v > INT32_MAX && v <= UINT32_MAX) dtype = TN_U32;
  else if (is_long || v > INT32_MAX) dtype = v > INT64_MAX ? TN_U64 : TN_I64;
  return in_reg(plain(dtype), tn__c_constant(r, tn__exact_int(v)));
}

/* Arguments in brackets. */
uint32_t tn__c_arguments(reader *r, ex *arg, uint32_t most) {
  uint32_t n = 0;
  need(r, "(");
  while (!take(r, ")")) {
    if (n == most) tn__c_refuse(r, "too many arguments");
    arg[n++] = read_expression(r);
    if (!is_at(r, ")")) need(r, ",");
  }
  return n;
}

static ex number_of(reader *r, uint32_t *reg, int dtype) {
  if (*reg == TN__C_NOTHING) *reg = new_reg(r);
  return in_reg(plain(dtype), *reg);
}

/* threadIdx.x, get_local_id(0), ...: false: something else. */
static bool read_place_in_grid(reader *r, ex *out) {
  static const char *const words[][3] = {{"threadIdx", "blockIdx", "gridDim"},
                                         {"get_local_id", "get_group_id", "get_num_groups"}};
  for (int l = 0; l < 2; l++)
    for (int i = 0; i < 3; i++) {
      if (!is_at(r, words[l][i])) continue;
      uint32_t *reg[] = {&r->f->thread, &r->f->group, &r->f->groups};
      r->at++;
      if (l == 0) need(r, "."), need(r, "x");
      else need(r, "("), need(r, "0"), need(r, ")");
      *out = number_of(r, reg[i], l ? TN_U64 : TN_U32);
      return true;
    }
  return false;
}

/* Calls with an effect on other threads or on memory. */
static bool read_effect(reader *r, ex *out) {
  static const struct {
    const char *name;
    uint8_t code, op, narg;
    int64_t n;
  } effects[] = {
      {"__syncthreads", TN__C_BARRIER, 0, 0, 1},   {"__syncwarp", TN__C_BARRIER, 1, 0, 1},
      {"barrier", TN__C_BARRIER, 0, 1, 0},         {"tn_begin", TN__C_BEGIN, 0, 0, 0},
      {"tn_renew", TN__C_RENEW, 0, 1, 0},          {"tn_send", TN__C_SEND, 0, 3, 0},
      {"tn_sent", TN__C_SENT, 0, 0, 0},            {"__shfl_xor_sync", TN__C_EXCHANGE, 1, 3, 0},
      {"__shfl_sync", TN__C_EXCHANGE, 0, 3, 0},
  };
  for (size_t i = 0; i < sizeof effects / sizeof *effects; i++) {
    if (!is_at(r, effects[i].name)) continue;
    tn__c_ins x = {.code = effects[i].code, .op = effects[i].op, .n = effects[i].n};
    ex arg[3];
    r->at++;
    if (take(r, "<")) { /* of a template: bytes */
      x.n = strtoll(spelled(r), NULL, 10);
      r->at++;
      need(r, ">");
    }
    *out = in_reg(plain(TN_BOOL), 0);
    out->type.dtype = TN__VOID;
    if (is_at(r, "(") && x.code == TN__C_BARRIER && effects[i].narg) { /* flags */
      r->at++;
      if (!take(r, "CLK_LOCAL_MEM_FENCE")) tn__c_refuse(r, "a barrier that is not for local memory");
      if (take(r, "|") && take(r, "CLK_GLOBAL_MEM_FENCE")) x.n = 1;
      need(r, ")");
      tn__c_put(r, x);
      return true;
    }
    if (tn__c_arguments(r, arg, 3) != effects[i].narg) tn__c_refuse(r, "another number of arguments");
    for (uint32_t k = 0; k < effects[i].narg; k++) tn__c_value(r, &arg[k]);
    if (x.code == TN__C_EXCHANGE) { /* mask, value, thread */
      const tn__exact *mask = &r->reg.v[arg[0].reg];
      if (mask->kind != TN__EXACT_INT) tn__c_refuse(r, "a mask that is not a number");
      x.n = (int64_t)mask->v, x.a = arg[1].reg, x.b = arg[2].reg, x.dst = new_reg(r);
      *out = in_reg(arg[1].type, x.dst);
    } else if (effects[i].narg) {
      x.a = arg[0].reg, x.b = arg[1].reg, x.c = arg[2].reg;
      if (effects[i].narg == 1) x.b = x.c = 0;
    }
    tn__c_put(r, x);
    return true;
  }
  return false;
}

static ex read_call(reader *r) {
  tn__c_call call;
  ex arg[3], out;
  const word *w = &r->word.v[r->at];
  if (read_place_in_grid(r, &out) || read_effect(r, &out)) return out;
  if (is_at(r, "__builtin_inff") || is_at(r, "__builtin_inf") || is_at(r, "TN_INF")) {
    bool wide = is_at(r, "__builtin_inf"), called = !is_at(r, "TN_INF");
    r->at++;
    if (called) need(r, "("), need(r, ")");
    uint64_t bits = wide ? 0x7ff0000000000000u : 0x7f800000u;
    return in_reg(plain(wide ? TN_F64 : TN_F32), tn__c_constant(r, tn__exact_const(wide ? TN_F64 : TN_F32, bits)));
  }
  if (is_at(r, "true") || is_at(r, "false")) {
    uint64_t v = is_at(r, "true");
    r->at++;
    return in_reg(plain(TN_BOOL), tn__c_constant(r, tn__exact_int(v)));
  }
  if (tn__c_lanes_call(r, spelled(r), w->n, &out)) return out;
  if (!tn__c_word_is_call(spelled(r), w->n, &call)) tn__c_refuse(r, "an unknown name");
  r->at++;
  if (tn__c_arguments(r, arg, 3) != call.narg) tn__c_refuse(r, "another number of arguments");
  tn__c_ins i = {.code = call.code, .op = call.op, .dtype = call.dtype, .sdtype = call.sdtype, .n = call.near};
  uint32_t reg[3] = {0};
  int held = call.sdtype == TN_F16 || call.sdtype == TN_BF16 ? TN_F32 : call.sdtype;
  for (uint32_t k = 0; k < call.narg; k++) reg[k] = tn__c_converted(r, arg[k], plain(held));
  i.a = reg[0], i.b = reg[1], i.c = reg[2], i.dst = new_reg(r);
  tn__c_put(r, i);
  return in_reg(plain(call.result), i.dst);
}

static ex read_primary(reader *r) {
  const word *w = &r->word.v[r->at];
  if (take(r, "(")) {
    ex x = read_expression(r);
    need(r, ")");
    return x;
  }
  if (w->kind == W_NUMBER) return read_number(r);
  if (w->kind != W_NAME) tn__c_refuse(r, "an odd expression");
  symbol *s = find_symbol(r);
  if (!s) return read_call(r);
  r->at++;
  if (s->count && !s->shared) /* with the index, or the member */
    return (ex){.type = s->type, .where = CELL, .reg = s->reg, .count = s->count,
                .index = TN__C_NOTHING - 1 - (uint32_t)(s - r->symbol.v)};
  return (ex){.type = s->type, .where = s->shared ? IN_REG : VARIABLE, .reg = s->reg};
}

/* The symbol of an array or a union that is yet to be indexed; NULL: x is no such thing. */
static symbol *whole_of(reader *r, const ex *x) {
  if (x->where != CELL || x->index <= TN__C_NOTHING - 1 - r->symbol.n) return NULL;
  return &r->symbol.v[TN__C_NOTHING - 1 - x->index];
}

static ex indexed(reader *r, ex x, ex index) {
  tn__c_value(r, &index);
  if (index.type.stars || tn__is_float(index.type.dtype)) tn__c_refuse(r, "an index that is no integer");
  if (x.where == CELL || x.where == WIDE_CELL) {
    x.index = index.reg;
    return x;
  }
  tn__c_value(r, &x);
  if (x.type.lanes && !x.type.stars)
    return (ex){.type = plain(x.type.dtype), .where = CELL, .reg = x.reg, .count = x.type.lanes, .index = index.reg};
  if (!x.type.stars) tn__c_refuse(r, "an index of a number");
  tn__c_type of = x.type;
  of.stars--;
  ex place = arithmetic(r, TN__C_ADD, in_reg(x.type, x.reg), index);
  return (ex){.type = of, .where = MEMORY, .reg = place.reg};
}

static ex read_member(reader *r, symbol *s, ex x) {
  if (take(r, "x")) {
    need(r, "[");
    ex index = read_expression(r);
    need(r, "]");
    return indexed(r, x, index);
  }
  need(r, "all");
  x.where = WIDE_CELL;
  x.type = (tn__c_type){.dtype = s->type.dtype, .bytes = (uint8_t)s->each};
  if (take(r, "[")) {
    ex index = read_expression(r);
    need(r, "]");
    return indexed(r, x, index);
  }
  x.index = tn__c_constant(r, tn__exact_int(0));
  return x;
}

static ex read_postfix(reader *r) {
  ex x = read_primary(r);
  for (;;) {
    symbol *s = whole_of(r, &x);
    if (s && s->each) {
      need(r, ".");
      x = read_member(r, s, x);
    } else if (take(r, "[")) {
      ex index = read_expression(r);
      need(r, "]");
      x = indexed(r, x, index);
    } else if (is_at(r, "++") || is_at(r, "--")) {
      int op = is_at(r, "++") ? TN__C_ADD : TN__C_SUB;
      r->at++;
      ex old = x, one = in_reg(plain(TN_I32), tn__c_constant(r, tn__exact_int(1))), next = arithmetic(r, op, old, one);
      assign(r, x, tn__c_converted(r, next, x.type));
      return next; /* of statements only: its value is not asked for */
    } else {
      if (s) tn__c_refuse(r, "an array as a value");
      return x;
    }
  }
}

static ex read_cast(reader *r, tn__c_type to) {
  ex x = read_unary(r);
  if (to.stars) {
    tn__c_value(r, &x);
    if (!x.type.stars) tn__c_refuse(r, "a pointer of a number");
    return in_reg(to, x.reg);
  }
  if (to.dtype == TN__VOID) tn__c_refuse(r, "a cast to nothing");
  if (to.lanes) return tn__c_lanes_cast(r, x, to);
  return in_reg(to, tn__c_converted(r, x, to));
}

static ex read_unary(reader *r) {
  uint32_t start = r->at;
  tn__c_type to;
  if (take(r, "(")) {
    if (take_type(r, &to)) {
      need(r, ")");
      return read_cast(r, to);
    }
    r->at = start;
  }
  if (take(r, "*")) {
    ex x = read_unary(r);
    tn__c_value(r, &x);
    if (!x.type.stars) tn__c_refuse(r, "what a number points to");
    x.type.stars--;
    x.where = MEMORY;
    return x;
  }
  if (take(r, "&")) {
    ex x = read_unary(r);
    if (x.where != MEMORY) tn__c_refuse(r, "the place of a value");
    x.type.stars++;
    x.where = IN_REG;
    return x;
  }
  bool minus = is_at(r, "-"), flip = is_at(r, "~"), not = is_at(r, "!");
  if (!minus && !flip && !not) return read_postfix(r);
  r->at++;
  ex x = read_unary(r);
  tn__c_value(r, &x);
  if (x.type.stars) tn__c_refuse(r, "arithmetic on pointers");
  if (x.type.lanes && !not) return tn__c_lanes_arithmetic(r, flip ? TN__C_NOT : TN__C_NEG, x, x);
  if (not) return arithmetic(r, TN__C_EQ, x, in_reg(plain(TN_I32), tn__c_constant(r, tn__exact_int(0))));
  int dtype = promoted(x.type.dtype);
  uint32_t from = tn__c_converted(r, x, plain(dtype)), dst = new_reg(r);
  if (flip && tn__is_float(dtype)) tn__c_refuse(r, "bits of a float");
  tn__c_put(r, (tn__c_ins){.code = TN__C_ARITH,
                     .op = flip ? TN__C_NOT : TN__C_NEG,
                     .dtype = (uint8_t)dtype,
                     .dst = dst,
                     .a = from,
                     .b = from});
  return in_reg(plain(dtype), dst);
}

static const struct {
  const char *sign;
  int level, op; /* op -1: && and || */
} binaries[] = {
    {"||", 1, -1},         {"&&", 2, -1},         {"|", 3, TN__C_OR},    {"^", 4, TN__C_XOR},  {"&", 5, TN__C_AND},
    {"==", 6, TN__C_EQ},   {"!=", 6, TN__C_NE},   {"<", 7, TN__C_LT},    {">", 7, TN__C_LT},   {"<=", 7, TN__C_LE},
    {">=", 7, TN__C_LE},   {"<<", 8, TN__C_SHL},  {">>", 8, TN__C_SHR},  {"+", 9, TN__C_ADD},  {"-", 9, TN__C_SUB},
    {"*", 10, TN__C_MUL},  {"/", 10, TN__C_DIV},  {"%", 10, TN__C_REM},
};

static uint32_t truth_of(reader *r, ex x) {
  if (x.type.stars || x.type.lanes) tn__c_refuse(r, "the truth of a pointer or a vector");
  return tn__c_converted(r, x, plain(TN_BOOL));
}

static ex read_binary(reader *r, int least);

static ex read_logic(reader *r, ex x, bool is_or, int level) {
  uint32_t dst = new_reg(r);
  tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE, .dst = dst, .a = truth_of(r, x)});
  uint32_t jump = put_jump(r, is_or ? TN__C_IF : TN__C_UNLESS, dst);
  ex y = read_binary(r, level + 1);
  tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE, .dst = dst, .a = truth_of(r, y)});
  land(r, jump);
  return in_reg(plain(TN_I32), dst);
}

/* Is this the variable of a loop over a RANGE: i<number>? */
static uint32_t counter_of(const reader *r, uint32_t at, const ex *x) {
  const word *w = &r->word.v[at];
  const char *s = r->text + w->at;
  return w->n > 1 && s[0] == 'i' && isdigit((unsigned char)s[1]) && x->where == VARIABLE ? x->reg : TN__C_NOTHING;
}

static ex read_binary(reader *r, int least) {
  uint32_t start = r->at;
  ex x = read_unary(r);
  for (;;) {
    size_t i = 0;
    while (i < sizeof binaries / sizeof *binaries && !is_at(r, binaries[i].sign)) i++;
    if (i == sizeof binaries / sizeof *binaries || binaries[i].level < least) return x;
    int level = binaries[i].level, op = binaries[i].op;
    bool turned = binaries[i].sign[0] == '>' && binaries[i].level == 7,
         is_or = binaries[i].sign[0] == '|', less = op == TN__C_LT && !turned;
    r->at++;
    if (op < 0) {
      x = read_logic(r, x, is_or, level);
      continue;
    }
    ex left = x;
    if (x.where != VARIABLE) tn__c_value(r, &x);
    ex y = read_binary(r, level + 1);
    tn__c_value(r, &y);
    if (less) r->counter = counter_of(r, start, &left), r->limit = y.reg;
    x = turned ? arithmetic(r, op, y, x) : arithmetic(r, op, x, y);
  }
}

/* The first one is read; `other` jumps to the second. */
static ex read_lanes_choice(reader *r, ex a, uint32_t other) {
  uint32_t dst = tn__c_cells(r, a.type.lanes);
  tn__c_lanes_move(r, dst, a);
  uint32_t end = put_jump(r, TN__C_JUMP, 0);
  need(r, ":");
  land(r, other);
  ex b = read_choice(r);
  tn__c_lanes_move(r, dst, in_reg(a.type, tn__c_converted(r, b, a.type)));
  land(r, end);
  return in_reg(a.type, dst);
}

static ex read_choice(reader *r) {
  ex x = read_binary(r, 1);
  if (!take(r, "?")) return x;
  uint32_t other = put_jump(r, TN__C_UNLESS, truth_of(r, x)), dst;
  ex a = read_expression(r);
  tn__c_value(r, &a);
  if (a.type.lanes) return read_lanes_choice(r, a, other);
  dst = new_reg(r);
  uint32_t first = tn__c_put(r, (tn__c_ins){.code = TN__C_CONVERT, .dst = dst, .a = a.reg, .sdtype = a.type.dtype}),
           end = put_jump(r, TN__C_JUMP, 0);
  need(r, ":");
  land(r, other);
  ex b = read_choice(r);
  tn__c_value(r, &b);
  if (a.type.stars || b.type.stars) tn__c_refuse(r, "a choice of pointers");
  int dtype = common_dtype(a.type.dtype, b.type.dtype);
  r->ins.v[first].dtype = (uint8_t)dtype;
  tn__c_put(r, (tn__c_ins){
             .code = TN__C_CONVERT, .dst = dst, .a = b.reg, .dtype = (uint8_t)dtype, .sdtype = b.type.dtype});
  land(r, end);
  return in_reg(plain(dtype), dst);
}

static ex read_expression(reader *r) {
  static const struct {
    const char *sign;
    int op;
  } updates[] = {{"=", -1}, {"+=", TN__C_ADD}, {"-=", TN__C_SUB}, {"*=", TN__C_MUL},
                 {"/=", TN__C_DIV}, {"^=", TN__C_XOR}, {"|=", TN__C_OR}, {"&=", TN__C_AND}};
  ex x = read_choice(r);
  for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
    if (!is_at(r, updates[i].sign)) continue;
    r->at++;
    ex y = read_expression(r);
    if (x.where == WIDE_CELL || y.where == WIDE_CELL) {
      if (updates[i].op >= 0) tn__c_refuse(r, "arithmetic on wide elements");
      assign_wide(r, x, y);
      return x;
    }
    if (updates[i].op >= 0) y = arithmetic(r, updates[i].op, x, y);
    assign(r, x, tn__c_converted(r, y, x.type));
    return x;
  }
  return x;
}

/* ---- statements ---- */

static void read_statement(reader *r);

static int64_t read_size(reader *r) {
  int64_t n = strtoll(spelled(r), NULL, 10);
  r->at++;
  need(r, "]");
  return n;
}

static symbol *new_symbol(reader *r, tn__c_type type) {
  const word *w = &r->word.v[r->at];
  if (w->kind != W_NAME) tn__c_refuse(r, "a declaration of nothing");
  tn__vec_push(r->a, &r->symbol, ((symbol){.name = spelled(r), .n = w->n, .type = type}));
  r->at++;
  return &r->symbol.v[r->symbol.n - 1];
}

uint32_t tn__c_cells(reader *r, int64_t n) {
  if (n < 1 || n > 1 << 16) tn__c_refuse(r, "an array of an odd size");
  uint32_t first = new_reg(r);
  for (int64_t i = 1; i < n; i++) new_reg(r);
  return first;
}

/* union { T all[n]; E x[m]; } name; */
static void read_union(reader *r) {
  tn__c_type wide, type;
  need(r, "{");
  if (!take_type(r, &wide)) tn__c_refuse(r, "an odd union");
  need(r, "all");
  int64_t pieces = take(r, "[") ? read_size(r) : 1;
  need(r, ";");
  if (!take_type(r, &type)) tn__c_refuse(r, "an odd union");
  need(r, "x");
  need(r, "[");
  int64_t n = read_size(r);
  need(r, ";");
  need(r, "}");
  if (pieces * wide.bytes != n * type.bytes) tn__c_refuse(r, "a union of different sizes");
  symbol *s = new_symbol(r, type);
  s->each = wide.bytes;
  s->count = (uint32_t)n;
  s->reg = tn__c_cells(r, n);
  need(r, ";");
}

/* An array in shared memory is a place there. */
static void declare_shared(reader *r, symbol *s, int64_t bytes) {
  bool scratch = s->n == 7 && !memcmp(s->name, "scratch", 7);
  if (!scratch && (s->n != 5 || memcmp(s->name, "cells", 5))) tn__c_refuse(r, "unknown shared memory");
  s->shared = true;
  s->type.stars = 1;
  s->reg = tn__c_constant(r, (tn__exact){.kind = TN__EXACT_PLACE, .of = scratch ? TN__C_SCRATCH : TN__C_CELLS});
  *(scratch ? &r->f->scratch_bytes : &r->f->cell_bytes) = bytes;
}

static bool is_shared(const reader *r, uint32_t from) {
  for (uint32_t i = from; i < r->at; i++)
    if (is_named(r, i, "__shared__") || is_named(r, i, "__local")) return true;
  return false;
}

/* A declaration, if one begins here. */
static bool read_declaration(reader *r) {
  uint32_t start = r->at;
  tn__c_type type;
  if (take(r, "union")) {
    read_union(r);
    return true;
  }
  if (!take_type(r, &type)) return false;
  bool shared = is_shared(r, start) && !type.stars;
  symbol *s = new_symbol(r, type);
  if (take(r, "[")) {
    int64_t n = take(r, "]") ? -1 : read_size(r);
    while (take_qualifier(r)) continue;
    if (shared) declare_shared(r, s, n * (n > 0 ? type.bytes : 1));
    else s->count = (uint32_t)n, s->reg = tn__c_cells(r, n);
    need(r, ";");
    return true;
  }
  symbol fresh = *s;
  fresh.reg = type.lanes ? tn__c_cells(r, type.lanes) : new_reg(r);
  r->vectors |= type.lanes > 0;
  if (take(r, "=")) { /* its own name is not yet to be seen; no text of ours would notice */
    r->symbol.v[r->symbol.n - 1].n = 0;
    uint32_t at = r->symbol.n - 1;
    ex x = read_expression(r);
    tn__c_lanes_move(r, fresh.reg, in_reg(type, tn__c_converted(r, x, type)));
    r->symbol.v[at] = fresh;
  } else {
    r->symbol.v[r->symbol.n - 1] = fresh;
    tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE, .dst = fresh.reg, .a = tn__c_constant(r, (tn__exact){0})});
  }
  need(r, ";");
  return true;
}

static void land_all(reader *r, uint32_t from, bool leaves, uint32_t to) {
  for (uint32_t i = from; i < (leaves ? r->leave.n : r->again.n); i++)
    r->ins.v[leaves ? r->leave.v[i] : r->again.v[i]].n = to;
  if (leaves) r->leave.n = from;
  else r->again.n = from;
}

static void read_for(reader *r) {
  uint32_t symbols = r->symbol.n, leave = r->leave.n, again = r->again.n, out = TN__C_NOTHING;
  need(r, "(");
  if (!take(r, ";") && !read_declaration(r)) {
    read_expression(r);
    need(r, ";");
  }
  uint32_t top = r->ins.n;
  r->counter = TN__C_NOTHING;
  if (!is_at(r, ";")) out = put_jump(r, TN__C_UNLESS, truth_of(r, read_expression(r)));
  uint32_t counter = r->counter, limit = r->limit;
  need(r, ";");
  uint32_t step = r->at, depth = 0;
  while (depth || !is_at(r, ")")) {
    if (r->word.v[r->at].kind == W_END) tn__c_refuse(r, "open brackets");
    depth += (uint32_t)is_at(r, "(") - (uint32_t)is_at(r, ")");
    r->at++;
  }
  r->at++;
  r->loops++;
  read_statement(r);
  r->loops--;
  uint32_t end = r->at;
  land_all(r, again, false, r->ins.n);
  r->at = step;
  bool by_one = false;
  if (!is_at(r, ")")) {
    read_expression(r);
    by_one = r->at == step + 2;
  }
  need(r, ")");
  if (counter != TN__C_NOTHING && by_one) tn__c_put(r, (tn__c_ins){.code = TN__C_SKIP, .dst = counter, .a = limit});
  tn__c_put(r, (tn__c_ins){.code = TN__C_JUMP, .n = top});
  r->at = end;
  if (out != TN__C_NOTHING) land(r, out);
  land_all(r, leave, true, r->ins.n);
  r->symbol.n = symbols;
}

static void read_if(reader *r) {
  need(r, "(");
  uint32_t other = put_jump(r, TN__C_UNLESS, truth_of(r, read_expression(r)));
  need(r, ")");
  read_statement(r);
  if (!take(r, "else")) {
    land(r, other);
    return;
  }
  uint32_t end = put_jump(r, TN__C_JUMP, 0);
  land(r, other);
  read_statement(r);
  land(r, end);
}

static void read_block(reader *r) {
  uint32_t symbols = r->symbol.n;
  while (!take(r, "}")) read_statement(r);
  r->symbol.n = symbols;
}

static void read_statement(reader *r) {
  if (r->word.v[r->at].kind == W_END) tn__c_refuse(r, "an open block");
  if (take(r, "TN_INDEPENDENT") || take(r, ";")) return;
  if (take(r, "{")) {
    read_block(r);
  } else if (take(r, "for")) {
    read_for(r);
  } else if (take(r, "if")) {
    read_if(r);
  } else if (is_at(r, "break") || is_at(r, "continue")) {
    bool leaves = is_at(r, "break");
    r->at++;
    if (!r->loops) tn__c_refuse(r, "a way out of no loop");
    uint32_t jump = put_jump(r, TN__C_JUMP, 0);
    if (leaves) tn__vec_push(r->a, &r->leave, jump);
    else tn__vec_push(r->a, &r->again, jump);
    need(r, ";");
  } else if (take(r, "return")) {
    uint32_t value = TN__C_NOTHING;
    if (!is_at(r, ";")) {
      ex x = read_expression(r);
      value = tn__c_converted(r, x, plain(TN_I64));
    }
    need(r, ";");
    tn__c_put(r, (tn__c_ins){.code = TN__C_RETURN, .a = value});
  } else if (!read_declaration(r)) {
    read_expression(r);
    need(r, ";");
  }
}

/* ---- functions ---- */

static void read_parameters(reader *r) {
  need(r, "(");
  while (!take(r, ")")) {
    tn__c_type type;
    if (r->f->nparam == TN__C_PARAMS || !take_type(r, &type)) tn__c_refuse(r, "an odd parameter");
    symbol *s = new_symbol(r, type);
    s->reg = new_reg(r);
    r->f->param[r->f->nparam++] = (tn__c_param){
        .name = tn__arena_strdup(r->a, ""), .reg = s->reg, .dtype = type.dtype, .stars = type.stars};
    if (!is_at(r, ")")) need(r, ",");
  }
}

typedef struct reading {
  reader *r;
  const char *name;
  bool found;
} reading;

/* The text from the line of `name(` up to the brace that closes its body. */
static bool find_function(const char *text, const char *name, const char **from, const char **to) {
  size_t n = strlen(name);
  for (const char *s = strstr(text, name); s; s = strstr(s + 1, name)) {
    bool whole = s == text || !(isalnum((unsigned char)s[-1]) || s[-1] == '_');
    if (!whole || s[n] != '(') continue;
    const char *end = strstr(s, "\n}");
    *from = s;
    while (*from > text && (*from)[-1] != '\n') --*from;
    *to = end ? end + 2 : s + strlen(s);
    return true;
  }
  return false;
}

static void read_function(void *arg) {
  reading *g = arg;
  reader *r = g->r;
  const char *from, *to;
  tn__c_type type;
  if (!find_function(r->text, g->name, &from, &to)) return;
  g->found = true;
  split_words(r, from, to);
  if (!take_type(r, &type)) tn__c_refuse(r, "an odd function");
  while (take_qualifier(r)) continue;
  r->at++;
  read_parameters(r);
  need(r, "{");
  read_block(r);
  if (r->word.v[r->at].kind != W_END) tn__c_refuse(r, "text behind the function");
  tn__c_put(r, (tn__c_ins){.code = TN__C_RETURN, .a = TN__C_NOTHING});
}

tn__c_function *tn__c_text_read(tn_ctx *c, tn__arena *a, const char *text, const char *name, tn__sb *why) {
  tn__c_function *f = tn__arena_zalloc(a, sizeof *f);
  reader *r = tn__arena_zalloc(a, sizeof *r);
  reading g = {.r = r, .name = name};
  tn_status status;
  *r = (reader){.c = c, .a = a, .text = text, .why = why, .f = f};
  *f = (tn__c_function){.name = name,
                        .text = text,
                        .thread = TN__C_NOTHING,
                        .group = TN__C_NOTHING,
                        .groups = TN__C_NOTHING};
  new_reg(r);
  if (!tn__mem_try(&c->mem, read_function, &g, &status)) {
    if (status != TN_ECOMPILE) tn__mem_throw(&c->mem, status);
    return NULL;
  }
  if (!g.found) {
    tn__sb_printf(why, "there is no function %s", name);
    return NULL;
  }
  f->ins = r->ins.v, f->n = r->ins.n;
  f->reg = r->reg.v, f->nreg = r->reg.n;
  f->vectors = r->vectors;
  return f;
}
