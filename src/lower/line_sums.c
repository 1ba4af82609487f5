/* Sums along lines by a key, a place of the line for each.  Asked one by one, each place would go through all terms of
 * its line; in scratch memory each term is added at its place at once.
 *
 * Needs a body of one store, in the loops of lines (outside of the place's, and inside of it) and in that of places,
 * with one sum, of the terms whose key is the place's number.  Gives a body in which each group has some whole
 * lines:
 *
 *   a table in shared memory has a sum for each place of each line, which is cleared;
 *   threads go through the terms as they lie, and leave there keys and what is added, line by line;
 *   a thread goes along each line, in the order of its terms, and adds them to the line's places;
 *   and all threads go through the places as they lie, to store what is made of their sums.
 *
 * A line's places are one thread's, so that nobody waits, and the order of additions stays: what the others would add
 * changes nothing, so results do not change, to the bit.
 *
 * Step noted: sums(a,b) lines(OxI): the terms of loop b, for the turns of loop a, O lines outside of that by I inside a
 * group. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  AT_ONCE = 8,         /* terms of a line that a thread has at hand before it adds them: it loads them at once; */
  MOST_FETCHED = 64,   /* terms of a thread, which are written out: threads of other turns might meet where they leave
                        * them, for all that their places show, and would wait for each other; */
  AT_ONCE_FETCHED = 4, /* so many times neighbours that it fetches, */
  AT_ONCE_STORED = 2,  /* or stores, at once */
  WORD = 4             /* bytes of a bank of shared memory */
};

typedef struct lines {
  tn__lowering *l;
  tn_ctx *c;
  const tn__key_sum *of;
  tn_node *turn, *outer, *inner; /* loops: NULL: there is one line */
  tn__line_size size;
  tn__line_share by;
  tn_node *group;
  bool constant; /* what is added */
} lines;

static tn_node *number(const lines *s, int64_t v) { return tn__int(s->c, v); }

static tn_node *loop(const lines *s, int64_t n, int axis, tn__role role) {
  return n == 1 ? number(s, 0) : tn__fresh_range(s->l, number(s, n), axis, role);
}

static tn_node *at(const lines *s, tn_node *x, int64_t by, tn_node *y) {
  return tn__add(s->c, tn__mul(s->c, x, number(s, by)), y);
}

static tn_node *div(const lines *s, tn_node *x, int64_t by) {
  return by == 1 ? x : tn__op2(s->c, OP_IDIV, x, number(s, by));
}
static tn_node *mod(const lines *s, tn_node *x, int64_t by) {
  return by == 1 ? number(s, 0) : tn__op2(s->c, OP_MOD, x, number(s, by));
}

/* Scratch memory of the group's turn */
static tn_node *scratch(const lines *s, int dtype, int64_t elements) {
  tn_node *src[] = {number(s, elements), s->group};
  return tn__node_make(s->c, &(tn__make){.op = OP_LOCAL, .dtype = dtype, .src = src, .nsrc = 2,
                                         .ints = (int64_t[]){s->l->next_local++, 0}, .nint = 2, .device = -1});
}

static tn_node *load(const lines *s, tn_node *from, tn_node *place) {
  return tn__node_make(s->c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){from, place}, .nsrc = 2});
}

/* A store or an addition; gate: NULL: always */
static tn_node *effect(const lines *s, tn__op op, tn_node *buf, tn_node *place, tn_node *value, tn_node *gate,
                       tn_node *const *own, uint32_t n) {
  tn_node *src[4 + 4] = {buf, place, value, gate};
  uint32_t m = gate ? 4 : 3;
  for (uint32_t i = 0; i < n; i++)
    if (own[i]->op == OP_RANGE) src[m++] = own[i];
  return tn__node_make(s->c, &(tn__make){.op = op, .src = src, .nsrc = m});
}

/* n elements by all threads, some neighbours of each, and several such at once, one behind the other: in four loops, in
 * which `at` may be beyond the end; `all`: of all turns.  Places are worked out of the element's number, `flat`, before
 * that is given its form, which hides what quotients and remainders have in common. */
typedef struct walk {
  tn_node *own[4], *flat, *at;
  int64_t n, all;
} walk;

static int64_t whole(int64_t n, int64_t by) { return (n + by - 1) / by * by; }

static walk over(const lines *s, int64_t n) { return (walk){.flat = loop(s, n, AX_LOOP, ROLE_MARK), .n = n}; }

static void share_out(const lines *s, walk *w, int64_t near, int64_t several, tn__role turns) {
  tn_ctx *c = s->c;
  int64_t threads = s->by.threads, each = threads * near * several;
  w->all = whole(w->n, each);
  w->own[0] = loop(s, w->all / each, AX_LOOP, turns), w->own[1] = loop(s, threads, AX_UPCAST, ROLE_KEPT);
  w->own[2] = loop(s, several, AX_UNROLL, ROLE_KEPT), w->own[3] = loop(s, near, AX_UNROLL, ROLE_KEPT);
  tn_node *first = at(s, at(s, w->own[0], several, w->own[2]), threads, w->own[1]);
  w->at = tn__add(c, tn__mul(c, first, number(s, near)), w->own[3]);
}

/* Neighbours that are one access of the widest of what x, which is made of `flat`, loads or stores in memory, where as
 * many make what lies together.  One: some of that does not lie side by side. */
/* a choice: any is right */
static int64_t neighbours(const lines *s, const walk *w, tn_node *x) {
  tn__nodes all = {0};
  int64_t widest = 1, n = s->by.inner == s->size.inner ? w->n : s->size.inner;
  tn__topo(s->l->a, &x, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    const tn_node *a = all.v[i];
    if (!tn__is_access(a) || tn__buffer_of(a)->op != OP_PARAM || !tn__hangs_on(s->l->a, a->src[1], w->flat)) continue;
    int64_t size = (int64_t)tn__size_of(tn__buffer_of(a)->dtype);
    tn_node *first = tn__simplify_index(s->c, tn__sub(s->c, a->src[1], w->flat));
    if (tn__hangs_on(s->l->a, first, w->flat)) return 1;
    if (size > widest) widest = size;
  }
  int64_t near = s->l->target->access / widest;
  while (near > 1 && n % near) near /= 2;
  return near > 1 ? near : 1;
}

/* What is made of the element's number, of what it is made of */
static tn_node *formed(const lines *s, const walk *w, tn_node *x) {
  tn_node *flat = w->flat, *form = w->at;
  x = tn__simplify_accesses(s->c, s->l->a, x);
  return tn__simplify_accesses(s->c, s->l->a, tn__substitute(s->c, x, &flat, &form, 1));
}

/* A store of its elements */
static tn_node *stored(const lines *s, const walk *w, tn_node *local, tn_node *place, tn_node *value) {
  tn_node *store = effect(s, OP_STORE, local, place, value, NULL, w->own, 4), *inside = NULL;
  store = formed(s, w, tn__sink(s->c, &store, 1, "part"))->src[0];
  if (w->all == w->n) return store;
  inside = tn__op2(s->c, OP_LT, w->at, number(s, w->n));
  return tn__gate_accesses(s->l, tn__sink(s->c, &store, 1, "part"), inside, w->own[1], NULL)->src[0];
}

/* An element of a group's lines: of which line, outside and inside, and the term or place */
typedef struct spot {
  tn_node *outer, *inner, *turn;
} spot;

/* Element f of lines that are so long and lie as memory does */
static spot spot_of(const lines *s, tn_node *f, int64_t length) {
  return (spot){div(s, f, length * s->by.inner), mod(s, f, s->by.inner), mod(s, div(s, f, s->by.inner), length)};
}

static int64_t blocks_inside(const lines *s) { return (s->size.inner + s->by.inner - 1) / s->by.inner; }

/* Which lines of all these are; and are they there? */
static spot in_all(const lines *s, const spot *x) {
  int64_t inside = blocks_inside(s);
  return (spot){at(s, div(s, s->group, inside), s->by.outer, x->outer),
                at(s, mod(s, s->group, inside), s->by.inner, x->inner), x->turn};
}

static tn_node *is_there(const lines *s, const spot *all) {
  tn_node *gate = NULL;
  if (s->size.outer % s->by.outer) gate = tn__op2(s->c, OP_LT, all->outer, number(s, s->size.outer));
  if (s->size.inner % s->by.inner == 0) return gate;
  tn_node *inside = tn__op2(s->c, OP_LT, all->inner, number(s, s->size.inner));
  return gate ? tn__op2(s->c, OP_AND, gate, inside) : inside;
}

static int64_t lines_of(const lines *s) { return s->by.outer * s->by.inner; }

/* x, a value of each term, there */
static tn_node *of_term(const lines *s, tn_node *x, const spot *all) {
  tn_node *old[3] = {s->of->term}, *new_[3] = {all->turn};
  uint32_t n = 1;
  if (s->outer) old[n] = s->outer, new_[n++] = all->outer;
  if (s->inner) old[n] = s->inner, new_[n++] = all->inner;
  return tn__simplify_accesses(s->c, s->l->a, tn__substitute(s->c, x, old, new_, n));
}

static tn_node *key_inside(const lines *s, tn_node *key) {
  tn_node *places = number(s, s->size.places);
  return tn__op2(s->c, OP_AND, tn__op2(s->c, OP_LE, number(s, 0), key), tn__op2(s->c, OP_LT, key, places));
}

/* Sums of a line in the table: one more where lines that lie side by side would have equal places in one bank */
static int64_t row_of_table(const lines *s) {
  bool even = s->by.inner == 1 && s->by.outer > 1 && s->size.places % 2 == 0; /* a choice: either is right */
  return s->size.places + even;
}

static tn_node *in_table(const lines *s, const spot *x) {
  return at(s, at(s, x->outer, row_of_table(s), x->turn), s->by.inner, x->inner);
}

/* ---- fetched ---- */

static int key_dtype(int64_t places) {
  return places <= UINT8_MAX ? TN_U8 : places <= UINT16_MAX ? TN_U16 : TN_U32;
}

/* Halves are kept as they are. */
static tn_node *narrow_value(tn_node *x) {
  return x->op == OP_CAST && tn__is_float(x->dtype) && tn__is_float(x->src[0]->dtype) &&
                 tn__size_of(x->src[0]->dtype) < tn__size_of(x->dtype)
             ? x->src[0]
             : x;
}

/* Elements of a line, with what keeps those of lines that lie side by side in different banks, wherever threads load
 * some at once */
static int64_t padded(const lines *s, int dtype) {
  int64_t n = whole(s->size.updates, AT_ONCE), each = AT_ONCE * (int64_t)tn__size_of(dtype) / WORD;
  return each >= 2 && n / AT_ONCE % 2 == 0 ? n + AT_ONCE : n;
}

/* What all terms' keys, or values, are, line by line */
typedef struct fetched {
  tn_node *key, *value; /* value: NULL: it is a constant */
} fetched;

/* Where, by `flat`, the last group's lines end, whose elements are so many of each; NULL: all are there */
static tn_node *end_of_lines(const lines *s, int64_t length) {
  int64_t each = length * s->size.inner;
  if (s->size.outer % s->by.outer == 0) return NULL;
  return tn__sub(s->c, number(s, each * s->size.outer), tn__mul(s->c, s->group, number(s, each * s->by.outer)));
}

/* Do a group's lines lie in memory as if there were no others? */
static bool lie_together(const lines *s) { return s->by.inner == s->size.inner; }

/* The gate of elements of a group's lines, of so many each; NULL: all are there */
static tn_node *gate_of_lines(const lines *s, const walk *w, int64_t length) {
  if (lie_together(s)) {
    tn_node *end = end_of_lines(s, length);
    return end ? tn__op2(s->c, OP_LT, w->flat, end) : NULL;
  }
  spot own = spot_of(s, w->flat, length), all = in_all(s, &own);
  return is_there(s, &all);
}

static tn_node *fetch(const lines *s, const walk *w, tn_node *local, const spot *own, tn_node *x) {
  tn_node *gate = gate_of_lines(s, w, s->size.updates), *line = at(s, own->outer, s->by.inner, own->inner);
  if (gate) x = tn__gate_accesses(s->l, x, gate, NULL, NULL);
  return stored(s, w, local, at(s, line, padded(s, local->dtype), own->turn), x);
}

/* The number of a term's place in its line, or of none */
static tn_node *place_of(const lines *s, tn_node *key) {
  if (key->lo < 0 || key->hi >= s->size.places)
    key = tn__where(s->c, key_inside(s, key), key, number(s, s->size.places));
  return tn__cast(s->c, key, key_dtype(s->size.places));
}

static fetched fetch_terms(const lines *s) {
  tn_ctx *c = s->c;
  walk w = over(s, lines_of(s) * s->size.updates);
  spot own = spot_of(s, w.flat, s->size.updates), all = in_all(s, &own);
  tn_node *key = place_of(s, tn__cast(c, of_term(s, s->of->key, &all), TN__INDEX)), *value = s->of->value;
  tn_node *x[2] = {key, value = of_term(s, narrow_value(value), &all)}, *local[2], *done[2];
  uint32_t n = s->constant ? 1 : 2;
  int64_t near = neighbours(s, &w, tn__sink(c, x, n, "part")), each = whole(w.n, s->by.threads * near) / s->by.threads;
  share_out(s, &w, near, each <= MOST_FETCHED ? each / near : AT_ONCE_FETCHED, ROLE_KEPT);
  for (uint32_t i = 0; i < n; i++) {
    local[i] = scratch(s, x[i]->dtype, lines_of(s) * padded(s, x[i]->dtype));
    done[i] = fetch(s, &w, local[i], &own, x[i]);
  }
  for (uint32_t i = 0; i < n; i++) {
    tn_node *src[3] = {local[i], done[0], done[n - 1]};
    local[i] = tn__node_make(c, &(tn__make){.op = OP_AFTER, .src = src, .nsrc = 1 + n});
  }
  return (fetched){local[0], s->constant ? NULL : local[1]};
}

/* ---- added ---- */

/* The table with so many terms of each line added, from one on, in turns of some */
static tn_node *add(const lines *s, tn_node *table, const fetched *f, int64_t first, int64_t turns, int64_t some) {
  tn_ctx *c = s->c;
  const tn_node *local = table->src[0];
  tn_node *own[3] = {loop(s, turns, AX_ORDER, ROLE_ALONE), loop(s, lines_of(s), AX_UPCAST, ROLE_KEPT),
                     loop(s, some, AX_UNROLL, ROLE_KEPT)};
  tn_node *term = tn__add(c, at(s, own[0], some, own[2]), number(s, first)), *value = s->of->value;
  tn_node *key = load(s, f->key, at(s, own[1], padded(s, f->key->src[0]->dtype), term));
  if (f->value) value = load(s, f->value, at(s, own[1], padded(s, f->value->src[0]->dtype), term));
  key = tn__cast(c, key, TN__INDEX);
  spot to = {div(s, own[1], s->by.inner), mod(s, own[1], s->by.inner),
             tn__op2(c, OP_MIN, key, number(s, s->size.places - 1))};
  tn_node *place = tn__simplify_index(c, in_table(s, &to)), *is = tn__op2(c, OP_LT, key, number(s, s->size.places));
  tn_node *sum = effect(s, OP_STOREADD, table, place, tn__cast(c, value, local->dtype), is, own, 3);
  return tn__behind(c, table->src[0], sum);
}

static tn_node *sums_of(const lines *s) {
  int64_t n = s->size.updates;
  int dtype = s->of->sum->dtype;
  int64_t near = s->l->target->access / (int64_t)s->size.sum;
  walk w = over(s, lines_of(s) * row_of_table(s));
  share_out(s, &w, near > 1 ? near : 1, 1, ROLE_ALONE);
  tn_node *table = scratch(s, dtype, w.all), *none = tn__const_num(s->c, dtype, 0);
  table = tn__behind(s->c, table, effect(s, OP_STORE, table, w.at, none, NULL, w.own, 4));
  fetched f = fetch_terms(s);
  if (n >= AT_ONCE) table = add(s, table, &f, 0, n / AT_ONCE, AT_ONCE);
  return n % AT_ONCE ? add(s, table, &f, n / AT_ONCE * AT_ONCE, 1, n % AT_ONCE) : table;
}

/* ---- stored ---- */

/* The body with the loops of its store, which are to be those of the walk, as one of `flat` */
static tn_node *flatten(const lines *s, const walk *w, const spot *all, tn_node *body) {
  tn_node *gone[3] = {s->turn}, *value[3] = {all->turn}, *fresh[2] = {s->group, w->flat};
  uint32_t n = 1;
  if (s->outer) gone[n] = s->outer, value[n++] = all->outer;
  if (s->inner) gone[n] = s->inner, value[n++] = all->inner;
  body = tn__exchange_ranges(s->l, body, gone, value, n, fresh, w->flat->op == OP_RANGE ? 2 : 1);
  return tn__simplify_accesses(s->c, s->l->a, body);
}

static tn_node *store_places(const lines *s, tn_node *body) {
  tn_ctx *c = s->c;
  walk w = over(s, lines_of(s) * s->size.places);
  spot own = spot_of(s, w.flat, s->size.places), all = in_all(s, &own);
  tn_node *sum = s->of->sum, *by = load(s, sums_of(s), in_table(s, &own)), *fresh[4], *end = NULL;
  uint32_t n = 0;
  body = flatten(s, &w, &all, tn__substitute(c, body, &sum, &by, 1));
  share_out(s, &w, neighbours(s, &w, body), AT_ONCE_STORED, ROLE_KEPT);
  for (uint32_t i = 0; i < 4; i++)
    if (w.own[i]->op == OP_RANGE) fresh[n++] = w.own[i];
  tn_node *there = lie_together(s) ? NULL : gate_of_lines(s, &w, s->size.places);
  if (lie_together(s)) end = end_of_lines(s, s->size.places);
  if (there) body = tn__gate_accesses(s->l, body, there, w.flat, NULL);
  body = tn__exchange_ranges(s->l, body, &w.flat, &w.at, 1, fresh, n);
  body = tn__simplify_accesses(c, s->l->a, body);
  if (w.all != w.n) end = end ? tn__op2(c, OP_MIN, end, number(s, w.n)) : number(s, w.n);
  return end ? tn__gate_accesses(s->l, body, tn__op2(c, OP_LT, w.at, end), w.own[1], NULL) : body;
}

/* ---- which lines ---- */

/* The outputs' loops outside of the turn's, or inside, in order; and how many turns they have: 0: that is not known. */
static uint32_t loops_beside(const tn__survey *s, const tn_node *turn, bool inside, tn_node **x, int64_t *turns) {
  uint32_t n = 0;
  *turns = 1;
  for (uint32_t k = 0; k < s->r.n; k++) {
    tn_node *range = s->r.range[k];
    int64_t size;
    if (!(s->outputs >> k & 1) || range == turn || (tn__id_of(range) > tn__id_of(turn)) != inside) continue;
    uint32_t to = n++;
    for (; to && tn__id_of(x[to - 1]) > tn__id_of(range); to--) x[to] = x[to - 1];
    x[to] = range;
    bool fits = tn__axis_of(range) == AX_LOOP && tn__const_int(range->src[0], &size) && size <= INT32_MAX / 2;
    *turns = fits && *turns && size <= INT32_MAX / *turns ? *turns * size : 0;
  }
  return n;
}

/* Is it the same for all terms? */
static bool is_constant(tn__lowering *l, tn_node *value) {
  tn__nodes all = {0};
  tn__topo(l->a, &value, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_LOAD || all.v[i]->op == OP_RANGE) return false;
  return true;
}

tn_node *tn__sum_lines(tn__lowering *l, tn_node *body, tn_node *turn, const tn__key_sum *of) {
  tn_node *outer[TN__MAX_RANGES], *inner[TN__MAX_RANGES], *one;
  tn__survey p;
  lines s = {.l = l, .c = l->c, .of = of, .turn = turn, .constant = is_constant(l, of->value)};
  tn__survey_loops(l->c, l->a, body, &p);
  uint32_t nouter = loops_beside(&p, turn, false, outer, &s.size.outer);
  uint32_t ninner = loops_beside(&p, turn, true, inner, &s.size.inner);
  if (!s.size.outer || !s.size.inner || !tn__const_int(turn->src[0], &s.size.places) ||
      !tn__const_int(of->term->src[0], &s.size.updates))
    return NULL;
  s.size.sum = tn__size_of(of->sum->dtype);
  s.size.value = s.constant ? 0 : tn__size_of(narrow_value(of->value)->dtype);
  if (!tn__target_sums_lines(l->target, &s.size, &s.by)) return NULL;
  if (nouter > 1) return tn__as_one(l, body, outer, nouter, AX_LOOP, &one);
  if (ninner > 1) return tn__as_one(l, body, inner, ninner, AX_LOOP, &one);
  if (nouter) s.outer = outer[0];
  if (ninner) s.inner = inner[0];
  int64_t groups = (s.size.outer + s.by.outer - 1) / s.by.outer * blocks_inside(&s);
  s.group = tn__fresh_range(l, number(&s, groups), AX_GLOBAL, ROLE_OUTPUT);
  tn__sb_printf(&l->note, " sums(%lld,%lld) lines(%lldx%lld)", tn__id_of(turn), tn__id_of(of->term),
                (long long)s.by.outer, (long long)s.by.inner);
  l->threads = s.by.threads;
  return store_places(&s, body);
}
