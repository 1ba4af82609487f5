/* Sums of whole numbers by a key, as many places as there are terms: each goes to the place that its key is the number
 * of, as where a block is put in order.  The threads of a group exchange them in shared memory.
 *
 * Needs a body whose loops are the groups' and that of the places, the turns of all stores.  Gives a body in which
 *
 *   each sum has a word of shared memory for each place, which is cleared;
 *   threads go through the terms as they lie and add each at its place, all at once (TN__OWN_TALLIES);
 *   and go through the places as they lie, to store what has come together there.
 *
 * What lies in memory is so loaded and stored along it, wherever the keys send the terms.  That they differ need not be
 * known: words of 32 bits are added in any order, and what meets is added up, as the graph says.
 *
 * Keys may be made of how many terms with the same digit come before each.  Then threads that run in step count these
 * first (in_step.c), and each goes on with the terms that it has.
 *
 * Step noted: tally(a,b) sends(TxN): the terms of loop b, for the turns of loop a, by T threads, N of each; before it
 * tally(b,d) in step(S) where the terms of loop d are counted first, by S threads in step. */
#include "ir/build.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"
#include <string.h>

enum { MOST_OWN = 64 /* terms of a thread, which are written out */ };

typedef struct exchange {
  tn__lowering *l;
  const tn__key_count *rank; /* what keys are made of; NULL: of nothing that is counted */
  tn_node *turn, *outer;     /* outer: the groups' loop; NULL: there is one group */
  int64_t threads, near, own; /* near: elements that a thread has side by side; own: of each, in all */
} exchange;

/* All terms, or places, by a group's threads, so many neighbours each, as they lie in memory */
typedef struct whole {
  tn_node *own[3], *at;
  uint32_t n;
} whole;

static whole all_of(exchange *e, int64_t side_by_side) {
  tn_ctx *c = e->l->c;
  tn_node *lane = tn__fresh_range(e->l, tn__int(c, e->threads), AX_UPCAST, ROLE_KEPT);
  tn_node *turn = tn__fresh_range(e->l, tn__int(c, e->own / side_by_side), AX_UNROLL, ROLE_KEPT);
  tn_node *first = tn__add(c, tn__mul(c, turn, tn__int(c, e->threads)), lane);
  if (side_by_side == 1) return (whole){{lane, turn}, first, 2};
  tn_node *near = tn__fresh_range(e->l, tn__int(c, side_by_side), AX_UNROLL, ROLE_KEPT);
  return (whole){{lane, turn, near}, tn__add(c, tn__mul(c, first, tn__int(c, side_by_side)), near), 3};
}

/* Bytes of the widest element that is loaded or stored */
/* a choice: any is right */
static size_t widest_of(tn__lowering *l, tn_node *body) {
  tn__nodes all = {0};
  size_t most = 1;
  tn__topo(l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (!tn__is_access(all.v[i])) continue;
    size_t size = tn__size_of(tn__buffer_of(all.v[i])->dtype);
    if (size > most) most = size;
  }
  return most;
}

/* Those of a group as a rule, or fewer, where these would leave some; each accesses as much at once as it can. */
static void share_out(exchange *e, tn_node *body, int64_t places) {
  const tn__target *t = e->l->target;
  e->near = t->access / (int64_t)widest_of(e->l, body);
  if (e->near < 1) e->near = 1;
  while (e->near > 1 && places % (t->subgroup * e->near)) e->near /= 2;
  e->threads = tn__usual_group(t) < t->group ? tn__usual_group(t) : t->group;
  while (e->threads > t->subgroup && places % (e->threads * e->near)) e->threads /= 2;
  if (e->rank) e->threads = tn__tally_threads(t);
  while (e->near > 1 && places % (e->threads * e->near)) e->near /= 2;
  e->own = places / e->threads;
}

static tn_node *table_of(exchange *e, int dtype) {
  tn_ctx *c = e->l->c;
  tn_node *src[] = {tn__int(c, e->turn->hi + 1), e->outer};
  int64_t ints[] = {e->l->next_local++, TN__OWN_TALLIES};
  return tn__node_make(c, &(tn__make){.op = OP_LOCAL, .dtype = dtype, .src = src, .nsrc = e->outer ? 2 : 1,
                                      .ints = ints, .nint = 2, .device = -1});
}

/* Memory as it is behind n effects */
static tn_node *behind_all(tn_ctx *c, tn_node *buf, tn_node *const *done, uint32_t n) {
  tn_node *src[1 + TN__MOST_EXCHANGED] = {buf};
  for (uint32_t i = 0; i < n; i++) src[1 + i] = done[i];
  return tn__node_make(c, &(tn__make){.op = OP_AFTER, .src = src, .nsrc = 1 + n});
}

static tn_node *clear(exchange *e, tn_node *table, const whole *w) {
  tn_node *src[6] = {table, w->at, tn__const_bits(e->l->c, table->dtype, 0)};
  for (uint32_t i = 0; i < w->n; i++) src[3 + i] = w->own[i];
  return tn__node_make(e->l->c, &(tn__make){.op = OP_STORE, .src = src, .nsrc = 3 + w->n});
}

/* Each term added at its place; what has none is left out. */
static tn_node *add(exchange *e, tn_node *empty, const tn__key_sum *of, const whole *w) {
  tn_ctx *c = e->l->c;
  tn_node *key = tn__cast(c, of->key, TN__INDEX), *src[7] = {empty, key, of->value};
  uint32_t n = 3;
  if (of->key->lo < 0 || of->key->hi > e->turn->hi)
    src[n++] = tn__op2(c, OP_AND, tn__op2(c, OP_LE, tn__int(c, 0), key), tn__op2(c, OP_LT, key, e->turn->src[0]));
  for (uint32_t i = 0; i < w->n; i++) src[n++] = w->own[i];
  return tn__node_make(c, &(tn__make){.op = OP_STOREADD, .src = src, .nsrc = n});
}

/* The terms' keys, all of which are one, and values, over the loops that go through them */
static whole through_terms(exchange *e, tn__key_sum *of, uint32_t n) {
  tn_ctx *c = e->l->c;
  tn_node *value[1 + TN__MOST_EXCHANGED] = {of->key};
  if (!e->rank) {
    whole w = all_of(e, e->near);
    for (uint32_t i = 0; i < n; i++) {
      tn_node *term = of[i].term;
      of[i].key = tn__substitute(c, of[i].key, &term, &w.at, 1);
      of[i].value = tn__substitute(c, of[i].value, &term, &w.at, 1);
    }
    return w;
  }
  for (uint32_t i = 0; i < n; i++) value[1 + i] = of[i].value;
  tn__turn_values v = tn__ranked_in_step(e->l, e->rank, value, 1 + n);
  for (uint32_t i = 0; i < n; i++) of[i].key = value[0], of[i].value = value[1 + i];
  return (whole){{v.lane, v.by}, v.at, 2};
}

/* Tables with each term at its place.  All are cleared in the same loops, and then filled in the same: what words are
 * made of is loaded once. */
static void fill(exchange *e, const tn__key_sum *sums, uint32_t n, tn_node **table) {
  tn_ctx *c = e->l->c;
  tn__key_sum of[TN__MOST_EXCHANGED];
  tn_node *local[TN__MOST_EXCHANGED], *done[TN__MOST_EXCHANGED];
  memcpy(of, sums, n * sizeof *of);
  whole places = all_of(e, e->near), terms = through_terms(e, of, n);
  for (uint32_t i = 0; i < n; i++) done[i] = clear(e, local[i] = table_of(e, of[i].sum->dtype), &places);
  for (uint32_t i = 0; i < n; i++) table[i] = behind_all(c, local[i], done, n);
  for (uint32_t i = 0; i < n; i++) done[i] = add(e, table[i], &of[i], &terms);
  for (uint32_t i = 0; i < n; i++) table[i] = behind_all(c, local[i], done, n);
}

/* a choice: no is right */
bool tn__may_exchange(tn__lowering *l, tn_node *body, int64_t places, const tn__key_sum *of, uint32_t n,
                      const tn__key_count *rank) {
  const tn__target *t = l->target;
  exchange e = {.l = l, .rank = rank};
  int64_t terms;
  if (!tn__target_exchanges(t, places, (int)n)) return false;
  for (uint32_t i = 0; i < n; i++) {
    int dtype = of[i].sum->dtype;
    if (!tn__is_int(dtype) || tn__size_of(dtype) != sizeof(uint32_t) || of[i].value->op == OP_CONST) return false;
    if (!tn__const_int(of[i].term->src[0], &terms) || terms != places) return false;
    if (rank && (of[i].term != rank->turn || of[i].key != of->key)) return false;
  }
  if (rank && (!tn__target_ranks(t, places, (int)n) || !tn__has_tables(l, rank->term, rank->keys))) return false;
  share_out(&e, body, places);
  return e.threads >= t->subgroup && e.threads % t->subgroup == 0 && e.own <= MOST_OWN;
}

/* Do the words, or what is loaded, say where they go then?  Threads that run in step store elements that lie side by
 * side: wherever these begin, no thread stores several at once. */
/* a choice: either is right */
static bool goes_elsewhere(tn__lowering *l, tn_node *body, const tn__key_sum *of, uint32_t n) {
  for (uint32_t i = 0; i < body->nsrc; i++) {
    tn__nodes all = {0};
    if (body->src[i]->op != OP_STORE) continue;
    tn__topo(l->a, &body->src[i]->src[1], 1, &all);
    for (uint32_t j = 0; j < all.n; j++) {
      if (all.v[j]->op == OP_LOAD) return true;
      for (uint32_t k = 0; k < n; k++)
        if (all.v[j] == of[k].sum) return true;
    }
  }
  return false;
}

tn_node *tn__exchange_in_group(tn__lowering *l, tn_node *body, tn_node *turn, tn_node *outer, const tn__key_sum *of,
                               uint32_t n, const tn__key_count *rank) {
  tn_ctx *c = l->c;
  exchange e = {.l = l, .rank = rank, .turn = turn, .outer = outer};
  tn_node *table[TN__MOST_EXCHANGED], *sum[TN__MOST_EXCHANGED], *load[TN__MOST_EXCHANGED];
  share_out(&e, body, turn->hi + 1);
  fill(&e, of, n, table);
  whole places = all_of(&e, goes_elsewhere(l, body, of, n) ? 1 : e.near);
  for (uint32_t i = 0; i < n; i++) {
    tn_node *src[] = {table[i], turn};
    sum[i] = of[i].sum;
    load[i] = tn__node_make(c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = 2});
  }
  body = tn__substitute(c, body, sum, load, n);
  body = tn__exchange_ranges(l, body, &turn, &places.at, 1, places.own, places.n);
  if (rank)
    tn__sb_printf(&l->note, " tally(%lld,%lld) in step(%d)", tn__id_of(rank->turn), tn__id_of(rank->term),
                  l->target->subgroup);
  tn__sb_printf(&l->note, " tally(%lld,%lld) sends(%lldx%lld)", tn__id_of(turn), tn__id_of(of->term),
                (long long)e.threads, (long long)e.own);
  l->threads = (int)e.threads;
  return tn__simplify_accesses(c, l->a, body);
}
