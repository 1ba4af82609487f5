/* Barriers, placed from dependences.
 *
 * Needs the linear form of a kernel for groups.  LOCAL buffers are shared: what one thread wrote another may read only
 * behind a barrier, and what one still reads no other may overwrite.  Barriers stand outside of lane loops, where all
 * threads pass.  Walks the program with the accesses since the last barrier in hand; a loop's body is walked as if its
 * own accesses had come before it.  Behind a loop that may have no turns, its barriers do not count. */
#include "ir/build.h"
#include "lower/lower.h"

typedef struct touched { /* added: to what threads may add to at once, or those in step one after the other */
  uint64_t read, written, added;
} touched;

typedef struct walk {
  tn_ctx *c;
  tn__arena *a;
  const tn__part *part;
  /* LOCAL buffers, by number, touched since the last barrier; the last bit stands for all from the 63rd on */
  touched now;
  int64_t number;
  tn__nodes out;
  tn__vec(touched) open; /* in hand where each loop around begins */
} walk;

static uint64_t bit_of(const tn_node *local) { return 1ull << (local->ints[0] < 63 ? local->ints[0] : 63); }

/* Do threads in step add there in order?  So they do in loops of lanes where something is added, and load what it is
 * then. */
static bool counts_in_step(const walk *w, const tn_node *local, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to && tn__is_stepped(local); i++)
    if (w->part->ins[i]->op == OP_STOREADD && w->part->ins[i]->src[0] == local) return true;
  return false;
}

/* What ins[from..to-1] touches. */
static touched touches(const walk *w, uint32_t from, uint32_t to) {
  touched t = {0};
  for (uint32_t i = from; i < to; i++) {
    const tn_node *n = w->part->ins[i], *buf = tn__is_access(n) ? n->src[0] : NULL;
    if (!buf || buf->op != OP_LOCAL) continue;
    if (buf->ints[1] && !tn__is_tallies(buf) && !tn__is_stepped(buf)) continue;
    bool adds = tn__adds_at_once(w->part, n) || counts_in_step(w, buf, from, to);
    *(adds ? &t.added : n->op == OP_LOAD ? &t.read : &t.written) |= bit_of(buf);
  }
  return t;
}

static void take(touched *t, touched more) {
  t->read |= more.read;
  t->written |= more.written;
  t->added |= more.added;
}

static uint32_t end_of(const walk *w, uint32_t start) {
  uint32_t i = start;
  while (w->part->ins[i]->op != OP_END || w->part->ins[i]->src[0] != w->part->ins[start]) i++;
  return i;
}

static void wait_for(walk *w, touched next) {
  const touched *t = &w->now;
  if ((next.read & (t->written | t->added)) || (next.written & (t->read | t->written | t->added)) ||
      (next.added & (t->read | t->written))) {
    tn_node *barrier = tn__node_make(w->c, &(tn__make){.op = OP_BARRIER, .ints = &w->number, .nint = 1, .device = -1});
    w->number++;
    tn__vec_push(w->a, &w->out, barrier);
    w->now = (touched){0};
  }
}

static void before(walk *w, touched next) {
  wait_for(w, next);
  take(&w->now, next);
}

/* Where all turns find what they share with others as it is before the first: of those that store there each thread
 * stores to what it alone has (ROLE_ALONE), others only read, or only add. */
static void begin_turns(walk *w, tn_node *range, touched turn) {
  if (range->ints[RANGE_ROLE] == ROLE_ALONE) {
    wait_for(w, turn);
    return;
  }
  if (!turn.written && !(turn.read & turn.added)) wait_for(w, turn);
  take(&w->now, turn);
}

void tn__place_barriers(tn_ctx *c, tn__arena *a, tn__part *part) {
  walk w = {.c = c, .a = a, .part = part};
  for (uint32_t i = 0; i < part->n; i++) {
    tn_node *n = part->ins[i];
    bool lanes = n->op == OP_RANGE && n->ints[0] == AX_UPCAST;
    uint32_t end = lanes ? end_of(&w, i) : i;
    if (lanes || tn__is_access(n)) before(&w, touches(&w, i, end + 1));
    for (; i < end; i++) tn__vec_push(a, &w.out, part->ins[i]);
    if (n->op == OP_RANGE && !lanes) tn__vec_push(a, &w.open, w.now);
    if (n->op == OP_END && !lanes) { /* of lanes, it has been passed by */
      touched before = w.open.v[--w.open.n];
      if (n->src[0]->src[0]->lo < 1) take(&w.now, before);
    }
    if (n->op == OP_RANGE && !lanes) begin_turns(&w, n, touches(&w, i, end_of(&w, i))); /* the turn before */
    tn__vec_push(a, &w.out, part->ins[i]);
  }
  part->ins = w.out.v;
  part->n = w.out.n;
}
