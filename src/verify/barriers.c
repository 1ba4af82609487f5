/* Walks the program with the accesses since the last barrier in hand.  A loop is walked again, with what its end leaves
 * in hand, as long as that is more than it was walked with before, in whatever turns of the loops around it: so nested
 * loops take about as many walks as there are of them.  Where a loop may have no turns, what came before it is still in
 * hand behind it.  Of each access in hand is known which loops have not begun another turn since: the counters of the
 * others may be any. */
#include "verify/barriers.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include "verify/writers.h"

enum { MOST_TURNS = 1 << 12 }; /* that are tried */

typedef struct taken { /* an access, by its instruction */
  uint32_t at, same; /* so many loops around it, from the outermost, are in the turn that they were in */
} taken;
typedef tn__vec(taken) taken_list;

typedef struct walk {
  tn_ctx *c;
  const tn__kernel *k;
  uint32_t part;
  bool by_hand;     /* a program */
  bool many;        /* threads, or groups: a program without loops over threads is one thread's */
  /* by instruction */
  tn_node **lanes;  /* the lane loop around it, NULL: none */
  uint32_t *around; /* where the innermost loop around it begins, from 1 on; 0: there is none */
  bool *never;      /* it is in a loop that has no turn */
  uint32_t *place;  /* its place in hand, from 1 on; 0: it is not */
  taken_list *head; /* of a loop's RANGE: all that its turns have begun with, so far */
  taken_list hand;
  tn__vec(uint32_t) open; /* RANGEs of the loops around, but for those of lanes */
} walk;

static const tn__part *part_of(const walk *w) { return &w->k->part[w->part]; }

/* What a thread may leave for another one: memory of the group, and buffers that the kernel writes */
static bool is_shared(const walk *w, const tn_node *n) {
  if (n->op != OP_LOAD && n->op != OP_STORE && n->op != OP_STOREADD) return false;
  const tn_node *of = n->src[0];
  if (of->op == OP_LOCAL)
    return !of->ints[1] || of->ints[1] == TN__OWN_KEPT || tn__is_tallies(of) || tn__is_stepped(of);
  return of->op == OP_PARAM && w->k->buf_written[of->ints[0]] && w->many;
}

static bool is_lanes(const tn_node *range) { return range->ints[RANGE_AXIS] == AX_UPCAST; }

/* What is around each instruction; a loop's RANGE and END are outside of it, but for lanes. */
static void look_around(walk *w) {
  const tn__part *p = part_of(w);
  tn_node *lanes = NULL;
  uint32_t in = 0;
  bool never = false;
  w->lanes = tn__alloc(w->c, (p->n + 1) * sizeof *w->lanes);
  w->around = tn__alloc(w->c, (p->n + 1) * sizeof *w->around);
  w->never = tn__alloc(w->c, (p->n + 1) * sizeof *w->never);
  w->place = tn__arena_zalloc(&w->c->scratch, (p->n + 1) * sizeof *w->place);
  w->head = tn__arena_zalloc(&w->c->scratch, (p->n + 1) * sizeof *w->head);
  for (uint32_t i = 0; i < p->n; i++) {
    const tn_node *n = p->ins[i];
    if (n->op == OP_RANGE && is_lanes(n)) lanes = p->ins[i];
    if (n->op == OP_END && in) never = w->never[in - 1], in = w->around[in - 1];
    w->lanes[i] = lanes;
    w->around[i] = in;
    w->never[i] = never;
    if (n->op == OP_RANGE) never |= n->src[0]->hi <= 0, in = i + 1;
    if (n->op == OP_END && n->src[0] == lanes) lanes = NULL;
  }
}

/* The loops around it, from the outermost */
static void find_open(const walk *w, uint32_t at, tn__nodes *open) {
  for (uint32_t i = w->around[at]; i; i = w->around[i - 1]) tn__vec_push(&w->c->scratch, open, part_of(w)->ins[i - 1]);
  for (uint32_t i = 0; i < open->n / 2; i++) {
    tn_node *n = open->v[i];
    open->v[i] = open->v[open->n - 1 - i];
    open->v[open->n - 1 - i] = n;
  }
}

/* ---- do threads meet? ---- */

typedef struct access {
  tn_node *index, *gate, *lane; /* gate: NULL: none that counters tell; lane: NULL: outside of lane loops */
  bool loads;
  tn__nodes open, loops;        /* around it; those that it hangs on, the lanes' among them */
} access;

/* Adds the loops that x is computed from.  False: it hangs on more than their counters. */
static bool find_loops(tn_ctx *c, tn_node *x, tn__nodes *loops) {
  tn__nodes all = {0};
  tn__topo(&c->scratch, &x, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    if (n->op != OP_RANGE && n->op != OP_CONST && !tn__is_elementwise(n)) return false;
    uint32_t k = 0;
    while (k < loops->n && loops->v[k] != n) k++;
    if (n->op == OP_RANGE && k == loops->n) tn__vec_push(&c->scratch, loops, n);
  }
  return true;
}

/* Whose it is says the counter of `of`, a loop; NULL: everybody's.  False: its turns cannot be tried, or are too
 * many. */
static bool open_access(const walk *w, uint32_t at, tn_node *of, access *x) {
  tn_ctx *c = w->c;
  const tn__part *p = part_of(w);
  tn__nodes with_gate = {0};
  *x = (access){.index = p->ins[at]->src[1], .lane = of, .loads = p->ins[at]->op == OP_LOAD};
  find_open(w, at, &x->open);
  if (x->lane) tn__vec_push(&c->scratch, &x->loops, x->lane);
  if (!find_loops(c, x->index, &x->loops)) return false;
  for (uint32_t i = 0; i < x->loops.n; i++) tn__vec_push(&c->scratch, &with_gate, x->loops.v[i]);
  tn_node *gate = tn__gate_of(p->ins[at]);
  if (gate && find_loops(c, gate, &with_gate)) x->gate = gate, x->loops = with_gate;
  double turns = 1;
  for (uint32_t i = 0; i < x->loops.n; i++) {
    int64_t extent;
    if (!tn__const_int(x->loops.v[i]->src[0], &extent)) return false;
    turns *= (double)extent;
  }
  return turns <= MOST_TURNS;
}

/* The next turn; false: there is none. */
static bool step(const access *x, int64_t *at) {
  for (uint32_t i = 0; i < x->loops.n; i++) {
    if (++at[i] <= x->loops.v[i]->hi) return true;
    at[i] = 0;
  }
  return false;
}

/* The place of a turn, and in which turn of the loops that are the same for both it is. */
static uint64_t place_of(const walk *w, const access *x, const int64_t *at, const tn__nodes *same) {
  const tn__env env = {.key = x->loops.v, .val = at, .n = x->loops.n};
  uint64_t number = 0;
  for (uint32_t i = 0; i < same->n; i++)
    number = number * ((uint64_t)same->v[i]->hi + 1) + (uint64_t)tn__eval_index(same->v[i], &env, &w->c->scratch);
  return number << 32 ^ (uint64_t)tn__eval_index(x->index, &env, &w->c->scratch);
}

/* Whom each turn is of: a thread's number and 2, or 1: all threads.  One that is met as another's: false. */
static bool put_turns(const walk *w, const access *x, const tn__nodes *same, tn__map *of, bool look) {
  int64_t *at = tn__arena_zalloc(&w->c->scratch, (x->loops.n + 1) * sizeof *at);
  const tn__env env = {.key = x->loops.v, .val = at, .n = x->loops.n};
  do {
    if (x->gate && !tn__eval_index(x->gate, &env, &w->c->scratch)) continue;
    uint64_t other, key = place_of(w, x, at, same),
                    who = x->lane ? (uint64_t)tn__eval_index(x->lane, &env, &w->c->scratch) + 2 : x->loads ? 1 : 2;
    bool there = tn__map_get(of, key, &other), alone = !there || (other == who && who != 1);
    if (look && !alone) return false;
    if (!look) tn__map_put(of, key, alone ? who : 1);
  } while (step(x, at));
  return true;
}

/* Of all turns that may follow each other without a barrier, are those at one place one thread's? */
static bool are_apart(const walk *w, const taken *i, uint32_t j) {
  access x, y;
  tn__nodes same = {0};
  tn__map of;
  tn__map_init(&of, &w->c->scratch);
  if (!open_access(w, i->at, w->lanes[i->at], &x) || !open_access(w, j, w->lanes[j], &y)) return false;
  for (uint32_t k = 0; k < x.open.n && k < y.open.n && k < i->same && x.open.v[k] == y.open.v[k]; k++) {
    bool both[2] = {false, false};
    for (uint32_t l = 0; l < x.loops.n; l++) both[0] |= x.loops.v[l] == x.open.v[k];
    for (uint32_t l = 0; l < y.loops.n; l++) both[1] |= y.loops.v[l] == x.open.v[k];
    if (both[0] && both[1]) tn__vec_push(&w->c->scratch, &same, x.open.v[k]);
  }
  return put_turns(w, &x, &same, &of, false) && put_turns(w, &y, &same, &of, true);
}

/* The same; what trying all turns takes is given back. */
static bool stay_apart(const walk *w, const taken *i, uint32_t j) {
  tn__work work = tn__work_begin(w->c);
  bool apart = are_apart(w, i, j);
  tn__work_end(w->c, work);
  return apart;
}

/* Is the index K * (lanes * n + lane) + rest, 0 <= rest < K, for some n, and which K?  So places of different lanes
 * differ.  0: not by form. */
static int64_t share_of_lane(const walk *w, tn_node *index, tn_node *lane, int64_t lanes) {
  tn_ctx *c = w->c;
  const tn_node *by = index->op == OP_ADD ? index->src[1] : NULL; /* a neighbour, of a packed access */
  bool packed = by && by->op == OP_RANGE && by->ints[RANGE_AXIS] == AX_UNROLL;
  tn_node *base = packed ? index->src[0] : index, *zero = tn__int(c, 0), *one = tn__int(c, 1);
  tn_node *first = tn__simplify_index(c, tn__substitute(c, base, &lane, &zero, 1));
  tn_node *next = tn__substitute(c, base, &lane, &one, 1);
  int64_t share;
  if (!tn__const_int(tn__simplify_index(c, tn__sub(c, next, first)), &share) || share < 1 || share > INT32_MAX / lanes)
    return 0;
  tn_node *whole = tn__add(c, tn__mul(c, lane, tn__int(c, share)), first);
  tn_node *rest = tn__simplify_index(c, tn__op2(c, OP_MOD, first, tn__int(c, share * lanes)));
  bool is = tn__is_int_const(tn__simplify_index(c, tn__sub(c, base, whole)), 0);
  return is && rest->lo >= 0 && rest->hi + (packed ? by->hi : 0) < share ? share : 0;
}

/* Do both have the elements of a row that all threads share out in turns, each as many at a time? */
static bool have_shares(const walk *w, uint32_t i, uint32_t j) {
  const tn_node *a = part_of(w)->ins[i], *b = part_of(w)->ins[j];
  tn_node *of[2] = {w->lanes[i], w->lanes[j]};
  int64_t lanes = (of[0]->hi > of[1]->hi ? of[0]->hi : of[1]->hi) + 1;
  if (a->src[0]->op != OP_LOCAL || lanes < 1 || lanes > part_of(w)->group) return false;
  int64_t share = share_of_lane(w, a->src[1], of[0], lanes);
  return share && share == share_of_lane(w, b->src[1], of[1], lanes);
}

static bool is_one_thread(const walk *w, const taken *i, uint32_t j) {
  const tn_node *a = part_of(w)->ins[i->at], *b = part_of(w)->ins[j];
  tn_node *of[2] = {w->lanes[i->at], w->lanes[j]};
  if (!of[0] && !of[1]) return a->op != OP_LOAD && b->op != OP_LOAD; /* thread 0 stores; all load */
  if (of[0] && of[1] && tn__substitute(w->c, b->src[1], &of[1], &of[0], 1) == a->src[1] &&
      tn__writers_tell(w->c, w->k, w->part, a->src[1], of[0], a->src[0]->op != OP_LOCAL || i->same > 0))
    return true;
  if (of[0] && of[1] && have_shares(w, i->at, j)) return true;
  if (tn__is_in_step(part_of(w), a, of[0]) && tn__is_in_step(part_of(w), b, of[1])) return true; /* those in order */
  return stay_apart(w, i, j);
}

static const char *complain(const walk *w, uint32_t i, uint32_t j, const char *who) {
  const tn_node *const *ins = (const tn_node *const *)part_of(w)->ins;
  bool local = ins[i]->src[0]->op == OP_LOCAL;
  tn__sb s;
  tn__sb_init(&s, &w->c->scratch);
  tn__sb_printf(&s, "kernel %s, part %u: %s instruction %u, a %s, and instruction %u, a %s, by %s that may meet in "
                "%s%lld", w->k->name, w->part, local ? "no barrier stands between" : "nothing orders", i,
                tn__ops[ins[i]->op].text, j, tn__ops[ins[j]->op].text, who, local ? "local" : "b",
                (long long)ins[i]->src[0]->ints[0]);
  return tn__sb_str(&s);
}

static void take(walk *w, taken x) {
  uint32_t *place = &w->place[x.at];
  if (*place && x.same < w->hand.v[*place - 1].same) w->hand.v[*place - 1].same = x.same;
  if (*place) return;
  tn__vec_push(&w->c->scratch, &w->hand, x);
  *place = w->hand.n;
}

/* Is it loaded for nothing but to be stored where it stands, by who owns places (lower/owned.c)?  It meets what that
 * store meets. */
static bool is_kept(const walk *w, const tn_node *load) {
  const tn__part *p = part_of(w);
  bool kept = false;
  if (!p->owns || w->by_hand || load->op != OP_LOAD) return false;
  for (uint32_t i = 0; i < p->n; i++)
    for (uint32_t s = 0; s < p->ins[i]->nsrc; s++) {
      if (p->ins[i]->src[s] != load) continue;
      if (!tn__stores_itself(p->ins[i])) return false;
      kept = true;
    }
  return kept;
}

/* May the two be the same place, in memory that one of them writes?  Turns of one store to a buffer are a matter of
 * writers.h, which knows more of them; and two stores that the schedule has joined go to parts of a buffer of their
 * own, which validation looks at. */
static bool may_meet(const walk *w, uint32_t i, uint32_t j) {
  const tn_node *a = part_of(w)->ins[i], *b = part_of(w)->ins[j];
  bool both_load = a->op == OP_LOAD && b->op == OP_LOAD;
  bool both_store = (a->op != OP_LOAD || is_kept(w, a)) && (b->op != OP_LOAD || is_kept(w, b));
  if (a->src[0] != b->src[0] || both_load) return false;
  bool any_order = tn__adds_at_once(part_of(w), a) && tn__adds_at_once(part_of(w), b);
  if (any_order && tn__combines_by(a) == tn__combines_by(b)) return false;
  if (both_store && a->src[0]->op != OP_LOCAL && (a == b || !w->by_hand)) return false;
  tn__work work = tn__work_begin(w->c);
  bool apart = tn__writers_lie_apart(w->c, a->src[1], b->src[1]);
  tn__work_end(w->c, work);
  return !apart;
}

static const char *check_access(walk *w, uint32_t at) {
  if (w->never[at]) return NULL;
  for (uint32_t i = 0; i < w->hand.n; i++) {
    const taken *other = &w->hand.v[i];
    if (may_meet(w, other->at, at) && !is_one_thread(w, other, at))
      return complain(w, other->at, at, "threads");
  }
  take(w, (taken){at, w->open.n});
  return NULL;
}

/* Barriers order shared memory, and no buffers. */
static void pass_barrier(walk *w) {
  uint32_t kept = 0;
  for (uint32_t i = 0; i < w->hand.n; i++) {
    taken x = w->hand.v[i];
    bool ordered = part_of(w)->ins[x.at]->src[0]->op == OP_LOCAL;
    w->place[x.at] = ordered ? 0 : kept + 1;
    if (!ordered) w->hand.v[kept++] = x;
  }
  w->hand.n = kept;
}

/* In hand, and known of the head, is what either has. */
static void join(walk *w, taken_list *head) {
  for (uint32_t i = 0; i < head->n; i++) take(w, head->v[i]);
  head->n = 0;
  for (uint32_t i = 0; i < w->hand.n; i++) tn__vec_push(&w->c->scratch, head, w->hand.v[i]);
}

/* Is there more in hand than the head knows? */
static bool is_more(const walk *w, const taken_list *head) {
  uint32_t known = 0;
  for (uint32_t i = 0; i < head->n; i++) {
    uint32_t place = w->place[head->v[i].at];
    known += place && w->hand.v[place - 1].same >= head->v[i].same;
  }
  return known < w->hand.n;
}

static void open_loop(walk *w, uint32_t at) {
  join(w, &w->head[at]);
  tn__vec_push(&w->c->scratch, &w->open, at);
}

/* Where to go on */
static uint32_t close_loop(walk *w, uint32_t at) {
  uint32_t outer = w->open.n - 1, start = w->open.v[outer];
  for (uint32_t i = 0; i < w->hand.n; i++)
    if (w->hand.v[i].same > outer) w->hand.v[i].same = outer;
  bool more = is_more(w, &w->head[start]), runs = part_of(w)->ins[start]->src[0]->lo > 0;
  if (more || !runs) join(w, &w->head[start]);
  if (more) return start + 1;
  w->open.n--;
  return at + 1;
}

static bool has_threads(const tn__part *p) {
  for (uint32_t i = 0; i < p->n; i++)
    if (p->ins[i]->op == OP_RANGE && is_lanes(p->ins[i])) return true;
  return false;
}

const char *tn__barriers_check(tn_ctx *c, const tn__kernel *k, uint32_t part) {
  tn__kernel written;
  bool by_hand = k->part[part].body && tn__is_program(k->part[part].body);
  if (by_hand) written = tn__program_as_written(k), k = &written;
  const tn__part *p = &k->part[part];
  if (p->group < 2) return NULL;
  walk w = {.c = c, .k = k, .part = part, .by_hand = by_hand, .many = has_threads(p)};
  const char *wrong = NULL;
  look_around(&w);
  for (uint32_t at = 0; at < p->n && !wrong;) {
    const tn_node *n = p->ins[at];
    bool loop = (n->op == OP_RANGE || n->op == OP_END) && !w.lanes[at];
    if (loop && n->op == OP_END) {
      at = close_loop(&w, at);
      continue;
    }
    if (loop) open_loop(&w, at);
    if (n->op == OP_BARRIER) pass_barrier(&w);
    if (is_shared(&w, n)) wrong = check_access(&w, at);
    at++;
  }
  return wrong;
}

/* ---- groups ---- */

/* Is the index K * group + rest, 0 <= rest < K, and which K?  0: not by form. */
static int64_t share_of(const walk *w, tn_node *index, tn_node *group) {
  tn_ctx *c = w->c;
  tn_node *zero = tn__int(c, 0), *one = tn__int(c, 1);
  tn_node *rest = tn__simplify_index(c, tn__substitute(c, index, &group, &zero, 1));
  tn_node *next = tn__substitute(c, index, &group, &one, 1);
  int64_t share;
  if (!tn__const_int(tn__simplify_index(c, tn__sub(c, next, rest)), &share) || rest->lo < 0 || rest->hi >= share)
    return 0;
  tn_node *whole = tn__add(c, tn__mul(c, group, tn__int(c, share)), rest);
  return tn__is_int_const(tn__simplify_index(c, tn__sub(c, index, whole)), 0) ? share : 0;
}

static bool are_of_one_group(const walk *w, uint32_t i, uint32_t j) {
  const tn__part *p = part_of(w);
  int64_t share = share_of(w, p->ins[i]->src[1], p->global);
  if (share && share == share_of(w, p->ins[j]->src[1], p->global)) return true;
  access x, y;
  tn__nodes none = {0};
  tn__map of;
  tn__map_init(&of, &w->c->scratch);
  if (!open_access(w, i, p->global, &x) || !open_access(w, j, p->global, &y)) return false;
  return put_turns(w, &x, &none, &of, false) && put_turns(w, &y, &none, &of, true);
}

const char *tn__barriers_groups(tn_ctx *c, const tn__kernel *k, uint32_t part) {
  tn__kernel written = tn__program_as_written(k);
  const tn__part *p = &written.part[part];
  if (!p->global || p->global->src[0]->hi < 2) return NULL;
  walk w = {.c = c, .k = &written, .part = part, .by_hand = true, .many = true};
  look_around(&w);
  for (uint32_t j = 0; j < p->n; j++)
    for (uint32_t i = 0; i < j; i++) {
      if (!is_shared(&w, p->ins[i]) || !is_shared(&w, p->ins[j]) || p->ins[i]->src[0]->op == OP_LOCAL) continue;
      if (w.never[i] || w.never[j] || !may_meet(&w, i, j)) continue;
      tn__work work = tn__work_begin(c);
      bool good = are_of_one_group(&w, i, j);
      tn__work_end(c, work);
      if (!good) return complain(&w, i, j, "groups");
    }
  return NULL;
}
