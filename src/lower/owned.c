/* Sums of rows that are added to places of memory in order, by groups that own the places.
 *
 * A scatter of floats is a loop over the updates whose turns may meet, so that no pass shares it out: a device would
 * leave it to the threads of one row.  Here every group goes through all updates, and adds only those that go to
 * places of its own: the places of a class (place % classes), so that neighbours, which are often asked for more than
 * others, are different groups', and a block of columns, one for each of the group's threads, or of a part of them: of
 * narrow rows it has some abreast.
 *
 * Needs a body of one STOREADD, in the order of loops that nobody shares out, behind the STORE of what all places begin
 * with.  Gives a body of both, in one group's loop: each group stores what its places begin with, and then goes through
 * the updates.  A thread alone stores and adds to a place, so nobody waits, and the sum is the one of the order given.
 *
 * That most turns do nothing is not seen in the body.  A language may say it (tn__owns_places): the group's threads
 * share out the question which turns are wanted, put these in order of place, and go on with those alone, rows abreast
 * each with its own places; what places begin with they then need not read.  As plain loops, the threads of one row do
 * it all.
 *
 * Of rows of few columns a group's threads store less than memory takes, so that what many such places begin with is
 * better stored before, by plain loops in a launch of their own (the variant "begun"): then each group's first loop
 * stores what it loads, which a language that says turns need not do.
 *
 * Step noted: owns(CxB): C classes of places by B blocks of columns. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

typedef struct owned {
  tn_node *param, *fill; /* what is added to, and the store of what its places begin with */
  tn_node *turn[TN__MAX_RANGES], *column[TN__MAX_RANGES], *filled[TN__MAX_RANGES];
  uint32_t turns, columns, nfilled;
  int64_t places, width; /* of a row */
} owned;

/* The loops of a store, by axis; false: one has no constant length, or another axis */
/* a choice: no is right */
static bool loops_of(const tn_node *store, int axis, tn_node **x, uint32_t *n, int64_t *volume) {
  uint32_t first;
  *n = 0, *volume = 1;
  if (!tn__closes(store, &first)) return false;
  for (uint32_t i = first; i < store->nsrc; i++) {
    int64_t size;
    int of = tn__axis_of(store->src[i]);
    if (of != AX_LOOP && of != AX_ORDER) return false;
    if (of != axis) continue;
    if (!tn__const_int(store->src[i]->src[0], &size) || size < 1 || size > INT32_MAX / *volume) return false;
    x[(*n)++] = store->src[i];
    *volume *= size;
  }
  return *n > 0;
}

static bool loads_from(tn__arena *a, tn_node *body, const tn_node *param) {
  tn__nodes all = {0};
  tn__topo(a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_LOAD && tn__buffer_of(all.v[i]) == param) return true;
  return false;
}

/* a choice: no is right */
static bool find(tn_ctx *c, tn__arena *a, tn_node *body, owned *o) {
  tn__survey s;
  tn_node *add = body->nsrc == 1 ? body->src[0] : NULL;
  if (!add || add->op != OP_STOREADD || tn__combines_by(add) != OP_ADD || add->src[0]->op != OP_AFTER) return false;
  const tn_node *after = add->src[0];
  tn_node *fill = after->nsrc == 2 ? after->src[1] : NULL;
  o->param = after->src[0], o->fill = fill;
  int dtype = o->param->dtype;
  if (o->param->op != OP_PARAM || (dtype != TN_F32 && dtype != TN_F64) || add->src[2]->dtype != dtype) return false;
  if (!fill || fill->op != OP_STORE || fill->src[0] != o->param || tn__gate_of(fill)) return false;
  int64_t all, updates;
  if (!loops_of(fill, AX_LOOP, o->filled, &o->nfilled, &all) ||
      !loops_of(add, AX_ORDER, o->turn, &o->turns, &updates) ||
      !loops_of(add, AX_LOOP, o->column, &o->columns, &o->width) || all % o->width)
    return false;
  o->places = all / o->width;
  tn__survey_loops(c, a, body, &s);
  return o->places > 1 && updates <= TN__MOST_TURNS && !s.reduces && !s.running && !loads_from(a, body, o->param);
}

/* a choice: either is right */
bool tn__has_owned_places(tn_ctx *c, const tn__target *target, tn_node *body) {
  owned o;
  return tn__target_owns(target) && find(c, &c->scratch, body, &o);
}

/* K of K * width + column; NULL: it is not that */
static tn_node *row_of(const tn_node *index, const tn_node *column, int64_t width) {
  if (index->op != OP_ADD || (index->src[0] != column && index->src[1] != column)) return NULL;
  const tn_node *start = index->src[index->src[0] == column];
  bool row = start->op == OP_MUL && tn__is_int_const(start->src[1], width) && start->src[0]->lo >= 0;
  return row ? start->src[0] : NULL;
}

/* What a group and its threads have */
typedef struct share {
  tn_node *group, *lane; /* loops */
  tn_node *own;          /* which class */
  tn_node *column, *inside; /* inside: NULL: it always is */
  tn__owners by;
} share;

static share share_of(tn__lowering *l, const owned *o) {
  tn_ctx *c = l->c;
  share s = {.by = tn__owners_of(l->target, o->places, o->width)};
  s.group = tn__fresh_range(l, tn__int(c, s.by.classes * s.by.blocks), AX_LOOP, ROLE_OUTPUT);
  s.lane = tn__fresh_range(l, tn__int(c, s.by.columns), AX_UPCAST, ROLE_OUTPUT);
  tn_node *block = tn__op2(c, OP_MOD, s.group, tn__int(c, s.by.blocks));
  s.own = tn__op2(c, OP_IDIV, s.group, tn__int(c, s.by.blocks));
  s.column = tn__add(c, tn__mul(c, block, tn__int(c, s.by.columns)), s.lane);
  if (o->width % s.by.columns) s.inside = tn__op2(c, OP_LT, s.column, tn__int(c, o->width));
  return s;
}

/* What all places begin with, each by who owns it */
static tn_node *begin(tn__lowering *l, const owned *o, const share *s) {
  tn_ctx *c = l->c;
  int64_t turns = (o->places + s->by.classes - 1) / s->by.classes;
  tn_node *turn = tn__fresh_range(l, tn__int(c, turns), AX_LOOP, ROLE_OUTPUT), *all;
  tn_node *place = tn__add(c, tn__mul(c, turn, tn__int(c, s->by.classes)), s->own);
  tn_node *at = tn__add(c, tn__mul(c, place, tn__int(c, o->width)), s->column);
  tn_node *fill = o->fill, *body = tn__as_one(l, tn__sink(c, &fill, 1, "part"), o->filled, o->nfilled, AX_LOOP, &all);
  body = tn__exchange_ranges(l, body, &all, &at, 1, (tn_node *[]){s->group, turn, s->lane}, 3);
  if (o->places % s->by.classes)
    body = tn__gate_accesses(l, body, tn__op2(c, OP_LT, place, tn__int(c, o->places)), turn, NULL);
  if (s->inside) body = tn__gate_accesses(l, body, s->inside, s->lane, NULL);
  return tn__simplify_accesses(c, l->a, body);
}

static tn_node *add_to_own(tn__lowering *l, tn_node *body, const owned *o, const share *s, tn_node *turn,
                           tn_node *column) {
  tn_ctx *c = l->c;
  tn_node *add = body->src[0], *row = row_of(add->src[1], column, o->width), *gate = tn__gate_of(add);
  if (!row) return NULL;
  tn_node *classes = tn__int(c, s->by.classes);
  tn_node *mine = tn__op2(c, OP_EQ, tn__op2(c, OP_MOD, row, classes), s->own);
  tn_node *own = tn__add(c, tn__mul(c, tn__op2(c, OP_IDIV, row, classes), classes), s->own);
  tn_node *at = tn__add(c, tn__mul(c, own, tn__int(c, o->width)), column);
  tn_node *src[] = {add->src[0], at, add->src[2], gate ? tn__op2(c, OP_AND, gate, mine) : mine, turn, column};
  add = tn__node_make(c, &(tn__make){.op = OP_STOREADD, .src = src, .nsrc = 6});
  body = tn__exchange_ranges(l, tn__sink(c, &add, 1, "part"), &column, &s->column, 1,
                             (tn_node *[]){s->group, s->lane}, 2);
  if (s->inside) body = tn__gate_accesses(l, body, s->inside, s->lane, NULL);
  return tn__simplify_accesses(c, l->a, body);
}

/* What all places begin with stands there before groups begin, by plain loops as they meet the machine best, in a
 * launch of its own. */
static void stand_before(tn__lowering *l, const owned *o, tn_node *store[2]) {
  tn_node *fill = o->fill, *all = tn__optimise_loops(l, tn__sink(l->c, &fill, 1, "part"));
  if (l->threads || all->nsrc != 1 || all->src[0]->op != OP_STORE)
    tn__fail(l->c, TN_ESTATE, "internal: what places begin with is no store of plain loops");
  tn_node *src[] = {o->param, all->src[0]};
  tn_node *to = tn__node_make(l->c, &(tn__make){.op = OP_AFTER, .src = src, .nsrc = 2});
  tn_node *gate = tn__gate_of(store[0]);
  tn_node *from[] = {to, store[0]->src[1], gate};
  tn_node *itself = tn__node_make(l->c, &(tn__make){.op = OP_LOAD, .dtype = o->param->dtype, .src = from,
                                                    .nsrc = gate ? 3 : 2});
  for (int i = 0; i < 2; i++) {
    tn_node *with[TN__MAX_RANGES + 4];
    for (uint32_t s = 0; s < store[i]->nsrc; s++) with[s] = store[i]->src[s];
    with[0] = to;
    if (!i) with[2] = itself;
    store[i] = tn__node_with(l->c, store[i], with);
  }
}

tn_node *tn__own_places(tn__lowering *l, tn_node *body) {
  tn_ctx *c = l->c;
  owned o;
  if (!tn__target_owns(l->target) || !find(c, l->a, body, &o)) return body;
  tn_node *turn, *column, *src[TN__MAX_RANGES + 4];
  tn_node *add = body->src[0];
  for (uint32_t i = 0; i < add->nsrc; i++) src[i] = i ? add->src[i] : o.param;
  add = tn__node_with(c, add, src);
  add = tn__sink(c, &add, 1, "part");
  add = tn__as_one(l, add, o.turn, o.turns, AX_ORDER, &turn);
  add = tn__as_one(l, add, o.column, o.columns, AX_LOOP, &column);
  share s = share_of(l, &o);
  add = add_to_own(l, add, &o, &s, turn, column);
  if (!add) return body;
  tn_node *store[] = {begin(l, &o, &s)->src[0], add->src[0]};
  if (l->variant->begun) stand_before(l, &o, store);
  tn__sb_printf(&l->note, " owns(%lldx%lld)", (long long)s.by.classes, (long long)s.by.blocks);
  l->threads = s.by.columns * s.by.abreast;
  l->owns = true;
  return tn__sink(c, store, 2, body->name);
}
