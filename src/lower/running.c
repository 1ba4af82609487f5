/* Sums whose terms another loop chooses.  What such a sum takes from turn to turn is kept, where it would begin anew.
 *
 *   running(i,j)   the sum over j of (j <= i ? v(j) : 0), for each turn i of a loop around it, becomes one of those
 *                  before it and v(i): a value that runs along the loop, whose turns follow each other from then on.
 *                  So do products, minima and maxima; with j < i it is the one of the turn before, with i <= j the
 *                  turns come in the opposite order.
 *   tally(i,j)     so, with terms that count only if k(j) == k(i), where k has few values: a table has a sum for each
 *   tally(d,j)     the sums over j of (k(j) == d ? v(j) : 0), for all d that a loop around it counts, are one such
 *                  table, which is filled before that loop
 *
 *   scan(i,TxN)    on devices of groups, of long loops, or of short ones that groups fetch as memory lies: by all
 *                  threads of a group (group_scan.c)
 *   tally(i,j) by(TxN)  ... and of counts by a key, of the turn's number or its own: each thread has a table
 *                  (group_tally.c), or those that run in step have one (in_step.c)
 *   tally(i,j) sends(TxN)  ... and of words that go to the turn whose number their key is (group_exchange.c)
 *   sums(d,j) lines(OxI)   ... and of sums of (k(j) == d ? v(j) : 0) for all d, of whole lines of them (line_sums.c)
 *
 * The order of additions stays, but where turns come in the opposite one, or threads add up each other's sums, and what
 * the others would add changes nothing: so results do, to the bit. */
#include "ir/build.h"
#include "ir/eval.h"
#include "lower/lower.h"
#include "rewrite/rewrite.h"

enum {
  LARGEST_TABLE = 4096,
  KEYS_OF_TERM = 16, /* zeros that are stored in the time that a term is compared with all others of a few */
  ENOUGH = 2         /* times as many threads as run in step, for each unit */
};

typedef struct chosen { /* the sum over range `term` of (where ? value : what changes nothing) */
  tn_node *sum, *term, *where, *value, *nothing;
} chosen;

typedef struct pass {
  tn__lowering *l;
  tn_node *body;
  tn__survey s;
} pass;

static bool hangs_on(const pass *p, const tn_node *n, const tn_node *range) {
  return tn__free_of(&p->s.r, n) >> tn__range_at(&p->s.r, range) & 1;
}

/* A number as it was before casts that held it.  Between i64 and u64 of any value the bits are held, which is as good
 * where numbers are compared for equality, and what loops count is never so large. */
static tn_node *bare(tn_node *x) {
  while (x->op == OP_CAST && !tn__is_float(x->dtype) && !tn__is_float(x->src[0]->dtype) &&
         x->src[0]->dtype != TN_BOOL && x->lo == x->src[0]->lo && x->hi == x->src[0]->hi)
    x = x->src[0];
  return x;
}

/* The choice that a term is made of, by functions of it and of constants; NULL: there is none */
static tn_node *choice_in(tn_node *x) {
  while (x->op == OP_CAST || (tn__is_elementwise(x) && x->nsrc == 2 && x->src[1]->op == OP_CONST)) x = x->src[0];
  return x->op == OP_WHERE ? x : NULL;
}

/* a choice: no is right */
static bool is_chosen(const pass *p, tn_node *sum, chosen *out) {
  tn_ctx *c = p->l->c;
  if (sum->op != OP_REDUCE || sum->nsrc != 2 || tn__axis_of(sum->src[1]) != AX_REDUCE) return false;
  tn_node *x = sum->src[0], *choice = choice_in(x);
  *out = (chosen){.sum = sum, .term = sum->src[1]};
  out->nothing = tn__const_bits(c, sum->dtype, tn__eval_reduce_init((int)sum->ints[0], sum->dtype));
  if (choice && tn__fold_constants(c, tn__substitute(c, x, &choice, &choice->src[2], 1)) == out->nothing) {
    out->where = choice->src[0];
    out->value = tn__substitute(c, x, &choice, &choice->src[1], 1);
  } else if (x->op == OP_CAST && x->src[0]->dtype == TN_BOOL && sum->ints[0] == OP_ADD) {
    out->where = x->src[0];
    out->value = tn__const_num(c, x->dtype, 1);
  }
  return out->where && !tn__bounds_loops(&p->s.r, (uint32_t)tn__range_at(&p->s.r, out->term));
}

/* Is anything summed up or stored below the value, for each term?  Its loops stand in the term's, and nowhere else. */
/* a choice: yes is right */
static bool closes_within(const pass *p, tn_node *value, const tn_node *term) {
  tn__nodes below = {0};
  uint32_t first;
  tn__topo(p->l->a, &value, 1, &below);
  for (uint32_t i = 0; i < below.n; i++)
    if ((tn__closes(below.v[i], &first) || below.v[i]->op == OP_RUNNING) && hangs_on(p, below.v[i], term)) return true;
  return false;
}

/* Does the sum hang on loops of outputs alone, but for the turn?  Any other would stand inside the turn's loop, and
 * begin again for each turn of that. */
static bool hangs_on_outputs(const pass *p, const chosen *x, const tn_node *turn) {
  uint64_t set = tn__free_of(&p->s.r, x->sum) & ~p->s.outputs;
  for (uint32_t k = 0; k < p->s.r.n; k++)
    if ((set >> k & 1) && p->s.r.range[k] != turn && tn__axis_of(p->s.r.range[k]) != AX_GLOBAL) return false;
  return true;
}

/* Once its turns follow each other, the loop stands inside of all others of its stores.  No other sum may hang on it
 * and not on those: it would be worked out again for each of their turns; nor may a store that closes fewer loops. */
/* a choice: no is right */
static bool may_be_innermost(const pass *p, const tn_node *sum, const tn_node *turn) {
  uint64_t at = 1ull << tn__range_at(&p->s.r, turn), own = 0;
  for (uint32_t i = 0; i < p->s.r.order.n; i++) {
    const tn_node *n = p->s.r.order.v[i];
    uint64_t closed = n->op == OP_STORE || n->op == OP_STOREADD ? tn__own_of(&p->s.r, n) : 0;
    if (!(closed & at)) continue;
    if (own && closed != own) return false;
    own = closed;
  }
  for (uint32_t i = 0; i < p->s.r.order.n; i++) {
    const tn_node *n = p->s.r.order.v[i];
    uint64_t free = tn__free_of(&p->s.r, n);
    if (n->op == OP_REDUCE && n != sum && (free & at) && (own & ~free)) return false;
  }
  return true;
}

/* Which terms a turn takes: those up to its own, or from its own on */
typedef struct reach {
  tn_node *turn; /* its number */
  bool back, beside; /* from its own on; without its own */
} reach;

/* a choice: no is right */
static bool compares(const pass *p, const chosen *x, tn_node *where, reach *out) {
  if (where->op != OP_LE && where->op != OP_LT) return false;
  tn_node *number[2] = {bare(where->src[0]), bare(where->src[1])};
  *out = (reach){.back = number[1] == x->term, .beside = where->op == OP_LT};
  out->turn = number[!out->back];
  if (number[out->back] != x->term) return false;
  return !out->back || p->l->c->mode != TN_MODE_STRICT || !tn__is_float(x->sum->dtype); /* the order is another one */
}

/* An output's loop of at most as many turns as there are terms */
static bool is_turn(const pass *p, const chosen *x, const tn_node *turn) {
  int axis = turn->op == OP_RANGE ? tn__axis_of(turn) : AX_REDUCE;
  return (axis == AX_LOOP || axis == AX_ORDER) && tn__role_of(turn) == ROLE_OUTPUT && hangs_on_outputs(p, x, turn) &&
         may_be_innermost(p, x->sum, turn) && !tn__bounds_loops(&p->s.r, (uint32_t)tn__range_at(&p->s.r, turn)) &&
         (turn->src[0] == x->term->src[0] || (tn__is_const(x->term->src[0]) && turn->hi <= x->term->hi));
}

static tn_node *running(tn_ctx *c, const chosen *x, tn_node *value, tn_node *along) {
  tn_node *src[2] = {value, along};
  return tn__node_make(c, &(tn__make){.op = OP_RUNNING, .src = src, .nsrc = 2, .ints = x->sum->ints, .nint = 1});
}

/* The terms from `first` on, which no turn has for its own; NULL: there are none */
static tn_node *rest_of(pass *p, const chosen *x, tn_node *first) {
  tn_ctx *c = p->l->c;
  tn_node *left = tn__simplify_index(c, tn__sub(c, x->term->src[0], first)), *term = x->term;
  if (tn__is_int_const(left, 0)) return NULL;
  tn_node *own = tn__fresh_range(p->l, left, AX_REDUCE, ROLE_APART), *at = tn__add(c, first, own);
  tn_node *src[2] = {tn__substitute(c, x->value, &term, &at, 1), own};
  return tn__node_make(c, &(tn__make){.op = OP_REDUCE, .src = src, .nsrc = 2, .ints = x->sum->ints, .nint = 2});
}

/* The turns in the order in which the sum grows, each with the value of its own term, or of the one before that. */
static tn_node *run_along(pass *p, const chosen *x, const reach *s) {
  tn_ctx *c = p->l->c;
  tn_node *zero = tn__int(c, 0), *count = s->turn->src[0], *last = tn__add(c, count, tn__int(c, -1)), *term = x->term;
  tn_node *along = tn__range_like(c, s->turn, count, AX_ORDER), *at = along, *turn = s->turn, *sum = x->sum;
  /* a thread that has whole blocks fetches them as they lie: of integers, its own is taken off again */
  bool off = s->beside && p->l->target->group && tn__is_int(sum->dtype) && sum->ints[0] == OP_ADD;
  bool beside = s->beside && !off;
  if (beside) at = tn__op2(c, OP_MAX, tn__add(c, along, tn__int(c, -1)), zero);
  if (s->back) at = tn__sub(c, last, at);
  tn_node *value = tn__substitute(c, x->value, &term, &at, 1);
  if (beside) value = tn__where(c, tn__op2(c, OP_LT, zero, along), value, x->nothing);
  tn_node *by = running(c, x, value, along), *rest = s->back ? rest_of(p, x, count) : NULL;
  if (off) by = tn__sub(c, by, value);
  if (rest) by = tn__op2(c, (tn__op)sum->ints[0], by, rest);
  at = s->back ? tn__sub(c, last, along) : along;
  tn__sb_printf(&p->l->note, " running(%lld,%lld)", tn__id_of(turn), tn__id_of(term));
  tn_node *body = tn__exchange_ranges(p->l, tn__substitute(c, p->body, &sum, &by, 1), &turn, &at, 1, &along, 1);
  return tn__simplify_accesses(c, p->l->a, body);
}

/* What casts take for values of what loops count */
static tn_node *simplify_numbers(tn__lowering *l, tn_node *body) {
  tn__nodes all = {0}, old = {0}, new_ = {0};
  tn__topo(l->a, &body, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    tn_node *x = all.v[i]->op == OP_CAST ? all.v[i]->src[0] : NULL;
    tn_node *better = x && x->dtype == TN__INDEX && !x->loaded ? tn__simplify_index(l->c, x) : x;
    if (better == x) continue;
    tn__vec_push(l->a, &old, x);
    tn__vec_push(l->a, &new_, better);
  }
  return tn__substitute(l->c, body, old.v, new_.v, old.n);
}

/* The loop that the number is a digit of, which is cut for one of its own to count it; and by how many; NULL: none. */
/* a choice: no is right */
static tn_node *flat_loop(const pass *p, const tn_node *number, int64_t *by) {
  const tn_node *of = number->op == OP_MOD && number->src[0]->op == OP_IDIV ? number->src[0] : number;
  if ((of->op != OP_MOD && of->op != OP_IDIV) || !tn__const_int(of->src[1], by) || *by < 2) return NULL;
  tn_node *flat = of->src[0];
  if (flat->op != OP_RANGE || tn__axis_of(flat) != AX_LOOP || tn__role_of(flat) != ROLE_OUTPUT || flat->hi < *by)
    return NULL;
  return tn__bounds_loops(&p->s.r, (uint32_t)tn__range_at(&p->s.r, flat)) ? NULL : flat;
}

/* Threads that run in step all have whole blocks, of the last one, too. */
static tn_node *cut_flat(pass *p, tn_node *flat, int64_t by) {
  tn_ctx *c = p->l->c;
  tn_node *parts[2], *size = flat->src[0];
  bool whole = p->l->target->group && !tn__divisible(size, by);
  tn__sb_printf(&p->l->note, " cut(%lld,%lld)", tn__id_of(flat), (long long)by);
  p->body = (whole ? tn__cut_whole : tn__cut)(p->l, p->body, flat, by, AX_LOOP, AX_LOOP, parts);
  p->body = tn__simplify_accesses(c, p->l->a, simplify_numbers(p->l, p->body));
  tn_node *at = tn__add(c, tn__mul(c, parts[0], tn__int(c, by)), parts[1]);
  if (whole) p->body = tn__gate_accesses(p->l, p->body, tn__op2(c, OP_LT, at, size), parts[1], NULL);
  return parts[1];
}

/* The same sum in the body as it is now, with a turn of its own */
/* a choice: no is right */
static bool find_again(pass *p, const tn_node *term, const tn_node *turn, chosen *x, reach *s) {
  tn__survey_loops(p->l->c, p->l->a, p->body, &p->s);
  for (uint32_t i = 0; i < p->s.r.order.n; i++)
    if (is_chosen(p, p->s.r.order.v[i], x) && x->term == term && compares(p, x, x->where, s) && s->turn == turn)
      return is_turn(p, x, turn) && !hangs_on(p, x->value, turn);
  return false;
}

/* Is there a turn's loop, or one that can be cut for one?  Then the sum, as it is now, and which terms a turn takes. */
/* a choice: no is right */
static bool has_turn(pass *p, chosen *x, reach *s) {
  int64_t size, terms;
  if (!compares(p, x, x->where, s) || closes_within(p, x->value, x->term)) return false;
  if (is_turn(p, x, s->turn)) return !hangs_on(p, x->value, s->turn);
  tn_node *flat = s->turn->op == OP_MOD ? flat_loop(p, s->turn, &size) : NULL;
  if (!flat || s->turn->src[0] != flat || !tn__const_int(x->term->src[0], &terms) || size != terms) return false;
  return find_again(p, x->term, cut_flat(p, flat, size), x, s);
}

/* Does a value run along these turns already?  Turned round, they would not be its own. */
static bool runs_along(const pass *p, const tn_node *turn) {
  for (uint32_t i = 0; i < p->s.r.order.n; i++)
    if (p->s.r.order.v[i]->op == OP_RUNNING && p->s.r.order.v[i]->src[1] == turn) return true;
  return false;
}

/* Along the turns of a thread, or by all threads of a group, if `fetched` only where they fetch what they sum up.
 * Where a sum runs along the remainders of a loop's number, that loop is cut in two. */
/* a choice: no is right */
static bool run(pass *p, const chosen *x, bool by_group, bool fetched) {
  pass whole = *p;
  chosen now = *x;
  reach s;
  tn__sb note = p->l->note;
  tn_node *body = NULL;
  if (has_turn(p, &now, &s) && !(s.back && runs_along(p, s.turn))) {
    tn__run in_group = {now.sum, s.turn, now.term, now.value, s.back, s.beside, fetched};
    body = by_group ? tn__run_in_group(p->l, p->body, &in_group) : run_along(p, &now, &s);
  }
  if (!body) {
    *p = whole;
    p->l->note = note;
    return false;
  }
  p->body = body;
  return true;
}

/* ---- tables ---- */

/* Sums of terms by a key, which is one of `keys` numbers; others do not count where it is `open`. */
typedef struct tally {
  tn_node *key, *keys;
  tn_node *with; /* what the key is compared with: a key of the turn's, or the turn itself */
  bool open;
} tally;

/* The key of a term that `equal` compares with what does not hang on the term */
/* a choice: no is right */
static bool has_key(const pass *p, const chosen *x, const tn_node *equal, tally *out) {
  if (equal->op != OP_EQ || !tn__is_int(equal->src[0]->dtype)) return false;
  for (int side = 0; side < 2; side++) {
    *out = (tally){.key = bare(equal->src[side]), .with = bare(equal->src[!side])};
    if (hangs_on(p, out->key, x->term) && !hangs_on(p, out->with, x->term)) return true;
  }
  return false;
}

/* All loops of outputs but that of the turn become one, of each turn of which there will be a table.  False: they are,
 * *outer, NULL if there are none. */
static bool unite(pass *p, const tn_node *turn, tn_node **outer) {
  tn_node *x[TN__MAX_RANGES];
  uint32_t n = 0;
  *outer = NULL;
  for (uint32_t k = 0; k < p->s.r.n; k++) {
    tn_node *range = p->s.r.range[k];
    if (tn__axis_of(range) == AX_GLOBAL) *outer = range;
    if (!(p->s.outputs >> k & 1) || range == turn) continue;
    uint32_t at = n++;
    for (; at && tn__id_of(x[at - 1]) > tn__id_of(range); at--) x[at] = x[at - 1];
    x[at] = range;
  }
  if (!n) return false;
  p->body = n > 1 ? tn__as_one(p->l, p->body, x, n, AX_GLOBAL, outer) : tn__retype(p->l->c, p->body, x[0], AX_GLOBAL);
  return true;
}

/* A digit of a flat loop's number gets a loop of its own.  False: it is none. */
static bool cut_digit(pass *p, const tn_node *number) {
  int64_t by, size;
  tn_node *flat = flat_loop(p, number, &by);
  if (!flat || !tn__const_int(flat->src[0], &size) || size % by) return false;
  cut_flat(p, flat, by);
  return true;
}

/* Are all stores in the same loops, which hang on no other, and the sum on all of them but for the turn?  Then there is
 * a table for each turn of the others, and none is filled twice. */
/* a choice: no is right */
static bool has_own_tables(const pass *p, const tn_node *sum, const tn_node *turn) {
  uint64_t others = p->s.outputs & ~(1ull << tn__range_at(&p->s.r, turn));
  for (uint32_t k = 0; k < p->s.r.n; k++)
    if (tn__bounds_loops(&p->s.r, k)) return false;
  for (uint32_t i = 0; i < p->body->nsrc; i++)
    if (p->body->src[i]->op != OP_STORE) return false;
  return p->s.outputs == p->s.common && !(others & ~tn__free_of(&p->s.r, sum)) && may_be_innermost(p, sum, turn);
}

/* ... of a kernel of one store */
/* a choice: no is right */
static bool may_have_tables(const pass *p, const tn_node *sum, const tn_node *turn) {
  return p->body->nsrc == 1 && has_own_tables(p, sum, turn);
}

/* A table full of zeros, one for each turn of the loop around */
static tn_node *empty_table(pass *p, int dtype, tn_node *keys, tn_node *outer) {
  tn_ctx *c = p->l->c;
  tn_node *src[2] = {keys, outer}, *at = tn__fresh_range(p->l, keys, AX_REDUCE, ROLE_KEPT);
  tn_node *table = tn__node_make(c, &(tn__make){.op = OP_LOCAL, .dtype = dtype, .src = src, .nsrc = outer ? 2 : 1,
                                                .ints = (int64_t[]){p->l->next_local++, 0}, .nint = 2, .device = -1});
  return tn__filled(c, table, at, tn__const_num(c, dtype, 0), &at, 1);
}

/* The table with all terms in it */
static tn_node *full_table(pass *p, const chosen *x, const tally *t, tn_node *table) {
  tn_ctx *c = p->l->c;
  tn_node *at = tn__cast(c, t->key, TN__INDEX), *term = x->term, *src[5] = {table, at, x->value};
  uint32_t n = 3;
  if (t->open) src[n++] = tn__op2(c, OP_AND, tn__op2(c, OP_LE, tn__int(c, 0), at), tn__op2(c, OP_LT, at, t->keys));
  tn_node *own = src[n++] = tn__fresh_range(p->l, term->src[0], AX_ORDER, ROLE_UPDATE);
  for (uint32_t i = 1; i + 1 < n; i++) src[i] = tn__substitute(c, src[i], &term, &own, 1);
  tn_node *add = tn__node_make(c, &(tn__make){.op = OP_STOREADD, .src = src, .nsrc = n});
  return tn__behind(c, table->src[0], add);
}

static void replace(pass *p, tn_node *sum, tn_node *by, tn_node *turn) {
  tn_node *along = tn__range_like(p->l->c, turn, turn->src[0], AX_ORDER);
  p->body = tn__substitute(p->l->c, p->body, &sum, &by, 1);
  p->body = tn__substitute(p->l->c, p->body, &turn, &along, 1);
  p->body = tn__simplify_accesses(p->l->c, p->l->a, p->body);
}

/* Is it the only sum?  Others would be worked out again for each of a group's threads. */
/* a choice: no is right */
static bool is_alone(const pass *p, const chosen *x) {
  for (uint32_t i = 0; i < p->s.r.order.n; i++) {
    const tn_node *n = p->s.r.order.v[i];
    if ((n->op == OP_REDUCE && n != x->sum) || n->op == OP_RUNNING || n->op == OP_LOCAL) return false;
  }
  return true;
}

/* May a group's threads count these terms? */
/* a choice: no is right */
static bool suits_tables(const pass *p, const chosen *x, const tn_node *key, int64_t keys) {
  if (!is_alone(p, x)) return false;
  return x->value == tn__const_num(p->l->c, x->sum->dtype, 1) && tn__is_int(x->sum->dtype) && key->lo >= 0 &&
         key->hi < keys && tn__has_tables(p->l, x->term, keys);
}

/* So they do. */
static bool count_in_group(pass *p, const tn__key_count *of) {
  p->body = tn__tally_in_group(p->l, p->body, of);
  return true;
}

/* May there be tables of the turns that keys are compared with? */
/* a choice: no is right */
static bool is_numbered(const pass *p, const chosen *x, const tally *t) {
  const tn_node *turn = t->with;
  return turn->op == OP_RANGE && tn__axis_of(turn) == AX_LOOP && tn__role_of(turn) == ROLE_OUTPUT &&
         tn__is_const(turn->src[0]) && hangs_on_outputs(p, x, turn) && may_have_tables(p, x->sum, turn) &&
         !hangs_on(p, x->value, turn) && !hangs_on(p, t->key, turn);
}

/* Sums of the terms whose key is the turn's number */
/* a choice: no is right */
static bool tally_by_number(pass *p, const chosen *x) {
  tally t;
  bool group = p->l->target->group;
  if (!has_key(p, x, x->where, &t)) return false;
  if (group && (t.with->hi >= LARGEST_TABLE || !suits_tables(p, x, t.key, t.with->hi + 1))) return false;
  if (cut_digit(p, t.with)) return true;
  if (t.with->hi >= LARGEST_TABLE || !is_numbered(p, x, &t)) return false;
  tn_node *outer;
  if (unite(p, t.with, &outer)) return true;
  if (group)
    return count_in_group(p, &(tn__key_count){.sum = x->sum, .turn = t.with, .term = x->term, .key = t.key,
                                              .with = t.with, .outer = outer, .keys = t.with->hi + 1,
                                              .by_number = true});
  t.keys = t.with->src[0];
  t.open = t.key->lo < 0 || t.key->hi > t.with->hi;
  tn__sb_printf(&p->l->note, " tally(%lld,%lld)", tn__id_of(t.with), tn__id_of(x->term));
  tn_node *src[2] = {full_table(p, x, &t, empty_table(p, x->sum->dtype, t.keys, outer)), t.with};
  tn_node *sum = tn__node_make(p->l->c, &(tn__make){.op = OP_LOAD, .src = src, .nsrc = 2});
  replace(p, x->sum, sum, t.with);
  return true;
}

/* Is it the turn's own key that the keys of its terms are compared with? */
/* a choice: no is right */
static bool is_own_key(const pass *p, const chosen *x, const tally *t, tn_node *turn) {
  tn_ctx *c = p->l->c;
  tn_node *term = x->term, *own = tn__substitute(c, t->key, &term, &turn, 1);
  return own == t->with || tn__simplify_accesses(c, p->l->a, own) == tn__simplify_accesses(c, p->l->a, t->with);
}

/* Sums of the terms up to a turn that have its key */
/* a choice: no is right */
static bool tally_by_key(pass *p, const chosen *x) {
  tally t;
  reach s;
  const tn_node *both = x->where;
  if (both->op != OP_AND) return false;
  int at = compares(p, x, both->src[0], &s) ? 1 : 0;
  if (!compares(p, x, both->src[!at], &s) || s.back || !has_key(p, x, both->src[at], &t)) return false;
  int64_t values = TN__TALLY_PARTS;
  while (values <= t.key->hi && values < TN__TALLY_KEYS) values *= 2;
  bool group = p->l->target->group;
  if (group && !suits_tables(p, x, t.key, values)) return false;
  if (cut_digit(p, s.turn)) return true;
  if (!is_turn(p, x, s.turn) || !is_own_key(p, x, &t, s.turn) || hangs_on(p, x->value, s.turn)) return false;
  if (t.key->lo < 0 || t.key->hi >= LARGEST_TABLE || !may_have_tables(p, x->sum, s.turn)) return false;
  if (s.beside && !tn__is_int(x->sum->dtype)) return false;
  if ((double)t.key->hi > KEYS_OF_TERM * tn__extent(x->term)) return false; /* a choice: either is right */
  if (group && s.turn->hi != x->term->hi) return false;
  tn_node *outer;
  if (unite(p, s.turn, &outer)) return true;
  if (group)
    return count_in_group(p, &(tn__key_count){.sum = x->sum, .turn = s.turn, .term = x->term, .key = t.key,
                                              .with = t.with, .outer = outer, .keys = values, .beside = s.beside});
  tn_ctx *c = p->l->c;
  tn_node *keys = tn__int(c, t.key->hi + 1), *term = x->term, *along = s.turn;
  tn_node *src[4] = {tn__substitute(c, x->value, &term, &along, 1), along,
                     empty_table(p, x->sum->dtype, keys, outer), tn__cast(c, t.with, TN__INDEX)};
  tn_node *sum =
      tn__node_make(c, &(tn__make){.op = OP_RUNNING, .src = src, .nsrc = 4, .ints = x->sum->ints, .nint = 1});
  if (s.beside) sum = tn__sub(c, sum, src[0]);
  tn__sb_printf(&p->l->note, " tally(%lld,%lld)", tn__id_of(s.turn), tn__id_of(term));
  replace(p, x->sum, sum, s.turn);
  return true;
}

/* Nothing is summed up for each of its terms. */
/* a choice: no is right */
static bool adds_terms(const pass *p, const chosen *x) {
  return x->sum->ints[0] == OP_ADD && !closes_within(p, x->where, x->term) && !closes_within(p, x->value, x->term);
}

/* a choice: no is right */
static bool tallies(pass *p, const chosen *x) {
  return adds_terms(p, x) && (tally_by_number(p, x) || tally_by_key(p, x));
}

/* ---- exchanges ---- */

/* The sums of the body, if all are of terms whose key is the number of the same turn, and what these keys are made of,
 * if that is how many terms before each have its own key.  None: there are others, or too many. */
typedef struct exchange {
  tn__key_sum sum[TN__MOST_EXCHANGED];
  uint32_t n;
  tn_node *turn;
  tn__key_count rank; /* sum: NULL, there is none */
} exchange;

/* How many terms of a sum's term's key there are before it, counted by threads in step */
/* a choice: no is right */
static bool is_rank(const pass *p, tn_node *sum, tn__key_count *out) {
  chosen x;
  tally t;
  reach s;
  if (!is_chosen(p, sum, &x) || x.where->op != OP_AND || !adds_terms(p, &x)) return false;
  int at = compares(p, &x, x.where->src[0], &s) ? 1 : 0;
  if (!compares(p, &x, x.where->src[!at], &s) || s.back || !has_key(p, &x, x.where->src[at], &t)) return false;
  if (s.turn->op != OP_RANGE || tn__axis_of(s.turn) != AX_REDUCE || s.turn->hi != x.term->hi ||
      !is_own_key(p, &x, &t, s.turn) || t.key->lo < 0 || t.key->hi >= TN__TALLY_KEYS)
    return false;
  *out = (tn__key_count){.sum = sum, .turn = s.turn, .term = x.term, .key = t.key, .with = t.with,
                         .keys = TN__TALLY_PARTS, .beside = s.beside};
  while (out->keys <= t.key->hi) out->keys *= 2;
  return x.value == tn__const_num(p->l->c, sum->dtype, 1) && tn__is_int(sum->dtype);
}

/* Is nothing summed up for each of its terms, but what all keys are made of? */
/* a choice: no is right */
static bool adds_ranked(const pass *p, const chosen *x, const tn__key_count *rank) {
  if (!rank->sum) return adds_terms(p, x);
  tn_node *sum = rank->sum, *none = tn__const_num(p->l->c, sum->dtype, 0);
  chosen without = *x;
  without.where = tn__substitute(p->l->c, x->where, &sum, &none, 1);
  return rank->turn == x->term && adds_terms(p, &without);
}

/* a choice: no is right */
static bool find_exchange(const pass *p, exchange *e) {
  *e = (exchange){0};
  for (uint32_t i = 0; i < p->s.r.order.n; i++) { /* what keys are made of before them */
    tn_node *sum = p->s.r.order.v[i];
    tn__key_count rank;
    chosen x;
    tally t;
    if (sum->op == OP_RUNNING || sum->op == OP_LOCAL) return false;
    if (sum->op != OP_REDUCE) continue;
    if (is_rank(p, sum, &rank)) {
      if (e->rank.sum) return false;
      e->rank = rank;
      continue;
    }
    if (e->n == TN__MOST_EXCHANGED || !is_chosen(p, sum, &x) || !has_key(p, &x, x.where, &t) ||
        !adds_ranked(p, &x, &e->rank) || (e->turn && e->turn != t.with))
      return false;
    e->turn = t.with;
    e->sum[e->n++] = (tn__key_sum){.sum = sum, .term = x.term, .key = t.key, .value = x.value};
  }
  return e->n > 0;
}

/* Does the body count ranks of terms?  Then it is made as simple as can be, and the same loops are one: so that there
 * is one such sum. */
static void unite_ranks(pass *p) {
  tn__key_count rank;
  bool any = false;
  for (uint32_t i = 0; i < p->s.r.order.n && !any; i++) any = is_rank(p, p->s.r.order.v[i], &rank);
  if (!any) return;
  p->body = tn__share_loops(p->l, tn__simplify_accesses(p->l->c, p->l->a, p->body));
  tn__survey_loops(p->l->c, p->l->a, p->body, &p->s);
}

/* Whole numbers that go to other places of a block, by the threads of a group */
/* a choice: no is right */
static bool exchanges(pass *p) {
  exchange e;
  tn_node *outer;
  unite_ranks(p);
  if (!find_exchange(p, &e) || e.turn->hi == INT64_MAX) return false;
  const tn__key_count *rank = e.rank.sum ? &e.rank : NULL;
  if (!tn__may_exchange(p->l, p->body, e.turn->hi + 1, e.sum, e.n, rank)) return false;
  if (cut_digit(p, e.turn)) return true;
  if (e.turn->op != OP_RANGE || tn__axis_of(e.turn) != AX_LOOP || tn__role_of(e.turn) != ROLE_OUTPUT) return false;
  for (uint32_t i = 0; i < e.n; i++)
    if (!has_own_tables(p, e.sum[i].sum, e.turn) || hangs_on(p, e.sum[i].value, e.turn) ||
        hangs_on(p, e.sum[i].key, e.turn))
      return false;
  if (unite(p, e.turn, &outer)) return true;
  e.rank.outer = outer;
  p->body = tn__exchange_in_group(p->l, p->body, e.turn, outer, e.sum, e.n, rank);
  return true;
}

/* ---- lines ---- */

/* Sums by places of lines, of which groups have whole ones, if they are not counted or sent as words. */
/* a choice: no is right */
static bool sums_lines(pass *p) {
  chosen x = {.sum = NULL};
  tally t;
  for (uint32_t i = 0; i < p->s.r.order.n; i++)
    if (p->s.r.order.v[i]->op == OP_REDUCE && (x.sum || !is_chosen(p, p->s.r.order.v[i], &x))) return false;
  if (!x.sum || !is_alone(p, &x) || !adds_terms(p, &x) || !has_key(p, &x, x.where, &t) || !is_numbered(p, &x, &t))
    return false;
  tn__key_sum of = {.sum = x.sum, .term = x.term, .key = t.key, .value = x.value};
  tn_node *body = tn__sum_lines(p->l, p->body, t.with, &of);
  if (body) p->body = body;
  return body;
}

/* On devices of groups a thread goes along the turns: short loops leave enough to the others, if there are no longer
 * ones beside them, and nothing is held for all threads. */
/* a choice: no is right */
static bool suits_threads(const pass *p, const chosen *x) {
  int64_t terms;
  if (!tn__const_int(x->term->src[0], &terms) || terms > TN__THREADS_TURNS) return false;
  double threads = tn__volume(&p->s, p->s.outputs) / (double)terms;
  if (threads < (double)p->l->target->units * ENOUGH * p->l->target->subgroup) return false;
  for (uint32_t i = 0; i < p->s.r.order.n; i++) {
    const tn_node *n = p->s.r.order.v[i];
    if (n->op == OP_LOCAL) return false;
    if (n->op == OP_REDUCE && tn__volume(&p->s, tn__own_of(&p->s.r, n)) > TN__THREADS_TURNS) return false;
  }
  return true;
}

/* Do its terms lie side by side in memory? */
/* a choice: either is right */
static bool lies_along(const pass *p, const chosen *x) {
  tn__nodes all = {0};
  tn__topo(p->l->a, &x->value, 1, &all);
  for (uint32_t i = 0; i < all.n; i++) {
    if (all.v[i]->op != OP_LOAD) continue;
    int64_t by = tn__stride(&p->s.r, all.v[i]->src[1], (uint32_t)tn__range_at(&p->s.r, x->term));
    if (by == 1 || by == -1) return true;
  }
  return false;
}

/* Are threads that take a loop each too few for units to do anything while these wait for each of their turns? */
/* a choice: either is right */
static bool are_few(const pass *p, int64_t terms) {
  double threads = tn__volume(&p->s, p->s.outputs) / (double)terms;
  return threads < (double)p->l->target->units * p->l->target->unit_threads / ENOUGH;
}

/* ... and long ones to all of one, as those that lie side by side, or are few, and are more than a thread has at once;
 * but in mode strict: they add up in another order. */
/* a choice: no is right */
static bool suits_group(const pass *p, const chosen *x) {
  int64_t terms;
  if (p->l->c->mode == TN_MODE_STRICT || !tn__const_int(x->term->src[0], &terms)) return false;
  return terms > TN__THREADS_TURNS || (terms > TN__SCAN_OWN && (lies_along(p, x) || are_few(p, terms)));
}

/* ... or short ones, which threads go along each, or a few of them, and a group fetches together */
/* a choice: no is right */
static bool may_be_fetched(const pass *p, const chosen *x) {
  return p->l->variant->fetched && p->l->c->mode != TN_MODE_STRICT && x->term->hi < TN__THREADS_TURNS;
}

static bool step(pass *p, tn_node *sum, bool by_group) {
  chosen x;
  if (!is_chosen(p, sum, &x)) return false;
  if (by_group) {
    return (may_be_fetched(p, &x) && run(p, &x, true, true)) || (suits_group(p, &x) && run(p, &x, true, false)) ||
           tallies(p, &x);
  }
  if (p->l->target->group) return suits_threads(p, &x) && run(p, &x, false, false);
  return run(p, &x, false, false) || tallies(p, &x);
}

static bool any_step(pass *p, bool by_group) {
  bool done = false;
  tn__survey_loops(p->l->c, p->l->a, p->body, &p->s);
  for (uint32_t i = 0; i < p->s.r.order.n && !done; i++) done = step(p, p->s.r.order.v[i], by_group);
  return done || (by_group && (exchanges(p) || sums_lines(p)));
}

/* a choice: no is right */
bool tn__has_short_runs(tn_ctx *c, const tn__target *target, tn_node *body) {
  tn__lowering l = {.c = c, .a = &c->scratch, .target = target};
  pass p = {.l = &l, .body = body};
  chosen x;
  reach s;
  bool any = false;
  tn__survey_loops(c, l.a, body, &p.s);
  for (uint32_t i = 0; i < p.s.r.order.n && !any; i++)
    any = is_chosen(&p, p.s.r.order.v[i], &x) && x.term->hi < TN__THREADS_TURNS && compares(&p, &x, x.where, &s);
  return any;
}

tn_node *tn__running(tn__lowering *l, tn_node *body) {
  pass p = {.l = l, .body = body};
  while (any_step(&p, false)) continue;
  return p.body;
}

tn_node *tn__running_by_group(tn__lowering *l, tn_node *body) {
  pass p = {.l = l, .body = body};
  while (l->target->group && !l->threads && any_step(&p, true)) continue;
  return p.body;
}
