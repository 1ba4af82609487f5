#include "verify/c_machine.h"
#include "ir/eval.h"
#include <string.h>

enum { RUNS, WAITS, DONE };
enum { SORTED_STEP = 5 }; /* between numbers that stand in order */

typedef struct sending { /* a copy under way */
  tn__exact_cell from;
  uint32_t object;
  int64_t at;
} sending;

typedef struct tn__c_thread {
  tn__exact *reg;
  uint32_t pc, number;
  uint8_t state;
  bool begun;
  uint32_t epoch; /* barriers of its warp */
  tn__vec(sending) sent;
  uint64_t renewed; /* buffers, by bit */
} thread;

typedef struct run {
  tn__c_machine *m;
  thread *t;
  const tn__c_ins *i;
} run;

/* ---- memory ---- */

void tn__exact_memory_open(tn__exact_memory *m, tn__arena *a, uint64_t seed, uint32_t nbuf, const uint8_t *dtype,
                           const int64_t *size, const uint8_t *holds) {
  *m = (tn__exact_memory){.arena = a, .seed = seed, .nbuf = nbuf, .dtype = dtype, .size = size, .holds = holds};
  tn__map_init(&m->place, a);
}

void tn__exact_memory_clear(tn__exact_memory *m) {
  tn__map_clear(&m->place);
  m->cell.n = 0;
  memset(m->last, 0, sizeof m->last);
}

/* Loops go through what they touch in one order time and again: the cell that was touched last, or the one behind it,
 * saves most of the searches.  UINT32_MAX: it is another one. */
static uint32_t near_last(const tn__exact_memory *m, uint32_t last, uint32_t object, int64_t at) {
  for (uint32_t i = last; i < m->cell.n && i < last + 2; i++)
    if (m->cell.v[i].at == at && m->cell.v[i].object == object) return i;
  return UINT32_MAX;
}

/* What is given as an element of a buffer */
static tn__exact initial(const tn__exact_memory *m, uint32_t object, int64_t element) {
  switch (tn__is_float(m->dtype[object]) ? TN__HOLDS_ANY : m->holds[object]) {
  case TN__HOLDS_PERMUTED: return tn__exact_int(((uint64_t)element + m->seed) % (uint64_t)m->size[object]);
  case TN__HOLDS_SORTED: return tn__exact_int((uint64_t)element * SORTED_STEP + m->seed % SORTED_STEP);
  default: return tn__exact_input(m->seed, m->dtype[object], object, element, m->number, m->nnumber);
  }
}

tn__exact_cell *tn__exact_memory_at(tn__exact_memory *m, uint32_t object, int64_t at, int dtype) {
  uint64_t key = (uint64_t)object << 44 ^ (uint64_t)at, known;
  bool buffer = object < m->nbuf;
  if (buffer) {
    int64_t size = (int64_t)tn__size_of(m->dtype[object]);
    if (at < 0 || at % size || at / size >= m->size[object]) return NULL;
  }
  uint32_t *last = &m->last[object % (sizeof m->last / sizeof *m->last)], near = near_last(m, *last, object, at);
  if (near != UINT32_MAX) return &m->cell.v[*last = near];
  if (tn__map_get(&m->place, key, &known)) return &m->cell.v[*last = (uint32_t)known];
  tn__exact_cell fresh = {.object = object, .at = at, .dtype = (uint8_t)dtype};
  if (buffer) {
    int64_t element = at / (int64_t)tn__size_of(m->dtype[object]);
    fresh.dtype = m->dtype[object];
    fresh.val = initial(m, object, element);
  } else { /* nobody wrote it, where loops are cut short; texts convert it on the way */
    fresh.val = tn__is_float(dtype) ? tn__exact_const(dtype, 0) : tn__exact_int(0);
  }
  tn__map_put(&m->place, key, m->cell.n);
  tn__vec_push(m->arena, &m->cell, fresh);
  return &m->cell.v[*last = m->cell.n - 1];
}

/* ---- complaints ---- */

static bool complain(run *r, const char *what) {
  tn__sb_printf(r->m->why, "%s in: %s", what, tn__c_text_line(r->m->a, r->m->f->text, r->i->at));
  return false;
}

/* ---- races ---- */

/* Who touched an element last: a thread, counted from 1; or several of a warp, or of several. */
enum { OF_WARP = 1u << 30, OF_ALL = 1u << 31 };

static uint32_t warp_of(const run *r, uint32_t who) {
  return who & OF_WARP ? who & ~(uint32_t)OF_WARP : (who - 1) / (uint32_t)r->m->warp;
}

/* Did they come to be ordered before this thread, by barriers behind the `behind` of then? */
static bool is_ordered(const run *r, uint32_t who, const uint32_t *behind) {
  uint32_t me = r->t->number + 1;
  if (!who || who == me || behind[0] != r->m->epoch) return true;
  return !(who & OF_ALL) && warp_of(r, who) == warp_of(r, me) && behind[1] != r->t->epoch;
}

enum { READS, WRITES, COMBINES /* and by which op */ };

/* This thread, with those who touched it before unless a barrier came between */
static uint32_t together(const run *r, uint32_t who, const uint32_t *when) {
  uint32_t me = r->t->number + 1;
  if (is_ordered(r, who, when)) return me;
  return !(who & OF_ALL) && warp_of(r, who) == warp_of(r, me) ? OF_WARP | warp_of(r, me) : OF_ALL;
}

/* Did a barrier of all threads that there are come after that? */
static bool is_behind_all(const run *r, const uint32_t *behind) {
  return behind[0] != r->m->epoch || (r->m->threads <= r->m->warp && behind[1] != r->t->epoch);
}

/* Additions that go on at once are no race with each other, nor are maxima; with a store of the same thread before
 * them others' are. */
static bool check_race(run *r, tn__exact_cell *c, int how) {
  const uint32_t now[2] = {r->m->epoch, r->t->epoch};
  uint8_t by = how > COMBINES ? (uint8_t)(how - COMBINES) : 0;
  bool writes = how != READS, again = by && c->combined == by;
  if (!again && !is_ordered(r, c->writer, c->wrote))
    return complain(r, "another thread wrote there, without a barrier");
  if (writes && !is_ordered(r, c->reader, c->read)) return complain(r, "another thread reads that, without a barrier");
  if (writes) {
    c->combined = again || !c->writer || is_behind_all(r, c->wrote) ? by : 0;
    c->writer = together(r, c->writer, c->wrote);
    memcpy(c->wrote, now, sizeof now);
    return true;
  }
  c->reader = together(r, c->reader, c->read);
  memcpy(c->read, now, sizeof now);
  return true;
}

/* ---- accesses ---- */

/* How elements of a buffer look to the text. */
static int seen_as(int dtype) {
  if (dtype == TN_F16 || dtype == TN_BF16) return TN_U16;
  return dtype == TN_BOOL ? TN_U8 : dtype == TN__INDEX ? TN_I64 : dtype;
}

static int64_t shared_bytes(const run *r, uint32_t object) {
  bool cells = object == TN__C_CELLS;
  int64_t declared = cells ? r->m->f->cell_bytes : r->m->f->scratch_bytes;
  return declared > 0 ? declared : r->m->shared[cells];
}

/* The element that a pointer leads to; NULL: it leads nowhere. */
static tn__exact_cell *element_at(run *r, tn__exact p, int64_t more, int dtype, int how) {
  tn__c_machine *m = r->m;
  uint32_t object = (uint32_t)p.of;
  int64_t at = (int64_t)p.v + more, size = (int64_t)tn__size_of(dtype);
  if (p.kind != TN__EXACT_PLACE) return complain(r, "a pointer to nothing"), NULL;
  bool buffer = object < m->memory->nbuf;
  if (buffer && seen_as(m->memory->dtype[object]) != dtype) return complain(r, "a buffer of another type"), NULL;
  if (!buffer && (at < 0 || at % size || at + size > shared_bytes(r, object)))
    return complain(r, "an access outside of shared memory"), NULL;
  if (buffer && m->begins && !r->t->begun) return complain(r, "an access before what came before is done"), NULL;
  if (buffer && m->begins && object < 64 && !(r->t->renewed >> object & 1))
    return complain(r, "an access through a pointer from before"), NULL;
  tn__exact_cell *c = tn__exact_memory_at(m->memory, object, at, dtype);
  if (!c) return complain(r, "an access outside of its buffer"), NULL;
  if (m->threads > 1 && (!buffer || m->written[object]) && !check_race(r, c, how)) return NULL;
  return c;
}

static tn__exact value_in(const tn__exact_cell *c, int dtype) {
  if (c->dtype == dtype) return c->val;
  if (c->dtype == TN_F16 || c->dtype == TN_BF16) return tn__exact_bits(c->dtype, c->val);
  return seen_as(c->dtype) == dtype ? c->val : (tn__exact){0};
}

static bool put_value(run *r, tn__exact_cell *c, int dtype, tn__exact v, bool buffer) {
  if (buffer && v.near) return complain(r, "a value of reduced precision is stored");
  if (buffer && (c->dtype == TN_F16 || c->dtype == TN_BF16)) v = tn__exact_of_bits(c->dtype, v);
  if (!buffer) c->dtype = (uint8_t)dtype;
  c->val = v;
  c->written = true;
  return true;
}

static bool load(run *r) {
  tn__exact *reg = r->t->reg, p = reg[r->i->a];
  if (r->i->op && p.kind == TN__EXACT_PLACE && p.of == TN__C_BUFFERS) { /* a pointer from the table of buffers */
    if (p.v % 8 || p.v / 8 >= r->m->memory->nbuf) return complain(r, "a buffer that is not there");
    reg[r->i->dst] = (tn__exact){.kind = TN__EXACT_PLACE, .of = p.v / 8};
    return true;
  }
  if (p.kind == TN__EXACT_PLACE && p.of == TN__C_VARIABLES) {
    if (p.v % 8 || p.v / 8 >= r->m->nvar || r->i->dtype != TN_I64) return complain(r, "a variable that is not there");
    reg[r->i->dst] = tn__exact_int((uint64_t)r->m->variable[p.v / 8]);
    return true;
  }
  tn__exact_cell *c = element_at(r, p, 0, r->i->dtype, READS);
  if (c) reg[r->i->dst] = value_in(c, r->i->dtype);
  return c != NULL;
}

static bool store(run *r) {
  tn__exact *reg = r->t->reg;
  tn__exact_cell *c = element_at(r, reg[r->i->a], 0, r->i->dtype, WRITES);
  return c && put_value(r, c, r->i->dtype, reg[r->i->c], c->object < r->m->memory->nbuf);
}

/* Whoever else adds there at once is no race; who stores or reads is. */
static bool add_at(run *r) {
  tn__exact *reg = r->t->reg;
  int dtype = r->i->op, by = (int)r->i->n;
  tn__exact_cell *c = element_at(r, reg[r->i->a], 0, dtype, COMBINES + by);
  if (!c) return false;
  tn__exact sum = tn__exact_eval(by, dtype, dtype, (tn__exact[]){value_in(c, dtype), reg[r->i->b]});
  return put_value(r, c, dtype, sum, c->object < r->m->memory->nbuf);
}

static bool move_wide(run *r) {
  const tn__c_ins *i = r->i;
  bool gets = i->code == TN__C_WIDE_GET;
  tn__exact *reg = r->t->reg, p = reg[i->c];
  int64_t size = (int64_t)tn__size_of(i->dtype), per = i->op / size, first = (int64_t)reg[i->b].v * per;
  if (first < 0 || first + per > i->n) return complain(r, "a wide element that is not there");
  if (p.kind == TN__EXACT_PLACE && (int64_t)p.v % i->op) return complain(r, "a wide access that is not aligned");
  for (int64_t k = 0; k < per; k++) {
    tn__exact_cell *c = element_at(r, p, k * size, i->dtype, gets ? READS : WRITES);
    if (!c) return false;
    if (gets) reg[i->a + first + k] = value_in(c, i->dtype);
    else if (!put_value(r, c, i->dtype, reg[i->a + first + k], c->object < r->m->memory->nbuf)) return false;
  }
  return true;
}

/* ---- copies under way ---- */

/* What is copied are elements of the buffer it comes from. */
static bool send(run *r) {
  tn__exact *reg = r->t->reg, to = reg[r->i->a], from = reg[r->i->b];
  bool buffer = from.kind == TN__EXACT_PLACE && from.of < r->m->memory->nbuf;
  if (!buffer) return complain(r, "a copy from no buffer");
  int dtype = seen_as(r->m->memory->dtype[from.of]);
  int64_t size = (int64_t)tn__size_of(dtype);
  if ((int64_t)to.v % r->i->n || (int64_t)from.v % r->i->n) return complain(r, "a copy that is not aligned");
  for (int64_t k = 0; k < r->i->n; k += size) {
    sending s = {.object = (uint32_t)to.of, .at = (int64_t)to.v + k};
    if (reg[r->i->c].v) {
      tn__exact_cell *c = element_at(r, from, k, dtype, READS);
      if (!c) return false;
      s.from = (tn__exact_cell){.val = value_in(c, dtype), .dtype = (uint8_t)dtype};
    } else {
      s.from.dtype = (uint8_t)dtype;
      s.from.val = tn__is_float(dtype) ? tn__exact_const(dtype, 0) : tn__exact_int(0);
    }
    tn__exact_cell *c = element_at(r, to, k, dtype, WRITES);
    if (!c) return false;
    c->val = (tn__exact){0}; /* until it is there */
    tn__vec_push(r->m->a, &r->t->sent, s);
  }
  return true;
}

static bool receive(run *r) {
  for (uint32_t i = 0; i < r->t->sent.n; i++) {
    const sending *s = &r->t->sent.v[i];
    tn__exact_cell *c = tn__exact_memory_at(r->m->memory, s->object, s->at, s->from.dtype);
    if (c && !put_value(r, c, s->from.dtype, s->from.val, false)) return false;
  }
  r->t->sent.n = 0;
  return true;
}

/* ---- arithmetic ---- */

static const uint8_t float_op[] = {[TN__C_ADD] = OP_ADD, [TN__C_MUL] = OP_MUL, [TN__C_DIV] = OP_DIV,
                                   [TN__C_LT] = OP_LT,   [TN__C_LE] = OP_LE,   [TN__C_EQ] = OP_EQ,
                                   [TN__C_NE] = OP_NE,   [TN__C_NEG] = OP_NEG};

static bool evaluate(run *r, int op, int dtype, int sdtype, const tn__exact *x, uint32_t n, tn__exact *y) {
  bool decides = false, shortens = op == OP_CAST && (dtype == TN_F16 || dtype == TN_BF16);
  for (uint32_t k = 0; k < n; k++) decides |= x[k].near && !tn__is_stable(op, x[k].by);
  if (decides && !shortens) return complain(r, "a value of reduced precision decides");
  *y = tn__exact_eval(op, dtype, sdtype, x);
  y->by = (uint8_t)op;
  return true;
}

static bool compares(int op) { return op >= TN__C_LT && op <= TN__C_NE; }

/* Integers as C computes them: `s` of signed types. */
static bool compute_int(run *r, tn__exact x, tn__exact y, tn__exact *out) {
  const tn__c_ins *i = r->i;
  bool is_signed = tn__dtypes[i->dtype].is_signed, over = false;
  int bits = 8 * (int)tn__size_of(i->dtype);
  uint64_t a = x.v, b = y.v, v = 0;
  int64_t sa = (int64_t)a, sb = (int64_t)b, s = 0;
  switch ((tn__c_op)i->op) {
  case TN__C_ADD: over = __builtin_add_overflow(sa, sb, &s), v = a + b; break;
  case TN__C_SUB: over = __builtin_sub_overflow(sa, sb, &s), v = a - b; break;
  case TN__C_MUL: over = __builtin_mul_overflow(sa, sb, &s), v = a * b; break;
  case TN__C_NEG: over = __builtin_sub_overflow((int64_t)0, sa, &s), v = 0 - a; break;
  case TN__C_DIV: case TN__C_REM:
    if (!b || (is_signed && sb == -1 && sa == INT64_MIN)) return complain(r, "a division by 0");
    if (is_signed) v = (uint64_t)(i->op == TN__C_DIV ? sa / sb : sa % sb);
    else v = i->op == TN__C_DIV ? a / b : a % b;
    break;
  case TN__C_AND: v = a & b; break;
  case TN__C_OR: v = a | b; break;
  case TN__C_XOR: v = a ^ b; break;
  case TN__C_NOT: v = ~a; break;
  case TN__C_SHL: case TN__C_SHR:
    if (b >= (uint64_t)bits) return complain(r, "a shift by too much");
    v = i->op == TN__C_SHL ? a << b : is_signed ? (uint64_t)(sa >> b) : a >> b;
    break;
  case TN__C_LT: v = is_signed ? sa < sb : a < b; break;
  case TN__C_LE: v = is_signed ? sa <= sb : a <= b; break;
  case TN__C_EQ: v = a == b; break;
  case TN__C_NE: v = a != b; break;
  }
  uint64_t kept = tn__eval_cast(TN_I64, i->dtype, v);
  bool plus = i->op == TN__C_ADD || i->op == TN__C_SUB || i->op == TN__C_MUL || i->op == TN__C_NEG;
  if (!i->n && is_signed && plus && (over || kept != v)) return complain(r, "signed arithmetic overflows");
  *out = tn__exact_int(i->n && compares(i->op) ? 0 - kept : kept);
  return true;
}

static bool compute(run *r) {
  const tn__c_ins *i = r->i;
  tn__exact x[2] = {r->t->reg[i->a], r->t->reg[i->b]}, *out = &r->t->reg[i->dst];
  if (x[0].kind == TN__EXACT_NONE || x[1].kind == TN__EXACT_NONE) return *out = (tn__exact){0}, true;
  if (!tn__is_float(i->dtype)) return compute_int(r, x[0], x[1], out);
  if (i->op == TN__C_SUB) { /* the kernel language has none */
    tn__exact negated = tn__exact_eval(OP_NEG, i->dtype, i->dtype, &x[1]);
    x[1] = negated;
    return evaluate(r, OP_ADD, i->dtype, i->dtype, x, 2, out);
  }
  int dtype = compares(i->op) ? TN_BOOL : i->dtype;
  if (!evaluate(r, float_op[i->op], dtype, i->dtype, x, i->op == TN__C_NEG ? 1 : 2, out)) return false;
  if (i->n && compares(i->op)) out->v = 0 - out->v;
  return true;
}

static bool convert(run *r) {
  const tn__c_ins *i = r->i;
  tn__exact x = r->t->reg[i->a], *out = &r->t->reg[i->dst];
  if (i->dtype == i->sdtype || x.kind == TN__EXACT_NONE) return *out = x, true;
  if (tn__is_float(i->sdtype) && !tn__is_float(i->dtype) && i->dtype != TN_BOOL)
    return complain(r, "a plain cast of a float, undefined outside of the integer's range");
  if (tn__is_float(i->sdtype)) return evaluate(r, OP_CAST, i->dtype, i->sdtype, &x, 1, out);
  *out = tn__exact_eval(OP_CAST, i->dtype, i->sdtype, &x);
  bool same = tn__size_of(i->dtype) == tn__size_of(i->sdtype) || out->v == x.v; /* the same bits, or zeros in front */
  if (same && !tn__is_float(i->dtype)) out->of = x.of;
  return true;
}

static bool call(run *r) {
  const tn__c_ins *i = r->i;
  tn__exact *reg = r->t->reg, x[3] = {reg[i->a], reg[i->b], reg[i->c]};
  if (!evaluate(r, i->op, i->dtype, i->sdtype, x, tn__ops[i->op].max_src, &reg[i->dst])) return false;
  if (i->n && r->m->c->mode == TN_MODE_STRICT) return complain(r, "a function of reduced precision, in mode strict");
  if (i->n) reg[i->dst].near = true;
  return true;
}

/* Bits of an f16 or bf16 are those of the value rounded; op: 1: it is so already. */
static bool take_bits(run *r) {
  tn__exact x = r->t->reg[r->i->a];
  if (r->i->op && x.kind == TN__EXACT_FLOAT && tn__exact_round(r->i->dtype, x).v != x.v)
    return complain(r, "bits of a value that is not rounded");
  if (x.near && r->i->dtype != TN_F16 && r->i->dtype != TN_BF16)
    return complain(r, "bits of a value of reduced precision");
  r->t->reg[r->i->dst] = tn__exact_bits(r->i->dtype, x);
  return true;
}

static bool pick_cell(run *r) {
  const tn__c_ins *i = r->i;
  tn__exact *reg = r->t->reg;
  bool there = reg[i->b].kind == TN__EXACT_INT && reg[i->b].v < (uint64_t)i->n;
  if (!there) return complain(r, "an element that is not there");
  if (i->code == TN__C_GET_CELL) reg[i->dst] = reg[i->a + reg[i->b].v];
  else reg[i->a + reg[i->b].v] = reg[i->c];
  return true;
}

static bool move_place(run *r) {
  const tn__c_ins *i = r->i;
  tn__exact *reg = r->t->reg, p = reg[i->a];
  if (p.kind != TN__EXACT_PLACE) return complain(r, "a pointer to nothing");
  /* memory that nobody wrote, in loops that are cut short */
  uint64_t by = reg[i->b].kind == TN__EXACT_INT ? reg[i->b].v : 0;
  p.v += by * (uint64_t)i->n;
  reg[i->dst] = p;
  return true;
}

static void cut_short(run *r) {
  tn__exact *counter = &r->t->reg[r->i->dst];
  int64_t n = (int64_t)r->t->reg[r->i->a].v;
  if (r->m->cut && n > r->m->cut && counter->v == TN__C_SHORTENED) counter->v = (uint64_t)n - TN__C_SHORTENED;
}

static bool renew(run *r) {
  tn__exact p = r->t->reg[r->i->a];
  if (p.kind == TN__EXACT_PLACE && p.of < 64) r->t->renewed |= 1ull << p.of;
  return true;
}

/* ---- threads ---- */

/* Up to where the thread waits, or ends. */
static bool run_thread(run *r) {
  tn__c_machine *m = r->m;
  thread *t = r->t;
  for (;;) {
    const tn__c_ins *i = r->i = &m->f->ins[t->pc];
    bool good = true;
    if (m->steps-- == 0) return m->steps = 0, m->too_long = true, false;
    t->pc++;
    switch ((tn__c_code)i->code) {
    case TN__C_MOVE: t->reg[i->dst] = t->reg[i->a]; break;
    case TN__C_ARITH: good = compute(r); break;
    case TN__C_CONVERT: good = convert(r); break;
    case TN__C_EVAL: good = call(r); break;
    case TN__C_ROUND: t->reg[i->dst] = tn__exact_round(i->dtype, t->reg[i->a]); break;
    case TN__C_BITS: good = take_bits(r); break;
    case TN__C_OF_BITS: t->reg[i->dst] = tn__exact_of_bits(i->dtype, t->reg[i->a]); break;
    case TN__C_JUMP: t->pc = (uint32_t)i->n; break;
    case TN__C_UNLESS: if (!t->reg[i->a].v) t->pc = (uint32_t)i->n; break;
    case TN__C_IF: if (t->reg[i->a].v) t->pc = (uint32_t)i->n; break;
    case TN__C_GET_CELL: case TN__C_SET_CELL: good = pick_cell(r); break;
    case TN__C_LOAD: good = load(r); break;
    case TN__C_STORE: good = store(r); break;
    case TN__C_PLACE: good = move_place(r); break;
    case TN__C_WIDE_GET: case TN__C_WIDE_PUT: good = move_wide(r); break;
    case TN__C_SKIP: cut_short(r); break;
    case TN__C_SEND: good = send(r); break;
    case TN__C_ADD_AT: good = add_at(r); break;
    case TN__C_SENT: good = receive(r); break;
    case TN__C_BEGIN: t->begun = true; break;
    case TN__C_RENEW: good = renew(r); break;
    case TN__C_BARRIER: case TN__C_EXCHANGE: case TN__C_IN_STEP: case TN__C_ALIKE: t->state = WAITS; return true;
    case TN__C_SAME: good = tn__exact_same(t->reg[i->a], t->reg[i->b]) || complain(r, "a place that is none"); break;
    case TN__C_SOME: good = (int64_t)t->reg[i->a].v > 0 || complain(r, "a mask of no lanes"); break;
    case TN__C_RETURN:
      t->state = DONE;
      if (i->a != TN__C_NOTHING) m->result = t->reg[i->a];
      return true;
    }
    if (!good) return false;
  }
}

/* Do threads from..to-1 all wait at the same place, which is one for them? */
static bool all_wait(const tn__c_machine *m, uint32_t from, uint32_t to, bool block) {
  uint32_t pc = m->thread[from].pc;
  for (uint32_t t = from; t < to; t++)
    if (m->thread[t].state != WAITS || m->thread[t].pc != pc) return false;
  const tn__c_ins *i = &m->f->ins[pc - 1];
  return ((i->code == TN__C_BARRIER && !i->op) || i->code == TN__C_ALIKE) == block;
}

static bool exchange(tn__c_machine *m, uint32_t from, uint32_t to) {
  const tn__c_ins *i = &m->f->ins[m->thread[from].pc - 1];
  uint32_t n = to - from;
  tn__exact *value = tn__arena_alloc(m->a, n * sizeof *value);
  run r = {.m = m, .t = &m->thread[from], .i = i};
  uint64_t full = n < 32 ? (1ull << n) - 1 : UINT32_MAX;
  if ((uint64_t)i->n != full) return complain(&r, "a mask of other threads");
  for (uint32_t t = 0; t < n; t++) value[t] = m->thread[from + t].reg[i->a];
  for (uint32_t t = 0; t < n; t++) {
    uint64_t b = m->thread[from + t].reg[i->b].v, other = i->op ? (uint64_t)t ^ b : b;
    if (other >= n) return complain(&r, "a value of a thread that is not there");
    m->thread[from + t].reg[i->dst] = value[other];
  }
  return true;
}

static void pass_in_step(tn__c_machine *m, uint32_t from, uint32_t to) {
  for (uint32_t t = from; t < to; t++) m->thread[t].epoch++;
}

/* One after the other, as if a barrier of the warp stood between each two: they meet inside. */
static bool count_in_step(tn__c_machine *m, uint32_t from, uint32_t to) {
  const tn__c_ins *i = &m->f->ins[m->thread[from].pc - 1];
  const uint64_t bits = i->n < 32 ? (1ull << i->n) - 1 : UINT32_MAX;
  run r = {.m = m, .t = &m->thread[from], .i = i};
  if (to - from != (uint32_t)m->warp) return complain(&r, "a count of a warp that is not whole");
  for (uint32_t t = from; t < to; t++) {
    tn__exact *reg = m->thread[t].reg, place = reg[i->a];
    for (uint32_t o = from; o < t; o++) {
      const tn__exact *other = m->thread[o].reg;
      bool one = place.of == other[i->a].of && place.v == other[i->a].v;
      if (one != !((reg[i->b].v ^ other[i->b].v) & bits)) return complain(&r, "numbers that do not tell places apart");
    }
    pass_in_step(m, from, to);
    r.t = &m->thread[t];
    tn__exact_cell *c = element_at(&r, place, 0, TN_U32, WRITES);
    if (!c) return false;
    reg[i->dst] = tn__exact_eval(OP_ADD, TN_U32, TN_U32, (tn__exact[]){value_in(c, TN_U32), tn__exact_int(1)});
    put_value(&r, c, TN_U32, reg[i->dst], c->object < m->memory->nbuf);
  }
  pass_in_step(m, from, to);
  return true;
}

static bool are_alike(tn__c_machine *m) {
  const tn__c_ins *i = &m->f->ins[m->thread[0].pc - 1];
  run r = {.m = m, .t = &m->thread[0], .i = i};
  if (i->n != m->threads) return complain(&r, "turns of another number of threads");
  for (int t = 1; t < m->threads; t++)
    if (!tn__exact_same(m->thread[t].reg[i->a], m->thread[0].reg[i->a]) ||
        !tn__exact_same(m->thread[t].reg[i->b], m->thread[0].reg[i->b]))
      return complain(&r, "turns that are not the same for all threads");
  return true;
}

/* Lets those go on who have met; false: none have, or see why. */
static bool meet(tn__c_machine *m) {
  uint32_t n = (uint32_t)m->threads, warp = (uint32_t)m->warp;
  bool some = false;
  if (all_wait(m, 0, n, true)) {
    bool barrier = m->f->ins[m->thread[0].pc - 1].code == TN__C_BARRIER;
    if (!barrier && !are_alike(m)) return false;
    for (uint32_t t = 0; t < n; t++) m->thread[t].state = RUNS;
    m->epoch += barrier;
    return true;
  }
  for (uint32_t from = 0; from < n; from += warp) {
    uint32_t to = from + warp < n ? from + warp : n;
    if (!all_wait(m, from, to, false)) continue;
    int code = m->f->ins[m->thread[from].pc - 1].code;
    bool barrier = code == TN__C_BARRIER;
    if (!barrier && !(code == TN__C_IN_STEP ? count_in_step : exchange)(m, from, to)) return false;
    for (uint32_t t = from; t < to; t++) m->thread[t].state = RUNS, m->thread[t].epoch += barrier;
    some = true;
  }
  return some;
}

/* One after the other, from a drawn one on, by a drawn step. */
static bool run_threads(tn__c_machine *m) {
  uint32_t n = (uint32_t)m->threads, done = 0;
  for (uint64_t turn = 0; done < n; turn++) {
    uint64_t h = tn__hash_mix(m->seed, turn);
    uint32_t first = (uint32_t)(h % n), back = h >> 40 & 1;
    for (uint32_t k = 0; k < n; k++) {
      thread *t = &m->thread[(back ? first + n - k : first + k) % n];
      if (t->state != RUNS) continue;
      run r = {.m = m, .t = t};
      if (!run_thread(&r)) return false;
      done += t->state == DONE;
    }
    if (done < n && !meet(m)) {
      uint32_t t = 0;
      while (m->thread[t].state != WAITS) t++;
      run r = {.m = m, .t = &m->thread[t], .i = &m->f->ins[m->thread[t].pc - 1]};
      return m->why->n ? false : complain(&r, "threads that do not meet");
    }
  }
  return true;
}

bool tn__c_machine_run(tn__c_machine *m, const tn__exact *argument, uint64_t group, uint64_t groups) {
  const tn__c_function *f = m->f;
  uint32_t n = (uint32_t)m->threads;
  if (!m->thread) {
    m->thread = tn__arena_zalloc(m->a, n * sizeof *m->thread);
    for (uint32_t t = 0; t < n; t++) m->thread[t].reg = tn__arena_alloc(m->a, f->nreg * sizeof(tn__exact));
  }
  m->epoch++;
  for (uint32_t t = 0; t < n; t++) {
    thread *x = &m->thread[t];
    memcpy(x->reg, f->reg, f->nreg * sizeof *f->reg);
    for (uint32_t p = 0; p < f->nparam; p++) x->reg[f->param[p].reg] = argument[p];
    if (f->thread != TN__C_NOTHING) x->reg[f->thread] = tn__exact_int(t);
    if (f->group != TN__C_NOTHING) x->reg[f->group] = tn__exact_int(group);
    if (f->groups != TN__C_NOTHING) x->reg[f->groups] = tn__exact_int(groups);
    *x = (thread){.reg = x->reg, .number = t, .sent = x->sent};
    x->sent.n = 0;
  }
  return run_threads(m);
}
