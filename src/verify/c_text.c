/* Declarations, statements and functions, in one pass.  It recurses over nested blocks and expressions only, which are
 * as deep as the printer writes them. */
#include "verify/c_reader.h"
#include <ctype.h>
#include <stdlib.h>

/* ---- declarations ---- */

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

/* union { T all[n]; E x[m]; } name; */
static void read_union(reader *r) {
  tn__c_type wide, type;
  need(r, "{");
  if (!tn__c_take_type(r, &wide)) tn__c_refuse(r, "an odd union");
  need(r, "all");
  int64_t pieces = take(r, "[") ? read_size(r) : 1;
  need(r, ";");
  if (!tn__c_take_type(r, &type)) tn__c_refuse(r, "an odd union");
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
  if (!tn__c_take_type(r, &type)) return false;
  bool shared = is_shared(r, start) && !type.stars;
  symbol *s = new_symbol(r, type);
  if (take(r, "[")) {
    int64_t n = take(r, "]") ? -1 : read_size(r);
    while (tn__c_take_qualifier(r)) continue;
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
    ex x = tn__c_expression(r);
    tn__c_lanes_move(r, fresh.reg, in_reg(type, tn__c_converted(r, x, type)));
    r->symbol.v[at] = fresh;
  } else {
    r->symbol.v[r->symbol.n - 1] = fresh;
    tn__c_put(r, (tn__c_ins){.code = TN__C_MOVE, .dst = fresh.reg, .a = tn__c_constant(r, (tn__exact){0})});
  }
  need(r, ";");
  return true;
}

/* ---- statements ---- */

static void read_statement(reader *r);

/* People read the text, too: what begins a line stands as far in it as it is nested. */
static void check_indent(reader *r) {
  const char *first = spelled(r), *line = first;
  while (line > r->text && line[-1] == ' ') line--;
  if (line > r->text && line[-1] != '\n') return;
  if (first - line != 2 * (ptrdiff_t)r->depth) tn__c_refuse(r, "a line that is not indented as it is nested");
}

/* What a loop or a condition does, with braces or without */
static void read_body(reader *r) {
  uint32_t deeper = !is_at(r, "{");
  r->depth += deeper;
  read_statement(r);
  r->depth -= deeper;
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
    tn__c_expression(r);
    need(r, ";");
  }
  uint32_t top = r->ins.n;
  r->counter = TN__C_NOTHING;
  if (!is_at(r, ";")) out = put_jump(r, TN__C_UNLESS, tn__c_truth(r, tn__c_expression(r)));
  uint32_t counter = r->counter, limit = r->limit;
  need(r, ";");
  uint32_t step = r->at, depth = 0;
  while (depth || !is_at(r, ")")) {
    if (r->word.v[r->at].kind == W_END) tn__c_refuse(r, "open brackets");
    depth = depth + is_at(r, "(") - is_at(r, ")");
    r->at++;
  }
  r->at++;
  r->loops++;
  read_body(r);
  r->loops--;
  uint32_t end = r->at;
  land_all(r, again, false, r->ins.n);
  r->at = step;
  bool by_one = false;
  if (!is_at(r, ")")) {
    tn__c_expression(r);
    by_one = r->at == step + 2;
    r->turns |= r->at == step + 3; /* i += n */
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
  uint32_t other = put_jump(r, TN__C_UNLESS, tn__c_truth(r, tn__c_expression(r)));
  need(r, ")");
  read_body(r);
  if (!take(r, "else")) {
    land(r, other);
    return;
  }
  uint32_t end = put_jump(r, TN__C_JUMP, 0);
  land(r, other);
  if (is_at(r, "if")) read_statement(r);
  else read_body(r);
  land(r, end);
}

static void read_block(reader *r) {
  uint32_t symbols = r->symbol.n;
  r->depth++;
  while (!is_at(r, "}")) read_statement(r);
  r->depth--;
  check_indent(r);
  r->at++;
  r->symbol.n = symbols;
}

static void pass_block(reader *r) {
  for (uint32_t depth = 1; depth;) {
    if (r->word.v[r->at].kind == W_END) tn__c_refuse(r, "an open block");
    depth += is_at(r, "{");
    depth -= is_at(r, "}");
    r->at++;
  }
}

/* ---- rows that are added in order ---- */

/* What it means is read where it is called. */
static void read_lambda(reader *r) {
  lambda f = {.name = r->at++};
  need(r, "=");
  need(r, "[");
  need(r, "&");
  need(r, "]");
  need(r, "(");
  f.parameters = r->at;
  if (!tn__c_take_type(r, &f.type) || f.type.stars) tn__c_refuse(r, "an odd parameter");
  while (!is_at(r, "{")) {
    if (r->word.v[r->at].kind == W_END) tn__c_refuse(r, "an open head");
    r->at++;
  }
  r->at++;
  pass_block(r);
  need(r, ";");
  tn__vec_push(r->a, &r->lambda, f);
}

static const lambda *find_lambda(reader *r) {
  for (uint32_t i = r->lambda.n; i && i--;) {
    const word *w = &r->word.v[r->lambda.v[i].name], *own = &r->word.v[r->at];
    if (w->n == own->n && !memcmp(r->text + w->at, r->text + own->at, w->n)) return &r->lambda.v[i];
  }
  tn__c_refuse(r, "a call with no function");
}

static ex number_here(reader *r, uint64_t n) { return in_reg(plain(TN_I32), tn__c_constant(r, tn__exact_int(n))); }

/* What such a function says of a turn: registers */
typedef struct turn_read {
  uint32_t wanted, inside;
  ex at, value;
} turn_read;

/* return tn_turn<type, type>{wanted, inside, at, value}; */
static turn_read read_turn(reader *r) {
  tn__c_type type;
  turn_read x;
  need(r, "return");
  need(r, "tn_turn");
  need(r, "<");
  if (!tn__c_take_type(r, &type)) tn__c_refuse(r, "an odd type");
  need(r, ",");
  if (!tn__c_take_type(r, &type)) tn__c_refuse(r, "an odd type");
  need(r, ">");
  need(r, "{");
  x.wanted = tn__c_truth(r, tn__c_expression(r));
  need(r, ",");
  x.inside = tn__c_truth(r, tn__c_expression(r));
  need(r, ",");
  x.at = in_reg(type, tn__c_converted(r, tn__c_expression(r), type));
  need(r, ",");
  x.value = tn__c_expression(r);
  tn__c_value(r, &x.value);
  need(r, "}");
  need(r, ";");
  return x;
}

/* What is fetched for a turn */
typedef tn__vec(ex) row_read;

/* return tn_row<type, ...>{value, ...}; */
static row_read read_row(reader *r) {
  tn__vec(tn__c_type) types = {0};
  row_read row = {0};
  need(r, "return");
  need(r, "tn_row");
  need(r, "<");
  while (!take(r, ">")) {
    tn__c_type type;
    if (types.n) need(r, ",");
    if (!tn__c_take_type(r, &type) || type.stars) tn__c_refuse(r, "an odd type");
    tn__vec_push(r->a, &types, type);
  }
  need(r, "{");
  for (uint32_t i = 0; i < types.n; i++) {
    if (i) need(r, ",");
    ex x = tn__c_expression(r);
    tn__vec_push(r->a, &row, in_reg(types.v[i], tn__c_converted(r, x, types.v[i])));
  }
  need(r, "}");
  need(r, ";");
  return row;
}

/* Takes the parameter that comes, which has that value from now on; of its own type. */
static void give(reader *r, ex x) {
  tn__c_type type;
  if (!tn__c_take_type(r, &type) || type.stars) tn__c_refuse(r, "an odd parameter");
  const word *w = &r->word.v[r->at++];
  symbol parameter = {.name = r->text + w->at, .n = w->n, .type = type, .reg = tn__c_converted(r, x, type)};
  tn__vec_push(r->a, &r->symbol, parameter);
}

/* What a call relies on: how many threads and places there are, and where those are */
typedef struct owned_read {
  ex to, first, step; /* the first one's of the first thread, and from each to the next */
  ex places;
  ex column;       /* the thread's */
  uint32_t inside; /* is the thread there: for the first place, as for all */
  uint32_t stores; /* is it one of those that stand for all that have its column */
  int64_t threads;
} owned_read;

/* The function of that turn, up to what it gives, as if it stood here; row: NULL: nothing is fetched, and zeros are
 * there */
static void begin_call(reader *r, const owned_read *o, const lambda *f, uint32_t turn, const row_read *row) {
  uint32_t given = 0;
  r->at = f->parameters;
  give(r, in_reg(f->type, turn));
  need(r, ",");
  give(r, o->column);
  for (; take(r, ","); given++) {
    if (row && given == row->n) tn__c_refuse(r, "a value that nobody fetches");
    give(r, row ? row->v[given] : number_here(r, 0));
  }
  if (row && given < row->n) tn__c_refuse(r, "a value that is fetched for nobody");
  need(r, ")");
  need(r, "{");
  r->depth++;
  while (!is_at(r, "return")) read_statement(r);
  r->depth--;
}

static turn_read call_turn(reader *r, const owned_read *o, const lambda *f, uint32_t turn, const row_read *row) {
  uint32_t symbols = r->symbol.n;
  begin_call(r, o, f, turn, row);
  turn_read x = read_turn(r);
  r->symbol.n = symbols;
  return x;
}

static row_read call_fetch(reader *r, const owned_read *o, const lambda *f, uint32_t turn) {
  uint32_t symbols = r->symbol.n;
  begin_call(r, o, f, turn, &(row_read){0});
  row_read row = read_row(r);
  r->symbol.n = symbols;
  return row;
}

/* As far from the first column's element as the thread's column */
static ex first_of_turn(reader *r, const owned_read *o, const turn_read *x) {
  return tn__c_arithmetic(r, TN__C_SUB, x->at, o->column);
}

static void need_same(reader *r, ex a, ex b) { tn__c_put(r, (tn__c_ins){.code = TN__C_SAME, .a = a.reg, .b = b.reg}); }

/* All threads take it alike, it is of one of the places, of the one of this number or of any, and the same threads are
 * there as for the first one. */
static void check_turn(reader *r, const owned_read *o, const turn_read *x, ex number, bool adds) {
  ex from = tn__c_arithmetic(r, TN__C_SUB, first_of_turn(r, o, x), o->first);
  tn__c_put(r, (tn__c_ins){.code = TN__C_ALIKE, .a = x->wanted, .b = from.reg, .n = o->threads});
  uint32_t unwanted = put_jump(r, TN__C_UNLESS, x->wanted);
  if (adds) {
    number = tn__c_arithmetic(r, TN__C_DIV, from, o->step);
    need_same(r, tn__c_arithmetic(r, TN__C_LT, number, number_here(r, 0)), number_here(r, 0));
    need_same(r, tn__c_arithmetic(r, TN__C_LT, number, o->places), number_here(r, 1));
  }
  need_same(r, from, tn__c_arithmetic(r, TN__C_MUL, number, o->step));
  tn__c_put(r, (tn__c_ins){.code = TN__C_SAME, .a = x->inside, .b = o->inside});
  land(r, unwanted);
}

/* What a place gets in a turn: what this says, or as much more, or what it has already */
typedef enum gets { GETS_VALUE, GETS_MORE, KEEPS } gets;

/* Where it is wanted and the thread is there */
static void put_store(reader *r, const owned_read *o, const turn_read *x, gets what) {
  uint32_t unwanted = put_jump(r, TN__C_UNLESS, x->wanted), outside = put_jump(r, TN__C_UNLESS, x->inside);
  uint32_t other = put_jump(r, TN__C_UNLESS, o->stores);
  ex place = tn__c_arithmetic(r, TN__C_ADD, in_reg(o->to.type, o->to.reg), x->at);
  ex element = {.type = o->to.type, .where = MEMORY, .reg = place.reg};
  element.type.stars--;
  ex value = what == GETS_VALUE ? x->value : element;
  if (what == GETS_MORE) value = tn__c_arithmetic(r, TN__C_ADD, element, x->value);
  tn__c_assign(r, element, tn__c_converted(r, value, element.type));
  land(r, unwanted);
  land(r, outside);
  land(r, other);
}

/* A loop over so many turns, which stores what the function says, or, of what is fetched, adds it, where it is wanted
 * and the thread is there.  It is asked for these before anything is fetched. */
static void read_turns(reader *r, const owned_read *o, const lambda *f, const lambda *fetch, ex count, gets what) {
  uint32_t turn = new_reg(r);
  ex counter = {.type = f->type, .where = VARIABLE, .reg = turn};
  tn__c_assign(r, counter, tn__c_converted(r, number_here(r, 0), f->type));
  uint32_t top = r->ins.n;
  uint32_t out = put_jump(r, TN__C_UNLESS, tn__c_truth(r, tn__c_arithmetic(r, TN__C_LT, counter, count)));
  turn_read x = call_turn(r, o, f, turn, NULL);
  check_turn(r, o, &x, counter, fetch != NULL);
  if (fetch) {
    const row_read row = call_fetch(r, o, fetch, turn);
    x.value = call_turn(r, o, f, turn, &row).value;
  }
  put_store(r, o, &x, what);
  tn__c_assign(r, counter, tn__c_converted(r, tn__c_arithmetic(r, TN__C_ADD, counter, number_here(r, 1)), f->type));
  tn__c_put(r, (tn__c_ins){.code = TN__C_SKIP, .dst = counter.reg, .a = count.reg});
  tn__c_put(r, (tn__c_ins){.code = TN__C_JUMP, .n = top});
  land(r, out);
}

static int64_t number_in(reader *r) {
  int64_t n = strtoll(spelled(r), NULL, 10);
  r->at++;
  return n;
}

static lambda take_lambda(reader *r) {
  need(r, ",");
  const lambda f = *find_lambda(r);
  r->at++;
  return f;
}

/* Which column the thread has, and whether it is one of the first who has that one: of rows that go abreast, each with
 * places of its own, these stand for all. */
static void take_columns(reader *r, owned_read *o) {
  int64_t n = number_in(r);
  if (n < 1 || o->threads % n) tn__c_refuse(r, "an odd number of columns");
  ex columns = number_here(r, (uint64_t)n);
  if (r->f->thread == TN__C_NOTHING) r->f->thread = new_reg(r);
  ex thread = in_reg(plain(TN_I32), r->f->thread);
  o->column = tn__c_arithmetic(r, TN__C_REM, thread, columns);
  o->stores = tn__c_truth(r, tn__c_arithmetic(r, TN__C_LT, thread, columns));
}

/* tn_own_places<places, turns, threads, columns, begins>(to, begin, fetch, turn): a loop over the places, and one over
 * the turns */
static void read_owned(reader *r) {
  owned_read o = {0};
  need(r, "<");
  int64_t places = number_in(r);
  need(r, ",");
  ex turns = number_here(r, (uint64_t)number_in(r));
  need(r, ",");
  o.threads = number_in(r);
  need(r, ",");
  take_columns(r, &o);
  need(r, ",");
  bool begins = take(r, "true");
  if (!begins) need(r, "false");
  need(r, ">");
  need(r, "(");
  o.to = tn__c_expression(r);
  tn__c_value(r, &o.to);
  if (o.to.type.stars != 1) tn__c_refuse(r, "no place to add to");
  if (places < 2) tn__c_refuse(r, "one place, which no other is next to");
  const lambda begin = take_lambda(r), fetch = take_lambda(r), turn = take_lambda(r);
  need(r, ")");
  need(r, ";");
  uint32_t end = r->at;
  o.places = number_here(r, (uint64_t)places);
  turn_read x = call_turn(r, &o, &begin, number_here(r, 0).reg, NULL),
            next = call_turn(r, &o, &begin, number_here(r, 1).reg, NULL);
  o.first = first_of_turn(r, &o, &x);
  o.inside = x.inside;
  o.step = tn__c_arithmetic(r, TN__C_SUB, first_of_turn(r, &o, &next), o.first);
  read_turns(r, &o, &begin, NULL, o.places, begins ? GETS_VALUE : KEEPS);
  read_turns(r, &o, &turn, &fetch, turns, GETS_MORE);
  r->at = end;
}

/* A block of the function's own, which is a stage: all threads meet between two. */
static void read_stage(reader *r) {
  need(r, "{");
  if (r->passed == r->stage) read_block(r);
  else pass_block(r);
  if (++r->passed == r->stages) return;
  uint32_t before = r->ins.n;
  read_statement(r);
  if (r->ins.n != before + 1 || r->ins.v[before].code != TN__C_BARRIER || r->ins.v[before].op || !r->ins.v[before].n)
    tn__c_refuse(r, "no barrier for all memory behind a stage");
}

static void read_statement(reader *r) {
  if (r->word.v[r->at].kind == W_END) tn__c_refuse(r, "an open block");
  check_indent(r);
  if (r->stages && r->depth == 1 && is_at(r, "{")) {
    read_stage(r);
    return;
  }
  if (take(r, "TN_INDEPENDENT") || take(r, ";")) return;
  if (take(r, "{")) {
    read_block(r);
  } else if (take(r, "for")) {
    read_for(r);
  } else if (take(r, "if")) {
    read_if(r);
  } else if (take(r, "auto")) {
    read_lambda(r);
  } else if (take(r, "tn_own_places")) {
    read_owned(r);
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
      ex x = tn__c_expression(r);
      value = tn__c_converted(r, x, plain(TN_I64));
    }
    need(r, ";");
    tn__c_put(r, (tn__c_ins){.code = TN__C_RETURN, .a = value});
  } else if (!read_declaration(r)) {
    tn__c_expression(r);
    need(r, ";");
  }
}

/* ---- functions ---- */

static void read_parameters(reader *r) {
  need(r, "(");
  while (!take(r, ")")) {
    tn__c_type type;
    if (r->f->nparam == TN__C_PARAMS || !tn__c_take_type(r, &type)) tn__c_refuse(r, "an odd parameter");
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
  tn__c_split(r, from, to);
  if (!tn__c_take_type(r, &type)) tn__c_refuse(r, "an odd function");
  while (tn__c_take_qualifier(r)) continue;
  r->at++;
  read_parameters(r);
  need(r, "{");
  read_block(r);
  if (r->passed != r->stages) tn__c_refuse(r, "another number of stages");
  if (r->word.v[r->at].kind != W_END) tn__c_refuse(r, "text behind the function");
  tn__c_put(r, (tn__c_ins){.code = TN__C_RETURN, .a = TN__C_NOTHING});
}

tn__c_function *tn__c_text_read(tn_ctx *c, tn__arena *a, const char *text, const char *name, tn__sb *why) {
  return tn__c_text_read_stage(c, a, text, name, 0, 0, why);
}

tn__c_function *tn__c_text_read_stage(tn_ctx *c, tn__arena *a, const char *text, const char *name, uint32_t stage,
                                      uint32_t stages, tn__sb *why) {
  tn__c_function *f = tn__arena_zalloc(a, sizeof *f);
  reader *r = tn__arena_zalloc(a, sizeof *r);
  reading g = {.r = r, .name = name};
  tn_status status;
  *r = (reader){.c = c, .a = a, .text = text, .why = why, .f = f, .stage = stage, .stages = stages};
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
  f->turns = r->turns;
  return f;
}
