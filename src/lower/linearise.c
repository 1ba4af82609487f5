/* Last step: from a body, a graph, to instructions in order.
 *
 * Needs a body in which every range closes in one place: reductions and stores that share a range do not depend on each
 * other.  Each node belongs to the innermost loop it depends on; loops are made when something first needs what they
 * compute.  Nodes that depend on an AX_UPCAST range belong to no loop of their own: they are written out inside the
 * vector loop of the reduction or store that wants them (loads and arithmetic may so be repeated in several vector
 * loops, never across iterations). */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { ENOUGH_TURNS = 64 /* of a loop, for threads to share out */ };

typedef struct unit {
  enum { U_INSTR, U_LOOP, U_LANES } kind;
  tn_node *node;            /* instruction (linear form), or the range of a loop or vector loop */
  tn_node *unroll[2];       /* U_LANES: the range of its neighbours, in it that of each one's; NULL: it has none */
  tn__vec(tn_node *) roots; /* U_LANES: what to do in each lane, in kernel form */
} unit;

typedef struct block { /* the inside of a loop; block 0 is the outside */
  int range, parent, depth;
  bool closed;
  tn__vec(unit) units;
} block;

/* What is to be placed, the next last: a node that is wanted; an instruction whose sources are there; a loop whose
 * closers up to `at` are prepared; a closer without loops of its own, which is. */
typedef struct task {
  enum { T_WANT, T_INSTR, T_LOOP, T_CLOSER } kind;
  tn_node *node;
  int range;
  uint32_t at;
} task;

typedef struct lin {
  tn_ctx *c;
  tn__arena *a;
  tn__ranges r;
  uint64_t lanes;                     /* AX_UPCAST and AX_UNROLL ranges */
  uint64_t unroll;                    /* AX_UNROLL ranges: neighbours in a lane, */
  uint64_t around[TN__MAX_RANGES];    /* and the lanes that the neighbours of each stand in, as other nodes show */
  block block[TN__MAX_RANGES + 1];    /* block i + 1 is the inside of range i */
  tn__map form;                       /* kernel node -> linear node */
  tn__map done;                       /* kernel nodes already placed */
  int64_t next_acc;
  tn__nodes out;
  tn__map accs;                       /* REDUCE -> acc */
  tn__map here;                       /* nodes written in the current vector loop, and in which pass last */
  uint64_t pass;
  tn__vec(task) todo;
} lin;

static uint64_t loops_of(const lin *l, const tn_node *n) { return tn__free_of(&l->r, n) & ~l->lanes; }

static int block_of(const lin *l, uint64_t loops) {
  int best = 0;
  for (uint32_t j = 0; j < l->r.n; j++)
    if ((loops >> j & 1) && l->block[j + 1].depth > l->block[best].depth) best = (int)j + 1;
  return best;
}

static int first_of(uint64_t set) { return set ? __builtin_ctzll(set) : -1; }

/* The vector range in a set, -1 */
static int lane_of(const lin *l, uint64_t set) { return first_of(set & l->lanes & ~l->unroll); }

static uint64_t loops_around(const lin *l, const tn_node *n) { return tn__own_of(&l->r, n) | tn__free_of(&l->r, n); }

/* The loops that n hangs on.  What neighbours reduce may be the same in all lanes: each lane does it for itself, in the
 * vector loop of all else that is done for these neighbours, if that is one. */
static uint64_t free_of(const lin *l, const tn_node *n) {
  uint64_t all = loops_around(l, n), unroll = lane_of(l, all) < 0 ? all & l->unroll : 0, lanes = 0;
  for (; unroll; unroll &= unroll - 1) lanes |= l->around[first_of(unroll)];
  return tn__free_of(&l->r, n) | (__builtin_popcountll(lanes) == 1 ? lanes : 0);
}

/* The vector loop that n closes or stands in, -1 */
static int lane_around(const lin *l, const tn_node *n) { return lane_of(l, tn__own_of(&l->r, n) | free_of(l, n)); }

static void find_lanes_around(lin *l) {
  for (uint32_t i = 0; i < l->r.order.n; i++) {
    uint64_t set = loops_around(l, l->r.order.v[i]);
    for (uint64_t u = set & l->unroll; u; u &= u - 1) l->around[first_of(u)] |= set & l->lanes & ~l->unroll;
  }
}

static bool in_lanes(const lin *l, const tn_node *n) { return tn__free_of(&l->r, n) & l->lanes; }

/* The loops that n closes, outermost first; n's own ranges stand in nesting order. */
static int next_own(const lin *l, const tn_node *n, int after) {
  uint64_t own = tn__own_of(&l->r, n) & ~l->lanes;
  int best = -1;
  for (uint32_t j = 0; j < l->r.n; j++) {
    if (!(own >> j & 1) || l->block[j + 1].depth <= (after < 0 ? -1 : l->block[after + 1].depth)) continue;
    if (best < 0 || l->block[j + 1].depth < l->block[best + 1].depth) best = (int)j;
  }
  return best;
}

/* ---- linear forms ---- */

static tn_node *form(lin *l, const tn_node *n) { return tn__map_getp(&l->form, n); }

static tn_node *make(lin *l, tn__op op, int dtype, tn_node *const *src, uint32_t n, const int64_t *ints,
                     uint32_t nint) {
  return tn__node_make(
      l->c, &(tn__make){.op = op, .dtype = dtype, .src = src, .nsrc = n, .ints = ints, .nint = nint, .device = -1});
}

typedef struct acc { /* what a reduction became */
  tn_node *acc, *set;
} acc;

/* a choice: no is right */
static bool fuses(const lin *l, const tn_node *r) {
  return r->op == OP_REDUCE && l->c->mode != TN_MODE_STRICT && r->ints[0] == OP_ADD &&
         (r->dtype == TN_F32 || r->dtype == TN_F64) && r->src[0]->op == OP_MUL;
}

/* A value that runs along a thread's neighbours is written out with them, in the loop of each who wants it, and begins
 * in front of them.  So is one that threads in step have from a table. */
static bool runs_in_lane(const lin *l, const tn_node *n) {
  return n->op == OP_RUNNING && ((n->nsrc > 2 ? l->lanes : l->unroll) >> tn__range_at(&l->r, n->src[1]) & 1);
}

/* What has an accumulator that stands outside of all lanes: its value is combined with those of other turns. */
static bool accumulates(const lin *l, const tn_node *n) {
  return n->op == OP_REDUCE || (n->op == OP_RUNNING && n->nsrc == 2 && !runs_in_lane(l, n));
}

/* The loop that a running value hangs on stands inside this block. */
static int around_running(const lin *l, const tn_node *n) {
  return l->block[tn__range_at(&l->r, n->src[1]) + 1].parent;
}

/* ACC, SETACC and the GETACC that stands for the reduction, or the running value, from now on */
static void form_accumulated(lin *l, tn_node *r) {
  tn_ctx *c = l->c;
  uint64_t own = tn__own_of(&l->r, r), free = free_of(l, r);
  int lane = runs_in_lane(l, r) ? -1 : lane_of(l, own | free);
  int64_t lanes = 1;
  if (lane >= 0) /* a power of two that holds every lane */
    while (lanes <= l->r.range[lane]->hi) lanes *= 2;
  int by = lane >= 0 ? first_of(free & l->unroll) : -1; /* a cell for each neighbour */
  int64_t ai[3] = {l->next_acc++, lanes, by < 0 ? 1 : l->r.range[by]->hi + 1}, op = r->ints[0];
  tn_node *init = tn__const_bits(c, r->dtype, tn__eval_reduce_init((int)op, r->dtype));
  acc *x = tn__arena_alloc(l->a, sizeof *x);
  x->acc = make(l, OP_ACC, 0, &init, 1, ai, 3);
  tn_node *value = form(l, r->src[0]);
  if (fuses(l, r)) {
    tn_node *f[2] = {form(l, r->src[0]->src[0]), form(l, r->src[0]->src[1])};
    value = tn__list(c, f, 2);
    op = OP_FMA;
  }
  tn_node *set[4] = {x->acc, value, lane >= 0 ? l->r.range[lane] : NULL, by >= 0 ? l->r.range[by] : NULL};
  x->set = make(l, OP_SETACC, 0, set, by >= 0 ? 4 : lane >= 0 ? 3 : 2, &op, 1);
  int outermost = next_own(l, r, -1); /* -1: it closes lanes alone */
  tn_node *outer = outermost < 0 ? r->src[1] : l->r.range[outermost], *end = make(l, OP_END, 0, &outer, 1, NULL, 0);
  if (r->op == OP_RUNNING) end = x->set;
  tn_node *get[4] = {x->acc, end, lane >= 0 && (free >> lane & 1) ? l->r.range[lane] : NULL, set[3]};
  tn__map_putp(&l->form, r, make(l, OP_GETACC, 0, get, get[2] ? (get[3] ? 4 : 3) : 2, r->ints, 1));
  tn__map_putp(&l->accs, r, x); /* found again when the loop closes */
}

/* STOREADD to the table, and the LOAD of what stands there then */
static void form_tallied(lin *l, tn_node *r) {
  tn_node *src[3] = {form(l, r->src[2]), form(l, r->src[3]), form(l, r->src[0])};
  acc *x = tn__arena_alloc(l->a, sizeof *x);
  x->acc = NULL;
  x->set = make(l, OP_STOREADD, 0, src, 3, NULL, 0);
  tn__map_putp(&l->form, r, make(l, OP_LOAD, r->dtype, src, 2, NULL, 0));
  tn__map_putp(&l->accs, r, x);
}

static void form_all(lin *l) {
  for (uint32_t i = 0; i < l->r.order.n; i++) {
    tn_node *n = l->r.order.v[i];
    if (n->op == OP_AFTER) {
      tn__map_putp(&l->form, n, form(l, n->src[0]));
    } else if (n->op == OP_RUNNING && n->nsrc > 2) {
      form_tallied(l, n);
    } else if (accumulates(l, n) || runs_in_lane(l, n)) {
      form_accumulated(l, n);
    } else if (n->op == OP_STORE || n->op == OP_STOREADD) {
      tn_node *s[4];
      uint32_t first;
      tn__closes(n, &first);
      for (uint32_t k = 0; k < first; k++) s[k] = form(l, n->src[k]);
      tn__map_putp(&l->form, n, make(l, n->op, 0, s, first, n->ints, n->nint));
    } else if (n->op == OP_SINK) {
      tn__map_putp(&l->form, n, n);
    } else {
      tn_node *s[8] = {0};
      bool same = true; /* as the passes wrote it, an index too: its normal form may be of sums that nobody computes */
      for (uint32_t k = 0; k < n->nsrc && k < 8; k++) same &= (s[k] = form(l, n->src[k])) == n->src[k];
      tn__map_putp(&l->form, n, same || n->op == OP_RANGE ? n : make(l, n->op, n->dtype, s, n->nsrc, n->ints, n->nint));
    }
  }
}

/* ---- placing ---- */

static void put(lin *l, int b, unit u) { tn__vec_push(l->a, &l->block[b].units, u); }
static void later(lin *l, task t) { tn__vec_push(l->a, &l->todo, t); }
static void want(lin *l, tn_node *n) { later(l, (task){.kind = T_WANT, .node = n}); }

/* In reverse, so that the first is wanted first */
static void want_all(lin *l, const tn__nodes *n) {
  for (uint32_t i = n->n; i && i--;) want(l, n->v[i]);
}

typedef struct step { /* a node on the way down, and which source comes next */
  tn_node *n;
  uint32_t next;
} step;
typedef tn__vec(step) steps;

/* n is wanted in a vector loop: everything in it that does not depend on the lane, or has loops of its own, must be
 * there before. */
static void find_outside(lin *l, tn_node *n, tn__nodes *out) {
  steps way = {0};
  tn__map seen;
  tn__map_init(&seen, l->a);
  tn__vec_push(l->a, &way, ((step){n, 0}));
  while (way.n) {
    step *t = &way.v[way.n - 1];
    if (t->next == t->n->nsrc) {
      way.n--;
      continue;
    }
    tn_node *s = t->n->src[t->next++];
    uint32_t first;
    if (s->op == OP_RANGE && (l->lanes >> tn__range_at(&l->r, s) & 1)) {
      tn__vec_push(l->a, out, s->src[0]);
    } else if (!in_lanes(l, s) || tn__closes(s, &first) || (s->op == OP_RUNNING && !runs_in_lane(l, s))) {
      tn__vec_push(l->a, out, s);
    } else if (!tn__map_getp(&seen, s)) {
      tn__map_putp(&seen, s, s);
      tn__vec_push(l->a, &way, ((step){s, 0}));
    }
  }
}

/* Those made later stand inside. */
static void unroll_by(const lin *l, unit *u, tn_node *range) {
  if (u->unroll[1]) tn__fail(l->c, TN_ESTATE, "internal error: neighbours by three loops of a kernel");
  bool inside = u->unroll[0] && tn__id_of(range) > tn__id_of(u->unroll[0]);
  if (!inside) u->unroll[1] = u->unroll[0];
  u->unroll[inside] = range;
}

/* The vector loop over these lanes that the block ends with, or would but for where accumulators begin: these hang on
 * nothing, and move in front of it.  NULL: it ends with something else. */
static unit *last_lanes(block *k, const unit *like) {
  uint32_t n = k->units.n;
  unit *v = k->units.v;
  while (n && v[n - 1].kind == U_INSTR && v[n - 1].node->op == OP_ACC) n--;
  if (!n || v[n - 1].kind != U_LANES || v[n - 1].node != like->node ||
      memcmp(v[n - 1].unroll, like->unroll, sizeof like->unroll))
    return NULL;
  unit lanes = v[n - 1];
  for (; n < k->units.n; n++) v[n - 1] = v[n];
  v[n - 1] = lanes;
  return &v[n - 1];
}

/* What closers of the same lanes have in common is so written once. */
static void put_lanes(lin *l, int b, int lane, tn_node *root) {
  block *k = &l->block[b];
  uint64_t unroll = (tn__own_of(&l->r, root) | tn__free_of(&l->r, root)) & l->unroll;
  unit fresh = {.kind = U_LANES, .node = l->r.range[lane]};
  for (uint64_t set = unroll; set; set &= set - 1) unroll_by(l, &fresh, l->r.range[first_of(set)]);
  unit *u = last_lanes(k, &fresh);
  if (!u) {
    put(l, b, fresh);
    u = &k->units.v[k->units.n - 1];
  }
  tn__vec_push(l->a, &u->roots, root);
}

/* What the closer's effect needs is to stand before it. */
static void prepare_closer(lin *l, tn_node *n) {
  int lane = lane_around(l, n);
  bool reduce = accumulates(l, n);
  tn_node *value = reduce ? n->src[0] : n;
  tn__nodes needs = {0};
  if (lane >= 0) {
    tn__vec_push(l->a, &needs, l->r.range[lane]->src[0]);
    if (reduce && (!in_lanes(l, value) || accumulates(l, value))) tn__vec_push(l->a, &needs, value);
    else find_outside(l, value, &needs);
  } else {
    const tn_node *from = reduce && fuses(l, n) ? value : n;
    uint32_t count = n->op == OP_RUNNING ? n->nsrc : 2; /* factors */
    if (from == n && n->op != OP_RUNNING) tn__closes(n, &count);
    for (uint32_t i = 0; i < count; i++) tn__vec_push(l->a, &needs, from->src[i]);
  }
  want_all(l, &needs);
}

/* The closer's own effect, in block b */
static void put_closer(lin *l, tn_node *n, int b) {
  int lane = lane_around(l, n);
  if (lane >= 0) {
    put_lanes(l, b, lane, n);
    return;
  }
  acc *x = tn__map_getp(&l->accs, n);
  unit u = {.kind = U_INSTR, .node = x ? x->set : form(l, n)};
  put(l, b, u);
}

/* A reduction is read once its loop is done, a running value in each turn; one per lane, inside the vector loops that
 * want it. */
static void read_acc(lin *l, tn_node *n) {
  if (!tn__map_getp(&l->accs, n) || lane_of(l, free_of(l, n)) >= 0) return;
  unit u = {.kind = U_INSTR, .node = form(l, n)};
  put(l, block_of(l, loops_of(l, n)), u);
}

static void start_acc(lin *l, tn_node *n, int b) {
  unit u = {.kind = U_INSTR, .node = ((acc *)tn__map_getp(&l->accs, n))->acc};
  put(l, b, u);
}

static void open_loop(lin *l, int range) {
  if (l->block[range + 1].closed) return;
  l->block[range + 1].closed = true;
  later(l, (task){.kind = T_LOOP, .range = range});
  want(l, l->r.range[range]->src[0]);
}

static void close_loop(lin *l, int range) {
  for (uint32_t i = 0; i < l->r.order.n; i++) { /* side by side, so that they share a vector loop */
    tn_node *n = l->r.order.v[i];
    if ((tn__own_of(&l->r, n) >> range & 1) && next_own(l, n, range) < 0) put_closer(l, n, range + 1);
  }
  unit u = {.kind = U_LOOP, .node = l->r.range[range]};
  put(l, l->block[range + 1].parent, u);
  for (uint32_t i = 0; i < l->r.order.n; i++)
    if (next_own(l, l->r.order.v[i], -1) == range) read_acc(l, l->r.order.v[i]);
}

/* The next of the loop's closers is prepared: t.node, if there is one, is done. */
static void go_on(lin *l, task t) {
  if (t.node) tn__map_putp(&l->done, t.node, t.node);
  while (t.at < l->r.order.n && !(tn__own_of(&l->r, l->r.order.v[t.at]) >> t.range & 1)) t.at++;
  if (t.at == l->r.order.n) {
    close_loop(l, t.range);
    return;
  }
  tn_node *n = l->r.order.v[t.at];
  /* outside of its outermost loop */
  if (n->op == OP_REDUCE && next_own(l, n, -1) == t.range) start_acc(l, n, l->block[t.range + 1].parent);
  later(l, (task){.kind = T_LOOP, .node = n, .range = t.range, .at = t.at + 1});
  int inner = next_own(l, n, t.range);
  if (inner >= 0) open_loop(l, inner);
  else prepare_closer(l, n);
}

static void ensure_closer(lin *l, tn_node *n) {
  int outer = next_own(l, n, -1);
  if (outer >= 0) {
    open_loop(l, outer);
    return;
  }
  if (accumulates(l, n)) start_acc(l, n, n->op == OP_REDUCE ? block_of(l, loops_of(l, n)) : around_running(l, n));
  later(l, (task){.kind = T_CLOSER, .node = n});
  prepare_closer(l, n);
}

static void ensure(lin *l, tn_node *n) {
  uint32_t first;
  if (tn__map_get(&l->done, (uint64_t)(uintptr_t)n, NULL)) return;
  if (n->op == OP_RANGE || n->op == OP_CONST || n->op == OP_VAR || n->op == OP_PARAM) return;
  if (n->op == OP_LOCAL) return;
  tn__map_putp(&l->done, n, n);
  if (tn__closes(n, &first) || (n->op == OP_RUNNING && !runs_in_lane(l, n))) {
    ensure_closer(l, n);
    return;
  }
  if (n->op != OP_AFTER && n->op != OP_LIST && !in_lanes(l, n)) later(l, (task){.kind = T_INSTR, .node = n});
  for (uint32_t i = n->nsrc; i && i--;) want(l, n->src[i]);
}

static void place(lin *l, tn_node *root) {
  want(l, root);
  while (l->todo.n) {
    task t = l->todo.v[--l->todo.n];
    int b = t.kind == T_INSTR || t.kind == T_CLOSER ? block_of(l, loops_of(l, t.node)) : 0;
    switch (t.kind) {
    case T_WANT: ensure(l, t.node); break;
    case T_INSTR: put(l, b, (unit){.kind = U_INSTR, .node = form(l, t.node)}); break;
    case T_LOOP: go_on(l, t); break;
    case T_CLOSER:
      put_closer(l, t.node, b);
      read_acc(l, t.node);
      break;
    }
  }
}

/* ---- writing out ---- */

static void emit(lin *l, tn_node *n) { tn__vec_push(l->a, &l->out, n); }

enum { WRITTEN = 0 }; /* number of no pass */

/* Is n's turn, in this vector loop?  Each node's comes once, and once in each pass before, which asks for what does not
 * hang on the neighbours in `inner`. */
static bool enter(lin *l, tn_node *n, uint64_t inner) {
  if (!in_lanes(l, n) || n->op == OP_RANGE || n->op == OP_AFTER) return false;
  uint64_t seen;
  if (tn__map_get(&l->here, (uint64_t)(uintptr_t)n, &seen) && (seen == WRITTEN || seen == l->pass)) return false;
  tn__map_put(&l->here, (uint64_t)(uintptr_t)n, tn__free_of(&l->r, n) & inner ? l->pass : WRITTEN);
  return true;
}

/* Lane-dependent part of n, sources first; only what does not hang on the neighbours in `inner`. */
static void write_lane(lin *l, tn_node *n, uint64_t inner) {
  steps way = {0};
  if (enter(l, n, inner)) tn__vec_push(l->a, &way, ((step){n, 0}));
  while (way.n) {
    step *t = &way.v[way.n - 1];
    if (!accumulates(l, t->n) && t->next < t->n->nsrc) {
      tn_node *s = t->n->src[t->next++];
      if (enter(l, s, inner)) tn__vec_push(l->a, &way, ((step){s, 0}));
      continue;
    }
    const acc *own = runs_in_lane(l, t->n) ? tn__map_getp(&l->accs, t->n) : NULL;
    tn_node *part = !own ? NULL : inner ? own->acc : own->set; /* a table stands already */
    if (part) emit(l, part);
    if (!(tn__free_of(&l->r, t->n) & inner)) emit(l, form(l, t->n));
    way.n--;
  }
}

static void write_root(lin *l, tn_node *n, uint64_t inner) {
  uint32_t first;
  tn__closes(n, &first);
  if (n->op == OP_REDUCE && fuses(l, n)) {
    write_lane(l, n->src[0]->src[0], inner);
    write_lane(l, n->src[0]->src[1], inner);
  } else {
    for (uint32_t s = 0; s < first; s++) write_lane(l, n->src[s], inner);
  }
}

static void end_range(lin *l, tn_node *range) { emit(l, make(l, OP_END, 0, &range, 1, NULL, 0)); }

static void write_lanes(lin *l, const unit *u) {
  tn__map_init(&l->here, l->a);
  emit(l, u->node);
  for (int k = 0; k < 2 && u->unroll[k]; k++) {
    uint64_t inner = 1ull << tn__range_at(&l->r, u->unroll[k]);
    if (!k && u->unroll[1]) inner |= 1ull << tn__range_at(&l->r, u->unroll[1]);
    l->pass++;
    for (uint32_t i = 0; i < u->roots.n; i++) write_root(l, u->roots.v[i], inner);
    emit(l, u->unroll[k]);
  }
  l->pass++;
  for (uint32_t i = 0; i < u->roots.n; i++) {
    tn_node *n = u->roots.v[i];
    write_root(l, n, 0);
    acc *x = tn__map_getp(&l->accs, n);
    emit(l, x ? x->set : form(l, n));
  }
  for (int k = 2; k--;)
    if (u->unroll[k]) end_range(l, u->unroll[k]);
  end_range(l, u->node);
}

static void write_block(lin *l, int b) {
  for (uint32_t i = 0; i < l->block[b].units.n; i++) {
    const unit *u = &l->block[b].units.v[i];
    if (u->kind == U_LANES) {
      write_lanes(l, u);
      continue;
    }
    emit(l, u->node);
    if (u->kind != U_LOOP) continue;
    write_block(l, tn__range_at(&l->r, u->node) + 1);
    end_range(l, u->node);
  }
}

/* ---- nesting ---- */

/* Which of x's own ranges is the next to be nested: the one inside the fewest others.  What no reduction closes stands
 * inside those before it. */
static int next_to_nest(const lin *l, const tn_node *x, const uint64_t *around, uint64_t reduced, uint64_t placed) {
  uint32_t first, fewest = 0, before = 0;
  int best = -1;
  tn__closes(x, &first);
  for (uint32_t s = first; s < x->nsrc; s++) {
    int j = tn__range_at(&l->r, x->src[s]);
    if (j < 0 || (placed >> j & 1)) continue;
    uint32_t k = reduced >> j & 1 ? (uint32_t)__builtin_popcountll(around[j]) : before;
    if (k > before) before = k;
    if (best < 0 || k < fewest) best = j, fewest = k;
  }
  return best;
}

static void nest_store(lin *l, uint64_t own, const int *order, int n) {
  int parent = 0;
  for (int i = 0; i < n; i++) {
    block *b = &l->block[order[i] + 1];
    if (!(own >> order[i] & 1)) continue;
    if (b->depth < 0) {
      b->parent = parent;
      b->depth = l->block[parent].depth + 1;
    }
    parent = order[i] + 1;
  }
}

/* Output ranges: those that more reductions depend on go further out.  A closer's own ranges nest inside the loops it
 * depends on. */
static void nest(lin *l) {
  uint32_t uses[TN__MAX_RANGES] = {0};
  int order[TN__MAX_RANGES], n = 0;
  /* reduced: the ranges of reductions; around: the loops that they stand in */
  uint64_t stores = 0, reduced = 0, around[TN__MAX_RANGES] = {0};
  for (uint32_t i = 0; i < l->r.order.n; i++) {
    tn_node *x = l->r.order.v[i];
    uint64_t free = tn__free_of(&l->r, x), own = tn__own_of(&l->r, x), outer = free & ~l->lanes;
    for (uint32_t s = 1; x->op == OP_REDUCE && s < x->nsrc; s++) { /* its own ranges stand in nesting order */
      int at = tn__range_at(&l->r, x->src[s]);
      around[at] |= outer;
      outer |= 1ull << at & ~l->lanes; /* which are no loops around others, even if they come first */
      reduced |= 1ull << at;
    }
    for (uint32_t j = 0; j < l->r.n; j++) {
      if (x->op == OP_REDUCE && (free >> j & 1)) uses[j]++;
      if ((x->op == OP_STORE || x->op == OP_STOREADD) && tn__buffer_of(x)->op != OP_LOCAL && (own >> j & 1) &&
          !tn__is_inner(l->r.range[j]))
        stores |= 1ull << j, uses[j]++;
    }
  }
  for (uint32_t j = 0; j < l->r.n; j++) {
    l->block[j + 1] = (block){.range = (int)j, .parent = 0, .depth = -1};
    if ((l->lanes >> j & 1) || !(stores >> j & 1)) continue;
    int at = n++;
    while (at > 0) {
      int before = order[at - 1];
      bool global_j = tn__axis_of(l->r.range[j]) == AX_GLOBAL, global_b = tn__axis_of(l->r.range[before]) == AX_GLOBAL;
      uint32_t key_j = uses[j] + (global_j ? 1000000 : 0), key_b = uses[before] + (global_b ? 1000000 : 0);
      if (tn__free_of(&l->r, l->r.range[j]) >> before & 1) break; /* its end hangs on the other's turn */
      if (tn__free_of(&l->r, l->r.range[before]) >> j & 1) key_b = 0;
      if (key_j < key_b || (key_j == key_b && tn__id_of(l->r.range[j]) > tn__id_of(l->r.range[before]))) break;
      order[at] = before;
      at--;
    }
    order[at] = (int)j;
  }
  /* a store's loops one inside the other; those that stores share are outermost */
  for (uint32_t i = 0; i < l->r.order.n; i++) {
    const tn_node *x = l->r.order.v[i];
    if ((x->op == OP_STORE || x->op == OP_STOREADD) && tn__buffer_of(x)->op != OP_LOCAL)
      nest_store(l, tn__own_of(&l->r, x), order, n);
  }
  for (uint32_t i = l->r.order.n; i && i--;) { /* users first: outer closers before those inside them */
    tn_node *x = l->r.order.v[i];
    uint32_t first;
    if (!tn__closes(x, &first)) continue;
    int parent = block_of(l, loops_of(l, x));
    for (uint32_t s = first; s < x->nsrc; s++) { /* its outputs' loops stand already */
      int j = tn__range_at(&l->r, x->src[s]);
      if (j >= 0 && l->block[j + 1].depth > l->block[parent].depth && (stores >> j & 1)) parent = j + 1;
    }
    uint64_t placed = l->lanes | stores;
    for (int j; (j = next_to_nest(l, x, around, reduced, placed)) >= 0; placed |= 1ull << j) {
      block *b = &l->block[j + 1];
      if (b->depth < 0) {
        b->parent = parent;
        b->depth = l->block[parent].depth + 1;
      }
      parent = j + 1;
    }
  }
}

/* The loops around the inside of a block, its own among them */
static uint64_t path_to(const lin *l, int b) {
  uint64_t set = 0;
  for (; b; b = l->block[b].parent) set |= 1ull << l->block[b].range;
  return set;
}

/* Each closer's loops stand one inside the other: those it depends on, and in them those it closes.  It has no other
 * around it: a reduction would begin, or be read, in another turn of that, and a row be kept in one.  Two closers of a
 * loop that want it in different places, or before and after another loop, fail here, whatever pass has made them. */
static void check_nesting(const lin *l) {
  uint64_t before[TN__MAX_RANGES];
  tn__loops_before(l->a, &l->r, l->lanes, before);
  for (uint32_t i = 0; i < l->r.order.n; i++) {
    const tn_node *x = l->r.order.v[i];
    uint64_t all = tn__own_of(&l->r, x), own = all & ~l->lanes, free = loops_of(l, x),
             in = path_to(l, block_of(l, free)), path = path_to(l, block_of(l, own | free));
    uint32_t first;
    bool good = !(free & ~in) && !(own & in) && path == (own | in);
    for (uint32_t j = 0; j < l->r.n; j++) good &= !(all >> j & before[j] >> j & 1);
    bool innermost = x->op != OP_RUNNING || block_of(l, free) == tn__range_at(&l->r, x->src[1]) + 1;
    if (runs_in_lane(l, x)) innermost = lane_of(l, l->lanes) >= 0; /* written in it even where it is the same for all */
    if (!innermost)
      tn__fail(l->c, TN_ESTATE, "internal error: a value runs along loop %lld, around others", tn__id_of(x->src[1]));
    if (!tn__closes(x, &first) || good) continue;
    tn__fail(l->c, TN_ESTATE, "internal error: loop %lld of a kernel is closed in two places",
             first < x->nsrc ? tn__id_of(x->src[first]) : -1ll);
  }
}

/* ---- parts ---- */

static uint32_t part_of(const tn__map *part, const tn_node *n) {
  uint64_t v = 0;
  tn__map_get(part, (uint64_t)(uintptr_t)n, &v);
  return (uint32_t)v;
}

/* Work of one iteration of the global loop, in additions; *again: what each slice of it does besides */
/* a choice: either is right */
static double work_of(const lin *l, const tn_node *global, double *again) {
  double work[2] = {0}, times = 1, stack[TN__MAX_RANGES + 1];
  uint32_t depth = 0, around = 0; /* loops around that which the global loop's turns do */
  for (uint32_t i = 0; i < l->out.n; i++) {
    const tn_node *n = l->out.v[i];
    if (n->op == OP_RANGE) {
      int64_t v = 0;
      stack[depth++] = times;
      if (n == global) around = depth;
      else times *= tn__const_int(n->src[0], &v) ? (double)v : n->hi < 1 << 20 ? (double)n->hi + 1 : 1024;
    } else if (n->op == OP_END) {
      if (depth == around) around = 0;
      times = stack[--depth];
    } else {
      work[around > 0] += times * tn__ops[n->op].cost;
    }
  }
  *again = global ? work[0] : 0;
  return global ? work[1] : work[0];
}

/* Iterations that a slice has at least: worth waking a thread for, and no less than what each slice does besides */
/* a choice: any is right */
static int64_t grain_of(const lin *l, const tn_node *global) {
  double again, work = work_of(l, global, &again), least = again > TN__SLICE_WORK ? again : TN__SLICE_WORK;
  return work > least ? 1 : (int64_t)(least / (work + 1)) + 1;
}

/* Is range x, which as many need as y, a better one for threads to share out?  The outer one, for they go through
 * memory in its order, unless it is short: then the longer one. */
/* a choice: either is right */
static bool shares_better(const tn_node *x, const tn_node *y) {
  if (tn__id_of(x) > tn__id_of(y)) return !shares_better(y, x);
  return x->hi >= ENOUGH_TURNS || x->hi >= y->hi;
}

/* a choice: no is right */
static tn_node *choose_global(tn_ctx *c, tn__arena *a, tn_node *sink, const tn__part *part) {
  tn__ranges r;
  tn__ranges_find(c, a, sink, &r);
  uint64_t common = ~0ull;
  for (uint32_t i = 0; i < sink->nsrc; i++) common &= tn__own_of(&r, sink->src[i]);
  uint32_t uses[TN__MAX_RANGES] = {0};
  uint64_t nested = 0;
  for (uint32_t i = 0; i < r.order.n; i++) {
    if (r.order.v[i]->op != OP_REDUCE && r.order.v[i]->op != OP_STORE) continue;
    nested |= r.order.v[i]->op == OP_REDUCE ? tn__own_of(&r, r.order.v[i]) : 0;
    for (uint32_t j = 0; j < r.n; j++) uses[j] += (uint32_t)(tn__free_of(&r, r.order.v[i]) >> j & 1);
  }
  int best = -1;
  for (uint32_t j = 0; j < r.n; j++) {
    if (r.range[j]->ints[RANGE_AXIS] == AX_GLOBAL) return r.range[j]; /* chosen before */
    if (part->group) continue;
    if (!(common >> j & 1) || r.range[j]->ints[RANGE_AXIS] != AX_LOOP || (nested >> j & 1)) continue;
    bool better = best < 0 || uses[j] > uses[best];
    if (better || (uses[j] == uses[best] && shares_better(r.range[j], r.range[best])))
      best = (int)j;
  }
  return best < 0 ? NULL : r.range[best];
}

void tn__linearise(tn_ctx *c, tn__arena *a, tn_node *body, tn__part *part) {
  tn_node *sink = body;
  tn_node *x = choose_global(c, a, sink, part), *global = x && x->ints[RANGE_AXIS] == AX_GLOBAL ? x : NULL;
  if (x && !global) {
    global = tn__range_like(c, x, x->src[0], AX_GLOBAL);
    sink = tn__substitute(c, sink, &x, &global, 1);
  }
  lin l = {.c = c, .a = a};
  tn__ranges_find(c, a, sink, &l.r);
  for (uint32_t j = 0; j < l.r.n; j++) {
    int axis = tn__axis_of(l.r.range[j]);
    if (axis == AX_UPCAST || axis == AX_UNROLL) l.lanes |= 1ull << j;
    if (axis == AX_UNROLL) l.unroll |= 1ull << j;
  }
  tn__map_init(&l.form, a);
  tn__map_init(&l.done, a);
  tn__map_init(&l.accs, a);
  find_lanes_around(&l);
  nest(&l);
  check_nesting(&l);
  form_all(&l);
  for (uint32_t i = 0; part->tile && i < l.r.order.n; i++)
    if (l.r.order.v[i]->op == OP_REDUCE) part->tile->acc = ((acc *)tn__map_getp(&l.accs, l.r.order.v[i]))->acc;
  for (uint32_t i = 0; i < sink->nsrc; i++) place(&l, sink->src[i]);
  write_block(&l, 0);
  *part = (tn__part){.body = body,
                     .ins = l.out.v,
                     .n = l.out.n,
                     .global = global,
                     .group = part->group,
                     .together = part->together,
                     .beside = part->beside,
                     .owns = part->owns,
                     .across = part->across,
                     .subgroup = part->subgroup,
                     .adds = part->adds,
                     .tile = part->tile,
                     .grain = grain_of(&l, global)};
}

/* Cuts a body where a load waits for a store to a whole buffer; gives the parts' sinks. */
uint32_t tn__cut_parts(tn_ctx *c, tn__arena *a, tn_node *body, tn_node **sink) {
  tn__nodes all = {0}, stores[TN__OWN_PARTS] = {{0}}, old = {0}, new_ = {0};
  tn__map part;
  uint32_t last = 0;
  tn__map_init(&part, a);
  tn__topo(a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *n = all.v[i];
    uint32_t p = 0;
    for (uint32_t s = 0; s < n->nsrc; s++)
      if (part_of(&part, n->src[s]) > p) p = part_of(&part, n->src[s]);
    bool wait = n->op == OP_AFTER && n->src[0]->op == OP_PARAM;
    if (wait) {
      tn__vec_push(a, &old, n);
      tn__vec_push(a, &new_, n->src[0]);
    }
    tn__map_put(&part, (uint64_t)(uintptr_t)n, p + wait);
    if (p == TN__OWN_PARTS) tn__fail(c, TN_ENOTSUP, "a kernel of more than %d parts", TN__OWN_PARTS);
    if ((n->op != OP_STORE && n->op != OP_STOREADD) || tn__buffer_of(n)->op == OP_LOCAL) continue;
    tn__vec_push(a, &stores[p], n);
    if (p > last) last = p;
  }
  for (uint32_t p = 0; p <= last; p++)
    sink[p] = tn__substitute(c, tn__sink(c, stores[p].v, stores[p].n, "part"), old.v, new_.v, old.n);
  return last + 1;
}
