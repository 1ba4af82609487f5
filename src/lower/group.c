/* Kernels for devices with work groups: how loops are shared out over groups and their threads.
 *
 * Needs a body of serial loops.  Gives one whose AX_GLOBAL range counts groups, whose AX_UPCAST ranges are spread over
 * a group's threads, and whose AX_UNROLL ranges are neighbours in one thread (see kernel.h).  Two forms:
 *
 *   threads(n)   each thread computes outputs of its own, all serial loops included: elementwise kernels, short rows,
 *                reductions over a strided axis.  In strict mode the only form, for it keeps every order of summation.
 *                neighbours whose number does not divide the outputs' are told from those beyond the end one by one, in
 *                the last pack alone.
 *   group(n)     a group computes a row: the loops that the row's reductions and stores close are cut into lanes.  The
 *                only form of what holds something in scratch memory, which its threads share.
 *
 * A group may have fewer threads than run in step, and several may make a block: together(n), side by side, or
 * `across`, when neighbouring threads work on neighbouring rows, as memory wants it where a row's elements lie apart.
 * How many threads, groups, neighbours and turns there are is the variant's to say (variants.c), and choose.c's to
 * choose; what it leaves open is chosen here.
 *
 * Lanes have no turns that some of them lack: what is beyond the end loads the last element once more, adds nothing and
 * stores nothing, so that no thread asks before it loads.
 *
 * Steps noted: flat(a,b): loops become one, their counters its quotients and remainders; pack(a,n): n neighbours in one
 * thread; tail(a,n): so, of which the last ones may be beyond the end; along(a,n): so, and values run along them;
 * several(a,n): n elements of a row, apart, in each turn of a thread;
 * turns(a,n): n turns of loop a, which store the same, in a thread;
 * draws(a): what these draw at random stands in front of their loop (neighbours.c). */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <math.h>

enum {
  ROW_SHARE = 32, /* elements of a row for each thread, where rows are many; */
  MAX_SLOTS = 64, /* it may keep in registers, beside as many that it computes with; */
  OTHER_REGISTERS = 40,
  MUCH_KEPT = 16, /* elements, from which on it takes so many registers */
  PLACES = 8,     /* for their places */
  FEW_APART = 4,  /* elements that threads load one by one in any number of registers */
  MOST_BESIDE = 32, /* groups that a unit runs at once, of any GPU; of more compilers take no notice */
  MUCH_LESS = 16,
  ENOUGH_ROWS = 8192, /* for a device to be full of groups, */
  WORTH_GROUPS = 32,  /* elements of a row of which a group has one each, at least */
  FEWER = 4,      /* times as many neighbours are worth to count all outputs by one loop */
  ROUNDS = 16,
  STEPS_OF_BLOCK = 4, /* threads of a block, in times of those that run in step, where a unit is to have several */
  BLOCKS_OF_UNIT = 8, /* of small groups, at least, if several make one */
  MOST_WHOLE = 8,     /* turns of a loop that may all be one thread's, */
  MUCH_SAME = 16,     /* for as many loads that are the same in all of them */
  MOST_SAME = 8,      /* turns that store the same, one thread's, */
  THREADS_OF_UNIT = 512 /* where so many are left that only store */
};

typedef struct job {
  tn__lowering *l;
  tn_ctx *c;
  tn__arena *a;
  const tn__target *target;
  tn__sb *note;
  tn_node *body;
  tn__survey s;
  int64_t slots; /* elements of a row that a thread keeps in registers, at most */
} job;

static void look(job *j) { tn__survey_loops(j->c, j->a, j->body, &j->s); }

static uint64_t of_axis(const tn__ranges *r, int axis) {
  uint64_t set = 0;
  for (uint32_t i = 0; i < r->n; i++)
    if (tn__axis_of(r->range[i]) == axis) set |= 1ull << i;
  return set;
}

static uint64_t serial(const tn__ranges *r) { return of_axis(r, AX_LOOP) | of_axis(r, AX_REDUCE); }

/* a choice: either is right */
static int64_t power_above(double v) {
  int64_t p = 1;
  while ((double)p < v && p < 1 << 20) p *= 2;
  return p;
}

static int64_t limit(int64_t v, int64_t lo, int64_t hi) { return v < lo ? lo : v > hi ? hi : v; }

/* Threads of a group, of which the cost model says so many. */
static int lean_group(const job *j, int64_t threads) {
  return (int)limit(tn__variant_by(threads, j->l->variant->group), j->target->subgroup, j->target->group);
}

/* Of the outputs' loops that no reduction hangs on the outermost, up to where each of their turns stores as much as is
 * reduced in all: about as much, but many times as much where there are enough rows that are worth a group.  Where
 * there are enough each is also reduced once for all places that it is but stored in. */
/* a choice: none is right */
static uint64_t repeated(const tn__survey *s) {
  uint64_t set = s->common, chosen = 0, rows = set;
  const tn_node *store = NULL;
  double reduced = 0, longest = 0;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    if (n->op == OP_STORE && tn__buffer_of(n)->op == OP_PARAM) store = n;
    if (n->op != OP_REDUCE) continue;
    longest = fmax(longest, tn__volume(s, tn__own_of(&s->r, n)));
    set &= ~tn__free_of(&s->r, n), rows &= tn__free_of(&s->r, n);
    reduced += tn__volume(s, tn__own_of(&s->r, n) | tn__free_of(&s->r, n));
  }
  for (uint32_t k = 0; k < s->r.n; k++)
    if (!tn__is_even(s, k)) set &= ~(1ull << k);
  bool enough = tn__volume(s, rows) >= ENOUGH_ROWS;
  double least = enough && longest >= WORTH_GROUPS ? reduced * FEWER : reduced / FEWER; /* stored, in each turn */
  if (enough) set &= ~tn__spread_loops(s);
  while (store && set) {
    int64_t most = -1, by;
    uint64_t next = 0;
    for (uint32_t k = 0; k < s->r.n; k++) {
      if (!(set >> k & 1)) continue;
      by = tn__stride(&s->r, store->src[1], k);
      if (by > most) most = by, next = 1ull << k;
    }
    set &= ~next;
    if (!next || tn__volume(s, s->outputs & ~(chosen | next)) < least) break;
    chosen |= next;
  }
  return chosen;
}

/* The outputs' loops under which every outermost reduction stands: what one group, or one thread, may take for its own.
 * They stay so once lanes have been cut from them. */
uint64_t tn__rows_of(const tn__survey *s) {
  uint64_t set = s->common, outer = s->outputs | of_axis(&s->r, AX_UPCAST) | of_axis(&s->r, AX_UNROLL),
           blocks = repeated(s); /* what they have in common each computes for itself */
  for (uint32_t k = 0; k < s->r.n; k++)
    if (tn__role_of(s->r.range[k]) == ROLE_BLOCK) blocks |= 1ull << k;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    const tn_node *n = s->r.order.v[i];
    uint64_t free = tn__free_of(&s->r, n);
    if (n->op == OP_REDUCE && !(free & ~outer)) set &= free | blocks;
    if (n->op == OP_LOCAL && n->nsrc > 1) set &= free; /* what is kept for a turn of its range */
  }
  return set;
}

/* ---- flat ---- */

/* Ranges x, outermost first, as one; gives it. */
static tn_node *flatten(job *j, tn_node *const *x, uint32_t n, int axis) {
  tn_node *flat;
  if (n == 1) {
    j->body = tn__retype(j->c, j->body, x[0], axis);
    return tn__range_like(j->c, x[0], x[0]->src[0], axis);
  }
  for (uint32_t i = 0; i < n; i++) tn__sb_printf(j->note, "%s%lld", i ? "," : " flat(", tn__id_of(x[i]));
  tn__sb_puts(j->note, ")");
  j->body = tn__as_one(j->l, j->body, x, n, axis, &flat);
  return flat;
}

/* The access by which loops are ordered: the first store, or a load of many times as much that moves with all of them.
 */
/* a choice: any is right */
static const tn_node *leading(const job *j, uint64_t set) {
  const tn__ranges *r = &j->s.r;
  const tn_node *store = NULL, *load = NULL;
  double most = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    if (!tn__is_access(n)) continue;
    uint64_t free = tn__free_of(r, n->src[1]);
    if (n->op != OP_LOAD && !store && (tn__own_of(r, n) & set) == set) store = n;
    bool with_all = n->op == OP_LOAD && n->src[0]->op == OP_PARAM && (free & set) == set;
    if (with_all && tn__volume(&j->s, free) > most) load = n, most = tn__volume(&j->s, free);
  }
  return store && most >= MUCH_LESS * tn__volume(&j->s, tn__free_of(r, store->src[1])) ? load : store;
}

/* The ranges of a set from the outermost in memory: how far a step of each moves that. */
static uint32_t in_order(const job *j, uint64_t set, tn_node **out) {
  const tn__ranges *r = &j->s.r;
  const tn_node *first = leading(j, set);
  int64_t key[TN__MAX_RANGES];
  uint32_t n = 0;
  for (uint32_t k = 0; k < r->n; k++) {
    if (!(set >> k & 1)) continue;
    int64_t stride = first ? tn__stride(r, first->src[1], k) : 0;
    if (stride < 0) stride = -stride;
    uint32_t at = n++;
    for (; at && (key[at - 1] < stride || (key[at - 1] == stride && tn__id_of(out[at - 1]) > tn__id_of(r->range[k])));
         at--) {
      key[at] = key[at - 1];
      out[at] = out[at - 1];
    }
    key[at] = stride;
    out[at] = r->range[k];
  }
  return n;
}

/* ---- loops with turns to spare ---- */

/* The body with `local` replaced, and the accesses to it indexed by `index` (access -> its new index). */
static void renumber(job *j, const tn_node *local, tn_node *fresh, const tn__map *index) {
  tn__map to;
  tn__map_init(&to, j->a);
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    tn_node *x = j->s.r.order.v[i], *at = tn__map_getp(index, x);
    tn_node **src = tn__arena_alloc(j->a, (x->nsrc + 1) * sizeof *src); /* a sink's are any number */
    bool same = !at && x != local;
    for (uint32_t s = 0; s < x->nsrc; s++) same &= (src[s] = tn__map_getp(&to, x->src[s])) == x->src[s];
    if (at) src[1] = at;
    if (!same && x != local)
      x = tn__node_make(j->c, &(tn__make){.op = x->op,
                                          .dtype = x->dtype,
                                          .src = src,
                                          .nsrc = x->nsrc,
                                          .ints = x->ints,
                                          .nint = x->nint,
                                          .name = x->name,
                                          .device = -1});
    tn__map_putp(&to, j->s.r.order.v[i], x == local ? fresh : x);
  }
  j->body = tn__map_getp(&to, j->body);
  look(j);
}

/* Is the index x, or x times so many as it has neighbours, and which of them? */
/* a choice: no is right */
static bool counts_elements(const job *j, tn_node *index, tn_node *x, int64_t *each) {
  int64_t k = tn__stride(&j->s.r, index, (uint32_t)tn__range_at(&j->s.r, x));
  *each = 1;
  if (index == x) return true;
  if (k == TN__IRREGULAR || k < 2) return false;
  tn_node *by = tn__simplify_index(j->c, tn__sub(j->c, index, tn__mul(j->c, x, tn__int(j->c, k))));
  *each = k;
  return by->op == OP_RANGE && tn__axis_of(by) == AX_UNROLL && tn__is_int_const(by->src[0], k);
}

/* Accesses to scratch over x, at `place` instead, for which it gets room; x itself stays where it counts anything
 * else. */
static void widen_scratch(job *j, tn_node *x, tn_node *place, tn_node *room) {
  tn_ctx *c = j->c;
  for (;;) {
    tn_node *local = NULL;
    int64_t each, most = 1;
    tn__map index;
    tn__map_init(&index, j->a);
    for (uint32_t i = 0; i < j->s.r.order.n; i++) {
      tn_node *n = j->s.r.order.v[i], *buf = tn__is_access(n) ? (tn_node *)(uintptr_t)tn__buffer_of(n) : NULL;
      if (!buf || buf->op != OP_LOCAL || !(tn__free_of(&j->s.r, n->src[1]) >> tn__range_at(&j->s.r, x) & 1)) continue;
      if (local && buf != local) continue;
      local = buf;
      counts_elements(j, n->src[1], x, &each);
      if (each > most) most = each;
      tn__map_putp(&index, n, tn__substitute(c, n->src[1], &x, &place, 1));
    }
    if (!local) return;
    tn_node *src[2] = {tn__op2(c, OP_MAX, local->src[0], tn__mul(c, room, tn__int(c, most))),
                       local->nsrc > 1 ? local->src[1] : NULL};
    tn_node *fresh = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                                  .dtype = local->dtype,
                                                  .src = src,
                                                  .nsrc = local->nsrc,
                                                  .ints = local->ints,
                                                  .nint = local->nint,
                                                  .device = -1});
    renumber(j, local, fresh, &index);
  }
}

/* May there be more of all scratch that x counts? */
/* a choice: no is right */
static bool has_room(const job *j, tn_node *x) {
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    const tn_node *n = j->s.r.order.v[i];
    if (!tn__is_access(n) || tn__buffer_of(n)->op != OP_LOCAL) continue;
    int64_t each;
    bool by_x = tn__free_of(&j->s.r, n->src[1]) >> tn__range_at(&j->s.r, x) & 1;
    if (n->op == OP_STOREADD || (by_x && !counts_elements(j, n->src[1], x, &each))) return false;
  }
  return true;
}

/* Loops over scratch of which one has turns to spare, and the other, which fills it, has none: nothing is loaded that
 * nobody stored. */
static void load_what_is_stored(job *j) {
  tn__map stored, index;
  bool any = false;
  tn__map_init(&stored, j->a);
  tn__map_init(&index, j->a);
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    const tn_node *n = j->s.r.order.v[i], *buf = tn__is_access(n) ? tn__buffer_of(n) : NULL;
    uint64_t most = 0;
    if (!buf || buf->op != OP_LOCAL || n->op == OP_LOAD || n->src[1]->hi < 0) continue;
    tn__map_get(&stored, (uintptr_t)buf, &most);
    tn__map_put(&stored, (uintptr_t)buf, (uint64_t)n->src[1]->hi > most ? (uint64_t)n->src[1]->hi : most);
  }
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    tn_node *n = j->s.r.order.v[i];
    uint64_t most;
    if (n->op != OP_LOAD || !tn__map_get(&stored, (uintptr_t)tn__buffer_of(n), &most) || n->src[1]->hi <= (int64_t)most)
      continue;
    tn__map_putp(&index, n, tn__op2(j->c, OP_MIN, n->src[1], tn__int(j->c, (int64_t)most)));
    any = true;
  }
  if (any) renumber(j, NULL, NULL, &index);
}

/* Range x as blocks of `by` lanes, times `each` of them one after the other in a thread (1: no loop for these), whose
 * turns are all there: those beyond the end do what the last one does, and it does not count.  So nothing is asked
 * before anything is loaded.  *outer: the range that counts blocks. */
static void cut_whole(job *j, tn_node *x, int64_t by, int64_t each, int outer_axis, tn_node **outer) {
  tn_ctx *c = j->c;
  tn_node *size = x->src[0], *block = tn__int(c, by * each), *last = tn__sub(c, size, tn__int(c, 1));
  tn_node *blocks = tn__simplify_index(c, tn__op2(c, OP_IDIV, tn__add(c, size, tn__int(c, by * each - 1)), block));
  tn_node *lane = tn__fresh_range(j->l, tn__int(c, by), AX_UPCAST, tn__role_of(x));
  tn_node *come[3] = { *outer = tn__range_like(c, x, blocks, outer_axis), lane}, *place = lane;
  uint32_t n = 2;
  if (each > 1) {
    come[n++] = tn__fresh_range(j->l, tn__int(c, each), AX_UNROLL, tn__role_of(x));
    place = tn__add(c, tn__mul(c, come[2], tn__int(c, by)), place);
  }
  place = tn__add(c, tn__mul(c, *outer, block), place);
  bool fits = tn__divisible(size, by * each);
  tn_node *at = fits ? place : tn__op2(c, OP_MIN, place, last);
  if (!fits) widen_scratch(j, x, place, tn__mul(c, blocks, block));
  j->body = tn__exchange_ranges(j->l, j->body, &x, &at, 1, come, n);
  look(j);
  if (fits) return;
  j->body = tn__ignore_beyond(j->l, j->body, lane, tn__op2(c, OP_LT, place, size));
  look(j);
}

/* ---- pack ---- */

/* Size of the largest elements that memory is much used for: others may go piece by piece. */
/* a choice: either is right */
static size_t widest(const job *j) {
  const tn__ranges *r = &j->s.r;
  size_t size = 1;
  double most = 0;
  for (int pass = 0; pass < 2; pass++)
    for (uint32_t i = 0; i < r->order.n; i++) {
      const tn_node *n = r->order.v[i];
      if (!tn__is_access(n) || n->src[0]->op != OP_PARAM) continue;
      double v = tn__volume(&j->s, tn__free_of(r, n->src[1]));
      if (pass && v * MUCH_LESS > most && tn__size_of(n->src[0]->dtype) > size) size = tn__size_of(n->src[0]->dtype);
      if (!pass && v > most) most = v;
    }
  return size;
}

/* An index, or a gate, at neighbour *by of a block of n turns of range k */
static tn_node *at_neighbour(const job *j, tn_node *index, uint32_t k, int64_t n, tn_node **by) {
  tn_ctx *c = j->c;
  tn_node *x = j->s.r.range[k], *packs = tn__simplify_index(c, tn__op2(c, OP_IDIV, x->src[0], tn__int(c, n)));
  tn_node *first = tn__mul(c, tn__range(c, packs, AX_LOOP, ROLE_MARK, j->l->next_range), tn__int(c, n));
  *by = tn__range(c, tn__int(c, n), AX_UNROLL, ROLE_MARK, j->l->next_range + 1);
  tn_node *place = tn__add(c, first, *by);
  return tn__simplify_index(c, tn__substitute(c, index, &x, &place, 1));
}

/* Does what is loaded for this index hang on range k?  Then it lies anywhere along it. */
static bool is_looked_up(const job *j, tn_node *index, uint32_t k) {
  tn__nodes all = {0};
  tn__mark work = tn__arena_mark(j->a);
  bool found = false;
  tn__topo(j->a, &index, 1, &all);
  for (uint32_t i = 0; i < all.n && !found; i++)
    found = all.v[i]->op == OP_LOAD && (tn__free_of(&j->s.r, all.v[i]) >> k & 1);
  tn__arena_rewind(j->a, work);
  return found;
}

/* Does an access at `index` move by 1 along range k?  Or along n neighbours of it, where the range counts several
 * loops: they never lie in different turns of the outer ones if they divide the innermost. */
/* a choice: no is right */
static bool walks(const job *j, tn_node *index, uint32_t k, int64_t n) {
  tn_ctx *c = j->c;
  int64_t stride = tn__stride(&j->s.r, index, k);
  if (stride != TN__IRREGULAR || n < 2 || !tn__divisible(j->s.r.range[k]->src[0], n)) return stride == 1;
  if (is_looked_up(j, index, k)) return false;
  tn_node *by, *zero = tn__int(c, 0), *at = at_neighbour(j, index, k, n, &by);
  tn_node *base = tn__simplify_index(c, tn__substitute(c, at, &by, &zero, 1));
  return tn__simplify_index(c, tn__sub(c, at, base)) == by;
}

/* Neighbours along range k that one thread may take: accesses move by 0 or 1, some by 1; reductions below may hang on
 * them only if `cells` says that they get a cell for each. */
/* a choice: no is right */
static int64_t neighbours_of(const job *j, uint32_t k, bool cells) {
  const tn__ranges *r = &j->s.r;
  bool any = false;
  int64_t n = tn__variant_by(j->target->access, j->l->variant->pack) / (int64_t)widest(j);
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *x = r->order.v[i];
    if (x->op == OP_REDUCE && !cells && (tn__free_of(r, x) >> k & 1)) return 1;
    if (tn__is_access(x)) any |= walks(j, x->src[1], k, n);
  }
  return any && n > 1 && !tn__bounds_loops(r, k) ? n : 1;
}

/* Does anything in memory that is accessed along range k move by 1 along n neighbours of it? */
/* a choice: either is right */
static bool any_walks(const job *j, uint32_t k, int64_t n) {
  bool any = false;
  for (uint32_t i = 0; i < j->s.r.order.n && !any; i++) {
    const tn_node *x = j->s.r.order.v[i];
    any = tn__is_access(x) && x->src[0]->op == OP_PARAM && walks(j, x->src[1], k, n);
  }
  return any;
}

/* ... as many as divide the range.  Where it counts several loops, fewer if they divide the innermost: others would lie
 * in two turns of the outer ones, and go element by element. */
/* a choice: no is right */
static int64_t own_pack(const job *j, uint32_t k, bool cells) {
  int64_t n = neighbours_of(j, k, cells), fewer;
  while (n > 1 && !tn__divisible(j->s.r.range[k]->src[0], n)) n /= 2;
  for (fewer = n; fewer > 1 && !any_walks(j, k, fewer);) fewer /= 2;
  return fewer > 1 ? fewer : n;
}

/* Bytes of memory that an access is to, once: no more than there are */
/* a choice: any is right */
static double memory_of(const job *j, const tn_node *access) {
  const tn_node *buffer = access->src[0];
  double n = tn__volume(&j->s, tn__free_of(&j->s.r, access->src[1]));
  int64_t all = buffer->op == OP_PARAM && buffer->nsrc ? buffer->src[0]->hi : 0;
  return (all > 0 && (double)all < n ? (double)all : n) * (double)tn__size_of(buffer->dtype);
}

/* Loops that go through the same scratch rows as range k does, or through others that these go through, too */
static uint64_t beside_in_rows(const job *j, uint32_t k) {
  const tn__ranges *r = &j->s.r;
  uint64_t set = 1ull << k;
  for (bool more = true; more;) {
    more = false;
    for (uint32_t i = 0; i < r->order.n; i++) {
      const tn_node *x = r->order.v[i], *local = tn__is_access(x) ? tn__buffer_of(x) : NULL;
      if (!local || local->op != OP_LOCAL || !(tn__free_of(r, x->src[1]) & set)) continue;
      for (uint32_t o = 0; o < r->order.n; o++) {
        const tn_node *y = r->order.v[o];
        if (!tn__is_access(y) || tn__buffer_of(y) != local || !(tn__free_of(r, y->src[1]) & ~set)) continue;
        set |= tn__free_of(r, y->src[1]);
        more = true;
      }
    }
  }
  return set;
}

/* Has a loop through rows that `beside` goes through been cut into lanes that lie side by side? */
/* a choice: either is right */
static bool cut_side_by_side(const job *j, uint64_t beside) {
  const tn__ranges *r = &j->s.r;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *x = r->order.v[i];
    bool local = tn__is_access(x) && tn__buffer_of(x)->op == OP_LOCAL && (tn__free_of(r, x->src[1]) & beside);
    for (uint32_t k = 0; k < r->n && local; k++)
      if (tn__axis_of(r->range[k]) == AX_UPCAST && tn__stride(r, x->src[1], k) == 1) return true;
  }
  return false;
}

/* Does a row, of which scratch memory has something, lie across memory for the most part?  A thread's neighbours would
 * then be places apart, between which other threads' lie: of each line every access would touch a part.  What loops
 * count that are lines, one behind the other, lies along memory but for their ends.  Of little, which memory gives in
 * less than a launch, instructions count: neighbours have their places in common. */
/* a choice: either is right */
static bool lies_across(const job *j, uint32_t k) {
  const tn__ranges *r = &j->s.r;
  uint64_t beside = beside_in_rows(j, k);
  double along = 0, all = 0;
  if (beside == 1ull << k) return false;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *x = r->order.v[i];
    if (!tn__is_access(x) || x->src[0]->op != OP_PARAM || !(tn__free_of(r, x->src[1]) & beside)) continue;
    bool walks = false;
    for (uint32_t at = 0; at < r->n; at++) {
      int64_t stride = beside >> at & tn__free_of(r, x->src[1]) >> at & 1 ? tn__stride(r, x->src[1], at) : 0;
      walks |= stride == 1 || stride == TN__IRREGULAR;
    }
    all += memory_of(j, x);
    along += walks ? memory_of(j, x) : 0;
  }
  double little = tn__target_launch_bytes(j->target);
  return little > 0 && all > little && (2 * along < all || cut_side_by_side(j, beside));
}

/* ... and no more than another loop that goes through the same scratch row takes, or has taken: each thread finds what
 * it has stored itself. */
/* a choice: no is right */
static int64_t pack_of(const job *j, uint32_t k, bool cells) {
  const tn__ranges *r = &j->s.r;
  int64_t n = own_pack(j, k, cells);
  if (n > 1 && lies_across(j, k)) return 1;
  for (uint32_t i = 0; i < r->order.n && n > 1; i++) {
    const tn_node *x = r->order.v[i], *local = tn__is_access(x) ? tn__buffer_of(x) : NULL;
    if (!local || local->op != OP_LOCAL || !(tn__free_of(r, x->src[1]) >> k & 1)) continue;
    for (uint32_t o = 0; o < r->order.n; o++) {
      const tn_node *y = r->order.v[o];
      if (!tn__is_access(y) || tn__buffer_of(y) != local || tn__free_of(r, y->src[1]) >> k & 1) continue;
      for (uint32_t at = 0; at < r->n; at++) {
        const tn_node *range = r->range[at];
        if (tn__stride(r, y->src[1], at) != 1) continue;
        bool packed = tn__axis_of(range) == AX_UNROLL && n % range->src[0]->hi == 0;
        int64_t other = packed ? range->src[0]->hi : range->src[0] == r->range[k]->src[0] ? own_pack(j, at, cells) : n;
        if (other > 1 && other < n) n = other;
      }
    }
  }
  return n;
}

/* Range x as packs of n; gives the range that counts these. */
static tn_node *pack(job *j, tn_node *x, int64_t n) {
  if (n <= 1) return x;
  tn__sb_printf(j->note, " pack(%lld,%lld)", tn__id_of(x), (long long)n);
  tn_node *cut[2];
  j->body = tn__cut(j->l, j->body, x, n, tn__axis_of(x), AX_UNROLL, cut);
  j->body = tn__simplify_accesses(j->c, j->a, j->body);
  look(j);
  return cut[0];
}

/* ---- each thread its outputs ---- */

static uint64_t bounding(const tn__survey *s, uint64_t set) {
  uint64_t out = 0;
  for (uint32_t k = 0; k < s->r.n; k++)
    if ((set >> k & 1) && tn__bounds_loops(&s->r, k)) out |= 1ull << k;
  return out;
}

/* The groups' loop: all of `set`, and these inside of it. */
static void make_global_around(job *j, uint64_t set, tn_node *const *inner, uint32_t ninner) {
  tn_node *x[TN__MAX_RANGES];
  for (uint32_t i = 0; i < ninner; i++) set &= ~(1ull << tn__range_at(&j->s.r, inner[i]));
  uint32_t n = in_order(j, set, x);
  for (uint32_t i = 0; i < ninner; i++) x[n++] = inner[i];
  if (n) flatten(j, x, n, AX_GLOBAL);
  look(j);
}

static void make_global(job *j, uint64_t set) { make_global_around(j, set, NULL, 0); }

/* Where packs of f32 would leave threads without work, each takes one output. */
/* a choice: either is right */
static bool is_much(const job *j, uint64_t outputs) {
  const tn__target *t = j->target;
  return tn__volume(&j->s, outputs) >= (double)t->units * t->unit_threads * sizeof(float) / t->access;
}

/* ---- packs of all outputs together ---- */

/* Does a gate, NULL: none, hold for all n neighbours along range k, or for none of them? */
/* a choice: no is right */
static bool holds_alike(const job *j, tn_node *gate, uint32_t k, int64_t n) {
  tn_node *by, *one = gate ? at_neighbour(j, gate, k, n, &by) : NULL;
  tn__nodes below = {0};
  if (one) tn__topo(j->a, &one, 1, &below);
  for (uint32_t i = 0; i < below.n; i++)
    if (below.v[i] == by) return false;
  return true;
}

/* Is most of what memory is used for accessed along range k, in runs that begin at multiples of n?  Other runs count
 * half: a thread's neighbours find the line again. */
/* a choice: no is right */
static bool goes_in_packs(const job *j, uint32_t k, int64_t n) {
  const tn__ranges *r = &j->s.r;
  double packs = 0, all = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *x = r->order.v[i];
    if (!tn__is_access(x) || !(tn__free_of(r, x->src[1]) >> k & 1)) continue;
    double bytes = memory_of(j, x);
    int64_t stride = tn__stride(r, x->src[1], k);
    bool whole = stride == 1 && holds_alike(j, tn__gate_of(x), k, n) &&
                 tn__divisible(tn__simplify_index(j->c, tn__sub(j->c, x->src[1], r->range[k])), n);
    all += bytes;
    packs += whole ? bytes : stride == 1 || stride == -1 ? bytes / 2 : 0;
  }
  return 2 * packs > all;
}

/* Do stores that go along range k begin at multiples of n?  Else each neighbour's goes out by itself, to a part of each
 * sector, where threads side by side would store whole ones. */
/* a choice: either is right */
static bool stores_whole(const job *j, uint32_t k, int64_t n) {
  const tn__ranges *r = &j->s.r;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *x = r->order.v[i];
    if (!tn__is_access(x) || x->op == OP_LOAD || tn__stride(r, x->src[1], k) != 1) continue;
    if (!tn__divisible(tn__simplify_index(j->c, tn__sub(j->c, x->src[1], r->range[k])), n)) return false;
  }
  return true;
}

/* Neighbours of all outputs as one loop, where none of their own loops has any */
/* a choice: no is right */
static int64_t flat_pack(const job *j, tn_node *flat) {
  const tn__target *t = j->target;
  uint32_t k = (uint32_t)tn__range_at(&j->s.r, flat);
  if (j->l->variant->chunk > 1 || of_axis(&j->s.r, AX_UNROLL) || !is_much(j, 1ull << k)) return 1;
  for (uint32_t i = 0; i < j->s.r.order.n; i++)
    if (j->s.r.order.v[i]->op == OP_STOREADD || j->s.r.order.v[i]->op == OP_RUNNING) return 1;
  int64_t n = neighbours_of(j, k, true);
  return n * (int64_t)widest(j) <= t->access * 2 && goes_in_packs(j, k, n) && stores_whole(j, k, n) ? n : 1;
}

/* Are there random numbers, of which four come by one call? */
/* a choice: either is right */
static bool draws(const job *j) {
  for (uint32_t i = 0; i < j->s.r.order.n; i++)
    if (j->s.r.order.v[i]->op == OP_PHILOX) return true;
  return false;
}

/* Would neighbours of all outputs as one loop be several times as many? */
/* a choice: either is right */
static bool prefers_flat(const job *j, uint64_t outputs, int64_t neighbours) {
  job trial = *j;
  tn__sb unsaid;
  tn_node *x[TN__MAX_RANGES];
  int64_t ids = j->l->next_range;
  tn__sb_init(&unsaid, j->a);
  trial.note = &unsaid;
  tn_node *flat = flatten(&trial, x, in_order(j, outputs, x), AX_LOOP);
  look(&trial);
  j->l->next_range = ids;
  return flat_pack(&trial, flat) >= (draws(j) ? 2 : FEWER) * neighbours;
}

/* Are all turns of a short loop one thread's?  So they are where most of what is loaded is the same for all of them, as
 * what a search looks at for a few neighbours: threads that had some of the turns would each do all of it. */
/* a choice: either is right */
static bool is_whole(const job *j, uint32_t k) {
  const tn__ranges *r = &j->s.r;
  int64_t turns;
  double same = 0, own = 0;
  if (!tn__const_int(r->range[k]->src[0], &turns) || turns > MOST_WHOLE || tn__bounds_loops(r, k)) return false;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *x = r->order.v[i];
    if (x->op == OP_LOAD) *(tn__free_of(r, x) >> k & 1 ? &own : &same) += 1;
  }
  return same >= MUCH_SAME && same > own * (double)turns && stores_whole(j, k, turns);
}

static int64_t output_pack(const job *j, uint32_t k) {
  if (!j->l->variant->pack && is_whole(j, k)) return (int64_t)tn__extent(j->s.r.range[k]);
  int64_t n = pack_of(j, k, true);
  while (n > 1 && !stores_whole(j, k, n)) n /= 2;
  return n;
}

static void pack_outputs(job *j, uint64_t outputs) {
  int best = -1;
  if (!outputs || of_axis(&j->s.r, AX_UNROLL) || !is_much(j, outputs)) return;
  for (uint32_t k = 0; k < j->s.r.n; k++)
    if ((outputs >> k & 1) && output_pack(j, k) > 1 &&
        (best < 0 || tn__walk_score(&j->s, k) > tn__walk_score(&j->s, (uint32_t)best)))
      best = (int)k;
  int64_t n = best < 0 ? 1 : output_pack(j, (uint32_t)best);
  if (n > 1 && !prefers_flat(j, outputs, n)) pack(j, j->s.r.range[best], n);
}

/* Range x as blocks of `group` lanes with n neighbours each: what is beyond the end is neither loaded nor stored. */
static void cut_tail(job *j, tn_node *x, int64_t n, int group, tn_node **outer) {
  tn_ctx *c = j->c;
  tn_node *size = x->src[0], *block = tn__int(c, n * group);
  tn_node *blocks = tn__op2(c, OP_IDIV, tn__add(c, size, tn__int(c, n * group - 1)), block);
  tn_node *come[3] = {*outer = tn__range_like(c, x, tn__simplify_index(c, blocks), AX_LOOP),
                      tn__fresh_range(j->l, tn__int(c, group), AX_UPCAST, tn__role_of(x)),
                      tn__fresh_range(j->l, tn__int(c, n), AX_UNROLL, tn__role_of(x))};
  tn_node *first = tn__add(c, tn__mul(c, *outer, block), tn__mul(c, come[1], tn__int(c, n)));
  tn_node *at = tn__add(c, first, come[2]);
  tn__sb_printf(j->note, " tail(%lld,%lld)", tn__id_of(x), (long long)n);
  j->body = tn__exchange_ranges(j->l, j->body, &x, &at, 1, come, 3);
  /* what is the same for all of a lane's neighbours is there where the first of them is */
  j->body = tn__simplify_accesses(c, j->a, j->body);
  j->body = tn__gate_accesses(j->l, j->body, tn__op2(c, OP_LT, first, size), come[1], come[2]);
  j->body = tn__gate_accesses(j->l, j->body, tn__op2(c, OP_LT, at, size), come[2], NULL);
  look(j);
}

/* Elements that a thread takes one by one, for the device to be asked for more at once: where it has no neighbours, and
 * there are enough. */
/* a choice: any is right */
static int64_t chunk_of(const job *j, double outputs) {
  int64_t n = j->l->variant->chunk > 1 ? j->l->variant->chunk : 1;
  for (uint32_t k = 0; k < j->s.r.n; k++)
    if (tn__axis_of(j->s.r.range[k]) == AX_UNROLL) return 1;
  while (n > 1 && outputs < (double)n * j->target->units * j->target->unit_threads) n /= 2;
  return n;
}

/* The one condition of a gate that hangs on range k, and holds up to some turn of it; NULL: it is not of that form. */
/* a choice: no is right */
static tn_node *end_of(const job *j, tn_node *gate, uint32_t k) {
  tn_node *todo[8] = {gate}, *end = NULL;
  for (uint32_t n = gate ? 1 : 0; n;) {
    tn_node *x = todo[--n];
    if (!(tn__free_of(&j->s.r, x) >> k & 1)) continue;
    if (x->op == OP_AND && n + 2 <= sizeof todo / sizeof *todo) {
      todo[n++] = x->src[0], todo[n++] = x->src[1];
      continue;
    }
    bool fits = x->op == OP_LT && tn__stride(&j->s.r, x->src[0], k) == 1 && !(tn__free_of(&j->s.r, x->src[1]) >> k & 1);
    if (!fits || (end && end != x)) return NULL;
    end = x;
  }
  return end;
}

/* The same access with another gate */
static tn_node *gated(job *j, tn_node *access, tn_node *const *mapped, tn_node *gate) {
  tn_node **src = tn__arena_dup(j->a, mapped, access->nsrc * sizeof *mapped);
  src[access->op == OP_LOAD ? 2 : 3] = gate;
  return tn__node_make(j->c, &(tn__make){.op = access->op, .dtype = access->dtype, .src = src, .nsrc = access->nsrc,
                                         .ints = access->ints, .nint = access->nint, .device = -1});
}

/* Blocks that are all there are fetched and stored as they lie, and only the last one's elements ask one by one: each
 * access becomes one for whole blocks, whose gate is the same for all neighbours, and one for the rest. */
static void split_at_end(job *j, uint32_t k) {
  tn_ctx *c = j->c;
  tn_node *along = j->s.r.range[k], *zero = tn__int(c, 0), *last = tn__sub(c, along->src[0], tn__int(c, 1));
  tn__map done;
  tn__map_init(&done, j->a);
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    tn_node *n = j->s.r.order.v[i], **src = tn__arena_alloc(j->a, (2 * n->nsrc + 1) * sizeof *src);
    bool access = (n->op == OP_LOAD || n->op == OP_STORE) && n->src[0]->op == OP_PARAM, same = true;
    uint32_t m = 0;
    for (uint32_t s = 0; s < n->nsrc; s++) {
      tn_node *y = tn__map_getp(&done, n->src[s]);
      if (y && y->op == OP_LIST) src[m++] = y->src[0], y = y->src[1];
      src[m++] = y ? y : n->src[s];
      same &= !y;
    }
    tn_node *end = access ? end_of(j, tn__gate_of(n), k) : NULL;
    tn_node *base = end ? tn__simplify_index(c, tn__substitute(c, n->src[1], &along, &zero, 1)) : NULL;
    if (!end || tn__stride(&j->s.r, n->src[1], k) != 1 || !tn__divisible(base, along->hi + 1)) {
      tn__make as = {.op = n->op, .dtype = n->dtype, .src = src, .nsrc = m, .ints = n->ints, .nint = n->nint,
                     .name = n->name, .device = -1};
      if (!same) tn__map_putp(&done, n, m == n->nsrc ? tn__node_with(c, n, src) : tn__node_make(c, &as));
      continue;
    }
    tn_node *gate = src[n->op == OP_LOAD ? 2 : 3], *till = tn__substitute(c, end->src[0], &along, &last, 1);
    till = tn__simplify_index(c, till);
    tn_node *whole = tn__op2(c, OP_LT, till, end->src[1]), *rest = tn__op2(c, OP_LE, end->src[1], till);
    tn_node *two[2] = {gated(j, n, src, tn__op2(c, OP_AND, rest, gate)),
                       gated(j, n, src, tn__substitute(c, gate, &end, &whole, 1))};
    tn__map_putp(&done, n, n->op == OP_LOAD ? tn__where(c, whole, two[1], two[0]) : tn__list(c, two, 2));
  }
  tn_node *body = tn__map_getp(&done, j->body);
  if (body) j->body = body;
  look(j);
}

/* Values that run along a few turns, whose elements lie side by side: these are a thread's neighbours, for whom it
 * fetches and stores at once. */
/* a choice: no is right */
static bool run_in_threads(job *j) {
  for (uint32_t k = 0; k < j->s.r.n; k++) {
    tn_node *range = j->s.r.range[k];
    int64_t turns, beside = 0;
    if (!(j->s.running >> k & 1) || !tn__const_int(range->src[0], &turns) || turns > MAX_SLOTS) continue;
    for (uint32_t i = 0; i < j->s.r.order.n; i++)
      beside += tn__is_access(j->s.r.order.v[i]) && tn__stride(&j->s.r, j->s.r.order.v[i]->src[1], k) == 1;
    if (!beside) continue;
    tn__sb_printf(j->note, " along(%lld,%lld)", tn__id_of(range), (long long)turns);
    j->body = tn__retype(j->c, j->body, range, AX_UNROLL);
    look(j);
    for (uint32_t i = 0; i < j->s.r.n; i++)
      if (tn__id_of(j->s.r.range[i]) == tn__id_of(range)) split_at_end(j, i);
    return true;
  }
  return false;
}

/* Does what is loaded say whether something is accessed?  It also says where: written alike, that is one load. */
/* a choice: either is right */
static bool looks_up(const job *j) {
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    tn_node *gate = tn__is_access(j->s.r.order.v[i]) ? tn__gate_of(j->s.r.order.v[i]) : NULL;
    tn__nodes all = {0};
    if (gate) tn__topo(j->a, &gate, 1, &all);
    for (uint32_t k = 0; k < all.n; k++)
      if (all.v[k]->op == OP_LOAD) return true;
  }
  return false;
}

/* How far a turn of range k moves the first store */
/* a choice: any is right */
static int64_t stored_apart(const job *j, uint32_t k) {
  const tn_node *first = leading(j, 1ull << k);
  int64_t by = first ? tn__stride(&j->s.r, first->src[1], k) : TN__IRREGULAR;
  return by == TN__IRREGULAR ? 0 : by < 0 ? -by : by;
}

static bool has_gated_loads(const job *j) {
  for (uint32_t i = 0; i < j->s.r.order.n; i++)
    if (j->s.r.order.v[i]->op == OP_LOAD && tn__gate_of(j->s.r.order.v[i])) return true;
  return false;
}

/* Of an outputs' loop along which what is stored is the same, turns that a thread goes through alone, as an array that
 * was spread is copied: it then works out once for all of them what it stores, and where that lies.  (Compilers do not
 * put in front of the turns what is only loaded if a gate holds, nor what is made of it: read in SASS.)  Threads that
 * run in step still store what lies side by side, and there are enough of them.  NULL: there is no such loop. */
/* a choice: none is right */
static tn_node *leave_turns(job *j, uint64_t outputs) {
  const tn__target *t = j->target;
  uint64_t same = j->s.reduces || j->s.running || has_gated_loads(j) ? 0 : tn__spread_loops(&j->s) & outputs;
  double each = fmax(1, (double)t->access / (double)widest(j)), least = (double)t->units * THREADS_OF_UNIT;
  tn_node *cut[2];
  int best = -1;
  for (uint32_t k = 0; k < j->s.r.n; k++)
    if ((same >> k & 1) && (best < 0 || stored_apart(j, k) > stored_apart(j, (uint32_t)best))) best = (int)k;
  if (best < 0 || stored_apart(j, (uint32_t)best) < (int64_t)each * t->subgroup) return NULL;
  tn_node *x = j->s.r.range[best];
  int64_t n = MOST_SAME;
  while (n > 1 && (!tn__divisible(x->src[0], n) || tn__volume(&j->s, outputs) < (double)n * each * least)) n /= 2;
  if (n < 2) return NULL;
  tn_node *inner[TN__MAX_RANGES];
  uint64_t within = 0;
  for (uint32_t k = 0; k < j->s.r.n; k++)
    if ((outputs >> k & 1) && stored_apart(j, k) < stored_apart(j, (uint32_t)best)) within |= 1ull << k;
  uint32_t ninner = in_order(j, within, inner);
  tn__sb_printf(j->note, " turns(%lld,%lld)", tn__id_of(x), (long long)n);
  j->body = tn__cut(j->l, j->body, x, n, AX_LOOP, AX_LOOP, cut);
  look(j);
  if (ninner > 1) flatten(j, inner, ninner, AX_LOOP); /* neighbours are told by one loop */
  look(j);
  return cut[1];
}

/* The outputs' loops that threads share out, but for those that one goes through alone */
static uint64_t shared_out(const job *j, const tn_node *turns) {
  uint64_t rows = tn__rows_of(&j->s);
  return turns ? rows & ~(1ull << tn__range_at(&j->s.r, turns)) : rows;
}

static int share_threads(job *j) {
  uint64_t rows = tn__rows_of(&j->s);
  tn_node *turns = leave_turns(j, rows & ~bounding(&j->s, rows));
  rows = shared_out(j, turns);
  bool lanes = rows & ~bounding(&j->s, rows);
  if (!lanes || !run_in_threads(j)) pack_outputs(j, rows & ~bounding(&j->s, rows));
  rows = shared_out(j, turns);
  tn_node *x[TN__MAX_RANGES];
  uint32_t n = in_order(j, rows & ~bounding(&j->s, rows), x);
  if (!n) {
    make_global(j, rows);
    return 1;
  }
  tn_node *flat = flatten(j, x, n, AX_LOOP);
  look(j);
  int64_t together = flat_pack(j, flat);
  bool tail = together > 1 && !tn__divisible(flat->src[0], together);
  if (!tail) flat = pack(j, flat, together);
  double outputs = tn__extent(flat) / (double)(tail ? together : 1);
  int64_t threads = power_above(outputs / j->target->units); /* a choice: either is right */
  int group = lean_group(j, limit(threads, j->target->subgroup, tn__usual_group(j->target)));
  if (tail) cut_tail(j, flat, together, group, &flat);
  else if (tn__is_const(flat->src[0]) && outputs <= group) j->body = tn__retype(j->c, j->body, flat, AX_UPCAST);
  else
    cut_whole(j, flat, group, chunk_of(j, outputs), AX_LOOP, &flat);
  if (looks_up(j)) j->body = tn__simplify_accesses(j->c, j->a, j->body);
  look(j);
  make_global(j, shared_out(j, turns) & of_axis(&j->s.r, AX_LOOP));
  tn__sb_printf(j->note, " threads(%d)", group);
  return group;
}

/* ---- the lanes of rows ---- */

/* The loops in which a group goes through rows: those that sums of columns, held beside them, run over. */
static uint64_t turns_of(const tn__ranges *r) {
  uint64_t set = 0;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    if (n->op == OP_STOREADD && tn__buffer_of(n)->op == OP_LOCAL) set |= tn__own_of(r, n) & ~tn__free_of(r, n->src[1]);
  }
  return set;
}

/* Loops that may become lanes: those x closes inside the row, where x depends on the row only, and nothing has two
 * kinds of lanes; none by which elements are but stored in several places, if there are others. */
static uint64_t row_loops(const job *j, const tn_node *x) {
  const tn__ranges *r = &j->s.r;
  uint64_t turns = turns_of(r), own = tn__own_of(r, x) & serial(r) & ~turns,
           cut = of_axis(r, AX_UPCAST) | of_axis(r, AX_UNROLL), spread = tn__spread_loops(&j->s);
  if ((own & ~spread) || (tn__own_of(r, x) & cut)) own &= ~spread;
  if (tn__free_of(r, x) & ~of_axis(r, AX_GLOBAL) & ~turns) return 0;
  for (uint32_t i = 0; i < r->order.n && own; i++) {
    const tn_node *n = r->order.v[i];
    uint32_t first;
    if (!tn__closes(n, &first)) continue;
    uint64_t around = tn__own_of(r, n) | tn__free_of(r, n);
    if (around & cut) own &= ~around;
    /* written anew in every turn: all threads' */
    if (n->op == OP_STORE && n->src[0]->op == OP_LOCAL) own &= ~tn__free_of(r, n);
  }
  return own;
}

/* Do all closers of one of these loops close them all? */
/* a choice: no is right */
static bool closed_together(const tn__ranges *r, uint64_t set) {
  for (uint32_t i = 0; i < r->order.n; i++) {
    uint64_t own = tn__own_of(r, r->order.v[i]) & set;
    if (own && own != set) return false;
  }
  return true;
}

static uint64_t best_of(const job *j, uint64_t set) {
  int best = -1;
  for (uint32_t k = 0; k < j->s.r.n; k++) {
    if (!(set >> k & 1) || tn__bounds_loops(&j->s.r, k)) continue;
    if (best < 0 || tn__walk_score(&j->s, k) > tn__walk_score(&j->s, (uint32_t)best)) best = (int)k;
  }
  return best < 0 ? 0 : 1ull << best;
}

/* The next loops to be cut into lanes, 0 when there are none. */
static uint64_t next_lanes(const job *j) {
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    const tn_node *x = j->s.r.order.v[i];
    uint32_t first;
    uint64_t set = tn__closes(x, &first) ? row_loops(j, x) : 0;
    bool apart = !closed_together(&j->s.r, set) || tn__stands_between(&j->s.r, set) || bounding(&j->s, set);
    if (set && (set & (set - 1)) && apart) set = best_of(j, set);
    else if (bounding(&j->s, set)) set = 0;
    if (set) return set;
  }
  return 0;
}

/* Elements of a row, apart, that each of its threads takes at once, where neighbours would be so few: what several
 * turns ask of memory is then on its way together.  What is kept for the row is the threads' by turns, and all on its
 * way anyway; but what is loaded beside it, to be stored, would wait for the store before, since no compiler sees that
 * they are of different places: so many turns at once as divide the row's, which keeps the same elements each thread's.
 * Stores over several loops that are one stay as they are: that their places differ is to be shown. */
/* a choice: any is right */
static int64_t taken_at_once(const job *j, const tn_node *y, int64_t neighbours, int group) {
  const tn__ranges *r = &j->s.r;
  uint32_t k = (uint32_t)tn__range_at(r, y);
  bool asks = false, stores = false, kept = false, few = neighbours * (int64_t)widest(j) < j->target->access;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    if (!tn__is_access(n) || !(tn__free_of(r, n->src[1]) >> k & 1)) continue;
    bool odd = n->op != OP_LOAD && tn__stride(r, n->src[1], k) == TN__IRREGULAR;
    bool local = tn__buffer_of(n)->op == OP_LOCAL;
    if (odd || (local && n->op != OP_LOAD)) return 1;
    kept |= local;
    asks |= n->op == OP_LOAD && !local;
    stores |= n->op == OP_STORE;
  }
  if (!asks || !few || tn__extent(y) <= (double)(neighbours * group) || (kept && !stores)) return 1;
  int64_t most = tn__turns_at_once(y->src[0], group, widest(j)), turns;
  if (!kept) return most;
  if (neighbours > 1 || !tn__const_int(y->src[0], &turns)) return 1;
  for (turns = (turns + group - 1) / group; most > 1 && turns % most; most--) {}
  return most;
}

/* Is y a loop over packs of a block of a long reduction, of which the last block may have fewer?  Were its end asked
 * in each turn, each load would wait for the one before: a branch stands between them. */
/* a choice: either is right */
static bool is_block_of_packs(const job *j, const tn_node *y, int64_t neighbours, int group) {
  const tn__ranges *r = &j->s.r;
  uint64_t at = 1ull << tn__range_at(r, y);
  if (neighbours < 2 || !tn__free_of(r, y->src[0]) || y->src[0]->lo < group) return false;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    bool local = tn__is_access(n) && tn__buffer_of(n)->op == OP_LOCAL;
    if ((local && (tn__free_of(r, n->src[1]) & at)) || (n->op != OP_REDUCE && (tn__own_of(r, n) & at))) return false;
  }
  return true;
}

static void cut_lanes(job *j, uint64_t set, int group) {
  tn_node *x[TN__MAX_RANGES];
  uint32_t n = 0;
  for (uint32_t k = 0; k < j->s.r.n; k++) /* as found: reductions run in that order */
    if (set >> k & 1) x[n++] = j->s.r.range[k];
  int axis = tn__axis_of(x[0]);
  tn_node *y = flatten(j, x, n, axis);
  look(j);
  int64_t neighbours = pack_of(j, (uint32_t)tn__range_at(&j->s.r, y), false);
  int64_t each = has_room(j, y) ? taken_at_once(j, y, neighbours, group) : 1;
  if (each > 1) tn__sb_printf(j->note, " several(%lld,%lld)", tn__id_of(y), (long long)each);
  /* all in one thread: what it adds up no other would have */
  else if (!tn__is_int_const(y->src[0], neighbours)) y = pack(j, y, neighbours);
  if (tn__is_const(y->src[0]) && tn__extent(y) <= group) j->body = tn__retype(j->c, j->body, y, AX_UPCAST);
  else if (each > 1 || is_block_of_packs(j, y, neighbours, group)) cut_whole(j, y, group, each, axis, &y);
  else if (tn__divisible(y->src[0], group) || !tn__is_const(y->src[0]) || !has_room(j, y))
    j->body = tn__cut(j->l, j->body, y, group, axis, AX_UPCAST, NULL);
  else
    cut_whole(j, y, group, 1, axis, &y);
  look(j);
}

/* ---- rows in registers ---- */

/* How a scratch row is walked: element = turn * (group * pack) + lane * pack + neighbour, or, of several apart, (turn *
 * several + number) * group + lane */
typedef struct slots {
  int64_t turns, pack, several;
} slots;

static bool walk_alike(const slots *a, const slots *b) {
  return a->turns * a->several == b->turns * b->several && a->pack == b->pack;
}

static int64_t slots_of(const slots *s) { return s->turns * s->pack * s->several; }

/* a choice: any is right */
int64_t tn__row_slots(const tn__lowering *l, int64_t group, int rows) {
  int64_t threads = l->variant->across ? group * l->variant->together : group,
          all = (int64_t)(l->target->registers / sizeof(float)) / threads,
          own = (all < 255 ? all : 255) - OTHER_REGISTERS;
  return limit(own / (rows > 1 ? rows : 1), 1, MAX_SLOTS);
}

/* Does an access to scratch at `index`, over the ranges of `set`, give each thread elements of its own?  And the parts
 * of the index, which may be further by *offset. */
/* a choice: no is right */
static bool own_elements(const job *j, tn_node *index, uint64_t set, int group, slots *s, tn_node **turn,
                         tn_node **lane, tn_node **by, int64_t *offset) {
  const tn__ranges *r = &j->s.r;
  *turn = *lane = *by = NULL;
  *s = (slots){.turns = 1, .pack = 1, .several = 1};
  for (uint32_t k = 0; k < r->n; k++) {
    if (!(set >> k & 1)) continue;
    tn_node *range = r->range[k];
    int axis = tn__axis_of(range);
    tn_node **part = axis == AX_UPCAST ? lane : axis == AX_UNROLL ? by : turn;
    if (*part) return false;
    *part = range;
  }
  if (!*lane) return false;
  uint32_t lanes = (uint32_t)tn__range_at(r, *lane);
  int64_t *each = *by && tn__stride(r, index, lanes) == 1 ? &s->several : &s->pack;
  if ((*turn && !tn__const_int((*turn)->src[0], &s->turns)) || (*by && !tn__const_int((*by)->src[0], each)))
    return false;
  int64_t want[3] = {group * s->pack * s->several, s->pack, s->several > 1 ? group : 1};
  tn_node *part[3] = {*turn, *lane, *by}, *sum = tn__int(j->c, 0);
  for (int i = 0; i < 3; i++)
    if (part[i]) sum = tn__add(j->c, sum, tn__mul(j->c, part[i], tn__int(j->c, want[i])));
  return tn__const_int(tn__simplify_index(j->c, tn__sub(j->c, index, sum)), offset);
}

/* What is said of a row in shared memory: whose its elements are */
static void own_shared(job *j, tn_node *local, int64_t own) {
  tn__map none;
  tn__map_init(&none, j->a);
  tn_node *fresh = tn__node_make(j->c, &(tn__make){.op = OP_LOCAL,
                                                   .dtype = local->dtype,
                                                   .src = local->src,
                                                   .nsrc = local->nsrc,
                                                   .ints = (int64_t[]){local->ints[0], own},
                                                   .nint = 2,
                                                   .device = -1});
  renumber(j, local, fresh, &none);
}

/* Where all accesses to `local` walk by the same slots, its elements are numbered anew: element i belongs to thread i
 * mod group. */
static void give_to_threads(job *j, tn_node *local, int group) {
  tn_ctx *c = j->c;
  tn__map index;
  slots first = {0};
  tn_node *threads = tn__int(c, group);
  tn__map_init(&index, j->a);
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    tn_node *x = j->s.r.order.v[i], *turn, *lane, *by;
    slots s;
    int64_t offset;
    if (!tn__is_access(x) || tn__buffer_of(x) != local) continue;
    if (!own_elements(j, x->src[1], tn__free_of(&j->s.r, x->src[1]), group, &s, &turn, &lane, &by, &offset) || offset)
      return;
    if (first.turns && !walk_alike(&first, &s)) return;
    first = s;
    tn_node *slot = turn ? tn__mul(c, turn, tn__int(c, s.pack * s.several)) : tn__int(c, 0);
    if (by) slot = tn__add(c, slot, by);
    tn_node *start =
        tn__node_make(c, &(tn__make){.op = OP_MUL, .dtype = TN__INDEX, .src = (tn_node *[]){slot, threads}, .nsrc = 2});
    tn__map_putp(
        &index, x,
        tn__node_make(c, &(tn__make){.op = OP_ADD, .dtype = TN__INDEX, .src = (tn_node *[]){start, lane}, .nsrc = 2}));
  }
  /* they stay in memory, but each element is one thread's there */
  bool much = tn__is_much_text(&j->s.r, of_axis(&j->s.r, AX_UPCAST), (double)slots_of(&first));
  if (slots_of(&first) > j->slots || much) {
    own_shared(j, local, TN__OWN_KEPT);
    return;
  }
  tn_node *size = tn__int(c, slots_of(&first) * group);
  tn_node *fresh = tn__node_make(c, &(tn__make){.op = OP_LOCAL,
                                                .dtype = local->dtype,
                                                .src = (tn_node *[]){size, local->nsrc > 1 ? local->src[1] : NULL},
                                                .nsrc = local->nsrc,
                                                .ints = (int64_t[]){local->ints[0], group},
                                                .nint = 2,
                                                .device = -1});
  renumber(j, local, fresh, &index);
}

/* Rows sent for are the threads' by elements if that is how all accesses walk; else they are like other shared memory.
 */
static void check_own(job *j, tn_node *local, int group) {
  tn_node *zero = tn__int(j->c, 0);
  slots first = {0};
  bool own = true;
  for (uint32_t i = 0; i < j->s.r.order.n && own; i++) {
    tn_node *x = j->s.r.order.v[i], *index = x->nsrc > 1 ? x->src[1] : NULL, *turn, *lane, *by;
    slots s;
    int64_t offset;
    if (!tn__is_access(x) || tn__buffer_of(x) != local) continue;
    uint64_t set = tn__free_of(&j->s.r, index);
    for (uint32_t k = 0; k < j->s.r.n; k++) { /* which of the two rows */
      if (tn__role_of(j->s.r.range[k]) != ROLE_ROW_LOOP) continue;
      index = tn__simplify_index(j->c, tn__substitute(j->c, index, &j->s.r.range[k], &zero, 1));
      set &= ~tn__free_of(&j->s.r, j->s.r.range[k]); /* its end may depend on the block's */
    }
    own = own_elements(j, index, set, group, &s, &turn, &lane, &by, &offset) &&
          slots_of(&s) <= j->slots && (!first.turns || walk_alike(&first, &s));
    first = s;
  }
  if (!own) own_shared(j, local, 0);
}

static void rows_in_registers(job *j, int group) {
  tn__nodes all = {0};
  int rows = 0;
  tn__topo(j->a, &j->body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) rows += all.v[i]->op == OP_LOCAL;
  j->slots = tn__row_slots(j->l, group, rows);
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_LOCAL) continue;
    if (all.v[i]->ints[1] == TN__OWN_SHARED) check_own(j, all.v[i], group);
    else give_to_threads(j, all.v[i], group);
  }
}

/* a choice: either is right */
static double longest_row(const job *j) {
  double most = 1;
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    double v = tn__volume(&j->s, row_loops(j, j->s.r.order.v[i]));
    if (v > most) most = v;
  }
  return most;
}

/* ---- groups side by side in a block ---- */

/* May several groups make a block?  (kernel.h says what they must not have.) */
static bool may_stand_together(const job *j, const tn_node *global, int group, bool across) {
  const tn__ranges *r = &j->s.r;
  int at = global ? tn__range_at(r, global) : -1;
  bool apart = j->target->exchanges && !across && group == j->target->subgroup; /* they never meet */
  if (at < 0 || (!apart && tn__bounds_loops(r, (uint32_t)at))) return false;
  for (uint32_t i = 0; i < r->order.n; i++) {
    const tn_node *n = r->order.v[i];
    if (n->op == OP_STOREADD || (n->op == OP_LOCAL && n->ints[1] <= 0)) return false;
  }
  return true;
}

/* The groups' loop with a multiple of n turns: those beyond its end do the last one's work, and store nothing. */
static void pad_groups(job *j, tn_node *global, int n) {
  tn_ctx *c = j->c;
  tn_node *size = global->src[0], *by = tn__int(c, n), *one = tn__int(c, 1);
  if (tn__divisible(size, n)) return;
  tn_node *blocks = tn__op2(c, OP_IDIV, tn__add(c, size, tn__int(c, n - 1)), by);
  tn_node *padded = tn__range_like(c, global, tn__simplify_index(c, tn__mul(c, blocks, by)), AX_GLOBAL);
  tn_node *last = tn__op2(c, OP_MIN, padded, tn__sub(c, size, one)), *inside = tn__op2(c, OP_LT, padded, size);
  j->body = tn__exchange_ranges(j->l, j->body, &global, &last, 1, &padded, 1);
  j->body = tn__ignore_beyond(j->l, j->body, padded, inside);
  look(j);
}

static tn_node *global_of(const job *j) {
  for (uint32_t k = 0; k < j->s.r.n; k++)
    if (tn__axis_of(j->s.r.range[k]) == AX_GLOBAL) return j->s.r.range[k];
  return NULL;
}

/* Groups of at most as many threads as run in step make blocks of usual size: a device starts one block after the
 * other, whatever their size.  Few are done sooner spread over the device, by blocks of as many as run in step. */
/* a choice: any number is right */
static int usual_together(const job *j, const tn_node *global, int group) {
  const tn__target *t = j->target;
  double groups = tn__extent(global), much = 8.0 * t->units * STEPS_OF_BLOCK * t->subgroup;
  int most = group > t->subgroup ? group : groups * group > much ? tn__usual_group(t) : t->subgroup, n = 1;
  while (2 * n * group <= most && groups >= 2.0 * n * BLOCKS_OF_UNIT * t->units) n *= 2;
  return n;
}

static void stand_together(job *j, int group, tn__part *out) {
  const tn__variant *v = j->l->variant;
  tn_node *global = global_of(j);
  out->group = group;
  if (!may_stand_together(j, global, group, v->across)) return;
  int n = v->together ? v->together : usual_together(j, global, group);
  while (n > 1 && n * group > j->target->group) n /= 2;
  if (n <= 1) return;
  if (v->across || group < j->target->subgroup || !j->target->exchanges) pad_groups(j, global, n);
  out->together = n;
  out->across = v->across;
  tn__sb_printf(j->note, " together(%d)%s", n, v->across ? " across" : "");
}

/* Blocks that are to have room in a unit, for a compiler to share out registers; 0: it may as it likes.  Of much that a
 * thread keeps it takes more registers for places than for the elements, if it may.  Where there are few blocks, of
 * long rows, it takes as few as if there were many, and so asks for little at once. */
/* a choice: any is right */
static int room_beside(const job *j, const tn__part *part, double row) {
  int64_t kept = 0, shared = 0, threads = tn__threads_of_block(part), most = j->target->unit_threads / threads;
  const tn_node *global = global_of(j);
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    const tn_node *n = j->s.r.order.v[i];
    int64_t size = n->op == OP_LOCAL ? (int64_t)tn__size_of(n->dtype) : 0;
    if (size && n->ints[1] > 0) kept += n->src[0]->hi / n->ints[1] * ((size + 3) / 4);
    if (size && n->ints[1] <= 0) shared += n->src[0]->hi * size;
  }
  int64_t room = shared > 0 ? limit((int64_t)j->target->shared / shared, 1, most) : most;
  if (kept >= MUCH_KEPT) {
    int64_t whole = STEPS_OF_BLOCK * j->target->subgroup / threads; /* subgroups are shared out as evenly */
    int64_t all = (int64_t)(j->target->registers / sizeof(float)) / (threads * (OTHER_REGISTERS + PLACES + kept));
    if (whole > 1 && all > whole) all -= all % whole;
    if (all < room) room = all;
  }
  double blocks = (global ? tn__extent(global) : 1) / tn__groups_of_block(part), few = ceil(blocks / j->target->units);
  if (row >= (double)ROW_SHARE * part->group && few < (double)room) room = (int64_t)few;
  return room < most ? (int)limit(room, 1, most) : 0;
}

/* So of threads that each go through loops alone: where neighbours' elements are loaded one by one in each turn, a
 * compiler that may have room for all threads of a unit at once loads one behind the other, to have few registers. */
/* a choice: any is right */
static int room_of_threads(job *j, int group) {
  double most = 0;
  look(j);
  for (uint32_t i = 0; i < j->s.r.order.n; i++) {
    const tn_node *n = j->s.r.order.v[i];
    uint64_t free = n->op == OP_LOAD && n->src[0]->op == OP_PARAM ? tn__free_of(&j->s.r, n->src[1]) : 0, apart = 0;
    for (uint32_t k = 0; k < j->s.r.n; k++)
      if ((free >> k & 1) && tn__axis_of(j->s.r.range[k]) == AX_UNROLL && tn__stride(&j->s.r, n->src[1], k) != 1)
        apart |= 1ull << k;
    if (free & (of_axis(&j->s.r, AX_REDUCE) | of_axis(&j->s.r, AX_ORDER)))
      most = tn__volume(&j->s, apart) > most ? tn__volume(&j->s, apart) : most;
  }
  int64_t all = (int64_t)(j->target->registers / sizeof(float)) / (int64_t)(group * (OTHER_REGISTERS + most));
  bool squeezed = most > FEW_APART && all <= MOST_BESIDE && all * group < j->target->unit_threads;
  return squeezed ? (int)limit(all, 1, MOST_BESIDE) : 0;
}

/* ---- a group for a row ---- */

static void share_row(job *j, uint64_t rows, tn__part *out) {
  bool many = tn__volume(&j->s, rows) >= 8.0 * j->target->units; /* a choice: either is right */
  int usual = tn__usual_group(j->target);
  make_global(j, rows);
  double row = longest_row(j);
  int group = lean_group(j, limit(power_above(row / (many ? ROW_SHARE : 4)), j->target->subgroup,
                                  many ? usual : 4 * usual));
  if (j->l->variant->team > 1) group = (int)limit(j->l->variant->team, 1, j->target->group);
  if (turns_of(&j->s.r)) group = tn__row_threads(j->target, row);
  for (int round = 0; round < ROUNDS; round++) {
    uint64_t set = next_lanes(j);
    if (!set) break;
    cut_lanes(j, set, group);
  }
  load_what_is_stored(j);
  rows_in_registers(j, group);
  tn__sb_printf(j->note, " group(%d)", group);
  stand_together(j, group, out);
  out->beside = room_beside(j, out, row);
}

/* ---- which form ---- */

/* a choice: either is right */
static double longest_loop(const tn__survey *s, uint64_t rows) {
  double most = 1;
  for (uint32_t i = 0; i < s->r.order.n; i++) {
    double v = tn__volume(s, tn__own_of(&s->r, s->r.order.v[i]) & ~rows);
    if (v > most) most = v;
  }
  return most;
}

/* Is scratch memory kept for a turn of the outputs' loops?  A group has it once, and all its threads work on that turn:
 * had each a turn of its own, they would store to one place. */
static bool holds(const tn__survey *s) {
  for (uint32_t i = 0; i < s->r.order.n; i++)
    if (s->r.order.v[i]->op == OP_LOCAL) return true;
  return false;
}

/* Is a row enough for a group? */
/* a choice: no is right */
static bool fills_group(const tn__lowering *l, const tn__survey *s) {
  uint64_t rows = tn__rows_of(s);
  int subgroup = l->target->subgroup; /* a row up to this length is one thread's work: a group would rest */
  if (l->c->mode == TN_MODE_STRICT || !s->reduces || longest_loop(s, rows) <= subgroup) return false;
  /* few outputs, up to two subgroups for each unit, would leave most threads without work: better groups that jump
   * through memory */
  return rows != s->common || !tn__walks_outputs(s, rows) ||
         tn__volume(s, rows) < (double)l->target->units * 2 * subgroup;
}

bool tn__group_rows(tn__lowering *l, tn_node *part) {
  tn__survey s;
  tn__survey_loops(l->c, l->a, part, &s);
  int team = l->c->mode == TN_MODE_STRICT ? 0 : l->variant->team;
  if (s.running) return false; /* along the turns of a thread */
  if (l->variant->windows && !holds(&s)) return false;
  return holds(&s) || (team ? team > 1 && tn__has_rows(&s) : fills_group(l, &s));
}

static job begin(tn__lowering *l, tn_node *part) {
  job j = {.l = l, .c = l->c, .a = l->a, .target = l->target, .note = &l->note, .body = part};
  look(&j);
  return j;
}

tn_node *tn__group_part(tn__lowering *l, tn_node *part, bool by_rows, tn__part *out) {
  bool windows = l->variant->windows && !by_rows;
  job j = begin(l, windows ? tn__windows_cut(l, part) : part);
  if (by_rows)
    share_row(&j, tn__rows_of(&j.s), out);
  else
    out->group = share_threads(&j), out->beside = room_of_threads(&j, out->group);
  if (windows) j.body = tn__windows_hold(l, j.body, out->group);
  return tn__show_neighbours(l->c, l->a, tn__share_draws(l, tn__at_once(l, j.body)));
}

tn_node *tn__make_global(tn__lowering *l, tn_node *part, tn_node *const *inner, uint32_t n) {
  job j = begin(l, part);
  if (of_axis(&j.s.r, AX_GLOBAL)) return part; /* groups have theirs: the others are a thread's */
  make_global_around(&j, j.s.common, inner, n);
  return j.body;
}
