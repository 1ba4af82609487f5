/* Counts of terms by a key that has few values, by threads that run in step.
 *
 * As group_tally.c, which says what is needed, where such threads exchange values and add at once to what they share.
 * Gives a body in which those in step with each other have one stretch of the terms, which they go through side by
 * side, and all of a group are as many as there may be keys:
 *
 *   each thread loads the keys of its terms and keeps them;
 *   by number: all add to one table at once, whose sums are the same in any order;
 *   by own key: those in step have a table in which they count one after the other, term by term, and keep what stands
 *   there (kernel.h, TN__OWN_IN_STEP; a language tells by the threads' ballots which of them count the same);
 *   then each of as many threads as there are keys leaves in each table what the tables before it have counted, and
 *   loads what the body wants of its key;
 *   and what the body makes of all that is stored, neighbours by neighbours.
 *
 * Step noted: tally(a,b) by(TxN) in step(S): the terms of loop b, for the turns of loop a, by T threads, N of each, of
 * which S run in step. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

typedef struct steps {
  tn__lowering *l;
  tn_ctx *c;
  const tn__key_count *of;
  tn_node *word; /* all that a turn's key is loaded from, kept in place of the key; NULL: the key is */
  int64_t threads, own, in_step; /* of a group; terms of each; threads that run in step */
} steps;

/* One term of each thread at a time */
typedef struct terms {
  tn_node *lane, *by;
} terms;

static tn_node *lanes(steps *s, int64_t n) { return tn__fresh_range(s->l, tn__int(s->c, n), AX_UPCAST, ROLE_KEPT); }
static tn_node *loop(steps *s, int64_t n, int axis) {
  return tn__fresh_range(s->l, tn__int(s->c, n), axis, ROLE_KEPT);
}
static terms all_terms(steps *s, int axis) { return (terms){lanes(s, s->threads), loop(s, s->own, axis)}; }

static tn_node *number(steps *s, int dtype, int64_t v) { return tn__const_num(s->c, dtype, (double)v); }
static tn_node *load(steps *s, tn_node *from, tn_node *at) {
  return tn__node_make(s->c, &(tn__make){.op = OP_LOAD, .src = (tn_node *[]){from, at}, .nsrc = 2});
}

static tn_node *times(steps *s, tn_node *x, int64_t by) { return tn__mul(s->c, x, tn__int(s->c, by)); }

/* Which of the threads in step have this one among them */
static tn_node *which_of(steps *s, tn_node *lane) { return tn__op2(s->c, OP_IDIV, lane, tn__int(s->c, s->in_step)); }

/* Their stretch, in which they are side by side */
static tn_node *term_at(steps *s, const terms *t) {
  tn_node *rest = tn__op2(s->c, OP_MOD, t->lane, tn__int(s->c, s->in_step));
  tn_node *first = tn__add(s->c, times(s, which_of(s, t->lane), s->own * s->in_step), times(s, t->by, s->in_step));
  return tn__add(s->c, first, rest);
}

/* ---- memory ---- */

/* Filled anew in each turn of the groups' loop */
static tn_node *scratch(steps *s, int dtype, int64_t elements, int64_t whose) {
  return tn__node_make(s->c, &(tn__make){.op = OP_LOCAL,
                                         .dtype = dtype,
                                         .src = (tn_node *[]){tn__int(s->c, elements), s->of->outer},
                                         .nsrc = s->of->outer && whose <= 0 ? 2 : 1,
                                         .ints = (int64_t[]){s->l->next_local++, whose},
                                         .nint = 2,
                                         .device = -1});
}

/* A number of each thread for each of its terms, in the form that kernel.h asks for */
static tn_node *kept(steps *s, int dtype) { return scratch(s, dtype, s->threads * s->own, s->threads); }
static tn_node *slot(steps *s, const terms *t) {
  tn_node *src[2] = {t->by, tn__int(s->c, s->threads)};
  src[0] = tn__node_make(s->c, &(tn__make){.op = OP_MUL, .dtype = TN__INDEX, .src = src, .nsrc = 2});
  src[1] = t->lane;
  return tn__node_make(s->c, &(tn__make){.op = OP_ADD, .dtype = TN__INDEX, .src = src, .nsrc = 2});
}
static tn_node *filled(steps *s, tn_node *local, const terms *t, tn_node *value) {
  return tn__filled(s->c, local, slot(s, t), value, (tn_node *[]){t->lane, t->by}, 2);
}

/* Zeros, by as many threads as there are, or as there are places */
static tn_node *cleared(steps *s, tn_node *table, int64_t places) {
  int64_t wide = places < s->threads ? places : s->threads;
  terms t = {lanes(s, wide), loop(s, places / wide, AX_UNROLL)};
  tn_node *at = tn__add(s->c, times(s, t.by, wide), t.lane);
  return tn__filled(s->c, table, at, number(s, TN_U32, 0), (tn_node *[]){t.lane, t.by}, 2);
}

/* ---- counting ---- */

static tn_node *all_keys(steps *s) {
  terms t = all_terms(s, AX_UNROLL);
  if (s->word) {
    tn_node *turn = s->of->turn, *own = term_at(s, &t), *word = tn__substitute(s->c, s->word, &turn, &own, 1);
    return filled(s, kept(s, word->dtype), &t, tn__simplify_accesses(s->c, s->l->a, word));
  }
  tn_node *term = s->of->term, *at = term_at(s, &t), *key = tn__substitute(s->c, s->of->key, &term, &at, 1);
  key = tn__cast(s->c, tn__simplify_accesses(s->c, s->l->a, key), TN_U8);
  return filled(s, kept(s, TN_U8), &t, key);
}

static tn_node *key_at(steps *s, tn_node *keys, const terms *t) {
  tn_node *key = load(s, keys, slot(s, t)), *most = number(s, TN_U8, s->of->keys - 1);
  if (s->word) {
    tn_node *from[] = {s->word, s->of->turn}, *to[] = {key, term_at(s, t)};
    key = tn__cast(s->c, tn__substitute(s->c, s->of->with, from, to, 2), TN_U8);
  }
  return s->of->keys <= UINT8_MAX ? tn__op2(s->c, OP_AND, key, most) : key;
}

/* The key's place in the table of the threads in step */
static tn_node *place_of(steps *s, tn_node *keys, const terms *t) {
  tn_node *key = tn__cast(s->c, key_at(s, keys, t), TN__INDEX);
  return tn__add(s->c, times(s, which_of(s, t->lane), s->of->keys), key);
}

static tn_node *effect(steps *s, tn__op op, tn_node *const *src, uint32_t n) {
  return tn__node_make(s->c, &(tn__make){.op = op, .src = src, .nsrc = n});
}

/* How many terms of each key there are */
static tn_node *totals(steps *s, tn_node *keys) {
  tn_node *table = scratch(s, TN_U32, s->of->keys, TN__OWN_TALLIES), *none = cleared(s, table, s->of->keys);
  terms t = all_terms(s, AX_UNROLL);
  tn_node *key = tn__cast(s->c, key_at(s, keys, &t), TN__INDEX);
  tn_node *src[] = {none, key, number(s, TN_U32, 1), t.lane, t.by};
  return tn__behind(s->c, table, effect(s, OP_STOREADD, src, 5));
}

static tn_node *runs(steps *s, tn_node *const *src, uint32_t n) {
  return tn__node_make(s->c, &(tn__make){.op = OP_RUNNING, .src = src, .nsrc = n,
                                         .ints = (int64_t[]){OP_ADD}, .nint = 1});
}

/* What the tables of those before have counted */
static tn_node *of_those_before(steps *s, tn_node *table, tn_node *counts) {
  tn_node *key = lanes(s, s->of->keys), *which = loop(s, s->threads / s->in_step, AX_UNROLL);
  tn_node *place = tn__add(s->c, times(s, which, s->of->keys), key), *count = load(s, counts, place);
  tn_node *sum = runs(s, (tn_node *[]){count, which}, 2);
  tn_node *src[] = {counts, place, tn__sub(s->c, sum, count), key, which};
  return tn__behind(s->c, table, effect(s, OP_STORE, src, 5));
}

/* How many terms of its key there are up to each, and itself: in the stretch, and in those before */
static tn_node *upto_each(steps *s, tn_node *keys, const terms *each) {
  int64_t places = s->threads / s->in_step * s->of->keys;
  tn_node *table = scratch(s, TN_U32, places, TN__OWN_IN_STEP), *none = cleared(s, table, places);
  terms t = all_terms(s, AX_ORDER);
  tn_node *src[] = {number(s, TN_U32, 1), t.lane, none, place_of(s, keys, &t)};
  tn_node *counts = filled(s, kept(s, TN_U32), &t, runs(s, src, 4));
  tn_node *begun = of_those_before(s, table, tn__behind(s->c, table, counts->src[1]));
  return tn__add(s->c, load(s, counts, slot(s, each)), load(s, begun, place_of(s, keys, each)));
}

/* ---- what is made of the counts ---- */

/* The load for a key that `at` is the number of, if it hangs on nothing else that a term has; NULL: it does. */
/* a choice: no is right */
static tn_node *of_key_alone(steps *s, tn_node *n, tn_node *at) {
  tn_node *with = s->of->with, *key = tn__cast(s->c, at, with->dtype);
  if (n->op != OP_LOAD || n->src[0]->op != OP_PARAM) return NULL;
  tn_node *by = tn__substitute(s->c, n, &with, &key, 1);
  tn__nodes all = {0};
  tn__topo(s->l->a, &by, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_RANGE && all.v[i] != at && all.v[i] != s->of->outer) return NULL;
  return by == n ? NULL : tn__simplify_accesses(s->c, s->l->a, by);
}

/* Is the node one that the body, without the sum, is made of? */
static bool stands_in(steps *s, tn_node *body, const tn_node *n) {
  tn__nodes all = {0};
  tn_node *sum = s->of->sum, *none = number(s, sum->dtype, 0);
  body = tn__substitute(s->c, body, &sum, &none, 1);
  tn__topo(s->l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i] == n) return true;
  return false;
}

/* What the body, or a value, loads for the key alone, as where its run begins, once for each key, if there are more
 * terms: terms side by side have keys apart, each of which would ask for a sector.  Not from `stored`, which is written
 * there; NULL: nothing is. */
static tn_node *load_by_key(steps *s, tn_node *body, const tn_node *stored, tn_node *own) {
  tn__nodes all = {0};
  if (s->own * s->threads <= s->of->keys) return body;
  tn__topo(s->l->a, &body, 1, &all);
  for (uint32_t i = all.n; i && i--;) { /* what is made of others before these */
    tn_node *n = all.v[i], *at = n->op == OP_LOAD ? lanes(s, s->of->key->hi + 1) : NULL;
    tn_node *by = at ? of_key_alone(s, n, at) : NULL;
    if (!by || n->src[0] == stored || !stands_in(s, body, n)) continue;
    tn_node *loaded = load(s, tn__filled(s->c, scratch(s, n->dtype, s->of->keys, 0), at, by, &at, 1), own);
    body = tn__substitute(s->c, body, &n, &loaded, 1);
  }
  return body;
}

static tn_node *by_own_key(steps *s, tn_node *body) {
  int dtype = s->of->sum->dtype;
  terms each = all_terms(s, AX_UNROLL);
  tn_node *keys = all_keys(s), *count = tn__cast(s->c, upto_each(s, keys, &each), dtype);
  if (s->of->beside) count = tn__sub(s->c, count, number(s, dtype, 1));
  tn_node *with = s->of->with, *own = key_at(s, keys, &each);
  body = load_by_key(s, body, body->src[0]->src[0], tn__cast(s->c, own, TN__INDEX));
  own = tn__cast(s->c, own, with->dtype);
  body = tn__substitute(s->c, body, &with, &own, 1); /* what else is made of it, too */
  return tn__count_for_turns(s->l, body, s->of, term_at(s, &each), (tn_node *[]){each.lane, each.by}, 2, count);
}

static tn_node *by_number(steps *s, tn_node *body) {
  tn_node *at = lanes(s, s->of->keys), *count = load(s, totals(s, all_keys(s)), at);
  return tn__count_for_turns(s->l, body, s->of, at, &at, 1, tn__cast(s->c, count, s->of->sum->dtype));
}

/* The only load that the key of a turn is made of; NULL: there are others */
/* a choice: no is right */
static tn_node *word_of(steps *s) {
  tn_node *with = s->of->with, *word = NULL;
  tn__nodes all = {0};
  tn__topo(s->l->a, &with, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_LOAD) continue;
    if (word) return NULL;
    word = all.v[i];
  }
  return word;
}

static steps steps_of(tn__lowering *l, const tn__key_count *of) {
  steps s = {.l = l, .c = l->c, .of = of, .threads = tn__tally_threads(l->target), .in_step = l->target->subgroup};
  s.own = (of->term->hi + 1) / s.threads;
  return s;
}

tn__turn_values tn__ranked_in_step(tn__lowering *l, const tn__key_count *of, tn_node **value, uint32_t n) {
  steps s = steps_of(l, of);
  s.word = word_of(&s);
  terms each = all_terms(&s, AX_UNROLL);
  tn_node *keys = all_keys(&s), *count = tn__cast(s.c, upto_each(&s, keys, &each), of->sum->dtype);
  if (of->beside) count = tn__sub(s.c, count, number(&s, of->sum->dtype, 1));
  tn_node *own = key_at(&s, keys, &each), *at = term_at(&s, &each);
  tn_node *from[] = {of->sum, s.word ? s.word : of->with, of->turn};
  tn_node *to[] = {count, s.word ? load(&s, keys, slot(&s, &each)) : tn__cast(s.c, own, of->with->dtype), at};
  for (uint32_t i = 0; i < n; i++) {
    value[i] = load_by_key(&s, value[i], NULL, tn__cast(s.c, own, TN__INDEX));
    value[i] = tn__substitute(s.c, value[i], from, to, 3);
  }
  return (tn__turn_values){each.lane, each.by, at};
}

tn_node *tn__tally_in_step(tn__lowering *l, tn_node *body, const tn__key_count *of) {
  steps s = steps_of(l, of);
  tn__sb_printf(&l->note, " tally(%lld,%lld) by(%lldx%lld) in step(%lld)", tn__id_of(of->turn), tn__id_of(of->term),
                (long long)s.threads, (long long)s.own, (long long)s.in_step);
  l->threads = (int)s.threads;
  return of->by_number ? by_number(&s, body) : by_own_key(&s, body);
}
