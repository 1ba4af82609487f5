/* A part as a kernel for work groups: the threads of a group run the lanes.  What the text means stands in
 * lower/kernel.h.
 *
 * Lane ranges are blocks in which the thread t stands for the counter; behind them every thread has the same values
 * again.  A lane accumulator is one register.  Combining the threads' registers is printed where it is wanted: cells in
 * shared memory, combined by halves as on every device, so that the results are the same; from 32 cells on by exchange
 * inside each warp, where the language has that.  There are two sets of cells, used in turns, so that one barrier is
 * enough for each combination.
 *
 * Where several groups make a block, t is the thread's number in its group and g the group's in the block. */
#include "lower/launch_extent.h"
#include "lower/lower.h"
#include "render/c_like.h"
#include <inttypes.h>
#include <stdio.h>

enum { UNROLLED = 64 };

enum { FEW_CELLS = 16, COLUMN = 8 }; /* up to so many each thread combines for itself; of more, so many side by side */

/* ---- shared memory ---- */

static bool is_access(const tn_node *n) { return n->op == OP_LOAD || n->op == OP_STORE || n->op == OP_STOREADD; }

/* Threads that hold a LOCAL's elements in turn; 0: they stand in shared memory. */
static int64_t threads_of(const tn_node *local) {
  return local->op == OP_LOCAL && local->nint > 1 && local->ints[1] > 0 ? local->ints[1] : 0;
}

static bool combines(const tn_node *n) { return n->op == OP_GETACC && n->nsrc < 3 && n->src[0]->ints[1] > 1; }

/* Are a group's threads some that run in step, side by side? */
static bool is_in_step(const tn__part *part) {
  return !part->across && part->group <= part->subgroup;
}

/* Cells that stand side by side behind those of all lanes, where the threads combine these in two steps */
static int64_t column_of(const tn__part *part, int64_t lanes) {
  return part->across && lanes > FEW_CELLS ? COLUMN : 0;
}

/* Cells of one set, in bytes; groups in step need none where threads exchange values. */
static int64_t set_bytes(const tn__part *part, bool swaps) {
  int64_t most = 0;
  for (uint32_t i = 0; i < part->n; i++) {
    const tn_node *n = part->ins[i];
    if (!combines(n) || (swaps && is_in_step(part))) continue;
    int64_t size = (int64_t)tn__size_of(n->dtype), lanes = n->src[0]->ints[1],
            bytes = (lanes + column_of(part, lanes)) * tn__groups_of_block(part) * (size < 4 ? 4 : size);
    if (bytes > most) most = bytes;
  }
  return (most + 15) / 16 * 16;
}

int64_t tn__render_cells(const tn__part *part) { return 2 * set_bytes(part, false); }

void tn__render_fits(const tn__device *d, const tn__kernel *k) {
  int64_t cells = 0;
  for (uint32_t p = 0; p < k->nparts; p++) {
    int64_t more = k->part[p].tile ? 0 : tn__render_cells(&k->part[p]);
    if (more > cells) cells = more;
  }
  if (d->target.group && (uint64_t)(k->shared + cells) > d->target.shared + TN__CELLS_RESERVED)
    tn__fail(d->ctx, TN_ECOMPILE, "kernel %s needs %lld bytes of shared memory; %s has %zu", k->name,
             (long long)(k->shared + cells), d->name, d->target.shared);
}

static void put_barrier(tn__printer *p) {
  if (p->part->group > 1) tn__print_line(p, "%s", p->d->group->barrier[is_in_step(p->part)]);
}

/* ---- packed accesses ---- */

static uint32_t end_of(const tn__printer *p, uint32_t start) {
  uint32_t i = start + 1;
  while (i < p->part->n && (p->part->ins[i]->op != OP_END || p->part->ins[i]->src[0] != p->part->ins[start])) i++;
  return i;
}

/* Of neighbours that are accessed at once */
static int64_t packed_bytes(const tn_node *access, const tn_node *r) {
  return r->hi > 0 ? tn__wide_bytes(access, r) : 0;
}

/* Wide accesses for the whole of it */
static int64_t pieces(const tn_node *access, const tn_node *r) {
  return (packed_bytes(access, r) + TN__WIDE - 1) / TN__WIDE;
}

/* a choice: no is right */
static const char *wide_type(const tn__printer *p, const tn_node *access, const tn_node *r) {
  int64_t bytes = packed_bytes(access, r);
  return bytes ? p->d->group->wide[__builtin_ctzll((unsigned long long)(bytes < TN__WIDE ? bytes : TN__WIDE))] : NULL;
}

/* The end up to which the gate says that neighbours are there; NULL: it says nothing of the kind */
static tn_node *ends_at(const tn_node *gate, const tn_node *r) {
  return gate && tn__ends_within(gate, r) ? gate->src[1] : NULL;
}

/* What the first of neighbours has of r + base; NULL: 0 */
static tn_node *first_of(const tn_node *sum, const tn_node *r) { return sum == r ? NULL : sum->src[sum->src[0] == r]; }

static bool stands(tn__printer *p, const tn_node *x) {
  return !x || x->op == OP_CONST || tn__map_getp(&p->name, x);
}

/* May the access be one for all turns of the loop ins[start..end]?  What goes before the loop must not miss a store in
 * it, what goes behind it must not be missed by a load, and stays behind what else the turn stores there.  An addition
 * goes both before and behind it, so nothing else may be there, nor anybody add at once. */
/* a choice: no is right */
static bool is_packable(tn__printer *p, uint32_t start, uint32_t end, uint32_t at) {
  tn_node *r = p->part->ins[start], *n = p->part->ins[at];
  if (threads_of(n->src[0]) || !wide_type(p, n, r) || !tn__is_packed(n, r)) return false;
  if (tn__map_getp(&p->batch, n)) return false; /* it is there */
  if (n->op == OP_STOREADD && tn__adds_at_once(p->part, n)) return false;
  for (uint32_t i = start + 1; i < end; i++) {
    const tn_node *other = p->part->ins[i];
    if (other->op == OP_RANGE) return false;
    if (!is_access(other) || other->src[0] != n->src[0] || other == n) continue;
    if (n->op == OP_STOREADD || other->op == OP_STOREADD) return false;
    if (n->op == OP_LOAD ? other->op != OP_LOAD : other->op != OP_STORE || (!tn__is_packed(other, r) && i > at))
      return false;
  }
  tn_node *gate = tn__gate_of(n), *last = ends_at(gate, r);
  /* base and gate, or the gate's place and end, stand before the loop; the value does not */
  return stands(p, first_of(n->src[1], r)) && stands(p, last ? first_of(gate->src[0], r) : gate) && stands(p, last);
}

/* A piece of it in memory: *(T *)(b0 + base), or ((T *)(b0 + base))[piece]. */
static const char *wide_from(tn__printer *p, tn_node *n, tn_node *r, const char *first, int64_t piece) {
  bool local = n->src[0]->op == OP_LOCAL;
  const char *space = local ? p->d->group->shared : p->d->group->global, *constant = n->op == OP_LOAD ? "const " : "";
  const char *all = tn__print_format(p, "(%s%s%s *)(%s)", space, constant, wide_type(p, n, r), first);
  return pieces(n, r) == 1 ? tn__print_format(p, "*%s", all) : tn__print_format(p, "(%s)[%" PRId64 "]", all, piece);
}

static const char *wide_access(tn__printer *p, tn_node *n, tn_node *r, int64_t piece) {
  tn_node *buf = n->src[0], *index = n->src[1];
  const char *base = index == r ? "0" : tn__print_name(p, index->src[index->src[0] == r]);
  char letter = buf->op == OP_LOCAL ? 'l' : 'b';
  return wide_from(p, n, r, tn__print_format(p, "%c%" PRId64 " + %s", letter, buf->ints[0], base), piece);
}

static const char *wide_register(tn__printer *p, uint64_t number, tn_node *n, tn_node *r, int64_t piece) {
  return pieces(n, r) == 1 ? tn__print_format(p, "w%" PRIu64 ".all", number)
                           : tn__print_format(p, "w%" PRIu64 ".all[%" PRId64 "]", number, piece);
}

static const char *gate_of(tn__printer *p, tn_node *n) {
  tn_node *gate = tn__gate_of(n);
  return gate ? tn__print_name(p, gate) : NULL;
}

/* ---- copies that go on beside the threads ---- */

static bool is_sent(const tn_node *buf) {
  return buf->op == OP_LOCAL && buf->nint > 1 && buf->ints[1] == TN__OWN_SHARED;
}

/* Is ins[at] a packed store to such memory of what is but loaded for it?  Then a copy does. */
/* a choice: no is right */
static bool is_copy(tn__printer *p, uint32_t start, uint32_t end, uint32_t at) {
  tn_node *r = p->part->ins[start], *n = p->part->ins[at], *load = n->op == OP_STORE ? n->src[2] : NULL;
  uint32_t from = at;
  if (!p->d->group->copy || !load || load->op != OP_LOAD || !is_sent(n->src[0]) || load->src[0]->op != OP_PARAM ||
      tn__gate_of(n) || packed_bytes(n, r) < 4)
    return false;
  while (from > start && p->part->ins[from] != load) from--;
  for (uint32_t i = 0; i < p->part->n; i++)
    for (uint32_t s = 0; s < p->part->ins[i]->nsrc; s++)
      if (p->part->ins[i]->src[s] == load && i != at) return false;
  return from > start && is_packable(p, start, end, at) && is_packable(p, start, end, from);
}

static bool will_copy(tn__printer *p, uint32_t start, uint32_t end, const tn_node *load) {
  for (uint32_t i = start; i < end && load->op == OP_LOAD; i++)
    if (p->part->ins[i]->op == OP_STORE && p->part->ins[i]->src[2] == load && is_copy(p, start, end, i)) return true;
  return false;
}

static void put_copy(tn__printer *p, tn_node *n, tn_node *r) {
  tn_node *load = n->src[2];
  int64_t bytes = packed_bytes(n, r);
  tn__map_put(&p->copied, (uintptr_t)n, 1);
  tn__map_put(&p->copied, (uintptr_t)load, 1);
  for (int64_t k = 0; k < pieces(n, r); k++) {
    tn__words words = {.word = {['0'] = wide_access(p, n, r, k),
                                ['1'] = wide_access(p, load, r, k),
                                ['2'] = gate_of(p, load),
                                ['b'] = tn__print_format(p, "%" PRId64, bytes < TN__WIDE ? bytes : TN__WIDE)}};
    if (!words.word['2']) words.word['2'] = "true";
    tn__print_line(p, "%s", tn__print_expand(p, p->d->group->copy, &words));
  }
}

/* Must what was sent be there before the loop's turn begins? */
static bool awaits(const tn__printer *p, uint32_t start) {
  int64_t axis = p->part->ins[start]->ints[0];
  if (!p->d->group->copied || axis == AX_UPCAST || axis == AX_UNROLL || axis == AX_GLOBAL) return false;
  bool sends = false, reads = false;
  for (uint32_t i = start, end = end_of(p, start); i < end; i++) {
    const tn_node *n = p->part->ins[i];
    sends |= n->op == OP_STORE && is_sent(n->src[0]);
    reads |= n->op == OP_LOAD && is_sent(n->src[0]);
  }
  return sends && reads;
}

/* The condition under which neighbour `which` is there; NULL: they all are, or none. */
static const char *is_within(tn__printer *p, tn_node *n, tn_node *r, const char *which) {
  tn_node *gate = tn__gate_of(n), *end = ends_at(gate, r), *first = end ? first_of(gate->src[0], r) : NULL;
  if (!end) return NULL;
  if (!first) return tn__print_format(p, "%s < %s", which, tn__print_name(p, end));
  int kind = tn__print_kind(p, gate->src[0]);
  const char *wide = kind == tn__print_kind(p, first) ? "" : tn__print_format(p, "(%s)", p->d->value[kind]);
  return tn__print_format(p, "%s%s + %s < %s", wide, tn__print_name(p, first), which, tn__print_name(p, end));
}

/* Element l of neighbours, by itself */
static const char *single(tn__printer *p, tn_node *n, tn_node *r) {
  tn_node *buf = n->src[0], *first = first_of(n->src[1], r);
  return tn__print_format(p, "%c%" PRId64 "[%s + l]", buf->op == OP_LOCAL ? 'l' : 'b', buf->ints[0],
                          first ? tn__print_name(p, first) : "0");
}

/* Wide accesses, all or none of them under the gate: if (gate) `to` = `from`, for pieces of n; or, where the end may be
 * among the neighbours, one by one. */
static void put_wide(tn__printer *p, tn_node *n, tn_node *r, uint64_t number, bool load) {
  int64_t extent = r->src[0]->ints[0];
  const char *whole = is_within(p, n, r, tn__print_format(p, "%" PRId64, extent - 1)),
             *gate = whole ? whole : gate_of(p, n);
  if (whole) tn__print_line(p, "if (%s) {", whole);
  p->depth += whole != NULL;
  for (int64_t k = 0; k < pieces(n, r); k++) {
    const char *in = wide_register(p, number, n, r, k), *at = wide_access(p, n, r, k);
    tn__print_line(p, "%s%s = %s;", gate && !whole ? tn__print_format(p, "if (%s) ", gate) : "", load ? in : at,
                   load ? at : in);
  }
  if (!whole) return;
  p->depth--;
  tn__print_line(p, "} else {");
  p->depth++;
  tn__print_line(p, "%s", p->d->group->unroll);
  tn__print_line(p, "for (i32 l = 0; l < %" PRId64 "; l++) {", extent);
  p->depth++;
  const char *inside = is_within(p, n, r, "l"), *one = single(p, n, r);
  if (load) tn__print_line(p, "w%" PRIu64 ".x[l] = %s ? %s : 0;", number, inside, one);
  else tn__print_line(p, "if (%s) %s = w%" PRIu64 ".x[l];", inside, one, number);
  tn__print_brace(p, "}");
  tn__print_brace(p, "}");
}

/* Before an unrolled loop: registers for each packed access, and the loads. */
static void put_packs(tn__printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  uint32_t end = end_of(p, start);
  for (uint32_t i = start + 1; i < end; i++) {
    tn_node *n = p->part->ins[i];
    if (is_copy(p, start, end, i)) put_copy(p, n, r);
    if (!is_access(n) || !is_packable(p, start, end, i) || will_copy(p, start, end, n) ||
        tn__map_get(&p->copied, (uintptr_t)n, NULL))
      continue;
    uint32_t number = p->npacked++;
    tn__map_put(&p->packed, (uintptr_t)n, number);
    const char *several = pieces(n, r) == 1 ? "" : tn__print_format(p, "[%" PRId64 "]", pieces(n, r));
    tn__print_line(p, "union { %s all%s; %s x[%" PRId64 "]; } w%" PRIu32 ";", wide_type(p, n, r), several,
                   p->d->cell[n->src[0]->dtype], r->src[0]->ints[0], number);
    if (n->op != OP_STORE) put_wide(p, n, r, number, true);
  }
}

/* Behind it: the stores. */
static void put_packed_stores(tn__printer *p, uint32_t start) {
  uint64_t number;
  for (uint32_t i = start + 1, end = end_of(p, start); i < end; i++) {
    tn_node *n = p->part->ins[i];
    if (n->op == OP_LOAD || !is_access(n) || !tn__map_get(&p->packed, (uintptr_t)n, &number)) continue;
    put_wide(p, n, p->part->ins[start], number, false);
  }
}

/* ---- stores behind the loads of all neighbours ---- */

/* Is it made of counters, and of what stands before the loop ins[start..end]? */
/* a choice: no is right */
static bool counts(tn__printer *p, uint32_t start, tn_node *n) {
  tn__nodes all = {0};
  if (n) tn__topo(&p->c->scratch, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *x = all.v[i];
    bool leaf = x->op == OP_CONST || x->op == OP_VAR || x == p->part->ins[start];
    if (!leaf && !tn__is_elementwise(x) && !tn__map_getp(&p->name, x)) return false;
  }
  return true;
}

/* Does the store ins[at] stand between loads of different neighbours?  For all that a compiler sees of the pointers,
 * they might load what it stores: each would wait for the one before. */
/* a choice: no is right */
static bool delays_loads(tn__printer *p, uint32_t start, uint32_t end, uint32_t at) {
  tn_node *n = p->part->ins[at];
  bool loads = false;
  if (n->op != OP_STORE || threads_of(n->src[0]) || tn__map_get(&p->packed, (uintptr_t)n, NULL) ||
      tn__map_get(&p->copied, (uintptr_t)n, NULL) || !counts(p, start, n->src[1]) || !counts(p, start, tn__gate_of(n)))
    return false;
  for (uint32_t i = start + 1; i < end; i++) {
    const tn_node *x = p->part->ins[i];
    if (x->op == OP_RANGE || (is_access(x) && x != n && x->src[0] == n->src[0])) return false;
    loads |= x->op == OP_LOAD && x->src[0]->op == OP_PARAM && !tn__map_get(&p->packed, (uintptr_t)x, NULL);
  }
  return loads;
}

/* Is it a function whose text may branch? */
/* a choice: either is right */
static bool may_branch(const tn_node *n) {
  return tn__is_float(n->dtype) && tn__is_elementwise(n) && tn__ops[n->op].cost >= tn__ops[OP_DIV].cost;
}

/* Does the load ins[at] wait for what is computed of other neighbours' loads?  No compiler loads in front of a branch
 * what might not be there. */
/* a choice: no is right */
static bool waits_for_others(tn__printer *p, uint32_t start, uint32_t end, uint32_t at) {
  tn_node *n = p->part->ins[at];
  bool branches = false;
  if (n->op != OP_LOAD || n->src[0]->op != OP_PARAM || tn__map_get(&p->packed, (uintptr_t)n, NULL) ||
      tn__map_get(&p->copied, (uintptr_t)n, NULL) || !tn__hangs_on(&p->c->scratch, n->src[1], p->part->ins[start]) ||
      !counts(p, start, n->src[1]) || !counts(p, start, tn__gate_of(n)))
    return false;
  for (uint32_t i = start + 1; i < end; i++) {
    const tn_node *x = p->part->ins[i];
    if (x->op == OP_RANGE || (is_access(x) && x->op != OP_LOAD && x->src[0] == n->src[0])) return false;
    branches |= may_branch(x);
  }
  return branches;
}

/* What the loop ins[start..end] computes has no names outside of it: another loop may compute the same. */
static void forget_names(tn__printer *p, uint32_t start) {
  for (uint32_t k = start, end = end_of(p, start); k < end; k++) tn__map_putp(&p->name, p->part->ins[k], NULL);
}

/* ---- places of what is loaded under gates ---- */

enum { MOST_TERMS = 16, MOST_POINTERS = 4 /* in front of a loop: each takes two registers */ };

/* The terms of a load's place: those of loops around and of lanes, and those of the neighbours' loop and numbers */
typedef struct spot {
  tn_node *load, *around[MOST_TERMS], *own[MOST_TERMS];
  uint32_t naround, nown, number; /* of the pointer */
} spot;

/* Is it made of r and numbers alone? */
static bool is_of(tn__printer *p, tn_node *n, const tn_node *r) {
  tn__nodes todo = {0};
  tn__vec_push(&p->c->scratch, &todo, n);
  while (todo.n && todo.n <= MOST_TERMS) {
    tn_node *x = todo.v[--todo.n];
    if (x == r || x->op == OP_CONST) continue;
    if (!tn__is_elementwise(x)) return false;
    for (uint32_t i = 0; i < x->nsrc; i++) tn__vec_push(&p->c->scratch, &todo, x->src[i]);
  }
  return !todo.n;
}

/* May it be worked out where the loop ins[start] opens: of counters that are known there, the lanes', perhaps the
 * loop's own, and values that stand before it? */
/* a choice: no is right */
static bool is_known_at(tn__printer *p, uint32_t start, bool own, tn_node *n) {
  tn__nodes all = {0};
  tn__topo(&p->c->scratch, &n, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *x = all.v[i];
    bool lanes = x->op == OP_RANGE && x->ints[0] == AX_UPCAST, turn = x == p->part->ins[start];
    if (turn ? !own : !lanes && !tn__map_getp(&p->name, x) && x->op != OP_CONST && !tn__is_elementwise(x)) return false;
  }
  return true;
}

/* a choice: no is right */
static bool find_spot(tn__printer *p, uint32_t start, tn_node *load, tn_node *place, spot *out) {
  tn_node *r = p->part->ins[start], *todo[MOST_TERMS] = {place};
  uint32_t n = 1;
  *out = (spot){.load = load};
  while (n) {
    tn_node *x = todo[--n];
    if (x->op == OP_ADD) {
      if (n + 2 > MOST_TERMS) return false;
      todo[n++] = x->src[0], todo[n++] = x->src[1];
    } else if (is_of(p, x, r)) {
      if (out->nown == MOST_TERMS) return false;
      out->own[out->nown++] = x;
    } else {
      if (out->naround == MOST_TERMS || !is_known_at(p, start, false, x)) return false;
      out->around[out->naround++] = x;
    }
  }
  return out->naround && tn__hangs_on(&p->c->scratch, place, r);
}

static bool same_around(const spot *x, const spot *y) {
  if (x->naround != y->naround || x->load->src[0] != y->load->src[0]) return false;
  for (uint32_t i = 0; i < x->naround; i++) {
    bool found = false;
    for (uint32_t k = 0; k < y->naround; k++) found |= x->around[i] == y->around[k];
    if (!found) return false;
  }
  return true;
}

/* In 64 bits: a part of the sum may be longer than all of it. */
static const char *sum_of(tn__printer *p, tn_node *const *term, uint32_t n) {
  const char *sum = NULL;
  for (uint32_t i = 0; i < n; i++) {
    tn__print_deep(p, term[i]);
    const char *x = tn__print_name(p, term[i]);
    sum = sum ? tn__print_format(p, "%s + %s", sum, x) : tn__print_format(p, "(%s)%s", p->d->value[TN_I64], x);
  }
  return sum ? sum : "0";
}

/* q<N>, N being the next number of registers */
static void put_pointer(tn__printer *p, const spot *x) {
  const tn_node *buf = x->load->src[0];
  tn__words words = {
      .word = {['0'] = tn__print_format(p, "b%" PRId64, buf->ints[0]), ['1'] = sum_of(p, x->around, x->naround)}};
  tn__print_line(p, "const %s *q%" PRIu32 " = %s;", p->d->cell[buf->dtype], p->npacked++,
                 tn__print_expand(p, p->d->group->from, &words));
}

/* Is it loaded under a gate, each neighbour by itself?  *out: from where */
/* a choice: no is right */
static bool has_spot(tn__printer *p, uint32_t start, tn_node *load, spot *out) {
  return tn__gate_of(load) && !tn__map_get(&p->packed, (uintptr_t)load, NULL) &&
         !tn__map_get(&p->copied, (uintptr_t)load, NULL) && !tn__map_getp(&p->batch, load) &&
         find_spot(p, start, load, load->src[1], out);
}

/* Where all loads of a buffer in the loop ins[start..end] are from: one place, and none of them in another loop.  What
 * two pointers that are not to be seen through point to would be loaded twice. */
/* a choice: no is right */
static bool is_only_spot(tn__printer *p, uint32_t start, const spot *x) {
  const tn_node *inner = NULL;
  spot y;
  for (uint32_t i = start + 1, end = end_of(p, start); i < end; i++) {
    tn_node *n = p->part->ins[i];
    if (!inner && n->op == OP_RANGE && n->ints[0] != AX_UPCAST) inner = n;
    if (n->op == OP_END && n->src[0] == inner) inner = NULL;
    if (!is_access(n) || n->src[0] != x->load->src[0]) continue;
    if (inner || n->op != OP_LOAD || !has_spot(p, start, n, &y) || !same_around(x, &y)) return false;
  }
  return true;
}

/* Before an unrolled loop: pointers for what its neighbours load under gates, as far from these as is known when the
 * text is compiled. */
static void put_pointers(tn__printer *p, uint32_t start) {
  spot *found[MOST_POINTERS], x;
  uint32_t n = 0, end = end_of(p, start);
  if (!p->d->group->from || p->part->ins[start]->hi < 1) return;
  for (uint32_t i = start + 1; i < end && n < MOST_POINTERS; i++) {
    tn_node *load = p->part->ins[i];
    if (load->op != OP_LOAD || load->src[0]->op != OP_PARAM || tn__map_getp(&p->from, load) ||
        !has_spot(p, start, load, &x) || !is_only_spot(p, start, &x))
      continue;
    x.number = p->npacked + n;
    found[n] = tn__arena_dup(&p->c->scratch, &x, sizeof x);
    for (uint32_t k = i; k < end; k++)
      if (p->part->ins[k]->op == OP_LOAD && p->part->ins[k]->src[0] == load->src[0] &&
          has_spot(p, start, p->part->ins[k], &x)) {
        x.number = found[n]->number;
        tn__map_putp(&p->from, p->part->ins[k], tn__arena_dup(&p->c->scratch, &x, sizeof x));
      }
    n++;
  }
  for (uint32_t i = start; i < end && n; i++)
    if (p->part->ins[i]->op == OP_RANGE && p->part->ins[i]->ints[0] == AX_UPCAST)
      tn__map_putp(&p->name, p->part->ins[i], "t");
  for (uint32_t k = 0; k < n; k++) put_pointer(p, found[k]);
  forget_names(p, start);
}

/* What a load loads, in memory: q0[own terms], if its place is known from there. */
static const char *in_memory(tn__printer *p, tn_node *n) {
  const spot *x = n->op == OP_LOAD ? tn__map_getp(&p->from, n) : NULL;
  if (!x) return tn__print_element(p, n);
  return tn__print_format(p, "q%" PRIu32 "[%s]", x->number, sum_of(p, x->own, x->nown));
}

/* The access n of the loop in a loop of its own over the same neighbours, whose counter it gives; behind that the names
 * are free again. */
static const char *open_apart(tn__printer *p, uint32_t start, tn_node *n) {
  tn_node *r = p->part->ins[start], *gate = tn__gate_of(n);
  for (uint32_t k = start + 1, end = end_of(p, start); k < end; k++) tn__map_putp(&p->name, p->part->ins[k], NULL);
  tn__print_line(p, "%s", p->d->group->unroll);
  const char *type = p->d->value[tn__print_kind(p, r)], *turn = tn__print_give(p, r, 'i', p->nloop++);
  tn__print_line(p, "for (%s %s = 0; %s < %" PRId64 "; %s++) {", type, turn, turn, r->src[0]->ints[0], turn);
  p->depth++;
  tn__print_deep(p, n->src[1]);
  if (gate) tn__print_deep(p, gate);
  return turn;
}

static void close_apart(tn__printer *p, uint32_t start) {
  tn__print_brace(p, "}");
  forget_names(p, start);
}

/* Before an unrolled loop: registers for what all neighbours load first, and the loads */
static void put_early(tn__printer *p, uint32_t start) {
  for (uint32_t i = start + 1, end = end_of(p, start); i < end; i++) {
    tn_node *n = p->part->ins[i], *gate = tn__gate_of(n);
    if (!waits_for_others(p, start, end, i)) continue;
    uint32_t number = p->npacked++;
    tn__print_line(p, "%s w%" PRIu32 "[%" PRId64 "];", p->d->cell[n->src[0]->dtype], number,
                   p->part->ins[start]->src[0]->ints[0]);
    const char *turn = open_apart(p, start, n), *x = in_memory(p, n);
    tn__print_line(p, "w%" PRIu32 "[%s] = %s;", number, turn,
                   gate ? tn__print_format(p, "%s ? %s : 0", tn__print_name(p, gate), x) : x);
    close_apart(p, start);
    tn__map_put(&p->late, (uintptr_t)n, number);
  }
}

/* Before an unrolled loop: registers for what it stores late */
static void put_late(tn__printer *p, uint32_t start) {
  uint32_t end = end_of(p, start);
  for (uint32_t i = start + 1; i < end; i++) {
    tn_node *n = p->part->ins[i];
    if (!delays_loads(p, start, end, i)) continue;
    tn__map_put(&p->late, (uintptr_t)n, p->npacked);
    tn__print_line(p, "%s w%" PRIu32 "[%" PRId64 "];", p->d->cell[n->src[0]->dtype], p->npacked++,
                   p->part->ins[start]->src[0]->ints[0]);
  }
}

/* Behind it: the stores, whose places are counted once more. */
static void put_late_stores(tn__printer *p, uint32_t start) {
  uint64_t number;
  for (uint32_t i = start + 1, end = end_of(p, start); i < end; i++) {
    tn_node *n = p->part->ins[i], *gate = tn__gate_of(n);
    if (n->op != OP_STORE || !tn__map_get(&p->late, (uintptr_t)n, &number)) continue;
    const char *turn = open_apart(p, start, n);
    tn__print_line(p, "%s%s = w%" PRIu64 "[%s];",
                   gate ? tn__print_format(p, "if (%s) ", tn__print_name(p, gate)) : "", tn__print_element(p, n),
                   number, turn);
    close_apart(p, start);
  }
}

/* ---- memory ---- */

/* The loop over lanes around; NULL: there is none */
static const tn_node *lanes_around(const tn__printer *p) {
  for (uint32_t i = 0; i < p->open.n; i++)
    if (p->part->ins[p->open.v[i].start]->ints[0] == AX_UPCAST) return p->part->ins[p->open.v[i].start];
  return NULL;
}

static bool in_lanes(const tn__printer *p) { return lanes_around(p) != NULL; }

/* Element slot * threads + lane of a LOCAL whose elements belong to threads: the thread's own, by slot. */
static const char *own_slot(tn__printer *p, tn_node *n, int64_t threads) {
  tn_node *index = n->src[1];
  int64_t k;
  if (index->op == OP_RANGE) return "0";
  tn_node *base =
      index->op == OP_ADD ? index->src[index->src[0]->op == OP_RANGE && index->src[0]->ints[0] == AX_UPCAST] : index;
  if (tn__const_int(base, &k)) return tn__print_format(p, "%" PRId64, k / threads);
  if (base->op != OP_MUL || !tn__is_int_const(base->src[1], threads))
    tn__fail(p->c, TN_ERUN, "kernel %s: a thread's own scratch is indexed by a %s", p->k->name,
             tn__ops[index->op].text);
  return tn__print_name(p, base->src[0]);
}

static const char *element(tn__printer *p, tn_node *n) {
  tn_node *buf = n->src[0];
  uint64_t number;
  const char *batched = tn__map_getp(&p->batch, n);
  if (batched)
    return tn__print_format(p, "%s%s]", batched, tn__print_name(p, p->part->ins[p->open.v[p->open.n - 1].start]));
  if (tn__map_get(&p->packed, (uintptr_t)n, &number))
    return tn__print_format(p, "w%" PRIu64 ".x[%s]", number,
                            tn__print_name(p, p->part->ins[p->open.v[p->open.n - 1].start]));
  if (tn__map_get(&p->late, (uintptr_t)n, &number))
    return tn__print_format(p, "w%" PRIu64 "[%s]", number,
                            tn__print_name(p, p->part->ins[p->open.v[p->open.n - 1].start]));
  if (threads_of(buf)) return tn__print_format(p, "l%" PRId64 "[%s]", buf->ints[0], own_slot(p, n, threads_of(buf)));
  return in_memory(p, n);
}

/* Registers hold values. */
static void put_own(tn__printer *p, tn_node *n) {
  const char *x = element(p, n), *value = tn__print_name(p, n->src[2]);
  int dt = n->src[0]->dtype;
  if (n->op == OP_STOREADD)
    value = tn__print_apply(p, tn__combines_by(n), dt, dt, (const char *[]){x, tn__print_addend(p, n)});
  tn__print_line(p, "%s = %s;", x, value);
}

/* How the language says it, if others may add there, too: tn__adds_at_once.  NULL: nobody does, or it has no words for
 * it, as where kernels that are lowered for one device are printed for another, to be looked at. */
static const char *adding(const tn__printer *p, const tn_node *n) {
  const tn__group_words *d = p->d->group;
  if (!tn__adds_at_once(p->part, n)) return NULL;
  int by = tn__combines_by(n);
  const char *const *words = by == OP_MAX ? d->greatest : by == OP_OR ? d->bits : d->add;
  if (tn__is_tallies(n->src[0])) return words == d->add ? d->add_shared : NULL;
  return words[tn__size_of(n->src[0]->dtype) == sizeof(int64_t)];
}

static void put_add(tn__printer *p, tn_node *n, const char *gate, const char *element) {
  tn__words words = {.word = {['0'] = element,
                              ['1'] = tn__print_addend(p, n),
                              ['n'] = tn__dtypes[n->src[0]->dtype].name}};
  tn__print_line(p, "%s%s", gate ? tn__print_format(p, "if (%s) ", gate) : "",
                 tn__print_expand(p, adding(p, n), &words));
}

/* ---- counts of threads in step ---- */

/* Is it where these count, in a language that says so?  Others print kernels that are lowered for such a device to be
 * looked at. */
static bool counts_in_step(tn__printer *p, const tn_node *n) {
  if (!tn__is_stepped(n->src[0]) || n->op != OP_STOREADD || !p->d->group->count_in_step) return false;
  if (!tn__is_in_step(p->part, n, lanes_around(p)) || n->src[0]->dtype != TN_U32 || tn__gate_of(n) ||
      !tn__is_int_const(n->src[2], 1))
    tn__fail(p->c, TN_ERUN, "kernel %s: what threads in step add is no count of theirs", p->k->name);
  return true;
}

/* What the element is then has a name, for whoever loads it in this loop. */
static void put_count(tn__printer *p, tn_node *n) {
  int bits = __builtin_ctzll((unsigned long long)tn__stepped_share(p->part, n->src[0], lanes_around(p)));
  tn__words words = {.word = {['0'] = tn__print_element(p, n),
                              ['1'] = tn__print_name(p, n->src[1]),
                              ['b'] = tn__print_format(p, "%d", bits)}};
  tn__map_put(&p->counted, (uintptr_t)n->src[1], p->npacked);
  tn__print_line(p, "const %s c%" PRIu32 " = %s;", p->d->value[TN_U32], p->npacked++,
                 tn__print_expand(p, p->d->group->count_in_step, &words));
}

static void put_store(tn__printer *p, tn_node *n) {
  const char *gate = gate_of(p, n);
  bool everyone = in_lanes(p) || p->part->group == 1;
  bool waits = tn__map_get(&p->packed, (uintptr_t)n, NULL) || tn__map_get(&p->late, (uintptr_t)n, NULL);
  if (waits) gate = NULL; /* asked when all is stored */
  if (!everyone) gate = gate ? tn__print_format(p, "t == 0 && %s", gate) : "t == 0";
  if (threads_of(n->src[0])) put_own(p, n);
  else if (counts_in_step(p, n)) put_count(p, n);
  else if (adding(p, n)) put_add(p, n, gate, element(p, n));
  else tn__print_store(p, n, gate, element(p, n));
}

/* Half floats that are stored as they were loaded stay what they are in memory: m<N> is what v<N> is made of, which
 * goes if nobody else wants it.  No compiler takes a conversion and the one back for nothing: NaN might differ.  Those
 * that only some threads load are so, too: a conversion that only these do has to wait for its load before the next one
 * is asked for, as there are few predicates to remember whose turn it is. */
static const char *put_bits(tn__printer *p, tn_node *n, const char *element, tn_node *gate) {
  const char *bits = tn__print_format(p, "m%" PRIu32, p->nvalue);
  if (gate) element = tn__print_format(p, "%s ? %s : 0", tn__print_name(p, gate), element);
  tn__print_line(p, "const %s %s = %s;", p->d->cell[n->dtype], bits, element);
  tn__map_putp(&p->bits, n, bits);
  return bits;
}

static void put_load(tn__printer *p, tn_node *n) {
  uint64_t number;
  bool counted = tn__is_stepped(n->src[0]) && tn__map_get(&p->counted, (uintptr_t)n->src[1], &number);
  const char *x = counted ? tn__print_format(p, "c%" PRIu64, number) : element(p, n);
  tn_node open = *n;
  bool packed = tn__map_get(&p->packed, (uintptr_t)n, NULL), early = tn__map_get(&p->late, (uintptr_t)n, NULL);
  if (early || (packed && ends_at(tn__gate_of(n), p->part->ins[p->open.v[p->open.n - 1].start])))
    open.nsrc = 2; /* asked before */
  bool half = (n->dtype == TN_F16 || n->dtype == TN_BF16) && !threads_of(n->src[0]);
  if (half && (open.nsrc > 2 || tn__map_get(&p->stored, (uintptr_t)n, NULL))) {
    x = put_bits(p, n, x, open.nsrc > 2 ? open.src[2] : NULL);
    open.nsrc = 2;
  }
  tn__print_value(p, n, threads_of(n->src[0]) ? x : tn__print_loaded(p, &open, x));
}

/* ---- products by tiles ---- */

static const tn__tile *tile_of(const tn__printer *p) { return p->d->group->tiles ? p->part->tile : NULL; }

/* A function of line, turn and step, as named in its head: `result` with $0 the place, $1 the gate, $t the place's
 * type. */
static void put_function(tn__printer *p, const tn__tile *tile, int side, const char *head, tn_node *at, tn_node *gate,
                         const char *result) {
  tn__map names = p->name; /* what the function computes for itself has no names outside */
  tn__map_init(&p->name, &p->c->scratch);
  tn__map_putp(&p->name, p->part->global, tn__map_getp(&names, p->part->global));
  for (uint32_t v = 0; v < p->k->nvar; v++)
    if (tn__map_getp(&names, p->k->var[v])) tn__map_putp(&p->name, p->k->var[v], tn__map_getp(&names, p->k->var[v]));
  tn__map_putp(&p->name, tile->line[side], "line");
  tn__map_putp(&p->name, tile->turn, "turn");
  tn__map_putp(&p->name, tile->step, "step");
  tn__print_line(p, "auto %s {", head);
  p->depth++;
  tn__print_deep(p, at);
  if (gate) tn__print_deep(p, gate);
  tn__words words = {.word = {['0'] = tn__print_name(p, at),
                              ['1'] = gate ? tn__print_name(p, gate) : "true",
                              ['t'] = p->d->value[tn__print_kind(p, at)]}};
  tn__print_line(p, "return %s;", tn__print_expand(p, result, &words));
  tn__print_brace(p, "};");
  p->name = names;
}

/* Where an operand's elements are: a pointer, or with a gate; or a sum of parts. */
static void put_operand(tn__printer *p, const tn__tile *tile, int side) {
  const char *name = side ? "columns" : "rows", *part = "tn_part<$t>{$0, (bool)$1}";
  const tn_node *buf = tile->load[side]->src[0];
  if (tile->part[side][0]) {
    put_function(p, tile, side, tn__print_format(p, "%s_line = [&](i32 line)", name), tile->part[side][0],
                 tile->part_gate[side][0], part);
    put_function(p, tile, side, tn__print_format(p, "%s_step = [&](i32 turn, i32 step)", name), tile->part[side][1],
                 tile->part_gate[side][1], part);
    tn__print_line(p, "auto %s = tn_join(b%" PRId64 ", %s_line, %s_step);", name, buf->ints[0], name, name);
    return;
  }
  const char *place = tn__print_format(p, "b%" PRId64 " + $0", buf->ints[0]);
  if (tile->gate[side]) place = tn__print_format(p, "tn_place<%s>{%s, (bool)$1}", p->d->cell[buf->dtype], place);
  put_function(p, tile, side, tn__print_format(p, "%s = [&](i32 line, i32 turn, i32 step)", name), tile->at[side],
               tile->gate[side], place);
}

static void put_tile(tn__printer *p, const tn__tile *tile) {
  static const char *const lie[] = {[TN__LIE_ACROSS] = "TN_ACROSS",
                                    [TN__LIE_STEPS] = "TN_STEPS",
                                    [TN__LIE_SINGLE] = "TN_SINGLE",
                                    [TN__LIE_SINGLE_STEPS] = "TN_SINGLE_STEPS"};
  int cells = tile->form->rows * tile->form->cols / tile->form->threads;
  put_operand(p, tile, 0);
  put_operand(p, tile, 1);
  tn__print_line(p, "f32 acc[%d];", cells);
  tn__print_line(p, "%s", p->d->group->unroll);
  tn__print_line(p, "for (i32 l = 0; l < %d; l++) acc[l] = 0;", cells);
  tn__print_line(p, "tn_tile_%s<%s, %s>(acc, rows, columns, %s, scratch);", tile->form->name, lie[tile->lie[0]],
                 lie[tile->lie[1]], tn__print_name(p, tile->turn->src[0]));
}

/* The accumulator of the element at hand: turns, then neighbours. */
static const char *tile_cell(tn__printer *p, const tn__tile *tile) {
  const char *at = "0";
  for (int i = 0; i < TN__DIGITS; i++)
    if (tile->digit[i])
      at = tn__print_format(p, "(%s * %d + %s)", at, tile->form->digit[i].extent, tn__print_name(p, tile->digit[i]));
  return tn__print_format(p, "acc[%s]", at);
}

/* ---- accumulators ---- */

/* A lane's cell of this group's among those of the block */
static const char *cell_at(tn__printer *p, const char *cells, const char *lane, int64_t lanes) {
  int groups = tn__groups_of_block(p->part);
  if (groups == 1) return tn__print_format(p, "%s[%s]", cells, lane);
  return p->part->across ? tn__print_format(p, "%s[(%s) * %d + g]", cells, lane, groups)
                         : tn__print_format(p, "%s[g * %" PRId64 " + %s]", cells, lanes, lane);
}

typedef struct combination { /* of an accumulator's lanes */
  tn_node *get;
  int op, dtype;
  int64_t lanes;
  const char *type, *own, *all, *cells; /* names: each thread's register, an array of its own, the group's cells */
} combination;

/* `count` cells, the first at `first` and the others `step` behind each other, as one in all[0] */
static void put_gathered(tn__printer *p, const combination *x, const char *all, const char *cells, const char *first,
                         int64_t count, int64_t step) {
  const char *lane =
      step == 1 ? tn__print_format(p, "%s + l", first) : tn__print_format(p, "%s + l * %" PRId64, first, step);
  tn__print_line(p, "%s %s[%" PRId64 "];", x->type, all, count);
  tn__print_line(p, "for (int l = 0; l < %" PRId64 "; l++) %s[l] = %s;", count, all, cell_at(p, cells, lane, x->lanes));
  tn__print_halves(p, x->op, x->dtype, all, all, count);
}

/* The threads of a group lie far apart: each reads all cells, or one of a column's, and then those of all columns. */
static void put_across(tn__printer *p, const combination *x) {
  int64_t columns = column_of(p->part, x->lanes);
  if (!columns) {
    put_gathered(p, x, x->all, x->cells, "0", x->lanes, 1);
    tn__print_value(p, x->get, tn__print_format(p, "%s[0]", x->all));
    return;
  }
  const char *part = tn__print_format(p, "p%s", x->own), *column = tn__print_format(p, "t %% %" PRId64, columns),
             *behind = tn__print_format(p, "%s + %" PRId64, x->cells, x->lanes * tn__groups_of_block(p->part));
  put_gathered(p, x, part, x->cells, column, x->lanes / columns, columns);
  tn__print_line(p, "if (t < %" PRId64 ") %s = %s[0];", columns,
                 cell_at(p, tn__print_format(p, "(%s)", behind), "t", columns), part);
  put_barrier(p);
  put_gathered(p, x, x->all, tn__print_format(p, "(%s)", behind), "0", columns, 1);
  tn__print_value(p, x->get, tn__print_format(p, "%s[0]", x->all));
}

static void put_by_halves(tn__printer *p, const combination *x) {
  const char *mine = cell_at(p, x->cells, "t", x->lanes), *other = cell_at(p, x->cells, "t + h", x->lanes);
  tn__print_line(p, "for (i32 h = %" PRId64 "; h; h /= 2) {", x->lanes / 2);
  p->depth++;
  tn__print_line(p, "if (t < h) %s = %s;", mine,
                 tn__print_apply(p, x->op, x->dtype, x->dtype, (const char *[]){mine, other}));
  put_barrier(p);
  tn__print_brace(p, "}");
  tn__print_value(p, x->get, cell_at(p, x->cells, "0", x->lanes));
}

/* Threads in step exchange what they have; of more lanes than run in step, each first takes its own of the cells. */
static void put_exchange(tn__printer *p, const combination *x) {
  const tn__group_words *w = p->d->group;
  bool in_step = is_in_step(p->part);
  int block = tn__threads_of_block(p->part), warp = block < p->part->subgroup ? block : p->part->subgroup;
  int64_t rest = !in_step && x->lanes > p->part->subgroup ? p->part->subgroup : x->lanes;
  uint32_t mask = warp < 32 ? (1u << warp) - 1 : UINT32_MAX; /* languages of masks have at most 32 */
  const char *lane = tn__print_format(p, "t & %" PRId64, x->lanes - 1);
  if (tn__groups_of_block(p->part) > 1 && p->part->group < p->part->subgroup)
    lane = tn__print_format(p, "(%s) + g %% %d * %d", lane, warp / p->part->group, p->part->group);
  tn__words words = {.word = {['0'] = x->own, ['1'] = lane, ['2'] = tn__print_format(p, "0x%" PRIx32, mask)}};
  if (!in_step) {
    put_gathered(p, x, x->all, x->cells, tn__print_format(p, "(t & %" PRId64 ")", rest - 1), x->lanes / rest, rest);
  } else { /* threads beyond the lanes take what those have, so that all come to the same */
    tn__print_line(p, "%s %s[1];", x->type, x->all);
    tn__print_line(p, "%s[0] = %s;", x->all, x->lanes < p->part->group ? tn__print_expand(p, w->take, &words) : x->own);
  }
  words.word['0'] = tn__print_format(p, "%s[0]", x->all);
  for (int64_t h = rest / 2; h; h /= 2) {
    words.word['1'] = tn__print_format(p, "%" PRId64, h);
    /* by itself: all threads must come by, whatever a choice would make them skip */
    const char *other = tn__print_format(p, "o%s_%" PRId64, x->own, h);
    tn__print_line(p, "const %s %s = %s;", x->type, other, tn__print_expand(p, w->swap, &words));
    tn__print_line(p, "%s = %s;", words.word['0'],
                   tn__print_apply(p, x->op, x->dtype, x->dtype, (const char *[]){words.word['0'], other}));
  }
  tn__print_value(p, x->get, words.word['0']);
}

/* The threads' registers as one value that all threads of the group have. */
static void put_combined(tn__printer *p, tn_node *n) {
  tn_node *acc = n->src[0];
  const tn__group_words *w = p->d->group;
  const char *own = tn__print_name(p, acc);
  int group = p->part->group;
  combination x = {.get = n,
                   .op = (int)n->ints[0],
                   .dtype = acc->dtype,
                   .lanes = acc->ints[1],
                   .type = p->d->value[acc->dtype],
                   .own = own,
                   .all = tn__print_format(p, "h%s", own),
                   .cells = tn__print_format(p, "c%s", own)};
  if (x.lanes > group)
    tn__fail(p->c, TN_ERUN, "kernel %s combines %" PRId64 " lanes of %d threads", p->k->name, x.lanes, group);
  if (set_bytes(p->part, w->swap)) {
    tn__print_line(p, "%s%s *%s = (%s%s *)(cells + turn);", w->shared, x.type, x.cells, w->shared, x.type);
    tn__print_line(p, "turn ^= %" PRId64 ";", set_bytes(p->part, w->swap));
    tn__print_line(p, "%s%s = %s;", x.lanes < group ? tn__print_format(p, "if (t < %" PRId64 ") ", x.lanes) : "",
                   cell_at(p, x.cells, "t", x.lanes), own);
    put_barrier(p);
  }
  if (p->part->across)
    put_across(p, &x);
  else if (!w->swap)
    put_by_halves(p, &x);
  else
    put_exchange(p, &x);
}

/* One register, or one for each neighbour. */
static void put_acc(tn__printer *p, tn_node *n) {
  const char *init = tn__print_name(p, n->src[0]), *name = tn__print_give(p, n, 'a', p->nacc++),
             *type = p->d->value[n->dtype];
  if (n->ints[2] == 1) {
    tn__print_line(p, "%s %s = %s;", type, name, init);
    return;
  }
  tn__print_line(p, "%s %s[%" PRId64 "];", type, name, n->ints[2]);
  tn__print_line(p, "%s", p->d->group->unroll);
  tn__print_line(p, "for (i32 l = 0; l < %" PRId64 "; l++) %s[l] = %s;", n->ints[2], name, init);
}

static const char *cell(tn__printer *p, tn_node *n) {
  const char *acc = tn__print_name(p, n->src[0]);
  return n->nsrc > 3 ? tn__print_format(p, "%s[%s]", acc, tn__print_name(p, n->src[3])) : acc;
}

static void put_getacc(tn__printer *p, tn_node *n) {
  if (tile_of(p) && n->src[0] == tile_of(p)->acc) tn__print_value(p, n, tile_cell(p, tile_of(p)));
  else if (combines(n)) put_combined(p, n);
  else tn__print_value(p, n, cell(p, n));
}

/* ---- divisions ---- */

/* Divisors of lanes that are computed outside of them. */
static void find_divisors(tn__printer *p) {
  tn__map inside;
  int lanes = 0;
  tn__map_init(&inside, &p->c->scratch);
  tn__map_init(&p->divisor, &p->c->scratch);
  for (uint32_t i = 0; i < p->part->n && p->d->group->divisor; i++) {
    tn_node *n = p->part->ins[i];
    if (n->op == OP_RANGE && n->ints[0] == AX_UPCAST) lanes++;
    if (n->op == OP_END && n->src[0]->ints[0] == AX_UPCAST) lanes--;
    if (lanes) tn__map_put(&inside, (uintptr_t)n, 1);
    if (!lanes || n->op != OP_DIV || n->dtype != TN_F32) continue;
    if (n->src[1]->op == OP_CONST || !tn__map_get(&inside, (uintptr_t)n->src[1], NULL))
      tn__map_put(&p->divisor, (uintptr_t)n->src[1], 1);
  }
}

static void put_divisor(tn__printer *p, tn_node *n) {
  if (n->op == OP_CONST || !tn__map_get(&p->divisor, (uintptr_t)n, NULL)) return;
  tn__words w = {.word = {['0'] = tn__print_name(p, n)}};
  tn__print_line(p, "const %s d%s = %s;", p->d->group->divisor, w.word['0'],
                 tn__print_expand(p, p->d->group->prepare[0], &w));
}

static bool put_division(tn__printer *p, tn_node *n) {
  if (n->op != OP_DIV || !in_lanes(p) || !tn__map_get(&p->divisor, (uintptr_t)n->src[1], NULL)) return false;
  tn__words by = {.word = {['0'] = tn__print_name(p, n->src[1])}},
            all = {.word = {['0'] = tn__print_name(p, n->src[0])}};
  all.word['1'] = n->src[1]->op == OP_CONST ? tn__print_expand(p, p->d->group->prepare[1], &by)
                                            : tn__print_format(p, "d%s", by.word['0']);
  tn__print_value(p, n, tn__print_expand(p, p->d->group->divide[tn__print_is_approximate(p, n)], &all));
  return true;
}

/* ---- loops ---- */

/* Is a thread's own scratch indexed by r?  As group.c writes it: slots are sums of products. */
/* a choice: either is right */
static bool indexes_own(const tn_node *access, const tn_node *r) {
  const tn_node *todo[2 * UNROLLED] = {access->src[1]};
  for (uint32_t at = 0, n = 1; at < n; at++) {
    if (todo[at] == r) return true;
    for (uint32_t s = 0; todo[at]->op != OP_RANGE && s < todo[at]->nsrc && n < 2 * UNROLLED; s++)
      todo[n++] = todo[at]->src[s];
  }
  return false;
}

/* A serial loop is unrolled if a thread's own scratch is indexed by it, for that to be registers. */
/* a choice: either is right */
static bool holds_own(const tn__printer *p, uint32_t start) {
  int64_t extent;
  if (!tn__const_int(p->part->ins[start]->src[0], &extent) || extent > UNROLLED) return false;
  if (tile_of(p)) return p->part->ins[start]->ints[0] == AX_LOOP;
  for (uint32_t i = start, end = end_of(p, start); i < end; i++)
    if (is_access(p->part->ins[i]) && threads_of(p->part->ins[i]->src[0]) &&
        indexes_own(p->part->ins[i], p->part->ins[start]))
      return true;
  return false;
}

static const char *number_of_group(tn__printer *p) {
  int n = tn__groups_of_block(p->part);
  const char *block = p->d->group->group;
  if (p->before) block = tn__print_format(p, "(%s - %" PRId64 ")", block, p->before);
  return n == 1 ? block : tn__print_format(p, "(%s * %d + g)", block, n);
}

static const char *number_of_groups(tn__printer *p) {
  int n = tn__groups_of_block(p->part);
  const char *blocks = p->blocks ? tn__print_format(p, "%" PRId64, p->blocks) : p->d->group->groups;
  return n == 1 ? blocks : tn__print_format(p, "(%s * %d)", blocks, n);
}

/* ---- several turns whose loads come first ---- */

enum {
  BATCH_BYTES = 64,     /* that a thread asks for in several turns, */
  BATCH_TURNS = 8,      /* of which there are at most so many; */
  MUCH_OF_TURN = 64,    /* instructions for which no compiler takes several turns at once, */
  MOST_OF_BATCH = 1024, /* and of all that are so taken here */
  MOST_THREADS = 1024   /* that a unit is to have room for: more have no registers left */
};

typedef struct batch {
  tn_node *load[MOST_POINTERS], *neighbours[MOST_POINTERS], *lanes;
  spot from[MOST_POINTERS];
  uint32_t n;
  int64_t turns;
} batch;

/* A load of neighbours at once, whose place and gate are known in front of all else that the turn does: may it stand
 * there?  *out: from where */
/* a choice: no is right */
static bool may_come_first(tn__printer *p, uint32_t start, tn_node *load, const tn_node *r, spot *out) {
  tn_node *gate = tn__gate_of(load), *first = r ? first_of(load->src[1], r) : NULL;
  return first && wide_type(p, load, r) && tn__is_packed(load, r) && !ends_at(gate, r) &&
         (!gate || (is_known_at(p, start, true, gate) && !tn__hangs_on(&p->c->scratch, gate, r))) &&
         find_spot(p, start, load, first, out);
}

/* The loads of a loop that is gone through turn by turn, if they are all that it loads, and if compilers do not ask for
 * several turns' at once: where each has a gate, or much is done in a turn.  Nothing may be stored in the loop, and no
 * threads meet. */
/* a choice: no is right */
static bool find_batch(tn__printer *p, uint32_t start, batch *out) {
  tn_node *r = p->part->ins[start];
  tn_node *inner = NULL;
  bool gated = false;
  double work = 0;
  int64_t bytes = 0;
  *out = (batch){0};
  bool crowded = p->part->beside * tn__threads_of_block(p->part) > MOST_THREADS;
  if (!p->d->group->from || crowded || tile_of(p) || r->hi < 1 || (r->ints[0] != AX_REDUCE && r->ints[0] != AX_LOOP))
    return false;
  for (uint32_t i = start + 1, end = end_of(p, start); i < end; i++) {
    tn_node *n = p->part->ins[i];
    if (n->op == OP_BARRIER || combines(n) || n->op == OP_STORE || n->op == OP_STOREADD) return false;
    if (n->op == OP_RANGE && n->ints[0] == AX_UPCAST && out->lanes) return false;
    if (n->op == OP_RANGE && n->ints[0] == AX_UPCAST) out->lanes = n;
    else if (n->op == OP_RANGE && (n->ints[0] != AX_UNROLL || inner)) return false;
    else if (n->op == OP_RANGE) inner = n;
    if (n->op == OP_END && n->src[0] == inner) inner = NULL;
    if (n->dtype != TN__INDEX && n->op != OP_END && n->op != OP_RANGE && !is_access(n))
      work += tn__instructions(n, false) * (inner ? (double)inner->hi + 1 : 1);
    if (n->op != OP_LOAD || threads_of(n->src[0])) continue;
    if (n->src[0]->op != OP_PARAM || out->n == MOST_POINTERS ||
        !may_come_first(p, start, n, inner, &out->from[out->n]))
      return false;
    gated |= tn__gate_of(n) && tn__hangs_on(&p->c->scratch, tn__gate_of(n), r);
    bytes += packed_bytes(n, inner);
    out->neighbours[out->n] = inner;
    out->load[out->n++] = n;
  }
  if (!out->n || !out->lanes || !tn__is_int_const(out->lanes->src[0], p->part->group)) return false;
  out->turns = BATCH_BYTES / bytes < BATCH_TURNS ? BATCH_BYTES / bytes : BATCH_TURNS;
  if (out->turns > r->hi + 1) out->turns = r->hi + 1;
  while (out->turns > 1 && (double)out->turns * work > MOST_OF_BATCH) out->turns--;
  return out->turns > 1 && (gated || work >= MUCH_OF_TURN);
}

static void open_turns(tn__printer *p, tn_node *r, const batch *b, const char *first, const char *turn) {
  const char *type = p->d->value[tn__print_kind(p, r)], *extent = tn__print_name(p, r->src[0]);
  tn__print_line(p, "%s", p->d->group->unroll);
  tn__print_line(p, "for (%s %s = 0; %s < %" PRId64 "; %s++) {", type, turn, turn, b->turns, turn);
  p->depth++;
  const char *at = tn__print_give(p, r, 'i', p->nloop++);
  tn__print_line(p, "const %s %s = %s + %s;", type, at, first, turn);
  if (!tn__divisible(r->src[0], b->turns)) tn__print_line(p, "if (%s >= %s) break;", at, extent);
}

/* What is loaded for neighbours in the turn: w0.all[..], under its gate */
static void put_of_turn(tn__printer *p, const batch *b, uint32_t i, const char *turn) {
  tn_node *n = b->load[i], *x = b->neighbours[i], *gate = tn__gate_of(n);
  if (gate) tn__print_deep(p, gate);
  const spot *from = &b->from[i];
  const char *first = tn__print_format(p, "q%" PRIu32 " + %s", from->number, sum_of(p, from->own, from->nown));
  for (int64_t k = 0; k < pieces(n, x); k++)
    tn__print_line(p, "%sw%" PRIu32 ".all[%s * %" PRId64 " + %" PRId64 "] = %s;",
                   gate ? tn__print_format(p, "if (%s) ", tn__print_name(p, gate)) : "", b->from[i].number, turn,
                   pieces(n, x), k, wide_from(p, n, x, first, k));
}

/* Opens the loop over batches, loads those of one, and opens the loop over its turns. */
static void open_batch(tn__printer *p, uint32_t start, batch *b) {
  tn_node *r = p->part->ins[start];
  const char *type = p->d->value[tn__print_kind(p, r)], *extent = tn__print_name(p, r->src[0]);
  const char *first = tn__print_format(p, "i%" PRIu32, p->nloop++);
  const char *turn = tn__print_format(p, "i%" PRIu32, p->nloop++);
  tn__map_putp(&p->name, b->lanes, "t");
  for (uint32_t i = 0; i < b->n; i++) {
    b->from[i].number = p->npacked;
    put_pointer(p, &b->from[i]);
  }
  tn__print_line(p, "%s 1", p->d->group->unroll);
  tn__print_line(p, "for (%s %s = 0; %s < %s; %s += %" PRId64 ") {", type, first, first, extent, first, b->turns);
  p->depth++;
  for (uint32_t i = 0; i < b->n; i++) {
    tn_node *n = b->load[i], *x = b->neighbours[i];
    int64_t each = x->hi + 1;
    tn__print_line(p, "union { %s all[%" PRId64 "]; %s x[%" PRId64 "]; } w%" PRIu32 ";", wide_type(p, n, x),
                   b->turns * pieces(n, x), p->d->cell[n->src[0]->dtype], b->turns * each, b->from[i].number);
    tn__map_putp(&p->batch, n,
                 (char *)tn__print_format(p, "w%" PRIu32 ".x[%s * %" PRId64 " + ", b->from[i].number, turn, each));
  }
  open_turns(p, r, b, first, turn);
  for (uint32_t i = 0; i < b->n; i++) put_of_turn(p, b, i, turn);
  tn__print_brace(p, "}");
  forget_names(p, start);
  open_turns(p, r, b, first, turn);
}

static void open_range(tn__printer *p, uint32_t start) {
  tn_node *r = p->part->ins[start];
  int64_t axis = r->ints[0];
  tn__open_loop o = {.start = start};
  const char *type = p->d->value[tn__print_kind(p, r)];
  tn__print_deep(p, r->src[0]);
  const char *extent = tn__print_name(p, r->src[0]);
  batch several;
  if (axis != AX_UPCAST && !holds_own(p, start) && find_batch(p, start, &several)) {
    open_batch(p, start, &several);
    o.batched = true;
    tn__vec_push(&p->c->scratch, &p->open, o);
    return;
  }
  if (axis == AX_UPCAST) {
    tn__map_putp(&p->name, r, "t");
    if (tn__is_int_const(r->src[0], p->part->group)) tn__print_line(p, "{");
    else tn__print_line(p, "if (t < %s) {", extent);
  } else {
    bool unroll = axis == AX_UNROLL || (axis != AX_GLOBAL && holds_own(p, start)); /* a choice: either is right */
    if (axis == AX_UNROLL) put_packs(p, start);
    if (unroll) put_pointers(p, start);
    if (axis == AX_UNROLL) put_early(p, start), put_late(p, start);
    if (unroll) tn__print_line(p, "%s", p->d->group->unroll); /* a choice: either is right */
    const char *i = tn__print_give(p, r, 'i', p->nloop++);
    if (axis != AX_GLOBAL) tn__print_line(p, "for (%s %s = 0; %s < %s; %s++) {", type, i, i, extent, i);
    else
      tn__print_line(p, "for (%s %s = (%s)%s; %s < %s; %s += (%s)%s) {", type, i, type, number_of_group(p), i, extent,
                     i, type, number_of_groups(p));
  }
  p->depth++;
  tn__vec_push(&p->c->scratch, &p->open, o);
  if (awaits(p, start)) tn__print_line(p, "%s", p->d->group->copied);
  if (axis == AX_GLOBAL && tile_of(p)) put_tile(p, tile_of(p));
}

/* Do the threads meet in this loop, all of whose turns are one group's? */
static bool meets(const tn__printer *p, uint32_t start) {
  if (p->part->ins[start]->ints[0] == AX_GLOBAL) return false;
  for (uint32_t i = start, end = end_of(p, start); i < end; i++)
    if (p->part->ins[i]->op == OP_BARRIER || combines(p->part->ins[i])) return true;
  return false;
}

static void close_range(tn__printer *p) {
  if (!p->open.n) tn__fail(p->c, TN_ERUN, "kernel %s closes a loop that is not open", p->k->name);
  uint32_t start = p->open.v[--p->open.n].start;
  tn__print_brace(p, "}");
  if (p->open.v[p->open.n].batched) {
    tn__print_brace(p, "}");
    tn__map_clear(&p->batch);
  }
  if (p->part->ins[start]->ints[0] == AX_UPCAST) tn__map_clear(&p->counted);
  if (p->part->ins[start]->ints[0] == AX_UNROLL) {
    put_packed_stores(p, start), put_late_stores(p, start);
    tn__map_clear(&p->packed), tn__map_clear(&p->copied), tn__map_clear(&p->late); /* another loop may say them again */
  }
  if (p->part->ins[start]->ints[0] != AX_UPCAST) tn__map_clear(&p->from);
  forget_names(p, start);
  if (p->d->group->meets_again && meets(p, start)) put_barrier(p);
}

/* ---- rows that are added in order, by who owns their places ---- */

static uint32_t put_instruction(tn__printer *p, uint32_t at);

static const char *all_of(tn__printer *p, const tn__nodes *conditions) {
  const char *all = "true";
  for (uint32_t i = 0; i < conditions->n; i++) {
    const char *one = tn__print_name(p, conditions->v[i]);
    all = i ? tn__print_format(p, "%s && %s", all, one) : one;
  }
  return all;
}

static void mark(tn__map *made, tn_node *n) { tn__map_putp(made, n, n); }

/* Marks what those of a turn that are marked are made of.  asked: loads that are not there only say what is added, and
 * go into the row. */
static void mark_sources(const tn__printer *p, const tn__turns *turns, const tn__map *asked, tn__map *row,
                         tn__map *made) {
  for (uint32_t at = turns->end; --at > turns->start;) {
    tn_node *n = p->part->ins[at];
    if (!tn__map_getp(made, n)) continue;
    bool waits = asked && n->op == OP_LOAD && !tn__map_getp(asked, n);
    if (waits) mark(row, n);
    for (uint32_t s = 0; s < n->nsrc && !waits; s++) mark(made, n->src[s]);
  }
}

/* ... of whether and where a turn stores; what, too */
static void mark_of_store(const tn__printer *p, const tn__turns *turns, tn__map *made, bool what) {
  tn__map_init(made, &p->c->scratch);
  for (uint32_t i = 0; i < turns->wanted.n; i++) mark(made, turns->wanted.v[i]);
  for (uint32_t i = 0; i < turns->inside.n; i++) mark(made, turns->inside.v[i]);
  mark(made, turns->store->src[1]);
  if (what) mark(made, turns->store->src[2]);
}

/* The head of a function of the turn, of a column, and of a row's values */
static const char *open_turn(tn__printer *p, const char *of, const tn__turns *turns, const tn__nodes *row) {
  tn_node *turn = p->part->ins[turns->start];
  const char *name = tn__print_format(p, "%s%" PRIu32, of, p->nloop);
  const char *given = tn__print_give(p, turn, 'i', p->nloop++);
  given = tn__print_format(p, "%s %s, %s t", p->d->value[tn__print_kind(p, turn)], given,
                          p->d->value[tn__print_kind(p, turns->lanes)]);
  for (uint32_t i = 0; i < row->n; i++)
    given = tn__print_format(p, "%s, %s %s", given, p->d->value[row->v[i]->dtype], tn__print_name(p, row->v[i]));
  tn__print_line(p, "auto %s = [&](%s) {", name, given);
  p->depth++;
  return name;
}

/* What of the turn is marked, but for what is given */
static void put_marked(tn__printer *p, const tn__turns *turns, const tn__map *made, const tn__map *given) {
  for (uint32_t at = turns->start + 1; at < turns->end; at++) {
    tn_node *n = p->part->ins[at];
    if (n == turns->lanes) {
      tn__map_putp(&p->name, n, "t");
      tn__vec_push(&p->c->scratch, &p->open, ((tn__open_loop){.start = at}));
    } else if (n->op == OP_END) p->open.n--;
    else if (tn__map_getp(made, n) && !tn__map_getp(given, n)) put_instruction(p, at);
  }
}

/* What is fetched for a turn: `row`, of those that are marked */
static const char *put_fetch(tn__printer *p, const tn__turns *turns, const tn__map *waits, tn__nodes *row) {
  const char *name = open_turn(p, "fetch", turns, &(tn__nodes){0}), *types = "", *values = "";
  tn__map made, none;
  tn__map_init(&made, &p->c->scratch);
  tn__map_init(&none, &p->c->scratch);
  for (uint32_t at = turns->start + 1; at < turns->end; at++)
    if (tn__map_getp(waits, p->part->ins[at])) tn__vec_push(&p->c->scratch, row, p->part->ins[at]);
  for (uint32_t i = 0; i < row->n; i++) mark(&made, row->v[i]);
  mark_sources(p, turns, NULL, NULL, &made);
  put_marked(p, turns, &made, &none);
  for (uint32_t i = 0; i < row->n; i++) {
    const char *comma = i ? ", " : "";
    types = tn__print_format(p, "%s%s%s", types, comma, p->d->value[row->v[i]->dtype]);
    values = tn__print_format(p, "%s%s%s", values, comma, tn__print_name(p, row->v[i]));
  }
  tn__print_line(p, "return tn_row<%s>{%s};", types, values);
  tn__print_brace(p, "};");
  return name;
}

/* A function of the turn: is it wanted, is the thread there, to which place, and what?  Gives its name.  fetch: that of
 * one behind which a turn that is wanted waits for no memory; NULL: there is none. */
static const char *put_turn(tn__printer *p, const char *of, const tn__turns *turns, const char **fetch) {
  tn_node *store = turns->store;
  bool stands = tn__stores_itself(store); /* what stands there is loaded where it is added to */
  tn__map asked, made, waits;
  tn__nodes row = {0};
  mark_of_store(p, turns, &asked, false);
  mark_of_store(p, turns, &made, !stands);
  tn__map_init(&waits, &p->c->scratch);
  mark_sources(p, turns, NULL, NULL, &asked);
  mark_sources(p, turns, fetch ? &asked : NULL, &waits, &made);
  if (fetch) *fetch = put_fetch(p, turns, &waits, &row);
  const char *name = open_turn(p, of, turns, &row);
  put_marked(p, turns, &made, &waits);
  tn__print_line(p, "return tn_turn<%s, %s>{%s, %s, %s, %s};", p->d->value[store->src[0]->dtype],
                 p->d->value[tn__print_kind(p, store->src[1])], all_of(p, &turns->wanted), all_of(p, &turns->inside),
                 tn__print_name(p, store->src[1]), stands ? "0" : tn__print_name(p, store->src[2]));
  tn__print_brace(p, "};");
  return name;
}

/* Such loops as a call. */
static bool put_owned(tn__printer *p, uint32_t start, uint32_t *end) {
  tn__owned of;
  if (!p->d->group->own_places || !tn__owns_places(&p->c->scratch, p->part, start, &of)) return false;
  const char *begin = put_turn(p, "begin", &of.begin, NULL), *fetch;
  for (uint32_t at = of.begin.end + 1; at < of.add.start; at++) put_instruction(p, at);
  const char *turn = put_turn(p, "turn", &of.add, &fetch);
  tn__words words = {.word = {['0'] = tn__print_format(p, "b%" PRId64, of.add.store->src[0]->ints[0]),
                              ['1'] = begin,
                              ['2'] = fetch,
                              ['3'] = turn,
                              ['n'] = tn__print_format(p, "%" PRId64, of.begin.count),
                              ['b'] = tn__print_format(p, "%" PRId64, of.add.count),
                              ['g'] = tn__print_format(p, "%d", p->part->group),
                              ['w'] = tn__print_format(p, "%" PRId64, of.begin.lanes->hi + 1),
                              ['s'] = of.begun ? "false" : "true"}};
  tn__print_line(p, "%s", tn__print_expand(p, p->d->group->own_places, &words));
  *end = of.add.end;
  return p->turns = true;
}

/* ---- a part ---- */

/* Gives the number of the instruction to go on behind. */
static uint32_t put_instruction(tn__printer *p, uint32_t at) {
  tn_node *n = p->part->ins[at];
  const tn__tile *tile = tile_of(p);
  uint32_t end;
  if (tn__map_get(&p->copied, (uintptr_t)n, NULL)) return at;
  if (tile && n == tile->acc) return at;
  if (tile && n == tile->steps) return end_of(p, at);
  if (n->op == OP_RANGE && put_owned(p, at, &end)) return end;
  switch (n->op) {
  case OP_RANGE: open_range(p, at); break;
  case OP_END: close_range(p); break;
  case OP_ACC: put_acc(p, n); break;
  case OP_SETACC: tn__print_setacc(p, n, cell(p, n)); break;
  case OP_GETACC: put_getacc(p, n); break;
  case OP_LOAD: put_load(p, n); break;
  case OP_STORE: case OP_STOREADD: put_store(p, n); break;
  case OP_BARRIER: put_barrier(p); break;
  default:
    if (!put_division(p, n)) tn__print_plain(p, n);
  }
  if (!in_lanes(p)) put_divisor(p, n);
  return at;
}

static void put_signature(tn__printer *p, uint32_t number) {
  const tn__group_words *w = p->d->group;
  const char *name = tn__print_format(p, "%s_%" PRIu32, p->k->name, number),
             *threads = tn__print_format(p, "%d", tn__threads_of_launch(p->k, number));
  int beside = !w->tiles ? 0 : tile_of(p) ? tile_of(p)->form->beside : p->part->beside;
  if (beside) threads = tn__print_format(p, "%s, %d", threads, beside);
  tn__sb_puts(p->out, "\n");
  tn__sb_puts(p->out, tn__print_expand(p, w->kernel, &(tn__words){.word = {['k'] = name, ['g'] = threads}}));
  for (uint32_t a = 0; a < p->k->nbuf + p->k->nvar; a++) {
    bool is_buffer = a < p->k->nbuf;
    const char *position = tn__print_format(p, "%" PRIu32, a),
               *own = is_buffer ? position : tn__print_format(p, "%" PRIu32, a - p->k->nbuf);
    tn__words words = {
        .word = {['i'] = own, ['j'] = position, ['t'] = is_buffer ? p->d->cell[p->k->buf_dtype[a]] : NULL}};
    tn__sb_printf(p->out, "%s%s", a ? ", " : "",
                  tn__print_expand(p, is_buffer ? w->buffer[p->k->buf_written[a] != 0] : w->variable, &words));
  }
  tn__sb_printf(p->out, "%s) {\n", w->last);
}

static void put_shared(tn__printer *p, const char *declaration, int64_t bytes) {
  if (!declaration || !bytes) return;
  tn__words words = {.word = {['b'] = tn__print_format(p, "%" PRId64, bytes)}};
  tn__print_line(p, "%s", tn__print_expand(p, declaration, &words));
}

/* The sources of the part's instructions, and what its global range's extent is made of. */
static void find_used(const tn__printer *p, tn__map *used) {
  tn__nodes extent = {0};
  tn__map_init(used, &p->c->scratch);
  for (uint32_t i = 0; i < p->part->n; i++)
    for (uint32_t s = 0; s < p->part->ins[i]->nsrc; s++) tn__map_put(used, (uintptr_t)p->part->ins[i]->src[s], 1);
  if (p->part->global) tn__topo(&p->c->scratch, &p->part->global->src[0], 1, &extent);
  for (uint32_t i = 0; i < extent.n; i++) tn__map_put(used, (uintptr_t)extent.v[i], 1);
}

static void put_local(tn__printer *p, const tn_node *local, int64_t at) {
  const char *type = p->d->cell[local->dtype], *shared = p->d->group->shared;
  int64_t threads = threads_of(local);
  if (threads)
    tn__print_line(p, "%s l%" PRId64 "[%" PRId64 "];", p->d->value[local->dtype], local->ints[0],
                   (local->src[0]->hi + threads - 1) / threads);
  else
    tn__print_line(p, "%s%s *l%" PRId64 " = (%s%s *)(scratch + %" PRId64 ");", shared, type, local->ints[0], shared,
                   type, at);
}

/* Are there quotients of a thread's number? */
/* a choice: either is right */
static bool divides_lanes(const tn__part *part) {
  for (uint32_t i = 0; i < part->n; i++) {
    const tn_node *n = part->ins[i];
    bool quotient = (n->op == OP_IDIV || n->op == OP_MOD) && n->src[1]->op == OP_CONST;
    if (quotient && n->src[0]->op == OP_RANGE && n->src[0]->ints[0] == AX_UPCAST) return true;
  }
  return false;
}

/* The thread's number in its group; of several groups in a block, which.  No compiler knows that it is below the number
 * of threads: it is said for quotients to be shifts, and for bounds that hold to go, where that is one instruction. */
static void put_numbers(tn__printer *p) {
  const char *word = p->d->group->thread;
  int groups = tn__groups_of_block(p->part), run = p->part->across && groups > 1 ? groups : p->part->group;
  const char *slow = tn__print_format(p, "(%s / %d)", word, run);
  const char *fast = tn__print_format(p, "(%s %% %d)", word, run);
  if (groups == 1 && ((run & (run - 1)) || !divides_lanes(p->part))) fast = word;
  tn__print_line(p, "const i32 t = (i32)%s;", p->part->across && groups > 1 ? slow : fast);
  if (groups > 1) tn__print_line(p, "const i32 g = (i32)%s;", p->part->across ? fast : slow);
}

/* Of all parts of a launch: what stands in front of them, and the memory that groups share */
static void put_memory(tn__printer *p, uint32_t from, uint32_t end) {
  const tn__group_words *w = p->d->group;
  tn__map used;
  bool in_memory = false;
  int64_t cells = 0;
  for (uint32_t n = from; n < end; n++) {
    p->part = &p->k->part[n];
    in_memory |= tile_of(p) != NULL;
    find_used(p, &used);
    for (uint32_t l = 0; l < p->k->nlocal; l++)
      in_memory |= tn__map_get(&used, (uintptr_t)p->k->local[l], NULL) && !threads_of(p->k->local[l]);
    if (set_bytes(p->part, w->swap) > cells) cells = set_bytes(p->part, w->swap);
  }
  if (w->begin) tn__print_line(p, "%s", w->begin);
  for (uint32_t b = 0; b < p->k->nbuf && w->renew; b++)
    tn__print_line(p, "%s",
                   tn__print_expand(p, w->renew, &(tn__words){.word = {['i'] = tn__print_format(p, "%" PRIu32, b)}}));
  if (in_memory) put_shared(p, w->scratch, p->k->shared);
  put_shared(p, w->cells, 2 * cells);
}

static void put_declarations(tn__printer *p) {
  const tn__group_words *w = p->d->group;
  tn__map used;
  find_used(p, &used);
  if (set_bytes(p->part, w->swap)) tn__print_line(p, "i32 turn = 0;");
  put_numbers(p);
  for (uint32_t b = 0; b < p->k->nbuf && w->place[0]; b++) {
    tn__words words = {.word = {['i'] = tn__print_format(p, "%" PRIu32, b), ['t'] = p->d->cell[p->k->buf_dtype[b]]}};
    tn__print_line(p, "%s", tn__print_expand(p, w->place[p->k->buf_written[b] != 0], &words));
  }
  for (uint32_t l = 0; l < p->k->nlocal; l++)
    if (tn__map_get(&used, (uintptr_t)p->k->local[l], NULL)) put_local(p, p->k->local[l], p->k->local_at[l]);
  for (uint32_t v = 0; v < p->k->nvar; v++) {
    if (!tn__map_get(&used, (uintptr_t)p->k->var[v], NULL)) continue;
    const char *type = p->d->value[tn__print_kind(p, p->k->var[v])];
    tn__print_line(p, "const %s s%" PRIu32 " = (%s)n%" PRIu32 ";", type, v, type, v);
    tn__print_give(p, p->k->var[v], 's', v);
  }
}

static void put_part(tn__printer *p) {
  if (p->part->group < 1)
    tn__fail(p->c, TN_ERUN, "kernel %s is not for work groups, which %s needs", p->k->name, p->d->name);
  p->npacked = 0;
  tn__map_init(&p->packed, &p->c->scratch);
  tn__map_init(&p->copied, &p->c->scratch);
  tn__map_init(&p->late, &p->c->scratch);
  tn__map_init(&p->from, &p->c->scratch);
  tn__map_init(&p->batch, &p->c->scratch);
  tn__map_init(&p->counted, &p->c->scratch);
  put_declarations(p);
  find_divisors(p);
  for (uint32_t at = 0; at < p->part->n; at++) at = put_instruction(p, at);
}

/* For as many threads of a block as the part has */
static void put_some(tn__printer *p, int threads) {
  bool some = tn__threads_of_block(p->part) < threads;
  if (some) tn__print_line(p, "if (%s < %d) {", p->d->group->thread, tn__threads_of_block(p->part));
  p->depth += some;
  put_part(p);
  if (some) tn__print_brace(p, "}");
}

/* One of several parts of a launch: for its blocks. */
static void put_branch(tn__printer *p, uint32_t number, int threads, bool last) {
  const tn__group_words *w = p->d->group;
  const char *other = p->before ? "} else " : "";
  tn__print_begin(p, number);
  p->blocks = tn__fixed_blocks(p->part);
  p->depth -= p->before > 0;
  if (last) tn__print_line(p, "%s{", other);
  else tn__print_line(p, "%sif (%s < %" PRId64 ") {", other, w->group, p->before + p->blocks);
  p->depth++;
  put_some(p, threads);
  p->before += p->blocks;
}

/* One of several parts that a block goes through: what it stores all threads may load behind it. */
static void put_stage(tn__printer *p, uint32_t number, int threads, bool last) {
  tn__print_begin(p, number);
  tn__print_line(p, "{");
  p->depth++;
  put_some(p, threads);
  tn__print_brace(p, "}");
  if (!last) tn__print_line(p, "%s", p->d->group->barrier[0]);
}

void tn__print_group(tn__printer *p, uint32_t part, uint32_t end) {
  int threads = tn__threads_of_launch(p->k, part);
  put_signature(p, part);
  p->depth = 1;
  put_memory(p, part, end);
  p->before = p->blocks = 0;
  p->part = &p->k->part[part];
  bool stages = tn__has_stages(p->k, part);
  if (end == part + 1) put_part(p);
  for (uint32_t n = part; end > part + 1 && n < end; n++)
    (stages ? put_stage : put_branch)(p, n, threads, n + 1 == end);
  if (p->before) tn__print_brace(p, "}");
  p->before = p->blocks = 0;
  tn__print_brace(p, "}");
}
