/* A patch of outputs for each thread, for devices with work groups: what sums load that is the same for all turns of an
 * output's loop serves as many outputs as the thread has along that loop.  Distances of all pairs of rows load two
 * elements for each term; a thread with 8 x 8 of them loads 16 for 64.
 *
 * Where only the turns of one loop load the same (numbers that are compared with all of their row), that has the
 * columns, and a thread one row: of another loop, or the only one that there is.
 *
 * Needs a part whose stores all have the same outputs' loops.  Two of these, rows and columns, are cut: a place along
 * one is (block * own + number) * threads + thread, where a thread has `own` numbers.  Blocks are groups', both numbers
 * are one loop of neighbours, which is unrolled, and sums have a cell for each of them: so the language's compiler
 * loads once what several neighbours load, and each sum keeps its order.  Places beyond the end do the last one's work,
 * and are not stored.
 *
 * What is made of elements of a row and a step alone, or of a column and a step, is staged: steps are cut, too, and the
 * group's threads fill shared memory with all of their rows, and columns, for so many steps at a time, in the order in
 * which these lie in memory.
 *
 * Whether that pays, and the size of a patch, is a variant (variants.c).  Steps noted:
 *   patch(a,b,8x4)  8 turns of loop a times 4 of loop b in a thread
 *   patch(b,4)      4 turns of loop b
 *   stage(k,32)     so many steps of loop k at a time */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

enum {
  STEPS = 32, /* that are staged at a time, at most: a power of two, for cheap quotients */
  FEWEST_STEPS = 4,
  MOST_STAGED = 8,
  PLAIN_REGISTERS = 48, /* of a thread, beside its sums */
  MOST_REGISTERS = 240
};

typedef struct patch {
  tn__lowering *l;
  tn_ctx *c;
  tn__arena *a;
  tn_node *body;
  tn__survey s;
  int group;                 /* threads */
  int at[2];                 /* the numbers of the loops of rows and of columns; no rows: -1 */
  tn_node *x[2];             /* these, NULL */
  int64_t threads[2], own[2];
  tn_node *block[2], *lane, *number;
} patch;

typedef struct staged { /* a value that hangs on one of the two loops, and on the step */
  tn_node *value;
  int side;
  bool across; /* memory goes on along that loop, not along steps */
} staged;

typedef struct stage {
  int k; /* number of the steps' loop, -1: nothing is staged */
  staged value[MOST_STAGED];
  uint32_t n;
  int64_t steps;
  tn_node *turn, *step; /* step = turn * steps + step; turn NULL: all at once */
} stage;

/* ---- what is shared ---- */

/* Elements that sums load, over again for each turn of loop j */
/* a choice: either is right */
static double shared_by(const tn__survey *s, uint32_t j) {
  double elements = 0;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    uint64_t free = tn__free_of(&s->r, n);
    if (n->op == OP_LOAD && (free & ~s->outputs) && !(free >> j & 1)) elements += tn__volume(s, free);
  }
  return elements;
}

/* How far a turn of loop j moves the first store */
/* a choice: any is right */
static int64_t stride_of(const tn__survey *s, uint32_t j) {
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    int64_t by = s->r.order.v[i]->op == OP_STORE ? tn__stride(&s->r, s->r.order.v[i]->src[1], j) : 0;
    if (by) return by < 0 ? -by : by;
  }
  return TN__IRREGULAR;
}

/* Two of the outputs' loops whose turns load the same elements: columns are what is stored closest together, rows those
 * that have most in common.  Of columns alone any other loop has the rows, or none.  How many loops there are of the
 * first kind. */
/* a choice: 0 is right */
static int find_loops(const tn__survey *s, int at[2]) {
  uint64_t shared = 0, even = 0;
  double most = 0;
  at[0] = at[1] = -1;
  if (s->common != s->outputs || s->running || !s->reduces) return 0;
  for (uint32_t i = 0; i < s->r.order.n; i++)
    if (s->r.order.v[i]->op == OP_LOCAL || s->r.order.v[i]->op == OP_STOREADD) return 0;
  for (uint32_t k = 0; k < s->r.n; k++) {
    if (!tn__is_even(s, k) || tn__extent(s->r.range[k]) <= 1) continue;
    even |= 1ull << k;
    if (shared_by(s, k) > 0) shared |= 1ull << k;
  }
  for (uint32_t k = 0; k < s->r.n; k++)
    if ((shared >> k & 1) && (at[1] < 0 || stride_of(s, k) < stride_of(s, (uint32_t)at[1]))) at[1] = (int)k;
  for (uint32_t k = 0; k < s->r.n; k++)
    if ((shared >> k & 1) && (int)k != at[1] && shared_by(s, k) > most) most = shared_by(s, k), at[0] = (int)k;
  if (at[0] >= 0) return 2;
  for (uint32_t k = 0; k < s->r.n && at[1] >= 0; k++)
    if ((even >> k & 1) && (int)k != at[1] && (at[0] < 0 || stride_of(s, k) < stride_of(s, (uint32_t)at[0])))
      at[0] = (int)k;
  return at[1] >= 0;
}

bool tn__has_patches(const tn__survey *s, const tn__variant *v) {
  int at[2], n = find_loops(s, at);
  if (v->rows != 1) return v->rows > 1 && n == 2;
  bool own = n == 1 && tn__extent(s->r.range[at[1]]) >= TN__USUAL_SUBGROUP; /* fewer leave most threads without work */
  for (uint32_t i = 0; i < s->r.order.n && own; i++) /* what is the same for all, each would sum up */
    own = s->r.order.v[i]->op != OP_REDUCE || (tn__free_of(&s->r, s->r.order.v[i]) >> at[1] & 1);
  return own;
}

/* Does it hang on rows, or columns? */
static bool hangs(const patch *p, uint64_t free, int side) { return p->at[side] >= 0 && (free >> p->at[side] & 1); }

/* ... and on all that there are? */
static bool hangs_on_both(const patch *p, const tn_node *n) {
  uint64_t free = tn__free_of(&p->s.r, n);
  return (p->at[0] < 0 || hangs(p, free, 0)) && hangs(p, free, 1);
}

/* ---- how many ---- */

static int64_t power_above(double v, int64_t most) {
  int64_t p = 1;
  while ((double)p < v && p * 2 <= most) p *= 2;
  return p;
}

/* Columns first get as many threads as run in step, then rows, then columns what is left; where the last block would be
 * mostly empty, all are made smaller. */
/* a choice: any is right */
static void choose_sizes(patch *p) {
  const tn__variant *v = p->l->variant;
  int64_t most = tn__variant_by(tn__usual_group(p->l->target), v->group), want[2] = {v->rows, v->cols};
  double size[2];
  for (int i = 0; i < 2; i++) size[i] = p->x[i] ? tn__extent(p->x[i]) / (double)want[i] : 1;
  if (most < p->l->target->subgroup) most = p->l->target->subgroup;
  if (most > p->l->target->group) most = p->l->target->group;
  p->threads[1] = power_above(size[1], p->l->target->subgroup);
  p->threads[0] = power_above(size[0], most / p->threads[1]);
  p->threads[1] = power_above(size[1], most / p->threads[0]);
  for (int i = 0; i < 2; i++) {
    double span = (double)(p->threads[i] * want[i]), all = p->x[i] ? tn__extent(p->x[i]) : 1;
    int64_t blocks = (int64_t)((all + span - 1) / span);
    p->own[i] = ((int64_t)all + blocks * p->threads[i] - 1) / (blocks * p->threads[i]);
    if (p->own[i] > want[i] || p->own[i] < 1) p->own[i] = want[i];
  }
  int64_t threads = p->threads[0] * p->threads[1];
  p->group = (int)(threads < p->l->target->subgroup ? p->l->target->subgroup : threads);
}

/* Is it each output's own: a sum, or what is loaded for all of its terms? */
/* a choice: either is right */
static bool is_held(const patch *p, const tn_node *n) {
  uint64_t free = tn__free_of(&p->s.r, n);
  return n->op == OP_REDUCE || (n->op == OP_LOAD && !(free & ~p->s.outputs) && hangs_on_both(p, n));
}

/* Blocks whose threads have registers enough, for their sums and what these are made of */
/* a choice: any is right */
static int beside(const patch *p) {
  double words = 0;
  for (uint32_t i = 0; i < p->s.r.order.n; i++) {
    const tn_node *n = p->s.r.order.v[i];
    if (is_held(p, n)) words += fmax(1, (double)tn__size_of(n->dtype) / sizeof(float));
  }
  double each = PLAIN_REGISTERS + 1.25 * words * (double)(p->own[0] * p->own[1]);
  return each > MOST_REGISTERS ? 0 : (int)((double)p->l->target->registers / sizeof(float) / (each * p->group));
}

/* Does each sum of several neighbours differ between threads, too? */
static bool has_lanes(const patch *p) {
  for (uint32_t i = 0; i < p->s.r.order.n; i++) {
    const tn_node *n = p->s.r.order.v[i];
    bool neighbours = false, lanes = false;
    for (int side = 0; side < 2 && n->op == OP_REDUCE; side++) {
      bool own = hangs(p, tn__free_of(&p->s.r, n), side);
      neighbours |= own && p->own[side] > 1;
      lanes |= own && p->threads[side] > 1;
    }
    if (neighbours && !lanes) return false;
  }
  return true;
}

/* ---- places ---- */

/* The quotient by `by` where there is more than one, and the remainder where that is not all */
static tn_node *over(tn_ctx *c, tn_node *x, int64_t by) { return by == 1 ? x : tn__op2(c, OP_IDIV, x, tn__int(c, by)); }
static tn_node *rest(tn_ctx *c, tn_node *x, int64_t by) {
  return by == 1 ? tn__int(c, 0) : tn__op2(c, OP_MOD, x, tn__int(c, by));
}

static int64_t span(const patch *p, int side) { return p->own[side] * p->threads[side]; }

/* The thread's place among those of its block */
static tn_node *place_in_block(const patch *p, int side) {
  tn_node *thread = side ? rest(p->c, p->lane, p->threads[1]) : over(p->c, p->lane, p->threads[1]);
  tn_node *number = side ? rest(p->c, p->number, p->own[1]) : over(p->c, p->number, p->own[1]);
  return tn__add(p->c, tn__mul(p->c, number, tn__int(p->c, p->threads[side])), thread);
}

/* ... and among all, given that among those of its block */
static tn_node *place_of(const patch *p, int side, tn_node *in_block) {
  if (!p->x[side]) return in_block;
  return tn__add(p->c, tn__mul(p->c, p->block[side], tn__int(p->c, span(p, side))), in_block);
}

static tn_node *last_of(tn_ctx *c, const tn_node *range, tn_node *place) {
  return tn__op2(c, OP_MIN, place, tn__add(c, range->src[0], tn__int(c, -1)));
}

static void begin_loops(patch *p) {
  tn_ctx *c = p->c;
  for (int i = p->x[0] ? 0 : 1; i < 2; i++) {
    tn_node *by = tn__int(c, span(p, i)), *up = tn__add(c, p->x[i]->src[0], tn__int(c, span(p, i) - 1));
    p->block[i] = tn__range_like(c, p->x[i], tn__simplify_index(c, tn__op2(c, OP_IDIV, up, by)), AX_LOOP);
  }
  tn__role role = tn__role_of(p->x[1]);
  p->lane = tn__fresh_range(p->l, tn__int(c, p->threads[0] * p->threads[1]), AX_UPCAST, role);
  p->number = tn__fresh_range(p->l, tn__int(c, p->own[0] * p->own[1]), AX_UNROLL, role);
}

/* Rows and columns by blocks, threads and numbers */
static void cut_outputs(patch *p) {
  tn_ctx *c = p->c;
  tn_node *at[2], *inside = NULL;
  int first = p->x[0] ? 0 : 1;
  for (int i = first; i < 2; i++) {
    tn_node *place = place_of(p, i, place_in_block(p, i)), *size = p->x[i]->src[0];
    at[i] = place;
    if (tn__divisible(size, span(p, i))) continue;
    tn_node *there = tn__op2(c, OP_LT, place, size);
    at[i] = last_of(c, p->x[i], place);
    inside = inside ? tn__op2(c, OP_AND, inside, there) : there;
  }
  tn_node *come[] = {p->block[0], p->block[1], p->lane, p->number};
  p->body = tn__exchange_ranges(p->l, p->body, p->x + first, at + first, 2u - (uint32_t)first, come + first,
                                4u - (uint32_t)first);
  if (inside) p->body = tn__ignore_beyond(p->l, p->body, p->lane, inside);
}

/* ---- staging ---- */

/* The only one of the two loops that n hangs on (rows: where there are none, on no columns), -1; where it hangs on loop
 * k, and is made of loads by arithmetic */
/* a choice: no is right */
static int side_of(const patch *p, const tn_node *n, int k) {
  uint64_t free = tn__free_of(&p->s.r, n);
  bool columns = hangs(p, free, 1), rows = p->at[0] < 0 ? !columns : hangs(p, free, 0);
  if (rows == columns || !(free >> k & 1) || tn__level_of(&p->s.r, n) || n->dtype == TN__INDEX) return -1;
  return columns;
}

static bool loads(tn__arena *a, tn_node *n) {
  tn__nodes all = {0};
  tn__topo(a, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_LOAD) return true;
  return false;
}

/* Does memory rather go on along the rows, or columns, than along the steps? */
/* a choice: either is right */
static bool lies_across(const patch *p, tn_node *value, int side, int k) {
  tn__nodes all = {0};
  int64_t across = 0, along = 0;
  tn__topo(p->a, &value, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_LOAD) continue;
    across += p->x[side] && tn__stride(&p->s.r, all.v[i]->src[1], (uint32_t)p->at[side]) == 1;
    along += tn__stride(&p->s.r, all.v[i]->src[1], (uint32_t)k) == 1;
  }
  return across > along;
}

static void add_staged(const patch *p, stage *g, tn_node *value, int side) {
  for (uint32_t i = 0; i < g->n; i++)
    if (g->value[i].value == value) return;
  if (g->n < MOST_STAGED) g->value[g->n++] = (staged){value, side, lies_across(p, value, side, g->k)};
}

/* The largest parts of a sum's terms that are staged */
static void find_in(const patch *p, tn_node *term, stage *g) {
  tn__nodes todo = {0};
  tn__map seen;
  tn__map_init(&seen, p->a);
  tn__vec_push(p->a, &todo, term);
  while (todo.n) {
    tn_node *n = todo.v[--todo.n];
    int side = side_of(p, n, g->k);
    if (tn__map_getp(&seen, n)) continue;
    tn__map_putp(&seen, n, n);
    if (side >= 0 && loads(p->a, n)) add_staged(p, g, n, side);
    else if (tn__is_elementwise(n))
      for (uint32_t s = 0; s < n->nsrc; s++) tn__vec_push(p->a, &todo, n->src[s]);
  }
}

static bool sums_over_both(const patch *p, const tn_node *n) {
  return n->op == OP_REDUCE && hangs_on_both(p, n);
}

typedef struct layout { /* of a staged value in shared memory: its lines lie so far apart */
  int64_t lines, pitch, lanes, turns;
  bool beyond; /* the last turn of the threads that fill it has elements that no block has, at places of their own */
} layout;

/* A line's steps stand side by side, lines an odd number of elements apart, so that threads find their own in other
 * banks. */
static layout layout_of(const patch *p, const staged *v, int64_t steps) {
  layout y = {.lines = span(p, v->side)};
  int64_t all = y.lines * steps;
  y.lanes = all < p->group ? all : p->group;
  y.turns = (all + y.lanes - 1) / y.lanes;
  y.beyond = y.turns * y.lanes > all;
  if (v->across) steps = (y.turns * y.lanes + y.lines - 1) / y.lines;
  else y.lines = (y.turns * y.lanes + steps - 1) / steps;
  y.pitch = steps | 1;
  return y;
}

static double bytes_of(const patch *p, const stage *g, int64_t steps) {
  double bytes = 0;
  for (uint32_t i = 0; i < g->n; i++) {
    layout y = layout_of(p, &g->value[i], steps);
    bytes += (double)(y.lines * y.pitch) * (double)tn__size_of(g->value[i].value->dtype);
  }
  return bytes;
}

/* The innermost loop of most terms, and what is staged of them; steps that fit where groups share memory */
/* a choice: no is right */
static bool find_stage(const patch *p, stage *g) {
  double most = 0;
  uint64_t both = (p->x[0] ? 1ull << p->at[0] : 0) | 1ull << p->at[1];
  *g = (stage){.k = -1};
  for (uint32_t i = 0; i < p->s.r.order.n; i++) {
    const tn_node *n = p->s.r.order.v[i];
    if (!sums_over_both(p, n)) continue;
    int k = tn__range_at(&p->s.r, n->src[n->nsrc - 1]);
    double terms = tn__volume(&p->s, tn__own_of(&p->s.r, n));
    bool good = tn__axis_of(p->s.r.range[k]) == AX_REDUCE && !tn__bounds_loops(&p->s.r, (uint32_t)k) &&
                !(tn__free_of(&p->s.r, p->s.r.range[k]) & both) && p->s.r.range[k]->hi > 0;
    if (good && terms > most) most = terms, g->k = k;
  }
  for (uint32_t i = 0; i < p->s.r.order.n && g->k >= 0; i++) {
    const tn_node *n = p->s.r.order.v[i];
    if (sums_over_both(p, n) && tn__range_at(&p->s.r, n->src[n->nsrc - 1]) == g->k) find_in(p, n->src[0], g);
  }
  double room = fmin((double)p->l->target->kept - p->l->staged, tn__room_left(p->l));
  for (g->steps = STEPS; g->steps > FEWEST_STEPS && bytes_of(p, g, g->steps) > room / 2;) g->steps /= 2;
  return g->n && bytes_of(p, g, g->steps) <= room;
}

/* The value at a thread's row, or column, and step: loaded from shared memory, which all threads fill, each with an
 * element of every turn.  Elements beyond those of the block are other ones' once more, at places of their own. */
static tn_node *from_stage(const patch *p, const stage *g, const staged *v) {
  tn_ctx *c = p->c;
  int64_t lines = span(p, v->side);
  layout y = layout_of(p, v, g->steps);
  tn_node *lane = tn__fresh_range(p->l, tn__int(c, y.lanes), AX_UPCAST, ROLE_KEPT),
          *turn = tn__fresh_range(p->l, tn__int(c, y.turns), AX_UNROLL, ROLE_KEPT);
  tn_node *e = y.turns > 1 ? tn__add(c, tn__mul(c, turn, tn__int(c, y.lanes)), lane) : lane;
  tn_node *line = v->across ? rest(c, e, lines) : over(c, e, g->steps),
          *step = v->across ? over(c, e, lines) : rest(c, e, g->steps);
  tn_node *k = p->s.r.range[g->k], *x = p->x[v->side], *own[2] = {lane, turn};
  tn_node *to = tn__add(c, tn__mul(c, line, tn__int(c, y.pitch)), step);
  tn_node *at_line = place_of(p, v->side, line),
          *at_step = g->turn ? tn__add(c, tn__mul(c, g->turn, tn__int(c, g->steps)), step) : step;
  if (x && (!tn__divisible(x->src[0], lines) || y.beyond)) at_line = last_of(c, x, at_line);
  if (!tn__divisible(k->src[0], g->steps) || y.beyond) at_step = last_of(c, k, at_step);
  tn_node *value = tn__substitute(c, v->value, (tn_node *[]){k, x}, (tn_node *[]){at_step, at_line}, x ? 2 : 1);
  tn_node *room = tn__scratch(p->l, value->dtype, y.lines * y.pitch);
  tn_node *filled = tn__filled(c, room, to, value, own, y.turns > 1 ? 2 : 1);
  tn_node *from = tn__add(c, tn__mul(c, place_in_block(p, v->side), tn__int(c, y.pitch)), g->step);
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){filled, from}, .nsrc = 2});
}

/* Steps in turns of so many, or all at once */
static void cut_steps(const patch *p, stage *g) {
  tn_ctx *c = p->c;
  tn_node *k = p->s.r.range[g->k], *size = k->src[0];
  int64_t all;
  g->step = k;
  if (tn__const_int(size, &all) && all <= g->steps) {
    g->steps = all;
    return;
  }
  tn_node *by = tn__int(c, g->steps), *up = tn__add(c, size, tn__int(c, g->steps - 1));
  g->turn = tn__range_like(c, k, tn__simplify_index(c, tn__op2(c, OP_IDIV, up, by)), AX_REDUCE);
  tn_node *left = tn__op2(c, OP_MIN, by, tn__sub(c, size, tn__mul(c, g->turn, by)));
  g->step = tn__fresh_range(p->l, tn__divisible(size, g->steps) ? by : tn__simplify_index(c, left), AX_REDUCE,
                            tn__role_of(k));
}

static void put_stage(patch *p) {
  stage g;
  tn_node *old[MOST_STAGED], *new_[MOST_STAGED];
  if (!find_stage(p, &g)) return;
  cut_steps(p, &g);
  p->l->staged += bytes_of(p, &g, g.steps);
  tn_node *k = p->s.r.range[g.k];
  for (uint32_t i = 0; i < g.n; i++) {
    old[i] = g.value[i].value;
    new_[i] = from_stage(p, &g, &g.value[i]);
  }
  p->body = tn__substitute(p->c, p->body, old, new_, g.n);
  tn__sb_printf(&p->l->note, " stage(%lld,%lld)", tn__id_of(k), (long long)g.steps);
  if (!g.turn) return;
  tn_node *at = tn__add(p->c, tn__mul(p->c, g.turn, tn__int(p->c, g.steps)), g.step);
  p->body = tn__exchange_ranges(p->l, p->body, &k, &at, 1, (tn_node *[]){g.turn, g.step}, 2);
}

/* ---- a part ---- */

static void choose_loops(patch *p) {
  find_loops(&p->s, p->at);
  for (int i = 0; i < 2; i++) p->x[i] = p->at[i] < 0 ? NULL : p->s.r.range[p->at[i]];
  choose_sizes(p);
}

double tn__patch_count(tn__lowering *l, const tn__survey *s) {
  patch p = {.l = l, .c = l->c, .a = l->a, .s = *s};
  if (l->variant->rows <= 1 || !tn__has_patches(s, l->variant)) return 0;
  choose_loops(&p);
  double count = tn__volume(s, s->outputs);
  for (int i = 0; i < 2; i++) count *= ceil(tn__extent(p.x[i]) / (double)span(&p, i)) / tn__extent(p.x[i]);
  return count;
}

/* Loops of outputs that no other bounds.  Others than rows and columns are a group's number: all its threads then go
 * through as many steps. */
/* a choice: no is right */
static bool are_apart(const patch *p) {
  for (uint32_t k = 0; k < p->s.r.n; k++)
    if ((p->s.common >> k & 1) &&
        (tn__axis_of(p->s.r.range[k]) != AX_LOOP || (tn__free_of(&p->s.r, p->s.r.range[k]) & ~(1ull << k))))
      return false;
  return true;
}

tn_node *tn__patch(tn__lowering *l, tn_node *body, tn__part *out) {
  tn__sb cut;
  tn__sb_init(&cut, l->a);
  patch p = {.l = l, .c = l->c, .a = l->a, .body = l->variant->rows == 1 ? tn__cut_flat_rows(l, body, &cut) : body};
  tn__survey_loops(l->c, l->a, p.body, &p.s);
  if (!tn__has_patches(&p.s, l->variant) || !are_apart(&p)) return NULL;
  choose_loops(&p);
  int room = beside(&p);
  if (p.own[0] * p.own[1] < 2 || !room || !has_lanes(&p)) return NULL;
  tn__sb_printf(&l->note, "%s patch(", tn__sb_str(&cut));
  if (p.x[0]) tn__sb_printf(&l->note, "%lld,", tn__id_of(p.x[0]));
  tn__sb_printf(&l->note, "%lld,", tn__id_of(p.x[1]));
  if (l->variant->rows > 1) tn__sb_printf(&l->note, "%lldx", (long long)p.own[0]);
  tn__sb_printf(&l->note, "%lld)", (long long)p.own[1]);
  begin_loops(&p);
  put_stage(&p);
  cut_outputs(&p);
  tn__sb_printf(&l->note, " threads(%d)", p.group);
  out->group = p.group;
  out->beside = room;
  return tn__hold_in_blocks(l, tn__make_global(l, tn__simplify_accesses(l->c, l->a, p.body), NULL, 0));
}
