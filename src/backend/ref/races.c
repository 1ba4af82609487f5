#include "backend/ref/races.h"
#include "ir/ctx.h"
#include "ir/eval.h"
#include "lower/kernel.h"
#include <string.h>

enum { ALL = -1 };

typedef struct who { /* one access */
  uint32_t at;    /* its instruction, counted from 1; 0: there was none */
  uint32_t turn;  /* of the AX_GLOBAL range, counted from 1; 0: outside of it */
  uint32_t phase; /* the vector loop it stands in, 0: none; of a group: barriers before it */
  int32_t thread; /* or lane; ALL: outside of lane loops */
} who;

/* Of an element: who wrote last, and who read.  The second reader is of another turn, or else could race with the
 * first, if there is one such. */
typedef struct cell {
  who write, read[2];
  bool several;     /* of several who are not ordered */
  uint8_t combined; /* all that wrote combine with what is there at once, by this op; 0: they do not */
} cell;

typedef struct block { /* memory that may be written: of one buffer, or of several that overlap */
  const char *mem;
  size_t bytes, grain; /* a cell stands for so many bytes */
  cell *cell;
} block;

typedef struct order { /* of the turns of a loop: first, first + step, ... modulo their number */
  uint64_t first, step;
} order;

struct tn__races {
  tn_ctx *c;
  tn__arena *a;
  const tn__races_kernel *k;
  uint32_t part, turn, phase, loops;
  int32_t thread;
  int group;
  uint64_t state;
  order *order;       /* by instruction: of loops */
  block *block;
  uint32_t nblock;
  block **of;         /* by buffer, then by local; NULL: nobody writes it */
  const size_t *from; /* bytes from the block's start */
};

/* ---- order ---- */

static uint64_t draw(tn__races *r, uint64_t n) {
  r->state = tn__hash_mix(r->state, n);
  return r->state % n;
}

static const tn__ins *first_of(const tn__races *r) { return r->k->code->part[r->part].ins; }

static void enter(tn__races *r, const tn__ins *i, uint64_t at) {
  if (i->op == AX_GLOBAL) r->turn = (uint32_t)at + 1;
  if (i->op == AX_UPCAST) r->thread = (int32_t)at;
}

static int64_t kind_of(const tn__races *r, const tn__ins *i) {
  return i->span < r->k->nbuf ? 0 : r->k->threads[i->span - r->k->nbuf];
}

/* Do threads that run in step add in the loop, one after the other? */
static bool is_in_order(const tn__races *r, const tn__ins *range) {
  for (const tn__ins *i = range; i < first_of(r) + range->jump; i++)
    if (i->code == TN__I_STOREADD && kind_of(r, i) == TN__OWN_IN_STEP) return true;
  return false;
}

uint64_t tn__races_begin(tn__races *r, const tn__ins *range, uint64_t n) {
  order *o = &r->order[range - first_of(r)];
  *o = (order){0, 1};
  if (range->op == AX_GLOBAL || (range->op == AX_UPCAST && !is_in_order(r, range))) {
    *o = (order){draw(r, n), 1 + draw(r, n)};
    while (tn__gcd(o->step, n) != 1) o->step++;
  }
  if (range->op == AX_UPCAST && !r->group) r->phase = ++r->loops;
  enter(r, range, o->first);
  return o->first;
}

bool tn__races_turn(tn__races *r, const tn__ins *end, uint64_t *at, uint64_t n) {
  const order *o = &r->order[end->jump - 1];
  uint64_t next = (*at + o->step) % n;
  if (next != o->first) {
    enter(r, end, *at = next);
    return true;
  }
  if (end->op == AX_GLOBAL) r->turn = 0;
  if (end->op == AX_UPCAST) r->thread = ALL;
  if (end->op == AX_UPCAST && !r->group) r->phase = 0;
  return false;
}

void tn__races_barrier(tn__races *r) { r->phase += r->group > 0; }

/* ---- accesses ---- */

static bool unordered(const tn__races *r, const who *x, const who *y, bool local) {
  bool apart = x->thread != y->thread;
  if (x->turn != y->turn && !local) return true;
  if (!r->group) return apart && x->turn == y->turn && x->phase && x->phase == y->phase;
  /* a group takes one turn after the other, in the same shared memory */
  return apart && r->group > 1 && (!local || x->phase == y->phase);
}

static void say(const tn__races *r, tn__sb *s, const who *x) {
  static const char *const verb[] = {
      [TN__I_LOAD] = "a load", [TN__I_STORE] = "a store", [TN__I_STOREADD] = "an addition"};
  tn__sb_printf(s, "instruction %u, %s by", x->at - 1, verb[first_of(r)[x->at - 1].code]);
  if (x->turn) tn__sb_printf(s, " %s %u,", r->group ? "group" : "iteration", x->turn - 1);
  if (x->thread != ALL) tn__sb_printf(s, " %s %d", r->group ? "thread" : "lane", x->thread);
  else tn__sb_puts(s, r->group ? " all threads" : " no lane");
}

static void say_where(const tn__races *r, tn__sb *s, const char *what, const tn__ins *i, uint64_t index) {
  bool local = i->span >= r->k->nbuf;
  tn__sb_init(s, r->a);
  tn__sb_printf(s, "kernel %s, part %u: %s %s %s%u[%llu]: ", r->k->name, r->part, what, tn__dtypes[i->dtype].name,
                local ? "local" : "b", local ? i->span - r->k->nbuf : i->span, (unsigned long long)index);
}

static bool complain(tn__races *r, const tn__ins *i, uint64_t index, const who *x, const who *y) {
  tn__sb s;
  say_where(r, &s, "a race for", i, index);
  say(r, &s, x);
  tn__sb_puts(&s, ", and ");
  if (y) say(r, &s, y);
  else tn__sb_printf(&s, "the element is thread %lld's", (long long)(index % (uint64_t)r->group));
  tn__error(r->c, TN_ERUN, "%s", tn__sb_str(&s));
  return false;
}

/* Scratch memory holds nothing at first. */
static bool check_stored(tn__races *r, const tn__ins *i, uint64_t index, const cell *x, const who *now) {
  if (x->write.at) return true;
  tn__sb s;
  say_where(r, &s, "nothing was stored to", i, index);
  say(r, &s, now);
  tn__error(r->c, TN_ERUN, "%s", tn__sb_str(&s));
  return false;
}

static void note_read(const tn__races *r, cell *x, const who *now, bool local) {
  bool other = x->read[0].at && unordered(r, &x->read[0], now, local);
  if (other && (!x->read[1].at || x->read[1].turn == now->turn)) x->read[1] = x->read[0];
  x->read[0] = *now;
}

/* Elements of which each is one thread's: by their number, or whose first access it is. */
static bool check_owner(tn__races *r, cell *x, const tn__ins *i, uint64_t index, const who *now, int64_t threads) {
  if (threads > 0) return now->thread == (int32_t)(index % (uint64_t)threads) || complain(r, i, index, now, NULL);
  if (x->write.at && x->write.thread != now->thread) return complain(r, i, index, &x->write, now);
  x->write = *now;
  return true;
}

/* By which op it combines with what is there as others do at once; 0: it does not */
static uint8_t at_once(const tn__races *r, const tn__ins *i) {
  bool many = i->span < r->k->nbuf || (kind_of(r, i) == TN__OWN_TALLIES && i->op == OP_ADD);
  bool can = i->code == TN__I_STOREADD && many && tn__is_int(i->dtype) && (r->k->adds & tn__size_of(i->dtype));
  return can ? i->op : 0;
}

bool tn__races_touch(tn__races *r, const tn__ins *i, uint64_t index) {
  block *b = r->of[i->span];
  if (!b) return true;
  bool local = i->span >= r->k->nbuf, writes = i->code != TN__I_LOAD;
  who now = {(uint32_t)(i - first_of(r)) + 1, r->turn, r->phase, r->thread};
  if (r->group && writes && now.thread == ALL) now.thread = 0;
  size_t size = tn__size_of(i->dtype), first = (r->from[i->span] + index * size) / b->grain;
  int64_t threads = local && r->group ? kind_of(r, i) : 0;
  if (threads == TN__OWN_IN_STEP && now.thread != ALL && r->k->subgroup > 0) now.thread /= r->k->subgroup;
  if (threads && threads != TN__OWN_TALLIES && threads != TN__OWN_IN_STEP)
    return check_owner(r, &b->cell[first], i, index, &now, threads);
  if (!local && writes && !now.turn && r->k->global[r->part]) return complain(r, i, index, &now, &now);
  for (size_t k = 0; k < size / b->grain; k++) {
    cell *x = &b->cell[first + k];
    if (local && i->code != TN__I_STORE && !check_stored(r, i, index, x, &now)) return false;
    uint8_t by = at_once(r, i);
    bool again = by && x->combined == by;
    bool met = local && x->write.phase != now.phase; /* all of the group have, since */
    bool apart = x->write.at && ((x->several && !met) || unordered(r, &x->write, &now, local));
    if (apart && !again) return complain(r, i, index, &x->write, &now);
    for (int s = 0; s < 2 && writes; s++)
      if (x->read[s].at && unordered(r, &x->read[s], &now, local)) return complain(r, i, index, &x->read[s], &now);
    if (writes) {
      x->several = apart;
      x->combined = again || met || !x->write.at ? by : 0;
      x->write = now;
    } else {
      note_read(r, x, &now, local);
    }
  }
  return true;
}

/* ---- memory ---- */

/* Buffers that overlap in one block: an item may write where it reads. */
static void open_buffers(tn__races *r, tn__arena *a, void *const *buf, const size_t *bytes, size_t *from) {
  const tn__races_kernel *k = r->k;
  for (uint32_t b = 0; b < k->nbuf; b++) {
    if (!bytes[b]) continue;
    block one = {.mem = buf[b], .bytes = bytes[b], .grain = tn__size_of(k->dtype[b])};
    for (uint32_t i = 0; i < r->nblock;) { /* with all that it overlaps */
      block *x = &r->block[i];
      if (x->mem >= one.mem + one.bytes || one.mem >= x->mem + x->bytes) {
        i++;
        continue;
      }
      const char *end = x->mem + x->bytes > one.mem + one.bytes ? x->mem + x->bytes : one.mem + one.bytes;
      if (x->mem < one.mem) one.mem = x->mem;
      one.bytes = (size_t)(end - one.mem);
      if (x->grain < one.grain) one.grain = x->grain;
      *x = r->block[--r->nblock];
    }
    r->block[r->nblock++] = one;
  }
  for (uint32_t b = 0; b < k->nbuf; b++)
    for (uint32_t i = 0; i < r->nblock && bytes[b]; i++) {
      block *x = &r->block[i];
      if ((const char *)buf[b] < x->mem || (const char *)buf[b] >= x->mem + x->bytes) continue;
      if (k->written[b] && !x->cell) x->cell = tn__arena_zalloc(a, (x->bytes / x->grain + 1) * sizeof *x->cell);
      r->of[b] = x;
      from[b] = (size_t)((const char *)buf[b] - x->mem);
    }
  for (uint32_t b = 0; b < k->nbuf; b++)
    if (r->of[b] && !r->of[b]->cell) r->of[b] = NULL;
}

static void open_locals(tn__races *r, tn__arena *a) {
  for (uint32_t l = 0; l < r->k->nlocal; l++) {
    block *x = tn__arena_alloc(a, sizeof *x);
    *x = (block){.bytes = r->k->local_bytes[l], .grain = tn__size_of(r->k->local_dtype[l])};
    x->cell = tn__arena_zalloc(a, (x->bytes / x->grain + 1) * sizeof *x->cell);
    r->of[r->k->nbuf + l] = x;
  }
}

/* Where no loop is shared among threads, all of them do the same, and what one stores is what it has computed. */
static bool has_threads(const tn__races_kernel *k, uint32_t part) {
  for (uint32_t i = 0; i < k->code->part[part].n; i++) {
    const tn__ins *x = &k->code->part[part].ins[i];
    if (x->code == TN__I_RANGE && x->op == AX_UPCAST) return true;
  }
  return false;
}

tn__races *tn__races_open(tn_ctx *c, tn__arena *a, const tn__races_kernel *k, uint32_t part, void *const *buf,
                          const size_t *bytes, uint64_t seed) {
  tn__races *r = tn__arena_zalloc(a, sizeof *r);
  size_t *from = tn__arena_zalloc(a, (k->nbuf + k->nlocal + 1) * sizeof *from);
  *r = (tn__races){.c = c, .a = a, .k = k, .part = part, .thread = ALL, .state = seed, .from = from};
  r->group = k->group[part] > 1 && !has_threads(k, part) ? 1 : k->group[part];
  r->order = tn__arena_zalloc(a, (k->code->part[part].n + 1) * sizeof *r->order);
  r->block = tn__arena_zalloc(a, (k->nbuf + 1) * sizeof *r->block);
  r->of = tn__arena_zalloc(a, (k->nbuf + k->nlocal + 1) * sizeof *r->of);
  open_buffers(r, a, buf, bytes, from);
  open_locals(r, a);
  return r;
}
