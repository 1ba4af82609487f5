/* Expressions, by C's grammar: as deep as they nest, the reader recurses. */
#include "verify/c_reader.h"
#include <ctype.h>
#include <stdlib.h>

static ex read_unary(reader *r);
static ex read_choice(reader *r);

static symbol *find_symbol(reader *r) {
  const word *w = &r->word.v[r->at];
  for (uint32_t i = r->symbol.n; i && i--;)
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
    arg[n++] = tn__c_expression(r);
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
      {"__syncthreads", TN__C_BARRIER, 0, 0, 1},
      {"__syncwarp", TN__C_BARRIER, 1, 0, 1},
      {"barrier", TN__C_BARRIER, 0, 1, 0},
      {"tn_begin", TN__C_BEGIN, 0, 0, 0},
      {"tn_renew", TN__C_RENEW, 0, 1, 0},
      {"tn_send", TN__C_SEND, 0, 3, 0},
      {"tn_sent", TN__C_SENT, 0, 0, 0},
      {"__shfl_xor_sync", TN__C_EXCHANGE, 1, 3, 0},
      {"__shfl_sync", TN__C_EXCHANGE, 0, 3, 0},
      {"tn_add_at_i32", TN__C_ADD_AT, TN_I32, 2, OP_ADD},
      {"tn_add_at_u32", TN__C_ADD_AT, TN_U32, 2, OP_ADD},
      {"tn_add_at_i64", TN__C_ADD_AT, TN_I64, 2, OP_ADD},
      {"tn_add_at_u64", TN__C_ADD_AT, TN_U64, 2, OP_ADD},
      {"tn_add_in_i32", TN__C_ADD_AT, TN_I32, 2, OP_ADD},
      {"tn_add_in_u32", TN__C_ADD_AT, TN_U32, 2, OP_ADD},
      {"tn_count_in_step", TN__C_IN_STEP, 0, 2, 0},
      {"tn_max_at_i32", TN__C_ADD_AT, TN_I32, 2, OP_MAX},
      {"tn_max_at_u32", TN__C_ADD_AT, TN_U32, 2, OP_MAX},
      {"tn_max_at_i64", TN__C_ADD_AT, TN_I64, 2, OP_MAX},
      {"tn_max_at_u64", TN__C_ADD_AT, TN_U64, 2, OP_MAX},
      {"tn_or_at_i32", TN__C_ADD_AT, TN_I32, 2, OP_OR},
      {"tn_or_at_u32", TN__C_ADD_AT, TN_U32, 2, OP_OR},
      {"tn_or_at_i64", TN__C_ADD_AT, TN_I64, 2, OP_OR},
      {"tn_or_at_u64", TN__C_ADD_AT, TN_U64, 2, OP_OR},
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
      if (x.code == TN__C_IN_STEP) x.c = 0, x.dst = new_reg(r), *out = in_reg(plain(TN_U32), x.dst);
    }
    tn__c_put(r, x);
    return true;
  }
  return false;
}

/* tn_from(pointer, elements), which hides the sum from compilers */
static ex read_pointer(reader *r) {
  ex arg[2];
  r->at++;
  if (tn__c_arguments(r, arg, 2) != 2) tn__c_refuse(r, "another number of arguments");
  for (uint32_t k = 0; k < 2; k++) tn__c_value(r, &arg[k]);
  if (arg[0].type.stars != 1 || arg[1].type.stars || tn__is_float(arg[1].type.dtype)) tn__c_refuse(r, "no pointer");
  return tn__c_arithmetic(r, TN__C_ADD, arg[0], arg[1]);
}

static ex read_call(reader *r) {
  tn__c_call call;
  ex arg[3], out;
  const word *w = &r->word.v[r->at];
  if (is_at(r, "tn_from")) return read_pointer(r);
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
    ex x = tn__c_expression(r);
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
  ex place = tn__c_arithmetic(r, TN__C_ADD, in_reg(x.type, x.reg), index);
  return (ex){.type = of, .where = MEMORY, .reg = place.reg};
}

static ex read_member(reader *r, symbol *s, ex x) {
  if (take(r, "x")) {
    need(r, "[");
    ex index = tn__c_expression(r);
    need(r, "]");
    return indexed(r, x, index);
  }
  need(r, "all");
  x.where = WIDE_CELL;
  x.type = (tn__c_type){.dtype = s->type.dtype, .bytes = (uint8_t)s->each};
  if (take(r, "[")) {
    ex index = tn__c_expression(r);
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
      ex index = tn__c_expression(r);
      need(r, "]");
      x = indexed(r, x, index);
    } else if (is_at(r, "++") || is_at(r, "--")) {
      int op = is_at(r, "++") ? TN__C_ADD : TN__C_SUB;
      r->at++;
      ex one = in_reg(plain(TN_I32), tn__c_constant(r, tn__exact_int(1))), next = tn__c_arithmetic(r, op, x, one);
      tn__c_assign(r, x, tn__c_converted(r, next, x.type));
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
    if (tn__c_take_type(r, &to)) {
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
  if (not) return tn__c_arithmetic(r, TN__C_EQ, x, in_reg(plain(TN_I32), tn__c_constant(r, tn__exact_int(0))));
  int dtype = tn__c_promoted(x.type.dtype);
  uint32_t from = tn__c_converted(r, x, plain(dtype)), dst = new_reg(r);
  if (flip && tn__is_float(dtype)) tn__c_refuse(r, "bits of a float");
  int op = flip ? TN__C_NOT : TN__C_NEG;
  tn__c_put(r, (tn__c_ins){
                   .code = TN__C_ARITH, .op = (uint8_t)op, .dtype = (uint8_t)dtype, .dst = dst, .a = from, .b = from});
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

static ex read_binary(reader *r, int least);

static ex read_logic(reader *r, ex x, bool is_or, int level) {
  uint32_t dst = new_reg(r);
  tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE, .dst = dst, .a = tn__c_truth(r, x)});
  uint32_t jump = put_jump(r, is_or ? TN__C_IF : TN__C_UNLESS, dst);
  ex y = read_binary(r, level + 1);
  tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE, .dst = dst, .a = tn__c_truth(r, y)});
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
    x = turned ? tn__c_arithmetic(r, op, y, x) : tn__c_arithmetic(r, op, x, y);
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
  uint32_t other = put_jump(r, TN__C_UNLESS, tn__c_truth(r, x)), dst;
  ex a = tn__c_expression(r);
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
  int dtype = tn__c_common_dtype(a.type.dtype, b.type.dtype);
  r->ins.v[first].dtype = (uint8_t)dtype;
  tn__c_put(r, (tn__c_ins){
                   .code = TN__C_CONVERT, .dst = dst, .a = b.reg, .dtype = (uint8_t)dtype, .sdtype = b.type.dtype});
  land(r, end);
  return in_reg(plain(dtype), dst);
}

ex tn__c_expression(reader *r) {
  static const struct {
    const char *sign;
    int op;
  } updates[] = {{"=", -1}, {"+=", TN__C_ADD}, {"-=", TN__C_SUB}, {"*=", TN__C_MUL},
                 {"/=", TN__C_DIV}, {"^=", TN__C_XOR}, {"|=", TN__C_OR}, {"&=", TN__C_AND}};
  ex x = read_choice(r);
  for (size_t i = 0; i < sizeof updates / sizeof *updates; i++) {
    if (!is_at(r, updates[i].sign)) continue;
    r->at++;
    ex y = tn__c_expression(r);
    if (x.where == WIDE_CELL || y.where == WIDE_CELL) {
      if (updates[i].op >= 0) tn__c_refuse(r, "arithmetic on wide elements");
      tn__c_assign_wide(r, x, y);
      return x;
    }
    if (updates[i].op >= 0) y = tn__c_arithmetic(r, updates[i].op, x, y);
    tn__c_assign(r, x, tn__c_converted(r, y, x.type));
    return x;
  }
  return x;
}
