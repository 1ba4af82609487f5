#include "verify/machine.h"
#include "ir/eval.h"
#include <string.h>

/* Stamps of a part, from its first one on: several iterations; what stands outside of the outermost loop; the first
 * iteration. */
enum { SEVERAL = 1, OUTSIDE };
enum { ALL = -1, MANY = INT32_MAX, MOST_LOCAL = 1 << 20 };

typedef struct run {
  tn__machine *m;
  tn__checked *k;
  uint32_t part;
  tn__val *reg;
  const tn__span *span; /* buffers by slot, then locals */
  tn__touched **touch;    /* by local; NULL: no threads share it */
  int group;            /* threads of it; 0: lanes are vector loops */
  int32_t thread;
  uint32_t loop;        /* the vector loop that runs; 0: none, or threads run the lanes */
  const tn__ins *at;
} run;

/* ---- memory ---- */

void tn__block_open(tn__arena *a, tn__block *b, size_t bytes, uint32_t grain) {
  *b = (tn__block){.bytes = bytes, .grain = grain};
  b->cell = tn__arena_zalloc(a, (bytes / grain + 1) * sizeof *b->cell);
}

tn__val tn__block_get(const tn__block *b, size_t at, int dtype) {
  tn__val v = b->cell[at / b->grain].val;
  if (v.dtype != dtype) v.kind = TN__VAL_NONE;
  return v;
}

tn__val tn__span_get(const tn__span *s, int64_t element, int dtype) {
  size_t size = tn__size_of(dtype);
  if (element < 0 || (size_t)element >= s->bytes / size) return (tn__val){.kind = TN__VAL_NONE};
  return tn__block_get(s->block, s->offset + (size_t)element * size, dtype);
}

/* What overlaps is gone. */
void tn__block_put(tn__block *b, size_t at, int dtype, tn__val v) {
  size_t first = at / b->grain, cells = tn__size_of(dtype) / b->grain, back = 8 / b->grain;
  for (size_t i = first > back ? first - back : 0; i < first; i++) {
    tn__cell *c = &b->cell[i];
    if (c->val.kind != TN__VAL_NONE && i + tn__size_of(c->val.dtype) / b->grain > first) c->val.kind = TN__VAL_NONE;
  }
  for (size_t i = 1; i < cells; i++) b->cell[first + i].val.kind = TN__VAL_NONE;
  v.dtype = (uint8_t)dtype;
  b->cell[first].val = v;
}

/* ---- complaints ---- */

static bool complain(run *r, const char *what) {
  static const char *const verb[] = {[TN__I_LOAD] = "load", [TN__I_STORE] = "store", [TN__I_STOREADD] = "storeadd"};
  const tn__ins *i = r->at;
  uint32_t nbuf = r->k->kernel->nbuf;
  bool local = i->span >= nbuf;
  tn__sb_printf(r->m->why, "kernel %s, part %u, instruction %u: %s %s %s%u[%lld] %s", r->k->code.name, r->part,
                (unsigned)(i - r->k->code.part[r->part].ins), verb[i->code], tn__dtypes[i->dtype].name,
                local ? "local" : "b", local ? i->span - nbuf : i->span, (long long)r->reg[i->src[0]].v, what);
  return false;
}

/* Iterations of the outermost loop run in any order: none may see what another one does. */
static bool check_iterations(run *r, tn__cell *c, bool writes) {
  uint32_t now = r->m->stamp;
  if (c->writer > r->m->part && c->writer != now)
    return complain(r, writes ? "is stored by two iterations" : "is stored by another iteration");
  if (writes && c->reader > r->m->part && c->reader != now) return complain(r, "is loaded by another iteration");
  if (writes) c->writer = now;
  else c->reader = c->reader > r->m->part && c->reader != now ? r->m->part + SEVERAL : now;
  return true;
}

/* So the threads of a group, but for barriers, and the lanes of a vector loop.  now: what nothing orders is of one. */
static bool check_threads(run *r, tn__touched *t, uint32_t now, bool writes, const char *stored, const char *loaded) {
  int32_t who = r->thread == ALL && writes ? 0 : r->thread;
  if (t->wrote == now && (who == ALL || t->writer != who)) return complain(r, stored);
  if (writes && t->read == now && t->reader != who) return complain(r, loaded);
  if (writes) *t = (tn__touched){.wrote = now, .writer = who, .read = t->read, .reader = t->reader};
  else t->reader = t->read == now && t->reader != who ? MANY : who, t->read = now;
  return true;
}

static bool check_lanes(run *r, tn__touched *t, bool writes) {
  return check_threads(r, t, r->loop, writes, "is stored by another lane", "is loaded by another lane");
}

/* Barriers order shared memory, and no buffers. */
static bool check_group(run *r, tn__touched *t, bool writes) {
  return check_threads(r, t, r->m->stamp, writes, "is stored by another thread", "is loaded by another thread");
}

/* Elements of which each is one thread's. */
static bool check_owner(run *r, tn__touched *t, int64_t threads, uint64_t index) {
  int32_t owner = threads > 0 ? (int32_t)(index % (uint64_t)threads) : t->wrote ? t->writer : r->thread;
  *t = (tn__touched){.wrote = 1, .writer = owner};
  return r->thread == owner || complain(r, "is another thread's");
}

static bool check_shared(run *r, tn__touched *t, bool writes) {
  return check_threads(r, t, r->m->epoch, writes, "is stored by another thread, without a barrier",
                       "is loaded by another thread, without a barrier");
}

/* Additions that go on at once are no race with each other. */
static bool check_tally(run *r, tn__cell *c, tn__touched *t, bool writes, uint8_t by) {
  tn__touched before = *t;
  bool wrote = t->wrote == r->m->epoch, again = by && c->combined == by && wrote;
  if (again) t->wrote = 0;
  if (!check_shared(r, t, writes)) return false;
  if (again && before.writer != t->writer) t->writer = MANY;
  if (writes) c->combined = again || !wrote ? by : 0;
  return true;
}

/* Threads that run in step are as one, which goes through them in order. */
static bool check_stepped(run *r, tn__touched *t, bool writes) {
  int32_t thread = r->thread, in_step = r->k->kernel->part[r->part].subgroup;
  if (thread != ALL && in_step > 0) r->thread /= in_step;
  bool good = check_shared(r, t, writes);
  r->thread = thread;
  return good;
}

/* By which op it combines with what is there as others do at once; 0: it does not */
static uint8_t at_once(const run *r, const tn__ins *i) {
  bool can =
      i->code == TN__I_STOREADD && tn__is_int(i->dtype) && (r->k->kernel->part[r->part].adds & tn__size_of(i->dtype));
  return can ? i->op : 0;
}

static bool check_local(run *r, const tn__ins *i, uint64_t index, tn__cell *c) {
  uint32_t local = i->span - r->k->kernel->nbuf;
  bool writes = i->code != TN__I_LOAD;
  int64_t threads = r->k->kernel->local[local]->ints[1];
  if (!r->touch[local]) return true;
  tn__touched *t = &r->touch[local][index];
  if (tn__is_tallies(r->k->kernel->local[local])) return check_tally(r, c, t, writes, at_once(r, i));
  if (tn__is_stepped(r->k->kernel->local[local])) return check_stepped(r, t, writes);
  return threads ? check_owner(r, t, threads, index) : check_shared(r, t, writes);
}

/* ---- accesses ---- */

static bool note_guard(run *r, const tn__ins *i, bool yes) {
  r->k->seen[r->part][i - r->k->code.part[r->part].ins] |= yes ? 2 : 1;
  return yes;
}

/* Additions of integers that go on at once are no race with each other, nor are maxima; with all else they are,
 * whoever of them it was.
 * */
static bool check_buffer(run *r, const tn__ins *i, tn__cell *c) {
  uint8_t by = at_once(r, i);
  bool writes = i->code != TN__I_LOAD, again = by && c->combined == by && c->writer > r->m->part;
  tn__cell before = *c;
  if (again) c->writer = 0, c->touch.wrote = 0;
  if (!check_iterations(r, c, writes) || (r->group > 1 && !check_group(r, &c->touch, writes))) return false;
  if (again && before.writer != c->writer) c->writer = r->m->part + SEVERAL;
  if (again && before.touch.wrote == c->touch.wrote && before.touch.writer != c->touch.writer) c->touch.writer = MANY;
  if (writes) c->combined = again || before.writer <= r->m->part ? by : 0;
  return true;
}

static bool access_memory(run *r, const tn__ins *i) {
  const tn__span *s = &r->span[i->span];
  tn__world *w = r->m->w;
  size_t size = tn__size_of(i->dtype);
  uint64_t index = r->reg[i->src[0]].v;
  bool writes = i->code != TN__I_LOAD, local = i->span >= r->k->kernel->nbuf;
  r->at = i;
  if (i->src[1] != TN__NO_REG) {
    if (r->reg[i->src[1]].kind == TN__VAL_NONE) return complain(r, "is guarded by memory that nobody wrote");
    if (!note_guard(r, i, r->reg[i->src[1]].v)) {
      if (!writes) r->reg[i->dst] = tn__val_bits(w, i->dtype, 0);
      return true;
    }
  }
  if (r->reg[i->src[0]].kind == TN__VAL_NONE) return complain(r, "has a place from memory that nobody wrote");
  if (index >= s->bytes / size) return complain(r, "is outside of its buffer");
  size_t at = s->offset + index * size;
  tn__cell *c = &s->block->cell[at / s->block->grain];
  if (local) {
    if (!check_local(r, i, index, c)) return false;
    /* each iteration has its own */
    if (c->writer != r->m->stamp && c->writer != r->m->part + OUTSIDE) c->val.kind = TN__VAL_NONE;
    if (writes) c->writer = r->m->stamp;
  } else if (!check_buffer(r, i, c)) {
    return false;
  }
  if (r->loop && !check_lanes(r, &c->touch, writes)) return false;
  tn__val old = tn__block_get(s->block, at, i->dtype), v;
  if (!writes) {
    r->reg[i->dst] = old;
    return true;
  }
  v = r->reg[i->src[2]];
  if (i->code == TN__I_STOREADD) v = tn__val_combined(w, i->op, i->dtype, i->sdtype, old, v);
  tn__block_put(s->block, at, i->dtype, v);
  return true;
}

/* ---- accumulators ---- */

static uint32_t cell_of(const run *r, const tn__ins *i) {
  return (i->lane == TN__NO_REG ? 0 : (uint32_t)r->reg[i->lane].v * i->each) +
         (i->src[2] == TN__NO_REG ? 0 : (uint32_t)r->reg[i->src[2]].v);
}

static void set_acc(run *r, const tn__ins *i) {
  tn__world *w = r->m->w;
  tn__val *cell = &r->reg[i->dst + cell_of(r, i)], v = r->reg[i->src[0]];
  if (i->src[1] != TN__NO_REG) v = tn__val_collect(w, OP_MUL, i->dtype, v, r->reg[i->src[1]]);
  *cell = tn__val_collect(w, i->src[1] != TN__NO_REG ? OP_ADD : i->op, i->dtype, *cell, v);
}

static void fold_acc(run *r, const tn__ins *i) {
  tn__val *cell = &r->reg[i->dst];
  memcpy(cell, &r->reg[i->src[0]], i->lanes * sizeof *cell);
  for (uint32_t h = i->lanes / 2; h; h /= 2)
    for (uint32_t l = 0; l < h; l++) cell[l] = tn__val_collect(r->m->w, i->op, i->dtype, cell[l], cell[l + h]);
}

/* ---- running ---- */

static void evaluate(run *r, const tn__ins *i) {
  tn__val arg[3] = {r->reg[i->src[0]], r->reg[i->src[1]], r->reg[i->src[2]]};
  if (i->op == OP_WHERE && arg[0].kind == TN__VAL_BITS) note_guard(r, i, arg[0].v);
  r->reg[i->dst] = tn__val_eval(r->m->w, i->op, i->dtype, i->sdtype, arg);
}

static bool open_range(run *r, const tn__ins *i) {
  tn__val zero = tn__val_bits(r->m->w, TN__INDEX, 0);
  if (i->op == AX_UPCAST) r->thread = 0, r->loop = r->group ? 0 : ++r->m->loops;
  if (i->op == AX_GLOBAL) r->m->stamp++;
  r->reg[i->dst] = zero;
  r->reg[i->dst + 1] = r->reg[i->src[0]];
  return (int64_t)r->reg[i->dst + 1].v > 0;
}

static bool turn(run *r, const tn__ins *i) {
  uint64_t next = r->reg[i->dst].v + 1;
  bool more = next < r->reg[i->dst + 1].v;
  if (i->op == AX_UPCAST) r->thread = more ? (int32_t)next : ALL;
  if (i->op == AX_UPCAST && !more) r->loop = 0;
  if (!more) return false;
  if (i->op == AX_GLOBAL) r->m->stamp++;
  r->reg[i->dst] = tn__val_bits(r->m->w, TN__INDEX, next);
  return true;
}

static bool run_part(run *r, const tn__code_part *p) {
  for (uint32_t pc = 0; pc < p->n;) {
    const tn__ins *i = &p->ins[pc++];
    if (r->m->steps-- == 0) return r->m->too_long = true, false;
    switch ((tn__icode)i->code) {
    case TN__I_EVAL: evaluate(r, i); break;
    case TN__I_RANGE:
      if (!open_range(r, i)) {
        r->thread = ALL;
        r->loop = 0;
        pc = i->jump;
      }
      break;
    case TN__I_END:
      if (turn(r, i)) pc = i->jump;
      break;
    case TN__I_BARRIER: r->m->epoch++; break;
    case TN__I_ACC:
      for (uint32_t l = 0; l < i->lanes; l++) r->reg[i->dst + l] = r->reg[i->src[0]];
      break;
    case TN__I_SETACC: set_acc(r, i); break;
    case TN__I_GETACC: r->reg[i->dst] = r->reg[i->src[0] + cell_of(r, i)]; break;
    case TN__I_FOLDACC: fold_acc(r, i); break;
    case TN__I_LOAD: case TN__I_STORE: case TN__I_STOREADD:
      if (!access_memory(r, i)) return false;
    }
  }
  return true;
}

/* false: they are too large. */
static bool open_locals(run *r, tn__arena *a, tn__span *span, bool group) {
  const tn__kernel *k = r->k->kernel;
  r->touch = tn__arena_zalloc(a, (k->nlocal + 1) * sizeof *r->touch);
  for (uint32_t l = 0; l < k->nlocal; l++) {
    size_t n = (size_t)k->local[l]->src[0]->hi, size = tn__size_of(k->local[l]->dtype);
    if (n > MOST_LOCAL) return false;
    tn__block *b = tn__arena_alloc(a, sizeof *b);
    tn__block_open(a, b, n * size, (uint32_t)size);
    span[k->nbuf + l] = (tn__span){.block = b, .bytes = n * size};
    if (group) r->touch[l] = tn__arena_zalloc(a, (n + 1) * sizeof(tn__touched));
  }
  return true;
}

static void open_registers(run *r, tn__arena *a, const tn__code_part *p, const int64_t *value) {
  r->reg = tn__arena_alloc(a, (p->nreg + 1) * sizeof *r->reg);
  for (uint32_t i = 0; i < p->nreg; i++) r->reg[i] = tn__val_bits(r->m->w, p->dtype[i], p->reg[i]);
  for (uint32_t v = 0; v < r->k->kernel->nvar; v++)
    if (p->var_reg[v] != TN__NO_REG) r->reg[p->var_reg[v]] = tn__val_bits(r->m->w, TN__INDEX, (uint64_t)value[v]);
}

bool tn__machine_run(tn__machine *m, tn__checked *k, const tn__span *buf, const int64_t *value) {
  tn__arena *a = &m->w->c->scratch;
  tn__span *span = tn__arena_alloc(a, (k->kernel->nbuf + k->kernel->nlocal + 1) * sizeof *span);
  memcpy(span, buf, k->kernel->nbuf * sizeof *span);
  for (uint32_t p = 0; p < k->code.nparts; p++) {
    run r = {.m = m, .k = k, .part = p, .span = span, .thread = ALL, .group = k->kernel->part[p].group};
    if (!open_locals(&r, a, span, r.group > 0)) return m->too_long = true, false;
    open_registers(&r, a, &k->code.part[p], value);
    m->part = m->stamp;
    m->stamp += OUTSIDE;
    m->epoch++;
    if (!run_part(&r, &k->code.part[p])) return false;
  }
  return true;
}
