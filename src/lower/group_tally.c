/* Counts of terms by a key that has few values, by the threads of a group.
 *
 * Needs a body of one store, whose loops are the groups' and that of a count's turns; a count is of the terms whose key
 * is the turn's number, or of those up to the turn that have its own key (lower/running.c finds them).  Gives a body in
 * which each thread has some of the terms, neighbours of each other, and in shared memory a table for itself:
 *
 *   all keys come to stand in shared memory, loaded as they lie;
 *   each thread counts its terms by key;
 *   by number: each count is added up over all tables;
 *   by own key: each thread goes along all tables with a few keys of its own, and leaves in each what was counted in
 *   those before it; then each counts its terms once more, from there on, and puts down what it has at each;
 *   and what the body makes of that is stored as it lies.
 *
 * Where threads in step exchange values, those have a table together (in_step.c).
 *
 * So all is stored by one thread at a time, in the order of the terms, and nobody adds at once.  Counts of several keys
 * stand in one word, which is as quick to add to as one of them.
 *
 * Step noted: tally(a,b) by(TxN): the terms of loop b, for the turns of loop a, by T threads, N of each. */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum { PART_BITS = 64 / TN__TALLY_PARTS };

enum {
  SIDE_BY_SIDE = TN__TALLY_NEAR, /* elements that a thread loads or stores at once, where all go along memory */
  WORD_BYTES = 4    /* of larger ones compilers load but what the key is made of: then lanes lie closest */
};

typedef struct tables {
  tn__lowering *l;
  tn_ctx *c;
  const tn__key_count *of;
  int64_t threads, own, words; /* of a group; terms of each; words of each table */
  tn_node *keys;               /* of all terms, in shared memory */
} tables;

static tn_node *lanes(tables *s, int64_t n) { return tn__fresh_range(s->l, tn__int(s->c, n), AX_UPCAST, ROLE_KEPT); }
static tn_node *unrolled(tables *s, int64_t n) {
  return tn__fresh_range(s->l, tn__int(s->c, n), AX_UNROLL, ROLE_KEPT);
}

static tn_node *effect(tables *s, tn__op op, tn_node *const *src, uint32_t n) {
  return tn__node_make(s->c, &(tn__make){.op = op, .src = src, .nsrc = n});
}
static tn_node *load(tables *s, tn_node *from, tn_node *at) {
  return effect(s, OP_LOAD, (tn_node *[]){from, at}, 2);
}

static tn_node *number(tables *s, int dtype, int64_t v) { return tn__const_num(s->c, dtype, (double)v); }
static tn_node *word(tables *s, uint64_t v) { return tn__const_bits(s->c, TN_U64, v); }

/* Shared memory, filled anew in each turn of the groups' loop */
static tn_node *scratch(tables *s, int dtype, int64_t elements) {
  return tn__node_make(s->c, &(tn__make){.op = OP_LOCAL,
                                         .dtype = dtype,
                                         .src = (tn_node *[]){tn__int(s->c, elements), s->of->outer},
                                         .nsrc = s->of->outer ? 2 : 1,
                                         .ints = (int64_t[]){s->l->next_local++, 0},
                                         .nint = 2,
                                         .device = -1});
}

/* One table of each group; a thread's begins one word further than another's ends, in another bank. */
static tn_node *empty(tables *s) { return scratch(s, TN_U64, s->threads * (s->words + 1)); }

static tn_node *word_at(tables *s, tn_node *thread, tn_node *at) {
  return tn__add(s->c, tn__mul(s->c, thread, tn__int(s->c, s->words + 1)), at);
}

/* The key of a thread's term: which word has its count, and from which bit on */
typedef struct part {
  tn_node *word, *shift;
} part;

static part part_of(tables *s, tn_node *key) {
  tn_ctx *c = s->c;
  key = tn__cast(c, key, TN_U32);
  tn_node *parts = number(s, TN_U32, TN__TALLY_PARTS);
  tn_node *bit = tn__mul(c, tn__op2(c, OP_MOD, key, parts), number(s, TN_U32, PART_BITS));
  return (part){tn__cast(c, tn__op2(c, OP_IDIV, key, parts), TN__INDEX), tn__cast(c, bit, TN_U64)};
}

static tn_node *count_in(tables *s, tn_node *word_of, tn_node *shift) {
  tn_node *mask = word(s, ((uint64_t)1 << PART_BITS) - 1);
  return tn__op2(s->c, OP_AND, tn__op2(s->c, OP_SHR, word_of, shift), mask);
}

static tn_node *term_at(tables *s, tn_node *thread, tn_node *by) {
  return tn__add(s->c, tn__mul(s->c, thread, tn__int(s->c, s->own)), by);
}

/* All terms by a group's threads, so many neighbours each, as they lie in memory */
typedef struct whole {
  tn_node *own[3], *at; /* threads; turns of all of them; neighbours */
  uint32_t n;           /* of these loops */
} whole;

static whole all_terms(tables *s, int64_t each) {
  whole w = {{lanes(s, s->threads), unrolled(s, s->own / each)}, .n = 2};
  tn_node *first = tn__mul(s->c, w.own[1], tn__int(s->c, s->threads * each));
  w.at = tn__add(s->c, first, tn__mul(s->c, w.own[0], tn__int(s->c, each)));
  if (each == 1) return w;
  w.own[w.n++] = unrolled(s, each);
  w.at = tn__add(s->c, w.at, w.own[2]);
  return w;
}

/* Bytes of what a key is made of: of the widest element that is loaded for it */
/* a choice: any is right */
static size_t bytes_of(tables *s, tn_node *key) {
  tn__nodes all = {0};
  size_t most = 1;
  tn__topo(s->l->a, &key, 1, &all);
  for (uint32_t i = 0; i < all.n; i++)
    if (all.v[i]->op == OP_LOAD && tn__size_of(all.v[i]->dtype) > most) most = tn__size_of(all.v[i]->dtype);
  return most;
}

static void load_keys(tables *s) {
  whole w = all_terms(s, bytes_of(s, s->of->key) < WORD_BYTES ? SIDE_BY_SIDE : 1);
  tn_node *term = s->of->term, *key = tn__substitute(s->c, s->of->key, &term, &w.at, 1);
  key = tn__cast(s->c, tn__simplify_accesses(s->c, s->l->a, key), TN_U8);
  s->keys = tn__filled(s->c, scratch(s, TN_U8, s->threads * s->own), w.at, key, w.own, w.n);
}

static tn_node *key_at(tables *s, tn_node *term) {
  tn_node *key = load(s, s->keys, term), *most = number(s, TN_U8, s->of->keys - 1);
  return s->of->keys <= UINT8_MAX ? tn__op2(s->c, OP_AND, key, most) : key;
}

static part part_at(tables *s, tn_node *thread, tn_node *by) {
  return part_of(s, key_at(s, term_at(s, thread, by)));
}

static tn_node *one_of(tables *s, const part *p) { return tn__op2(s->c, OP_SHL, word(s, 1), p->shift); }

/* Each thread's terms, by key */
static tn_node *counted(tables *s, tn_node *table) {
  tn_node *own[2] = {lanes(s, s->threads), unrolled(s, s->words)};
  tn_node *none = tn__filled(s->c, table, word_at(s, own[0], own[1]), word(s, 0), own, 2);
  tn_node *thread = lanes(s, s->threads), *by = unrolled(s, s->own);
  part p = part_at(s, thread, by);
  tn_node *src[] = {none, word_at(s, thread, p.word), one_of(s, &p), thread, by};
  return tn__behind(s->c, table, effect(s, OP_STOREADD, src, 5));
}

/* What all threads before each have counted */
static tn_node *of_those_before(tables *s, tn_node *table, tn_node *counts) {
  tn_node *at = lanes(s, s->words), *thread = unrolled(s, s->threads), *place = word_at(s, thread, at);
  tn_node *count = load(s, counts, place);
  tn_node *sum = tn__node_make(s->c, &(tn__make){.op = OP_RUNNING, .src = (tn_node *[]){count, thread}, .nsrc = 2,
                                                 .ints = (int64_t[]){OP_ADD}, .nint = 1});
  tn_node *src[] = {counts, place, tn__sub(s->c, sum, count), at, thread};
  return tn__behind(s->c, table, effect(s, OP_STORE, src, 5));
}

/* What all of them have together, by word */
static tn_node *totals(tables *s, tn_node *counts) {
  tn_node *at = lanes(s, s->words), *thread = tn__fresh_range(s->l, tn__int(s->c, s->threads), AX_REDUCE, ROLE_APART);
  tn_node *sum = tn__node_make(s->c, &(tn__make){.op = OP_REDUCE,
                                                 .src = (tn_node *[]){load(s, counts, word_at(s, thread, at)), thread},
                                                 .nsrc = 2, .ints = (int64_t[]){OP_ADD, 0}, .nint = 2});
  return tn__filled(s->c, tn__scratch(s->l, TN_U64, s->words), at, sum, &at, 1);
}

tn_node *tn__count_for_turns(tn__lowering *l, tn_node *body, const tn__key_count *of, tn_node *at, tn_node *const *own,
                             uint32_t n, tn_node *count) {
  tn_node *turn = of->turn;
  body = tn__exchange_ranges(l, body, &turn, &at, 1, own, n);
  body = tn__simplify_accesses(l->c, l->a, body);
  tn_node *sum = tn__sum_over(l, body, of->term);
  return tn__substitute(l->c, body, &sum, &count, 1);
}

/* How many terms of its key there are up to each, and itself */
static tn_node *upto_each(tables *s) {
  tn_node *table = empty(s), *begun = of_those_before(s, table, counted(s, table));
  tn_node *own[2] = {lanes(s, s->threads), unrolled(s, s->own)};
  part p = part_at(s, own[0], own[1]);
  tn_node *src[] = {one_of(s, &p), own[1], begun, word_at(s, own[0], p.word)};
  tn_node *upto = tn__node_make(s->c, &(tn__make){.op = OP_RUNNING, .src = src, .nsrc = 4,
                                                  .ints = (int64_t[]){OP_ADD}, .nint = 1});
  tn_node *count = tn__cast(s->c, count_in(s, upto, p.shift), TN_U16);
  return tn__filled(s->c, scratch(s, TN_U16, s->threads * s->own), term_at(s, own[0], own[1]), count, own, 2);
}

static tn_node *by_own_key(tables *s, tn_node *body) {
  int dtype = s->of->sum->dtype;
  whole w = all_terms(s, SIDE_BY_SIDE);
  tn_node *count = tn__cast(s->c, load(s, upto_each(s), w.at), dtype);
  if (s->of->beside) count = tn__sub(s->c, count, number(s, dtype, 1));
  tn_node *with = s->of->with, *own = tn__cast(s->c, load(s, s->keys, s->of->turn), with->dtype);
  body = tn__substitute(s->c, body, &with, &own, 1); /* what else is made of it, too */
  return tn__count_for_turns(s->l, body, s->of, w.at, w.own, w.n, count);
}

static tn_node *by_number(tables *s, tn_node *body) {
  tn_ctx *c = s->c;
  int64_t wide = s->of->keys < s->threads ? s->of->keys : s->threads, each = s->of->keys / wide;
  tn_node *all = totals(s, counted(s, empty(s))), *own[2] = {lanes(s, wide), unrolled(s, each)};
  tn_node *at = tn__add(c, tn__mul(c, own[0], tn__int(c, each)), own[1]);
  part p = part_of(s, at);
  tn_node *count = tn__cast(c, count_in(s, load(s, all, p.word), p.shift), s->of->sum->dtype);
  return tn__count_for_turns(s->l, body, s->of, at, own, 2, count);
}

bool tn__has_tables(const tn__lowering *l, const tn_node *term, int64_t keys) {
  int64_t terms;
  return tn__const_int(term->src[0], &terms) && tn__target_tallies(l->target, terms, keys);
}

tn_node *tn__tally_in_group(tn__lowering *l, tn_node *body, const tn__key_count *of) {
  if (tn__tallies_in_step(l->target)) return tn__tally_in_step(l, body, of);
  tables s = {.l = l, .c = l->c, .of = of, .threads = tn__tally_threads(l->target)};
  s.own = (of->term->hi + 1) / s.threads;
  s.words = of->keys / TN__TALLY_PARTS;
  load_keys(&s);
  tn__sb_printf(&l->note, " tally(%lld,%lld) by(%lldx%lld)", tn__id_of(of->turn), tn__id_of(of->term),
                (long long)s.threads, (long long)s.own);
  l->threads = (int)s.threads;
  return of->by_number ? by_number(&s, body) : by_own_key(&s, body);
}
