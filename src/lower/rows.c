/* Several passes over the same row in one kernel: loops that can be one are made one, and what is dear and wanted in
 * several loops over the row is kept in a row of scratch memory. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  MAX_ROW = 1 << 16, /* elements of a row worth keeping */
  MAX_ROWS = 16,
  WORTH_KEEPING = 10, /* the cost from which on a value is rather kept than computed again, */
  AGAIN = 8,          /* and so many times again */
  WORTH_KEEPING_THEN = 3 /* what costs no more than a quotient, where the lanes are those of vectors */
};

/* The loops that close at each range: their highest level (before it, the loop cannot run), and their free set if they
 * have one in common. */
typedef struct loop {
  tn_node *range;
  uint32_t level, closers;
  uint64_t free, around; /* around: what any of them has around it, among it the loops that it closes too */
  uint64_t before;       /* the loops that must have ended (tn__loops_before) */
  bool uniform, reduces;
} loop;

/* n closes its loops, inside those it depends on.  What a store has around a loop that a reduction closes too, the
 * reduction has said. */
static void describe_closer(const tn__ranges *r, loop *l, const tn_node *n) {
  uint32_t first, level = tn__level_of(r, n);
  uint64_t outer = tn__free_of(r, n);
  tn__closes(n, &first);
  for (uint32_t s = first; s < n->nsrc; s++) /* output loops stand around the others, which nest in order */
    if (!tn__is_inner(n->src[s])) outer |= 1ull << tn__range_at(r, n->src[s]);
  for (uint32_t s = first; s < n->nsrc; s++) {
    loop *x = &l[tn__range_at(r, n->src[s])];
    bool said = n->op != OP_REDUCE && x->reduces;
    if (x->closers && (x->level != level || (!said && x->free != outer))) x->uniform = false;
    if (level > x->level) x->level = level;
    if (!said) x->free = outer;
    x->around |= outer;
    x->reduces |= n->op == OP_REDUCE;
    x->closers++;
    outer |= 1ull << tn__range_at(r, n->src[s]);
  }
}

static void describe(tn__arena *a, const tn__ranges *r, loop *l) {
  uint32_t first;
  uint64_t before[TN__MAX_RANGES];
  tn__loops_before(a, r, 0, before);
  for (uint32_t i = 0; i < r->n; i++) l[i] = (loop){.range = r->range[i], .before = before[i], .uniform = true};
  for (int stores = 0; stores < 2; stores++)
    for (uint32_t i = 0; i < r->order.n; i++)
      if (tn__closes(r->order.v[i], &first) && (r->order.v[i]->op != OP_REDUCE) == stores)
        describe_closer(r, l, r->order.v[i]);
}

/* Two reductions over equal extents, under the same loops, at the same level (hence independent): one loop. */
tn_node *tn__share_loops(tn__lowering *lo, tn_node *body) {
  for (;;) {
    tn__ranges r;
    tn__ranges_find(lo->c, lo->a, body, &r);
    loop l[TN__MAX_RANGES];
    describe(lo->a, &r, l);
    tn_node *old = NULL, *new_ = NULL;
    for (uint32_t i = 0; i < r.n && !old; i++)
      for (uint32_t j = 0; j < i && !old; j++) {
        if (r.range[i]->ints[RANGE_AXIS] != AX_REDUCE || r.range[j]->ints[RANGE_AXIS] != AX_REDUCE ||
            r.range[i]->src[0] != r.range[j]->src[0])
          continue;
        if (!l[i].uniform || !l[j].uniform || l[i].level != l[j].level || l[i].free != l[j].free) continue;
        old = r.range[i], new_ = r.range[j];
      }
    if (!old) return body;
    tn__sb_printf(&lo->note, " share(%lld,%lld)", tn__id_of(new_), tn__id_of(old));
    body = tn__substitute(lo->c, body, &old, &new_, 1);
  }
}

/* On a group device even what is loaded is worth keeping: the threads hold more than the caches. */
/* a choice: either is right */
static bool dear(const tn_node *n, const tn__target *target) {
  if (n->op == OP_LOAD) return target->group && n->src[0]->op == OP_PARAM;
  return n->op == OP_REDUCE || tn__ops[n->op].cost >= WORTH_KEEPING;
}

typedef struct row { /* the same expression wanted over several ranges */
  tn_node *form;     /* over a mark instead of the range */
  tn_node *at[8], *range[8];
  uint32_t n;
  bool repeated;
  tn_node *lane;     /* of the columns that keep theirs side by side; NULL: it is one row */
} row;

static uint64_t others_of(const tn__ranges *r, const tn_node *n, uint32_t j) {
  return tn__free_of(r, n) & ~(1ull << j);
}

/* May n be kept over range j?  A row is one of each turn of the other loops that n depends on: those stand around it.
 * And what n loads of another row must not be written anew for each element of this one. */
/* a choice: no is right */
static bool makes_row(const tn__ranges *r, const loop *l, const tn_node *n, uint32_t j, const tn__map *anew) {
  uint64_t rewritten = 0;
  tn__map_get(anew, (uint64_t)(uintptr_t)n, &rewritten);
  return (tn__free_of(r, n) >> j & 1) && !(others_of(r, n, j) & ~l[j].around) && !(rewritten >> j & 1);
}

/* Would a group go turn by turn through a loop around so short a row, to keep it anew in each of them?  Its threads had
 * better share out those turns, and each compute what it wants again. */
/* a choice: either is right */
static bool is_short_in_turns(const tn__ranges *r, const loop *l, uint32_t j, const tn__target *target) {
  double turns = 1, length = tn__extent(r->range[j]);
  for (uint32_t k = 0; k < r->n; k++)
    if (k != j && (l[j].around >> k & 1) && tn__is_inner(r->range[k]) && tn__role_of(r->range[k]) != ROLE_ROW_LOOP)
      turns *= tn__extent(r->range[k]);
  return target->group && length < target->subgroup && turns > 1;
}

/* Is n, in the loop over range j, computed again for loops that it does not depend on, and that stand inside of all
 * that it does? */
/* a choice: no is right */
static bool repeated(const tn__ranges *r, const loop *l, const tn_node *n, uint32_t j) {
  uint64_t others = others_of(r, n, j), stay = 0;
  for (uint32_t k = 0; k < r->n; k++)
    if (others >> k & 1) stay |= l[k].around;
  return tn__is_inner(l[j].range) && others && (l[j].free & ~tn__free_of(r, n) & ~stay);
}

/* a choice: either is right */
static bool is_quotient(const tn_node *n, const tn__target *target) {
  return !target->group && tn__is_float(n->dtype) && tn__ops[n->op].cost >= WORTH_KEEPING_THEN;
}

/* Is n computed again for each turn of loops that stand inside of those that it is of?  Outputs nest in the order of
 * their ids (linearise.c). */
/* a choice: no is right */
static bool again_and_again(const tn__ranges *r, const loop *l, const tn_node *n, uint32_t j) {
  uint64_t again = l[j].free & ~tn__free_of(r, n), others = others_of(r, n, j);
  double times = 1;
  for (uint32_t k = 0; k < r->n; k++) {
    if (!(again >> k & 1) || tn__axis_of(r->range[k]) == AX_UPCAST) continue;
    times *= tn__extent(r->range[k]);
    for (uint32_t i = 0; i < r->n; i++)
      if ((others >> i & 1) && tn__id_of(r->range[i]) > tn__id_of(r->range[k])) return false;
  }
  return tn__is_inner(l[j].range) && others && times >= AGAIN;
}

/* Does one of the row's loops stand around the loop over range j, or the other way round?  Then neither is done when
 * the other begins. */
static bool nested(const tn__ranges *r, const loop *l, const row *w, uint32_t j) {
  for (uint32_t i = 0; i < w->n; i++) {
    uint32_t k = (uint32_t)tn__range_at(r, w->range[i]);
    if (k != j && ((l[k].around >> j & 1) || (l[j].around >> k & 1))) return true;
  }
  return false;
}

static bool is_kept(const tn__ranges *r, const tn_node *n) {
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *s = r->order.v[i];
    if (s->op == OP_STORE && s->src[0]->op == OP_LOCAL && s->src[2] == n) return true;
  }
  return false;
}

/* As lower.c places them */
static size_t in_lines(size_t bytes) { return (bytes + 63) / 64 * 64; }

static int64_t lanes_of(const tn_node *lane) { return lane ? lane->hi + 1 : 1; }

static size_t row_bytes(const tn_node *n, const tn_node *range, const tn_node *lane) {
  return in_lines((size_t)((range->hi + 1) * lanes_of(lane)) * tn__size_of(n->dtype));
}

/* What rows may take: of a thread's cache, or of a group's memory, and all that there is of that */
typedef struct rooms {
  size_t kept, shared;
  int64_t block; /* elements that a group takes at once, at most */
} rooms;

/* A group's threads go through a row in whole blocks: the last one has room, too. */
static size_t shared_bytes(const rooms *has, const tn_node *n, const tn_node *range, const tn_node *lane) {
  int64_t length = range->hi + 1, block = 1;
  while (block < length && block < has->block) block *= 2;
  return in_lines((size_t)((length + block - 1) / block * block * lanes_of(lane)) * tn__size_of(n->dtype));
}

static bool fits(const rooms *has, const tn_node *n, const tn_node *range, const tn_node *lane) {
  return row_bytes(n, range, lane) <= has->kept && shared_bytes(has, n, range, lane) <= has->shared;
}

/* Where a row's element is kept: beside those of the other lanes */
static tn_node *place_in(tn_ctx *c, tn_node *x, tn_node *lane) {
  return lane ? tn__add(c, tn__mul(c, x, tn__int(c, lane->hi + 1)), lane) : x;
}

/* The lanes that n is of, where lanes are those of vectors; NULL: it is the same in all */
static tn_node *lane_of(const tn__ranges *r, const tn_node *n) {
  for (uint32_t j = 0; j < r->n; j++)
    if ((tn__free_of(r, n) >> j & 1) && tn__axis_of(r->range[j]) == AX_UPCAST) return r->range[j];
  return NULL;
}

/* For each node the loops in whose turns rows that it is made of are written anew */
static void find_written(tn__arena *a, const tn__ranges *r, tn__map *anew) {
  tn__map_init(anew, a);
  for (uint32_t i = 0; i < r->order.n; i++) {
    tn_node *n = r->order.v[i];
    uint64_t set = n->op == OP_AFTER && n->src[0]->op == OP_LOCAL ? tn__free_of(r, n) : 0, below;
    for (uint32_t s = 0; s < n->nsrc; s++)
      if (tn__map_get(anew, (uint64_t)(uintptr_t)n->src[s], &below)) set |= below;
    if (set) tn__map_put(anew, (uint64_t)(uintptr_t)n, set);
  }
}

/* May the loop over range j keep the row, for the others to load?  It cannot wait for one of them. */
static bool can_be_first(const tn__ranges *r, const loop *l, const row *w, uint32_t j) {
  for (uint32_t i = 0; i < w->n; i++) {
    uint32_t k = (uint32_t)tn__range_at(r, w->range[i]);
    if (k != j && (l[j].before >> k & 1)) return false;
  }
  return true;
}

/* The place whose loop runs first: reductions before stores, lower levels before higher.  -1 if each waits for
 * another. */
static int earliest(const tn__ranges *r, const loop *l, const row *w) {
  int first = -1;
  for (uint32_t i = 0; i < w->n; i++) {
    uint32_t j = (uint32_t)tn__range_at(r, w->range[i]);
    if (!can_be_first(r, l, w, j)) continue;
    const loop *p = &l[j], *q = first < 0 ? p : &l[tn__range_at(r, w->range[first])];
    bool reduce_p = p->range->ints[RANGE_AXIS] == AX_REDUCE, reduce_q = q->range->ints[RANGE_AXIS] == AX_REDUCE;
    if (first < 0 || reduce_p > reduce_q || (reduce_p == reduce_q && p->level < q->level)) first = (int)i;
  }
  return first;
}

/* The loop like that over x which runs first: what is only loaded had better be under way before the row's first
 * results are waited for. */
static tn_node *before_all(const tn__ranges *r, const loop *l, const row *w, tn_node *x) {
  const loop *best = &l[tn__range_at(r, x)];
  for (uint32_t i = 0; i < r->n && best->uniform; i++) {
    const loop *q = &l[i];
    if (q->range->ints[RANGE_AXIS] == AX_REDUCE && q->range->src[0] == x->src[0] && q->uniform && q->reduces &&
        q->free == best->free && q->level < best->level && can_be_first(r, l, w, i))
      best = q;
  }
  return best->range;
}

static bool is_wanted(const tn__ranges *r, const loop *l, const row *w) {
  return (w->n >= 2 || w->repeated) && earliest(r, l, w) >= 0;
}

/* The loop that keeps the row */
static tn_node *keeping_loop(const tn__ranges *r, const loop *l, const row *w) {
  int first = earliest(r, l, w);
  tn_node *x = w->range[first], *value = w->at[first];
  bool early = value->op == OP_LOAD && x->ints[RANGE_AXIS] == AX_REDUCE && !tn__level_of(r, value);
  return early ? before_all(r, l, w, x) : x;
}

/* Is a row of what is computed wanted in the loop that keeps a row which is loaded?  There it would be made of what is
 * loaded, elsewhere of what is kept, and no longer be found to be the same. */
/* a choice: either is right */
static bool is_made_where(const tn__ranges *r, const loop *l, const row *w, const row *loaded) {
  const tn_node *x = keeping_loop(r, l, loaded);
  bool there = false;
  for (uint32_t i = 0; i < w->n; i++) there |= w->range[i] == x;
  return there && w->n >= 2 && w->at[0]->op != OP_LOAD;
}

/* The only node that has n as a source, if it is one of elements; NULL */
static tn_node *only_user(const tn__ranges *r, const tn_node *n) {
  tn_node *user = NULL;
  for (uint32_t i = 0; i < r->order.n; i++) {
    tn_node *y = r->order.v[i];
    bool uses = false;
    for (uint32_t s = 0; s < y->nsrc; s++) uses |= y->src[s] == n;
    if (uses && user) return NULL;
    if (uses) user = y;
  }
  return user && tn__is_elementwise(user) ? user : NULL;
}

/* As long as a row is wanted for one value alone, the same everywhere, that is kept instead. */
/* a choice: either is right */
static void go_up(const tn__lowering *lo, const tn__ranges *r, const loop *l, const tn__map *anew, const rooms *has,
                  row *w) {
  for (;;) {
    row up = *w;
    tn_node *mark = tn__range(lo->c, w->range[0]->src[0], AX_LOOP, ROLE_MARK, lo->next_range);
    for (uint32_t i = 0; i < w->n; i++) {
      tn_node *x = w->range[i], *n = up.at[i] = only_user(r, w->at[i]);
      uint32_t j = (uint32_t)tn__range_at(r, x);
      if (!n || !makes_row(r, l, n, j, anew) || lane_of(r, n) != w->lane || !fits(has, n, x, w->lane)) return;
      tn_node *form = tn__substitute(lo->c, n, &x, &mark, 1);
      if (i && form != up.form) return;
      up.form = form;
    }
    *w = up;
  }
}

/* Looks for a dear node that is wanted in two loops over equal extents, or again and again in one. */
/* a choice: no is right */
static bool find_row(tn__lowering *lo, const rooms *has, const tn__ranges *r, const loop *l, row *out) {
  tn_ctx *c = lo->c;
  tn__vec(row) rows = {0};
  tn__map anew;
  find_written(lo->a, r, &anew);
  for (uint32_t i = 0; i < r->order.n; i++) {
    tn_node *n = r->order.v[i];
    bool is_dear = dear(n, lo->target);
    if ((!is_dear && !is_quotient(n, lo->target)) || is_kept(r, n)) continue;
    for (uint32_t j = 0; j < r->n; j++) {
      tn_node *x = r->range[j], *lane = lane_of(r, n);
      if (!is_dear && (lane || !again_and_again(r, l, n, j))) continue;
      if (!makes_row(r, l, n, j, &anew) || x == lane || x->hi >= MAX_ROW || !fits(has, n, x, lane)) continue;
      if (is_short_in_turns(r, l, j, lo->target)) continue;
      tn_node *mark = tn__range(c, x->src[0], AX_LOOP, ROLE_MARK, lo->next_range),
              *form = tn__substitute(c, n, &x, &mark, 1);
      uint32_t k = 0;
      while (k < rows.n &&
             (rows.v[k].form != form || rows.v[k].range[0]->src[0] != x->src[0] || nested(r, l, &rows.v[k], j)))
        k++;
      if (k == rows.n) {
        row fresh = {.form = form, .lane = lane};
        tn__vec_push(lo->a, &rows, fresh);
      }
      row *w = &rows.v[k];
      if (w->n == 8) continue;
      w->repeated |= !is_dear || (n->op != OP_LOAD && repeated(r, l, n, j));
      w->at[w->n] = n;
      w->range[w->n++] = x;
    }
  }
  for (uint32_t k = 0; k < rows.n; k++)
    if (is_wanted(r, l, &rows.v[k])) {
      *out = rows.v[k];
      for (uint32_t m = rows.n; m-- > k + 1 && out->at[0]->op == OP_LOAD;)
        if (is_wanted(r, l, &rows.v[m]) && is_made_where(r, l, &rows.v[m], &rows.v[k])) {
          *out = rows.v[m];
          go_up(lo, r, l, &anew, has, out);
        }
      return true;
    }
  return false;
}

/* ---- rows ahead ---- */

/* The loop in which a group goes through rows, if n is of such a row; NULL */
static tn_node *row_loop_of(const tn__ranges *r, const tn_node *n) {
  for (uint32_t i = 0; i < r->n; i++)
    if ((tn__free_of(r, n) >> i & 1) && tn__role_of(r->range[i]) == ROLE_ROW_LOOP) return r->range[i];
  return NULL;
}

/* two rows of scratch memory that belong to the threads by elements: one is read, the other is on its way */
typedef struct ahead {
  tn__lowering *l;
  tn_ctx *c;
  tn_node *local, *turn, *x, *value;
  int64_t length;
} ahead;

/* The row of turn `t`, over a range of its own, on its way */
static tn_node *send(const ahead *h, tn_node *buf, tn_node *t, bool in_turn) {
  tn_ctx *c = h->c;
  tn_node *own = tn__fresh_range(h->l, h->x->src[0], AX_REDUCE, ROLE_AHEAD);
  tn_node *old[2] = {h->x, h->turn}, *new_[2] = {own, t};
  tn_node *load = tn__substitute(c, h->value, old, new_, 2), *side = tn__op2(c, OP_MOD, t, tn__int(c, 2));
  tn_node *gated = tn__node_make(
      c, &(tn__make){.op = OP_LOAD,
                     .src = (tn_node *[]){load->src[0], load->src[1], tn__op2(c, OP_LT, t, h->turn->src[0])},
                     .nsrc = 3});
  tn_node *at = tn__add(c, tn__mul(c, side, tn__int(c, h->length)), own);
  return tn__node_make(c, &(tn__make){.op = OP_STORE,
                                      .src = (tn_node *[]){buf, at, gated, in_turn ? h->turn : own, own},
                                      .nsrc = in_turn ? 5 : 4});
}

/* value, which is loaded over x in each turn, from where it was sent to a turn before.  *next: a store to stand in each
 * turn. */
static tn_node *load_ahead(tn__lowering *l, tn_node *value, tn_node *x, tn_node *turn, tn_node **next) {
  tn_ctx *c = l->c;
  ahead h = {.l = l, .c = c, .turn = turn, .x = x, .value = value, .length = x->hi + 1};
  tn_node *size = tn__int(c, 2 * h.length);
  h.local = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                         .dtype = value->dtype,
                                         .src = &size,
                                         .nsrc = 1,
                                         .ints = (int64_t[]){l->next_local++, TN__OWN_SHARED},
                                         .nint = 2,
                                         .device = -1});
  tn_node *first = send(&h, h.local, tn__int(c, 0), false);
  tn_node *ready = tn__behind(c, h.local, first);
  *next = send(&h, ready, tn__add(c, h.turn, tn__int(c, 1)), true);
  tn_node *at = tn__add(c, tn__mul(c, tn__op2(c, OP_MOD, h.turn, tn__int(c, 2)), tn__int(c, h.length)), x);
  return tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){ready, at}, .nsrc = 2});
}

static tn_node *with_store(tn_ctx *c, tn_node *body, tn_node *store) {
  tn_node *src[TN__MAX_RANGES] = {store};
  if (body->nsrc + 1 > TN__MAX_RANGES) tn__fail(c, TN_ENOTSUP, "a kernel of more than %d stores", TN__MAX_RANGES - 1);
  for (uint32_t i = 0; i < body->nsrc; i++) src[1 + i] = body->src[i];
  return tn__sink(c, src, body->nsrc + 1, "part");
}

/* ---- rows kept ---- */

/* The value over a loop of its own instead of that over x.  Loops inside of it that others close, too, stay where those
 * are: it gets its own. */
static tn_node *apart(tn__lowering *l, const tn__ranges *r, tn_node *value, tn_node **x) {
  tn_ctx *c = l->c;
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__map within;
  uint64_t inside = 0, outside = 0;
  tn__map_init(&within, &c->scratch);
  tn__topo(&c->scratch, &value, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) tn__map_putp(&within, all.v[i], all.v[i]);
  for (uint32_t i = 0; i < r->order.n; i++)
    *(tn__map_getp(&within, r->order.v[i]) ? &inside : &outside) |= tn__own_of(r, r->order.v[i]);
  tn__vec_push(&c->scratch, &old, *x);
  tn__vec_push(&c->scratch, &new_, *x = tn__fresh_range(l, (*x)->src[0], AX_REDUCE, ROLE_KEPT));
  for (uint32_t i = 0; i < r->n; i++) {
    if (!((inside & outside) >> i & 1)) continue;
    tn__vec_push(&c->scratch, &old, r->range[i]);
    tn__vec_push(&c->scratch, &new_,
                 tn__fresh_range(l, r->range[i]->src[0], AX_REDUCE, tn__role_of(r->range[i])));
  }
  return tn__substitute(c, value, old.v, new_.v, old.n);
}

/* The row is stored in the loop that comes first, where the value stays in a register too, and loaded in the others.
 * Where that loop would repeat it, the row gets a loop of its own. */
static tn_node *keep_row(tn__lowering *lo, const tn__ranges *r, const loop *l, tn_node *body, const row *w,
                         tn_node *turn) {
  tn_ctx *c = lo->c;
  int first = earliest(r, l, w); /* there is one */
  tn_node *x = w->range[first], *value = w->at[first], *lane = w->lane, *early = keeping_loop(r, l, w);
  if (early != x) {
    value = tn__substitute(c, value, &x, &early, 1);
    x = early;
  }
  if (tn__is_inner(x) && (l[tn__range_at(r, x)].free & ~tn__free_of(r, value)))
    value = apart(lo, r, value, &x);
  tn_node *local = tn__scratch(lo, value->dtype, (x->hi + 1) * lanes_of(lane));
  tn_node *next = NULL, *kept = turn ? load_ahead(lo, value, x, turn, &next) : value;
  tn_node *filled = tn__filled(c, local, place_in(c, x, lane), kept, &x, 1);
  tn_node *old[8], *new_[8];
  uint32_t n = 0;
  for (uint32_t i = 0; i < w->n; i++) {
    if (w->range[i] == x) continue;
    old[n] = w->at[i];
    tn_node *src[2] = {filled, place_in(c, w->range[i], lane)};
    new_[n++] = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = 2});
  }
  if (kept != value) { /* where the row is loaded, it is used at once, too */
    old[n] = value;
    new_[n++] = kept;
  }
  body = tn__substitute(c, body, old, new_, n);
  return next ? with_store(c, body, next) : body;
}

/* Bytes of a row that is sent for: this one's, and the next one's */
static size_t sent_bytes(const row *w) { return 2 * row_bytes(w->at[0], w->range[0], NULL); }

/* The loop in whose turns the row is sent for, one ahead, on a device that copies while the threads compute; NULL: it
 * is not.  *bytes: of all such; left: of the group's memory, beside what it takes to keep the row. */
/* a choice: no is right */
static tn_node *sent_in(const tn__target *target, const tn__ranges *r, const row *w, size_t left, size_t *bytes) {
  const tn_node *n = w->at[0];
  tn_node *turn = target->copies && n->op == OP_LOAD && n->nsrc == 2 && !tn__level_of(r, n) ? row_loop_of(r, n) : NULL;
  if (!turn) return NULL;
  size_t more = sent_bytes(w),
         room = target->shared / 8 * 7 / (size_t)tn__groups_of_unit(target, tn__extent(w->range[0]));
  if (*bytes + more > room || more > left) return NULL;
  *bytes += more;
  return turn;
}

/* What each row may take of a thread's cache; of a group's memory, what all may, beside the scratch that there is
 * already. */
static rooms room_for_rows(tn__lowering *lo, tn_node *body) {
  const tn__target *target = lo->target;
  tn__nodes all = {0};
  size_t taken = 0, narrowest = sizeof(double);
  if (!target->group) return (rooms){target->kept, SIZE_MAX, 1};
  tn__topo(lo->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *n = all.v[i];
    size_t size = tn__size_of(n->dtype);
    if (n->op == OP_LOCAL) taken += in_lines((size_t)n->src[0]->hi * size);
    if (n->op == OP_LOAD && size < narrowest) narrowest = size;
  }
  double room = tn__room_left(lo) - (double)taken;
  size_t left = room > 0 ? (size_t)room : 0, kept = left < target->kept ? left : target->kept;
  if (lo->variant->alone) kept = left;
  return (rooms){kept, left, target->group * (target->access / (int64_t)narrowest)};
}

/* The loops that are as long as the row */
static uint64_t loops_of_row(const tn__ranges *r, const row *w) {
  uint64_t set = 0;
  for (uint32_t k = 0; k < r->n; k++)
    if (r->range[k]->src[0] == w->range[0]->src[0]) set |= 1ull << k;
  return set;
}

/* Groups stand across neighbouring rows only with what they keep in registers: is there room for one more row, beside
 * `rows` of at most `most` elements, and for the text of loops that are written out? */
/* a choice: either is right */
static bool keeps_in_registers(const tn__lowering *lo, const tn__ranges *r, const row *w, int rows, int64_t *most) {
  const tn__variant *v = lo->variant;
  int64_t length = w->range[0]->hi + 1;
  if (!lo->target->group || !v->across) return true;
  if (length > *most) *most = length;
  int64_t each = (*most + v->team - 1) / v->team;
  return each <= tn__row_slots(lo, v->team, rows + 1) && !tn__is_much_text(r, loops_of_row(r, w), (double)each);
}

tn_node *tn__keep_rows(tn__lowering *lo, tn_node *body) {
  const tn__target *target = lo->target;
  rooms has = room_for_rows(lo, body);
  size_t sent = 0;
  int64_t most = 0;
  for (int rows = 0; rows < MAX_ROWS; rows++) {
    tn__ranges r;
    loop l[TN__MAX_RANGES];
    row w;
    tn__ranges_find(lo->c, lo->a, body, &r);
    describe(lo->a, &r, l);
    if (!find_row(lo, &has, &r, l, &w) || !keeps_in_registers(lo, &r, &w, rows, &most)) break;
    size_t own = target->group ? shared_bytes(&has, w.at[0], w.range[0], w.lane) : 0;
    tn_node *turn = sent_in(target, &r, &w, has.shared - own, &sent);
    tn__sb_printf(&lo->note, " %s(%s)", turn ? "ahead" : "row", tn__ops[w.at[0]->op].text);
    if (target->group) {
      has.kept -= row_bytes(w.at[0], w.range[0], w.lane);
      has.shared -= own + (turn ? sent_bytes(&w) : 0);
    }
    body = keep_row(lo, &r, l, body, &w, turn);
  }
  return body;
}
