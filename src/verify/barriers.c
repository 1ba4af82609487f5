/* Walks the program with the accesses since the last barrier in hand.  A loop is walked twice, the second time with
 * what its end leaves; where it may have no turns, what came before it is still in hand behind it. */
#include "verify/barriers.h"
#include "rewrite/rewrite.h"
#include "verify/writers.h"

typedef tn__vec(uint32_t) numbers;

typedef struct turn { /* a loop that is open, but for those of lanes and what is inside of them */
  uint32_t start;
  bool again;
  numbers before; /* in hand where it begins */
} turn;

typedef struct walk {
  tn_ctx *c;
  const tn__kernel *k;
  uint32_t part;
  tn_node **lanes; /* by instruction: the lane loop around it, NULL: none */
  bool *in_hand;   /* by instruction */
  numbers hand;    /* those instructions */
  tn__vec(turn) open;
} walk;

static const tn__part *part_of(const walk *w) { return &w->k->part[w->part]; }

static bool is_shared(const tn_node *n) {
  bool access = n->op == OP_LOAD || n->op == OP_STORE || n->op == OP_STOREADD;
  return access && n->src[0]->op == OP_LOCAL && !n->src[0]->ints[1];
}

static bool is_lanes(const tn_node *range) { return range->ints[RANGE_AXIS] == AX_UPCAST; }

static void find_lanes(walk *w) {
  const tn__part *p = part_of(w);
  tn_node *lanes = NULL;
  for (uint32_t i = 0; i < p->n; i++) {
    if (p->ins[i]->op == OP_RANGE && is_lanes(p->ins[i])) lanes = p->ins[i];
    w->lanes[i] = lanes;
    if (p->ins[i]->op == OP_END && p->ins[i]->src[0] == lanes) lanes = NULL;
  }
}

static bool is_one_thread(const walk *w, uint32_t i, uint32_t j) {
  const tn_node *a = part_of(w)->ins[i], *b = part_of(w)->ins[j];
  tn_node *of[2] = {w->lanes[i], w->lanes[j]};
  if (!of[0] && !of[1]) return a->op != OP_LOAD && b->op != OP_LOAD; /* thread 0 stores; all load */
  if (!of[0] || !of[1]) return false;
  return tn__substitute(w->c, b->src[1], &of[1], &of[0], 1) == a->src[1] &&
         tn__writers_tell(w->c, w->k, w->part, a->src[1], of[0]);
}

static const char *complain(const walk *w, uint32_t i, uint32_t j) {
  const tn_node *const *ins = (const tn_node *const *)part_of(w)->ins;
  tn__sb s;
  tn__sb_init(&s, &w->c->scratch);
  tn__sb_printf(&s, "kernel %s, part %u: no barrier stands between instruction %u, a %s, and instruction %u, a %s, by "
                "threads that may meet in local%lld", w->k->name, w->part, i, tn__ops[ins[i]->op].text, j,
                tn__ops[ins[j]->op].text, (long long)ins[i]->src[0]->ints[0]);
  return tn__sb_str(&s);
}

static void take(walk *w, uint32_t at) {
  if (w->in_hand[at]) return;
  w->in_hand[at] = true;
  tn__vec_push(&w->c->scratch, &w->hand, at);
}

static const char *check_access(walk *w, uint32_t at) {
  tn_node *const *ins = part_of(w)->ins;
  for (uint32_t i = 0; i < w->hand.n; i++) {
    uint32_t other = w->hand.v[i];
    bool stores = ins[other]->op != OP_LOAD || ins[at]->op != OP_LOAD;
    if (other != at && ins[other]->src[0] == ins[at]->src[0] && stores && !is_one_thread(w, other, at))
      return complain(w, other, at);
  }
  take(w, at);
  return NULL;
}

static void drop_all(walk *w) {
  for (uint32_t i = 0; i < w->hand.n; i++) w->in_hand[w->hand.v[i]] = false;
  w->hand.n = 0;
}

static void open_loop(walk *w, uint32_t at) {
  turn t = {.start = at};
  for (uint32_t i = 0; i < w->hand.n; i++) tn__vec_push(&w->c->scratch, &t.before, w->hand.v[i]);
  tn__vec_push(&w->c->scratch, &w->open, t);
}

/* Where to go on */
static uint32_t close_loop(walk *w, uint32_t at) {
  turn *t = &w->open.v[w->open.n - 1];
  bool shared = false, first = !t->again, runs = part_of(w)->ins[t->start]->src[0]->lo > 0;
  for (uint32_t i = t->start; i < at && !shared; i++) shared = is_shared(part_of(w)->ins[i]);
  for (uint32_t i = 0; i < t->before.n && ((first && shared) || !runs); i++) take(w, t->before.v[i]);
  if (first && shared) {
    t->again = true;
    return t->start + 1;
  }
  w->open.n--;
  return at + 1;
}

const char *tn__barriers_check(tn_ctx *c, const tn__kernel *k, uint32_t part) {
  const tn__part *p = &k->part[part];
  if (p->group < 2 || !k->nlocal) return NULL;
  walk w = {.c = c, .k = k, .part = part};
  const char *wrong = NULL;
  w.lanes = tn__alloc(c, (p->n + 1) * sizeof *w.lanes);
  w.in_hand = tn__arena_zalloc(&c->scratch, p->n + 1);
  find_lanes(&w);
  for (uint32_t at = 0; at < p->n && !wrong;) {
    const tn_node *n = p->ins[at];
    bool loop = (n->op == OP_RANGE || n->op == OP_END) && !w.lanes[at];
    if (loop && n->op == OP_END) {
      at = close_loop(&w, at);
      continue;
    }
    if (loop) open_loop(&w, at);
    if (n->op == OP_BARRIER) drop_all(&w);
    if (is_shared(n)) wrong = check_access(&w, at);
    at++;
  }
  return wrong;
}
